package seglog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// The offset beyond the end, below the start and in a gap each have their own
// answer.
func TestEveryOffsetThatHasNoRecordHasAClearAnswer(t *testing.T) {
	l := gappyLog(t)
	require.NoError(t, l.DeleteBefore(2))
	tests := []struct {
		name   string
		offset int64
		want   error
	}{
		{"below zero", -1, &seglog.OffsetError{Offset: -1, Start: 2, End: 24}},
		{"below the start", 1, &seglog.OffsetError{Offset: 1, Start: 2, End: 24}},
		{"the start", 2, nil},
		{"the last before a gap", 4, nil},
		{"first of a gap", 5, &seglog.GapError{Offset: 5, Next: 9}},
		{"last of a gap", 8, &seglog.GapError{Offset: 8, Next: 9}},
		{"first behind a gap", 9, nil},
		{"in a gap at the end of a segment", 13, &seglog.GapError{Offset: 13, Next: 21}},
		{"last of that gap", 20, &seglog.GapError{Offset: 20, Next: 21}},
		{"the last record", 23, nil},
		{"the end", 24, &seglog.OffsetError{Offset: 24, Start: 2, End: 24}},
		{"beyond the end", 25, &seglog.OffsetError{Offset: 25, Start: 2, End: 24}},
		{"far beyond", 1 << 60, &seglog.OffsetError{Offset: 1 << 60, Start: 2, End: 24}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := l.Get(tt.offset)
			var out *seglog.OffsetError
			var gap *seglog.GapError
			switch {
			case tt.want == nil:
				require.NoError(t, err)
				require.Equal(t, tt.offset, r.Offset)
			case errors.As(tt.want, &out):
				require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
				require.NotErrorIs(t, err, seglog.ErrNoRecord)
				require.ErrorAs(t, err, &out)
				require.Equal(t, tt.want, out)
			default:
				require.ErrorIs(t, err, seglog.ErrNoRecord)
				require.NotErrorIs(t, err, seglog.ErrOffsetOutOfRange)
				require.ErrorAs(t, err, &gap)
				require.Equal(t, tt.want, gap)
			}
		})
	}
	for _, o := range []int64{-1, 1, 25} {
		_, err := l.Read(o, 100, nil)
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
		for _, err := range l.Records(t.Context(), o, nil) {
			require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
		}
		for _, err := range l.Batches(t.Context(), o, nil) {
			require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
		}
	}
	require.Empty(t, readAll(t, l, 24))
}

// gappyLog is what compaction has left: 0..4 and 9..12 in segment 0, 21..23 in
// segment 21.
func gappyLog(t testing.TB) *seglog.Log {
	t.Helper()
	dir := t.TempDir()
	writeLog(t, dir, 0, plainBatch(t, 0, 4), plainBatch(t, 9, 12))
	writeLog(t, dir, 21, plainBatch(t, 21, 21), plainBatch(t, 22, 23))
	return openLog(t, dir, dense)
}

// K115, and row 208
func TestReadingInAGapGoesOnWithTheNextBatch(t *testing.T) {
	l := gappyLog(t)
	tests := []struct {
		offset int64
		first  int64 // base offset of the batch that is returned, -1 for none
	}{{0, 0}, {3, 0}, {5, 9}, {8, 9}, {9, 9}, {13, 21}, {20, 21}, {21, 21}, {22, 22}, {23, 22}, {24, -1}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.offset), func(t *testing.T) {
			res, err := l.Read(tt.offset, 1, nil)
			require.NoError(t, err)
			if tt.first < 0 {
				require.Empty(t, res.Batches)
				require.Equal(t, tt.offset, res.NextOffset)
				return
			}
			b, err := record.Parse(res.Batches)
			require.NoError(t, err)
			require.Equal(t, tt.first, b.BaseOffset())
			require.Equal(t, b.Size(), len(res.Batches))
			require.Equal(t, b.NextOffset(), res.NextOffset)
			var got []int64
			for r, err := range l.Records(t.Context(), tt.offset, nil) {
				require.NoError(t, err)
				got = append(got, r.Offset)
			}
			require.Equal(t, max(tt.offset, tt.first), got[0])
		})
	}
	require.NoError(t, l.DeleteBefore(8), "a start that no batch holds")
	_, err := l.Read(7, 1, nil)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	require.Equal(t, spans(span(9, 12), span(21, 23)), offsetsOf(readAll(t, l, 8)))
}

// K116
func TestBatchesWithoutRecordsOrWithFewAreSteppedOverByTheirLastOffset(t *testing.T) {
	header := record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: 10, LastOffsetDelta: 9, BaseTimestamp: -1, MaxTimestamp: 50,
		ProducerID: 7, ProducerEpoch: 0, BaseSequence: 1})
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 20})
	require.NoError(t, b.AppendAt(20, at(20, 1, "20")))
	require.NoError(t, b.AppendAt(23, at(23, 2, "23")))
	require.NoError(t, b.SetLastOffset(29))
	sparse, err := b.Build()
	require.NoError(t, err)

	dir := t.TempDir()
	writeLog(t, dir, 10, header, sparse, plainBatch(t, 30, 30))
	l := openLog(t, dir, dense)
	require.Equal(t, int64(31), l.Offsets().End)
	require.Equal(t, []int64{20, 23, 30}, offsetsOf(readAll(t, l, 10)))
	require.Equal(t, []int64{20, 23, 30}, offsetsOf(readAll(t, l, 15)))
	require.Equal(t, []int64{30}, offsetsOf(readAll(t, l, 24)))
	for offset, next := range map[int64]int64{10: 20, 15: 20, 19: 20, 20: 30, 24: 30, 29: 30, 30: 31} {
		res, err := l.Read(offset, 1, nil)
		require.NoError(t, err)
		require.Equal(t, next, res.NextOffset, "offset %d", offset)
	}
	for offset, next := range map[int64]int64{10: 20, 19: 20, 21: 23, 24: 30, 29: 30} {
		_, err := l.Get(offset)
		var gap *seglog.GapError
		require.ErrorAs(t, err, &gap)
		require.Equal(t, next, gap.Next, "offset %d", offset)
	}
	require.Equal(t, int64(30), offsetForTime(t, l, 3))
	require.Equal(t, int64(-1), offsetForTime(t, l, 31), "the largest timestamp may be that of a record that is gone")
	var empty []int64
	for b, err := range l.Batches(t.Context(), 10, nil) {
		require.NoError(t, err)
		empty = append(empty, int64(b.Count()))
	}
	require.Equal(t, []int64{0, 2, 1}, empty)
}

// K008, as far as reading goes.
func TestAControlBatchWithoutARecordIsSteppedOver(t *testing.T) {
	cleaned := record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: 5, Attributes: 0x30, BaseTimestamp: -1, MaxTimestamp: 9,
		ProducerID: 7, ProducerEpoch: 0, BaseSequence: -1})
	dir := t.TempDir()
	writeLog(t, dir, 0, plainBatch(t, 0, 4), cleaned, marker(t, 6, 7, record.Abort), plainBatch(t, 7, 8))
	l := openLog(t, dir, dense)
	require.Equal(t, spans(span(0, 4), span(7, 8)), offsetsOf(readAll(t, l, 0)))
	var all []int64
	for r, err := range l.Records(t.Context(), 0, &seglog.IterOptions{Control: true}) {
		require.NoError(t, err)
		all = append(all, r.Offset)
	}
	require.Equal(t, spans(span(0, 4), span(6, 8)), all)
	for _, o := range []int64{5, 6} {
		_, err := l.Get(o)
		var gap *seglog.GapError
		require.ErrorAs(t, err, &gap)
		require.Equal(t, int64(7), gap.Next)
	}
}

