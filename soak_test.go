package seglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

var soakTime = flag.Duration("soak", 2*time.Second, "how long appenders, readers and all the rest work on one log")

// soak is a log that many work on at once, and what is known to be in it.
type soak struct {
	t    *testing.T
	log  *seglog.Log
	done atomic.Bool

	appended, read, followed, truncated, removed, rolled atomic.Int64

	// truncations counts beginnings and ends of truncations: odd while one is
	// under way. What was read or appended meanwhile may be gone again.
	truncations atomic.Int64
	known       struct {
		sync.Mutex
		at map[int64]soaked // acknowledged, by offset
	}
}

// soaked is what a record says of itself.
type soaked struct {
	appender, number int64 // of the batch
	index, size      int64 // in it, of it
}

func (r soaked) value(padding int) []byte {
	b := make([]byte, 0, 36+padding)
	for _, n := range []int64{r.appender, r.number, r.index, r.size} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for range padding {
		b = append(b, byte(r.number))
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func parseSoaked(b []byte) (soaked, error) {
	if len(b) < 36 || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return soaked{}, fmt.Errorf("%d bytes that nobody wrote", len(b))
	}
	n := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return soaked{n(0), n(1), n(2), n(3)}, nil
}

// check compares a record with what was acknowledged at its offset, if no
// truncation has come between since then, or since before it was read.
func (s *soak) check(r seglog.Record, before int64) error {
	got, err := parseSoaked(r.Value)
	if err != nil {
		return fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	s.known.Lock()
	defer s.known.Unlock()
	want, ok := s.known.at[r.Offset]
	if ok && got != want && before%2 == 0 && s.truncations.Load() == before {
		return fmt.Errorf("offset %d holds %+v, want %+v", r.Offset, got, want)
	}
	return nil
}

// append appends one batch after the other.
func (s *soak) append(appender int64) func() error {
	random := rand.New(rand.NewPCG(1, uint64(appender)))
	number := int64(0)
	return func() error {
		number++
		size := 1 + random.Int64N(6)
		records := make([]seglog.Record, size)
		for i := range records {
			records[i].Value = soaked{appender, number, int64(i), size}.value(random.IntN(200))
		}
		policy := seglog.SyncNever
		if random.IntN(8) == 0 {
			policy = seglog.SyncAlways
		}
		before := s.truncations.Load()
		at, err := s.log.Append(records, &seglog.AppendOptions{Sync: &policy})
		if err != nil {
			return err
		}
		if at.LastOffset-at.BaseOffset != size-1 {
			return fmt.Errorf("%d records got the offsets %d to %d", size, at.BaseOffset, at.LastOffset)
		}
		s.appended.Add(size)
		return s.acknowledge(at, soaked{appender, number, 0, size}, before)
	}
}

func (s *soak) acknowledge(at seglog.AppendResult, first soaked, before int64) error {
	s.known.Lock()
	defer s.known.Unlock()
	if before%2 != 0 || s.truncations.Load() != before {
		return nil
	}
	for o := at.BaseOffset; o <= at.LastOffset; o++ {
		if other, ok := s.known.at[o]; ok {
			return fmt.Errorf("offset %d was given to %+v and to %+v", o, other, first)
		}
		s.known.at[o] = first
		first.index++
	}
	return nil
}

// look reads from anywhere in one of the ways there are.
func (s *soak) look(reader int) func() error {
	random := rand.New(rand.NewPCG(2, uint64(reader)))
	var buf []byte
	return func() error {
		before := s.truncations.Load()
		at := s.log.Offsets()
		if at.Start == at.End {
			return nil
		}
		from := at.Start + random.Int64N(at.End-at.Start)
		var err error
		switch reader % 4 {
		case 0:
			err = s.scan(from, before)
		case 1:
			var r seglog.Record
			if r, buf, err = s.log.GetBuffer(from, buf); err == nil {
				err = s.check(r, before)
			}
		case 2:
			err = s.readRaw(from)
		case 3:
			if _, _, err = s.log.OffsetForTime(time.Now().UnixMilli() - random.Int64N(1000)); err == nil {
				_, err = s.log.Segments()
			}
		}
		if lost(err) {
			return nil
		}
		s.read.Add(1)
		return err
	}
}

// lost: retention or truncation was faster.
func lost(err error) bool {
	return errors.Is(err, seglog.ErrOffsetOutOfRange) || errors.Is(err, seglog.ErrTruncated) || errors.Is(err, seglog.ErrNoRecord)
}

func (s *soak) scan(from, before int64) error {
	last := from - 1
	for r, err := range s.log.Records(context.Background(), from, &seglog.IterOptions{To: from + 200}) {
		if err != nil {
			return err
		}
		if r.Offset <= last {
			return fmt.Errorf("offset %d comes after %d", r.Offset, last)
		}
		last = r.Offset
		if err := s.check(r, before); err != nil {
			return err
		}
	}
	return nil
}

func (s *soak) readRaw(from int64) error {
	res, err := s.log.Read(from, 20_000, nil)
	for rest := res.Batches; err == nil && len(rest) > 0; {
		var b record.Batch
		if b, err = record.Parse(rest); err == nil {
			err = b.Check()
			rest = rest[b.Size():]
		}
	}
	return err
}

// follow reads records as they become durable, from the start again whenever it was
// thrown out.
func (s *soak) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		before := s.truncations.Load()
		last := int64(-1)
		for r, err := range s.log.Records(ctx, s.log.Offsets().Start, &seglog.IterOptions{Follow: true, Durable: true}) {
			if errors.Is(err, context.Canceled) || lost(err) {
				break
			}
			if err == nil && r.Offset <= last {
				err = fmt.Errorf("followed from %d to %d", last, r.Offset)
			}
			if err == nil {
				err = s.check(r, before)
			}
			if err != nil {
				return err
			}
			last = r.Offset
			s.followed.Add(1)
		}
	}
	return nil
}

