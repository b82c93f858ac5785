//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFile looks first what it opens: a pipe without a writer would not let go of the
// caller, and no signal would end him, and a device may do anything.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	const special = fs.ModeNamedPipe | fs.ModeSocket | fs.ModeDevice | fs.ModeIrregular
	if fi, err := os.Stat(name); err == nil && fi.Mode()&special != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return os.OpenFile(name, flag, perm)
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func freeSpace(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &stat) }); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

// refusedWhileMapped is never true: unix lets a mapped file change its length.
func refusedWhileMapped(error) bool { return false }

// outOfMappings reports the error of a process that has used up its mappings.
func outOfMappings(err error) bool { return errors.Is(err, unix.ENOMEM) }

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
