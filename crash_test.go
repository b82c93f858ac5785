package seglog_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

var (
	crashStates = flag.Int("crash.states", 8, "disk states to try at each crash point")
	faultsEvery = flag.Int("faults.every", 5, "of the failures of calls that take long to try, try every nth; 1 tries them all")
	crashSeeds  = flag.Uint64("crash.seeds", 4, "random histories to try")
)

// driver does things to a log and tells the model.
type driver struct {
	t     testing.TB
	disk  *logtest.Disk
	log   *seglog.Log
	model *logtest.Model
	next  int
	opts  seglog.Options
}

func (d *driver) record() seglog.Record {
	d.next++
	return seglog.Record{Key: fmt.Appendf(nil, "k%d", d.next), Value: fmt.Appendf(nil, "value %d %0*d", d.next, d.next%200, 0),
		Timestamp: int64(1000 + d.next)}
}

// replicate appends one record at a given offset.
func (d *driver) replicate(offset int64) {
	r := d.record()
	r.Offset = offset
	a := d.model.Attempt(offset, r)
	never := seglog.SyncNever
	_, err := d.log.AppendReplicated(batchAt(d.t, record.BuilderOptions{BaseOffset: offset}, r), &seglog.AppendOptions{Sync: &never})
	require.NoError(d.t, err)
	a.Appended(offset)
}

func (d *driver) reopen() {
	require.NoError(d.t, d.log.Close())
	l, err := seglog.Open("log", d.opts)
	require.NoError(d.t, err)
	d.log = l
	d.model.Durable(l.Offsets().Durable)
	require.NoError(d.t, d.model.Check(d.t.Context(), l))
}

func (d *driver) append(n int, policy seglog.SyncPolicy) {
	records := make([]seglog.Record, n)
	for i := range records {
		records[i] = d.record()
	}
	base := d.log.Offsets().End
	at, err := d.model.Append(d.log, records, &seglog.AppendOptions{Sync: &policy})
	require.NoError(d.t, err)
	require.Equal(d.t, base, at.BaseOffset)
	if policy == seglog.SyncAlways {
		require.Greater(d.t, d.log.Offsets().Durable, at.LastOffset)
	}
	d.tick()
}

// tick makes a crash point, which a store into memory is not.
func (d *driver) tick() {
	if d.opts.AheadBytes <= 0 {
		return
	}
	f, err := d.disk.FS().OpenFile("tick", os.O_CREATE|os.O_RDWR, 0o644)
	require.NoError(d.t, err)
	_, err = f.WriteAt([]byte{1}, 0)
	require.NoError(d.t, err)
	require.NoError(d.t, f.Close())
}

func (d *driver) sync() {
	require.NoError(d.t, d.log.Sync())
	d.model.Durable(d.log.Offsets().End)
}

func (d *driver) roll() {
	_, err := d.log.Roll()
	require.NoError(d.t, err)
}

func (d *driver) truncate(offset int64) {
	done := d.model.Truncating(offset)
	require.NoError(d.t, d.log.TruncateTo(offset))
	done(nil)
}

// deleteBefore: the new log start is on disk when it returns.
func (d *driver) deleteBefore(offset int64) {
	done := d.model.Deleting(offset)
	require.NoError(d.t, d.log.DeleteBefore(offset))
	done(offset)
	for state := range d.disk.States(5, 1) {
		opts := d.opts
		opts.FS = state.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(d.t, err)
		require.GreaterOrEqual(d.t, l.Offsets().Start, offset, "%s", state)
		require.NoError(d.t, l.Close())
	}
}

// requireSurvived opens the log of a disk that lost power, or whose process was
// killed, and compares it with the model: nothing durable is missing, nothing is
// there that was never appended, and the log goes on.
func requireSurvived(t testing.TB, c logtest.Crash, opts seglog.Options, what string) {
	opts.FS = c.Disk.FS()
	l, err := seglog.Open("log", opts)
	require.NoError(t, err, what)
	require.NoError(t, c.Check(context.Background(), l), what)
	last := l.Offsets().End - 1
	at, err := l.Append([]seglog.Record{{Value: []byte("after the crash")}}, nil)
	require.NoError(t, err, what)
	require.Greater(t, at.BaseOffset, last, what)
	r, err := l.Get(at.BaseOffset)
	require.NoError(t, err, what)
	require.Equal(t, "after the crash", string(r.Value), what)
	require.NoError(t, l.Close(), what)
	l, err = seglog.Open("log", opts)
	require.NoError(t, err, what)
	require.True(t, l.Offsets().End == at.BaseOffset+1, what)
	require.NoError(t, l.Close(), what)
	require.Zero(t, c.Disk.Open()+c.Disk.Mapped()+c.Disk.Locked(), what)
}

