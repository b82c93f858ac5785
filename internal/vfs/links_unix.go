//go:build unix

package vfs

import (
	"io/fs"
	"syscall"
)

// Links returns how many names a file has; 1 where the system does not tell.
func Links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}
