package logtest_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

func TestEveryCrashOfAWorkloadIsTried(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	var m logtest.Model
	var killed, lost int
	kinds := map[logtest.Kind]bool{}
	disk.OnCrash(20, 1, &m, func(c logtest.Crash) {
		kinds[c.Before.Kind] = true
		if c.Killed {
			killed++
		} else {
			lost++
		}
		l := open(t, c.Disk)
		require.NoError(t, c.Check(t.Context(), l), c)
		require.NoError(t, l.Close())
		require.Zero(t, c.Disk.Open()+c.Disk.Mapped()+c.Disk.Locked())
		require.Contains(t, c.String(), "crash before #")
	})
	l := open(t, disk)
	for i := range int64(8) {
		_, err := m.Append(l, batch(2*i, 2), &seglog.AppendOptions{Sync: ptr(seglog.SyncPolicy(i % 2))})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	disk.OnOp(nil)
	require.Equal(t, disk.Ops(), killed)
	require.Greater(t, lost, 5*killed)
	for _, kind := range []logtest.Kind{logtest.Create, logtest.Mkdir, logtest.Write, logtest.Sync, logtest.SyncDir, logtest.Rename, logtest.Preallocate} {
		require.True(t, kinds[kind], kind)
	}
	_ = open(t, disk.Kill())
}

// What a disk that loses unsynced bytes shows of a program that does not wait for
// them: the check of a crash finds the broken promise.
func TestABrokenPromiseIsFound(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	var m logtest.Model
	broken := 0
	disk.OnCrash(20, 1, &m, func(c logtest.Crash) {
		l := open(t, c.Disk)
		if err := c.Check(t.Context(), l); err != nil {
			require.ErrorContains(t, err, "must be there")
			require.False(t, c.Killed)
			broken++
		}
	})
	l := open(t, disk)
	for i := range int64(3) {
		a := m.Attempt(i, batch(i, 1)...)
		_, err := l.Append(batch(i, 1), &seglog.AppendOptions{Sync: ptr(seglog.SyncNever)})
		require.NoError(t, err)
		a.Appended(i)
		a.Durable() // it is not
	}
	require.NoError(t, l.Close())
	require.Positive(t, broken)
}

func TestStatesAreFixedWhenTheyAreAskedFor(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	require.NoError(t, disk.WriteFile("d/f", []byte("old")))
	disk.SyncAll()
	require.NoError(t, disk.WriteFile("d/f", []byte("new")))
	states := disk.States(100, 1)
	require.NoError(t, disk.WriteFile("d/f", []byte("newest")))
	found := map[string]bool{}
	for s := range states {
		content, err := s.ReadFile("d/f")
		require.NoError(t, err)
		found[string(content)] = true
		require.Contains(t, s.String(), "crash state")
	}
	require.True(t, found["old"])
	require.True(t, found["new"])
	require.False(t, found["newest"])
	for range states {
		break
	}
	names, err := disk.ReadDir("d")
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, names)
	_, err = disk.ReadDir("nowhere")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, disk.WriteFile("d", nil))
	require.Error(t, disk.WriteFile("d/f/g", nil))
}

func TestAKilledProcessLeavesWhatItWrote(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := open(t, disk)
	_, err := l.Append(batch(0, 2), &seglog.AppendOptions{Sync: ptr(seglog.SyncNever)})
	require.NoError(t, err)
	killed := disk.Kill()
	require.Positive(t, disk.Locked())
	require.Zero(t, killed.Locked())
	require.Equal(t, int64(2), open(t, killed).Offsets().End)
	require.Equal(t, "disk of a killed process", killed.String())
}

func TestAFullDiskIsFullUntilThereIsRoom(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{Capacity: 32 << 10})
	l := open(t, disk)
	var m logtest.Model
	var err error
	for i := int64(0); err == nil; i++ {
		_, err = m.Append(l, batch(i, 1), nil)
	}
	require.ErrorIs(t, err, seglog.ErrNoSpace)
	require.NoError(t, m.Check(t.Context(), l))
	disk.SetCapacity(1 << 20)
	_, err = m.Append(l, batch(0, 1), nil)
	require.NoError(t, err)
	require.NoError(t, m.Check(t.Context(), l))
}

func TestADiskOfAnotherSystemKeepsOpenFiles(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{WindowsLike: true})
	f, err := disk.FS().OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.Error(t, disk.FS().Remove("f"))
	require.Equal(t, 1, disk.Open())
	require.NoError(t, f.Close())
	require.NoError(t, disk.FS().Remove("f"))
}

