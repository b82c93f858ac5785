package segment

import (
	"errors"
	"io"
	"math"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// SeekOffset aims c at the first batch whose last offset is at or above
// offset. io.EOF when the segment holds none, in which case the next segment
// does. The segment must be acquired.
//
// The index gives a position at or before that batch; from there headers are
// scanned. An index entry that does not lead to a batch of its offset is not
// believed: the scan then starts at the beginning. Damage on the way is stepped over
// as SeekBehind says.
func (s *Segment) SeekOffset(c *Scanner, offset int64) error {
	return s.SeekBelow(c, offset, Unbounded)
}

// SeekBelow is SeekOffset for one who knows what lies behind the segment.
func (s *Segment) SeekBelow(c *Scanner, offset int64, b Bound) error {
	end := s.size.Load()
	entry := s.floor(offset)
	c.Reset(s, entry.Position, end)
	c.Bound(b)
	if end == 0 && b.Sealed && s.open.index != nil && s.open.index.Len() > 0 {
		// Compaction leaves no entries in the index of a segment that it has emptied.
		return s.corrupt(0, 0, s.base, b.Upper-1, errEmptied)
	}
	if entry.Position > 0 && !c.holds(entry.Offset) {
		c.Reset(s, 0, end)
		c.Bound(b)
	}
	err := c.skipBelow(offset)
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	return s.SeekBehind(c, offset, err)
}

var errEmptied = errors.New("the log is empty, but its index is not")

// holds moves to the batch that holds the offset of an index entry, which is the
// present one or, if several were appended as one set, one of the next, and reports
// whether there is one.
func (c *Scanner) holds(offset int64) bool {
	if c.skipBelow(offset) != nil {
		return false
	}
	h, err := c.Header()
	return err == nil && h.BaseOffset <= offset
}

// SeekBehind aims c, which is at damage, at the batch behind it that holds offset.
// Unless a sound batch begins at or below offset the damage may be what held it:
// then damage is returned, and c stays. The segment must be acquired. The cost is
// that of reading the segment up to there, however much damage there is.
func (s *Segment) SeekBehind(c *Scanner, offset int64, damage error) error {
	pos, at := c.pos, c.place
	for {
		err := c.SkipDamage()
		if err == nil {
			err = c.skipBelow(offset)
		}
		if errors.Is(err, ErrCorrupt) {
			continue
		}
		if err == nil {
			err = c.beginsAbove(offset)
		}
		if err == nil {
			return nil
		}
		c.moveTo(pos)
		c.place = at
		if errors.Is(err, io.EOF) || errors.Is(err, ErrCorrupt) {
			return damage
		}
		return err
	}
}

// beginsAbove is io.EOF if all records of the present batch are above offset. A
// legacy wrapper has to be decompressed to tell.
func (c *Scanner) beginsAbove(offset int64) error {
	h, err := c.Header()
	if err != nil || h.BaseOffset <= offset {
		return err
	}
	if h.Magic == record.MagicV2 {
		return io.EOF
	}
	b, err := c.Checked()
	if err != nil {
		return err
	}
	if first, err := b.FirstOffset(nil); err != nil || first > offset {
		return io.EOF
	}
	return nil
}

// skipBelow advances to the first batch whose last offset reaches offset.
func (c *Scanner) skipBelow(offset int64) error {
	for {
		h, err := c.Header()
		if err != nil {
			return err
		}
		if h.LastOffset >= offset {
			return nil
		}
		c.Advance()
	}
}

func (s *Segment) floor(offset int64) index.Entry {
	if s.open.index == nil {
		return index.Entry{Offset: s.base}
	}
	e := s.open.index.Lookup(offset)
	if e.Position >= s.size.Load() { // an index that is ahead of the log
		return index.Entry{Offset: s.base}
	}
	return e
}

// timeBelow returns the last entry of the time index below a timestamp: up to its offset all
// records are older. Of one with the very timestamp, a flipped bit of its offset would go
// unnoticed where several batches have it.
func (s *Segment) timeBelow(timestamp int64) timeindex.Entry {
	return s.open.time.Lookup(max(timestamp, math.MinInt64+1) - 1)
}

// SeekTime aims c at the first batch whose largest timestamp is at or above
// timestamp and whose last offset is at or above start. io.EOF when there is
// none. The segment must be acquired.
//
// The time index gives an offset below which all is older. An entry that its own
// batch contradicts is not believed: the scan then starts at start.
func (s *Segment) SeekTime(c *Scanner, timestamp, start int64, b Bound) error {
	if s.open.time != nil {
		e := s.timeBelow(timestamp)
		if e.Offset > start && e.Timestamp >= 0 {
			if h, err := s.seekHeader(c, e.Offset, b); err == nil && h.MaxTimestamp == e.Timestamp {
				return c.SkipOlder(timestamp)
			}
		}
	}
	if err := s.SeekBelow(c, start, b); err != nil {
		return err
	}
	return c.SkipOlder(timestamp)
}

// seekHeader is SeekBelow, and the header of what it finds.
func (s *Segment) seekHeader(c *Scanner, offset int64, b Bound) (record.Summary, error) {
	if err := s.SeekBelow(c, offset, b); err != nil {
		return record.Summary{}, err
	}
	return c.Header()
}

// newestContradicted reports whether the last entry of the time index, which
// stands for the whole segment, is not what the batch it is about says: then a
// segment would be passed over, or removed for its age, without a reason. A batch
// that cannot be read contradicts nothing.
func (s *Segment) newestContradicted() bool {
	last, ok := s.lastTimeEntry()
	if !ok {
		return false
	}
	var c Scanner
	h, err := s.seekHeader(&c, last.Offset, Unbounded)
	if errors.Is(err, io.EOF) {
		return !s.opts.ReadOnly // a writer may have added it since the end was fixed
	}
	return err == nil && h.MaxTimestamp != last.Timestamp
}

// SkipOlder advances to the first batch, from the present one on, whose largest
// timestamp is at or above timestamp.
func (c *Scanner) SkipOlder(timestamp int64) error {
	for {
		h, err := c.Header()
		if err != nil {
			return err
		}
		if h.MaxTimestamp >= timestamp {
			return nil
		}
		c.Advance()
	}
}

// LargestTimestamp is the largest timestamp in the segment and the last offset
// of the earliest batch that carries it; {-1, base} if no record has one. The
// segment must be acquired. A sealed segment answers from the last entry of its
// time index, and the headers of what lies behind it, lest the index lack its end;
// without one all headers are scanned, once.
func (s *Segment) LargestTimestamp(c *Scanner) (TimestampOffset, error) {
	if newest, known := s.KnownNewest(); known {
		return newest, nil
	}
	newest := TimestampOffset{-1, s.base}
	last, ok := s.lastTimeEntry()
	var err error
	if ok {
		newest = last
		err = s.newestBehind(c, &newest)
	} else {
		err = s.scanNewest(c, 0, &newest)
	}
	if err != nil {
		return newest, err
	}
	s.setNewest(newest)
	return newest, nil
}

// newestBehind raises newest, the last entry of the time index, by what lies behind
// it: nothing newer, but if the index lost entries at its end, which leaves one that
// looks whole. In a segment whose timestamps rise that is a look at its last batches.
func (s *Segment) newestBehind(c *Scanner, newest *TimestampOffset) error {
	err := s.SeekOffset(c, newest.Offset)
	for {
		var h record.Summary
		if err == nil {
			h, err = c.Header()
		}
		switch {
		case err == nil:
			newest.raise(h.MaxTimestamp, h.LastOffset)
			c.Advance()
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrCorrupt):
			err = c.SkipDamage() // for readers to find
			if errors.Is(err, ErrCorrupt) {
				return nil
			}
		default:
			return err
		}
	}
}

