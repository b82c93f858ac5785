package index_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seglog/seglog/index"
	"github.com/stretchr/testify/require"
)

func seeds(f *testing.F) {
	f.Helper()
	for _, text := range []string{
		"",
		"0: 00000000 00000000",
		"0: 00000000 00000000 00000000 00000000",
		"0: 00000001 00000000 00000002 01",
		"0: 00000009 00001000 00000013 00002000 0000001d 00003000",
		"0: 00000009 00001000 00000013 00002000 00000000 00000000",
		"0: 00000009 00001000 00000000 00000000 00000013 00002000",
		"0: 00000009 00001000 ffffffff 00002000",
		"0: 7fffffff 7fffffff 80000000 80000000",
	} {
		f.Add(unhex(f, text))
	}
}

// FuzzOpenIndex opens arbitrary bytes for reading. It never panics and never
// changes the file; a look-up answers with an entry at or below its target, or
// with base; and what Check accepts re-encodes to the same bytes.
func FuzzOpenIndex(f *testing.F) {
	seeds(f)
	const base = 50
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "00000000000000000050.index")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		x, err := index.OpenReadOnly(path, base, index.Options{})
		require.NoError(t, err)
		for _, target := range []int64{-1, base, base + 1, base + 20, base + 1<<31, 1<<63 - 1} {
			e := x.Lookup(target)
			require.GreaterOrEqual(t, e.Position, int64(0))
			require.True(t, e.Offset >= base && e.Offset <= max(target, base), "Lookup(%d) = %v", target, e)
			x.UpperBound(target)
		}
		x.Last()
		entries := entriesOf(x)
		require.Equal(t, len(data)/8, len(entries)+x.Padding())
		if x.Check() == nil {
			again := filepath.Join(dir, "again.index")
			y, err := index.Create(again, base, index.Options{})
			require.NoError(t, err)
			appendAll(t, y, entries...)
			require.NoError(t, y.Close())
			got, err := os.ReadFile(again)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data[:len(entries)*8], got))
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
		path := filepath.Join(dir, "00000000000000000050.index")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		x, err := index.Open(path, base, index.Options{MaxBytes: 80})
		if err != nil {
			var corrupt *index.CorruptError
			require.ErrorAs(t, err, &corrupt)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
			return
		}
		entries := entriesOf(x)
		require.LessOrEqual(t, len(entries)*8, len(data))
		for _, e := range entries[len(entries)/2:] {
			require.NoError(t, x.TruncateTo(e.Offset))
		}
		count := x.Len()
		require.True(t, slices.Equal(entries[:count], entriesOf(x)))
		if last, ok := x.Last(); !ok || last.Offset < base+1<<31-1 {
			if err := x.Append(x.LastOffset()+1, 1<<31-1); err == nil {
				count++
			}
		}
		require.Equal(t, count, x.Len())
		if x.Faulted() {
			require.True(t, count > 1 && entries[count-1].Offset == base)
			require.NoError(t, x.Drop())
			return
		}
		require.NoError(t, x.Sync())
		require.NoError(t, x.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, got, count*8)
	})
}
