package offsetslog

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// ConsumerProtocol is the protocol type of groups of consumers.
const ConsumerProtocol = "consumer"

// Subscription is what a consumer tells its group when it joins.
type Subscription struct {
	Topics   []string
	UserData []byte // nil is null
	// Owned are the partitions it still has, from version 1 on.
	Owned []TopicPartition
	// Generation is the one it has them from, from version 2 on, else -1.
	Generation int32
	// Rack is where it is, from version 3 on; nil is not known.
	Rack *string
}

// ParseSubscription decodes the subscription of a member of a group of consumers
// (ConsumerProtocolSubscription.json). Of versions newer than 3 it decodes what version
// 3 has. UserData is that of b.
func ParseSubscription(b []byte) (s Subscription, err error) {
	r := reader{what: "subscription", b: b}
	version := r.protocolVersion()
	for n := r.count("topics", 2); n > 0 && r.err == nil; n-- {
		s.Topics = append(s.Topics, r.string("topic"))
	}
	s.UserData = r.bytes("user data", 4)
	s.Generation = -1
	if version >= 1 {
		s.Owned = r.partitions()
	}
	if version >= 2 {
		s.Generation = r.int32("generation")
	}
	if version >= 3 {
		s.Rack = r.nullable("rack")
	}
	return s, r.err
}

// AppendTo appends the encoded subscription to dst, in version 3.
func (s Subscription) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 3)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Topics)))
	for _, t := range s.Topics {
		dst = appendString(dst, t)
	}
	dst = appendNullableBytes(dst, s.UserData)
	dst = appendPartitions(dst, s.Owned)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Generation))
	return appendNullable(dst, s.Rack)
}

// Assignment is what the leader of a group of consumers gives to a member.
type Assignment struct {
	Partitions []TopicPartition
	UserData   []byte // nil is null
}

// ParseAssignment decodes the assignment of a member of a group of consumers
// (ConsumerProtocolAssignment.json), of any version. UserData is that of b.
func ParseAssignment(b []byte) (a Assignment, err error) {
	r := reader{what: "assignment", b: b}
	r.protocolVersion()
	a.Partitions = r.partitions()
	a.UserData = r.bytes("user data", 4)
	return a, r.err
}

// AppendTo appends the encoded assignment to dst, in version 0, which all later ones
// are the same as.
func (a Assignment) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = appendPartitions(dst, a.Partitions)
	return appendNullableBytes(dst, a.UserData)
}

// protocolVersion reads a version. What is newer than all we know begins as the newest
// of those, and may go on after it.
func (r *reader) protocolVersion() int16 {
	version := r.int16("version")
	if r.err == nil && version < 0 {
		r.fail("version", "negative")
	}
	return version
}

func (r *reader) partitions() (tps []TopicPartition) {
	for n := r.count("topics", 6); n > 0 && r.err == nil; n-- {
		topic := r.string("topic")
		for m := r.count("partitions", 4); m > 0 && r.err == nil; m-- {
			tps = append(tps, TopicPartition{topic, r.int32("partition")})
		}
	}
	return tps
}

// appendPartitions writes each topic once.
func appendPartitions(dst []byte, tps []TopicPartition) []byte {
	tps = slices.Clone(tps)
	slices.SortFunc(tps, comparePartitions)
	topics := 0
	for i := range tps {
		if i == 0 || tps[i].Topic != tps[i-1].Topic {
			topics++
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(topics))
	for len(tps) > 0 {
		n := 1
		for n < len(tps) && tps[n].Topic == tps[0].Topic {
			n++
		}
		dst = appendString(dst, tps[0].Topic)
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		for _, tp := range tps[:n] {
			dst = binary.BigEndian.AppendUint32(dst, uint32(tp.Partition))
		}
		tps = tps[n:]
	}
	return dst
}

func comparePartitions(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func appendNullableBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return appendBytes(dst, b)
}
