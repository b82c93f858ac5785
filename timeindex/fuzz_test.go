package timeindex_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seglog/seglog/timeindex"
	"github.com/stretchr/testify/require"
)

func seeds(f *testing.F) {
	f.Helper()
	for _, text := range []string{
		"",
		"0: 0000000000000000 00000000",
		"0: 0000000000000000 00000000 0000000000000000 00000000",
		"0: 0000000000000001 00000001 0000000000000002 00000002 01",
		"0: 0000019b76daa800 00000009 0000019b76daa801 00000013 0000019b76daa802 0000001d",
		"0: 0000019b76daa800 00000009 0000019b76daa801 00000013 0000000000000000 00000000",
		"0: 0000019b76daa800 00000009 0000000000000000 00000000 0000019b76daa801 00000013",
		"0: 0000000000000009 00000001 0000000000000004 ffffffff",
		"0: 7fffffffffffffff 7fffffff 8000000000000000 80000000",
	} {
		f.Add(unhex(f, text))
	}
}

// FuzzOpenTimeIndex opens arbitrary bytes for reading. It never panics and never
// changes the file; a look-up answers with an entry at or below its target, or
// with {-1, base}; and what Check accepts re-encodes to the same bytes.
func FuzzOpenTimeIndex(f *testing.F) {
	seeds(f)
	const base = 50
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "00000000000000000050.timeindex")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		x, err := timeindex.OpenReadOnly(path, base, timeindex.Options{})
		require.NoError(t, err)
		for _, target := range []int64{-1 << 63, -1, 0, base, base + 20, 1767225600001, 1<<63 - 1} {
			e := x.Lookup(target)
			require.True(t, e.Offset >= base && e.Timestamp >= -1 && e.Timestamp <= max(target, -1), "Lookup(%d) = %v", target, e)
			e = x.LookupOffset(target)
			require.True(t, e.Offset >= base && e.Offset <= max(target, base), "LookupOffset(%d) = %v", target, e)
		}
		x.Last()
		entries := entriesOf(x)
		require.Equal(t, len(data)/12, len(entries)+x.Padding())
		if x.Check() == nil {
			again := filepath.Join(dir, "again.timeindex")
			require.NoError(t, timeindex.Rebuild(again, base, slices.Values(entries), timeindex.Options{}))
			got, err := os.ReadFile(again)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data[:len(entries)*12], got))
		}
		require.NoError(t, x.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
	})
}

// FuzzOpen opens arbitrary bytes for appending. It never panics; what it refuses
// is left alone; otherwise entries can be removed and added, and closing leaves
// the entries and nothing else. A zero key at the end counts as a fault.
func FuzzOpen(f *testing.F) {
	seeds(f)
	const base = 50
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "00000000000000000050.timeindex")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		x, err := timeindex.Open(path, base, timeindex.Options{MaxBytes: 120})
		if err != nil {
			var corrupt *timeindex.CorruptError
			require.ErrorAs(t, err, &corrupt)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
			return
		}
		entries := entriesOf(x)
		require.LessOrEqual(t, len(entries)*12, len(data))
		for _, e := range entries[len(entries)/2:] {
			require.NoError(t, x.TruncateTo(e.Offset))
		}
		count := x.Len()
		require.True(t, slices.Equal(entries[:count], entriesOf(x)))
		if err := x.MaybeAppend(1<<63-1, base+1<<31-1, true); err == nil {
			last, _ := x.Last()
			require.Equal(t, int64(1<<63-1), last.Timestamp)
			count = x.Len()
		}
		require.Equal(t, count, x.Len())
		if x.Faulted() {
			require.True(t, count > 1 && entries[count-1].Timestamp == 0)
			require.NoError(t, x.Drop())
			return
		}
		require.NoError(t, x.Sync())
		require.NoError(t, x.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, got, count*12)
	})
}
