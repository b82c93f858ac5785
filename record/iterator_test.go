package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong inside a batch with a good checksum is found, named, and is
// neither a panic nor a record.
func TestMalformedRecordsAreInvalid(t *testing.T) {
	fine := rawRecord(0, 0, 0, 1, 1, 0)
	batch := func(count int32, records ...[]byte) Batch {
		return rawBatch(count, None, slices.Concat(records...))
	}
	for _, tt := range []struct {
		name  string
		batch Batch
		good  int // records before the bad one
		field string
		text  string
	}{
		{"count -1", batch(-1), 0, "record count", "offset 100: record count -1 is negative"},
		{"smallest count", batch(-1 << 31), 0, "record count", "offset 100: record count -2147483648 is negative"},
		{"count 0 with records", batch(0, fine), 0, "record count", "offset 100: record count 0 leaves 7 bytes"},
		{"count 5 without records", batch(5), 0, "length", "offset 100: record 0: length is cut off"},
		{"count 5 of 3", batch(5, fine, fine, fine), 3, "length", "offset 100: record 3: length is cut off"},
		{"count 2 of 3", batch(2, fine, fine, fine), 1, "record count", "offset 100: record 1: record count 2 leaves 7 bytes"},
		{"largest count", batch(1<<31-1, fine), 1, "length", "offset 100: record 1: length is cut off"},
		{"bytes left over", batch(1, fine, []byte{0}), 0, "record count", "offset 100: record 0: record count 1 leaves 1 bytes"},

		{"length cut off", batch(1, []byte{0x80}), 0, "length", "offset 100: record 0: length is cut off"},
		{"length of 6 bytes", batch(1, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}), 0, "length", "offset 100: record 0: length does not end"},
		{"length -1", batch(1, []byte{1}), 0, "length", "offset 100: record 0: length -1 is not within the 0 bytes left"},
		{"length 1 too many", batch(2, fine, []byte{14, 0, 0, 0, 1, 1, 0}), 1, "length", "offset 100: record 1: length 7 is not within the 6 bytes left"},
		{"largest length", batch(1, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0}), 0, "length", "offset 100: record 0: length 2147483647 is not within the 1 bytes left"},
		{"length 0", batch(1, rawRecord()), 0, "attributes", "offset 100: record 0: attributes are missing"},
		{"length 8, 6 used", batch(1, rawRecord(0, 0, 0, 1, 1, 0, 0, 0)), 0, "length", "offset 100: record 0: length 8 is not the 6 bytes its fields take"},
		{"length 5, 6 needed", batch(1, rawRecord(0, 0, 0, 1, 1), []byte{0}), 0, "header count", "offset 100: record 0: header count is cut off"},

		{"timestamp cut off", batch(1, rawRecord(0, 0x80)), 0, "timestamp delta", "offset 100: record 0: timestamp delta is cut off"},
		{"timestamp of 11 bytes", batch(1, rawRecord(0, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 0, 1, 1, 0)), 0, "timestamp delta", "offset 100: record 0: timestamp delta does not end"},
		{"no offset", batch(1, rawRecord(0, 0)), 0, "offset delta", "offset 100: record 0: offset delta is cut off"},
		{"offset cut off", batch(1, rawRecord(0, 0, 0x80)), 0, "offset delta", "offset 100: record 0: offset delta is cut off"},
		{"offset of 6 bytes", batch(1, rawRecord(0, 0, 128, 128, 128, 128, 128, 0, 1, 1, 0)), 0, "offset delta", "offset 100: record 0: offset delta does not end"},

		{"key length cut off", batch(1, rawRecord(0, 0, 0)), 0, "key length", "offset 100: record 0: key length is cut off"},
		{"key of 105 bytes, 2 there", batch(1, rawRecord(append([]byte{0, 0, 0}, append(appendVarint(nil, 105), 1, 1)...)...)), 0, "key length", "offset 100: record 0: key length 105 is not within the 2 bytes left"},
		{"value length cut off", batch(1, rawRecord(0, 0, 0, 1)), 0, "value length", "offset 100: record 0: value length is cut off"},
		{"value of 105 bytes, 1 there", batch(1, rawRecord(append([]byte{0, 0, 0, 1}, append(appendVarint(nil, 105), 1)...)...)), 0, "value length", "offset 100: record 0: value length 105 is not within the 1 bytes left"},
		{"key that ends in the next record", batch(2, rawRecord(0, 0, 0, 4), fine), 0, "key length", "offset 100: record 0: key length 2 is not within the 0 bytes left"},

		{"header count cut off", batch(1, rawRecord(0, 0, 0, 1, 1, 0x80)), 0, "header count", "offset 100: record 0: header count is cut off"},
		{"header count -1", batch(1, rawRecord(0, 0, 0, 1, 1, 1)), 0, "header count", "offset 100: record 0: header count -1 is not within the 0 bytes left"},
		{"header count 105 in 2 bytes", batch(1, rawRecord(append([]byte{0, 0, 0, 1, 1}, append(appendVarint(nil, 105), 0, 1)...)...)), 0, "header count", "offset 100: record 0: header count 105 is not within the 2 bytes left"},
		{"header count 1 too many", batch(1, rawRecord(0, 0, 0, 1, 1, 4, 0, 1)), 0, "header key length", "offset 100: record 0: header key length is cut off"},
		{"header count 1 too few", batch(1, rawRecord(0, 0, 0, 1, 1, 2, 0, 1, 0, 1)), 0, "length", "offset 100: record 0: length 10 is not the 8 bytes its fields take"},
		{"header key of -1 bytes", batch(1, rawRecord(0, 0, 0, 1, 1, 2, 1, 1)), 0, "header key length", "offset 100: record 0: header key length -1 is not within the 1 bytes left"},
		{"header key too long", batch(1, rawRecord(0, 0, 0, 1, 1, 2, 6, 1)), 0, "header key length", "offset 100: record 0: header key length 3 is not within the 1 bytes left"},
		{"header value missing", batch(1, rawRecord(0, 0, 0, 1, 1, 2, 2, 'k')), 0, "header value length", "offset 100: record 0: header value length is cut off"},
		{"header value too long", batch(1, rawRecord(0, 0, 0, 1, 1, 2, 0, 6, 'v')), 0, "header value length", "offset 100: record 0: header value length 3 is not within the 1 bytes left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.True(t, tt.batch.IsValid())
			recs, err := decode(tt.batch, DecodeOptions{})
			require.Len(t, recs, tt.good)
			require.ErrorIs(t, err, ErrInvalid)
			require.EqualError(t, err, tt.text)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, int64(100), e.BaseOffset)
			require.Equal(t, tt.field, e.Field)
			require.ErrorIs(t, tt.batch.Verify(nil), ErrInvalid)
		})
	}
}

