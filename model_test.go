package seglog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAnyHistoryIsThatOfASliceOfRecords drives a log and a plain slice of
// batches through the same random history and compares all that can be asked.
// Run it for longer by hand:
//
//	go test -run TestAnyHistory -rapid.checks=10000
func TestAnyHistoryIsThatOfASliceOfRecords(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, root)
		defer m.clear()
		t.Repeat(rapid.StateMachineActions(m))
		m.CleanReopen(t)
		m.Check(t)
		require.NoError(t, m.log.Close())
		if !m.emptied {
			requireSound(t, m.dir)
		}
	})
}

// modelBatch is a batch as it is to be found again.
type modelBatch struct {
	base, last int64
	newest     int64 // largest timestamp in the header
	records    []seglog.Record
	control    bool
}

// model is a log and what it has to be.
type model struct {
	root, dir string
	opts      seglog.Options
	log       *seglog.Log

	start, end int64
	first      int64 // base offset of the first segment
	batches    []modelBatch
	copies     int  // of the directory so far
	emptied    bool // an index was, which is legal and stays so
}

func newModel(t *rapid.T, root string) *model {
	dir, err := os.MkdirTemp(root, "model")
	require.NoError(t, err)
	m := &model{root: dir, dir: filepath.Join(dir, "0"), opts: seglog.Options{
		SegmentBytes:       rapid.SampledFrom([]int64{400, 1500, 1 << 20}).Draw(t, "segment bytes"),
		SegmentIndexBytes:  rapid.SampledFrom([]int{0, 0, 24, 100}).Draw(t, "segment index bytes"),
		IndexIntervalBytes: rapid.SampledFrom([]int{1, 100, 4096}).Draw(t, "index interval"),
		Compression:        rapid.SampledFrom([]record.Codec{0, 0, 1, 2, 3, 4}).Draw(t, "codec"),
		TimestampType:      rapid.SampledFrom([]record.TimestampType{0, 0, 0, 1}).Draw(t, "timestamp type"),
		Sync:               rapid.SampledFrom([]seglog.SyncPolicy{1, 1, 1, 0}).Draw(t, "sync"),
		StartOffset:        rapid.SampledFrom([]int64{0, 0, 7, 1 << 40}).Draw(t, "start offset"),
		RetentionBytes:     rapid.SampledFrom([]int64{-1, 700, 2000}).Draw(t, "retention bytes"),
		RetentionTime:      rapid.SampledFrom([]time.Duration{-1, 0}).Draw(t, "retention time"),
		TimestampAfterMax:  -1,
		AheadBytes:         rapid.SampledFrom([]int64{-1, 1000, 8192}).Draw(t, "ahead bytes"),
	}}
	m.open(t)
	m.start, m.end, m.first = m.opts.StartOffset, m.opts.StartOffset, m.opts.StartOffset
	return m
}

func (m *model) open(t *rapid.T) {
	l, err := seglog.Open(m.dir, m.opts)
	require.NoError(t, err)
	m.log = l
}

func (m *model) clear() {
	m.log.Close()
	os.RemoveAll(m.root)
}

var (
	timestamps = rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 100), rapid.Just(record.NoTimestamp),
		rapid.Int64Range(4_000_000_000_000, 4_000_000_000_100))
	blobs = rapid.OneOf(rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 40),
		rapid.Custom(func(t *rapid.T) []byte { return make([]byte, rapid.IntRange(1, 300).Draw(t, "zeros")) }))
	headers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) seglog.Header {
		return seglog.Header{Key: rapid.StringN(0, 3, 10).Draw(t, "header key"), Value: blobs.Draw(t, "header value")}
	}), 0, 2)
	records = rapid.Custom(func(t *rapid.T) seglog.Record {
		return seglog.Record{Timestamp: timestamps.Draw(t, "timestamp"), Key: blobs.Draw(t, "key"),
			Value: blobs.Draw(t, "value"), Headers: headers.Draw(t, "headers")}
	})
)

// add notes a batch whose records have their offsets.
func (m *model) add(base, last, newest int64, list []seglog.Record, control bool) {
	m.batches = append(m.batches, modelBatch{base, last, newest, list, control})
	m.end = last + 1
}

