package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

var copies = []string{"seglog.state", "seglog.state.copy"}

func requireState(t require.TestingT, want, got State) {
	want.Sequence = got.Sequence
	require.Equal(t, want, got)
}

func TestStateComesBack(t *testing.T) {
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	_, err := files.Read()
	require.ErrorIs(t, err, fs.ErrNotExist)
	for i, s := range []State{
		{},
		{LogStartOffset: math.MaxInt64, RecoveryPoint: math.MaxInt64, DurableEnd: math.MaxInt64},
		{LogStartOffset: 1, RecoveryPoint: 2, DurableEnd: 2, Clean: &CleanMark{EndOffset: 3, Segment: 4, Size: 5}},
		{LogStartOffset: 1, RecoveryPoint: 2},
	} {
		require.NoError(t, files.Write(s))
		s.Sequence = int64(i + 1)
		for _, name := range copies {
			got, err := ReadState(vfs.OS, filepath.Join(files.Dir, name))
			require.NoError(t, err)
			require.Equal(t, s, got)
		}
		again := StateFiles{FS: vfs.OS, Dir: files.Dir}
		got, err := again.Read()
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.NoError(t, files.Write(s))
		got, err = again.Read()
		require.NoError(t, err)
		require.Equal(t, s, got, "nothing is written if nothing changes")
	}
}

func TestOneCopyOfAStateIsEnough(t *testing.T) {
	state := State{LogStartOffset: 3, RecoveryPoint: 7, DurableEnd: 7}
	spoil := map[string]func(t *testing.T, path string){
		"missing": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"damaged": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("0\n2\n"), 0o644)) },
		"older": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, AppendState(nil, State{RecoveryPoint: 1}), 0o644))
		},
		"an earlier version's": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(openState), 0o644)) },
	}
	for what, spoil := range spoil {
		for _, name := range copies {
			t.Run(name+" is "+what, func(t *testing.T) {
				dir := t.TempDir()
				files := StateFiles{FS: vfs.OS, Dir: dir}
				require.NoError(t, files.Write(State{}))
				require.NoError(t, files.Write(state))
				spoil(t, filepath.Join(dir, name))
				files = StateFiles{FS: vfs.OS, Dir: dir}
				got, err := files.Read()
				require.NoError(t, err)
				requireState(t, state, got)
				require.NoError(t, files.Write(state), "it makes both the same again")
				for _, name := range copies {
					got, err := ReadState(vfs.OS, filepath.Join(dir, name))
					require.NoError(t, err)
					requireState(t, state, got)
				}
			})
		}
	}
	t.Run("both are damaged", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range copies {
			spoil["damaged"](t, filepath.Join(dir, name))
		}
		_, err := (&StateFiles{FS: vfs.OS, Dir: dir}).Read()
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("one is damaged and the other missing", func(t *testing.T) {
		for _, name := range copies {
			dir := t.TempDir()
			spoil["damaged"](t, filepath.Join(dir, name))
			_, err := (&StateFiles{FS: vfs.OS, Dir: dir}).Read()
			require.ErrorIs(t, err, ErrCorrupt)
		}
	})
}

// Someone takes away, replaces or locks files while the log is open.
func TestAStateThatCannotBeWrittenInPlaceIsMadeAnew(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"removed":      os.Remove,
		"cut":          func(path string) error { return os.Truncate(path, 100) },
		"grown":        func(path string) error { return os.Truncate(path, 513) },
		"not writable": func(path string) error { return os.Chmod(path, 0o400) },
		"linked":       func(path string) error { return os.Link(path, path+".linked") },
	} {
		for _, name := range copies {
			t.Run(name+" "+what, func(t *testing.T) {
				files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
				require.NoError(t, files.Write(State{RecoveryPoint: 1}))
				require.NoError(t, files.Write(State{RecoveryPoint: 2}))
				require.NoError(t, change(filepath.Join(files.Dir, name)))
				for n := int64(3); n < 6; n++ {
					require.NoError(t, files.Write(State{RecoveryPoint: n}))
					for _, name := range copies {
						got, err := ReadState(vfs.OS, filepath.Join(files.Dir, name))
						require.NoError(t, err)
						require.Equal(t, n, got.RecoveryPoint)
					}
				}
			})
		}
	}
}

