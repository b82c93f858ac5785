package txnindex

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// annotated prints the entries of b, a line for each field.
func annotated(b []byte) string {
	fields := []struct {
		size int
		name string
	}{{2, "version"}, {8, "producer id"}, {8, "first offset"}, {8, "last offset"}, {8, "last stable offset"}}
	var text strings.Builder
	for at := 0; at < len(b); {
		for _, f := range fields {
			fmt.Fprintf(&text, "%02d-%02d: % x # %s\n", at, at+f.size, b[at:at+f.size], f.name)
			at += f.size
		}
	}
	return text.String()
}

// The entry of TransactionIndexTest.java.
func TestEntryIsThirtyFourBytes(t *testing.T) {
	e := Entry{ProducerID: 983493, FirstOffset: 137, LastOffset: 299, LastStableOffset: 200}
	b := AppendEntry(nil, e)
	require.Equal(t, `00-02: 00 00 # version
02-10: 00 00 00 00 00 0f 01 c5 # producer id
10-18: 00 00 00 00 00 00 00 89 # first offset
18-26: 00 00 00 00 00 00 01 2b # last offset
26-34: 00 00 00 00 00 00 00 c8 # last stable offset
`, annotated(b))
	require.Equal(t, "000000000000000f01c50000000000000089000000000000012b00000000000000c8", hex.EncodeToString(b))
	got, err := ParseEntry(append(b, 0xff))
	require.NoError(t, err)
	require.Equal(t, e, got)
}

func TestParseEntryRefusesOtherVersions(t *testing.T) {
	for _, version := range []string{"\x00\x07", "\x01\x00", "\xff\xff"} {
		_, err := ParseEntry([]byte(version + strings.Repeat("\x00", 32)))
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "version")
	}
	_, err := ParseEntry(make([]byte, EntrySize-1))
	require.ErrorIs(t, err, ErrCorrupt)
	require.EqualError(t, err, "entry 0: 33 bytes, an entry has 34")
}
