package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

func TestAutomaticCommitIsOfWhatThePollBeforeReturned(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, MaxPollRecords: 4}), orders)
		require.Len(t, values(mustPoll(t, c)), 4)
		sleep(4 * time.Second)
		require.Len(t, values(mustPoll(t, c)), 4)
		synctest.Wait()
		require.EqualValues(t, -1, h.committed(orders), "not time yet")
		sleep(2 * time.Second)
		require.Len(t, values(mustPoll(t, c)), 2)
		synctest.Wait()
		require.EqualValues(t, 8, h.committed(orders), "those returned just now are not done")

		got := make(chan []string, 1)
		go func() { got <- values(mustPoll(t, c)) }()
		sleep(6 * time.Second)
		require.EqualValues(t, 10, h.committed(orders), "a Poll that waits commits, too")
		h.write(orders, "last")
		require.Equal(t, []string{"last"}, <-got)
		require.NoError(t, c.Close())
		require.EqualValues(t, 11, h.committed(orders))
	})
}

func TestManualCommitLeavesItToTheCaller(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
		mustPoll(t, c)
		sleep(time.Minute)
		require.Empty(t, poll(t, c))
		require.NoError(t, c.Close())
		require.EqualValues(t, -1, h.committed(orders))
	})
}

func TestAutomaticCommitOfAssignCommitsWhatGoes(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a")
	other := of("other", 0)
	h.write(other, "b")
	c := h.assigned(h.grouped(earliest), orders, other)
	defer h.closeConsumer(c)
	require.Len(t, poll(t, c), 2)
	require.NoError(t, c.Assign(ctx, other))
	require.EqualValues(t, 1, h.committed(orders))
	require.EqualValues(t, -1, h.committed(other))
	h.write(other, "c")
	require.Equal(t, []string{"c"}, poll(t, c), "what stays goes on where it was")
}

func TestFailedAutomaticCommitIsToldAndTriedAgain(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		f := &faulty{Store: h.store}
		f.fail(func(offsetslog.CommitRequest) (bool, error) { return false, offsetslog.ErrLoading })
		var told []error
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, Events: Events{CommitFailed: func(err error) { told = append(told, err) }}}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		stop := run(t, c, nil)
		defer stop()
		sleep(5 * time.Second)
		f.fail(nil)
		sleep(time.Second)
		require.NotEmpty(t, told)
		require.ErrorIs(t, told[0], offsetslog.ErrLoading)
		require.EqualValues(t, 3, h.committed(orders), "well before the next interval")
	})
}

func TestCommitSyncTakesAMap(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 10)
	c := h.assigned(h.grouped(earliest), orders)
	defer h.closeConsumer(c)
	require.Len(t, poll(t, c), 10)
	for _, offset := range []int64{4, 7, 2} {
		require.NoError(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: offset, Metadata: "m"}}))
		at, err := c.Committed(ctx, orders)
		require.NoError(t, err)
		require.Equal(t, offset, at[0].Offset, "also backwards: it is what the caller says")
		require.Equal(t, "m", at[0].Metadata)
		require.EqualValues(t, -1, at[0].LeaderEpoch, "that of the record before is not known")
	}
	require.NoError(t, c.CommitSync(ctx, nil))
	at, err := c.Committed(ctx, orders)
	require.NoError(t, err)
	require.EqualValues(t, 10, at[0].Offset)
	require.Zero(t, at[0].LeaderEpoch)

	require.ErrorIs(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{of("other", 0): {}}), ErrNotAssigned)
	require.ErrorIs(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: -1}}), offsetslog.ErrInvalidRequest)
}

func TestCommitSyncTellsWhichPartitionsWereRefused(t *testing.T) {
	h := newHouse(t)
	other := of("other", 0)
	h.write(orders, "a")
	h.write(other, "b")
	c := h.assigned(h.grouped(earliest), orders, other)
	defer h.closeConsumer(c)
	require.Len(t, poll(t, c), 2)
	err := c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 1}, other: {Offset: 1, Metadata: string(make([]byte, 5000))}})
	var one *PartitionError
	require.ErrorAs(t, err, &one)
	require.Equal(t, other, one.TopicPartition)
	require.ErrorIs(t, err, offsetslog.ErrMetadataTooLarge)
	require.EqualValues(t, 1, h.committed(orders))
	require.EqualValues(t, -1, h.committed(other))
}

