package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// diary notes what a listener is told.
type diary struct {
	mu      sync.Mutex
	entries []string
	revoked func()
}

func (d *diary) listener() Listener {
	note := func(what string, then func()) func([]tp) {
		return func(tps []tp) {
			d.mu.Lock()
			d.entries = append(d.entries, fmt.Sprint(what, " ", tps))
			d.mu.Unlock()
			if then != nil {
				then()
			}
		}
	}
	return Listener{Assigned: note("assigned", nil), Lost: note("lost", nil), Revoked: note("revoked", func() {
		if d.revoked != nil {
			d.revoked()
		}
	})}
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries
	d.entries = nil
	return e
}

// run polls until it is stopped, and hands what it gets to each.
func run(t *testing.T, c *Consumer, each func([]Batch)) (stop func()) {
	stopped, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			batches, err := c.Poll(stopped)
			if stopped.Err() != nil {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if each != nil {
				each(batches)
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func sleep(d time.Duration) {
	time.Sleep(d) // in a bubble, where it takes no time
	synctest.Wait()
}

func TestSubscribeReadsWithTheGroup(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.topic("orders", 2)
		h.write(of("orders", 0), "a")
		h.write(of("orders", 1), "b")
		var d diary
		c := h.subscribed(Options{OffsetReset: Earliest, Listener: d.listener()}, "orders")
		require.ElementsMatch(t, []string{"a", "b"}, values(mustPoll(t, c)))
		require.Equal(t, []tp{of("orders", 0), of("orders", 1)}, c.Assignment())
		require.Equal(t, []string{"orders"}, c.Subscription())
		require.Equal(t, []string{"assigned [orders-0 orders-1]"}, d.take())
		m, ok := c.Member()
		require.True(t, ok)
		require.Positive(t, m.Generation)
		require.NoError(t, c.Close())
		require.Equal(t, []string{"revoked [orders-0 orders-1]"}, d.take())
		require.EqualValues(t, 1, h.committed(of("orders", 0)), "committed by Close")
		require.EqualValues(t, 1, h.committed(of("orders", 1)))
		g, err := h.store.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, offsetslog.Empty, g.State, "it has left")

		c = h.subscribed(earliest, "orders")
		defer h.closeConsumer(c)
		h.write(orders, "c")
		require.Equal(t, []string{"c"}, values(mustPoll(t, c)), "goes on where it was")
	})
}

// All records are read once when nothing goes wrong but rebalances.
func TestMembersShareTheWork(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.topic("orders", 4)
		var mu sync.Mutex
		seen := map[string]int{}
		count := func(batches []Batch) {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range values(batches) {
				seen[v]++
			}
		}
		write := func(from, to int) {
			for i := from; i < to; i++ {
				h.write(of("orders", int32(i%4)), fmt.Sprint(i))
			}
		}
		var d1, d2 diary
		c1 := h.subscribed(Options{OffsetReset: Earliest, MaxPollRecords: 1, Listener: d1.listener()}, "orders")
		stop1 := run(t, c1, count)
		sleep(time.Second)
		write(0, 50)
		c2 := h.subscribed(Options{OffsetReset: Earliest, MaxPollRecords: 1, Listener: d2.listener()}, "orders")
		stop2 := run(t, c2, count)
		write(50, 100)
		sleep(10 * time.Second)
		require.Equal(t, []tp{of("orders", 0), of("orders", 1), of("orders", 2), of("orders", 3)}, sorted(slices.Values(append(c1.Assignment(), c2.Assignment()...))))
		require.Len(t, c1.Assignment(), 2)
		require.Equal(t, []string{"assigned [orders-0 orders-1 orders-2 orders-3]", "revoked [orders-0 orders-1 orders-2 orders-3]"}, d1.take()[:2])
		write(100, 150)
		sleep(time.Second)
		stop2()
		h.closeConsumer(c2)
		sleep(10 * time.Second)
		require.Len(t, c1.Assignment(), 4)
		write(150, 200)
		sleep(time.Second)
		stop1()
		h.closeConsumer(c1)
		require.Len(t, seen, 200)
		for v, n := range seen {
			require.Equal(t, 1, n, v)
		}
	})
}

