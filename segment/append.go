package segment

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/timeindex"
)

// Set is one or more whole batches that are written together.
type Set struct {
	Bytes      []byte
	LastOffset int64
	// MaxTimestamp is the largest timestamp of the set, and
	// OffsetOfMaxTimestamp the last offset of the earliest batch that has it.
	MaxTimestamp         int64
	OffsetOfMaxTimestamp int64
	// Aborted are the transactions that markers in the set abort.
	Aborted []AbortedTxn
}

// Fits reports whether a set that ends at lastOffset can be addressed by this
// segment's 32-bit relative offsets.
func (s *Segment) Fits(lastOffset int64) bool {
	d := lastOffset - s.base
	return d >= 0 && d <= math.MaxInt32
}

// Append writes a set at the end of the log and, when more than the index
// interval was written since the last entry, adds one entry to each index. The
// accounting is Kafka's (LogSegment.append): the check comes before the set's
// own bytes are counted, the entry names the set's last offset and start
// position, and so the first set of a segment never gets an entry.
//
// All of the set is written or none of it: after a failed or short write the
// file is cut back to where it was and the same call may be repeated. If even
// that fails the error matches ErrAppendNotUndone; so it does when someone has
// damaged the files and they cannot be made whole.
func (s *Segment) Append(set Set) error {
	pos := s.size.Load()
	if !s.Fits(set.LastOffset) {
		return fmt.Errorf("append to segment %d up to offset %d: %w", s.base, set.LastOffset, ErrOffsetOverflow)
	}
	if int64(len(set.Bytes)) > MaxBytes-pos {
		return fmt.Errorf("append %d bytes to segment %d of %d bytes: %w", len(set.Bytes), s.base, pos, ErrFull)
	}
	if err := s.Wake(); err != nil {
		return err
	}
	s.touch()
	indexed := s.sinceIndex > s.opts.IndexIntervalBytes
	if indexed { // room for the entries first: a full disk stops us before the log is written
		err := errors.Join(s.open.index.Reserve(), s.open.time.Reserve())
		if errors.Is(err, index.ErrFault) {
			err = s.heal()
			indexed = false // a healed index counts anew, as after opening
		}
		if err != nil {
			return fmt.Errorf("append to segment %d: %w", s.base, err)
		}
	}
	if err := s.open.writer.write(s.open.log, set.Bytes, pos, s.synced.Load(), s.opts.AheadBytes); err != nil {
		return s.undoWrite(pos, s.logFault(err))
	}
	if err := s.appendAborted(set.Aborted); err != nil {
		return s.undoWrite(pos, err)
	}
	before := s.newest.TimestampOffset // which only the writer changes, as long as there is one
	newest := before
	newest.raise(set.MaxTimestamp, set.OffsetOfMaxTimestamp)
	if indexed {
		if err := s.addIndexEntry(set.LastOffset, pos, newest); err != nil {
			return s.undoWrite(pos, errors.Join(err, s.takeBackAborted(set.Aborted)))
		}
		s.sinceIndex = 0
	}
	if pos == 0 {
		s.anchor = set.MaxTimestamp
	}
	s.sinceIndex += int64(len(set.Bytes))
	s.nextOffset = set.LastOffset + 1
	s.size.Store(pos + int64(len(set.Bytes)))
	// Last: a reader that is told of the newest timestamp must find its batch.
	if newest != before {
		s.setNewest(newest)
	}
	return nil
}

// logFault makes a *CorruptionError of an error of the logWriter that says that the file
// is not as it was left.
func (s *Segment) logFault(err error) error {
	if errors.Is(err, index.ErrFault) {
		return s.corrupt(s.size.Load(), 0, -1, -1, err)
	}
	return err
}

func (s *Segment) undoWrite(pos int64, cause error) error {
	if err := s.open.writer.undo(s.open.log, pos); err != nil {
		return errors.Join(
			fmt.Errorf("append to segment %d: %w: %w", s.base, ErrAppendNotUndone, cause), err)
	}
	return fmt.Errorf("append to segment %d: %w", s.base, cause)
}

