package seglog_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/record"
)

var crashStates = flag.Int("crash.states", 40, "disk states to try at each crash point")

// ledger is what a workload knows of its log: what must be there after a crash,
// and what may.
type ledger struct {
	mu      sync.Mutex
	durable map[int64]string          // acknowledged as durable
	ever    map[int64]map[string]bool // handed to an append, by offset
	start   int64                     // below it nothing needs to be there
	cut     int64                     // at or above it nothing needs to be there: a truncation is under way
}

func newLedger() *ledger {
	return &ledger{durable: map[int64]string{}, ever: map[int64]map[string]bool{}, cut: 1 << 62}
}

func (g *ledger) attempt(offset int64, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ever[offset] == nil {
		g.ever[offset] = map[string]bool{}
	}
	g.ever[offset][value] = true
}

func (g *ledger) acknowledge(offset int64, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.durable[offset] = value
}

// claims are what a ledger says of the disk at one moment.
type claims struct {
	must map[int64]string          // every state holds them
	may  map[int64]map[string]bool // no state holds anything else
	// order is the offsets that were appended, ascending: no state has a record
	// and not the one before it, down to the log start.
	order []int64
}

func (g *ledger) claims() claims {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := claims{map[int64]string{}, map[int64]map[string]bool{}, slices.Sorted(maps.Keys(g.ever))}
	for o, v := range g.durable {
		if o >= g.start && o < g.cut {
			c.must[o] = v
		}
	}
	for o, values := range g.ever {
		c.may[o] = maps.Clone(values)
	}
	return c
}

// during are the claims that hold whenever between two moments a state was
// taken: the hook runs in whichever goroutine touches the disk, and the workload
// may go on meanwhile.
func during(before, after claims) claims {
	for o, v := range before.must {
		if after.must[o] != v {
			delete(before.must, o)
		}
	}
	before.order = slices.DeleteFunc(before.order, func(o int64) bool { return after.may[o] == nil })
	for o, values := range after.may {
		if before.may[o] == nil {
			before.may[o] = map[string]bool{}
		}
		maps.Copy(before.may[o], values)
	}
	return before
}

// driver does things to a log and keeps the ledger.
type driver struct {
	t      testing.TB
	log    *seglog.Log
	ledger *ledger
	next   int
	opts   seglog.Options
}

// replicate appends one record at a given offset.
func (d *driver) replicate(offset int64) {
	d.next++
	v := fmt.Sprintf("replicated %d", d.next)
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: offset})
	require.NoError(d.t, b.Append(record.Record{Value: []byte(v), Timestamp: int64(1000 + d.next)}))
	batch, err := b.Build()
	require.NoError(d.t, err)
	d.ledger.attempt(offset, v)
	never := seglog.SyncNever
	_, err = d.log.AppendReplicated(batch, &seglog.AppendOptions{Sync: &never})
	require.NoError(d.t, err)
}

func (d *driver) reopen() {
	require.NoError(d.t, d.log.Close())
	l, err := seglog.Open("log", d.opts)
	require.NoError(d.t, err)
	d.log = l
	d.acknowledgeAll()
}

func (d *driver) append(n int, policy seglog.SyncPolicy) {
	records := make([]seglog.Record, n)
	base := d.log.Offsets().End
	for i := range records {
		d.next++
		v := fmt.Sprintf("value %d %0*d", d.next, d.next%200, 0)
		records[i] = seglog.Record{Key: fmt.Appendf(nil, "k%d", d.next), Value: []byte(v), Timestamp: int64(1000 + d.next)}
		d.ledger.attempt(base+int64(i), v)
	}
	at, err := d.log.Append(records, &seglog.AppendOptions{Sync: &policy})
	require.NoError(d.t, err)
	require.Equal(d.t, base, at.BaseOffset)
	if policy == seglog.SyncAlways {
		d.acknowledgeAll()
	}
}

// acknowledgeAll notes everything below the durable offset.
func (d *driver) acknowledgeAll() {
	durable := d.log.Offsets().Durable
	for r, err := range d.log.Records(context.Background(), d.log.Offsets().Start, nil) {
		require.NoError(d.t, err)
		if r.Offset < durable {
			d.ledger.acknowledge(r.Offset, string(r.Value))
		}
	}
}

func (d *driver) sync() {
	require.NoError(d.t, d.log.Sync())
	d.acknowledgeAll()
}

