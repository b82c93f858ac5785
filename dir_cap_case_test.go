package seglog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// openMappings counts this process's mappings of files in dir, where the system tells.
func openMappings(t testing.TB, dir string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0
	}
	return strings.Count(string(maps), dir)
}

// descriptorsIn counts this process's descriptors of files in dir.
func descriptorsIn(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(path, dir) {
			n++
		}
	}
	return n
}

// K105: the limit is one for all logs, and holds for active segments too.
func TestOpenFilesAreBoundedAcrossAllLogs(t *testing.T) {
	const logs, limit = 60, 16
	for _, policy := range []seglog.SyncPolicy{seglog.SyncAlways, seglog.SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			dir := t.TempDir()
			opts := seglog.DirOptions{ManualMaintenance: true, MaxOpenSegments: limit,
				Log: seglog.Options{SegmentBytes: 400, Sync: policy, RetentionTime: -1, IndexIntervalBytes: 1}}
			d := openDir(t, dir, opts)
			requireBounded := func() {
				t.Helper()
				require.LessOrEqual(t, d.Stats().OpenSegments, limit+limit/8+1)
				require.LessOrEqual(t, descriptorsIn(t, dir), 3*(limit+limit/8+1)+32) // and files that the background is writing
				require.LessOrEqual(t, openMappings(t, dir), 3*(limit+limit/8+1))
			}
			want := make([]int, logs)
			for i := range logs {
				create(t, d, "topic", int32(i))
				requireBounded()
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 600 {
				i := random.IntN(logs)
				l := partition(t, d, "topic", int32(i))
				appendEach(t, l, one(int64(want[i]+1), fmt.Sprint("value ", want[i])))
				want[i]++
				if at := random.IntN(want[i]); random.IntN(2) == 0 {
					r, err := l.Get(int64(at))
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint("value ", at), string(r.Value))
				}
				requireBounded()
			}
			for i := range logs {
				l := partition(t, d, "topic", int32(i))
				require.Len(t, readAll(t, l, 0), want[i])
				require.Equal(t, int64(want[i]), l.Offsets().End)
				if want[i] > 0 {
					require.Equal(t, int64(want[i]-1), offsetForTime(t, l, int64(want[i])))
				}
				requireBounded()
			}
			for i := range logs / 2 { // what truncates and rolls opens them too
				l := partition(t, d, "topic", int32(i))
				_, err := l.Roll()
				require.NoError(t, err)
				require.NoError(t, l.TruncateTo(int64(want[i]/2)))
				want[i] /= 2
			}
			require.NoError(t, d.Close())
			require.Zero(t, d.Stats().OpenSegments)
			require.Zero(t, descriptorsIn(t, dir))
			require.Zero(t, openMappings(t, dir))
			for i := range logs {
				requireSound(t, fmt.Sprintf("%s/topic-%d", dir, i))
			}
			d = openDir(t, dir, opts)
			for i := range logs {
				l := partition(t, d, "topic", int32(i))
				require.True(t, stats(t, l).Recovery.Clean)
				require.Equal(t, int64(want[i]), l.Offsets().End)
			}
		})
	}
}

var (
	handleLogs     = flag.Int("handles.logs", 15, "logs of which each segment is read")
	handleSegments = flag.Int("handles.segments", 20, "segments of each of them")
)

// However many segments there are, opening their logs opens none of them but the
// last ones, and reading each leaves no more open than the limit.
func TestReadingManySegmentsOfManyLogsLeavesFewOpen(t *testing.T) {
	const limit = 8
	logs, segments := *handleLogs, *handleSegments
	dir := t.TempDir()
	opts := manual
	opts.MaxOpenSegments, opts.Log.SegmentIndexBytes = limit, 256
	d := openDir(t, dir, opts)
	for i := range logs {
		l := create(t, d, "topic", int32(i))
		for range segments {
			appendEach(t, l, many(2, 1)...)
			rollLog(t, l)
		}
	}
	require.NoError(t, d.Close())
	before := openMappings(t, dir)
	require.Zero(t, before+descriptorsIn(t, dir))
	requireFew := func() {
		t.Helper()
		require.LessOrEqual(t, descriptorsIn(t, dir), 3*(limit+limit/8+1)+8)
		require.LessOrEqual(t, openMappings(t, dir), 2*(limit+limit/8+1))
	}
	d = openDir(t, dir, opts)
	for i := range logs {
		l := partition(t, d, "topic", int32(i))
		require.Equal(t, int64(2*segments), l.Offsets().End)
	}
	requireFew()
	for i := range logs {
		require.Len(t, readAll(t, partition(t, d, "topic", int32(i)), 0), 2*segments)
		requireFew()
	}
	for round := range segments {
		for i := range logs {
			r, err := partition(t, d, "topic", int32(i)).Get(int64(2*round + 1))
			require.NoError(t, err)
			require.Equal(t, int64(2), r.Timestamp)
		}
	}
	requireFew()
	require.NoError(t, d.Close())
	require.Zero(t, openMappings(t, dir)+descriptorsIn(t, dir))
}

