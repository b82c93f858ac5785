package offsetslog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// stored is a record of a log as loading sees it.
type stored struct {
	offset, producerID int64
	key, value         []byte
	marker             bool
	commit             bool
}

func storedRecords(t *testing.T, log *seglog.Log) (all []stored) {
	t.Helper()
	for b, err := range log.Batches(ctx, 0, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(t, err)
		for r, err := range b.Records(nil) {
			require.NoError(t, err)
			s := stored{offset: r.Offset, producerID: b.ProducerID(), key: bytes.Clone(r.Key), value: bytes.Clone(r.Value)}
			if b.IsControl() {
				kind, _, err := record.ParseControl(r.Key)
				require.NoError(t, err)
				s.marker, s.commit = true, kind == record.Commit
			}
			all = append(all, s)
		}
	}
	return all
}

// compacted is what the cleaner leaves below an offset: of each key the last record that
// is not one of an aborted transaction, and the markers. Without tombstones those are
// gone as well.
func compacted(all []stored, below int64, tombstones bool) (left []stored) {
	aborted := map[int64]bool{}   // offsets
	openOf := map[int64][]int64{} // by producer
	last := map[string]int64{}    // offset by key
	note := func(r stored) { last[string(r.key)] = max(last[string(r.key)], r.offset) }
	byOffset := map[int64]stored{}
	for _, r := range all {
		byOffset[r.offset] = r
		switch {
		case r.offset >= below && !r.marker: // below it, every transaction has ended somewhere
		case r.marker:
			for _, o := range openOf[r.producerID] {
				if aborted[o] = !r.commit; r.commit {
					note(byOffset[o])
				}
			}
			delete(openOf, r.producerID)
		case r.producerID >= 0:
			openOf[r.producerID] = append(openOf[r.producerID], r.offset)
		default:
			note(r)
		}
	}
	for _, r := range all {
		keep := r.offset >= below || r.marker || !aborted[r.offset] && last[string(r.key)] == r.offset && (r.value != nil || tombstones)
		if keep {
			left = append(left, r)
		}
	}
	return left
}

func replayed(t *testing.T, all []stored) *state {
	t.Helper()
	s := newState()
	for _, r := range all {
		if r.marker {
			s.end(r.producerID, r.commit)
		} else {
			require.NoError(t, s.replay(r.offset, r.producerID, r.key, r.value))
		}
	}
	return s
}

// summary is all that a state can be asked for.
func (s *state) summary() map[string]string {
	all := map[string]string{}
	for id, g := range s.groups {
		for tp, e := range g.offsets.all() {
			all[fmt.Sprintf("%s %s", id, tp)] = fmt.Sprint(e.Committed)
		}
		for p, offsets := range g.pending {
			for tp, e := range offsets.all() {
				all[fmt.Sprintf("%s %s pending %d", id, tp, p)] = fmt.Sprint(e.Committed)
			}
		}
		if c := g.classic; c != nil {
			all[id] = fmt.Sprint(c.state, c.generation, c.protocolType, len(c.members))
		}
	}
	return all
}

// K079, K080 and K085: a log that was compacted comes to what it came to before, and so
// it does with what is written afterwards.
func TestCompactedLogComesToTheSame(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	for seed := range uint64(100) {
		h := newHouse(t, opts)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for range 80 {
			h.anything(rnd)
		}
		log, err := h.dir.Partition(Topic, 0)
		require.NoError(t, err)
		all := storedRecords(t, log)
		stable, err := log.LastStableOffset()
		require.NoError(t, err)
		want := replayed(t, all).summary()
		for _, tombstones := range []bool{true, false} {
			left := compacted(all, stable, tombstones)
			require.Less(t, len(left), len(all))
			require.Equal(t, want, replayed(t, left).summary(), "seed %d, tombstones %v", seed, tombstones)
		}
		h.reopen()
		require.NoError(t, h.Load(ctx))
		require.Equal(t, want, h.partitions[0].mu.summary(), "seed %d", seed)
	}
}

