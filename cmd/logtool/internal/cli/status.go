package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/offsetslog"
	"github.com/seglog/seglog/record"
)

// The exit statuses. Scripts depend on them: they never change.
const (
	statusOK        = 0
	statusFailed    = 1 // could not do it: I/O error, permission, no such directory
	statusUsage     = 2 // unknown command or flag, bad value, missing argument
	statusDamage    = 3 // it ran, and found damage
	statusNotFound  = 4 // it ran, and there is no such offset, time, group or partition
	statusLocked    = 5 // the log is locked by another process
	statusSignalled = 128
)

// ExitStatuses is the same for people.
const ExitStatuses = `0    done, nothing wrong found
1    could not do it: I/O error, permission, no such directory
2    usage: unknown command or flag, bad value, missing argument
3    it ran, and found damage
4    it ran, and there is no such offset, time, group or partition
5    the log is locked by another process
130  interrupted
143  terminated`

var (
	// ErrDamage ends a command that found damage. What it is may have been
	// told among the results, see Told.
	ErrDamage = errors.New("damage found")
	// ErrNotFound ends a command that looked for what is not there.
	ErrNotFound = errors.New("not found")
	// errUsage is the category of errors about how the tool was called.
	errUsage = errors.New("usage")
)

// status turns how a run ended into the exit status.
func status(err error) int {
	var sig signalError
	var badIndex *index.CorruptError // of both kinds of index
	switch {
	case err == nil, closedPipe(err):
		return statusOK
	case errors.As(err, &sig):
		return statusSignalled + int(sig.signal)
	case errors.Is(err, errUsage):
		return statusUsage
	case errors.Is(err, seglog.ErrLocked):
		return statusLocked
	case errors.Is(err, ErrDamage), errors.Is(err, seglog.ErrCorrupt), errors.Is(err, seglog.ErrOverlap),
		errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrInvalid),
		errors.Is(err, checkpoint.ErrCorrupt), errors.Is(err, producerstate.ErrCorrupt), errors.Is(err, txnindex.ErrCorrupt),
		errors.As(err, &badIndex):
		return statusDamage
	case errors.Is(err, ErrNotFound), errors.Is(err, seglog.ErrNoTransaction), errors.Is(err, seglog.ErrOffsetOutOfRange), errors.Is(err, seglog.ErrNoRecord),
		errors.Is(err, seglog.ErrNoPartition), errors.Is(err, offsetslog.ErrUnknownPartition), errors.Is(err, offsetslog.ErrGroupNotFound):
		return statusNotFound
	default:
		return statusFailed
	}
}

// UsageErrorf is a mistake in how the tool was called that only a running
// command can notice, such as two flags that exclude each other.
func UsageErrorf(format string, args ...any) error {
	return &categorized{fmt.Errorf(format, args...), errUsage}
}

// Damagef is an error of exit status 3 that is worded by the command.
func Damagef(format string, args ...any) error {
	return &categorized{fmt.Errorf(format, args...), ErrDamage}
}

// NotFoundf is an error of exit status 4 that is worded by the command.
func NotFoundf(format string, args ...any) error {
	return &categorized{fmt.Errorf(format, args...), ErrNotFound}
}

// categorized adds a category to an error without adding to its text.
type categorized struct {
	error
	category error
}

func (e *categorized) Unwrap() []error { return []error{e.error, e.category} }

// Told is err without its message, for a command that has given the details
// among its results: only the exit status is left to say it.
func Told(err error) error {
	if err == nil {
		return nil
	}
	return &told{err}
}

type told struct{ error }

func (e *told) Unwrap() error { return e.error }

// Hint adds to an error what to do about it, in words that fit behind "try: ".
func Hint(err error, try string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, try}
}

type hinted struct {
	error
	try string
}

func (e *hinted) Unwrap() error { return e.error }

// report says on stderr why a run did not do what it should, and what to do.
func (app *App) report(err error) {
	var silent *told
	var sig signalError
	if err == nil || closedPipe(err) || errors.As(err, &silent) || errors.As(err, &sig) {
		return
	}
	app.sayf("%v", err)
	if try := app.advice(err); try != "" {
		fmt.Fprintf(app.stderrAfterOut(), "try: %s\n", try)
	}
}

// advice is what to do about an error that brings no hint of its own.
func (app *App) advice(err error) string {
	var hint *hinted
	var lock *vfs.LockError
	switch {
	case errors.As(err, &hint):
		return hint.try
	case errors.Is(err, errUsage):
		return app.usageHint
	case errors.As(err, &lock):
		return "stop that process first; ls, stat, dump, cat, lookup and verify need no lock"
	case errors.Is(err, fs.ErrNotExist):
		return "look for a mistake in the path"
	case errors.Is(err, fs.ErrPermission):
		return "run as a user who may do that"
	}
	return ""
}
