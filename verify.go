package seglog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// VerifyOptions are choices for Verify. The zero value checks everything.
type VerifyOptions struct {
	// Quick checks headers, their order, and indexes. It leaves out checksums
	// and records, and what is only seen in records: timestamps above that of
	// their batch, and transaction markers.
	Quick bool
	// Jobs is how many segments are checked at the same time, each with memory
	// for its largest batch. 0 means one for each processor.
	Jobs int
	// FailFast ends the check at the first problem that is Damage.
	FailFast bool
	// OnProblem is called with each problem soon after it was found, segment
	// after segment, by the goroutine that called Verify.
	OnProblem func(Problem)
	// Progress is told every now and then how many of all bytes in .log files
	// have been checked; one call at a time, but by other goroutines.
	Progress func(done, total int64)

	// FS is where the files live; see Options.FS.
	FS vfs.FS
}

// Severity says how bad a problem is.
type Severity int8

const (
	// Note is nothing bad, but worth to know.
	Note Severity = iota
	// Warning is something that is not as it should be and costs no record:
	// what a crash may leave, or what opening the log for writing repairs.
	Warning
	// Damage is bytes that are not what was written.
	Damage
)

// String returns "note", "warning" or "damage".
func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Damage:
		return "damage"
	}
	return fmt.Sprintf("Severity(%d)", int8(s))
}

// Problem is one thing that Verify found. The kinds are words for programs and
// do not change; those of indexes begin with index, timeindex or txnindex.
//
//	crc_mismatch         the checksum of a batch does not hold
//	bad_size bad_magic   what is there cannot be a batch, or claims too many bytes
//	bad_header           last offset delta or record count contradict the rest
//	bad_record           a record does not decode
//	bad_codec too_large  records cannot be decompressed by us, or not within limits
//	offset_order         a batch does not begin above the one before it
//	offset_range         an offset does not belong into the segment
//	max_timestamp        a record is later than its batch says (Warning)
//	epoch_order          a leader epoch makes no sense, or is above that of the batch behind it (Warning)
//	read_error           the file system cannot read the file here
//	log_size             a log is larger than positions can tell
//	torn_tail            the log ends in a part of a batch (Warning in the last segment)
//	zero_tail            the log ends in zeros (Warning in the last segment of a log that was not closed: room made ahead)
//	in_progress          the last batch is being written, or room made for the next (Note)
//	end_offset           the log ends at another offset than when it was closed
//	missing_end          the log ends below an offset up to which it was on disk
//	segment_overlap      two segments have the same offsets
//	segment_gap          offsets are missing between two segments (Warning if compaction or a broker may have left them out)
//	*_odd_length         the length is no whole number of entries
//	*_order *_entry      entries do not rise; an entry makes no sense by itself
//	*_offset             an entry is about offsets that the segment does not hold
//	index_position       an entry leads to where no good batch starts
//	timeindex_timestamp  a record below the entry's offset is later than its timestamp
//	timeindex_largest    the last entry is not the largest timestamp
//	*_padding            zeros behind the entries (Note in the last segment, else Warning)
//	*_empty *_missing    no entries, no file (Warning)
//	txnindex_missing     no file, though transactions were aborted (Damage)
//	txnindex_unlisted    an aborted transaction is not listed
//	txnindex_marker      an entry is about a marker that is not there, or another's
//	txnindex_first       an entry begins at the wrong offset
//	snapshot_crc         the checksum of a producer snapshot does not hold
//	snapshot_bad         a producer snapshot is damaged otherwise
//	checkpoint_bad       a checkpoint or state file is damaged
//	orphan               a file of a segment that has no log (Warning)
//	leftover             a file that waits to be removed or replaced (Note)
//	set_aside            a .cut file, which keeps what was taken out of the log (Note)
//	foreign_name         not a file of a log: left alone (Note, or Warning if it is a pipe or the like in its place)
type Problem struct {
	Severity Severity
	Kind     string
	File     string // name, without its directory
	Position int64  // byte in File, -1 if it is about the whole file
	Offset   int64  // of the records concerned, as far as known, else -1
	Entry    int    // number of the index entry, from 0; -1 if there is none
	Length   int64  // bytes of a .log that cannot be used, else 0
	Detail   string // what is wrong there, in words
}

