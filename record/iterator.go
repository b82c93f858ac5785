package record

import (
	"errors"
	"fmt"
	"math"
)

// DefaultMaxDecompressed is how large the records of one batch may become when
// DecodeOptions does not say. Producers limit a batch before they compress it,
// Kafka's to 1 MiB unless told otherwise, so a batch that meets this limit was
// most likely made to.
const DefaultMaxDecompressed = 256 << 20

// DecodeOptions are the limits of an Iterator. The zero value is fine.
type DecodeOptions struct {
	// MaxDecompressed is how many bytes the records of one compressed batch may
	// take when decompressed; a batch with more is ErrTooLarge. 0 means
	// DefaultMaxDecompressed.
	//
	// An Iterator takes the memory a batch needs, and never what a batch merely
	// claims to need. To find that a batch is too large it takes no more than
	// the limit and a few MiB, or, with a zstd frame made for the purpose, about
	// twice as much for a moment.
	MaxDecompressed int64
}

func (o DecodeOptions) limit() int {
	limit := o.MaxDecompressed
	if limit <= 0 {
		limit = DefaultMaxDecompressed
	}
	return int(min(limit, math.MaxInt-1<<26))
}

// Iterator decodes the records of a batch, one by one and in order. It serves
// any number of batches, one after the other, and keeps its buffers for the
// next, as large as the largest batch has made them. After the first few it
// allocates nothing.
//
//	for it.Next() {
//		use(it.Record())
//	}
//	err := it.Err()
//
// Decoding is as strict as Kafka's (DefaultRecord.java, DefaultRecordBatch.java)
// and no stricter: it finds every record that does not add up, but does not
// verify the checksum and does not mind offsets the header does not cover. See
// Batch.Check and Batch.Verify. Only for records that a header with a count of 0
// denies is it an error here and nothing to Kafka.
//
// The zero Iterator has no records and the default limits.
type Iterator struct {
	opts    DecodeOptions
	decoder decompressor
	buf     []byte // the records of the last compressed batch

	batch Batch
	data  []byte // the records: of batch itself, or buf
	pos   int    // in data, where the record after rec starts
	index int    // of the record after rec
	count int    // of all records

	baseOffset    int64 // what the offset of each record is relative to
	baseTimestamp int64
	hasAppendTime bool // all records have appendTime, whatever theirs is
	appendTime    int64

	slots [2]slot // of the records with even and odd indexes
	entry []byte  // the whole of the legacy message that was decoded last
	err   error
}

// slot is room for a record. There are two so that one can be decoded before the one
// before it is used: a copy of what was stored a moment ago, field by field, waits until
// the processor has the stores behind it.
type slot struct {
	rec     Record
	headers []Header // what rec.Headers is cut from
}

// NewIterator returns an Iterator with the given limits and no records.
func NewIterator(opts DecodeOptions) *Iterator {
	return &Iterator{opts: opts}
}

// Reset starts on the records of b, of any magic, after decompressing them if
// they are compressed. The bytes of b must not change until the next Reset, or
// for as long as records decoded from them are in use.
//
// An error, which Err repeats, concerns the batch as a whole; there are no
// records then. It is ErrUnsupported for an unknown codec, ErrTooLarge for too
// many bytes, ErrCorrupt for a message inside a legacy wrapper whose size none
// can have, and ErrInvalid otherwise, also when the codec finds its data
// damaged.
func (it *Iterator) Reset(b Batch) error {
	it.batch, it.err = b, nil
	it.data, it.pos, it.index, it.count = nil, 0, 0, 0
	it.entry = nil
	if b.legacy() {
		it.err = it.resetLegacy()
	} else {
		it.err = it.resetV2()
	}
	if it.err != nil {
		it.data, it.count = nil, 0
	}
	return it.err
}

