package seglog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// K032
func TestALookupByTimeFindsTheFirstRecordAtOrAfter(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	for _, ts := range []int64{0, 5, math.MaxInt64} {
		require.Equal(t, int64(-1), offsetForTime(t, l, ts), "an empty log has no records")
	}
	require.Equal(t, int64(-1), offsetForTime(t, l, seglog.MaxTimestamp))
	appendEach(t, l, one(2, "a"), one(4, "b"), one(6, "c"), one(8, "d"))
	for ts, want := range map[int64]int64{0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 7: 3, 8: 3, 9: -1, math.MaxInt64: -1} {
		require.Equal(t, want, offsetForTime(t, l, ts), "timestamp %d", ts)
	}
	require.Equal(t, int64(4), offsetForTime(t, l, seglog.LatestTimestamp))
	require.Equal(t, int64(0), offsetForTime(t, l, seglog.EarliestTimestamp))
	require.Equal(t, int64(3), offsetForTime(t, l, seglog.MaxTimestamp))
	for _, ts := range []int64{-4, -5, math.MinInt64} {
		_, _, err := l.OffsetForTime(ts)
		require.ErrorIs(t, err, seglog.ErrOption, "timestamp %d means nothing here", ts)
	}
}

// K033
func TestALookupByTimeFindsTheLowestOffsetAmongUnorderedTimes(t *testing.T) {
	times := []int64{10, 5, 20, 15, 30}
	want := map[int64]int64{1: 0, 6: 0, 10: 0, 11: 2, 16: 2, 20: 2, 21: 4, 30: 4, 31: -1}
	tests := []struct {
		name  string
		build func(t *testing.T, l *seglog.Log)
	}{
		{"one segment", func(t *testing.T, l *seglog.Log) {
			for _, ts := range times {
				appendEach(t, l, one(ts, "r"))
			}
		}},
		{"three segments", func(t *testing.T, l *seglog.Log) {
			for i, ts := range times {
				appendEach(t, l, one(ts, "r"))
				if i == 1 || i == 3 {
					_, err := l.Roll()
					require.NoError(t, err)
				}
			}
		}},
		{"one batch", func(t *testing.T, l *seglog.Log) {
			var records []seglog.Record
			for _, ts := range times {
				records = append(records, one(ts, "r"))
			}
			_, err := l.Append(records, nil)
			require.NoError(t, err)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), dense)
			tt.build(t, l)
			for range 2 {
				for ts, offset := range want {
					require.Equal(t, offset, offsetForTime(t, l, ts), "timestamp %d", ts)
				}
				require.Equal(t, int64(4), offsetForTime(t, l, seglog.MaxTimestamp))
				l = reopen(t, l, dense)
			}
		})
	}
}

// A newest record below the log start does not hide what is above it.
func TestALookupByTimeLooksOnlyAtOrAboveTheLogStart(t *testing.T) {
	l := openLog(t, t.TempDir(), dense)
	appendEach(t, l, one(10, "0"), one(90, "1"), one(20, "2"), one(30, "3"))
	_, err := l.Roll()
	require.NoError(t, err)
	appendEach(t, l, one(80, "4"), one(40, "5"))
	require.NoError(t, l.DeleteBefore(2))
	for ts, want := range map[int64]int64{0: 2, 20: 2, 25: 3, 31: 4, 80: 4, 81: -1} {
		require.Equal(t, want, offsetForTime(t, l, ts), "timestamp %d", ts)
	}
	at, found, err := l.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, seglog.TimestampOffset{Timestamp: 80, Offset: 4}, at)
}

