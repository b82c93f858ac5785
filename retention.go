package seglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// DeleteBefore moves the log start to offset: what lies below can no longer be
// read, and segments that lie below completely are no longer of the log. One above the
// log end, or below 0, gives an *OffsetError. What lies below offset is synced first, so
// that the log never ends below its start after a crash.
//
// When it returns the new log start is on disk, in the log's own state. The files are
// removed behind the caller's back: they get .deleted names first, which the next open
// sweeps away should there be a crash, and then their room is free. Readers in other
// processes may find them until then. What a crash leaves under its old name stays
// below the log start, and goes with the next call. The room is free, and an error says
// what stands in the way, when ApplyRetention, Close, a truncation, or DeleteBefore of
// an offset at or below the log start, which changes nothing else, returns. If the disk
// is full, or files of earlier calls could not be removed or are many, this call waits,
// too. In a Dir the room is free after Options.FileDeleteDelay.
//
// It costs a sync of what lies below offset and is not on disk yet, and one of the
// state, however much is deleted.
//
// Kafka calls this DeleteRecords.
func (l *Log) DeleteBefore(offset int64) error {
	removed, err := l.deleteBefore(offset)
	l.tellRemoved(removed)
	if err != nil {
		return fmt.Errorf("delete before offset %d: %w", offset, named(err))
	}
	return nil
}

// deleteBefore puts the new start on disk and takes what lies below out of the log. On a
// full disk it is the removal that makes room for the former; where a segment begins at
// the new start its name tells, and no room is needed.
func (l *Log) deleteBefore(offset int64) (removed RetentionResult, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := l.mayMaintain(); err != nil {
		return removed, err
	}
	if at := l.Offsets(); offset < 0 || offset > l.HighWatermark() {
		at.End = l.HighWatermark()
		return removed, &OffsetError{Offset: offset, Start: at.Start, End: at.End}
	}
	if offset <= l.start.Load() { // what a crash has kept from being removed goes, too
		removed, err = l.removeLeading(context.Background(), l.belowStart)
		removed.Start = l.start.Load()
		return removed, err
	}
	l.abortCompaction(errRemovedMeanwhile)
	below := func(_, next *segment.Segment) (bool, error) {
		return next != nil && next.Base() <= offset, nil
	}
	wait := l.removalIsUrgent()
	err = l.syncAndMoveStart(offset)
	full := errors.Is(err, ErrNoSpace)
	if err != nil && (!full || errors.Is(err, ErrFailed)) {
		return removed, err
	}
	removed, rerr := l.detachLeading(context.Background(), below)
	if full || wait {
		rerr = errors.Join(rerr, l.finishRemoval())
	} else {
		l.startRemoval()
	}
	if full && rerr == nil {
		err = l.syncAndMoveStart(offset)
		if errors.Is(err, ErrNoSpace) && l.set.Load().first().Base() == offset {
			err = nil
		}
	}
	removed.Start = l.start.Load()
	return removed, errors.Join(rerr, err)
}

// syncAndMoveStart: a log that ends below its start after a crash begins anew, and what it
// knows of producers is gone, so the start does not run ahead of the disk.
func (l *Log) syncAndMoveStart(offset int64) error {
	if err := l.syncTo(offset); err != nil {
		return err
	}
	return l.moveStart(offset)
}

// mayMaintain says why no files may be removed or replaced, if so.
func (l *Log) mayMaintain() error {
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.writableLocked(); err != nil {
		return err
	}
	return l.inPlace()
}

// RetentionResult says what ApplyRetention removed.
type RetentionResult struct {
	Segments int   // removed
	Bytes    int64 // their size
	// Start is the log start offset afterwards.
	Start int64
	// HeldBy is the newest timestamp of the segment at which removal by age ended, and
	// the last offset of the batch that has it, if that time lies more than an hour
	// ahead of the clock: the segment stays until then, and all behind it with it. Else
	// nil. See Options.RetentionCapsTime.
	HeldBy *TimestampOffset
}

