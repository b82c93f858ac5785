package compaction

import (
	"cmp"
	"errors"
	"slices"

	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// transactions follows the transactions of a log while it is read from front to back,
// across segments and groups of them. It says which batches belong to aborted ones and
// which markers have nothing left to mark. Kafka: CleanedTransactionMetadata.
type transactions struct {
	aborted []segment.AbortedTxn  // that have not begun yet, by first offset
	open    map[int64]*abortedTxn // by producer, those that have
	// committed are the producers with batches of another since their last marker; true
	// if one of them can be read.
	committed map[int64]bool
	start     int64 // the log start: what lies below cannot be
}

type abortedTxn struct {
	segment.AbortedTxn
	observed bool // a batch of it is still there, be it without records
}

// errUnlisted: a log that lost its transaction index must not be cleaned. Without the transaction index records of an aborted transaction would
// pass for good ones, and take the place of those that are.
var errUnlisted = errors.New("the transaction that the marker aborts is not in the transaction index")

// newTransactions takes the aborted transactions of a log whose markers are at from or
// above, and its log start. It keeps no part of txns.
func newTransactions(txns []segment.AbortedTxn, from, start int64) *transactions {
	t := &transactions{open: map[int64]*abortedTxn{}, committed: map[int64]bool{}, start: start}
	for _, a := range txns {
		if a.LastOffset >= from {
			t.aborted = append(t.aborted, a)
		}
	}
	slices.SortFunc(t.aborted, func(a, b segment.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return t
}

// begin opens the aborted transactions that start at or below offset.
func (t *transactions) begin(offset int64) {
	for len(t.aborted) > 0 && t.aborted[0].FirstOffset <= offset {
		a := t.aborted[0]
		t.aborted = t.aborted[1:]
		if o := t.open[a.ProducerID]; o == nil || o.LastOffset < a.FirstOffset {
			t.open[a.ProducerID] = &abortedTxn{AbortedTxn: a}
		}
	}
}

// data takes in a batch that is no control batch and reports whether it belongs to an
// aborted transaction.
func (t *transactions) data(b record.Batch) (aborted bool) {
	if !b.IsTransactional() {
		return false
	}
	t.begin(b.LastOffset())
	if a := t.open[b.ProducerID()]; a != nil && b.BaseOffset() >= a.FirstOffset && b.LastOffset() <= a.LastOffset {
		a.observed = true
		return true
	}
	t.committed[b.ProducerID()] = t.committed[b.ProducerID()] || b.LastOffset() >= t.start
	return false
}

// control takes in a control batch, given its type; none is true for one that has been
// emptied. It reports whether the batch has nothing left to say: then it may go, in
// time. A marker that stays since it aborts batches that are still there comes with
// its entry in the transaction index.
func (t *transactions) control(b record.Batch, kind record.ControlType, none bool) (done bool, keep *segment.AbortedTxn, err error) {
	t.begin(b.LastOffset())
	if none {
		return true, nil, nil
	}
	id := b.ProducerID()
	readable, committed := t.committed[id]
	switch kind {
	case record.Abort:
		a := t.open[id]
		delete(t.open, id)
		switch {
		case a != nil && a.observed:
			return false, &a.AbortedTxn, nil
		case a == nil && readable:
			return false, nil, errUnlisted
		}
		return true, nil, nil
	case record.Commit:
		delete(t.committed, id)
		return !committed, nil, nil
	}
	return false, nil, nil
}
