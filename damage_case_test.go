package seglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// One bit of a last offset delta is flipped, and compaction has taken the record that
// is asked for from the last place of the batch behind: Get steps over the damage, and
// must not come back to it.
func TestALookUpThatSteppedOverDamageGoesOn(t *testing.T) {
	dir := copyDir(t, filepath.Join("testdata", "kafka", "4.3.1", "compacted-txn-0"), filepath.Join(t.TempDir(), "compacted-txn-0"))
	name := segmentFile(dir, 60, ".log")
	content := readFile(t, name)
	content[439+23] ^= 1
	writeFile(t, name, content)
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	clean := openLog(t, filepath.Join("testdata", "kafka", "4.3.1", "compacted-txn-0"), seglog.Options{ReadOnly: true})
	for offset := l.Offsets().Start; offset < l.Offsets().End; offset++ {
		want, wantErr := clean.Get(offset)
		got, err := l.Get(offset)
		if errors.Is(err, seglog.ErrCorrupt) {
			continue
		}
		require.Equal(t, want, got, "offset %d", offset)
		require.Equal(t, wantErr, err, "offset %d", offset)
	}
}

// offsetLog is a closed log of twenty records, a batch each, in a sealed segment,
// and one more in an active one.
func offsetLog(t *testing.T) (dir string, sealed []byte) {
	l := openLog(t, t.TempDir(), quick)
	for i := range 20 {
		appendEach(t, l, one(int64(100+i), fmt.Sprintf("v%02d", i)))
	}
	_, err := l.Roll()
	require.NoError(t, err)
	appendEach(t, l, one(120, "v20"))
	closeLog(t, l)
	return l.Dir(), readFile(t, segmentFile(l.Dir(), 0, ".log"))
}

// The base offset is not under the checksum. Every way of reading tells of one that
// its neighbours contradict, and loses no more than that batch.
func TestAChangedBaseOffsetIsToldByEveryRead(t *testing.T) {
	dir, content := offsetLog(t)
	size := len(content) / 20
	for _, victim := range []int{0, 5, 19} {
		for bit := range 64 {
			bad := append([]byte(nil), content...)
			bad[victim*size+7-bit/8] ^= 1 << (bit % 8)
			writeFile(t, segmentFile(dir, 0, ".log"), bad)
			what := fmt.Sprintf("batch %d bit %d", victim, bit)
			l := openLog(t, dir, seglog.Options{ReadOnly: true})
			checkChanged(t, l, victim, victim*size, what)
			closeLog(t, l)
		}
	}
}

func checkChanged(t *testing.T, l *seglog.Log, victim, position int, what string) {
	requireDamageAt := func(err error) {
		t.Helper()
		var damage *seglog.CorruptionError
		require.ErrorAs(t, err, &damage, what)
		require.Equal(t, "00000000000000000000.log", damage.File, what)
		require.Equal(t, int64(position), damage.Position, what)
		require.ErrorContains(t, err, "want", what)
	}
	skip := &seglog.IterOptions{SkipDamaged: true}
	var records, batches []int64
	told := 0
	for r, err := range l.Records(t.Context(), 0, skip) {
		if err != nil {
			requireDamageAt(err)
			told++
			continue
		}
		require.Equal(t, fmt.Sprintf("v%02d", r.Offset), string(r.Value), what)
		records = append(records, r.Offset)
	}
	for b, err := range l.Batches(t.Context(), 0, skip) {
		if err != nil {
			requireDamageAt(err)
			told++
			continue
		}
		batches = append(batches, b.BaseOffset())
	}
	want := spans(span(0, int64(victim)-1), span(int64(victim)+1, 20))
	require.Equal(t, want, records, what)
	require.Equal(t, want, batches, what)
	require.Equal(t, 2, told, what)
	var buf []byte
	for offset := range int64(21) {
		r, grown, err := l.GetBuffer(offset, buf)
		buf = grown
		at, found, timeErr := l.OffsetForTime(100 + offset)
		res, readErr := l.Read(offset, 1, nil)
		if offset == int64(victim) {
			requireDamageAt(err)
			requireDamageAt(readErr)
			// Headers before it may have been all that was read.
			if timeErr == nil {
				require.Equal(t, seglog.TimestampOffset{Timestamp: 101 + offset, Offset: offset + 1}, at, what)
			}
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, fmt.Sprintf("v%02d", offset), string(r.Value), what)
		require.NoError(t, readErr, what)
		require.Equal(t, offset+1, res.NextOffset, what)
		if timeErr != nil {
			requireDamageAt(timeErr)
			continue
		}
		require.True(t, found, what)
		require.Equal(t, seglog.TimestampOffset{Timestamp: 100 + offset, Offset: offset}, at, what)
	}
	res, err := l.Read(0, 1<<20, nil)
	if victim == 0 {
		requireDamageAt(err)
		return
	}
	require.NoError(t, err, what)
	require.Equal(t, int64(victim), res.NextOffset, what)
	_, err = l.Read(res.NextOffset, 1<<20, nil)
	requireDamageAt(err)
}

