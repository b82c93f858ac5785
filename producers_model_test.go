package seglog_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestProducersAnyHistoryIsThatOfTheRules drives producers, transactions and leader
// epochs through a random history and compares the log with Kafka's rules, written
// down here once more in the plainest way: everything is worked out from the list of
// all batches that were ever written. Run it for longer by hand:
//
//	go test -run TestProducersAnyHistory -rapid.checks=10000
func TestProducersAnyHistoryIsThatOfTheRules(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := newProducersModel(t, root)
		defer m.clear()
		t.Repeat(rapid.StateMachineActions(m))
		m.Reopen(t)
		m.Check(t)
	})
}

// pBatch is a batch that was written.
type pBatch struct {
	base, last  int64
	pid         int64 // -1: none
	epoch       int16
	seq         int32
	txn         bool
	marker      byte // 'c', 'a' or 0
	coordinator int32
	timestamp   int64
	leader      int32
}

func (b *pBatch) lastSeq() int32 { return int32((int64(b.seq) + b.last - b.base) % (1 << 31)) }

// pState is what the rules know of a producer.
type pState struct {
	epoch       int16
	batches     []pBatch // with data, in this epoch, at most five
	coordinator int32
	timestamp   int64
	open        int64 // first offset of the transaction, or -1
}

func (s *pState) clone() *pState {
	c := *s
	c.batches = slices.Clone(s.batches)
	return &c
}

func (s *pState) info(pid int64) seglog.ProducerInfo {
	i := seglog.ProducerInfo{ID: pid, Epoch: s.epoch, LastSequence: -1, LastOffset: -1, LastTimestamp: s.timestamp,
		CoordinatorEpoch: s.coordinator, TransactionStart: s.open}
	if n := len(s.batches); n > 0 {
		i.LastSequence, i.LastOffset = s.batches[n-1].lastSeq(), s.batches[n-1].last
	}
	return i
}

// states applies batches one after the other.
func states(batches []pBatch) map[int64]*pState {
	all := map[int64]*pState{}
	for _, b := range batches {
		applyTo(all, b)
	}
	return all
}

func applyTo(all map[int64]*pState, b pBatch) {
	if b.pid < 0 {
		return
	}
	s := all[b.pid]
	if s == nil {
		s = &pState{epoch: b.epoch, coordinator: -1, open: -1}
		all[b.pid] = s
	}
	if s.epoch != b.epoch {
		s.epoch, s.batches = b.epoch, nil
	}
	s.timestamp = b.timestamp
	if b.marker != 0 {
		s.coordinator, s.open = b.coordinator, -1
		return
	}
	s.batches = append(s.batches, b)
	if len(s.batches) > 5 {
		s.batches = s.batches[1:]
	}
	if b.txn && s.open < 0 {
		s.open = b.base
	}
}

type pEpoch struct {
	epoch int32
	start int64
}

type producersModel struct {
	root, dir string
	opts      seglog.Options
	log       *seglog.Log

	history           []pBatch // all that were written and not truncated, removed or not
	known             map[int64]*pState
	certain           map[int64]int   // how many of the newest batches of a producer must be known
	timestamps        map[int64]int64 // of producers, when the log last had to find out
	start, end, first int64
	firsts            []int64 // where the log has begun so far
	watermark         int64
	vague             bool // what completed transactions wait for the watermark is not known
	epochs            []pEpoch
	leader            int32
	copies            int
	clock             int64
}

func newProducersModel(t *rapid.T, root string) *producersModel {
	dir, err := os.MkdirTemp(root, "model")
	require.NoError(t, err)
	m := &producersModel{firsts: []int64{0}, root: dir, dir: filepath.Join(dir, "0"), known: map[int64]*pState{}, certain: map[int64]int{}, opts: seglog.Options{
		SegmentBytes:       rapid.SampledFrom([]int64{400, 900, 1 << 20}).Draw(t, "segment bytes"),
		IndexIntervalBytes: rapid.SampledFrom([]int{1, 4096}).Draw(t, "index interval"),
		Replicated:         rapid.Bool().Draw(t, "replicated"),
		MaxOpenSegments:    rapid.SampledFrom([]int{1, 0}).Draw(t, "open segments"),
		Sync:               seglog.SyncNever,
	}, clock: time.Now().UnixMilli()}
	m.open(t)
	m.begin()
	return m
}

