package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/seglog/seglog"
)

// dirty is a closed log of two million records of 100 bytes over so many keys, in
// batches of 100.
func dirty(b *testing.B, keys int) string {
	b.Helper()
	const records, batch = 2_000_000, 100
	dir := b.TempDir()
	l, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 64 << 20, CleanupPolicy: seglog.CleanupCompact})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	value := message(100)
	list := make([]seglog.Record, batch)
	for first := 0; first < records; first += batch {
		for i := range list {
			key := random.IntN(keys)
			if keys == records { // each once
				key = first + i
			}
			list[i] = seglog.Record{Timestamp: int64(first + i + 1), Key: fmt.Appendf(nil, "key-%08d", key), Value: value}
		}
		if _, err := l.Append(list, nil); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := l.Roll(); err != nil {
		b.Fatal(err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkCompact measures the speed of a compaction in records and bytes of what
// there was before, and the most memory that lived on the heap.
func BenchmarkCompact(b *testing.B) {
	for _, keys := range []int{100_000, 2_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			source := dirty(b, keys)
			var read seglog.Volume
			peak := int64(0)
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "log")
				if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
					b.Fatal(err)
				}
				l := open(b, dir, seglog.Options{SegmentBytes: 64 << 20, CleanupPolicy: seglog.CleanupCompact})
				runtime.GC()
				b.StartTimer()
				stop := watchHeap(&peak)
				res, err := l.Compact(b.Context(), nil)
				stop()
				if err != nil || res.Passes != 1 {
					b.Fatal(res.Passes, err)
				}
				read = res.Read
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(float64(read.Records)*perSecond, "records/s")
			b.ReportMetric(float64(read.Bytes)*perSecond/1e6, "MB/s")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}

// watchHeap raises peak to the most live heap until it is stopped.
func watchHeap(peak *int64) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			metrics.Read(sample)
			*peak = max(*peak, int64(sample[0].Value.Uint64()))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() { close(done); watching.Wait() }
}
