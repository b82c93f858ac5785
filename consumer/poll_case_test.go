package consumer

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
	"github.com/seglog/seglog/record"
)

var earliest = Options{OffsetReset: Earliest}

func TestPollReadsWhatIsThere(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b")
	h.write(orders, "c")
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	batches := mustPoll(t, c)
	require.Len(t, batches, 1)
	require.Equal(t, orders, batches[0].TopicPartition)
	require.EqualValues(t, 3, batches[0].Next)
	require.Equal(t, []string{"a", "b", "c"}, values(batches))
	require.EqualValues(t, 1, batches[0].Records[1].Offset)
	require.Empty(t, poll(t, c))
	h.write(orders, "d")
	require.Equal(t, []string{"d"}, poll(t, c))
}

func TestPollTakesNoMoreThanItMay(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b", "c", "d", "e")
	h.write(orders, "f", "g")
	c := h.assigned(Options{OffsetReset: Earliest, MaxPollRecords: 3}, orders)
	defer h.closeConsumer(c)
	require.Equal(t, []string{"a", "b", "c"}, poll(t, c))
	require.Equal(t, []string{"d", "e", "f"}, poll(t, c), "goes on inside a batch")
	require.Equal(t, []string{"g"}, poll(t, c))

	c = h.assigned(Options{OffsetReset: Earliest, MaxPartitionBytes: 4}, orders)
	defer h.closeConsumer(c)
	require.Equal(t, []string{"a", "b"}, poll(t, c), "a key and a value of one byte each")
}

func TestPollReturnsRecordsToKeep(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			h := newHouse(t)
			h.close()
			log, err := seglog.Open("dir/compressed-0", seglog.Options{Compression: codec, Sync: seglog.SyncNever, FS: h.disk.FS()})
			require.NoError(t, err)
			for i := range 100 {
				var records []seglog.Record
				for j := range 10 {
					v := fmt.Appendf(nil, "%d", 10*i+j)
					records = append(records, seglog.Record{Key: v, Value: slices.Repeat(v, 300), Headers: []seglog.Header{{Key: "h", Value: v}}})
				}
				_, err := log.Append(records, nil)
				require.NoError(t, err)
			}
			require.NoError(t, log.Close())
			h.open()
			c := h.assigned(Options{OffsetReset: Earliest, MaxPollRecords: 7}, of("compressed", 0))
			defer h.closeConsumer(c)
			var all []seglog.Record
			for len(all) < 1000 {
				all = append(all, mustPoll(t, c)[0].Records...)
			}
			for i, r := range all {
				v := fmt.Appendf(nil, "%d", i)
				require.EqualValues(t, i, r.Offset)
				require.Equal(t, v, r.Key)
				require.Equal(t, slices.Repeat(v, 300), r.Value)
				require.Equal(t, v, r.Headers[0].Value)
			}
		})
	}
}

func TestPollServesAllPartitions(t *testing.T) {
	h := newHouse(t)
	h.topic("many", 3)
	for n := range int32(3) {
		h.writeN(of("many", n), 0, 10)
	}
	c := h.assigned(Options{OffsetReset: Earliest, MaxPollRecords: 5}, of("many", 0), of("many", 1), of("many", 2))
	defer h.closeConsumer(c)
	seen := map[tp]int{}
	for range 3 {
		for _, b := range mustPoll(t, c) {
			seen[b.TopicPartition] += len(b.Records)
		}
	}
	require.Equal(t, map[tp]int{of("many", 0): 5, of("many", 1): 5, of("many", 2): 5}, seen)
}

func TestPollWaitsForRecords(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a")
		other := of("other", 0)
		h.write(other, "x")
		c := h.assigned(Options{}, orders, other)
		defer h.closeConsumer(c)
		got := make(chan []string, 1)
		go func() { got <- values(mustPoll(t, c)) }()
		synctest.Wait()
		require.Empty(t, got)
		h.write(other, "y")
		require.Equal(t, []string{"y"}, <-got)

		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := c.Poll(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestPollEndsWithClose(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a")
		c := h.assigned(Options{}, orders)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Poll(ctx)
			ended <- err
		}()
		synctest.Wait()
		_, err := c.Poll(ctx)
		require.ErrorIs(t, err, ErrConcurrent)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, ErrClosed)
		_, err = c.Poll(ctx)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, c.Close(), "again")
		require.ErrorIs(t, c.Seek(orders, 0), ErrClosed)
		require.ErrorIs(t, c.Assign(ctx, orders), ErrClosed)
	})
}

