package vfs

import (
	"io"
	"io/fs"
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

func TestLockNamedTellsWhetherTheNameStillLeadsToTheLockedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	requireNamed := func(want bool) {
		t.Helper()
		named, err := LockNamed(lock)
		require.NoError(t, err)
		require.Equal(t, want, named)
	}
	requireNamed(true)
	if os.Rename(name, name+".moved") == nil { // not everywhere, while it is open
		requireNamed(false)
		require.NoError(t, os.WriteFile(name, nil, 0o644))
		requireNamed(false)
	}
	require.NoError(t, lock.Close())

	named, err := LockNamed(struct{ io.Closer }{lock})
	require.NoError(t, err)
	require.True(t, named, "one that cannot tell")
}

func TestAbsLeavesTheNamesOfAFileSystemWithoutAWorkingDirectoryAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	wd, err := os.Getwd()
	require.NoError(t, err)
	for _, tt := range []struct {
		situation string
		fs        FS
		name      string
		want      string
	}{
		{"the system's", OS, "log", filepath.Join(wd, "log")},
		{"the system's, by default", nil, "log", filepath.Join(wd, "log")},
		{"absolute already", OS, filepath.Join(wd, "log"), filepath.Join(wd, "log")},
		{"no name", OS, "", ""},
		{"another", struct{ FS }{OS}, "log", "log"},
	} {
		got, err := Abs(tt.fs, tt.name)
		require.NoError(t, err, tt.situation)
		require.Equal(t, tt.want, got, tt.situation)
	}
}

func TestSameFileTellsFilesApart(t *testing.T) {
	dir := t.TempDir()
	one, err := OS.Stat(dir)
	require.NoError(t, err)
	again, err := OS.Stat(dir)
	require.NoError(t, err)
	other, err := OS.Stat(filepath.Dir(dir))
	require.NoError(t, err)
	require.True(t, SameFile(one, again))
	require.False(t, SameFile(one, other))
	require.True(t, SameFile(struct{ fs.FileInfo }{one}, other), "one that cannot tell")
}