func TestBadCountIsFoundBehindAnyCodec(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		good := build(t, BuilderOptions{Codec: codec}, Record{}, Record{}, Record{})
		for _, count := range []uint32{2, 5} {
			b := slices.Clone(good)
			be.PutUint32(b[countPos:], count)
			_, err := decode(Batch{reseal(b)}, DecodeOptions{})
			require.ErrorIs(t, err, ErrInvalid, "%s, count %d", codec, count)
		}
	}
}

// One bad batch leaves nothing behind in the iterator.
func TestIteratorGoesOnBehindABadBatch(t *testing.T) {
	good := parse(t, build(t, BuilderOptions{Codec: Zstd}, Record{Value: []byte("v")}))
	it := NewIterator(DecodeOptions{})
	defer it.Close()
	for _, bad := range []Batch{
		rawBatch(1, Zstd, []byte("garbage")), rawBatch(1, 5, nil), rawBatch(-1, None, nil),
		rawBatch(1, None, []byte{1}), rawBatch(3, None, rawRecord(0, 0, 0, 1, 1, 0)),
	} {
		err := it.Reset(bad)
		for it.Next() {
		}
		require.Error(t, it.Err())
		if err != nil {
			require.Equal(t, err, it.Err())
		}
		require.False(t, it.Next())
		require.False(t, it.SkipTo(0))

		require.NoError(t, it.Reset(good))
		require.True(t, it.Next())
		require.Equal(t, "v", string(it.Record().Value))
		require.False(t, it.Next())
		require.NoError(t, it.Err())
	}
}

