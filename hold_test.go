package seglog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// tenSegments is a log of ten segments of ten records each, all of them old.
func tenSegments(t *testing.T, opts seglog.Options) *seglog.Log {
	t.Helper()
	opts.Sync = seglog.SyncNever
	l := openLog(t, t.TempDir(), opts)
	for range 10 {
		appendEach(t, l, many(10, 1)...)
		_, err := l.Roll()
		require.NoError(t, err)
	}
	return l
}

func retained(t *testing.T, l *seglog.Log) int64 {
	t.Helper()
	res, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	return res.Start
}

func TestRetentionLeavesWhatAReaderHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		opts seglog.Options
		last int64 // where the log starts when nothing is held
	}{
		{"too old", seglog.Options{}, 100},
		{"too large", seglog.Options{RetentionTime: -1, RetentionBytes: 1}, 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := tenSegments(t, c.opts)
			h, err := l.Hold("slow reader", 35, 0)
			require.NoError(t, err)
			other, err := l.Hold("another", 70, 0)
			require.NoError(t, err)
			require.Equal(t, int64(30), retained(t, l), "the segment that holds offset 35 stays")
			require.Equal(t, span(35, 99), offsetsOf(readAll(t, l, 35)))
			h.Advance(50)
			require.Equal(t, int64(50), retained(t, l))
			h.Advance(10)
			require.Equal(t, []seglog.HoldInfo{{Name: "slow reader", Offset: 50}, {Name: "another", Offset: 70}}, l.Holds(), "never back")
			h.Release()
			h.Release()
			require.Equal(t, int64(70), retained(t, l))
			other.Release()
			require.Equal(t, c.last, retained(t, l))
			require.Empty(t, l.Holds())
		})
	}
}

func TestAHoldKeepsNoMoreThanItsLimit(t *testing.T) {
	l := tenSegments(t, seglog.Options{})
	size, err := l.Size()
	require.NoError(t, err)
	small, err := l.Hold("small", 5, size*3/10)
	require.NoError(t, err)
	fits, err := l.Hold("fits", 85, size*3/10)
	require.NoError(t, err)
	require.Equal(t, int64(70), retained(t, l), "three tenths of the log stay, for the one that is lost too")
	require.True(t, small.Info().Lost)
	require.False(t, fits.Info().Lost)
	small.Release()
	require.Equal(t, int64(80), retained(t, l))
}

// Retention that ends before it removes anything has taken nothing from a hold.
func TestAHoldIsLostOnlyWhenSomethingWasRemoved(t *testing.T) {
	l := tenSegments(t, seglog.Options{})
	h, err := l.Hold("small", 5, 1)
	require.NoError(t, err)
	_, err = l.ApplyRetention(&countdown{Context: t.Context(), n: 3})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, l.Offsets().Start)
	require.False(t, h.Info().Lost)
	require.Positive(t, retained(t, l))
	require.True(t, h.Info().Lost)
}

// countdown is canceled when it has been asked n times.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

func TestAHoldStandsInNobodysWayButRetentions(t *testing.T) {
	l := tenSegments(t, seglog.Options{})
	_, err := l.Hold("reader", 35, 0)
	require.NoError(t, err)
	require.NoError(t, l.DeleteBefore(60))
	require.Equal(t, int64(60), l.Offsets().Start)
	require.NoError(t, l.TruncateTo(65))
}

func TestAHoldOutsideOfTheLogIsRefused(t *testing.T) {
	l := tenSegments(t, seglog.Options{})
	_, err := l.Hold("reader", 101, 0)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	_, err = l.Hold("reader", 0, -1)
	require.ErrorIs(t, err, seglog.ErrOption)
	closeLog(t, l)
	_, err = l.Hold("reader", 0, 0)
	require.ErrorIs(t, err, seglog.ErrClosed)
}
