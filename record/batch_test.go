package record

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseFrameReadsWhatEveryBatchStartsWith(t *testing.T) {
	v2, v0 := unhex(t, goldens[0].hex), unhex(t, goldens[1].hex)
	whole := func(b []byte, size uint32) []byte {
		b = append([]byte(nil), b...)
		be.PutUint32(b[8:], size)
		return b
	}
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  Frame
		err   error
	}{
		{name: "nothing", err: ErrShort},
		{name: "1 byte", bytes: v2[:1], err: ErrShort},
		{name: "12 bytes", bytes: v2[:12], err: ErrShort},
		{name: "16 bytes", bytes: v2[:16], err: ErrShort},
		{name: "17 bytes of a larger batch", bytes: v2[:17], want: Frame{Size: 97, Magic: 2}},
		{name: "magic 0", bytes: v0, want: Frame{Size: 36}},
		{name: "unknown magic", bytes: append(append([]byte(nil), v2[:16]...), 37), want: Frame{Size: 97, Magic: 37}},
		{name: "zeros", bytes: make([]byte, 64), err: ErrCorrupt},
		{name: "size 13", bytes: whole(v2, 13), err: ErrCorrupt},
		{name: "size 14", bytes: whole(v2, 14), want: Frame{Size: 26, Magic: 2}},
		{name: "size -1", bytes: whole(v2, 0xffffffff), err: ErrCorrupt},
		{name: "size -12", bytes: whole(v2, 0xfffffff4), err: ErrCorrupt},
		{name: "smallest size", bytes: whole(v2, 0x80000000), err: ErrCorrupt},
		{name: "largest size", bytes: whole(v2, 0x7fffffff), err: ErrCorrupt},
		{name: "size that overflows with the overhead", bytes: whole(v2, 0x7ffffff8), err: ErrCorrupt},
		{name: "largest size that does not", bytes: whole(v2, math.MaxInt32-12), want: Frame{Size: math.MaxInt32, Magic: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFrame(tt.bytes)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, f)
		})
	}
}

func TestParseTakesOneWholeBatch(t *testing.T) {
	first, second := unhex(t, goldens[0].hex), unhex(t, goldens[3].hex)
	log := append(append([]byte(nil), first...), second...)

	b, err := Parse(log)
	require.NoError(t, err)
	require.Equal(t, first, b.Bytes())
	require.Equal(t, len(first), cap(b.Bytes()), "appending to a batch must not reach the next")

	b, err = Parse(log[len(first):])
	require.NoError(t, err)
	require.Equal(t, second, b.Bytes())

	for cut := range first {
		_, err := Parse(first[:cut])
		require.ErrorIs(t, err, ErrShort, "%d bytes", cut)
	}
}

func TestParseRefusesWhatNoBatchIs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(b []byte)
		is     []error
		text   string
	}{
		{
			"magic 37", func(b []byte) { b[magicPos] = 37 },
			[]error{ErrCorrupt, ErrUnsupported}, "offset 0: magic 37: unsupported format",
		},
		{
			"negative magic", func(b []byte) { b[magicPos] = 0xff },
			[]error{ErrCorrupt, ErrUnsupported}, "offset 0: magic -1: unsupported format",
		},
		{
			"length 10", func(b []byte) { be.PutUint32(b[lengthPos:], 10) },
			[]error{ErrCorrupt}, "offset 0: size 10 is outside [14, 2147483635]",
		},
		{
			"a header cut short", func(b []byte) { be.PutUint32(b[lengthPos:], 48) },
			[]error{ErrCorrupt}, "offset 0: size 48 is less than the 49 a batch of magic 2 needs",
		},
		{
			"magic 1 of the size of magic 0", func(b []byte) { b[magicPos] = 1; be.PutUint32(b[lengthPos:], 21) },
			[]error{ErrCorrupt}, "offset 0: size 21 is less than the 22 a batch of magic 1 needs",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(t, goldens[0].hex)
			tt.change(b)
			_, err := Parse(b)
			for _, is := range tt.is {
				require.ErrorIs(t, err, is)
			}
			require.EqualError(t, err, tt.text)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, -1, e.Record)
		})
	}
}

func TestSummarizeNeedsOnlyTheHeader(t *testing.T) {
	for _, g := range goldens {
		b := unhex(t, g.hex)
		head := HeaderSize
		if b[magicPos] < 2 {
			head = []int{legacySizeV0, legacySizeV1}[b[magicPos]]
		}
		s, err := Summarize(b[:head])
		require.NoError(t, err)
		require.Equal(t, Summary{
			Magic: int8(b[magicPos]), Size: len(b),
			BaseOffset: g.head.BaseOffset, LastOffset: g.head.BaseOffset + int64(g.head.LastOffsetDelta),
			MaxTimestamp: g.head.MaxTimestamp, LeaderEpoch: g.head.LeaderEpoch, ProducerID: g.head.ProducerID,
			Transactional: g.head.Attributes.Transactional(),
		}, s, g.name)
		for cut := range head {
			_, err := Summarize(b[:cut])
			require.ErrorIs(t, err, ErrShort)
		}
	}
}

