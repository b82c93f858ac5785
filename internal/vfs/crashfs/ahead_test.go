package crashfs_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
)

func TestAWindowOfAFileIsTheFile(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{1}, 5000), 0)
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir("."))
	whole, err := f.Map(5000, false)
	require.NoError(t, err)
	window, err := vfs.MapAhead(f, 5000, 20_000)
	require.NoError(t, err)
	require.Len(t, window.Bytes(), 15_000)
	copy(window.Bytes()[10:], "through memory")
	got := make([]byte, 14)
	_, err = f.ReadAt(got, 5010)
	require.NoError(t, err)
	require.Equal(t, "through memory", string(got))
	_, err = f.WriteAt([]byte("by a call"), 9000)
	require.NoError(t, err)
	require.Equal(t, "by a call", string(window.Bytes()[4000:4009]))
	_, err = f.WriteAt([]byte{7}, 4990) // below the window, in its first page
	require.NoError(t, err)
	require.EqualValues(t, 7, whole.Bytes()[4990])

	require.NoError(t, f.Truncate(6000))
	require.Equal(t, make([]byte, 9), window.Bytes()[4000:4009], "what is cut off is gone")
	require.NoError(t, f.Truncate(20_000))
	require.NoError(t, window.Unmap())
	require.NoError(t, whole.Unmap())
	require.NoError(t, f.Sync())
	for state := range fsys.States(10, 1) {
		require.Equal(t, "through memory", string(read(t, state.FS(), "log")[5010:5024]))
	}
}

// A disk may have a page that was stored to later, and not one that was stored to before.
func TestPagesOfAWindowAreLostInAnyMix(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir("."))
	window, err := vfs.MapAhead(f, 0, 3*4096)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	for i := range 3 {
		window.Bytes()[i*4096] = 1
		fsys.Unsynced() // notices each alone
	}
	mixes := map[[3]byte]bool{}
	for state := range fsys.States(100, 1) {
		b := read(t, state.FS(), "log")
		mixes[[3]byte{b[0], b[4096], b[8192]}] = true
	}
	require.Len(t, mixes, 8)
	require.NoError(t, window.Unmap())
}

func TestAWindowNeedsSpace(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{Capacity: 40_000})
	f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = vfs.MapAhead(f, 0, 100_000)
	require.True(t, vfs.IsNoSpace(err), "%v", err)

	windows := crashfs.New(crashfs.Options{WindowsLike: true})
	f, err = windows.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = vfs.MapAhead(f, 0, 4096)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func read(t *testing.T, fsys *crashfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	require.NoError(t, err)
	return b
}
