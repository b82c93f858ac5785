package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/offsetslog"
)

func newOffsetsCommand(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offsets COMMAND",
		Short: "what consumer groups have read: look, set, reset, delete, copy",
		Long: `Look at the committed offsets of consumer groups, and change them.

DIR is a log directory: the one of a broker that log.dirs names, or that of a
seglog.Dir. The offsets are in the partitions of __consumer_offsets in it, and the logs
that they are about beside them. Looking takes no lock and a broker may be at work;
changing needs the directory for itself, so a broker has to be stopped.

A broker that has stopped has no consumers: groups that had members when it did are
shown as empty, and may be changed. Consumers that are still there join again when it
is back, and begin at the offsets they find then.

A directory of one broker of several, or one of several of a broker, has only some of
the partitions, and the groups of the others are not there: commands that go through
all groups say how many partitions are missing. From those that are there it cannot be
seen how many there are. 50 is taken, as is Kafka's default, unless the groups that are
there say otherwise, or --partitions N. A number that cannot be right is noticed.`,
		Example:     "  logtool offsets list /var/lib/kafka\n  logtool offsets reset /var/lib/kafka --group billing --to-earliest",
		GroupID:     groupOffsets,
		Args:        noCommand,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations: exitStatus("0 done, others as its commands say."),
	}
	for _, command := range []func(*App) *cobra.Command{
		newOffsetsGroupsCommand, newOffsetsListCommand, newOffsetsGetCommand, newOffsetsDumpCommand, newOffsetsExportCommand,
		newOffsetsSetCommand, newOffsetsResetCommand, newOffsetsImportCommand, newOffsetsDeleteCommand,
	} {
		cmd.AddCommand(command(app))
	}
	return cmd
}

const (
	offsetsReadStatus  = "0 done, 1 could not read, 2 usage, 3 some of it cannot be read for damage,\n4 there is no such group or offset."
	offsetsWriteStatus = "0 done, 1 could not write, or not allowed, 2 usage, 3 some of it cannot be read for\n" +
		"damage, 4 there is no such group, partition or offset, 5 locked by another process."
)

// offsetsFlags are those of every command that opens the offsets of a directory.
type offsetsFlags struct {
	app        *App
	partitions int64
}

func (f *offsetsFlags) add(cmd *cobra.Command) {
	addCountFlag(cmd, &f.partitions, "partitions", "", "how many partitions __consumer_offsets has")
	cmd.Flag("partitions").DefValue = ""
}

// offsetsDir is a log directory whose offsets are looked at, or changed.
type offsetsDir struct {
	*offsetslog.Store
	app  *App
	path string
	logs *lookLogs   // of a look
	dir  *seglog.Dir // of a change
	offsetsPlace
}

// offsetsPlace is what is found in a log directory before its offsets are opened.
type offsetsPlace struct {
	// partitions are those in the directory, of all topics.
	partitions []offsetslog.TopicPartition
	broker     bool // it is a broker's, which has other partitions elsewhere
	count      int32
	are        int32 // partitions of __consumer_offsets
}

// usualPartitions is offsets.topic.num.partitions unless it is set.
const usualPartitions = 50

// missing is how many partitions of __consumer_offsets are elsewhere.
func (p *offsetsPlace) missing() int32 {
	if !p.broker {
		return 0 // they are made when they are first written to
	}
	return p.count - p.are
}

// place looks at a directory. Of those of brokers it takes the usual number of partitions
// if some below the last one are not there; the store looks whether that fits.
func (f *offsetsFlags) place(path string) (p offsetsPlace, err error) {
	d, isDir, err := findLogDir(f.app, path)
	if err != nil {
		return p, err
	}
	if !isDir {
		return p, Hint(fmt.Errorf("%s is not a log directory", path), "name the directory that has a folder for each partition, such as __consumer_offsets-0")
	}
	last := int32(-1)
	for _, dir := range d.partitions {
		p.partitions = append(p.partitions, offsetslog.TopicPartition{Topic: dir.Topic, Partition: dir.Partition})
		if dir.Topic == offsetslog.Topic {
			p.are++
			last = max(last, dir.Partition)
		}
	}
	_, err = f.app.FS.Stat(filepath.Join(path, layout.MetaPropertiesName))
	p.broker = err == nil
	switch {
	case f.partitions > int64(1<<31-1):
		return p, UsageErrorf("--partitions %d: too many", f.partitions)
	case f.partitions > 0:
		p.count = int32(f.partitions)
	default: // a number that no topic has is refused by the store
		p.count = int32(min(int64(last)+1, math.MaxInt32))
		if p.broker && p.are < p.count {
			p.count = max(p.count, usualPartitions)
		}
	}
	if f.partitions > 0 && p.count <= last {
		return p, UsageErrorf("--partitions %d: there is %s-%d", f.partitions, offsetslog.Topic, last)
	}
	return p, nil
}

