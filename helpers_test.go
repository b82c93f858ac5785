package seglog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// tb is what a test and a check of package rapid have in common.
type tb interface {
	require.TestingT
	Helper()
	Cleanup(func())
	Context() context.Context
}

// quick is for tests that are not about durability, nor about the clock.
var quick = seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1}

// openLog opens a log and closes it when the test ends.
func openLog(t tb, dir string, opts seglog.Options) *seglog.Log {
	t.Helper()
	if opts.AheadBytes == 0 {
		opts.AheadBytes = *ahead
	}
	l, err := seglog.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// openSized is openLog for tests that go by the size of a log's file while it is open.
func openSized(t tb, dir string, opts seglog.Options) *seglog.Log {
	t.Helper()
	opts.AheadBytes = -1
	return openLog(t, dir, opts)
}

// ahead is for running the tests with every log written through memory from the first
// few bytes on, or never.
var ahead = flag.Int64("ahead", 0, "what Options.AheadBytes is unless a test says: 4096, or -1 for never")

// reopen closes l and opens its directory again.
func reopen(t tb, l *seglog.Log, opts seglog.Options) *seglog.Log {
	t.Helper()
	closeLog(t, l)
	return openLog(t, l.Dir(), opts)
}

func closeLog(t tb, l *seglog.Log) {
	t.Helper()
	require.NoError(t, l.Close())
}

// crash returns a copy of the directory as it is while l is open: what a
// process leaves behind that is killed now.
func crash(t testing.TB, l *seglog.Log) string {
	t.Helper()
	return copyDir(t, l.Dir(), filepath.Join(t.TempDir(), filepath.Base(l.Dir())))
}

// copyDir copies the plain files of a directory, without the lock, and with
// their times.
func copyDir(t tb, from, to string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	// The state first: who flushes meanwhile moves the recovery point when the files below
	// are as they stay, and not before.
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		state := func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "seglog.state") }
		switch {
		case state(a) == state(b):
			return 0
		case state(a):
			return -1
		}
		return 1
	})
	for _, e := range entries {
		if e.IsDir() || e.Name() == ".lock" {
			continue
		}
		path := filepath.Join(from, e.Name())
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a temporary file of a writer at work
		}
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		out := filepath.Join(to, e.Name())
		require.NoError(t, os.WriteFile(out, data, 0o644))
		require.NoError(t, os.Chtimes(out, info.ModTime(), info.ModTime()))
	}
	return to
}

// one is a record with a timestamp of its own.
func one(timestamp int64, value string) seglog.Record {
	return seglog.Record{Timestamp: timestamp, Value: []byte(value)}
}

// many are n small records, with rising timestamps from the given one on.
func many(n int, timestamp int64) []seglog.Record {
	records := make([]seglog.Record, n)
	for i := range records {
		records[i] = one(timestamp+int64(i), fmt.Sprint("value ", timestamp+int64(i)))
	}
	return records
}

// appendEach appends each record as a batch of its own.
func appendEach(t tb, l *seglog.Log, records ...seglog.Record) {
	t.Helper()
	for _, r := range records {
		_, err := l.Append([]seglog.Record{r}, nil)
		require.NoError(t, err)
	}
}

// at is a record with a given offset, for batches made by hand.
func at(offset, timestamp int64, value string) seglog.Record {
	return seglog.Record{Offset: offset, Timestamp: timestamp, Value: []byte(value)}
}

// batchAt encodes records at the offsets they carry. The base offset is that
// of opts.
func batchAt(t tb, opts record.BuilderOptions, records ...seglog.Record) []byte {
	t.Helper()
	b := record.NewBuilder(opts)
	for _, r := range records {
		require.NoError(t, b.AppendAt(r.Offset, r))
	}
	out, err := b.Build()
	require.NoError(t, err)
	return slices.Clone(out)
}

// plainBatch is a batch of the offsets [first, last], each with the timestamp
// of its offset.
func plainBatch(t tb, first, last int64) []byte {
	t.Helper()
	var records []seglog.Record
	for o := first; o <= last; o++ {
		records = append(records, at(o, o, fmt.Sprint("value ", o)))
	}
	return batchAt(t, record.BuilderOptions{BaseOffset: first}, records...)
}

// batchOfSize is a batch of one record with exactly so many bytes.
func batchOfSize(t tb, size int, offset, timestamp int64) []byte {
	t.Helper()
	b := plainOfValue(t, size-record.HeaderSize-12, offset, timestamp)
	for len(b) != size {
		b = plainOfValue(t, size-record.HeaderSize-12-(len(b)-size), offset, timestamp)
	}
	return b
}

