package seglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// The numbers are those of the rows of Kafka's own tests (LogTest, UnifiedLogTest,
// ProducerStateManagerTest, LogLoaderTest, LeaderEpochFileCacheTest). Rows that do not
// apply here: 195 and 222 (no Raft leader, no appends of magic 1); 246 (verification is
// a broker's); 256 (files go at once); 279, 280, 284, 294, 296 to 300 (AppendBatch takes
// one batch of magic 2 and never converts); 262 to 273 and 123 to 160 on their own in
// leaderepoch and producerstate; 237 in compaction.

// writer is a producer that counts by itself.
type writer struct {
	t     tb
	log   *seglog.Log
	id    int64
	epoch int16
	seq   int32
	txn   bool
}

// send appends a batch of n records.
func (w *writer) send(n int) seglog.AppendResult {
	w.t.Helper()
	at, err := w.try(n, w.seq)
	require.NoError(w.t, err)
	require.False(w.t, at.Duplicate)
	w.seq = record.IncrementSequence(w.seq, int32(n))
	return at
}

func (w *writer) try(n int, seq int32) (seglog.AppendResult, error) {
	return w.log.Append(recent(n), &seglog.AppendOptions{Producer: &seglog.Producer{ID: w.id, Epoch: w.epoch, Sequence: seq, Transactional: w.txn}})
}

func (w *writer) end(result seglog.TransactionResult) seglog.AppendResult {
	w.t.Helper()
	at, err := w.log.EndTransaction(seglog.Producer{ID: w.id, Epoch: w.epoch}, result, nil)
	require.NoError(w.t, err)
	return at
}

// recent are records of now: those of producers that have been silent for a day are
// forgotten.
func recent(n int) []seglog.Record {
	records := make([]seglog.Record, n)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, "record %d", i)
	}
	return records
}

func plain(t tb, l *seglog.Log, n int) {
	t.Helper()
	_, err := l.Append(recent(n), nil)
	require.NoError(t, err)
}

func roll(t tb, l *seglog.Log) {
	t.Helper()
	_, err := l.Roll()
	require.NoError(t, err)
}

func stable(t tb, l *seglog.Log) int64 {
	t.Helper()
	at, err := l.LastStableOffset()
	require.NoError(t, err)
	return at
}

// committed reads in both ways, and requires them to agree.
func committed(t tb, l *seglog.Log) []int64 {
	t.Helper()
	offsets := []int64{}
	for r, err := range l.Records(t.Context(), l.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
		require.NoError(t, err)
		offsets = append(offsets, r.Offset)
	}
	require.Equal(t, offsets, readCommitted(t, l, l.Offsets().Start))
	return offsets
}

func abortedOf(t tb, dir string, base int64) []txnindex.Entry {
	t.Helper()
	x, err := txnindex.OpenReadOnly(segmentFile(dir, base, ".txnindex"), base, txnindex.Options{})
	require.NoError(t, err)
	defer x.Close()
	entries := []txnindex.Entry{}
	for e, err := range x.All() {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

func snapshotsOf(t tb, dir string) []int64 {
	t.Helper()
	list, err := producerstate.List(vfs.OS, dir)
	require.NoError(t, err)
	return list
}

// 211, K067: a batch that is sent again is stored once, as long as it is one of the
// last five of its producer.
func TestABatchThatIsSentAgainIsStoredOnce(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1}
	var sent []seglog.AppendResult
	for range 6 {
		sent = append(sent, w.send(1))
	}
	sent = append(sent, w.send(3))
	for _, row := range []struct {
		name  string
		seq   int32
		n     int
		again int // index of the batch that it is; -1: refused
	}{
		{"the last one", 6, 3, 6},
		{"a part of it", 7, 2, -1},
		{"the fifth from the end", 2, 1, 2},
		{"the sixth from the end", 1, 1, -1},
		{"one that leaves some out", 10, 1, -1},
		{"more than the last one", 6, 4, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			at, err := w.try(row.n, row.seq)
			require.Equal(t, int64(9), l.Offsets().End)
			if row.again < 0 {
				require.ErrorIs(t, err, seglog.ErrOutOfOrderSequence)
				var why *seglog.ProducerError
				require.ErrorAs(t, err, &why)
				require.Equal(t, int64(9), why.Expected)
				return
			}
			require.NoError(t, err)
			want := sent[row.again]
			want.Duplicate = true
			require.Equal(t, want, at)
		})
	}
}

// K066: sequences wrap behind 2147483647.
func TestSequencesWrap(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	plain(t, l, 1) // in a log that never held a record a producer begins at 0
	w := &writer{t: t, log: l, id: 1, seq: math.MaxInt32}
	w.send(1)
	_, err := w.try(1, 1)
	require.ErrorIs(t, err, seglog.ErrOutOfOrderSequence)
	require.Equal(t, int32(0), w.seq)
	w.send(1)
	w.id, w.seq = 2, math.MaxInt32-1
	w.send(4)
	require.Equal(t, int32(2), w.seq)
	w.send(1)
	for _, seq := range []int32{-1, -math.MaxInt32} {
		_, err = w.try(1, seq)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	}
}

// 212, 241, 240: who was replaced writes no more: a producer, and a coordinator.
func TestWhoWasReplacedIsFenced(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	old := &writer{t: t, log: l, id: 1, txn: true}
	old.send(1)
	fresh := &writer{t: t, log: l, id: 1, epoch: 1, txn: true}
	_, err := fresh.try(1, 1)
	require.ErrorIs(t, err, seglog.ErrOutOfOrderSequence, "a new epoch begins at 0")
	fresh.send(1)
	_, err = old.try(1, 1)
	require.ErrorIs(t, err, seglog.ErrInvalidProducerEpoch)
	_, err = l.EndTransaction(seglog.Producer{ID: 1, Epoch: 0}, seglog.Commit, nil)
	require.ErrorIs(t, err, seglog.ErrInvalidProducerEpoch)
	for _, row := range []struct {
		coordinator int32
		err         error
	}{{1, nil}, {2, nil}, {1, seglog.ErrCoordinatorFenced}} {
		_, err = l.EndTransaction(seglog.Producer{ID: 1, Epoch: 1}, seglog.Abort, &seglog.AppendOptions{CoordinatorEpoch: row.coordinator})
		require.ErrorIs(t, err, row.err)
	}
	l = reopen(t, l, quick) // 151: also after the state was loaded
	_, err = l.EndTransaction(seglog.Producer{ID: 1, Epoch: 1}, seglog.Abort, &seglog.AppendOptions{CoordinatorEpoch: 1})
	require.ErrorIs(t, err, seglog.ErrCoordinatorFenced)
}