// look opens the offsets for reading. The caller closes them.
func (f *offsetsFlags) look(ctx context.Context, path string) (*offsetsDir, error) {
	p, err := f.place(path)
	if err == nil && p.are == 0 {
		err = fmt.Errorf("%s has no partition of %s", path, offsetslog.Topic)
	}
	if err != nil {
		return nil, err
	}
	if err := f.settle(ctx, path, &p); err != nil {
		return nil, err
	}
	f.app.Verbosef("opening %d of %d partitions of %s in %s read-only", p.are, p.count, offsetslog.Topic, path)
	return f.openToLook(path, p)
}

func (f *offsetsFlags) openToLook(path string, p offsetsPlace) (d *offsetsDir, err error) {
	d = &offsetsDir{app: f.app, path: path, offsetsPlace: p, logs: &lookLogs{app: f.app, path: path, open: map[string]*seglog.Log{}}}
	d.Store, err = offsetslog.OpenReadOnly(d.logs, p.count, offsetslog.Options{
		Partitions: p.count, Elsewhere: p.broker, MembersGone: !dirHeldByWriter(f.app.FS, path),
	})
	return d, err
}

// settle decides how many partitions a broker has whose first few are all there. They may
// be all. But the groups of the first 25 of 50 would be in the same places among 25, so
// groups that fit do not speak for 25; only one that does not fit the usual number speaks
// against that.
func (f *offsetsFlags) settle(ctx context.Context, path string, p *offsetsPlace) error {
	if !p.broker || f.partitions > 0 || p.are == 0 || p.count >= usualPartitions {
		return nil
	}
	d, err := f.openToLook(path, *p)
	if err != nil {
		return err
	}
	groups, _ := d.Groups(ctx) // what cannot be read is told of later
	if err := errors.Join(ctx.Err(), d.logs.close()); err != nil {
		return err
	}
	for _, g := range groups {
		if offsetslog.PartitionFor(g.Group, usualPartitions) != offsetslog.PartitionFor(g.Group, p.count) {
			return nil
		}
	}
	if len(groups) > 0 {
		p.count = usualPartitions
	}
	return nil
}

// change opens the offsets for writing, with the lock of the directory. The caller closes
// them. A log from which good batches would be cut is not opened, neither one of offsets
// nor one that they are about.
func (f *offsetsFlags) change(ctx context.Context, path string) (*offsetsDir, error) {
	p, err := f.place(path)
	if err == nil && p.are == 0 && p.broker {
		err = fmt.Errorf("%s has no partition of %s: no group has ever committed an offset, or they are elsewhere", path, offsetslog.Topic)
	}
	if err == nil {
		err = f.settle(ctx, path, &p)
	}
	if err != nil {
		return nil, err
	}
	f.app.Verbosef("opening %s for writing", path)
	d := &offsetsDir{app: f.app, path: path, offsetsPlace: p}
	opts := seglog.DirOptions{ManualMaintenance: true, Log: seglog.Options{RefuseCut: true}}
	d.dir, err = seglog.OpenDir(path, offsetslog.Configure(opts))
	if err != nil {
		return nil, err
	}
	d.Store, err = offsetslog.Open(d.dir, offsetslog.Options{
		Partitions: p.count, Elsewhere: p.broker, RetentionCheckInterval: -1, Retention: -1, InitialRebalanceDelay: -1,
	})
	if err != nil {
		return nil, errors.Join(err, d.dir.Close())
	}
	if p.broker && f.partitions == 0 {
		if err := d.vouch(ctx, p.count); err != nil {
			return nil, d.close(err)
		}
	}
	return d, nil
}

// vouch makes sure that the number of partitions is right which was taken for that of a
// broker, before a group is written to the place that follows from it: the groups that
// are there must agree.
func (d *offsetsDir) vouch(ctx context.Context, count int32) error {
	err := d.Load(ctx)
	var misplaced *offsetslog.MisplacedError
	switch {
	case ctx.Err() != nil, errors.As(err, &misplaced):
		return err
	case d.Stats().Groups > 0: // a partition that cannot be read costs no other
		return nil
	case err != nil:
		return err
	}
	return Hint(fmt.Errorf("there is no group yet, and so nothing says that %s has %s", offsetslog.Topic, plural(int64(count), "partition", "partitions")),
		"say --partitions N, what the broker has as offsets.topic.num.partitions")
}

