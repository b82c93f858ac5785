package cli

import (
	"encoding/binary"
	"fmt"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
)

// entryKind is how the entries of an index look.
type entryKind struct {
	size int64
	read func(b []byte, base int64) entry
}

// entry is one of an offset index, which has a position, or of a time index,
// which has a timestamp.
type entry struct{ timestamp, offset, position int64 }

// The two kinds, see packages index and timeindex for the format.
var (
	offsetEntry = entryKind{8, func(b []byte, base int64) entry {
		return entry{
			offset:   base + int64(int32(binary.BigEndian.Uint32(b))),
			position: int64(int32(binary.BigEndian.Uint32(b[4:]))),
		}
	}}
	timeEntry = entryKind{12, func(b []byte, base int64) entry {
		return entry{
			timestamp: int64(binary.BigEndian.Uint64(b)),
			offset:    base + int64(int32(binary.BigEndian.Uint32(b[8:]))),
		}
	}}
)

// entryFile is an index as it lies in its file, whatever is in it. It is read and
// not mapped: a writer may cut the file meanwhile.
type entryFile struct {
	file   vfs.File
	path   string
	kind   entryKind
	base   int64
	n      int64 // whole entries, zeros at the end left out
	zeros  int64 // entries at the end that are nothing but zeros
	excess int64 // bytes behind the last whole entry

	buf   []byte
	start int64 // number of the first entry in buf
}

func (d *dumper) openEntries(path string, base int64, kind entryKind) (*entryFile, error) {
	f, size, err := d.open(path)
	if err != nil {
		return nil, err
	}
	e := &entryFile{file: f, path: path, kind: kind, base: base, n: size / kind.size, excess: size % kind.size}
	if err := e.findEnd(); err != nil {
		f.Close()
		return nil, err
	}
	return e, nil
}

func (e *entryFile) Close() error { return e.file.Close() }

// findEnd takes zeros at the end for room that was not used. Only the very first
// entry of an index may be zeros and count.
func (e *entryFile) findEnd() error {
	for e.n > 0 {
		last, err := e.at(e.n - 1)
		if err != nil {
			return err
		}
		if last.timestamp != 0 || last.offset != e.base || last.position != 0 {
			break
		}
		e.n--
		e.zeros++
	}
	return nil
}

// at returns an entry.
func (e *entryFile) at(i int64) (entry, error) {
	const chunk = 1 << 10
	if have := int64(len(e.buf)) / e.kind.size; i < e.start || i >= e.start+have {
		// Entries are read forwards, and backwards to find the end.
		e.start = max(0, i-i%chunk)
		all := e.n + e.zeros
		e.buf = make([]byte, min(chunk, all-e.start)*e.kind.size)
		if _, err := vfs.ReadFull(e.file, e.buf, e.start*e.kind.size); err != nil {
			return entry{}, fmt.Errorf("%s: entry %d: %w", e.path, i, err)
		}
	}
	at := (i - e.start) * e.kind.size
	return e.kind.read(e.buf[at:at+e.kind.size], e.base), nil
}

// floor returns the last entry at or below offset, {base, 0} if there is none.
func (e *entryFile) floor(offset int64) (index.Entry, error) {
	found := index.Entry{Offset: e.base}
	from, to := int64(0), e.n
	for from < to {
		mid := (from + to) / 2
		at, err := e.at(mid)
		if err != nil {
			return found, err
		}
		if at.offset <= offset {
			found = index.Entry{Offset: at.offset, Position: at.position}
			from = mid + 1
		} else {
			to = mid
		}
	}
	return found, nil
}

// index dumps an offset index or a time index.
func (d *dumper) index(path string, f layout.File) error {
	kind, what := offsetEntry, "index_entry"
	if f.Kind == layout.TimeIndex {
		kind, what = timeEntry, "time_index_entry"
	}
	e, err := d.openEntries(path, f.Base, kind)
	if err != nil {
		return err
	}
	defer e.Close()
	var table *Table
	if !d.out.JSON() {
		if table, err = d.entryTable(e, f.Kind); err != nil {
			return err
		}
	}
	var before entry
	for i := range e.n {
		if err := interrupted(d.ctx); err != nil {
			return err
		}
		at, err := e.at(i)
		if err != nil {
			return err
		}
		wrong := broken(f, i, before, at)
		before = at
		if at.offset < d.from || at.offset >= d.to {
			continue
		}
		if d.left--; d.left < 0 {
			return nil
		}
		if wrong != "" {
			d.damage++
		}
		if err := d.entry(table, path, what, i, f.Kind, at, wrong); err != nil {
			return err
		}
	}
	return d.entriesEnd(e)
}

