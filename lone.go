package seglog

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// lowerLines sees to it that the checkpoints of the log directory that a log lies in,
// which was opened alone, say no more than offset of its recovery point, its start and its
// clean part. It comes before a truncation, as with a Dir: a broker that gets the
// directory next takes what was appended instead for durable and for clean otherwise, and
// drops tombstones before what they delete. Lines that say less stay, and none is added:
// that costs a broker time only.
func (l *Log) lowerLines(offset int64) error {
	root := filepath.Dir(l.dir)
	dir, err := layout.ParseDir(filepath.Base(l.dir))
	if err != nil || !isLogDirectory(l.opts.FS, root) {
		return nil
	}
	for _, name := range []string{layout.RecoveryPointName, layout.LogStartName, layout.CleanerOffsetName} {
		path := filepath.Join(root, name)
		_, above, err := l.linesAbove(path, dir, offset)
		if err == nil && above {
			err = l.lowerLine(path, dir, offset)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linesAbove reads a checkpoint with the lines of a partition lowered to offset, and
// reports whether there were any to lower. Of a damaged file the good lines count.
func (l *Log) linesAbove(path string, dir layout.Dir, offset int64) (lines []checkpoint.OffsetEntry, above bool, err error) {
	lines, _, err = checkpoint.ReadOffsets(l.opts.FS, path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, checkpoint.ErrCorrupt) {
		err = nil
	}
	for i := range lines {
		if e := &lines[i]; e.Topic == dir.Topic && e.Partition == dir.Partition && e.Offset > offset {
			e.Offset, above = offset, true
		}
	}
	return lines, above, err
}

// lowerLine writes a checkpoint anew. Broker and Dir are kept out by the lock of the log
// directory, but other logs, which were opened alone, too, share that.
func (l *Log) lowerLine(path string, dir layout.Dir, offset int64) error {
	lock, err := l.lockCheckpoints(filepath.Dir(path))
	if err != nil {
		return err
	}
	lines, above, err := l.linesAbove(path, dir, offset)
	if err == nil && above {
		err = checkpoint.WriteOffsets(l.opts.FS, path, lines)
	}
	return errors.Join(err, lock.Close())
}

// lockCheckpoints waits for those who have the lock, which is as long as it takes to
// write a small file.
func (l *Log) lockCheckpoints(root string) (io.Closer, error) {
	for left := 5 * time.Second; ; left -= time.Millisecond {
		lock, err := l.opts.FS.Lock(filepath.Join(root, layout.CheckpointLockName), vfs.Exclusive)
		if !errors.Is(err, ErrLocked) || left <= 0 {
			return lock, err
		}
		time.Sleep(time.Millisecond)
	}
}