func (it *Iterator) resetV2() error {
	b := it.batch
	h := (*[HeaderSize]byte)(b.b)
	attributes := Attributes(be.Uint16(h[attributesPos:]))
	it.baseOffset, it.baseTimestamp = int64(be.Uint64(h[baseOffsetPos:])), int64(be.Uint64(h[baseTimestampPos:]))
	it.hasAppendTime, it.appendTime = attributes.TimestampType() == LogAppendTime, int64(be.Uint64(h[maxTimestampPos:]))
	count := int32(be.Uint32(h[countPos:]))
	if count < 0 {
		return b.fault(ErrInvalid, "record count", fmt.Sprintf("%d is negative", count), nil)
	}
	data := b.b[HeaderSize:]
	// Batches that compaction has emptied have no codec. One without records
	// that has one is still empty: there is nothing to decompress.
	if codec := attributes.Codec(); codec != None && (count > 0 || len(data) > 0) {
		var err error
		if data, err = it.decompress(codec, data); err != nil {
			return err
		}
	}
	if count == 0 && len(data) > 0 {
		return b.fault(ErrInvalid, "record count", fmt.Sprintf("0 leaves %d bytes", len(data)), nil)
	}
	it.data, it.count = data, int(count)
	return nil
}

// decompress returns src as the codec of the batch decompresses it, in buf.
func (it *Iterator) decompress(codec Codec, src []byte) ([]byte, error) {
	if !codec.Valid() {
		return nil, it.batch.fault(ErrUnsupported, "codec", fmt.Sprint(int(codec)), nil)
	}
	limit := it.opts.limit()
	buf := it.buf
	it.buf = nil // so that it can go before a larger one comes
	out, err := it.decoder.decode(buf, src, codec, it.batch.Magic(), limit)
	switch {
	case err == nil:
		it.buf = out
		return out, nil
	case errors.Is(err, errTooLarge):
		return nil, it.batch.fault(ErrTooLarge, "records", fmt.Sprintf("decompress from %s to more than %d bytes", codec, limit), nil)
	}
	return nil, it.batch.fault(ErrInvalid, "records", fmt.Sprintf("do not decompress from %s", codec), err)
}

// CheckSize returns ErrTooLarge if the records of b decompress to more than the limit
// allows, for one who is about to store b and wants it to be readable. Whether they
// decompress at all is not asked. Batches are mostly too small for that, or made of
// too few blocks, and decompressed only when they are not. It is a Reset otherwise.
func (it *Iterator) CheckSize(b Batch) error {
	if b.Codec() == None || mostDecompressed(b) <= int64(it.opts.limit()) {
		return nil
	}
	if err := it.Reset(b); errors.Is(err, ErrTooLarge) {
		return err
	}
	return nil
}

// mostDecompressed returns how many bytes the records of b can decompress to at most.
func mostDecompressed(b Batch) int64 {
	n := int64(b.Size())
	switch b.Codec() {
	case Gzip:
		return n * maxDeflate
	case Snappy:
		return n * 32 // a copy makes 64 bytes of 3
	case LZ4:
		return n * 256 // a byte makes a match longer by 255
	case Zstd:
		if b.legacy() {
			return 0 // it is not allowed there
		}
		if _, most, err := zstdSize(b.b[HeaderSize:], math.MaxInt32); err == nil {
			return int64(most)
		}
	}
	return math.MaxInt64 // let the decoder say
}

// ResetAt is Reset for one who knows at which byte of the batch a record begins, as
// Position has told: Next decodes that one. It is for batches of magic 2 that are not
// compressed.
func (it *Iterator) ResetAt(b Batch, at int) error {
	if err := it.Reset(b); err != nil {
		return err
	}
	if b.legacy() || b.Codec() != None || at < HeaderSize || at > len(b.b) {
		return it.batch.fault(ErrUnsupported, "records", fmt.Sprintf("none is known to begin at byte %d", at), nil)
	}
	it.pos = at - HeaderSize
	return nil
}

// Origin is what a batch says of each of its records.
type Origin struct {
	BaseOffset int64
	Timestamp  int64 // what the timestamps of records are relative to or, with AppendTime, all of them
	AppendTime bool
}

// Origin is for a batch of magic 2.
func (b Batch) Origin() Origin {
	if b.TimestampType() == LogAppendTime {
		return Origin{b.BaseOffset(), b.MaxTimestamp(), true}
	}
	return Origin{b.BaseOffset(), b.BaseTimestamp(), false}
}

// ResetWithin is ResetAt for one who has kept the origin of the batch, and from the record
// on some of its bytes, or all: Next decodes the first one, and Position tells its size,
// counted from HeaderSize. The rest of the batch is not looked at, nor needs to be there.
func (it *Iterator) ResetWithin(data []byte, o Origin) {
	it.batch, it.err = nowhere, nil
	it.data, it.pos, it.index, it.count = data, 0, 0, math.MaxInt32
	it.entry = nil
	it.baseOffset, it.baseTimestamp = o.BaseOffset, o.Timestamp
	it.hasAppendTime, it.appendTime = o.AppendTime, o.Timestamp
}

