//go:build unix

package seglog_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seglog/seglog"
)

// A pipe in the place of a file must not keep whoever opens the log waiting.
func TestAPipeInPlaceOfAFileIsNamed(t *testing.T) {
	golden := filepath.Join("testdata", "kafka", "4.3.1", "segments-0")
	for _, name := range []string{"00000000000000000022.timeindex", "00000000000000000022.index", "00000000000000000022.log"} {
		dir := copyDir(t, golden, filepath.Join(t.TempDir(), "segments-0"))
		require.NoError(t, unix.Unlink(filepath.Join(dir, name)))
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o644))
		r, err := seglog.Verify(t.Context(), dir, seglog.VerifyOptions{})
		require.NoError(t, err)
		named := false
		for _, p := range r.Problems {
			named = named || p.File == name && p.Severity == seglog.Warning && p.Detail == "not a regular file: left alone"
		}
		require.True(t, named, "%v", r.Problems)

		l := openLog(t, dir, seglog.Options{ReadOnly: true})
		_ = segments(t, l)
		if filepath.Ext(name) != ".log" {
			require.Len(t, readAll(t, l, 0), 71)
		}
		closeLog(t, l)
	}
}
