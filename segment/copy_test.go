package segment

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// byCalls is more than a scan reads by calls first.
const byCalls = 2 * scanChunk

// newPlaces is NewPlaces on systems with 32 bits, too, where there are none in use.
func newPlaces(bytes int64) *Places {
	if p := NewPlaces(bytes); p != nil || bytes <= 0 {
		return p
	}
	return &Places{budget: bytes}
}

// copied is a segment with places, whose log is long enough to be copied in part.
type copied struct {
	s         *Segment
	log       []byte
	positions []int64
}

func newCopied(t *testing.T) *copied {
	t.Helper()
	const base = 100
	log, positions := batches(t, base, (byCalls+4*copyChunk)/120)
	require.Greater(t, len(log), byCalls+3*copyChunk)
	return &copied{holding(t, log, base, newPlaces(1<<20)), log, positions}
}

func (f *copied) write(t *testing.T, at int) {
	t.Helper()
	_, err := vfs.WriteFull(f.s.open.log, f.log[at:at+1], int64(at))
	require.NoError(t, err)
}

func (f *copied) scan() *Scanner {
	c := new(Scanner)
	c.Reset(f.s, 0, int64(len(f.log)))
	c.Bound(Bound{Upper: 1 << 30, Sealed: true})
	return c
}

// read returns what a scan reads before its end or an error, and how much of it was copied.
func (f *copied) read(c *Scanner) (log []byte, fromCopies int, err error) {
	for {
		b, err := c.Checked()
		if err != nil {
			return log, fromCopies, err
		}
		if c.copied {
			fromCopies += b.Size()
		}
		log = append(log, b.Bytes()...)
		c.Advance()
	}
}

func TestAScanThatGoesOnCopiesFromTheMapping(t *testing.T) {
	f := newCopied(t)
	for _, sealed := range []bool{true, false} {
		c := f.scan()
		c.Bound(Bound{Upper: 1 << 30, Sealed: sealed})
		log, fromCopies, err := f.read(c)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, f.log, log)
		if vfs.KnowsResident {
			require.Greater(t, fromCopies, 2*copyChunk)
		} else {
			require.Zero(t, fromCopies)
		}
	}
}

// TestAScanAsksAheadForAChunk has a reader that says it has decoded more than there is, as
// of a compressed batch: no more is asked for than the batch takes in the file.
func TestAScanAsksAheadForAChunk(t *testing.T) {
	f := newCopied(t)
	c := f.scan()
	asked := 0
	for {
		b, err := c.Checked()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		before := c.asked
		if c.Ahead(10); c.copied {
			require.Equal(t, max(before, min(c.pos+10+copyChunk, int64(len(f.log)))), c.asked)
			c.Ahead(1 << 30)
			require.Equal(t, min(c.pos+int64(b.Size())+copyChunk, int64(len(f.log))), c.asked)
			asked++
		} else {
			require.Equal(t, before, c.asked)
		}
		c.Advance()
	}
	require.Equal(t, vfs.KnowsResident, asked > 0)
}

func TestALookUpMapsNothing(t *testing.T) {
	f := newCopied(t)
	c := f.scan()
	for range 100 {
		_, err := c.Checked()
		require.NoError(t, err)
		c.Advance()
	}
	require.Empty(t, f.s.memory.maps)
}

func TestNothingIsCopiedWhereThatIsNotWanted(t *testing.T) {
	for name, change := range map[string]func(f *copied, c *Scanner){
		"no mappings":                 func(f *copied, c *Scanner) { f.s.opts.Places = nil },
		"written by another process":  func(f *copied, c *Scanner) { f.s.writable.Store(false); c.Bound(Unbounded) },
		"the memory failed before":    func(f *copied, c *Scanner) { f.s.memory.failed.Store(true) },
		"something was not in memory": func(f *copied, c *Scanner) { c.calls = int64(len(f.log)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newCopied(t)
			c := f.scan()
			change(f, c)
			log, fromCopies, err := f.read(c)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, f.log, log)
			require.Zero(t, fromCopies)
		})
	}
}

