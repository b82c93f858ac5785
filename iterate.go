package seglog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// IterOptions are choices for Records and Batches. nil means none.
type IterOptions struct {
	// Follow waits at the log end for more, until the context ends. Without
	// it the iteration ends where the log ended when it began.
	Follow bool
	// To ends the iteration before that offset. 0 means no such limit.
	To int64
	// Isolation says how far to read, and whether records of aborted transactions
	// are left out.
	Isolation Isolation
	// Durable leaves out what is not on disk yet: the durable offset takes
	// the place of the log end. What was read so cannot be lost in a crash.
	Durable bool
	// SkipDamaged goes on behind a batch that cannot be read. The damage is
	// yielded as an error all the same, as a *CorruptionError, and then the
	// iteration goes on instead of ending.
	SkipDamaged bool
	// Control includes control records (transaction markers).
	Control bool
}

// Records yields the records from the given offset on, in order. Offsets that
// no record has are stepped over, control records are left out. A record is
// valid until the next one is asked for; Record.Clone makes a copy to keep.
//
// An error ends the iteration, but for damage with SkipDamaged: an *OffsetError
// when from is outside of the log (its end is inside, and yields nothing), a
// *CorruptionError, ErrTruncated when the log was truncated below the place the
// iteration had reached, ErrClosed, or the context's error.
//
// The iteration may go on for as long as it likes and holds nothing meanwhile:
// when retention overtakes it, it ends with an *OffsetError.
func (l *Log) Records(ctx context.Context, from int64, opts *IterOptions) iter.Seq2[Record, error] {
	if opts == nil {
		opts = &IterOptions{}
	}
	return func(yield func(Record, error) bool) {
		it := iterators.Get().(*record.Iterator)
		defer iterators.Put(it)
		w := l.walk(ctx, from, opts)
		defer walks.Put(w)
		for w.next() {
			if !w.yieldRecords(it, yield) {
				return
			}
		}
	}
}

// yieldRecords passes on the records of the present batch, or the error in its
// place. It reports whether to go on.
func (w *walk) yieldRecords(it *record.Iterator, yield func(Record, error) bool) bool {
	if w.err != nil {
		return yield(Record{}, w.err) && w.stepOver()
	}
	b := w.batch
	if b.IsControl() && !w.opts.Control {
		return true
	}
	err := it.Reset(b)
	if err == nil {
		err = above(b, it, w.scan.Before())
	}
	next, last := w.from, b.LastOffset()
	for ok := err == nil && it.SkipTo(w.from); ok; {
		r := *it.Record()
		if r.Offset < next || r.Offset > last {
			if err = inOrder(b, r.Offset, next); err != nil {
				break
			}
		}
		next = r.Offset + 1
		if r.Offset >= w.to {
			return false
		}
		ok = it.Next() // in between: it takes a moment until r can be copied again
		if r.Offset%4 == 0 {
			w.scan.Ahead(it.Position())
		}
		if !yield(r, nil) {
			return false
		}
	}
	if err == nil {
		err = it.Err()
	}
	if err == nil {
		return true
	}
	err = w.log.tellDamaged(damagedBatch(w.scan.Segment(), w.position, b, err))
	return yield(Record{}, fmt.Errorf("records: %w", err)) && w.opts.SkipDamaged
}

// inOrder makes sure of what a checksum does not: that offsets rise, and stay
// within those of their batch. A legacy wrapper may say wrong where it ends.
func inOrder(b record.Batch, offset, want int64) error {
	if offset >= want && (offset <= b.LastOffset() || b.Magic() < record.MagicV2) {
		return nil
	}
	return fmt.Errorf("record at offset %d, want %d to %d: %w", offset, want, b.LastOffset(), record.ErrInvalid)
}

// above makes sure of a legacy wrapper that its records do not begin before the end
// of the batch before. It says only where they end, and is not under a checksum.
func above(b record.Batch, it *record.Iterator, before int64) error {
	if b.Magic() == record.MagicV2 {
		return nil
	}
	return legacyAbove(it, before)
}

// legacyAbove is apart so that above is inlined.
func legacyAbove(it *record.Iterator, before int64) error {
	if first, ok := it.Peek(); ok && first <= before {
		return fmt.Errorf("record at offset %d, want one above %d: %w", first, before, record.ErrInvalid)
	}
	return nil
}

