package cli

import (
	"encoding/base64"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/seglog/seglog/record"
)

// Object is one JSON object in the making. Keys appear in the order in which
// they are added, and numbers keep all 64 bits. It appends to memory that is
// used again for the next one, since there may be one for each of millions of
// records; what is stored in one of them is handed on in pieces, since it may be large.
type Object struct {
	b []byte
	w io.Writer // nil keeps everything
}

func (o *Object) begin(kind string) *Object {
	o.b = append(o.b[:0], `{"type":`...)
	o.b = appendJSONString(o.b, kind)
	return o
}

func (o *Object) end() []byte {
	o.b = append(o.b, '}')
	return o.b
}

func (o *Object) key(name string) {
	if last := o.b[len(o.b)-1]; last != '{' && last != '[' {
		o.b = append(o.b, ',')
	}
	o.b = appendJSONString(o.b, name)
	o.b = append(o.b, ':')
}

// Int adds a number.
func (o *Object) Int(name string, v int64) *Object {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
	return o
}

// Bool adds true or false.
func (o *Object) Bool(name string, v bool) *Object {
	o.key(name)
	o.b = strconv.AppendBool(o.b, v)
	return o
}

// Null adds a key that has no value.
func (o *Object) Null(name string) *Object {
	o.key(name)
	o.b = append(o.b, "null"...)
	return o
}

// String adds text. It must be UTF-8, as everything is that the tool says by
// itself; for what came from a log or a file system there is Bytes.
func (o *Object) String(name, v string) *Object {
	o.key(name)
	o.b = appendJSONString(o.b, v)
	return o
}

// Text adds text that came from elsewhere, a name or the message of an error:
// what is not UTF-8 in it becomes U+FFFD.
func (o *Object) Text(name, v string) *Object { return o.String(name, v) }

// Time adds milliseconds since 1970 as RFC 3339, null for -1. A time that has no
// such form, beyond the year 9999, stays a number.
func (o *Object) Time(name string, ms int64) *Object {
	o.key(name)
	switch {
	case ms == record.NoTimestamp:
		o.b = append(o.b, "null"...)
	case !plainTime(ms):
		o.b = strconv.AppendInt(o.b, ms, 10)
	default:
		o.b = append(o.b, '"')
		o.b = time.UnixMilli(ms).UTC().AppendFormat(o.b, timeMillis)
		o.b = append(o.b, '"')
	}
	return o
}

// Bytes adds bytes that someone stored: null if nil, a string if they are UTF-8,
// and otherwise base64 under the name with "_base64" added.
func (o *Object) Bytes(name string, v []byte) *Object {
	switch {
	case v == nil:
		return o.Null(name)
	case !utf8.Valid(v):
		return o.Base64(name, v)
	}
	o.key(name)
	o.b = append(o.b, '"')
	for len(v) > jsonPiece {
		n := jsonPiece
		for !utf8.RuneStart(v[n]) {
			n--
		}
		o.b = appendJSONText(o.b, v[:n])
		o.handOn()
		v = v[n:]
	}
	o.b = append(appendJSONText(o.b, v), '"')
	return o
}

// Base64 adds bytes that are no text, whatever they look like, as Bytes does those that
// are not UTF-8.
func (o *Object) Base64(name string, v []byte) *Object {
	if v == nil {
		return o.Null(name)
	}
	o.key(name + "_base64")
	o.b = append(o.b, '"')
	for ; len(v) > jsonPiece; v = v[jsonPiece:] {
		o.b = base64.StdEncoding.AppendEncode(o.b, v[:jsonPiece])
		o.handOn()
	}
	o.b = append(base64.StdEncoding.AppendEncode(o.b, v), '"')
	return o
}

// jsonPiece is how much of a value is encoded at once: a multiple of three bytes, of which
// base64 makes four characters without padding.
const jsonPiece = 48 << 10

// handOn writes what there is of the object. An error is told by the next line.
func (o *Object) handOn() {
	if o.w != nil {
		o.w.Write(o.b)
		o.b = o.b[:0]
	}
}

// Array adds a list; each calls Element for one element after the other.
func (o *Object) Array(name string, each func()) *Object {
	o.key(name)
	o.b = append(o.b, '[')
	each()
	o.b = append(o.b, ']')
	return o
}

// Element adds an object to the list being made; fields adds its fields.
func (o *Object) Element(fields func()) {
	if o.b[len(o.b)-1] != '[' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '{')
	fields()
	o.b = append(o.b, '}')
}

// Record adds the fields of a record, the same wherever one is shown:
//
//	"offset":3,"time":"2026-09-01T17:05:31.402Z","key":"k","value":null,
//	"headers":[{"key":"trace","value":"7f3a"}]
func (o *Object) Record(r *record.Record) *Object {
	o.Int("offset", r.Offset).Time("time", r.Timestamp).Bytes("key", r.Key).Bytes("value", r.Value)
	return o.Array("headers", func() {
		for i := range r.Headers {
			o.Element(func() {
				// A key is never null, and []byte("") is not nil.
				o.Bytes("key", []byte(r.Headers[i].Key)).Bytes("value", r.Headers[i].Value)
			})
		}
	})
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendJSONString[S string | []byte](dst []byte, s S) []byte {
	return append(appendJSONText(append(dst, '"'), s), '"')
}

// appendJSONText is appendJSONString without the quotes.
func appendJSONText[S string | []byte](dst []byte, s S) []byte {
	for i := 0; i < len(s); {
		plain := i
		for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
			i++
		}
		dst = append(dst, s[plain:i]...)
		if i == len(s) {
			break
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}
