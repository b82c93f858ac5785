package seglog_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
)

// gate is a file system on which the first call of a kind for a file waits until it is let
// through, and those behind it with it.
type gate struct {
	vfs.FS
	kind    logtest.Kind // Rename, Remove or Read
	name    string       // a pattern for the last element
	reached chan struct{}
	once    sync.Once
	opened  chan struct{}
	open    func() // lets all through
}

func newGate(fsys vfs.FS, kind logtest.Kind, name string) *gate {
	g := &gate{FS: fsys, kind: kind, name: name, reached: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

func (g *gate) wait(kind logtest.Kind, name string) {
	if is, _ := path.Match(g.name, filepath.Base(name)); !is || kind != g.kind {
		return
	}
	g.once.Do(func() { close(g.reached) })
	<-g.opened
}

func (g *gate) Rename(from, to string) error {
	g.wait(logtest.Rename, from)
	return g.FS.Rename(from, to)
}

func (g *gate) Remove(name string) error {
	g.wait(logtest.Remove, name)
	return g.FS.Remove(name)
}

func (g *gate) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil || g.kind != logtest.Read {
		return f, err
	}
	return gatedFile{f, g}, nil
}

type gatedFile struct {
	vfs.File
	gate *gate
}

func (f gatedFile) ReadAt(p []byte, position int64) (int, error) {
	f.gate.wait(logtest.Read, f.Name())
	return f.File.ReadAt(p, position)
}

// fiveSegments appends 5 segments of 10 records to a log, the last one active.
func fiveSegments(t *testing.T, l *seglog.Log) {
	t.Helper()
	for i := range int64(5) {
		if i > 0 {
			roll(t, l)
		}
		appendEach(t, l, many(10, 10*i)...)
	}
}

// onDisk are the bases of the .log files, with what follows .log in their names.
func onDisk(t *testing.T, disk *logtest.Disk) []string {
	t.Helper()
	names, err := disk.ReadDir("log")
	require.NoError(t, err)
	found := []string{}
	for _, name := range names {
		if base, suffix, is := strings.Cut(name, ".log"); is {
			found = append(found, strings.TrimLeft(base[:len(base)-1], "0")+base[len(base)-1:]+suffix)
		}
	}
	return found
}

// What is deleted is gone at once, for whoever asks, though the disk is slow to give its
// room back: the files are still there when DeleteBefore has returned.
func TestWhatIsDeletedIsGoneBeforeItsFilesAre(t *testing.T) {
	for _, kind := range []logtest.Kind{logtest.Rename, logtest.Remove} {
		t.Run("it is slow to "+string(kind), func(t *testing.T) {
			requireNoLeak(t)
			disk := logtest.NewDisk(logtest.DiskOptions{})
			g := newGate(disk.FS(), kind, "*.log*")
			defer g.open()
			var removed []seglog.RetentionResult
			l := openLog(t, "log", seglog.Options{FS: g, IndexIntervalBytes: 1, Events: seglog.Events{
				Removed: func(r seglog.RetentionResult) { removed = append(removed, r) }}})
			fiveSegments(t, l)
			was := stats(t, l)
			next, stop := iter.Pull2(l.Records(t.Context(), 13, nil))
			defer stop()
			r, err, _ := next()
			require.NoError(t, err)
			require.EqualValues(t, 13, r.Offset)
			raw, stopRaw := iter.Pull2(l.Batches(t.Context(), 5, &seglog.IterOptions{Isolation: seglog.ReadCommitted}))
			defer stopRaw()
			_, err, _ = raw()
			require.NoError(t, err)
			before := segments(t, l)

			require.NoError(t, l.DeleteBefore(35))
			<-g.reached
			require.Len(t, onDisk(t, disk), 5)
			require.Equal(t, seglog.Offsets{Start: 35, Durable: 50, End: 50}, l.Offsets())
			for _, offset := range []int64{0, 5, 13, 14, 29, 30, 34} {
				_, err := l.Get(offset)
				requireOutside(t, err, offset)
				_, err = l.Read(offset, 1<<20, nil)
				requireOutside(t, err, offset)
				for _, err := range l.Records(t.Context(), offset, nil) {
					requireOutside(t, err, offset)
				}
			}
			_, err, _ = next()
			requireOutside(t, err, 14)
			_, err, _ = raw()
			requireOutside(t, err, 6)
			require.Equal(t, span(35, 49), offsetsOf(readAll(t, l, 35)))
			require.EqualValues(t, 35, offsetForTime(t, l, 0))

			gone := before[0].Size + before[1].Size + before[2].Size
			require.Equal(t, []seglog.RetentionResult{{Segments: 3, Bytes: gone, Start: 35}}, removed)
			now := stats(t, l)
			require.Equal(t, was.Size-gone, now.Size)
			require.Equal(t, 2, now.Segments)
			require.Equal(t, []int64{30, 40}, bases(t, l))

			// Nor does it come back, whatever happens now.
			for state := range disk.States(20, 1) {
				again := openLog(t, "log", seglog.Options{FS: state.FS()})
				require.NoError(t, again.Sync())
				require.Equal(t, seglog.Offsets{Start: 35, Durable: 50, End: 50}, again.Offsets(), "%s", state)
				require.Equal(t, span(35, 49), offsetsOf(readAll(t, again, 35)))
				closeLog(t, again)
			}

			g.open()
			closeLog(t, l)
			require.Equal(t, []string{"30", "40"}, onDisk(t, disk), "after Close no file is left")
			require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
		})
	}
}

func requireOutside(t *testing.T, err error, offset int64) {
	t.Helper()
	var outside *seglog.OffsetError
	require.ErrorAs(t, err, &outside)
	require.Equal(t, seglog.OffsetError{Offset: offset, Start: 35, End: 50}, *outside)
}

// Appends, reads and more deletions do not wait for files either, but whoever wants their
// room does.
func TestALogGoesOnWhileFilesAreRemoved(t *testing.T) {
	wait := map[string]func(l *seglog.Log) error{
		"DeleteBefore again": func(l *seglog.Log) error { return l.DeleteBefore(20) },
		"DeleteBefore below": func(l *seglog.Log) error { return l.DeleteBefore(0) },
		"ApplyRetention":     func(l *seglog.Log) error { _, err := l.ApplyRetention(t.Context()); return err },
		"TruncateTo":         func(l *seglog.Log) error { return l.TruncateTo(53) },
		"Close":              (*seglog.Log).Close,
	}
	for name, wait := range wait {
		t.Run(name, func(t *testing.T) {
			requireNoLeak(t)
			disk := logtest.NewDisk(logtest.DiskOptions{})
			g := newGate(disk.FS(), logtest.Remove, "*.log.deleted")
			defer g.open()
			l := openLog(t, "log", seglog.Options{FS: g, RetentionTime: -1})
			fiveSegments(t, l)
			require.NoError(t, l.DeleteBefore(10))
			<-g.reached
			require.NoError(t, l.DeleteBefore(20))
			appendEach(t, l, many(3, 50)...)
			roll(t, l)
			require.NoError(t, l.Sync())
			require.Equal(t, span(20, 52), offsetsOf(readAll(t, l, 20)))
			require.Equal(t, []string{"0.deleted", "10", "20", "30", "40", "53"}, onDisk(t, disk))

			done := make(chan error, 1)
			go func() { done <- wait(l) }()
			select {
			case err := <-done:
				require.Fail(t, "it did not wait", "%v", err)
			default:
			}
			g.open()
			require.NoError(t, <-done)
			require.Equal(t, []string{"20", "30", "40", "53"}, onDisk(t, disk))
			closeLog(t, l)
		})
	}
}

// A segment that is being read is removed when that ends, and nobody waits for it.
func TestADeletionDoesNotWaitForReaders(t *testing.T) {
	requireNoLeak(t)
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openLog(t, "log", seglog.Options{FS: disk.FS()})
	fiveSegments(t, l)
	closeLog(t, l)
	g := newGate(disk.FS(), logtest.Read, "*000.log")
	defer g.open()
	l = openLog(t, "log", seglog.Options{FS: g, AheadBytes: -1, LookupBytes: -1})
	got := make(chan error, 1)
	go func() {
		_, err := l.Get(5)
		got <- err
	}()
	<-g.reached
	require.NoError(t, l.DeleteBefore(35))
	_, err := l.Get(5)
	requireOutside(t, err, 5)
	g.open()
	requireOutside(t, <-got, 5)
	closeLog(t, l)
	require.Equal(t, []string{"30", "40"}, onDisk(t, disk))
}

// A crash may find the files with their own names, with .deleted ones, or gone.
func TestARemovalThatACrashCutShortDoesNotComeBack(t *testing.T) {
	for _, row := range []struct {
		name        string
		kind        logtest.Kind
		file        string
		found, open []string // on disk, when it crashes and when it was opened again
	}{
		{"before the first was renamed", logtest.Rename, "*000.log", []string{"0", "10", "20", "30", "40"}, []string{"0", "10", "20", "30", "40"}},
		{"before the index of the first was renamed", logtest.Rename, "*000.index", []string{"0.deleted", "10", "20", "30", "40"}, []string{"10", "20", "30", "40"}},
		{"before the second was renamed", logtest.Rename, "*010.log", []string{"0.deleted", "10", "20", "30", "40"}, []string{"10", "20", "30", "40"}},
		{"before the first was removed", logtest.Remove, "*000.log.deleted", []string{"0.deleted", "10.deleted", "20.deleted", "30", "40"}, []string{"30", "40"}},
		{"before the second was removed", logtest.Remove, "*010.log.deleted", []string{"10.deleted", "20.deleted", "30", "40"}, []string{"30", "40"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			g := newGate(disk.FS(), row.kind, row.file)
			defer g.open()
			l := openLog(t, "log", seglog.Options{FS: g})
			fiveSegments(t, l)
			require.NoError(t, l.DeleteBefore(35))
			<-g.reached
			killed := disk.Kill()
			require.Equal(t, row.found, onDisk(t, killed))
			g.open()
			closeLog(t, l)

			again := openLog(t, "log", seglog.Options{FS: killed.FS()})
			require.Equal(t, row.open, onDisk(t, killed))
			require.NoError(t, again.Sync())
			require.Equal(t, seglog.Offsets{Start: 35, Durable: 50, End: 50}, again.Offsets())
			_, err := again.Get(34)
			requireOutside(t, err, 34)
			require.NoError(t, again.DeleteBefore(35))
			require.Equal(t, []string{"30", "40"}, onDisk(t, killed), "the same call again does what is left")
			require.Equal(t, span(35, 49), offsetsOf(readAll(t, again, 35)))
			closeLog(t, again)
			report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: killed.FS(), Jobs: 1})
			require.NoError(t, err)
			require.Zero(t, report.Damage, "%v", report.Problems)
		})
	}
}

