package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

func newTrimCommand(app *App) *cobra.Command {
	opts := trimOptions{app: app}
	cmd := &cobra.Command{
		Use:   "trim DIR",
		Short: "delete old segments",
		Long: `Delete the oldest segments of a log, and with --before, hide the records below an offset.

--before moves the log start; segments that lie below it are deleted. --older-than
deletes segments whose newest record is older, --keep-size as many as leave that much
at least: the rules of Kafka's retention.ms and retention.bytes, which stop at the
first segment that has to stay.

A person is asked first; a script says --yes.`,
		Example:           "  logtool trim orders-0 --before 41022 --dry-run\n  logtool trim orders-0 --older-than 7d --yes",
		GroupID:           groupChange,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not write, or not confirmed, 2 usage, 3 the log has damage that must be seen to\n" +
			"first, 4 no such offset, 5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.Var(newOffsetFlag(&opts.before, app.Now), "before", "records below it go: start, end, N, -N from the end, or @TIME")
	flags.Var((*ageFlag)(&opts.olderThan), "older-than", "segments go whose records all are older, such as 36h or 7d")
	flags.Var((*sizeFlag)(&opts.keepSize), "keep-size", "the oldest segments go while so much is left, such as 10GiB")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "tell what would be deleted, and delete nothing")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask")
	cmd.MarkFlagsMutuallyExclusive("before", "older-than", "keep-size")
	cmd.MarkFlagsOneRequired("before", "older-than", "keep-size")
	for _, name := range []string{"before", "older-than", "keep-size"} {
		completeFlag(cmd, name)
	}
	return cmd
}

type trimOptions struct {
	app         *App
	before      OffsetFlag
	olderThan   time.Duration // 0: not given
	keepSize    int64         // likewise
	dryRun, yes bool
}

func (o *trimOptions) run(ctx context.Context, dir string) error {
	if !o.dryRun && !o.yes && !o.app.StdinTerminal {
		return UsageErrorf("nobody can be asked: say --yes to delete, or --dry-run to see what")
	}
	plan, err := o.plan(dir)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.tell(plan)
	}
	if !o.yes && plan.changes {
		if err := o.ask(ctx, plan); err != nil {
			return err
		}
	}
	done, err := o.trim(ctx, dir, plan)
	if err != nil {
		return err
	}
	return o.tell(done)
}

// trimmed is what is deleted, and where the log starts then.
type trimmed struct {
	segments []seglog.SegmentInfo
	start    int64
	changes  bool // the start moves
}

func (t trimmed) bytes() (n int64) {
	for _, s := range t.segments {
		n += s.Size
	}
	return n
}

// plan finds out what is to be deleted, changing nothing. The library decides
// again when it does it.
func (o *trimOptions) plan(dir string) (trimmed, error) {
	log, err := o.app.OpenLog(dir)
	if err != nil {
		return trimmed{}, err
	}
	defer log.Close()
	all, err := log.Segments()
	if err != nil {
		return trimmed{}, err
	}
	bounds := log.Offsets()
	start := bounds.Start
	if o.before.IsSet() {
		if start, _, err = o.before.Resolve(log); err != nil {
			return trimmed{}, err
		}
		if start < 0 || start > bounds.End {
			return trimmed{}, &seglog.OffsetError{Offset: start, Start: bounds.Start, End: bounds.End}
		}
		start = max(start, bounds.Start)
	}
	n := leading(all, func(_ seglog.SegmentInfo, next *seglog.SegmentInfo) bool {
		return next != nil && next.BaseOffset <= start
	})
	more, err := o.retention(log, all[n:])
	if err != nil {
		return trimmed{}, err
	}
	n += more
	if o.olderThan > 0 && n < len(all) {
		if err := o.warnOfFuture(log, all[n]); err != nil {
			return trimmed{}, err
		}
	}
	switch {
	case n == len(all):
		start = bounds.End
	case n > 0:
		start = max(start, all[n].BaseOffset)
	}
	return trimmed{all[:n], start, start != bounds.Start}, nil
}

// retention counts the segments that are too old or too much.
func (o *trimOptions) retention(log *seglog.Log, all []seglog.SegmentInfo) (int, error) {
	var failed error
	excess := -o.keepSize
	for _, s := range all {
		excess += s.Size
	}
	n := leading(all, func(s seglog.SegmentInfo, next *seglog.SegmentInfo) bool {
		switch {
		case failed != nil || next == nil && s.Size == 0:
			return false
		case o.olderThan > 0:
			at, err := o.newest(log.Dir(), s)
			failed = err
			return err == nil && o.app.Now().UnixMilli()-at > o.olderThan.Milliseconds()
		case o.keepSize > 0:
			excess -= s.Size
			return excess >= 0
		}
		return false
	})
	return n, failed
}

