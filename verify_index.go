package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// Sizes of index entries. These values are written to disk and never change.
const (
	indexEntrySize     = 8
	timeIndexEntrySize = 12
)

// entryFile reads the entries of an index one after the other. It does not map
// the file and does not share the code that look-ups use: the check of an index
// must neither die with a writer's truncation nor repeat what it is to find. The
// number of entries is fixed when it is opened.
type entryFile struct {
	file    vfs.File // nil: there is none
	name    string
	size    int   // of an entry
	length  int64 // of the file
	count   int64 // of entries, without padding
	padding int64 // of zero entries at the end

	buf   []byte
	first int64 // number of the entry at buf[0]
}

// open opens the file if it is there. Zeros at its end are padding if padded is
// set; a lone entry of zeros is an entry, see package mapped.
func (e *entryFile) open(fsys vfs.FS, path, name string, size int, padded bool) error {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) { // the directory listing tells of it
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return f.Close() // likewise
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	*e = entryFile{file: f, name: name, size: size, length: info.Size(), count: info.Size() / int64(size)}
	if !padded || e.count < 2 {
		return nil
	}
	slots := e.count
	if e.count, err = e.used(); err != nil {
		return errors.Join(err, e.close())
	}
	e.padding = slots - e.count
	return nil
}

const entryChunk = 24 << 10 // a multiple of every entry size but txnindex's

// used returns how many entries there are up to the last that is not zero.
func (e *entryFile) used() (int64, error) {
	buf := make([]byte, entryChunk)
	for end := e.count * int64(e.size); end > 0; end -= int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), end)]
		n, err := vfs.ReadFull(e.file, buf, end-int64(len(buf)))
		if err != nil && !isEOF(err) {
			return 0, err
		}
		clear(buf[n:]) // a writer cut the padding off meanwhile
		for i := len(buf) - 1; i >= 0; i-- {
			if buf[i] != 0 {
				return (end-int64(len(buf))+int64(i))/int64(e.size) + 1, nil
			}
		}
	}
	return 0, nil
}

// at returns the bytes of entry i, valid until the next call.
func (e *entryFile) at(i int64) ([]byte, error) {
	off := (i - e.first) * int64(e.size)
	if off < 0 || off+int64(e.size) > int64(len(e.buf)) {
		if e.buf == nil {
			e.buf = make([]byte, entryChunk/e.size*e.size)
		}
		left := (e.count - i) * int64(e.size)
		e.buf = e.buf[:min(int64(cap(e.buf)), left)]
		if _, err := vfs.ReadFull(e.file, e.buf, i*int64(e.size)); err != nil {
			return nil, fmt.Errorf("read %s: %w", e.name, err)
		}
		e.first, off = i, 0
	}
	return e.buf[off : off+int64(e.size)], nil
}

func (e *entryFile) close() error {
	if e.file == nil {
		return nil
	}
	return e.file.Close()
}

// openIndexes opens the files that are there.
func (s *segmentCheck) openIndexes() error {
	open := func(e *entryFile, kind layout.Kind, size int, padded bool) error {
		name := layout.SegmentFileName(kind, s.base, layout.Live) + s.suffix
		return e.open(s.v.opts.FS, s.path(name), name, size, padded)
	}
	s.offsets, s.times, s.txns = newIndexCheck(s), newTimeIndexCheck(s), newTxnCheck(s)
	err := errors.Join(
		open(&s.offsets.entryFile, layout.OffsetIndex, indexEntrySize, true),
		open(&s.times.entryFile, layout.TimeIndex, timeIndexEntrySize, true),
		open(&s.txns.entryFile, layout.TxnIndex, txnindex.EntrySize, false),
	)
	for _, start := range []func() error{s.offsets.begin, s.times.begin, s.txns.begin} {
		if err == nil {
			err = start()
		}
	}
	if err != nil {
		s.closeIndexes()
	}
	return err
}

func (s *segmentCheck) closeIndexes() {
	// They were only read: closing them cannot lose anything.
	_, _, _ = s.offsets.close(), s.times.close(), s.txns.close()
	s.times.again.Close()
	s.txns.it.Close()
}

