package seglog_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// Faults that were found in use, each with what is right.

// A replicated batch above the end begins a segment behind a gap. When its write
// fails the log must go on below it, at its end.
func TestAFailedAppendBehindAGapLeavesTheLogWhereItWas(t *testing.T) {
	for _, c := range []struct {
		name string
		// fail has the append of offset 100 fail.
		fail func(t *testing.T, dir string) (vfs.FS, func(), []byte)
	}{
		{"the batches span more than an index can address", func(t *testing.T, dir string) (vfs.FS, func(), []byte) {
			return vfs.OS, func() {}, append(plainBatch(t, 100, 100), batchAt(t, record.BuilderOptions{BaseOffset: 101 + math.MaxInt32}, at(101+math.MaxInt32, 1, "far"))...)
		}},
		{"the write fails", func(t *testing.T, dir string) (vfs.FS, func(), []byte) {
			failing := faultfs.New(vfs.OS)
			return failing, func() {
				failing.Fail(faultfs.Op(faultfs.Write).Name("*.log*").Since(failing.Calls()+1).Nth(1), syscall.ENOSPC)
			}, plainBatch(t, 100, 100)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			fsys, arm, set := c.fail(t, dir)
			l := openLog(t, dir, seglog.Options{FS: fsys, SegmentBytes: 760})
			appendEach(t, l, many(10, 0)...)
			arm()
			_, err := l.AppendReplicated(set, nil)
			require.Error(t, err)
			require.NotErrorIs(t, err, seglog.ErrFailed)
			require.Equal(t, int64(10), l.Offsets().End)
			for l.Offsets().End < 151 {
				appendEach(t, l, many(1, l.Offsets().End)...)
			}
			_, err = l.Roll()
			require.NoError(t, err)
			require.Len(t, readAll(t, l, 0), 151)
			l = reopen(t, l, seglog.Options{})
			require.Len(t, readAll(t, l, 0), 151)
		})
	}
}

// An index cannot be made anew when the log is cut too. The log fails; it does not
// bring the process down.
func TestALogCutUnderItsWriterFails(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, seglog.Options{IndexIntervalBytes: 1})
	appendEach(t, l, many(10, 1)...)
	require.NoError(t, os.Truncate(segmentFile(dir, 0, ".log"), 200))
	require.NoError(t, os.Truncate(segmentFile(dir, 0, ".index"), 0))
	require.NoError(t, os.Truncate(segmentFile(dir, 0, ".timeindex"), 0))
	for range 3 {
		_, err := l.Append(many(1, 11), nil)
		require.ErrorIs(t, err, seglog.ErrFailed)
	}
	_, err := l.Roll()
	require.ErrorIs(t, err, seglog.ErrFailed)
	require.ErrorIs(t, stats(t, l).Failed, seglog.ErrCorrupt, "the cause is kept, and says which file")
}

// The end being where it was does not mean that what lies below it is.
func TestAnIterationNoticesThatWhatItReadWasReplaced(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(l *seglog.Log) error
		want *seglog.TruncationError // nil: the iteration goes on
	}{
		{"cut below the place and filled up again", func(l *seglog.Log) error { return l.TruncateTo(5) },
			&seglog.TruncationError{Offset: 8, TruncatedTo: 5, End: 10}},
		{"cut twice, the second time above the place", func(l *seglog.Log) error {
			return errors.Join(l.TruncateTo(6), refill(l, 10), l.TruncateTo(9))
		}, &seglog.TruncationError{Offset: 8, TruncatedTo: 6, End: 10}},
		{"emptied and begun anew at the same place", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(8) },
			&seglog.TruncationError{Offset: 8, TruncatedTo: 0, End: 10}},
		{"cut at the place", func(l *seglog.Log) error { return l.TruncateTo(8) }, nil},
		{"cut a hundred times above the place", func(l *seglog.Log) error {
			for range 100 {
				if err := errors.Join(l.TruncateTo(9), refill(l, 10)); err != nil {
					return err
				}
			}
			return nil
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), quick)
			appendEach(t, l, many(10, 0)...)
			var read []int64
			var end error
			for r, err := range l.Records(t.Context(), 0, nil) {
				if err != nil {
					end = err
					break
				}
				read = append(read, r.Offset)
				if r.Offset == 7 {
					require.NoError(t, errors.Join(c.cut(l), refill(l, 10)))
				}
			}
			if c.want == nil {
				require.NoError(t, end)
				require.Equal(t, span(0, 9), read)
				return
			}
			require.Equal(t, span(0, 7), read)
			var truncated *seglog.TruncationError
			require.ErrorAs(t, end, &truncated)
			require.Equal(t, c.want, truncated)
			require.Equal(t, 1, strings.Count(end.Error(), "records: "), end.Error())
			require.ErrorIs(t, end, seglog.ErrTruncated)
		})
	}
}

