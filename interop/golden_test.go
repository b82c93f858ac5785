package interop

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "make the golden directories under testdata/kafka again")

// kafkaVersion is the version pom.xml names; the goldens are filed under it.
const kafkaVersion = "4.3.1"

const goldenRoot = "../testdata/kafka"

// The golden directories. What is expected of <name>/ is in <name>.expect/.
var (
	cleanGoldens     = filepath.Join(goldenRoot, kafkaVersion)
	killedGoldens    = filepath.Join(goldenRoot, kafkaVersion+"-killed")
	recoveredGoldens = filepath.Join(goldenRoot, kafkaVersion+"-recovered")
	legacyGoldens    = filepath.Join(goldenRoot, "legacy")
)

// asProduced is the legacy golden that holds a wrapper as producers sent it. A
// broker gives it its offset before it stores it, so it is no log to serve.
const asProduced = "v1-wrapper-zero-0"

// TestGoldensAreWhatKafkaDumps runs Kafka's dump tool over the golden files
// and compares with the texts beside them. With -update it makes all anew.
func TestGoldensAreWhatKafkaDumps(t *testing.T) {
	if *update {
		updateClean(t)
		updateKilled(t)
		updateLegacy(t)
	}
	for _, golden := range []string{cleanGoldens, killedGoldens, recoveredGoldens, legacyGoldens} {
		t.Run(filepath.Base(golden), func(t *testing.T) {
			out := t.TempDir()
			dumpGolden(t, golden, out)
			require.Equal(t, readTexts(t, golden+".expect"), readTexts(t, out))
		})
	}
}

// readTexts returns the dump texts of all partitions, by path.
func readTexts(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "dump", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	texts := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	return texts
}

// TestDumpEachIsKafkasTool runs the tool as a user would, from the folder of
// the file, against the text that came of many runs in one process.
func TestDumpEachIsKafkasTool(t *testing.T) {
	const file = "00000000000000000000.log"
	res := DumpLogSegments(t, filepath.Join(cleanGoldens, "gzip-0"), []string{file}, "--print-data-log")
	require.Zero(t, res.Exit, "%s", res.Stderr)
	want, err := os.ReadFile(filepath.Join(cleanGoldens+".expect", "gzip-0", "dump", file+".deep.txt"))
	require.NoError(t, err)
	require.Equal(t, string(want), res.Stdout)
}

func updateClean(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{})
	captures := produce(broker, goldenScale, dataset())
	broker.Stop()
	saveGoldens(t, broker.LogDir, cleanGoldens, captures)
}

// updateKilled files a broker's data as SIGKILL left it, damaged in places, and
// as Kafka's own recovery left it after that.
func updateKilled(t *testing.T) {
	specs := crashset()
	topics := make([]topicSpec, len(specs))
	for i, spec := range specs {
		topics[i] = spec.topicSpec
	}
	broker := StartKafka(t, BrokerOptions{})
	produce(broker, goldenScale, topics)
	broker.Kill()
	for _, spec := range specs {
		spec.apply(&filler{Client: &Client{tb: t}, broker: broker, topic: spec.name})
	}
	killed := filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(killed, os.DirFS(broker.LogDir)))

	broker.Start()
	client := broker.NewClient()
	captures := make(map[string]*Capture)
	for _, spec := range topics {
		captures[spec.name] = client.capture(spec)
	}
	broker.Stop()
	for dir, golden := range map[string]string{killed: killedGoldens, broker.LogDir: recoveredGoldens} {
		// Kafka's own topics preallocate 10 MiB per index.
		internal, err := filepath.Glob(filepath.Join(dir, "__*"))
		require.NoError(t, err)
		for _, partition := range internal {
			require.NoError(t, os.RemoveAll(partition))
		}
		saveGoldens(t, dir, golden, captures)
	}
}