// refused reports whether an append was refused for its size, as it may be when
// segments are tiny. Then nothing has changed.
func (m *model) refused(t *rapid.T, err error) bool {
	if errors.Is(err, seglog.ErrSetTooLarge) {
		require.Equal(t, m.end, m.log.Offsets().End)
		return true
	}
	require.NoError(t, err)
	return false
}

// appended notes what Append or AppendBatch have stored.
func (m *model) appended(t *rapid.T, res seglog.AppendResult, list []seglog.Record) {
	require.Equal(t, m.end, res.BaseOffset)
	require.Equal(t, m.end+int64(len(list))-1, res.LastOffset)
	list = slices.Clone(list)
	newest := record.NoTimestamp
	for i := range list {
		list[i].Offset = res.BaseOffset + int64(i)
		if m.opts.TimestampType == record.LogAppendTime {
			list[i].Timestamp = res.Timestamp
		}
		newest = max(newest, list[i].Timestamp)
	}
	require.Equal(t, newest, res.Timestamp)
	m.add(res.BaseOffset, res.LastOffset, newest, list, false)
}

func (m *model) Append(t *rapid.T) {
	list := rapid.SliceOfN(records, 1, 5).Draw(t, "records")
	res, err := m.log.Append(list, nil)
	if !m.refused(t, err) {
		m.appended(t, res, list)
	}
}

func (m *model) AppendBatch(t *rapid.T) {
	list := rapid.SliceOfN(records, 1, 5).Draw(t, "records")
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Codec(rapid.IntRange(0, 4).Draw(t, "codec"))})
	for _, r := range list {
		require.NoError(t, b.Append(r))
	}
	bytes, err := b.Build()
	require.NoError(t, err)
	res, err := m.log.AppendBatch(bytes, nil)
	if !m.refused(t, err) {
		m.appended(t, res, list)
	}
}

// AppendReplicated appends what a compacted log may hold: gaps before and
// inside, batches without records, markers.
func (m *model) AppendReplicated(t *rapid.T) {
	var set []byte
	var added []modelBatch
	next := m.end
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		base := next + rapid.SampledFrom([]int64{0, 0, 1, 5}).Draw(t, "gap")
		var bytes []byte
		var b modelBatch
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			b = modelBatch{base, base + int64(rapid.IntRange(0, 3).Draw(t, "delta")), 50, nil, false}
			bytes = record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: b.base, LastOffsetDelta: int32(b.last - b.base),
				BaseTimestamp: -1, MaxTimestamp: b.newest, ProducerID: 5, BaseSequence: 1})
		case 1:
			bytes = marker(t, base, 5, record.Abort)
			b = modelBatch{base, base, 20, []seglog.Record{{Offset: base, Timestamp: 20}}, true}
		default:
			b, bytes = sparseBatch(t, base)
		}
		set = append(set, bytes...)
		added = append(added, b)
		next = b.last + 1
	}
	res, err := m.log.AppendReplicated(set, nil)
	if m.refused(t, err) {
		return
	}
	require.Equal(t, added[0].base, res.BaseOffset)
	require.Equal(t, next-1, res.LastOffset)
	for _, b := range added {
		m.add(b.base, b.last, b.newest, b.records, b.control)
	}
}

// sparseBatch is a batch that compaction has been at.
func sparseBatch(t *rapid.T, base int64) (modelBatch, []byte) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base, Codec: record.Codec(rapid.IntRange(0, 4).Draw(t, "codec"))})
	out := modelBatch{base: base, newest: record.NoTimestamp}
	offset := base + int64(rapid.IntRange(0, 1).Draw(t, "removed first"))
	for _, r := range rapid.SliceOfN(records, 1, 4).Draw(t, "records") {
		r.Offset = offset
		require.NoError(t, b.AppendAt(offset, r))
		out.records = append(out.records, r)
		out.newest = max(out.newest, r.Timestamp)
		offset += int64(rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "step"))
	}
	out.last = offset - 1
	require.NoError(t, b.SetLastOffset(out.last))
	bytes, err := b.Build()
	require.NoError(t, err)
	return out, slices.Clone(bytes)
}

