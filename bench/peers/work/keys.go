package work

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// keyed is Batch with keys of which there are so many, at random. If there are as many
// as records each comes once.
func (s *Source) keyed(random *rand.Rand, number int64, n int, keys int64) []Record {
	batch := s.Batch(number, n)
	for i := range batch {
		k := random.Int64N(keys)
		copy(batch[i].Key[:8], "the key:")
		binary.BigEndian.PutUint64(batch[i].Key[8:], uint64(k))
	}
	return batch
}

// keysOf is the sequence of keys that a repetition puts.
func (t *task) keysOf() *rand.Rand { return rand.New(rand.NewPCG(t.Seed, 7)) }

// once: every key comes once, in the order of the records.
func (t *task) once() bool { return t.Keys >= t.Records }

func (t *task) keyedBatch(random *rand.Rand, n int64) []Record {
	batch := t.source.keyed(random, n, t.Batch, t.Keys)
	if t.once() {
		for i := range batch {
			binary.BigEndian.PutUint64(batch[i].Key[8:], uint64(n)+uint64(i))
		}
	}
	return batch
}

func (t *task) openKeys() (KeyStore, error) {
	if t.spec.OpenKeys == nil {
		return nil, lacking("keeps no keys")
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return nil, err
	}
	return t.spec.OpenKeys(t.Dir)
}

// fillKeys puts the records that compact cleans.
func fillKeys(t *task) error {
	s, err := t.openKeys()
	if err != nil {
		return err
	}
	random := t.keysOf()
	start := time.Now()
	for n := int64(0); n < t.Records; n += int64(t.Batch) {
		if err := s.Put(t.keyedBatch(random, n)); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	err = errors.Join(s.Settle(), s.Close())
	t.figures["s"] = time.Since(start).Seconds()
	return err
}

// compact measures how long it takes until only the last record of each key is left,
// and makes sure that it is.
func compact(t *task) error {
	s, err := t.openKeys()
	if err != nil {
		return err
	}
	return errors.Join(t.compact(s), s.Close())
}

func (t *task) compact(s KeyStore) error {
	start := time.Now()
	if err := s.Compact(); err != nil {
		return err
	}
	took := time.Since(start)
	t.measured()
	size, err := Usage(t.Dir)
	if err != nil {
		return err
	}
	t.figures["s"] = took.Seconds()
	t.figures["bytes"] = float64(size)
	last := map[uint64]int64{}
	random := t.keysOf()
	for n := int64(0); n < t.Records; n += int64(t.Batch) {
		for i, r := range t.keyedBatch(random, n) {
			last[binary.BigEndian.Uint64(r.Key[8:])] = n + int64(i)
		}
	}
	stale := 0
	err = s.Rest(func(r *Record) error {
		n, err := t.source.NumberOf(r)
		if err != nil {
			return err
		}
		k := binary.BigEndian.Uint64(r.Key[8:])
		want, ok := last[k]
		switch {
		case ok && n == want:
			delete(last, k)
		case ok && n < want:
			stale++
		default:
			return fmt.Errorf("key %d: record %d, want %d once", k, n, want)
		}
		return nil
	})
	if err == nil && len(last) > 0 {
		return fmt.Errorf("%d keys are lost", len(last))
	}
	t.figures["stale"] = float64(stale)
	return err
}

// commits measures how many offsets are committed a second by some groups at once.
func commits(t *task) error {
	if t.spec.OpenOffsets == nil {
		return lacking("keeps no offsets of consumers")
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return err
	}
	s, err := t.spec.OpenOffsets(t.Dir, t.Goroutines)
	if err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		counts = make([]int64, t.Goroutines)
		errs   = make([]error, t.Goroutines)
	)
	for g := range t.Goroutines { // the first commit of a group may make files
		if err := s.Commit(groupName(g), 0); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	start := time.Now()
	for g := range t.Goroutines {
		wg.Go(func() {
			counts[g], _, errs[g] = repeat(t.box(), 1<<62, func(i int64) error {
				return s.Commit(groupName(g), i+1)
			})
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	t.measured()
	if err := errors.Join(append(errs, s.Close())...); err != nil {
		return err
	}
	sum := int64(0)
	for _, c := range counts {
		sum += c
	}
	t.figures["ops/s"] = float64(sum) / elapsed.Seconds()
	if s, err = t.spec.OpenOffsets(t.Dir, 1); err != nil {
		return err
	}
	for g, c := range counts {
		at, err := s.Committed(groupName(g))
		if err != nil || at != c {
			return errors.Join(fmt.Errorf("%s is at %d, want %d", groupName(g), at, c), err, s.Close())
		}
	}
	return s.Close()
}

func groupName(i int) string { return fmt.Sprintf("group-%d", i) }
