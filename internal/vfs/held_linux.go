package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func lockHeld(f *os.File) (bool, error) {
	lock := wholeFile(Shared)
	if err := fcntl(f, unix.F_OFD_GETLK, &lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}