func (d *driver) truncate(offset int64) {
	cut := offset // a batch that holds offset in its middle goes completely
	for b, err := range d.log.Batches(context.Background(), d.log.Offsets().Start, nil) {
		require.NoError(d.t, err)
		if b.BaseOffset() < offset && offset <= b.LastOffset() {
			cut = b.BaseOffset()
		}
	}
	g := d.ledger
	g.mu.Lock()
	g.cut = cut
	g.mu.Unlock()
	require.NoError(d.t, d.log.TruncateTo(offset))
	g.mu.Lock()
	defer g.mu.Unlock()
	for o := range g.ever {
		if o >= cut {
			delete(g.durable, o)
			delete(g.ever, o) // gone for good: it must not come back
		}
	}
	g.cut = 1 << 62
}

func (d *driver) deleteBefore(offset int64) {
	d.ledger.mu.Lock()
	d.ledger.start = offset
	d.ledger.mu.Unlock()
	require.NoError(d.t, d.log.DeleteBefore(offset))
}

// requireSurvived opens the log of a disk that lost power and holds it against
// the ledger: nothing durable is missing, nothing is there that was never
// appended, and the log goes on.
func requireSurvived(t testing.TB, disk *crashfs.FS, c claims, opts seglog.Options, what string) {
	opts.FS = disk
	l, err := seglog.Open("log", opts)
	require.NoError(t, err, what)
	found := map[int64]string{}
	var newest []seglog.TimestampOffset // each the first with its timestamp or a later one
	last := int64(-1)
	for r, err := range l.Records(context.Background(), l.Offsets().Start, nil) {
		require.NoError(t, err, what)
		require.Greater(t, r.Offset, last, what)
		last = r.Offset
		found[r.Offset] = string(r.Value)
		if n := len(newest); n == 0 || r.Timestamp > newest[n-1].Timestamp {
			newest = append(newest, seglog.TimestampOffset{Timestamp: r.Timestamp, Offset: r.Offset})
		}
		require.True(t, c.may[r.Offset][string(r.Value)], "%s: offset %d holds %q, which was never appended there", what, r.Offset, r.Value)
	}
	for i, o := range c.order {
		if _, ok := found[o]; ok && i > 0 && c.order[i-1] >= l.Offsets().Start {
			require.Contains(t, found, c.order[i-1], "%s: there is offset %d, and not the one before it", what, o)
		}
	}
	for o, v := range c.must {
		require.Equal(t, v, found[o], "%s: offset %d was durable", what, o)
	}
	for _, want := range newest {
		r, err := l.Get(want.Offset)
		require.NoError(t, err, what)
		require.Equal(t, found[want.Offset], string(r.Value), what)
		got, ok, err := l.OffsetForTime(want.Timestamp)
		require.NoError(t, err, what)
		require.True(t, ok, what)
		require.Equal(t, want, got, what)
	}
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
}

// crashAtEveryOperation runs a workload and, before each operation of the file
// system that changes something, tries states of the disk that a power loss there
// may leave.
func crashAtEveryOperation(t *testing.T, opts seglog.Options, seed uint64, workload func(d *driver)) {
	disk := crashfs.New(crashfs.Options{})
	g := newLedger()
	var points, states atomic.Int64
	disk.OnOp(func(op crashfs.Op) {
		points.Add(1)
		before := g.claims()
		next, stop := iter.Pull(disk.States(*crashStates, seed+uint64(op.N)))
		defer stop()
		state, ok := next() // now the states are fixed
		c := during(before, g.claims())
		for ; ok; state, ok = next() {
			states.Add(1)
			requireSurvived(t, state.FS(), c, opts, fmt.Sprintf("crash before %s, %s", op, state))
		}
	})
	o := opts
	o.FS = disk
	l, err := seglog.Open("log", o)
	require.NoError(t, err)
	d := &driver{t: t, log: l, ledger: g, opts: o}
	workload(d)
	require.NoError(t, d.log.Close())
	disk.OnOp(nil)
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
				_, err := d.log.Roll()
				require.NoError(d.t, err)
			}
		},
		"gaps": func(d *driver) {
			d.append(3, seglog.SyncNever)
			d.replicate(10)
			_, err := d.log.Roll()
			require.NoError(d.t, err)
			d.replicate(40)
			d.append(2, seglog.SyncNever)
			d.truncate(41)
			d.append(2, seglog.SyncAlways)
		},
		"rolls": func(d *driver) {
			for i := range 5 {
				d.append(2, seglog.SyncPolicy(i%2))
				_, err := d.log.Roll()
				require.NoError(d.t, err)
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAtEveryOperation(t, small, 1, workload)
		})
	}
}

func TestRandomHistoriesSurviveAPowerCut(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			crashAtEveryOperation(t, small, seed, func(d *driver) {
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
						_, err := d.log.Roll()
						require.NoError(t, err)
					default:
						d.append(1+random.IntN(4), seglog.SyncPolicy(random.IntN(2)))
					}
				}
			})
		})
	}
}
