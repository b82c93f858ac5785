package seglog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/logtest"
)

// killDir returns a copy of a directory as it is while it is open.
func killDir(t tb, d *seglog.Dir) string {
	t.Helper()
	to, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(to) })
	copyTree(t, d.Path(), to)
	return to
}

// Row 161, K044: the marker is good for one load, and a crash at any time after makes
// the next one unclean.
func TestTheCleanMarkerIsGoodForOneLoad(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	d := openDir(t, dir, manual)
	require.True(t, d.Stats().Clean)
	killed := killDir(t, d)
	edit(t, segmentFile(filepath.Join(killed, "none-0"), 0, ".log"), func(b []byte) []byte { return append(b, "torn"...) })
	d = openDir(t, killed, manual)
	require.False(t, d.Stats().Clean)
	l := partition(t, d, "none", 0)
	require.Len(t, stats(t, l).Recovery.Cut, 1)
	require.Equal(t, int64(60), l.Offsets().End)

	// Not every log was looked at: neither is the next load a clean one.
	require.NoError(t, d.Close())
	require.NoFileExists(t, filepath.Join(killed, ".kafka_cleanshutdown"))
	d = openDir(t, killed, manual)
	require.False(t, d.Stats().Clean)
	require.NoError(t, d.Load(t.Context(), nil))
	require.NoError(t, d.Close())
	require.FileExists(t, filepath.Join(killed, ".kafka_cleanshutdown"))
}

// Row 170: where a broker was shut down properly its log is as its checkpoint says; if it
// is not, it is looked at.
func TestALogThatIsNotAsTheBrokerLeftItIsRecovered(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	log := segmentFile(filepath.Join(dir, "none-0"), 0, ".log")
	whole := readFile(t, log)
	writeFile(t, log, whole[:len(whole)-1])
	d := openDir(t, dir, manual)
	l := partition(t, d, "none", 0)
	require.False(t, stats(t, l).Recovery.Clean)
	require.Less(t, l.Offsets().End, int64(60))
	require.True(t, stats(t, partition(t, d, "lz4", 0)).Recovery.Clean)
}

func TestLogsAreRecoveredInTheBackgroundAfterACrash(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, manual)
	for i := range 20 {
		appendEach(t, create(t, d, "topic", int32(i)), many(5, 1)...)
	}
	killed := killDir(t, d)
	for i := range 20 {
		edit(t, segmentFile(filepath.Join(killed, fmt.Sprint("topic-", i)), 0, ".log"), func(b []byte) []byte { return append(b, 0, 1, 2) })
	}
	synctest.Test(t, func(t *testing.T) {
		opts := manual
		opts.ManualMaintenance = false
		d := openDir(t, killed, opts)
		first := partition(t, d, "topic", 19) // who asks does not wait for the others
		require.Equal(t, int64(5), first.Offsets().End)
		synctest.Wait()
		require.Equal(t, 20, d.Stats().Open)
		require.NoError(t, d.Close())
	})
	require.FileExists(t, filepath.Join(killed, ".kafka_cleanshutdown"))
	for i := range 20 {
		requireSound(t, filepath.Join(killed, fmt.Sprint("topic-", i)))
	}
}

// K053: what a damaged checkpoint still says counts, and the rest is unknown; it is
// written anew.
func TestDamagedCheckpointsCostOnlyWhatTheySaid(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "text": "abc", "one bad line": "0\n3\nnone 0 60\nother 1 x\nthird 2 30\n", "zeros": "\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			dir := brokerDir(t, "4.3.1")
			for _, file := range []string{"recovery-point", "log-start", "cleaner", "replication"} {
				writeFile(t, filepath.Join(dir, file+"-offset-checkpoint"), []byte(content))
			}
			d := openDir(t, dir, manual)
			require.Equal(t, name != "empty", len(d.Stats().Findings) > 0)
			require.NoError(t, d.Load(t.Context(), nil))
			require.Zero(t, d.Stats().SetAside)
			for _, p := range d.Partitions() {
				offsetsFrom(t, partition(t, d, p.Topic, 0), partition(t, d, p.Topic, 0).Offsets().Start)
			}
			require.Equal(t, strings.HasPrefix(name, "one"), stats(t, partition(t, d, "none", 0)).Recovery.Clean)
			require.NoError(t, d.Close())
			after := rootFiles(t, dir)
			require.Contains(t, after["recovery-point-offset-checkpoint"], "none 0 60\n")
			require.NotContains(t, after["recovery-point-offset-checkpoint"], "third")
			require.True(t, strings.HasPrefix(after["recovery-point-offset-checkpoint"], "0\n27\n"))
			d = openDir(t, dir, manual)
			require.Empty(t, d.Stats().Findings)
		})
	}
}

