package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/cmd/logtool/internal/kafkadump"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// dumpOptions are the flags of dump.
type dumpOptions struct {
	span     Range
	limit    int64
	maxBytes int64
	records  bool
	hex      bool
	noVerify bool
	kafka    bool
	deep     bool
}

func newDumpCommand(app *App) *cobra.Command {
	var opts dumpOptions
	cmd := &cobra.Command{
		Use:   "dump DIR|FILE...",
		Short: "batches, records or index entries as stored",
		Long: `Show what files hold as it is stored: the batches of a log, the entries of an index,
the lines of a checkpoint. A directory stands for its .log files. Of several -n counts
for each.

Damage is shown where it is, and the dump goes on behind it. A batch that is
being written, or that a crash has cut off, ends the last segment of a log and
is not damage.`,
		Example: `  logtool dump orders-0 --from 41022 -n 2 --records
  logtool dump orders-0/00000000000000041022.index -n 2
  logtool dump --kafka orders-0/*.index`,
		GroupID:           groupInspect,
		Args:              someArgs("DIR|FILE"),
		ValidArgsFunction: completePaths,
		Annotations: exitStatus("0 nothing wrong was met, 1 could not read, 2 usage, 3 damage was met,\n" +
			"4 there is no such offset."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.check(app, cmd); err != nil {
				return err
			}
			return opts.run(cmd.Context(), app, args)
		},
	}
	flags := cmd.Flags()
	opts.span.AddFlags(cmd, app.Now)
	addLimitFlag(cmd, &opts.limit, "batches or entries")
	addCountFlag(cmd, &opts.maxBytes, "max-bytes", "", "read no more than the first N bytes of a log")
	flags.BoolVar(&opts.records, "records", false, "the records of each batch too")
	flags.BoolVar(&opts.hex, "hex", false, "the header of each batch as annotated bytes, all of it with --records")
	flags.BoolVar(&opts.noVerify, "no-verify", false, "leave out checksums")
	flags.BoolVar(&opts.kafka, "kafka", false, "print what Kafka's own dump tool prints; --records is its --print-data-log")
	flags.BoolVar(&opts.deep, "deep", false, "with --kafka: its --deep-iteration, without keys and values")
	return cmd
}

// check refuses flags that contradict each other.
func (o *dumpOptions) check(app *App, cmd *cobra.Command) error {
	switch {
	case o.kafka && (o.span.IsSet() || cmd.Flags().Changed("limit") || o.hex || o.noVerify || app.Out.JSON()):
		return UsageErrorf("--kafka is for whole files and goes with --records, --deep and --max-bytes only")
	case o.deep && !o.kafka:
		return UsageErrorf("--deep goes with --kafka only; the records of each batch are shown by --records")
	case o.hex && app.Out.JSON():
		return UsageErrorf("--hex is text and does not go with -o json")
	}
	return nil
}

func (o *dumpOptions) run(ctx context.Context, app *App, paths []string) error {
	var things []dumped
	var all []string
	for _, path := range paths {
		thing, err := o.find(app, path)
		if err != nil {
			return err
		}
		things, all = append(things, thing), append(all, thing.files...)
	}
	if o.kafka {
		return o.asKafka(app, all)
	}
	d := &dumper{ctx: ctx, app: app, out: app.Out, opts: o}
	damaged, places := "", int64(0)
	for _, thing := range things {
		d.left = o.limit
		if err := d.title(thing, len(things)); err != nil {
			return err
		}
		if err := d.all(thing.path, thing.isDir, thing.files); err != nil {
			return err
		}
		if d.damage > places {
			damaged, places = cmp.Or(damaged, thing.path), d.damage
		}
	}
	if d.damage > 0 {
		return Hint(Damagef("%s: %s damaged", damaged, plural(d.damage, "place is", "places are")), "logtool verify "+damaged)
	}
	return nil
}

// dumped is what one argument names.
type dumped struct {
	path  string
	isDir bool
	files []string // itself, or the logs in it
}

func (o *dumpOptions) find(app *App, path string) (dumped, error) {
	info, err := app.FS.Stat(path)
	if err != nil {
		return dumped{}, err
	}
	if !info.IsDir() {
		return dumped{path: path, files: []string{path}}, nil
	}
	files, err := o.logsOf(app, path)
	return dumped{path, true, files}, err
}

// title names a file that is one of several; a log does by itself.
func (d *dumper) title(thing dumped, of int) error {
	f, _ := layout.ParseFile(filepath.Base(thing.path))
	if of < 2 || thing.isDir || f.Kind == layout.Log || d.out.JSON() {
		return nil
	}
	return d.out.Linef("%s", d.out.Paint(Head, escaped(thing.path)))
}