// String is the problem on one line:
//
//	00000000000000041022.log: position 786432, offset 41496: crc mismatch
func (p Problem) String() string { return p.File + ": " + p.Text() }

// Text is String without the name of the file.
func (p Problem) Text() string {
	switch {
	case p.Entry >= 0:
		return fmt.Sprintf("entry %d: %s", p.Entry, p.Detail)
	case p.Position < 0, p.Kind == "zero_tail": // says where by itself
		return p.Detail
	case p.Offset < 0:
		return fmt.Sprintf("position %d: %s", p.Position, p.Detail)
	}
	return fmt.Sprintf("position %d, offset %d: %s", p.Position, p.Offset, p.Detail)
}

// maxProblems is how many problems a report keeps.
const maxProblems = 1000

// VerifyReport is what Verify did and found.
type VerifyReport struct {
	Segments        int
	DamagedSegments int   // with a problem that is Damage, in whichever of their files
	Batches         int64 // good ones
	Records         int64 // in good batches; what legacy wrappers hold does not count if Quick
	Bytes           int64 // of the .log files
	Unreadable      int64 // of them, those that are in no good batch
	// ReadableBelow: every record below that offset can be read, from the
	// first segment on. Without damage it is the log end.
	ReadableBelow int64
	// Damage, Warnings and Notes count problems by severity.
	Damage, Warnings, Notes int
	// Problems are the first thousand. VerifyOptions.OnProblem gets all.
	Problems []Problem
	// Stopped is true if FailFast or an error ended the check early.
	Stopped bool
}

// Verify checks the log in a directory, or one file of it: every checksum, that
// every record decodes, that offsets rise in a batch, from batch to batch and
// from segment to segment, every index entry against the log, and the small
// files beside them. What is found is in the report and is no error; an error
// says why something could not be checked, and the report is then about the
// rest. ErrNotALog says that there is nothing to check.
//
// Nothing is written and no lock is taken, so a writer may be at work. The end of
// each file is fixed when it is opened. A batch that is incomplete at the end of
// the last segment is being written if a writer has the lock (in_progress), and
// was left by a crash otherwise (torn_tail); opening the log for writing cuts it.
//
// After damage the check goes on with the next batch whose checksum holds, so
// one bad batch does not hide others. What lies between is counted in
// Problem.Length. An index entry is right if it leads to the start of a batch
// that begins at or below the entry's offset: both an index that names last
// offsets and one that names first offsets are, and so is one entry for several
// batches. Offsets that compaction removed are not missing.
//
// A single index file is checked against the log beside it, if there is one.
func Verify(ctx context.Context, path string, opts VerifyOptions) (VerifyReport, error) {
	v, err := newVerification(ctx, opts)
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify %s: %w", path, err)
	}
	if err := v.run(path); err != nil {
		v.report.Stopped = ctx.Err() != nil
		return v.report, fmt.Errorf("verify %s: %w", path, err)
	}
	return v.report, nil
}

// verification is one call of Verify.
type verification struct {
	opts   VerifyOptions
	ctx    context.Context
	dir    string
	report VerifyReport
	errs   []error // of files that could not be checked

	mine   bool // the caller has the lock: nobody else writes
	writer bool // someone has the directory open for writing

	history               // of the log, which explains gaps
	orphans []layout.File // index files whose log is gone
	telling []int64       // bases of those that tell of a lost segment

	tail    *segmentCheck  // of the last segment, when a directory is checked
	ended   bool           // tail was compared with a state file
	damaged map[int64]bool // base offsets of damaged segments
	broken  bool           // ReadableBelow is where the first damage is, and final

	progress struct {
		sync.Mutex
		done, total int64
	}
}

func newVerification(ctx context.Context, opts VerifyOptions) (*verification, error) {
	if opts.Jobs < 0 {
		return nil, &OptionError{Field: "Jobs", Value: fmt.Sprint(opts.Jobs), Want: "0 or more"}
	}
	if opts.Jobs == 0 {
		opts.Jobs = runtime.GOMAXPROCS(0)
	}
	if opts.FS == nil {
		opts.FS = vfs.OS
	}
	return &verification{opts: opts, ctx: ctx, damaged: map[int64]bool{}}, nil
}