// 132, 293, 291, and what AppendBatch finds in a batch.
func TestABatchThatItsProducerMayNotWriteIsRefused(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1, txn: true}
	w.send(1)
	w.txn = false
	_, err := w.try(1, 1)
	require.ErrorIs(t, err, seglog.ErrInvalidTxnState)
	batch := func(p record.Producer) []byte {
		return batchAt(t, record.BuilderOptions{Producer: &p}, at(0, time.Now().UnixMilli(), "v"))
	}
	for name, b := range map[string][]byte{
		"a negative sequence": edited(batch(record.Producer{ID: 2}), func(b []byte) { binary.BigEndian.PutUint32(b[53:], math.MaxUint32) }),
		"a negative epoch":    edited(batch(record.Producer{ID: 2}), func(b []byte) { binary.BigEndian.PutUint16(b[51:], math.MaxUint16) }),
		"a marker":            marker(t, 0, 2, record.Abort),
	} {
		_, err := l.AppendBatch(b, nil)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch, name)
		require.Equal(t, "INVALID_RECORD", seglog.KafkaErrorOf(err).Name, name)
	}
	for _, p := range []seglog.Producer{{ID: -1}, {ID: 1, Epoch: -1}} {
		_, err = l.EndTransaction(p, seglog.Commit, nil)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	}
	_, err = l.EndTransaction(seglog.Producer{ID: 1}, seglog.TransactionResult(7), nil)
	require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	require.Equal(t, int64(1), l.Offsets().End)
}

func edited(b []byte, change func([]byte)) []byte {
	change(b)
	return setCRC(b)
}

// 287, 288: a client that says that the log has put the time into its records.
func TestAClientDoesNotPutTheLogsTime(t *testing.T) {
	for _, stamp := range []record.TimestampType{record.CreateTime, record.LogAppendTime} {
		o := quick
		o.TimestampType = stamp
		l := openLog(t, t.TempDir(), o)
		b := batchAt(t, record.BuilderOptions{TimestampType: record.LogAppendTime, LogAppendTime: -1}, at(0, -1, "v"))
		_, err := l.AppendBatch(b, nil)
		require.ErrorIs(t, err, seglog.ErrInvalidTimestamp, "%v", stamp)
	}
}

// 289, 290, 205: records are judged one by one, and the batch as a whole.
func TestRecordsAreJudgedOneByOne(t *testing.T) {
	now := time.Now().UnixMilli()
	o := seglog.Options{Sync: seglog.SyncNever, TimestampBeforeMax: 24 * time.Hour, TimestampAfterMax: time.Hour, CleanupPolicy: seglog.CleanupCompact}
	l := openLog(t, t.TempDir(), o)
	key := []byte("k")
	_, err := l.Append([]seglog.Record{{Key: key, Timestamp: now}, {Timestamp: now}, {Key: key, Timestamp: now - 25*3600*1000}, {Key: key, Timestamp: now + 2*3600*1000}}, nil)
	var broken *seglog.RecordsError
	require.ErrorAs(t, err, &broken)
	require.Len(t, broken.Records, 3)
	require.Equal(t, "INVALID_TIMESTAMP", seglog.KafkaErrorOf(err).Name)
	_, err = l.Append([]seglog.Record{{Key: key}, {}}, nil)
	require.ErrorAs(t, err, &broken)
	require.Equal(t, 1, broken.Records[0].Index)
	require.Equal(t, "INVALID_RECORD", seglog.KafkaErrorOf(err).Name)
	require.Zero(t, l.Offsets().End)
	_, err = l.Append([]seglog.Record{{Key: []byte{}}}, nil)
	require.NoError(t, err, "an empty key is one")

	// 205: so are those of a batch that was encoded before, and compressed.
	batch := func(keys ...[]byte) []byte {
		records := make([]record.Record, len(keys))
		for i, key := range keys {
			records[i] = record.Record{Offset: int64(i), Key: key, Timestamp: now}
		}
		return batchAt(t, record.BuilderOptions{Codec: record.Gzip}, records...)
	}
	end := l.Offsets().End
	for index, b := range [][]byte{batch(nil, key), batch(key, nil)} {
		_, err = l.AppendBatch(b, nil)
		require.ErrorAs(t, err, &broken)
		require.Len(t, broken.Records, 1)
		require.Equal(t, index, broken.Records[0].Index)
		require.Equal(t, "INVALID_RECORD", seglog.KafkaErrorOf(err).Name)
	}
	require.Equal(t, end, l.Offsets().End)
	_, err = l.AppendBatch(batch([]byte{}, key), nil)
	require.NoError(t, err)
}

