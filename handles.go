package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
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
		AheadBytes:         settings.aheadBytes(),
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
		return l.acquireAnew(s)
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

// acquireAnew is for a read-only log in which the file of a segment is gone.
// segment.ErrRetired says that it has looked again, and that the caller has to.
func (l *Log) acquireAnew(s *segment.Segment) error {
	for again := maxRefreshes; ; again-- {
		if err := l.Refresh(); err != nil {
			return err
		}
		now := l.set.Load().floor(s.Base())
		if now == nil || now.Base() != s.Base() {
			return segment.ErrRetired // by the refresh, as all that were there before
		}
		err := now.Acquire() // under another name, perhaps
		if err == nil {
			now.Release()
		}
		if err == nil || errors.Is(err, segment.ErrRetired) {
			return segment.ErrRetired
		}
		if !errors.Is(err, fs.ErrNotExist) || again == 0 {
			return err
		}
	}
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
	idle := l.append.failed == nil && l.append.tail.segment == nil && len(l.append.unwritten) == 0
	var work unsynced
	if idle {
		work = l.takeUnsyncedLocked()
	}
	l.append.Unlock()
	return idle && l.syncTaken(work) == nil
}

// errGone: a file of a read-only log is gone. The log is to be refreshed.
var errGone = errors.New("the log has changed")

// gone says that a read-only log is to be looked at anew, if err is of a file that
// another process has removed or cut.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

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

// doubt is about damage or a gap that a reader meets: the log may have changed meanwhile.
type doubt struct {
	generation int64 // of the log, when the reader began
	// Of a read-only log, what was met before, and on account of which the log was
	// looked at again.
	file     string
	position int64
	again    int // how often it was
}

func (l *Log) newDoubt() doubt { return doubt{generation: l.generation.Load()} }

// again reports whether to read again: what a truncation has left may look like damage to
// one who does not know of it yet, and so may what was appended then. What was not there for
// a moment may look like a gap. Of its own
// truncations a log knows. If it is read-only, another process has changed the file since
// the log was last looked at, or has compacted several segments into it; what is met again
// is believed when that does not go on, or after some times. Nothing is acquired.
func (l *Log) again(d *doubt, err error) (bool, error) {
	var damage *CorruptionError
	var gap *GapError
	isGap := errors.As(err, &gap)
	if !isGap && !errors.As(err, &damage) {
		return false, err
	}
	if isGap || !l.opts.ReadOnly {
		before := d.generation
		d.generation = l.generation.Load()
		if d.generation == before {
			return false, err
		}
		return true, nil
	}
	met := d.file == damage.File && d.position == damage.Position
	if s := l.set.Load().floor(damage.BaseOffset); met || s != nil && s.Base() == damage.BaseOffset {
		if !met {
			d.again = 0
		}
		// A file that is shorter than it was is another one, or was cut.
		changed := errors.Is(err, io.ErrUnexpectedEOF)
		if !changed && s != nil && s.Base() == damage.BaseOffset {
			changed, _ = s.Changed()
		}
		if d.again == maxRefreshes || !changed && !l.relisted() {
			return false, err
		}
	}
	d.file, d.position = damage.File, damage.Position
	d.again++
	if err := l.Refresh(); err != nil {
		return false, err
	}
	return true, nil
}

// relisted reports whether the segments in the directory are not those of a read-only log
// any more. In doubt they are.
func (l *Log) relisted() bool {
	found, err := l.list()
	if err != nil {
		return false
	}
	v, err := decide(found, l.covered)
	if err != nil {
		return false
	}
	var bases []int64
	for s := range l.set.Load().ascending() {
		bases = append(bases, s.Base())
	}
	return !slices.Equal(v.directory().bases, bases)
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
