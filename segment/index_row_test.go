package segment_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/segment"
)

// LogSegment.append: bytesSinceLastIndexEntry > indexIntervalBytes, before the bytes of
// the batch itself are counted.
func TestABatchThatFillsTheIntervalExactlyIsNotIndexedYet(t *testing.T) {
	size := int64(len(set(t, 1, 0).Bytes))
	for _, tt := range []struct {
		name     string
		interval int64
		want     int64 // position of the first entry
	}{
		{"a byte less than a batch", size - 1, size},
		{"a batch", size, 2 * size},
		{"a byte more", size + 1, 2 * size},
		{"two batches", 2 * size, 3 * size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := create(t, 0, segment.Options{IndexIntervalBytes: tt.interval})
			put(t, s, 1, span(0, 3)...)
			require.NoError(t, s.Acquire())
			defer s.Release()
			require.Equal(t, tt.want, s.View().Index.At(0).Position)
		})
	}
}

// A writer in another process may have cut the log and not yet its index.
func TestAnIndexAheadOfTheLogDoesNotHideItsEnd(t *testing.T) {
	s := create(t, 0, segment.Options{IndexIntervalBytes: 1})
	put(t, s, 1, span(0, 9)...)
	dir, path := t.TempDir(), s.LogPath()
	require.NoError(t, s.Retire())
	require.NoError(t, os.CopyFS(dir, os.DirFS(path[:len(path)-len(s.Name())])))
	cut := segment.Open(dir, 0, options(segment.Options{ReadOnly: true}))
	require.NoError(t, os.Truncate(cut.LogPath(), 4*int64(len(set(t, 1, 0).Bytes))))

	require.NoError(t, cut.Acquire())
	defer cut.Retire()
	defer cut.Release()
	require.Equal(t, 9, cut.View().Index.Len(), "it is as it was")
	var c segment.Scanner
	last, err := cut.LastOffset(&c)
	require.NoError(t, err)
	require.EqualValues(t, 3, last)
}
