package producerstate

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/record"
)

// A bench is a Manager under test, in a directory in memory. Unless a row says
// otherwise the producer is 1, the epoch 0 and the time 1000.
type bench struct {
	*testing.T
	*Manager
	fs  *crashfs.FS
	now int64
}

const benchDir = "log"

func newBench(t *testing.T) *bench {
	b := &bench{T: t, fs: crashfs.New(crashfs.Options{}), now: 1000}
	require.NoError(t, b.fs.MkdirAll(benchDir, 0o755))
	b.reopen()
	return b
}

// reopen replaces the Manager by one that knows only what is on disk.
func (b *bench) reopen() {
	m, err := New(benchDir, Options{FS: b.fs})
	require.NoError(b, err)
	b.Manager = m
}

// data is a batch with a record for each offset.
func data(id int64, epoch int16, sequence int32, first, last int64) Batch {
	return Batch{ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence, BaseOffset: first, LastOffset: last, Timestamp: 1000}
}

func txn(b Batch) Batch {
	b.Transactional = true
	return b
}

func marker(kind Kind, id int64, epoch int16, coordinator int32, offset int64) Batch {
	return Batch{
		Kind: kind, ProducerID: id, ProducerEpoch: epoch, BaseSequence: record.NoSequence, Transactional: true,
		BaseOffset: offset, LastOffset: offset, CoordinatorEpoch: coordinator, Timestamp: 1000,
	}
}

func (b Batch) at(timestamp int64) Batch {
	b.Timestamp = timestamp
	return b
}

func (b Batch) version(v int16) Batch {
	b.TransactionVersion = v
	return b
}

// origin of an append: markers are not for clients.
func (b Batch) origin() Origin {
	if b.Kind == Data {
		return Client
	}
	return Coordinator
}

// appends are accepted and applied.
func (b *bench) appends(batches ...Batch) {
	b.Helper()
	for _, batch := range batches {
		verdict, err := b.Check(batch, batch.origin())
		require.NoError(b, err)
		require.Zero(b, verdict)
		b.Apply(batch)
	}
}

// replicates applies what would perhaps be refused.
func (b *bench) replicates(batches ...Batch) {
	b.Helper()
	for _, batch := range batches {
		verdict, err := b.Check(batch, Replication)
		require.NoError(b, err)
		require.Zero(b, verdict)
		b.Apply(batch)
	}
}

func (b *bench) refuses(batch Batch, reason error, got, expected int64) {
	b.Helper()
	b.refusesFrom(batch.origin(), batch, reason, got, expected)
}

func (b *bench) refusesFrom(origin Origin, batch Batch, reason error, got, expected int64) {
	b.Helper()
	before := b.dump()
	verdict, err := b.Check(batch, origin)
	require.Zero(b, verdict)
	require.ErrorIs(b, err, reason)
	var refusal *Error
	require.ErrorAs(b, err, &refusal)
	require.Equal(b, Error{reason, batch.ProducerID, batch.ProducerEpoch, batch.BaseOffset, got, expected}, *refusal)
	require.Equal(b, before, b.dump())
}

func (b *bench) duplicates(batch Batch, base, last, timestamp int64) {
	b.Helper()
	verdict, err := b.Check(batch, batch.origin())
	require.NoError(b, err)
	require.Equal(b, Verdict{true, base, last, timestamp}, verdict)
}

// dump is all that can be seen of a Manager.
func (b *bench) dump() string {
	var text strings.Builder
	fmt.Fprintln(&text, b.End(), b.LastStableOffset(math.MaxInt64), b.Len(), b.Snapshots())
	for _, p := range b.all {
		fmt.Fprintln(&text, p.entry(), p.txnStart, p.batches[:p.known])
	}
	for t := range b.OpenTransactions() {
		fmt.Fprintln(&text, t)
	}
	return text.String()
}

func (b *bench) take(offset int64) {
	b.Helper()
	_, err := b.Take(offset, true)
	require.NoError(b, err)
}

func (b *bench) reload(start, end int64) Reload {
	b.Helper()
	r, err := b.TruncateAndReload(start, end, b.now)
	require.NoError(b, err)
	return r
}

// entry of a producer that must be known.
func (b *bench) entry(id int64) Entry {
	b.Helper()
	e, ok := b.Producer(id)
	require.True(b, ok)
	return e
}

func (b *bench) sequences(id int64, first, last int32) {
	b.Helper()
	e := b.entry(id)
	require.Equal(b, []int32{first, last}, []int32{e.FirstSequence(), e.LastSequence})
}

// unstable is the first unstable offset, -1 if there is none.
func (b *bench) unstable(want int64) {
	b.Helper()
	got, ok := b.FirstUnstableOffset()
	require.Equal(b, want >= 0, ok)
	if ok {
		require.Equal(b, want, got)
	}
}

func (b *bench) ends(batch Batch, want CompletedTxn) {
	b.Helper()
	got, ok := b.Ends(batch)
	require.True(b, ok)
	require.Equal(b, want, got)
}

func (b *bench) endsNothing(batch Batch) {
	b.Helper()
	_, ok := b.Ends(batch)
	require.False(b, ok)
}

const day = 24 * 60 * 60 * 1000

func (b *bench) expire() {
	b.Helper()
	_, done := b.RemoveExpired(b.now, math.MaxInt)
	require.True(b, done)
}