// AppendStale repeats offsets, which is refused.
func (m *model) AppendStale(t *rapid.T) {
	if m.end == 0 {
		t.Skip("nothing to repeat")
	}
	base := max(0, m.end-int64(rapid.IntRange(1, 5).Draw(t, "back")))
	_, err := m.log.AppendReplicated(plainBatch(t, base, base+1), nil)
	require.ErrorIs(t, err, seglog.ErrUnexpectedOffset)
}

func (m *model) Roll(t *rapid.T) {
	base, err := m.log.Roll()
	require.NoError(t, err)
	all := segments(t, m.log)
	require.Equal(t, all[len(all)-1].BaseOffset, base)
	require.Zero(t, all[len(all)-1].Size)
}

func (m *model) Sync(t *rapid.T) {
	require.NoError(t, m.log.Sync())
	require.Equal(t, m.end, m.log.Offsets().Durable)
}

func (m *model) Truncate(t *rapid.T) {
	to := max(0, rapid.Int64Range(m.first-2, m.end+2).Draw(t, "to"))
	require.NoError(t, m.log.TruncateTo(to))
	switch {
	case to >= m.end:
	case to < m.first:
		m.restart(to)
	default:
		m.cutFrom(to)
		m.start = min(m.start, to)
	}
}

// cutFrom removes the batches that hold an offset or a later one.
func (m *model) cutFrom(offset int64) {
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.last >= offset })
	m.end = offset
}

func (m *model) restart(offset int64) {
	m.batches = nil
	m.start, m.end, m.first = offset, offset, offset
}

func (m *model) TruncateFully(t *rapid.T) {
	to := max(0, m.end+rapid.Int64Range(-20, 20).Draw(t, "to"))
	require.NoError(t, m.log.TruncateFullyAndStartAt(to))
	m.restart(to)
}

func (m *model) DeleteBefore(t *rapid.T) {
	offset := rapid.Int64Range(m.start-2, m.end+2).Draw(t, "offset")
	err := m.log.DeleteBefore(offset)
	if offset < 0 || offset > m.end {
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
		return
	}
	require.NoError(t, err)
	m.start = max(m.start, offset)
	deleteBefore(t, m.log, m.start) // the same history gives the same files each time
	m.forgetLeading(t)
}

// forgetLeading follows the removal of segments, after requiring that only
// segments wholly below the start have gone.
func (m *model) forgetLeading(t *rapid.T) {
	m.first = segments(t, m.log)[0].BaseOffset
	require.LessOrEqual(t, m.first, m.start)
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.base < m.first })
}

// Retention follows the three rules over the segments as they are.
func (m *model) Retention(t *rapid.T) {
	all := segments(t, m.log)
	total, excess := int64(0), int64(0)
	for _, s := range all {
		total += s.Size
	}
	gone := 0
	last := func(i int) bool { return i == len(all)-1 }
	for gone < len(all) && !last(gone) && all[gone+1].BaseOffset <= m.start {
		total -= all[gone].Size
		gone++
	}
	takeable := func(i int) bool { return i < len(all) && (!last(i) || all[i].Size > 0) }
	if m.opts.RetentionBytes >= 0 {
		for excess = total - m.opts.RetentionBytes; takeable(gone) && excess >= all[gone].Size; gone++ {
			excess -= all[gone].Size
		}
	}
	if m.opts.RetentionTime >= 0 { // a week
		week := time.Now().Add(-7 * day).UnixMilli()
		for takeable(gone) && all[gone].MaxTimestamp >= 0 && all[gone].MaxTimestamp < week {
			gone++
		}
	}
	res, err := m.log.ApplyRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, gone, res.Segments, "of %+v, retention of %d bytes and %v", all, m.opts.RetentionBytes, m.opts.RetentionTime)
	if gone == len(all) {
		m.start = m.end
	} else if gone > 0 {
		m.start = max(m.start, all[gone].BaseOffset)
	}
	m.forgetLeading(t)
}

// CleanReopen closes and opens.
func (m *model) CleanReopen(t *rapid.T) {
	active := m.active(t)
	require.NoError(t, m.log.Close())
	m.harmIndexes(t)
	m.open(t)
	require.Empty(t, stats(t, m.log).Recovery.Cut)
	m.reopened(t, active)
}

