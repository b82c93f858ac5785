//go:build unix && !race

package mapped

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file system that copies on write needs a new block to change an old one, and
// has nothing but the signal to say that there is none. Reserve finds out, before
// the log is written.
//
// Not under the race detector, which writes from C code. Faults there end the
// process whatever is asked for.
func TestPageThatCanOnlyBeReadFailsReserve(t *testing.T) {
	inChild(t, func(t *testing.T) {
		table, _ := filled(t, 10, Options{})
		protect(t, table.bytes, unix.PROT_READ)
		requireFilled(t, table, 10)
		fault := requireFault(t, table, table.Reserve())
		require.EqualValues(t, 10*12, fault.Position)
		protect(t, table.bytes, unix.PROT_READ|unix.PROT_WRITE)
		requireFaultStays(t, table, fault)
		require.NoError(t, table.Close())
	})
}
