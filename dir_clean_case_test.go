package seglog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// compactedDir are options of a directory in which everything is compacted and nothing
// happens on its own.
var compactedDir = seglog.DirOptions{ManualMaintenance: true, Log: compacted}

// onItsOwn are the same, with a Dir that does what it does.
func onItsOwn() seglog.DirOptions {
	o := seglog.DirOptions{Log: compacted}
	o.Log.SegmentAge, o.Log.RetentionTime = 365*24*time.Hour, -1
	return o
}

// dirty appends n segments in which keys are superseded.
func dirty(t tb, l *seglog.Log, n int) {
	t.Helper()
	for i := range n {
		put(t, l, "a", fmt.Sprint("value ", i))
		put(t, l, fmt.Sprint("b", i), "value")
		rollLog(t, l)
	}
}

func cleanedLines(t tb, dir string) string {
	t.Helper()
	return string(readFile(t, filepath.Join(dir, "cleaner-offset-checkpoint")))
}

func firstDirty(t tb, l *seglog.Log) int64 {
	t.Helper()
	d, err := l.Dirtiness()
	require.NoError(t, err)
	return d.FirstDirty
}

// What is due is compacted after the first delay, the dirtiest first, and then again
// whenever it is due after the backoff; what is not compacted by its policy, or is not
// dirty enough, is not.
func TestADirCompactsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var mu sync.Mutex
		var list []string
		cleaned := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return list
		}
		opts := onItsOwn()
		opts.Topics = map[string]seglog.Options{"plain": {Sync: seglog.SyncNever, RetentionTime: -1}}
		opts.Events.Cleaned = func(topic string, n int32, r seglog.CompactResult) {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, fmt.Sprintf("%s-%d to %d", topic, n, r.FirstDirty))
		}
		d := openDir(t, dir, opts)
		for i, topic := range []string{"some", "more"} {
			l := create(t, d, topic, 1)
			dirty(t, l, 1)
			compact(t, l, nil)
			dirty(t, l, 3+2*i)
		}
		little := create(t, d, "little", 0)
		dirty(t, little, 9)
		compact(t, little, nil)
		dirty(t, little, 1)
		dirty(t, create(t, d, "plain", 0), 9)
		pass(29 * time.Second)
		require.Empty(t, cleaned())
		pass(2 * time.Second)
		require.Equal(t, []string{"more-1 to 12", "some-1 to 8"}, cleaned())
		require.Equal(t, "0\n3\nsome 1 8\nmore 1 12\nlittle 0 18\n", cleanedLines(t, dir))
		require.Len(t, readAll(t, partition(t, d, "plain", 0), 0), 18)
		s := d.CleanerStats()
		require.EqualValues(t, 2, s.Runs)
		require.Empty(t, s.Uncleanable)
		require.InDelta(t, 0.1, s.DirtiestRatio, 0.09, "that of the one that is not due")
		require.WithinDuration(t, time.Now(), s.Cleaned, 2*time.Second)

		dirty(t, partition(t, d, "some", 1), 7)
		pass(15 * time.Second)
		require.Equal(t, []string{"some-1 to 22"}, cleaned()[2:])
		pass(time.Hour)
		require.Len(t, cleaned(), 3)
		require.WithinDuration(t, time.Now(), d.CleanerStats().Looked, 15*time.Second)
		require.NoError(t, d.Close())
	})
}

func TestADirCompactsNothingIfItIsToldNotTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, err := seglog.DirOptionsFromProperties(onItsOwn(), map[string]string{"log.cleaner.enable": "FALSE"})
		require.NoError(t, err)
		d := openDir(t, t.TempDir(), opts)
		l := create(t, d, "topic", 0)
		dirty(t, l, 5)
		pass(time.Hour)
		require.NoError(t, d.Maintain(t.Context()))
		require.Zero(t, firstDirty(t, l))
		require.NoError(t, d.Clean(t.Context()), "but when it is asked to")
		require.EqualValues(t, 10, firstDirty(t, l))
		require.NoError(t, d.Close())
	})
}

