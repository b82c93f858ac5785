package seglog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seglog/seglog/internal/vfs"
)

// LatestByKey returns the last committed record with the given key, and whether there
// is one; a tombstone, with a null value, is one. The caller owns it. Records of
// aborted transactions do not count, nor does what lies beyond the last stable offset.
// The answer was right at some time during the call, whatever else goes on: also in a
// read-only log beside a process that compacts it, where each call looks whether the
// files of the segments are still the same, and refreshes the log if not. What was
// appended since such a log was refreshed is not known to it.
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

func (l *Log) latestByKey(ctx context.Context, key []byte) (last Record, found bool, err error) {
	err = l.steadily(ctx, func() error {
		last, found, err = l.latestBelow(ctx, key, l.limit(bound{isolation: ReadCommitted}))
		return err
	})
	return last, found, err
}

// steadily has read look at the log, up to what is its limit then, and look again if
// cleaned segments have taken the place of others since before it asked for that: what
// it has found may have been superseded, and what supersedes it been compacted away for
// something above the limit, before it was looked for.
func (l *Log) steadily(ctx context.Context, read func() error) error {
	for {
		before, err := l.beSteady()
		if err != nil {
			return err
		}
		err = read()
		after, serr := l.steady()
		if serr != nil {
			return serr
		}
		if after.same(&before) || err != nil && !errors.Is(err, ErrOffsetOutOfRange) && !errors.Is(err, ErrTruncated) {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
}

// steady is by what a log is known to have no other records than before, but for those
// that were appended. A log knows what it does itself. Of a read-only one that is in the
// hands of another process the files tell.
type steady struct {
	swaps, generation, start int64
	files                    []segmentFile // by name
}

type segmentFile struct {
	name string
	info fs.FileInfo
}

func (l *Log) steady() (now steady, err error) {
	if l.opts.ReadOnly {
		now.files, err = l.segmentFiles()
	}
	now.swaps, now.generation, now.start = l.swaps.Load(), l.generation.Load(), l.start.Load()
	return now, err
}

// beSteady is steady before a log is read. A read-only one is refreshed if its files are
// not those of the last time: what it has open may be older.
func (l *Log) beSteady() (steady, error) {
	now, err := l.steady()
	if !l.opts.ReadOnly || err != nil {
		return now, err
	}
	if before := l.steadied.Load(); before == nil || !now.same(before) {
		if err := l.Refresh(); err != nil {
			return now, err
		}
		now.generation, now.start = l.generation.Load(), l.start.Load()
		l.steadied.Store(&now)
	}
	_, err = l.LastStableOffset() // it finds out now
	return now, err
}

// same reports whether s is still as before. The last segment of before may have grown,
// and others been begun behind it.
func (s *steady) same(before *steady) bool {
	if s.swaps != before.swaps || s.generation != before.generation || s.start != before.start || len(s.files) < len(before.files) {
		return false
	}
	for i, was := range before.files {
		is := s.files[i]
		grown := i+1 == len(before.files)
		if is.name != was.name || !vfs.SameFile(is.info, was.info) || !grown && !is.info.ModTime().Equal(was.info.ModTime()) ||
			is.info.Size() < was.info.Size() || !grown && is.info.Size() > was.info.Size() {
			return false
		}
	}
	return true
}

// segmentFiles are the log files of a directory, and those that are about to take the
// place of others.
func (l *Log) segmentFiles() ([]segmentFile, error) {
	found, err := l.list()
	if err != nil {
		return nil, err
	}
	var all []segmentFile
	for _, f := range append(found.live, found.swap...) {
		if !isLog(f) {
			continue
		}
		info, err := l.opts.FS.Stat(filepath.Join(l.dir, f.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed, or renamed, this moment
		}
		if err != nil {
			return nil, err
		}
		all = append(all, segmentFile{f.Name, info})
	}
	slices.SortFunc(all, func(a, b segmentFile) int { return cmp.Compare(a.name, b.name) })
	return all, nil
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
// costs no more than Log.Get, and in a read-only log a look at each segment's file. It
// reads the log once when it is first asked, and from
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
	return l.steadily(ctx, func() error {
		if generation := l.generation.Load(); generation != k.generation {
			clear(k.offsets)
			k.generation, k.next, k.full = generation, 0, false
		}
		return k.take(ctx, max(k.next, l.start.Load()), l.limit(bound{isolation: ReadCommitted}))
	})
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
