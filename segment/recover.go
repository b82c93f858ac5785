package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// Recovery tells what Recover found and did.
type Recovery struct {
	Batches int64 // good batches
	Bytes   int64 // their length
	// Cut is how many bytes were removed behind the last good batch, and
	// Reason why the scan stopped there; nil when nothing was cut.
	Cut    int64
	Reason error
}

// Recover reads the whole log of the segment, checks every batch, cuts the
// file behind the last good one and rebuilds both indexes, exactly as Kafka does
// after an unclean stop (LogSegment.recover): indexes get one entry per batch
// that starts more than the interval behind the last one, whatever sets the
// batches were appended in. The segment is writable afterwards. visit, if not
// nil, sees every good batch; its error ends the recovery.
//
// Records are not decoded: a batch whose checksum holds is taken as it is.
func (s *Segment) Recover(visit func(pos int64, b record.Batch) error) (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	r, err := s.recoverLocked(visit)
	if err != nil {
		s.closeFilesLocked()
		return r, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	s.writable, s.open.isOpen = true, true
	return r, nil
}

func (s *Segment) recoverLocked(visit func(int64, record.Batch) error) (Recovery, error) {
	if err := s.openForRecoveryLocked(); err != nil {
		return Recovery{}, err
	}
	r, err := s.replay(indexRebuild{offsets: true, times: true}, visit)
	if err != nil {
		return r, err
	}
	if r.Cut == 0 {
		return r, nil
	}
	// Cut and sync before anything is appended: what comes next must not
	// end up behind bytes that a second recovery stops at.
	if err := s.open.log.Truncate(r.Bytes); err != nil {
		return r, err
	}
	return r, s.open.log.Sync()
}

func (s *Segment) openForRecoveryLocked() error {
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.open.log = f
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > MaxBytes {
		return s.corrupt(0, fi.Size(), -1, -1, fmt.Errorf("file has %d bytes, more than the %d a segment can have", fi.Size(), int64(MaxBytes)))
	}
	s.size.Store(fi.Size())
	return s.createIndexes()
}

// rebuildIndexesLocked makes the named indexes anew from the log of a sealed
// segment, and leaves both open for reading. A log that is damaged in its middle
// gets an index of what lies before: reading reports the damage.
func (s *Segment) rebuildIndexesLocked(offsets, times bool) error {
	var err error
	if offsets {
		s.open.index, err = index.Create(s.indexPath(), s.base, s.indexOptions())
	} else {
		s.open.index, err = index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions())
	}
	if err != nil {
		return err
	}
	if times {
		s.open.time, err = timeindex.Create(s.timeIndexPath(), s.base, s.timeIndexOptions())
	} else {
		s.open.time, err = timeindex.OpenReadOnly(s.timeIndexPath(), s.base, s.timeIndexOptions())
	}
	if err != nil {
		return err
	}
	size := s.size.Load()
	_, err = s.replay(indexRebuild{offsets, times}, nil)
	s.size.Store(size)
	if offsets {
		err = errors.Join(err, s.open.index.Trim())
	}
	if times {
		err = errors.Join(err, s.open.time.Trim())
	}
	return err
}

type indexRebuild struct{ offsets, times bool }

// replay walks the good batches from the start, feeding the indexes that are
// to be rebuilt, and leaves the segment's end where they end.
func (s *Segment) replay(which indexRebuild, visit func(int64, record.Batch) error) (Recovery, error) {
	var (
		c           Scanner
		r           Recovery
		newest      = TimestampOffset{-1, s.base}
		lastIndexed int64
		end         = s.size.Load()
	)
	s.nextOffset, s.anchor, s.sinceIndex = s.base, -1, 0
	c.Reset(s, 0, end)
	for {
		b, err := c.Checked()
		if err == nil && b.LastOffset() < s.nextOffset {
			err = s.corrupt(c.pos, c.size, b.BaseOffset(), b.LastOffset(),
				fmt.Errorf("last offset %d, want %d or more", b.LastOffset(), s.nextOffset))
		}
		if errors.Is(err, ErrCorrupt) {
			r.Reason = err
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return r, err
		}
		if !s.Fits(b.LastOffset()) {
			return r, s.corrupt(c.pos, c.size, b.BaseOffset(), b.LastOffset(), ErrOffsetOverflow)
		}
		if c.pos == 0 {
			s.anchor = b.MaxTimestamp()
		}
		newest.raise(b.MaxTimestamp(), b.LastOffset())
		if c.pos-lastIndexed > s.opts.IndexIntervalBytes {
			if err := s.addRebuilt(which, b.LastOffset(), c.pos, newest); err != nil {
				return r, err
			}
			lastIndexed = c.pos
		}
		if visit != nil {
			if err := visit(c.pos, b); err != nil {
				return r, err
			}
		}
		s.nextOffset = b.LastOffset() + 1
		r.Batches++
		c.Advance()
	}
	r.Bytes, r.Cut = c.pos, end-c.pos
	s.size.Store(c.pos)
	s.setNewest(newest)
	if which.times && newest.Timestamp >= 0 {
		return r, s.open.time.MaybeAppend(newest.Timestamp, newest.Offset, true)
	}
	return r, nil
}

