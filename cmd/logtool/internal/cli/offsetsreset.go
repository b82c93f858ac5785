package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog/offsetslog"
)

// resetFlags are those of the commands that move offsets.
type resetFlags struct {
	offsetsFlags
	clamp, execute bool
}

func (f *resetFlags) add(cmd *cobra.Command) {
	f.offsetsFlags.add(cmd)
	cmd.Flags().BoolVar(&f.clamp, "clamp", false, "take the nearest offset of the log for one that it does not hold, as Kafka's tool does")
	cmd.Flags().BoolVar(&f.execute, "execute", false, "commit the offsets, and do not only tell what they would be")
}

// open is for a look, or with --execute for a change.
func (f *resetFlags) open(ctx context.Context, path string) (*offsetsDir, error) {
	if f.execute {
		return f.change(ctx, path)
	}
	return f.look(ctx, path)
}

type offsetsResetOptions struct {
	resetFlags
	groups, topics                   []string
	allGroups                        bool
	toEarliest, toLatest, toCurrent  bool
	toOffset, shiftBy                int64
	toDatetime, byDuration, fromFile string
}

// resetModes are the flags of which one says where to.
var resetModes = []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}

func newOffsetsResetCommand(app *App) *cobra.Command {
	opts := offsetsResetOptions{resetFlags: resetFlags{offsetsFlags: offsetsFlags{app: app}}}
	cmd := &cobra.Command{
		Use:   "reset DIR (--group GROUP | --all-groups) MODE",
		Short: "move committed offsets, to the start, the end, a time, ...",
		Long: `Move what groups have committed. Nothing is changed without --execute: the table says
what would be.

The flags are those of kafka-consumer-groups.sh --reset-offsets. Moved are the offsets
of the topics that --topic names, or all that the group has committed. A partition
whose log does not hold the new offset is left as it is, unless --clamp takes the
nearest one, as Kafka's tool always does.

A group with members cannot be reset. When the broker has stopped it has none.`,
		Example: `  logtool offsets reset /var/lib/kafka --group billing --to-earliest
  logtool offsets reset /var/lib/kafka --group billing --topic orders:0,1 --shift-by -100 --execute`,
		Args:              args("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsWriteStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd, args[0])
		},
	}
	opts.add(cmd)
	flags := cmd.Flags()
	addGroupFlag(cmd, &opts.groups, "move what this `GROUP` has committed; may be repeated")
	flags.BoolVar(&opts.allGroups, "all-groups", false, "move what any group has committed")
	flags.StringArrayVar(&opts.topics, "topic", nil, "only those of this `TOPIC`, or of some of its partitions, as in orders:0,1; may be repeated")
	flags.BoolVar(&opts.toEarliest, "to-earliest", false, "to the start of the log")
	flags.BoolVar(&opts.toLatest, "to-latest", false, "to the end of the log")
	flags.BoolVar(&opts.toCurrent, "to-current", false, "to where they are, or the end of the log where nothing is committed")
	flags.Int64Var(&opts.toOffset, "to-offset", 0, "to this `OFFSET`")
	flags.Int64Var(&opts.shiftBy, "shift-by", 0, "by `N` up, or down if it is negative")
	flags.StringVar(&opts.toDatetime, "to-datetime", "", "to the first record at a `TIME`, or the end of the log: RFC 3339, without a zone UTC, or a date")
	flags.StringVar(&opts.byDuration, "by-duration", "", "to the first record since a `DURATION` ago: 36h, 7d, P7D or PT36H")
	flags.StringVar(&opts.fromFile, "from-file", "", "to the offsets in a CSV `FILE`, see import")
	cmd.MarkFlagsMutuallyExclusive(resetModes...)
	cmd.MarkFlagsOneRequired(resetModes...)
	cmd.MarkFlagsMutuallyExclusive("group", "all-groups")
	for _, name := range []string{"topic", "to-offset", "shift-by", "to-datetime", "by-duration"} {
		completeFlag(cmd, name)
	}
	return cmd
}

func (o *offsetsResetOptions) run(cmd *cobra.Command, path string) error {
	if o.fromFile != "" {
		if len(o.topics) > 0 || o.allGroups || len(o.groups) > 1 {
			return UsageErrorf("--from-file says which offsets are meant, and goes with one --group for lines that name none")
		}
		i := offsetsImportOptions{resetFlags: o.resetFlags, group: strings.Join(o.groups, "")}
		return i.run(cmd.Context(), path, o.fromFile)
	}
	if len(o.groups) == 0 && !o.allGroups {
		return UsageErrorf("say which groups: --group or --all-groups")
	}
	to, err := o.target(cmd)
	if err != nil {
		return err
	}
	topics, err := parseTopics(o.topics)
	if err != nil {
		return err
	}
	d, err := o.open(cmd.Context(), path)
	if err != nil {
		return err
	}
	return d.close(o.reset(cmd.Context(), d, to, topics))
}

