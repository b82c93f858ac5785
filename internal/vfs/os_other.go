//go:build !linux && !darwin

package vfs

import (
	"errors"
	"os"
)

func syncFile(f *os.File) error { return f.Sync() }

// allocate has no call of its own here; Preallocate writes zeros instead.
func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }
