package checkpoint

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// ParseProperties reads Java properties text by the rules of
// java.util.Properties.load, which Kafka uses for meta.properties:
//
//	# or ! starts a comment line
//	key=value   key:value   key value        white space around is dropped
//	long=one \                               a backslash continues the line
//	     two
//	escapes=\t \n \r \f \\ \: \u00e4         a backslash before any other
//	                                         character only protects it
//
// Bytes are ISO-8859-1; escaped UTF-16 pairs are joined. The last of equal keys
// counts. An escape \u without four hex digits is a *CorruptError.
func ParseProperties(data []byte) (map[string]string, error) {
	properties := make(map[string]string)
	lines := propertyLines{rest: data}
	for lines.next() {
		key, value := splitProperty(lines.logical)
		k, ok := unescape(key)
		if !ok {
			return nil, lines.badEscape(key)
		}
		v, ok := unescape(value)
		if !ok {
			return nil, lines.badEscape(value)
		}
		properties[k] = v
	}
	return properties, nil
}

// propertyLines joins continued lines and drops blank ones and comments.
type propertyLines struct {
	rest    []byte
	line    int    // number of lines taken from rest
	first   int    // line on which logical starts
	logical []byte // valid until the next call of next
}

func (p *propertyLines) next() bool {
	for len(p.rest) > 0 {
		line := p.cut()
		if len(line) == 0 || line[0] == '#' || line[0] == '!' {
			continue
		}
		p.first = p.line
		p.logical = append(p.logical[:0], line...)
		for continues(p.logical) {
			p.logical = p.logical[:len(p.logical)-1]
			if len(p.rest) == 0 {
				return true
			}
			if len(p.logical) == 0 {
				break // a backslash alone: what follows may be a comment
			}
			p.logical = append(p.logical, p.cut()...)
		}
		if len(p.logical) > 0 {
			return true
		}
	}
	return false
}

// cut takes a line, ended by \n, \r or \r\n, and drops white space before it.
func (p *propertyLines) cut() []byte {
	p.line++
	line := p.rest
	if end := bytes.IndexAny(p.rest, "\r\n"); end < 0 {
		p.rest = nil
	} else {
		line = p.rest[:end]
		if bytes.HasPrefix(p.rest[end:], []byte("\r\n")) {
			end++
		}
		p.rest = p.rest[end+1:]
	}
	return trimBlanks(line)
}

func (p *propertyLines) badEscape(found []byte) error {
	return &CorruptError{Line: p.first, Expected: `four hex digits after each \u`, Found: string(found)}
}

// continues reports whether the last character is a backslash that is not
// itself escaped.
func continues(line []byte) bool {
	backslashes := len(line) - len(bytes.TrimRight(line, `\`))
	return backslashes%2 == 1
}

// splitProperty ends the key at the first =, : or blank that is not escaped.
func splitProperty(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && !isSeparator(line[end]) && !isBlank(line[end]) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = trimBlanks(line[end:])
	if len(value) > 0 && isSeparator(value[0]) {
		value = trimBlanks(value[1:])
	}
	return line[:end], value
}

// unescape decodes ISO-8859-1 text with escapes. It is false for a bad \u.
func unescape(text []byte) (string, bool) {
	units := make([]uint16, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			units = append(units, uint16(c))
			continue
		}
		i++
		switch c := text[i]; c {
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		case 'u':
			unit, ok := parseHex4(text[i+1:])
			if !ok {
				return "", false
			}
			units = append(units, unit)
			i += 4
		default:
			units = append(units, uint16(c))
		}
	}
	return string(utf16.Decode(units)), true
}

func parseHex4(text []byte) (uint16, bool) {
	if len(text) < 4 || text[0] == '+' || text[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[:4]), 16, 16)
	return uint16(n), err == nil
}

func trimBlanks(text []byte) []byte { return bytes.TrimLeft(text, " \t\f") }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

func isSeparator(c byte) bool { return c == '=' || c == ':' }