func (m *producersModel) open(t *rapid.T) {
	l, err := seglog.Open(m.dir, m.opts)
	require.NoError(t, err)
	m.log = l
}

func (m *producersModel) clear() {
	m.log.Close()
	os.RemoveAll(m.root)
}

// assign is LeaderEpochFileCache.assign.
func (m *producersModel) assign(epoch int32, start int64) {
	if n := len(m.epochs); n > 0 && m.epochs[n-1].epoch == epoch && m.epochs[n-1].start <= start {
		return
	}
	m.epochs = slices.DeleteFunc(m.epochs, func(e pEpoch) bool { return e.epoch >= epoch || e.start >= start })
	m.epochs = append(m.epochs, pEpoch{epoch, start})
}

// begin has the present epoch go on at the log end.
func (m *producersModel) begin() {
	if !m.opts.Replicated {
		m.assign(m.leader, m.end)
	}
}

func (m *producersModel) endOf(epoch int32) seglog.EpochEnd {
	n := len(m.epochs)
	if n > 0 && m.epochs[n-1].epoch == epoch {
		return seglog.EpochEnd{Epoch: epoch, EndOffset: m.end}
	}
	for i, e := range m.epochs {
		if e.epoch <= epoch {
			continue
		}
		if i == 0 {
			return seglog.EpochEnd{Epoch: epoch, EndOffset: e.start}
		}
		return seglog.EpochEnd{Epoch: m.epochs[i-1].epoch, EndOffset: e.start}
	}
	return seglog.EpochEnd{Epoch: -1, EndOffset: -1}
}

func (m *producersModel) add(b pBatch) {
	m.assign(b.leader, b.base)
	m.history = append(m.history, b)
	applyTo(m.known, b)
	if s := m.known[b.pid]; s != nil {
		m.certain[b.pid] = min(m.certain[b.pid]+1, len(s.batches))
		if b.marker != 0 {
			m.certain[b.pid] = min(m.certain[b.pid]-1, len(s.batches))
		}
		m.certain[b.pid] = max(0, m.certain[b.pid])
	}
	m.end = b.last + 1
	if !m.opts.Replicated {
		m.watermark = m.end
	}
}

// draw makes a batch that a producer may send: mostly the right one.
func (m *producersModel) draw(t *rapid.T) (b pBatch, n int) {
	m.clock++
	n = rapid.IntRange(1, 3).Draw(t, "records")
	b = pBatch{base: m.end, last: m.end + int64(n) - 1, pid: int64(rapid.IntRange(-1, 3).Draw(t, "pid")), timestamp: m.clock, leader: m.leader, seq: -1, epoch: -1}
	if b.pid < 0 {
		return b, n
	}
	b.txn = b.pid > 0 && rapid.IntRange(0, 3).Draw(t, "plain") > 0
	s := m.known[b.pid]
	switch {
	case s == nil:
		b.epoch, b.seq = 0, rapid.SampledFrom([]int32{0, 0, 7, math.MaxInt32 - 1}).Draw(t, "first")
	case len(s.batches) == 0:
		b.epoch, b.seq = s.epoch, 0
	default:
		b.epoch, b.seq = s.epoch, int32((int64(s.batches[len(s.batches)-1].lastSeq())+1)%(1<<31))
	}
	switch rapid.IntRange(0, 9).Draw(t, "twist") {
	case 0:
		b.epoch, b.seq = b.epoch+1, 0
	case 1:
		b.epoch = max(0, b.epoch-1)
	case 2:
		b.seq = (b.seq + 1) & math.MaxInt32
	case 3, 4: // once more
		if s != nil && len(s.batches) > 0 {
			old := rapid.SampledFrom(s.batches).Draw(t, "again")
			b.seq, b.last = old.seq, b.base+old.last-old.base
			n = int(old.last-old.base) + 1
		}
	}
	return b, n
}

