package interop

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Logtool is the built command-line tool of seglog.
type Logtool struct {
	tb   testing.TB
	path string
}

// BuildLogtool builds cmd/logtool of the tree this module stands in.
func BuildLogtool(tb testing.TB) *Logtool {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "logtool.exe") // the ending does no harm elsewhere
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-o", path, "./cmd/logtool")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s", out)
	return &Logtool{tb: tb, path: path}
}

// Run runs the tool in dir and returns its output and status.
func (l *Logtool) Run(dir string, args ...string) RunResult {
	l.tb.Helper()
	cmd := exec.CommandContext(l.tb.Context(), l.path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.tb.Fatal(err)
	}
	return RunResult{Stdout: stdout.String(), Stderr: stderr.String(), Exit: cmd.ProcessState.ExitCode()}
}

// compareDumps dumps every file of the partition directories with Kafka's tool
// and with ours and compares the texts. It returns how many there were.
func (l *Logtool) compareDumps(dirs []string) int {
	l.tb.Helper()
	out := l.tb.TempDir()
	var runs []dumpRun
	for _, dir := range dirs {
		for _, run := range dumpRuns(l.tb, dir, filepath.Join(out, filepath.Base(dir)), true) {
			if filepath.Ext(run.out) != ".decoded" {
				runs = append(runs, run)
			}
		}
	}
	dumpEach(l.tb, runs)
	for _, run := range runs {
		args := []string{"dump", "--kafka"}
		if run.flags != nil {
			args = append(args, "--records")
		}
		dir := filepath.Dir(run.file)
		got := l.Run(dir, append(args, filepath.Base(run.file))...)
		want, err := os.ReadFile(run.out + ".txt")
		require.NoError(l.tb, err)
		require.Equal(l.tb, string(want), got.Stdout, "%s %v\n%s", run.file, args, got.Stderr)
		want, err = os.ReadFile(run.out + ".err.txt")
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(l.tb, err)
		}
		require.Equal(l.tb, string(want), strings.ReplaceAll(got.Stderr, dir+string(filepath.Separator), ""), "%s %v", run.file, args)
	}
	return len(runs)
}
