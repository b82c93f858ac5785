package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

// written returns the files of that name that a real broker wrote.
func written(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob("../../testdata/kafka/[0-9]*/" + pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func TestOffsetsOfABrokerComeBackByteForByte(t *testing.T) {
	found := 0
	for _, path := range written(t, "*-offset-checkpoint") {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		entries, problems, err := ReadOffsets(vfs.OS, path)
		require.NoError(t, err, path)
		require.Empty(t, problems, path)
		found += len(entries)
		if len(data) > 0 { // Kafka creates them empty
			require.Equal(t, string(data), string(AppendOffsets(nil, entries)), path)
		}
	}
	require.NotZero(t, found)
}

func TestPartitionMetadataOfABrokerComesBackByteForByte(t *testing.T) {
	ids := map[UUID]bool{}
	for _, path := range written(t, "*/partition.metadata") {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		m, err := ReadPartitionMetadata(vfs.OS, path)
		require.NoError(t, err, path)
		require.Equal(t, string(data), string(AppendPartitionMetadata(nil, m)), path)
		ids[m.TopicID] = true
	}
	require.Greater(t, len(ids), 1)
}

func TestMetaPropertiesOfABrokerAreRead(t *testing.T) {
	for _, path := range written(t, "meta.properties") {
		m, err := ReadMetaProperties(vfs.OS, path)
		require.NoError(t, err, path)
		require.Equal(t, 1, m.Version)
		require.Equal(t, int32(1), m.NodeID)
		require.NotEmpty(t, m.ClusterID)
		require.False(t, m.DirectoryID.IsZero())
	}
}

func TestCleanShutdownOfABrokerIsWhatWeWrite(t *testing.T) {
	for _, path := range written(t, ".kafka_cleanshutdown") {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		epoch, known, err := ReadCleanShutdown(vfs.OS, path)
		require.NoError(t, err)
		require.True(t, known)
		ours := filepath.Join(t.TempDir(), ".kafka_cleanshutdown")
		require.NoError(t, WriteCleanShutdown(vfs.OS, ours, epoch))
		again, err := os.ReadFile(ours)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	}
}
