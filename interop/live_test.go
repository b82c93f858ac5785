package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// TestKafkaWritesWeRead fills a broker with every kind of topic through a real
// client, stops it, and reads its files. Records, bounds and look-ups must be
// those the client had got; our tool must find no fault, and say of every file
// what Kafka's says.
func TestKafkaWritesWeRead(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{})
	captures := produce(broker, liveScale, dataset())
	broker.Stop()
	dir := func(c *Capture) string { return filepath.Join(broker.LogDir, c.Topic+"-0") }

	t.Run("records and look-ups", func(t *testing.T) {
		compared, segments := 0, 0
		for _, want := range captures {
			requireRecords(t, want.Records, readBatches(t, dir(want), want.Offsets.Start), want.Topic)
			compared += compareLog(t, dir(want), want)
			files, err := filepath.Glob(filepath.Join(dir(want), "*.log"))
			require.NoError(t, err)
			segments += len(files)
		}
		t.Logf("Kafka %s wrote, seglog read: %d records of %d topics in %d segments are the same", kafkaVersion, compared, len(captures), segments)
	})
	t.Run("rebuilt indexes", func(t *testing.T) {
		compared := 0
		for _, want := range captures {
			compared += compareRebuilt(t, dir(want), want)
		}
		t.Logf("%d records are found the same with rebuilt indexes", compared)
	})
	logtool := BuildLogtool(t)
	t.Run("verify", func(t *testing.T) {
		for _, want := range captures {
			res := logtool.Run("", "verify", dir(want))
			require.Zero(t, res.Exit, "%s\n%s%s", want.Topic, res.Stdout, res.Stderr)
		}
	})
	t.Run("dump", func(t *testing.T) {
		var dirs []string
		for _, want := range captures {
			dirs = append(dirs, dir(want))
		}
		compared := logtool.compareDumps(dirs)
		t.Logf("%d dumps are those of Kafka %s, byte for byte", compared, kafkaVersion)
	})
}

// compareRebuilt opens a copy of the partition directory from which all
// indexes were removed. Kafka's dump tool must then accept the new ones.
func compareRebuilt(t *testing.T, dir string, want *Capture) int {
	t.Helper()
	copied := filepath.Join(t.TempDir(), filepath.Base(dir))
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	for _, pattern := range []string{"*.index", "*.timeindex"} {
		files, err := filepath.Glob(filepath.Join(copied, pattern))
		require.NoError(t, err)
		for _, file := range files {
			require.NoError(t, os.Remove(file))
		}
	}
	log, err := seglog.Open(copied, seglog.Options{IndexIntervalBytes: 100, StartOffset: want.Offsets.Start})
	require.NoError(t, err)
	if want.Offsets.Start > log.Offsets().Start {
		// The log start offset is in a checkpoint of the log directory, which
		// the copy has left.
		require.NoError(t, log.DeleteBefore(want.Offsets.Start))
	}
	compareAnswers(t, log, want)
	require.NoError(t, log.Close())
	return len(want.Records)
}

// TestWeWriteKafkaReads writes logs in every codec, lets Kafka's dump tool judge
// them, puts them into a stopped broker in place of its own, and compares what
// a client gets: after the start, after a kill, and after the broker has
// appended to them. In the end seglog opens what the broker left.
func TestWeWriteKafkaReads(t *testing.T) {
	logs := writeLogs(t, t.TempDir(), liveScale)
	requireDumpToolContent(t, logs)

	broker := StartKafka(t, BrokerOptions{})
	client := broker.NewClient()
	for _, w := range logs {
		client.CreateTopic(w.topic, nil)
		client.Produce(w.topic).Batch(Record{Timestamp: firstTime, Value: []byte("to be replaced")})
	}
	broker.Stop()
	for _, w := range logs {
		broker.install(w)
	}

	broker.Start()
	compared := compareServed(t, client, logs)
	t.Logf("seglog wrote, Kafka %s served: %d records of %d topics are the same", kafkaVersion, compared, len(logs))

	broker.Kill()
	broker.Start()
	compared = compareServed(t, client, logs)
	t.Logf("and %d after a kill and Kafka's own recovery", compared)

	for _, w := range logs {
		client.Produce(w.topic).Batch(Record{Timestamp: firstTime + 1e9, Key: []byte("from"), Value: []byte("kafka"), Headers: []Header{}})
		w.want = client.capture(topicSpec{name: w.topic, lookups: true})
	}
	broker.Stop()
	logtool := BuildLogtool(t)
	compared = 0
	for _, w := range logs {
		dir := filepath.Join(broker.LogDir, w.topic+"-0")
		compared += compareLog(t, dir, w.want)
		res := logtool.Run("", "verify", dir)
		require.Zero(t, res.Exit, "%s\n%s%s", w.topic, res.Stdout, res.Stderr)
	}
	t.Logf("and %d read by seglog after Kafka had appended", compared)
}

