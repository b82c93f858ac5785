package seglog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// dirtyLog has so many clean and dirty segments.
func dirtyLog(t *testing.T, dir string, opts seglog.Options, clean, dirty int) *seglog.Log {
	t.Helper()
	l := openLog(t, dir, opts)
	fill := func(n int, what string) {
		for i := range n {
			put(t, l, fmt.Sprint(what, i), "value")
			rollLog(t, l)
		}
	}
	if clean > 0 {
		fill(clean, "clean")
		compact(t, l, nil)
	}
	fill(dirty, "dirty")
	return l
}

// Rows 342, 347: the dirtiest of those that are due is cleaned first.
func TestTheDirtiestLogIsCleanedFirst(t *testing.T) {
	root := t.TempDir()
	opts := compacted
	opts.MinCleanableDirtyRatio = 0.5
	a := dirtyLog(t, filepath.Join(root, "a"), opts, 4, 6)
	b := dirtyLog(t, filepath.Join(root, "b"), opts, 1, 9)
	little := dirtyLog(t, filepath.Join(root, "little"), opts, 6, 1)
	deletes := openLog(t, filepath.Join(root, "deletes"), quick)
	put(t, deletes, "k", "v")
	rollLog(t, deletes)
	closed := dirtyLog(t, filepath.Join(root, "closed"), opts, 0, 9)
	closeLog(t, closed)
	paused := dirtyLog(t, filepath.Join(root, "paused"), opts, 0, 9)
	paused.PauseCompaction()
	logs := []*seglog.Log{a, little, deletes, closed, b, paused}

	c, err := seglog.NewCleaner(seglog.CleanerOptions{})
	require.NoError(t, err)
	for _, want := range []*seglog.Log{b, a, nil, nil} {
		got, err := c.CleanWorst(t.Context(), logs)
		require.NoError(t, err)
		require.Same(t, want, got)
	}
	s := c.Stats()
	require.EqualValues(t, 2, s.Runs)
	require.Zero(t, s.Failed)
	require.EqualValues(t, 20, s.Kept.Records)
	paused.ResumeCompaction()
	got, err := c.CleanWorst(t.Context(), logs)
	require.NoError(t, err)
	require.Same(t, paused, got)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.CleanWorst(ctx, logs)
	require.ErrorIs(t, err, context.Canceled)
}

// Row 342: a log that is being cleaned by others is passed over.
func TestALogThatIsBeingCleanedIsPassedOver_342(t *testing.T) {
	root := t.TempDir()
	a := dirtyLog(t, filepath.Join(root, "a"), compacted, 0, 9)
	b := dirtyLog(t, filepath.Join(root, "b"), compacted, 4, 6)
	c, err := seglog.NewCleaner(seglog.CleanerOptions{})
	require.NoError(t, err)
	var meanwhile []*seglog.Log
	_, err = a.Compact(t.Context(), &seglog.CompactOptions{Progress: func(p seglog.CompactProgress) {
		l, err := c.CleanWorst(t.Context(), []*seglog.Log{a, b})
		require.NoError(t, err)
		meanwhile = append(meanwhile, l)
	}})
	require.NoError(t, err)
	require.Equal(t, []*seglog.Log{b, nil}, meanwhile)
}

// K002: a log that cannot be cleaned does not keep the others dirty.
func TestALogThatCannotBeCleanedIsSetAside_K002(t *testing.T) {
	root := t.TempDir()
	bad := dirtyLog(t, filepath.Join(root, "bad"), compacted, 0, 9)
	closeLog(t, bad)
	edit(t, segmentFile(bad.Dir(), 0, ".log"), func(data []byte) []byte { data[70] ^= 1; return data })
	before := logFiles(t, bad.Dir())
	bad = openLog(t, bad.Dir(), compacted)
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := compactableOptions(disk)
	opts.MinCompactionLag = 1
	sick, err := seglog.Open("sick", opts)
	require.NoError(t, err)
	put(t, sick, "k", "v")
	rollLog(t, sick)
	require.NoError(t, sick.Close())
	sick, err = seglog.Open("sick", opts)
	require.NoError(t, err)
	disk.Fail(logtest.Calls{Kind: logtest.OpenFile, Name: "*.log"}, syscall.EIO)
	good := dirtyLog(t, filepath.Join(root, "good"), compacted, 1, 2)

	c, err := seglog.NewCleaner(seglog.CleanerOptions{})
	require.NoError(t, err)
	logs := []*seglog.Log{bad, sick, good}
	got, err := c.CleanWorst(t.Context(), logs)
	require.NoError(t, err)
	require.Same(t, good, got)
	s := c.Stats()
	require.EqualValues(t, 2, s.Failed)
	var damage *seglog.CorruptionError
	require.ErrorAs(t, s.Uncleanable[bad.Dir()], &damage)
	require.EqualValues(t, 0, damage.FirstOffset)
	require.ErrorIs(t, s.Uncleanable["sick"], syscall.EIO)
	require.Equal(t, before, logFiles(t, bad.Dir()))

	disk.Heal()
	got, err = c.CleanWorst(t.Context(), logs)
	require.NoError(t, err)
	require.Nil(t, got)
	c.Retry(sick)
	got, err = c.CleanWorst(t.Context(), logs)
	require.NoError(t, err)
	require.Same(t, sick, got)
	require.NoError(t, sick.Close())
}
