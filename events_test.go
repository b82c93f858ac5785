package seglog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// heard collects what a log tells.
type heard struct {
	mu      sync.Mutex
	opened  []seglog.Recovery
	sealed  []int64
	removed []seglog.RetentionResult
	failed  []error
	damaged []*seglog.CorruptionError
}

func (h *heard) events() seglog.Events {
	return seglog.Events{
		Opened:  func(r seglog.Recovery) { h.mu.Lock(); defer h.mu.Unlock(); h.opened = append(h.opened, r) },
		Sealed:  func(next int64) { h.mu.Lock(); defer h.mu.Unlock(); h.sealed = append(h.sealed, next) },
		Removed: func(r seglog.RetentionResult) { h.mu.Lock(); defer h.mu.Unlock(); h.removed = append(h.removed, r) },
		Failed:  func(err error) { h.mu.Lock(); defer h.mu.Unlock(); h.failed = append(h.failed, err) },
		Damaged: func(d *seglog.CorruptionError) { h.mu.Lock(); defer h.mu.Unlock(); h.damaged = append(h.damaged, d) },
	}
}

func TestALogTellsWhatHappens(t *testing.T) {
	var h heard
	var text bytes.Buffer
	opts := quick
	opts.Events = h.events()
	opts.Logger = slog.New(slog.NewTextHandler(&text, nil))
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := seglog.Open(dir, opts)
	require.NoError(t, err)
	appendEach(t, l, many(10, 1)...)
	_, err = l.Roll()
	require.NoError(t, err)
	appendEach(t, l, many(5, 100)...)
	require.NoError(t, l.DeleteBefore(10))
	require.NoError(t, l.Close())
	require.Len(t, h.opened, 1)
	require.Equal(t, []int64{10}, h.sealed)
	require.Len(t, h.removed, 1)
	require.Equal(t, 1, h.removed[0].Segments)
	require.Equal(t, int64(10), h.removed[0].Start)
	require.Contains(t, text.String(), "removed segments")

	edit(t, segmentFile(dir, 10, ".log"), func(b []byte) []byte {
		b[len(b)/2] ^= 1
		return b
	})
	l, err = seglog.Open(dir, seglog.Options{ReadOnly: true, Events: h.events()})
	require.NoError(t, err)
	_, damage := offsetsFrom(t, l, 10)
	require.Equal(t, damage, h.damaged)
	require.NoError(t, l.Close())
}

func TestALogTellsOnceThatItFailed(t *testing.T) {
	var h heard
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	l, err := seglog.Open("log", seglog.Options{FS: disk, Events: h.events(), SegmentIndexBytes: 1000})
	require.NoError(t, err)
	disk.Fail(faultfs.Op(faultfs.Sync), syscall.EIO)
	for range 3 {
		_, err := l.Append([]seglog.Record{{Value: []byte("x")}}, nil)
		require.ErrorIs(t, err, seglog.ErrFailed)
		require.ErrorIs(t, err, syscall.EIO, "the first cause is kept")
	}
	l.Close()
	require.Len(t, h.failed, 1)
	require.True(t, errors.Is(h.failed[0], syscall.EIO))
}