// crashAtEveryOperation runs a workload and, before each operation of the file
// system that changes something, tries states of the disk that a kill and a power
// loss there may leave.
func crashAtEveryOperation(t *testing.T, opts seglog.Options, seed uint64, workload func(d *driver)) {
	if opts.AheadBytes == 0 {
		opts.AheadBytes = *ahead
	}
	d := &driver{t: t, disk: logtest.NewDisk(logtest.DiskOptions{}), model: &logtest.Model{}, opts: opts}
	var points, states atomic.Int64
	d.disk.OnCrash(*crashStates, seed, d.model, func(c logtest.Crash) {
		if c.Killed {
			points.Add(1)
		}
		states.Add(1)
		requireSurvived(t, c, opts, c.String())
	})
	d.opts.FS = d.disk.FS()
	l, err := seglog.Open("log", d.opts)
	require.NoError(t, err)
	d.log = l
	workload(d)
	require.NoError(t, d.model.Check(t.Context(), d.log))
	require.NoError(t, d.log.Close())
	d.disk.OnOp(nil)
	t.Logf("%d crash points, %d disk states", points.Load(), states.Load())
}

var small = seglog.Options{SegmentBytes: 2000, SegmentIndexBytes: 256, IndexIntervalBytes: 200}

func TestNothingDurableIsLostInAPowerCut(t *testing.T) {
	workloads := map[string]func(d *driver){
		"appends of every policy": func(d *driver) {
			for i := range 12 {
				d.append(1+i%4, seglog.SyncPolicy(i%2))
			}
			d.sync()
		},
		"never synced, then once": func(d *driver) {
			for range 8 {
				d.append(3, seglog.SyncNever)
			}
			d.sync()
			d.append(1, seglog.SyncNever)
		},
		"rolls before anything is synced": func(d *driver) {
			for range 5 {
				d.append(4, seglog.SyncNever)
				d.roll()
			}
		},
		"gaps": func(d *driver) {
			d.append(3, seglog.SyncNever)
			d.replicate(10)
			d.roll()
			d.replicate(40)
			d.append(2, seglog.SyncNever)
			d.truncate(41)
			d.append(2, seglog.SyncAlways)
		},
		"rolls": func(d *driver) {
			for i := range 5 {
				d.append(2, seglog.SyncPolicy(i%2))
				d.roll()
			}
			d.sync()
		},
		"truncation": func(d *driver) {
			for range 8 {
				d.append(3, seglog.SyncAlways)
			}
			d.truncate(20)
			d.append(2, seglog.SyncAlways)
			d.truncate(7)
			d.append(2, seglog.SyncNever)
			d.truncate(3)
			d.append(4, seglog.SyncAlways)
		},
		"removal of the oldest": func(d *driver) {
			for range 8 {
				d.append(3, seglog.SyncAlways)
			}
			d.deleteBefore(5)
			d.append(1, seglog.SyncNever)
			d.deleteBefore(20)
			d.append(1, seglog.SyncAlways)
			d.deleteBefore(26)
		},
		"reopening": func(d *driver) {
			for i := range 4 {
				d.append(3, seglog.SyncPolicy(i%2))
				d.reopen()
			}
		},
	}
	for name, workload := range workloads {
		for _, opts := range bothWays(small) {
			t.Run(fmt.Sprint(name, ", ahead ", opts.AheadBytes), func(t *testing.T) {
				t.Parallel()
				crashAtEveryOperation(t, opts, 1, workload)
			})
		}
	}
}

// bothWays is opts for a log that is written by calls, and for one that is written
// through memory from the first few bytes on.
func bothWays(opts seglog.Options) []seglog.Options {
	calls, memory := opts, opts
	calls.AheadBytes, memory.AheadBytes = -1, 4096
	return []seglog.Options{calls, memory}
}

// Of what was stored in memory a disk may have any page, those of later appends too.
func TestNothingDurableIsLostOfPagesInAnyMix(t *testing.T) {
	opts := seglog.Options{SegmentBytes: 60_000, IndexIntervalBytes: 3000, SegmentIndexBytes: 1 << 10, AheadBytes: 8192}
	crashAtEveryOperation(t, opts, 1, func(d *driver) {
		for i := range 11 {
			d.append(12, seglog.SyncNever)
			if i == 3 {
				d.sync()
			}
		}
		d.truncate(80)
		for range 2 {
			d.append(12, seglog.SyncNever)
		}
		d.append(1, seglog.SyncAlways)
	})
}

func TestRandomHistoriesSurviveAPowerCut(t *testing.T) {
	for seed := range *crashSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			crashAtEveryOperation(t, bothWays(small)[seed%2], seed, func(d *driver) {
				for range 25 {
					at := d.log.Offsets()
					switch random.IntN(10) {
					case 0:
						d.truncate(at.Start + random.Int64N(at.End-at.Start+1))
					case 1:
						d.deleteBefore(at.Start + random.Int64N(at.End-at.Start+1))
					case 2:
						d.sync()
					case 3:
						d.roll()
					default:
						d.append(1+random.IntN(4), seglog.SyncPolicy(random.IntN(2)))
					}
				}
			})
		})
	}
}
