package seglog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// K105: handles are bounded, however many segments there are.
func TestSegmentsThatAreNotUsedAreClosed(t *testing.T) {
	opts := seglog.Options{SegmentBytes: 200, Sync: seglog.SyncNever, MaxOpenSegments: 8}
	l, err := seglog.Open(filepath.Join(t.TempDir(), "orders-0"), opts)
	require.NoError(t, err)
	for i := range 400 {
		_, err := l.Append([]seglog.Record{{Value: make([]byte, 50), Timestamp: int64(1000 + i)}}, nil)
		require.NoError(t, err)
	}
	segments, err := l.Segments()
	require.NoError(t, err)
	require.Greater(t, len(segments), 100)
	before := openFiles(t)
	for round := range int64(3) {
		for i := range int64(400) {
			r, err := l.Get((i*37 + round) % 400)
			require.NoError(t, err)
			require.Equal(t, 1000+r.Offset, r.Timestamp)
		}
		_, found, err := l.OffsetForTime(1399)
		require.NoError(t, err)
		require.True(t, found)
		require.LessOrEqual(t, openFiles(t), before+12)
	}
	require.NoError(t, l.Close())
}

// openFiles counts this process's descriptors, where the system tells.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