// updateLegacy files logs of message formats 0 and 1, which no broker of today
// writes, what the classes of their time read back, and what a broker of today
// answers to ListOffsets.
func updateLegacy(t *testing.T) {
	expect := legacyGoldens + ".expect"
	require.NoError(t, os.RemoveAll(legacyGoldens))
	require.NoError(t, os.RemoveAll(expect))
	res := runJava(t, legacy.build(t), "", "", "LegacyLogs", legacyGoldens, expect)
	require.Zero(t, res.Exit, "%s%s", res.Stdout, res.Stderr)
	for _, capture := range serveLegacy(t) {
		dir := filepath.Join(expect, capture.Topic+"-0")
		capture.Records = loadCapture(t, dir).Records
		capture.Bulky = strings.HasPrefix(capture.Topic, "blocks-")
		require.NoError(t, os.RemoveAll(dir))
		capture.save(t, dir)
	}
	dumpGolden(t, legacyGoldens, expect)
}

// TestKafkaServesLegacyGoldens puts the logs of formats 0 and 1 into a broker
// of today: its own consumer must get what is expected of them.
func TestKafkaServesLegacyGoldens(t *testing.T) {
	compared := 0
	for _, got := range serveLegacy(t) {
		want := loadCapture(t, filepath.Join(legacyGoldens+".expect", got.Topic+"-0"))
		requireRecords(t, want.Records, got.Records, got.Topic)
		require.Equal(t, want.Offsets, got.Offsets, got.Topic)
		require.Equal(t, want.Lookups, got.Lookups, got.Topic)
		compared += len(got.Records)
	}
	t.Logf("Kafka %s serves %d records of formats 0 and 1 as expected", kafkaVersion, compared)
}

// serveLegacy returns what a broker of today says of the legacy goldens. The
// Go client cannot read the LZ4 frames of format 0, so Kafka's consumer does.
func serveLegacy(t *testing.T) []*Capture {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(legacyGoldens, "*-0"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return filepath.Base(dir) == asProduced })
	broker := StartKafka(t, BrokerOptions{})
	client := broker.NewClient()
	var topics []string
	for _, dir := range dirs {
		topic := strings.TrimSuffix(filepath.Base(dir), "-0")
		topics = append(topics, topic)
		client.CreateTopic(topic, nil)
		client.Produce(topic).Batch(Record{Timestamp: firstTime, Value: []byte("to be replaced")})
	}
	broker.Stop()
	for i, dir := range dirs {
		broker.install(&written{topic: topics[i], dir: dir})
	}
	broker.Start()
	records := client.ConsumeWithJava(topics...)
	var captures []*Capture
	for _, topic := range topics {
		capture := &Capture{Topic: topic, Records: records[topic]}
		capture.Offsets = client.allOffsets(topic)
		capture.Lookups = client.lookUp(topic, capture.Records)
		captures = append(captures, capture)
	}
	return captures
}

// saveGoldens copies a log directory to golden, less Kafka's lock file, and
// writes what is expected of it beside it.
func saveGoldens(t *testing.T, logDir, golden string, captures map[string]*Capture) {
	require.NoError(t, os.RemoveAll(golden))
	require.NoError(t, os.RemoveAll(golden+".expect"))
	require.NoError(t, os.CopyFS(golden, os.DirFS(logDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(golden, ".lock")))
	for topic, capture := range captures {
		capture.save(t, filepath.Join(golden+".expect", topic+"-0"))
	}
	dumpGolden(t, golden, golden+".expect")
}

// dumpGolden dumps every file of every partition directory to
// out/<partition>/dump.
func dumpGolden(t *testing.T, golden, out string) {
	// The tool works on a copy: it creates index files that are missing, and
	// goldens must not change by being looked at.
	scratch := t.TempDir()
	require.NoError(t, os.CopyFS(scratch, os.DirFS(golden)))
	partitions, err := filepath.Glob(filepath.Join(scratch, "*-0"))
	require.NoError(t, err)
	var runs []dumpRun
	for _, dir := range partitions {
		name := filepath.Base(dir)
		deep := !strings.HasPrefix(name, "blocks-") && name != "__cluster_metadata-0"
		runs = append(runs, dumpRuns(t, dir, filepath.Join(out, name, "dump"), deep)...)
	}
	dumpEach(t, runs)
}