// A stale line must not pass for one of a log that has its name.
func TestAnEarlierLogsCheckpointsAreNotALaterOnes(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"recovery-point", "log-start", "cleaner", "replication"} {
		writeFile(t, filepath.Join(dir, file+"-offset-checkpoint"), []byte("0\n1\norders 0 500\n"))
	}
	d := openDir(t, dir, manual)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(3, 1)...)
	require.NoError(t, l.Sync())
	killed := killDir(t, d)
	for file, content := range rootFiles(t, killed) {
		require.NotContains(t, content, "orders 0 500", "%s, by which a broker goes", file)
	}
	d = openDir(t, killed, manual)
	require.Len(t, readAll(t, partition(t, d, "orders", 0), 0), 3)
}

// A log start that a truncation took back does not hide what is appended later.
func TestATruncationLowersTheCheckpointsFirst(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(100, 1)...)
	require.NoError(t, l.DeleteBefore(60))
	roll(t, l)
	waitForRecoveryPoint(t, l, 100)
	require.NoError(t, d.Maintain(t.Context()))
	require.Contains(t, rootFiles(t, d.Path())["log-start-offset-checkpoint"], "orders 0 60\n")
	require.Contains(t, rootFiles(t, d.Path())["recovery-point-offset-checkpoint"], "orders 0 100\n")
	require.NoError(t, l.TruncateTo(30))
	appendEach(t, l, many(10, 1)...)
	require.NoError(t, l.Sync())
	killed := killDir(t, d)
	// A broker goes by them, and would remove a log that ends below its start.
	require.NotContains(t, rootFiles(t, killed)["log-start-offset-checkpoint"], "orders 0 60\n")
	require.Regexp(t, `orders 0 ([12]?\d|30)\n`, rootFiles(t, killed)["recovery-point-offset-checkpoint"])
	d = openDir(t, killed, manual)
	l = partition(t, d, "orders", 0)
	require.Equal(t, int64(30), l.Offsets().Start)
	require.Equal(t, span(30, 39), offsetsOf(readAll(t, l, 30)))
}

// K058: a log whose segments are gone goes on above what is known of it.
func TestALogWithoutItsFilesGoesOnWhereItWas(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	for _, topic := range []string{"none", "deleted"} {
		files, err := filepath.Glob(filepath.Join(dir, topic+"-0", "0*"))
		require.NoError(t, err)
		for _, f := range files {
			require.NoError(t, os.Remove(f))
		}
	}
	d := openDir(t, dir, manual)
	for topic, end := range map[string]int64{"none": 60, "deleted": 120} {
		l := partition(t, d, topic, 0)
		require.Equal(t, end, l.Offsets().End, topic)
		require.True(t, stats(t, l).Recovery.Restarted)
	}
}

// Row 278: that the marker is there says all; what an older broker wrote has no epoch.
func TestAnEmptyCleanMarkerIsOne(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	writeFile(t, filepath.Join(dir, ".kafka_cleanshutdown"), nil)
	d := openDir(t, dir, manual)
	require.True(t, d.Stats().Clean)
	require.NoError(t, d.Close())
	require.Equal(t, `{"version":0,"brokerEpoch":-1}`, rootFiles(t, dir)[".kafka_cleanshutdown"])
}

func TestALogThatItsUserHasClosedIsOpenedAgain(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(3, 1)...)
	closeLog(t, l)
	require.Zero(t, d.Stats().Open)
	again := partition(t, d, "orders", 0)
	require.NotSame(t, l, again)
	require.True(t, stats(t, again).Recovery.Clean)
	require.Len(t, readAll(t, again, 0), 3)
}

// 300 logs, most of which nobody asks for.
func TestManyPartitionsOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	opts := manual
	opts.MaxOpenSegments = 32
	d := openDir(t, dir, opts)
	for i := range 300 {
		create(t, d, fmt.Sprint("topic", i%7), int32(i))
	}
	require.NoError(t, d.Close())
	before := rootFiles(t, dir)
	d = openDir(t, dir, opts)
	require.Len(t, d.Topics(), 7)
	require.Len(t, d.Partitions(), 300)
	require.Zero(t, d.Stats().OpenSegments)
	appendEach(t, partition(t, d, "topic3", 10), one(1, "value"))
	require.Equal(t, 1, d.Stats().OpenSegments)
	require.NoError(t, d.Close())
	after := rootFiles(t, dir)
	require.NotEqual(t, before["recovery-point-offset-checkpoint"], after["recovery-point-offset-checkpoint"])
	require.Equal(t, strings.Replace(before["recovery-point-offset-checkpoint"], "topic3 10 0\n", "topic3 10 1\n", 1), after["recovery-point-offset-checkpoint"])
	require.Contains(t, after, ".kafka_cleanshutdown")
}

