package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

func newReindexCommand(app *App) *cobra.Command {
	opts := reindexOptions{app: app}
	cmd := &cobra.Command{
		Use:   "reindex DIR",
		Short: "rebuild .index and .timeindex from .log",
		Long: `Make the indexes of a log anew from what its .log files hold, as a broker does when
it recovers a segment. Each is put in place when it is complete, so that this may be
interrupted. The indexes of aborted transactions are made anew as well, where they
disagree with the log.

Opening a log for writing does this by itself for indexes that are missing or
contradict themselves.`,
		Example:           "  logtool reindex orders-0\n  logtool reindex orders-0 --only 41022 --dry-run",
		GroupID:           groupCheck,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not write, 2 usage, 3 done but a log has damage, 4 no such segment,\n" +
			"5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), args[0], cmd.Flags().Changed("only"))
		},
	}
	cmd.Flags().Int64Var(&opts.only, "only", 0, "only the segment with this `BASE` offset")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "tell what would be done, and write nothing")
	return cmd
}

type reindexOptions struct {
	app    *App
	only   int64
	dryRun bool
}

func (o *reindexOptions) run(ctx context.Context, dir string, one bool) error {
	o.app.Verbosef("reindexing %s", dir)
	progress := o.app.Progress("reindexing")
	opts := seglog.ReindexOptions{DryRun: o.dryRun, Progress: progress.Update}
	if one {
		opts.Only = []int64{o.only}
	}
	report, err := seglog.Reindex(ctx, dir, opts)
	progress.Clear()
	if errors.Is(err, seglog.ErrOption) {
		return Hint(NotFoundf("%s has no segment with base offset %d", dir, o.only), "logtool ls "+dir)
	}
	if len(report.Segments) > 0 || err == nil { // what was done before it failed
		if told := o.tell(report); err == nil {
			err = told
		}
	}
	if err != nil {
		return notALogHint(err)
	}
	for _, s := range report.Segments {
		if s.Damage != nil {
			return Hint(Damagef("damage was stepped over: %v", s.Damage), "logtool verify "+dir)
		}
	}
	return nil
}

// tell prints what was done, also when the rest was not.
func (o *reindexOptions) tell(r seglog.ReindexReport) error {
	out := o.app.Out
	if out.JSON() {
		return o.emit(r)
	}
	transactions := false
	for _, s := range r.Segments {
		transactions = transactions || s.TxnIndex.Before >= 0 || s.TxnIndex.After >= 0
	}
	columns := []Column{Left("SEGMENT"), Left("INDEX"), Left("TIMEINDEX")}
	if transactions {
		columns = append(columns, Left("TXNINDEX"))
	}
	table := out.Table(columns...)
	for _, s := range r.Segments {
		cells := []any{fmt.Sprintf("%020d", s.BaseOffset), changeText(s.Index), changeText(s.TimeIndex)}
		if transactions {
			cells = append(cells, changeText(s.TxnIndex))
		}
		if s.Damage != nil {
			cells = append(cells, Styled(Bad, "the log has damage"))
		}
		if err := table.Row(cells...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	n := plural(int64(len(r.Segments)), "segment", "segments")
	if o.dryRun {
		return out.Linef("would reindex %s (dry run)", n)
	}
	return out.Linef("%s reindexed", n)
}

// changeText is how many entries there were and are.
func changeText(c seglog.EntryCounts) string {
	text := func(n int) string {
		if n < 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	return text(c.Before) + " -> " + text(c.After)
}

func (o *reindexOptions) emit(r seglog.ReindexReport) error {
	out := o.app.Out
	for _, s := range r.Segments {
		obj := out.Object("reindexed").Int("base_offset", s.BaseOffset).String("file", s.File)
		count := func(name string, c seglog.EntryCounts) {
			for _, n := range []struct {
				name  string
				value int
			}{{name + "_before", c.Before}, {name + "_after", c.After}} {
				if n.value < 0 {
					obj.Null(n.name)
				} else {
					obj.Int(n.name, int64(n.value))
				}
			}
		}
		count("index", s.Index)
		count("time_index", s.TimeIndex)
		count("txn_index", s.TxnIndex)
		if s.Damage != nil {
			obj.Text("damage", s.Damage.Error())
		} else {
			obj.Null("damage")
		}
		if err := out.Emit(obj); err != nil {
			return err
		}
	}
	return out.Emit(out.Object("summary").Int("segments", int64(len(r.Segments))).Bool("dry_run", o.dryRun))
}
