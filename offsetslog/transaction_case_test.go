package offsetslog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func (h *house) pending(group string, producer Producer, tp TopicPartition, offset int64) {
	h.t.Helper()
	require.NoError(h.t, h.CommitTransactional(ctx, TransactionalCommitRequest{
		Group: group, Producer: producer, Offsets: []Commit{{TopicPartition: tp, Offset: offset, LeaderEpoch: -1}},
	}))
}

func (h *house) endTxn(group string, producer Producer, result seglog.TransactionResult) {
	h.t.Helper()
	require.NoError(h.t, h.EndTransaction(ctx, group, producer, result, 0))
}

// both checks before and after a restart.
func (h *house) both(check func()) {
	h.t.Helper()
	check()
	h.reopen()
	check()
}

// Rows 374, 377 to 380
func TestTransactionalCommitCountsWhenItHasEnded(t *testing.T) {
	for result, want := range map[seglog.TransactionResult]int64{seglog.Commit: 101, seglog.Abort: 100} {
		t.Run(map[seglog.TransactionResult]string{seglog.Commit: "commit", seglog.Abort: "abort"}[result], func(t *testing.T) {
			h := newHouse(t, quiet)
			fresh := TopicPartition{"fresh", 0}
			h.commit("g", orders, 100)
			h.pending("g", Producer{10, 5}, orders, 101)
			h.pending("g", Producer{10, 5}, fresh, 7)
			h.both(func() {
				require.EqualValues(t, 100, h.at("g", orders))
				require.EqualValues(t, -1, h.at("g", fresh))
				for _, tp := range []TopicPartition{orders, fresh} {
					f := h.fetch("g", tp, true)
					require.ErrorIs(t, f.Err, ErrUnstable)
					require.EqualValues(t, -1, f.Offset)
				}
				all, err := h.Fetch(ctx, FetchRequest{Group: "g", RequireStable: true})
				require.NoError(t, err)
				require.Len(t, all, 2)
				require.ErrorIs(t, all[0].Err, ErrUnstable)
				require.ErrorIs(t, all[1].Err, ErrUnstable)
				all, err = h.Fetch(ctx, FetchRequest{Group: "g"})
				require.NoError(t, err)
				require.Len(t, all, 1)
				require.Equal(t, 2, h.Stats().Pending)
			})
			h.endTxn("g", Producer{10, 5}, result)
			h.both(func() {
				require.Equal(t, want, h.at("g", orders))
				require.NoError(t, h.fetch("g", orders, true).Err)
				require.Equal(t, result == seglog.Commit, h.at("g", fresh) == 7)
				require.Zero(t, h.Stats().Pending)
			})
		})
	}
}

// K079, row 381: what counts is which record came last, and not which transaction.
func TestPlainCommitWinsOverEarlierTransactionalOne(t *testing.T) {
	h := newHouse(t, quiet)
	h.pending("g", Producer{7, 0}, orders, 100)
	h.commit("g", orders, 200)
	h.endTxn("g", Producer{7, 0}, seglog.Commit)
	h.both(func() { require.EqualValues(t, 200, h.at("g", orders)) })

	// compaction keeps the last record of the key, and the marker
	s := newState()
	key := Key{Type: OffsetKey, Group: "g", TopicPartition: orders}.Append(nil)
	require.NoError(t, s.replay(11, -1, key, Committed{Offset: 200, ExpireTimestamp: -1}.AppendValue(nil)))
	s.end(7, true)
	e, _ := s.groups["g"].offsets.get(orders)
	require.EqualValues(t, 200, e.Offset)
}

// Row 382
func TestLaterRecordWinsWhicheverTransactionEndsLast(t *testing.T) {
	h := newHouse(t, quiet)
	h.pending("g", Producer{1, 0}, orders, 100)
	h.pending("g", Producer{2, 0}, orders, 50)
	h.endTxn("g", Producer{2, 0}, seglog.Commit)
	h.endTxn("g", Producer{1, 0}, seglog.Commit)
	h.both(func() { require.EqualValues(t, 50, h.at("g", orders)) })
}

// K080
func TestAbortedAndOpenTransactionsDoNotCount(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 10)
	h.pending("g", Producer{7, 0}, orders, 50)
	h.endTxn("g", Producer{7, 0}, seglog.Abort)
	h.pending("g", Producer{8, 0}, orders, 60)
	h.both(func() {
		require.EqualValues(t, 10, h.at("g", orders))
		require.ErrorIs(t, h.fetch("g", orders, true).Err, ErrUnstable)
	})
}

// Row 383
func TestDeletingOffsetsDropsPendingOnes(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 10)
	h.pending("g", Producer{7, 0}, orders, 50)
	require.NoError(t, h.DeleteOffsets(ctx, "g", []TopicPartition{orders}))
	h.endTxn("g", Producer{7, 0}, seglog.Commit)
	h.both(func() { require.EqualValues(t, -1, h.at("g", orders)) })
}

func TestProducerGoesOnFromTransactionToTransaction(t *testing.T) {
	h := newHouse(t, quiet)
	for i := range int64(20) {
		p := Producer{7, int16(i / 10)}
		h.pending("g", p, orders, 10*i)
		h.pending("g", p, TopicPartition{"orders", 1}, 10*i)
		if i%3 == 0 {
			h.reopen()
		}
		h.pending("g", p, orders, 10*i+1)
		h.endTxn("g", p, seglog.Commit)
		require.Equal(t, 10*i+1, h.at("g", orders))
	}
	err := h.CommitTransactional(ctx, TransactionalCommitRequest{Group: "g", Producer: Producer{7, 0}, Offsets: simple("", orders, 1).Offsets})
	require.ErrorIs(t, err, seglog.ErrInvalidProducerEpoch, "fenced by the newer one")
	require.EqualValues(t, 47, KafkaErrorOf(err).Code)
	require.ErrorIs(t, h.CommitTransactional(ctx, TransactionalCommitRequest{Group: "g", Producer: Producer{-1, 0}}), ErrInvalidRequest)
}

func TestTransactionEndsForAllGroupsOfAPartition(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	h := newHouse(t, opts)
	h.pending("a", Producer{7, 0}, orders, 1)
	h.pending("b", Producer{7, 0}, orders, 2)
	h.endTxn("a", Producer{7, 0}, seglog.Commit)
	h.both(func() {
		require.EqualValues(t, 1, h.at("a", orders))
		require.EqualValues(t, 2, h.at("b", orders))
	})
}

// A transaction was aborted behind the back of the store. A new epoch counts from 0.
func TestNewEpochOfAProducerBeginsAnew(t *testing.T) {
	h := newHouse(t, quiet)
	h.pending("g", Producer{7, 0}, orders, 1)
	log, err := h.dir.Partition(Topic, PartitionFor("g", h.Partitions()))
	require.NoError(t, err)
	_, err = log.AbortTransaction(7, nil)
	require.NoError(t, err)
	h.pending("g", Producer{7, 1}, orders, 2)
	h.endTxn("g", Producer{7, 1}, seglog.Commit)
	h.both(func() { require.EqualValues(t, 2, h.at("g", orders)) })
}
