package seglog_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// golden is a partition directory that Kafka has written, with what Kafka said
// of it. See testdata/kafka/README.md.
type golden struct {
	set, name string
}

func (g golden) dir() string    { return filepath.Join("testdata", "kafka", g.set, g.name) }
func (g golden) expect() string { return filepath.Join("testdata", "kafka", g.set+".expect", g.name) }

// goldens are the partitions of a set for which records are expected.
func goldens(t testing.TB, set string) []golden {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", "kafka", set))
	require.NoError(t, err)
	var all []golden
	for _, e := range entries {
		g := golden{set, e.Name()}
		if e.IsDir() && g.name != wrapperZero && (g.has("expect.jsonl") || g.has("expect.jsonl.gz")) {
			all = append(all, g)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func (g golden) has(name string) bool {
	_, err := os.Stat(filepath.Join(g.expect(), name))
	return err == nil
}

// copy makes a log directory with a writable copy of the partition, in the
// midst of a copy of the broker's own files.
func (g golden) copy(t testing.TB) string {
	t.Helper()
	broker := copyDir(t, filepath.Dir(g.dir()), t.TempDir())
	return copyDir(t, g.dir(), filepath.Join(broker, g.name))
}

type expectedRecord struct {
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []struct {
		Key   string
		Value []byte
	}
}

func (e expectedRecord) record() seglog.Record {
	r := seglog.Record{Offset: e.Offset, Timestamp: e.Timestamp, Key: e.Key, Value: e.Value}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, seglog.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// records are what a client of Kafka got.
func (g golden) records(t testing.TB) []seglog.Record {
	t.Helper()
	var in io.Reader
	if g.has("expect.jsonl.gz") {
		zipped, err := gzip.NewReader(bytes.NewReader(readFile(t, filepath.Join(g.expect(), "expect.jsonl.gz"))))
		require.NoError(t, err)
		in = zipped
	} else {
		in = bytes.NewReader(readFile(t, filepath.Join(g.expect(), "expect.jsonl")))
	}
	records := []seglog.Record{}
	eachLine(t, in, func(e expectedRecord) { records = append(records, e.record()) })
	return records
}

func eachLine[T any](t testing.TB, in io.Reader, f func(T)) {
	t.Helper()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v), lines.Text())
		f(v)
	}
	require.NoError(t, lines.Err())
}

type expectedOffsets struct {
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	MaxOffset int64 `json:"max_time_offset"`
	MaxTime   int64 `json:"max_time"`
}

type expectedLookup struct {
	Timestamp, Offset, Found int64
}

// requireGolden compares a log with all that Kafka said of it.
func requireGolden(t *testing.T, g golden, l *seglog.Log) {
	t.Helper()
	want := g.records(t)
	got := readAll(t, l, l.Offsets().Start)
	require.Len(t, got, len(want))
	for i := range want {
		requireSame(t, want[i], got[i])
		one, err := l.Get(want[i].Offset)
		require.NoError(t, err)
		requireSame(t, want[i], one)
	}
	requireGaps(t, l, want)
	if g.has("offsets.json") {
		requireGoldenOffsets(t, g, l)
	}
	if !g.has("lookups.jsonl") {
		return
	}
	eachLine(t, bytes.NewReader(readFile(t, filepath.Join(g.expect(), "lookups.jsonl"))), func(e expectedLookup) {
		at, found, err := l.OffsetForTime(e.Timestamp)
		require.NoError(t, err)
		if !found {
			at = seglog.TimestampOffset{Timestamp: -1, Offset: -1}
		}
		if e.Offset < 0 {
			// Kafka asks no further segment when the first one whose age
			// reaches the target has nothing, as an empty one, whose age is
			// that of its file. Here that is no reason to find nothing.
			e = firstSince(want, e.Timestamp)
		}
		require.Equal(t, seglog.TimestampOffset{Timestamp: e.Found, Offset: e.Offset}, at, "timestamp %d", e.Timestamp)
	})
}

// firstSince is the definition of a look-up by time.
func firstSince(records []seglog.Record, timestamp int64) expectedLookup {
	for _, r := range records {
		if r.Timestamp >= timestamp && r.Timestamp >= 0 {
			return expectedLookup{timestamp, r.Offset, r.Timestamp}
		}
	}
	return expectedLookup{timestamp, -1, -1}
}

func requireGoldenOffsets(t *testing.T, g golden, l *seglog.Log) {
	t.Helper()
	var want expectedOffsets
	require.NoError(t, json.Unmarshal(readFile(t, filepath.Join(g.expect(), "offsets.json")), &want))
	require.Equal(t, want.Start, l.Offsets().Start)
	require.Equal(t, want.End, l.Offsets().End)
	at, found, err := l.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(t, err)
	if !found { // the offset of no timestamp means nothing
		at = seglog.TimestampOffset{Timestamp: -1, Offset: want.MaxOffset}
	}
	require.Equal(t, seglog.TimestampOffset{Timestamp: want.MaxTime, Offset: want.MaxOffset}, at)
}

// requireGaps asks for every offset that has no record.
func requireGaps(t *testing.T, l *seglog.Log, records []seglog.Record) {
	t.Helper()
	at := l.Offsets()
	if at.End-at.Start > 10_000 {
		return
	}
	for o := at.Start; o < at.End; o++ {
		if len(records) > 0 && records[0].Offset == o {
			records = records[1:]
			continue
		}
		next := at.End
		if len(records) > 0 {
			next = records[0].Offset
		}
		_, err := l.Get(o)
		var gap *seglog.GapError
		require.ErrorAs(t, err, &gap)
		require.Equal(t, seglog.GapError{Offset: o, Next: next}, *gap)
	}
}

// wrapperZero is a wrapper whose offset is 0 although it holds three messages,
// as an old client wrote them. Its header, and so a Kafka log that ends with it,
// says that the next offset is 1.
const wrapperZero = "v1-wrapper-zero-0"

func TestAWrapperWithOffsetZeroKeepsTheOffsetsInsideIt(t *testing.T) {
	g := golden{"legacy", wrapperZero}
	l := openLog(t, g.dir(), seglog.Options{ReadOnly: true})
	want := g.records(t)
	n := 0
	for b, err := range l.Batches(t.Context(), 0, nil) {
		require.NoError(t, err)
		for r, err := range b.Records(nil) {
			require.NoError(t, err)
			requireSame(t, want[n], *r)
			n++
		}
	}
	require.Len(t, want, n)
	require.Equal(t, int64(1), l.Offsets().End)
}

var goldenSets = []string{"4.3.1", "4.3.1-recovered", "legacy"}

func TestKafkasFilesReadAsKafkaReadsThem(t *testing.T) {
	for _, set := range goldenSets {
		for _, g := range goldens(t, set) {
			t.Run(set+"/"+g.name, func(t *testing.T) {
				before := traces(t, g.dir())
				l := openLog(t, g.dir(), seglog.Options{ReadOnly: true})
				require.Empty(t, stats(t, l).Recovery.Cut)
				requireGolden(t, g, l)
				closeLog(t, l)
				requireUntouched(t, g.dir(), before)
			})
		}
	}
}

// KRaft's metadata log holds its state in other files too; only its batches
// are looked at.
func TestKafkasMetadataLogReads(t *testing.T) {
	l := openLog(t, filepath.Join("testdata", "kafka", "4.3.1", "__cluster_metadata-0"), seglog.Options{ReadOnly: true})
	n := 0
	for b, err := range l.Batches(t.Context(), l.Offsets().Start, nil) {
		require.NoError(t, err)
		require.NoError(t, b.Verify(nil))
		n++
	}
	require.Positive(t, n)
	require.Empty(t, stats(t, l).Recovery.Cut)
}

// Opening for writing, rebuilding what is derived, and writing on.
func TestKafkasFilesCanBeWrittenOn(t *testing.T) {
	for _, set := range goldenSets {
		for _, g := range goldens(t, set) {
			t.Run(set+"/"+g.name, func(t *testing.T) {
				dir := g.copy(t)
				l := openLog(t, dir, quick)
				require.Empty(t, stats(t, l).Recovery.Cut)
				require.Empty(t, stats(t, l).Recovery.Removed)
				requireGolden(t, g, l)

				// Sealed indexes are Kafka's own still.
				for _, s := range segments(t, l) {
					if s.Active {
						continue
					}
					for _, suffix := range []string{".log", ".index", ".timeindex"} {
						was, err := os.ReadFile(segmentFile(g.dir(), s.BaseOffset, suffix))
						if !errors.Is(err, fs.ErrNotExist) {
							require.NoError(t, err)
							require.Equal(t, was, readFile(t, segmentFile(dir, s.BaseOffset, suffix)))
						}
					}
				}
				l = withoutIndexes(t, l)
				requireGolden(t, g, l)
				requireAppendable(t, l)
				l = reopen(t, l, quick)
				requireAppendable(t, l)
				closeLog(t, l)
				requireSound(t, dir)
			})
		}
	}
}

// withoutIndexes closes a log, deletes every index and opens it again.
func withoutIndexes(t *testing.T, l *seglog.Log) *seglog.Log {
	t.Helper()
	closeLog(t, l)
	for _, pattern := range []string{"*.index", "*.timeindex"} {
		paths, err := filepath.Glob(filepath.Join(l.Dir(), pattern))
		require.NoError(t, err)
		for _, p := range paths {
			require.NoError(t, os.Remove(p))
		}
	}
	return openLog(t, l.Dir(), dense)
}

func requireAppendable(t *testing.T, l *seglog.Log) {
	t.Helper()
	end := l.Offsets().End
	res, err := l.Append([]seglog.Record{
		{Timestamp: 4_000_000_000_000 + end, Key: []byte("new"), Value: []byte("a")},
		{Timestamp: 4_000_000_000_001 + end, Key: []byte("new"), Value: []byte("b")}}, nil)
	require.NoError(t, err)
	require.Equal(t, seglog.AppendResult{BaseOffset: end, LastOffset: end + 1, Timestamp: 4_000_000_000_001 + end}, res)
	require.Equal(t, []int64{end, end + 1}, offsetsOf(readAll(t, l, end)))
	require.Equal(t, end+1, offsetForTime(t, l, 4_000_000_000_001+end))
}

// After a kill, recovery ends where Kafka's own ended.
func TestRecoveryOfKilledBrokersEndsWhereKafkasDoes(t *testing.T) {
	for _, g := range goldens(t, "4.3.1-killed") {
		if g.name == "flipped-0" {
			continue // see below
		}
		recovered := golden{"4.3.1-recovered", g.name}
		t.Run(g.name, func(t *testing.T) {
			t.Run("read-only", func(t *testing.T) {
				before := traces(t, g.dir())
				l := openLog(t, g.dir(), seglog.Options{ReadOnly: true})
				requireGolden(t, g, l)
				closeLog(t, l)
				requireUntouched(t, g.dir(), before)
			})
			dir := g.copy(t)
			l := openLog(t, dir, goldenInterval)
			requireGolden(t, g, l)
			requireGolden(t, recovered, l)
			require.False(t, stats(t, l).Recovery.Clean)
			closeLog(t, l)
			for _, base := range logBases(t, dir) {
				for _, suffix := range []string{".log", ".index", ".timeindex"} {
					require.Equal(t, readFile(t, segmentFile(recovered.dir(), base, suffix)),
						readFile(t, segmentFile(dir, base, suffix)), "%020d%s", base, suffix)
				}
			}
			require.Equal(t, logBases(t, recovered.dir()), logBases(t, dir))
			requireSound(t, dir)

			l = openLog(t, dir, goldenInterval)
			require.True(t, stats(t, l).Recovery.Clean)
			requireAppendable(t, l)
		})
	}
}

// goldenInterval is the index.interval.bytes of the killed topics.
var goldenInterval = seglog.Options{IndexIntervalBytes: 200, Sync: seglog.SyncNever, TimestampAfterMax: -1}

func logBases(t testing.TB, dir string) []int64 {
	t.Helper()
	l, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	defer l.Close()
	return bases(t, l)
}

// The bit that was flipped is in a base offset, which no checksum covers. Kafka
// takes the new offset, 2^60 too large, for real and splits the segment there. We
// ask for less: the log opens, every record before is there, and what was done is
// said.
func TestABaseOffsetThatCannotBeIsNamedAndCostsNothingBeforeIt(t *testing.T) {
	g := golden{"4.3.1-killed", "flipped-0"}
	want := g.records(t)
	for len(want) > 0 && want[len(want)-1].Offset > 1<<40 {
		want = want[:len(want)-1]
	}
	dir := g.copy(t)
	for _, readOnly := range []bool{true, false} {
		opts := goldenInterval
		opts.ReadOnly = readOnly
		l := openLog(t, dir, opts)
		found, damage := offsetsFrom(t, l, 0)
		require.Subset(t, found, offsetsOf(want))
		require.NotEmpty(t, append(cutsOf(t, l), damagesOf(damage)...), "nothing is said about it")
		for _, r := range want {
			got, err := l.Get(r.Offset)
			require.NoError(t, err)
			requireSame(t, r, got)
		}
		closeLog(t, l)
	}
}

func cutsOf(t testing.TB, l *seglog.Log) []error {
	var all []error
	for _, c := range stats(t, l).Recovery.Cut {
		all = append(all, c.Reason)
	}
	return all
}

func damagesOf(damage []*seglog.CorruptionError) []error {
	var all []error
	for _, d := range damage {
		all = append(all, d)
	}
	return all
}

// What is written again, batch by batch, is the same file.
func TestReplicatingKafkasLogGivesTheSameBytes(t *testing.T) {
	for _, g := range goldens(t, "4.3.1") {
		t.Run(g.name, func(t *testing.T) {
			from := openLog(t, g.dir(), seglog.Options{ReadOnly: true})
			to := openSized(t, filepath.Join(t.TempDir(), g.name), quick)
			require.NoError(t, to.TruncateFullyAndStartAt(bases(t, from)[0]))
			var want []byte
			for _, base := range bases(t, from) {
				want = append(want, readFile(t, segmentFile(g.dir(), base, ".log"))...)
			}
			for b, err := range from.Batches(t.Context(), from.Offsets().Start, nil) {
				require.NoError(t, err)
				require.Equal(t, record.MagicV2, b.Magic())
				_, err := to.AppendReplicated(bytes.Clone(b.Bytes()), nil)
				require.NoError(t, err)
			}
			require.Equal(t, from.Offsets().End, to.Offsets().End)
			got := []byte{}
			for _, base := range bases(t, to) {
				got = append(got, readFile(t, segmentFile(to.Dir(), base, ".log"))...)
			}
			require.True(t, bytes.HasSuffix(want, got), "%d bytes are not the last of %d", len(got), len(want))
		})
	}
}
