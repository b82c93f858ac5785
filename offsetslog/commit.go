package offsetslog

import (
	"context"
	"time"
)

// Member says who acts for a group, as JoinGroup has told it.
type Member struct {
	ID string
	// InstanceID is that of a static member, "" for others.
	InstanceID string
	// Generation is that of the group when it joined, or in a group of the new
	// protocol the member's epoch; -1 if it has none.
	Generation int32
}

// Commit is one offset to be committed.
type Commit struct {
	TopicPartition
	// Offset is the next one to be read, not that of the last record read.
	Offset int64
	// LeaderEpoch is that of the last record read; -1 if it is not known.
	LeaderEpoch int32
	Metadata    string
	// TopicID is that of the topic, zero if it is not known.
	TopicID [16]byte
}

// CommitRequest says which offsets are committed for which group, and by whom.
type CommitRequest struct {
	Group string
	// Member is nil for who is no member of the group: an operator, or a consumer that
	// was given its partitions by hand. That is allowed while the group has no members.
	Member  *Member
	Offsets []Commit
	// Retention, if it is above 0, has the offsets expire so long after now, whatever
	// the group does (OffsetCommit of version 2 to 4).
	Retention time.Duration
	// Version is that of the OffsetCommit request that is answered, if one is. It
	// decides between errors. 0 means the newest.
	Version int16
}

// Commit commits offsets, and returns when they are on disk and Fetch shows them, or as
// Options.Sync says. One may be lower than what was committed before.
//
// It is checked who commits, as in Kafka: an error other than a *PartitionsError says
// that nothing was committed; an ErrNotCoordinator or the error of ctx, that it is not
// known. A *PartitionsError lists offsets that were refused by themselves
// (ErrMetadataTooLarge, ErrInvalidTopic, ErrInvalidRequest): all others were committed.
//
// The offsets are one batch of the log, and a crash leaves all of them or none. Commits
// that wait at the same time share one sync.
func (s *Store) Commit(ctx context.Context, r CommitRequest) error {
	p, err := s.group(ctx, Read, r.Group)
	if err != nil {
		return err
	}
	now := time.Now()
	expire := int64(-1)
	if r.Retention > 0 {
		expire = now.Add(r.Retention).UnixMilli()
	}
	e := newEncoder()
	refused := s.encode(e, r.Group, r.Offsets, now.UnixMilli(), expire)
	last, err := p.commit(&r, e)
	if err != nil {
		e.free()
		return err
	}
	if last < 0 {
		e.free()
		return refused.err()
	}
	if err := p.settle(ctx, last); err != nil {
		return err
	}
	return refused.err()
}

// commit decides and appends. last is -1 if there was nothing to append.
func (p *partition) commit(r *CommitRequest, e *encoder) (last int64, err error) {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.Lock()
	err = p.mayCommitLocked(r)
	p.mu.Unlock()
	if err != nil || e.len() == 0 {
		return -1, err
	}
	return p.append(e, nil)
}

// mayCommitLocked is OffsetMetadataManager.validateOffsetCommit. A commit of a member
// shows that it lives.
func (p *partition) mayCommitLocked(r *CommitRequest) error {
	if p.mu.closed {
		return ErrNotAvailable
	}
	m := r.Member
	if m == nil {
		m = &nobody
	}
	g := p.mu.groups[r.Group]
	if g == nil {
		switch {
		case m.Generation < 0:
			return nil
		case r.Version > 0 && r.Version < 9:
			return ErrIllegalGeneration
		default:
			return ErrGroupNotFound
		}
	}
	if g.modern != nil {
		return g.modern.mayCommit(m)
	}
	if g.classic == nil {
		return (&classic{state: Empty}).mayCommit(m, false)
	}
	if err := g.classic.mayCommit(m, false); err != nil {
		return err
	}
	if st := g.classic.state; st == Stable || st == PreparingRebalance {
		if member := g.classic.members[m.ID]; member != nil {
			member.heard()
		}
	}
	return nil
}

// nobody is who is no member.
var nobody = Member{Generation: -1}

// mayCommit is ClassicGroup.validateOffsetCommit. transactional is lenient, since old
// producers did not say who they are.
func (c *classic) mayCommit(m *Member, transactional bool) error {
	if c.state == Dead {
		return ErrNotAvailable
	}
	if m.Generation < 0 && c.state == Empty {
		return nil
	}
	if m.Generation >= 0 || m.ID != "" || m.InstanceID != "" {
		if err := c.check(m); err != nil {
			return err
		}
		if m.Generation != c.generation {
			return ErrIllegalGeneration
		}
	} else if !transactional && c.state != Empty {
		return ErrUnknownMember
	}
	if !transactional && c.state == CompletingRebalance {
		return ErrRebalancing
	}
	return nil
}

// check is ClassicGroup.validateMember.
func (c *classic) check(m *Member) error {
	if m.InstanceID != "" {
		switch id, ok := c.static[m.InstanceID]; {
		case !ok:
			return ErrUnknownMember
		case id != m.ID:
			return ErrFencedInstance
		}
	}
	if c.members[m.ID] == nil {
		return ErrUnknownMember
	}
	return nil
}

// mayCommit is ConsumerGroup.validateOffsetCommit.
func (g *modern) mayCommit(m *Member) error {
	if m.Generation < 0 && len(g.members) == 0 {
		return nil
	}
	epoch, ok := g.members[m.ID]
	switch {
	case !ok:
		return ErrUnknownMember
	case epoch != m.Generation:
		return ErrStaleMemberEpoch
	}
	return nil
}

// maxTopic is how long the name of a topic may be (Topic.java).
const maxTopic = 249

// encode adds the records of offsets to e, without those that are refused.
func (s *Store) encode(e *encoder, group string, offsets []Commit, now, expire int64) (refused refusals) {
	for i := range offsets {
		c := &offsets[i]
		if err := s.valid(c); err != nil {
			refused.add(c.TopicPartition, err)
			continue
		}
		e.offset(group, c.TopicPartition, Committed{
			Offset: c.Offset, LeaderEpoch: max(c.LeaderEpoch, -1), Metadata: c.Metadata,
			CommitTimestamp: now, ExpireTimestamp: expire, TopicID: c.TopicID,
		})
	}
	return refused
}

func (s *Store) valid(c *Commit) error {
	switch {
	case c.Topic == "" || len(c.Topic) > maxTopic:
		return ErrInvalidTopic
	case c.Offset < 0 || c.Partition < 0:
		return ErrInvalidRequest
	case len(c.Metadata) > s.opts.MaxMetadata && utf16Length(c.Metadata) > s.opts.MaxMetadata, len(c.Metadata) > maxString:
		return ErrMetadataTooLarge
	}
	return nil
}
