package seglog

import (
	"errors"
	"fmt"
	"math"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/record"
)

// txnCheck compares the index of aborted transactions with the markers in the
// log. An entry is due for every ABORT marker of a transaction that has batches
// in the log; those of a transaction that compaction has emptied may be there or
// not. A transaction may have begun in an earlier segment: what depends on that
// is left to openTxns.
//
// After damage nothing is known any more about which transactions were open.
type txnCheck struct {
	entries
	it     record.Iterator
	unsure bool
	told   bool // that the file is missing

	present  txnindex.Entry
	previous int64 // last offset of the entry before

	producers map[int64]txnState
	carried   []carriedAbort
}

// txnState is what is known of a producer in the segment so far.
type txnState struct {
	first  int64 // of its open transaction, -1 if none
	marker int64 // its last marker, -1 if there was none
}

// carriedAbort is the first marker of a producer in a segment, an ABORT: its
// transaction may have begun earlier.
type carriedAbort struct {
	producer, marker int64
	first            int64 // in this segment, -1 if nothing of it is here
	entry            int64 // number of the index entry, -1 if there is none
	entryFirst       int64
}

func newTxnCheck(s *segmentCheck) txnCheck {
	return txnCheck{
		entries:   entries{s: s, of: layout.TxnIndex, kind: "txnindex"},
		previous:  -1,
		producers: map[int64]txnState{},
	}
}

func (x *txnCheck) begin() error {
	if x.file == nil {
		return nil
	}
	if err := x.form(); err != nil {
		return err
	}
	return x.advance()
}

// advance moves to the next entry that makes sense by itself and is in order.
func (x *txnCheck) advance() error {
	for x.have = false; x.next < x.count && !x.have; x.next++ {
		b, err := x.at(x.next)
		if err != nil {
			return err
		}
		e, err := txnindex.ParseEntry(b)
		var corrupt *txnindex.CorruptError
		switch {
		case errors.As(err, &corrupt):
			err = x.bad(Damage, "entry", x.next, -1, "%s", corrupt.Rule)
		case e.LastOffset < x.s.base:
			err = x.bad(Damage, "offset", x.next, e.LastOffset, "last offset %d is below the segment, which begins at %d", e.LastOffset, x.s.base)
		case e.LastOffset <= x.previous:
			err = x.bad(Damage, "order", x.next, e.LastOffset, "last offset %d does not follow %d", e.LastOffset, x.previous)
		case e.FirstOffset < 0 || e.FirstOffset > e.LastOffset || e.ProducerID < 0:
			err = x.bad(Damage, "entry", x.next, e.LastOffset, "producer %d, offsets %d to %d: makes no sense", e.ProducerID, e.FirstOffset, e.LastOffset)
		case e.LastStableOffset < 0 || e.LastStableOffset > e.LastOffset+1:
			err = x.bad(Damage, "entry", x.next, e.LastOffset, "last stable offset %d is not in [0, %d]", e.LastStableOffset, e.LastOffset+1)
		default:
			x.present, x.have = e, true
		}
		if err != nil {
			return err
		}
		x.previous = max(x.previous, e.LastOffset)
	}
	return nil
}

// batch follows the transactions of the log.
func (x *txnCheck) batch(b record.Batch) error {
	if x.s.v.opts.Quick || !b.HasProducerID() || !b.IsTransactional() {
		return nil
	}
	p := b.ProducerID()
	state, known := x.producers[p]
	if !known {
		state = txnState{first: -1, marker: -1}
	}
	if !b.IsControl() {
		if state.first < 0 {
			state.first = b.BaseOffset()
			x.producers[p] = state
		}
		return nil
	}
	marker, offset, ok := endMarker(b, &x.it)
	if !ok {
		return nil
	}
	if marker.Type == record.Abort {
		if err := x.abort(p, offset, state); err != nil {
			return err
		}
	}
	x.producers[p] = txnState{first: -1, marker: offset}
	return nil
}

// endMarker returns the end marker in a control batch, if it has one: compaction
// may have left the batch empty.
func endMarker(b record.Batch, it *record.Iterator) (m record.EndTxnMarker, offset int64, ok bool) {
	if it.Reset(b) != nil || !it.Next() {
		return m, 0, false
	}
	r := it.Record()
	m, err := record.ParseEndTxnMarker(r.Key, r.Value)
	return m, r.Offset, err == nil
}

