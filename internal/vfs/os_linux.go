package vfs

import (
	"errors"
	"io/fs"
	"os"
	"slices"

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

// overwriting are the file systems in which a byte is written again where it is, so that
// a page whose blocks were allocated never needs new ones. Others copy on write, or say
// not what is beneath them.
var overwriting = []uint32{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// allocateMapped allocates [from, to) of a file that is to be written through memory.
func allocateMapped(f *os.File, from, to int64) error {
	return control(f, func(fd uintptr) error {
		var stat unix.Statfs_t
		if err := retry(func() error { return unix.Fstatfs(int(fd), &stat) }); err != nil {
			return err
		}
		if !slices.Contains(overwriting, uint32(stat.Type)) {
			return errors.ErrUnsupported
		}
		return retry(func() error { return unix.Fallocate(int(fd), 0, from, to-from) })
	})
}

// smallPages keeps the kernel from taking huge pages for a mapping: a sync of a few
// bytes would write all of one. It is advice, and not needed.
func smallPages(memory []byte) { _ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) }
