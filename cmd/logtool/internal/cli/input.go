package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seglog/seglog/record"
)

// lineReader reads lines of any length.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) lineReader { return lineReader{bufio.NewReaderSize(r, 64<<10)} }

// next returns a line without its newline, in memory of its own. A last line
// needs none.
func (l lineReader) next() ([]byte, error) {
	text, err := l.r.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(text) > 0 {
		return text, nil
	}
	if err != nil {
		return nil, err
	}
	return text[:len(text)-1], nil
}

// lineParser makes records of lines.
type lineParser struct {
	delim string // between key and value; "" for values only
	now   func() time.Time
}

// line is a value, or a key and a value.
func (p *lineParser) line(text []byte) (record.Record, error) {
	r := record.Record{Timestamp: p.now().UnixMilli(), Value: text}
	if p.delim != "" {
		if key, value, found := bytes.Cut(text, []byte(p.delim)); found {
			r.Key, r.Value = key, value
		}
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	return r, nil
}

// json is an object as Object.Record writes it. A key that it does not know is refused:
// what has the value under a misspelled one would be stored as a tombstone.
func (p *lineParser) json(text []byte) (record.Record, error) {
	var in struct {
		Type        *string         `json:"type"`
		Offset      json.RawMessage `json:"offset"` // it gets a new one
		Time        json.RawMessage `json:"time"`
		Key         *string         `json:"key"`
		KeyBase64   []byte          `json:"key_base64"`
		Value       *string         `json:"value"`
		ValueBase64 []byte          `json:"value_base64"`
		Headers     []struct {
			Key         *string `json:"key"`
			KeyBase64   []byte  `json:"key_base64"`
			Value       *string `json:"value"`
			ValueBase64 []byte  `json:"value_base64"`
		} `json:"headers"`
	}
	if err := unmarshalObject(text, &in); err != nil {
		return record.Record{}, fmt.Errorf("not a JSON object of a record: %w", err)
	}
	if in.Type != nil && *in.Type != "record" {
		return record.Record{}, fmt.Errorf("type %q, want record", *in.Type)
	}
	timestamp, err := jsonTime(in.Time)
	if err != nil {
		return record.Record{}, err
	}
	r := record.Record{Timestamp: timestamp, Key: jsonBytes(in.Key, in.KeyBase64), Value: jsonBytes(in.Value, in.ValueBase64)}
	for i, h := range in.Headers {
		key := jsonBytes(h.Key, h.KeyBase64)
		if key == nil {
			return record.Record{}, fmt.Errorf("header %d has no key", i)
		}
		r.Headers = append(r.Headers, record.Header{Key: string(key), Value: jsonBytes(h.Value, h.ValueBase64)})
	}
	return r, nil
}

// unmarshalObject is json.Unmarshal of an object whose keys are all known.
func unmarshalObject(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if first, err := in.Token(); err != nil || first != json.Delim('{') {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("want {")
		}
		return err
	}
	in = json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	err := in.Decode(into)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%s: a %s is not what it may be", kind.Field, kind.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is cut short")
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if rest := bytes.TrimSpace(text[in.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%q follows it", rest[:min(len(rest), 20)])
	}
	return nil
}

// jsonBytes undoes Object.Bytes.
func jsonBytes(text *string, encoded []byte) []byte {
	switch {
	case text != nil:
		return []byte(*text)
	default:
		return encoded
	}
}

// jsonTime undoes Object.Time. A missing time is none, as null is.
func jsonTime(raw json.RawMessage) (int64, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return record.NoTimestamp, nil
	}
	if ms, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return ms, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("time %s: want RFC 3339, milliseconds since 1970, or null", raw)
}
