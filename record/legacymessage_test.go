package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLegacyMessageIsWhatTheRecordWasDecodedFrom(t *testing.T) {
	messages := inner(1, 0, 1)
	b := parse(t, wrap(t, legacyMessage{magic: 1, offset: 8, codec: Gzip}, messages...))
	var it Iterator
	require.NoError(t, it.Reset(b))
	require.Nil(t, it.LegacyMessage(), "before the first record")
	for i := range messages {
		require.True(t, it.Next())
		require.Equal(t, appendLegacy(nil, messages[i]), it.LegacyMessage())
	}
	plain := parse(t, appendLegacy(nil, messages[0]))
	require.NoError(t, it.Reset(plain))
	require.True(t, it.Next())
	require.Equal(t, plain.Bytes(), it.LegacyMessage())
}

func TestRecordsOfMagic2WereNoMessage(t *testing.T) {
	var it Iterator
	require.NoError(t, it.Reset(parse(t, build(t, BuilderOptions{}, Record{}))))
	require.True(t, it.Next())
	require.Nil(t, it.LegacyMessage())
}