// The rows are those of the conformance list, which are Kafka's tests
// (ProducerStateManagerTest.java).
func TestKafkasRules(t *testing.T) {
	tests := []struct {
		name string
		run  func(b *bench)
	}{
		{"row 123: a sequence comes once and in order", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 0, 1, 1, 1))
			b.duplicates(data(1, 0, 1, 2, 2), 1, 1, 1000)
			b.refuses(data(1, 0, 5, 2, 2), ErrOutOfOrderSequence, 5, 2)
		}},
		{"row 124: a new epoch ends the old one", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 1, 0, 1, 1))
			b.refuses(data(1, 0, 0, 2, 2), ErrInvalidProducerEpoch, 0, 1)
		}},
		{"row 125: a marker without state fences", func(b *bench) {
			b.appends(marker(Commit, 1, 2, 0, 27))
			require.Equal(b, Entry{1, 2, NoSequence, NoOffset, 0, 1000, 0, NoOffset}, b.entry(1))
			b.refuses(data(1, 0, 0, 28, 28), ErrInvalidProducerEpoch, 0, 2)
			b.refuses(data(1, 2, 17, 28, 28), ErrOutOfOrderSequence, 17, 0)
			b.appends(data(1, 2, 0, 28, 28))
		}},
		{"row 126: 0 follows the highest sequence", func(b *bench) {
			b.replicates(data(1, 15, math.MaxInt32, 735, 735))
			b.appends(data(1, 15, 0, 1235, 1235))
			b.sequences(1, 0, 0)
			b.duplicates(data(1, 15, math.MaxInt32, 1236, 1236), 735, 735, 1000)
		}},
		{"row 127: a batch may span the wrap", func(b *bench) {
			b.replicates(data(1, 15, math.MaxInt32-10, 2000, 2020))
			b.sequences(1, math.MaxInt32-10, 9)
			require.Equal(b, int64(2020), b.entry(1).LastOffset)
			require.Equal(b, int32(20), b.entry(1).OffsetDelta)
			b.duplicates(data(1, 15, math.MaxInt32-10, 2021, 2041), 2000, 2020, 1000)
		}},
		{"row 128: 1 does not follow the highest sequence", func(b *bench) {
			b.replicates(data(1, 15, math.MaxInt32, 735, 735))
			b.refuses(data(1, 15, 1, 1235, 1235), ErrOutOfOrderSequence, 1, 0)
		}},
		{"row 129: what is replicated begins anywhere", func(b *bench) {
			b.replicates(data(1, 5, 16, 735, 735))
			require.Equal(b, Entry{1, 5, 16, 735, 0, 1000, NoCoordinatorEpoch, NoOffset}, b.entry(1))
		}},
		{"row 130: a marker may raise the epoch", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), marker(Abort, 1, 1, 0, 1))
			require.Equal(b, Entry{1, 1, NoSequence, NoOffset, 0, 1000, 0, NoOffset}, b.entry(1))
			b.appends(data(1, 1, 0, 2, 2))
			b.sequences(1, 0, 0)
		}},
		{"row 131: after which the sequence begins at 0", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)), txn(data(1, 0, 1, 1, 1)), marker(Abort, 1, 1, 0, 2))
			b.refuses(txn(data(1, 1, 2, 3, 3)), ErrOutOfOrderSequence, 2, 0)
			b.refuses(txn(data(1, 2, 2, 3, 3)), ErrOutOfOrderSequence, 2, 0)
			b.appends(txn(data(1, 1, 0, 3, 3)))
			b.sequences(1, 0, 0)
			require.Equal(b, int16(1), b.entry(1).ProducerEpoch)
		}},
		{"row 132: no plain batch while a transaction is open", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)))
			b.refuses(data(1, 0, 1, 1, 1), ErrInvalidTxnState, -1, 0)
			b.refusesFrom(Coordinator, data(1, 0, record.NoSequence, 1, 1), ErrInvalidTxnState, -1, 0)
			b.replicates(data(1, 0, 1, 1, 1)) // but what is in a log is in it
			b.unstable(0)
		}},
		{"row 133: a marker ends the transaction and leaves the batches", func(b *bench) {
			b.appends(data(1, 0, 0, 9, 9), txn(data(1, 0, 1, 16, 20)), txn(data(1, 0, 6, 26, 30)))
			require.Equal(b, int64(16), b.entry(1).CurrentTxnFirstOffset)
			end := marker(Commit, 1, 0, 15, 40)
			b.ends(end, CompletedTxn{1, 16, 40, false, 41})
			b.appends(end)
			require.Equal(b, Entry{1, 0, 10, 30, 4, 1000, 15, NoOffset}, b.entry(1))
			b.duplicates(txn(data(1, 0, 1, 41, 45)), 16, 20, 1000)
		}},
		{"row 134: nothing changes before Apply", func(b *bench) {
			first, second := data(1, 0, 0, 15, 20), data(1, 0, 6, 26, 30)
			_, err := b.Check(first, Client)
			require.NoError(b, err)
			require.Zero(b, b.Len())
			b.Apply(first)
			_, err = b.Check(second, Client)
			require.NoError(b, err)
			b.sequences(1, 0, 5)
			b.Apply(second)
			b.sequences(1, 6, 10)
		}},
		{"row 135: a transaction is late", func(b *bench) {
			const late = defaultTimeout + lateBuffer
			b.appends(txn(data(39, 2, 0, 100, 100).at(b.now)), txn(data(57, 9, 0, 150, 150).at(b.now+500)))
			require.False(b, b.HasLateTransaction(b.now+late))
			require.True(b, b.HasLateTransaction(b.now+late+1))
			b.take(151)
			b.reopen()
			b.reload(0, 151)
			require.True(b, b.HasLateTransaction(b.now+late+1))
			b.appends(marker(Commit, 39, 2, 0, 200))
			require.False(b, b.HasLateTransaction(b.now+late+500))
			require.True(b, b.HasLateTransaction(b.now+late+501))
			b.appends(marker(Commit, 57, 9, 0, 250))
			require.False(b, b.HasLateTransaction(b.now+2*late))
		}},
		{"row 135: and is not after truncation", func(b *bench) {
			for _, truncate := range []func(){
				func() { b.reload(0, 80) },
				func() { require.NoError(b, b.TruncateFullyAndStartAt(150)) },
			} {
				b.appends(txn(data(39, 2, 0, 100, 100)))
				require.True(b, b.HasLateTransaction(day))
				truncate()
				require.False(b, b.HasLateTransaction(day))
			}
		}},
		{"row 136: truncation removes snapshots out of range", func(b *bench) {
			for i := range int64(5) {
				b.appends(data(1, 0, int32(i), i, i))
				b.take(i + 1)
			}
			b.reload(1, 3)
			require.Equal(b, []int64{2, 3}, b.Snapshots())
		}},
		{"row 137: an open transaction comes back", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)), txn(data(1, 0, 1, 1, 1)))
			b.take(2)
			b.reopen()
			require.Equal(b, int64(2), b.reload(0, 3).From)
			require.Equal(b, Entry{1, 0, 1, 1, 0, 1000, NoCoordinatorEpoch, 0}, b.entry(1))
			b.duplicates(txn(data(1, 0, 1, 2, 2)), 1, 1, 1000)
			b.refuses(txn(data(1, 0, 0, 2, 2)), ErrOutOfOrderSequence, 0, 2) // only the last batch is known
			b.appends(txn(data(1, 0, 2, 2, 2)))
			b.unstable(0)
		}},
		{"row 138: a finished transaction does not", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)), txn(data(1, 0, 1, 1, 1)), marker(Abort, 1, 0, 0, 2))
			b.take(3)
			b.reopen()
			b.reload(0, 3)
			require.Equal(b, Entry{1, 0, 1, 1, 0, 1000, 0, NoOffset}, b.entry(1))
			b.unstable(-1)
		}},
		{"row 139: nor does an empty one", func(b *bench) {
			b.appends(marker(Abort, 1, 0, 0, 0).at(777))
			b.take(1)
			b.reopen()
			b.reload(0, 1)
			require.Equal(b, Entry{1, 0, NoSequence, NoOffset, 0, 777, 0, NoOffset}, b.entry(1))
		}},
		{"row 140: a snapshot above the end counts for nothing", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 0, 1, 1, 1))
			b.take(2)
			b.reopen()
			require.Equal(b, Reload{From: 0}, b.reload(0, 1))
			require.Empty(b, b.Snapshots())
			require.Zero(b, b.Len())
			b.Advance(1)
			b.appends(data(1, 0, 2, 2, 2))
			require.Equal(b, int64(3), b.End())
		}},
		{"row 141: a gap is refused from a client only", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0))
			b.refuses(data(1, 0, 3, 1, 1), ErrOutOfOrderSequence, 3, 1)
			b.sequences(1, 0, 0)
			b.replicates(data(1, 0, 3, 1, 1))
			b.sequences(1, 3, 3)
		}},
		{"row 142: snapshots below an offset are deleted", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 0, 1, 1, 1))
			b.take(2)
			b.appends(data(1, 0, 2, 2, 2))
			b.take(3)
			require.NoError(b, b.DeleteSnapshotsBefore(3))
			b.onDisk(3)
			require.NoError(b, b.DeleteSnapshotsBefore(4))
			b.onDisk()
		}},
		{"row 143: nothing is left of a log that starts over", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 0, 1, 1, 1))
			b.take(2)
			b.appends(data(1, 0, 2, 2, 2))
			b.take(3)
			require.NoError(b, b.TruncateFullyAndStartAt(0))
			b.onDisk()
			b.appends(data(1, 0, 0, 0, 0))
			b.take(1)
			b.onDisk(1)
		}},
		{"row 144: a new Manager finds what is on disk", func(b *bench) {
			b.appends(data(1, 0, 0, 1, 1), data(1, 0, 1, 2, 2))
			b.take(3)
			saved, err := vfs.ReadFile(b.fs, b.path(3), 1000)
			require.NoError(b, err)
			b.appends(data(1, 0, 2, 3, 3), data(1, 0, 3, 4, 4))
			b.take(5)
			b.onDisk(3, 5)
			b.reload(3, 5)
			b.onDisk(5)
			require.NoError(b, b.TruncateFullyAndStartAt(0))
			require.NoError(b, vfs.WriteFileAtomic(b.fs, b.path(3), saved))
			b.reopen()
			b.onDisk(3)
		}},
		{"row 145: a transaction that ends in what is cut is open again", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 99, 99)))
			b.unstable(99)
			b.take(100)
			b.appends(marker(Commit, 1, 0, 0, 105))
			b.OnHighWatermark(106)
			b.unstable(-1)
			b.take(106)
			b.appends(data(1, 0, 1, 106, 106))
			b.reload(0, 106)
			b.unstable(-1)
			b.reload(0, 100)
			b.unstable(99)
		}},
		{"row 145: and one that ended before waits on, whatever a snapshot knows", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 4)), marker(Abort, 1, 0, 0, 5))
			b.take(10)
			b.appends(data(2, 0, 0, 10, 14))
			b.unstable(0)
			require.Equal(b, int64(10), b.reload(0, 12).From)
			b.unstable(0)
			b.OnHighWatermark(5)
			b.unstable(0)
			b.OnHighWatermark(6)
			b.unstable(-1)
		}},
		{"row 146: the first unstable offset", func(b *bench) {
			b.unstable(-1)
			b.appends(txn(data(1, 5, 0, 99, 99)))
			b.unstable(99)
			b.appends(txn(data(2, 5, 0, 105, 105)))
			b.unstable(99)
			b.appends(marker(Commit, 1, 5, 0, 109))
			b.unstable(99) // since nobody else has the marker
			b.OnHighWatermark(100)
			b.unstable(99)
			require.Equal(b, int64(99), b.LastStableOffset(100))
			b.OnHighWatermark(110)
			b.unstable(105)
			b.appends(marker(Abort, 2, 5, 0, 112))
			b.unstable(105)
			b.OnHighWatermark(113)
			b.unstable(-1)
			require.Equal(b, int64(113), b.LastStableOffset(113))
		}},
		{"row 147: a silent producer is forgotten", func(b *bench) {
			b.appends(data(1, 5, 0, 1, 1))
			b.now += day - 1
			b.expire()
			require.Equal(b, 1, b.Len())
			b.now++
			b.expire()
			require.True(b, b.IsEmpty())
			b.appends(data(1, 5, 1, 2, 2))
			b.sequences(1, 1, 1)
			require.Equal(b, int64(3), b.End())
		}},
		{"row 147: but not in a transaction", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 99, 99)))
			b.now += 2 * day
			b.expire()
			b.unstable(99)
			require.Equal(b, 1, b.Len())
			b.take(100)
			b.reopen()
			b.reload(0, 100)
			require.Equal(b, 1, b.Len())
		}},
		{"row 147: one that a marker fenced is kept", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)), marker(Abort, 1, 1, 0, 1))
			b.expire()
			require.Equal(b, Entry{1, 1, NoSequence, NoOffset, 0, 1000, 0, NoOffset}, b.entry(1))
		}},
		{"row 147: what has expired is not loaded", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0).at(0), data(2, 0, 0, 1, 1).at(1))
			b.take(2)
			b.reopen()
			b.now = day
			b.reload(0, 2)
			require.Equal(b, 1, b.Len())
			b.appends(data(1, 0, 2, 2, 2).at(b.now))
			b.sequences(1, 2, 2)
		}},
		{"row 147: and may be replicated", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(1, 0, 1, 1, 1))
			b.now += day
			b.expire()
			b.replicates(data(1, 0, 2, 2, 2))
			b.sequences(1, 2, 2)
		}},
		{"row 148: one snapshot for an offset", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0))
			taken, err := b.Take(1, true)
			require.NoError(b, err)
			require.True(b, taken)
			taken, err = b.Take(1, true)
			require.NoError(b, err)
			require.False(b, taken)
			b.onDisk(1)
		}},
		{"row 149: group coordinators do not count", func(b *bench) {
			for at := int64(99); at < 101; at++ {
				batch := txn(data(1, 0, record.NoSequence, at, at))
				_, err := b.Check(batch, Coordinator)
				require.NoError(b, err)
				b.Apply(batch)
			}
			require.Equal(b, NoSequence, b.entry(1).LastSequence)
		}},
		{"row 150: a marker of an old epoch", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 99, 99)))
			b.refuses(marker(Commit, 1, 3, 0, 100), ErrInvalidProducerEpoch, 3, 5)
			b.unstable(99)
		}},
		{"row 151: a coordinator is fenced", func(b *bench) {
			b.appends(
				txn(data(1, 5, 0, 99, 99)),
				marker(Commit, 1, 5, 1, 100), marker(Commit, 1, 5, 1, 101), marker(Commit, 1, 5, 2, 102))
			b.refuses(marker(Commit, 1, 5, 1, 103), ErrCoordinatorFenced, 1, 2)
			b.take(103)
			b.reopen()
			b.reload(0, 103)
			b.refuses(marker(Commit, 1, 5, 1, 103), ErrCoordinatorFenced, 1, 2)
			b.replicates(marker(Commit, 1, 5, 1, 103))
			require.Equal(b, int32(1), b.entry(1).CoordinatorEpoch)
		}},
		{"row 153: an empty control batch is no marker", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)))
			empty := Batch{Kind: Neutral, ProducerID: 1, ProducerEpoch: 7, Transactional: true, BaseOffset: 1, LastOffset: 1, BaseSequence: -1}
			before := b.entry(1)
			b.endsNothing(empty)
			b.appends(empty)
			require.Equal(b, before, b.entry(1))
			require.Equal(b, int64(2), b.End())
			empty.ProducerID = 2
			b.appends(empty) // Kafka makes an entry without an epoch of it
			require.Equal(b, 1, b.Len())
		}},
		{"row 154: the snapshot of a clean close is not stray", func(b *bench) {
			b.snapshotsAt(2, 5, 42)
			require.NoError(b, b.RemoveStraySnapshots([]int64{5}))
			b.onDisk(5, 42)
		}},
		{"row 154: one below the last segment is", func(b *bench) {
			b.snapshotsAt(2, 5, 42)
			require.NoError(b, b.RemoveStraySnapshots([]int64{42}))
			b.onDisk(42)
		}},
		{"row 155: a snapshot is marked as deleted", func(b *bench) {
			b.snapshotsAt(5)
			found, err := b.MarkSnapshotDeleted(5)
			require.NoError(b, err)
			require.True(b, found)
			require.Empty(b, b.Snapshots())
			_, err = b.fs.Stat(b.path(5) + layout.DeletedSuffix)
			require.NoError(b, err)
		}},
		{"row 155: or is not there", func(b *bench) {
			b.snapshotsAt(5)
			require.NoError(b, b.fs.Remove(b.path(5)))
			for range 2 {
				found, err := b.MarkSnapshotDeleted(5)
				require.NoError(b, err)
				require.False(b, found)
				require.Empty(b, b.Snapshots())
			}
		}},
		{"row 158: the last stable offset of a completed transaction", func(b *bench) {
			const s1, s2, s3 = 992342, 992367, 992399
			b.appends(txn(data(1, 0, 0, s1, s1)), txn(data(2, 0, 0, s2, s2)), txn(data(3, 0, 0, s3, s3)))
			for _, end := range []struct{ id, first, marker, stable, unstable int64 }{
				{1, s1, s3 + 15, s2, s2},
				{3, s3, s3 + 35, s2, s2},
				{2, s2, s3 + 113, s3 + 114, -1},
			} {
				commit := marker(Commit, end.id, 0, 0, end.marker)
				b.ends(commit, CompletedTxn{end.id, end.first, end.marker, false, end.stable})
				b.appends(commit)
				b.OnHighWatermark(end.marker + 1)
				b.unstable(end.unstable)
			}
		}},
		{"row 159: transactions without data do not count", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 16, 20)))
			b.OnHighWatermark(21)
			b.unstable(16)
			var ended []CompletedTxn
			for _, batch := range []Batch{
				marker(Commit, 1, 0, 0, 21), marker(Commit, 1, 0, 0, 22), marker(Abort, 1, 0, 0, 23),
				txn(data(1, 0, 5, 24, 27)), marker(Abort, 1, 0, 0, 28), marker(Abort, 1, 0, 0, 29),
				txn(data(1, 0, 9, 30, 31)),
			} {
				if txn, ok := b.Ends(batch); ok {
					ended = append(ended, txn)
				}
				b.appends(batch)
			}
			require.Equal(b, []CompletedTxn{{1, 16, 21, false, 22}, {1, 24, 28, true, 29}}, ended)
			b.OnHighWatermark(32)
			b.unstable(30)
		}},
		{"row 160: the bytes of a snapshot", func(b *bench) {
			b.replicates(
				txn(data(1, 2, -3, 0, 2)), marker(Commit, 1, 2, 3, 3),
				// The entry of Kafka's test is made up; this one is possible.
				txn(data(1, 2, 0, 100, 101).at(-1)))
			b.take(102)
			got, err := vfs.ReadFile(b.fs, b.path(102), 1000)
			require.NoError(b, err)
			require.Equal(b, Append(nil, []Entry{{1, 2, 1, 101, 1, -1, 3, 100}}), got)
		}},
		{"row 234: a batch with holes counts as it was", func(b *bench) {
			b.replicates(data(1, 0, 0, 23, 26)) // of which records are gone
			b.sequences(1, 0, 3)
			b.appends(data(1, 0, 4, 27, 27))
		}},
		{"row 235: a batch without records counts", func(b *bench) {
			b.replicates(data(1, 0, 0, 0, 1)) // the header is all that is needed
			b.appends(data(1, 0, 2, 2, 2))
		}},
		{"row 236: a producer outlives its records", func(b *bench) {
			b.appends(data(1, 0, 0, 0, 0), data(2, 0, 0, 1, 1))
			b.OnLogStart(2)
			require.Equal(b, 2, b.Len())
		}},
		{"row 238: the marker counts once it is replicated", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 2)), data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 3, 4))
			b.unstable(0)
			b.appends(marker(Commit, 1, 0, 0, 5))
			b.OnHighWatermark(5)
			b.unstable(0)
			b.OnHighWatermark(6)
			b.unstable(-1)
		}},
		{"row 239: the transactions of four producers", fourProducers},
		{"row 240: a zombie coordinator, even without data", func(b *bench) {
			b.appends(marker(Commit, 1, 0, 1, 0), marker(Commit, 1, 0, 2, 1))
			b.refuses(marker(Commit, 1, 0, 1, 2), ErrCoordinatorFenced, 1, 2)
		}},
		{"row 241: a marker of a fenced producer", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 0, 0)))
			b.refuses(marker(Abort, 1, 4, 0, 1), ErrInvalidProducerEpoch, 4, 5)
		}},
		{"row 242: a transaction below the log start is open", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 0, 0)), data(2, 0, 0, 1, 9))
			b.OnLogStart(5)
			b.unstable(0)
			require.Equal(b, int64(10), b.End())
		}},
		{"row 247: truncation below an open transaction", func(b *bench) {
			b.appends(txn(data(1, 0, 0, 3, 3)))
			b.take(4)
			b.reopen()
			b.reload(0, 4)
			b.reload(0, 0)
			b.unstable(-1)
			require.True(b, b.IsEmpty())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(newBench(t)) })
	}
}

