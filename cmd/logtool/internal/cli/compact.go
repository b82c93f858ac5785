package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
)

func newCompactCommand(app *App) *cobra.Command {
	opts := compactOptions{app: app}
	cmd := &cobra.Command{
		Use:   "compact DIR",
		Short: "run compaction now",
		Long: `Keep the last record of each key, as Kafka's log cleaner does, in all segments but the
active one. Offsets do not change. Records without a key go.

A tombstone, a record without a value, is kept for --delete-retention from the first
time that compaction comes upon it. It goes the next time after that: --full has the
whole log gone through again, though nothing is dirty.

Of a log directory the partitions of the topics named by --topic are compacted, and its
checkpoint follows, so that a broker goes on from there. Nothing else in it is: which
topics are to be compacted is not known to it, and the others would lose records.

Nothing is lost when it is interrupted. It takes 24 bytes of memory for each different
key in the dirty part of the log; with less than that it goes through the log more than
once.`,
		Example: "  logtool compact orders-0 --dry-run\n  logtool compact orders-0 --delete-retention 36h\n" +
			"  logtool compact /var/lib/kafka/data --topic users",
		GroupID:           groupChange,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not write, 2 usage, 3 damage keeps a log from being compacted, 4 there is no\n" +
			"such topic, 5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.Var((*ageFlag)(&opts.minLag), "min-lag", "leave records alone that are younger, such as 90m or 7d")
	flags.Var((*ageFlag)(&opts.deleteRetention), "delete-retention", "how long tombstones stay, such as 36h or 7d (default 1d)")
	flags.Var((*sizeFlag)(&opts.mapBytes), "map-bytes", "memory for keys (default 128MiB)")
	flags.Var((*sizeFlag)(&opts.segmentBytes), "segment-bytes", "the size up to which segments are merged (default 1GiB)")
	flags.Var((*sizeFlag)(&opts.rate), "max-rate", "read and write no more than this each second, together")
	flags.BoolVar(&opts.full, "full", false, "go through what is clean already, too")
	flags.StringArrayVar(&opts.topics, "topic", nil, "of a log directory, a topic to compact; may be given more than once")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "tell what would be left, and change nothing")
	for _, name := range []string{"min-lag", "delete-retention", "map-bytes", "segment-bytes", "max-rate"} {
		completeFlag(cmd, name)
	}
	return cmd
}

type compactOptions struct {
	app                          *App
	minLag, deleteRetention      time.Duration
	mapBytes, segmentBytes, rate int64
	full, dryRun                 bool
	topics                       []string
}

func (o *compactOptions) run(ctx context.Context, dir string) error {
	if roof, ok, err := findLogDir(o.app, dir); err == nil && ok {
		return o.all(ctx, roof)
	}
	if len(o.topics) > 0 {
		return UsageErrorf("--topic is about a log directory, and %s is none", dir)
	}
	log, err := o.open(dir)
	if err != nil {
		return err
	}
	res, err := o.compact(ctx, log, dir)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	return o.tell(res, "")
}

// all compacts partitions of a log directory. One that is damaged costs the others
// nothing.
func (o *compactOptions) all(ctx context.Context, roof *logDir) error {
	chosen, err := o.choose(roof)
	if err != nil {
		return err
	}
	open, shut := o.openReadOnly(roof), func() error { return nil }
	if !o.dryRun {
		if open, shut, err = o.openAll(roof.path); err != nil {
			return err
		}
	}
	damaged := 0
	for _, p := range chosen {
		if err = o.one(ctx, roof.dir(p), func() (*seglog.Log, error) { return open(p) }); isDamage(err) {
			damaged++
			o.app.sayf("%v", err)
			err = nil
		}
		if err != nil {
			break
		}
	}
	if err := errors.Join(err, shut()); err != nil {
		return err
	}
	if damaged > 0 {
		return Hint(Damagef("%s could not be compacted", plural(int64(damaged), "partition", "partitions")), "logtool verify "+roof.path)
	}
	return nil
}

func (o *compactOptions) choose(roof *logDir) (chosen []layout.Dir, err error) {
	if len(o.topics) == 0 {
		return nil, UsageErrorf("%s is a log directory: name the topics to compact with --topic", roof.path)
	}
	for _, topic := range o.topics {
		found := false
		for _, p := range roof.partitions {
			if p.Topic == topic {
				found = true
				if !slices.Contains(chosen, p) {
					chosen = append(chosen, p)
				}
			}
		}
		if !found {
			return nil, NotFoundf("there is no topic %q in %s", topic, roof.path)
		}
	}
	return chosen, nil
}

// openAll opens the log directory for writing, as its owner.
func (o *compactOptions) openAll(path string) (open func(layout.Dir) (*seglog.Log, error), shut func() error, err error) {
	opts := seglog.DirOptions{ManualMaintenance: true, Topics: map[string]seglog.Options{}}
	for _, topic := range o.topics {
		opts.Topics[topic] = o.options()
	}
	o.app.Verbosef("opening %s for writing", path)
	d, err := seglog.OpenDir(path, opts)
	if err != nil {
		return nil, nil, err
	}
	open = func(p layout.Dir) (*seglog.Log, error) {
		log, err := d.Partition(p.Topic, p.Partition)
		if err == nil {
			err = o.app.tellRecovery(filepath.Join(path, fmt.Sprintf("%s-%d", p.Topic, p.Partition)), log)
		}
		return log, err
	}
	return open, d.Close, nil
}

func (o *compactOptions) openReadOnly(roof *logDir) func(layout.Dir) (*seglog.Log, error) {
	return func(p layout.Dir) (*seglog.Log, error) { return seglog.Open(roof.dir(p), o.options()) }
}

