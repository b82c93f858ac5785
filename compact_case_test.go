package seglog_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// A history is words: pN:a,b is data of producer N, tN:a,b of a transaction of his, rN:a,b
// the same as a coordinator writes it, with sequences from 0 each time, d:a,b of nobody;
// "a-" is a tombstone. commit:N and abort:N are markers, | is a roll. "clean" rolls and
// compacts everything, "sealed" without the roll, and "twice" sets horizons and comes
// again when they have passed.
type history struct {
	t    *testing.T
	log  *seglog.Log
	dir  string
	now  int64
	opts seglog.Options
}

func newHistory(t *testing.T) *history {
	h := &history{t: t, dir: t.TempDir(), now: 1_000_000, opts: compacted}
	h.opts.DeleteRetention, h.opts.ProducerIDExpiration, h.opts.SegmentAge = 10*time.Second, math.MaxInt64, math.MaxInt64
	h.log = openLog(t, h.dir, h.opts)
	return h
}

func (h *history) run(text string) *history {
	h.t.Helper()
	for _, word := range strings.Fields(text) {
		switch kind, rest, _ := strings.Cut(word, ":"); {
		case word == "|":
			rollLog(h.t, h.log)
		case word == "clean":
			h.clean(0)
		case word == "sealed":
			h.sealed()
		case word == "twice":
			h.clean(0)
			h.clean(10_000)
		case kind == "commit", kind == "abort":
			h.end(rest, map[string]seglog.TransactionResult{"commit": seglog.Commit, "abort": seglog.Abort}[kind])
		default:
			h.data(kind, rest)
		}
	}
	return h
}

func (h *history) clean(later int64) {
	h.t.Helper()
	rollLog(h.t, h.log)
	h.now += later
	h.sealed()
}

func (h *history) sealed() {
	h.t.Helper()
	compact(h.t, h.log, &seglog.CompactOptions{Full: true, Now: time.UnixMilli(h.now)})
}

func (h *history) end(id string, result seglog.TransactionResult) {
	h.t.Helper()
	_, err := h.log.EndTransaction(seglog.Producer{ID: producerOf(id)}, result, nil)
	require.NoError(h.t, err)
}

func producerOf(id string) (n int64) {
	_, _ = fmt.Sscan(id, &n)
	return n
}

// data appends a batch: "t3" is of a transaction of producer 3, "p3" of the producer
// without one, "d" of nobody.
func (h *history) data(who, keys string) {
	h.t.Helper()
	var records []seglog.Record
	for _, k := range strings.Split(keys, ",") {
		records = append(records, kv(strings.TrimSuffix(k, "-"), map[bool]string{true: "", false: "v"}[strings.HasSuffix(k, "-")]))
	}
	var opts seglog.AppendOptions
	if who[0] == 'r' {
		base := h.log.Offsets().End
		for i := range records {
			records[i].Offset = base + int64(i)
		}
		_, err := h.log.AppendReplicated(batchAt(h.t, record.BuilderOptions{
			BaseOffset: base, Producer: &record.Producer{ID: producerOf(who[1:])}, Transactional: true}, records...), nil)
		require.NoError(h.t, err)
		return
	}
	if who != "d" {
		id := producerOf(who[1:])
		opts.Producer = &seglog.Producer{ID: id, Sequence: sequenceOf(h.t, h.log, id), Transactional: who[0] == 't'}
	}
	_, err := h.log.Append(records, &opts)
	require.NoError(h.t, err)
}

// offsets are those of the data records that are left in sealed segments, ends the
// last offsets of all batches.
func (h *history) offsets() (records, ends []int64) {
	h.t.Helper()
	records, ends = []int64{}, []int64{}
	for b, err := range h.log.Batches(h.t.Context(), h.log.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(h.t, err)
		ends = append(ends, b.LastOffset())
		for r, err := range b.Records(nil) {
			require.NoError(h.t, err)
			records = append(records, r.Offset)
		}
	}
	return records, ends
}

func (h *history) aborted() (n int) {
	paths, err := filepath.Glob(filepath.Join(h.dir, "*.txnindex"))
	require.NoError(h.t, err)
	for _, p := range paths {
		n += int(fileSize(h.t, p) / 34)
	}
	return n
}

