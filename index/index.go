// Package index maps record offsets to positions in one segment's .log file. It
// is a supporting package: its API may change with the segment's needs.
//
// An index is sparse: it holds one entry for every few kilobytes of log. An
// entry pairs the last offset of what was appended at once, usually a batch,
// with the position where that starts:
//
//	+------------------------+------------------+
//	| offset - base (i32 BE) | position (i32 BE)|
//	+------------------------+------------------+
//	0                        4                  8
//
// The file is <base offset, 20 digits>.index and holds nothing but entries,
// offsets strictly increasing. It has no checksum; it can always be rebuilt
// from the log. Package mapped tells how it grows, ends in zeros while it is
// written, and is trimmed.
//
// The format and the rules are those of Apache Kafka (OffsetIndex.java,
// AbstractIndex.java). The differences, none of which another reader of the
// file can trip over: the file grows in steps and not at once to MaxBytes;
// zeros at its end are not taken for entries; an index opened for appending
// has room up to MaxBytes, while Kafka's is full until resized; and Append also
// refuses a position below the one before it.
package index

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/seglog/seglog/internal/mapped"
	"github.com/seglog/seglog/internal/vfs"
)

// entrySize is written to disk and never changes.
const entrySize = 8

var (
	offsetField   = mapped.Field{At: 0, Size: 4}
	positionField = mapped.Field{At: 4, Size: 4}
)

// Categories of errors. Those of opening are the file system's.
var (
	// ErrFull means that there is no room for another entry.
	ErrFull = mapped.ErrFull
	// ErrOrder means that an entry is not above the last one.
	ErrOrder = mapped.ErrOrder
	// ErrOverflow means that an offset is below base or more than 2^31-1 above
	// it, or that a position is not in that range.
	ErrOverflow = mapped.ErrOverflow
	// ErrReadOnly means that the index was opened for reading.
	ErrReadOnly = mapped.ErrReadOnly
	// ErrFault means that the mapped memory of the index failed: its file was
	// cut short by someone else, or its disk could not be read. See Faulted.
	ErrFault = mapped.ErrFault
)

// CorruptError names a file, an entry and the rule it breaks.
type CorruptError = mapped.CorruptError

// FaultError names a file and the position where its mapping failed. It matches
// ErrFault.
type FaultError = mapped.FaultError

// Entry says that a record with a greater offset than Offset is not found
// before Position, and one with this offset not after it.
type Entry struct {
	Offset   int64
	Position int64
}

// Options are useful when zero.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS

	// MaxBytes bounds the file: Kafka's segment.index.bytes. 0 means 10 MiB,
	// which is 1 310 720 entries.
	MaxBytes int
}

// Index is an open index. One goroutine at a time may change it: Append,
// Reserve, TruncateTo, Reset, Trim, Grow, Close, Drop. Beside it any number may
// read without locks, TruncateTo included: an answer is one that was true at
// some moment of the call. Sync may run beside both.
//
// Close and Drop unmap the memory, so they come after every reader and every
// Sync. A Trim that follows a TruncateTo comes after every reader that began
// before the TruncateTo.
//
// If the mapped memory fails, because someone else cut the file short or its
// disk cannot be read, the call says so and the index is Faulted for good: calls
// with an error result fail with a *FaultError, and look-ups answer as those of
// an empty index do, which is slow and right.
type Index struct {
	base  int64
	table *mapped.Table
}

// Create makes an empty index at path, or empties the one that is there.
func Create(path string, base int64, o Options) (*Index, error) {
	return open(mapped.Create, path, base, o)
}

// Open opens an existing index for appending. Zeros behind the entries are cut
// off. An index that cannot be right is reported as a *CorruptError and left as
// it is: an odd length, a first or last entry below base or out of order. What
// lies between is left to Check.
func Open(path string, base int64, o Options) (*Index, error) {
	return open(mapped.Open, path, base, o)
}

// OpenReadOnly opens an existing index for reading. It never creates, grows or
// touches the file, and opens whatever it holds; Check tells whether it is
// sound.
func OpenReadOnly(path string, base int64, o Options) (*Index, error) {
	return open(mapped.OpenReadOnly, path, base, o)
}

type openFunc func(string, mapped.Layout, mapped.Options) (*mapped.Table, error)

func open(table openFunc, path string, base int64, o Options) (*Index, error) {
	if base < 0 {
		return nil, fmt.Errorf("open %s: negative base offset %d", path, base)
	}
	layout := mapped.Layout{EntrySize: entrySize, Key: offsetField, Broken: broken}
	t, err := table(path, layout, mapped.Options{FS: o.FS, MaxBytes: o.MaxBytes})
	if err != nil {
		return nil, err
	}
	return &Index{base: base, table: t}, nil
}

