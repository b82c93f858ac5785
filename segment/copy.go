package segment

import (
	"runtime/debug"

	"github.com/seglog/seglog/internal/prefetch"
	"github.com/seglog/seglog/internal/vfs"
)

// A scan that goes on copies what it reads from the mapped log file. That takes half the
// time of a read, which copies the same bytes from the same place, and reading is the
// largest part of what a scan of small records costs. It is done where it is safe and does
// no harm:
//
//   - what comes of it counts only if all is well with it, its checksum and its neighbours.
//     What is not, because someone has cut the file or the disk has failed, is read by a
//     call, which has the error;
//   - what is not in memory is read by a call: that reads ahead, and a goroutine that waits
//     for a disk in a page fault would hold up others;
//   - the file of a segment that another process writes to would have to be mapped anew
//     each time it has grown.
const (
	// copyChunk is how much is copied at once: the caches still have it when its checksum
	// is taken and its records are decoded.
	copyChunk = 64 << 10
	// lookChunk is for how much the kernel is asked at once whether it is in memory.
	lookChunk = 1 << 20
	// callChunk is how much is read by calls after a batch could not be copied.
	callChunk = 8 << 20
)

// copying is how a Scanner stands with copies.
type copying struct {
	copied   bool  // the buffer is from the mapped file, and for Held alone
	calls    int64 // what lies below is read by calls
	resident int64 // what lies below was in memory lately

	address uintptr // of the mapped file; only ever to prefetch from
	asked   int64   // what lies below was copied or asked for
	askable int64   // and what lies below is mapped
}

// Ahead is for one who has decoded so much of the present batch: as much is asked for
// behind what has been copied, so that the next copy finds it in a cache. A scan then
// waits for memory while it decodes. Who calls it too seldom asks for too much at once, and
// waits. Of a batch that is compressed much more may be decoded than it has.
func (c *Scanner) Ahead(decoded int) {
	to := min(c.pos+min(int64(decoded), c.size)+copyChunk, c.askable)
	if c.copied && to > c.asked {
		prefetch.Bytes(c.address+uintptr(c.asked), int(to-c.asked))
		c.asked = to
	}
}

// copyAhead fills the buffer with bytes of the mapped file, from the present position on,
// for Held to find batches in. It reports false, and leaves the buffer alone or empty, if
// they are to be read by a call. The segment must be acquired.
func (c *Scanner) copyAhead() bool {
	to := c.pos + copyChunk
	if c.pos < c.calls || to > c.end || c.seg.opts.Places == nil || !vfs.KnowsResident ||
		!c.bound.Sealed && !c.seg.writable.Load() || c.seg.memory.failed.Load() {
		return false
	}
	memory := c.seg.mappedTo(to)
	if memory == nil {
		return false
	}
	if to > c.resident {
		c.resident = min(c.pos+lookChunk, c.end, int64(len(memory)))
		if !vfs.Resident(memory[c.pos:c.resident]) {
			c.calls, c.resident = c.pos+callChunk, 0
			return false
		}
	}
	if cap(c.buf) < copyChunk {
		c.buf = make([]byte, copyChunk)
	}
	c.buf, c.start = c.buf[:copyChunk], c.pos
	c.address, c.asked, c.askable = addressOf(memory), to, min(c.end, int64(len(memory)))
	if c.copied = c.seg.copyMapped(c.buf, memory[c.pos:to]); !c.copied {
		c.Forget()
	}
	return c.copied
}

// copyMapped copies mapped memory, which may fail. Then it is not touched again, and
// reading says what is wrong.
func (s *Segment) copyMapped(dst, memory []byte) (ok bool) {
	defer s.memory.catch(debug.SetPanicOnFault(true), &ok)
	copy(dst, memory)
	return true
}