// fourProducers is testTransactionIndexUpdatedThroughReplication of
// UnifiedLogTest: producers 1 to 4, 1 and 2 aborted.
func fourProducers(b *bench) {
	var aborted []CompletedTxn
	apply := func(batches ...Batch) {
		for _, batch := range batches {
			if txn, ok := b.Ends(batch); ok && txn.Aborted {
				aborted = append(aborted, txn)
			}
			b.replicates(batch)
		}
	}
	apply(
		txn(data(1, 0, 0, 0, 4)),
		data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 5, 7),
		txn(data(2, 0, 0, 8, 14)),
		txn(data(1, 0, 5, 15, 20)),
		data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 21, 28),
		marker(Abort, 1, 0, 0, 29),
		data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 30, 35),
		txn(data(3, 0, 0, 36, 39)),
		txn(data(4, 0, 0, 40, 53)), txn(data(2, 0, 7, 54, 57)),
		data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 58, 73),
		marker(Abort, 2, 0, 0, 74))
	require.Equal(b, []CompletedTxn{{1, 0, 29, true, 8}, {2, 8, 74, true, 36}}, aborted)
	b.unstable(0)
	b.OnHighWatermark(30)
	b.unstable(8)
	b.OnHighWatermark(75)
	b.unstable(36)
	apply(marker(Commit, 3, 0, 0, 75), marker(Commit, 4, 0, 0, 76))
	b.unstable(36)
	b.OnHighWatermark(77)
	b.unstable(-1)
}

