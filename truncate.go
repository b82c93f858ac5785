package seglog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/segment"
)

// TruncateTo removes every record at or above offset; the next record gets
// offset. A batch that holds offset in its middle is removed completely, which
// leaves a gap below offset. At or above the log end nothing is removed. Below the
// first segment the log becomes empty and starts at offset.
//
// When it returns the cut is on disk. Iterations beyond offset end with
// ErrTruncated; those below go on and do not see the old records.
//
// In a log with Options.Replicated an offset below the high watermark is refused
// with ErrCommitted: other replicas rely on what is there. See ForceTruncateTo.
func (l *Log) TruncateTo(offset int64) error { return l.truncateTo(offset, false) }

// ForceTruncateTo is TruncateTo, also below the high watermark, which then comes
// down.
func (l *Log) ForceTruncateTo(offset int64) error { return l.truncateTo(offset, true) }

func (l *Log) truncateTo(offset int64, force bool) error {
	if offset < 0 {
		return fmt.Errorf("truncate: %w", &OptionError{Field: "offset", Value: fmt.Sprint(offset), Want: "0 or above"})
	}
	unlock, err := l.lockForTruncation()
	if err != nil {
		return fmt.Errorf("truncate to offset %d: %w", offset, err)
	}
	defer unlock()
	switch set := l.set.Load(); {
	case offset >= l.end.Load():
		err = l.forgetEmptyEpochsLocked()
	case l.opts.Replicated && !force && offset < l.HighWatermark():
		return fmt.Errorf("truncate to offset %d: %w: it is at %d", offset, ErrCommitted, l.HighWatermark())
	case offset < set.first().Base():
		err = l.restartLocked(offset)
	default:
		err = l.truncateLocked(set, offset)
	}
	if err != nil {
		err = l.failedLocked(err)
		return fmt.Errorf("truncate to offset %d: %w", offset, err)
	}
	return nil
}

// forgetEmptyEpochsLocked is for a truncation that cuts nothing. What was begun at the log
// end as a leader, and another was elected before anything was written in it, goes all
// the same (UnifiedLog.truncateTo).
func (l *Log) forgetEmptyEpochsLocked() error {
	if !l.opts.Replicated || !l.epochs.TruncateFromEnd(l.end.Load()) {
		return nil
	}
	return l.saveEpochsLocked()
}

// TruncateFullyAndStartAt removes every record; the log is then empty and
// starts at offset, which may lie anywhere.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("truncate: %w", &OptionError{Field: "offset", Value: fmt.Sprint(offset), Want: "0 or above"})
	}
	unlock, err := l.lockForTruncation()
	if err != nil {
		return fmt.Errorf("truncate fully: %w", err)
	}
	defer unlock()
	if err := l.restartLocked(offset); err != nil {
		return fmt.Errorf("truncate fully and start at offset %d: %w", offset, l.failedLocked(err))
	}
	return nil
}

