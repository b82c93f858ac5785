package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// The entry of the offset index comes first. If that of the time index cannot follow
// neither may stay: the set that they name is cut off.
func TestAnAppendWhoseTimeEntryIsRefusedLeavesNoOffsetEntry(t *testing.T) {
	s, err := Create(t.TempDir(), 0, Options{FS: vfs.OS, IndexIntervalBytes: 1})
	require.NoError(t, err)
	defer s.Retire()
	one := func(offset int64) Set {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: offset})
		require.NoError(t, b.Append(record.Record{Timestamp: offset + 1, Value: []byte("value")}))
		bytes, err := b.Build()
		require.NoError(t, err)
		return Set{Bytes: bytes, LastOffset: offset, MaxTimestamp: offset + 1, OffsetOfMaxTimestamp: offset}
	}
	require.NoError(t, s.Append(one(0)))
	require.NoError(t, s.Append(one(1)))
	size, entries := s.size.Load(), s.open.index.Len()
	require.NoError(t, s.open.time.MaybeAppend(3, 1000, false), "as it can only be in a damaged index")

	require.ErrorIs(t, s.Append(one(2)), timeindex.ErrOrder)
	require.Equal(t, entries, s.open.index.Len())
	require.Equal(t, size, s.size.Load())
	require.EqualValues(t, 2, s.NextOffset())
}
