package producerstate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
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

// brokerPartitions are partitions of a real broker whose logs are whole. After
// compaction the records no longer make what they made, in Kafka neither.
func brokerPartitions(t *testing.T) []string {
	written, err := filepath.Glob("../../testdata/kafka/4.3.1/*-[0-9]*")
	require.NoError(t, err)
	recovered, err := filepath.Glob("../../testdata/kafka/4.3.1-recovered/*-[0-9]*")
	require.NoError(t, err)
	dirs := slices.DeleteFunc(append(written, recovered...), func(dir string) bool {
		return strings.HasPrefix(filepath.Base(dir), "compacted")
	})
	require.Greater(t, len(dirs), 20)
	return dirs
}

// What a broker knew at one snapshot and the records behind it make what it knew at
// the next one. So does the log from the beginning, if all of it is there.
func TestRecordsOfABrokerMakeTheSnapshotsOfABroker(t *testing.T) {
	compared := 0
	for _, dir := range brokerPartitions(t) {
		probe, err := New(dir, Options{ReadOnly: true})
		require.NoError(t, err)
		snapshots := probe.Snapshots()
		batches := brokerBatches(t, dir)
		if len(batches) == 0 || batches[0].BaseOffset == 0 {
			snapshots = append([]int64{0}, snapshots...)
		}
		for i, from := range snapshots {
			m, err := New(dir, Options{ReadOnly: true})
			require.NoError(t, err)
			r, err := m.TruncateAndReload(-1, from, 0)
			require.NoError(t, err)
			require.Equal(t, Reload{From: from}, r, dir)
			for _, to := range snapshots[i+1:] {
				for _, b := range batches {
					if b.BaseOffset >= m.End() && b.LastOffset < to {
						m.Apply(b)
					}
				}
				m.Advance(to)
				want, err := ReadFile(vfs.OS, filepath.Join(dir, layout.SnapshotName(to)))
				require.NoError(t, err)
				var got []Entry
				for e := range m.Producers() {
					got = append(got, e)
				}
				require.ElementsMatch(t, want, got, "%s from %d to %d", dir, from, to)
				compared += len(want)
			}
		}
	}
	require.Greater(t, compared, 100)
}

// The transactions that end are those of the broker's transaction indexes.
func TestMarkersOfABrokerEndWhatItsIndexesSay(t *testing.T) {
	aborted := 0
	for _, dir := range brokerPartitions(t) {
		m, err := New(dir, Options{ReadOnly: true})
		require.NoError(t, err)
		got := map[string]bool{}
		for _, b := range brokerBatches(t, dir) {
			if txn, ok := m.Ends(b); ok && txn.Aborted {
				got[fmt.Sprintf("version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d",
					txn.ProducerID, txn.FirstOffset, txn.LastOffset, txn.LastStableOffset)] = true
			}
			m.Apply(b)
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*.txnindex"))
		require.NoError(t, err)
		for _, path := range paths {
			for i, line := range strings.Split(strings.TrimSpace(dumped(t, path)), "\n") {
				if i > 0 {
					require.True(t, got[line], "%s: %s", path, line)
					delete(got, line)
					aborted++
				}
			}
		}
		require.Empty(t, got, dir)
	}
	require.NotZero(t, aborted)
}

// brokerBatches are the batches of a log.
func brokerBatches(t *testing.T, dir string) []Batch {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	var batches []Batch
	var it record.Iterator
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for len(data) > 0 {
			b, err := record.Parse(data)
			require.NoError(t, err, path)
			require.NoError(t, b.Check(), path)
			d, err := Describe(b, &it)
			require.NoError(t, err, path)
			batches = append(batches, d)
			data = data[b.Size():]
		}
	}
	return batches
}

// A snapshot of a broker that is loaded and taken again is the same, byte for byte.
func TestSnapshotsOfABrokerAreTakenAsTheyWereLoaded(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/kafka/[0-9]*/*/*.snapshot")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		name, ok := layout.ParseFile(filepath.Base(path))
		require.True(t, ok)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name.Name), want, 0o644))
		m, err := New(dir, Options{})
		require.NoError(t, err)
		r, err := m.TruncateAndReload(0, math.MaxInt64, 0)
		require.NoError(t, err)
		require.Equal(t, Reload{From: name.Base}, r)
		require.NoError(t, m.DeleteSnapshots(name.Base))
		m.lastSnapshot = 0
		taken, err := m.Take(name.Base, true)
		require.NoError(t, err)
		require.True(t, taken)
		got, err := os.ReadFile(filepath.Join(dir, name.Name))
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
}
