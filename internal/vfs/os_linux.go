package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile leaves out what fsync adds to fdatasync: times, which no reader of
// ours depends on.
func syncFile(f *os.File) error {
	err := control(f, func(fd uintptr) error {
		return retry(func() error { return unix.Fdatasync(int(fd)) })
	})
	if err != nil {
		return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

// allocate goes to the kernel and not through the C library, whose emulation
// writes into blocks that other threads may be writing to.
func allocate(f *os.File, _, size int64) error {
	if size == 0 {
		return nil // refused by the kernel
	}
	return control(f, func(fd uintptr) error {
		return retry(func() error { return unix.Fallocate(int(fd), 0, 0, size) })
	})
}
