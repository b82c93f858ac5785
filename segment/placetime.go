package segment

import (
	"runtime/debug"
	"sort"

	"github.com/seglog/seglog/record"
)

// Where timestamps rise from record to record, as they mostly do, the record of a time is
// found among those whose places are remembered by bisection.

// TimeAt returns the first record from offset start on whose timestamp is at or above
// timestamp, if the places around it are known and timestamps rise there. A segment in
// which no timestamp is that large need not be asked. unknown is an offset, or -1, which
// Remember may find something out about. The segment must be acquired.
func (s *Segment) TimeAt(it *record.Iterator, timestamp, start int64) (at TimestampOffset, found bool, unknown int64) {
	p := s.opts.Places
	if p == nil || s.open.index == nil || s.open.time == nil || s.memory.failed.Load() {
		return at, false, -1
	}
	entry := s.timeBelow(timestamp)
	switch {
	case entry.Timestamp < 0 && start <= s.base:
		entry.Offset = s.base // no entry: from the start of the segment
	case entry.Timestamp < 0 || entry.Offset <= start:
		return at, false, -1
	}
	slot, _ := s.open.index.SlotAbove(entry.Offset)
	offset := entry.Offset
	// The time index has no entry where an interval has brought no larger timestamp.
	for n := range maxTimeIntervals {
		v := p.find(s.memory.owner.Load(), slot, 0)
		switch {
		case v == nil:
			return at, false, offset
		case v.records == 0 || !v.rising, n == 0 && entry.Timestamp >= 0 && (v.newest > entry.Timestamp || v.first > entry.Offset):
			return at, false, -1 // nothing to bisect, or an entry is wrong
		case v.newest >= timestamp:
			at, found = s.bisect(it, v, timestamp)
			return at, found && at.Offset >= start, -1
		}
		end, inside := s.open.index.IfAt(slot)
		if !inside {
			return at, false, -1
		}
		offset = end.Offset + 1
		slot++
	}
	return at, false, -1
}

// maxTimeIntervals is how many intervals TimeAt looks into.
const maxTimeIntervals = 4

// bisect finds the first record of v, in which timestamps rise, that is not older than
// timestamp. It and the one before are checked: whatever else may have changed in the
// file, these are still as they were.
func (s *Segment) bisect(it *record.Iterator, v *interval, timestamp int64) (at TimestampOffset, ok bool) {
	memory := s.mappedTo(int64(v.end))
	if memory == nil {
		return at, false
	}
	defer s.memory.catch(debug.SetPanicOnFault(true), &ok)
	ok = true
	i := sort.Search(int(v.records), func(i int) bool {
		// A gap counts as the record behind it; the last one is none.
		for v.at(i) == 0 {
			i++
		}
		r := v.decode(it, memory, i, false)
		ok = ok && r != nil
		return r == nil || r.Timestamp >= timestamp
	})
	for ok && i < int(v.records) && v.at(i) == 0 {
		i++
	}
	if !ok || i == int(v.records) {
		return at, false
	}
	before := i - 1
	for before >= 0 && v.at(before) == 0 {
		before--
	}
	if before >= 0 {
		if r := v.decode(it, memory, before, true); r == nil || r.Timestamp >= timestamp {
			return at, false
		}
	}
	r := v.decode(it, memory, i, true)
	if r == nil || r.Timestamp < timestamp {
		return at, false
	}
	return TimestampOffset{Timestamp: r.Timestamp, Offset: r.Offset}, true
}
