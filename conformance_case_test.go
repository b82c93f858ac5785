package seglog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// Rows of Kafka's own tests that apply to a log by itself. The numbers in
// comments are those of our list of them; in front of each group stands the file
// of Kafka's that they come from.

// LogLoaderTest.scala

// 163, 165
func TestIndexesAreRebuiltAfterAnUncleanStop(t *testing.T) {
	harm := map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"garbage": func(t *testing.T, path string) { writeFile(t, path, noise(1000)) },
		"emptied": func(t *testing.T, path string) { writeFile(t, path, nil) },
		"padded": func(t *testing.T, path string) {
			require.NoError(t, os.Truncate(path, fileSize(t, path)+12*1000))
		},
	}
	opts := dense
	opts.SegmentBytes = 1500
	for name, change := range harm {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
			appendEach(t, l, many(100, 1000)...)
			all := bases(t, l)
			require.Greater(t, len(all), 3)
			dir := crash(t, l)
			for _, base := range all {
				change(t, segmentFile(dir, base, ".index"))
				change(t, segmentFile(dir, base, ".timeindex"))
			}
			again := openLog(t, dir, opts)
			for o := range int64(100) {
				r, err := again.Get(o)
				require.NoError(t, err)
				require.Equal(t, 1000+o, r.Timestamp)
				require.Equal(t, o, offsetForTime(t, again, 1000+o))
			}
			if name == "emptied" {
				return // an index without entries is a legal one
			}
			closeLog(t, again)
			requireSound(t, dir)
		})
	}
}

// 164
func TestATimeIndexOfRecordsWithoutTimesIsEmpty(t *testing.T) {
	dir := t.TempDir()
	for base := int64(0); base < 20; base += 10 {
		var b []byte
		for o := base; o < base+10; o++ {
			b = append(b, legacyMessage(0, o, 0, 0, nil, []byte("v"))...)
		}
		writeLog(t, dir, base, b)
	}
	l := openLog(t, dir, dense)
	require.Equal(t, span(0, 19), offsetsOf(readAll(t, l, 0)))
	require.Equal(t, int64(-1), offsetForTime(t, l, 0))
	closeLog(t, l)
	for _, base := range []int64{0, 10} {
		require.Zero(t, fileSize(t, segmentFile(dir, base, ".timeindex")))
		require.Equal(t, int64(9*8), fileSize(t, segmentFile(dir, base, ".index")))
	}
}

// 167
func TestALogCanBeTruncatedRightAfterItWasOpened(t *testing.T) {
	opts := dense
	opts.SegmentBytes = 300
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, many(20, 1)...)
	require.Greater(t, len(bases(t, l)), 2)
	l = reopen(t, l, opts)
	require.NoError(t, l.TruncateTo(3))
	require.Len(t, bases(t, l), 1)
	require.Equal(t, int64(3), l.Offsets().End)
	require.Equal(t, span(0, 2), offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// 169
func TestAGarbledTailIsCutWhereItBegins(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), dense)
	for i := range int64(50) {
		_, err := l.Append(many(int(1+i%3), 1+i), nil)
		require.NoError(t, err)
	}
	whole := readFile(t, segmentFile(l.Dir(), 0, ".log"))
	want := readAll(t, l, 0)
	batches := batchesOf(t, l.Dir(), 0)
	for _, from := range []int{0, 1, 7, 70, 500, 1111, len(whole) / 2, len(whole) - 100, len(whole) - 1, len(whole)} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			dir := crash(t, l)
			writeFile(t, segmentFile(dir, 0, ".log"), append(slices.Clone(whole[:from]), noise(300)...))
			again := openLog(t, dir, dense)
			next := int64(0)
			for _, b := range batches {
				if b.position+int64(b.Size()) <= int64(from) {
					next = b.NextOffset()
				}
			}
			require.Equal(t, next, again.Offsets().End)
			got := readAll(t, again, 0)
			require.Equal(t, want[:next], got)
			appendEach(t, again, one(5000, "on"))
			closeLog(t, again)
			requireSound(t, dir)
		})
	}
}

