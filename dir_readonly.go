package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
)

// startReadOnly reads what is there and changes nothing. A missing checkpoint says
// nothing.
func (d *Dir) startReadOnly() error {
	fi, err := d.opts.FS.Stat(d.path)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return &fs.PathError{Op: "open", Path: d.path, Err: errors.New("not a directory")}
	}
	if err := d.checkDirectory(); err != nil {
		return err
	}
	if err := d.identify(); err != nil {
		return err
	}
	if err := d.readCleanMarker(); err != nil {
		return err
	}
	if err := d.readCheckpoints(); err != nil {
		return err
	}
	return d.list()
}

// Refresh looks again what partitions there are, in a directory that was opened with
// DirOptions.ReadOnly, and refreshes the logs that are open; see Log.Refresh. The logs
// of partitions that are gone are closed. A log that cannot be refreshed stays as it
// was, and does not keep the others from it; the errors are joined.
func (d *Dir) Refresh() error {
	if !d.opts.ReadOnly {
		return fmt.Errorf("refresh: %w", &OptionError{Field: "ReadOnly", Value: "false", Want: "true"})
	}
	if err := d.begin(); err != nil {
		return fmt.Errorf("refresh: %w", err)
	}
	defer d.working.Done()
	gone, err := d.listAgain()
	errs := []error{err}
	for _, p := range gone {
		errs = append(errs, p.forget())
	}
	for _, p := range d.all() {
		p.setAside.Store(nil) // it may be whole by now
		l := p.log.Load()
		if l == nil || l.closed.Load() {
			continue
		}
		if err := l.Refresh(); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.topicPartition, named(err)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("refresh log directory %s: %w", d.path, err)
	}
	return nil
}

// listAgain replaces the list, and returns what is no longer in it. Partitions that
// are still there stay what they are.
func (d *Dir) listAgain() ([]*partition, error) {
	entries, err := d.opts.FS.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.mu.partitions
	d.mu.partitions, d.mu.others, d.mu.sorted = map[topicPartition]*partition{}, nil, nil
	for _, e := range entries {
		d.takeLocked(e)
	}
	var gone []*partition
	for tp, p := range before {
		if d.mu.partitions[tp] != nil {
			d.mu.partitions[tp] = p
		} else {
			gone = append(gone, p)
		}
	}
	return gone, nil
}

// forget closes the log of a partition that is not here any more.
func (p *partition) forget() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if l := p.log.Load(); l != nil {
		return l.close()
	}
	return nil
}

// checkpointState is what the checkpoints say of the partition: when the Dir was
// opened, which has them to itself, or at this moment.
func (p *partition) checkpointState() checkpoint.State {
	c := &p.dir.checkpoints
	if !p.dir.opts.ReadOnly {
		state := p.given
		// A log that its user has closed is opened again with what was cleaned since.
		state.FirstDirty = c.firstDirty(p)
		return state
	}
	c.Lock()
	defer c.Unlock()
	state := checkpoint.State{RecoveryPoint: unknownOffset}
	for _, f := range []*offsetsFile{&c.recovery, &c.start, &c.cleaned} {
		f.readAgain(p.dir)
	}
	if offset, ok := c.recovery.find(p.topicPartition); ok {
		state.RecoveryPoint = offset
	}
	state.LogStartOffset, _ = c.start.find(p.topicPartition)
	if state != (checkpoint.State{RecoveryPoint: unknownOffset}) {
		state.FirstDirty, _ = c.cleaned.find(p.topicPartition)
	}
	return state
}

// stamp is by what a file is known not to have been replaced.
type stamp struct {
	modified time.Time
	size     int64
}

// readAgain reads the checkpoint if it was replaced. One that cannot be read says
// nothing.
func (f *offsetsFile) readAgain(d *Dir) {
	path := d.file(f.name)
	var now stamp
	if fi, err := d.opts.FS.Stat(path); err == nil {
		now = stamp{fi.ModTime(), fi.Size()}
	}
	if now == f.read && !now.modified.IsZero() {
		return
	}
	lines, _, _ := checkpoint.ReadOffsets(d.opts.FS, path) // good lines of a bad file count
	f.set(lines, false)
	f.read = now
}
