package record

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type golden struct {
	name string
	hex  string
	crc  uint32
	head BatchHeader
	recs []Record

	// build makes the same batch, if a Builder or one of the Append functions
	// can.
	build func(t *testing.T, recs []Record) []byte
}

// The vectors are batches made by the rules in Kafka's sources; the checksums of
// the first three are asserted by its MemoryRecordsTest.java.
var goldens = []golden{
	{
		name: "two records, create time",
		hex:  "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffffffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200",
		crc:  3851219455,
		head: BatchHeader{
			LastOffsetDelta: 1, LeaderEpoch: -1, BaseTimestamp: 283843, MaxTimestamp: 283843,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 2,
		},
		recs: []Record{
			{Offset: 0, Timestamp: 283843, Key: []byte("key1"), Value: []byte("value1")},
			{Offset: 1, Timestamp: 1234, Key: []byte("key2"), Value: []byte("value2")},
		},
		build: builtWith(BuilderOptions{LeaderEpoch: NoLeaderEpoch}),
	},
	{
		name: "magic 0",
		hex:  "00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531",
		crc:  1978725405,
		head: legacyHeader(0, NoTimestamp),
		recs: []Record{{Offset: 0, Timestamp: NoTimestamp, Key: []byte("key1"), Value: []byte("value1")}},
		build: func(*testing.T, []Record) []byte {
			return appendLegacy(nil, legacyMessage{key: []byte("key1"), value: []byte("value1")})
		},
	},
	{
		name: "magic 1",
		hex:  "0000000000000000000000200685b364010000000000000454c3000000046b6579310000000676616c756531",
		crc:  109425508,
		head: legacyHeader(0, 283843),
		recs: []Record{{Offset: 0, Timestamp: 283843, Key: []byte("key1"), Value: []byte("value1")}},
		build: func(*testing.T, []Record) []byte {
			return appendLegacy(nil, legacyMessage{magic: 1, timestamp: 283843, key: []byte("key1"), value: []byte("value1")})
		},
	},
	{
		name: "abort marker",
		hex:  "00000000000000c80000004200000004029a44c09a00300000000000000000000003e800000000000003e800000000000000070003ffffffff000000012000000008000000000c00000000000f00",
		crc:  2588197018,
		head: BatchHeader{
			BaseOffset: 200, LeaderEpoch: 4, Attributes: 0x30, BaseTimestamp: 1000, MaxTimestamp: 1000,
			ProducerID: 7, ProducerEpoch: 3, BaseSequence: -1, Count: 1,
		},
		recs: []Record{{Offset: 200, Timestamp: 1000, Key: []byte{0, 0, 0, 0}, Value: []byte{0, 0, 0, 0, 0, 15}}},
		build: markerOf(EndTxnBatch{
			Offset: 200, LeaderEpoch: 4, Timestamp: 1000, ProducerID: 7, ProducerEpoch: 3,
			Marker: EndTxnMarker{Type: Abort, CoordinatorEpoch: 15},
		}),
	},
	{
		name: "emptied by compaction",
		hex:  "000000000000000f000000310000000f02d83df420000000000016ffffffffffffffff00000000000013880000000000005b7f0091000003d700000000",
		crc:  3627938848,
		head: BatchHeader{
			BaseOffset: 15, LastOffsetDelta: 22, LeaderEpoch: 15, BaseTimestamp: -1, MaxTimestamp: 5000,
			ProducerID: 23423, ProducerEpoch: 145, BaseSequence: 983,
		},
		build: func(*testing.T, []Record) []byte {
			return AppendEmptyBatch(nil, BatchHeader{
				BaseOffset: 15, LastOffsetDelta: 22, LeaderEpoch: 15, MaxTimestamp: 5000,
				ProducerID: 23423, ProducerEpoch: 145, BaseSequence: 983,
			})
		},
	},
	{
		name: "delete horizon",
		hex:  "000000000000000000000057000003e60277b88261004000000002000000003fffffff000000000000000fffffffffffffffffffffffffffff000000031800f3ffffff070002300230001600e9ffffff0702023101001800dfffffff07040232023200",
		crc:  2008580705,
		head: BatchHeader{
			LastOffsetDelta: 2, LeaderEpoch: 998, Attributes: 0x40, BaseTimestamp: 1073741823, MaxTimestamp: 15,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 3,
		},
		recs: []Record{
			{Offset: 0, Timestamp: 5, Key: []byte("0"), Value: []byte("0")},
			{Offset: 1, Timestamp: 10, Key: []byte("1")},
			{Offset: 2, Timestamp: 15, Key: []byte("2"), Value: []byte("2")},
		},
		build: builtWith(BuilderOptions{LeaderEpoch: 998, HasDeleteHorizon: true, DeleteHorizon: 1073741823}),
	},
	{
		name: "headers, one empty and null",
		hex:  "0000000000000007000000400000000202fd3c569f00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000011c0000000102760404683102780001",
		crc:  4248589983,
		head: BatchHeader{
			BaseOffset: 7, LeaderEpoch: 2, BaseTimestamp: 1000, MaxTimestamp: 1000,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 1,
		},
		recs: []Record{{
			Offset: 7, Timestamp: 1000, Value: []byte("v"),
			Headers: []Header{{Key: "h1", Value: []byte("x")}, {}},
		}},
		build: builtWith(BuilderOptions{BaseOffset: 7, LeaderEpoch: 2}),
	},
	{
		// Kafka's own cleaner would have used 2001, the first timestamp that is
		// left, as the base. So would a Builder.
		name: "compacted",
		hex:  "000000000000000a000000420000000102eafebd8b00000000000300000000000007d000000000000007d300000000000000090000000000140000000210000202026b0276000e000606026b0100",
		crc:  3942563211,
		head: BatchHeader{
			BaseOffset: 10, LastOffsetDelta: 3, LeaderEpoch: 1, BaseTimestamp: 2000, MaxTimestamp: 2003,
			ProducerID: 9, ProducerEpoch: 0, BaseSequence: 20, Count: 2,
		},
		recs: []Record{
			{Offset: 11, Timestamp: 2001, Key: []byte("k"), Value: []byte("v")},
			{Offset: 13, Timestamp: 2003, Key: []byte("k")},
		},
	},
	{
		name: "log append time",
		hex:  "0000000000000003000000430000000402bb3439b800080000000100000000000000640000000000000309ffffffffffffffffffffffffffff0000000210000000026102310010000a020262023200",
		crc:  3140762040,
		head: BatchHeader{
			BaseOffset: 3, LastOffsetDelta: 1, LeaderEpoch: 4, Attributes: 0x08, BaseTimestamp: 100, MaxTimestamp: 777,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 2,
		},
		recs: []Record{
			{Offset: 3, Timestamp: 777, Key: []byte("a"), Value: []byte("1")},
			{Offset: 4, Timestamp: 777, Key: []byte("b"), Value: []byte("2")},
		},
		build: func(t *testing.T, _ []Record) []byte {
			b := NewBuilder(BuilderOptions{BaseOffset: 3, LeaderEpoch: 4, TimestampType: LogAppendTime, LogAppendTime: 777})
			require.NoError(t, b.Append(Record{Timestamp: 100, Key: []byte("a"), Value: []byte("1")}))
			require.NoError(t, b.Append(Record{Timestamp: 105, Key: []byte("b"), Value: []byte("2")}))
			return built(t, b)
		},
	},
	{
		name: "commit marker",
		hex:  "0000000000000000000000420000000002a5ae1e120030000000000000000000000005000000000000000500000000000000010000ffffffff000000012000000008000000010c00000000000000",
		crc:  2779651602,
		head: BatchHeader{
			Attributes: 0x30, BaseTimestamp: 5, MaxTimestamp: 5,
			ProducerID: 1, ProducerEpoch: 0, BaseSequence: -1, Count: 1,
		},
		recs:  []Record{{Timestamp: 5, Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}}},
		build: markerOf(EndTxnBatch{Timestamp: 5, ProducerID: 1, Marker: EndTxnMarker{Type: Commit}}),
	},
}

