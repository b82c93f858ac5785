package seglog

import (
	"errors"
	"io/fs"

	"github.com/seglog/seglog/segment"
)

func (l *Log) segmentOptions() segment.Options {
	return segment.Options{
		FS:                 l.opts.FS,
		IndexIntervalBytes: int64(l.opts.IndexIntervalBytes),
		IndexMaxBytes:      l.opts.SegmentIndexBytes,
		ReadOnly:           l.opts.ReadOnly,
		Open:               l.opened,
	}
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
	if l.opened.Load() > int64(l.opts.MaxOpenSegments) {
		l.closeIdle()
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
