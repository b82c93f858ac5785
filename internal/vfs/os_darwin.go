package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile is F_FULLFSYNC: package os knows that fsync stops at the drive's
// cache on this system.
func syncFile(f *os.File) error { return f.Sync() }

// allocate takes the blocks first and sets the length then, because
// F_PREALLOCATE works beyond the end of the file and does not move it.
func allocate(f *os.File, old, size int64) error {
	if size <= old {
		return nil
	}
	err := control(f, func(fd uintptr) error {
		return retry(func() error {
			return unix.FcntlFstore(fd, unix.F_PREALLOCATE, &unix.Fstore_t{
				Flags:   unix.F_ALLOCATEALL,
				Posmode: unix.F_PEOFPOSMODE,
				Length:  size - old,
			})
		})
	})
	if err != nil {
		return err
	}
	return f.Truncate(size)
}
