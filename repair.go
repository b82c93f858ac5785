package seglog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// RepairOptions are choices for Repair. The zero value changes nothing.
type RepairOptions struct {
	// Apply makes the repairs. Without it Repair tells what it would do, and
	// writes nothing.
	Apply bool
	// IndexIntervalBytes is for the indexes that are made anew; see
	// Options.IndexIntervalBytes.
	IndexIntervalBytes int
	// Jobs is how many segments are checked at the same time; see VerifyOptions.
	Jobs int
	// Progress is told every now and then how many of all bytes to be read have
	// been read; one call at a time.
	Progress func(done, total int64)

	// FS is where the files live; see Options.FS.
	FS vfs.FS
}

// RepairReport is what Repair did, or would do.
type RepairReport struct {
	// Applied is true if something was changed.
	Applied bool
	// Removed is what is taken out of logs, in order.
	Removed []DamagedRange
	// Rebuilt names the derived files that are made anew: indexes, transaction
	// indexes, and the leader epochs.
	Rebuilt []string
	// SetAside names the small files that are damaged and not made anew. They are
	// renamed: ".cut" is appended.
	SetAside []string
	// Missing is the offsets at the end that were on disk and are gone without a
	// trace; none if First is Next. The log goes on behind them.
	Missing OffsetRange
	// Gaps is the offsets that were lost with a segment from the middle of the log. That
	// they are missing is no damage any more afterwards.
	Gaps []OffsetRange
	// Left is what else is wrong and stays: the first thousand things.
	Left []Problem
	// Damage is how many of the problems that were found Verify calls so. Without any,
	// what is to be done costs no record, and opening the log for writing does it too.
	Damage int
	// Batches and Records count what is in the log after the repair, and End is
	// its log end offset.
	Batches, Records, End int64
}

// Needed reports whether there is anything to repair.
func (r *RepairReport) Needed() bool {
	return len(r.Removed)+len(r.Rebuilt)+len(r.SetAside)+len(r.Gaps) > 0 || r.Missing.First < r.Missing.Next
}

// DamagedRange is a stretch of a .log file without a good batch, from one good
// batch to the next, or to the beginning or the end of the file.
type DamagedRange struct {
	File             string // name, without its directory
	Position, Length int64  // in bytes
	// FirstOffset to LastOffset are the offsets between the good batches before
	// and behind: what was lost, if anything was. LastOffset is below FirstOffset
	// if there is no room between them, and -1 at the end of the log, where nobody
	// knows.
	FirstOffset, LastOffset int64
	// Kind is that of a Problem, and Reason says in words what is wrong.
	Kind, Reason string
	// SHA256 is the hash of the bytes, in hex, and SavedAs names the file that
	// keeps them. Only Repair sets them, and not for bytes that are all zero.
	SHA256, SavedAs string
}

// String is the range on one line:
//
//	00000000000000041022.log: position 786432, 16388 bytes, offsets 41496 to 41505: crc mismatch
func (r DamagedRange) String() string {
	return fmt.Sprintf("%s: position %d, %d bytes, %s: %s", r.File, r.Position, r.Length, r.Offsets(), r.Reason)
}

// Offsets is FirstOffset and LastOffset in words.
func (r DamagedRange) Offsets() string {
	switch {
	case r.LastOffset < 0:
		return fmt.Sprintf("offsets from %d on", r.FirstOffset)
	case !r.mayHoldRecords():
		return "no offsets"
	case r.LastOffset == r.FirstOffset:
		return fmt.Sprintf("offset %d", r.FirstOffset)
	}
	return fmt.Sprintf("offsets %d to %d", r.FirstOffset, r.LastOffset)
}

func (r DamagedRange) mayHoldRecords() bool { return r.LastOffset < 0 || r.LastOffset >= r.FirstOffset }

