package seglog_test

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

var neverSynced = seglog.Options{Sync: seglog.SyncNever}

// killedLog is the directory of a log of 10 records that were synced, known to be, and 10
// more that were not, as a killed process leaves it. The recovery point stays one short.
func killedLog(t *testing.T) string {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), neverSynced)
	appendEach(t, l, many(10, 0)...)
	l = reopen(t, l, neverSynced)
	appendEach(t, l, many(10, 10)...)
	return crash(t, l)
}

// heldUp opens a log whose tail cannot be written again before release is called. It
// returns when that is being tried.
func heldUp(t *testing.T, dir string) (l *seglog.Log, release func()) {
	fsys := faultfs.New(vfs.OS)
	begun, proceed := make(chan struct{}), make(chan struct{})
	fsys.Do(faultfs.Op(faultfs.Write).Name("*.log").Nth(1), func(faultfs.Call) error {
		close(begun)
		<-proceed
		return nil
	})
	o := neverSynced
	o.FS, o.AheadBytes = fsys, -1
	l = openLog(t, dir, o)
	release = sync.OnceFunc(func() { close(proceed) })
	t.Cleanup(release) // before it is closed
	<-begun
	return l, release
}

// What was found behind the recovery point is served at once and promised when it is on
// disk, which it is in the end if nobody asks for it.
func TestTheTailOfAKilledLogIsPromisedWhenItIsOnDisk(t *testing.T) {
	l, release := heldUp(t, killedLog(t))
	require.Equal(t, seglog.Offsets{Durable: 10, End: 20}, l.Offsets())
	require.Len(t, readAll(t, l, 0), 20)
	durable := func() int {
		n := 0
		for _, err := range l.Records(t.Context(), 0, &seglog.IterOptions{Durable: true}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, 10, durable())
	// Who has read more of it, before the kill, waits.
	res, err := l.Read(15, 1<<20, &seglog.ReadOptions{Durable: true})
	require.NoError(t, err)
	require.Equal(t, seglog.ReadResult{NextOffset: 15, Offsets: l.Offsets()}, res)
	for r, err := range l.Records(t.Context(), 15, &seglog.IterOptions{Durable: true}) {
		t.Errorf("read %d: %v", r.Offset, err)
	}
	// Appends do not wait.
	appendEach(t, l, many(1, 20)...)
	require.Equal(t, seglog.Offsets{Durable: 10, End: 21}, l.Offsets())
	require.Equal(t, 10, durable())
	release()
	waitForRecoveryPoint(t, l, 19)
	require.GreaterOrEqual(t, l.Offsets().Durable, int64(20))
	require.GreaterOrEqual(t, durable(), 20)
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// Whoever asks for durability waits for the tail, too.
func TestNothingIsDurableBeforeTheTailBelowIt(t *testing.T) {
	always := seglog.SyncAlways
	for name, promise := range map[string]func(l *seglog.Log) error{
		"Sync":        (*seglog.Log).Sync,
		"WaitDurable": func(l *seglog.Log) error { return l.WaitDurable(context.Background(), 15) },
		"WaitDurable, that may be given up": func(l *seglog.Log) error {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			return l.WaitDurable(ctx, 15)
		},
		"a synced append": func(l *seglog.Log) error {
			_, err := l.Append(many(1, 20), &seglog.AppendOptions{Sync: &always})
			return err
		},
		"the log start": func(l *seglog.Log) error { return l.DeleteBefore(15) },
		"truncation":    func(l *seglog.Log) error { return l.TruncateTo(15) },
	} {
		t.Run(name, func(t *testing.T) {
			l, release := heldUp(t, killedLog(t))
			done := make(chan error, 1)
			go func() { done <- promise(l) }()
			require.Equal(t, int64(10), l.Offsets().Durable)
			require.Empty(t, done)
			release()
			require.NoError(t, <-done)
			require.GreaterOrEqual(t, l.Offsets().Durable, int64(15))
		})
	}
}

// Close waits for it, and nobody stays behind.
func TestALogIsClosedWhileItsTailIsWritten(t *testing.T) {
	requireNoLeak(t)
	l, release := heldUp(t, killedLog(t))
	done := make(chan error, 1)
	go func() { done <- l.Close() }()
	require.Empty(t, done)
	release()
	require.NoError(t, <-done)
	l = openLog(t, l.Dir(), neverSynced)
	require.True(t, stats(t, l).Recovery.Clean)
	require.Equal(t, seglog.Offsets{Durable: 20, End: 20}, l.Offsets())
}

// A disk that does not take the tail, or the sync, fails the log as any failed sync does.
// Reading goes on, and the next open has it all.
func TestATailThatCannotBeWrittenFailsTheLog(t *testing.T) {
	for name, calls := range map[string]faultfs.Match{
		"write": faultfs.Op(faultfs.Write).Name("*.log"),
		"sync":  faultfs.Op(faultfs.Sync).Name("*.log"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := killedLog(t)
			fsys := faultfs.New(vfs.OS)
			o := neverSynced
			o.FS = fsys
			held := make(chan struct{})
			fsys.Do(calls, func(faultfs.Call) error {
				<-held
				return syscall.EIO
			})
			l := openLog(t, dir, o)
			close(held)
			require.ErrorIs(t, l.Sync(), seglog.ErrFailed)
			require.ErrorIs(t, stats(t, l).Failed, syscall.EIO)
			require.Equal(t, seglog.Offsets{Durable: 10, End: 20}, l.Offsets())
			_, err := l.Append(many(1, 20), nil)
			require.ErrorIs(t, err, seglog.ErrFailed)
			fsys.Clear()
			require.Len(t, readAll(t, l, 0), 20)
			require.ErrorIs(t, l.Close(), seglog.ErrFailed)
			l = openLog(t, dir, neverSynced)
			require.NoError(t, l.Sync())
			require.Equal(t, seglog.Offsets{Durable: 20, End: 20}, l.Offsets())
			require.Len(t, readAll(t, l, 0), 20)
		})
	}
}

// A full disk does not fail it, and who waits for durability is told.
func TestWhoWaitsForATailIsToldThatTheDiskIsFull(t *testing.T) {
	dir := killedLog(t)
	fsys := faultfs.New(vfs.OS)
	held := make(chan struct{})
	fsys.Do(faultfs.Op(faultfs.Write).Name("*.log"), func(faultfs.Call) error {
		<-held
		return syscall.ENOSPC
	})
	o := neverSynced
	o.FS = fsys
	l := openLog(t, dir, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.WaitDurable(ctx, 20) }()
	close(held)
	require.ErrorIs(t, <-done, seglog.ErrNoSpace)
	require.Nil(t, stats(t, l).Failed)
	require.Equal(t, seglog.Offsets{Durable: 10, End: 20}, l.Offsets())
	fsys.Clear()
	appendEach(t, l, many(1, 20)...)
	require.NoError(t, l.Sync())
	require.Equal(t, seglog.Offsets{Durable: 21, End: 21}, l.Offsets())
}

// An append that is refused for it has appended nothing, whoever finds out first.
func TestAnAppendThatFindsNoRoomForTheTailAppendsNothing(t *testing.T) {
	always := seglog.SyncAlways
	for _, row := range []struct {
		name   string
		flush  int64
		append func(l *seglog.Log) error
	}{
		{"synced", 0, func(l *seglog.Log) error {
			_, err := l.Append(many(1, 20), &seglog.AppendOptions{Sync: &always})
			return err
		}},
		{"synced each so many messages", 1, func(l *seglog.Log) error {
			_, err := l.Append(many(1, 20), nil)
			return err
		}},
		{"replicated", 0, func(l *seglog.Log) error {
			_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: 20}, at(20, 5, "v")), &seglog.AppendOptions{Sync: &always})
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := killedLog(t)
			fsys := faultfs.New(vfs.OS)
			reached, held := make(chan struct{}, 10), make(chan struct{})
			fsys.Do(faultfs.Op(faultfs.Write).Name("*.log"), func(faultfs.Call) error {
				reached <- struct{}{}
				<-held
				return syscall.ENOSPC
			})
			o := neverSynced
			o.FS, o.FlushMessages = fsys, row.flush
			l := openLog(t, dir, o)
			<-reached
			done := make(chan error, 1)
			go func() { done <- row.append(l) }()
			<-reached // by the append
			close(held)
			require.ErrorIs(t, <-done, seglog.ErrNoSpace)
			require.EqualValues(t, 20, l.Offsets().End)
			require.Nil(t, stats(t, l).Failed)
			fsys.Clear()
			require.NoError(t, row.append(l))
			require.Equal(t, seglog.Offsets{Durable: 21, End: 21}, l.Offsets())
			closeLog(t, l)
		})
	}
}