// KilledReopen goes on with what a kill would leave: all that was appended.
func (m *model) KilledReopen(t *rapid.T) {
	active := m.active(t)
	m.kill(t)
	m.harmIndexes(t)
	m.open(t)
	for _, cut := range stats(t, m.log).Recovery.Cut {
		require.True(t, cut.Zeros, "%s", cut)
		require.LessOrEqual(t, cut.Bytes, m.opts.AheadBytes)
	}
	m.reopened(t, active)
}

// PowerLoss does to the tail what a power loss may do to bytes that were not
// synced, and opens. All behind the recovery point and the log start is fair game: the
// log cannot know that it was synced.
func (m *model) PowerLoss(t *rapid.T) {
	active := m.active(t)
	m.kill(t)
	state, err := (&checkpoint.StateFiles{FS: vfs.OS, Dir: m.dir}).Read()
	require.NoError(t, err)
	path := segmentFile(m.dir, active, ".log")
	data := readFile(t, path)
	safe, reached := int64(0), active
	for _, b := range batchesOf(t, m.dir, active) {
		// Both may lie inside a batch, or in a gap before it.
		if reached < max(state.RecoveryPoint, state.LogStartOffset) {
			safe = b.position + int64(b.Size())
		}
		reached = b.LastOffset() + 1
	}
	from := rapid.IntRange(int(safe), len(data)).Draw(t, "from")
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		data = data[:from]
	case 1:
		clear(data[from:])
	case 2:
		copy(data[from:], noise(len(data)-from))
	case 3:
		data = append(data, make([]byte, rapid.IntRange(1, 200).Draw(t, "zeros"))...)
	case 4:
		data = append(data, noise(rapid.IntRange(1, 200).Draw(t, "garbage"))...)
	case 5:
		for _, b := range batchesOf(t, m.dir, active) {
			if at := from - int(b.position); at >= 0 && at < record.HeaderSize {
				from = int(b.position) + max(at, 16) // what comes before is not all under the checksum
			}
		}
		if from < len(data) {
			data[from] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
	}
	writeFile(t, path, data)
	sound := soundPrefix(data, active)
	m.harmIndexes(t)
	m.open(t)
	cut := stats(t, m.log).Recovery.Cut
	if int64(len(data)) == sound.bytes {
		require.Empty(t, cut)
	} else {
		require.Len(t, cut, 1)
		require.Equal(t, sound.bytes, cut[0].Position)
		require.Equal(t, int64(len(data))-sound.bytes, cut[0].Bytes)
	}
	if sound.next < m.end {
		m.cutFrom(sound.next)
	}
	m.reopened(t, active)
}

type prefix struct {
	bytes int64
	next  int64
}

// soundPrefix is the part of a log that holds batches with the right checksums
// and rising offsets.
func soundPrefix(data []byte, base int64) prefix {
	p := prefix{next: base}
	for rest := data; len(rest) > 0; {
		b, err := record.Parse(rest)
		if err != nil || !b.IsValid() || b.BaseOffset() < p.next || b.LastOffset() < b.BaseOffset() || b.LastOffset()-base > 1<<31-1 {
			break
		}
		p.bytes += int64(b.Size())
		p.next = b.LastOffset() + 1
		rest = rest[b.Size():]
	}
	return p
}

func (m *model) active(t *rapid.T) int64 {
	all := segments(t, m.log)
	return all[len(all)-1].BaseOffset
}

// kill abandons the log as the end of its process would, and goes on with a
// copy of its directory. What runs behind a roll ends first, so that the same
// history gives the same files each time.
func (m *model) kill(t *rapid.T) {
	waitForRecoveryPoint(t, m.log, m.active(t))
	m.copies++
	next := filepath.Join(m.root, fmt.Sprint(m.copies))
	copyDir(t, m.dir, next)
	require.NoError(t, m.log.Close())
	require.NoError(t, os.RemoveAll(m.dir))
	m.dir = next
}

