package segment_test

import (
	"errors"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/segment"
	"github.com/stretchr/testify/require"
)

// roomy is an active segment with room ahead, on a disk in memory.
func roomy(t *testing.T) (s *segment.Segment, fsys *faultfs.FS) {
	t.Helper()
	fsys = faultfs.New(crashfs.New(crashfs.Options{}))
	s, err := segment.Create(".", 0, options(segment.Options{FS: fsys, AheadBytes: 8192}))
	require.NoError(t, err)
	t.Cleanup(func() { s.Retire() })
	for i := range int64(20) {
		put(t, s, 1, span(10*i, 10*i+9)...)
	}
	require.NotZero(t, ahead(t, s, fsys))
	return s, fsys
}

// ahead is how much longer the log file is than the log.
func ahead(t *testing.T, s *segment.Segment, fsys vfs.FS) int64 {
	t.Helper()
	size, err := s.Size()
	require.NoError(t, err)
	fi, err := fsys.Stat(s.LogPath())
	require.NoError(t, err)
	return fi.Size() - size
}

func TestTheFileEndsWithTheLogWhenNobodyWritesToIt(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, s *segment.Segment){
		"sealed": func(t *testing.T, s *segment.Segment) {
			require.NoError(t, s.Seal())
			require.NoError(t, s.Trim())
		},
		"parked":    func(t *testing.T, s *segment.Segment) { park(t, s) },
		"truncated": func(t *testing.T, s *segment.Segment) { require.NoError(t, s.TruncateTo(55)) },
		"retired":   func(t *testing.T, s *segment.Segment) { require.NoError(t, s.Retire()) },
		"recovered": func(t *testing.T, s *segment.Segment) {
			_, err := s.Recover(segment.RecoverOptions{})
			require.NoError(t, err)
		},
		"reactivated": func(t *testing.T, s *segment.Segment) { require.NoError(t, errors.Join(s.Seal(), s.Reactivate())) },
		"written again": func(t *testing.T, s *segment.Segment) {
			require.NoError(t, s.WriteAgain(0))
		},
		"unindexed": func(t *testing.T, s *segment.Segment) { require.NoError(t, s.Unindex()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, fsys := roomy(t)
			do(t, s)
			require.Zero(t, ahead(t, s, fsys))
		})
	}
}

func TestASegmentIsWrittenToThroughMemoryAgainAfterWhateverCutIt(t *testing.T) {
	s, fsys := roomy(t)
	require.NoError(t, s.TruncateTo(55))
	put(t, s, 1, span(55, 59)...)
	require.NotZero(t, ahead(t, s, fsys))
	park(t, s)
	next := int64(60)
	for range 20 {
		put(t, s, 1, span(next, next+9)...)
		next += 10
	}
	require.NotZero(t, ahead(t, s, fsys))
	require.Equal(t, span(0, next-1), found(t, s, 0))
}

// Where the file cannot be cut parking says so, and the segment is as it was.
func TestASegmentThatCannotBeCutIsNotParked(t *testing.T) {
	s, fsys := roomy(t)
	fsys.Fail(faultfs.Op(faultfs.Truncate).Name("*.log"), errors.New("refused"))
	require.NoError(t, s.Park()) // it was in use
	require.ErrorContains(t, s.Park(), "refused")
	fsys.Clear()
	put(t, s, 1, span(200, 209)...)
	require.Equal(t, span(0, 209), found(t, s, 0))
	park(t, s)
	require.Zero(t, ahead(t, s, fsys))
}

// A set that is taken back, because its aborted transactions could not be listed, leaves
// nothing in the room.
func TestASetThatIsTakenBackLeavesNoBytes(t *testing.T) {
	s, fsys := roomy(t)
	refused := errors.New("refused")
	fsys.Fail(faultfs.Op(faultfs.Write).Name("*.txnindex"), refused)
	b := set(t, 1, span(200, 209)...)
	b.Aborted = []segment.AbortedTxn{{}}
	require.ErrorIs(t, s.Append(b), refused)
	require.Zero(t, ahead(t, s, fsys))
	fsys.Clear()
	put(t, s, 1, span(200, 209)...)
	require.Equal(t, span(0, 209), found(t, s, 0))
}

// Every call that making room takes may fail.
func TestAppendsDoNotNeedRoomAhead(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Preallocate, faultfs.Map} {
		t.Run(kind.String(), func(t *testing.T) {
			fsys := faultfs.New(crashfs.New(crashfs.Options{}))
			s, err := segment.Create(".", 0, options(segment.Options{FS: fsys, AheadBytes: 8192}))
			require.NoError(t, err)
			fsys.Fail(faultfs.Op(kind).Name("*.log"), errors.New("refused"))
			for i := range int64(50) {
				put(t, s, 1, span(10*i, 10*i+9)...)
			}
			require.Zero(t, ahead(t, s, fsys))
			require.Equal(t, span(0, 499), found(t, s, 0))
			require.NoError(t, s.Retire())
			require.Zero(t, fsys.Open()+fsys.Mapped())
		})
	}
}

// zeroWrites notes the largest write behind the log's end. They fail with refused.
func zeroWrites(t *testing.T, s *segment.Segment, fsys *faultfs.FS, refused error) (largest *int64) {
	largest = new(int64)
	fsys.Do(faultfs.Op(faultfs.Write).Name("*.log"), func(c faultfs.Call) error {
		size, err := s.Size()
		require.NoError(t, err)
		if c.Off <= size { // a set
			return nil
		}
		*largest = max(*largest, c.Size)
		return refused
	})
	return largest
}

// Pages are made ahead, by writing zeros. Where much is written between two syncs they may
// be large; where each set is synced all of a page is written with it; and with large sets
// that would be twice as much.
func TestPagesAreMadeAhead(t *testing.T) {
	for _, row := range []struct {
		name    string
		records int64 // of a set
		synced  bool
		refused error
		largest int64
	}{
		{"not synced", 10, false, nil, 64 << 10},
		{"not synced, the disk refuses", 10, false, errors.New("refused"), 64 << 10},
		{"synced", 10, true, nil, 4 << 10},
		{"synced, large sets", 1000, true, nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			fsys := faultfs.New(crashfs.New(crashfs.Options{}))
			s, err := segment.Create(".", 0, options(segment.Options{FS: fsys, AheadBytes: 1 << 20}))
			require.NoError(t, err)
			largest := zeroWrites(t, s, fsys, row.refused)
			for first := int64(0); first < 20_000; first += row.records {
				require.NoError(t, s.Append(set(t, 1, span(first, first+row.records-1)...)))
				if row.synced {
					require.NoError(t, s.Sync())
				}
			}
			require.Equal(t, row.largest, *largest)
			require.Equal(t, span(0, 19_999), found(t, s, 0))
			require.NoError(t, s.Seal())
			require.NoError(t, s.Trim())
			require.Zero(t, ahead(t, s, fsys))
			require.NoError(t, s.Retire())
		})
	}
}
