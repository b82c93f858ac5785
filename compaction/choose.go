package compaction

import (
	"math"
	"time"
)

// Extent is what choosing needs to know of a sealed segment.
type Extent struct {
	Base, Size int64
	// Largest is the largest timestamp of the segment. It is looked at only if
	// Policy.MinLag is set.
	Largest int64
	// First is the largest timestamp of its first batch. It is looked at only if
	// Policy.MaxLag is set.
	First int64
}

// Bounds are those of a log that is to be judged.
type Bounds struct {
	Start, End int64 // log start and log end offset
	LastStable int64
	ActiveBase int64 // base offset of the active segment
	Sealed     []Extent
}

// Policy are the settings that choosing goes by.
type Policy struct {
	// MinDirtyRatio is min.cleanable.dirty.ratio: a log whose dirty part is no larger
	// a share of what could be cleaned is left alone.
	MinDirtyRatio float64
	// MinLag is min.compaction.lag.ms: a segment with a record that is younger is not
	// cleaned, nor is any behind it. 0 means none.
	MinLag time.Duration
	// MaxLag is max.compaction.lag.ms: a log with a dirty record that is older is
	// cleaned whatever the ratio. 0 means no limit.
	MaxLag time.Duration
}

// Choice is the part of a log that may be cleaned now, and how much it asks for it.
type Choice struct {
	// FirstDirty is where the dirty part begins, and FirstUncleanable where the part
	// begins that must not be touched: the base offset of a segment. Nothing is
	// cleanable unless FirstDirty is below.
	FirstDirty, FirstUncleanable int64
	// CleanBytes and CleanableBytes are the sizes of the segments on either side of
	// FirstDirty. The one it lies in counts on both, as in Kafka.
	CleanBytes, CleanableBytes int64
	// Reset is true if the checkpoint lay outside of the log and FirstDirty is the log
	// start instead: it is to be written back.
	Reset bool
	// Overdue is by how much the oldest dirty record is older than Policy.MaxLag.
	Overdue time.Duration
}

// Choose finds out what may be cleaned of a log of which everything below checkpoint
// is clean; -1 if that is not known. now is in milliseconds since 1970. It is
// LogCleanerManager.cleanableOffsets and the arithmetic of LogToClean.
//
// It differs in one thing: a segment that holds the log start, and nothing clean
// above it, does not count as clean as well as dirty.
func Choose(b Bounds, checkpoint int64, p Policy, now int64) Choice {
	c := Choice{FirstDirty: checkpoint}
	if checkpoint < b.Start || checkpoint > b.End {
		c.FirstDirty, c.Reset = b.Start, true
	}
	stop := min(b.LastStable, b.ActiveBase)
	if p.MinLag > 0 {
		for _, s := range dirty(b, c.FirstDirty) {
			if s.Largest > now-p.MinLag.Milliseconds() {
				stop = min(stop, s.Base)
				break
			}
		}
	}
	stop = max(stop, c.FirstDirty)
	c.FirstUncleanable = b.ActiveBase
	if behind := dirty(b, stop); len(behind) > 0 {
		c.FirstUncleanable = behind[0].Base
	}
	for i, s := range b.Sealed {
		if max(s.Base, b.Start) < c.FirstDirty {
			c.CleanBytes += s.Size
		}
		if s.Base < c.FirstUncleanable && b.next(i) > c.FirstDirty {
			c.CleanableBytes += s.Size
		}
	}
	c.Overdue = overdue(b, c.FirstDirty, p, now)
	return c
}

// next is the base offset of the segment behind the ith sealed one.
func (b Bounds) next(i int) int64 {
	if i+1 < len(b.Sealed) {
		return b.Sealed[i+1].Base
	}
	return b.ActiveBase
}

// dirty are the sealed segments from the one that holds offset on.
func dirty(b Bounds, offset int64) []Extent {
	for i := range b.Sealed {
		if b.next(i) > offset {
			return b.Sealed[i:]
		}
	}
	return nil
}

func overdue(b Bounds, firstDirty int64, p Policy, now int64) time.Duration {
	if p.MaxLag <= 0 {
		return 0
	}
	earliest := int64(math.MaxInt64)
	for _, s := range dirty(b, firstDirty) {
		if s.First > 0 {
			earliest = min(earliest, s.First)
		}
	}
	if until := now - p.MaxLag.Milliseconds(); earliest < until {
		return time.Duration(until-earliest) * time.Millisecond
	}
	return 0
}

// Ratio is the share of the dirty part in what is clean or could be, from 0 to 1.
func (c Choice) Ratio() float64 {
	if total := c.CleanBytes + c.CleanableBytes; total > 0 {
		return float64(c.CleanableBytes) / float64(total)
	}
	return 0
}

// Due reports whether the log should be cleaned now.
func (c Choice) Due(p Policy) bool {
	return c.CleanableBytes > 0 && c.FirstDirty < c.FirstUncleanable && (c.Overdue > 0 || c.Ratio() > p.MinDirtyRatio)
}

// Dirtiest returns which of the choices that are due has the largest ratio, the first
// among equals; -1 if none is due. As in Kafka, one that is overdue has no precedence.
func Dirtiest(choices []Choice, policy func(i int) Policy) int {
	best := -1
	for i, c := range choices {
		if c.Due(policy(i)) && (best < 0 || c.Ratio() > choices[best].Ratio()) {
			best = i
		}
	}
	return best
}
