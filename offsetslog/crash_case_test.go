package offsetslog

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// told is what callers were told of each committed offset, by group and partition: the
// values it may have now. There is one if all calls have returned well.
type told struct {
	sync.Mutex
	may map[toldKey][]int64
	// tried is every value that there was a try for, in order.
	tried []try
}

type try struct {
	toldKey
	offset int64
}

func newTold() *told { return &told{may: map[toldKey][]int64{}} }

// copy returns what holds now.
func (c *told) copy() *told {
	c.Lock()
	defer c.Unlock()
	then := newTold()
	then.tried = slices.Clone(c.tried)
	for k, may := range c.may {
		then.may[k] = slices.Clone(may)
	}
	return then
}

// until returns what holds of something between c and a later moment.
func (c *told) until(later *told) *told {
	both := c.copy()
	for _, t := range later.copy().tried[len(both.tried):] {
		both.maybe(t.toldKey, t.offset)
	}
	return both
}

type toldKey struct {
	group string
	tp    TopicPartition
}

func (c *told) maybe(k toldKey, offset int64) {
	c.Lock()
	defer c.Unlock()
	c.tried = append(c.tried, try{k, offset})
	if c.may[k] == nil {
		c.may[k] = []int64{-1}
	}
	if !slices.Contains(c.may[k], offset) {
		c.may[k] = append(c.may[k], offset)
	}
}

func (c *told) surely(k toldKey, offset int64) {
	c.Lock()
	defer c.Unlock()
	c.may[k] = []int64{offset}
}

// check compares a store.
func (c *told) check(s *Store) error {
	c.Lock()
	defer c.Unlock()
	for k, may := range c.may {
		f, err := s.Fetch(ctx, FetchRequest{Group: k.group, Partitions: []TopicPartition{k.tp}})
		if err != nil {
			return err
		}
		if !slices.Contains(may, f[0].Offset) {
			return fmt.Errorf("group %q, %s: offset %d is none of %v", k.group, k.tp, f[0].Offset, may)
		}
	}
	return nil
}

// driver does things to a store and notes what it was told. It goes on whatever fails.
type driver struct {
	told *told
	errs []error
}

func (d *driver) store(disk *logtest.Disk, do func(*Store)) {
	dir, err := seglog.OpenDir("data", onDisk(disk))
	if err != nil {
		d.errs = append(d.errs, err)
		return
	}
	opts := quiet
	opts.Partitions = 2
	s, err := Open(dir, opts)
	if err == nil {
		do(s)
		err = s.Close()
	}
	d.errs = append(d.errs, err, dir.Close())
}

func (d *driver) try(err error, k toldKey, offset int64) bool {
	if err != nil {
		d.errs = append(d.errs, err)
		return false
	}
	d.told.surely(k, offset)
	return true
}

func (d *driver) commit(s *Store, group string, tp TopicPartition, offset int64) {
	k := toldKey{group, tp}
	d.told.maybe(k, offset)
	d.try(s.Commit(ctx, simple(group, tp, offset)), k, offset)
}

func (d *driver) remove(s *Store, group string, tp TopicPartition) {
	k := toldKey{group, tp}
	d.told.maybe(k, -1)
	d.try(s.DeleteOffsets(ctx, group, []TopicPartition{tp}), k, -1)
}

// transaction commits an offset in one, which must not count when anything has failed
// before its end.
func (d *driver) transaction(s *Store, group string, tp TopicPartition, offset int64, result seglog.TransactionResult) {
	k, p := toldKey{group, tp}, Producer{ID: 7}
	err := s.CommitTransactional(ctx, TransactionalCommitRequest{Group: group, Producer: p, Offsets: simple(group, tp, offset).Offsets})
	if err != nil {
		d.errs = append(d.errs, err)
		d.told.maybe(k, offset) // it may be there, and be ended with the next one of the producer
	}
	if result == seglog.Commit {
		d.told.maybe(k, offset)
	}
	if e := s.EndTransaction(ctx, group, p, result, 0); e != nil {
		d.errs = append(d.errs, e)
		d.told.maybe(k, offset)
	} else if err == nil && result == seglog.Commit {
		d.told.surely(k, offset)
	}
}

func (d *driver) work(disk *logtest.Disk) {
	if d.first(disk); len(d.told.copy().tried) == 0 {
		return // there is no directory
	}
	d.store(disk, func(s *Store) {
		d.commit(s, "a", orders, 100)
		d.transaction(s, "b", orders, 101, seglog.Commit)
	})
}

