package consumer

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var ctx = context.Background()

// tracked is a SafePosition with one batch registered.
func tracked(t testing.TB, start int64, offsets []int64, next int64) (*SafePosition, Generation) {
	t.Helper()
	s := NewSafePosition(start, len(offsets))
	require.NoError(t, s.Register(ctx, s.Generation(), offsets, next))
	return s, s.Generation()
}

func TestSafePositionIsTheEarliestUnfinishedRecord(t *testing.T) {
	tests := []struct {
		name        string
		start, next int64
		offsets     []int64
		complete    []int64
		want        []int64 // the position after each
	}{
		{"the worked example", 5, 12, []int64{5, 8, 10}, []int64{10, 8, 5}, []int64{5, 5, 12}},
		{"in order", 5, 12, []int64{5, 8, 10}, []int64{5, 8, 10}, []int64{8, 10, 12}},
		{"K089: offsets that compaction has removed are not waited for", 10, 16, []int64{10, 12, 15}, []int64{15, 10, 12}, []int64{10, 12, 16}},
		{"K090: the first of many is not finished", 0, 10, []int64{0, 1, 2, 3}, []int64{1, 2, 3}, []int64{0, 0, 0}},
		{"completed again", 0, 2, []int64{0, 1}, []int64{0, 0, 1, 1, 0}, []int64{1, 1, 2, 2, 2}},
		{"gap in front of the first", 0, 9, []int64{7}, []int64{7}, []int64{9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, g := tracked(t, tt.start, tt.offsets, tt.next)
			require.Equal(t, tt.offsets[0], s.Position())
			for i, o := range tt.complete {
				require.NoError(t, s.Complete(g, o))
				require.Equal(t, tt.want[i], s.Position(), "after %v", tt.complete[:i+1])
			}
		})
	}
}

func TestSafePositionCrossesBatches(t *testing.T) {
	s := NewSafePosition(3, 0)
	g := s.Generation()
	require.EqualValues(t, 3, s.Position(), "nothing registered")
	require.NoError(t, s.Register(ctx, g, []int64{3, 4}, 6))
	require.NoError(t, s.Register(ctx, g, []int64{8}, 9))
	require.NoError(t, s.Register(ctx, g, nil, 12), "markers")
	require.NoError(t, s.Complete(g, 4))
	require.NoError(t, s.Complete(g, 3))
	require.EqualValues(t, 8, s.Position())
	require.Equal(t, 1, s.InFlight())
	require.NoError(t, s.Complete(g, 8))
	require.EqualValues(t, 12, s.Position())
	require.NoError(t, s.Register(ctx, g, nil, 13))
	require.EqualValues(t, 13, s.Position(), "a batch without records moves it by itself")
}

// K094
func TestSafePositionRefusesWhatWasNotRegistered(t *testing.T) {
	s, g := tracked(t, 5, []int64{5, 8, 10}, 12)
	for _, o := range []int64{-1, 4, 6, 9, 11, 12, 99} {
		var unknown *UnknownOffsetError
		require.ErrorAs(t, s.Complete(g, o), &unknown)
		require.Equal(t, o, unknown.Offset)
		require.ErrorIs(t, unknown, ErrUnknownOffset)
	}
	require.EqualValues(t, 5, s.Position())
	require.Equal(t, 3, s.InFlight())
}

func TestSafePositionRefusesBatchesOutOfOrder(t *testing.T) {
	s, g := tracked(t, 5, []int64{5, 8, 10}, 12)
	for _, tt := range []struct {
		name    string
		offsets []int64
		next    int64
		want    OrderError
	}{
		{"registered before", []int64{8}, 13, OrderError{8, 12}},
		{"below the next position", []int64{11}, 13, OrderError{11, 12}},
		{"twice the same", []int64{12, 12}, 14, OrderError{12, 13}},
		{"falling", []int64{14, 13}, 15, OrderError{13, 15}},
		{"next position inside", []int64{12, 14}, 14, OrderError{14, 15}},
		{"next position below", nil, 11, OrderError{11, 12}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var order *OrderError
			require.ErrorAs(t, s.Register(ctx, g, tt.offsets, tt.next), &order)
			require.Equal(t, tt.want, *order)
			require.ErrorIs(t, order, ErrOrder)
			require.Equal(t, 3, s.InFlight(), "nothing of it was registered")
		})
	}
}

