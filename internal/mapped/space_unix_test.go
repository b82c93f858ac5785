//go:build unix

package mapped

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limitFiles changes how far the files of this process may grow.
func limitFiles(t *testing.T, change func(*unix.Rlimit)) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	change(&limit)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
}

func unlimited(limit *unix.Rlimit) { limit.Cur = limit.Max }

// A limit on file size stops a file as a full disk does, in the same system
// calls, and needs no disk.
func TestFileThatCannotGrowIsAnErrorOfAppend_K104(t *testing.T) {
	inChild(t, func(t *testing.T) {
		table, path := filled(t, 0, Options{})
		limitFiles(t, func(limit *unix.Rlimit) { limit.Cur = 40_000 })
		var err error
		for err == nil {
			n := uint32(table.Len() + 1)
			err = table.Append(n, n>>16, n<<16)
		}
		const count = 32760 / 12 // the last step that fits
		require.ErrorIs(t, err, unix.EFBIG)
		require.ErrorContains(t, err, path)
		require.ErrorIs(t, table.Reserve(), unix.EFBIG)
		require.False(t, table.Faulted())
		requireFilled(t, table, count)
		require.NoError(t, table.Check())
		require.EqualValues(t, count*12, fileLength(path), "nothing half-made is left")

		// What needs no room works.
		require.NoError(t, table.Sync())
		require.NoError(t, table.TruncateTo(count-1))
		require.NoError(t, table.Append(count, 0, count<<16))
		require.NoError(t, table.Trim())
		require.NoError(t, table.Grow())
		require.ErrorIs(t, table.Reserve(), unix.EFBIG)

		// So does what needed it, once it is there.
		limitFiles(t, unlimited)
		fill(t, table, 2*count)
		requireFilled(t, table, 2*count)
		require.NoError(t, table.Close())
	})
}

func TestNewFileWithoutAnyRoom_K104(t *testing.T) {
	inChild(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table")
		limitFiles(t, func(limit *unix.Rlimit) { limit.Cur = 0 })
		table, err := Create(path, layout, Options{})
		require.NoError(t, err, "an empty file takes none")
		require.ErrorIs(t, table.Append(1, 0, 1<<16), unix.EFBIG)
		require.Zero(t, table.Len())
		require.NoError(t, table.Close())
		require.Zero(t, fileLength(path))

		table, err = Open(path, layout, Options{})
		require.NoError(t, err)
		require.ErrorIs(t, table.Reserve(), unix.EFBIG)
		limitFiles(t, unlimited)
		require.NoError(t, table.Append(1, 0, 1<<16))
		requireFilled(t, table, 1)
		require.NoError(t, table.Close())
	})
}
