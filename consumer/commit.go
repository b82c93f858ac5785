package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seglog/seglog/offsetslog"
)

// OffsetAndMetadata is a position to be committed: the offset of the next record to be
// read, and whatever is to be remembered with it.
type OffsetAndMetadata struct {
	Offset   int64
	Metadata string
}

// commit is one call for a commit.
type commit struct {
	offsets map[*partition]numbered
	done    func(error) // nil if nobody wants to know
}

// numbered is an offset with the number of the call: of two for the same partition the
// one with the higher number counts, in whatever order they are sent.
type numbered struct {
	call int64
	offsetslog.Commit
}

// CommitSync commits positions of partitions, or with nil those of all partitions as they
// are now: behind what Poll has returned, or before the first record that is not
// completed if Options.MaxInFlight is set. It returns when they are on disk.
//
// What the coordinator can only not do now is tried again until ctx ends, or for
// Options.APITimeout if it has no deadline. Other errors are final: with
// offsetslog.ErrRebalancing, ErrIllegalGeneration or ErrUnknownMember the group goes on
// without the consumer until it calls Poll, and somebody will get the records again.
// Offsets that were refused by themselves are *PartitionErrors; all others were
// committed. When ctx has ended it is not known.
//
// A commit that was called for later is never undone by one called for earlier, and none
// for a partition that has gone is sent: ErrStale. Of records that are not on disk yet
// the log is synced first, so that no committed offset can lie above the end of a log
// that was opened after a crash.
func (c *Consumer) CommitSync(ctx context.Context, offsets map[offsetslog.TopicPartition]OffsetAndMetadata) error {
	r, err := c.newCommit(offsets)
	if err != nil {
		return err
	}
	return c.sendRetrying(ctx, r)
}

// CommitAsync is CommitSync without the wait and without a second try. Commits that are
// called for while another is being sent go together. done, if not nil, is called with the
// result, from another goroutine, in the order of the calls; it must not wait for the
// consumer. An error returned at once says that nothing will be committed.
func (c *Consumer) CommitAsync(offsets map[offsetslog.TopicPartition]OffsetAndMetadata, done func(error)) error {
	r, err := c.newCommit(offsets)
	if err != nil {
		return err
	}
	r.done = done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return ErrClosed
	}
	c.enqueueLocked(r)
	return nil
}

func (c *Consumer) newCommit(offsets map[offsetslog.TopicPartition]OffsetAndMetadata) (*commit, error) {
	if c.opts.Group == "" {
		return nil, ErrNoGroup
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, ErrClosed
	}
	if offsets == nil {
		return c.consumedLocked(func(*partition) bool { return true }), nil
	}
	c.mu.calls++
	r := &commit{offsets: make(map[*partition]numbered, len(offsets))}
	for tp, o := range offsets {
		p := c.mu.assigned[tp]
		switch {
		case p == nil:
			return nil, &PartitionError{tp, -1, ErrNotAssigned}
		case o.Offset < 0:
			return nil, &PartitionError{tp, o.Offset, offsetslog.ErrInvalidRequest}
		}
		r.offsets[p] = c.number(p, o.Offset, o.Metadata)
	}
	return r, nil
}

// consumedLocked is a commit of the positions of the partitions that are wanted.
func (c *Consumer) consumedLocked(wanted func(*partition) bool) *commit {
	c.mu.calls++
	r := &commit{offsets: map[*partition]numbered{}}
	for _, p := range c.mu.assigned {
		if p.position < 0 || !wanted(p) {
			continue
		}
		offset := p.position
		if p.safe != nil {
			offset = p.safe.Position()
		}
		r.offsets[p] = c.number(p, offset, "")
	}
	return r
}

// number gives a commit the number of the present call, and the epoch if it is known: a
// wrong one would look like a truncation.
func (c *Consumer) number(p *partition, offset int64, metadata string) numbered {
	epoch := int32(-1)
	if offset == p.position {
		epoch = p.epoch
	}
	return numbered{c.mu.calls, offsetslog.Commit{TopicPartition: p.TopicPartition, Offset: offset, LeaderEpoch: epoch, Metadata: metadata}}
}

// sendRetrying sends a commit until it has succeeded or that is of no use.
func (c *Consumer) sendRetrying(ctx context.Context, r *commit) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.APITimeout)
		defer cancel()
	}
	var last error // what has kept it from succeeding
	for {
		result, err := c.send(ctx, r)
		if err == nil {
			err = result.of(r)
		}
		if !retriable(err) {
			if last != nil && ctx.Err() != nil {
				return fmt.Errorf("%w, after %w", err, last)
			}
			return err
		}
		if last = err; c.wait(ctx, c.opts.RetryBackoff) != nil {
			return err
		}
	}
}

// refused are the partitions of a commit that were refused by themselves.
type refused map[*partition]error

