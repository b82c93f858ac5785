package seglog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// at each turn of the clock everything that is due has happened.
func pass(d time.Duration) {
	time.Sleep(d) // in a bubble, where it takes no time
	synctest.Wait()
}

// aged are records of so long ago.
func aged(n int, ago time.Duration) []seglog.Record {
	return many(n, time.Now().Add(-ago).UnixMilli())
}

func keyed(records []seglog.Record) []seglog.Record {
	for i := range records {
		records[i].Key = []byte("key")
	}
	return records
}

func deletedFiles(t tb, dir string) (n int) {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(dir, "*", "0*.deleted"))
	require.NoError(t, err)
	return len(matches)
}

// Rows 251, 252, 253, 256: what has expired goes after the first delay and then at each
// interval; its files a while later.
func TestRetentionIsAppliedOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		policies := map[string]seglog.CleanupPolicy{
			"delete": seglog.CleanupDelete, "compact": seglog.CleanupCompact, "both": seglog.CleanupCompactDelete}
		opts := seglog.DirOptions{ManualCleaning: true, Topics: map[string]seglog.Options{}}
		for topic, policy := range policies {
			opts.Topics[topic] = seglog.Options{RetentionTime: time.Hour, CleanupPolicy: policy, Sync: seglog.SyncNever}
		}
		d := openDir(t, dir, opts)
		for topic := range policies {
			l := create(t, d, topic, 0)
			appendEach(t, l, keyed(aged(3, time.Hour+time.Minute))...)
			_, err := l.Roll()
			require.NoError(t, err)
			appendEach(t, l, keyed(aged(3, 59*time.Minute))...)
		}
		starts := func() (s [3]int64) {
			for i, topic := range []string{"delete", "compact", "both"} {
				s[i] = partition(t, d, topic, 0).Offsets().Start
			}
			return s
		}
		pass(29 * time.Second)
		require.Equal(t, [3]int64{0, 0, 0}, starts())
		pass(time.Second)
		require.Equal(t, [3]int64{3, 0, 3}, starts())
		require.Equal(t, 6, deletedFiles(t, dir))
		pass(time.Minute - time.Second)
		require.Equal(t, 6, deletedFiles(t, dir))
		pass(time.Second)
		require.Zero(t, deletedFiles(t, dir))

		// The active segment goes too when all of it has expired; the end stays.
		pass(4 * time.Minute)
		require.Equal(t, [3]int64{6, 0, 6}, starts())
		require.Equal(t, int64(6), partition(t, d, "delete", 0).Offsets().End)
		require.NoError(t, d.Close())
		require.Zero(t, deletedFiles(t, filepath.Join(dir, "compact-0")))
	})
}

// A log that nobody has asked for is retained as well.
func TestLogsThatWereNotOpenedAreRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := openDir(t, dir, manual)
		for topic, age := range map[string]time.Duration{"old": 2 * time.Hour, "kept": 2 * time.Hour, "young": time.Minute, "small": 0, "large": 0} {
			l := create(t, d, topic, 0)
			appendEach(t, l, aged(3, age)...)
			_, err := l.Roll()
			require.NoError(t, err)
			appendEach(t, l, aged(3, age)...)
		}
		create(t, d, "empty", 0)
		require.NoError(t, d.Close())
		opts := seglog.DirOptions{Log: seglog.Options{RetentionTime: time.Hour}, Topics: map[string]seglog.Options{
			"kept": {RetentionTime: -1}, "small": {RetentionBytes: 10_000}, "large": {RetentionBytes: 10}}}
		d = openDir(t, dir, opts)
		require.Zero(t, d.Stats().Open)
		pass(2 * time.Minute)
		require.Equal(t, 2, d.Stats().Open, "the others have nothing to remove, and need not be opened for that")
		require.Equal(t, int64(6), partition(t, d, "old", 0).Offsets().Start)
		require.Equal(t, int64(3), partition(t, d, "large", 0).Offsets().Start)
		for _, topic := range []string{"kept", "young", "small", "empty"} {
			require.Equal(t, int64(0), partition(t, d, topic, 0).Offsets().Start)
		}
		require.NoError(t, d.Close())

		// They age all the same.
		d = openDir(t, dir, opts)
		pass(2 * time.Hour)
		require.Equal(t, 1, d.Stats().Open)
		require.Equal(t, int64(6), partition(t, d, "young", 0).Offsets().Start)
	})
}

