package kafkadump

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
)

// table is the entries of an index as the tool sees them: zeros at the end of a
// file that was not closed are entries like others. See AbstractIndex.java.
type table struct {
	*source
	base      int64
	entrySize int64
	entries   int64
}

const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func (d *Dumper) openTable(path string, base, entrySize int64) (*table, error) {
	s, err := d.open(path)
	if err != nil {
		return nil, err
	}
	return &table{s, base, entrySize, s.end / entrySize}, nil
}

func (t *table) raw(i int64) ([]byte, error) { return t.read(i*t.entrySize, t.entrySize) }

func (t *table) offsetEntry(i int64) (offset, position int64, err error) {
	b, err := t.raw(i)
	if err != nil {
		return 0, 0, err
	}
	return t.base + int64(int32(be.Uint32(b))), int64(int32(be.Uint32(b[4:]))), nil
}

func (t *table) timeEntry(i int64) (timestamp, offset int64, err error) {
	b, err := t.raw(i)
	if err != nil {
		return 0, 0, err
	}
	return int64(be.Uint64(b)), t.base + int64(int32(be.Uint32(b[8:]))), nil
}

// warmEntries is how many entries at the end of an index the tool looks through
// first, so that zeros at the end can lead it elsewhere than to the floor.
const warmEntries = 8192 / offsetEntrySize

// lookup is OffsetIndex.lookup: the position where the tool begins to look for
// an offset.
func (t *table) lookup(offset int64) (position int64, err error) {
	if t == nil || t.entries == 0 {
		return 0, nil
	}
	hot := max(0, t.entries-1-warmEntries)
	from, to := int64(0), hot
	at, _, err := t.offsetEntry(hot)
	if err != nil {
		return 0, err
	}
	if at < offset {
		from, to = hot, t.entries-1
	} else if first, _, err := t.offsetEntry(0); err != nil || first > offset {
		return 0, err
	}
	for from < to {
		mid := (from + to + 1) / 2
		at, position, err := t.offsetEntry(mid)
		switch {
		case err != nil:
			return 0, err
		case at == offset:
			return position, nil
		case at > offset:
			to = mid - 1
		default:
			from = mid
		}
	}
	_, position, err = t.offsetEntry(from)
	return position, err
}

// index prints an offset index and compares each entry with the batch it leads
// to.
func (d *Dumper) index(path, name string) error {
	base, err := baseOffset(name)
	if err != nil {
		return err
	}
	log, err := d.open(sibling(path, layout.Log.Suffix()))
	if err != nil {
		return err
	}
	defer log.Close()
	t, err := d.openTable(path, base, offsetEntrySize)
	if err != nil {
		return err
	}
	defer t.Close()
	if t.entries == 0 {
		_, err := fmt.Fprintf(d.out, "%s is empty.\n", path)
		return err
	}
	mismatches, err := d.indexEntries(t, log)
	if err != nil {
		d.damaged = true
		return err
	}
	d.addMismatches(path, mismatches)
	return nil
}

type pair struct{ index, log int64 }

func (d *Dumper) indexEntries(t *table, log *source) (mismatches []pair, err error) {
	for i := range t.entries {
		offset, position, err := t.offsetEntry(i)
		if err != nil {
			return nil, err
		}
		if i > 0 && offset == t.base {
			break // the zeros of a file that was not closed
		}
		first, last, err := log.batchAt(position)
		if err != nil {
			return nil, err
		}
		if last != offset {
			mismatches = append(mismatches, pair{offset, last})
			d.damaged = d.damaged || first > offset
		}
		if _, err := fmt.Fprintf(d.out, "offset: %d position: %d\n", offset, position); err != nil {
			return nil, err
		}
	}
	return mismatches, nil
}

// maxMessageSize is how far behind an entry's position the tool looks for the
// end of its batch.
const maxMessageSize = 5 << 20

// batchAt returns the offsets of the batch at a position of the log.
func (s *source) batchAt(position int64) (first, last int64, err error) {
	if err := s.checkSlice(position); err != nil {
		return 0, 0, err
	}
	part := *s
	part.end = min(s.end, position+maxMessageSize)
	b, some, err := part.next(position)
	if err != nil {
		return 0, 0, err
	}
	if !some {
		return 0, 0, &Exception{Class: noSuchElement}
	}
	h, err := s.header(b)
	return b.offset, b.lastOffset(h), err
}

// checkSlice is what FileRecords.slice demands of a position.
func (s *source) checkSlice(position int64) error {
	switch {
	case position < 0:
		return exceptionf(illegalArgument, "Invalid position: %d in read from %s", position, s.whole())
	case position > s.end:
		return exceptionf(illegalArgument, "Slice from position %d exceeds end position of %s", position, s.whole())
	}
	return nil
}

// addMismatches keeps what does not agree, which the tool sorts by the offset in
// the index, falling, keeping the last of those with the same one.
func (d *Dumper) addMismatches(path string, mismatches []pair) {
	if len(mismatches) == 0 {
		return
	}
	slices.Reverse(mismatches)
	slices.SortStableFunc(mismatches, func(a, b pair) int { return cmp.Compare(b.index, a.index) })
	mismatches = slices.CompactFunc(mismatches, func(a, b pair) bool { return a.index == b.index })
	f := findings{heading: "Mismatches in :" + d.absolute(path)}
	for _, m := range mismatches {
		f.lines = append(f.lines, fmt.Sprintf("  Index offset: %d, log offset: %d", m.index, m.log))
	}
	d.offsets = append(d.offsets, f)
}

