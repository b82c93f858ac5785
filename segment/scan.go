package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

const (
	// seekChunk is how much a look-up reads first: an index interval, its
	// batch, and a little more. Each further read doubles, up to scanChunk.
	seekChunk = 16 << 10
	scanChunk = 256 << 10
)

// Scanner walks the batches of a segment in file order. The zero value is
// ready for Reset; it keeps its buffer from one segment to the next.
//
// It makes sure that offsets rise from batch to batch, which no checksum does: the
// base offset is not under it. See order.go.
//
// The segment must be acquired during every call of Header, Batch, Checked and
// SkipDamage. What they return aliases the scanner's buffer and is valid until the
// next call of Header, Batch or Reset.
type Scanner struct {
	seg   *Segment
	pos   int64 // of the present batch
	end   int64 // nothing at or beyond it is read
	size  int64 // of the present batch, 0 before Header
	chunk int

	head record.Summary // of the present batch, if seen
	seen bool
	place

	buf   []byte
	start int64 // position of buf[0] in the file
	copying
	frame [record.MinFrame]byte

	walk    *Walker // behind damage; made when it is met
	walking bool    // walk is on the bytes below end
}

// Reset aims the scanner at position pos of s; it will stop at end. What it
// read ahead is forgotten.
func (c *Scanner) Reset(s *Segment, pos, end int64) {
	c.seg, c.pos, c.end, c.size = s, pos, end, 0
	c.chunk = seekChunk
	c.copying = copying{calls: pos + scanChunk} // a look-up needs no mapping
	c.place = place{last: s.base - 1, bound: Unbounded, passed: -1}
	c.Forget()
}

// Forget drops what was read ahead, for when the file may have changed.
func (c *Scanner) Forget() {
	c.buf = c.buf[:0]
	c.start = c.pos
	c.copied, c.seen, c.walking = false, false, false
}

// Extend moves the end further, after more was written; or back, if the segment was
// truncated, whereupon nothing that was read ahead counts.
func (c *Scanner) Extend(end int64) {
	if end < c.end {
		c.Forget()
	}
	c.end = end
}

// Position is the position of the present batch.
func (c *Scanner) Position() int64 { return c.pos }

// End is where the scan stops.
func (c *Scanner) End() int64 { return c.end }

// Segment is what is being scanned.
func (c *Scanner) Segment() *Segment { return c.seg }

// Header returns what the present batch's header says. io.EOF at the end. Bytes
// that cannot be a batch, one that claims more bytes than there are, or offsets
// that do not lie between those of its neighbours, give a *CorruptionError; a batch
// that claims too many bytes matches record.ErrShort as well.
func (c *Scanner) Header() (record.Summary, error) {
	if c.seen {
		return c.head, nil
	}
	h, err := c.header()
	if err == nil {
		err = c.inOrder(h)
	}
	if err != nil {
		return record.Summary{}, err
	}
	c.head, c.seen = h, true
	return h, nil
}

// header is Header for one who does not mind the order.
func (c *Scanner) header() (record.Summary, error) {
	if c.pos >= c.end {
		return record.Summary{}, io.EOF
	}
	left := c.end - c.pos
	b, err := c.window(min(left, record.HeaderSize))
	if err != nil {
		return record.Summary{}, err
	}
	h, err := record.Summarize(b)
	if err != nil {
		return record.Summary{}, c.damage(left, -1, -1, err)
	}
	c.size = int64(h.Size)
	if h.LastOffset < h.BaseOffset {
		return record.Summary{}, c.damage(c.size, h.BaseOffset, -1,
			fmt.Errorf("last offset %d is below the base offset", h.LastOffset))
	}
	if c.size > left {
		return record.Summary{}, c.damage(left, h.BaseOffset, h.LastOffset,
			fmt.Errorf("batch claims %d bytes, %d remain: %w", c.size, left, record.ErrShort))
	}
	return h, nil
}

