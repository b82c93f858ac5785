package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// OpenLog opens the .log file of a segment alone, for whoever reads it from end
// to end and can do without the indexes, or does not trust them. No other file is
// opened, mapped or looked at, and the log may have any length. What a writer
// appends later stays unseen.
//
// The segment is open until Retire and can be scanned; look-ups start at the
// beginning.
func OpenLog(dir string, base int64, opts Options) (*Segment, error) {
	opts.ReadOnly = true
	s := Open(dir, base, opts)
	f, err := opts.FS.OpenFile(s.LogPath(), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.open.log = f
	s.open.isOpen = true
	s.size.Store(info.Size())
	return s, nil
}

const (
	// bigBatch is the size from which on a batch is checksummed in pieces
	// before it is believed and read into memory.
	bigBatch = 1 << 20
	piece    = 64 << 10

	// A search for the next good batch may checksum so much, and a few times
	// what there is to search: bytes that are made to look like the beginnings
	// of many large batches must not take forever.
	searchWork      = 64 << 20
	searchWorkTimes = 4
)

// What a checksum covers, and where it is. The formats are record's; these
// values are written to disk and never change.
const (
	crcAt            = 17
	crcFrom          = 21
	legacyCRCAt      = 12
	legacyCRCFrom    = 16
	offsetLength     = 8
	smallestBodySize = 14
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Salvager is a Scanner for a log that may be damaged: it does not believe what
// a header says about its size before the checksum has agreed, and it finds its
// way back to the next good batch. The zero value is ready for Reset.
type Salvager struct {
	Scanner
	ahead []byte // what a search looks at
	work  int64  // bytes that searches may still checksum
}

// Reset is that of Scanner.
func (c *Salvager) Reset(s *Segment, pos, end int64) {
	c.Scanner.Reset(s, pos, end)
	c.work = searchWork + searchWorkTimes*max(end-pos, 0)
}

// Sound is Checked, but its memory follows the batches that are good: a length
// that was damaged brings in nothing.
func (c *Salvager) Sound() (record.Batch, error) {
	h, err := c.Header()
	if err != nil {
		return record.Batch{}, err
	}
	if h.Size <= bigBatch {
		return c.Checked()
	}
	stored, computed, err := c.checksum(c.pos, h)
	if err != nil {
		return record.Batch{}, err
	}
	if stored != computed {
		return record.Batch{}, c.damage(c.size, h.BaseOffset, h.LastOffset, &record.Error{
			Kind: record.ErrCorrupt, BaseOffset: h.BaseOffset, Record: -1, Field: "crc",
			Detail: fmt.Sprintf("mismatch (stored %08x, computed %08x)", stored, computed),
		})
	}
	return c.Batch()
}

// checksum returns the stored and the computed checksum of the batch at pos.
func (c *Salvager) checksum(pos int64, h record.Summary) (stored, computed uint32, err error) {
	at, from, table := int64(crcAt), int64(crcFrom), castagnoli
	if h.Magic < record.MagicV2 {
		at, from, table = legacyCRCAt, legacyCRCFrom, crc32.IEEETable
	}
	var field [4]byte
	if err := c.readAt(field[:], pos+at); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, min(piece, int64(h.Size)))
	for at, end := pos+from, pos+int64(h.Size); at < end; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), end-at)]
		if err := c.readAt(buf, at); err != nil {
			return 0, 0, err
		}
		computed = crc32.Update(computed, table, buf)
	}
	return binary.BigEndian.Uint32(field[:]), computed, nil
}

func (c *Salvager) readAt(b []byte, pos int64) error {
	_, err := vfs.ReadFull(c.seg.open.log, b, pos)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return c.seg.corrupt(pos, int64(len(b)), -1, -1, fmt.Errorf("file ends before %d: %w", pos+int64(len(b)), io.ErrUnexpectedEOF))
	}
	if err != nil {
		return fmt.Errorf("read %s at position %d: %w", c.seg.Name(), pos, err)
	}
	return nil
}

// Follows reports whether what lies behind a batch of the given size at the
// present position could be the next one, or is the end. It is how a damaged
// length shows. lastOffset is the batch's.
func (c *Salvager) Follows(size int, lastOffset int64) (bool, error) {
	return c.followed(c.pos+int64(size), lastOffset)
}

// followed says the same of position pos. Half of a frame has to make sense, the
// offset or the size, since the batch there may be damaged as well.
func (c *Salvager) followed(pos, lastOffset int64) (bool, error) {
	if c.end-pos < record.MinFrame {
		return pos <= c.end, nil
	}
	b, err := c.frame(pos)
	if err != nil {
		return false, err
	}
	if b == [record.MinFrame]byte{} {
		return true, nil // nothing was written here
	}
	offset := int64(binary.BigEndian.Uint64(b[:]))
	if offset > lastOffset && c.fits(offset) {
		return true, nil
	}
	f, err := record.ParseFrame(b[:])
	return err == nil && f.Magic >= record.MagicV0 && f.Magic <= record.MagicV2 && int64(f.Size) <= c.end-pos, nil
}

