package producerstate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/record"
)

// The model says the same in the plainest way: a map of what each producer wrote,
// copied for each snapshot, and lists that are searched from end to end.
type model struct {
	log        []Batch
	start, end int64
	now        int64

	producers map[int64]modelProducer
	completed []span // whose markers the high watermark has not passed

	snapshots    map[int64]*modelSnapshot
	lastSnapshot int64
}

type modelProducer struct {
	epoch            int16
	coordinatorEpoch int32
	timestamp        int64
	first, began     int64   // of the open transaction, -1 without
	last             []Batch // at most five, of this epoch
}

type modelSnapshot struct {
	producers map[int64]modelProducer
	bad, gone bool
}

const sequences = 1 << 31

func lastSequence(b Batch) int64 {
	if b.BaseSequence < 0 {
		return -1
	}
	return (int64(b.BaseSequence) + b.LastOffset - b.BaseOffset) % sequences
}

// due is the sequence with which the producer has to carry on in an epoch.
func (p modelProducer) due(epoch int16) int64 {
	if epoch != p.epoch || len(p.last) == 0 {
		return 0
	}
	return (lastSequence(p.last[len(p.last)-1]) + 1) % sequences
}

// judge is what Check has to say, as a text.
func (m *model) judge(b Batch, origin Origin) string {
	p, known := m.producers[b.ProducerID]
	switch {
	case origin == Replication || b.ProducerID < 0:
		return "yes"
	case b.Kind != Data && origin == Client:
		return "87"
	case b.Kind != Data && !known:
		return "yes"
	case b.Kind != Data:
		again := b.ProducerEpoch == p.epoch && b.TransactionVersion == 2
		switch {
		case again && p.first < 0:
			return "duplicate -1 -1 -1"
		case b.ProducerEpoch < p.epoch, again:
			return "47"
		case b.CoordinatorEpoch < p.coordinatorEpoch:
			return "52"
		}
		return "yes"
	case origin == Client && !known:
		if b.BaseSequence != 0 && (m.end == 0 || b.Transactional && b.TransactionVersion == 2) {
			return "45"
		}
		return "yes"
	}
	if origin == Client && known {
		for _, l := range p.last {
			if p.epoch == b.ProducerEpoch && l.BaseSequence == b.BaseSequence && lastSequence(l) == lastSequence(b) {
				return fmt.Sprintf("duplicate %d %d %d", l.BaseOffset, l.LastOffset, l.Timestamp)
			}
		}
	}
	switch {
	case known && b.ProducerEpoch < p.epoch:
		return "47"
	case known && origin == Client && int64(b.BaseSequence) != p.due(b.ProducerEpoch):
		return "45"
	case known && p.first >= 0 && !b.Transactional:
		return "48"
	}
	return "yes"
}

func (m *model) apply(b Batch) {
	m.end = b.LastOffset + 1
	if b.ProducerID < 0 || b.Kind == Neutral {
		return
	}
	p, known := m.producers[b.ProducerID]
	if !known {
		p = modelProducer{epoch: -1, coordinatorEpoch: -1, first: -1, began: -1}
	}
	if p.epoch != b.ProducerEpoch {
		p.epoch, p.last = b.ProducerEpoch, nil
	}
	p.timestamp = b.Timestamp
	if b.Kind == Data {
		p.last = append(slices.Clone(p.last), b)
		p.last = p.last[max(0, len(p.last)-5):]
		if b.Transactional && p.first < 0 {
			p.first, p.began = b.BaseOffset, b.Timestamp
		}
	} else {
		p.coordinatorEpoch = b.CoordinatorEpoch
		if p.first >= 0 {
			m.completed = append(m.completed, span{p.first, b.BaseOffset})
			p.first, p.began = -1, -1
		}
	}
	m.producers[b.ProducerID] = p
}