func refill(l *seglog.Log, end int64) error {
	for l.Offsets().End < end {
		if _, err := l.Append(many(1, l.Offsets().End), nil); err != nil {
			return err
		}
	}
	return nil
}

// More truncations than are remembered may not hide one.
func TestManyTruncationsFurtherAndFurtherUpHideNone(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(10, 0)...)
	var end error
	for r, err := range l.Records(t.Context(), 0, &seglog.IterOptions{To: 1000}) {
		if end = err; err != nil {
			break
		}
		if r.Offset == 7 {
			for to := int64(5); to < 200; to++ {
				require.NoError(t, errors.Join(refill(l, to+1), l.TruncateTo(to)))
			}
		}
	}
	require.ErrorIs(t, end, seglog.ErrTruncated)
}

func TestALostTimeIndexHidesNoRecordFromAReader(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, quick)
	appendEach(t, l, one(9000, strings.Repeat("x", 3000)))
	for i := range 20 {
		appendEach(t, l, one(1000+int64(i), strings.Repeat("x", 3000)))
	}
	closeLog(t, l)
	require.NoError(t, os.Remove(segmentFile(dir, 0, ".timeindex")))
	require.Equal(t, int64(0), offsetForTime(t, openLog(t, dir, seglog.Options{ReadOnly: true}), 9000))
}

func TestMaxOpenSegmentsHoldsAfterRefresh(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, seglog.Options{SegmentBytes: 200, Sync: seglog.SyncNever})
	appendEach(t, l, many(400, 0)...)
	closeLog(t, l)
	counting := faultfs.New(vfs.OS)
	r := openLog(t, dir, seglog.Options{ReadOnly: true, MaxOpenSegments: 8, FS: counting})
	for range 2 {
		require.Len(t, readAll(t, r, 0), 400)
		require.LessOrEqual(t, counting.Open(), 9, "eight segments, and the one that comes next")
		require.NoError(t, r.Refresh())
	}
}