func plainOfValue(t tb, n int, offset, timestamp int64) []byte {
	t.Helper()
	return batchAt(t, record.BuilderOptions{BaseOffset: offset}, at(offset, timestamp, strings.Repeat("v", n)))
}

// legacyMessage is a message of magic 0 or 1; timestamp is ignored for 0.
func legacyMessage(magic byte, offset, timestamp int64, attributes byte, key, value []byte) []byte {
	body := []byte{magic, attributes}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(timestamp))
	}
	for _, field := range [][]byte{key, value} {
		n := int32(len(field))
		if field == nil {
			n = -1
		}
		body = binary.BigEndian.AppendUint32(body, uint32(n))
		body = append(body, field...)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

func gzipped(t tb, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// setCRC puts the checksum of a batch of magic 2 right, whatever it claims its
// length to be.
func setCRC(batch []byte) []byte {
	crc := crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(batch[17:], crc)
	return batch
}

func segmentFile(dir string, base int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix))
}

// writeLog writes a .log of the given pieces.
func writeLog(t tb, dir string, base int64, pieces ...[]byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := segmentFile(dir, base, ".log")
	require.NoError(t, os.WriteFile(path, bytes.Join(pieces, nil), 0o644))
	return path
}

func readFile(t tb, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func writeFile(t tb, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// edit changes a file in place.
func edit(t tb, path string, change func([]byte) []byte) {
	t.Helper()
	writeFile(t, path, change(readFile(t, path)))
}

func fileSize(t tb, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// names lists a directory without the files every log has for itself.
func names(t tb, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	list := []string{}
	for _, e := range entries {
		if e.Name() != ".lock" && !strings.HasPrefix(e.Name(), "seglog.state") {
			list = append(list, e.Name())
		}
	}
	return list
}

// trace is what must not change in a file that nobody wrote to.
type trace struct {
	info fs.FileInfo
	data string
}

// traces are those of every file of a directory, but for the two of every log.
func traces(t tb, dir string) map[string]trace {
	t.Helper()
	all := map[string]trace{}
	for _, name := range names(t, dir) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		tr := trace{info: info}
		if info.Mode().IsRegular() {
			tr.data = string(readFile(t, path))
		}
		all[name] = tr
	}
	return all
}

// requireUntouched compares names, bytes, times and identity of files.
func requireUntouched(t tb, dir string, before map[string]trace) {
	t.Helper()
	after := traces(t, dir)
	for name, was := range before {
		is, ok := after[name]
		require.True(t, ok, "%s is gone", name)
		require.Equal(t, was.data, is.data, "bytes of %s", name)
		require.Equal(t, was.info.ModTime(), is.info.ModTime(), "modification time of %s", name)
		require.True(t, os.SameFile(was.info, is.info), "%s is another file now", name)
	}
	require.Len(t, after, len(before), "files have come: %v", names(t, dir))
}

// age sets the modification time of every file back.
func age(t tb, dir string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by).Truncate(time.Second)
	for _, name := range names(t, dir) {
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), then, then))
	}
}

// deleteBefore moves the log start, and returns when the files are gone.
func deleteBefore(t tb, l *seglog.Log, offset int64) {
	t.Helper()
	require.NoError(t, l.DeleteBefore(offset))
	require.NoError(t, l.DeleteBefore(offset), "there is nothing left to do but to wait")
}

// readAll returns the records from an offset on, copied, and requires that
// their offsets rise.
func readAll(t tb, l *seglog.Log, from int64) []seglog.Record {
	t.Helper()
	all := []seglog.Record{}
	last := int64(-1)
	for r, err := range l.Records(t.Context(), from, nil) {
		require.NoError(t, err)
		require.Greater(t, r.Offset, last)
		last = r.Offset
		all = append(all, r.Clone())
	}
	return all
}

// offsetsFrom are the offsets that reading finds. Damage is stepped over and
// returned.
func offsetsFrom(t tb, l *seglog.Log, from int64) (found []int64, damage []*seglog.CorruptionError) {
	t.Helper()
	found = []int64{}
	for r, err := range l.Records(t.Context(), from, &seglog.IterOptions{SkipDamaged: true}) {
		if err != nil {
			var d *seglog.CorruptionError
			require.ErrorAs(t, err, &d)
			require.Less(t, len(damage), 10_000, "reading does not end")
			damage = append(damage, d)
			continue
		}
		if n := len(found); n > 0 {
			require.Greater(t, r.Offset, found[n-1])
		}
		found = append(found, r.Offset)
	}
	return found, damage
}

