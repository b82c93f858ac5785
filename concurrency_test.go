package seglog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

var raceRounds = flag.Int("race.rounds", 1, "how many times longer the tests of readers and writers at once take")

// stamped is a record whose value and timestamp tell its offset, so that any
// reader can see whether it got what was asked for.
func stamped(offset int64) seglog.Record {
	return seglog.Record{Timestamp: 1 + offset, Value: fmt.Appendf(nil, "value of %d", offset)}
}

func stampedError(r seglog.Record) error {
	if r.Timestamp != 1+r.Offset || string(r.Value) != fmt.Sprintf("value of %d", r.Offset) {
		return fmt.Errorf("offset %d has timestamp %d and value %q", r.Offset, r.Timestamp, r.Value)
	}
	return nil
}

// appendStamped appends n records whose offsets are known in advance, since
// there is one appender.
func appendStamped(l *seglog.Log, n int) (seglog.AppendResult, error) {
	end := l.Offsets().End
	records := make([]seglog.Record, n)
	for i := range records {
		records[i] = stamped(end + int64(i))
	}
	res, err := l.Append(records, nil)
	if err == nil && res.BaseOffset != end {
		err = fmt.Errorf("appended at %d, want %d", res.BaseOffset, end)
	}
	return res, err
}

// until runs f again and again, in a goroutine, until done is set or it fails.
func until(t *testing.T, wg *sync.WaitGroup, done *atomic.Bool, f func() error) {
	wg.Go(func() {
		for !done.Load() {
			if err := f(); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// K128
func TestATailReaderSeesWholeBatchesAndNothingBeyondTheEnd(t *testing.T) {
	requireNoLeak(t)
	l := openLog(t, t.TempDir(), dense)
	_, err := appendStamped(l, 1)
	require.NoError(t, err)
	var done atomic.Bool
	var readers sync.WaitGroup
	for i := range 8 {
		last := int64(0)
		until(t, &readers, &done, func() error {
			before := l.Offsets().End
			if before < last {
				return fmt.Errorf("the end went from %d to %d", last, before)
			}
			last = before
			if i%2 == 0 {
				r, err := l.Get(before - 1)
				return errors.Join(err, stampedError(r))
			}
			return readTail(l, before)
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for batch := range 1500 * *raceRounds {
		_, err := appendStamped(l, 1+random.IntN(50))
		require.NoError(t, err)
		if batch%100 == 99 {
			_, err := l.Roll()
			require.NoError(t, err)
		}
	}
	done.Store(true)
	readers.Wait()
	require.NoError(t, l.Close())
}

// readTail reads raw bytes at end-1: whole valid batches, all below the end
// that the answer states.
func readTail(l *seglog.Log, end int64) error {
	res, err := l.Read(end-1, 1<<20, nil)
	if err != nil {
		return err
	}
	if len(res.Batches) == 0 {
		return fmt.Errorf("nothing at %d, below the end", end-1)
	}
	for rest := res.Batches; len(rest) > 0; {
		b, err := record.Parse(rest)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return err
		}
		if b.LastOffset() >= res.End {
			return fmt.Errorf("batch up to %d, at or above the end %d", b.LastOffset(), res.End)
		}
		rest = rest[b.Size():]
	}
	return nil
}

// K129
func TestRollsReadsAndRetentionDoNotBlockEachOther(t *testing.T) {
	requireNoLeak(t)
	opts := dense
	opts.SegmentBytes = 2000
	opts.RetentionBytes = 20_000
	l := openLog(t, t.TempDir(), opts)
	_, err := appendStamped(l, 1)
	require.NoError(t, err)
	watchdog(t, 3*time.Minute)
	var done atomic.Bool
	var others sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(3, uint64(i)))
		until(t, &others, &done, func() error { return lookUpAnywhere(l, random) })
	}
	until(t, &others, &done, func() error { return scanWithoutGap(l) })
	until(t, &others, &done, func() error {
		_, err := l.ApplyRetention(context.Background())
		return err
	})
	for range 2000 * *raceRounds {
		_, err := appendStamped(l, 3)
		require.NoError(t, err)
	}
	done.Store(true)
	others.Wait()
	_, err = l.ApplyRetention(t.Context()) // appends may have been faster than any before
	require.NoError(t, err)
	require.Greater(t, l.Offsets().Start, int64(0))
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// watchdog ends the process with all stacks if the test does not end in time.
func watchdog(t *testing.T, limit time.Duration) {
	timer := time.AfterFunc(limit, func() { panic("deadlock: " + t.Name()) })
	t.Cleanup(func() { timer.Stop() })
}

// lookUpAnywhere asks for an offset anywhere, the bases of segments and their
// neighbours among them. Every answer must be right for some moment of the call.
func lookUpAnywhere(l *seglog.Log, random *rand.Rand) error {
	at := l.Offsets()
	offset := at.Start + random.Int64N(at.End-at.Start+1)
	if random.IntN(4) == 0 {
		infos, err := l.Segments()
		if err != nil {
			return err
		}
		offset = infos[random.IntN(len(infos))].BaseOffset - int64(random.IntN(2))
	}
	r, err := l.Get(offset)
	switch {
	case err == nil && r.Offset != offset:
		return fmt.Errorf("asked for %d, got %d", offset, r.Offset)
	case err == nil:
		return stampedError(r)
	case errors.Is(err, seglog.ErrOffsetOutOfRange):
		if now := l.Offsets(); offset >= now.Start && offset < at.End {
			return fmt.Errorf("offset %d is inside [%d, %d): %w", offset, now.Start, at.End, err)
		}
		return nil
	}
	return err
}

// scanWithoutGap reads from the start for as long as retention lets it: it may
// be thrown out, but never led past records.
func scanWithoutGap(l *seglog.Log) error {
	next := l.Offsets().Start
	for r, err := range l.Records(context.Background(), next, nil) {
		if errors.Is(err, seglog.ErrOffsetOutOfRange) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.Offset != next {
			return fmt.Errorf("offset %d after %d", r.Offset, next-1)
		}
		next++
	}
	return nil
}

// Everything at once.
func TestAWriterReadersFollowersRetentionAndTruncationTogether(t *testing.T) {
	requireNoLeak(t)
	opts := dense
	opts.SegmentBytes = 3000
	opts.RetentionBytes = 30_000
	l := openLog(t, t.TempDir(), opts)
	_, err := appendStamped(l, 5)
	require.NoError(t, err)
	watchdog(t, 3*time.Minute)

	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Bool
	var others sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(5, uint64(i)))
		until(t, &others, &done, func() error { return scanAnywhere(l, random, i) })
	}
	var followed atomic.Int64
	for range 3 {
		others.Go(func() {
			if err := follow(ctx, l, &followed); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, &others, &done, func() error {
		_, err := l.ApplyRetention(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	until(t, &others, &done, l.Sync)
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 600 {
		switch {
		case i%25 == 24: // the writer's own, so that it knows the end
			at := l.Offsets()
			require.NoError(t, l.TruncateTo(max(at.Start, at.End-random.Int64N(40))))
		case i%40 == 39:
			_, err := l.Roll()
			require.NoError(t, err)
		case i%500 == 499:
			at := l.Offsets()
			require.NoError(t, l.DeleteBefore(at.Start+(at.End-at.Start)/2))
		default:
			_, err := appendStamped(l, 1+random.IntN(10))
			require.NoError(t, err)
		}
	}
	eventually(t, func() bool { return followed.Load() > 0 }) // appends are quick
	done.Store(true)
	cancel()
	others.Wait()
	at := l.Offsets()
	for r, err := range l.Records(t.Context(), at.Start, nil) {
		require.NoError(t, err)
		require.NoError(t, stampedError(r))
	}
	closeLog(t, l)
	requireSound(t, l.Dir())
	again := openLog(t, l.Dir(), opts)
	require.Equal(t, at.Start, again.Offsets().Start)
	require.Equal(t, at.End, again.Offsets().End)
}

// scanAnywhere reads from anywhere in one of the four ways there are.
func scanAnywhere(l *seglog.Log, random *rand.Rand, way int) error {
	at := l.Offsets()
	if at.End == at.Start {
		return nil
	}
	from := at.Start + random.Int64N(at.End-at.Start)
	var err error
	switch way % 4 {
	case 0:
		err = scanRecords(l, from)
	case 1:
		for b, e := range l.Batches(context.Background(), from, nil) {
			if err = e; e == nil {
				err = b.Check()
			}
		}
	case 2:
		_, _, err = l.OffsetForTime(1 + from)
	case 3:
		var res seglog.ReadResult
		if res, err = l.Read(from, 5000, nil); err == nil && len(res.Batches) > 0 {
			var b record.Batch
			if b, err = record.Parse(res.Batches); err == nil {
				err = b.Check()
			}
		}
	}
	if errors.Is(err, seglog.ErrOffsetOutOfRange) || errors.Is(err, seglog.ErrTruncated) {
		return nil // retention or truncation was faster
	}
	return err
}

func scanRecords(l *seglog.Log, from int64) error {
	last := from - 1
	for r, err := range l.Records(context.Background(), from, nil) {
		if err != nil {
			return err
		}
		if r.Offset <= last {
			return fmt.Errorf("offset %d after %d", r.Offset, last)
		}
		last = r.Offset
		if err := stampedError(r); err != nil {
			return err
		}
	}
	return nil
}

// follow reads as it comes, and begins again where truncation or retention has
// thrown it out.
func follow(ctx context.Context, l *seglog.Log, seen *atomic.Int64) error {
	for ctx.Err() == nil {
		at := l.Offsets()
		next := at.Start + (at.End-at.Start)/2
		for r, err := range l.Records(ctx, next, &seglog.IterOptions{Follow: true}) {
			switch {
			case errors.Is(err, context.Canceled):
				return nil
			case errors.Is(err, seglog.ErrOffsetOutOfRange), errors.Is(err, seglog.ErrTruncated):
			case err != nil:
				return err
			case r.Offset < next:
				return fmt.Errorf("offset %d, want %d or above", r.Offset, next)
			default:
				next = r.Offset + 1
				seen.Add(1)
				if err := stampedError(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Many writers: every record once, the batches whole, the answers right.
func TestAppendsFromManyGoroutinesGetOffsetsOfTheirOwn(t *testing.T) {
	requireNoLeak(t)
	opts := seglog.Options{SegmentBytes: 20_000}
	l := openLog(t, t.TempDir(), opts)
	const writers, appends, n = 8, 30, 5
	owner := make([]atomic.Int64, writers*appends*n)
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for range appends {
				var records []seglog.Record
				for range n {
					records = append(records, one(1+w, fmt.Sprint("writer ", w)))
				}
				res, err := l.Append(records, nil)
				if err != nil || res.LastOffset-res.BaseOffset != n-1 || l.Offsets().Durable <= res.LastOffset {
					t.Errorf("%+v, %v", res, err)
					return
				}
				for o := res.BaseOffset; o <= res.LastOffset; o++ {
					if !owner[o].CompareAndSwap(0, 1+w) {
						t.Errorf("offset %d was given out twice", o)
					}
				}
			}
		})
	}
	wg.Wait()
	all := readAll(t, l, 0)
	require.Equal(t, span(0, writers*appends*n-1), offsetsOf(all))
	for i, r := range all {
		require.Equal(t, owner[i].Load(), r.Timestamp)
	}
}

// Wait and following wake on every append, and on nothing else for good.
func TestWaitReturnsOnceTheOffsetIsThere(t *testing.T) {
	requireNoLeak(t)
	l := openLog(t, t.TempDir(), quick)
	require.NoError(t, l.Wait(t.Context(), -1))
	appendEach(t, l, many(2, 1)...)
	require.NoError(t, l.Wait(t.Context(), 1), "it was appended before")

	waited := make(chan error)
	go func() { waited <- l.Wait(context.Background(), 3) }()
	appendEach(t, l, one(1, "2"))
	select {
	case err := <-waited:
		t.Fatalf("offset 3 is not there yet: %v", err)
	default:
	}
	require.NoError(t, l.TruncateTo(1))
	appendEach(t, l, many(3, 1)...)
	require.NoError(t, <-waited)

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	go func() { waited <- l.Wait(ctx, 100) }()
	cancel(cause)
	require.ErrorIs(t, <-waited, cause)

	go func() { waited <- l.Wait(context.Background(), 100) }()
	closeLog(t, l)
	require.ErrorIs(t, <-waited, seglog.ErrClosed)
}

// K096: a reader in another process, beside a writer in the middle of a batch.
func TestAReaderBesideALiveWriterNeverSeesHalfABatch(t *testing.T) {
	requireNoLeak(t)
	dir := t.TempDir()
	path := writeLog(t, dir, 0, plainBatch(t, 0, 0))
	ro := openLog(t, dir, seglog.Options{ReadOnly: true})
	content := readFile(t, path)
	next := int64(1)
	for range 60 {
		batch := batchOfSize(t, 200, next, next)
		for from := 0; from < len(batch); from += 37 {
			content = append(content, batch[from:min(from+37, len(batch))]...)
			writeFile(t, path, content)
			require.NoError(t, ro.Refresh())
			whole := from+37 >= len(batch)
			want := next
			if whole {
				want++
			}
			require.Equal(t, want, ro.Offsets().End)
			require.Equal(t, span(0, want-1), offsetsOf(readAll(t, ro, 0)))
			require.Equal(t, whole, len(stats(t, ro).Recovery.Cut) == 0)
		}
		next++
	}
	// A preallocated file ends in zeros.
	writeFile(t, path, append(content, make([]byte, 5000)...))
	require.NoError(t, ro.Refresh())
	require.Equal(t, span(0, next-1), offsetsOf(readAll(t, ro, 0)))
}

// K096, with a real writer that rolls, truncates and removes.
func TestRefreshFollowsAWriter(t *testing.T) {
	requireNoLeak(t)
	opts := dense
	opts.SegmentBytes = 1000
	l := openLog(t, t.TempDir(), opts)
	_, err := appendStamped(l, 3)
	require.NoError(t, err)
	ro := openLog(t, l.Dir(), seglog.Options{ReadOnly: true})
	random := rand.New(rand.NewPCG(9, 9))
	for i := range 200 {
		switch random.IntN(8) {
		case 0:
			at := l.Offsets()
			require.NoError(t, l.TruncateTo(max(at.Start, at.End-random.Int64N(20))))
		case 1:
			at := l.Offsets()
			deleteBefore(t, l, at.Start+random.Int64N(at.End-at.Start+1))
		case 2:
			_, err := l.Roll()
			require.NoError(t, err)
		default:
			_, err := appendStamped(l, 1+random.IntN(5))
			require.NoError(t, err)
		}
		require.NoError(t, ro.Refresh())
		at := l.Offsets()
		require.Equal(t, at.Start, ro.Offsets().Start, "step %d", i)
		require.Equal(t, bases(t, l), bases(t, ro), "step %d", i)
		require.Equal(t, readAll(t, l, at.Start), readAll(t, ro, at.Start), "step %d", i)
	}
	other := openLog(t, t.TempDir(), quick)
	require.ErrorIs(t, other.Refresh(), seglog.ErrOption)
}

// hookedFS calls a function once, before a file is opened.
type hookedFS struct {
	vfs.FS
	file string
	hook func()
}

func (h *hookedFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	if hook := h.hook; hook != nil && filepath.Base(name) == h.file {
		h.hook = nil
		hook()
	}
	return h.FS.OpenFile(name, flag, perm)
}

// A reader that looked at the segments before a truncation finds other batches, in other
// places, when it comes to read them. It looks again, and tells of no damage.
func TestATruncationIsNotTakenForDamage(t *testing.T) {
	opts := quick
	disk := &hookedFS{FS: vfs.OS, file: layout.LogName(0)}
	opts.FS = disk
	l := openLog(t, t.TempDir(), opts)
	add := func(n int) {
		_, err := appendStamped(l, n)
		require.NoError(t, err)
	}
	add(10)
	roll(t, l)
	add(5)
	add(5)
	roll(t, l) // at 20
	add(5)
	l = reopen(t, l, opts)
	disk.hook = func() {
		require.NoError(t, l.TruncateTo(15))
		add(5)
		add(5) // from 20 on, in the segment that ended there
	}
	require.Equal(t, int64(22), offsetForTime(t, l, 1+22))
	require.Nil(t, disk.hook)
}