// readIndexes goes through the indexes without a log to compare them with.
func (s *segmentCheck) readIndexes() error {
	for _, x := range []interface {
		ended() bool
		advance() error
	}{&s.offsets, &s.times, &s.txns} {
		for !x.ended() {
			if err := x.advance(); err != nil {
				return err
			}
		}
	}
	return errors.Join(s.offsets.more(), s.times.more(), s.txns.more())
}

func (e *entries) ended() bool { return !e.have }

func (s *segmentCheck) finishIndexes() error {
	if err := s.offsets.finish(); err != nil {
		return err
	}
	return s.times.finish()
}

// entries is what the checks of the three kinds of index have in common.
type entries struct {
	entryFile
	s    *segmentCheck
	of   layout.Kind
	kind string // what names of problems begin with

	parse func(b []byte) pair
	words string // a format for a pair

	// entry is the present one, if have; next is the number of the one behind.
	entry pair
	have  bool
	next  int64

	// last is the last entry that was handed out, and lastNumber its number;
	// before is the one before it. They are there from sound = 1 and 2 on.
	last, before pair
	lastNumber   int64
	sound        int64

	alike map[string]int
}

// pair is an entry of an index: what it is sorted by, and what that leads to,
// which rises as well. Both are absolute. A negative number makes no sense.
type pair struct{ key, value int64 }

func (p pair) follows(last pair) bool { return p.key > last.key && p.value >= last.value }

// begin checks the file as a whole and moves to the first entry.
func (e *entries) begin() error {
	if e.file == nil {
		return nil
	}
	if err := e.form(); err != nil {
		return err
	}
	return e.advance()
}

