package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

func newRepairCommand(app *App) *cobra.Command {
	opts := repairOptions{app: app}
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "take damage out of a log in place",
		Long: `Tell what it takes to make a log sound in place, and do it if --apply is given.
Prefer recover, which copies what is good elsewhere and touches nothing.

Good batches stay as they are. The bytes that go are kept beside the log, in files
that are named after it, their position and their hash, and end in .cut. Indexes that
disagree with the log are made anew. It may be interrupted, and done again.`,
		Example:           "  logtool repair orders-0\n  logtool repair orders-0 --apply",
		GroupID:           groupCheck,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 sound, or made so, 1 could not read or write, 2 usage, 3 damage was found and is still\n" +
			"there, 5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&opts.apply, "apply", false, "do it")
	return cmd
}

type repairOptions struct {
	app   *App
	apply bool
}

func (o *repairOptions) run(ctx context.Context, dir string) error {
	progress := o.app.Progress("checking")
	r, err := seglog.Repair(ctx, dir, seglog.RepairOptions{Apply: o.apply, Progress: progress.Update})
	progress.Clear()
	if err != nil {
		return notALogHint(err)
	}
	if err := o.tell(r); err != nil {
		return err
	}
	if r.Needed() && !o.apply && r.Damage == 0 {
		o.app.suggest("logtool repair " + dir + " --apply")
		return nil
	}
	if r.Needed() && !o.apply {
		return Hint(Damagef("nothing was changed"), "logtool recover "+dir+" --output-dir NEW, or logtool repair "+dir+" --apply")
	}
	for _, p := range r.Left {
		if p.Severity == seglog.Damage {
			return Hint(Damagef("damage is left that no repair can undo"), "logtool verify "+dir)
		}
	}
	return nil
}

func (o *repairOptions) tell(r seglog.RepairReport) error {
	out := o.app.Out
	if out.JSON() {
		return o.emit(r)
	}
	for _, d := range r.Removed {
		if err := out.Linef("%s", out.Paint(Bad, d.String())); err != nil {
			return err
		}
		if d.SavedAs != "" {
			if err := out.Linef("  %s %s", o.word("kept as", "to be kept as"), d.SavedAs); err != nil {
				return err
			}
		}
	}
	if m := r.Missing; m.First < m.Next {
		if err := out.Linef("%s", out.Paint(Bad, fmt.Sprintf("offsets %d to %d are missing at the end; the log %s behind them", m.First, m.Next-1, o.word("goes on", "would go on")))); err != nil {
			return err
		}
	}
	for _, m := range r.Gaps {
		if err := out.Linef("%s", out.Paint(Bad, fmt.Sprintf("%v are lost with the segment that held them; the gap %s", m, o.word("is no damage any more", "would be accepted")))); err != nil {
			return err
		}
	}
	for _, name := range r.Rebuilt {
		if err := out.Linef("%s %s", o.word("made anew", "to be made anew"), name); err != nil {
			return err
		}
	}
	for _, name := range r.SetAside {
		if err := out.Linef("%s %s", o.word("put aside as .cut", "to be put aside as .cut"), name); err != nil {
			return err
		}
	}
	for _, p := range r.Left {
		if err := out.Linef("left: %s", p); err != nil {
			return err
		}
	}
	return o.summary(r)
}

func (o *repairOptions) word(done, planned string) string {
	if o.apply {
		return done
	}
	return planned
}

func (o *repairOptions) summary(r seglog.RepairReport) error {
	if !r.Needed() {
		return o.app.Out.Linef("nothing to repair")
	}
	bytes := int64(0)
	for _, d := range r.Removed {
		bytes += d.Length
	}
	return o.app.Out.Linef("%s %s, %s; %s in %s %s%s",
		o.word("took out", "would take out"), plural(int64(len(r.Removed)), "stretch", "stretches"), o.app.Out.Size(bytes),
		plural(r.Records, "record", "records"), plural(r.Batches, "batch", "batches"), o.word("are there", "stay"),
		o.word("", " (dry run)"))
}

func (o *repairOptions) emit(r seglog.RepairReport) error {
	out := o.app.Out
	for _, d := range r.Removed {
		obj := addRange(out.Object("removed"), d)
		if d.SavedAs == "" {
			obj.Null("sha256").Null("saved_as")
		} else {
			obj.String("sha256", d.SHA256).Text("saved_as", d.SavedAs)
		}
		if err := out.Emit(obj); err != nil {
			return err
		}
	}
	if m := r.Missing; m.First < m.Next {
		if err := out.Emit(out.Object("missing").Int("first_offset", m.First).Int("last_offset", m.Next-1)); err != nil {
			return err
		}
	}
	for _, m := range r.Gaps {
		if err := out.Emit(out.Object("gap").Int("first_offset", m.First).Int("last_offset", m.Next-1)); err != nil {
			return err
		}
	}
	for _, group := range []struct {
		kind  string
		names []string
	}{{"rebuilt", r.Rebuilt}, {"set_aside", r.SetAside}} {
		for _, name := range group.names {
			if err := out.Emit(out.Object(group.kind).Text("file", name)); err != nil {
				return err
			}
		}
	}
	for _, p := range r.Left {
		if err := out.Emit(addProblem(out.Object("left"), p)); err != nil {
			return err
		}
	}
	return out.Emit(out.Object("repaired").Bool("applied", r.Applied).Bool("dry_run", !o.apply).
		Int("removed", int64(len(r.Removed))).Int("batches", r.Batches).Int("records", r.Records).Int("end_offset", r.End))
}
