//go:build unix

package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Opening a pipe waits for someone at its other end.
func TestAPipeIsNotOpened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "00000000000000000000.timeindex")
	require.NoError(t, unix.Mkfifo(name, 0o644))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(name, link))
	for _, path := range []string{name, link} {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
			_, err := OS.OpenFile(path, flag, 0o644)
			require.ErrorIs(t, err, ErrNotRegular)
			require.ErrorContains(t, err, path)
		}
	}
	_, err := OS.Lock(name, Exclusive)
	require.ErrorIs(t, err, ErrNotRegular)
	_, err = LockHeld(OS, name)
	require.ErrorIs(t, err, ErrNotRegular)
}
