package seglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// Sync makes every record appended so far durable. Calls that wait at the same
// time share one sync. When it fails the log is in the failed state: see
// ErrFailed.
func (l *Log) Sync() error {
	if l.opts.ReadOnly {
		return fmt.Errorf("sync: %w", ErrReadOnly)
	}
	if l.closed.Load() {
		return fmt.Errorf("sync: %w", ErrClosed)
	}
	err := l.syncTo(l.end.Load())
	if err == nil {
		err = l.syncUndone()
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// syncUndone has a power cut not bring back what was taken back of the last append, where
// there is nothing else to be synced.
func (l *Log) syncUndone() error {
	l.append.Lock()
	defer l.append.Unlock()
	if l.append.failed != nil || l.append.ended {
		return nil
	}
	return l.syncUndoneLocked(l.set.Load().active)
}

// syncTo returns once everything below offset is on disk: group commit, see syncers.
func (l *Log) syncTo(offset int64) error {
	if l.durable.Load() >= offset {
		return nil
	}
	company, lead := l.syncers.lead(&l.durable, offset)
	if !lead {
		return nil
	}
	defer l.syncers.follow()
	l.sync.Lock()
	defer l.sync.Unlock()
	if l.durable.Load() >= offset {
		return nil
	}
	l.gather(company)
	work, err := l.takeWork()
	if err != nil {
		return err
	}
	return l.syncTaken(work)
}

// takeWork takes what is to be synced, or says why it cannot be. sync is held.
func (l *Log) takeWork() (unsynced, error) {
	err := l.writeTail()
	l.append.Lock()
	defer l.append.Unlock()
	if err = l.tailWrittenLocked(err); err != nil {
		return unsynced{}, err
	}
	if err := l.append.failed; err != nil {
		return unsynced{}, fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	if l.append.ended { // and has synced what it could
		return unsynced{}, ErrClosed
	}
	if err := l.writeAgainLocked(); err != nil {
		return unsynced{}, err
	}
	return l.takeUnsyncedLocked(), nil
}

// unwritten are the bytes [from, end) of a segment, which are to be written again before
// a sync is about them; see segment.Rewrite.
type unwritten struct {
	segment   *segment.Segment
	from, end int64
}

// notWritten has what is unwritten synced when it has been written.
func (l *Log) notWritten() {
	for _, u := range l.append.unwritten {
		l.markUnsyncedLocked(u.segment)
	}
	if tail := l.append.tail.segment; tail != nil {
		l.markUnsyncedLocked(tail)
		l.append.unnamed = true
	}
}

// makeTailDurable does what Open left to do in the background: the tail is written again
// and synced, and the recovery point moved there. Who syncs before has done it.
func (l *Log) makeTailDurable() {
	if l.syncTo(l.end.Load()) == nil { // a failure is kept, and the next append has it
		l.movePointIntoActive()
	}
}

// writeTail writes the tail again, if that is to be done, beside appends and reads: they
// are about other bytes, and truncation waits for sync, which is held. So does whoever
// is about to promise anything.
func (l *Log) writeTail() error {
	l.append.Lock()
	tail := l.append.tail
	if l.append.failed != nil {
		tail = unwritten{}
	}
	l.append.Unlock()
	return tail.write()
}

// writeTailLocked is writeTail for one who holds append. It may be that another is at it:
// then both write the same.
func (l *Log) writeTailLocked() error {
	return l.tailWrittenLocked(l.append.tail.write())
}

func (u unwritten) write() error {
	if u.segment == nil {
		return nil
	}
	err := u.segment.Rewrite(u.from, u.end)
	if errors.Is(err, segment.ErrRetired) || errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed
	}
	return err
}

// tailWrittenLocked takes note that the tail was written, or why not: if the disk is full
// it is tried again, see writeAgainLocked. append is held.
func (l *Log) tailWrittenLocked(err error) error {
	tail := l.append.tail
	if tail.segment == nil || l.append.failed != nil {
		return nil
	}
	if err != nil && !vfs.IsNoSpace(err) {
		l.failLocked(err)
		l.arrivals.announce()
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	if err != nil {
		l.append.unwritten = append(l.append.unwritten, tail)
		l.arrivals.announce() // who waits for durability is to know
	}
	l.append.tail = unwritten{}
	return nil
}

// writeAgainLocked does what there was no room for on a full disk. Until there is room
// nothing of it is promised, and nothing more appended, but for what was before it was
// known that the disk is full. append is held.
func (l *Log) writeAgainLocked() error {
	for len(l.append.unwritten) > 0 {
		u := l.append.unwritten[0]
		err := u.segment.WriteAgain(u.from)
		if err != nil && !errors.Is(err, segment.ErrRetired) && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write again what the disk may not have: %w", named(err))
		}
		l.append.unwritten = l.append.unwritten[1:]
	}
	return nil
}

// syncTaken syncs what was taken. sync is held.
func (l *Log) syncTaken(work unsynced) error {
	if err := l.syncFiles(work); err != nil {
		l.fail(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	l.durable.Store(work.end)
	l.durableBytes.Store(work.bytes)
	l.arrivals.announce()
	if work.bytes-l.pointBytes >= min(maxPointInterval, l.settings().SegmentBytes/4) {
		l.pointBytes = work.bytes
		l.startMovingPoint()
	}
	return nil
}

// maxPointInterval is how many bytes may be synced before the recovery point follows.
const maxPointInterval = 64 << 20

// startMovingPoint has the recovery point moved without waiting for it. A roll and
// Close do so, too, but a segment of 1 GiB takes its time to fill, and meanwhile
// nobody would know that its beginning is durable: damage there would be taken for
// what a crash leaves, and the loss of the whole file for none.
func (l *Log) startMovingPoint() {
	l.append.Lock()
	defer l.append.Unlock()
	if !l.append.closed && !l.append.moveAwaited {
		l.append.moveAwaited = true
		l.background.Go(l.movePointIntoActive)
	}
}

// movePointIntoActive moves the recovery point to the last durable record, if that is
// in the active segment. It stays one short of the durable end: should a roll begin the
// next segment there meanwhile, the point must not pass the old one before that is
// trimmed. If it fails the next one does it, or a roll.
func (l *Log) movePointIntoActive() {
	l.maintain.Lock() // keeps truncation away
	defer l.maintain.Unlock()
	l.append.Lock()
	l.append.moveAwaited = false
	sealed, active := len(l.append.sealed), l.set.Load().active
	point, failed, producers := l.durable.Load()-1, l.append.failed != nil, l.append.hasProducers
	l.append.Unlock()
	if sealed > 0 {
		l.pointOwed.Store(true) // not before the roll is done with: see flushSealed
		return
	}
	if failed || point <= active.Base() {
		return // a roll moves it, or nobody knows what is on disk
	}
	_ = l.changeState(func(st *checkpoint.State) {
		st.RecoveryPoint = max(st.RecoveryPoint, point)
		st.Producers = st.Producers || producers
		st.DurableEnd = max(st.DurableEnd, point)
	})
}

// syncLocked is syncTo(end) for one who holds sync and append.
func (l *Log) syncLocked() error {
	if err := l.append.failed; err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	if err := errors.Join(l.writeTailLocked(), l.writeAgainLocked()); err != nil {
		return err
	}
	work := l.takeUnsyncedLocked()
	if err := l.syncFiles(work); err != nil {
		l.failLocked(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	l.durable.Store(work.end)
	return nil
}

// unsynced is what must reach the disk for everything below end to be durable.
type unsynced struct {
	segments []*segment.Segment
	unnamed  bool
	end      int64
	bytes    int64 // appended by this Log so far
}

func (l *Log) takeUnsyncedLocked() unsynced {
	work := unsynced{segments: l.append.unsynced, unnamed: l.append.unnamed, end: l.end.Load(), bytes: l.bytes.Load()}
	l.append.unsynced, l.append.syncing = l.append.syncing[:0], l.append.unsynced
	l.append.unnamed = false
	return work
}

// syncDue reports whether a batch that ends at lastOffset, whose append does not
// wait for durability by itself, is the one that must: flush.messages and its
// like bound what a power loss can take.
func (l *Log) syncDue(lastOffset int64) bool {
	o := l.settings()
	return o.FlushMessages > 0 && lastOffset+1-l.durable.Load() >= o.FlushMessages ||
		o.FlushBytes > 0 && l.bytes.Load()-l.durableBytes.Load() >= o.FlushBytes
}

// flushEvery syncs in the background, at most once in each interval.
func (l *Log) flushEvery(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.syncTo(l.end.Load()) // a failure is kept, and the next append has it
		case <-l.stop:
			return
		}
	}
}

// WaitDurable returns once every record below offset is on disk, syncing if
// need be. It ends with ctx's error, ErrClosed, or ErrFailed: then it is not
// known whether the records will be found after the log was opened again.
// Waiting for an offset above the log end waits for it to be appended.
func (l *Log) WaitDurable(ctx context.Context, offset int64) error {
	if ctx.Done() == nil && offset <= l.end.Load() {
		return l.syncTo(offset)
	}
	for requested := int64(-1); ; {
		changed := l.arrivals.enlist()
		end := l.end.Load()
		err := l.durableOrWhyNot(offset)
		if err == errNotYet && min(offset, end) > requested {
			requested = min(offset, end)
			l.requestSync(requested)
		}
		if err == errNotYet {
			select {
			case <-changed:
				l.arrivals.resign()
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		l.arrivals.resign()
		return err
	}
}

var errNotYet = errors.New("not yet durable")

func (l *Log) durableOrWhyNot(offset int64) error {
	if l.durable.Load() >= offset {
		return nil
	}
	l.append.Lock()
	defer l.append.Unlock()
	switch {
	case l.append.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, named(l.append.failed))
	case l.append.closed:
		return ErrClosed
	}
	if err := l.writeAgainLocked(); err != nil {
		return err
	}
	return errNotYet
}

// requestSync has everything below offset synced without waiting for it.
func (l *Log) requestSync(offset int64) {
	l.append.Lock()
	defer l.append.Unlock()
	if !l.append.closed && l.durable.Load() < offset {
		l.background.Go(func() { l.syncTo(offset) })
	}
}

// syncFiles syncs segments and then the directory. sync is held. A segment that
// retention removed meanwhile needs no sync.
func (l *Log) syncFiles(work unsynced) error {
	for _, s := range work.segments {
		if err := s.Sync(); err != nil && !errors.Is(err, segment.ErrRetired) {
			return err
		}
	}
	if work.unnamed {
		return l.opts.FS.SyncDir(l.dir)
	}
	return nil
}
