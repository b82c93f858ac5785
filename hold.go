package seglog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/seglog/seglog/segment"
)

// Hold keeps retention from removing what its owner has still to read, up to a
// limit. It is made by Log.Hold, lives in memory, and may be used by one goroutine
// at a time.
type Hold struct {
	log  *Log
	info HoldInfo // guarded by log.holds
}

// HoldInfo describes a hold.
type HoldInfo struct {
	Name   string
	Offset int64 // the first one that is held
	// MaxBytes is how much of the log the hold may keep: 0 for any amount.
	MaxBytes int64
	// Lost is true once retention removed something at or above Offset, because
	// more than MaxBytes would have had to stay.
	Lost bool
}

// holds are those of a log.
type holds struct {
	sync.Mutex
	list []*Hold
}

// Hold keeps ApplyRetention from removing segments with records at or above offset,
// as RetentionTime and RetentionBytes would have it, until it is advanced or released:
// a reader that is behind finds what it has not read. maxBytes bounds what it may keep,
// counted from the segment in question to the log end; 0 means any amount. Beyond that
// segments go as if there were no hold, and its owner finds it lost. The name is for
// people, and need not be the only one of its kind.
//
// DeleteBefore, truncation and compaction are not kept from anything. An offset
// outside of the log gives an *OffsetError.
func (l *Log) Hold(name string, offset, maxBytes int64) (*Hold, error) {
	if maxBytes < 0 {
		return nil, fmt.Errorf("hold %q: %w", name, &OptionError{Field: "maxBytes", Value: fmt.Sprint(maxBytes), Want: "0 or above"})
	}
	l.maintain.Lock() // no retention is under way: what is there now stays
	defer l.maintain.Unlock()
	if err := l.check(offset); err != nil {
		return nil, fmt.Errorf("hold %q: %w", name, err)
	}
	h := &Hold{log: l, info: HoldInfo{Name: name, Offset: offset, MaxBytes: maxBytes}}
	l.holds.Lock()
	defer l.holds.Unlock()
	l.holds.list = append(l.holds.list, h)
	return h, nil
}

// Advance gives free what lies below offset. It never goes back.
func (h *Hold) Advance(offset int64) {
	h.log.holds.Lock()
	defer h.log.holds.Unlock()
	h.info.Offset = max(h.info.Offset, offset)
}

// Release gives everything free. Again it does nothing.
func (h *Hold) Release() {
	h.log.holds.Lock()
	defer h.log.holds.Unlock()
	h.log.holds.list = slices.DeleteFunc(h.log.holds.list, func(other *Hold) bool { return other == h })
}

// Info describes the hold now.
func (h *Hold) Info() HoldInfo {
	h.log.holds.Lock()
	defer h.log.holds.Unlock()
	return h.info
}

// Holds describes the holds of a log, in the order in which they were made.
func (l *Log) Holds() []HoldInfo {
	l.holds.Lock()
	defer l.holds.Unlock()
	infos := make([]HoldInfo, len(l.holds.list))
	for i, h := range l.holds.list {
		infos[i] = h.info
	}
	return infos
}

// unlessHeld has holds stand in the way of a decision to remove segments. remaining is
// the size of the log.
func (l *Log) unlessHeld(remaining int64, decide decider) decider {
	return func(s, next *segment.Segment) (bool, error) {
		size, err := s.Size()
		if err != nil {
			return false, err
		}
		old, err := decide(s, next)
		if err != nil || !old || l.held(l.upperOf(next), remaining) {
			return false, err
		}
		remaining -= size
		return true, nil
	}
}

// held reports whether a hold keeps a segment that ends below upper and has, with all
// behind it, so many bytes.
func (l *Log) held(upper, bytes int64) bool {
	l.holds.Lock()
	defer l.holds.Unlock()
	return slices.ContainsFunc(l.holds.list, func(h *Hold) bool {
		return h.info.Offset < upper && (h.info.MaxBytes == 0 || bytes <= h.info.MaxBytes)
	})
}

// lose tells the holds from which something below start was taken.
func (h *holds) lose(start int64) {
	h.Lock()
	defer h.Unlock()
	for _, hold := range h.list {
		hold.info.Lost = hold.info.Lost || hold.info.Offset < start
	}
}
