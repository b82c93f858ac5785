package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// Kafka's LZ4 data is one frame of the LZ4 frame format, read and written by
// code of its own (Lz4BlockInputStream.java, Lz4BlockOutputStream.java) that
// allows only some of what the format does. Numbers are little endian:
//
//	size
//	   4  magic: 04 22 4d 18
//	   1  FLG: bits 6-7 version, 1
//	           bit  5   blocks are independent, 1
//	           bit  4   blocks have checksums
//	           bit  3   the content size is there
//	           bit  2   the content checksum is there
//	           bits 0-1 must be 0
//	   1  BD:  bits 4-6 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB
//	           others   must be 0
//	  (8) content size, not looked at
//	   1  HC: the second byte of the xxHash32 of FLG to here
//	then blocks:
//	   4  n; with the top bit set the data is not compressed
//	   n  data
//	  (4) xxHash32 of the data
//	   4  end mark, 0
//	  (4) content checksum, not looked at
//
// What is written has FLG 60 and BD 40, and so HC 82.
//
// In messages of magic 0, HC is the hash of the magic and the flags. It was a
// mistake, and by the time it was found it was the format. Such a frame, HC 1a,
// must be written for magic 0, and any HC must be read.
const (
	lz4Magic       = 0x184d2204
	lz4Flags       = 0x60
	lz4Descriptor  = 0x40
	lz4HeaderSize  = 7
	lz4Block       = 64 << 10
	lz4Stored      = 1 << 31
	lz4Checksum    = 0x82
	lz4ChecksumOld = 0x1a

	// lz4FastLevel is the default level and, being the default, selects the
	// fast compressor and not the ninth of the thorough ones.
	lz4FastLevel = 9
)

var (
	errLZ4Magic    = errors.New("not an lz4 frame")
	errLZ4Flags    = errors.New("lz4 frame has flags that are not allowed")
	errLZ4Header   = errors.New("lz4 frame header checksum mismatch")
	errLZ4Checksum = errors.New("lz4 block checksum mismatch")
	errLZ4Block    = errors.New("lz4 block is damaged")
)

var le = binary.LittleEndian

// lz4Compressor makes frames, with the two compressors it needs at most.
type lz4Compressor struct {
	fast *lz4.Compressor
	high *lz4.CompressorHC
}

// maxLZ4 returns the most that a frame of n bytes takes: that of blocks none of
// which can be compressed.
func maxLZ4(n int) int {
	blocks := (n + lz4Block - 1) / lz4Block
	return lz4HeaderSize + 4*blocks + n + 4
}

// appendFrame appends a frame of src to dst, with the header checksum of magic
// 0 if old is set.
func (c *lz4Compressor) appendFrame(dst, src []byte, level int, old bool) []byte {
	dst = le.AppendUint32(dst, lz4Magic)
	if old {
		dst = append(dst, lz4Flags, lz4Descriptor, lz4ChecksumOld)
	} else {
		dst = append(dst, lz4Flags, lz4Descriptor, lz4Checksum)
	}
	for len(src) > 0 {
		n := min(len(src), lz4Block)
		dst = c.appendBlock(dst, src[:n], level)
		src = src[n:]
	}
	return append(dst, 0, 0, 0, 0)
}

func (c *lz4Compressor) appendBlock(dst, src []byte, level int) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 4+len(src))
	block := dst[at : at+4+len(src)]
	// Data that does not get smaller is stored as it is, so a byte less than it
	// is all the room there has to be.
	n, err := c.compress(src, block[4:len(block)-1], level)
	if err != nil || n == 0 {
		n = copy(block[4:], src)
		le.PutUint32(block, uint32(n)|lz4Stored)
	} else {
		le.PutUint32(block, uint32(n))
	}
	return dst[:at+4+n]
}

func (c *lz4Compressor) compress(src, dst []byte, level int) (int, error) {
	if level == lz4FastLevel {
		if c.fast == nil {
			c.fast = new(lz4.Compressor)
		}
		return c.fast.CompressBlock(src, dst)
	}
	if c.high == nil {
		c.high = new(lz4.CompressorHC)
	}
	c.high.Level = lz4.Level1 << (min(level, 9) - 1)
	return c.high.CompressBlock(src, dst)
}

// lz4Frame is what the header of a frame says about the rest of it.
type lz4Frame struct {
	maxBlock        int
	blockChecksum   bool
	contentChecksum bool
}

