package seglog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Isolation says how far a reader may go, and which records it gets.
type Isolation int8

const (
	// ReadUncommitted reads up to the high watermark, which is the log end unless
	// Options.Replicated is set. Records of transactions are read as they come.
	// Kafka: isolation.level=read_uncommitted.
	ReadUncommitted Isolation = iota
	// ReadCommitted reads up to the last stable offset, where the oldest open
	// transaction begins, and leaves out the records of aborted transactions.
	// Records that belong to no transaction wait behind it, too. Kafka:
	// isolation.level=read_committed.
	ReadCommitted
	// ReadLogEnd reads all there is, as a follower does.
	ReadLogEnd
)

func (i Isolation) String() string {
	switch i {
	case ReadUncommitted:
		return "read_uncommitted"
	case ReadCommitted:
		return "read_committed"
	case ReadLogEnd:
		return "log_end"
	}
	return fmt.Sprintf("Isolation(%d)", int8(i))
}

// HighWatermark is the offset below which records are on enough replicas to be
// kept. It is the log end, unless Options.Replicated is set.
func (l *Log) HighWatermark() int64 {
	if !l.opts.Replicated {
		return l.end.Load()
	}
	return min(l.watermark.Load(), l.end.Load())
}

// SetHighWatermark moves the high watermark of a log with Options.Replicated to
// offset, or to the nearest one inside the log, and returns where it is then. It
// wakes readers. It is not kept on disk: a log is opened with the high watermark at
// its start, unless it lies in a Dir.
func (l *Log) SetHighWatermark(offset int64) (int64, error) {
	if !l.opts.Replicated {
		return l.end.Load(), fmt.Errorf("set high watermark: %w", &OptionError{Field: "Replicated", Value: "false", Want: "true"})
	}
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.writableLocked(); err != nil {
		return l.HighWatermark(), fmt.Errorf("set high watermark: %w", err)
	}
	offset = max(l.start.Load(), min(offset, l.end.Load()))
	l.watermark.Store(offset)
	if l.append.hasProducers {
		l.publishStableLocked(offset)
	}
	l.arrivals.announce()
	return offset, nil
}

// LastStableOffset is the offset that readers of committed records stop at: the
// high watermark, or the start of the oldest transaction that has not ended below
// it.
func (l *Log) LastStableOffset() (int64, error) {
	if l.opts.ReadOnly {
		if err := l.lockProducers(); err != nil {
			return 0, fmt.Errorf("last stable offset: %w", err)
		}
		l.append.Unlock()
	}
	return l.lastStable(), nil
}

// stableLocked is LastStableOffset for one who holds maintain, which Refresh takes: a
// read-only log that is to be looked at anew before is errGone.
func (l *Log) stableLocked() (int64, error) {
	if l.opts.ReadOnly {
		l.append.Lock()
		defer l.append.Unlock()
		if err := l.knowProducersLocked(); err != nil {
			return 0, err
		}
	}
	return l.lastStable(), nil
}

func (l *Log) lastStable() int64 {
	// In this order: the first unstable offset is published before the records that
	// it is about, so that of what lies below this high watermark it tells all.
	watermark := l.HighWatermark()
	return min(watermark, max(l.unstable.Load(), l.start.Load()))
}

// bound is what limits a reader besides the log end.
type bound struct {
	isolation Isolation
	durable   bool
}

// limit is the offset at which reading ends.
func (l *Log) limit(b bound) int64 {
	end := int64(math.MaxInt64)
	if b.durable {
		end = l.durable.Load()
	}
	switch b.isolation {
	case ReadCommitted:
		return min(end, l.lastStable())
	case ReadLogEnd:
		return min(end, l.end.Load())
	}
	return min(end, l.HighWatermark())
}

// aborted knows the aborted transactions in a range of offsets.
type aborted struct {
	from, to int64 // complete for what lies in [from, to)
	found    []segment.AbortedTxn
	// spans are, by producer, the offsets of its aborted transactions, growing.
	spans map[int64][]span
}

type span struct{ first, last int64 }

// holds reports whether the batch belongs to an aborted transaction.
func (a *aborted) holds(b record.Batch) bool {
	spans := a.spans[b.ProducerID()]
	i, found := slices.BinarySearchFunc(spans, b.BaseOffset(), func(s span, offset int64) int {
		switch {
		case s.last < offset:
			return -1
		case s.first > offset:
			return 1
		}
		return 0
	})
	return found && b.LastOffset() <= spans[i].last
}

// knows reports whether holds can tell of the batch.
func (a *aborted) knows(b record.Batch) bool {
	return a.from <= b.BaseOffset() && b.LastOffset() < a.to
}

// collectAborted finds the aborted transactions with records in [from, to), which
// must lie below the last stable offset. Segment s of the set holds from, and is
// acquired.
func (l *Log) collectAborted(a *aborted, set *segmentSet, s *segment.Segment, from, to int64) error {
	*a = aborted{from: from, to: to, found: a.found[:0], spans: a.spans}
	clear(a.spans)
	var err error
	if a.found, err = l.abortedBetween(a.found, set, s, from, to); err != nil {
		a.to = from
		return err
	}
	if len(a.found) > 0 && a.spans == nil {
		a.spans = map[int64][]span{}
	}
	for _, t := range a.found {
		a.spans[t.ProducerID] = append(a.spans[t.ProducerID], span{t.FirstOffset, t.LastOffset})
	}
	return nil
}

