//go:build !windows

package cli

import "syscall"

// brokenPipe is a pipe that nobody reads from.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }
