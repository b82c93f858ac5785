package seglog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

func TestWhatIsAppendedComesBack(t *testing.T) {
	records := []seglog.Record{
		{Timestamp: 7, Key: nil, Value: nil},
		{Timestamp: 5, Key: []byte{}, Value: []byte{}},
		{Timestamp: record.NoTimestamp, Key: []byte("k"), Value: nil},
		{Timestamp: math.MaxInt64, Key: nil, Value: []byte("v")},
		{Timestamp: 1, Key: []byte{0xff, 0}, Value: noise(5000), Headers: []seglog.Header{
			{Key: "", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "a", Value: []byte("again")}, {Key: "\xff", Value: noise(10)}}},
	}
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			opts := quick
			opts.Compression = codec
			l := openLog(t, t.TempDir(), opts)
			res, err := l.Append(records, nil)
			require.NoError(t, err)
			require.Equal(t, seglog.AppendResult{BaseOffset: 0, LastOffset: 4, Timestamp: math.MaxInt64}, res)
			for range 2 {
				all := readAll(t, l, 0)
				require.Len(t, all, len(records))
				for i, want := range records {
					want.Offset = int64(i)
					requireSame(t, want, all[i])
					got, err := l.Get(int64(i))
					require.NoError(t, err)
					requireSame(t, want, got)
				}
				l = reopen(t, l, opts)
			}
			require.Equal(t, codec, batchesOf(t, l.Dir(), 0)[0].Codec())
		})
	}
}

// requireSame tells null from empty.
func requireSame(t tb, want, got seglog.Record) {
	t.Helper()
	require.Equal(t, want.Offset, got.Offset)
	require.Equal(t, want.Timestamp, got.Timestamp, "timestamp of offset %d", want.Offset)
	requireSameBytes(t, want.Key, got.Key, "key", want.Offset)
	requireSameBytes(t, want.Value, got.Value, "value", want.Offset)
	require.Len(t, got.Headers, len(want.Headers))
	for i, h := range want.Headers {
		require.Equal(t, h.Key, got.Headers[i].Key)
		requireSameBytes(t, h.Value, got.Headers[i].Value, "header", want.Offset)
	}
}

func requireSameBytes(t tb, want, got []byte, what string, offset int64) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, "%s of offset %d: null is not empty", what, offset)
	require.True(t, bytes.Equal(want, got), "%s of offset %d: got %q, want %q", what, offset, got, want)
}

// The library keeps nothing of what it is given, and gives away what Get returns.
func TestNobodyKeepsTheBytesOfOthers(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	key, value := []byte("key"), []byte("value")
	_, err := l.Append([]seglog.Record{{Key: key, Value: value}}, nil)
	require.NoError(t, err)
	copy(key, "xxx")
	copy(value, "xxxxx")
	r, err := l.Get(0)
	require.NoError(t, err)
	require.Equal(t, "key=value", string(r.Key)+"="+string(r.Value))
	copy(r.Value, "yyyyy")
	r, err = l.Get(0)
	require.NoError(t, err)
	require.Equal(t, "value", string(r.Value))
}

// K113
func TestASegmentNeverOutgrowsItsLimit(t *testing.T) {
	opts := quick
	opts.SegmentBytes = 1000
	l := openLog(t, t.TempDir(), opts)
	for o := range int64(12) {
		_, err := l.AppendReplicated(batchOfSize(t, 250, o, 1), nil)
		require.NoError(t, err)
	}
	require.Equal(t, []int64{0, 4, 8}, bases(t, l), "four fit exactly")
	for _, s := range segments(t, l) {
		require.Equal(t, int64(1000), s.Size)
	}
	_, err := l.AppendReplicated(batchOfSize(t, 1000, 12, 1), nil)
	require.NoError(t, err)
	_, err = l.AppendReplicated(batchOfSize(t, 1001, 13, 1), nil)
	require.ErrorIs(t, err, seglog.ErrSetTooLarge)
	var size *seglog.SizeError
	require.ErrorAs(t, err, &size)
	require.Equal(t, [2]int{1001, 1000}, [2]int{size.Size, size.Limit})
	require.Equal(t, int64(13), l.Offsets().End)
	require.Equal(t, []int64{0, 4, 8, 12}, bases(t, l), "a refused append does not roll")
}