// Nor does a time in the future keep the records of such a log, if it is not to.
func TestALogThatWasNotOpenedIsRetainedByTheTimeOfItsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, caps := range []bool{false, true} {
		o := manual
		o.Log.RetentionTime, o.Log.RetentionCapsTime, o.Log.TimestampAfterMax = time.Hour, caps, -1
		d := openDir(t, dir, o)
		if !caps {
			l := create(t, d, "a", 0)
			appendEach(t, l, aged(3, -1000*time.Hour)...)
			roll(t, l)
			appendEach(t, l, aged(3, -1000*time.Hour)...)
			require.NoError(t, d.Close())
			age(t, filepath.Join(dir, "a-0"), 2*time.Hour)
			d = openDir(t, dir, o)
		}
		require.NoError(t, d.Maintain(t.Context()))
		want := map[bool]int64{false: 0, true: 6}[caps]
		require.Equal(t, want, partition(t, d, "a", 0).Offsets().Start)
		require.NoError(t, d.Close())
		age(t, filepath.Join(dir, "a-0"), 2*time.Hour)
	}
}

func TestRemovalKeepsToItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := seglog.DirOptions{RemovalBytesPerSecond: 1000, Log: quick}
		opts.Log.FileDeleteDelay = 10 * time.Second
		d := openDir(t, dir, opts)
		l := create(t, d, "topic", 0)
		for range 4 {
			_, err := l.AppendReplicated(batchOfSize(t, 5000, l.Offsets().End, time.Now().UnixMilli()), nil)
			require.NoError(t, err)
			_, err = l.Roll()
			require.NoError(t, err)
		}
		require.NoError(t, l.Sync())
		logs := func() int {
			matches, err := filepath.Glob(filepath.Join(dir, "*-delete", "*.log"))
			require.NoError(t, err)
			return len(matches)
		}
		require.NoError(t, d.DeletePartition("topic", 0))
		require.Equal(t, 5, logs())
		pass(10 * time.Second)
		require.Equal(t, 4, logs())
		for left := 3; left > 0; left-- {
			pass(2500 * time.Millisecond)
			require.Equal(t, left+1, logs())
			pass(2550 * time.Millisecond) // the indexes are not for nothing either
			require.Equal(t, left, logs())
		}
		pass(10 * time.Second)
		require.Empty(t, d.Leftovers())
		require.Zero(t, d.Stats().ToRemove)
	})
}

func TestCheckpointsAreWrittenAtTheirIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := openDir(t, dir, seglog.DirOptions{Log: quick})
		l := create(t, d, "topic", 0)
		appendEach(t, l, aged(5, 0)...)
		require.NoError(t, l.DeleteBefore(2))
		read := func(name string) string { return string(readFile(t, filepath.Join(dir, name+"-offset-checkpoint"))) }
		require.Empty(t, read("replication"))
		pass(5 * time.Second)
		require.Equal(t, "0\n1\ntopic 0 5\n", read("replication"))
		require.Empty(t, read("recovery-point"))
		require.Empty(t, read("log-start"))
		pass(55 * time.Second)
		require.Equal(t, "0\n1\ntopic 0 0\n", read("recovery-point"))
		require.Equal(t, "0\n1\ntopic 0 2\n", read("log-start"))
		require.NoFileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))
	})
}

func TestLogsAreFlushedAtTheirIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := seglog.DirOptions{Topics: map[string]seglog.Options{
			"slow": {Sync: seglog.SyncNever, FlushInterval: time.Second},
			"fast": {Sync: seglog.SyncNever, FlushInterval: 100 * time.Millisecond},
			"none": {Sync: seglog.SyncNever}}}
		d := openDir(t, t.TempDir(), opts)
		unsynced := func() (topics []string) {
			for _, topic := range []string{"slow", "fast", "none"} {
				if at := partition(t, d, topic, 0).Offsets(); at.Durable < at.End {
					topics = append(topics, topic)
				}
			}
			return topics
		}
		for topic := range opts.Topics {
			create(t, d, topic, 0)
		}
		pass(1150 * time.Millisecond) // where a flush of each has just been
		for topic := range opts.Topics {
			appendEach(t, partition(t, d, topic, 0), aged(1, 0)...)
		}
		require.Equal(t, []string{"slow", "fast", "none"}, unsynced())
		pass(100 * time.Millisecond)
		require.Equal(t, []string{"slow", "none"}, unsynced())
		pass(time.Second)
		require.Equal(t, []string{"none"}, unsynced())
		pass(time.Hour)
		require.Equal(t, []string{"none"}, unsynced())
	})
}