func (s *Segment) addIndexEntry(lastOffset, pos int64, newest TimestampOffset) error {
	if err := s.open.index.Append(lastOffset, pos); err != nil {
		return err
	}
	if newest.Timestamp < 0 {
		return nil
	}
	if err := s.open.time.MaybeAppend(newest.Timestamp, newest.Offset, false); err != nil {
		// One index must not run ahead of the other, and the set that the
		// entry names is about to be cut off.
		return errors.Join(err, s.open.index.TruncateTo(lastOffset))
	}
	return nil
}

// Newest is the largest timestamp appended to this segment so far and its
// offset, as a pair that belongs together. {-1, base} when there is none. It is
// complete only for a writable segment; readers use LargestTimestamp.
func (s *Segment) Newest() TimestampOffset {
	s.newest.Lock()
	defer s.newest.Unlock()
	return s.newest.TimestampOffset
}

// Seal ends writing: the time index gets its closing entry. It waits for no
// reader and for no disk, so that it can be done under the append lock; Trim
// does the rest.
func (s *Segment) Seal() error {
	if !s.writable.Load() {
		return nil
	}
	if s.open.parked { // with its closing entry
		s.writable.Store(false)
		return nil
	}
	err := s.closingEntry()
	if errors.Is(err, index.ErrFault) {
		if err = s.heal(); err == nil {
			err = s.closingEntry()
		}
	}
	if err != nil {
		return fmt.Errorf("seal segment %d: %w", s.base, err)
	}
	s.writable.Store(false)
	return nil
}

func (s *Segment) closingEntry() error {
	n := s.Newest()
	if n.Timestamp < 0 {
		return nil
	}
	return s.open.time.MaybeAppend(n.Timestamp, n.Offset, true)
}

// Trim cuts the files of a sealed segment to what is in them and makes them
// durable: from then on nobody looks whether they are complete. Reading goes on
// meanwhile, and any goroutine may call it. A segment that became writable again is
// left alone.
func (s *Segment) Trim() error {
	if parked, err := s.trimParked(); parked {
		return err
	}
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if s.writable.Load() || s.trimmed {
		return nil
	}
	if err := s.trimLog(); err != nil {
		return fmt.Errorf("trim segment %d: %w", s.base, err)
	}
	if s.open.index.Faulted() || s.open.time.Faulted() {
		return nil // nothing to trim: closing removes it, and it is made anew
	}
	err := errors.Join(s.open.index.Trim(), s.open.time.Trim())
	if err == nil {
		err = errors.Join(s.syncIndexes(s.open.index.Sync, s.open.time.Sync), s.syncAborted())
	}
	if err != nil {
		return fmt.Errorf("trim indexes of segment %d: %w", s.base, err)
	}
	s.trimmed = true
	return nil
}

// syncIndexes makes both indexes durable. Once that has failed it is not tried again: see
// ErrSyncFailed. The segment is never trimmed then, so that the next open makes its indexes
// anew. trimming is held.
func (s *Segment) syncIndexes(offsets, times func() error) error {
	if s.indexesUnsynced == nil {
		s.indexesUnsynced = errors.Join(offsets(), times())
	}
	return s.indexesUnsynced
}

// trimLog cuts off the room ahead of the log's end. The cut must be on disk before
// anyone takes the segment for complete. trimming is held, or open exclusively.
func (s *Segment) trimLog() error {
	cut, err := s.open.writer.trim(s.open.log, s.size.Load())
	s.cutUnsynced = s.cutUnsynced || cut
	if err == nil && s.cutUnsynced {
		err = s.syncLog()
		s.cutUnsynced = err != nil
	}
	return s.logFault(err)
}

// Activate makes the segment writable: files are opened for writing and the
// indexes get room. The end is found from the last index entry, reading only
// what lies behind it; a caller that cannot trust the tail calls Recover
// instead.
func (s *Segment) Activate() error {
	s.open.Lock()
	defer s.open.Unlock()
	return s.activateLocked()
}