// advance moves to the next entry that makes sense and is in order, and tells of
// those that are not.
func (e *entries) advance() error {
	for e.have = false; e.next < e.count && !e.have; e.next++ {
		p, err := e.read(e.next)
		if err == nil {
			err = e.admit(p)
		}
		if isEOF(err) && e.s.v.writer {
			e.count = e.next // cut off meanwhile
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func (e *entries) read(i int64) (pair, error) {
	b, err := e.at(i)
	if err != nil {
		return pair{}, err
	}
	return e.parse(b), nil
}

// admit makes p, whose number is next, the present entry if it may be. Of two
// entries that contradict each other the first is to blame if it contradicts the
// third one too.
func (e *entries) admit(p pair) error {
	if e.s.live && e.next == e.count-1 && e.sound > 0 && !(e.sensible(p) && p.follows(e.last)) {
		return nil // it is being written, a word at a time
	}
	switch {
	case !e.sensible(p):
		return e.bad(Damage, "entry", e.next, -1, e.words+": makes no sense", p.key, p.value)
	case e.sound == 0 || p.follows(e.last):
		e.before = e.last
	default:
		blameLast := e.sound == 1 || p.follows(e.before)
		if blameLast && e.next+1 < e.count {
			third, err := e.read(e.next + 1)
			if err != nil {
				return err
			}
			blameLast = !third.follows(e.last)
		} else {
			blameLast = false
		}
		if !blameLast {
			return e.bad(Damage, "order", e.next, e.about(p), e.words+": not above entry %d, "+e.words,
				p.key, p.value, e.lastNumber, e.last.key, e.last.value)
		}
		err := e.bad(Damage, "order", e.lastNumber, e.about(e.last), e.words+": not below entry %d, "+e.words,
			e.last.key, e.last.value, e.next, p.key, p.value)
		if err != nil {
			return err
		}
	}
	e.entry, e.have = p, true
	e.last, e.lastNumber = p, e.next
	e.sound++
	return nil
}

// about is the offset that an entry is about.
func (e *entries) about(p pair) int64 {
	if e.of == layout.TimeIndex {
		return p.value
	}
	return p.key
}

func (e *entries) sensible(p pair) bool {
	if e.of == layout.TimeIndex {
		return p.key >= 0 && p.value >= e.s.base
	}
	return p.key >= e.s.base && p.value >= 0
}

// maxAlike is how many problems of one kind an index file gets told one by one.
// An index of another log would otherwise fill pages.
const maxAlike = 100

// bad tells of entry i, which is about the given offset.
func (e *entries) bad(severity Severity, kind string, i, offset int64, detail string, args ...any) error {
	if e.alike == nil {
		e.alike = map[string]int{}
	}
	if e.alike[kind]++; e.alike[kind] > maxAlike {
		return nil
	}
	return e.s.tell(e.of, Problem{
		Severity: severity, Kind: e.kind + "_" + kind, File: e.name,
		Position: i * int64(e.size), Offset: offset, Entry: int(i), Detail: fmt.Sprintf(detail, args...),
	})
}

// whole tells of the file as a whole.
func (e *entries) whole(severity Severity, kind, detail string, args ...any) error {
	return e.s.tell(e.of, Problem{
		Severity: severity, Kind: e.kind + "_" + kind, File: e.fileName(),
		Position: -1, Offset: -1, Entry: -1, Detail: fmt.Sprintf(detail, args...),
	})
}

func (e *entries) fileName() string {
	return layout.SegmentFileName(e.of, e.s.base, layout.Live) + e.s.suffix
}

// form checks what can be said of the file without reading entries.
func (e *entries) form() error {
	if rest := e.length % int64(e.size); e.file != nil && rest != 0 {
		err := e.whole(Damage, "odd_length", "length %d is not a multiple of %d", e.length, e.size)
		if err != nil {
			return err
		}
	}
	if e.padding == 0 {
		return nil
	}
	severity := Warning
	if e.s.last {
		severity = Note
	}
	return e.whole(severity, "padding", "%s behind %s", count(e.padding, "zero entry", "zero entries"), count(e.count, "entry", "entries"))
}

// more says how many problems were not told one by one.
func (e *entries) more() error {
	for _, kind := range slices.Sorted(maps.Keys(e.alike)) {
		n := e.alike[kind]
		if n <= maxAlike {
			continue
		}
		if err := e.whole(Damage, kind, "%s more like these", count(int64(n-maxAlike), "entry", "entries")); err != nil {
			return err
		}
	}
	return nil
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// behind is the severity of an entry about what lies behind the end of the log,
// and whether to speak of it. A crash may have kept the entry and lost the batch.
func (e *entries) behind() (severity Severity, tell bool) {
	if e.s.last && e.s.torn {
		return Warning, !e.s.live
	}
	return Damage, !e.s.live
}

// indexCheck compares an offset index with the log.
type indexCheck struct{ entries }

func newIndexCheck(s *segmentCheck) indexCheck {
	return indexCheck{entries{
		s: s, of: layout.OffsetIndex, kind: "index", words: "offset %d at position %d",
		parse: func(b []byte) pair {
			return pair{s.base + int64(int32(binary.BigEndian.Uint32(b))), int64(int32(binary.BigEndian.Uint32(b[4:])))}
		},
	}}
}

// batch compares the entries up to a good batch that begins at offset begins.
func (x *indexCheck) batch(pos, begins int64, b record.Batch) error {
	for x.have && x.entry.value <= pos {
		var err error
		switch {
		case x.entry.value < pos:
			err = x.bad(Damage, "position", x.next-1, x.entry.key, "position %d does not start a batch", x.entry.value)
		case begins > x.entry.key:
			err = x.bad(Damage, "position", x.next-1, x.entry.key, "offset %d is below the batch at position %d, which begins at %d",
				x.entry.key, pos, begins)
		}
		if err != nil {
			return err
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	return nil
}

// hole compares the entries up to the end of bytes that are no good batch.
func (x *indexCheck) hole(pos, end int64) error {
	for x.have && x.entry.value < end {
		severity, tell := Damage, true
		if end == x.s.end {
			severity, tell = x.behind()
		}
		if x.entry.value < pos {
			severity, tell = Damage, true
		}
		if tell {
			err := x.bad(severity, "position", x.next-1, x.entry.key, "position %d does not start a readable batch", x.entry.value)
			if err != nil {
				return err
			}
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	return nil
}

// finish compares the rest with the end of the log.
func (x *indexCheck) finish() error {
	if x.file == nil {
		if x.s.bytes == 0 {
			return nil
		}
		return x.whole(Warning, "missing", "there is none for a log of %d bytes: look-ups read it from the start", x.s.bytes)
	}
	severity, tell := x.behind()
	for x.have {
		if tell {
			err := x.bad(severity, "position", x.next-1, x.entry.key, "position %d is behind the log, which ends at %d", x.entry.value, x.s.end)
			if err != nil {
				return err
			}
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	if tell && x.sound > 0 && x.last.key >= x.s.next && (x.s.unreadable == 0 || x.s.torn) {
		err := x.bad(severity, "offset", x.lastNumber, x.last.key, "offset %d is behind the segment, which ends at %d", x.last.key, x.s.next-1)
		if err != nil {
			return err
		}
	}
	// The default interval: below it there need not be an entry.
	if x.count == 0 && x.s.lastPos > defaultIndexInterval && !x.s.live {
		err := x.whole(Warning, "empty", "no entries for a log of %d bytes: look-ups read it from the start", x.s.bytes)
		if err != nil {
			return err
		}
	}
	return x.more()
}

const defaultIndexInterval = 4096

// timeIndexCheck compares a time index with the log: no record up to the offset
// of an entry may be later than its timestamp.
type timeIndexCheck struct {
	entries
	again record.Iterator
}

func newTimeIndexCheck(s *segmentCheck) timeIndexCheck {
	return timeIndexCheck{entries: entries{
		s: s, of: layout.TimeIndex, kind: "timeindex", words: "timestamp %d at offset %d",
		parse: func(b []byte) pair {
			return pair{int64(binary.BigEndian.Uint64(b)), s.base + int64(int32(binary.BigEndian.Uint32(b[8:])))}
		},
	}}
}

// batch compares the entries up to those about records in b. newest is the
// largest timestamp before b.
func (x *timeIndexCheck) batch(b record.Batch, newest int64) error {
	for x.have && x.entry.value < b.LastOffset() {
		within := newest
		if x.entry.value >= b.BaseOffset() && b.MaxTimestamp() > x.entry.key && !x.s.v.opts.Quick {
			// An entry about a record in the middle, as brokers before 4.0
			// made them.
			within = max(within, x.newestUpTo(b, x.entry.value))
		}
		if err := x.compare(within); err != nil {
			return err
		}
	}
	return nil
}

// newestUpTo is the largest timestamp of the records up to offset in a batch
// that has been decoded before.
func (x *timeIndexCheck) newestUpTo(b record.Batch, offset int64) int64 {
	newest := record.NoTimestamp
	for r, err := range b.Records(&x.again) {
		if err != nil || r.Offset > offset {
			break
		}
		newest = max(newest, r.Timestamp)
	}
	return newest
}

// compare compares the present entry with the largest timestamp up to its
// offset, and advances.
func (x *timeIndexCheck) compare(newest int64) error {
	if newest > x.entry.key {
		err := x.bad(Damage, "timestamp", x.next-1, x.entry.value, "a record up to offset %d has timestamp %d, above the entry's %d",
			x.entry.value, newest, x.entry.key)
		if err != nil {
			return err
		}
	}
	return x.advance()
}

func (x *timeIndexCheck) finish() error {
	if x.file == nil {
		if x.s.newest < 0 {
			return nil // records without timestamps need none
		}
		return x.whole(Warning, "missing", "there is none for a log of %d bytes: look-ups by time read it from the start", x.s.bytes)
	}
	for x.have {
		if err := x.compare(x.s.newest); err != nil {
			return err
		}
	}
	if x.s.live {
		return x.more()
	}
	if err := x.largest(); err != nil {
		return err
	}
	return x.more()
}

// largest checks the last entry, which stands for the whole segment when a
// segment is looked for by time, and once it is sealed for its age.
func (x *timeIndexCheck) largest() error {
	severity, _ := x.behind()
	switch {
	case x.sound == 0:
		if x.s.newest < 0 || x.s.last && x.s.lastPos <= defaultIndexInterval {
			return nil
		}
		return x.whole(Warning, "empty", "no entries, though the largest timestamp is %d", x.s.newest)
	case x.s.unreadable > 0 && !x.s.torn:
		return nil // what cannot be read may have been later
	case x.last.value >= x.s.next:
		return x.bad(severity, "offset", x.lastNumber, x.last.value, "offset %d is behind the segment, which ends at %d", x.last.value, x.s.next-1)
	case x.last.key > x.s.newest, x.last.key < x.s.newest && !x.s.last:
		return x.bad(severity, "largest", x.lastNumber, x.last.value, "the last entry has timestamp %d, the largest in the log is %d", x.last.key, x.s.newest)
	}
	return nil
}