// K117
func TestAReadInTheMiddleOfABatch(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		t.Run(codec.String(), func(t *testing.T) {
			opts := quick
			opts.Compression = codec
			l := openLog(t, t.TempDir(), opts)
			_, err := l.Append(many(10, 100), nil)
			require.NoError(t, err)
			whole := readFile(t, segmentFile(l.Dir(), 0, ".log"))
			check := func() {
				res, err := l.Read(5, 1, nil)
				require.NoError(t, err)
				require.Equal(t, whole, res.Batches)
				require.Equal(t, int64(10), res.NextOffset)
				require.Equal(t, span(5, 9), offsetsOf(readAll(t, l, 5)))
				for b, err := range l.Batches(t.Context(), 5, nil) {
					require.NoError(t, err)
					require.Equal(t, whole, b.Bytes())
				}
				require.Equal(t, int64(5), offsetForTime(t, l, 105))
			}
			check()
			require.NoError(t, l.DeleteBefore(5))
			check()
			require.Equal(t, int64(5), offsetForTime(t, l, 0))
		})
	}
}

// K118, and row 206
func TestABatchLargerThanTheLimitDoesNotBlockAReader(t *testing.T) {
	small, large := plainBatch(t, 9, 9), batchOfSize(t, 5<<20, 10, 10)
	l := openLog(t, t.TempDir(), seglog.Options{StartOffset: 9, Sync: seglog.SyncNever})
	for _, b := range [][]byte{small, large, plainBatch(t, 11, 11)} {
		_, err := l.AppendReplicated(b, nil)
		require.NoError(t, err)
	}
	hard := &seglog.ReadOptions{HardLimit: true}
	tests := []struct {
		name   string
		offset int64
		limit  int
		opts   *seglog.ReadOptions
		want   []byte
		next   int64
		needed int
	}{
		{"at least one", 10, 1 << 20, nil, large, 11, 0},
		{"at least one, limit 0", 10, 0, nil, large, 11, 0},
		{"hard limit", 10, 1 << 20, hard, nil, 10, len(large)},
		{"hard limit of 0", 10, 0, hard, nil, 10, len(large)},
		{"hard limit, one byte short", 10, len(large) - 1, hard, nil, 10, len(large)},
		{"hard limit, exactly", 10, len(large), hard, large, 11, 0},
		{"only whole batches up to the limit", 9, 1 << 20, nil, small, 10, 0},
		{"only whole batches up to the hard limit", 9, 1 << 20, hard, small, 10, 0},
		{"both just fit", 9, len(small) + len(large), nil, append(bytes.Clone(small), large...), 11, 0},
		{"at the end", 12, 100, nil, nil, 12, 0},
		{"at the end, hard", 12, 100, hard, nil, 12, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := l.Read(tt.offset, tt.limit, tt.opts)
			require.NoError(t, err)
			require.True(t, bytes.Equal(tt.want, res.Batches), "got %d bytes, want %d", len(res.Batches), len(tt.want))
			require.Equal(t, tt.next, res.NextOffset)
			require.Equal(t, tt.needed, res.Needed)
			require.Equal(t, int64(12), res.End)
		})
	}
	buf := make([]byte, 0, len(small)+100)
	res, err := l.Read(9, len(small), &seglog.ReadOptions{Buffer: buf})
	require.NoError(t, err)
	require.Same(t, &buf[:1][0], &res.Batches[0], "the caller's buffer was large enough")
}

// Reading the log in chunks gives its files, byte for byte.
func TestReadingOnAndOnGivesTheWholeLog(t *testing.T) {
	opts := dense
	opts.SegmentBytes = 2000
	l := openSized(t, t.TempDir(), opts)
	for i := range int64(60) {
		_, err := l.Append(many(int(1+i%4), 1+i), nil)
		require.NoError(t, err)
	}
	var want []byte
	for _, base := range bases(t, l) {
		want = append(want, readFile(t, segmentFile(l.Dir(), base, ".log"))...)
	}
	for _, limit := range []int{0, 1, 200, 1000, 5000, 1 << 30} {
		var got []byte
		for next := int64(0); next < l.Offsets().End; {
			res, err := l.Read(next, limit, nil)
			require.NoError(t, err)
			require.Greater(t, res.NextOffset, next)
			next = res.NextOffset
			got = append(got, res.Batches...)
		}
		require.True(t, bytes.Equal(want, got), "limit %d", limit)
	}
	_, err := l.Read(0, -1, nil)
	if err == nil { // then it is taken for 0
		res, err := l.Read(0, -1, &seglog.ReadOptions{HardLimit: true})
		require.NoError(t, err)
		require.Empty(t, res.Batches)
	}
}