// logsOf lists the logs in a directory. Only names that a log has to the letter
// count: anything else is somebody else's file.
func (o *dumpOptions) logsOf(app *App, dir string) ([]string, error) {
	bases, err := segmentBases(app.FS, dir)
	if err != nil {
		return nil, err
	}
	if len(bases) == 0 {
		return nil, Hint(fmt.Errorf("%s: %w", dir, seglog.ErrNotALog), "name the directory of one partition, the one that holds the .log files")
	}
	var files []string
	for _, base := range bases {
		files = append(files, filepath.Join(dir, layout.LogName(base)))
	}
	return files, nil
}

// logPath is where the log of a segment lies: under its own name, or that of a
// swap which a crash has left and which counts. The size tells which of the two
// was opened.
func logPath(fsys vfs.FS, dir string, s seglog.SegmentInfo) string {
	swap := filepath.Join(dir, layout.SegmentFileName(layout.Log, s.BaseOffset, layout.Swap))
	if info, err := fsys.Stat(swap); err == nil && info.Size() == s.Size {
		return swap
	}
	return filepath.Join(dir, layout.LogName(s.BaseOffset))
}

// segmentBases lists the base offsets of the logs in a directory, rising.
func segmentBases(fsys vfs.FS, dir string) ([]int64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		f, ok := layout.ParseFile(e.Name())
		if ok && f.Kind == layout.Log && f.State == layout.Live && e.Type().IsRegular() {
			bases = append(bases, f.Base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// asKafka prints the files as Kafka's tool does, and what it says on stderr last.
func (o *dumpOptions) asKafka(app *App, files []string) error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	d := kafkadump.New(app.FS, app.Out, app.stderrAfterOut(), kafkadump.Options{
		Deep: o.deep, Print: o.records, MaxBytes: o.maxBytes, WorkingDir: wd,
	})
	for _, file := range files {
		known, err := d.File(file)
		var exception *kafkadump.Exception
		switch {
		case errors.As(err, &exception):
			fmt.Fprintf(app.stderrAfterOut(), "Exception in thread \"main\" %v\n", exception)
			return Told(ErrDamage)
		case err != nil:
			return err
		case !known:
			return Told(fmt.Errorf("unknown kind of file: %s", file))
		}
	}
	if err := d.Findings(); err != nil {
		return err
	}
	if d.Damaged() {
		return Told(ErrDamage)
	}
	return nil
}

// dumper dumps files one after the other.
type dumper struct {
	ctx  context.Context
	app  *App
	out  *Output
	opts *dumpOptions

	left     int64 // how many batches or entries may still be shown
	from, to int64 // offsets to show, [0, MaxInt64) for all
	damage   int64 // places that were damaged
}

// all dumps the files that path stands for.
func (d *dumper) all(path string, isDir bool, files []string) error {
	d.from, d.to = 0, math.MaxInt64
	if !isDir {
		return d.file(path)
	}
	if d.opts.span.IsSet() {
		log, err := d.app.OpenLog(path)
		if err != nil {
			return err
		}
		d.from, d.to, err = d.opts.span.Resolve(log)
		if closed := log.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	for i, file := range files {
		if next := i + 1; next < len(files) && baseOf(files[next]) <= d.from || baseOf(file) >= d.to {
			continue
		}
		err := d.log(file, baseOf(file), i == len(files)-1)
		if errors.Is(err, fs.ErrNotExist) {
			d.app.Verbosef("%s was removed meanwhile", file)
			continue
		}
		if err != nil || d.left == 0 {
			return err
		}
	}
	return nil
}

// baseOf is the base offset of a file that was found by it.
func baseOf(path string) int64 {
	f, _ := layout.ParseFile(filepath.Base(path))
	return f.Base
}

// file dumps a single file by the kind that its name tells.
func (d *dumper) file(path string) error {
	f, err := d.identify(path)
	if err != nil {
		return err
	}
	switch f.Kind {
	case layout.Log, layout.KRaftCheckpoint, layout.KRaftBootstrap:
		if d.opts.span.IsSet() {
			if err := d.resolveInFile(path, f.Base); err != nil {
				return err
			}
		}
		return d.log(path, f.Base, endsItsLog(d.app.FS, path, f))
	}
	if d.opts.records || d.opts.hex || d.opts.maxBytes > 0 {
		return UsageErrorf("%s is no log: --records, --hex and --max-bytes do not apply", path)
	}
	switch f.Kind {
	case layout.OffsetIndex, layout.TimeIndex:
		if err := d.absoluteSpan(path); err != nil {
			return err
		}
		return d.index(path, f)
	}
	if d.opts.span.IsSet() {
		return UsageErrorf("%s has no offsets to choose from: --from and --to do not apply", path)
	}
	switch f.Kind {
	case layout.TxnIndex:
		return d.txnIndex(path, f)
	case layout.Snapshot:
		return d.snapshot(path)
	default:
		return d.small(path, f)
	}
}

// identify tells what a file is by its name, and says if that is not all there
// is to say about it.
func (d *dumper) identify(path string) (layout.File, error) {
	name := filepath.Base(path)
	plain := strings.TrimSuffix(name, cutSuffix)
	f, ok := layout.ParseFile(plain)
	switch {
	case !ok:
		if f = bySuffix(plain); f.Kind == layout.Unknown {
			return f, Hint(fmt.Errorf("%s: the name does not tell what the file holds", path),
				"one of .log .index .timeindex .txnindex .snapshot .checkpoint, or a file that Kafka or seglog has named")
		}
		d.app.Warnf("%s: the name is not that of a file of a log; taken for a %s, its offsets count from 0", path, f.Kind)
	case plain != name:
		d.app.Warnf("%s was set aside by recovery; shown as the %s it was", path, f.Kind)
	case f.State != layout.Live:
		d.app.Warnf("%s is no longer, or not yet, part of the log (%s); shown as the %s it is", path, f.State, f.Kind)
	}
	if f.Kind == layout.LockFile {
		return f, fmt.Errorf("%s: a lock file holds nothing", path)
	}
	return f, nil
}

// cutSuffix marks what recovery has set aside.
const cutSuffix = ".cut"

// bySuffix is for a file whose name tells its kind and no more, such as a copy
// that somebody has made.
func bySuffix(name string) layout.File {
	for _, state := range []layout.State{layout.Deleted, layout.Cleaned, layout.Swap} {
		name = strings.TrimSuffix(name, state.Suffix())
	}
	// A part of a log that was cut out names the position behind ".log.".
	if i := strings.Index(name, layout.Log.Suffix()+"."); i >= 0 {
		name = name[:i+len(layout.Log.Suffix())]
	}
	for kind := layout.Log; kind <= layout.Snapshot; kind++ {
		if strings.HasSuffix(name, kind.Suffix()) {
			return layout.File{Kind: kind, Name: name}
		}
	}
	return layout.File{}
}

// endsItsLog reports whether no segment follows the one at path in its directory:
// only there may the last batch be incomplete.
func endsItsLog(fsys vfs.FS, path string, f layout.File) bool {
	bases, err := segmentBases(fsys, filepath.Dir(path))
	if err != nil || f.Kind != layout.Log {
		return true
	}
	return len(bases) == 0 || bases[len(bases)-1] <= f.Base
}

// heldByWriter reports whether a writer has the directory of the file at path:
// one of ours, or the broker that the directory belongs to.
func heldByWriter(fsys vfs.FS, path string) bool { return dirHeldByWriter(fsys, filepath.Dir(path)) }

func dirHeldByWriter(fsys vfs.FS, dir string) bool {
	dirs := []string{dir}
	// Of "." the directory above is "..".
	parent := filepath.Join(dir, "..")
	if _, err := fsys.Stat(filepath.Join(parent, layout.MetaPropertiesName)); err == nil {
		dirs = append(dirs, parent)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		held, err := vfs.LockHeld(fsys, filepath.Join(dir, layout.LockFileName))
		return err == nil && held
	})
}

// absoluteSpan takes --from and --to for a file that has no bounds to count from.
func (d *dumper) absoluteSpan(path string) error {
	for _, end := range []struct {
		flag OffsetFlag
		to   *int64
	}{{d.opts.span.From, &d.from}, {d.opts.span.To, &d.to}} {
		switch end.flag.base {
		case unset, fromStart:
		case absolute:
			*end.to = end.flag.n
		default:
			return UsageErrorf("%s: --from and --to want an offset here, not %q", path, end.flag.text)
		}
	}
	return nil
}

// small dumps a file that is a handful of lines.
func (d *dumper) small(path string, f layout.File) error {
	if f.State == layout.Temp {
		d.app.Verbosef("%s is being written, or was when a crash came", path)
	}
	switch f.Kind {
	case layout.LeaderEpochCheckpoint:
		return d.leaderEpochs(path)
	case layout.RecoveryPoint, layout.LogStart, layout.HighWatermark, layout.CleanerOffset:
		return d.offsetCheckpoint(path)
	case layout.PartitionMetadata:
		return d.partitionMetadata(path)
	case layout.MetaProperties:
		return d.metaProperties(path)
	case layout.CleanShutdown:
		return d.cleanShutdown(path)
	case layout.SeglogState:
		return d.seglogState(path)
	case layout.QuorumState:
		return d.text(path)
	}
	return fmt.Errorf("%s: nothing is known about the content of a %s", path, f.Kind)
}

// open opens a file for reading and fixes its size.
func (d *dumper) open(path string) (vfs.File, int64, error) {
	d.app.Verbosef("reading %s", path)
	f, err := d.app.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// numberText is an offset or other number that may be absent.
func numberText(v int64, present bool) string {
	if !present {
		return "-"
	}
	return strconv.FormatInt(v, 10)
}
