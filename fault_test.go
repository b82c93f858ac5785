package seglog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// clumsy is a workload that goes on whatever fails, as a program does that logs
// its errors. What it was told it remembers.
type clumsy struct {
	t      *testing.T
	what   string
	opts   seglog.Options
	log    *seglog.Log
	model  *logtest.Model
	errors []error
	next   int
}

func newClumsy(t *testing.T, what string) *clumsy {
	opts := small
	opts.AheadBytes = *ahead
	return &clumsy{t: t, what: what, opts: opts, model: &logtest.Model{}}
}

func (c *clumsy) note(err error) {
	if err != nil {
		c.errors = append(c.errors, err)
	}
}

func (c *clumsy) run(disk *logtest.Disk) {
	opts := c.opts
	opts.FS = disk.FS()
	l, err := seglog.Open("log", opts)
	if err != nil {
		c.note(err)
		return
	}
	c.log = l
	for i := range 14 {
		c.append(1+i%3, seglog.SyncPolicy(i%3/2))
		switch i {
		case 4, 9:
			_, err := l.Roll()
			c.note(err)
		case 6:
			to := max(0, l.Offsets().End-2)
			done := c.model.Truncating(to)
			err := l.TruncateTo(to)
			done(err)
			c.note(err)
		case 11:
			done := c.model.Deleting(4)
			err := l.DeleteBefore(4)
			if err == nil {
				done(4)
			}
			c.note(err)
		}
		c.read()
	}
	err = l.Sync()
	if err == nil {
		c.model.Synced()
	}
	c.note(err)
	c.read()
	c.note(l.Close())
}

func (c *clumsy) append(n int, policy seglog.SyncPolicy) {
	records := make([]seglog.Record, n)
	for i := range records {
		c.next++
		records[i].Value = fmt.Appendf(nil, "value %d %0*d", c.next, c.next*7%150, 0)
	}
	for range 2 { // an append that failed is tried again
		base := c.log.Offsets().End
		at, err := c.model.Append(c.log, records, &seglog.AppendOptions{Sync: &policy})
		if err == nil {
			require.Equal(c.t, base, at.BaseOffset, c.what)
			return
		}
		c.note(err)
	}
}

// read: whatever has failed, what is read is what was written.
func (c *clumsy) read() {
	err := c.model.Check(c.t.Context(), c.log)
	if !known(err) {
		require.NoError(c.t, err, c.what)
	}
	c.note(err)
}

// known: every failure says what it is, for a program and for a person. Background
// work makes the order of calls differ from run to run, so that now and then a
// read meets what was meant for a write.
func known(err error) bool {
	for _, category := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR, syscall.ENOMEM,
		seglog.ErrNoSpace, seglog.ErrFailed, seglog.ErrCorrupt, seglog.ErrOffsetOutOfRange} {
		if errors.Is(err, category) {
			return true
		}
	}
	return false
}

// K048, K049, K108, K109, K110: every call of a workload fails once, in every way
// it can.
func TestNoFailureLosesOrInventsARecord(t *testing.T) {
	for _, opts := range bothWays(small) {
		t.Run(fmt.Sprint("ahead ", opts.AheadBytes), func(t *testing.T) {
			t.Parallel()
			everyFault(t, opts)
		})
	}
}

func everyFault(t *testing.T, opts seglog.Options) {
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		c := newClumsy(t, "without a fault")
		c.opts = opts
		c.run(disk)
		require.Empty(t, c.errors)
	}) {
		if n++; n%max(1, *faultsEvery/5) != 0 {
			continue // of these all are tried unless a fraction is asked for
		}
		c := newClumsy(t, disk.String())
		c.opts = opts
		c.run(disk)
		for _, err := range c.errors {
			require.True(t, known(err), "%s: %v", disk, err)
		}
		require.Zero(t, disk.Open(), "%s: files left open", disk)
		require.Zero(t, disk.Mapped(), "%s: mappings left", disk)
		require.Zero(t, disk.Locked(), "%s: locks left", disk)
		// As the process left it, and after a power cut on top.
		crash := logtest.Crash{Killed: true, Disk: disk.Kill(), Claims: c.model.Claims()}
		requireSurvived(t, crash, small, fmt.Sprintf("after %s", disk))
		crash.Killed = false
		for crash.Disk = range disk.States(3, uint64(n)) {
			requireSurvived(t, crash, small, fmt.Sprintf("after %s, %s", disk, crash.Disk))
		}
	}
	t.Logf("%d faults", n)
}

// The new start is on disk before the old records go. Those that nobody has synced are
// then below it, and what a power cut makes of them is no damage.
func TestALogThatWasToBeginAnewOpensWhateverIsLeft(t *testing.T) {
	for _, opts := range bothWays(seglog.Options{Sync: seglog.SyncNever}) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts.FS = disk.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(t, err)
		appendEach(t, l, seglog.Record{Value: []byte("on disk")})
		require.NoError(t, l.Sync())
		for range 6 {
			appendEach(t, l, seglog.Record{Value: bytes.Repeat([]byte("perhaps"), 100)})
		}
		disk.Fail(logtest.Calls{Kind: logtest.Remove}, syscall.EIO)
		require.ErrorIs(t, l.TruncateFullyAndStartAt(100), seglog.ErrFailed)
		require.ErrorIs(t, l.Close(), seglog.ErrFailed)
		disk.Heal()
		states := 0
		for state := range disk.States(100, 1) {
			opts.FS = state.FS()
			l, err := seglog.Open("log", opts)
			require.NoError(t, err, "%s", state)
			require.Equal(t, seglog.Offsets{Start: 100, Durable: 100, End: 100}, l.Offsets(), "%s", state)
			require.NoError(t, l.Close())
			states++
		}
		require.Positive(t, states)
	}
}

