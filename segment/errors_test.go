package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

func TestAnErrorNamesItsOffsetOnce(t *testing.T) {
	cause := &record.Error{Kind: record.ErrCorrupt, BaseOffset: 15, Record: -1, Field: "crc", Detail: "mismatch"}
	err := &CorruptionError{File: "00000000000000000000.log", Position: 461, FirstOffset: 15, LastOffset: 19, Err: cause}
	require.Equal(t, "00000000000000000000.log: position 461, offset 15: crc mismatch", err.Error())
	err.FirstOffset = -1 // nobody knows whether it says the truth
	require.Equal(t, "00000000000000000000.log: position 461: offset 15: crc mismatch", err.Error())
}
