package seglog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
)

// K112: a directory has one owner: a broker, a Dir, or those who open single logs of
// it; readers are always let in.
func TestALogDirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, manual)
	l := create(t, d, "orders", 0)
	appendEach(t, l, many(3, 1)...)

	_, err := seglog.OpenDir(dir, manual)
	require.ErrorIs(t, err, seglog.ErrLocked)
	_, err = seglog.Open(l.Dir(), quick)
	require.ErrorIs(t, err, seglog.ErrLocked, "it is in a Dir that is open")
	_, err = seglog.Open(filepath.Join(dir, "orders-1"), quick)
	require.ErrorIs(t, err, seglog.ErrLocked, "and so would a new one be")
	_, err = seglog.Repair(t.Context(), l.Dir(), seglog.RepairOptions{})
	require.ErrorIs(t, err, seglog.ErrLocked)
	ro := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
	require.Len(t, readAll(t, ro, 0), 3)
	closeLog(t, ro)
	require.NoFileExists(t, filepath.Join(l.Dir(), ".lock"), "one lock for all")
	require.NoError(t, d.Close())

	l = openLog(t, filepath.Join(dir, "orders-0"), quick)
	_, err = seglog.OpenDir(dir, manual)
	require.ErrorIs(t, err, seglog.ErrLocked)
	other := openLog(t, filepath.Join(dir, "orders-2"), quick)
	closeLog(t, other)
	closeLog(t, l)

	broker, err := vfs.OS.Lock(filepath.Join(dir, ".lock"), vfs.Exclusive)
	require.NoError(t, err)
	before := rootFiles(t, dir)
	_, err = seglog.OpenDir(dir, manual)
	require.ErrorIs(t, err, seglog.ErrLocked)
	require.Equal(t, before, rootFiles(t, dir))
	require.NoError(t, broker.Close())
	d = openDir(t, dir, manual)
	require.Len(t, d.Partitions(), 2)
}

// A log that was opened alone before there was a Dir around it has its own lock only.
func TestALogThatIsOpenElsewhereIsNotOpenedTwice(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "orders-0"), quick)
	d := openDir(t, dir, manual)
	_, err := d.Partition("orders", 0)
	require.ErrorIs(t, err, seglog.ErrLocked)
	appendEach(t, l, one(1, "mine"))
	closeLog(t, l)
	require.Len(t, readAll(t, partition(t, d, "orders", 0), 0), 1, "the next try finds it free")
}

// K044: a log that is opened alone takes the marker of a clean shutdown away. A crash of
// its process would leave what a broker does not look for.
func TestALogOpenedAloneTakesTheCleanMarkerAway(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	ro := openLog(t, filepath.Join(dir, "none-0"), seglog.Options{ReadOnly: true})
	require.FileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))
	closeLog(t, ro)
	openLog(t, filepath.Join(dir, "none-0"), quick)
	require.NoFileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))
}

func TestThePartOfOnePartitionIsNotADir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	closeLog(t, openLog(t, dir, quick))
	_, err := seglog.OpenDir(dir, manual)
	require.ErrorIs(t, err, seglog.ErrNotALog)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), "offset-checkpoint")
	}
}

func TestADirOfAnotherClusterIsRefused(t *testing.T) {
	dir := brokerDir(t, "4.3.1")
	before := rootFiles(t, dir)
	mine := manual
	for _, other := range []seglog.Identity{
		{ClusterID: "other", NodeID: 1}, {ClusterID: "c2VnbG9nLWludGVyb3AtMQ", NodeID: 2},
		{ClusterID: "c2VnbG9nLWludGVyb3AtMQ", NodeID: 1, DirectoryID: "AAAAAAAAAAAAAAAAAAAAAQ"},
	} {
		mine.Identity = &other
		_, err := seglog.OpenDir(dir, mine)
		require.ErrorIs(t, err, seglog.ErrIdentity)
		require.Equal(t, before, rootFiles(t, dir))
	}
	mine.Identity = &seglog.Identity{ClusterID: "c2VnbG9nLWludGVyb3AtMQ", NodeID: 1}
	require.NoError(t, openDir(t, dir, mine).Close())

	for content, fits := range map[string]bool{
		"version=0\nbroker.id=1\n":                                                                       true,
		"broker.id=2\n":                                                                                  false,
		"version=0\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\n":                                                 true,
		"version=0\ncluster.id=other\n":                                                                  false,
		"version=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\nnode.id=1\n":                                      true,
		"version=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\n":                                                 false,
		"version=2\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\nnode.id=1\n":                                      false,
		"version=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\nnode.id=one\n":                                    false,
		"version=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n": false,
		"version=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAZA\n": true,
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "meta.properties"), []byte(content))
		d, err := seglog.OpenDir(dir, mine)
		require.Equal(t, fits, err == nil, content)
		if err == nil {
			require.NoError(t, d.Close())
		}
		require.Equal(t, content, rootFiles(t, dir)["meta.properties"])
	}

	fresh := t.TempDir()
	mine.Identity.DirectoryID = "DfEy367j32duxogDB0otsA"
	require.NoError(t, openDir(t, fresh, mine).Close())
	require.Regexp(t, `^#\n#[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [\d:]{8} UTC \d{4}
node.id=1\ndirectory.id=DfEy367j32duxogDB0otsA\nversion=1\ncluster.id=c2VnbG9nLWludGVyb3AtMQ\n$`, rootFiles(t, fresh)["meta.properties"])
	require.NoError(t, openDir(t, fresh, mine).Close())
	for _, bad := range []seglog.Identity{{NodeID: 1}, {ClusterID: "a=b"}, {ClusterID: "a", NodeID: -1}, {ClusterID: "a", DirectoryID: "short"}} {
		mine.Identity = &bad
		_, err := seglog.OpenDir(fresh, mine)
		require.ErrorIs(t, err, seglog.ErrOption)
	}
}

func TestDirOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, opts := range map[string]seglog.DirOptions{
		"limit": {MaxOpenSegments: -1}, "threads": {RecoveryThreads: -1}, "interval": {RetentionCheckInterval: -1},
		"budget": {RemovalBytesPerSecond: -1}, "default": {Log: seglog.Options{SegmentBytes: 1}},
		"topic": {Topics: map[string]seglog.Options{"a": {SegmentBytes: 1}}}, "read-only": {Log: seglog.Options{ReadOnly: true}},
		"files": {Log: seglog.Options{FS: vfs.OS}},
	} {
		_, err := seglog.OpenDir(t.TempDir(), opts)
		require.ErrorIs(t, err, seglog.ErrOption, name)
	}
}
