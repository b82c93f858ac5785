package seglog

import (
	"context"
	"sync"
	"sync/atomic"
)

// arrivals wakes those who wait for the log to change. An announcement while
// nobody waits costs one atomic load.
type arrivals struct {
	waiting atomic.Int64
	mu      sync.Mutex
	ch      chan struct{} // closed by the next announcement; guarded by mu
}

// enlist returns a channel that the next announcement closes. The caller
// checks its condition after enlisting, and resigns when done.
func (a *arrivals) enlist() <-chan struct{} {
	a.waiting.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ch == nil {
		a.ch = make(chan struct{})
	}
	return a.ch
}

func (a *arrivals) resign() { a.waiting.Add(-1) }

func (a *arrivals) announce() {
	if a.waiting.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ch != nil {
		close(a.ch)
		a.ch = nil
	}
}

// Wait returns once a record with the given offset was appended, at once if
// it was before. It ends with ctx's error, or ErrClosed. Truncation does not end
// it: the offset is waited for until it is given out again.
func (l *Log) Wait(ctx context.Context, offset int64) error {
	_, err := l.waitFor(ctx, offset, -1, bound{isolation: ReadLogEnd})
	return err
}

// waitFor waits until the limit lies above offset. With a generation of 0 or
// above it also returns when the log was truncated since, and says so.
func (l *Log) waitFor(ctx context.Context, offset, generation int64, b bound) (truncated bool, err error) {
	for {
		changed := l.arrivals.enlist()
		switch {
		case l.closed.Load():
			err = ErrClosed
		case generation >= 0 && l.generation.Load() != generation:
			truncated = true
		case l.limit(b) > offset:
		default:
			select {
			case <-changed:
				l.arrivals.resign()
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		l.arrivals.resign()
		return truncated, err
	}
}
