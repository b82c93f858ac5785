package seglog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/segment"
)

// aheadLog is a log on a disk in memory, where there can be room ahead on every system.
type aheadLog struct {
	*seglog.Log
	t    *testing.T
	disk *logtest.Disk
	next int
}

func openAhead(t *testing.T, disk *logtest.Disk, opts seglog.Options) *aheadLog {
	t.Helper()
	opts.FS = disk.FS()
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return &aheadLog{Log: l, t: t, disk: disk}
}

// append appends n records, each a batch of about 180 bytes.
func (l *aheadLog) append(n int) {
	l.t.Helper()
	for range n {
		l.next++
		_, err := l.Append([]seglog.Record{{Timestamp: 5, Value: fmt.Appendf(nil, "%0100d", l.next)}}, nil)
		require.NoError(l.t, err)
	}
}

// room is how many zeros the log file of a segment ends in.
func room(t *testing.T, disk *logtest.Disk, base int64) int {
	t.Helper()
	data, err := disk.ReadFile(path.Join("log", layout.LogName(base)))
	require.NoError(t, err)
	end := 0
	for _, b := range parseAll(t, data) {
		end = int(b.position) + b.Size()
	}
	return len(data) - end
}

var roomy = seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, AheadBytes: 64 << 10}

func TestAQuietLogHasNoRoomAhead(t *testing.T) {
	opts := roomy
	opts.AheadBytes = 0 // 1 MiB
	l := openAhead(t, logtest.NewDisk(logtest.DiskOptions{}), opts)
	for range 10 {
		l.append(10)
		require.Zero(t, room(t, l.disk, 0))
	}
	mapped := l.disk.Mapped()
	l.append(1000)
	require.Equal(t, mapped+1, l.disk.Mapped())
	size, err := l.disk.FS().Stat(path.Join("log", layout.LogName(0)))
	require.NoError(t, err)
	require.LessOrEqual(t, int64(room(t, l.disk, 0)), size.Size()/2, "no more than what was written")
	require.NotZero(t, room(t, l.disk, 0))
}

func TestALogThatMustNotBeMappedIsNot(t *testing.T) {
	opts := roomy
	opts.AheadBytes = -1
	l := openAhead(t, logtest.NewDisk(logtest.DiskOptions{}), opts)
	l.append(1000)
	require.Zero(t, room(t, l.disk, 0))
}

// Whoever comes to look at the file of a log that is not being written to finds its
// batches and nothing else.
func TestTheRoomAheadIsCutOff(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(l *aheadLog) error
	}{
		{"by a roll", func(l *aheadLog) error {
			_, err := l.Roll()
			eventually(t, func() bool { return room(t, l.disk, 0) == 0 })
			return err
		}},
		{"by closing", func(l *aheadLog) error { return l.Close() }},
		{"by a truncation", func(l *aheadLog) error { return l.TruncateTo(17) }},
		{"by a roll behind a gap", func(l *aheadLog) error {
			_, err := l.AppendReplicated(plainBatch(t, 5000, 5001), nil)
			if err == nil {
				_, err = l.Roll()
			}
			eventually(t, func() bool { return room(t, l.disk, 0) == 0 })
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := openAhead(t, logtest.NewDisk(logtest.DiskOptions{}), roomy)
			l.append(100)
			require.NotZero(t, room(t, l.disk, 0))
			require.NoError(t, row.do(l))
			require.Zero(t, room(t, l.disk, 0))
		})
	}
}

// What was cut off stays so in a power cut, before anybody relies on it: behind the
// recovery point nobody looks.
func TestASealedSegmentHasNoRoomAheadAfterAPowerCut(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openAhead(t, disk, roomy)
	l.append(100)
	require.NoError(t, l.Sync()) // all is durable, but that the file ends there
	_, err := l.Roll()
	require.NoError(t, err)
	l.append(1)
	require.NoError(t, l.Close())
	for state := range disk.States(200, 1) {
		require.Zero(t, room(t, state, 0), state.String())
	}
}

