package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

type offsetsSetOptions struct {
	offsetsFlags
	offset      OffsetFlag
	metadata    string
	leaderEpoch int32
}

func newOffsetsSetCommand(app *App) *cobra.Command {
	opts := offsetsSetOptions{offsetsFlags: offsetsFlags{app: app}}
	cmd := &cobra.Command{
		Use:   "set DIR GROUP TOPIC PARTITION --offset OFFSET",
		Short: "commit one offset",
		Long: `Commit an offset for a group, as a consumer does that was given its partitions by
hand. The group is made if there is none. An offset that the log of the partition does
not hold is committed as it is; reset does not do that.`,
		Example:           "  logtool offsets set /var/lib/kafka billing orders 0 --offset 41022\n  logtool offsets set /var/lib/kafka billing orders 0 --offset @2026-09-01",
		Args:              args("DIR", "GROUP", "TOPIC", "PARTITION"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsWriteStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			tp, err := topicPartition(args[2], args[3])
			if err != nil {
				return err
			}
			d, err := opts.change(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return d.close(opts.set(cmd.Context(), d, args[1], tp))
		},
	}
	opts.add(cmd)
	cmd.Flags().Var(newOffsetFlag(&opts.offset, app.Now), "offset", "the next one to be read: start, end, N, -N from the end, or @TIME")
	cmd.Flags().StringVar(&opts.metadata, "metadata", "", "what to remember with it")
	cmd.Flags().Int32Var(&opts.leaderEpoch, "leader-epoch", -1, "that of the record before; -1 is not known")
	cobra.CheckErr(cmd.MarkFlagRequired("offset"))
	completeFlag(cmd, "offset", "start", "end")
	return cmd
}

func (o *offsetsSetOptions) set(ctx context.Context, d *offsetsDir, group string, tp offsetslog.TopicPartition) error {
	offset, err := o.resolve(d, tp)
	if err != nil {
		return err
	}
	before, err := d.Fetch(ctx, offsetslog.FetchRequest{Group: group, Partitions: []offsetslog.TopicPartition{tp}})
	if err != nil {
		return err
	}
	if err := d.empty(ctx, group); err != nil {
		return err
	}
	err = d.Commit(ctx, offsetslog.CommitRequest{Group: group, Offsets: []offsetslog.Commit{{
		TopicPartition: tp, Offset: offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata, TopicID: before[0].TopicID,
	}}})
	if err != nil {
		return err
	}
	out := o.app.Out
	if out.JSON() {
		obj := out.Object("committed").Text("group", group).Text("topic", tp.Topic).Int("partition", int64(tp.Partition))
		optionalInt(obj, "old_offset", before[0].Offset)
		return out.Emit(obj.Int("offset", offset))
	}
	return out.Linef("group %s, %s: %s -> %d", escaped(group), escaped(tp.String()), orDash(before[0].Offset), offset)
}

// resolve finds the offset in the log, and looks whether that holds it.
func (o *offsetsSetOptions) resolve(d *offsetsDir, tp offsetslog.TopicPartition) (int64, error) {
	log, err := d.dir.Partition(tp.Topic, tp.Partition)
	if err != nil {
		if o.offset.base != absolute || o.offset.n < 0 {
			return 0, err
		}
		if !errors.Is(err, seglog.ErrNoPartition) { // it is elsewhere, or there will be one
			o.app.Warnf("whether %s holds %d is not known: %v", tp, o.offset.n, err)
		}
		return o.offset.n, nil
	}
	offset, found, err := o.offset.Resolve(log)
	if err != nil {
		return 0, err
	}
	if !found {
		o.app.Warnf("no record of %s is that young: its end is taken", tp)
	}
	if at := log.Offsets(); offset < at.Start || offset > at.End {
		o.app.Warnf("%d is outside of %s, which holds [%d, %d): consumers will reset it", offset, tp, at.Start, at.End)
	}
	return offset, nil
}

type offsetsDeleteOptions struct {
	offsetsFlags
	dryRun, yes bool
}

func newOffsetsDeleteCommand(app *App) *cobra.Command {
	opts := offsetsDeleteOptions{offsetsFlags: offsetsFlags{app: app}}
	cmd := &cobra.Command{
		Use:   "delete DIR GROUP [TOPIC [PARTITION]]",
		Short: "delete a group, or some of its offsets",
		Long: `Delete a group with all that it has committed, or only what it has committed for a
topic, or for one partition.

A person is asked first; a script says --yes.`,
		Example:           "  logtool offsets delete /var/lib/kafka billing --dry-run\n  logtool offsets delete /var/lib/kafka billing orders 3 --yes",
		Args:              args("DIR", "GROUP", "TOPIC?", "PARTITION?"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsWriteStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), args)
		},
	}
	opts.add(cmd)
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "tell what would be deleted, and delete nothing")
	cmd.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	return cmd
}

