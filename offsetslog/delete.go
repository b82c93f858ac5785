package offsetslog

import (
	"context"
	"errors"
	"slices"
)

// DeleteOffsets removes committed offsets of a group, and those that open transactions
// have committed there, and returns when that is on disk. Where there is none it does
// nothing. ErrGroupNotFound and ErrNonEmptyGroup refuse everything; a *PartitionsError
// lists partitions whose topic the group is subscribed to (ErrSubscribed).
func (s *Store) DeleteOffsets(ctx context.Context, group string, partitions []TopicPartition) error {
	p, err := s.group(ctx, Delete, group)
	if err != nil {
		return err
	}
	p.order.Lock()
	defer p.order.Unlock()
	if err := p.drain(); err != nil {
		return err
	}
	e := newEncoder()
	refused, err := p.offsetsToDelete(e, group, partitions)
	if err != nil {
		e.free()
		return err
	}
	if err := p.write(e); err != nil {
		return err
	}
	return refused.err()
}

// offsetsToDelete is OffsetMetadataManager.deleteOffsets.
func (p *partition) offsetsToDelete(e *encoder, id string, partitions []TopicPartition) (refused refusals, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	g := p.mu.groups[id]
	if err := g.mayDelete(true); err != nil {
		return nil, err
	}
	for _, tp := range partitions {
		if g.isSubscribed(tp.Topic) {
			refused.add(tp, ErrSubscribed)
		} else if g.offsets.has(tp) || g.isPending(tp) {
			e.remove(g, tp)
		}
	}
	return refused, nil
}

// mayDelete is validateOffsetDelete or validateDeleteGroup of ClassicGroup, and of
// ConsumerGroup. It also works on nil, a group that does not exist. Of a group of a
// newer protocol it is not known which topics its members are subscribed to.
func (g *group) mayDelete(onlyOffsets bool) error {
	switch {
	case g == nil:
		return ErrGroupNotFound
	case g.modern != nil && len(g.modern.members) > 0:
		return ErrNonEmptyGroup
	case g.classic == nil || g.classic.state == Empty:
		return nil
	case g.classic.state == Dead:
		return ErrGroupNotFound
	case onlyOffsets && g.classic.protocolType == ConsumerProtocol:
		return nil
	default:
		return ErrNonEmptyGroup
	}
}

// isSubscribed is ClassicGroup.isSubscribedToTopic. If it is not known which topics a
// group of consumers is subscribed to, it may be any.
func (g *group) isSubscribed(topic string) bool {
	if g.classic == nil {
		return false
	}
	if g.classic.subscribed == nil {
		return g.classic.protocolType == ConsumerProtocol
	}
	_, ok := g.classic.subscribed[topic]
	return ok
}

// DeleteGroup removes a group with its offsets, and returns when that is on disk. A
// group with members is not: ErrNonEmptyGroup; and ErrGroupNotFound if there is none. A
// crash meanwhile may leave it with some of its offsets.
func (s *Store) DeleteGroup(ctx context.Context, group string) error {
	p, err := s.group(ctx, Delete, group)
	if err != nil {
		return err
	}
	p.order.Lock()
	defer p.order.Unlock()
	if err := p.drain(); err != nil {
		return err
	}
	e := newEncoder()
	p.mu.RLock()
	g := p.mu.groups[group]
	if err = g.mayDelete(false); err == nil {
		g.tombstones(e)
	}
	p.mu.RUnlock()
	if err != nil {
		e.free()
		return err
	}
	return p.write(e)
}

// tombstones adds what removes all of a group, itself last.
func (g *group) tombstones(e *encoder) {
	for _, tp := range g.all(func(TopicPartition) bool { return true }) {
		e.remove(g, tp)
	}
	g.ownTombstones(e)
}

func (g *group) ownTombstones(e *encoder) {
	if g.modern != nil {
		for _, key := range g.modern.removals(false) {
			e.rawTombstone(key)
		}
	}
	if g.modern == nil || g.classic != nil {
		e.tombstone(Key{Type: GroupKey, Group: g.id})
	}
}

// all lists the partitions that have a committed or pending offset, and are wanted.
func (g *group) all(wanted func(TopicPartition) bool) []TopicPartition {
	var tps []TopicPartition
	for tp := range g.offsets.all() {
		if wanted(tp) {
			tps = append(tps, tp)
		}
	}
	for _, offsets := range g.pending {
		for tp := range offsets.all() {
			if !g.offsets.has(tp) && wanted(tp) {
				tps = append(tps, tp)
			}
		}
	}
	slices.SortFunc(tps, comparePartitions)
	return slices.Compact(tps)
}

// PartitionsDeleted removes what all groups have committed to partitions that do not
// exist any more: a topic that is created again must not begin where another has ended.
// It loads every partition there is, and goes on when one fails.
// (OffsetMetadataManager.onPartitionsDeleted)
func (s *Store) PartitionsDeleted(ctx context.Context, deleted []TopicPartition) error {
	gone := make(map[TopicPartition]bool, len(deleted))
	for _, tp := range deleted {
		gone[tp] = true
	}
	var errs []error
	for _, p := range s.partitions {
		if err := p.ready(ctx, true); errors.Is(err, errElsewhere) {
			continue
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, p.partitionsDeleted(gone))
	}
	return errors.Join(errs...)
}

func (p *partition) partitionsDeleted(gone map[TopicPartition]bool) error {
	p.order.Lock()
	defer p.order.Unlock()
	if err := p.drain(); err != nil {
		return err
	}
	e := newEncoder()
	p.mu.RLock()
	for _, g := range p.mu.groups {
		for _, tp := range g.all(func(tp TopicPartition) bool { return gone[tp] }) {
			e.remove(g, tp)
		}
	}
	p.mu.RUnlock()
	return p.write(e)
}