// max.compaction.lag.ms: a log that is hardly dirty is due when it has been for long; and
// min.compaction.lag.ms: one that is very dirty is not, as long as it is young. It is
// all the same for a log that was not opened, which is left alone until it is due.
func TestLagsDecideWhenALogIsCompacted(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("opened %v", open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				opts := onItsOwn()
				late, early := opts.Log, opts.Log
				late.MinCompactionLag = time.Hour
				early.MaxCompactionLag, early.MinCleanableDirtyRatio = time.Hour, 0.99
				opts.Topics = map[string]seglog.Options{"late": late, "early": early}
				d := openDir(t, dir, opts)
				for topic := range opts.Topics {
					l := create(t, d, topic, 0)
					for i := range 3 {
						_, err := l.Append([]seglog.Record{{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte{byte(i)}}}, nil)
						require.NoError(t, err)
						rollLog(t, l)
						if i == 0 && topic == "early" {
							compact(t, l, nil)
						}
					}
				}
				if !open {
					require.NoError(t, d.Close())
					d = openDir(t, dir, opts)
				}
				cleaned := func() (n int64) { return d.CleanerStats().Runs }
				pass(59 * time.Minute)
				require.Zero(t, cleaned())
				if !open {
					require.Zero(t, d.Stats().Open)
				}
				pass(2 * time.Minute)
				require.EqualValues(t, 2, cleaned())
				require.NoError(t, d.Close())
			})
		})
	}
}

// A log that nobody has asked for is opened if it is due, and only then.
func TestLogsThatWereNotOpenedAreCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		at := compactedDir
		at.Log.FileDeleteDelay, at.ManualCleaning = -1, true
		d := openDir(t, dir, at)
		for _, topic := range []string{"clean", "due", "plain"} {
			l := create(t, d, topic, 0)
			dirty(t, l, 5)
			if topic == "clean" {
				compact(t, l, nil)
			}
		}
		create(t, d, "empty", 0)
		require.NoError(t, d.Maintain(t.Context())) // no file is left to be removed
		require.NoError(t, d.Close())
		opts := onItsOwn()
		opts.Topics = map[string]seglog.Options{"plain": {RetentionTime: -1}}
		d = openDir(t, dir, opts)
		pass(time.Hour)
		open := []string{}
		for _, p := range d.Partitions() {
			if p.Open {
				open = append(open, p.Name)
			}
		}
		require.Equal(t, []string{"due-0"}, open)
		require.Equal(t, "0\n2\nclean 0 10\ndue 0 10\n", cleanedLines(t, dir))
		require.NoError(t, d.Close())
		require.FileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))
	})
}

// What the files of a log that is not open do not tell, opening it does: where it ends, if
// the checkpoint is above, and what a swap has left that was cut short. And when records
// were written is found out when somebody asks for it.
func TestALogThatWasNotOpenedIsOpenedInDoubt(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(t *testing.T, dir string)
		alter  bool
		want   int64 // open logs
	}{
		{"nothing is due", func(*testing.T, string) {}, false, 0},
		{"the checkpoint is above the end", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "cleaner-offset-checkpoint"), []byte("0\n1\ntopic 0 200\n"))
			removeMark(t, filepath.Join(dir, "topic-0"))
		}, false, 1},
		{"a swap was cut short", func(t *testing.T, dir string) {
			writeFile(t, segmentFile(filepath.Join(dir, "topic-0"), 0, ".log.cleaned"), nil)
		}, false, 1},
		{"the topic is given a lag", func(*testing.T, string) {}, true, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := compactedDir
			opts.Log.MinCleanableDirtyRatio = 0.9
			d := openDir(t, dir, opts)
			l := create(t, d, "topic", 0)
			dirty(t, l, 4)
			compact(t, l, nil)
			dirty(t, l, 1)
			require.NoError(t, d.Close())
			row.change(t, dir)
			d = openDir(t, dir, opts)
			require.NoError(t, d.Clean(t.Context()))
			if row.alter {
				require.Zero(t, d.Stats().Open)
				late := opts.Log
				late.MaxCompactionLag = time.Hour
				require.NoError(t, d.SetTopicOptions("topic", late))
				require.NoError(t, d.Clean(t.Context()))
			}
			require.EqualValues(t, row.want, d.Stats().Open)
			require.NoFileExists(t, segmentFile(filepath.Join(dir, "topic-0"), 0, ".log.cleaned"))
			require.NoError(t, d.Close())
		})
	}
}

