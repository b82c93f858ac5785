package seglog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireSameAnswers asks two logs of one directory for each offset, in any order and
// twice: the second time the place is known.
func requireSameAnswers(t tb, remembering, plain *seglog.Log, random *rand.Rand) {
	t.Helper()
	at := remembering.Offsets()
	for range 2 {
		for _, i := range random.Perm(int(at.End-at.Start) + 1) {
			offset := at.Start + int64(i)
			want, wantErr := plain.Get(offset)
			got, err := remembering.Get(offset)
			require.Equal(t, wantErr, err, "offset %d", offset)
			require.Equal(t, want, got, "offset %d", offset)
			timestamp := 1000 + offset + int64(random.IntN(3)) - 1
			wantAt, wantFound, wantErr := plain.OffsetForTime(timestamp)
			gotAt, found, err := remembering.OffsetForTime(timestamp)
			require.Equal(t, wantErr, err, "time %d", timestamp)
			require.Equal(t, wantFound, found, "time %d", timestamp)
			require.Equal(t, wantAt, gotAt, "time %d", timestamp)
		}
	}
}

// Whatever a log is made of, a record is the same whether its place is remembered or
// the batches before it are walked over.
func TestARememberedPlaceHoldsTheRecordThatWalkingFinds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		require.NoError(t, err)
		opts := quick
		opts.SegmentBytes = rapid.SampledFrom([]int64{16_000, 50_000}).Draw(t, "segment bytes")
		opts.IndexIntervalBytes = rapid.SampledFrom([]int{1, 300, 4096}).Draw(t, "index interval")
		opts.LookupBytes = rapid.SampledFrom([]int64{1, 1000, 0}).Draw(t, "memory")
		l := openLog(t, dir, opts)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		fill := func() {
			for range 1 + random.IntN(20) {
				var set []byte
				next := l.Offsets().End
				for range 1 + random.IntN(3) {
					b, last := anyBatch(t, random, next)
					if set, next = append(set, b...), last+1; len(set) > 1000 {
						break
					}
				}
				_, err := l.AppendReplicated(set, nil)
				require.NoError(t, err)
			}
		}
		compare := func() {
			plain, err := seglog.Open(dir, seglog.Options{ReadOnly: true, LookupBytes: -1})
			require.NoError(t, err)
			defer plain.Close()
			requireSameAnswers(t, l, plain, random)
		}
		fill()
		compare()
		at := l.Offsets()
		require.NoError(t, l.TruncateTo(rapid.Int64Range(at.Start, at.End).Draw(t, "truncate")))
		fill() // others where some were remembered
		compare()
		l = reopen(t, l, opts)
		compare()
		closeLog(t, l)
	})
}

// anyBatch is a batch of any kind that replication may bring.
func anyBatch(t tb, random *rand.Rand, next int64) (b []byte, last int64) {
	base := next + int64([]int{0, 0, 0, 1, 7}[random.IntN(5)])
	o := record.BuilderOptions{BaseOffset: base}
	if random.IntN(4) == 0 {
		o.Codec = record.Zstd
	}
	if random.IntN(4) == 0 {
		o.TimestampType, o.LogAppendTime = record.LogAppendTime, 1000+base
	}
	var records []seglog.Record
	offset := base
	for range []int{1, 1, 2, 9, 40}[random.IntN(5)] {
		if random.IntN(10) == 0 {
			offset += 3 // as compaction leaves it, at the beginning too
		}
		timestamp := 1000 + offset
		switch random.IntN(12) {
		case 0: // as the one before, or before that
			timestamp -= int64(1 + random.IntN(60))
		case 1:
			timestamp += int64(random.IntN(20))
		}
		r := at(offset, timestamp, string(make([]byte, []int{0, 10, 300}[random.IntN(3)])))
		r.Key = fmt.Append(nil, offset)
		if offset%2 == 0 {
			r.Headers = []record.Header{{Key: "h", Value: fmt.Append(nil, offset)}}
		}
		records = append(records, r)
		offset++
	}
	return batchAt(t, o, records...), offset - 1
}

// A file that is cut under a log that has it mapped is an error, not the end of the
// process, and what is before the cut is still found.
func TestAFileThatIsCutUnderRememberedPlacesIsAnError(t *testing.T) {
	for _, batch := range []int64{1, 10} {
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) {
			dir := t.TempDir()
			opts := quick
			opts.SegmentBytes = 1 << 20
			l := openLog(t, dir, opts)
			for first := int64(0); first < 2000; first += batch {
				var records []seglog.Record
				for i := first; i < first+batch; i++ {
					records = append(records, one(1000+i, fmt.Sprintf("%0200d", i)))
				}
				_, err := l.Append(records, nil)
				require.NoError(t, err)
			}
			get := func(offset int64) error {
				r, err := l.Get(offset)
				if err == nil {
					require.Equal(t, fmt.Sprintf("%0200d", offset), string(r.Value))
				}
				return err
			}
			for i := range int64(2000) {
				require.NoError(t, get(i))
			}
			// In the middle of a page: the rest of it reads as zeros.
			require.NoError(t, os.Truncate(segmentFile(dir, 0, ".log"), 100_000))
			failed := 0
			for i := range int64(2000) {
				if err := get(i); err != nil {
					require.ErrorIs(t, err, seglog.ErrCorrupt, "offset %d", i)
					failed++
				}
			}
			require.Greater(t, failed, 1000)
			require.Less(t, failed, 1800)
		})
	}
}

// Look-ups go on, and stay right, while the log is truncated and written anew.
func TestPlacesAreForgottenWhenALogIsTruncated(t *testing.T) {
	opts := quick
	opts.SegmentBytes, opts.IndexIntervalBytes = 4000, 100
	l := openLog(t, t.TempDir(), opts)
	for round := range int64(30) {
		for i := l.Offsets().End; i < 100; i++ {
			appendEach(t, l, one(1000+round, fmt.Sprint("record ", i, " of round ", round)))
		}
		for i := range int64(100) {
			r, err := l.Get(i)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("record ", i, " of round ", r.Timestamp-1000), string(r.Value))
			if i >= 100-round {
				require.Equal(t, round, r.Timestamp-1000)
			}
		}
		require.NoError(t, l.TruncateTo(99-round))
		_, err := l.Get(99 - round)
		var outside *seglog.OffsetError
		require.True(t, errors.As(err, &outside), "%v", err)
	}
}