func TestZeroIteratorHasNoRecords(t *testing.T) {
	var it Iterator
	require.False(t, it.Next())
	require.False(t, it.SkipTo(0))
	require.NoError(t, it.Err())
	it.Close()
	require.NoError(t, it.Reset(parse(t, unhex(t, goldens[0].hex))))
	require.True(t, it.Next())
}

func TestNullAndEmptyAreNotTheSame(t *testing.T) {
	want := []Record{
		{Offset: 0, Key: []byte("k")},
		{Offset: 1, Value: []byte("v")},
		{Offset: 2, Key: []byte{}, Value: []byte{}},
		{Offset: 3},
		{Offset: 4, Headers: []Header{{Key: "k"}, {Key: "k", Value: []byte{}}, {Key: "", Value: []byte("x")}}},
	}
	for codec := None; codec <= Zstd; codec++ {
		require.Equal(t, want, collect(t, parse(t, build(t, BuilderOptions{Codec: codec}, want...))), codec)
	}
}

func TestAnyNegativeLengthIsNull(t *testing.T) {
	body := appendVarint([]byte{0, 0, 0}, -2)
	body = appendVarint(body, -1<<31)
	body = append(body, 2, 0)
	body = appendVarint(body, -7)
	recs := collect(t, rawBatch(1, None, rawRecord(body...)))
	require.Equal(t, []Record{{Offset: 100, Timestamp: 1000, Headers: []Header{{}}}}, recs)
}

// Header keys are bytes to the format, and come back as they went in.
func TestHeadersKeepOrderDuplicatesAndBytes(t *testing.T) {
	headers := []Header{
		{Key: "a,b:c\nd", Value: []byte{0xff, 0}}, {Key: "tab\t"}, {Key: "same", Value: []byte("1")},
		{Key: "same", Value: []byte("2")}, {Key: "\xff\xfe", Value: []byte("not UTF-8")}, {Key: "größe"},
	}
	recs := collect(t, parse(t, build(t, BuilderOptions{}, Record{Headers: headers}, Record{}, Record{Headers: headers[:2]})))
	require.Equal(t, headers, recs[0].Headers)
	require.Nil(t, recs[1].Headers)
	require.Equal(t, headers[:2], recs[2].Headers)
}

func TestHeaderKeysAreNeverThoseOfAnotherRecord(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{},
		Record{Headers: []Header{{Key: "trace"}, {Key: "tenant"}}},
		Record{Headers: []Header{{Key: "tracf"}, {Key: "tenan"}}},
		Record{Headers: []Header{{Key: "tenant"}}},
		Record{Headers: []Header{{Key: "tenant"}, {Key: "tenan"}, {Key: "x"}}},
	))
	it := NewIterator(DecodeOptions{})
	for range 2 {
		require.NoError(t, it.Reset(b))
		var keys []string
		for it.Next() {
			for _, h := range it.Record().Headers {
				keys = append(keys, h.Key)
			}
		}
		require.Equal(t, []string{"trace", "tenant", "tracf", "tenan", "tenant", "tenant", "tenan", "x"}, keys)
	}
}