// judge says what must become of a client's batch. maybe is a duplicate that may have
// been forgotten.
func (m *producersModel) judge(b pBatch) (duplicate *pBatch, maybe bool, err error) {
	s := m.known[b.pid]
	if b.pid < 0 {
		return nil, false, nil
	}
	if s == nil {
		if m.end == 0 && b.seq != 0 {
			return nil, false, seglog.ErrOutOfOrderSequence
		}
		return nil, false, nil
	}
	due := int32(0)
	if n := len(s.batches); n > 0 && b.epoch == s.epoch {
		due = int32((int64(s.batches[n-1].lastSeq()) + 1) % (1 << 31))
	}
	switch {
	case b.epoch < s.epoch:
		err = seglog.ErrInvalidProducerEpoch
	case b.seq != due:
		err = seglog.ErrOutOfOrderSequence
	case s.open >= 0 && !b.txn:
		err = seglog.ErrInvalidTxnState
	}
	for i := range s.batches {
		if old := &s.batches[i]; b.epoch == s.epoch && old.seq == b.seq && old.lastSeq() == b.lastSeq() {
			// What is replicated may be there twice.
			if forgotten := len(s.batches)-i > m.certain[b.pid]; !forgotten || duplicate == nil {
				duplicate, maybe = old, forgotten
			}
			if !maybe {
				break
			}
		}
	}
	if duplicate != nil {
		return duplicate, maybe, err
	}
	return nil, false, err
}

// isTwice reports whether a batch is there at base, too: what is replicated may be
// there twice.
func (m *producersModel) isTwice(b pBatch, base int64) bool {
	return slices.ContainsFunc(m.known[b.pid].batches, func(old pBatch) bool {
		return old.base == base && old.seq == b.seq && old.lastSeq() == b.lastSeq()
	})
}

// heardSince lists the times at which a producer was heard of from this batch on, one of
// which is given for it: a snapshot says when its producer was last heard of, and not
// when it sent what.
func (m *producersModel) heardSince(b pBatch) []int64 {
	times := []int64{b.timestamp}
	for _, h := range m.history {
		if h.pid == b.pid && h.base > b.base {
			times = append(times, h.timestamp)
		}
	}
	return append(times, m.timestamps[b.pid])
}

func (m *producersModel) records(b pBatch, n int) []seglog.Record {
	list := make([]seglog.Record, n)
	for i := range list {
		list[i] = seglog.Record{Offset: b.base + int64(i), Timestamp: b.timestamp, Value: fmt.Appendf(nil, "%d/%d", b.pid, b.timestamp)}
	}
	return list
}

func (m *producersModel) encode(t *rapid.T, b pBatch) []byte {
	if b.marker != 0 {
		kind := record.Commit
		if b.marker == 'a' {
			kind = record.Abort
		}
		bytes, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{Offset: b.base, Timestamp: b.timestamp, ProducerID: b.pid,
			ProducerEpoch: b.epoch, LeaderEpoch: b.leader, Marker: record.EndTxnMarker{Type: kind, CoordinatorEpoch: b.coordinator}})
		require.NoError(t, err)
		return bytes
	}
	o := record.BuilderOptions{BaseOffset: b.base, LeaderEpoch: b.leader, Transactional: b.txn}
	if b.pid >= 0 {
		o.Producer = &record.Producer{ID: b.pid, Epoch: b.epoch, BaseSequence: b.seq}
	}
	return batchAt(t, o, m.records(b, int(b.last-b.base)+1)...)
}