// beginsBelow reports whether b has records below offset. A legacy wrapper, which
// says only where it ends, is decompressed for it; one that cannot be has.
func beginsBelow(b record.Batch, offset int64) bool {
	if b.BaseOffset() < offset {
		return true
	}
	if b.Magic() == record.MagicV2 {
		return false
	}
	first, err := b.FirstOffset(nil)
	return err != nil || first < offset
}

// Batches yields the batches as they are stored, from the one that holds the
// given offset on; the first may begin below it. Their checksums are verified. A
// batch is valid until the next one is asked for. Everything else is as with
// Records; control batches are included.
func (l *Log) Batches(ctx context.Context, from int64, opts *IterOptions) iter.Seq2[record.Batch, error] {
	if opts == nil {
		opts = &IterOptions{}
	}
	return func(yield func(record.Batch, error) bool) {
		w := l.walk(ctx, from, opts)
		defer walks.Put(w)
		for w.next() {
			if w.err != nil {
				if !yield(record.Batch{}, w.err) || !w.stepOver() {
					return
				}
				continue
			}
			if !yield(w.batch, nil) {
				return
			}
		}
	}
}

// walk goes through the batches of a log, across segments, rolls, removals and
// truncations. It holds a segment only while it reads ahead.
type walk struct {
	log  *Log
	ctx  context.Context
	opts *IterOptions

	from, to   int64 // to is exclusive
	generation int64
	started    bool
	aimed      bool        // scan is at the present batch, or where the next will be
	sealed     bool        // the present segment is
	boundIn    *segmentSet // in which it was
	resting    bool        // nothing is left to read: wait before the next look

	scan     segment.Scanner
	batch    record.Batch // the present one, if have
	have     bool
	position int64 // of batch
	err      error // in place of a batch
	aborted  aborted
	set      *segmentSet // that aborted was last collected from
	failed   error       // the next err
	doubt    doubt       // see Log.again
}

func (l *Log) walk(ctx context.Context, from int64, opts *IterOptions) *walk {
	w := walks.Get().(*walk)
	*w = walk{log: l, ctx: ctx, opts: opts, from: from, scan: w.scan, aborted: aborted{found: w.aborted.found, spans: w.aborted.spans}}
	return w
}

// walks keeps the buffers of ended iterations.
var walks = sync.Pool{New: func() any { return new(walk) }}

// start fixes the bounds when the iteration begins, not when it was made.
func (w *walk) start() error {
	w.started = true
	if w.opts.To < 0 {
		return &OptionError{Field: "To", Value: fmt.Sprint(w.opts.To), Want: "0 or above"}
	}
	if w.opts.Isolation == ReadCommitted {
		if _, err := w.log.LastStableOffset(); err != nil { // a read-only log finds out now
			return err
		}
	}
	w.generation = w.log.generation.Load()
	w.to = int64(1<<63 - 1)
	if !w.opts.Follow {
		w.to = w.limit()
	}
	if w.opts.To > 0 {
		w.to = min(w.to, w.opts.To)
	}
	return w.log.check(w.from)
}

// next moves to the next batch, or to an error. It reports false at the end.
func (w *walk) next() bool {
	if w.err != nil && !w.recoverable() {
		return false
	}
	w.err, w.failed = w.failed, nil
	if w.err != nil {
		return true
	}
	if !w.started {
		if err := w.start(); err != nil {
			w.err = fmt.Errorf("records: %w", err)
			return true
		}
	} else if w.have {
		w.from = w.batch.LastOffset() + 1
		w.scan.Advance()
	}
	w.have = false
	if w.resting {
		w.resting = false
		if w.err = w.await(); w.err != nil {
			return true
		}
	}
	for w.from < w.to {
		if w.ctx.Err() != nil {
			w.err = context.Cause(w.ctx)
			return true
		}
		err := w.load()
		switch {
		case err == nil:
			return beginsBelow(w.batch, w.to)
		case errors.Is(err, io.EOF), errors.Is(err, errHeld):
			if !w.opts.Follow {
				return false
			}
			if w.err = w.await(); w.err != nil {
				return true
			}
		default:
			w.err = fmt.Errorf("records: %w", w.log.tellDamaged(err))
			return true
		}
	}
	return false
}

