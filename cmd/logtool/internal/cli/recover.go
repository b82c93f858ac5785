package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

func newRecoverCommand(app *App) *cobra.Command {
	opts := recoverOptions{app: app}
	cmd := &cobra.Command{
		Use:   "recover DIR",
		Short: "copy everything readable into a new directory",
		Long: `Copy all good batches of a log, as they are and at their offsets, into a new directory,
with fresh indexes, and check it. DIR is never written to, needs no lock, and may be
on a disk that is read-only.

The copy ends at the first bad batch, as a log does that a broker recovers. With
--skip-bad-batches it goes on behind it; what was left out is listed. Only whole
batches are copied: those that hold offsets from --from on, up to --to.`,
		Example: "  logtool recover orders-0 --output-dir orders-0.recovered\n" +
			"  logtool recover orders-0 --output-dir new/orders-0 --skip-bad-batches --from 41022",
		GroupID:           groupCheck,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, and the new log has no damage, 1 could not read or write, 2 usage, 3 the new\n" +
			"log has damage, 4 no such offset."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&opts.output, "output-dir", "", "the new `DIR`, empty or not there yet")
	cmd.Flags().BoolVar(&opts.skip, "skip-bad-batches", false, "go on behind a bad batch, leaving a gap in the offsets")
	opts.span.AddFlags(cmd, app.Now)
	_ = cmd.MarkFlagRequired("output-dir") // it exists
	_ = cmd.MarkFlagDirname("output-dir")
	return cmd
}

type recoverOptions struct {
	app    *App
	output string
	skip   bool
	span   Range
}

func (o *recoverOptions) run(ctx context.Context, dir string) error {
	from, to, err := o.bounds(dir)
	if err != nil {
		return err
	}
	o.app.Verbosef("copying %s to %s", dir, o.output)
	progress := o.app.Progress("copying")
	report, err := seglog.Recover(ctx, dir, o.output, seglog.RecoverOptions{
		SkipBadBatches: o.skip, From: from, To: to, Progress: progress.Update,
	})
	progress.Clear()
	switch {
	case errors.Is(err, seglog.ErrOption):
		return UsageErrorf("%v", err)
	case errors.Is(err, fs.ErrExist):
		return Hint(err, "another --output-dir; it must be empty, or not there yet")
	case err != nil:
		return notALogHint(err)
	}
	checked, err := seglog.Verify(ctx, o.output, seglog.VerifyOptions{})
	if err != nil {
		return err
	}
	if err := o.tell(report, checked); err != nil {
		return err
	}
	if checked.Damage > 0 {
		return Hint(Damagef("the new log has %s", plural(int64(checked.Damage), "problem", "problems")), "logtool verify "+o.output)
	}
	return nil
}

// bounds is what the flags ask for. Only what is not a plain offset needs the log.
func (o *recoverOptions) bounds(dir string) (from, to int64, err error) {
	if o.span.onlyAbsolute() {
		from, to = o.span.absolute(0, 0)
	} else {
		log, err := o.app.OpenLog(dir)
		if err != nil {
			return 0, 0, err
		}
		defer log.Close()
		if from, to, err = o.span.Resolve(log); err != nil {
			return 0, 0, err
		}
	}
	if o.span.To.IsSet() && to <= from {
		return 0, 0, UsageErrorf("there is nothing from offset %d to %d", from, to)
	}
	return from, to, nil
}

func (o *recoverOptions) tell(r seglog.RecoverReport, checked seglog.VerifyReport) error {
	if o.app.Out.JSON() {
		return o.emit(r, checked)
	}
	table := o.app.Out.Table(Left(""), Left("")).Plain()
	table.Row("kept", fmt.Sprintf("%s, %s", plural(r.Records, "record", "records"), rangesText(r)))
	for i, d := range r.LeftOut {
		if r.Stopped && i == len(r.LeftOut)-1 {
			table.Row("stopped", Styled(Bad, fmt.Sprintf("at the first bad batch: %s position %d", d.File, d.Position)))
			table.Row("reason", d.Reason)
			table.Row("hint", "--skip-bad-batches keeps what follows, leaving a gap in offsets")
			continue
		}
		table.Row("left out", Styled(Bad, d.String()))
	}
	return table.Flush()
}

// rangesText is the offsets that were kept, the first few ranges of them.
func rangesText(r seglog.RecoverReport) string {
	const most = 4
	if len(r.Kept) == 0 {
		return fmt.Sprintf("offsets [%d, %d)", r.Start, r.End)
	}
	var words []string
	for i, k := range r.Kept {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more ranges", len(r.Kept)-most))
			break
		}
		words = append(words, fmt.Sprintf("[%d, %d)", k.First, k.Next))
	}
	return "offsets " + strings.Join(words, " ")
}

func (o *recoverOptions) emit(r seglog.RecoverReport, checked seglog.VerifyReport) error {
	out := o.app.Out
	for _, d := range r.LeftOut {
		if err := out.Emit(addRange(out.Object("left_out"), d)); err != nil {
			return err
		}
	}
	obj := out.Object("recovered").Text("output_dir", filepath.Clean(o.output)).
		Int("segments", int64(r.Segments)).Int("batches", r.Batches).Int("records", r.Records).Int("bytes", r.Bytes).
		Int("start_offset", r.Start).Int("end_offset", r.End)
	obj.Array("kept", func() {
		for _, k := range r.Kept {
			obj.Element(func() { obj.Int("from", k.First).Int("to", k.Next) })
		}
	})
	return out.Emit(obj.Bool("stopped", r.Stopped).Int("batches_behind", r.Behind).Int("problems", int64(checked.Damage)))
}

// addRange adds the fields of a stretch of damage.
func addRange(obj *Object, d seglog.DamagedRange) *Object {
	obj.Text("file", d.File).Int("position", d.Position).Int("length", d.Length).Int("first_offset", d.FirstOffset)
	if d.LastOffset < 0 {
		obj.Null("last_offset")
	} else {
		obj.Int("last_offset", d.LastOffset)
	}
	return obj.String("kind", d.Kind).Text("reason", d.Reason)
}

// notALogHint adds what to do to the error of a directory that is no log.
func notALogHint(err error) error {
	if errors.Is(err, seglog.ErrNotALog) {
		return Hint(err, "name the directory of one partition, the one that holds the .log files")
	}
	return err
}