// Whatever byte is wrong of a batch that would be copied, a scan says what one by calls does.
func TestDamageToWhatIsCopiedIsToldAsEver(t *testing.T) {
	f := newCopied(t)
	n := 0
	for _, p := range f.positions { // one in the middle of a copy
		if p > byCalls+copyChunk/2 {
			break
		}
		n++
	}
	for at := f.positions[n]; at < f.positions[n+1]; at++ {
		flip := byte(1) << (at % 8)
		f.log[at] ^= flip
		f.write(t, int(at))
		fast, slow := f.scan(), f.scan()
		slow.calls = int64(len(f.log))
		got, _, gotErr := f.read(fast)
		want, fromCopies, wantErr := f.read(slow)
		require.Zero(t, fromCopies)
		require.Equal(t, wantErr.Error(), gotErr.Error(), "byte %d", at)
		require.Len(t, got, len(want), "byte %d", at)
		require.Equal(t, slow.Position(), fast.Position(), "byte %d", at)
		f.log[at] ^= flip
		f.write(t, int(at))
	}
}

// Someone cuts the file. The rest of its last page is zeros in memory, and what is behind
// is not there.
func TestACutFileIsToldByTheCallThatReadsIt(t *testing.T) {
	for _, beyondPage := range []bool{false, true} {
		f := newCopied(t)
		if _, _, err := f.read(f.scan()); vfs.KnowsResident { // so that it is mapped
			require.ErrorIs(t, err, io.EOF)
			require.NotEmpty(t, f.s.memory.maps)
		}
		cut := int64(byCalls + copyChunk + 1000)
		if beyondPage {
			cut = byCalls + copyChunk // nothing of the page is left
		}
		if vfs.KnowsResident { // other systems do not cut what is mapped
			cutBy(t, f.s, cut)
		} else {
			require.NoError(t, f.s.open.log.Truncate(cut))
		}
		log, _, err := f.read(f.scan())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, ErrCorrupt)
		require.Equal(t, f.log[:len(log)], log)
		require.Greater(t, int64(len(log)), cut-200, "all that is whole was read before")
	}
}

func cutBy(t *testing.T, s *Segment, size int64) {
	t.Helper()
	other, err := vfs.OS.OpenFile(filepath.Join(s.dir, s.Name()), 2, 0)
	require.NoError(t, err)
	require.NoError(t, other.Truncate(size))
	require.NoError(t, other.Close())
}

// Memory that fails under a copy is left alone from then on.
func TestAFaultUnderACopyIsReadAround(t *testing.T) {
	if !vfs.KnowsResident {
		return
	}
	f := newCopied(t)
	memory := f.s.mappedTo(int64(len(f.log)))
	require.NotNil(t, memory)
	cutBy(t, f.s, 0)
	buf := make([]byte, copyChunk)
	require.False(t, f.s.copyMapped(buf, memory[byCalls:byCalls+copyChunk]))
	require.True(t, f.s.memory.failed.Load())
	cutBy(t, f.s, int64(len(f.log)))
	_, err := vfs.WriteFull(f.s.open.log, f.log, 0)
	require.NoError(t, err)
	log, fromCopies, err := f.read(f.scan())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, f.log, log)
	require.Zero(t, fromCopies)
}

// A batch that is larger than a copy is read by a call.
func TestALargeBatchAmongSmallOnesIsScanned(t *testing.T) {
	f := newCopied(t)
	last := int64(100 + 2*len(f.positions))
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: last})
	require.NoError(t, b.Append(record.Record{Timestamp: 1, Value: make([]byte, 3*copyChunk)}))
	large, err := b.Build()
	require.NoError(t, err)
	f.log = append(f.log, large...)
	behind, _ := batches(t, last+1, 3000)
	f.log = append(f.log, behind...)
	_, err = vfs.WriteFull(f.s.open.log, f.log, 0)
	require.NoError(t, err)
	f.s.size.Store(int64(len(f.log)))
	log, _, err := f.read(f.scan())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, f.log, log)
}

func TestCopyingAllocatesNothingPerChunk(t *testing.T) {
	f := newCopied(t)
	c := f.scan()
	allocs := testing.AllocsPerRun(5, func() {
		c.Reset(f.s, 0, int64(len(f.log)))
		c.Bound(Bound{Upper: 1 << 30, Sealed: true})
		for {
			if _, err := c.Checked(); err != nil {
				return
			}
			c.Advance()
		}
	})
	require.Zero(t, allocs)
}