func TestCommitSyncIsRetriedWhereThatHelps(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		f := &faulty{Store: h.store}
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		tries := 0
		f.fail(func(offsetslog.CommitRequest) (bool, error) {
			if tries++; tries < 4 {
				return false, fmt.Errorf("wrapped: %w", offsetslog.ErrLoading)
			}
			return false, nil
		})
		began := time.Now()
		require.NoError(t, c.CommitSync(ctx, nil))
		require.Equal(t, 4, tries)
		require.Equal(t, 300*time.Millisecond, time.Since(began))

		for _, final := range []error{offsetslog.ErrRebalancing, offsetslog.ErrIllegalGeneration, offsetslog.ErrGroupAuthorization, offsetslog.ErrUnknownServer, errors.New("other")} {
			tries = 0
			f.fail(func(offsetslog.CommitRequest) (bool, error) { tries++; return false, final })
			require.ErrorIs(t, c.CommitSync(ctx, nil), final)
			require.Equal(t, 1, tries, final)
		}

		f.fail(func(offsetslog.CommitRequest) (bool, error) { return false, offsetslog.ErrLoading })
		began = time.Now()
		require.ErrorIs(t, c.CommitSync(ctx, nil), offsetslog.ErrLoading)
		require.InDelta(t, time.Minute, time.Since(began), float64(time.Second), "default.api.timeout.ms")
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, c.CommitSync(short, nil), offsetslog.ErrLoading)
		require.InDelta(t, 3*time.Second, time.Since(began), float64(time.Second))
	})
}

func TestAsynchronousCommitsGoTogether(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 100)
		f := &faulty{Store: h.store}
		gate := make(chan struct{})
		f.fail(func(offsetslog.CommitRequest) (bool, error) { <-gate; return false, nil })
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		var order []int
		commit := func(i int) {
			require.NoError(t, c.CommitAsync(map[tp]OffsetAndMetadata{orders: {Offset: int64(i)}}, func(err error) {
				require.NoError(t, err)
				order = append(order, i)
			}))
		}
		commit(1)
		synctest.Wait()
		for i := 2; i <= 50; i++ {
			commit(i)
		}
		close(gate)
		synctest.Wait()
		require.Len(t, f.commits, 2)
		require.EqualValues(t, 50, f.commits[1].Offsets[0].Offset)
		require.Len(t, order, 50)
		require.IsIncreasing(t, order)
	})
}

// A commit that is older than one that succeeded is not sent, however late it comes.
func TestOlderCommitNeverOverwritesANewer(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		f := &faulty{Store: h.store}
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		f.fail(func(r offsetslog.CommitRequest) (bool, error) {
			if r.Offsets[0].Offset == 3 {
				return false, offsetslog.ErrLoading // and is tried again
			}
			return false, nil
		})
		older := make(chan error, 1)
		go func() { older <- c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 3}}) }()
		synctest.Wait()
		require.NoError(t, c.CommitAsync(map[tp]OffsetAndMetadata{orders: {Offset: 5}}, nil))
		synctest.Wait()
		f.fail(nil)
		require.NoError(t, <-older, "the newer one stands for it")
		require.EqualValues(t, 5, h.committed(orders))
	})
}

// A newer commit that failed does not stand for an older one.
func TestOlderCommitCountsWhenTheNewerFailed(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		f := &faulty{Store: h.store}
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		f.fail(func(r offsetslog.CommitRequest) (bool, error) { return false, offsetslog.ErrLoading })
		older := make(chan error, 1)
		go func() { older <- c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 3}}) }()
		synctest.Wait()
		var newer error
		require.NoError(t, c.CommitAsync(map[tp]OffsetAndMetadata{orders: {Offset: 5}}, func(err error) { newer = err }))
		synctest.Wait()
		require.ErrorIs(t, newer, offsetslog.ErrLoading, "without a second try")
		f.fail(nil)
		require.NoError(t, <-older)
		require.EqualValues(t, 3, h.committed(orders))
	})
}

// Nor does one that was refused for what it is, of commits that went together.
func TestOlderCommitCountsWhenTheNewerWasRefused(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		f := &faulty{Store: h.store}
		gate := make(chan struct{})
		f.fail(func(offsetslog.CommitRequest) (bool, error) { <-gate; return false, nil })
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		var told []error
		commit := func(o OffsetAndMetadata) {
			require.NoError(t, c.CommitAsync(map[tp]OffsetAndMetadata{orders: o}, func(err error) { told = append(told, err) }))
		}
		commit(OffsetAndMetadata{Offset: 1})
		synctest.Wait()
		commit(OffsetAndMetadata{Offset: 3})
		commit(OffsetAndMetadata{Offset: 5})
		commit(OffsetAndMetadata{Offset: 7, Metadata: strings.Repeat("m", 4097)})
		close(gate)
		synctest.Wait()
		require.Len(t, told, 4)
		for _, err := range told[:3] {
			require.NoError(t, err)
		}
		require.ErrorIs(t, told[3], offsetslog.ErrMetadataTooLarge)
		require.EqualValues(t, 5, h.committed(orders))
	})
}

