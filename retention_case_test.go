package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/stretchr/testify/require"
)

// seg is a segment to be made: records as old as age, in so many bytes of log.
type seg struct {
	records int64
	size    int // of the log; 0 means whatever it takes
	age     time.Duration
}

// logOf is a log of the given segments, the last of which is the active one.
// Where a size is asked for there is one batch of one record.
func logOf(t testing.TB, opts seglog.Options, segs ...seg) *seglog.Log {
	t.Helper()
	opts.Sync = seglog.SyncNever
	opts.SegmentAge = 100 * 365 * day
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
	for i, s := range segs {
		if i > 0 {
			_, err := l.Roll()
			require.NoError(t, err)
		}
		ts := time.Now().Add(-s.age).UnixMilli()
		switch {
		case s.size > 0:
			_, err := l.AppendReplicated(batchOfSize(t, s.size, l.Offsets().End, ts), nil)
			require.NoError(t, err)
		default:
			for range s.records {
				appendEach(t, l, one(ts, "r"))
			}
		}
	}
	return l
}

func retain(t testing.TB, l *seglog.Log) seglog.RetentionResult {
	t.Helper()
	res, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.Offsets().Start, res.Start)
	return res
}

// K060
func TestRetentionRunTwiceRemovesNothingMore(t *testing.T) {
	tests := []struct {
		name  string
		opts  seglog.Options
		segs  []seg
		start int64 // DeleteBefore first, as far as it goes
		want  int64 // log start afterwards
	}{
		{"the log start uncovers what is old",
			seglog.Options{RetentionTime: day},
			[]seg{{records: 5}, {records: 5, age: 2 * day}, {records: 5, age: 2 * day}, {records: 5}}, 5, 15},
		{"size uncovers what is old",
			seglog.Options{RetentionTime: day, RetentionBytes: 1000},
			[]seg{{size: 400}, {size: 400, age: 2 * day}, {size: 400}, {size: 300}}, 0, 2},
		{"age makes room",
			seglog.Options{RetentionTime: day, RetentionBytes: 1000},
			[]seg{{size: 400, age: 2 * day}, {size: 400, age: 2 * day}, {size: 400}, {size: 300}}, 0, 2},
		{"nothing to do",
			seglog.Options{RetentionTime: day, RetentionBytes: 10000},
			[]seg{{size: 400}, {size: 400}}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := logOf(t, tt.opts, tt.segs...)
			// Below the start, but with its segment still there: the next base
			// is what counts.
			require.NoError(t, l.DeleteBefore(tt.start))
			require.Equal(t, tt.want, retain(t, l).Start)
			second := retain(t, l)
			require.Zero(t, second.Segments)
			require.Equal(t, tt.want, second.Start)
		})
	}
}

// K061
func TestRetentionBySizeLeavesAtLeastTheSizeAskedFor(t *testing.T) {
	tests := []struct {
		name  string
		limit int64
		sizes []int
		want  []int64
	}{
		{"only what is wholly in excess", 1000, []int{400, 400, 400, 300}, []int64{1, 2, 3}},
		{"exactly the limit", 1000, []int{400, 300, 300}, []int64{0, 1, 2}},
		{"exactly a segment too much", 1000, []int{400, 400, 600}, []int64{1, 2}},
		{"one byte less than a segment too much", 1000, []int{400, 400, 599}, []int64{0, 1, 2}},
		{"no limit", -1, []int{400, 400, 400}, []int64{0, 1, 2}},
		{"far below", 1, []int{400, 400, 400}, []int64{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var segs []seg
			for _, size := range tt.sizes {
				segs = append(segs, seg{size: size})
			}
			l := logOf(t, seglog.Options{RetentionBytes: tt.limit}, segs...)
			before, err := l.Size()
			require.NoError(t, err)
			res := retain(t, l)
			require.Equal(t, tt.want, bases(t, l))
			after, err := l.Size()
			require.NoError(t, err)
			require.Equal(t, before-after, res.Bytes)
			require.Equal(t, len(tt.sizes)-len(tt.want), res.Segments)
		})
	}
}

