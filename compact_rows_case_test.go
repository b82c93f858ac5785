package seglog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// onePass compacts as far as one pass gets.
func onePass(t tb, l *seglog.Log, o seglog.CompactOptions) seglog.CompactResult {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(p seglog.CompactProgress) {
		if p.Pass == 2 {
			cancel()
		}
	}
	res, err := l.Compact(ctx, &o)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	return res
}

// cleanBelow has the log begin to compact at an offset, by what a broker leaves that was
// shut down. The log is closed, and lies in a directory named after a partition.
func cleanBelow(t tb, dir string, topic string, end, offset int64) {
	t.Helper()
	root := filepath.Dir(dir)
	writeFile(t, filepath.Join(root, "recovery-point-offset-checkpoint"), fmt.Appendf(nil, "0\n1\n%s 0 %d\n", topic, end))
	writeFile(t, filepath.Join(root, "cleaner-offset-checkpoint"), fmt.Appendf(nil, "0\n1\n%s 0 %d\n", topic, offset))
	writeFile(t, filepath.Join(root, ".kafka_cleanshutdown"), []byte(`{"version":0,"brokerEpoch":1}`))
}

// Row 303: aborted transactions in a segment that takes three passes.
func TestAbortedTransactionsAreKnownInEveryPass_303(t *testing.T) {
	h := newHistory(t).run("t1:1,2 t2:2,3 t1:3,4 commit:1 commit:2 t1:2,3 abort:1 t2:4,5 t1:5,6 commit:1 abort:2 t2:6,7 commit:2 |")
	require.EqualValues(t, 20, h.log.Offsets().End)
	for _, pass := range []struct {
		later         time.Duration
		dirty         int64
		records, ends []int64
		aborted       int
	}{
		{0, 4, []int64{0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19}, []int64{1, 3, 5, 6, 7, 10, 14, 15, 16, 18, 19}, 2},
		{0, 14, []int64{0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19}, []int64{1, 3, 5, 6, 7, 10, 14, 15, 16, 18, 19}, 0},
		{h.opts.DeleteRetention, 20, []int64{0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19}, []int64{1, 3, 5, 6, 7, 14, 15, 18, 19}, 0},
	} {
		h.now += pass.later.Milliseconds()
		// Three keys fit four slots.
		onePass(t, h.log, seglog.CompactOptions{MapBytes: 4 * 24, Now: time.UnixMilli(h.now)})
		require.Equal(t, pass.dirty, firstDirty(t, h.log))
		records, ends := h.offsets()
		require.Equal(t, pass.records, records)
		require.Equal(t, pass.ends, ends)
		require.Equal(t, pass.aborted, h.aborted())
	}
}

// Rows 301 and 302: a batch that is sent again is recognised, and told its offsets, though
// compaction has taken records out of it, or all; also by who has to find the producers in
// the log.
func TestABatchThatWasCleanedIsStillRecognised_301(t *testing.T) {
	for name, text := range map[string]string{"301": "", "302: the first is empty": "p4:2 clean"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, snapshots lost: %v", name, lost), func(t *testing.T) {
				h := newHistory(t).run("p1:1,2,3 p2:3,1,4 p3:1,4 clean " + text)
				closeLog(t, h.log)
				if lost {
					removeSnapshots(t, h.dir)
				}
				sequences := []int32{}
				for _, b := range batchesOf(t, h.dir, 0)[:3] {
					sequences = append(sequences, b.LastSequence())
				}
				require.Equal(t, []int32{2, 2, 1}, sequences)
				h.log = openLog(t, h.dir, h.opts)
				for id, sent := range map[int64]struct {
					keys  []string
					first int64
				}{1: {[]string{"1", "2", "3"}, 0}, 2: {[]string{"3", "1", "4"}, 3}, 3: {[]string{"1", "4"}, 6}} {
					var records []seglog.Record
					for _, key := range sent.keys {
						records = append(records, kv(key, "v"))
					}
					at, err := h.log.Append(records, &seglog.AppendOptions{Producer: &seglog.Producer{ID: id}})
					require.NoError(t, err)
					require.True(t, at.Duplicate)
					require.Equal(t, sent.first, at.BaseOffset)
					require.Equal(t, sent.first+int64(len(records))-1, at.LastOffset)
				}
			})
		}
	}
}

