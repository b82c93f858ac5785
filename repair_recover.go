package seglog

import (
	"context"
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
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// RecoverOptions are choices for Recover. The zero value copies everything up to
// the first damage.
type RecoverOptions struct {
	// SkipBadBatches goes on behind damage, which leaves a gap in the offsets.
	// Without it the copy ends where records may be missing for the first time,
	// as a log does that a broker recovers.
	SkipBadBatches bool
	// From and To limit the copy to the batches that hold an offset in [From, To).
	// From below the log start offset means that, and a To of 0 the log end.
	From, To int64
	// IndexIntervalBytes is for the new indexes; see Options.IndexIntervalBytes.
	IndexIntervalBytes int
	// Jobs is how many segments are checked at the same time; see VerifyOptions.
	Jobs int
	// Progress is told every now and then how many of all bytes to be read have
	// been read; one call at a time.
	Progress func(done, total int64)

	// FS is where the files live; see Options.FS.
	FS vfs.FS
}

// RecoverReport is what Recover copied, and what it did not.
type RecoverReport struct {
	// Segments, Batches, Records and Bytes count what the new log holds.
	Segments                int
	Batches, Records, Bytes int64
	// Start and End are the bounds of the new log.
	Start, End int64
	// Kept is the offsets that were copied, with a gap wherever something was left
	// out. Gaps that compaction has made do not part them.
	Kept []OffsetRange
	// LeftOut is what was met and is no good batch, in order.
	LeftOut []DamagedRange
	// Stopped is true if the copy ended at the last of LeftOut, and Behind is how
	// many good batches lie behind it, in the segments that were meant.
	Stopped bool
	Behind  int64
}

// OffsetRange is the offsets from First on, up to but without Next.
type OffsetRange struct{ First, Next int64 }

// String is the first offset and the last.
func (r OffsetRange) String() string { return fmt.Sprintf("offsets %d to %d", r.First, r.Next-1) }

// Recover copies what can be read of the log in dir to a new log in another
// directory, which must be empty or not exist. The source is never written to
// and no lock of it is taken: it may be on a disk that is read-only, or beside a
// writer, of which it sees the whole batches that were there at the beginning.
//
// Batches are copied byte for byte, with their offsets, to segments of the same
// base offsets with fresh indexes. The log start offset, leader epochs, the topic id
// and producer snapshots go with them as far as they are good; transaction
// indexes are made as Repair makes them. What is not copied is what Verify calls
// damage; batches that only we cannot read, because of their codec or size, are.
//
// Of a part of a log, only the segments that it lies in are read.
//
// When it returns without an error the new log is durable, complete and closed,
// and Verify finds no damage in it but such batches. Otherwise nothing of it is
// left; after a crash there may be, and Open finds no records there.
func Recover(ctx context.Context, dir, newDir string, opts RecoverOptions) (RecoverReport, error) {
	r := &recovering{opts: opts}
	if err := r.run(ctx, dir, newDir); err != nil {
		return r.report, fmt.Errorf("recover %s to %s: %w", dir, newDir, named(err))
	}
	return r.report, nil
}

// recovering is one call of Recover.
type recovering struct {
	findings
	opts     RecoverOptions
	from, to int64
	report   RecoverReport

	out    *Log // the new log
	writer segmentWriter
	txns   *abortedTxns
	it     record.Iterator
	seen   int64 // good batches
	next   int64 // offset behind the last of them
	parted bool  // something was left out since then
}

// errStop ends a copy where it is to end.
var errStop = errors.New("stopped")

func (r *recovering) run(ctx context.Context, dir, newDir string) error {
	if r.opts.From < 0 || r.opts.To < 0 {
		return &OptionError{Field: "From and To", Value: fmt.Sprintf("%d and %d", r.opts.From, r.opts.To), Want: "0 or above"}
	}
	dir, err := vfs.Abs(r.opts.FS, dir)
	if err != nil {
		return err
	}
	if newDir, err = vfs.Abs(r.opts.FS, newDir); err != nil {
		return err
	}
	l, err := rescued(dir, r.opts.FS, 0)
	if err != nil {
		return err
	}
	found, err := l.found()
	if err != nil {
		return err
	}
	r.findings = findings{ctx: ctx, log: l, dir: found, jobs: r.opts.Jobs, tell: r.opts.Progress}
	if err := r.bounds(); err != nil {
		return err
	}
	if r.out, err = rescued(newDir, r.opts.FS, r.opts.IndexIntervalBytes); err != nil {
		return err
	}
	made, err := r.emptyOutput()
	if err != nil {
		return err
	}
	r.writer.log = r.out
	if err = makeDirectory(r.out.opts.FS, r.out.dir); err == nil {
		err = r.out.lock()
	}
	if err == nil {
		err = r.copy()
	}
	if err != nil {
		r.writer.discard()
	}
	r.out.unlock()
	if err != nil {
		r.clear(made)
	}
	return err
}

// found is the segments that there are to read.
func (l *Log) found() (directory, error) {
	v := &verification{dir: l.dir, opts: VerifyOptions{FS: l.opts.FS}}
	entries, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return directory{}, err
	}
	verdict, err := v.survey()
	if err != nil {
		return directory{}, err
	}
	found := verdict.directory()
	if len(found.bases) == 0 {
		return found, v.notALog(entries)
	}
	return found, l.readState()
}

