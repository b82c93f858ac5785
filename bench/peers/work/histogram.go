package work

import (
	"math/bits"
	"time"
)

// Histogram counts durations with an error below 1 %. The zero value is empty.
type Histogram struct {
	counts [64 << fine]int64
	n      int64
}

const fine = 7 // bits of a bucket within a power of two

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(uint64(max(0, d)))]++
	h.n++
}

func bucket(v uint64) int {
	if v < 1<<fine {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - fine
	return shift<<fine + int(v>>shift)
}

func lowest(bucket int) uint64 {
	if bucket < 2<<fine {
		return uint64(bucket)
	}
	shift := bucket>>fine - 1
	return uint64(bucket-shift<<fine) << shift
}

// Count is how many were added.
func (h *Histogram) Count() int64 { return h.n }

// Quantile is the duration that the given share, 0 to 1, does not exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.n))
	for i, c := range h.counts {
		if rank -= c; rank < 0 {
			return time.Duration(lowest(i))
		}
	}
	for i := len(h.counts) - 1; i >= 0; i-- {
		if h.counts[i] > 0 {
			return time.Duration(lowest(i))
		}
	}
	return 0
}