func removeSnapshots(t tb, dir string) {
	t.Helper()
	snapshots, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	require.NoError(t, err)
	for _, path := range snapshots {
		require.NoError(t, os.Remove(path))
	}
	removeState(t, dir)
}

// Row 309: of a producer that has written nothing but markers the last one tells its
// epoch. One of an epoch before goes when its time has come.
func TestTheLastMarkerOfAProducerTellsItsEpoch_309(t *testing.T) {
	h := newHistory(t)
	for epoch := range int16(2) {
		_, err := h.log.EndTransaction(seglog.Producer{ID: 1, Epoch: epoch}, seglog.Commit, nil)
		require.NoError(t, err)
	}
	h.run("d:1 twice")
	records, ends := h.offsets()
	require.Equal(t, []int64{2}, records)
	require.Equal(t, []int64{1, 2}, ends)
}

// A tombstone of magic 0 or 1 has no horizon: it stays as long as its segment is not older,
// by delete.retention.ms, than the newest that was clean.
func TestALegacyTombstoneGoesByTheAgeOfItsSegment(t *testing.T) {
	clean := time.UnixMilli(1_700_000_000_000)
	for _, row := range []struct {
		name  string
		age   time.Duration // of the tombstone's segment, against the clean one
		clean int64         // the first dirty offset
		stays bool
	}{
		{"a little younger", time.Hour - time.Millisecond, 10, true},
		{"as old", time.Hour, 10, false},
		{"nothing was clean", 24 * time.Hour, 0, true},
	} {
		for _, magic := range []byte{0, 1} {
			t.Run(fmt.Sprintf("%s, magic %d", row.name, magic), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "topic-0")
				first := writeLog(t, dir, 0, keyedBatch(t, 0, "a", "v"))
				second := writeLog(t, dir, 10, legacyMessage(magic, 10, 5, 0, []byte("k"), nil), keyedBatch(t, 11, "b", "v"))
				writeLog(t, dir, 20, keyedBatch(t, 20, "c", "v"))
				at := clean.Add(-row.age)
				require.NoError(t, os.Chtimes(first, clean, clean))
				require.NoError(t, os.Chtimes(second, at, at))
				cleanBelow(t, dir, "topic", 21, row.clean)
				opts := compacted
				opts.DeleteRetention = time.Hour
				l := openLog(t, dir, opts)
				res := compact(t, l, nil)
				want := []string{"0 a=v", "10 k=null", "11 b=v", "20 c=v"}
				if !row.stays {
					want = slices.Delete(want, 1, 2)
					require.EqualValues(t, 1, res.Expired)
				}
				require.Equal(t, want, contents(t, l))
			})
		}
	}
}

// Row 338, KAFKA-4298: some brokers have stored wrappers of magic 1 with messages of magic
// 0 in them. What is left of one has one magic, and its offsets.
func TestAWrapperOfTwoMagicsBecomesOne_338(t *testing.T) {
	for name, superseded := range map[string]bool{"nothing goes": false, "something goes": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var inner []byte
			for i := range 3 {
				inner = append(inner, legacyMessage(0, int64(i), 0, 0, fmt.Append(nil, "k", i), []byte("v"))...)
			}
			want := []string{"10 k0=v", "11 k1=v", "12 k2=v", "13 last=v"}
			newer := keyedBatch(t, 13, "last", "v")
			if superseded {
				want, newer = []string{"10 k0=v", "12 k2=v", "13 k1=v"}, keyedBatch(t, 13, "k1", "v")
			}
			writeLog(t, dir, 0, legacyMessage(1, 12, 7, 1, nil, gzipped(t, inner)), newer)
			l := openLog(t, dir, compacted)
			rollLog(t, l)
			compact(t, l, nil)
			require.Equal(t, want, contents(t, l))
			closeLog(t, l)
			b := batchesOf(t, dir, 0)[0]
			require.EqualValues(t, 1, b.Magic())
			require.Equal(t, record.Gzip, b.Codec())
			require.EqualValues(t, 12, b.LastOffset())
			var it record.Iterator
			require.NoError(t, it.Reset(b.Batch))
			for it.Next() {
				require.EqualValues(t, 1, it.LegacyMessage()[16])
			}
			require.NoError(t, it.Err())
			requireSound(t, dir)
		})
	}
}