func (w *walk) reach() bound { return bound{isolation: w.opts.Isolation, durable: w.opts.Durable} }

func (w *walk) limit() int64 { return w.log.limit(w.reach()) }

// await blocks at the log end.
func (w *walk) await() error {
	truncated, err := w.log.waitFor(w.ctx, w.from, w.generation, w.reach())
	if err != nil {
		return err
	}
	if !truncated {
		return nil
	}
	if err := w.noticeTruncation(); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return nil
}

// noticeTruncation takes the new generation if what was read is still there.
func (w *walk) noticeTruncation() error {
	generation := w.log.generation.Load()
	to := w.log.truncatedSince(w.generation)
	w.generation, w.aimed = generation, false
	w.aborted.to = w.aborted.from // what it knows may be about other records
	if w.from > to {
		return &TruncationError{Offset: w.from, TruncatedTo: to, End: w.log.end.Load()}
	}
	if !w.opts.Follow {
		w.to = min(w.to, w.log.end.Load())
	}
	return nil
}

// load reads the batch that holds w.from, or the next one there is.
func (w *walk) load() error {
	w.doubt.generation = w.generation
	for {
		var err error
		if w.aimed {
			if w.loadHeld() {
				return nil
			}
			err = w.loadHere()
		} else {
			err = w.loadAnew()
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, io.EOF) && (!w.aimed || w.scan.Segment() == w.log.set.Load().active):
			return err // at the log end
		case errors.Is(err, io.EOF):
			w.leaveSegment()
			continue
		}
		more, err := w.log.again(&w.doubt, err)
		if !more {
			err = w.log.lookAgain(err, w.set)
		}
		if err != nil {
			return err
		}
		w.aimed = false
	}
}

// leaveSegment goes on to the next segment, all of this one having been read.
// Seeking the next offset in here again could meet damage that was stepped over.
func (w *walk) leaveSegment() {
	w.aimed = false
	set := w.log.set.Load()
	next := set.after(w.scan.Segment().Base())
	if next == nil || set.replaced(w.scan.Segment()) || w.log.overtaken(w.from) != nil {
		return // what comes next may have been removed, and then loadAnew says so
	}
	w.from = max(w.from, next.Base())
}

var (
	errStale = errors.New("log was truncated meanwhile")
	// errHeld: there are more records, which this reader does not get yet.
	errHeld = errors.New("not yet for this reader")
)

// loadHere goes on in the segment of the batch before.
func (w *walk) loadHere() error {
	s := w.scan.Segment()
	if err := w.log.acquire(s); err != nil {
		return err
	}
	defer s.Release()
	if s.Base() < w.log.set.Load().first().Base() {
		return errStale // it was removed, but for its files, perhaps
	}
	if w.log.generation.Load() != w.generation {
		w.scan.Forget()
		return errStale
	}
	w.scan.Extend(s.View().Size)
	if !w.sealed {
		w.bound(w.log.set.Load(), s)
	}
	return w.take()
}

// bound tells the scan what lies behind s.
func (w *walk) bound(set *segmentSet, s *segment.Segment) {
	b := w.log.boundOf(set, s)
	w.scan.Bound(b)
	w.sealed, w.boundIn = b.Sealed, set
}

// loadHeld is loadHere for a batch that was read ahead, if nothing has happened to the
// log since but appends, and no transaction can leave it out. It reports false for any
// other.
func (w *walk) loadHeld() bool {
	if w.opts.Isolation == ReadCommitted || w.log.closed.Load() || w.log.generation.Load() != w.generation || w.log.set.Load() != w.boundIn {
		return false
	}
	b, ok := w.scan.Held()
	if !ok || b.BaseOffset() < w.from || b.LastOffset() >= w.limit() {
		return false
	}
	w.batch, w.position, w.have = b, w.scan.Position(), true
	return true
}

// loadAnew finds the segment by offset.
func (w *walk) loadAnew() error {
	if w.log.generation.Load() != w.generation {
		if err := w.noticeTruncation(); err != nil {
			return err
		}
	}
	if err := w.log.overtaken(w.from); err != nil {
		return err
	}
	if err := w.log.seek(&w.scan, w.from); err != nil {
		return err
	}
	defer w.scan.Segment().Release()
	if err := w.log.overtaken(w.from); err != nil {
		return err
	}
	w.aimed = true
	w.bound(w.log.set.Load(), w.scan.Segment())
	return w.take()
}

