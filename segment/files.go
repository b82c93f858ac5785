package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// Acquire makes the segment's files usable until Release: they are neither
// truncated nor closed in between. It opens them on first use, rebuilding an
// index that is missing or damaged unless the segment is read-only. Keep the
// time between Acquire and Release short; truncation and removal wait for it.
func (s *Segment) Acquire() error {
	for {
		s.open.RLock()
		if s.open.isOpen {
			s.touch()
			return nil
		}
		retired := s.open.retired
		s.open.RUnlock()
		if retired {
			return ErrRetired
		}
		if err := s.openForReading(); err != nil {
			return err
		}
	}
}

// touch notes that the segment is in use.
func (s *Segment) touch() {
	if !s.used.Load() { // most find it set, and leave the cache line alone
		s.used.Store(true)
	}
}

// Release ends what Acquire began.
func (s *Segment) Release() { s.open.RUnlock() }

func (s *Segment) openForReading() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.open.isOpen || s.open.retired {
		return nil
	}
	return s.openFilesLocked(false)
}

// openFilesLocked opens the log for reading and both indexes read-only, both of
// which there must be if it is to be written to. The
// size is fixed here: what a live writer in another process appends later
// stays unseen until the segment is refreshed.
func (s *Segment) openFilesLocked(toWrite bool) error {
	if s.absent {
		s.setOpen(true)
		return nil
	}
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() > MaxBytes {
		err = s.corrupt(0, fi.Size(), -1, -1, fmt.Errorf("file has %d bytes, more than the %d a segment can have", fi.Size(), int64(MaxBytes)))
	}
	if err != nil {
		f.Close()
		return err
	}
	s.open.log = f
	first := s.size.Load() < 0
	if first {
		s.size.Store(fi.Size())
		s.open.seen = sight{fi.Size(), fi.ModTime()}
	}
	err = errors.Join(s.openIndexesLocked(toWrite), s.openTxnIndex(false))
	if err == nil && first && s.opts.ReadOnly {
		err = s.leaveOutRoomLocked()
	}
	if err != nil {
		s.closeFilesLocked()
		return err
	}
	s.setOpen(true)
	return nil
}

// leaveOutRoomLocked ends a read-only segment before the room that its writer has made
// ahead of it. One that was sealed a moment ago, or before a crash, may still have it; and
// it may be cut off now.
func (s *Segment) leaveOutRoomLocked() error {
	for {
		size := s.size.Load()
		err := s.findRoomLocked(size)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		fi, serr := s.open.log.Stat()
		if serr != nil || fi.Size() >= size {
			return s.CutShort(err)
		}
		s.size.Store(fi.Size())
	}
}

func (s *Segment) findRoomLocked(size int64) error {
	var last [record.MinFrame]byte
	if size < int64(len(last)) {
		return nil
	}
	if _, err := vfs.ReadFull(s.open.log, last[:], size-int64(len(last))); err != nil {
		return err
	}
	if last != [record.MinFrame]byte{} {
		return nil
	}
	var w Walker
	w.Reset(s.open.log, s.base, s.trustedPosition(), size)
	for w.Next() {
		if part := w.Part(); part.Kind == Zeros {
			s.size.Store(part.Position)
		}
	}
	return w.Err()
}

// openIndexesLocked opens both indexes for reading. One that is missing or
// damaged is rebuilt from the log, or left out when the segment is read-only or the
// disk is full: look-ups then scan from the start of the log.
func (s *Segment) openIndexesLocked(toWrite bool) error {
	if s.opts.ReadOnly {
		s.open.index = usable(index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions()))
		s.open.time = usable(timeindex.OpenReadOnly(s.timeIndexPath(), s.base, s.timeIndexOptions()))
		if s.newestContradicted() {
			err := s.open.time.Close()
			s.open.time = nil
			return err
		}
		return nil
	}
	ix, err := index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions())
	if err == nil && (ix.Check() != nil || ix.Padding() > 0) {
		ix.Close()
		err = errUnusable
	}
	tx, terr := timeindex.OpenReadOnly(s.timeIndexPath(), s.base, s.timeIndexOptions())
	if terr == nil && (tx.Check() != nil || tx.Padding() > 0) {
		tx.Close()
		terr = errUnusable
	}
	if err == nil && terr == nil {
		s.open.index, s.open.time = ix, tx
		if !s.newestContradicted() {
			return nil
		}
		terr = errUnusable
		s.open.index, s.open.time = nil, nil
		tx.Close()
	}
	if ix != nil && err == nil {
		ix.Close()
	}
	if tx != nil && terr == nil {
		tx.Close()
	}
	for _, e := range []error{err, terr} {
		if e != nil && !rebuildable(e) {
			return e
		}
	}
	rebuilt := s.rebuildIndexesLocked(err != nil, terr != nil)
	if vfs.IsNoSpace(rebuilt) && !toWrite {
		if err == nil {
			s.open.index = usable(index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions()))
		}
		if terr == nil {
			s.open.time = usable(timeindex.OpenReadOnly(s.timeIndexPath(), s.base, s.timeIndexOptions()))
		}
		return nil
	}
	if rebuilt != nil {
		return fmt.Errorf("rebuild indexes of segment %d: %w", s.base, rebuilt)
	}
	return nil
}

