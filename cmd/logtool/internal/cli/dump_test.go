package cli

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// writeLog makes a log of n records in batches of ten.
func writeLog(t *testing.T, dir string, n int) {
	t.Helper()
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever})
	require.NoError(t, err)
	for i := 0; i < n; i += 10 {
		var batch []seglog.Record
		for j := i; j < min(i+10, n); j++ {
			batch = append(batch, seglog.Record{Timestamp: int64(j) + 1, Key: fmt.Appendf(nil, "k-%d", j), Value: make([]byte, 100)})
		}
		_, err := log.Append(batch, nil)
		require.NoError(t, err)
	}
	require.NoError(t, log.Close())
}

// encode returns a batch of these records.
func encode(t *testing.T, opts record.BuilderOptions, records ...record.Record) []byte {
	t.Helper()
	b := record.NewBuilder(opts)
	for _, r := range records {
		require.NoError(t, b.Append(r))
	}
	built, err := b.Build()
	require.NoError(t, err)
	return bytes.Clone(built)
}

// resum stores the checksum that a batch should have after it was changed.
func resum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// writeSegment writes a file that holds these batches and returns its path.
func writeSegment(t *testing.T, base int64, batches ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), layout.LogName(base))
	require.NoError(t, os.WriteFile(path, bytes.Join(batches, nil), 0o666))
	return path
}

// objects parses JSON lines.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		var fields map[string]any
		require.NoError(t, d.Decode(&fields), "%s", lines.Text())
		all = append(all, fields)
	}
	require.NoError(t, lines.Err())
	return all
}

// Case K008: compaction leaves control batches without a record.
func TestDumpShowsAControlBatchWithoutRecords(t *testing.T) {
	empty := record.AppendEmptyBatch(nil, record.BatchHeader{
		BaseOffset: 1, Attributes: 0x30, ProducerID: 7, BaseSequence: record.NoSequence, MaxTimestamp: 5,
	})
	path := writeSegment(t, 0, encode(t, record.BuilderOptions{}, record.Record{Value: []byte("a")}), empty,
		encode(t, record.BuilderOptions{BaseOffset: 2}, record.Record{Value: []byte("b")}))
	r := run(t, "dump", path, "--records")
	require.Zero(t, r.status, r.stderr)
	require.Regexp(t, `\[1, 2\) +0 +61 +none +ok .*control, transactional, producer 7`, r.stdout)
	require.Equal(t, 3, strings.Count(r.stdout, "["))
	r = run(t, "dump", path, "--kafka", "--records")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "count: 0 baseSequence: -1 lastSequence: -1 producerId: 7 producerEpoch: 0 partitionLeaderEpoch: 0"+
		" isTransactional: true isControl: true")
}

// Case K013: old brokers let the offsets of a segment span more than 31 bits.
func TestDumpShowsOffsetsBeyondWhatASegmentHolds(t *testing.T) {
	var batches [][]byte
	for _, base := range []int64{0, 5, 2147483658, 2147483660} {
		batches = append(batches, encode(t, record.BuilderOptions{BaseOffset: base}, record.Record{Timestamp: 1}))
	}
	path := writeSegment(t, 0, batches...)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	r := run(t, "dump", path)
	require.Zero(t, r.status, r.stderr)
	require.Equal(t, 4, strings.Count(r.stdout, "["))
	require.Equal(t, 2, strings.Count(r.stdout, "offset beyond the 31 bits of a segment"))
	r = run(t, "dump", path, "--kafka")
	require.Contains(t, r.stdout, "baseOffset: 2147483660 lastOffset: 2147483660")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Case K098: null is not empty, and all headers are there, in their order.
func TestDumpTellsNullFromEmpty(t *testing.T) {
	path := writeSegment(t, 0, encode(t, record.BuilderOptions{},
		record.Record{Timestamp: 1, Key: []byte("k")},
		record.Record{Timestamp: 1, Value: []byte("v")},
		record.Record{Timestamp: 1, Key: []byte{}, Value: []byte{}, Headers: []record.Header{
			{Key: "b", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "b", Value: []byte("2")},
		}},
	))
	r := run(t, "dump", path, "--records")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, `0  key "k"  value null  headers 0  1970`)
	require.Contains(t, r.stdout, `1  key null  value 1 B  headers 0  1970`)
	require.Contains(t, r.stdout, `2  key ""  value 0 B  headers 3 "b"=null "a"="" "b"="2"  1970`)
	all := objects(t, run(t, "dump", path, "--records", "-o", "json").stdout)
	require.Equal(t, "k", all[1]["key"])
	require.Nil(t, all[1]["value"])
	require.Contains(t, all[1], "value")
	require.Nil(t, all[2]["key"])
	require.Equal(t, "", all[3]["key"])
	require.Equal(t, "", all[3]["value"])
	require.Equal(t, []any{
		map[string]any{"key": "b", "value": nil}, map[string]any{"key": "a", "value": ""}, map[string]any{"key": "b", "value": "2"},
	}, all[3]["headers"])
}

