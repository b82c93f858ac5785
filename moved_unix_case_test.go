//go:build unix

package seglog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
)

// Systems that do not move a directory with open files in it have no such trouble.
func TestAMovedLogWritesNothingIntoTheOneThatTookItsPlace(t *testing.T) {
	place := t.TempDir()
	opts := quick
	opts.CleanupPolicy = seglog.CleanupCompactDelete
	l := openLog(t, filepath.Join(place, "log"), opts)
	for i := range int64(12) {
		appendEach(t, l, seglog.Record{Timestamp: 1 + i, Key: []byte{byte(i)}, Value: []byte("value")})
		if i%4 == 3 {
			_, err := l.Roll() // by hand: no segment is made ahead of time, perhaps after the move
			require.NoError(t, err)
		}
	}
	require.NoError(t, l.Sync(), "no roll is left that would be synced after the move")
	require.NoError(t, os.Rename(filepath.Join(place, "log"), filepath.Join(place, "old")))
	fresh := openLog(t, filepath.Join(place, "log"), opts)
	for i := range int64(12) {
		appendEach(t, fresh, seglog.Record{Timestamp: 100 + i, Key: []byte{byte(i)}, Value: []byte("value")})
	}
	closeLog(t, fresh)
	before := traces(t, fresh.Dir())

	_, err := l.Append([]seglog.Record{{Timestamp: 200, Key: []byte("k"), Value: []byte("v")}}, nil)
	require.NoError(t, err, "into a file that is open")
	_, err = l.Roll()
	require.ErrorIs(t, err, seglog.ErrMoved)
	require.ErrorIs(t, l.DeleteBefore(4), seglog.ErrMoved)
	_, err = l.ApplyRetention(t.Context())
	require.ErrorIs(t, err, seglog.ErrMoved)
	_, err = l.Compact(t.Context(), nil)
	require.ErrorIs(t, err, seglog.ErrMoved)
	require.ErrorIs(t, l.Close(), seglog.ErrMoved)

	requireUntouched(t, fresh.Dir(), before)
	require.Len(t, valuesOf(t, fresh.Dir()), 12)
	moved := openLog(t, filepath.Join(place, "old"), opts)
	require.Len(t, readAll(t, moved, 0), 13, "all that was acknowledged is where the log is")
}

// Nor are files removed there that the moved log was about to remove.
func TestNothingIsRemovedWhereALogWas(t *testing.T) {
	place := t.TempDir()
	at := filepath.Join(place, "log")
	// Where all files of the first segment have been renamed.
	g := newGate(vfs.OS, logtest.Rename, "*000.txnindex")
	defer g.open()
	l := openLog(t, at, seglog.Options{FS: g})
	fiveSegments(t, l)
	require.NoError(t, l.DeleteBefore(30))
	<-g.reached
	require.NoError(t, os.Rename(at, filepath.Join(place, "old")))
	fresh := openLog(t, at, quick)
	fiveSegments(t, fresh)
	closeLog(t, fresh)
	before := traces(t, at)
	g.open()

	require.ErrorIs(t, l.DeleteBefore(0), seglog.ErrMoved)
	require.ErrorIs(t, l.Close(), seglog.ErrMoved)
	requireUntouched(t, at, before)
	moved := openLog(t, filepath.Join(place, "old"), quick)
	require.NoError(t, moved.Sync())
	require.Equal(t, seglog.Offsets{Start: 30, Durable: 50, End: 50}, moved.Offsets())
	deleteBefore(t, moved, 30)
	require.Equal(t, []int64{30, 40}, bases(t, moved))
	require.Equal(t, span(30, 49), offsetsOf(readAll(t, moved, 30)))
}

// Nor do two logs of one Dir whose directories have changed places.
func TestPartitionsThatChangePlacesWriteNothingIntoEachOther(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	at := func(name string) string { return filepath.Join(d.Path(), name) }
	var logs []*seglog.Log
	for i, topic := range []string{"a", "b"} {
		l := create(t, d, topic, 0)
		appendEach(t, l, many(3+i, 1)...)
		require.NoError(t, l.Sync())
		logs = append(logs, l)
	}
	for _, move := range [][2]string{{"a-0", "elsewhere"}, {"b-0", "a-0"}, {"elsewhere", "b-0"}} {
		require.NoError(t, os.Rename(at(move[0]), at(move[1])))
	}
	before := [][]string{names(t, at("a-0")), names(t, at("b-0"))}
	for _, l := range logs {
		_, err := l.Roll()
		require.ErrorIs(t, err, seglog.ErrMoved)
		require.ErrorIs(t, l.DeleteBefore(1), seglog.ErrMoved)
	}
	require.ErrorIs(t, d.Close(), seglog.ErrMoved)
	require.Equal(t, before, [][]string{names(t, at("a-0")), names(t, at("b-0"))})
	require.NoFileExists(t, at(".kafka_cleanshutdown"))
	for _, move := range [][2]string{{"a-0", "elsewhere"}, {"b-0", "a-0"}, {"elsewhere", "b-0"}} {
		require.NoError(t, os.Rename(at(move[0]), at(move[1])))
	}
	d = openDir(t, d.Path(), manual)
	require.Equal(t, int64(3), partition(t, d, "a", 0).Offsets().End)
	require.Equal(t, int64(4), partition(t, d, "b", 0).Offsets().End)
}

// Without its lock anyone may open the log for writing.
func TestALogWithoutItsLockFileNeitherRollsNorTruncates(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(3, 1)...)
	require.NoError(t, os.Remove(filepath.Join(l.Dir(), ".lock")))
	before := traces(t, l.Dir())
	_, err := l.Roll()
	require.ErrorIs(t, err, seglog.ErrMoved)
	require.ErrorIs(t, l.TruncateFullyAndStartAt(70), seglog.ErrMoved)
	requireUntouched(t, l.Dir(), before)
}
