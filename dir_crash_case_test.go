package seglog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// claims are what a user of a Dir was told, by partition. They are read while a crash is
// tried, in the middle of a call.
type claims struct {
	sync.Mutex
	partitions map[string]*claim
}

type claim struct {
	appended []appended
	exists   bool // it must be there
	absent   bool // it must not be there
}

// appended is a value that was appended, in order; offset is -1 until it is known to be
// durable.
type appended struct {
	value  string
	offset int64
	must   bool // be there
	gone   bool // must not
}

func (c *claims) set(name string, change func(*claim)) {
	c.Lock()
	defer c.Unlock()
	if c.partitions[name] == nil {
		c.partitions[name] = &claim{}
	}
	change(c.partitions[name])
}

func (c *claims) copy() map[string]claim {
	c.Lock()
	defer c.Unlock()
	all := map[string]claim{}
	for name, c := range c.partitions {
		all[name] = claim{slices.Clone(c.appended), c.exists, c.absent}
	}
	return all
}

// dirDriver does things to a Dir and notes what it was told. With faults it goes on
// whatever fails.
type dirDriver struct {
	t      testing.TB
	dir    *seglog.Dir
	claims *claims
	errs   []error
	next   int
}

func (d *dirDriver) note(err error) bool {
	if err != nil {
		d.errs = append(d.errs, err)
	}
	return err == nil
}

func (d *dirDriver) create(topic string) {
	d.claims.set(topic, func(c *claim) { c.absent = false })
	if _, err := d.dir.CreatePartition(topic, 0, nil); d.note(err) {
		d.claims.set(topic, func(c *claim) { c.exists = true })
	}
}

func (d *dirDriver) delete(topic string) {
	d.claims.set(topic, func(c *claim) {
		c.exists = false
		for i := range c.appended {
			c.appended[i].must = false
		}
	})
	if d.note(d.dir.DeletePartition(topic, 0)) {
		d.claims.set(topic, func(c *claim) { *c = claim{absent: true} })
	}
}

func (d *dirDriver) log(topic string) *seglog.Log {
	l, err := d.dir.Partition(topic, 0)
	d.note(err)
	return l
}

func (d *dirDriver) append(topic string, n int) {
	l := d.log(topic)
	if l == nil {
		return
	}
	for range n {
		d.next++
		value := fmt.Sprint(topic, " ", d.next)
		d.claims.set(topic, func(c *claim) { c.appended = append(c.appended, appended{value: value, offset: -1}) })
		at, err := l.Append([]seglog.Record{{Value: []byte(value), Timestamp: int64(1000 + d.next)}}, nil)
		d.claims.set(topic, func(c *claim) {
			last := &c.appended[len(c.appended)-1]
			if d.note(err) {
				last.offset, last.must = at.BaseOffset, true
			} else if !errors.Is(err, seglog.ErrFailed) {
				last.gone = true
			}
		})
	}
}

func (d *dirDriver) deleteBefore(topic string, offset int64) {
	l := d.log(topic)
	if l == nil {
		return
	}
	d.claims.set(topic, func(c *claim) {
		for i := range c.appended {
			c.appended[i].must = c.appended[i].must && c.appended[i].offset >= offset
		}
	})
	d.note(l.DeleteBefore(offset))
}

func (d *dirDriver) truncate(topic string, offset int64) {
	l := d.log(topic)
	if l == nil {
		return
	}
	d.claims.set(topic, func(c *claim) {
		for i := range c.appended {
			c.appended[i].must = c.appended[i].must && c.appended[i].offset < offset
		}
	})
	if d.note(l.TruncateTo(offset)) {
		d.claims.set(topic, func(c *claim) {
			for i := range c.appended {
				c.appended[i].gone = c.appended[i].gone || c.appended[i].offset >= offset
			}
		})
	}
}

var dirOptions = seglog.DirOptions{ManualMaintenance: true, MaxOpenSegments: 2,
	Log: seglog.Options{SegmentBytes: 400, SegmentIndexBytes: 256, IndexIntervalBytes: 100, RetentionTime: -1, FileDeleteDelay: -1}}

