package kafkadump

import "unicode/utf8"

// appendJavaString appends b as Java reads and prints it: bytes that are not
// UTF-8 become U+FFFD, one for as many bytes as java.lang.String.decodeUTF8
// takes together.
func appendJavaString(dst, b []byte) []byte {
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			n := 1
			for n < len(b) && b[n] < utf8.RuneSelf {
				n++
			}
			dst = append(dst, b[:n]...)
			b = b[n:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = malformed(b)
		}
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// malformed returns how many bytes at the start of b, which are not UTF-8, Java
// replaces by one character.
func malformed(b []byte) int {
	lead := b[0]
	switch {
	case lead >= 0xc2 && lead <= 0xdf:
		return 1
	case lead >= 0xe0 && lead <= 0xef:
		return malformed3(b)
	case lead >= 0xf0 && lead <= 0xf4:
		return malformed4(b)
	}
	return 1
}

func continuation(b byte) bool { return b&0xc0 == 0x80 }

// malformed3 is malformed for the first byte of three. Surrogates, which UTF-8
// does not have, are read as the three bytes they would be.
func malformed3(b []byte) int {
	switch {
	case len(b) < 2:
		return 1
	case !continuation(b[1]) || b[0] == 0xe0 && b[1] < 0xa0:
		return 1
	case len(b) < 3 || !continuation(b[2]):
		return 2
	}
	return 3
}

// malformed4 is malformed for the first byte of four.
func malformed4(b []byte) int {
	switch {
	case len(b) < 2:
		return 1
	case !continuation(b[1]) || b[0] == 0xf0 && b[1] < 0x90 || b[0] == 0xf4 && b[1] > 0x8f:
		return 1
	case len(b) < 3 || !continuation(b[2]):
		return 2
	}
	return 3
}