// Rows 301 to 317: LogCleanerTest.scala. Markers count as records. What an active
// segment holds counts, too, so each history ends in a clean, which rolls.
func TestBatchesAndMarkersStayAsLongAsTheyAreNeeded(t *testing.T) {
	for _, row := range []struct {
		name          string
		history       string
		records, ends []int64
		aborted       int // entries in transaction indexes
	}{
		{"301: last sequences", "p1:1,2,3 p2:3,1,4 p3:1,4 clean", []int64{1, 3, 6, 7}, []int64{2, 5, 7}, 0},
		{"302: and of a batch that is empty", "p1:1,2,3 p2:3,1,4 p3:1,4 clean p4:2 clean", []int64{3, 6, 7, 8}, []int64{2, 5, 7, 8}, 0},
		{"304: transactions that interleave", "t1:1,2 t2:2,3 t1:3,4 abort:1 commit:2 t1:2 commit:1 clean",
			[]int64{3, 6, 7, 8, 9}, []int64{3, 6, 7, 8, 9}, 1},
		{"305: over two segments, the first cleaned", "t1:1,2 t3:2,3 t2:3,4 | t2:5,6 t3:6,7 t1:7,8 abort:2 t3:8,9 commit:3 t1:9,10 abort:1 sealed",
			[]int64{2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, []int64{3, 5, 7, 9, 11, 12, 14, 15, 17, 18}, 2},
		{"305: then the second", "t1:1,2 t3:2,3 t2:3,4 | t2:5,6 t3:6,7 t1:7,8 abort:2 t3:8,9 commit:3 t1:9,10 abort:1 sealed | t2:11 t1:12 sealed",
			[]int64{2, 3, 8, 9, 12, 13, 14, 15, 18, 19, 20}, []int64{3, 9, 12, 14, 15, 18, 19, 20}, 2},
		{"306: a commit marker, its data there", "t1:1 t1:2,3 commit:1 t1:2 commit:1 clean", []int64{0, 2, 3, 4, 5}, []int64{0, 2, 3, 4, 5}, 0},
		{"306: its data gone", "t1:1 t1:2,3 commit:1 t1:2 commit:1 clean t1:1,3 commit:1 clean", []int64{3, 4, 5, 6, 7, 8}, []int64{3, 4, 5, 7, 8}, 0},
		{"306: its time come", "t1:1 t1:2,3 commit:1 t1:2 commit:1 clean t1:1,3 commit:1 clean twice", []int64{4, 5, 6, 7, 8}, []int64{4, 5, 7, 8}, 0},
		{"307: a batch of which nothing is read", "t1:1 abort:1 t1:2 t1:2 commit:1 clean", []int64{1, 3, 4}, []int64{1, 3, 4}, 1},
		{"307: its marker's time come", "t1:1 abort:1 t1:2 t1:2 commit:1 clean twice", []int64{3, 4}, []int64{3, 4}, 0},
		{"308: a commit marker and an empty batch", "t1:2,3 | t2:2,3 commit:2 | d:2 d:3 commit:1 clean", []int64{4, 5, 6, 7}, []int64{1, 3, 4, 5, 6, 7}, 0},
		{"308: cleaned again", "t1:2,3 | t2:2,3 commit:2 | d:2 d:3 commit:1 clean clean", []int64{4, 5, 6, 7}, []int64{1, 3, 4, 5, 6, 7}, 0},
		{"308: after newer data", "t1:2,3 | t2:2,3 commit:2 | d:2 d:3 commit:1 clean t2:1 commit:2 clean",
			[]int64{4, 5, 6, 7, 8, 9}, []int64{1, 4, 5, 6, 7, 8, 9}, 0},
		{"308: its time come", "t1:2,3 | t2:2,3 commit:2 | d:2 d:3 commit:1 clean t2:1 commit:2 clean twice",
			[]int64{5, 6, 7, 8, 9}, []int64{1, 5, 6, 7, 8, 9}, 0},
		{"309: a marker of nothing", "commit:1 d:2 d:3 twice", []int64{1, 2}, []int64{0, 1, 2}, 0},
		{"309: an empty marker", "commit:1 d:2 d:3 twice clean", []int64{1, 2}, []int64{0, 1, 2}, 0},
		{"310: over two segments", "t1:1 | commit:1 twice", []int64{0, 1}, []int64{0, 1}, 0},
		{"311: aborted over two segments", "t1:1 | abort:1 twice", []int64{1}, []int64{0, 1}, 1},
		{"312: an abort marker", "t1:1 t1:2,3 abort:1 t1:3 commit:1 clean", []int64{3, 4, 5}, []int64{3, 4, 5}, 1},
		{"312: its time come", "t1:1 t1:2,3 abort:1 t1:3 commit:1 clean twice", []int64{4, 5}, []int64{4, 5}, 0},
		{"313: sequences that are used again", "r1:1 commit:1 r1:2 commit:1 d:1 d:2 clean", []int64{1, 3, 4, 5}, []int64{1, 2, 3, 4, 5}, 0},
		{"313: their time come", "r1:1 commit:1 r1:2 commit:1 d:1 d:2 clean twice", []int64{3, 4, 5}, []int64{2, 3, 4, 5}, 0},
		{"314: an abort marker and an empty batch", "t1:2,3 abort:1 clean", []int64{2}, []int64{1, 2}, 1},
		{"314: after newer data", "t1:2,3 abort:1 clean p1:1 clean", []int64{2, 3}, []int64{2, 3}, 1},
		{"314: its time come", "t1:2,3 abort:1 clean p1:1 clean twice", []int64{3}, []int64{3}, 0},
		{"315: last sequences of those who are superseded", "p1:0 p2:0 p3:0 p2:1 d:0 clean", []int64{3, 4}, []int64{0, 2, 3, 4}, 0},
		{"316: after an abort", "t1:1 t1:2,3 abort:1 clean", []int64{3}, []int64{2, 3}, 1},
		{"316: and then data", "t1:1 t1:2,3 abort:1 clean p1:1,5 clean", []int64{3, 4, 5}, []int64{3, 5}, 1},
		{"a tombstone and a value in one batch", "d:1-,2 twice", []int64{1}, []int64{1}, 0},
		{"321: everything is obsolete", "d:1-,2- twice", []int64{}, []int64{1}, 0},
		{"321: in three segments", "d:1- | d:2- | d:3- twice", []int64{}, []int64{2}, 0},
		{"326: values that were deleted", "d:0 d:1 d:2 d:3 | d:0- d:2- | d:4 d:5 | d:6 twice", []int64{1, 3, 6, 7, 8}, []int64{1, 3, 6, 7, 8}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHistory(t).run(row.history)
			records, ends := h.offsets()
			require.Equal(t, row.records, records)
			require.Equal(t, row.ends, ends)
			require.Equal(t, row.aborted, h.aborted())
			end := h.log.Offsets().End
			h.log = reopen(t, h.log, h.opts)
			require.Equal(t, end, h.log.Offsets().End)
			closeLog(t, h.log)
			requireSound(t, h.dir)
		})
	}
}

