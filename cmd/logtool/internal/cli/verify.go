package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
)

func newVerifyCommand(app *App) *cobra.Command {
	opts := verifyOptions{app: app}
	cmd := &cobra.Command{
		Use:   "verify DIR|FILE",
		Short: "every checksum, every index entry",
		Long: `Check every checksum and index entry of a log, of one file, or of all logs of a log
directory. Nothing is written.

Findings are damage, a warning for what costs no record and is repaired when the
log is next opened for writing, or a note. Only damage makes the exit status 3.
After a bad batch the check goes on with the next good one. A log may be checked
while it is written to: what is still being written at its end is then no fault.`,
		Example:           "  logtool verify orders-0\n  logtool verify /var/lib/kafka/data\n  logtool verify orders-0/00000000000000041022.index -o json",
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
	// place is that of a partition among all of a directory, and began when the first
	// was begun: many small ones take their time too.
	place string
	began time.Time
}

func (o *verifyOptions) run(ctx context.Context, path string) error {
	if o.jobs < 0 {
		return UsageErrorf("--jobs %d: want 0 or more", o.jobs)
	}
	if roof, ok, err := findLogDir(o.app, path); err == nil && ok {
		return o.all(ctx, roof)
	}
	o.app.Verbosef("checking %s", path)
	report, err := o.check(ctx, path, "")
	switch {
	case errors.Is(err, errWriting):
		return err
	case errors.Is(err, seglog.ErrNotALog):
		return Hint(err, "name the directory of one partition, the one that holds the .log files, one of its files, or a log directory")
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

// errWriting is an error of printing.
var errWriting = errors.New("write results")

// check checks a log or a file of one, and prints what it finds. partition, if not
// empty, is printed with it.
func (o *verifyOptions) check(ctx context.Context, path, partition string) (seglog.VerifyReport, error) {
	var written error
	var mu sync.Mutex // progress is told by other goroutines than problems are
	progress := o.app.Progress(strings.TrimSpace("checking " + partition + o.place))
	if !o.began.IsZero() {
		progress.began = o.began
	}
	report, err := seglog.Verify(ctx, path, seglog.VerifyOptions{
		Quick: o.quick, Jobs: o.jobs, FailFast: o.failFast,
		OnProblem: func(p seglog.Problem) {
			mu.Lock()
			defer mu.Unlock()
			progress.Clear()
			written = errors.Join(written, o.problem(p, partition))
		},
		Progress: func(done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			progress.Update(done, total)
		},
	})
	progress.Clear()
	if written != nil {
		return report, fmt.Errorf("%w: %w", errWriting, written)
	}
	return report, err
}

// all checks every partition of a log directory. One that cannot be checked costs
// the others nothing.
func (o *verifyOptions) all(ctx context.Context, d *logDir) error {
	var sum dirReport
	o.began = o.app.Now()
	for i, p := range d.partitions {
		name := filepath.Base(d.dir(p))
		o.place = fmt.Sprintf(" (%d of %d)", i+1, len(d.partitions))
		o.app.Verbosef("checking %s", d.dir(p))
		r, err := o.check(ctx, d.dir(p), name)
		if errors.Is(err, errWriting) || errors.Is(err, context.Canceled) {
			return err
		}
		if err != nil {
			sum.failed++
			o.app.sayf("%s: %v", name, err)
		}
		sum.add(r)
		if o.failFast && r.Damage > 0 {
			break
		}
	}
	if err := o.tell(sum); err != nil {
		return err
	}
	switch {
	case sum.damaged > 0:
		return Told(ErrDamage)
	case sum.failed > 0:
		return fmt.Errorf("%s could not be checked", plural(int64(sum.failed), "partition", "partitions"))
	}
	return nil
}

// dirReport is what was found in a whole log directory.
type dirReport struct {
	partitions, damaged, failed       int
	segments, batches, records, bytes int64
	problems, warnings, notes         int64
}

func (s *dirReport) add(r seglog.VerifyReport) {
	s.partitions++
	if r.Damage > 0 {
		s.damaged++
	}
	s.segments += int64(r.Segments)
	s.batches += r.Batches
	s.records += r.Records
	s.bytes += r.Bytes
	s.problems += int64(r.Damage)
	s.warnings += int64(r.Warnings)
	s.notes += int64(r.Notes)
}

func (o *verifyOptions) tell(s dirReport) error {
	out := o.app.Out
	if out.JSON() {
		return out.Emit(out.Object("directory_summary").Int("partitions", int64(s.partitions)).
			Int("damaged_partitions", int64(s.damaged)).Int("unchecked_partitions", int64(s.failed)).
			Int("segments", s.segments).Int("batches", s.batches).Int("records", s.records).Int("bytes", s.bytes).
			Int("problems", s.problems).Int("warnings", s.warnings).Int("notes", s.notes))
	}
	err := out.Linef("checked %s, %s, %s, %s", plural(int64(s.partitions), "partition", "partitions"),
		plural(s.segments, "segment", "segments"), plural(s.batches, "batch", "batches"), plural(s.records, "record", "records"))
	if err != nil {
		return err
	}
	if s.problems > 0 {
		return out.Linef("%s in %d of %s", plural(s.problems, "problem", "problems"), s.damaged, plural(int64(s.partitions), "partition", "partitions"))
	}
	verdict := out.Paint(Good, "ok")
	if s.warnings > 0 {
		verdict += painted(", " + plural(s.warnings, "warning", "warnings"))
	}
	return out.Linef("%s", verdict)
}

// problem prints one finding.
func (o *verifyOptions) problem(p seglog.Problem, partition string) error {
	out := o.app.Out
	if !out.JSON() {
		text, style := p.Text(), Bad
		if p.Severity != seglog.Damage {
			text, style = p.Severity.String()+": "+text, Dim
		}
		// The files of a segment line up, save for the longest names.
		return out.Linef("%-27s %s", filepath.Join(partition, p.File)+":", out.Paint(style, text))
	}
	obj := addProblem(out.Object("problem"), p)
	if partition != "" {
		obj.String("partition", partition)
	}
	return out.Emit(obj)
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
		verdict += painted(", " + plural(int64(r.Warnings), "warning", "warnings"))
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
	if try := advise(path, r); try != "" {
		o.app.suggest(try)
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