// 170
func TestACleanCloseMovesTheRecoveryPointToTheEnd(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
	for range 4 {
		appendEach(t, l, many(5, 1)...)
		_, err := l.Roll()
		require.NoError(t, err)
	}
	l = reopen(t, l, quick)
	require.Zero(t, stats(t, l).Recovery.Scanned)
	appendEach(t, l, many(5, 1)...)
	again := openLog(t, crash(t, l), quick)
	require.Equal(t, 1, stats(t, again).Recovery.Scanned, "only what was written since")
	require.Equal(t, int64(25), again.Offsets().End)
}

// 173 to 177: a crash at any point of a swap leaves the old or the new.
func TestASwapThatACrashCutShortIsUndoneOrFinished(t *testing.T) {
	const (
		oldLog = iota
		deleted
		gone
	)
	const (
		absent = iota
		cleaned
		swap
		live
	)
	// Segments 0 and 10 were rewritten into new ones at 0 and 12, without the
	// odd offsets.
	type fate struct{ old0, old10, new0, new12 int }
	tests := []struct {
		name  string
		fate  fate
		isNew bool
	}{
		{"only cleaned files", fate{oldLog, oldLog, cleaned, cleaned}, false},
		{"one cleaned file", fate{oldLog, oldLog, absent, cleaned}, false},
		{"the last already renamed", fate{oldLog, oldLog, cleaned, swap}, false},
		{"all renamed, the old still there", fate{oldLog, oldLog, swap, swap}, true},
		{"one of the old deleted", fate{deleted, oldLog, swap, swap}, true},
		{"all of the old deleted", fate{deleted, deleted, swap, swap}, true},
		{"all of the old gone", fate{gone, gone, swap, swap}, true},
		{"the first already in place", fate{deleted, deleted, live, swap}, true},
		{"the first already in place, the old gone", fate{gone, gone, live, swap}, true},
		{"all in place", fate{deleted, deleted, live, live}, true},
	}
	evens := func(first, last int64) []seglog.Record {
		var records []seglog.Record
		for o := first; o <= last; o++ {
			if o%2 == 0 {
				records = append(records, at(o, o, fmt.Sprint("new ", o)))
			}
		}
		return records
	}
	put := func(t *testing.T, dir string, base int64, content []byte, suffix string) {
		for _, kind := range []string{".log", ".index", ".timeindex"} {
			data := content
			if kind != ".log" {
				data = nil
			}
			writeFile(t, segmentFile(dir, base, kind+suffix), data)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for base, what := range map[int64]int{0: tt.fate.old0, 10: tt.fate.old10} {
				old := append(plainBatch(t, base, base+5), plainBatch(t, base+6, base+9)...)
				switch {
				case what == oldLog && base == 0 && tt.fate.new0 == live:
				case what == oldLog:
					put(t, dir, base, old, "")
				case what == deleted:
					put(t, dir, base, old, ".deleted")
				}
			}
			for base, what := range map[int64]int{0: tt.fate.new0, 12: tt.fate.new12} {
				last := int64(10)
				if base == 12 {
					last = 19
				}
				records := evens(base, last)
				b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
				for _, r := range records {
					require.NoError(t, b.AppendAt(r.Offset, r))
				}
				require.NoError(t, b.SetLastOffset(last))
				content, err := b.Build()
				require.NoError(t, err)
				switch what {
				case cleaned:
					put(t, dir, base, content, ".cleaned")
				case swap:
					put(t, dir, base, content, ".swap")
				case live:
					put(t, dir, base, content, "")
				}
			}
			put(t, dir, 20, plainBatch(t, 20, 24), "")

			want := span(0, 24)
			if tt.isNew {
				want = spans(offsetsOf(evens(0, 19)), span(20, 24))
			}
			before := traces(t, dir)
			for _, readOnly := range []bool{true, false} {
				l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
				got := readAll(t, l, 0)
				require.Equal(t, want, offsetsOf(got))
				for _, r := range got {
					if tt.isNew && r.Offset < 20 {
						require.Equal(t, fmt.Sprint("new ", r.Offset), string(r.Value))
					} else {
						require.Equal(t, fmt.Sprint("value ", r.Offset), string(r.Value))
					}
				}
				require.Equal(t, int64(25), l.Offsets().End)
				require.Equal(t, int64(0), l.Offsets().Start)
				closeLog(t, l)
				if readOnly {
					requireUntouched(t, dir, before)
				}
			}
			for _, pattern := range []string{"*.cleaned", "*.swap", "*.deleted"} {
				left, err := filepath.Glob(filepath.Join(dir, pattern))
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}

// 184
func TestALogThatEndsBelowItsStartBeginsAnewThere(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "orders-0")
	writeLog(t, dir, 0, plainBatch(t, 0, 0))
	writeLog(t, dir, 1, noise(200))
	writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 0\n"))
	writeFile(t, filepath.Join(broker, "log-start-offset-checkpoint"), []byte("0\n1\norders 0 4\n"))
	l := openLog(t, dir, quick)
	require.Equal(t, seglog.Offsets{Start: 4, Durable: 4, End: 4}, l.Offsets())
	require.Equal(t, []int64{4}, bases(t, l))
	require.True(t, stats(t, l).Recovery.Restarted)
	appendEach(t, l, many(2, 1)...)
	l = reopen(t, l, quick)
	require.Equal(t, []int64{4, 5}, offsetsOf(readAll(t, l, 4)))
}

// 189
func TestAnEmptyActiveSegmentWithoutIndexesLoads(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), dense)
	appendEach(t, l, many(5, 1)...)
	_, err := l.Roll()
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	require.FileExists(t, segmentFile(l.Dir(), 5, ".index"), "230")
	require.FileExists(t, segmentFile(l.Dir(), 5, ".timeindex"), "230")
	closeLog(t, l)
	require.NoError(t, os.Remove(segmentFile(l.Dir(), 5, ".index")))
	require.NoError(t, os.Remove(segmentFile(l.Dir(), 5, ".timeindex")))
	l = openLog(t, l.Dir(), dense)
	require.Equal(t, int64(5), l.Offsets().End)
	appendEach(t, l, many(5, 6)...)
	require.Equal(t, span(0, 9), offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// UnifiedLogTest.scala

// 196, 197, 198, 201: in a bubble, where time passes without waiting.
func TestSegmentsRollByAge(t *testing.T) {
	const age = time.Hour
	none := record.NoTimestamp
	type step struct {
		sleep     time.Duration
		timestamp int64 // of the record that is appended
		segments  int   // afterwards
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"an empty segment does not roll", []step{{2 * age, none, 1}}},
		{"by the clock without timestamps", []step{{0, none, 1}, {age, none, 1}, {time.Millisecond, none, 2}, {age, none, 2}, {time.Second, none, 3}}},
		{"not by the clock with timestamps", []step{{0, 1000, 1}, {10 * age, 1000, 1}, {10 * age, 999, 1}}},
		{"by the first timestamp", []step{{0, 1000, 1}, {0, 1000 + age.Milliseconds(), 1}, {0, 1000 + age.Milliseconds() + 1, 2},
			{0, 1000 + 2*age.Milliseconds() + 1, 2}, {0, 1000 + 2*age.Milliseconds() + 2, 3}}},
		{"older than the first is not older than an hour", []step{{0, 10_000_000, 1}, {0, 1, 1}, {0, 10_000_000 + age.Milliseconds(), 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				opts := quick
				opts.SegmentAge = age
				l, err := seglog.Open(dir, opts)
				require.NoError(t, err)
				for i, s := range tt.steps {
					time.Sleep(s.sleep)
					_, err := l.Append([]seglog.Record{one(s.timestamp, "r")}, nil)
					require.NoError(t, err)
					require.Len(t, bases(t, l), s.segments, "step %d", i)
				}
				_, err = l.Append(nil, nil)
				require.Error(t, err)
				require.Len(t, bases(t, l), tt.steps[len(tt.steps)-1].segments)
				require.NoError(t, l.Close())
			})
		})
	}
}

