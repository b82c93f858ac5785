package record

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// Producer identifies the idempotent producer of a batch.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32 // of the record at the base offset; NoSequence in a control batch
}

// BuilderOptions is what a batch says apart from its records. The zero value is
// a good batch: offsets from 0, not compressed, no producer, timestamps set by
// whoever made the records.
type BuilderOptions struct {
	// BaseOffset is the offset of the batch. Whoever assigns offsets later can
	// leave it at 0 and use Batch.SetBaseOffset.
	BaseOffset int64

	// LeaderEpoch is the epoch of the partition's leader, or NoLeaderEpoch.
	LeaderEpoch int32

	// Codec compresses the records, at the given level. Level 0 is the codec's
	// default in Kafka: 6 for gzip, 9 for lz4, 3 for zstd. The levels are 1 to 9,
	// 1 to 17 and -131072 to 22; -1 is the default of gzip as well.
	Codec Codec
	Level int

	// TimestampType says what the timestamps are. With LogAppendTime readers see
	// LogAppendTime, in milliseconds since 1970, in place of every record's own.
	TimestampType TimestampType
	LogAppendTime int64

	// Producer is nil for a batch that no idempotent producer wrote. It is read
	// at once and not kept.
	Producer *Producer

	// Transactional batches need a Producer. Control batches hold control
	// records.
	Transactional bool
	Control       bool

	// DeleteHorizon, if there is one, is the time in milliseconds since 1970
	// from which on tombstones in the batch may be removed (KIP-534).
	HasDeleteHorizon bool
	DeleteHorizon    int64
}

// Builder encodes one batch of magic 2. It keeps its buffers and compressors
// for the next, as large as the largest batch has made them: after the first
// few batches it allocates nothing. The zero Builder is ready for a batch of
// zero BuilderOptions.
type Builder struct {
	opts     BuilderOptions
	producer Producer
	started  bool
	err      error // what is wrong with opts; Append and Build refuse with it

	// buf is room for the header and then the records, not compressed.
	buf        []byte
	count      int32
	lastOffset int64 // of the last record, or what SetLastOffset made of it

	baseTimestamp int64 // of the first record, unless there is a horizon
	maxTimestamp  int64

	packed  []byte // the batch, if it is compressed
	encoder compressor
}

// NewBuilder returns a Builder for a batch with the given options. If these
// contradict each other, Append and Build say so.
func NewBuilder(opts BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(opts)
	return b
}

// Reset starts a new batch. What Build returned for the last one is no longer
// valid.
func (b *Builder) Reset(opts BuilderOptions) {
	b.opts, b.opts.Producer = opts, nil
	b.producer = Producer{ID: NoProducerID, Epoch: NoProducerEpoch, BaseSequence: NoSequence}
	if opts.Producer != nil {
		b.producer = *opts.Producer
	}
	b.started = true
	b.buf = slices.Grow(b.buf[:0], HeaderSize)[:HeaderSize]
	b.count = 0
	b.lastOffset = opts.BaseOffset - 1
	b.baseTimestamp, b.maxTimestamp = NoTimestamp, NoTimestamp
	b.err = b.check()
}

// check finds the first contradiction in the options. The rules are those of
// Kafka's MemoryRecordsBuilder.java.
func (b *Builder) check() error {
	o, p := &b.opts, b.producer
	switch {
	case o.BaseOffset < 0:
		return b.fault(ErrInvalid, "base offset", "is negative")
	case !o.Codec.Valid():
		return b.fault(ErrUnsupported, "codec", fmt.Sprint(int(o.Codec)))
	case !o.Codec.HasLevel(o.Level):
		return b.fault(ErrInvalid, "level", fmt.Sprintf("%d is not one of %s", o.Level, o.Codec))
	case o.TimestampType != CreateTime && o.TimestampType != LogAppendTime:
		return b.fault(ErrInvalid, "timestamp type", o.TimestampType.String())
	case o.Transactional && p.ID == NoProducerID:
		return b.fault(ErrInvalid, "producer id", "is missing from a transactional batch")
	case p.ID < NoProducerID:
		return b.fault(ErrInvalid, "producer id", fmt.Sprintf("%d is negative", p.ID))
	case p.ID >= 0 && p.Epoch < 0:
		return b.fault(ErrInvalid, "producer epoch", fmt.Sprintf("%d is negative", p.Epoch))
	case p.ID >= 0 && p.BaseSequence < 0 && !o.Control:
		return b.fault(ErrInvalid, "base sequence", fmt.Sprintf("%d is negative", p.BaseSequence))
	case o.HasDeleteHorizon && o.DeleteHorizon < 0:
		return b.fault(ErrInvalid, "delete horizon", fmt.Sprintf("%d is negative", o.DeleteHorizon))
	}
	return nil
}

