package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	// ErrStale: what it is about belongs to an assignment that has ended. The
	// partition was revoked or assigned anew, or its position was set.
	ErrStale = errors.New("assignment has ended")
	// ErrUnknownOffset: no such record was registered. See UnknownOffsetError.
	ErrUnknownOffset = errors.New("offset was not registered")
	// ErrOrder: offsets must rise, within a batch and from one to the next. See
	// OrderError.
	ErrOrder = errors.New("offsets out of order")
)

// UnknownOffsetError is the completion of a record that was not registered. It matches
// ErrUnknownOffset.
type UnknownOffsetError struct {
	Offset int64
}

func (e *UnknownOffsetError) Error() string {
	return fmt.Sprintf("offset %d: %v", e.Offset, ErrUnknownOffset)
}

// Unwrap returns ErrUnknownOffset.
func (e *UnknownOffsetError) Unwrap() error { return ErrUnknownOffset }

// OrderError is an offset, or a next position, that is below what it must be. It
// matches ErrOrder.
type OrderError struct {
	Offset int64
	Least  int64 // the smallest that would have been accepted
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("offset %d, want %d or above: %v", e.Offset, e.Least, ErrOrder)
}

// Unwrap returns ErrOrder.
func (e *OrderError) Unwrap() error { return ErrOrder }

// DefaultMaxInFlight is how many records a SafePosition holds unless told otherwise.
const DefaultMaxInFlight = 10_000

// Generation tells apart the times that a partition was assigned or sought: what was
// handed out in one does not count in the next.
type Generation int64

// SafePosition finds the position that may be committed for one partition when its
// records are finished in any order: everything below it is finished.
//
//	delivered   5  8  10     next position 12
//	finished       8  10     position  5
//	finished    5  8  10     position 12
//
// Offsets that no record has are not waited for, wherever compaction, transaction
// markers or aborted transactions have left them: only what was registered counts.
//
// It holds the records from its position on, finished or not, and nothing about the
// offsets between them: 9 bytes for each. Their number is bounded, and with it how many
// records are delivered again after a crash. Its methods may be called from any
// goroutine.
type SafePosition struct {
	maxInFlight int

	mu struct {
		sync.Mutex
		generation Generation
		start      int64 // where the generation began
		next       int64 // of the last registered batch, or start

		// offsets are those registered, and done which of them are finished.
		// Invariant: offsets rises, and all below head are finished.
		offsets []int64
		done    []bool
		head    int
		batches []registered // those with offsets from head on begin at oldest
		oldest  int
		changed chan struct{} // closed when head moves or the generation ends; nil if nobody waits
	}
}

type registered struct {
	last int64 // offset
	at   time.Time
}

// NewSafePosition begins at a position, with nothing in flight. maxInFlight bounds
// InFlight; 0 means DefaultMaxInFlight.
func NewSafePosition(position int64, maxInFlight int) *SafePosition {
	if maxInFlight <= 0 {
		maxInFlight = DefaultMaxInFlight
	}
	s := &SafePosition{maxInFlight: maxInFlight}
	s.mu.generation, s.mu.start, s.mu.next = 1, position, position
	return s
}

// Reset begins anew at a position, which may be lower: after a seek, or when the
// partition was revoked or assigned. What is in flight is forgotten, and completions of
// it are refused from now on.
func (s *SafePosition) Reset(position int64) Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.generation++
	s.mu.start, s.mu.next = position, position
	s.mu.offsets, s.mu.done, s.mu.head, s.mu.batches, s.mu.oldest = nil, nil, 0, nil, 0
	s.wakeLocked()
	return s.mu.generation
}

// Generation returns the present one.
func (s *SafePosition) Generation() Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.generation
}

