package record

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// inner is messages of a magic at the given offsets, with timestamps of ten
// times their place.
func inner(magic int8, offsets ...int64) (messages []legacyMessage) {
	for i, o := range offsets {
		messages = append(messages, legacyMessage{magic: magic, offset: o, timestamp: 10 * int64(i), key: []byte("k"), value: []byte{byte(i)}})
	}
	return messages
}

func TestLegacyWrappersHoldTheOffsetsTheyWereGiven(t *testing.T) {
	for _, tt := range []struct {
		name    string
		magic   int8
		wrapper int64
		inner   []int64
		want    []int64 // nil if it is invalid
	}{
		{"magic 1, from 0", 1, 2, []int64{0, 1, 2}, []int64{0, 1, 2}},
		{"magic 1, from 20", 1, 22, []int64{0, 1, 2}, []int64{20, 21, 22}},
		{"magic 1, wrapper at 0 as librdkafka once wrote it", 1, 0, []int64{0, 1, 2}, []int64{0, 1, 2}},
		{"magic 1, wrapper below the last inside", 1, 1, []int64{0, 1, 2}, nil},
		{"magic 1, gaps of compaction", 1, 20, []int64{0, 1, 2, 10}, []int64{10, 11, 12, 20}},
		{"magic 1, one", 1, 5, []int64{0}, []int64{5}},
		{"magic 0, absolute", 0, 22, []int64{20, 21, 22}, []int64{20, 21, 22}},
		{"magic 0, gaps of compaction", 0, 20, []int64{10, 11, 12, 20}, []int64{10, 11, 12, 20}},
	} {
		for _, codec := range []Codec{Gzip, Snappy, LZ4} {
			t.Run(tt.name+"/"+codec.String(), func(t *testing.T) {
				b := parse(t, wrap(t, legacyMessage{magic: tt.magic, offset: tt.wrapper, codec: codec, timestamp: 99}, inner(tt.magic, tt.inner...)...))
				require.Equal(t, tt.wrapper, b.LastOffset())
				require.Equal(t, tt.wrapper+1, b.NextOffset())
				require.Equal(t, tt.wrapper, b.BaseOffset(), "where it starts takes decompression")
				require.Equal(t, int32(-1), b.Count())
				require.Equal(t, codec, b.Codec())
				first, err := b.FirstOffset(nil)
				if tt.want == nil {
					require.ErrorIs(t, err, ErrInvalid)
					require.ErrorIs(t, b.Verify(nil), ErrInvalid)
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.want[0], first)
				recs := collect(t, b)
				require.Equal(t, tt.want, offsets(recs))
				for i, r := range recs {
					require.Equal(t, []byte{byte(i)}, r.Value)
					want := 10 * int64(i)
					if tt.magic == 0 {
						want = NoTimestamp
					}
					require.Equal(t, want, r.Timestamp)
				}
				require.NoError(t, b.Verify(nil))

				it := new(Iterator)
				require.NoError(t, it.Reset(b))
				require.True(t, it.SkipTo(tt.want[len(tt.want)-1]))
				require.Equal(t, recs[len(recs)-1], *it.Record())
				require.False(t, it.Next())
			})
		}
	}
}

func TestLegacyAppendTimeIsTheWrappers(t *testing.T) {
	b := parse(t, wrap(t, legacyMessage{magic: 1, offset: 2, codec: Gzip, timestamp: 20}, inner(1, 0, 1, 2)...))
	require.NoError(t, b.SetMaxTimestamp(LogAppendTime, 5000))
	require.NoError(t, b.Verify(nil))
	require.Equal(t, LogAppendTime, b.TimestampType())
	require.Equal(t, int64(5000), b.MaxTimestamp())
	for _, r := range collect(t, b) {
		require.Equal(t, int64(5000), r.Timestamp)
	}
	require.NoError(t, b.SetMaxTimestamp(CreateTime, 20))
	require.Equal(t, int64(10), collect(t, b)[1].Timestamp)
}

func TestLegacyBatchesMoveAsAWhole(t *testing.T) {
	b := parse(t, wrap(t, legacyMessage{magic: 1, offset: 2, codec: Gzip}, inner(1, 0, 1, 2)...))
	b.SetLastOffset(500)
	require.True(t, b.IsValid())
	require.Equal(t, []int64{498, 499, 500}, offsets(collect(t, b)))
}

