package seglog_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

const untouched = "seglog.untouched.deleted"

// killedBehindCheckpoints is a directory of a Dir that was killed. The checkpoints of
// the directory know nothing of most of what was durable in orders-0, of offsets 0 to 99.
func killedBehindCheckpoints(t *testing.T) string {
	t.Helper()
	opts := manual
	opts.Log = seglog.Options{SegmentBytes: 1000, RetentionTime: -1}
	d := openDir(t, t.TempDir(), opts)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(5, 1)...)
	require.NoError(t, d.Maintain(t.Context()))
	appendEach(t, l, many(95, 6)...)
	_, err := l.Roll()
	require.NoError(t, err)
	waitForRecoveryPoint(t, l, 100)
	require.NotContains(t, rootFiles(t, d.Path())["recovery-point-offset-checkpoint"], " 100\n")
	return killDir(t, d)
}

// What was known to be durable is not up to a minute old: a log in a Dir is refused when
// its end is gone, or damaged, as one that was opened alone.
func TestALogInADirKnowsWhatWasDurableItself(t *testing.T) {
	dir := killedBehindCheckpoints(t)
	logDir := filepath.Join(dir, "orders-0")
	require.FileExists(t, filepath.Join(logDir, untouched))
	logs, err := filepath.Glob(filepath.Join(logDir, "*.log"))
	require.NoError(t, err)
	last := logs[len(logs)-2] // the one behind is empty

	t.Run("its end is gone", func(t *testing.T) {
		dir := killedBehindCheckpoints(t)
		for _, path := range logs[len(logs)-2:] {
			require.NoError(t, os.Remove(filepath.Join(dir, "orders-0", filepath.Base(path))))
		}
		d := openDir(t, dir, manual)
		_, err := d.Partition("orders", 0)
		var missing *seglog.MissingEndError
		require.ErrorAs(t, err, &missing)
		require.NoError(t, d.Close())
		report, err := seglog.Verify(t.Context(), filepath.Join(dir, "orders-0"), seglog.VerifyOptions{})
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(report.Problems, func(p seglog.Problem) bool { return p.Kind == "missing_end" }), "%v", report.Problems)
	})
	t.Run("the checkpoints' part is not scanned again", func(t *testing.T) {
		l := partition(t, openDir(t, copyDirTree(t, dir), manual), "orders", 0)
		require.LessOrEqual(t, stats(t, l).Recovery.Scanned, 2)
		require.Equal(t, int64(100), l.Offsets().End)
	})
	t.Run("what a broker has had since is its own", func(t *testing.T) {
		dir := copyDirTree(t, dir)
		require.NoError(t, os.Remove(filepath.Join(dir, "orders-0", untouched)), "as a broker does that loads the log")
		for _, path := range []string{last, logs[len(logs)-1]} { // and then truncates
			require.NoError(t, os.Remove(filepath.Join(dir, "orders-0", filepath.Base(path))))
		}
		l := partition(t, openDir(t, dir, manual), "orders", 0)
		require.Less(t, l.Offsets().End, int64(100))
		require.FileExists(t, filepath.Join(dir, "orders-0", untouched), "from now on it is ours")
	})
	t.Run("a checkpoint that says more does not count", func(t *testing.T) {
		dir := copyDirTree(t, dir)
		writeFile(t, filepath.Join(dir, "log-start-offset-checkpoint"), []byte("0\n1\norders 0 50\n"))
		l := partition(t, openDir(t, dir, manual), "orders", 0)
		require.Zero(t, l.Offsets().Start)
	})
}

func copyDirTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	copyTree(t, from, to)
	return to
}

// A log in a Dir has no lock of its own that would tell that seglog had it; the other
// mark does. A broker leaves neither that nor a state, and nothing is lost.
func TestALostStateInADirIsTold(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(20, 1)...)
	require.NoError(t, l.DeleteBefore(7))
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		lost   bool
		start  int64
	}{
		"both copies are there":        {func(*testing.T, string) {}, false, 7},
		"both copies are gone":         {removeStateOf, true, 0},
		"they are gone, checkpoint":    {func(t *testing.T, dir string) { removeStateOf(t, dir); startCheckpoint(t, dir) }, true, 5},
		"a broker had it, they remain": {func(t *testing.T, dir string) { removeMark(t, dir) }, false, 7},
		"a broker had it, not ours":    {func(t *testing.T, dir string) { removeMark(t, dir); removeStateOf(t, dir) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killDir(t, d)
			tt.change(t, filepath.Join(dir, "orders-0"))
			l := partition(t, openDir(t, dir, manual), "orders", 0)
			require.Equal(t, tt.lost, stats(t, l).Recovery.StateLost)
			require.Equal(t, tt.start, l.Offsets().Start)
			require.Equal(t, int64(20), l.Offsets().End)
		})
	}
}

func removeStateOf(t *testing.T, dir string) { removeState(t, dir) }

func removeMark(t *testing.T, dir string) {
	require.NoError(t, os.Remove(filepath.Join(dir, untouched)))
}

func startCheckpoint(t *testing.T, dir string) {
	writeFile(t, filepath.Join(filepath.Dir(dir), "log-start-offset-checkpoint"), []byte("0\n1\norders 0 5\n"))
}

// A log that is opened alone, outside of a log directory, has no checkpoints around it,
// and no use for the mark.
func TestOnlyLogsOfALogDirectoryAreMarked(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "orders-0"), quick)
	require.NoFileExists(t, filepath.Join(l.Dir(), untouched))
	closeLog(t, l)
	require.NoError(t, openDir(t, dir, manual).Close())
	l = openLog(t, filepath.Join(dir, "orders-0"), quick)
	require.FileExists(t, filepath.Join(l.Dir(), untouched))
}
