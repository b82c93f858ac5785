package seglog

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/seglog/seglog/compaction"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/segment"
)

// retryCleaning is how long a log that could not be compacted is left alone, unless it
// is damaged: a full disk has room again some day.
const retryCleaning = 5 * time.Minute

func (d *Dir) newCleaner() (*Cleaner, error) {
	c, err := NewCleaner(d.opts.Cleaner)
	if err != nil {
		return nil, err
	}
	c.retry, c.told = retryCleaning, d.tellCleaner
	return c, nil
}

func (d *Dir) tellCleaner(l *Log, r CompactResult, err error) {
	p, e := l.owner, &d.opts.Events
	switch {
	case err != nil && e.Uncleanable != nil:
		e.Uncleanable(p.topic, p.partition, err)
	case err == nil && e.Cleaned != nil:
		e.Cleaned(p.topic, p.partition, r)
	}
}

// keepClean runs until the Dir is closed. It is a goroutine of its own: a log of many
// gigabytes takes minutes, for which no flush may wait. The first look comes as late as
// the first round of retention, so that who opens a directory for a moment does not have
// it compacted.
func (d *Dir) keepClean() {
	for wait := d.opts.InitialTaskDelay; sleep(d.running, wait) == nil; {
		wait = 0
		if l, err := d.cleanWorst(d.running); l == nil && err == nil {
			d.cleaner.release()
			wait = d.opts.CleanerBackoff
		}
	}
}

// Clean compacts the logs that are due, the dirtiest first, until none is. A Dir does so
// on its own, unless DirOptions.ManualCleaning is set. One that cannot be compacted is
// set aside, which CleanerStats and DirEvents tell, and costs the others nothing. The
// error is that of ctx, or ErrClosed.
//
// A log that is not open is opened only if its files say that it may be due. The cost of
// finding nothing to do is that of listing the directories of compacted logs that are not
// open, once for each, and of Dirtiness for those that are.
func (d *Dir) Clean(ctx context.Context) error {
	if d.opts.ReadOnly {
		return fmt.Errorf("clean: %w", ErrReadOnly)
	}
	if err := d.begin(); err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	defer d.working.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.running, func() { cancel(ErrClosed) })()
	for {
		if l, err := d.cleanWorst(ctx); err != nil {
			return fmt.Errorf("clean: %w", err)
		} else if l == nil {
			return nil
		}
	}
}

// CleanerStats returns figures of what compacts the logs. The caller owns them.
func (d *Dir) CleanerStats() CleanerStats {
	s := d.cleaner.Stats()
	partitions := make(map[string]error, len(s.Uncleanable))
	for path, err := range s.Uncleanable {
		partitions[filepath.Base(path)] = err
	}
	s.Uncleanable = partitions
	return s
}

// cleanWorst compacts one log; nil if none is due.
func (d *Dir) cleanWorst(ctx context.Context) (*Log, error) {
	var logs []*Log
	now := time.Now()
	for _, p := range d.all() {
		if ctx.Err() != nil {
			break
		}
		if !d.TopicOptions(p.topic).CleanupPolicy.Compacts() {
			continue
		}
		l := p.log.Load()
		if l == nil || l.closed.Load() {
			if p.setAside.Load() != nil || !p.mayBeDue(now) {
				continue
			}
			var err error
			if l, err = p.open(); err != nil {
				continue // it was set aside, which was told
			}
		}
		logs = append(logs, l)
	}
	l, err := d.cleaner.CleanWorst(ctx, logs)
	d.boundOpen(true)
	return l, err
}

// survey is what the files of a log that is not open tell of what there is to compact.
// Nobody changes them while it is not, so that one look is enough.
type survey struct {
	unsure     bool // only opening it tells
	timed      bool // it knows when dirty segments were written
	bounds     compaction.Bounds
	firstDirty int64
}

// mayBeDue looks at the files of a log that is not open, without changing any, whether it
// is due for compaction. In doubt it is. Opening thousands of logs to find that nothing
// is to be done would write to each of them. One that somebody is about to open is left
// for the next time.
func (p *partition) mayBeDue(now time.Time) bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	if l := p.log.Load(); p.gone || l != nil && !l.closed.Load() {
		return false
	}
	opts := p.dir.TopicOptions(p.topic)
	if p.survey == nil || opts.hasCompactionLag() && !p.survey.timed {
		p.survey = p.look(&opts)
	}
	s := p.survey
	policy := opts.compactionPolicy()
	return s.unsure || compaction.Choose(s.bounds, s.firstDirty, policy, now.UnixMilli()).Due(policy)
}

// look makes the survey. Where the log ends and what is stable it cannot tell, and takes
// everything below the active segment for it.
func (p *partition) look(opts *Options) *survey {
	entries, err := opts.FS.ReadDir(p.path)
	if err != nil {
		return &survey{unsure: true}
	}
	var all []compaction.Extent
	for _, e := range entries {
		f, ok := layout.ParseFile(e.Name())
		if ok && f.State != layout.Live && f.State != layout.Deleted {
			return &survey{unsure: true} // of a swap, which may count or not
		}
		if !ok || f.Kind != layout.Log || f.State != layout.Live {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return &survey{unsure: true}
		}
		all = append(all, compaction.Extent{Base: f.Base, Size: info.Size()})
	}
	if len(all) == 0 {
		return &survey{timed: true}
	}
	slices.SortFunc(all, func(a, b compaction.Extent) int { return int(min(max(a.Base-b.Base, -1), 1)) })
	sealed, active := all[:len(all)-1], all[len(all)-1].Base
	start := max(all[0].Base, p.logStart())
	s := &survey{firstDirty: p.dir.checkpoints.firstDirty(p), bounds: compaction.Bounds{
		Start: start, End: math.MaxInt64, LastStable: math.MaxInt64, ActiveBase: active, Sealed: sealed,
	}}
	if s.firstDirty == 0 {
		s.firstDirty = start
	}
	s.unsure = s.firstDirty > active // perhaps above the end
	if opts.hasCompactionLag() && !s.unsure {
		s.unsure, s.timed = p.withTimes(s) != nil, true
	}
	return s
}

func (p *partition) logStart() int64 {
	if l := p.log.Load(); l != nil {
		return l.stateNow().LogStartOffset
	}
	return p.given.LogStartOffset
}

// withTimes adds when the dirty segments were written.
func (p *partition) withTimes(s *survey) error {
	sealed := s.bounds.Sealed
	for i := range sealed {
		next := s.bounds.ActiveBase
		if i+1 < len(sealed) {
			next = sealed[i+1].Base
		}
		if next <= s.firstDirty {
			continue
		}
		var err error
		if sealed[i], err = p.timesOf(sealed[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *partition) timesOf(e compaction.Extent) (compaction.Extent, error) {
	s := segment.Open(p.path, e.Base, segment.Options{FS: p.dir.opts.FS, ReadOnly: true})
	defer s.Retire()
	if err := s.Acquire(); err != nil {
		return e, err
	}
	defer s.Release()
	return withTimes(e, s)
}