func (c *Salvager) frame(pos int64) (b [record.MinFrame]byte, err error) {
	if off := pos - c.start; off >= 0 && off+int64(len(b)) <= int64(len(c.buf)) {
		copy(b[:], c.buf[off:])
		return b, nil
	}
	err = c.readAt(b[:], pos)
	return b, err
}

// OffsetBehind is the first field of what lies behind a batch of the given size
// at the present position: the offset of the next batch, if there is one. ok is
// false where the log ends.
func (c *Salvager) OffsetBehind(size int) (offset int64, ok bool, err error) {
	pos := c.pos + int64(size)
	if c.end-pos < record.MinFrame {
		return 0, false, nil
	}
	b, err := c.frame(pos)
	return int64(binary.BigEndian.Uint64(b[:])), err == nil, err
}

func (c *Salvager) fits(offset int64) bool {
	return offset >= c.seg.base && offset-c.seg.base <= math.MaxInt32
}

// Zeros counts the zero bytes from the present position on, up to the end.
func (c *Salvager) Zeros() (int64, error) {
	buf := make([]byte, piece)
	for pos := c.pos; pos < c.end; pos += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), c.end-pos)]
		if err := c.readAt(buf, pos); err != nil {
			return 0, err
		}
		for i, b := range buf {
			if b != 0 {
				return pos + int64(i) - c.pos, nil
			}
		}
	}
	return c.end - c.pos, nil
}

// Resync leaves damage at the present position for the next batch that can be
// believed: one whose offsets are not below next and fit the segment, whose
// checksum holds, and that has another behind it, or the end. The last keeps
// batches apart that a record may hold as its value. It returns how many bytes
// lie before; without such a batch these are all up to the end, and the error is
// io.EOF.
//
// It reads every byte it passes, but no batch larger than a MiB into memory.
func (c *Salvager) Resync(next int64) (skipped int64, err error) {
	from := c.pos
	pos, err := c.search(next)
	c.pos, c.size = pos, 0
	if err == nil && pos == c.end {
		err = io.EOF
	}
	return pos - from, err
}

// search returns the position of the next batch to believe, or the end. Where
// the damaged frame itself says that it ends is tried first.
func (c *Salvager) search(next int64) (int64, error) {
	if pos, ok, err := c.claimedEnd(next); ok || err != nil {
		return pos, err
	}
	if c.ahead == nil {
		c.ahead = make([]byte, scanChunk)
	}
	for pos := c.pos + 1; c.end-pos >= record.MinFrame; {
		b := c.ahead[:min(int64(len(c.ahead)), c.end-pos)]
		if err := c.readAt(b, pos); err != nil {
			return pos, err
		}
		// The last few bytes are looked at again with what follows them.
		starts := len(b) - record.HeaderSize + 1
		if pos+int64(len(b)) == c.end {
			starts = len(b) - record.MinFrame + 1
		}
		for i := range starts {
			if !c.likely(b[i:], next) {
				continue
			}
			if ok, err := c.believe(b[i:], pos+int64(i), next, true); ok || err != nil {
				return pos + int64(i), err
			}
		}
		pos += int64(starts)
	}
	return c.end, nil
}

// claimedEnd is where the damaged batch says that the next one starts, if there
// is a good one: then its length was not what was damaged.
func (c *Salvager) claimedEnd(next int64) (pos int64, ok bool, err error) {
	if c.end-c.pos < record.MinFrame {
		return c.pos, false, nil
	}
	var b [record.HeaderSize]byte
	if err := c.readAt(b[:record.MinFrame], c.pos); err != nil {
		return c.pos, false, err
	}
	f, err := record.ParseFrame(b[:])
	if err != nil || int64(f.Size) > c.end-c.pos-record.MinFrame {
		return c.pos, false, nil
	}
	pos = c.pos + int64(f.Size)
	header := b[:min(record.HeaderSize, c.end-pos)]
	if err := c.readAt(header, pos); err != nil {
		return c.pos, false, err
	}
	ok, err = c.believe(header, pos, next, false)
	return pos, ok, err
}

// likely is the test that most positions fail, made cheap.
func (c *Salvager) likely(b []byte, next int64) bool {
	if b[record.MinFrame-1] > byte(record.MagicV2) {
		return false
	}
	offset := int64(binary.BigEndian.Uint64(b))
	return offset >= next && c.fits(offset) && int32(binary.BigEndian.Uint32(b[offsetLength:])) >= smallestBodySize
}

// believe reports whether the header b at pos is that of a good batch.
func (c *Salvager) believe(b []byte, pos, next int64, alone bool) (bool, error) {
	h, err := record.Summarize(b)
	if err != nil || int64(h.Size) > c.end-pos {
		return false, nil
	}
	if h.BaseOffset < next || h.LastOffset < h.BaseOffset || !c.fits(h.LastOffset) {
		return false, nil
	}
	if alone {
		if ok, err := c.followed(pos+int64(h.Size), h.LastOffset); !ok || err != nil {
			return false, err
		}
	}
	if c.work -= int64(h.Size); c.work < 0 {
		c.work += int64(h.Size)
		return false, nil
	}
	stored, computed, err := c.checksum(pos, h)
	return err == nil && stored == computed, err
}
