package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
)

// Env is the world around one run of the tool. Commands use it and nothing
// else, so that a test can stand in for a terminal or a clock.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StdinTerminal tells whether a person can be asked, StdoutTerminal and
	// StderrTerminal whether one is looking.
	StdinTerminal, StdoutTerminal, StderrTerminal bool

	Getenv func(string) string
	Now    func() time.Time
	// FS is where files are that a command reads by itself. The library opens
	// logs on the same, real one.
	FS vfs.FS
}

// System returns the environment of this process.
func System() Env {
	return Env{
		Stdin:          os.Stdin,
		Stdout:         os.Stdout,
		Stderr:         os.Stderr,
		StdinTerminal:  isTerminal(os.Stdin) && !isNull(os.Stdin),
		StdoutTerminal: isTerminal(os.Stdout),
		StderrTerminal: isTerminal(os.Stderr),
		Getenv:         os.Getenv,
		Now:            time.Now,
		FS:             vfs.OS,
	}
}

// isTerminal takes any character device for a terminal. /dev/null is one too,
// which does not matter to who writes.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// isNull reports whether nothing can come from f.
func isNull(f *os.File) bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(null, info)
}

// App is one run of the tool: its environment, the flags that every command
// has, and where results go. A command receives it when it is built and may use
// it from its RunE on, when flags have been read.
type App struct {
	Env
	// Out is where results go. Anything said beside them goes to Stderr, by
	// Warnf and Verbosef.
	Out *Output

	quiet, verbose, bytes, noHeader bool
	color                           *enumFlag

	usageHint string // what to try after a usage error
	ran       bool   // a command began: errors are not about its usage any more
}

// begin is called between reading the flags and running a command.
func (app *App) begin(cmd *cobra.Command) {
	app.ran = true
	app.Out.format = cmd.Flag("output").Value.String()
	app.Out.color = app.useColor()
	app.Out.header = !app.noHeader
	app.Out.bytes = app.bytes
}

// useColor follows no-color.org. A console of Windows shows escape sequences
// as they are unless something in its environment says that it does not.
func (app *App) useColor() bool {
	if app.color.value != "auto" {
		return app.color.value == "always"
	}
	if !app.StdoutTerminal || app.Getenv("NO_COLOR") != "" || app.Getenv("TERM") == "dumb" {
		return false
	}
	return runtime.GOOS != "windows" || app.Getenv("TERM") != "" || app.Getenv("WT_SESSION") != ""
}

// Warnf tells what went differently than asked for, on stderr, unless -q. It is
// for what does not change the exit status; everything else is an error.
func (app *App) Warnf(format string, args ...any) {
	if !app.quiet {
		app.sayf("warning: "+format, args...)
	}
}

// Verbosef tells what is being done, on stderr, with -v only.
func (app *App) Verbosef(format string, args ...any) {
	if app.verbose {
		app.sayf(format, args...)
	}
}

// suggest says on stderr, unless -q, what to do about what was found.
func (app *App) suggest(try string) {
	if !app.quiet {
		fmt.Fprintf(app.stderrAfterOut(), "try: %s\n", try)
	}
}

// sayf writes one line to stderr, behind the results that came before it: on a
// terminal both are seen in the order in which they were written.
func (app *App) sayf(format string, args ...any) {
	fmt.Fprintf(app.stderrAfterOut(), "logtool: "+format+"\n", args...)
}

// stderrAfterOut is stderr for lines of text that follow what was written to Out. They
// are made visible.
func (app *App) stderrAfterOut() io.Writer { return afterOut{app} }

type afterOut struct{ app *App }

func (w afterOut) Write(p []byte) (int, error) {
	w.app.Out.Flush()
	if _, err := io.WriteString(w.app.Stderr, visibleLines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// OpenLog opens the log in dir for reading: without a lock, without changing a
// byte, beside a live writer if there is one. The caller closes it.
func (app *App) OpenLog(dir string) (*seglog.Log, error) {
	app.Verbosef("opening %s read-only", dir)
	info, err := app.FS.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, Hint(fmt.Errorf("%s is a file, not the directory of a log", dir), "logtool dump "+dir)
	}
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	if errors.Is(err, seglog.ErrNotALog) {
		return nil, Hint(fmt.Errorf("%s: %w", dir, err), "name the directory of one partition, the one that holds the .log files")
	}
	return log, err
}

// interrupted returns the error that ended ctx, or nil. Loops that do not
// themselves wait on ctx ask for it once per batch or so.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// confirm asks the person at the terminal, and fails unless the answer is yes.
func (app *App) confirm(ctx context.Context, question, otherwise string) error {
	fmt.Fprintf(app.stderrAfterOut(), "%s [y/N] ", question)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case line := <-readLines(ctx, app.Stdin):
		if answer := strings.ToLower(strings.TrimSpace(string(line.text))); answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New("not confirmed: " + otherwise)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
