package seglog

import (
	"context"
	"fmt"
	"sync"
)

// LoadProgress is how far Dir.Load has come.
type LoadProgress struct {
	Done, Total int
	// Topic and Partition are those of the log that was opened last, and Err is why
	// it could not be.
	Topic     string
	Partition int32
	Err       error
}

// Load opens all partitions, RecoveryThreads at a time. One that cannot be opened is set
// aside and does not end it; only ctx, or Close, does. progress, if not nil, is called
// after each, never twice at a time.
func (d *Dir) Load(ctx context.Context, progress func(LoadProgress)) error {
	all := d.all()
	var mu sync.Mutex
	done := 0
	inParallel(d.opts.RecoveryThreads, len(all), func(i int) {
		if ctx.Err() != nil || d.running.Err() != nil {
			return
		}
		p := all[i]
		_, err := p.open()
		mu.Lock()
		defer mu.Unlock()
		done++
		if progress != nil {
			progress(LoadProgress{Done: done, Total: len(all), Topic: p.topic, Partition: p.partition, Err: named(err)})
		}
	})
	if done == len(all) {
		return nil
	}
	err := context.Cause(ctx)
	if err == nil {
		err = ErrClosed
	}
	return fmt.Errorf("load %d of %d partitions: %w", done, len(all), err)
}