func TestStatsBesideRefresh(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, quick)
	appendEach(t, l, many(1, 0)...)
	r := openLog(t, dir, seglog.Options{ReadOnly: true})
	var both sync.WaitGroup
	both.Go(func() {
		for range 100 {
			if _, err := r.Stats(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		require.NoError(t, r.Refresh())
	}
	both.Wait()
}

func TestEventsMayUseTheLog(t *testing.T) {
	var l *seglog.Log
	told := 0
	l = openLog(t, t.TempDir(), seglog.Options{SegmentBytes: 300, Sync: seglog.SyncNever, Events: seglog.Events{
		Removed: func(seglog.RetentionResult) {
			if told++; told == 1 {
				require.NoError(t, l.DeleteBefore(15))
				require.NoError(t, l.TruncateTo(18))
			}
		},
	}})
	appendEach(t, l, many(20, 0)...)
	require.NoError(t, l.DeleteBefore(10))
	require.Equal(t, 2, told)
	require.Equal(t, span(15, 17), spanOf(readAll(t, l, 15)))
}

func spanOf(records []seglog.Record) (offsets []int64) {
	for _, r := range records {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

func TestTheStartIsNeverAboveTheDurableOffset(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(10, 0)...)
	require.NoError(t, l.DeleteBefore(8))
	at := l.Offsets()
	require.EqualValues(t, 8, at.Start)
	require.GreaterOrEqual(t, at.Durable, at.Start)
}

func TestACompressionLevelThatNoAppendCouldUseIsRefusedAtOpen(t *testing.T) {
	_, err := seglog.Open(t.TempDir(), seglog.Options{Compression: record.Gzip, CompressionLevel: 99})
	require.EqualError(t, errors.Unwrap(err), "option CompressionLevel is 99, want 0 or a level that gzip has")
	require.ErrorIs(t, err, seglog.ErrOption)
}

// A reader in another process finds out that files are gone when it opens them.
func TestAReaderBesideAWriterThatDeletesIsToldSo(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, seglog.Options{SegmentBytes: 300, Sync: seglog.SyncNever})
	appendEach(t, l, many(30, 0)...)
	r := openLog(t, dir, seglog.Options{ReadOnly: true})
	late := openLog(t, dir, seglog.Options{ReadOnly: true})
	deleteBefore(t, l, 20)
	_, err := r.Get(5)
	var outside *seglog.OffsetError
	require.ErrorAs(t, err, &outside)
	require.Equal(t, &seglog.OffsetError{Offset: 5, Start: 20, End: 30}, outside)
	for _, err := range late.Records(t.Context(), 0, nil) {
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	}
}

// A truncation by another process is what it is, and no damage.
func TestAReaderBesideAWriterThatTruncatesIsToldSo(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, quick)
	appendEach(t, l, many(10, 100)...)
	open := func() *seglog.Log { return openLog(t, dir, seglog.Options{ReadOnly: true}) }
	get, read, records, within, time := open(), open(), open(), open(), open()
	require.NoError(t, l.TruncateTo(5))

	var outside *seglog.OffsetError
	_, err := get.Get(7)
	require.ErrorAs(t, err, &outside)
	require.Equal(t, &seglog.OffsetError{Offset: 7, Start: 0, End: 5}, outside)
	rec, err := get.Get(4)
	require.NoError(t, err)
	require.Equal(t, "value 104", string(rec.Value))
	_, err = read.Read(7, 1<<20, nil)
	require.ErrorAs(t, err, &outside)
	require.Equal(t, span(0, 4), offsetsOf(readAll(t, records, 0)))
	for _, err := range within.Records(t.Context(), 7, nil) {
		require.ErrorIs(t, err, seglog.ErrTruncated)
	}
	_, found, err := time.OffsetForTime(108)
	require.NoError(t, err)
	require.False(t, found)
}

// The records that come after a truncation are other ones, and other batches.
func TestAReaderBesideAWriterThatTruncatesReadsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, quick)
	appendEach(t, l, many(10, 0)...)
	r := openLog(t, dir, seglog.Options{ReadOnly: true})
	require.NoError(t, l.TruncateTo(5))
	appendEach(t, l, one(100, "short"), one(101, strings.Repeat("longer", 50)), one(102, strings.Repeat("long", 40)))
	for offset := int64(0); offset < 8; offset++ {
		want, err := l.Get(offset)
		require.NoError(t, err)
		got, err := r.Get(offset)
		require.NoError(t, err, "offset %d", offset)
		require.Equal(t, want, got)
	}
	_, err := r.Get(9)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
}

// Damage that stays damage when the log is looked at again is told, and once.
func TestDamageBesideAWriterIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	l := openSized(t, dir, quick)
	appendEach(t, l, many(10, 0)...)
	r := openLog(t, dir, seglog.Options{ReadOnly: true})
	path := segmentFile(dir, 0, ".log")
	size := fileSize(t, path) / 10
	content := readFile(t, path)
	for _, victim := range []int64{3, 7} {
		content[(victim+1)*size-2] ^= 1
	}
	writeFile(t, path, content)
	found, damage := offsetsFrom(t, r, 0)
	require.Equal(t, spans(span(0, 2), span(4, 6), span(8, 9)), found)
	require.Len(t, damage, 2)
	_, err := r.Get(3)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
}

