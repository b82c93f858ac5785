package seglog_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// compactable is a log on a disk that has something of everything to compact: values
// that are superseded, tombstones, committed and aborted transactions, a producer
// whose last batch is, and what lies in the active segment.
type compactable struct {
	disk *logtest.Disk
	opts seglog.Options
	// latest is the value of each key; "" if its last record is a tombstone.
	latest map[string]string
	// written are all records, as "key=value" by offset.
	written map[int64]string
	end     int64
}

func compactableOptions(disk *logtest.Disk) seglog.Options {
	return seglog.Options{
		FS: disk.FS(), SegmentBytes: 700, SegmentIndexBytes: 96, IndexIntervalBytes: 100, TimestampAfterMax: -1,
		CleanupPolicy: seglog.CleanupCompact, DeleteRetention: 10 * time.Second,
		ProducerIDExpiration: math.MaxInt64, TransactionMaxTimeout: math.MaxInt64,
	}
}

func newCompactable(t testing.TB) *compactable {
	t.Helper()
	c := &compactable{disk: logtest.NewDisk(logtest.DiskOptions{}), latest: map[string]string{}, written: map[int64]string{}}
	c.opts = compactableOptions(c.disk)
	l, err := seglog.Open("log", c.opts)
	require.NoError(t, err)
	for i := range 36 {
		key := fmt.Sprint("k", i%5)
		value := fmt.Sprintf("value %d %0*d", i, i*7%60, 0)
		if i%7 == 3 {
			value = ""
		}
		var opts seglog.AppendOptions
		aborted := i%9 == 4
		switch {
		case aborted || i%9 == 7:
			opts.Producer = &seglog.Producer{ID: 9, Sequence: sequenceOf(t, l, 9), Transactional: true}
		case i%4 == 1:
			opts.Producer = &seglog.Producer{ID: int64(i % 3), Sequence: sequenceOf(t, l, int64(i%3))}
		}
		at, err := l.Append([]seglog.Record{kv(key, value)}, &opts)
		require.NoError(t, err)
		c.written[at.BaseOffset] = key + "=" + value
		switch {
		case aborted:
			_, err = l.EndTransaction(seglog.Producer{ID: 9}, seglog.Abort, nil)
		case opts.Producer != nil && opts.Producer.Transactional:
			_, err = l.EndTransaction(seglog.Producer{ID: 9}, seglog.Commit, nil)
		}
		require.NoError(t, err)
		if !aborted {
			c.latest[key] = value
		}
	}
	c.end = l.Offsets().End
	require.NoError(t, l.Close())
	c.disk.SyncAll()
	return c
}

func sequenceOf(t testing.TB, l *seglog.Log, id int64) int32 {
	t.Helper()
	known, err := l.Producers()
	require.NoError(t, err)
	for _, p := range known {
		if p.ID == id {
			return record.IncrementSequence(p.LastSequence, 1)
		}
	}
	return 0
}

// compactTwice is the workload: everything, in passes of few keys, and again when the
// tombstones may go.
func (c *compactable) compactTwice(l *seglog.Log) error {
	o := &seglog.CompactOptions{MapBytes: 4 * 24, Now: time.UnixMilli(1_000_000)}
	if _, err := l.Compact(context.Background(), o); err != nil {
		return err
	}
	o.Full, o.MapBytes, o.Now = true, 0, time.UnixMilli(1_020_000)
	_, err := l.Compact(context.Background(), o)
	return err
}

// requireLatest opens the log: each key has its last value, or none if that was a
// tombstone; nothing is there that was not written, or aborted, or there twice; and
// compaction carries on.
func (c *compactable) requireLatest(t testing.TB, disk *logtest.Disk, what string) {
	t.Helper()
	opts := compactableOptions(disk)
	l, err := seglog.Open("log", opts)
	require.NoError(t, err, what)
	require.Equal(t, c.end, l.Offsets().End, what)
	c.requireContent(t, l, what)
	// Producers carry on where they were, transactions are over.
	for id := range int64(3) {
		at, err := l.Append([]seglog.Record{kv("new", "n")}, &seglog.AppendOptions{
			Producer: &seglog.Producer{ID: id, Sequence: sequenceOf(t, l, id)}})
		require.NoError(t, err, what)
		require.False(t, at.Duplicate)
		require.NotZero(t, sequenceOf(t, l, id)-1, what)
	}
	open, err := l.Transactions()
	require.NoError(t, err)
	require.Empty(t, open, what)
	rollLog(t, l)
	_, err = l.Compact(t.Context(), &seglog.CompactOptions{Full: true, Now: time.UnixMilli(1_020_000)})
	require.NoError(t, err, what)
	c.requireContent(t, l, what)
	require.NoError(t, l.Close(), what)
	report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: disk.FS(), Jobs: 1})
	require.NoError(t, err, what)
	require.Zero(t, report.Damage, "%s: %v", what, report.Problems)
	for _, p := range report.Problems {
		require.NotEqual(t, "leftover", p.Kind, "%s: %s", what, p)
	}
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), what)
}

