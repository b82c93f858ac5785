package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// holding is an acquired segment that holds log.
func holding(t *testing.T, log []byte, base int64, p *Places) *Segment {
	t.Helper()
	s, err := Create(t.TempDir(), base, Options{FS: vfs.OS, IndexIntervalBytes: 4096, Places: p})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Retire()) })
	_, err = vfs.WriteFull(s.open.log, log, 0)
	require.NoError(t, err)
	s.size.Store(int64(len(log)))
	require.NoError(t, s.Acquire())
	t.Cleanup(s.Release)
	return s
}

// over returns what begins scans over a segment that holds log.
func over(t *testing.T, log []byte, base int64) (scan func() *Scanner) {
	s := holding(t, log, base, nil)
	return func() *Scanner {
		c := new(Scanner)
		c.Reset(s, 0, int64(len(log)))
		return c
	}
}

// Held says of a batch what Checked says without it, or nothing: whatever is wrong with
// the batch or with what lies behind it, in any byte.
func TestWhatIsHeldIsWhatCheckedReturns(t *testing.T) {
	const base, n = 100, 5
	log, _ := batches(t, base, n)
	scan := over(t, log, base)
	held := 0
	for at := range log {
		for _, flip := range []byte{1, 2, 0x80} {
			log[at] ^= flip
			scanned := scan()
			file := scanned.seg.open.log
			_, err := vfs.WriteFull(file, log[at:at+1], int64(at))
			require.NoError(t, err)
			fast, slow := scan(), scan()
			for _, c := range []*Scanner{fast, slow} {
				c.Bound(Bound{Upper: base + 2*n, Sealed: true})
			}
			for {
				want, err := slowly(slow)
				fast.header() // reads ahead
				got, ok := fast.Held()
				if err != nil {
					require.False(t, ok, "byte %d: %v", at, err)
					break
				}
				if ok {
					held++
					require.Equal(t, want.Bytes(), got.Bytes(), "byte %d", at)
				} else {
					_, err = slowly(fast)
					require.NoError(t, err)
				}
				require.Equal(t, slow.head, fast.head, "byte %d", at)
				fast.Advance()
				slow.Advance()
				require.Equal(t, slow.place, fast.place, "byte %d", at)
			}
			log[at] ^= flip
			_, err = vfs.WriteFull(file, log[at:at+1], int64(at))
			require.NoError(t, err)
		}
	}
	require.Greater(t, held, 3*len(log), "one or two before the damage")
}

// slowly is Checked without its shortcut.
func slowly(c *Scanner) (record.Batch, error) {
	if _, err := c.Header(); err != nil { // so that it is seen
		return record.Batch{}, err
	}
	return c.Checked()
}

func TestNothingIsHeldThatWouldNeedTheFile(t *testing.T) {
	log, positions := batches(t, 100, 3)
	c := over(t, log, 100)()
	_, ok := c.Held()
	require.False(t, ok, "nothing was read")
	_, err := c.Header()
	require.NoError(t, err)
	_, ok = c.Held()
	require.False(t, ok, "its header was asked for, and may have been found wrong")
	c.seen = false
	_, ok = c.Held()
	require.True(t, ok)
	c.Advance()
	c.buf = c.buf[:positions[2]+record.MinFrame-1]
	_, ok = c.Held()
	require.False(t, ok, "the frame behind it is not there")
	c.buf = c.buf[:positions[2]+record.MinFrame]
	_, ok = c.Held()
	require.True(t, ok)
	c.Advance()
	c.buf = c.buf[:len(log)]
	_, ok = c.Held()
	require.False(t, ok, "nothing is behind the last one: is that the end?")
	c.suspect = 1
	c.moveTo(0)
	_, ok = c.Held()
	require.False(t, ok, "one is in doubt")
}
