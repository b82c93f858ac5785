package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/seglog/seglog/record"
)

// PartKind is what a stretch of a log file turned out to be.
type PartKind uint8

const (
	// Whole is a batch whose checksum matches.
	Whole PartKind = iota
	// Damaged is a batch by its header and by what follows it, but its checksum
	// does not match.
	Damaged
	// Unreadable is bytes that are no batch, up to the next one or the end.
	Unreadable
	// Torn is the beginning of a batch of which the rest is missing, at the end:
	// it is being written, or a crash kept it from being written.
	Torn
	// Zeros is nothing but zeros up to the end: room that was made and not used,
	// or blocks that a crash kept from being written.
	Zeros
)

// Part is a stretch of a log file. The parts of a file follow each other without
// a gap from where the walk began.
type Part struct {
	Kind           PartKind
	Position, Size int64
	// Summary is what the header says, for Whole and Damaged, and for a batch that claims
	// more bytes than there are, whose Err matches record.ErrShort.
	Summary record.Summary
	// Err says what is wrong; nil for Whole.
	Err error
}

// Reach is the least offset behind a log that ends in this part, where next is due. Of
// a torn batch its header says where it ended; without one it was a record at least. The
// rest may be anything.
func (p *Part) Reach(next int64) int64 {
	switch p.Kind {
	case Zeros:
		return next
	case Torn:
		return max(next+1, p.Summary.LastOffset+1)
	}
	return math.MaxInt64
}

// Walker reads a file of batches and trusts nothing in it. Where Scanner ends at
// the first damage, Walker says what is wrong and goes on behind it, so that one
// bad batch does not hide the good ones after it. Behind bytes that do not say
// where they end it looks, byte by byte, for the next batch with a matching
// checksum and another batch, or the end, behind it: one stored inside of a
// record's value has rarely both.
//
//	for w.Next() {
//		use(w.Part())
//	}
//	err := w.Err()
//
// Memory follows the largest batch that is whole, not what a header claims. The
// zero value is ready for Reset. A Walker is not safe for concurrent use.
type Walker struct {
	// SkipChecksums takes every batch that its header describes as Whole, if
	// another may begin where it says that it ends.
	SkipChecksums bool

	inPlace *inPlace // nil: all is read from log

	log      io.ReaderAt
	base     int64
	pos, end int64 // of the part after part
	part     Part
	err      error

	last  int64 // offset of the last whole batch
	buf   []byte
	start int64 // position of buf[0]
	chunk int64 // how much is read at once

	// No good batch begins in [barren, found). One may at found, or it is the end.
	barren, found int64

	// What reads bytes that may not get the walk on, as it has to while it looks for
	// the next batch, is paid for: a walk is linear in what it walks over. Beginnings
	// of batches in honest bytes do not cost nearly as much. Once it is used up only
	// what a batch follows is looked at, and then, at -allowed, nothing.
	budget, allowed int64
}

// loadLimit is how large a batch may be to be read into memory before its
// checksum was found to match.
const loadLimit = 4 << 20

// Reset begins a walk over the bytes [pos, end) of log. base is the base offset
// of its segment, below which no batch starts; 0 if it is not known.
func (w *Walker) Reset(log io.ReaderAt, base, pos, end int64) {
	w.log, w.base, w.pos, w.end = log, base, pos, end
	w.part, w.err, w.last = Part{}, nil, base-1
	w.buf, w.start, w.chunk = w.buf[:0], pos, seekChunk
	w.barren, w.found = end, pos
	w.allowed = 4*(end-pos) + 64<<20
	w.budget = w.allowed
}

// moveTo goes on at pos, in the same bytes, which may be behind another handle now.
func (w *Walker) moveTo(log io.ReaderAt, pos int64) {
	w.log, w.pos, w.part, w.err = log, pos, Part{}, nil
}

// afford pays for reading n bytes in vain, if there is still enough for it.
func (w *Walker) afford(n int64) bool {
	if w.budget <= -w.allowed {
		return false
	}
	w.budget -= n
	return true
}

