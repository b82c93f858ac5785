package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

func TestWalkerFindsEveryBatchBetweenDamagedOnes(t *testing.T) {
	const n = 20
	clean, positions := batches(t, 0, n)
	positions = append(positions, int64(len(clean)))
	put := func(at int, b ...byte) func([]byte) {
		return func(batch []byte) { copy(batch[at:], b) }
	}
	for _, tt := range []struct {
		name   string
		damage func(batch []byte)
	}{
		{"length larger than any log", put(8, 0x7f, 0xff, 0xff, 0xff)},
		{"length larger than the log", put(8, 0x00, 0x10, 0x00, 0x00)},
		{"length reaching into the next batch", put(8, 0x00, 0x00, 0x00, 110)},
		{"length reaching over many batches", put(8, 0x00, 0x00, 0x02, 0x10)},
		{"length a little short", put(8, 0x00, 0x00, 0x00, 90)},
		{"length negative", put(8, 0x80, 0, 0, 0)},
		{"length zero", put(8, 0, 0, 0, 0)},
		{"magic unknown", put(16, 3)},
		{"magic of an older format", put(16, 1)},
		{"all zeros", func(batch []byte) { clear(batch) }},
		{"all ones", func(batch []byte) { copy(batch, bytes.Repeat([]byte{0xff}, len(batch))) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, victims := range [][]int{{0}, {9}, {n - 1}, {3, 5}, {3, 5, 7, 9, 12}} {
				log := bytes.Clone(clean)
				var want []int64
				for i := range n {
					want = append(want, positions[i])
				}
				for i := len(victims) - 1; i >= 0; i-- {
					v := victims[i]
					tt.damage(log[positions[v]:positions[v+1]])
					want = append(want[:v], want[v+1:]...)
				}
				require.Equal(t, want, whole(walk(t, log, 0)), "damaged: %v", victims)
			}
		})
	}
}

// One damaged length is one part, whichever way it is wrong.
func TestWalkerTellsADamagedLengthOnce(t *testing.T) {
	for _, length := range []uint32{60, 90, 110, 200, 300, 1 << 20} {
		log, positions := batches(t, 0, 5)
		binary.BigEndian.PutUint32(log[positions[1]+8:], length)
		parts := walk(t, log, 0)
		require.Len(t, parts, 5, "length %d", length)
		require.Equal(t, Unreadable, parts[1].Kind)
		require.Equal(t, positions[2]-positions[1], parts[1].Size)
	}
}

func TestWalkerDoesNotTakeAValueForABatchOfTheLog(t *testing.T) {
	inner, _ := batches(t, 4, 1)
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 2})
	require.NoError(t, b.Append(record.Record{Value: inner}))
	require.NoError(t, b.Append(record.Record{Value: append(bytes.Repeat([]byte{0xab}, 100), inner...)}))
	outer, err := b.Build()
	require.NoError(t, err)

	for _, tt := range []struct {
		name   string
		damage func(outer []byte)
	}{
		{"length", func(outer []byte) { outer[8] = 0x40 }},
		{"magic", func(outer []byte) { outer[16] = 9 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := batches(t, 0, 1)
			after, _ := batches(t, 4, 3)
			bad := bytes.Clone(outer)
			tt.damage(bad)
			parts := walk(t, append(append(bytes.Clone(before), bad...), after...), 0)
			require.Equal(t, []PartKind{Whole, Unreadable, Whole, Whole, Whole}, kinds(parts))
			require.EqualValues(t, len(outer), parts[1].Size)
		})
	}
}

func TestWalkerNoticesAWrongLengthWithoutChecksums(t *testing.T) {
	log, positions := batches(t, 0, 5)
	log[positions[3]+70] ^= 1
	binary.BigEndian.PutUint32(log[positions[1]+8:], 120)
	w := Walker{SkipChecksums: true}
	w.Reset(bytes.NewReader(log), 0, 0, int64(len(log)))
	var got []PartKind
	for w.Next() {
		got = append(got, w.Part().Kind)
	}
	require.NoError(t, w.Err())
	require.Equal(t, []PartKind{Whole, Unreadable, Whole, Whole, Whole}, got)
}

func TestWalkerFindsLegacyMessages(t *testing.T) {
	// Magic 0 and 1, from Kafka's MemoryRecordsTest.java.
	first, err := hex.DecodeString("00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531")
	require.NoError(t, err)
	second, err := hex.DecodeString("0000000000000001000000200685b364010000000000000454c3000000046b6579310000000676616c756531")
	require.NoError(t, err)
	third := bytes.Clone(second)
	third[7] = 2
	log := append(append(bytes.Clone(first), second...), third...)
	require.Equal(t, []PartKind{Whole, Whole, Whole}, kinds(walk(t, log, 0)))

	binary.BigEndian.PutUint32(log[len(first)+8:], 1<<30)
	parts := walk(t, log, 0)
	require.Equal(t, []PartKind{Whole, Unreadable, Whole}, kinds(parts))
	require.EqualValues(t, len(second), parts[1].Size)
}

// Headers that claim a lot, one at every few bytes, must not make the search
// checksum the file over and over.
func TestWalkerDoesBoundedWork(t *testing.T) {
	log, _ := batches(t, 0, 1)
	const size = 16 << 20
	trap := bytes.Repeat(log[:record.HeaderSize], size/record.HeaderSize)
	for at := 0; at+record.HeaderSize <= len(trap); at += record.HeaderSize {
		binary.BigEndian.PutUint64(trap[at:], uint64(at))
		binary.BigEndian.PutUint32(trap[at+8:], uint32(len(trap)-at-record.LogOverhead))
	}
	trap[16] = 7 // the first one is no batch, so that there is something to search for
	require.Empty(t, whole(walk(t, trap, 0)))
}
