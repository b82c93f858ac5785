package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// membership is where the consumer is in its group. Its fields are guarded by
// Consumer.mu.
//
// Poll does what its caller has to know of: it gives partitions up before the consumer
// joins, and takes those that were assigned. Waiting for the other members is done
// beside it, so that a Poll that ends early costs nothing; and so are heartbeats.
type membership struct {
	// member has a Generation of -1 while the consumer is none.
	member offsetslog.Member
	// rejoin: a rebalance has begun, or the subscription has changed.
	rejoin bool
	// lost: partitions that are held may be another's already.
	lost bool
	// joining is closed when the join under way has ended, which cancelJoin ends early; nil
	// without one.
	joining    chan struct{}
	cancelJoin context.CancelFunc
	// joined is what the group has assigned, until Poll takes it.
	joined *joined
	// fatal is what a join has ended with. A member whose place another has taken does not
	// take it back.
	fatal error
	// counts is how many partitions the topics of the group had when the leader assigned
	// them; nil for others.
	counts map[string]int32
	// refreshAt is when the leader looks at them again.
	refreshAt time.Time
	// silence ends the heartbeats of the present generation.
	silence context.CancelFunc
}

type joined struct {
	partitions []offsetslog.TopicPartition
}

// stranger is a member that is none.
var stranger = offsetslog.Member{Generation: -1}

// actingLocked is who commits: nil for a consumer that was given its partitions by hand.
func (c *Consumer) actingLocked() (*offsetslog.Member, error) {
	if !c.mu.subscribed {
		return nil, nil
	}
	m := c.mu.group.member
	if m.Generation < 0 || c.mu.group.lost {
		return nil, fmt.Errorf("%w: %w", ErrStale, offsetslog.ErrUnknownMember)
	}
	return &m, nil
}

// noteGroupError takes note of what an answer says about the membership m that was
// claimed.
func (c *Consumer) noteGroupError(err error, m *offsetslog.Member) {
	if err == nil || m == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &c.mu.group
	if g.member != *m {
		return // it is about a former one
	}
	switch {
	case errors.Is(err, offsetslog.ErrRebalancing):
		g.rejoin = true
	case errors.Is(err, offsetslog.ErrIllegalGeneration):
		g.loseLocked(offsetslog.Member{ID: m.ID, InstanceID: m.InstanceID, Generation: -1})
	case errors.Is(err, offsetslog.ErrUnknownMember):
		g.loseLocked(stranger)
	case errors.Is(err, offsetslog.ErrFencedInstance):
		g.loseLocked(stranger)
		g.fatal = err
	default:
		return
	}
	c.wakeUp()
}

// loseLocked ends a membership that the group has ended.
func (g *membership) loseLocked(m offsetslog.Member) {
	g.member, g.rejoin, g.lost, g.joined = m, true, true, nil
	g.silenceLocked()
}

func (g *membership) silenceLocked() {
	if g.silence != nil {
		g.silence()
		g.silence = nil
	}
}

// updateGroup takes part in what the group does, until the consumer has the partitions
// of a generation. The caller holds turn.
func (c *Consumer) updateGroup(ctx context.Context) error {
	for {
		c.mu.Lock()
		g := &c.mu.group
		c.refreshTopicsLocked()
		switch {
		case !c.mu.subscribed:
			c.mu.Unlock()
			return nil
		case g.joining != nil:
			joining := g.joining
			c.mu.Unlock()
			if err := c.awaitJoin(ctx, joining); err != nil {
				return err
			}
		case g.joined != nil:
			adopted := g.joined.partitions
			g.joined = nil
			c.mu.Unlock()
			c.adopt(adopted)
		case g.rejoin && len(c.mu.assigned) > 0:
			c.mu.Unlock()
			c.commitFailed(c.giveUp(ctx))
		case g.fatal != nil:
			err := g.fatal
			if !errors.Is(err, offsetslog.ErrFencedInstance) {
				g.fatal = nil // and the next Poll tries again
			}
			c.mu.Unlock()
			return err
		case g.rejoin:
			g.rejoin, g.lost = false, false
			g.member.Generation = -1 // what is still said of the last one does not matter
			g.silenceLocked()
			g.joining = make(chan struct{})
			var join context.Context
			join, g.cancelJoin = context.WithCancel(c.life)
			c.background.Go(func() { c.join(join) })
			c.mu.Unlock()
		default:
			c.mu.Unlock()
			return nil
		}
	}
}

