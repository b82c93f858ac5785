package compaction

import (
	"math"

	"github.com/seglog/seglog/segment"
)

// source is a segment that is to be cleaned.
type source struct {
	seg              *segment.Segment
	base             int64
	next             int64 // base offset of the segment behind it
	size             int64 // of its log, in bytes
	index, timeIndex int64 // of its indexes, in bytes
}

// group gathers neighbouring segments that together fit the limits for one: they are
// cleaned into one, so that segments do not get ever smaller. A segment that is larger
// than a limit is a group of its own. Kafka: groupSegmentsBySize.
func group(sources []source, maxBytes, maxIndexBytes int64) [][]source {
	var groups [][]source
	for len(sources) > 0 {
		sum := sources[0]
		n := 1
		for ; n < len(sources); n++ {
			s := sources[n]
			sum.size += s.size
			sum.index += s.index
			sum.timeIndex += s.timeIndex
			// The last offset is not known without reading. An empty segment has none,
			// and else an empty one would be left for every 2^31 offsets.
			far := s.size > 0 && s.next-1-sum.base > math.MaxInt32
			if far || sum.size > maxBytes || sum.index > maxIndexBytes || sum.timeIndex > maxIndexBytes {
				break
			}
		}
		groups = append(groups, sources[:n:n])
		sources = sources[n:]
	}
	return groups
}
