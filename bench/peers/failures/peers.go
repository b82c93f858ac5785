//go:build unix

// Package failures runs five small failure checks against logs for Go, this one among
// them, and prints what came of it as a table:
//
//	cd bench/peers && go run . failures
//
//	A  the last 5 bytes are cut off, then it is opened with default settings
//	B  one byte of a value in the middle is flipped
//	C  an index file loses its last two entries, the log is whole
//	D  an append fails half-written, the limit is lifted, it is tried again and
//	   acknowledged
//	E  a batch of three fails part-way
//
// Each check begins with ten records, each synced when it is appended, in a directory
// of its own. What fails in D and E is a real write: the size of files is limited
// (RLIMIT_FSIZE) to a place in the middle of the next record. That is one of a whole
// process, so these run in children.
//
// Where a log makes its files larger than what is in them, A cuts off the room as
// well.
package failures

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A peer is a log to check.
type peer struct {
	name    string
	version string // of the module
	open    func(dir string) (log, error)
	// data is the pattern of the files that hold records, index of those that say
	// where they are, with the size of an entry; "" if there are none.
	data  string
	index map[string]int
	// repair is what the log offers for a directory that does not open or cannot be
	// read to its end; nil if it offers nothing.
	repair func(dir string) error
}

// log is an open one. Records are counted from 0.
type log interface {
	// append returns when the values are durable, as one batch.
	append(values ...string) error
	// size is how many records it says there are.
	size() int
	// get returns a record.
	get(i int) (string, error)
	close() error
}

// records is how many there are before something goes wrong.
const records = 10

func value(i int) string {
	return fmt.Sprintf("record %d %s", i, strings.Repeat(string(rune('a'+i%26)), 90))
}

// large is a value of which half can be written.
func large(i int) string { return value(i) + strings.Repeat(".", 4000) }

// prepare makes a directory with ten records.
func (p peer) prepare(dir string) error {
	l, err := p.open(dir)
	if err != nil {
		return err
	}
	for i := range records {
		if err := l.append(value(i)); err != nil {
			return errors.Join(err, l.close())
		}
	}
	return l.close()
}

// tail is the last data file that has anything in it, and how much of it is used: a
// log may make its files larger than what is in them.
func (p peer) tail(dir string) (name string, used int64, err error) {
	names, err := filepath.Glob(filepath.Join(dir, p.data))
	if err != nil {
		return "", 0, err
	}
	for i := len(names) - 1; i >= 0; i-- {
		content, err := os.ReadFile(names[i])
		if err != nil {
			return "", 0, err
		}
		used := len(bytes.TrimRight(content, "\x00"))
		if used == 0 {
			continue
		}
		if len(content)-used < 64 { // zeros, but not room that was made ahead
			used = len(content)
		}
		return names[i], int64(used), nil
	}
	return "", 0, fmt.Errorf("no data in %s", filepath.Join(dir, p.data))
}

// survey is what a log holds after something went wrong.
type survey struct {
	values  []string // what it says is there
	right   int      // how many are as they were appended
	wrong   []int    // those that are something else, without an error
	unread  []int    // those it says are there and that are an error
	readErr error    // the first of these errors
}

func look(l log, want func(i int) string) survey {
	var s survey
	for i := range l.size() {
		got, err := l.get(i)
		s.values = append(s.values, got)
		switch {
		case err != nil:
			s.unread = append(s.unread, i)
			if s.readErr == nil {
				s.readErr = err
			}
		case got == want(i):
			s.right++
		default:
			s.wrong = append(s.wrong, i)
		}
	}
	return s
}

func (s survey) String() string {
	text := fmt.Sprintf("says %d, %d right", len(s.values), s.right)
	if len(s.wrong) > 0 {
		text += fmt.Sprintf(", **wrong bytes without an error: %v**", s.wrong)
	}
	if len(s.unread) > 0 {
		text += fmt.Sprintf(", unreadable: %v (%s)", s.unread, short(s.readErr))
	}
	return text
}

// without is what a log holds if a record is there once more than it should: an
// append that failed, and was stored all the same.
func (s survey) without(twice string, want func(i int) string) (survey, bool) {
	for i, v := range s.values {
		if i == 0 || v != twice || s.values[i-1] != twice || len(s.unread) > 0 {
			continue
		}
		var rest survey
		for j, v := range append(append([]string{}, s.values[:i]...), s.values[i+1:]...) {
			rest.values = append(rest.values, v)
			if v == want(j) {
				rest.right++
			} else {
				rest.wrong = append(rest.wrong, j)
			}
		}
		return rest, true
	}
	return s, false
}

// short is an error on one line of a table, without the directory.
func short(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	for _, word := range strings.Fields(text) {
		if i := strings.LastIndexByte(word, '/'); i > 0 && strings.HasPrefix(word, os.TempDir()) {
			text = strings.ReplaceAll(text, word, word[i+1:])
		}
	}
	const most = 90
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

// attempt runs f and turns a panic into an error.
func attempt(f func() (string, error)) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("**panic**: %v", p)
		}
	}()
	text, err := f()
	if err != nil {
		return "error: " + short(err)
	}
	return text
}
