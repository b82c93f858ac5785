package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// fuzzLimit bounds decompression while fuzzing.
const fuzzLimit = 64 << 10

// Whatever the bytes,
//   - nothing panics, or reads past their end: every slice ends with them;
//   - errors are of the documented kinds;
//   - decompression stays within its limit;
//   - what Verify accepts Iterator decodes, and SkipTo agrees with Next;
//   - the header encodes to the bytes it was decoded from, and so do the records
//     once they have been encoded here;
//   - the annotated text shows every byte once.
func FuzzParseBatch(f *testing.F) {
	for _, g := range goldens {
		f.Add(unhex(f, g.hex))
	}
	files, err := filepath.Glob("testdata/kafka/*.batch")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add(make([]byte, 100))
	f.Add(rawBatch(5, None, slices.Concat(rawRecord(0, 0, 0, 1, 1, 4, 0, 1, 2, 'k', 2, 'v'), rawRecord(0, 1, 2, 3, 3, 0))).Bytes())

	it := NewIterator(DecodeOptions{MaxDecompressed: fuzzLimit})
	f.Fuzz(func(t *testing.T, in []byte) {
		in = slices.Clip(slices.Clone(in))
		b, err := Parse(in)
		checkKind(t, err, ErrShort, ErrCorrupt)
		s, serr := Summarize(in)
		checkKind(t, serr, ErrShort, ErrCorrupt)
		if err != nil {
			return
		}
		require.NoError(t, serr)
		require.Equal(t, Summary{b.Magic(), b.Size(), b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), b.LeaderEpoch(), b.ProducerID(), b.IsTransactional()}, s)

		reseal(b.Bytes())
		require.NoError(t, b.Check())
		verified := b.Verify(it)
		checkKind(t, verified, ErrInvalid, ErrCorrupt, ErrUnsupported, ErrTooLarge)
		recs, err := decode(b, DecodeOptions{MaxDecompressed: fuzzLimit})
		checkKind(t, err, ErrInvalid, ErrCorrupt, ErrUnsupported, ErrTooLarge)
		if verified == nil {
			require.NoError(t, err)
		}
		if b.Codec() != None {
			size := 0
			for i := range recs {
				size += len(recs[i].Key) + len(recs[i].Value)
			}
			require.LessOrEqual(t, size, fuzzLimit)
		}
		if err == nil && len(recs) > 0 && verified == nil {
			last := recs[len(recs)-1]
			require.NoError(t, it.Reset(b))
			require.True(t, it.SkipTo(last.Offset))
			require.Equal(t, last, *it.Record())
		}
		if !b.legacy() {
			checkHeader(t, b)
		}
		if err == nil && !b.legacy() {
			checkRecords(t, b, recs)
		}
		if len(in) < 1<<12 {
			require.Equal(t, b.Bytes(), annotatedBytes(t, AppendAnnotated(nil, b)))
		}
	})
}

func checkKind(t *testing.T, err error, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if err == nil || errors.Is(err, kind) {
			return
		}
	}
	t.Fatalf("%v is none of %v", err, kinds)
}

func checkHeader(t *testing.T, b Batch) {
	again := append(make([]byte, HeaderSize), b.Bytes()[HeaderSize:]...)
	putHeader(again, b.Header())
	require.Equal(t, b.Bytes(), again)
}

// checkRecords encodes recs, which are those of b, decodes and encodes them
// again. The first encoding may be shorter than b, which can have longer
// varints than it takes; after that nothing changes any more.
func checkRecords(t *testing.T, b Batch, recs []Record) {
	h := b.Header()
	h.Attributes &^= codecMask
	encode := func(recs []Record) Batch {
		out := make([]byte, HeaderSize)
		for i := range recs {
			r := &recs[i]
			offset, timestamp := int32(r.Offset-h.BaseOffset), r.Timestamp-h.BaseTimestamp
			if h.Attributes.TimestampType() == LogAppendTime {
				timestamp = 0
			}
			out = appendRecord(out, int32(sizeBody(offset, timestamp, r)), offset, timestamp, r)
		}
		putHeader(out, h)
		return Batch{out}
	}
	once := encode(recs)
	again, err := decode(once, DecodeOptions{})
	require.NoError(t, err)
	require.Equal(t, recs, again)
	require.Equal(t, once, encode(again))
}

