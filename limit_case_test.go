//go:build linux

package seglog_test

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"testing"

	"github.com/seglog/seglog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// K048, on a real file system: a limit on the size of files ends a write in its
// middle, as a full disk does. The limit is one of the whole process, so it is set
// in a child.
func TestNothingIsWrittenBehindAPartialAppend(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestChildThatMeetsALimit$", "-test.count=1", "-test.v")
	child.Env = append(os.Environ(), "SEGLOG_TEST_LIMIT="+t.TempDir())
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "PASS")
}

func TestChildThatMeetsALimit(t *testing.T) {
	dir := os.Getenv("SEGLOG_TEST_LIMIT")
	if dir == "" {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	const limit = 100_000
	setLimit := func(size uint64) {
		var old unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}))
	}
	l := openLog(t, dir, seglog.Options{})
	path := segmentFile(dir, 0, ".log")
	record := seglog.Record{Timestamp: 5, Value: noise(1000)}
	setLimit(limit)
	var failure error
	for failure == nil {
		_, failure = l.Append([]seglog.Record{record}, nil)
	}
	require.ErrorIs(t, failure, unix.EFBIG)
	at := l.Offsets()
	size := fileSize(t, path)
	require.Less(t, size, int64(limit), "the part that was written is cut off again")
	require.Equal(t, size, batchesEnd(t, dir))

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := l.Append([]seglog.Record{record}, nil); err == nil {
				t.Error("appended beyond the limit")
			}
		})
	}
	wg.Wait()
	require.Equal(t, at, l.Offsets())
	require.Equal(t, size, fileSize(t, path))
	require.Equal(t, span(0, at.End-1), offsetsOf(readAll(t, l, 0)))
	require.Nil(t, stats(t, l).Failed, "what was cut off leaves nothing in doubt")

	setLimit(unix.RLIM_INFINITY)
	for range 5 {
		res, err := l.Append([]seglog.Record{record}, nil)
		require.NoError(t, err)
		require.Equal(t, l.Offsets().End-1, res.LastOffset)
	}
	l = reopen(t, l, quick)
	require.Equal(t, span(0, at.End+4), offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, dir)
}

func batchesEnd(t *testing.T, dir string) (end int64) {
	for _, b := range batchesOf(t, dir, 0) {
		end = b.position + int64(b.Size())
	}
	return end
}
