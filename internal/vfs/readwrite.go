package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// ReadFull reads len(b) bytes at off into b, which the caller owns, and calls
// ReadAt as often as that takes. Like io.ReadFull it returns io.EOF if it read
// nothing and io.ErrUnexpectedEOF if the file ended in the middle.
func ReadFull(f io.ReaderAt, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		m, err := f.ReadAt(b[n:], off+int64(n))
		n += m
		switch {
		case n >= len(b):
		case err == io.EOF && n > 0:
			return n, io.ErrUnexpectedEOF
		case err != nil:
			return n, err
		case m == 0:
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// WriteFull writes all of b at off and calls WriteAt as often as that takes. On
// an error it returns how many bytes are known to be written; more may be.
func WriteFull(f io.WriterAt, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		m, err := f.WriteAt(b[n:], off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// ReadFile returns the content of name, in memory the caller owns. A file
// larger than limit is refused with ErrTooLarge, whatever part of it is a hole,
// so it never allocates more than limit. A file that shrinks meanwhile is
// returned as short as it became.
func ReadFile(fsys FS, name string, limit int64) (_ []byte, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("read %s: %w: %d bytes, at most %d accepted", name, ErrTooLarge, info.Size(), limit)
	}
	data := make([]byte, info.Size())
	n, err := ReadFull(f, data, 0)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return data[:n], err
}

// WriteFileAtomic makes data the durable content of name. It writes name.tmp,
// syncs it, renames it and syncs the directory, so that at every moment, power
// loss included, name is whole: the old content or the new. On failure name.tmp
// is removed; name is then the old file, unless only the last step failed, when
// it is the new one and may turn old again at a power loss.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	return WriteCopiesAtomic(fsys, data, name)
}

// WriteCopiesAtomic is WriteFileAtomic for several files of one directory that hold
// the same. Each is whole at every moment. They are the same when it succeeds;
// otherwise, and after a crash meanwhile, some may be old and some new.
func WriteCopiesAtomic(fsys FS, data []byte, names ...string) error {
	if err := writeTemporary(fsys, names, data); err != nil {
		return errors.Join(err, removeTemporary(fsys, names))
	}
	for i, name := range names {
		if err := fsys.Rename(name+".tmp", name); err != nil {
			return errors.Join(err, removeTemporary(fsys, names[i:]))
		}
	}
	return fsys.SyncDir(filepath.Dir(names[0]))
}

func removeTemporary(fsys FS, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, removeIfExists(fsys, name+".tmp"))
	}
	return errors.Join(errs...)
}

// writeTemporary writes data to the temporary file of each name and syncs them at the same
// time, which takes a disk not much longer than one of them.
func writeTemporary(fsys FS, names []string, data []byte) (err error) {
	files := make([]File, 0, len(names))
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, name := range names {
		f, err := fsys.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		files = append(files, f)
		if _, err := WriteFull(f, data, 0); err != nil {
			return err
		}
	}
	return syncAll(files)
}

func syncAll(files []File) error {
	errs := make([]error, len(files))
	var others sync.WaitGroup
	for i, f := range files[1:] {
		others.Go(func() { errs[1+i] = f.Sync() })
	}
	errs[0] = files[0].Sync()
	others.Wait()
	return errors.Join(errs...)
}

func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