// K114
func TestASegmentTakesOffsetsUpTo31BitsAboveItsBase(t *testing.T) {
	const base = 1000
	tests := []struct {
		last int64
		want []int64
	}{
		{base + math.MaxInt32, []int64{base}},
		{base + math.MaxInt32 + 1, []int64{base, base + math.MaxInt32 + 1}},
		{base + math.MaxInt32 + 2, []int64{base, base + math.MaxInt32 + 2}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.last), func(t *testing.T) {
			opts := dense
			opts.StartOffset = base
			l := openLog(t, t.TempDir(), opts)
			_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: base}, at(base, 50, "first")), nil)
			require.NoError(t, err)
			_, err = l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: tt.last}, at(tt.last, 60, "last")), nil)
			require.NoError(t, err)
			for range 2 {
				require.Equal(t, tt.want, bases(t, l))
				require.Equal(t, tt.last+1, l.Offsets().End)
				require.Equal(t, []int64{base, tt.last}, offsetsOf(readAll(t, l, base)))
				r, err := l.Get(tt.last)
				require.NoError(t, err)
				require.Equal(t, tt.last, r.Offset)
				_, err = l.Get(base + 1)
				var gap *seglog.GapError
				require.ErrorAs(t, err, &gap)
				require.Equal(t, seglog.GapError{Offset: base + 1, Next: tt.last}, *gap)
				require.Equal(t, tt.last, offsetForTime(t, l, 51))
				l = reopen(t, l, dense)
			}
			closeLog(t, l)
			requireSound(t, l.Dir())
		})
	}
}

// K114: a batch that itself spans more than a segment can address.
func TestABatchThatFitsNoSegmentIsRefused(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	wide := batchAt(t, record.BuilderOptions{}, at(0, 1, "a"), at(math.MaxInt32, 1, "b"))
	res, err := l.AppendReplicated(wide, nil)
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt32), res.LastOffset)
	require.Equal(t, []int64{0, math.MaxInt32}, offsetsOf(readAll(t, l, 0)))

	// Two batches in one set, further apart than that.
	end := l.Offsets().End
	set := append(plainBatch(t, end, end), plainBatch(t, end+math.MaxInt32+1, end+math.MaxInt32+1)...)
	_, err = l.AppendReplicated(set, nil)
	if err == nil { // then it must be all there
		require.Equal(t, []int64{end, end + math.MaxInt32 + 1}, offsetsOf(readAll(t, l, end)))
		l = reopen(t, l, quick)
		require.Equal(t, []int64{end, end + math.MaxInt32 + 1}, offsetsOf(readAll(t, l, end)))
		return
	}
	require.Equal(t, end, l.Offsets().End)
	appendEach(t, l, one(1, "on"))
	require.Equal(t, []int64{end}, offsetsOf(readAll(t, l, end)))
}

// The last offset there is.
func TestOffsetsDoNotWrapAround(t *testing.T) {
	opts := quick
	opts.StartOffset = math.MaxInt64 - 2
	l := openLog(t, t.TempDir(), opts)
	for range 4 {
		res, err := l.Append(many(1, 1), nil)
		if err != nil {
			break
		}
		require.Positive(t, res.BaseOffset)
		require.GreaterOrEqual(t, res.LastOffset, res.BaseOffset)
	}
	require.GreaterOrEqual(t, l.Offsets().End, opts.StartOffset)
	require.NotEmpty(t, readAll(t, l, opts.StartOffset))
}

