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

// The file of the class comment of OffsetCheckpointFile.java, with its columns.
func TestParseOffsetsReadsKafkasFile(t *testing.T) {
	entries, problems, err := ParseOffsets([]byte("0\n2\ntp1  1     1\ntp1 2 9223372036854775807\n"))
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, []OffsetEntry{{"tp1", 1, 1}, {"tp1", 2, math.MaxInt64}}, entries)
}

func TestOffsetsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recovery-point-offset-checkpoint")
	_, _, err := ReadOffsets(vfs.OS, path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	first := []OffsetEntry{{"orders.eu-west", 3, 41022}, {"a_b", 0, 0}}
	require.NoError(t, WriteOffsets(vfs.OS, path, first))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "0\n2\norders.eu-west 3 41022\na_b 0 0\n", string(data))

	second := []OffsetEntry{{"orders", 1, 7}}
	require.NoError(t, WriteOffsets(vfs.OS, path, second))
	got, problems, err := ReadOffsets(vfs.OS, path)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, second, got)
}

// A damaged file still serves the partitions whose lines are whole.
func TestParseOffsetsSavesGoodLines(t *testing.T) {
	tests := []struct {
		name, data string
		want       []OffsetEntry
		lines      []int // of the problems
	}{
		{"one bad offset", "0\n3\na-b.c 0 10\nother 1 x\nthird 2 30\n",
			[]OffsetEntry{{"a-b.c", 0, 10}, {"third", 2, 30}}, []int{4}},
		{"count too high", "0\n3\na 0 1\nb 0 2\n",
			[]OffsetEntry{{"a", 0, 1}, {"b", 0, 2}}, []int{2}},
		{"negative numbers", "0\n3\na 0 -1\nb -1 2\nc 0 3\n",
			[]OffsetEntry{{"c", 0, 3}}, []int{3, 4}},
		{"numbers out of range", "0\n2\na 0 9223372036854775808\nb 2147483648 2\n",
			nil, []int{3, 4}},
		{"no topic of Kafka's", "0\n2\na/b 0 1\n\x00 0 1\n",
			nil, []int{3, 4}},
		{"empty file", "", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cleaner-offset-checkpoint")
			require.NoError(t, os.WriteFile(path, []byte(tt.data), 0o644))
			got, problems, err := ReadOffsets(vfs.OS, path)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			var lines []int
			for _, problem := range problems {
				require.Equal(t, path, problem.File)
				lines = append(lines, problem.Line)
			}
			require.Equal(t, tt.lines, lines)
		})
	}
}

func TestParseOffsetsBelievesNothingBehindABadHead(t *testing.T) {
	for data, line := range map[string]string{
		"abc": "1", "1\n1\na 0 1\n": "1", "\x00\x00\x00": "1", "0\nx\na 0 1\n": "2", "0\n-1\na 0 1\n": "2",
	} {
		path := filepath.Join(t.TempDir(), "replication-offset-checkpoint")
		require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
		got, problems, err := ReadOffsets(vfs.OS, path)
		require.Empty(t, got)
		require.Empty(t, problems)
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, path+": line "+line+": ")
	}
}

func TestWriteOffsetsRefusesWhatWouldNotComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log-start-offset-checkpoint")
	for _, e := range []OffsetEntry{{"", 0, 0}, {"a b", 0, 0}, {"a\n", 0, 0}, {"a", -1, 0}, {"a", 0, -1}} {
		require.ErrorIs(t, WriteOffsets(vfs.OS, path, []OffsetEntry{e}), ErrInvalid)
		require.NoFileExists(t, path)
	}
}

// FuzzParseOffsets: never panics; what is read without a problem comes back from
// what is written of it; every line is an entry or a problem.
func FuzzParseOffsets(f *testing.F) {
	for _, seed := range []string{
		"", "0", "0\n", "0\n0\n", "abc", "1\n0\n", "0\n-1\n",
		"0\n1\norders.eu-west 3 41022\n",
		"0\n3\na-b.c 0 10\nother 1 x\nthird 2 30\n",
		"0\r\n1\r\na\t0\t1\r\n",
		"0\n2147483647\na 0 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, problems, err := ParseOffsets(data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Empty(t, entries)
			return
		}
		again, rest, err := ParseOffsets(AppendOffsets(nil, entries))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, entries, again)
		if strict, err := offsets().Decode(data); len(problems) == 0 {
			require.NoError(t, err)
			require.Equal(t, entries, strict)
		} else {
			require.Equal(t, problems[0], err)
		}
	})
}
