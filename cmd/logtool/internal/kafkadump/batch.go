package kafkadump

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/seglog/seglog/record"
)

var be = binary.BigEndian

// batch is a batch as the tool sees it: whatever its header says, sensible or
// not. See FileLogInputStream.java.
type batch struct {
	pos, size int64
	offset    int64
	magic     int8
}

// legacy reports whether the batch is a message of the formats before magic 2.
func (b batch) legacy() bool { return b.magic < record.MagicV2 }

// next returns the batch at pos and false at the end, which a batch that is cut
// off is too.
func (s *source) next(pos int64) (batch, bool, error) {
	if pos >= s.end-record.MinFrame {
		return batch{}, false, nil
	}
	frame, err := s.read(pos, record.MinFrame)
	if err != nil {
		return batch{}, false, err
	}
	size := int64(int32(be.Uint32(frame[8:])))
	if size < leastSize {
		return batch{}, false, exceptionf(corruptRecord,
			"Found record size %d smaller than minimum record overhead (%d) in file %s.", size, leastSize, s.path)
	}
	if pos > s.end-record.LogOverhead-size {
		return batch{}, false, nil
	}
	return batch{pos, size + record.LogOverhead, int64(be.Uint64(frame)), int8(frame[16])}, true, nil
}

// leastSize is the size field of the smallest message there is.
const leastSize = 14

// header is the fields of a batch that the tool prints. For a legacy message
// only those in the second half.
type header struct {
	lastOffsetDelta int32
	count           int32
	baseSequence    int32
	producerID      int64
	producerEpoch   int16
	leaderEpoch     int32
	baseTimestamp   int64

	attributes    byte // the tool does not look at the upper half
	timestampType record.TimestampType
	maxTimestamp  int64
	crc           uint32
}

// header reads the header of a batch. The tool fails if the file ends before
// it does, even if the batch is smaller than it should be.
func (s *source) header(b batch) (header, error) {
	var h header
	size := int64(record.HeaderSize)
	switch b.magic {
	case record.MagicV0:
		size = record.LogOverhead + 14
	case record.MagicV1:
		size = record.LogOverhead + 22
	default:
		if b.legacy() {
			return h, exceptionf(illegalArgument, "Invalid magic used in LegacyRecord: %d", b.magic)
		}
	}
	if b.pos+size > s.end {
		return h, exceptionf(kafkaException, "Failed to load record batch at position %d from %s", b.pos, s.slice(0, s.end))
	}
	raw, err := s.read(b.pos, size)
	if err != nil {
		return h, err
	}
	if b.legacy() {
		return legacyHeader(raw, b.magic), nil
	}
	h = header{
		leaderEpoch:     int32(be.Uint32(raw[12:])),
		crc:             be.Uint32(raw[17:]),
		attributes:      raw[22],
		lastOffsetDelta: int32(be.Uint32(raw[23:])),
		baseTimestamp:   int64(be.Uint64(raw[27:])),
		maxTimestamp:    int64(be.Uint64(raw[35:])),
		producerID:      int64(be.Uint64(raw[43:])),
		producerEpoch:   int16(be.Uint16(raw[51:])),
		baseSequence:    int32(be.Uint32(raw[53:])),
		count:           int32(be.Uint32(raw[57:])),
	}
	h.timestampType = record.Attributes(h.attributes).TimestampType()
	return h, nil
}

func legacyHeader(raw []byte, magic int8) header {
	h := header{
		crc:           be.Uint32(raw[12:]),
		attributes:    raw[17],
		timestampType: record.NoTimestampType,
		maxTimestamp:  record.NoTimestamp,
	}
	if magic > record.MagicV0 {
		h.timestampType = record.Attributes(h.attributes).TimestampType()
		h.maxTimestamp = int64(be.Uint64(raw[18:]))
	}
	return h
}

func (h header) flags() record.Attributes { return record.Attributes(h.attributes) }

// lastOffset is where the batch ends.
func (b batch) lastOffset(h header) int64 {
	if b.legacy() {
		return b.offset
	}
	return b.offset + int64(h.lastOffsetDelta)
}

func (h header) lastSequence() int32 {
	if h.baseSequence == record.NoSequence {
		return record.NoSequence
	}
	return sequence(h.baseSequence, h.lastOffsetDelta)
}

// sequence is DefaultRecordBatch.incrementSequence, which wraps like Java's int
// when it is given what no producer writes.
func sequence(base, delta int32) int32 {
	if base > math.MaxInt32-delta {
		return delta - (math.MaxInt32 - base) - 1
	}
	return base + delta
}

// codec returns the name of the codec.
func (h header) codec() (string, error) {
	if codec := h.flags().Codec(); codec.Valid() {
		return codec.String(), nil
	}
	return "", exceptionf(illegalArgument, "Unknown compression type id: %d", h.flags().Codec())
}

// valid verifies the checksum, a piece of the batch at a time: a size that is
// wrong must not cost its memory.
func (s *source) valid(b batch, h header) (bool, error) {
	table, from := crc32.MakeTable(crc32.Castagnoli), int64(21)
	if b.legacy() {
		table, from = crc32.IEEETable, 16
	} else if b.size < record.HeaderSize {
		return false, nil
	}
	crc := uint32(0)
	for pos := b.pos + from; pos < b.pos+b.size; {
		chunk, err := s.read(pos, min(chunkSize, b.pos+b.size-pos))
		if err != nil {
			return false, err
		}
		crc = crc32.Update(crc, table, chunk)
		pos += int64(len(chunk))
	}
	return crc == h.crc, nil
}

// records starts it on the records of a batch.
func (s *source) records(it *record.Iterator, b batch, h header) error {
	if !b.legacy() && b.size < record.HeaderSize {
		return &Exception{Class: indexOutOfRange}
	}
	raw, err := s.read(b.pos, b.size)
	if err != nil {
		return err
	}
	if b.magic > record.MagicV2 {
		// To the tool all later formats are this one.
		raw[16] = byte(record.MagicV2)
		s.buf, s.start = nil, 0 // it is not what the file holds any more
	}
	parsed, err := record.Parse(raw)
	if err == nil {
		err = it.Reset(parsed)
	}
	return s.asException(b, h, err)
}

// optional is java.util.OptionalLong.toString.
func optional(v int64, present bool) string {
	if !present {
		return "OptionalLong.empty"
	}
	return fmt.Sprintf("OptionalLong[%d]", v)
}