// What keeps files on the disk is told at once, given to the next caller whom it concerns,
// and loses nothing.
func TestARemovalThatFailsBehindTheCallerIsReported(t *testing.T) {
	for _, kind := range []logtest.Kind{logtest.Rename, logtest.Remove, logtest.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			requireNoLeak(t)
			disk := logtest.NewDisk(logtest.DiskOptions{})
			told := make(chan string, 10)
			logger := slog.New(slog.NewTextHandler(lines(told), &slog.HandlerOptions{Level: slog.LevelError}))
			g := newGate(disk.FS(), logtest.Rename, "*000.log")
			defer g.open()
			l := openLog(t, "log", seglog.Options{FS: g, Logger: logger})
			fiveSegments(t, l)
			require.NoError(t, l.DeleteBefore(20))
			<-g.reached
			name := map[logtest.Kind]string{logtest.Rename: "*.index", logtest.Remove: "*.index.deleted", logtest.SyncDir: "log"}[kind]
			disk.Fail(logtest.Calls{Kind: kind, Name: name}, syscall.EIO)
			g.open()
			text := <-told
			require.Contains(t, text, "files of removed segments are still there")
			require.Contains(t, text, syscall.EIO.Error())
			require.Equal(t, seglog.Offsets{Start: 20, Durable: 50, End: 50}, l.Offsets())
			require.Nil(t, stats(t, l).Failed)
			appendEach(t, l, many(1, 50)...)
			require.Equal(t, span(20, 50), offsetsOf(readAll(t, l, 20)))

			if kind != logtest.SyncDir { // without which no log start gets to the disk
				require.ErrorIs(t, l.DeleteBefore(35), syscall.EIO, "it is tried again, and waited for")
				require.EqualValues(t, 35, l.Offsets().Start, "and done as far as it can be")
			}
			require.ErrorIs(t, l.DeleteBefore(0), syscall.EIO)
			killed := disk.Kill()
			start := l.Offsets().Start
			disk.Heal()
			require.NoError(t, l.DeleteBefore(0))
			closeLog(t, l)
			names, err := disk.ReadDir("log")
			require.NoError(t, err)
			require.NotContains(t, strings.Join(names, " "), ".deleted")

			again := openLog(t, "log", seglog.Options{FS: killed.FS()})
			require.NoError(t, again.Sync())
			require.Equal(t, seglog.Offsets{Start: start, Durable: 51, End: 51}, again.Offsets())
			closeLog(t, again)
		})
	}
}

