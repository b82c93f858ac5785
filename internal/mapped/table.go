// Package mapped keeps a table of fixed-size entries in a file that is mapped
// into memory. The offset index and the time index of a segment are such
// tables; this package knows how they live, not what they mean.
//
// A file is entries only, without header or checksum, sorted by a key that is
// the first field of an entry. While it grows it ends in zeros:
//
//	+---------+---------+-----+-----------+----------------+----------------+
//	| entry 0 | entry 1 | ... | entry n-1 | zeros (blocks) | nothing so far |
//	+---------+---------+-----+-----------+----------------+----------------+
//	0                                  n*size       file length     capacity
//	|<------------------------- mapped (on unix) -------------------------->|
//
// Apache Kafka sets the length to the capacity, 10 MiB by default, when it
// creates such a file. This package maps the whole range at once, so that
// nothing moves under a reader, but lets the file follow in steps, from 16 KiB
// doubling up to 1 MiB, each with its blocks really allocated before an entry
// is written to it. Small logs stay small, and a full disk is an error of
// Append; it is never a fault on a page the disk has no block for. On Windows
// the length of a mapped file is fixed: there the file gets its full length
// when it is opened for writing, and trimming waits for Close.
//
// Trim, when a segment is sealed, and Close cut the file down to its entries.
// Both leave alone a file that is as long as it should be: opening and closing
// an index does not make it look new.
//
// # How many entries
//
// A process that dies leaves the zeros behind. Kafka counts them as entries
// until the index is rebuilt; here opening finds where they begin. Keys are
// relative to something, never negative and strictly increasing, so a zero key
// behind the first entry can only be padding. If the last slot has a key the
// file was trimmed; otherwise a binary search finds the first without one.
//
// An all-zero first entry is ambiguous, because a first batch may well have
// relative offset 0, position 0 and time 0. It is an entry if it is all there
// is, or if one with a key follows; in front of more zeros it is padding. The
// guess can be wrong, but only about an entry that says "start at the
// beginning", which is what an empty index says.
//
// If pages reached the disk out of order there may be entries behind zeros.
// Either they are not counted, or the zeros are, which Check reports; Floor
// answers with an entry at or below its target in both cases.
//
// # When the memory fails
//
// Mapped memory is only as good as its file. If someone else cuts the file
// short, or the disk cannot deliver a page, then reading it is not an error but
// a signal, which ends a Go process that does not ask for better. All access
// here asks for it: a fault is a *FaultError of the call that met it. From then
// on the table is faulted. It does not touch the memory again, does not cut the
// file, and fails every call with the first fault, except Close and Drop. The
// memory is not tried again because half of an index answers wrongly without
// any signal: a file has zeros between its end and the end of the page.
package mapped

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/seglog/seglog/internal/vfs"
)

const (
	// DefaultMaxBytes is Kafka's default of segment.index.bytes.
	DefaultMaxBytes = 10 << 20

	firstStep = 16 << 10
	maxStep   = 1 << 20
)

var (
	// ErrFull means that the table has no slot left, or that it was trimmed and
	// not grown since.
	ErrFull = errors.New("index full")

	// ErrOrder means that an entry is not above the one before it.
	ErrOrder = errors.New("index entry out of order")

	// ErrOverflow means that a value does not fit its 32 bits.
	ErrOverflow = errors.New("index entry overflow")

	// ErrReadOnly means that the table was opened for reading.
	ErrReadOnly = errors.New("index is read-only")
)

// Layout describes one kind of table.
type Layout struct {
	// EntrySize is in bytes, a multiple of 4.
	EntrySize int

	// Key is the field that increases from entry to entry. It comes first.
	Key Field

	// Broken says what is wrong with the entry in slot, given that the one in
	// slot before comes earlier, or before is -1. The empty string means
	// nothing.
	Broken func(v View, slot, before int) string
}

// Options say where and how large.
type Options struct {
	FS vfs.FS // nil is the operating system's

	// MaxBytes bounds the file, rounded down to whole entries. 0 means
	// DefaultMaxBytes.
	MaxBytes int
}