// harmIndexes does what any index must survive at any time, to a segment or
// none.
func (m *model) harmIndexes(t *rapid.T) {
	suffix := rapid.SampledFrom([]string{"", ".index", ".timeindex"}).Draw(t, "harm")
	if suffix == "" {
		return
	}
	paths, err := filepath.Glob(filepath.Join(m.dir, "*"+suffix))
	require.NoError(t, err)
	if len(paths) == 0 {
		return
	}
	path := rapid.SampledFrom(paths).Draw(t, "file")
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		err = os.Remove(path)
	case 1:
		m.emptied = true
		err = os.Truncate(path, 0)
	case 2:
		err = os.Truncate(path, fileSize(t, path)+5)
	case 3:
		err = os.Truncate(path, fileSize(t, path)+8*12*20)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
}

// reopened takes the end that was found: that of the last batch, unless a
// truncation had left a gap behind it, which need not be remembered.
func (m *model) reopened(t *rapid.T, active int64) {
	least := active
	if n := len(m.batches); n > 0 {
		least = max(least, m.batches[n-1].last+1)
	}
	if least < m.start {
		m.batches = nil // nothing above the start is left
		least = m.start
	}
	end := m.log.Offsets().End
	require.GreaterOrEqual(t, end, least)
	require.LessOrEqual(t, end, max(m.end, least))
	m.end = end
	m.first = segments(t, m.log)[0].BaseOffset
	waitForTail(t, m.log) // the same history gives the same files each time
}

// visible are the records from an offset on.
func (m *model) visible(from int64, control bool) []seglog.Record {
	list := []seglog.Record{}
	for _, b := range m.batches {
		for _, r := range b.records {
			if r.Offset >= max(from, m.start) && (control || !b.control) {
				list = append(list, r)
			}
		}
	}
	return list
}

func (m *model) Get(t *rapid.T) {
	offset := rapid.Int64Range(m.start-2, m.end+2).Draw(t, "offset")
	got, err := m.log.Get(offset)
	if offset < m.start || offset >= m.end {
		var out *seglog.OffsetError
		require.ErrorAs(t, err, &out)
		require.Equal(t, seglog.OffsetError{Offset: offset, Start: m.start, End: m.end}, *out)
		return
	}
	rest := m.visible(offset, false)
	if len(rest) > 0 && rest[0].Offset == offset {
		require.NoError(t, err)
		requireSame(t, rest[0], got)
		return
	}
	want := seglog.GapError{Offset: offset, Next: m.end}
	if len(rest) > 0 {
		want.Next = rest[0].Offset
	}
	var gap *seglog.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, want, *gap)
}

func (m *model) Records(t *rapid.T) {
	from := rapid.Int64Range(m.start, m.end).Draw(t, "from")
	to := rapid.Int64Range(0, m.end+2).Draw(t, "to")
	control := rapid.Bool().Draw(t, "control")
	want := m.visible(from, control)
	if to > 0 {
		want = slices.DeleteFunc(want, func(r seglog.Record) bool { return r.Offset >= to })
	}
	n := 0
	for r, err := range m.log.Records(t.Context(), from, &seglog.IterOptions{To: to, Control: control}) {
		require.NoError(t, err)
		require.Less(t, n, len(want), "offset %d is too much", r.Offset)
		if r.Key == nil || len(r.Key) != 4 || !control { // a marker's own bytes are not of interest
			requireSame(t, want[n], r)
		}
		n++
	}
	require.Len(t, want, n)
}

func (m *model) Batches(t *rapid.T) {
	from := rapid.Int64Range(m.start, m.end).Draw(t, "from")
	var want, got [][2]int64
	for _, b := range m.batches {
		if b.last >= from {
			want = append(want, [2]int64{b.base, b.last})
		}
	}
	for b, err := range m.log.Batches(t.Context(), from, nil) {
		require.NoError(t, err)
		got = append(got, [2]int64{b.BaseOffset(), b.LastOffset()})
	}
	require.Equal(t, want, got)
}