func TestChecksumCoversEverythingFromTheAttributesOn(t *testing.T) {
	for _, g := range []golden{goldens[0], goldens[1], goldens[2]} {
		good := unhex(t, g.hex)
		covered := attributesPos
		if good[magicPos] < 2 {
			covered = magicPos
		}
		for i := range good {
			b := append([]byte(nil), good...)
			b[i] ^= 0x40
			stored := i >= crcPos && i < crcPos+4
			if good[magicPos] < 2 {
				stored = i >= legacyCRCPos && i < legacyCRCPos+4
			}
			if i == magicPos {
				continue // another format altogether
			}
			require.Equal(t, i < covered && !stored, Batch{b}.IsValid(), "%s: byte %d", g.name, i)
		}
	}
}

func TestCheckSaysWhichChecksums(t *testing.T) {
	b := unhex(t, goldens[3].hex)
	b[len(b)-1]++
	err := parse(t, b).Check()
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "offset 200: crc mismatch (stored 9a44c09a, computed ")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "crc", e.Field)
}

func TestEmptiedBatchKeepsWhatOthersNeed(t *testing.T) {
	for _, a := range []Attributes{0, appendTimeBit, transactionalBit, controlBit, endTxnAttributes, appendTimeBit | endTxnAttributes} {
		h := BatchHeader{
			BaseOffset: 15, LastOffsetDelta: 22, LeaderEpoch: 15, Attributes: a | Attributes(Zstd) | deleteHorizonBit | 0x700,
			BaseTimestamp: 4000, MaxTimestamp: 5000, ProducerID: 23423, ProducerEpoch: 145, BaseSequence: 983, Count: 23,
		}
		b := parse(t, AppendEmptyBatch(nil, h))
		require.Equal(t, HeaderSize, b.Size())
		require.NoError(t, b.Verify(nil))
		want := h
		want.Attributes, want.BaseTimestamp, want.Count = a, NoTimestamp, 0
		require.Equal(t, want, b.Header())
		require.Equal(t, int64(37), b.LastOffset())
		require.Equal(t, int64(38), b.NextOffset())
		require.Equal(t, int32(1005), b.LastSequence())
		require.True(t, b.HasProducerID())
		require.Equal(t, a.Transactional(), b.IsTransactional())
		require.Equal(t, a.Control(), b.IsControl())
		_, ok := b.DeleteHorizon()
		require.False(t, ok)
		require.Empty(t, collect(t, b))
	}
}

const endTxnAttributes = transactionalBit | controlBit

func TestAppendedBatchesLeaveWhatIsThereAlone(t *testing.T) {
	dst := []byte("before")
	dst = AppendEmptyBatch(dst, BatchHeader{BaseOffset: 3})
	dst, err := AppendEndTxnMarker(dst, EndTxnBatch{Offset: 4, Marker: EndTxnMarker{Type: Commit}})
	require.NoError(t, err)
	require.Equal(t, "before", string(dst[:6]))
	first := parse(t, dst[6:])
	require.NoError(t, first.Verify(nil))
	second := parse(t, dst[6+first.Size():])
	require.NoError(t, second.Verify(nil))
	require.Len(t, dst, 6+61+78)
}

func TestOffsetsAndEpochAreStampedOutsideTheChecksum(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{}, Record{Timestamp: 1}, Record{Timestamp: 2}, Record{Timestamp: 3}))
	crc := b.CRC()
	b.SetLastOffset(500)
	require.NoError(t, b.SetLeaderEpoch(501))
	require.Equal(t, crc, b.CRC())
	require.NoError(t, b.Verify(nil))
	require.Equal(t, int64(498), b.BaseOffset())
	require.Equal(t, int64(500), b.LastOffset())
	require.Equal(t, int32(501), b.LeaderEpoch())
	require.Equal(t, []int64{498, 499, 500}, offsets(collect(t, b)))
	b.SetBaseOffset(7)
	require.Equal(t, []int64{7, 8, 9}, offsets(collect(t, b)))
	require.True(t, b.IsValid())
}

func TestAppendTimeReplacesEveryTimestampAndKeepsTheDeltas(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{}, Record{Timestamp: 1}, Record{Timestamp: 2}, Record{Timestamp: 3}))
	before := append([]byte(nil), b.Bytes()...)
	require.NoError(t, b.SetMaxTimestamp(LogAppendTime, 15))
	require.Equal(t, LogAppendTime, b.TimestampType())
	require.Equal(t, int64(15), b.MaxTimestamp())
	require.Equal(t, int64(1), b.BaseTimestamp())
	require.Equal(t, before[HeaderSize:], b.Bytes()[HeaderSize:])
	require.NoError(t, b.Verify(nil))
	for _, r := range collect(t, b) {
		require.Equal(t, int64(15), r.Timestamp)
	}
}