// K004, row 317: the key of a marker is no key of a record.
func TestAKeyLikeAMarkersSupersedesNoMarker(t *testing.T) {
	h := newHistory(t)
	h.run("t7:a commit:7")
	_, err := h.log.Append([]seglog.Record{{Key: []byte{0, 0, 0, 1}, Value: []byte("v"), Timestamp: 1}}, nil)
	require.NoError(t, err)
	h.run("twice")
	records, _ := h.offsets()
	require.Equal(t, []int64{0, 1, 2}, records)
}

// K005: what is known of a transaction is known across groups of segments.
func TestAMarkerStaysThoughItsDataIsInAnotherGroup(t *testing.T) {
	h := newHistory(t)
	h.opts.SegmentBytes = 300
	h.log = reopen(t, h.log, h.opts)
	h.run("t7:first")
	for i := range 50 {
		h.run(fmt.Sprint("d:filler", i))
	}
	h.run("commit:7 twice")
	require.Greater(t, len(bases(t, h.log)), 5)
	records, _ := h.offsets()
	require.Contains(t, records, int64(0))
	require.Contains(t, records, int64(51), "the marker")
}

// K006, K007: header-only batches keep what a producer needs, and where a segment
// ends.
func TestTheLastBatchOfAProducerIsKeptWithoutRecords_K006(t *testing.T) {
	h := newHistory(t).run("p1:a p1:a p2:a p3:a d:a clean")
	closeLog(t, h.log)
	stored := batchesOf(t, h.dir, 0)
	require.Len(t, stored, 4)
	for i, b := range stored[:3] {
		require.EqualValues(t, i+1, b.BaseOffset())
		require.Equal(t, 61, b.Size())
		require.EqualValues(t, 0, b.Count())
		require.EqualValues(t, 0, b.LastOffsetDelta())
		require.EqualValues(t, -1, b.BaseTimestamp())
		require.EqualValues(t, 1000, b.MaxTimestamp())
		require.EqualValues(t, []int32{1, 0, 0}[i], b.BaseSequence())
	}
	snapshots, err := filepath.Glob(filepath.Join(h.dir, "*.snapshot"))
	require.NoError(t, err)
	for _, p := range snapshots {
		require.NoError(t, os.Remove(p))
	}
	removeState(t, h.dir)
	h.log = openLog(t, h.dir, h.opts)
	require.EqualValues(t, 2, sequenceOf(t, h.log, 1))
	h.run("p1:b p2:b p3:b")
	requireSoundSegment(t, h.dir, 0)
}