func (m *producersModel) Append(t *rapid.T) {
	b, n := m.draw(t)
	var res seglog.AppendResult
	var err error
	if rapid.Bool().Draw(t, "encoded") {
		res, err = m.log.AppendBatch(m.encode(t, b), nil)
	} else {
		o := &seglog.AppendOptions{}
		if b.pid >= 0 {
			o.Producer = &seglog.Producer{ID: b.pid, Epoch: b.epoch, Sequence: b.seq, Transactional: b.txn}
		}
		res, err = m.log.Append(m.records(b, n), o)
	}
	duplicate, maybe, want := m.judge(b)
	if duplicate != nil && (!maybe || err == nil && res.Duplicate) {
		require.NoError(t, err)
		if res.BaseOffset != duplicate.base && m.isTwice(b, res.BaseOffset) {
			return
		}
		require.Contains(t, m.heardSince(*duplicate), res.Timestamp)
		require.Equal(t, seglog.AppendResult{BaseOffset: duplicate.base, LastOffset: duplicate.last, Timestamp: res.Timestamp, Duplicate: true}, res)
		return
	}
	if want != nil {
		require.ErrorIs(t, err, want)
		return
	}
	require.NoError(t, err)
	require.Equal(t, seglog.AppendResult{BaseOffset: b.base, LastOffset: b.last, Timestamp: b.timestamp}, res)
	m.add(b)
}

func (m *producersModel) EndTransaction(t *rapid.T) {
	pid := int64(rapid.IntRange(0, 3).Draw(t, "pid"))
	kind := rapid.SampledFrom([]byte{'a', 'c'}).Draw(t, "result")
	s := m.known[pid]
	b := pBatch{base: m.end, last: m.end, pid: pid, marker: kind, leader: m.leader, coordinator: int32(rapid.IntRange(0, 2).Draw(t, "coordinator"))}
	if s != nil {
		b.epoch = max(0, s.epoch+int16(rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "epoch")))
	}
	result := seglog.Commit
	if kind == 'a' {
		result = seglog.Abort
	}
	res, err := m.log.EndTransaction(seglog.Producer{ID: pid, Epoch: b.epoch}, result, &seglog.AppendOptions{CoordinatorEpoch: b.coordinator})
	switch {
	case s != nil && b.epoch < s.epoch:
		require.ErrorIs(t, err, seglog.ErrInvalidProducerEpoch)
		return
	case s != nil && b.coordinator < s.coordinator:
		require.ErrorIs(t, err, seglog.ErrCoordinatorFenced)
		return
	}
	require.NoError(t, err)
	require.Equal(t, m.end, res.BaseOffset)
	b.timestamp = res.Timestamp
	m.add(b)
}

func (m *producersModel) AbortTransaction(t *rapid.T) {
	pid := int64(rapid.IntRange(0, 3).Draw(t, "pid"))
	res, err := m.log.AbortTransaction(pid, nil)
	s := m.known[pid]
	if s == nil || s.open < 0 {
		require.ErrorIs(t, err, seglog.ErrNoTransaction)
		return
	}
	require.NoError(t, err)
	m.add(pBatch{base: m.end, last: m.end, pid: pid, marker: 'a', leader: m.leader, epoch: s.epoch, coordinator: max(0, s.coordinator), timestamp: res.Timestamp})
}

// Replicate appends a set as a leader has it: whatever it says is taken.
func (m *producersModel) Replicate(t *rapid.T) {
	var set []byte
	var added []pBatch
	end := m.end
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		var b pBatch
		if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			m.clock++
			b = pBatch{base: m.end, last: m.end, pid: int64(rapid.IntRange(0, 3).Draw(t, "pid")), timestamp: m.clock, leader: m.leader,
				marker: rapid.SampledFrom([]byte{'a', 'c'}).Draw(t, "result"), coordinator: 1, epoch: int16(rapid.IntRange(0, 2).Draw(t, "epoch"))}
		} else {
			b, _ = m.draw(t)
		}
		gap := end - m.end + rapid.SampledFrom([]int64{0, 0, 0, 3}).Draw(t, "gap")
		b.base, b.last = b.base+gap, b.last+gap
		b.leader += rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "leader")
		if n := len(added); n > 0 {
			b.leader = max(b.leader, added[n-1].leader)
		}
		end = b.last + 1
		added = append(added, b)
		set = append(set, m.encode(t, b)...)
	}
	_, err := m.log.AppendReplicated(set, nil)
	if errors.Is(err, seglog.ErrSetTooLarge) {
		return
	}
	require.NoError(t, err)
	m.epochs = slices.DeleteFunc(m.epochs, func(e pEpoch) bool { return e.start >= m.end })
	for _, b := range added {
		m.leader = max(m.leader, b.leader)
		m.add(b)
	}
}