func TestAKilledWriterLeavesRoomAheadAndNothingIsLost(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openAhead(t, disk, roomy)
	l.append(700)
	killed := disk.Kill()
	left := room(t, killed, 0)
	require.NotZero(t, left)
	require.LessOrEqual(t, int64(left), roomy.AheadBytes)

	report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: killed.FS()})
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	tail := report.Problems[len(report.Problems)-1]
	require.Equal(t, "zero_tail", tail.Kind)
	require.Equal(t, seglog.Warning, tail.Severity)

	view := openAhead(t, killed, seglog.Options{ReadOnly: true})
	require.Empty(t, stats(t, view.Log).Recovery.Cut)
	require.EqualValues(t, 700, view.Offsets().End)

	var told bytes.Buffer
	opts := roomy
	opts.Logger = slog.New(slog.NewTextHandler(&told, nil))
	again := openAhead(t, killed, opts)
	require.Len(t, readAll(t, again.Log, 0), 700)
	cut := stats(t, again.Log).Recovery.Cut
	require.Len(t, cut, 1)
	require.True(t, cut[0].Zeros)
	require.EqualValues(t, left, cut[0].Bytes)
	require.Empty(t, stats(t, again.Log).Recovery.SetAside)
	require.NotContains(t, told.String(), "level=WARN")
	require.NoError(t, again.Close())
	require.Zero(t, room(t, killed, 0))
}

// Of a set that was being stored when the process was killed there may be all but the
// lengths of its batches, or those of the first of them too.
func TestASetThatWasHalfStoredIsNotThere(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openAhead(t, disk, roomy)
	l.append(100)
	name := path.Join("log", layout.LogName(0))
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	end := len(data) - room(t, disk, 0)
	first, second := plainBatch(t, 100, 104), plainBatch(t, 105, 109)
	for _, row := range []struct {
		name    string
		lengths int
		want    int64
	}{{"no length yet", 0, 100}, {"the first length", 1, 105}} {
		t.Run(row.name, func(t *testing.T) {
			killed := disk.Kill()
			stored := append(slices.Clone(first), second...)
			if row.lengths < 1 {
				clear(stored[8:12])
			}
			clear(stored[len(first)+8:][:4])
			require.NoError(t, killed.WriteFile(name, append(append(slices.Clone(data[:end]), stored...), make([]byte, 9000)...)))

			view := openAhead(t, killed, seglog.Options{ReadOnly: true})
			require.Equal(t, row.want, view.Offsets().End)
			require.Empty(t, stats(t, view.Log).Recovery.Damaged)
			again := openAhead(t, killed, seglog.Options{RefuseCut: true})
			require.Equal(t, row.want, again.Offsets().End)
			require.Empty(t, stats(t, again.Log).Recovery.SetAside)
		})
	}
}

// A disk that fills up between two steps ahead is an error of the append that needs
// room, and what has room already is taken.
func TestADiskThatFillsUpBetweenStepsAheadIsAnError(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{Capacity: 600 << 10})
	l := openAhead(t, disk, seglog.Options{Sync: seglog.SyncNever, AheadBytes: 128 << 10, SegmentIndexBytes: 24 << 10})
	l.append(800)
	for room(t, disk, 0) < 50_000 {
		l.append(10)
	}
	before := l.next
	disk.SetCapacity(0)
	n := 0
	var err error
	for ; err == nil; n++ {
		require.Less(t, n, 10_000, "the disk does not fill up")
		_, err = l.Append([]seglog.Record{{Timestamp: 5, Value: noise(1000)}}, nil)
	}
	require.ErrorIs(t, err, seglog.ErrNoSpace)
	require.Greater(t, n, 10, "the room ahead was used: %v", err)
	require.Nil(t, stats(t, l.Log).Failed)
	require.Len(t, readAll(t, l.Log, 0), before+n-1)
	disk.SetCapacity(1 << 30)
	l.append(2000)
	require.NoError(t, l.Close())
	require.Len(t, readAll(t, openAhead(t, disk, roomy).Log, 0), before+2000+n-1)
}

