package record

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// parse is Parse of bytes that are known to be a batch.
func parse(t testing.TB, b []byte) Batch {
	t.Helper()
	batch, err := Parse(b)
	require.NoError(t, err)
	return batch
}

// built is Build of a builder that is known to be able to.
func built(t testing.TB, b *Builder) []byte {
	t.Helper()
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// build makes a batch of records at consecutive offsets.
func build(t testing.TB, opts BuilderOptions, recs ...Record) []byte {
	t.Helper()
	b := NewBuilder(opts)
	for _, r := range recs {
		require.NoError(t, b.Append(r))
	}
	return built(t, b)
}

// collect returns copies of all records of a batch that is known to be good.
func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	recs, err := decode(b, DecodeOptions{})
	require.NoError(t, err)
	return recs
}

// decode returns copies of the records of b up to the first bad one.
func decode(b Batch, opts DecodeOptions) (recs []Record, err error) {
	it := NewIterator(opts)
	defer it.Close()
	for r, err := range b.Records(it) {
		if err != nil {
			return recs, err
		}
		recs = append(recs, r.Clone())
	}
	return recs, nil
}

// rawBatch is a batch of magic 2 with the given bytes for records, a good
// checksum, and otherwise as little in its header as can be.
func rawBatch(count int32, codec Codec, records []byte) Batch {
	b := append(make([]byte, HeaderSize), records...)
	putHeader(b, BatchHeader{
		BaseOffset: 100, LastOffsetDelta: max(0, count-1), LeaderEpoch: NoLeaderEpoch, Attributes: Attributes(codec),
		BaseTimestamp: 1000, MaxTimestamp: 1000,
		ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence, Count: count,
	})
	return Batch{b}
}

// rawRecord is the encoding of a record with the given body, whatever that is.
func rawRecord(body ...byte) []byte {
	return append(appendVarint(nil, int32(len(body))), body...)
}

// reseal stores the checksum of b as it is now.
func reseal(b []byte) []byte {
	Batch{b}.putCRC()
	return b
}

// legacyMessage is a message of magic 0 or 1. Writing them is for tests alone.
type legacyMessage struct {
	offset     int64
	magic      int8
	codec      Codec
	appendTime bool
	timestamp  int64
	key, value []byte
}

func appendLegacy(dst []byte, m legacyMessage) []byte {
	start := len(dst)
	dst = be.AppendUint64(dst, uint64(m.offset))
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(dst, 0)
	attributes := byte(m.codec)
	if m.appendTime {
		attributes |= appendTimeBit
	}
	dst = append(dst, byte(m.magic), attributes)
	if m.magic == 1 {
		dst = be.AppendUint64(dst, uint64(m.timestamp))
	}
	for _, p := range [][]byte{m.key, m.value} {
		if p == nil {
			dst = be.AppendUint32(dst, 0xffffffff)
			continue
		}
		dst = be.AppendUint32(dst, uint32(len(p)))
		dst = append(dst, p...)
	}
	be.PutUint32(dst[start+8:], uint32(len(dst)-start-LogOverhead))
	be.PutUint32(dst[start+legacyCRCPos:], crc32.ChecksumIEEE(dst[start+magicPos:]))
	return dst
}

// legacySet is the messages one after the other.
func legacySet(messages ...legacyMessage) []byte {
	var b []byte
	for _, m := range messages {
		b = appendLegacy(b, m)
	}
	return b
}

// wrap compresses the messages into w, with its codec.
func wrap(t testing.TB, w legacyMessage, messages ...legacyMessage) []byte {
	t.Helper()
	var c compressor
	var err error
	if w.codec == LZ4 {
		w.value = c.lz4.appendFrame(nil, legacySet(messages...), lz4FastLevel, w.magic == 0)
	} else {
		w.value, err = c.appendEncoded(nil, legacySet(messages...), w.codec, 0)
	}
	require.NoError(t, err)
	return appendLegacy(nil, w)
}