func TestCallsFailAsTheyAreTold(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(d *logtest.Disk)
		want  string // which of five syncs and writes of the log fail
	}{
		{"every sync", func(d *logtest.Disk) { d.Fail(logtest.Calls{Kind: logtest.Sync}, syscall.EIO) }, "s-s-s-s-s-"},
		{"the second sync", func(d *logtest.Disk) { d.Fail(logtest.Calls{Kind: logtest.Sync, Nth: 2}, syscall.EIO) }, "--s-------"},
		{"syncs from the second on", func(d *logtest.Disk) {
			d.Fail(logtest.Calls{Kind: logtest.Sync, Nth: 2, Onwards: true}, syscall.EIO)
		}, "--s-s-s-s-"},
		{"anything of another file", func(d *logtest.Disk) { d.Fail(logtest.Calls{Name: "*.index"}, syscall.EIO) }, "----------"},
		{"writes of a file in a directory", func(d *logtest.Disk) { d.Fail(logtest.Calls{Kind: logtest.Write, Name: "d/*.log"}, syscall.EIO) }, "-w-w-w-w-w"},
		{"after two bytes", func(d *logtest.Disk) { d.FailAfter(logtest.Calls{Nth: 4}, 2, syscall.ENOSPC) }, "---w------"},
		{"forgetting", func(d *logtest.Disk) { d.FailAndForget(logtest.Calls{Kind: logtest.Sync, Nth: 3}, syscall.EIO) }, "----s-----"},
		{"short", func(d *logtest.Disk) { d.Shorten(logtest.Calls{Kind: logtest.Write, Nth: 1}, 1) }, "--short--------"},
		{"healed", func(d *logtest.Disk) {
			d.Fail(logtest.Calls{}, syscall.EIO)
			d.Heal()
		}, "----------"},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			f, err := disk.FS().OpenFile("f.log", os.O_RDWR|os.O_CREATE, 0o644)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, disk.WriteFile("d/f.log", nil))
			f, err = disk.FS().OpenFile("d/f.log", os.O_RDWR, 0)
			require.NoError(t, err)
			row.fault(disk)
			var got strings.Builder
			mark := func(word string, err error) {
				if err == nil {
					word = "-"
				} else {
					require.True(t, errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC), err)
				}
				got.WriteString(word)
			}
			for range 5 {
				mark("s", f.Sync())
				n, err := f.WriteAt([]byte("bytes"), 0)
				if n == 1 && err == nil {
					got.WriteString("-short")
					continue
				}
				mark("w", err)
			}
			require.Equal(t, row.want, got.String())
			require.Equal(t, strings.Count(got.String(), "s")+strings.Count(got.String(), "w"), disk.Failed())
		})
	}
	require.Panics(t, func() { logtest.NewDisk(logtest.DiskOptions{}).Fail(logtest.Calls{Kind: "swim"}, syscall.EIO) })
	require.Panics(t, func() { logtest.NewDisk(logtest.DiskOptions{}).Fail(logtest.Calls{Name: "["}, syscall.EIO) })
}

func TestFaultsStartFromTheDiskTheyAreGiven(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	require.NoError(t, disk.WriteFile("counter", []byte{5}))
	count := func(d *logtest.Disk) {
		f, err := d.FS().OpenFile("counter", os.O_RDWR, 0)
		if err != nil {
			return
		}
		b := []byte{0}
		if _, err := f.ReadAt(b, 0); err == nil {
			b[0]++
			_, _ = f.WriteAt(b, 0)
		}
		_ = f.Close()
	}
	faults := map[string]byte{}
	for d := range logtest.Faults(disk, count) {
		count(d)
		require.Equal(t, 1, d.Failed(), "%s", d)
		content, err := d.ReadFile("counter")
		require.NoError(t, err)
		require.Zero(t, d.Open())
		faults[d.String()] = content[0]
	}
	require.Equal(t, map[string]byte{
		"disk with the fault #1 open counter: EIO":                         5,
		"disk with the fault #2 read counter [0,1): EIO":                   5,
		"disk with the fault #2 read counter [0,1): EINTR":                 5,
		"disk with the fault #3 write counter [0,1): EIO":                  5,
		"disk with the fault #3 write counter [0,1): EINTR":                5,
		"disk with the fault #3 write counter [0,1): EIO after 0 bytes":    5,
		"disk with the fault #3 write counter [0,1): ENOSPC after 0 bytes": 5,
		"disk with the fault #3 write counter [0,1): EDQUOT after 0 bytes": 5,
		"disk with the fault #3 write counter [0,1): ENOSPC from there on": 5,
		"disk with the fault #4 close counter: EIO":                        6,
	}, faults)
	content, err := disk.ReadFile("counter")
	require.NoError(t, err)
	require.Equal(t, []byte{5}, content)
}
