package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// A written is a log that seglog wrote, as a topic of Kafka is to have it.
type written struct {
	topic string
	dir   string // of the one partition
	want  *Capture
}

// A writeSpec says how seglog writes a log.
type writeSpec struct {
	name  string
	opts  seglog.Options
	write func(*testing.T, *seglog.Log, *filler)
}

// writeset returns the logs seglog writes: each codec, and each way to append.
func writeset() []writeSpec {
	small := func(opts seglog.Options) seglog.Options {
		opts.SegmentBytes = 6000
		opts.IndexIntervalBytes = 600
		opts.Sync = seglog.SyncNever
		opts.RetentionTime = -time.Hour // the records are of long ago
		return opts
	}
	var specs []writeSpec
	for codec := record.None; codec <= record.Zstd; codec++ {
		specs = append(specs, writeSpec{
			name:  "ours-" + codec.String(),
			opts:  small(seglog.Options{Compression: codec}),
			write: writeMixed,
		}, writeSpec{
			name:  "ours-blocks-" + codec.String(),
			opts:  seglog.Options{Compression: codec},
			write: writeBlocks,
		})
	}
	return append(specs,
		writeSpec{name: "ours-logappend", opts: small(seglog.Options{TimestampType: record.LogAppendTime}), write: writeMixed},
		writeSpec{name: "ours-prebuilt", opts: small(seglog.Options{}), write: writePrebuilt},
		writeSpec{name: "ours-replicated", opts: small(seglog.Options{}), write: writeReplicated},
		writeSpec{name: "ours-trimmed", opts: small(seglog.Options{}), write: writeTrimmed},
		writeSpec{name: "ours-truncated", opts: small(seglog.Options{}), write: writeTruncated},
	)
}

// writeLogs writes every log of the set under dir and returns them, closed,
// with what seglog itself reads back.
func writeLogs(t *testing.T, dir string, scale Scale) []*written {
	t.Helper()
	var logs []*written
	for i, spec := range writeset() {
		w := &written{topic: spec.name, dir: filepath.Join(dir, spec.name+"-0")}
		log, err := seglog.Open(w.dir, spec.opts)
		require.NoError(t, err)
		spec.write(t, log, &filler{scale: scale, random: rand.New(rand.NewPCG(uint64(i), 2))})
		w.want = captureLog(t, log, spec.name)
		require.NoError(t, log.Close())
		logs = append(logs, w)
	}
	return logs
}

// captureLog asks log what a Kafka client would ask a broker.
func captureLog(t *testing.T, log *seglog.Log, topic string) *Capture {
	t.Helper()
	out := &Capture{Topic: topic}
	out.Offsets.Start, out.Offsets.End = log.Offsets().Start, log.Offsets().End
	for r, err := range log.Records(t.Context(), out.Offsets.Start, nil) {
		require.NoError(t, err)
		out.Records = append(out.Records, fromSeglog(r.Clone()))
	}
	at, found, err := log.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(t, err)
	require.True(t, found, "%s", topic)
	out.Offsets.MaxTime, out.Offsets.MaxTimeOffset = at.Timestamp, at.Offset
	for _, timestamp := range probeTimes(out.Records) {
		at, found, err := log.OffsetForTime(timestamp)
		require.NoError(t, err)
		lookup := Lookup{timestamp, -1, -1}
		if found {
			lookup.Offset, lookup.Found = at.Offset, at.Timestamp
		}
		out.Lookups = append(out.Lookups, lookup)
	}
	return out
}

// appendMixed appends n records in batches of 1 to 9 and checks that they are
// read back as they were given.
func appendMixed(t *testing.T, log *seglog.Log, f *filler, n int) {
	t.Helper()
	for i := 0; i < n; {
		batch := make([]seglog.Record, 0, 9)
		for range min(1+f.random.IntN(9), n-i) {
			batch = append(batch, f.mixedRecord(i).toSeglog())
			i++
		}
		res, err := log.Append(batch, nil)
		require.NoError(t, err)
		for j, r := range batch {
			got, err := log.Get(res.BaseOffset + int64(j))
			require.NoError(t, err)
			r.Offset = got.Offset
			r.Timestamp = got.Timestamp // LogAppendTime sets it
			require.Equal(t, fromSeglog(r), fromSeglog(got))
		}
	}
}

func (r Record) toSeglog() seglog.Record {
	out := seglog.Record{Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, record.Header(h))
	}
	return out
}