// The same with the cleaner itself, round after round: what was superseded, aborted and
// expired goes, tombstones after their time, and what the log comes to stays.
func TestCleanerLeavesWhatCounts(t *testing.T) {
	opts := quiet
	opts.Partitions, opts.Retention = 1, time.Hour
	var sum seglog.CompactResult
	var expired Expired
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			h := &house{t: t, path: "data", opts: opts, dirs: inMemory()}
			h.dirs.Topics = map[string]seglog.Options{Topic: {
				CleanupPolicy: seglog.CleanupCompact, SegmentBytes: 2000, IndexIntervalBytes: 200, SegmentIndexBytes: 4 << 10, DeleteRetention: 10 * time.Minute,
			}}
			h.open()
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 5 {
				for range 40 {
					h.anything(rnd)
					h.expiring(rnd)
				}
				sleep(time.Duration(rnd.Int64N(int64(90 * time.Minute))))
				n, err := h.Expire(ctx)
				require.NoError(t, err)
				expired.add(n)
				r := h.clean()
				sum.Superseded += r.Superseded
				sum.Expired += r.Expired
				sum.Aborted += r.Aborted
				sum.Markers += r.Markers
			}
		})
	}
	require.NotZero(t, expired.Offsets)
	require.NotZero(t, expired.Groups)
	for what, n := range map[string]int64{"superseded": sum.Superseded, "tombstones": sum.Expired, "aborted": sum.Aborted, "markers": sum.Markers} {
		require.NotZero(t, n, what)
	}
}

// expiring commits for some time only, now and then.
func (h *house) expiring(rnd *rand.Rand) {
	r := simple(fmt.Sprint("g", rnd.IntN(3)), TopicPartition{"v", int32(rnd.IntN(3))}, rnd.Int64N(1000))
	if r.Retention = time.Duration(rnd.Int64N(int64(2 * time.Hour))); rnd.IntN(4) == 0 {
		_ = h.Commit(ctx, r)
	}
}

// clean compacts partition 0, and looks whether that changes what it comes to: at once,
// and after a restart.
func (h *house) clean() seglog.CompactResult {
	h.t.Helper()
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(h.t, err)
	want := replayed(h.t, storedRecords(h.t, log)).summary()
	require.Equal(h.t, want, h.partitions[0].mu.summary())
	_, err = log.Roll()
	require.NoError(h.t, err)
	r, err := log.Compact(ctx, nil)
	require.NoError(h.t, err)
	require.Equal(h.t, want, replayed(h.t, storedRecords(h.t, log)).summary())
	h.reopen()
	require.NoError(h.t, h.Load(ctx))
	require.Equal(h.t, want, h.partitions[0].mu.summary())
	return r
}

// anything does something, which may be refused.
func (h *house) anything(rnd *rand.Rand) {
	group := fmt.Sprint("g", rnd.IntN(3))
	tp, offset := TopicPartition{"t", int32(rnd.IntN(3))}, rnd.Int64N(1000)
	producer := Producer{ID: rnd.Int64N(3)}
	switch rnd.IntN(10) {
	case 0, 1, 2, 3:
		_ = h.Commit(ctx, simple(group, tp, offset))
	case 4, 5:
		h.pending(group, producer, tp, offset)
	case 6, 7:
		h.endTxn(group, producer, seglog.TransactionResult(rnd.IntN(2)))
	case 8:
		_ = h.DeleteOffsets(ctx, group, []TopicPartition{tp})
		_ = h.DeleteGroup(ctx, fmt.Sprint("g", rnd.IntN(3)))
	case 9:
		d, err := h.DescribeGroup(ctx, group)
		if err == nil && d.State == Stable {
			require.NoError(h.t, h.LeaveGroup(ctx, group, Member{ID: d.Members[0].ID}))
		} else {
			h.stable(group, "u")
		}
	}
}
