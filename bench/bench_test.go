package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// message is a value that compresses as text does.
func message(size int) []byte {
	const words = "the quick brown fox jumps over the lazy dog while the log keeps every word of it in order "
	b := make([]byte, size)
	for i := range b {
		b[i] = words[(i*7+i/97)%len(words)]
	}
	return b
}

func messages(n, size int) []seglog.Record {
	records := make([]seglog.Record, n)
	for i := range records {
		records[i] = seglog.Record{Timestamp: int64(1 + i), Key: fmt.Appendf(nil, "key %d", i), Value: message(size)}
	}
	return records
}

func open(b *testing.B, dir string, opts seglog.Options) *seglog.Log {
	b.Helper()
	l, err := seglog.Open(dir, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

// filled is a closed log of n records, in batches of the given length, over
// several segments.
func filled(b *testing.B, n, batch, size int, codec record.Codec) string {
	b.Helper()
	dir := b.TempDir()
	l, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 16 << 20, Compression: codec})
	if err != nil {
		b.Fatal(err)
	}
	records := messages(batch, size)
	for first := 0; first < n; first += batch {
		for i := range records {
			records[i].Timestamp = int64(1 + first + i)
		}
		if _, err := l.Append(records, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
}

func BenchmarkAppend(b *testing.B) {
	for _, sync := range []seglog.SyncPolicy{seglog.SyncNever, seglog.SyncAlways} {
		for _, shape := range []struct{ records, size int }{{1, 100}, {100, 100}, {1, 1024}, {100, 1024}} {
			b.Run(fmt.Sprintf("sync=%s/records=%d/size=%d", sync, shape.records, shape.size), func(b *testing.B) {
				l := open(b, b.TempDir(), seglog.Options{Sync: sync})
				records := messages(shape.records, shape.size)
				b.SetBytes(int64(shape.records * shape.size))
				for b.Loop() {
					if _, err := l.Append(records, nil); err != nil {
						b.Fatal(err)
					}
				}
				perRecord(b, shape.records)
			})
		}
	}
}

// BenchmarkAppendIdempotent is BenchmarkAppend of a producer that counts its records,
// beside one that does not: the difference is the cost. Take several of each: most of
// the time is the system's, which varies more than that when it writes to the disk.
func BenchmarkAppendIdempotent(b *testing.B) {
	for _, batch := range []int{1, 100} {
		for _, producer := range []string{"none", "idempotent", "transactional"} {
			b.Run(fmt.Sprintf("batch=%d/producer=%s", batch, producer), func(b *testing.B) {
				l := open(b, b.TempDir(), seglog.Options{Sync: seglog.SyncNever})
				records := messages(batch, 100)
				p := seglog.Producer{ID: 1, Transactional: producer == "transactional"}
				opts := &seglog.AppendOptions{}
				if producer != "none" {
					opts.Producer = &p
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Append(records, opts); err != nil {
						b.Fatal(err)
					}
					p.Sequence = record.IncrementSequence(p.Sequence, int32(batch))
				}
			})
		}
	}
}

// BenchmarkScanCommitted reads a log of transactions, every tenth of them aborted.
func BenchmarkScanCommitted(b *testing.B) {
	l := open(b, b.TempDir(), seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 16 << 20})
	const n, batch = 1000, 100
	records := messages(batch, 100)
	for i := range int32(n) {
		p := seglog.Producer{ID: 1, Sequence: batch * i, Transactional: true}
		result := seglog.Commit
		if i%10 == 0 {
			result = seglog.Abort
		}
		if _, err := l.Append(records, &seglog.AppendOptions{Producer: &p}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.EndTransaction(p, result, nil); err != nil {
			b.Fatal(err)
		}
	}
	for _, isolation := range []seglog.Isolation{seglog.ReadUncommitted, seglog.ReadCommitted} {
		b.Run(isolation.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range l.Records(context.Background(), 0, &seglog.IterOptions{Isolation: isolation}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*batch), "ns/record")
		})
	}
}

func BenchmarkAppendCompressed(b *testing.B) {
	for codec := record.Gzip; codec <= record.Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			l := open(b, b.TempDir(), seglog.Options{Sync: seglog.SyncNever, Compression: codec})
			records := messages(100, 1024)
			b.SetBytes(100 * 1024)
			for b.Loop() {
				if _, err := l.Append(records, nil); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, 100)
		})
	}
}

