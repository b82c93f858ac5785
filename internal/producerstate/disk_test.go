package producerstate

import (
	"math"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/record"
)

// If the snapshot of what was cut came back with a power loss, batches of another
// history would count as stored.
func TestNoSnapshotOfTruncatedRecordsComesBack(t *testing.T) {
	cuts := map[string]func(b *bench){
		"truncation":      func(b *bench) { b.reload(0, 30) },
		"full truncation": func(b *bench) { require.NoError(b, b.TruncateFullyAndStartAt(30)) },
		"opening": func(b *bench) { // of a log that ends at 30 by now
			b.reopen()
			require.NoError(b, b.RemoveStraySnapshots([]int64{0}))
			b.reload(0, 30)
		},
		"a snapshot that is still being written": func(b *bench) {
			b.Apply(data(1, 0, 52, 52, 52))
			s := b.Capture(53)
			require.NoError(b, s.Write(true))
			b.reload(0, 30)
			published, err := b.Publish(s)
			require.NoError(b, err)
			require.False(b, published)
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, b.fs.SyncDir("."))
			b.appends(data(1, 0, 0, 0, 49))
			b.take(50)
			b.appends(data(1, 0, 50, 50, 50))
			b.take(51)
			b.appends(data(1, 0, 51, 51, 51))
			cut(b)
			for state := range b.fs.States(1000, 1) {
				after, err := New(benchDir, Options{FS: state.FS()})
				require.NoError(t, err)
				r, err := after.TruncateAndReload(0, 60, 1000)
				require.NoError(t, err)
				require.Equal(t, Reload{From: 0}, r)
				require.True(t, after.IsEmpty())
			}
		})
	}
}

// A snapshot that was taken durably is there after a power loss; one that was not
// is whole, or damaged, or missing, and then the one before is there.
func TestSnapshotsSurviveAPowerLoss(t *testing.T) {
	for _, sync := range []bool{true, false} {
		b := newBench(t)
		require.NoError(t, b.fs.SyncDir("."))
		b.appends(data(1, 0, 0, 0, 0))
		b.take(1)
		b.appends(data(1, 0, 1, 1, 1))
		taken, err := b.Take(2, sync)
		require.NoError(t, err)
		require.True(t, taken)
		for state := range b.fs.States(1000, 1) {
			after, err := New(benchDir, Options{FS: state.FS()})
			require.NoError(t, err)
			r, err := after.TruncateAndReload(0, 2, 1000)
			require.NoError(t, err)
			e, ok := after.Producer(1)
			require.True(t, ok)
			require.Equal(t, r.From-1, e.LastOffset)
			if sync {
				require.Equal(t, int64(2), r.From)
			}
		}
	}
}

func faulty(t *testing.T) (*bench, *faultfs.FS) {
	b := newBench(t)
	faults := faultfs.New(b.fs)
	m, err := New(benchDir, Options{FS: faults})
	require.NoError(t, err)
	b.Manager = m
	b.appends(data(1, 0, 0, 0, 0))
	b.take(1)
	b.appends(data(1, 0, 1, 1, 1))
	return b, faults
}

func TestSnapshotThatCannotBeWrittenCanBeTriedAgain(t *testing.T) {
	for _, op := range []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename, faultfs.SyncDir} {
		t.Run(op.String(), func(t *testing.T) {
			b, faults := faulty(t)
			faults.Fail(faultfs.Op(op).Nth(1), syscall.EIO)
			_, err := b.Take(2, true)
			require.ErrorIs(t, err, syscall.EIO)
			if op != faultfs.SyncDir {
				b.onDisk(1)
				b.take(2)
			}
			b.onDisk(1, 2)
			left, err := b.fs.ReadDir(benchDir)
			require.NoError(t, err)
			require.Len(t, left, 2)
		})
	}
}

// A truncation that cannot remove a snapshot must not pass for one.
func TestTruncationNeedsItsSnapshotsGone(t *testing.T) {
	for _, op := range []faultfs.Kind{faultfs.Remove, faultfs.SyncDir} {
		for _, fully := range []bool{false, true} {
			b, faults := faulty(t)
			b.take(2)
			faults.Fail(faultfs.Op(op).Nth(1), syscall.EIO)
			var err error
			if fully {
				err = b.TruncateFullyAndStartAt(0)
			} else {
				_, err = b.TruncateAndReload(0, 1, 1000)
			}
			require.ErrorIs(t, err, syscall.EIO)
			require.True(t, b.IsEmpty())
			list, err := List(b.fs, benchDir)
			require.NoError(t, err)
			require.ElementsMatch(t, list, b.Snapshots())
		}
	}
}

func TestSnapshotThatCannotBeReadIsAnError(t *testing.T) {
	b, faults := faulty(t)
	b.take(2)
	faults.Fail(faultfs.Op(faultfs.Read).Nth(1), syscall.EIO)
	_, err := b.TruncateAndReload(0, 3, 1000)
	require.ErrorIs(t, err, syscall.EIO)
	require.True(t, b.IsEmpty())
	b.onDisk(1, 2)
	require.Equal(t, int64(2), b.reload(0, 3).From)
}

