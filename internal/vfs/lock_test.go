package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockEnv makes the test binary a process that locks a file, says so, and holds
// the lock until its input ends.
const lockEnv = "VFS_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockEnv); name != "" {
		os.Exit(holdLock(name))
	}
	os.Exit(m.Run())
}

func holdLock(name string) int {
	lock, err := OS.Lock(name, Exclusive)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := lock.Close(); err != nil {
		return 1
	}
	return 0
}

// startHolder starts such a process and returns the first line it prints.
func startHolder(t *testing.T, name string) (*exec.Cmd, io.Closer, string) {
	t.Helper()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), lockEnv+"="+name)
	input, err := holder.StdinPipe()
	require.NoError(t, err)
	output, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	t.Cleanup(func() { _, _ = holder.Process.Kill(), holder.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return holder, input, line
}

func requireLocked(t *testing.T, name string, mode LockMode, pid int) {
	t.Helper()
	_, err := OS.Lock(name, mode)
	require.ErrorIs(t, err, ErrLocked)
	var lockError *LockError
	require.ErrorAs(t, err, &lockError)
	require.Equal(t, name, lockError.Name)
	if runtime.GOOS == "linux" {
		require.Equal(t, pid, lockError.PID)
		require.EqualError(t, lockError, fmt.Sprintf("%s: locked by process %d", name, pid))
	}
}

func TestLockExcludesASecondOwnerInTheSameProcess_K112(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	requireLocked(t, name, Exclusive, os.Getpid())
	requireLocked(t, name, Shared, os.Getpid())

	require.NoError(t, lock.Close())
	info, err := OS.Stat(name)
	require.NoError(t, err, "the file stays")
	require.Zero(t, info.Size())
	lock, err = OS.Lock(name, Exclusive)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestSharedLocksExcludeOnlyExclusiveOnes(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	var locks []io.Closer
	for range 3 {
		lock, err := OS.Lock(name, Shared)
		require.NoError(t, err)
		locks = append(locks, lock)
	}
	requireLocked(t, name, Exclusive, os.Getpid())
	for _, lock := range locks {
		require.NoError(t, lock.Close())
	}
	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestSharedLockNeedsNoWritableFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	require.NoError(t, os.WriteFile(name, nil, 0o444))
	lock, err := OS.Lock(name, Shared)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestLockExcludesOtherProcessesUntilTheyEnd_K112(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(holder *exec.Cmd, input io.Closer) error
	}{
		{"orderly", func(_ *exec.Cmd, input io.Closer) error { return input.Close() }},
		{"killed", func(holder *exec.Cmd, _ io.Closer) error { return holder.Process.Kill() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), ".lock")
			holder, input, line := startHolder(t, name)
			require.Equal(t, "locked\n", line)
			requireLocked(t, name, Exclusive, holder.Process.Pid)
			requireLocked(t, name, Shared, holder.Process.Pid)

			require.NoError(t, row.end(holder, input))
			var exit *exec.ExitError
			if err := holder.Wait(); err != nil && !errors.As(err, &exit) {
				require.NoError(t, err)
			}
			lock, err := OS.Lock(name, Exclusive)
			require.NoError(t, err)

			_, _, line = startHolder(t, name)
			require.Contains(t, line, "locked by")
			require.NoError(t, lock.Close())
		})
	}
}

func TestLockNoticesThatItsFileWasRemoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	old, err := os.Create(name)
	require.NoError(t, err)
	defer old.Close()
	require.True(t, sameFile(old, name))
	require.NoError(t, os.Remove(name))
	require.False(t, sameFile(old, name), "removed")
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	require.False(t, sameFile(old, name), "replaced")
}