func (b *Builder) fault(kind error, field, detail string) error {
	return &Error{Kind: kind, BaseOffset: b.opts.BaseOffset, Record: -1, Field: field, Detail: detail}
}

func (b *Builder) recordFault(kind error, field, detail string) error {
	return &Error{Kind: kind, BaseOffset: b.opts.BaseOffset, Record: int(b.count), Field: field, Detail: detail}
}

// Append adds r at the offset after the last one. See AppendAt.
func (b *Builder) Append(r Record) error {
	if !b.started {
		b.Reset(BuilderOptions{})
	}
	return b.AppendAt(b.lastOffset+1, r)
}

// AppendAt adds r at the given offset, whatever r.Offset is. It copies all that
// it keeps of r.
//
// Offsets must rise; gaps are fine. A timestamp must be NoTimestamp or 0 and
// up. Breaking either rule is ErrInvalid. If the batch would outgrow the 31
// bits of its size or of an offset relative to its base, that is ErrTooLarge.
// After any of these the batch is as it was, and other records can be appended.
func (b *Builder) AppendAt(offset int64, r Record) error {
	if !b.started {
		b.Reset(BuilderOptions{})
	}
	if b.err != nil {
		return b.err
	}
	if offset <= b.lastOffset {
		return b.recordFault(ErrInvalid, "offset", fmt.Sprintf("%d is not above %d", offset, b.lastOffset))
	}
	if r.Timestamp < NoTimestamp {
		return b.recordFault(ErrInvalid, "timestamp", fmt.Sprintf("%d is negative", r.Timestamp))
	}
	if offset-b.opts.BaseOffset > math.MaxInt32 {
		return b.recordFault(ErrTooLarge, "offset", fmt.Sprintf("%d is too far from the base offset", offset))
	}
	base := b.baseTimestamp
	if b.count == 0 {
		base = r.Timestamp
		if b.opts.HasDeleteHorizon {
			base = b.opts.DeleteHorizon
		}
	}
	offsetDelta, timestampDelta := int32(offset-b.opts.BaseOffset), r.Timestamp-base

	body := sizeBody(offsetDelta, timestampDelta, &r)
	if int64(len(b.buf))+body > maxBatch {
		return b.recordFault(ErrTooLarge, "length", fmt.Sprint(body))
	}
	b.buf = appendRecord(slices.Grow(b.buf, int(body)+maxVarint), int32(body), offsetDelta, timestampDelta, &r)
	b.count++
	b.lastOffset = offset
	b.baseTimestamp = base
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	return nil
}

// maxBatch is the largest batch there can be, less room for the overhead of a
// codec that cannot compress it.
const maxBatch = math.MaxInt32 - LogOverhead - 1<<24