func (b *bench) path(offset int64) string {
	return filepath.Join(benchDir, layout.SnapshotName(offset))
}

// onDisk are the snapshots that there are, and that the Manager knows.
func (b *bench) onDisk(want ...int64) {
	b.Helper()
	got, err := List(b.fs, benchDir)
	require.NoError(b, err)
	require.ElementsMatch(b, want, got)
	require.ElementsMatch(b, want, b.Snapshots())
}

func (b *bench) snapshotsAt(offsets ...int64) {
	b.Helper()
	for _, offset := range offsets {
		require.NoError(b, WriteFile(b.fs, b.path(offset), nil, true))
	}
	b.reopen()
}

func TestDamagedSnapshotIsRemovedAndTheOneBeforeUsed_K046(t *testing.T) { // row 152
	snapshot := func(e ...Entry) []byte { return Append(nil, e) }
	plain := Entry{ProducerID: 1, LastSequence: -1, LastOffset: -1, CoordinatorEpoch: -1, CurrentTxnFirstOffset: -1}
	negative, beyond, below, open := plain, plain, plain, plain
	below.LastOffset, below.OffsetDelta = 1, 2
	negative.ProducerID = -1
	beyond.LastOffset = 2
	open.CurrentTxnFirstOffset = 2
	tests := []struct {
		name string
		data []byte
		rule string
	}{
		{"empty", nil, "0 bytes, the header has 10"},
		{"half", snapshot(plain)[:28], "1 entries do not make 28 bytes"},
		{"zeros", make([]byte, 56), "version 0, want 1"},
		{"negative producer", snapshot(negative), "producer id -1 is negative"},
		{"a producer twice", snapshot(plain, plain), "producer 1 has two entries"},
		{"a batch behind it", snapshot(beyond), "last offset 2 in a snapshot at 2"},
		{"a batch below 0", snapshot(below), "offset delta 2, last offset 1"},
		{"a transaction behind it", snapshot(open), "a transaction from offset 2 on in a snapshot at 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.appends(data(1, 0, 0, 0, 0))
			b.take(1)
			b.appends(data(1, 0, 1, 1, 1))
			b.take(2)
			require.NoError(t, vfs.WriteFileAtomic(b.fs, b.path(2), tt.data))
			b.reopen()
			r := b.reload(0, 2)
			require.Equal(t, int64(1), r.From)
			require.Len(t, r.Damaged, 1)
			require.Equal(t, []string{b.path(2), tt.rule}, []string{r.Damaged[0].File, r.Damaged[0].Rule})
			b.sequences(1, 0, 0)
			b.onDisk(1)
		})
	}
}

