package seglog_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// Between the removal of all segments and the making of the next one there is none. A
// writer that stops there, here because it cannot make it, leaves the log so.
func TestAReadOnlyLogIsEmptyAtTheNewStartWhileAllOfItIsTruncated(t *testing.T) {
	disk := faultfs.New(vfs.OS)
	opts := quick
	opts.FS = disk
	l := openLog(t, t.TempDir(), opts)
	appendEach(t, l, many(3, 1)...)
	open := func() *seglog.Log { return openLog(t, l.Dir(), seglog.Options{ReadOnly: true}) }
	before := open()

	disk.Fail(faultfs.Op(faultfs.Create).Name("00000000000000000070.log"), syscall.EIO)
	require.ErrorIs(t, l.TruncateFullyAndStartAt(70), seglog.ErrFailed)
	require.NoFileExists(t, segmentFile(l.Dir(), 0, ".log"))
	require.NoError(t, before.Refresh())
	for name, ro := range map[string]*seglog.Log{"open before": before, "opened there": open()} {
		require.Equal(t, seglog.Offsets{Start: 70, Durable: 70, End: 70}, ro.Offsets(), name)
		require.Empty(t, readAll(t, ro, 70), name)
		_, err := ro.Get(70)
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange, name)
		_, err = ro.Get(2)
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange, name)
		got, err := ro.Read(70, 1000, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
		require.NoError(t, err, name)
		require.Empty(t, got.Batches, name)
		_, found, err := ro.OffsetForTime(0)
		require.NoError(t, err, name)
		require.False(t, found, name)
		_, _, err = ro.LatestByKey(t.Context(), []byte("key"))
		require.NoError(t, err, name)
		producers, err := ro.Producers()
		require.NoError(t, err, name)
		require.Empty(t, producers, name)
		size, err := ro.Size()
		require.NoError(t, err, name)
		require.Zero(t, size, name)
		_, err = ro.Stats()
		require.NoError(t, err, name)
		_, err = ro.Segments()
		require.NoError(t, err, name)
	}

	require.ErrorIs(t, l.Close(), seglog.ErrFailed)
	disk.Clear()
	l = openLog(t, l.Dir(), opts)
	appendEach(t, l, many(2, 1)...)
	require.NoError(t, before.Refresh())
	require.Equal(t, span(70, 71), offsetsOf(readAll(t, before, 70)))
}

// The state of a log is what tells that there is one.
func TestADirectoryWithoutSegmentsAndStateIsNotALog(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, segmentFile(dir, 0, ".index"), nil)
	_, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.ErrorIs(t, err, seglog.ErrNotALog)
}
