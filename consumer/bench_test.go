package consumer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// BenchmarkPoll reads a log of records of 100 bytes, in batches of 100, and compares it
// with what it rests on, the iteration of a log. Both are per record.
func BenchmarkPoll(b *testing.B) {
	const total = 100_000
	dir, err := seglog.OpenDir(b.TempDir(), seglog.DirOptions{ManualMaintenance: true})
	require.NoError(b, err)
	defer dir.Close()
	log, err := dir.CreatePartition("orders", 0, nil)
	require.NoError(b, err)
	records := make([]seglog.Record, 100)
	for i := range records {
		records[i] = seglog.Record{Key: make([]byte, 10), Value: make([]byte, 90), Timestamp: 1}
	}
	never := seglog.SyncNever
	for range total / len(records) {
		_, err := log.Append(records, &seglog.AppendOptions{Sync: &never})
		require.NoError(b, err)
	}
	b.Run("log", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			for _, err := range log.Records(ctx, 0, nil) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n == b.N {
					break
				}
			}
		}
	})
	for name, o := range map[string]Options{"poll": {}, "tracked": {MaxInFlight: 1000}} {
		b.Run(name, func(b *testing.B) {
			c, err := New(dir, o)
			require.NoError(b, err)
			defer c.Close()
			require.NoError(b, c.Assign(ctx, orders))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				if n%total == 0 {
					require.NoError(b, c.Seek(orders, 0))
				}
				batches, err := c.Poll(ctx)
				if err != nil {
					b.Fatal(err)
				}
				for i := range batches {
					n += len(batches[i].Records)
					if o.MaxInFlight == 0 {
						continue
					}
					for _, r := range batches[i].Records {
						if err := batches[i].Complete(r.Offset); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
	b.Run("loop", func(b *testing.B) {
		c, err := New(dir, Options{})
		require.NoError(b, err)
		defer c.Close()
		require.NoError(b, c.Assign(ctx, orders))
		require.NoError(b, c.Seek(orders, 0))
		b.ReportAllocs()
		b.ResetTimer()
		n := 0
		for _, err := range c.Records(ctx) {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == b.N {
				break
			}
			if n%total == 0 {
				require.NoError(b, c.Seek(orders, 0))
			}
		}
	})
}