// 197: the anchor is that of the first batch, also when the log was opened
// after it was written.
func TestTheAgeOfASegmentSurvivesReopening(t *testing.T) {
	opts := quick
	opts.SegmentAge = time.Hour
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, one(1000, "a"))
	for _, unclean := range []bool{false, true} {
		if unclean {
			l = openLog(t, crash(t, l), opts)
		} else {
			l = reopen(t, l, opts)
		}
		appendEach(t, l, one(1000+time.Hour.Milliseconds(), "b"))
		require.Len(t, bases(t, l), 1)
	}
	appendEach(t, l, one(1001+time.Hour.Milliseconds(), "c"))
	require.Len(t, bases(t, l), 2)
}

// 201
func TestJitterRollsEarlierAndNeverLater(t *testing.T) {
	const age, jitter = time.Hour, 20 * time.Minute
	opts := quick
	opts.SegmentAge, opts.SegmentJitter = age, jitter
	early := 0
	for range 30 {
		l := openLog(t, t.TempDir(), opts)
		appendEach(t, l, one(1000, "a"), one(1000+(age-jitter).Milliseconds(), "b"))
		require.Len(t, bases(t, l), 1, "before segment.ms - segment.jitter.ms")
		appendEach(t, l, one(1000+(age-jitter/2).Milliseconds(), "c"))
		early += len(bases(t, l)) - 1
		appendEach(t, l, one(1000+age.Milliseconds()+1, "d"))
		require.Len(t, bases(t, l), 2, "after segment.ms")
		closeLog(t, l)
	}
	require.NotZero(t, early)
	require.NotEqual(t, 30, early)
}