func (m *producersModel) SetLeaderEpoch(t *rapid.T) {
	epoch := max(0, m.leader+int32(rapid.IntRange(-1, 2).Draw(t, "by")))
	err := m.log.SetLeaderEpoch(epoch)
	if epoch < m.leader {
		require.ErrorIs(t, err, seglog.ErrFencedLeaderEpoch)
		return
	}
	require.NoError(t, err)
	m.leader = epoch
	m.assign(epoch, m.end)
}

func (m *producersModel) SetHighWatermark(t *rapid.T) {
	if !m.opts.Replicated {
		t.Skip("a lone log has none")
	}
	to := rapid.Int64Range(m.watermark, m.end).Draw(t, "to")
	at, err := m.log.SetHighWatermark(to)
	require.NoError(t, err)
	m.watermark = max(m.start, to)
	require.Equal(t, m.watermark, at)
	m.vague = m.vague && m.watermark < m.end
}

func (m *producersModel) Roll(t *rapid.T) {
	_, err := m.log.Roll()
	require.NoError(t, err)
}

func (m *producersModel) Truncate(t *rapid.T) {
	to := rapid.Int64Range(max(0, m.end-8), m.end).Draw(t, "to")
	force := rapid.Bool().Draw(t, "force")
	err := m.log.TruncateTo(to)
	if m.opts.Replicated && to < m.watermark && to < m.end {
		require.ErrorIs(t, err, seglog.ErrCommitted)
		if !force {
			return
		}
		err = m.log.ForceTruncateTo(to)
	}
	require.NoError(t, err)
	if to == m.end {
		if m.opts.Replicated { // an epoch begun as a leader that has no record goes all the same
			m.epochs = slices.DeleteFunc(m.epochs, func(e pEpoch) bool { return e.start >= to })
		}
		return
	}
	if to < m.first {
		m.restart(to)
		return
	}
	m.history = slices.DeleteFunc(m.history, func(b pBatch) bool { return b.last >= to })
	m.end, m.start, m.watermark = to, min(m.start, to), min(m.watermark, to)
	m.epochs = slices.DeleteFunc(m.epochs, func(e pEpoch) bool { return e.start >= to })
	m.begin()
	m.reloaded(t)
}

func (m *producersModel) restart(at int64) {
	m.firsts = []int64{0}
	m.history, m.known, m.certain = nil, map[int64]*pState{}, map[int64]int{}
	m.start, m.end, m.first, m.watermark = at, at, at, at
	m.epochs = nil
	m.begin()
}

func (m *producersModel) TruncateFully(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "really") > 0 {
		t.Skip("not often")
	}
	to := max(0, m.end+rapid.Int64Range(-5, 5).Draw(t, "to"))
	require.NoError(t, m.log.TruncateFullyAndStartAt(to))
	m.restart(to)
}

func (m *producersModel) DeleteBefore(t *rapid.T) {
	offset := rapid.Int64Range(m.start, m.watermark).Draw(t, "offset")
	deleteBefore(t, m.log, offset) // the same history gives the same files each time
	m.start = max(m.start, offset)
	m.first = bases(t, m.log)[0]
	m.epochsFrom(m.start)
}

