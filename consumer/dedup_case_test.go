package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

var seen = of("seen", 0)

func (h *house) dedup(opts DedupOptions) *Dedup {
	h.t.Helper()
	if _, err := h.dir.Partition(seen.Topic, seen.Partition); err != nil {
		h.topic(seen.Topic, 1)
	}
	d, err := OpenDedup(h.log(seen), opts)
	require.NoError(h.t, err)
	return d
}

func keyed(keys ...string) []seglog.Record {
	records := make([]seglog.Record, len(keys))
	for i, k := range keys {
		records[i] = seglog.Record{Offset: int64(i), Value: []byte(k)}
		if k != "" {
			records[i].Key = []byte(k)
		}
	}
	return records
}

func keys(records []seglog.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Key))
	}
	return all
}

func TestDedupRemembersAcrossARestart(t *testing.T) {
	h := newHouse(t)
	d := h.dedup(DedupOptions{})
	require.EqualValues(t, -1, d.Position())
	require.Equal(t, []string{"a", "b", "", ""}, keys(d.Filter(keyed("a", "b", "a", "", ""))), "once here, too; what has no id is always new")
	require.NoError(t, d.Done(keyed("a", "b"), 7))
	h.reopen()
	d = h.dedup(DedupOptions{})
	require.EqualValues(t, 7, d.Position())
	require.Equal(t, 2, d.Len())
	require.Equal(t, []string{"c"}, keys(d.Filter(keyed("a", "c", "b"))))
	require.NoError(t, d.Done(nil, 9))
	require.EqualValues(t, 9, d.Position())
}

func TestDedupTakesIDsFromHeadersOrAFunction(t *testing.T) {
	h := newHouse(t)
	d := h.dedup(DedupOptions{ID: HeaderID("id")})
	records := []seglog.Record{
		{Headers: []seglog.Header{{Key: "id", Value: []byte("1")}}},
		{Headers: []seglog.Header{{Key: "id", Value: []byte("x")}, {Key: "id", Value: []byte("1")}}},
		{Headers: []seglog.Header{{Key: "other", Value: []byte("1")}}},
	}
	require.Len(t, d.Filter(records), 2)
	d = h.dedup(DedupOptions{ID: func(r *seglog.Record) []byte { return r.Value[:1] }})
	require.Equal(t, []string{"ab", "cd"}, keys(d.Filter(keyed("ab", "ac", "cd"))))
}

func TestDedupForgetsWhatLeavesTheWindow(t *testing.T) {
	h := newHouse(t)
	d := h.dedup(DedupOptions{MaxIDs: 10})
	for i := range 1000 {
		require.NoError(t, d.Done(keyed(fmt.Sprint(i)), int64(i+1)))
		require.LessOrEqual(t, d.Len(), 10)
		require.Equal(t, 1, len(d.Filter(keyed(fmt.Sprint(i-10)))))
		require.Empty(t, d.Filter(keyed(fmt.Sprint(i), fmt.Sprint(max(0, i-9)))))
	}
	o := h.log(seen).Offsets()
	require.Less(t, o.End-o.Start, int64(60), "the log is as short as what it remembers")
	h.reopen()
	d = h.dedup(DedupOptions{MaxIDs: 10})
	require.EqualValues(t, 1000, d.Position())
	require.Equal(t, 10, d.Len())
	require.Equal(t, []string{"989"}, keys(d.Filter(keyed("989", "990", "999"))))
}

func TestDedupForgetsWhatIsOld(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		d := h.dedup(DedupOptions{Window: time.Hour})
		require.NoError(t, d.Done(keyed("a"), 1))
		sleep(40 * time.Minute)
		require.NoError(t, d.Done(keyed("b"), 2))
		sleep(40 * time.Minute)
		require.Equal(t, []string{"a"}, keys(d.Filter(keyed("a", "b"))))
		h.reopen()
		d = h.dedup(DedupOptions{Window: time.Hour})
		require.Equal(t, []string{"a"}, keys(d.Filter(keyed("a", "b"))))
	})
}

