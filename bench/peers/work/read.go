package work

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// fill makes the log that others read: Records of them, appended without waiting for
// the disk, and closed.
func fill(t *task) error {
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	start := time.Now()
	for n := int64(0); n < t.Records; n += int64(t.Batch) {
		if _, err := l.Append(t.source.Batch(n, t.Batch)); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	t.figures["rec/s"] = float64(t.Records) / time.Since(start).Seconds()
	t.measured()
	size, err := Usage(t.Dir)
	t.figures["bytes/rec"] = float64(size) / float64(t.Records)
	return errors.Join(err, t.verify([]int64{t.Records}))
}

// reading opens the log that a fill made and closes it again.
func (t *task) reading(f func(Log) error) error {
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	return errors.Join(f(l), l.Close())
}

// gets measures look-ups at random offsets by some goroutines, in a warm store.
func gets(t *task) error {
	return t.reading(func(l Log) error {
		g, err := lacks[Getter](l)
		if err != nil {
			return err
		}
		if err := t.warm(g); err != nil {
			return err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := t.look(g, t.Goroutines, t.box()); err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		// To hundredths: there are always a few that have nothing to do with it.
		t.figures["allocs/op"] = math.Round(100*float64(after.Mallocs-before.Mallocs)/t.figures["ops"]) / 100
		return nil
	})
}

// warm reads some of all parts of the log, as far as it comes in four times the time of
// the measurement, and then at random: what is found, cached or mapped when it is first
// needed is so afterwards.
func (t *task) warm(g Getter) error {
	const step = 16
	var r Record
	reader := g.Reader()
	begin := time.Now()
	for offset := int64(0); offset < t.Records; offset += step {
		if err := reader.Get(offset, &r); err != nil {
			return fmt.Errorf("get %d: %w", offset, err)
		}
		if err := t.source.Check(&r, offset); err != nil {
			return err
		}
		if offset%(64*step) == 0 && time.Since(begin) > 4*t.box() {
			break
		}
	}
	return t.look(g, 1, t.box()/4)
}

// look gets random records and checks each. The Readers are made by it, and their
// allocations are counted, which is nothing beside those of many look-ups.
func (t *task) look(g Getter, goroutines int, box time.Duration) error {
	var (
		wg   sync.WaitGroup
		ops  = make([]int64, goroutines)
		took = make([]time.Duration, goroutines)
		errs = make([]error, goroutines)
	)
	for i := range goroutines {
		random := rand.New(rand.NewPCG(t.Seed, t.random.Uint64()))
		reader := g.Reader()
		wg.Go(func() {
			var r Record
			ops[i], took[i], errs[i] = repeat(box, 1<<62, func(int64) error {
				offset := random.Int64N(t.Records)
				if err := reader.Get(offset, &r); err != nil {
					return fmt.Errorf("get %d: %w", offset, err)
				}
				return t.source.Check(&r, offset)
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	rate, sum := 0.0, int64(0)
	for i := range goroutines {
		rate += float64(ops[i]) / took[i].Seconds()
		sum += ops[i]
	}
	t.figures["ops"], t.figures["ops/s"] = float64(sum), rate
	t.figures["ns/op"] = 1e9 / rate * float64(goroutines)
	return nil
}

// times measures look-ups by time.
func times(t *task) error {
	return t.reading(func(l Log) error {
		f, err := lacks[TimeFinder](l)
		if err != nil {
			return err
		}
		one := func(int64) error {
			n := t.random.Int64N(t.Records)
			want := n / recordsPerMs * recordsPerMs // the first one of that time
			offset, at, err := f.FirstAt(TimeOf(n))
			if err != nil {
				return err
			}
			if offset != want || at != TimeOf(n) {
				return fmt.Errorf("time %d: offset %d with time %d, want offset %d", TimeOf(n), offset, at, want)
			}
			return nil
		}
		if _, _, err := repeat(t.box()/2, 1<<62, one); err != nil {
			return err
		}
		ops, elapsed, err := repeat(t.box(), 1<<62, one)
		if err != nil {
			return err
		}
		t.figures["ns/op"] = float64(elapsed.Nanoseconds()) / float64(ops)
		return nil
	})
}

// scan reads the whole log, and again until the time is over. The first time is not
// counted, unless it takes longer than the time there is.
func scan(t *task) error {
	return t.reading(func(l Log) error {
		s, err := lacks[Scanner](l)
		if err != nil {
			return err
		}
		whole := func() (time.Duration, error) {
			offset := int64(0)
			start := time.Now()
			err := s.Scan(0, func(r *Record) error {
				if err := t.source.Check(r, offset); err != nil {
					return err
				}
				offset++
				return nil
			})
			if err == nil && offset != t.Records {
				err = fmt.Errorf("%d records, want %d", offset, t.Records)
			}
			return time.Since(start), err
		}
		took, err := whole()
		if err != nil {
			return err
		}
		rounds := int64(1)
		if took < t.box() {
			for rounds, took = 0, 0; took < t.box() && err == nil; rounds++ {
				var more time.Duration
				more, err = whole()
				took += more
			}
		}
		t.figures["rec/s"] = float64(rounds*t.Records) / took.Seconds()
		t.figures["MB/s"] = t.figures["rec/s"] * float64(KeyBytes+t.Value) / 1e6
		return err
	})
}

// drop measures how long it takes to give up half of the log, and how much of the disk
// is free then.
func drop(t *task) error {
	before, err := Usage(t.Dir)
	if err != nil {
		return err
	}
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	return errors.Join(t.drop(l, before), l.Close())
}

func (t *task) drop(l Log, before int64) error {
	d, err := lacks[Dropper](l)
	if err != nil {
		return err
	}
	half := t.Records / 2
	start := time.Now()
	if err := d.DropBefore(half); err != nil {
		return err
	}
	t.figures["ms"] = ms(time.Since(start))
	if f, ok := l.(Freer); ok {
		if err := f.Free(); err != nil {
			return err
		}
	}
	t.figures["ms freed"] = ms(time.Since(start))
	after, err := Usage(t.Dir)
	if err != nil {
		return err
	}
	if t.figures["freed"] = float64(before-after) / float64(before) * 100; t.figures["freed"] < 10 {
		delete(t.figures, "ms freed") // it is not free
	}
	t.measured()
	first, next, err := l.Bounds()
	if err != nil {
		return err
	}
	if first != half || next != t.Records {
		return fmt.Errorf("offsets %d to %d after the drop, want %d to %d", first, next, half, t.Records)
	}
	g, ok := l.(Getter)
	if !ok {
		return nil
	}
	var r Record
	reader := g.Reader()
	if err := reader.Get(half-1, &r); err == nil {
		return fmt.Errorf("record %d is still there", half-1)
	}
	for _, offset := range []int64{half, half + 1, t.Records - 1} {
		if err := reader.Get(offset, &r); err != nil {
			return fmt.Errorf("get %d after the drop: %w", offset, err)
		}
		if err := t.source.CheckAll(&r, offset); err != nil {
			return err
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
