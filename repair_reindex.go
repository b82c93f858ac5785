package seglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
	"github.com/seglog/seglog/timeindex"
)

// ReindexOptions are choices for Reindex. The zero value makes all indexes anew.
type ReindexOptions struct {
	// Only names segments by their base offsets. Without any, all are meant.
	Only []int64
	// DryRun writes nothing, and reports the same.
	DryRun bool
	// IndexIntervalBytes is how many bytes of log lie between two entries; see
	// Options.IndexIntervalBytes.
	IndexIntervalBytes int
	// Progress is told every now and then how many of all bytes to be read have
	// been read.
	Progress func(done, total int64)

	// FS is where the files live; see Options.FS.
	FS vfs.FS
}

// ReindexReport is what Reindex did, or would do, segment after segment.
type ReindexReport struct {
	Segments []ReindexedSegment
}

// ReindexedSegment is a segment whose indexes were made anew.
type ReindexedSegment struct {
	BaseOffset int64
	File       string // name of the log
	// How many entries its indexes had and have.
	Index, TimeIndex, TxnIndex EntryCounts
	// Damage is the first damage in the log, or nil. What is behind it is indexed
	// all the same, but the transaction index is left alone.
	Damage error
}

// EntryCounts is how many entries an index had before and has afterwards. -1
// means that there is no such file.
type EntryCounts struct{ Before, After int }

// Reindex makes the indexes of a log anew from what it holds: offset and time
// indexes just as a broker makes them when it recovers a segment, and transaction
// indexes, where they disagree with the log, as Repair does. Each is put in place in
// one step, when it is complete and durable, so it may be interrupted. A log must
// not be open for writing elsewhere, which is ErrLocked, for a dry run too.
//
// There is no need to call it before opening a log, which rebuilds indexes that
// are missing or contradict themselves. It is for those that contradict the log.
func Reindex(ctx context.Context, dir string, opts ReindexOptions) (ReindexReport, error) {
	r := &reindexing{ctx: ctx, opts: opts}
	if err := r.run(dir); err != nil {
		return r.report, fmt.Errorf("reindex %s: %w", dir, named(err))
	}
	return r.report, nil
}

// reindexing is one call of Reindex.
type reindexing struct {
	ctx    context.Context
	opts   ReindexOptions
	report ReindexReport

	log         *Log
	dir         directory
	txns        *abortedTxns // nil: there are none
	done, total int64
}

func (r *reindexing) run(dir string) (err error) {
	if dir, err = vfs.Abs(r.opts.FS, dir); err != nil {
		return err
	}
	if r.log, err = rescued(dir, r.opts.FS, r.opts.IndexIntervalBytes); err != nil {
		return err
	}
	defer r.log.unlock()
	if r.dir, err = r.log.claim(!r.opts.DryRun); err != nil {
		return err
	}
	bases, err := r.needed()
	if err != nil {
		return err
	}
	if r.txns != nil {
		defer r.txns.it.Close()
	}
	for _, base := range bases {
		if err := r.segment(base); err != nil {
			return err
		}
	}
	return nil
}

// wanted reports whether a segment is meant.
func (r *reindexing) wanted(base int64) bool {
	return len(r.opts.Only) == 0 || slices.Contains(r.opts.Only, base)
}

// needed is the segments to be read. Where there are transactions that begins
// where it is known which were open.
func (r *reindexing) needed() ([]int64, error) {
	for _, base := range r.opts.Only {
		if !slices.Contains(r.dir.bases, base) {
			return nil, &OptionError{Field: "Only", Value: fmt.Sprint(base), Want: "the base offset of a segment"}
		}
	}
	bases := r.dir.bases
	first := slices.IndexFunc(bases, r.wanted)
	end := len(bases)
	for !r.wanted(bases[end-1]) {
		end--
	}
	transactional, err := r.transactional()
	if err != nil {
		return nil, err
	}
	if transactional {
		for first > 0 && !r.snapshot(bases[first]) {
			first--
		}
		if r.txns, err = newAbortedTxns(r.log.opts.FS, r.log.dir, bases[first]); err != nil {
			return nil, err
		}
	}
	for _, base := range bases[first:end] {
		info, err := r.log.opts.FS.Stat(r.path(layout.Log, base))
		if err != nil {
			return nil, err
		}
		r.total += info.Size()
	}
	return bases[first:end], nil
}