// BenchmarkAppendParallel shows group commit: appends that wait together share
// a sync.
func BenchmarkAppendParallel(b *testing.B) {
	for _, sync := range []seglog.SyncPolicy{seglog.SyncNever, seglog.SyncAlways} {
		b.Run("sync="+sync.String(), func(b *testing.B) {
			l := open(b, b.TempDir(), seglog.Options{Sync: sync})
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				records := messages(1, 100)
				for pb.Next() {
					if _, err := l.Append(records, nil); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkAppendReplicated(b *testing.B) {
	l := open(b, b.TempDir(), seglog.Options{Sync: seglog.SyncNever})
	builder := record.NewBuilder(record.BuilderOptions{})
	for _, r := range messages(100, 100) {
		if err := builder.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	bytes, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	batch, err := record.Parse(bytes)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(bytes)))
	for next := int64(0); b.Loop(); next += 100 {
		batch.SetBaseOffset(next)
		if _, err := l.AppendReplicated(bytes, nil); err != nil {
			b.Fatal(err)
		}
	}
}

const stored = 200_000 // records in the logs that are read

func BenchmarkGet(b *testing.B) {
	for _, batch := range []int{1, 100} {
		dir := filled(b, stored, batch, 100, record.None)
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			l := open(b, dir, seglog.Options{ReadOnly: true})
			random := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				if _, err := l.Get(random.Int64N(stored)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("batch=%d/buffer", batch), func(b *testing.B) {
			l := open(b, dir, seglog.Options{ReadOnly: true})
			random := rand.New(rand.NewPCG(1, 2))
			buf := make([]byte, 0, 4096)
			for b.Loop() {
				var err error
				if _, buf, err = l.GetBuffer(random.Int64N(stored), buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGetParallel(b *testing.B) {
	l := open(b, filled(b, stored, 100, 100, record.None), seglog.Options{ReadOnly: true})
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(3, 4))
		buf := make([]byte, 0, 4096)
		for pb.Next() {
			var err error
			if _, buf, err = l.GetBuffer(random.Int64N(stored), buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkScan(b *testing.B) {
	ctx := context.Background()
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			l := open(b, filled(b, stored, 100, 100, codec), seglog.Options{ReadOnly: true})
			b.SetBytes(stored * 100)
			for b.Loop() {
				n := 0
				for _, err := range l.Records(ctx, 0, nil) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != stored {
					b.Fatalf("%d records", n)
				}
			}
			perRecord(b, stored)
		})
	}
}

// BenchmarkScanSingle is BenchmarkScan of a log in which each record has a batch of its own.
func BenchmarkScanSingle(b *testing.B) {
	l := open(b, filled(b, stored, 1, 100, record.None), seglog.Options{ReadOnly: true})
	b.SetBytes(stored * 100)
	for b.Loop() {
		n := 0
		for _, err := range l.Records(b.Context(), 0, nil) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != stored {
			b.Fatalf("%d records", n)
		}
	}
	perRecord(b, stored)
}

// BenchmarkRead is raw bytes, as a replica or a client fetches them.
func BenchmarkRead(b *testing.B) {
	l := open(b, filled(b, stored, 100, 100, record.None), seglog.Options{ReadOnly: true})
	opts := &seglog.ReadOptions{Buffer: make([]byte, 1<<20)}
	size, err := l.Size()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		for next := int64(0); next < stored; {
			res, err := l.Read(next, 1<<20, opts)
			if err != nil {
				b.Fatal(err)
			}
			next = res.NextOffset
		}
	}
}

func BenchmarkOffsetForTime(b *testing.B) {
	l := open(b, filled(b, stored, 100, 100, record.None), seglog.Options{ReadOnly: true})
	random := rand.New(rand.NewPCG(5, 6))
	for b.Loop() {
		if _, found, err := l.OffsetForTime(1 + random.Int64N(stored)); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkOpen is to open and close a log that was closed cleanly. It does not
// depend on how much is in it.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, stored, 5 * stored} {
		dir := filled(b, n, 100, 100, record.None)
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			for b.Loop() {
				l, err := seglog.Open(dir, seglog.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