// timeIndex prints a time index and compares each entry with the batch that its
// offset ends.
func (d *Dumper) timeIndex(path, name string) error {
	base, err := baseOffset(name)
	if err != nil {
		return err
	}
	log, err := d.open(sibling(path, layout.Log.Suffix()))
	if err != nil {
		return err
	}
	defer log.Close()
	offsets, err := d.openTable(sibling(path, layout.OffsetIndex.Suffix()), base, offsetEntrySize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer offsets.Close()
	}
	t, err := d.openTable(path, base, timeEntrySize)
	if err != nil {
		return err
	}
	defer t.Close()
	c := timeChecker{d: d, log: log, offsets: offsets, previous: record.NoTimestamp}
	if err := c.entries(t); err != nil {
		d.damaged = true
		return err
	}
	d.addTimeFindings(path, &c)
	return nil
}

// timeChecker compares the entries of one time index with the log.
type timeChecker struct {
	d       *Dumper
	log     *source
	offsets *table // nil if there is none
	it      record.Iterator
	sound   int64 // from here on the log was found to end in whole batches; 0 before that
	checked bool

	previous                     int64
	mismatched, falling, missing []pair
}

func (c *timeChecker) entries(t *table) error {
	for i := range t.entries {
		timestamp, offset, err := t.timeEntry(i)
		if err != nil {
			return err
		}
		if i > 0 && offset == t.base {
			return nil // the zeros of a file that was not closed
		}
		if err := c.entry(timestamp, offset); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.d.out, "timestamp: %d offset: %d\n", timestamp, offset); err != nil {
			return err
		}
		c.previous = timestamp
	}
	return nil
}

func (c *timeChecker) entry(timestamp, offset int64) error {
	position, err := c.offsets.lookup(offset)
	if err != nil {
		return err
	}
	if err := c.log.checkSlice(position); err != nil {
		return err
	}
	if err := c.walkable(position); err != nil {
		return err
	}
	b, h, found, err := c.find(position, offset)
	switch {
	case err != nil:
		return err
	case !found:
		c.missing = append(c.missing, pair{offset, -1})
		c.d.damaged = true
		return nil
	case b.lastOffset(h) != offset:
		c.missing = append(c.missing, pair{offset, b.lastOffset(h)})
		return nil
	}
	newest, err := c.newest(b, h)
	if err != nil {
		return err
	}
	if newest != timestamp {
		c.mismatched = append(c.mismatched, pair{timestamp, newest})
		c.d.damaged = c.d.damaged || newest > timestamp
	}
	if c.previous >= timestamp {
		c.falling = append(c.falling, pair{timestamp, c.previous})
		c.d.damaged = true
	}
	return nil
}

// walkable makes sure that the log can be walked from a position to its end: the
// tool does so for every entry before it looks at one, and fails over damage
// anywhere behind it. Positions rise, so once is enough unless one of them is
// not where a batch starts.
func (c *timeChecker) walkable(position int64) error {
	if c.checked && position >= c.sound {
		pos := c.sound
		for pos < position {
			b, some, err := c.log.next(pos)
			if err != nil {
				return err
			}
			if !some {
				break
			}
			pos += b.size
		}
		if pos == position {
			c.sound = position
			return nil
		}
	}
	for pos := position; ; {
		b, some, err := c.log.next(pos)
		if err != nil {
			return err
		}
		if !some {
			break
		}
		pos += b.size
	}
	c.sound, c.checked = position, true
	return nil
}

// find returns the first batch from a position on that ends at or above offset.
func (c *timeChecker) find(position, offset int64) (batch, header, bool, error) {
	for {
		b, some, err := c.log.next(position)
		if err != nil || !some {
			return b, header{}, false, err
		}
		h := header{}
		if !b.legacy() {
			if h, err = c.log.header(b); err != nil {
				return b, h, false, err
			}
		}
		if b.lastOffset(h) >= offset {
			return b, h, true, nil
		}
		position += b.size
	}
}

// newest is the largest timestamp of the records in b.
func (c *timeChecker) newest(b batch, h header) (int64, error) {
	newest := int64(record.NoTimestamp)
	if !b.legacy() && h.count == 0 {
		return newest, nil
	}
	if err := c.log.records(&c.it, b, h); err != nil {
		return 0, err
	}
	for c.it.Next() {
		newest = max(newest, c.it.Record().Timestamp)
	}
	return newest, c.log.asException(b, h, c.it.Err())
}

func (d *Dumper) addTimeFindings(path string, c *timeChecker) {
	add := func(to *[]findings, heading, line string, pairs []pair) {
		if len(pairs) == 0 {
			return
		}
		f := findings{heading: heading}
		for _, p := range pairs {
			f.lines = append(f.lines, fmt.Sprintf(line, p.index, p.log))
		}
		*to = append(*to, f)
	}
	absolute := d.absolute(path)
	add(&d.timestamps, "Found timestamp mismatch in :"+absolute, "  Index timestamp: %d, log timestamp: %d", c.mismatched)
	add(&d.order, "Found out of order timestamp in :"+absolute, "  Index timestamp: %d, Previously indexed timestamp: %d", c.falling)
	add(&d.missing, "The following indexed offsets are not found in :"+absolute, "Indexed offset: %d, found log offset: %d", c.missing)
}