// What is removed is let go of at once. Descriptors and mappings of removed files
// count here.
func TestSegmentsThatComeAndGoLeaveNothingOpen(t *testing.T) {
	dir := t.TempDir()
	opts := quick
	opts.SegmentIndexBytes, opts.IndexIntervalBytes = 256, 1
	l := openLog(t, dir, opts)
	var files, mappings int
	for i := range 40 * *raceRounds {
		appendEach(t, l, many(3, 1)...)
		_, err := l.Get(l.Offsets().Start)
		require.NoError(t, err)
		if i%3 == 2 {
			require.NoError(t, l.TruncateTo(l.Offsets().End-2))
		}
		rollLog(t, l)
		waitForRecoveryPoint(t, l, l.Offsets().End) // until what runs behind a roll has ended
		deleteBefore(t, l, l.Offsets().End)
		if i == 10 {
			files, mappings = descriptorsIn(t, dir), openMappings(t, dir)
		}
		if i > 10 {
			require.LessOrEqual(t, descriptorsIn(t, dir), files+6) // and what the background is at
			require.LessOrEqual(t, openMappings(t, dir), mappings+2)
		}
	}
	closeLog(t, l)
	require.Zero(t, descriptorsIn(t, dir)+openMappings(t, dir))
}

// A log that was closed because it was idle leaves the same indexes as one that was
// not.
func TestALogThatWasIdleLeavesTheSameFiles(t *testing.T) {
	write := func(dir string, limit int) {
		opts := manual
		opts.MaxOpenSegments, opts.Log.IndexIntervalBytes, opts.Log.SegmentBytes = limit, 300, 4000
		d := openDir(t, dir, opts)
		create(t, d, "a", 0)
		create(t, d, "b", 0)
		for i := range 200 {
			for _, topic := range []string{"a", "b"} {
				appendEach(t, partition(t, d, topic, 0), one(int64(1000+i/3), fmt.Sprint("value ", i)))
			}
		}
		require.NoError(t, d.Close())
	}
	idle, busy := t.TempDir(), t.TempDir()
	write(idle, 1)
	write(busy, 100)
	for _, topic := range []string{"/a-0", "/b-0"} {
		requireSound(t, idle+topic)
		require.Equal(t, names(t, busy+topic), names(t, idle+topic))
		for _, name := range names(t, busy+topic) {
			if strings.HasSuffix(name, ".timeindex") {
				continue // the closing entry of each time it was closed
			}
			require.Equal(t, readFile(t, busy+topic+"/"+name), readFile(t, idle+topic+"/"+name), name)
		}
	}
}

func TestManyUsersOfADirAtATime(t *testing.T) {
	requireNoLeak(t)
	dir := t.TempDir()
	opts := seglog.DirOptions{MaxOpenSegments: 8, InitialTaskDelay: 1, RetentionCheckInterval: 1e6,
		HighWatermarkCheckpointInterval: 1e6, RecoveryCheckpointInterval: 1e6, StartCheckpointInterval: 1e6,
		Log: seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 500, RetentionBytes: 1000, FlushInterval: 1e6, FileDeleteDelay: -1}}
	d := openDir(t, dir, opts)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for i := 0; ; i++ {
				n := int32(random.IntN(12))
				l, err := d.Partition("topic", n)
				if err == nil {
					_, err = l.Append(many(2, int64(1000+i)), nil)
				}
				if err == nil {
					_, err = l.Get(l.Offsets().Start)
				}
				switch k := random.IntN(20); {
				case k == 0:
					d.DeletePartition("topic", n)
				case k == 1 && l != nil:
					l.Close()
				case k == 2 && l != nil:
					l.TruncateTo(max(0, l.Offsets().End-3))
				case k < 6:
					d.CreatePartition("topic", n, nil)
				case k == 6:
					d.Partitions()
					d.Stats()
				}
				for _, unexpected := range []error{seglog.ErrCorrupt, seglog.ErrFailed, seglog.ErrLocked} {
					require.NotErrorIs(t, err, unexpected)
				}
				if i > 300 {
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, d.Close())
	_, err := d.Partition("topic", 0)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = d.CreatePartition("topic", 0, nil)
	require.ErrorIs(t, err, seglog.ErrClosed)
	require.ErrorIs(t, d.DeletePartition("topic", 0), seglog.ErrClosed)
	require.ErrorIs(t, d.Maintain(t.Context()), seglog.ErrClosed)
	require.ErrorIs(t, d.Load(t.Context(), nil), seglog.ErrClosed)
	require.NoError(t, d.Close())
	for _, p := range d.Partitions() {
		requireSound(t, dir+"/"+p.Name)
	}
	require.FileExists(t, dir+"/.kafka_cleanshutdown")
}

// Close may come at any moment.
func TestADirClosesUnderItsUsers(t *testing.T) {
	requireNoLeak(t)
	dir := t.TempDir()
	d := openDir(t, dir, seglog.DirOptions{MaxOpenSegments: 4, Log: quick})
	for i := range 8 {
		create(t, d, "topic", int32(i))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				l, err := d.Partition("topic", int32((g+i)%8))
				if err == nil {
					_, err = l.Append(many(1, 1000), nil)
				}
				if err != nil {
					require.ErrorIs(t, err, seglog.ErrClosed)
					return
				}
			}
		})
	}
	for range 200 {
		runtime.Gosched()
	}
	require.NoError(t, d.Close())
	wg.Wait()
	d = openDir(t, dir, manual)
	require.True(t, d.Stats().Clean)
	for i := range 8 {
		require.True(t, stats(t, partition(t, d, "topic", int32(i))).Recovery.Clean)
	}
}
