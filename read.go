package seglog

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// reader is what one look-up needs; pooled, so that look-ups do not allocate.
type reader struct {
	scan segment.Scanner
	it   record.Iterator

	set           *segmentSet // that aborted transactions were looked for in
	transactional bool        // some batch that extent has seen is of a transaction
}

var (
	readers   = sync.Pool{New: func() any { return new(reader) }}
	iterators = sync.Pool{New: func() any { return new(record.Iterator) }}
)

// check refuses offsets outside [start, end], and reading a closed log.
func (l *Log) check(offset int64) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if at := l.Offsets(); offset < at.Start || offset > at.End {
		return &OffsetError{Offset: offset, Start: at.Start, End: at.End}
	}
	return nil
}

// seek aims c at the first batch whose last offset is at or above offset, and
// leaves its segment acquired: the caller releases c.Segment(). io.EOF when there
// is none.
func (l *Log) seek(c *segment.Scanner, offset int64) error {
	var passed *segment.Segment // it held nothing at or above offset
	for {
		set := l.set.Load()
		s := set.floor(offset)
		if passed != nil && !set.replaced(passed) {
			s = set.after(passed.Base())
		} else if s == nil {
			s = set.first()
		}
		if s == nil {
			return io.EOF
		}
		if err := l.acquire(s); err != nil {
			if errors.Is(err, segment.ErrRetired) {
				err = l.changed(set)
			}
			if err != nil {
				return err
			}
			continue
		}
		err := s.SeekBelow(c, offset, l.boundOf(set, s))
		if err == nil || errors.Is(err, io.EOF) {
			err = l.checkFound(c, offset, err)
		}
		if err == nil {
			return nil
		}
		s.Release()
		if !errors.Is(err, io.EOF) {
			return err
		}
		passed = s
	}
}

// boundOf is what lies behind the offsets of s in set.
func (l *Log) boundOf(set *segmentSet, s *segment.Segment) segment.Bound {
	if next := set.after(s.Base()); next != nil {
		return segment.Bound{Upper: next.Base(), Sealed: true}
	}
	return segment.Bound{Upper: l.end.Load()}
}

// checkFound doubts that no batch holds the offset that was sought: the header of
// the batch before where it should be may lie about its end. In the active segment a
// batch at or above the log end was written but not published yet: io.EOF. found is
// what seeking has returned.
func (l *Log) checkFound(c *segment.Scanner, offset int64, found error) error {
	if found == nil {
		h, err := c.Header()
		if err != nil || h.BaseOffset <= offset {
			return err
		}
		if h.BaseOffset >= l.end.Load() {
			found = io.EOF
		}
	}
	err := c.CheckPassed()
	if errors.Is(err, ErrCorrupt) {
		err = c.Segment().SeekBehind(c, offset, err)
	}
	if err != nil {
		return err
	}
	return found
}

// changed returns once the set of segments is no longer the given one, in which
// a segment was found retired. Whoever removes a segment has published the set
// without it before, or holds the append lock until he does.
func (l *Log) changed(set *segmentSet) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if l.set.Load() != set {
		return nil
	}
	l.append.Lock()
	defer l.append.Unlock()
	switch {
	case l.set.Load() != set:
		return nil
	case l.append.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, named(l.append.failed))
	}
	return ErrClosed
}

// Get returns the record at offset. The caller owns it.
//
// An offset outside of the log gives an *OffsetError; the log end is outside
// here. One that no record has, because it was compacted away or is a transaction
// marker's, gives a *GapError with the offset of the next record, where Records
// would go on. Damage gives a *CorruptionError. The batch is checked and, if
// compressed, decompressed: the cost is that of one batch, and one allocation, or two if
// the record has headers.
func (l *Log) Get(offset int64) (Record, error) {
	rec, _, err := l.GetBuffer(offset, nil)
	return rec, err
}

// GetBuffer is Get for a caller who brings the memory: key, value and header
// values of the record are placed in buf, from its start, if it is large enough,
// and in a larger new one if not. The buffer is returned, to be used again when
// the record is no longer needed.
func (l *Log) GetBuffer(offset int64, buf []byte) (Record, []byte, error) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	d := l.newDoubt()
	rec, buf, err := l.get(r, offset, buf)
	if err != nil {
		rec, buf, err = l.getAgain(r, offset, buf, d, err)
	}
	if err != nil {
		return Record{}, buf, fmt.Errorf("get offset %d: %w", offset, l.tellDamaged(err))
	}
	return rec, buf, nil
}

// getAgain is get after an error that may be about a log that has changed meanwhile.
func (l *Log) getAgain(r *reader, offset int64, buf []byte, d doubt, err error) (rec Record, _ []byte, _ error) {
	for more := true; more && err != nil; {
		if more, err = l.again(&d, err); more {
			rec, buf, err = l.get(r, offset, buf)
		}
	}
	return rec, buf, err
}

