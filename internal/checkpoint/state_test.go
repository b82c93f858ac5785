package checkpoint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

const cleanState = `0
5
log-start-offset 0
recovery-point 41022
clean-end-offset 41022
clean-segment 0
clean-size 1048576
crc 43d7bb79
`

// As it is written now, but for the padding.
const writtenState = `0
7
log-start-offset 0
recovery-point 41022
clean-end-offset 41022
clean-segment 0
clean-size 1048576
sequence 3
padding %s
crc 0b5fa2c9
`

const openState = `0
2
log-start-offset 7
recovery-point 41022
crc b6ef7d0a
`

const durableState = `0
3
log-start-offset 7
recovery-point 41022
durable-end-offset 41020
crc 8d62edd0
`

func TestStateFileIsAsDocumented(t *testing.T) {
	written := fmt.Sprintf(writtenState, strings.Repeat(".", 377))
	require.Len(t, written, 512)
	closed := State{RecoveryPoint: 41022, Clean: &CleanMark{EndOffset: 41022, Size: 1 << 20}, Sequence: 3}
	require.Equal(t, written, string(AppendState(nil, closed)))
	require.Equal(t, "head"+written, string(AppendState([]byte("head"), closed)))
	old := closed
	old.Sequence = 0
	tests := []struct {
		name, text string
		state      State
	}{
		{"as it is written", written, closed},
		{"closed cleanly", cleanState, old},
		{"with a durable end", durableState, State{LogStartOffset: 7, RecoveryPoint: 41022, DurableEnd: 41020}},
		{"in use", openState, State{LogStartOffset: 7, RecoveryPoint: 41022}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseState([]byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.state, got)
			again, err := ParseState(AppendState(nil, got))
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

// What is written in place has to have one size, whatever is in it.
func TestEachStateFillsASector(t *testing.T) {
	most := State{math.MaxInt64, math.MaxInt64, true, math.MaxInt64, math.MaxInt64, math.MaxInt64,
		&CleanMark{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64}
	for _, s := range []State{{}, most, {LogStartOffset: 10, Clean: &CleanMark{}}} {
		require.Len(t, AppendState(nil, s), 512)
	}
}

// sealed returns body with the checksum that makes it whole.
func sealed(body string) []byte { return appendChecksum([]byte(body), []byte(body)) }

func TestStateSkipsKeysOfLaterVersions(t *testing.T) {
	got, err := ParseState(sealed("0\n4\nrecovery-point 2\nfuture some words\nlog-start-offset 1\nother \n"))
	require.NoError(t, err)
	require.Equal(t, State{LogStartOffset: 1, RecoveryPoint: 2}, got)
}

func TestStateIsNeverTrustedHalf(t *testing.T) {
	for n := range len(cleanState) {
		_, err := ParseState([]byte(cleanState[:n]))
		require.ErrorIs(t, err, ErrCorrupt, "first %d bytes", n)
	}
	for n := range len(cleanState) {
		damaged := []byte(cleanState)
		damaged[n] ^= 0x04
		_, err := ParseState(damaged)
		require.ErrorIs(t, err, ErrCorrupt, "bit flipped in byte %d", n)
	}
}

func TestStateNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, `want checksum in the last line, found ""`},
		{"zeros", make([]byte, 20), `want last line "crc bb3e6a6d\n", found "` + `\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"`},
		{"later version", sealed("1\n0\n"), `line 1: want version 0, found "1"`},
		{"no recovery point", sealed("0\n1\nlog-start-offset 1\n"), `want a line for recovery-point, found ""`},
		{"no log start", sealed("0\n1\nrecovery-point 1\n"), `want a line for log-start-offset, found ""`},
		{"half a clean mark", sealed("0\n4\nlog-start-offset 1\nrecovery-point 1\nclean-end-offset 1\nclean-size 1\n"),
			`want all of clean-end-offset, clean-segment and clean-size, or none, found ""`},
		{"a key twice", sealed("0\n2\nrecovery-point 1\nrecovery-point 1\n"), `line 4: want each key once, found "recovery-point"`},
		{"negative", sealed("0\n1\nrecovery-point -1\n"), `line 3: want recovery-point and a number from 0, found "-1"`},
		{"too large", sealed("0\n1\nclean-size 9223372036854775808\n"), `line 3: want clean-size and a number from 0, found "9223372036854775808"`},
		{"no value", sealed("0\n1\nrecovery-point\n"), `line 3: want key value, found "recovery-point"`},
		{"no key", sealed("0\n1\n 5\n"), `line 3: want key value, found " 5"`},
		{"too few lines", sealed("0\n3\nlog-start-offset 1\nrecovery-point 1\n"), `line 2: want number of entries 2, found "3"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "seglog.state")
			require.NoError(t, os.WriteFile(path, tt.data, 0o644))
			got, err := ReadState(vfs.OS, path)
			require.Zero(t, got)
			require.ErrorIs(t, err, ErrCorrupt)
			require.EqualError(t, err, path+": "+tt.want)
		})
	}
}

// FuzzParseState: never panics; what parses is what comes back from writing it.
// The body is also tried with a matching checksum, or nothing would get past it.
func FuzzParseState(f *testing.F) {
	for _, seed := range []string{
		"", cleanState, openState, durableState, fmt.Sprintf(writtenState, "..."),
		"0\n2\nlog-start-offset 1\nrecovery-point 2\n",
		"0\n4\nrecovery-point 2\nfuture some words\nlog-start-offset 1\nother \n",
		"0\n5\nlog-start-offset 1\nrecovery-point 1\nclean-end-offset 1\nclean-segment 0\nclean-size 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, sealed(string(data))} {
			s, err := ParseState(data)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				continue
			}
			again, err := ParseState(AppendState(nil, s))
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
}