func (m *model) Read(t *rapid.T) {
	from := rapid.Int64Range(m.start, m.end).Draw(t, "from")
	limit := rapid.SampledFrom([]int{0, 1, 200, 1000, 1 << 20}).Draw(t, "limit")
	hard := rapid.Bool().Draw(t, "hard limit")
	res, err := m.log.Read(from, limit, &seglog.ReadOptions{HardLimit: hard})
	require.NoError(t, err)
	i := slices.IndexFunc(m.batches, func(b modelBatch) bool { return b.last >= from })
	next, n := from, 0
	for rest := res.Batches; len(rest) > 0; n++ {
		b, err := record.Parse(rest)
		require.NoError(t, err)
		require.NoError(t, b.Check())
		require.Equal(t, [2]int64{m.batches[i+n].base, m.batches[i+n].last}, [2]int64{b.BaseOffset(), b.LastOffset()})
		next = b.NextOffset()
		rest = rest[b.Size():]
	}
	require.Equal(t, next, res.NextOffset)
	switch {
	case len(res.Batches) > limit:
		require.False(t, hard)
		require.Equal(t, 1, n)
	case n == 0 && i >= 0:
		require.True(t, hard)
		require.Greater(t, res.Needed, limit)
	}
	require.Equal(t, m.end, res.End)
}

func (m *model) OffsetForTime(t *rapid.T) {
	timestamp := max(0, timestamps.Draw(t, "timestamp")+int64(rapid.IntRange(-1, 1).Draw(t, "off by")))
	want := firstSince(m.visible(m.start, true), timestamp)
	at, found, err := m.log.OffsetForTime(timestamp)
	require.NoError(t, err)
	require.Equal(t, want.Offset >= 0, found)
	if found {
		require.Equal(t, seglog.TimestampOffset{Timestamp: want.Found, Offset: want.Offset}, at)
	}
}

// MaxTimestamp goes by what batches say of themselves. Where the newest record
// is not to be had, because compaction has taken it away or the log start has
// passed it, there may be no answer.
func (m *model) MaxTimestamp(t *rapid.T) {
	visible := m.visible(m.start, true)
	newest := record.NoTimestamp
	for _, b := range m.batches {
		newest = max(newest, b.newest)
	}
	complete := !slices.ContainsFunc(m.batches, func(b modelBatch) bool {
		return b.newest == newest && !slices.ContainsFunc(b.records, func(r seglog.Record) bool {
			return r.Timestamp == newest && r.Offset >= m.start
		})
	})
	want := firstSince(visible, newest)
	at, found, err := m.log.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(t, err)
	switch {
	case complete && newest >= 0:
		require.True(t, found)
		require.Equal(t, seglog.TimestampOffset{Timestamp: want.Found, Offset: want.Offset}, at)
	case found:
		require.True(t, slices.ContainsFunc(visible, func(r seglog.Record) bool {
			return r.Offset == at.Offset && r.Timestamp == at.Timestamp
		}), "%+v is no record", at)
	}
}

// Check is what holds after every step.
func (m *model) Check(t *rapid.T) {
	at := m.log.Offsets()
	require.Equal(t, m.start, at.Start)
	require.Equal(t, m.end, at.End)
	require.LessOrEqual(t, at.Start, at.End)
	require.LessOrEqual(t, at.Durable, at.End)
	if m.opts.Sync == seglog.SyncAlways {
		require.Equal(t, m.end, at.Durable)
	}
	all := segments(t, m.log)
	total := int64(0)
	for i, s := range all {
		require.Equal(t, i == len(all)-1, s.Active)
		if s.Active {
			require.Equal(t, m.end, s.NextOffset)
		} else {
			require.Equal(t, all[i+1].BaseOffset, s.NextOffset)
			require.Less(t, s.BaseOffset, s.NextOffset)
		}
		require.LessOrEqual(t, s.Size, m.opts.SegmentBytes)
		newest := record.NoTimestamp
		for _, b := range m.batches {
			if b.base >= s.BaseOffset && (s.Active || b.base < s.NextOffset) {
				newest = max(newest, b.newest)
			}
		}
		require.Equal(t, newest, s.MaxTimestamp, "segment %d", s.BaseOffset)
		total += s.Size
	}
	require.Equal(t, m.first, all[0].BaseOffset)
	size, err := m.log.Size()
	require.NoError(t, err)
	require.Equal(t, total, size)
}
