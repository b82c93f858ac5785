package seglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// maintenance is what a Dir does on its own. One goroutine does one thing at a time,
// the one that is due first, and each in small steps: a long round of retention does not
// keep a flush waiting.
type maintenance struct {
	turn  sync.Mutex // held by the one who maintains
	tasks []*task    // guarded by turn

	mu      sync.Mutex // comes last
	removal []removal  // in the order of their time
	free    time.Time  // when the budget allows the next removal
	flushAt time.Time  // when a log may have to be flushed, zero for never

	kick chan struct{} // something may be due earlier
}

// task is a part of maintenance.
type task struct {
	name string
	at   func() time.Time // when it is due; zero for never
	// step does a little of it. A failure is told; the task goes on at its next turn.
	step func(ctx context.Context, now time.Time) error
}

// removal is a file or directory that is to be removed.
type removal struct {
	path   string
	dir    bool
	listed bool // what was in the directory comes before it
	at     time.Time
}

// retryRemoval is how long a file that could not be removed is left alone.
const retryRemoval = time.Minute

func (d *Dir) startMaintenance() {
	m := &d.maintenance
	now := time.Now()
	m.kick = make(chan struct{}, 1)
	m.tasks = []*task{
		{"flush", m.nextFlush, d.flushDue},
		d.every("high watermark checkpoint", now, d.opts.HighWatermarkCheckpointInterval, func() error {
			return d.write(&d.checkpoints.high, highWatermark)
		}),
		d.every("recovery point checkpoint", now, d.opts.RecoveryCheckpointInterval, func() error {
			return d.write(&d.checkpoints.recovery, recoveryPoint)
		}),
		d.every("log start checkpoint", now, d.opts.StartCheckpointInterval, func() error {
			return errors.Join(d.write(&d.checkpoints.start, logStart), d.writeCleaned())
		}),
		d.every("producer expiry", now, d.opts.ProducerExpirationCheckInterval, d.expireProducers),
		d.every("late transactions", now, transactionCheckInterval, d.watchTransactions),
		d.retention(now.Add(d.opts.InitialTaskDelay)),
		{"removal", m.nextRemoval, d.removeNext},
	}
	if d.opts.ManualMaintenance {
		return
	}
	d.background.Go(d.maintain)
	if !d.opts.ManualCleaning {
		d.background.Go(d.keepClean)
	}
	if !d.wasClean {
		d.background.Go(func() { d.Load(d.running, nil) })
	}
}

// every is a task that is one step, done at intervals.
func (d *Dir) every(name string, now time.Time, interval time.Duration, do func() error) *task {
	next := now.Add(interval)
	return &task{
		name: name,
		at:   func() time.Time { return next },
		step: func(_ context.Context, now time.Time) error {
			next = now.Add(interval)
			return do()
		},
	}
}

// maintain runs until the Dir is closed.
func (d *Dir) maintain() {
	for d.running.Err() == nil {
		now := time.Now()
		wait := time.Duration(math.MaxInt64)
		if t, at := d.maintenance.next(); t != nil {
			wait = at.Sub(now)
			if wait <= 0 {
				d.run(d.running, t, now)
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.maintenance.kick:
		case <-d.running.Done():
		}
		timer.Stop()
	}
}

// next is the task that is due first.
func (m *maintenance) next() (first *task, at time.Time) {
	m.turn.Lock()
	defer m.turn.Unlock()
	for _, t := range m.tasks {
		if due := t.at(); !due.IsZero() && (first == nil || due.Before(at)) {
			first, at = t, due
		}
	}
	return first, at
}

func (d *Dir) run(ctx context.Context, t *task, now time.Time) {
	d.maintenance.turn.Lock()
	defer d.maintenance.turn.Unlock()
	d.told(t.name, t.step(ctx, now))
}

// told passes on what a part of maintenance met.
func (d *Dir) told(what string, err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, named(err))
	d.logger().Error("maintenance", "cause", err)
	if f := d.opts.Events.MaintenanceFailed; f != nil {
		f(err)
	}
	return err
}

// Maintain does one round of everything that a Dir does on its own: it compacts the logs
// that are due, as Clean does, unless ManualCleaning is set, applies retention to every
// log, flushes those whose flush.ms has passed, writes the checkpoints and removes the
// files whose time has come, waiting for the budget. It is for those who set
// ManualMaintenance; else it does the same ahead of time. What fails does not keep the
// rest from being done; the errors are joined.
func (d *Dir) Maintain(ctx context.Context) error {
	if d.opts.ReadOnly {
		return fmt.Errorf("maintain: %w", ErrReadOnly)
	}
	if err := d.begin(); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	defer d.working.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.running, func() { cancel(ErrClosed) })()
	var errs []error
	if !d.opts.ManualCleaning {
		errs = append(errs, d.Clean(ctx))
	}
	m := &d.maintenance
	m.turn.Lock()
	defer m.turn.Unlock()
	for _, p := range d.all() {
		errs = append(errs, d.told("retention", d.retain(ctx, p)))
	}
	errs = append(errs, d.told("flush", d.flushDue(ctx, time.Now())), d.told("checkpoints", d.writeCheckpoints()),
		d.told("producer expiry", d.expireProducers()), d.watchTransactions())
	for {
		now := time.Now()
		at, due := m.firstRemoval(now)
		if !due {
			break
		}
		if err := sleep(ctx, at.Sub(now)); err != nil {
			errs = append(errs, err)
			break
		}
		errs = append(errs, d.told("removal", d.removeNext(ctx, time.Now())))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	return nil
}

func sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
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

// retention is the task that applies retention to one log after the other.
func (d *Dir) retention(first time.Time) *task {
	next := first
	var began time.Time
	var left []*partition
	return &task{
		name: "retention",
		at:   func() time.Time { return next },
		step: func(ctx context.Context, now time.Time) error {
			if left == nil {
				began, left = now, slices.Clone(d.all())
			}
			var err error
			if len(left) > 0 {
				err = d.retain(ctx, left[0])
				left = left[1:]
			}
			next = now
			if len(left) == 0 {
				left, next = nil, began.Add(d.opts.RetentionCheckInterval)
			}
			return err
		},
	}
}

// retain applies retention to one log, which is opened for it if it may have something
// to remove. One that was set aside or is in the failed state is passed over: that was
// told before.
func (d *Dir) retain(ctx context.Context, p *partition) error {
	l := p.log.Load()
	if l == nil || l.closed.Load() {
		if p.setAside.Load() != nil || !p.mayHaveExpired(time.Now()) {
			return nil
		}
		var err error
		if l, err = p.open(); err != nil {
			return nil
		}
	}
	_, err := l.ApplyRetention(ctx)
	l.boundOpen()
	if errors.Is(err, ErrFailed) || errors.Is(err, ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("partition %s: %w", p.topicPartition, err)
	}
	return nil
}

// mayHaveExpired looks at the files of a log that is not open, without changing any,
// whether retention would remove its first segment. In doubt it may. Opening thousands
// of logs to find that nothing is to be done would write to each of them.
func (p *partition) mayHaveExpired(now time.Time) bool {
	opts := p.dir.TopicOptions(p.topic)
	entries, err := opts.FS.ReadDir(p.path)
	if err != nil {
		return true
	}
	first, firstSize, total := int64(-1), int64(0), int64(0)
	for _, e := range entries {
		f, ok := layout.ParseFile(e.Name())
		if ok && f.State == layout.Deleted {
			return true // left to be removed, which opening does
		}
		if !ok || f.Kind != layout.Log || f.State != layout.Live {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return true
		}
		total += info.Size()
		if first < 0 || f.Base < first {
			first, firstSize = f.Base, info.Size()
		}
	}
	switch {
	case first < 0 || total == 0:
		return false
	case p.given.LogStartOffset > first:
		return true // and perhaps above all of the segment
	case !opts.CleanupPolicy.Deletes():
		return false
	case opts.RetentionBytes >= 0 && total-firstSize >= opts.RetentionBytes:
		return true
	}
	return opts.RetentionTime >= 0 && p.isOlder(first, now, opts)
}

// isOlder reports whether all records of a segment are older than RetentionTime, as far as
// its files tell; see olderThan.
func (p *partition) isOlder(base int64, now time.Time, opts Options) bool {
	s := segment.Open(p.path, base, segment.Options{FS: p.dir.opts.FS, ReadOnly: true})
	defer s.Retire()
	if err := s.Acquire(); err != nil {
		return true
	}
	defer s.Release()
	var c segment.Scanner
	newest, err := s.LargestTimestamp(&c)
	if err == nil && (newest.Timestamp < 0 || newest.Timestamp > now.UnixMilli() && opts.RetentionCapsTime) {
		newest.Timestamp, err = s.ModTime()
	}
	return err != nil || newest.Timestamp < now.Add(-opts.RetentionTime).UnixMilli()
}

// flushMayBeDue is told of a log that was opened with this flush.ms, 0 for none.
func (m *maintenance) flushMayBeDue(interval time.Duration) {
	if interval <= 0 {
		return
	}
	at := time.Now().Add(interval)
	m.mu.Lock()
	earlier := m.flushAt.IsZero() || at.Before(m.flushAt)
	if earlier {
		m.flushAt = at
	}
	m.mu.Unlock()
	if earlier {
		m.look()
	}
}

// look has the goroutine that maintains look again what is due.
func (m *maintenance) look() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

func (m *maintenance) nextFlush() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flushAt
}