// K119, and rows 213 to 215.
func TestReplicatedBatchesMustFollow(t *testing.T) {
	join := func(b ...[]byte) []byte { return bytes.Join(b, nil) }
	tests := []struct {
		name  string
		set   []byte
		first int64
		last  int64
	}{
		{"the last offset again", plainBatch(t, 12, 13), 12, 13},
		{"the same batch again", plainBatch(t, 10, 12), 10, 12},
		{"a step back", plainBatch(t, 5, 6), 5, 6},
		{"right before the end", plainBatch(t, 9, 9), 9, 9},
		{"batches out of order", join(plainBatch(t, 13, 13), plainBatch(t, 15, 15), plainBatch(t, 14, 14)), 14, 14},
		{"batches that overlap", join(plainBatch(t, 13, 15), plainBatch(t, 15, 17)), 15, 17},
		{"the same batch twice", join(plainBatch(t, 13, 15), plainBatch(t, 13, 15)), 13, 15},
	}
	disorder := func(deltas ...byte) []byte {
		b := batchAt(t, record.BuilderOptions{BaseOffset: 13}, at(13, 1, "a"), at(14, 1, "b"), at(15, 1, "c"))
		for i, delta := range deltas { // records of 8 bytes; before the delta are length, attributes and time
			b[record.HeaderSize+8*i+3] = 2 * delta
		}
		binary.BigEndian.PutUint32(b[23:], 7)
		return setCRC(b)
	}
	l := openLog(t, t.TempDir(), quick)
	require.NoError(t, l.TruncateFullyAndStartAt(10))
	res, err := l.AppendReplicated(plainBatch(t, 10, 12), nil)
	require.NoError(t, err)
	require.Equal(t, seglog.AppendResult{BaseOffset: 10, LastOffset: 12, Timestamp: 12}, res)
	path := segmentFile(l.Dir(), 10, ".log")
	before := readFile(t, path)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.AppendReplicated(tt.set, nil)
			require.ErrorIs(t, err, seglog.ErrUnexpectedOffset)
			var refused *seglog.AppendOffsetError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, [2]int64{tt.first, tt.last}, [2]int64{refused.FirstOffset, refused.LastOffset})
			require.Equal(t, int64(13), l.Offsets().End)
			require.Equal(t, before, readFile(t, path))
		})
	}
	for name, deltas := range map[string][]byte{"13, 15, 14": {0, 2, 1}, "13, 13, 14": {0, 0, 1}, "13, 14, 21": {0, 1, 8}} {
		_, err := l.AppendReplicated(disorder(deltas...), nil)
		require.ErrorIs(t, err, seglog.ErrUnexpectedOffset, name)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch, name)
		require.Equal(t, int64(13), l.Offsets().End)
		require.Equal(t, before, readFile(t, path))
	}
	_, err = l.AppendReplicated(plainBatch(t, 20, 22), nil)
	require.NoError(t, err, "a gap is kept")
	require.Equal(t, spans(span(10, 12), span(20, 22)), offsetsOf(readAll(t, l, 10)))
	require.Equal(t, []int64{10}, bases(t, l))
}

// K119 and row 215
func TestReplicatedBatchesBelowTheStartOfAnEmptyLogAreRefused(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{StartOffset: 7})
	_, err := l.AppendReplicated(plainBatch(t, 4, 6), nil)
	var refused *seglog.AppendOffsetError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, seglog.AppendOffsetError{FirstOffset: 4, LastOffset: 6, Want: 7}, *refused)
	require.Equal(t, seglog.Offsets{Start: 7, Durable: 7, End: 7}, l.Offsets())
	begun := openLog(t, t.TempDir(), quick)
	require.NoError(t, begun.TruncateFullyAndStartAt(100))
	_, err = begun.AppendReplicated(plainBatch(t, 50, 50), nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, seglog.AppendOffsetError{FirstOffset: 50, LastOffset: 50, Want: 100}, *refused)
	require.Zero(t, fileSize(t, segmentFile(begun.Dir(), 100, ".log")))
	_, err = l.AppendReplicated(plainBatch(t, 100, 100), nil)
	require.NoError(t, err)
	require.Equal(t, []int64{100}, offsetsOf(readAll(t, l, 7)))
}

// A set is stored as it is, in one segment or not at all.
func TestAReplicatedSetIsStoredByteForByte(t *testing.T) {
	set := bytes.Join([][]byte{
		batchAt(t, record.BuilderOptions{BaseOffset: 3, LeaderEpoch: 9, Codec: record.Zstd}, at(3, 1, "a"), at(5, 2, "b")),
		record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: 6, LastOffsetDelta: 3, LeaderEpoch: 9, BaseTimestamp: -1, MaxTimestamp: 5,
			ProducerID: 7, ProducerEpoch: 1, BaseSequence: 4}),
		marker(t, 12, 7, record.Commit),
	}, nil)
	l := openLog(t, t.TempDir(), seglog.Options{LeaderEpoch: 40, TimestampType: record.LogAppendTime})
	res, err := l.AppendReplicated(set, nil)
	require.NoError(t, err)
	require.Equal(t, int64(3), res.BaseOffset)
	require.Equal(t, int64(12), res.LastOffset)
	require.Equal(t, set, readFile(t, segmentFile(l.Dir(), 0, ".log")))
	got, err := l.Read(0, 1<<20, nil)
	require.NoError(t, err)
	require.Equal(t, set, got.Batches)
	require.Equal(t, int64(13), got.NextOffset)
}