// lines is a writer of which each line goes to a channel.
type lines chan<- string

func (l lines) Write(p []byte) (int, error) {
	l <- string(bytes.TrimSpace(p))
	return len(p), nil
}

// Close tries again, too, and says so if it was in vain. The log is closed all the same,
// and the next open sweeps up.
func TestCloseTellsOfFilesThatItCouldNotRemove(t *testing.T) {
	requireNoLeak(t)
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openLog(t, "log", seglog.Options{FS: disk.FS()})
	fiveSegments(t, l)
	disk.Fail(logtest.Calls{Kind: logtest.Remove, Name: "*.log.deleted"}, syscall.EIO)
	require.NoError(t, l.DeleteBefore(20))
	require.ErrorIs(t, l.Close(), syscall.EIO)
	require.ErrorIs(t, l.Close(), syscall.EIO, "again says it again")
	require.Equal(t, []string{"0.deleted", "10.deleted", "20", "30", "40"}, onDisk(t, disk))
	require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked())
	disk.Heal()
	l = openLog(t, "log", seglog.Options{FS: disk.FS()})
	require.True(t, stats(t, l).Recovery.Clean)
	require.Equal(t, seglog.Offsets{Start: 20, Durable: 50, End: 50}, l.Offsets())
	require.Equal(t, []string{"20", "30", "40"}, onDisk(t, disk))
	closeLog(t, l)
}

