package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

type lsOptions struct {
	span Range
	all  bool
}

func newLsCommand(app *App) *cobra.Command {
	var opts lsOptions
	cmd := &cobra.Command{
		Use:   "ls DIR",
		Short: "segments, one per line, or the partitions of a log directory",
		Long: `List the segments of a log, or the partitions of a log directory. Nothing is written,
and a writer or a broker may be at work.

RECORDS is how many offsets a segment has, up to the last that is in it. Compaction
leaves fewer records than that, and so do transactions; stat counts what is there.
LAST TIME is the largest timestamp. INDEX and TIMEINDEX are numbers of entries. STATE
says of a log that was compacted which segments have been cleaned, and which are dirty;
in a log directory CLEANED TO and DIRTY say up to which offset, and how much there is to
compact.`,
		Example: `  logtool ls orders-0
  logtool ls /var/lib/kafka/data
  logtool ls orders-0 -o json | jq -s 'map(.size) | add'`,
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not read, 2 usage, 3 a log has damage at its end, or cannot be read\n" +
			"for it, 4 there is no such offset."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(app, args[0]) },
	}
	opts.span.AddFlags(cmd, app.Now)
	cmd.Flags().BoolVar(&opts.all, "all", false, "other files too: leftovers, checkpoints, foreign ones; of a log directory, other directories")
	return cmd
}

func (o *lsOptions) run(app *App, dir string) error {
	if roof, ok, err := findLogDir(app, dir); err == nil && ok {
		if o.span.IsSet() {
			return UsageErrorf("--from and --to are about one partition, and %s is a log directory", dir)
		}
		return roof.list(o.all)
	}
	log, err := app.OpenLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	segments, err := log.Segments()
	if err != nil {
		return err
	}
	from, to := int64(0), int64(math.MaxInt64)
	if o.span.IsSet() {
		if from, to, err = o.span.Resolve(log); err != nil {
			return err
		}
	}
	l := listing{app: app, dir: dir}
	if d, err := log.Dirtiness(); err == nil && d.FirstDirty > log.Offsets().Start {
		l.firstDirty, l.compacted = d.FirstDirty, true
	}
	if err := l.segments(segments, from, to); err != nil {
		return err
	}
	if o.all {
		if err := l.files(segments); err != nil {
			return err
		}
	}
	return damageMet(log, dir)
}

// damageMet tells of damage that was met when the log was opened.
func damageMet(log *seglog.Log, dir string) error {
	stats, err := log.Stats()
	if err != nil || len(stats.Recovery.Damaged) == 0 {
		return err
	}
	return Hint(Damagef("%v", stats.Recovery.Damaged[0]), "logtool verify "+dir)
}

// listing is one run of ls.
type listing struct {
	app *App
	dir string
	it  record.Iterator

	compacted  bool
	firstDirty int64 // if compacted
}

func (l *listing) segments(segments []seglog.SegmentInfo, from, to int64) error {
	out := l.app.Out
	table := out.Table(Right("BASE OFFSET"), Right("NEXT OFFSET"), Right("RECORDS"), Right("SIZE"), Right("INDEX"),
		Right("TIMEINDEX"), Left("FIRST TIME"), Left("LAST TIME"), Left("STATE"))
	for _, s := range segments {
		empty := s.NextOffset == s.BaseOffset
		if s.BaseOffset >= to || s.NextOffset <= from && !empty || empty && s.BaseOffset < from {
			continue
		}
		first, err := l.firstTime(s)
		if err != nil {
			return err
		}
		state := "sealed"
		if s.Active {
			state = "active"
		}
		part := l.part(s)
		if out.JSON() {
			obj := out.Object("segment").Int("base_offset", s.BaseOffset).Int("next_offset", s.NextOffset).
				Int("records", s.LastOffset+1-s.BaseOffset).Int("size", s.Size).
				Int("index_entries", int64(s.IndexEntries)).Int("time_index_entries", int64(s.TimeIndexEntries)).
				Time("first_time", first).Time("last_time", s.MaxTimestamp).String("state", state)
			if part != "" {
				obj.String("compaction", part)
			}
			err = out.Emit(obj)
		} else {
			if part != "" {
				state += ", " + part
			}
			err = table.Row(s.BaseOffset, s.NextOffset, s.LastOffset+1-s.BaseOffset, out.Size(s.Size), s.IndexEntries,
				s.TimeIndexEntries, timeTextSeconds(first), timeTextSeconds(s.MaxTimestamp), state)
		}
		if err != nil {
			return err
		}
	}
	if out.JSON() {
		return nil
	}
	return table.Flush()
}

// part says on which side of the first dirty offset a segment of a compacted log lies.
func (l *listing) part(s seglog.SegmentInfo) string {
	switch {
	case !l.compacted || s.Active:
		return ""
	case s.NextOffset <= l.firstDirty:
		return "clean"
	case s.BaseOffset < l.firstDirty:
		return "partly clean"
	}
	return "dirty"
}

// firstTime is the timestamp of the first record of a segment, if there is one.
func (l *listing) firstTime(s seglog.SegmentInfo) (int64, error) {
	path := logPath(l.app.FS, l.dir, s)
	d := dumper{app: l.app}
	f, size, err := d.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A writer removed it meanwhile.
		return record.NoTimestamp, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var w segment.Walker
	w.Reset(f, s.BaseOffset, 0, size)
	if !w.Next() || w.Part().Kind != segment.Whole {
		return record.NoTimestamp, w.Err()
	}
	b, err := w.Batch()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	// A batch that compaction has emptied, or that does not decode, has none.
	if l.it.Reset(b) != nil || !l.it.Next() {
		return record.NoTimestamp, nil
	}
	return l.it.Record().Timestamp, nil
}

// files lists what else is in the directory, and why it is there.
func (l *listing) files(segments []seglog.SegmentInfo) error {
	entries, err := l.app.FS.ReadDir(l.dir)
	if err != nil {
		return err
	}
	live := map[int64]bool{}
	for _, s := range segments {
		live[s.BaseOffset] = true
	}
	out := l.app.Out
	table := out.Table(Left("FILE"), Right("SIZE"), Left("WHAT"))
	rows := 0
	for _, e := range entries {
		what, class := describe(e, live)
		if what == "" {
			continue
		}
		size := int64(0)
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		if out.JSON() {
			err = out.Emit(out.Object("file").Bytes("name", []byte(e.Name())).Int("size", size).String("class", class).String("what", what))
		} else {
			rows++
			err = table.Row(escaped(e.Name()), out.Size(size), what)
		}
		if err != nil {
			return err
		}
	}
	if rows == 0 {
		return nil
	}
	if err := out.Linef(""); err != nil {
		return err
	}
	return table.Flush()
}

// describe says what a directory entry is to the log, in words and as a class;
// nothing if it is part of a segment that is listed.
func describe(e fs.DirEntry, live map[int64]bool) (what, class string) {
	f, ok := layout.ParseFile(e.Name())
	_, cut := layout.CutOf(e.Name())
	switch {
	case !e.Type().IsRegular():
		return "not a file of a log: left alone", "foreign"
	case !ok && cut:
		return "what a recovery or a repair has taken out: left alone", "cut"
	case !ok:
		return "not a name of a log's file: left alone", "foreign"
	case f.State != layout.Live:
		return fmt.Sprintf("%s, %s: a leftover", f.Kind, f.State), "leftover"
	case f.Kind == layout.Snapshot, !f.Kind.Segment():
		return f.Kind.String(), "state"
	case !live[f.Base]:
		return fmt.Sprintf("%s without a log", f.Kind), "orphan"
	}
	return "", ""
}
