package vfs_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

// What is stored ahead of the end of a file is in the file; where that is not to be had
// the file stays as it is.
func TestMapAheadMapsWhatItMade(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := vfs.OS.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(bytes.Repeat([]byte{1}, 5000), 0)
	require.NoError(t, err)
	m, err := vfs.MapAhead(f, 5000, 300_001)
	info, serr := f.Stat()
	require.NoError(t, serr)
	if errors.Is(err, errors.ErrUnsupported) {
		require.EqualValues(t, 5000, info.Size())
		return
	}
	require.NoError(t, err)
	require.EqualValues(t, 300_001, info.Size())
	require.Len(t, m.Bytes(), 295_001)
	copy(m.Bytes(), "first")
	copy(m.Bytes()[294_997:], "last")
	require.NoError(t, f.Sync())
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	want := append(bytes.Repeat([]byte{1}, 5000), make([]byte, 295_001)...)
	copy(want[5000:], "first")
	copy(want[299_997:], "last")
	require.Equal(t, want, got)
	require.NoError(t, m.Unmap())
	require.NoError(t, m.Unmap())
	require.Empty(t, m.Bytes())

	_, err = vfs.MapAhead(f, 10, 10)
	require.Error(t, err)
}
