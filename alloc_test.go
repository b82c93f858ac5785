//go:build !race

package seglog_test

import (
	"context"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// What the hot paths allocate, beyond what the caller keeps: nothing, or a
// constant per call that is stated here. Decompression is left to the codecs'
// libraries.

// allocLog is a log of 2000 records, in batches of n.
func allocLog(t *testing.T, n int) *seglog.Log {
	t.Helper()
	l := openLog(t, t.TempDir(), quick)
	for i := 0; i < 2000; i += n {
		_, err := l.Append(many(n, int64(1+i)), nil)
		require.NoError(t, err)
	}
	return l
}

func TestGettingARecordIntoABufferAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 100} {
		l := allocLog(t, n)
		buf := make([]byte, 0, 1000)
		offset := int64(0)
		perCall := testing.AllocsPerRun(1000, func() {
			offset = (offset + 761) % 2000
			var err error
			if _, buf, err = l.GetBuffer(offset, buf); err != nil {
				t.Fatal(err)
			}
		})
		require.Zero(t, perCall, "batches of %d", n)
	}
}

func TestGettingARecordAllocatesTheRecordOnly(t *testing.T) {
	l := allocLog(t, 10)
	offset := int64(0)
	perCall := testing.AllocsPerRun(1000, func() {
		offset = (offset + 761) % 2000
		if _, err := l.Get(offset); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, perCall, 1.0)
}

func TestScanningAllocatesNothingPerRecord(t *testing.T) {
	l := allocLog(t, 10)
	ctx := context.Background()
	perScan := testing.AllocsPerRun(20, func() {
		n := 0
		for _, err := range l.Records(ctx, 0, nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 2000 {
			t.Fatal(n)
		}
	})
	require.LessOrEqual(t, perScan, 8.0, "for 2000 records")
}

func TestLookingUpATimeAllocatesNothing(t *testing.T) {
	l := allocLog(t, 10)
	timestamp := int64(1)
	perCall := testing.AllocsPerRun(1000, func() {
		timestamp = 1 + (timestamp+761)%2000
		if _, found, err := l.OffsetForTime(timestamp); err != nil || !found {
			t.Fatal(found, err)
		}
	})
	require.Zero(t, perCall)
}

func TestReadingIntoABufferAllocatesNothing(t *testing.T) {
	l := allocLog(t, 10)
	opts := &seglog.ReadOptions{Buffer: make([]byte, 1<<16)}
	offset := int64(0)
	perCall := testing.AllocsPerRun(1000, func() {
		offset = (offset + 761) % 2000
		if _, err := l.Read(offset, 1<<15, opts); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, perCall)
}

func TestAppendingAllocatesNothingInSteadyState(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Snappy} {
		opts := quick
		opts.Compression = codec
		l := openLog(t, t.TempDir(), opts)
		records := many(10, 1)
		perCall := testing.AllocsPerRun(1000, func() {
			if _, err := l.Append(records, nil); err != nil {
				t.Fatal(err)
			}
		})
		require.Zero(t, perCall, codec)
	}
}

func TestAppendingDurablyAllocatesNothingInSteadyState(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{Sync: seglog.SyncAlways})
	records := many(10, 1)
	perCall := testing.AllocsPerRun(200, func() {
		if _, err := l.Append(records, nil); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, perCall)
}

func TestAKnownProducersAppendAllocatesNoMoreThanAPlainOne(t *testing.T) {
	l := allocLog(t, 100)
	records := many(1, 1)
	o := &seglog.AppendOptions{}
	plain := testing.AllocsPerRun(1000, func() {
		if _, err := l.Append(records, o); err != nil {
			t.Fatal(err)
		}
	})
	p := seglog.Producer{ID: 1, Transactional: true}
	o.Producer = &p
	perCall := testing.AllocsPerRun(1000, func() {
		if _, err := l.Append(records, o); err != nil {
			t.Fatal(err)
		}
		p.Sequence++
	})
	require.LessOrEqual(t, perCall, plain)
}

func TestScanningCommittedRecordsAllocatesNothingPerRecord(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	for i := range int32(200) {
		p := seglog.Producer{ID: 1, Sequence: 10 * i, Transactional: true}
		_, err := l.Append(many(10, 1), &seglog.AppendOptions{Producer: &p})
		require.NoError(t, err)
		if i%10 == 9 {
			_, err = l.EndTransaction(p, seglog.TransactionResult(i/10%2), nil)
			require.NoError(t, err)
		}
	}
	n := 0
	perScan := testing.AllocsPerRun(20, func() {
		n = 0
		for _, err := range l.Records(context.Background(), 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	})
	require.Equal(t, 1000, n)
	require.LessOrEqual(t, perScan, 20.0, "for 2000 records and 10 aborted transactions")
}