func (o *offsetsResetOptions) target(cmd *cobra.Command) (offsetslog.Target, error) {
	switch {
	case o.toEarliest:
		return offsetslog.ToEarliest(), nil
	case o.toLatest:
		return offsetslog.ToLatest(), nil
	case o.toCurrent:
		return offsetslog.ToCurrent(), nil
	case cmd.Flags().Changed("to-offset"):
		return offsetslog.ToOffset(o.toOffset), nil
	case cmd.Flags().Changed("shift-by"):
		return offsetslog.ShiftBy(o.shiftBy), nil
	case o.toDatetime != "":
		ms, err := parseDatetime(o.toDatetime, o.app.Now())
		if err != nil {
			return offsetslog.Target{}, UsageErrorf("--to-datetime %q: %w", o.toDatetime, err)
		}
		return offsetslog.ToTime(time.UnixMilli(ms)), nil
	case o.byDuration != "":
		d, err := parseDuration(o.byDuration)
		if err != nil {
			return offsetslog.Target{}, UsageErrorf("--by-duration %q: %w", o.byDuration, err)
		}
		return offsetslog.ByDuration(d), nil
	}
	return offsetslog.Target{}, UsageErrorf("say where to: --%s", strings.Join(resetModes, ", --")) // a flag set to false
}

// parseDatetime reads what parseTime does, and the times of Kafka's tool, which need no
// zone. (Utils.getDateTime)
func parseDatetime(s string, now time.Time) (int64, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999", "2006-01-02T15:04:05.999Z0700", "2006-01-02T15:04:05.999Z07"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return parseTime(s, now)
}

var isoDuration = regexp.MustCompile(`(?i)^([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:\.(\d{1,9}))?S)?)?$`)

// parseDuration reads how long ago something was: as for --older-than of trim, or as
// java.time.Duration does.
func parseDuration(s string) (time.Duration, error) {
	var age ageFlag
	if err := age.Set(s); err == nil {
		return time.Duration(age), nil
	}
	bad := errors.New("want a duration, such as 36h, 7d, P7D or PT1H30M")
	m := isoDuration.FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(strings.ToUpper(s), "T") || strings.Join(m[2:], "") == "" {
		return 0, bad
	}
	total := 0.0
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, err := strconv.ParseFloat("0"+strings.TrimLeft(m[i+2], "+-"), 64)
		if err != nil {
			return 0, bad
		}
		if strings.HasPrefix(m[i+2], "-") {
			n = -n
		}
		total += n * float64(unit)
	}
	fraction, _ := strconv.ParseFloat("0."+m[6]+"0", 64)
	if strings.HasPrefix(m[5], "-") {
		fraction = -fraction
	}
	if total += fraction * float64(time.Second); m[1] == "-" {
		total = -total
	}
	if math.Abs(total) > math.MaxInt64/2 {
		return 0, bad
	}
	return time.Duration(total), nil
}

// parseTopics reads topics with the partitions that are meant; none are all, also if
// some are named as well.
func parseTopics(args []string) (map[string][]int32, error) {
	topics := map[string][]int32{}
	all := map[string]bool{}
	for _, arg := range args {
		topic, list, some := strings.Cut(arg, ":")
		if all[topic] = all[topic] || !some; all[topic] {
			topics[topic] = nil
		}
		if !some {
			continue
		}
		for _, s := range strings.Split(list, ",") {
			n, err := parsePartition(s)
			if err != nil {
				return nil, err
			}
			if !all[topic] {
				topics[topic] = append(topics[topic], n)
			}
		}
	}
	return topics, nil
}

// reset moves the offsets of one group after the other.
func (o *offsetsResetOptions) reset(ctx context.Context, d *offsetsDir, to offsetslog.Target, topics map[string][]int32) error {
	groups := once(o.groups)
	if o.allGroups {
		all, err := d.find(ctx, nil)
		if err != nil {
			return err
		}
		for _, g := range all {
			if len(topics) > 0 || g.Offsets > 0 {
				groups = append(groups, g.Group)
			}
		}
	}
	t := d.resetTable(&o.resetFlags)
	for _, group := range groups {
		r := offsetslog.ResetRequest{Group: group, To: to}
		if len(topics) > 0 {
			tps, err := d.partitionsOf(ctx, group, topics)
			if err != nil {
				return t.end(err)
			}
			r.Partitions = tps
		}
		if err := t.reset(ctx, r); err != nil {
			return t.end(err)
		}
	}
	return t.end(nil)
}