// abort compares an ABORT marker of a producer with its entry.
func (x *txnCheck) abort(producer, marker int64, state txnState) error {
	if err := x.skipTo(marker); err != nil {
		return err
	}
	entry := int64(-1)
	e := x.present
	if x.have && e.LastOffset == marker {
		entry = x.next - 1
		if e.ProducerID != producer {
			err := x.bad(Damage, "marker", entry, marker, "it is about producer %d, the marker at offset %d is of producer %d", e.ProducerID, marker, producer)
			if err != nil {
				return err
			}
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	if x.unsure {
		return nil
	}
	a := carriedAbort{producer: producer, marker: marker, first: state.first, entry: entry, entryFirst: e.FirstOffset}
	if state.marker < 0 {
		x.carried = append(x.carried, a)
		return nil
	}
	if p, wrong := x.judge(a, state.marker, state.first); wrong {
		return x.s.tell(x.of, p)
	}
	return nil
}

// judge decides about an aborted transaction of which everything is known:
// its producer's marker before, and its first batch, -1 if none is left.
func (x *txnCheck) judge(a carriedAbort, before, first int64) (Problem, bool) {
	p := Problem{Severity: Damage, File: x.fileName(), Position: -1, Offset: a.marker, Entry: int(a.entry)}
	switch {
	case a.entry >= 0 && (a.entryFirst <= before || first >= 0 && a.entryFirst > first):
		p.Kind, p.Position = "txnindex_first", a.entry*txnindex.EntrySize
		p.Detail = fmt.Sprintf("it begins at offset %d, the transaction of producer %d at %d", a.entryFirst, a.producer, first)
		return p, true
	case a.entry < 0 && first >= 0 && x.file == nil:
		p.Kind = "txnindex_missing"
		p.Detail = fmt.Sprintf("there is none, though producer %d aborted a transaction at offset %d", a.producer, a.marker)
		again := x.told
		x.told = true
		return p, !again
	case a.entry < 0 && first >= 0:
		p.Kind = "txnindex_unlisted"
		p.Detail = fmt.Sprintf("the transaction of producer %d from offset %d, aborted at %d, is not listed", a.producer, first, a.marker)
		return p, true
	}
	return p, false
}

// skipTo tells of the entries whose marker should have come by before offset.
func (x *txnCheck) skipTo(offset int64) error {
	for x.have && x.present.LastOffset < offset {
		if !x.unsure {
			err := x.bad(Damage, "marker", x.next-1, x.present.LastOffset, "there is no ABORT marker at offset %d", x.present.LastOffset)
			if err != nil {
				return err
			}
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (x *txnCheck) finish() error {
	if x.s.v.opts.Quick || x.s.live {
		x.unsure = true // nothing is known of markers, or more may have come
	}
	if err := x.skipTo(math.MaxInt64); err != nil {
		return err
	}
	return x.more()
}

// openTxns follows transactions from segment to segment.
type openTxns struct {
	producers map[int64]txnState
	unsure    bool
}

func newOpenTxns() *openTxns { return &openTxns{producers: map[int64]txnState{}} }

// enter returns what is wrong with aborts in a segment of transactions that may
// have begun earlier, and takes in what the segment leaves open.
func (o *openTxns) enter(s *segmentCheck) []Problem {
	var problems []Problem
	for _, a := range s.txns.carried {
		state, known := o.producers[a.producer]
		if !known {
			state = txnState{first: -1, marker: -1}
		}
		if state.first < 0 {
			state.first = a.first
		}
		if p, wrong := s.txns.judge(a, state.marker, state.first); wrong && !o.unsure {
			problems = append(problems, p)
		}
	}
	for producer, here := range s.txns.producers {
		if state, known := o.producers[producer]; known && here.marker < 0 {
			here.marker = state.marker
			if state.first >= 0 {
				here.first = state.first
			}
		}
		o.producers[producer] = here
	}
	o.unsure = o.unsure || s.txns.unsure
	s.txns.carried, s.txns.producers = nil, nil
	return problems
}
