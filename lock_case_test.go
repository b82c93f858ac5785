package seglog_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
)

// namesHolder: not every system tells who holds a lock.
const namesHolder = runtime.GOOS == "linux"

// K112
func TestASecondWriterInTheSameProcessIsRefused(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(3, 1)...)
	before := traces(t, l.Dir())
	for range 2 {
		_, err := seglog.Open(l.Dir(), quick)
		require.ErrorIs(t, err, seglog.ErrLocked)
		require.ErrorContains(t, err, l.Dir())
	}
	requireUntouched(t, l.Dir(), before)

	ro := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
	require.Equal(t, span(0, 2), offsetsOf(readAll(t, ro, 0)))
	_, err := seglog.Open(l.Dir(), quick)
	require.ErrorIs(t, err, seglog.ErrLocked, "a reader takes no lock and gives none away")
	closeLog(t, ro)
	appendEach(t, l, one(9, "the first writer goes on"))

	l = reopen(t, l, quick)
	require.Len(t, readAll(t, l, 0), 4)
}

// K112: a refused or failed open keeps no lock.
func TestAFailedOpenGivesTheDirectoryFree(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "orders-0")
	writeLog(t, dir, 0, plainBatch(t, 0, 14))
	writeLog(t, dir, 10, plainBatch(t, 10, 19))
	writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 0\n"))
	_, err := seglog.Open(dir, quick)
	require.ErrorIs(t, err, seglog.ErrOverlap)
	require.NoError(t, os.Remove(segmentFile(dir, 10, ".log")))
	l := openLog(t, dir, quick)
	require.Equal(t, int64(15), l.Offsets().End)
}

// The child of the tests below: it opens the directory, says so, and waits.
func TestChildThatHoldsALog(t *testing.T) {
	dir := os.Getenv("SEGLOG_TEST_HOLD")
	if dir == "" {
		return
	}
	l, err := seglog.Open(dir, seglog.Options{})
	if err != nil {
		fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	if _, err := l.Append(many(3, 1), nil); err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("holding")
	bufio.NewReader(os.Stdin).ReadString('\n')
	if err := l.Close(); err != nil {
		fmt.Println("failed:", err)
	}
}

// holder starts a process that has the log open for writing, and returns it
// with the line it has said.
func holder(t *testing.T, dir string) (child *exec.Cmd, said string, release func()) {
	t.Helper()
	child = exec.Command(os.Args[0], "-test.run=^TestChildThatHoldsALog$", "-test.count=1")
	child.Env = append(os.Environ(), "SEGLOG_TEST_HOLD="+dir)
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		child.Process.Kill()
		child.Wait()
	})
	said, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return child, strings.TrimSpace(said), func() { fmt.Fprintln(in) }
}

// K112
func TestAWriterInAnotherProcessIsRespectedUntilItEnds(t *testing.T) {
	for _, how := range []string{"closed", "killed"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "orders-0")
			child, said, release := holder(t, dir)
			require.Equal(t, "holding", said)

			_, err := seglog.Open(dir, quick)
			require.ErrorIs(t, err, seglog.ErrLocked)
			if namesHolder {
				require.ErrorContains(t, err, fmt.Sprint(child.Process.Pid))
			}
			ro := openLog(t, dir, seglog.Options{ReadOnly: true})
			require.Equal(t, span(0, 2), offsetsOf(readAll(t, ro, 0)))
			closeLog(t, ro)

			if how == "killed" {
				require.NoError(t, child.Process.Kill())
			} else {
				release()
			}
			child.Wait()
			l := openLog(t, dir, quick)
			require.Equal(t, how == "closed", stats(t, l).Recovery.Clean)
			require.Equal(t, span(0, 2), offsetsOf(readAll(t, l, 0)))

			_, said, _ = holder(t, dir)
			require.Contains(t, said, "refused")
			if namesHolder {
				require.Contains(t, said, fmt.Sprint(os.Getpid()))
			}
		})
	}
}

// A directory in the log directory of a running broker is the broker's.
func TestALogOfARunningBrokerIsRefused(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "orders-0")
	writeLog(t, dir, 0, plainBatch(t, 0, 4))
	writeFile(t, filepath.Join(broker, "meta.properties"), []byte("version=1\n"))
	lock, err := vfs.OS.Lock(filepath.Join(broker, ".lock"), vfs.Exclusive)
	require.NoError(t, err)
	before := traces(t, dir)
	_, err = seglog.Open(dir, quick)
	require.ErrorIs(t, err, seglog.ErrLocked)
	requireUntouched(t, dir, before)
	ro := openLog(t, dir, seglog.Options{ReadOnly: true})
	require.Equal(t, span(0, 4), offsetsOf(readAll(t, ro, 0)))
	require.NoError(t, lock.Close())

	// Two logs of one broker's directory may be open side by side.
	other := filepath.Join(broker, "orders-1")
	writeLog(t, other, 0, plainBatch(t, 0, 4))
	_ = openLog(t, dir, quick)
	_ = openLog(t, other, quick)
}
