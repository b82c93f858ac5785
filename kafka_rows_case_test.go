package seglog_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// More rows of Kafka's own tests; docs/conformance.md lists them all.

// 193: the high watermark does not depend on where segments begin.
func TestTheHighWatermarkCrossesARoll(t *testing.T) {
	o := quick
	o.Replicated = true
	l := openLog(t, t.TempDir(), o)
	below := func() []int64 {
		offsets := []int64{}
		for r, err := range l.Records(t.Context(), 0, nil) {
			require.NoError(t, err)
			offsets = append(offsets, r.Offset)
		}
		return offsets
	}
	appendEach(t, l, many(3, 1)...)
	_, err := l.SetHighWatermark(3)
	require.NoError(t, err)
	roll(t, l)
	require.Equal(t, span(0, 2), below())
	appendEach(t, l, many(3, 4)...)
	require.Equal(t, span(0, 2), below())
	_, err = l.SetHighWatermark(5)
	require.NoError(t, err)
	require.Equal(t, span(0, 4), below())
}

// 171, 172: a follower of a log that was compacted so far that its offsets do not fit
// one segment rolls by offset, and has a snapshot at each base.
func TestAnOverCompactedLogRollsByOffset(t *testing.T) {
	const far = math.MaxInt32
	l := openLog(t, t.TempDir(), quick)
	send := func(offset int64, seq int32) {
		b := batchAt(t, record.BuilderOptions{BaseOffset: offset, Producer: &record.Producer{ID: 5, BaseSequence: seq}}, at(offset, time.Now().UnixMilli(), "v"))
		_, err := l.AppendReplicated(b, nil)
		require.NoError(t, err)
	}
	for i, offset := range []int64{0, far + 2, far + 3, far + 4} {
		send(offset, int32(i))
	}
	require.Equal(t, []int64{0, far + 2}, bases(t, l))
	l = reopen(t, l, quick)
	require.Contains(t, snapshotsOf(t, l.Dir()), int64(far+2))
	require.Equal(t, []int64{0, far + 2, far + 3, far + 4}, offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// 285, 286: what the log puts into a client's batch, and that it is not encoded again.
func TestTheLogPutsTheTimeIntoABatchInPlace(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		for _, stamp := range []record.TimestampType{record.CreateTime, record.LogAppendTime} {
			o := quick
			o.TimestampType = stamp
			l := openLog(t, t.TempDir(), o)
			before := time.Now().UnixMilli()
			sent := batchAt(t, record.BuilderOptions{Codec: codec}, at(0, 100, "a"), at(1, 300, "b"), at(2, 200, "c"))
			payload := string(sent[record.HeaderSize:])
			res, err := l.AppendBatch(sent, nil)
			require.NoError(t, err)
			b := batchesOf(t, l.Dir(), 0)[0]
			require.Equal(t, payload, string(b.Bytes()[record.HeaderSize:]), "%v: records are stored as they came", codec)
			require.Equal(t, stamp, b.TimestampType())
			require.Equal(t, res.Timestamp, b.MaxTimestamp())
			want := []int64{100, 300, 200}
			if stamp == record.LogAppendTime {
				require.GreaterOrEqual(t, b.MaxTimestamp(), before)
				want = []int64{b.MaxTimestamp(), b.MaxTimestamp(), b.MaxTimestamp()}
			} else {
				require.Equal(t, int64(300), b.MaxTimestamp())
			}
			for i, r := range readAll(t, l, 0) {
				require.Equal(t, want[i], r.Timestamp)
			}
		}
	}
}

// 292: a marker is not compressed, whatever the topic's codec is.
func TestMarkersAreNotCompressed(t *testing.T) {
	o := quick
	o.Compression = record.Gzip
	l := openLog(t, t.TempDir(), o)
	w := &writer{t: t, log: l, id: 1, txn: true}
	w.send(1)
	w.end(seglog.Commit)
	all := batchesOf(t, l.Dir(), 0)
	require.Equal(t, record.Gzip, all[0].Codec())
	require.True(t, all[1].IsControl())
	require.Equal(t, record.None, all[1].Codec())
}

// 295, 297, 298: offsets are assigned wherever the log ends, in batches of every codec,
// which stay as their producers have compressed them.
func TestOffsetsAreAssignedToBatchesOfEveryCodec(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		o := quick
		o.StartOffset, o.Compression, o.CompressionLevel = 1234567, record.Gzip, 1
		l := openLog(t, t.TempDir(), o)
		b := batchAt(t, record.BuilderOptions{Codec: codec}, at(0, 1, "a"), at(1, 2, "b"), at(2, 3, "c"))
		payload := string(b[record.HeaderSize:])
		res, err := l.AppendBatch(b, nil)
		require.NoError(t, err)
		require.Equal(t, [2]int64{1234567, 1234569}, [2]int64{res.BaseOffset, res.LastOffset})
		require.Equal(t, span(1234567, 1234569), offsetsOf(readAll(t, l, 1234567)))
		stored := batchesOf(t, l.Dir(), 1234567)[0]
		require.Equal(t, codec, stored.Codec())
		require.Equal(t, payload, string(stored.Bytes()[record.HeaderSize:]))
	}
}
