package segment_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/segment"
)

// layFile puts a file of segment 7 into a new directory.
func layFile(t *testing.T, name string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("not mine"), 0o644))
	return dir, path
}

func requireFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestASegmentIsNeverMadeOverALogThatIsThere(t *testing.T) {
	dir, path := layFile(t, "00000000000000000007.log")
	for name, create := range map[string]func() (*segment.Segment, error){
		"created": func() (*segment.Segment, error) { return segment.Create(dir, 7, options(segment.Options{})) },
		"adopted": func() (*segment.Segment, error) {
			spare, err := segment.Prepare(dir, options(segment.Options{}))
			require.NoError(t, err)
			return spare.Adopt(7)
		},
	} {
		_, err := create()
		require.ErrorIs(t, err, fs.ErrExist, name)
		var exists *segment.ExistsError
		require.ErrorAs(t, err, &exists, name)
		require.Equal(t, path, exists.Path, name)
		requireFile(t, path, "not mine")
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, name)
	}
}

func TestASegmentReplacesWhatIsLeftOfAnother(t *testing.T) {
	for _, tt := range []struct{ situation, file, suffix string }{
		{"an index without a log", "00000000000000000007.index", ""},
		{"a time index without a log", "00000000000000000007.timeindex", ""},
		{"aborted transactions without a log", "00000000000000000007.txnindex", ""},
		{"a log that was being cleaned", "00000000000000000007.log.cleaned", ".cleaned"},
	} {
		t.Run(tt.situation, func(t *testing.T) {
			dir, _ := layFile(t, tt.file)
			s, err := segment.Create(dir, 7, options(segment.Options{Suffix: tt.suffix}))
			require.NoError(t, err)
			require.NoError(t, s.Append(set(t, 1, 7, 8)))
			aborted, _, err := s.Aborted(nil, 0, 100)
			require.NoError(t, err)
			require.Empty(t, aborted)
			require.NoError(t, s.Retire())
			s = segment.Open(dir, 7, options(segment.Options{Suffix: tt.suffix}))
			require.NoError(t, s.Activate())
			require.EqualValues(t, 9, s.NextOffset())
			require.NoError(t, s.Retire())
		})
	}
}
