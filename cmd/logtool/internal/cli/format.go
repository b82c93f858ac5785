package cli

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seglog/seglog/record"
)

// recordFormat prints records as a format string says:
//
//	%o  offset                %k  key      %K  its length, -1 for null
//	%T  time, RFC 3339        %v  value    %V  its length, -1 for null
//	%h  headers, k=v,k=v      %p  position of its batch in the .log file
//	%%  a percent sign        \n \t \r \0 \\  as in C
//
// Braces behind a verb choose another form: %k{hex}, %v{base64}, %v{text},
// %T{unixms}. A null key or value is <null>.
type recordFormat struct {
	parts    []formatPart
	position bool // some part needs the position
}

type formatPart struct {
	literal []byte // if verb is 0
	verb    byte
	form    string
}

// forms are what braces may hold, by verb.
var forms = map[byte][]string{
	'o': nil, 'K': nil, 'V': nil, 'h': nil, 'p': nil,
	'T': {"unixms"},
	'k': {"auto", "text", "hex", "base64"},
	'v': {"auto", "text", "hex", "base64"},
}

// parseFormat reads a format string; key and value are the forms of %k and %v
// without braces.
func parseFormat(s, key, value string) (recordFormat, error) {
	var f recordFormat
	for s != "" {
		var err error
		switch s[0] {
		case '%':
			s, err = f.verb(s[1:], key, value)
		case '\\':
			s, err = f.escape(s[1:])
		default:
			end := strings.IndexAny(s, `%\`)
			if end < 0 {
				end = len(s)
			}
			f.literal(s[:end])
			s = s[end:]
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *recordFormat) literal(s string) {
	if n := len(f.parts); n > 0 && f.parts[n-1].verb == 0 {
		f.parts[n-1].literal = append(f.parts[n-1].literal, s...)
		return
	}
	f.parts = append(f.parts, formatPart{literal: []byte(s)})
}

func (f *recordFormat) verb(s, key, value string) (rest string, err error) {
	if s == "" {
		return "", fmt.Errorf("%% at the end; %%%% is a percent sign")
	}
	if s[0] == '%' {
		f.literal("%")
		return s[1:], nil
	}
	part := formatPart{verb: s[0]}
	allowed, known := forms[part.verb]
	if !known {
		return "", fmt.Errorf("unknown verb %%%c; there are %%o %%T %%k %%v %%K %%V %%h %%p %%%%", s[0])
	}
	rest = s[1:]
	if strings.HasPrefix(rest, "{") {
		form, behind, closed := strings.Cut(rest[1:], "}")
		if !closed || !slices.Contains(allowed, form) {
			return "", fmt.Errorf("%%%c takes %s", part.verb, orNothing(allowed))
		}
		part.form, rest = form, behind
	}
	switch {
	case part.form != "":
	case part.verb == 'k':
		part.form = key
	case part.verb == 'v':
		part.form = value
	}
	f.position = f.position || part.verb == 'p'
	f.parts = append(f.parts, part)
	return rest, nil
}

func orNothing(forms []string) string {
	if len(forms) == 0 {
		return "no braces"
	}
	return "{" + strings.Join(forms, "}, {") + "}"
}

func (f *recordFormat) escape(s string) (rest string, err error) {
	if s == "" {
		return "", fmt.Errorf(`\ at the end; \\ is a backslash`)
	}
	c, known := escapes[s[0]]
	if !known {
		return "", fmt.Errorf(`unknown escape \%c`, s[0])
	}
	f.literal(string(c))
	return s[1:], nil
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}

// unescape replaces \n, \t, \r, \0 and \\, for separators that a shell passes on
// as they were typed.
func unescape(s string) (string, error) {
	var f recordFormat
	for s != "" {
		if s[0] != '\\' {
			f.literal(s[:1])
			s = s[1:]
			continue
		}
		var err error
		if s, err = f.escape(s[1:]); err != nil {
			return "", err
		}
	}
	if len(f.parts) == 0 {
		return "", nil
	}
	return string(f.parts[0].literal), nil
}

// append appends the record as the format says.
func (f *recordFormat) append(dst []byte, r *record.Record, position int64) []byte {
	for _, p := range f.parts {
		switch p.verb {
		case 0:
			dst = append(dst, p.literal...)
		case 'o':
			dst = strconv.AppendInt(dst, r.Offset, 10)
		case 'p':
			dst = strconv.AppendInt(dst, position, 10)
		case 'T':
			if p.form == "unixms" {
				dst = strconv.AppendInt(dst, r.Timestamp, 10)
			} else {
				dst = append(dst, timeText(r.Timestamp)...)
			}
		case 'k':
			dst = appendBytes(dst, r.Key, p.form)
		case 'v':
			dst = appendBytes(dst, r.Value, p.form)
		case 'K':
			dst = appendLength(dst, r.Key)
		case 'V':
			dst = appendLength(dst, r.Value)
		case 'h':
			dst = appendHeaders(dst, r.Headers)
		}
	}
	return dst
}

func appendLength(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "-1"...)
	}
	return strconv.AppendInt(dst, int64(len(b)), 10)
}

func appendHeaders(dst []byte, headers []record.Header) []byte {
	for i := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, []byte(headers[i].Key))
		dst = append(dst, '=')
		dst = appendBytes(dst, headers[i].Value, "auto")
	}
	return dst
}

// appendBytes appends stored bytes in a form. auto is text if they are UTF-8, and
// otherwise hex.
func appendBytes(dst, b []byte, form string) []byte {
	switch {
	case b == nil:
		return append(dst, "<null>"...)
	case form == "hex", form == "auto" && !utf8.Valid(b):
		return hex.AppendEncode(dst, b)
	case form == "base64":
		return base64.StdEncoding.AppendEncode(dst, b)
	}
	return appendText(dst, b)
}

// appendText appends b so that it stays on its line and leaves a terminal alone:
// control characters, and bytes that are no UTF-8, are escaped. For bytes as they
// are there is -o raw.
func appendText(dst, b []byte) []byte {
	dst = slices.Grow(dst, len(b)) // most of it is as it is
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, '\\', 'x', hexDigits[b[i]>>4], hexDigits[b[i]&15])
		case unicode.IsControl(r):
			quoted := strconv.QuoteRune(r)
			dst = append(dst, quoted[1:len(quoted)-1]...)
		default:
			dst = append(dst, b[i:i+size]...)
		}
		i += size
	}
	return dst
}
