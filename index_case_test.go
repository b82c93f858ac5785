package seglog_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/stretchr/testify/require"
)

// dense indexes every batch but the first of a segment.
var dense = seglog.Options{IndexIntervalBytes: 1, Sync: seglog.SyncNever, TimestampAfterMax: -1}

// sealedAndActive is a closed log of two segments, 0 sealed and 10 active, ten
// small batches each, every one indexed. Timestamps are those of the offsets
// plus start.
func sealedAndActive(t testing.TB, start int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := seglog.Open(dir, dense)
	require.NoError(t, err)
	appendEach(t, l, many(10, start)...)
	_, err = l.Roll()
	require.NoError(t, err)
	appendEach(t, l, many(10, start+10)...)
	closeLog(t, l)
	return dir
}

// requireTwenty looks up all that sealedAndActive has written.
func requireTwenty(t testing.TB, l *seglog.Log, start int64) {
	t.Helper()
	require.Equal(t, span(0, 19), offsetsOf(readAll(t, l, 0)))
	for o := range int64(20) {
		r, err := l.Get(o)
		require.NoError(t, err)
		require.Equal(t, start+o, r.Timestamp)
		require.Equal(t, o, offsetForTime(t, l, start+o))
	}
	require.Equal(t, int64(-1), offsetForTime(t, l, start+20))
}

func offsetsOf(records []seglog.Record) []int64 {
	list := []int64{}
	for _, r := range records {
		list = append(list, r.Offset)
	}
	return list
}

// K022
func TestZeroPaddingOfAnIndexIsNoEntry(t *testing.T) {
	fresh := time.Now().Add(-time.Minute).UnixMilli()
	for _, padded := range [][]string{{".index", ".timeindex"}, {".index"}, {".timeindex"}} {
		for _, base := range []int64{0, 10} {
			for _, readOnly := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v of segment %d, read-only %v", padded, base, readOnly), func(t *testing.T) {
					dir := sealedAndActive(t, fresh)
					index, timeIndex := segmentFile(dir, base, ".index"), segmentFile(dir, base, ".timeindex")
					wantIndex, wantTime := readFile(t, index), readFile(t, timeIndex)
					for _, suffix := range padded {
						size := map[string]int64{".index": 10485760, ".timeindex": 10485756}[suffix]
						require.NoError(t, os.Truncate(segmentFile(dir, base, suffix), size))
					}

					opts := dense
					opts.ReadOnly, opts.RetentionTime = readOnly, 7*24*time.Hour
					l := openLog(t, dir, opts)
					requireTwenty(t, l, fresh)
					if readOnly {
						return
					}
					gone, err := l.ApplyRetention(t.Context())
					require.NoError(t, err)
					require.Zero(t, gone.Segments)
					closeLog(t, l)
					require.Equal(t, wantIndex, readFile(t, index))
					require.Equal(t, wantTime, readFile(t, timeIndex))
				})
			}
		}
	}
}

// K023
func TestAnIndexEntryAtTheBaseOffsetIsValid(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, seglog.Options{StartOffset: 2076})
	appendEach(t, l, one(1000, "only"))
	_, err := l.Roll()
	require.NoError(t, err)
	appendEach(t, l, one(1001, "another"))
	closeLog(t, l)
	writeIndex(t, dir, 2076, indexEntry{2076, 0})
	writeIndex(t, dir, 2077, indexEntry{2077, 0})
	age(t, dir, time.Hour)
	before := traces(t, dir)
	for range 3 {
		l = openLog(t, dir, seglog.Options{})
		require.True(t, stats(t, l).Recovery.Clean)
		require.Equal(t, []int64{2076, 2077}, offsetsOf(readAll(t, l, 2076)))
		require.Equal(t, int64(2076), offsetForTime(t, l, 1000))
		closeLog(t, l)
		requireUntouched(t, dir, before)
	}
}