// ApplyRetention removes the segments that RetentionBytes, RetentionTime and
// the log start offset no longer cover, the first two unless CleanupPolicy is
// CleanupCompact, from the oldest on, stopping at the first
// that must stay. If all of them go a new, empty segment is begun; the log end
// does not change. A segment counts as old as its newest record, or as its file
// where records carry no timestamp: one record in the future keeps it, and all
// behind it, which RetentionResult.HeldBy tells. What a Hold keeps stays.
//
// A Dir calls it every 5 minutes, as Kafka does; for a log that was opened alone
// nothing does.
func (l *Log) ApplyRetention(ctx context.Context) (RetentionResult, error) {
	var res RetentionResult
	err := l.applyRetention(ctx, &res)
	res.Start = l.start.Load()
	l.tellRemoved(res)
	if err != nil {
		return res, fmt.Errorf("apply retention: %w", named(err))
	}
	return res, nil
}

// applyRetention applies the three reasons in Kafka's order
// (UnifiedLog.deleteOldSegments). Time comes last, since what the others take
// away may have stood before segments that are too old; so a second run finds
// nothing more.
func (l *Log) applyRetention(ctx context.Context, res *RetentionResult) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := l.mayMaintain(); err != nil {
		return err
	}
	if err := l.retain(ctx, l.belowStart, res); err != nil {
		return err
	}
	o := l.settings()
	if !o.CleanupPolicy.Deletes() {
		return nil
	}
	if o.RetentionBytes >= 0 {
		total, err := l.size()
		if err != nil {
			return err
		}
		if err := l.retainUnlessHeld(ctx, inExcess(total-o.RetentionBytes), res); err != nil {
			return err
		}
	}
	if o.RetentionTime < 0 {
		return nil
	}
	err := l.retainUnlessHeld(ctx, l.olderThan(o.RetentionTime, res), res)
	l.tellHeld(res.HeldBy)
	return err
}

// decider decides whether a segment goes; next is the one behind it, or nil.
type decider func(s, next *segment.Segment) (bool, error)

// inExcess removes segments as long as all of each is in excess.
func inExcess(excess int64) decider {
	return func(s, _ *segment.Segment) (bool, error) {
		size, err := s.Size()
		if err != nil || excess-size < 0 {
			return false, err
		}
		excess -= size
		return true, nil
	}
}

// olderThan notes in res what holds a segment in the future.
func (l *Log) olderThan(limit time.Duration, res *RetentionResult) decider {
	now := time.Now().UnixMilli()
	return func(s, _ *segment.Segment) (bool, error) {
		newest, err := l.ageOf(s)
		if err == nil && newest.Timestamp > now && l.settings().RetentionCapsTime {
			newest.Timestamp, err = s.ModTime()
		}
		if err != nil || now-newest.Timestamp > limit.Milliseconds() {
			return err == nil, err
		}
		if newest.Timestamp > now+defaultTimestampAfterMax.Milliseconds() {
			res.HeldBy = &newest
		}
		return false, nil
	}
}

func (l *Log) retain(ctx context.Context, decide decider, res *RetentionResult) error {
	removed, err := l.removeLeading(ctx, decide)
	res.Segments += removed.Segments
	res.Bytes += removed.Bytes
	return err
}

func (l *Log) retainUnlessHeld(ctx context.Context, decide decider, res *RetentionResult) error {
	total, err := l.size()
	if err != nil {
		return err
	}
	before := l.set.Load().first()
	err = l.retain(ctx, l.unlessHeld(total, decide), res)
	if first := l.set.Load().first(); first != before {
		l.holds.lose(first.Base())
	}
	return err
}

// belowStart is the first of Kafka's three reasons to remove a segment.
func (l *Log) belowStart(_, next *segment.Segment) (bool, error) {
	return next != nil && next.Base() <= l.start.Load(), nil
}

// ageOf is the time the segment counts from, and the offset that has it.
func (l *Log) ageOf(s *segment.Segment) (TimestampOffset, error) {
	newest, known := s.KnownNewest()
	if !known {
		if err := l.acquire(s); err != nil {
			return TimestampOffset{}, err
		}
		var c segment.Scanner
		var err error
		newest, err = s.LargestTimestamp(&c)
		s.Release()
		if err != nil {
			return TimestampOffset{}, err
		}
	}
	var err error
	if newest.Timestamp < 0 {
		newest.Timestamp, err = s.ModTime()
	}
	return newest, err
}