func TestDedupWritesManyIDsInSeveralBatches(t *testing.T) {
	h := newHouse(t)
	d := h.dedup(DedupOptions{})
	var records []seglog.Record
	for i := range 40 {
		records = append(records, seglog.Record{Key: append(bytes.Repeat([]byte{'x'}, 50_000), byte(i))})
	}
	require.NoError(t, d.Done(records, 40))
	require.Empty(t, d.Filter(records))
	d = h.dedup(DedupOptions{})
	require.Empty(t, d.Filter(records))
	require.EqualValues(t, 40, d.Position())
}

func TestDedupFencesTheOneBefore(t *testing.T) {
	h := newHouse(t)
	old := h.dedup(DedupOptions{})
	require.NoError(t, old.Done(keyed("a"), 1))
	d := h.dedup(DedupOptions{})
	end := h.log(seen).Offsets().End
	require.ErrorIs(t, old.Done(keyed("b"), 2), ErrStale)
	require.Equal(t, end, h.log(seen).Offsets().End)
	require.NoError(t, d.Done(keyed("b"), 2))
	h.reopen()
	d = h.dedup(DedupOptions{})
	require.EqualValues(t, 2, d.Position())
}

// An id that comes again when it was about to be forgotten is as old as that.
func TestDedupRemembersFromTheLastTimeAfterTheWindow(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		d := h.dedup(DedupOptions{Window: time.Hour})
		require.NoError(t, d.Done(keyed("a"), 1))
		sleep(2 * time.Hour)
		require.NoError(t, d.Done(keyed("a"), 2))
		for range 2 {
			sleep(20 * time.Minute)
			require.Empty(t, d.Filter(keyed("a")))
			h.reopen()
			d = h.dedup(DedupOptions{Window: time.Hour})
		}
		sleep(21 * time.Minute)
		require.Equal(t, []string{"a"}, keys(d.Filter(keyed("a"))))
	})
}

// What the one before was about to have on disk is there before it counts.
func TestDedupSyncsWhatItBeginsWith(t *testing.T) {
	h := newHouse(t)
	h.topic(seen.Topic, 1)
	never := seglog.SyncNever
	_, err := h.log(seen).Append([]seglog.Record{dedupRecord([]byte{positionKey}, 7, time.Now())}, &seglog.AppendOptions{Sync: &never})
	require.NoError(t, err)
	require.EqualValues(t, 7, h.dedup(DedupOptions{}).Position())
	require.Equal(t, h.log(seen).Offsets().End, h.log(seen).Offsets().Durable)
}

func TestDedupRefusesTheLogOfSomethingElse(t *testing.T) {
	h := newHouse(t)
	h.write(seen, "a")
	_, err := OpenDedup(h.log(seen), DedupOptions{})
	require.ErrorIs(t, err, ErrNotDedup)
	_, err = OpenDedup(h.log(seen), DedupOptions{MaxIDs: -1})
	require.ErrorIs(t, err, seglog.ErrOption)
}

func TestDedupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := seglog.OpenDir("model", seglog.DirOptions{ManualMaintenance: true, FS: logtest.NewDisk(logtest.DiskOptions{}).FS()})
		require.NoError(t, err)
		log, err := dir.CreatePartition("seen", 0, nil)
		require.NoError(t, err)
		const window = 8
		d, err := OpenDedup(log, DedupOptions{MaxIDs: window})
		require.NoError(t, err)
		var order []string
		position := int64(-1)
		known := func(id string) bool {
			for _, o := range order[max(0, len(order)-window):] {
				if o == id {
					return true
				}
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"done": func(t *rapid.T) {
				records := keyed(rapid.SliceOfN(rapid.StringMatching("[a-p]"), 0, 5).Draw(t, "ids")...)
				position = rapid.Int64Range(0, 1000).Draw(t, "position")
				fresh := d.Filter(records)
				require.NoError(t, d.Done(fresh, position))
				order = append(order, keys(fresh)...)
			},
			"reopen": func(t *rapid.T) {
				d, err = OpenDedup(log, DedupOptions{MaxIDs: window})
				require.NoError(t, err)
			},
			"": func(t *rapid.T) {
				require.Equal(t, position, d.Position())
				for id := 'a'; id <= 'p'; id++ {
					require.Equal(t, known(string(id)), len(d.Filter(keyed(string(id)))) == 0, "%c", id)
				}
			},
		})
		require.NoError(t, dir.Close())
	})
}