// The marker of a clean shutdown goes, durably, before any log is touched: wherever a
// load is cut short, either all logs are as they were closed, or the next load looks for
// what the crash has left.
func TestTheCleanMarkerGoesBeforeAnyLogIsTouched(t *testing.T) {
	const marker = "logs/.kafka_cleanshutdown"
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprint("a log alone: ", alone), func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			opts := manual
			opts.FS, opts.Log.SegmentIndexBytes = disk.FS(), 256
			d := openDir(t, "logs", opts)
			for _, topic := range []string{"a", "b"} {
				appendEach(t, create(t, d, topic, 0), many(5, 1)...)
			}
			require.NoError(t, d.Close())
			disk.SyncAll()
			files := func(disk *logtest.Disk) map[string]string {
				all := map[string]string{}
				for _, dir := range []string{"logs/a-0", "logs/b-0"} {
					names, err := disk.ReadDir(dir)
					require.NoError(t, err)
					for _, name := range names {
						if name != ".lock" {
							data, err := disk.ReadFile(dir + "/" + name)
							require.NoError(t, err)
							all[dir+"/"+name] = string(data)
						}
					}
				}
				return all
			}
			closed := files(disk)
			marked, unmarked := 0, 0
			disk.OnCrash(*crashStates/4, 1, nil, func(c logtest.Crash) {
				if _, err := c.Disk.ReadFile(marker); err == nil {
					marked++
					require.Equal(t, closed, files(c.Disk), "%s", c)
					return
				}
				unmarked++
				log, err := c.Disk.ReadFile(segmentFile("logs/a-0", 0, ".log"))
				require.NoError(t, err)
				require.NoError(t, c.Disk.WriteFile(segmentFile("logs/a-0", 0, ".log"), append(log, "torn"...)))
				again := manual
				again.FS = c.Disk.FS()
				d, err := seglog.OpenDir("logs", again)
				require.NoError(t, err, "%s", c)
				require.False(t, d.Stats().Clean)
				l := partition(t, d, "a", 0)
				require.Len(t, stats(t, l).Recovery.Cut, 1, "%s", c)
				require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0))[:5])
				require.NoError(t, d.Close())
			})
			if alone {
				l, err := seglog.Open("logs/a-0", seglog.Options{FS: disk.FS(), Sync: seglog.SyncNever, SegmentIndexBytes: 256})
				require.NoError(t, err)
				appendEach(t, l, many(2, 10)...)
				disk.OnOp(nil)
				require.NoError(t, l.Close())
			} else {
				d := openDir(t, "logs", opts)
				appendEach(t, partition(t, d, "a", 0), many(2, 10)...)
				partition(t, d, "b", 0)
				disk.OnOp(nil)
				require.NoError(t, d.Close())
			}
			require.Positive(t, marked)
			require.Positive(t, unmarked)
		})
	}
}

// A segment that compaction has emptied ends below the next one. After a crash that is
// not taken for a lost tail, though the checkpoint, which says less than the log does
// itself, has everything scanned from before it.
func TestWhatCompactionHasEmptiedIsNotTakenForLost(t *testing.T) {
	for _, row := range []struct {
		name       string
		checkpoint int64
		stale      bool // the state is of before the log was compacted by somebody else
	}{
		{"the checkpoint is that of an empty log", 0, false},
		{"it is at the beginning of an emptied segment", 3, false},
		{"it is inside of one", 4, false},
		{"it is inside of the next", 7, false},
		{"a broker has compacted it since", 12, true},
		{"and has not written all of its checkpoints", 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := compactedDir
			opts.Log.SegmentBytes = 250 // three records, which lets no two segments become one
			d := openDir(t, dir, opts)
			l := create(t, d, "topic", 0)
			for i := range 12 {
				put(t, l, fmt.Sprint("k", i%3), fmt.Sprint("value ", i))
				if i%3 == 2 {
					rollLog(t, l)
				}
			}
			require.NoError(t, l.Sync())
			compact(t, l, nil)
			require.Equal(t, []int64{0, 3, 6, 9, 12}, bases(t, l))
			dir = killDir(t, d)
			for _, name := range []string{"seglog.state", "seglog.state.copy"} {
				if row.stale {
					writeFile(t, filepath.Join(dir, "topic-0", name), checkpoint.AppendState(nil, checkpoint.State{}))
				}
			}
			writeFile(t, filepath.Join(dir, "recovery-point-offset-checkpoint"), fmt.Appendf(nil, "0\n1\ntopic 0 %d\n", row.checkpoint))
			removeMark(t, filepath.Join(dir, "topic-0")) // else the log's own state says all
			d = openDir(t, dir, opts)
			l = partition(t, d, "topic", 0)
			require.Equal(t, []string{"9 k0=value 9", "10 k1=value 10", "11 k2=value 11"}, contents(t, l))
			require.EqualValues(t, 12, l.Offsets().End)
			require.Empty(t, stats(t, l).Recovery.SetAside)
		})
	}
}

