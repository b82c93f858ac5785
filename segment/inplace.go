package segment

import (
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"runtime/debug"

	"github.com/seglog/seglog/internal/prefetch"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// Recovery waits for memory: it has to look at each byte of what nobody has synced, which
// may be a segment. Its batches are checked where they lie in the mapped file, and what
// comes a page further on is asked for meanwhile: that takes half the time of reading the
// same bytes by calls, and of looking at the copies.
//
// It counts only if all is well. What is not, because it is damaged, the file was cut or
// the disk has failed, is left to the walk, which reads it by calls and says what is wrong;
// and so is what is not in memory (see copy.go) and what needs more than the header.
type inPlace struct {
	seg   *Segment
	parts []Part // batches that are good, the next ones of a walk
	taken int    // so many of them

	calls    int64 // what lies below is read by calls
	resident int64 // what lies below was in memory lately
}

const (
	// partsAtOnce is for how many batches one guard against faults is set up.
	partsAtOnce = 64
	// sumPiece is how much is added to a checksum at once, while as much is asked for
	// sumAhead bytes further on.
	sumPiece, sumAhead = 2 << 10, 4 << 10
)

// inPlaceWalk returns what checks the log for recovery, nil if that takes calls.
func (s *Segment) inPlaceWalk() *inPlace {
	if s.opts.Places == nil || !vfs.KnowsResident {
		return nil
	}
	return &inPlace{seg: s, parts: make([]Part, 0, partsAtOnce)}
}

// next returns the batch at pos if it is good. No part of a walk goes beyond end.
func (m *inPlace) next(pos, end int64) (Part, bool) {
	if m.taken == len(m.parts) || m.parts[m.taken].Position != pos {
		m.parts, m.taken = m.parts[:0], 0
		if pos < m.calls || !m.look(pos, end) {
			return Part{}, false
		}
	}
	m.taken++
	return m.parts[m.taken-1], true
}

// look finds good batches from pos on.
func (m *inPlace) look(pos, end int64) bool {
	s := m.seg
	if s.memory.failed.Load() {
		return false
	}
	memory := s.mappedTo(end)
	if memory == nil {
		return false
	}
	if m.resident <= pos {
		m.resident = min(pos+lookChunk, end)
		if !vfs.Resident(memory[pos:m.resident]) || !s.mapIn(memory[pos:m.resident]) {
			m.calls, m.resident = pos+callChunk, 0
			return false
		}
	}
	m.check(memory[:end], pos)
	if len(m.parts) == 0 {
		m.calls = pos + 1
	}
	return len(m.parts) > 0
}

// mapIn has the pages mapped of memory that is there: what is not mapped cannot be asked for
// ahead.
func (s *Segment) mapIn(memory []byte) (ok bool) {
	defer s.memory.catch(debug.SetPanicOnFault(true), &ok)
	var sum byte
	for at := 0; at < len(memory); at += smallPage {
		sum += memory[at]
	}
	runtime.KeepAlive(sum)
	return true
}

// check adds the good batches from pos on to parts, as far as they begin in what is known
// to be in memory.
func (m *inPlace) check(memory []byte, pos int64) (ok bool) {
	defer m.seg.memory.catch(debug.SetPanicOnFault(true), &ok)
	for len(m.parts) < partsAtOnce && pos < m.resident {
		b := memory[pos:]
		s, err := record.Summarize(b[:min(len(b), record.HeaderSize)])
		if err != nil || s.Magic != record.MagicV2 || s.ProducerID != record.NoProducerID ||
			s.Size > min(len(b), loadLimit) || !soundInPlace(b, s.Size) {
			break
		}
		m.parts = append(m.parts, Part{Kind: Whole, Position: pos, Size: int64(s.Size), Summary: s})
		pos += int64(s.Size)
	}
	return true
}

// soundInPlace reports whether the checksum matches of a batch of size bytes at the
// beginning of b.
func soundInPlace(b []byte, size int) bool {
	table, sum := crc32.MakeTable(crc32.Castagnoli), uint32(0)
	address := addressOf(b)
	for at := crcCovers; at < size; at += sumPiece {
		to := min(at+sumPiece, size)
		if ahead := min(to+sumAhead, len(b)); ahead > at+sumAhead {
			prefetch.Bytes(address+uintptr(at+sumAhead), ahead-at-sumAhead)
		}
		sum = crc32.Update(sum, table, b[at:to])
	}
	return sum == binary.BigEndian.Uint32(b[crcPosition:])
}
