package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// Kafka compresses with the SnappyOutputStream of snappy-java, whose framing is
// its own:
//
//	position  size
//	       0     8  magic: 82 53 4e 41 50 50 59 00
//	       8     4  version, 1
//	      12     4  oldest version that can read it, 1
//	then, to the end:
//	                4  n
//	                n  a Snappy block, of at most 32 KiB before compression
//
// A header may appear again where a block could start. Data that does not begin
// with the magic is a single block without framing, as other clients write it.
const (
	snappyMagic      = "\x82SNAPPY\x00"
	snappyHeader     = snappyMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	snappyHeaderSize = 16
	snappyBlock      = 32 << 10

	// snappyRatio is more than what one byte of Snappy data can stand for: the
	// densest element copies 64 bytes and takes 3.
	snappyRatio = 22
)

var (
	errSnappyHeader = errors.New("snappy header is damaged")
	errSnappyBlock  = errors.New("snappy block is damaged")
	errSnappyShort  = errors.New("snappy block is cut off")
)

// maxSnappy returns the most that n bytes take, framed.
func maxSnappy(n int) int {
	size := snappyHeaderSize + n/snappyBlock*(4+s2.MaxEncodedLen(snappyBlock))
	if rest := n % snappyBlock; rest > 0 {
		size += 4 + s2.MaxEncodedLen(rest)
	}
	return size
}

func appendSnappy(dst, src []byte) []byte {
	dst = append(dst, snappyHeader...)
	for len(src) > 0 {
		n := min(len(src), snappyBlock)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		// The encoder writes to its argument if there is room, which maxSnappy
		// has seen to; the append then copies nothing.
		block := s2.EncodeSnappy(dst[len(dst):cap(dst)], src[:n])
		dst = append(dst, block...)
		be.PutUint32(dst[at:], uint32(len(block)))
		src = src[n:]
	}
	return dst
}

func decodeSnappy(buf, src []byte, limit int) ([]byte, error) {
	if len(src) < snappyHeaderSize || string(src[:len(snappyMagic)]) != snappyMagic {
		size, err := snappySize(src, limit)
		if err != nil {
			return nil, err
		}
		return appendSnappyBlock(room(buf, size), src, size)
	}
	total := 0
	for blocks := src; ; {
		block, rest, err := nextSnappyBlock(blocks)
		if err != nil {
			return nil, err
		}
		if block == nil {
			break
		}
		size, err := snappySize(block, limit-total)
		if err != nil {
			return nil, err
		}
		total += size
		blocks = rest
	}
	buf = room(buf, total)
	for {
		// Neither can fail: the first pass has been here.
		block, rest, _ := nextSnappyBlock(src)
		if block == nil {
			return buf, nil
		}
		size, _ := snappySize(block, limit)
		var err error
		if buf, err = appendSnappyBlock(buf, block, size); err != nil {
			return nil, err
		}
		src = rest
	}
}

// nextSnappyBlock returns the first block in src, past any headers, and what
// follows it. At the end, which is where less than four bytes are left, the
// block is nil.
func nextSnappyBlock(src []byte) (block, rest []byte, err error) {
	for len(src) >= 4 {
		if string(src[:4]) == snappyMagic[:4] {
			if len(src) < snappyHeaderSize || string(src[:len(snappyMagic)]) != snappyMagic {
				return nil, nil, errSnappyHeader
			}
			if version := int32(be.Uint32(src[8:])); version < 1 {
				return nil, nil, fmt.Errorf("snappy framing of version %d", version)
			}
			src = src[snappyHeaderSize:]
			continue
		}
		n := int32(be.Uint32(src))
		if n < 0 || int(n) > len(src)-4 {
			return nil, nil, errSnappyShort
		}
		return src[4 : 4+n : 4+n], src[4+n:], nil
	}
	return nil, nil, nil
}

// snappySize returns the size that a block claims to decompress to, if that is
// within the limit and not more than its bytes can stand for.
func snappySize(block []byte, limit int) (int, error) {
	size, n := binary.Uvarint(block)
	if n <= 0 {
		return 0, errSnappyBlock
	}
	if size > uint64(limit) {
		return 0, errTooLarge
	}
	if size > uint64(len(block))*snappyRatio {
		return 0, errSnappyBlock
	}
	return int(size), nil
}

// appendSnappyBlock decompresses block to the end of dst, which has room for the
// size it claims.
func appendSnappyBlock(dst, block []byte, size int) ([]byte, error) {
	out := dst[len(dst) : len(dst)+size]
	if _, err := s2.Decode(out, block); err != nil {
		return nil, errSnappyBlock
	}
	return dst[:len(dst)+size], nil
}
