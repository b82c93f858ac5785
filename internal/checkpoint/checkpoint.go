// Package checkpoint reads and writes the small text files that Kafka keeps
// beside its logs: offset checkpoints, partition.metadata, meta.properties and
// the marker of a clean shutdown; and the state file of our own.
//
// Most of them share one shape, that of Kafka's CheckpointFile.java:
//
//	0                      version, always 0
//	2                      number of entries
//	orders 0 41022         an entry on each line
//	orders.eu-west 3 7
//
// Lines end with a newline, the last one too; a carriage return before it, as
// Kafka writes on Windows, is taken as part of it. A file that is empty or ends
// after the version has no entries: Kafka creates it that way.
//
// All of these files are derived or can be done without. A reader that meets a
// damaged one gets a *CorruptError, treats what the file would have said as
// unknown, and writes a new one. Writing goes through a temporary file and a
// rename, so that a full disk or a crash leaves the previous content in place.
//
// The functions keep no state and may be called concurrently. Slices passed in
// are not kept.
package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seglog/seglog/internal/vfs"
)

const version = 0

var (
	// ErrCorrupt is the category of every *CorruptError.
	ErrCorrupt = errors.New("corrupt checkpoint")

	// ErrInvalid means that a value cannot be written, because reading it back
	// would fail. Nothing has been written.
	ErrInvalid = errors.New("value does not fit its file")
)

// A CorruptError says what is wrong with a file. It matches ErrCorrupt.
type CorruptError struct {
	File     string // "" if the bytes were not read from a file
	Line     int    // counted from 1; 0 if it is not about one line
	Expected string // what the place should hold, in words
	Found    string // what it holds
}

func (e *CorruptError) Error() string {
	var place strings.Builder
	if e.File != "" {
		place.WriteString(e.File + ": ")
	}
	if e.Line > 0 {
		place.WriteString("line " + strconv.Itoa(e.Line) + ": ")
	}
	// A damaged file may hold a line of any length.
	return fmt.Sprintf("%swant %s, found %.80q", place.String(), e.Expected, e.Found)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// In returns err after setting the file of the *CorruptError in it, if there
// is one. Codecs do not know where their bytes come from; readers do.
func In(file string, err error) error {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		corrupt.File = file
	}
	return err
}

// ReadFile returns the content of a file, in memory the caller owns. A file
// larger than limit, which is above what any of its kind reaches, is a
// *CorruptError and is not read. A missing file is fs.ErrNotExist.
func ReadFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	data, err := vfs.ReadFile(fsys, path, limit)
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, &CorruptError{File: path, Expected: fmt.Sprintf("at most %d bytes", limit), Found: "more"}
	}
	return data, err
}

// A Format is one kind of checkpoint. Its functions are pure.
type Format[T any] struct {
	// Entry describes a line in words, such as "topic partition offset".
	Entry string
	// Parse reads one line, without its end. It is false for a malformed one.
	Parse func(line string) (T, bool)
	// Append writes one line, without its end.
	Append func(dst []byte, entry T) []byte
}

// Encode appends a whole file that holds entries to dst.
func (f Format[T]) Encode(dst []byte, entries []T) []byte {
	dst = strconv.AppendInt(dst, version, 10)
	dst = append(dst, '\n')
	dst = strconv.AppendInt(dst, int64(len(entries)), 10)
	dst = append(dst, '\n')
	for _, entry := range entries {
		dst = append(f.Append(dst, entry), '\n')
	}
	return dst
}

// Decode reads a whole file, as strictly as Kafka does: any line that is
// malformed, missing or too many is a *CorruptError.
func (f Format[T]) Decode(data []byte) ([]T, error) {
	entries, problems, err := f.Salvage(data)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return entries, nil
}

// Salvage reads what can be read: it returns the well-formed entries and, in
// the order of lines, what is wrong with the rest. Only a file without a known
// version or a number of entries is an error, a *CorruptError: whatever it is, its
// lines are not to be believed.
//
// The announced number of entries is compared, never used to make room.
func (f Format[T]) Salvage(data []byte) (entries []T, problems []*CorruptError, err error) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	head, rest := cutLine(string(data))
	if n, err := strconv.Atoi(head); err != nil || n != version {
		return nil, nil, &CorruptError{Line: 1, Expected: "version 0", Found: head}
	}
	if rest == "" {
		return nil, nil, nil
	}
	head, rest = cutLine(rest)
	count, err := strconv.ParseInt(head, 10, 32)
	if err != nil || count < 0 {
		return nil, nil, &CorruptError{Line: 2, Expected: "number of entries", Found: head}
	}
	lines := 0
	for line := ""; rest != ""; {
		line, rest = cutLine(rest)
		lines++
		if entry, ok := f.Parse(line); ok {
			entries = append(entries, entry)
		} else {
			problems = append(problems, &CorruptError{Line: 2 + lines, Expected: f.Entry, Found: line})
		}
	}
	if int64(lines) != count {
		problems = append(problems, &CorruptError{
			Line: 2, Expected: fmt.Sprintf("number of entries %d", lines), Found: head,
		})
	}
	return entries, problems, nil
}

// Fields splits a line at runs of ASCII white space and reports whether that
// makes n fields. As in Kafka, white space before the first field is an error
// and white space behind the last one is not.
func Fields(line string, n int) ([]string, bool) {
	if line == "" || isSpace(rune(line[0])) {
		return nil, false
	}
	fields := strings.FieldsFunc(line, isSpace)
	return fields, len(fields) == n
}

func isSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }

// ParseCount reads a decimal number from 0 to the largest of bits, such as an
// offset, an epoch or a size.
func ParseCount(s string, bits int) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, bits)
	return n, err == nil && n >= 0
}

func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}