// 238, 194: the last stable offset, and the high watermark.
func TestATransactionHoldsUpReadersUntilItsMarkerIsReplicated(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	w := &writer{t: t, log: l, id: 1, txn: true}
	require.Zero(t, l.HighWatermark())
	w.send(3)
	plain(t, l, 1)
	raise := func(to, want int64) {
		at, err := l.SetHighWatermark(to)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
	raise(1, 1)
	require.Equal(t, int64(0), stable(t, l))
	raise(100, 4)
	require.Equal(t, int64(0), stable(t, l))
	w.end(seglog.Commit)
	require.Equal(t, int64(0), stable(t, l), "the marker is not replicated")
	l = reopen(t, l, o)
	require.Zero(t, l.HighWatermark())
	raise(4, 4)
	require.ErrorIs(t, l.TruncateTo(3), seglog.ErrCommitted)
	raise(5, 5)
	require.Equal(t, int64(5), stable(t, l))
	require.Equal(t, span(0, 3), committed(t, l))
	require.NoError(t, l.ForceTruncateTo(3))
	require.Equal(t, int64(3), l.HighWatermark())
	require.NoError(t, l.TruncateFullyAndStartAt(4))
	require.Equal(t, int64(4), l.HighWatermark())
	require.ErrorIs(t, l.DeleteBefore(5), seglog.ErrOffsetOutOfRange) // 260
}

// Transactions above the high watermark stay undecided when the log is truncated above
// them: their markers may go next.
func TestATruncationDoesNotDecideAboveTheHighWatermark(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	w := &writer{t: t, log: l, id: 1, txn: true}
	w.send(2)
	w.end(seglog.Abort)
	plain(t, l, 2)
	require.NoError(t, l.TruncateTo(4))
	_, err := l.SetHighWatermark(2)
	require.NoError(t, err)
	require.Equal(t, int64(0), stable(t, l))
	require.Empty(t, committed(t, l))
	require.NoError(t, l.TruncateTo(2)) // the marker is gone, and the transaction is committed in the end
	w.end(seglog.Commit)
	_, err = l.SetHighWatermark(3)
	require.NoError(t, err)
	require.Equal(t, span(0, 1), committed(t, l))
}

// 239, 182, 183: the list of aborted transactions, appended, replicated in one set, and
// made again.
func TestAbortedTransactionsAreListed(t *testing.T) {
	build := func(l *seglog.Log) {
		one, two, three, four := &writer{t: t, log: l, id: 1, txn: true}, &writer{t: t, log: l, id: 2, txn: true}, &writer{t: t, log: l, id: 3, txn: true}, &writer{t: t, log: l, id: 4, txn: true}
		one.send(5)           // 0
		plain(t, l, 3)        // 5
		two.send(6)           // 8
		plain(t, l, 15)       // 14
		one.end(seglog.Abort) // 29
		plain(t, l, 6)        // 30
		three.send(3)         // 36
		four.send(2)          // 39
		plain(t, l, 10)       // 41
		two.send(9)           // 51
		plain(t, l, 14)       // 60
		two.end(seglog.Abort) // 74
		three.end(seglog.Commit)
		plain(t, l, 13)
		four.end(seglog.Commit)
	}
	want := []txnindex.Entry{{ProducerID: 1, FirstOffset: 0, LastOffset: 29, LastStableOffset: 8}, {ProducerID: 2, FirstOffset: 8, LastOffset: 74, LastStableOffset: 36}}
	l := openLog(t, t.TempDir(), quick)
	build(l)
	require.Equal(t, want, abortedOf(t, l.Dir(), 0))
	seen := committed(t, l)
	whole, err := l.Read(0, math.MaxInt32, &seglog.ReadOptions{Isolation: seglog.ReadLogEnd})
	require.NoError(t, err)

	follower := openLog(t, t.TempDir(), quick)
	_, err = follower.AppendReplicated(whole.Batches, nil)
	require.NoError(t, err)
	require.Equal(t, want, abortedOf(t, follower.Dir(), 0))
	require.Equal(t, seen, committed(t, follower))

	killed := crash(t, l)
	require.NoError(t, os.Remove(segmentFile(killed, 0, ".txnindex")))
	recovered := openLog(t, killed, quick)
	require.Equal(t, want, abortedOf(t, killed, 0))
	require.Equal(t, seen, committed(t, recovered))
}

// 244, K071: transactions over several segments, and several of one producer.
func TestAbortedTransactionsAreLeftOutAcrossSegments(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	plain(t, l, 1)
	one, two := &writer{t: t, log: l, id: 1, txn: true}, &writer{t: t, log: l, id: 2, txn: true}
	one.send(1) // 1
	one.end(seglog.Commit)
	roll(t, l)
	one.send(1) // 3, aborted
	two.send(1) // 4
	roll(t, l)
	one.end(seglog.Abort)
	one.send(1) // 6
	roll(t, l)
	one.end(seglog.Commit)
	two.end(seglog.Commit)
	require.Equal(t, []int64{0, 1, 4, 6}, committed(t, l))
	res, err := l.Read(1, 1<<20, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
	require.NoError(t, err)
	require.Empty(t, res.Aborted, "its segment has no aborted records")
	res, err = l.Read(3, 1<<20, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
	require.NoError(t, err)
	require.Equal(t, []seglog.AbortedTransaction{{ProducerID: 1, FirstOffset: 3}}, res.Aborted)
	for r, err := range l.Records(t.Context(), 3, &seglog.IterOptions{Isolation: seglog.ReadCommitted, Control: true}) {
		require.NoError(t, err)
		require.NotEqual(t, int64(3), r.Offset)
	}
}

// A reader that waits for a transaction in a segment that was sealed meanwhile gets all
// of it when the transaction ends.
func TestAReaderThatWaitsInASealedSegmentMissesNothing(t *testing.T) {
	for name, opts := range map[string]seglog.IterOptions{
		"for a transaction":         {Isolation: seglog.ReadCommitted},
		"for the high watermark":    {},
		"for records to be durable": {Isolation: seglog.ReadLogEnd, Durable: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick
			o.Replicated = true
			l := openLog(t, t.TempDir(), o)
			plain(t, l, 1)
			require.NoError(t, l.Sync())
			_, err := l.SetHighWatermark(1)
			require.NoError(t, err)
			w := &writer{t: t, log: l, id: 1, txn: true}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opts.Follow = true
			var got []int64
			var ending sync.WaitGroup // beyond what the reader waits for
			for r, err := range l.Records(ctx, 0, &opts) {
				require.NoError(t, err)
				got = append(got, r.Offset)
				if r.Offset == 0 {
					w.send(2)
					plain(t, l, 1)
					roll(t, l)
					plain(t, l, 1)
					ending.Go(func() {
						_, err := l.EndTransaction(seglog.Producer{ID: 1}, seglog.Commit, nil)
						if err == nil {
							err = l.Sync()
						}
						if err == nil {
							_, err = l.SetHighWatermark(6)
						}
						if err != nil {
							panic(err)
						}
					})
				}
				if r.Offset == 4 {
					break
				}
			}
			ending.Wait()
			require.Equal(t, span(0, 4), got)
		})
	}
}

// 232, 233: snapshots come with segments, and go with them.
func TestSnapshotsFollowTheSegments(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1}
	for base := int64(1); base <= 3; base++ {
		w.send(1)
		roll(t, l)
		waitForRecoveryPoint(t, l, base)
	}
	require.Equal(t, span(1, 3), snapshotsOf(t, l.Dir()))
	require.NoError(t, l.TruncateTo(2))
	require.Equal(t, span(1, 2), snapshotsOf(t, l.Dir()))
	deleteBefore(t, l, 2)
	require.Equal(t, []int64{2}, snapshotsOf(t, l.Dir()), "with the segments that went")
	w.seq = 2
	w.send(1) // 236: its records are gone, and it goes on
	require.NoError(t, l.TruncateTo(0))
	require.Empty(t, snapshotsOf(t, l.Dir()))
	producers, err := l.Producers()
	require.NoError(t, err)
	require.Empty(t, producers)
	require.Equal(t, seglog.Offsets{}, l.Offsets())
}

// 191: after an unclean stop the segments from the recovery point on are read again, and
// have their snapshots back. 182, 183: and their lists of aborted transactions, whatever
// of both is lost, and wherever the recovery point is.
func TestRecoveryMakesSnapshotsAndListsAnew(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	one, two := &writer{t: t, log: l, id: 1, txn: true}, &writer{t: t, log: l, id: 2, txn: true}
	for base := int64(0); base < 30; base += 5 {
		one.send(2)
		two.send(1)
		one.end(seglog.Abort)
		plain(t, l, 1)
		if base < 25 {
			roll(t, l)
			waitForRecoveryPoint(t, l, base+5)
		}
	}
	two.end(seglog.Abort)
	want := map[int64][]txnindex.Entry{}
	for base := int64(0); base < 30; base += 5 {
		want[base] = abortedOf(t, l.Dir(), base)
		require.Len(t, want[base], 1+int(base/25))
	}
	seen := committed(t, l)
	infos, err := l.Producers()
	require.NoError(t, err)
	for _, point := range []int64{0, 12, 25} {
		for _, lost := range []string{"none", "*.snapshot", "*.txnindex", "*.[st][nx]*"} {
			t.Run(fmt.Sprintf("recovery point %d, lost %s", point, lost), func(t *testing.T) {
				dir := crash(t, l)
				files := checkpoint.StateFiles{FS: vfs.OS, Dir: dir}
				state, err := files.Read()
				require.NoError(t, err)
				state.RecoveryPoint, state.DurableEnd = point, point
				require.NoError(t, files.Write(state))
				matches, err := filepath.Glob(filepath.Join(dir, lost))
				require.NoError(t, err)
				for _, path := range matches {
					require.NoError(t, os.Remove(path))
				}
				recovered := openLog(t, dir, quick)
				again, err := recovered.Producers()
				require.NoError(t, err)
				require.Equal(t, infos, again)
				require.Equal(t, seen, committed(t, recovered))
				for base, list := range want {
					require.Equal(t, list, abortedOf(t, dir, base), "segment %d", base)
				}
				for base := point / 5 * 5; base < 30; base += 5 {
					if base > 0 {
						require.Contains(t, snapshotsOf(t, dir), base)
					}
				}
				closeLog(t, recovered)
				require.Contains(t, snapshotsOf(t, dir), int64(31))
				requireSound(t, dir)
			})
		}
	}
}

// 185, 186: snapshots that belong to no segment, nor to the log end, go.
func TestStraySnapshotsGoAtOpen(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1}
	for base := int64(1); base <= 2; base++ {
		w.send(1)
		roll(t, l)
		waitForRecoveryPoint(t, l, base)
	}
	w.send(2)
	closeLog(t, l)
	require.Equal(t, []int64{1, 2, 4}, snapshotsOf(t, l.Dir()))
	for _, stray := range []int64{3, 42} {
		writeFile(t, segmentFile(l.Dir(), stray, ".snapshot"), readFile(t, segmentFile(l.Dir(), 4, ".snapshot")))
		l = openLog(t, l.Dir(), quick)
		require.NotContains(t, snapshotsOf(t, l.Dir()), stray)
		producers, err := l.Producers()
		require.NoError(t, err)
		require.Equal(t, int32(3), producers[0].LastSequence)
		closeLog(t, l)
		require.Equal(t, []int64{1, 2, 4}, snapshotsOf(t, l.Dir()))
	}
	empty := openLog(t, t.TempDir(), quick)
	closeLog(t, empty)
	writeFile(t, segmentFile(empty.Dir(), 42, ".snapshot"), producerstate.Append(nil, []producerstate.Entry{{ProducerID: 7, LastSequence: 5, LastOffset: 41, CurrentTxnFirstOffset: -1, Timestamp: time.Now().UnixMilli()}}))
	empty = openLog(t, empty.Dir(), quick)
	require.Empty(t, snapshotsOf(t, empty.Dir()))
	producers, err := empty.Producers()
	require.NoError(t, err)
	require.Empty(t, producers)
	require.Equal(t, seglog.Offsets{}, empty.Offsets())
}