func (d *driver) first(disk *logtest.Disk) {
	other := TopicPartition{"orders", 1}
	d.store(disk, func(s *Store) {
		d.commit(s, "a", orders, 1)
		d.commit(s, "b", orders, 2)
		d.commit(s, "a", other, 3)
		d.transaction(s, "a", orders, 4, seglog.Commit)
		d.transaction(s, "b", orders, 5, seglog.Abort)
		d.remove(s, "a", other)
		for i := range int64(25) {
			d.commit(s, "a", other, 10+i) // over the end of a segment
		}
	})
}

// At whatever operation the process is killed or the power goes: what was acknowledged
// is there, and what is there was committed.
func TestNoAcknowledgedCommitIsLostInACrash(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	c := newTold()
	crashes := 0
	disk.OnOp(func(op logtest.Op) {
		before := c.copy()
		left := []*logtest.Disk{disk.Kill()}
		if op.N%3 == 0 {
			left = slices.AppendSeq(left, disk.States(3, uint64(op.N)))
		}
		holds := before.until(c) // others go on meanwhile
		for _, left := range left {
			crashes++
			d := &driver{told: holds}
			d.store(left, func(s *Store) { d.errs = append(d.errs, holds.check(s)) })
			for _, err := range d.errs {
				if err != nil {
					t.Errorf("before %v, %s: %v", op, left, err)
				}
			}
		}
	})
	d := &driver{told: c}
	d.work(disk)
	disk.OnOp(nil)
	for _, err := range d.errs {
		require.NoError(t, err)
	}
	require.Greater(t, crashes, 100)
}

// Whatever call fails: who was told that an offset is committed finds it, now and after
// a restart, and nobody finds what was not committed.
func TestNoFailureLosesAnAcknowledgedCommit(t *testing.T) {
	empty := logtest.NewDisk(logtest.DiskOptions{})
	n := 0
	for disk := range logtest.Faults(empty, func(disk *logtest.Disk) { (&driver{told: newTold()}).work(disk) }) {
		if n++; n%7 != 0 {
			continue
		}
		d := &driver{told: newTold()}
		d.work(disk)
		require.Zero(t, disk.Open(), disk)
		disk.Heal()
		// a disk that forgets what it could not sync does so when the power goes
		left := slices.AppendSeq([]*logtest.Disk{disk}, disk.States(2, 1))
		for _, left := range left {
			after := &driver{told: d.told.copy()}
			after.store(left, func(s *Store) {
				if err := after.told.check(s); err != nil {
					t.Errorf("%s, %s: %v", disk, left, err)
				}
				after.commit(s, "a", orders, 1000)
			})
			for _, err := range after.errs {
				if err != nil {
					t.Errorf("%s, %s: %v", disk, left, err)
				}
			}
		}
	}
	require.Greater(t, n, 100)
}

// What Fetch shows is on disk: a reader that goes by it is not taken back by a crash.
func TestFetchShowsNothingThatACrashTakesBack(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	dir, err := seglog.OpenDir("data", onDisk(disk))
	require.NoError(t, err)
	s, err := Open(dir, quiet)
	require.NoError(t, err)
	require.NoError(t, s.Commit(ctx, simple("g", orders, 1)))
	p := s.partitions[PartitionFor("g", s.Partitions())]
	p.order.Lock()
	e := newEncoder()
	e.offset("g", orders, Committed{Offset: 2, ExpireTimestamp: -1})
	last, err := p.append(e, nil)
	p.order.Unlock()
	require.NoError(t, err)
	f, err := s.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	require.EqualValues(t, 1, f[0].Offset)
	require.NoError(t, p.settle(ctx, last))
	f, err = s.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	require.EqualValues(t, 2, f[0].Offset)
	require.NoError(t, s.Close())
	require.NoError(t, dir.Close())
}

// A lost acknowledgement: whoever commits again is no worse off.
func TestFailedSyncIsNotAcknowledgedAndReadingGoesOn(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	d := &driver{told: newTold()}
	d.store(disk, func(s *Store) {
		require.NoError(t, s.Commit(ctx, simple("g", orders, 1)))
		disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Onwards: true, Nth: 1}, fmt.Errorf("no"))
		err := s.Commit(ctx, simple("g", orders, 2))
		require.ErrorIs(t, err, ErrNotCoordinator)
		require.ErrorIs(t, err, seglog.ErrFailed)
		require.EqualValues(t, 16, KafkaErrorOf(err).Code)
		require.ErrorIs(t, s.Commit(ctx, simple("g", orders, 3)), ErrNotCoordinator)
		require.ErrorIs(t, s.DeleteGroup(ctx, "g"), ErrNotCoordinator)
		f, err := s.Fetch(ctx, FetchRequest{Group: "g"})
		require.NoError(t, err)
		require.EqualValues(t, 1, f[0].Offset)
		disk.Heal()
	})
}