// Compaction leaves gaps, and a batch that is moved within one contradicts nothing.
func TestABaseOffsetThatMovesWithinAGapCannotBeTold(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 0, plainBatch(t, 0, 0), plainBatch(t, 9, 9), plainBatch(t, 20, 20))
	writeLog(t, dir, 30, plainBatch(t, 30, 30))
	name := segmentFile(dir, 0, ".log")
	content := readFile(t, name)
	content[len(plainBatch(t, 0, 0))+7] ^= 1 // 9 becomes 8
	writeFile(t, name, content)
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	found, damage := offsetsFrom(t, l, 0)
	require.Equal(t, []int64{0, 8, 20, 30}, found)
	require.Empty(t, damage)
}

// Whatever bits are flipped, no read hangs, and none gives a record that is not what
// was appended under that offset.
func TestNoReadOfADamagedLogGivesAWrongRecordOrNeverEnds(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 2000, IndexIntervalBytes: 150})
	const end = 150
	value := func(offset int64) string { return fmt.Sprint("value of ", offset) }
	rd := rand.New(rand.NewPCG(1, 2))
	for l.Offsets().End < end {
		var records []seglog.Record
		for range 1 + rd.IntN(4) {
			records = append(records, one(1000, value(l.Offsets().End+int64(len(records)))))
		}
		_, err := l.Append(records, nil)
		require.NoError(t, err)
	}
	closeLog(t, l)
	logs, err := filepath.Glob(filepath.Join(l.Dir(), "*.log"))
	require.NoError(t, err)
	require.Greater(t, len(logs), 3)
	logs = logs[:len(logs)-1] // nothing is behind the last one
	for seed := range uint64(300) {
		rd := rand.New(rand.NewPCG(seed, 7))
		name := logs[rd.IntN(len(logs))]
		clean := readFile(t, name)
		bad := append([]byte(nil), clean...)
		for range 1 + rd.IntN(3) {
			bad[rd.IntN(len(bad))] ^= 1 << rd.IntN(8)
		}
		writeFile(t, name, bad)
		readDamaged(t, l.Dir(), value, fmt.Sprint("seed ", seed))
		writeFile(t, name, clean)
	}
}

func readDamaged(t *testing.T, dir string, value func(int64) string, what string) {
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	end := l.Offsets().End
	last, errs := int64(-1), 0
	for r, err := range l.Records(context.Background(), 0, &seglog.IterOptions{SkipDamaged: true}) {
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrCorrupt, what)
			errs++
			require.Less(t, int64(errs), end, what)
			continue
		}
		require.Greater(t, r.Offset, last, what)
		require.Equal(t, value(r.Offset), string(r.Value), what)
		last = r.Offset
	}
	require.Equal(t, end-1, last, what)
	for offset := range end {
		r, err := l.Get(offset)
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrCorrupt, "%s offset %d", what, offset)
			continue
		}
		require.Equal(t, value(offset), string(r.Value), what)
	}
	closeLog(t, l)
}