func TestLegacyBatchesHaveNoneOfTheNewFields(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		b := parse(t, appendLegacy(nil, legacyMessage{magic: magic, offset: 7, timestamp: 5, value: []byte("v")}))
		require.Equal(t, int64(7), b.BaseOffset())
		require.Equal(t, int64(8), b.NextOffset())
		require.Equal(t, int32(1), b.Count())
		require.Equal(t, NoLeaderEpoch, b.LeaderEpoch())
		require.Equal(t, NoProducerID, b.ProducerID())
		require.Equal(t, NoProducerEpoch, b.ProducerEpoch())
		require.Equal(t, NoSequence, b.BaseSequence())
		require.Equal(t, NoSequence, b.LastSequence())
		require.False(t, b.HasProducerID() || b.IsTransactional() || b.IsControl())
		_, ok := b.DeleteHorizon()
		require.False(t, ok)
		require.ErrorIs(t, b.SetLeaderEpoch(3), ErrUnsupported)
		require.Equal(t, []Record{{Offset: 7, Timestamp: []int64{-1, 5}[magic], Value: []byte("v")}}, collect(t, b))
		require.NoError(t, b.Verify(nil))
	}
}

func TestMagic0HasNoTimestamps(t *testing.T) {
	b := parse(t, appendLegacy(nil, legacyMessage{value: []byte("v")}))
	require.Equal(t, NoTimestampType, b.TimestampType())
	require.Equal(t, NoTimestamp, b.MaxTimestamp())
	require.Equal(t, NoTimestamp, b.BaseTimestamp())
	require.ErrorIs(t, b.SetMaxTimestamp(LogAppendTime, 5), ErrUnsupported)
	require.ErrorIs(t, b.SetMaxTimestamp(CreateTime, 5), ErrUnsupported)
}

func TestLegacyNullAndEmptyAreNotTheSame(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		for _, r := range []Record{{}, {Key: []byte{}}, {Value: []byte{}}, {Key: []byte{}, Value: []byte{}}} {
			got := collect(t, parse(t, appendLegacy(nil, legacyMessage{magic: magic, key: r.Key, value: r.Value})))
			r.Timestamp = got[0].Timestamp
			require.Equal(t, []Record{r}, got)
		}
	}
}

func TestMalformedLegacyBatchesAreRefused(t *testing.T) {
	set := func(w legacyMessage, raw []byte) []byte {
		var c compressor
		w.value, _ = c.appendEncoded(nil, raw, Gzip, 0)
		w.codec = Gzip
		return appendLegacy(nil, w)
	}
	patched := func(b []byte, at int, v ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], v)
		return b
	}
	v1, v0 := legacyMessage{magic: 1, offset: 9}, legacyMessage{offset: 9}
	one := legacySet(inner(1, 0)...)
	for _, tt := range []struct {
		name  string
		bytes []byte
		is    []error
		text  string
	}{
		{"zstd in magic 0", appendLegacy(nil, legacyMessage{offset: 9, codec: Zstd, value: []byte("v")}), []error{ErrInvalid, ErrUnsupported}, "offset 9: codec zstd in magic 0: unsupported format"},
		{"zstd in magic 1", appendLegacy(nil, legacyMessage{magic: 1, offset: 9, codec: Zstd, value: []byte("v")}), []error{ErrInvalid, ErrUnsupported}, "offset 9: codec zstd in magic 1: unsupported format"},
		{"codec 5", appendLegacy(nil, legacyMessage{offset: 9, codec: 5, value: []byte("v")}), []error{ErrUnsupported}, "offset 9: codec 5"},
		{"wrapper without value", appendLegacy(nil, legacyMessage{offset: 9, codec: Gzip}), []error{ErrInvalid}, "offset 9: value of a compressed message is null"},
		{"wrapper of garbage", appendLegacy(nil, legacyMessage{offset: 9, codec: Gzip, value: []byte("garbage")}), []error{ErrInvalid}, "offset 9: records do not decompress from gzip: unexpected EOF"},
		{"wrapper of nothing", set(v1, nil), []error{ErrInvalid}, "offset 9: value of a compressed message holds no messages"},
		{"wrapper of a bit", set(v1, one[:20]), []error{ErrInvalid}, "offset 9: value of a compressed message holds no messages"},
		{"size 13 inside", set(v1, patched(one, 8, 0, 0, 0, 13)), []error{ErrCorrupt}, "offset 9: record 0: size 13 is less than 14"},
		{"size -1 inside", set(v1, patched(one, 8, 0xff, 0xff, 0xff, 0xff)), []error{ErrCorrupt}, "offset 9: record 0: size -1 is less than 14"},
		{"compressed inside compressed", set(v1, patched(one, legacyAttributesPos, 1)), []error{ErrInvalid}, "offset 9: record 0: codec is set inside a compressed message"},
		{"magic 2 inside", set(v1, patched(one, magicPos, 2)), []error{ErrInvalid}, "offset 9: record 0: magic 2 inside magic 1"},
		{"magic 1 inside, of a size for magic 0", set(v0, patched(legacySet(inner(0, 9)...)[:26], 8, 0, 0, 0, 14, 0, 0, 0, 0, 1)), []error{ErrInvalid}, "offset 9: record 0: size 14 is less than magic 1 needs"},
		{"key too long", patched(appendLegacy(nil, v1), legacyKeyPosV1, 0, 0, 0, 5), []error{ErrInvalid}, "offset 9: record 0: key length is not within the message"},
		{"value too long", patched(appendLegacy(nil, v0), legacyKeyPosV0+4, 0, 0, 0, 5), []error{ErrInvalid}, "offset 9: record 0: value length is not within the message"},
		{"no room for the value's length", patched(appendLegacy(nil, v0), legacyKeyPosV0, 0, 0, 0, 1), []error{ErrInvalid}, "offset 9: record 0: value length is not within the message"},
		{"wrapper with a key too long", patched(set(v0, one), legacyKeyPosV0, 0x7f), []error{ErrInvalid}, "offset 9: key length is not within the message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, reseal(tt.bytes))
			_, err := decode(b, DecodeOptions{})
			require.EqualError(t, err, tt.text)
			for _, is := range tt.is {
				require.ErrorIs(t, err, is)
			}
			require.Error(t, b.Verify(nil))
		})
	}
}