func TestPauseSeekAndResume(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b", "c")
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	require.NoError(t, c.Pause(orders))
	require.Equal(t, []tp{orders}, c.Paused())
	require.Empty(t, poll(t, c))
	require.NoError(t, c.Seek(orders, 1))
	require.NoError(t, c.Resume(orders))
	require.Equal(t, []string{"b", "c"}, poll(t, c))
	require.NoError(t, c.SeekToBeginning(orders))
	at, err := c.Position(ctx, orders)
	require.NoError(t, err)
	require.Zero(t, at)
	require.Equal(t, []string{"a", "b", "c"}, poll(t, c))
	h.write(orders, "d")
	lag, err := c.Lag(orders)
	require.NoError(t, err)
	require.EqualValues(t, 1, lag)
	require.NoError(t, c.SeekToEnd(orders))
	require.Empty(t, poll(t, c))
	at, err = c.Position(ctx, orders)
	require.NoError(t, err)
	require.EqualValues(t, 4, at)

	other := of("other", 0)
	for _, err := range []error{c.Pause(other), c.Resume(other), c.Seek(other, 0), c.SeekToEnd(other)} {
		require.ErrorIs(t, err, ErrNotAssigned)
	}
	require.Error(t, c.Seek(orders, -1))
	_, err = c.Position(ctx, other)
	require.ErrorIs(t, err, ErrNotAssigned)
}

func TestSeekEndsAPollThatWaits(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a", "b")
		c := h.assigned(Options{}, orders)
		defer h.closeConsumer(c)
		got := make(chan []string, 1)
		go func() { got <- values(mustPoll(t, c)) }()
		synctest.Wait()
		require.NoError(t, c.Seek(orders, 1))
		require.Equal(t, []string{"b"}, <-got)
	})
}

func TestSeekCountsMoreThanWhatIsBeingFetched(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 5)
	f := &faulty{Store: h.store}
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f}), orders)
	defer h.closeConsumer(c)
	f.fetch = func() { require.NoError(t, c.Seek(orders, 3)) }
	require.Equal(t, []string{"3", "4"}, values(mustPoll(t, c)))
}

func TestOffsetResetSaysWhereToBegin(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 5)
	require.NoError(t, h.log(orders).DeleteBefore(2))
	for _, tt := range []struct {
		reset OffsetReset
		want  int64
	}{{Latest, 5}, {Earliest, 2}} {
		c := h.assigned(h.grouped(Options{OffsetReset: tt.reset}), orders)
		at, err := c.Position(ctx, orders)
		require.NoError(t, err)
		require.Equal(t, tt.want, at, tt.reset)
		require.NoError(t, c.Unsubscribe(ctx))
		require.NoError(t, h.store.DeleteGroup(ctx, "g"))
		h.closeConsumer(c)
	}
	c := h.assigned(h.grouped(Options{OffsetReset: None}), orders)
	defer h.closeConsumer(c)
	_, err := c.Poll(ctx)
	var one *PartitionError
	require.ErrorAs(t, err, &one)
	require.ErrorIs(t, err, ErrNoOffset)
	require.Equal(t, PartitionError{orders, -1, ErrNoOffset}, *one)
	require.NoError(t, c.Seek(orders, 3))
	require.Equal(t, []string{"3", "4"}, poll(t, c), "a seek leads on")
}