// Append adds an entry. Offset must be above the last one's, or at or above
// base if there is none; position must not be below the last one's. It fails
// with ErrFull, ErrOrder, ErrOverflow or ErrFault, or with the file system's
// error if the file cannot grow, and then nothing has changed.
func (x *Index) Append(offset, position int64) error {
	e := Entry{offset, position}
	last, some := x.Last()
	if err := admit(e, last, some, x.base); err != nil {
		return fmt.Errorf("%s: append: %w", x.table.Path(), err)
	}
	return x.table.Append(e.words(x.base))
}

// admit decides whether e may follow last, or be the first if there is none.
func admit(e, last Entry, some bool, base int64) error {
	switch {
	case e.Offset < base || e.Offset-base > math.MaxInt32:
		return fmt.Errorf("%w: offset %d, base offset %d", ErrOverflow, e.Offset, base)
	case e.Position < 0 || e.Position > math.MaxInt32:
		return fmt.Errorf("%w: position %d", ErrOverflow, e.Position)
	case some && (e.Offset <= last.Offset || e.Position < last.Position):
		return fmt.Errorf("%w: offset %d at position %d after offset %d at position %d",
			ErrOrder, e.Offset, e.Position, last.Offset, last.Position)
	}
	return nil
}

// words returns e as it is written. It has been admitted.
func (e Entry) words(base int64) (offset, position uint32) {
	return uint32(e.Offset - base), uint32(e.Position)
}

// Reserve makes room in the file for one more entry and tries the memory, so
// that the next Append fails neither for want of disk space nor by a fault.
// Calling it before the batch is written to the log keeps a full disk from
// leaving the two apart.
func (x *Index) Reserve() error { return x.table.Reserve() }

// Lookup returns the last entry at or below offset. If there is none it returns
// {base, 0}, from where a scan will still find the record. It does not allocate
// and takes no lock.
func (x *Index) Lookup(offset int64) Entry {
	var e Entry
	if err := x.table.Read(func(v mapped.View) { e = x.floor(v, offset) }); err != nil {
		return x.none()
	}
	return e
}

// none is what an empty index answers, and one that cannot be read or is
// damaged: the scan from the beginning is always right.
func (x *Index) none() Entry { return Entry{Offset: x.base} }

func (x *Index) floor(v mapped.View, offset int64) Entry {
	if offset < x.base {
		return x.none()
	}
	slot := v.Floor(offsetField, offset-x.base)
	if slot < 0 {
		return x.none()
	}
	if e := x.entry(v, slot); e.Offset >= x.base && e.Position >= 0 {
		return e
	}
	return x.none()
}

// SlotAbove returns the slot of the first entry at or above offset; Len if there is
// none, or if the index is faulted. first is the least offset with the same answer. It
// does not allocate and takes no lock.
func (x *Index) SlotAbove(offset int64) (slot int, first int64) {
	err := x.table.Read(func(v mapped.View) {
		slot, first = v.Below(offsetField, offset-x.base), x.base
		if slot > 0 {
			first += v.Int(slot-1, offsetField) + 1
		}
	})
	if err != nil {
		return x.Len(), offset
	}
	return slot, first
}

// UpperBound returns the first entry whose position is at or above position. It
// is Kafka's fetchUpperBoundOffset, which bounds the search for aborted
// transactions: the caller adds the fetch size to the position it starts at.
//
// One quirk is Kafka's and kept: if position is exactly that of the first entry,
// the second is returned, or none. Since the answer only has to lie behind the
// fetched range, too late is as good.
func (x *Index) UpperBound(position int64) (Entry, bool) {
	var e Entry
	var found bool
	if err := x.table.Read(func(v mapped.View) { e, found = x.ceiling(v, position) }); err != nil {
		return Entry{}, false
	}
	return e, found
}

func (x *Index) ceiling(v mapped.View, position int64) (Entry, bool) {
	slot := v.Below(positionField, position)
	if slot == 0 && v.Len > 0 && v.Int(0, positionField) == position {
		slot = 1
	}
	if slot == v.Len {
		return Entry{}, false
	}
	return x.entry(v, slot), true
}

// Len returns the number of entries.
func (x *Index) Len() int { return x.table.Len() }

// Cap returns the number of entries there may be. That is Len for an index that
// was trimmed, or opened for reading.
func (x *Index) Cap() int { return x.table.Cap() }

// Full reports whether Append would fail with ErrFull.
func (x *Index) Full() bool { return x.Len() >= x.Cap() }

// Padding returns how many zero slots behind the entries Open or OpenReadOnly
// found: none in an index that was trimmed, as it is when a segment is sealed.
func (x *Index) Padding() int { return x.table.Padding() }

// Faulted reports whether the mapped memory has failed. Only opening the file
// anew helps, or rebuilding it.
func (x *Index) Faulted() bool { return x.table.Faulted() }