// A copy of the directory that is made of links keeps the state that it was made with.
func TestALinkedCopyOfAStateIsNotWrittenOver(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // nobody tells of links
	}
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	require.NoError(t, files.Write(State{RecoveryPoint: 1}))
	linked := t.TempDir()
	for _, name := range copies {
		require.NoError(t, os.Link(filepath.Join(files.Dir, name), filepath.Join(linked, name)))
	}
	require.NoError(t, files.Write(State{RecoveryPoint: 2}))
	got, err := (&StateFiles{FS: vfs.OS, Dir: linked}).Read()
	require.NoError(t, err)
	requireState(t, State{RecoveryPoint: 1}, got)
}

// tornFS has the first reads of a file see what a change has not yet written.
type tornFS struct {
	vfs.FS
	torn int
}

type tornFile struct {
	vfs.File
	fs *tornFS
}

func (f *tornFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return tornFile{file, f}, err
}

func (f tornFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if f.fs.torn > 0 && n > 40 {
		f.fs.torn--
		b[40] ^= 1
	}
	return n, err
}

func TestAStateThatIsReadInTheMiddleOfAChangeIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, (&StateFiles{FS: vfs.OS, Dir: dir}).Write(State{RecoveryPoint: 7}))
	for torn, want := range []error{nil, nil, nil, ErrCorrupt} {
		got, err := ReadState(&tornFS{vfs.OS, torn}, filepath.Join(dir, copies[0]))
		require.ErrorIs(t, err, want)
		if want == nil {
			requireState(t, State{RecoveryPoint: 7}, got)
		}
	}
}

// An error of closing a copy that was written over may be the first to tell that it is not
// what it should be.
func TestAFailedCloseOfAStateIsTold(t *testing.T) {
	fault := faultfs.New(vfs.OS)
	files := StateFiles{FS: fault, Dir: t.TempDir()}
	require.NoError(t, files.Write(State{RecoveryPoint: 1}))
	for n := int64(2); n < 6; n += 2 {
		fault.Fail(faultfs.Op(faultfs.Close).Nth(int(n/2)), syscall.EIO)
		require.ErrorIs(t, files.Write(State{RecoveryPoint: n}), syscall.EIO)
		fault.Clear()
		require.NoError(t, files.Write(State{RecoveryPoint: n + 1}))
	}
}

// A file may say whatever it likes.
func TestTheSequenceOfAStateEnds(t *testing.T) {
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	for _, name := range copies {
		last := AppendState(nil, State{RecoveryPoint: 1, Sequence: math.MaxInt64})
		require.NoError(t, os.WriteFile(filepath.Join(files.Dir, name), last, 0o644))
	}
	_, err := files.Read()
	require.NoError(t, err)
	require.NoError(t, files.Write(State{RecoveryPoint: 2}))
	got, err := files.Read()
	require.NoError(t, err)
	require.Equal(t, State{RecoveryPoint: 2, Sequence: 1}, got)
}