// Whatever a wrapper of magic 0 or 1 holds, nothing panics, and its messages are
// those at the start of the bytes.
func FuzzLegacySet(f *testing.F) {
	f.Add(legacySet(inner(0, 1, 2, 5)...), byte(0), byte(Gzip), int64(5), false)
	f.Add(legacySet(inner(1, 0, 1, 2)...), byte(1), byte(LZ4), int64(22), true)
	f.Add(legacySet(inner(1, 0, 1, 2)...), byte(1), byte(Snappy), int64(0), false)
	f.Add(legacySet(inner(1, 0)...)[:30], byte(1), byte(None), int64(0), false)
	f.Add([]byte{}, byte(1), byte(Zstd), int64(0), false)
	f.Fuzz(func(t *testing.T, set []byte, magic, codec byte, offset int64, appendTime bool) {
		m := legacyMessage{magic: int8(magic % 2), codec: Codec(codec % 4), offset: offset, appendTime: appendTime, timestamp: 77, value: set}
		if m.codec != None {
			var c compressor
			var err error
			m.value, err = c.appendEncoded(nil, set, m.codec, 0)
			require.NoError(t, err)
		}
		b := parse(t, appendLegacy(nil, m))
		recs, err := decode(b, DecodeOptions{})
		checkKind(t, err, ErrInvalid, ErrCorrupt)
		checkKind(t, b.Verify(nil), ErrInvalid, ErrCorrupt)
		if m.codec == None {
			require.Equal(t, [][]byte{set}, [][]byte{append([]byte{}, recs[0].Value...)})
			return
		}
		p := 0
		for i, r := range recs {
			inside := parse(t, set[p:])
			if m.magic == 0 || offset == 0 {
				require.Equal(t, inside.LastOffset(), r.Offset)
			} else if i > 0 {
				require.Equal(t, inside.LastOffset()-parse(t, set).LastOffset(), r.Offset-recs[0].Offset)
			}
			if appendTime && m.magic == 1 && inside.Magic() == 1 {
				require.Equal(t, int64(77), r.Timestamp)
			} else {
				require.Equal(t, inside.MaxTimestamp(), r.Timestamp)
			}
			p += inside.Size()
		}
	})
}

// Whatever the records, they are in the batch that is built of them, and the
// batch is valid and within the size that was said.
func FuzzBuildParse(f *testing.F) {
	f.Add([]byte("key,value"), byte(0), int64(0), int64(0), int64(0))
	f.Add([]byte{0, 1, 2, 3, 200, 255, 7, 7, 7, 7}, byte(LZ4), int64(100), int64(1000), int64(99))
	f.Add(noise(1, 300), byte(Zstd), int64(1<<40), int64(-1), int64(1<<62))
	f.Add(noise(2, 3000), byte(Snappy), int64(5), int64(1<<62), int64(-1))
	f.Fuzz(func(t *testing.T, in []byte, codec byte, base, timestamp, horizon int64) {
		opts := BuilderOptions{BaseOffset: base, Codec: Codec(codec % 5), HasDeleteHorizon: horizon >= 0, DeleteHorizon: horizon}
		b := NewBuilder(opts)
		var want []Record
		offset := max(base, 0)
		for len(in) > 0 {
			r := Record{Offset: offset, Timestamp: timestamp}
			r.Key, in = cutField(in)
			r.Value, in = cutField(in)
			for len(in) > 0 && in[0]&3 == 3 && len(r.Headers) < 4 {
				var key []byte
				h := Header{}
				key, in = cutField(in[1:])
				h.Key = string(key)
				h.Value, in = cutField(in)
				r.Headers = append(r.Headers, h)
			}
			if err := b.AppendAt(offset, r); err != nil {
				checkKind(t, err, ErrInvalid, ErrTooLarge)
				require.True(t, base < 0 || base > 1<<62 || timestamp < NoTimestamp, "%v", err)
				break
			}
			want = append(want, r)
			offset += 1 + int64(len(in)%3)
			timestamp ^= int64(len(r.Value))
		}
		out, err := b.Build()
		if len(want) == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.LessOrEqual(t, len(out), b.Size())
		batch := parse(t, out)
		require.Len(t, out, batch.Size())
		require.NoError(t, batch.Verify(nil))
		require.Equal(t, want, collect(t, batch))
	})
}