// Repair takes what Verify calls damage out of a log, in place, and makes the
// files that follow from the log agree with it. Unless RepairOptions.Apply is
// set it only says what it would do. Good batches stay as they are, at their
// offsets; what is taken out leaves a gap. Recover, which copies what is good to
// another directory and touches nothing, should be thought of first.
//
// Before a log is changed the bytes to go are kept beside it, in files that
// neither seglog nor Kafka looks at. Each is named after the log, the position and
// the first 16 digits of the hash of the bytes:
//
//	00000000000000041022.log.786432.9f2c11d051a07be3.cut
//
// Then the segment is written anew without them and put in place in one step, as
// compaction does it: a crash leaves the old or the new one, and repairing again
// goes on from there. That takes as much room on the disk as the segment. The log
// end does not go below what was durable: offsets that were given out are not
// given out again. So a log that Open refuses because its end is missing is opened
// afterwards, with a gap.
//
// Indexes are made anew where they disagree with their log. So are transaction
// indexes, from the markers in the log, but an old entry that agrees with them is
// kept: compaction may have removed what it is about. Leader epochs that cannot be
// read come from the batches. Damaged producer snapshots and a damaged seglog.state
// are renamed: a broker goes on from the snapshot before, and a log of which the
// state is not known is checked when it is opened.
//
// A log that the disk cannot read is left alone, since what cannot be read cannot
// be kept; copy it with Recover. RepairReport.Left is what stays otherwise: batches that cannot be read for their codec or
// size, which is our limit and no damage; offsets that an old broker has put into
// a segment too small for them, which opening the log for writing splits; gaps; and a
// damaged partition.metadata, though a broker takes a log directory with such a file
// offline (PartitionMetadataFile.read). Without the file it would take the log for one
// that is no longer wanted and put the whole directory aside
// (LogManager.isStrayKraftReplica): write the topic's id there, which the cluster knows.
//
// ErrLocked means that the log is open elsewhere, for a dry run too.
func Repair(ctx context.Context, dir string, opts RepairOptions) (RepairReport, error) {
	r := &repair{opts: opts}
	if err := r.run(ctx, dir); err != nil {
		return r.report, fmt.Errorf("repair %s: %w", dir, named(err))
	}
	return r.report, nil
}

// repair is one call of Repair.
type repair struct {
	findings
	opts   RepairOptions
	report RepairReport

	segments []outline
	epochs   *leaderepoch.Cache // by the batches
}

// outline is what is to be made of a segment.
type outline struct {
	ranges    []DamagedRange // to be taken out
	next      int64          // offset behind the last good batch
	aborted   []txnindex.Entry
	reindexed bool // the indexes are made anew
	retried   bool // the transaction index is
}

func (r *repair) run(ctx context.Context, dir string) error {
	dir, err := vfs.Abs(r.opts.FS, dir)
	if err != nil {
		return err
	}
	l, err := rescued(dir, r.opts.FS, r.opts.IndexIntervalBytes)
	if err != nil {
		return err
	}
	defer l.unlock()
	found, err := l.claim(r.opts.Apply)
	if err != nil {
		return err
	}
	r.findings = findings{ctx: ctx, log: l, dir: found, mine: r.opts.Apply, jobs: r.opts.Jobs, tell: r.opts.Progress}
	if err := r.look(); err != nil {
		return err
	}
	if err := r.readable(); err != nil {
		return err
	}
	if err := r.plan(); err != nil {
		return err
	}
	if !r.opts.Apply || !r.report.Needed() {
		return nil
	}
	if err := r.apply(); err != nil {
		return err
	}
	r.report.Applied = true
	return nil
}

// readable refuses a log that the file system could not read to its end: behind
// there may be anything, and it cannot be kept.
func (r *repair) readable() error {
	for _, stretches := range r.bad {
		for _, s := range stretches {
			if s.kind == "read_error" {
				return fmt.Errorf("%v: what cannot be read cannot be kept, and so not be removed", s.problem)
			}
		}
	}
	return nil
}