// Where a file was cut is nothing to the records before.
func TestTheRecordBeforeACutCanBeRead(t *testing.T) {
	for _, more := range []int64{0, 1, 16, 17, 60} {
		dir := t.TempDir()
		l := openSized(t, dir, quick)
		appendEach(t, l, many(10, 0)...)
		path := segmentFile(dir, 0, ".log")
		require.NoError(t, os.Truncate(path, fileSize(t, path)/2+more))
		rec, err := l.Get(4)
		require.NoError(t, err, "%d bytes behind it", more)
		require.Equal(t, "value 4", string(rec.Value))
		found, damage := offsetsFrom(t, l, 0)
		require.Equal(t, span(0, 4), found)
		require.NotEmpty(t, damage)
	}
}

// listed calls a function once, after a directory was listed.
type listed struct {
	vfs.FS
	after func()
}

func (f *listed) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := f.FS.ReadDir(name)
	if after := f.after; after != nil {
		f.after = nil
		after()
	}
	return entries, err
}

// A writer may remove segments after a reader has listed them, and the last of them,
// too, if it has rolled.
func TestALogIsOpenedBesideAWriterThatDeletes(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, seglog.Options{SegmentBytes: 300, Sync: seglog.SyncNever})
	appendEach(t, l, many(30, 0)...)
	leave := func() {
		appendEach(t, l, many(10, 100)...)
		deleteBefore(t, l, l.Offsets().End-1)
	}
	fsys := &listed{FS: vfs.OS, after: leave}
	r := openLog(t, dir, seglog.Options{ReadOnly: true, FS: fsys})
	require.Equal(t, span(39, 39), offsetsOf(readAll(t, r, r.Offsets().Start)))

	fsys.after = leave
	require.NoError(t, r.Refresh())
	require.Equal(t, span(49, 49), offsetsOf(readAll(t, r, r.Offsets().Start)))
	_, err := seglog.Open(filepath.Join(dir, "nowhere"), seglog.Options{ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A truncation beside Get takes the records away that it is looking for: none of them was
// ever a gap.
func TestGetBesideATruncationIsNotToldOfAGap(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{Sync: seglog.SyncNever})
	var stop atomic.Bool
	done := make(chan error)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			for i := l.Offsets().End; i < 50 && err == nil; i++ {
				_, err = l.Append(many(1, i), nil)
			}
			err = errors.Join(err, l.TruncateTo(10))
		}
		done <- err
	}()
	for range 50_000 {
		if _, err := l.Get(30); err != nil {
			var outside *seglog.OffsetError
			require.ErrorAs(t, err, &outside)
		}
	}
	stop.Store(true)
	require.NoError(t, <-done)
}

// An entry of an index that names another offset, in a neighbouring batch, says nothing of
// what lies before it.
func TestAFlippedOffsetOfAnIndexDoesNotChangeWhatATimeFinds(t *testing.T) {
	flip := func(t *testing.T, path string, size, at int, from byte) {
		edit(t, path, func(b []byte) []byte {
			for i := 0; i < len(b); i += size {
				if b[i+at] == from {
					b[i+at] ^= 1
					return b
				}
			}
			require.Fail(t, "no such entry")
			return nil
		})
	}
	for name, tt := range map[string]struct {
		batch, interval int
		timestamp       func(i int) int64
		flip            func(t *testing.T, dir string)
		ask, want       int64
	}{
		"of offsets": {7, 300, func(i int) int64 {
			if i >= 21 && i < 35 {
				return 1021
			}
			return 1000 + int64(i)
		}, func(t *testing.T, dir string) { flip(t, segmentFile(dir, 0, ".index"), 8, 3, 20) }, 1021, 21},
		"of timestamps": {1, 1, func(i int) int64 { return 1000 + int64(i/2*2) },
			func(t *testing.T, dir string) { flip(t, segmentFile(dir, 0, ".timeindex"), 12, 11, 4) }, 1004, 4},
	} {
		t.Run(name, func(t *testing.T) {
			opts := seglog.Options{Sync: seglog.SyncNever, IndexIntervalBytes: tt.interval}
			l := openLog(t, t.TempDir(), opts)
			for first := 0; first < 42; first += tt.batch {
				var records []seglog.Record
				for i := range tt.batch {
					records = append(records, seglog.Record{Timestamp: tt.timestamp(first + i), Value: []byte("0123456")})
				}
				_, err := l.Append(records, nil)
				require.NoError(t, err)
			}
			rollLog(t, l)
			closeLog(t, l)
			tt.flip(t, l.Dir())
			for _, lookup := range []int64{-1, 0} {
				for _, readOnly := range []bool{true, false} {
					opts.LookupBytes, opts.ReadOnly = lookup, readOnly
					l := openLog(t, l.Dir(), opts)
					require.Equal(t, tt.want, offsetForTime(t, l, tt.ask), "LookupBytes %d, read-only %v", lookup, readOnly)
					closeLog(t, l)
				}
			}
		})
	}
}