func TestOffsetResetOfOtherNamesIsRefused(t *testing.T) {
	for name, want := range map[string]OffsetReset{"latest": Latest, "Earliest": Earliest, "NONE": None} {
		got, err := ParseOffsetReset(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"", "smallest", "largest", "by_duration:P1D", "0"} {
		_, err := ParseOffsetReset(name)
		require.ErrorIs(t, err, seglog.ErrOption, name)
	}
	h := newHouse(t)
	for _, o := range []Options{
		{OffsetReset: 3}, {OffsetReset: -1}, {Group: "g"}, {Coordinator: h.store}, {InstanceID: "i"}, {Isolation: seglog.ReadLogEnd},
		{MaxPollRecords: -1}, {MaxInFlight: -1}, {AutoCommitInterval: -1}, {HeartbeatInterval: time.Minute},
	} {
		_, err := New(h.dir, o)
		require.ErrorIs(t, err, seglog.ErrOption, "%+v", o)
	}
}

// K083: the data and the commit are gone, or the commit is below the start of the log.
func TestPositionOutsideOfTheLogIsReset(t *testing.T) {
	tests := []struct {
		name  string
		reset OffsetReset
		at    int64
		want  int64
	}{
		{"below the start, earliest", Earliest, 1, 5},
		{"below the start, latest", Latest, 1, 10},
		{"above the end, earliest", Earliest, 100, 5},
		{"above the end, latest", Latest, 100, 10},
		{"below the start, none", None, 1, -1},
		{"above the end, none", None, 100, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			h.writeN(orders, 0, 10)
			require.NoError(t, h.log(orders).DeleteBefore(5))
			var told []string
			c := h.assigned(Options{OffsetReset: tt.reset, Events: Events{
				Reset: func(p tp, from, to int64, cause error) {
					require.ErrorIs(t, cause, seglog.ErrOffsetOutOfRange)
					told = append(told, fmt.Sprint(p, " ", from, " to ", to))
				},
			}}, orders)
			defer h.closeConsumer(c)
			require.NoError(t, c.Seek(orders, tt.at))
			_, err := tryPoll(c)
			if tt.want < 0 {
				var one *PartitionError
				require.ErrorAs(t, err, &one)
				require.Equal(t, tt.at, one.Position)
				require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
				at, err := c.Position(ctx, orders)
				require.NoError(t, err)
				require.Equal(t, tt.at, at, "it stays")
				return
			}
			require.Equal(t, []string{fmt.Sprintf("orders-0 %d to %d", tt.at, tt.want)}, told)
			h.write(orders, "new")
			c2 := poll(t, c)
			if tt.reset == Latest {
				require.Equal(t, []string{"new"}, c2)
			}
		})
	}
}

// K084: a topic that was made again, with fewer records than were committed.
func TestCommitAboveTheEndIsNotClamped(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 10)
	require.NoError(t, h.store.Commit(ctx, offsetslog.CommitRequest{Group: "g", Offsets: []offsetslog.Commit{{TopicPartition: orders, Offset: 100, LeaderEpoch: -1}}}))
	c := h.assigned(h.grouped(Options{OffsetReset: None}), orders)
	defer h.closeConsumer(c)
	_, err := c.Poll(ctx)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	lag, err := c.Lag(orders)
	require.NoError(t, err)
	require.Zero(t, lag, "never below 0")
	require.EqualValues(t, 100, h.committed(orders), "nor committed")
}

func TestPartitionMadeAgainIsFollowed(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 3)
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	require.Len(t, poll(t, c), 3)
	require.NoError(t, h.dir.DeletePartition("orders", 0))
	_, err := tryPoll(c)
	require.ErrorIs(t, err, seglog.ErrNoPartition)
	h.write(orders, "new")
	require.Equal(t, []string{"new"}, poll(t, c))
}

// A cut in the log, followed by other records in the place of those that were read.
func TestPollNoticesATruncation(t *testing.T) {
	t.Run("at the end, by the leader epoch", func(t *testing.T) {
		h := newHouse(t)
		h.writeN(orders, 0, 10)
		c := h.assigned(earliest, orders)
		defer h.closeConsumer(c)
		require.Len(t, poll(t, c), 10)
		require.NoError(t, h.log(orders).TruncateTo(6))
		require.NoError(t, h.log(orders).SetLeaderEpoch(1))
		h.writeN(orders, 100, 110)
		require.Equal(t, "100", poll(t, c)[0])
	})
	t.Run("in the middle", func(t *testing.T) {
		h := newHouse(t)
		h.writeN(orders, 0, 10)
		c := h.assigned(Options{OffsetReset: Earliest, MaxPollRecords: 8}, orders)
		defer h.closeConsumer(c)
		require.Len(t, poll(t, c), 8)
		require.NoError(t, h.log(orders).TruncateTo(6))
		h.writeN(orders, 100, 110)
		require.Equal(t, "100", poll(t, c)[0])
	})
	t.Run("without a policy it is an error", func(t *testing.T) {
		h := newHouse(t)
		h.writeN(orders, 0, 10)
		c := h.assigned(Options{OffsetReset: None, MaxPollRecords: 8}, orders)
		defer h.closeConsumer(c)
		require.NoError(t, c.Seek(orders, 0))
		require.Len(t, poll(t, c), 8)
		require.NoError(t, h.log(orders).TruncateTo(6))
		_, err := tryPoll(c)
		require.ErrorIs(t, err, seglog.ErrTruncated)
	})
	t.Run("of what was committed", func(t *testing.T) {
		h := newHouse(t)
		h.writeN(orders, 0, 10)
		c := h.assigned(h.grouped(earliest), orders)
		require.Len(t, poll(t, c), 10)
		require.NoError(t, c.Close())
		require.EqualValues(t, 10, h.committed(orders))
		require.NoError(t, h.log(orders).TruncateTo(6))
		require.NoError(t, h.log(orders).SetLeaderEpoch(1))
		h.writeN(orders, 100, 110)
		c = h.assigned(h.grouped(earliest), orders)
		defer h.closeConsumer(c)
		require.Equal(t, "100", poll(t, c)[0])
	})
}

