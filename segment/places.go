package segment

import (
	"hash/crc32"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/mapped"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// A sparse index says in which few kilobytes a record is. To find it there, the
// batches and records before it have to be walked over, each of which says where the
// next one begins: one cache miss after another. Places remembers for the index
// intervals that were looked at where their records are, two to four bytes for each.
//
// What it says is true because it is forgotten when it might not be: an interval is
// remembered after the checksums, the order of its batches and all records in it were
// found right, for as long as the files of its segment stay open and are not
// truncated. And since someone else may cut a file, or a disk give back other bytes
// than the first time, each look-up checks what it finds: the checksum of the batch if
// the record is alone in it, else two bytes of one of its own. Batches that are compressed, control batches and those of old formats are
// not remembered. Whoever finds nothing here walks, as before.

// Places is memory for where records are, shared by any number of segments and safe
// for concurrent use. Look-ups take no lock. When it is full it forgets what was not
// used lately.
type Places struct {
	budget int64
	ids    atomic.Uint64
	table  atomic.Pointer[placeTable] // made on first use

	mu    sync.Mutex // held while something is added
	bytes int64      // of all intervals
	hand  int        // where to go on looking for something to forget
}

// placeTable is a hash table of a fixed size: an interval is in one of placeWays
// slots, or nowhere.
type placeTable struct {
	slots []atomic.Pointer[interval]
	shift uint
}

const (
	placeWays = 4
	// leastInterval is about what an interval of one large batch takes.
	leastInterval = 256
	// An interval larger than this, of many small records in one batch, would push
	// out too much.
	mostInterval = 64 << 10
)

// NewPlaces returns memory of so many bytes; nil, which remembers nothing, for none.
func NewPlaces(bytes int64) *Places {
	if bytes <= 0 || strconv.IntSize < 64 { // address space is scarce with 32 bits
		return nil
	}
	return &Places{budget: bytes}
}

// interval is what is known of the records between two entries of an index. It is
// not changed once others see it, except for used.
type interval struct {
	owner uint64
	slot  int // of the index entry it ends with
	used  atomic.Bool

	start, end int64    // positions of its first batch and behind its last one
	first      int64    // offset of the first record; those of the others follow
	places     offsets  // of records from start on, 0 where there is none; empty: walk
	batches    offsets  // of batches with records; empty if each has one
	checks     []uint16 // of records, like places; empty with batches
}

// offsets are numbers in two bytes each if they fit, or in four.
type offsets struct {
	short []uint16
	long  []uint32
}

func (o *offsets) len() int { return len(o.short) + len(o.long) }

func (o *offsets) at(i int) uint32 {
	if o.short != nil {
		return uint32(o.short[i])
	}
	return o.long[i]
}

// floor returns the largest of the numbers, which rise, that is at or below n.
func (o *offsets) floor(n uint32) uint32 {
	low, high := 0, o.len()
	for high-low > 1 {
		if middle := int(uint(low+high) / 2); o.at(middle) <= n {
			low = middle
		} else {
			high = middle
		}
	}
	return o.at(low)
}

func packed(list []uint32, most int64) offsets {
	if len(list) == 0 {
		return offsets{}
	}
	if most > 1<<16 {
		return offsets{long: append([]uint32(nil), list...)}
	}
	short := make([]uint16, len(list))
	for i, n := range list {
		short[i] = uint16(n)
	}
	return offsets{short: short}
}

func (v *interval) size() int64 {
	return 152 + 2*int64(len(v.places.short)+len(v.batches.short)+len(v.checks)) + 4*int64(len(v.places.long)+len(v.batches.long))
}

func (t *placeTable) ways(owner uint64, slot int) []atomic.Pointer[interval] {
	h := (owner*0x9e3779b97f4a7c15 + uint64(slot)) * 0x9e3779b97f4a7c15 >> t.shift
	return t.slots[h*placeWays:][:placeWays]
}

func (p *Places) find(owner uint64, slot int) *interval {
	t := p.table.Load()
	if t == nil || owner == 0 {
		return nil
	}
	ways := t.ways(owner, slot)
	for i := range ways {
		if v := ways[i].Load(); v != nil && v.owner == owner && v.slot == slot {
			if !v.used.Load() { // most find it set, and leave the cache line alone
				v.used.Store(true)
			}
			return v
		}
	}
	return nil
}

// add remembers v in place of something else.
func (p *Places) add(v *interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.table.Load()
	if t == nil {
		t = newPlaceTable(p.budget / leastInterval / placeWays)
		p.table.Store(t)
	}
	ways := t.ways(v.owner, v.slot)
	way := &ways[v.slot%placeWays]
	for i := range ways {
		if old := ways[i].Load(); old == nil || old.owner == v.owner && old.slot == v.slot {
			way = &ways[i]
			break
		} else if !old.used.Swap(false) {
			way = &ways[i]
		}
	}
	p.bytes -= forget(way)
	way.Store(v)
	p.bytes += v.size()
	for n := 0; p.bytes > p.budget && n < 2*len(t.slots); n++ {
		p.hand = (p.hand + 1) % len(t.slots)
		if old := t.slots[p.hand].Load(); old != nil && !old.used.Swap(false) {
			p.bytes -= forget(&t.slots[p.hand])
		}
	}
}

func forget(way *atomic.Pointer[interval]) int64 {
	if old := way.Swap(nil); old != nil {
		return old.size()
	}
	return 0
}

func newPlaceTable(groups int64) *placeTable {
	bits := uint(4)
	for int64(1)<<bits < groups {
		bits++
	}
	return &placeTable{slots: make([]atomic.Pointer[interval], placeWays<<bits), shift: 64 - bits}
}

// RecordAt returns the record at offset if its place is known: a copy in buf, as by
// record.Record.CloneInto. unknown says that Remember may find it out. The segment must be
// acquired.
func (s *Segment) RecordAt(it *record.Iterator, offset int64, buf []byte) (rec record.Record, _ []byte, found, unknown bool) {
	p := s.opts.Places
	if p == nil || s.open.index == nil || s.memory.failed.Load() {
		return rec, buf, false, false
	}
	slot := s.open.index.SlotAbove(offset)
	v := p.find(s.memory.owner.Load(), slot)
	if v == nil {
		return rec, buf, false, true
	}
	i := offset - v.first
	if i < 0 || i >= int64(v.places.len()) || v.places.at(int(i)) == 0 {
		return rec, buf, false, false
	}
	memory := s.mappedTo(v.end)
	if memory == nil {
		return rec, buf, false, false
	}
	place := v.places.at(int(i))
	batch := place - record.HeaderSize
	if v.batches.len() > 0 {
		batch = v.batches.floor(place)
	}
	rec, buf, found = s.decodeAt(it, memory[v.start+int64(batch):v.end], int(place-batch), v.check(int(i)), offset, buf)
	return rec, buf, found, false
}

// alone is the check of a record that is alone in its batch, which has a checksum.
const alone = -1

func (v *interval) check(i int) int {
	if len(v.checks) == 0 {
		return alone
	}
	return int(v.checks[i])
}

// decodeAt decodes the record that begins at the given byte of a batch in mapped
// memory, which may fail. Then it is not touched again, and reading says what is wrong.
func (s *Segment) decodeAt(it *record.Iterator, b []byte, at, check int, offset int64, buf []byte) (rec record.Record, _ []byte, ok bool) {
	defer s.memory.catch(debug.SetPanicOnFault(true), &ok)
	batch, err := record.Parse(b)
	if err != nil || it.ResetAt(batch, at) != nil || !it.Next() || it.Record().Offset != offset {
		return rec, buf, false
	}
	if check == alone {
		ok = batch.Check() == nil
	} else {
		ok = int(checkOf(batch, at, it.Position())) == check
	}
	if ok {
		rec, buf = it.Record().CloneInto(buf)
	}
	return rec, buf, ok
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkOf is a small checksum of the record in the bytes [from, to) of a batch.
func checkOf(b record.Batch, from, to int) uint16 {
	return uint16(crc32.Checksum(b.Bytes()[from:to], castagnoli))
}

// Remember finds out where the records of the index interval are that offset is in.
// b is what lies behind the segment. The segment must be acquired.
func (s *Segment) Remember(c *Scanner, it *record.Iterator, offset int64, b Bound) {
	size := s.size.Load()
	slot := s.open.index.SlotAbove(offset)
	var from, to index.Entry
	if slot > 0 {
		from = s.open.index.At(slot - 1)
	}
	last := slot == s.open.index.Len()
	if last {
		if s.writable.Load() || s.opts.ReadOnly && !b.Sealed {
			return // it is being added to
		}
		to = index.Entry{Offset: b.Upper - 1, Position: size}
	} else {
		to = s.open.index.At(slot)
	}
	if to.Offset < offset || slot > 0 && from.Offset >= offset || !last && to.Position >= size {
		return // the index was cut meanwhile, or is ahead of what is published
	}
	owner := s.memory.ownerOf(s.opts.Places)
	v := &interval{owner: owner, slot: slot}
	v.used.Store(true)
	w := placeWalks.Get().(*placeWalk)
	defer placeWalks.Put(w)
	if w.walk(s, c, it, b, size, from, to) {
		v.start, v.end, v.first = w.start, w.end, w.first
		span := v.end - v.start
		v.places = packed(w.places, span)
		if len(w.batches) < w.records {
			v.batches, v.checks = packed(w.batches, span), slices.Clone(w.checks)
		}
	}
	if v.size() > mostInterval {
		v.places, v.batches, v.checks = offsets{}, offsets{}, nil
	}
	s.opts.Places.add(v)
}

var placeWalks = sync.Pool{New: func() any { return new(placeWalk) }}

// placeWalk finds the places of records; pooled.
type placeWalk struct {
	start, end, first int64
	places, batches   []uint32
	checks            []uint16
	records           int
}

// walk reads the batches behind that of one index entry up to that of the next, and
// reports whether they can be remembered.
func (w *placeWalk) walk(s *Segment, c *Scanner, it *record.Iterator, b Bound, size int64, from, to index.Entry) bool {
	*w = placeWalk{places: w.places[:0], batches: w.batches[:0], checks: w.checks[:0]}
	c.Reset(s, from.Position, size)
	c.Bound(b)
	if from.Position > 0 {
		if !c.holds(from.Offset) {
			return false
		}
		c.Advance()
	}
	w.start = c.Position()
	for c.Position() < size {
		h, err := c.Header()
		if err != nil {
			return false
		}
		if h.BaseOffset > to.Offset {
			break
		}
		batch, err := c.Checked()
		if err != nil || h.Magic != record.MagicV2 || batch.Codec() != record.None || h.LastOffset > to.Offset {
			return false
		}
		if !batch.IsControl() && !w.take(batch, it, c.Position()) {
			return false
		}
		c.Advance()
		w.end = c.Position()
	}
	return w.records > 0
}

// take notes where the records of a batch are.
func (w *placeWalk) take(b record.Batch, it *record.Iterator, pos int64) bool {
	if it.Reset(b) != nil {
		return false
	}
	last := b.BaseOffset() - 1
	before := w.records
	for {
		at := it.Position()
		if !it.Next() {
			return it.Err() == nil
		}
		offset := it.Record().Offset
		if w.records == 0 {
			w.first = offset
		}
		if w.records == before {
			w.batches = append(w.batches, uint32(pos-w.start))
		}
		i := offset - w.first
		if offset <= last || offset > b.LastOffset() || i > mostInterval/2 {
			return false
		}
		for int64(len(w.places)) < i {
			w.places, w.checks = append(w.places, 0), append(w.checks, 0)
		}
		w.places = append(w.places, uint32(pos-w.start)+uint32(at))
		w.checks = append(w.checks, checkOf(b, at, it.Position()))
		last = offset
		w.records++
	}
}

// logMemory is a segment's log file as memory, mapped when a record is first looked
// up by its place.
type logMemory struct {
	owner   atomic.Uint64 // what is remembered of the segment is of this number; 0: nothing is
	current atomic.Pointer[[]byte]
	failed  atomic.Bool

	mu   sync.Mutex // held while it is mapped
	maps []vfs.Mapping
}

func (m *logMemory) ownerOf(p *Places) uint64 {
	if m.owner.Load() == 0 {
		m.owner.CompareAndSwap(0, p.ids.Add(1))
	}
	return m.owner.Load()
}

// mappedTo returns the log file as memory, at least up to end; nil if it cannot be had.
func (s *Segment) mappedTo(end int64) []byte {
	m := &s.memory
	if b := m.current.Load(); b != nil && int64(len(*b)) >= end {
		return *b
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.current.Load(); b != nil && int64(len(*b)) >= end {
		return *b
	}
	length := s.size.Load()
	if s.writable.Load() {
		// With room for what comes. A system that does not allow it does not let a
		// file be cut that is mapped either, as a failed append may have to be.
		length = min(max(2*length, 64<<10), MaxBytes)
	}
	mapping, err := s.open.log.Map(int(length), false)
	if err != nil || length < end {
		m.failed.Store(true)
		return nil
	}
	b := mapping.Bytes()
	m.maps = append(m.maps, mapping) // one that is in use stays
	m.current.Store(&b)
	return b
}

// reset forgets everything and releases the memory. The segment is held exclusively.
func (m *logMemory) reset() error {
	var first error
	for _, mapping := range m.maps {
		if err := mapping.Unmap(); err != nil && first == nil {
			first = err
		}
	}
	m.maps = nil
	m.current.Store(nil)
	m.owner.Store(0)
	m.failed.Store(false)
	return first
}

// catch is deferred where mapped memory is read, given what SetPanicOnFault was before.
func (m *logMemory) catch(panicOnFault bool, ok *bool) {
	debug.SetPanicOnFault(panicOnFault)
	if p := recover(); p != nil {
		if !mapped.IsFault(p) {
			panic(p)
		}
		m.failed.Store(true)
		*ok = false
	}
}
