//go:build !windows

package seglog_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// K113: a segment of nearly 2 GiB, whose batches are holes in a sparse file.
// Only their headers take space: their checksum is that of zeros, and since it
// does not cover the base offset it is the same for all.
func TestASegmentOfTwoGiBIsReadRecoveredAndRolled(t *testing.T) {
	t.Parallel()
	const (
		target = 2147483547
		hole   = 32 << 20
	)
	dir := filepath.Join(t.TempDir(), "orders-0")
	require.NoError(t, os.Mkdir(dir, 0o755))
	f, err := os.Create(segmentFile(dir, 0, ".log"))
	require.NoError(t, err)
	last := plainBatch(t, 0, 0)
	offset, position := int64(0), int64(0)
	header := zerosBatch(hole)
	for position+hole <= target-int64(len(last))-record.HeaderSize {
		position = putHole(t, f, header, position, hole, offset)
		offset++
	}
	rest := target - int64(len(last)) - position
	position = putHole(t, f, zerosBatch(int(rest)), position, rest, offset)
	offset++
	lastOffset, lastPosition := offset, position
	mustParse(t, last).SetBaseOffset(lastOffset)
	_, err = f.WriteAt(last, position)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, int64(target), fileSize(t, segmentFile(dir, 0, ".log")))

	opts := quick
	opts.SegmentBytes = math.MaxInt32
	l := openLog(t, dir, opts) // recovers: nobody knows how it was closed
	require.Equal(t, lastOffset+1, l.Offsets().End)
	require.Empty(t, stats(t, l).Recovery.Cut)
	r, err := l.Get(lastOffset)
	require.NoError(t, err)
	require.Equal(t, "value 0", string(r.Value))
	for _, limit := range []int{0, 1, math.MaxInt32} {
		res, err := l.Read(lastOffset, limit, nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(last, res.Batches), "limit %d", limit)
		require.Equal(t, lastOffset+1, res.NextOffset)
	}
	entries := segments(t, l)[0].IndexEntries
	require.Positive(t, entries)

	res, err := l.AppendReplicated(batchOfSize(t, 200, lastOffset+1, 5), nil)
	require.NoError(t, err)
	require.Equal(t, lastOffset+1, res.BaseOffset)
	require.Equal(t, []int64{0, lastOffset + 1}, bases(t, l))
	require.Equal(t, []int64{lastOffset, lastOffset + 1}, offsetsOf(readAll(t, l, lastOffset)))
	require.Equal(t, int64(target), fileSize(t, segmentFile(dir, 0, ".log")))
	closeLog(t, l)
	written := indexEntries(t, dir, 0)
	require.Equal(t, indexEntry{lastOffset, lastPosition}, written[len(written)-1])
}

// zerosBatch is the header of a batch of the given size whose records are
// zeros: nothing decodes them here.
func zerosBatch(size int) []byte {
	b := make([]byte, size)
	copy(b, record.AppendEmptyBatch(nil, record.BatchHeader{MaxTimestamp: 1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}))
	binary.BigEndian.PutUint32(b[8:], uint32(size-12))
	binary.BigEndian.PutUint32(b[57:], 1)
	return setCRC(b)[:record.HeaderSize]
}

func putHole(t *testing.T, f *os.File, header []byte, position, size, offset int64) int64 {
	binary.BigEndian.PutUint64(header, uint64(offset))
	_, err := f.WriteAt(header, position)
	require.NoError(t, err)
	return position + size
}

func mustParse(t *testing.T, b []byte) record.Batch {
	batch, err := record.Parse(b)
	require.NoError(t, err)
	return batch
}