// K034
func TestTheNewestTimestampIsThatOfTheRecordThatHasIt(t *testing.T) {
	times := func(ts ...int64) []seglog.Record {
		var records []seglog.Record
		for i, ts := range ts {
			records = append(records, at(int64(i), ts, "r"))
		}
		return records
	}
	tests := []struct {
		name    string
		opts    record.BuilderOptions
		records []seglog.Record
		want    seglog.TimestampOffset
		shallow int64 // in the time index
	}{
		{"in the middle", record.BuilderOptions{}, times(1, 9, 3), seglog.TimestampOffset{Timestamp: 9, Offset: 1}, 2},
		{"in the middle, gzip", record.BuilderOptions{Codec: record.Gzip}, times(1, 9, 3), seglog.TimestampOffset{Timestamp: 9, Offset: 1}, 2},
		{"two that tie", record.BuilderOptions{}, times(9, 9, 3), seglog.TimestampOffset{Timestamp: 9, Offset: 0}, 2},
		{"two that tie, zstd", record.BuilderOptions{Codec: record.Zstd}, times(1, 9, 9), seglog.TimestampOffset{Timestamp: 9, Offset: 1}, 2},
		{"append time", record.BuilderOptions{TimestampType: record.LogAppendTime, LogAppendTime: 9}, times(1, 9, 3), seglog.TimestampOffset{Timestamp: 9, Offset: 0}, 2},
		{"append time, lz4", record.BuilderOptions{TimestampType: record.LogAppendTime, LogAppendTime: 9, Codec: record.LZ4}, times(1, 9, 3), seglog.TimestampOffset{Timestamp: 9, Offset: 0}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir, dense)
			_, err := l.AppendReplicated(batchAt(t, tt.opts, tt.records...), nil)
			require.NoError(t, err)
			for range 2 {
				got, found, err := l.OffsetForTime(seglog.MaxTimestamp)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, tt.want, got)
				l = reopen(t, l, dense)
			}
			closeLog(t, l)
			require.Equal(t, []timeEntry{{tt.want.Timestamp, tt.shallow}}, timeEntries(t, dir, 0))
		})
	}
}

// K034, across batches and segments: the earliest of equals.
func TestTheEarlierOfEqualTimestampsIsTheNewest(t *testing.T) {
	l := openLog(t, t.TempDir(), dense)
	appendEach(t, l, one(1, "0"), one(7, "1"), one(7, "2"))
	_, err := l.Roll()
	require.NoError(t, err)
	appendEach(t, l, one(7, "3"), one(5, "4"))
	for range 2 {
		require.Equal(t, int64(1), offsetForTime(t, l, seglog.MaxTimestamp))
		l = reopen(t, l, dense)
	}
}

// K035
func TestASegmentWithoutTimestampsIsAsOldAsItsFile(t *testing.T) {
	build := func(t *testing.T) string {
		dir := t.TempDir()
		old := writeLog(t, dir, 0,
			legacyMessage(0, 0, 0, 0, []byte("k"), []byte("0")),
			legacyMessage(0, 1, 0, 0, []byte("k"), []byte("1")))
		now := time.Now()
		require.NoError(t, os.Chtimes(old, now.Add(-3*day), now.Add(-3*day)))
		writeLog(t, dir, 2,
			legacyMessage(1, 2, now.UnixMilli()-60_000, 0, nil, []byte("2")),
			batchAt(t, record.BuilderOptions{BaseOffset: 3}, at(3, now.UnixMilli(), "3")))
		return dir
	}
	for _, tt := range []struct {
		keep  time.Duration
		start int64
	}{{day, 2}, {7 * day, 0}} {
		t.Run(fmt.Sprint(tt.keep), func(t *testing.T) {
			dir := build(t)
			path := segmentFile(dir, 0, ".log")
			before, err := os.Stat(path)
			require.NoError(t, err)

			l := openLog(t, dir, seglog.Options{RetentionTime: tt.keep})
			all := readAll(t, l, 0)
			require.Equal(t, span(0, 3), offsetsOf(all))
			require.Equal(t, record.NoTimestamp, all[0].Timestamp)
			require.Equal(t, int64(2), offsetForTime(t, l, 0), "records without a time are never found")
			require.Equal(t, int64(3), offsetForTime(t, l, seglog.MaxTimestamp))
			infos := segments(t, l)
			require.Equal(t, record.NoTimestamp, infos[0].MaxTimestamp)
			require.Zero(t, infos[0].TimeIndexEntries)
			l = reopen(t, l, seglog.Options{RetentionTime: tt.keep})
			after, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, before.ModTime(), after.ModTime())

			gone, err := l.ApplyRetention(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.start, gone.Start)
			require.Equal(t, span(tt.start, 3), offsetsOf(readAll(t, l, tt.start)))
		})
	}
}

