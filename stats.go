package seglog

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/segment"
)

// SegmentInfo describes one segment.
type SegmentInfo struct {
	// BaseOffset is the offset in the file names; NextOffset is the base
	// offset of the segment behind, or the log end. Compaction may have left
	// fewer records between the two than their difference.
	BaseOffset, NextOffset int64
	// LastOffset is that of the last batch, BaseOffset-1 if there is none: what lies
	// between it and NextOffset is nowhere.
	LastOffset int64
	// Size is the length of the log in bytes.
	Size int64
	// IndexEntries and TimeIndexEntries count index entries; 0 where an index
	// is missing or unusable in a read-only log.
	IndexEntries, TimeIndexEntries int
	// MaxTimestamp is the largest timestamp, -1 if there is none.
	MaxTimestamp int64
	// Active is true for the segment that is appended to.
	Active bool
}

// Segments describes the segments from the oldest on. It opens each of them.
func (l *Log) Segments() ([]SegmentInfo, error) {
	if l.closed.Load() {
		return nil, fmt.Errorf("segments: %w", ErrClosed)
	}
	var infos []SegmentInfo
	set := l.set.Load()
	end := l.end.Load()
	for s := range set.ascending() {
		info, err := l.describe(s)
		if errors.Is(err, segment.ErrRetired) {
			if err = l.changed(set); err == nil {
				return l.Segments()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", s.Base(), err)
		}
		info.Active = s == set.active
		info.NextOffset = end
		if info.Active {
			info.LastOffset = max(end, s.Base()) - 1
		}
		if n := len(infos); n > 0 {
			infos[n-1].NextOffset = s.Base()
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (l *Log) describe(s *segment.Segment) (SegmentInfo, error) {
	if err := l.acquire(s); err != nil {
		return SegmentInfo{}, err
	}
	defer s.Release()
	v := s.View()
	info := SegmentInfo{BaseOffset: s.Base(), Size: v.Size}
	if v.Index != nil {
		info.IndexEntries = v.Index.Len()
	}
	if v.Time != nil {
		info.TimeIndexEntries = v.Time.Len()
	}
	var c segment.Scanner
	newest, err := s.LargestTimestamp(&c)
	info.MaxTimestamp = newest.Timestamp
	if err == nil {
		info.LastOffset, err = s.LastOffset(&c)
	}
	return info, err
}

// Stats are figures of a log at one moment.
type Stats struct {
	Offsets
	Segments int
	Size     int64 // bytes in the .log files
	// HighWatermark and LastStable bound readers; see Isolation. A read-only log
	// knows of transactions only once someone has asked for them.
	HighWatermark, LastStable int64
	// Producers counts the producers that are known.
	Producers int
	// OldestTransaction is the open transaction that readers of committed records
	// wait for, or nil.
	OldestTransaction *Transaction
	// Failed is the cause that put the log in the failed state, or nil.
	Failed error
	// Recovery is what Open found and did.
	Recovery Recovery
}

// Stats returns figures of the log.
func (l *Log) Stats() (Stats, error) {
	if l.closed.Load() {
		return Stats{}, fmt.Errorf("stats: %w", ErrClosed)
	}
	size, err := l.size()
	l.append.Lock()
	defer l.append.Unlock()
	if err != nil && l.append.failed == nil { // a failed log tells of that, whatever is left of it
		return Stats{}, fmt.Errorf("stats: %w", err)
	}
	s := Stats{
		Offsets:  l.Offsets(),
		Segments: l.set.Load().len(),
		Size:     size,
		Failed:   l.append.failed,
		Recovery: l.recovery,
	}
	s.HighWatermark, s.LastStable = l.HighWatermark(), l.lastStable()
	if m := l.append.producers; m != nil {
		s.Producers = m.Len()
		for t := range m.OpenTransactions() {
			oldest := transactionOf(t)
			s.OldestTransaction = &oldest
			break
		}
	}
	return s, nil
}

// Recovery is what Open found in the directory and did about it.
type Recovery struct {
	// Clean: the log was closed properly and nothing was changed since.
	Clean bool
	// StateLost is true if both copies of the state file were damaged or, of a log
	// that seglog had open for writing before, gone: a log start inside of the first
	// segment is forgotten, and records that were deleted there are back; in a Dir those
	// that were deleted since it wrote its checkpoints. Of a log that a broker wrote
	// last, or whose lock file is gone too, nobody knows whether there was one.
	StateLost bool
	// Scanned counts the segments whose every batch was checked.
	Scanned int
	// Cut lists what was removed from segment files, because a crash left it
	// incomplete.
	Cut []Cut
	// Split lists the base offsets of segments that were split, because an
	// old broker had put more into them than their indexes can address.
	Split []int64
	// Damaged lists what was found wrong and left as it is: in sealed segments, and in
	// the last one of a read-only log, where sound batches follow it.
	Damaged []error
	// Missing lists offsets between two segments that are lost with the segment that
	// held them: an index is all that is left of it, which is kept to tell, or its log
	// was emptied. Only what meets the eye at opening is there; Verify finds the rest,
	// and Repair accepts the loss.
	Missing []OffsetRange
	// SetAside lists files that hold what was cut and may be worth a look: good
	// batches behind the damage, in a file named after the log, the position and
	// their hash, and, with ".cut" appended to their names, the files of segments
	// behind it and a damaged file of leader epochs. They never take the place of
	// earlier ones.
	SetAside []string
	// Removed lists leftovers that were deleted: ".deleted" and ".cleaned"
	// files, temporary files, indexes without a log unless they tell of what is
	// Missing, and what a ".swap" set replaced.
	Removed []string
	// Swapped lists the files that a ".swap" set put in place.
	Swapped []string
	// Restarted is true when a log whose segments are gone was begun anew at
	// the highest offset known from its state file.
	Restarted bool
}

// Cut is a piece that was cut off a segment file.
type Cut struct {
	File     string
	Position int64 // where the cut was made
	Bytes    int64 // how much was removed
	// Zeros: nothing but zeros was. A log that was not closed ends in some that way, see
	// Options.AheadBytes, and has lost nothing then that was durable.
	Zeros  bool
	Reason error // why the bytes at Position are not a batch
}

func (c Cut) String() string {
	if c.Zeros {
		return fmt.Sprintf("%s: %d zero bytes cut at position %d", c.File, c.Bytes, c.Position)
	}
	return fmt.Sprintf("%s: %d bytes cut at position %d: %v", c.File, c.Bytes, c.Position, c.Reason)
}