// errFailFast ends a check that is to end at the first damage.
var errFailFast = errors.New("first problem found")

func (v *verification) run(path string) error {
	path, err := vfs.Abs(v.opts.FS, path)
	if err != nil {
		return err
	}
	info, err := v.opts.FS.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		v.dir = path
		err = v.directory()
	} else {
		v.dir = filepath.Dir(path)
		err = v.file(filepath.Base(path))
	}
	if errors.Is(err, errFailFast) {
		v.report.Stopped = true
		err = nil
	}
	v.report.DamagedSegments = len(v.damaged)
	if err != nil {
		return err
	}
	return errors.Join(v.errs...)
}

// found takes in a problem. base is that of the segment it is about, -1 if none.
func (v *verification) found(base int64, p Problem) error {
	r := &v.report
	switch p.Severity {
	case Damage:
		r.Damage++
		if base >= 0 {
			v.damaged[base] = true
		}
	case Warning:
		r.Warnings++
	default:
		r.Notes++
	}
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
	if v.opts.OnProblem != nil {
		v.opts.OnProblem(p)
	}
	if p.Severity == Damage && v.opts.FailFast {
		return errFailFast
	}
	return nil
}

// about is found for a problem of a whole file.
func (v *verification) about(severity Severity, kind, file, detail string, args ...any) error {
	return v.found(-1, Problem{
		Severity: severity, Kind: kind, File: file,
		Position: -1, Offset: -1, Entry: -1, Detail: fmt.Sprintf(detail, args...),
	})
}

// read adds to what has been checked.
func (v *verification) read(bytes int64) {
	if v.opts.Progress == nil {
		return
	}
	v.progress.Lock()
	defer v.progress.Unlock()
	v.progress.done += bytes
	v.opts.Progress(v.progress.done, max(v.progress.done, v.progress.total))
}

