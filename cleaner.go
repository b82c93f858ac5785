package seglog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seglog/seglog/compaction"
)

// CleanerOptions are the settings of a Cleaner.
type CleanerOptions struct {
	// MapBytes, log.cleaner.dedupe.buffer.size, and BytesPerSecond,
	// log.cleaner.io.max.bytes.per.second, are those of CompactOptions, for all logs
	// together.
	MapBytes, BytesPerSecond int64
	// LoadFactor is log.cleaner.io.buffer.load.factor: the share of the memory for keys
	// that is used. More keys fit if it is higher, and are looked for longer. 0 means
	// 0.9.
	LoadFactor float64
}

// A Cleaner compacts many logs, one at a time and the dirtiest first, with one piece of
// memory. It is for whoever owns the logs, who calls CleanWorst over and over; Kafka
// waits for 15 seconds when there was nothing to do. A Dir has one for its own logs. It
// is safe for concurrent use.
type Cleaner struct {
	working chan struct{} // has room for the one who compacts
	cleaner *compaction.Cleaner

	// retry is after what time a log that was set aside has another try, unless it is
	// damaged. 0 means never.
	retry time.Duration
	// told is called when a log was compacted or, with an error, set aside. It may be
	// nil.
	told func(*Log, CompactResult, error)

	mu    sync.Mutex
	aside map[*Log]putAside
	stats CleanerStats
}

type putAside struct {
	err error
	at  time.Time
}

// CleanerStats are figures of a Cleaner since it was made.
type CleanerStats struct {
	// Runs counts the logs that were compacted, Failed those that could not be.
	Runs, Failed int64
	// Read and Kept are what the runs have read and left.
	Read, Kept Volume
	// Looked is when the logs were last looked through, and Cleaned when one of them was
	// last compacted, which took LastRun. They are zero if there was no such time.
	Looked, Cleaned time.Time
	LastRun         time.Duration
	// DirtiestRatio is the largest share of a dirty part when the logs were last looked
	// through, and MostOverdue the longest that Options.MaxCompactionLag was exceeded. Logs
	// of a Dir that are not open and not due do not count.
	DirtiestRatio float64
	MostOverdue   time.Duration
	// MapFill is the share of the memory for keys that was used last.
	MapFill float64
	// Uncleanable are the directories of the logs that are set aside, with the reason. In
	// a Dir they are the names of partitions, such as "orders-0".
	Uncleanable map[string]error
}

// NewCleaner returns a Cleaner.
func NewCleaner(o CleanerOptions) (*Cleaner, error) {
	c, err := compaction.New(compaction.Options{MapBytes: o.MapBytes, LoadFactor: o.LoadFactor, BytesPerSecond: o.BytesPerSecond})
	if err != nil {
		return nil, fmt.Errorf("cleaner: %w: %w", ErrOption, err)
	}
	return &Cleaner{working: make(chan struct{}, 1), cleaner: c, aside: map[*Log]putAside{}}, nil
}

// CleanWorst compacts the log among the given ones that is due and the dirtiest, and
// returns it; nil if none is due. A log that cannot be compacted is set aside, until
// Retry, and the next is tried in its place: one that is damaged does not keep the
// others dirty. The error is that of ctx. Logs that are not compacted, are closed or
// paused or are being compacted by others are passed over, and so is one whose
// compaction was aborted.
func (c *Cleaner) CleanWorst(ctx context.Context, logs []*Log) (*Log, error) {
	select {
	case c.working <- struct{}{}:
		defer func() { <-c.working }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
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
		case err == nil && res.Passes > 0:
			c.count(l, res)
			return l, nil
		case cause != nil:
			return nil, cause
		case err == nil, // what was due lies above what is on disk, or was cleaned by others
			errors.Is(err, ErrClosed), errors.Is(err, ErrCompactionAborted), errors.Is(err, ErrCompactionPaused):
			passed[l] = true
		default:
			c.setAside(l, err)
			passed[l] = true
		}
	}
}

// worst chooses. A log that cannot say how dirty it is is set aside, too.
func (c *Cleaner) worst(logs []*Log, passed map[*Log]bool) *Log {
	now := time.Now()
	c.forgetClosed()
	var worst *Log
	var ratio, dirtiest float64
	var overdue time.Duration
	for _, l := range logs {
		if passed[l] || l.opts.ReadOnly || l.closed.Load() || !l.settings().CleanupPolicy.Compacts() || c.isAside(l, now) {
			continue
		}
		d, err := l.dirtiness(now, true)
		if err != nil {
			if !l.closed.Load() {
				c.setAside(l, err)
			}
			continue
		}
		dirtiest, overdue = max(dirtiest, d.Ratio), max(overdue, d.Overdue)
		busy := d.Paused || len(l.compacting) > 0
		if d.Due && !busy && (worst == nil || d.Ratio > ratio) {
			worst, ratio = l, d.Ratio
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Looked, c.stats.DirtiestRatio, c.stats.MostOverdue = now, dirtiest, overdue
	return worst
}

func (c *Cleaner) isAside(l *Log, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	aside, is := c.aside[l]
	return is && (c.retry == 0 || errors.Is(aside.err, ErrCorrupt) || now.Sub(aside.at) < c.retry)
}

// setAside tells of it once, however often it is tried again.
func (c *Cleaner) setAside(l *Log, err error) {
	c.mu.Lock()
	before, again := c.aside[l]
	c.aside[l] = putAside{err: err, at: time.Now()}
	c.stats.Failed++
	c.mu.Unlock()
	if again && before.err.Error() == err.Error() {
		return
	}
	l.logger().Error("log is set aside from compaction", "cause", err)
	if c.told != nil {
		c.told(l, CompactResult{}, err)
	}
}

// forgetClosed: a log that is opened again is another Log.
func (c *Cleaner) forgetClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.aside {
		if l.closed.Load() {
			delete(c.aside, l)
		}
	}
}

func (c *Cleaner) count(l *Log, r CompactResult) {
	c.mu.Lock()
	delete(c.aside, l)
	c.stats.Runs++
	c.stats.Read = sum(c.stats.Read, r.Read)
	c.stats.Kept = sum(c.stats.Kept, r.Kept)
	c.stats.Cleaned, c.stats.LastRun = time.Now(), r.Elapsed
	c.stats.MapFill = r.MapFill
	c.mu.Unlock()
	if c.told != nil {
		c.told(l, r, nil)
	}
}

func sum(a, b Volume) Volume {
	return Volume{Records: a.Records + b.Records, Batches: a.Batches + b.Batches, Bytes: a.Bytes + b.Bytes}
}

// release gives back the memory for keys, unless it is in use.
func (c *Cleaner) release() {
	select {
	case c.working <- struct{}{}:
		c.cleaner.Release()
		<-c.working
	default:
	}
}

// Retry takes a log back in that was set aside.
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
	for l, aside := range c.aside {
		if !l.closed.Load() {
			s.Uncleanable[l.dir] = aside.err
		}
	}
	return s
}
