package crashfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
)

func TestHookSeesEachOperationBeforeItHappens(t *testing.T) {
	s := newScript(t, Options{})
	var seen []string
	s.disk.OnOp(func(op Op) {
		require.Equal(t, len(seen)+1, op.N)
		seen = append(seen, op.String()+": "+show(t, s.disk.Kill(), "/"))
	})
	s.mkdir("/d/e")
	f := s.open("d/f")
	s.write(f, 'A', 0, 5)
	require.NoError(t, f.Preallocate(10))
	s.truncate(f, 7)
	m, err := f.Map(7, true)
	require.NoError(t, err)
	m.Bytes()[6] = 'M'
	require.NoError(t, m.Flush())
	require.NoError(t, m.Unmap())
	s.sync(f)
	s.rename("d/f", "d/g")
	s.syncDir("d")
	_, err = s.disk.OpenFile("d/g", os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	lock, err := s.disk.Lock("d/.lock", vfs.Exclusive)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	s.remove("d/g")
	require.Error(t, s.disk.Remove("d/g"))
	require.Equal(t, []string{
		"#1 mkdir /d: ",
		"#2 mkdir /d/e: d/",
		"#3 create d/f: d/ d/e/",
		"#4 write d/f [0,5): d/ d/e/ d/f=",
		"#5 preallocate d/f to 10: d/ d/e/ d/f=A5",
		"#6 truncate d/f to 7: d/ d/e/ d/f=A5.5",
		"#7 flush d/f: d/ d/e/ d/f=A5.1M1",
		"#8 sync d/f: d/ d/e/ d/f=A5.1M1",
		"#9 rename d/f to d/g: d/ d/e/ d/f=A5.1M1",
		"#10 sync dir d: d/ d/e/ d/g=A5.1M1",
		"#11 truncate d/g to 0: d/ d/e/ d/g=A5.1M1",
		"#12 create d/.lock: d/ d/e/ d/g=",
		"#13 remove d/g: d/ d/.lock= d/e/ d/g=",
		"#14 remove d/g: d/ d/.lock= d/e/",
	}, seen)
	require.Equal(t, 14, s.disk.Ops())

	s.disk.OnOp(nil)
	s.sync(f)
	require.Len(t, seen, 14)
}

func TestUnsyncedListsWhatMayBeLost(t *testing.T) {
	s := newScript(t, Options{})
	f := s.open("f")
	s.write(f, 'A', 0, 5)
	m, err := f.Map(5, true)
	require.NoError(t, err)
	m.Bytes()[0] = 'M'
	require.Equal(t, "[#1 create f #2 write f [0,5) #2 store f [0,5)]", fmt.Sprint(s.disk.Unsynced()))
	s.sync(f)
	require.Equal(t, "[#1 create f]", fmt.Sprint(s.disk.Unsynced()))
	s.syncDir("/")
	require.Empty(t, s.disk.Unsynced())

	g := s.open("g")
	s.write(g, 'A', 0, 5)
	s.remove("g")
	s.syncDir("/")
	require.Empty(t, s.disk.Unsynced(), "bytes without a name")
	s.write(f, 'A', 0, 5)
	s.open("h")
	s.disk.SyncAll()
	require.Empty(t, s.disk.Unsynced())
	require.Equal(t, []string{"f=A5 h="}, shown(t, s.disk, 10))
}

func TestKillKeepsWhatWasWrittenAndFreesTheLocks(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 5)
	s.write(f, 'A', 5, 5)
	_, err := s.disk.Lock(".lock", vfs.Exclusive)
	require.NoError(t, err)
	m, err := f.Map(10, true)
	require.NoError(t, err)
	m.Bytes()[9] = 'M'

	killed := s.disk.Kill()
	require.Equal(t, ".lock= f=D5A4M1", show(t, killed, "/"))
	require.Equal(t, shown(t, s.disk, 1000), shown(t, killed, 1000), "the power may still go out")
	lock, err := killed.Lock(".lock", vfs.Exclusive)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	_, err = s.disk.Lock(".lock", vfs.Exclusive)
	require.ErrorIs(t, err, vfs.ErrLocked, "the original goes on")

	s.write(f, 'B', 0, 5)
	require.Equal(t, ".lock= f=D5A4M1", show(t, killed, "/"), "on its own")
	_, err = (&script{t, killed}).open("f").WriteAt([]byte("CCC"), 0)
	require.NoError(t, err)
	require.Equal(t, ".lock= f=B5A4M1", show(t, s.disk, "/"))
}

