package offsetslog

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// Many committers, transactions, readers, removals and expiry at the same time: each
// finds what it was told, before and after a restart.
func TestEveryoneAtOnce(t *testing.T) {
	opts := quiet
	opts.Partitions = 2
	h := newHouseOnDisk(t, opts)
	const committers, rounds = 8, 40
	var wg sync.WaitGroup
	var done atomic.Bool
	last := make([]int64, committers)
	for i := range committers {
		wg.Go(func() {
			group, tp := fmt.Sprintf("group-%d", i%3), TopicPartition{"t", int32(i)}
			for n := range int64(rounds) {
				var err error
				switch r := simple(group, tp, n); n % 4 {
				case 0:
					p := Producer{ID: int64(i)}
					err = h.CommitTransactional(ctx, TransactionalCommitRequest{Group: group, Producer: p, Offsets: r.Offsets})
					if err == nil {
						err = h.EndTransaction(ctx, group, p, seglog.Commit, 0)
					}
				case 1:
					err = h.DeleteOffsets(ctx, group, []TopicPartition{tp})
					if err == nil {
						err = h.Commit(ctx, r)
					}
				default:
					err = h.Commit(ctx, r)
				}
				f, e := h.Fetch(ctx, FetchRequest{Group: group, Partitions: []TopicPartition{tp}})
				if err != nil || e != nil || f[0].Offset != n {
					t.Errorf("%s, %s: %v, %v, %v; want offset %d", group, tp, err, e, f, n)
					return
				}
				last[i] = n
			}
		})
	}
	var other sync.WaitGroup
	other.Go(func() {
		for !done.Load() {
			h.commit("doomed", orders, 1)
			if err := h.DeleteGroup(ctx, "doomed"); err != nil && err != ErrGroupNotFound {
				t.Error(err)
			}
		}
	})
	other.Go(func() {
		for !done.Load() {
			if _, err := h.Expire(ctx); err != nil {
				t.Error(err)
			}
			if _, err := h.Groups(ctx); err != nil {
				t.Error(err)
			}
			h.Stats()
		}
	})
	wg.Wait()
	done.Store(true)
	other.Wait()
	h.both(func() {
		for i, n := range last {
			require.EqualValues(t, rounds-1, n)
			require.Equal(t, n, h.at(fmt.Sprintf("group-%d", i%3), TopicPartition{"t", int32(i)}))
		}
	})
}

// A commit that comes between looking for what has expired and removing it stays.
func TestExpiryDoesNotTakeAYoungerCommit(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 1)
	p := h.partitions[PartitionFor("g", h.Partitions())]
	e := newEncoder()
	old := h.fetch("g", orders, false).CommitTimestamp
	now := old + quietRetention
	require.Equal(t, Expired{1, 1}, p.findExpired(e, []string{"g"}, now))
	p.mu.Lock()
	row, _ := p.mu.groups["g"].offsets.get(orders)
	row.CommitTimestamp = math.MaxInt64 / 2
	p.mu.groups["g"].offsets.put(orders, row)
	p.mu.Unlock()
	n, err := p.removeExpired([]string{"g"}, now)
	require.NoError(t, err)
	require.Zero(t, n)
	require.EqualValues(t, 1, h.at("g", orders))
}

const quietRetention = 7 * 24 * 3600 * 1000

// K085: loading goes on while the cleaner swaps segments, and comes to the same each time.
func TestLoadWhileTheCleanerSwapsSegments(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	h := &house{t: t, path: "data", opts: opts, dirs: inMemory()}
	h.dirs.Topics = map[string]seglog.Options{Topic: {
		CleanupPolicy: seglog.CleanupCompact, SegmentBytes: 1000, IndexIntervalBytes: 200, SegmentIndexBytes: 4 << 10, DeleteRetention: -1,
	}}
	h.open()
	const groups = 10
	again := func() { // what was committed already, and the comings and goings of another
		for i := range groups {
			h.commit(fmt.Sprint("g", i), orders, int64(100+i))
		}
		h.commit("comes and goes", orders, 1)
		require.NoError(t, h.DeleteGroup(ctx, "comes and goes"))
	}
	again()
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(t, err)
	var loaders, cleaner sync.WaitGroup
	done := make(chan struct{})
	swaps := 0
	cleaner.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			again()
			_, err := log.Roll()
			require.NoError(t, err)
			r, err := log.Compact(ctx, nil)
			require.NoError(t, err)
			swaps += len(r.Segments)
		}
	})
	for range 2 {
		loaders.Go(func() {
			for range 100 {
				s, err := OpenReadOnly(h.dir, 1, quiet)
				require.NoError(t, err)
				require.NoError(t, s.Load(ctx))
				for i := range groups {
					f, err := s.Fetch(ctx, FetchRequest{Group: fmt.Sprint("g", i)})
					require.NoError(t, err)
					require.Len(t, f, 1)
					require.EqualValues(t, 100+i, f[0].Offset)
				}
				require.Zero(t, s.Stats().Undecodable+s.Stats().Damaged)
				require.NoError(t, s.Close())
			}
		})
	}
	loaders.Wait()
	close(done)
	cleaner.Wait()
	require.NotZero(t, swaps)
}

// One that is not on disk yet when it is looked for what has expired stays, too.
func TestExpiryWaitsForCommitsUnderWay(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 1)
	p := h.partitions[PartitionFor("g", h.Partitions())]
	now := h.fetch("g", orders, false).CommitTimestamp + quietRetention
	r := simple("g", orders, 2)
	e := newEncoder()
	require.Empty(t, h.encode(e, "g", r.Offsets, now, -1))
	last, err := p.commit(&r, e) // and nobody has waited for it
	require.NoError(t, err)
	require.EqualValues(t, 1, h.at("g", orders))
	n, err := p.removeExpired([]string{"g"}, now)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, p.settle(ctx, last))
	h.both(func() { require.EqualValues(t, 2, h.at("g", orders)) })
}

// A broker fetches as of the position that is replicated; here it is what is on disk.
func TestFetchIsAsOfWhatIsOnDisk_376(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 1)
	p := h.partitions[PartitionFor("g", h.Partitions())]
	for offset := int64(2); offset < 5; offset++ {
		r := simple("g", orders, offset)
		e := newEncoder()
		require.Empty(t, h.encode(e, "g", r.Offsets, h.fetch("g", orders, false).CommitTimestamp, -1))
		last, err := p.commit(&r, e) // and nobody has waited for it
		require.NoError(t, err)
		require.Equal(t, offset-1, h.at("g", orders))
		require.NoError(t, p.settle(ctx, last))
		require.Equal(t, offset, h.at("g", orders))
	}
}