// K008: a control batch without records is a marker that was cleaned.
func TestAnEmptyControlBatchChangesNothing_K008(t *testing.T) {
	dir := t.TempDir()
	empty := record.AppendEmptyBatch(nil, record.BatchHeader{
		BaseOffset: 1, LeaderEpoch: 0, Attributes: 0x30, MaxTimestamp: 1, ProducerID: 7, ProducerEpoch: 0, BaseSequence: -1,
	})
	writeLog(t, dir, 0, keyedBatch(t, 0, "a", "v"), empty, keyedBatch(t, 2, "a", "w"))
	l := openLog(t, dir, compacted)
	rollLog(t, l)
	compact(t, l, nil)
	require.Equal(t, []string{"2 a=w"}, contents(t, l))
	l = reopen(t, l, compacted)
	require.Equal(t, []string{"2 a=w"}, contents(t, l))
}

// keyedBatch is a batch of one record.
func keyedBatch(t tb, offset int64, key, value string) []byte {
	r := kv(key, value)
	r.Offset = offset
	return batchAt(t, record.BuilderOptions{BaseOffset: offset}, r)
}

// K009: where the log ends is known though nothing is left, not even the active
// segment.
func TestOffsetsOfALogThatWasCleanedAwayAreNotGivenOutAgain_K009(t *testing.T) {
	h := newHistory(t)
	for range 10 {
		h.run("d:k")
	}
	h.run("d:k- twice")
	records, ends := h.offsets()
	require.Empty(t, records)
	require.Equal(t, []int64{10}, ends)
	closeLog(t, h.log)
	for _, suffix := range []string{".log", ".index", ".timeindex"} {
		require.NoError(t, os.Remove(segmentFile(h.dir, 11, suffix)))
	}
	removeState(t, h.dir)
	h.log = openLog(t, h.dir, h.opts)
	require.EqualValues(t, 11, h.log.Offsets().End)
	h.run("d:k")
	require.Equal(t, []string{"11 k=v"}, contents(t, h.log))
}

// K001, rows 318, 319, 333: a map that gets full ends the pass, not the compaction.
func TestAPassEndsWhereTheMapIsFull_K001(t *testing.T) {
	l := openLog(t, t.TempDir(), compacted)
	var want []string
	for i := range 20 {
		put(t, l, fmt.Sprint("k", i), "v")
		want = append(want, fmt.Sprintf("%d k%d=v", i, i))
	}
	rollLog(t, l)
	dry := compact(t, l, &seglog.CompactOptions{MapBytes: 240, DryRun: true})
	require.EqualValues(t, 9, dry.FirstDirty, "nine keys fit ten slots")
	require.Equal(t, 9, dry.Keys)
	require.Equal(t, 0.9, dry.MapFill)
	res := compact(t, l, &seglog.CompactOptions{MapBytes: 240})
	require.Equal(t, 3, res.Passes)
	require.EqualValues(t, 20, res.FirstDirty)
	require.Equal(t, want, contents(t, l))
}

func TestAPartOfASegmentIsCleaned_318(t *testing.T) {
	l := openLog(t, t.TempDir(), compacted)
	for i := range 5 {
		put(t, l, fmt.Sprint("k", i%2), "v")
	}
	rollLog(t, l)
	// With room for one key each pass goes one key further.
	res := compact(t, l, &seglog.CompactOptions{MapBytes: 2 * 24})
	require.Equal(t, []string{"3 k1=v", "4 k0=v"}, contents(t, l))
	require.Greater(t, res.Passes, 2)
}

