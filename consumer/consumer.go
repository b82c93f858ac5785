package consumer

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// Consumer reads partitions of a Dir, alone or as a member of a group. Poll and Records
// are for one goroutine at a time; all other methods may be called from any.
type Consumer struct {
	dir  *seglog.Dir
	opts Options

	// life ends with Close, and background counts what runs until then.
	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup

	turn    chan struct{} // held by who polls
	sending chan struct{} // held by who commits
	wake    chan struct{} // has Poll look again

	lastPoll atomic.Int64 // nanoseconds since began, or polling
	began    time.Time

	errorDue bool // an error was held back for records, and comes next; of who holds turn

	mu struct {
		sync.Mutex
		closed     bool // or about to be: listeners may still commit until life ends
		subscribed bool
		topics     []string
		assigned   map[offsetslog.TopicPartition]*partition
		order      []*partition // those assigned, in the order of the next Poll
		retired    []*reader    // of partitions that went, for who holds turn to close
		calls      int64        // counts commits, in the order in which they were called for
		queue      []*commit    // asynchronous commits
		draining   bool         // somebody sends them
		autoCommit time.Time    // when the next is due
		locateAt   time.Time    // when to ask again for committed offsets
		group      membership
	}
}

// polling is a lastPoll: there is a Poll now.
const polling = -1

// partition is one assignment of a partition. What concerns it compares the pointer: a
// later assignment of the same partition is another. Its fields are guarded by
// Consumer.mu, unless it says otherwise.
type partition struct {
	offsetslog.TopicPartition
	// place is where the next Poll reads on. Its position is -1 until it is known.
	place
	// seeks counts the times that place was set by other means than reading.
	seeks  int
	paused bool
	// reset, if not nil, is where a place has to be found.
	reset *OffsetReset
	// safe tracks what was delivered, with Options.MaxInFlight, in this generation.
	safe       *SafePosition
	generation Generation
	// sent is the latest commit, by its number, that has reached the coordinator.
	sent int64

	reader reader // of who holds turn
}

// New makes a consumer of the partitions of dir, which stays the caller's. It does
// nothing before Subscribe or Assign.
func New(dir *seglog.Dir, opts Options) (*Consumer, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		dir: dir, opts: opts, began: time.Now(),
		turn: make(chan struct{}, 1), sending: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.mu.autoCommit = c.began.Add(opts.AutoCommitInterval)
	c.mu.assigned = map[offsetslog.TopicPartition]*partition{}
	c.mu.group.member = stranger
	return c, nil
}

// wakeUp has a Poll that waits look again.
func (c *Consumer) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Subscribe makes the consumer a member of its group, which assigns it partitions of
// these topics within Poll. It replaces an earlier subscription. A topic need not be
// there yet: see Options.TopicRefresh.
func (c *Consumer) Subscribe(topics ...string) error {
	if len(topics) == 0 {
		return &seglog.OptionError{Field: "topics", Value: "none", Want: "at least one; Unsubscribe ends a subscription"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.closed:
		return ErrClosed
	case c.opts.Group == "":
		return ErrNoGroup
	case !c.mu.subscribed && len(c.mu.assigned) > 0:
		return ErrMode
	}
	c.mu.subscribed = true
	c.mu.topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	c.mu.group.rejoin = true
	c.wakeUp()
	return nil
}

// Assign gives the consumer these partitions, and no others, without the help of a group;
// nothing keeps another from reading them, too. Those it had before go on where they
// are, and those that go are committed first, unless Options.ManualCommit is set; a failure
// of that is told to Events.CommitFailed. The error is ErrMode, ErrClosed or that of ctx,
// and then nothing has changed.
func (c *Consumer) Assign(ctx context.Context, partitions ...offsetslog.TopicPartition) error {
	going := map[*partition]bool{}
	c.mu.Lock()
	switch {
	case c.mu.closed:
		c.mu.Unlock()
		return ErrClosed
	case c.mu.subscribed:
		c.mu.Unlock()
		return ErrMode
	}
	for tp, p := range c.mu.assigned {
		if !slices.Contains(partitions, tp) {
			going[p] = true
		}
	}
	c.mu.Unlock()
	c.commitFailed(c.commitGoing(ctx, going))
	if err := c.take(ctx, c.sending); err != nil {
		return err
	}
	defer c.give(c.sending)
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range going {
		c.dropLocked(p)
	}
	for _, tp := range partitions {
		c.addLocked(tp)
	}
	c.wakeUp()
	return nil
}

// commitGoing commits the partitions that go, if that is done without asking.
func (c *Consumer) commitGoing(ctx context.Context, going map[*partition]bool) error {
	if c.opts.ManualCommit || len(going) == 0 {
		return nil
	}
	c.mu.Lock()
	r := c.consumedLocked(func(p *partition) bool { return going[p] })
	c.mu.Unlock()
	return c.sendRetrying(ctx, r)
}

func (c *Consumer) addLocked(tp offsetslog.TopicPartition) {
	if c.mu.assigned[tp] != nil {
		return
	}
	p := &partition{TopicPartition: tp, place: place{-1, -1}}
	if c.opts.MaxInFlight > 0 {
		p.safe = NewSafePosition(0, c.opts.MaxInFlight)
	}
	c.mu.assigned[tp] = p
	c.mu.order = append(c.mu.order, p)
	c.mu.locateAt = time.Time{}
}

// dropLocked ends an assignment. Who calls it holds sending, so that no commit of it
// is under way.
func (c *Consumer) dropLocked(p *partition) {
	if c.mu.assigned[p.TopicPartition] != p {
		return
	}
	delete(c.mu.assigned, p.TopicPartition)
	c.mu.order = slices.DeleteFunc(c.mu.order, func(o *partition) bool { return o == p })
	c.mu.retired = append(c.mu.retired, &p.reader)
	p.seeks++
	if p.safe != nil {
		p.safe.Reset(0)
	}
}

// take waits for a turn. Waiters are served in the order in which they came.
func (c *Consumer) take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Consumer) give(turn chan struct{}) { <-turn }

