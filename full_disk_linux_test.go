package seglog_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seglog/seglog"
)

// smallDisk mounts a file system of 3 MiB and returns its directory, or "" with the
// reason in the test's log: only root may mount, and not in every container.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Logf("NOT TESTED: a small file system cannot be mounted here (user %d): %v", os.Getuid(), err)
		return ""
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// fill appends until an append fails and returns the error.
func fill(t *testing.T, l *seglog.Log) error {
	t.Helper()
	for range 10_000 {
		if _, err := l.Append([]seglog.Record{{Timestamp: 5, Value: noise(3000)}}, nil); err != nil {
			return err
		}
	}
	require.Fail(t, "the disk does not fill up")
	return nil
}

// Decision 11, on a disk that is really full: a typed error, nothing half-written,
// reading and removing go on, and so do appends when there is room again.
func TestARealFullDisk(t *testing.T) {
	disk := smallDisk(t)
	if disk == "" {
		return
	}
	dir := filepath.Join(disk, "orders-0")
	opts := seglog.Options{SegmentBytes: 300_000, SegmentIndexBytes: 10_000, RetentionBytes: 1_000_000}
	l := openLog(t, dir, opts)
	for round := range 4 {
		require.ErrorIs(t, fill(t, l), seglog.ErrNoSpace)
		before := l.Offsets().End
		var wg sync.WaitGroup
		var appended atomic.Int64
		for range 4 { // and for everyone, but for room that is given back behind them
			wg.Go(func() {
				if _, err := l.Append([]seglog.Record{{Value: noise(200_000)}}, nil); err == nil {
					appended.Add(1)
				} else if !errors.Is(err, seglog.ErrNoSpace) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Less(t, appended.Load(), int64(4))
		at := l.Offsets()
		require.Equal(t, before+appended.Load(), at.End)
		require.Nil(t, stats(t, l).Failed, "round %d: what was cut off leaves nothing in doubt", round)
		require.Equal(t, span(at.Start, at.End-1), offsetsOf(readAll(t, l, at.Start)))
		_, err := l.Get(at.End - 1)
		require.NoError(t, err)

		switch round {
		case 0:
			require.NoError(t, l.DeleteBefore(at.Start+(at.End-at.Start)/2))
		case 1:
			res, err := l.ApplyRetention(t.Context())
			require.NoError(t, err)
			require.Positive(t, res.Segments)
		case 2: // as a killed process finds it
			dead := copyDir(t, dir, filepath.Join(t.TempDir(), "orders-0"))
			again := openLog(t, dead, opts)
			require.Equal(t, at.Start, again.Offsets().Start)
			require.Equal(t, span(at.Start, at.End-1), offsetsOf(readAll(t, again, at.Start)))
			closeLog(t, again)
			requireSound(t, dead)
			require.NoError(t, l.DeleteBefore(at.End))
		case 3: // it can be closed, opened and read while it is full
			l = reopen(t, l, opts)
			require.Equal(t, span(at.Start, at.End-1), offsetsOf(readAll(t, l, at.Start)))
			require.NoError(t, l.DeleteBefore(at.End-5))
		}
		res, err := l.Append([]seglog.Record{{Timestamp: 5, Value: noise(3000)}}, nil)
		require.NoError(t, err, "round %d: there is room again", round)
		require.Equal(t, at.End, res.BaseOffset)
	}
	closeLog(t, l)
	requireSound(t, dir)
}

// Someone else fills the disk, and makes room again.
func TestADiskThatOthersFill(t *testing.T) {
	disk := smallDisk(t)
	if disk == "" {
		return
	}
	// Three indexes of the usual limit would not fit: they take what they need.
	l := openLog(t, filepath.Join(disk, "orders-0"), seglog.Options{IndexIntervalBytes: 1, SegmentBytes: 400_000})
	appendEach(t, l, many(10, 1)...)
	ballast := filepath.Join(disk, "ballast")
	for range 3 {
		at := l.Offsets()
		f, err := os.Create(ballast)
		require.NoError(t, err)
		for chunk := 64 << 10; chunk > 0; {
			if _, err := f.Write(make([]byte, chunk)); err != nil {
				require.ErrorIs(t, err, unix.ENOSPC)
				chunk /= 2
			}
		}
		require.NoError(t, f.Close())
		require.ErrorIs(t, fill(t, l), seglog.ErrNoSpace)
		require.NoError(t, os.Remove(ballast))
		require.GreaterOrEqual(t, l.Offsets().End, at.End)
		appendEach(t, l, many(10, 1)...)
		require.Equal(t, span(0, l.Offsets().End-1), offsetsOf(readAll(t, l, 0)))
	}
	closeLog(t, l)
	requireSound(t, l.Dir())
}