// However large the segments are and small index.interval.bytes is now: a cleaned one has
// no more index entries than segment.index.bytes has room for.
func TestTheIndexesOfACleanedSegmentHaveRoom(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, compacted)
	value := strings.Repeat("v", 4000)
	for i := range 100 {
		_, err := l.Append([]seglog.Record{{Timestamp: int64(1000 + i), Key: fmt.Append(nil, "k", i%90), Value: []byte(value)}}, nil)
		require.NoError(t, err)
	}
	rollLog(t, l)
	opts := compacted
	opts.SegmentIndexBytes, opts.IndexIntervalBytes = 120, 1
	l = reopen(t, l, opts)
	compact(t, l, nil)
	require.Len(t, readAll(t, l, 0), 90)
	require.NotEmpty(t, indexEntries(t, dir, 0))
	closeLog(t, l)
	requireSound(t, dir)
}

// Rows 318, 319 and 333: a pass begins at the first dirty offset, and ends where the map
// is full, in the middle of a segment.
func TestAPassBeginsAndEndsInsideASegment(t *testing.T) {
	open := func(t *testing.T, offset int64, keys int) *seglog.Log {
		dir := filepath.Join(t.TempDir(), "topic-0")
		l := openLog(t, dir, compacted)
		for i := range 5 {
			put(t, l, fmt.Sprint("k", i%keys), "v")
		}
		rollLog(t, l)
		closeLog(t, l)
		cleanBelow(t, dir, "topic", 5, offset)
		return openLog(t, dir, compacted)
	}
	t.Run("318: one key at a time", func(t *testing.T) {
		l := open(t, 2, 2)
		for _, want := range [][]int64{{1, 2, 3, 4}, {2, 3, 4}, {3, 4}} {
			onePass(t, l, seglog.CompactOptions{MapBytes: 2 * 24})
			require.Equal(t, want, offsetsOf(readAll(t, l, 0)))
		}
	})
	t.Run("319: what was read and written", func(t *testing.T) {
		l := open(t, 2, 2)
		size := fileSize(t, segmentFile(l.Dir(), 0, ".log"))
		res := compact(t, l, &seglog.CompactOptions{MapBytes: 4 * 24})
		require.EqualValues(t, 5, res.FirstDirty)
		require.Equal(t, seglog.Volume{Records: 5, Batches: 5, Bytes: size}, res.Read)
		require.Equal(t, seglog.Volume{Records: 2, Batches: 2, Bytes: fileSize(t, segmentFile(l.Dir(), 0, ".log"))}, res.Kept)
		require.Zero(t, res.Keyless)
		require.EqualValues(t, 3, res.Superseded)
	})
	t.Run("333: a map of a part", func(t *testing.T) {
		l := open(t, 2, 5)
		dry := compact(t, l, &seglog.CompactOptions{MapBytes: 3 * 24, DryRun: true})
		require.Equal(t, 2, dry.Keys)
		require.EqualValues(t, 4, dry.FirstDirty)
		require.Zero(t, dry.Superseded)
	})
}