// K090: what was not done when the partition went is read again by the next.
func TestRevokeInMidFlightCommitsOnlyWhatIsDone(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "0", "1", "2", "3", "4")
		c1 := h.subscribed(Options{OffsetReset: Earliest, MaxInFlight: 10}, "orders")
		b := mustPoll(t, c1)[0]
		for _, o := range []int64{0, 1, 3} {
			require.NoError(t, b.Complete(o))
		}
		require.NoError(t, c1.Close())
		require.EqualValues(t, 2, h.committed(orders))
		require.ErrorIs(t, b.Complete(2), ErrStale, "it will be another's")
		c2 := h.subscribed(earliest, "orders")
		defer h.closeConsumer(c2)
		require.Equal(t, []string{"2", "3", "4"}, values(mustPoll(t, c2)))
	})
}

func TestListenerMayCommitAndSeek(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		var c *Consumer
		d := diary{}
		d.revoked = func() {
			require.NoError(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 7, Metadata: "half"}}))
			require.NoError(t, c.CommitAsync(map[tp]OffsetAndMetadata{orders: {Offset: 8}}, nil), "sent before the partition goes")
		}
		l := d.listener()
		l.Assigned = func([]tp) { require.NoError(t, c.Seek(orders, 4)) }
		c = h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true, Listener: l}, "orders")
		require.Equal(t, "4", values(mustPoll(t, c))[0])
		require.NoError(t, c.Close())
		require.EqualValues(t, 8, h.committed(orders))
	})
}

func TestMemberThatDoesNotPollIsOut(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		var d diary
		c := h.subscribed(Options{OffsetReset: Earliest, Listener: d.listener()}, "orders")
		defer h.closeConsumer(c)
		require.Len(t, values(mustPoll(t, c)), 3)
		d.take()
		sleep(4 * time.Minute)
		g, err := h.store.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Len(t, g.Members, 1, "heartbeats keep it in")
		sleep(2 * time.Minute)
		g, err = h.store.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Empty(t, g.Members)
		_, ok := c.Member()
		require.False(t, ok)
		require.ErrorIs(t, c.CommitSync(ctx, nil), offsetslog.ErrUnknownMember)
		require.EqualValues(t, -1, h.committed(orders))
		require.Len(t, values(mustPoll(t, c)), 3, "delivered again")
		require.Equal(t, []string{"lost [orders-0]", "assigned [orders-0]"}, d.take())
	})
}

// A static member keeps its place until its session ends: it does not leave.
func TestStaticMemberThatDoesNotPollIsWaitedFor(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		c := h.subscribed(Options{OffsetReset: Earliest, InstanceID: "i"}, "orders")
		defer h.closeConsumer(c)
		mustPoll(t, c)
		members := func() int {
			g, err := h.store.DescribeGroup(ctx, "g")
			require.NoError(t, err)
			return g.MemberCount
		}
		sleep(5*time.Minute + 30*time.Second)
		_, ok := c.Member()
		require.False(t, ok)
		require.Equal(t, 1, members())
		sleep(30 * time.Second)
		require.Zero(t, members())
	})
}

// An answer to a call that was made in an earlier generation says nothing of this one.
func TestAnswerAboutAFormerMembershipDoesNotEndThePresent(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		c := h.subscribed(Options{OffsetReset: Earliest}, "orders")
		defer h.closeConsumer(c)
		mustPoll(t, c)
		m, ok := c.Member()
		require.True(t, ok)
		for _, err := range []error{offsetslog.ErrUnknownMember, offsetslog.ErrIllegalGeneration, offsetslog.ErrFencedInstance, offsetslog.ErrRebalancing} {
			c.noteGroupError(err, &offsetslog.Member{ID: m.ID, Generation: m.Generation - 1})
		}
		require.NoError(t, c.CommitSync(ctx, nil))
		require.Empty(t, poll(t, c))
		after, ok := c.Member()
		require.True(t, ok)
		require.Equal(t, m, after)
	})
}

