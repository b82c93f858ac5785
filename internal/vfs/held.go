package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// LockHeld reports whether the lock of the file name is held in a way that keeps
// a shared one from being taken, which is how a writer holds it. It creates no
// file, and a missing one is not locked. On Linux it only asks the kernel; where
// there is no such question it takes a shared lock and releases it at once. The
// answer may be out of date when it is returned.
//
// A file system that cannot tell, because it is not the operating system's and
// has no method of that name, says false.
func LockHeld(fsys FS, name string) (bool, error) {
	if f, ok := fsys.(interface {
		LockHeld(name string) (bool, error)
	}); ok {
		return f.LockHeld(name)
	}
	return false, nil
}

func (osFS) LockHeld(name string) (held bool, err error) {
	f, err := openFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return lockHeld(f)
}

// LockNamed reports whether a lock, as FS.Lock returned it, is still that of the file of
// its name. If not, the directory was moved or the file removed, and the name may by now
// lead to files that someone else has locked. A lock that cannot tell, because it has no
// method Named, is taken to be.
func LockNamed(lock io.Closer) (bool, error) {
	if l, ok := lock.(interface{ Named() (bool, error) }); ok {
		return l.Named()
	}
	return true, nil
}

func (l heldLock) Named() (bool, error) {
	locked, err := l.Stat()
	if err != nil {
		return false, err
	}
	found, err := os.Stat(l.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(locked, found), err
}

// SameFile reports whether two answers of Stat are about one file or directory. What a
// file system that cannot tell says, as those in memory, is taken to be.
func SameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) || !os.SameFile(a, a) }
