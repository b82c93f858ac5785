//go:build unix

package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A child that is being started has a copy of every descriptor until it begins its
// program. A lock that was given free must not be held by it.
func TestACopyOfItsDescriptorDoesNotHoldALockThatWasClosed(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	fd, err := unix.Dup(int(lock.(heldLock).Fd()))
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, lock.Close())
	lock, err = OS.Lock(name, Exclusive)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}