func (l *Log) lockForTruncation() (unlock func(), err error) {
	l.maintain.Lock()
	if err := l.mayMaintain(); err == nil { // the log may go on where their offsets are
		if err := l.finishRemoval(); err != nil {
			l.maintain.Unlock()
			return nil, err
		}
	}
	l.abortCompaction(errTruncatedMeanwhile)
	l.sync.Lock()
	l.append.Lock()
	unlock = func() {
		l.append.Unlock()
		l.sync.Unlock()
		l.maintain.Unlock()
	}
	if err := l.writableLocked(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// failedLocked: a truncation that stops half-way leaves files that only the
// next open can sort out.
func (l *Log) failedLocked(cause error) error {
	l.failLocked(cause)
	return fmt.Errorf("%w: %w", ErrFailed, named(cause))
}

// truncateLocked cuts inside the log. Segments go from the last one down, so
// that a crash half-way leaves a log without holes.
func (l *Log) truncateLocked(set *segmentSet, offset int64) error {
	// Of the tail all is there still. What is appended after the cut will be elsewhere.
	if err := l.writeTailLocked(); err != nil {
		return err
	}
	all := set.slice()
	keep := slices.IndexFunc(all, func(s *segment.Segment) bool { return s.Base() > offset })
	if keep < 0 {
		keep = len(all)
	}
	last := all[keep-1]
	l.lowerDurable(offset)
	err := l.changeState(func(st *checkpoint.State) {
		// One short of the end, for the reason of movePointIntoActive.
		st.RecoveryPoint = min(st.RecoveryPoint, max(last.Base(), offset-1))
		st.LogStartOffset = min(st.LogStartOffset, offset)
		st.FirstDirty = min(st.FirstDirty, offset)
		st.KnownGaps = min(st.KnownGaps, offset)
		// A batch that holds offset in its middle goes completely: how far the log
		// reaches then is not known yet, but it has this segment.
		st.DurableEnd = min(st.DurableEnd, last.Base())
	})
	if err == nil {
		err = l.lowerCheckpoints(offset)
	}
	if err != nil {
		return err
	}
	if err := l.truncateProducers(all[:keep], offset); err != nil {
		return err
	}
	l.lowerUnstable(min(offset, l.firstUnstableLocked()))
	l.publishTruncated(all[:keep], offset, offset)
	l.publishStableLocked(l.HighWatermark())
	if err := removeBackwards(all[keep:]); err != nil {
		return err
	}
	if keep < len(all) {
		if err := l.reactivate(last); err != nil {
			return err
		}
	}
	if err := last.TruncateTo(offset); err != nil {
		return err
	}
	// A reader may have taken the new generation and still have aimed at bytes
	// that are gone now: none of its positions holds any more.
	l.generation.Add(1)
	if last.NextOffset() < offset {
		// A gap at the end is nowhere on disk but in the name of the segment
		// behind it.
		if err := l.rollLocked(offset); err != nil {
			return err
		}
		if l.captureProducersLocked(offset) {
			l.background.Go(l.flushSealed)
		}
	}
	return nil
}

// removeBackwards removes segments from the last one on, and closes those that a failure
// leaves: only the next open can sort out what of them is there.
func removeBackwards(segments []*segment.Segment) error {
	for i, s := range slices.Backward(segments) {
		if err := s.Remove(); err != nil {
			for _, s := range segments[:i+1] {
				err = errors.Join(err, s.Retire())
			}
			return err
		}
	}
	return nil
}

// truncateProducers makes producers, transactions and leader epochs those of the log
// below offset, and removes the snapshots above it. That nobody with a producer id
// ever wrote is known of an open log.
func (l *Log) truncateProducers(segments []*segment.Segment, offset int64) error {
	l.append.snapshots = nil
	if err := l.reloadProducers(segments, offset, !l.append.hasProducers); err != nil {
		return err
	}
	l.epochs.TruncateFromEnd(offset)
	if err := l.beginEpoch(offset); err != nil {
		return err
	}
	return l.saveEpochsLocked()
}

// lowerCheckpoints comes before anything is cut: the checkpoints of a log directory must
// not promise, or hide, more than what will be there.
func (l *Log) lowerCheckpoints(offset int64) error {
	if l.owner == nil {
		return l.lowerLines(offset)
	}
	return l.owner.lowerCheckpoints(offset)
}

// lowerUnstable comes before readers find the markers of transactions gone: what is
// above, and what belongs to a transaction that is open again, is not for readers of
// committed records from now on. It is raised when they know where the log ends.
func (l *Log) lowerUnstable(offset int64) { l.unstable.Store(min(l.unstable.Load(), offset)) }

// lowerDurable comes before the recovery point is lowered, so that a flush that
// has just ended cannot raise it again to what is about to go.
func (l *Log) lowerDurable(offset int64) { l.durable.Store(min(l.durable.Load(), offset)) }

// publishTruncated tells readers, before the files change, that what they find
// from now on ends at offset, and that all from lowest on is not what it was.
func (l *Log) publishTruncated(keep []*segment.Segment, offset, lowest int64) {
	l.set.Store(newSegmentSet(keep))
	l.watermark.Store(min(l.watermark.Load(), offset))
	l.end.Store(offset)
	l.lowerDurable(offset)
	l.start.Store(min(l.start.Load(), offset))
	l.nextGeneration(lowest)
	l.sealedTold.Store(-1)
	l.arrivals.announce()
	l.append.unsynced = slices.DeleteFunc(l.append.unsynced, func(s *segment.Segment) bool {
		return !slices.Contains(keep, s)
	})
}

// reactivate makes a sealed segment the one that is appended to. It is no longer one
// that waits to be trimmed: a flush would find it writable, take it for done, and not
// come back when it is sealed again.
func (l *Log) reactivate(s *segment.Segment) error {
	l.append.sealed = slices.DeleteFunc(l.append.sealed, func(other *segment.Segment) bool { return other == s })
	l.drawJitterLocked()
	return s.Reactivate()
}

// restartLocked makes the log empty, starting at offset.
func (l *Log) restartLocked(offset int64) error {
	old := l.set.Load().slice()
	// A crash may leave them, and the new start: below it nothing is taken for what a crash
	// has kept from the disk.
	if min(offset, l.end.Load()) > l.durable.Load() {
		if err := l.syncLocked(); err != nil {
			return err
		}
	}
	l.append.tail, l.append.unwritten = unwritten{}, nil
	lowest := min(offset, l.start.Load())
	l.lowerDurable(offset)
	l.lowerUnstable(offset)
	// Old segments go before the new one comes: between the two the state
	// file alone knows where the log starts.
	err := l.forgetProducers(offset)
	if err == nil {
		err = l.changeState(func(st *checkpoint.State) {
			st.LogStartOffset, st.RecoveryPoint, st.Producers = offset, offset, false
			st.FirstDirty, st.KnownGaps = 0, 0
			st.DurableEnd = min(st.DurableEnd, offset)
		})
	}
	if err != nil {
		return err
	}
	if err := l.lowerCheckpoints(offset); err != nil {
		return err
	}
	if err := removeBackwards(old); err != nil {
		return err
	}
	fresh, err := l.createSegment(offset)
	if err != nil {
		return err
	}
	l.publishTruncated([]*segment.Segment{fresh}, offset, lowest)
	l.unstable.Store(noTransaction)
	l.start.Store(offset)
	l.watermark.Store(offset)
	l.durable.Store(offset)
	l.drawJitterLocked()
	l.epochs.Clear()
	return l.settleEpochs(offset, offset)
}

// truncations is the lowest offset that was taken away in each generation, for
// iterations that were elsewhere meanwhile. Generations and offsets rise: a cut
// further down makes those before it above it of no interest. Never changed once
// published.
type truncations []truncation

type truncation struct{ generation, offset int64 }

// maxTruncations bounds the memory of truncations. Beyond it the oldest two are
// one: an iteration that missed so many may be told that it was truncated though
// it was not.
const maxTruncations = 64

func (t truncations) with(generation, offset int64) truncations {
	n := len(t)
	for n > 0 && t[n-1].offset >= offset {
		n--
	}
	next := append(slices.Clone(t[:n]), truncation{generation, offset})
	if len(next) > maxTruncations {
		next[1].offset = next[0].offset
		next = next[1:]
	}
	return next
}

// since is the lowest offset that was taken away after the given generation.
func (t truncations) since(generation int64) int64 {
	for _, c := range t {
		if c.generation > generation {
			return c.offset
		}
	}
	return math.MaxInt64
}

// nextGeneration tells iterations that all from lowest on is gone. append is held.
func (l *Log) nextGeneration(lowest int64) {
	var t truncations
	if p := l.cuts.Load(); p != nil {
		t = *p
	}
	t = t.with(l.generation.Load()+1, lowest)
	l.cuts.Store(&t) // before the generation that it explains
	l.generation.Add(1)
}

// truncatedSince is the lowest offset that was taken away after the given generation.
func (l *Log) truncatedSince(generation int64) int64 {
	if p := l.cuts.Load(); p != nil {
		return p.since(generation)
	}
	return math.MaxInt64
}

// moveStart sets the log start offset, on disk first. maintain is held.
func (l *Log) moveStart(offset int64) error {
	if err := l.changeState(func(st *checkpoint.State) { st.LogStartOffset = offset }); err != nil {
		return err
	}
	l.start.Store(offset)
	l.raiseStart(offset)
	return nil
}

// raiseStart has producers and leader epochs know of a new log start.
func (l *Log) raiseStart(offset int64) {
	l.append.Lock()
	defer l.append.Unlock()
	l.append.producers.OnLogStart(offset)
	// A list that begins too early says nothing wrong: it is saved when it changes.
	l.epochs.TruncateFromStart(offset)
}
