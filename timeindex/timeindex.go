// Package timeindex maps timestamps to record offsets in one segment. It is a
// supporting package: its API may change with the segment's needs.
//
// A time index is sparse. An entry (T, O) says that in this segment every record
// up to offset O has a timestamp of at most T. T is the largest timestamp seen
// when the entry was made, in milliseconds since 1970; O is the last offset of
// the first batch that carried it:
//
//	+--------------------+------------------------+
//	| timestamp (i64 BE) | offset - base (i32 BE) |
//	+--------------------+------------------------+
//	0                    8                       12
//
// The file is <base offset, 20 digits>.timeindex and holds nothing but entries,
// timestamps strictly increasing and offsets with them. It has no checksum; it
// can always be rebuilt from the log. Package mapped tells how it grows, ends in
// zeros while it is written, and is trimmed.
//
// The format and the rules are those of Apache Kafka (TimeIndex.java,
// AbstractIndex.java). The differences, none of which another reader of the
// file can trip over: the file grows in steps and not at once to MaxBytes;
// zeros at its end are not taken for entries, which would make 1970 the
// newest time of the segment; and an index opened for appending has room up to
// MaxBytes, while Kafka's is full until resized.
package timeindex

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/seglog/seglog/internal/mapped"
	"github.com/seglog/seglog/internal/vfs"
)

// These values are written to disk and never change.
const (
	entrySize   = 12
	noTimestamp = -1 // of a record without one; never in an entry
)

var (
	timestampField = mapped.Field{At: 0, Size: 8}
	offsetField    = mapped.Field{At: 8, Size: 4}
)

// Categories of errors. Those of opening are the file system's.
var (
	// ErrFull means that there is no room for another entry.
	ErrFull = mapped.ErrFull
	// ErrOrder means that an entry is below the last one.
	ErrOrder = mapped.ErrOrder
	// ErrOverflow means that an offset is below base or more than 2^31-1 above
	// it.
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

// Entry says that no record up to Offset is later than Timestamp.
type Entry struct {
	Timestamp int64
	Offset    int64
}

// Options are useful when zero.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS

	// MaxBytes bounds the file: Kafka's segment.index.bytes. 0 means 10 MiB,
	// which is 873 813 entries.
	MaxBytes int
}

// Index is an open time index. One goroutine at a time may change it:
// MaybeAppend, Reserve, TruncateTo, Reset, Trim, Grow, Close, Drop. Beside it
// any number may read without locks, TruncateTo included: an answer is one that
// was true at some moment of the call. Sync may run beside both.
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

// Create makes an empty time index at path, or empties the one that is there.
func Create(path string, base int64, o Options) (*Index, error) {
	return open(mapped.Create, path, base, o)
}

// Open opens an existing time index for appending. Zeros behind the entries are
// cut off. An index that cannot be right is reported as a *CorruptError and left
// as it is: an odd length, a first or last entry that is negative or out of
// order. What lies between is left to Check.
func Open(path string, base int64, o Options) (*Index, error) {
	return open(mapped.Open, path, base, o)
}

// OpenReadOnly opens an existing time index for reading. It never creates, grows
// or touches the file, and opens whatever it holds; Check tells whether it is
// sound.
func OpenReadOnly(path string, base int64, o Options) (*Index, error) {
	return open(mapped.OpenReadOnly, path, base, o)
}

type openFunc func(string, mapped.Layout, mapped.Options) (*mapped.Table, error)

func open(table openFunc, path string, base int64, o Options) (*Index, error) {
	if base < 0 {
		return nil, fmt.Errorf("open %s: negative base offset %d", path, base)
	}
	layout := mapped.Layout{EntrySize: entrySize, Key: timestampField, Broken: broken}
	t, err := table(path, layout, mapped.Options{FS: o.FS, MaxBytes: o.MaxBytes})
	if err != nil {
		return nil, err
	}
	return &Index{base: base, table: t}, nil
}

