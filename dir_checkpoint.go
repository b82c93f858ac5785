package seglog

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// checkpoints are the four offset checkpoints of a log directory. A log remembers its
// own recovery point and start, in seglog.state; the checkpoints are what a broker
// goes by, and what is known of a log that a broker has written. So that the two do not
// contradict each other:
//
//   - a log that no broker has loaded since (see markUntouched) goes by its own state,
//     which is written when it changes, and not by checkpoints of a minute ago;
//   - otherwise it takes from a checkpoint only what makes it more careful, the lower
//     recovery point and the higher start (see readState), unless a broker wrote last
//     and says where the log ends (see openAsBrokerLeft);
//   - up to where such a log was compacted is what the checkpoint says if the directory
//     was shut down properly, and else the lower of the two (see firstDirty);
//   - a truncation lowers the checkpoints before it cuts anything, also one of a log that
//     was opened alone (see lowerLines);
//   - the lines of a partition that is deleted go before one of its name is created.
//
// Lines of partitions that are not here are dropped when a file is written, as Kafka
// does; those of partitions that were not opened, or cannot be, stay as they are.
type checkpoints struct {
	sync.Mutex
	recovery, start, high, cleaned offsetsFile
}

// offsetsFile is a checkpoint as it is on disk.
type offsetsFile struct {
	name  string
	lines []checkpoint.OffsetEntry
	at    map[topicPartition]int64 // of lines; of several a broker takes the last
	known bool                     // lines are what the file holds, and nothing else
	read  stamp                    // of the file when a read-only Dir has read it last
}

func (f *offsetsFile) set(lines []checkpoint.OffsetEntry, known bool) {
	f.lines, f.known = lines, known
	f.at = make(map[topicPartition]int64, len(lines))
	for _, e := range lines {
		f.at[topicPartition{e.Topic, e.Partition}] = e.Offset
	}
}

func (f *offsetsFile) find(tp topicPartition) (int64, bool) {
	offset, ok := f.at[tp]
	return offset, ok
}

// readCheckpoints reads all four. A damaged one says what can still be read of it, and
// nothing of the rest. One that is missing is made, empty, as Kafka does: by it a log
// that is opened alone knows a log directory.
func (d *Dir) readCheckpoints() error {
	c := &d.checkpoints
	c.recovery.name, c.start.name = layout.RecoveryPointName, layout.LogStartName
	c.high.name, c.cleaned.name = layout.HighWatermarkName, layout.CleanerOffsetName
	made := false
	for _, f := range c.files() {
		path := d.file(f.name)
		lines, problems, err := checkpoint.ReadOffsets(d.opts.FS, path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.opts.ReadOnly:
		case errors.Is(err, fs.ErrNotExist):
			if err := makeEmpty(d.opts.FS, path); err != nil {
				return err
			}
			made = true
		case err != nil && !errors.Is(err, checkpoint.ErrCorrupt):
			return err
		case err != nil:
			d.findings = append(d.findings, err)
		}
		for _, problem := range problems {
			d.findings = append(d.findings, problem)
		}
		f.set(lines, len(problems) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)))
	}
	for _, err := range d.findings {
		d.logger().Warn("damaged file in the log directory", "cause", err)
	}
	if made {
		return d.opts.FS.SyncDir(d.path)
	}
	return nil
}

func (c *checkpoints) files() []*offsetsFile {
	return []*offsetsFile{&c.recovery, &c.start, &c.high, &c.cleaned}
}

