package compaction

import (
	"context"
	"time"
)

// pace holds a reader and writer to a number of bytes a second, so that it does not
// spoil the disk for others. The zero value does not.
type pace struct {
	bytesPerSecond int64
	due            time.Time // when all bytes so far would have taken their time
}

const (
	// burst is how much of the past may be made up for: no more, or a pause would be
	// followed by a flood.
	burst = 100 * time.Millisecond
	// nap is the shortest time that it is worth to sleep.
	nap = 5 * time.Millisecond
)

// take waits until n bytes more are due. It returns early, with its cause, when ctx
// ends.
func (p *pace) take(ctx context.Context, n int) error {
	if p.bytesPerSecond <= 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	if earliest := now.Add(-burst); p.due.Before(earliest) {
		p.due = earliest
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.bytesPerSecond) * float64(time.Second)))
	wait := p.due.Sub(now)
	if wait < nap {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
