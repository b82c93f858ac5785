package producerstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/seglog/seglog/record"
)

// A snapshot file (ProducerStateManager.java, ProducerSnapshot.json) has a header
//
//	+----+---------+-------+---------+------------------------+
//	| at |       0 |     2 |       6 |                     10 |
//	+----+---------+-------+---------+------------------------+
//	|    | version | crc   | number  | entries, 46 bytes each |
//	|    | 1 (i16) | (u32) | (i32)   |                        |
//	+----+---------+-------+---------+------------------------+
//
// and an entry for each producer
//
//	+----+----------+----------+----------+--------+--------+-----------+-------------+-------------+
//	| at |        0 |        8 |       10 |     14 |     22 |        26 |          34 |          38 |
//	+----+----------+----------+----------+--------+--------+-----------+-------------+-------------+
//	|    | producer | producer | last     | last   | offset | timestamp | coordinator | first       |
//	|    | id       | epoch    | sequence | offset | delta  |           | epoch       | offset of   |
//	|    |          |          |          |        |        |           |             | transaction |
//	|    | (i64)    | (i16)    | (i32)    | (i64)  | (i32)  | (i64)     | (i32)       | (i64)       |
//	+----+----------+----------+----------+--------+--------+-----------+-------------+-------------+
//
// All numbers are big-endian. The checksum is CRC-32C over everything from byte 6
// on. The order of the entries means nothing; Kafka's is that of a hash map.
//
// These values are written to disk and never change.
const (
	version    = 1
	headerSize = 10
	entrySize  = 46

	crcAt     = 2
	countAt   = 6 // the checksum covers everything from here on
	entriesAt = headerSize
)

// What an Entry holds in place of a number that is not known.
const (
	NoSequence         int32 = -1
	NoOffset           int64 = -1
	NoCoordinatorEpoch int32 = -1
)

// ErrCorrupt is the category of every *CorruptError.
var ErrCorrupt = errors.New("corrupt producer snapshot")

// A CorruptError says what is wrong with a snapshot. It matches ErrCorrupt.
// Nothing in a damaged snapshot is used: the next older one is, or the log.
type CorruptError struct {
	File     string // "" if the bytes were not read from a file
	Position int    // of the field that is wrong
	Rule     string // what does not hold, in words
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("position %d: %s", e.Position, e.Rule)
	}
	return fmt.Sprintf("%s: position %d: %s", e.File, e.Position, e.Rule)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// An Entry is the state of one producer. Of the batches that a running log
// remembers for each producer, a snapshot holds only the last.
type Entry struct {
	ProducerID    int64
	ProducerEpoch int16
	// LastSequence to OffsetDelta describe the last batch with data:
	// LastSequence and LastOffset are those of its last record, OffsetDelta is
	// the distance from its first. NoSequence, NoOffset and 0 without a batch.
	LastSequence int32
	LastOffset   int64
	OffsetDelta  int32
	// Timestamp is that of the last batch or marker, in milliseconds.
	Timestamp int64
	// CoordinatorEpoch is that of the last marker, or NoCoordinatorEpoch.
	CoordinatorEpoch int32
	// CurrentTxnFirstOffset is where the open transaction starts, or NoOffset.
	CurrentTxnFirstOffset int64
}

// HasBatch reports whether the producer has a last batch.
func (e Entry) HasBatch() bool { return e.LastOffset >= 0 }

// HasOpenTxn reports whether the producer has an open transaction.
func (e Entry) HasOpenTxn() bool { return e.CurrentTxnFirstOffset >= 0 }

// FirstSequence returns the sequence of the first record of the last batch, or
// NoSequence if there is none. Sequences wrap: 0 follows 2147483647.
func (e Entry) FirstSequence() int32 {
	if !e.HasBatch() {
		return NoSequence
	}
	return record.DecrementSequence(e.LastSequence, e.OffsetDelta)
}

// Append appends a snapshot of these entries, in their order, to dst.
func Append(dst []byte, entries []Entry) []byte {
	start := len(dst)
	dst = appendHeader(dst, len(entries))
	for _, e := range entries {
		dst = appendEntry(dst, e)
	}
	seal(dst[start:])
	return dst
}

// appendHeader leaves the checksum to seal.
func appendHeader(dst []byte, entries int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(entries))
}

func appendEntry(dst []byte, e Entry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.ProducerEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.LastSequence))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.LastOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.OffsetDelta))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Timestamp))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.CoordinatorEpoch))
	return binary.BigEndian.AppendUint64(dst, uint64(e.CurrentTxnFirstOffset))
}

// seal puts the checksum in.
func seal(snapshot []byte) { binary.BigEndian.PutUint32(snapshot[crcAt:], checksum(snapshot)) }

// Parse reads a snapshot and keeps nothing of data. Whatever is wrong with it is
// a *CorruptError. The announced number of entries is compared with the length,
// never used to make room.
func Parse(data []byte) ([]Entry, error) {
	if len(data) < headerSize {
		return nil, &CorruptError{Rule: fmt.Sprintf("%d bytes, the header has %d", len(data), headerSize)}
	}
	if v := int16(binary.BigEndian.Uint16(data)); v != version {
		return nil, &CorruptError{Rule: fmt.Sprintf("version %d, want %d", v, version)}
	}
	count := int64(int32(binary.BigEndian.Uint32(data[countAt:])))
	if size := int64(len(data)); count < 0 || size != headerSize+count*entrySize {
		return nil, &CorruptError{Position: countAt, Rule: fmt.Sprintf("%d entries do not make %d bytes", count, size)}
	}
	if stored, computed := binary.BigEndian.Uint32(data[crcAt:]), checksum(data); stored != computed {
		return nil, &CorruptError{Position: crcAt, Rule: fmt.Sprintf("crc mismatch (stored %08x, computed %08x)", stored, computed)}
	}
	entries := make([]Entry, count)
	for i := range entries {
		entries[i] = parseEntry(data[entriesAt+i*entrySize:])
	}
	return entries, nil
}

func parseEntry(b []byte) Entry {
	return Entry{
		ProducerID:            int64(binary.BigEndian.Uint64(b)),
		ProducerEpoch:         int16(binary.BigEndian.Uint16(b[8:])),
		LastSequence:          int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:            int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta:           int32(binary.BigEndian.Uint32(b[22:])),
		Timestamp:             int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch:      int32(binary.BigEndian.Uint32(b[34:])),
		CurrentTxnFirstOffset: int64(binary.BigEndian.Uint64(b[38:])),
	}
}

func checksum(snapshot []byte) uint32 {
	return crc32.Checksum(snapshot[countAt:], crc32.MakeTable(crc32.Castagnoli))
}
