package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seglog/seglog"
)

// target is a record to look up, and what is known of it.
type target struct {
	offset, timestamp int64
	size              int // of key and value
}

// hotRecords is how many there are in the hot workloads: few enough for any cache.
const hotRecords = 1000

// draw chooses the targets, unless that was done: offsets at random, and of each the
// first record from there on, as a reader would come upon it.
func (b *bench) draw(ctx context.Context) error {
	if b.targets != nil {
		return nil
	}
	bounds, random := b.log.Offsets(), b.rand(-1)
	if bounds.Start == bounds.End {
		return ErrEmpty
	}
	for range b.opts.Sample {
		from := bounds.Start + random.Int64N(bounds.End-bounds.Start)
		t, found, err := firstFrom(ctx, b.log, from)
		if err != nil {
			return err
		}
		if found {
			b.targets = append(b.targets, t)
		}
	}
	if b.targets == nil { // all offsets drawn were beyond the last record
		t, found, err := firstFrom(ctx, b.log, bounds.Start)
		if err != nil {
			return err
		}
		if !found {
			return ErrEmpty
		}
		b.targets = append(b.targets, t)
	}
	return nil
}

func firstFrom(ctx context.Context, l *seglog.Log, offset int64) (t target, found bool, err error) {
	for r, err := range l.Records(ctx, offset, nil) {
		return target{r.Offset, r.Timestamp, size(&r)}, err == nil, err
	}
	return target{}, false, nil
}

func size(r *seglog.Record) int { return len(r.Key) + len(r.Value) }

// choice draws numbers below n.
type choice func(r *rand.Rand, n int) func() int

func hot(r *rand.Rand, n int) func() int {
	return func() int { return r.IntN(min(n, hotRecords)) }
}

func random(r *rand.Rand, n int) func() int {
	return func() int { return r.IntN(n) }
}

// zipf prefers the first ones. Targets are in no order, so that these lie anywhere.
func zipf(r *rand.Rand, n int) func() int {
	z := rand.NewZipf(r, 1.1, 1, uint64(n-1))
	return func() int { return int(z.Uint64()) }
}

// chosen yields targets, drawn in advance: drawing takes as long as some look-ups do.
func (b *bench) chosen(worker int, c choice) func() *target {
	draw := c(b.rand(worker), len(b.targets))
	order := make([]int32, 1<<16)
	for i := range order {
		order[i] = int32(draw())
	}
	i := 0
	return func() *target {
		i++
		return &b.targets[order[i&(len(order)-1)]]
	}
}

// get looks records up by offset. Each is looked up once before: how long the first look
// takes is a matter of the disk.
func get(c choice) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		lookUp := func(t *target, buf []byte) ([]byte, error) {
			rec, buf, err := b.log.GetBuffer(t.offset, buf)
			if got := (target{rec.Offset, rec.Timestamp, size(&rec)}); err == nil && got != *t {
				err = fmt.Errorf("%w: offset %d of time %d with %d bytes, want offset %d of time %d with %d",
					ErrWrong, got.offset, got.timestamp, got.size, t.offset, t.timestamp, t.size)
			}
			return buf, err
		}
		if err := b.each(ctx, func(t *target) error { _, err := lookUp(t, nil); return err }); err != nil {
			return err
		}
		return b.measure(ctx, r, 0, func(worker int) op {
			next := b.chosen(worker, c)
			var buf []byte
			return func() (int64, int64, error) {
				t := next()
				var err error
				buf, err = lookUp(t, buf)
				return 1, int64(t.size), err
			}
		})
	}
}

// byTime looks up the first record that is not older than a target.
func byTime(c choice) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		lookUp := func(t *target) error {
			at, found, err := b.log.OffsetForTime(max(t.timestamp, 0))
			if err == nil && (!found || at.Offset > t.offset || at.Timestamp < t.timestamp) {
				err = fmt.Errorf("%w: found %v, offset %d of time %d, want one from time %d on, up to offset %d",
					ErrWrong, found, at.Offset, at.Timestamp, t.timestamp, t.offset)
			}
			return err
		}
		if err := b.each(ctx, lookUp); err != nil {
			return err
		}
		return b.measure(ctx, r, 0, func(worker int) op {
			next := b.chosen(worker, c)
			return func() (int64, int64, error) { return 1, 0, lookUp(next()) }
		})
	}
}

func (b *bench) each(ctx context.Context, do func(*target) error) error {
	for i := range b.targets {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(&b.targets[i]); err != nil {
			return err
		}
	}
	return nil
}
