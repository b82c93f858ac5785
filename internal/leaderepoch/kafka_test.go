package leaderepoch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

// The files of a real broker come back byte for byte, and agree with themselves.
func TestCheckpointsOfABrokerComeBack(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/kafka/[0-9]*/*/leader-epoch-checkpoint")
	require.NoError(t, err)
	found := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		entries, err := ReadFile(vfs.OS, path)
		require.NoError(t, err, path)
		if len(data) > 0 {
			require.Equal(t, string(data), string(Append(nil, entries)), path)
		}
		require.False(t, assigned(t, entries...).Dirty(), path)
		found += len(entries)
	}
	require.NotZero(t, found)
}