func TestSetMaxTimestampTouchesNothingWhenNothingChanges(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{}, Record{Timestamp: 9}))
	b.Bytes()[crcPos]++
	before := append([]byte(nil), b.Bytes()...)
	require.NoError(t, b.SetMaxTimestamp(CreateTime, 9))
	require.Equal(t, before, b.Bytes())
	require.NoError(t, b.SetMaxTimestamp(CreateTime, 10))
	require.True(t, b.IsValid(), "a change makes a new checksum")
}

func TestSetMaxTimestampKeepsKnownAttributesOnly(t *testing.T) {
	b := rawBatch(0, None, nil)
	be.PutUint16(b.Bytes()[attributesPos:], 0xff80|deleteHorizonBit|endTxnAttributes)
	require.NoError(t, b.SetMaxTimestamp(LogAppendTime, 5))
	require.Equal(t, Attributes(deleteHorizonBit|endTxnAttributes|appendTimeBit), b.Attributes())
	require.NoError(t, b.SetMaxTimestamp(CreateTime, 5))
	require.Equal(t, Attributes(deleteHorizonBit|endTxnAttributes), b.Attributes())
}

func TestSetMaxTimestampNeedsATimestampType(t *testing.T) {
	for _, g := range []golden{goldens[0], goldens[2]} {
		b := parse(t, unhex(t, g.hex))
		require.ErrorIs(t, b.SetMaxTimestamp(NoTimestampType, -1), ErrInvalid)
		require.ErrorIs(t, b.SetMaxTimestamp(2, 5), ErrInvalid)
		require.Equal(t, g.crc, b.ComputeCRC(), "nothing is changed")
	}
}

func TestSequencesWrapAround(t *testing.T) {
	const most = math.MaxInt32
	require.Equal(t, int32(10), IncrementSequence(5, 5))
	require.Equal(t, int32(0), IncrementSequence(most, 1))
	require.Equal(t, int32(4), IncrementSequence(most-5, 10))
	require.Equal(t, int32(0), DecrementSequence(5, 5))
	require.Equal(t, int32(most), DecrementSequence(0, 1))
	require.Equal(t, int32(most-5), DecrementSequence(4, 10))

	b := rawBatch(5, None, nil)
	require.Equal(t, NoSequence, b.LastSequence())
	be.PutUint32(b.Bytes()[baseSequencePos:], most-1)
	require.Equal(t, int32(2), b.LastSequence())
}

func TestUnusedAttributeBitsAreIgnoredAndKept(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{Codec: Gzip}, Record{Value: []byte("v")}))
	a := b.Bytes()[attributesPos:]
	be.PutUint16(a, be.Uint16(a)|0xff80)
	reseal(b.Bytes())
	require.Equal(t, Gzip, b.Codec())
	require.Equal(t, CreateTime, b.TimestampType())
	require.False(t, b.IsControl() || b.IsTransactional())
	require.Equal(t, Attributes(0xff81), b.Attributes())
	require.NoError(t, b.Verify(nil))
	require.Len(t, collect(t, b), 1)
}

func TestVerifyWantsOffsetsThatRiseWithinTheHeader(t *testing.T) {
	at := func(deltas ...byte) (b []byte) {
		for _, d := range deltas {
			b = append(b, rawRecord(0, 0, d, 1, 1, 0)...)
		}
		return b
	}
	for _, tt := range []struct {
		name   string
		batch  Batch
		change func(b []byte)
		text   string // "" if it is fine
	}{
		{name: "consecutive", batch: rawBatch(3, None, at(0, 2, 4))},
		{name: "with a gap", batch: rawBatch(2, None, at(0, 4)), change: func(b []byte) { be.PutUint32(b[lastOffsetDeltaPos:], 9) }},
		{name: "twice the same", batch: rawBatch(3, None, at(0, 2, 2)), text: "offset 100: record 2: offset 101 is not above 101"},
		{name: "falling", batch: rawBatch(3, None, at(4, 2, 0)), text: "offset 100: record 1: offset 101 is not above 102"},
		{name: "below the base", batch: rawBatch(1, None, at(1)), text: "offset 100: record 0: offset 99 is outside [100, 100]"},
		{name: "beyond the last", batch: rawBatch(2, None, at(0, 4)), text: "offset 100: record 1: offset 102 is outside [100, 101]"},
		{
			name: "negative last offset delta", batch: rawBatch(0, None, nil),
			change: func(b []byte) { be.PutUint32(b[lastOffsetDeltaPos:], 0xffffffff) },
			text:   "offset 100: last offset delta -1 is negative",
		},
		{
			name: "negative base offset", batch: rawBatch(0, None, nil),
			change: func(b []byte) { b[0] = 0x80 }, text: "offset -9223372036854775708: base offset is negative",
		},
		{
			name: "last offset beyond 63 bits", batch: rawBatch(2, None, at(0, 2)),
			change: func(b []byte) { be.PutUint64(b, math.MaxInt64-1) },
			text:   "offset 9223372036854775806: last offset delta 1 leads beyond the last possible offset",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(tt.batch.Bytes())
				reseal(tt.batch.Bytes())
			}
			err := tt.batch.Verify(nil)
			if tt.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.EqualError(t, err, tt.text)
			var e *Error
			require.ErrorAs(t, err, &e)
		})
	}
}

