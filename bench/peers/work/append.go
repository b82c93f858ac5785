package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// verifyAtMost is how many records of a log are read again after it was appended to,
// from each of its ends.
const verifyAtMost = 200_000

// appends measures the rate of appends by some goroutines. Each numbers its own records.
func appends(t *task) error {
	l, err := t.open(t.Sync, t.Goroutines)
	if err != nil {
		return err
	}
	var (
		wg      sync.WaitGroup
		counts  = make([]int64, t.Goroutines) // appends
		errs    = make([]error, t.Goroutines)
		sources = make([]*Source, t.Goroutines)
	)
	sources[0] = t.source
	for i := 1; i < t.Goroutines; i++ {
		sources[i] = t.source.Sibling(t.Batch)
	}
	limit := max(1, t.MaxBytes/int64((KeyBytes+t.Value)*t.Batch*t.Goroutines))
	start := time.Now()
	for w := range t.Goroutines {
		wg.Go(func() {
			n := int64(w) << writerShift
			counts[w], _, errs[w] = repeat(t.box(), limit, func(int64) error {
				_, err := l.Append(sources[w].Batch(n, t.Batch))
				n += int64(t.Batch)
				return err
			})
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, l.Close())
	}
	total := int64(0)
	for i := range counts {
		counts[i] *= int64(t.Batch)
		total += counts[i]
	}
	t.figures["rec/s"] = float64(total) / elapsed.Seconds()
	t.figures["records"] = float64(total)
	t.measured()
	if err := l.Close(); err != nil {
		return err
	}
	return t.verify(counts)
}

// writerShift is where the number of its writer begins in that of a record.
const writerShift = 36

// verify opens a log again, and looks whether it holds the records that each writer has
// appended, and in their order. counts is how many each has.
func (t *task) verify(counts []int64) error {
	l, err := t.open(false, 1)
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	return errors.Join(t.verifyLog(l, counts), l.Close())
}

func (t *task) verifyLog(l Log, counts []int64) error {
	first, next, err := l.Bounds()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, c := range counts {
		total += c
	}
	if first != 0 || next != total {
		return fmt.Errorf("offsets %d to %d, want 0 to %d", first, next, total)
	}
	s, ok := l.(Scanner)
	if !ok {
		return nil
	}
	seen := make([]int64, len(counts))
	offset := int64(0)
	each := func(r *Record) error {
		n, err := t.source.NumberOf(r)
		if err != nil {
			return err
		}
		writer := n >> writerShift
		if writer < 0 || writer >= int64(len(counts)) || r.Offset != offset {
			return fmt.Errorf("record %d at offset %d, want offset %d", n, r.Offset, offset)
		}
		if want := writer<<writerShift | seen[writer]; n != want {
			return fmt.Errorf("record %d, want %d", n, want)
		}
		seen[writer]++
		offset++
		if offset > verifyAtMost && len(counts) == 1 {
			return errEnough
		}
		return t.source.CheckNumber(r, n)
	}
	if err := s.Scan(0, each); err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read again: %w", err)
	}
	if offset > verifyAtMost {
		return t.verifyEnd(l, total)
	}
	for w := range seen {
		if seen[w] != counts[w] {
			return fmt.Errorf("%d records of writer %d, want %d", seen[w], w, counts[w])
		}
	}
	return nil
}

// errEnough ends a scan before its time.
var errEnough = errors.New("enough")

// verifyEnd reads the last records of a log of one writer, where it can be read from
// somewhere.
func (t *task) verifyEnd(l Log, total int64) error {
	if _, ok := l.(Getter); !ok {
		return nil
	}
	offset := max(0, total-1000)
	err := l.(Scanner).Scan(offset, func(r *Record) error {
		offset++
		return t.source.CheckAll(r, offset-1)
	})
	if err == nil && offset != total {
		return fmt.Errorf("the end is at %d, want %d", offset, total)
	}
	return err
}