// cutField cuts a field from the start of in: null, empty or up to 63 bytes.
func cutField(in []byte) (field, rest []byte) {
	if len(in) == 0 || in[0] == 0xff {
		return nil, in[min(1, len(in)):]
	}
	n := min(int(in[0]&63), len(in)-1)
	return in[1 : 1+n : 1+n], in[1+n:]
}

// Whatever the bytes, decoding neither panics nor exceeds its limit, agrees with
// the library on raw blocks, and what it returns survives encoding.
func FuzzSnappy(f *testing.F) {
	f.Add([]byte(snappyHeader))
	f.Add(encode(f, Snappy, 0, noise(1, 100)))
	f.Add(encode(f, Snappy, 0, make([]byte, 40<<10)))
	f.Add(s2.EncodeSnappy(nil, []byte("raw block of some text text text text text text")))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := decompress(slices.Clip(in), Snappy, fuzzLimit)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(out), fuzzLimit)
		if len(in) < snappyHeaderSize || string(in[:8]) != snappyMagic {
			want, err := s2.Decode(nil, in)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, out))
		}
		checkCodec(t, Snappy, out)
	})
}

// As FuzzSnappy, the library being its reader of frames. That one reads frames
// behind the first as well, and checks the checksum of the content.
func FuzzLZ4(f *testing.F) {
	f.Add(encode(f, LZ4, 0, nil))
	f.Add(encode(f, LZ4, 0, noise(1, 100)))
	f.Add(encode(f, LZ4, 1, make([]byte, 70<<10)))
	f.Add([]byte{0x04, 0x22, 0x4d, 0x18, 0x70, 0x40, 0xad, 1, 0, 0, 0x80, 'x', 0x4b, 0x1c, 0x5c, 0x1c, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := decompress(slices.Clip(in), LZ4, fuzzLimit)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(out), fuzzLimit)
		if want, err := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(in)), 2*fuzzLimit)); err == nil {
			require.True(t, bytes.HasPrefix(want, out))
		}
		checkCodec(t, LZ4, out)
	})
}

// Whatever the bytes, decoding neither panics nor exceeds its limit, and what it
// returns survives encoding.
func FuzzGzipAndZstd(f *testing.F) {
	for codec := range map[Codec]bool{Gzip: true, Zstd: true} {
		f.Add(byte(codec), encode(f, codec, 0, noise(1, 100)))
		f.Add(byte(codec), encode(f, codec, 9, make([]byte, 70<<10)))
		f.Add(byte(codec), slices.Concat(encode(f, codec, 1, []byte("one")), encode(f, codec, 1, []byte("two"))))
	}
	f.Add(byte(Zstd), []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x03, 0x00, 0x10, 0})
	f.Fuzz(func(t *testing.T, which byte, in []byte) {
		codec := Gzip
		if which%2 == 0 {
			codec = Zstd
		}
		out, err := decompress(slices.Clip(in), codec, fuzzLimit)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(out), fuzzLimit)
		checkCodec(t, codec, out)
	})
}

func checkCodec(t *testing.T, codec Codec, body []byte) {
	out, err := decompress(encode(t, codec, 0, body), codec, fuzzLimit)
	if codec == Zstd && len(body) == 0 {
		return // there is no frame of nothing, nor a batch
	}
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, out))
}

// Whatever the key and value, nothing panics, and what is read as a marker is
// written as one that reads the same.
func FuzzParseControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 15})
	f.Add([]byte{0, 5, 0, 1}, []byte{0, 5, 0, 0, 0, 15, 1, 2})
	f.Add([]byte{0, 0, 0}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		typ, stored, err := ParseControl(key)
		checkKind(t, err, ErrInvalid)
		if err == nil && typ != UnknownControl {
			require.Equal(t, int16(typ), stored)
		}
		m, err := ParseEndTxnMarker(key, value)
		checkKind(t, err, ErrInvalid)
		if err != nil {
			return
		}
		b, err := AppendEndTxnMarker(nil, EndTxnBatch{Marker: m})
		require.NoError(t, err)
		r := collect(t, parse(t, b))[0]
		again, err := ParseEndTxnMarker(r.Key, r.Value)
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
