package segment

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/internal/txnindex"
)

// AbortedTxn is an aborted transaction whose marker is in a segment.
type AbortedTxn = txnindex.Entry

// appendAborted notes transactions whose markers were written but are not published
// yet: until a marker can be read nobody looks for its transaction. After an error
// none is noted.
func (s *Segment) appendAborted(txns []AbortedTxn) error {
	for i, t := range txns {
		if err := s.open.txn.Append(t); err != nil {
			return errors.Join(err, s.takeBackAborted(txns[:i]))
		}
	}
	return nil
}

func (s *Segment) takeBackAborted(txns []AbortedTxn) error {
	if len(txns) == 0 {
		return nil
	}
	if err := s.open.txn.TruncateTo(txns[0].LastOffset); err != nil {
		return fmt.Errorf("%w: %w", ErrAppendNotUndone, err)
	}
	return nil
}

// NoteAborted is for recovery, which makes the list anew: it is called by the Visit
// of RecoverOptions for a marker that it sees.
func (s *Segment) NoteAborted(t AbortedTxn) error { return s.open.txn.Append(t) }

// SyncAborted makes what NoteAborted noted durable.
func (s *Segment) SyncAborted() error { return s.open.txn.Sync() }

// Aborted appends to dst the transactions listed in this segment that readers of
// committed records in [from, upper) have to leave out. If complete is false the
// segments behind may list more. The segment must be acquired.
func (s *Segment) Aborted(dst []AbortedTxn, from, upper int64) (txns []AbortedTxn, complete bool, err error) {
	return s.open.txn.Collect(dst, from, upper)
}

// openTxnIndex opens the list of aborted transactions. That there is none is the
// rule.
func (s *Segment) openTxnIndex(writable bool) error {
	open := txnindex.OpenReadOnly
	if writable {
		open = txnindex.Open
	}
	var err error
	s.open.txn, err = open(s.txnIndexPath(), s.base, txnindex.Options{FS: s.opts.FS})
	return err
}