// Rows 250, 251, 254, 255 and 261 of UnifiedLogTest.scala and LogManagerTest.scala.
func TestRetentionFollowsKafka(t *testing.T) {
	const batch = 61 + 7 + 1 // bytes: header, record, value
	old := 2 * day
	tests := []struct {
		name string
		opts seglog.Options
		segs []seg
		from int64 // DeleteBefore
		want []int64
	}{
		{"250: two of three by size", seglog.Options{RetentionBytes: 10 * batch},
			[]seg{{records: 5}, {records: 5}, {records: 5}}, 0, []int64{5, 10}},
		{"250: all three by size", seglog.Options{RetentionBytes: 15 * batch},
			[]seg{{records: 5}, {records: 5}, {records: 5}}, 0, []int64{0, 5, 10}},
		{"251: all expired", seglog.Options{RetentionTime: day},
			[]seg{{records: 5, age: old}, {records: 5, age: old}}, 0, []int64{10}},
		{"all expired, the last one empty", seglog.Options{RetentionTime: day},
			[]seg{{records: 5, age: old}, {records: 5, age: old}, {}}, 0, []int64{10}},
		{"none expired", seglog.Options{RetentionTime: day},
			[]seg{{records: 5}, {records: 5}}, 0, []int64{0, 5}},
		{"kept for ever", seglog.Options{RetentionTime: -1},
			[]seg{{records: 5, age: 3000 * day}, {records: 5}}, 0, []int64{0, 5}},
		{"the default is a week", seglog.Options{},
			[]seg{{records: 5, age: 8 * day}, {records: 5, age: 6 * day}, {records: 5}}, 0, []int64{5, 10}},
		{"expired behind one that is not", seglog.Options{RetentionTime: day},
			[]seg{{records: 5}, {records: 5, age: old}, {records: 5}}, 0, []int64{0, 5, 10}},
		{"254: log start 1", seglog.Options{}, []seg{{records: 5}, {records: 5}, {records: 5}}, 1, []int64{0, 5, 10}},
		{"254: log start 6", seglog.Options{}, []seg{{records: 5}, {records: 5}, {records: 5}}, 6, []int64{5, 10}},
		{"254: log start 5, at a segment's base", seglog.Options{}, []seg{{records: 5}, {records: 5}, {records: 5}}, 5, []int64{5, 10}},
		{"254: log start 15, the end", seglog.Options{}, []seg{{records: 5}, {records: 5}, {records: 5}}, 15, []int64{10}},
		{"255: log start unblocks time", seglog.Options{RetentionTime: day},
			[]seg{{records: 1}, {records: 1, age: old}, {records: 1}}, 1, []int64{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := logOf(t, tt.opts, tt.segs...)
			end := l.Offsets().End
			require.NoError(t, l.DeleteBefore(tt.from))
			retain(t, l)
			require.Equal(t, tt.want, bases(t, l))
			require.Equal(t, end, l.Offsets().End)
			require.Equal(t, max(tt.from, tt.want[0]), l.Offsets().Start)
			require.Equal(t, span(l.Offsets().Start, end-1), offsetsOf(readAll(t, l, l.Offsets().Start)))
			at, err := l.Append(many(1, 1), nil)
			require.NoError(t, err)
			require.Equal(t, end, at.BaseOffset)

			was := l.Offsets()
			l = reopen(t, l, tt.opts)
			require.Equal(t, was.Start, l.Offsets().Start)
			require.Equal(t, was.End, l.Offsets().End)
			closeLog(t, l)
			requireSound(t, l.Dir())
		})
	}
}