func writeMixed(t *testing.T, log *seglog.Log, f *filler) {
	appendMixed(t, log, f, f.scale.Records)
}

// writeBlocks appends batches larger than the codecs' blocks, one of them of
// bytes that do not shrink.
func writeBlocks(t *testing.T, log *seglog.Log, f *filler) {
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(f.random.Uint32())
	}
	for i, value := range [][]byte{f.text(150_000), noise, nil} {
		_, err := log.Append([]seglog.Record{
			{Timestamp: firstTime + int64(i), Key: []byte("long"), Value: value},
			{Timestamp: firstTime + int64(i) + 1, Key: []byte("short"), Value: f.text(10)},
		}, nil)
		require.NoError(t, err)
	}
}

// writePrebuilt appends batches that were encoded elsewhere, of an idempotent
// producer and compressed in turn by each codec.
func writePrebuilt(t *testing.T, log *seglog.Log, f *filler) {
	sequence := int32(0)
	for i := range f.scale.Records / 10 {
		b := record.NewBuilder(record.BuilderOptions{
			Codec:    record.Codec(i % 5),
			Producer: &record.Producer{ID: 77, Epoch: 1, BaseSequence: sequence},
		})
		for j := range 1 + i%4 {
			require.NoError(t, b.Append(f.mixedRecord(10*i+j).toSeglog()))
			sequence++
		}
		batch, err := b.Build()
		require.NoError(t, err)
		_, err = log.AppendBatch(batch, nil)
		require.NoError(t, err)
	}
}

// writeReplicated appends batches that bring their offsets and epochs, with
// gaps as compaction leaves them.
func writeReplicated(t *testing.T, log *seglog.Log, f *filler) {
	next := int64(5)
	for i := range f.scale.Records / 10 {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: next, LeaderEpoch: int32(i / 10)})
		for j := range 1 + i%4 {
			require.NoError(t, b.AppendAt(next+int64(2*j), f.mixedRecord(10*i+j).toSeglog()))
		}
		batch, err := b.Build()
		require.NoError(t, err)
		res, err := log.AppendReplicated(batch, nil)
		require.NoError(t, err)
		next = res.LastOffset + 1 + int64(i%3)
	}
}

// writeTrimmed removes the oldest segments.
func writeTrimmed(t *testing.T, log *seglog.Log, f *filler) {
	appendMixed(t, log, f, f.scale.Records)
	segments, err := log.Segments()
	require.NoError(t, err)
	require.Greater(t, len(segments), 3)
	require.NoError(t, log.DeleteBefore(segments[2].BaseOffset))
	_, err = log.ApplyRetention(t.Context())
	require.NoError(t, err)
}

// writeTruncated cuts the log and appends other records there.
func writeTruncated(t *testing.T, log *seglog.Log, f *filler) {
	appendMixed(t, log, f, f.scale.Records)
	require.NoError(t, log.TruncateTo(log.Offsets().End/2))
	appendMixed(t, log, f, f.scale.Records/2)
}

// install puts a directory in place of the topic's partition, whose broker is
// stopped. It is what an operator would do: the files are copied, Kafka's
// partition.metadata stays, and what the checkpoints say of the old files goes.
func (b *Broker) install(w *written) {
	b.tb.Helper()
	require.Nil(b.tb, b.process, "the broker runs")
	partition := filepath.Join(b.LogDir, w.topic+"-0")
	metadata, err := os.ReadFile(filepath.Join(partition, "partition.metadata"))
	require.NoError(b.tb, err)
	require.NoError(b.tb, os.RemoveAll(partition))
	require.NoError(b.tb, os.CopyFS(partition, os.DirFS(w.dir)))
	require.NoError(b.tb, os.WriteFile(filepath.Join(partition, "partition.metadata"), metadata, 0o644))
	for _, name := range []string{
		"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
	} {
		b.forget(filepath.Join(b.LogDir, name), w.topic)
	}
}

// forget takes the topic out of a checkpoint file: a version, a count, and a
// line for each partition.
func (b *Broker) forget(file, topic string) {
	b.tb.Helper()
	text, err := os.ReadFile(file)
	require.NoError(b.tb, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.GreaterOrEqual(b.tb, len(lines), 2)
	var kept []string
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, topic+" 0 ") {
			kept = append(kept, line+"\n")
		}
	}
	out := fmt.Sprintf("%s\n%d\n%s", lines[0], len(kept), strings.Join(kept, ""))
	require.NoError(b.tb, os.WriteFile(file, []byte(out), 0o644))
}
