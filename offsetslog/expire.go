package offsetslog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Expired counts what a round of Expire has removed.
type Expired struct {
	Offsets, Groups int
}

// Expire removes the offsets whose time has come, and groups that have neither members
// nor offsets any more, and returns when that is on disk. It loads every partition there
// is, and goes on when one fails. A Store calls it every
// Options.RetentionCheckInterval.
//
// An offset expires Options.Retention after
//
//   - its group became empty, if that had members, or the commit, if that is not known;
//   - the commit, if the group never had members;
//   - the commit, if the group is stable and not subscribed to the topic.
//
// One with an expire timestamp expires then, and none while a transaction that has not
// ended has committed one there. Of a group that is rebalancing nothing expires, nor of
// one of another protocol type than consumers that has members.
// (ClassicGroup.offsetExpirationCondition, OffsetMetadataManager.cleanupExpiredOffsets)
func (s *Store) Expire(ctx context.Context) (Expired, error) {
	var all Expired
	var errs []error
	for _, p := range s.partitions {
		if err := p.ready(ctx, true); errors.Is(err, errElsewhere) {
			continue
		} else if err != nil {
			if errs = append(errs, err); ctx.Err() != nil {
				break
			}
			continue
		}
		n, err := p.expire(time.Now().UnixMilli())
		all.Offsets += n.Offsets
		all.Groups += n.Groups
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (s *Store) expireOnTheClock(ctx context.Context) {
	defer s.done.Done()
	t := time.NewTicker(s.opts.RetentionCheckInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if _, err := s.Expire(ctx); err != nil && ctx.Err() == nil && s.opts.ExpireFailed != nil {
				s.opts.ExpireFailed(err)
			}
		}
	}
}

// expire looks at some groups at a time, so that nobody waits for long, and keeps
// commits back only where there is something to remove.
func (p *partition) expire(now int64) (n Expired, err error) {
	p.mu.RLock()
	ids := slices.Collect(maps.Keys(p.mu.groups))
	p.mu.RUnlock()
	for some := range slices.Chunk(ids, 1000) {
		e := newEncoder()
		found := p.findExpired(e, some, now)
		e.free()
		if found == (Expired{}) {
			continue
		}
		removed, err := p.removeExpired(some, now)
		n.add(removed)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// removeExpired looks again, when nothing is in flight.
func (p *partition) removeExpired(ids []string, now int64) (n Expired, err error) {
	p.order.Lock()
	defer p.order.Unlock()
	if err := p.drain(); err != nil {
		return n, err
	}
	e := newEncoder()
	n = p.findExpired(e, ids, now)
	if err := p.write(e); err != nil {
		return Expired{}, err
	}
	return n, nil
}

func (p *partition) findExpired(e *encoder, ids []string, now int64) (n Expired) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, id := range ids {
		if g := p.mu.groups[id]; g != nil {
			n.add(g.expire(e, now, p.store.opts.Retention))
		}
	}
	return n
}

func (n *Expired) add(m Expired) {
	n.Offsets += m.Offsets
	n.Groups += m.Groups
}

// expire adds the tombstones of what has expired.
func (g *group) expire(e *encoder, now int64, retention time.Duration) (n Expired) {
	base := g.expiryBase()
	if base == nil {
		return n
	}
	for tp, o := range g.offsets.all() {
		if !g.isSubscribed(tp.Topic) && hasExpired(o.Committed, base(o.Committed), now, retention) && !g.isPending(tp) {
			e.remove(g, tp)
			n.Offsets++
		}
	}
	if n.Offsets == g.offsets.len() && len(g.pending) == 0 && g.mayDelete(false) == nil {
		g.ownTombstones(e)
		n.Groups++
	}
	return n
}

// expiryBase says from when on the age of an offset counts; nil if none expires.
func (g *group) expiryBase() func(Committed) int64 {
	committed := func(c Committed) int64 { return c.CommitTimestamp }
	c := g.classic
	switch {
	case g.modern != nil && len(g.modern.members) > 0:
		return nil // it is not known which topics they are subscribed to
	case c == nil || c.protocolType == "" && c.state == Empty:
		return committed
	case c.state == Empty && c.stateTimestamp >= 0:
		return func(Committed) int64 { return c.stateTimestamp }
	case c.state == Empty:
		return committed
	case c.state == Stable && c.protocolType == ConsumerProtocol && c.subscribed != nil:
		return committed
	default:
		return nil
	}
}

// hasExpired is OffsetExpirationConditionImpl.
func hasExpired(c Committed, base, now int64, retention time.Duration) bool {
	if c.ExpireTimestamp >= 0 {
		return now >= c.ExpireTimestamp
	}
	return retention >= 0 && now-base >= retention.Milliseconds()
}