func TestLostSnapshotIsNoError(t *testing.T) {
	b := newBench(t)
	b.appends(data(1, 0, 0, 0, 0))
	b.take(1)
	b.appends(data(1, 0, 1, 1, 1))
	b.take(2)
	b.reopen()
	require.NoError(t, b.fs.Remove(b.path(2)))
	require.Equal(t, Reload{From: 1}, b.reload(0, 2))
	b.sequences(1, 0, 0)
}

func TestSequencesWrap_K066(t *testing.T) {
	b := newBench(t)
	b.replicates(data(1, 0, math.MaxInt32, 0, 0))
	b.refuses(data(1, 0, 1, 1, 1), ErrOutOfOrderSequence, 1, 0)
	b.appends(data(1, 0, 0, 1, 1))
	b.replicates(data(1, 0, math.MaxInt32-1, 2, 5))
	b.sequences(1, math.MaxInt32-1, 1)
	b.appends(data(1, 0, 2, 6, 6))
	for _, negative := range []int32{-math.MaxInt32, -2, -1} {
		b.refuses(data(1, 0, negative, 7, 7), ErrInvalidRecord, -1, -1)
	}
}

func TestTheLastFiveBatchesAreKnown_K067(t *testing.T) {
	b := newBench(t)
	batch := func(letter byte) Batch {
		n := int64(letter - 'A')
		return data(1, 0, int32(10*n), 10*n, 10*n+9).at(n)
	}
	for letter := byte('A'); letter <= 'G'; letter++ {
		b.appends(batch(letter))
	}
	b.duplicates(batch('G'), 60, 69, 6)
	b.duplicates(batch('C'), 20, 29, 2)
	b.refuses(batch('B'), ErrOutOfOrderSequence, 10, 70)
	b.refuses(data(1, 0, 65, 70, 79), ErrOutOfOrderSequence, 65, 70)
	b.refuses(data(1, 0, 60, 70, 70), ErrOutOfOrderSequence, 60, 70) // begins as G does
}

