package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// setLocked sets the place by other means than reading, which ends what is in flight.
func (p *partition) setLocked(to place) {
	p.place, p.reset = to, nil
	p.seeks++
	if p.safe != nil {
		p.generation = p.safe.Reset(to.position)
	}
}

// Seek sets the position of a partition: the next Poll reads from there. Records that
// were delivered before can no longer be completed. An offset that the log does not hold
// is dealt with in Poll, as Options.OffsetReset says.
func (c *Consumer) Seek(tp offsetslog.TopicPartition, offset int64) error {
	return c.SeekToEpoch(tp, offset, -1)
}

// SeekToEpoch is Seek with the leader epoch of the record before, from a Batch, by which
// Poll notices that the log was truncated below the position since (KIP-320).
func (c *Consumer) SeekToEpoch(tp offsetslog.TopicPartition, offset int64, leaderEpoch int32) error {
	if offset < 0 {
		return &PartitionError{tp, offset, offsetslog.ErrInvalidRequest}
	}
	return c.each([]offsetslog.TopicPartition{tp}, func(p *partition) { p.setLocked(place{offset, leaderEpoch}) })
}

// SeekToBeginning sets the positions of partitions to the starts of their logs. It is done
// when they are next needed.
func (c *Consumer) SeekToBeginning(partitions ...offsetslog.TopicPartition) error {
	return c.each(partitions, func(p *partition) { p.needLocked(Earliest) })
}

// SeekToEnd sets the positions of partitions to the ends of their logs, or with
// seglog.ReadCommitted to their last stable offsets. It is done when they are next
// needed.
func (c *Consumer) SeekToEnd(partitions ...offsetslog.TopicPartition) error {
	return c.each(partitions, func(p *partition) { p.needLocked(Latest) })
}

// needLocked forgets the place, to be found anew.
func (p *partition) needLocked(r OffsetReset) {
	p.setLocked(place{-1, -1})
	p.reset = &r
}

// Position is the offset of the next record that Poll delivers from a partition, which is
// also what CommitSync commits unless Options.MaxInFlight is set. If it is not known yet
// it is found.
func (c *Consumer) Position(ctx context.Context, tp offsetslog.TopicPartition) (int64, error) {
	for {
		position, err := c.known(tp)
		if position >= 0 || err != nil {
			return position, err
		}
		if err := c.locate(ctx, tp); err != nil {
			return -1, err
		}
		if position, err := c.known(tp); position >= 0 || err != nil {
			return position, err
		}
		if err := c.wait(ctx, c.opts.RetryBackoff); err != nil {
			return -1, err
		}
	}
}

func (c *Consumer) known(tp offsetslog.TopicPartition) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.mu.assigned[tp]
	switch {
	case c.life.Err() != nil:
		return -1, ErrClosed
	case p == nil:
		return -1, &PartitionError{tp, -1, ErrNotAssigned}
	}
	return p.position, nil
}

// Committed returns what the group has committed for partitions, assigned or not. Where
// that is nothing the Offset is -1. A transaction that has not ended yet is waited for.
func (c *Consumer) Committed(ctx context.Context, partitions ...offsetslog.TopicPartition) ([]offsetslog.Fetched, error) {
	if c.opts.Group == "" {
		return nil, ErrNoGroup
	}
	for {
		fetched, err := c.fetch(ctx, partitions)
		for _, f := range fetched {
			err = errors.Join(err, f.Err)
		}
		if err == nil || !retriable(err) {
			return fetched, err
		}
		if err := c.wait(ctx, c.opts.RetryBackoff); err != nil {
			return nil, err
		}
	}
}

func (c *Consumer) fetch(ctx context.Context, partitions []offsetslog.TopicPartition) ([]offsetslog.Fetched, error) {
	return c.opts.Coordinator.Fetch(ctx, offsetslog.FetchRequest{Group: c.opts.Group, Partitions: partitions, RequireStable: true})
}

// Lag is how many offsets lie between the position of a partition and the end of what can
// be read of it; -1 while the position is not known, 0 at the least.
func (c *Consumer) Lag(tp offsetslog.TopicPartition) (int64, error) {
	position, err := c.known(tp)
	if position < 0 || err != nil {
		return -1, err
	}
	log, err := c.dir.Partition(tp.Topic, tp.Partition)
	if err != nil {
		return -1, &PartitionError{tp, position, err}
	}
	return max(0, end(log, c.opts.Isolation)-position), nil
}

// unlocated is a partition without a position, at one moment.
type unlocated struct {
	*partition
	seeks int
	reset *OffsetReset
}