// plan reads the good batches of the log and decides what is to be done.
func (r *repair) plan() (err error) {
	l := r.log
	txns, err := newAbortedTxns(l.opts.FS, l.dir, r.dir.bases[0])
	if err != nil {
		return err
	}
	if r.epochs, err = leaderepoch.New(nil); err != nil {
		return err
	}
	defer txns.it.Close()
	for i, base := range r.dir.bases {
		if err := txns.begin(l.opts.FS, filepath.Join(l.dir, layout.TxnIndexName(base)+r.dir.suffix[base])); err != nil {
			return err
		}
		out, err := r.outline(i, txns)
		if err != nil {
			return err
		}
		out.aborted, out.retried = txns.entries, txns.changed()
		out.reindexed = len(out.ranges) > 0 || r.stale[base]
		r.segments = append(r.segments, out)
		r.announce(base, out)
	}
	r.report.SetAside = r.aside
	if r.noEpochs {
		r.report.Rebuilt = append(r.report.Rebuilt, layout.LeaderEpochCheckpointName)
	}
	r.report.Left, r.report.Gaps, r.report.Damage = r.left, r.gaps, r.damage
	r.report.End = r.end()
	return nil
}

// outline reads segment i.
func (r *repair) outline(i int, txns *abortedTxns) (outline, error) {
	var out outline
	log, err := r.open(i)
	if err != nil {
		return out, err
	}
	defer log.Close()
	var it record.Iterator
	defer it.Close()
	s, err := r.sift(i, func(b record.Batch, _ int64) error {
		r.report.Batches++
		r.report.Records += countRecords(b, &it)
		txns.batch(b)
		return r.assignEpoch(b)
	}, func(d DamagedRange) error {
		if d.Kind != "zero_tail" {
			sum, err := hashOf(log, d.Position, d.Length)
			if err != nil {
				return err
			}
			d.SHA256 = sum
			d.SavedAs = layout.CutName(d.File, d.Position, sum)
		}
		out.ranges = append(out.ranges, d)
		return nil
	})
	out.next = s.next
	if s.split && len(out.ranges) == 0 {
		for _, b := range r.bad[r.dir.bases[i]] {
			r.leave(b.problem)
		}
	}
	return out, err
}

// assignEpoch follows the leader epochs as a broker's recovery does.
func (r *repair) assignEpoch(b record.Batch) error {
	last, some := r.epochs.Latest()
	if epoch := b.LeaderEpoch(); epoch >= 0 && (!some || epoch > last.Epoch) {
		_, err := r.epochs.Assign(epoch, b.BaseOffset())
		return err
	}
	return nil
}

func (r *repair) announce(base int64, out outline) {
	r.report.Removed = append(r.report.Removed, out.ranges...)
	if out.reindexed {
		r.report.Rebuilt = append(r.report.Rebuilt, layout.OffsetIndexName(base), layout.TimeIndexName(base))
	}
	if out.retried {
		r.report.Rebuilt = append(r.report.Rebuilt, layout.TxnIndexName(base))
	}
}

// end is the log end offset after the repair. If the end of the log is taken out, or
// is missing, it is not below what was durable before.
func (r *repair) end() int64 {
	last, state := r.segments[len(r.segments)-1], &r.log.state
	if len(last.ranges) > 0 && state.RecoveryPoint < unknownOffset {
		return max(last.next, state.RecoveryPoint)
	}
	if want := state.DurableEnd; last.next < want && state.LogStartOffset < want {
		r.report.Missing = OffsetRange{last.next, want}
		return want
	}
	return last.next
}

// hashOf is the SHA-256 of bytes of a file, in hex.
func hashOf(f io.ReaderAt, pos, length int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, pos, length))
	if err == nil && n != length {
		err = io.ErrUnexpectedEOF
	}
	return hex.EncodeToString(h.Sum(nil)), err
}