// K091: after a reset nothing of before counts.
func TestSafePositionResetFencesWhatWasInFlight(t *testing.T) {
	s, old := tracked(t, 86321, []int64{86321, 86330}, 86400)
	g := s.Reset(88617)
	require.EqualValues(t, 88617, s.Position())
	require.ErrorIs(t, s.Complete(old, 86321), ErrStale)
	require.ErrorIs(t, s.Register(ctx, old, []int64{88617}, 88618), ErrStale)
	require.NoError(t, s.Register(ctx, g, []int64{88617}, 88618))
	require.ErrorIs(t, s.Complete(old, 88617), ErrStale, "the same offset, of another time")
	require.EqualValues(t, 88617, s.Position())
	require.NoError(t, s.Complete(g, 88617))
	require.EqualValues(t, 88618, s.Position())
	s.Reset(10)
	require.EqualValues(t, 10, s.Position(), "a seek may go back")
}

// K092: intake slows down before memory grows.
func TestSafePositionHoldsBackWhatHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSafePosition(0, 4)
		g := s.Generation()
		require.NoError(t, s.Register(ctx, g, []int64{0, 1, 2}, 3))
		registered := make(chan error, 1)
		go func() { registered <- s.Register(ctx, g, []int64{3, 4}, 5) }()
		synctest.Wait()
		require.NoError(t, s.Complete(g, 2))
		synctest.Wait()
		require.Empty(t, registered, "what is finished behind an unfinished one takes room")
		require.NoError(t, s.Complete(g, 0))
		require.NoError(t, <-registered)
		require.Equal(t, 4, s.InFlight(), "1 to 4")

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, s.Register(short, g, []int64{5}, 6), context.DeadlineExceeded)
		require.NoError(t, s.Register(ctx, g, nil, 5), "no records take no room")

		go func() { registered <- s.Register(ctx, g, []int64{5}, 6) }()
		synctest.Wait()
		s.Reset(0)
		require.ErrorIs(t, <-registered, ErrStale, "a reset wakes who waits")
	})
}

func TestSafePositionTakesABatchLargerThanItsBound(t *testing.T) {
	s := NewSafePosition(0, 2)
	require.NoError(t, s.Register(ctx, s.Generation(), []int64{0, 1, 2, 3}, 4))
	require.Equal(t, 4, s.InFlight())
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	require.NoError(t, s.Register(short, s.Generation(), nil, 5), "no records take no room, then as always")
}

// What is finished is forgotten half at a time: else each completion would move all that
// is in flight, of batches with one record each as of others.
func TestSafePositionMovesOverEachRecordOnce(t *testing.T) {
	const n = 1 << 12
	for _, size := range []int{1, 3, n} {
		s := NewSafePosition(0, n)
		g := s.Generation()
		all := upTo(n)
		for from := 0; from < n; from += size {
			some := all[from:min(from+size, n)]
			require.NoError(t, s.Register(ctx, g, some, some[len(some)-1]+1))
		}
		moves := 0
		for _, o := range all {
			offsets, batches := len(s.mu.offsets), len(s.mu.batches)
			require.NoError(t, s.Complete(g, o))
			if len(s.mu.offsets) < offsets || len(s.mu.batches) < batches {
				moves++
			}
		}
		require.Zero(t, len(s.mu.offsets)+len(s.mu.batches))
		require.LessOrEqual(t, moves, 2*13, "batches of %d", size)
	}
}

func TestSafePositionTellsWhatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSafePosition(0, 0)
		g := s.Generation()
		_, _, ok := s.Oldest()
		require.False(t, ok)
		require.NoError(t, s.Register(ctx, g, []int64{1, 3}, 4))
		time.Sleep(time.Minute) // in a bubble
		require.NoError(t, s.Register(ctx, g, []int64{4}, 5))
		time.Sleep(time.Minute) // in a bubble
		require.NoError(t, s.Complete(g, 1))
		offset, age, ok := s.Oldest()
		require.True(t, ok)
		require.EqualValues(t, 3, offset)
		require.Equal(t, 2*time.Minute, age)
		require.NoError(t, s.Complete(g, 3))
		offset, age, _ = s.Oldest()
		require.EqualValues(t, 4, offset)
		require.Equal(t, time.Minute, age)
	})
}

// Memory follows the records in flight, not how far apart their offsets are.
func TestSafePositionDoesNotPayForGaps(t *testing.T) {
	s := NewSafePosition(0, 3)
	g := s.Generation()
	for i := range int64(100_000) {
		o := i << 40
		require.NoError(t, s.Register(ctx, g, []int64{o, o + 1<<39}, o+1<<39+1))
		require.NoError(t, s.Complete(g, o+1<<39))
		require.NoError(t, s.Complete(g, o))
	}
	require.Zero(t, s.InFlight())
	require.LessOrEqual(t, cap(s.mu.offsets)+cap(s.mu.done)+cap(s.mu.batches), 64)
}

