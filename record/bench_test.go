package record

import (
	"fmt"
	"testing"
)

// benchRecords are n records of a 16-byte key and 128 bytes of value, like
// those the design was measured with.
func benchRecords(n, headers int) []Record {
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = Record{
			Timestamp: 1700000000000 + int64(i/10),
			Key:       fmt.Appendf(nil, "key-%012d", i*7919%n),
			Value:     noise(uint64(i), 128),
		}
		for h := range headers {
			recs[i].Headers = append(recs[i].Headers, Header{Key: fmt.Sprintf("header-%d", h), Value: []byte("value")})
		}
	}
	return recs
}

// compressibleRecords are benchRecords with values a codec can do something
// about.
func compressibleRecords(n int) []Record {
	recs := benchRecords(n, 0)
	for i := range recs {
		recs[i].Value = fmt.Appendf(nil, `{"order":%d,"state":"paid","amount":%d,"note":"%x"}`, i, i*31, noise(uint64(i), 30))
	}
	return recs
}

// noise is n bytes that cannot be compressed and are the same every time.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 0x853c49e6748fea9b
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

func BenchmarkEncode(b *testing.B) {
	for _, bm := range []struct{ records, headers int }{{1, 0}, {100, 0}, {100, 2}} {
		b.Run(fmt.Sprintf("records=%d/headers=%d", bm.records, bm.headers), func(b *testing.B) {
			recs := benchRecords(bm.records, bm.headers)
			builder := NewBuilder(BuilderOptions{})
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(BuilderOptions{})
				for i := range recs {
					if err := builder.Append(recs[i]); err != nil {
						b.Fatal(err)
					}
				}
				batch, err := builder.Build()
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(batch)))
			}
			perRecord(b, bm.records)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, bm := range []struct{ records, headers int }{{1, 0}, {100, 0}, {100, 2}} {
		b.Run(fmt.Sprintf("records=%d/headers=%d", bm.records, bm.headers), func(b *testing.B) {
			batch := parse(b, build(b, BuilderOptions{}, benchRecords(bm.records, bm.headers)...))
			benchDecode(b, batch, bm.records)
		})
	}
}

func BenchmarkSkipTo(b *testing.B) {
	batch := parse(b, build(b, BuilderOptions{}, benchRecords(100, 0)...))
	it := NewIterator(DecodeOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if err := it.Reset(batch); err != nil || !it.SkipTo(99) {
			b.Fatal(err, it.Err())
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	for codec := Gzip; codec <= Zstd; codec++ {
		recs := compressibleRecords(100)
		b.Run("encode/"+codec.String(), func(b *testing.B) {
			builder := new(Builder)
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(BuilderOptions{Codec: codec})
				for i := range recs {
					if err := builder.Append(recs[i]); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := builder.Build(); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, len(recs))
		})
		b.Run("decode/"+codec.String(), func(b *testing.B) {
			benchDecode(b, parse(b, build(b, BuilderOptions{Codec: codec}, recs...)), len(recs))
		})
	}
}

func benchDecode(b *testing.B, batch Batch, records int) {
	it := NewIterator(DecodeOptions{})
	b.SetBytes(int64(batch.Size()))
	b.ReportAllocs()
	for b.Loop() {
		if err := it.Reset(batch); err != nil {
			b.Fatal(err)
		}
		for it.Next() {
		}
		if err := it.Err(); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b, records)
}

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
}

// The batches of "cold" are more than the caches hold.
func BenchmarkCRC(b *testing.B) {
	one := build(b, BuilderOptions{}, benchRecords(100, 0)...)
	for _, bm := range []struct {
		name   string
		copies int
	}{{"cached", 1}, {"cold", 8 << 10}} {
		b.Run(bm.name, func(b *testing.B) {
			var batches []Batch
			for range bm.copies {
				batches = append(batches, Batch{append([]byte(nil), one...)})
			}
			b.SetBytes(int64(len(one)))
			i := 0
			for b.Loop() {
				if err := batches[i%len(batches)].Check(); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