// MaybeAppend adds an entry if timestamp is later than the last one's, and does
// nothing if it is equal, or -1 in an empty index. It fails with ErrOrder if
// timestamp or offset is below the last one's, with ErrOverflow, with ErrFault,
// or with the file system's error if the file cannot grow.
//
// The last slot is reserved for the entry made when the segment is closed, with
// closing set, so that the index always ends with the segment's largest
// timestamp. Without it MaybeAppend fails with ErrFull already when Full, even
// if there is nothing to add.
func (x *Index) MaybeAppend(timestamp, offset int64, closing bool) error {
	if !closing && x.Full() {
		return fmt.Errorf("%s: append: %w: %d entries", x.table.Path(), ErrFull, x.Len())
	}
	e := Entry{timestamp, offset}
	last, some := x.Last()
	add, err := admit(e, last, some, x.base)
	if err != nil {
		return fmt.Errorf("%s: append: %w", x.table.Path(), err)
	}
	if !add {
		return nil
	}
	return x.table.Append(e.words(x.base))
}

// admit decides whether e is to follow last, which is {-1, base} if there is
// none. Kafka checks in this order too.
func admit(e, last Entry, some bool, base int64) (bool, error) {
	switch {
	case some && (e.Offset < last.Offset || e.Timestamp < last.Timestamp):
		return false, fmt.Errorf("%w: timestamp %d, offset %d after timestamp %d, offset %d",
			ErrOrder, e.Timestamp, e.Offset, last.Timestamp, last.Offset)
	case e.Timestamp <= last.Timestamp:
		return false, nil
	case e.Offset < base || e.Offset-base > math.MaxInt32:
		return false, fmt.Errorf("%w: offset %d, base offset %d", ErrOverflow, e.Offset, base)
	}
	return true, nil
}

// words returns e as it is written. It has been admitted.
func (e Entry) words(base int64) (high, low, offset uint32) {
	return uint32(e.Timestamp >> 32), uint32(e.Timestamp), uint32(e.Offset - base)
}

// Reserve makes room in the file for one more entry and tries the memory, so
// that the next MaybeAppend fails neither for want of disk space nor by a fault.
func (x *Index) Reserve() error { return x.table.Reserve() }

// Lookup returns the last entry at or below timestamp, or {-1, base}. Records up
// to its offset are not later than timestamp, so a scan for a record at or after
// a timestamp t may start at the offset Lookup(t) returns: if the entry's
// timestamp is t, the first such record may be anywhere in the batch that ends
// there. It does not allocate and takes no lock.
func (x *Index) Lookup(timestamp int64) Entry { return x.floor(timestampField, timestamp) }

// LookupOffset returns the last entry whose offset is at or below offset, or
// {-1, base}.
func (x *Index) LookupOffset(offset int64) Entry {
	if offset < x.base {
		return x.none()
	}
	return x.floor(offsetField, offset-x.base)
}

func (x *Index) floor(f mapped.Field, target int64) Entry {
	e := x.none()
	err := x.table.Read(func(v mapped.View) {
		e = x.none()
		if slot := v.Floor(f, target); slot >= 0 {
			e = x.entry(v, slot)
		}
	})
	if err != nil || e.Offset < x.base || e.Timestamp < 0 {
		return x.none()
	}
	return e
}

// none is what an empty index answers, and one that cannot be read or is
// damaged: the scan from base is always right.
func (x *Index) none() Entry { return Entry{Timestamp: noTimestamp, Offset: x.base} }

// Len returns the number of entries.
func (x *Index) Len() int { return x.table.Len() }

// Cap returns the number of entries there may be, the reserved one included.
// That is Len for an index that was trimmed, or opened for reading.
func (x *Index) Cap() int { return x.table.Cap() }

// Full reports whether only the reserved slot is left, or none.
func (x *Index) Full() bool { return x.Len() >= x.Cap()-1 }

// Padding returns how many zero slots behind the entries Open or OpenReadOnly
// found: none in an index that was trimmed, as it is when a segment is sealed.
func (x *Index) Padding() int { return x.table.Padding() }

