package offsetslog

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

var orders = TopicPartition{"orders", 0}

// quiet are the settings of stores whose clock is not part of the test.
var quiet = Options{RetentionCheckInterval: -1, InitialRebalanceDelay: -1}

// house is a Dir with a Store in it.
type house struct {
	t    *testing.T
	path string
	dirs seglog.DirOptions
	opts Options
	dir  *seglog.Dir
	*Store
}

// newHouse is one in memory.
func newHouse(t *testing.T, opts Options) *house {
	t.Helper()
	h := &house{t: t, path: "data", opts: opts, dirs: inMemory()}
	h.open()
	return h
}

// newHouseOnDisk is for tests that look at files.
func newHouseOnDisk(t *testing.T, opts Options) *house {
	t.Helper()
	h := &house{t: t, path: t.TempDir(), opts: opts, dirs: seglog.DirOptions{ManualMaintenance: true}}
	h.open()
	return h
}

func inMemory() seglog.DirOptions {
	opts := seglog.DirOptions{ManualMaintenance: true, FS: logtest.NewDisk(logtest.DiskOptions{}).FS()}
	opts.Log.SegmentIndexBytes = 64 << 10
	return opts
}

func (h *house) open() {
	h.t.Helper()
	var err error
	h.dir, err = seglog.OpenDir(h.path, Configure(h.dirs))
	require.NoError(h.t, err)
	h.Store, err = Open(h.dir, h.opts)
	require.NoError(h.t, err)
	h.t.Cleanup(h.close)
}

func (h *house) close() {
	require.NoError(h.t, h.Store.Close())
	require.NoError(h.t, h.dir.Close())
}

// reopen is a restart.
func (h *house) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

func (h *house) commit(group string, tp TopicPartition, offset int64) {
	h.t.Helper()
	require.NoError(h.t, h.Commit(ctx, simple(group, tp, offset)))
}

// at is the committed offset, -1 for none.
func (h *house) at(group string, tp TopicPartition) int64 {
	h.t.Helper()
	return h.fetch(group, tp, false).Offset
}

func (h *house) fetch(group string, tp TopicPartition, stable bool) Fetched {
	h.t.Helper()
	f, err := h.Fetch(ctx, FetchRequest{Group: group, Partitions: []TopicPartition{tp}, RequireStable: stable})
	require.NoError(h.t, err)
	require.Len(h.t, f, 1)
	return f[0]
}

// end is the end of the log of a group's partition.
func (h *house) end(group string) int64 {
	h.t.Helper()
	log, err := h.dir.Partition(Topic, PartitionFor(group, h.Partitions()))
	if err != nil {
		return 0
	}
	return log.Offsets().End
}

// topic makes a log with n records.
func (h *house) topic(tp TopicPartition, n int) *seglog.Log {
	h.t.Helper()
	log, err := h.dir.CreatePartition(tp.Topic, tp.Partition, nil)
	require.NoError(h.t, err)
	for i := range n {
		_, err := log.Append([]seglog.Record{{Value: []byte("v"), Timestamp: int64(1000 * (i + 1))}}, nil)
		require.NoError(h.t, err)
	}
	return log
}

func simple(group string, tp TopicPartition, offset int64) CommitRequest {
	return CommitRequest{Group: group, Offsets: []Commit{{TopicPartition: tp, Offset: offset, LeaderEpoch: -1}}}
}

// consumer is a protocol with the subscription to some topics.
func consumer(topics ...string) []Protocol {
	return []Protocol{{RangeProtocol, Subscription{Topics: topics, Generation: -1}.AppendTo(nil)}}
}

// stable makes a group with one member, which is subscribed to topics, and returns it.
func (h *house) stable(group string, topics ...string) Member {
	h.t.Helper()
	r, err := h.JoinGroup(ctx, JoinRequest{Group: group, ClientID: "c", Protocols: consumer(topics...)})
	require.NoError(h.t, err)
	_, err = h.SyncGroup(ctx, SyncRequest{Group: group, Member: r.Member})
	require.NoError(h.t, err)
	return r.Member
}

var ctx = context.Background()

// turned runs a test on a clock that it turns itself. The store is closed in it.
func turned(t *testing.T, opts Options, test func(*testing.T, *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, opts)
		test(t, h)
	})
}

func sleep(d time.Duration) {
	time.Sleep(d) // in a bubble, where it takes no time
	synctest.Wait()
}

// damageRecovered takes the records of partition 0 away, which were known to be there.
func damageRecovered(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.Truncate(filepath.Join(path, Topic+"-0", "00000000000000000000.log"), 0))
}