// Rows 332 and 334: the map has every key of the dirty part and no other, however far
// apart their offsets are.
func TestTheMapHasTheKeysOfTheDirtyPart(t *testing.T) {
	t.Run("332: many segments", func(t *testing.T) {
		opts := compacted
		opts.SegmentBytes = 1 << 20
		l := openLog(t, t.TempDir(), opts)
		for i := range 500 {
			put(t, l, fmt.Sprint("k", i), "v")
			if i%100 == 99 {
				rollLog(t, l)
			}
		}
		dry := compact(t, l, &seglog.CompactOptions{DryRun: true})
		require.Equal(t, 500, dry.Keys)
		require.EqualValues(t, 500, dry.FirstDirty)
		require.Equal(t, seglog.Volume{Records: 500, Batches: 500, Bytes: dry.Read.Bytes}, dry.Kept)
	})
	t.Run("334: a gap of millions", func(t *testing.T) {
		const far = int64(7206178)
		dir := t.TempDir()
		writeLog(t, dir, 0, keyedBatch(t, 0, "a", "v"), keyedBatch(t, far, "b", "v"))
		l := openLog(t, dir, compacted)
		rollLog(t, l)
		res := compact(t, l, nil)
		require.Equal(t, 2, res.Keys)
		require.EqualValues(t, far+1, res.FirstDirty)
		require.Equal(t, []int64{0, far}, offsetsOf(readAll(t, l, 0)))
	})
}

// Row 335: offsets that nobody has, at the end of segments, are clean too.
func TestMissingOffsetsArePassed_335(t *testing.T) {
	for _, row := range []struct {
		name  string
		bases []int64
	}{{"before the active segment", []int64{0, 11}}, {"between segments, too", []int64{0, 15, 30}}} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, base := range row.bases {
				var batches [][]byte
				for o := base; o < base+10 && (i+1 < len(row.bases) || o == base); o++ {
					batches = append(batches, keyedBatch(t, o, fmt.Sprint("k", o), "v"))
				}
				writeLog(t, dir, base, batches...)
			}
			l := openLog(t, dir, compacted)
			before := readAll(t, l, 0)
			require.Equal(t, row.bases[len(row.bases)-1], compact(t, l, nil).FirstDirty)
			require.Zero(t, compact(t, l, nil).Passes)
			require.Equal(t, before, readAll(t, l, 0))
		})
	}
}

// Row 322: a compaction that is cancelled, before or in the middle of what it writes,
// leaves the log as it was.
func TestACancelledCompactionChangesNothing_322(t *testing.T) {
	for _, rewriting := range []bool{false, true} {
		t.Run(fmt.Sprintf("rewriting %v", rewriting), func(t *testing.T) {
			l := openLog(t, t.TempDir(), compacted)
			dirty(t, l, 4)
			before := logFiles(t, l.Dir())
			ctx, cancel := context.WithCancel(t.Context())
			_, err := l.Compact(ctx, &seglog.CompactOptions{Progress: func(p seglog.CompactProgress) {
				if p.Rewriting == rewriting {
					cancel()
				}
			}})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, before, logFiles(t, l.Dir()))
			require.NotContains(t, fmt.Sprint(names(t, l.Dir())), ".cleaned")
			require.Zero(t, firstDirty(t, l))
			compact(t, l, nil)
			require.Len(t, readAll(t, l, 0), 5)
		})
	}
}

// Row 327: how long a tombstone stays counts from when it was first cleaned, and not from
// the times of records.
func TestATombstoneIsJudgedByItsHorizonAndNotByTimestamps_327(t *testing.T) {
	opts := compacted
	opts.DeleteRetention = time.Hour
	l := openLog(t, t.TempDir(), opts)
	now := time.Now()
	add := func(key string, value []byte, at time.Time) {
		_, err := l.Append([]seglog.Record{{Key: []byte(key), Value: value, Timestamp: at.UnixMilli()}}, nil)
		require.NoError(t, err)
		rollLog(t, l)
		compact(t, l, &seglog.CompactOptions{Now: now})
	}
	add("0", []byte("0"), now.Add(2*time.Hour))
	add("0", nil, now.Add(-2*time.Hour))
	require.Equal(t, []string{"1 0=null"}, contents(t, l))
	add("1", []byte("1"), now)
	require.Equal(t, []string{"1 0=null", "2 1=1"}, contents(t, l))
	now = now.Add(time.Hour)
	add("2", []byte("2"), now)
	require.Equal(t, []string{"2 1=1", "3 2=2"}, contents(t, l))
}