// nowhere is the batch of records of which the batch is not known.
var nowhere = func() Batch {
	b := Batch{make([]byte, HeaderSize)}
	b.b[magicPos] = byte(MagicV2)
	return b
}()

// Position is the byte of the batch at which the record begins that Next would
// decode. It says nothing of batches that are compressed or of old formats.
func (it *Iterator) Position() int { return HeaderSize + it.pos }

// Next decodes the next record, for Record to return. It returns false when
// there are no more records or the next one is damaged, which Err tells apart.
// Nothing of a batch is decoded beyond its first damaged record.
func (it *Iterator) Next() bool {
	if it.index == it.count {
		return false
	}
	if it.batch.legacy() {
		return it.nextLegacy()
	}
	if it.short() {
		return it.complete()
	}
	return it.nextV2()
}

// Record returns the record that Next or SkipTo decoded. It is the Iterator's, and
// the next call but one of either overwrites it and its headers. Key and values share
// the bytes of the batch or, if the batch is compressed, are valid until the
// next Reset or Close. Record.Clone makes a record to keep.
func (it *Iterator) Record() *Record { return &it.slots[(it.index-1)&1].rec }

// slot is where the record at index is to be decoded.
func (it *Iterator) slot() *slot { return &it.slots[it.index&1] }

// Err returns what ended the iteration before the last record, or nil.
func (it *Iterator) Err() error { return it.err }

// Rewind starts again on the records of the batch of the last Reset, which must have
// succeeded, and so must the iteration so far. Nothing is decompressed again.
func (it *Iterator) Rewind() { it.pos, it.index, it.entry = 0, 0, nil }

// SkipTo is Next until a record has an offset of at least the given one, without
// decoding the ones before. They are skipped by their length, and a damaged one
// among them may go unnoticed. It never goes back, which is why it is not
// called Seek.
func (it *Iterator) SkipTo(offset int64) bool {
	if it.index < it.count && offset <= it.baseOffset && !it.batch.legacy() {
		for it.Next() { // there is nothing to skip, as a rule
			if it.Record().Offset >= offset {
				return true
			}
		}
		return false
	}
	for it.index < it.count {
		at, end := it.peek()
		// A record that cannot be skipped is left for Next to find fault with.
		if end < 0 || at >= offset {
			return it.Next()
		}
		it.pos = end
		it.index++
		if !it.complete() {
			return false
		}
	}
	return false
}

// Peek returns the offset of the record that Next would decode, if there is one and
// it says.
func (it *Iterator) Peek() (offset int64, ok bool) {
	if it.index == it.count {
		return 0, false
	}
	offset, end := it.peek()
	return offset, end >= 0
}

// peek returns the offset of the record at pos and where the one after it
// starts, or -1 for that.
func (it *Iterator) peek() (offset int64, end int) {
	if it.batch.legacy() {
		size := int(be.Uint32(it.data[it.pos+8:]))
		return it.baseOffset + int64(be.Uint64(it.data[it.pos:])), it.pos + LogOverhead + size
	}
	length, p := varint(it.data, it.pos)
	if p < 0 || length < 1 || int(length) > len(it.data)-p {
		return 0, -1
	}
	end = p + int(length)
	b := it.data[:end]
	if _, p = varlong(b, p+1); p < 0 {
		return 0, -1
	}
	delta, p := varint(b, p)
	if p < 0 {
		return 0, -1
	}
	return it.baseOffset + int64(delta), end
}

// complete reports whether, if all records have been read, all bytes have. It
// fails the iteration otherwise.
func (it *Iterator) complete() bool {
	return it.index < it.count || it.pos == len(it.data) || it.failLeft()
}

// failLeft is apart so that complete is inlined.
func (it *Iterator) failLeft() bool {
	it.index-- // it is the last record that this is noticed at
	return it.fail("record count", fmt.Sprintf("%d leaves %d bytes", it.count, len(it.data)-it.pos))
}

// fail ends the iteration with a fault of the record at index.
func (it *Iterator) fail(field, detail string) bool {
	return it.failWith(ErrInvalid, field, detail, nil)
}

