package interop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// cleaned is a topic that both clean.
type cleaned struct {
	name            string
	codec           string
	segmentBytes    int
	deleteRetention time.Duration
	work            func(*filler, int)
}

func cleanset() []cleaned {
	return []cleaned{
		{"clean-none", "uncompressed", 1500, 24 * time.Hour, (*filler).dirtyKeys},
		{"clean-gzip", "gzip", 1500, 24 * time.Hour, (*filler).dirtyKeys},
		{"clean-snappy", "snappy", 1500, 24 * time.Hour, (*filler).dirtyKeys},
		{"clean-lz4", "lz4", 1500, 24 * time.Hour, (*filler).dirtyKeys},
		{"clean-zstd", "zstd", 3000, 24 * time.Hour, (*filler).dirtyKeys},
		{"clean-purged", "uncompressed", 1500, 0, (*filler).dirtyKeys},
		{"clean-txn", "uncompressed", 1500, 24 * time.Hour, (*filler).dirtyTransactions},
		{"clean-txn-purged", "zstd", 1500, 0, (*filler).dirtyTransactions},
	}
}

// TestWeCleanAsKafkaDoes has a broker without a cleaner write compacted topics, cleans
// one copy of them, has the cleaner of a broker clean the other, and compares what is
// left: batch by batch and record by record. Then once more on top of what the broker
// has left. Only what follows from the time of cleaning may differ: delete horizons.
func TestWeCleanAsKafkaDoes(t *testing.T) {
	off := map[string]string{"log.cleaner.enable": "false"}
	broker := StartKafka(t, BrokerOptions{Config: off})
	for round := range 3 {
		client := broker.NewClient()
		for i, c := range cleanset() {
			if round == 0 {
				client.CreateTopic(c.name, with(smallSegments(c.segmentBytes), "compression.type", c.codec, "cleanup.policy", "compact",
					"min.cleanable.dirty.ratio", "0.001", "delete.retention.ms", strconv.FormatInt(c.deleteRetention.Milliseconds(), 10)))
			}
			c.work(&filler{Client: client, broker: broker, topic: c.name, scale: liveScale, random: rand.New(rand.NewPCG(uint64(i), uint64(round)))}, round)
		}
		broker.Stop()
		ours := t.TempDir()
		require.NoError(t, os.CopyFS(ours, os.DirFS(broker.LogDir)))
		var sums seglog.CompactResult
		for _, c := range cleanset() {
			r := c.clean(t, filepath.Join(ours, c.name+"-0"))
			sums.Superseded += r.Superseded
			sums.Expired += r.Expired
			sums.Aborted += r.Aborted
			sums.Markers += r.Markers
		}

		broker.writeProperties(nil)
		broker.Start()
		client = broker.NewClient()
		for _, c := range cleanset() {
			f := &filler{Client: client, broker: broker, topic: c.name}
			f.awaitCleaned()
		}
		broker.settle()
		broker.Stop()

		batches, records := 0, 0
		for _, c := range cleanset() {
			b, r := compareCleaned(t, filepath.Join(broker.LogDir, c.name+"-0"), filepath.Join(ours, c.name+"-0"))
			batches, records = batches+b, records+r
		}
		t.Logf("round %d: Kafka %s and seglog leave the same %d batches with %d records; gone are %d superseded, %d tombstones, %d aborted, %d markers",
			round+1, kafkaVersion, batches, records, sums.Superseded, sums.Expired, sums.Aborted, sums.Markers)
		requireDumpToolIsContent(t, ours)
		broker.writeProperties(off)
		if round < 2 {
			broker.Start()
		}
	}
}

