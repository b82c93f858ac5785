package seglog

import (
	"errors"
	"fmt"
	"io"

	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// TimestampOffset is a record's timestamp, in milliseconds since the epoch,
// and its offset.
type TimestampOffset = segment.TimestampOffset

// Special timestamps for OffsetForTime, as in Kafka's ListOffsets request.
const (
	// LatestTimestamp asks for the log end offset.
	LatestTimestamp int64 = -1
	// EarliestTimestamp asks for the log start offset.
	EarliestTimestamp int64 = -2
	// MaxTimestamp asks for the first record with the largest timestamp.
	MaxTimestamp int64 = -3
)

// OffsetForTime returns the first record, by offset, whose timestamp is at or
// above timestamp (milliseconds since the epoch). found is false when there is
// none, which is not an error. Records without a timestamp are never found;
// timestamps need not be in order.
//
// The special timestamps ask for the bounds of the log (found is true, the
// Timestamp returned is -1) and for the record with the largest timestamp.
//
// The first segment that can hold the answer is found by its largest timestamp,
// the place in it by its time index; from there the cost is that of an index
// interval and one batch, or, where timestamps rise and places are remembered (see
// Options.LookupBytes), of a bisection.
func (l *Log) OffsetForTime(timestamp int64) (at TimestampOffset, found bool, err error) {
	if l.closed.Load() {
		return at, false, fmt.Errorf("offset for time: %w", ErrClosed)
	}
	r := readers.Get().(*reader)
	defer readers.Put(r)
	switch {
	case timestamp == LatestTimestamp:
		return TimestampOffset{Timestamp: -1, Offset: l.end.Load()}, true, nil
	case timestamp == EarliestTimestamp:
		return TimestampOffset{Timestamp: -1, Offset: l.start.Load()}, true, nil
	case timestamp < 0 && timestamp != MaxTimestamp:
		return at, false, fmt.Errorf("offset for time: %w", &OptionError{
			Field: "timestamp", Value: fmt.Sprint(timestamp), Want: "0 or above, or -1, -2 or -3"})
	}
	for d, more := l.newDoubt(), true; more; {
		if at, found, err = l.publishedAt(r, timestamp); err == nil {
			break
		}
		more, err = l.again(&d, err)
	}
	if err != nil {
		return TimestampOffset{}, false, fmt.Errorf("offset for time %d: %w", timestamp, l.tellDamaged(err))
	}
	return at, found, nil
}

// publishedAt looks a timestamp up and sees to it that the answer lies below
// the log end. One beyond it was written a moment ago and is about to be
// published, or was just truncated; both are done under the append lock.
func (l *Log) publishedAt(r *reader, timestamp int64) (at TimestampOffset, found bool, err error) {
	for {
		generation := l.generation.Load()
		if timestamp == MaxTimestamp {
			at, found, err = l.maxTimestamp(r)
		} else {
			at, found, err = l.firstAt(r, timestamp)
		}
		if err != nil || !found || at.Offset < l.end.Load() {
			return at, found, err
		}
		l.append.Lock()
		end := l.end.Load()
		l.append.Unlock()
		if at.Offset < end {
			return at, true, nil
		}
		if l.generation.Load() == generation {
			return TimestampOffset{}, false, nil // the files claim more than the log
		}
	}
}

// firstAt asks the segments in order. Kafka asks only the first whose largest
// timestamp reaches the target; we go on when that one holds its newest record
// below the log start.
func (l *Log) firstAt(r *reader, timestamp int64) (TimestampOffset, bool, error) {
	start := l.start.Load()
	set := l.set.Load()
	for s := range set.from(start) {
		if newest, known := s.KnownNewest(); known && newest.Timestamp < timestamp {
			continue
		}
		at, found, err := l.firstInSegment(r, s, timestamp, start, l.boundOf(set, s))
		if errors.Is(err, segment.ErrRetired) {
			if err := l.changed(set); err != nil {
				return at, false, err
			}
			return l.firstAt(r, timestamp)
		}
		if err != nil || found {
			return at, found, err
		}
	}
	return TimestampOffset{}, false, nil
}

func (l *Log) firstInSegment(r *reader, s *segment.Segment, timestamp, start int64, b segment.Bound) (TimestampOffset, bool, error) {
	var none TimestampOffset
	if err := l.acquire(s); err != nil {
		return none, false, err
	}
	defer s.Release()
	largest, err := s.LargestTimestamp(&r.scan)
	if err != nil || largest.Timestamp < timestamp {
		return none, false, err
	}
	if at, found := r.placedAt(s, timestamp, start, b); found {
		return at, true, nil
	}
	err = s.SeekTime(&r.scan, timestamp, start, b)
	for err == nil {
		var at TimestampOffset
		var found bool
		if at, found, err = r.firstInBatch(timestamp, start); found || err != nil {
			return at, found, err
		}
		r.scan.Advance()
		err = r.scan.SkipOlder(timestamp)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return none, false, err
}

// placedAt is the answer if it is among records whose places are known, or can be found
// out now. Whatever stands in the way, the search in the files says what is wrong.
func (r *reader) placedAt(s *segment.Segment, timestamp, start int64, b segment.Bound) (at TimestampOffset, found bool) {
	for last := int64(-1); ; {
		at, found, unknown := s.TimeAt(&r.it, timestamp, start)
		if found || unknown <= last { // it was to be remembered, and is not
			return at, found
		}
		s.Remember(&r.scan, &r.it, unknown, b)
		last = unknown
	}
}

// firstInBatch looks in the present batch. Control records count, as in Kafka.
func (r *reader) firstInBatch(timestamp, start int64) (TimestampOffset, bool, error) {
	b, err := r.scan.Checked()
	if err != nil {
		return TimestampOffset{}, false, err
	}
	if err := r.it.Reset(b); err != nil {
		return TimestampOffset{}, false, r.damaged(b, err)
	}
	for r.it.Next() {
		if rec := r.it.Record(); rec.Timestamp >= timestamp && rec.Offset >= start {
			return TimestampOffset{Timestamp: rec.Timestamp, Offset: rec.Offset}, true, nil
		}
	}
	if err := r.it.Err(); err != nil {
		return TimestampOffset{}, false, r.damaged(b, err)
	}
	return TimestampOffset{}, false, nil
}

// maxTimestamp finds the segment with the largest timestamp, the first among
// equals, and in it the first record that carries it. What lies below the log
// start does not count, so the segment that holds the log start is asked again if
// its newest record is not to be had.
func (l *Log) maxTimestamp(r *reader) (TimestampOffset, bool, error) {
	set := l.set.Load()
	start := l.start.Load()
	at, found, err := l.newestOf(r, set, start)
	if !errors.Is(err, segment.ErrRetired) {
		return at, found, err
	}
	if err := l.changed(set); err != nil {
		return at, false, err
	}
	return l.maxTimestamp(r)
}

func (l *Log) newestOf(r *reader, set *segmentSet, start int64) (TimestampOffset, bool, error) {
	var newest *segment.Segment
	largest := int64(-1)
	for s := range set.from(start) {
		at, err := l.largestFrom(r, s, start, l.boundOf(set, s))
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if at > largest {
			newest, largest = s, at
		}
	}
	if newest == nil {
		return TimestampOffset{}, false, nil
	}
	return l.firstInSegment(r, newest, largest, start, l.boundOf(set, newest))
}

// largestFrom is the largest timestamp of the records of s at or above start.
func (l *Log) largestFrom(r *reader, s *segment.Segment, start int64, behind segment.Bound) (int64, error) {
	if err := l.acquire(s); err != nil {
		return -1, err
	}
	defer s.Release()
	at, err := s.LargestTimestamp(&r.scan)
	if err != nil || at.Offset >= start && s.Base() >= start || at.Timestamp < 0 {
		return at.Timestamp, err
	}
	largest := int64(-1)
	for err = s.SeekBelow(&r.scan, start, behind); err == nil; r.scan.Advance() {
		var b record.Batch
		if b, err = r.scan.Checked(); err != nil {
			break
		}
		if b.MaxTimestamp() <= largest {
			continue
		}
		if err = r.it.Reset(b); err != nil {
			return -1, r.damaged(b, err)
		}
		for ok := r.it.SkipTo(start); ok; ok = r.it.Next() {
			largest = max(largest, r.it.Record().Timestamp)
		}
		if err = r.it.Err(); err != nil {
			return -1, r.damaged(b, err)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return largest, err
}
