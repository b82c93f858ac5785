package segment

import (
	"encoding/binary"
	"hash/crc32"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/mapped"
	"github.com/seglog/seglog/internal/prefetch"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// A sparse index says in which few kilobytes a record is. To find it there, the
// batches and records before it have to be walked over, each of which says where the
// next one begins: one cache miss after another. Places remembers for the index
// intervals that were looked at where their records are, two to six bytes for each, and
// what their batches say of them: so that of the log only the record itself is touched.
//
// What it says is true because it is forgotten when it might not be: an interval is
// remembered after the checksums, the order of its batches and all records in it were
// found right, for as long as the files of its segment stay open and are not
// truncated. And since someone else may cut a file, or a disk give back other bytes
// than the first time, each look-up checks what it finds: the checksum of the batch if
// the record is alone in it, else two bytes of one of its own. Where another process may
// truncate the log and write others there, the checksum that the batch has has to be the
// one it had as well. Batches that are compressed, control batches and those of old formats
// are not remembered. Whoever finds nothing here walks, as before.

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
	// leastInterval is less than what an interval takes, so that most groups have room.
	leastInterval = 128
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
// not changed once others see it, except for used. Its table lies behind it in one piece
// of memory, which has no pointers in it: to go from one to the other costs nothing, and
// the garbage collector does not look at either.
type interval struct {
	used atomic.Bool
	known
}

// known is an interval without its table.
type known struct {
	owner  uint64
	rising bool  // timestamps do from record to record, and there is no control batch
	wide   bool  // positions take four bytes, not two
	shared bool  // another process may write to the log
	slot   int32 // of the index entry it ends with

	start, end uint32 // positions of its first batch and behind its last one
	first      int64  // offset of the first record; those of the others follow
	newest     int64  // the timestamp of the last one, if they rise

	// The table has an entry for each record, and behind them one for each batch that has
	// records; see the constants below. There are no batches, and no checks of records, if
	// each batch has one record; and nothing at all where one has to walk.
	records, batches int32
}

// Of the table of an interval. Positions are counted from its start, and offsets from its
// first.
//
//	record:  position 2 or, if wide, 4; 0 where there is none | check 2, if there are batches
//	batch:   position 4 (highest bit: of append time) | base offset 4 | timestamp 8 | checksum 4
const (
	placeBatch    = 20
	placeAppended = 1 << 31
)

func newInterval(owner uint64, slot int, shared bool, w *placeWalk) *interval {
	k := known{
		owner: owner, slot: int32(slot), shared: shared, start: uint32(w.start), end: uint32(w.end), first: w.first,
		newest: w.newest, rising: !w.falls, wide: w.end-w.start > 1<<16, records: int32(len(w.places)),
	}
	if len(w.batches) < w.records {
		k.batches = int32(len(w.batches))
	}
	if k.length() > mostInterval {
		k.records, k.batches = 0, 0
	}
	// With a byte or more to spare, lest an empty table begin in other memory.
	memory := make([]uint64, (int(unsafe.Sizeof(interval{}))+k.length())/8+1)
	v := (*interval)(unsafe.Pointer(unsafe.SliceData(memory)))
	v.known = k
	v.used.Store(true)
	table := v.table()[:0]
	for i := range int(v.records) {
		place := w.places[i]
		if table = le.AppendUint16(table, uint16(place)); v.wide {
			table = le.AppendUint16(table, uint16(place>>16))
		}
		if v.batches > 0 {
			table = le.AppendUint16(table, w.checks[i])
		}
	}
	for i := range int(v.batches) {
		table = w.batches[i].appendTo(table, v.first)
	}
	return v
}

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// table is the memory behind v.
func (v *interval) table() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(v), unsafe.Sizeof(*v))), v.length())
}

// length is how large the table is.
func (k *known) length() int { return k.width()*int(k.records) + placeBatch*int(k.batches) }

// width is how many bytes the table has for each record.
func (k *known) width() int {
	switch {
	case k.batches > 0 && k.wide:
		return 6
	case k.batches > 0 || k.wide:
		return 4
	}
	return 2
}

