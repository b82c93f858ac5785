package seglog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seglog/seglog/compaction"
)

// CleanerOptions are the settings of a Cleaner.
type CleanerOptions struct {
	// MapBytes and BytesPerSecond are those of CompactOptions, for all logs together.
	MapBytes, BytesPerSecond int64
}

// A Cleaner compacts many logs, one at a time and the dirtiest first, with one piece of
// memory. It is for whoever owns the logs, who calls CleanWorst over and over; Kafka
// waits for 15 seconds when there was nothing to do. It is safe for concurrent use.
type Cleaner struct {
	working sync.Mutex // held while a log is compacted
	cleaner *compaction.Cleaner

	mu    sync.Mutex
	aside map[*Log]error
	stats CleanerStats
}

// CleanerStats are figures of a Cleaner since it was made.
type CleanerStats struct {
	// Runs counts the logs that were compacted, Failed those that could not be.
	Runs, Failed int64
	// Read and Kept are what the runs have read and left.
	Read, Kept Volume
	// DirtiestRatio is the largest share of a dirty part when it was last looked.
	DirtiestRatio float64
	// MapFill is the share of the memory for keys that was used last.
	MapFill float64
	// Uncleanable are the directories of the logs that are set aside, with the reason.
	Uncleanable map[string]error
}

// NewCleaner returns a Cleaner.
func NewCleaner(o CleanerOptions) (*Cleaner, error) {
	c, err := compaction.New(compaction.Options{MapBytes: o.MapBytes, BytesPerSecond: o.BytesPerSecond})
	if err != nil {
		return nil, fmt.Errorf("cleaner: %w: %w", ErrOption, err)
	}
	return &Cleaner{cleaner: c, aside: map[*Log]error{}}, nil
}

// CleanWorst compacts the log among the given ones that is due and the dirtiest, and
// returns it; nil if none is due. A log that cannot be compacted is set aside, until
// Retry, and the next is tried in its place: one that is damaged does not keep the
// others dirty. The error is that of ctx. Logs that are not compacted, are closed or
// paused are passed over, and so is one whose compaction was aborted.
func (c *Cleaner) CleanWorst(ctx context.Context, logs []*Log) (*Log, error) {
	c.working.Lock()
	defer c.working.Unlock()
	passed := map[*Log]bool{}
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		l := c.worst(logs, passed)
		if l == nil {
			return nil, nil
		}
		run := compactRun{log: l, cleaner: c.cleaner}
		res, err := run.compact(ctx)
		switch cause := context.Cause(ctx); {
		case err == nil:
			c.count(res)
			return l, nil
		case cause != nil:
			return nil, cause
		case errors.Is(err, ErrClosed), errors.Is(err, ErrCompactionAborted), errors.Is(err, ErrCompactionPaused):
			passed[l] = true
		default:
			c.setAside(l, err)
		}
	}
}

// worst chooses. A log that cannot say how dirty it is is set aside, too.
func (c *Cleaner) worst(logs []*Log, passed map[*Log]bool) *Log {
	var worst *Log
	ratio := -1.0
	for _, l := range logs {
		if passed[l] || l.opts.ReadOnly || l.closed.Load() || !l.opts.CleanupPolicy.Compacts() || c.isAside(l) {
			continue
		}
		d, err := l.Dirtiness()
		if err != nil {
			if !l.closed.Load() {
				c.setAside(l, err)
			}
			continue
		}
		if d.Due && !d.Paused && d.Ratio > ratio {
			worst, ratio = l, d.Ratio
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.DirtiestRatio = max(0, ratio)
	return worst
}

func (c *Cleaner) isAside(l *Log) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aside[l] != nil
}

func (c *Cleaner) setAside(l *Log, err error) {
	l.logger().Error("log is set aside from compaction", "cause", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside[l] = err
	c.stats.Failed++
}

func (c *Cleaner) count(r CompactResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Runs++
	c.stats.Read = sum(c.stats.Read, r.Read)
	c.stats.Kept = sum(c.stats.Kept, r.Kept)
	c.stats.MapFill = r.MapFill
}

func sum(a, b Volume) Volume {
	return Volume{Records: a.Records + b.Records, Batches: a.Batches + b.Batches, Bytes: a.Bytes + b.Bytes}
}

// Retry takes a log back in that was set aside, and forgets one that is closed.
func (c *Cleaner) Retry(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.aside, l)
}

// Stats returns figures of the cleaner. The caller owns them.
func (c *Cleaner) Stats() CleanerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Uncleanable = map[string]error{}
	for l, err := range c.aside {
		s.Uncleanable[l.dir] = err
	}
	return s
}