// Row 336, K013: a segment of an old broker with offsets that are too far apart is split
// before it is cleaned, and what is left of it cleaned as any other.
func TestASegmentThatOverflowsIsSplitAndCleaned_K013(t *testing.T) {
	const far = int64(1 << 31)
	dir := t.TempDir()
	writeLog(t, dir, 0, keyedBatch(t, 0, "a", "old"), keyedBatch(t, 5, "b", "v"), keyedBatch(t, far+10, "a", "new"), keyedBatch(t, far+12, "c", "v"))
	writeLog(t, dir, far+20, keyedBatch(t, far+20, "d", "v"))
	l := openLog(t, dir, compacted)
	require.Equal(t, []int64{0, far + 10, far + 20}, bases(t, l))
	res := compact(t, l, nil)
	require.EqualValues(t, far+20, res.FirstDirty)
	require.Equal(t, []string{"5 b=v", fmt.Sprint(far+10, " a=new"), fmt.Sprint(far+12, " c=v"), fmt.Sprint(far+20, " d=v")}, contents(t, l))
	require.Equal(t, []int64{0, far + 10, far + 20}, bases(t, l))
	closeLog(t, l)
	requireSound(t, dir)
}

// K019, row 339: a cleaned segment is as long as its batches, whatever preallocate says.
func TestACleanedSegmentIsAsLongAsItsBatches_K019(t *testing.T) {
	opts, err := seglog.OptionsFromProperties(compacted, map[string]string{"preallocate": "true", "segment.bytes": "1048576"})
	require.NoError(t, err)
	l := openLog(t, t.TempDir(), opts)
	dirty(t, l, 2)
	compact(t, l, nil)
	copied := crash(t, l)
	size := int64(0)
	for _, b := range batchesOf(t, copied, 0) {
		size += int64(b.Size())
	}
	require.Equal(t, size, fileSize(t, segmentFile(copied, 0, ".log")))
	again := openLog(t, copied, opts)
	require.Empty(t, stats(t, again).Recovery.Cut)
	require.Equal(t, contents(t, l), contents(t, again))
}

// Row 341: what must not be cleaned yet, and all behind it, stays byte for byte, also
// where it begins in the middle of a segment.
func TestWhatIsUncleanableStaysAsItIs_341(t *testing.T) {
	opts := compacted
	opts.SegmentBytes = 1 << 20
	l := openSized(t, t.TempDir(), opts)
	for i := range 60 {
		if i == 33 {
			_, err := l.Append([]seglog.Record{kv("k3", "open")}, &seglog.AppendOptions{Producer: &seglog.Producer{ID: 1, Transactional: true}})
			require.NoError(t, err)
			continue
		}
		put(t, l, fmt.Sprint("k", i%5), fmt.Sprint("value ", i))
		if i%10 == 9 {
			rollLog(t, l)
		}
	}
	before := logFiles(t, l.Dir())
	d, err := l.Dirtiness()
	require.NoError(t, err)
	require.EqualValues(t, 30, d.FirstUncleanable)
	res := compact(t, l, nil)
	require.EqualValues(t, 30, res.FirstDirty)
	require.EqualValues(t, 25, res.Superseded)
	after := logFiles(t, l.Dir())
	for name, content := range before {
		if name >= "00000000000000000030.log" {
			require.Equal(t, content, after[name], name)
		}
	}
	require.Equal(t, spans([]int64{25, 26, 27, 28, 29}, span(30, 59)), offsetsOf(readLogEnd(t, l)))
}

func readLogEnd(t tb, l *seglog.Log) (all []seglog.Record) {
	t.Helper()
	for r, err := range l.Records(context.Background(), 0, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(t, err)
		all = append(all, r.Clone())
	}
	return all
}

