package consumer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// modelMember is a consumer of the model, with what it is at work on.
type modelMember struct {
	c       *Consumer
	tracked bool
	held    []heldRecord
}

type heldRecord struct {
	tp
	batch  *Batch
	offset int64
}

// groupModel has members do random things, and knows what was finished.
type groupModel struct {
	*house
	random   *rand.Rand
	topic    []tp
	members  []*modelMember
	finished map[tp]map[int64]bool
	written  int
}

func (m *groupModel) member() *modelMember {
	if len(m.members) == 0 {
		m.start()
	}
	return m.members[m.random.IntN(len(m.members))]
}

func (m *groupModel) start() {
	if len(m.members) == 3 {
		return
	}
	o := Options{OffsetReset: Earliest, MaxPollRecords: 1 + m.random.IntN(5)}
	tracked := m.random.IntN(2) == 0
	if tracked {
		o.MaxInFlight = 1 + m.random.IntN(6)
	}
	m.members = append(m.members, &modelMember{c: m.subscribed(o, "orders"), tracked: tracked})
}

func (m *groupModel) remove(gone *modelMember) {
	for i, o := range m.members {
		if o == gone {
			m.members = append(m.members[:i], m.members[i+1:]...)
			return
		}
	}
}

// poll finishes what is delivered at once, unless it is tracked.
func (m *groupModel) poll(one *modelMember) int {
	batches, _ := tryPoll(one.c) // it has no time, or may have to wait for others
	n := 0
	for i := range batches {
		b := &batches[i]
		for _, r := range b.Records {
			n++
			if one.tracked {
				one.held = append(one.held, heldRecord{b.TopicPartition, b, r.Offset})
			} else {
				m.finished[b.TopicPartition][r.Offset] = true
			}
		}
	}
	return n
}

// finish finishes a random record that is held. The work is done whether the partition is
// still the member's or not.
func (m *groupModel) finish(one *modelMember) {
	if len(one.held) == 0 {
		return
	}
	i := m.random.IntN(len(one.held))
	r := one.held[i]
	one.held = append(one.held[:i], one.held[i+1:]...)
	m.finished[r.tp][r.offset] = true
	if err := r.batch.Complete(r.offset); err != nil {
		require.ErrorIs(m.t, err, ErrStale)
	}
}

func (m *groupModel) step() {
	switch m.random.IntN(16) {
	case 0, 1, 2:
		for range 1 + m.random.IntN(4) {
			m.write(m.topic[m.random.IntN(len(m.topic))], fmt.Sprint(m.written))
			m.written++
		}
	case 3:
		m.start()
	case 4, 5, 6, 7:
		m.poll(m.member())
	case 8, 9, 10:
		m.finish(m.member())
	case 11:
		_ = m.member().c.CommitSync(ctx, nil)
	case 12:
		require.NoError(m.t, m.member().c.CommitAsync(nil, nil))
		synctest.Wait()
	case 13:
		sleep(time.Duration(m.random.IntN(60)) * time.Second)
	case 14:
		one := m.member()
		_ = one.c.Close()
		m.remove(one)
	case 15:
		one := m.member()
		crash(one.c)
		m.remove(one)
		if m.random.IntN(4) == 0 {
			m.restart()
		}
	}
}

func (m *groupModel) restart() {
	for _, one := range m.members {
		crash(one.c)
	}
	m.members = nil
	m.reopen()
}

// check: nothing was committed that is not finished.
func (m *groupModel) check() {
	m.t.Helper()
	for _, p := range m.topic {
		for o := range max(0, m.committed(p)) {
			require.True(m.t, m.finished[p][o], "%v: %d is committed, and %d is not finished", p, m.committed(p), o)
		}
	}
}

// drain has all that is left delivered and committed.
func (m *groupModel) drain() {
	m.restart()
	m.members = nil
	m.start()
	for left := true; left; {
		one := m.members[0]
		m.poll(one)
		for len(one.held) > 0 {
			m.finish(one)
		}
		_ = one.c.CommitSync(ctx, nil)
		m.check()
		left = false
		for _, p := range m.topic {
			left = left || max(0, m.committed(p)) < m.log(p).Offsets().End
		}
	}
	require.NoError(m.t, m.members[0].c.Close())
}

// Whatever members of a group do, and whenever they end: a record that is below the
// committed offset was finished, and all are in the end.
func TestGroupModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			turned(t, func(t *testing.T, h *house) {
				m := &groupModel{house: h, random: rand.New(rand.NewPCG(seed, 7)), finished: map[tp]map[int64]bool{}}
				h.topic("orders", 3)
				for n := range int32(3) {
					m.topic = append(m.topic, of("orders", n))
					m.finished[of("orders", n)] = map[int64]bool{}
				}
				for range 100 {
					m.step()
					m.check()
				}
				m.drain()
			})
		})
	}
}

// The power goes out before any operation on the disk: what was said to be committed is,
// nothing is committed that is not on disk and worked on, and Dedup knows all of it.
func TestPowerLossBetweenWorkAndCommit(t *testing.T) {
	h := newHouse(t)
	h.topic("orders", 1)
	never := seglog.SyncNever
	h.dedup(DedupOptions{})
	c := h.assigned(h.grouped(Options{OffsetReset: Earliest, ManualCommit: true, MaxPollRecords: 2}), orders)
	var told struct {
		sync.Mutex
		committed, worked int64
	}
	crashes := 0
	h.disk.OnCrash(3, 1, nil, func(crash logtest.Crash) {
		crashes++
		told.Lock()
		committed := told.committed
		told.Unlock()
		after := &house{t: t, disk: crash.Disk}
		after.open()
		defer after.close()
		told.Lock()
		worked := told.worked
		told.Unlock()
		at := max(0, after.committed(orders))
		require.GreaterOrEqual(t, at, committed, crash)
		require.LessOrEqual(t, at, worked, crash)
		require.LessOrEqual(t, at, after.log(orders).Offsets().End, crash)
		d := after.dedup(DedupOptions{})
		require.GreaterOrEqual(t, max(0, d.Position()), at, crash)
		for rec, err := range after.log(orders).Records(ctx, 0, nil) {
			if rec.Offset >= at {
				break
			}
			require.NoError(t, err, crash)
			require.Empty(t, d.Filter([]seglog.Record{rec}), crash)
		}
	})
	d, err := OpenDedup(h.log(seen), DedupOptions{})
	require.NoError(t, err)
	for i := range 6 {
		_, err := h.log(orders).Append([]seglog.Record{{Key: fmt.Append(nil, "a", i)}, {Key: fmt.Append(nil, "b", i)}}, &seglog.AppendOptions{Sync: &never})
		require.NoError(t, err)
		b := mustPoll(t, c)[0]
		require.NoError(t, d.Process(ctx, c, &b, func([]seglog.Record) error {
			told.Lock()
			defer told.Unlock()
			told.worked = b.Next
			return nil
		}))
		told.Lock()
		told.committed = b.Next
		told.Unlock()
	}
	h.disk.OnOp(nil)
	require.Greater(t, crashes, 100)
	h.closeConsumer(c)
}
