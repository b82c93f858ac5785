package seglog_test

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
)

// overlaps is a file system that notices whether a file is synced while it is being synced.
type overlaps struct {
	vfs.FS
	name  string // of the file; others are let be
	armed atomic.Bool
	calls atomic.Int32
	first chan struct{} // closed once a sync has begun
	twice chan struct{} // closed once another one has, beside it
}

type overlappedFile struct {
	vfs.File
	o *overlaps
}

func (o *overlaps) Abs(name string) (string, error) { return vfs.Abs(o.FS, name) }

func (o *overlaps) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := o.FS.OpenFile(name, flag, perm)
	if err != nil || path.Base(name) != o.name {
		return f, err
	}
	return overlappedFile{f, o}, nil
}

func (f overlappedFile) MapAhead(from, to int64) (vfs.Mapping, error) {
	return vfs.MapAhead(f.File, from, to)
}

func (f overlappedFile) Sync() error {
	if f.o.armed.Load() {
		switch f.o.calls.Add(1) {
		case 1:
			close(f.o.first)
			select {
			case <-f.o.twice:
			case <-time.After(100 * time.Millisecond): // nobody comes, as it should be
			}
		case 2:
			select {
			case <-f.o.twice:
			default:
				close(f.o.twice)
			}
		}
		defer f.o.armed.Store(false)
	}
	return f.File.Sync()
}

// Of two syncs of a file at once a kernel tells only one that what both are about could
// not be written, and the other that all is well.
func TestAFileIsNotSyncedTwiceAtOnce(t *testing.T) {
	o := &overlaps{
		FS: logtest.NewDisk(logtest.DiskOptions{}).FS(), name: "00000000000000000000.log",
		first: make(chan struct{}), twice: make(chan struct{}),
	}
	l := openLog(t, "log", seglog.Options{FS: o, AheadBytes: 4096, Sync: seglog.SyncNever})
	appendEach(t, l, many(40, 1)...) // until there is room ahead, which the roll cuts off
	o.armed.Store(true)
	synced := make(chan error)
	go func() { synced <- l.Sync() }()
	<-o.first
	roll(t, l)
	require.NoError(t, <-synced)
	select {
	case <-o.twice:
		t.Fatal("it was")
	default:
	}
	closeLog(t, l)
}

// Close has synced what it could. Nobody is told after it that there is more on disk.
func TestAClosedLogMakesNothingDurable(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS(), Sync: seglog.SyncNever}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(10, 1)...)
	disk = disk.Kill()
	disk.Fail(logtest.Calls{Kind: logtest.Write}, syscall.ENOSPC)
	disk.Fail(logtest.Calls{Kind: logtest.Preallocate}, syscall.ENOSPC)
	opts.FS = disk.FS()
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.ErrorIs(t, l.WaitDurable(t.Context(), 10), seglog.ErrNoSpace)
	require.ErrorIs(t, l.Close(), seglog.ErrNoSpace)
	disk.Heal()
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		require.ErrorIs(t, l.WaitDurable(ctx, 10), seglog.ErrClosed)
	}
	require.Zero(t, l.Offsets().Durable)
}

// A Sync or a Close between a failed append and a power cut has that append stay away,
// though there is nothing else to be synced.
func TestWhatWasTakenBackStaysSoBehindASync(t *testing.T) {
	for name, settle := range map[string]func(*seglog.Log) error{
		"sync": (*seglog.Log).Sync, "close": (*seglog.Log).Close,
	} {
		for _, opts := range bothWays(seglog.Options{SegmentIndexBytes: 1200}) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			opts.FS = disk.FS()
			l, err := seglog.Open("log", opts)
			require.NoError(t, err)
			appendEach(t, l, many(5, 1)...)
			disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log", Nth: 1}, 1000, syscall.EIO)
			_, err = l.Append([]seglog.Record{{Value: []byte("refused")}}, nil)
			require.ErrorIs(t, err, syscall.EIO)
			require.NotErrorIs(t, err, seglog.ErrFailed)
			require.NoError(t, settle(l), name)
			for state := range disk.States(200, 1) {
				opts.FS = state.FS()
				l, err := seglog.Open("log", opts)
				require.NoError(t, err)
				require.EqualValues(t, 5, l.Offsets().End, "%s, %s", name, state)
				require.NoError(t, l.Close())
			}
		}
	}
}