// K010, rows 323, 324: a batch may be larger than anything that is allowed now.
func TestABatchLargerThanTheLimitIsCleaned_K010(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, compacted)
	big := strings.Repeat("v", 1<<20)
	put(t, l, "k", "old")
	_, err := l.Append([]seglog.Record{kv("big", big[:1<<19]), kv("k", "new")}, nil)
	require.NoError(t, err)
	rollLog(t, l)
	opts := compacted
	opts.MaxMessageBytes = 1 << 10
	l = reopen(t, l, opts)
	compact(t, l, nil)
	require.Equal(t, []int64{1, 2}, offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, dir)
}

// K002, K010, row 325: damage ends a compaction, is named, and stays where it is.
func TestDamageIsNotCleaned_K002(t *testing.T) {
	for _, row := range []struct {
		name   string
		damage func(data []byte) []byte
	}{
		{"a flipped bit", func(data []byte) []byte { data[len(data)-3] ^= 1; return data }},
		{"an unknown magic", func(data []byte) []byte { data[len(data)/2/2+16] = 0xff; return data }},
		{"a size that is not there", func(data []byte) []byte {
			copy(data[8:], []byte{0x40, 0, 0, 0})
			return data
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir, compacted)
			for i := range 4 {
				put(t, l, "k", fmt.Sprint("v", i))
			}
			rollLog(t, l)
			closeLog(t, l)
			edit(t, segmentFile(dir, 0, ".log"), row.damage)
			before := logFiles(t, dir)
			l = openLog(t, dir, compacted)
			_, err := l.Compact(t.Context(), nil)
			var damage *seglog.CorruptionError
			require.ErrorAs(t, err, &damage)
			require.EqualValues(t, 0, damage.BaseOffset)
			require.Equal(t, before, logFiles(t, dir))
			d, err := l.Dirtiness()
			require.NoError(t, err)
			require.ErrorAs(t, d.Uncleanable, &damage)
			require.Zero(t, d.FirstDirty)
		})
	}
}

// A log that lost its transaction index has it made anew before it is cleaned: aborted
// records would pass for good ones otherwise.
func TestALogWithoutItsTransactionIndexIsCleanedAllTheSame(t *testing.T) {
	h := newHistory(t).run("d:a t1:a abort:1 d:b |")
	closeLog(t, h.log)
	require.NoError(t, os.Remove(segmentFile(h.dir, 0, ".txnindex")))
	h.log = openLog(t, h.dir, h.opts)
	res := compact(t, h.log, nil)
	require.EqualValues(t, 1, res.Aborted)
	require.Equal(t, []string{"0 a=v", "3 b=v"}, contents(t, h.log))
}

// K012: two segments that are far apart do not become one.
func TestSegmentsThatAreFarApartStayTwo_K012(t *testing.T) {
	dir := t.TempDir()
	const far = 1 << 31
	writeLog(t, dir, 0, keyedBatch(t, 0, "a", "v"))
	writeLog(t, dir, far, keyedBatch(t, far, "b", "v"))
	writeLog(t, dir, far+10, keyedBatch(t, far+10, "c", "v"))
	l := openLog(t, dir, compacted)
	compact(t, l, nil)
	require.Equal(t, []int64{0, far, far + 10}, bases(t, l))
	require.Equal(t, []int64{0, far, far + 10}, offsetsOf(readAll(t, l, 0)))
}

// K015: a first dirty offset in a gap, and one in the active segment.
func TestAFirstDirtyOffsetInAGapIsPassed_K015(t *testing.T) {
	for _, row := range []struct {
		checkpoint int64
		passes     int
		want       int64
	}{{45, 1, 50}, {53, 0, 53}} {
		dir := filepath.Join(t.TempDir(), "topic-0")
		writeLog(t, dir, 0, keyedBatch(t, 40, "a", "v"))
		writeLog(t, dir, 50, keyedBatch(t, 50, "b", "v"), keyedBatch(t, 55, "b", "v"))
		writeFile(t, filepath.Join(filepath.Dir(dir), "recovery-point-offset-checkpoint"), []byte("0\n1\ntopic 0 56\n"))
		writeFile(t, filepath.Join(filepath.Dir(dir), "cleaner-offset-checkpoint"), fmt.Appendf(nil, "0\n1\ntopic 0 %d\n", row.checkpoint))
		l := openLog(t, dir, compacted)
		res := compact(t, l, nil)
		require.Equal(t, row.passes, res.Passes)
		require.Equal(t, row.want, res.FirstDirty)
		require.Zero(t, compact(t, l, nil).Passes)
	}
}

