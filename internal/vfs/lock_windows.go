package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks every byte the file could have, which is also what a JVM does.
// The holder's process is not known.
func lockFile(f *os.File, mode LockMode) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if mode == Exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := control(f, func(fd uintptr) error {
		return windows.LockFileEx(windows.Handle(fd), flags, 0, math.MaxUint32, math.MaxInt32, new(windows.Overlapped))
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return &LockError{Name: f.Name()}
	}
	return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func unlockFile(f *os.File) error {
	err := control(f, func(fd uintptr) error {
		return windows.UnlockFileEx(windows.Handle(fd), 0, math.MaxUint32, math.MaxInt32, new(windows.Overlapped))
	})
	if err != nil {
		return &fs.PathError{Op: "unlock", Path: f.Name(), Err: err}
	}
	return nil
}