func TestNamesAreTheSameFromTheRootOrNot(t *testing.T) {
	s := newScript(t, Options{})
	s.mkdir("log")
	s.file("/log/../log/./f", 'D', 1)
	for _, name := range []string{"log/f", "/log/f", "./log/f", "../log/f", filepath.Join("log", "f")} {
		_, err := s.disk.Stat(name)
		require.NoError(t, err, name)
	}
	info, err := s.disk.Stat("/")
	require.NoError(t, err)
	require.True(t, info.IsDir())
	for _, call := range []func() error{
		func() error { _, err := s.disk.Stat(""); return err },
		func() error { _, err := s.disk.OpenFile("", os.O_CREATE, 0); return err },
		func() error { return s.disk.MkdirAll("", 0o755) },
		func() error { return s.disk.Remove("") },
	} {
		require.ErrorIs(t, call(), fs.ErrNotExist)
	}
	require.ErrorIs(t, s.disk.Remove("/"), syscall.EBUSY)
	require.ErrorIs(t, s.disk.Rename("/", "x"), syscall.EBUSY)
	require.ErrorIs(t, s.disk.SyncDir("log/f"), syscall.ENOTDIR)
}

func TestDirectoriesAreNotFiles(t *testing.T) {
	s := newScript(t, Options{})
	s.mkdir("d/e/f")
	d, err := s.disk.OpenFile("d", os.O_RDONLY, 0)
	require.NoError(t, err)
	require.Equal(t, "d", d.Name())
	_, err = d.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EISDIR)
	_, err = d.Map(1, false)
	require.ErrorIs(t, err, syscall.ENODEV)
	require.ErrorIs(t, d.Truncate(0), syscall.EINVAL)
	require.ErrorIs(t, d.Preallocate(1), syscall.EBADF)
	_, err = s.disk.OpenFile("d", os.O_RDWR, 0)
	require.ErrorIs(t, err, syscall.EISDIR)
	require.ErrorIs(t, s.disk.Remove("d"), syscall.ENOTEMPTY)
	require.ErrorIs(t, s.disk.Rename("d", "d/e/f/g"), syscall.EINVAL)
	require.NoError(t, d.Sync(), "syncs its names")
	require.Equal(t, []string{"", "d/ d/e/", "d/ d/e/ d/e/f/"}, shown(t, s.disk, 10))
	held, err := s.disk.LockHeld("d/none")
	require.NoError(t, err)
	require.False(t, held)
	require.ErrorIs(t, s.disk.MkdirAll("d/e/f/../../x", 0o755), nil)
	s.open("file")
	require.ErrorIs(t, s.disk.MkdirAll("file/x", 0o755), syscall.ENOTDIR)
	_, err = s.disk.ReadDir("file")
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

func TestPermissionsAreThoseOfAnOrdinaryUser(t *testing.T) {
	s := newScript(t, Options{})
	f, err := s.disk.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o444)
	require.NoError(t, err)
	s.write(f, 'A', 0, 1)
	_, err = s.disk.OpenFile("f", os.O_RDWR, 0)
	require.ErrorIs(t, err, fs.ErrPermission)
	_, err = s.disk.OpenFile("f", os.O_RDONLY|os.O_TRUNC, 0)
	require.ErrorIs(t, err, fs.ErrPermission)
	_, err = s.disk.OpenFile("f", os.O_RDONLY, 0)
	require.NoError(t, err)
	_, err = s.disk.Lock("f", vfs.Exclusive)
	require.ErrorIs(t, err, fs.ErrPermission)
	lock, err := s.disk.Lock("f", vfs.Shared)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.ErrorIs(t, lock.Close(), fs.ErrClosed)

	require.NoError(t, s.disk.MkdirAll("d", 0o555))
	_, err = s.disk.OpenFile("d/f", os.O_RDWR|os.O_CREATE, 0o644)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorIs(t, s.disk.Rename("f", "d/f"), fs.ErrPermission)

	_, err = s.disk.OpenFile("g", os.O_RDWR|os.O_CREATE, 0o200)
	require.NoError(t, err)
	_, err = s.disk.OpenFile("g", os.O_RDONLY, 0)
	require.ErrorIs(t, err, fs.ErrPermission)
}

