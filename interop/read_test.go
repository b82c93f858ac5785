package interop

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func goldenPartitions(t *testing.T, golden string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(golden+".expect", "*-0"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	var names []string
	for _, dir := range dirs {
		if name := filepath.Base(dir); name != "__cluster_metadata-0" {
			names = append(names, name)
		}
	}
	return names
}

func TestRecordPackageDecodesGoldens(t *testing.T) {
	for _, golden := range []string{cleanGoldens, killedGoldens, recoveredGoldens, legacyGoldens} {
		for _, name := range goldenPartitions(t, golden) {
			t.Run(filepath.Base(golden)+"/"+name, func(t *testing.T) {
				want := loadCapture(t, filepath.Join(golden+".expect", name))
				got := readBatches(t, filepath.Join(golden, name), want.Offsets.Start)
				requireRecords(t, want.Records, got, name)
			})
		}
	}
}

func TestLogAnswersAsKafkaOverGoldens(t *testing.T) {
	for _, golden := range []string{cleanGoldens, killedGoldens, recoveredGoldens, legacyGoldens} {
		for _, name := range goldenPartitions(t, golden) {
			if name == asProduced {
				continue
			}
			t.Run(filepath.Base(golden)+"/"+name, func(t *testing.T) {
				compareLog(t, filepath.Join(golden, name), loadCapture(t, filepath.Join(golden+".expect", name)))
			})
		}
	}
}

// TestReplayWritesKafkasFiles appends the batches of a golden log one by one to
// a log with the settings the topic had. The segments must begin at the same
// offsets and every .log, .index and .timeindex hold the same bytes: rolling and
// indexing follow Kafka's rules exactly.
func TestReplayWritesKafkasFiles(t *testing.T) {
	for _, spec := range dataset() {
		if spec.internal || strings.HasPrefix(spec.name, "compacted") || spec.name == "deleted" {
			continue // the files there are no longer those that were appended
		}
		t.Run(spec.name, func(t *testing.T) {
			golden := filepath.Join(cleanGoldens, spec.name+"-0")
			dir := filepath.Join(t.TempDir(), spec.name+"-0")
			log, err := seglog.Open(dir, seglog.Options{
				SegmentBytes:       setting(t, spec, "internal.segment.bytes"),
				IndexIntervalBytes: int(setting(t, spec, "index.interval.bytes")),
				Sync:               seglog.SyncNever,
			})
			require.NoError(t, err)
			from, err := seglog.Open(golden, seglog.Options{ReadOnly: true})
			require.NoError(t, err)
			defer from.Close()
			for batch, err := range from.Batches(t.Context(), 0, nil) {
				require.NoError(t, err)
				_, err = log.AppendReplicated(batch.Bytes(), nil)
				require.NoError(t, err)
			}
			require.NoError(t, log.Close())
			for _, pattern := range []string{"*.log", "*.index", "*.timeindex"} {
				require.Equal(t, readFiles(t, golden, pattern), readFiles(t, dir, pattern), "%s", pattern)
			}
		})
	}
}

// setting is the number the topic was configured with, 0 if it was not.
func setting(t *testing.T, spec topicSpec, name string) int64 {
	t.Helper()
	text, ok := spec.config[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// readFiles returns the files of dir that match, by name, as hex text.
func readFiles(t *testing.T, dir, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	files := make(map[string]string)
	for _, path := range paths {
		bytes, err := os.ReadFile(path)
		require.NoError(t, err)
		files[filepath.Base(path)] = hex.EncodeToString(bytes)
	}
	return files
}

// TestRecoveryArrivesWhereKafkaDid opens the logs of the killed broker for
// writing and compares with what Kafka served after its own recovery.
func TestRecoveryArrivesWhereKafkaDid(t *testing.T) {
	logDir := t.TempDir()
	require.NoError(t, os.CopyFS(logDir, os.DirFS(killedGoldens)))
	for _, name := range goldenPartitions(t, killedGoldens) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(logDir, name)
			log, err := seglog.Open(dir, seglog.Options{IndexIntervalBytes: 200, SegmentIndexBytes: 512})
			require.NoError(t, err)
			compareAnswers(t, log, loadCapture(t, filepath.Join(killedGoldens+".expect", name)))
			require.NoError(t, log.Close())
			recovered := filepath.Join(recoveredGoldens, name)
			for _, pattern := range []string{"*.log", "*.index", "*.timeindex"} {
				require.Equal(t, readFiles(t, recovered, pattern), readFiles(t, dir, pattern), "%s", pattern)
			}
		})
	}
}