// K046, 152: a snapshot that is no good is not used.
func TestASnapshotThatIsNoGoodIsNotUsed(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"empty":                func([]byte) []byte { return nil },
		"half":                 func(b []byte) []byte { return b[:len(b)/2] },
		"a flipped bit":        func(b []byte) []byte { b[20] ^= 1; return b },
		"another version":      func(b []byte) []byte { b[1] = 9; return b },
		"zeros":                func(b []byte) []byte { clear(b); return b },
		"a count of a million": func(b []byte) []byte { binary.BigEndian.PutUint32(b[6:], 1_000_000); return b },
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), quick)
			w := &writer{t: t, log: l, id: 1, txn: true}
			w.send(1)
			roll(t, l)
			waitForRecoveryPoint(t, l, 1)
			w.send(2)
			closeLog(t, l)
			edit(t, segmentFile(l.Dir(), 3, ".snapshot"), harm)
			l = openLog(t, l.Dir(), quick)
			require.Len(t, stats(t, l).Recovery.Damaged, 1)
			require.Equal(t, []int64{1}, snapshotsOf(t, l.Dir()))
			producers, err := l.Producers()
			require.NoError(t, err)
			require.Len(t, producers, 1)
			require.Equal(t, int32(2), producers[0].LastSequence)
			require.Equal(t, int64(0), stable(t, l))
			w.log = l
			at, err := w.try(2, 1)
			require.NoError(t, err)
			require.True(t, at.Duplicate)
		})
	}
}

// The log knows that there are producers, though a snapshot of them is lost.
func TestLostSnapshotsAreMadeUpForByTheLog(t *testing.T) {
	for _, state := range []bool{true, false} {
		l := openLog(t, t.TempDir(), quick)
		w := &writer{t: t, log: l, id: 1, txn: true}
		w.send(1)
		roll(t, l)
		waitForRecoveryPoint(t, l, 1)
		plain(t, l, 1)
		closeLog(t, l)
		for range 2 { // and still does when it was opened in between
			for _, offset := range snapshotsOf(t, l.Dir()) {
				require.NoError(t, os.Remove(segmentFile(l.Dir(), offset, ".snapshot")))
			}
			if !state {
				removeState(t, l.Dir())
			}
			l = openLog(t, l.Dir(), quick)
			w.log = l
			require.Equal(t, int64(0), stable(t, l))
			at, err := w.try(1, 0)
			require.NoError(t, err)
			require.True(t, at.Duplicate)
			closeLog(t, l)
		}
	}
}

// 187, 188, K068: what is known of a producer outlives its records.
func TestAProducerOutlivesItsRecords(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	one, two := &writer{t: t, log: l, id: 1}, &writer{t: t, log: l, id: 2}
	one.send(1)
	two.send(1)
	require.NoError(t, l.DeleteBefore(1)) // within the segment
	killed := openLog(t, crash(t, l), quick)
	producers, err := killed.Producers()
	require.NoError(t, err)
	require.Len(t, producers, 2)

	roll(t, l)
	waitForRecoveryPoint(t, l, 2)
	two.send(1)
	require.NoError(t, l.DeleteBefore(2))
	one.send(1)
	l = reopen(t, l, quick)
	one.log, two.log = l, l
	one.send(1)
	closeLog(t, l)
	for _, offset := range snapshotsOf(t, l.Dir()) {
		require.NoError(t, os.Remove(segmentFile(l.Dir(), offset, ".snapshot")))
	}
	one.log = openLog(t, l.Dir(), quick)
	one.seq = 20
	_, err = one.try(1, 20)
	require.ErrorIs(t, err, seglog.ErrOutOfOrderSequence, "the log still has some of its records")
	one.id = 3
	one.send(1) // nothing is known of it: it may begin anywhere
}

