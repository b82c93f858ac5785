package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// kafkaRecords are the records that testdata/kafka/Vectors.java writes.
func kafkaRecords(magic, n int) []Record {
	recs := make([]Record, n)
	for i := range recs {
		r := Record{Offset: 40 + int64(i), Timestamp: 1700000000000 + 7*int64(i)}
		if magic == 0 {
			r.Timestamp = NoTimestamp
		}
		if i%3 != 1 {
			r.Key = fmt.Appendf(nil, "key-%d", i)
		}
		if i%3 != 2 {
			r.Value = []byte(strings.Repeat(fmt.Sprintf("value %d of %d. ", i, n), 30))
		}
		if magic == 2 && i%2 == 0 {
			r.Headers = []Header{{Key: "größe", Value: []byte{byte(i)}}, {Key: "null"}}
		}
		recs[i] = r
	}
	return recs
}

// Batches that Kafka's own classes wrote, with the libraries it uses.
func TestKafkasBatchesAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/kafka/*.batch")
	require.NoError(t, err)
	require.Len(t, files, 25)
	it := new(Iterator)
	defer it.Close()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			log, err := os.ReadFile(file)
			require.NoError(t, err)
			var got []Record
			for len(log) > 0 {
				b := parse(t, log)
				require.NoError(t, b.Verify(it))
				require.NoError(t, it.Reset(b))
				for it.Next() {
					got = append(got, it.Record().Clone())
				}
				require.NoError(t, it.Err())
				log = log[b.Size():]
			}
			n := 3
			if len(got) > n {
				n = 200
			}
			require.Equal(t, kafkaRecords(int(filepath.Base(file)[1]-'0'), n), got)
		})
	}
}

func TestKafkasBatchIsMadeToTheByte(t *testing.T) {
	want, err := os.ReadFile("testdata/kafka/v2-none.batch")
	require.NoError(t, err)
	got := build(t, BuilderOptions{BaseOffset: 40, LeaderEpoch: NoLeaderEpoch}, kafkaRecords(2, 3)...)
	require.Equal(t, want, got)

	// Snappy and LZ4 leave the compressor no choice about where blocks are.
	for _, name := range []string{"snappy-many", "lz4-9"} {
		kafka, err := os.ReadFile("testdata/kafka/v2-" + name + ".batch")
		require.NoError(t, err)
		codec, _ := ParseCodec(strings.Split(name, "-")[0])
		ours := build(t, BuilderOptions{BaseOffset: 40, Codec: codec}, kafkaRecords(2, 200)...)
		require.Equal(t, blockSizes(t, codec, kafka[HeaderSize:]), blockSizes(t, codec, ours[HeaderSize:]), name)
	}
}

// blockSizes is what each block of an xerial stream or an LZ4 frame holds.
func blockSizes(t *testing.T, codec Codec, b []byte) (sizes []int) {
	if codec == Snappy {
		for {
			block, rest, err := nextSnappyBlock(b)
			require.NoError(t, err)
			if block == nil {
				return sizes
			}
			n, err := s2.DecodedLen(block)
			require.NoError(t, err)
			sizes, b = append(sizes, n), rest
		}
	}
	f, b, err := parseLZ4(b, false)
	require.NoError(t, err)
	for {
		p, rest, err := f.next(b)
		require.NoError(t, err)
		if p.data == nil {
			return sizes
		}
		out, err := f.appendPart(make([]byte, 0, f.maxBlock), p)
		require.NoError(t, err)
		sizes, b = append(sizes, len(out)), rest
	}
}

func encode(t testing.TB, codec Codec, level int, body []byte) []byte {
	t.Helper()
	var c compressor
	out, err := c.appendEncoded([]byte("before"), body, codec, level)
	require.NoError(t, err)
	require.Equal(t, "before", string(out[:6]))
	return out[6:]
}

func decompress(src []byte, codec Codec, limit int) ([]byte, error) {
	var d decompressor
	defer d.close()
	return d.decode(nil, src, codec, 2, limit)
}

// LZ4 frames of bodies that end at and around a block, parsed by hand and read
// by an independent decoder of frames. K124.
func TestLZ4FramesAreWhatStrictReadersExpect(t *testing.T) {
	for _, tt := range []struct {
		name   string
		body   []byte
		blocks int
		stored bool
	}{
		{"empty", nil, 0, false},
		{"1 byte", []byte("x"), 1, true},
		{"64 KiB", bytes.Repeat([]byte("ab"), 32<<10), 1, false},
		{"64 KiB and 1", append(bytes.Repeat([]byte("ab"), 32<<10), 'x'), 2, false},
		{"200 KiB that cannot be compressed", noise(7, 200<<10), 4, true},
	} {
		for _, level := range []int{0, 1, 8, 9, 17} {
			t.Run(fmt.Sprintf("%s/level %d", tt.name, level), func(t *testing.T) {
				frame := encode(t, LZ4, level, tt.body)
				require.Equal(t, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}, frame[:7])
				blocks := 0
				for p := 7; ; {
					head := binary.LittleEndian.Uint32(frame[p:])
					p += 4
					if head == 0 {
						require.Len(t, frame, p, "the end mark is the end")
						break
					}
					n := int(head &^ (1 << 31))
					stored := head>>31 == 1
					if blocks++; blocks < 2 {
						require.Equal(t, tt.stored, stored)
					}
					require.LessOrEqual(t, n, 64<<10)
					p += n
				}
				require.Equal(t, tt.blocks, blocks)

				got, err := decompress(frame, LZ4, 1<<20)
				require.NoError(t, err)
				require.True(t, bytes.Equal(tt.body, got))
				var out bytes.Buffer
				_, err = out.ReadFrom(lz4.NewReader(bytes.NewReader(frame)))
				require.NoError(t, err)
				require.True(t, bytes.Equal(tt.body, out.Bytes()))
			})
		}
	}
}

func TestLZ4FramesOfOtherWritersAreRead(t *testing.T) {
	body := bytes.Repeat(noise(1, 1000), 300)
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, options := range [][]lz4.Option{
			{lz4.ChecksumOption(false)}, {lz4.ChecksumOption(true)}, {lz4.BlockChecksumOption(true)},
			{lz4.SizeOption(uint64(len(body)))}, {lz4.SizeOption(uint64(len(body))), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)},
		} {
			var frame bytes.Buffer
			w := lz4.NewWriter(&frame)
			require.NoError(t, w.Apply(append(options, lz4.BlockSizeOption(size), lz4.ConcurrencyOption(1))...))
			_, err := w.Write(body)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			got, err := decompress(frame.Bytes(), LZ4, 1<<20)
			require.NoError(t, err, "%s %v", size, options)
			require.True(t, bytes.Equal(body, got))

			got, err = decompress(append(frame.Bytes(), "and more"...), LZ4, 1<<20)
			require.NoError(t, err, "what follows the frame is not looked at")
			require.True(t, bytes.Equal(body, got))
		}
	}
}

func TestDamagedLZ4FramesAreRefused(t *testing.T) {
	good := encode(t, LZ4, 0, bytes.Repeat([]byte("body "), 100))
	header := func(flags, descriptor byte, more ...byte) []byte {
		h := append([]byte{0x04, 0x22, 0x4d, 0x18, flags, descriptor}, more...)
		return append(h, byte(xxHash32(h[4:])>>8))
	}
	for _, tt := range []struct {
		name  string
		frame []byte
		err   string
	}{
		{"nothing", nil, "unexpected EOF"},
		{"another magic", append([]byte{5}, good[1:]...), "not an lz4 frame"},
		{"version 2", append(header(0xa0, 0x40), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"linked blocks", append(header(0x40, 0x40), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"dictionary", append(header(0x61, 0x40), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"reserved flag", append(header(0x62, 0x40), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"block size 3", append(header(0x60, 0x30), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"reserved descriptor bit", append(header(0x60, 0xc0), good[7:]...), "lz4 frame has flags that are not allowed"},
		{"header checksum of magic 0", append([]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x1a}, good[7:]...), "lz4 frame header checksum mismatch"},
		{"no content size", []byte{0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 0, 0}, "unexpected EOF"},
		{"no end mark", good[:len(good)-4], "unexpected EOF"},
		{"half an end mark", good[:len(good)-2], "unexpected EOF"},
		{"block cut off", good[:20], "unexpected EOF"},
		{"no content checksum", append(header(0x64, 0x40), good[7:]...), "unexpected EOF"},
		{"wrong block checksum", append(header(0x70, 0x40), append([]byte{1, 0, 0, 0x80, 'x', 0, 0, 0, 0}, 0, 0, 0, 0)...), "lz4 block checksum mismatch"},
		{"block larger than said", append(header(0x60, 0x40), 1, 0, 1, 0x80), "lz4 block of 65537 bytes is larger than 65536"},
		{"block of garbage", append(header(0x60, 0x40), 5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), "lz4 block is damaged"},
		{"block that unpacks to more than said", append(header(0x60, 0x40), bomb(70000)...), "lz4 block is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decompress(tt.frame, LZ4, 1<<20)
			require.EqualError(t, err, tt.err)
		})
	}
}

// bomb is an LZ4 block of n zeros, with its length before it and an end mark
// behind.
func bomb(n int) []byte {
	b := []byte{0x1f, 0, 1, 0} // a zero, then all that follows copied from it
	for n -= 1 + 19 + 5; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	b = append(b, byte(n), 0x50, 0, 0, 0, 0, 0)
	return slices.Concat(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b, make([]byte, 4))
}

func TestXXHashIsRight(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want uint32
	}{
		{"", 0x02cc5d05},
		{"a", 0x550d7456},
		{"abc", 0x32d153ff},
		{"Nobody inspects the spammish repetition", 0xe2293b2f},
	} {
		require.Equal(t, tt.want, xxHash32([]byte(tt.in)), tt.in)
	}
	old := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40}
	require.Equal(t, byte(lz4Checksum), byte(xxHash32(old[4:])>>8))
	require.Equal(t, byte(lz4ChecksumOld), byte(xxHash32(old)>>8))
}

// In magic 0 the checksum of the frame header has always been the wrong one. It
// is written so, and read either way (K121); the magics after it know only the right
// one.
func TestLZ4HeaderChecksumDependsOnTheMagic(t *testing.T) {
	var c lz4Compressor
	old := c.appendFrame(nil, legacySet(inner(0, 9)...), lz4FastLevel, true)
	require.Equal(t, byte(0x1a), old[6])
	right := c.appendFrame(nil, legacySet(inner(0, 9)...), lz4FastLevel, false)
	require.Equal(t, byte(0x82), right[6])
	any := slices.Clone(old)
	any[6] = 0x33

	for _, tt := range []struct {
		name  string
		magic int8
		frame []byte
		ok    bool
	}{
		{"magic 0, the historic one", 0, old, true}, {"magic 0, the right one", 0, right, true}, {"magic 0, any", 0, any, true},
		{"magic 1, the historic one", 1, old, false}, {"magic 1, the right one", 1, right, true}, {"magic 1, any", 1, any, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, appendLegacy(nil, legacyMessage{magic: tt.magic, offset: 9, codec: LZ4, value: tt.frame}))
			recs, err := decode(b, DecodeOptions{})
			if !tt.ok {
				require.ErrorIs(t, err, ErrInvalid)
				require.ErrorContains(t, err, "offset 9: records do not decompress from lz4: lz4 frame header checksum mismatch")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []int64{9}, offsets(recs))
		})
	}

	v2 := build(t, BuilderOptions{Codec: LZ4}, Record{Value: []byte("v")})
	require.Equal(t, byte(0x82), v2[HeaderSize+6])
	v2[HeaderSize+6] = 0x1a
	_, err := decode(parse(t, reseal(v2)), DecodeOptions{})
	require.ErrorIs(t, err, ErrInvalid)
}

// Snappy data is framed or it is not, and framing is known by all of its magic
// and a whole header. K122.
func TestSnappyIsReadFramedAndRaw(t *testing.T) {
	block := func(b []byte) []byte {
		e := s2.EncodeSnappy(nil, b)
		return append(be.AppendUint32(nil, uint32(len(e))), e...)
	}
	body := bytes.Repeat(noise(3, 500), 200)
	small := []byte("thirteen byte")
	framed := func(blocks ...[]byte) []byte { return append([]byte(snappyHeader), slices.Concat(blocks...)...) }
	newer := framed(block(small))
	newer[11] = 2
	for _, tt := range []struct {
		name string
		src  []byte
		want []byte
		err  string
	}{
		{name: "one block", src: framed(block(small)), want: small},
		{name: "three blocks of 32 KiB", src: framed(block(body[:32<<10]), block(body[32<<10:64<<10]), block(body[64<<10:96<<10])), want: body[:96<<10]},
		{name: "what we write", src: encode(t, Snappy, 0, body), want: body},
		{name: "one large block", src: framed(block(body)), want: body},
		{name: "raw, 13 bytes", src: s2.EncodeSnappy(nil, small), want: small},
		{name: "raw, 2000 bytes", src: s2.EncodeSnappy(nil, body[:2000]), want: body[:2000]},
		{name: "raw, of the magic", src: s2.EncodeSnappy(nil, []byte(snappyHeader)), want: []byte(snappyHeader)},
		{name: "header repeated", src: framed(block(small), []byte(snappyHeader), block(small)), want: slices.Concat(small, small)},
		{name: "a version to come", src: newer, want: small},
		{name: "header only", src: framed(), want: []byte{}},
		{name: "a bit of a length, which ends it", src: framed(block(small), []byte{0, 0, 0}), want: small},
		{name: "block longer than the rest", src: framed(block(small)[:10]), err: "snappy block is cut off"},
		{name: "block of negative length", src: framed([]byte{0x80, 0, 0, 0}), err: "snappy block is cut off"},
		{name: "block of length 0", src: framed([]byte{0, 0, 0, 0}), err: "snappy block is damaged"},
		{name: "block that claims more than it holds", src: framed([]byte{0, 0, 0, 3, 100, 0, 'x'}), err: "snappy block is damaged"},
		{name: "half a header", src: []byte(snappyHeader[:12]), err: "snappy block is damaged"},
		{name: "version 0", src: append([]byte(snappyMagic), make([]byte, 8)...), err: "snappy framing of version 0"},
		{name: "header repeated, cut off", src: framed(block(small), []byte(snappyHeader[:9])), err: "snappy header is damaged"},
		{name: "nothing", src: nil, err: "snappy block is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decompress(tt.src, Snappy, 1<<20)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.True(t, bytes.Equal(tt.want, got))
		})
	}
	_, err := decode(rawBatch(1, Snappy, []byte(snappyHeader)), DecodeOptions{})
	require.EqualError(t, err, "offset 100: record 0: length is cut off", "an empty stream has no records")
}

func TestSnappyIsWrittenInBlocksOf32KiB(t *testing.T) {
	require.Equal(t, []int{32 << 10, 32 << 10, 1}, blockSizes(t, Snappy, encode(t, Snappy, 0, noise(1, 64<<10+1))))
	require.Equal(t, snappyHeader, string(encode(t, Snappy, 0, nil)))
}

func TestGzipIsReadAsJavaReadsIt(t *testing.T) {
	member := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Header.Name, w.Header.Comment, w.Header.Extra = "name", "comment", []byte{1, 0, 1, 0, 9}
		_, err := w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	body := bytes.Repeat([]byte("some text "), 10_000)
	good := member(body)
	lie := slices.Clone(good)
	lie[len(lie)-1]++
	for _, tt := range []struct {
		name string
		src  []byte
		want []byte
		err  bool
	}{
		{name: "one member", src: good, want: body},
		{name: "what we write", src: encode(t, Gzip, 0, body), want: body},
		{name: "of nothing", src: member(nil), want: []byte{}},
		{name: "two members", src: slices.Concat(good, member([]byte("x"))), want: append(slices.Clone(body), 'x')},
		{name: "a small one first", src: slices.Concat(member([]byte("x")), good), want: append([]byte("x"), body...)},
		{name: "padded with zeros", src: append(slices.Clone(good), make([]byte, 100)...), want: body},
		{name: "and something else", src: append(slices.Clone(good), "large number: \xff\xff\xff\x7f"...), want: body},
		{name: "nothing", err: true},
		{name: "cut off", src: good[:len(good)-1], err: true},
		{name: "cut off in the header", src: good[:9], err: true},
		{name: "wrong size", src: lie, err: true},
		{name: "garbage", src: noise(1, 100), err: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decompress(tt.src, Gzip, 1<<20)
			require.Equal(t, tt.err, err != nil, "%v", err)
			if err == nil {
				require.True(t, bytes.Equal(tt.want, got))
			}
		})
	}
}

func TestZstdFramesOfOtherWritersAreRead(t *testing.T) {
	body := bytes.Repeat(noise(9, 3000), 150)
	streamed := func(options ...zstd.EOption) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, append(options, zstd.WithEncoderConcurrency(1))...)
		require.NoError(t, err)
		_, err = w.Write(body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	ours := encode(t, Zstd, 0, body)
	for name, src := range map[string][]byte{
		"what we write":             ours,
		"streamed, size unknown":    streamed(),
		"with a checksum":           streamed(zstd.WithEncoderCRC(true)),
		"with a window of 128 MiB":  streamed(zstd.WithWindowSize(128 << 20)),
		"behind a skippable frame":  slices.Concat(skippable, ours),
		"before a skippable frame":  slices.Concat(ours, skippable),
		"single segment of 450 KiB": streamed(zstd.WithSingleSegment(true)),
	} {
		got, err := decompress(src, Zstd, 1<<20)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(body, got), name)
	}
	got, err := decompress(slices.Concat(ours, ours), Zstd, 1<<20)
	require.NoError(t, err)
	require.True(t, bytes.Equal(slices.Concat(body, body), got), "frames add up")
	for cut := range []int{0, 1, 5, 9, 20} {
		_, err = decompress(ours[:len(ours)-cut-1], Zstd, 1<<20)
		require.Error(t, err)
	}
}

// K123: small data that unpacks to much, or says so, costs an error and not memory.
func TestDecompressionBombsAreRefused(t *testing.T) {
	zeros := make([]byte, 1<<20)
	var gz bytes.Buffer
	w, _ := gzip.NewWriterLevel(&gz, 1)
	for range 24 {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	lying := slices.Clone(gz.Bytes())
	copy(lying[len(lying)-4:], []byte{10, 0, 0, 0})

	block := s2.EncodeSnappy(nil, zeros[:32<<10])
	framed := []byte(snappyHeader)
	for range 10_000 {
		framed = append(be.AppendUint32(framed, uint32(len(block))), block...)
	}
	rle := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}
	for range 5000 { // blocks of one zero, 128 KiB times
		rle = append(rle, 0x02, 0x00, 0x10, 0)
	}
	rle = append(rle, 1, 0, 0)
	lz := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73}
	lz[6] = byte(xxHash32(lz[4:6]) >> 8)
	for range 20 {
		one := bomb(4 << 20)
		lz = append(lz, one[:len(one)-4]...)
	}
	lz = append(lz, 0, 0, 0, 0)

	for _, tt := range []struct {
		name  string
		codec Codec
		body  []byte
		kind  error
	}{
		{"zstd with a window of 512 MiB", Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x01, 0x00, 0x00}, ErrInvalid},
		{"zstd that says 64 GiB", Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0}, ErrTooLarge},
		{"zstd that says 6 MiB and has 1 byte", Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x60, 0, 9, 0, 0, 'x'}, ErrInvalid},
		{"zstd of 625 MiB", Zstd, rle, ErrTooLarge},
		{"gzip of 24 MiB", Gzip, gz.Bytes(), ErrTooLarge},
		{"gzip of 24 MiB that says 10 bytes", Gzip, lying, ErrTooLarge},
		{"raw snappy that says 4 GiB", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'}, ErrTooLarge},
		{"raw snappy that says 6 MiB", Snappy, []byte{0x80, 0x80, 0x80, 0x03, 0, 'x'}, ErrInvalid},
		{"framed snappy of 10000 blocks", Snappy, framed, ErrTooLarge},
		{"lz4 of 80 MiB", LZ4, lz, ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const limit = 8 << 20
			b := rawBatch(1, tt.codec, tt.body)
			it := NewIterator(DecodeOptions{MaxDecompressed: limit})
			defer it.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := it.Reset(b)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, tt.kind)
			require.ErrorContains(t, err, "offset 100: records ")
			require.ErrorContains(t, err, tt.codec.String())
			// All that was allocated, whether or not it was in use at once.
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(limit+8<<20))
		})
	}
}

func TestLimitIsOnWhatIsThereAfterDecompression(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b := parse(t, build(t, BuilderOptions{Codec: codec}, Record{Value: make([]byte, 100_000)}))
		recs := RecordSize(Record{Value: make([]byte, 100_000)}, 0, 0)
		_, err := decode(b, DecodeOptions{MaxDecompressed: int64(recs)})
		require.NoError(t, err, codec)
		_, err = decode(b, DecodeOptions{MaxDecompressed: int64(recs) - 1})
		require.ErrorIs(t, err, ErrTooLarge, codec)
		require.EqualError(t, err, fmt.Sprintf("offset 0: records decompress from %s to more than %d bytes", codec, recs-1))

		// One iterator, whatever its buffer has grown to.
		it := NewIterator(DecodeOptions{MaxDecompressed: int64(recs) - 1})
		require.NoError(t, it.Reset(parse(t, build(t, BuilderOptions{Codec: codec}, Record{Value: make([]byte, 99_000)}))))
		require.ErrorIs(t, it.Reset(b), ErrTooLarge, codec)
		it.Close()
	}
	b := parse(t, build(t, BuilderOptions{}, Record{Value: make([]byte, 100_000)}))
	_, err := decode(b, DecodeOptions{MaxDecompressed: 10})
	require.NoError(t, err, "what is not compressed has its own limit")
}

// One batch whose body is garbage is an error that says where and what; the
// batches around it are fine.
func TestGarbageBodyNamesOffsetAndCodec(t *testing.T) {
	var log []byte
	for i := range 5 {
		b := build(t, BuilderOptions{BaseOffset: int64(10 * i), Codec: Zstd}, Record{Value: []byte("v")})
		if i == 2 {
			copy(b[HeaderSize:], "garbage")
			reseal(b)
		}
		log = append(log, b...)
	}
	it := new(Iterator)
	defer it.Close()
	var got []int64
	for len(log) > 0 {
		b := parse(t, log)
		require.NoError(t, b.Check())
		if err := it.Reset(b); err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorIs(t, err, zstd.ErrMagicMismatch)
			require.ErrorContains(t, err, "offset 20: records do not decompress from zstd: ")
		}
		for it.Next() {
			got = append(got, it.Record().Offset)
		}
		log = log[b.Size():]
	}
	require.Equal(t, []int64{0, 10, 30, 40}, got)
}

func TestUnknownCodecsAreNamed(t *testing.T) {
	for codec := Codec(5); codec <= 7; codec++ {
		b := rawBatch(1, codec, []byte("?"))
		require.NoError(t, b.Check())
		require.Equal(t, codec, b.Codec())
		require.Equal(t, int64(100), b.BaseOffset(), "the header can still be read")
		require.Contains(t, string(AppendAnnotatedHeader(nil, b)), fmt.Sprintf("# attributes: codec %d, CreateTime\n", codec))
		err := new(Iterator).Reset(b)
		require.ErrorIs(t, err, ErrUnsupported)
		require.EqualError(t, err, fmt.Sprintf("offset 100: codec %d", codec))
	}
}

// What is stored must be readable, and telling must not cost a decompression of every
// batch.
func TestCheckSizeRefusesWhatTheLimitDoesAndNothingElse(t *testing.T) {
	for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		for _, size := range []int{1, 1000, 100_000, 1 << 20} {
			b := NewBuilder(BuilderOptions{Codec: codec})
			require.NoError(t, b.Append(Record{Value: make([]byte, size)}))
			built, err := b.Build()
			require.NoError(t, err)
			records := int64(b.RecordsSize())
			batch := parse(t, built)
			require.LessOrEqual(t, records, max(mostDecompressed(batch), int64(batch.Size())), "%v %d", codec, size)
			for limit := records - 2; limit <= records+2; limit++ {
				if limit <= 0 {
					continue
				}
				it := NewIterator(DecodeOptions{MaxDecompressed: limit})
				require.Equal(t, it.Reset(batch), it.CheckSize(batch), "%v %d, limit %d", codec, size, limit)
			}
		}
	}
	bad := rawBatch(1, Zstd, []byte("no zstd at all"))
	require.NoError(t, NewIterator(DecodeOptions{}).CheckSize(bad), "it is not too large")
}