// Table is an open table.
//
// One goroutine at a time may call Append, Reserve, TruncateTo, Reset, Trim,
// Grow, Close and Drop. Beside it any number may read, without locks, and one
// may Sync. Close and Drop unmap the memory, so every reader and every Sync
// must have returned before. So must every reader that began before a
// TruncateTo when a Trim follows.
type Table struct {
	path     string
	layout   Layout
	mapping  vfs.Mapping
	bytes    []byte   // of mapping
	file     vfs.File // nil if read-only: a mapping needs no open file
	capacity int      // slots the mapping has room for
	padding  int      // zero slots found by opening
	partial  int      // bytes behind the last whole slot, found by opening
	closed   bool

	// length is the length of the file. All of it has blocks.
	// Invariant: count * EntrySize <= length.
	length int64

	// count is the number of entries. It is stored after the bytes of the last
	// entry, so whoever loads it may read every entry below it.
	count atomic.Int64

	// limit is the slots Append may fill: capacity, or count when trimmed.
	limit atomic.Int64

	// cuts counts truncations. It is added to after count has shrunk and before
	// a slot is written again; see Read.
	cuts atomic.Uint64

	// fault is the first fault of the mapped memory; once set, it stays.
	fault atomic.Pointer[FaultError]
}

// Len returns the number of entries.
func (t *Table) Len() int { return int(t.count.Load()) }

// Cap returns the number of entries there may be: those of MaxBytes, or Len
// once trimmed or if opened for reading.
func (t *Table) Cap() int { return int(t.limit.Load()) }

// Padding returns the number of zero slots behind the entries that opening
// found, and cut off if it was for appending.
func (t *Table) Padding() int { return t.padding }

// Path returns the name the table was opened with.
func (t *Table) Path() string { return t.path }

// Append adds the entry made of words, each stored big-endian. It does not
// check their order. If there is no slot it fails with ErrFull; if the file
// cannot grow, with the file system's error; if the memory cannot be written,
// with a *FaultError; and nothing has changed.
func (t *Table) Append(words ...uint32) error {
	if err := t.Reserve(); err != nil {
		return err
	}
	count := int(t.count.Load())
	err := t.guarded(func() {
		slot := t.bytes[count*t.layout.EntrySize:]
		// The key goes first. A reader in another process, which has only the
		// zeros to go by, then sees an unfinished entry as one that points to
		// the beginning of the segment, and that is never wrong.
		for i, word := range words {
			storeWord(slot[i*wordSize:], word)
		}
	})
	if err != nil {
		return err
	}
	t.count.Store(int64(count + 1))
	return nil
}

// Reserve makes room for one more entry, so that the Append that follows does
// not fail: the file has the blocks, and the memory can be written.
func (t *Table) Reserve() error {
	if err := t.extend(); err != nil {
		return err
	}
	return t.probe()
}

// extend lets the file follow to the end of the next slot.
func (t *Table) extend() error {
	if err := t.writable(); err != nil {
		return err
	}
	count := t.count.Load()
	if count >= t.limit.Load() {
		return fmt.Errorf("%s: %w: %d entries", t.path, ErrFull, count)
	}
	size := int64(t.layout.EntrySize)
	if (count+1)*size <= t.length {
		return nil
	}
	length := min(nextLength(t.length, size), int64(t.capacity)*size)
	if err := t.file.Preallocate(length); err != nil {
		return err
	}
	t.length = length
	return nil
}

// probe fails if the file was cut by someone else, or if its next slot cannot be
// written.
func (t *Table) probe() error {
	v := t.view()
	gone := false
	err := t.guarded(func() {
		// Inside the last page of a file nothing faults: behind its end there are
		// zeros, and what is written there is lost. Only the first key may be
		// zero.
		gone = v.Len > 1 && v.Int(v.Len-1, t.layout.Key) == 0
		for at := range v.size / wordSize {
			storeWord(v.bytes[v.Len*v.size+at*wordSize:], 0) // as it is
		}
	})
	if gone {
		return t.fail(int64((v.Len-1)*v.size), "the last entry is gone: the file was cut short or is damaged")
	}
	return err
}