// A log is opened on a full disk, however it was left: else nothing could be removed
// from it. What is there is read, what begins a segment can be removed, and appends
// begin by themselves when there is room.
func TestAFullDiskDoesNotKeepALogShut(t *testing.T) {
	opts := seglog.Options{SegmentBytes: 2000, SegmentIndexBytes: 1200, IndexIntervalBytes: 1, RetentionTime: -1}
	build := func(t *testing.T, closed bool) (*logtest.Disk, []int64) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		o := opts
		o.FS = disk.FS()
		l, err := seglog.Open("log", o)
		require.NoError(t, err)
		for i := range int64(100) {
			appendEach(t, l, one(100+i, fmt.Sprint("record ", i)))
		}
		all := bases(t, l)
		require.Len(t, all, 4)
		killed := disk.Kill()
		require.NoError(t, l.Close())
		if closed {
			return disk, all
		}
		return killed, all
	}
	remove := func(t *testing.T, disk *logtest.Disk, names ...string) {
		for _, name := range names {
			require.NoError(t, disk.FS().Remove(name))
		}
	}
	for _, row := range []struct {
		name   string
		closed bool
		harm   func(t *testing.T, disk *logtest.Disk, bases []int64)
	}{
		{"closed", true, nil},
		{"killed", false, nil},
		{"closed, and indexes are lost", true, func(t *testing.T, disk *logtest.Disk, bases []int64) {
			for _, base := range []int64{bases[1], bases[len(bases)-1]} {
				remove(t, disk, segmentFile("log", base, ".index"), segmentFile("log", base, ".timeindex"))
			}
		}},
		{"killed, and indexes are lost", false, func(t *testing.T, disk *logtest.Disk, bases []int64) {
			for _, base := range []int64{bases[1], bases[len(bases)-1]} {
				remove(t, disk, segmentFile("log", base, ".index"), segmentFile("log", base, ".timeindex"))
			}
		}},
		{"killed, and nothing is known to be durable", false, func(t *testing.T, disk *logtest.Disk, _ []int64) {
			for _, name := range []string{"log/seglog.state", "log/seglog.state.copy"} {
				require.NoError(t, disk.WriteFile(name, checkpoint.AppendState(nil, checkpoint.State{})))
			}
		}},
		{"closed, and its state is lost", true, func(t *testing.T, disk *logtest.Disk, _ []int64) {
			remove(t, disk, "log/seglog.state", "log/seglog.state.copy")
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk, bases := build(t, row.closed)
			if row.harm != nil {
				row.harm(t, disk, bases)
			}
			disk.SyncAll()
			full := func() {
				disk.Fail(logtest.Calls{Kind: logtest.Write}, syscall.ENOSPC)
				disk.Fail(logtest.Calls{Kind: logtest.Preallocate}, syscall.ENOSPC)
			}
			start := int64(0)
			requireWhole := func(l *seglog.Log) {
				t.Helper()
				require.Equal(t, span(start, 99), offsetsOf(readAll(t, l, start)))
				for o := start; o < 100; o++ {
					r, err := l.Get(o)
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint("record ", o), string(r.Value))
					require.Equal(t, o, offsetForTime(t, l, 100+o))
				}
				for _, s := range segments(t, l) {
					require.Equal(t, 100+s.NextOffset-1, s.MaxTimestamp)
				}
			}
			open := func() *seglog.Log {
				t.Helper()
				o := opts
				o.FS = disk.FS()
				l, err := seglog.Open("log", o)
				require.NoError(t, err)
				at := l.Offsets()
				if !row.closed { // on this kind of disk: what was to be written again is not promised
					require.LessOrEqual(t, at.Durable, int64(100))
					at.Durable = 100
				}
				require.Equal(t, seglog.Offsets{Start: start, Durable: 100, End: 100}, at)
				require.Empty(t, stats(t, l).Recovery.Cut)
				return l
			}
			requireFull := func(l *seglog.Log) {
				t.Helper()
				for range 2 {
					_, err := l.Append(many(1, 500), nil)
					require.ErrorIs(t, err, seglog.ErrNoSpace)
				}
				require.Nil(t, stats(t, l).Failed)
			}

			full()
			l := open()
			requireWhole(l)
			requireFull(l)
			// Where a segment begins it takes no room to say that the log starts there.
			start = bases[1]
			require.NoError(t, l.DeleteBefore(start))
			require.Equal(t, start, l.Offsets().Start)
			requireWhole(l)
			// Within one it does, and what can be done is.
			require.ErrorIs(t, l.DeleteBefore(bases[2]+1), seglog.ErrNoSpace)
			start = bases[2]
			require.Equal(t, start, l.Offsets().Start)
			_, err := l.ApplyRetention(t.Context())
			require.NoError(t, err)
			requireWhole(l)

			// Killed, or closed as well as it can be, and opened again on the full disk.
			killed := disk.Kill()
			if err := l.Close(); err != nil {
				require.ErrorIs(t, err, seglog.ErrNoSpace)
			}
			for _, again := range []*logtest.Disk{disk, killed} {
				disk = again
				disk.Heal()
				full()
				l = open()
				requireWhole(l)
				requireFull(l)

				disk.Heal() // somebody made room
				appendEach(t, l, one(200, "record 100"))
				require.Equal(t, int64(101), l.Offsets().Durable)
				crashed := disk.Kill()
				require.NoError(t, l.Close())
				for _, after := range []*logtest.Disk{disk, crashed} {
					o := opts
					o.FS = after.FS()
					l, err := seglog.Open("log", o)
					require.NoError(t, err)
					require.Equal(t, after == disk, stats(t, l).Recovery.Clean)
					require.Equal(t, span(start, 100), offsetsOf(readAll(t, l, start)))
					require.NoError(t, l.Close())
					report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: after.FS(), Jobs: 1})
					require.NoError(t, err)
					require.Zero(t, report.Damage, "%v", report.Problems)
				}
			}
		})
	}
}