func TestProducersOutliveTheirRecords_K068(t *testing.T) {
	b := newBench(t)
	b.appends(data(1, 0, 0, 0, 9))
	b.OnLogStart(10)
	b.appends(data(1, 0, 10, 10, 10))

	b.reopen() // no snapshot was taken
	b.reload(10, 11)
	b.Advance(11)
	b.appends(data(1, 0, 20, 11, 11))
}

func TestFirstSequenceInALogThatNeverHeldARecord_K068(t *testing.T) {
	b := newBench(t)
	b.refuses(data(1, 0, 17, 0, 4), ErrOutOfOrderSequence, 17, 0) // 0 to 16 are on their way
	b.appends(data(1, 0, 0, 0, 16), data(1, 0, 17, 17, 21))
	b.appends(data(2, 0, 17, 22, 22)) // whose first batches may be gone

	loose, err := New(benchDir, Options{FS: b.fs, LooseStart: true})
	require.NoError(t, err)
	_, err = loose.Check(data(1, 0, 17, 0, 4), Client)
	require.NoError(t, err)
}

func TestHangingTransactionIsNamed_K069(t *testing.T) {
	b := newBench(t)
	b.appends(data(1, 0, 0, 0, 9), txn(data(9, 3, 0, 10, 10).at(2000)), txn(data(9, 3, 1, 11, 11).at(2500)))
	at := int64(12)
	for id := int64(100); id < 1100; id++ {
		b.appends(txn(data(id, 0, 0, at, at)), marker(Commit, id, 0, 0, at+1))
		b.OnHighWatermark(at + 2)
		at += 2
	}
	require.Equal(t, int64(10), b.LastStableOffset(at))
	var open []OpenTxn
	for txn := range b.OpenTransactions() {
		open = append(open, txn)
	}
	require.Equal(t, []OpenTxn{{9, 3, 10, 2000, 2500}}, open)
	abort := marker(Abort, 9, 3, 0, at)
	b.ends(abort, CompletedTxn{9, 10, at, true, at + 1})
	b.appends(abort)
	b.OnHighWatermark(at + 1)
	require.Equal(t, at+1, b.LastStableOffset(at+1))
}

