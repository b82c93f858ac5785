package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

func TestStatusTellsKindsOfFailureApart(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("open log: %w", err) }
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"disk", errors.New("disk"), 1},
		{"no such file", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, 1},
		{"not a log", wrap(seglog.ErrNotALog), 1},
		{"usage", UsageErrorf("x"), 2},
		{"damage", Damagef("x"), 3},
		{"damage told", Told(ErrDamage), 3},
		{"a corrupt segment", wrap(&seglog.CorruptionError{Err: record.ErrCorrupt}), 3},
		{"segments overlap", wrap(&seglog.OverlapError{}), 3},
		{"out of range", wrap(&seglog.OffsetError{}), 4},
		{"a gap", wrap(&seglog.GapError{}), 4},
		{"not found", NotFoundf("x"), 4},
		{"locked", wrap(&vfs.LockError{Name: "x/.lock", PID: 7}), 5},
		{"interrupted", wrap(signalError{syscall.SIGINT}), 130},
		{"terminated", signalError{syscall.SIGTERM}, 143},
		{"hint", Hint(wrap(&seglog.OffsetError{}), "x"), 4},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, status(tt.err)) })
	}
	require.NoError(t, Hint(nil, "x"))
	require.NoError(t, Told(nil))
}

func TestErrorsAreOneLineAndWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", errors.New("x: disk"), "logtool: x: disk\n"},
		{"hint", Hint(errors.New("x: disk"), "logtool y"), "logtool: x: disk\ntry: logtool y\n"},
		{"told", Told(errors.New("x")), ""},
		{"interrupted", signalError{syscall.SIGINT}, ""},
		{"locked", &vfs.LockError{Name: "x/.lock", PID: 7}, "logtool: x/.lock: locked by process 7\n" +
			"try: stop that process first; ls, stat, dump, cat, lookup and verify need no lock\n"},
		{"usage", UsageErrorf("bad flag"), "logtool: bad flag\ntry: logtool ls --help\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			app := newApp(Env{Stderr: &b})
			app.usageHint = "logtool ls --help"
			app.report(tt.err)
			require.Equal(t, tt.want, b.String())
		})
	}
}

func TestInterruptedRunSaysNothingAndTellsTheSignal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 100)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGINT})
	var stdout, stderr bytes.Buffer
	env := System()
	env.Stdout, env.Stderr = &stdout, &stderr
	for _, args := range [][]string{{"dump", dir}, {"stat", dir}} {
		require.Equal(t, 130, Run(ctx, env, args), "%v", args)
	}
	require.Empty(t, stderr.String())
}

func TestClosedPipeEndsQuietly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 5000)
	r := runIn(t, Env{Stdout: brokenPipe{}}, "dump", dir, "--records")
	require.Zero(t, r.status)
	require.Empty(t, r.stderr)
}

func TestFailedWriteIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 100)
	r := runIn(t, Env{Stdout: failingWriter{}}, "dump", dir)
	require.Equal(t, 1, r.status)
	require.Equal(t, "logtool: disk\n", r.stderr)
}

func TestFirstSignalEndsTheContext(t *testing.T) {
	ctx, stop := WithSignals(t.Context())
	defer stop()
	require.NoError(t, ctx.Err())
	require.NoError(t, interrupted(ctx))
	stop()
	<-ctx.Done()
	require.ErrorIs(t, interrupted(ctx), context.Canceled)
}

// ticking is a clock that goes on by a step whenever it is looked at.
func ticking(step time.Duration) func() time.Time {
	now := time.Time{}.Add(time.Hour)
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

func TestProgressIsForPeopleWhoHaveWaitedASecond(t *testing.T) {
	show := func(terminal, quiet bool, step time.Duration) string {
		var b bytes.Buffer
		app := newApp(Env{Stderr: &b, StderrTerminal: terminal, Now: ticking(step)})
		app.quiet = quiet
		p := app.Progress("reading")
		p.Update(1<<20, 4<<20)
		p.Update(2<<20, 4<<20)
		p.Clear()
		p.Clear()
		return b.String()
	}
	require.Equal(t, "\r\x1b[Kreading  25% of 4.0 MiB\r\x1b[Kreading  50% of 4.0 MiB\r\x1b[K", show(true, false, time.Second))
	require.Equal(t, "\r\x1b[Kreading  50% of 4.0 MiB\r\x1b[K", show(true, false, 700*time.Millisecond))
	require.Empty(t, show(true, false, 100*time.Millisecond))
	require.Empty(t, show(false, false, time.Second))
	require.Empty(t, show(true, true, time.Second))
}