// And if that open has no room to write it again it promises nothing of it, until it has.
func TestWhatCouldNotBeWrittenAgainIsNotPromised(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 0)...)
	never := seglog.SyncNever
	for _, r := range many(5, 5) {
		_, err := l.Append([]seglog.Record{r}, &seglog.AppendOptions{Sync: &never})
		require.NoError(t, err)
	}
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*.log"}, syscall.ENOSPC)
	require.ErrorIs(t, l.Sync(), seglog.ErrFailed)
	_ = l.Close()
	disk.Heal()
	kept := func(at seglog.Offsets) {
		t.Helper()
		for state := range disk.States(10, 1) {
			o := opts
			o.FS = state.FS()
			l, err := seglog.Open("log", o)
			require.NoError(t, err, "%s", state)
			require.GreaterOrEqual(t, l.Offsets().End, at.Durable, "%s", state)
			readAll(t, l, 0)
			_ = l.Close() // on a full disk it cannot do all
		}
	}
	disk.SetCapacity(1)
	for range 2 { // opened on the full disk, closed as well as can be, and once more
		l, err = seglog.Open("log", opts)
		require.NoError(t, err)
		require.Len(t, readAll(t, l, 0), 10)
		require.LessOrEqual(t, l.Offsets().Durable, int64(5))
		for range 2 {
			require.ErrorIs(t, l.Sync(), seglog.ErrNoSpace)
			require.ErrorIs(t, l.WaitDurable(t.Context(), 10), seglog.ErrNoSpace)
			_, err = l.Append(many(1, 10), nil)
			require.ErrorIs(t, err, seglog.ErrNoSpace)
		}
		require.Nil(t, stats(t, l).Failed)
		kept(l.Offsets())
		require.ErrorIs(t, l.Close(), seglog.ErrNoSpace)
	}
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	disk.SetCapacity(1 << 20)
	require.NoError(t, l.Sync())
	require.Equal(t, int64(10), l.Offsets().Durable)
	kept(l.Offsets())
	appendEach(t, l, many(1, 10)...)
	require.Equal(t, int64(11), l.Offsets().Durable)
	kept(l.Offsets())
	require.NoError(t, l.Close())
}

// The same of a truncation whose sync fails: the next open sees the log truncated, and
// makes sure that it is.
func TestATruncationThatWasNotSyncedIsMadeAgainByTheNextOpen(t *testing.T) {
	for _, to := range []int64{0, 5} {
		for _, more := range []int{0, 3} {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			opts := seglog.Options{FS: disk.FS()}
			l, err := seglog.Open("log", opts)
			require.NoError(t, err)
			appendEach(t, l, many(10, 0)...)
			disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*.log"}, syscall.EIO)
			require.ErrorIs(t, l.TruncateTo(to), seglog.ErrFailed)
			_ = l.Close()
			disk.Heal()
			l, err = seglog.Open("log", opts)
			require.NoError(t, err)
			require.NoError(t, l.Sync())
			require.Equal(t, seglog.Offsets{Durable: to, End: to}, l.Offsets())
			appendEach(t, l, many(more, 0)...)
			for state := range disk.States(10, 1) {
				o := opts
				o.FS = state.FS()
				l, err := seglog.Open("log", o)
				require.NoError(t, err, "%s", state)
				require.Equal(t, to+int64(more), l.Offsets().End, "%s", state)
				require.NoError(t, l.Close())
			}
			require.NoError(t, l.Close())
		}
	}
}