// partitionsOf lists the partitions of topics: those that are named, or all that are in
// the directory, or have a committed offset.
func (d *offsetsDir) partitionsOf(ctx context.Context, group string, topics map[string][]int32) ([]offsetslog.TopicPartition, error) {
	committed, err := d.Fetch(ctx, offsetslog.FetchRequest{Group: group})
	if err != nil {
		return nil, err
	}
	known := slices.Clone(d.partitions)
	for _, f := range committed {
		known = append(known, f.TopicPartition)
	}
	var tps []offsetslog.TopicPartition
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		from := len(tps)
		for _, n := range topics[topic] {
			tps = append(tps, offsetslog.TopicPartition{Topic: topic, Partition: n})
		}
		for _, tp := range known {
			if tp.Topic == topic && topics[topic] == nil {
				tps = append(tps, tp)
			}
		}
		if len(tps) == from {
			return nil, NotFoundf("no partition of topic %q is here", topic)
		}
		slices.SortFunc(tps[from:], func(a, b offsetslog.TopicPartition) int { return int(a.Partition) - int(b.Partition) })
		tps = append(tps[:from], slices.Compact(tps[from:])...)
	}
	return tps, nil
}

// resetTable moves offsets and tells what was done.
type resetTable struct {
	*offsetsDir
	flags  *resetFlags
	table  *Table
	rows   int
	failed int
	damage bool // is why, for some
}

func (d *offsetsDir) resetTable(flags *resetFlags) *resetTable {
	return &resetTable{d, flags, d.app.Out.Table(Left("GROUP"), Left("TOPIC"), Right("PARTITION"), Right("OLD"), Right("NEW"), Right("LAG")), 0, 0, false}
}

func (t *resetTable) reset(ctx context.Context, r offsetslog.ResetRequest) error {
	r.Clamp, r.Execute = t.flags.clamp, t.flags.execute
	if r.Execute {
		if err := t.empty(ctx, r.Group); err != nil {
			return err
		}
	}
	rows, err := t.Reset(ctx, r)
	if err != nil {
		return fmt.Errorf("group %q: %w", r.Group, err)
	}
	if len(rows) == 0 {
		return NotFoundf("group %q has no committed offset", r.Group)
	}
	for _, row := range rows {
		if t.rows++; row.Err != nil {
			t.failed++
			t.damage = t.damage || isDamage(row.Err)
		}
		if err := t.row(r.Group, row); err != nil {
			return err
		}
	}
	return nil
}

func (t *resetTable) row(group string, row offsetslog.ResetRow) error {
	out, tp := t.app.Out, row.Before.TopicPartition
	if out.JSON() {
		obj := out.Object("reset").Text("group", group).Text("topic", tp.Topic).Int("partition", int64(tp.Partition))
		optionalInt(obj, "old_offset", row.Before.Offset)
		optionalInt(obj, "offset", row.Offset)
		optionalInt(obj, "lag", row.Lag)
		obj.Bool("clamped", row.Clamped).Bool("dry_run", !t.flags.execute)
		if row.Err != nil {
			obj.Text("error", row.Err.Error())
		}
		return out.Emit(obj)
	}
	remark := any("")
	switch {
	case row.Err != nil:
		remark = Styled(Bad, row.Err.Error())
	case row.Clamped:
		remark = "clamped"
	}
	return t.table.Row(escaped(group), escaped(tp.Topic), tp.Partition, orDash(row.Before.Offset), orDash(row.Offset), orDash(row.Lag), remark)
}

// end prints the table, also if it ends early with err: what it has was done.
func (t *resetTable) end(err error) error {
	if err := endTable(t.app.Out, t.table, t.rows, err); err != nil {
		return err
	}
	if !t.flags.execute && !t.app.quiet {
		t.app.sayf("nothing was changed (dry run); --execute does it")
	}
	if t.failed > 0 {
		tell := NotFoundf
		if t.damage {
			tell = Damagef
		}
		return tell("%s left as %s", plural(int64(t.failed), "offset is", "offsets are"), map[bool]string{true: "it is", false: "they are"}[t.failed == 1])
	}
	return nil
}

