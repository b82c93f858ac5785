//go:build !linux

package vfs

import (
	"errors"
	"os"
)

func lockHeld(f *os.File) (bool, error) {
	err := lockFile(f, Shared) // closing f releases it
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, err
}