// followBatches does the same with batches at the log end. A batch is read when it
// is asked for, so that none that was taken back before may come.
func (s *soak) followBatches(ctx context.Context) error {
	var it record.Iterator
	defer it.Close()
	for ctx.Err() == nil {
		before := s.truncations.Load()
		for b, err := range s.log.Batches(ctx, s.log.Offsets().Start, &seglog.IterOptions{Follow: true}) {
			if errors.Is(err, context.Canceled) || lost(err) {
				break
			}
			if err != nil {
				return err
			}
			for r, err := range b.Records(&it) {
				if err == nil {
					err = s.check(*r, before)
				}
				if err != nil {
					return err
				}
				s.followed.Add(1)
			}
			before = s.truncations.Load()
		}
	}
	return nil
}

func (s *soak) truncate(random *rand.Rand) error {
	s.truncations.Add(1)
	at := s.log.Offsets()
	to := max(at.Start, at.End-random.Int64N(100))
	err := s.log.TruncateTo(to)
	s.known.Lock()
	defer s.known.Unlock()
	for o, r := range s.known.at {
		if o-r.index+r.size > to { // all of a batch goes, or none of it
			delete(s.known.at, o)
		}
	}
	s.truncations.Add(1)
	s.truncated.Add(1)
	return err
}

// forget drops what was removed from the front.
func (s *soak) forget() {
	start := s.log.Offsets().Start
	s.known.Lock()
	defer s.known.Unlock()
	for o := range s.known.at {
		if o < start {
			delete(s.known.at, o)
		}
	}
}

// maintain does something after every few dozen records.
func (s *soak) maintain(ctx context.Context, random *rand.Rand) func() error {
	return func() error {
		if err := s.log.Wait(ctx, s.log.Offsets().End+random.Int64N(100)); err != nil {
			if ctx.Err() != nil {
				return nil // it is over
			}
			return err
		}
		switch n := random.IntN(20); {
		case n < 2:
			return s.truncate(random)
		case n == 2:
			at := s.log.Offsets()
			err := s.log.DeleteBefore(at.Start + (at.End-at.Start)/2)
			s.forget()
			if errors.Is(err, seglog.ErrOffsetOutOfRange) {
				return nil
			}
			return err
		case n < 5:
			res, err := s.log.ApplyRetention(context.Background())
			s.removed.Add(int64(res.Segments))
			s.forget()
			return err
		case n < 10:
			_, err := s.log.Roll()
			s.rolled.Add(1)
			return err
		case n < 12:
			return s.log.Sync()
		}
		_, err := s.log.Stats()
		return err
	}
}

// Everything at once, for as long as -soak says: eight appenders, eight readers,
// followers of the end and of what is durable, and one who rolls, truncates, removes
// and syncs. Run it under the race detector for minutes:
//
//	go test -race -run TestSoak -soak 10m
func TestSoak(t *testing.T) {
	requireNoLeak(t)
	watchdog(t, *soakTime+2*time.Minute)
	opts := seglog.Options{SegmentBytes: 64 << 10, IndexIntervalBytes: 500, RetentionBytes: 256 << 10, MaxOpenSegments: 8,
		FlushInterval: 20 * time.Millisecond}
	l := openLog(t, t.TempDir(), opts)
	s := &soak{t: t, log: l}
	s.known.at = map[int64]soaked{}

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		until(t, &all, &s.done, s.append(int64(i)))
		until(t, &all, &s.done, s.look(i))
	}
	for _, follow := range []func(context.Context) error{s.follow, s.followBatches} {
		all.Go(func() {
			if err := follow(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, &all, &s.done, s.maintain(ctx, rand.New(rand.NewPCG(3, 3))))
	timer := time.AfterFunc(*soakTime, func() {
		s.done.Store(true)
		cancel()
	})
	all.Wait()
	timer.Stop()
	cancel()
	t.Logf("appended %d records, read %d times, followed %d records, %d truncations, %d rolls, %d segments removed",
		s.appended.Load(), s.read.Load(), s.followed.Load(), s.truncated.Load(), s.rolled.Load(), s.removed.Load())
	require.Positive(t, s.followed.Load())

	s.requireKnown(l)
	l = reopen(t, l, opts)
	s.requireKnown(l)
	closeLog(t, l)
	requireSound(t, l.Dir())
}

// requireKnown: what was acknowledged and not taken back is there, and nothing that
// nobody wrote.
func (s *soak) requireKnown(l *seglog.Log) {
	start := l.Offsets().Start
	found := map[int64]soaked{}
	for r, err := range l.Records(s.t.Context(), start, nil) {
		require.NoError(s.t, err)
		got, err := parseSoaked(r.Value)
		require.NoError(s.t, err)
		found[r.Offset] = got
	}
	for o, want := range s.known.at {
		if o >= start {
			require.Equal(s.t, want, found[o], "offset %d", o)
		}
	}
}
