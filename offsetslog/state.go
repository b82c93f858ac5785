package offsetslog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seglog/seglog/record"
)

// state is what the records of one partition of __consumer_offsets come to. Loading
// and committing both go through replay, so what is served after a commit is what is
// served after a restart. Not safe for concurrent use.
type state struct {
	groups map[string]*group
	// open has the groups in which a producer has pending offsets.
	open map[int64]map[string]struct{}
	// topics keeps one copy of each topic's name.
	topics  map[string]string
	offsets int // committed ones
	skipped map[KeyType]int64
}

func newState() *state {
	return &state{
		groups: map[string]*group{}, open: map[int64]map[string]struct{}{},
		topics: map[string]string{}, skipped: map[KeyType]int64{},
	}
}

// group is a consumer group. It is there as long as there is anything to say of it.
type group struct {
	id      string
	offsets table
	// pending has the offsets that open transactions have committed, by producer id.
	pending map[int64]*table
	// old are the partitions that have a record of type OffsetKeyV0 in the log. To
	// compaction it is another key, so it needs a tombstone of its own; otherwise the
	// offset would be back once that of the newer key has gone.
	old map[TopicPartition]struct{}
	// classic is nil for a group that only commits ("simple"), modern for all but
	// those of the newer protocols.
	classic *classic
	modern  *modern
}

// entry is a committed offset and the offset of the record that says so.
type entry struct {
	Committed
	record int64
}

// modern is what we know of a group of a newer protocol (KIP-848, KIP-932, KIP-1071).
// Their records are kept in the log and not interpreted further.
type modern struct {
	members map[string]int32    // epoch of each, -1 until it is known
	keys    map[string]struct{} // of the records that are there
}

// kind is told by the records that there are.
func (g *modern) kind() GroupType {
	for key := range g.keys {
		switch k, _ := viewKey([]byte(key)); {
		case k.kind >= StreamsGroupKey:
			return StreamsGroup
		case k.kind >= ShareGroupPartitionsKey && k.kind <= ShareGroupStateKey:
			return ShareGroup
		}
	}
	return ConsumerGroup
}

// removals lists the keys whose removal takes all of a group away, or no more than its
// members, in an order in which a broker can load them: what a member has before the
// member, and the group itself last. It takes a log for unreadable otherwise.
// (ConsumerGroup.createGroupTombstoneRecords and those of ShareGroup and StreamsGroup,
// GroupMetadataManager.replay)
func (g *modern) removals(onlyMembers bool) []string {
	var keys []string
	for key := range g.keys {
		k, _ := viewKey([]byte(key))
		if !onlyMembers || k.kind.hasMember() || k.kind == ConsumerGroupRegexKey {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(removalRank(b), removalRank(a)), cmp.Compare(a, b))
	})
	return keys
}

// removalRank is the higher the earlier a record goes.
func removalRank(key string) KeyType {
	k, _ := viewKey([]byte(key))
	if k.kind.isGroup() {
		return -1
	}
	return k.kind
}

// replay applies one record. What cannot be decoded changes nothing and is a
// *DecodeError. Key and value are not kept.
// (GroupCoordinatorShard.replay, OffsetMetadataManager.replay)
func (s *state) replay(offset, producerID int64, key, value []byte) error {
	k, err := viewKey(key)
	switch {
	case err != nil:
		return err
	case k.kind.IsOffset():
		return s.replayOffset(offset, producerID, k, value)
	case k.kind == GroupKey:
		return s.replayGroup(k, value)
	case k.kind.Known():
		s.skipped[k.kind]++
		return s.replayModern(k, key, value)
	default:
		s.skipped[k.kind]++
		return nil
	}
}

func (s *state) replayOffset(offset, producerID int64, k keyView, value []byte) error {
	if value == nil {
		if g := s.groups[string(k.group)]; g != nil {
			tp := TopicPartition{string(k.topic), k.partition}
			if s.remove(g, tp); k.kind == OffsetKeyV0 {
				delete(g.old, tp)
			}
			s.tidy(g)
		}
		return nil
	}
	c, metadata, _, err := viewOffsetValue(value)
	if err != nil {
		return err
	}
	g := s.group(k.group)
	tp := TopicPartition{s.topic(k.topic), k.partition}
	if k.kind == OffsetKeyV0 {
		if g.old == nil {
			g.old = map[TopicPartition]struct{}{}
		}
		g.old[tp] = struct{}{}
	}
	if producerID != record.NoProducerID {
		c.Metadata = string(metadata)
		s.open[producerID] = with(s.open[producerID], g.id)
		if g.pending == nil {
			g.pending = map[int64]*table{}
		}
		if g.pending[producerID] == nil {
			g.pending[producerID] = &table{}
		}
		g.pending[producerID].put(tp, entry{c, offset})
		return nil
	}
	before, had := g.offsets.get(tp)
	if c.Metadata = before.Metadata; c.Metadata != string(metadata) {
		c.Metadata = string(metadata)
	}
	if !had {
		s.offsets++
	}
	g.offsets.put(tp, entry{c, offset})
	return nil
}

