package segment

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
)

// AbortedTxn is an aborted transaction whose marker is in a segment.
type AbortedTxn = txnindex.Entry

// ErrUnlisted: the list of aborted transactions of a segment is missing, damaged or
// not to be trusted. ListAborted puts another in its place.
var ErrUnlisted = errors.New("list of aborted transactions is lost")

// The list of a segment, the file .txnindex, is there if the log has transactions,
// even if none was aborted: see KeepAborted. A broker has no file for an empty list,
// and a lost one looks the same; so when a reader of transactions meets a segment
// without a list, or with one that cannot be right, the owner of the log finds out
// once, and has it written down. Nobody else ever asks.

// KeepAborted is for a segment of a log with transactions, before it is trimmed: that
// it has no aborted ones is then written down, too.
func (s *Segment) KeepAborted() { s.keepAborted.Store(true) }

// DistrustAborted is for a segment whose list may be older than its log, before the
// segment is used.
func (s *Segment) DistrustAborted() { s.distrusted = true }

// NoneAborted says of a writable segment without a list that nothing is lost.
func (s *Segment) NoneAborted() {
	if !s.open.txn.Exists() {
		s.open.unlisted = false
	}
}

// appendAborted notes transactions whose markers were written but are not published
// yet: until a marker can be read nobody looks for its transaction. After an error
// none is noted. Nothing is noted in a list that is lost: it is made from the log.
func (s *Segment) appendAborted(txns []AbortedTxn) error {
	if s.open.unlisted {
		return nil
	}
	for i, t := range txns {
		if err := s.open.txn.Append(t); err != nil {
			return errors.Join(err, s.takeBackAborted(txns[:i]))
		}
	}
	return nil
}

func (s *Segment) takeBackAborted(txns []AbortedTxn) error {
	if len(txns) == 0 || s.open.unlisted {
		return nil
	}
	if err := s.open.txn.TruncateTo(txns[0].LastOffset); err != nil {
		return fmt.Errorf("%w: %w", ErrAppendNotUndone, err)
	}
	return nil
}

// truncateAborted follows a truncation of the log.
func (s *Segment) truncateAborted(offset int64) error {
	if s.open.unlisted {
		return nil
	}
	return s.open.txn.TruncateTo(offset)
}

// NoteAborted is for recovery, which makes the list anew: it is called by the Visit
// of RecoverOptions for a marker that it sees. If there is no room for it the list is
// lost.
func (s *Segment) NoteAborted(t AbortedTxn) error {
	if s.open.unlisted {
		return nil
	}
	err := s.open.txn.Append(t)
	if !vfs.IsNoSpace(err) {
		return err
	}
	s.open.unlisted = true
	// A part of a list would pass for a whole one.
	return errors.Join(s.open.txn.Close(), removeIfThere(s.opts.FS, s.txnIndexPath()))
}

// Aborted appends to dst the transactions listed in this segment that readers of
// committed records in [from, upper) have to leave out. If complete is false the
// segments behind may list more. The segment must be acquired. ErrUnlisted if the list
// is lost.
func (s *Segment) Aborted(dst []AbortedTxn, from, upper int64) (txns []AbortedTxn, complete bool, err error) {
	if s.open.listed {
		for _, t := range s.open.list {
			if t.LastOffset >= from && t.FirstOffset < upper {
				dst = append(dst, t)
			}
			if t.LastStableOffset >= upper {
				return dst, true, nil
			}
		}
		return dst, false, nil
	}
	if s.open.unlisted {
		return dst, false, ErrUnlisted
	}
	txns, complete, err = s.open.txn.Collect(dst, from, upper)
	if errors.Is(err, txnindex.ErrCorrupt) { // damaged while it was open
		return dst, false, ErrUnlisted
	}
	return txns, complete, err
}

// Unlisted reports whether the list is lost. The segment must be acquired.
func (s *Segment) Unlisted() bool {
	_, _, err := s.Aborted(nil, 0, 0)
	return !s.open.listed && (errors.Is(err, ErrUnlisted) || s.open.txn.Check() != nil)
}

// ListAborted makes txns the list of the segment. It is written down, unless the
// segment is read-only or the disk is full: then it is kept in memory. The caller
// keeps away whoever appends to the segment or truncates it.
func (s *Segment) ListAborted(txns []AbortedTxn) error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.open.retired || !s.open.isOpen {
		return nil // whoever asks next finds out
	}
	if s.opts.ReadOnly {
		s.open.list, s.open.listed = txns, true
		return nil
	}
	var data []byte
	for _, t := range txns {
		data = txnindex.AppendEntry(data, t)
	}
	s.open.unlisted = true
	err := s.open.txn.Close() // not every system lets an open file be replaced
	if err == nil {
		err = vfs.WriteFileAtomic(s.opts.FS, s.txnIndexPath(), data)
	}
	if vfs.IsNoSpace(err) && !s.writable.Load() {
		s.open.list, s.open.listed = txns, true
		return nil
	}
	if err == nil {
		err = s.openTxnIndex(s.writable.Load())
	}
	if err != nil {
		return fmt.Errorf("list the aborted transactions of segment %d: %w", s.base, err)
	}
	return nil
}

// ForgetAborted removes the list of a segment that is not open: nobody vouches for it.
func (s *Segment) ForgetAborted() error { return removeIfThere(s.opts.FS, s.txnIndexPath()) }

// syncAborted makes the list durable. Once that has failed nobody knows what of it is
// on disk, even if a later sync succeeds: then it goes, and is made from the log.
func (s *Segment) syncAborted() error {
	if s.open.unlisted {
		return nil
	}
	if s.listDoubted {
		return errors.Join(s.ForgetAborted(), s.opts.FS.SyncDir(s.dir))
	}
	err := s.syncList()
	s.listDoubted = err != nil
	return err
}

// syncParkedList is syncAborted for a segment that was sealed while it was parked.
func (s *Segment) syncParkedList() error {
	if s.listDoubted {
		return errors.Join(s.ForgetAborted(), s.opts.FS.SyncDir(s.dir))
	}
	err := s.syncFile(s.txnIndexPath())
	s.listDoubted = err != nil
	return err
}

func (s *Segment) syncList() error {
	if s.keepAborted.Load() {
		if err := s.open.txn.Create(); err != nil {
			return err
		}
	}
	if err := s.open.txn.Sync(); !errors.Is(err, txnindex.ErrReadOnly) {
		return err
	}
	return nil // ListAborted has written it, durably
}

// SyncAborted makes what NoteAborted noted durable.
func (s *Segment) SyncAborted() error { return s.syncAborted() }

// openTxnIndex opens the list of aborted transactions, and looks whether it can be
// right.
func (s *Segment) openTxnIndex(writable bool) error {
	open := txnindex.OpenReadOnly
	if writable {
		open = txnindex.Open
	}
	var err error
	if s.open.txn, err = open(s.txnIndexPath(), s.base, txnindex.Options{FS: s.opts.FS}); err != nil {
		return err
	}
	none := s.open.parked && s.open.none
	s.open.unlisted = !s.open.txn.Exists() && !none || s.distrusted
	if !s.open.unlisted && s.open.txn.Exists() {
		err := s.open.txn.Check()
		s.open.unlisted = errors.Is(err, txnindex.ErrCorrupt)
		if err != nil && !s.open.unlisted {
			return err
		}
	}
	return nil
}

// beginAborted begins an empty list, for a segment that is empty or about to be read
// from its start.
func (s *Segment) beginAborted() error {
	s.open.unlisted = false
	s.open.list, s.open.listed = nil, false
	return s.open.txn.Reset()
}