// The same bytes, in a batch of another time.
func TestAReaderBesideATruncatingWriterGetsNoOldTimestamps(t *testing.T) {
	dir := t.TempDir()
	w := openLog(t, dir, seglog.Options{Sync: seglog.SyncNever, IndexIntervalBytes: 1})
	fill := func(timestamp int64) {
		for range 3 {
			_, err := w.Append([]seglog.Record{{Timestamp: timestamp, Value: []byte("a")}, {Timestamp: timestamp + 1, Value: []byte("b")}}, nil)
			require.NoError(t, err)
		}
	}
	fill(1000)
	r := openLog(t, dir, seglog.Options{ReadOnly: true})
	for range 2 {
		for offset := range int64(6) {
			_, err := r.Get(offset)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.TruncateTo(0))
	fill(500_000)
	for offset := range int64(6) {
		want, err := w.Get(offset)
		require.NoError(t, err)
		got, err := r.Get(offset)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestLookupBytesHaveALimit(t *testing.T) {
	_, err := seglog.Open(t.TempDir(), seglog.Options{LookupBytes: math.MaxInt64})
	require.ErrorContains(t, err, "LookupBytes")
	_, err = seglog.OpenDir(t.TempDir(), seglog.DirOptions{LookupBytes: math.MaxInt64})
	require.ErrorContains(t, err, "LookupBytes")
}

// Whoever has copied a log has synced its files, perhaps, and not their names.
func TestALogThatWasCopiedHasItsNamesOnDiskOnceItIsOpen(t *testing.T) {
	from := logtest.NewDisk(logtest.DiskOptions{})
	l := openLog(t, "log", seglog.Options{FS: from.FS()})
	appendEach(t, l, many(10, 0)...)
	require.NoError(t, l.DeleteBefore(3))
	closeLog(t, l)
	disk := crashfs.New(crashfs.Options{})
	require.NoError(t, disk.MkdirAll("log", 0o755))
	require.NoError(t, disk.SyncDir("/"))
	names, err := from.ReadDir("log")
	require.NoError(t, err)
	for _, name := range names {
		data, err := from.ReadFile("log/" + name)
		require.NoError(t, err)
		f, err := disk.OpenFile("log/"+name, os.O_CREATE|os.O_RDWR, 0o644)
		require.NoError(t, err)
		_, err = vfs.WriteFull(f, data, 0)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	l = openLog(t, "log", seglog.Options{FS: disk})
	require.True(t, stats(t, l).Recovery.Clean)
	appendEach(t, l, many(1, 10)...)
	require.NoError(t, l.DeleteBefore(5))
	for state := range disk.States(64, 1) {
		after := openLog(t, "log", seglog.Options{FS: state.FS()})
		require.Equal(t, span(5, 10), offsetsOf(readAll(t, after, 5)), "%s", state)
		require.Equal(t, int64(5), after.Offsets().Start, "%s", state)
		closeLog(t, after)
	}
}
