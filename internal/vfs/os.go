package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// OS is the file system of the operating system. It has no state.
var OS osFS

type osFS struct{}

var _ FS = OS

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := openFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Rename(oldname, newname string) error         { return os.Rename(oldname, newname) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) SyncDir(name string) error                    { return syncDir(name) }

// SetModTime leaves the time of the last access as it is.
func (osFS) SetModTime(name string, t time.Time) error { return os.Chtimes(name, time.Time{}, t) }

func (osFS) FreeSpace(dir string) (int64, error) {
	free, err := freeSpace(dir)
	if err != nil {
		return 0, &fs.PathError{Op: "free space", Path: dir, Err: err}
	}
	return free, nil
}

// lockAttempts bounds how often Lock tries again because the file it has just
// locked was removed. Each time takes another process that removes it.
const lockAttempts = 16

func (osFS) Lock(name string, mode LockMode) (io.Closer, error) {
	for range lockAttempts {
		f, err := openLock(name, mode)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f, mode); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// A Kafka broker removes its lock file when it stops. If that happened
		// between our open and our lock, we hold a file no one else will find.
		if sameFile(f, name) {
			return heldLock{f}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, &LockError{Name: name}
}

// heldLock is a locked file. Closing it is not enough to let go of the lock: a child
// process that is being started by someone else has a copy of the descriptor for a
// moment, and the lock lives as long as the last one.
type heldLock struct{ *os.File }

func (l heldLock) Close() error { return errors.Join(unlockFile(l.File), l.File.Close()) }

// openLock opens for writing only where an exclusive lock demands it, so that a
// shared one works on a file that may only be read.
func openLock(name string, mode LockMode) (*os.File, error) {
	if mode == Exclusive {
		return openFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	}
	f, err := openFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return openFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	}
	return f, err
}

func sameFile(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

// osFile is an *os.File with our own idea of Sync and Truncate. Embedding
// brings ReadAt, WriteAt, Close, Name and Stat.
type osFile struct{ *os.File }

func (f *osFile) Sync() error { return syncFile(f.File) }

func (f *osFile) Truncate(size int64) error {
	err := f.File.Truncate(size)
	if refusedWhileMapped(err) {
		return &fs.PathError{Op: "truncate", Path: f.Name(), Err: errors.Join(ErrMapped, err)}
	}
	return err
}

func (f *osFile) Preallocate(size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "preallocate", Path: f.Name(), Err: fs.ErrInvalid}
	}
	old := info.Size()
	err = allocate(f.File, old, size)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fillZeros(f.File, old, size)
	}
	if err == nil {
		return nil
	}
	// A full disk can stop an allocation half way, with some blocks taken.
	return errors.Join(&fs.PathError{Op: "preallocate", Path: f.Name(), Err: err}, f.File.Truncate(old))
}

// control runs call with f's descriptor, which stays open meanwhile even if f
// is closed concurrently.
func control(f *os.File, call func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := conn.Control(func(fd uintptr) { result = call(fd) }); err != nil {
		return fs.ErrClosed // its only error, in other words
	}
	return result
}

// fillZeros writes zeros over [old, size). It never writes below old.
func fillZeros(f io.WriterAt, old, size int64) error {
	if old >= size {
		return nil
	}
	zeros := make([]byte, min(size-old, 256<<10))
	for old < size {
		n, err := WriteFull(f, zeros[:min(size-old, int64(len(zeros)))], old)
		old += int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}