// removeLeading removes segments from the oldest on while decide says so, and returns
// when they are off the disk. maintain is held.
func (l *Log) removeLeading(ctx context.Context, decide decider) (RetentionResult, error) {
	if err := l.finishRemoval(); err != nil {
		return RetentionResult{}, err
	}
	res, err := l.detachLeading(ctx, decide)
	return res, errors.Join(err, l.finishRemoval())
}

// detachLeading takes segments out of the log, from the oldest on while decide says so,
// and leaves their files to finishRemoval. maintain is held.
func (l *Log) detachLeading(ctx context.Context, decide decider) (RetentionResult, error) {
	var gone []*segment.Segment
	var sizes []int64
	set := l.set.Load()
	for s := range set.ascending() {
		if err := context.Cause(ctx); err != nil {
			return RetentionResult{}, err
		}
		next := set.after(s.Base())
		size, err := s.Size()
		if err != nil {
			return RetentionResult{}, err
		}
		if next == nil && size == 0 {
			break // the empty active segment stays
		}
		if l.opts.Replicated && l.upperOf(next) > l.HighWatermark() {
			break // it holds what other replicas may not have yet
		}
		if old, err := decide(s, next); err != nil {
			return RetentionResult{}, err
		} else if !old {
			break
		}
		gone, sizes = append(gone, s), append(sizes, size)
	}
	var res RetentionResult
	var err error
	if len(gone) > 0 {
		l.abortCompaction(errRemovedMeanwhile)
		res.Segments, err = l.detachOldest(gone, sizes[len(sizes)-1])
	}
	for _, size := range sizes[:res.Segments] {
		res.Bytes += size
	}
	return res, err
}

// detachOldest takes the given segments, the oldest there are, out of the set, for
// finishRemoval to take them off the disk. It returns how many it took.
func (l *Log) detachOldest(gone []*segment.Segment, activeSize int64) (int, error) {
	// If all go the one that is begun in their place has its snapshot before they are
	// removed, see there. Without room on the disk there is none: to make room comes first.
	if stays := l.set.Load().after(gone[len(gone)-1].Base()); stays != nil {
		if err := l.secureProducers(stays.Base()); err != nil && !vfs.IsNoSpace(err) {
			return 0, err
		}
	}
	n, err := l.publishWithout(gone, activeSize)
	if n > 0 {
		l.oweRemoval(gone[:n])
		l.raiseStart(l.start.Load())
	}
	return n, err
}

// upperOf is the offset that a segment ends below, given the one behind it or nil.
func (l *Log) upperOf(next *segment.Segment) int64 {
	if next == nil {
		return l.end.Load()
	}
	return next.Base()
}

// publishWithout publishes the set without the given segments and returns how many
// of them it left out. The active one can only go if it is as large as when it
// was judged, and if there is another to take its place.
func (l *Log) publishWithout(gone []*segment.Segment, activeSize int64) (int, error) {
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.writableLocked(); err != nil {
		return 0, err
	}
	n := len(gone)
	var err error
	if last := gone[n-1]; last == l.set.Load().active {
		var size int64
		if size, err = last.Size(); err == nil && size == activeSize {
			err = l.rollLocked(l.end.Load())
			if err == nil { // nothing else may tell where the log ends
				err = l.opts.FS.SyncDir(l.dir)
			}
		}
		if err != nil || last == l.set.Load().active {
			n--
		}
	}
	if n == 0 {
		return 0, err
	}
	rest := l.set.Load().slice()[n:]
	// The start first: who finds an offset gone from the set must find it gone, and
	// not step over to what is left.
	l.start.Store(max(l.start.Load(), rest[0].Base()))
	l.set.Store(newSegmentSet(rest))
	return n, err
}

// Size is the number of bytes in the .log files.
func (l *Log) Size() (int64, error) {
	if l.closed.Load() {
		return 0, fmt.Errorf("size: %w", ErrClosed)
	}
	return l.size()
}

func (l *Log) size() (int64, error) {
	var total int64
	set := l.set.Load()
	for s := range set.ascending() {
		n, err := s.Size()
		if errors.Is(err, fs.ErrNotExist) && l.set.Load() != set {
			return l.size() // removed meanwhile
		}
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