func TestWriteStateRefusesNegativeNumbers(t *testing.T) {
	files := StateFiles{FS: vfs.OS, Dir: t.TempDir()}
	for _, s := range []State{
		{LogStartOffset: -1},
		{RecoveryPoint: -1},
		{DurableEnd: -1},
		{Clean: &CleanMark{EndOffset: -1}},
		{Clean: &CleanMark{Segment: -1}},
		{Clean: &CleanMark{Size: -1}},
	} {
		require.ErrorIs(t, files.Write(s), ErrInvalid)
		entries, err := os.ReadDir(files.Dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// A change waits for one sync, and Sync for the other copy.
func TestSyncsOfAState(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	files := StateFiles{FS: disk, Dir: "/"}
	require.NoError(t, files.Write(State{RecoveryPoint: 1}))
	require.Empty(t, disk.Unsynced())
	var ops []string
	disk.OnOp(func(op crashfs.Op) { ops = append(ops, fmt.Sprint(op.Kind, " ", filepath.Base(op.Name))) })
	for n := int64(2); n < 4; n++ {
		require.NoError(t, files.Write(State{RecoveryPoint: n}))
		require.NotEmpty(t, disk.Unsynced())
	}
	require.NoError(t, files.Sync())
	require.Empty(t, disk.Unsynced())
	require.NoError(t, files.Sync())
	require.Equal(t, []string{
		"write seglog.state", "sync seglog.state", "write seglog.state.copy",
		"write seglog.state.copy", "sync seglog.state.copy", "write seglog.state",
		"sync seglog.state",
	}, ops)
}

// A history of changes to a state, some of which fail, by processes some of which are
// killed. If power is cut before any step of it, whatever the disk has kept, with files
// that were being written as garbage: a state is read that was acknowledged last, or one
// that was tried since.
type stateHistory struct {
	*rapid.T
	disk  *crashfs.FS
	fault *faultfs.FS
	files StateFiles
	may   []State // one of these is on disk
	count int64
	kill  int // the process dies before so many more operations
	died  *crashfs.FS
}

func (h *stateHistory) start(disk *crashfs.FS) {
	h.disk, h.fault, h.died = disk, faultfs.New(disk), nil
	h.files = StateFiles{FS: h.fault, Dir: "/"}
	disk.OnOp(func(crashfs.Op) {
		if h.kill--; h.kill == 0 {
			h.died = h.disk.Kill()
		}
		h.cut()
	})
	s, err := h.files.Read()
	h.requirePossible(s, err)
}

func (h *stateHistory) requirePossible(s State, err error) {
	h.Helper()
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(h.may, State{}.same) {
		return
	}
	require.NoError(h, err)
	require.True(h, slices.ContainsFunc(h.may, s.same), "%+v is none of %+v", s, h.may)
}

// cut looks at what a power cut may leave.
func (h *stateHistory) cut() {
	var torn []string
	for _, op := range h.disk.Unsynced() {
		if op.Kind == crashfs.Write {
			torn = append(torn, op.Name)
		}
	}
	for state := range h.disk.States(12, uint64(h.count)) {
		after := state.FS()
		s, err := (&StateFiles{FS: after, Dir: "/"}).Read()
		h.requirePossible(s, err)
		for _, name := range torn {
			if f, err := after.OpenFile(name, os.O_RDWR, 0); err == nil {
				_, err := f.WriteAt([]byte("garbage"), 30)
				require.NoError(h, err)
				require.NoError(h, f.Close())
			}
		}
		s, err = (&StateFiles{FS: after, Dir: "/"}).Read()
		h.requirePossible(s, err)
	}
}

// change goes on from what is there, or writes one of the states again that it may be.
func (h *stateHistory) change() (next State) {
	h.count++
	if again := rapid.IntRange(-3, len(h.may)-1).Draw(h.T, "again"); again >= 0 {
		next = h.may[again]
	} else {
		next = State{RecoveryPoint: h.count}
	}
	h.may = append(h.may, next)
	if err := h.files.Write(next); err == nil {
		h.may = []State{next}
	}
	return next
}

func TestAStateSurvivesWhatComes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &stateHistory{T: rt, may: []State{{}}}
		h.start(crashfs.New(crashfs.Options{}))
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) { h.change() },
			"change, and an operation fails": func(t *rapid.T) {
				nth := rapid.IntRange(1, 10).Draw(t, "operation")
				how := rapid.SampledFrom([]func(){
					func() { h.fault.Fail(faultfs.Op().Nth(nth), syscall.EIO) },
					func() { h.fault.FailAndForget(faultfs.Op().Nth(nth), syscall.EIO) },
					func() { h.fault.FailAfter(faultfs.Op().Nth(nth), 100, syscall.ENOSPC) },
				}).Draw(t, "how")
				how()
				h.change()
				h.fault.Clear()
			},
			"sync": func(*rapid.T) { require.NoError(h, h.files.Sync()) },
			"change, and the process dies": func(t *rapid.T) {
				h.kill = rapid.IntRange(1, 8).Draw(t, "operation")
				before := slices.Clone(h.may)
				next := h.change()
				if h.kill = 0; h.died != nil {
					h.may = append(before, next)
				}
				if h.died == nil {
					h.died = h.disk.Kill()
				}
				h.start(h.died)
			},
			"a power cut": func(t *rapid.T) {
				states := slices.Collect(h.disk.States(12, uint64(h.count)))
				h.start(rapid.SampledFrom(states).Draw(t, "state").FS())
			},
		})
	})
}