// K002: a log that cannot be compacted is set aside, told of once, and costs the others
// nothing. A disk that was sick is tried again; damage is not.
func TestADirSetsALogAsideThatCannotBeCompacted_K002(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := onItsOwn()
		opts.FS = disk.FS()
		opts.ManualMaintenance = true
		d := openDir(t, "logs", opts)
		for _, topic := range []string{"bad", "good", "sick"} {
			dirty(t, create(t, d, topic, 0), 3)
		}
		require.NoError(t, d.Close())
		name := "logs/bad-0/00000000000000000000.log"
		data, err := disk.ReadFile(name)
		require.NoError(t, err)
		data[70] ^= 1
		require.NoError(t, disk.WriteFile(name, data))
		disk.Fail(logtest.Calls{Kind: logtest.OpenFile, Name: "logs/sick-0/*.cleaned"}, syscall.EIO)

		var told []string
		opts.ManualMaintenance = false
		opts.Events.Uncleanable = func(topic string, n int32, cause error) {
			told = append(told, fmt.Sprintf("%s-%d", topic, n))
			require.Error(t, cause)
		}
		d = openDir(t, "logs", opts)
		pass(time.Hour)
		require.ElementsMatch(t, []string{"bad-0", "sick-0"}, told)
		require.EqualValues(t, 6, firstDirty(t, partition(t, d, "good", 0)))
		s := d.CleanerStats()
		require.Len(t, s.Uncleanable, 2)
		require.ErrorIs(t, s.Uncleanable["sick-0"], syscall.EIO)
		var damage *seglog.CorruptionError
		require.ErrorAs(t, s.Uncleanable["bad-0"], &damage)
		require.EqualValues(t, 0, damage.FirstOffset)
		require.Greater(t, s.Failed, int64(5), "it was tried again")
		after, err := disk.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, data, after)

		disk.Heal()
		pass(10 * time.Minute)
		require.EqualValues(t, 6, firstDirty(t, partition(t, d, "sick", 0)))
		s = d.CleanerStats()
		require.Contains(t, s.Uncleanable, "bad-0")
		require.Len(t, s.Uncleanable, 1)
		pass(time.Hour)
		require.Equal(t, s.Failed, d.CleanerStats().Failed, "damage does not go away")
		// What is deleted is no longer in the way.
		require.NoError(t, d.DeletePartition("bad", 0))
		require.Empty(t, d.CleanerStats().Uncleanable)
		require.NoError(t, d.Close())
	})
}

// Deleting, truncating and closing do not wait for a compaction to come to its end.
func TestARoundOfADirIsInterrupted(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(d *seglog.Dir, l *seglog.Log) error
	}{
		{"by deleting the partition", func(d *seglog.Dir, _ *seglog.Log) error { return d.DeletePartition("topic", 0) }},
		{"by truncating it", func(_ *seglog.Dir, l *seglog.Log) error { return l.TruncateTo(3) }},
		{"by truncating it fully", func(_ *seglog.Dir, l *seglog.Log) error { return l.TruncateFullyAndStartAt(3) }},
		{"by deleting records", func(_ *seglog.Dir, l *seglog.Log) error { return l.DeleteBefore(3) }},
		{"by closing the log", func(_ *seglog.Dir, l *seglog.Log) error { return l.Close() }},
		{"by pausing it", func(_ *seglog.Dir, l *seglog.Log) error { l.PauseCompaction(); return nil }},
		{"by closing the directory", func(d *seglog.Dir, _ *seglog.Log) error { return d.Close() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := compactedDir
				opts.Cleaner.BytesPerSecond = 1 // it would take an hour
				d := openDir(t, t.TempDir(), opts)
				l := create(t, d, "topic", 0)
				dirty(t, l, 30)
				result, began := make(chan error, 1), time.Now()
				go func() { result <- d.Clean(t.Context()) }()
				synctest.Wait()
				require.Empty(t, result, "it waits for the bytes that it may read")
				require.NoError(t, row.do(d, l))
				err := <-result
				require.Less(t, time.Since(began), time.Minute)
				if row.name == "by closing the directory" {
					require.ErrorIs(t, err, seglog.ErrClosed)
					return
				}
				require.NoError(t, err)
				require.Empty(t, d.CleanerStats().Uncleanable)
				require.NoError(t, d.Close())
			})
		})
	}
}