// parseLZ4 reads the header of the frame src starts with and returns the blocks
// behind it. The header's checksum is ignored if old is set.
func parseLZ4(src []byte, old bool) (f lz4Frame, blocks []byte, err error) {
	if len(src) < lz4HeaderSize {
		return f, nil, io.ErrUnexpectedEOF
	}
	if le.Uint32(src) != lz4Magic {
		return f, nil, errLZ4Magic
	}
	flags, descriptor := src[4], src[5]
	if flags>>6 != 1 || flags&0x20 == 0 || flags&3 != 0 || descriptor&0x8f != 0 || descriptor < 4<<4 {
		return f, nil, errLZ4Flags
	}
	f.blockChecksum = flags&0x10 != 0
	f.contentChecksum = flags&0x04 != 0
	f.maxBlock = 1 << (8 + 2*(descriptor>>4))
	end := 6
	if flags&0x08 != 0 {
		end += 8
	}
	if len(src) <= end {
		return f, nil, io.ErrUnexpectedEOF
	}
	if !old && src[end] != byte(xxHash32(src[4:end])>>8) {
		return f, nil, errLZ4Header
	}
	return f, src[end+1:], nil
}

// lz4Part is one block of a frame.
type lz4Part struct {
	data   []byte // nil at the end mark
	stored bool
	sum    []byte // the checksum of data, if there is one
}

// next returns the block that src starts with and what follows it.
func (f *lz4Frame) next(src []byte) (p lz4Part, rest []byte, err error) {
	if len(src) < 4 {
		return p, nil, io.ErrUnexpectedEOF
	}
	head := le.Uint32(src)
	src = src[4:]
	n := int(head &^ lz4Stored)
	if n == 0 {
		if f.contentChecksum && len(src) < 4 {
			return p, nil, io.ErrUnexpectedEOF
		}
		return p, nil, nil
	}
	if n > f.maxBlock {
		return p, nil, fmt.Errorf("lz4 block of %d bytes is larger than %d", n, f.maxBlock)
	}
	end := n
	if f.blockChecksum {
		end += 4
	}
	if len(src) < end {
		return p, nil, io.ErrUnexpectedEOF
	}
	return lz4Part{data: src[:n], stored: head&lz4Stored != 0, sum: src[n:end]}, src[end:], nil
}

// bound returns the most that p can decompress to.
func (f *lz4Frame) bound(p lz4Part) int {
	if p.stored {
		return len(p.data)
	}
	// A byte of a length stands for 255 bytes, and none for more.
	return min(f.maxBlock, len(p.data)*255)
}

func decodeLZ4(buf, src []byte, old bool, limit int) ([]byte, error) {
	f, blocks, err := parseLZ4(src, old)
	if err != nil {
		return nil, err
	}
	// Room for a block beyond the limit, so that running out of it never makes
	// a good block look like a damaged one.
	most := limit + f.maxBlock
	bound := 0
	for rest := blocks; ; {
		var p lz4Part
		if p, rest, err = f.next(rest); err != nil {
			return nil, err
		}
		if p.data == nil {
			break
		}
		bound = min(bound+f.bound(p), most)
	}
	buf = room(buf, bound)
	for {
		p, rest, _ := f.next(blocks) // cannot fail: the first pass has been here
		if p.data == nil {
			return buf, nil
		}
		if buf, err = f.appendPart(buf, p); err != nil {
			return nil, err
		}
		if len(buf) > limit {
			return nil, errTooLarge
		}
		blocks = rest
	}
}

// appendPart decompresses p to the end of dst, which has room.
func (f *lz4Frame) appendPart(dst []byte, p lz4Part) ([]byte, error) {
	if len(p.sum) > 0 && le.Uint32(p.sum) != xxHash32(p.data) {
		return nil, errLZ4Checksum
	}
	if p.stored {
		return append(dst, p.data...), nil
	}
	out := dst[len(dst) : len(dst)+f.bound(p)]
	n, err := lz4.UncompressBlock(p.data, out)
	if err != nil {
		return nil, errLZ4Block
	}
	return dst[:len(dst)+n], nil
}

// xxHash32 is the hash of the LZ4 frame format: xxHash, 32 bits, seed 0.
func xxHash32(b []byte) uint32 {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	size := uint32(len(b))
	var h uint32 = p5
	if len(b) >= 16 {
		var v1, v2, v3, v4 uint32 = p1, p2, 0, p1
		v1, v4 = v1+p2, -v4
		for len(b) >= 16 {
			v1 = bits.RotateLeft32(v1+le.Uint32(b)*p2, 13) * p1
			v2 = bits.RotateLeft32(v2+le.Uint32(b[4:])*p2, 13) * p1
			v3 = bits.RotateLeft32(v3+le.Uint32(b[8:])*p2, 13) * p1
			v4 = bits.RotateLeft32(v4+le.Uint32(b[12:])*p2, 13) * p1
			b = b[16:]
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += size
	for len(b) >= 4 {
		h = bits.RotateLeft32(h+le.Uint32(b)*p3, 17) * p4
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