// LastOffset is the last offset of the last batch, one below the base if there is none.
// The segment must be acquired. Headers are read from the last entry of the index on;
// what cannot be a batch is stepped over.
func (s *Segment) LastOffset(c *Scanner) (int64, error) {
	size := s.size.Load()
	c.Reset(s, s.floor(math.MaxInt64).Position, size)
	if _, err := c.Header(); errors.Is(err, ErrCorrupt) {
		c.Reset(s, 0, size) // the index may have led astray
	}
	last := s.base - 1
	for {
		h, err := c.Header()
		switch {
		case err == nil:
			last = h.LastOffset
			c.Advance()
			continue
		case errors.Is(err, ErrCorrupt):
			if err = c.SkipDamage(); err == nil {
				continue
			}
		}
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		return last, err
	}
}

// KnownNewest is what LargestTimestamp returns, if that is in memory; then the segment
// needs not be acquired.
func (s *Segment) KnownNewest() (newest TimestampOffset, known bool) {
	s.newest.Lock()
	defer s.newest.Unlock()
	return s.newest.TimestampOffset, s.newest.known
}

func (s *Segment) lastTimeEntry() (TimestampOffset, bool) {
	if s.open.time == nil {
		return TimestampOffset{}, false
	}
	e, ok := s.open.time.Last()
	return TimestampOffset{e.Timestamp, e.Offset}, ok
}

func (s *Segment) setNewest(t TimestampOffset) {
	s.newest.Lock()
	s.newest.TimestampOffset, s.newest.known = t, true
	s.newest.Unlock()
}

// scanNewest raises newest by the batches from pos on.
func (s *Segment) scanNewest(c *Scanner, pos int64, newest *TimestampOffset) error {
	c.Reset(s, pos, s.size.Load())
	for {
		h, err := c.Header()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		newest.raise(h.MaxTimestamp, h.LastOffset)
		c.Advance()
	}
}

func (t *TimestampOffset) raise(timestamp, offset int64) {
	if timestamp > t.Timestamp {
		*t = TimestampOffset{timestamp, offset}
	}
}
