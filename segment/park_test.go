package segment_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/segment"
	"github.com/stretchr/testify/require"
)

// park closes the files, which a first call only finds in use.
func park(t *testing.T, s *segment.Segment) {
	t.Helper()
	for range 2 {
		require.NoError(t, s.Park())
	}
}

func TestAParkedSegmentIsReadAndAppendedToAgain(t *testing.T) {
	var open atomic.Int64
	fsys := faultfs.New(vfs.OS)
	s := create(t, 10, segment.Options{FS: fsys, Open: &open, IndexIntervalBytes: 100})
	put(t, s, 1, span(10, 19)...)
	require.NoError(t, s.Park())
	require.EqualValues(t, 1, open.Load(), "it was in use since it was made")
	park(t, s)
	require.Zero(t, open.Load()+int64(fsys.Open()+fsys.Mapped()))
	require.EqualValues(t, 20, s.NextOffset())
	require.EqualValues(t, 19, s.Newest().Offset)

	require.Equal(t, span(15, 19), found(t, s, 15))
	require.EqualValues(t, 1, open.Load(), "open for reading")
	park(t, s)
	require.Zero(t, open.Load())
	require.EqualValues(t, 18, firstAt(t, s, 18))

	put(t, s, 1, span(20, 29)...) // over what a reader has opened
	park(t, s)
	put(t, s, 1, span(30, 39)...) // and over nothing
	require.EqualValues(t, 1, open.Load())
	park(t, s)
	require.NoError(t, s.TruncateTo(35))
	put(t, s, 1, span(35, 39)...)
	require.Equal(t, span(10, 39), found(t, s, 10))
	offsets, _ := indexLengths(t, s)
	require.Greater(t, offsets, 5, "index entries are added as ever")

	s = reopen(t, s, segment.Options{IndexIntervalBytes: 100})
	require.Equal(t, span(10, 39), found(t, s, 10))
	require.EqualValues(t, 40, s.NextOffset())
}

func TestAParkedSegmentIsSealedWithoutBeingOpened(t *testing.T) {
	fsys := faultfs.New(vfs.OS)
	s := create(t, 0, segment.Options{FS: fsys, IndexIntervalBytes: 100})
	put(t, s, 1, span(0, 19)...)
	park(t, s)
	require.NoError(t, s.Seal())
	synced := 0
	fsys.Do(faultfs.Op(faultfs.Sync).Name("*index"), func(faultfs.Call) error { synced++; return nil })
	require.NoError(t, s.Trim())
	require.GreaterOrEqual(t, synced, 2, "its indexes are on disk")
	require.NoError(t, s.Trim())
	require.Zero(t, fsys.Open()+fsys.Mapped())
	require.Equal(t, span(5, 19), found(t, s, 5))
	require.EqualValues(t, 19, largest(t, s).Offset)
	for range 2 {
		require.NoError(t, s.CloseIdle())
	}
	require.Zero(t, fsys.Open()+fsys.Mapped())
	require.NoError(t, s.Reactivate())
	put(t, s, 1, 20)
	require.Equal(t, span(0, 20), found(t, s, 0))
}

func TestASegmentThatCannotWakeIsTriedAgain(t *testing.T) {
	fsys := faultfs.New(vfs.OS)
	s := create(t, 0, segment.Options{FS: fsys, IndexIntervalBytes: 100})
	put(t, s, 1, span(0, 9)...)
	for _, name := range []string{"*.log", "*.index", "*.timeindex"} {
		for nth := 1; nth <= 2; nth++ {
			park(t, s)
			fsys.Fail(faultfs.Op(faultfs.Open).Name(name).Nth(nth), syscall.EMFILE)
			err := s.Append(set(t, 1, s.NextOffset()))
			require.ErrorIs(t, err, syscall.EMFILE, "%s %d", name, nth)
			require.NotErrorIs(t, err, segment.ErrAppendNotUndone)
			require.Zero(t, fsys.Open()+fsys.Mapped(), "%s %d", name, nth)
			fsys.Clear()
			put(t, s, 1, s.NextOffset())
		}
	}
	require.Equal(t, span(0, 15), found(t, s, 0))
}

// Whoever writes to a file that we have closed for a while is noticed before we do.
func TestASegmentThatSomeoneElseHasWrittenToIsNotAppendedTo(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"longer":  func(b []byte) []byte { return append(b, 1) },
		"shorter": func(b []byte) []byte { return b[:len(b)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, 0, segment.Options{})
			put(t, s, 1, span(0, 9)...)
			park(t, s)
			data, err := os.ReadFile(s.LogPath())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(s.LogPath(), change(data), 0o644))
			err = s.Append(set(t, 1, 10))
			require.ErrorIs(t, err, segment.ErrCorrupt)
			require.ErrorIs(t, err, segment.ErrAppendNotUndone)
		})
	}
}

// Indexes that are gone when a parked segment wakes are made anew.
func TestAParkedSegmentMakesItsIndexesAnew(t *testing.T) {
	s := create(t, 0, segment.Options{IndexIntervalBytes: 100})
	put(t, s, 1, span(0, 19)...)
	before, _ := indexLengths(t, s)
	park(t, s)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.LogPath()), "*index"))
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}
	put(t, s, 1, 20)
	after, _ := indexLengths(t, s)
	require.GreaterOrEqual(t, after, before)
	require.Equal(t, span(7, 20), found(t, s, 7))
}

func TestParkingWaitsForNoReader(t *testing.T) {
	s := create(t, 0, segment.Options{IndexIntervalBytes: 100})
	put(t, s, 1, span(0, 9)...)
	require.NoError(t, s.Acquire())
	park(t, s)
	require.NotNil(t, s.View().Log)
	s.Release()

	var wg sync.WaitGroup
	var stop atomic.Bool
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				if err := s.Acquire(); err != nil {
					t.Error(err)
					return
				}
				var c segment.Scanner
				if err := s.SeekOffset(&c, 5); err != nil {
					t.Error(err)
				}
				s.Release()
			}
		})
	}
	for o := int64(10); o < 300; o++ {
		put(t, s, 1, o)
		park(t, s)
	}
	stop.Store(true)
	wg.Wait()
	require.Equal(t, span(0, 299), found(t, s, 0))
}