// Row 260, and 9.4.
func TestDeleteBeforeStaysInsideTheLog(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	_, err := l.Append(many(25, 1), nil)
	require.NoError(t, err)
	for _, o := range []int64{26, 1 << 40, -1} {
		err := l.DeleteBefore(o)
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
		var out *seglog.OffsetError
		require.ErrorAs(t, err, &out)
		require.Equal(t, seglog.OffsetError{Offset: o, Start: 0, End: 25}, *out)
	}
	require.NoError(t, l.DeleteBefore(10))
	require.NoError(t, l.DeleteBefore(5), "below the start is nothing to do")
	require.Equal(t, int64(10), l.Offsets().Start)

	// The start lies inside a batch: raw reading gives it whole, records do not.
	require.Equal(t, span(10, 24), offsetsOf(readAll(t, l, 10)))
	_, err = l.Get(9)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	res, err := l.Read(10, 1<<20, nil)
	require.NoError(t, err)
	require.Equal(t, batchesOf(t, l.Dir(), 0)[0].Bytes(), res.Batches)

	// It survives a crash and a clean close.
	again := openLog(t, crash(t, l), quick)
	require.Equal(t, int64(10), again.Offsets().Start)
	l = reopen(t, l, quick)
	require.Equal(t, int64(10), l.Offsets().Start)
	require.NoError(t, l.DeleteBefore(25))
	require.Empty(t, readAll(t, l, 25))
	require.Equal(t, int64(-1), offsetForTime(t, l, 1))
	require.Equal(t, int64(-1), offsetForTime(t, l, seglog.MaxTimestamp))
}

// K064
func TestAReaderInARemovedSegmentEndsWithAClearAnswer(t *testing.T) {
	requireNoLeak(t)
	l := logOf(t, seglog.Options{RetentionTime: day}, seg{records: 500, age: 2 * day}, seg{records: 5})
	n := int64(0)
	for r, err := range l.Records(t.Context(), 0, nil) {
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
			var out *seglog.OffsetError
			require.ErrorAs(t, err, &out)
			require.Equal(t, int64(500), out.Start)
			require.Equal(t, n, out.Offset)
			break
		}
		require.Equal(t, n, r.Offset)
		require.Equal(t, "r", string(r.Value))
		if n++; n == 3 {
			require.Equal(t, 1, retain(t, l).Segments)
			require.NoFileExists(t, segmentFile(l.Dir(), 0, ".log"))
		}
	}
	require.GreaterOrEqual(t, n, int64(3))
	require.Equal(t, span(500, 504), offsetsOf(readAll(t, l, 500)))
}

// K064
func TestCloseReturnsWhileAnIterationIsOpen(t *testing.T) {
	requireNoLeak(t)
	l := logOf(t, seglog.Options{RetentionTime: day}, seg{records: 5, age: 2 * day}, seg{records: 5})
	n := 0
	for _, err := range l.Records(t.Context(), 0, &seglog.IterOptions{Follow: true}) {
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrClosed)
			n = -1
			break
		}
		if n++; n == 2 {
			closeLog(t, l)
			closeLog(t, l) // again does nothing
		}
	}
	require.Equal(t, -1, n)
	_, err := l.Get(6)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.Append(many(1, 1), nil)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.ApplyRetention(t.Context())
	require.ErrorIs(t, err, seglog.ErrClosed)
	require.ErrorIs(t, l.Wait(t.Context(), 100), seglog.ErrClosed)
	_, err = l.Read(6, 100, nil)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.Roll()
	require.ErrorIs(t, err, seglog.ErrClosed)
	require.ErrorIs(t, l.TruncateTo(1), seglog.ErrClosed)
	require.ErrorIs(t, l.DeleteBefore(1), seglog.ErrClosed)
	require.ErrorIs(t, l.Sync(), seglog.ErrClosed)
	_, _, err = l.OffsetForTime(1)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.Stats()
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.Size()
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = l.Segments()
	require.ErrorIs(t, err, seglog.ErrClosed)
}