func marker(t tb, offset, producer int64, kind record.ControlType) []byte {
	t.Helper()
	b, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{
		Offset: offset, Timestamp: 20, ProducerID: producer, ProducerEpoch: 1,
		Marker: record.EndTxnMarker{Type: kind, CoordinatorEpoch: 2}})
	require.NoError(t, err)
	return b
}

// 7.1 and 7.2: what a leader refuses, and 7.3: what it puts right.
func TestABatchThatMayNotBeStoredIsRefused(t *testing.T) {
	put16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return setCRC(b) }
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return setCRC(b) }
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"half a header", func(b []byte) []byte { return b[:30] }},
		{"a byte short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }},
		{"two batches", func(b []byte) []byte { return append(b, b...) }},
		{"a wrong checksum", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		{"no records", func([]byte) []byte {
			return record.AppendEmptyBatch(nil, record.BatchHeader{MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
		}},
		{"a count that is not the offsets'", put32(57, 2)},
		{"a last offset delta that is not the count's", put32(23, 7)},
		{"a count of -1", put32(57, 0xffffffff)},
		{"a control batch", put16(21, 0x20)},
		{"codec 5", put16(21, 5)},
		{"codec 7", put16(21, 7)},
		{"a codec that the records are not in", put16(21, 4)},
		{"a producer without a sequence", func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[43:], 12)
			return setCRC(b)
		}},
		{"gaps between its offsets", func([]byte) []byte {
			return batchAt(t, record.BuilderOptions{}, at(0, 1, "a"), at(2, 1, "b"))
		}},
		{"a time before 1970", func(b []byte) []byte {
			first := int64(-3)
			binary.BigEndian.PutUint64(b[27:], uint64(first))
			return setCRC(b)
		}},
		{"magic 1", func([]byte) []byte { return legacyMessage(1, 0, 1, 0, nil, []byte("v")) }},
		{"magic 0", func([]byte) []byte { return legacyMessage(0, 0, 1, 0, nil, []byte("v")) }},
		{"magic 3", func(b []byte) []byte { b[16] = 3; return b }},
	}
	l := openLog(t, t.TempDir(), quick)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.AppendBatch(tt.change(plainBatch(t, 0, 2)), nil)
			require.ErrorIs(t, err, seglog.ErrInvalidBatch)
			require.Zero(t, l.Offsets().End)
			require.Zero(t, fileSize(t, segmentFile(l.Dir(), 0, ".log")))
		})
	}
	for _, records := range [][]seglog.Record{nil, {}, {one(-2, "before time")}} {
		_, err := l.Append(records, nil)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	}
	for _, set := range [][]byte{nil, plainBatch(t, 0, 2)[:60], append(plainBatch(t, 0, 2), plainBatch(t, 3, 3)[:20]...), make([]byte, 500)} {
		_, err := l.AppendReplicated(set, nil)
		require.ErrorIs(t, err, seglog.ErrInvalidBatch)
	}
	require.Zero(t, fileSize(t, segmentFile(l.Dir(), 0, ".log")))
}

func TestAnAppendedBatchGetsItsOffsetsAndItsHeaderPutRight(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{LeaderEpoch: 72, Sync: seglog.SyncNever})
	appendEach(t, l, many(5, 1)...)
	b := batchAt(t, record.BuilderOptions{Codec: record.Gzip, Producer: &record.Producer{ID: 3, Epoch: 1, BaseSequence: 8}},
		at(0, 100, "a"), at(1, 300, "b"), at(2, 200, "c"))
	binary.BigEndian.PutUint64(b[35:], 999) // a producer's wrong idea of the largest timestamp
	setCRC(b)
	res, err := l.AppendBatch(b, nil)
	require.NoError(t, err)
	require.Equal(t, seglog.AppendResult{BaseOffset: 5, LastOffset: 7, Timestamp: 300}, res)
	stored := batchesOf(t, l.Dir(), 0)[5]
	require.Equal(t, int64(5), stored.BaseOffset())
	require.Equal(t, int32(72), stored.LeaderEpoch())
	require.Equal(t, int64(300), stored.MaxTimestamp())
	require.Equal(t, record.Gzip, stored.Codec())
	require.Equal(t, int64(3), stored.ProducerID())
	require.Equal(t, int32(8), stored.BaseSequence())
	for _, b := range batchesOf(t, l.Dir(), 0) {
		require.Equal(t, int32(72), b.LeaderEpoch()) // row 221
	}
	require.Equal(t, int64(6), offsetForTime(t, l, 201))
}

