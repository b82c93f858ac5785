package consumer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/offsetslog"
)

type tp = offsetslog.TopicPartition

var orders = tp{Topic: "orders", Partition: 0}

// quiet are the settings of stores that do nothing by themselves.
var quiet = offsetslog.Options{RetentionCheckInterval: -1, InitialRebalanceDelay: -1, Partitions: 2}

// house is a Dir with topics, and who keeps the offsets of their consumers.
type house struct {
	t     *testing.T
	disk  *logtest.Disk
	dir   *seglog.Dir
	store *offsetslog.Store
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, disk: logtest.NewDisk(logtest.DiskOptions{})}
	h.open()
	t.Cleanup(h.close)
	return h
}

// turned runs a test on a clock that it turns itself.
func turned(t *testing.T, test func(*testing.T, *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, disk: logtest.NewDisk(logtest.DiskOptions{})}
		h.open()
		t.Cleanup(h.close)
		test(t, h)
	})
}

func (h *house) open() {
	h.t.Helper()
	var err error
	h.dir, err = seglog.OpenDir("dir", offsetslog.Configure(seglog.DirOptions{ManualMaintenance: true, FS: h.disk.FS(), Log: seglog.Options{SegmentIndexBytes: 64 << 10}}))
	require.NoError(h.t, err)
	h.store, err = offsetslog.Open(h.dir, quiet)
	require.NoError(h.t, err)
}

func (h *house) close() {
	require.NoError(h.t, h.store.Close())
	require.NoError(h.t, h.dir.Close())
}

// reopen is a restart.
func (h *house) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

// topic makes a topic of some partitions.
func (h *house) topic(name string, partitions int32) {
	h.t.Helper()
	for n := range partitions {
		_, err := h.dir.CreatePartition(name, n, nil)
		require.NoError(h.t, err)
	}
}

func (h *house) log(p tp) *seglog.Log {
	h.t.Helper()
	log, err := h.dir.Partition(p.Topic, p.Partition)
	require.NoError(h.t, err)
	return log
}

// write appends a batch of records, and a topic of one partition if there is none.
func (h *house) write(p tp, values ...string) {
	h.t.Helper()
	if _, err := h.dir.Partition(p.Topic, p.Partition); err != nil {
		_, err := h.dir.CreatePartition(p.Topic, p.Partition, nil)
		require.NoError(h.t, err)
	}
	records := make([]seglog.Record, len(values))
	for i, v := range values {
		records[i] = seglog.Record{Key: []byte(v), Value: []byte(v), Timestamp: 1}
	}
	_, err := h.log(p).Append(records, &seglog.AppendOptions{})
	require.NoError(h.t, err)
}

// writeN appends records one by one, with the values from to to-1.
func (h *house) writeN(p tp, from, to int) {
	h.t.Helper()
	for i := from; i < to; i++ {
		h.write(p, fmt.Sprint(i))
	}
}

// transaction appends records in a transaction, and ends it unless result is nil.
func (h *house) transaction(p tp, producer int64, result *seglog.TransactionResult, values ...string) {
	h.t.Helper()
	records := make([]seglog.Record, len(values))
	for i, v := range values {
		records[i] = seglog.Record{Key: []byte(v), Value: []byte(v), Timestamp: 1}
	}
	_, err := h.log(p).Append(records, &seglog.AppendOptions{Producer: &seglog.Producer{ID: producer, Transactional: true}})
	require.NoError(h.t, err)
	if result != nil {
		h.end(p, producer, *result)
	}
}

func (h *house) end(p tp, producer int64, result seglog.TransactionResult) {
	h.t.Helper()
	_, err := h.log(p).EndTransaction(seglog.Producer{ID: producer}, result, nil)
	require.NoError(h.t, err)
}

// grouped are the options of a consumer of the group "g".
func (h *house) grouped(o Options) Options {
	o.Group = "g"
	if o.Coordinator == nil {
		o.Coordinator = h.store
	}
	return o
}

func (h *house) consumer(o Options) *Consumer {
	h.t.Helper()
	c, err := New(h.dir, o)
	require.NoError(h.t, err)
	return c
}

// assigned is a consumer with partitions that it was given by hand.
func (h *house) assigned(o Options, partitions ...tp) *Consumer {
	h.t.Helper()
	c := h.consumer(o)
	require.NoError(h.t, c.Assign(ctx, partitions...))
	return c
}

// subscribed is a member of group "g".
func (h *house) subscribed(o Options, topics ...string) *Consumer {
	h.t.Helper()
	c := h.consumer(h.grouped(o))
	require.NoError(h.t, c.Subscribe(topics...))
	return c
}

// committed is what group "g" has committed, -1 for nothing.
func (h *house) committed(p tp) int64 {
	h.t.Helper()
	f, err := h.store.Fetch(ctx, offsetslog.FetchRequest{Group: "g", Partitions: []tp{p}})
	require.NoError(h.t, err)
	return f[0].Offset
}

func (h *house) closeConsumer(c *Consumer) {
	h.t.Helper()
	require.NoError(h.t, c.Close())
}

// poll is a Poll that does not wait for long.
func poll(t testing.TB, c *Consumer) []string {
	t.Helper()
	batches, err := tryPoll(c)
	if err != context.DeadlineExceeded {
		require.NoError(t, err)
	}
	return values(batches)
}

func tryPoll(c *Consumer) ([]Batch, error) {
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return c.Poll(short)
}

// mustPoll is a Poll that finds something.
func mustPoll(t testing.TB, c *Consumer) []Batch {
	t.Helper()
	batches, err := c.Poll(ctx)
	require.NoError(t, err)
	return batches
}

func values(batches []Batch) []string {
	var all []string
	for _, b := range batches {
		for _, r := range b.Records {
			all = append(all, string(r.Value))
		}
	}
	return all
}

// faulty is a coordinator that fails when it is told to.
type faulty struct {
	*offsetslog.Store
	mu sync.Mutex
	// commit is asked about each commit: its error is the answer, and after says that the
	// commit was done all the same.
	commit func(r offsetslog.CommitRequest) (after bool, err error)
	// fetch is called within each Fetch.
	fetch func()
	// commits are those that were asked for.
	commits []offsetslog.CommitRequest
}

func (f *faulty) Commit(ctx context.Context, r offsetslog.CommitRequest) error {
	f.mu.Lock()
	f.commits = append(f.commits, r)
	commit := f.commit
	f.mu.Unlock()
	if commit != nil {
		if after, err := commit(r); err != nil {
			if after {
				if err := f.Store.Commit(ctx, r); err != nil {
					return err
				}
			}
			return err
		}
	}
	return f.Store.Commit(ctx, r)
}

func (f *faulty) Fetch(ctx context.Context, r offsetslog.FetchRequest) ([]offsetslog.Fetched, error) {
	if f.fetch != nil {
		f.fetch()
	}
	return f.Store.Fetch(ctx, r)
}

// fail sets what happens to commits from now on.
func (f *faulty) fail(commit func(offsetslog.CommitRequest) (bool, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commit = commit
}

func of(topic string, partition int32) tp { return tp{Topic: topic, Partition: partition} }

// commitLost has the answers to the first two commits lost. What the caller sees may be
// tried again.
func commitLost(n *int) func(offsetslog.CommitRequest) (bool, error) {
	return func(offsetslog.CommitRequest) (bool, error) {
		if *n++; *n <= 1 {
			return true, offsetslog.ErrNotAvailable
		}
		return false, nil
	}
}
