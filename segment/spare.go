package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/timeindex"
)

// Spare is the files of a segment that was made ahead of time, when its base
// offset was not known yet: a roll then only gives them their names.
type Spare struct {
	dir  string
	opts Options
	log  vfs.File
}

// spareNames are the files of a spare and what each becomes.
var spareNames = [...]struct {
	name string
	kind layout.Kind
}{
	{layout.SpareTimeIndexName, layout.TimeIndex},
	{layout.SpareOffsetIndexName, layout.OffsetIndex},
	{layout.SpareLogName, layout.Log}, // last: an index without a log is nothing
}

// Prepare makes the files of a spare segment in dir. A directory has one at a
// time; files of an earlier one are emptied.
func Prepare(dir string, opts Options) (*Spare, error) {
	p := &Spare{dir: dir, opts: opts}
	for _, n := range spareNames {
		f, err := opts.FS.OpenFile(filepath.Join(dir, n.name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare segment: %w", err), p.Discard())
		}
		if n.kind == layout.Log {
			p.log = f
		} else if err := f.Close(); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare segment: %w", err), p.Discard())
		}
	}
	return p, nil
}

// Adopt turns the spare into an empty, writable segment of the given base
// offset. The spare is used up, also when it fails; then no file of that base
// offset is left, but for a log that was there before, which is an *ExistsError.
func (p *Spare) Adopt(base int64) (*Segment, error) {
	s := Open(p.dir, base, p.opts)
	// A rename would replace it.
	if _, err := p.opts.FS.Stat(s.LogPath()); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &ExistsError{Path: s.LogPath()}
		}
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), p.Discard())
	}
	if err := p.rename(s); err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), p.Discard(), s.removeFiles())
	}
	var err error
	if s.open.index, err = index.Open(s.indexPath(), base, s.indexOptions()); err == nil {
		s.open.time, err = timeindex.Open(s.timeIndexPath(), base, s.timeIndexOptions())
	}
	if err == nil {
		err = s.openTxnIndex(true)
	}
	s.open.log, p.log = p.log, nil
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), s.closeFilesLocked(), s.removeFiles())
	}
	s.startEmpty()
	return s, nil
}

func (p *Spare) rename(s *Segment) error {
	if err := s.opts.FS.Remove(s.txnIndexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, n := range spareNames {
		to := filepath.Join(p.dir, layout.SegmentFileName(n.kind, s.base, layout.Live))
		if err := p.opts.FS.Rename(filepath.Join(p.dir, n.name), to); err != nil {
			return err
		}
	}
	return nil
}

// Discard closes and removes the files of an unused spare.
func (p *Spare) Discard() error {
	var errs []error
	if p.log != nil {
		errs = append(errs, p.log.Close())
		p.log = nil
	}
	for _, n := range spareNames {
		errs = append(errs, removeIfThere(p.opts.FS, filepath.Join(p.dir, n.name)))
	}
	return errors.Join(errs...)
}

// removeFiles removes what there is of a segment that has not come to be. What stays
// would hide the records of the segment before it: then the error matches
// ErrAppendNotUndone.
func (s *Segment) removeFiles() error {
	var errs []error
	for _, path := range s.Paths() {
		errs = append(errs, removeIfThere(s.opts.FS, path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrAppendNotUndone, err)
	}
	return nil
}

func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
