package seglog_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// compactModel is a compacted log, told what was appended to it and nothing else.
type compactModel struct {
	t    *rapid.T
	dir  string
	opts seglog.Options
	log  *seglog.Log

	entries []modelEntry // of records and markers, by offset
	now     int64
	passes  int
	// decided is an offset below which records, markers included, have had their say
	// about others: to truncate below it would not bring those back.
	decided int64
}

type modelEntry struct {
	offset     int64
	key, value string
	tombstone  bool
	pid        int64 // -1: no transaction
	marker     bool
	commit     bool
	seen       int64 // the time of the first compaction since it was appended; 0: none
}

const modelRetention = 10_000

func (m *compactModel) draw(low, high int, label string) int {
	return rapid.IntRange(low, high).Draw(m.t, label)
}

// append writes a batch: plain, of an idempotent producer, or of a transaction.
func (m *compactModel) append() {
	n := m.draw(1, 4, "records")
	entries := make([]modelEntry, n)
	records := make([]seglog.Record, n)
	for i := range records {
		e := modelEntry{key: fmt.Sprint("k", m.draw(0, 7, "key")), pid: -1, tombstone: m.draw(0, 3, "tombstone") == 0}
		e.value = fmt.Sprintf("value %d %0*d", len(m.entries)+i, m.draw(0, 60, "padding"), 0)
		records[i] = kv(e.key, e.value)
		records[i].Timestamp = m.now
		if e.tombstone {
			records[i].Value, e.value = nil, ""
		}
		if m.draw(0, 3, "headers") == 0 {
			records[i].Headers = []seglog.Header{{Key: "h", Value: []byte(e.key)}}
		}
		entries[i] = e
	}
	var opts seglog.AppendOptions
	if id := int64(m.draw(-2, 3, "producer")); id >= 0 {
		opts.Producer = &seglog.Producer{ID: id, Sequence: m.nextSequence(id), Transactional: id >= 2}
		for i := range entries {
			if id >= 2 {
				entries[i].pid = id
			}
		}
	}
	at, err := m.log.Append(records, &opts)
	require.NoError(m.t, err)
	for i := range entries {
		entries[i].offset = at.BaseOffset + int64(i)
	}
	m.entries = append(m.entries, entries...)
}

func (m *compactModel) nextSequence(id int64) int32 {
	known, err := m.log.Producers()
	require.NoError(m.t, err)
	for _, p := range known {
		if p.ID == id {
			return record.IncrementSequence(max(p.LastSequence, -1), 1)
		}
	}
	return 0
}

func (m *compactModel) endTransaction() {
	id := int64(m.draw(2, 3, "producer"))
	commit := m.draw(0, 1, "commit") == 1
	result := seglog.Abort
	if commit {
		result = seglog.Commit
	}
	at, err := m.log.EndTransaction(seglog.Producer{ID: id}, result, nil)
	require.NoError(m.t, err)
	m.entries = append(m.entries, modelEntry{offset: at.BaseOffset, pid: id, marker: true, commit: commit})
}

func (m *compactModel) compact() {
	m.now += int64(m.draw(0, modelRetention, "time"))
	for i := range m.entries {
		if e := &m.entries[i]; e.seen == 0 {
			e.seen = m.now
		}
	}
	o := &seglog.CompactOptions{
		Full:     m.draw(0, 1, "full") == 1,
		MapBytes: 24 * int64(m.draw(2, 12, "slots")),
		Now:      time.UnixMilli(m.now),
	}
	if m.draw(0, 5, "dry run") == 0 {
		before := logFiles(m.t, m.dir)
		dry := *o
		dry.DryRun = true
		compact(m.t, m.log, &dry)
		require.Equal(m.t, before, logFiles(m.t, m.dir))
	}
	m.decided = m.log.Offsets().End
	res := compact(m.t, m.log, o)
	m.passes += res.Passes
	d, err := m.log.Dirtiness()
	require.NoError(m.t, err)
	require.GreaterOrEqual(m.t, d.FirstDirty, d.FirstUncleanable, "Compact goes on until all is clean")
	m.checkClean(d.FirstDirty)
	again, err := m.log.Dirtiness()
	require.NoError(m.t, err)
	require.Equal(m.t, d, again)
}

