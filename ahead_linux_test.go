package seglog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// appendedAhead opens a log and appends until there is room ahead; false, with the reason
// in the test's log, on a file system that is not mapped.
func appendedAhead(t *testing.T, opts seglog.Options) (l *seglog.Log, file string, ok bool) {
	t.Helper()
	l = openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
	appendEach(t, l, many(300, 1000)...)
	file = segmentFile(l.Dir(), 0, ".log")
	if fileSize(t, file) == stats(t, l).Size {
		t.Logf("NOT TESTED: %s is not on a file system that is written to through memory", l.Dir())
		return l, file, false
	}
	return l, file, true
}

// Someone who cuts the file of a log that is being written to takes the memory away
// beneath it. That is an error of the next append, or of the next sync at the latest; the
// process goes on, and the log goes on when it was opened again.
func TestAFileThatIsCutUnderItsWriterIsAnError(t *testing.T) {
	for _, row := range []struct {
		name string
		left func(size int64) int64
	}{
		{"to nothing", func(int64) int64 { return 0 }},
		{"to a page", func(int64) int64 { return 4096 }},
		{"in the last batch's length", func(size int64) int64 { return size - 80 }},
		{"in the last batch", func(size int64) int64 { return size - 3 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, file, ok := appendedAhead(t, seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, AheadBytes: 32 << 10})
			if !ok {
				return
			}
			left := row.left(stats(t, l).Size)
			require.NoError(t, os.Truncate(file, left))
			_, err := l.Append(many(1, 2000), nil)
			if err == nil {
				err = l.Sync()
			}
			require.ErrorIs(t, err, seglog.ErrFailed)
			require.ErrorIs(t, stats(t, l).Failed, seglog.ErrCorrupt)
			_, err = l.Append(many(1, 2000), nil)
			require.ErrorIs(t, err, seglog.ErrFailed)
			l.Close()
			require.LessOrEqual(t, fileSize(t, file), max(left, 1), "it is not made longer")

			l = openLog(t, l.Dir(), quick)
			end := l.Offsets().End
			require.Less(t, end, int64(301))
			require.Equal(t, span(0, end-1), offsetsOf(readAll(t, l, 0)))
			appendEach(t, l, many(5, 3000)...)
			closeLog(t, l)
			requireSound(t, l.Dir())
		})
	}
}

func TestSomeoneElsesBytesBehindTheEndAreAnErrorAndStay(t *testing.T) {
	l, file, ok := appendedAhead(t, seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, AheadBytes: 32 << 10})
	if !ok {
		return
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(plainBatch(t, 300, 301), stats(t, l).Size)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = l.Append(many(1, 2000), nil)
	require.ErrorIs(t, err, seglog.ErrFailed)
	l.Close()
	l = openLog(t, l.Dir(), quick)
	require.EqualValues(t, 302, l.Offsets().End)
}

// On a file system that is mapped, what is synced is what was appended through memory:
// a copy of the files, as another process sees them, has all of it.
func TestWhatIsAppendedThroughMemoryIsInTheFile(t *testing.T) {
	l, _, ok := appendedAhead(t, seglog.Options{AheadBytes: 16 << 10, TimestampAfterMax: -1})
	if !ok {
		return
	}
	for i := range 20 {
		appendEach(t, l, many(30, int64(2000+i))...)
		end := l.Offsets().End
		view := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
		require.Equal(t, end, view.Offsets().End)
		require.Equal(t, readAll(t, l, 0), readAll(t, view, 0))
		closeLog(t, view)
	}
	copied := openLog(t, crash(t, l), quick)
	require.Equal(t, readAll(t, l, 0), readAll(t, copied, 0))
}