func TestRetentionEndsWithItsContext(t *testing.T) {
	l := logOf(t, seglog.Options{RetentionTime: day}, seg{records: 5, age: 2 * day}, seg{records: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.ApplyRetention(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []int64{0, 5}, bases(t, l))
}

// K065
func TestDeletingUpToTheEndLosesNothingThatIsAppendedMeanwhile(t *testing.T) {
	requireNoLeak(t)
	opts := quick
	opts.SegmentAge = 7 * time.Millisecond
	l := openLog(t, t.TempDir(), opts)
	rounds := 300 * *raceRounds
	var done atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !done.Load() {
			if _, err := l.Roll(); err != nil {
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for !done.Load() {
			if err := l.DeleteBefore(l.Offsets().End); err != nil {
				t.Error(err)
			}
		}
	})
	last := int64(-1)
	for round := range int64(rounds) {
		res, err := l.Append(many(5, round*5+1), nil) // and rolls by the time of records
		require.NoError(t, err)
		require.Equal(t, last+1, res.BaseOffset)
		last = res.LastOffset
		for o := res.BaseOffset; o <= res.LastOffset; o++ {
			r, err := l.Get(o)
			switch {
			case err == nil:
				require.Equal(t, o+1, r.Timestamp)
			case errors.Is(err, seglog.ErrOffsetOutOfRange):
				require.Greater(t, l.Offsets().Start, o)
			default:
				require.NoError(t, err)
			}
		}
	}
	done.Store(true)
	others.Wait()
	at := l.Offsets()
	require.Equal(t, int64(rounds*5), at.End)
	require.Equal(t, span(at.Start, at.End-1), offsetsOf(readAll(t, l, at.Start)))
	l = reopen(t, l, quick)
	require.Equal(t, at.End, l.Offsets().End)
	require.Equal(t, at.Start, l.Offsets().Start)
	files, err := filepath.Glob(filepath.Join(l.Dir(), "*.log*"))
	require.NoError(t, err)
	require.Len(t, files, len(bases(t, l)), "%q", files)
}

// Leftovers of a removal that was cut short are swept by the next open; the
// segment files come in any state of the removal.
func TestARemovalThatACrashCutShortIsFinished(t *testing.T) {
	suffixes := []string{".log", ".index", ".timeindex"}
	for renamed := range len(suffixes) + 1 {
		t.Run(fmt.Sprint(renamed), func(t *testing.T) {
			dir := sealedAndActive(t, 1000)
			for _, s := range suffixes[:renamed] {
				path := segmentFile(dir, 0, s)
				require.NoError(t, os.Rename(path, path+".deleted"))
			}
			l := openLog(t, dir, dense)
			want := span(0, 19)
			if renamed > 0 {
				want = span(10, 19)
			}
			require.Equal(t, want, offsetsOf(readAll(t, l, want[0])))
			require.Equal(t, want[0], l.Offsets().Start)
			leftovers, err := filepath.Glob(filepath.Join(dir, "*.deleted"))
			require.NoError(t, err)
			require.Empty(t, leftovers)
			closeLog(t, l)
			requireSound(t, dir)
		})
	}
}

// LogTest: a segment is as old as its newest record, and goes when it is older than
// retention.ms, not when it is just as old (UnifiedLog.deleteRetentionMsBreachedSegments).
func TestASegmentGoesAMillisecondAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = time.Hour
		disk := logtest.NewDisk(logtest.DiskOptions{})
		l := openLog(t, "log", seglog.Options{FS: disk.FS(), RetentionTime: keep, TimestampAfterMax: -1})
		appendEach(t, l, one(time.Now().UnixMilli(), "old"))
		_, err := l.Roll()
		require.NoError(t, err)
		appendEach(t, l, one(time.Now().Add(2*keep).UnixMilli(), "new"))
		time.Sleep(keep)
		res, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Zero(t, res.Segments)
		time.Sleep(time.Millisecond)
		res, err = l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, res.Segments)
		closeLog(t, l)
	})
}