// Part is the part that Next has found.
func (w *Walker) Part() Part { return w.part }

// Err is the error of reading the file that ended the walk, or nil. Damage is
// not an error here.
func (w *Walker) Err() error { return w.err }

// Next finds the next part, and returns false at the end.
func (w *Walker) Next() bool {
	if w.err != nil || w.pos >= w.end {
		return false
	}
	part, ok := Part{}, false
	if w.inPlace != nil {
		part, ok = w.inPlace.next(w.pos, w.end)
	}
	if !ok {
		if part, w.err = w.classify(); w.err != nil {
			return false
		}
	}
	w.part = part
	w.pos = part.Position + part.Size
	if part.Kind == Whole {
		w.last = part.Summary.LastOffset
	}
	return true
}

// Batch returns the batch of the present part, which must be Whole or Damaged.
// It aliases the walker's memory and is valid until the next call of a method.
func (w *Walker) Batch() (record.Batch, error) {
	b, err := w.read(w.part.Position, w.part.Size)
	if err != nil {
		return record.Batch{}, err
	}
	return record.Parse(b)
}

// Bytes returns the n first bytes of the present part, or all of it if it has
// fewer. They are valid until the next call of a method.
func (w *Walker) Bytes(n int64) ([]byte, error) {
	return w.read(w.part.Position, min(n, w.part.Size))
}

// classify tells what lies at pos.
func (w *Walker) classify() (Part, error) {
	left := w.end - w.pos
	head, err := w.read(w.pos, min(left, record.HeaderSize))
	if err != nil {
		return Part{}, err
	}
	s, bad := record.Summarize(head)
	if bad != nil {
		return w.unreadable(bad, errors.Is(bad, record.ErrShort))
	}
	if int64(s.Size) > left {
		return w.tooLong(s, left)
	}
	whole := Part{Kind: Whole, Position: w.pos, Size: int64(s.Size), Summary: s}
	if w.SkipChecksums {
		if ok, err := w.followed(w.pos+whole.Size, s.LastOffset); ok || err != nil {
			return whole, err
		}
	}
	if !w.afford(0) {
		if ok, err := w.followed(w.pos+whole.Size, s.LastOffset); !ok || err != nil {
			whole.Kind, whole.Err = Damaged, errTooMuchDamage
			return whole, err
		}
	}
	bad, err = w.checksum(w.pos, s)
	if err != nil || bad == nil {
		return whole, err
	}
	w.afford(whole.Size)
	return w.damaged(whole, bad)
}

// errTooMuchDamage is a batch that was not looked at any more.
var errTooMuchDamage = errors.New("not checked, for there is too much damage before it")

// tooLong describes a batch that claims more bytes than are left. Nothing is missing
// of it if its checksum, which does not cover the size, is that of the rest.
func (w *Walker) tooLong(s record.Summary, left int64) (Part, error) {
	claim := s.Size
	s.Size = int(left)
	whole, err := w.sumMatches(w.pos, s)
	if err != nil {
		return Part{}, err
	}
	if whole {
		return w.unreadable(fmt.Errorf("batch claims %d bytes, and its checksum is that of the %d that remain", claim, left), false)
	}
	p, err := w.unreadable(fmt.Errorf("batch claims %d bytes, %d remain: %w", claim, left, record.ErrShort), true)
	s.Size = claim
	p.Summary = s
	return p, err
}

// damaged tells whether a batch with a wrong checksum ends where it says: the
// field that is wrong may be its size.
func (w *Walker) damaged(p Part, bad error) (Part, error) {
	p.Kind, p.Err = Damaged, bad
	next := p.Position + p.Size
	if ok, err := w.followed(next, p.Summary.LastOffset); ok || err != nil {
		return p, err
	}
	found, err := w.search(p.Position + 1)
	if err != nil || found == w.end {
		return p, err
	}
	// Too long, it has run over the next batch; too short, it is whole up to there.
	s := p.Summary
	s.Size = int(found - p.Position)
	short := found > next
	if short {
		if ok, err := w.sumMatches(p.Position, s); !ok || err != nil {
			return p, err
		}
	}
	return Part{Kind: Unreadable, Position: p.Position, Size: found - p.Position, Err: bad}, nil
}

