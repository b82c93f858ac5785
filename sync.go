package seglog

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/segment"
)

// Sync makes every record appended so far durable. Calls that wait at the same
// time share one sync. When it fails the log is in the failed state: see
// ErrFailed.
func (l *Log) Sync() error {
	if l.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := l.syncTo(l.end.Load()); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// syncTo returns once everything below offset is on disk. Whoever gets the
// sync lock syncs for all that were appended by then, so that those who queue
// behind it find their work done: group commit without a timer, and a lone
// writer waits for nobody.
func (l *Log) syncTo(offset int64) error {
	if l.durable.Load() >= offset {
		return nil
	}
	l.sync.Lock()
	defer l.sync.Unlock()
	if l.durable.Load() >= offset {
		return nil
	}
	l.append.Lock()
	err := l.writableLocked()
	end := l.end.Load()
	segments := l.append.unsynced
	l.append.unsynced = nil
	l.append.Unlock()
	if err != nil {
		return err
	}
	for _, s := range segments {
		// A segment that retention removed meanwhile needs no sync.
		if err := s.Sync(); err != nil && !errors.Is(err, segment.ErrRetired) {
			l.append.Lock()
			l.failLocked(err)
			l.append.Unlock()
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	l.durable.Store(end)
	return nil
}

// syncLocked is syncTo(end) for one who holds sync and append.
func (l *Log) syncLocked() error {
	if err := l.append.failed; err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	for _, s := range l.append.unsynced {
		if err := s.Sync(); err != nil && !errors.Is(err, segment.ErrRetired) {
			l.failLocked(err)
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	l.append.unsynced = nil
	l.durable.Store(l.end.Load())
	return nil
}
