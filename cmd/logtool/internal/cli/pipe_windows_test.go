package cli

import "golang.org/x/sys/windows"

// brokenPipe is a pipe that nobody reads from.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, windows.ERROR_NO_DATA }