// K036
func TestOneRecordInTheFutureHoldsItsSegmentAndAllBehindIt(t *testing.T) {
	now := time.Now()
	old, future := now.Add(-30*day).UnixMilli(), now.AddDate(10, 0, 0).UnixMilli()
	var told bytes.Buffer
	opts := seglog.Options{RetentionTime: 7 * day, SegmentAge: 100 * 365 * day, Sync: seglog.SyncNever, TimestampAfterMax: -1,
		Logger: slog.New(slog.NewTextHandler(&told, nil))}
	l := openLog(t, t.TempDir(), opts)
	for o := range int64(300) {
		ts := old + o
		if o == 150 {
			ts = future
		}
		if o == 100 || o == 200 {
			_, err := l.Roll()
			require.NoError(t, err)
		}
		appendEach(t, l, one(ts, "r"))
	}
	for range 2 {
		gone, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(100), gone.Start)
		require.Equal(t, []int64{100, 200}, bases(t, l))
		require.Equal(t, &seglog.TimestampOffset{Timestamp: future, Offset: 150}, gone.HeldBy)
	}
	require.Equal(t, 1, strings.Count(told.String(), "held by a time in the future"), "%s", &told)
	require.Contains(t, told.String(), "offset=150")

	// With the cap the files count, which are new, and then old.
	opts.RetentionCapsTime = true
	l = reopen(t, l, opts)
	gone, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, seglog.RetentionResult{Start: 100}, gone)
	age(t, l.Dir(), 8*day)
	gone, err = l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(300), gone.Start)
	require.Equal(t, 2, gone.Segments)
	require.Nil(t, gone.HeldBy)
}

// A clock that is a little slow is no reason to tell of the future.
func TestAnHourAheadIsNotTheFuture(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{RetentionTime: day, Sync: seglog.SyncNever})
	appendEach(t, l, one(time.Now().Add(50*time.Minute).UnixMilli(), "r"))
	gone, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, seglog.RetentionResult{}, gone)
}

// K037
func TestAppendTimeOverridesTheTimesOfRecords(t *testing.T) {
	inner := append(legacyMessage(1, 0, 10, 0, nil, []byte("a")), legacyMessage(1, 1, 20, 0, nil, []byte("b"))...)
	tests := []struct {
		name  string
		bytes []byte
		n     int64
	}{
		{"magic 2", batchAt(t, record.BuilderOptions{TimestampType: record.LogAppendTime, LogAppendTime: 5000},
			at(0, 1000, "a"), at(1, 1010, "b"), at(2, 1020, "c")), 3},
		{"magic 2, snappy", batchAt(t, record.BuilderOptions{TimestampType: record.LogAppendTime, LogAppendTime: 5000, Codec: record.Snappy},
			at(0, 1000, "a"), at(1, 1010, "b"), at(2, 1020, "c")), 3},
		{"magic 1 wrapper", legacyMessage(1, 1, 5000, 8|1, nil, gzipped(t, inner)), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, tt.bytes)
			l := openLog(t, dir, quick)
			all := readAll(t, l, 0)
			require.Equal(t, span(0, tt.n-1), offsetsOf(all))
			for _, r := range all {
				require.Equal(t, int64(5000), r.Timestamp)
			}
			require.Equal(t, int64(0), offsetForTime(t, l, 1001))
			require.Equal(t, int64(0), offsetForTime(t, l, 5000))
			require.Equal(t, int64(-1), offsetForTime(t, l, 5001))
			require.Equal(t, int64(0), offsetForTime(t, l, seglog.MaxTimestamp))
		})
	}
}