// bounds settles which offsets are wanted.
func (r *recovering) bounds() error {
	start := max(r.log.state.LogStartOffset, r.dir.bases[0])
	r.from, r.to = max(r.opts.From, start), r.opts.To
	if r.to == 0 {
		r.to = math.MaxInt64
	}
	if r.from >= r.to {
		return &OptionError{Field: "To", Value: fmt.Sprint(r.to), Want: fmt.Sprintf("0, or above %d, where the copy begins", r.from)}
	}
	above := func(offset int64) int {
		n, _ := slices.BinarySearch(r.dir.bases, offset)
		return n
	}
	r.meant.first = max(0, above(r.from+1)-1) // the last that begins at or below it
	r.meant.end = above(r.to)
	return nil
}

// emptyOutput looks whether the new directory is empty, or has yet to be made.
func (r *recovering) emptyOutput() (missing bool, err error) {
	dir := r.out.dir
	if within, err := filepath.Rel(r.log.dir, dir); err == nil && !strings.HasPrefix(within, "..") {
		return false, fmt.Errorf("%s is in the directory that is to be recovered", dir)
	}
	entries, err := r.out.opts.FS.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case len(entries) > 0:
		return false, fmt.Errorf("%s holds %s: %w", dir, entries[0].Name(), fs.ErrExist)
	}
	return false, nil
}

// clear removes what an attempt that failed has made, as far as it can be.
func (r *recovering) clear(made bool) {
	fsys, dir := r.out.opts.FS, r.out.dir
	entries, _ := fsys.ReadDir(dir)
	for _, e := range entries {
		_ = fsys.Remove(filepath.Join(dir, e.Name()))
	}
	if made {
		_ = fsys.Remove(dir)
	}
}

func (r *recovering) copy() (err error) {
	if err := r.look(); err != nil {
		return err
	}
	if r.txns, err = newAbortedTxns(r.log.opts.FS, r.log.dir, r.dir.bases[r.meant.first]); err != nil {
		return err
	}
	defer r.txns.it.Close()
	defer r.it.Close()
	if err := r.segments(); err != nil {
		return err
	}
	if len(r.report.Kept) == 0 {
		if err := r.nothing(); err != nil {
			return err
		}
	}
	r.writer.aborted = append(r.writer.aborted, r.txns.take()...)
	if err := r.writer.end(); err != nil {
		return err
	}
	r.summarize()
	if err := r.smallFiles(); err != nil {
		return err
	}
	if err := r.out.replace(r.writer.bases, func() error { return nil }); err != nil {
		return err
	}
	r.out.state.State = checkpoint.State{LogStartOffset: r.report.Start, KnownGaps: r.knownGaps()}
	return r.out.settled(r.report.End)
}

// knownGaps is up to where the copy may have gaps between its segments: those that the
// log had, and what was left out, or where a segment was parted.
func (r *recovering) knownGaps() int64 {
	parted := func(base int64) bool { return !slices.Contains(r.dir.bases, base) }
	if !r.log.ours || len(r.report.LeftOut) > 0 || slices.ContainsFunc(r.writer.bases, parted) {
		return r.report.End
	}
	v := &verification{dir: r.log.dir, opts: VerifyOptions{FS: r.log.opts.FS}}
	return min(max(v.past().cleanedTo, r.log.state.KnownGaps), r.report.End)
}

// nothing makes the copy of a log in which nothing is to be copied: an empty one
// that goes on there.
func (r *recovering) nothing() error {
	if r.opts.From > r.next {
		return &OffsetError{Offset: r.opts.From, Start: r.dir.bases[0], End: r.next}
	}
	r.writer.discard()
	r.writer = segmentWriter{log: r.out}
	return r.writer.begin(r.from, 0)
}