func TestMarkersWithoutDataCostNothing_K070(t *testing.T) {
	b := newBench(t)
	for i := range int64(10000) {
		m := marker(Commit+Kind(i%2), 3, 0, 0, i)
		b.endsNothing(m)
		b.appends(m)
	}
	require.Equal(t, 1, b.Len())
	require.Empty(t, b.unreplicated.txns)
	require.Equal(t, int64(10000), b.LastStableOffset(10000))
}

func TestOnlyEndMarkersMatter_K073(t *testing.T) {
	var it record.Iterator
	control := func(key, value []byte) (Batch, error) {
		w := record.NewBuilder(record.BuilderOptions{
			BaseOffset: 7, Control: true, Transactional: true, Producer: &record.Producer{ID: 1, Epoch: 2, BaseSequence: -1},
		})
		require.NoError(t, w.Append(record.Record{Timestamp: 5, Key: key, Value: value}))
		bytes, err := w.Build()
		require.NoError(t, err)
		batch, err := record.Parse(bytes)
		require.NoError(t, err)
		return Describe(batch, &it)
	}
	for _, version := range []byte{0, 5} {
		for _, kind := range []byte{0, 1, 2, 3, 4, 5, 6, 99} {
			got, err := control([]byte{0, version, 0, kind}, []byte{0, 0, 0, 0, 0, 9})
			require.NoError(t, err)
			want := Batch{BaseOffset: 7, LastOffset: 7, ProducerID: 1, ProducerEpoch: 2, BaseSequence: -1, Timestamp: 5, Transactional: true, Kind: Neutral}
			switch kind {
			case 0:
				want.Kind, want.CoordinatorEpoch = Abort, 9
			case 1:
				want.Kind, want.CoordinatorEpoch = Commit, 9
			}
			require.Equal(t, want, got)
		}
	}
	short, err := control([]byte{0, 0, 0}, nil)
	require.ErrorIs(t, err, record.ErrInvalid)
	require.Equal(t, Neutral, short.Kind)
	_, err = control([]byte{0, 0, 0, 1}, []byte{0, 0})
	require.ErrorIs(t, err, record.ErrInvalid)

	emptied, err := record.Parse(record.AppendEmptyBatch(nil, record.BatchHeader{
		BaseOffset: 7, ProducerID: 1, ProducerEpoch: 2, BaseSequence: -1, Attributes: 0x30,
	}))
	require.NoError(t, err)
	got, err := Describe(emptied, &it)
	require.NoError(t, err)
	require.Equal(t, Neutral, got.Kind)
}

func TestExpiryIsDoneInSteps_K074(t *testing.T) {
	b := newBench(t)
	const n = 100_000
	for i := range int64(n) {
		b.Apply(data(i, 0, 0, i, i).at(i % 2 * day))
	}
	b.take(n)
	info, err := b.fs.Stat(b.path(n))
	require.NoError(t, err)
	require.Equal(t, int64(10+46*n), info.Size())
	steps, removed := 0, 0
	for done := false; !done; steps++ {
		var here int
		here, done = b.RemoveExpired(day, 1000)
		require.LessOrEqual(t, here, 1000)
		removed += here
	}
	require.Equal(t, []int{n / 1000, n / 2, n / 2}, []int{steps, removed, b.Len()})
	for e := range b.Producers() {
		require.Equal(t, int64(1), e.ProducerID%2)
	}
	removed, done := b.RemoveExpired(2*day, math.MaxInt)
	require.Equal(t, n/2, removed)
	require.True(t, done)
	require.True(t, b.IsEmpty())
	_, done = b.RemoveExpired(2*day, 1)
	require.True(t, done)
}

