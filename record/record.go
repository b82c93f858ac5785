// Package record encodes and decodes the records of a Kafka log.
//
// Records travel in batches. A batch is the unit of write, checksum, atomicity
// and damage: it is written whole, and it is good or bad as a whole. All
// numbers are big endian. A batch of today's format, magic 2, is a header of 61
// bytes and then its records:
//
//	position  size
//	       0     8  base offset: the offset of the first record written
//	       8     4  length: the bytes after this field, 12 less than the batch
//	      12     4  partition leader epoch, -1 when unknown
//	      16     1  magic, 2
//	      17     4  CRC-32C (Castagnoli) of everything from position 21 on
//	      21     2  attributes
//	                  bits 0-2  codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
//	                  bit  3    timestamp type: 0 create time, 1 log append time
//	                  bit  4    the batch belongs to a transaction
//	                  bit  5    the batch holds control records
//	                  bit  6    the base timestamp is a delete horizon (KIP-534)
//	                  bits 7-15 unused
//	      23     4  last offset delta: last offset - base offset
//	      27     8  base timestamp, milliseconds since 1970
//	      35     8  max timestamp, -1 when the records have none
//	      43     8  producer id, -1 for none
//	      51     2  producer epoch, -1 for none
//	      53     4  base sequence, -1 for none
//	      57     4  number of records
//	      61        the records; with a codec, one compressed block of them
//
// The checksum covers neither the base offset nor the leader epoch, so whoever
// assigns offsets can stamp both into an encoded batch for the price of twelve
// bytes. Compaction keeps base offset and last offset delta when records go:
// neither is derivable from the records that are left.
//
// A record is a sequence of zigzag varints and bytes:
//
//	length            varint   bytes after this field
//	attributes        1 byte   unused, 0
//	timestamp delta   varlong  timestamp - base timestamp, may be negative
//	offset delta      varint   offset - base offset
//	key length        varint   -1 for null
//	key
//	value length      varint   -1 for null
//	value
//	header count      varint
//	per header        key length varint, key, value length varint, value
//
// The two formats before it, magic 0 and 1, are read but not written; legacy.go
// has their tables.
//
// [Batch] is a view of the bytes of one batch. [Iterator] walks the records in
// it, [Builder] makes one. All three work on memory: this package reads no
// files. None of them is safe for concurrent use, except that the methods of
// Batch that only read may run at the same time.
package record

// What a number holds when there is nothing to say. These values are written to
// disk and never change.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
	NoLeaderEpoch   int32 = -1
)

// Header is a key and a value that travel with a record. Keys need not be
// unique, and their order is kept.
type Header struct {
	Key   string
	Value []byte // nil is null, which is not the same as empty
}

// Record is one record of a log.
type Record struct {
	Offset    int64  // place in the log; set by decoding, ignored by Builder.Append
	Timestamp int64  // milliseconds since 1970, or NoTimestamp
	Key       []byte // nil is null, which is not the same as empty
	Value     []byte // nil is null: a tombstone, in a compacted log
	Headers   []Header
}

// Clone returns a copy of r that shares no memory with it. It allocates once
// for all keys and values together, and once for the headers if there are any.
func (r Record) Clone() Record {
	c, _ := r.CloneInto(nil)
	return c
}
