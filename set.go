package seglog

import (
	"cmp"
	"iter"
	"sync"

	"github.com/huandu/skiplist"

	"github.com/seglog/seglog/segment"
)

// segmentSet is the segments of a log at one moment, never changed once
// published: whoever adds or removes a segment publishes a new set. Readers
// find the segment of an offset in O(log n) without a lock.
type segmentSet struct {
	list   *skiplist.SkipList // *offsetKey -> *segment.Segment, descending
	active *segment.Segment   // the last one
}

// offsetKey is a skip list key. Keys are pointers because a pointer fits an
// interface value without an allocation, which a look-up with a plain int64
// would cost.
type offsetKey struct{ offset int64 }

// byOffsetDescending makes Find(offset) answer with the floor: the first
// element that does not come before it is the largest base at or below it.
type byOffsetDescending struct{}

func (byOffsetDescending) Compare(l, r any) int {
	return cmp.Compare(r.(*offsetKey).offset, l.(*offsetKey).offset)
}

// CalcScore is a monotonic hint. Above 2^53 neighbouring offsets share a
// score, and then Compare decides.
func (byOffsetDescending) CalcScore(key any) float64 {
	return -float64(key.(*offsetKey).offset)
}

// newSegmentSet takes segments in ascending order of base offset; there must
// be at least one.
func newSegmentSet(segments []*segment.Segment) *segmentSet {
	list := skiplist.New(byOffsetDescending{})
	for _, s := range segments {
		list.Set(&offsetKey{s.Base()}, s)
	}
	return &segmentSet{list: list, active: segments[len(segments)-1]}
}

var probes = sync.Pool{New: func() any { return new(offsetKey) }}

// floor is the segment with the largest base offset at or below offset, or
// nil if all lie above.
func (s *segmentSet) floor(offset int64) *segment.Segment {
	if offset >= s.active.Base() {
		return s.active
	}
	return segmentOf(s.find(offset))
}

func (s *segmentSet) find(offset int64) *skiplist.Element {
	probe := probes.Get().(*offsetKey)
	probe.offset = offset
	e := s.list.Find(probe)
	probes.Put(probe)
	return e
}

// after is the segment that follows the one with the given base, or nil.
func (s *segmentSet) after(base int64) *segment.Segment {
	if base >= s.active.Base() {
		return nil
	}
	// The list is descending: what follows in the log precedes in the list.
	// base itself may be gone from this set, then its floor's neighbour is
	// what comes next.
	e := s.find(base)
	if e == nil {
		return s.first()
	}
	return segmentOf(e.Prev())
}

// replaced reports whether the offsets of a segment that was in an earlier set are in
// another one now: compaction has put it in its place. What follows the old one in the
// log may be in there, too.
func (s *segmentSet) replaced(old *segment.Segment) bool {
	now := s.floor(old.Base())
	return now != nil && now != old
}

func (s *segmentSet) first() *segment.Segment { return segmentOf(s.list.Back()) }

func segmentOf(e *skiplist.Element) *segment.Segment {
	if e == nil {
		return nil
	}
	return e.Value.(*segment.Segment)
}

func (s *segmentSet) len() int { return s.list.Len() }

// ascending yields the segments from the oldest to the active one.
func (s *segmentSet) ascending() iter.Seq[*segment.Segment] {
	return func(yield func(*segment.Segment) bool) {
		for e := s.list.Back(); e != nil; e = e.Prev() {
			if !yield(segmentOf(e)) {
				return
			}
		}
	}
}

// from yields the segment that holds offset, if any, and all behind it.
func (s *segmentSet) from(offset int64) iter.Seq[*segment.Segment] {
	return func(yield func(*segment.Segment) bool) {
		e := s.find(offset)
		if e == nil {
			e = s.list.Back()
		}
		for ; e != nil; e = e.Prev() {
			if !yield(segmentOf(e)) {
				return
			}
		}
	}
}

func (s *segmentSet) slice() []*segment.Segment {
	all := make([]*segment.Segment, 0, s.len())
	for seg := range s.ascending() {
		all = append(all, seg)
	}
	return all
}
