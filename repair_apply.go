package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// unknownOffset is the recovery point of a log of which it is not known.
const unknownOffset = math.MaxInt64

// apply makes the repairs. The order matters: whenever it is interrupted, the log
// can be opened, and repaired again to the same result.
func (r *repair) apply() error {
	if err := errors.Join(r.smallFiles(), r.secure()); err != nil {
		return err
	}
	if err := r.dropOrphans(); err != nil {
		return err
	}
	for i, out := range r.segments {
		var err error
		base := r.dir.bases[i]
		switch {
		case len(out.ranges) > 0:
			err = r.rewrite(i)
		case out.reindexed:
			_, err = segment.Open(r.log.dir, base, r.log.rescueOptions(r.sizes[i])).Reindex(segment.ReindexOptions{})
		}
		if err == nil && out.retried && len(out.ranges) == 0 {
			err = r.log.writeAborted(base, out.aborted)
		}
		if err != nil {
			return err
		}
	}
	return r.log.settled(r.report.End)
}

// secure makes durable what is there, and says so in the state. Gaps behind the
// recovery point are how Open sees what a power loss took: those that come now
// must not be taken for such.
func (r *repair) secure() error {
	l := r.log
	for i := range r.dir.bases {
		if err := r.syncLog(i); err != nil {
			return err
		}
	}
	last := r.segments[len(r.segments)-1]
	if r.report.End > last.next {
		// Offsets that were in use are nowhere on disk but in a name.
		s, err := segment.Create(l.dir, r.report.End, l.rescueOptions(0))
		if err != nil {
			return err
		}
		if err := errors.Join(s.Retire(), l.opts.FS.SyncDir(l.dir)); err != nil {
			return err
		}
	}
	return l.changeState(func(st *checkpoint.State) {
		st.RecoveryPoint, st.Clean = r.report.End, nil
		if !l.ours || r.report.End > last.next || len(r.report.Removed)+len(r.report.Gaps) > 0 {
			st.KnownGaps = r.report.End
		}
	})
}

// dropOrphans removes what is left of lost segments, after the state has said that their
// offsets are missing.
func (r *repair) dropOrphans() error {
	return r.log.removeFiles(r.dir.orphans, func(f layout.File) bool {
		return slices.ContainsFunc(r.report.Gaps, func(gap OffsetRange) bool { return f.Base >= gap.First && f.Base < gap.Next })
	})
}

// syncLog makes the log of segment i durable. What lies above the recovery point is
// written again first, for the reason of segment.RecoverOptions.Rewrite.
func (r *repair) syncLog(i int) error {
	f, err := r.log.opts.FS.OpenFile(r.path(i), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if l := r.log; l.ours && r.baseAt(i+1) > l.state.RecoveryPoint {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			err = segment.WriteAgain(f, 0, info.Size())
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rewrite replaces segment i by one without its bad ranges, after keeping these.
func (r *repair) rewrite(i int) error {
	l, base, out := r.log, r.dir.bases[i], r.segments[i]
	if err := r.keep(i); err != nil {
		return err
	}
	w := &segmentWriter{log: l, aborted: out.aborted}
	add := w.add
	var err error
	if r.shadowed(i) { // it begins with what is not in the segment before, if anything
		add = func(b record.Batch, first int64) error {
			if w.out == nil {
				if err := w.begin(first, r.sizes[i]); err != nil {
					return err
				}
			}
			return w.add(b, first)
		}
	} else {
		err = w.begin(base, r.sizes[i])
	}
	if err == nil {
		left := out.ranges
		_, err = r.sift(i, add, func(d DamagedRange) error {
			if len(left) == 0 || d.Position != left[0].Position || d.Length != left[0].Length {
				return fmt.Errorf("%s: position %d: %w", d.File, d.Position, errChanged)
			}
			left = left[1:]
			return nil
		})
	}
	if err == nil {
		err = w.end()
	}
	if err != nil {
		w.discard()
		return err
	}
	return l.replace(w.bases, segment.Open(l.dir, base, l.segmentOptions()).Remove)
}

// keep writes the bytes that are to go to files beside the log. Their names are
// durable with those of the new segment, before it counts.
func (r *repair) keep(i int) error {
	log, err := r.open(i)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, d := range r.segments[i].ranges {
		if d.SavedAs == "" {
			continue
		}
		if err := r.save(io.NewSectionReader(log, d.Position, d.Length), d); err != nil {
			return fmt.Errorf("keep %s: %w", d.SavedAs, err)
		}
	}
	return nil
}

// save writes one range. A file of that name has the same bytes, or a part of
// them that a crash left.
func (r *repair) save(from io.Reader, d DamagedRange) error {
	path := filepath.Join(r.log.dir, d.SavedAs)
	f, err := r.log.opts.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(f, 0), from)
	if err == nil {
		err = f.Sync()
	}
	var sum string
	if err == nil {
		sum, err = hashOf(f, 0, d.Length)
	}
	if err == nil && sum != d.SHA256 {
		err = errChanged
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = r.log.opts.FS.Remove(path) // the log still has the bytes
	}
	return err
}

// smallFiles puts aside or makes anew what is beside the segments.
func (r *repair) smallFiles() error {
	fsys, dir := r.log.opts.FS, r.log.dir
	for _, name := range r.aside {
		free, err := r.log.freeName(name)
		if err != nil {
			return err
		}
		if err := fsys.Rename(filepath.Join(dir, name), filepath.Join(dir, free)); err != nil {
			return err
		}
	}
	if r.noEpochs {
		path := filepath.Join(dir, layout.LeaderEpochCheckpointName)
		if err := vfs.WriteFileAtomic(fsys, path, leaderepoch.Append(nil, r.epochs.Entries())); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// settled notes that all there is was checked and is durable, up to the given
// end: the next Open need not look again.
func (l *Log) settled(end int64) error {
	found, err := l.survey()
	if err != nil {
		return err
	}
	last := found.bases[len(found.bases)-1]
	info, err := l.opts.FS.Stat(filepath.Join(l.dir, layout.LogName(last)))
	if err != nil {
		return err
	}
	return l.changeState(func(st *checkpoint.State) {
		st.RecoveryPoint, st.DurableEnd = end, end
		st.Clean = &checkpoint.CleanMark{EndOffset: end, Segment: last, Size: info.Size()}
	})
}