func TestUncompressedRecordsShareTheBytesOfTheBatch(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{}, Record{Key: []byte("key"), Value: []byte("value")}))
	it := NewIterator(DecodeOptions{})
	require.NoError(t, it.Reset(b))
	require.True(t, it.Next())
	key := it.Record().Key
	require.Equal(t, 3, cap(key), "appending to a key must not reach the value")
	b.Bytes()[HeaderSize+5] = 'K'
	require.Equal(t, "Key", string(key))
}

// Batches with their last records removed, and without any, end where they
// always did.
func TestOffsetsComeFromDeltasAndNotFromCounting(t *testing.T) {
	builder := NewBuilder(BuilderOptions{BaseOffset: 20})
	require.NoError(t, builder.AppendAt(20, Record{}))
	require.NoError(t, builder.AppendAt(23, Record{}))
	require.NoError(t, builder.SetLastOffset(29))
	log := slices.Concat(
		AppendEmptyBatch(nil, BatchHeader{BaseOffset: 10, LastOffsetDelta: 9}),
		built(t, builder),
		build(t, BuilderOptions{BaseOffset: 30}, Record{}),
	)
	for _, tt := range []struct {
		from int64
		want []int64
	}{
		{10, []int64{20, 23, 30}}, {15, []int64{20, 23, 30}}, {21, []int64{23, 30}}, {24, []int64{30}}, {31, nil},
	} {
		var got, next []int64
		it := NewIterator(DecodeOptions{})
		for rest := log; len(rest) > 0; {
			b := parse(t, rest)
			require.NoError(t, b.Verify(nil))
			require.NoError(t, it.Reset(b))
			for ok := it.SkipTo(tt.from); ok; ok = it.Next() {
				got = append(got, it.Record().Offset)
			}
			require.NoError(t, it.Err())
			next = append(next, b.NextOffset())
			rest = rest[b.Size():]
		}
		require.Equal(t, tt.want, got, "from %d", tt.from)
		require.Equal(t, []int64{20, 30, 31}, next)
	}
}

func TestEmptyControlBatchIsNoRecords(t *testing.T) {
	b := parse(t, AppendEmptyBatch(nil, BatchHeader{Attributes: endTxnAttributes, ProducerID: 7}))
	require.True(t, b.IsControl() && b.IsTransactional())
	require.Equal(t, int32(0), b.Count())
	require.NoError(t, b.Verify(nil))
	require.Empty(t, collect(t, b))
}

// A codec without anything compressed is what a careless compaction leaves.
func TestEmptyBatchWithACodecIsNoRecords(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		require.Empty(t, collect(t, rawBatch(0, codec, nil)))
	}
}

func TestAppendTimeOverridesTheDeltas(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{TimestampType: LogAppendTime, LogAppendTime: 5000},
		Record{Timestamp: 1000}, Record{Timestamp: 1010}, Record{Timestamp: 1020}))
	require.Equal(t, int64(1000), b.BaseTimestamp())
	for _, r := range collect(t, b) {
		require.Equal(t, int64(5000), r.Timestamp)
	}
}

func TestSkipToIsNextUntilTheOffset(t *testing.T) {
	var recs []Record
	for i := range 300 {
		recs = append(recs, Record{Timestamp: int64(i) * 100, Key: noise(1, i%70), Value: noise(2, i), Headers: make([]Header, i%3)})
	}
	builder := NewBuilder(BuilderOptions{BaseOffset: 1000})
	for i, r := range recs {
		require.NoError(t, builder.AppendAt(1000+3*int64(i), r))
	}
	b := parse(t, built(t, builder))
	want := collect(t, b)
	it := NewIterator(DecodeOptions{})
	for _, offset := range []int64{-5, 0, 999, 1000, 1001, 1003, 1450, 1500, 1897, 1898, 5000} {
		require.NoError(t, it.Reset(b))
		i := slices.IndexFunc(want, func(r Record) bool { return r.Offset >= offset })
		if i < 0 {
			require.False(t, it.SkipTo(offset))
			require.NoError(t, it.Err())
			continue
		}
		require.True(t, it.SkipTo(offset), "offset %d", offset)
		require.Equal(t, want[i], it.Record().Clone())
		if i+1 < len(want) {
			require.True(t, it.SkipTo(offset), "skipping never goes back")
			require.Equal(t, want[i+1], it.Record().Clone())
		}
	}
}