func legacyHeader(offset, timestamp int64) BatchHeader {
	return BatchHeader{
		BaseOffset: offset, LeaderEpoch: -1, BaseTimestamp: timestamp, MaxTimestamp: timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 1,
	}
}

func markerOf(e EndTxnBatch) func(*testing.T, []Record) []byte {
	return func(t *testing.T, _ []Record) []byte {
		b, err := AppendEndTxnMarker(nil, e)
		require.NoError(t, err)
		return b
	}
}

// builtWith makes a vector from its own records.
func builtWith(opts BuilderOptions) func(*testing.T, []Record) []byte {
	return func(t *testing.T, recs []Record) []byte { return build(t, opts, recs...) }
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestVectorsDecode(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			b, err := Parse(unhex(t, g.hex))
			require.NoError(t, err)
			require.Equal(t, g.crc, b.CRC())
			require.Equal(t, g.crc, b.ComputeCRC())
			require.True(t, b.IsValid())
			require.NoError(t, b.Verify(nil))
			require.Equal(t, g.head, b.Header())
			require.Equal(t, g.recs, collect(t, b))
		})
	}
}

func TestVectorsEncode(t *testing.T) {
	for _, g := range goldens {
		if g.build == nil {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			require.Equal(t, g.hex, hex.EncodeToString(g.build(t, g.recs)))
		})
	}
}

// The text files are the byte-by-byte explanation of some vectors. They hold
// the bytes and are what AppendAnnotated makes of them.
func TestVectorsAnnotated(t *testing.T) {
	for file, name := range map[string]string{
		"two-records.txt":  "two records, create time",
		"magic-1.txt":      "magic 1",
		"abort-marker.txt": "abort marker",
		"emptied.txt":      "emptied by compaction",
		"headers.txt":      "headers, one empty and null",
	} {
		t.Run(file, func(t *testing.T) {
			i := slices.IndexFunc(goldens[:], func(g golden) bool { return g.name == name })
			text, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
			require.Equal(t, goldens[i].hex, hex.EncodeToString(annotatedBytes(t, text)))
			require.Equal(t, string(text), string(AppendAnnotated(nil, parse(t, unhex(t, goldens[i].hex)))))
		})
	}
}

// annotatedBytes returns the bytes that annotated text shows.
func annotatedBytes(t *testing.T, text []byte) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(string(text)) {
		_, line, ok := strings.Cut(line, ": ")
		require.True(t, ok)
		line, _, _ = strings.Cut(line, "#")
		out = append(out, unhex(t, strings.Join(strings.Fields(line), ""))...)
	}
	return out
}