func TestCommitOfAFormerAssignmentIsNotSent(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		f := &faulty{Store: h.store}
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		mustPoll(t, c)
		f.fail(func(offsetslog.CommitRequest) (bool, error) { return false, offsetslog.ErrLoading })
		late := make(chan error, 1)
		go func() { late <- c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 9}}) }()
		synctest.Wait()
		require.NoError(t, c.Assign(ctx), "the partition goes")
		require.NoError(t, c.Assign(ctx, orders), "and comes back")
		f.fail(nil)
		require.ErrorIs(t, <-late, ErrStale)
		require.EqualValues(t, -1, h.committed(orders))
	})
}

// A commit must not outlive the records it is about.
func TestCommitSyncsTheLogFirst(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a")
	never := seglog.SyncNever
	_, err := h.log(orders).Append([]seglog.Record{{Value: []byte("b")}}, &seglog.AppendOptions{Sync: &never})
	require.NoError(t, err)
	require.Equal(t, seglog.Offsets{Start: 0, Durable: 1, End: 2}, h.log(orders).Offsets())
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
	defer h.closeConsumer(c)
	require.Len(t, poll(t, c), 2)
	require.NoError(t, c.CommitSync(ctx, nil))
	require.EqualValues(t, 2, h.log(orders).Offsets().Durable)
	require.NoError(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 50}}), "one above the end waits for nothing")
}

func TestCommitAsyncBeforeCloseIsSent(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 5)
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
	require.Len(t, poll(t, c), 5)
	result := ErrNoGroup
	require.NoError(t, c.CommitAsync(nil, func(err error) { result = err }))
	require.NoError(t, c.Close())
	require.NoError(t, result)
	require.EqualValues(t, 5, h.committed(orders))
	require.ErrorIs(t, c.CommitAsync(nil, nil), ErrClosed)
	require.ErrorIs(t, c.CommitSync(ctx, nil), ErrClosed)
}

func TestTrackedRecordsHoldTheCommitBack(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, MaxInFlight: 4}), orders)
		b := mustPoll(t, c)[0]
		require.Len(t, b.Records, 4)
		require.NoError(t, b.Complete(2))
		require.NoError(t, b.Complete(0))
		require.NoError(t, c.CommitSync(ctx, nil))
		require.EqualValues(t, 1, h.committed(orders))

		next := mustPoll(t, c)[0]
		require.EqualValues(t, 4, next.Records[0].Offset, "room for one")
		require.Len(t, next.Records, 1)
		got := make(chan []Batch, 1)
		go func() { got <- mustPoll(t, c) }()
		sleep(time.Second)
		require.Empty(t, got, "no room")
		require.NoError(t, b.Complete(1))
		more := (<-got)[0]
		require.Len(t, more.Records, 2, "1 and 2 are finished")

		var unknown *UnknownOffsetError
		require.ErrorAs(t, next.Complete(9), &unknown)
		require.NoError(t, c.Seek(orders, 3))
		require.ErrorIs(t, b.Complete(3), ErrStale)
		again := mustPoll(t, c)[0]
		for _, r := range again.Records {
			require.NoError(t, again.Complete(r.Offset))
		}
		require.NoError(t, c.Close())
		require.EqualValues(t, 7, h.committed(orders))
	})
}

func TestTrackedRecordsOfALoop(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 10)
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, MaxInFlight: 8}), orders)
	var held []Record
	for rec, err := range c.Records(ctx) {
		require.NoError(t, err)
		if held = append(held, rec); len(held) == 5 {
			break
		}
	}
	for _, i := range []int{4, 1, 0, 2} {
		require.NoError(t, held[i].Complete())
	}
	b := mustPoll(t, c)[0]
	require.EqualValues(t, 5, b.Records[0].Offset, "delivered ones are not delivered again")
	require.NoError(t, held[3].Complete())
	require.NoError(t, c.Close())
	require.EqualValues(t, 5, h.committed(orders))

	c = h.assigned(h.grouped(earliest), orders)
	defer h.closeConsumer(c)
	require.ErrorIs(t, mustPoll(t, c)[0].complete(5), ErrNotTracked)
}