// Faulted reports whether the mapped memory has failed. Only opening the file
// anew helps, or rebuilding it.
func (x *Index) Faulted() bool { return x.table.Faulted() }

// Base returns the base offset.
func (x *Index) Base() int64 { return x.base }

// At returns entry i. It panics unless 0 <= i < Len. The entry of a faulted
// index is {-1, base}.
func (x *Index) At(i int) Entry {
	e, length := x.none(), 0
	err := x.table.Read(func(v mapped.View) {
		if length = v.Len; 0 <= i && i < length {
			e = x.entry(v, i)
		}
	})
	if err != nil {
		return x.none()
	}
	if i < 0 || i >= length {
		panic(fmt.Sprintf("timeindex: entry %d of %d", i, length))
	}
	return e
}

// Last returns the last entry, which after closing holds the segment's largest
// timestamp, or {-1, base} and false.
func (x *Index) Last() (Entry, bool) {
	e, length := x.none(), 0
	err := x.table.Read(func(v mapped.View) {
		if length = v.Len; length > 0 {
			e = x.entry(v, length-1)
		}
	})
	switch {
	case err != nil || length == 0:
		return x.none(), false
	case length > 1 && e.Timestamp == 0:
		// Zeros behind the new end of a file that someone cut short. They must
		// not make 1970 the newest time of the segment.
		return x.none(), false
	}
	return e, true
}

func (x *Index) entry(v mapped.View, slot int) Entry {
	return Entry{
		Timestamp: v.Int(slot, timestampField),
		Offset:    x.base + v.Int(slot, offsetField),
	}
}

// TruncateTo removes all entries whose offset is at or above offset. The index
// keeps its capacity; one that was trimmed needs Grow before the next append.
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
// breaks: whole entries, timestamps not negative and strictly increasing,
// offsets at or above base and not decreasing; or a *FaultError if it cannot be
// read. It does not look at the log.
func (x *Index) Check() error { return x.table.Check() }

// Sync makes all entries durable. It costs an fsync and may run beside
// MaybeAppend.
func (x *Index) Sync() error { return x.table.Sync() }

// Close trims the index, if it is open for appending, and releases its memory
// and its file. It does not sync. A closed index looks empty; closing it again
// does nothing.
func (x *Index) Close() error { return x.table.Close() }

// Drop is Close without trimming, for an index that is about to be removed.
func (x *Index) Drop() error { return x.table.Drop() }

// Rebuild replaces the time index at path, which no one may have open, with one
// of these entries, durably and in one step. Entries that MaybeAppend would
// ignore are left out. The old file stays if an entry is refused or if writing
// fails. MaxBytes does not apply: a rebuilt index may be larger, and is then
// full.
func Rebuild(path string, base int64, entries iter.Seq[Entry], o Options) error {
	var data []byte
	last := Entry{Timestamp: noTimestamp, Offset: base}
	for e := range entries {
		add, err := admit(e, last, len(data) > 0, base)
		if err != nil {
			return fmt.Errorf("rebuild %s: %w", path, err)
		}
		if !add {
			continue
		}
		data = binary.BigEndian.AppendUint64(data, uint64(e.Timestamp))
		data = binary.BigEndian.AppendUint32(data, uint32(e.Offset-base))
		last = e
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return vfs.WriteFileAtomic(o.FS, path, data)
}

// broken is the rules of Check, for mapped.Layout.
func broken(v mapped.View, slot, before int) string {
	timestamp, offset := v.Int(slot, timestampField), v.Int(slot, offsetField)
	switch {
	case timestamp < 0:
		return fmt.Sprintf("timestamp %d is negative", timestamp)
	case offset < 0:
		return fmt.Sprintf("relative offset %d is negative", offset)
	case before < 0:
		return ""
	}
	if previous := v.Int(before, timestampField); timestamp <= previous {
		return fmt.Sprintf("timestamp %d is not above %d of entry %d", timestamp, previous, before)
	}
	if previous := v.Int(before, offsetField); offset < previous {
		return fmt.Sprintf("relative offset %d is below %d of entry %d", offset, previous, before)
	}
	return ""
}
