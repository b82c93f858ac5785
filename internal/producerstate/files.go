package producerstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// maxFile is the size of a snapshot of five million producers.
const maxFile = 256 << 20

// ReadFile is Parse of a file. A missing file is fs.ErrNotExist.
func ReadFile(fsys vfs.FS, path string) ([]Entry, error) {
	data, err := vfs.ReadFile(fsys, path, maxFile)
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, &CorruptError{File: path, Rule: fmt.Sprintf("more than %d bytes", maxFile)}
	}
	if err != nil {
		return nil, err
	}
	entries, err := Parse(data)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		corrupt.File = path
	}
	return entries, err
}

// WriteFile makes entries the content of the file path, by way of path.tmp, so
// that a failure leaves the old file intact. With sync the content is durable on
// return. Without, a power loss may leave a file that does not parse; that suits
// a roll, where the file is synced later, together with the segment.
//
// Kafka writes over an old file of that name without cutting it, and loses both
// if the old one was longer.
func WriteFile(fsys vfs.FS, path string, entries []Entry, sync bool) error {
	data := Append(make([]byte, 0, headerSize+len(entries)*entrySize), entries)
	if sync {
		return vfs.WriteFileAtomic(fsys, path, data)
	}
	temp := path + layout.TempSuffix
	err := writeTemp(fsys, temp, data, false)
	if err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		_ = fsys.Remove(temp) // what stays is known as a leftover by its name
	}
	return err
}

// writeTemp writes a file that nobody reads before it is renamed.
func writeTemp(fsys vfs.FS, path string, data []byte, sync bool) (err error) {
	file, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err = vfs.WriteFull(file, data, 0); err == nil && sync {
		err = file.Sync()
	}
	return err
}

// List returns the offsets of the snapshots in a log's directory, growing.
func List(fsys vfs.FS, dir string) ([]int64, error) {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, file := range files {
		name, ok := layout.ParseFile(file.Name())
		if ok && name.Kind == layout.Snapshot && name.State == layout.Live && file.Type().IsRegular() {
			offsets = append(offsets, name.Base) // names sort by offset
		}
	}
	return offsets, nil
}

// Stray returns the snapshots that a log has no use for when it is opened, given
// the offsets of all snapshots and the base offsets of the segments. Those taken
// at a base offset are kept, and of the others the latest, if it is not below the
// last segment: it was taken at the log end, by a clean close.
func Stray(snapshots, bases []int64) []int64 {
	var stray []int64
	for _, offset := range snapshots {
		if !slices.Contains(bases, offset) {
			stray = append(stray, offset)
		}
	}
	if len(stray) == 0 {
		return nil
	}
	slices.Sort(stray)
	if latest := len(stray) - 1; len(bases) == 0 || stray[latest] >= slices.Max(bases) {
		stray = stray[:latest]
	}
	return stray
}

// MarkDeleted renames the snapshot at offset to its .deleted name, to be removed
// later. It reports whether there was one. The owner syncs the directory.
func MarkDeleted(fsys vfs.FS, dir string, offset int64) (found bool, err error) {
	err = fsys.Rename(
		filepath.Join(dir, layout.SnapshotName(offset)),
		filepath.Join(dir, layout.SegmentFileName(layout.Snapshot, offset, layout.Deleted)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