// 199
func TestRollingAnEmptySegmentChangesNothing(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	for range 3 {
		base, err := l.Roll()
		require.NoError(t, err)
		require.Zero(t, base)
	}
	appendEach(t, l, many(3, 1)...)
	for range 3 {
		base, err := l.Roll()
		require.NoError(t, err)
		require.Equal(t, int64(3), base)
	}
	require.Equal(t, []int64{0, 3}, bases(t, l))
}

// 202, 217
func TestSegmentsRollBySizeAndTheirIndexesAreTrimmed(t *testing.T) {
	dir := t.TempDir()
	size := 100
	opts := seglog.Options{SegmentBytes: int64(10 * size), IndexIntervalBytes: size - 1, Sync: seglog.SyncNever}
	l := openLog(t, dir, opts)
	for o := range int64(11) {
		_, err := l.AppendReplicated(batchOfSize(t, size, o, 100+o), nil)
		require.NoError(t, err)
	}
	require.Equal(t, []int64{0, 10}, bases(t, l))
	l = reopen(t, l, opts)
	require.Equal(t, int64(9*8), fileSize(t, segmentFile(dir, 0, ".index")))
	require.Equal(t, int64(9*12), fileSize(t, segmentFile(dir, 0, ".timeindex")))
	require.NoError(t, l.TruncateTo(0))
	for o := range int64(10) {
		_, err := l.AppendReplicated(batchOfSize(t, size, o, 100+o), nil)
		require.NoError(t, err)
	}
	require.Equal(t, []int64{0}, bases(t, l), "there is room in the indexes again")
	require.Equal(t, 9, segments(t, l)[0].IndexEntries)
}

// 207
func TestReadingOutOfRange(t *testing.T) {
	opts := quick
	opts.StartOffset = 1024
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, one(1, "42"))
	res, err := l.Read(1025, 1000, nil)
	require.NoError(t, err)
	require.Empty(t, res.Batches)
	for _, o := range []int64{0, 1023, 1026} {
		_, err := l.Read(o, 1000, nil)
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	}
}