// Case K100: no byte of a log breaks a line or is lost in JSON.
func TestDumpKeepsEveryByte(t *testing.T) {
	binaryValue := make([]byte, 1<<20)
	for i := range binaryValue {
		binaryValue[i] = byte(i * 7)
	}
	records := []record.Record{
		{Key: []byte("tab\there"), Value: binaryValue, Headers: []record.Header{{Key: "a,b:c\nd", Value: []byte{0xff, 0}}}},
		{Key: []byte{0xff}, Value: []byte("line\nbreak \x1b[31m")},
	}
	path := writeSegment(t, 1<<53, encode(t, record.BuilderOptions{BaseOffset: 1<<53 + 1}, records...))
	all := objects(t, run(t, "dump", path, "--records", "-o", "json").stdout)
	require.Len(t, all, 3)
	require.Equal(t, json.Number("9007199254740993"), all[1]["offset"])
	require.Equal(t, "tab\there", all[1]["key"])
	require.Equal(t, base64.StdEncoding.EncodeToString(binaryValue), all[1]["value_base64"])
	require.Equal(t, []any{map[string]any{"key": "a,b:c\nd", "value_base64": "/wA="}}, all[1]["headers"])
	require.Equal(t, "/w==", all[2]["key_base64"])
	require.Equal(t, "line\nbreak \x1b[31m", all[2]["value"])
	for _, pad := range []string{"", "1", "22", "333"} { // where a large value is cut must not matter
		long := pad + strings.Repeat("zwölf€\x01𝄞", 20_000)
		path := writeSegment(t, 0, encode(t, record.BuilderOptions{}, record.Record{Value: []byte(long)}))
		require.Equal(t, long, objects(t, run(t, "dump", path, "--records", "-o", "json").stdout)[1]["value"])
	}

	text := run(t, "dump", path, "--records").stdout
	require.Equal(t, 5, strings.Count(text, "\n"))
	require.Contains(t, text, `key "tab\there"`)
	require.Contains(t, text, `"a,b:c\nd"="\xff\x00"`)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }))
}

// Case K103: a batch whose checksum holds, but that does not decompress, is named
// and stepped over.
func TestDumpGoesOnBehindABatchThatDoesNotDecompress(t *testing.T) {
	var batches [][]byte
	for i := range int64(5) {
		batches = append(batches, encode(t, record.BuilderOptions{BaseOffset: i, Codec: record.Zstd},
			record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "k-%d", i), Value: make([]byte, 100)}))
	}
	copy(batches[2][61:], "no zstd at all")
	resum(batches[2])
	path := writeSegment(t, 0, batches...)
	require.Zero(t, run(t, "dump", path).status, "the headers are fine")
	r := run(t, "dump", path, "--records")
	require.Equal(t, 3, r.status)
	require.Contains(t, r.stdout, "offset 2: records do not decompress from zstd")
	require.Contains(t, r.stdout, `key "k-4"`)
	require.Equal(t, "logtool: "+path+": 1 place is damaged\ntry: logtool verify "+path+"\n", r.stderr)
	r = run(t, "dump", path, "--records", "-o", "json")
	require.Equal(t, 3, r.status)
	require.Contains(t, r.stdout, `{"type":"bad_records",`)
	r = run(t, "dump", path, "--kafka", "--records")
	require.Equal(t, 3, r.status)
	require.Contains(t, r.stderr, `Exception in thread "main" org.apache.kafka.common.KafkaException: offset 2: `)
}

