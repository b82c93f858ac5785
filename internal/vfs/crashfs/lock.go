package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/seglog/seglog/internal/vfs"
)

// Lock implements vfs.FS. The holder's process is not told.
func (f *FS) Lock(name string, mode vfs.LockMode) (io.Closer, error) {
	n, err := f.openLock(name, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.exclusive || mode == vfs.Exclusive && n.shared > 0 {
		f.releaseLocked(n)
		return nil, &vfs.LockError{Name: name}
	}
	if mode == vfs.Exclusive {
		n.exclusive = true
	} else {
		n.shared++
	}
	return &lock{fs: f, node: n, name: name, mode: mode}, nil
}

func (f *FS) openLock(name string, mode vfs.LockMode) (*node, error) {
	if mode == vfs.Shared {
		n, err := f.open(name, os.O_RDONLY, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return f.open(name, os.O_RDWR|os.O_CREATE, 0o644)
}

// LockHeld is what vfs.LockHeld calls.
func (f *FS) LockHeld(name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findLocked(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return n.exclusive, nil
}

type lock struct {
	fs     *FS
	node   *node
	name   string
	mode   vfs.LockMode
	closed bool // guarded by fs.mu
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.closed {
		return &fs.PathError{Op: "close", Path: l.name, Err: fs.ErrClosed}
	}
	l.closed = true
	if l.mode == vfs.Exclusive {
		l.node.exclusive = false
	} else {
		l.node.shared--
	}
	l.fs.releaseLocked(l.node)
	return nil
}