func (s *Segment) activateLocked() error {
	if err := s.openForWritingLocked(); err != nil {
		return fmt.Errorf("open segment %d: %w", s.base, err)
	}
	if err := s.findEndLocked(); err != nil {
		s.closeFilesLocked()
		return fmt.Errorf("open segment %d: %w", s.base, err)
	}
	s.startWriting()
	s.setOpen(true)
	return nil
}

// startWriting is called with open held exclusively, or before anyone else has
// the segment.
func (s *Segment) startWriting() {
	s.writable.Store(true)
	s.trimmed = false
	s.open.parked = false
}

func (s *Segment) openForWritingLocked() error {
	if err := s.closeFilesLocked(); err != nil { // someone may have read it
		return err
	}
	if err := s.openFilesLocked(true); err != nil { // repairs the indexes if need be
		return err
	}
	if err := s.closeFilesLocked(); err != nil {
		return err
	}
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.open.log = f
	s.open.list, s.open.listed = nil, false // it is to be added to
	if s.open.index, err = index.Open(s.indexPath(), s.base, s.indexOptions()); err == nil {
		s.open.time, err = timeindex.Open(s.timeIndexPath(), s.base, s.timeIndexOptions())
	}
	if err == nil {
		err = s.openTxnIndex(true)
	}
	if err == nil {
		err = errors.Join(s.open.index.Grow(), s.open.time.Grow())
	}
	if err != nil {
		s.closeFilesLocked()
		return err
	}
	return nil
}

// TruncateTo removes every batch that holds offset or a later one, once no
// read is under way. A batch that holds offset in its middle goes completely.
// The file is synced: a cut that a crash takes back would let a later append
// and an old batch claim the same offsets.
func (s *Segment) TruncateTo(offset int64) error {
	s.open.Lock()
	defer s.open.Unlock()
	if err := s.truncateLocked(offset); err != nil {
		return fmt.Errorf("truncate segment %d to offset %d: %w", s.base, offset, err)
	}
	return nil
}

func (s *Segment) truncateLocked(offset int64) error {
	if err := s.wakeLocked(); err != nil {
		return err
	}
	end := s.size.Load()
	pos, err := s.positionLocked(offset)
	if err != nil {
		return err
	}
	if err := s.memory.reset(); err != nil {
		return err
	}
	if pos < end {
		if err := s.open.writer.cut(s.open.log, pos); err != nil {
			return err
		}
		s.size.Store(pos)
		if err := s.syncLog(); err != nil {
			return err
		}
	}
	if err := errors.Join(s.truncateIndex(offset, pos), s.open.time.TruncateTo(offset), s.truncateAborted(offset)); err != nil {
		return err
	}
	return s.findEndLocked()
}

// truncateIndex removes the entries about what is at or above offset, or at or behind
// pos. An entry may name any offset of its batch: one below offset may be about a batch
// that was cut off.
func (s *Segment) truncateIndex(offset, pos int64) error {
	for {
		if err := s.open.index.TruncateTo(offset); err != nil {
			return err
		}
		last, ok := s.open.index.Last()
		if !ok || last.Position < pos {
			return nil
		}
		offset = last.Offset
	}
}

// heal makes the indexes of the active segment anew after someone has cut their
// files under the mapping. If that is in vain nothing more can be written.
func (s *Segment) heal() error {
	s.open.Lock()
	defer s.open.Unlock()
	err := s.closeFilesLocked()
	if err == nil {
		err = s.activateLocked()
	}
	if err != nil {
		s.writable.Store(false)
		return fmt.Errorf("%w: %w", ErrAppendNotUndone, err)
	}
	return nil
}

// Reactivate makes a sealed segment writable again. Unlike Activate it may be
// called while the segment is being read.
func (s *Segment) Reactivate() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.open.retired {
		return ErrRetired
	}
	if s.writable.Load() {
		return nil
	}
	if s.open.isOpen {
		if err := s.closeFilesLocked(); err != nil {
			return fmt.Errorf("open segment %d: %w", s.base, err)
		}
	}
	return s.activateLocked()
}
