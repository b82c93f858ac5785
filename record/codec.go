package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Codec is how the records of a batch are compressed.
type Codec int8

// The codecs. These values are written to disk and never change.
const (
	None   Codec = 0
	Gzip   Codec = 1 // RFC 1952
	Snappy Codec = 2 // raw blocks in the framing of snappy-java; see snappy.go
	LZ4    Codec = 3 // the LZ4 frame format, within limits; see lz4.go
	Zstd   Codec = 4 // RFC 8878; not in magic 0 and 1
)

// codecs holds the names and level ranges of Kafka's CompressionType.java.
var codecs = [...]struct {
	name                      string
	lowest, highest, standard int
}{
	None:   {name: "none"},
	Gzip:   {name: "gzip", lowest: 1, highest: 9, standard: gzip.DefaultCompression},
	Snappy: {name: "snappy"},
	LZ4:    {name: "lz4", lowest: 1, highest: 17, standard: lz4FastLevel},
	Zstd:   {name: "zstd", lowest: -131072, highest: 22, standard: 3},
}

// String returns the name Kafka's settings use, such as "zstd".
func (c Codec) String() string {
	if !c.Valid() {
		return "codec " + strconv.Itoa(int(c))
	}
	return codecs[c].name
}

// Valid reports whether c is one of the five codecs.
func (c Codec) Valid() bool { return c >= None && c <= Zstd }

// ParseCodec returns the codec with the given name. For any other it returns
// ErrUnsupported.
func ParseCodec(name string) (Codec, error) {
	for c := range codecs {
		if codecs[c].name == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("codec %q: %w", name, ErrUnsupported)
}

// HasLevel reports whether the codec has such a compression level; 0, the
// default, is one of every codec.
func (c Codec) HasLevel(level int) bool {
	if !c.Valid() {
		return false
	}
	_, ok := c.level(level)
	return ok
}

// level returns the level that stands for itself where 0 stood for the default,
// and whether the codec has such a level.
func (c Codec) level(level int) (int, bool) {
	d := &codecs[c]
	if level == 0 || level == d.standard {
		return d.standard, true
	}
	return level, level >= d.lowest && level <= d.highest
}

// maxEncoded returns what n bytes grow to at most under codec c.
func maxEncoded(c Codec, n int) int {
	switch c {
	case Snappy:
		return maxSnappy(n)
	case LZ4:
		return maxLZ4(n)
	case Gzip, Zstd:
		// Both store what they cannot compress, for a few bytes in many
		// thousand, besides header and trailer.
		return n + n>>10 + 64
	}
	return n
}

// compressor compresses the records of batches. It makes each codec's state
// when that is first needed, and keeps it.
type compressor struct {
	gzip      *gzip.Writer
	gzipOut   appender
	gzipLevel int
	zstd      *zstd.Encoder
	zstdLevel zstd.EncoderLevel
	lz4       lz4Compressor
}

// appender is an io.Writer to the end of a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// appendEncoded appends src, compressed, to dst. If dst has room for maxEncoded
// bytes more it is not moved.
func (c *compressor) appendEncoded(dst, src []byte, codec Codec, level int) ([]byte, error) {
	level, _ = codec.level(level)
	switch codec {
	case Gzip:
		return c.appendGzip(dst, src, level)
	case Snappy:
		return appendSnappy(dst, src), nil
	case LZ4:
		return c.lz4.appendFrame(dst, src, level, false), nil
	case Zstd:
		return c.appendZstd(dst, src, level)
	}
	return append(dst, src...), nil
}

func (c *compressor) appendGzip(dst, src []byte, level int) ([]byte, error) {
	if c.gzip == nil || c.gzipLevel != level {
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			return dst, err
		}
		c.gzip, c.gzipLevel = w, level
	}
	c.gzipOut.b = dst
	c.gzip.Reset(&c.gzipOut)
	_, err := c.gzip.Write(src)
	if err == nil {
		err = c.gzip.Close()
	}
	dst, c.gzipOut.b = c.gzipOut.b, nil
	return dst, err
}

