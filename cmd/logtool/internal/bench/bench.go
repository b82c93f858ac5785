// Package bench measures a log: how long its look-ups take, how fast it is read through,
// and how fast the disk takes appends of its records.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seglog/seglog"
)

// Options say what is measured, and how. All but Only and Started have to be set.
type Options struct {
	// Time is how long each workload runs. One that fills the disk ends at maxAppended.
	Time time.Duration
	// Goroutines is how many do the work at once, on one log. A scan is one's.
	Goroutines int
	// Sample is how many records are drawn to be looked up.
	Sample int
	// Seed makes the same draws again.
	Seed uint64
	// Scratch is a directory in which logs are made that are appended to. It is the disk
	// of that which is measured.
	Scratch string
	// Only chooses workloads by their names; nil is all.
	Only func(name string) bool
	// Started is told of each that begins.
	Started func(name string)
}

// A Workload is one way to use a log.
type Workload struct{ Name, What string }

// Workloads are all there are, in the order in which they run.
func Workloads() []Workload {
	var all []Workload
	for _, w := range workloads {
		all = append(all, w.Workload)
	}
	return all
}

// Names are those of the workloads.
func Names() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}

// A Result is one workload's.
type Result struct {
	Workload
	// Ops is how many look-ups, appends or reads there were, and Records and Bytes what
	// they found or stored: bytes of keys and values.
	Ops, Records, Bytes int64
	Elapsed             time.Duration
	// Latency is that of each operation, in nanoseconds; nil where there are no single
	// ones. A look at the clock is in each.
	Latency *hdrhistogram.Histogram
}

// PerSecond is what there was of n in a second.
func (r *Result) PerSecond(n int64) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(n) / r.Elapsed.Seconds()
}

type workload struct {
	Workload
	run func(ctx context.Context, b *bench, r *Result) error
}

var workloads = slices.Concat([]workload{
	{Workload{"get-hot", fmt.Sprintf("by offset, %d records again and again", hotRecords)}, get(hot)},
	{Workload{"get-random", "by offset, each record as likely as any"}, get(random)},
	{Workload{"get-zipf", "by offset, some records far likelier: Zipf, s = 1.1"}, get(zipf)},
	{Workload{"time-hot", fmt.Sprintf("by time, %d times again and again", hotRecords)}, byTime(hot)},
	{Workload{"time-random", "by time, each as likely as any"}, byTime(random)},
	{Workload{"time-zipf", "by time, some far likelier: Zipf, s = 1.1"}, byTime(zipf)},
	{Workload{"scan", "all records in order, checksums checked"}, scan},
}, appends)

// bench is one run.
type bench struct {
	opts    Options
	log     *seglog.Log
	targets []target
	records []seglog.Record // to append
}

// Run measures l, to which nothing is written. Each answer is checked; one that is wrong
// is ErrWrong. l must not lose records meanwhile.
func Run(ctx context.Context, l *seglog.Log, o Options) ([]Result, error) {
	b := &bench{opts: o, log: l}
	var results []Result
	for _, w := range workloads {
		if o.Only != nil && !o.Only(w.Name) {
			continue
		}
		if o.Started != nil {
			o.Started(w.Name)
		}
		if err := b.draw(ctx); err != nil {
			return results, err
		}
		r := Result{Workload: w.Workload}
		if err := w.run(ctx, b, &r); err != nil {
			return results, fmt.Errorf("%s: %w", w.Name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// ErrWrong is an answer that is not the one the log gave before.
var ErrWrong = errors.New("wrong answer")

// ErrEmpty is a log without a record.
var ErrEmpty = errors.New("there is no record to look up")

// op is one operation; it returns how many records and bytes it was about.
type op func() (records, bytes int64, err error)

// measure lets each goroutine do what begin gives it, until time is over, or most
// bytes have been written, 0 being any number.
func (b *bench) measure(ctx context.Context, r *Result, most int64, begin func(worker int) op) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parts := make([]Result, b.opts.Goroutines)
	ops := make([]op, len(parts))
	for i := range parts {
		ops[i], parts[i].Latency = begin(i), newHistogram()
	}
	var workers sync.WaitGroup
	began := time.Now()
	for i := range parts {
		workers.Go(func() {
			if err := parts[i].repeat(ctx, ops[i], began.Add(b.opts.Time), most/int64(len(parts))); err != nil {
				stop(err)
			}
		})
	}
	workers.Wait()
	r.Elapsed = time.Since(began)
	r.Latency = newHistogram()
	for _, part := range parts {
		r.Ops, r.Records, r.Bytes = r.Ops+part.Ops, r.Records+part.Records, r.Bytes+part.Bytes
		r.Latency.Merge(part.Latency)
	}
	return context.Cause(ctx)
}

// repeat does it until the deadline, and once in any case. The clock is read once for
// each: the end of one is the beginning of the next.
func (r *Result) repeat(ctx context.Context, do op, deadline time.Time, most int64) error {
	for last := time.Now(); r.Ops == 0 || last.Before(deadline) && (most == 0 || r.Bytes < most); {
		if r.Ops%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		records, bytes, err := do()
		if err != nil {
			return err
		}
		now := time.Now()
		// Beyond an hour it is an hour.
		r.Latency.RecordValue(min(int64(now.Sub(last)), int64(time.Hour)))
		last = now
		r.Ops, r.Records, r.Bytes = r.Ops+1, r.Records+records, r.Bytes+bytes
	}
	return nil
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }

// Clock is how long a look at the clock takes, which is part of each latency.
func Clock() time.Duration {
	const looks = 10_000
	began := time.Now()
	last := began
	for range looks {
		last = time.Now()
	}
	return last.Sub(began) / looks
}

func (b *bench) rand(worker int) *rand.Rand {
	return rand.New(rand.NewPCG(b.opts.Seed, uint64(worker)))
}