// segments copies the batches of one segment after the other.
func (r *recovering) segments() error {
	for i := r.meant.first; i < r.meant.end; i++ {
		base := r.dir.bases[i]
		if err := r.gapBefore(base); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
		if !r.shadowed(i) { // what is left of one goes on in the segment before
			if err := r.writer.begin(base, r.sizes[i]); err != nil { // one that compaction has emptied, too
				return err
			}
		}
		path := filepath.Join(r.log.dir, layout.TxnIndexName(base)+r.dir.suffix[base])
		if err := r.txns.begin(r.log.opts.FS, path); err != nil {
			return err
		}
		s, err := r.sift(i, r.batch, r.leaveOut)
		r.next = s.next
		r.writer.aborted = append(r.writer.aborted, r.txns.take()...)
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gapBefore is for offsets that are lost with the segment that held them, before the
// one that begins at base.
func (r *recovering) gapBefore(base int64) error {
	for _, gap := range r.gaps {
		if gap.Next != base {
			continue
		}
		i, _ := slices.BinarySearch(r.dir.bases, base)
		return r.leaveOut(DamagedRange{
			File: r.name(i - 1), Position: r.sizes[i-1], FirstOffset: gap.First, LastOffset: gap.Next - 1,
			Kind: "segment_gap", Reason: "the segment behind this one is lost",
		})
	}
	return nil
}

func (r *recovering) batch(b record.Batch, first int64) error {
	if first >= r.to {
		return errStop
	}
	r.seen++
	r.txns.batch(b)
	if b.LastOffset() < r.from {
		r.txns.take()
		return nil
	}
	r.writer.aborted = append(r.writer.aborted, r.txns.take()...)
	if err := r.writer.add(b, first); err != nil {
		return err
	}
	r.report.Batches++
	r.report.Records += countRecords(b, &r.it)
	r.report.Bytes += int64(b.Size())
	r.kept(max(first, r.from), b.LastOffset()+1)
	return nil
}

func (r *recovering) kept(first, next int64) {
	if n := len(r.report.Kept); n > 0 && !r.parted {
		r.report.Kept[n-1].Next = next
		return
	}
	r.parted = false
	r.report.Kept = append(r.report.Kept, OffsetRange{first, next})
}

// leaveOut notes damage, and stops at the first that may have held records that
// are wanted.
func (r *recovering) leaveOut(d DamagedRange) error {
	switch {
	case d.FirstOffset >= r.to:
		return errStop
	case d.LastOffset >= 0 && d.LastOffset < r.from:
		return nil
	}
	r.report.LeftOut = append(r.report.LeftOut, d)
	if !d.mayHoldRecords() {
		return nil
	}
	r.parted = true
	behind := r.goodBatches - r.seen
	if r.opts.SkipBadBatches || behind <= 0 {
		return nil
	}
	r.report.Stopped, r.report.Behind = true, behind
	return errStop
}

func (r *recovering) summarize() {
	bases := r.writer.bases
	r.report.Segments = len(bases)
	r.report.Start = max(r.from, bases[0])
	r.report.End = max(r.report.Start, bases[len(bases)-1])
	if n := len(r.report.Kept); n > 0 {
		r.report.End = max(r.report.End, r.report.Kept[n-1].Next)
	}
}

// smallFiles copies what lies beside the segments, as far as it is good and is
// about what was copied.
func (r *recovering) smallFiles() error {
	fsys := r.log.opts.FS
	data, err := vfs.ReadFile(fsys, filepath.Join(r.log.dir, layout.PartitionMetadataName), maxCheckpoint)
	if err == nil {
		if _, bad := checkpoint.ParsePartitionMetadata(data); bad == nil {
			err = writeWhole(fsys, filepath.Join(r.out.dir, layout.PartitionMetadataName), data)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(r.leaderEpochs(), r.snapshots())
}

func (r *recovering) leaderEpochs() error {
	fsys := r.log.opts.FS
	entries, err := leaderepoch.ReadFile(fsys, filepath.Join(r.log.dir, layout.LeaderEpochCheckpointName))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, checkpoint.ErrCorrupt):
		return nil // a broker finds them in the batches
	case err != nil:
		return err
	}
	epochs, err := leaderepoch.New(entries)
	if err != nil {
		return nil // likewise
	}
	epochs.TruncateFromEnd(r.report.End + 1) // an epoch may have begun without a record yet
	epochs.TruncateFromStart(r.report.Start)
	path := filepath.Join(r.out.dir, layout.LeaderEpochCheckpointName)
	return writeWhole(fsys, path, leaderepoch.Append(nil, epochs.Entries()))
}

// snapshots copies those of which a broker makes use: at the base offset of a
// segment, and at the end.
func (r *recovering) snapshots() error {
	fsys := r.log.opts.FS
	for _, at := range append(slices.Clone(r.writer.bases), r.report.End) {
		path := filepath.Join(r.log.dir, layout.SnapshotName(at))
		entries, err := producerstate.ReadFile(fsys, path)
		beyond := func(e producerstate.Entry) bool { return e.LastOffset >= at || e.CurrentTxnFirstOffset >= at }
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, producerstate.ErrCorrupt) || slices.ContainsFunc(entries, beyond) {
			continue
		}
		if err == nil {
			err = writeWhole(fsys, filepath.Join(r.out.dir, layout.SnapshotName(at)), producerstate.Append(nil, entries))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
