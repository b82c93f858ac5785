package main

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// BenchmarkOffsetCommit commits offsets, one at a time and durably, with offsetslog and
// with bbolt, by one goroutine and by sixteen. bbolt shares syncs with Batch, which
// waits up to 10 ms for others; Update syncs for each.
func BenchmarkOffsetCommit(b *testing.B) {
	for _, p := range []struct {
		name string
		open func(*testing.B) func(group string, offset int64) error
	}{
		{"offsetslog", openStore},
		{"bbolt-update", func(b *testing.B) func(string, int64) error {
			return openBolt(b, (*bbolt.DB).Update)
		}},
		{"bbolt-batch", func(b *testing.B) func(string, int64) error {
			return openBolt(b, (*bbolt.DB).Batch)
		}},
	} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/committers=%d", p.name, n), func(b *testing.B) {
				commit := p.open(b)
				var wg sync.WaitGroup
				b.ResetTimer()
				for i := range n {
					wg.Go(func() {
						group := fmt.Sprintf("group-%d", i)
						for offset := i; offset < b.N; offset += n {
							if err := commit(group, int64(offset)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

func openStore(b *testing.B) func(string, int64) error {
	dir, err := seglog.OpenDir(b.TempDir(), offsetslog.Configure(seglog.DirOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	store, err := offsetslog.Open(dir, offsetslog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = store.Close(), dir.Close() })
	return func(group string, offset int64) error {
		return store.Commit(b.Context(), offsetslog.CommitRequest{Group: group, Offsets: []offsetslog.Commit{
			{TopicPartition: offsetslog.TopicPartition{Topic: "orders"}, Offset: offset, LeaderEpoch: -1},
		}})
	}
}

func openBolt(b *testing.B, change func(*bbolt.DB, func(*bbolt.Tx) error) error) func(string, int64) error {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "offsets"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return func(group string, offset int64) error {
		return change(db, func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("offsets"))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(group+"/orders/0"), binary.BigEndian.AppendUint64(nil, uint64(offset)))
		})
	}
}