// Rows 349 and 352: nothing is cleaned above the high watermark, or of a transaction of
// which nobody knows how it ends.
func TestWhatIsNotStableIsNotCleaned(t *testing.T) {
	opts := compacted
	opts.Replicated = true
	l := openLog(t, t.TempDir(), opts)
	uncleanable := func() int64 {
		d, err := l.Dirtiness()
		require.NoError(t, err)
		return d.FirstUncleanable
	}
	for o := range int64(6) {
		_, err := l.AppendReplicated(keyedBatch(t, o, "k", "v"), nil)
		require.NoError(t, err)
		rollLog(t, l)
	}
	require.EqualValues(t, 0, uncleanable())
	l.SetHighWatermark(4)
	require.EqualValues(t, 4, uncleanable(), "349: the high watermark")
	l.SetHighWatermark(6)
	require.EqualValues(t, 6, uncleanable(), "349: the active segment")
	_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: 6, Producer: &record.Producer{ID: 1}, Transactional: true},
		seglog.Record{Offset: 6, Key: []byte("k"), Value: []byte("v")}), nil)
	require.NoError(t, err)
	rollLog(t, l)
	l.SetHighWatermark(7)
	require.EqualValues(t, 6, uncleanable(), "352: the transaction is open")
	_, err = l.EndTransaction(seglog.Producer{ID: 1}, seglog.Commit, nil)
	require.NoError(t, err)
	rollLog(t, l)
	require.EqualValues(t, 6, uncleanable(), "352: how it ends is not known to all")
	l.SetHighWatermark(8)
	require.EqualValues(t, 8, uncleanable(), "352: it is")
}

// A compacted log seals its segments when max.compaction.lag.ms has passed, if segment.ms
// is longer: what is in the active segment is not compacted. One that is not does not.
func TestACompactedLogRollsByItsLag(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy seglog.CleanupPolicy
		lag    time.Duration
		age    time.Duration
		jitter time.Duration
		want   []int64
	}{
		{"the lag is shorter", seglog.CleanupCompact, time.Hour, 24 * time.Hour, 0, []int64{0, 2}},
		{"and things are deleted, too", seglog.CleanupCompactDelete, time.Hour, 24 * time.Hour, 0, []int64{0, 2}},
		{"less than the jitter", seglog.CleanupCompact, time.Hour, 24 * time.Hour, 24 * time.Hour, nil},
		{"the age is shorter", seglog.CleanupCompact, 24 * time.Hour, time.Hour, 0, []int64{0, 2}},
		{"no lag", seglog.CleanupCompact, 0, 24 * time.Hour, 0, []int64{0}},
		{"not compacted", seglog.CleanupDelete, time.Hour, 24 * time.Hour, 0, []int64{0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			opts := compacted
			opts.CleanupPolicy, opts.MaxCompactionLag, opts.SegmentAge, opts.SegmentJitter = row.policy, row.lag, row.age, row.jitter
			l := openLog(t, t.TempDir(), opts)
			for _, at := range []time.Duration{0, time.Hour, time.Hour + time.Millisecond} {
				_, err := l.Append([]seglog.Record{{Timestamp: 1000 + at.Milliseconds(), Key: []byte("k"), Value: []byte("v")}}, nil)
				require.NoError(t, err)
			}
			if row.want == nil { // when is for the jitter to say, but not at once
				put(t, l, "k", "v")
				require.Less(t, len(bases(t, l)), 4)
				return
			}
			require.Equal(t, row.want, bases(t, l))
		})
	}
}

// K011: aborted batches of any size, of which nothing is mapped, do not stop a pass.
func TestLargeAbortedBatchesArePassed_K011(t *testing.T) {
	h := newHistory(t)
	big := make([]byte, 700<<10)
	for range 3 {
		_, err := h.log.Append([]seglog.Record{{Key: []byte("big"), Value: big}}, &seglog.AppendOptions{
			Producer: &seglog.Producer{ID: 1, Sequence: sequenceOf(t, h.log, 1), Transactional: true}})
		require.NoError(t, err)
		h.run("abort:1")
	}
	h.run("d:k clean")
	records, _ := h.offsets()
	require.Equal(t, []int64{1, 3, 5, 6}, records)
	h.run("twice")
	records, ends := h.offsets()
	require.Equal(t, []int64{5, 6}, records)
	require.Equal(t, []int64{4, 5, 6}, ends, "where the producer is is kept")
	closeLog(t, h.log)
	requireSound(t, h.dir)
}