// K125
func TestOffsetsInsideOldWrappersAreThoseThatWereStored(t *testing.T) {
	inner := func(magic byte, offsets ...int64) []byte {
		var b []byte
		for _, o := range offsets {
			b = append(b, legacyMessage(magic, o, 500, 0, nil, fmt.Append(nil, o))...)
		}
		return gzipped(t, b)
	}
	for name, wrapper := range map[string][]byte{
		"magic 1, relative": legacyMessage(1, 20, 500, 1, nil, inner(1, 0, 1, 2, 10)),
		"magic 0, absolute": legacyMessage(0, 20, 0, 1, nil, inner(0, 10, 11, 12, 20)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 10, wrapper, plainBatch(t, 21, 22))
			l := openLog(t, dir, dense)
			require.Equal(t, []int64{10, 11, 12, 20, 21, 22}, offsetsOf(readAll(t, l, 10)))
			require.Equal(t, []int64{20, 21, 22}, offsetsOf(readAll(t, l, 13)))
			for _, o := range []int64{10, 11, 12, 20} {
				_, err := l.Get(o)
				require.NoError(t, err)
			}
			_, err := l.Get(15)
			var gap *seglog.GapError
			require.ErrorAs(t, err, &gap)
			require.Equal(t, int64(20), gap.Next)
		})
	}
}

// K126
func TestFormatsMayAlternateWithinASegment(t *testing.T) {
	pieces := [][]byte{
		legacyMessage(0, 0, 0, 0, []byte("k"), []byte("0")),
		legacyMessage(1, 2, 200, 1, nil, gzipped(t, append(
			legacyMessage(1, 0, 100, 0, nil, []byte("1")), legacyMessage(1, 1, 200, 0, nil, []byte("2"))...))),
		batchAt(t, record.BuilderOptions{BaseOffset: 3}, at(3, 300, "3"), at(4, 150, "4")),
		legacyMessage(1, 5, 400, 0, nil, []byte("5")),
		batchAt(t, record.BuilderOptions{BaseOffset: 6, Codec: record.Zstd}, at(6, 500, "6")),
		// The shortest there is: magic 0, null key and value.
		legacyMessage(0, 7, 0, 0, nil, nil),
	}
	dir := t.TempDir()
	path := writeLog(t, dir, 0, pieces...)
	whole := readFile(t, path)
	for _, how := range []string{"recovered", "clean", "indexes rebuilt", "read-only"} {
		t.Run(how, func(t *testing.T) {
			if how == "indexes rebuilt" {
				require.NoError(t, os.Remove(segmentFile(dir, 0, ".index")))
				require.NoError(t, os.Remove(segmentFile(dir, 0, ".timeindex")))
			}
			opts := dense
			opts.ReadOnly = how == "read-only"
			l := openLog(t, dir, opts)
			all := readAll(t, l, 0)
			require.Equal(t, span(0, 7), offsetsOf(all))
			for i, ts := range []int64{-1, 100, 200, 300, 150, 400, 500, -1} {
				r, err := l.Get(int64(i))
				require.NoError(t, err)
				require.Equal(t, ts, r.Timestamp)
				requireSame(t, all[i], r)
				if i < 7 {
					require.Equal(t, fmt.Sprint(i), string(r.Value))
				} else {
					require.Nil(t, r.Value)
				}
			}
			for ts, want := range map[int64]int64{0: 1, 100: 1, 101: 2, 201: 3, 300: 3, 301: 5, 401: 6, 501: -1} {
				require.Equal(t, want, offsetForTime(t, l, ts), "timestamp %d", ts)
			}
			require.Equal(t, int64(8), l.Offsets().End)
			closeLog(t, l)
			require.Equal(t, whole, readFile(t, path))
			if how != "read-only" {
				requireSound(t, dir)
			}
		})
	}
	l := openLog(t, dir, dense)
	appendEach(t, l, one(600, "8"))
	require.NoError(t, l.TruncateTo(2), "in the middle of the old wrapper")
	require.Equal(t, []int64{0}, offsetsOf(readAll(t, l, 0)))
	require.Equal(t, int64(2), l.Offsets().End)
}