// followed reports whether what lies at next, behind a batch with the given last
// offset, may be the next batch, or is the end. Since that batch may be damaged as
// well, either its offset has to be the one that is due, or the rest of its frame
// has to make sense.
func (w *Walker) followed(next, lastOffset int64) (bool, error) {
	left := w.end - next
	if left < record.MinFrame {
		return true, nil
	}
	b, err := w.peek(next)
	if err != nil {
		return false, err
	}
	offset := int64(binary.BigEndian.Uint64(b[:]))
	if offset == lastOffset+1 || b == [record.MinFrame]byte{} {
		return true, nil // zeros are room that was not used
	}
	f, bad := record.ParseFrame(b[:])
	return bad == nil && f.Magic >= record.MagicV0 && f.Magic <= record.MagicV2 && int64(f.Size) <= left &&
		offset > lastOffset && w.plausible(offset), nil
}

// peek returns the frame at pos and leaves alone what is in memory.
func (w *Walker) peek(pos int64) (b [record.MinFrame]byte, err error) {
	if off := pos - w.start; off >= 0 && off+record.MinFrame <= int64(len(w.buf)) {
		copy(b[:], w.buf[off:])
		return b, nil
	}
	if _, err := w.log.ReadAt(b[:], pos); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b, fmt.Errorf("read at position %d: %w", pos, err)
	}
	return b, nil
}

// unreadable describes bytes that do not tell where they end. short means that
// they may be the beginning of a batch.
func (w *Walker) unreadable(bad error, short bool) (Part, error) {
	p := Part{Kind: Unreadable, Position: w.pos, Size: w.end - w.pos, Err: bad}
	zeros, err := w.allZeros(w.pos)
	if err != nil || zeros {
		p.Kind = Zeros
		return p, err
	}
	found, err := w.resume()
	if err != nil {
		return p, err
	}
	if found == w.end && short {
		p.Kind = Torn
	}
	p.Size = found - w.pos
	return p, nil
}

// resume returns the position of the next good batch behind a frame that is no
// good, or the end. What the frame says about its size may be right.
func (w *Walker) resume() (int64, error) {
	if w.end-w.pos >= record.MinFrame {
		b, err := w.peek(w.pos)
		if err != nil {
			return 0, err
		}
		if f, bad := record.ParseFrame(b[:]); bad == nil && int64(f.Size) <= w.end-w.pos-record.MinFrame {
			_, ok, err := w.batchAt(w.pos + int64(f.Size))
			if ok || err != nil {
				return w.pos + int64(f.Size), err
			}
		}
	}
	return w.search(w.pos + 1)
}

// maxOverflow is how many offsets a segment may have. It spans 31 bits of them; old
// brokers made some that span more.
const maxOverflow = 1 << 33

// plausible reports whether a batch of this segment could start at offset.
func (w *Walker) plausible(offset int64) bool {
	return offset >= w.base && offset-w.base < maxOverflow
}

// lookAhead is how far behind a batch a search looks for the next one to see
// whether both can be batches of the log.
const lookAhead = 1 << 20

// search returns the position of the next good batch from pos on, or the end if
// there is none. Bytes are searched once.
func (w *Walker) search(pos int64) (int64, error) {
	if pos >= w.barren && pos <= w.found {
		return w.found, nil
	}
	for from := pos; ; {
		at, s, err := w.valid(from, w.end)
		if err != nil {
			return w.end, err
		}
		ok := at == w.end
		if !ok {
			ok, err = w.followed(at+int64(s.Size), s.LastOffset)
		}
		if !ok && err == nil {
			ok, err = w.between(at, s)
		}
		if err != nil {
			return at, err
		}
		if ok {
			w.barren, w.found = pos, at
			return at, nil
		}
		from = at + 1
	}
}