// latency measures each append.
func latency(t *task) error {
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	n, err := t.timed(l, 0)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	t.measured()
	if err := l.Close(); err != nil {
		return err
	}
	return t.verify([]int64{n})
}

// timed appends single records from a number on, and returns the one behind the last.
func (t *task) timed(l Log, n int64) (int64, error) {
	var h Histogram
	limit := t.MaxBytes / int64(KeyBytes+t.Value)
	_, _, err := repeat(t.box(), limit, func(int64) error {
		batch := t.source.Batch(n, 1)
		n++
		start := time.Now()
		_, err := l.Append(batch)
		h.Add(time.Since(start))
		return err
	})
	t.quantiles(&h)
	return n, err
}

func (t *task) quantiles(h *Histogram) {
	t.figures["p50"] = float64(h.Quantile(0.5).Nanoseconds())
	t.figures["p99"] = float64(h.Quantile(0.99).Nanoseconds())
	t.figures["p99.9"] = float64(h.Quantile(0.999).Nanoseconds())
	t.figures["count"] = float64(h.Count())
}

// latencyBesideCleaner is latency while the log is compacted over and over.
func latencyBesideCleaner(t *task) error {
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return err
	}
	l, err := t.spec.Open(t.Dir, Options{Compacted: true, Writers: 1, SegmentBytes: 16 << 20})
	if err != nil {
		return err
	}
	return errors.Join(t.besideCleaner(l), l.Close())
}

func (t *task) besideCleaner(l Log) error {
	c, err := lacks[Cleaner](l)
	if err != nil {
		return err
	}
	for n := int64(0); n < t.Records; n += 100 {
		if _, err := l.Append(t.source.keyed(t.random, n, 100, t.Keys)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		cleaner  sync.WaitGroup
		cleanErr error
		rounds   atomic.Int64
	)
	cleaner.Go(func() {
		for ctx.Err() == nil && cleanErr == nil {
			if cleanErr = c.Clean(ctx); cleanErr == nil {
				rounds.Add(1)
			}
		}
	})
	_, err = t.timed(l, t.Records)
	cancel()
	cleaner.Wait()
	if errors.Is(cleanErr, context.Canceled) {
		cleanErr = nil
	}
	t.figures["rounds"] = float64(rounds.Load())
	return errors.Join(err, cleanErr)
}

// follow measures the time from before an append until another goroutine, which waits
// at the end of the log, has the record.
func follow(t *task) error {
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	return errors.Join(t.follow(l), l.Close())
}

func (t *task) follow(l Log) error {
	f, err := lacks[Follower](l)
	if err != nil {
		return err
	}
	// A few go first, so that both sides are there.
	const warm = 100
	var (
		ctx, cancel = context.WithCancel(context.Background())
		delivered   = make(chan time.Time, 1)
		h           Histogram
		following   sync.WaitGroup
		followErr   error
		offset      int64
		check       = NewSource(t.Value) // the other belongs to the appending goroutine
	)
	defer cancel()
	following.Go(func() {
		followErr = f.Follow(ctx, 0, func(r *Record) error {
			now := time.Now()
			if err := check.CheckAll(r, offset); err != nil {
				return err
			}
			offset++
			delivered <- now
			return nil
		})
		if ctx.Err() == nil {
			close(delivered)
		}
	})
	begin := time.Now()
	n := int64(0)
	for ; err == nil && (n < 2*warm || time.Since(begin) < t.box()); n++ {
		start := time.Now()
		if _, err = l.Append(t.source.Batch(n, 1)); err != nil {
			break
		}
		at, ok := <-delivered
		if !ok {
			err = errors.New("the follower has ended")
			break
		}
		if n >= warm {
			h.Add(at.Sub(start))
		}
		time.Sleep(50 * time.Microsecond) // so that it waits again
	}
	cancel()
	following.Wait()
	if err := errors.Join(err, followErr); err != nil {
		return err
	}
	t.quantiles(&h)
	return nil
}
