package checkpoint

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
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
	tests := []struct {
		name, text string
		state      State
	}{
		{"closed cleanly", cleanState, State{RecoveryPoint: 41022, Clean: &CleanMark{EndOffset: 41022, Size: 1 << 20}}},
		{"with a durable end", durableState, State{LogStartOffset: 7, RecoveryPoint: 41022, DurableEnd: 41020}},
		{"in use", openState, State{LogStartOffset: 7, RecoveryPoint: 41022}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.text, string(AppendState(nil, tt.state)))
			require.Equal(t, "head"+tt.text, string(AppendState([]byte("head"), tt.state)))
			got, err := ParseState([]byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.state, got)
		})
	}
}

func TestStateComesBack(t *testing.T) {
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	_, err := files.Read()
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, s := range []State{
		{},
		{LogStartOffset: math.MaxInt64, RecoveryPoint: math.MaxInt64, DurableEnd: math.MaxInt64},
		{LogStartOffset: 1, RecoveryPoint: 2, DurableEnd: 2, Clean: &CleanMark{EndOffset: 3, Segment: 4, Size: 5}},
		{LogStartOffset: 1, RecoveryPoint: 2},
	} {
		require.NoError(t, files.Write(s))
		for _, name := range []string{"seglog.state", "seglog.state.copy"} {
			got, err := ReadState(vfs.OS, filepath.Join(files.Dir, name))
			require.NoError(t, err)
			require.Equal(t, s, got)
		}
		again := StateFiles{FS: vfs.OS, Dir: files.Dir}
		got, err := again.Read()
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestOneCopyOfAStateIsEnough(t *testing.T) {
	state := State{LogStartOffset: 3, RecoveryPoint: 7, DurableEnd: 7}
	spoil := map[string]func(t *testing.T, path string){
		"missing": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"damaged": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("0\n2\n"), 0o644)) },
		"older": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, AppendState(nil, State{RecoveryPoint: 1}), 0o644))
		},
	}
	for what, spoil := range spoil {
		for _, name := range []string{"seglog.state", "seglog.state.copy"} {
			if what == "older" && name == "seglog.state" {
				continue // it is written first
			}
			t.Run(name+" is "+what, func(t *testing.T) {
				dir := t.TempDir()
				files := StateFiles{FS: vfs.OS, Dir: dir}
				require.NoError(t, files.Write(state))
				spoil(t, filepath.Join(dir, name))
				files = StateFiles{FS: vfs.OS, Dir: dir}
				got, err := files.Read()
				require.NoError(t, err)
				require.Equal(t, state, got)
				require.NoError(t, files.Write(state), "it makes both the same again")
				for _, name := range []string{"seglog.state", "seglog.state.copy"} {
					got, err := ReadState(vfs.OS, filepath.Join(dir, name))
					require.NoError(t, err)
					require.Equal(t, state, got)
				}
			})
		}
	}
	t.Run("both are damaged", func(t *testing.T) {
		dir := t.TempDir()
		spoil["damaged"](t, filepath.Join(dir, "seglog.state"))
		spoil["damaged"](t, filepath.Join(dir, "seglog.state.copy"))
		_, err := (&StateFiles{FS: vfs.OS, Dir: dir}).Read()
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("one is damaged and the other missing", func(t *testing.T) {
		for _, name := range []string{"seglog.state", "seglog.state.copy"} {
			dir := t.TempDir()
			spoil["damaged"](t, filepath.Join(dir, name))
			_, err := (&StateFiles{FS: vfs.OS, Dir: dir}).Read()
			require.ErrorIs(t, err, ErrCorrupt)
		}
	})
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

func TestWriteStateRefusesNegativeNumbers(t *testing.T) {
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	for _, s := range []State{
		{LogStartOffset: -1},
		{RecoveryPoint: -1},
		{DurableEnd: -1},
		{Clean: &CleanMark{EndOffset: -1}},
		{Clean: &CleanMark{Segment: -1}},
		{Clean: &CleanMark{Size: -1}},
	} {
		require.ErrorIs(t, files.Write(s), ErrInvalid)
		entries, err := os.ReadDir(files.Dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// FuzzParseState: never panics; what parses is what comes back from writing it.
// The body is also tried with a matching checksum, or nothing would get past it.
func FuzzParseState(f *testing.F) {
	for _, seed := range []string{
		"", cleanState, openState, durableState,
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
