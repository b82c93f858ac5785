package vfs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPreallocateTakesRealBlocks_K104(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	require.NoError(t, f.Truncate(1<<20)) // a hole
	require.NoError(t, f.Preallocate(2<<20))
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, info.Size())
	require.GreaterOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(2<<20))
}

func TestPreallocateRestoresTheLengthWhenItFails(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	require.NoError(t, f.Preallocate(5000))
	err := f.Preallocate(1 << 62)     // more than any file system's largest file
	if !errors.Is(err, unix.ENOSPC) { // so says one in memory
		require.ErrorIs(t, err, unix.EFBIG)
	}
	require.ErrorContains(t, err, f.Name())
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 5000, info.Size())
}

func TestMappingBeyondTheEndBecomesUsableAsTheFileGrows(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	m, err := f.Map(1<<20, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Unmap()) }()
	for _, size := range []int64{4096, 64 << 10, 1 << 20} {
		require.NoError(t, f.Preallocate(size))
		m.Bytes()[size-1] = byte(size >> 12)
		require.NoError(t, m.Flush())
		got := make([]byte, 1)
		_, err := ReadFull(f, got, size-1)
		require.NoError(t, err)
		require.Equal(t, byte(size>>12), got[0])
	}
	require.NoError(t, f.Truncate(4096))
	require.Equal(t, byte(1), m.Bytes()[4095], "what is left stays readable")
}

func TestUnmapReleasesMemoryAtOnce_K106(t *testing.T) {
	name := filepath.Join(t.TempDir(), "0.index")
	f := create(t, name)
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Count(string(maps), name)
	}
	for range 100 {
		m, err := f.Map(1<<20, true)
		require.NoError(t, err)
		require.Equal(t, 1, mappings())
		require.NoError(t, m.Unmap())
	}
	require.Zero(t, mappings())
}

// A JVM's FileChannel.tryLock is an fcntl lock of the whole file.
func TestLockConflictsWithFcntlLocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	lock, err := OS.Lock(name, Exclusive)
	require.NoError(t, err)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	request := wholeFile(Exclusive)
	require.ErrorIs(t, fcntl(f, unix.F_SETLK, &request), unix.EAGAIN)

	require.NoError(t, lock.Close())
	request = wholeFile(Exclusive)
	require.NoError(t, fcntl(f, unix.F_SETLK, &request))
	// Once only: closing its descriptor drops this process's fcntl locks, which
	// is why Lock does not use them.
	requireLocked(t, name, Exclusive, os.Getpid())
}

func TestAMappingThatDoesNotFitSaysWhatMayBeFull(t *testing.T) {
	f, err := OS.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	defer f.Close()
	for range 2 { // of 4 GiB, half may be had
		var m Mapping
		if m, err = f.Map(math.MaxInt-os.Getpagesize()+1, false); err == nil {
			defer m.Unmap()
		}
	}
	require.ErrorIs(t, err, unix.ENOMEM)
	require.ErrorContains(t, err, "vm.max_map_count")
}

func TestResidentTellsWhatIsInMemory(t *testing.T) {
	page := os.Getpagesize()
	f := create(t, filepath.Join(t.TempDir(), "f"))
	_, err := WriteFull(f, make([]byte, 10*page), 0)
	require.NoError(t, err)
	m, err := f.Map(400*page, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Unmap()) }()
	b := m.Bytes()
	require.True(t, Resident(nil))
	require.True(t, Resident(b[:10*page]), "it was just written")
	require.True(t, Resident(b[page-1:page+1]), "parts of two pages")
	require.False(t, Resident(b[:10*page+1]), "beyond the end of the file")
	require.False(t, Resident(b[9*page:12*page]), "beyond the end of the file")
	require.False(t, Resident(b), "more than it looks at")
	require.NoError(t, f.Truncate(400*int64(page)))
	require.False(t, Resident(b[:20*page]), "a hole that nobody has read")
	require.Zero(t, testing.AllocsPerRun(10, func() { Resident(b[:page]) }))
}
