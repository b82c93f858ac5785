package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/seglog/seglog/index"
)

// Park closes the files of the active segment if it was neither read nor appended
// to since the last Park or CloseIdle, and does not wait for a reader. Readers open
// them again when they need them, and so does the next Append, through Wake. What
// the segment knows of its end stays in memory. Like Append, it is the writer's.
//
// Everything must be synced: a write that the disk refuses later is only reported
// to who has the file open.
func (s *Segment) Park() error {
	if s.used.Swap(false) || !s.open.TryLock() {
		return nil
	}
	defer s.open.Unlock()
	if !s.open.isOpen || !s.writable.Load() {
		return nil
	}
	if s.open.parked { // and was read since
		return s.closeFilesLocked()
	}
	err := s.closingEntry()
	if errors.Is(err, index.ErrFault) {
		err = nil // closing removes that index
	}
	if err == nil {
		err = s.trimLog()
	}
	if err != nil {
		return fmt.Errorf("park segment %d: %w", s.base, err)
	}
	s.open.parked, s.open.none = true, !s.open.unlisted && !s.open.txn.Exists()
	if err := s.closeFilesLocked(); err != nil { // closing an index trims it
		return fmt.Errorf("park segment %d: %w", s.base, err)
	}
	return nil
}

// Wake opens the files of a parked segment for writing. It is the writer's, who
// calls it before he asks whether the segment is full. If it fails the segment
// stays parked and it may be tried again, unless the error matches
// ErrAppendNotUndone: then the files are not as they were left.
func (s *Segment) Wake() error {
	if !s.open.parked { // only the writer changes it
		return nil
	}
	s.open.Lock()
	defer s.open.Unlock()
	if err := s.wakeLocked(); err != nil {
		return fmt.Errorf("open segment %d: %w", s.base, err)
	}
	return nil
}

func (s *Segment) wakeLocked() error {
	if !s.open.parked {
		return nil
	}
	if s.open.isOpen {
		if err := s.closeFilesLocked(); err != nil {
			return err
		}
	}
	if err := s.openForWritingLocked(); err != nil {
		return err
	}
	s.setOpen(true)
	if err := s.checkAsLeft(); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrAppendNotUndone, err), s.closeFilesLocked())
	}
	s.open.parked = false
	return nil
}

// checkAsLeft looks whether someone else has written to a segment that was parked.
func (s *Segment) checkAsLeft() error {
	fi, err := s.open.log.Stat()
	if err != nil {
		return err
	}
	size := s.size.Load()
	if fi.Size() != size {
		return s.corrupt(size, 0, -1, -1, fmt.Errorf("file has %d bytes, it had %d when its files were closed", fi.Size(), size))
	}
	if e, ok := s.open.index.Last(); ok && (e.Offset >= s.nextOffset || e.Position >= size) {
		return s.corrupt(size, 0, -1, -1, fmt.Errorf("the index has an entry for offset %d at position %d, behind the end", e.Offset, e.Position))
	}
	return nil
}

// trimParked is Trim for a segment that was sealed while it was parked: its indexes
// are cut already, but perhaps not on disk.
func (s *Segment) trimParked() (parked bool, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if !s.open.parked || s.open.retired {
		return false, nil
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if s.writable.Load() || s.trimmed {
		return true, nil
	}
	offsets := func() error { return s.syncFile(s.indexPath()) }
	times := func() error { return s.syncFile(s.timeIndexPath()) }
	if err := errors.Join(s.syncIndexes(offsets, times), s.syncParkedList()); err != nil {
		return true, fmt.Errorf("trim indexes of segment %d: %w", s.base, err)
	}
	s.trimmed = true
	return true, nil
}

// syncFile makes a file that is not open durable. One that is missing is made anew
// when it is needed.
func (s *Segment) syncFile(path string) error {
	f, err := s.opts.FS.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
