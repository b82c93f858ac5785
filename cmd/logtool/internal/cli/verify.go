package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
)

func newVerifyCommand(app *App) *cobra.Command {
	opts := verifyOptions{app: app}
	cmd := &cobra.Command{
		Use:   "verify DIR|FILE",
		Short: "every checksum, every index entry",
		Long: `Check every checksum and index entry of a log or of one file. Nothing is written.

Findings are damage, a warning for what costs no record and is repaired when the
log is next opened for writing, or a note. Only damage makes the exit status 3.
After a bad batch the check goes on with the next good one. A log may be checked
while it is written to: what is still being written at its end is then no fault.`,
		Example:           "  logtool verify orders-0\n  logtool verify orders-0/00000000000000041022.index -o json",
		GroupID:           groupCheck,
		Args:              oneArg("DIR or FILE"),
		ValidArgsFunction: completePath,
		Annotations:       exitStatus("0 no damage, 1 could not check, 2 usage, 3 damage found."),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&opts.quick, "quick", false, "headers and indexes only: no checksums, no records")
	cmd.Flags().IntVarP(&opts.jobs, "jobs", "j", 0, "segments checked at once (default: number of CPUs)")
	cmd.Flags().BoolVar(&opts.failFast, "fail-fast", false, "stop at the first damage")
	return cmd
}

type verifyOptions struct {
	app             *App
	quick, failFast bool
	jobs            int
}

func (o *verifyOptions) run(ctx context.Context, path string) error {
	if o.jobs < 0 {
		return UsageErrorf("--jobs %d: want 0 or more", o.jobs)
	}
	o.app.Verbosef("checking %s", path)
	var written error
	var mu sync.Mutex // progress is told by other goroutines than problems are
	progress := o.app.Progress("checking")
	report, err := seglog.Verify(ctx, path, seglog.VerifyOptions{
		Quick: o.quick, Jobs: o.jobs, FailFast: o.failFast,
		OnProblem: func(p seglog.Problem) {
			mu.Lock()
			defer mu.Unlock()
			progress.Clear()
			written = errors.Join(written, o.problem(p))
		},
		Progress: func(done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			progress.Update(done, total)
		},
	})
	progress.Clear()
	switch {
	case written != nil:
		return written
	case errors.Is(err, seglog.ErrNotALog):
		return Hint(err, "name the directory of one partition, the one that holds the .log files, or one of its files")
	case err != nil && (report.Damage == 0 || errors.Is(err, context.Canceled)):
		return err
	case err != nil:
		o.app.sayf("%v", err)
	}
	if err := o.summary(path, report, err == nil); err != nil {
		return err
	}
	o.suggest(path, report)
	if report.Damage == 0 {
		return nil
	}
	return Told(ErrDamage)
}

// problem prints one finding.
func (o *verifyOptions) problem(p seglog.Problem) error {
	out := o.app.Out
	if !out.JSON() {
		text, style := p.Text(), Bad
		if p.Severity != seglog.Damage {
			text, style = p.Severity.String()+": "+text, Dim
		}
		// The files of a segment line up, save for the longest names.
		return out.Linef("%-27s %s", p.File+":", out.Paint(style, text))
	}
	return out.Emit(addProblem(out.Object("problem"), p))
}

// addProblem adds the fields of a finding.
func addProblem(obj *Object, p seglog.Problem) *Object {
	obj.String("severity", p.Severity.String()).String("kind", p.Kind).Bytes("file", []byte(p.File))
	optional := func(name string, v int64) {
		if v < 0 {
			obj.Null(name)
		} else {
			obj.Int(name, v)
		}
	}
	optional("position", p.Position)
	optional("offset", p.Offset)
	optional("entry", int64(p.Entry))
	return obj.Int("length", p.Length).String("detail", p.Detail)
}

// summary prints what was checked. Without damage, and if all could be checked,
// that is ok.
func (o *verifyOptions) summary(path string, r seglog.VerifyReport, complete bool) error {
	out := o.app.Out
	if out.JSON() {
		return out.Emit(out.Object("summary").
			Int("segments", int64(r.Segments)).Int("damaged_segments", int64(r.DamagedSegments)).
			Int("batches", r.Batches).Int("records", r.Records).
			Int("bytes", r.Bytes).Int("unreadable_bytes", r.Unreadable).
			Int("problems", int64(r.Damage)).Int("warnings", int64(r.Warnings)).Int("notes", int64(r.Notes)).
			Int("readable_below", r.ReadableBelow).Bool("complete", complete && !r.Stopped))
	}
	if r.Damage > 0 {
		return out.Linef("%s", damageSummary(r))
	}
	what := filepath.Base(path)
	if r.Segments > 0 {
		what = fmt.Sprintf("%s, %s, %s", plural(int64(r.Segments), "segment", "segments"),
			plural(r.Batches, "batch", "batches"), plural(r.Records, "record", "records"))
	}
	if err := out.Linef("checked %s", what); err != nil {
		return err
	}
	verdict := out.Paint(Good, "ok")
	if r.Warnings > 0 {
		verdict += ", " + plural(int64(r.Warnings), "warning", "warnings")
	}
	return out.Linef("%s", verdict)
}

func damageSummary(r seglog.VerifyReport) string {
	problems := plural(int64(r.Damage), "problem", "problems")
	switch {
	case r.Stopped:
		return problems + "; stopped there"
	case r.Segments == 0:
		return problems
	case r.DamagedSegments == 0:
		problems += fmt.Sprintf(" beside %s", plural(int64(r.Segments), "segment", "segments"))
	default:
		problems += fmt.Sprintf(" in %d of %s", r.DamagedSegments, plural(int64(r.Segments), "segment", "segments"))
	}
	return problems + fmt.Sprintf("; everything below offset %d is readable", r.ReadableBelow)
}

// suggest says on stderr what to do about what was found.
func (o *verifyOptions) suggest(path string, r seglog.VerifyReport) {
	if o.app.quiet {
		return
	}
	if try := advise(path, r); try != "" {
		o.app.Out.Flush()
		fmt.Fprintf(o.app.Stderr, "try: %s\n", try)
	}
}

// advise is a command for what was found, if there is one. Of a log what is good
// can be copied elsewhere. Indexes alone can be made anew, those that are missing
// as well. A single file is shown.
func advise(path string, r seglog.VerifyReport) string {
	var file string // with damage
	inIndex, inLog := false, false
	for _, p := range r.Problems {
		f, _ := layout.ParseFile(p.File)
		index := f.Kind == layout.OffsetIndex || f.Kind == layout.TimeIndex || f.Kind == layout.TxnIndex
		switch {
		case p.Severity == seglog.Damage:
			file = cmp.Or(file, p.File)
			inIndex, inLog = inIndex || index, inLog || !index
		case strings.HasSuffix(p.Kind, "index_missing"), strings.HasSuffix(p.Kind, "index_empty"):
			inIndex = true
		}
	}
	switch {
	case filepath.Base(path) == file:
		return "logtool dump " + path
	case inLog:
		output := filepath.Clean(path) + ".recovered"
		if strings.HasSuffix(filepath.Clean(path), ".") {
			output = "NEW" // of "." that would be inside of it
		}
		return fmt.Sprintf("logtool recover %s --output-dir %s", path, output)
	case inIndex && r.Segments > 0 && !isFile(path):
		return "logtool reindex " + path
	}
	return ""
}

// isFile reports whether a path names a file of a log and not its directory.
func isFile(path string) bool {
	_, ours := layout.ParseFile(filepath.Base(path))
	return ours
}