// 242, 247: transactions and the log start.
func TestALogStartBeyondATransaction(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1, txn: true}
	w.send(1)
	plain(t, l, 7)
	require.NoError(t, l.DeleteBefore(5))
	require.Equal(t, int64(5), stable(t, l))
	roll(t, l)
	plain(t, l, 1)
	require.NoError(t, l.DeleteBefore(8))
	require.Equal(t, int64(8), stable(t, l))
	l = reopen(t, l, quick)
	require.Equal(t, int64(8), stable(t, l))
	require.NoError(t, l.TruncateFullyAndStartAt(2))
	require.Equal(t, int64(2), stable(t, l))
	open, err := l.Transactions()
	require.NoError(t, err)
	require.Empty(t, open)
}

// K069: who holds up readers can be seen, and ended.
func TestAHangingTransactionCanBeFoundAndAborted(t *testing.T) {
	told := make(chan seglog.Transaction, 10)
	o := quick
	o.TransactionMaxTimeout = time.Millisecond
	o.Events.LateTransaction = func(t seglog.Transaction) { told <- t }
	l := openLog(t, t.TempDir(), o)
	plain(t, l, 10)
	then := time.Now().Add(-6 * time.Minute).UnixMilli()
	_, err := l.Append([]seglog.Record{{Timestamp: then}}, &seglog.AppendOptions{Producer: &seglog.Producer{ID: 9, Epoch: 3, Transactional: true}})
	require.NoError(t, err)
	other := &writer{t: t, log: l, id: 1, txn: true}
	for range 5 {
		other.send(1)
		other.end(seglog.Commit)
	}
	want := seglog.Transaction{ProducerID: 9, ProducerEpoch: 3, FirstOffset: 10, Started: then, LastWrite: then}
	require.Equal(t, want, <-told)
	require.Equal(t, int64(10), stable(t, l))
	open, err := l.Transactions()
	require.NoError(t, err)
	require.Equal(t, []seglog.Transaction{want}, open)
	require.Equal(t, &want, stats(t, l).OldestTransaction)
	at, err := l.AbortTransaction(9, nil)
	require.NoError(t, err)
	require.Equal(t, l.Offsets().End, stable(t, l))
	require.Equal(t, []txnindex.Entry{{ProducerID: 9, FirstOffset: 10, LastOffset: at.BaseOffset, LastStableOffset: at.BaseOffset + 1}}, abortedOf(t, l.Dir(), 0))
	for _, id := range []int64{9, 1, 77} { // it is over, was ended, was never heard of
		_, err = l.AbortTransaction(id, nil)
		require.ErrorIs(t, err, seglog.ErrNoTransaction)
	}
	require.Empty(t, told, "it was told once")

	// It is aborted in the name of the coordinator that was there last.
	coordinator := &seglog.AppendOptions{CoordinatorEpoch: 5}
	_, err = l.EndTransaction(seglog.Producer{ID: 1}, seglog.Commit, coordinator)
	require.NoError(t, err)
	other.send(1)
	_, err = l.AbortTransaction(1, nil)
	require.NoError(t, err)
}

// Markers, too, have the time of the append where the log gives all batches that.
func TestMarkersHaveTheTypeOfTimeOfTheLog(t *testing.T) {
	for _, want := range []record.TimestampType{record.CreateTime, record.LogAppendTime} {
		o := quick
		o.TimestampType = want
		l := openLog(t, t.TempDir(), o)
		w := &writer{t: t, log: l, id: 1, txn: true}
		w.send(1)
		w.end(seglog.Commit)
		w.send(1)
		_, err := l.AbortTransaction(1, nil)
		require.NoError(t, err)
		closeLog(t, l)
		before := int64(0)
		for _, b := range batchesOf(t, l.Dir(), 0) {
			require.Equal(t, want, b.TimestampType(), "batch at %d", b.BaseOffset())
			if want == record.LogAppendTime {
				require.GreaterOrEqual(t, b.MaxTimestamp(), before)
			}
			before = b.MaxTimestamp()
		}
		requireSound(t, l.Dir())
	}
}

// Events.LateTransaction: nobody appends, and it is told all the same, once.
func TestALogAloneTellsOfATransactionThatNobodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan int64, 10)
		o := quick
		o.Events.LateTransaction = func(tx seglog.Transaction) { told <- tx.ProducerID }
		l := openLog(t, t.TempDir(), o)
		_, err := l.Append([]seglog.Record{{Value: []byte("v")}}, &seglog.AppendOptions{Producer: &seglog.Producer{ID: 7, Transactional: true}})
		require.NoError(t, err)
		pass(19 * time.Minute)
		require.Empty(t, told)
		pass(2 * time.Minute)
		require.Equal(t, int64(7), <-told)
		pass(time.Hour)
		require.Empty(t, told)
		closeLog(t, l)
	})
}

// K070: markers without data leave nothing behind.
func TestMarkersWithoutDataLeaveNoList(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	for range 500 {
		w := &writer{t: t, log: l, id: 3}
		w.end(seglog.Abort)
		w.end(seglog.Commit)
	}
	require.NoFileExists(t, segmentFile(l.Dir(), 0, ".txnindex"))
	require.Equal(t, int64(1000), stable(t, l))
	producers, err := l.Producers()
	require.NoError(t, err)
	require.Len(t, producers, 1)
}

// A broker's log without its log directory, of which nobody knows what was durable: its
// lists are made anew at once. A broker takes a missing one for an empty one, and would
// show what was aborted.
func TestABrokersLogKeepsItsListsOfAbortedTransactions(t *testing.T) {
	dir := copyDir(t, "testdata/kafka/4.3.1/txn-0", filepath.Join(t.TempDir(), "txn-0"))
	lists := func() map[string]string {
		paths, err := filepath.Glob(filepath.Join(dir, "*.txnindex"))
		require.NoError(t, err)
		found := map[string]string{}
		for _, path := range paths {
			if b := readFile(t, path); len(b) > 0 {
				found[filepath.Base(path)] = string(b)
			}
		}
		return found
	}
	want := lists()
	require.Greater(t, len(want), 3)
	for range 2 {
		closeLog(t, openLog(t, dir, quick))
		require.Equal(t, want, lists())
		requireSound(t, dir)
	}
}

