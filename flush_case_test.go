package seglog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
)

// snapshotHook is called before a producer snapshot is made, with no lock of the log
// held that an append takes.
type snapshotHook struct {
	vfs.FS
	hook func()
}

func (h *snapshotHook) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_CREATE != 0 && filepath.Ext(name) == ".snapshot" {
		h.hook()
	}
	return h.FS.OpenFile(name, flag, perm)
}

// A writer may roll faster than snapshots can be written. Here one roll comes with each.
func TestDeleteBeforeDoesNotWaitForSnapshotsOfLaterRolls(t *testing.T) {
	const enough = 500 // of an endless number
	var l *seglog.Log
	var rolls atomic.Int32
	roll := func() bool {
		n := rolls.Add(1)
		if n > enough {
			return false
		}
		_, err := l.Append(many(1, 1), &seglog.AppendOptions{Producer: &seglog.Producer{ID: int64(n)}})
		if err == nil {
			_, err = l.Roll()
		}
		return err == nil
	}
	opts := quick
	opts.FS = &snapshotHook{FS: vfs.OS, hook: func() { roll() }}
	l = openLog(t, t.TempDir(), opts)
	require.True(t, roll())
	require.NoError(t, l.DeleteBefore(1))
	require.Less(t, rolls.Swap(enough), int32(enough), "rolls until it returned")
}

func TestRollsThatComeFasterThanTheyAreFlushedShareOneFlush(t *testing.T) {
	flushes := func() int {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Log).flushSealed(")
	}
	opts := quick
	stuck := make(chan struct{})
	opts.FS = &snapshotHook{FS: vfs.OS, hook: func() { <-stuck }}
	var last atomic.Int64
	opts.Events.Sealed = func(next int64) { last.Store(next) }
	l := openLog(t, t.TempDir(), opts)
	for i := range int64(50) {
		_, err := l.Append(many(1, 1), &seglog.AppendOptions{Producer: &seglog.Producer{ID: i}})
		require.NoError(t, err)
		_, err = l.Roll()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, flushes(), 2, "one that is under way, and one that waits for it")
	close(stuck)
	closeLog(t, l)
	require.EqualValues(t, 50, last.Load(), "and all is told")
}