// K018, row 320: records without a key go; a key of no bytes is a key.
func TestRecordsWithoutAKeyGo_K018(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, compacted)
	_, err := l.Append([]seglog.Record{{Value: []byte("v")}}, nil)
	require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	closeLog(t, l)
	plain := func(offset int64, key []byte) []byte {
		return batchAt(t, record.BuilderOptions{BaseOffset: offset}, seglog.Record{Offset: offset, Key: key, Value: []byte("v")})
	}
	dir = t.TempDir()
	writeLog(t, dir, 0, legacyMessage(1, 0, 5, 0, nil, []byte("v")), plain(1, nil), plain(2, []byte{}), plain(3, []byte{}), plain(4, nil))
	l = openLog(t, dir, compacted)
	rollLog(t, l)
	res := compact(t, l, nil)
	require.EqualValues(t, 3, res.Keyless)
	require.EqualValues(t, 1, res.Superseded)
	require.Equal(t, []int64{3}, offsetsOf(readAll(t, l, 0)))
	l = reopen(t, l, compacted)
	require.EqualValues(t, 5, l.Offsets().End)
}

// K017: ApplyRetention removes what lies below the log start of a compacted log.
func TestRetentionOfACompactedLogRemovesWhatLiesBelowTheStart_K017(t *testing.T) {
	opts := compacted
	opts.RetentionBytes, opts.RetentionTime = 1, 1
	l := openLog(t, t.TempDir(), opts)
	for i := range 4 {
		put(t, l, "k", fmt.Sprint(i))
		rollLog(t, l)
	}
	require.NoError(t, l.DeleteBefore(2))
	_, err := l.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3, 4}, bases(t, l))
}

// K125, K126, row 338: legacy messages keep their format, and wrappers the offsets of
// what is left in them.
func TestLegacyMessagesAreCleaned_K126(t *testing.T) {
	inner := func(magic byte, offsets ...int64) []byte {
		var data []byte
		for i, o := range offsets {
			data = append(data, legacyMessage(magic, o, 100+int64(i), 0, fmt.Append(nil, "k", i%3), fmt.Append(nil, "v", i))...)
		}
		return data
	}
	dir := t.TempDir()
	writeLog(t, dir, 0,
		legacyMessage(0, 0, 0, 0, []byte("k9"), []byte("v")),
		legacyMessage(0, 14, 0, 1, nil, gzipped(t, inner(0, 10, 11, 12, 14))),
		legacyMessage(1, 30, 103, 1, nil, gzipped(t, inner(1, 0, 1, 2, 10))),
		keyedBatch(t, 31, "k1", "new"),
		legacyMessage(1, 32, 7, 0, []byte("k9"), nil),
		keyedBatch(t, 33, "last", "v"))
	l := openLog(t, dir, compacted)
	rollLog(t, l)
	compact(t, l, nil)
	require.Equal(t, []string{"22 k2=v2", "30 k0=v3", "31 k1=new", "32 k9=null", "33 last=v"}, contents(t, l))
	closeLog(t, l)
	stored := batchesOf(t, dir, 0)
	require.EqualValues(t, 1, stored[0].Magic())
	require.Equal(t, record.Gzip, stored[0].Codec())
	require.EqualValues(t, 30, stored[0].LastOffset())
	require.EqualValues(t, 103, stored[0].MaxTimestamp())
	requireSound(t, dir)
}

