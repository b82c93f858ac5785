package seglog_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func TestAReaderStopsAtAHighWatermarkBetweenBatchesOfOneRecord(t *testing.T) {
	opts := quick
	opts.Replicated = true
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, many(3, 1)...)
	for mark := range int64(4) {
		_, err := l.SetHighWatermark(mark)
		require.NoError(t, err)
		got, err := l.Read(0, 1<<20, nil)
		require.NoError(t, err)
		require.Equal(t, mark, got.NextOffset)
		require.Len(t, readAll(t, l, 0), int(mark))
	}
}

func TestAFollowerStopsAtAHighWatermarkBetweenBatchesOfOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := quick
		opts.Replicated = true
		l := openLog(t, t.TempDir(), opts)
		appendEach(t, l, many(3, 1)...)
		_, err := l.SetHighWatermark(1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var read []int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for r, err := range l.Records(ctx, 0, &seglog.IterOptions{Follow: true}) {
				if err != nil {
					return
				}
				read = append(read, r.Offset)
			}
		}()
		synctest.Wait()
		require.Equal(t, span(0, 0), read)
		_, err = l.SetHighWatermark(2)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, span(0, 1), read)
		cancel()
		<-ended
	})
}

// The clock of a bubble is that of the year 2000: to the log it was set back.
func TestAppendTimesDoNotGoBackWithTheClock(t *testing.T) {
	opts := quick
	opts.TimestampType = record.LogAppendTime
	l := openLog(t, t.TempDir(), opts)
	before, err := l.Append(many(1, 1), nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		require.Less(t, time.Now().UnixMilli(), before.Timestamp)
		at, err := l.Append(many(1, 1), nil)
		require.NoError(t, err)
		require.Equal(t, before.Timestamp, at.Timestamp)
		at, err = l.AppendBatch(plainBatch(t, 0, 1), nil)
		require.NoError(t, err)
		require.Equal(t, before.Timestamp, at.Timestamp)
	})
	for _, r := range readAll(t, l, 0) {
		require.GreaterOrEqual(t, r.Timestamp, before.Timestamp)
	}
}

// What a reader knew of aborted transactions is of no use for those that a truncation
// has put in their place.
func TestAReaderForgetsTheAbortedTransactionsThatWereTruncated(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	transaction := func(id int64, end seglog.TransactionResult) {
		p := seglog.Producer{ID: id, Transactional: true}
		_, err := l.Append([]seglog.Record{{Value: []byte("now, as the marker: in one segment")}}, &seglog.AppendOptions{Producer: &p})
		require.NoError(t, err)
		_, err = l.EndTransaction(p, end, nil)
		require.NoError(t, err)
	}
	transaction(1, seglog.Commit)
	transaction(2, seglog.Abort)
	next, stop := iter.Pull2(l.Records(t.Context(), 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted}))
	defer stop()
	r, err, ok := next()
	require.True(t, ok)
	require.NoError(t, err)
	require.Zero(t, r.Offset)

	require.NoError(t, l.TruncateTo(2))
	transaction(2, seglog.Commit)
	r, err, ok = next()
	require.True(t, ok, "it was committed this time")
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Offset)
}