// Row 204
func TestABatchOverTheLimitIsRefusedButReplicated(t *testing.T) {
	const limit = 500
	opts := quick
	opts.MaxMessageBytes = limit
	l := openLog(t, t.TempDir(), opts)
	_, err := l.AppendBatch(batchOfSize(t, limit, 0, 1), nil)
	require.NoError(t, err)
	_, err = l.AppendBatch(batchOfSize(t, limit+1, 0, 1), nil)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge)
	var size *seglog.SizeError
	require.ErrorAs(t, err, &size)
	require.Equal(t, [2]int{limit + 1, limit}, [2]int{size.Size, size.Limit})
	_, err = l.Append([]seglog.Record{{Value: make([]byte, limit)}}, nil)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge)
	require.Equal(t, int64(1), l.Offsets().End)
	_, err = l.AppendReplicated(batchOfSize(t, limit+1, 1, 1), nil)
	require.NoError(t, err)

	// The limit is about what is stored.
	opts.Compression = record.Zstd
	c := openLog(t, t.TempDir(), opts)
	_, err = c.Append([]seglog.Record{{Value: []byte(strings.Repeat("same", 1000))}}, nil)
	require.NoError(t, err)
}

// The three offsets, and the two ways to make records durable.
func TestDurableFollowsTheSyncPolicy(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
	appendEach(t, l, many(3, 1)...)
	require.Equal(t, seglog.Offsets{Start: 0, Durable: 0, End: 3}, l.Offsets())
	require.NoError(t, l.Sync())
	require.Equal(t, seglog.Offsets{Start: 0, Durable: 3, End: 3}, l.Offsets())
	always := seglog.SyncAlways
	_, err := l.Append(many(2, 10), &seglog.AppendOptions{Sync: &always})
	require.NoError(t, err)
	require.Equal(t, int64(5), l.Offsets().Durable)

	l = openLog(t, t.TempDir(), seglog.Options{})
	_, err = l.Append(many(2, 10), nil)
	require.NoError(t, err)
	require.Equal(t, int64(2), l.Offsets().Durable)
	never := seglog.SyncNever
	_, err = l.AppendReplicated(plainBatch(t, 2, 3), &seglog.AppendOptions{Sync: &never})
	require.NoError(t, err)
	require.Equal(t, seglog.Offsets{Start: 0, Durable: 2, End: 4}, l.Offsets())
}

// The clock is not read for records that are old by then; nobody may notice.
func TestTheTimeOfAnAppendIsThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := quick
		opts.TimestampAfterMax = time.Hour
		l := openLog(t, t.TempDir(), opts)
		defer closeLog(t, l)
		begin := time.Now()
		put := func(timestamp int64) (int64, error) {
			at, err := l.Append([]seglog.Record{one(timestamp, "v")}, nil)
			return at.Timestamp, err
		}
		at := func(d time.Duration) int64 { return begin.Add(d).UnixMilli() }
		for _, row := range []struct {
			name      string
			after     time.Duration
			timestamp int64
			want      int64 // 0: it is refused
		}{
			{"now", 0, 0, at(0)},
			{"the past", 0, at(-time.Hour), at(-time.Hour)},
			{"too far ahead", 0, at(61 * time.Minute), 0},
			{"as far ahead as may be", 0, at(time.Hour), at(time.Hour)},
			{"the past, later", 3 * time.Hour, at(-time.Hour), at(-time.Hour)},
			{"past by now", 0, at(2 * time.Hour), at(2 * time.Hour)},
			{"as far ahead as may be by now", 0, at(4 * time.Hour), at(4 * time.Hour)},
			{"the past again", time.Hour, at(time.Hour), at(time.Hour)},
			{"now, after a record of the past", 0, 0, at(4 * time.Hour)},
			{"no time", time.Hour, record.NoTimestamp, record.NoTimestamp},
			{"now, after a record without a time", 0, 0, at(5 * time.Hour)},
			{"too far ahead of now", 0, at(5*time.Hour + 61*time.Minute), 0},
		} {
			time.Sleep(row.after) // by the clock of synctest
			got, err := put(row.timestamp)
			if row.want == 0 {
				require.ErrorIs(t, err, seglog.ErrInvalidTimestamp, row.name)
				continue
			}
			require.NoError(t, err, row.name)
			require.Equal(t, row.want, got, row.name)
		}
	})
}
