//go:build unix

package vfs

import "syscall"

var noSpace = [...]error{syscall.ENOSPC, syscall.EDQUOT}