// Row 355: a round that is called off when its last segment has just taken its place
// leaves what it has done, and neither the log nor the checkpoint says that it is clean.
// It is not set aside for that, and the next round moves both.
func TestARoundThatIsCalledOffAtItsEndMovesNoCheckpoint_355(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(d *seglog.Dir, cancel func()) error
		back func(d *seglog.Dir) error
	}{
		{"the topic is no longer compacted", func(d *seglog.Dir, _ func()) error { return d.SetTopicOptions("topic", quick) },
			func(d *seglog.Dir) error { return d.SetTopicOptions("topic", compacted) }},
		{"by its caller", func(_ *seglog.Dir, cancel func()) error { cancel(); return nil }, func(*seglog.Dir) error { return nil }},
		{"not at all", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			opts := compactedDir
			opts.FS = disk.FS()
			opts.Events.Uncleanable = func(topic string, _ int32, cause error) { t.Errorf("%s is set aside: %v", topic, cause) }
			d := openDir(t, "logs", opts)
			l := create(t, d, "topic", 0)
			dirty(t, l, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			called := 0
			disk.OnOp(func(op logtest.Op) {
				if op.Kind == logtest.Rename && strings.HasSuffix(op.Name, ".log.swap") && row.do != nil {
					called++
					require.NoError(t, row.do(d, cancel))
				}
			})
			err := d.Clean(ctx)
			disk.OnOp(nil)
			checkpoint := func() string {
				data, err := disk.ReadFile("logs/cleaner-offset-checkpoint")
				require.NoError(t, err)
				return string(data)
			}
			if row.do != nil {
				require.Equal(t, 1, called)
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
				require.Len(t, readAll(t, l, 0), 4, "it was compacted")
				require.Empty(t, checkpoint())
				require.Zero(t, firstDirty(t, l))
				require.Zero(t, d.CleanerStats().Runs+d.CleanerStats().Failed)
				require.Empty(t, d.CleanerStats().Uncleanable)
				require.NoError(t, row.back(d))
				require.NoError(t, d.Clean(t.Context()))
			}
			require.Equal(t, "0\n1\ntopic 0 6\n", checkpoint())
			require.EqualValues(t, 6, firstDirty(t, l))
			require.NoError(t, d.Close())
		})
	}
}

