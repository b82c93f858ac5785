//go:build unix && !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a flock. Like Linux's description locks it belongs to f, so a
// second open in this process meets it. The BSD kernels, macOS among them, keep
// flock and fcntl locks of a local file in one list, so a JVM's lock meets it as
// well. The holder's process is not known.
func lockFile(f *os.File, mode LockMode) error {
	operation := unix.LOCK_EX
	if mode == Shared {
		operation = unix.LOCK_SH
	}
	err := control(f, func(fd uintptr) error {
		return retry(func() error { return unix.Flock(int(fd), operation|unix.LOCK_NB) })
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return &LockError{Name: f.Name()}
	}
	return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func unlockFile(f *os.File) error {
	err := control(f, func(fd uintptr) error {
		return retry(func() error { return unix.Flock(int(fd), unix.LOCK_UN) })
	})
	if err != nil {
		return &fs.PathError{Op: "unlock", Path: f.Name(), Err: err}
	}
	return nil
}