// K024
func TestADamagedIndexIsRebuiltAndNothingElse(t *testing.T) {
	tests := []struct {
		name   string
		suffix string
		change func([]byte) []byte
	}{
		{"index of 13 bytes", ".index", func(b []byte) []byte { return b[:13] }},
		{"index with a byte too many", ".index", func(b []byte) []byte { return append(b, 0) }},
		{"last entry of the index below base", ".index", func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[len(b)-8:], 0xffffffff)
			return b
		}},
		{"last entry of the index below the one before", ".index", func(b []byte) []byte {
			copy(b[len(b)-8:], b[:8])
			return b
		}},
		{"entries of the index out of order in the middle", ".index", func(b []byte) []byte {
			copy(b[16:24], b[32:40])
			return b
		}},
		{"zeros in the middle of the index", ".index", func(b []byte) []byte {
			clear(b[16:32])
			return b
		}},
		{"garbage from byte 5 of the index on", ".index", func(b []byte) []byte { return append(b[:5], noise(len(b)-5)...) }},
		{"time index of 25 bytes", ".timeindex", func(b []byte) []byte { return b[:25] }},
		{"last timestamp below the first", ".timeindex", func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[len(b)-12:], 1)
			return b
		}},
		{"last offset of the time index below base", ".timeindex", func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[len(b)-4:], 0xffffffff)
			return b
		}},
		{"entries of the time index out of order in the middle", ".timeindex", func(b []byte) []byte {
			copy(b[24:36], b[48:60])
			return b
		}},
		{"garbage from byte 5 of the time index on", ".timeindex", func(b []byte) []byte { return append(b[:5], noise(len(b)-5)...) }},
		{"text in place of the index", ".index", func([]byte) []byte { return []byte("this is no index, it is text") }},
		{"text in place of the time index", ".timeindex", func([]byte) []byte { return []byte("this is no time index but text, 48 bytes of it..") }},
	}
	for _, tt := range tests {
		for _, base := range []int64{0, 10} {
			t.Run(fmt.Sprintf("%s, segment %d", tt.name, base), func(t *testing.T) {
				dir := sealedAndActive(t, 1000)
				path := segmentFile(dir, base, tt.suffix)
				want := readFile(t, path)
				edit(t, path, tt.change)
				damaged := traces(t, dir)

				ro := openLog(t, dir, seglog.Options{ReadOnly: true})
				requireTwenty(t, ro, 1000)
				closeLog(t, ro)
				requireUntouched(t, dir, damaged)

				l := openLog(t, dir, dense)
				requireTwenty(t, l, 1000)
				require.Empty(t, stats(t, l).Recovery.Cut)
				closeLog(t, l)
				require.Equal(t, want, readFile(t, path))
				delete(damaged, filepath.Base(path))
				for name, was := range damaged {
					require.Equal(t, was.data, string(readFile(t, filepath.Join(dir, name))), name)
				}
			})
		}
	}
}

// noise looks random and is the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

// The transaction index of a log without transactions. With them it is
// TestALostListOfAbortedTransactionsIsMadeAgain.
func TestADamagedTransactionIndexDoesNotKeepALogFromOpening(t *testing.T) {
	dir := sealedAndActive(t, 1000)
	writeFile(t, segmentFile(dir, 0, ".txnindex"), make([]byte, 34+20))
	l := openLog(t, dir, dense)
	requireTwenty(t, l, 1000)
}

// K025
func TestAMissingOrEmptyIndexIsNoObstacle(t *testing.T) {
	const batches = 500
	build := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "big-0")
		l := openLog(t, dir, quick)
		for i := range int64(batches) {
			appendEach(t, l, one(1000+i, string(noise(4000))))
		}
		_, err := l.Roll()
		require.NoError(t, err)
		closeLog(t, l)
		return dir
	}
	check := func(t *testing.T, l *seglog.Log) {
		for _, o := range []int64{0, 1, 250, batches - 2, batches - 1} {
			r, err := l.Get(o)
			require.NoError(t, err)
			require.Equal(t, 1000+o, r.Timestamp)
			require.Equal(t, o, offsetForTime(t, l, 1000+o))
		}
		require.Equal(t, int64(-1), offsetForTime(t, l, 1000+batches))
	}
	remove := func(suffixes ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, s := range suffixes {
				require.NoError(t, os.Remove(segmentFile(dir, 0, s)))
			}
		}
	}
	empty := func(suffixes ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, s := range suffixes {
				writeFile(t, segmentFile(dir, 0, s), nil)
			}
		}
	}
	tests := []struct {
		name  string
		harm  func(t *testing.T, dir string)
		files []string // that are rebuilt
	}{
		{"no index", remove(".index"), []string{".index"}},
		{"no time index", remove(".timeindex"), []string{".timeindex"}},
		{"neither", remove(".index", ".timeindex"), []string{".index", ".timeindex"}},
		{"an index of 0 bytes", empty(".index"), nil},
		{"a time index of 0 bytes", empty(".timeindex"), nil},
		{"both of 0 bytes", empty(".index", ".timeindex"), nil},
		{"an empty active segment without indexes", func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(segmentFile(dir, batches, ".index")))
			require.NoError(t, os.Remove(segmentFile(dir, batches, ".timeindex")))
		}, nil},
	}
	whole := build(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyDir(t, whole, filepath.Join(t.TempDir(), "big-0"))
			tt.harm(t, dir)

			before := traces(t, dir)
			ro := openLog(t, dir, seglog.Options{ReadOnly: true})
			check(t, ro)
			closeLog(t, ro)
			requireUntouched(t, dir, before)

			l := openLog(t, dir, quick)
			check(t, l)
			appendEach(t, l, one(9000, "goes on"))
			require.Equal(t, int64(batches), offsetForTime(t, l, 9000))
			closeLog(t, l)
			for _, suffix := range tt.files {
				require.Equal(t, readFile(t, segmentFile(whole, 0, suffix)), readFile(t, segmentFile(dir, 0, suffix)), suffix)
			}
		})
	}
}