// Case K127: a codec that nobody has defined is named; bits that mean nothing
// are left alone.
func TestDumpNamesUnknownCodecs(t *testing.T) {
	one := func(attributes uint16) []byte {
		b := encode(t, record.BuilderOptions{}, record.Record{Timestamp: 1, Key: []byte("k")})
		binary.BigEndian.PutUint16(b[21:], attributes)
		return resum(b)
	}
	for codec := uint16(5); codec <= 7; codec++ {
		path := writeSegment(t, 0, one(codec))
		r := run(t, "dump", path)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, fmt.Sprintf("unknown codec %d", codec))
		r = run(t, "dump", path, "--records")
		require.Equal(t, 3, r.status)
		require.Regexp(t, fmt.Sprintf(`codec: unsupported format: %d|codec %d`, codec, codec), r.stdout)
		require.Zero(t, run(t, "dump", path, "--hex").status)
		r = run(t, "dump", path, "--kafka")
		require.Equal(t, 3, r.status)
		require.True(t, strings.HasSuffix(r.stdout, "deleteHorizonMs: OptionalLong.empty"), r.stdout)
		require.Equal(t, fmt.Sprintf("Exception in thread \"main\" java.lang.IllegalArgumentException: Unknown compression type id: %d\n", codec), r.stderr)
	}
	r := run(t, "dump", writeSegment(t, 0, one(0xff80)), "--records")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, `key "k"`)
	r = run(t, "stat", filepath.Dir(writeSegment(t, 0, one(6))))
	require.Contains(t, r.stdout, "codec 6")
}

// countingFS counts the bytes that are read through it, those of logs apart.
type countingFS struct {
	vfs.FS
	read, ofLogs atomic.Int64
}

func (c *countingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return countingFile{f, c}, nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (f countingFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.fs.read.Add(int64(n))
	if filepath.Ext(f.Name()) == ".log" {
		f.fs.ofLogs.Add(int64(n))
	}
	return n, err
}

// Case K099: looking at a few records does not read the log.
func TestDumpOfARangeReadsLittle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 20000)
	info, err := os.Stat(filepath.Join(dir, layout.LogName(0)))
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(2<<20))
	path := filepath.Join(dir, layout.LogName(0))
	ofLog := int64(0)
	dump := func(args ...string) (result, int64) {
		fs := &countingFS{FS: vfs.OS}
		r := runIn(t, Env{FS: fs}, append([]string{"dump", path}, args...)...)
		ofLog = fs.ofLogs.Load()
		return r, fs.read.Load()
	}

	r, read := dump("--from", "15003", "--to", "15008", "--records", "--no-header")
	require.Zero(t, r.status, r.stderr)
	require.Equal(t, 1, strings.Count(r.stdout, "["))
	require.Equal(t, 5, strings.Count(r.stdout, "key"))
	require.Less(t, read, int64(100<<10), "the index has about 24 KiB, the rest is of the log")
	require.Less(t, ofLog, int64(17<<10), "one read, and the header that the index leads to")

	for _, args := range [][]string{{"--offset", "15003"}, {"--time", "15004"}} {
		fs := &countingFS{FS: vfs.OS}
		r := runIn(t, Env{FS: fs}, append([]string{"lookup", dir}, args...)...)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, "15003")
		require.Less(t, fs.ofLogs.Load(), int64(48<<10), "one read, after those that opening takes")
	}

	r, read = dump("--max-bytes", "5000", "--no-header")
	require.Equal(t, 4, strings.Count(r.stdout, "["), "whole batches only: %s", r.stdout)
	require.LessOrEqual(t, read, int64(5000))

	// An index that leads astray is told and not believed.
	index := filepath.Join(dir, layout.OffsetIndexName(0))
	b, err := os.ReadFile(index)
	require.NoError(t, err)
	for i := 4; i < len(b); i += 8 {
		b[i+3] += 3
	}
	require.NoError(t, os.WriteFile(index, b, 0o666))
	r, _ = dump("--from", "15003", "--to", "15008", "--no-header")
	require.Zero(t, r.status)
	require.Equal(t, 1, strings.Count(r.stdout, "["))
	require.Regexp(t, `warning: 00000000000000000000.index: position \d+ starts no batch that holds offset \d+; reading from the start`, r.stderr)

	require.NoError(t, os.Remove(index))
	r, _ = dump("--from", "15003", "--to", "15008", "--no-header")
	require.Equal(t, 1, strings.Count(r.stdout, "["))
	require.Empty(t, r.stderr)
}