// A legacy wrapper says only where it ends.
func TestAnIterationEndsWithinALegacyWrapper(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "kafka", "legacy", "*-0"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		l := openLog(t, dir, seglog.Options{ReadOnly: true})
		start, end := l.Offsets().Start, l.Offsets().End
		all := offsetsOf(readAll(t, l, start))
		for to := start + 1; to <= end; to++ {
			var want, got []int64
			for _, offset := range all {
				if offset < to {
					want = append(want, offset)
				}
			}
			for r, err := range l.Records(t.Context(), start, &seglog.IterOptions{To: to}) {
				require.NoError(t, err)
				got = append(got, r.Offset)
			}
			require.Equal(t, want, got, "%s to %d", dir, to)
			var batches []int64
			for b, err := range l.Batches(t.Context(), start, &seglog.IterOptions{To: to}) {
				require.NoError(t, err)
				first, err := b.FirstOffset(nil)
				require.NoError(t, err)
				require.Less(t, first, to, "%s to %d", dir, to)
				batches = append(batches, b.LastOffset())
			}
			if len(want) > 0 {
				require.GreaterOrEqual(t, batches[len(batches)-1], want[len(want)-1], "%s to %d", dir, to)
			}
		}
	}
}

// The offset of a legacy wrapper is where its last record is: moved down it may still
// be above the batch before, and its first records are not.
func TestALegacyWrapperThatReachesIntoTheBatchBeforeIsDamage(t *testing.T) {
	dir := copyDir(t, filepath.Join("testdata", "kafka", "legacy", "v1-gzip-0"), filepath.Join(t.TempDir(), "v1-gzip-0"))
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	name := segmentFile(dir, 0, ".log")
	content := readFile(t, name)
	var second record.Batch
	pos := 0
	for {
		b, err := record.Parse(content[pos:])
		require.NoError(t, err)
		first, err := b.FirstOffset(nil)
		require.NoError(t, err)
		if pos > 0 && b.LastOffset() > first {
			second = b
			break
		}
		pos += b.Size()
	}
	first, err := second.FirstOffset(nil)
	require.NoError(t, err)
	binary.BigEndian.PutUint64(content[pos:], uint64(second.LastOffset()-1))
	closeLog(t, l)
	writeFile(t, name, content)
	require.NoError(t, os.RemoveAll(segmentFile(dir, 0, ".index")))
	l = openLog(t, dir, seglog.Options{ReadOnly: true})
	found, damage := offsetsFrom(t, l, 0)
	require.NotContains(t, found, first)
	require.NotEmpty(t, damage)
	require.Equal(t, int64(pos), damage[0].Position)
	_, err = l.Get(first)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
}