func (m *model) open() []OpenTxn {
	var open []OpenTxn
	for id, p := range m.producers {
		if p.first >= 0 {
			open = append(open, OpenTxn{id, p.epoch, p.first, p.began, p.timestamp})
		}
	}
	slices.SortFunc(open, func(a, b OpenTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	return open
}

// unstable is the first unstable offset, or MaxInt64.
func (m *model) unstable() int64 {
	first := int64(math.MaxInt64)
	for _, t := range m.open() {
		first = min(first, t.FirstOffset)
	}
	for _, t := range m.completed {
		first = min(first, t.first)
	}
	return first
}

// ends is what Ends has to say.
func (m *model) ends(b Batch) (CompletedTxn, bool) {
	p, known := m.producers[b.ProducerID]
	if !known || p.first < 0 || b.Kind != Commit && b.Kind != Abort {
		return CompletedTxn{}, false
	}
	stable := b.LastOffset + 1
	for _, other := range m.open() {
		if other.ProducerID != b.ProducerID {
			stable = min(stable, other.FirstOffset)
		}
	}
	return CompletedTxn{b.ProducerID, p.first, b.LastOffset, b.Kind == Abort, stable}, true
}

func (m *model) below(offset int64) {
	m.completed = slices.DeleteFunc(m.completed, func(t span) bool { return t.last < offset })
}

func (m *model) expired(p modelProducer) bool { return p.first < 0 && m.now-p.timestamp >= day }

// saved is what a snapshot keeps of the producers.
func (m *model) saved() map[int64]modelProducer {
	saved := maps.Clone(m.producers)
	for id, p := range saved {
		if n := len(p.last); n > 0 {
			last := p.last[n-1]
			last.Timestamp = p.timestamp
			p.last = []Batch{last}
		}
		p.began = -1
		saved[id] = p
	}
	return saved
}

// noteLatest: what was written down last, if it is still there.
func (m *model) noteLatest() {
	if len(m.snapshots) > 0 {
		m.lastSnapshot = slices.Max(slices.Collect(maps.Keys(m.snapshots)))
	}
}

// reload makes the state that of a log that ends at end, and returns from where
// on the log was needed.
func (m *model) reload(end int64) (from int64, damaged int) {
	maps.DeleteFunc(m.snapshots, func(at int64, _ *modelSnapshot) bool { return at > end || at <= m.start })
	m.log = slices.DeleteFunc(m.log, func(b Batch) bool { return b.LastOffset >= end })
	if end == m.end {
		m.below(m.start)
		m.noteLatest()
		return end, 0
	}
	from = m.latest(m.start)
	m.producers = map[int64]modelProducer{}
	for ; from > m.start; from = m.latest(m.start) {
		s := m.snapshots[from]
		if !s.bad && !s.gone {
			m.producers = maps.Clone(s.producers)
			maps.DeleteFunc(m.producers, func(_ int64, p modelProducer) bool { return m.expired(p) })
			break
		}
		if !s.gone {
			damaged++
		}
		delete(m.snapshots, from)
	}
	m.lastSnapshot = from
	m.completed = slices.DeleteFunc(m.completed, func(t span) bool { return t.last >= from })
	for _, b := range m.log {
		if b.LastOffset >= from {
			m.apply(b)
		}
	}
	m.end = end
	return from, damaged
}

func (m *model) latest(or int64) int64 {
	for at := range m.snapshots {
		or = max(or, at)
	}
	return or
}

// A modelTest does everything twice.
type modelTest struct {
	model
	fs *crashfs.FS
	m  *Manager

	pending      *Snapshot
	pendingModel *modelSnapshot
	stale        bool // the log was truncated since pending was captured
}

func newModelTest(t *rapid.T) *modelTest {
	x := &modelTest{
		model: model{producers: map[int64]modelProducer{}, snapshots: map[int64]*modelSnapshot{}, now: 10 * day},
		fs:    crashfs.New(crashfs.Options{}),
	}
	require.NoError(t, x.fs.MkdirAll(benchDir, 0o755))
	x.openManager(t)
	return x
}

func (x *modelTest) openManager(t *rapid.T) {
	m, err := New(benchDir, Options{FS: x.fs})
	require.NoError(t, err)
	x.m = m
}

// batch draws a batch that more often than not is one that is due.
func (x *modelTest) batch(t *rapid.T) Batch {
	id := rapid.Int64Range(1, 3).Draw(t, "producer")
	p := x.producers[id]
	epoch := max(0, p.epoch+rapid.SampledFrom([]int16{0, 0, 0, 0, 1, -1}).Draw(t, "epoch"))
	first := x.end + rapid.SampledFrom([]int64{0, 0, 0, 3}).Draw(t, "gap")
	b := Batch{
		ProducerID: id, ProducerEpoch: epoch, BaseSequence: int32(p.due(epoch)),
		BaseOffset: first, LastOffset: first + rapid.Int64Range(0, 3).Draw(t, "records"),
		Timestamp:          x.now - rapid.Int64Range(0, day/2).Draw(t, "age"),
		Transactional:      p.first >= 0 || rapid.Bool().Draw(t, "transactional"),
		TransactionVersion: rapid.SampledFrom([]int16{0, 2}).Draw(t, "version"),
	}
	switch rapid.SampledFrom([]string{"due", "due", "due", "again", "wrong", "plain", "marker", "marker", "anonymous", "neutral"}).Draw(t, "kind") {
	case "again":
		if n := len(p.last); n > 0 {
			again := rapid.SampledFrom(p.last).Draw(t, "of")
			b.BaseSequence, b.LastOffset = again.BaseSequence, first+again.LastOffset-again.BaseOffset
		}
	case "wrong":
		b.BaseSequence = rapid.SampledFrom([]int32{0, 1, 5, math.MaxInt32 - 3, math.MaxInt32}).Draw(t, "sequence")
	case "plain":
		b.Transactional = false
	case "marker":
		b.Kind = rapid.SampledFrom([]Kind{Commit, Abort}).Draw(t, "end")
		b.LastOffset, b.BaseSequence, b.Transactional = b.BaseOffset, -1, true
		b.CoordinatorEpoch = max(0, p.coordinatorEpoch+rapid.SampledFrom([]int32{0, 0, 0, 1, -1}).Draw(t, "coordinator"))
	case "anonymous":
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = record.NoProducerID, -1, -1, false
	case "neutral":
		b.Kind = Neutral
	}
	return b
}

// append lets a batch in or not.
func (x *modelTest) append(t *rapid.T) {
	b := x.batch(t)
	origin := Client
	if b.Kind != Data {
		origin = Coordinator
	}
	if rapid.IntRange(0, 4).Draw(t, "origin") == 0 {
		origin = Replication
		b.TransactionVersion = 0
	}
	want := x.judge(b, origin)
	if b.Kind == Neutral {
		want = "yes"
	}
	verdict, err := x.m.Check(b, origin)
	got := "yes"
	switch {
	case err != nil:
		require.IsType(t, &Error{}, err)
		got = fmt.Sprint(err.(*Error).KafkaError())
	case verdict.Duplicate:
		got = fmt.Sprintf("duplicate %d %d %d", verdict.BaseOffset, verdict.LastOffset, verdict.Timestamp)
	}
	require.Equal(t, want, got, "%+v", b)
	if want != "yes" || rapid.IntRange(0, 9).Draw(t, "write fails") == 0 {
		return
	}
	ended, ok := x.m.Ends(b)
	wantEnded, wantOK := x.ends(b)
	require.Equal(t, wantOK, ok)
	require.Equal(t, wantEnded, ended)
	x.m.Apply(b)
	x.apply(b)
	x.log = append(x.log, b)
}

func (x *modelTest) take(t *rapid.T) {
	taken, err := x.m.Take(x.end, rapid.Bool().Draw(t, "sync"))
	require.NoError(t, err)
	require.Equal(t, x.end > x.lastSnapshot, taken)
	if taken {
		x.lastSnapshot = x.end
		x.snapshots[x.end] = &modelSnapshot{producers: x.saved()}
	}
}

// capture begins a snapshot that publish ends, or truncation.
func (x *modelTest) capture(t *rapid.T) {
	s := x.m.Capture(x.end)
	require.Equal(t, x.end > x.lastSnapshot, s != nil)
	if s == nil {
		return
	}
	require.NoError(t, s.Write(false))
	x.pending, x.pendingModel, x.stale = s, &modelSnapshot{producers: x.saved()}, false
}

func (x *modelTest) publish(t *rapid.T) {
	if x.pending == nil {
		return
	}
	at := x.pending.Offset()
	if _, err := x.fs.Stat(x.pending.path + ".tmp"); err != nil {
		x.pending = nil // another snapshot at this offset was taken meanwhile
		return
	}
	published, err := x.m.Publish(x.pending)
	require.NoError(t, err)
	require.Equal(t, !x.stale, published)
	if published {
		x.snapshots[at] = x.pendingModel
		x.lastSnapshot = max(x.lastSnapshot, at)
	}
	x.pending = nil
}

// harm damages a snapshot, or loses it.
func (x *modelTest) harm(t *rapid.T) {
	if len(x.snapshots) == 0 {
		return
	}
	at := rapid.SampledFrom(slices.Sorted(maps.Keys(x.snapshots))).Draw(t, "snapshot")
	s := x.snapshots[at]
	if s.gone {
		return
	}
	path := (&bench{}).path(at)
	if rapid.Bool().Draw(t, "lose") {
		require.NoError(t, x.fs.Remove(path))
		s.gone = true
		return
	}
	data, err := vfs.ReadFile(x.fs, path, 1<<20)
	require.NoError(t, err)
	if s.bad {
		return
	}
	if n := rapid.IntRange(0, len(data)-1).Draw(t, "byte"); rapid.Bool().Draw(t, "cut") {
		data = data[:n]
	} else {
		data[n] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	}
	require.NoError(t, vfs.WriteFileAtomic(x.fs, path, data))
	s.bad = true
}

// truncate cuts the log in front of a batch, or not at all.
func (x *modelTest) truncate(t *rapid.T) {
	end := x.end
	if len(x.log) > 0 {
		b := rapid.SampledFrom(x.log).Draw(t, "batch")
		end = rapid.SampledFrom([]int64{end, max(x.start, b.BaseOffset)}).Draw(t, "end")
	}
	x.reloadBoth(t, end)
}

// restart opens the log anew.
func (x *modelTest) restart(t *rapid.T) {
	end := x.end
	x.openManager(t)
	x.pending, x.completed = nil, nil
	for at, s := range x.snapshots {
		if s.gone {
			delete(x.snapshots, at)
		}
	}
	if end == 0 {
		x.producers, x.completed, x.lastSnapshot = map[int64]modelProducer{}, nil, 0
		return
	}
	x.end = -1 // the state is not that of the end, even if it is the same
	x.reloadBoth(t, end)
}

func (x *modelTest) reloadBoth(t *rapid.T, end int64) {
	x.stale = true
	from, damaged := x.reload(end)
	r, err := x.m.TruncateAndReload(x.start, end, x.now)
	require.NoError(t, err)
	require.Equal(t, from, r.From)
	require.Len(t, r.Damaged, damaged)
	for _, b := range x.log {
		if b.LastOffset >= r.From {
			x.m.Apply(b)
		}
	}
	x.m.Advance(end)
}

func (x *modelTest) truncateFully(t *rapid.T) {
	at := x.end + rapid.Int64Range(-3, 3).Draw(t, "offset")
	if at < 0 || rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	require.NoError(t, x.m.TruncateFullyAndStartAt(at))
	x.model = model{producers: map[int64]modelProducer{}, snapshots: map[int64]*modelSnapshot{}, now: x.now, start: at, end: at}
	x.stale = true
}

func (x *modelTest) moveStart(t *rapid.T) {
	x.start = rapid.Int64Range(x.start, x.end).Draw(t, "start")
	x.m.OnLogStart(x.start)
	x.below(x.start)
	x.noteLatest()
	x.log = slices.DeleteFunc(x.log, func(b Batch) bool { return b.LastOffset < x.start })
}

func (x *modelTest) highWatermark(t *rapid.T) {
	hw := rapid.Int64Range(x.start, x.end).Draw(t, "high watermark")
	x.m.OnHighWatermark(hw)
	x.below(hw)
	require.Equal(t, min(hw, x.unstable()), x.m.LastStableOffset(hw))
}

func (x *modelTest) expire(t *rapid.T) {
	x.now += rapid.Int64Range(0, day).Draw(t, "passed")
	for done := false; !done; {
		_, done = x.m.RemoveExpired(x.now, rapid.IntRange(1, 3).Draw(t, "limit"))
	}
	maps.DeleteFunc(x.producers, func(_ int64, p modelProducer) bool { return x.expired(p) })
}

func (x *modelTest) deleteSnapshot(t *rapid.T) {
	if len(x.snapshots) == 0 {
		return
	}
	at := rapid.SampledFrom(slices.Sorted(maps.Keys(x.snapshots))).Draw(t, "snapshot")
	if rapid.Bool().Draw(t, "all before") {
		require.NoError(t, x.m.DeleteSnapshotsBefore(at))
		maps.DeleteFunc(x.snapshots, func(o int64, _ *modelSnapshot) bool { return o < at })
		return
	}
	require.NoError(t, x.m.DeleteSnapshots(at))
	delete(x.snapshots, at)
}

// compare looks at everything that can be seen.
func (x *modelTest) compare(t *rapid.T) {
	require.Equal(t, x.end, x.m.End())
	require.Equal(t, len(x.producers), x.m.Len())
	for id, p := range x.producers {
		got := x.m.producers[id]
		require.NotNil(t, got)
		require.Equal(t, []int64{int64(p.epoch), int64(p.coordinatorEpoch), p.timestamp, p.first, p.began},
			[]int64{int64(got.epoch), int64(got.coordinatorEpoch), got.lastTimestamp, got.txnFirst, got.txnStart})
		var last []batch
		for _, b := range p.last {
			last = append(last, batch{b.LastOffset, b.Timestamp, int32(lastSequence(b)), int32(b.LastOffset - b.BaseOffset)})
		}
		require.True(t, slices.Equal(last, got.batches[:got.known]), "got %v, want %v", got.batches[:got.known], last)
	}
	require.Equal(t, x.model.open(), slices.Collect(x.m.OpenTransactions()))
	first, ok := x.m.FirstUnstableOffset()
	want := x.unstable()
	require.Equal(t, want < math.MaxInt64, ok)
	if ok {
		require.Equal(t, want, first)
	}
	require.Equal(t, len(x.producers) == 0 && len(x.completed) == 0, x.m.IsEmpty())
	require.ElementsMatch(t, slices.Collect(maps.Keys(x.snapshots)), x.m.Snapshots())
	onDisk, err := List(x.fs, benchDir)
	require.NoError(t, err)
	for _, at := range onDisk {
		require.Contains(t, x.snapshots, at)
	}
}

// A completed transaction counts until the high watermark has passed its marker,
// whatever began and ended meanwhile.
func TestCompletedFindsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c completed
		var all []span
		at := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				at += rapid.Int64Range(1, 5).Draw(t, "marker")
				first := rapid.Int64Range(0, at-1).Draw(t, "first")
				c.add(first, at)
				all = append(all, span{first, at})
			},
			"below": func(t *rapid.T) {
				offset := rapid.Int64Range(0, at+1).Draw(t, "offset")
				c.below(offset)
				all = slices.DeleteFunc(all, func(s span) bool { return s.last < offset })
			},
			"": func(t *rapid.T) {
				first, ok := c.first()
				require.Equal(t, len(all) > 0, ok)
				for _, s := range all {
					require.LessOrEqual(t, first, s.first)
				}
				if ok {
					require.True(t, slices.ContainsFunc(all, func(s span) bool { return s.first == first }))
				}
				require.Equal(t, ok, !c.empty())
			},
		})
	})
}

func TestManagerDoesAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newModelTest(t)
		t.Repeat(map[string]func(*rapid.T){
			"append":         x.append,
			"append2":        x.append,
			"append3":        x.append,
			"take":           x.take,
			"capture":        x.capture,
			"publish":        x.publish,
			"harm":           x.harm,
			"truncate":       x.truncate,
			"truncate fully": x.truncateFully,
			"restart":        x.restart,
			"move start":     x.moveStart,
			"high watermark": x.highWatermark,
			"expire":         x.expire,
			"delete":         x.deleteSnapshot,
			"":               x.compare,
		})
	})
}