// world counts what the work has done, by business id. It survives crashes.
type world map[string]int

func (w world) work(records []seglog.Record) error {
	for _, r := range records {
		w[string(r.Key)]++
	}
	return nil
}

// crash ends a consumer as a crash does: nothing is committed.
func crash(c *Consumer) {
	c.mu.Lock()
	c.mu.closed = true
	c.end()
	c.mu.Unlock()
	c.background.Wait()
	for _, p := range c.mu.order {
		p.reader.close()
	}
}

var errCrash = errors.New("crash")

func TestEffectsAtTheEdges(t *testing.T) {
	process := func(h *house, w world, c *Consumer, d *Dedup) {
		for _, b := range mustPoll(h.t, c) {
			require.NoError(h.t, d.Process(ctx, c, &b, w.work))
		}
	}
	tests := []struct {
		name string
		// first is what happens before the crash, and prepare what comes before that
		prepare, first func(h *house, w world, c *Consumer, d *Dedup)
		want           world
	}{
		{"delivered twice by its producer", func(h *house, _ world, _ *Consumer, _ *Dedup) {
			h.write(orders, "a", "b")
			h.write(orders, "a")
			h.write(orders, "b", "c")
		}, process, world{"a": 1, "b": 1, "c": 1}},
		{"crash after the work was remembered and before the commit", nil, func(h *house, w world, c *Consumer, d *Dedup) {
			b := mustPoll(h.t, c)[0]
			require.NoError(h.t, w.work(b.Records))
			require.NoError(h.t, d.Done(b.Records, b.Next))
		}, world{"a": 1, "b": 1}},
		{"crash after the delivery and before the work", nil, func(h *house, _ world, c *Consumer, _ *Dedup) {
			mustPoll(h.t, c)
		}, world{"a": 1, "b": 1}},
		{"crash after the work and before it is remembered: the work is repeated", nil, func(h *house, w world, c *Consumer, _ *Dedup) {
			require.NoError(h.t, w.work(mustPoll(h.t, c)[0].Records))
		}, world{"a": 2, "b": 2}},
		{"crash after the commit", nil, process, world{"a": 1, "b": 1}},
		{"the work fails", nil, func(h *house, w world, c *Consumer, d *Dedup) {
			b := mustPoll(h.t, c)[0]
			require.ErrorIs(h.t, d.Process(ctx, c, &b, func([]seglog.Record) error { return errCrash }), errCrash)
		}, world{"a": 1, "b": 1}},
		{"the commit goes back", nil, func(h *house, w world, c *Consumer, d *Dedup) {
			process(h, w, c, d)
			require.NoError(h.t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: 0}}))
		}, world{"a": 1, "b": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			w := world{}
			if tt.prepare == nil {
				h.write(orders, "a", "b")
			} else {
				tt.prepare(h, w, nil, nil)
			}
			c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
			tt.first(h, w, c, h.dedup(DedupOptions{}))
			crash(c)
			h.reopen()
			c = h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
			h.write(orders, "z")
			d := h.dedup(DedupOptions{})
			process(h, w, c, d)
			h.closeConsumer(c)
			tt.want["z"] = 1
			require.Equal(t, tt.want, w)
			require.Equal(t, h.log(orders).Offsets().End, h.committed(orders))
		})
	}
}

// The acknowledgement of a commit is lost, though it was done.
func TestLostAcknowledgementRepeatsNothing(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a", "b")
		f := &faulty{Store: h.store}
		lost := 0
		f.fail(commitLost(&lost))
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Coordinator: f, ManualCommit: true}), orders)
		w, d := world{}, h.dedup(DedupOptions{})
		b := mustPoll(t, c)[0]
		require.NoError(t, d.Process(ctx, c, &b, w.work), "it is committed again, to the same effect")
		require.Equal(t, 2, lost)
		crash(c)
		c = h.assigned(h.grouped(earliest), orders)
		defer h.closeConsumer(c)
		require.Empty(t, poll(t, c))
		require.Equal(t, world{"a": 1, "b": 1}, w)
	})
}

