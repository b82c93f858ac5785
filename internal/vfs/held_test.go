package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockHeldTellsWhetherSomeoneWritesWithoutTouchingAnything(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	requireHeld := func(want bool) {
		t.Helper()
		held, err := LockHeld(OS, name)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}
	requireHeld(false)
	require.NoFileExists(t, name)

	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	requireHeld(true)
	require.NoError(t, os.Chmod(name, 0o444))
	requireHeld(true)
	require.NoError(t, lock.Close())
	requireHeld(false)

	lock, err = OS.Lock(name, Shared)
	require.NoError(t, err)
	requireHeld(false)
	require.NoError(t, lock.Close())
}

func TestLockHeldSeesTheLockOfAnotherProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	_, input, line := startHolder(t, name)
	require.Equal(t, "locked\n", line)
	held, err := LockHeld(OS, name)
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, input.Close())
}

func TestLockHeldIsFalseForAFileSystemThatCannotTell(t *testing.T) {
	held, err := LockHeld(struct{ FS }{OS}, filepath.Join(t.TempDir(), ".lock"))
	require.NoError(t, err)
	require.False(t, held)
}
