package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
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

Nothing is lost when it is interrupted. It takes 24 bytes of memory for each different
key in the dirty part of the log; with less than that it goes through the log more than
once.`,
		Example:           "  logtool compact orders-0 --dry-run\n  logtool compact orders-0 --delete-retention 36h",
		GroupID:           groupChange,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not write, 2 usage, 3 damage keeps the log from being compacted, 5 locked by\n" +
			"another process."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.Var((*ageFlag)(&opts.minLag), "min-lag", "leave records alone that are younger, such as 90m or 7d")
	flags.Var((*ageFlag)(&opts.deleteRetention), "delete-retention", "how long tombstones stay, such as 36h or 7d (default 1d)")
	flags.Var((*sizeFlag)(&opts.mapBytes), "map-bytes", "memory for keys (default 128MiB)")
	flags.Var((*sizeFlag)(&opts.segmentBytes), "segment-bytes", "the size up to which segments are merged (default 1GiB)")
	flags.Var((*sizeFlag)(&opts.rate), "max-rate", "read and write no more than this each second, together")
	flags.BoolVar(&opts.full, "full", false, "go through what is clean already, too")
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
}

func (o *compactOptions) run(ctx context.Context, dir string) error {
	log, err := o.open(dir)
	if err != nil {
		return err
	}
	progress := o.app.Progress("compacting " + dir)
	res, err := log.Compact(ctx, &seglog.CompactOptions{
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
	progress.Clear()
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	return o.tell(res)
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
	opts := seglog.Options{
		ReadOnly: o.dryRun, CleanupPolicy: seglog.CleanupCompact,
		MinCompactionLag: o.minLag, DeleteRetention: o.deleteRetention, SegmentBytes: o.segmentBytes,
	}
	if !o.dryRun {
		o.app.Verbosef("opening %s for writing", dir)
	}
	return seglog.Open(dir, opts)
}

func (o *compactOptions) tell(r seglog.CompactResult) error {
	if err := o.tellSegments(r); err != nil {
		return err
	}
	out := o.app.Out
	if out.JSON() {
		return out.Emit(out.Object("compacted").Int("segments", o.segments(r)).Int("passes", int64(r.Passes)).
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

// tellSegments lists what became of the segments.
func (o *compactOptions) tellSegments(r seglog.CompactResult) error {
	out := o.app.Out
	table := out.Table(Left("SEGMENTS"), Left("RECORDS"), Left("SIZE"))
	for _, s := range r.Segments {
		var err error
		if out.JSON() {
			err = out.Emit(out.Object("compacted_segments").Int("base_offset", s.BaseOffset).Int("next_offset", s.NextOffset).
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
