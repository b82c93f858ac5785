package seglog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// rescued is a Log that was not opened: it knows where its files are, and that
// is all that Repair, Recover and Reindex need.
func rescued(dir string, fsys vfs.FS, indexInterval int) (*Log, error) {
	opts, err := Options{FS: fsys, IndexIntervalBytes: indexInterval}.resolve()
	return newLog(dir, opts), err
}

// claim finds the segments of a log that nobody else has open for writing. If it
// is to be changed the lock is taken, for the caller to give back, and what a
// crash left behind is settled as Open does.
func (l *Log) claim(change bool) (directory, error) {
	found, err := l.survey()
	if err != nil {
		return found, err
	}
	v := &verification{dir: l.dir, opts: VerifyOptions{FS: l.opts.FS}}
	if len(found.bases) == 0 {
		entries, err := l.opts.FS.ReadDir(l.dir)
		if err != nil {
			return found, err
		}
		return found, v.notALog(entries)
	}
	if !change {
		if v.held() {
			return found, &vfs.LockError{Name: filepath.Join(l.dir, layout.LockFileName)}
		}
		return found, l.readState()
	}
	if err := l.lock(); err != nil {
		return found, err
	}
	if err := l.readState(); err != nil {
		return found, err
	}
	found, err = l.judge()
	found.suffix = nil // what was a .swap has its last name now
	return found, err
}

// findings are what Verify finds in a log, sorted by what can be done about it.
type findings struct {
	ctx  context.Context
	log  *Log
	dir  directory
	mine bool // the lock
	jobs int
	tell func(done, total int64) // may be nil

	// meant limits what is looked at to the segments [first, end) of dir, their logs
	// and indexes. Without an end it is all of the directory.
	meant struct{ first, end int }

	sizes       []int64 // of the logs; what is written later is not looked at
	done, total int64   // bytes read, and to be read
	writer      bool    // someone else is writing
	damage      int     // problems that Verify calls so
	goodBatches int64   // by Verify's count

	bad      map[int64][]stretch // of logs, by base offset, in order
	stale    map[int64]bool      // base offsets of segments whose indexes are to be made anew
	aside    []string            // files to be put aside
	noEpochs bool                // the leader epochs cannot be read
	left     []Problem
	gaps     []OffsetRange // between segments, of what was lost with one
	overlap  []int64       // base offsets of segments that have offsets of the next

	// Where segments overlap, which batches count: those of segment i from floors[i] on,
	// and those below limits[i]. By default that is its base, and the base of the next.
	floors, limits map[int]int64
}

// stretch is bytes of a log that are no good batch.
type stretch struct {
	pos, end     int64 // end is pos if it is not known where the batch ends
	kind, reason string
	problem      Problem
}

// look checks the directory. The caller will read the logs a second time.
func (f *findings) look() error {
	f.bad, f.stale = map[int64][]stretch{}, map[int64]bool{}
	all := f.meant.end == 0
	if all {
		f.meant.end = len(f.dir.bases)
	}
	f.sizes = make([]int64, len(f.dir.bases))
	var bytes int64
	for i := f.meant.first; i < f.meant.end; i++ {
		info, err := f.log.opts.FS.Stat(f.path(i))
		if err != nil {
			return err
		}
		f.sizes[i] = info.Size()
		bytes += info.Size()
	}
	f.total = 2 * bytes
	opts := VerifyOptions{Jobs: f.jobs, FS: f.log.opts.FS, OnProblem: f.sort}
	if f.tell != nil {
		opts.Progress = func(done, _ int64) { f.tell(min(done, bytes), f.total) }
	}
	v, err := newVerification(f.ctx, opts)
	if err != nil {
		return err
	}
	v.dir, v.mine = f.log.dir, f.mine
	if all {
		err = v.directory()
	} else {
		err = f.some(v)
	}
	if err := errors.Join(err, errors.Join(v.errs...)); err != nil {
		return err
	}
	f.done, f.writer, f.damage, f.goodBatches = bytes, v.writer, v.report.Damage, f.goodBatches+v.report.Batches
	for i := f.meant.first; i < f.meant.end; i++ {
		if err := f.settle(i); err != nil {
			return err
		}
	}
	return f.resolve()
}