// Version 2 of transactions: each one raises the epoch with its marker.
func TestMarkersOfTransactionsVersion2(t *testing.T) {
	tests := []struct {
		name string
		run  func(b *bench)
	}{
		{"a marker raises the epoch", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 0, 0)), marker(Commit, 1, 6, 0, 1).version(2))
			b.unstable(0)
			b.OnHighWatermark(2)
			b.unstable(-1)
			b.appends(txn(data(1, 6, 0, 2, 2)).version(2))
		}},
		{"one that does not is late: it belongs to the transaction before", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 0, 0)), marker(Commit, 1, 6, 0, 1).version(2), txn(data(1, 6, 0, 2, 2)))
			b.refuses(marker(Commit, 1, 6, 0, 3).version(2), ErrInvalidProducerEpoch, 6, 7)
			b.refuses(marker(Commit, 1, 5, 0, 3).version(2), ErrInvalidProducerEpoch, 5, 7)
			b.appends(marker(Commit, 1, 6, 0, 3).version(1))
		}},
		{"one that comes twice is a duplicate", func(b *bench) {
			end := marker(Commit, 1, 6, 0, 1).version(2)
			b.appends(txn(data(1, 5, 0, 0, 0)), end)
			b.duplicates(end, -1, -1, -1)
		}},
		{"one of an unknown producer is accepted", func(b *bench) {
			b.appends(marker(Abort, 1, 6, 0, 0).version(2))
		}},
		{"the highest epoch can be ended", func(b *bench) {
			b.replicates(txn(data(1, math.MaxInt16, 0, 0, 0)))
			b.appends(marker(Abort, 1, math.MaxInt16, 0, 1).version(2))
			require.False(b, b.entry(1).HasOpenTxn())
		}},
		{"old coordinators are fenced", func(b *bench) {
			b.appends(txn(data(1, 5, 0, 0, 0)), marker(Commit, 1, 6, 4, 1).version(2), txn(data(1, 6, 0, 2, 2)))
			b.refuses(marker(Commit, 1, 7, 3, 3).version(2), ErrCoordinatorFenced, 3, 4)
		}},
		{"an unknown producer begins at 0", func(b *bench) {
			b.Advance(100)
			b.refuses(txn(data(1, 5, 3, 100, 100)).version(2), ErrOutOfOrderSequence, 3, 0)
			b.appends(txn(data(1, 5, 3, 100, 100)).version(1))
			b.appends(txn(data(2, 5, 0, 101, 101)).version(2))
		}},
		{"what is replicated has no version", func(b *bench) {
			b.replicates(txn(data(1, 5, 0, 0, 0)), marker(Commit, 1, 5, 0, 1), marker(Commit, 1, 5, 0, 2))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(newBench(t)) })
	}
}

func TestClientsWriteRecordsOnly(t *testing.T) {
	b := newBench(t)
	for _, kind := range []Kind{Commit, Abort, Neutral} {
		b.refusesFrom(Client, marker(kind, 1, 0, 0, 0), ErrInvalidRecord, -1, -1)
		b.refusesFrom(Client, marker(kind, record.NoProducerID, 0, 0, 0), ErrInvalidRecord, -1, -1)
	}
	b.refuses(data(1, -1, 0, 0, 0), ErrInvalidRecord, -1, -1)
	b.appends(data(record.NoProducerID, record.NoProducerEpoch, record.NoSequence, 0, 0))
	require.True(t, b.IsEmpty())
	require.Equal(t, int64(1), b.End())
}

// Kafka makes entries without an epoch of control batches that were emptied.
func TestProducerWithoutAnEpochBeginsAnywhere(t *testing.T) {
	b := newBench(t)
	require.NoError(t, WriteFile(b.fs, b.path(5), []Entry{{1, -1, -1, -1, 0, 1000, -1, -1}}, true))
	b.reopen()
	b.reload(0, 5)
	b.appends(data(1, 3, 9, 5, 5))
}

func TestReplicationIsNeverRefused(t *testing.T) {
	b := newBench(t)
	b.replicates(
		txn(data(1, 5, 7, 0, 0)),
		data(1, 5, 7, 1, 1),           // outside of the transaction, and twice
		data(1, 4, 3, 2, 2),           // of an old epoch
		marker(Abort, 1, 3, 9, 3),     // likewise
		marker(Abort, 1, 3, 2, 4),     // of an old coordinator
		data(1, -1, -7, 5, 9),         // nonsense
		marker(Commit, 2, -9, -9, 10), // likewise
		data(2, 0, math.MinInt32, 11, 500))
	require.Equal(t, 2, b.Len())
	b.unstable(0)
	b.OnHighWatermark(4)
	b.unstable(-1)
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	tests := []struct {
		err  *Error
		text string
		code int16
	}{
		{&Error{ErrOutOfOrderSequence, 7, 3, 100, 12, 10}, "producer 7, epoch 3: out of order sequence number: 12, want 10", 45},
		{&Error{ErrInvalidProducerEpoch, 7, 3, 100, 3, 4}, "producer 7, epoch 3: producer epoch is no longer valid: want 4 or above", 47},
		{&Error{ErrInvalidTxnState, 7, 3, 100, -1, 90}, "producer 7, epoch 3: a transaction is open, from offset 90 on, and the batch is not part of it", 48},
		{&Error{ErrCoordinatorFenced, 7, 3, 100, 1, 2}, "producer 7, epoch 3: transaction coordinator is fenced: coordinator epoch 1, want 2 or above", 52},
		{&Error{ErrInvalidRecord, 7, 3, 100, -1, -1}, "producer 7, epoch 3: clients may not write such a batch", 87},
		{&Error{Reason: errors.New("else")}, "producer 0, epoch 0: else", -1},
	}
	for _, tt := range tests {
		require.EqualError(t, tt.err, tt.text)
		require.Equal(t, tt.code, tt.err.KafkaError())
	}
}

func TestNewNeedsTheDirectory(t *testing.T) {
	_, err := New(filepath.Join(t.TempDir(), "missing"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}