// transactional reports whether transactions are to be looked for. If all is read
// anyway they are; for a few segments it would mean to read all before them, and is
// worth it where a broker keeps track of producers. It does so in every log, from
// the second segment on.
func (r *reindexing) transactional() (bool, error) {
	if len(r.opts.Only) == 0 {
		return true, nil
	}
	found, err := r.log.list()
	return slices.ContainsFunc(slices.Concat(found.live, found.swap), func(f layout.File) bool {
		return f.Kind == layout.TxnIndex || f.Kind == layout.Snapshot
	}), err
}

// snapshot reports whether it is known which transactions were open at base.
func (r *reindexing) snapshot(base int64) bool {
	_, err := producerstate.ReadFile(r.log.opts.FS, filepath.Join(r.log.dir, layout.SnapshotName(base)))
	return err == nil
}

func (r *reindexing) path(kind layout.Kind, base int64) string {
	return filepath.Join(r.log.dir, layout.SegmentFileName(kind, base, layout.Live)+r.dir.suffix[base])
}

func (r *reindexing) segment(base int64) error {
	out := ReindexedSegment{BaseOffset: base, File: filepath.Base(r.path(layout.Log, base))}
	out.Index.Before = r.entries(layout.OffsetIndex, base)
	out.TimeIndex.Before = r.entries(layout.TimeIndex, base)
	if r.txns != nil {
		if err := r.txns.begin(r.log.opts.FS, r.path(layout.TxnIndex, base)); err != nil {
			return err
		}
	}
	info, err := r.log.opts.FS.Stat(r.path(layout.Log, base))
	if err != nil {
		return err
	}
	o := r.log.rescueOptions(info.Size())
	o.Suffix = r.dir.suffix[base]
	done := r.done
	got, err := segment.Open(r.log.dir, base, o).Reindex(segment.ReindexOptions{
		DryRun: r.opts.DryRun || !r.wanted(base),
		Visit: func(pos int64, b record.Batch) error {
			r.advanced(done + pos + int64(b.Size()))
			if r.txns != nil {
				r.txns.batch(b)
			}
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			return nil
		},
	})
	if err != nil || !r.wanted(base) {
		return err
	}
	out.Index.After, out.TimeIndex.After, out.Damage = got.IndexEntries, got.TimeIndexEntries, got.Reason
	out.TxnIndex, err = r.txnIndex(base, got.Reason != nil)
	r.report.Segments = append(r.report.Segments, out)
	return err
}

// txnIndex makes the transaction index of the segment that was read last, unless
// it is damaged: then nobody knows what markers are missing.
func (r *reindexing) txnIndex(base int64, damaged bool) (EntryCounts, error) {
	if r.txns == nil {
		return EntryCounts{-1, -1}, nil
	}
	count := EntryCounts{Before: len(r.txns.old), After: len(r.txns.entries)}
	if _, err := r.log.opts.FS.Stat(r.path(layout.TxnIndex, base)); errors.Is(err, fs.ErrNotExist) {
		count.Before = -1
	}
	if damaged || !r.txns.changed() {
		count.After = count.Before
		return count, nil
	}
	if count.After == 0 {
		count.After = -1
	}
	if r.opts.DryRun {
		return count, nil
	}
	return count, r.log.writeAborted(base, r.txns.entries)
}

func (r *reindexing) advanced(done int64) {
	if r.done = done; r.opts.Progress != nil {
		r.opts.Progress(r.done, r.total)
	}
}

// entries counts those of an index as it is, whatever they say.
func (r *reindexing) entries(kind layout.Kind, base int64) int {
	path := r.path(kind, base)
	if kind == layout.OffsetIndex {
		x, err := index.OpenReadOnly(path, base, index.Options{FS: r.log.opts.FS})
		if err != nil {
			return -1
		}
		defer x.Close()
		return x.Len()
	}
	x, err := timeindex.OpenReadOnly(path, base, timeindex.Options{FS: r.log.opts.FS})
	if err != nil {
		return -1
	}
	defer x.Close()
	return x.Len()
}
