package offsetslog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrUndecodable: the bytes of a record are not a key or value that this package
// knows. Loading counts such records and passes over them.
var ErrUndecodable = errors.New("not decodable")

// DecodeError says what of a record could not be decoded. It matches ErrUndecodable.
type DecodeError struct {
	What     string // "offset commit value", ...
	Field    string
	Position int // byte in the key or value
	Detail   string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s: %s at byte %d: %s", e.What, e.Field, e.Position, e.Detail)
}

// Unwrap returns ErrUndecodable.
func (e *DecodeError) Unwrap() error { return ErrUndecodable }

// reader decodes the two encodings of Kafka's messages: the old one, and from some
// version on of each message the flexible one (KIP-482). The first thing that is wrong
// ends it: everything read afterwards is zero. It never allocates for a length that
// the bytes do not have.
type reader struct {
	what     string
	b        []byte
	at       int
	flexible bool
	err      error
}

func (r *reader) fail(field, detail string) {
	if r.err == nil {
		r.err = &DecodeError{What: r.what, Field: field, Position: r.at, Detail: detail}
	}
}

// take returns the next n bytes, which are those of b.
func (r *reader) take(field string, n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)-r.at) {
		r.fail(field, fmt.Sprintf("%d bytes are wanted, %d are left", n, len(r.b)-r.at))
	}
	if r.err != nil {
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) int16(field string) int16 {
	if b := r.take(field, 2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32(field string) int32 {
	if b := r.take(field, 4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64(field string) int64 {
	if b := r.take(field, 8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint(field string) uint32 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:min(len(r.b), r.at+5)])
	if n <= 0 || v > math.MaxUint32 {
		r.fail(field, "not a varint")
		return 0
	}
	r.at += n
	return uint32(v)
}

// length reads the length of a string (2 bytes), of bytes or of an array (4), or in
// the flexible encoding of any of them. -1 is null.
func (r *reader) length(field string, size int) int {
	switch {
	case r.flexible:
		return int(int64(r.uvarint(field)) - 1)
	case size == 2:
		return int(r.int16(field))
	default:
		return int(r.int32(field))
	}
}

// bytes returns nil for null, and never for empty.
func (r *reader) bytes(field string, size int) []byte {
	n := r.length(field, size)
	if n == -1 {
		return nil
	}
	return r.take(field, n)
}

// view is a string that may not be null, as bytes of b.
func (r *reader) view(field string) []byte {
	b := r.bytes(field, 2)
	if b == nil {
		r.fail(field, "null")
	}
	return b
}

func (r *reader) string(field string) string { return string(r.view(field)) }

func (r *reader) nullable(field string) *string {
	b := r.bytes(field, 2)
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// count reads the length of an array whose elements take at least so many bytes each.
func (r *reader) count(field string, atLeast int) int {
	n := r.length(field, 4)
	if r.err == nil && (n < 0 || n > (len(r.b)-r.at)/atLeast) {
		r.fail(field, fmt.Sprintf("%d elements in %d bytes", n, len(r.b)-r.at))
	}
	if r.err != nil {
		return 0
	}
	return n
}

// tags reads the tagged fields at the end of a flexible structure. Those that known
// does not want are passed over.
func (r *reader) tags(known func(tag uint32, b []byte)) {
	if !r.flexible {
		return
	}
	for n := r.uvarint("tagged fields"); n > 0 && r.err == nil; n-- {
		tag := r.uvarint("tag")
		size := r.uvarint("size of tagged field")
		if b := r.take("tagged field", int(min(int64(size), math.MaxInt32))); b != nil && known != nil {
			known(tag, b)
		}
	}
}

// end is the error, which bytes that are left over are, too.
func (r *reader) end() error {
	if r.err == nil && r.at != len(r.b) {
		r.fail("end", fmt.Sprintf("%d bytes are left over", len(r.b)-r.at))
	}
	return r.err
}

func appendString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0xff, 0xff)
	}
	return appendString(dst, *s)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// maxString is what the two bytes of a string's length can say.
const maxString = math.MaxInt16
