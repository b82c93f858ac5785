package record

import "math/bits"

// Records use the varints of Protocol Buffers: seven bits a byte, the lowest
// first, the top bit set on all bytes but the last. Signed numbers are zigzag
// encoded first, so that small negative ones stay short. A number of 32 bits
// takes at most 5 bytes, one of 64 at most 10. See Kafka's ByteUtils.java, with
// which the decoders here agree on the odd inputs too: a longer encoding than
// needed is accepted, and bits beyond the width of the number are dropped.

const (
	maxVarint  = 5
	maxVarlong = 10
)

// varint reads a 32-bit number at b[p:] and returns it with the position behind
// it. The position is -1 if b ends too early or the number does not end within
// five bytes.
func varint(b []byte, p int) (int32, int) {
	if uint(p) < uint(len(b)) {
		if rest := b[p:]; rest[0] < 0x80 {
			return zigzag(uint32(rest[0])), p + 1
		} else if len(rest) > 1 && rest[1] < 0x80 {
			return zigzag(uint32(rest[0]&0x7f) | uint32(rest[1])<<7), p + 2
		}
	}
	return varintSlow(b, p)
}

func varintSlow(b []byte, p int) (int32, int) {
	var u uint32
	for shift := 0; shift < 7*maxVarint; shift += 7 {
		if uint(p) >= uint(len(b)) {
			return 0, -1
		}
		c := b[p]
		p++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return zigzag(u), p
		}
	}
	return 0, -1
}

func zigzag(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }

// varlong is varint for 64 bits and ten bytes.
func varlong(b []byte, p int) (int64, int) {
	if uint(p) < uint(len(b)) && b[p] < 0x80 {
		return int64(zigzag(uint32(b[p]))), p + 1
	}
	var u uint64
	for shift := 0; shift < 7*maxVarlong; shift += 7 {
		if uint(p) >= uint(len(b)) {
			return 0, -1
		}
		c := b[p]
		p++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), p
		}
	}
	return 0, -1
}

// varintFault says why varint or varlong with the given maximum of bytes failed
// at b[p:].
func varintFault(b []byte, p, most int) string {
	if len(b)-p < most {
		return "is cut off"
	}
	return "does not end"
}

func appendVarint(dst []byte, v int32) []byte {
	u := uint32(v<<1) ^ uint32(v>>31)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func appendVarlong(dst []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func sizeVarint(v int32) int {
	return sizeUvarint(uint64(uint32(v<<1) ^ uint32(v>>31)))
}

func sizeVarlong(v int64) int {
	return sizeUvarint(uint64(v<<1) ^ uint64(v>>63))
}

// sizeUvarint is ceil(bits/7) without the division: 9/64 is close enough to 1/7
// for all of the 64 possible lengths.
func sizeUvarint(u uint64) int {
	return (bits.Len64(u|1)*9 + 64) >> 6
}
