package seglog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
)

// LatestByKey returns the last committed record with the given key, and whether there
// is one; a tombstone, with a null value, is one. The caller owns it. Records of
// aborted transactions do not count, nor does what lies beyond the last stable offset.
// The answer was right at some time during the call, whatever else goes on.
//
// The log has no index of keys. It is read backwards, a segment at a time and each from
// front to back, down to the segment that has the key: a key that was written lately
// is found in the active segment, one that is not there costs reading the whole log.
// Memory is that of one record. See KeyTable for who asks often.
func (l *Log) LatestByKey(ctx context.Context, key []byte) (Record, bool, error) {
	r, found, err := l.latestByKey(ctx, key)
	if err != nil {
		return Record{}, false, fmt.Errorf("latest by key: %w", err)
	}
	return r, found, nil
}

func (l *Log) latestByKey(ctx context.Context, key []byte) (Record, bool, error) {
	if _, err := l.LastStableOffset(); err != nil { // a read-only log finds out now
		return Record{}, false, err
	}
	for {
		swaps, generation := l.swaps.Load(), l.generation.Load()
		upper := l.limit(bound{isolation: ReadCommitted})
		r, found, err := l.latestBelow(ctx, key, upper)
		if l.swaps.Load() != swaps || l.generation.Load() != generation {
			// What was found may have been superseded, and what supersedes it been
			// compacted away for something above upper, before it was looked for.
			if err == nil || errors.Is(err, ErrOffsetOutOfRange) || errors.Is(err, ErrTruncated) {
				if cause := context.Cause(ctx); cause != nil {
					return Record{}, false, cause
				}
				continue
			}
		}
		return r, found, err
	}
}

// latestBelow looks for the last record with key below upper.
func (l *Log) latestBelow(ctx context.Context, key []byte, upper int64) (last Record, found bool, err error) {
	for set, to := l.set.Load(), upper; to > l.start.Load(); {
		s := set.floor(to - 1)
		if s == nil {
			break
		}
		from := max(s.Base(), l.start.Load())
		last, found, err = l.latestWithin(ctx, key, from, to)
		if errors.Is(err, ErrOffsetOutOfRange) && l.start.Load() > from {
			continue // retention came in between: what is left of the segment
		}
		if err != nil || found {
			return last, found, err
		}
		to = from
	}
	return Record{}, false, nil
}

func (l *Log) latestWithin(ctx context.Context, key []byte, from, to int64) (last Record, found bool, err error) {
	var buf []byte
	for r, err := range l.Records(ctx, from, &IterOptions{To: to, Isolation: ReadCommitted}) {
		if err != nil {
			return Record{}, false, err
		}
		if r.Key != nil && bytes.Equal(r.Key, key) {
			last, buf = r.CloneInto(buf)
			found = true
		}
	}
	return last, found, nil
}

// A KeyTable remembers where the last record of each key is, so that looking one up
// costs no more than Log.Get. It reads the log once when it is first asked, and from
// then on what was appended since it was asked last. It is safe for concurrent use;
// one look-up is done at a time.
//
// Of a key it keeps a hash of 16 bytes and an offset, about 60 bytes in all. Those that
// came first have room; of a key that has none it knows only that it may be there, and
// looks for it as Log.LatestByKey does. No answer depends on the hash alone: the key of
// the record is compared.
type KeyTable struct {
	log   *Log
	limit int

	mu         sync.Mutex
	seeds      [2]maphash.Seed
	offsets    map[[2]uint64]int64
	full       bool  // there are keys that had no room
	next       int64 // all below it is in the table
	generation int64 // of the log, when it was
}

// keyTableEntry is about what an entry of a map takes, at its worst load.
const keyTableEntry = 60

// NewKeyTable returns a table for the keys of a log that takes about so many bytes.
func NewKeyTable(l *Log, budget int64) *KeyTable {
	return &KeyTable{
		log: l, limit: int(max(0, budget/keyTableEntry)), offsets: map[[2]uint64]int64{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

// Latest is Log.LatestByKey. The first call reads the whole log.
func (k *KeyTable) Latest(ctx context.Context, key []byte) (Record, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.follow(ctx); err != nil {
		return Record{}, false, fmt.Errorf("latest by key: %w", err)
	}
	h := k.hash(key)
	offset, known := k.offsets[h]
	if !known && !k.full {
		return Record{}, false, nil
	}
	if known {
		r, err := k.log.Get(offset)
		if err == nil && r.Key != nil && bytes.Equal(r.Key, key) {
			return r, true, nil
		}
		if err != nil && !errors.Is(err, ErrNoRecord) && !errors.Is(err, ErrOffsetOutOfRange) {
			return Record{}, false, fmt.Errorf("latest by key: %w", err)
		}
	}
	// No room for the key, two keys of one hash, or the record is gone: a tombstone
	// whose time had come, or superseded this moment.
	r, found, err := k.log.LatestByKey(ctx, key)
	if err == nil && !found && !k.full {
		delete(k.offsets, h)
	}
	return r, found, err
}

// follow takes in what was appended since. After a truncation it begins anew.
func (k *KeyTable) follow(ctx context.Context) error {
	l := k.log
	if _, err := l.LastStableOffset(); err != nil {
		return err
	}
	for {
		if generation := l.generation.Load(); generation != k.generation {
			clear(k.offsets)
			k.generation, k.next, k.full = generation, 0, false
		}
		from := max(k.next, l.start.Load())
		to := l.limit(bound{isolation: ReadCommitted})
		err := k.take(ctx, from, to)
		switch {
		case (errors.Is(err, ErrTruncated) || err == nil) && l.generation.Load() != k.generation:
		case errors.Is(err, ErrOffsetOutOfRange) && l.start.Load() > from:
		default:
			return err
		}
	}
}

func (k *KeyTable) take(ctx context.Context, from, to int64) error {
	if from >= to {
		return nil
	}
	for r, err := range k.log.Records(ctx, from, &IterOptions{To: to, Isolation: ReadCommitted}) {
		if err != nil {
			return err
		}
		k.next = r.Offset + 1
		if r.Key == nil {
			continue
		}
		h := k.hash(r.Key)
		if _, known := k.offsets[h]; !known && len(k.offsets) >= k.limit {
			k.full = true
			continue
		}
		k.offsets[h] = r.Offset
	}
	k.next = max(k.next, to)
	return nil
}

func (k *KeyTable) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(k.seeds[0], key), maphash.Bytes(k.seeds[1], key)}
}
