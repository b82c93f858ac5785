package producerstate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

// The snapshots of a real broker come back byte for byte and hold what Kafka's
// dump tool says they hold.
func TestSnapshotsOfABrokerAreReadAsKafkaReadsThem(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/kafka/[0-9]*/*/*.snapshot")
	require.NoError(t, err)
	found := 0
	for _, path := range paths {
		entries, err := ReadFile(vfs.OS, path)
		require.NoError(t, err, path)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, data, Append(nil, entries), path)
		text := "Dumping " + filepath.Base(path) + "\n"
		for _, e := range entries {
			text += dumpLine(e) + "\n"
		}
		require.Equal(t, dumped(t, path), text, path)
		found += len(entries)
	}
	require.NotZero(t, found)
}

func dumpLine(e Entry) string {
	txn := "OptionalLong.empty"
	if e.HasOpenTxn() {
		txn = fmt.Sprintf("OptionalLong[%d]", e.CurrentTxnFirstOffset)
	}
	line := fmt.Sprintf("producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
		e.ProducerID, e.ProducerEpoch, e.CoordinatorEpoch, txn, e.Timestamp)
	if e.HasBatch() {
		line += fmt.Sprintf(" firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
			e.FirstSequence(), e.LastSequence, e.LastOffset, e.OffsetDelta, e.Timestamp)
	}
	return line
}

// dumped returns what Kafka's dump tool printed for a file.
func dumped(t *testing.T, path string) string {
	partition := filepath.Dir(path)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(partition)+".expect", filepath.Base(partition), "dump", filepath.Base(path)+".txt"))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