// K026
func TestAnIndexWithoutALogGoesAndOnlyFromItsOwnDirectory(t *testing.T) {
	elsewhere := t.TempDir()
	stranger := filepath.Join(elsewhere, "00000000000000000500.index")
	writeFile(t, stranger, []byte("not yours"))
	t.Chdir(elsewhere)

	dir := sealedAndActive(t, 1000)
	orphans := []string{"00000000000000000500.index", "00000000000000000500.timeindex", "00000000000000000500.txnindex"}
	for _, name := range orphans {
		writeFile(t, filepath.Join(dir, name), make([]byte, 24))
	}
	before := traces(t, dir)
	ro := openLog(t, dir, seglog.Options{ReadOnly: true})
	requireTwenty(t, ro, 1000)
	closeLog(t, ro)
	requireUntouched(t, dir, before)

	l := openLog(t, dir, quick)
	require.ElementsMatch(t, orphans, stats(t, l).Recovery.Removed)
	requireTwenty(t, l, 1000)
	for _, name := range orphans {
		require.NoFileExists(t, filepath.Join(dir, name))
	}
	require.Equal(t, "not yours", string(readFile(t, stranger)))
}

// K027
func TestAnIndexEntryMayNameAnyOffsetOfItsBatch(t *testing.T) {
	batches := [][]byte{plainBatch(t, 0, 9), plainBatch(t, 10, 19), plainBatch(t, 20, 29)}
	p, q := int64(len(batches[0])), int64(len(batches[0])+len(batches[1]))
	tests := []struct {
		name    string
		entries []indexEntry
	}{
		{"last offsets, as Kafka writes them", []indexEntry{{19, p}, {29, q}}},
		{"first offsets, as old versions wrote them", []indexEntry{{10, p}, {20, q}}},
		{"offsets from the middle", []indexEntry{{14, p}, {22, q}}},
		{"no entries", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, batches...)
			writeLog(t, dir, 30, plainBatch(t, 30, 30))
			l := openLog(t, dir, quick) // makes the indexes
			_ = segments(t, l)
			closeLog(t, l)
			writeIndex(t, dir, 0, tt.entries...)
			index := readFile(t, segmentFile(dir, 0, ".index"))

			l = openLog(t, dir, quick)
			for o := range int64(31) {
				r, err := l.Get(o)
				require.NoError(t, err)
				require.Equal(t, o, r.Offset)
				require.Equal(t, o, offsetForTime(t, l, o))
			}
			closeLog(t, l)
			require.Equal(t, index, readFile(t, segmentFile(dir, 0, ".index")), "it was right as it was")
		})
	}
}

// K028
func TestTruncatingToAnEmptySegmentLeavesRoomInItsIndexes(t *testing.T) {
	l := openLog(t, t.TempDir(), dense)
	appendEach(t, l, many(10, 100)...)
	_, err := l.Roll()
	require.NoError(t, err)
	require.NoError(t, l.TruncateTo(0))
	appendEach(t, l, many(5, 100)...)
	all := segments(t, l)
	require.Len(t, all, 1)
	require.Equal(t, 4, all[0].IndexEntries)
	require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
}

// K028, the variant
func TestRollingAnEmptySegmentOntoItselfIsNoError(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 0)
	writeFile(t, segmentFile(dir, 0, ".index"), nil)
	l := openLog(t, dir, quick)
	base, err := l.Roll()
	require.NoError(t, err)
	require.Zero(t, base)
	appendEach(t, l, many(3, 100)...)
	require.Equal(t, []int64{0}, bases(t, l))
	require.Equal(t, span(0, 2), offsetsOf(readAll(t, l, 0)))
}

