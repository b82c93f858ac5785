package record

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBuilderRefusesOptionsThatContradict(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts BuilderOptions
		kind error // nil if they do not
		text string
	}{
		{name: "none", opts: BuilderOptions{}},
		{name: "producer 0 of epoch 0", opts: BuilderOptions{Producer: &Producer{}}},
		{name: "sequence without producer, as group coordinators write", opts: BuilderOptions{Producer: &Producer{ID: NoProducerID, Epoch: NoProducerEpoch}}},
		{name: "transaction", opts: BuilderOptions{Producer: &Producer{ID: 7}, Transactional: true}},
		{name: "control without sequence", opts: BuilderOptions{Producer: &Producer{ID: 7, BaseSequence: NoSequence}, Transactional: true, Control: true}},
		{name: "control without producer", opts: BuilderOptions{Control: true}},
		{name: "horizon at 0", opts: BuilderOptions{HasDeleteHorizon: true}},

		{"negative base offset", BuilderOptions{BaseOffset: -1}, ErrInvalid, "offset -1: base offset is negative"},
		{"codec 5", BuilderOptions{Codec: 5}, ErrUnsupported, "offset 0: codec 5"},
		{"no timestamp type", BuilderOptions{TimestampType: NoTimestampType}, ErrInvalid, "offset 0: timestamp type NoTimestampType"},
		{"transaction without producer", BuilderOptions{BaseOffset: 9, Transactional: true}, ErrInvalid, "offset 9: producer id is missing from a transactional batch"},
		{"negative producer", BuilderOptions{Producer: &Producer{ID: -2}}, ErrInvalid, "offset 0: producer id -2 is negative"},
		{"producer without epoch", BuilderOptions{Producer: &Producer{ID: 7, Epoch: -1}}, ErrInvalid, "offset 0: producer epoch -1 is negative"},
		{"producer without sequence", BuilderOptions{Producer: &Producer{ID: 7, BaseSequence: -1}}, ErrInvalid, "offset 0: base sequence -1 is negative"},
		{"horizon in the past of time", BuilderOptions{HasDeleteHorizon: true, DeleteHorizon: -1}, ErrInvalid, "offset 0: delete horizon -1 is negative"},
		{"gzip 10", BuilderOptions{Codec: Gzip, Level: 10}, ErrInvalid, "offset 0: level 10 is not one of gzip"},
		{"lz4 18", BuilderOptions{Codec: LZ4, Level: 18}, ErrInvalid, "offset 0: level 18 is not one of lz4"},
		{"zstd 23", BuilderOptions{Codec: Zstd, Level: 23}, ErrInvalid, "offset 0: level 23 is not one of zstd"},
		{"snappy 1", BuilderOptions{Codec: Snappy, Level: 1}, ErrInvalid, "offset 0: level 1 is not one of snappy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder(tt.opts)
			err := b.Append(Record{})
			if tt.kind == nil {
				require.NoError(t, err)
				require.NoError(t, parse(t, built(t, b)).Verify(nil))
				return
			}
			require.ErrorIs(t, err, tt.kind)
			require.EqualError(t, err, tt.text)
			_, err = b.Build()
			require.EqualError(t, err, tt.text)
			require.EqualError(t, b.SetLastOffset(5), tt.text)
			require.Zero(t, b.Len())

			b.Reset(BuilderOptions{})
			require.NoError(t, b.Append(Record{}))
			built(t, b)
		})
	}
}

func TestBuilderWantsRisingOffsetsAndRealTimestamps(t *testing.T) {
	b := NewBuilder(BuilderOptions{BaseOffset: 10})
	require.ErrorIs(t, b.AppendAt(9, Record{}), ErrInvalid)
	require.NoError(t, b.AppendAt(10, Record{}))
	require.EqualError(t, b.AppendAt(10, Record{}), "offset 10: record 1: offset 10 is not above 10")
	require.NoError(t, b.AppendAt(13, Record{Timestamp: NoTimestamp}))
	require.EqualError(t, b.AppendAt(12, Record{}), "offset 10: record 2: offset 12 is not above 13")
	require.EqualError(t, b.Append(Record{Timestamp: -2}), "offset 10: record 2: timestamp -2 is negative")
	require.ErrorIs(t, b.AppendAt(11+math.MaxInt32, Record{}), ErrTooLarge)
	require.NoError(t, b.Append(Record{}))
	require.NoError(t, b.AppendAt(10+math.MaxInt32, Record{}), "the last that fits")
	require.ErrorIs(t, b.Append(Record{}), ErrTooLarge)
	require.Equal(t, 4, b.Len())

	batch := parse(t, built(t, b))
	require.NoError(t, batch.Verify(nil))
	require.Equal(t, []int64{10, 13, 14, 10 + math.MaxInt32}, offsets(collect(t, batch)))
}

