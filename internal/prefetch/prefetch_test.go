package prefetch

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestBytesIsOnlyAHint asks for memory that is there, that is not, and for none.
func TestBytesIsOnlyAHint(t *testing.T) {
	memory := make([]byte, 1<<16)
	here := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, address := range []uintptr{here, here + 1, here + 63, 0, 1, 4096, 1 << 30, math.MaxUint - 4096} {
		for _, n := range []int{0, 1, 63, 64, 65, 1 << 16} {
			Bytes(address, n)
		}
	}
	require.Equal(t, make([]byte, 1<<16), memory)
	require.Zero(t, testing.AllocsPerRun(100, func() { Bytes(here, 4096) }))
}
