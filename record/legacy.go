package record

import (
	"fmt"
	"hash/crc32"
)

// Before magic 2 a log was a sequence of single messages:
//
//	magic 0  magic 1  size
//	      0        0     8  offset
//	      8        8     4  size: the bytes after this field
//	     12       12     4  CRC-32 (IEEE) of everything from the magic on
//	     16       16     1  magic
//	     17       17     1  attributes: bits 0-2 codec, bit 3 timestamp type
//	              18     8  timestamp
//	     18       26     4  key length, -1 for null
//	     22       30        key
//	                     4  value length, -1 for null
//	                        value
//
// A message with a codec is a wrapper: its value, decompressed, is a sequence
// of such messages, themselves not compressed. The offset of the wrapper is
// that of the last message inside. Inside magic 0 the offsets are absolute.
// Inside magic 1 only their differences count, so that a broker can assign
// offsets without compressing again; an offset of 0 for the wrapper, which some
// versions of librdkafka sent whatever they wrapped, means that they start at
// 0. Append time, in magic 1, is the wrapper's for all. See Kafka's
// AbstractLegacyRecordBatch.java and LegacyRecord.java.
//
// The positions are written to disk and never change.
const (
	legacyCRCPos        = 12
	legacyAttributesPos = 17
	legacyTimestampPos  = 18 // magic 1 only
	legacyKeyPosV0      = 18
	legacyKeyPosV1      = 26
	legacySizeV0        = legacyKeyPosV0 + 8
	legacySizeV1        = legacyKeyPosV1 + 8
)

// resetLegacy makes data a sequence of messages that are not compressed and fit
// their sizes.
func (it *Iterator) resetLegacy() error {
	b := it.batch
	it.baseOffset = 0
	it.hasAppendTime, it.appendTime = b.TimestampType() == LogAppendTime, b.MaxTimestamp()
	codec := b.Codec()
	if codec == None {
		it.data, it.count = b.b, 1
		return nil
	}
	if codec == Zstd {
		return b.fault(ErrInvalid, "codec", fmt.Sprintf("zstd in magic %d", b.Magic()), ErrUnsupported)
	}
	_, value, bad := legacyKeyValue(b.b)
	if bad != "" {
		return b.fault(ErrInvalid, bad, "is not within the message", nil)
	}
	if value == nil {
		return b.fault(ErrInvalid, "value", "of a compressed message is null", nil)
	}
	data, err := it.decompress(codec, value)
	if err != nil {
		return err
	}
	return it.resetInner(data)
}

// resetInner looks through the messages of a wrapper, for only the last of them
// tells what their offsets are relative to.
func (it *Iterator) resetInner(data []byte) error {
	count, end := 0, 0
	last := int64(0)
	for len(data)-end >= LogOverhead {
		offset, size := int64(be.Uint64(data[end:])), int32(be.Uint32(data[end+8:]))
		if size < minSizeField {
			return &Error{
				Kind: ErrCorrupt, BaseOffset: it.batch.BaseOffset(), Record: count,
				Field: "size", Detail: fmt.Sprintf("%d is less than %d", size, minSizeField),
			}
		}
		// A message that is cut off ends the set, as at the end of a log.
		if int(size) > len(data)-end-LogOverhead {
			break
		}
		last = offset
		end += LogOverhead + int(size)
		count++
	}
	if count == 0 {
		return it.batch.fault(ErrInvalid, "value", "of a compressed message holds no messages", nil)
	}
	if wrapper := it.batch.BaseOffset(); it.batch.Magic() == 1 && wrapper != 0 {
		if wrapper < last {
			return it.batch.fault(ErrInvalid, "offset", fmt.Sprintf("is less than the %d of the last message inside", last), nil)
		}
		it.baseOffset = wrapper - last
	}
	it.data, it.count = data[:end], count
	return nil
}

func (it *Iterator) nextLegacy() bool {
	_, end := it.peek()
	b := it.data[it.pos:end:end]
	magic := b[magicPos]
	rec := &it.slot().rec
	rec.Headers = nil
	switch {
	case magic > 1:
		return it.fail("magic", fmt.Sprintf("%d inside magic %d", int8(magic), it.batch.Magic()))
	case magic == 1 && len(b) < legacySizeV1:
		return it.fail("size", fmt.Sprintf("%d is less than magic 1 needs", len(b)-LogOverhead))
	case b[legacyAttributesPos]&codecMask != 0:
		return it.fail("codec", "is set inside a compressed message")
	case magic == 0:
		rec.Timestamp = NoTimestamp
	case it.hasAppendTime:
		rec.Timestamp = it.appendTime
	default:
		rec.Timestamp = int64(be.Uint64(b[legacyTimestampPos:]))
	}
	rec.Offset = it.baseOffset + int64(be.Uint64(b))
	var bad string
	if rec.Key, rec.Value, bad = legacyKeyValue(b); bad != "" {
		return it.fail(bad, "is not within the message")
	}
	it.entry = b
	it.pos = end
	it.index++
	return true
}

// legacyKeyValue returns the key and value of a message of magic 0 or 1 that is
// at least as long as the magic demands, or the name of the field that says it
// is longer than it is.
func legacyKeyValue(b []byte) (key, value []byte, bad string) {
	p := legacyKeyPosV0
	if b[magicPos] == 1 {
		p = legacyKeyPosV1
	}
	if key, p = legacyBytes(b, p); p < 0 {
		return nil, nil, "key length"
	}
	if value, p = legacyBytes(b, p); p < 0 {
		return nil, nil, "value length"
	}
	return key, value, ""
}

func legacyBytes(b []byte, p int) ([]byte, int) {
	if len(b)-p < 4 {
		return nil, -1
	}
	length := int32(be.Uint32(b[p:]))
	p += 4
	if length < 0 {
		return nil, p
	}
	if int(length) > len(b)-p {
		return nil, -1
	}
	end := p + int(length)
	return b[p:end:end], end
}

// checkInner verifies the checksum of the message the current record came from,
// if it has one of its own that Batch.Check has not seen.
func (it *Iterator) checkInner() bool {
	if it.entry == nil || it.batch.Codec() == None {
		return true
	}
	stored, computed := be.Uint32(it.entry[legacyCRCPos:]), crc32.ChecksumIEEE(it.entry[magicPos:])
	if stored == computed {
		return true
	}
	it.index--
	return it.failWith(ErrCorrupt, "crc", crcMismatch(stored, computed), nil)
}