func TestModificationTimeIsTheLastChange_K063(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := newScript(t, Options{Now: func() time.Time { return now }})
	f := s.file("f", 'D', 10)
	modified := func() int64 {
		info, err := f.Stat()
		require.NoError(t, err)
		return info.ModTime().UnixMilli()
	}
	now = now.Add(time.Second)
	s.sync(f)
	s.rename("f", "g")
	_, err := s.disk.OpenFile("g", os.O_RDWR, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000, modified())
	s.truncate(f, 10)
	require.EqualValues(t, 1_001_000, modified(), "even to the length it had")
	now = now.Add(time.Second)
	s.write(f, 'A', 0, 1)
	require.EqualValues(t, 1_002_000, modified())
	for state := range s.disk.States(1, 1) {
		info, err := state.FS().Stat("f")
		require.NoError(t, err)
		require.EqualValues(t, 1_002_000, info.ModTime().UnixMilli())
		require.Nil(t, info.Sys())
	}
}

func TestFullDiskRefusesToGrowAndNothingElse_K104(t *testing.T) {
	s := newScript(t, Options{Capacity: 6 * pageSize})
	free := func() int64 {
		n, err := s.disk.FreeSpace("/")
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 5*pageSize, free(), "less the root")
	f := s.open("f")
	s.write(f, 'A', 100, 10)
	require.EqualValues(t, 3*pageSize, free())

	n, err := f.WriteAt(make([]byte, 5*pageSize), 50)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 4*pageSize-50, n, "what fits is written")
	require.Zero(t, free())
	n, err = f.WriteAt([]byte{1}, 4*pageSize)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Zero(t, n)
	require.ErrorIs(t, f.Preallocate(5*pageSize), syscall.ENOSPC)
	_, err = s.disk.OpenFile("g", os.O_RDWR|os.O_CREATE, 0o644)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, s.disk.MkdirAll("d", 0o755), syscall.ENOSPC)
	_, err = s.disk.Lock(".lock", vfs.Exclusive)
	require.ErrorIs(t, err, syscall.ENOSPC)

	s.write(f, 'B', 0, 4*pageSize) // again where it is
	s.truncate(f, 10*pageSize)     // a hole
	s.sync(f)
	s.rename("f", "h")
	s.truncate(f, pageSize)
	require.EqualValues(t, 3*pageSize, free())
	require.NoError(t, f.Preallocate(3*pageSize))
	require.EqualValues(t, pageSize, free())
	s.truncate(f, pageSize)
	s.remove("h")
	require.EqualValues(t, 3*pageSize, free(), "not while it is open")
	require.NoError(t, f.Close())
	require.EqualValues(t, 5*pageSize, free())

	s.disk.SetCapacity(0)
	require.Zero(t, free())
	s.disk.SetCapacity(100 * pageSize)
	s.open("g")
	require.EqualValues(t, 98*pageSize, free())
	for state := range s.disk.States(10, 1) {
		left, err := state.FS().FreeSpace("/")
		require.NoError(t, err)
		require.GreaterOrEqual(t, left, int64(93*pageSize))
	}
	_, err = s.disk.FreeSpace("none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestHugePositionsAreRefusedWithoutMemory(t *testing.T) {
	s := newScript(t, Options{})
	f := s.open("f")
	for _, off := range []int64{maxFile, 1<<63 - 1, 1<<63 - 10} {
		_, err := f.WriteAt(make([]byte, 10), off)
		require.ErrorIs(t, err, syscall.EFBIG)
	}
	require.ErrorIs(t, f.Preallocate(1<<50), syscall.EFBIG)
	s.truncate(f, 0)
	s.truncate(f, 1<<62)
	n, err := f.ReadAt(make([]byte, 10), 1<<61)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.Len(t, shown(t, s.disk, 0), 0)
}