// One file of many cannot be removed: the segments that are out of the log are closed,
// removed when it can be done, and never part of the log again.
func TestARemovalThatFailsIsMadeUpFor(t *testing.T) {
	remove := map[string]func(l *seglog.Log) error{
		"by retention":    func(l *seglog.Log) error { _, err := l.ApplyRetention(t.Context()); return err },
		"by DeleteBefore": func(l *seglog.Log) error { return errors.Join(l.DeleteBefore(6), l.DeleteBefore(6)) }, // and waits
	}
	build := func(t *testing.T) (*logtest.Disk, *seglog.Log, seglog.Options) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := seglog.Options{RetentionBytes: 1, RetentionTime: -1, FS: disk.FS()}
		l, err := seglog.Open("log", opts)
		require.NoError(t, err)
		for o := range int64(7) {
			appendEach(t, l, many(1, o)...)
			roll(t, l)
			_, err := l.Get(o) // so that the files are open
			require.NoError(t, err)
		}
		return disk, l, opts
	}
	count := func(disk *logtest.Disk) (n int) {
		names, err := disk.ReadDir("log")
		require.NoError(t, err)
		for _, name := range names {
			if strings.Contains(name, ".log") {
				n++
			}
		}
		return n
	}
	for name, remove := range remove {
		for _, kind := range []logtest.Kind{logtest.Remove, logtest.Rename} {
			t.Run(name+", the call that fails is "+string(kind), func(t *testing.T) {
				disk, l, opts := build(t)
				disk.Fail(logtest.Calls{Kind: kind, Name: "*000.log*"}, syscall.EIO)
				require.ErrorIs(t, remove(l), syscall.EIO)
				start := l.Offsets().Start
				require.GreaterOrEqual(t, start, int64(6))
				killed := disk.Kill()
				opts.FS = killed.FS()
				again, err := seglog.Open("log", opts)
				require.NoError(t, err)
				require.Equal(t, start, again.Offsets().Start, "it does not come back")
				require.NoError(t, again.Close())

				disk.Heal()
				require.NoError(t, remove(l))
				require.LessOrEqual(t, count(disk), 2)
				require.NoError(t, l.Close())
				require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())

				disk, l, opts = build(t)
				disk.Fail(logtest.Calls{Kind: kind, Name: "*000.log*"}, syscall.EIO)
				require.Error(t, remove(l))
				require.ErrorIs(t, l.TruncateFullyAndStartAt(2), syscall.EIO, "where some of them are")
				disk.Heal()
				require.NoError(t, l.TruncateFullyAndStartAt(2))
				appendEach(t, l, many(1, 2)...)
				require.NoError(t, l.Close())
				opts.FS = disk.FS()
				l, err = seglog.Open("log", opts)
				require.NoError(t, err)
				require.Equal(t, seglog.Offsets{Start: 2, Durable: 3, End: 3}, l.Offsets())
				require.Equal(t, []int64{2}, offsetsOf(readAll(t, l, 2)))
				require.NoError(t, l.Close())
			})
		}
	}
	t.Run("by truncation", func(t *testing.T) {
		disk, l, opts := build(t)
		disk.Fail(logtest.Calls{Kind: logtest.Remove, Nth: 1}, syscall.EIO)
		require.ErrorIs(t, l.TruncateTo(1), seglog.ErrFailed)
		require.ErrorIs(t, l.Close(), seglog.ErrFailed)
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
		opts.FS = disk.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(t, err)
		readAll(t, l, 0)
		require.NoError(t, l.Close())
	})
}

// An append that failed half-way is taken back, and stays so if the log rolls before
// anything else is synced in its segment.
func TestAnAppendThatWasTakenBackStaysSoBehindARoll(t *testing.T) {
	for name, written := range map[string]int{"a part of it was written": 600, "all of it was written": 1 << 20} {
		for name2, state := range map[string]string{"killed before the recovery point follows": "seglog.state*", "the recovery point follows": ""} {
			t.Run(name+", "+name2, func(t *testing.T) {
				disk := logtest.NewDisk(logtest.DiskOptions{})
				opts := seglog.Options{SegmentBytes: 2000, SegmentIndexBytes: 256, FS: disk.FS()}
				sealed := make(chan int64, 1)
				opts.Events.Sealed = func(next int64) { sealed <- next }
				l, err := seglog.Open("log", opts)
				require.NoError(t, err)
				opts.Events.Sealed = nil
				appendEach(t, l, many(3, 0)...)
				disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log", Nth: 1}, written, syscall.EIO)
				_, err = l.Append([]seglog.Record{{Value: make([]byte, 1500)}}, nil)
				require.ErrorIs(t, err, syscall.EIO)
				require.NotErrorIs(t, err, seglog.ErrFailed)
				disk.Heal()
				if state != "" {
					disk.Fail(logtest.Calls{Name: state}, syscall.EIO)
				}
				_, err = l.Roll()
				require.NoError(t, err)
				appendEach(t, l, many(3, 3)...)
				if state == "" {
					<-sealed
				}
				for after := range disk.States(40, 1) {
					o := opts
					o.FS = after.FS()
					l, err := seglog.Open("log", o)
					require.NoError(t, err, "%s", after)
					require.Equal(t, span(0, 5), offsetsOf(readAll(t, l, 0)), "%s", after)
					require.NoError(t, l.Close())
					report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: after.FS(), Jobs: 1})
					require.NoError(t, err)
					require.Zero(t, report.Damage, "%v", report.Problems)
				}
				_ = l.Close()
			})
		}
	}
}

// Recovery sets the size of a file again, to one byte more and back. A crash in between
// does not end the log at that byte, with a segment behind it.
func TestACrashWhileRecoveryWritesAgainCostsNothing(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{SegmentBytes: 2000, SegmentIndexBytes: 256, FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(3, 0)...)
	disk.Fail(logtest.Calls{Name: "seglog.state*"}, syscall.EIO) // the recovery point stays where it is
	_, err = l.Roll()
	require.NoError(t, err)
	appendEach(t, l, many(3, 3)...)
	require.Equal(t, int64(6), l.Offsets().Durable)
	disk = disk.Kill()
	_ = l.Close()

	var stopped []*logtest.Disk
	disk.OnOp(func(op logtest.Op) {
		if op.Kind == logtest.Truncate && strings.HasSuffix(op.Name, ".log") {
			stopped = append(stopped, disk.Kill())
		}
	})
	opts.FS = disk.FS()
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.GreaterOrEqual(t, len(stopped), 4)
	for _, disk := range stopped {
		for _, refuse := range []bool{true, false} {
			opts.FS, opts.RefuseCut = disk.FS(), refuse
			l, err := seglog.Open("log", opts)
			require.NoError(t, err)
			require.Equal(t, span(0, 5), offsetsOf(readAll(t, l, 0)))
			require.Empty(t, stats(t, l).Recovery.SetAside)
			require.NoError(t, l.Close())
		}
	}
}