// K072 and more: the list of a sealed segment may be lost or damaged at any time; no
// aborted record is shown.
func TestALostListOfAbortedTransactionsIsMadeAgain(t *testing.T) {
	harms := map[string]func([]byte) []byte{
		"missing":                func([]byte) []byte { return nil },
		"half an entry more":     func(b []byte) []byte { return append(b, b[:20]...) },
		"zeros":                  func([]byte) []byte { return make([]byte, 34+20) },
		"another version":        func(b []byte) []byte { b[1] = 7; return b },
		"below the segment":      func(b []byte) []byte { binary.BigEndian.PutUint64(b[18:], 0); return b },
		"in falling order":       func(b []byte) []byte { return append(b[34:68:68], b[:34]...) },
		"a part of the last one": func(b []byte) []byte { return b[:len(b)-1] },
	}
	build := func(t *testing.T) (*seglog.Log, []int64) {
		l := openLog(t, t.TempDir(), quick)
		one, two := &writer{t: t, log: l, id: 1, txn: true}, &writer{t: t, log: l, id: 2, txn: true}
		plain(t, l, 1)
		one.send(2)
		two.send(1)
		roll(t, l) // at 4
		waitForRecoveryPoint(t, l, 4)
		one.end(seglog.Abort)
		two.end(seglog.Abort)
		two.send(2)
		two.end(seglog.Commit)
		roll(t, l) // at 9
		waitForRecoveryPoint(t, l, 9)
		plain(t, l, 1)
		return l, []int64{0, 6, 7, 9}
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			l, want := build(t)
			require.Equal(t, want, committed(t, l))
			good := abortedOf(t, l.Dir(), 4)
			require.Len(t, good, 2)
			closeLog(t, l)
			path := segmentFile(l.Dir(), 4, ".txnindex")
			if b := harm(readFile(t, path)); b == nil {
				require.NoError(t, os.Remove(path))
			} else {
				writeFile(t, path, b)
			}
			o := quick
			o.ReadOnly = true
			before := traces(t, l.Dir())
			ro := openLog(t, l.Dir(), o)
			require.Equal(t, want, committed(t, ro))
			closeLog(t, ro)
			requireUntouched(t, l.Dir(), before)
			l = openLog(t, l.Dir(), quick)
			require.Equal(t, want, committed(t, l))
			require.Equal(t, good, abortedOf(t, l.Dir(), 4), "it was written down")
		})
	}
	t.Run("that of the active segment", func(t *testing.T) {
		l := openLog(t, t.TempDir(), quick)
		w := &writer{t: t, log: l, id: 1, txn: true}
		w.send(1)
		w.end(seglog.Abort)
		closeLog(t, l)
		require.NoError(t, os.Remove(segmentFile(l.Dir(), 0, ".txnindex")))
		l = openLog(t, l.Dir(), quick)
		w.log = l
		w.send(1)
		w.end(seglog.Abort)
		plain(t, l, 1)
		require.Equal(t, []int64{4}, committed(t, l))
		w.send(1)
		w.end(seglog.Abort)
		require.Len(t, abortedOf(t, l.Dir(), 0), 3)
		require.Equal(t, []int64{4}, committed(t, l))
	})
	t.Run("that no segment has, as with an older log", func(t *testing.T) {
		l, want := build(t)
		closeLog(t, l)
		lists, err := filepath.Glob(filepath.Join(l.Dir(), "*.txnindex"))
		require.NoError(t, err)
		for _, path := range lists {
			require.NoError(t, os.Remove(path))
		}
		l = openLog(t, l.Dir(), quick)
		require.Equal(t, want, committed(t, l))
	})
	t.Run("a log without transactions has none", func(t *testing.T) {
		l := openLog(t, t.TempDir(), quick)
		w := &writer{t: t, log: l, id: 1}
		for range 3 {
			w.send(1)
			plain(t, l, 1)
			roll(t, l)
		}
		require.Equal(t, span(0, 5), committed(t, l))
		closeLog(t, l)
		lists, err := filepath.Glob(filepath.Join(l.Dir(), "*.txnindex"))
		require.NoError(t, err)
		require.Empty(t, lists)
	})
}

// 243: if an aborted transaction cannot be listed, nothing was appended.
func TestAnAbortThatCannotBeListedIsNotAppended(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1, txn: true}
	w.send(10)
	path := segmentFile(l.Dir(), 0, ".txnindex")
	require.NoError(t, os.Mkdir(path, 0o755))
	_, err := l.EndTransaction(seglog.Producer{ID: 1}, seglog.Abort, nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, seglog.ErrFailed)
	require.Equal(t, int64(10), l.Offsets().End)
	require.Equal(t, int64(0), stable(t, l))
	require.NoError(t, os.Remove(path))
	w.end(seglog.Abort)
	require.Equal(t, int64(11), stable(t, l))
	require.Empty(t, committed(t, l))
	l = reopen(t, l, quick)
	require.Empty(t, committed(t, l))
}

// 210, 141: what is replicated is taken as it is.
func TestAFollowerTakesWhatItsLeaderHas(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	var set []byte
	for i, seq := range []int32{0, 3, 0, 3} {
		set = append(set, batchAt(t, record.BuilderOptions{BaseOffset: int64(i), Producer: &record.Producer{ID: 1, BaseSequence: seq}}, at(int64(i), time.Now().UnixMilli(), "v"))...)
	}
	_, err := l.AppendReplicated(set, nil)
	require.NoError(t, err)
	require.Equal(t, int64(4), l.Offsets().End)
	producers, err := l.Producers()
	require.NoError(t, err)
	require.Equal(t, int32(3), producers[0].LastSequence)
	// 190: a marker of an older coordinator, in a set and when the log is recovered.
	for i, epoch := range []int32{2, 1} {
		b, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{Offset: int64(4 + i), ProducerID: 1, Timestamp: time.Now().UnixMilli(), Marker: record.EndTxnMarker{Type: record.Abort, CoordinatorEpoch: epoch}})
		require.NoError(t, err)
		_, err = l.AppendReplicated(b, nil)
		require.NoError(t, err)
	}
	openLog(t, crash(t, l), quick)
}

// K073, K008, 153: control batches that are none of ours, or empty.
func TestOtherControlBatchesChangeNothing(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 5, txn: true}
	w.send(1)
	base := int64(1)
	for _, kind := range []int16{2, 3, 4, 5, 6, 99} {
		for _, version := range []int16{0, 5} {
			key := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(version)), uint16(kind))
			_, err := l.AppendReplicated(controlBatch(t, base, key), nil)
			require.NoError(t, err)
			base++
		}
	}
	_, err := l.AppendReplicated(controlBatch(t, base, []byte{0, 0, 0}), nil) // too short a key
	require.NoError(t, err)
	_, err = l.AppendReplicated(record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: base + 1, Attributes: 0x30, ProducerID: 5, BaseSequence: -1, BaseTimestamp: -1, MaxTimestamp: -1}), nil)
	require.NoError(t, err)
	require.Equal(t, int64(0), stable(t, l))
	for _, l := range []*seglog.Log{openLog(t, crash(t, l), quick), reopen(t, l, quick)} {
		require.Equal(t, int64(0), stable(t, l))
		require.Equal(t, []int64{0}, offsetsOf(readAll(t, l, 0)))
	}
}

func controlBatch(t tb, base int64, key []byte) []byte {
	t.Helper()
	b := batchAt(t, record.BuilderOptions{BaseOffset: base, Transactional: true, Producer: &record.Producer{ID: 5, BaseSequence: 0}}, seglog.Record{Offset: base, Timestamp: 20, Key: key, Value: make([]byte, 6)})
	return edited(b, func(b []byte) {
		b[22] |= 0x20
		binary.BigEndian.PutUint32(b[53:], math.MaxUint32)
	})
}

