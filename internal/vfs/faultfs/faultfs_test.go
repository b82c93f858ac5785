package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/stretchr/testify/require"
)

func newDisk() (*FS, *crashfs.FS) {
	inner := crashfs.New(crashfs.Options{})
	return New(inner), inner
}

func create(t *testing.T, disk vfs.FS, name, data string) vfs.File {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = vfs.WriteFull(f, []byte(data), 0)
	require.NoError(t, err)
	return f
}

func content(t *testing.T, disk vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(disk, name, 1<<20)
	require.NoError(t, err)
	return string(data)
}

// target is what calls need: a directory d with a file d/f of 10 bytes, which is
// open and mapped, and a lock.
type target struct {
	disk    *FS
	inner   *crashfs.FS
	file    vfs.File
	mapping vfs.Mapping
	lock    io.Closer
}

func newTarget(t *testing.T) *target {
	disk, inner := newDisk()
	require.NoError(t, disk.MkdirAll("d", 0o755))
	f := create(t, disk, "d/f", "0123456789")
	m, err := f.Map(10, true)
	require.NoError(t, err)
	lock, err := disk.Lock("d/.lock", vfs.Exclusive)
	require.NoError(t, err)
	inner.SyncAll()
	return &target{disk, inner, f, m, lock}
}

func (t *target) users() [3]int { return [3]int{t.disk.Open(), t.disk.Mapped(), t.disk.Locked()} }

// calls has one of each kind.
var calls = map[Kind]func(t *target) error{
	Open:        func(t *target) error { _, err := t.disk.OpenFile("d/f", os.O_RDWR, 0); return err },
	Create:      func(t *target) error { _, err := t.disk.OpenFile("d/new", os.O_RDWR|os.O_CREATE, 0o644); return err },
	Read:        func(t *target) error { _, err := t.file.ReadAt(make([]byte, 4), 2); return err },
	Write:       func(t *target) error { _, err := t.file.WriteAt([]byte("abcd"), 2); return err },
	Truncate:    func(t *target) error { return t.file.Truncate(5) },
	Preallocate: func(t *target) error { return t.file.Preallocate(50) },
	Sync:        func(t *target) error { return t.file.Sync() },
	Close:       func(t *target) error { return t.file.Close() },
	Map:         func(t *target) error { _, err := t.file.Map(10, false); return err },
	Flush:       func(t *target) error { return t.mapping.Flush() },
	Unmap:       func(t *target) error { return t.mapping.Unmap() },
	Stat:        func(t *target) error { _, err := t.file.Stat(); return err },
	ReadDir:     func(t *target) error { _, err := t.disk.ReadDir("d"); return err },
	Mkdir:       func(t *target) error { return t.disk.MkdirAll("e", 0o755) },
	Rename:      func(t *target) error { return t.disk.Rename("d/f", "d/g") },
	Remove:      func(t *target) error { return t.disk.Remove("d/f") },
	SyncDir:     func(t *target) error { return t.disk.SyncDir("d") },
	Lock:        func(t *target) error { _, err := t.disk.Lock("d/other", vfs.Shared); return err },
	Unlock:      func(t *target) error { return t.lock.Close() },
	FreeSpace:   func(t *target) error { _, err := t.disk.FreeSpace("d"); return err },
	SetModTime:  func(t *target) error { return t.disk.SetModTime("d/f", time.UnixMilli(1000)) },
}

