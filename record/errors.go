package record

import (
	"errors"
	"strconv"
)

// What can be wrong with a batch, for errors.Is. Where a batch is to blame the
// error returned is an *Error, which says which batch and what about it.
var (
	// ErrShort means that the bytes end before the batch does. At the end of a
	// log it is how an unfinished write looks.
	ErrShort = errors.New("incomplete batch")

	// ErrCorrupt means that the bytes are not what was written: a size no batch
	// can have, an unknown magic, a checksum that does not match.
	ErrCorrupt = errors.New("corrupt batch")

	// ErrInvalid means that the bytes are as written but break the rules of the
	// format, or that a Builder was asked to break them.
	ErrInvalid = errors.New("invalid record")

	// ErrUnsupported means a codec or format this package does not know or that
	// the batch's magic does not allow.
	ErrUnsupported = errors.New("unsupported format")

	// ErrTooLarge means that a batch would not fit: decompressed, in
	// DecodeOptions.MaxDecompressed; encoded, in the 31 bits of its size.
	ErrTooLarge = errors.New("batch too large")

	// ErrEmpty means that a Builder has no records to build a batch of.
	ErrEmpty = errors.New("no records")
)

// Error says what is wrong with which batch. It unwraps to both Kind and Err.
type Error struct {
	Kind       error  // one of the sentinels of this package
	BaseOffset int64  // the first field of the batch; as unreliable as the batch
	Record     int    // the record in question, counted from 0, or -1 for the batch
	Field      string // the field in question, such as "crc" or "key length"
	Detail     string // what was found there
	Err        error  // the cause, or nil
}

// Error describes the failure in one line that starts with the batch's offset.
func (e *Error) Error() string {
	b := append(make([]byte, 0, 96), "offset "...)
	b = strconv.AppendInt(b, e.BaseOffset, 10)
	if e.Record >= 0 {
		b = append(b, ": record "...)
		b = strconv.AppendInt(b, int64(e.Record), 10)
	}
	b = append(b, ": "...)
	b = append(b, e.Field...)
	if e.Detail != "" {
		b = append(b, ' ')
		b = append(b, e.Detail...)
	}
	if e.Err != nil {
		b = append(b, ": "...)
		b = append(b, e.Err.Error()...)
	}
	return string(b)
}

// Unwrap returns the kind and, if there is one, the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