// close ends the use of the directory with err, and tells what of the offsets could not
// be read, and what was done to the logs that were opened for writing.
func (d *offsetsDir) close(err error) error {
	st := d.Stats()
	var errs []error
	if d.dir != nil {
		errs = append(errs, d.tellRecoveries())
	}
	if errs = append(errs, d.Store.Close()); d.dir != nil {
		errs = append(errs, d.dir.Close())
	} else {
		errs = append(errs, d.logs.close())
	}
	if err == nil {
		err = errors.Join(errs...)
	}
	var misplaced *offsetslog.MisplacedError
	if errors.As(err, &misplaced) {
		err = Hint(misplaced, "say --partitions N, what the broker has as offsets.topic.num.partitions")
	}
	if errors.Is(err, seglog.ErrCorrupt) {
		err = Hint(err, "logtool verify "+d.path+", and logtool repair of what it finds damaged")
	}
	if err != nil {
		return err
	}
	for _, problem := range st.Problems {
		d.app.sayf("%v", problem)
	}
	if st.Undecodable > 0 {
		d.app.Warnf("%s could not be decoded and does not count", plural(int64(st.Undecodable), "record", "records"))
	}
	if st.Damaged > 0 {
		return Hint(Damagef("%s of %s cannot be read: what they say is missing here", plural(int64(st.Damaged), "place", "places"), offsetslog.Topic),
			"logtool verify "+d.path)
	}
	return nil
}

// tellRecoveries says what was found and done when logs were opened for writing: those of
// offsets, and those that they are about.
func (d *offsetsDir) tellRecoveries() error {
	for _, p := range d.dir.Partitions() {
		if !p.Open {
			continue
		}
		log, err := d.dir.Partition(p.Topic, p.Partition)
		if err == nil {
			err = d.app.tellRecovery(filepath.Join(d.path, p.Name), log)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookLogs opens the logs of a directory for reading, when they are asked for.
type lookLogs struct {
	app  *App
	path string
	open map[string]*seglog.Log
}

// Partition implements offsetslog.Logs. Topics come from what somebody has stored: one
// that cannot be the name of a folder has none.
func (l *lookLogs) Partition(topic string, n int32) (*seglog.Log, error) {
	name, err := layout.Dir{Topic: topic, Partition: n}.Name()
	if err != nil {
		return nil, seglog.ErrNoPartition
	}
	if log := l.open[name]; log != nil {
		return log, nil
	}
	log, err := seglog.Open(filepath.Join(l.path, name), seglog.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seglog.ErrNoPartition
	}
	if err == nil {
		l.open[name] = log
	}
	return log, err
}

func (l *lookLogs) close() error {
	var errs []error
	for _, log := range l.open {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

// empty takes the members out of a group that is about to be changed: whoever had the
// directory before does not have it now.
func (d *offsetsDir) empty(ctx context.Context, group string) error {
	g, err := d.DescribeGroup(ctx, group)
	if errors.Is(err, offsetslog.ErrGroupNotFound) {
		return nil
	}
	if err != nil || g.State == offsetslog.Empty {
		return err
	}
	d.app.Warnf("group %q had %s when its broker stopped, and is taken for empty", group, plural(int64(g.MemberCount), "member", "members"))
	return d.RemoveMembers(ctx, group)
}

// find returns the groups that are asked for, each once, or all if none are. With all that
// can be read comes the error for the rest.
func (d *offsetsDir) find(ctx context.Context, wanted []string) (found []offsetslog.GroupListing, err error) {
	if len(wanted) == 0 {
		d.tellMissing()
		return d.Groups(ctx)
	}
	for _, name := range once(wanted) {
		g, err := d.DescribeGroup(ctx, name)
		if errors.Is(err, offsetslog.ErrGroupNotFound) {
			return nil, NotFoundf("no group %q", name)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, g.GroupListing)
	}
	return found, nil
}

// tellMissing says that what follows is not all there is.
func (d *offsetsDir) tellMissing() {
	if n := d.missing(); n > 0 {
		d.app.Warnf("%d of %s of %s are not in %s: their groups are left out; they are in another of log.dirs, or on another broker",
			n, plural(int64(d.count), "partition", "partitions"), offsetslog.Topic, d.path)
	}
}

// once leaves out what has been there before.
func once(names []string) (first []string) {
	for _, name := range names {
		if !slices.Contains(first, name) {
			first = append(first, name)
		}
	}
	return first
}

// addGroupFlag adds --group, which may be repeated.
func addGroupFlag(cmd *cobra.Command, groups *[]string, usage string) {
	cmd.Flags().StringArrayVar(groups, "group", nil, usage)
	completeFlag(cmd, "group")
}

// args wants these arguments, the last of which may be left out if they end with ?.
func args(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasSuffix(name, "?") {
				return fmt.Errorf("missing argument %s", name)
			}
		}
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

func parsePartition(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, UsageErrorf("%q is no number of a partition", s)
	}
	return int32(n), nil
}

// topicPartition reads the arguments TOPIC PARTITION.
func topicPartition(topic, partition string) (offsetslog.TopicPartition, error) {
	n, err := parsePartition(partition)
	return offsetslog.TopicPartition{Topic: topic, Partition: n}, err
}