func (l *Log) get(r *reader, offset int64, buf []byte) (Record, []byte, error) {
	if err := l.check(offset); err != nil {
		return Record{}, buf, err
	}
	at := l.Offsets()
	if offset == at.End {
		return Record{}, buf, &OffsetError{Offset: offset, Start: at.Start, End: at.End}
	}
	if rec, buf, ok := l.getPlaced(r, offset, buf); ok {
		return rec, buf, nil
	}
	for from := offset; ; {
		err := l.seek(&r.scan, from)
		if errors.Is(err, io.EOF) {
			return Record{}, buf, l.gap(offset, at.End)
		}
		if err != nil {
			return Record{}, buf, err
		}
		s := r.scan.Segment()
		rec, next, err := r.recordFrom(offset)
		if err == nil && rec.Offset == offset {
			var own Record
			own, buf = rec.CloneInto(buf)
			s.Release()
			return own, buf, nil
		}
		s.Release()
		switch {
		case err == nil:
			return Record{}, buf, l.gap(offset, min(rec.Offset, at.End))
		case !errors.Is(err, io.EOF):
			return Record{}, buf, err
		}
		// No more records in this segment, whatever damaged headers in it claim.
		set := l.set.Load()
		behind := set.after(s.Base())
		switch {
		case set.replaced(s):
			from = next // what is behind it may be in the same segment now
		case behind == nil:
			return Record{}, buf, l.gap(offset, at.End)
		default:
			from = max(next, behind.Base())
		}
	}
}

// getPlaced is get for a record whose place is known, or is found out now. Whatever
// stands in the way, get finds out what is wrong.
func (l *Log) getPlaced(r *reader, offset int64, buf []byte) (rec Record, _ []byte, found bool) {
	set := l.set.Load()
	s := set.floor(offset)
	if s == nil || l.acquire(s) != nil {
		return rec, buf, false
	}
	defer s.Release()
	rec, buf, found, unknown := s.RecordAt(&r.it, offset, buf)
	if unknown {
		s.Remember(&r.scan, &r.it, offset, l.boundOf(set, s))
		rec, buf, found, _ = s.RecordAt(&r.it, offset, buf)
	}
	return rec, buf, found
}

// gap is the answer when another record was found in place of the one at offset.
func (l *Log) gap(offset, next int64) error {
	if err := l.overtaken(offset); err != nil {
		return err
	}
	return &GapError{Offset: offset, Next: next}
}

// overtaken says whether retention has moved the log start beyond offset. What was
// found after offset was sought is then not what follows it. The start moves before
// the segments go, so it is asked afterwards.
func (l *Log) overtaken(offset int64) error {
	if at := l.Offsets(); offset < at.Start {
		return &OffsetError{Offset: offset, Start: at.Start, End: at.End}
	}
	return nil
}

// recordFrom decodes the batches from the present one on, up to the first record at
// or above offset. Control records do not count. io.EOF if the segment has none, and
// next is where to go on then.
func (r *reader) recordFrom(offset int64) (rec *Record, next int64, err error) {
	for next = offset; ; {
		b, err := r.scan.Checked()
		if err == nil {
			rec, err = r.recordIn(b, offset)
		}
		switch {
		case errors.Is(err, ErrCorrupt):
			// The header of the damaged batch may claim offsets of others.
			if err := r.scan.Segment().SeekBehind(&r.scan, next, err); err != nil {
				return nil, next, err
			}
			continue
		case rec != nil || err != nil:
			return rec, next, err
		}
		next = b.LastOffset() + 1
		r.scan.Advance()
	}
}

// recordIn decodes the present batch up to the first record at or above offset; nil
// if it has none that counts.
func (r *reader) recordIn(b record.Batch, offset int64) (*Record, error) {
	if b.IsControl() || b.Count() == 0 {
		return nil, nil
	}
	err := r.it.Reset(b)
	if err == nil {
		err = above(b, &r.it, r.scan.Before())
	}
	if err != nil {
		return nil, r.damaged(b, err)
	}
	if r.it.SkipTo(offset) {
		rec := r.it.Record()
		if err := inOrder(b, rec.Offset, offset); err != nil {
			return nil, r.damaged(b, err)
		}
		return rec, nil
	}
	if err := r.it.Err(); err != nil {
		return nil, r.damaged(b, err)
	}
	return nil, nil
}

// damaged puts the place of batch b to an error of its decoding.
func (r *reader) damaged(b record.Batch, err error) error {
	return damagedBatch(r.scan.Segment(), r.scan.Position(), b, err)
}

func damagedBatch(s *segment.Segment, pos int64, b record.Batch, err error) error {
	return &CorruptionError{
		File: s.Name(), BaseOffset: s.Base(), Position: pos, Length: int64(b.Size()),
		FirstOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Err: err,
	}
}

// ReadOptions are choices for Read. nil means none.
type ReadOptions struct {
	// Buffer receives the batches if it is large enough.
	Buffer []byte
	// Isolation says how far to read. With ReadCommitted the batches of aborted
	// transactions are returned too, and ReadResult.Aborted says which they are.
	Isolation Isolation
	// Durable leaves out what is not on disk yet.
	Durable bool
	// HardLimit keeps to the limit even if the first batch is larger; nothing
	// is returned then, but ReadResult.Needed. By default a read returns at least
	// one batch, so that a large one cannot block a reader for ever.
	HardLimit bool
}