// between reports whether the offsets of the batch at pos, behind which there is
// damage, lie between those of the good batches before and behind it.
func (w *Walker) between(pos int64, s record.Summary) (bool, error) {
	if s.BaseOffset <= w.last {
		return false, nil
	}
	end := pos + int64(s.Size)
	limit := min(end+lookAhead, w.end)
	next, behind, err := w.valid(end, limit)
	w.budget -= next - end
	return next == limit || behind.BaseOffset > s.LastOffset, err
}

// valid returns the position of the first batch with a matching checksum in
// [pos, limit), or limit if there is none.
func (w *Walker) valid(pos, limit int64) (int64, record.Summary, error) {
	for ; pos < limit && w.end-pos >= record.MinFrame; pos++ {
		chunk, err := w.ahead(pos, record.MinFrame)
		if err != nil {
			return 0, record.Summary{}, err
		}
		// Walk the chunk without a call for each byte.
		skip := int64(candidate(chunk))
		if skip < 0 {
			pos += int64(len(chunk)) - record.MinFrame
			continue
		}
		if pos += skip; pos >= limit {
			break
		}
		if !w.afford(0) {
			break // so many beginnings of batches are no accident
		}
		s, ok, err := w.batchAt(pos)
		if ok || err != nil {
			return pos, s, err
		}
	}
	return limit, record.Summary{}, nil
}

// candidate returns where in b the first 17 bytes are that look like those of a
// batch, or -1. It is what a search spends its time in.
func candidate(b []byte) int {
	const (
		sizeAt  = 8
		magicAt = record.MinFrame - 1
	)
	for i := 0; i+record.MinFrame <= len(b); i++ {
		frame := b[i : i+record.MinFrame]
		if frame[magicAt] > byte(record.MagicV2) || frame[0] > math.MaxInt8 {
			continue
		}
		if size := binary.BigEndian.Uint32(frame[sizeAt:]); size >= leastSize && size <= math.MaxInt32 {
			return i
		}
	}
	return -1
}

// leastSize is what the size field of the smallest message of magic 0 says.
const leastSize = 14

// batchAt reports whether a batch with a matching checksum starts at pos.
func (w *Walker) batchAt(pos int64) (record.Summary, bool, error) {
	left := w.end - pos
	head, err := w.read(pos, min(left, record.HeaderSize))
	if err != nil {
		return record.Summary{}, false, err
	}
	s, bad := record.Summarize(head)
	if bad != nil || int64(s.Size) > left || s.LastOffset < s.BaseOffset || !w.plausible(s.BaseOffset) {
		return s, false, nil
	}
	if w.budget <= 0 {
		w.afford(seekChunk) // it may be far away
		if ok, err := w.followed(pos+int64(s.Size), s.LastOffset); !ok || err != nil {
			return s, false, err
		}
	}
	w.afford(int64(s.Size))
	bad, err = w.checksum(pos, s)
	return s, bad == nil, err
}

// allZeros reports whether nothing but zeros follows pos.
func (w *Walker) allZeros(pos int64) (bool, error) {
	for pos < w.end {
		chunk, err := w.ahead(pos, 1)
		if err != nil {
			return false, err
		}
		// There may be much of it: each byte is compared with its neighbour, many at once.
		if chunk[0] != 0 || !bytes.Equal(chunk[1:], chunk[:len(chunk)-1]) {
			return false, nil
		}
		pos += int64(len(chunk))
	}
	return true, nil
}

