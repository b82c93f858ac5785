package compaction

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// keyed is a record to be stored in a batch of its own.
type keyed struct {
	offset int64
	key    string
}

// stored is a sealed segment that has them.
func stored(t *testing.T, dir string, base int64, all ...keyed) *segment.Segment {
	t.Helper()
	var data []byte
	for _, k := range all {
		var b record.Builder
		b.Reset(record.BuilderOptions{BaseOffset: k.offset})
		require.NoError(t, b.AppendAt(k.offset, record.Record{Timestamp: 1000, Key: []byte(k.key), Value: []byte("value")}))
		batch, err := b.Build()
		require.NoError(t, err)
		data = append(data, batch...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, layout.LogName(base)), data, 0o644))
	s := segment.Open(dir, base, options())
	t.Cleanup(func() { require.NoError(t, s.Retire()) })
	return s
}

func options() segment.Options {
	// As a reader opens it: an old broker's segment cannot be indexed.
	return segment.Options{FS: vfs.OS, IndexIntervalBytes: 4096, ReadOnly: true}
}

// cleanedInto are the records of the segments that a group became, by base offset.
func cleanedInto(t *testing.T, dir string, g Group) map[int64][]keyed {
	t.Helper()
	all := map[int64][]keyed{}
	for _, base := range g.Bases {
		all[base] = []keyed{}
		o := options()
		o.Suffix = layout.CleanedSuffix
		s := segment.Open(dir, base, o)
		require.NoError(t, s.Acquire())
		var c segment.Scanner
		c.Reset(s, 0, s.View().Size)
		for {
			b, err := c.Checked()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			for r, err := range b.Records(nil) {
				require.NoError(t, err)
				all[base] = append(all[base], keyed{r.Offset, string(r.Key)})
			}
			require.LessOrEqual(t, b.LastOffset()-base, int64(1<<31-1))
			c.Advance()
		}
		if v := s.View(); v.Size > 0 && v.Time != nil {
			last, ok := v.Time.Last()
			require.True(t, ok, "it is sealed")
			require.EqualValues(t, 1000, last.Timestamp)
		}
		s.Release()
		require.NoError(t, s.Retire())
	}
	return all
}

// Row 336, K013: what is left of a group goes to a second segment where offsets, or
// bytes, do not fit the first, whether anything else changes or not.
func TestAGroupThatDoesNotFitOneSegmentBecomesTwo_336(t *testing.T) {
	const far = int64(1) << 31
	for _, row := range []struct {
		name    string
		records []keyed
		bytes   int64
		want    map[int64][]keyed
	}{
		{"offsets, and nothing is dropped", []keyed{{0, "a"}, {5, "b"}, {far + 10, "c"}, {far + 12, "d"}}, segment.MaxBytes,
			map[int64][]keyed{0: {{0, "a"}, {5, "b"}}, far + 10: {{far + 10, "c"}, {far + 12, "d"}}}},
		{"offsets, and something is", []keyed{{0, "a"}, {5, "b"}, {far + 10, "a"}, {far + 12, "d"}}, segment.MaxBytes,
			map[int64][]keyed{0: {{5, "b"}}, far + 10: {{far + 10, "a"}, {far + 12, "d"}}}},
		{"the last offset that fits", []keyed{{0, "a"}, {far - 1, "b"}, {far, "c"}}, segment.MaxBytes,
			map[int64][]keyed{0: {{0, "a"}, {far - 1, "b"}}, far: {{far, "c"}}}},
		{"nothing is left of the first", []keyed{{0, "a"}, {far + 10, "a"}}, segment.MaxBytes,
			map[int64][]keyed{0: {}, far + 10: {{far + 10, "a"}}}},
		{"only what is far is left of the second", []keyed{{0, "a"}, {far + 10, "b"}, {far + 12, "b"}}, segment.MaxBytes,
			map[int64][]keyed{0: {{0, "a"}}, far + 12: {{far + 12, "b"}}}},
		{"three times", []keyed{{0, "a"}, {far, "b"}, {2*far + 5, "c"}}, segment.MaxBytes,
			map[int64][]keyed{0: {{0, "a"}}, far: {{far, "b"}}, 2*far + 5: {{2*far + 5, "c"}}}},
		{"bytes", []keyed{{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}, {4, "e"}}, 170,
			map[int64][]keyed{0: {{0, "a"}, {1, "b"}}, 2: {{2, "c"}, {3, "d"}}, 4: {{4, "e"}}}},
		{"bytes, and something is dropped", []keyed{{0, "a"}, {1, "b"}, {2, "a"}, {3, "d"}}, 170,
			map[int64][]keyed{0: {{1, "b"}, {2, "a"}}, 3: {{3, "d"}}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			next := row.records[len(row.records)-1].offset + 1
			s := stored(t, dir, 0, row.records...)
			modified := time.UnixMilli(1_600_000_000_000)
			require.NoError(t, os.Chtimes(s.LogPath(), modified, modified))
			c, err := New(Options{MapBytes: 1 << 16})
			require.NoError(t, err)
			c.segmentBytes = row.bytes
			swaps := 0
			o := options()
			o.ReadOnly = false
			res, err := c.Clean(t.Context(), Round{
				Dir: dir, Segment: o, Sources: []*segment.Segment{s}, Next: next, FirstUncleanable: next,
				SegmentBytes: 1 << 30, IndexBytes: 1 << 20, Now: time.Now(),
			}, func(g Group) error {
				swaps++
				require.Equal(t, row.want, cleanedInto(t, dir, g))
				require.True(t, len(g.Bases) > 1 && g.Bases[0] == 0)
				for _, base := range g.Bases {
					fi, err := os.Stat(filepath.Join(dir, layout.LogName(base)+layout.CleanedSuffix))
					require.NoError(t, err)
					require.Equal(t, modified, fi.ModTime(), "it is as old as what it was made of")
				}
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, 1, swaps)
			require.Equal(t, next, res.End)
		})
	}
}

// Whatever ends a round leaves nothing of what it has written, also where that was two
// segments.
func TestARoundThatFailsLeavesNoPartOfItsSegments(t *testing.T) {
	dir := t.TempDir()
	records := []keyed{}
	for i := range int64(6) {
		records = append(records, keyed{i, fmt.Sprint("k", i)})
	}
	s := stored(t, dir, 0, records...)
	path := filepath.Join(dir, layout.LogName(0))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	c, err := New(Options{MapBytes: 1 << 16, Progress: func(p Progress) {
		if p.Rewriting { // and the last batch is damaged
			data[len(data)-1] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
	}})
	require.NoError(t, err)
	c.segmentBytes = 170
	o := options()
	o.ReadOnly = false
	_, err = c.Clean(t.Context(), Round{
		Dir: dir, Segment: o, Sources: []*segment.Segment{s}, Next: 6, FirstUncleanable: 6,
		SegmentBytes: 1 << 30, IndexBytes: 1 << 20, Now: time.Now(),
	}, func(Group) error { return errors.New("it is not to be swapped") })
	var damage *segment.CorruptionError
	require.ErrorAs(t, err, &damage)
	left, err := filepath.Glob(filepath.Join(dir, "*"+layout.CleanedSuffix))
	require.NoError(t, err)
	require.Empty(t, left)
}