// remove forgets a committed offset, and what open transactions have committed there.
func (s *state) remove(g *group, tp TopicPartition) {
	if g.offsets.delete(tp) {
		s.offsets--
	}
	for id, offsets := range g.pending {
		if offsets.delete(tp); offsets.len() == 0 {
			delete(g.pending, id)
		}
	}
}

// end ends the transaction of a producer. Of a partition's offsets the one whose
// record is the last stays, whichever order the transactions ended in.
// (OffsetMetadataManager.replayEndTransactionMarker)
func (s *state) end(producerID int64, commit bool) {
	for id := range s.open[producerID] {
		g := s.groups[id]
		if g == nil || g.pending[producerID] == nil {
			continue
		}
		for tp, e := range g.pending[producerID].all() {
			before, had := g.offsets.get(tp)
			if !commit || had && before.record > e.record {
				continue
			}
			if !had {
				s.offsets++
			}
			g.offsets.put(tp, e)
		}
		delete(g.pending, producerID)
		s.tidy(g)
	}
	delete(s.open, producerID)
}

func (s *state) replayGroup(k keyView, value []byte) error {
	if value == nil {
		if g := s.groups[string(k.group)]; g != nil && g.classic != nil {
			g.classic.become(Dead)
			g.classic = nil
			s.tidy(g)
		}
		return nil
	}
	v, _, err := ParseGroupValue(value)
	if err != nil {
		return err
	}
	s.group(k.group).classic = loadedGroup(v)
	return nil
}

// replayModern keeps count of the members of groups of newer protocols. The key says
// which group; what a member has been assigned begins with its epoch.
func (s *state) replayModern(k keyView, key, value []byte) error {
	if value == nil {
		g := s.groups[string(k.group)]
		if g == nil || g.modern == nil {
			return nil
		}
		delete(g.modern.keys, string(key))
		if k.kind.isMember() {
			delete(g.modern.members, string(k.member))
		}
		if len(g.modern.keys) == 0 {
			g.modern = nil
			s.tidy(g)
		}
		return nil
	}
	g := s.group(k.group)
	if g.modern == nil {
		g.modern = &modern{members: map[string]int32{}, keys: map[string]struct{}{}}
	}
	g.modern.keys[string(key)] = struct{}{}
	switch {
	case k.kind.isMember():
		if _, known := g.modern.members[string(k.member)]; !known {
			g.modern.members[string(k.member)] = -1
		}
	case k.kind.isAssignment():
		if len(value) < 6 {
			return &DecodeError{What: "member assignment value", Field: "member epoch", Detail: fmt.Sprintf("%d bytes", len(value))}
		}
		g.modern.members[string(k.member)] = int32(binary.BigEndian.Uint32(value[2:]))
	}
	return nil
}

// group returns a group, which is made if there is none. It copies the id then.
func (s *state) group(id []byte) *group {
	if g := s.groups[string(id)]; g != nil {
		return g
	}
	g := &group{id: string(id)}
	s.groups[g.id] = g
	return g
}

// topic returns the one copy there is of a name.
func (s *state) topic(name []byte) string {
	if t, ok := s.topics[string(name)]; ok {
		return t
	}
	t := string(name)
	s.topics[t] = t
	return t
}

// forgetMembers takes all members for gone.
func (s *state) forgetMembers() {
	for _, g := range s.groups {
		if c := g.classic; c != nil {
			c.state, c.leader, c.protocol = Empty, "", nil
			clear(c.members)
			clear(c.static)
		}
		if g.modern != nil {
			clear(g.modern.members)
		}
	}
}

// tidy forgets a group of which nothing is left.
func (s *state) tidy(g *group) {
	if g.offsets.len() == 0 && len(g.pending) == 0 && g.classic == nil && g.modern == nil && s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
}

// isPending reports whether an open transaction has committed an offset there.
func (g *group) isPending(tp TopicPartition) bool {
	for _, offsets := range g.pending {
		if offsets.has(tp) {
			return true
		}
	}
	return false
}

func with(set map[string]struct{}, id string) map[string]struct{} {
	if set == nil {
		set = map[string]struct{}{}
	}
	set[id] = struct{}{}
	return set
}