// Register adds a batch of records that are handed out, by their real offsets, and the
// next position behind them, as the log tells it. A batch may have no records, and moves
// the position all the same. Batches are registered in order: an *OrderError refuses one
// that does not follow.
//
// While there is no room Register waits, for completions to move the position, or for
// ctx. A batch that is larger than the bound waits until nothing is in flight. An error
// says that nothing was registered; ErrStale, that the generation g has ended. The slice
// is not kept.
func (s *SafePosition) Register(ctx context.Context, g Generation, offsets []int64, next int64) error {
	for {
		changed, err := s.register(g, offsets, next)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// register returns what to wait for if there is no room.
func (s *SafePosition) register(g Generation, offsets []int64, next int64) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g != s.mu.generation {
		return nil, ErrStale
	}
	least := s.mu.next
	for _, o := range offsets {
		if o < least {
			return nil, &OrderError{o, least}
		}
		least = o + 1
	}
	if next < least {
		return nil, &OrderError{next, least}
	}
	if n := s.inFlightLocked(); n > 0 && len(offsets) > 0 && n+len(offsets) > s.maxInFlight {
		if s.mu.changed == nil {
			s.mu.changed = make(chan struct{})
		}
		return s.mu.changed, nil
	}
	s.mu.next = next
	if len(offsets) > 0 {
		s.mu.offsets = append(s.mu.offsets, offsets...)
		s.mu.done = append(s.mu.done, make([]bool, len(offsets))...)
		s.mu.batches = append(s.mu.batches, registered{offsets[len(offsets)-1], time.Now()})
	}
	return nil, nil
}

// Complete says that a record of generation g is finished. To say so again does no
// harm. ErrStale says that the generation has ended, and that another will get the record
// again; an *UnknownOffsetError, that it was never registered, as far as that is still
// known: below the position everything counts as finished.
//
// It costs a binary search among the records in flight; the position moves over each
// record once.
func (s *SafePosition) Complete(g Generation, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g != s.mu.generation {
		return ErrStale
	}
	if offset >= s.mu.start && offset < s.positionLocked() {
		return nil
	}
	i, found := slices.BinarySearch(s.mu.offsets[s.mu.head:], offset)
	if !found {
		return &UnknownOffsetError{offset}
	}
	s.mu.done[s.mu.head+i] = true
	if i == 0 {
		s.advanceLocked()
	}
	return nil
}

// advanceLocked moves head to the oldest record that is not finished.
func (s *SafePosition) advanceLocked() {
	for s.mu.head < len(s.mu.done) && s.mu.done[s.mu.head] {
		s.mu.head++
	}
	if s.mu.head > len(s.mu.offsets)/2 {
		n := copy(s.mu.offsets, s.mu.offsets[s.mu.head:])
		copy(s.mu.done, s.mu.done[s.mu.head:])
		s.mu.offsets, s.mu.done, s.mu.head = s.mu.offsets[:n], s.mu.done[:n], 0
	}
	position := s.positionLocked()
	for s.mu.oldest < len(s.mu.batches) && s.mu.batches[s.mu.oldest].last < position {
		s.mu.oldest++
	}
	if s.mu.oldest > len(s.mu.batches)/2 {
		n := copy(s.mu.batches, s.mu.batches[s.mu.oldest:])
		s.mu.batches, s.mu.oldest = s.mu.batches[:n], 0
	}
	s.wakeLocked()
}

func (s *SafePosition) wakeLocked() {
	if s.mu.changed != nil {
		close(s.mu.changed)
		s.mu.changed = nil
	}
}

// Position is the offset of the earliest record that is not finished, or, when all are,
// the next position of the last batch: what may be committed. Within a generation it
// never goes down.
func (s *SafePosition) Position() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.positionLocked()
}

func (s *SafePosition) positionLocked() int64 {
	if s.mu.head < len(s.mu.offsets) {
		return s.mu.offsets[s.mu.head]
	}
	return s.mu.next
}

// InFlight is how many records are held: those from the position on, also the finished
// ones among them.
func (s *SafePosition) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlightLocked()
}

func (s *SafePosition) inFlightLocked() int { return len(s.mu.offsets) - s.mu.head }

// Oldest returns the record that the position waits for, and how long ago it was
// registered. ok is false if there is none. One that only grows older is stuck, and
// holds up everything behind it: worth an alarm.
func (s *SafePosition) Oldest() (offset int64, age time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.head == len(s.mu.offsets) {
		return 0, 0, false
	}
	return s.mu.offsets[s.mu.head], time.Since(s.mu.batches[s.mu.oldest].at), true
}