// What is not touched is copied byte for byte, leader epoch and all, and a segment in
// which there is nothing to do stays the file it is.
func TestWhatLosesNothingIsCopiedByteForByte(t *testing.T) {
	dir := t.TempDir()
	gone := keyedBatch(t, 0, "a", "old")
	stays := batchAt(t, record.BuilderOptions{BaseOffset: 1, LeaderEpoch: 5, Codec: record.Zstd}, seglog.Record{Offset: 1, Key: []byte("b"), Value: []byte("v")})
	newer := keyedBatch(t, 2, "a", "new")
	writeLog(t, dir, 0, gone, stays, newer)
	writeLog(t, dir, 3, keyedBatch(t, 3, "c", "v"))
	opts := compacted
	opts.SegmentBytes = 250
	l := openLog(t, dir, opts)
	rollLog(t, l)
	before := traces(t, dir)
	compact(t, l, nil)
	require.Equal(t, string(slices.Concat(stays, newer)), string(readFile(t, segmentFile(dir, 0, ".log"))))
	after := traces(t, dir)
	first, second := "00000000000000000000.log", "00000000000000000003.log"
	require.Equal(t, before[first].info.ModTime().UnixMilli(), after[first].info.ModTime().UnixMilli())
	require.True(t, os.SameFile(before[second].info, after[second].info), "it was written anew")
}

// K016: a first dirty offset outside of the log is put right, once.
func TestAFirstDirtyOffsetOutsideOfTheLogIsReset_K016(t *testing.T) {
	h := newHistory(t).run("d:a,b,c,d | d:a,b,c,d | d:a clean d:a |")
	d, err := h.log.Dirtiness()
	require.NoError(t, err)
	require.EqualValues(t, 9, d.FirstDirty)
	require.NoError(t, h.log.DeleteBefore(10))
	d, err = h.log.Dirtiness()
	require.NoError(t, err)
	require.EqualValues(t, 10, d.FirstDirty)
	require.False(t, d.Due)
	require.Zero(t, compact(t, h.log, nil).Passes)
	// Truncation takes it along (row 353).
	h.run("d:b | d:c clean")
	require.NoError(t, h.log.TruncateTo(11))
	d, err = h.log.Dirtiness()
	require.NoError(t, err)
	require.EqualValues(t, 11, d.FirstDirty)
}

func TestOnlyACompactedLogIsCompacted(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	_, err := l.Compact(t.Context(), nil)
	require.ErrorIs(t, err, seglog.ErrOption)
	c := openLog(t, t.TempDir(), compacted)
	c.PauseCompaction()
	c.PauseCompaction()
	c.ResumeCompaction()
	_, err = c.Compact(t.Context(), nil)
	require.ErrorIs(t, err, seglog.ErrCompactionPaused)
	c.ResumeCompaction()
	compact(t, c, nil)
}

// On systems that do not rename what is open it works just as well.
func TestCompactionOnADiskThatKeepsOpenFiles(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{WindowsLike: true})
	opts := compactableOptions(disk)
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	for i := range 50 {
		put(t, l, fmt.Sprint("k", i%3), fmt.Sprint("value ", i))
	}
	rollLog(t, l)
	compact(t, l, nil)
	require.Equal(t, []string{"47 k2=value 47", "48 k0=value 48", "49 k1=value 49"}, contents(t, l))
	require.NoError(t, l.Close())
	require.Zero(t, disk.Open()+disk.Mapped())
}

// A batch with append time keeps its flag and its time, whatever is taken out of it.
func TestAppendTimeSurvivesCompaction(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		dir := t.TempDir()
		l := openLog(t, dir, compacted)
		records := []seglog.Record{}
		for i, key := range []string{"a", "b", "a", "c"} {
			records = append(records, seglog.Record{Offset: int64(i), Timestamp: 1000 + int64(10*i), Key: []byte(key), Value: []byte("v")})
		}
		_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{Codec: codec, TimestampType: record.LogAppendTime, LogAppendTime: 5000}, records...), nil)
		require.NoError(t, err)
		put(t, l, "c", "newer")
		rollLog(t, l)
		compact(t, l, nil)
		require.Equal(t, []string{"1 b=v", "2 a=v", "4 c=newer"}, contents(t, l))
		for range 2 {
			for _, r := range readAll(t, l, 0)[:2] {
				require.Equal(t, int64(5000), r.Timestamp)
			}
			require.Equal(t, int64(1), offsetForTime(t, l, 4999))
			first := batchesOf(t, dir, 0)[0]
			require.Equal(t, record.LogAppendTime, first.TimestampType())
			require.Equal(t, int64(5000), first.MaxTimestamp())
			require.Equal(t, codec, first.Codec())
			l = reopen(t, l, compacted)
		}
	}
}