// K093: what delivers nothing is passed, up to what may be read.
func TestReadCommittedStopsAtOpenTransactions(t *testing.T) {
	h := newHouse(t)
	h.topic("orders", 1)
	commit, abort := seglog.Commit, seglog.Abort
	h.transaction(orders, 1, &commit, "0", "1", "2", "3", "4")
	h.transaction(orders, 2, nil, "6", "7")
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Isolation: seglog.ReadCommitted}), orders)
	defer h.closeConsumer(c)
	batches := mustPoll(t, c)
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, values(batches))
	require.EqualValues(t, 6, batches[0].Next, "the marker was passed, and nothing of the open transaction")
	require.NoError(t, c.CommitSync(ctx, nil))
	require.EqualValues(t, 6, h.committed(orders))
	require.Empty(t, poll(t, c))

	h.write(orders, "8")
	require.Empty(t, poll(t, c), "it waits behind the open transaction")
	h.end(orders, 2, abort)
	batches = mustPoll(t, c)
	require.Equal(t, []string{"8"}, values(batches))
	require.EqualValues(t, 10, batches[0].Next)

	// What compaction leaves of a producer's last batch has no records.
	_, err := h.log(orders).AppendReplicated(record.AppendEmptyBatch(nil, record.BatchHeader{
		BaseOffset: 10, LastOffsetDelta: 2, ProducerID: 9, BaseTimestamp: -1, MaxTimestamp: -1,
	}), nil)
	require.NoError(t, err)
	require.Empty(t, poll(t, c))
	at, err := c.Position(ctx, orders)
	require.NoError(t, err)
	require.EqualValues(t, 13, at, "a batch without records moves the position, too")

	h.transaction(orders, 3, &abort, "10", "11")
	require.Empty(t, poll(t, c))
	at, err = c.Position(ctx, orders)
	require.NoError(t, err)
	require.EqualValues(t, 16, at, "records of an aborted transaction move the position")
	require.NoError(t, c.CommitSync(ctx, nil))
	require.EqualValues(t, 16, h.committed(orders))
}

func TestReadCommittedWakesWhenATransactionEnds(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.topic("orders", 1)
		c := h.assigned(Options{OffsetReset: Earliest, Isolation: seglog.ReadCommitted}, orders)
		defer h.closeConsumer(c)
		got := make(chan []string, 1)
		go func() { got <- values(mustPoll(t, c)) }()
		h.transaction(orders, 1, nil, "a")
		synctest.Wait()
		require.Empty(t, got)
		h.end(orders, 1, seglog.Commit)
		require.Equal(t, []string{"a"}, <-got)
	})
}

func TestReadUncommittedReadsAll(t *testing.T) {
	h := newHouse(t)
	h.topic("orders", 1)
	abort := seglog.Abort
	h.transaction(orders, 1, &abort, "a")
	h.transaction(orders, 2, nil, "b")
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	require.Equal(t, []string{"a", "b"}, poll(t, c))
}

func TestRecordsYieldsOneByOne(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b", "c", "d")
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
	defer h.closeConsumer(c)
	var got []string
	for rec, err := range c.Records(ctx) {
		require.NoError(t, err)
		if got = append(got, string(rec.Value)); rec.Offset == 2 {
			require.NoError(t, c.CommitSync(ctx, nil))
			require.EqualValues(t, 2, h.committed(orders), "the present record is not done yet")
			_, err := c.Poll(ctx)
			require.ErrorIs(t, err, ErrConcurrent)
			break
		}
	}
	require.Equal(t, []string{"a", "b", "c"}, got)
	require.Equal(t, []string{"c", "d"}, poll(t, c), "the loop was left at c, which was not done")
}