// at is where the record at place i is, counted from start; 0 if there is none.
func (v *interval) at(i int) uint32 {
	b := v.table()[v.width()*i:]
	if v.wide {
		return le.Uint32(b)
	}
	return uint32(le.Uint16(b))
}

// check is that of the record at place i, if there are batches.
func (v *interval) check(i int) uint16 { return le.Uint16(v.table()[v.width()*(i+1)-2:]) }

// batchOf returns the last batch that begins at or below place, if there are batches, and
// its checksum.
func (v *interval) batchOf(place uint32) (at uint32, o record.Origin, crc uint32) {
	table := v.table()[v.width()*int(v.records):]
	low, high := 0, int(v.batches)
	for high-low > 1 {
		if middle := (low + high) / 2; le.Uint32(table[placeBatch*middle:])&^placeAppended <= place {
			low = middle
		} else {
			high = middle
		}
	}
	b := table[placeBatch*low:][:placeBatch]
	at = le.Uint32(b)
	o.BaseOffset = v.first + int64(int32(le.Uint32(b[4:])))
	o.Timestamp, o.AppendTime = int64(le.Uint64(b[8:])), at&placeAppended != 0
	return at &^ placeAppended, o, le.Uint32(b[16:])
}

// size is how much memory v takes, with the sixteenth that is lost on average.
func (v *interval) size() int64 {
	n := int64(unsafe.Sizeof(*v)) + int64(v.length())
	return n + n/16
}

func (t *placeTable) ways(owner uint64, slot int) []atomic.Pointer[interval] {
	h := (owner*0x9e3779b97f4a7c15 + uint64(slot)) * 0x9e3779b97f4a7c15 >> t.shift
	return t.slots[h*placeWays:][:placeWays]
}

// find returns what is known of the interval that ends with an entry of an index. i is
// where in it the caller will look: that part of the table is asked for at once, not only
// when the beginning of v has come from memory. It is where most tables have it.
func (p *Places) find(owner uint64, slot int, i int64) *interval {
	t := p.table.Load()
	if t == nil || owner == 0 {
		return nil
	}
	ways := t.ways(owner, slot)
	for w := range ways {
		v := ways[w].Load()
		if v == nil {
			continue
		}
		prefetch.Bytes(uintptr(unsafe.Pointer(v))+unsafe.Sizeof(*v)+uintptr(4*i), 1)
		if v.owner == owner && int(v.slot) == slot {
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
	ways := t.ways(v.owner, int(v.slot))
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
	slot, first := s.open.index.SlotAbove(offset)
	v := p.find(s.memory.owner.Load(), slot, offset-first)
	if v == nil {
		return rec, buf, false, true
	}
	i := offset - v.first
	if i < 0 || i >= int64(v.records) || v.at(int(i)) == 0 {
		return rec, buf, false, false
	}
	memory := s.mappedTo(int64(v.end))
	if memory == nil {
		return rec, buf, false, false
	}
	prefetch.Bytes(addressOf(memory)+uintptr(v.start+v.at(int(i))), likelyRecord)
	rec, buf, found = s.copyAt(it, v, memory, int(i), buf)
	return rec, buf, found, false
}

// likelyRecord is how much of a record is asked for before it is read: most records, or
// the beginning.
const likelyRecord = 128

func addressOf(memory []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(memory))) }

// copyAt copies the record at place i out of mapped memory, which may fail. Then it is not
// touched again, and reading says what is wrong.
func (s *Segment) copyAt(it *record.Iterator, v *interval, memory []byte, i int, buf []byte) (rec record.Record, _ []byte, ok bool) {
	defer s.memory.catch(debug.SetPanicOnFault(true), &ok)
	r := v.decode(it, memory, i, true)
	if r == nil {
		return rec, buf, false
	}
	rec, buf = r.CloneInto(buf)
	return rec, buf, true
}