// segments checks the segments, several at a time, and takes in what was found
// in their order. A segment whose turn has not come waits when it has found more
// than its channel holds; those before it never wait for it.
func (v *verification) segments(jobs []*segmentCheck) error {
	ctx, cancel := context.WithCancel(v.ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	queue := make(chan *segmentCheck)
	for range min(v.opts.Jobs, len(jobs)) {
		workers.Go(func() {
			for job := range queue {
				job.run(ctx)
			}
		})
	}
	go func() {
		defer close(queue)
		for _, job := range jobs {
			select {
			case queue <- job:
			case <-ctx.Done():
				return
			}
		}
	}()
	var before *segmentCheck
	txns := newOpenTxns()
	for _, job := range jobs {
		if err := v.take(job); err != nil {
			return err
		}
		switch {
		case job.alone:
			continue
		case job.gone:
			before = nil
			continue
		case job.err != nil: // nothing is known from here on
			before, txns.unsure = nil, true
			v.readableUpTo(job.base, true)
			continue
		}
		if err := v.join(before, job, txns); err != nil {
			return err
		}
		before = job
	}
	return nil
}

// take receives what a segment's check finds, until it is done.
func (v *verification) take(job *segmentCheck) error {
	for {
		select {
		case p, more := <-job.problems:
			if !more {
				return v.count(job)
			}
			if err := v.found(job.base, p); err != nil {
				return err
			}
		case <-v.ctx.Done():
			return context.Cause(v.ctx)
		}
	}
}

// count adds the figures of a checked segment to the report.
func (v *verification) count(job *segmentCheck) error {
	if job.err != nil {
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
		v.errs = append(v.errs, job.err)
	}
	if job.gone || job.alone {
		return nil
	}
	r := &v.report
	r.Segments++
	r.Batches += job.batches
	r.Records += job.records
	r.Bytes += job.bytes
	r.Unreadable += job.unreadable
	return nil
}

// join checks what two neighbouring segments have to do with each other, and
// what a transaction has that began in an earlier one.
func (v *verification) join(before, job *segmentCheck, txns *openTxns) error {
	for _, p := range txns.enter(job) {
		if job.only != layout.Unknown && job.only != layout.TxnIndex {
			break
		}
		if err := v.found(job.base, p); err != nil {
			return err
		}
	}
	if err := v.gap(before, job); err != nil {
		return err
	}
	if job.damagedFrom >= 0 {
		v.readableUpTo(job.damagedFrom, true)
	} else {
		v.readableUpTo(job.next, false)
	}
	if before == nil {
		return nil
	}
	if last, first := before.epochs.last, job.epochs.first; last.known && first.known && first.epoch < last.epoch {
		err := v.found(before.base, Problem{
			Severity: Warning, Kind: "epoch_order", File: before.name, Position: last.pos, Offset: last.offset, Entry: -1,
			Detail: fmt.Sprintf("leader epoch %d, and the next segment begins with %d", last.epoch, first.epoch),
		})
		if err != nil {
			return err
		}
	}
	if before.next > job.base {
		return v.found(before.base, Problem{
			Severity: Damage, Kind: "segment_overlap", File: before.name, Position: before.lastPos, Offset: before.next - 1, Entry: -1,
			Detail: fmt.Sprintf("the segment ends at offset %d, and the next one begins at %d", before.next-1, job.base),
		})
	}
	return nil
}

// gap looks why offsets are missing between two segments, if there are.
func (v *verification) gap(before, job *segmentCheck) error {
	if before == nil || before.next >= job.base || before.damagedFrom >= 0 {
		return nil
	}
	if v.writer {
		v.history = v.past() // compaction may have begun since
	}
	missing := OffsetRange{before.next, job.base}
	p := Problem{Severity: Warning, Kind: "segment_gap", File: before.name, Position: -1, Offset: before.next, Entry: -1}
	why := v.loss(before, missing)
	switch {
	case why != "":
		p.Severity = Damage
		v.readableUpTo(before.next, true)
	case before.thinned || job.base <= v.cleanedTo:
		return nil
	default:
		why = "compacted away, or lost"
	}
	p.Detail = fmt.Sprintf("%v are missing before the next segment: %s", missing, why)
	return v.found(before.base, p)
}

// loss says how it is known that offsets behind a segment were lost, if it is. What
// is below the log start was removed.
func (v *verification) loss(before *segmentCheck, missing OffsetRange) string {
	if missing.Next <= v.explained {
		return ""
	}
	for _, f := range v.orphans {
		if f.Base >= missing.First && f.Base < missing.Next && !v.writer {
			v.telling = append(v.telling, f.Base)
			return fmt.Sprintf("they were in a segment of which %s is left", f.Name)
		}
	}
	switch {
	case missing.Next <= v.cleanedTo:
		return ""
	case before.bytes == 0 && before.offsets.count+before.times.count > 0 && !v.writer:
		return "the log is empty, but its indexes are not"
	case !before.thinned && missing.Next <= v.closed:
		return "the log was never compacted there, so a segment is lost"
	}
	return ""
}

// readableUpTo moves ReadableBelow, until it has come to where something cannot
// be read.
func (v *verification) readableUpTo(offset int64, final bool) {
	if !v.broken {
		v.report.ReadableBelow, v.broken = offset, final
	}
}

// survey lists the directory and tells live segments from leftovers as opening
// the log for reading does.
func (v *verification) survey() (verdict, error) {
	l := &Log{dir: v.dir, opts: Options{FS: v.opts.FS}}
	found, err := l.list()
	if err != nil {
		return verdict{}, err
	}
	verdict, err := decide(found, l.covered)
	if err != nil {
		// A swap log that cannot be read to its end replaces nothing; it is
		// a leftover to us, and the files in place are what is checked.
		verdict.keep = found.live
		verdict.remove = append(verdict.remove, verdict.rename...)
		verdict.rename = nil
	}
	return verdict, nil
}

// held reports whether a writer has the directory, be it one of ours, or the broker
// or Dir it belongs to.
func (v *verification) held() bool {
	dirs := []string{v.dir}
	parent := filepath.Dir(v.dir)
	if isLogDirectory(v.opts.FS, parent) {
		dirs = append(dirs, parent)
	}
	for _, dir := range dirs {
		if held, err := vfs.LockHeld(v.opts.FS, filepath.Join(dir, layout.LockFileName)); held && err == nil {
			return true
		}
	}
	return false
}
