package mapped

import (
	"encoding/binary"
	"math/bits"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// warmBytes is how much of the end of a table Floor looks at first.
const warmBytes = 8192

// wordSize is the unit of reading and writing: one that no reader sees half of.
const wordSize = 4

// Field is a signed big-endian integer in an entry.
type Field struct {
	At   int // byte in the entry, a multiple of 4
	Size int // 4 or 8
}

// decode returns the field of an entry in ordinary memory.
func (f Field) decode(entry []byte) int64 {
	if f.Size == wordSize {
		return int64(int32(binary.BigEndian.Uint32(entry[f.At:])))
	}
	return int64(binary.BigEndian.Uint64(entry[f.At:]))
}

// View is a table as one reader sees it: the entries there were when it was
// taken. Entries added later do not show. See Read.
type View struct {
	Len   int // number of entries
	bytes []byte
	size  int
}

// Read calls f with the entries as they are now, and again if some were cut off
// meanwhile, when their slots may have held anything. What f found last counts
// if Read returns nil; the view itself must not outlive f. Neither Read nor f as
// a function literal allocates.
//
// Read fails with a *FaultError if the mapped memory does, and then f may have
// got anywhere; or if it did before, and then f is not called.
func (t *Table) Read(f func(View)) (err error) {
	if err := t.firstFault(); err != nil {
		return err
	}
	// This is guarded again, because calling it would double the cost.
	defer t.catch(debug.SetPanicOnFault(true), &err)
	for {
		// cuts first: whoever sees the new value sees the shrunk count too.
		cuts := t.cuts.Load()
		f(t.view())
		if t.cuts.Load() == cuts {
			return nil
		}
	}
}

func (t *Table) view() View {
	return View{Len: t.Len(), bytes: t.bytes, size: t.layout.EntrySize}
}

// Int returns a field of the entry in slot.
func (v *View) Int(slot int, f Field) int64 {
	b := v.bytes[slot*v.size+f.At:]
	high := loadWord(b)
	if f.Size == wordSize {
		return int64(int32(high))
	}
	return int64(high)<<32 | int64(loadWord(b[wordSize:]))
}

// Floor returns the last slot whose field is at or below target, or -1. The
// field must not decrease from slot to slot; if it does, the slot returned is
// some slot at or below target.
//
// The search starts with the slot 8 KiB before the end and stays in that part
// if it can. Consumers and replicas read near the end, so their searches touch
// the same two or three pages each time, and those stay in memory: a plain
// binary search would touch pages all over the file, another set whenever it
// has grown by a page. The idea is Kafka's (AbstractIndex.java), the answers
// are those of a plain search.
func (v *View) Floor(f Field, target int64) int {
	low, high := -1, v.Len // field(low) <= target < field(high)
	if warm := v.Len - 1 - warmBytes/v.size; warm > 0 {
		if v.Int(warm, f) <= target {
			low = warm
		} else {
			high = warm
		}
	}
	if high-low > 8*near {
		low, high = v.narrow(f, target, low, high)
	}
	for high-low > 1 {
		middle := int(uint(low+high) / 2)
		if v.Int(middle, f) <= target {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// near is how close to the slot that narrow guesses it looks first.
const near = 4

// narrow leaves fewer slots to bisect where the field rises evenly, as offsets and
// times mostly do: those about the slot where the target would be on a straight line.
// If it is not there it is looked for eight times as far away, and so on.
func (v *View) narrow(f Field, target int64, low, high int) (int, int) {
	first, last := max(low, 0), high-1
	from, to := float64(v.Int(first, f)), float64(v.Int(last, f))
	guess := first
	if part := (float64(target) - from) / (to - from); part > 0 && part < 1 {
		guess += int(part * float64(last-first))
	}
	for w := near; high-low > 2*w; w *= 8 {
		low, high = v.bound(f, target, low, high, guess-w)
		low, high = v.bound(f, target, low, high, guess+w)
	}
	return low, high
}

// bound is the bounds after a look at what is in a slot, if it lies between them.
func (v *View) bound(f Field, target int64, low, high, slot int) (int, int) {
	switch {
	case slot <= low || slot >= high:
	case v.Int(slot, f) <= target:
		low = slot
	default:
		high = slot
	}
	return low, high
}

// Below returns how many entries at the front have a field below target.
func (v *View) Below(f Field, target int64) int {
	if target < 0 {
		return 0 // no field of a sound entry is negative
	}
	return v.Floor(f, target-1) + 1
}

// loadWord and storeWord are atomic, so that a reader which TruncateTo and
// Append have overtaken reads an old word or a new one, in the order they were
// written, before it finds out. On common processors this costs nothing.
func loadWord(b []byte) uint32 {
	return bigEndian(atomic.LoadUint32((*uint32)(unsafe.Pointer((*[wordSize]byte)(b)))))
}

func storeWord(b []byte, word uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer((*[wordSize]byte)(b))), bigEndian(word))
}

// bigEndian converts between the processor's order and the file's.
func bigEndian(word uint32) uint32 {
	if cpu.IsBigEndian {
		return word
	}
	return bits.ReverseBytes32(word)
}
