package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

func TestOfTwoBatchesThatContradictEachOtherTheWrongOneIsFound(t *testing.T) {
	const none = math.MaxInt64
	at := func(first, last int64) record.Summary {
		return record.Summary{Magic: record.MagicV2, BaseOffset: first, LastOffset: last}
	}
	for _, tt := range []struct {
		name           string
		before         int64
		p              record.Summary
		behind         []record.Summary
		upper          int64
		present, other bool
	}{
		{"moved far up", 4, at(5+64, 5+64), []record.Summary{at(6, 6), at(7, 7), at(8, 8), at(9, 9)}, none, true, false},
		{"moved up by one", 3, at(5, 5), []record.Summary{at(5, 5), at(6, 6)}, none, true, false},
		{"moved up by one, the last but one", 3, at(5, 5), []record.Summary{at(5, 5)}, 6, true, false},
		{"moved up by a part of its width", 9, at(14, 23), []record.Summary{at(20, 29), at(30, 39)}, none, true, false},
		{"next moved below the one before", 4, at(5, 5), []record.Summary{at(2, 2), at(7, 7), at(8, 8), at(9, 9)}, none, false, false},
		{"next moved down by one", 4, at(5, 5), []record.Summary{at(5, 5), at(7, 7), at(8, 8)}, none, false, false},
		{"next, the last, moved down", 4, at(5, 5), []record.Summary{at(2, 2)}, 7, false, false},
		{"next, the last, moved down by a part of its width", 9, at(10, 19), []record.Summary{at(12, 21)}, 30, false, false},
		{"next moved down into a gap behind the present one", 9, at(10, 19), []record.Summary{at(20, 29), at(40, 49)}, none, false, false},
		{"next moved beyond the next segment", 4, at(5, 5), []record.Summary{at(6+64, 6+64), at(7, 7)}, 10, false, false},
		{"all those behind lie below", 100, at(200, 200), []record.Summary{at(6, 6), at(7, 7), at(8, 8), at(9, 9)}, none, true, false},
		{"room for either", 4, at(7, 7), []record.Summary{at(6, 6), at(20, 20)}, none, true, true},
		{"room for either, at the end", 2, at(7, 7), []record.Summary{at(4, 4)}, none, true, true},
		{"room for neither", 4, at(6, 6), []record.Summary{at(5, 5), at(7, 7)}, none, true, false},
		{"nothing behind", 4, at(7, 7), nil, none, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, present, other := contradicted(tt.before, tt.p, tt.behind, tt.upper)
			require.Equal(t, tt.present, present, "present")
			require.Equal(t, tt.other, other, "other")
		})
	}
}

// scanned returns the offsets of the batches that a scan gives, stepping over damage,
// and how much damage it met.
func scanned(t *testing.T, log []byte, base int64, b Bound) (offsets []int64, damage int) {
	c := over(t, log, base)()
	c.Bound(b)
	for {
		batch, err := c.Checked()
		if err == io.EOF {
			return offsets, damage
		}
		if err == nil {
			offsets = append(offsets, batch.BaseOffset())
			c.Advance()
			continue
		}
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, c.Position(), corrupt.Position)
		damage++
		if err = c.SkipDamage(); err == io.EOF {
			return offsets, damage
		}
		require.NoError(t, err)
	}
}

func TestAScanNeverGivesABatchThatItsNeighboursContradict(t *testing.T) {
	const n, base = 8, 100
	log, positions := batches(t, base, n)
	for victim := range n {
		var want []int64
		for i := range int64(n) {
			if i != int64(victim) {
				want = append(want, base+2*i)
			}
		}
		t.Run(fmt.Sprint("batch ", victim), func(t *testing.T) { // which unmaps all that it has mapped
			for bit := range 64 {
				b := log[positions[victim]:]
				was := binary.BigEndian.Uint64(b)
				binary.BigEndian.PutUint64(b, was^1<<bit)
				got, damage := scanned(t, log, base, Bound{Upper: base + 2*n, Sealed: true})
				require.Equal(t, want, got, "bit %d", bit)
				require.Equal(t, 1, damage, "bit %d", bit)
				binary.BigEndian.PutUint64(b, was)
			}
		})
	}
}

// Both ways of reading it are possible, and one of them serves wrong offsets.
func TestOfTwoBatchesOfWhichEitherMayBeWrongNoneIsGiven(t *testing.T) {
	log, positions := batches(t, 0, 4)
	for i, offset := range []uint64{0, 14, 10, 40} {
		binary.BigEndian.PutUint64(log[positions[i]:], offset)
	}
	got, damage := scanned(t, log, 0, Bound{Upper: 50, Sealed: true})
	require.Equal(t, []int64{0, 40}, got)
	require.Equal(t, 2, damage)
}

// counting counts the bytes that are read.
type counting struct {
	r io.ReaderAt
	n int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.r.ReadAt(b, at)
	c.n += int64(n)
	return n, err
}

// A long row of headers that are no batches, in front of bytes that look like none.
func TestLookingForTheNextBatchReadsBytesOnce(t *testing.T) {
	head := make([]byte, record.HeaderSize)
	binary.BigEndian.PutUint32(head[8:], record.HeaderSize-record.LogOverhead)
	head[16] = byte(record.MagicV2)
	for _, tt := range []struct {
		name string
		size uint32 // what every second header claims
	}{
		{"small", record.HeaderSize},
		{"each reaching over all others", 400 * record.HeaderSize},
		{"each reaching to the end", 1<<20 + 400*record.HeaderSize},
		{"larger than the log", 1 << 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []byte
			for i := range uint64(1000) {
				binary.BigEndian.PutUint64(head, 5000-i) // none follows the one before
				binary.BigEndian.PutUint32(head[8:], record.HeaderSize-record.LogOverhead)
				if i%2 == 0 {
					binary.BigEndian.PutUint32(head[8:], tt.size-record.LogOverhead)
				}
				log = append(log, head...)
			}
			for range 1 << 20 {
				log = append(log, 0xff)
			}
			good, _ := batches(t, 10000, 2)
			log = append(log, good...)
			for _, generous := range []bool{true, false} {
				r := counting{r: bytes.NewReader(log)}
				var w Walker
				w.Reset(&r, 0, 0, int64(len(log)))
				if !generous { // without what a small log may cost in any case
					w.allowed -= 64 << 20
					w.budget = w.allowed
				}
				var last Part
				for w.Next() {
					last = w.Part()
				}
				require.NoError(t, w.Err())
				if generous {
					require.Equal(t, Whole, last.Kind)
				} else {
					require.Less(t, r.n, 12*int64(len(log)))
				}
			}
		})
	}
}

// When too much has been read in vain, a batch that is followed by another is still
// found.
func TestBatchesAreFoundBehindBytesThatLookLikeMany(t *testing.T) {
	log, positions := batches(t, 0, 6)
	log[positions[2]+8] ^= 1
	var w Walker
	w.Reset(bytes.NewReader(log), 0, 0, int64(len(log)))
	w.budget = 0
	var found []int64
	for w.Next() {
		if w.Part().Kind == Whole {
			found = append(found, w.Part().Position)
		}
	}
	require.NoError(t, w.Err())
	require.Equal(t, append(positions[:2:2], positions[3:]...), found)
}