// K088: a member of an earlier generation commits nothing.
func TestCommitOfAFormerGenerationIsRefused(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		var d diary
		c := h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true, Listener: d.listener()}, "orders")
		defer h.closeConsumer(c)
		mustPoll(t, c)
		m, _ := c.Member()
		require.NoError(t, h.store.LeaveGroup(ctx, "g", m), "as if its session had ended")
		require.ErrorIs(t, c.CommitSync(ctx, nil), offsetslog.ErrUnknownMember)
		require.EqualValues(t, -1, h.committed(orders))
		d.take()
		require.Len(t, values(mustPoll(t, c)), 3)
		require.Equal(t, []string{"lost [orders-0]", "assigned [orders-0]"}, d.take(), "not revoked: it may be another's already")
		require.NoError(t, c.CommitSync(ctx, nil))
		require.EqualValues(t, 3, h.committed(orders))
	})
}

func TestPartitionsAreLostWhenTheLastCommitSaysSo(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		var d diary
		var failed []error
		c := h.subscribed(Options{OffsetReset: Earliest, Listener: d.listener(), Events: Events{CommitFailed: func(err error) { failed = append(failed, err) }}}, "orders")
		defer h.closeConsumer(c)
		mustPoll(t, c)
		m, _ := c.Member()
		require.NoError(t, h.store.LeaveGroup(ctx, "g", m))
		require.NoError(t, c.Subscribe("orders", "more"))
		d.take()
		require.Len(t, values(mustPoll(t, c)), 3)
		require.Equal(t, []string{"lost [orders-0]", "assigned [orders-0]"}, d.take())
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0], offsetslog.ErrUnknownMember)
	})
}

func TestCommitDuringARebalanceSaysSo(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.topic("orders", 2)
		h.write(orders, "a")
		c1 := h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true}, "orders")
		defer h.closeConsumer(c1)
		mustPoll(t, c1)
		c2 := h.subscribed(earliest, "orders")
		stop := run(t, c2, nil)
		synctest.Wait()
		require.NoError(t, c1.CommitSync(ctx, nil), "those who are asked to join again may commit")
		require.EqualValues(t, 1, h.committed(orders))
		stop1 := run(t, c1, nil)
		sleep(10 * time.Second)
		stop1()
		stop()
		h.closeConsumer(c2)
	})
}

func TestStaticMemberKeepsItsPlace(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 3)
		c := h.subscribed(Options{OffsetReset: Earliest, InstanceID: "i"}, "orders")
		require.Len(t, values(mustPoll(t, c)), 3)
		before, _ := c.Member()
		require.NoError(t, c.Close())
		g, err := h.store.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Len(t, g.Members, 1, "it is waited for")
		h.write(orders, "3")
		c2 := h.subscribed(Options{OffsetReset: Earliest, InstanceID: "i"}, "orders")
		defer h.closeConsumer(c2)
		require.Equal(t, []string{"3"}, values(mustPoll(t, c2)))
		after, _ := c2.Member()
		require.Equal(t, before.Generation, after.Generation)

		c3 := h.subscribed(Options{OffsetReset: Earliest, InstanceID: "i"}, "orders")
		defer h.closeConsumer(c3)
		stop := run(t, c3, nil)
		defer stop()
		sleep(5 * time.Second)
		_, err = c2.Poll(ctx)
		require.ErrorIs(t, err, offsetslog.ErrFencedInstance, "another has taken over")
		_, err = c2.Poll(ctx)
		require.ErrorIs(t, err, offsetslog.ErrFencedInstance, "and is left in peace")
		require.Empty(t, c2.Assignment())
	})
}

func TestNewPartitionsAreFound(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		c := h.subscribed(earliest, "late", "orders")
		defer h.closeConsumer(c)
		stop := run(t, c, nil)
		defer stop()
		sleep(time.Second)
		require.Empty(t, c.Assignment())
		h.topic("late", 2)
		sleep(6 * time.Minute)
		require.Equal(t, []tp{of("late", 0), of("late", 1)}, c.Assignment())
		h.topic("orders", 1)
		require.NoError(t, c.Subscribe("orders"))
		sleep(time.Second)
		require.Equal(t, []tp{orders}, c.Assignment(), "another subscription")
	})
}

