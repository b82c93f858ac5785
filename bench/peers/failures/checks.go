//go:build unix

package failures

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cutTail is check A.
func cutTail(p peer, dir string) (string, error) {
	if err := p.prepare(dir); err != nil {
		return "", err
	}
	name, used, err := p.tail(dir)
	if err != nil {
		return "", err
	}
	if err := os.Truncate(name, used-5); err != nil {
		return "", err
	}
	return p.reopened(dir)
}

func overwrite(name string, at int64, b []byte) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}

// reopened opens a damaged directory as anyone would, looks, appends, and looks
// again after another open.
func (p peer) reopened(dir string) (string, error) {
	l, err := p.open(dir)
	if err != nil {
		return p.refused(dir, err, value), nil
	}
	s := look(l, value)
	text := s.String()
	if err := l.append(value(len(s.values))); err != nil {
		return fmt.Sprintf("%s; cannot append: %s", text, short(err)), l.close()
	}
	if err := l.close(); err != nil {
		return fmt.Sprintf("%s; close: %s", text, short(err)), nil
	}
	l, err = p.open(dir)
	if err != nil {
		return fmt.Sprintf("%s; appended to, then it %s", text, p.refused(dir, err, value)), nil
	}
	s = look(l, value)
	text = fmt.Sprintf("%s; after one append: %s", text, s)
	if err := l.close(); err != nil || len(s.unread) == 0 {
		return text, err
	}
	return text + p.repaired(dir, value), nil
}

// refused tells of a directory that does not open, and what its own repair makes of
// it.
func (p peer) refused(dir string, cause error, want func(i int) string) string {
	return fmt.Sprintf("**does not open**: %s%s", short(cause), p.repaired(dir, want))
}

// repaired tells what the log's own repair makes of a directory, if it has one.
func (p peer) repaired(dir string, want func(i int) string) string {
	if p.repair == nil {
		return ""
	}
	if err := p.repair(dir); err != nil {
		return "; its repair: " + short(err)
	}
	l, err := p.open(dir)
	if err != nil {
		return "; its repair leaves it so: " + short(err)
	}
	defer l.close()
	return "; after its repair: " + look(l, want).String()
}

// flipByte is check B.
func flipByte(p peer, dir string) (string, error) {
	if err := p.prepare(dir); err != nil {
		return "", err
	}
	names, err := filepath.Glob(filepath.Join(dir, p.data))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		at := bytes.Index(content, []byte(value(5)))
		if at < 0 {
			continue
		}
		at += 20
		if err := overwrite(name, int64(at), []byte{content[at] ^ 1}); err != nil {
			return "", err
		}
		l, err := p.open(dir)
		if err != nil {
			return p.refused(dir, err, value), nil
		}
		s := look(l, value)
		if err := l.close(); err != nil || len(s.unread) == 0 {
			return s.String(), err
		}
		return s.String() + p.repaired(dir, value), nil
	}
	return "", errors.New("record 5 is not to be found in the files")
}

// shortIndex is check C.
func shortIndex(p peer, dir string) (string, error) {
	if p.index == nil {
		return "no such file", nil
	}
	if err := p.prepare(dir); err != nil {
		return "", err
	}
	for pattern, entry := range p.index {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				return "", err
			}
			if err := os.Truncate(name, max(0, info.Size()-int64(2*entry))); err != nil {
				return "", err
			}
		}
	}
	return p.reopened(dir)
}

// shortWrite is check D, in a child.
func shortWrite(p peer, dir string) (string, error) {
	l, err := p.limited(dir, int64(len(large(0))/2))
	if err != nil {
		return "", err
	}
	failed := l.append(large(records))
	if err := unlimit(); err != nil {
		return "", err
	}
	if failed == nil {
		return "the append does not fail", l.close()
	}
	again := l.append(large(records))
	acknowledged := records
	if again == nil {
		acknowledged++
		if again = l.append(value(records + 1)); again == nil {
			acknowledged++
		}
	}
	want := func(i int) string {
		if i == records {
			return large(i)
		}
		return value(i)
	}
	text := fmt.Sprintf("fails (%s); again: %s", short(failed), outcome(again))
	if s := look(l, want); len(s.wrong)+len(s.unread) > 0 || len(s.values) != acknowledged {
		text += "; live: " + ofAcknowledged(s, want, acknowledged)
	}
	if err := l.close(); err != nil {
		text += "; close: " + short(err)
	}
	if l, err = p.open(dir); err != nil {
		return fmt.Sprintf("%s; then it %s", text, p.refused(dir, err, want)), nil
	}
	defer l.close()
	return text + "; opened again: " + ofAcknowledged(look(l, want), want, acknowledged), nil
}

func ofAcknowledged(s survey, want func(i int) string, acknowledged int) string {
	more := ""
	if rest, twice := s.without(large(records), want); twice && len(s.values) == acknowledged+1 {
		s, more = rest, ", and **the append that failed is there as well**"
	}
	return fmt.Sprintf("%s of %d acknowledged%s", s, acknowledged, more)
}

func outcome(err error) string {
	if err != nil {
		return "refused (" + short(err) + ")"
	}
	return "acknowledged"
}

// partialBatch is check E, in a child.
func partialBatch(p peer, dir string) (string, error) {
	l, err := p.limited(dir, int64(len(large(0))*3/2))
	if err != nil {
		return "", err
	}
	failed := l.append(large(records), large(records+1), large(records+2))
	if err := unlimit(); err != nil {
		return "", err
	}
	if failed == nil {
		return "the batch does not fail", l.close()
	}
	want := func(i int) string {
		if i < records {
			return value(i)
		}
		return large(i)
	}
	text := fmt.Sprintf("fails (%s)", short(failed))
	if err := l.close(); err != nil {
		text += "; close: " + short(err)
	}
	if l, err = p.open(dir); err != nil {
		return fmt.Sprintf("%s; then it %s", text, p.refused(dir, err, want)), nil
	}
	defer l.close()
	s := look(l, want)
	if more := len(s.values) - records; more > 0 {
		return fmt.Sprintf("%s; opened again: **%d of the 3 are there** (%s)", text, more, s), nil
	}
	return fmt.Sprintf("%s; opened again: none of the 3 is there (%s)", text, s), nil
}

// limited opens a log with ten records in which no file may grow beyond so many
// bytes behind what is used of the last data file.
func (p peer) limited(dir string, more int64) (log, error) {
	if err := p.prepare(dir); err != nil {
		return nil, err
	}
	l, err := p.open(dir)
	if err != nil {
		return nil, err
	}
	_, used, err := p.tail(dir)
	if err != nil {
		return nil, err
	}
	return l, limit(used + more)
}