func TestEveryKindOfCallFailsAndIsNotCarriedOut(t *testing.T) {
	require.Len(t, calls, int(SetModTime))
	for kind, call := range calls {
		t.Run(kind.String(), func(t *testing.T) {
			on := newTarget(t)
			on.disk.Fail(Op(kind), syscall.EIO)
			done, users := on.inner.Ops(), on.users()
			err := call(on)
			require.ErrorIs(t, err, syscall.EIO)
			require.Equal(t, 1, on.disk.Fired())
			require.Equal(t, done, on.inner.Ops())

			var pathError *fs.PathError
			var linkError *os.LinkError
			if kind == Rename {
				require.ErrorAs(t, err, &linkError)
			} else {
				require.ErrorAs(t, err, &pathError)
				require.NotEmpty(t, pathError.Path)
			}
			switch kind {
			case Close:
				users[0]--
			case Unmap:
				users[1]--
				require.Empty(t, on.mapping.Bytes())
			case Unlock:
				users[2]--
				_, err = on.inner.Lock("d/.lock", vfs.Exclusive)
				require.NoError(t, err, "unlocked all the same")
			}
			require.Equal(t, users, on.users())
		})
		t.Run(kind.String()+" without a rule", func(t *testing.T) {
			on := newTarget(t)
			on.disk.Fail(Op(), syscall.EIO).Clear()
			require.NoError(t, call(on))
			require.Zero(t, on.disk.Fired())
		})
		require.NotContains(t, Call{Kind: kind}.String(), "kind")
	}
	require.Equal(t, "kind 99", Kind(99).String())
}

func TestErrorsOfTheWrappedFileSystemPassThrough(t *testing.T) {
	disk, _ := newDisk()
	for _, call := range []func() error{
		func() error { _, err := disk.OpenFile("none", os.O_RDONLY, 0); return err },
		func() error { _, err := disk.Stat("none"); return err },
		func() error { _, err := disk.ReadDir("none"); return err },
		func() error { _, err := disk.FreeSpace("none"); return err },
		func() error { _, err := disk.Lock("none/x", vfs.Shared); return err },
		func() error { return disk.SyncDir("none") },
		func() error { return disk.Rename("none", "x") },
		func() error { return disk.Remove("none") },
	} {
		require.ErrorIs(t, call(), fs.ErrNotExist)
	}
	f := create(t, disk, "f", "x")
	n, err := f.ReadAt(make([]byte, 2), 0)
	require.Equal(t, 1, n)
	require.Equal(t, io.EOF, err)
	_, err = f.Map(-1, false)
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
	require.Zero(t, disk.Open(), "closed once")
}

func TestMatchesChooseTheirCalls(t *testing.T) {
	for _, row := range []struct {
		name  string
		match Match
		want  string // the calls that fail, of those below
	}{
		{"all", Op(), "123456789"},
		{"of a kind", Op(Sync), "1357"},
		{"of two kinds", Op(Sync, SyncDir), "13457"},
		{"of a name", Op().Name("0.*"), "125689"},
		{"of a name in a directory", Op().Name("d/0.log"), "1259"},
		{"of a name in another directory", Op().Name("e/*"), ""},
		{"the second", Op().Nth(2), "2"},
		{"the second of a kind and name", Op(Sync).Name("*.log").Nth(2), "3"},
		{"from the second of a kind on", Op(Sync).From(2), "357"},
		{"since the fourth call", Op().Since(4), "456789"},
		{"of a kind since the fourth call", Op(Sync).Since(4), "57"},
		{"the first of a kind since the fourth call", Op(Sync).Since(4).Nth(1), "5"},
		{"no such call", Op(Sync).Nth(5), ""},
		{"a rename by either name", Op(Rename).Name("*.deleted"), "9"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inner := crashfs.New(crashfs.Options{})
			disk := New(inner)
			require.NoError(t, inner.MkdirAll("d", 0o755))
			log, index, other := create(t, disk, "d/0.log", ""), create(t, disk, "d/0.index", ""), create(t, disk, "d/1.log", "")
			disk.mu.calls = 0 // so that row.want is easy to read
			disk.Fail(row.match, syscall.EIO)
			var got string
			for i, call := range []func() error{
				log.Sync,
				func() error { return log.Truncate(5) },
				other.Sync,
				func() error { return disk.SyncDir("d") },
				log.Sync,
				func() error { return index.Truncate(5) },
				other.Sync,
				func() error { return index.Truncate(6) },
				func() error { return disk.Rename("d/0.log", "d/0.log.deleted") },
			} {
				if err := call(); err != nil {
					require.ErrorIs(t, err, syscall.EIO)
					got += fmt.Sprint(i + 1)
				}
			}
			require.Equal(t, row.want, got)
			require.Equal(t, len(row.want), disk.Fired())
			require.Equal(t, 9, disk.Calls())
		})
	}
	require.Panics(t, func() { Op().Name("[") })
}