// ReadResult is what Read found.
type ReadResult struct {
	// Batches are whole batches as they are stored, one behind the other.
	// The first one may begin below the offset asked for. The caller owns them;
	// they lie in ReadOptions.Buffer if that was large enough.
	Batches []byte
	// NextOffset is where to read on.
	NextOffset int64
	// Aborted are, with ReadCommitted, the aborted transactions that have records
	// below NextOffset, by the order of their markers: a producer's transactional
	// batches are to be left out from FirstOffset on, up to its next ABORT marker.
	Aborted []AbortedTransaction
	// Needed is the size of the batch that HardLimit kept back, else 0.
	Needed int
	// Offsets are the bounds of the log at the time of the read.
	Offsets
}

// AbortedTransaction is the beginning of a transaction that was aborted.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// Read returns the stored bytes of whole batches from the one that holds offset
// on, or the next one there is, up to maxBytes. At the log end it returns
// nothing; outside of the log an *OffsetError. Checksums are not verified: the
// bytes are for someone who will, as a Kafka client does.
func (l *Log) Read(offset int64, maxBytes int, opts *ReadOptions) (ReadResult, error) {
	if opts == nil {
		opts = &ReadOptions{}
	}
	r := readers.Get().(*reader)
	defer readers.Put(r)
	res, err := l.read(r, offset, maxBytes, opts)
	if err != nil {
		return ReadResult{}, fmt.Errorf("read at offset %d: %w", offset, l.tellDamaged(err))
	}
	return res, nil
}

func (l *Log) read(r *reader, offset int64, maxBytes int, opts *ReadOptions) (ReadResult, error) {
	if err := l.check(offset); err != nil {
		return ReadResult{}, err
	}
	if opts.Isolation == ReadCommitted {
		if _, err := l.LastStableOffset(); err != nil { // a read-only log finds out now
			return ReadResult{}, err
		}
	}
	for d := l.newDoubt(); ; {
		r.set = nil
		res, err := l.readOnce(r, offset, maxBytes, opts)
		if err == nil {
			return res, nil
		}
		more, err := l.again(&d, err)
		if !more {
			err = l.lookAgain(err, r.set)
		}
		if err != nil {
			return res, err
		}
		if err := l.check(offset); err != nil {
			return res, err
		}
	}
}

// readOnce is one attempt. errStale means that the log was truncated meanwhile, and
// what was found may not be for this reader; segment.ErrRetired that a segment was
// taken out of the set.
func (l *Log) readOnce(r *reader, offset int64, maxBytes int, opts *ReadOptions) (ReadResult, error) {
	generation := l.generation.Load()
	// The limit before the end: it may only be the lower of the two.
	b := bound{isolation: opts.Isolation, durable: opts.Durable}
	limit := l.limit(b)
	res := ReadResult{NextOffset: offset, Offsets: l.Offsets()}
	if offset == res.End {
		return res, nil
	}
	err := l.seek(&r.scan, offset)
	if errors.Is(err, io.EOF) {
		return res, nil
	}
	if err != nil {
		return res, err
	}
	s := r.scan.Segment()
	defer s.Release()
	if err := l.overtaken(offset); err != nil {
		return res, err
	}
	from := r.scan.Position()
	length, err := r.extent(maxBytes, limit, opts.HardLimit, &res)
	if err != nil || length == 0 {
		return res, err
	}
	if opts.Isolation == ReadCommitted && r.transactional {
		r.set = l.set.Load()
		if r.set.floor(s.Base()) != s {
			return res, errStale
		}
		txns, err := l.abortedBetween(nil, r.set, s, offset, res.NextOffset)
		if err != nil {
			return res, err
		}
		for _, t := range txns {
			res.Aborted = append(res.Aborted, AbortedTransaction{t.ProducerID, t.FirstOffset})
		}
	}
	// In this order, for the reasons of walk.collectAborted.
	if l.limit(b) < res.NextOffset || l.generation.Load() != generation {
		return res, errStale
	}
	res.Batches = sized(opts.Buffer, length)
	_, err = vfs.ReadFull(s.View().Log, res.Batches, from)
	return res, s.CutShort(err)
}

// extent counts the bytes of the batches that fit, from the present one on,
// and notes in res where they end.
func (r *reader) extent(maxBytes int, limit int64, hard bool, res *ReadResult) (int, error) {
	length := 0
	r.transactional = false
	for {
		h, err := r.scan.Header()
		if errors.Is(err, io.EOF) {
			return length, nil
		}
		if err != nil {
			if length > 0 {
				return length, nil // the next read will run into it
			}
			return 0, err
		}
		if h.LastOffset >= limit {
			return length, nil // appended since, or not yet for this reader
		}
		if length+h.Size > maxBytes && (length > 0 || hard) {
			if length == 0 {
				res.Needed = h.Size
			}
			return length, nil
		}
		length += h.Size
		res.NextOffset = h.LastOffset + 1
		r.transactional = r.transactional || h.Transactional
		r.scan.Advance()
	}
}

func sized(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:n]
	}
	return make([]byte, n)
}