// one compacts a partition and tells of it.
func (o *compactOptions) one(ctx context.Context, dir string, open func() (*seglog.Log, error)) error {
	log, err := open()
	if err != nil {
		return err
	}
	res, err := o.compact(ctx, log, dir)
	if err = errors.Join(err, log.Close()); err == nil && !o.dryRun {
		err = o.removeMarked(dir)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return o.tell(res, filepath.Base(dir))
}

// removeMarked removes the files that were replaced. A Dir does so after a while, which
// nobody waits for here.
func (o *compactOptions) removeMarked(dir string) error {
	entries, err := o.app.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if f, ok := layout.ParseFile(e.Name()); ok && f.State == layout.Deleted {
			if err := o.app.FS.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *compactOptions) compact(ctx context.Context, log *seglog.Log, dir string) (seglog.CompactResult, error) {
	progress := o.app.Progress("compacting " + dir)
	defer progress.Clear()
	return log.Compact(ctx, &seglog.CompactOptions{
		DryRun: o.dryRun, Full: o.full, MapBytes: o.mapBytes, BytesPerSecond: o.rate, Now: o.app.Now(),
		Progress: func(p seglog.CompactProgress) {
			// The two halves of a pass read about the same.
			done, total := p.Done, 2*p.Total
			if p.Rewriting {
				done += p.Total
			}
			progress.Update(done, total)
		},
	})
}

// open opens the log for writing, or to see what would be done.
func (o *compactOptions) open(dir string) (*seglog.Log, error) {
	// What there is must be a log: one is not made here.
	log, err := o.app.OpenLog(dir)
	if err != nil {
		return nil, err
	}
	if err := log.Close(); err != nil {
		return nil, err
	}
	if o.dryRun {
		return seglog.Open(dir, o.options())
	}
	return o.app.OpenToWrite(dir, o.options())
}

func (o *compactOptions) options() seglog.Options {
	return seglog.Options{
		ReadOnly: o.dryRun, RefuseCut: true, CleanupPolicy: seglog.CleanupCompact,
		MinCompactionLag: o.minLag, DeleteRetention: o.deleteRetention, SegmentBytes: o.segmentBytes,
	}
}

// tell prints what was done, or would be. partition, if not "", is which of a log
// directory it is about.
func (o *compactOptions) tell(r seglog.CompactResult, partition string) error {
	out := o.app.Out
	if partition != "" && !out.JSON() {
		if err := out.Linef("%s", partition); err != nil {
			return err
		}
	}
	if err := o.tellSegments(r, partition); err != nil {
		return err
	}
	if out.JSON() {
		return out.Emit(o.object("compacted", partition).Int("segments", o.segments(r)).Int("passes", int64(r.Passes)).
			Int("records_read", r.Read.Records).Int("records_kept", r.Kept.Records).
			Int("bytes_read", r.Read.Bytes).Int("bytes_kept", r.Kept.Bytes).
			Int("superseded", r.Superseded).Int("tombstones", r.Expired).Int("aborted", r.Aborted).
			Int("without_key", r.Keyless).Int("markers", r.Markers).Int("keys", int64(r.Keys)).
			Int("first_dirty_offset", r.FirstDirty).Bool("dry_run", o.dryRun))
	}
	if r.Passes == 0 {
		return out.Linef("nothing to compact")
	}
	for _, row := range []struct {
		n    int64
		what string
	}{
		{r.Superseded, "superseded by a later record of the same key"}, {r.Expired, "tombstones whose time has come"},
		{r.Aborted, "of aborted transactions"}, {r.Keyless, "without a key"}, {r.Markers, "markers of transactions that are gone"},
	} {
		if row.n > 0 {
			if err := out.Linef("%10s %s", commas(row.n), row.what); err != nil {
				return err
			}
		}
	}
	freed := out.Size(max(0, r.Read.Bytes-r.Kept.Bytes))
	what := plural(o.segments(r), "segment", "segments")
	if o.dryRun {
		return out.Linef("would rewrite %s, free %s (dry run)", what, freed)
	}
	return out.Linef("rewrote %s, freed %s", what, freed)
}

func (o *compactOptions) segments(r seglog.CompactResult) (n int64) {
	for _, s := range r.Segments {
		n += int64(s.Segments)
	}
	return n
}

func (o *compactOptions) object(kind, partition string) *Object {
	obj := o.app.Out.Object(kind)
	if partition != "" {
		obj.String("partition", partition)
	}
	return obj
}

// tellSegments lists what became of the segments.
func (o *compactOptions) tellSegments(r seglog.CompactResult, partition string) error {
	out := o.app.Out
	table := out.Table(Left("SEGMENTS"), Left("RECORDS"), Left("SIZE"))
	for _, s := range r.Segments {
		var err error
		if out.JSON() {
			err = out.Emit(o.object("compacted_segments", partition).Int("base_offset", s.BaseOffset).Int("next_offset", s.NextOffset).
				Int("segments", int64(s.Segments)).Int("segments_left", int64(s.Left)).
				Int("records_before", s.Before.Records).Int("records_after", s.After.Records).
				Int("size_before", s.Before.Bytes).Int("size_after", s.After.Bytes))
		} else {
			err = table.Row(fmt.Sprintf("[%d, %d)", s.BaseOffset, s.NextOffset),
				commas(s.Before.Records)+" -> "+commas(s.After.Records), out.Size(s.Before.Bytes)+" -> "+out.Size(s.After.Bytes))
		}
		if err != nil {
			return err
		}
	}
	if out.JSON() || len(r.Segments) == 0 {
		return nil
	}
	return table.Flush()
}