// A log with append times stamps what is appended, and never goes back.
func TestALogWithAppendTimeStampsEveryBatch(t *testing.T) {
	opts := quick
	opts.TimestampType = record.LogAppendTime
	l := openLog(t, t.TempDir(), opts)
	before := time.Now().UnixMilli()
	first, err := l.Append([]seglog.Record{one(5, "a"), one(math.MaxInt64/2, "b")}, nil)
	require.NoError(t, err)
	second, err := l.AppendBatch(batchAt(t, record.BuilderOptions{Codec: record.LZ4}, at(0, 7, "c"), at(1, 8, "d")), nil)
	require.NoError(t, err)
	after := time.Now().UnixMilli()
	require.LessOrEqual(t, before, first.Timestamp)
	require.LessOrEqual(t, first.Timestamp, second.Timestamp)
	require.LessOrEqual(t, second.Timestamp, after)
	all := readAll(t, l, 0)
	require.Equal(t, []int64{first.Timestamp, first.Timestamp, second.Timestamp, second.Timestamp},
		[]int64{all[0].Timestamp, all[1].Timestamp, all[2].Timestamp, all[3].Timestamp})
}

// K038
func TestTheNewestTimestampIsAlwaysAPairThatExists(t *testing.T) {
	requireNoLeak(t)
	opts := dense
	opts.SegmentBytes = 4000
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, one(1, "first"))
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for last := int64(0); !done.Load(); {
				at, found, err := l.OffsetForTime(seglog.MaxTimestamp)
				if err != nil || !found {
					t.Errorf("newest timestamp: found %v, %v", found, err)
					return
				}
				r, err := l.Get(at.Offset)
				if err != nil || r.Timestamp != at.Timestamp || at.Timestamp < last {
					t.Errorf("newest is %+v, the record there has %d (%v), before it was %d", at, r.Timestamp, err, last)
					return
				}
				last = at.Timestamp
			}
		})
	}
	for i := range int64(1500) {
		appendEach(t, l, one(2+i*3, "next"))
	}
	done.Store(true)
	readers.Wait()
}

// A time index that was cut between two entries, or is an older copy, looks whole. It
// must neither hide records from look-ups by time nor make a segment look old.
func TestATimeIndexThatLostItsEndChangesNoAnswer(t *testing.T) {
	now := time.Now().UnixMilli()
	old := now - (48 * time.Hour).Milliseconds()
	opts := seglog.Options{IndexIntervalBytes: 300, RetentionTime: 24 * time.Hour, Sync: seglog.SyncNever}
	sound := t.TempDir()
	l := openLog(t, sound, opts)
	times := make([]int64, 80)
	for i := range times {
		times[i] = old + int64(i)
		if i >= 40 {
			times[i] = now + int64(i)
		}
		appendEach(t, l, one(times[i], strings.Repeat("v", 100)))
	}
	_, err := l.Roll()
	require.NoError(t, err)
	appendEach(t, l, one(now+100, "active"))
	closeLog(t, l)
	entries := len(readFile(t, segmentFile(sound, 0, ".timeindex"))) / 12
	require.Greater(t, entries, 10)
	for kept := range entries {
		for _, readOnly := range []bool{false, true} {
			dir := copyDir(t, sound, t.TempDir())
			require.NoError(t, os.Truncate(segmentFile(dir, 0, ".timeindex"), int64(12*kept)))
			opts.ReadOnly = readOnly
			l := openLog(t, dir, opts)
			for i, timestamp := range times {
				require.EqualValues(t, i, offsetForTime(t, l, timestamp), "%d entries kept", kept)
			}
			if !readOnly {
				res, err := l.ApplyRetention(t.Context())
				require.NoError(t, err)
				require.Zero(t, res.Segments, "%d entries kept", kept)
			}
			closeLog(t, l)
		}
	}
}
