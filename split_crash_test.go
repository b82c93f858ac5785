package seglog_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// KIP-263: a segment with more offsets than its indexes can tell is split when it is
// recovered. The power goes out before every step of it.
func TestASplitSurvivesAPowerCut(t *testing.T) {
	const far = math.MaxInt32
	for _, row := range []struct {
		name     string
		segments map[int64][]int64 // offsets of the batches in each segment
		split    []int64
	}{
		{"the only segment", map[int64][]int64{0: {0, 5, far + 10, far + 11, 2*far + 20}}, []int64{0}},
		{"with one behind it", map[int64][]int64{0: {3, far, far + 4, far + 5}, 3 * far: {3*far + 1, 3*far + 2}}, []int64{0}},
		{"between others", map[int64][]int64{0: {0, 1}, 10: {10, far + 12, 2*far + 14, 3*far + 16}, 4 * far: {4 * far}}, []int64{10}},
		{"two of them", map[int64][]int64{0: {0, far + 1}, 2 * far: {2 * far, 3*far + 2}, 4 * far: {4 * far}}, []int64{0, 2 * far}},
		{"with nothing below", map[int64][]int64{0: {far + 1, far + 2}, 4 * far: {4 * far}}, []int64{0}},
		{"with an empty one behind it", map[int64][]int64{0: {0, far + 1}, 2 * far: {}}, []int64{0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			disk := logtest.NewDisk(logtest.DiskOptions{})
			var want []int64
			for base, offsets := range row.segments {
				var content []byte
				for _, o := range offsets {
					content = append(content, plainBatch(t, o, o)...)
				}
				want = append(want, offsets...)
				require.NoError(t, disk.WriteFile(segmentFile("log", base, ".log"), content))
			}
			disk.SyncAll()
			states := 0
			disk.OnCrash(*crashStates/8, 1, nil, func(c logtest.Crash) {
				states++
				requireSplit(t, c.Disk, want, c.String())
			})
			l, err := seglog.Open("log", splittable(disk))
			require.NoError(t, err)
			require.Equal(t, row.split, stats(t, l).Recovery.Split)
			require.NoError(t, l.Close())
			disk.OnOp(nil)
			requireSplit(t, disk, want, "undisturbed")
			t.Logf("%d disk states", states)
		})
	}
}

func splittable(disk *logtest.Disk) seglog.Options {
	return seglog.Options{FS: disk.FS(), SegmentIndexBytes: 256, IndexIntervalBytes: 1}
}

// requireSplit opens a log, in which every offset must be found, appends to it and
// checks what is then on the disk.
func requireSplit(t *testing.T, disk *logtest.Disk, want []int64, what string) {
	l, err := seglog.Open("log", splittable(disk))
	require.NoError(t, err, what)
	found := []int64{}
	for r, err := range l.Records(context.Background(), l.Offsets().Start, nil) {
		require.NoError(t, err, what)
		found = append(found, r.Offset)
		got, err := l.Get(r.Offset)
		require.NoError(t, err, what)
		require.Equal(t, r.Value, got.Value, what)
	}
	require.ElementsMatch(t, want, found, what)
	at, err := l.Append(many(1, 1), nil)
	require.NoError(t, err, what)
	require.Greater(t, at.BaseOffset, found[len(found)-1], what)
	require.NoError(t, l.Close(), what)
	report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: disk.FS(), Jobs: 1})
	require.NoError(t, err, what)
	require.Zero(t, report.Damage, "%s: %v", what, report.Problems)
	for _, p := range report.Problems {
		require.NotEqual(t, "leftover", p.Kind, "%s: %s", what, p)
	}
}