// logFiles are the .log files of a directory, by name.
func logFiles(t tb, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	for _, path := range paths {
		all[filepath.Base(path)] = string(readFile(t, path))
	}
	return all
}

func (m *compactModel) truncate() {
	d, err := m.log.Dirtiness()
	require.NoError(m.t, err)
	at := m.log.Offsets()
	low := max(d.FirstDirty, at.Start, m.decided)
	if low > at.End {
		return
	}
	to := low + int64(m.draw(0, int(at.End-low), "truncate"))
	require.NoError(m.t, m.log.TruncateTo(to))
	// A batch that holds the offset goes as a whole.
	m.t.Logf("truncated to %d of [%d,%d)", to, at.Start, at.End)
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.offset >= to })
	found := map[int64]bool{}
	for r, err := range m.log.Records(m.t.Context(), m.log.Offsets().Start, &seglog.IterOptions{Control: true, Isolation: seglog.ReadLogEnd}) {
		require.NoError(m.t, err)
		found[r.Offset] = true
	}
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.offset >= low && !found[e.offset] })
}

func (m *compactModel) deleteBefore() {
	at := m.log.Offsets()
	deleteBefore(m.t, m.log, at.Start+int64(m.draw(0, int(at.End-at.Start), "delete")))
}

// reopen opens the log again, now and then without the producer snapshots.
func (m *compactModel) reopen() {
	require.NoError(m.t, m.log.Close())
	requireSound(m.t, m.dir)
	m.open()
}

func (m *compactModel) open() {
	var err error
	m.log, err = seglog.Open(m.dir, m.opts)
	require.NoError(m.t, err)
}

// outcomes says of each record whether it is committed, and where the first open
// transaction begins.
func (m *compactModel) outcomes() (committed map[int64]bool, stable int64) {
	committed = map[int64]bool{}
	stable = m.log.Offsets().End
	pending := map[int64][]int64{}
	for _, e := range m.entries {
		switch {
		case e.marker:
			for _, o := range pending[e.pid] {
				committed[o] = e.commit
			}
			delete(pending, e.pid)
		case e.pid < 0:
			committed[e.offset] = true
		default:
			pending[e.pid] = append(pending[e.pid], e.offset)
		}
	}
	for _, offsets := range pending {
		stable = min(stable, offsets[0])
	}
	return committed, stable
}

// check compares what readers of committed records see with what must be there.
func (m *compactModel) check() {
	at := m.log.Offsets()
	committed, stable := m.outcomes()
	lso, err := m.log.LastStableOffset()
	require.NoError(m.t, err)
	if stable >= at.Start { // of a transaction below the start the log may know or not
		require.Equal(m.t, stable, lso)
	}
	stable = lso
	last := map[string]modelEntry{}
	by := map[int64]modelEntry{}
	for _, e := range m.entries {
		if e.marker || e.offset < at.Start {
			continue
		}
		by[e.offset] = e
		if committed[e.offset] && e.offset < stable {
			last[e.key] = e
		}
	}
	seen := map[string]modelEntry{}
	for r, err := range m.log.Records(m.t.Context(), at.Start, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
		require.NoError(m.t, err)
		e, ok := by[r.Offset]
		require.True(m.t, ok, "nobody appended a record at offset %d", r.Offset)
		require.True(m.t, committed[r.Offset], "offset %d was aborted", r.Offset)
		require.Equal(m.t, e.key, string(r.Key))
		require.Equal(m.t, e.tombstone, r.Value == nil)
		require.Equal(m.t, e.value, string(r.Value))
		seen[e.key] = e
		got, err := m.log.Get(r.Offset)
		require.NoError(m.t, err)
		require.Equal(m.t, r.Timestamp, got.Timestamp)
	}
	for key, want := range last {
		got, ok := seen[key]
		if !ok && want.tombstone {
			require.NotZero(m.t, want.seen, "the tombstone of %s at %d went without a compaction", key, want.offset)
			require.LessOrEqual(m.t, want.seen+modelRetention, m.now, "the tombstone of %s at %d went early", key, want.offset)
			continue
		}
		require.True(m.t, ok, "%s at offset %d is lost", key, want.offset)
		require.Equal(m.t, want.offset, got.offset, "last offset of %s", key)
	}
	m.checkRead(at, committed, stable)
}