// Unsubscribe gives up all partitions, after a commit unless Options.ManualCommit is
// set, and leaves the group. It waits for a Poll under way to end; see Poll.
func (c *Consumer) Unsubscribe(ctx context.Context) error {
	if err := c.take(ctx, c.turn); err != nil {
		return err
	}
	defer c.give(c.turn)
	c.mu.Lock()
	closed := c.mu.closed
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	err := c.leave(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.subscribed, c.mu.topics = false, nil
	return err
}

// Close commits what was consumed, unless Options.ManualCommit is set, tells the
// Listener, and leaves the group, unless it is a static member. A Poll that waits ends
// with ErrClosed. It must not be called within Poll, from a Listener or the loop of
// Records. The error is that of the commit: everything is closed all the same. Close
// again does nothing.
func (c *Consumer) Close() error {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return nil
	}
	c.mu.closed = true
	c.mu.Unlock()
	c.wakeUp()
	c.turn <- struct{}{}
	defer c.give(c.turn)
	ctx, cancel := context.WithTimeout(c.life, c.opts.APITimeout)
	defer cancel()
	err := c.leave(ctx)
	c.closeRetired()
	if drained := c.drain(ctx); err == nil {
		err = drained
	}
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.background.Wait()
	return err
}

// drain waits until the asynchronous commits are done.
func (c *Consumer) drain(ctx context.Context) error {
	done := make(chan error, 1)
	c.mu.Lock()
	idle := len(c.mu.queue) == 0 && !c.mu.draining
	if !idle {
		c.enqueueLocked(&commit{done: func(err error) { done <- err }})
	}
	c.mu.Unlock()
	if idle {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeRetired closes the readers of partitions that went.
func (c *Consumer) closeRetired() {
	c.mu.Lock()
	retired := c.mu.retired
	c.mu.retired = nil
	c.mu.Unlock()
	for _, r := range retired {
		r.close()
	}
}

// Assignment returns the partitions that the consumer has, sorted.
func (c *Consumer) Assignment() []offsetslog.TopicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sorted(maps.Keys(c.mu.assigned))
}

// Subscription returns the topics subscribed to, sorted.
func (c *Consumer) Subscription() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.topics)
}

// Member returns what the group knows the consumer as, for commits within a transaction
// (offsetslog.TransactionalCommitRequest); ok is false while it is no member.
func (c *Consumer) Member() (m offsetslog.Member, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m = c.mu.group.member
	return m, m.Generation >= 0
}

// Pause has Poll deliver nothing from these partitions until Resume. A new assignment is
// not paused.
func (c *Consumer) Pause(partitions ...offsetslog.TopicPartition) error {
	return c.each(partitions, func(p *partition) { p.paused = true })
}

// Resume ends Pause.
func (c *Consumer) Resume(partitions ...offsetslog.TopicPartition) error {
	return c.each(partitions, func(p *partition) { p.paused = false })
}

// Paused returns the partitions that are paused, sorted.
func (c *Consumer) Paused() []offsetslog.TopicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	var paused []offsetslog.TopicPartition
	for tp, p := range c.mu.assigned {
		if p.paused {
			paused = append(paused, tp)
		}
	}
	return sorted(slices.Values(paused))
}

// each does something with partitions, or nothing if one is not assigned.
func (c *Consumer) each(partitions []offsetslog.TopicPartition, do func(*partition)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return ErrClosed
	}
	for _, tp := range partitions {
		if c.mu.assigned[tp] == nil {
			return &PartitionError{tp, -1, ErrNotAssigned}
		}
	}
	for _, tp := range partitions {
		do(c.mu.assigned[tp])
	}
	c.wakeUp()
	return nil
}

func sorted(partitions func(func(offsetslog.TopicPartition) bool)) []offsetslog.TopicPartition {
	return slices.SortedFunc(partitions, func(a, b offsetslog.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// wait is a pause that ends early with ctx, or with Close.
func (c *Consumer) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.life.Done():
		return ErrClosed
	}
}

// retriable reports whether the coordinator may accept the same request later. One that
// is refused for a rebalance is not the same afterwards.
func retriable(err error) bool {
	var e offsetslog.Error
	return errors.As(err, &e) && e.Retriable() && e != offsetslog.ErrRebalancing
}