// entryTable begins a table that is as wide as the last entry needs it.
func (d *dumper) entryTable(e *entryFile, kind layout.Kind) (*Table, error) {
	var last entry
	if e.n > 0 {
		var err error
		if last, err = e.at(e.n - 1); err != nil {
			return nil, err
		}
	}
	offset := Right("OFFSET").Wide(len(fmt.Sprint(last.offset)))
	if kind == layout.TimeIndex {
		return d.out.Table(Left("TIME").Wide(len(timeText(0))), offset).Stream(), nil
	}
	return d.out.Table(offset, Right("POSITION").Wide(len(fmt.Sprint(last.position)))).Stream(), nil
}

// broken says which rule an entry breaks, if any: entries rise.
func broken(f layout.File, i int64, before, at entry) string {
	switch {
	case at.offset < f.Base:
		return "offset below the base offset"
	case at.position < 0:
		return "position below 0"
	case i == 0:
		return ""
	case f.Kind == layout.OffsetIndex && at.offset <= before.offset:
		return "offset does not rise"
	case f.Kind == layout.OffsetIndex && at.position <= before.position:
		return "position does not rise"
	case f.Kind == layout.TimeIndex && at.timestamp <= before.timestamp:
		return "time does not rise"
	case f.Kind == layout.TimeIndex && at.offset < before.offset:
		return "offset falls"
	}
	return ""
}

// entry shows one entry.
func (d *dumper) entry(table *Table, path, what string, i int64, kind layout.Kind, at entry, wrong string) error {
	if table == nil {
		obj := d.out.Object(what).Text("file", path).Int("entry", i)
		if kind == layout.TimeIndex {
			obj.Time("time", at.timestamp)
		}
		obj.Int("offset", at.offset)
		if kind == layout.OffsetIndex {
			obj.Int("position", at.position)
		}
		if wrong != "" {
			obj.String("error", wrong)
		}
		return d.out.Emit(obj)
	}
	cells := []any{at.offset, at.position}
	if kind == layout.TimeIndex {
		cells = []any{timeText(at.timestamp), at.offset}
	}
	if wrong != "" {
		cells = append(cells, Styled(Bad, wrong))
	}
	return table.Row(cells...)
}

// entriesEnd tells what lies behind the entries.
func (d *dumper) entriesEnd(e *entryFile) error {
	if e.excess > 0 {
		d.damage++
		if err := d.remark(e.path, "odd_length", e.excess, fmt.Sprintf("%s behind the last whole entry", plural(e.excess, "byte", "bytes"))); err != nil {
			return err
		}
	}
	if e.zeros > 0 {
		return d.remark(e.path, "zeros", e.zeros*e.kind.size, fmt.Sprintf("%s behind the entries: room for more, or left by a crash",
			plural(e.zeros*e.kind.size, "zero byte", "zero bytes")))
	}
	return nil
}

// remark adds to a list something that is not of its kind.
func (d *dumper) remark(path, kind string, size int64, text string) error {
	if d.out.JSON() {
		return d.out.Emit(d.out.Object("gap").Text("file", path).Int("size", size).String("kind", kind))
	}
	return d.out.Linef("%s", d.out.Paint(Dim, text))
}

// txnIndex dumps a transaction index.
func (d *dumper) txnIndex(path string, f layout.File) error {
	file, size, err := d.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var table *Table
	if !d.out.JSON() {
		table = d.out.Table(Right("PRODUCER").Wide(8), Right("FIRST OFFSET").Wide(12), Right("LAST OFFSET").Wide(12), Right("LAST STABLE").Wide(12)).Stream()
	}
	b := make([]byte, txnindex.EntrySize)
	last := f.Base - 1
	for i := range size / txnindex.EntrySize {
		if d.left--; d.left < 0 {
			return nil
		}
		if _, err := vfs.ReadFull(file, b, i*txnindex.EntrySize); err != nil {
			return fmt.Errorf("%s: entry %d: %w", path, i, err)
		}
		e, bad := txnindex.ParseEntry(b)
		if bad == nil && e.LastOffset <= last {
			bad = fmt.Errorf("last offset does not rise")
		}
		if bad != nil {
			d.damage++
		}
		last = max(last, e.LastOffset)
		if err := d.txnEntry(table, path, i, e, bad); err != nil {
			return err
		}
	}
	if excess := size % txnindex.EntrySize; excess > 0 {
		d.damage++
		return d.remark(path, "odd_length", excess, fmt.Sprintf("%s behind the last whole entry", plural(excess, "byte", "bytes")))
	}
	return nil
}

func (d *dumper) txnEntry(table *Table, path string, i int64, e txnindex.Entry, bad error) error {
	if table == nil {
		obj := d.out.Object("aborted_transaction").Text("file", path).Int("entry", i).Int("producer_id", e.ProducerID).
			Int("first_offset", e.FirstOffset).Int("last_offset", e.LastOffset).Int("last_stable_offset", e.LastStableOffset)
		if bad != nil {
			obj.Text("error", bad.Error())
		}
		return d.out.Emit(obj)
	}
	cells := []any{e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset}
	if bad != nil {
		cells = append(cells, Styled(Bad, bad.Error()))
	}
	return table.Row(cells...)
}