// 209
func TestReadingIdsWithGapsGivesTheNextThatExists(t *testing.T) {
	opts := dense
	opts.SegmentBytes = 1000
	l := openLog(t, t.TempDir(), opts)
	ids := span(0, 49)
	for o := int64(50); o < 200; o += 7 {
		ids = append(ids, o)
	}
	for _, o := range ids {
		_, err := l.AppendReplicated(plainBatch(t, o, o), nil)
		require.NoError(t, err)
	}
	for range 2 {
		for o := int64(0); o <= ids[len(ids)-1]; o++ {
			i, _ := slices.BinarySearch(ids, o)
			res, err := l.Read(o, 1, nil)
			require.NoError(t, err)
			b, err := record.Parse(res.Batches)
			require.NoError(t, err)
			require.Equal(t, ids[i], b.BaseOffset())
			for r, err := range l.Records(t.Context(), o, nil) {
				require.NoError(t, err)
				require.Equal(t, ids[i], r.Offset)
				break
			}
		}
		l = reopen(t, l, opts)
	}
}

// 216
func TestAFollowersTimeIndexHasAnEntryPerBatch(t *testing.T) {
	l := openLog(t, t.TempDir(), dense)
	for o := range int64(100) {
		_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: o}, at(o, 1000+o, "v")), nil)
		require.NoError(t, err)
	}
	s := segments(t, l)[0]
	require.Equal(t, 99, s.TimeIndexEntries)
	require.Equal(t, int64(1099), s.MaxTimestamp)
}

// 218
func TestTruncation(t *testing.T) {
	tests := []struct {
		name string
		do   func(l *seglog.Log) error
		want seglog.Offsets
	}{
		{"at the end", func(l *seglog.Log) error { return l.TruncateTo(10) }, seglog.Offsets{Durable: 10, End: 10}},
		{"beyond it", func(l *seglog.Log) error { return l.TruncateTo(11) }, seglog.Offsets{Durable: 10, End: 10}},
		{"in the middle", func(l *seglog.Log) error { return l.TruncateTo(5) }, seglog.Offsets{Durable: 5, End: 5}},
		{"to nothing", func(l *seglog.Log) error { return l.TruncateTo(0) }, seglog.Offsets{}},
		{"fully", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(1) }, seglog.Offsets{Start: 1, Durable: 1, End: 1}},
		{"fully, beyond the end", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(100) }, seglog.Offsets{Start: 100, Durable: 100, End: 100}},
		{"fully, and then below the first segment", func(l *seglog.Log) error {
			if err := l.TruncateFullyAndStartAt(100); err != nil {
				return err
			}
			return l.TruncateTo(50)
		}, seglog.Offsets{Start: 50, Durable: 50, End: 50}},
		{"below the log start", func(l *seglog.Log) error {
			if err := l.DeleteBefore(7); err != nil {
				return err
			}
			return l.TruncateTo(5)
		}, seglog.Offsets{Start: 5, Durable: 5, End: 5}},
	}
	for _, tt := range tests {
		for _, segmentBytes := range []int64{1 << 20, 300} {
			t.Run(fmt.Sprintf("%s, segments of %d", tt.name, segmentBytes), func(t *testing.T) {
				opts := dense
				opts.SegmentBytes = segmentBytes
				l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
				appendEach(t, l, many(10, 1)...)
				require.NoError(t, l.Sync())
				require.NoError(t, tt.do(l))
				require.Equal(t, tt.want, l.Offsets())
				require.Equal(t, span(tt.want.Start, tt.want.End-1), offsetsOf(readAll(t, l, tt.want.Start)))

				killed := openLog(t, crash(t, l), opts)
				require.Equal(t, tt.want.Start, killed.Offsets().Start)
				require.Equal(t, tt.want.End, killed.Offsets().End)

				res, err := l.Append(many(2, 100), nil)
				require.NoError(t, err)
				require.Equal(t, tt.want.End, res.BaseOffset)
				l = reopen(t, l, opts)
				require.Equal(t, tt.want.Start, l.Offsets().Start)
				require.Equal(t, span(tt.want.Start, tt.want.End+1), offsetsOf(readAll(t, l, tt.want.Start)))
				closeLog(t, l)
				requireSound(t, l.Dir())
			})
		}
	}
	l := openLog(t, t.TempDir(), quick)
	require.ErrorIs(t, l.TruncateTo(-1), seglog.ErrOption)
	require.ErrorIs(t, l.TruncateFullyAndStartAt(-1), seglog.ErrOption)
}