// checkRead reads the stored batches, as a client does that leaves out what was
// aborted by itself.
func (m *compactModel) checkRead(at seglog.Offsets, committed map[int64]bool, stable int64) {
	for next := at.Start; ; {
		res, err := m.log.Read(next, 700, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
		require.NoError(m.t, err)
		aborting := map[int64]int64{}
		for _, a := range slices.Backward(res.Aborted) {
			aborting[a.ProducerID] = a.FirstOffset
		}
		for data := res.Batches; len(data) > 0; {
			b, err := record.Parse(data)
			require.NoError(m.t, err)
			require.NoError(m.t, b.Check())
			data = data[b.Size():]
			for r, err := range b.Records(nil) {
				require.NoError(m.t, err)
				if b.IsTransactional() && !b.IsControl() && !committed[r.Offset] {
					first, ok := aborting[b.ProducerID()]
					require.True(m.t, ok && first <= r.Offset, "a client would take offset %d for committed", r.Offset)
				}
			}
		}
		if res.NextOffset == next {
			return
		}
		next = res.NextOffset
	}
}

// checkClean: below first no two records have one key, but where a tombstone waits.
func (m *compactModel) checkClean(first int64) {
	seen := map[string]int64{}
	for r, err := range m.log.Records(m.t.Context(), m.log.Offsets().Start, &seglog.IterOptions{To: max(first, 1)}) {
		require.NoError(m.t, err)
		if r.Offset >= first {
			break
		}
		before, twice := seen[string(r.Key)]
		require.False(m.t, twice, "%s is at %d and at %d", r.Key, before, r.Offset)
		seen[string(r.Key)] = r.Offset
	}
}

// Whatever is appended and whenever it is compacted, in whatever memory: the last
// committed record of each key is there, under its offset; no older one is the last
// again; no tombstone goes before its time.
func TestCompactionKeepsWhatAPlainModelKeeps(t *testing.T) {
	t.Parallel()
	codecs := []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "log")
		require.NoError(rt, err)
		defer os.RemoveAll(dir)
		m := &compactModel{t: rt, dir: dir, now: 1_000_000}
		m.opts = compacted
		m.opts.SegmentBytes = int64(m.draw(600, 3000, "segment bytes"))
		m.opts.SegmentIndexBytes = m.draw(24, 200, "index bytes")
		m.opts.IndexIntervalBytes = m.draw(1, 400, "interval")
		m.opts.DeleteRetention = modelRetention * time.Millisecond
		m.opts.TransactionMaxTimeout = math.MaxInt64
		m.opts.ProducerIDExpiration = math.MaxInt64
		m.opts.Compression = rapid.SampledFrom(codecs).Draw(rt, "codec")
		m.open()
		defer func() { _ = m.log.Close() }()
		for range m.draw(1, 60, "steps") {
			switch m.draw(0, 19, "step") {
			case 0, 1, 2:
				m.compact()
				m.check()
			case 3:
				m.truncate()
				m.check()
			case 4:
				m.deleteBefore()
				m.check()
			case 5:
				m.reopen()
				m.check()
			case 6, 7:
				rollLog(rt, m.log)
			case 8, 9, 10:
				m.endTransaction()
			default:
				m.append()
			}
		}
		m.compact()
		m.check()
		m.reopen()
		m.check()
	})
}