// A directory goes on where it was: after a clean stop with the checkpoint, as a broker
// would; after an unclean one with the lower of it and what the log says itself.
func TestCompactionGoesOnWhereItWas(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, compactedDir)
	l := create(t, d, "topic", 0)
	dirty(t, l, 5)
	compact(t, l, nil)
	require.Equal(t, "0\n1\ntopic 0 10\n", cleanedLines(t, dir), "at once")
	dirty(t, l, 1)

	// Closed by its user and opened again by the same Dir.
	require.NoError(t, l.Close())
	l = partition(t, d, "topic", 0)
	require.EqualValues(t, 10, firstDirty(t, l))

	// Killed.
	killed := killDir(t, d)
	require.EqualValues(t, 10, firstDirty(t, partition(t, openDir(t, killed, compactedDir), "topic", 0)))

	// A checkpoint that a broker has raised or lowered counts after a clean stop.
	require.NoError(t, d.Close())
	for _, at := range []int64{12, 7} {
		path := filepath.Join(dir, "cleaner-offset-checkpoint")
		writeFile(t, path, fmt.Appendf(nil, "0\n1\ntopic 0 %d\n", at))
		removeMark(t, filepath.Join(dir, "topic-0"))
		d = openDir(t, dir, compactedDir)
		require.EqualValues(t, at, firstDirty(t, partition(t, d, "topic", 0)))
		require.NoError(t, d.Close())
		require.Equal(t, fmt.Sprintf("0\n1\ntopic 0 %d\n", at), cleanedLines(t, dir))
	}
	// After an unclean one only the lower.
	for _, row := range []struct{ checkpoint, want int64 }{{12, 7}, {5, 5}, {0, 0}} {
		writeFile(t, filepath.Join(dir, "cleaner-offset-checkpoint"), fmt.Appendf(nil, "0\n1\ntopic 0 %d\n", row.checkpoint))
		require.NoError(t, os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
		removeMark(t, filepath.Join(dir, "topic-0"))
		d = openDir(t, dir, compactedDir)
		require.EqualValues(t, row.want, firstDirty(t, partition(t, d, "topic", 0)))
		require.NoError(t, d.Close())
		if row.want == 5 {
			writeFile(t, filepath.Join(dir, "cleaner-offset-checkpoint"), []byte("0\n1\ntopic 0 7\n"))
		}
	}
}

// What real brokers have compacted is known, and so is by them what we have.
func TestADirectoryOfABrokerIsCompactedFromWhereItWas(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	want := map[string]int64{"compacted": 59, "compacted-purged": 50, "compacted-zstd": 51, "compacted-txn": 76}
	opts := seglog.DirOptions{ManualMaintenance: true, Topics: map[string]seglog.Options{}}
	for topic := range want {
		opts.Topics[topic] = compacted
	}
	d := openDir(t, dir, opts)
	require.NoError(t, d.Clean(t.Context()))
	require.Zero(t, d.Stats().Open, "nothing is due")
	for topic, offset := range want {
		require.Equal(t, offset, firstDirty(t, partition(t, d, topic, 0)), topic)
	}
	dirty(t, partition(t, d, "compacted", 0), 40)
	end := partition(t, d, "compacted", 0).Offsets().End
	require.NoError(t, d.Clean(t.Context()))
	require.NoError(t, d.Close())
	require.Equal(t, fmt.Sprintf("0\n4\ncompacted-txn 0 76\ncompacted-zstd 0 51\ncompacted-purged 0 50\ncompacted 0 %d\n", end), cleanedLines(t, dir))
	for topic := range want {
		requireSound(t, filepath.Join(dir, topic+"-0"))
	}
}

// Rows 343, 344, 350, K016: a checkpoint outside of the log is reset to the log start, on
// disk, once; also that of a log that was not opened.
func TestACheckpointOutsideOfTheLogIsReset_K016(t *testing.T) {
	for _, row := range []struct {
		name       string
		checkpoint string
		want       int64 // of a log from 4 to 12
	}{
		{"343: above the log end", "200", 4}, {"344: below the log start", "1", 4},
		{"350: it holds", "7", 7}, {"350: at the log end", "12", 12}, {"350: at the log start", "4", 4},
		{"K016: negative", "-1", 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := compactedDir
			opts.Log.MinCleanableDirtyRatio = 1 // nothing is ever due
			d := openDir(t, dir, opts)
			l := create(t, d, "topic", 0)
			dirty(t, l, 6)
			require.NoError(t, l.DeleteBefore(4))
			require.NoError(t, d.Close())
			writeFile(t, filepath.Join(dir, "cleaner-offset-checkpoint"), []byte("0\n1\ntopic 0 "+row.checkpoint+"\n"))
			removeMark(t, filepath.Join(dir, "topic-0"))
			var text bytes.Buffer
			opts.Logger = slog.New(slog.NewTextHandler(&text, nil))
			d = openDir(t, dir, opts)
			partition(t, d, "topic", 0)
			for range 3 {
				require.NoError(t, d.Clean(t.Context()))
			}
			require.Equal(t, row.want, firstDirty(t, partition(t, d, "topic", 0)))
			switch row.checkpoint {
			case "200", "1":
				require.Equal(t, fmt.Sprintf("0\n1\ntopic 0 %d\n", row.want), cleanedLines(t, dir))
				require.Equal(t, 1, strings.Count(text.String(), "first dirty offset"))
			default:
				require.NotContains(t, text.String(), "first dirty offset")
			}
		})
	}
}

