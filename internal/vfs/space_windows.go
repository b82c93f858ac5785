package vfs

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// The last two are what file systems for tests return.
var noSpace = [...]error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED, syscall.ENOSPC, syscall.EDQUOT}