func TestSkipToStopsAtWhatItCannotSkip(t *testing.T) {
	fine := rawRecord(0, 0, 0, 1, 1, 0)
	for name, bad := range map[string][]byte{
		"length cut off":   {0x80},
		"length too large": {40, 0, 0, 0, 1, 1, 0},
		"length 0":         {0},
		"timestamp":        rawRecord(0, 0x80),
		"offset":           rawRecord(0, 0, 0x80),
	} {
		it := NewIterator(DecodeOptions{})
		require.NoError(t, it.Reset(rawBatch(2, None, slices.Concat(fine, bad))))
		require.False(t, it.SkipTo(1000), name)
		require.ErrorIs(t, it.Err(), ErrInvalid, name)
		require.ErrorContains(t, it.Err(), "record 1")
	}
	it := NewIterator(DecodeOptions{})
	require.NoError(t, it.Reset(rawBatch(1, None, slices.Concat(fine, fine))))
	require.False(t, it.SkipTo(1000))
	require.ErrorContains(t, it.Err(), "leaves 7 bytes")
}

func TestIteratorIsReadyAfterClose(t *testing.T) {
	it := NewIterator(DecodeOptions{MaxDecompressed: 1 << 10})
	for codec := None; codec <= Zstd; codec++ {
		require.NoError(t, it.Reset(parse(t, build(t, BuilderOptions{Codec: codec}, Record{Value: []byte("v")}))))
		require.True(t, it.Next())
		it.Close()
		require.False(t, it.Next())
		require.NoError(t, it.Err())
	}
	require.ErrorIs(t, it.Reset(parse(t, build(t, BuilderOptions{Codec: Gzip}, Record{Value: make([]byte, 1<<11)}))), ErrTooLarge,
		"the limits stay")
}

func TestARecordOutlivesTheNextOne(t *testing.T) {
	for _, size := range []int{10, 10_000} { // decoded one way and the other
		recs := benchRecords(7, 3)
		for i := range recs {
			recs[i].Value = noise(uint64(i), size)
			recs[i].Headers = recs[i].Headers[:i%4]
			for h := range recs[i].Headers {
				recs[i].Headers[h].Value = fmt.Appendf(nil, "value %d of %d", h, i)
			}
		}
		it := NewIterator(DecodeOptions{})
		for range 2 { // an odd number of records, and again
			require.NoError(t, it.Reset(parse(t, build(t, BuilderOptions{}, recs...))))
			require.True(t, it.Next())
			for i := range recs {
				r := it.Record()
				require.Equal(t, i < len(recs)-1, it.Next())
				require.EqualValues(t, i, r.Offset)
				require.Equal(t, recs[i].Value, r.Value)
				require.Len(t, r.Headers, len(recs[i].Headers))
				for h, header := range r.Headers {
					require.Equal(t, recs[i].Headers[h], header)
				}
			}
			require.NoError(t, it.Err())
		}
	}
}

// A record below the base offset of its batch can only be damage, or not of Kafka's make.
func TestSkipToStepsOverRecordsBelowTheBaseOffset(t *testing.T) {
	b := build(t, BuilderOptions{BaseOffset: 100}, benchRecords(3, 0)...)
	first := parse(t, b)
	first.b[HeaderSize+4]++ // the offset delta of the first record: -1
	for from, want := range map[int64]int64{99: 99, 100: 101, 101: 101, 102: 102} {
		it := NewIterator(DecodeOptions{})
		require.NoError(t, it.Reset(first))
		require.True(t, it.SkipTo(from))
		require.Equal(t, want, it.Record().Offset, "from %d", from)
	}
}