// A broker that finds a log directory marked as cleanly shut down, and in a log not a
// single snapshot, takes it that there are no producers: it would not know a batch that is
// sent again, and show what belongs to an open transaction.
func TestADirIsNotMarkedCleanIfABrokerWouldForgetProducers(t *testing.T) {
	closed := func(t *testing.T, disk *logtest.Disk, use func(l *seglog.Log)) (clean bool) {
		o := manual
		o.FS = disk.FS()
		d := openDir(t, "logs", o)
		l, err := d.CreatePartition("a", 0, nil)
		require.NoError(t, err)
		(&writer{t: t, log: l, id: 7, txn: true}).send(3)
		use(l)
		require.NoError(t, d.Close())
		_, err = disk.FS().Stat("logs/.kafka_cleanshutdown")
		list, lerr := producerstate.List(disk.FS(), "logs/a-0")
		require.NoError(t, lerr)
		if err == nil {
			require.NotEmpty(t, list)
		}
		return err == nil
	}
	t.Run("a full disk", func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		require.False(t, closed(t, disk, func(*seglog.Log) {
			disk.Fail(logtest.Calls{Kind: logtest.Write, Name: "*.snapshot*", Nth: 1}, syscall.ENOSPC)
		}))
		o := manual
		o.FS = disk.FS()
		d := openDir(t, "logs", o)
		require.Equal(t, int64(0), stable(t, partition(t, d, "a", 0)))
		require.NoError(t, d.Close())
		_, err := disk.FS().Stat("logs/.kafka_cleanshutdown")
		require.NoError(t, err)
	})
	t.Run("an older one is there", func(t *testing.T) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		require.True(t, closed(t, disk, func(l *seglog.Log) {
			roll(t, l)
			eventually(t, func() bool {
				_, err := disk.FS().Stat("logs/a-0/00000000000000000003.snapshot")
				return err == nil
			})
			plain(t, l, 1)
			disk.Fail(logtest.Calls{Kind: logtest.Write, Name: "*.snapshot*", Nth: 1}, syscall.ENOSPC)
		}))
	})
	t.Run("all records deleted", func(t *testing.T) {
		require.True(t, closed(t, logtest.NewDisk(logtest.DiskOptions{}), func(l *seglog.Log) {
			require.NoError(t, l.DeleteBefore(3))
		}))
	})
}

// The high watermark of a replica is where the checkpoint has it, as on a broker.
func TestAReplicaFindsItsHighWatermark(t *testing.T) {
	o := manual
	o.Log.Replicated = true
	dir := t.TempDir()
	d := openDir(t, dir, o)
	l := create(t, d, "a", 0)
	plain(t, l, 5)
	_, err := l.SetHighWatermark(3)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	d = openDir(t, dir, o)
	require.Equal(t, int64(3), partition(t, d, "a", 0).HighWatermark())
	require.NoError(t, d.Close())
	writeFile(t, filepath.Join(dir, "replication-offset-checkpoint"), []byte("0\n1\na 0 900\n"))
	d = openDir(t, dir, o)
	require.Equal(t, int64(5), partition(t, d, "a", 0).HighWatermark(), "no further than the log")
	require.NoError(t, d.Close())
	writeFile(t, filepath.Join(dir, "replication-offset-checkpoint"), []byte("0\n2\na 0 1\na 0 4\n"))
	d = openDir(t, dir, o)
	require.Equal(t, int64(4), partition(t, d, "a", 0).HighWatermark(), "of two lines the last")
}