// nextLength doubles a file until the step is maxStep. It ends with the last
// whole entry before a multiple of firstStep, for a file that was trimmed too.
func nextLength(length, entrySize int64) int64 {
	length += min(max(length, firstStep), maxStep)
	length = (length + firstStep - 1) / firstStep * firstStep
	return length / entrySize * entrySize
}

// TruncateTo keeps the first count entries. The slots behind them become zero,
// so that they stay gone if the process dies before the next Trim. The table
// keeps its capacity.
func (t *Table) TruncateTo(count int) error {
	if err := t.writable(); err != nil {
		return err
	}
	old := int(t.count.Load())
	if count >= old {
		return nil
	}
	t.count.Store(int64(count))
	t.cuts.Add(1)
	size := t.layout.EntrySize
	err := t.guarded(func() {
		for at := count * size; at < old*size; at += wordSize {
			// A zero in a damaged file may be a hole, where storing takes a block.
			if loadWord(t.bytes[at:]) != 0 {
				storeWord(t.bytes[at:], 0)
			}
		}
	})
	if err != nil {
		return err
	}
	if count > 0 || t.length >= 2*int64(size) {
		return nil
	}
	// One zero slot alone is an entry to the next opening, two are padding. The
	// second lies in the block of the first.
	return t.setLength(2 * int64(size))
}

// Reset removes all entries and makes the table usable up to its capacity.
func (t *Table) Reset() error {
	if err := t.TruncateTo(0); err != nil {
		return err
	}
	return t.Grow()
}

// Trim cuts the file to its entries. Afterwards Append fails with ErrFull until
// Grow. Entries stay readable throughout.
func (t *Table) Trim() error {
	if err := t.writable(); err != nil {
		return err
	}
	t.limit.Store(t.count.Load())
	return t.cutFile()
}

// Grow makes a trimmed table usable up to its capacity again. It costs nothing:
// the file follows when Append needs it.
func (t *Table) Grow() error {
	if err := t.writable(); err != nil {
		return err
	}
	t.limit.Store(int64(t.capacity))
	return nil
}

// cutFile ends the file with its last entry, without a call if it does already.
// Where a mapped file keeps its length this is left to Close.
func (t *Table) cutFile() error {
	length := t.count.Load() * int64(t.layout.EntrySize)
	if length == t.length {
		return nil
	}
	return t.setLength(length)
}

// setLength does nothing where a mapped file keeps its length.
func (t *Table) setLength(length int64) error {
	err := t.file.Truncate(length)
	if errors.Is(err, vfs.ErrMapped) {
		return nil
	}
	if err == nil {
		t.length = length
	}
	return err
}

// Sync makes the entries durable, and the length of the file.
func (t *Table) Sync() error {
	if err := t.writable(); err != nil {
		if errors.Is(err, ErrReadOnly) {
			return nil
		}
		return err
	}
	return t.mapping.Flush()
}

// Close trims the file, if it is open for writing, and releases everything.
// Nothing is synced. The file of a faulted table is left as it is, for the next
// opening to judge. A closed table looks empty. Closing again does nothing.
func (t *Table) Close() error { return t.close(true) }

// Drop is Close without trimming, for a file that is about to be removed.
func (t *Table) Drop() error { return t.close(false) }

func (t *Table) close(trim bool) error {
	if t.closed {
		return nil
	}
	t.closed = true
	var errs [3]error
	if t.mapping != nil {
		// Before the cut, which some systems refuse otherwise.
		errs[0] = t.mapping.Unmap()
	}
	if t.file != nil {
		if trim && !t.Faulted() {
			errs[1] = t.cutFile()
		}
		errs[2] = t.file.Close()
	}
	t.count.Store(0)
	t.limit.Store(0)
	return errors.Join(errs[:]...)
}

// writable returns nil if the table may change.
func (t *Table) writable() error {
	switch {
	case t.closed:
		return &fs.PathError{Op: "use", Path: t.path, Err: fs.ErrClosed}
	case t.file == nil:
		return fmt.Errorf("%s: %w", t.path, ErrReadOnly)
	}
	return t.firstFault()
}
