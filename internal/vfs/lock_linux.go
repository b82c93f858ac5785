package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile takes an open file description lock. It belongs to f, so a second
// open in this process meets it too, and closing some other descriptor of the
// file does not drop it; both are faults of the older fcntl locks. The two
// kinds do conflict with each other, and the older one is what a JVM takes.
func lockFile(f *os.File, mode LockMode) error {
	lock := wholeFile(mode)
	err := fcntl(f, unix.F_OFD_SETLK, &lock)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return &LockError{Name: f.Name(), PID: lockHolder(f, mode)}
	}
	return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func unlockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	if err := fcntl(f, unix.F_OFD_SETLK, &lock); err != nil {
		return &fs.PathError{Op: "unlock", Path: f.Name(), Err: err}
	}
	return nil
}

func wholeFile(mode LockMode) unix.Flock_t {
	kind := int16(unix.F_WRLCK)
	if mode == Shared {
		kind = unix.F_RDLCK
	}
	return unix.Flock_t{Type: kind, Whence: io.SeekStart} // length 0: to the end, wherever that will be
}

func fcntl(f *os.File, command int, lock *unix.Flock_t) error {
	return control(f, func(fd uintptr) error {
		return retry(func() error { return unix.FcntlFlock(fd, command, lock) })
	})
}

// lockHolder returns the process whose lock stands in the way, or 0. The kernel
// names the owner of an fcntl lock only; a description lock has no one owner,
// so for those it looks for a process that has one on the same file.
func lockHolder(f *os.File, mode LockMode) int {
	lock := wholeFile(mode)
	if err := fcntl(f, unix.F_OFD_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	if lock.Pid > 0 {
		return int(lock.Pid)
	}
	self := filepath.Join("/proc/self/fd", strconv.FormatUint(uint64(f.Fd()), 10))
	path, err := os.Readlink(self)
	if err != nil {
		return 0
	}
	// Comparing link texts, unlike stat, cannot hang on someone's dead mount.
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well formed
	for _, descriptor := range descriptors {
		if link, err := os.Readlink(descriptor); err != nil || link != path {
			continue
		}
		process := filepath.Dir(filepath.Dir(descriptor))
		info, err := os.ReadFile(filepath.Join(process, "fdinfo", filepath.Base(descriptor)))
		if err != nil || !strings.Contains(string(info), "OFDLCK") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			return pid
		}
	}
	return 0
}