// K127
func TestCodesOfTheFutureAreErrorsAndUnusedBitsAreNot(t *testing.T) {
	attributes := func(v uint16) []byte {
		b := plainBatch(t, 1, 1)
		binary.BigEndian.PutUint16(b[21:], v)
		return setCRC(b)
	}
	zstd := func(magic byte) []byte { return legacyMessage(magic, 1, 1, 4, nil, []byte("whatever")) }
	bad := map[string][]byte{
		"codec 5": attributes(5), "codec 6": attributes(6), "codec 7": attributes(7),
		"zstd in magic 0": zstd(0), "zstd in magic 1": zstd(1),
	}
	for name, batch := range bad {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeLog(t, dir, 0, plainBatch(t, 0, 0), batch, plainBatch(t, 2, 2))
			l := openLog(t, dir, quick)
			_, err := l.Get(1)
			require.ErrorIs(t, err, seglog.ErrCorrupt)
			require.ErrorIs(t, err, record.ErrUnsupported)
			found, damage := offsetsFrom(t, l, 0)
			require.Equal(t, []int64{0, 2}, found)
			require.Len(t, damage, 1)
			require.Equal(t, filepath.Base(path), damage[0].File)
			require.Equal(t, [2]int64{1, 1}, [2]int64{damage[0].FirstOffset, damage[0].LastOffset})
		})
	}
	t.Run("unused bits", func(t *testing.T) {
		b := batchAt(t, record.BuilderOptions{Codec: record.Gzip}, at(0, 1, "v"))
		binary.BigEndian.PutUint16(b[21:], 0xff80|1)
		setCRC(b)
		l := openLog(t, t.TempDir(), quick)
		_, err := l.AppendReplicated(b, nil)
		require.NoError(t, err)
		r, err := l.Get(0)
		require.NoError(t, err)
		require.Equal(t, "v", string(r.Value))
		res, err := l.Read(0, 1<<20, nil)
		require.NoError(t, err)
		require.Equal(t, b, res.Batches)
	})
}