// K074 at the level of a log: who has been silent goes, but for one with a transaction.
func TestProducersThatAreSilentAreForgotten(t *testing.T) {
	o := quick
	o.ProducerIDExpiration = time.Hour
	l := openLog(t, t.TempDir(), o)
	plain(t, l, 1)
	long := time.Now().Add(-2 * time.Hour).UnixMilli()
	for id := range int64(2500) {
		_, err := l.Append([]seglog.Record{{Timestamp: long}}, &seglog.AppendOptions{Producer: &seglog.Producer{ID: id, Transactional: id == 7}})
		require.NoError(t, err)
	}
	w := &writer{t: t, log: l, id: 5000}
	w.send(1)
	n, err := l.ExpireProducers()
	require.NoError(t, err)
	require.Equal(t, 2499, n)
	producers, err := l.Producers()
	require.NoError(t, err)
	require.Len(t, producers, 2)
	w.id, w.seq = 3, 40
	w.send(1) // 147: it may begin anywhere
}

// 220, 219, 258, 259, 221: leader epochs, when the log is cut at either end.
func TestLeaderEpochsFollowTheLog(t *testing.T) {
	build := func(t *testing.T) *seglog.Log {
		o := quick
		o.Replicated = true
		l := openLog(t, t.TempDir(), o)
		for epoch, n := range []int{10, 6, 4} {
			require.NoError(t, l.SetLeaderEpoch(int32(epoch)))
			plain(t, l, n)
			roll(t, l)
		}
		return l
	}
	for to, entries := range map[int64]string{20: "0\n3\n0 0\n1 10\n2 16\n", 11: "0\n2\n0 0\n1 10\n", 10: "0\n1\n0 0\n", 0: "0\n0\n"} {
		l := build(t)
		require.NoError(t, l.TruncateTo(to))
		closeLog(t, l)
		require.Equal(t, entries, string(readFile(t, filepath.Join(l.Dir(), layout.LeaderEpochCheckpointName))), "truncated to %d", to)
	}
	l := build(t)
	_, err := l.SetHighWatermark(20)
	require.NoError(t, err)
	require.NoError(t, l.DeleteBefore(12))
	require.Equal(t, seglog.EpochEnd{Epoch: 0, EndOffset: 12}, l.EndOffsetForEpoch(0))
	require.Equal(t, seglog.EpochEnd{Epoch: 1, EndOffset: 16}, l.EndOffsetForEpoch(1))
	require.Equal(t, seglog.EpochEnd{Epoch: 2, EndOffset: 20}, l.EndOffsetForEpoch(2))
	require.Equal(t, seglog.EpochEnd{Epoch: -1, EndOffset: -1}, l.EndOffsetForEpoch(3))
	for b, err := range l.Batches(t.Context(), 16, nil) {
		require.NoError(t, err)
		require.Equal(t, int32(2), b.LeaderEpoch())
	}
	require.ErrorIs(t, l.SetLeaderEpoch(1), seglog.ErrFencedLeaderEpoch)
	stale, early := int32(1), int32(3)
	_, err = l.Append(recent(1), &seglog.AppendOptions{LeaderEpoch: &stale})
	require.ErrorIs(t, err, seglog.ErrFencedLeaderEpoch)
	_, err = l.Append(recent(1), &seglog.AppendOptions{LeaderEpoch: &early})
	require.ErrorIs(t, err, seglog.ErrUnknownLeaderEpoch)
	next := batchAt(t, record.BuilderOptions{BaseOffset: 20, LeaderEpoch: 1}, at(20, 1, "v"))
	_, err = l.AppendReplicated(next, &seglog.AppendOptions{LeaderEpoch: &stale})
	require.ErrorIs(t, err, seglog.ErrFencedLeaderEpoch, "what an earlier leader has sent comes late")
	require.Equal(t, int64(20), l.Offsets().End)
	_, err = l.AppendReplicated(next, &seglog.AppendOptions{LeaderEpoch: &early})
	require.NoError(t, err, "that there is a newer one is not known yet")
}

// 258, 259: leader epochs go with the segments that retention removes.
func TestRetentionTakesLeaderEpochsAlong(t *testing.T) {
	o := quick
	o.Replicated = true
	for _, row := range []struct {
		epochs []int64 // where each begins
		ends   []int64 // of the segments
		start  int64
		want   string
	}{
		{[]int64{0, 5, 10}, []int64{5, 10, 15}, 5, "0\n2\n1 5\n2 10\n"},
		{[]int64{0, 7, 10}, []int64{5, 10, 15}, 5, "0\n3\n0 5\n1 7\n2 10\n"},
		{[]int64{0, 40, 90}, []int64{50, 100}, 100, "0\n1\n2 100\n"},
	} {
		l := openLog(t, t.TempDir(), o)
		for epoch, segment := 0, 0; l.Offsets().End < row.ends[len(row.ends)-1]; {
			if epoch < len(row.epochs) && l.Offsets().End == row.epochs[epoch] {
				require.NoError(t, l.SetLeaderEpoch(int32(epoch)))
				epoch++
			}
			plain(t, l, 1)
			if l.Offsets().End == row.ends[segment] {
				roll(t, l)
				segment++
			}
		}
		_, err := l.SetHighWatermark(row.start)
		require.NoError(t, err)
		require.NoError(t, l.DeleteBefore(row.start))
		plain(t, l, 1) // or the last epoch has no record
		closeLog(t, l)
		require.Equal(t, row.want, string(readFile(t, filepath.Join(l.Dir(), layout.LeaderEpochCheckpointName))))
	}
}

// K051, 180: lost leader epochs are found in the log.
func TestLostLeaderEpochsAreFoundInTheLog(t *testing.T) {
	for _, content := range []string{"", "0\n", "0\n3\n0 0\n1 1\n", "1\n0\n", "\x00\x00\x00\x00", "missing"} {
		l := openLog(t, t.TempDir(), quick)
		for epoch := range int32(3) {
			require.NoError(t, l.SetLeaderEpoch(epoch))
			plain(t, l, 2)
		}
		for _, dir := range []string{crash(t, l), func() string { closeLog(t, l); return l.Dir() }()} {
			path := filepath.Join(dir, layout.LeaderEpochCheckpointName)
			if content == "missing" {
				require.NoError(t, os.Remove(path))
			} else {
				writeFile(t, path, []byte(content))
			}
			ro := quick
			ro.ReadOnly = true
			before := traces(t, dir)
			closeLog(t, openLog(t, dir, ro))
			requireUntouched(t, dir, before)
			l := openLog(t, dir, quick)
			aside := filepath.Join(dir, layout.LeaderEpochCheckpointName+".cut")
			if content == "" || content == "0\n" || content == "missing" { // then it holds nothing
				require.NoFileExists(t, aside)
			} else {
				require.Equal(t, content, string(readFile(t, aside)))
				require.Contains(t, stats(t, l).Recovery.SetAside, filepath.Base(aside))
			}
			require.Equal(t, int32(2), l.LeaderEpoch(), "%q", content)
			require.Equal(t, seglog.EpochEnd{Epoch: 0, EndOffset: 2}, l.EndOffsetForEpoch(0), "%q", content)
			require.Equal(t, seglog.EpochEnd{Epoch: 1, EndOffset: 4}, l.EndOffsetForEpoch(1), "%q", content)
		}
	}
}

