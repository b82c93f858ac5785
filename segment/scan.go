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
// The segment must be acquired during every call of Header and Batch. What they
// return aliases the scanner's buffer and is valid until the next call of
// Header, Batch or Reset.
type Scanner struct {
	seg   *Segment
	pos   int64 // of the present batch
	end   int64 // nothing at or beyond it is read
	size  int64 // of the present batch, 0 before Header
	chunk int

	buf   []byte
	start int64 // position of buf[0] in the file
}

// Reset aims the scanner at position pos of s; it will stop at end. What it
// read ahead is forgotten.
func (c *Scanner) Reset(s *Segment, pos, end int64) {
	c.seg, c.pos, c.end, c.size = s, pos, end, 0
	c.chunk = seekChunk
	c.Forget()
}

// Forget drops what was read ahead, for when the file may have changed.
func (c *Scanner) Forget() {
	c.buf = c.buf[:0]
	c.start = c.pos
}

// Extend moves the end further, after more was written.
func (c *Scanner) Extend(end int64) { c.end = end }

// Position is the position of the present batch.
func (c *Scanner) Position() int64 { return c.pos }

// End is where the scan stops.
func (c *Scanner) End() int64 { return c.end }

// Segment is what is being scanned.
func (c *Scanner) Segment() *Segment { return c.seg }

// Header returns what the present batch's header says. io.EOF at the end. Bytes
// that cannot be a batch, or one that claims more bytes than there are, give a
// *CorruptionError; one that claims too many matches record.ErrShort as well.
func (c *Scanner) Header() (record.Summary, error) {
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
			var next int64
			if next, err = s.NextWhole(c.pos); err == nil {
				c.Reset(s, next, c.end)
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
	b, err := c.window(c.size)
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
	batch, err := c.Batch()
	if err != nil {
		return record.Batch{}, err
	}
	if err := batch.Check(); err != nil {
		return record.Batch{}, c.damage(c.size, batch.BaseOffset(), batch.LastOffset(), err)
	}
	return batch, nil
}

// Advance moves on to the next batch. Header, Batch or Checked must have
// returned the present one, or a *CorruptionError for its checksum.
func (c *Scanner) Advance() {
	c.pos += c.size
	c.size = 0
}

func (c *Scanner) damage(length, first, last int64, err error) error {
	return c.seg.corrupt(c.pos, length, first, last, err)
}

// window returns n bytes from the present position, which must not reach
// beyond the end: what is read is bounded by the file, not by what a header
// claims.
func (c *Scanner) window(n int64) ([]byte, error) {
	off := c.pos - c.start
	if off >= 0 && off+n <= int64(len(c.buf)) {
		return c.buf[off : off+n], nil
	}
	want := int(min(max(n, int64(c.chunk)), c.end-c.pos))
	if cap(c.buf) < want {
		c.buf = make([]byte, want)
	}
	c.buf = c.buf[:want]
	c.chunk = min(2*c.chunk, scanChunk)
	got, err := vfs.ReadFull(c.seg.open.log, c.buf, c.pos)
	c.buf, c.start = c.buf[:got], c.pos
	if int64(got) >= n {
		return c.buf[:n], nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, c.damage(n, -1, -1, fmt.Errorf("file ends at %d: %w", c.pos+int64(got), io.ErrUnexpectedEOF))
	}
	return nil, fmt.Errorf("read %s at position %d: %w", c.seg.Name(), c.pos, err)
}
