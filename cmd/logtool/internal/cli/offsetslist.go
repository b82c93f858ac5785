package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog/offsetslog"
	"github.com/seglog/seglog/record"
)

func newOffsetsGroupsCommand(app *App) *cobra.Command {
	flags := offsetsFlags{app: app}
	var limit int64
	cmd := &cobra.Command{
		Use:   "groups DIR",
		Short: "the groups, their state, and how many members and offsets they have",
		Long: `List the groups that have committed offsets, or had members.

STATE is what the log says while a broker is at work. When it has stopped nobody is a
member of any group, so all are Empty. Of groups of types other than Classic it is not
told more than whether they are.`,
		Example:           "  logtool offsets groups /var/lib/kafka\n  logtool offsets groups /var/lib/kafka -o json | jq -r .group",
		Args:              args("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsReadStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := flags.look(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return d.close(d.listGroups(cmd.Context(), limit))
		},
	}
	flags.add(cmd)
	addLimitFlag(cmd, &limit, "groups")
	return cmd
}

func (d *offsetsDir) listGroups(ctx context.Context, limit int64) error {
	groups, unread := d.find(ctx, nil)
	out := d.app.Out
	table := out.Table(Left("GROUP"), Left("TYPE"), Left("STATE"), Right("MEMBERS"), Right("OFFSETS"))
	for i, g := range groups {
		if int64(i) == limit {
			break
		}
		var err error
		if out.JSON() {
			err = out.Emit(out.Object("group").Text("group", g.Group).String("group_type", g.Type.String()).
				String("state", g.State.String()).Text("protocol_type", g.ProtocolType).
				Int("members", int64(g.MemberCount)).Int("offsets", int64(g.Offsets)))
		} else {
			err = table.Row(escaped(g.Group), g.Type.String(), g.State.String(), g.MemberCount, g.Offsets)
		}
		if err != nil {
			return err
		}
	}
	return endTable(out, table, len(groups), unread)
}

// endTable prints a table, and returns the error for what could not be part of it. If that
// is everything there is no table.
func endTable(out *Output, table *Table, rows int, unread error) error {
	if !out.JSON() && (rows > 0 || unread == nil) {
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return unread
}

func newOffsetsListCommand(app *App) *cobra.Command {
	flags := offsetsFlags{app: app}
	var groups []string
	var limit int64
	cmd := &cobra.Command{
		Use:   "list DIR",
		Short: "committed offsets, and how far they are behind",
		Long: `List what groups have committed, and compare it with the logs in the directory.

OFFSET is the next one to be read, NEXT the one the log gives out next, and LAG what is
between them. What is committed in a transaction counts once that has ended. An offset
that the log does not hold, since it begins above it or ends below, is out of range:
a consumer goes on where its auto.offset.reset says.`,
		Example:           "  logtool offsets list /var/lib/kafka --group billing\n  logtool offsets list /var/lib/kafka -o json | jq 'select(.lag > 1000)'",
		Args:              args("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsReadStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := flags.look(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return d.close(d.list(cmd.Context(), groups, limit))
		},
	}
	flags.add(cmd)
	addGroupFlag(cmd, &groups, "only those of this `GROUP`; may be repeated")
	addLimitFlag(cmd, &limit, "offsets")
	return cmd
}

func (d *offsetsDir) list(ctx context.Context, wanted []string, limit int64) error {
	groups, unread := d.find(ctx, wanted)
	out := d.app.Out
	table := out.Table(Left("GROUP"), Left("TOPIC"), Right("PARTITION"), Right("OFFSET"), Right("NEXT"), Right("LAG"), Left("COMMITTED"))
	for _, g := range groups {
		lags, err := d.Lags(ctx, g.Group)
		if err != nil {
			return err
		}
		for _, l := range lags {
			if limit--; limit < 0 {
				break
			}
			if out.JSON() {
				err = out.Emit(lagObject(out, g.Group, l))
			} else {
				err = table.Row(escaped(g.Group), escaped(l.Topic), l.Partition, l.Offset, orDash(l.End), orDash(l.Lag), timeTextSeconds(l.CommitTimestamp), lagRemark(l))
			}
			if err != nil {
				return err
			}
		}
		if err := interrupted(ctx); err != nil {
			return err
		}
	}
	return endTable(out, table, len(groups), unread)
}

// lagRemark says what is wrong with an offset.
func lagRemark(l offsetslog.Lag) string {
	switch {
	case errors.Is(l.Err, offsetslog.ErrUnknownPartition):
		return "no such log here"
	case l.Err != nil:
		return l.Err.Error()
	case l.OutOfRange:
		return "out of range"
	}
	return ""
}

// lagObject is a committed offset as JSON, the same wherever one is shown.
func lagObject(out *Output, group string, l offsetslog.Lag) *Object {
	obj := out.Object("committed_offset").Text("group", group).Text("topic", l.Topic).Int("partition", int64(l.Partition)).
		Int("offset", l.Offset)
	optionalInt(obj, "next_offset", l.End)
	optionalInt(obj, "lag", l.Lag)
	obj.Bool("out_of_range", l.OutOfRange).Time("committed", l.CommitTimestamp)
	optionalInt(obj, "leader_epoch", int64(l.LeaderEpoch))
	obj.Bytes("metadata", []byte(l.Metadata)).Time("expires", l.ExpireTimestamp)
	if l.Err != nil {
		obj.Text("error", l.Err.Error())
	}
	return obj
}

func newOffsetsGetCommand(app *App) *cobra.Command {
	flags := offsetsFlags{app: app}
	cmd := &cobra.Command{
		Use:               "get DIR GROUP TOPIC PARTITION",
		Short:             "one committed offset, with all that is kept of it",
		Example:           "  logtool offsets get /var/lib/kafka billing orders 0\n  logtool offsets get /var/lib/kafka billing orders 0 -o json | jq .offset",
		Args:              args("DIR", "GROUP", "TOPIC", "PARTITION"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsReadStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			tp, err := topicPartition(args[2], args[3])
			if err != nil {
				return err
			}
			d, err := flags.look(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return d.close(d.get(cmd.Context(), args[1], tp))
		},
	}
	flags.add(cmd)
	return cmd
}

func (d *offsetsDir) get(ctx context.Context, group string, tp offsetslog.TopicPartition) error {
	lags, err := d.Lags(ctx, group)
	if err != nil {
		return err
	}
	for _, l := range lags {
		if l.TopicPartition == tp {
			return d.show(group, l)
		}
	}
	return NotFoundf("no committed offset for group %q, topic %q, partition %d", group, tp.Topic, tp.Partition)
}

func (d *offsetsDir) show(group string, l offsetslog.Lag) error {
	out := d.app.Out
	if out.JSON() {
		return out.Emit(lagObject(out, group, l))
	}
	table := out.Table(Left(""), Left("")).Plain()
	table.Row("offset", l.Offset)
	table.Row("next", orDash(l.End), lagRemark(l))
	table.Row("lag", orDash(l.Lag))
	table.Row("committed", timeText(l.CommitTimestamp))
	if l.ExpireTimestamp != record.NoTimestamp {
		table.Row("expires", timeText(l.ExpireTimestamp))
	}
	table.Row("leader epoch", orDash(int64(l.LeaderEpoch)))
	table.Row("metadata", quoted([]byte(l.Metadata), 0))
	return table.Flush()
}