// The age of an empty segment is no reason to roll, whatever was in it before.
func TestAnEmptySegmentDoesNotRollByAge(t *testing.T) {
	aged := quick
	aged.SegmentAge = time.Millisecond
	t.Run("with an index of 0 bytes from before", func(t *testing.T) {
		dir := t.TempDir()
		writeLog(t, dir, 0)
		writeFile(t, segmentFile(dir, 0, ".index"), nil)
		l := openLog(t, dir, aged)
		appendEach(t, l, one(100, "first"), one(101, "as young"))
		require.Equal(t, []int64{0}, bases(t, l))
		appendEach(t, l, one(1000, "later"))
		require.Equal(t, []int64{0, 2}, bases(t, l))
		require.Equal(t, span(0, 2), offsetsOf(readAll(t, l, 0)))
	})
	t.Run("truncated to nothing", func(t *testing.T) {
		l := openLog(t, t.TempDir(), aged)
		appendEach(t, l, many(2, 100)...)
		_, err := l.Roll()
		require.NoError(t, err)
		require.NoError(t, l.TruncateTo(0))
		appendEach(t, l, one(5000, "again"))
		require.Equal(t, []int64{0}, bases(t, l))
		require.Equal(t, span(0, 0), offsetsOf(readAll(t, l, 0)))
	})
}