// Without room ahead, whatever keeps it from being made, an append is a call.
func TestAppendsGoOnWithoutRoomAhead(t *testing.T) {
	for _, kind := range []logtest.Kind{logtest.Preallocate, logtest.Map} {
		t.Run(string(kind), func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			l := openAhead(t, disk, roomy)
			l.append(20)
			disk.Fail(logtest.Calls{Kind: kind, Name: "*.log", Onwards: true}, segment.ErrFull)
			l.append(500)
			require.Zero(t, room(t, disk, 0))
			disk.Heal()
			l.append(500)
			require.NotZero(t, room(t, disk, 0), "it is tried again")
			require.Len(t, readAll(t, l.Log, 0), 1020)
		})
	}
}

// One that reads beside a writer meets every record once, and no damage, however far
// the writer has got with what is behind.
func TestReadersBesideAWriterTakeRoomAheadForTheEnd(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := roomy
	opts.SegmentBytes = 40_000
	l := openAhead(t, disk, opts)
	view := openAhead(t, disk, seglog.Options{ReadOnly: true})
	for i := range 40 {
		l.append(1 + i*7%40)
		require.NoError(t, view.Refresh())
		require.Equal(t, l.Offsets().End, view.Offsets().End)
		require.Len(t, readAll(t, view.Log, 0), l.next)
		require.Empty(t, stats(t, view.Log).Recovery.Damaged)
		require.Empty(t, stats(t, view.Log).Recovery.Cut)
	}
}

// A segment that another process has sealed and not cut yet ends where its batches do.
func TestASealedSegmentThatIsNotCutYetIsReadUpToItsEnd(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openAhead(t, disk, roomy)
	l.append(100)
	_, err := l.Roll()
	require.NoError(t, err)
	l.append(10)
	require.NoError(t, l.Close())
	name := path.Join("log", layout.LogName(0))
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, disk.WriteFile(name, append(data, make([]byte, 5000)...)))
	view := openAhead(t, disk, seglog.Options{ReadOnly: true})
	require.Len(t, readAll(t, view.Log, 0), 110)
}

func TestARandomCopyOfALogThatIsWrittenToIsAPrefix(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	model := &logtest.Model{}
	l := openAhead(t, disk, roomy)
	for i := range 200 {
		_, err := model.Append(l.Log, []seglog.Record{{Value: noise(50 + i)}}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, model.Check(context.Background(), l.Log))
	for state := range disk.States(100, 3) {
		requireSurvived(t, logtest.Crash{Disk: state, Claims: model.Claims()}, roomy, state.String())
	}
}

// Killed between a roll and the cut that follows it, a sealed segment has its room still.
// That is no damage, to nobody, and recovery cuts it.
func TestASealedSegmentThatAKilledProcessDidNotCutIsSound(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openAhead(t, disk, roomy)
	l.append(100)
	disk.Fail(logtest.Calls{Kind: logtest.Truncate, Name: "*.log"}, syscall.EIO)
	_, err := l.Roll()
	require.NoError(t, err)
	l.append(10)
	killed := disk.Kill()
	require.NotZero(t, room(t, killed, 0))

	for what, at := range map[string]*logtest.Disk{"beside its writer": disk, "killed": killed} {
		report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: at.FS()})
		require.NoError(t, err)
		require.Zero(t, report.Damage, "%s: %v", what, report.Problems)
		view := openAhead(t, at, seglog.Options{ReadOnly: true})
		require.Len(t, readAll(t, view.Log, 0), 110)
	}
	disk.Heal()
	require.NoError(t, l.Close(), "closing makes up for it")
	require.Zero(t, room(t, disk, 0))

	again := openAhead(t, killed, roomy)
	require.Len(t, readAll(t, again.Log, 0), 110)
	require.Zero(t, room(t, killed, 0))
	for _, cut := range stats(t, again.Log).Recovery.Cut {
		require.True(t, cut.Zeros, "%s", cut)
	}
}