func TestRecordsFollowsASeek(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b", "c")
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	var got []string
	for rec, err := range c.Records(ctx) {
		require.NoError(t, err)
		if got = append(got, string(rec.Value)); len(got) == 2 {
			require.NoError(t, c.Seek(orders, 0))
		}
		if len(got) == 5 {
			break
		}
	}
	require.Equal(t, []string{"a", "b", "a", "b", "c"}, got)
}

func TestRecordsEndsWithItsContext(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a")
		c := h.assigned(earliest, orders)
		defer h.closeConsumer(c)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var got []string
		var last error
		for rec, err := range c.Records(short) {
			if last = err; err == nil {
				got = append(got, string(rec.Value))
			}
		}
		require.Equal(t, []string{"a"}, got)
		require.ErrorIs(t, last, context.DeadlineExceeded)
	})
}

// One bad partition does not keep the others from being read, and is not silent.
func TestErrorsOfAPartitionAlternateWithRecordsOfOthers(t *testing.T) {
	h := newHouse(t)
	h.writeN(orders, 0, 5)
	missing := of("missing", 0)
	c := h.assigned(Options{OffsetReset: Earliest, MaxPollRecords: 2}, missing, orders)
	defer h.closeConsumer(c)
	var got []string
	failures := 0
	for len(got) < 5 {
		batches, err := c.Poll(ctx)
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrNoPartition)
			failures++
		}
		got = append(got, values(batches)...)
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, got)
	require.Equal(t, 2, failures)
}

// What was read before the partition was lost is another's, and is not delivered.
func TestRecordsEndsWithTheMembership(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a", "b", "c")
		c := h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true}, "orders")
		defer h.closeConsumer(c)
		var got []string
		for rec, err := range c.Records(ctx) {
			require.NoError(t, err)
			if got = append(got, string(rec.Value)); len(got) == 1 {
				m, _ := c.Member()
				require.NoError(t, h.store.LeaveGroup(ctx, "g", m), "as if its session had ended")
				require.ErrorIs(t, c.CommitSync(ctx, nil), offsetslog.ErrUnknownMember)
			}
			if len(got) == 4 {
				break
			}
		}
		require.Equal(t, []string{"a", "a", "b", "c"}, got)
	})
}

func TestCloseEndsRecordsAtThePresentOne(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a", "b", "c")
		c := h.assigned(h.grouped(earliest), orders)
		closed := make(chan error, 1)
		var got []string
		var last error
		for rec, err := range c.Records(ctx) {
			if last = err; err != nil {
				break
			}
			got = append(got, string(rec.Value))
			go func() { closed <- c.Close() }()
			synctest.Wait()
		}
		require.Equal(t, []string{"a"}, got)
		require.ErrorIs(t, last, ErrClosed)
		require.NoError(t, <-closed)
		require.EqualValues(t, 1, h.committed(orders), "which is done")
	})
}

// What was read of a partition that has gone meanwhile is not delivered.
func TestPartitionThatGoesTakesWhatWasReadAlong(t *testing.T) {
	h := newHouse(t)
	h.write(orders, "a", "b")
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true, MaxPollRecords: 1}), orders)
	defer h.closeConsumer(c)
	mustPoll(t, c)
	f, ok := c.readable(c.mu.order[0])
	require.True(t, ok)
	require.NoError(t, c.read(&f, 1))
	require.Len(t, f.records, 1)
	require.NoError(t, c.Assign(ctx))
	_, ok, err := c.accept(f)
	require.NoError(t, err)
	require.False(t, ok)
	require.False(t, c.move(f))
	require.False(t, c.holds(f))
}

// A checksum says nothing about offsets that its writer has got wrong.
func TestRecordsOutsideOfTheirBatchAreNotDelivered(t *testing.T) {
	h := newHouse(t)
	h.topic("orders", 1)
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Gzip})
	for _, v := range []string{"a", "b", "c"} {
		require.NoError(t, b.Append(record.Record{Value: []byte(v)}))
	}
	raw, err := b.Build()
	require.NoError(t, err)
	raw = bytes.Clone(raw)
	binary.BigEndian.PutUint32(raw[23:], 1) // last offset delta: the third is one too many
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	_, err = h.log(orders).AppendReplicated(raw, nil)
	require.NoError(t, err)
	h.write(orders, "d")
	c := h.assigned(earliest, orders)
	defer h.closeConsumer(c)
	var got []string
	for len(got) < 3 {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		batches, err := c.Poll(short)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, record.ErrInvalid)
		}
		got = append(got, values(batches)...)
	}
	require.Equal(t, []string{"a", "b", "d"}, got, "which has the offset that c claimed")
}