// A kernel that cannot write a page reports it to one sync, and shows the page as if it
// had been written as long as it runs. An open that finds it there must not take it for
// durable: it is written again.
func TestWhatAFailedSyncLeftInMemoryIsWrittenAgainByTheNextOpen(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS()} // without rolls: nobody else syncs
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(30, 0)...)
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*log*", Nth: 1}, syscall.EIO)
	_, err = l.Append(many(5, 30), nil)
	require.ErrorIs(t, err, seglog.ErrFailed)
	_ = l.Close()
	disk.Heal()

	l, err = seglog.Open("log", opts) // in the same boot
	require.NoError(t, err)
	require.Equal(t, int64(35), l.Offsets().End, "what the failed append wrote is seen, and counts")
	require.NoError(t, l.Sync())
	end := l.Offsets().Durable
	require.Equal(t, int64(35), end)
	require.NoError(t, l.Close())
	for state := range disk.States(50, 1) { // now the power goes out
		opts.FS = state.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(t, err, "%s", state)
		require.Len(t, readAll(t, l, 0), int(end), "%s", state)
		require.NoError(t, l.Close())
	}
}

// A process that was killed between making the directory and syncing its parent leaves
// a directory that the next one finds: what that one acknowledges must not go with it.
func TestADirectoryThatSomeoneElseMadeIsOnDiskBeforeItsRecords(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	require.NoError(t, disk.FS().MkdirAll("log", 0o755))
	opts := seglog.Options{FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(3, 0)...)
	for state := range disk.States(20, 1) {
		opts.FS = state.FS()
		again, err := seglog.Open("log", opts)
		require.NoError(t, err, "%s", state)
		require.Len(t, readAll(t, again, 0), 3, "%s", state)
		require.NoError(t, again.Close())
	}
	require.NoError(t, l.Close())
}

// Where the cut of a partial append fails as well, nothing is written behind it until the
// log is opened again.
func TestNothingIsWrittenBehindAPartialAppendThatCannotBeCut(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 0)...)
	before, err := disk.ReadFile(segmentFile("log", 0, ".log"))
	require.NoError(t, err)
	large := one(9, strings.Repeat("x", 1000))
	disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log", Nth: 1}, 700, syscall.ENOSPC)
	disk.Fail(logtest.Calls{Kind: logtest.Truncate, Name: "*.log"}, syscall.EIO)
	_, err = l.Append([]seglog.Record{large}, nil)
	require.ErrorIs(t, err, seglog.ErrFailed)
	refused := func() {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := l.Append([]seglog.Record{large}, nil); !errors.Is(err, seglog.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("the first failure is not what is said: %v", err)
				}
			})
		}
		all.Wait()
		require.Equal(t, int64(5), l.Offsets().End)
		require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
		after, err := disk.ReadFile(segmentFile("log", 0, ".log"))
		require.NoError(t, err)
		require.Len(t, after, len(before)+700)
	}
	refused()
	disk.Heal()
	refused()
	_ = l.Close()
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Len(t, stats(t, l).Recovery.Cut, 1)
	_, err = l.Append([]seglog.Record{large}, nil)
	require.NoError(t, err)
	require.Equal(t, span(0, 5), offsetsOf(readAll(t, l, 0)))
	require.NoError(t, l.Close())
}

// A file system that moves a few bytes at a time makes the same files as one that does
// as it is told, and all that reads them finds the same.
func TestShortReadsAndWritesMakeNoDifference(t *testing.T) {
	opts := seglog.Options{SegmentBytes: 4000, SegmentIndexBytes: 512, IndexIntervalBytes: 300, CleanupPolicy: seglog.CleanupCompactDelete,
		TimestampAfterMax: -1, RetentionTime: -1, ProducerIDExpiration: math.MaxInt64}
	work := func(disk *logtest.Disk) {
		o := opts
		o.FS = disk.FS()
		l, err := seglog.Open("log", o)
		require.NoError(t, err)
		sequence := int32(0)
		for i := range int64(60) {
			base := l.Offsets().End
			key := seglog.Record{Offset: base, Timestamp: 100 + i, Key: fmt.Appendf(nil, "key %d", i%7), Value: noise(int(50 + i))}
			batch := record.BuilderOptions{BaseOffset: base, Codec: record.Codec(i % 5)}
			if i%3 == 0 {
				batch.Producer, batch.Transactional = &record.Producer{ID: 7, Epoch: 1, BaseSequence: sequence}, true
				sequence++
			}
			_, err := l.AppendReplicated(batchAt(t, batch, key), nil)
			require.NoError(t, err)
			if i%10 == 9 {
				_, err := l.AppendReplicated(marker(t, l.Offsets().End, 7, record.ControlType(i/10%2)), nil)
				require.NoError(t, err)
			}
		}
		require.NoError(t, l.TruncateTo(l.Offsets().End-3))
		_, err = l.Roll()
		require.NoError(t, err)
		_, err = l.Compact(t.Context(), &seglog.CompactOptions{Full: true, Now: time.UnixMilli(1000)})
		require.NoError(t, err)
		require.NoError(t, l.DeleteBefore(15))
		require.NoError(t, l.Close())

		// Indexes, and what is known of producers and epochs, are made anew.
		names, err := disk.ReadDir("log")
		require.NoError(t, err)
		for _, name := range names {
			switch filepath.Ext(name) {
			case ".index", ".timeindex", ".snapshot", ".txnindex":
				require.NoError(t, disk.FS().Remove("log/"+name))
			}
		}
		require.NoError(t, disk.FS().Remove("log/leader-epoch-checkpoint"))
		l, err = seglog.Open("log", o)
		require.NoError(t, err)
		_ = segments(t, l)
		_ = committed(t, l)
		require.NoError(t, l.Close())
		report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: o.FS})
		require.NoError(t, err)
		require.Zero(t, report.Damage, "%v", report.Problems)
		_, err = seglog.Recover(t.Context(), "log", "copy", seglog.RecoverOptions{FS: o.FS})
		require.NoError(t, err)
	}
	files := func(disk *logtest.Disk) map[string]string {
		all := map[string]string{}
		for _, dir := range []string{"log", "copy"} {
			names, err := disk.ReadDir(dir)
			require.NoError(t, err)
			for _, name := range names {
				data, err := disk.ReadFile(dir + "/" + name)
				require.NoError(t, err)
				if s, err := checkpoint.ParseState(data); err == nil {
					s.Sequence = 0 // what runs behind the rolls changes it as often as it comes to that
					data = checkpoint.AppendState(nil, s)
				}
				all[dir+"/"+name] = string(data)
			}
		}
		return all
	}
	found := func(disk *logtest.Disk) (all []string) {
		l, err := seglog.Open("log", seglog.Options{FS: disk.FS(), ReadOnly: true})
		require.NoError(t, err)
		for r, err := range l.Records(t.Context(), 15, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
			require.NoError(t, err)
			got, err := l.Get(r.Offset)
			require.NoError(t, err)
			at := offsetForTime(t, l, r.Timestamp)
			all = append(all, fmt.Sprintf("%d %d %d %s %x", r.Offset, at, got.Timestamp, r.Key, r.Value))
		}
		require.NotEmpty(t, all)
		require.NoError(t, l.Close())
		return all
	}
	whole, short := logtest.NewDisk(logtest.DiskOptions{}), logtest.NewDisk(logtest.DiskOptions{})
	short.Shorten(logtest.Calls{Kind: logtest.Read}, 7)
	short.Shorten(logtest.Calls{Kind: logtest.Write}, 13)
	work(whole)
	work(short)
	require.Greater(t, short.Failed(), 1000)
	require.Equal(t, files(whole), files(short))
	require.Equal(t, found(whole), found(short))
}

// nameFS counts the names that are made, and how often a directory is synced for them.
type nameFS struct {
	vfs.FS
	made, synced atomic.Int64
}

func (n *nameFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_CREATE != 0 {
		if _, err := n.FS.Stat(name); err != nil {
			n.made.Add(1)
		}
	}
	return n.FS.OpenFile(name, flag, perm)
}

func (n *nameFS) Rename(from, to string) error {
	n.made.Add(1)
	return n.FS.Rename(from, to)
}

func (n *nameFS) SyncDir(name string) error {
	n.synced.Add(1)
	return n.FS.SyncDir(name)
}

// That a name is on disk when the first record behind it is acknowledged is shown by
// TestNothingDurableIsLostInAPowerCut.
func TestADirectoryIsSyncedForNewNamesAndNotForAppends(t *testing.T) {
	counted := &nameFS{FS: logtest.NewDisk(logtest.DiskOptions{}).FS()}
	l, err := seglog.Open("log", seglog.Options{FS: counted})
	require.NoError(t, err)
	appendEach(t, l, many(1, 0)...)
	before := counted.synced.Load()
	appendEach(t, l, many(50, 10)...)
	require.Equal(t, before, counted.synced.Load(), "nothing has got a name")
	for range 10 {
		rollLog(t, l)
		appendEach(t, l, many(20, 100)...)
	}
	require.NoError(t, l.Close())
	require.LessOrEqual(t, counted.synced.Load(), counted.made.Load()+2)
}

// The first failure of a sync stays: nothing later says that the records are on disk, and
// what the state says was on disk does not change.
func TestAFailedSyncIsNotMadeGoodByALaterOne(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS(), Sync: seglog.SyncNever}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(3, 0)...)
	require.NoError(t, l.Sync())
	state, err := disk.ReadFile("log/seglog.state")
	require.NoError(t, err)
	appendEach(t, l, many(3, 10)...)
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*.log", Nth: 1}, syscall.EIO)
	for name, call := range map[string]func() error{
		"sync":   l.Sync,
		"append": func() error { _, err := l.Append(many(1, 20), nil); return err },
		"wait":   func() error { return l.WaitDurable(t.Context(), 5) },
		"roll":   func() error { _, err := l.Roll(); return err },
		"delete": func() error { return l.DeleteBefore(2) },
	} {
		if name != "sync" {
			require.ErrorIs(t, l.Sync(), syscall.EIO, name)
		}
		for range 2 {
			require.ErrorIs(t, call(), seglog.ErrFailed, name)
			require.ErrorIs(t, call(), syscall.EIO, name)
		}
		require.Equal(t, int64(3), l.Offsets().Durable)
	}
	require.Equal(t, span(0, 5), offsetsOf(readAll(t, l, 0)), "reading goes on")
	_ = l.Close()
	after, err := disk.ReadFile("log/seglog.state")
	require.NoError(t, err)
	require.Equal(t, string(state), string(after))
	requireInAllStates(t, disk, opts, span(0, 2))
}

// requireInAllStates: the records at these offsets are there after a power cut.
func requireInAllStates(t *testing.T, disk *logtest.Disk, opts seglog.Options, offsets []int64) {
	for state := range disk.States(20, 1) {
		opts.FS = state.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(t, err, "%s", state)
		require.Subset(t, offsetsOf(readAll(t, l, 0)), offsets, "%s", state)
		require.NoError(t, l.Close())
	}
}

