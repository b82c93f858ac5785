// Package txnindex lists the aborted transactions of one segment, so that a
// read_committed reader can leave out their records.
//
// The file <base>.txnindex has no header. It is a list of entries in the order
// in which the transactions were aborted (TransactionIndex.java, AbortedTxn.java):
//
//	+----+---------+-------------+-------------+-------------+--------------------+
//	| at |       0 |           2 |          10 |          18 |                 26 |
//	+----+---------+-------------+-------------+-------------+--------------------+
//	|    | version | producer id | first       | last        | last stable        |
//	|    | 0       |             | offset      | offset      | offset             |
//	|    | (i16)   | (i64)       | (i64)       | (i64)       | (i64)              |
//	+----+---------+-------------+-------------+-------------+--------------------+
//
// All numbers are big-endian. First offset is that of the transaction's first
// record, which may be in an earlier segment. Last offset is that of the ABORT
// marker, which is in this one, so it is never below base and grows from entry to
// entry. Last stable offset is what it was right after the marker, the high
// watermark left aside: the start of the oldest transaction that was still open.
//
// The file exists from the first abort on; a missing file means that there was
// none. It has no checksum and can always be rebuilt from the log.
package txnindex

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// These values are written to disk and never change.
const (
	// EntrySize is the length of an entry in bytes.
	EntrySize = 34

	version = 0

	producerIDAt       = 2
	firstOffsetAt      = 10
	lastOffsetAt       = 18
	lastStableOffsetAt = 26
)

// ErrCorrupt is the category of every *CorruptError.
var ErrCorrupt = errors.New("corrupt transaction index")

// A CorruptError says which entry of an index cannot be right. It matches
// ErrCorrupt.
type CorruptError struct {
	File  string // "" if the bytes were not read from a file
	Entry int    // counted from 0; the place in the file is Entry * EntrySize
	Rule  string // what does not hold, in words
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("entry %d: %s", e.Entry, e.Rule)
	}
	return fmt.Sprintf("%s: position %d: entry %d: %s", e.File, e.Entry*EntrySize, e.Entry, e.Rule)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// An Entry is an aborted transaction of one producer.
type Entry struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction's first record
	LastOffset       int64 // of its ABORT marker
	LastStableOffset int64 // right after the marker
}

// AppendEntry appends the EntrySize bytes of e to dst.
func AppendEntry(dst []byte, e Entry) []byte {
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.FirstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.LastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(e.LastStableOffset))
}

// ParseEntry reads the entry that b starts with and keeps nothing of b. Too few
// bytes or another version are a *CorruptError. Kafka looks at one byte of the
// version only, and would take 7 for 0.
func ParseEntry(b []byte) (Entry, error) {
	if len(b) < EntrySize {
		return Entry{}, &CorruptError{Rule: fmt.Sprintf("%d bytes, an entry has %d", len(b), EntrySize)}
	}
	if v := binary.BigEndian.Uint16(b); v != version {
		return Entry{}, &CorruptError{Rule: fmt.Sprintf("version %d, want %d", v, version)}
	}
	return Entry{
		ProducerID:       int64(binary.BigEndian.Uint64(b[producerIDAt:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(b[firstOffsetAt:])),
		LastOffset:       int64(binary.BigEndian.Uint64(b[lastOffsetAt:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(b[lastStableOffsetAt:])),
	}, nil
}

// overlaps reports whether the transaction has records that a read of
// [fetchOffset, upperBound) may return.
func (e Entry) overlaps(fetchOffset, upperBound int64) bool {
	return e.LastOffset >= fetchOffset && e.FirstOffset < upperBound
}

// brokenRule says what cannot be right about an entry of segment base that
// follows one with the last offset previous (-1: it is the first).
func (e Entry) brokenRule(base, previous int64) string {
	switch {
	case e.LastOffset < base:
		return fmt.Sprintf("last offset %d is below the base offset %d", e.LastOffset, base)
	case e.LastOffset <= previous:
		return fmt.Sprintf("last offset %d does not follow %d", e.LastOffset, previous)
	case e.FirstOffset < 0 || e.FirstOffset > e.LastOffset:
		return fmt.Sprintf("first offset %d is outside [0, %d]", e.FirstOffset, e.LastOffset)
	case e.ProducerID < 0:
		return fmt.Sprintf("producer id %d is negative", e.ProducerID)
	case e.LastStableOffset < 0:
		return fmt.Sprintf("last stable offset %d is negative", e.LastStableOffset)
	}
	return ""
}