// Row 353: truncation lowers the checkpoint, before it cuts anything.
func TestTruncationLowersTheCleanerCheckpoint_353(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := compactedDir
	opts.FS = disk.FS()
	d := openDir(t, "logs", opts)
	l := create(t, d, "topic", 0)
	dirty(t, l, 5)
	other := create(t, d, "other", 0)
	dirty(t, other, 5)
	require.NoError(t, d.Clean(t.Context()))
	line := func(disk *logtest.Disk) string {
		data, err := disk.ReadFile("logs/cleaner-offset-checkpoint")
		if errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, "0\n2\nother 0 10\ntopic 0 10\n", line(disk))
	put(t, l, "k", "v")
	require.NoError(t, l.TruncateTo(10))
	require.Equal(t, "0\n2\nother 0 10\ntopic 0 10\n", line(disk), "it is not above")
	logs := func(disk *logtest.Disk) (n int) {
		names, err := disk.ReadDir("logs/topic-0")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				n++
			}
		}
		return n
	}
	before := logs(disk)
	disk.OnCrash(4, 1, nil, func(c logtest.Crash) {
		if logs(c.Disk) < before {
			require.Equal(t, "0\n2\nother 0 10\ntopic 0 1\n", line(c.Disk), c.String())
		}
	})
	require.NoError(t, l.TruncateTo(1))
	disk.OnOp(nil)
	require.Equal(t, "0\n2\nother 0 10\ntopic 0 1\n", line(disk))
	require.NoError(t, other.TruncateFullyAndStartAt(100))
	require.NoError(t, d.DeletePartition("topic", 0))
	require.Equal(t, "0\n1\nother 0 0\n", line(disk), "lines of partitions that are deleted go")
	require.NoError(t, d.Close())
}

// A tombstone must not go before what it deletes: after a truncation below what was
// clean, what is appended there is dirty, in whatever way the log is opened next.
func TestWhatIsAppendedAfterATruncationIsDirty(t *testing.T) {
	for _, how := range []string{"closed", "killed"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			d := openDir(t, dir, compactedDir)
			l := create(t, d, "topic", 0)
			dirty(t, l, 5)
			require.NoError(t, d.Clean(t.Context()))
			require.NoError(t, l.TruncateTo(1))
			dirty(t, l, 10)
			require.NoError(t, l.Sync())
			if how == "closed" {
				require.NoError(t, d.Close())
			} else {
				dir = killDir(t, d)
			}
			d = openDir(t, dir, compactedDir)
			require.LessOrEqual(t, firstDirty(t, partition(t, d, "topic", 0)), int64(1))
		})
	}
}

// A cleaner checkpoint that cannot be written costs a log nothing.
func TestACleanerCheckpointThatCannotBeWrittenIsTold(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := compactedDir
	opts.FS = disk.FS()
	var told []error
	opts.Events.MaintenanceFailed = func(cause error) { told = append(told, cause) }
	d := openDir(t, "logs", opts)
	l := create(t, d, "topic", 0)
	dirty(t, l, 3)
	disk.Fail(logtest.Calls{Kind: logtest.Rename, Name: "logs/cleaner-offset-checkpoint*"}, syscall.EIO)
	require.NoError(t, d.Clean(t.Context()))
	require.NotEmpty(t, told)
	require.ErrorIs(t, told[0], syscall.EIO)
	require.EqualValues(t, 6, firstDirty(t, l))
	disk.Heal()
	require.NoError(t, d.Maintain(t.Context()))
	data, err := disk.ReadFile("logs/cleaner-offset-checkpoint")
	require.NoError(t, err)
	require.Equal(t, "0\n1\ntopic 0 6\n", string(data))
	require.NoError(t, d.Close())
}