// decode returns the record at place i, nil if it is not there any more. It looks at
// nothing but its bytes if others are in its batch, and at the batch if there are none.
func (v *interval) decode(it *record.Iterator, memory []byte, i int, check bool) *record.Record {
	place := v.at(i)
	data := memory[v.start+place : v.end]
	if v.batches > 0 {
		at, origin, crc := v.batchOf(place)
		if check && v.shared && be.Uint32(memory[v.start+at+crcPosition:]) != crc {
			return nil
		}
		it.ResetWithin(data, origin)
	} else if b, err := record.Parse(memory[v.start+place-record.HeaderSize : v.end]); err != nil || check && b.Check() != nil {
		return nil
	} else {
		it.ResetWithin(data, b.Origin())
	}
	if !it.Next() || it.Record().Offset != v.first+int64(i) {
		return nil
	}
	if check && v.batches > 0 && checkOf(data[:it.Position()-record.HeaderSize]) != v.check(i) {
		return nil
	}
	return it.Record()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkOf is a small checksum of the bytes of a record.
func checkOf(b []byte) uint16 { return uint16(crc32.Checksum(b, castagnoli)) }

// Remember finds out where the records of the index interval are that offset is in.
// b is what lies behind the segment. The segment must be acquired.
func (s *Segment) Remember(c *Scanner, it *record.Iterator, offset int64, b Bound) {
	size := s.size.Load()
	slot, _ := s.open.index.SlotAbove(offset)
	var from index.Entry
	if slot > 0 {
		from, _ = s.open.index.IfAt(slot - 1)
	}
	to, inside := s.open.index.IfAt(slot)
	if !inside {
		if s.writable.Load() || s.opts.ReadOnly && !b.Sealed {
			return // it is being added to
		}
		to = index.Entry{Offset: b.Upper - 1, Position: size}
	}
	if to.Offset < offset || slot > 0 && from.Offset >= offset || inside && to.Position >= size {
		return // the index was cut meanwhile, or is ahead of what is published
	}
	owner := s.memory.ownerOf(s.opts.Places)
	w := placeWalks.Get().(*placeWalk)
	defer placeWalks.Put(w)
	if !w.walk(s, c, it, b, size, from, to) {
		*w = placeWalk{places: w.places[:0], batches: w.batches[:0], checks: w.checks[:0]}
	}
	s.opts.Places.add(newInterval(owner, slot, s.opts.ReadOnly, w))
}

var placeWalks = sync.Pool{New: func() any { return new(placeWalk) }}

// placeWalk finds the places of records; pooled.
type placeWalk struct {
	start, end, first int64
	places            []uint32
	batches           []walkedBatch
	checks            []uint16
	records           int
	newest            int64
	falls             bool // a timestamp does, or there is a control batch
}

// walkedBatch is a batch that has records, and where it is, counted from the start of its
// interval.
type walkedBatch struct {
	at     uint32
	origin record.Origin
	crc    uint32
}

func (b walkedBatch) appendTo(table []byte, first int64) []byte {
	if b.origin.AppendTime {
		b.at |= placeAppended
	}
	table = le.AppendUint32(table, b.at)
	table = le.AppendUint32(table, uint32(b.origin.BaseOffset-first))
	table = le.AppendUint64(table, uint64(b.origin.Timestamp))
	return le.AppendUint32(table, b.crc)
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
		if batch.IsControl() {
			w.falls = true // its timestamp counts, and nobody looks for its place
		} else if !w.take(batch, it, c.Position()) {
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
			w.batches = append(w.batches, walkedBatch{uint32(pos - w.start), b.Origin(), b.CRC()})
		}
		i := offset - w.first
		if offset <= last || offset > b.LastOffset() || i > mostInterval/2 {
			return false
		}
		for int64(len(w.places)) < i {
			w.places, w.checks = append(w.places, 0), append(w.checks, 0)
		}
		w.places = append(w.places, uint32(pos-w.start)+uint32(at))
		w.checks = append(w.checks, checkOf(b.Bytes()[at:it.Position()]))
		last = offset
		w.falls = w.falls || w.records > 0 && it.Record().Timestamp < w.newest
		w.newest = it.Record().Timestamp
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