func TestWindowsLikeRefusesWhatIsInUse_K107(t *testing.T) {
	s := newScript(t, Options{WindowsLike: true})
	s.mkdir("d")
	f := s.file("d/f", 'D', 10)
	require.ErrorIs(t, s.disk.Rename("d/f", "d/g"), ErrInUse)
	require.ErrorIs(t, s.disk.Rename("d", "e"), ErrInUse, "something in it is open")
	require.ErrorIs(t, s.disk.Remove("d/f"), ErrInUse)
	require.NoError(t, s.open("other").Close())
	require.ErrorIs(t, s.disk.Rename("other", "d/f"), ErrInUse)
	s.truncate(f, 5)

	_, err := f.Map(10, false)
	require.ErrorIs(t, err, syscall.EINVAL, "beyond the end")
	m, err := f.Map(20, true)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 20, info.Size(), "extended")
	require.ErrorIs(t, f.Truncate(10), vfs.ErrMapped)
	_, err = s.disk.OpenFile("d/f", os.O_RDWR|os.O_TRUNC, 0)
	require.ErrorIs(t, err, vfs.ErrMapped)
	require.NoError(t, f.Close())
	require.ErrorIs(t, s.disk.Remove("d/f"), ErrInUse, "still mapped")
	require.NoError(t, m.Unmap())

	lock, err := s.disk.Lock("d/.lock", vfs.Shared)
	require.NoError(t, err)
	require.ErrorIs(t, s.disk.Remove("d/.lock"), ErrInUse)
	require.NoError(t, lock.Close())
	s.rename("d/f", "d/g")
	s.rename("d", "e")
	s.remove("e/g")

	f = s.open("f")
	s.disk.SetCapacity(0)
	_, err = f.Map(20, true)
	require.ErrorIs(t, err, syscall.ENOSPC)
	s.disk.SetCapacity(1 << 30)
	for state := range s.disk.States(1, 1) {
		disk := state.FS()
		(&script{t, disk}).open("new")
		require.ErrorIs(t, disk.Remove("new"), ErrInUse, "options are kept")
	}
}

func TestMappingOutlivesItsFile(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	m, err := f.Map(10, true)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s.remove("f")
	require.Equal(t, "DDDDDDDDDD", string(m.Bytes()))
	m.Bytes()[0] = 'M'
	require.ErrorIs(t, m.Flush(), fs.ErrClosed, "but not to be flushed")
	require.NoError(t, m.Unmap())
	require.NoError(t, m.Unmap())
	require.NoError(t, m.Flush())
	require.Nil(t, m.Bytes())
}

func TestMappingsOfAFileShareItsBytes(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	long, err := f.Map(3*pageSize, true)
	require.NoError(t, err)
	short, err := f.Map(10, false)
	require.NoError(t, err)
	long.Bytes()[0] = 'M'
	require.EqualValues(t, 'M', short.Bytes()[0], "at once")
	s.write(f, 'A', 5, 10)
	require.Equal(t, "MDDDDAAAAA", string(short.Bytes()))
	s.truncate(f, 7)
	s.truncate(f, 10)
	require.Equal(t, "MDDDDAA\x00\x00\x00", string(short.Bytes()))

	longer, err := f.Map(4*pageSize, false)
	require.NoError(t, err)
	long.Bytes()[1] = 'N'
	require.EqualValues(t, 'D', longer.Bytes()[1])
	s.sync(f)
	require.EqualValues(t, 'N', longer.Bytes()[1], "with the next operation")
}