func TestFirstRuleWithAnEffectDecidesAndAllCount(t *testing.T) {
	disk, _ := newDisk()
	f := create(t, disk, "f", "")
	disk.Shorten(Op(Write), 4).Fail(Op(Write).Nth(2), syscall.EIO).Fail(Op(Write).From(2), syscall.ENOSPC)
	write := func(size int) error {
		n, err := f.WriteAt(make([]byte, size), 0)
		if err == nil {
			require.Equal(t, min(4, size), n)
		}
		return err
	}
	require.NoError(t, write(10), "shortened")
	require.NoError(t, write(5), "shortened, which counts as the second")
	require.ErrorIs(t, write(4), syscall.ENOSPC, "nothing to shorten")
	disk.Clear()
	n, err := f.WriteAt(make([]byte, 10), 0)
	require.NoError(t, err)
	require.Equal(t, 10, n)
}

func TestTransfersStopWhereTheyAreTold(t *testing.T) {
	for _, row := range []struct {
		name string
		rule func(disk *FS, m Match)
		n    int
		err  error
	}{
		{"failing at once", func(d *FS, m Match) { d.Fail(m, syscall.EIO) }, 0, syscall.EIO},
		{"failing after none", func(d *FS, m Match) { d.FailAfter(m, 0, syscall.EIO) }, 0, syscall.EIO},
		{"failing after less than none", func(d *FS, m Match) { d.FailAfter(m, -1, syscall.EIO) }, 0, syscall.EIO},
		{"failing after some", func(d *FS, m Match) { d.FailAfter(m, 3, syscall.ENOSPC) }, 3, syscall.ENOSPC},
		{"failing after all", func(d *FS, m Match) { d.FailAfter(m, 5, syscall.EIO) }, 5, syscall.EIO},
		{"failing after more", func(d *FS, m Match) { d.FailAfter(m, 6, syscall.EIO) }, 5, syscall.EIO},
		{"short", func(d *FS, m Match) { d.Shorten(m, 3) }, 3, nil},
		{"short of nothing", func(d *FS, m Match) { d.Shorten(m, 5) }, 5, nil},
		{"short of all", func(d *FS, m Match) { d.Shorten(m, 0) }, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk, inner := newDisk()
			f := create(t, disk, "f", "0123456789")
			row.rule(disk, Op(Read, Write))
			n, err := f.WriteAt([]byte("abcde"), 2)
			require.Equal(t, row.n, n)
			require.ErrorIs(t, err, row.err)
			require.Equal(t, "01"+"abcde"[:n]+"23456789"[n:], content(t, inner, "f"))

			b := []byte("-----")
			n, err = f.ReadAt(b, 0)
			require.Equal(t, row.n, n)
			require.ErrorIs(t, err, row.err)
			require.Equal(t, content(t, inner, "f")[:n]+"-----"[n:], string(b))
		})
	}
}

func TestShortReadsAndWritesAreComplete_K049(t *testing.T) {
	disk, inner := newDisk()
	disk.Shorten(Op(Read), 7).Shorten(Op(Write), 13)
	data := strings.Repeat("0123456789", 100)
	require.NoError(t, vfs.WriteFileAtomic(disk, "f", []byte(data)))
	require.Equal(t, data, content(t, disk, "f"))
	require.Equal(t, data, content(t, inner, "f"))
	require.Greater(t, disk.Fired(), 200)
}