var errUnusable = errors.New("index is damaged")

func rebuildable(err error) bool {
	var corrupt *index.CorruptError // both kinds of index have the same
	return errors.Is(err, errUnusable) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, index.ErrFault) || errors.As(err, &corrupt)
}

type checked interface {
	comparable
	Check() error
	Close() error
}

// usable is for reading without repair: an index that cannot be opened or
// does not hold together is as good as none.
func usable[T checked](x T, err error) T {
	var none T
	if err != nil {
		return none
	}
	if x.Check() != nil {
		x.Close()
		return none
	}
	return x
}

// setOpen notes whether the files are open. open is held exclusively.
func (s *Segment) setOpen(is bool) {
	if s.opts.Open != nil && is != s.open.isOpen {
		if is {
			s.opts.Open.Add(1)
		} else {
			s.opts.Open.Add(-1)
		}
	}
	s.open.isOpen = is
}

// CloseIdle closes the files of a sealed or parked segment that nobody has acquired
// since the last call, and does not wait for one who has. The next Acquire opens
// them again.
func (s *Segment) CloseIdle() error {
	if s.used.Swap(false) || !s.open.TryLock() {
		return nil
	}
	defer s.open.Unlock()
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if !s.open.isOpen || !s.open.parked && (s.writable.Load() || !s.trimmed) {
		return nil
	}
	return s.closeFilesLocked()
}

// Changed reports whether the log file of a read-only segment is not what it was when
// its end was found: another process has written to it, cut it, or put another file in
// its place. One that nobody has opened yet has not changed.
func (s *Segment) Changed() (bool, error) {
	s.open.RLock()
	seen := s.open.seen
	s.open.RUnlock()
	if seen == (sight{}) {
		return false, nil
	}
	fi, err := s.opts.FS.Stat(s.LogPath())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return fi.Size() != seen.size || !fi.ModTime().Equal(seen.mod), nil
}

// Unindex closes the files and removes both indexes, which are not complete or not
// to be trusted. The next Acquire makes them anew, or does without while the disk is
// full. Nobody else may use the segment meanwhile.
func (s *Segment) Unindex() error {
	s.open.Lock()
	defer s.open.Unlock()
	s.writable.Store(false)
	s.trimmed = true
	err := errors.Join(s.closeFilesLocked(), removeIfThere(s.opts.FS, s.indexPath()), removeIfThere(s.opts.FS, s.timeIndexPath()))
	if err != nil {
		return fmt.Errorf("remove indexes of segment %d: %w", s.base, err)
	}
	return nil
}

// Retire closes the files once no read is under way. Later calls of Acquire
// fail. The writable end is trimmed and gets its closing time entry first.
func (s *Segment) Retire() error {
	s.open.Lock()
	defer s.open.Unlock()
	return s.retireLocked()
}

func (s *Segment) retireLocked() error {
	if s.open.retired {
		return nil
	}
	s.open.retired = true
	if !s.open.isOpen {
		return nil
	}
	var err error
	if s.writable.Load() && !s.open.parked {
		err = s.closingEntry()
		if errors.Is(err, index.ErrFault) {
			err = nil // closing removes that index
		}
	}
	return errors.Join(err, s.closeFilesLocked()) // closing an index trims it
}

func (s *Segment) closeFilesLocked() error {
	errs := []error{s.memory.reset()}
	if s.open.log != nil {
		cut, err := s.open.writer.trim(s.open.log, s.size.Load())
		s.cutUnsynced = s.cutUnsynced || cut
		errs = append(errs, s.logFault(err), s.open.log.Close())
	}
	if x := s.open.index; x != nil {
		errs = append(errs, x.Close(), s.dropFaulted(x.Faulted(), s.indexPath()))
	}
	if x := s.open.time; x != nil {
		errs = append(errs, x.Close(), s.dropFaulted(x.Faulted(), s.timeIndexPath()))
	}
	if s.open.txn != nil {
		errs = append(errs, s.open.txn.Close())
	}
	s.open.files = files{}
	s.setOpen(false)
	return errors.Join(errs...)
}

// dropFaulted removes an index that someone has cut while it was mapped: what is
// left may look whole. The next use makes it anew.
func (s *Segment) dropFaulted(faulted bool, path string) error {
	if !faulted || s.opts.ReadOnly {
		return nil
	}
	return removeIfThere(s.opts.FS, path)
}

// RenameLog gives the log file of a sealed segment another suffix, once no read is
// under way: with the next Acquire readers find it there. Together with RenameIndexes
// it is how a segment takes the place of others while it is read. The names are
// durable when the owner has synced the directory.
func (s *Segment) RenameLog(suffix string) error {
	return s.rename(&s.logSuffix, suffix, s.LogPath)
}