// As at the end of a log, a message that is cut off was never there.
func TestLegacySetEndsWhereAMessageIsCutOff(t *testing.T) {
	raw := legacySet(inner(1, 0, 1, 2)...)
	var c compressor
	value, err := c.appendEncoded(nil, raw[:len(raw)-1], Snappy, 0)
	require.NoError(t, err)
	b := parse(t, appendLegacy(nil, legacyMessage{magic: 1, offset: 11, codec: Snappy, value: value}))
	require.Equal(t, []int64{10, 11}, offsets(collect(t, b)))
}

// A reader does not mind; Kafka refuses it only when it is produced.
func TestLegacyMagicMayDifferInside(t *testing.T) {
	for _, tt := range []struct {
		wrapper, inside int8
		want            int64
	}{{0, 1, 0}, {1, 0, NoTimestamp}} {
		b := parse(t, wrap(t, legacyMessage{magic: tt.wrapper, codec: Gzip, timestamp: 50}, inner(tt.inside, 0)...))
		require.Equal(t, tt.want, collect(t, b)[0].Timestamp)
	}
}

func TestVerifyLooksAtTheChecksumsInside(t *testing.T) {
	messages := legacySet(inner(1, 0, 1)...)
	messages[len(messages)-1]++
	var c compressor
	value, err := c.appendEncoded(nil, messages, Gzip, 0)
	require.NoError(t, err)
	b := parse(t, appendLegacy(nil, legacyMessage{magic: 1, offset: 1, codec: Gzip, value: value}))
	require.NoError(t, b.Check())
	require.Len(t, collect(t, b), 2, "plain reading does not, nor does Kafka's")
	err = b.Verify(nil)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "offset 1: record 1: crc mismatch (stored ")
}

func TestVerifyWantsLegacyOffsetsToRise(t *testing.T) {
	b := parse(t, wrap(t, legacyMessage{offset: 12, codec: Gzip}, inner(0, 11, 11, 12)...))
	require.EqualError(t, b.Verify(nil), "offset 12: record 1: offset 11 is not above 11")
}

// A log in the middle of an upgrade has all formats, in any order.
func TestFormatsMayAlternate(t *testing.T) {
	log := slices.Concat(
		appendLegacy(nil, legacyMessage{offset: 0, value: []byte("a")}),
		wrap(t, legacyMessage{magic: 1, offset: 2, codec: Gzip}, inner(1, 0, 1)...),
		build(t, BuilderOptions{BaseOffset: 3}, Record{}, Record{}),
		appendLegacy(nil, legacyMessage{magic: 1, offset: 5, value: []byte("b")}),
		build(t, BuilderOptions{BaseOffset: 6, Codec: LZ4}, Record{}),
	)
	var got []int64
	var magics []int8
	it := new(Iterator)
	for rest := log; len(rest) > 0; {
		b := parse(t, rest)
		require.NoError(t, b.Verify(it))
		require.NoError(t, it.Reset(b))
		for it.Next() {
			got = append(got, it.Record().Offset)
		}
		require.NoError(t, it.Err())
		magics = append(magics, b.Magic())
		rest = rest[b.Size():]
	}
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, got)
	require.Equal(t, []int8{0, 1, 2, 1, 2}, magics)
}
