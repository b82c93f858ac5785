package seglog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// brokerDir copies the log directory of a real broker that was stopped.
func brokerDir(t tb, version string) string {
	t.Helper()
	to, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(to) })
	copyTree(t, filepath.Join("testdata", "kafka", version), to)
	return to
}

func copyTree(t tb, from, to string) {
	t.Helper()
	copyDir(t, from, to)
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			copyTree(t, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
}

// openDir opens a log directory and closes it when the test ends.
func openDir(t tb, path string, opts seglog.DirOptions) *seglog.Dir {
	t.Helper()
	d, err := seglog.OpenDir(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// manual is for tests in which nothing happens on its own.
var manual = seglog.DirOptions{ManualMaintenance: true, Log: seglog.Options{Sync: seglog.SyncNever, RetentionTime: -1}}

func partition(t tb, d *seglog.Dir, topic string, n int32) *seglog.Log {
	t.Helper()
	l, err := d.Partition(topic, n)
	require.NoError(t, err)
	return l
}

func create(t tb, d *seglog.Dir, topic string, n int32) *seglog.Log {
	t.Helper()
	l, err := d.CreatePartition(topic, n, nil)
	require.NoError(t, err)
	return l
}

// rootFiles are the files of the log directory itself.
func rootFiles(t tb, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() && e.Name() != ".lock" {
			files[e.Name()] = string(readFile(t, filepath.Join(dir, e.Name())))
		}
	}
	return files
}

// A stopped broker's directory opens in place, and goes back as it was.
func TestADirectoryOfABrokerGoesBackAsItCame(t *testing.T) {
	requireNoLeak(t)
	for _, version := range []string{"4.3.1", "4.3.1-recovered"} {
		t.Run(version, func(t *testing.T) {
			dir := brokerDir(t, version)
			before := rootFiles(t, dir)
			d := openDir(t, dir, manual)
			require.NoFileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))
			require.True(t, d.Stats().Clean)
			require.NotContains(t, d.Topics(), "__cluster_metadata")
			require.NoError(t, d.Load(t.Context(), nil))
			for _, p := range d.Partitions() {
				require.NoError(t, p.Err, p.Name)
				l := partition(t, d, p.Topic, p.Partition)
				require.True(t, stats(t, l).Recovery.Clean, p.Name)
				offsetsFrom(t, l, l.Offsets().Start)
			}
			require.NoError(t, d.Close())
			if version == "4.3.1-recovered" { // from which this partition was left out
				for name, line := range map[string]string{"recovery-point": "__transaction_state 0 8\n", "replication": "__transaction_state 0 8\n"} {
					name += "-offset-checkpoint"
					before[name] = strings.Replace(strings.Replace(before[name], line, "", 1), "0\n8\n", "0\n7\n", 1)
				}
			}
			require.Equal(t, before, rootFiles(t, dir))
			for _, p := range d.Partitions() {
				requireSound(t, filepath.Join(dir, p.Name))
			}
			// Not one of the logs needs to be looked at again.
			d = openDir(t, dir, manual)
			for _, p := range d.Partitions() {
				require.True(t, stats(t, partition(t, d, p.Topic, p.Partition)).Recovery.Clean, p.Name)
			}
		})
	}
}

func TestCheckpointsAreWrittenAsKafkaDoes(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	d := openDir(t, dir, manual)
	l := partition(t, d, "segments", 0)
	require.Equal(t, int64(71), l.Offsets().End)
	appendEach(t, l, many(2, 1)...)
	appendEach(t, create(t, d, "new", 3), many(5, 1)...)
	require.NoError(t, l.DeleteBefore(70))
	require.NoError(t, d.Close())

	after := rootFiles(t, dir)
	require.Equal(t, "0\n2\ndeleted 0 61\nsegments 0 70\n", after["log-start-offset-checkpoint"])
	require.Contains(t, after["recovery-point-offset-checkpoint"], "0\n28\nclient-lz4 0 20\n")
	require.Contains(t, after["recovery-point-offset-checkpoint"], "\nsegments 0 73\n")
	require.True(t, strings.HasSuffix(after["recovery-point-offset-checkpoint"], "\n__transaction_state 0 95\nnew 3 5\n"))
	require.Contains(t, after["replication-offset-checkpoint"], "\nsegments 0 73\n")
	require.Contains(t, after["replication-offset-checkpoint"], "\nnew 3 5\n")
	require.Equal(t, `{"version":0,"brokerEpoch":12}`, after[".kafka_cleanshutdown"])
}

