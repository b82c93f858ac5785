package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/vfs"
)

// words is the simplest format: a line is one word.
func words() Format[string] {
	return Format[string]{
		Entry: "one word",
		Parse: func(line string) (string, bool) {
			fields, ok := Fields(line, 1)
			if !ok {
				return "", false
			}
			return fields[0], true
		},
		Append: func(dst []byte, word string) []byte { return append(dst, word...) },
	}
}

func TestEncodeEndsEveryLine(t *testing.T) {
	require.Equal(t, "0\n0\n", string(words().Encode(nil, nil)))
	require.Equal(t, "head0\n2\na\nb\n", string(words().Encode([]byte("head"), []string{"a", "b"})))
}

func TestDecodeTakesWhatKafkaTakes(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string
	}{
		{"empty file, as Kafka creates it", "", nil},
		{"version only", "0\n", nil},
		{"version only, no newline", "0", nil},
		{"no entries", "0\n0\n", nil},
		{"entries", "0\n2\na\nb\n", []string{"a", "b"}},
		{"last line without its newline", "0\n2\na\nb", []string{"a", "b"}},
		{"line ends of Windows", "0\r\n2\r\na\r\nb\r\n", []string{"a", "b"}},
		{"white space behind an entry", "0\n1\na \t\n", []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := words().Decode([]byte(tt.data))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, data string
		want       CorruptError
	}{
		{"later version", "1\n0\n", CorruptError{"", 1, "version 0", "1"}},
		{"no version", "foo\n", CorruptError{"", 1, "version 0", "foo"}},
		{"binary zeros", "\x00\x00\x00\x00", CorruptError{"", 1, "version 0", "\x00\x00\x00\x00"}},
		{"blank first line", "\n0\n", CorruptError{"", 1, "version 0", ""}},
		{"no count", "0\nfoo\n", CorruptError{"", 2, "number of entries", "foo"}},
		{"negative count", "0\n-1\n", CorruptError{"", 2, "number of entries", "-1"}},
		{"count beyond 31 bits", "0\n2147483648\n", CorruptError{"", 2, "number of entries", "2147483648"}},
		{"fewer lines than announced", "0\n3\na\nb\n", CorruptError{"", 2, "number of entries 2", "3"}},
		{"more lines than announced", "0\n1\na\nb\n", CorruptError{"", 2, "number of entries 2", "1"}},
		{"too many fields", "0\n1\na b\n", CorruptError{"", 3, "one word", "a b"}},
		{"blank line", "0\n2\na\n\n", CorruptError{"", 4, "one word", ""}},
		{"white space before an entry", "0\n1\n a\n", CorruptError{"", 3, "one word", " a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := words().Decode([]byte(tt.data))
			require.Nil(t, got)
			require.ErrorIs(t, err, ErrCorrupt)
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, tt.want, *corrupt)
		})
	}
}

func TestDecodeMakesNoRoomForWhatIsOnlyAnnounced(t *testing.T) {
	data := []byte("0\n2147483647\na\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := words().Decode(data)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrCorrupt)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestErrorsSayWhere(t *testing.T) {
	err := In("log-start-offset-checkpoint", &CorruptError{Line: 3, Expected: "topic partition offset", Found: "foo"})
	require.EqualError(t, err, `log-start-offset-checkpoint: line 3: want topic partition offset, found "foo"`)
	require.EqualError(t, &CorruptError{Expected: "node.id"}, `want node.id, found ""`)
	require.NoError(t, In("file", nil))
	require.Equal(t, fs.ErrNotExist, In("file", fs.ErrNotExist))

	long := &CorruptError{Expected: "version 0", Found: strings.Repeat("\x00", 1<<20)}
	require.Less(t, len(long.Error()), 1000)
}

func TestReadFileRefusesWhatNoWriterMakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 101), 0o644))
	_, err := ReadFile(vfs.OS, path, 100)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "at most 100 bytes")
}

// TestDecodeUndoesEncode: any list of words comes back.
func TestDecodeUndoesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.StringMatching(`[!-~]{1,8}`)).Draw(t, "words")
		got, err := words().Decode(words().Encode(nil, list))
		require.NoError(t, err)
		require.Equal(t, append([]string(nil), list...), got)
	})
}

// fullDisk fails every write to a file, after a few bytes of it.
type fullDisk struct{ vfs.FS }

func (d fullDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := d.FS.OpenFile(name, flag, perm)
	return fullFile{file}, err
}

type fullFile struct{ vfs.File }

func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b[:min(5, len(b))], at)
	return n, errors.Join(err, syscall.ENOSPC)
}

// A full disk costs none of the files its old content, and nothing is left
// beside them.
func TestWritersKeepTheOldFileOnAFullDisk(t *testing.T) {
	writers := []struct {
		name  string
		write func(fsys vfs.FS, path string, n int64) error
	}{
		{"offsets", func(fsys vfs.FS, path string, n int64) error {
			return WriteOffsets(fsys, path, []OffsetEntry{{"orders", 3, n}})
		}},
		{"state", func(fsys vfs.FS, path string, n int64) error {
			return vfs.WriteFileAtomic(fsys, path, AppendState(nil, State{RecoveryPoint: n}))
		}},
		{"partition metadata", func(fsys vfs.FS, path string, n int64) error {
			return WritePartitionMetadata(fsys, path, PartitionMetadata{TopicID: UUID{byte(n)}})
		}},
		{"clean shutdown", func(fsys vfs.FS, path string, n int64) error {
			return WriteCleanShutdown(fsys, path, n)
		}},
	}
	for _, tt := range writers {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, tt.write(vfs.OS, path, 1))
			before, err := os.ReadFile(path)
			require.NoError(t, err)

			require.ErrorIs(t, tt.write(fullDisk{vfs.OS}, path, 2), syscall.ENOSPC)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			entries, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, entries, 1)

			require.NoError(t, tt.write(vfs.OS, path, 2))
			after, err = os.ReadFile(path)
			require.NoError(t, err)
			require.NotEqual(t, string(before), string(after))
		})
	}
}