func TestLeaderLooksAfterTheTopicsOfOthers(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		leader := h.subscribed(earliest, "orders")
		defer h.closeConsumer(leader)
		stop := run(t, leader, nil)
		defer stop()
		sleep(time.Second)
		other := h.subscribed(earliest, "late")
		defer h.closeConsumer(other)
		stopOther := run(t, other, nil)
		defer stopOther()
		sleep(10 * time.Second)
		h.topic("late", 1)
		sleep(6 * time.Minute)
		require.Equal(t, []tp{of("late", 0)}, other.Assignment())
	})
}

func TestSubscribeAndAssignExcludeEachOther(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a")
	c := h.subscribed(earliest, "orders")
	require.ErrorIs(t, c.Assign(ctx, orders), ErrMode)
	require.Equal(t, []string{"a"}, values(mustPoll(t, c)))
	require.NoError(t, c.Unsubscribe(ctx))
	require.EqualValues(t, 1, h.committed(orders))
	require.Empty(t, c.Assignment())
	require.NoError(t, c.Assign(ctx, orders))
	require.ErrorIs(t, c.Subscribe("orders"), ErrMode)
	require.NoError(t, c.Unsubscribe(ctx))
	require.NoError(t, c.Subscribe("orders"))
	require.Error(t, c.Subscribe())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Subscribe("orders"), ErrClosed)
	require.ErrorIs(t, c.Unsubscribe(ctx), ErrClosed)

	c = h.assigned(earliest)
	defer h.closeConsumer(c)
	require.ErrorIs(t, c.Subscribe("orders"), ErrNoGroup)
	require.ErrorIs(t, c.CommitSync(ctx, nil), ErrNoGroup)
	_, err := c.Committed(ctx, orders)
	require.ErrorIs(t, err, ErrNoGroup)
}

func TestPollThatEndsEarlyLosesNoJoin(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.close()
		opts := quiet
		opts.InitialRebalanceDelay = 3 * time.Second
		h.open()
		require.NoError(t, h.store.Close())
		var err error
		h.store, err = offsetslog.Open(h.dir, opts)
		require.NoError(t, err)
		h.write(orders, "a")
		c := h.subscribed(earliest, "orders")
		defer h.closeConsumer(c)
		for i := 0; ; i++ {
			if got := poll(t, c); len(got) > 0 {
				require.Equal(t, []string{"a"}, got)
				require.InDelta(t, 60, i, 2, "polls of 50 ms")
				return
			}
		}
	})
}

func TestCloseWhileJoiningLeavesNothing(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.topic("orders", 1)
		c1 := h.subscribed(earliest, "orders")
		defer h.closeConsumer(c1)
		_ = poll(t, c1)
		c2 := h.subscribed(earliest, "orders")
		_ = poll(t, c2) // waits for c1, which does not poll
		require.NoError(t, c2.Close())
		g, err := h.store.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Len(t, g.Members, 1)
	})
}

// An offset that a transaction has committed, and not ended, is waited for.
func TestPositionWaitsForAPendingTransactionalCommit(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.writeN(orders, 0, 10)
		producer := offsetslog.Producer{ID: 7}
		require.NoError(t, h.store.CommitTransactional(ctx, offsetslog.TransactionalCommitRequest{
			Group: "g", Producer: producer, Offsets: []offsetslog.Commit{{TopicPartition: orders, Offset: 6, LeaderEpoch: -1}},
		}))
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
		defer h.closeConsumer(c)
		require.Empty(t, poll(t, c), "neither from the start")
		got := make(chan []string, 1)
		go func() { got <- values(mustPoll(t, c)) }()
		sleep(time.Second)
		require.Empty(t, got)
		require.NoError(t, h.store.EndTransaction(ctx, "g", producer, seglog.Commit, 0))
		require.Equal(t, []string{"6", "7", "8", "9"}, <-got)
		at, err := c.Committed(ctx, orders)
		require.NoError(t, err)
		require.EqualValues(t, 6, at[0].Offset)
	})
}