func (o *offsetsDeleteOptions) run(ctx context.Context, args []string) error {
	if !o.dryRun && !o.yes && !o.app.StdinTerminal {
		return UsageErrorf("nobody can be asked: say --yes to delete, or --dry-run to see what")
	}
	meant := func(offsetslog.TopicPartition) bool { return true }
	switch len(args) {
	case 3:
		meant = func(tp offsetslog.TopicPartition) bool { return tp.Topic == args[2] }
	case 4:
		one, err := topicPartition(args[2], args[3])
		if err != nil {
			return err
		}
		meant = func(tp offsetslog.TopicPartition) bool { return tp == one }
	}
	d, err := o.open(ctx, args[0])
	if err != nil {
		return err
	}
	return d.close(o.delete(ctx, d, args[1], meant, len(args) == 2))
}

func (o *offsetsDeleteOptions) open(ctx context.Context, path string) (*offsetsDir, error) {
	if o.dryRun {
		return o.look(ctx, path)
	}
	return o.change(ctx, path)
}

func (o *offsetsDeleteOptions) delete(ctx context.Context, d *offsetsDir, group string, meant func(offsetslog.TopicPartition) bool, all bool) error {
	g, err := d.DescribeGroup(ctx, group)
	if err != nil {
		if errors.Is(err, offsetslog.ErrGroupNotFound) {
			err = NotFoundf("no group %q", group)
		}
		return err
	}
	fetched, err := d.Fetch(ctx, offsetslog.FetchRequest{Group: group})
	if err != nil {
		return err
	}
	var gone []offsetslog.Fetched
	var tps []offsetslog.TopicPartition
	for _, f := range fetched {
		if meant(f.TopicPartition) {
			gone, tps = append(gone, f), append(tps, f.TopicPartition)
		}
	}
	if len(gone) == 0 && !all {
		return NotFoundf("group %q has no such committed offset", group)
	}
	if o.dryRun {
		if g.State != offsetslog.Empty {
			return fmt.Errorf("group %q has members, and a broker is at work: %w", group, offsetslog.ErrNonEmptyGroup)
		}
		return o.tell(group, gone, all)
	}
	if !o.yes {
		if err := o.ask(ctx, group, len(gone), all); err != nil {
			return err
		}
	}
	if err := d.empty(ctx, group); err != nil {
		return err
	}
	if all {
		err = d.DeleteGroup(ctx, group)
	} else {
		err = d.DeleteOffsets(ctx, group, tps)
	}
	if err != nil {
		return err
	}
	return o.tell(group, gone, all)
}

// ask asks the person at the terminal.
func (o *offsetsDeleteOptions) ask(ctx context.Context, group string, offsets int, all bool) error {
	what := plural(int64(offsets), "offset", "offsets") + " of group " + escaped(group)
	if all {
		what = "group " + escaped(group) + " with " + plural(int64(offsets), "offset", "offsets")
	}
	return o.app.confirm(ctx, "delete "+what+"?", "nothing was deleted")
}

func (o *offsetsDeleteOptions) tell(group string, gone []offsetslog.Fetched, all bool) error {
	out := o.app.Out
	deleted := "deleted"
	if o.dryRun {
		deleted = "would delete"
	}
	for _, f := range gone {
		var err error
		if out.JSON() {
			err = out.Emit(out.Object("deleted_offset").Text("group", group).Text("topic", f.Topic).
				Int("partition", int64(f.Partition)).Int("offset", f.Offset).Bool("dry_run", o.dryRun))
		} else {
			err = out.Linef("%s %s of %s (offset %d)", deleted, escaped(f.TopicPartition.String()), escaped(group), f.Offset)
		}
		if err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	if out.JSON() {
		return out.Emit(out.Object("deleted_group").Text("group", group).Int("offsets", int64(len(gone))).Bool("dry_run", o.dryRun))
	}
	return out.Linef("%s group %s", deleted, escaped(group))
}