func (d *dirDriver) run(t testing.TB, disk *logtest.Disk) {
	opts := dirOptions
	opts.FS = disk.FS()
	for round := range 2 {
		dir, err := seglog.OpenDir("logs", opts)
		if !d.note(err) {
			return
		}
		d.dir = dir
		if round == 0 {
			d.create("a")
			d.create("b")
		}
		d.append("a", 5)
		d.append("b", 4)
		d.note(dir.Maintain(t.Context()))
		d.deleteBefore("a", 3)
		d.note(dir.Maintain(t.Context()))
		d.truncate("a", 2)
		d.append("a", 2)
		if round == 0 {
			d.delete("b")
			d.create("b")
			d.create("c")
			d.append("c", 1)
		} else {
			d.delete("c")
			d.note(dir.Maintain(t.Context()))
		}
		d.append("b", 3)
		d.note(dir.Close())
		if errors.Is(errors.Join(d.errs...), seglog.ErrFailed) {
			return // until the machine is started anew nobody can see what its disk has lost
		}
	}
}

// requireDirSurvived opens what a crash has left.
func requireDirSurvived(t testing.TB, disk *logtest.Disk, told map[string]claim, what string) {
	opts := dirOptions
	opts.FS = disk.FS()
	requireDirReadable(t, disk, told, what)
	d, err := seglog.OpenDir("logs", opts)
	require.NoError(t, err, what)
	for topic, c := range told {
		l, err := d.Partition(topic, 0)
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrNoPartition, "%s: %s", what, topic)
			require.False(t, c.exists, "%s: %s is gone", what, topic)
			continue
		}
		require.False(t, c.absent, "%s: %s has come back", what, topic)
		requireClaimed(t, l, c, what+": "+topic)
	}
	require.NoError(t, d.Maintain(t.Context()), what)
	require.NoError(t, d.Load(t.Context(), nil), what)
	require.Zero(t, d.Stats().SetAside, what)
	require.NoError(t, d.Close(), what)
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), what)

	d, err = seglog.OpenDir("logs", opts)
	require.NoError(t, err, what)
	require.True(t, d.Stats().Clean, what)
	require.NoError(t, d.Close(), what)
}

// requireDirReadable looks at what a crash has left without repairing it. What a user
// was told is there for a reader as well, and no reader changes a byte.
func requireDirReadable(t testing.TB, disk *logtest.Disk, told map[string]claim, what string) {
	var ops atomic.Int64
	disk.OnOp(func(logtest.Op) { ops.Add(1) })
	defer disk.OnOp(nil)
	d, err := seglog.OpenDir("logs", seglog.DirOptions{ReadOnly: true, FS: disk.FS()})
	if errors.Is(err, fs.ErrNotExist) {
		return // a crash of the first OpenDir
	}
	require.NoError(t, err, what)
	for topic, c := range told {
		l, err := d.Partition(topic, 0)
		if err != nil { // where nothing was begun yet there is nothing to read
			require.False(t, c.exists, "%s: %s cannot be read: %v", what, topic, err)
			continue
		}
		require.False(t, c.absent, "%s: %s has come back", what, topic)
		requireHeld(t, l, c, what+": read-only: "+topic)
	}
	require.NoError(t, d.Refresh(), what)
	require.NoError(t, d.Close(), what)
	require.Zero(t, ops.Load(), "%s: a reader has changed something", what)
}

// requireClaimed: what must be there is, and nothing else than what may be, in order.
func requireClaimed(t testing.TB, l *seglog.Log, c claim, what string) {
	requireHeld(t, l, c, what)
	end := l.Offsets().End
	at, err := l.Append([]seglog.Record{{Value: []byte("after the crash")}}, nil)
	require.NoError(t, err, what)
	require.Equal(t, end, at.BaseOffset, what)
}

func requireHeld(t testing.TB, l *seglog.Log, c claim, what string) {
	rest := c.appended
	for r, err := range l.Records(t.Context(), l.Offsets().Start, nil) {
		require.NoError(t, err, what)
		for {
			require.NotEmpty(t, rest, "%s: record %d, %q, was not appended there", what, r.Offset, r.Value)
			next := rest[0]
			rest = rest[1:]
			if next.value == string(r.Value) {
				require.False(t, next.gone, "%s: %q", what, r.Value)
				require.True(t, next.offset < 0 || next.offset == r.Offset, "%s: %q is at %d", what, r.Value, r.Offset)
				break
			}
			require.False(t, next.must, "%s: %q is missing", what, next.value)
		}
	}
	for _, missing := range rest {
		require.False(t, missing.must, "%s: %q is missing", what, missing.value)
	}
}