// Case K102: memory follows the largest batch, not the file.
func TestDumpStreams(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Gzip})
	path := filepath.Join(t.TempDir(), layout.LogName(0))
	f, err := os.Create(path)
	require.NoError(t, err)
	value := bytes.Repeat([]byte{'x'}, 1<<20)
	for i := range int64(25) {
		b.Reset(record.BuilderOptions{BaseOffset: i, Codec: record.Gzip, Level: 1})
		require.NoError(t, b.Append(record.Record{Timestamp: 1, Value: value}))
		batch, err := b.Build()
		require.NoError(t, err)
		_, err = f.Write(batch)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	for _, args := range [][]string{{"--records"}, {"--records", "-o", "json"}, {"--kafka", "--records"}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := runIn(t, Env{Stdout: discard{}}, append([]string{"dump", path}, args...)...)
		runtime.ReadMemStats(&after)
		require.Zero(t, r.status, r.stderr)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20<<20), "%v: all there is takes 25 MiB", args)
	}
}

var dumpBatch = flag.Int("dump.batch", 24, "MiB of a large batch")

// The first line comes before the log has been read, and one large batch takes memory for
// itself, once.
func TestDumpBeginsAtOnceAndHoldsOneBatch(t *testing.T) {
	size := *dumpBatch << 20
	value := bytes.Repeat([]byte{'x'}, size)
	value[size-1] = 0xff // it is no text
	large := encode(t, record.BuilderOptions{BaseOffset: 100}, record.Record{Timestamp: 1, Value: value})
	batches := [][]byte{}
	for i := range int64(100) {
		batches = append(batches, encode(t, record.BuilderOptions{BaseOffset: i}, record.Record{Timestamp: 1, Value: make([]byte, 100)}))
	}
	path := writeSegment(t, 0, append(batches, large)...)
	for _, args := range [][]string{nil, {"--records"}, {"--records", "-o", "json"}, {"--kafka"}, {"--kafka", "--records"}} {
		fs := &countingFS{FS: vfs.OS}
		first := &firstWrite{fs: fs}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := runIn(t, Env{FS: fs, Stdout: first}, append([]string{"dump", path}, args...)...)
		runtime.ReadMemStats(&after)
		require.Zero(t, r.status, r.stderr)
		if args == nil || args[0] != "--kafka" { // which is buffered as Kafka's is
			require.Less(t, first.read, int64(size/2), "%v", args)
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*size), "%v", args)
	}
}

// firstWrite notes what had been read when the first output came.
type firstWrite struct {
	fs      *countingFS
	written bool
	read    int64
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if !w.written {
		w.written, w.read = true, w.fs.read.Load()
	}
	return len(b), nil
}

// Message formats may alternate within a segment, as a half-done upgrade leaves them.
func TestDumpShowsFormatsThatAlternate(t *testing.T) {
	dir := filepath.Join("../../../../testdata/kafka/legacy/mixed-0")
	r := run(t, "dump", dir, "--records")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "magic 0")
	require.Contains(t, r.stdout, "magic 1")
	require.NotContains(t, r.stdout, "BAD")
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	defer log.Close()
	all := objects(t, run(t, "dump", dir, "--records", "-o", "json").stdout)
	n := 0
	for rec, err := range log.Records(t.Context(), 0, nil) {
		require.NoError(t, err)
		for all[n]["type"] != "record" {
			n++
		}
		require.Equal(t, json.Number(fmt.Sprint(rec.Offset)), all[n]["offset"])
		n++
	}
}