// span is first, first+1, ... last.
func span(first, last int64) []int64 {
	s := []int64{}
	for o := first; o <= last; o++ {
		s = append(s, o)
	}
	return s
}

func spans(parts ...[]int64) []int64 { return slices.Concat(parts...) }

func stats(t tb, l *seglog.Log) seglog.Stats {
	t.Helper()
	st, err := l.Stats()
	require.NoError(t, err)
	return st
}

func segments(t tb, l *seglog.Log) []seglog.SegmentInfo {
	t.Helper()
	all, err := l.Segments()
	require.NoError(t, err)
	return all
}

func bases(t tb, l *seglog.Log) []int64 {
	t.Helper()
	list := []int64{}
	for _, s := range segments(t, l) {
		list = append(list, s.BaseOffset)
	}
	return list
}

// offsetForTime returns -1 when there is none.
func offsetForTime(t tb, l *seglog.Log, timestamp int64) int64 {
	t.Helper()
	at, found, err := l.OffsetForTime(timestamp)
	require.NoError(t, err)
	if !found {
		return -1
	}
	return at.Offset
}

// indexEntry is an entry of a .index file, timeEntry one of a .timeindex.
type indexEntry struct{ offset, position int64 }
type timeEntry struct{ timestamp, offset int64 }

func indexEntries(t tb, dir string, base int64) []indexEntry {
	t.Helper()
	data := readFile(t, segmentFile(dir, base, ".index"))
	require.Zero(t, len(data)%8)
	entries := []indexEntry{}
	for ; len(data) > 0; data = data[8:] {
		entries = append(entries, indexEntry{
			base + int64(int32(binary.BigEndian.Uint32(data))), int64(int32(binary.BigEndian.Uint32(data[4:])))})
	}
	return entries
}

func timeEntries(t tb, dir string, base int64) []timeEntry {
	t.Helper()
	data := readFile(t, segmentFile(dir, base, ".timeindex"))
	require.Zero(t, len(data)%12)
	entries := []timeEntry{}
	for ; len(data) > 0; data = data[12:] {
		entries = append(entries, timeEntry{
			int64(binary.BigEndian.Uint64(data)), base + int64(int32(binary.BigEndian.Uint32(data[8:])))})
	}
	return entries
}

func writeIndex(t tb, dir string, base int64, entries ...indexEntry) {
	t.Helper()
	var data []byte
	for _, e := range entries {
		data = binary.BigEndian.AppendUint32(data, uint32(e.offset-base))
		data = binary.BigEndian.AppendUint32(data, uint32(e.position))
	}
	writeFile(t, segmentFile(dir, base, ".index"), data)
}

// stored is a batch as it lies in a file.
type stored struct {
	position int64
	record.Batch
}

// batchesOf reads a .log with nothing but the codec.
func batchesOf(t tb, dir string, base int64) []stored {
	t.Helper()
	return parseAll(t, readFile(t, segmentFile(dir, base, ".log")))
}

func parseAll(t tb, data []byte) []stored {
	t.Helper()
	var all []stored
	for pos := 0; pos < len(data) && len(bytes.Trim(data[pos:], "\x00")) > 0; { // behind are zeros, if it was not closed
		b, err := record.Parse(data[pos:])
		require.NoError(t, err)
		require.NoError(t, b.Check())
		all = append(all, stored{int64(pos), b})
		pos += b.Size()
	}
	return all
}

// requireSound checks the files of a closed log against the rules of the
// format: checksums, rising offsets within and across segments, and every index
// entry against the batches. It knows nothing of the library but the codec.
func requireSound(t tb, dir string) {
	t.Helper()
	next := int64(0)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, path := range logs {
		var base int64
		_, err := fmt.Sscanf(filepath.Base(path), "%020d.log", &base)
		require.NoError(t, err)
		require.GreaterOrEqual(t, base, next, "segment %d overlaps the one before", base)
		next = requireSoundSegment(t, dir, base)
	}
	// And the library's own check finds nothing either.
	report, err := seglog.Verify(t.Context(), dir, seglog.VerifyOptions{Jobs: 1})
	require.NoError(t, err)
	require.Zero(t, report.Damage, "%+v", report.Problems)
}

