package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// What leaves the log leaves the disk after that, in three steps: a segment is taken out
// of the set, which is when readers are refused what it holds; its files get .deleted
// names, which a crash does not undo; and they are removed, which is what takes long, since
// a file system gives back the space of a file extent by extent. DeleteBefore leaves the
// last two to removeBehind. Whoever needs them done calls finishRemoval.

// oweRemoval notes segments that were taken out of the set, behind those that were before.
// maintain is held.
func (l *Log) oweRemoval(gone []*segment.Segment) {
	l.removal.Lock()
	defer l.removal.Unlock()
	l.removal.segments = append(l.removal.segments, gone...)
}

// mostOwed is how many segments earlier calls may have left to removeBehind: their files
// are open, and whoever deletes faster than a disk does is to wait for it.
const mostOwed = 16

// removalIsUrgent reports whether someone may be waiting for room, or is to be told what
// stands in the way of it, or there is too much to be removed already.
func (l *Log) removalIsUrgent() bool {
	l.removal.Lock()
	defer l.removal.Unlock()
	return l.full.Swap(false) || l.removal.failed || len(l.removal.segments) > mostOwed
}

// startRemoval has finishRemoval called. One that has not begun yet does it for all
// until then.
func (l *Log) startRemoval() {
	l.append.Lock() // Close, which waits for it, does what begins later
	defer l.append.Unlock()
	l.removal.Lock()
	defer l.removal.Unlock()
	if l.append.closed || l.removal.awaited || len(l.removal.segments) == 0 {
		return
	}
	l.removal.awaited = true
	l.background.Go(l.removeBehind)
}

// removeBehind is finishRemoval behind the back of a caller. What fails is told, and tried
// again by the next one who removes anything, or by Close.
func (l *Log) removeBehind() {
	err := l.finishRemoval()
	switch {
	case err == nil:
	case l.owner != nil:
		_ = l.owner.dir.told("removal", fmt.Errorf("partition %s: %w", l.owner.topicPartition, err))
	default:
		l.logger().Error("files of removed segments are still there", "cause", named(err))
	}
}

// finishRemoval takes off the disk what is out of the set by now, and returns when that is
// done: in a Dir, when the files have their .deleted names. It waits for readers that are in
// one of the segments. It needs no lock, but a truncation, which may bring offsets back,
// holds maintain.
func (l *Log) finishRemoval() error {
	l.removing.Lock()
	defer l.removing.Unlock()
	l.removal.Lock()
	l.removal.awaited = false
	gone := slices.Clone(l.removal.segments)
	l.removal.Unlock()
	if len(gone)+len(l.marked) == 0 {
		return nil
	}
	err := l.takeOffDisk(gone)
	l.removal.Lock()
	defer l.removal.Unlock()
	l.removal.failed = err != nil
	return err
}

// takeOffDisk removes the files of segments that are out of the set, and those that were
// marked before. removing is held.
func (l *Log) takeOffDisk(gone []*segment.Segment) error {
	start := l.set.Load().first().Base()
	snapshot := l.writeSnapshots(start)
	full := vfs.IsNoSpace(snapshot)
	if full { // to make room comes first
		snapshot = nil
	}
	err := snapshot
	if err == nil {
		err = l.mark(gone)
	}
	if err != nil {
		// What keeps its name for now is closed, and it is put on disk that the log begins
		// behind it.
		for _, s := range gone {
			err = errors.Join(err, s.Retire())
		}
		err = errors.Join(err, l.changeState(func(st *checkpoint.State) { st.LogStartOffset = max(st.LogStartOffset, start) }))
	}
	err = errors.Join(err, l.removeAllMarked())
	if full && err == nil { // there is room now, or will be: the next flush tries again
		_ = l.writeSnapshots(start)
	}
	return err
}

// mark gives the files of segments their .deleted names, from the oldest on and each on
// disk before the next, so that what is there has no hole, and removes their producer
// snapshots. All are marked before the first is removed: what a crash finds marked does
// not come back. removing is held.
func (l *Log) mark(gone []*segment.Segment) error {
	for _, s := range gone {
		if err := l.inPlace(); err != nil { // it goes by names
			return err
		}
		marked, err := s.MarkDeleted()
		if err != nil {
			return err
		}
		if l.owner != nil {
			l.owner.dir.removeLater(l.settings().FileDeleteDelay, marked...)
		} else {
			l.marked = append(l.marked, marked...)
		}
		if err := l.removeSnapshot(s.Base()); err != nil {
			return err
		}
		l.removal.Lock()
		l.removal.segments[0] = nil
		l.removal.segments = l.removal.segments[1:]
		l.removal.Unlock()
	}
	return nil
}

// removeAllMarked removes the files that have .deleted names. One that cannot be keeps no
// other from it, and is tried again the next time. removing is held.
func (l *Log) removeAllMarked() error {
	if len(l.marked) == 0 {
		return nil
	}
	if err := l.inPlace(); err != nil {
		return err
	}
	var first error
	l.marked = slices.DeleteFunc(l.marked, func(path string) bool {
		err := l.opts.FS.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if first == nil {
			first = err
		}
		return err == nil
	})
	return first
}

// removeMarked removes files that compaction has given .deleted names. In a Dir they stay
// for file.delete.delay.ms and go at a bounded rate.
func (l *Log) removeMarked(paths []string) error {
	if l.owner != nil {
		l.owner.dir.removeLater(l.settings().FileDeleteDelay, paths...)
		return nil
	}
	for _, p := range paths {
		if err := l.opts.FS.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeSnapshot removes the producer snapshot of a segment that is gone.
func (l *Log) removeSnapshot(base int64) error {
	l.append.Lock()
	defer l.append.Unlock()
	return l.append.producers.DeleteSnapshots(base)
}
