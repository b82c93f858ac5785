//go:build !windows

package cli

import (
	"errors"
	"syscall"
)

// closedPipe reports whether a write failed because nobody reads any more.
func closedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