// Behind a roll the room ahead is cut off, and the cut synced: with records that nobody
// has synced before.
func TestAFailedSyncOfASealedSegmentIsNotMadeGoodEither(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS(), Sync: seglog.SyncNever, AheadBytes: 4096}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(3, 0)...)
	require.NoError(t, l.Sync())
	appendEach(t, l, many(30, 10)...)
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*00.log", Nth: 1}, syscall.EIO)
	_, err = l.Roll()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return disk.Failed() == 1 }, 10*time.Second, time.Millisecond)
	for range 2 {
		err = l.Sync()
		require.ErrorIs(t, err, seglog.ErrFailed)
		require.ErrorIs(t, err, syscall.EIO)
	}
	require.Equal(t, int64(3), l.Offsets().Durable)
	require.ErrorIs(t, l.Close(), seglog.ErrFailed)
	requireInAllStates(t, disk, opts, span(0, 2))
}

// The recovery point moves when the log, its indexes, the snapshot of its producers and
// the names of all of them are on disk, and not before. A list of aborted transactions of
// which that is not known is removed instead, and made again from the log.
func TestTheRecoveryPointWaitsForAllThatItStandsFor(t *testing.T) {
	opts := seglog.Options{IndexIntervalBytes: 1, SegmentIndexBytes: 1200, Sync: seglog.SyncNever, TimestampAfterMax: -1}
	future := time.Now().Add(time.Hour).UnixMilli() // later than what the log gives out
	point := func(t *testing.T, disk *logtest.Disk) int64 {
		state, err := (&checkpoint.StateFiles{FS: disk.FS(), Dir: "log"}).Read()
		require.NoError(t, err)
		return state.RecoveryPoint
	}
	requireWhole := func(t *testing.T, disk *logtest.Disk, durable int64) {
		o := opts
		o.FS = disk.FS()
		l, err := seglog.Open("log", o)
		require.NoError(t, err, "%s", disk)
		end := l.Offsets().End
		require.GreaterOrEqual(t, end, durable, "%s", disk)
		require.Equal(t, spans(span(0, 7), span(9, end-1)), offsetsOf(readAll(t, l, 0)), "%s", disk)
		require.Equal(t, append([]int64{}, span(9, end-1)...), committed(t, l), "%s", disk)
		for o := int64(9); o < end; o++ {
			require.Equal(t, o, offsetForTime(t, l, future+o), "%s", disk)
		}
		if end > 9 {
			require.Equal(t, future+end-1, segments(t, l)[0].MaxTimestamp, "%s", disk)
		}
		producers, err := l.Producers()
		require.NoError(t, err)
		require.Len(t, producers, 1, "%s", disk)
		require.NoError(t, l.Close())
		report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: o.FS, Jobs: 1})
		require.NoError(t, err)
		require.Zero(t, report.Damage, "%s: %v", disk, report.Problems)
	}
	for name, calls := range map[string]logtest.Calls{
		"the log":                {Kind: logtest.Sync, Name: "00000000000000000000.log"},
		"its index":              {Kind: logtest.Flush, Name: "00000000000000000000.index"},
		"its time index":         {Kind: logtest.Flush, Name: "00000000000000000000.timeindex"},
		"the list of aborts":     {Kind: logtest.Sync, Name: "00000000000000000000.txnindex"},
		"the snapshot":           {Kind: logtest.Sync, Name: "*.snapshot*"},
		"the directory":          {Kind: logtest.SyncDir},
		"the cut of the index":   {Kind: logtest.Truncate, Name: "00000000000000000000.index"},
		"the name of a snapshot": {Kind: logtest.Rename, Name: "*.snapshot"},
	} {
		for _, once := range []bool{false, true} {
			forget := once && (calls.Kind == logtest.Sync || calls.Kind == logtest.Flush)
			t.Run(fmt.Sprintf("%s, once %v", name, once), func(t *testing.T) {
				disk := logtest.NewDisk(logtest.DiskOptions{})
				o := opts
				o.FS = disk.FS()
				l, err := seglog.Open("log", o)
				require.NoError(t, err)
				w := &writer{t: t, log: l, id: 1, txn: true}
				for range 8 {
					w.send(1)
				}
				w.end(seglog.Abort)
				require.NoError(t, l.Sync())
				appendEach(t, l, many(8, future+9)...)
				require.Zero(t, point(t, disk))

				if once {
					calls.Nth = 1
				}
				if forget {
					disk.FailAndForget(calls, syscall.EIO)
				} else {
					disk.Fail(calls, syscall.EIO)
				}
				_, rolled := l.Roll()
				synced := l.Sync()
				closed := l.Close() // waits for what runs behind a roll
				require.Positive(t, disk.Failed(), "it rests on that call")
				durable := int64(9)
				if synced == nil {
					durable = 17
				}
				if _, err := disk.ReadFile("log/00000000000000000000.txnindex"); !once && err == nil {
					require.Less(t, point(t, disk), int64(17), "%v, %v, %v", rolled, synced, closed)
				}
				if forget && calls.Kind == logtest.Flush { // a later one is no proof
					require.ErrorIs(t, closed, syscall.EIO)
					require.Less(t, point(t, disk), int64(17))
				}
				disk.Heal()
				for state := range disk.States(30, 1) {
					requireWhole(t, state, durable)
				}
				requireWhole(t, disk, durable)
			})
		}
	}
}

