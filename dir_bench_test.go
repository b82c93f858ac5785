package seglog_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// BenchmarkDirOfManyPartitions opens a directory, appends to each of its logs, and
// closes it. It reports what the logs cost while they are open and idle.
func BenchmarkDirOfManyPartitions(b *testing.B) {
	for _, n := range []int{2000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			opts := seglog.DirOptions{ManualMaintenance: true, RecoveryThreads: 8, Log: quick}
			d, err := seglog.OpenDir(dir, opts)
			require.NoError(b, err)
			for i := range n {
				l, err := d.CreatePartition("topic", int32(i), nil)
				require.NoError(b, err)
				for range 3 { // segments
					_, err = l.Append(many(1, 1000), nil)
					require.NoError(b, err)
					_, err = l.Roll()
					require.NoError(b, err)
				}
			}
			require.NoError(b, d.Close())
			b.ResetTimer()
			for b.Loop() {
				var before, after runtime.MemStats
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				d, err := seglog.OpenDir(dir, opts)
				require.NoError(b, err)
				b.ReportMetric(float64(b.Elapsed().Milliseconds()), "ms-to-open")
				require.NoError(b, d.Load(b.Context(), nil))
				b.ReportMetric(float64(b.Elapsed().Milliseconds()), "ms-to-load")
				for i := range n {
					l, err := d.Partition("topic", int32(i))
					require.NoError(b, err)
					_, err = l.Append(many(1, 1000), nil)
					require.NoError(b, err)
				}
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/log")
				b.ReportMetric(float64(descriptorsIn(b, dir)), "descriptors")
				b.ReportMetric(float64(openMappings(b, dir)), "mappings")
				b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
				b.StartTimer()
				require.NoError(b, d.Close())
			}
		})
	}
}