// K103, K120, and the rest of "Bad input": what a checksum does not find.
func TestRecordsThatDoNotDecodeCostOneBatch(t *testing.T) {
	body := func(codec uint16, records []byte) []byte {
		b := record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: 5, LastOffsetDelta: 1, MaxTimestamp: 9, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
		b = append(b, records...)
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		binary.BigEndian.PutUint16(b[21:], codec)
		binary.BigEndian.PutUint32(b[57:], 2)
		return setCRC(b)
	}
	twice := batchAt(t, record.BuilderOptions{BaseOffset: 5}, at(5, 1, "a"), at(6, 1, "b"))
	twice[record.HeaderSize+8+3] = 0 // the offset delta of the second, behind length, attributes and timestamp delta
	outside := batchAt(t, record.BuilderOptions{BaseOffset: 5}, at(5, 1, "a"), at(6, 1, "b"))
	outside[record.HeaderSize+8+3] = 10
	nested := gzipped(t, legacyMessage(1, 0, 1, 1, nil, gzipped(t, legacyMessage(1, 0, 1, 0, nil, []byte("deep")))))
	bad := map[string][]byte{
		"garbage":                    body(0, noise(100)),
		"zeros":                      body(0, make([]byte, 100)),
		"garbage for zstd":           body(4, noise(100)),
		"garbage for gzip":           body(1, noise(100)),
		"garbage for lz4":            body(3, noise(100)),
		"garbage for snappy":         body(2, noise(100)),
		"nothing for zstd":           body(4, nil),
		"the same offset twice":      setCRC(twice),
		"an offset beyond the last":  setCRC(outside),
		"zstd that claims 64 GiB":    body(4, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0}),
		"zstd with a 512 MiB window": body(4, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x01, 0x00, 0x00}),
		"snappy that claims 4 GiB":   body(2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}),
		"nested wrappers":            legacyMessage(1, 6, 9, 1, nil, nested),
		"a wrapper of nothing":       legacyMessage(1, 6, 9, 1, nil, gzipped(t, nil)),
		"a wrapper without a value":  legacyMessage(1, 6, 9, 1, nil, nil),
		"a wrapper of garbage":       legacyMessage(0, 6, 9, 1, nil, gzipped(t, noise(100))),
	}
	for name, batch := range bad {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeLog(t, dir, 0, plainBatch(t, 0, 4), batch, plainBatch(t, 7, 9))
			writeLog(t, dir, 10, plainBatch(t, 10, 11))
			requireLittleMemory(t, func() {
				l := openLog(t, dir, quick)
				_, err := l.Get(6)
				var damage *seglog.CorruptionError
				if !errors.Is(err, seglog.ErrNoRecord) { // it was asked for one that is not there
					require.ErrorIs(t, err, seglog.ErrCorrupt)
					require.ErrorAs(t, err, &damage)
					require.Equal(t, filepath.Base(path), damage.File)
					require.Equal(t, int64(len(plainBatch(t, 0, 4))), damage.Position)
				}
				found, all := offsetsFrom(t, l, 0)
				// What stands in the batch before the damage may be given.
				found = slices.DeleteFunc(found, func(o int64) bool { return o == 5 })
				require.Equal(t, spans(span(0, 4), span(7, 11)), found)
				require.Len(t, all, 1)
				require.Equal(t, filepath.Base(path), all[0].File)
				require.Equal(t, int64(10), offsetForTime(t, l, 10), "not in the way of what comes later")
			})
		})
	}
}

// Bad input: a decompression bomb. 260 MiB of zeros in one batch, which is more
// than the codec's default limit.
func TestADecompressionBombIsRefused(t *testing.T) {
	t.Parallel()
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Zstd})
	zeros := make([]byte, 52<<20)
	for range 5 {
		require.NoError(t, b.Append(seglog.Record{Timestamp: 1, Value: zeros}))
	}
	bomb, err := b.Build()
	require.NoError(t, err)
	require.Less(t, len(bomb), 1<<20)
	dir := t.TempDir()
	writeLog(t, dir, 0, bomb, plainBatch(t, 5, 6))
	l := openLog(t, dir, quick)
	_, err = l.Get(3)
	require.ErrorIs(t, err, record.ErrTooLarge)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
	found, damage := offsetsFrom(t, l, 0)
	require.Equal(t, []int64{5, 6}, found)
	require.Len(t, damage, 1)

	// Nobody is told that it was appended.
	l = openLog(t, t.TempDir(), seglog.Options{Compression: record.Zstd, Sync: seglog.SyncNever})
	records := []seglog.Record{{Value: zeros}, {Value: zeros}, {Value: zeros}, {Value: zeros}, {Value: zeros}}
	_, err = l.Append(records, nil)
	var size *seglog.SizeError
	require.ErrorAs(t, err, &size)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge)
	require.Equal(t, record.DefaultMaxDecompressed, size.Limit)
	require.Greater(t, size.Size, size.Limit)
	_, err = l.AppendBatch(bytes.Clone(bomb), nil)
	require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	require.ErrorIs(t, err, record.ErrTooLarge)
	_, err = l.AppendReplicated(bomb, nil)
	require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	require.ErrorIs(t, err, record.ErrTooLarge)
	require.Zero(t, l.Offsets().End)
}

