package offsetslog

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seglog/seglog"
)

// GroupType is the protocol of a group, with the names Kafka shows (GroupType.java).
type GroupType int8

// The types of groups.
const (
	ClassicGroup  GroupType = iota // joins and syncs, or only commits
	ConsumerGroup                  // of KIP-848
	ShareGroup                     // of KIP-932
	StreamsGroup                   // of KIP-1071
)

func (t GroupType) String() string {
	return [...]string{"Classic", "Consumer", "Share", "Streams"}[t]
}

// GroupListing is a group in short.
type GroupListing struct {
	Group string
	// State is Empty for a group that never had members. Of a group that is not a
	// ClassicGroup it says no more than whether it has members.
	State State
	Type  GroupType
	// ProtocolType is "consumer" for consumers, and "" for a group that never had
	// members.
	ProtocolType string
	// MemberCount counts the members, Offsets the partitions that have a committed
	// offset.
	MemberCount, Offsets int
}

// Groups lists all groups, by name. It loads every partition there is, and returns what
// it could with the error if one fails. Groups that Options.Authorize refuses are left
// out.
func (s *Store) Groups(ctx context.Context) ([]GroupListing, error) {
	var all []GroupListing
	var errs []error
	for _, p := range s.partitions {
		if err := p.ready(ctx, true); errors.Is(err, errElsewhere) {
			continue
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		p.mu.RLock()
		for _, g := range p.mu.groups {
			all = append(all, g.listing())
		}
		p.mu.RUnlock()
	}
	if s.opts.Authorize != nil {
		all = slices.DeleteFunc(all, func(g GroupListing) bool { return s.opts.Authorize(Describe, g.Group) != nil })
	}
	slices.SortFunc(all, func(a, b GroupListing) int { return cmp.Compare(a.Group, b.Group) })
	return all, errors.Join(errs...)
}

func (g *group) listing() GroupListing {
	l := GroupListing{Group: g.id, Offsets: g.offsets.len(), State: g.state()}
	if g.modern != nil {
		l.Type, l.MemberCount = g.modern.kind(), len(g.modern.members)
		l.ProtocolType = [...]string{"", ConsumerProtocol, "share", "streams"}[l.Type]
	}
	if g.classic != nil {
		l.ProtocolType, l.MemberCount = g.classic.protocolType, l.MemberCount+len(g.classic.members)
	}
	return l
}

func (g *group) state() State {
	switch {
	case g.modern != nil && len(g.modern.members) > 0:
		return Stable
	case g.classic != nil:
		return g.classic.state
	default:
		return Empty
	}
}

// GroupDescription is a group with its members.
type GroupDescription struct {
	GroupListing
	Generation int32
	// Protocol is the assignor that was chosen, Leader the member that assigns.
	Protocol, Leader string
	Members          []MemberDescription
}

// MemberDescription is a member of a group. Of groups of newer protocols only the id is
// known.
type MemberDescription struct {
	ID, InstanceID, ClientID, ClientHost string
	// Topics are those it is subscribed to, and Partitions those it has, as far as they
	// can be decoded.
	Topics     []string
	Partitions []TopicPartition
}

// DescribeGroup describes a group. ErrGroupNotFound says that there is none.
func (s *Store) DescribeGroup(ctx context.Context, group string) (GroupDescription, error) {
	p, err := s.group(ctx, Describe, group)
	if err != nil {
		return GroupDescription{}, err
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	g := p.mu.groups[group]
	if g == nil {
		return GroupDescription{}, ErrGroupNotFound
	}
	d := GroupDescription{GroupListing: g.listing()}
	if g.modern != nil {
		for id := range g.modern.members {
			d.Members = append(d.Members, MemberDescription{ID: id})
		}
	}
	if c := g.classic; c != nil {
		d.Generation, d.Protocol, d.Leader = c.generation, orEmpty(c.protocol), c.leader
		for _, m := range c.members {
			d.Members = append(d.Members, m.description(d.Protocol))
		}
	}
	slices.SortFunc(d.Members, func(a, b MemberDescription) int { return cmp.Compare(a.ID, b.ID) })
	return d, nil
}

func (m *member) description(protocol string) MemberDescription {
	d := MemberDescription{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost}
	d.Topics, _ = subscribedTopics(m.metadata(protocol)) // as far as it goes
	if a, err := ParseAssignment(m.assignment); err == nil {
		d.Partitions = a.Partitions
	}
	return d
}

// Lag says how far a group is behind the end of a partition.
type Lag struct {
	TopicPartition
	// Committed is what is committed; its Offset is -1 if nothing is.
	Committed
	// Start and End are the bounds of the log; -1 if Err is not nil.
	Start, End int64
	// Lag is how many offsets are left; -1 if that is not known, 0 at the least.
	Lag int64
	// OutOfRange: the log does not hold the committed offset. It is below the start, or
	// above the end of a log that was truncated, or made again. A consumer would reset
	// it as auto.offset.reset says.
	OutOfRange bool
	// Err is ErrUnknownPartition, or why the log cannot be opened.
	Err error
}

// Lags lists what a group has committed, and how far that is behind the logs of the Dir.
// A group that does not exist has nothing.
func (s *Store) Lags(ctx context.Context, group string) ([]Lag, error) {
	fetched, err := s.Fetch(ctx, FetchRequest{Group: group})
	if err != nil {
		return nil, err
	}
	lags := make([]Lag, len(fetched))
	for i, f := range fetched {
		lags[i] = Lag{TopicPartition: f.TopicPartition, Committed: f.Committed, Start: -1, End: -1, Lag: -1}
		log, err := s.data(f.TopicPartition)
		if err != nil {
			lags[i].Err = err
			continue
		}
		lags[i].measure(log)
	}
	return lags, nil
}

func (l *Lag) measure(log *seglog.Log) {
	l.Start, l.End = log.Offsets().Start, log.HighWatermark()
	if l.Offset >= 0 {
		l.Lag = max(l.End-l.Offset, 0)
		l.OutOfRange = l.Offset < l.Start || l.Offset > l.End
	}
}

// data returns the log that offsets of a partition are about.
func (s *Store) data(tp TopicPartition) (*seglog.Log, error) {
	log, err := s.logs.Partition(tp.Topic, tp.Partition)
	if errors.Is(err, seglog.ErrNoPartition) {
		return nil, ErrUnknownPartition
	}
	return log, err
}
