//go:build !linux

package interop

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