// warnOfFuture tells what else would not be seen: that a segment stays, and all behind
// it, because of one time that is more than an hour ahead.
func (o *trimOptions) warnOfFuture(log *seglog.Log, s seglog.SegmentInfo) error {
	if s.MaxTimestamp <= o.app.Now().Add(time.Hour).UnixMilli() {
		return nil
	}
	at, found, err := log.OffsetForTime(s.MaxTimestamp)
	if err != nil || !found {
		return err
	}
	o.app.Warnf("%020d stays, and all behind it: held by a future time at offset %d, %s", s.BaseOffset, at.Offset,
		timeTextSeconds(at.Timestamp))
	return nil
}

// newest is the time that the age of a segment counts from.
func (o *trimOptions) newest(dir string, s seglog.SegmentInfo) (int64, error) {
	if s.MaxTimestamp >= 0 {
		return s.MaxTimestamp, nil
	}
	info, err := o.app.FS.Stat(logPath(o.app.FS, dir, s))
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}

// leading counts the segments from the oldest on that go.
func leading(all []seglog.SegmentInfo, goes func(s seglog.SegmentInfo, next *seglog.SegmentInfo) bool) int {
	for i := range all {
		var next *seglog.SegmentInfo
		if i+1 < len(all) {
			next = &all[i+1]
		}
		if !goes(all[i], next) {
			return i
		}
	}
	return len(all)
}

// ask asks the person at the terminal.
func (o *trimOptions) ask(ctx context.Context, plan trimmed) error {
	return o.app.confirm(ctx, fmt.Sprintf("delete %s, %s, and every record below offset %d?",
		plural(int64(len(plan.segments)), "segment", "segments"), o.app.Out.Size(plan.bytes()), plan.start), "nothing was deleted")
}

// trim does it, and returns what was done.
func (o *trimOptions) trim(ctx context.Context, dir string, plan trimmed) (trimmed, error) {
	opts := seglog.Options{RetentionTime: -1, RetentionBytes: -1, RefuseCut: true}
	if o.olderThan > 0 {
		opts.RetentionTime = o.olderThan
	}
	if o.keepSize > 0 {
		opts.RetentionBytes = o.keepSize
	}
	log, err := o.app.OpenToWrite(dir, opts)
	if err != nil {
		return trimmed{}, err
	}
	before, err := log.Segments()
	if err == nil && o.before.IsSet() {
		err = log.DeleteBefore(plan.start)
	} else if err == nil {
		_, err = log.ApplyRetention(ctx)
	}
	after, failed := log.Segments()
	done := trimmed{start: log.Offsets().Start}
	if err := errors.Join(err, failed, log.Close()); err != nil {
		return done, err
	}
	for _, s := range before {
		if !slices.ContainsFunc(after, func(a seglog.SegmentInfo) bool { return a.BaseOffset == s.BaseOffset }) {
			done.segments = append(done.segments, s)
		}
	}
	return done, nil
}

func (o *trimOptions) tell(t trimmed) error {
	out := o.app.Out
	deleted, is := "deleted", "is now"
	if o.dryRun {
		deleted, is = "would delete", "would be"
	}
	for _, s := range t.segments {
		records := s.LastOffset + 1 - s.BaseOffset
		var err error
		if out.JSON() {
			err = out.Emit(out.Object("deleted_segment").Int("base_offset", s.BaseOffset).Int("next_offset", s.NextOffset).
				Int("records", records).Int("size", s.Size))
		} else {
			err = out.Linef("%s %020d (%s, %s)", deleted, s.BaseOffset, plural(records, "record", "records"), out.Size(s.Size))
		}
		if err != nil {
			return err
		}
	}
	if out.JSON() {
		return out.Emit(out.Object("trimmed").Int("segments", int64(len(t.segments))).Int("bytes", t.bytes()).
			Int("start_offset", t.start).Bool("dry_run", o.dryRun))
	}
	if len(t.segments) == 0 {
		if err := out.Linef("no segment to delete"); err != nil {
			return err
		}
	}
	if o.dryRun {
		return out.Linef("start offset %s %d (dry run)", is, t.start)
	}
	return out.Linef("start offset %s %d", is, t.start)
}

// ageFlag is a duration that may be in days.
type ageFlag time.Duration

func (f *ageFlag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

func (f *ageFlag) Type() string { return "AGE" }

func (f *ageFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		var n int64
		n, err = strconv.ParseInt(days, 10, 64)
		if err == nil && n > int64(math.MaxInt64/(24*time.Hour)) {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < time.Millisecond {
		return errors.New("want how old, such as 90m, 36h or 7d")
	}
	*f = ageFlag(d)
	return nil
}

// sizeFlag is a number of bytes, with or without a unit.
type sizeFlag int64

func (f *sizeFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*f), 10)
}

func (f *sizeFlag) Type() string { return "SIZE" }

func (f *sizeFlag) Set(s string) error {
	digits := strings.TrimRight(s, "KMGTiB")
	shift := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "K": 10, "M": 20, "G": 30, "T": 40}
	by, known := shift[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 1 || n > math.MaxInt64>>by {
		return errors.New("want a size of 1 or more, such as 500000, 64MiB or 10GiB")
	}
	*f = sizeFlag(n << by)
	return nil
}
