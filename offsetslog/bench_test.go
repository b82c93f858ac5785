package offsetslog

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func benchHouse(b *testing.B, opts Options) (*seglog.Dir, *Store) {
	dir, err := seglog.OpenDir(b.TempDir(), Configure(seglog.DirOptions{ManualMaintenance: true}))
	require.NoError(b, err)
	opts.RetentionCheckInterval = -1
	s, err := Open(dir, opts)
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = s.Close(), dir.Close() })
	return dir, s
}

// BenchmarkCommit commits one offset at a time. All groups lie in one partition, as
// unlucky as can be, or in as many as there are.
func BenchmarkCommit(b *testing.B) {
	for _, policy := range []seglog.SyncPolicy{seglog.SyncAlways, seglog.SyncNever} {
		for _, partitions := range []int32{1, 50} {
			for _, committers := range []int{1, 16} {
				b.Run(fmt.Sprintf("sync=%s/partitions=%d/committers=%d", policy, partitions, committers), func(b *testing.B) {
					_, s := benchHouse(b, Options{Sync: policy, Partitions: partitions})
					b.ReportAllocs()
					commitAtOnce(b, s, committers)
				})
			}
		}
	}
}

func commitAtOnce(b *testing.B, s *Store, committers int) {
	times := make([][]time.Duration, committers)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range committers {
		wg.Go(func() {
			r := simple(fmt.Sprintf("group-%d", i), orders, 0)
			for n := i; n < b.N; n += committers {
				r.Offsets[0].Offset = int64(n)
				start := time.Now()
				if err := s.Commit(ctx, r); err != nil {
					b.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkFetch(b *testing.B) {
	_, s := benchHouse(b, Options{Sync: seglog.SyncNever})
	require.NoError(b, s.Commit(ctx, simple("g", orders, 1)))
	r := FetchRequest{Group: "g", Partitions: []TopicPartition{orders}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Fetch(ctx, r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "fetches/s")
}

// BenchmarkLoad loads a million commits: of as many partitions, and of a thousand
// partitions over and over.
func BenchmarkLoad(b *testing.B) {
	for _, tt := range []struct{ live, perGroup int }{{1_000_000, 100}, {1_000_000, 1}, {1000, 100}} {
		live, perGroup := tt.live, tt.perGroup
		b.Run(fmt.Sprintf("live=%d/perGroup=%d", live, perGroup), func(b *testing.B) {
			dir, s := benchHouse(b, Options{Sync: seglog.SyncNever, Partitions: 1})
			for i := 0; i < 1_000_000; i += perGroup {
				r := CommitRequest{Group: fmt.Sprintf("group-%d", i/perGroup%(live/perGroup))}
				for n := range int32(perGroup) {
					r.Offsets = append(r.Offsets, Commit{TopicPartition: TopicPartition{"a-topic-of-some-length", n}, Offset: int64(i), LeaderEpoch: 1})
				}
				require.NoError(b, s.Commit(ctx, r))
			}
			require.NoError(b, s.Close())
			s = nil
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				b.StartTimer()
				s, err := Open(dir, Options{RetentionCheckInterval: -1})
				require.NoError(b, err)
				require.NoError(b, s.Load(ctx))
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				require.Equal(b, live, s.Stats().Offsets)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(live), "B/offset")
				require.NoError(b, s.Close())
				b.StartTimer()
			}
		})
	}
}