func (c *compactable) requireContent(t testing.TB, l *seglog.Log, what string) {
	t.Helper()
	found := map[string]string{}
	last := int64(-1)
	for r, err := range l.Records(t.Context(), l.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
		require.NoError(t, err, what)
		require.Greater(t, r.Offset, last, what)
		last = r.Offset
		if string(r.Key) == "new" {
			continue
		}
		require.Equal(t, c.written[r.Offset], string(r.Key)+"="+string(r.Value), what)
		found[string(r.Key)] = string(r.Value)
		got, err := l.Get(r.Offset)
		require.NoError(t, err, what)
		require.Equal(t, r.Value, got.Value, what)
	}
	for key, value := range c.latest {
		require.Equal(t, value, found[key], "%s: %s", what, key)
	}
	require.LessOrEqual(t, len(found), len(c.latest), what)
}

// K111, row 337: the power goes out, or the process is killed, before every step of a
// compaction.
func TestACompactionSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	c := newCompactable(t)
	l, err := seglog.Open("log", c.opts)
	require.NoError(t, err)
	points, states := 0, 0
	c.disk.OnCrash(*crashStates/20, 1, nil, func(crash logtest.Crash) {
		if crash.Killed {
			points++
		}
		states++
		c.requireLatest(t, crash.Disk, crash.String())
	})
	require.NoError(t, c.compactTwice(l))
	require.NoError(t, l.Close())
	c.disk.OnOp(nil)
	c.requireLatest(t, c.disk, "undisturbed")
	t.Logf("%d crash points, %d disk states", points, states)
}

// Every call to the file system of a compaction fails once, in every way it can.
func TestACompactionSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	c := newCompactable(t)
	n := 0
	// One pass each, or there would be a thousand calls more.
	run := func(disk *logtest.Disk) error {
		l, err := seglog.Open("log", compactableOptions(disk))
		if err != nil {
			return err
		}
		for i, now := range []int64{1_000_000, 1_020_000} {
			if _, e := l.Compact(context.Background(), &seglog.CompactOptions{Full: i > 0, Now: time.UnixMilli(now)}); err == nil {
				err = e
			}
		}
		if cerr := l.Close(); err == nil {
			err = cerr
		}
		return err
	}
	for disk := range logtest.Faults(c.disk, func(disk *logtest.Disk) { require.NoError(t, run(disk)) }) {
		if n++; n%*faultsEvery != 0 {
			continue
		}
		if err := run(disk); err != nil {
			require.True(t, known(err), "%s: %v", disk, err)
		}
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), "%s", disk)
		c.requireLatest(t, disk.Kill(), fmt.Sprintf("after %s", disk))
		if n / *faultsEvery % 4 > 0 { // a power cut on top of every fault takes long
			continue
		}
		for state := range disk.States(1, uint64(n)) {
			c.requireLatest(t, state, fmt.Sprintf("after %s, %s", disk, state))
		}
	}
	t.Logf("%d faults", n)
}

// Row 336: a segment of an old broker that becomes two is the old one or the two, at
// whichever step the power goes out.
func TestASegmentThatBecomesTwoSurvivesAPowerCut_336(t *testing.T) {
	t.Parallel()
	const far = int64(1) << 31
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := compactableOptions(disk)
	write := func(base int64, batches ...[]byte) {
		require.NoError(t, disk.WriteFile(segmentFile("log", base, ".log"), slices.Concat(batches...)))
	}
	require.NoError(t, opts.FS.MkdirAll("log", 0o755))
	write(0, keyedBatch(t, 0, "a", "old"), keyedBatch(t, 5, "b", "v"))
	write(far+20, keyedBatch(t, far+20, "d", "v"))
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	// It was not looked at when the log was opened, or it had been split then.
	write(0, keyedBatch(t, 0, "a", "old"), keyedBatch(t, 5, "b", "v"), keyedBatch(t, far+10, "a", "new"), keyedBatch(t, far+12, "c", "v"))
	disk.SyncAll()
	want := []string{"5 b=v", fmt.Sprint(far+10, " a=new"), fmt.Sprint(far+12, " c=v"), fmt.Sprint(far+20, " d=v")}
	survived := func(disk *logtest.Disk, what string) {
		l, err := seglog.Open("log", compactableOptions(disk))
		require.NoError(t, err, what)
		found := contents(t, l)
		if len(found) == len(want)+1 {
			require.Equal(t, "0 a=old", found[0], what)
			found = found[1:]
		}
		require.Equal(t, want, found, what)
		require.Equal(t, far+21, l.Offsets().End, what)
		compact(t, l, &seglog.CompactOptions{Full: true})
		require.Equal(t, want, contents(t, l), what)
		require.NoError(t, l.Close(), what)
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), what)
	}
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Equal(t, []int64{0, far + 20}, bases(t, l))
	states := 0
	disk.OnCrash(*crashStates/20, 1, nil, func(c logtest.Crash) {
		states++
		survived(c.Disk, c.String())
	})
	res := compact(t, l, nil)
	disk.OnOp(nil)
	require.Equal(t, 2, res.Segments[0].Left)
	require.Equal(t, []int64{0, far + 10, far + 20}, bases(t, l))
	require.Equal(t, want, contents(t, l))
	require.NoError(t, l.Close())
	survived(disk, "undisturbed")
	t.Logf("%d disk states", states)
}