// epochsFrom is LeaderEpochFileCache.truncateFromStart.
func (m *producersModel) epochsFrom(start int64) {
	n := 0
	for n < len(m.epochs) && m.epochs[n].start <= start {
		n++
	}
	if n > 0 {
		m.epochs = slices.Clone(m.epochs[n-1:])
		m.epochs[0].start = start
	}
}

func (m *producersModel) present() []pBatch { return m.since(m.first) }

func (m *producersModel) since(first int64) []pBatch {
	return slices.DeleteFunc(slices.Clone(m.history), func(b pBatch) bool { return b.base < first })
}

// reloaded takes over what the log knows of producers after it had to find out: from
// a snapshot it knows what its whole history says, without one what was left of it
// when it last had to. Of a producer's last batches the newest must be known.
func (m *producersModel) reloaded(t *rapid.T) {
	infos, err := m.log.Producers()
	require.NoError(t, err)
	rest := states(m.present())
	m.firsts = append(m.firsts, m.first)
	var possible []map[int64]*pState
	for _, first := range m.firsts {
		possible = append(possible, states(m.since(first)))
	}
	m.known, m.certain, m.timestamps = map[int64]*pState{}, map[int64]int{}, map[int64]int64{}
	for _, i := range infos {
		for _, candidates := range possible {
			s, known := candidates[i.ID], m.known[i.ID]
			if s != nil && s.info(i.ID) == i && (known == nil || len(known.batches) < len(s.batches)) {
				m.known[i.ID] = s.clone()
				m.certain[i.ID] = min(1, len(s.batches))
			}
		}
		m.timestamps[i.ID] = i.LastTimestamp
		require.Contains(t, m.known, i.ID, "%+v", i)
	}
	for pid := range rest {
		require.Contains(t, m.known, pid)
	}
	m.vague = m.opts.Replicated
}

// Reopen closes or kills, loses some of what is not the log, and opens.
func (m *producersModel) Reopen(t *rapid.T) {
	killed := rapid.Bool().Draw(t, "killed")
	if killed {
		m.copies++
		next := filepath.Join(m.root, fmt.Sprint(m.copies))
		waitForRecoveryPoint(t, m.log, slices.Max(bases(t, m.log)))
		copyDir(t, m.dir, next)
		require.NoError(t, m.log.Close())
		require.NoError(t, os.RemoveAll(m.dir))
		m.dir = next
	} else {
		require.NoError(t, m.log.Close())
	}
	lost := m.lose(t)
	m.open(t)
	at := m.log.Offsets()
	// A gap that a truncation has left at the end need not be remembered.
	least := m.start
	if n := len(m.history); n > 0 {
		least = max(least, m.history[n-1].last+1)
	}
	require.LessOrEqual(t, at.End, max(m.end, least))
	require.GreaterOrEqual(t, at.End, min(least, m.end))
	m.first = bases(t, m.log)[0]
	m.start = max(m.start, m.first)
	require.Equal(t, m.start, at.Start)
	m.end = at.End
	m.watermark = m.end
	if m.opts.Replicated {
		m.watermark = m.start
	}
	if lost == "epochs" {
		m.epochs = nil
		m.leader = 0
		for _, b := range m.present() {
			if b.last < m.start {
				continue
			}
			if n := len(m.epochs); n == 0 || b.leader > m.epochs[n-1].epoch {
				m.epochs = append(m.epochs, pEpoch{b.leader, b.base})
			}
			m.leader = max(m.leader, b.leader)
		}
	}
	m.epochs = slices.DeleteFunc(slices.Clone(m.epochs), func(e pEpoch) bool { return e.start >= m.end })
	m.epochsFrom(m.start)
	if epoch := m.log.LeaderEpoch(); m.start == m.end && m.opts.Replicated && epoch <= m.leader {
		// No record is left to be read: the epoch of those before may count, or not.
		m.epochs = nil
		if m.log.EndOffsetForEpoch(epoch).Epoch >= 0 {
			m.epochs = []pEpoch{{epoch, m.end}}
		}
	}
	if m.opts.Replicated {
		m.leader = 0
		if n := len(m.epochs); n > 0 {
			m.leader = m.epochs[n-1].epoch
		}
	}
	m.begin()
	m.reloaded(t)
}