func TestBuilderRefusesABatchBeyond31Bits(t *testing.T) {
	b := new(Builder)
	require.NoError(t, b.Append(Record{Value: []byte("v")}))
	before := b.Size()
	// The value is there once, and counted often.
	value := make([]byte, 1<<20)
	headers := slices.Repeat([]Header{{Value: value}}, 1<<11)
	err := b.Append(Record{Headers: headers})
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "record 1: length 21")
	require.Equal(t, before, b.Size(), "the batch is as it was")
	require.NoError(t, b.Append(Record{}))
	require.Len(t, collect(t, parse(t, built(t, b))), 2)
}

func TestEmptyBuilderHasNoBatch(t *testing.T) {
	for _, b := range []*Builder{new(Builder), NewBuilder(BuilderOptions{Codec: Gzip})} {
		batch, err := b.Build()
		require.ErrorIs(t, err, ErrEmpty)
		require.Empty(t, batch)
		require.Zero(t, b.Len())
		require.Zero(t, b.Size())
	}
}

func TestZeroBuilderIsReady(t *testing.T) {
	var b Builder
	require.NoError(t, b.AppendAt(3, Record{Timestamp: 5, Value: []byte("v")}))
	batch := parse(t, built(t, &b))
	require.NoError(t, batch.Verify(nil))
	require.Equal(t, BatchHeader{
		LastOffsetDelta: 3, BaseTimestamp: 5, MaxTimestamp: 5,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 1,
	}, batch.Header())

	var c Builder
	require.NoError(t, c.SetLastOffset(7))
	require.NoError(t, c.AppendAt(8, Record{}))
}

func TestTimestampsOfABatchAreThoseOfItsRecords(t *testing.T) {
	for _, tt := range []struct {
		name      string
		times     []int64
		base, max int64
	}{
		{"one", []int64{7}, 7, 7},
		{"rising", []int64{1, 5, 9}, 1, 9},
		{"falling", []int64{9, 5, 1}, 9, 9},
		{"none", []int64{-1, -1}, -1, -1},
		{"none at first", []int64{-1, 5}, -1, 5},
		{"far apart", []int64{math.MaxInt64, 0, -1}, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var recs []Record
			for i, ts := range tt.times {
				recs = append(recs, Record{Offset: int64(i), Timestamp: ts})
			}
			b := parse(t, build(t, BuilderOptions{}, recs...))
			require.Equal(t, tt.base, b.BaseTimestamp())
			require.Equal(t, tt.max, b.MaxTimestamp())
			require.Equal(t, recs, collect(t, b))
		})
	}
}

func TestBuildGoesOnAfterBuild(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := NewBuilder(BuilderOptions{Codec: codec})
		require.NoError(t, b.Append(Record{Value: []byte("a")}))
		first := slices.Clone(built(t, b))
		require.Equal(t, first, built(t, b))
		require.NoError(t, b.Append(Record{Value: []byte("b")}))
		require.Len(t, collect(t, parse(t, built(t, b))), 2)
	}
}

func TestResetForgetsTheLastBatch(t *testing.T) {
	b := NewBuilder(BuilderOptions{
		BaseOffset: 5, Codec: Zstd, Producer: &Producer{ID: 1}, Transactional: true,
		HasDeleteHorizon: true, DeleteHorizon: 99, TimestampType: LogAppendTime, LogAppendTime: 7,
	})
	require.NoError(t, b.Append(Record{Timestamp: 50}))
	built(t, b)
	b.Reset(BuilderOptions{})
	require.Zero(t, b.Len())
	require.NoError(t, b.Append(Record{Timestamp: 3}))
	require.Equal(t, build(t, BuilderOptions{}, Record{Timestamp: 3}), built(t, b))
}

func TestSetLastOffsetOnlyExtends(t *testing.T) {
	b := NewBuilder(BuilderOptions{BaseOffset: 10})
	require.NoError(t, b.AppendAt(12, Record{}))
	require.ErrorIs(t, b.SetLastOffset(11), ErrInvalid)
	require.NoError(t, b.SetLastOffset(12))
	require.ErrorIs(t, b.SetLastOffset(11+math.MaxInt32), ErrTooLarge)
	require.NoError(t, b.SetLastOffset(20))
	batch := parse(t, built(t, b))
	require.NoError(t, batch.Verify(nil))
	require.Equal(t, int64(20), batch.LastOffset())
	require.ErrorIs(t, b.AppendAt(20, Record{}), ErrInvalid, "offsets go on behind")
}

func TestSizesAreWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(anyRecord(), 1, 20).Draw(t, "records")
		b := NewBuilder(BuilderOptions{})
		size := HeaderSize
		for i, r := range recs {
			if err := b.Append(r); err != nil {
				t.Fatal(err)
			}
			size += RecordSize(r, int32(i), r.Timestamp-recs[0].Timestamp)
		}
		batch, err := b.Build()
		require.NoError(t, err)
		require.Len(t, batch, size)
		require.Equal(t, size, b.Size())
		bound := SizeUpperBound(recs)
		require.GreaterOrEqual(t, bound, size)
		require.LessOrEqual(t, bound, size+20*len(recs))
	})
}

// anyRecord draws records, with the odd ones among them drawn often.
func anyRecord() *rapid.Generator[Record] {
	some := rapid.OneOf(
		rapid.Just([]byte(nil)), rapid.Just([]byte{}),
		rapid.SliceOfN(rapid.Byte(), 0, 10), rapid.SliceOfN(rapid.Byte(), 60, 70),
		rapid.Map(rapid.IntRange(0, 9000), func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }),
	)
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Timestamp: rapid.OneOf(rapid.Just(NoTimestamp), rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "timestamp"),
			Key:       some.Draw(t, "key"), Value: some.Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, Header{Key: rapid.SampledFrom([]string{"", "a", "trace-id"}).Draw(t, "header"), Value: some.Draw(t, "header value")})
		}
		return r
	})
}

// Whatever goes into a batch comes out again, under every codec and level, and
// the size is within what was said before.
func TestRecordsRoundTrip(t *testing.T) {
	b, it := new(Builder), new(Iterator)
	defer it.Close()
	rapid.Check(t, func(t *rapid.T) {
		codec := Codec(rapid.IntRange(0, 4).Draw(t, "codec"))
		level := 0
		if c := codecs[codec]; c.highest > 0 {
			level = rapid.IntRange(max(c.lowest, -30), c.highest).Draw(t, "level")
		}
		opts := BuilderOptions{BaseOffset: rapid.Int64Range(0, 1<<40).Draw(t, "base"), Codec: codec, Level: level}
		if rapid.Bool().Draw(t, "has horizon") {
			opts.HasDeleteHorizon, opts.DeleteHorizon = true, rapid.Int64Range(0, math.MaxInt64).Draw(t, "horizon")
		}
		b.Reset(opts)
		want := rapid.SliceOfN(anyRecord(), 1, 12).Draw(t, "records")
		offset := opts.BaseOffset
		for i := range want {
			offset += rapid.Int64Range(0, 100).Draw(t, "gap")
			want[i].Offset = offset
			require.NoError(t, b.AppendAt(offset, want[i]))
			offset++
		}
		bytes, err := b.Build()
		require.NoError(t, err)
		require.LessOrEqual(t, len(bytes), b.Size())
		batch, err := Parse(bytes)
		require.NoError(t, err)
		require.NoError(t, batch.Verify(it))
		require.NoError(t, it.Reset(batch))
		for i := range want {
			require.True(t, it.Next())
			require.Equal(t, want[i], *it.Record())
		}
		require.False(t, it.Next())
		require.NoError(t, it.Err())
	})
}

func TestSizeBoundsWhatCannotBeCompressed(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		c := codecs[codec]
		for _, level := range []int{c.lowest, 0, c.highest} {
			for _, n := range []int{1, 100, 32 << 10, 64 << 10, 64<<10 + 1, 300_000} {
				b := NewBuilder(BuilderOptions{Codec: codec, Level: level})
				require.NoError(t, b.Append(Record{Value: noise(uint64(n), n)}))
				size := b.Size()
				require.LessOrEqual(t, len(built(t, b)), size, "%s %d, %d bytes", codec, level, n)
				require.Less(t, size, n+n/100+300, "%s: a bound worth having", codec)
			}
		}
	}
}

func TestErrorsOfABuilderSayWhichRecord(t *testing.T) {
	b := NewBuilder(BuilderOptions{BaseOffset: 4})
	require.NoError(t, b.Append(Record{}))
	var e *Error
	require.True(t, errors.As(b.Append(Record{Timestamp: -9}), &e))
	require.Equal(t, Error{Kind: ErrInvalid, BaseOffset: 4, Record: 1, Field: "timestamp", Detail: "-9 is negative"}, *e)
}
