package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// Roll seals the active segment and begins a new one at the log end. An empty
// active segment is left as it is. It returns the base offset of the active
// segment.
func (l *Log) Roll() (int64, error) {
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.writableLocked(); err != nil {
		return 0, fmt.Errorf("roll: %w", err)
	}
	if err := l.rollLocked(l.end.Load()); err != nil {
		return 0, fmt.Errorf("roll: %w", err)
	}
	return l.set.Load().active.Base(), nil
}

// maybeRollLocked rolls before a set is written if the active segment is full
// in one of Kafka's ways (LogSegment.shouldRoll).
func (l *Log) maybeRollLocked(set segment.Set, first int64) error {
	active := l.set.Load().active
	size, err := active.Size()
	if err != nil {
		return err
	}
	switch {
	case size > l.settings().SegmentBytes-int64(len(set.Bytes)):
	case size > 0 && l.tooOldLocked(active, set.MaxTimestamp):
	case size > 0 && active.IndexesFull():
	case !active.Fits(set.LastOffset):
	default:
		return nil
	}
	return l.rollLocked(first)
}

// tooOldLocked measures in record time where there is any: a log that replays
// old data rolls as it would have then. The clock counts only for records
// without timestamps.
func (l *Log) tooOldLocked(active *segment.Segment, incoming int64) bool {
	limit := l.settings().segmentAge().Milliseconds()
	limit -= l.append.jitter % max(1, limit)
	if anchor := active.RollAnchor(); anchor >= 0 {
		return incoming-anchor > limit
	}
	return time.Since(active.Created()).Milliseconds() > limit
}

// segmentAge is SegmentAge, but for a compacted log no more than MaxCompactionLag: the
// active segment is not compacted (LogConfig.maxSegmentMs).
func (o *Options) segmentAge() time.Duration {
	if o.CleanupPolicy.Compacts() && o.MaxCompactionLag > 0 {
		return min(o.SegmentAge, o.MaxCompactionLag)
	}
	return o.SegmentAge
}

// rollLocked makes base the base offset of a new active segment. append is
// held. An empty active segment of the same base is kept: there would be two of
// that name.
func (l *Log) rollLocked(base int64) error {
	set := l.set.Load()
	old := set.active
	size, err := old.Size()
	if err != nil {
		return err
	}
	if size == 0 && base == old.Base() {
		return nil
	}
	if err := l.settleStateLocked(); err != nil {
		return err
	}
	if err := l.syncUndoneLocked(old); err != nil {
		return err
	}
	if l.append.transactional {
		old.KeepAborted()
	}
	if base != old.NextOffset() {
		return l.rollBehindGapLocked(old, base)
	}
	next, err := l.nextSegmentLocked(base)
	if errors.Is(err, segment.ErrAppendNotUndone) {
		return l.cannotRollLocked(err)
	}
	if err != nil {
		return named(err)
	}
	if err := old.Seal(); err != nil {
		return l.cannotRollLocked(errors.Join(err, next.Discard()))
	}
	l.append.sealed = append(l.append.sealed, old)
	l.activateLocked(next)
	l.captureProducersLocked(base)
	l.startFlushingLocked()
	return nil
}