func requireSoundSegment(t tb, dir string, base int64) (next int64) {
	t.Helper()
	batches := batchesOf(t, dir, base)
	starts := map[int64]record.Batch{}
	next = base
	for _, b := range batches {
		first, err := b.FirstOffset(nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, first, next, "batch at %d of segment %d", b.position, base)
		next = b.NextOffset()
		starts[b.position] = b.Batch
	}
	last := indexEntry{base - 1, -1}
	for i, e := range indexEntries(t, dir, base) {
		b, ok := starts[e.position]
		require.True(t, ok, "segment %d, index entry %d: no batch at %d", base, i, e.position)
		require.LessOrEqual(t, b.BaseOffset(), e.offset, "segment %d, index entry %d", base, i)
		require.Greater(t, e.offset, last.offset)
		require.Greater(t, e.position, last.position)
		last = e
	}
	requireSoundTimes(t, dir, base, batches)
	return next
}

// requireSoundTimes: up to the offset of an entry no record is newer than its
// timestamp, and the last entry has the largest of all.
func requireSoundTimes(t tb, dir string, base int64, batches []stored) {
	t.Helper()
	entries := timeEntries(t, dir, base)
	newest := int64(-1)
	for _, b := range batches {
		newest = max(newest, b.MaxTimestamp())
	}
	if n := len(entries); n > 0 {
		require.Equal(t, newest, entries[n-1].timestamp, "last time index entry of segment %d", base)
	} else {
		require.Negative(t, newest, "segment %d has no time index entry", base)
	}
	for i, e := range entries {
		if i > 0 {
			require.Greater(t, e.timestamp, entries[i-1].timestamp)
			require.GreaterOrEqual(t, e.offset, entries[i-1].offset)
		}
		for _, b := range batches {
			if b.LastOffset() <= e.offset {
				require.LessOrEqual(t, b.MaxTimestamp(), e.timestamp, "segment %d, time index entry %d", base, i)
			}
		}
	}
}

// rebuilt returns what the indexes of a segment are when they are made anew,
// by opening a copy of the directory that has none.
func rebuilt(t testing.TB, dir string, base int64, opts seglog.Options) (index, timeIndex []byte) {
	t.Helper()
	fresh := copyDir(t, dir, filepath.Join(t.TempDir(), "rebuilt"))
	require.NoError(t, os.Remove(segmentFile(fresh, base, ".index")))
	require.NoError(t, os.Remove(segmentFile(fresh, base, ".timeindex")))
	l, err := seglog.Open(fresh, opts)
	require.NoError(t, err)
	_ = segments(t, l) // opens each
	require.NoError(t, l.Close())
	return readFile(t, segmentFile(fresh, base, ".index")), readFile(t, segmentFile(fresh, base, ".timeindex"))
}

// requireRebuiltAlike compares the indexes of a closed log's segment with ones
// made anew.
func requireRebuiltAlike(t testing.TB, dir string, base int64, opts seglog.Options) {
	t.Helper()
	index, timeIndex := rebuilt(t, dir, base, opts)
	require.Equal(t, index, readFile(t, segmentFile(dir, base, ".index")))
	require.Equal(t, timeIndex, readFile(t, segmentFile(dir, base, ".timeindex")))
}

// waitForRecoveryPoint waits for what runs behind a roll: until a crash would
// have the next open scan only what begins at base or later.
func waitForRecoveryPoint(t tb, l *seglog.Log, base int64) {
	t.Helper()
	eventually(t, func() bool {
		state, err := (&checkpoint.StateFiles{FS: vfs.OS, Dir: l.Dir()}).Read()
		return err == nil && state.RecoveryPoint >= base
	})
}

// waitForTail waits for what runs behind the open of a log that was not closed: until all
// that was found is durable, and known to be.
func waitForTail(t tb, l *seglog.Log) {
	t.Helper()
	end := l.Offsets().End
	require.NoError(t, l.WaitDurable(context.Background(), end))
	waitForRecoveryPoint(t, l, end-1)
}

// eventually is for conditions that another goroutine brings about.
func eventually(t tb, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "it has not come about")
	}
}

// requireNoLeak checks, when the test ends, that no goroutine has stayed.
func requireNoLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
			after := runtime.NumGoroutine()
			if after <= before {
				return
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}

// removeState removes what a log remembers of itself, both copies.
func removeState(t tb, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "seglog.state*"))
	require.NoError(t, err)
	for _, path := range files {
		require.NoError(t, os.Remove(path))
	}
}
