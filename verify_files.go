package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/producerstate"
)

// directory checks the log in v.dir.
func (v *verification) directory() error {
	entries, err := v.opts.FS.ReadDir(v.dir)
	if err != nil {
		return err
	}
	verdict, err := v.survey()
	if err != nil {
		return err
	}
	found := verdict.directory()
	if len(found.bases) == 0 {
		return v.notALog(entries)
	}
	v.writer = !v.mine && v.held()
	v.history, v.orphans = v.past(), found.orphans
	jobs := make([]*segmentCheck, len(found.bases))
	for i, base := range found.bases {
		jobs[i] = v.newSegmentCheck(base, found.suffix[base])
		jobs[i].last = i == len(jobs)-1
		jobs[i].live = jobs[i].last && v.writer
		jobs[i].left = v.left && (jobs[i].last || found.bases[i+1] > v.closed)
	}
	if err := v.measure(jobs); err != nil {
		return err
	}
	v.tail = jobs[len(jobs)-1]
	if err := v.segments(jobs); err != nil {
		return err
	}
	return v.others(entries, verdict, found)
}

// notALog is the error of a directory without segments. If it holds partitions
// it says so, since that is the likely mistake.
func (v *verification) notALog(entries []fs.DirEntry) error {
	for _, e := range entries {
		if _, err := layout.ParseDir(e.Name()); e.IsDir() && err == nil && !layout.ReservedDir(e.Name()) {
			return fmt.Errorf("%w: it holds directories of logs, such as %s", ErrNotALog, e.Name())
		}
		if f, ok := layout.ParseFile(e.Name()); ok && f.Kind.Segment() {
			return fmt.Errorf("%w: it holds %s and no .log file", ErrNotALog, f.Name)
		}
	}
	return ErrNotALog
}

