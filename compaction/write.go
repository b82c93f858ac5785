package compaction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// setBytes is how much is written at once. At most one index entry is made for each
// set, so it is also how far a look-up may have to scan.
const setBytes = 16 << 10

// cleanGroup is the second pass over a group.
func (c *Cleaner) cleanGroup(ctx context.Context, r *Round, sources []source, total int64, res *Result, swap func(Group) error) (err error) {
	c.w.producers = nil
	if r.Producers != nil {
		c.w.producers = r.Producers()
	}
	out := writer{round: r, sources: sources, dry: c.opts.DryRun, most: c.segmentBytes, set: segment.Set{Bytes: c.buf[:0]}}
	defer func() { c.buf = out.set.Bytes[:0] }()
	g := Group{Next: sources[len(sources)-1].next}
	if err = out.begin(sources[0].base); err == nil {
		for _, s := range sources {
			g.Sources = append(g.Sources, s.seg)
			if err = c.cleanSegment(ctx, r, s, &out, &g, total, res); err != nil {
				break
			}
		}
	}
	res.count(&c.w)
	if err == nil && (out.changed || len(sources) > 1) {
		g.Bases, err = out.finish()
	} else {
		err = errors.Join(err, out.discard())
	}
	if err != nil {
		return err
	}
	return swap(g)
}

// count takes over the fates of the records so far.
func (res *Result) count(w *rewriter) {
	n := w.counts
	res.Superseded, res.Expired, res.Aborted, res.Keyless, res.Markers = n[Superseded], n[Expired], n[Aborted], n[Keyless], n[Done]
}

// cleanSegment writes what is left of s. Its bytes are those that were checked: what
// is damaged ends the round and is never written.
func (c *Cleaner) cleanSegment(ctx context.Context, r *Round, s source, out *writer, g *Group, total int64, res *Result) error {
	modified, err := s.seg.ModTime()
	if err != nil {
		return err
	}
	c.w.legacyTombstones = modified > c.legacyHorizon
	var scan segment.Scanner
	b, err := r.seek(&scan, s, s.base)
	for ; err == nil; b, err = r.next(&scan, s) {
		o, err := c.w.rewrite(b)
		if err != nil {
			return damaged(s.seg, &scan, b, err)
		}
		read := Volume{int64(len(c.w.fates)), 1, int64(b.Size())}
		g.Before.add(read)
		res.Read.add(read)
		if len(o.bytes) > 0 {
			kept := Volume{o.records, 1, int64(len(o.bytes))}
			g.After.add(kept)
			res.Kept.add(kept)
		}
		out.changed = out.changed || !o.same
		if err := out.add(o); err != nil {
			return err
		}
		if err := c.step(ctx, b.Size()+len(o.bytes), Progress{Rewriting: true, Done: res.Read.Bytes, Total: total}); err != nil {
			return err
		}
		scan.Advance()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// writer puts what is left of a group into new segments: one, unless offsets or bytes
// do not fit it.
type writer struct {
	round   *Round
	sources []source
	dry     bool
	most    int64 // bytes of a segment
	changed bool  // what is written is not what was read

	out  *segment.Segment
	done []*segment.Segment
	set  segment.Set // not written yet
}

// begin makes a segment, under a name that recovery throws away.
func (w *writer) begin(base int64) error {
	if w.dry {
		return nil
	}
	o := w.round.Segment
	o.Suffix, o.ReadOnly = layout.CleanedSuffix, false
	o.Open = nil
	// However the indexes of the sources came to be, there is room for these entries.
	entries := max(1, w.round.IndexBytes/timeIndexEntrySize-2)
	o.IndexIntervalBytes = max(o.IndexIntervalBytes, 2*w.bytes()/entries)
	var err error
	w.out, err = segment.Create(w.round.Dir, base, o)
	return err
}

// bytes is the size of all sources.
func (w *writer) bytes() (n int64) {
	for _, s := range w.sources {
		n += s.size
	}
	return n
}

// add takes over what is left of a batch.
func (w *writer) add(o outcome) error {
	if w.dry || len(o.bytes) == 0 {
		return nil
	}
	if len(w.set.Bytes) > 0 && len(w.set.Bytes)+len(o.bytes) > setBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if err := w.makeRoom(o); err != nil {
		return err
	}
	if len(w.set.Bytes) == 0 {
		w.set.MaxTimestamp = record.NoTimestamp
	}
	w.set.Bytes = append(w.set.Bytes, o.bytes...)
	w.set.LastOffset = o.last
	if o.maxTimestamp > w.set.MaxTimestamp {
		w.set.MaxTimestamp, w.set.OffsetOfMaxTimestamp = o.maxTimestamp, o.last
	}
	if o.aborts != nil {
		w.set.Aborted = append(w.set.Aborted, *o.aborts)
	}
	return nil
}

// makeRoom goes on in another segment if a batch does not fit the present one. Only
// brokers before 1.1 have left segments in which offsets do not (KIP-263), and only
// recompression makes a segment larger than it was.
func (w *writer) makeRoom(o outcome) error {
	size, err := w.out.Size()
	if err != nil || w.out.Fits(o.last) && size+int64(len(w.set.Bytes)+len(o.bytes)) <= w.most {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.done = append(w.done, w.out)
	w.changed = true
	if err := w.begin(o.first); err != nil {
		w.out = nil
		return err
	}
	if !w.out.Fits(o.last) {
		return fmt.Errorf("batch of offsets [%d, %d]: %w: more than %d", o.first, o.last, segment.ErrOffsetOverflow, math.MaxInt32)
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.set.Bytes) == 0 {
		return nil
	}
	err := w.out.Append(w.set)
	w.set = segment.Set{Bytes: w.set.Bytes[:0], Aborted: w.set.Aborted[:0]}
	return err
}

// finish makes all that was written durable, but for the names.
func (w *writer) finish() (bases []int64, err error) {
	if w.dry {
		return nil, nil
	}
	if err := w.flush(); err != nil {
		return nil, errors.Join(err, w.discard())
	}
	w.done, w.out = append(w.done, w.out), nil
	// Whoever judges segments by the age of their files judges as before.
	modified, err := w.sources[len(w.sources)-1].seg.ModTime()
	for _, s := range w.done {
		if w.round.Transactions {
			s.KeepAborted()
		}
		if err == nil {
			err = errors.Join(s.Seal(), s.Trim(), s.Sync())
		}
		if err == nil {
			err = errors.Join(s.Retire(), s.SetModTime(modified))
		}
		bases = append(bases, s.Base())
	}
	if err != nil {
		return nil, errors.Join(err, w.discard())
	}
	return bases, nil
}

// discard removes what was written.
func (w *writer) discard() error {
	var errs []error
	if w.out != nil {
		errs = append(errs, w.out.Discard())
	}
	for _, s := range w.done {
		errs = append(errs, s.Discard())
	}
	w.out, w.done = nil, nil
	return errors.Join(errs...)
}