func TestStoresThatWouldKillTheProcessPanic(t *testing.T) {
	for _, row := range []struct {
		name string
		kill func(s *script, f vfs.File, m vfs.Mapping)
	}{
		{"the page behind the end, noticed by any operation", func(s *script, f vfs.File, m vfs.Mapping) {
			m.Bytes()[pageSize] = 1
			s.syncDir("/")
		}},
		{"beyond the end, and then preallocated", func(s *script, f vfs.File, m vfs.Mapping) {
			m.Bytes()[3*pageSize] = 1
			_ = f.Preallocate(4 * pageSize)
		}},
		{"beyond the end, and then written", func(s *script, f vfs.File, m vfs.Mapping) {
			m.Bytes()[3*pageSize+5] = 1
			_, _ = f.WriteAt([]byte{1}, 3*pageSize)
		}},
		{"beyond the end, and unmapped", func(s *script, f vfs.File, m vfs.Mapping) {
			m.Bytes()[3*pageSize] = 1
			_ = m.Unmap()
		}},
		{"a hole on a full disk", func(s *script, f vfs.File, m vfs.Mapping) {
			s.truncate(f, 2*pageSize)
			s.disk.SetCapacity(0)
			m.Bytes()[pageSize] = 1
			_ = f.Sync()
		}},
		{"a read-only mapping", func(s *script, f vfs.File, m vfs.Mapping) {
			_ = m.Unmap()
			m, _ = f.Map(10, false)
			m.Bytes()[0] = 1
			_ = f.Sync()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t, Options{})
			f := s.file("f", 'D', 10)
			m, err := f.Map(4*pageSize, true)
			require.NoError(t, err)
			require.Panics(t, func() { row.kill(s, f, m) })
		})
	}

	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	m, err := f.Map(4*pageSize, true)
	require.NoError(t, err)
	m.Bytes()[10] = 1 // in the last page, and so nowhere
	s.truncate(f, 20)
	require.Zero(t, m.Bytes()[10])
	s.truncate(f, 2*pageSize)
	m.Bytes()[pageSize] = 'M'
	require.NoError(t, m.Unmap())
	require.Equal(t, "f=D10.4086M1.4095", show(t, s.disk, "/"))
}

// TestEverythingRunsConcurrently is for the race detector: it must be silent
// about what a kernel may do beside the program, flushing a page that is being
// stored to, and still see the program's own words.
func TestEverythingRunsConcurrently(t *testing.T) {
	s := newScript(t, Options{})
	s.mkdir("d")
	f := s.file("d/f", 'D', 2*pageSize)
	m, err := f.Map(4*pageSize, true)
	require.NoError(t, err)
	s.disk.OnOp(func(op Op) {
		if op.N%50 == 0 {
			for state := range s.disk.States(5, 1) {
				require.NotEmpty(t, show(t, state.FS(), "/"))
			}
		}
	})
	var all sync.WaitGroup
	repeat := func(call func(i int) error) {
		all.Go(func() {
			for i := range 100 {
				if err := call(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	word := (*uint32)(unsafe.Pointer(&m.Bytes()[0]))
	repeat(func(i int) error { atomic.StoreUint32(word, uint32(i)); return nil })
	repeat(func(i int) error { m.Bytes()[pageSize+i] = byte(i); return nil }) // alone there
	repeat(func(int) error { atomic.LoadUint32(word); return m.Flush() })
	repeat(func(int) error { return f.Sync() })
	repeat(func(i int) error { _, err := f.WriteAt([]byte("word"), int64(8*i)); return err })
	repeat(func(i int) error { _, err := f.ReadAt(make([]byte, 5), int64(8*i)); return err })
	repeat(func(int) error { s.disk.Kill(); return nil })
	repeat(func(i int) error {
		name := fmt.Sprint("d/", i)
		g, err := s.disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		if err := g.Close(); err != nil {
			return err
		}
		return s.disk.Rename(name, name+".renamed")
	})
	repeat(func(int) error { return s.disk.SyncDir("d") })
	repeat(func(i int) error { return s.disk.MkdirAll(fmt.Sprint("e/", i%10), 0o755) })
	repeat(func(int) error {
		l, err := s.disk.Lock("d/.lock", vfs.Shared)
		if err != nil {
			return err
		}
		return l.Close()
	})
	all.Wait()
	entries, err := s.disk.ReadDir("d")
	require.NoError(t, err)
	require.Len(t, entries, 102)
}