func (m *producersModel) lose(t *rapid.T) string {
	what := rapid.SampledFrom([]string{"", "", "snapshots", "a snapshot", "aborted", "epochs", "state"}).Draw(t, "lost")
	harm := func(path string) {
		if rapid.Bool().Draw(t, "damaged") {
			edit(t, path, func(b []byte) []byte {
				if len(b) == 0 {
					return []byte("?")
				}
				b[0] ^= 0x40
				return b[:len(b)-1]
			})
		} else {
			require.NoError(t, os.Remove(path))
		}
	}
	glob := func(pattern string) []string {
		paths, err := filepath.Glob(filepath.Join(m.dir, pattern))
		require.NoError(t, err)
		return paths
	}
	some := func(pattern string) {
		if paths := glob(pattern); len(paths) > 0 {
			harm(rapid.SampledFrom(paths).Draw(t, "file"))
		}
	}
	switch what {
	case "snapshots":
		for _, path := range glob("*.snapshot") {
			harm(path)
		}
	case "a snapshot":
		some("*.snapshot")
	case "aborted":
		some("*.txnindex")
	case "epochs":
		some("leader-epoch-checkpoint")
	case "state":
		if m.start != m.first {
			return "" // a start inside of a segment would be forgotten
		}
		for _, path := range glob("seglog.state*") {
			harm(path)
		}
	}
	return what
}

// outcome is what has become of a batch's transaction: 0 if it is open.
func (m *producersModel) outcome(i int) byte {
	b := m.history[i]
	if !b.txn || b.marker != 0 {
		return 'c'
	}
	for _, later := range m.history[i+1:] {
		if later.pid == b.pid && later.marker != 0 {
			return later.marker
		}
	}
	return 0
}

// stable are the lowest and the highest last stable offset that there may be.
func (m *producersModel) stable() (strict, loose int64) {
	strict, loose = m.watermark, m.watermark
	for _, s := range m.known {
		if s.open >= 0 {
			strict, loose = min(strict, s.open), min(loose, s.open)
		}
	}
	waiting := map[int64]int64{}
	for _, b := range m.history {
		switch first, open := waiting[b.pid]; {
		case b.marker != 0 && open:
			delete(waiting, b.pid)
			if b.base >= m.watermark {
				strict = min(strict, first)
			}
		case b.marker == 0 && b.txn && !open:
			waiting[b.pid] = b.base
		}
	}
	if !m.vague {
		loose = strict
	}
	return max(strict, min(m.start, m.watermark)), max(loose, min(m.start, m.watermark))
}

// Check is what holds after every step.
func (m *producersModel) Check(t *rapid.T) {
	at := m.log.Offsets()
	require.Equal(t, m.start, at.Start)
	require.Equal(t, m.end, at.End)
	require.Equal(t, m.watermark, m.log.HighWatermark())
	require.Equal(t, m.leader, m.log.LeaderEpoch())
	for e := range m.leader + 2 {
		require.Equal(t, m.endOf(e), m.log.EndOffsetForEpoch(e), "epoch %d of %v", e, m.epochs)
	}
	m.checkProducers(t)
	stable, err := m.log.LastStableOffset()
	require.NoError(t, err)
	strict, loose := m.stable()
	require.GreaterOrEqual(t, stable, strict)
	require.LessOrEqual(t, stable, loose)
	m.checkReading(t, m.log, stable)
}

func (m *producersModel) checkProducers(t *rapid.T) {
	infos, err := m.log.Producers()
	require.NoError(t, err)
	require.Len(t, infos, len(m.known))
	var open []int64
	for _, i := range infos {
		require.NotNil(t, m.known[i.ID])
		require.Equal(t, m.known[i.ID].info(i.ID), i)
		if i.TransactionStart >= 0 {
			open = append(open, i.TransactionStart)
		}
	}
	slices.Sort(open)
	txns, err := m.log.Transactions()
	require.NoError(t, err)
	var found []int64
	for _, txn := range txns {
		found = append(found, txn.FirstOffset)
	}
	require.Equal(t, open, found)
}

