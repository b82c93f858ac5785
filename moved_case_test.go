package seglog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// twoPlaces are two working directories, each with a log of the same relative name,
// which is not open. The first of them is the present one.
func twoPlaces(t *testing.T, name string, opts seglog.Options) (here, there string) {
	t.Helper()
	here, there = t.TempDir(), t.TempDir()
	for _, place := range []string{here, there} {
		l := openLog(t, filepath.Join(place, name), opts)
		appendEach(t, l, many(12, 1)...)
		closeLog(t, l)
	}
	t.Chdir(here)
	return here, there
}

// valuesOf are the values in a log that is opened for it.
func valuesOf(t *testing.T, dir string) (values []string) {
	t.Helper()
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	defer l.Close()
	for _, r := range readAll(t, l, l.Offsets().Start) {
		values = append(values, string(r.Value))
	}
	return values
}

func TestALogStaysWhereItWasOpenedWhenTheWorkingDirectoryChanges(t *testing.T) {
	opts := seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, SegmentBytes: 200, MaxOpenSegments: 1}
	here, there := twoPlaces(t, "log", opts)
	before, other := valuesOf(t, filepath.Join(here, "log")), traces(t, filepath.Join(there, "log"))

	l := openLog(t, "log", opts)
	require.Equal(t, filepath.Join(here, "log"), l.Dir())
	require.NoError(t, os.Chdir(there))
	appendEach(t, l, many(20, 100)...)
	require.Len(t, readAll(t, l, 0), len(before)+20)
	require.NoError(t, l.DeleteBefore(5))
	require.NoError(t, l.TruncateTo(30))
	closeLog(t, l)

	requireUntouched(t, filepath.Join(there, "log"), other)
	require.Len(t, valuesOf(t, filepath.Join(here, "log")), 25)
}

func TestADirStaysWhereItWasOpenedWhenTheWorkingDirectoryChanges(t *testing.T) {
	here, there := twoPlaces(t, filepath.Join("logs", "orders-0"), quick)
	other := traces(t, filepath.Join(there, "logs", "orders-0"))

	d, err := seglog.OpenDir("logs", seglog.DirOptions{Log: quick})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(here, "logs"), d.Path())
	require.NoError(t, os.Chdir(there))
	l, err := d.Partition("orders", 0)
	require.NoError(t, err)
	appendEach(t, l, many(3, 100)...)
	require.NoError(t, d.Close())

	requireUntouched(t, filepath.Join(there, "logs", "orders-0"), other)
	require.Len(t, valuesOf(t, filepath.Join(here, "logs", "orders-0")), 15)
}

// The check of a log, its repair and its copy take a while, and tell how far they are.
func TestWhatReadsALogAtLengthStaysThereWhenTheWorkingDirectoryChanges(t *testing.T) {
	opts := quick
	opts.SegmentBytes = 200
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, leave func(done, total int64))
	}{
		{"verify", func(t *testing.T, leave func(done, total int64)) {
			report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{Progress: leave, Jobs: 1})
			require.NoError(t, err)
			require.EqualValues(t, 12, report.Records)
		}},
		{"repair", func(t *testing.T, leave func(done, total int64)) {
			report, err := seglog.Repair(t.Context(), "log", seglog.RepairOptions{Progress: leave, Jobs: 1, Apply: true})
			require.NoError(t, err)
			require.EqualValues(t, 12, report.Records)
		}},
		{"reindex", func(t *testing.T, leave func(done, total int64)) {
			_, err := seglog.Reindex(t.Context(), "log", seglog.ReindexOptions{Progress: leave})
			require.NoError(t, err)
		}},
		{"recover", func(t *testing.T, leave func(done, total int64)) {
			report, err := seglog.Recover(t.Context(), "log", "copy", seglog.RecoverOptions{Progress: leave, Jobs: 1})
			require.NoError(t, err)
			require.EqualValues(t, 12, report.Records)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, there := twoPlaces(t, "log", opts)
			require.NoError(t, os.RemoveAll(filepath.Join(there, "log")))
			left := false
			tt.run(t, func(int64, int64) {
				require.NoError(t, os.Chdir(there))
				left = true
			})
			require.True(t, left)
			entries, err := os.ReadDir(there)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// Whoever put it there, it is not one of the log's segments, which it knows.
func TestARollDoesNotReplaceALogFileThatItDoesNotKnow(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(3, 1)...)
	writeLog(t, l.Dir(), 3, plainBatch(t, 3, 9))
	stranger := readFile(t, segmentFile(l.Dir(), 3, ".log"))

	_, err := l.Roll()
	require.ErrorIs(t, err, fs.ErrExist)
	var exists *seglog.SegmentExistsError
	require.ErrorAs(t, err, &exists)
	require.Equal(t, segmentFile(l.Dir(), 3, ".log"), exists.Path)
	require.Equal(t, stranger, readFile(t, segmentFile(l.Dir(), 3, ".log")))

	appendEach(t, l, many(2, 4)...)
	_, err = l.Roll()
	require.NoError(t, err, "the log goes on where there is room")
	require.Len(t, readAll(t, l, 0), 5)
}