func makeEmpty(fsys vfs.FS, path string) error {
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// tell gives a partition what the checkpoints say of it.
func (c *checkpoints) tell(p *partition) {
	if offset, ok := c.recovery.find(p.topicPartition); ok {
		p.given.RecoveryPoint = offset
	}
	if offset, ok := c.high.find(p.topicPartition); ok {
		p.highWatermark = offset
	}
	p.given.LogStartOffset, _ = c.start.find(p.topicPartition)
}

// values are what a checkpoint says of the partitions here.
type values func(p *partition) (offset int64, listed bool)

func recoveryPoint(p *partition) (int64, bool) {
	l := p.log.Load()
	if l == nil {
		return p.given.RecoveryPoint, p.given.RecoveryPoint < math.MaxInt64
	}
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.RecoveryPoint, true
}

// logStart lists, as Kafka does, only logs that start above the base offset of their
// first segment. The state has the start that truncation is about to set.
func logStart(p *partition) (int64, bool) {
	l := p.log.Load()
	if l == nil {
		return p.given.LogStartOffset, p.given.LogStartOffset > 0
	}
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.LogStartOffset, l.state.LogStartOffset > l.set.Load().first().Base()
}

func highWatermark(p *partition) (int64, bool) {
	l := p.log.Load()
	if l == nil {
		return p.highWatermark, p.highWatermark >= 0
	}
	return l.HighWatermark(), true
}

// write puts the checkpoint on disk, unless it says that already. Lines stay in the
// order of the file; new ones follow by topic and number.
func (d *Dir) write(f *offsetsFile, of values) error {
	d.checkpoints.Lock()
	defer d.checkpoints.Unlock()
	return d.writeLocked(f, of)
}

func (d *Dir) writeLocked(f *offsetsFile, of values) error {
	all := d.all()
	want := make(map[topicPartition]int64, len(all))
	for _, p := range all {
		if offset, listed := of(p); listed {
			want[p.topicPartition] = offset
		}
	}
	lines := make([]checkpoint.OffsetEntry, 0, len(want))
	add := func(tp topicPartition) {
		if offset, ok := want[tp]; ok {
			lines = append(lines, checkpoint.OffsetEntry{Topic: tp.topic, Partition: tp.partition, Offset: offset})
			delete(want, tp)
		}
	}
	for _, e := range f.lines {
		add(topicPartition{e.Topic, e.Partition})
	}
	for _, p := range all {
		add(p.topicPartition)
	}
	if f.known && slices.Equal(lines, f.lines) {
		return nil
	}
	// If this fails the file is the old or the new one: it is written again, and
	// what either says of a partition is on disk.
	if err := checkpoint.WriteOffsets(d.opts.FS, d.file(f.name), lines); err != nil {
		f.set(append(slices.Clone(f.lines), lines...), false)
		return named(err)
	}
	f.set(lines, true)
	return nil
}

// cleanedTo is up to where a log was compacted. A log that never was has no line; one
// that begins anew keeps its line, as in Kafka. The lock is held.
func (c *checkpoints) cleanedTo(p *partition) (int64, bool) {
	offset, listed := c.cleaned.find(p.topicPartition)
	if l := p.log.Load(); l != nil {
		offset = l.stateNow().FirstDirty
	}
	return offset, listed || offset > 0
}

// firstDirty is what the cleaner checkpoint says of a log; 0 if it says nothing.
func (c *checkpoints) firstDirty(p *partition) int64 {
	c.Lock()
	defer c.Unlock()
	offset, _ := c.cleaned.find(p.topicPartition)
	return offset
}

// writeCheckpoints writes all that have changed.
func (d *Dir) writeCheckpoints() error {
	c := &d.checkpoints
	return errors.Join(
		d.write(&c.recovery, recoveryPoint),
		d.write(&c.start, logStart),
		d.write(&c.high, highWatermark),
		d.writeCleaned(),
	)
}

func (d *Dir) writeCleaned() error { return d.write(&d.checkpoints.cleaned, d.checkpoints.cleanedTo) }

// tellCleaned has the checkpoint on disk follow a log that was compacted, as Kafka does
// after each round (LogCleanerManager.doneCleaning). That it cannot costs a log nothing
// but to be cleaned again: what is on disk is lower.
func (l *Log) tellCleaned() {
	if l.owner != nil {
		d := l.owner.dir
		_ = d.told("cleaner checkpoint", d.writeCleaned())
	}
}

// forget drops every line of a partition that is not here, durably.
func (d *Dir) forget(tp topicPartition) error {
	c := &d.checkpoints
	c.Lock()
	defer c.Unlock()
	absent := func(of values) values {
		return func(p *partition) (int64, bool) {
			if p.topicPartition == tp {
				return 0, false // it is being created
			}
			return of(p)
		}
	}
	var errs []error
	for _, w := range []struct {
		file *offsetsFile
		of   values
	}{{&c.recovery, recoveryPoint}, {&c.start, logStart}, {&c.high, highWatermark}, {&c.cleaned, c.cleanedTo}} {
		if _, listed := w.file.find(tp); listed || !w.file.known {
			errs = append(errs, d.writeLocked(w.file, absent(w.of)))
		}
	}
	return errors.Join(errs...)
}

// lowerCheckpoints sees to it that no checkpoint on disk says more than offset of the
// recovery point, the start and the clean part of a log that is about to be truncated,
// whose state says so already.
func (p *partition) lowerCheckpoints(offset int64) error {
	c := &p.dir.checkpoints
	c.Lock()
	defer c.Unlock()
	var errs []error
	if at, listed := c.recovery.find(p.topicPartition); !c.recovery.known || listed && at > offset {
		errs = append(errs, p.dir.writeLocked(&c.recovery, recoveryPoint))
	}
	if at, listed := c.start.find(p.topicPartition); !c.start.known || listed && at > offset {
		errs = append(errs, p.dir.writeLocked(&c.start, logStart))
	}
	if at, listed := c.cleaned.find(p.topicPartition); !c.cleaned.known || listed && at > offset {
		errs = append(errs, p.dir.writeLocked(&c.cleaned, c.cleanedTo))
	}
	return errors.Join(errs...)
}
