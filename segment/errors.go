package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

var (
	// ErrRetired is returned by Acquire when the segment was closed, removed
	// or replaced. The caller looks it up again.
	ErrRetired = errors.New("segment is retired")
	// ErrOffsetOverflow is a batch whose last offset does not fit the 32-bit
	// relative form of the indexes.
	ErrOffsetOverflow = errors.New("offset does not fit the segment")
	// ErrFull is an append that would push the file past MaxBytes.
	ErrFull = errors.New("segment is full")
	// ErrCorrupt is the category of every CorruptionError.
	ErrCorrupt = errors.New("log is corrupt")
	// ErrAppendNotUndone marks a failed append whose bytes could not be cut
	// off again. Nothing may be written to the segment until it was recovered.
	ErrAppendNotUndone = errors.New("failed append could not be undone")
	// ErrSyncFailed is a sync of the log file that failed, and every one after it: a
	// kernel may have dropped what it could not write, and call the next sync a success.
	ErrSyncFailed = errors.New("a sync of the log failed")
)

// syncError is ErrSyncFailed, and says what its cause says.
type syncError struct{ error }

func (e syncError) Unwrap() []error { return []error{ErrSyncFailed, e.error} }

// CorruptionError says where stored bytes are not what they must be. It
// matches ErrCorrupt, and whatever Err is.
type CorruptionError struct {
	File       string // file name, without its directory
	BaseOffset int64  // of the segment
	Position   int64  // where the damage starts in File, in bytes
	Length     int64  // bytes that cannot be used, 0 when unknown
	// FirstOffset and LastOffset bound the records that are affected, as far
	// as the damaged header tells; -1 when it does not.
	FirstOffset, LastOffset int64
	Err                     error // what is wrong
}

func (e *CorruptionError) Error() string {
	msg := fmt.Sprintf("%s: position %d", e.File, e.Position)
	cause := e.Err.Error()
	if e.FirstOffset >= 0 {
		at := fmt.Sprintf("offset %d", e.FirstOffset)
		msg += ", " + at
		cause = strings.TrimPrefix(cause, at+": ") // a codec's error names it too
	}
	return msg + ": " + cause
}

// Unwrap makes errors.Is match ErrCorrupt and the cause.
func (e *CorruptionError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// ExistsError is a log file where a new segment was to be made: of a segment that the
// caller does not know. It matches fs.ErrExist.
type ExistsError struct {
	Path string
}

func (e *ExistsError) Error() string { return e.Path + ": there is a segment already" }

// Unwrap returns fs.ErrExist.
func (e *ExistsError) Unwrap() error { return fs.ErrExist }

func (s *Segment) corrupt(pos, length int64, first, last int64, err error) error {
	return &CorruptionError{
		File: s.Name(), BaseOffset: s.base, Position: pos, Length: length,
		FirstOffset: first, LastOffset: last, Err: err,
	}
}