func (c *compressor) appendZstd(dst, src []byte, level int) ([]byte, error) {
	// The library has four levels in place of Kafka's 131095. They differ in
	// speed and size only: every reader reads them all.
	if l := zstd.EncoderLevelFromZstd(level); c.zstd == nil || c.zstdLevel != l {
		e, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(l),
			zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderCRC(false)) // Kafka's frames have none, the batch has one
		if err != nil {
			return dst, err
		}
		c.zstd, c.zstdLevel = e, l
	}
	return c.zstd.EncodeAll(src, dst), nil
}

// decompressor is the inverse of compressor.
//
// Memory is bounded by what arrives, never by what it claims. Every codec
// stores its data in blocks that hold a known maximum, so that the true size,
// give or take a block, follows from the bytes at hand before anything is
// decompressed. That size is allocated once, if the limit allows it, and never
// outgrown. Only gzip has no such blocks, and says its size at its end; and the
// zstd library grows its output once more, by a quarter, for the block of a
// frame made to exceed the limit with which it does.
type decompressor struct {
	gzip *gzip.Reader
	src  bytes.Reader // what gzip reads
	zstd *zstd.Decoder
}

// errTooLarge is what the decoders of the codecs return instead of more than
// limit bytes.
var errTooLarge = errors.New("more than the limit")

// decode returns src, decompressed to buf or, if that is too small, to new
// memory. It returns errTooLarge if that is more than limit bytes.
func (d *decompressor) decode(buf, src []byte, codec Codec, magic int8, limit int) ([]byte, error) {
	switch codec {
	case Gzip:
		return d.decodeGzip(buf, src, limit)
	case Snappy:
		return decodeSnappy(buf, src, limit)
	case LZ4:
		return decodeLZ4(buf, src, magic == 0, limit)
	case Zstd:
		return d.decodeZstd(buf, src, limit)
	}
	return nil, ErrUnsupported
}

func (d *decompressor) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
	*d = decompressor{}
}

// room returns buf emptied, or new memory, with a capacity of at least n. It
// grows by a quarter if it grows at all, lest every batch be a little larger.
func room(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:0]
	}
	return make([]byte, 0, max(n, cap(buf)+cap(buf)/4))
}

// maxDeflate is the most one byte of deflate data can stand for, in bytes.
const maxDeflate = 1032

func (d *decompressor) decodeGzip(buf, src []byte, limit int) ([]byte, error) {
	// The last four bytes are the size modulo 2^32, unless they lie or there is
	// more than one member. Kafka writes one, yet reads as many as there are.
	size := 0
	if len(src) >= 4 {
		size = int(min(int64(le.Uint32(src[len(src)-4:])), int64(len(src))*maxDeflate, math.MaxInt32-1))
	}
	full := size > limit
	var err error
	if !full {
		buf, full, err = d.gunzip(room(buf, size+1), src)
	}
	if full && err == nil {
		if size, err = d.gzipSize(src, limit); err != nil {
			return nil, err
		}
		buf, _, err = d.gunzip(room(buf, size+1), src)
	}
	if len(buf) > limit {
		return nil, errTooLarge
	}
	return buf, err
}

// gunzip decompresses src to buf, up to its capacity. If it gets that far it
// reports that it is full, for there may be more.
func (d *decompressor) gunzip(buf, src []byte) (_ []byte, full bool, err error) {
	err = d.openGzip(src)
	for err == nil {
		if len(buf) == cap(buf) {
			return buf, true, nil
		}
		var n int
		n, err = d.gzip.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			if !d.nextMember() {
				return buf, false, nil
			}
			err = nil
		}
	}
	return nil, false, err
}

// gzipSize returns how much src decompresses to, in constant memory.
func (d *decompressor) gzipSize(src []byte, limit int) (int, error) {
	scratch := make([]byte, 32<<10)
	size, err := 0, d.openGzip(src)
	for err == nil {
		var n int
		n, err = d.gzip.Read(scratch)
		if size += n; size > limit {
			return 0, errTooLarge
		}
		if err == io.EOF {
			if !d.nextMember() {
				return size, nil
			}
			err = nil
		}
	}
	return 0, err
}