func TestFailedSyncForgets_K108(t *testing.T) {
	disk, inner := newDisk()
	f := create(t, disk, "f", "durable")
	inner.SyncAll()
	disk.FailAndForget(Op(Sync, Flush).Nth(1), syscall.EIO)
	_, err := f.WriteAt([]byte("lost"), 7)
	require.NoError(t, err)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, f.Sync(), "only the first fails")
	require.Equal(t, "durablelost", content(t, disk, "f"))
	for state := range inner.States(100, 1) {
		require.Equal(t, "durable", content(t, state.FS(), "f"))
	}

	disk.Clear()
	disk.FailAndForget(Op(Flush), syscall.EIO)
	m, err := f.Map(7, true)
	require.NoError(t, err)
	m.Bytes()[0] = 'D'
	require.ErrorIs(t, m.Flush(), syscall.EIO)
	require.NoError(t, f.Sync())
	for state := range inner.States(100, 1) {
		require.Equal(t, "durable", content(t, state.FS(), "f"))
	}

	onOS := New(vfs.OS).FailAndForget(Op(Sync), syscall.EIO)
	g := create(t, onOS, t.TempDir()+"/f", "kept")
	require.ErrorIs(t, g.Sync(), syscall.EIO, "no more than failing")
	require.NoError(t, g.Close())
}

func TestFailedSyncWithoutForgettingLeavesItToTheNext(t *testing.T) {
	disk, inner := newDisk()
	f := create(t, disk, "f", "durable")
	inner.SyncAll()
	disk.Fail(Op(Sync).Nth(1), syscall.EIO)
	_, err := f.WriteAt([]byte("!"), 7)
	require.NoError(t, err)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NotEmpty(t, inner.Unsynced())
	require.NoError(t, f.Sync())
	require.Empty(t, inner.Unsynced())
}

func TestDoHoldsACallUp(t *testing.T) {
	disk, inner := newDisk()
	f := create(t, disk, "f", "x")
	reached, release := make(chan Call), make(chan struct{})
	disk.Do(Op(Sync).Nth(1), func(c Call) error {
		reached <- c
		<-release
		return nil
	})
	disk.Do(Op(Sync).Nth(2), func(Call) error { return syscall.EDQUOT })
	done := make(chan error)
	go func() { done <- f.Sync() }()
	require.Equal(t, Call{N: 3, Kind: Sync, Name: "f"}, <-reached)
	_, err := f.WriteAt([]byte("y"), 0)
	require.NoError(t, err, "others go on")
	require.Len(t, inner.Unsynced(), 3)
	close(release)
	require.NoError(t, <-done)
	require.Len(t, inner.Unsynced(), 1)
	require.ErrorIs(t, f.Sync(), syscall.EDQUOT)
}

func TestLockedElsewhere(t *testing.T) {
	disk, _ := newDisk()
	disk.Fail(Op(Lock).Nth(1), vfs.ErrLocked)
	_, err := disk.Lock(".lock", vfs.Exclusive)
	var lockError *vfs.LockError
	require.ErrorAs(t, err, &lockError)
	require.Equal(t, ".lock", lockError.Name)

	lock, err := disk.Lock(".lock", vfs.Exclusive)
	require.NoError(t, err)
	held, err := vfs.LockHeld(disk, ".lock")
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, 1, disk.Locked())
	require.NoError(t, lock.Close())
	require.Error(t, lock.Close())
	require.Zero(t, disk.Locked())
}

func TestLeaksShow_K106(t *testing.T) {
	disk, _ := newDisk()
	f := create(t, disk, "f", "x")
	g, err := disk.OpenFile("f", os.O_RDONLY, 0)
	require.NoError(t, err)
	m, err := f.Map(1, true)
	require.NoError(t, err)
	empty, err := f.Map(0, true)
	require.NoError(t, err)
	require.Equal(t, 2, disk.Open())
	require.Equal(t, 1, disk.Mapped())
	for range 2 {
		require.NoError(t, m.Unmap())
		require.NoError(t, empty.Unmap())
	}
	require.NoError(t, f.Close())
	require.NoError(t, g.Close())
	require.Zero(t, disk.Open())
	require.Zero(t, disk.Mapped())
}

// replace is a workload: a checkpoint is written anew, three times.
func replace(disk *FS) error {
	var errs []error
	for i := range 3 {
		errs = append(errs, vfs.WriteFileAtomic(disk, "d/checkpoint", []byte(strings.Repeat("new!", 300+i))))
	}
	return errors.Join(errs...)
}