// A partition goes while its old owner is at work: what that does afterwards counts for
// nothing, and the new owner does all that was not remembered.
func TestRevokeWhileAtWork(t *testing.T) {
	turned(t, func(t *testing.T, h *house) {
		h.write(orders, "a", "b", "c", "d")
		w := world{}
		c1 := h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true, MaxPollRecords: 2}, "orders")
		d1 := h.dedup(DedupOptions{})
		b := mustPoll(t, c1)[0]
		require.NoError(t, d1.Process(ctx, c1, &b, w.work))
		b = mustPoll(t, c1)[0]
		sleep(6 * time.Minute) // c1 is out of the group

		c2 := h.subscribed(Options{OffsetReset: Earliest, ManualCommit: true}, "orders")
		defer h.closeConsumer(c2)
		d2 := h.dedup(DedupOptions{})
		b2 := mustPoll(t, c2)[0]
		require.Equal(t, []string{"c", "d"}, keys(b2.Records))
		require.ErrorIs(t, d1.Done(b.Records, b.Next), ErrStale)
		require.ErrorIs(t, c1.CommitSync(ctx, nil), ErrStale)
		require.NoError(t, d2.Process(ctx, c2, &b2, w.work))
		require.Equal(t, world{"a": 1, "b": 1, "c": 1, "d": 1}, w)
		require.EqualValues(t, 4, h.committed(orders))
		h.closeConsumer(c1)
		require.EqualValues(t, 4, h.committed(orders))
	})
}

// What an aborted transaction has written has no effect, and what was sent again does.
func TestAbortedTransactionHasNoEffect(t *testing.T) {
	h := newHouse(t)
	h.topic("orders", 1)
	abort, commit := seglog.Abort, seglog.Commit
	h.transaction(orders, 1, &abort, "a", "b")
	h.transaction(orders, 2, &commit, "a", "b")
	h.transaction(orders, 3, &abort, "c")
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, Isolation: seglog.ReadCommitted}), orders)
	w, d := world{}, h.dedup(DedupOptions{})
	b := mustPoll(t, c)[0]
	require.NoError(t, d.Process(ctx, c, &b, w.work))
	require.Empty(t, poll(t, c))
	h.closeConsumer(c)
	require.Equal(t, world{"a": 1, "b": 1}, w)
	require.Equal(t, h.log(orders).Offsets().End, h.committed(orders))
}

// Crashes at random places, with records that are sent more than once: each id has one
// effect, and one more for each crash between its work and Done.
func TestEffectsUnderRandomCrashes(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHouse(t)
		h.topic("orders", 1)
		got, want := world{}, world{}
		sent := 0
		for sent < 60 {
			c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true, MaxPollRecords: 1 + random.IntN(5)}), orders)
			d := h.dedup(DedupOptions{})
			for crashed := false; !crashed && sent < 60; {
				for range 1 + random.IntN(4) {
					id := fmt.Sprint(max(0, sent-random.IntN(3)*random.IntN(6))) // at times an earlier one
					if want[id] == 0 {
						want[id] = 1
						sent++
					}
					h.write(orders, id)
				}
				b := mustPoll(t, c)[0]
				fresh := d.Filter(b.Records)
				at := random.IntN(12)
				if crashed = at == 0; crashed {
					break
				}
				require.NoError(t, got.work(fresh))
				if crashed = at == 1; crashed {
					for _, id := range keys(fresh) {
						want[id]++
					}
					break
				}
				require.NoError(t, d.Done(fresh, b.Next))
				if crashed = at == 2; crashed {
					break
				}
				require.NoError(t, c.CommitSync(ctx, map[tp]OffsetAndMetadata{orders: {Offset: b.Next}}))
			}
			crash(c)
			h.reopen()
		}
		c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true}), orders)
		d := h.dedup(DedupOptions{})
		for h.committed(orders) < h.log(orders).Offsets().End {
			b := mustPoll(t, c)[0]
			require.NoError(t, d.Process(ctx, c, &b, got.work))
		}
		h.closeConsumer(c)
		require.Equal(t, want, got, "seed %d", seed)
	}
}
