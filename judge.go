package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/segment"
)

// directory is what a partition directory holds, after leftovers of a crash
// were judged.
type directory struct {
	bases   []int64 // of the segments, ascending
	suffix  map[int64]string
	orphans []layout.File // index files whose log is gone, without a sign of why
}

// around returns the bases of the segments below and above an offset that is none.
func (d *directory) around(offset int64) (below, above int64, between bool) {
	i, _ := slices.BinarySearch(d.bases, offset)
	if i == 0 || i == len(d.bases) {
		return 0, 0, false
	}
	return d.bases[i-1], d.bases[i], true
}

// listing is the files of a partition directory that are ours, by state.
type listing struct {
	live, deleted, cleaned, swap, temp []layout.File
}

func (l *Log) list() (listing, error) {
	var found listing
	entries, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return found, err
	}
	for _, e := range entries {
		f, ok := layout.ParseFile(e.Name())
		if !ok || !l.isFile(e) {
			continue // not ours: never read, moved or deleted
		}
		switch f.State {
		case layout.Live:
			if f.Kind.Segment() {
				found.live = append(found.live, f)
			}
		case layout.Deleted:
			found.deleted = append(found.deleted, f)
		case layout.Cleaned:
			found.cleaned = append(found.cleaned, f)
		case layout.Swap:
			found.swap = append(found.swap, f)
		case layout.Temp:
			found.temp = append(found.temp, f)
		}
	}
	return found, nil
}

// isFile reports whether an entry is a file, or a link to one: an operator may
// have moved a segment to another disk.
func (l *Log) isFile(e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	fi, err := l.opts.FS.Stat(filepath.Join(l.dir, e.Name()))
	return err == nil && fi.Mode().IsRegular()
}

// verdict is what to do with the files of a directory. Kafka's LogLoader.java
// decides the same way: leftovers are judged as a set, never file by file.
type verdict struct {
	remove []layout.File // leftovers, and what a swap replaces
	rename []layout.File // swap files that count
	keep   []layout.File // live files that stay
}

// decide judges a listing. covered tells the offsets [from, to) that the given
// swap logs hold.
//
// A .cleaned file is never complete, and its presence means that the renames
// from .cleaned to .swap, done from the last segment down, had not ended: then a
// .swap at or above it belongs to the same unfinished round. Otherwise the .swap
// files are the round's whole outcome and replace what they cover.
func decide(found listing, covered func(swap []layout.File) (from, to int64, err error)) (verdict, error) {
	var v verdict
	v.remove = append(v.remove, found.deleted...)
	v.remove = append(v.remove, found.cleaned...)
	v.remove = append(v.remove, found.temp...)
	unfinished := int64(-1)
	for _, f := range found.cleaned {
		if unfinished < 0 || f.Base < unfinished {
			unfinished = f.Base
		}
	}
	for _, f := range found.swap {
		if unfinished >= 0 && f.Base >= unfinished {
			v.remove = append(v.remove, f)
		} else {
			v.rename = append(v.rename, f)
		}
	}
	var from, to int64
	if slices.ContainsFunc(v.rename, isLog) {
		var err error
		if from, to, err = covered(v.rename); err != nil {
			return v, err
		}
	}
	for _, f := range found.live {
		if f.Base >= from && f.Base < to {
			v.remove = append(v.remove, f)
		} else {
			v.keep = append(v.keep, f)
		}
	}
	return v, nil
}

func isLog(f layout.File) bool { return f.Kind == layout.Log }

// covered is the range of offsets of the swap logs. One without a batch replaces
// its own base all the same.
func (l *Log) covered(swap []layout.File) (from, to int64, err error) {
	from, to = int64(1<<63-1), 0
	for _, f := range swap {
		if !isLog(f) {
			continue
		}
		o := l.segmentOptions()
		o.ReadOnly, o.Suffix = true, layout.SwapSuffix
		next, err := endOf(segment.Open(l.dir, f.Base, o))
		if err != nil {
			return 0, 0, err
		}
		from, to = min(from, f.Base), max(to, next, f.Base+1)
	}
	return from, to, nil
}

// endOf is the last offset of a segment + 1, read from its headers.
func endOf(s *segment.Segment) (int64, error) {
	defer s.Retire()
	if err := s.Acquire(); err != nil {
		return 0, err
	}
	defer s.Release()
	var c segment.Scanner
	c.Reset(s, 0, s.View().Size)
	next := s.Base()
	for {
		h, err := c.Header()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		next = h.LastOffset + 1
		c.Advance()
	}
}

// judge carries the verdict out and returns the segments that remain.
func (l *Log) judge() (directory, error) {
	found, err := l.list()
	if err != nil {
		return directory{}, err
	}
	v, err := decide(found, l.covered)
	if err != nil {
		return directory{}, fmt.Errorf("judge leftovers: %w", err)
	}
	dir := v.directory()
	lost, err := l.findMissing(&dir)
	if err != nil {
		return directory{}, err
	}
	for _, f := range orphans(v) {
		if !slices.Contains(lost, f) {
			v.remove = append(v.remove, f)
		}
	}
	// Without the .cleaned files beside it a .swap that does not count would, and
	// without its .swap a replaced file would: the order must be that on the disk.
	if err := l.removeFiles(v.remove, isSwap); err != nil {
		return directory{}, err
	}
	if err := l.removeFiles(v.remove, func(f layout.File) bool { return !isSwap(f) }); err != nil {
		return directory{}, err
	}
	return dir, l.putInPlace(v.rename)
}