func TestVerifyChecksTheChecksumFirst(t *testing.T) {
	b := rawBatch(1, None, []byte{9, 9})
	b.Bytes()[crcPos]++
	require.ErrorIs(t, b.Verify(nil), ErrCorrupt)
}

func TestFirstOffsetOfMagic2IsTheBase(t *testing.T) {
	offset, err := parse(t, unhex(t, goldens[7].hex)).FirstOffset(nil)
	require.NoError(t, err)
	require.Equal(t, int64(10), offset)
}

func TestRecordsStopsWhenAsked(t *testing.T) {
	b := parse(t, build(t, BuilderOptions{}, Record{}, Record{}, Record{}))
	n := 0
	for r, err := range b.Records(nil) {
		require.NoError(t, err)
		require.Equal(t, int64(n), r.Offset)
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

func TestRecordsEndsWithTheError(t *testing.T) {
	b := rawBatch(2, None, append(rawRecord(0, 0, 0, 1, 1, 0), 9, 9))
	n := 0
	for r, err := range b.Records(nil) {
		if n++; n == 2 {
			require.Nil(t, r)
			require.ErrorIs(t, err, ErrInvalid)
		}
	}
	require.Equal(t, 2, n)

	n = 0
	for r, err := range rawBatch(-1, None, nil).Records(nil) {
		n++
		require.Nil(t, r)
		require.ErrorIs(t, err, ErrInvalid)
	}
	require.Equal(t, 1, n)
}

func TestNamesAreKafkas(t *testing.T) {
	require.Equal(t, "NoTimestampType CreateTime LogAppendTime TimestampType(7)",
		NoTimestampType.String()+" "+CreateTime.String()+" "+LogAppendTime.String()+" "+TimestampType(7).String())
	for name, c := range map[string]Codec{"none": None, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd} {
		require.Equal(t, name, c.String())
		got, err := ParseCodec(name)
		require.NoError(t, err)
		require.Equal(t, c, got)
		require.True(t, c.Valid())
	}
	for _, c := range []Codec{-1, 5, 6, 7} {
		require.False(t, c.Valid())
	}
	require.Equal(t, "codec 5", Codec(5).String())
	_, err := ParseCodec("brotli")
	require.ErrorIs(t, err, ErrUnsupported)
}

func TestCloneSharesNothing(t *testing.T) {
	r := Record{
		Offset: 3, Timestamp: 4, Key: []byte{}, Value: []byte("value"),
		Headers: []Header{{Key: "a", Value: []byte("x")}, {Key: "a"}, {Value: []byte{}}},
	}
	c := r.Clone()
	require.Equal(t, r, c)
	r.Value[0], r.Headers[0].Value[0], r.Headers[1].Key = 'X', 'Y', "b"
	require.Equal(t, "value", string(c.Value))
	require.Equal(t, "x", string(c.Headers[0].Value))
	require.Equal(t, "a", c.Headers[1].Key)

	empty := Record{Key: []byte{}, Headers: []Header{}}
	require.Equal(t, empty, empty.Clone(), "empty is not null")
	require.Equal(t, Record{}, Record{}.Clone())

	_ = append(c.Key, "overwrite"...)
	require.Equal(t, "value", string(c.Value), "appending to a field must not reach the next")
}

func TestCloneIntoUsesTheMemoryItIsGiven(t *testing.T) {
	r := Record{Key: []byte("key"), Value: []byte("value")}
	buf := make([]byte, 0, 64)
	c, got := r.CloneInto(buf)
	require.Equal(t, r, c)
	require.Equal(t, "keyvalue", string(buf[:8]))
	require.Equal(t, 64, cap(got))
	c, got = r.CloneInto(make([]byte, 3, 7))
	require.Equal(t, r, c)
	require.GreaterOrEqual(t, cap(got), 8)
}

func offsets(recs []Record) (offsets []int64) {
	for _, r := range recs {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}