// K094: many goroutines, any order.
func TestSafePositionNeverGoesDown(t *testing.T) {
	const records, workers = 100_000, 64
	s, g := tracked(t, 0, upTo(records), records)
	order := rand.New(rand.NewPCG(1, 2)).Perm(records)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			last := int64(0)
			for i := w; i < records; i += workers {
				for range 2 {
					if err := s.Complete(g, int64(order[i])); err != nil {
						t.Error(err)
					}
				}
				if at := s.Position(); at < last {
					t.Errorf("position went from %d to %d", last, at)
				} else {
					last = at
				}
			}
		})
	}
	done.Wait()
	require.EqualValues(t, records, s.Position())
	require.Zero(t, s.InFlight())
}

func upTo(n int64) []int64 {
	offsets := make([]int64, n)
	for i := range offsets {
		offsets[i] = int64(i)
	}
	return offsets
}

// naivePosition is what SafePosition promises, without any thought for cost.
type naivePosition struct {
	next       int64
	unfinished map[int64]bool
}

func (n *naivePosition) position() int64 {
	position := n.next
	for o := range n.unfinished {
		position = min(position, o)
	}
	return position
}

// A million completions in random order, of random batches with gaps, against the
// naive model.
func TestSafePositionAgainstANaiveModel(t *testing.T) {
	const window = 64
	random := rand.New(rand.NewPCG(3, 4))
	s := NewSafePosition(0, 2*window)
	g := s.Generation()
	model := naivePosition{unfinished: map[int64]bool{}}
	var open []int64
	for completions := 0; completions < 1_000_000; {
		for s.InFlight() < window {
			batch := make([]int64, random.IntN(8))
			for i := range batch {
				model.next += random.Int64N(3)
				batch[i] = model.next
				model.unfinished[model.next] = true
				model.next++
			}
			model.next += random.Int64N(3)
			open = append(open, batch...)
			require.NoError(t, s.Register(ctx, g, batch, model.next))
		}
		i := random.IntN(len(open))
		if random.IntN(4) == 0 {
			i = 0 // keep the window moving
		}
		o := open[i]
		open = slices.Delete(open, i, i+1)
		delete(model.unfinished, o)
		if err := s.Complete(g, o); err != nil {
			t.Fatalf("offset %d: %v", o, err)
		}
		completions++
		if got, want := s.Position(), model.position(); got != want {
			t.Fatalf("after %d completions: position %d, want %d", completions, got, want)
		}
	}
}

func TestSafePositionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 5).Draw(t, "start")
		s := NewSafePosition(start, 1000)
		g := s.Generation()
		model := naivePosition{start, map[int64]bool{}}
		known := map[int64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				var batch []int64
				next := model.next
				for _, gap := range rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 5).Draw(t, "gaps") {
					batch = append(batch, next+gap)
					next += gap + 1
				}
				next += rapid.Int64Range(0, 2).Draw(t, "tail")
				require.NoError(t, s.Register(ctx, g, batch, next))
				model.next = next
				for _, o := range batch {
					model.unfinished[o], known[o] = true, true
				}
			},
			"complete": func(t *rapid.T) {
				o := rapid.Int64Range(start-1, model.next+1).Draw(t, "offset")
				err := s.Complete(g, o)
				if known[o] || o >= start && o < model.position() {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, ErrUnknownOffset)
				}
				delete(model.unfinished, o)
			},
			"reset": func(t *rapid.T) {
				start = rapid.Int64Range(0, 50).Draw(t, "to")
				old := g
				g = s.Reset(start)
				require.ErrorIs(t, s.Complete(old, start), ErrStale)
				model = naivePosition{start, map[int64]bool{}}
				clear(known)
			},
			"": func(t *rapid.T) {
				require.Equal(t, model.position(), s.Position())
			},
		})
	})
}

func BenchmarkSafePositionComplete(b *testing.B) {
	for _, bm := range []struct {
		name   string
		window int
	}{{"window=1000", 1000}, {"window=100000", 100_000}} {
		b.Run(bm.name, func(b *testing.B) {
			s := NewSafePosition(0, bm.window)
			g := s.Generation()
			order := rand.New(rand.NewPCG(1, 2)).Perm(bm.window)
			offsets := upTo(int64(bm.window))
			i := bm.window
			b.ReportAllocs()
			for b.Loop() {
				if i == bm.window {
					if err := s.Register(ctx, g, offsets, offsets[bm.window-1]+1); err != nil {
						b.Fatal(err)
					}
					i = 0
				}
				if err := s.Complete(g, offsets[order[i]]); err != nil {
					b.Fatal(err)
				}
				if i++; i == bm.window {
					for j := range offsets {
						offsets[j] += int64(bm.window)
					}
				}
			}
		})
	}
}