func (c *Consumer) awaitJoin(ctx context.Context, joining <-chan struct{}) error {
	for {
		select {
		case <-joining:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.wake:
			c.mu.Lock()
			closed := c.mu.closed
			c.mu.Unlock()
			if closed {
				return ErrClosed
			}
		}
	}
}

// adopt takes what was assigned.
func (c *Consumer) adopt(partitions []offsetslog.TopicPartition) {
	c.mu.Lock()
	for _, tp := range partitions {
		c.addLocked(tp)
	}
	c.mu.Unlock()
	if f := c.opts.Listener.Assigned; f != nil {
		f(sorted(slices.Values(partitions)))
	}
}

// giveUp gives up all partitions: they are committed and revoked, or were lost. The
// caller holds turn. The error is that of the commit, which nothing depends on.
func (c *Consumer) giveUp(ctx context.Context) error {
	c.mu.Lock()
	lost, subscribed := c.mu.group.lost, c.mu.subscribed
	going := map[*partition]bool{}
	for _, p := range c.mu.assigned {
		going[p] = true
	}
	c.mu.Unlock()
	if len(going) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.opts.APITimeout, c.opts.MaxPollInterval/2))
	defer cancel()
	var err error
	if !lost {
		err = c.commitGoing(ctx, going)
		c.mu.Lock()
		lost = c.mu.group.lost // as the commit may have told
		c.mu.Unlock()
	}
	l, all := c.opts.Listener, c.Assignment()
	switch {
	case !subscribed:
	case lost && l.Lost != nil:
		l.Lost(all)
	case !lost && l.Revoked != nil:
		l.Revoked(all)
	}
	err = errors.Join(err, c.drain(ctx)) // what a listener, too, has committed without waiting
	c.sending <- struct{}{}
	c.mu.Lock()
	for p := range going {
		c.dropLocked(p)
	}
	c.mu.Unlock()
	c.give(c.sending)
	c.closeRetired()
	return err
}

// join makes the consumer a member of a generation, and gets what it is assigned.
func (c *Consumer) join(ctx context.Context) {
	err := c.tryJoin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &c.mu.group
	if err != nil && ctx.Err() == nil {
		g.fatal, g.rejoin = err, true
	}
	g.cancelJoin()
	close(g.joining)
	g.joining = nil
	c.wakeUp()
}

