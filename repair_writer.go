package seglog

import (
	"errors"
	"path/filepath"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// segmentWriter writes batches, byte for byte and at their offsets, to new
// segments with fresh indexes. Their files are durable and named .cleaned until
// Log.replace puts them in place.
type segmentWriter struct {
	log     *Log
	out     *segment.Segment
	bytes   int64            // at most in it
	bases   []int64          // of the segments so far
	aborted []txnindex.Entry // of the batches so far, not yet written
}

// begin begins a segment of at most so many bytes.
func (w *segmentWriter) begin(base, bytes int64) error {
	if err := w.end(); err != nil {
		return err
	}
	w.bytes = bytes
	o := w.log.rescueOptions(bytes)
	o.Suffix = layout.CleanedSuffix
	out, err := segment.Create(w.log.dir, base, o)
	w.bases = append(w.bases, base)
	w.out = out
	return err
}

// rescueOptions are those of a segment whose log has so many bytes. Its indexes
// get no more room than they can need: it is mapped for as long as they grow.
func (l *Log) rescueOptions(bytes int64) segment.Options {
	const room = 2 + 1 // the closing entry, and one that is never used
	o := l.segmentOptions()
	o.IndexMaxBytes = int(min(int64(o.IndexMaxBytes), timeIndexEntrySize*(room+bytes/o.IndexIntervalBytes)))
	return o
}

// add adds a batch whose first record has offset first, in a segment of its own
// if it does not fit the present one.
func (w *segmentWriter) add(b record.Batch, first int64) error {
	size, err := w.out.Size()
	if err != nil {
		return err
	}
	if !w.out.Fits(b.LastOffset()) || size+int64(b.Size()) > segment.MaxBytes || w.out.IndexesFull() {
		if err := w.begin(first, w.bytes); err != nil {
			return err
		}
	}
	return w.out.Append(setOf(b))
}

// end makes the present segment complete and durable.
func (w *segmentWriter) end() error {
	s := w.out
	if s == nil {
		return nil
	}
	w.out = nil
	next := s.NextOffset()
	if err := errors.Join(s.Seal(), s.Trim(), s.Sync(), s.Retire()); err != nil {
		return err
	}
	n := 0
	for n < len(w.aborted) && w.aborted[n].LastOffset < next {
		n++
	}
	if n == 0 {
		return nil
	}
	name := layout.TxnIndexName(s.Base()) + layout.CleanedSuffix
	err := writeWhole(w.log.opts.FS, filepath.Join(w.log.dir, name), encodeAborted(w.aborted[:n]))
	w.aborted = w.aborted[n:]
	return err
}

// discard removes what was written, as far as it can be.
func (w *segmentWriter) discard() {
	if w.out != nil {
		_ = w.out.Retire()
	}
	for _, base := range w.bases {
		for _, kind := range segmentKinds {
			_ = w.log.opts.FS.Remove(filepath.Join(w.log.dir, layout.SegmentFileName(kind, base, layout.Cleaned)))
		}
	}
}