// locate finds the positions of partitions that have none, of all if none is named: where
// a Seek says, what is committed, or where Options.OffsetReset says. What can be tried
// again is left for a later call, and else the error is that of the first that failed.
func (c *Consumer) locate(ctx context.Context, only ...offsetslog.TopicPartition) error {
	c.mu.Lock()
	var missing []unlocated
	var ask []offsetslog.TopicPartition
	for tp, p := range c.mu.assigned {
		if p.position >= 0 || len(only) > 0 && tp != only[0] {
			continue
		}
		missing = append(missing, unlocated{p, p.seeks, p.reset})
		if p.reset == nil && c.opts.Group != "" {
			ask = append(ask, tp)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	committed, err := c.committed(ctx, ask)
	if err != nil {
		return c.later(err)
	}
	for _, p := range missing {
		if one := c.locateOne(p, committed[p.TopicPartition]); err == nil {
			err = one
		}
	}
	return err
}

// later notes when to try again, if there is any use in it.
func (c *Consumer) later(err error) error {
	if !retriable(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.locateAt = time.Now().Add(c.opts.RetryBackoff)
	return nil
}

func (c *Consumer) committed(ctx context.Context, ask []offsetslog.TopicPartition) (map[offsetslog.TopicPartition]offsetslog.Fetched, error) {
	if len(ask) == 0 {
		return nil, nil
	}
	fetched, err := c.fetch(ctx, sorted(func(yield func(offsetslog.TopicPartition) bool) {
		for _, tp := range ask {
			if !yield(tp) {
				return
			}
		}
	}))
	byPartition := make(map[offsetslog.TopicPartition]offsetslog.Fetched, len(fetched))
	for _, f := range fetched {
		byPartition[f.TopicPartition] = f
	}
	return byPartition, err
}

// locateOne finds the position of one partition. f is the zero value if nothing was asked.
func (c *Consumer) locateOne(p unlocated, f offsetslog.Fetched) error {
	if f.Err != nil {
		return c.later(f.Err)
	}
	log, err := c.dir.Partition(p.Topic, p.Partition)
	if err != nil {
		return &PartitionError{p.TopicPartition, -1, err}
	}
	switch {
	case p.reset != nil:
		c.settle(p.partition, p.seeks, place{target(log, *p.reset, c.opts.Isolation), -1})
		return nil
	case f.Topic == "" || f.Offset < 0:
		return c.reset(p.partition, p.seeks, log, -1, ErrNoOffset)
	}
	at := place{f.Offset, f.LeaderEpoch}
	if divergent, cut := truncated(log, at); cut {
		return c.rewind(p.partition, p.seeks, at.position, divergent)
	}
	c.settle(p.partition, p.seeks, at)
	return nil
}

// settle sets the place of a partition, unless it was sought meanwhile. It reports
// whether it did.
func (c *Consumer) settle(p *partition, seeks int, to place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.seeks != seeks {
		return false
	}
	p.setLocked(to)
	return true
}

func target(log *seglog.Log, r OffsetReset, isolation seglog.Isolation) int64 {
	if r == Earliest {
		return log.Offsets().Start
	}
	return end(log, isolation)
}

// truncated compares the epoch of the last record read with those of the log, as a
// consumer of Kafka has the broker do (KIP-320), and returns the end of what they share.
// A log that merely ends below the place says nothing of where it was cut: it may be
// another, with other records from its start on. There the place is out of range.
func truncated(log *seglog.Log, at place) (divergent int64, cut bool) {
	if at.epoch < 0 {
		return 0, false
	}
	shared := log.EndOffsetForEpoch(at.epoch)
	return shared.EndOffset, shared.Epoch >= 0 && shared.EndOffset < at.position && shared.EndOffset < log.Offsets().End
}

// reset sets the place as Options.OffsetReset says, because of cause.
func (c *Consumer) reset(p *partition, seeks int, log *seglog.Log, from int64, cause error) error {
	if c.opts.OffsetReset == None {
		return &PartitionError{p.TopicPartition, from, cause}
	}
	to := target(log, c.opts.OffsetReset, c.opts.Isolation)
	if c.settle(p, seeks, place{to, -1}) && c.opts.Events.Reset != nil {
		c.opts.Events.Reset(p.TopicPartition, from, to, &PartitionError{p.TopicPartition, from, cause})
	}
	return nil
}

// rewind goes back to where the log was cut, unless OffsetReset is None.
// (SubscriptionState.maybeCompleteValidation)
func (c *Consumer) rewind(p *partition, seeks int, from, to int64) error {
	cause := &PartitionError{p.TopicPartition, from, fmt.Errorf("%w: what was read is shared up to offset %d", seglog.ErrTruncated, to)}
	if c.opts.OffsetReset == None {
		return cause
	}
	if c.settle(p, seeks, place{to, -1}) && c.opts.Events.Reset != nil {
		c.opts.Events.Reset(p.TopicPartition, from, to, cause)
	}
	return nil
}
