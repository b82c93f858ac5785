package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
)

// logDir is a log directory: partitions under one roof, as a broker has them.
// Nothing in it is locked or written, and a broker may be at work.
type logDir struct {
	app        *App
	path       string
	partitions []layout.Dir // live ones, by topic and number
	others     []otherDir
	logs       *seglog.Dir // once it was opened

	damaged, unreadable int // partitions that could not be read, for damage or else
}

// otherDir is a directory that holds no live partition.
type otherDir struct{ name, state string }

// findLogDir reports whether path is a log directory, and what is in it: it has
// directories that are named as partitions are, and no segment of its own.
func findLogDir(app *App, path string) (*logDir, bool, error) {
	entries, err := app.FS.ReadDir(path)
	if err != nil {
		return nil, false, err
	}
	d := &logDir{app: app, path: path}
	roof := false // a file that only a log directory has
	for _, e := range entries {
		if f, ok := layout.ParseFile(e.Name()); ok && !e.IsDir() {
			if f.Kind == layout.Log {
				return nil, false, nil
			}
			roof = roof || f.Kind == layout.RecoveryPoint || f.Kind == layout.MetaProperties
		}
		d.add(e)
	}
	slices.SortFunc(d.partitions, func(a, b layout.Dir) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return d, roof || len(d.partitions) > 0, nil
}

func (d *logDir) add(e fs.DirEntry) {
	if !e.IsDir() || layout.ReservedDir(e.Name()) {
		return
	}
	name, err := layout.ParseDir(e.Name())
	switch {
	case err != nil: // somebody else's
		d.others = append(d.others, otherDir{e.Name(), "unknown"})
	case name.State == layout.Live:
		d.partitions = append(d.partitions, name)
	default:
		d.others = append(d.others, otherDir{e.Name(), name.State.String()})
	}
}

func (d *logDir) dir(p layout.Dir) string {
	return filepath.Join(d.path, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
}

// eachLog opens the log at path, or every log of the log directory there, one after the
// other, and reports which it was. One that cannot be read for damage costs no other.
func eachLog(app *App, path string, do func(partition string, log *seglog.Log) error) (roof bool, err error) {
	d, roof, err := findLogDir(app, path)
	if err != nil || !roof {
		log, err := app.OpenLog(path)
		if err != nil {
			return false, err
		}
		defer log.Close()
		return false, do("", log)
	}
	if err := d.open(); err != nil {
		return true, err
	}
	defer d.logs.Close()
	for _, p := range d.partitions {
		log, err := d.log(p)
		if err == nil {
			err = errors.Join(do(filepath.Base(d.dir(p)), log), log.Close())
		}
		if err != nil {
			d.cannotRead(p, err)
		}
	}
	return true, d.unread()
}

// cannotRead tells why a partition cannot be read, and returns its state. It was deleted
// if it is not there any more: a broker may be at work.
func (d *logDir) cannotRead(p layout.Dir, err error) (state string) {
	if _, serr := d.app.FS.Stat(d.dir(p)); errors.Is(serr, fs.ErrNotExist) {
		return layout.Deleted.String()
	}
	d.app.sayf("%s: %v", d.dir(p), err)
	if isDamage(err) || errors.Is(err, seglog.ErrNotALog) {
		d.damaged++
		return "damaged"
	}
	d.unreadable++
	return "unreadable"
}

// unread is the error of a command that could not read some of the partitions.
func (d *logDir) unread() error {
	what := plural(int64(d.damaged+d.unreadable), "partition", "partitions") + " cannot be read"
	switch {
	case d.unreadable > 0:
		return errors.New(what)
	case d.damaged > 0:
		return Hint(Damagef("%s", what), "logtool verify "+d.path)
	}
	return nil
}

// open opens the directory for reading: the files that speak for all its logs are then
// read once, and not for each of them.
func (d *logDir) open() (err error) {
	if d.logs == nil {
		d.logs, err = seglog.OpenDir(d.path, seglog.DirOptions{ReadOnly: true})
	}
	return err
}

func (d *logDir) log(p layout.Dir) (*seglog.Log, error) {
	d.app.Verbosef("opening %s read-only", d.dir(p))
	return d.logs.Partition(p.Topic, p.Partition)
}

// withPartition puts a column in front, for what is listed of a log directory.
func withPartition(roof bool, columns []Column) []Column {
	if roof {
		return append([]Column{Left("LOG")}, columns...)
	}
	return columns
}

func inPartition(roof bool, name string, cells []any) []any {
	if roof {
		return append([]any{name}, cells...)
	}
	return cells
}

// partitionFigures is what ls and stat tell of one partition.
type partitionFigures struct {
	seglog.Stats
	lastTime int64

	compacted bool
	seglog.Dirtiness
}

// figures opens a partition. What cannot be read of it is the error.
func (d *logDir) figures(p layout.Dir) (partitionFigures, error) {
	f := partitionFigures{lastTime: record.NoTimestamp}
	log, err := d.log(p)
	if err != nil {
		return f, err
	}
	defer log.Close()
	if f.Stats, err = log.Stats(); err != nil {
		return f, err
	}
	newest, found, err := log.OffsetForTime(seglog.MaxTimestamp)
	if found {
		f.lastTime = newest.Timestamp
	}
	// What keeps it from being known is told by the commands that look closer.
	if d, derr := log.Dirtiness(); derr == nil && d.FirstDirty > f.Start {
		f.Dirtiness, f.compacted = d, true
	}
	if damaged := f.Recovery.Damaged; err == nil && len(damaged) > 0 {
		err = damaged[0]
	}
	return f, err
}

// clean says how far a partition was compacted, and what there is to compact.
func (f *partitionFigures) clean(out *Output) (to, dirty string) {
	if !f.compacted {
		return "-", "-"
	}
	return fmt.Sprint(f.FirstDirty), out.Size(f.DirtyBytes)
}

// list prints a line for each partition.
func (d *logDir) list(all bool) error {
	if err := d.open(); err != nil {
		return err
	}
	defer d.logs.Close()
	out := d.app.Out
	table := out.Table(Left("TOPIC"), Right("PARTITION"), Right("START"), Right("END"), Right("SEGMENTS"), Right("SIZE"),
		Right("CLEANED TO"), Right("DIRTY"), Left("LAST TIME"), Left("STATE"))
	for _, p := range d.partitions {
		f, err := d.figures(p)
		state, style := layout.Live.String(), Style("")
		if err != nil {
			if state = d.cannotRead(p, err); state == layout.Deleted.String() {
				continue
			}
			style = Bad
		}
		if out.JSON() {
			obj := out.Object("partition").String("topic", p.Topic).Int("partition", int64(p.Partition)).
				Int("start_offset", f.Start).Int("end_offset", f.End).Int("segments", int64(f.Segments)).
				Int("size", f.Size).Time("last_time", f.lastTime).String("state", state)
			if f.compacted {
				obj.Int("cleaned_to", f.FirstDirty).Int("clean_size", f.CleanBytes).Int("dirty_size", f.DirtyBytes)
			} else {
				obj.Null("cleaned_to")
			}
			err = out.Emit(obj)
		} else {
			to, dirty := f.clean(out)
			err = table.Row(p.Topic, p.Partition, f.Start, f.End, f.Segments, out.Size(f.Size), to, dirty, timeTextSeconds(f.lastTime), Styled(style, state))
		}
		if err != nil {
			return err
		}
	}
	for _, o := range d.others {
		if !all {
			break
		}
		if out.JSON() {
			if err := out.Emit(out.Object("directory").String("name", o.name).String("state", o.state)); err != nil {
				return err
			}
		} else if err := table.Row(o.name, "-", "-", "-", "-", "-", "-", "-", "-", o.state); err != nil {
			return err
		}
	}
	if !out.JSON() {
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return d.unread()
}

// isDamage reports whether an error is about what is stored.
func isDamage(err error) bool { return status(err) == statusDamage }

// dirFigures is what stat tells of a log directory.
type dirFigures struct {
	topics, partitions, segments int
	size, records                int64
	compacted                    int
	clean, dirty                 int64 // bytes of those that were compacted
	identity                     checkpoint.MetaProperties
	hasIdentity                  bool
	close                        string
}

func (d *logDir) stat() error {
	if err := d.open(); err != nil {
		return err
	}
	defer d.logs.Close()
	var f dirFigures
	topics := map[string]bool{}
	progress := d.app.Progress("reading " + d.path)
	for i, p := range d.partitions {
		progress.Update(int64(i), int64(len(d.partitions)))
		one, err := d.figures(p)
		if err != nil {
			progress.Clear()
			if d.cannotRead(p, err) == layout.Deleted.String() {
				continue
			}
		}
		topics[p.Topic] = true
		f.partitions++
		if err != nil {
			continue
		}
		f.segments += one.Segments
		f.size += one.Size
		f.records += one.End - one.Start
		if one.compacted {
			f.compacted++
			f.clean += one.CleanBytes
			f.dirty += one.DirtyBytes
		}
	}
	progress.Clear()
	f.topics = len(topics)
	d.surroundings(&f)
	if err := d.tell(f); err != nil {
		return err
	}
	return d.unread()
}

func (d *logDir) surroundings(f *dirFigures) {
	m, err := checkpoint.ReadMetaProperties(d.app.FS, filepath.Join(d.path, layout.MetaPropertiesName))
	f.identity, f.hasIdentity = m, err == nil
	_, err = d.app.FS.Stat(filepath.Join(d.path, layout.CleanShutdownName))
	switch {
	case dirHeldByWriter(d.app.FS, d.path):
		f.close = "open: a writer or a broker is at work"
	case err == nil:
		f.close = "clean"
	default:
		f.close = "not clean, or its logs were opened one by one since"
	}
}

func (d *logDir) tell(f dirFigures) error {
	out := d.app.Out
	if out.JSON() {
		obj := out.Object("log_directory").Text("directory", d.path).Int("topics", int64(f.topics)).
			Int("partitions", int64(f.partitions)).Int("damaged_partitions", int64(d.damaged)).Int("unreadable_partitions", int64(d.unreadable)).
			Int("other_directories", int64(len(d.others))).Int("segments", int64(f.segments)).
			Int("offsets", f.records).Int("size", f.size).
			Int("compacted_partitions", int64(f.compacted)).Int("clean_size", f.clean).Int("dirty_size", f.dirty).
			Text("last_close", f.close)
		if f.hasIdentity {
			obj.String("cluster_id", f.identity.ClusterID).Int("node_id", int64(f.identity.NodeID))
		} else {
			obj.Null("cluster_id").Null("node_id")
		}
		return out.Emit(obj)
	}
	table := out.Table(Left(""), Left("")).Plain()
	table.Row("directory", escaped(d.path))
	table.Row("partitions", fmt.Sprintf("%s of %s", commas(int64(f.partitions)), plural(int64(f.topics), "topic", "topics")))
	if d.damaged > 0 {
		table.Row("damaged", Styled(Bad, commas(int64(d.damaged))))
	}
	if d.unreadable > 0 {
		table.Row("unreadable", Styled(Bad, commas(int64(d.unreadable))))
	}
	if len(d.others) > 0 {
		table.Row("others", fmt.Sprintf("%s: deleted, future, stray or unknown", commas(int64(len(d.others)))))
	}
	table.Row("segments", commas(int64(f.segments)))
	table.Row("offsets", commas(f.records))
	table.Row("log size", out.Size(f.size))
	if f.compacted > 0 {
		table.Row("compacted", fmt.Sprintf("%s, %s clean, %s dirty", plural(int64(f.compacted), "partition", "partitions"), out.Size(f.clean), out.Size(f.dirty)))
	}
	if f.hasIdentity {
		table.Row("cluster", f.identity.ClusterID)
		table.Row("node", f.identity.NodeID)
	}
	table.Row("last close", f.close)
	return table.Flush()
}
