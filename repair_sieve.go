package seglog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// sieve parts the log of a segment into good batches and the rest. What Verify
// found decides; besides, whatever it found, what comes through has a matching
// checksum, offsets above those before it, and none of the segment behind.
type sieve struct {
	f *findings
	i int // which segment

	// good is given each good batch with the offset of its first record. The
	// batch is valid until it returns.
	good func(b record.Batch, first int64) error
	// bad is given each stretch between them; nil if nobody wants to know.
	bad func(DamagedRange) error

	log    vfs.File
	walk   segment.Walker
	it     record.Iterator
	floor  int64         // below it, offsets are in a segment before
	next   int64         // offset behind the last good batch
	limit  int64         // where the next segment begins
	damage *DamagedRange // at the present place
	parts  int           // stretches in it
	split  bool          // offsets do not fit the segment
}

// errChanged is a log that was not the same when it was read again.
var errChanged = errors.New("the log changed while it was read")

// sift sends the log of segment i through a sieve.
func (f *findings) sift(i int, good func(record.Batch, int64) error, bad func(DamagedRange) error) (*sieve, error) {
	s := &sieve{f: f, i: i, good: good, bad: bad, floor: f.floor(i), next: f.floor(i), limit: f.limit(i)}
	return s, s.sift()
}

func (s *sieve) sift() error {
	log, err := s.f.open(s.i)
	if err != nil {
		return err
	}
	s.log = log
	defer s.it.Close()
	return errors.Join(s.run(), log.Close())
}

func (f *findings) open(i int) (vfs.File, error) {
	return f.log.opts.FS.OpenFile(f.path(i), os.O_RDONLY, 0)
}

func (s *sieve) run() error {
	pos := int64(0)
	for _, bad := range s.f.bad[s.f.dir.bases[s.i]] {
		if err := s.region(pos, bad.pos); err != nil {
			return err
		}
		if err := s.stretch(bad); err != nil {
			return err
		}
		pos = bad.end
	}
	if err := s.region(pos, s.f.sizes[s.i]); err != nil {
		return err
	}
	if s.limit == math.MaxInt64 {
		return s.told(-1)
	}
	return s.told(s.limit - 1)
}

// region reads bytes that hold good batches only.
func (s *sieve) region(from, to int64) error {
	s.walk.Reset(s.log, s.f.dir.bases[s.i], from, to)
	for s.walk.Next() {
		if s.f.ctx.Err() != nil {
			return context.Cause(s.f.ctx)
		}
		part := s.walk.Part()
		s.f.advanced(part.Size)
		if part.Kind != segment.Whole {
			if s.f.writer && s.f.last(s.i) && to == s.f.sizes[s.i] {
				return nil // being written
			}
			return fmt.Errorf("%s: position %d: %w: %w", s.f.name(s.i), part.Position, errChanged, part.Err)
		}
		b, err := s.walk.Batch()
		if err != nil {
			return err
		}
		if err := s.batch(b, part.Position); err != nil {
			return err
		}
	}
	return s.walk.Err()
}

func (s *sieve) batch(b record.Batch, pos int64) error {
	first, err := b.FirstOffset(&s.it)
	if err != nil {
		first = b.BaseOffset() // of an old batch that we cannot decompress
	}
	last, size := b.LastOffset(), int64(b.Size())
	switch {
	case first < s.floor:
		return s.reject(pos, size, "segment_overlap", fmt.Sprintf("the batch begins at offset %d, and the segment before it ends at %d", first, s.floor-1))
	case first < s.next:
		return s.reject(pos, size, "offset_order", fmt.Sprintf("the batch begins at offset %d, and the one before it ends at %d", first, s.next-1))
	case last >= s.limit:
		return s.reject(pos, size, "segment_overlap", fmt.Sprintf("the batch ends at offset %d, and the next segment begins at %d", last, s.limit))
	}
	if err := s.told(first - 1); err != nil {
		return err
	}
	s.next = last + 1
	return s.good(b, first)
}

// stretch passes over what is no good batch, unless it is one whose offsets an
// old broker has put into a segment that they do not fit.
func (s *sieve) stretch(bad stretch) error {
	if bad.kind == "offset_range" {
		rising, err := s.rising(bad)
		if err != nil {
			return err
		}
		if rising {
			s.split = true
			return s.region(bad.pos, bad.end)
		}
	}
	if bad.kind == "crc_mismatch" {
		// Memory and cables flip bits too.
		s.walk.Reset(s.log, s.f.dir.bases[s.i], bad.pos, bad.end)
		if s.walk.Next() && s.walk.Part().Kind == segment.Whole {
			return fmt.Errorf("%s: position %d: a checksum that did not match does now: %w", s.f.name(s.i), bad.pos, errChanged)
		}
		if err := s.walk.Err(); err != nil {
			return err
		}
	}
	s.f.advanced(bad.end - bad.pos)
	return s.reject(bad.pos, bad.end-bad.pos, bad.kind, bad.reason)
}

// rising reports whether what comes next says that a batch is rightly as far
// above the base offset as it claims, which no checksum guards: the batch behind
// it goes on from there, or the next segment does.
func (s *sieve) rising(bad stretch) (bool, error) {
	s.walk.Reset(s.log, s.f.dir.bases[s.i], bad.pos, bad.end)
	if !s.walk.Next() || s.walk.Part().Kind != segment.Whole {
		return false, s.walk.Err()
	}
	last := s.walk.Part().Summary.LastOffset
	if s.f.sizes[s.i]-bad.end < record.MinFrame {
		return s.limit < math.MaxInt64 && last < s.limit, nil
	}
	var b [8]byte
	_, err := vfs.ReadFull(s.log, b[:], bad.end)
	return int64(binary.BigEndian.Uint64(b[:])) > last, err
}

// reject adds bytes to the present damage.
func (s *sieve) reject(pos, length int64, kind, reason string) error {
	if s.damage == nil {
		s.damage = &DamagedRange{File: s.f.name(s.i), Position: pos, FirstOffset: s.next, Kind: kind, Reason: reason}
		s.parts = 0
	}
	s.damage.Length = pos + length - s.damage.Position
	s.parts++
	return nil
}

// told tells of the present damage. lastOffset is the last that its records may
// have had.
func (s *sieve) told(lastOffset int64) error {
	d := s.damage
	if d == nil {
		return nil
	}
	s.damage = nil
	d.LastOffset = lastOffset
	if s.parts > 1 {
		d.Reason += fmt.Sprintf(" (the first of %d bad stretches)", s.parts)
	}
	if s.bad == nil {
		return nil
	}
	return s.bad(*d)
}

// endOfBatch is where the batch at pos says that it ends.
func endOfBatch(log vfs.File, pos int64) (int64, error) {
	var b [record.MinFrame]byte
	if _, err := vfs.ReadFull(log, b[:], pos); err != nil {
		return 0, err
	}
	frame, err := record.ParseFrame(b[:])
	return pos + int64(frame.Size), err
}

// countRecords is how many records a good batch has.
func countRecords(b record.Batch, it *record.Iterator) int64 {
	if n := b.Count(); n >= 0 {
		return int64(n)
	}
	n := int64(0)
	if it.Reset(b) == nil {
		for it.Next() {
			n++
		}
	}
	return n
}