// compareServed compares what a client gets of each log with what seglog had
// read from it.
func compareServed(t *testing.T, client *Client, logs []*written) int {
	t.Helper()
	compared := 0
	for _, w := range logs {
		got := client.capture(topicSpec{name: w.topic})
		require.Equal(t, w.want.Offsets, got.Offsets, "%s", w.topic)
		requireRecords(t, w.want.Records, got.Records, w.topic)
		for _, want := range w.want.Lookups {
			offset, found := client.OffsetForTime(w.topic, want.Timestamp)
			require.Equal(t, want, Lookup{want.Timestamp, offset, found}, "%s: offset for time", w.topic)
		}
		compared += len(got.Records)
	}
	return compared
}

// requireDumpToolContent runs Kafka's dump tool over every file of the logs:
// all batches valid, all indexes sane and pointing at batches.
func requireDumpToolContent(t *testing.T, logs []*written) {
	t.Helper()
	out := t.TempDir()
	var runs []dumpRun
	for _, w := range logs {
		to := filepath.Join(out, w.topic)
		runs = append(runs, dumpRuns(t, w.dir, to, true)...)
		indexes, err := filepath.Glob(filepath.Join(w.dir, "*index"))
		require.NoError(t, err)
		require.NotEmpty(t, indexes)
		for _, file := range indexes {
			runs = append(runs, dumpRun{file: file, out: filepath.Join(to, filepath.Base(file)+".sane"), flags: []string{"--index-sanity-check"}})
		}
	}
	dumpEach(t, runs)
	var batches int
	for _, run := range runs {
		complaints, err := os.ReadFile(run.out + ".err.txt")
		if err == nil {
			require.Empty(t, seriousComplaints(string(complaints)), "%s %v", run.file, run.flags)
		}
		text, err := os.ReadFile(run.out + ".txt")
		require.NoError(t, err)
		require.NotContains(t, string(text), "isvalid: false", "%s", run.file)
		require.NotContains(t, string(text), "invalid bytes", "%s", run.file)
		batches += strings.Count(string(text), "isvalid: true")
	}
	t.Logf("Kafka's dump tool found nothing wrong with %d files in %d runs, %d batches", len(runs)-len(logs), len(runs), batches)
}

// seriousComplaints leaves out what the dump tool says of gaps in offsets: since 4.3 it
// takes the beginning of every segment but the first for one. So it does with time
// index entries of batches that the cleaner has left without records: Kafka's cleaner
// and ours index their timestamps, and the tool looks at records only.
func seriousComplaints(stderr string) []string {
	var serious []string
	mismatch := ""
	for _, line := range strings.Split(strings.TrimSuffix(stderr, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "Non-consecutive offsets in "), strings.Contains(line, " is followed by "):
		case strings.HasPrefix(line, "Found timestamp mismatch in "):
			mismatch = line
		case mismatch != "" && strings.HasSuffix(line, ", log timestamp: -1"):
		default:
			if mismatch != "" {
				serious, mismatch = append(serious, mismatch), ""
			}
			serious = append(serious, line)
		}
	}
	return serious
}