// A crash at any operation of a Dir leaves what its user was told, of every partition.
func TestADirSurvivesACrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	disk := logtest.NewDisk(logtest.DiskOptions{})
	d := &dirDriver{t: t, claims: &claims{partitions: map[string]*claim{}}}
	var points, states atomic.Int64
	var one sync.Mutex
	disk.OnOp(func(op logtest.Op) {
		one.Lock()
		defer one.Unlock()
		told := d.claims.copy()
		points.Add(1)
		requireDirSurvived(t, disk.Kill(), told, fmt.Sprintf("killed before %s", op))
		for state := range disk.States(*crashStates/10, uint64(op.N)) {
			states.Add(1)
			requireDirSurvived(t, state, told, fmt.Sprintf("crash before %s, %s", op, state))
		}
	})
	d.run(t, disk)
	disk.OnOp(nil)
	require.Empty(t, d.errs)
	requireDirSurvived(t, disk, d.claims.copy(), "at the end")
	t.Logf("%d crash points, %d disk states", points.Load(), states.Load())
}

// K108, K110: every call fails once, in every way it can. What was promised holds, and
// nothing stays open.
func TestNoFailureCostsADirWhatItHolds(t *testing.T) {
	t.Parallel()
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		d := &dirDriver{t: t, claims: &claims{partitions: map[string]*claim{}}}
		d.run(t, disk)
		require.Empty(t, d.errs)
	}) {
		if n++; n%*faultsEvery != 0 {
			continue
		}
		d := &dirDriver{t: t, claims: &claims{partitions: map[string]*claim{}}}
		d.run(t, disk)
		told := d.claims.copy()
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), "%s: something is left open", disk)
		requireDirSurvived(t, disk.Kill(), told, fmt.Sprintf("after %s (%v)", disk, d.errs))
		for state := range disk.States(2, uint64(n)) {
			requireDirSurvived(t, state, told, fmt.Sprintf("after %s, %s", disk, state))
		}
	}
	t.Logf("%d faults", n)
}

// K107: nothing is renamed or removed while it is open.
func TestADirWorksWhereOpenFilesCannotBeMoved(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{WindowsLike: true})
	d := &dirDriver{t: t, claims: &claims{partitions: map[string]*claim{}}}
	d.run(t, disk)
	require.Empty(t, d.errs)
	requireDirSurvived(t, disk, d.claims.copy(), "on such a disk")
}

// A full disk is a state: what is there is read, a partition can be deleted, and then
// there is room again.
func TestADirOnAFullDiskMakesRoom(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := dirOptions
	opts.FS = disk.FS()
	d, err := seglog.OpenDir("logs", opts)
	require.NoError(t, err)
	for _, topic := range []string{"a", "b"} {
		appendEach(t, create(t, d, topic, 0), many(30, 1)...)
	}
	disk.SetCapacity(1)
	_, err = d.CreatePartition("c", 0, nil)
	require.ErrorIs(t, err, seglog.ErrNoSpace)
	_, err = d.Partition("c", 0)
	require.ErrorIs(t, err, seglog.ErrNoPartition)
	l := partition(t, d, "a", 0)
	var full error
	for range 100 {
		if _, full = l.Append(many(1, 1), nil); full != nil {
			break
		}
	}
	require.ErrorIs(t, full, seglog.ErrNoSpace)
	require.NotErrorIs(t, full, seglog.ErrFailed)
	require.GreaterOrEqual(t, len(readAll(t, l, 0)), 30)
	before, err := disk.ReadFile("logs/recovery-point-offset-checkpoint")
	require.NoError(t, err)
	require.ErrorIs(t, d.Maintain(t.Context()), seglog.ErrNoSpace)
	after, err := disk.ReadFile("logs/recovery-point-offset-checkpoint")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "a checkpoint that cannot be written is as it was")

	disk.SetCapacity(1 << 20)
	require.NoError(t, d.DeletePartition("b", 0))
	require.NoError(t, d.Maintain(t.Context()))
	appendEach(t, l, many(3, 1)...)
	create(t, d, "c", 0)
	require.NoError(t, d.Close())
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
}