// flushDue syncs the logs whose flush.ms has passed. A failure is the log's, which
// keeps it and tells of it.
func (d *Dir) flushDue(_ context.Context, now time.Time) error {
	m := &d.maintenance
	m.mu.Lock()
	m.flushAt = time.Time{}
	m.mu.Unlock()
	var next time.Time
	for _, p := range d.all() {
		l := p.log.Load()
		if l == nil || l.closed.Load() {
			continue
		}
		interval := l.settings().FlushInterval
		if interval <= 0 {
			continue
		}
		due := p.lastFlush.Add(interval)
		if !due.After(now) {
			l.syncTo(l.end.Load())
			p.lastFlush = now
			due = now.Add(interval)
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flushAt.IsZero() || !next.IsZero() && next.Before(m.flushAt) {
		m.flushAt = next
	}
	return nil
}

// removeLater has files removed after a delay, and as fast as the budget allows.
func (d *Dir) removeLater(delay time.Duration, paths ...string) {
	at := time.Now().Add(max(0, delay))
	list := make([]removal, len(paths))
	for i, path := range paths {
		list[i] = removal{path: path, at: at}
	}
	d.maintenance.remove(list...)
}

func (d *Dir) removeDirLater(delay time.Duration, path string) {
	d.maintenance.remove(removal{path: path, dir: true, at: time.Now().Add(max(0, delay))})
}

func (m *maintenance) remove(list ...removal) {
	m.mu.Lock()
	m.removal = append(m.removal, list...)
	slices.SortStableFunc(m.removal, func(a, b removal) int { return a.at.Compare(b.at) })
	m.mu.Unlock()
	m.look()
}

func (m *maintenance) toRemove() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.removal)
}

func (m *maintenance) nextRemoval() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.removal) == 0 {
		return time.Time{}
	}
	if at := m.removal[0].at; at.After(m.free) {
		return at
	}
	return m.free
}

// firstRemoval reports whether the time of a removal has come, and when the budget
// allows it.
func (m *maintenance) firstRemoval(now time.Time) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, len(m.removal) > 0 && !m.removal[0].at.After(now)
}

// removeNext removes one file. A directory is replaced by what is in it, until it is
// empty. One that cannot be removed has another try later.
func (d *Dir) removeNext(_ context.Context, now time.Time) error {
	m := &d.maintenance
	m.mu.Lock()
	if len(m.removal) == 0 || m.removal[0].at.After(now) || m.free.After(now) {
		m.mu.Unlock()
		return nil
	}
	r := m.removal[0]
	m.removal = m.removal[1:]
	m.mu.Unlock()

	var size int64
	var err error
	if r.dir {
		err = d.removeDir(r)
	} else {
		size, err = removeFile(d.opts.FS, r.path)
	}
	if err != nil {
		r.at, r.listed = now.Add(retryRemoval), false
		m.remove(r)
		return err
	}
	if rate := d.opts.RemovalBytesPerSecond; rate > 0 {
		m.mu.Lock()
		m.free = now.Add(time.Duration(float64(size) / float64(rate) * float64(time.Second)))
		m.mu.Unlock()
	}
	return nil
}

func removeFile(fsys vfs.FS, path string) (size int64, err error) {
	fi, err := fsys.Stat(path)
	if err == nil {
		size = fi.Size()
		err = fsys.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return size, err
}

// removeDir removes an empty directory. One that is not has its content removed first,
// and is looked at again after that.
func (d *Dir) removeDir(r removal) error {
	entries, err := d.opts.FS.ReadDir(r.path)
	if err == nil && len(entries) == 0 {
		if err = d.opts.FS.Remove(r.path); err == nil {
			err = d.opts.FS.SyncDir(filepath.Dir(r.path))
			d.forgetLeftover(filepath.Base(r.path))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.forgetLeftover(filepath.Base(r.path))
		return nil
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	if r.listed {
		return fmt.Errorf("directory %s is not empty: it holds %q", r.path, entries[0].Name())
	}
	r.listed = true
	content := make([]removal, 0, len(entries)+1)
	for _, e := range entries {
		content = append(content, removal{path: filepath.Join(r.path, e.Name()), dir: e.IsDir(), at: r.at})
	}
	d.maintenance.remove(append(content, r)...)
	return nil
}

func (d *Dir) forgetLeftover(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.others = slices.DeleteFunc(d.mu.others, func(i PartitionInfo) bool { return i.Name == name })
}

// expireProducers has every log that is open forget the producers that have not
// written for long. One that is opened later forgets them then.
func (d *Dir) expireProducers() error {
	var errs []error
	for _, p := range d.all() {
		l := p.log.Load()
		if l == nil {
			continue
		}
		_, err := l.ExpireProducers()
		if err != nil && !errors.Is(err, ErrFailed) && !errors.Is(err, ErrClosed) {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.topicPartition, err))
		}
	}
	return errors.Join(errs...)
}

// transactionCheckInterval is how often logs are looked at for transactions that
// nobody ends.
const transactionCheckInterval = time.Minute

// watchTransactions has every log that is open tell of a late transaction. Nobody
// waits for the end of one in a log that is not.
func (d *Dir) watchTransactions() error {
	for _, p := range d.all() {
		if l := p.log.Load(); l != nil {
			l.watchTransactions()
		}
	}
	return nil
}

func (d *Dir) logger() *slog.Logger {
	if d.opts.Logger != nil {
		return d.opts.Logger.With("dir", d.path)
	}
	return slog.New(slog.DiscardHandler)
}
