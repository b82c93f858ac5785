package record

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLegacyChecksumIsThatOfTheMessageInside(t *testing.T) {
	messages := legacySet(inner(1, 0, 1)...)
	messages[len(messages)-1]++ // the second is damaged
	var c compressor
	value, err := c.appendEncoded(nil, messages, Gzip, 0)
	require.NoError(t, err)
	b := parse(t, appendLegacy(nil, legacyMessage{magic: 1, offset: 1, codec: Gzip, value: value}))

	var it Iterator
	require.NoError(t, it.Reset(b))
	_, _, ok := it.LegacyChecksum()
	require.False(t, ok, "before the first record")

	require.True(t, it.Next())
	stored, valid, ok := it.LegacyChecksum()
	require.True(t, ok)
	require.True(t, valid)
	require.Equal(t, crc32.ChecksumIEEE(messages[magicPos:len(messages)/2]), stored)

	require.True(t, it.Next())
	_, valid, ok = it.LegacyChecksum()
	require.True(t, ok)
	require.False(t, valid)
}

func TestRecordsOfMagic2HaveNoChecksum(t *testing.T) {
	var it Iterator
	require.NoError(t, it.Reset(parse(t, build(t, BuilderOptions{}, Record{}))))
	require.True(t, it.Next())
	_, _, ok := it.LegacyChecksum()
	require.False(t, ok)
}
