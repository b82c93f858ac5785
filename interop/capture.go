package interop

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Capture is what Kafka served of one topic: the answers seglog must give
// over the same files.
type Capture struct {
	Topic     string
	Records   []Record // every data record, aborted ones too
	Committed []Record // what a read_committed consumer got
	Offsets   Offsets
	Lookups   []Lookup
	Bulky     bool
}

// Offsets are the broker's answers to ListOffsets for its special timestamps.
type Offsets struct {
	Start         int64 `json:"start"`
	End           int64 `json:"end"`
	MaxTimeOffset int64 `json:"max_time_offset"`
	MaxTime       int64 `json:"max_time"`
}

// A Lookup is the broker's answer to ListOffsets for one timestamp. Offset and
// Found are -1 when no record is that young.
type Lookup struct {
	Timestamp int64 `json:"timestamp"`
	Offset    int64 `json:"offset"`
	Found     int64 `json:"found"`
}

// produce fills every topic of the data set and returns what a client got
// back. The broker runs on.
func produce(b *Broker, scale Scale, topics []topicSpec) map[string]*Capture {
	b.tb.Helper()
	client := b.NewClient()
	for i, spec := range topics {
		if !spec.internal {
			client.CreateTopic(spec.name, spec.config)
		}
		spec.fill(&filler{
			Client: client,
			broker: b,
			topic:  spec.name,
			scale:  scale,
			random: rand.New(rand.NewPCG(uint64(i), 1)),
		})
	}
	b.settle()
	captures := make(map[string]*Capture, len(topics))
	for _, spec := range topics {
		captures[spec.name] = client.capture(spec)
	}
	return captures
}

// settle waits until no segment is left that only waits for its removal.
func (b *Broker) settle() {
	b.tb.Helper()
	b.await("remove deleted segments", clientTimeout, func(ctx context.Context) bool {
		left, err := filepath.Glob(filepath.Join(b.LogDir, "*", "*.deleted"))
		require.NoError(b.tb, err)
		return len(left) == 0
	})
}

func (c *Client) capture(spec topicSpec) *Capture {
	c.tb.Helper()
	out := &Capture{Topic: spec.name, Bulky: spec.bulky, Offsets: c.allOffsets(spec.name)}
	out.Records = c.Consume(spec.name, out.Offsets.Start)
	out.Committed = c.ConsumeCommitted(spec.name, out.Offsets.Start)
	if spec.lookups {
		out.Lookups = c.lookUp(spec.name, out.Records)
	}
	return out
}

func (c *Client) allOffsets(topic string) Offsets {
	c.tb.Helper()
	var out Offsets
	out.Start, out.End = c.Offsets(topic)
	out.MaxTimeOffset, out.MaxTime = c.OffsetOfMaxTime(topic)
	return out
}

// lookUp asks for timestamps around those of the records.
func (c *Client) lookUp(topic string, records []Record) []Lookup {
	c.tb.Helper()
	var lookups []Lookup
	for _, timestamp := range probeTimes(records) {
		offset, found := c.OffsetForTime(topic, timestamp)
		lookups = append(lookups, Lookup{timestamp, offset, found})
	}
	return lookups
}

// probeTimes returns timestamps worth asking for: around those there are.
func probeTimes(records []Record) []int64 {
	const enough = 150 // more would say the same again
	var times []int64
	for _, r := range records {
		if r.Timestamp > 0 {
			times = append(times, r.Timestamp-1, r.Timestamp, r.Timestamp+1)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	probes := []int64{0}
	for i := 0; i < len(times); i += len(times)/enough + 1 {
		probes = append(probes, times[i])
	}
	return probes
}

// save writes the capture into dir, one JSON object per line. The records of a
// bulky topic are compressed.
func (c *Capture) save(tb testing.TB, dir string) {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	records := "expect.jsonl"
	if c.Bulky {
		records += ".gz"
	}
	saveLines(tb, filepath.Join(dir, records), c.Records)
	if c.Committed != nil && !slices.EqualFunc(c.Records, c.Committed, func(a, b Record) bool { return a.Offset == b.Offset }) {
		saveLines(tb, filepath.Join(dir, "expect.committed.jsonl"), c.Committed)
	}
	saveLines(tb, filepath.Join(dir, "offsets.json"), []Offsets{c.Offsets})
	if len(c.Lookups) > 0 {
		saveLines(tb, filepath.Join(dir, "lookups.jsonl"), c.Lookups)
	}
}

func saveLines[T any](tb testing.TB, file string, rows []T) {
	tb.Helper()
	f, err := os.Create(file)
	require.NoError(tb, err)
	var w io.Writer = f
	closers := []io.Closer{f}
	if filepath.Ext(file) == ".gz" {
		z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
		require.NoError(tb, err)
		w, closers = z, []io.Closer{z, f}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, row := range rows {
		require.NoError(tb, enc.Encode(row))
	}
	for _, c := range closers {
		require.NoError(tb, c.Close())
	}
}

// loadCapture reads what save wrote.
func loadCapture(tb testing.TB, dir string) *Capture {
	tb.Helper()
	c := &Capture{Topic: filepath.Base(dir)}
	var found bool
	if c.Records, found = loadLines[Record](tb, filepath.Join(dir, "expect.jsonl")); !found {
		c.Records, c.Bulky = loadLines[Record](tb, filepath.Join(dir, "expect.jsonl.gz"))
	}
	if c.Committed, found = loadLines[Record](tb, filepath.Join(dir, "expect.committed.jsonl")); !found {
		c.Committed = c.Records
	}
	if offsets, found := loadLines[Offsets](tb, filepath.Join(dir, "offsets.json")); found {
		c.Offsets = offsets[0]
	}
	c.Lookups, _ = loadLines[Lookup](tb, filepath.Join(dir, "lookups.jsonl"))
	return c
}

func loadLines[T any](tb testing.TB, file string) (rows []T, found bool) {
	tb.Helper()
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	require.NoError(tb, err)
	defer f.Close()
	var r io.Reader = f
	if filepath.Ext(file) == ".gz" {
		r, err = gzip.NewReader(f)
		require.NoError(tb, err)
	}
	for dec := json.NewDecoder(r); ; {
		var row T
		err := dec.Decode(&row)
		if err == io.EOF {
			return rows, true
		}
		require.NoError(tb, err, "%s", file)
		rows = append(rows, row)
	}
}