// clean compacts a copy of the topic with the settings that the topic has.
func (c cleaned) clean(t *testing.T, dir string) seglog.CompactResult {
	t.Helper()
	opts := seglog.Options{
		CleanupPolicy: seglog.CleanupCompact, SegmentBytes: int64(c.segmentBytes), IndexIntervalBytes: 200, DeleteRetention: c.deleteRetention,
	}
	if c.deleteRetention == 0 {
		opts.DeleteRetention = -1
	}
	log, err := seglog.Open(dir, opts)
	require.NoError(t, err)
	r, err := log.Compact(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	return r
}

// dirtyKeys overwrites keys and removes some, from producers of both kinds.
func (f *filler) dirtyKeys(round int) {
	plain, once := f.Produce(f.topic), f.ProduceIdempotent(f.topic)
	defer plain.Close()
	defer once.Close()
	for i := range 60 {
		p := []*Producer{plain, once}[i%2]
		var batch []Record
		for range 1 + f.random.IntN(4) {
			r := Record{
				Timestamp: firstTime + int64(round*1000+i)*1000,
				Key:       fmt.Appendf(nil, "key-%d", f.random.IntN(15+5*round)),
				Value:     f.text(20 + f.random.IntN(80)),
				Headers:   []Header{{"round", strconv.AppendInt(nil, int64(round), 10)}},
			}
			if f.random.IntN(4) == 0 {
				r.Value = nil
			}
			batch = append(batch, r)
		}
		if i%5 == 0 { // a key that is not heard of again
			r := Record{Timestamp: batch[0].Timestamp, Key: fmt.Appendf(nil, "gone-%d-%d", round, i/10)}
			if i%10 == 0 {
				r.Value = f.text(30)
			}
			batch = append(batch, r)
		}
		p.Batch(batch...)
	}
	f.rollOnly(plain)
}

// dirtyTransactions does it in transactions, one in three of which is aborted.
func (f *filler) dirtyTransactions(round int) {
	a := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-a"))
	b := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-b"))
	plain := f.Produce(f.topic)
	defer a.Close()
	defer b.Close()
	defer plain.Close()
	for i := range 24 {
		p := []*Producer{a, b}[f.random.IntN(2)]
		p.Begin()
		for range 1 + f.random.IntN(3) {
			var batch []Record
			for range 1 + f.random.IntN(3) {
				r := Record{Timestamp: firstTime + int64(round*1000+i)*1000, Key: fmt.Appendf(nil, "key-%d", f.random.IntN(9)), Value: f.text(40)}
				if f.random.IntN(5) == 0 {
					r.Value = nil
				}
				batch = append(batch, r)
			}
			p.Batch(batch...)
			if f.random.IntN(3) == 0 {
				plain.Batch(Record{Timestamp: firstTime, Key: fmt.Appendf(nil, "key-%d", f.random.IntN(9)), Value: f.text(20)})
			}
		}
		p.End([]kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit}[f.random.IntN(3)])
	}
	f.rollOnly(plain)
}

// rollOnly appends until the active segment is a new one.
func (f *filler) rollOnly(p *Producer) {
	before := f.activeBase()
	for i := 0; f.activeBase() == before; i++ {
		p.Batch(Record{Timestamp: firstTime + 1e6, Key: fmt.Appendf(nil, "roll-%d", i%3), Value: f.text(150)})
	}
}

// requireDumpToolIsContent has Kafka's dump tool look at what was cleaned.
func requireDumpToolIsContent(t *testing.T, dir string) {
	t.Helper()
	var logs []*written
	for _, c := range cleanset() {
		logs = append(logs, &written{topic: c.name, dir: filepath.Join(dir, c.name+"-0")})
	}
	requireDumpToolContent(t, logs)
}

// compareCleaned compares what is left of a topic.
func compareCleaned(t *testing.T, kafka, ours string) (batches, records int) {
	t.Helper()
	files := func(dir, pattern string) []string {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		var names []string
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	logs := files(kafka, "*.log")
	require.Equal(t, logs, files(ours, "*.log"), "%s", ours)
	for _, name := range logs {
		want, got := storedBatches(t, filepath.Join(kafka, name)), storedBatches(t, filepath.Join(ours, name))
		require.Equal(t, summaries(want), summaries(got), "%s %s", ours, name)
		for i := range want {
			w, g := recordsIn(t, want[i]), recordsIn(t, got[i])
			require.Equal(t, w, g, "%s %s, batch %d", ours, name, want[i].BaseOffset())
			batches++
			records += len(w)
			if _, stamped := want[i].DeleteHorizon(); !stamped && want[i].Codec() == record.None {
				require.Equal(t, want[i].Bytes(), got[i].Bytes())
			}
		}
	}
	// We have a file for an empty list, too.
	listed := func(dir string) map[string]string {
		lists := readFiles(t, dir, "*.txnindex")
		maps.DeleteFunc(lists, func(_, data string) bool { return data == "" })
		return lists
	}
	require.Equal(t, listed(kafka), listed(ours), "%s", ours)
	return batches, records
}

func storedBatches(t *testing.T, path string) (all []record.Batch) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for len(data) > 0 {
		b, err := record.Parse(data)
		require.NoError(t, err)
		require.NoError(t, b.Check())
		all = append(all, b)
		data = data[b.Size():]
	}
	return all
}

// summaries are the headers of batches without what depends on the time of cleaning.
func summaries(batches []record.Batch) []record.BatchHeader {
	var all []record.BatchHeader
	for _, b := range batches {
		h := b.Header()
		if _, stamped := b.DeleteHorizon(); stamped {
			h.BaseTimestamp = 0
		}
		all = append(all, h)
	}
	return all
}

func recordsIn(t *testing.T, b record.Batch) []Record {
	t.Helper()
	all := []Record{}
	for r, err := range b.Records(nil) {
		require.NoError(t, err)
		all = append(all, fromSeglog(r.Clone()))
	}
	return all
}
