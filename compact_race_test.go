package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// K021, row 340: while a log is compacted again and again it is appended to, rolls,
// and is read in every way there is. Run it with the race detector.
func TestAppendsAndReadsGoOnBesideACompaction(t *testing.T) {
	opts := compacted
	opts.SegmentBytes, opts.IndexIntervalBytes = 4000, 200
	opts.MaxOpenSegments = 3
	l := openLog(t, t.TempDir(), opts)
	const rounds, keys = 20, 17
	value := func(offset int64) string { return fmt.Sprintf("value %d of %s", offset, key(offset, keys)) }

	var appended atomic.Int64 // all below it are in the log
	done := make(chan struct{})
	var readers sync.WaitGroup
	check := func(r seglog.Record) bool {
		return r.Value != nil && string(r.Value) == value(r.Offset) && string(r.Key) == key(r.Offset, keys)
	}
	whileCompacting := func(read func(random *rand.Rand) error) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := read(random); err != nil {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	whileCompacting(func(*rand.Rand) error { // whole iterations have the last of each key
		end := appended.Load()
		seen := map[string]int64{}
		last := int64(-1)
		for r, err := range l.Records(context.Background(), 0, nil) {
			if err != nil {
				return err
			}
			if r.Offset <= last || !check(r) {
				return fmt.Errorf("offset %d behind %d: %s=%s", r.Offset, last, r.Key, r.Value)
			}
			last = r.Offset
			seen[string(r.Key)] = r.Offset
		}
		for o := max(0, end-keys); o < end; o++ {
			if got, ok := seen[key(o, keys)]; !ok || got < o {
				return fmt.Errorf("%s: last seen at %d, want at least %d", key(o, keys), got, o)
			}
		}
		return nil
	})
	whileCompacting(func(random *rand.Rand) error {
		end := appended.Load()
		if end == 0 {
			return nil
		}
		offset := random.Int64N(end)
		r, err := l.Get(offset)
		var gap *seglog.GapError
		switch {
		case errors.As(err, &gap) && gap.Next > offset && (end <= gap.Next || offset < end-keys):
			return nil
		case err != nil:
			return fmt.Errorf("get %d of %d: %w", offset, end, err)
		case !check(r):
			return fmt.Errorf("get %d: %s=%s", offset, r.Key, r.Value)
		}
		return nil
	})
	whileCompacting(func(random *rand.Rand) error {
		end := appended.Load()
		at, found, err := l.OffsetForTime(random.Int64N(end + 1))
		if err != nil || found && at.Timestamp != at.Offset+1 {
			return fmt.Errorf("offset for time: %v: %w", at, err)
		}
		_, err = l.Segments()
		if err == nil {
			_, err = l.Dirtiness()
		}
		return err
	})
	whileCompacting(func(random *rand.Rand) error {
		next := random.Int64N(appended.Load() + 1)
		for range 20 {
			res, err := l.Read(next, 900, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
			if err != nil {
				return err
			}
			next = res.NextOffset
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	followed := map[string]int64{}
	readers.Go(func() {
		for r, err := range l.Records(ctx, 0, &seglog.IterOptions{Follow: true}) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("follow: %v", err)
				}
				return
			}
			if !check(r) {
				t.Errorf("follow: offset %d: %s=%s", r.Offset, r.Key, r.Value)
			}
			followed[string(r.Key)] = r.Offset
			if r.Offset == rounds*50-1 {
				return
			}
		}
	})

	var writer sync.WaitGroup
	writer.Go(func() {
		for o := range int64(rounds * 50) {
			_, err := l.Append([]seglog.Record{{Timestamp: o + 1, Key: []byte(key(o, keys)), Value: []byte(value(o))}}, nil)
			if err != nil {
				t.Errorf("append: %v", err)
				return
			}
			appended.Store(o + 1)
		}
	})
	for i := range rounds {
		_, err := l.Compact(t.Context(), &seglog.CompactOptions{MapBytes: int64(100 + i%20*24), Full: i%7 == 0})
		require.NoError(t, err)
	}
	writer.Wait()
	close(done)
	_, err := l.Compact(t.Context(), nil)
	require.NoError(t, err)
	readers.Wait()
	cancel()
	for k, o := range followed {
		require.GreaterOrEqual(t, o, int64(rounds*50-keys), k)
	}
	require.Len(t, followed, keys)
	closeLog(t, l)
	requireSound(t, l.Dir())
}

func key(offset int64, keys int64) string { return fmt.Sprint("key ", offset%keys) }

// Truncation, removal and closing do not wait for a compaction to end, and end it.
func TestTruncationRemovalAndClosingEndACompaction(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(l *seglog.Log) error
		want error
	}{
		{"truncation", func(l *seglog.Log) error { return l.TruncateTo(90) }, seglog.ErrCompactionAborted},
		{"truncation of everything", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(10) }, seglog.ErrCompactionAborted},
		{"removal", func(l *seglog.Log) error { return l.DeleteBefore(5) }, seglog.ErrCompactionAborted},
		{"closing", func(l *seglog.Log) error { return l.Close() }, seglog.ErrClosed},
		{"a pause", func(l *seglog.Log) error { l.PauseCompaction(); return nil }, seglog.ErrCompactionPaused},
	} {
		t.Run(row.name, func(t *testing.T) {
			requireNoLeak(t)
			opts := compacted
			opts.SegmentBytes = 600
			l := openLog(t, t.TempDir(), opts)
			for i := range 100 {
				put(t, l, fmt.Sprint("k", i%10), fmt.Sprint("value ", i))
			}
			// At a byte a second it would take an hour.
			result, started := make(chan error), make(chan struct{})
			go func() {
				_, err := l.Compact(t.Context(), &seglog.CompactOptions{BytesPerSecond: 1, Progress: func(seglog.CompactProgress) { close(started) }})
				result <- err
			}()
			<-started
			require.NoError(t, row.do(l))
			require.ErrorIs(t, <-result, row.want)
			require.NotContains(t, fmt.Sprint(names(t, l.Dir())), ".cleaned")
		})
	}
}