// checksum verifies the checksum of the batch at pos. A large batch is not kept:
// its size is only known to be right when its checksum is.
func (w *Walker) checksum(pos int64, s record.Summary) (bad, err error) {
	size := int64(s.Size)
	if size <= loadLimit {
		b, err := w.read(pos, size)
		if err != nil {
			return nil, err
		}
		batch, bad := record.Parse(b)
		if bad == nil {
			bad = batch.Check()
		}
		return bad, nil
	}
	stored, computed, err := w.sum(pos, s)
	if err == nil && stored != computed {
		bad = &record.Error{
			Kind: record.ErrCorrupt, BaseOffset: s.BaseOffset, Record: -1, Field: "crc",
			Detail: fmt.Sprintf("mismatch (stored %08x, computed %08x)", stored, computed),
		}
	}
	return bad, err
}

// sumMatches reports whether the checksum of the batch at pos would match if it had
// another size.
func (w *Walker) sumMatches(pos int64, s record.Summary) (bool, error) {
	if !w.afford(int64(s.Size)) {
		return false, nil
	}
	stored, computed, err := w.sum(pos, s)
	return stored == computed && err == nil, err
}

// sum returns the checksum stored in the batch at pos and that of its bytes, of
// which it keeps few in memory.
func (w *Walker) sum(pos int64, s record.Summary) (stored, computed uint32, err error) {
	head, err := w.read(pos, min(w.end-pos, record.HeaderSize))
	if err != nil {
		return 0, 0, err
	}
	table, at, from := crc32.MakeTable(crc32.Castagnoli), crcPosition, crcCovers
	if s.Magic < record.MagicV2 {
		table, at, from = crc32.IEEETable, legacyCRCPosition, legacyCRCCovers
	}
	stored = binary.BigEndian.Uint32(head[at:])
	for p, end := pos+int64(from), pos+int64(s.Size); p < end; {
		chunk, err := w.ahead(p, 1)
		if err != nil {
			return 0, 0, err
		}
		chunk = chunk[:min(int64(len(chunk)), end-p)]
		computed = crc32.Update(computed, table, chunk)
		p += int64(len(chunk))
	}
	return stored, computed, nil
}

// Where the checksum is and from where on it covers the batch, see package
// record.
const (
	crcPosition, crcCovers             = 17, 21
	legacyCRCPosition, legacyCRCCovers = 12, 16
)

// held returns the bytes [from, to) if all of them are in memory.
func (w *Walker) held(from, to int64) ([]byte, bool) {
	off, n := from-w.start, to-from
	if off < 0 || off+n > int64(len(w.buf)) {
		return nil, false
	}
	return w.buf[off : off+n], true
}

// holdsBatch reports whether all of the batch at pos is in memory, by what its frame says.
func (w *Walker) holdsBatch(pos int64) bool {
	b, ok := w.held(pos, pos+record.MinFrame)
	if !ok {
		return false
	}
	f, bad := record.ParseFrame(b)
	if bad != nil {
		return false
	}
	_, ok = w.held(pos, pos+int64(f.Size))
	return ok
}

// ahead returns the bytes from pos on, at least n, as far as they are in memory
// after reading what is missing.
func (w *Walker) ahead(pos, n int64) ([]byte, error) {
	if _, err := w.read(pos, n); err != nil {
		return nil, err
	}
	return w.buf[pos-w.start:], nil
}

// read returns n bytes from pos, which must not reach beyond the end.
func (w *Walker) read(pos, n int64) ([]byte, error) {
	if off := pos - w.start; off >= 0 && off+n <= int64(len(w.buf)) {
		return w.buf[off : off+n : off+n], nil
	}
	want := min(max(n, w.chunk), w.end-pos)
	w.chunk = min(2*w.chunk, scanChunk) // a look-up needs little, a walk much
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.buf = w.buf[:want]
	got, err := io.ReadFull(io.NewSectionReader(w.log, pos, want), w.buf)
	w.buf, w.start = w.buf[:got], pos
	if int64(got) >= n {
		return w.buf[:n:n], nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("file ends at position %d: %w", pos+int64(got), io.ErrUnexpectedEOF)
	}
	return nil, fmt.Errorf("read at position %d: %w", pos, err)
}