//go:noinline
func (it *Iterator) failWith(kind error, field, detail string, cause error) bool {
	it.err = &Error{
		Kind: kind, BaseOffset: it.batch.BaseOffset(), Record: it.index,
		Field: field, Detail: detail, Err: cause,
	}
	it.count = it.index
	return false
}

// failVarint is fail for the number at b[p:], which either cannot be read or is
// a length that is not there.
func (it *Iterator) failVarint(field string, b []byte, p int) bool {
	length, end := varint(b, p)
	if end < 0 {
		return it.fail(field, varintFault(b, p, maxVarint))
	}
	return it.fail(field, notWithin(length, len(b)-end))
}

func notWithin(length int32, left int) string {
	return fmt.Sprintf("%d is not within the %d bytes left", length, left)
}

func (it *Iterator) nextV2() bool {
	data := it.data
	length, p := varint(data, it.pos)
	if p < 0 || length < 0 || int(length) > len(data)-p {
		return it.failVarint("length", data, it.pos)
	}
	end := p + int(length)
	if !it.decode(data[p:end:end]) {
		return false
	}
	it.pos = end
	it.index++
	return it.complete()
}

// decode decodes one record without its length.
func (it *Iterator) decode(b []byte) bool {
	if len(b) == 0 {
		return it.fail("attributes", "are missing")
	}
	timestamp, p := varlong(b, 1)
	if p < 0 {
		return it.fail("timestamp delta", varintFault(b, 1, maxVarlong))
	}
	at := p
	offset, p := varint(b, p)
	if p < 0 {
		return it.failVarint("offset delta", b, at)
	}
	rec := &it.slot().rec
	rec.Offset = it.baseOffset + int64(offset)
	rec.Timestamp = it.baseTimestamp + timestamp
	if it.hasAppendTime {
		rec.Timestamp = it.appendTime
	}
	at = p
	if rec.Key, p = field(b, p); p < 0 {
		return it.failVarint("key length", b, at)
	}
	at = p
	if rec.Value, p = field(b, p); p < 0 {
		return it.failVarint("value length", b, at)
	}
	at = p
	headers, p := varint(b, p)
	if p < 0 {
		return it.failVarint("header count", b, at)
	}
	rec.Headers = nil
	if headers != 0 {
		if p = it.decodeHeaders(b, p, headers); p < 0 {
			return false
		}
	}
	if p != len(b) {
		return it.fail("length", fmt.Sprintf("%d is not the %d bytes its fields take", len(b), p))
	}
	return true
}

// field reads a length and that many bytes at b[p:], and returns them with the
// position behind, or -1 for that if there are fewer. A negative length means
// null, whichever it is.
func field(b []byte, p int) ([]byte, int) {
	length, p := varint(b, p)
	if p < 0 {
		return nil, -1
	}
	if length < 0 {
		return nil, p
	}
	if int(length) > len(b)-p {
		return nil, -1
	}
	end := p + int(length)
	return b[p:end:end], end
}

// decodeHeaders reads count headers at b[p:] and returns the position behind. If
// it cannot it fails the iteration and returns -1.
func (it *Iterator) decodeHeaders(b []byte, p int, count int32) int {
	if count < 0 || int(count) > len(b)-p {
		it.fail("header count", notWithin(count, len(b)-p))
		return -1
	}
	slot := it.slot()
	for i := range int(count) {
		at := p
		key, q := field(b, p)
		if q < 0 || key == nil {
			it.failVarint("header key length", b, at)
			return -1
		}
		// The slice grows with what is there, not to a count that may be a lie.
		if i == len(slot.headers) {
			slot.headers = append(slot.headers, Header{})
		}
		h := &slot.headers[i]
		// Most records have the headers of the ones before, and the string they
		// had can be had again for free.
		if h.Key != string(key) {
			h.Key = string(key)
		}
		if h.Value, p = field(b, q); p < 0 {
			it.failVarint("header value length", b, q)
			return -1
		}
	}
	slot.rec.Headers = slot.headers[:count:count]
	return p
}

// Close releases the memory of the Iterator and of its codecs. What it decoded
// from compressed batches is no longer valid. It can be used again after
// Reset, which starts from nothing.
func (it *Iterator) Close() {
	it.decoder.close()
	*it = Iterator{opts: it.opts}
}
