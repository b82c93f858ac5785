package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

// batches returns n batches of two records, from an offset on, and where each
// begins.
func batches(t testing.TB, base int64, n int) (log []byte, positions []int64) {
	b := record.NewBuilder(record.BuilderOptions{})
	for i := range n {
		b.Reset(record.BuilderOptions{BaseOffset: base + 2*int64(i)})
		for range 2 {
			require.NoError(t, b.Append(record.Record{Timestamp: 1, Value: fmt.Appendf(nil, "value of batch %d", i)}))
		}
		built, err := b.Build()
		require.NoError(t, err)
		positions = append(positions, int64(len(log)))
		log = append(log, built...)
	}
	return log, positions
}

// walk returns the parts of log, which must cover all of it.
func walk(t testing.TB, log []byte, base int64) []Part {
	var w Walker
	w.Reset(bytes.NewReader(log), base, 0, int64(len(log)))
	var parts []Part
	end := int64(0)
	for w.Next() {
		p := w.Part()
		require.Equal(t, end, p.Position)
		require.Positive(t, p.Size)
		require.Equal(t, p.Kind == Whole, p.Err == nil)
		end += p.Size
		parts = append(parts, p)
	}
	require.NoError(t, w.Err())
	require.Equal(t, int64(len(log)), end)
	return parts
}

// whole returns where the whole batches among parts begin.
func whole(parts []Part) (positions []int64) {
	for _, p := range parts {
		if p.Kind == Whole {
			positions = append(positions, p.Position)
		}
	}
	return positions
}

func kinds(parts []Part) (kinds []PartKind) {
	for _, p := range parts {
		kinds = append(kinds, p.Kind)
	}
	return kinds
}

func TestWalkerFindsEveryBatchBehindAFlippedBit(t *testing.T) {
	log, positions := batches(t, 100, 5)
	bad := positions[2]
	for at := bad; at < positions[3]; at++ {
		for bit := range 8 {
			log[at] ^= 1 << bit
			parts := walk(t, log, 100)
			want := []int64{positions[0], positions[1], positions[3], positions[4]}
			if field := at - bad; field < 8 || field >= 12 && field < 16 {
				want = positions // base offset and leader epoch have no checksum
			}
			require.Equal(t, want, whole(parts), "byte %d bit %d: %v", at-bad, bit, parts)
			log[at] ^= 1 << bit
		}
	}
}

func TestWalkerTellsWhatTheEndIs(t *testing.T) {
	log, positions := batches(t, 0, 3)
	noise := make([]byte, 200)
	for i := range noise {
		noise[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).Uint32())
	}
	zeros := make([]byte, 300)
	tooLong := bytes.Clone(log)
	tooLong[positions[2]+9] ^= 1
	for _, tt := range []struct {
		name string
		log  []byte
		want []PartKind
	}{
		{"whole", log, []PartKind{Whole, Whole, Whole}},
		{"empty", nil, nil},
		{"last batch without its last bytes", log[:len(log)-9], []PartKind{Whole, Whole, Torn}},
		{"last batch with a size that claims more than there is", tooLong, []PartKind{Whole, Whole, Unreadable}},
		{"such a batch without its last bytes", tooLong[:len(log)-9], []PartKind{Whole, Whole, Torn}},
		{"part of a header", log[:positions[2]+40], []PartKind{Whole, Whole, Torn}},
		{"a few bytes", log[:positions[2]+9], []PartKind{Whole, Whole, Torn}},
		{"zeros", append(bytes.Clone(log), zeros...), []PartKind{Whole, Whole, Whole, Zeros}},
		{"five zeros", append(bytes.Clone(log), zeros[:5]...), []PartKind{Whole, Whole, Whole, Zeros}},
		{"zeros only", zeros, []PartKind{Zeros}},
		{"noise", append(bytes.Clone(log), noise...), []PartKind{Whole, Whole, Whole, Unreadable}},
		{"zeros between batches", append(append(bytes.Clone(log), zeros...), log...),
			[]PartKind{Whole, Whole, Whole, Unreadable, Whole, Whole, Whole}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, kinds(walk(t, tt.log, 0))) })
	}
}

// A claim of 2 GiB must cost neither 2 GiB nor the batches behind it.
func TestWalkerDoesNotBelieveASize(t *testing.T) {
	for _, size := range []uint32{0, 13, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		log, positions := batches(t, 0, 3)
		binary.BigEndian.PutUint32(log[positions[1]+8:], size)
		parts := walk(t, log, 0)
		require.Equal(t, []PartKind{Whole, Unreadable, Whole}, kinds(parts), "size %d", size)
		require.Equal(t, positions[2], parts[2].Position)
	}
}

func TestWalkerKeepsNoMoreThanWhatIsWhole(t *testing.T) {
	const claim = 64 << 20
	log := make([]byte, claim+1<<20)
	one, _ := batches(t, 0, 1)
	copy(log, one)
	binary.BigEndian.PutUint32(log[8:], claim-record.LogOverhead)
	var w Walker
	w.Reset(bytes.NewReader(log), 0, 0, int64(len(log)))
	for w.Next() {
	}
	require.NoError(t, w.Err())
	require.Less(t, cap(w.buf), 8<<20)
}

func TestWalkerChecksLargeBatchesWithoutKeepingThem(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{})
	require.NoError(t, b.Append(record.Record{Value: make([]byte, loadLimit+1)}))
	log, err := b.Build()
	require.NoError(t, err)
	require.Equal(t, []PartKind{Whole}, kinds(walk(t, log, 0)))
	log[len(log)-2] ^= 1
	require.Equal(t, []PartKind{Damaged}, kinds(walk(t, log, 0)))
}

func TestWalkerReturnsErrorsOfReading(t *testing.T) {
	log, _ := batches(t, 0, 3)
	var w Walker
	w.Reset(failing{}, 0, 0, int64(len(log)))
	require.False(t, w.Next())
	require.ErrorIs(t, w.Err(), errDisk)

	// The file became shorter than it was when the walk began.
	w.Reset(bytes.NewReader(log[:100]), 0, 0, int64(len(log)))
	for w.Next() {
	}
	require.ErrorIs(t, w.Err(), io.ErrUnexpectedEOF)
}

var errDisk = errors.New("disk")

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

// Properties: never panics, ends, covers every byte once, keeps no more memory
// than there are bytes.
func FuzzWalker(f *testing.F) {
	log, _ := batches(f, 7, 2)
	f.Add(log)
	f.Add(log[:len(log)-1])
	f.Add(append([]byte("no log at all"), log...))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, part := range walk(t, log, 0) {
			require.LessOrEqual(t, part.Position+part.Size, int64(len(log)))
		}
	})
}