func TestAPartitionIsCreatedFoundAndDeleted(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, manual)
	_, err := d.Partition("orders", 0)
	require.ErrorIs(t, err, seglog.ErrNoPartition)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(10, 1)...)
	_, err = d.CreatePartition("orders", 0, nil)
	require.ErrorIs(t, err, seglog.ErrPartitionExists)
	_, err = d.CreatePartition("or ders", 0, nil)
	require.Error(t, err)
	_, err = d.CreatePartition("__cluster_metadata", 0, nil)
	require.Error(t, err)
	require.Same(t, l, partition(t, d, "orders", 0))
	require.NoError(t, d.Maintain(t.Context()))
	require.Contains(t, rootFiles(t, dir)["recovery-point-offset-checkpoint"], "orders 0 ")

	require.NoError(t, d.DeletePartition("orders", 0))
	_, err = l.Get(0)
	require.ErrorIs(t, err, seglog.ErrClosed)
	_, err = d.Partition("orders", 0)
	require.ErrorIs(t, err, seglog.ErrNoPartition)
	require.ErrorIs(t, d.DeletePartition("orders", 0), seglog.ErrNoPartition)
	require.NotContains(t, rootFiles(t, dir)["recovery-point-offset-checkpoint"], "orders")
	require.NotContains(t, rootFiles(t, dir)["replication-offset-checkpoint"], "orders")
	left := d.Leftovers()
	require.Len(t, left, 1)
	require.Equal(t, seglog.PartitionDeleted, left[0].State)
	require.Regexp(t, `^orders-0\.[0-9a-f]{32}-delete$`, left[0].Name)

	// One of the same name begins anew.
	l = create(t, d, "orders", 0)
	require.Equal(t, seglog.Offsets{}, l.Offsets())
	appendEach(t, l, one(1, "new"))
	require.NoError(t, d.Close())

	// What was to be removed is, once the directory was opened again.
	d = openDir(t, dir, manual)
	require.Len(t, d.Leftovers(), 1)
	require.NoError(t, d.Maintain(t.Context()))
	require.Empty(t, d.Leftovers())
	require.NoDirExists(t, filepath.Join(dir, left[0].Name))
	require.Len(t, readAll(t, partition(t, d, "orders", 0), 0), 1)
}

// K055: names are split at the last dash; what is not a partition is left alone.
func TestDirectoriesThatAreNoPartitionsAreListedAndLeftAlone(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	dir := t.TempDir()
	for _, name := range []string{"a.b-0", "a-b-c-12", "-lead-0", "foo.bar-3." + id + "-delete", "foo-1." + id + "-future",
		"foo-1." + id + "-stray", "lost+found", ".DS_Store", "topic-", "-0", "foo-x", "x-delete", "foo-99999999999",
		"__cluster_metadata-0", "remote-log-index-cache"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	writeFile(t, filepath.Join(dir, "orders-7"), []byte("a plain file"))
	d := openDir(t, dir, manual)
	var live, rest []string
	for _, p := range d.Partitions() {
		live = append(live, fmt.Sprint(p.Topic, "/", p.Partition))
	}
	require.Equal(t, []string{"-lead/0", "a-b-c/12", "a.b/0"}, live)
	for _, p := range d.Leftovers() {
		rest = append(rest, fmt.Sprint(p.Topic, "/", p.Partition, " ", p.State))
		require.Equal(t, p.State == seglog.PartitionUnknown, p.Err != nil)
	}
	require.Equal(t, []string{"/0 unknown", "/0 unknown", "foo/1 future", "foo/1 stray", "/0 unknown", "/0 unknown",
		"foo.bar/3 deleted", "/0 unknown", "/0 unknown", "/0 unknown"}, rest)
	require.NoError(t, d.Maintain(t.Context()))
	require.NoError(t, d.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	require.Len(t, names, 14, "only the deleted one is gone: %v", names)
}

// Row 162: one partition that cannot be opened costs no other.
func TestOnePartitionThatIsDamagedIsSetAside(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	bad := filepath.Join(dir, "none-0")
	edit(t, segmentFile(bad, 0, ".log"), func(b []byte) []byte { b[16] = 99; return b }) // the magic of the first batch
	before := rootFiles(t, dir)
	var told []string
	opts := manual
	opts.Events.SetAside = func(topic string, n int32, cause error) { told = append(told, fmt.Sprint(topic, n)) }
	d := openDir(t, dir, opts)
	var progress []seglog.LoadProgress
	require.NoError(t, d.Load(t.Context(), func(p seglog.LoadProgress) { progress = append(progress, p) }))
	require.Len(t, progress, 27)
	require.Equal(t, 27, progress[26].Done)
	require.Equal(t, []string{"none0"}, told)
	_, err := d.Partition("none", 0)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
	require.Equal(t, 1, d.Stats().SetAside)
	for _, p := range d.Partitions() {
		require.Equal(t, p.Topic == "none", p.State == seglog.PartitionSetAside, p.Name)
		if p.Topic != "none" {
			l := partition(t, d, p.Topic, p.Partition)
			appendEach(t, l, one(1, "goes on"))
		}
	}
	require.NoError(t, d.Maintain(t.Context()))
	require.NoError(t, d.Close())
	after := rootFiles(t, dir)
	require.Contains(t, after["recovery-point-offset-checkpoint"], "\nnone 0 60\n", "its line is kept")
	require.NotContains(t, after, ".kafka_cleanshutdown", "a broker must look for itself")
	require.Contains(t, before, ".kafka_cleanshutdown")

	// It can be deleted, and then all is well.
	d = openDir(t, dir, manual)
	require.NoError(t, d.Load(t.Context(), nil))
	require.NoError(t, d.DeletePartition("none", 0))
	require.NoError(t, d.Close())
	after = rootFiles(t, dir)
	require.Contains(t, after, ".kafka_cleanshutdown")
	require.NotContains(t, after["recovery-point-offset-checkpoint"], "\nnone 0")
}