// Base returns the base offset.
func (x *Index) Base() int64 { return x.base }

// At returns entry i. It panics unless 0 <= i < Len. The entry of a faulted
// index is {base, 0}.
func (x *Index) At(i int) Entry {
	e, found := x.IfAt(i)
	if !found && !x.Faulted() {
		panic(fmt.Sprintf("index: entry %d of %d", i, x.Len()))
	}
	return e
}

// IfAt is At for a caller beside whom the index may become shorter. It reports false, with
// {base, 0}, if there is no entry i, or the index is faulted.
func (x *Index) IfAt(i int) (e Entry, found bool) {
	e = x.none()
	err := x.table.Read(func(v mapped.View) {
		if found = 0 <= i && i < v.Len; found {
			e = x.entry(v, i)
		}
	})
	if err != nil {
		return x.none(), false
	}
	return e, found
}

// Last returns the last entry, or {base, 0} and false.
func (x *Index) Last() (Entry, bool) {
	e, length := x.none(), 0
	err := x.table.Read(func(v mapped.View) {
		if length = v.Len; length > 0 {
			e = x.entry(v, length-1)
		}
	})
	if err != nil || length == 0 {
		return x.none(), false
	}
	return e, true
}

// LastOffset returns the offset of the last entry, or base if there is none.
func (x *Index) LastOffset() int64 {
	last, _ := x.Last()
	return last.Offset
}

func (x *Index) entry(v mapped.View, slot int) Entry {
	return Entry{
		Offset:   x.base + v.Int(slot, offsetField),
		Position: v.Int(slot, positionField),
	}
}

// TruncateTo removes all entries at or above offset. The index keeps its
// capacity; one that was trimmed needs Grow before the next Append.
func (x *Index) TruncateTo(offset int64) error {
	keep := 0
	if offset > x.base {
		err := x.table.Read(func(v mapped.View) { keep = v.Below(offsetField, offset-x.base) })
		if err != nil {
			return err
		}
	}
	return x.table.TruncateTo(keep)
}

// Reset removes all entries and makes the index usable up to MaxBytes.
func (x *Index) Reset() error { return x.table.Reset() }

// Trim cuts the file to its entries, as is done when a segment is sealed. After
// it the index is full. A file that is as long as it should be is not touched.
// On Windows the file keeps its length until Close.
func (x *Index) Trim() error { return x.table.Trim() }

// Grow makes a trimmed index usable up to MaxBytes again.
func (x *Index) Grow() error { return x.table.Grow() }

// Check reads the whole index and returns a *CorruptError for the first rule it
// breaks: whole entries, offsets at or above base and strictly increasing,
// positions not negative and not decreasing; or a *FaultError if it cannot be
// read. It does not look at the log.
func (x *Index) Check() error { return x.table.Check() }

// Sync makes all entries durable. It costs an fsync and may run beside Append.
func (x *Index) Sync() error { return x.table.Sync() }

// Close trims the index, if it is open for appending, and releases its memory
// and its file. It does not sync. A closed index looks empty; closing it again
// does nothing.
func (x *Index) Close() error { return x.table.Close() }

// Drop is Close without trimming, for an index that is about to be removed.
func (x *Index) Drop() error { return x.table.Drop() }

// Rebuild replaces the index at path, which no one may have open, with one of
// exactly these entries, durably and in one step. The old file stays if an entry
// is refused, as Append would, or if writing fails. MaxBytes does not apply: a
// rebuilt index may be larger, and is then full.
func Rebuild(path string, base int64, entries iter.Seq[Entry], o Options) error {
	var data []byte
	var last Entry
	for e := range entries {
		if err := admit(e, last, len(data) > 0, base); err != nil {
			return fmt.Errorf("rebuild %s: %w", path, err)
		}
		offset, position := e.words(base)
		data = binary.BigEndian.AppendUint32(data, offset)
		data = binary.BigEndian.AppendUint32(data, position)
		last = e
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return vfs.WriteFileAtomic(o.FS, path, data)
}

// broken is the rules of Check, for mapped.Layout.
func broken(v mapped.View, slot, before int) string {
	offset, position := v.Int(slot, offsetField), v.Int(slot, positionField)
	switch {
	case offset < 0:
		return fmt.Sprintf("relative offset %d is negative", offset)
	case position < 0:
		return fmt.Sprintf("position %d is negative", position)
	case before < 0:
		return ""
	}
	if previous := v.Int(before, offsetField); offset <= previous {
		return fmt.Sprintf("relative offset %d is not above %d of entry %d", offset, previous, before)
	}
	if previous := v.Int(before, positionField); position < previous {
		return fmt.Sprintf("position %d is below %d of entry %d", position, previous, before)
	}
	return ""
}