// Power may be lost, or the process killed again, at any step of what Open left to do, and
// beside whatever the log is used for meanwhile.
func TestNothingDurableIsLostWhileATailIsWritten(t *testing.T) {
	workloads := map[string]func(d *driver){
		"nothing": func(d *driver) { d.sync() },
		"appends": func(d *driver) {
			for range 4 {
				d.append(3, seglog.SyncNever)
			}
			d.append(1, seglog.SyncAlways)
		},
		"a roll": func(d *driver) {
			d.append(2, seglog.SyncNever)
			d.roll()
			d.append(2, seglog.SyncNever)
			d.sync()
		},
		"a gap": func(d *driver) {
			d.replicate(100)
			d.append(2, seglog.SyncAlways)
		},
		"truncation within it": func(d *driver) {
			d.truncate(17)
			d.append(5, seglog.SyncNever)
			d.append(1, seglog.SyncAlways)
		},
		"truncation below it": func(d *driver) {
			d.truncate(5)
			d.append(9, seglog.SyncNever)
			d.sync()
		},
		"a new log start": func(d *driver) { d.deleteBefore(18) },
		"a close":         func(d *driver) { d.reopen() },
	}
	for name, workload := range workloads {
		for aheadBytes, way := range map[int64]string{-1: "calls", 4096: "memory"} {
			t.Run(name+", by "+way, func(t *testing.T) {
				t.Parallel()
				opts := small
				opts.AheadBytes = aheadBytes
				afterAKill(t, opts, workload)
			})
		}
	}
}

// afterAKill has a process killed that synced some of what it appended, and tries what a
// crash may leave at any step of the next one.
func afterAKill(t *testing.T, opts seglog.Options, workload func(d *driver)) {
	d := &driver{t: t, disk: logtest.NewDisk(logtest.DiskOptions{}), model: &logtest.Model{}, opts: opts}
	d.opts.FS = d.disk.FS()
	var err error
	d.log, err = seglog.Open("log", d.opts)
	require.NoError(t, err)
	d.append(6, seglog.SyncAlways)
	d.append(6, seglog.SyncAlways)
	d.append(4, seglog.SyncNever)
	d.append(4, seglog.SyncNever)
	killed := d.disk.Kill()
	require.NoError(t, d.log.Close())

	d.disk, d.opts.FS = killed, killed.FS()
	d.disk.OnCrash((*crashStates+1)/2, 1, d.model, func(c logtest.Crash) { requireSurvived(t, c, opts, c.String()) })
	d.log, err = seglog.Open("log", d.opts)
	require.NoError(t, err)
	workload(d)
	require.NoError(t, d.model.Check(t.Context(), d.log))
	require.NoError(t, d.log.Close())
	d.disk.OnOp(nil)
}
