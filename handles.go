package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/seglog/seglog/segment"
)

// openFiles counts the segments of a log whose files are open and, with them, those
// of all logs of a Dir.
type openFiles struct {
	atomic.Int64
	all *atomic.Int64 // nil for a log that is not in a Dir
}

// Add implements segment.Counter.
func (o *openFiles) Add(delta int64) int64 {
	if o.all != nil {
		o.all.Add(delta)
	}
	return o.Int64.Add(delta)
}

func (l *Log) segmentOptions() segment.Options {
	settings := l.settings()
	o := segment.Options{
		FS:                 l.opts.FS,
		IndexIntervalBytes: int64(settings.IndexIntervalBytes),
		IndexMaxBytes:      settings.SegmentIndexBytes,
		ReadOnly:           l.opts.ReadOnly,
		Places:             l.places,
	}
	if l.opened != nil { // repair has no limit to keep
		o.Open = l.opened
	}
	return o
}

// acquire is s.Acquire, and sees to it that not too many segments stay open.
//
// A read-only log may find that a writer in another process has removed the files:
// then it looks again what there is.
func (l *Log) acquire(s *segment.Segment) error {
	err := s.Acquire()
	if l.opts.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		set := l.set.Load()
		if err := l.Refresh(); err != nil {
			return err
		}
		if now := l.set.Load().floor(s.Base()); l.set.Load() != set && (now == nil || now.Base() != s.Base()) {
			return segment.ErrRetired // it is, by the refresh
		}
		return err
	}
	if err == nil && l.owner != nil && l.owner.dir.boundOpen(false) {
		// Wait for room, and not with a segment in hand.
		s.Release()
		l.owner.dir.boundOpen(true)
		return s.Acquire()
	}
	if l.owner == nil {
		l.boundOpen()
	}
	return err
}

// boundOpen sees to it that not too many segments stay open, after one more was
// opened. In a Dir all logs share one limit. No lock of the log is held, nor a
// segment.
func (l *Log) boundOpen() {
	if l.owner != nil {
		l.owner.dir.boundOpen(true)
	} else if l.opened.Load() > int64(l.opts.MaxOpenSegments) {
		l.closeIdle()
	}
}

// wakeLocked opens the active segment again, if it was closed because it was idle.
// append is held.
func (l *Log) wakeLocked() error {
	err := l.set.Load().active.Wake()
	if errors.Is(err, segment.ErrAppendNotUndone) {
		l.failLocked(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	return named(err)
}

// park closes the files of segments that were not used since it last came by. The
// active one must be synced before: that is done if flush is set, and else it stays
// open. park waits for nobody, and so may be called with any lock held.
func (l *Log) park(flush bool) {
	set := l.set.Load()
	for s := range set.ascending() {
		if s != set.active || l.opts.ReadOnly {
			s.CloseIdle() // an error closing a file that was only read costs nothing
		}
	}
	if l.opts.ReadOnly || !l.sync.TryLock() {
		return
	}
	defer l.sync.Unlock()
	if flush && !l.flushIdle() {
		return
	}
	if !l.append.TryLock() {
		return
	}
	defer l.append.Unlock()
	active := l.set.Load().active
	if l.append.closed || l.append.failed != nil || len(l.append.unsynced) > 0 || l.append.unnamed {
		return
	}
	if spare := l.append.spare; spare != nil {
		l.append.spare = nil
		spare.Discard() // what stays of it is swept away by the next open
	}
	// The next append meets a failure again, if it lasts.
	active.Park()
}

// flushIdle syncs what there is, and reports whether that went well. sync is held.
func (l *Log) flushIdle() bool {
	if !l.append.TryLock() {
		return false
	}
	err := l.append.failed
	work := l.takeUnsyncedLocked()
	l.append.Unlock()
	return err == nil && l.syncTaken(work) == nil
}

// errGone: a file of a read-only log is gone. The log is to be refreshed.
var errGone = errors.New("the log has changed")

// maxRefreshes is how often a read-only log is looked at anew before it is told that
// a file is missing: the writer may be removing segments all the time.
const maxRefreshes = 10

// acquireHere is acquire for one who has acquired another segment, or holds a lock
// that Refresh takes: a read-only log is not refreshed in between, but errGone
// returned.
func (l *Log) acquireHere(s *segment.Segment) error {
	if !l.opts.ReadOnly {
		return l.acquire(s)
	}
	err := s.Acquire()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

// closeIdle closes segments that were not used since it last came by, until an
// eighth of the limit is free. It waits for no reader.
func (l *Log) closeIdle() {
	if !l.closing.TryLock() {
		return
	}
	defer l.closing.Unlock()
	limit := int64(l.opts.MaxOpenSegments)
	for s := range l.set.Load().ascending() {
		if l.opened.Load() <= limit-limit/8 {
			return
		}
		s.CloseIdle() // an error closing a file that was only read costs nothing
	}
}