// Many logs are appended to, read and deleted while the directory compacts them. Run it
// with the race detector.
func TestADirCompactsBesideItsUsers(t *testing.T) {
	requireNoLeak(t)
	dir := t.TempDir()
	opts := onItsOwn()
	opts.Log.SegmentBytes, opts.Log.MinCleanableDirtyRatio = 2000, -1
	opts.Log.FileDeleteDelay = -1
	opts.InitialTaskDelay, opts.CleanerBackoff = time.Millisecond, time.Millisecond
	opts.MaxOpenSegments = 20
	d := openDir(t, dir, opts)
	const topics, rounds, keys = 4, 150, 7
	var users sync.WaitGroup
	for i := range topics {
		l := create(t, d, fmt.Sprint("topic", i), 0)
		users.Go(func() {
			for n := range rounds {
				if _, err := l.Append([]seglog.Record{kv(fmt.Sprint("k", n%keys), fmt.Sprint("value ", n))}, nil); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				switch {
				case n%40 == 39 && i == 0:
					if err := l.TruncateTo(l.Offsets().End - 1); err != nil {
						t.Errorf("truncate: %v", err)
					}
				case n%10 == 9:
					last := int64(-1)
					for r, err := range l.Records(context.Background(), 0, nil) {
						if err != nil || r.Offset <= last {
							t.Errorf("offset %d after %d: %v", r.Offset, last, err)
							return
						}
						last = r.Offset
					}
				}
			}
		})
		users.Go(func() {
			name := fmt.Sprint("short", i)
			for range 5 {
				s, err := d.CreatePartition(name, 0, nil)
				for n := 0; err == nil && n < 30; n++ {
					_, err = s.Append([]seglog.Record{kv("k", fmt.Sprintf("value %0*d", 100, n))}, nil)
				}
				if err == nil {
					err = d.DeletePartition(name, 0)
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	users.Wait()
	require.NoError(t, d.Clean(t.Context()))
	require.Empty(t, d.CleanerStats().Uncleanable)
	require.NotZero(t, d.CleanerStats().Runs)
	for i := range topics {
		l := partition(t, d, fmt.Sprint("topic", i), 0)
		rollLog(t, l)
		require.NoError(t, d.Clean(t.Context()))
		want := map[string]string{}
		for n := range rounds {
			if i > 0 || n%40 != 39 {
				want[fmt.Sprint("k", n%keys)] = fmt.Sprint("value ", n)
			}
		}
		got := map[string]string{}
		for _, r := range readAll(t, l, 0) {
			require.NotContains(t, got, string(r.Key))
			got[string(r.Key)] = string(r.Value)
		}
		if i == 0 {
			continue // what truncation took may have superseded what was there before
		}
		require.Equal(t, want, got)
	}
	require.NoError(t, d.Close())
	for i := range topics {
		requireSound(t, filepath.Join(dir, fmt.Sprintf("topic%d-0", i)))
	}
}

// What cannot be noted as durable cannot be cleaned yet, and is not tried without end.
func TestALogWhoseStateCannotBeWrittenIsNotCleanedOverAndOver(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := compactedDir
	opts.FS = disk.FS()
	d := openDir(t, "logs", opts)
	l := create(t, d, "topic", 0)
	disk.Fail(logtest.Calls{Name: "logs/topic-0/seglog.state*"}, syscall.EIO)
	dirty(t, l, 3)
	require.NoError(t, d.Clean(t.Context()))
	require.Zero(t, d.CleanerStats().Runs)
	require.Zero(t, firstDirty(t, l))
	disk.Heal()
	require.NoError(t, l.Close())
	l = partition(t, d, "topic", 0)
	require.NoError(t, d.Clean(t.Context()))
	require.EqualValues(t, 6, firstDirty(t, l))
	require.NoError(t, d.Close())
}