var besideRounds = flag.Int("beside.rounds", 15, "how often to look at a log while batches are being written to it")

// The same with a writer that does not wait until someone has looked, and with verify.
func TestLookingAtALogWhileBatchesAreWrittenFindsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 100)
	log, err := seglog.Open(dir, seglog.Options{})
	require.NoError(t, err)
	defer log.Close()
	path := filepath.Join(dir, layout.LogName(0))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	pieces, written := make(chan []byte, 100), make(chan error, 1)
	go func() {
		var err error
		for piece := range pieces {
			_, failed := f.Write(piece)
			err = errors.Join(err, failed)
		}
		written <- err
	}()
	offset := int64(100)
	for range *besideRounds {
		for _, args := range [][]string{{"verify", dir}, {"dump", dir}, {"dump", path, "--records"}, {"dump", path, "--kafka"}, {"stat", dir}, {"ls", dir}, {"cat", dir}} {
			for range 10 {
				batch := encode(t, record.BuilderOptions{BaseOffset: offset}, record.Record{Timestamp: offset + 1, Value: make([]byte, 140)})
				for offset++; len(batch) > 0; batch = batch[min(len(batch), 37):] {
					pieces <- batch[:min(len(batch), 37)]
				}
			}
			r := run(t, args...)
			require.Zero(t, r.status, "%v: %s", args, r.stderr)
			require.NotContains(t, r.stdout+r.stderr, "torn", "%v", args)
		}
	}
	close(pieces)
	require.NoError(t, <-written)
	r := run(t, "verify", dir)
	require.Zero(t, r.status, r.stderr)
	require.NotContains(t, r.stdout, "being written")
}

// Case K096: a batch that is being written is never taken for damage.
func TestDumpBesideAWriterFindsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 100)
	log, err := seglog.Open(dir, seglog.Options{})
	require.NoError(t, err)
	defer log.Close()
	path := filepath.Join(dir, layout.LogName(0))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	offset := int64(100)
	for range 20 {
		batch := encode(t, record.BuilderOptions{BaseOffset: offset}, record.Record{Timestamp: 1, Value: make([]byte, 200)})
		offset++
		for len(batch) > 0 {
			n := min(len(batch), 37)
			_, err := f.Write(batch[:n])
			require.NoError(t, err)
			batch = batch[n:]
			for _, args := range [][]string{{"dump", dir}, {"dump", path, "--records"}, {"dump", path, "--kafka"}, {"stat", dir}, {"ls", dir}} {
				r := run(t, args...)
				require.Zero(t, r.status, "%v: %s", args, r.stderr)
				require.NotContains(t, r.stdout, "torn")
				require.Equal(t, len(batch) > 0 && args[0] == "dump" && len(args) < 4 && args[len(args)-1] != "--kafka",
					strings.Contains(r.stdout, "in progress"), "%v", args)
			}
		}
	}
	// And neither is the room that it made.
	require.NoError(t, f.Truncate(1<<20))
	r := run(t, "dump", dir)
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "in progress")
}

func TestDumpOfLockFileSaysThatItHoldsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	writeLog(t, dir, 1)
	r := run(t, "dump", filepath.Join(dir, layout.LockFileName))
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "a lock file holds nothing")
}

// Every kind of file that the layout knows is dumped or says why not.
func TestDumpReadsWhatKafkaWrote(t *testing.T) {
	root := filepath.FromSlash("../../../../testdata/kafka")
	n := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(path, ".expect") || strings.Contains(path, "blocks-") {
			return err
		}
		if _, known := layout.ParseFile(e.Name()); !known {
			return nil
		}
		n++
		for _, args := range [][]string{{"dump", path}, {"dump", path, "-o", "json"}} {
			r := run(t, args...)
			if damaged := strings.Contains(path, "flipped") || strings.Contains(path, "garbage"); r.status != 3 || !damaged {
				require.Zero(t, r.status, "%s: %s", path, r.stderr)
			}
			if args[len(args)-1] == "json" {
				objects(t, r.stdout)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, n, 300)
}