func newReplaceDisk(t require.TestingT) *crashfs.FS {
	inner := crashfs.New(crashfs.Options{})
	require.NoError(t, inner.MkdirAll("d", 0o755))
	require.NoError(t, vfs.WriteFileAtomic(inner, "d/checkpoint", []byte("old")))
	inner.SyncAll()
	return inner
}

// TestCheckpointSurvivesEveryFault_K110 has each call of a workload fail in each
// way, with and without the power going out afterwards.
func TestCheckpointSurvivesEveryFault_K110(t *testing.T) {
	recorded := Record(newReplaceDisk(t), func(disk *FS) { require.NoError(t, replace(disk)) })
	faults := 0
	for fault := range Faults(recorded) {
		inner := newReplaceDisk(t)
		disk := New(inner)
		fault.Arm(disk)
		_ = replace(disk)
		require.NotZero(t, disk.Fired(), fault)
		require.Zero(t, disk.Open(), fault)
		disk.Clear()
		check := func(disk *crashfs.FS, why string) {
			got := content(t, disk, "d/checkpoint")
			if got != "old" {
				require.Equal(t, "", strings.ReplaceAll(got, "new!", ""), why)
				require.GreaterOrEqual(t, len(got), 1200, why)
			}
		}
		check(inner, fault.String())
		for state := range inner.States(20, 1) {
			check(state.FS(), fault.String()+"; "+state.String())
		}
		require.NoError(t, replace(disk), fault)
		require.Equal(t, strings.Repeat("new!", 302), content(t, inner, "d/checkpoint"))
		faults++
	}
	require.Equal(t, 3*19, faults)
}

func TestFaultsSayWhatGoesWrong(t *testing.T) {
	var got []string
	for fault := range Faults([]Call{
		{N: 1, Kind: Create, Name: "f"},
		{N: 2, Kind: Write, Name: "f", Size: 9},
		{N: 3, Kind: Map, Name: "f", Size: 4096},
		{N: 4, Kind: Flush, Name: "f"},
		{N: 5, Kind: Unmap, Name: "f"},
		{N: 6, Kind: Read, Name: "f", Off: 7, Size: 1},
		{N: 7, Kind: Rename, Name: "f", NewName: "g"},
	}) {
		got = append(got, fault.String())
	}
	require.Equal(t, []string{
		"#1 create f: EIO",
		"#1 create f: ENOSPC",
		"#1 create f: EDQUOT",
		"#1 create f: ENOSPC from there on",
		"#2 write f [0,9): EIO",
		"#2 write f [0,9): EINTR",
		"#2 write f [0,9): only 4 bytes",
		"#2 write f [0,9): EIO after 4 bytes",
		"#2 write f [0,9): ENOSPC after 4 bytes",
		"#2 write f [0,9): EDQUOT after 4 bytes",
		"#2 write f [0,9): ENOSPC from there on",
		"#3 map f to 4096: ENOMEM",
		"#4 flush f: EIO",
		"#4 flush f: ENOSPC",
		"#4 flush f: EIO, unsynced bytes forgotten",
		"#6 read f [7,8): EIO",
		"#6 read f [7,8): EINTR",
		"#7 rename f to g: EIO",
		"#7 rename f to g: ENOSPC",
		"#7 rename f to g: EDQUOT",
	}, got)
	for range Faults(Record(crashfs.New(crashfs.Options{}), func(disk *FS) { _, _ = disk.Stat("/") })) {
		break
	}
}

func TestRulesAndCountersAreSafeForConcurrentUse(t *testing.T) {
	disk, _ := newDisk()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				disk.Fail(Op(Sync).Name(fmt.Sprint(i)).Nth(j), syscall.EIO)
				f, err := disk.OpenFile(fmt.Sprint(i), os.O_RDWR|os.O_CREATE, 0o644)
				require.NoError(t, err)
				_ = f.Sync()
				require.NoError(t, f.Close())
				_, _, _ = disk.Open(), disk.Calls(), disk.Fired()
			}
		})
	}
	all.Wait()
	require.Zero(t, disk.Open())
	require.Equal(t, 8*50*3, disk.Calls())
}