// resolve decides which batches count where segments overlap: those of the segment
// that has more offsets there, so that a file which has no business in the log, or a
// single base offset that is wrong, hides nothing. If they have as many the later
// segment is named after them.
func (f *findings) resolve() error {
	f.floors, f.limits = map[int]int64{}, map[int]int64{}
	for _, base := range f.overlap {
		i, _ := slices.BinarySearch(f.dir.bases, base)
		if i >= f.meant.end-1 {
			continue
		}
		var mine []OffsetRange
		end := f.floor(i)
		if err := f.goodRanges(i, func(r OffsetRange) { mine, end = append(mine, r), max(end, r.Next) }); err != nil {
			return err
		}
		// All that begin below the end of this one.
		last, first := i, int64(math.MaxInt64)
		offsets := int64(0)
		for last+1 < f.meant.end && f.dir.bases[last+1] < end {
			last++
			err := f.goodRanges(last, func(r OffsetRange) {
				first = min(first, r.First)
				if r.First < end {
					offsets += r.Next - r.First
				}
			})
			if err != nil {
				return err
			}
		}
		for _, r := range mine {
			if r.Next > first {
				offsets -= r.Next - r.First
			}
		}
		if first < end && offsets >= 0 {
			f.limits[i] = first
			continue
		}
		f.limits[i] = f.baseAt(last + 1)
		for j := i + 1; j <= last; j++ {
			f.floors[j] = max(f.floors[j], end)
		}
	}
	return nil
}

// goodRanges visits the offsets of each good batch of segment i, looked at alone.
func (f *findings) goodRanges(i int, visit func(OffsetRange)) error {
	s := &sieve{f: f, i: i, next: f.floor(i), limit: math.MaxInt64, good: func(b record.Batch, first int64) error {
		visit(OffsetRange{first, b.LastOffset() + 1})
		return nil
	}}
	return s.sift()
}

// floor is the lowest offset that counts in segment i, limit is above the highest.
func (f *findings) floor(i int) int64 { return max(f.floors[i], f.dir.bases[i]) }

func (f *findings) limit(i int) int64 {
	if limit, known := f.limits[i]; known {
		return limit
	}
	return f.baseAt(i + 1)
}

// baseAt is the base offset of segment i, and behind the last one above all offsets.
func (f *findings) baseAt(i int) int64 {
	if i < len(f.dir.bases) {
		return f.dir.bases[i]
	}
	return math.MaxInt64
}

// shadowed reports whether the offsets at which segment i begins are in an earlier one.
func (f *findings) shadowed(i int) bool { return f.floors[i] > f.dir.bases[i] }

// some checks the segments that are meant.
func (f *findings) some(v *verification) error {
	v.writer = !v.mine && v.held()
	v.history, v.orphans = v.past(), f.dir.orphans
	var jobs []*segmentCheck
	for i := f.meant.first; i < f.meant.end; i++ {
		job := v.newSegmentCheck(f.dir.bases[i], f.dir.suffix[f.dir.bases[i]])
		job.last = f.last(i)
		job.live, job.left = job.last && v.writer, job.last && v.left
		jobs = append(jobs, job)
	}
	return errors.Join(v.measure(jobs), v.segments(jobs))
}

// sort decides what is to be done about a problem.
func (f *findings) sort(p Problem) {
	file, _ := layout.ParseFile(p.File)
	switch {
	case p.Kind == "missing_end": // found again when the batches are read
	case p.Kind == "segment_gap" && p.Severity == Damage:
		i, _ := slices.BinarySearch(f.dir.bases, p.Offset+1)
		f.gaps = append(f.gaps, OffsetRange{p.Offset, f.dir.bases[i]})
	case p.Severity == Note, p.Kind == "orphan": // opening the log for writing sees to orphans
	case file.Kind == layout.Log && f.inLog(file.Base, p):
	case file.Kind == layout.OffsetIndex, file.Kind == layout.TimeIndex:
		f.stale[file.Base] = true
	case file.Kind == layout.TxnIndex: // compared with the log later
	case file.Kind == layout.Snapshot, file.Kind == layout.SeglogState, file.Kind == layout.LeaderEpochCheckpoint:
		f.noEpochs = f.noEpochs || file.Kind == layout.LeaderEpochCheckpoint
		if !slices.Contains(f.aside, p.File) {
			f.aside = append(f.aside, p.File)
		}
	default:
		f.leave(p)
	}
}

func (f *findings) leave(p Problem) {
	if len(f.left) < maxProblems {
		f.left = append(f.left, p)
	}
}

