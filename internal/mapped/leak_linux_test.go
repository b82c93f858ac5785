package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
)

// requireHeld wants this process to hold so many mappings and open files in dir.
// Those of removed files count too.
func requireHeld(t *testing.T, dir string, mappings, files int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.Equal(t, mappings, strings.Count(string(maps), dir+"/"), "mappings")

	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	held := 0
	for _, f := range open {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(name, dir+"/") {
			held++
		}
	}
	require.Equal(t, files, held, "open files")
}

func TestTablesThatEndHoldNothing_K106(t *testing.T) {
	dir := t.TempDir()
	path, o := filepath.Join(dir, "table"), Options{MaxBytes: 4096}
	for i := range 5000 {
		table, err := Create(path, layout, o)
		require.NoError(t, err)
		fill(t, table, 3)
		require.NoError(t, table.Trim()) // a roll
		if i%500 == 0 {
			requireHeld(t, dir, 1, 1)
		}
		require.NoError(t, table.Close())
		require.NoError(t, os.Remove(path)) // retention
	}
	requireHeld(t, dir, 0, 0)
}

func TestReopenedTablesHoldNothingOnceClosed_K106(t *testing.T) {
	table, path := filled(t, 3, Options{})
	require.NoError(t, table.Close())
	for i := range 500 {
		reader, err := OpenReadOnly(path, layout, Options{})
		require.NoError(t, err)
		writer, err := Open(path, layout, Options{})
		require.NoError(t, err)
		if i%100 == 0 {
			requireHeld(t, filepath.Dir(path), 2, 1) // a reader keeps no file open
		}
		require.NoError(t, reader.Close())
		require.NoError(t, writer.Drop())
	}
	requireHeld(t, filepath.Dir(path), 0, 0)
}

func TestResizingHoldsOneMapping_K106(t *testing.T) {
	table, path := filled(t, 0, Options{})
	for i := range 1000 {
		fill(t, table, 10*i)
		require.NoError(t, table.Trim())
		require.NoError(t, table.Grow())
		if i%100 == 0 {
			requireHeld(t, filepath.Dir(path), 1, 1)
		}
	}
	require.NoError(t, table.Close())
	requireHeld(t, filepath.Dir(path), 0, 0)
}

func TestFailuresHoldNothing_K106(t *testing.T) {
	refused := errors.New("refused")
	dir := t.TempDir()
	path := filepath.Join(dir, "table")
	for _, row := range []struct {
		name string
		file []byte
		fs   *hookFS
	}{
		{"odd length", slots(1, 2)[:13], &hookFS{FS: vfs.OS}},
		{"last entry below the first", slots(5, 1, 2), &hookFS{FS: vfs.OS}},
		{"zeros that cannot be cut", slots(1, 2, 0, 0), &hookFS{FS: vfs.OS, truncate: func(int64) error { return refused }}},
		{"no mapping", slots(1, 2), &hookFS{FS: vfs.OS, mapFile: func(vfs.File, int, bool) (vfs.Mapping, error) { return nil, refused }}},
		{"no writable mapping", slots(1, 2), &hookFS{FS: vfs.OS, mapFile: func(f vfs.File, length int, writable bool) (vfs.Mapping, error) {
			if writable {
				return nil, refused
			}
			return f.Map(length, writable)
		}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, row.file, 0o644))
			for range 100 {
				_, err := Open(path, layout, Options{FS: row.fs})
				require.Error(t, err)
			}
			requireHeld(t, dir, 0, 0)
		})
	}
}

func TestFaultedTablesHoldNothingOnceClosed_K106(t *testing.T) {
	inChild(t, func(t *testing.T) {
		for range 100 {
			table, path := filled(t, 3, Options{})
			require.NoError(t, os.Truncate(path, 0))
			requireFault(t, table, table.Reserve())
			requireHeld(t, filepath.Dir(path), 1, 1)
			require.NoError(t, table.Close())
			requireHeld(t, filepath.Dir(path), 0, 0)
		}
	})
}