// checkReading reads in every way, and once from somewhere in between.
func (m *producersModel) checkReading(t *rapid.T, l *seglog.Log, stable int64) {
	for _, from := range []int64{m.start, rapid.Int64Range(m.start, m.end).Draw(t, "from")} {
		for isolation, limit := range map[seglog.Isolation]int64{seglog.ReadLogEnd: m.end, seglog.ReadUncommitted: m.watermark, seglog.ReadCommitted: stable} {
			var want, got []int64
			for i, b := range m.history {
				if b.last >= from && b.last < limit && b.base >= m.first && b.marker == 0 && (isolation != seglog.ReadCommitted || m.outcome(i) == 'c') {
					want = append(want, span(max(from, b.base), b.last)...)
				}
			}
			for r, err := range l.Records(t.Context(), from, &seglog.IterOptions{Isolation: isolation}) {
				require.NoError(t, err)
				got = append(got, r.Offset)
			}
			require.Equal(t, want, got, "%v from %d to %d", isolation, from, limit)
		}
		require.Equal(t, m.committed(from, stable), readCommitted(t, l, from), "from %d to %d", from, stable)
	}
}

func (m *producersModel) committed(from, stable int64) []int64 {
	list := []int64{}
	for i, b := range m.history {
		if b.last >= from && b.last < stable && b.base >= m.first && b.marker == 0 && m.outcome(i) == 'c' {
			list = append(list, span(max(from, b.base), b.last)...)
		}
	}
	return list
}

// readCommitted reads as a Kafka consumer does: whole batches, and a list of the
// aborted transactions to leave out (Fetcher.java, CompletedFetch.java).
func readCommitted(t tb, l *seglog.Log, from int64) []int64 {
	t.Helper()
	offsets := []int64{}
	for next := from; ; {
		res, err := l.Read(next, 300, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
		require.NoError(t, err)
		if len(res.Batches) == 0 {
			return offsets
		}
		aborted := slices.SortedFunc(slices.Values(res.Aborted), func(a, b seglog.AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
		leaveOut := map[int64]bool{}
		for rest := res.Batches; len(rest) > 0; {
			b, err := record.Parse(rest)
			require.NoError(t, err)
			rest = rest[b.Size():]
			for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
				leaveOut[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			if b.IsControl() {
				for r, err := range b.Records(new(record.Iterator)) {
					require.NoError(t, err)
					if kind, _, err := record.ParseControl(r.Key); err == nil && kind == record.Abort {
						delete(leaveOut, b.ProducerID())
					}
				}
				continue
			}
			if b.IsTransactional() && leaveOut[b.ProducerID()] {
				continue
			}
			offsets = append(offsets, span(max(from, b.BaseOffset()), b.LastOffset())...)
		}
		require.Greater(t, res.NextOffset, next)
		next = res.NextOffset
	}
}

// ReadOnly opens the log beside its writer.
func (m *producersModel) ReadOnly(t *rapid.T) {
	opts := m.opts
	opts.ReadOnly, opts.Replicated = true, false
	l, err := seglog.Open(m.dir, opts)
	require.NoError(t, err)
	defer l.Close()
	at := l.Offsets()
	if at.End != m.end { // a gap at the end, which nobody else sees
		return
	}
	stable, err := l.LastStableOffset()
	require.NoError(t, err)
	watermark, known := m.watermark, m.known
	defer func() { m.watermark, m.known = watermark, known }()
	m.watermark = m.end
	strict, _ := m.stable()
	// What has begun in a segment that is gone only a snapshot could tell it.
	m.known = states(m.present())
	rest, _ := m.stable()
	require.Contains(t, []int64{strict, rest}, stable)
	m.checkReading(t, l, stable)
}