// K029
func TestFirstLookupsAtOnceOpenAnIndexOnce(t *testing.T) {
	whole := sealedAndActive(t, 1000)
	for round := range 10 * *raceRounds {
		dir := copyDir(t, whole, filepath.Join(t.TempDir(), "orders-0"))
		if round%2 == 1 { // it is rebuilt on first use
			require.NoError(t, os.Remove(segmentFile(dir, 0, ".index")))
		}
		l := openLog(t, dir, dense)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range int64(64) {
			wg.Go(func() {
				<-begin
				r, err := l.Get(i % 20)
				if err == nil && r.Timestamp != 1000+i%20 {
					err = fmt.Errorf("offset %d has timestamp %d", i%20, r.Timestamp)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			<-begin
			for _, r := range many(10, 1020) {
				if _, err := l.Append([]seglog.Record{r}, nil); err != nil {
					t.Error(err)
				}
			}
		})
		close(begin)
		wg.Wait()
		closeLog(t, l)
		requireSound(t, dir)
		requireRebuiltAlike(t, dir, 0, dense)
	}
}

// K030
func TestIndexesWrittenLiveEqualThoseRebuilt(t *testing.T) {
	tests := []struct {
		name     string
		interval int
		size     int
		batches  int64
		want     []indexEntry
	}{
		{"an entry when more than the interval was written", 4096, 2000, 10,
			[]indexEntry{{3, 6000}, {6, 12000}, {9, 18000}}},
		{"exactly the interval is not more", 4000, 2000, 7, []indexEntry{{3, 6000}, {6, 12000}}},
		{"one byte less than the interval is not more", 3999, 2000, 7, []indexEntry{{2, 4000}, {4, 8000}, {6, 12000}}},
		{"Kafka's own example", 4096, 1500, 10, []indexEntry{{3, 4500}, {6, 9000}, {9, 13500}}},
		{"each batch larger than the interval", 1, 100, 4, []indexEntry{{1, 100}, {2, 200}, {3, 300}}},
		{"never the first batch", 1, 100, 1, []indexEntry{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := seglog.Options{IndexIntervalBytes: tt.interval}
			l := openLog(t, dir, opts)
			for o := range tt.batches {
				_, err := l.AppendReplicated(batchOfSize(t, tt.size, o, 100+o), nil)
				require.NoError(t, err)
			}
			closeLog(t, l)
			require.Equal(t, tt.want, indexEntries(t, dir, 0))
			wantTimes := []timeEntry{}
			for _, e := range tt.want {
				wantTimes = append(wantTimes, timeEntry{100 + e.offset, e.offset})
			}
			if last := tt.batches - 1; len(wantTimes) == 0 || wantTimes[len(wantTimes)-1].offset != last {
				wantTimes = append(wantTimes, timeEntry{100 + last, last}) // on closing
			}
			require.Equal(t, wantTimes, timeEntries(t, dir, 0))
			requireSound(t, dir)
			requireRebuiltAlike(t, dir, 0, opts)
		})
	}
}

// K030: a set of batches appended at once is indexed once.
func TestASetOfBatchesGetsOneIndexEntry(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, dense)
	first := plainBatch(t, 0, 0)
	_, err := l.AppendReplicated(first, nil)
	require.NoError(t, err)
	set := append(plainBatch(t, 1, 4), plainBatch(t, 5, 9)...)
	_, err = l.AppendReplicated(set, nil)
	require.NoError(t, err)
	closeLog(t, l)
	require.Equal(t, []indexEntry{{9, int64(len(first))}}, indexEntries(t, dir, 0))
	require.Equal(t, []timeEntry{{9, 9}}, timeEntries(t, dir, 0))
}

// K031
func TestAFullIndexRollsTheSegment(t *testing.T) {
	for _, indexBytes := range []int{24, 36, 100} {
		t.Run(fmt.Sprint(indexBytes), func(t *testing.T) {
			dir := t.TempDir()
			opts := dense
			opts.SegmentIndexBytes = indexBytes
			l := openLog(t, dir, opts)
			next := int64(0)
			for next < 120 {
				appendEach(t, l, one(next, "single"))
				set := append(plainBatch(t, next+1, next+2), plainBatch(t, next+3, next+3)...)
				_, err := l.AppendReplicated(set, nil)
				require.NoError(t, err)
				next += 4
			}
			require.Greater(t, len(segments(t, l)), 2)
			for _, s := range segments(t, l) {
				require.LessOrEqual(t, s.IndexEntries*8, indexBytes)
				require.LessOrEqual(t, s.TimeIndexEntries*12, indexBytes)
			}
			l = reopen(t, l, opts)
			require.Equal(t, span(0, next-1), offsetsOf(readAll(t, l, 0)))
			for o := range next {
				_, err := l.Get(o)
				require.NoError(t, err)
			}
			closeLog(t, l)
			requireSound(t, dir)
		})
	}
}

// Kafka's OffsetIndex promises that a scan from an entry reaches every offset
// at or above it; one that lies wins no trust.
func TestAnIndexThatPointsNowhereIsNotBelieved(t *testing.T) {
	batches := [][]byte{plainBatch(t, 0, 9), plainBatch(t, 10, 19), plainBatch(t, 20, 29)}
	p, q := int64(len(batches[0])), int64(len(batches[0])+len(batches[1]))
	for _, tt := range []struct {
		name    string
		entries []indexEntry
	}{
		{"into the middle of a batch", []indexEntry{{19, p + 7}}},
		{"beyond the end of the log", []indexEntry{{19, 1 << 20}}},
		{"behind the offset it claims", []indexEntry{{12, q}}},
		{"at the very end", []indexEntry{{29, q + int64(len(batches[2]))}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, batches...)
			writeLog(t, dir, 30, plainBatch(t, 30, 30))
			l := openLog(t, dir, quick)
			_ = segments(t, l)
			closeLog(t, l)
			writeIndex(t, dir, 0, tt.entries...)
			for _, readOnly := range []bool{true, false} {
				l = openLog(t, dir, seglog.Options{ReadOnly: readOnly})
				for o := range int64(31) {
					r, err := l.Get(o)
					require.NoError(t, err)
					require.Equal(t, o, r.Offset)
				}
				closeLog(t, l)
			}
		})
	}
}

// An index entry may name the first offset of its batch, as very old brokers made them:
// it goes with the batch.
func TestTruncatingWithinABatchRemovesAnEntryOfItsFirstOffset(t *testing.T) {
	dir := t.TempDir()
	opts := quick
	l := openLog(t, dir, opts)
	_, err := l.Append(many(3, 1000), nil)
	require.NoError(t, err)
	_, err = l.Roll()
	require.NoError(t, err)
	appendEach(t, l, many(3, 2000)...)
	closeLog(t, l)
	writeIndex(t, dir, 0, indexEntry{0, 0})
	l = openLog(t, dir, opts)
	_, err = l.Get(1)
	require.NoError(t, err)
	require.NoError(t, l.TruncateTo(2))
	require.EqualValues(t, 2, l.Offsets().End)
	appendEach(t, l, one(3000, "next"))
	l = reopen(t, l, opts)
	r, err := l.Get(2)
	require.NoError(t, err)
	require.Equal(t, "next", string(r.Value))
	closeLog(t, l)
	requireSound(t, dir)
}