func newOffsetsExportCommand(app *App) *cobra.Command {
	flags := offsetsFlags{app: app}
	var groups []string
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "committed offsets as CSV, for import and for Kafka's tool",
		Long: `Print what groups have committed as lines of topic,partition,offset, with the group in
front if there are several: what kafka-consumer-groups.sh reads with --from-file, and
import reads back.`,
		Example:           "  logtool offsets export /var/lib/kafka --group billing > billing.csv",
		Args:              args("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus(offsetsReadStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			if app.Out.JSON() {
				return UsageErrorf("export prints CSV; list -o json prints JSON")
			}
			d, err := flags.look(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return d.close(d.export(cmd.Context(), groups))
		},
	}
	flags.add(cmd)
	addGroupFlag(cmd, &groups, "only those of this `GROUP`; may be repeated")
	return cmd
}

func (d *offsetsDir) export(ctx context.Context, wanted []string) error {
	groups, err := d.find(ctx, wanted)
	if err != nil {
		return err
	}
	var all []offsetslog.GroupOffset
	for _, g := range groups {
		fetched, err := d.Fetch(ctx, offsetslog.FetchRequest{Group: g.Group})
		if err != nil {
			return err
		}
		for _, f := range fetched {
			all = append(all, offsetslog.GroupOffset{Group: g.Group, TopicPartition: f.TopicPartition, Offset: f.Offset})
		}
	}
	return offsetslog.WriteCSV(d.app.Out, all)
}

type offsetsImportOptions struct {
	resetFlags
	group string
}

func newOffsetsImportCommand(app *App) *cobra.Command {
	opts := offsetsImportOptions{resetFlags: resetFlags{offsetsFlags: offsetsFlags{app: app}}}
	cmd := &cobra.Command{
		Use:   "import DIR FILE",
		Short: "commit the offsets of a CSV file",
		Long: `Commit the offsets in a file that export has written, or kafka-consumer-groups.sh
--export. - is standard input. Nothing is changed without --execute: the table says
what would be. Offsets that a log does not hold are treated as reset does.`,
		Example:           "  logtool offsets import /var/lib/kafka billing.csv --group billing --execute",
		Args:              args("DIR", "FILE"),
		ValidArgsFunction: completeDirThenFile,
		Annotations:       exitStatus(offsetsWriteStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), args[0], args[1])
		},
	}
	opts.add(cmd)
	cmd.Flags().StringVar(&opts.group, "group", "", "the `GROUP` of lines that name none")
	completeFlag(cmd, "group")
	return cmd
}

func completeDirThenFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case 1:
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (o *offsetsImportOptions) run(ctx context.Context, path, file string) error {
	offsets, err := o.read(file)
	if err != nil {
		return err
	}
	d, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	return d.close(o.reset(ctx, d, offsets))
}

// read returns the offsets of a file by group.
func (o *offsetsImportOptions) read(file string) (map[string]map[offsetslog.TopicPartition]int64, error) {
	in := io.NopCloser(o.app.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		in = f
	}
	lines, err := offsetslog.ReadCSV(in, o.group)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	byGroup := map[string]map[offsetslog.TopicPartition]int64{}
	for _, l := range lines {
		if l.Group == "" {
			return nil, UsageErrorf("%s does not name groups: say --group", file)
		}
		if byGroup[l.Group] == nil {
			byGroup[l.Group] = map[offsetslog.TopicPartition]int64{}
		}
		if _, twice := byGroup[l.Group][l.TopicPartition]; twice {
			return nil, UsageErrorf("%s has two offsets of group %q for %s", file, l.Group, l.TopicPartition)
		}
		byGroup[l.Group][l.TopicPartition] = l.Offset
	}
	if len(byGroup) == 0 {
		return nil, UsageErrorf("%s has no offsets", file)
	}
	return byGroup, nil
}

func (o *offsetsImportOptions) reset(ctx context.Context, d *offsetsDir, offsets map[string]map[offsetslog.TopicPartition]int64) error {
	t := d.resetTable(&o.resetFlags)
	for _, group := range slices.Sorted(maps.Keys(offsets)) {
		tps := slices.SortedFunc(maps.Keys(offsets[group]), func(a, b offsetslog.TopicPartition) int {
			if c := strings.Compare(a.Topic, b.Topic); c != 0 {
				return c
			}
			return int(a.Partition) - int(b.Partition)
		})
		r := offsetslog.ResetRequest{Group: group, Partitions: tps, To: offsetslog.ToOffsets(offsets[group])}
		if err := t.reset(ctx, r); err != nil {
			return t.end(err)
		}
	}
	return t.end(nil)
}