// RenameIndexes is RenameLog for the other files of a segment.
func (s *Segment) RenameIndexes(suffix string) error {
	return s.rename(&s.indexSuffix, suffix, s.indexPath, s.timeIndexPath, s.txnIndexPath)
}

// rename closes the files first: not every system renames what is open.
func (s *Segment) rename(held *atomic.Pointer[string], suffix string, paths ...func() string) error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.open.retired {
		return ErrRetired
	}
	if s.open.isOpen {
		if err := s.closeFilesLocked(); err != nil {
			return fmt.Errorf("rename segment %d: %w", s.base, err)
		}
	}
	var old []string
	for _, path := range paths {
		old = append(old, path())
	}
	before := held.Swap(&suffix)
	for i, path := range paths {
		err := s.opts.FS.Rename(old[i], path())
		if err != nil && (held == &s.logSuffix || !errors.Is(err, fs.ErrNotExist)) {
			held.Store(before) // an index that has its new name already is made anew
			return fmt.Errorf("rename segment %d: %w", s.base, err)
		}
	}
	return nil
}

// Remove retires the segment and deletes its files, which it marks first.
func (s *Segment) Remove() error {
	marked, err := s.MarkDeleted()
	if err != nil {
		return err
	}
	for _, p := range marked {
		if err := s.opts.FS.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment %d: %w", s.base, err)
		}
	}
	return nil
}

// MarkDeleted retires the segment and renames its files to .deleted, log first, so
// that a crash half-way leaves names that the next open sweeps away and never a log
// without its offsets accounted for. It returns the paths that remain to be removed,
// of which some may not exist.
func (s *Segment) MarkDeleted() (marked []string, err error) {
	marked, err = s.RenameDeleted()
	if err == nil {
		err = s.opts.FS.SyncDir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("remove segment %d: %w", s.base, err)
	}
	return marked, nil
}

// RenameDeleted is MarkDeleted for one who removes several segments, and syncs the
// directory when all have been renamed.
func (s *Segment) RenameDeleted() (marked []string, err error) {
	if err := s.Retire(); err != nil {
		return nil, err
	}
	for _, p := range s.Paths() {
		err := s.opts.FS.Rename(p, p+deletedSuffix)
		if vfs.IsNoSpace(err) { // a longer name may need a block that the disk does not have
			err = s.opts.FS.Remove(p)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		marked = append(marked, p+deletedSuffix)
	}
	return marked, nil
}

// Discard retires a segment that has not become part of a log, and deletes its files.
func (s *Segment) Discard() error { return errors.Join(s.Retire(), s.removeFiles()) }

const deletedSuffix = ".deleted"

// Paths are the paths of the files a segment may have, log first.
func (s *Segment) Paths() []string {
	return []string{s.LogPath(), s.indexPath(), s.timeIndexPath(), s.txnIndexPath()}
}

// Sync makes the log durable. Indexes are not synced here: those of a segment
// behind the recovery point are made anew after a crash, and Trim syncs those of
// one that is sealed.
func (s *Segment) Sync() error {
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	size := s.size.Load()
	s.synced.Store(size)
	if err := s.syncLog(); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	// What was stored through a mapping is gone without an error if someone has cut the
	// file inside its last page. Asking for the last byte allocates nothing.
	b := oneByte.Get().(*[1]byte)
	defer oneByte.Put(b)
	_, err := vfs.ReadFull(s.open.log, b[:], size-1)
	return s.CutShort(err)
}

// syncLog syncs the log file. Once that has failed it is not tried again: see
// ErrSyncFailed. One at a time: of two syncs at once a kernel tells only one that what both
// are about could not be written. The files are open, and stay so.
func (s *Segment) syncLog() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.syncing.failed != nil {
		return s.syncing.failed
	}
	if err := s.open.log.Sync(); err != nil {
		s.syncing.failed = syncError{err}
	}
	return s.syncing.failed
}

var oneByte = sync.Pool{New: func() any { return new([1]byte) }}

// ModTime is the log file's modification time, the age of a segment whose
// records carry no timestamp.
func (s *Segment) ModTime() (int64, error) {
	fi, err := s.opts.FS.Stat(s.LogPath())
	if err != nil {
		return 0, err
	}
	return fi.ModTime().UnixMilli(), nil
}

// SetModTime sets what ModTime returns.
func (s *Segment) SetModTime(milliseconds int64) error {
	return s.opts.FS.SetModTime(s.LogPath(), time.UnixMilli(milliseconds))
}

// View is what a reader needs of an acquired segment.
type View struct {
	Log   vfs.File // nil if Size is 0 and there is no file; see OpenAbsent
	Size  int64
	Index *index.Index     // may be nil
	Time  *timeindex.Index // may be nil
}

// View returns the open files. Call it between Acquire and Release, and do
// not keep what it returns beyond that.
func (s *Segment) View() View {
	return View{Log: s.open.log, Size: s.size.Load(), Index: s.open.index, Time: s.open.time}
}
