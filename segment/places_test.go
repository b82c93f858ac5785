package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// placed is an open segment of n records in batches of the given length.
func placed(t *testing.T, p *Places, n, batch int64) *Segment {
	t.Helper()
	s, err := Create(t.TempDir(), 0, Options{FS: vfs.OS, IndexIntervalBytes: 400, Places: p})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Retire()) })
	for first := int64(0); first < n; first += batch {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: first})
		for i := range batch {
			require.NoError(t, b.Append(record.Record{Timestamp: first + i, Value: make([]byte, 40)}))
		}
		bytes, err := b.Build()
		require.NoError(t, err)
		require.NoError(t, s.Append(Set{Bytes: bytes, LastOffset: first + batch - 1}))
	}
	return s
}

// lookAt asks for the record at offset as a log does.
func lookAt(t *testing.T, s *Segment, offset int64) (found, unknown bool) {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	var it record.Iterator
	r, _, found, unknown := s.RecordAt(&it, offset, nil)
	if found {
		require.Equal(t, offset, r.Offset)
		require.Equal(t, offset, r.Timestamp)
	}
	if unknown {
		var c Scanner
		s.Remember(&c, &it, offset, Unbounded)
	}
	return found, unknown
}

func TestAPlaceIsKnownFromTheSecondTimeOn(t *testing.T) {
	for _, batch := range []int64{1, 7, 30} {
		s := placed(t, newPlaces(1<<20), 210, batch)
		last := s.open.index.LastOffset()
		for offset := range int64(210) {
			lookAt(t, s, offset)
			found, unknown := lookAt(t, s, offset)
			// What follows the last index entry is being added to.
			require.Equal(t, offset <= last, found, "offset %d", offset)
			require.Equal(t, offset > last, unknown, "offset %d", offset)
		}
		require.NoError(t, s.Seal())
		lookAt(t, s, 209)
		found, _ := lookAt(t, s, 209)
		require.True(t, found, "the rest of a sealed segment")
	}
}

func TestPlacesAreForgottenWithTheFilesAndWhenTheyAreCut(t *testing.T) {
	s := placed(t, newPlaces(1<<20), 210, 7)
	known := func() bool {
		lookAt(t, s, 20)
		found, _ := lookAt(t, s, 20)
		return found
	}
	require.True(t, known())
	require.NoError(t, s.TruncateTo(100))
	_, unknown := lookAt(t, s, 20)
	require.True(t, unknown)
	require.True(t, known())
	require.NoError(t, s.Reactivate())
	require.NoError(t, s.Seal())
	require.NoError(t, s.Trim())
	require.NoError(t, s.CloseIdle()) // it was used
	require.NoError(t, s.CloseIdle())
	require.False(t, s.open.isOpen)
	require.Empty(t, s.memory.maps)
	_, unknown = lookAt(t, s, 20)
	require.True(t, unknown)
}

func TestPlacesKeepToTheirMemory(t *testing.T) {
	p := newPlaces(4000)
	s := placed(t, p, 2000, 10)
	for range 3 {
		for offset := range int64(2000) {
			lookAt(t, s, offset)
			sum := int64(0)
			slots := p.table.Load().slots
			for i := range slots {
				if v := slots[i].Load(); v != nil {
					sum += v.size()
				}
			}
			require.Equal(t, sum, p.bytes)
			require.LessOrEqual(t, sum, int64(4000))
		}
	}
	// What was asked for again stays.
	for offset := range int64(100) {
		lookAt(t, s, 5)
		found, _ := lookAt(t, s, 5)
		require.True(t, found)
		lookAt(t, s, 10*offset)
	}
}

func TestCompressedAndDamagedBatchesAreNotRemembered(t *testing.T) {
	s, err := Create(t.TempDir(), 0, Options{FS: vfs.OS, IndexIntervalBytes: 1, Places: newPlaces(1 << 20)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Retire()) })
	for i := range int64(4) {
		o := record.BuilderOptions{BaseOffset: i}
		if i == 1 {
			o.Codec = record.Gzip
		}
		b := record.NewBuilder(o)
		require.NoError(t, b.Append(record.Record{Timestamp: i, Value: make([]byte, 300)}))
		bytes, err := b.Build()
		require.NoError(t, err)
		if i == 2 {
			bytes[len(bytes)-5] ^= 1
		}
		require.NoError(t, s.Append(Set{Bytes: bytes, LastOffset: i}))
	}
	require.NoError(t, s.Seal())
	for _, offset := range []int64{1, 2} {
		lookAt(t, s, offset)
		found, unknown := lookAt(t, s, offset)
		require.False(t, found, "offset %d", offset)
		require.False(t, unknown, "offset %d: it is not tried again and again", offset)
	}
	lookAt(t, s, 3)
	found, _ := lookAt(t, s, 3)
	require.True(t, found)
}
