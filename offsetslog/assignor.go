package offsetslog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Subscriber is a member that partitions are assigned to.
type Subscriber struct {
	ID, InstanceID string
	Topics         []string
}

// Assignor gives each partition to one of the members that are subscribed to its topic.
// partitions says how many each topic has; what has none is left out. Every member is in
// the result.
type Assignor func(members []Subscriber, partitions map[string]int32) map[string][]TopicPartition

// The assignors that there are, and their names as protocols of a group.
const (
	RangeProtocol      = "range"
	RoundRobinProtocol = "roundrobin"
)

// AssignRange gives each member a run of the partitions of each topic, so that
// partitions of the same number of several topics go to the same member. It is Kafka's
// RangeAssignor, without racks.
func AssignRange(members []Subscriber, partitions map[string]int32) map[string][]TopicPartition {
	assigned := emptyAssignments(members)
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		n := partitions[topic]
		subscribed := slices.DeleteFunc(sortedMembers(members), func(m Subscriber) bool { return !slices.Contains(m.Topics, topic) })
		if len(subscribed) == 0 {
			continue
		}
		each, extra := n/int32(len(subscribed)), n%int32(len(subscribed))
		next := int32(0)
		for i, m := range subscribed {
			end := next + each
			if int32(i) < extra {
				end++
			}
			for ; next < end; next++ {
				assigned[m.ID] = append(assigned[m.ID], TopicPartition{topic, next})
			}
		}
	}
	return assigned
}

// AssignRoundRobin deals the partitions of all topics out to the members in turn. It is
// Kafka's RoundRobinAssignor.
func AssignRoundRobin(members []Subscriber, partitions map[string]int32) map[string][]TopicPartition {
	assigned := emptyAssignments(members)
	turn := sortedMembers(members)
	at := 0
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		if !slices.ContainsFunc(members, func(m Subscriber) bool { return slices.Contains(m.Topics, topic) }) {
			continue
		}
		for n := range partitions[topic] {
			for !slices.Contains(turn[at%len(turn)].Topics, topic) {
				at++
			}
			id := turn[at%len(turn)].ID
			assigned[id] = append(assigned[id], TopicPartition{topic, n})
			at++
		}
	}
	return assigned
}

func emptyAssignments(members []Subscriber) map[string][]TopicPartition {
	assigned := make(map[string][]TopicPartition, len(members))
	for _, m := range members {
		assigned[m.ID] = nil
	}
	return assigned
}

// sortedMembers has static members first, by instance id, then the others by id
// (AbstractPartitionAssignor.MemberInfo).
func sortedMembers(members []Subscriber) []Subscriber {
	return slices.SortedFunc(slices.Values(members), func(a, b Subscriber) int {
		switch {
		case a.InstanceID != "" && b.InstanceID != "":
			return cmp.Compare(a.InstanceID, b.InstanceID)
		case a.InstanceID != "":
			return -1
		case b.InstanceID != "":
			return 1
		default:
			return cmp.Compare(a.ID, b.ID)
		}
	})
}

// Assign has a leader's group of consumers assigned, and encodes the result for
// SyncRequest. It is an error if the subscription of a member cannot be decoded.
func (r JoinResult) Assign(assign Assignor, partitions map[string]int32) (map[string][]byte, error) {
	members := make([]Subscriber, len(r.Members))
	for i, m := range r.Members {
		s, err := ParseSubscription(m.Metadata)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", m.ID, err)
		}
		members[i] = Subscriber{m.ID, m.InstanceID, s.Topics}
	}
	encoded := make(map[string][]byte, len(members))
	for id, tps := range assign(members, partitions) {
		encoded[id] = Assignment{Partitions: tps}.AppendTo(nil)
	}
	return encoded, nil
}