// A follower that had begun an epoch as a leader, and wrote nothing in it, takes over
// what the new leader has in an older one.
func TestAnEpochWithoutRecordsGivesWayToTheLeaders(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	batch := func(offset int64, epoch int32) []byte {
		return batchAt(t, record.BuilderOptions{BaseOffset: offset, LeaderEpoch: epoch}, at(offset, 1, "v"))
	}
	_, err := l.AppendReplicated(batch(0, 5), nil)
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(7))
	_, err = l.AppendReplicated(batch(1, 5), nil)
	require.NoError(t, err)
	require.Equal(t, seglog.EpochEnd{Epoch: 5, EndOffset: 2}, l.EndOffsetForEpoch(5))
	require.Equal(t, seglog.EpochEnd{Epoch: 4, EndOffset: 0}, l.EndOffsetForEpoch(4))
	require.Equal(t, seglog.EpochEnd{Epoch: -1, EndOffset: -1}, l.EndOffsetForEpoch(6))
}

// 219: nor is it there when a follower is told to truncate to its end, or beyond.
func TestATruncationToTheEndForgetsAnEpochWithoutRecords(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: 27, LeaderEpoch: 19}, at(27, 1, "v"), at(28, 1, "v")), nil)
	require.NoError(t, err)
	for beyond, epoch := range []int32{20, 24} {
		require.NoError(t, l.SetLeaderEpoch(epoch))
		require.NotEqual(t, "0\n1\n19 27\n", string(readFile(t, filepath.Join(l.Dir(), layout.LeaderEpochCheckpointName))))
		require.NoError(t, l.TruncateTo(29+int64(beyond)))
		require.Equal(t, "0\n1\n19 27\n", string(readFile(t, filepath.Join(l.Dir(), layout.LeaderEpochCheckpointName))))
		require.Equal(t, seglog.EpochEnd{Epoch: -1, EndOffset: -1}, l.EndOffsetForEpoch(20))
		require.Equal(t, int64(29), l.Offsets().End)
	}
	alone := openLog(t, t.TempDir(), quick)
	require.NoError(t, alone.SetLeaderEpoch(3))
	require.NoError(t, alone.TruncateTo(0))
	require.Equal(t, seglog.EpochEnd{Epoch: 3, EndOffset: 0}, alone.EndOffsetForEpoch(3), "nobody else fences its writers")
}

// A follower whose records were all deleted begins anew, in whatever epoch its leader is;
// the old ones, whose file is still there, do not speak for it when that is recovered.
func TestEpochsOfDeletedRecordsDoNotComeBack(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	replicate := func(offset int64, epoch int32) {
		_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: offset, LeaderEpoch: epoch}, at(offset, 1, "v")), nil)
		require.NoError(t, err)
	}
	replicate(0, 2)
	_, err := l.SetHighWatermark(1)
	require.NoError(t, err)
	require.NoError(t, l.DeleteBefore(1))
	l = reopen(t, l, o)
	require.Zero(t, l.LeaderEpoch())
	replicate(1, 0)
	replicate(2, 1)
	dir := crash(t, l)
	for _, index := range []string{layout.OffsetIndexName(0), layout.TimeIndexName(0)} {
		require.NoError(t, os.Remove(filepath.Join(dir, index)))
	}
	for range 2 {
		l = openLog(t, dir, o)
		require.Equal(t, int32(1), l.LeaderEpoch())
		require.Equal(t, seglog.EpochEnd{Epoch: 0, EndOffset: 2}, l.EndOffsetForEpoch(0))
		require.Equal(t, seglog.EpochEnd{Epoch: 1, EndOffset: 3}, l.EndOffsetForEpoch(1))
		closeLog(t, l)
		require.NoError(t, os.Remove(filepath.Join(dir, layout.LeaderEpochCheckpointName)))
	}
}

// K062, 248, 249, 252, 254: retention, with a high watermark and by policy.
func TestRetentionStopsAtTheHighWatermark(t *testing.T) {
	o := quick
	o.Replicated, o.RetentionTime = true, time.Millisecond
	l := openLog(t, t.TempDir(), o)
	for range 10 {
		_, err := l.Append([]seglog.Record{{Timestamp: 1}, {Timestamp: 1}}, nil)
		require.NoError(t, err)
		roll(t, l)
	}
	for watermark := range int64(21) {
		_, err := l.SetHighWatermark(watermark)
		require.NoError(t, err)
		res, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Equal(t, watermark/2*2, res.Start)
	}
	require.Equal(t, int64(20), l.Offsets().End)
	o.CleanupPolicy = seglog.CleanupNone
	l = openLog(t, t.TempDir(), o)
	_, err := l.Append([]seglog.Record{{Timestamp: 1, Key: []byte("k")}}, nil)
	require.NoError(t, err)
	_, err = l.SetHighWatermark(1)
	require.NoError(t, err)
	res, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Zero(t, res.Segments)
}

// A read-only log beside a writer knows what is committed, whatever of it is on disk
// besides the log.
func TestAReadOnlyLogShowsNothingUncommitted(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	w := &writer{t: t, log: l, id: 1, txn: true}
	o := quick
	o.ReadOnly = true
	ro := openLog(t, l.Dir(), o)
	require.Empty(t, committed(t, ro))
	plain(t, l, 1)
	w.send(2)
	look := func(want []int64) {
		t.Helper()
		require.NoError(t, ro.Refresh())
		require.Equal(t, want, committed(t, ro))
		again := openLog(t, l.Dir(), o)
		require.Equal(t, want, committed(t, again))
	}
	look([]int64{0})
	roll(t, l)
	look([]int64{0})
	w.end(seglog.Abort)
	plain(t, l, 1)
	look([]int64{0, 4})
	roll(t, l)
	w.send(1)
	look([]int64{0, 4})
	w.end(seglog.Commit)
	look([]int64{0, 4, 5})
	require.NoError(t, l.DeleteBefore(5))
	look([]int64{5})
	_, err := ro.EndTransaction(seglog.Producer{ID: 1}, seglog.Commit, nil)
	require.ErrorIs(t, err, seglog.ErrReadOnly)
	_, err = ro.AbortTransaction(1, nil)
	require.True(t, errors.Is(err, seglog.ErrReadOnly))
}
