package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// Another process makes one segment of several that a read-only log knows: whatever it
// had open of them, and whatever it is asked, that is no damage, and it does not wait for
// ever.
func TestAReadOnlyLogGoesOnBesideACompaction(t *testing.T) {
	for name, open := range map[string][]int64{"nothing": nil, "the second": {2}, "all": {0, 2, 4, 6}} {
		for what, ask := range map[string]func(t *testing.T, ro *seglog.Log) error{
			"records": func(t *testing.T, ro *seglog.Log) error {
				all := contents(t, ro)
				require.Subset(t, all, []string{"0 u0=v", "2 u1=v", "4 u2=v", "6 u3=v", "7 k=v"})
				return nil
			},
			"batches": func(t *testing.T, ro *seglog.Log) error {
				for _, err := range ro.Batches(t.Context(), 0, nil) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"read": func(_ *testing.T, ro *seglog.Log) error {
				for next := int64(0); next < ro.Offsets().End; {
					res, err := ro.Read(next, 100, nil)
					if err != nil {
						return err
					}
					next = res.NextOffset
				}
				return nil
			},
			"get": func(_ *testing.T, ro *seglog.Log) error {
				for o := range int64(8) {
					if _, err := ro.Get(o); err != nil && (o%2 == 0 || o == 7 || !errors.Is(err, seglog.ErrNoRecord)) {
						return err
					}
				}
				return nil
			},
			"a time": func(_ *testing.T, ro *seglog.Log) error {
				_, _, err := ro.OffsetForTime(1000)
				return err
			},
			"how dirty it is": func(_ *testing.T, ro *seglog.Log) error {
				_, err := ro.Dirtiness()
				return err
			},
			"a dry run": func(t *testing.T, ro *seglog.Log) error {
				res, err := ro.Compact(t.Context(), &seglog.CompactOptions{DryRun: true, Full: true})
				require.Equal(t, 1, res.Passes)
				return err
			},
		} {
			t.Run(name+" was open/"+what, func(t *testing.T) {
				l := openLog(t, filepath.Join(t.TempDir(), "topic-0"), compacted)
				for i := range 4 {
					put(t, l, fmt.Sprint("u", i), "v")
					put(t, l, "k", "v")
					rollLog(t, l)
				}
				opts := compacted
				opts.MinCompactionLag = 1 // a dry run asks each segment how old it is
				ro := openBeside(t, l, opts)
				for _, o := range open {
					_, err := ro.Get(o)
					require.NoError(t, err)
				}
				compact(t, l, nil)
				require.Equal(t, []int64{0, 8}, bases(t, l))
				require.NoError(t, ask(t, ro))
			})
		}
	}
}

// A read-only log is asked all the time while another compacts what it reads.
func TestReadOnlyLogsBesideManyCompactions(t *testing.T) {
	opts := compacted
	opts.SegmentBytes, opts.IndexIntervalBytes = 1500, 200
	l := openLog(t, filepath.Join(t.TempDir(), "topic-0"), opts)
	const keys = 9
	var mu sync.Mutex
	last := map[string]int64{}
	known := func() map[string]int64 {
		mu.Lock()
		defer mu.Unlock()
		all := map[string]int64{}
		for k, o := range last {
			all[k] = o
		}
		return all
	}
	for i := range keys {
		put(t, l, fmt.Sprint("k", i), "v")
		last[fmt.Sprint("k", i)] = int64(i)
	}
	ro, held := openBeside(t, l, opts), opts
	held.MaxOpenSegments = 1
	few := openBeside(t, l, held)
	table := seglog.NewKeyTable(ro, 1<<20)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for name, ask := range map[string]func(n int) error{
		"by key": func(n int) error {
			before := known()
			if err := ro.Refresh(); err != nil {
				return err
			}
			key := fmt.Sprint("k", n%keys)
			for _, look := range []func(context.Context, []byte) (seglog.Record, bool, error){ro.LatestByKey, table.Latest} {
				r, found, err := look(context.Background(), []byte(key))
				if err != nil || !found || r.Offset < before[key] {
					return fmt.Errorf("%s at %d (%v), want %d or above: %w", key, r.Offset, found, before[key], err)
				}
			}
			return nil
		},
		"all": func(int) error {
			if err := few.Refresh(); err != nil {
				return err
			}
			for _, err := range few.Records(context.Background(), 0, nil) {
				if err != nil {
					return err
				}
			}
			_, err := few.Dirtiness()
			return err
		},
		"a dry run": func(int) error {
			_, err := few.Compact(context.Background(), &seglog.CompactOptions{DryRun: true, Full: true})
			return err
		},
	} {
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := ask(n); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for i := range 400 {
		key := fmt.Sprint("k", i*7%keys)
		at, err := l.Append([]seglog.Record{kv(key, fmt.Sprint("value ", i))}, nil)
		require.NoError(t, err)
		mu.Lock()
		last[key] = at.BaseOffset
		mu.Unlock()
		if i%40 == 39 {
			compact(t, l, nil)
		}
	}
	close(stop)
	asking.Wait()
}