func isSwap(f layout.File) bool { return f.State == layout.Swap }

// removeFiles durably removes those of files that are meant.
func (l *Log) removeFiles(files []layout.File, meant func(layout.File) bool) error {
	removed := len(l.recovery.Removed)
	for _, f := range files {
		if !meant(f) {
			continue
		}
		if err := l.opts.FS.Remove(filepath.Join(l.dir, f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.recovery.Removed = append(l.recovery.Removed, f.Name)
	}
	if len(l.recovery.Removed) == removed {
		return nil
	}
	return l.opts.FS.SyncDir(l.dir)
}

// putInPlace gives .swap files their last names, in the order of replace and for
// its reasons.
func (l *Log) putInPlace(swap []layout.File) error {
	for _, f := range swap {
		if isLog(f) {
			if err := errors.Join(l.unswap(f), l.opts.FS.SyncDir(l.dir)); err != nil {
				return err
			}
		}
	}
	for _, f := range swap {
		if !isLog(f) {
			if err := l.unswap(f); err != nil {
				return err
			}
		}
	}
	if len(swap) == 0 {
		return nil
	}
	return l.opts.FS.SyncDir(l.dir)
}

func (l *Log) unswap(f layout.File) error {
	live := layout.SegmentFileName(f.Kind, f.Base, layout.Live)
	if err := l.opts.FS.Rename(filepath.Join(l.dir, f.Name), filepath.Join(l.dir, live)); err != nil {
		return err
	}
	l.recovery.Swapped = append(l.recovery.Swapped, f.Name)
	return nil
}

// survey judges without touching anything: swap files that count are read
// under the names they have.
func (l *Log) survey() (directory, error) {
	found, err := l.list()
	if err != nil {
		return directory{}, err
	}
	v, err := decide(found, l.covered)
	if err != nil {
		return directory{}, fmt.Errorf("judge leftovers: %w", err)
	}
	dir := v.directory()
	_, err = l.findMissing(&dir)
	return dir, err
}

// findMissing notes which offsets are gone with a segment of which an index is left,
// and returns such indexes. What lies below the log start was not lost, nor was what
// is known to be a gap. It costs nothing unless there is an index without a log.
func (l *Log) findMissing(dir *directory) (lost []layout.File, err error) {
	l.recovery.Missing = nil
	for _, f := range dir.orphans {
		below, above, between := dir.around(f.Base)
		if !between || above <= max(l.state.LogStartOffset, l.state.KnownGaps) {
			continue
		}
		o := l.segmentOptions()
		o.ReadOnly, o.Suffix, o.Open = true, dir.suffix[below], nil
		end, err := endOf(segment.Open(l.dir, below, o))
		if errors.Is(err, ErrCorrupt) {
			lost = append(lost, f) // what was in either of them, nobody can tell
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("judge leftovers: %w", err)
		}
		if f.Base < end {
			continue // the segment below has its offsets: compaction has put them there
		}
		lost = append(lost, f)
		l.missing(OffsetRange{end, above})
	}
	return lost, nil
}

// missing adds offsets to those that are known to be lost.
func (l *Log) missing(r OffsetRange) {
	at, found := slices.BinarySearchFunc(l.recovery.Missing, r.First, func(m OffsetRange, first int64) int { return cmp.Compare(m.First, first) })
	if !found {
		l.recovery.Missing = slices.Insert(l.recovery.Missing, at, r)
	}
}

func (v verdict) directory() directory {
	d := directory{suffix: map[int64]string{}}
	for _, f := range v.keep {
		if isLog(f) {
			d.bases = append(d.bases, f.Base)
		}
	}
	for _, f := range v.rename {
		if isLog(f) {
			d.bases = append(d.bases, f.Base)
			d.suffix[f.Base] = layout.SwapSuffix
		}
	}
	slices.Sort(d.bases)
	// Of a segment that was being removed, the log has the name of one.
	for _, f := range orphans(v) {
		if !slices.ContainsFunc(v.remove, func(gone layout.File) bool { return isLog(gone) && gone.Base == f.Base }) {
			d.orphans = append(d.orphans, f)
		}
	}
	return d
}

// orphans are index files whose log is gone.
func orphans(v verdict) []layout.File {
	logs := map[int64]bool{}
	for _, f := range append(slices.Clone(v.keep), v.rename...) {
		if isLog(f) {
			logs[f.Base] = true
		}
	}
	var gone []layout.File
	for _, f := range v.keep {
		switch f.Kind {
		case layout.OffsetIndex, layout.TimeIndex, layout.TxnIndex:
			if !logs[f.Base] {
				gone = append(gone, f)
			}
		}
	}
	return gone
}