// inLog takes in a problem of a log. It returns false if nothing can be done
// about it.
func (f *findings) inLog(base int64, p Problem) bool {
	switch p.Kind {
	case "segment_overlap": // found again when the batches are read
		f.overlap = append(f.overlap, base)
		return true
	case "bad_codec", "too_large": // for us; the bytes are what was written
		return false
	}
	if p.Length == 0 && p.Kind != "offset_order" {
		return false
	}
	if p.Length == 0 {
		f.goodBatches-- // it was counted for one
	}
	f.bad[base] = append(f.bad[base], stretch{pos: p.Position, end: p.Position + p.Length, kind: p.Kind, reason: p.Detail, problem: p})
	return true
}

// settle puts the stretches of a segment in order, and finds where those end that
// Verify has not measured.
func (f *findings) settle(i int) error {
	base := f.dir.bases[i]
	all, err := f.reorder(i, f.bad[base])
	if len(all) == 0 || err != nil {
		f.bad[base] = all
		return err
	}
	log, err := f.open(i)
	if err != nil {
		return err
	}
	defer log.Close()
	slices.SortStableFunc(all, func(a, b stretch) int { return cmp.Compare(a.pos, b.pos) })
	var apart []stretch
	before := int64(0)
	for _, s := range all {
		if s.end == s.pos {
			if s.end, err = endOfBatch(log, s.pos); err != nil {
				return err
			}
		}
		s.end = min(s.end, f.sizes[i])
		if s.pos = max(s.pos, before); s.pos < s.end {
			apart = append(apart, s)
			before = s.end
		}
	}
	f.bad[base] = apart
	return nil
}

// reorder asks those who read a log which of its batches contradict each other, once
// Verify has found that some do: it blames one of two, and readers neither where nobody
// can say which is wrong. What they do not get is not kept.
func (f *findings) reorder(i int, all []stretch) ([]stretch, error) {
	inOrder := func(s stretch) bool { return s.kind != "offset_order" }
	if !slices.ContainsFunc(all, func(s stretch) bool { return !inOrder(s) }) {
		return all, nil
	}
	var kept []stretch
	for _, s := range all {
		if inOrder(s) {
			kept = append(kept, s)
		} else {
			f.goodBatches++
		}
	}
	err := f.misread(i, func(e *CorruptionError) {
		if slices.ContainsFunc(kept, func(s stretch) bool { return s.pos <= e.Position && e.Position < max(s.end, s.pos+1) }) {
			return
		}
		f.goodBatches--
		kept = append(kept, stretch{
			pos: e.Position, end: e.Position + e.Length, kind: "offset_order", reason: e.Err.Error(),
			problem: Problem{Severity: Damage, Kind: "offset_order", File: e.File, Position: e.Position, Offset: e.FirstOffset, Entry: -1, Length: e.Length, Detail: e.Err.Error()},
		})
	})
	return kept, err
}

// misread visits the damage that a reader of segment i is told of.
func (f *findings) misread(i int, visit func(*CorruptionError)) error {
	base := f.dir.bases[i]
	o := f.log.segmentOptions()
	o.ReadOnly, o.Open, o.Places, o.Suffix = true, nil, nil, f.dir.suffix[base]
	s := segment.Open(f.log.dir, base, o)
	if err := s.Acquire(); err != nil {
		return err
	}
	var c segment.Scanner
	c.Reset(s, 0, f.sizes[i])
	if !slices.Contains(f.overlap, base) {
		c.Bound(segment.Bound{Upper: f.baseAt(i + 1), Sealed: !f.last(i)})
	}
	var err error
	for err == nil {
		_, err = c.Checked()
		var damage *CorruptionError
		if errors.As(err, &damage) {
			visit(damage)
			err = c.SkipDamage()
		} else if err == nil {
			c.Advance()
		}
	}
	s.Release()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, s.Retire())
}

// name is that of the log of segment i, and path its path.
func (f *findings) name(i int) string {
	base := f.dir.bases[i]
	return layout.LogName(base) + f.dir.suffix[base]
}

func (f *findings) path(i int) string { return filepath.Join(f.log.dir, f.name(i)) }

func (f *findings) last(i int) bool { return i == len(f.dir.bases)-1 }

// advanced counts bytes for whoever watches.
func (f *findings) advanced(n int64) {
	if f.done += n; f.tell != nil {
		f.tell(min(f.done, f.total), f.total)
	}
}