// measure adds up what there is to read, for those who watch.
func (v *verification) measure(jobs []*segmentCheck) error {
	if v.opts.Progress == nil {
		return nil
	}
	for _, job := range jobs {
		info, err := v.opts.FS.Stat(filepath.Join(v.dir, job.name))
		switch {
		case err == nil:
			v.progress.total += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// history is what is known of a log's past that explains missing offsets.
type history struct {
	// cleanedTo is up to where compaction has been in this log, ours or a broker's:
	// below, missing offsets are its work.
	cleanedTo int64
	// explained is up to where offsets that are missing between segments are known to
	// be no loss.
	explained int64
	// closed is up to where we have written the log without leaving out an offset but
	// those. A gap above it is how a power loss leaves a log. 0 if nobody knows.
	closed int64
	// left: the log is ours, and was not closed. Then its end may be room that was made
	// ahead (Options.AheadBytes).
	left bool
}

func (v *verification) past() history {
	files := checkpoint.StateFiles{FS: v.opts.FS, Dir: v.dir}
	state, err := files.Read() // not there, or damaged: then it is not known
	if isLogDirectory(v.opts.FS, filepath.Dir(v.dir)) && !v.untouched() {
		state.RecoveryPoint = 0 // a broker may have begun it anew since
	}
	return history{
		cleanedTo: max(state.FirstDirty, v.cleanedByBroker()),
		explained: max(state.KnownGaps, state.LogStartOffset),
		closed:    state.RecoveryPoint,
		left:      err == nil && state.Clean == nil,
	}
}

// untouched reports whether no broker had the log since a seglog has.
func (v *verification) untouched() bool {
	_, err := v.opts.FS.Stat(filepath.Join(v.dir, layout.UntouchedName))
	return err == nil
}

func (v *verification) cleanedByBroker() int64 {
	dir, err := layout.ParseDir(filepath.Base(v.dir))
	if err != nil {
		return 0
	}
	path := filepath.Join(filepath.Dir(v.dir), layout.CleanerOffsetName)
	entries, _, _ := checkpoint.ReadOffsets(v.opts.FS, path) // not there, or damaged: then it is not known
	for _, e := range entries {
		if e.Topic == dir.Topic && e.Partition == dir.Partition {
			return e.Offset
		}
	}
	return 0
}

// others checks the files that are no part of a segment, and tells of those that
// have no business here.
func (v *verification) others(entries []fs.DirEntry, verdict verdict, found directory) error {
	dead := map[string]bool{}
	for _, f := range verdict.remove {
		dead[f.Name] = true
	}
	l := &Log{dir: v.dir, opts: Options{FS: v.opts.FS}}
	for _, e := range entries {
		f, ours := layout.ParseFile(e.Name())
		_, cut := layout.CutOf(e.Name())
		var err error
		switch {
		case !ours && strings.HasPrefix(e.Name(), "."), e.IsDir() && e.Name() == "lost+found":
		case !ours && cut && e.Type().IsRegular():
			err = v.about(Note, "set_aside", e.Name(), "what a recovery or a repair took out of the log and kept: left alone")
		case !ours:
			err = v.about(Note, "foreign_name", e.Name(), "not the name of a file of a log: left alone")
		case !e.Type().IsRegular() && !l.isFile(e):
			err = v.irregular(e)
		case dead[f.Name] && f.State == layout.Live:
			err = v.about(Note, "leftover", f.Name, "a swap file replaces it when the log is next opened for writing")
		case dead[f.Name]:
			err = v.about(Note, "leftover", f.Name, "removed when the log is next opened for writing")
		case f.State == layout.Live:
			err = v.other(f, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// irregular is for what has the name of a file and is none.
func (v *verification) irregular(e fs.DirEntry) error {
	severity := Note
	if !e.IsDir() {
		severity = Warning // it is where a file should be
	}
	return v.about(severity, "foreign_name", e.Name(), "not a regular file: left alone")
}

// other checks a file that is in use.
func (v *verification) other(f layout.File, found directory) error {
	switch f.Kind {
	case layout.OffsetIndex, layout.TimeIndex, layout.TxnIndex:
		switch {
		case slices.Contains(v.telling, f.Base):
			return v.about(Warning, "orphan", f.Name, "the log of that name is lost")
		case !slices.Contains(found.bases, f.Base):
			return v.about(Warning, "orphan", f.Name, "there is no log of that name: removed when the log is next opened for writing")
		}
		return nil
	case layout.Log, layout.LockFile:
		return nil
	}
	return v.small(f)
}

// small checks a file that is read as a whole.
func (v *verification) small(f layout.File) error {
	path := filepath.Join(v.dir, f.Name)
	var err error
	switch f.Kind {
	case layout.Snapshot:
		return v.snapshot(f, path)
	case layout.LeaderEpochCheckpoint:
		return v.epochs(f, path)
	case layout.PartitionMetadata:
		_, err = checkpoint.ReadPartitionMetadata(v.opts.FS, path)
	case layout.SeglogState:
		return v.state(f, path)
	case layout.MetaProperties:
		_, err = checkpoint.ReadMetaProperties(v.opts.FS, path)
	case layout.RecoveryPoint, layout.LogStart, layout.HighWatermark, layout.CleanerOffset:
		return v.offsetCheckpoint(f, path)
	}
	return v.parsed(f, err)
}

// parsed turns the error of reading a checkpoint into a problem, if it is one.
func (v *verification) parsed(f layout.File, err error) error {
	var corrupt *checkpoint.CorruptError
	switch {
	case err == nil:
	case errors.As(err, &corrupt):
		return v.checkpointBad(f, corrupt)
	case errors.Is(err, fs.ErrNotExist) && v.writer: // replaced or removed since it was listed
	default:
		v.errs = append(v.errs, err)
	}
	return nil
}

func (v *verification) checkpointBad(f layout.File, e *checkpoint.CorruptError) error {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: ", e.Line)
	}
	return v.about(Damage, "checkpoint_bad", f.Name, "%swant %s, found %s", where, e.Expected, e.Found)
}

// state checks one of the two state files, and compares the first that is whole with
// where the log ends.
func (v *verification) state(f layout.File, path string) error {
	state, err := checkpoint.ReadState(v.opts.FS, path)
	if err == nil { // the other copy may be newer
		files := checkpoint.StateFiles{FS: v.opts.FS, Dir: v.dir}
		state, err = files.Read()
	}
	tail := v.tail
	if err != nil || tail == nil || v.ended || tail.unreadable > 0 && tail.reach == 0 || tail.err != nil {
		return v.parsed(f, err)
	}
	v.ended = true
	if v.damaged[tail.base] || tail.torn { // but its log is sound up to there
		return v.missing(state)
	}
	if mark := state.Clean; mark != nil && mark.Segment == tail.base && mark.Size == tail.bytes && mark.EndOffset != tail.next {
		// The base offset of the last batch is contradicted by nothing else.
		return v.found(tail.base, Problem{
			Severity: Damage, Kind: "end_offset", File: tail.name, Position: tail.lastPos, Offset: tail.next - 1, Entry: -1,
			Detail: fmt.Sprintf("the log ends at offset %d, and was closed at %d: the base offset of a batch is wrong", tail.next, mark.EndOffset),
		})
	}
	return v.missing(state)
}

// missing compares the end of the log with what was durable. A single torn batch there
// was told of, and a writer may truncate meanwhile.
func (v *verification) missing(state checkpoint.State) error {
	tail := v.tail
	want := state.DurableEnd
	if !v.untouched() {
		want = min(want, newLog(v.dir, Options{FS: v.opts.FS}).brokerState().RecoveryPoint)
	}
	if v.writer || max(tail.next, tail.reach) >= want || state.LogStartOffset >= want {
		return nil
	}
	return v.found(tail.base, Problem{
		Severity: Damage, Kind: "missing_end", File: tail.name, Position: -1, Offset: tail.next, Entry: -1,
		Detail: fmt.Sprintf("the log ends at offset %d, but was on disk up to %d: a segment is gone, or the end of this one", tail.next, want),
	})
}

func (v *verification) offsetCheckpoint(f layout.File, path string) error {
	_, problems, err := checkpoint.ReadOffsets(v.opts.FS, path)
	for _, p := range problems {
		if err := v.checkpointBad(f, p); err != nil {
			return err
		}
	}
	return v.parsed(f, err)
}

// epochs checks that the epochs and where they begin rise together.
func (v *verification) epochs(f layout.File, path string) error {
	entries, err := leaderepoch.ReadFile(v.opts.FS, path)
	if err != nil {
		return v.parsed(f, err)
	}
	for i := 1; i < len(entries); i++ {
		last, e := entries[i-1], entries[i]
		if e.Epoch <= last.Epoch || e.StartOffset < last.StartOffset {
			return v.about(Damage, "checkpoint_bad", f.Name, "epoch %d from offset %d on does not follow epoch %d from %d on",
				e.Epoch, e.StartOffset, last.Epoch, last.StartOffset)
		}
	}
	return nil
}

// snapshot checks a producer snapshot. What it says must lie below its offset.
func (v *verification) snapshot(f layout.File, path string) error {
	entries, err := producerstate.ReadFile(v.opts.FS, path)
	var corrupt *producerstate.CorruptError
	if errors.As(err, &corrupt) {
		kind := "snapshot_bad"
		if strings.Contains(corrupt.Rule, "crc") {
			kind = "snapshot_crc"
		}
		return v.found(-1, Problem{
			Severity: Damage, Kind: kind, File: f.Name, Position: int64(corrupt.Position), Offset: -1, Entry: -1, Detail: corrupt.Rule,
		})
	}
	if err != nil {
		return v.parsed(f, err)
	}
	for i, e := range entries {
		if e.LastOffset < f.Base && e.CurrentTxnFirstOffset < f.Base {
			continue
		}
		err := v.found(-1, Problem{
			Severity: Damage, Kind: "snapshot_bad", File: f.Name, Position: -1, Offset: max(e.LastOffset, e.CurrentTxnFirstOffset), Entry: i,
			Detail: fmt.Sprintf("producer %d is at offset %d, which is not below that of the snapshot", e.ProducerID, max(e.LastOffset, e.CurrentTxnFirstOffset)),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// file checks one file of v.dir.
func (v *verification) file(name string) error {
	f, ok := layout.ParseFile(name)
	if !ok {
		return fmt.Errorf("%w: %s is not the name of a file of a log", ErrNotALog, name)
	}
	v.writer = f.State == layout.Live && v.held()
	switch f.Kind {
	case layout.Log, layout.OffsetIndex, layout.TimeIndex, layout.TxnIndex:
		return v.segmentFile(f)
	}
	return v.small(f)
}

// segmentFile checks one file of a segment: the log alone, or an index against
// the log beside it.
func (v *verification) segmentFile(f layout.File) error {
	job := v.newSegmentCheck(f.Base, f.State.Suffix())
	job.only = f.Kind
	job.last = v.lastLog() <= f.Base
	job.live, job.left = job.last && v.writer, job.last && v.past().left
	if _, err := v.opts.FS.Stat(filepath.Join(v.dir, job.name)); errors.Is(err, fs.ErrNotExist) {
		job.alone = true
	}
	if err := v.measure([]*segmentCheck{job}); err != nil {
		return err
	}
	return v.segments([]*segmentCheck{job})
}

// lastLog is the largest base offset of a log in the directory.
func (v *verification) lastLog() int64 {
	entries, err := v.opts.FS.ReadDir(v.dir)
	if err != nil {
		return math.MaxInt64 // a directory that may be passed through but not listed
	}
	last := int64(-1)
	for _, e := range entries {
		if f, ok := layout.ParseFile(e.Name()); ok && f.Kind == layout.Log && f.State == layout.Live && e.Type().IsRegular() {
			last = max(last, f.Base)
		}
	}
	return last
}