func (s *Segment) addRebuilt(which indexRebuild, lastOffset, pos int64, newest TimestampOffset) error {
	if which.offsets {
		if err := s.open.index.Append(lastOffset, pos); err != nil {
			return err
		}
	}
	if which.times && newest.Timestamp >= 0 {
		return s.open.time.MaybeAppend(newest.Timestamp, newest.Offset, false)
	}
	return nil
}

// findEndLocked finds the end of a log whose tail can be trusted: from the
// last index entry on, headers are read.
func (s *Segment) findEndLocked() error {
	var c Scanner
	size := s.size.Load()
	newest := TimestampOffset{-1, s.base}
	if last, ok := s.lastTimeEntry(); ok {
		newest = last
	}
	s.nextOffset, s.anchor, s.sinceIndex = s.base, -1, 0
	c.Reset(s, 0, size)
	if h, err := c.Header(); err == nil {
		s.anchor = h.MaxTimestamp
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	var from int64
	if e, ok := s.open.index.Last(); ok {
		from = e.Position
		if from >= size {
			return s.corrupt(size, 0, -1, -1, fmt.Errorf("the index has an entry at position %d, behind the end", from))
		}
	}
	c.Reset(s, from, size)
	for {
		h, err := c.Header()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.nextOffset = h.LastOffset + 1
		newest.raise(h.MaxTimestamp, h.LastOffset)
		c.Advance()
	}
	s.setNewest(newest)
	return nil
}

// positionLocked is where the first batch with a last offset at or above
// offset starts, or the size of the log.
func (s *Segment) positionLocked(offset int64) (int64, error) {
	var c Scanner
	err := s.SeekOffset(&c, offset)
	if errors.Is(err, io.EOF) {
		return s.size.Load(), nil
	}
	return c.pos, err
}

// BoundTail limits a read-only segment, the last of its log, to the whole and
// valid batches that are there now: a writer may be in the middle of the next
// one, and behind an unclean stop there may be anything. Called again it takes
// in what was appended since. It reports what lies behind the end.
func (s *Segment) BoundTail() (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	var r Recovery
	first := !s.open.isOpen
	if first {
		if err := s.openFilesLocked(); err != nil {
			return r, err
		}
	}
	fi, err := s.open.log.Stat()
	if err != nil {
		return r, err
	}
	fileEnd := fi.Size()
	from := s.size.Load()
	if first {
		s.size.Store(fileEnd) // for the bounds check of the index
		s.nextOffset = s.base
		from = s.trustedPosition()
	}
	newest := s.Newest()
	if last, ok := s.lastTimeEntry(); ok && first && last.Timestamp > newest.Timestamp {
		newest = last
	}
	var c Scanner
	c.Reset(s, from, fileEnd)
	for {
		b, err := c.Checked()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, ErrCorrupt) {
			r.Reason = err
			break
		}
		if err != nil {
			return r, err
		}
		newest.raise(b.MaxTimestamp(), b.LastOffset())
		s.nextOffset = b.LastOffset() + 1
		r.Batches++
		c.Advance()
	}
	r.Bytes, r.Cut = c.pos, fileEnd-c.pos
	s.size.Store(c.pos)
	s.setNewest(newest)
	return r, nil
}

// trustedPosition is the position of the last index entry if a sound batch
// starts there, else 0.
func (s *Segment) trustedPosition() int64 {
	if s.open.index == nil {
		return 0
	}
	for i := s.open.index.Len() - 1; i >= 0; i-- {
		e := s.open.index.At(i)
		var c Scanner
		c.Reset(s, e.Position, s.size.Load())
		if b, err := c.Checked(); err == nil && b.BaseOffset() <= e.Offset && b.BaseOffset() >= s.base {
			return e.Position
		}
	}
	return 0
}
