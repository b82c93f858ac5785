package seglog_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/logtest"
)

// clumsy is a workload that goes on whatever fails, as a program does that logs
// its errors. What it was told it remembers.
type clumsy struct {
	t      *testing.T
	what   string
	log    *seglog.Log
	model  *logtest.Model
	errors []error
	next   int
}

func newClumsy(t *testing.T, what string) *clumsy {
	return &clumsy{t: t, what: what, model: &logtest.Model{}}
}

func (c *clumsy) note(err error) {
	if err != nil {
		c.errors = append(c.errors, err)
	}
}

func (c *clumsy) run(disk *logtest.Disk) {
	opts := small
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
	c.note(l.Sync())
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
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		c := newClumsy(t, "without a fault")
		c.run(disk)
		require.Empty(t, c.errors)
	}) {
		if n++; n%max(1, *faultsEvery/5) != 0 {
			continue // of these all are tried unless a fraction is asked for
		}
		c := newClumsy(t, disk.String())
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
				require.Equal(t, seglog.Offsets{Start: start, Durable: 100, End: 100}, l.Offsets())
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
	end := l.Offsets().Durable
	require.Equal(t, int64(35), end, "what the failed append wrote is seen, and counts")
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