// K059
func TestReturnedRecordsStayAsTheyWere(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			opts := dense
			opts.Compression, opts.MaxMessageBytes = codec, 2<<20
			l := openLog(t, t.TempDir(), opts)
			want := noise(1 << 20)
			_, err := l.Append([]seglog.Record{{Key: []byte("first"), Value: want, Headers: []seglog.Header{{Key: "h", Value: []byte("head")}}}}, nil)
			require.NoError(t, err)
			for range 50 {
				appendEach(t, l, seglog.Record{Value: bytes.Repeat([]byte{0xee}, 1<<20)})
			}
			_, err = l.Roll()
			require.NoError(t, err)
			closeLog(t, l)
			require.NoError(t, os.Remove(segmentFile(l.Dir(), 0, ".index")))
			l = openLog(t, l.Dir(), opts) // the first one to read makes it anew
			kept, err := l.Get(0)
			require.NoError(t, err)
			var cloned seglog.Record
			for r, err := range l.Records(t.Context(), 0, nil) {
				require.NoError(t, err)
				if r.Offset == 0 {
					cloned = r.Clone()
				}
			}
			raw, err := l.Read(0, 1, nil)
			require.NoError(t, err)
			rawCopy := bytes.Clone(raw.Batches)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for o := int64(1); o <= 50; o++ {
						if _, err := l.Get(o); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for range 20 {
				require.Equal(t, "first", string(kept.Key))
				require.Equal(t, "head", string(kept.Headers[0].Value))
				require.True(t, bytes.Equal(want, kept.Value))
				require.True(t, bytes.Equal(want, cloned.Value))
			}
			wg.Wait()
			require.True(t, bytes.Equal(want, kept.Value))
			require.Equal(t, rawCopy, raw.Batches)
		})
	}
}

// GetBuffer places a record in what it is given.
func TestGetBufferUsesTheCallersMemory(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, seglog.Record{Key: []byte("key"), Value: []byte("value")}, seglog.Record{Value: noise(1000)})
	buf := make([]byte, 100)
	r, out, err := l.GetBuffer(0, buf)
	require.NoError(t, err)
	require.Same(t, &buf[0], &out[0])
	require.Same(t, &buf[0], &r.Key[0])
	r, out, err = l.GetBuffer(1, out)
	require.NoError(t, err)
	require.Equal(t, noise(1000), r.Value)
	require.GreaterOrEqual(t, cap(out), 1000)
	_, _, err = l.GetBuffer(2, out)
	require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
}

// Iterations: where they begin and end.
func TestIterationsKeepToTheirBounds(t *testing.T) {
	opts := quick
	opts.SegmentBytes = 500
	l := openLog(t, t.TempDir(), opts)
	for i := range int64(10) {
		_, err := l.Append(many(3, 1+i*3), nil)
		require.NoError(t, err)
	}
	collect := func(from int64, o *seglog.IterOptions) []int64 {
		got := []int64{}
		for r, err := range l.Records(t.Context(), from, o) {
			require.NoError(t, err)
			got = append(got, r.Offset)
			if len(got) > 100 {
				break
			}
		}
		return got
	}
	require.Equal(t, span(0, 29), collect(0, nil))
	require.Equal(t, span(4, 16), collect(4, &seglog.IterOptions{To: 17}))
	require.Equal(t, []int64{4}, collect(4, &seglog.IterOptions{To: 5}))
	require.Empty(t, collect(4, &seglog.IterOptions{To: 4}))
	require.Empty(t, collect(4, &seglog.IterOptions{To: 2}))
	require.Empty(t, collect(30, nil))
	require.Equal(t, span(7, 24), collect(7, &seglog.IterOptions{To: 25, Follow: true}), "following, too, ends there")
	var first []int64
	for b, err := range l.Batches(t.Context(), 4, &seglog.IterOptions{To: 10}) {
		require.NoError(t, err)
		first = append(first, b.BaseOffset())
	}
	require.Equal(t, []int64{3, 6, 9}, first)
	// An iteration ends where the log ended when it began, and can be run again.
	seq := l.Records(t.Context(), 28, nil)
	for range 2 {
		end, n := l.Offsets().End, 0
		for r, err := range seq {
			require.NoError(t, err)
			require.Less(t, r.Offset, end)
			if n == 0 {
				appendEach(t, l, many(3, 100)...)
			}
			n++
		}
		require.Equal(t, int(end-28), n)
	}
}