func TestReadOnlyTouchesNoFile(t *testing.T) {
	b := newBench(t)
	b.appends(data(1, 0, 0, 0, 0))
	b.take(1)
	b.appends(data(1, 0, 1, 1, 1))
	b.take(2)
	b.take(3)
	require.NoError(t, vfs.WriteFileAtomic(b.fs, b.path(2), nil)) // damaged
	b.fs.SyncAll()
	before := b.fs.Ops()

	m, err := New(benchDir, Options{FS: b.fs, ReadOnly: true})
	require.NoError(t, err)
	r, err := m.TruncateAndReload(0, 2, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.From)
	require.Len(t, r.Damaged, 1)
	m.Apply(data(1, 0, 1, 1, 1))
	taken, err := m.Take(2, true)
	require.NoError(t, err)
	require.False(t, taken)
	found, err := m.MarkSnapshotDeleted(1)
	require.NoError(t, err)
	require.False(t, found)
	require.Empty(t, m.Snapshots())
	require.NoError(t, m.TruncateFullyAndStartAt(0))
	require.Equal(t, before, b.fs.Ops())
}

func TestMemoryOfAProducer(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[producer]().Size(), uintptr(192)) // a size class; see doc.go
}

func TestKnownProducersCostNoMemory(t *testing.T) {
	b := newBench(t)
	b.appends(data(1, 0, 0, 0, 0))
	at := int64(1)
	var opened, ended Batch
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		opened = txn(data(1, 0, int32(at), at, at))
		ended = marker(Abort, 1, 0, 0, at+1)
		if _, err := b.Check(opened, Client); err != nil {
			panic(err)
		}
		b.Apply(opened)
		if verdict, _ := b.Check(opened, Client); !verdict.Duplicate {
			panic("not a duplicate")
		}
		if _, ok := b.Ends(ended); !ok {
			panic("does not end")
		}
		b.Apply(ended)
		b.OnHighWatermark(at + 2)
		opened = data(1, 0, int32(at)+1, at+2, at+2)
		b.Apply(opened)
		at += 3
		b.Apply(data(1, 0, int32(at)-1, at, at))
	}))
}

func TestDescribeCostsNoMemory(t *testing.T) {
	bytes, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{
		Offset: 7, Timestamp: 5, ProducerID: 1, ProducerEpoch: 2,
		Marker: record.EndTxnMarker{Type: record.Abort, CoordinatorEpoch: 9},
	})
	require.NoError(t, err)
	b, err := record.Parse(bytes)
	require.NoError(t, err)
	var it record.Iterator
	var got Batch
	require.Zero(t, testing.AllocsPerRun(100, func() { got, err = Describe(b, &it) }))
	require.NoError(t, err)
	require.Equal(t, marker(Abort, 1, 2, 9, 7).at(5), got)
}

// FuzzReload: whatever is in a file of that name, loading it never panics, nor does
// what follows; what is loaded, taken and loaded again stays the same; and markers
// end every transaction. The bytes are also tried with a matching checksum, or
// nothing would get past it.
func FuzzReload(f *testing.F) {
	f.Add([]byte{})
	f.Add(goldenBytes(f))
	f.Add(Append(nil, []Entry{
		{ProducerID: 2, LastSequence: -1, LastOffset: -1, CurrentTxnFirstOffset: -1},
		{ProducerID: 1, LastSequence: 9, LastOffset: 999, OffsetDelta: 20, CurrentTxnFirstOffset: 7},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerSize {
			reloadAndUse(t, sealed(append([]byte{}, b...)))
		}
		reloadAndUse(t, b)
	})
}

func reloadAndUse(t *testing.T, b []byte) {
	const end = 1000
	disk := crashfs.New(crashfs.Options{})
	require.NoError(t, disk.MkdirAll(benchDir, 0o755))
	load := func(b []byte) (*Manager, Reload) {
		require.NoError(t, vfs.WriteFileAtomic(disk, (&bench{}).path(end), b))
		m, err := New(benchDir, Options{FS: disk})
		require.NoError(t, err)
		r, err := m.TruncateAndReload(0, end, math.MinInt64/2) // nothing has expired
		require.NoError(t, err)
		return m, r
	}
	m, r := load(b)
	if len(r.Damaged) > 0 {
		require.ErrorIs(t, r.Damaged[0], ErrCorrupt)
		require.Equal(t, []any{int64(0), true}, []any{r.From, m.IsEmpty()})
		return
	}
	require.Equal(t, int64(end), r.From)
	m.lastSnapshot = 0
	first := m.Capture(end).data
	m, r = load(first)
	require.Equal(t, Reload{From: end}, r)
	m.lastSnapshot = 0
	require.Equal(t, first, m.Capture(end).data)
	for e := range m.Producers() {
		for _, batch := range []Batch{
			txn(data(e.ProducerID, e.ProducerEpoch, e.LastSequence, end, end+5)),
			marker(Abort, e.ProducerID, e.ProducerEpoch, 0, end+6),
		} {
			for _, origin := range []Origin{Client, Coordinator, Replication} {
				_, _ = m.Check(batch, origin)
			}
			m.Ends(batch)
			m.Apply(batch)
		}
	}
	require.Nil(t, m.oldest)
}