// appendRecord encodes r, whose body takes size bytes, in one pass. dst has
// room, so none of the appends moves it.
func appendRecord(dst []byte, size, offsetDelta int32, timestampDelta int64, r *Record) []byte {
	dst = appendVarint(dst, size)
	dst = append(dst, 0) // attributes
	dst = appendVarlong(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = appendVarint(dst, int32(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = appendVarint(dst, int32(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	dst = appendVarint(dst, int32(len(b)))
	return append(dst, b...)
}

// sizeBody returns the size of a record without its length. It is exact if that
// fits its 32 bits, and larger than they hold if not, whatever int is.
func sizeBody(offsetDelta int32, timestampDelta int64, r *Record) int64 {
	n := 1 + sizeVarlong(timestampDelta) + sizeVarint(offsetDelta) + sizeVarint(int32(len(r.Headers)))
	total := int64(n) + sizeBytes(r.Key) + sizeBytes(r.Value)
	for i := range r.Headers {
		h := &r.Headers[i]
		total += int64(sizeVarint(int32(len(h.Key)))) + int64(len(h.Key)) + sizeBytes(h.Value)
	}
	return total
}

func sizeBytes(b []byte) int64 {
	if b == nil {
		return 1
	}
	return int64(sizeVarint(int32(len(b)))) + int64(len(b))
}

// RecordSize returns how many bytes r takes in a batch, before compression, if
// its offset and timestamp are that far from the batch's base.
func RecordSize(r Record, offsetDelta int32, timestampDelta int64) int {
	body := int(sizeBody(offsetDelta, timestampDelta, &r))
	return sizeVarint(int32(body)) + body
}

// SizeUpperBound returns a size that a batch of recs, not compressed, will not
// exceed. It is at most 20 bytes a record too much.
func SizeUpperBound(recs []Record) int {
	n := HeaderSize
	for i := range recs {
		n += int(sizeBody(math.MaxInt32, math.MinInt64, &recs[i])) + maxVarint
	}
	return n
}

// SetLastOffset makes the batch end at offset, beyond its last record.
// Compaction does so when it drops the last records of a batch, to keep the
// offsets the batch covers. An offset the batch already exceeds is ErrInvalid.
func (b *Builder) SetLastOffset(offset int64) error {
	if !b.started {
		b.Reset(BuilderOptions{})
	}
	if b.err != nil {
		return b.err
	}
	if offset < b.lastOffset {
		return b.fault(ErrInvalid, "last offset", fmt.Sprintf("%d is below %d", offset, b.lastOffset))
	}
	if offset-b.opts.BaseOffset > math.MaxInt32 {
		return b.fault(ErrTooLarge, "last offset", fmt.Sprintf("%d is too far from the base offset", offset))
	}
	b.lastOffset = offset
	return nil
}

// Len returns the number of records in the batch.
func (b *Builder) Len() int { return int(b.count) }

// Size returns how many bytes the batch takes, or 0 without records. For a
// compressed batch it is what it may take at most, when nothing in it can be
// compressed.
func (b *Builder) Size() int {
	if b.count == 0 {
		return 0
	}
	return HeaderSize + maxEncoded(b.opts.Codec, len(b.buf)-HeaderSize)
}

// RecordsSize returns how many bytes the records take before compression, which is
// what readers limit with DecodeOptions.MaxDecompressed.
func (b *Builder) RecordsSize() int { return max(0, len(b.buf)-HeaderSize) }

// Build returns the encoded batch, which stays the Builder's and is valid until
// the next Append, Build or Reset. The caller may change it until then, as
// Batch.SetBaseOffset does. Build may be called again when more records have
// been appended.
//
// Without records it returns ErrEmpty. It also reports what is wrong with the
// options.
func (b *Builder) Build() ([]byte, error) {
	if !b.started || b.err == nil && b.count == 0 {
		return nil, ErrEmpty
	}
	if b.err != nil {
		return nil, b.err
	}
	batch := b.buf
	if b.opts.Codec != None {
		var err error
		batch = slices.Grow(b.packed[:0], b.Size())[:HeaderSize]
		batch, err = b.encoder.appendEncoded(batch, b.buf[HeaderSize:], b.opts.Codec, b.opts.Level)
		if err != nil {
			return nil, &Error{
				Kind: ErrInvalid, BaseOffset: b.opts.BaseOffset, Record: -1,
				Field: "codec", Detail: b.opts.Codec.String(), Err: err,
			}
		}
		b.packed = batch
	}
	putHeader(batch, b.header())
	return batch, nil
}

func (b *Builder) header() BatchHeader {
	h := BatchHeader{
		BaseOffset:      b.opts.BaseOffset,
		LastOffsetDelta: int32(b.lastOffset - b.opts.BaseOffset),
		LeaderEpoch:     b.opts.LeaderEpoch,
		Attributes:      Attributes(b.opts.Codec) | Attributes(b.opts.TimestampType)<<3,
		BaseTimestamp:   b.baseTimestamp,
		MaxTimestamp:    b.maxTimestamp,
		ProducerID:      b.producer.ID,
		ProducerEpoch:   b.producer.Epoch,
		BaseSequence:    b.producer.BaseSequence,
		Count:           b.count,
	}
	if b.opts.TimestampType == LogAppendTime {
		h.MaxTimestamp = b.opts.LogAppendTime
	}
	if b.opts.Transactional {
		h.Attributes |= transactionalBit
	}
	if b.opts.Control {
		h.Attributes |= controlBit
	}
	if b.opts.HasDeleteHorizon {
		h.Attributes |= deleteHorizonBit
	}
	return h
}

// BatchHeader is the header of a batch of magic 2 without what follows from its
// bytes: length, magic and checksum.
type BatchHeader struct {
	BaseOffset      int64
	LastOffsetDelta int32
	LeaderEpoch     int32
	Attributes      Attributes
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// Header returns the header of b, as its methods report it one by one.
func (b Batch) Header() BatchHeader {
	return BatchHeader{
		BaseOffset:      b.BaseOffset(),
		LastOffsetDelta: b.LastOffsetDelta(),
		LeaderEpoch:     b.LeaderEpoch(),
		Attributes:      b.Attributes(),
		BaseTimestamp:   b.BaseTimestamp(),
		MaxTimestamp:    b.MaxTimestamp(),
		ProducerID:      b.ProducerID(),
		ProducerEpoch:   b.ProducerEpoch(),
		BaseSequence:    b.BaseSequence(),
		Count:           b.Count(),
	}
}

// putHeader writes the header of batch, whose records are in place.
func putHeader(batch []byte, h BatchHeader) {
	_ = batch[HeaderSize-1]
	be.PutUint64(batch[baseOffsetPos:], uint64(h.BaseOffset))
	be.PutUint32(batch[lengthPos:], uint32(len(batch)-LogOverhead))
	be.PutUint32(batch[leaderEpochPos:], uint32(h.LeaderEpoch))
	batch[magicPos] = magicV2
	be.PutUint16(batch[attributesPos:], uint16(h.Attributes))
	be.PutUint32(batch[lastOffsetDeltaPos:], uint32(h.LastOffsetDelta))
	be.PutUint64(batch[baseTimestampPos:], uint64(h.BaseTimestamp))
	be.PutUint64(batch[maxTimestampPos:], uint64(h.MaxTimestamp))
	be.PutUint64(batch[producerIDPos:], uint64(h.ProducerID))
	be.PutUint16(batch[producerEpochPos:], uint16(h.ProducerEpoch))
	be.PutUint32(batch[baseSequencePos:], uint32(h.BaseSequence))
	be.PutUint32(batch[countPos:], uint32(h.Count))
	be.PutUint32(batch[crcPos:], crc32.Checksum(batch[attributesPos:], castagnoli))
}

// AppendEmptyBatch appends a batch without records, which is what compaction
// leaves of a batch whose records are all gone when its offsets or its
// producer's state are still needed. Of h it takes all but the codec, the
// delete horizon and base timestamp, and the count.
func AppendEmptyBatch(dst []byte, h BatchHeader) []byte {
	h.Attributes &= appendTimeBit | transactionalBit | controlBit
	h.BaseTimestamp = NoTimestamp
	h.Count = 0
	start := len(dst)
	dst = slices.Grow(dst, HeaderSize)[:start+HeaderSize]
	putHeader(dst[start:], h)
	return dst
}