func (d *decompressor) openGzip(src []byte) error {
	d.src.Reset(src)
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	err := d.gzip.Reset(&d.src)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	d.gzip.Multistream(false)
	return err
}

// nextMember moves on to the next gzip member. What is there and is none ends
// the data, as in java.util.zip.GZIPInputStream.
func (d *decompressor) nextMember() bool {
	err := d.gzip.Reset(&d.src)
	d.gzip.Multistream(false)
	return err == nil
}

const (
	// maxZstdWindow is the largest window that any level of zstd uses, 22 with
	// its 27 bits, and the largest that the library Kafka uses accepts.
	maxZstdWindow = 1 << 27

	// maxZstdBlock is the most that one block can hold.
	maxZstdBlock = 128 << 10

	// zstdSlack is the room behind the data that lets the library copy in whole
	// words up to its end.
	zstdSlack = 32

	// zstdSizeCap stands for all sizes beyond it. Sums below it do not overflow
	// even an int of 32 bits.
	zstdSizeCap = math.MaxInt32 / 2
)

func (d *decompressor) decodeZstd(buf, src []byte, limit int) ([]byte, error) {
	least, most, err := zstdSize(src, limit)
	if err != nil {
		return nil, err
	}
	if least > limit {
		return nil, errTooLarge
	}
	if d.zstd == nil {
		d.zstd, err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxZstdWindow),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
	}
	out, err := d.zstd.DecodeAll(src, room(buf, min(most, limit+maxZstdBlock)+zstdSlack))
	if len(out) > limit || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, errTooLarge
	}
	return out, err
}

// zstdSize returns between which sizes the frames in src decompress to. It goes
// by the headers of their blocks, of which only those that are compressed do
// not say. A frame that says it holds more than the limit, or more than its
// blocks can, is an error; one that says it holds less than they do is left for
// the decoder to find.
func zstdSize(src []byte, limit int) (least, most int, err error) {
	for len(src) > 0 {
		var h zstd.Header
		rest, err := h.DecodeAndStrip(src)
		if err != nil {
			return 0, 0, err
		}
		if h.Skippable {
			if uint64(h.SkippableSize) > uint64(len(rest)) {
				return 0, 0, io.ErrUnexpectedEOF
			}
			src = rest[h.SkippableSize:]
			continue
		}
		if h.HasFCS && h.FrameContentSize > uint64(limit) {
			return 0, 0, errTooLarge
		}
		lo, hi, n, err := zstdBlocks(rest)
		if err != nil {
			return 0, 0, err
		}
		if h.HasFCS {
			if h.FrameContentSize > uint64(hi) {
				return 0, 0, zstd.ErrFrameSizeMismatch
			}
			lo, hi = int(h.FrameContentSize), int(h.FrameContentSize)
		}
		if h.HasCheckSum {
			n += 4
		}
		if n > len(rest) {
			return 0, 0, io.ErrUnexpectedEOF
		}
		least, most = min(least+lo, zstdSizeCap), min(most+hi, zstdSizeCap)
		src = rest[n:]
	}
	return least, most, nil
}

// zstdBlocks walks over the blocks of one frame. It returns between which sizes
// they decompress to, and how many bytes they take.
func zstdBlocks(src []byte) (least, most, n int, err error) {
	for {
		if len(src)-n < 3 {
			return 0, 0, 0, io.ErrUnexpectedEOF
		}
		header := int(src[n]) | int(src[n+1])<<8 | int(src[n+2])<<16
		n += 3
		length := header >> 3
		lo, hi, takes := length, length, length
		switch header >> 1 & 3 {
		case 0: // as it is
		case 1: // one byte, repeated
			takes = 1
		default:
			lo, hi = 0, maxZstdBlock
		}
		least, most = min(least+lo, zstdSizeCap), min(most+hi, zstdSizeCap)
		if n += takes; n > len(src) {
			return 0, 0, 0, io.ErrUnexpectedEOF
		}
		if header&1 != 0 { // the last
			return least, most, n, nil
		}
	}
}