// Who deletes because an append found no room has it when the call returns.
func TestADeletionOnAFullDiskMakesRoomBeforeItReturns(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := openLog(t, "log", seglog.Options{FS: disk.FS(), AheadBytes: -1})
	fiveSegments(t, l)
	for start := range int64(4) {
		disk.Fail(logtest.Calls{Kind: logtest.Write, Name: "*.log"}, syscall.ENOSPC)
		_, err := l.Append(many(1, 1), nil)
		require.ErrorIs(t, err, seglog.ErrNoSpace)
		disk.Heal()
		require.NoError(t, l.DeleteBefore(10*(start+1)))
		require.Len(t, onDisk(t, disk), int(4-start))
	}
	appendEach(t, l, many(1, 50)...)
	closeLog(t, l)
}

// A Dir keeps the files for file.delete.delay.ms from when they got their names.
func TestADirRemovesWhatWasDeletedInItsTime(t *testing.T) {
	opts := manual
	opts.Log.FileDeleteDelay = -1
	d := openDir(t, t.TempDir(), opts)
	l := create(t, d, "topic", 0)
	fiveSegments(t, l)
	require.NoError(t, l.DeleteBefore(20))
	require.Equal(t, []int64{20, 30, 40}, bases(t, l))
	require.NoError(t, d.Maintain(t.Context()))
	for _, base := range []int64{0, 10} {
		require.NoFileExists(t, segmentFile(l.Dir(), base, ".log"))
		require.NoFileExists(t, segmentFile(l.Dir(), base, ".log")+".deleted")
	}
	require.Equal(t, span(20, 49), offsetsOf(readAll(t, l, 20)))

	require.NoError(t, l.DeleteBefore(30))
	require.NoError(t, l.Close())
	require.FileExists(t, segmentFile(l.Dir(), 20, ".log")+".deleted")
	require.NoError(t, d.Maintain(t.Context()))
	require.NoFileExists(t, segmentFile(l.Dir(), 20, ".log")+".deleted")
	require.NoError(t, d.Close())
}

// Their files are open: a caller who deletes faster than a disk does would have no
// descriptors left.
func TestWhoDeletesFasterThanTheDiskWaitsForIt(t *testing.T) {
	requireNoLeak(t)
	disk := logtest.NewDisk(logtest.DiskOptions{})
	g := newGate(disk.FS(), logtest.Rename, "*.log*")
	defer g.open()
	l := openLog(t, "log", seglog.Options{FS: g, Sync: seglog.SyncNever})
	const left = 17 // by calls that do not wait
	for i := range int64(left + 2) {
		if i > 0 {
			roll(t, l)
		}
		appendEach(t, l, many(1, i)...)
	}
	for i := range int64(left) {
		require.NoError(t, l.DeleteBefore(i+1))
	}
	require.Len(t, onDisk(t, disk), left+2)
	done := make(chan error)
	go func() { done <- l.DeleteBefore(left + 1) }()
	require.Eventually(t, func() bool { return l.Offsets().Start == left+1 }, 10*time.Second, time.Millisecond,
		"then it has seen how many there are")
	g.open()
	require.NoError(t, <-done)
	require.Equal(t, []string{fmt.Sprint(left + 1)}, onDisk(t, disk))
	closeLog(t, l)
}
