//go:build !linux

package vfs

import (
	"errors"
	"os"
)

// allocateMapped: fsync is not known to cover a mapping on the other systems, and on
// Windows a file cannot be cut while it is mapped.
func allocateMapped(*os.File, int64, int64) error { return errors.ErrUnsupported }

func smallPages([]byte) {}