// Who is told that a segment was sealed may compact the log.
func TestCompactWhenASegmentIsSealed(t *testing.T) {
	requireNoLeak(t)
	var log atomic.Pointer[seglog.Log]
	compacted := make(chan error, 100)
	opts := seglog.Options{FS: logtest.NewDisk(logtest.DiskOptions{}).FS(), SegmentBytes: 2000, CleanupPolicy: seglog.CleanupCompact}
	opts.Events.Sealed = func(int64) {
		if l := log.Load(); l != nil {
			_, err := l.Compact(t.Context(), nil)
			compacted <- err
		}
	}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	log.Store(l)
	for i := range 60 {
		appendEach(t, l, seglog.Record{Key: fmt.Append(nil, i%3), Value: make([]byte, 100)})
	}
	require.NoError(t, <-compacted)
	require.NoError(t, l.Close())
	require.Less(t, len(compacted), 60, "it ends")
}

// Close does not wait for what it can end.
func TestCloseEndsACompactionThatSomeoneBeganWhoWasTold(t *testing.T) {
	requireNoLeak(t)
	var log atomic.Pointer[seglog.Log]
	began, ended := make(chan struct{}), make(chan error, 100)
	began1 := sync.OnceFunc(func() { close(began) })
	opts := seglog.Options{FS: logtest.NewDisk(logtest.DiskOptions{}).FS(), SegmentBytes: 2000, CleanupPolicy: seglog.CleanupCompact}
	opts.Events.Sealed = func(int64) {
		if l := log.Load(); l != nil {
			// Half an hour's work.
			_, err := l.Compact(context.Background(), &seglog.CompactOptions{BytesPerSecond: 1, Progress: func(seglog.CompactProgress) { began1() }})
			ended <- err
		}
	}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	for i := range 60 {
		appendEach(t, l, seglog.Record{Key: fmt.Append(nil, i%3), Value: make([]byte, 100)})
	}
	log.Store(l)
	roll(t, l)
	<-began
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, seglog.ErrClosed)
}

// Who calls Close beside another is not told that all is on disk before it is.
func TestCloseBesideCloseWaits(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	sealed, goOn := make(chan struct{}), make(chan struct{})
	opts := seglog.Options{FS: disk.FS(), Sync: seglog.SyncNever}
	opts.Events.Sealed = func(int64) { close(sealed); <-goOn }
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 1)...)
	roll(t, l)
	<-sealed
	appendEach(t, l, many(5, 10)...)
	closed := make(chan error)
	for range 2 {
		go func() { closed <- l.Close() }()
	}
	select {
	case <-closed:
		t.Fatal("one has not waited")
	case <-time.After(20 * time.Millisecond): // long enough for one that does not
	}
	close(goOn)
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	for state := range disk.States(20, 1) {
		opts := seglog.Options{FS: state.FS()}
		l, err := seglog.Open("log", opts)
		require.NoError(t, err)
		require.EqualValues(t, 10, l.Offsets().End, "%s", state)
		require.NoError(t, l.Close())
	}
}

// A partition that was deleted may be back after a power cut if the directory could not be
// synced. If its log had failed, nobody is to take it for sound.
func TestNoMarkBesideAFailedLogThatMayComeBack(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.DirOptions{ManualMaintenance: true, FS: disk.FS(), Log: seglog.Options{Sync: seglog.SyncNever}}
	d, err := seglog.OpenDir("logs", opts)
	require.NoError(t, err)
	l := create(t, d, "a", 0)
	appendEach(t, l, many(5, 1)...)
	require.NoError(t, l.Sync())
	appendEach(t, l, many(5, 10)...)
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*.log", Nth: 1}, syscall.EIO)
	require.ErrorIs(t, l.Sync(), seglog.ErrFailed)
	disk.Fail(logtest.Calls{Kind: logtest.SyncDir, Nth: 1}, syscall.EIO)
	require.ErrorIs(t, d.DeletePartition("a", 0), syscall.EIO)
	require.NoError(t, d.Close())
	_, err = disk.ReadFile("logs/.kafka_cleanshutdown")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
