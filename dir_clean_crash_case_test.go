package seglog_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// cleanedDir does things to a Dir with a compacted log, and notes what it was told.
type cleanedDir struct {
	t    testing.TB
	errs []error

	mu   sync.Mutex
	told map[int64]keptRecord // by offset
	maybe,
	gone []keptRecord // what a truncation is about to take, and has taken
}

type keptRecord struct {
	offset     int64
	key, value string
}

func (d *cleanedDir) note(err error) bool {
	if err != nil {
		d.errs = append(d.errs, err)
	}
	return err == nil
}

func cleanedDirOptions(disk *logtest.Disk) seglog.DirOptions {
	return seglog.DirOptions{FS: disk.FS(), ManualMaintenance: true, Log: seglog.Options{
		CleanupPolicy: seglog.CleanupCompact, MinCleanableDirtyRatio: -1, RetentionTime: -1, FileDeleteDelay: -1,
		SegmentBytes: 300, SegmentIndexBytes: 96, IndexIntervalBytes: 100, TimestampAfterMax: -1,
	}}
}

func (d *cleanedDir) append(l *seglog.Log, n int) {
	for i := range n {
		key, value := fmt.Sprint("k", i%3), fmt.Sprintf("value %d of %d", i, n)
		next := keptRecord{l.Offsets().End, key, value}
		d.mu.Lock()
		d.maybe = append(d.maybe, next)
		d.mu.Unlock()
		at, err := l.Append([]seglog.Record{kv(key, value)}, nil)
		if d.note(err) {
			next.offset = at.BaseOffset
			d.mu.Lock()
			d.told[at.BaseOffset] = next
			d.mu.Unlock()
		}
	}
}

func (d *cleanedDir) truncate(l *seglog.Log, offset int64) {
	d.mu.Lock()
	var taken []keptRecord
	for o, r := range d.told {
		if o >= offset {
			taken = append(taken, r)
			delete(d.told, o)
		}
	}
	d.maybe = append(d.maybe, taken...)
	d.mu.Unlock()
	if d.note(l.TruncateTo(offset)) {
		d.mu.Lock()
		d.gone, d.maybe = append(d.gone, taken...), nil
		d.mu.Unlock()
	}
}

// run compacts, truncates what was compacted, appends there, and compacts again; then
// all of it once more in a directory that was closed.
func (d *cleanedDir) run(disk *logtest.Disk) {
	for round := range 2 {
		dir, err := seglog.OpenDir("logs", cleanedDirOptions(disk))
		if !d.note(err) {
			return
		}
		var l *seglog.Log
		if round == 0 {
			l, err = dir.CreatePartition("topic", 0, nil)
		} else {
			l, err = dir.Partition("topic", 0)
		}
		if d.note(err) {
			d.append(l, 8)
			d.note(dir.Clean(d.t.Context()))
			// Of what lies above, compaction has not taken anything for something below.
			d.truncate(l, l.Offsets().End-1)
			d.append(l, 5)
			d.note(dir.Clean(d.t.Context()))
		}
		d.note(dir.Close())
		if errors.Is(errors.Join(d.errs...), seglog.ErrFailed) {
			return
		}
	}
}

func (d *cleanedDir) copy() *cleanedDir {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &cleanedDir{told: maps.Clone(d.told), maybe: append([]keptRecord{}, d.maybe...), gone: append([]keptRecord{}, d.gone...)}
}

// requireSurvived opens what is left: of each key the last record is there, nothing that
// nobody appended, and below the first dirty offset nothing that is superseded there.
func (d *cleanedDir) requireSurvived(t testing.TB, disk *logtest.Disk, what string) {
	t.Helper()
	dir, err := seglog.OpenDir("logs", cleanedDirOptions(disk))
	require.NoError(t, err, what)
	l, err := dir.Partition("topic", 0)
	if err != nil {
		require.ErrorIs(t, err, seglog.ErrNoPartition, what)
		require.Empty(t, d.told, what)
		require.NoError(t, dir.Close(), what)
		return
	}
	for range 2 {
		found := map[string]int64{}
		clean, err := l.Dirtiness()
		require.NoError(t, err, what)
		for r, err := range l.Records(t.Context(), l.Offsets().Start, nil) {
			require.NoError(t, err, what)
			got := keptRecord{r.Offset, string(r.Key), string(r.Value)}
			require.True(t, d.told[r.Offset] == got || contains(d.maybe, got), "%s: %v was not appended", what, got)
			if before, twice := found[got.key]; twice && clean.FirstDirty > 0 {
				require.GreaterOrEqual(t, r.Offset, clean.FirstDirty, "%s: %v is also at %d", what, got, before)
			}
			found[got.key] = r.Offset
		}
		for _, must := range d.told {
			last, there := found[must.key]
			require.True(t, there && last >= must.offset, "%s: %v is missing, found %v", what, must, found)
		}
		require.NoError(t, dir.Clean(t.Context()), what)
		require.Empty(t, dir.CleanerStats().Uncleanable, what)
	}
	require.NoError(t, dir.Close(), what)
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), what)
}

func contains(all []keptRecord, one keptRecord) bool {
	for _, r := range all {
		if r == one {
			return true
		}
	}
	return false
}

// The power goes out, or the process is killed, at every step of a Dir that compacts and
// truncates in turns.
func TestADirsCompactionSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	disk := logtest.NewDisk(logtest.DiskOptions{})
	d := &cleanedDir{t: t, told: map[int64]keptRecord{}}
	points, states := 0, 0
	var one sync.Mutex
	disk.OnOp(func(op logtest.Op) {
		one.Lock()
		defer one.Unlock()
		told := d.copy()
		points++
		told.requireSurvived(t, disk.Kill(), fmt.Sprintf("killed before %s", op))
		for state := range disk.States(*crashStates/6, uint64(op.N)) {
			states++
			told.requireSurvived(t, state, fmt.Sprintf("crash before %s, %s", op, state))
		}
	})
	d.run(disk)
	disk.OnOp(nil)
	require.Empty(t, d.errs)
	d.requireSurvived(t, disk, "at the end")
	t.Logf("%d crash points, %d disk states", points, states)
}

// Every call of it fails once, in every way it can.
func TestADirsCompactionSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		d := &cleanedDir{t: t, told: map[int64]keptRecord{}}
		d.run(disk)
		require.Empty(t, d.errs)
	}) {
		if n++; n%*faultsEvery != 0 {
			continue
		}
		d := &cleanedDir{t: t, told: map[int64]keptRecord{}}
		d.run(disk)
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), "%s: something is left open", disk)
		d.requireSurvived(t, disk.Kill(), fmt.Sprintf("after %s (%v)", disk, d.errs))
	}
	t.Logf("%d faults", n)
}