// 5.5: a batch that holds the offset goes completely, and the end is exactly
// what was asked for.
func TestTruncationInsideABatchLeavesAGap(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		opts := dense
		opts.Compression = codec
		l := openLog(t, t.TempDir(), opts)
		for i := range int64(4) {
			_, err := l.Append(many(5, 1+i*5), nil)
			require.NoError(t, err)
		}
		require.NoError(t, l.TruncateTo(12))
		require.Equal(t, int64(12), l.Offsets().End)
		require.Equal(t, span(0, 9), offsetsOf(readAll(t, l, 0)))
		_, err := l.Get(11)
		var gap *seglog.GapError
		require.ErrorAs(t, err, &gap)
		require.Equal(t, seglog.GapError{Offset: 11, Next: 12}, *gap)
		require.Equal(t, int64(-1), offsetForTime(t, l, 11))
		require.Equal(t, int64(9), offsetForTime(t, l, seglog.MaxTimestamp))
		res, err := l.Append(many(1, 50), nil)
		require.NoError(t, err)
		require.Equal(t, int64(12), res.BaseOffset)
		require.Equal(t, spans(span(0, 9), []int64{12}), offsetsOf(readAll(t, l, 0)))
		l = reopen(t, l, opts)
		require.Equal(t, spans(span(0, 9), []int64{12}), offsetsOf(readAll(t, l, 0)))
	}
}

// An iteration whose place is truncated away ends; one below goes on and never
// sees the old records.
func TestIterationsNoticeTruncation(t *testing.T) {
	for _, tt := range []struct {
		name    string
		to      int64
		refill  bool
		want    []int64
		isError bool
	}{
		{"far below", 2, false, span(0, 4), true},
		{"right behind", 5, false, span(0, 4), false},
		{"above", 8, false, span(0, 7), false},
		{"right behind, and filled again", 5, true, span(0, 9), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), dense)
			appendEach(t, l, many(20, 1)...)
			var got []int64
			truncated := false
			for r, err := range l.Records(t.Context(), 0, nil) {
				if err != nil {
					require.True(t, tt.isError)
					require.ErrorIs(t, err, seglog.ErrTruncated)
					got = append(got, -1)
					break
				}
				if truncated && r.Offset >= tt.to {
					require.Equal(t, "fresh", string(r.Value), "offset %d", r.Offset)
				}
				got = append(got, r.Offset)
				if r.Offset == 4 {
					require.NoError(t, l.TruncateTo(tt.to))
					truncated = true
					if tt.refill {
						for range 5 {
							appendEach(t, l, one(100, "fresh"))
						}
					}
				}
			}
			if tt.isError {
				tt.want = append(tt.want, -1)
			}
			if tt.refill { // it may end where the log ended when it was cut
				require.Subset(t, tt.want, got)
				require.Subset(t, got, span(0, 4))
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// 224
func TestTheLargestTimestampIsFoundAmongSegments(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, one(100, "a"), one(101, "b"), one(100, "c"))
	got, found, err := l.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, seglog.TimestampOffset{Timestamp: 101, Offset: 1}, got)
}

// 231
func TestTheRecoveryPointFollowsTheRolls(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
	for i := range int64(100) {
		appendEach(t, l, one(1+i, "r"))
		_, err := l.Roll()
		require.NoError(t, err)
	}
	waitForRecoveryPoint(t, l, 100)
	again := openLog(t, crash(t, l), quick)
	require.LessOrEqual(t, stats(t, again).Recovery.Scanned, 1)
	require.Equal(t, span(0, 99), offsetsOf(readAll(t, again, 0)))
}
