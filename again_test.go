package seglog

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a read-only log another process may replace one file again and again: one that is
// shorter than it was is looked at anew, at the same place, too, but not for ever.
func TestAFileThatIsShorterThanItWasIsLookedAtAgainSomeTimes(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	_, err = l.Append([]Record{{Timestamp: 1, Value: []byte("value")}}, nil)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	ro, err := Open(dir, Options{ReadOnly: true})
	require.NoError(t, err)
	defer ro.Close()

	met := func(cause error) (times int) {
		d := ro.newDoubt()
		damage := &CorruptionError{File: "00000000000000000000.log", Position: 10, Err: cause}
		for ; times <= 2*maxRefreshes; times++ {
			more, err := ro.again(&d, damage)
			if !more {
				require.ErrorIs(t, err, ErrCorrupt)
				return times
			}
		}
		return times
	}
	require.Equal(t, maxRefreshes, met(fmt.Errorf("file ends at 10: %w", io.ErrUnexpectedEOF)))
	require.Zero(t, met(fmt.Errorf("crc mismatch")), "nothing has changed: it is believed at once")
}
