package cli

import (
	"errors"

	"golang.org/x/sys/windows"
)

// closedPipe reports whether a write failed because nobody reads any more.
func closedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