func (c *Consumer) tryJoin(ctx context.Context) error {
	for {
		r, partitions, err := c.joinOnce(ctx)
		c.mu.Lock()
		g := &c.mu.group
		switch {
		case err == nil:
			g.member, g.joined = r.Member, &joined{partitions}
			c.beginHeartbeatsLocked()
			c.mu.Unlock()
			return nil
		case errors.Is(err, offsetslog.ErrUnknownMember):
			g.member = stranger
		case errors.Is(err, offsetslog.ErrIllegalGeneration), errors.Is(err, offsetslog.ErrRebalancing):
			g.member.Generation = -1
		case !retriable(err):
			c.mu.Unlock()
			return err
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if retriable(err) {
			_ = c.wait(ctx, c.opts.RetryBackoff)
		}
	}
}

// joinOnce is JoinGroup and SyncGroup, with the work of a leader between them.
func (c *Consumer) joinOnce(ctx context.Context) (r offsetslog.JoinResult, partitions []offsetslog.TopicPartition, err error) {
	c.mu.Lock()
	id, topics := c.mu.group.member.ID, c.mu.topics
	c.mu.Unlock()
	req := offsetslog.JoinRequest{
		Group: c.opts.Group, MemberID: id, InstanceID: c.opts.InstanceID, ClientID: c.opts.ClientID,
		SessionTimeout: c.opts.SessionTimeout, RebalanceTimeout: c.opts.MaxPollInterval,
	}
	subscription := offsetslog.Subscription{Topics: topics, Generation: -1}.AppendTo(nil)
	for _, a := range c.opts.Assignors {
		req.Protocols = append(req.Protocols, offsetslog.Protocol{Name: a.Name, Metadata: subscription})
	}
	if r, err = c.opts.Coordinator.JoinGroup(ctx, req); err != nil {
		return r, nil, err
	}
	c.mu.Lock()
	c.mu.group.member.ID = r.ID // so that it can join again, or leave
	c.mu.Unlock()
	sync := offsetslog.SyncRequest{Group: c.opts.Group, Member: r.Member}
	var counts map[string]int32
	if r.IsLeader() {
		all := partitionCounts(c.dir)
		if !r.SkipAssignment {
			if sync.Assignments, err = r.Assign(c.assignor(r.Protocol), all); err != nil {
				return r, nil, err
			}
		}
		counts = countsOfGroup(r.Members, all)
	}
	encoded, err := c.opts.Coordinator.SyncGroup(ctx, sync)
	if err != nil || len(encoded) == 0 {
		return r, nil, err
	}
	a, err := offsetslog.ParseAssignment(encoded)
	c.mu.Lock()
	c.mu.group.counts, c.mu.group.refreshAt = counts, time.Now().Add(c.opts.TopicRefresh)
	c.mu.Unlock()
	return r, a.Partitions, err
}

// assignor is the one that the group has agreed on.
func (c *Consumer) assignor(name string) offsetslog.Assignor {
	i := slices.IndexFunc(c.opts.Assignors, func(a Assignor) bool { return a.Name == name })
	return c.opts.Assignors[max(i, 0)].Assign
}

// partitionCounts is how many partitions each topic of a Dir has, which go by numbers from
// 0 on.
func partitionCounts(dir *seglog.Dir) map[string]int32 {
	counts := map[string]int32{}
	for _, p := range dir.Partitions() {
		counts[p.Topic] = max(counts[p.Topic], p.Partition+1)
	}
	return counts
}

// countsOfGroup are those of the topics that a member is subscribed to, there or not.
func countsOfGroup(members []offsetslog.JoinedMember, all map[string]int32) map[string]int32 {
	counts := map[string]int32{}
	for _, m := range members {
		s, err := offsetslog.ParseSubscription(m.Metadata)
		if err != nil {
			continue // Assign has said so
		}
		for _, topic := range s.Topics {
			counts[topic] = all[topic]
		}
	}
	return counts
}

// refreshTopicsLocked has a leader join again when there are other partitions than it has
// assigned.
func (c *Consumer) refreshTopicsLocked() {
	g := &c.mu.group
	if g.counts == nil || g.member.Generation < 0 || g.joining != nil || time.Now().Before(g.refreshAt) {
		return
	}
	g.refreshAt = time.Now().Add(c.opts.TopicRefresh)
	all := partitionCounts(c.dir)
	for topic, n := range g.counts {
		g.rejoin = g.rejoin || all[topic] != n
	}
}

// beginHeartbeatsLocked keeps the membership alive until it ends, or Poll is not called
// any more.
func (c *Consumer) beginHeartbeatsLocked() {
	ctx, silence := context.WithCancel(c.life)
	c.mu.group.silenceLocked()
	c.mu.group.silence = silence
	m := c.mu.group.member
	c.background.Go(func() {
		for c.wait(ctx, c.opts.HeartbeatInterval) == nil {
			if c.idle() > c.opts.MaxPollInterval {
				c.dropOut(ctx, m)
				return
			}
			c.noteGroupError(c.opts.Coordinator.Heartbeat(ctx, c.opts.Group, m), &m)
		}
	})
}

// idle is how long ago Poll was called.
func (c *Consumer) idle() time.Duration {
	last := c.lastPoll.Load()
	if last == polling {
		return 0
	}
	return time.Since(c.began) - time.Duration(last)
}

// dropOut leaves a group that the consumer does no work for. A static member is waited
// for until its session ends.
func (c *Consumer) dropOut(ctx context.Context, m offsetslog.Member) {
	if m.InstanceID == "" {
		_ = c.opts.Coordinator.LeaveGroup(ctx, c.opts.Group, m) // else its session ends, and the outcome is the same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.group.member == m {
		c.mu.group.loseLocked(stranger)
	}
}

// leave gives up all partitions and the membership. The caller holds turn. The error is
// that of the commit: who is not let go is forgotten when its session ends.
func (c *Consumer) leave(ctx context.Context) error {
	err := c.giveUp(ctx)
	c.mu.Lock()
	g := &c.mu.group
	joining := g.joining
	if joining != nil {
		g.cancelJoin()
	}
	c.mu.Unlock()
	if joining != nil {
		<-joining
	}
	c.mu.Lock()
	m := g.member
	g.silenceLocked()
	*g = membership{member: stranger}
	c.mu.Unlock()
	if m.ID != "" && m.InstanceID == "" {
		_ = c.opts.Coordinator.LeaveGroup(ctx, c.opts.Group, m)
	}
	return err
}