// take reads the present batch, stepping over any that lie wholly below from:
// an offset is never served twice, whatever the files say.
func (w *walk) take() error {
	for {
		b, err := w.scan.Checked()
		if err != nil {
			return err
		}
		if b.LastOffset() >= w.limit() {
			return errHeld
		}
		if b.LastOffset() >= w.from {
			leftOut, err := w.leftOut(b)
			if err != nil {
				return err
			}
			if !leftOut {
				w.batch, w.position, w.have = b, w.scan.Position(), true
				return nil
			}
			w.from = b.LastOffset() + 1
		}
		w.scan.Advance()
	}
}

// leftOut reports whether b has records of an aborted transaction, which readers of
// committed records do not get. The segment of scan is acquired.
func (w *walk) leftOut(b record.Batch) (bool, error) {
	if w.opts.Isolation != ReadCommitted || !b.IsTransactional() || b.IsControl() {
		return false, nil
	}
	if !w.aborted.knows(b) {
		if err := w.collectAborted(b.BaseOffset()); err != nil {
			return false, err
		}
		if !w.aborted.knows(b) {
			return false, errHeld // a truncation has opened its transaction again
		}
	}
	return w.aborted.holds(b), nil
}

// collectAborted finds the aborted transactions from an offset of the present segment
// on. The order matters. A truncation lowers the first unstable offset before it takes
// segments out of the set, and the generation changes before their files do: what is
// found is complete up to the lower of what is stable before the set is looked at and
// after, if it is of one generation. A refresh changes the set before it raises
// anything: a segment that is not of the set may not know of what is stable by now.
func (w *walk) collectAborted(from int64) error {
	l, s := w.log, w.scan.Segment()
	to := l.lastStable()
	w.set = l.set.Load()
	to = min(to, l.lastStable(), l.boundOf(w.set, s).Upper)
	if w.set.floor(s.Base()) != s {
		return errStale
	}
	err := l.collectAborted(&w.aborted, w.set, s, from, to)
	if err == nil && l.generation.Load() != w.generation {
		w.aborted.to = from
		return errStale
	}
	return err
}

// recoverable says whether the iteration can go on behind the present error.
func (w *walk) recoverable() bool {
	var damage *CorruptionError
	return w.opts.SkipDamaged && errors.As(w.err, &damage)
}

// stepOver aims behind damage: at the next sound batch of its segment, or at
// the next segment.
func (w *walk) stepOver() bool {
	var damage *CorruptionError
	if !w.recoverable() || !errors.As(w.err, &damage) {
		return false
	}
	w.aimed, w.have = false, false
	set := w.log.set.Load()
	s := set.floor(damage.BaseOffset)
	if s == nil || s.Base() != damage.BaseOffset || w.scan.Segment() != s {
		return true // gone meanwhile: seek again
	}
	end := w.limit()
	switch err := w.aimBehind(s, set, damage.Position); {
	case err == nil, errors.Is(err, segment.ErrRetired):
		return true
	case !errors.Is(err, io.EOF) && !errors.Is(err, ErrCorrupt): // all of it is damaged
		w.failed = fmt.Errorf("records: %w", err)
		return true
	}
	switch next := set.after(s.Base()); {
	case next != nil:
		w.from = max(w.from, next.Base())
	case w.opts.Follow: // it is damaged up to the end: wait for what comes behind
		w.from, w.resting = max(w.from, end), true
	default:
		return false
	}
	return true
}

// aimBehind aims at the first sound batch of s behind the damage at pos.
func (w *walk) aimBehind(s *segment.Segment, set *segmentSet, pos int64) error {
	if err := w.log.acquire(s); err != nil {
		return err
	}
	defer s.Release()
	if w.scan.Segment() != s || w.scan.Position() != pos {
		w.scan.Reset(s, pos, s.View().Size)
	}
	w.scan.Extend(s.View().Size)
	w.bound(set, s)
	if err := w.scan.SkipDamage(); err != nil {
		return err
	}
	w.aimed = true
	return nil
}