// What recovery has read is not on disk for that: as long as it could not be synced the
// next open looks at the same segments again.
func TestRecoveryDoesNotMoveTheRecoveryPointAheadOfTheDisk(t *testing.T) {
	build := func() *logtest.Disk {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		require.NoError(t, disk.WriteFile("logs/meta.properties", []byte("version=1\n")))
		require.NoError(t, disk.WriteFile("logs/recovery-point-offset-checkpoint", []byte("0\n1\norders 0 0\n")))
		disk.SyncAll()
		for base := int64(0); base < 30; base += 10 { // in memory only
			require.NoError(t, disk.WriteFile(segmentFile("logs/orders-0", base, ".log"), append(plainBatch(t, base, base+4), plainBatch(t, base+5, base+9)...)))
		}
		return disk
	}
	open := func(disk *logtest.Disk) (*seglog.Log, error) {
		return seglog.Open("logs/orders-0", seglog.Options{FS: disk.FS(), SegmentIndexBytes: 256})
	}
	t.Run("a sync fails", func(t *testing.T) {
		disk := build()
		disk.Fail(logtest.Calls{Kind: logtest.Sync, Name: "*.log"}, syscall.EIO)
		for range 2 {
			_, err := open(disk)
			require.ErrorIs(t, err, syscall.EIO)
		}
		disk.Heal()
		l, err := open(disk)
		require.NoError(t, err)
		require.Equal(t, 3, stats(t, l).Recovery.Scanned)
		require.Equal(t, span(0, 29), offsetsOf(readAll(t, l, 0)))
		require.NoError(t, l.Close())
	})
	t.Run("power is lost meanwhile", func(t *testing.T) {
		disk := build()
		disk.OnCrash(*crashStates, 1, nil, func(c logtest.Crash) {
			l, err := open(c.Disk)
			require.NoError(t, err, "%s", c)
			all := readAll(t, l, l.Offsets().Start)
			if c.Killed {
				require.Len(t, all, 30, "%s", c)
			}
			for _, r := range all {
				require.Equal(t, fmt.Sprint("value ", r.Offset), string(r.Value), "%s", c)
			}
			require.NoError(t, l.Close())
		})
		l, err := open(disk)
		require.NoError(t, err)
		disk.OnOp(nil)
		require.NoError(t, l.Close())
	})
}

// A system on which an open or mapped file cannot be renamed, removed or cut.
func TestALogWorksWhereOpenFilesCannotBeMoved(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{WindowsLike: true})
	opts := small
	opts.FS, opts.RetentionBytes = disk.FS(), 6000
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	next := int64(0)
	for round := range 6 {
		for range 40 { // rolls, and indexes that grow
			appendEach(t, l, one(next, fmt.Sprint("value ", next)))
			next++
		}
		for _, r := range readAll(t, l, l.Offsets().Start) {
			require.Equal(t, fmt.Sprint("value ", r.Offset), string(r.Value))
		}
		switch round {
		case 1:
			require.NoError(t, l.TruncateTo(next-25))
			next -= 25
		case 2:
			require.NoError(t, l.DeleteBefore(next-50))
		case 3:
			require.NoError(t, l.TruncateFullyAndStartAt(next))
		case 4:
			require.NoError(t, l.Close())
			l, err = seglog.Open("log", opts)
			require.NoError(t, err)
			require.True(t, stats(t, l).Recovery.Clean)
		}
		_, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
	}
	require.Positive(t, l.Offsets().Start)
	want := readAll(t, l, l.Offsets().Start)
	require.NoError(t, l.Close())
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Equal(t, want, readAll(t, l, l.Offsets().Start))
	require.NoError(t, l.Close())
}

// A system that has no mappings left gives errors that say so, and nothing else: what
// could not be opened can be tried again.
func TestWithoutMappingsThereAreErrorsAndNothingIsLost(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := small
	opts.FS = disk.FS()
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(100, 1000)...)
	require.NoError(t, l.Close())
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Greater(t, len(bases(t, l)), 2)
	require.NoError(t, l.Close())
	l, err = seglog.Open("log", opts) // the sealed segments are not open
	require.NoError(t, err)

	disk.Fail(logtest.Calls{Kind: logtest.Map}, syscall.ENOMEM)
	failed := 0
	for range 2 {
		for o := range int64(100) {
			r, err := l.Get(o)
			if err == nil {
				require.Equal(t, 1000+o, r.Timestamp)
				continue
			}
			require.ErrorIs(t, err, syscall.ENOMEM)
			require.NotErrorIs(t, err, seglog.ErrCorrupt)
			failed++
		}
	}
	require.Positive(t, failed)
	end := int64(100)
	for range 60 { // until a segment is to be begun
		if _, err = l.Append(many(1, 1000+end), nil); err != nil {
			break
		}
		end++
	}
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, end, l.Offsets().End)

	disk.Heal()
	require.Nil(t, stats(t, l).Failed)
	appendEach(t, l, many(5, 1000+end)...)
	end += 5
	require.Equal(t, span(0, end-1), offsetsOf(readAll(t, l, 0)))
	require.NoError(t, l.Close())
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Equal(t, span(0, end-1), offsetsOf(readAll(t, l, 0)))
	require.NoError(t, l.Close())
}

// A roll that fails half-way and cannot remove what it made ends writing: an empty segment
// in the middle of another would hide the records behind it.
func TestWhatARollCannotTakeBackEndsWriting(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 0)...)
	disk.Fail(logtest.Calls{Kind: logtest.Create, Name: "*005.timeindex"}, syscall.EIO)
	disk.Fail(logtest.Calls{Kind: logtest.Remove, Name: "*005.log"}, syscall.EIO)
	_, err = l.Roll()
	require.ErrorIs(t, err, seglog.ErrFailed)
	disk.Heal()
	_, err = l.Append(many(1, 5), nil)
	require.ErrorIs(t, err, seglog.ErrFailed)
	require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
	require.ErrorIs(t, l.Close(), seglog.ErrFailed)
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 5)...)
	roll(t, l)
	require.NoError(t, l.Close())
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Equal(t, span(0, 9), offsetsOf(readAll(t, l, 0)))
	require.NoError(t, l.Close())
}
