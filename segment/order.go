package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// A base offset is not under the checksum of its batch: whoever assigns offsets
// stamps it into a batch that was encoded before. A flipped bit in it would hand out
// records under the offsets of others. What contradicts it are its neighbours, for
// offsets rise from batch to batch and lie below the base of the next segment. A
// change that keeps to that, into a gap that compaction left, cannot be told.

// place is what a Scanner knows of the neighbours of the present batch.
type place struct {
	last  int64 // last offset of the good batch before it, or the segment's base - 1
	bound Bound

	// suspect is the position of a batch further on that contradicts one before, of
	// which nobody can say which is right; 0 for none.
	suspect int64

	passed int64 // position of the good batch that was passed last
	before int64 // last, when that was the present one
}

// Before is the last offset of the good batch before the present one, as far as it
// was met since the scan began; below the segment's base if none was.
func (c *Scanner) Before() int64 { return c.last }

// Bound is what is known to lie behind the offsets of a segment.
type Bound struct {
	Upper int64 // the base offset of the next segment, or the log end
	// Sealed says that there is a next segment. Without one, batches at or above the
	// log end may be there: written, and not published yet.
	Sealed bool
}

// Unbounded says that nothing is known.
var Unbounded = Bound{Upper: math.MaxInt64}

// Bound tells what lies behind the offsets of the segment. Reset takes it back.
func (c *Scanner) Bound(b Bound) {
	if c.bound != b {
		c.bound, c.seen = b, false
	}
}

// inOrder makes sure that the offsets of the present batch lie between those of its
// neighbours. It costs a look at the next frame, which was mostly read already.
func (c *Scanner) inOrder(h record.Summary) error {
	upper := c.bound.Upper
	switch {
	case h.BaseOffset <= c.last:
		return c.misplaced(h, fmt.Errorf("base offset %d, want one above %d", h.BaseOffset, c.last))
	case h.LastOffset-c.seg.base >= maxOverflow:
		return c.misplaced(h, fmt.Errorf("offsets up to %d, want them below %d", h.LastOffset, c.seg.base+maxOverflow))
	case c.bound.Sealed && h.LastOffset >= upper && (h.BaseOffset >= upper || width(h) < upper-c.last):
		// Without room below it has not been moved: segments that overlap are told
		// elsewhere, and it holds what it says.
		return c.misplaced(h, fmt.Errorf("offsets up to %d, want them below %d", h.LastOffset, upper))
	case c.suspect != 0 && c.suspect == c.pos:
		return c.misplaced(h, fmt.Errorf("base offset %d contradicts the batch before", h.BaseOffset))
	}
	if next, ok := c.nextOffset(); ok && next > h.LastOffset {
		return nil
	}
	return c.compare(h)
}

func (c *Scanner) misplaced(h record.Summary, err error) error {
	return c.damage(c.size, h.BaseOffset, h.LastOffset, err)
}

// nextOffset is the base offset of the next batch, as its frame says, and whether
// one may begin there. At the end it is larger than any.
func (c *Scanner) nextOffset() (int64, bool) {
	pos := c.pos + c.size
	if c.end-pos < record.MinFrame {
		return math.MaxInt64, true
	}
	b := c.frame[:]
	if off := pos - c.start; off >= 0 && off+record.MinFrame <= int64(len(c.buf)) {
		b = c.buf[off : off+record.MinFrame]
	} else if _, err := vfs.ReadFull(c.seg.open.log, b, pos); err != nil {
		return math.MaxInt64, true // whoever wants what is there will be told
	}
	if [record.MinFrame]byte(b) == [record.MinFrame]byte{} {
		return math.MaxInt64, true // room that was not used: maybe a gigabyte of it
	}
	f, err := record.ParseFrame(b)
	ok := err == nil && f.Magic >= record.MagicV0 && f.Magic <= record.MagicV2 && int64(f.Size) <= c.end-pos
	return f.Offset, ok
}

// witnesses is how many good batches behind one that is in doubt are asked.
const witnesses = 4

