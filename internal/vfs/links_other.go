//go:build !unix

package vfs

import "io/fs"

// Links returns how many names a file has; 1 where the system does not tell.
func Links(fs.FileInfo) uint64 { return 1 }
