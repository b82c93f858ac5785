package record

import (
	"fmt"
	"hash/crc32"
	"slices"
)

// LegacyBuilder encodes a compressed batch of magic 0 or 1, for compaction: of a
// wrapper that loses some of its messages the rest must be wrapped again, and a log
// does not change its format on the way. Nothing else writes these formats.
//
// It keeps its buffers and compressors for the next batch. The zero LegacyBuilder
// needs a Reset. It is not safe for concurrent use.
type LegacyBuilder struct {
	magic         int8
	codec         Codec
	timestampType TimestampType
	appendTime    int64

	count        int
	inner        []byte // the messages
	first, last  int64  // offsets
	maxTimestamp int64
	out          []byte
	encoder      compressor
}

// Reset starts a batch in the format of b, which is a wrapper: with its magic, codec
// and timestamp type and, if that is LogAppendTime, its timestamp.
func (l *LegacyBuilder) Reset(b Batch) error {
	if b.Magic() >= MagicV2 {
		return b.fault(ErrUnsupported, "magic", fmt.Sprintf("%d is not a legacy one", b.Magic()), nil)
	}
	if c := b.Codec(); c == None || c == Zstd || !c.Valid() {
		return b.fault(ErrUnsupported, "codec", fmt.Sprintf("%s does not wrap messages of magic %d", c, b.Magic()), nil)
	}
	l.magic, l.codec = b.Magic(), b.Codec()
	l.timestampType, l.appendTime = b.TimestampType(), b.MaxTimestamp()
	l.count, l.inner = 0, l.inner[:0]
	l.maxTimestamp = NoTimestamp
	return nil
}

// AppendAt adds r at the given offset, which must be above the last one. Headers are
// dropped: there are none in these formats. It copies all that it keeps of r.
func (l *LegacyBuilder) AppendAt(offset int64, r Record) error {
	switch {
	case l.count > 0 && offset <= l.last:
		return l.fault(ErrInvalid, "offset", fmt.Sprintf("%d is not above %d", offset, l.last))
	case int64(len(l.inner))+int64(len(r.Key))+int64(len(r.Value)) > maxBatch:
		return l.fault(ErrTooLarge, "length", fmt.Sprint(len(r.Key)+len(r.Value)))
	}
	if l.count == 0 {
		l.first = offset
	}
	l.count++
	l.last = offset
	l.maxTimestamp = max(l.maxTimestamp, r.Timestamp)
	timestamp := r.Timestamp
	if l.timestampType == LogAppendTime {
		timestamp = l.appendTime
	}
	// Inside magic 1 only the differences of the offsets count.
	if l.magic == MagicV1 {
		offset -= l.first
	}
	l.inner = l.appendMessage(l.inner, offset, timestamp, None, r.Key, r.Value)
	return nil
}

// Build returns the wrapper, which stays the builder's until the next Reset or Build.
// Without messages it returns ErrEmpty.
func (l *LegacyBuilder) Build() ([]byte, error) {
	if l.count == 0 {
		return nil, ErrEmpty
	}
	packed, err := l.encode()
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, BaseOffset: l.last, Record: -1, Field: "codec", Detail: l.codec.String(), Err: err}
	}
	timestamp := l.maxTimestamp
	if l.timestampType == LogAppendTime {
		timestamp = l.appendTime
	}
	l.out = l.appendMessage(l.out[:0], l.last, timestamp, l.codec, nil, packed)
	return l.out, nil
}

// encode compresses the messages. LZ4 frames of magic 0 have a wrong checksum in
// their header, which readers of it expect.
func (l *LegacyBuilder) encode() ([]byte, error) {
	room := make([]byte, 0, maxEncoded(l.codec, len(l.inner)))
	if l.codec == LZ4 && l.magic == MagicV0 {
		level, _ := l.codec.level(0)
		return l.encoder.lz4.appendFrame(room, l.inner, level, true), nil
	}
	return l.encoder.appendEncoded(room, l.inner, l.codec, 0)
}

// appendMessage appends a message; see the table in legacy.go.
func (l *LegacyBuilder) appendMessage(dst []byte, offset, timestamp int64, codec Codec, key, value []byte) []byte {
	start := len(dst)
	dst = be.AppendUint64(dst, uint64(offset))
	dst = append(dst, make([]byte, 8)...) // size and checksum
	attributes := byte(codec)
	if l.magic == MagicV1 && l.timestampType == LogAppendTime {
		attributes |= appendTimeBit
	}
	dst = append(dst, byte(l.magic), attributes)
	if l.magic == MagicV1 {
		dst = be.AppendUint64(dst, uint64(timestamp))
	}
	dst = appendLegacyBytes(dst, key)
	dst = appendLegacyBytes(dst, value)
	be.PutUint32(dst[start+8:], uint32(len(dst)-start-LogOverhead))
	be.PutUint32(dst[start+legacyCRCPos:], crc32.ChecksumIEEE(dst[start+magicPos:]))
	return dst
}

func appendLegacyBytes(dst, b []byte) []byte {
	if b == nil {
		return be.AppendUint32(dst, 0xffffffff)
	}
	return append(be.AppendUint32(slices.Grow(dst, 4+len(b)), uint32(len(b))), b...)
}

func (l *LegacyBuilder) fault(kind error, field, detail string) error {
	return &Error{Kind: kind, BaseOffset: l.last, Record: l.count, Field: field, Detail: detail}
}