// A removal that fails is told of and tried again, and keeps nothing else waiting.
func TestARemovalThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		var told []string
		opts := seglog.DirOptions{FS: disk.FS(), Log: quick, Events: seglog.DirEvents{
			MaintenanceFailed: func(cause error) { told = append(told, cause.Error()) }}}
		opts.Log.FileDeleteDelay = -1
		d := openDir(t, "logs", opts)
		create(t, d, "a", 0)
		create(t, d, "b", 0)
		disk.Fail(logtest.Calls{Kind: logtest.Remove, Name: "*.index"}, syscall.EIO)
		require.NoError(t, d.DeletePartition("a", 0))
		pass(time.Second)
		require.NotEmpty(t, told)
		require.Less(t, len(told), 4, "it is not tried without end")
		require.Contains(t, told[0], "removal: ")
		require.Len(t, d.Leftovers(), 1)
		disk.Heal()
		pass(5 * time.Minute)
		require.Empty(t, d.Leftovers())
		require.Zero(t, d.Stats().ToRemove)
		require.NoError(t, d.Close())
	})
}

// What comes to be in the directory of a deleted partition while it is removed goes too.
func TestADeletedPartitionIsListedAgainUntilItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := seglog.DirOptions{FS: disk.FS(), Log: quick}
		opts.Log.FileDeleteDelay = -1
		d := openDir(t, "logs", opts)
		create(t, d, "a", 0)
		disk.Fail(logtest.Calls{Kind: logtest.Remove, Name: "*.index"}, syscall.EIO)
		require.NoError(t, d.DeletePartition("a", 0))
		pass(time.Second)
		name := d.Leftovers()[0].Name
		require.NoError(t, disk.WriteFile("logs/"+name+"/late", nil))
		disk.Heal()
		pass(10 * time.Minute)
		require.Empty(t, d.Leftovers())
		require.NoError(t, d.Close())
	})
}

// Nothing runs on its own in a Dir that its user maintains.
func TestMaintainDoesAllThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := seglog.DirOptions{ManualMaintenance: true, RemovalBytesPerSecond: 100,
			Log: seglog.Options{Sync: seglog.SyncNever, RetentionTime: time.Hour, FileDeleteDelay: time.Second, FlushInterval: time.Second}}
		d := openDir(t, dir, opts)
		l := create(t, d, "topic", 0)
		appendEach(t, l, aged(5, 2*time.Hour)...)
		pass(time.Hour)
		require.Equal(t, int64(0), l.Offsets().Start)
		require.Empty(t, readFile(t, filepath.Join(dir, "replication-offset-checkpoint")))
		require.NoError(t, d.Maintain(t.Context()))
		require.Equal(t, seglog.Offsets{Start: 5, Durable: 5, End: 5}, l.Offsets())
		require.Equal(t, 3, deletedFiles(t, dir))
		require.Contains(t, string(readFile(t, filepath.Join(dir, "replication-offset-checkpoint"))), "topic 0 5")
		pass(time.Second)
		began := time.Now()
		require.NoError(t, d.Maintain(t.Context()))
		require.Zero(t, deletedFiles(t, dir))
		require.Greater(t, time.Since(began), time.Second, "within the budget")
	})
}

func TestADirThatIsBusyCloses(t *testing.T) {
	requireNoLeak(t)
	dir := t.TempDir()
	opts := seglog.DirOptions{RemovalBytesPerSecond: 1, Log: quick}
	opts.Log.FileDeleteDelay = -1
	d := openDir(t, dir, opts)
	for _, topic := range []string{"a", "b"} {
		appendEach(t, create(t, d, topic, 0), many(100, 1)...)
	}
	require.NoError(t, d.DeletePartition("a", 0))
	require.NoError(t, d.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	left := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-delete") {
			left++
		}
	}
	require.LessOrEqual(t, left, 1)
}

// K023: what fails in one log does not keep the others from being maintained.
func TestOneLogThatFailsDoesNotKeepOthersFromBeingMaintained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		var told []string
		d := openDir(t, "logs", seglog.DirOptions{FS: disk.FS(),
			Log:    seglog.Options{RetentionTime: time.Hour, Sync: seglog.SyncNever},
			Events: seglog.DirEvents{MaintenanceFailed: func(cause error) { told = append(told, cause.Error()) }}})
		for _, topic := range []string{"a", "b", "c"} {
			l := create(t, d, topic, 0)
			appendEach(t, l, aged(3, 2*time.Hour)...)
			_, err := l.Roll()
			require.NoError(t, err)
			appendEach(t, l, aged(3, 0)...)
		}
		disk.Fail(logtest.Calls{Kind: logtest.Rename, Name: "logs/b-0/00000000000000000000.log"}, syscall.EIO)
		pass(time.Minute)
		require.Len(t, told, 1)
		require.Contains(t, told[0], "partition b-0")
		require.Equal(t, int64(3), partition(t, d, "a", 0).Offsets().Start)
		require.Equal(t, int64(3), partition(t, d, "c", 0).Offsets().Start)
		disk.Heal()
		require.NoError(t, d.Close())
	})
}