// of is what a call is told.
func (f refused) of(r *commit) error {
	var errs []error
	for p, o := range r.offsets {
		if err := f[p]; err != nil {
			errs = append(errs, &PartitionError{p.TopicPartition, o.Offset, err})
		}
	}
	return errors.Join(errs...)
}

// send sends what is still of interest of a commit, once. An error is about all of it.
func (c *Consumer) send(ctx context.Context, r *commit) (refused, error) {
	if err := c.take(ctx, c.sending); err != nil {
		return nil, err
	}
	defer c.give(c.sending)
	c.mu.Lock()
	member, err := c.actingLocked()
	failed := refused{}
	var parts []*partition
	for p, o := range r.offsets {
		switch {
		case c.mu.assigned[p.TopicPartition] != p:
			failed[p] = ErrStale
		case p.sent <= o.call: // else a later commit has been there
			parts = append(parts, p)
		}
	}
	c.mu.Unlock()
	if len(parts) == 0 {
		return failed, nil
	}
	if err != nil {
		return nil, err
	}
	req := offsetslog.CommitRequest{Group: c.opts.Group, Member: member}
	for _, p := range parts {
		if err := c.onDisk(ctx, r.offsets[p].Commit); err != nil {
			failed[p] = err
			continue
		}
		req.Offsets = append(req.Offsets, r.offsets[p].Commit)
	}
	if len(req.Offsets) == 0 {
		return failed, nil
	}
	err = c.opts.Coordinator.Commit(ctx, req)
	var some *offsetslog.PartitionsError
	if err != nil && !errors.As(err, &some) {
		c.noteGroupError(err, member)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parts {
		if some != nil {
			for _, one := range some.Partitions {
				if one.TopicPartition == p.TopicPartition {
					failed[p] = one.Err
				}
			}
		}
		if failed[p] == nil {
			p.sent = r.offsets[p].call
		}
	}
	return failed, nil
}

// onDisk makes sure that an offset that is committed cannot lie above the end of the log
// after a crash, where other records would come below it.
func (c *Consumer) onDisk(ctx context.Context, o offsetslog.Commit) error {
	log, err := c.dir.Partition(o.Topic, o.Partition)
	if err != nil {
		return err
	}
	bounds := log.Offsets()
	if o.Offset <= bounds.Durable {
		return nil
	}
	return log.WaitDurable(ctx, min(o.Offset, bounds.End))
}

// enqueueLocked has an asynchronous commit sent.
func (c *Consumer) enqueueLocked(r *commit) {
	c.mu.queue = append(c.mu.queue, r)
	if !c.mu.draining {
		c.mu.draining = true
		c.background.Go(c.sendQueued)
	}
}

// sendQueued sends asynchronous commits until there are none, those that have come
// meanwhile together.
func (c *Consumer) sendQueued() {
	for {
		c.mu.Lock()
		queue := c.mu.queue
		c.mu.queue = nil
		c.mu.draining = len(queue) > 0
		c.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		all := &commit{offsets: map[*partition]numbered{}}
		for _, r := range queue {
			for p, o := range r.offsets {
				all.offsets[p] = o // those behind were called for later
			}
		}
		ctx, cancel := context.WithTimeout(c.life, c.opts.APITimeout)
		result, err := c.send(ctx, all)
		for _, r := range queue {
			told, failed := result, err
			if err == nil && result.stoodFor(r, all) {
				told, failed = c.send(ctx, r)
			}
			switch {
			case r.done == nil:
			case failed != nil && len(r.offsets) > 0:
				r.done(failed)
			default:
				r.done(told.of(r))
			}
		}
		cancel()
	}
}

// stoodFor reports whether an offset of a later call, among all, was sent in the place of
// one of r, and refused by itself: what was wrong with it is not wrong with that of r.
func (f refused) stoodFor(r, all *commit) bool {
	for p, o := range r.offsets {
		if err := f[p]; err != nil && !errors.Is(err, ErrStale) && all.offsets[p].call != o.call {
			return true
		}
	}
	return false
}

// maybeAutoCommit commits what was consumed, if it is time.
func (c *Consumer) maybeAutoCommit() {
	if c.opts.ManualCommit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.mu.autoCommit) || len(c.mu.assigned) == 0 {
		return
	}
	c.mu.autoCommit = now.Add(c.opts.AutoCommitInterval)
	r := c.consumedLocked(func(*partition) bool { return true })
	r.done = func(err error) {
		if retriable(err) {
			c.mu.Lock()
			c.mu.autoCommit = time.Now().Add(c.opts.RetryBackoff)
			c.mu.Unlock()
			c.wakeUp()
		}
		c.commitFailed(err)
	}
	c.enqueueLocked(r)
}

// commitFailed tells of a commit that nobody waits for. That of a partition that has
// gone was made when it went.
func (c *Consumer) commitFailed(err error) {
	if err != nil && !errors.Is(err, ErrStale) && c.opts.Events.CommitFailed != nil {
		c.opts.Events.CommitFailed(err)
	}
}