// compare looks which of two batches is wrong when the present one contradicts the
// next, or what is there is no batch. Behind damage the next good one counts.
func (c *Scanner) compare(h record.Summary) error {
	w := c.walker()
	if !w.Next() {
		return c.walked(w)
	}
	if p := w.Part(); p.Kind != Whole {
		return c.misplaced(h, p.Err) // also its last offset is under the checksum
	}
	var behind [witnesses]record.Summary
	var at [witnesses]int64
	n := 0
	for n < witnesses && w.Next() {
		if p := w.Part(); p.Kind == Whole {
			behind[n], at[n] = p.Summary, p.Position
			n++
		}
	}
	if err := c.walked(w); err != nil {
		return err
	}
	n, present, other := contradicted(c.last, h, behind[:n], c.bound.Upper)
	if other {
		c.suspect = at[n]
	}
	if present {
		return c.misplaced(h, fmt.Errorf("offsets up to %d, want them below %d, where the next good batch begins", h.LastOffset, behind[n].BaseOffset))
	}
	return nil
}

// contradicted decides whether the batch p is wrong, given the last offset before
// it, good batches behind it, and an offset that all lie below; n is the one of them
// that it contradicts. Whichever of the two is wrong must have had room where it
// belongs. If that is so for either, both are in doubt, and other is true.
func contradicted(before int64, p record.Summary, behind []record.Summary, upper int64) (n int, present, other bool) {
	rest, limit := 0, upper
	for i, b := range behind {
		if b.BaseOffset <= before || b.LastOffset >= upper {
			continue // that one is wrong, whatever p is
		}
		if rest++; rest == 1 {
			n = i
		} else {
			limit = b.BaseOffset
			break
		}
	}
	if rest == 0 {
		return 0, len(behind) == witnesses, false // they cannot be wrong all of them
	}
	next := behind[n]
	if next.BaseOffset > p.LastOffset {
		return n, false, false
	}
	fits := p.LastOffset < limit && width(next) < limit-p.LastOffset
	nextFits := next.LastOffset < limit && width(p) < next.BaseOffset-before
	return n, nextFits || !fits, nextFits && fits
}

// width is how many offsets a batch takes. That of a legacy wrapper is not known.
func width(s record.Summary) int64 { return s.LastOffset - s.BaseOffset + 1 }

// SkipDamage aims at the first sound batch behind the damage that the present batch
// was found to be; io.EOF if there is none. All calls for one segment together cost
// no more than reading it a few times.
func (c *Scanner) SkipDamage() error {
	w := c.walker()
	w.Next() // the damage
	for w.Next() {
		if p := w.Part(); p.Kind == Whole {
			c.moveTo(p.Position)
			return nil
		}
	}
	if err := c.walked(w); err != nil {
		return err
	}
	return io.EOF
}

// walked is the error that ended a walk. That the file is shorter than it was is told
// by whoever reads what is missing.
func (c *Scanner) walked(w *Walker) error {
	if err := w.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", c.seg.Name(), err)
	}
	return nil
}

// walker is at the present position, and knows what it found out before.
func (c *Scanner) walker() *Walker {
	if c.walk == nil {
		c.walk = new(Walker)
	}
	if w := c.walk; c.walking && w.end == c.end {
		w.moveTo(c.seg.open.log, c.pos)
	} else {
		w.Reset(c.seg.open.log, c.seg.base, c.pos, c.end)
		c.walking = true
	}
	return c.walk
}

// CheckPassed makes sure of the batch before the present place, for one who did not
// find an offset: if its header lies about its last offset it may have held it. A
// *CorruptionError about it leaves the scanner there.
func (c *Scanner) CheckPassed() error {
	if c.passed < 0 || c.last < c.seg.base {
		return nil
	}
	here, at := c.pos, c.place
	c.moveTo(c.passed)
	c.last = c.before
	_, err := c.Checked()
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	c.moveTo(here)
	c.place = at
	return err
}