// A log whose disk has failed is closed without its mark, and so is the directory.
func TestADirWithAFailedLogIsNotMarkedClean(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := manual
	opts.FS = disk.FS()
	d := openDir(t, "logs", opts)
	for _, topic := range []string{"a", "b"} {
		appendEach(t, create(t, d, topic, 0), many(3, 1)...)
	}
	disk.Fail(logtest.Calls{Kind: logtest.Sync, Name: "logs/a-0/*.log"}, syscall.EIO)
	require.ErrorIs(t, partition(t, d, "a", 0).Sync(), seglog.ErrFailed)
	appendEach(t, partition(t, d, "b", 0), one(1, "goes on"))
	disk.Heal()
	d.Close()
	_, err := disk.ReadFile("logs/.kafka_cleanshutdown")
	require.ErrorIs(t, err, os.ErrNotExist)
	d = openDir(t, "logs", opts)
	require.False(t, d.Stats().Clean)
	require.False(t, stats(t, partition(t, d, "a", 0)).Recovery.Clean)
	require.True(t, stats(t, partition(t, d, "b", 0)).Recovery.Clean)
}

// Files that were still to be removed when a Dir was closed go although nobody asks for
// their log.
func TestFilesLeftToBeRemovedGoAfterTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := seglog.DirOptions{Log: seglog.Options{RetentionTime: time.Hour}}
		d := openDir(t, dir, opts)
		l := create(t, d, "topic", 0)
		appendEach(t, l, aged(3, 2*time.Hour)...)
		_, err := l.Roll()
		require.NoError(t, err)
		appendEach(t, l, aged(3, 0)...)
		pass(45 * time.Second)
		require.Equal(t, 3, deletedFiles(t, dir))
		require.NoError(t, d.Close())
		require.Equal(t, 3, deletedFiles(t, dir))
		openDir(t, dir, opts)
		pass(45 * time.Second)
		require.Zero(t, deletedFiles(t, dir))
	})
}

// A reader in a segment that retention removes, whose files stay for a while or not, gets
// to the end of it or is told that it was removed; and Close waits neither for it nor for
// the files.
func TestAReaderOfASegmentThatIsRemovedDoesNotKeepADirFromClosing(t *testing.T) {
	for _, delay := range []time.Duration{time.Minute, -1} {
		t.Run(delay.String(), func(t *testing.T) {
			requireNoLeak(t)
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				opts := seglog.DirOptions{Log: seglog.Options{Sync: seglog.SyncNever, RetentionTime: time.Hour, FileDeleteDelay: delay}}
				d := openDir(t, dir, opts)
				l := create(t, d, "topic", 0)
				appendEach(t, l, aged(300, 2*time.Hour)...)
				rollLog(t, l)
				appendEach(t, l, aged(3, 0)...)
				next := int64(0)
				for r, err := range l.Records(t.Context(), 0, &seglog.IterOptions{Follow: true}) {
					if err != nil {
						var out *seglog.OffsetError
						if !errors.Is(err, seglog.ErrClosed) {
							require.ErrorAs(t, err, &out)
							require.Equal(t, seglog.OffsetError{Offset: next, Start: 300, End: 303}, *out)
						}
						break
					}
					require.Equal(t, next, r.Offset)
					switch next++; next {
					case 3:
						gone, err := l.ApplyRetention(t.Context())
						require.NoError(t, err)
						require.Equal(t, 1, gone.Segments)
						if delay > 0 {
							require.Equal(t, 3, deletedFiles(t, dir))
						}
					case 303:
						require.NoError(t, d.Close())
					}
				}
				require.GreaterOrEqual(t, next, int64(3))
				began := time.Now()
				require.NoError(t, d.Close())
				require.Less(t, time.Since(began), time.Second, "the clock stands still unless someone waits for it")

				d = openDir(t, dir, opts)
				require.Equal(t, span(300, 302), offsetsOf(readAll(t, partition(t, d, "topic", 0), 300)))
				pass(2 * time.Minute)
				require.Zero(t, deletedFiles(t, dir))
				require.NoError(t, d.Close())
			})
		})
	}
}