// syncUndoneLocked comes before a segment is begun behind one in which an append was
// taken back: of what that wrote, nothing must be there after a power cut that spares the
// new segment. In the same segment the next sync sees to that.
func (l *Log) syncUndoneLocked(active *segment.Segment) error {
	if !l.append.undone {
		return nil
	}
	if err := l.syncFiles(unsynced{segments: []*segment.Segment{active}}); err != nil {
		l.failLocked(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	l.append.undone = false
	return nil
}

// captureProducersLocked copies the producer state, which is that below base, for a
// snapshot that the next flush writes, and reports whether there is one to be written.
func (l *Log) captureProducersLocked(base int64) bool {
	if !l.append.hasProducers {
		return false
	}
	s := l.append.producers.Capture(base)
	if s != nil {
		l.oweSnapshotLocked(s)
	}
	return s != nil
}

// activateLocked publishes a new active segment.
func (l *Log) activateLocked(next *segment.Segment) {
	l.append.unnamed = true
	l.set.Store(newSegmentSet(append(l.set.Load().slice(), next)))
	l.drawJitterLocked()
}

// cannotRollLocked is for a roll that was taken back. A full disk, which has no
// room for the closing entry of an index, leaves nothing in doubt; after anything
// else only the next open knows what is on disk.
func (l *Log) cannotRollLocked(err error) error {
	if vfs.IsNoSpace(err) && !errors.Is(err, segment.ErrAppendNotUndone) {
		return named(err)
	}
	l.failLocked(err)
	return fmt.Errorf("%w: %w", ErrFailed, named(err))
}

// rollBehindGapLocked begins a segment above the end of the old one. Everything
// is made durable first, and the recovery point moved to base: a gap behind the
// recovery point is how recovery sees that a power loss took the end of a segment
// and left the next one. Gaps are rare: replicated batches that skip offsets, and
// truncation inside a batch.
func (l *Log) rollBehindGapLocked(old *segment.Segment, base int64) error {
	if err := errors.Join(l.writeTailLocked(), l.writeAgainLocked()); err != nil {
		return err
	}
	if err := old.Seal(); err != nil {
		return l.cannotRollLocked(err)
	}
	var err error
	for _, s := range append(slices.Clone(l.append.sealed), old) {
		err = errors.Join(err, trimmed(s))
	}
	if err == nil {
		// Someone may be syncing some of these right now; twice does no harm.
		err = l.syncFiles(unsynced{segments: slices.Concat(l.append.unsynced, l.append.syncing), unnamed: true})
	}
	if err != nil {
		l.failLocked(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	next, err := l.nextSegmentLocked(base)
	if err == nil {
		// The name before the recovery point, which would promise what is not there.
		err = l.opts.FS.SyncDir(l.dir)
	}
	if err == nil {
		err = l.changeState(func(st *checkpoint.State) {
			st.RecoveryPoint = max(st.RecoveryPoint, base)
			st.KnownGaps = max(st.KnownGaps, base)
			st.Producers = st.Producers || l.append.hasProducers
		})
	}
	if err != nil {
		return l.cannotRollLocked(errors.Join(err, l.unrollLocked(old, next)))
	}
	l.activateLocked(next)
	return nil
}

// withdrawLocked takes back rollBehindGapLocked, after the set that it was done for
// could not be written: the next append goes to the log end, which lies below the
// new segment.
func (l *Log) withdrawLocked() error {
	all := l.set.Load().slice()
	n := len(all) - 1
	l.set.Store(newSegmentSet(all[:n]))
	return l.unrollLocked(all[n-1], all[n])
}

// unrollLocked removes the segment that was begun behind a gap, if it came to be,
// and goes on in the old one. The recovery point comes down first, so that a crash
// from here on finds a lost tail, where there is none, and not a gap.
func (l *Log) unrollLocked(old, next *segment.Segment) error {
	end := l.end.Load()
	lower := func(st *checkpoint.State) { st.RecoveryPoint = min(st.RecoveryPoint, end) }
	err := l.changeState(lower)
	full := vfs.IsNoSpace(err)
	if next != nil && (err == nil || full) {
		err = next.Remove()
	}
	if full && err == nil {
		err = l.changeState(lower) // there is room now
	}
	if err == nil {
		err = l.reactivate(old)
	}
	if err != nil && next != nil {
		err = errors.Join(err, next.Retire())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", segment.ErrAppendNotUndone, err)
	}
	return nil
}

// trimmed trims a sealed segment, which retention may have removed meanwhile.
func trimmed(s *segment.Segment) error {
	if err := s.Trim(); !errors.Is(err, segment.ErrRetired) {
		return err
	}
	return nil
}

// nextSegmentLocked takes the spare, if there is one. Making the files here
// instead is for rolls that nobody saw coming.
func (l *Log) nextSegmentLocked(base int64) (*segment.Segment, error) {
	if err := l.inPlace(); err != nil {
		return nil, err
	}
	if spare := l.append.spare; spare != nil {
		l.append.spare = nil
		if s, err := spare.Adopt(base); err == nil {
			return s, nil
		}
		// Where open files cannot be renamed a spare is of no use.
	}
	return segment.Create(l.dir, base, l.segmentOptions())
}

// prepareSpareLocked has the next segment's files made in the background once
// the active one is three quarters full.
func (l *Log) prepareSpareLocked(size int64) {
	if size < l.settings().SegmentBytes/4*3 || l.append.spare != nil || l.append.preparing {
		return
	}
	l.append.preparing = true
	l.background.Go(func() {
		var spare *segment.Spare
		err := l.inPlace()
		if err == nil {
			spare, err = segment.Prepare(l.dir, l.segmentOptions())
		}
		l.append.Lock()
		defer l.append.Unlock()
		// Without a spare, for whatever reason, a roll makes its own files,
		// and has the error. It is not tried again before.
		l.append.preparing = err != nil
		l.append.spare = spare
	})
}

// createSegment makes an empty segment whose directory entry is durable.
func (l *Log) createSegment(base int64) (*segment.Segment, error) {
	s, err := segment.Create(l.dir, base, l.segmentOptions())
	if err != nil {
		return nil, err
	}
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), s.Retire())
	}
	return s, nil
}

// flushSealed follows a roll: it trims the indexes of sealed segments, makes
// everything below the active one durable and moves the recovery point there, so
// that an open after a crash does not scan it again. The append that rolled does
// not wait for it. A failed sync is kept by syncTo. The rest may fail: what was
// not trimmed is by the next flush or by Close, and a recovery point left behind
// only means more to scan.
//
// A truncation meanwhile may have opened a segment again, which was written to and
// sealed once more: then all of it is done again.
func (l *Log) flushSealed() {
	base, err := l.flushAllSealed()
	if err != nil {
		return
	}
	if l.sealedTold.Swap(base) != base {
		l.tellSealed(base)
	}
	if l.pointOwed.CompareAndSwap(true, false) {
		l.movePointIntoActive()
	}
	l.append.Lock()
	producers := l.append.hasProducers
	l.append.Unlock()
	if producers {
		l.ExpireProducers()
	}
}

// flushAllSealed returns the base offset of the segment behind what it has flushed.
func (l *Log) flushAllSealed() (base int64, err error) {
	l.flushing.Lock() // the recovery point must not pass what another still trims
	defer l.flushing.Unlock()
	l.append.Lock()
	l.append.flushAwaited = false // for what is sealed from now on
	l.append.Unlock()
	for done := false; !done && err == nil; {
		base, done, err = l.flushSealedOnce()
	}
	return base, err
}

// startFlushingLocked has flushSealed called. One that has not begun yet does it for all
// rolls until then: they may come faster than a disk can sync. append is held.
func (l *Log) startFlushingLocked() {
	if !l.append.flushAwaited {
		l.append.flushAwaited = true
		l.background.Go(l.flushSealed)
	}
}

// flushSealedOnce is one attempt; done is false if the log was truncated meanwhile.
func (l *Log) flushSealedOnce() (base int64, done bool, err error) {
	l.append.Lock()
	generation := l.generation.Load()
	sealed := slices.Clone(l.append.sealed)
	base = l.set.Load().active.Base()
	producers := l.append.hasProducers
	l.append.Unlock()
	for _, s := range sealed {
		err := trimmed(s)
		if errors.Is(err, segment.ErrSyncFailed) { // of records, too, that nobody has synced yet
			l.fail(err)
		}
		if err != nil {
			return base, false, err
		}
	}
	if err := l.syncTo(min(base, l.end.Load())); err != nil {
		return base, false, err
	}
	if err := l.writeSnapshots(base); err != nil {
		return base, false, err
	}
	l.maintain.Lock() // keeps truncation away
	defer l.maintain.Unlock()
	l.append.Lock()
	same := l.generation.Load() == generation
	if same {
		l.append.sealed = slices.DeleteFunc(l.append.sealed, func(s *segment.Segment) bool { return slices.Contains(sealed, s) })
	}
	l.append.Unlock()
	if !same {
		return base, false, nil
	}
	_ = l.moveRecoveryPoint(base, producers) // left behind it only means more to scan
	return base, true, nil
}

// writeSnapshots writes the producer snapshots that rolls up to a base offset have
// captured, and returns when they are on disk, their names too. Later ones, which may
// come as fast as they can be written, are left to the flush of their rolls. What cannot
// be written is tried again the next time, and keeps no other from it.
func (l *Log) writeSnapshots(upTo int64) error {
	var errs []error
	for after, more := int64(-1), true; more; {
		var err error
		after, more, err = l.writeSnapshot(after, upTo)
		errs = append(errs, err)
	}
	l.snapshotting.Lock()
	defer l.snapshotting.Unlock()
	if l.snapshotsUnnamed {
		err := l.opts.FS.SyncDir(l.dir)
		l.snapshotsUnnamed = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// writeSnapshot writes the first of them that lies above an offset, and returns where
// that is and whether there was one. Nobody waits longer for the lock than for one file:
// who needs few is not held up by who writes many.
func (l *Log) writeSnapshot(after, upTo int64) (at int64, more bool, err error) {
	l.snapshotting.Lock()
	defer l.snapshotting.Unlock()
	l.append.Lock()
	i := slices.IndexFunc(l.append.snapshots, func(s *producerstate.Snapshot) bool { return s.Offset() > after })
	if i < 0 || l.append.snapshots[i].Offset() > upTo {
		l.append.Unlock()
		return after, false, nil
	}
	s := l.append.snapshots[i]
	l.append.snapshots = slices.Delete(l.append.snapshots, i, i+1)
	l.append.Unlock()
	err = s.Write(true)
	l.append.Lock()
	defer l.append.Unlock()
	published := false
	if err == nil {
		published, err = l.append.producers.Publish(s)
	}
	l.snapshotsUnnamed = l.snapshotsUnnamed || published
	if err != nil && l.append.producers.Current(s) {
		l.oweSnapshotLocked(s)
	}
	return s.Offset(), true, err
}

// oweSnapshotLocked has a snapshot written by the next flush. append is held.
func (l *Log) oweSnapshotLocked(s *producerstate.Snapshot) {
	at, found := slices.BinarySearchFunc(l.append.snapshots, s.Offset(), func(o *producerstate.Snapshot, offset int64) int {
		return cmp.Compare(o.Offset(), offset)
	})
	if !found {
		l.append.snapshots = slices.Insert(l.append.snapshots, at, s)
	}
}

// secureProducers comes before the segments below the base of another are removed: of
// producers whose last records go, the snapshot there is all that is left. One that is
// missing, because it could not be written when the log rolled, is made anew. maintain
// is held.
func (l *Log) secureProducers(base int64) error {
	l.append.Lock()
	// Those below are of no use any more.
	l.append.snapshots = slices.DeleteFunc(l.append.snapshots, func(s *producerstate.Snapshot) bool { return s.Offset() < base })
	owed := len(l.append.snapshots) > 0 && l.append.snapshots[0].Offset() == base
	missing := l.append.hasProducers && !owed && !l.append.producers.HasSnapshot(base)
	l.append.Unlock()
	if missing {
		m, err := l.producersAt(l.set.Load().slice(), base)
		if err != nil {
			return err
		}
		l.append.Lock()
		if s := l.append.producers.CaptureOf(m); s != nil {
			l.oweSnapshotLocked(s)
		}
		l.append.Unlock()
	}
	return l.writeSnapshots(base)
}

func (l *Log) moveRecoveryPoint(base int64, producers bool) error {
	return l.changeState(func(st *checkpoint.State) {
		if s := l.set.Load().floor(base); s != nil && s.Base() == base {
			durable := l.durable.Load()
			st.RecoveryPoint = max(st.RecoveryPoint, min(base, durable))
			st.Producers = st.Producers || producers
			if durable >= base { // or a truncation is under way, to below it
				st.DurableEnd = max(st.DurableEnd, base)
			}
		}
	})
}

func (l *Log) drawJitterLocked() {
	if bound := l.settings().SegmentJitter.Milliseconds(); bound > 0 {
		l.append.jitter = rand.Int64N(bound)
	}
}