// Headers calls visit for every batch of the segment, in order, stepping over what
// cannot be one. The segment must be acquired.
func (s *Segment) Headers(visit func(record.Summary)) error {
	var c Scanner
	c.Reset(s, 0, s.size.Load())
	for {
		h, err := c.Header()
		switch {
		case err == nil:
			visit(h)
			c.Advance()
			continue
		case errors.Is(err, ErrCorrupt):
			if err = c.SkipDamage(); err == nil {
				continue
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// Batch returns the whole present batch. Its checksum is not verified.
func (c *Scanner) Batch() (record.Batch, error) {
	h, err := c.Header()
	if err != nil {
		return record.Batch{}, err
	}
	// With the frame behind it, which the next call would have to read. Someone may have
	// cut the file there: that is nothing to this batch.
	b, err := c.window(min(c.size+record.MinFrame, c.end-c.pos))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		b, err = c.window(c.size)
	}
	if err != nil {
		return record.Batch{}, err
	}
	batch, err := record.Parse(b)
	if err != nil {
		return record.Batch{}, c.damage(c.size, h.BaseOffset, h.LastOffset, err)
	}
	return batch, nil
}

// Checked returns the whole present batch with its checksum verified. A wrong
// one is a *CorruptionError; Advance steps over it.
func (c *Scanner) Checked() (record.Batch, error) {
	if batch, ok := c.Held(); ok {
		return batch, nil
	}
	if !c.seen && c.copyAhead() {
		if batch, ok := c.Held(); ok {
			return batch, nil
		}
		c.calls = c.pos + callChunk // it is too large, or not good
	}
	batch, err := c.Batch()
	if err != nil {
		return record.Batch{}, err
	}
	if err := batch.Check(); err != nil {
		c.seen = false // nothing that it says counts
		return record.Batch{}, c.damage(c.size, batch.BaseOffset(), batch.LastOffset(), err)
	}
	return batch, nil
}

// Held is Checked for a batch that is as nearly all are: of magic 2, good, in order, and
// read ahead with the frame behind it. No file is touched: the segment need not be
// acquired. It reports false for any other batch, and has not moved then.
func (c *Scanner) Held() (record.Batch, bool) {
	off := c.pos - c.start
	if c.seen || c.suspect != 0 || off < 0 || off >= int64(len(c.buf)) {
		return record.Batch{}, false
	}
	batch, err := record.Parse(c.buf[off:])
	if err != nil || batch.Magic() != record.MagicV2 {
		return record.Batch{}, false
	}
	size, first, last := int64(batch.Size()), batch.BaseOffset(), batch.LastOffset()
	next, err := record.ParseFrame(c.buf[off+size:])
	if err != nil || next.Magic < record.MagicV0 || next.Magic > record.MagicV2 || int64(next.Size) > c.end-c.pos-size ||
		first <= c.last || last < first || next.Offset <= last ||
		last-c.seg.base >= maxOverflow || c.bound.Sealed && last >= c.bound.Upper ||
		batch.ComputeCRC() != batch.CRC() {
		return record.Batch{}, false
	}
	c.head, c.seen, c.size = batch.Summary(), true, size
	return batch, true
}

// Advance moves on to the next batch. Header, Batch or Checked must have
// returned the present one, or a *CorruptionError for its checksum.
func (c *Scanner) Advance() {
	if c.seen {
		c.passed, c.before = c.pos, c.last
		c.last = c.head.LastOffset
	}
	c.moveTo(c.pos + c.size)
}

func (c *Scanner) moveTo(pos int64) { c.pos, c.size, c.seen = pos, 0, false }

func (c *Scanner) damage(length, first, last int64, err error) error {
	return c.seg.corrupt(c.pos, length, first, last, err)
}

// window returns n bytes from the present position, which must not reach
// beyond the end: what is read is bounded by the file, not by what a header
// claims.
func (c *Scanner) window(n int64) ([]byte, error) {
	off := c.pos - c.start
	if off >= 0 && off+n <= int64(len(c.buf)) && !c.copied {
		return c.buf[off : off+n], nil
	}
	want := int(min(max(n, int64(c.chunk)), c.end-c.pos))
	if cap(c.buf) < want {
		c.buf = make([]byte, want)
	}
	c.buf = c.buf[:want]
	c.chunk = min(2*c.chunk, scanChunk)
	got, err := vfs.ReadFull(c.seg.open.log, c.buf, c.pos)
	c.buf, c.start, c.copied = c.buf[:got], c.pos, false
	if int64(got) >= n {
		return c.buf[:n], nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, c.damage(n, -1, -1, fmt.Errorf("file ends at %d: %w", c.pos+int64(got), io.ErrUnexpectedEOF))
	}
	return nil, fmt.Errorf("read %s at position %d: %w", c.seg.Name(), c.pos, err)
}