// abortedBetween searches the lists of the segments from s on, as far as need be
// (UnifiedLog.collectAbortedTransactions). s is acquired, and stays so. If another
// was removed from the set meanwhile the error matches segment.ErrRetired.
func (l *Log) abortedBetween(dst []segment.AbortedTxn, set *segmentSet, s *segment.Segment, from, to int64) ([]segment.AbortedTxn, error) {
	dst, complete, err := s.Aborted(dst, from, to)
	for err == nil && !complete {
		if s = set.after(s.Base()); s == nil {
			return dst, nil
		}
		if err = l.acquireHere(s); err == nil {
			dst, complete, err = s.Aborted(dst, from, to)
			s.Release()
		}
	}
	if errors.Is(err, segment.ErrUnlisted) {
		err = &unlistedError{s}
	}
	return dst, err
}

// unlistedError asks for the list of aborted transactions of a segment to be made,
// once nothing is acquired any more.
type unlistedError struct{ s *segment.Segment }

func (e *unlistedError) Error() string { return e.s.Name() + ": " + segment.ErrUnlisted.Error() }

// lookAgain does what a reader needs that has to look again: because the log was
// truncated or refreshed meanwhile, a segment was taken out of the set that it went by,
// which may be nil, or a list of aborted transactions is lost. Any other error is
// returned. Nothing is acquired.
func (l *Log) lookAgain(err error, set *segmentSet) error {
	var lost *unlistedError
	switch {
	case errors.Is(err, errStale):
		return nil
	case errors.Is(err, segment.ErrRetired) && set != nil:
		return l.changed(set)
	case errors.Is(err, segment.ErrRetired):
		return nil
	case errors.Is(err, errGone):
		return l.Refresh()
	case errors.As(err, &lost):
		return l.listAborted(lost.s)
	}
	return err
}

// listAborted makes the list of aborted transactions of a segment from the log, if it
// is lost: from the newest snapshot below on, or from the log start. That costs as
// much as reading that much of the log, once. No segment is acquired by the caller.
func (l *Log) listAborted(s *segment.Segment) error {
	err := l.listAbortedAlone(s)
	if errors.Is(err, errGone) {
		return l.Refresh()
	}
	return err
}

func (l *Log) listAbortedAlone(s *segment.Segment) error {
	l.maintain.Lock() // keeps away truncation, retention and Refresh
	defer l.maintain.Unlock()
	set := l.set.Load()
	if l.closed.Load() || set.floor(s.Base()) != s {
		return nil // who asked looks again
	}
	if s == set.active && !l.opts.ReadOnly { // and appends, for which a full one never waits
		l.append.Lock()
		defer l.append.Unlock()
	}
	if err := l.acquireHere(s); err != nil {
		return err
	}
	unlisted := s.Unlisted()
	s.Release()
	if !unlisted {
		return nil
	}
	txns, err := l.findAborted(set, s)
	if err != nil {
		return err
	}
	if err := l.acquireHere(s); err != nil { // findAborted may have had it closed
		return err
	}
	s.Release()
	l.logger().Info("made a list of aborted transactions", "segment", s.Name(), "transactions", len(txns))
	return s.ListAborted(txns)
}

// findAborted finds the transactions that are aborted by markers in a segment.
func (l *Log) findAborted(set *segmentSet, s *segment.Segment) ([]segment.AbortedTxn, error) {
	segments, base, upper := set.slice(), s.Base(), l.upperOf(set.after(s.Base()))
	m, err := l.producersAt(segments, base)
	if err != nil {
		return nil, err
	}
	var txns []segment.AbortedTxn
	err = l.replay(segments, base, upper, func(b producerstate.Batch) {
		txns = append(txns, abortedIn(m, []producerstate.Batch{b})...)
		m.Apply(b)
	})
	return txns, err
}

// producersAt is what was known of producers at the base of one of the segments of the
// log: from the newest snapshot that is not above, and from the log behind it.
func (l *Log) producersAt(segments []*segment.Segment, base int64) (*producerstate.Manager, error) {
	m, err := producerstate.New(l.dir, producerstate.Options{
		FS: l.opts.FS, ReadOnly: true, ProducerIDExpiration: l.opts.ProducerIDExpiration.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	r, err := m.TruncateAndReload(below(segments, base), base, time.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	if err := l.replay(segments, r.From, base, m.Apply); err != nil {
		return nil, err
	}
	m.Advance(base)
	return m, nil
}

// checkProducerLocked judges a batch that is to be written at its offsets. append
// is held.
func (l *Log) checkProducerLocked(b record.Batch, origin producerstate.Origin) (producerstate.Batch, producerstate.Verdict, error) {
	d, err := producerstate.Describe(b, &l.append.control)
	if err != nil {
		return d, producerstate.Verdict{}, invalid(err)
	}
	verdict, err := l.append.producers.Check(d, origin)
	if errors.Is(err, producerstate.ErrInvalidRecord) {
		err = invalid(err)
	}
	return d, verdict, err
}
