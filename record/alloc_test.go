package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The hot paths hold on to what they need: from the second batch on they
// allocate nothing, or what is stated here.

func TestBuilderAllocatesNothing(t *testing.T) {
	recs := benchRecords(100, 2)
	producer := Producer{ID: 7}
	b := new(Builder)
	n := testing.AllocsPerRun(50, func() {
		b.Reset(BuilderOptions{Producer: &producer})
		for i := range recs {
			_ = b.Append(recs[i])
		}
		if _, err := b.Build(); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, n)
}

func TestIteratorAllocatesNothing(t *testing.T) {
	for _, headers := range []int{0, 2} {
		b := parse(t, build(t, BuilderOptions{}, benchRecords(100, headers)...))
		it := new(Iterator)
		n := testing.AllocsPerRun(50, func() {
			_ = it.Reset(b)
			for it.Next() {
			}
			_ = it.Reset(b)
			for it.SkipTo(50) {
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		})
		require.Zero(t, n, "%d headers", headers)
	}
}

func TestLegacyIteratorAllocatesNothing(t *testing.T) {
	for _, b := range []Batch{
		parse(t, appendLegacy(nil, legacyMessage{magic: 1, value: []byte("v")})),
		parse(t, wrap(t, legacyMessage{magic: 1, codec: Snappy, offset: 2}, inner(1, 0, 1, 2)...)),
	} {
		it := new(Iterator)
		require.Zero(t, testing.AllocsPerRun(50, func() {
			_ = it.Reset(b)
			for it.Next() {
			}
		}))
	}
}

func TestReadingABatchAllocatesNothing(t *testing.T) {
	b := build(t, BuilderOptions{Producer: &Producer{}}, benchRecords(100, 0)...)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		batch, err := Parse(b)
		if err != nil || batch.Check() != nil || batch.NextOffset() != 100 || batch.Header().Count != 100 {
			t.Fatal(err)
		}
	}))
}

// The codecs allocate nothing of their own once their state is there. Some of
// the libraries keep tables in a sync.Pool, from which they can be lost between
// two batches; the race detector makes sure that some are.
const lostToPools = 8

func TestCodecsKeepTheirState(t *testing.T) {
	recs := compressibleRecords(100)
	for codec := Gzip; codec <= Zstd; codec++ {
		b := new(Builder)
		encode := testing.AllocsPerRun(20, func() {
			b.Reset(BuilderOptions{Codec: codec})
			for i := range recs {
				_ = b.Append(recs[i])
			}
			if _, err := b.Build(); err != nil {
				t.Fatal(err)
			}
		})
		batch := parse(t, built(t, b))
		it := new(Iterator)
		decode := testing.AllocsPerRun(20, func() {
			_ = it.Reset(batch)
			for it.Next() {
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		})
		it.Close()
		require.LessOrEqual(t, encode, float64(lostToPools), "encode %s", codec)
		require.LessOrEqual(t, decode, float64(lostToPools), "decode %s", codec)
	}
}