// What is damaged in the last segment of a log that was not closed is not the end of
// it: sound batches follow.
func TestAReadOnlyLogGoesOnBehindDamage(t *testing.T) {
	l := openSized(t, filepath.Join(t.TempDir(), "orders-0"), seglog.Options{})
	appendEach(t, l, many(10, 100)...)
	size := fileSize(t, segmentFile(l.Dir(), 0, ".log")) / 10
	flip := func(dir string) {
		edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
			b[5*size-2] ^= 1
			return b
		})
	}
	killed := crash(t, l)
	flip(killed)
	flip(l.Dir())
	require.NoError(t, os.WriteFile(segmentFile(killed, 0, ".log"), append(readFile(t, segmentFile(killed, 0, ".log")), "torn"...), 0o644))
	for what, dir := range map[string]string{"beside a writer": l.Dir(), "after a crash, with a torn tail": killed} {
		t.Run(what, func(t *testing.T) {
			ro := openLog(t, dir, seglog.Options{ReadOnly: true})
			for range 2 {
				require.Equal(t, int64(10), ro.Offsets().End)
				found, damage := offsetsFrom(t, ro, 0)
				require.Equal(t, spans(span(0, 3), span(5, 9)), found)
				require.Len(t, damage, 1)
				require.Equal(t, 4*size, damage[0].Position)
				_, err := ro.Get(4)
				require.ErrorIs(t, err, seglog.ErrCorrupt)
				rec, err := ro.Get(8)
				require.NoError(t, err)
				require.Equal(t, "value 108", string(rec.Value))
				require.Equal(t, int64(9), offsetForTime(t, ro, 109))

				r := stats(t, ro).Recovery
				require.False(t, r.Clean)
				require.Len(t, r.Damaged, 1)
				require.ErrorAs(t, r.Damaged[0], new(*seglog.CorruptionError))
				require.NoError(t, ro.Refresh())
			}
		})
	}
	// The writer takes no notice of it.
	ro := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
	appendEach(t, l, many(5, 200)...)
	require.NoError(t, ro.Refresh())
	require.Equal(t, int64(15), ro.Offsets().End)
}

// A batch that is being written may hold whole batches in its records. They are not
// the log's, however sound they are.
func TestWhatIsInATornBatchIsNotRead(t *testing.T) {
	inside := string(plainBatch(t, 50, 54)) + string(plainBatch(t, 55, 59))
	whole := batchAt(t, record.BuilderOptions{BaseOffset: 5}, at(5, 100, "begin"+inside+inside))
	for _, behind := range []int{1, 20, len(inside) - 10} {
		dir := t.TempDir()
		writeLog(t, dir, 0, plainBatch(t, 0, 4), whole[:len(whole)-behind])
		l := openLog(t, dir, seglog.Options{ReadOnly: true})
		require.Equal(t, int64(5), l.Offsets().End)
		require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
		require.Empty(t, stats(t, l).Recovery.Damaged)
		closeLog(t, l)

		writeLog(t, dir, 0, plainBatch(t, 0, 4), whole)
		l = openLog(t, dir, seglog.Options{ReadOnly: true})
		require.Equal(t, span(0, 5), offsetsOf(readAll(t, l, 0)))
		closeLog(t, l)
	}
}

// A size that claims too much is no torn batch if the next one follows where it should.
func TestAReadOnlyLogGoesOnBehindASizeThatClaimsTooMuch(t *testing.T) {
	dir := t.TempDir()
	bad := plainBatch(t, 5, 9)
	bad[8] |= 0x40
	writeLog(t, dir, 0, plainBatch(t, 0, 4), bad, plainBatch(t, 10, 14), plainBatch(t, 15, 19))
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	found, damage := offsetsFrom(t, l, 0)
	require.Equal(t, spans(span(0, 4), span(10, 19)), found)
	require.Len(t, damage, 1)
}

// Damage at the end of what was on disk hides nothing either: the log ends where it
// was known to end.
func TestDamageOfTheLastBatchIsToldByAReadOnlyLog(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"a flipped bit in a record": func(b []byte) []byte { b[len(b)-2] ^= 1; return b },
		"a header that is none":     func(b []byte) []byte { copy(b[8*len(b)/9:], "nonsense, all of the header of the last one"); return b },
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
			appendEach(t, l, many(9, 100)...)
			closeLog(t, l)
			edit(t, segmentFile(l.Dir(), 0, ".log"), harm)
			ro := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
			require.Equal(t, int64(9), ro.Offsets().End)
			found, damage := offsetsFrom(t, ro, 0)
			require.Equal(t, span(0, 7), found)
			require.Len(t, damage, 1)
			_, err := ro.Get(8)
			require.ErrorIs(t, err, seglog.ErrCorrupt)
			require.NotEmpty(t, stats(t, ro).Recovery.Damaged)
		})
	}
}
