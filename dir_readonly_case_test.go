package seglog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

var readOnly = seglog.DirOptions{ReadOnly: true}

// treeOf is every file below dir, with what a write to it would change.
func treeOf(t *testing.T, dir string) map[string]trace {
	t.Helper()
	files := map[string]trace{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		tr := trace{info: info}
		if info.Mode().IsRegular() {
			tr.data = string(readFile(t, path))
		}
		files[path] = tr
		return nil
	}))
	return files
}

func requireTreeUntouched(t *testing.T, dir string, before map[string]trace) {
	t.Helper()
	after := treeOf(t, dir)
	require.Len(t, after, len(before))
	for path, was := range before {
		require.Contains(t, after, path)
		require.Equal(t, was.data, after[path].data, path)
		require.Equal(t, was.info.ModTime(), after[path].info.ModTime(), path)
		require.True(t, os.SameFile(was.info, after[path].info), path)
	}
}

// A Dir with ReadOnly changes nothing, whatever is asked of it, of a directory that was
// closed, killed or damaged.
func TestAReadOnlyDirChangesNothing(t *testing.T) {
	requireNoLeak(t)
	closed := brokerDir(t, "4.3.1")
	killed := brokerDir(t, "4.3.1")
	require.NoError(t, os.Remove(filepath.Join(killed, ".kafka_cleanshutdown")))
	edit(t, segmentFile(filepath.Join(killed, "none-0"), 0, ".log"), func(b []byte) []byte { return append(b, "torn"...) })
	bare := t.TempDir()
	copyTree(t, filepath.Join(closed, "none-0"), mkdir(t, filepath.Join(bare, "none-0")))
	copyTree(t, filepath.Join(closed, "lz4-0"), mkdir(t, filepath.Join(bare, "lz4-0.0123456789abcdef0123456789abcdef-delete")))
	for name, dir := range map[string]string{"of a broker": closed, "killed": killed, "without a file of its own": bare} {
		t.Run(name, func(t *testing.T) {
			before := treeOf(t, dir)
			d := openDir(t, dir, readOnly)
			require.NoError(t, d.Load(t.Context(), nil))
			require.NotEmpty(t, d.Partitions())
			for _, p := range d.Partitions() {
				require.NoError(t, p.Err)
				l := partition(t, d, p.Topic, p.Partition)
				offsetsFrom(t, l, l.Offsets().Start)
				_, err := l.Producers()
				require.NoError(t, err)
				_, err = l.Append(many(1, 1), nil)
				require.ErrorIs(t, err, seglog.ErrReadOnly)
			}
			require.Equal(t, int64(60), partition(t, d, "none", 0).Offsets().End)
			_, err := d.CreatePartition("new", 0, nil)
			require.ErrorIs(t, err, seglog.ErrReadOnly)
			require.ErrorIs(t, d.DeletePartition("none", 0), seglog.ErrReadOnly)
			require.ErrorIs(t, d.Maintain(t.Context()), seglog.ErrReadOnly)
			require.ErrorIs(t, d.AlterTopic("none", nil), seglog.ErrReadOnly)
			require.NoError(t, d.Refresh())
			require.NoError(t, d.Close())
			requireTreeUntouched(t, dir, before)
		})
	}
	_, err := seglog.OpenDir(filepath.Join(bare, "none-0"), readOnly)
	require.ErrorIs(t, err, seglog.ErrNotALog)
	_, err = seglog.OpenDir(filepath.Join(bare, "missing"), readOnly)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoDirExists(t, filepath.Join(bare, "missing"))
	mine := readOnly
	mine.Identity = &seglog.Identity{ClusterID: "other", NodeID: 1}
	for _, dir := range []string{closed, bare} {
		_, err = seglog.OpenDir(dir, mine)
		require.ErrorIs(t, err, seglog.ErrIdentity)
	}
	require.NoFileExists(t, filepath.Join(bare, "meta.properties"))
	require.Error(t, openDir(t, t.TempDir(), manual).Refresh())
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// It is open beside a Dir that writes, and sees what that has done at each Refresh.
func TestAReadOnlyDirFollowsAWriter(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	l := create(t, d, "orders", 0)
	create(t, d, "short-lived", 0)
	appendEach(t, l, many(10, 1)...)

	r := openDir(t, d.Path(), readOnly)
	require.Equal(t, []string{"orders", "short-lived"}, r.Topics())
	rl := partition(t, r, "orders", 0)
	require.Len(t, readAll(t, rl, 0), 10)
	short := partition(t, r, "short-lived", 0)

	appendEach(t, l, many(5, 11)...)
	require.NoError(t, l.DeleteBefore(4))
	appendEach(t, create(t, d, "new", 3), many(2, 1)...)
	require.NoError(t, d.DeletePartition("short-lived", 0))
	require.Len(t, readAll(t, rl, 0), 10, "as it was")
	_, err := r.Partition("new", 3)
	require.ErrorIs(t, err, seglog.ErrNoPartition)

	require.NoError(t, r.Refresh())
	require.Same(t, rl, partition(t, r, "orders", 0))
	require.Equal(t, span(4, 14), offsetsOf(readAll(t, rl, 4)))
	require.Equal(t, int64(4), rl.Offsets().Start)
	require.Len(t, readAll(t, partition(t, r, "new", 3), 0), 2)
	_, err = r.Partition("short-lived", 0)
	require.ErrorIs(t, err, seglog.ErrNoPartition)
	_, err = short.Stats()
	_ = err
	require.Len(t, r.Leftovers(), 1)
	require.Equal(t, seglog.PartitionDeleted, r.Leftovers()[0].State)

	require.NoError(t, d.Close())
	require.NoError(t, r.Refresh())
	require.Len(t, readAll(t, rl, 4), 11)
}

// One that could not be opened is looked at again: who writes may not have been done.
func TestAReadOnlyDirTriesAgain(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "orders-0"))
	d := openDir(t, dir, readOnly)
	_, err := d.Partition("orders", 0)
	require.ErrorIs(t, err, seglog.ErrNotALog)
	require.Equal(t, 1, d.Stats().SetAside)
	writeLog(t, filepath.Join(dir, "orders-0"), 0, plainBatch(t, 0, 4))
	require.Len(t, readAll(t, partition(t, d, "orders", 0), 0), 5)
	require.Zero(t, d.Stats().SetAside)
}

// The limit of open files holds for logs that are only read.
func TestAReadOnlyDirBoundsOpenFiles(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	for i := range 40 {
		appendEach(t, create(t, d, "topic", int32(i)), many(3, 1)...)
	}
	require.NoError(t, d.Close())
	opts := readOnly
	opts.MaxOpenSegments = 8
	r := openDir(t, d.Path(), opts)
	for range 2 {
		for i := range 40 {
			require.Len(t, readAll(t, partition(t, r, "topic", int32(i)), 0), 3)
			require.LessOrEqual(t, r.Stats().OpenSegments, 10)
		}
	}
}
