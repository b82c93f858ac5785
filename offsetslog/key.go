package offsetslog

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// KeyType is the kind of a record of __consumer_offsets: the first two bytes of its
// key. These values are written to disk and never change.
type KeyType int16

const (
	// OffsetKeyV0 and OffsetKey are commits. 1 is written; the two are read alike,
	// but are different keys to compaction.
	OffsetKeyV0 KeyType = 0
	OffsetKey   KeyType = 1
	// GroupKey is the metadata of a group of the classic protocol.
	GroupKey KeyType = 2
	// ConsumerGroupKey to StreamsGroupTopologyKey are those of groups of newer
	// protocols (KIP-848, KIP-932, KIP-1071), as in CoordinatorRecordType.
	ConsumerGroupKey                  KeyType = 3
	ConsumerGroupPartitionsKey        KeyType = 4
	ConsumerGroupMemberKey            KeyType = 5
	ConsumerGroupTargetKey            KeyType = 6
	ConsumerGroupTargetMemberKey      KeyType = 7
	ConsumerGroupCurrentAssignmentKey KeyType = 8
	ShareGroupPartitionsKey           KeyType = 9
	ShareGroupMemberKey               KeyType = 10
	ShareGroupKey                     KeyType = 11
	ShareGroupTargetKey               KeyType = 12
	ShareGroupTargetMemberKey         KeyType = 13
	ShareGroupCurrentAssignmentKey    KeyType = 14
	ShareGroupStateKey                KeyType = 15
	ConsumerGroupRegexKey             KeyType = 16
	StreamsGroupKey                   KeyType = 17
	StreamsGroupMemberKey             KeyType = 19
	StreamsGroupTargetKey             KeyType = 20
	StreamsGroupTargetMemberKey       KeyType = 21
	StreamsGroupCurrentAssignmentKey  KeyType = 22
	StreamsGroupTopologyKey           KeyType = 23
)

// IsOffset reports whether the record is a commit, or the removal of one.
func (t KeyType) IsOffset() bool { return t == OffsetKeyV0 || t == OffsetKey }

// Known reports whether ParseKey decodes such keys. Others are of newer brokers.
func (t KeyType) Known() bool {
	return t >= OffsetKeyV0 && t <= StreamsGroupKey || t >= StreamsGroupMemberKey && t <= StreamsGroupTopologyKey
}

// hasMember reports whether there is one for each member of a group.
func (t KeyType) hasMember() bool {
	switch t {
	case ConsumerGroupMemberKey, ConsumerGroupTargetMemberKey, ConsumerGroupCurrentAssignmentKey,
		ShareGroupMemberKey, ShareGroupTargetMemberKey, ShareGroupCurrentAssignmentKey,
		StreamsGroupMemberKey, StreamsGroupTargetMemberKey, StreamsGroupCurrentAssignmentKey:
		return true
	}
	return false
}

// isMember reports whether it says that there is a member, isGroup that there is a
// group, and isAssignment what a member has; of all newer protocols.
func (t KeyType) isMember() bool {
	return t == ConsumerGroupMemberKey || t == ShareGroupMemberKey || t == StreamsGroupMemberKey
}

func (t KeyType) isGroup() bool {
	return t == ConsumerGroupKey || t == ShareGroupKey || t == StreamsGroupKey
}

func (t KeyType) isAssignment() bool {
	return t == ConsumerGroupCurrentAssignmentKey || t == ShareGroupCurrentAssignmentKey || t == StreamsGroupCurrentAssignmentKey
}

// Key is the key of a record of __consumer_offsets:
//
//	offset commit (0, 1)               type (2) group topic partition (4)
//	group metadata (2), and the rest   type (2) group
//	a member's (5, 7, 8, 10, 13, 14,
//	19, 21, 22)                        type (2) group member
//	a regular expression (16)          type (2) group expression
//
// A string is two bytes of length and UTF-8.
type Key struct {
	Type  KeyType
	Group string
	// TopicPartition is that of a commit.
	TopicPartition
	// Member is that of records about a member, Regex the expression of a
	// ConsumerGroupRegexKey.
	Member, Regex string
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// ParseKey decodes a key. Of a type that is not Known it decodes nothing but the
// type, which is no error. A key that is none is a *DecodeError.
// (OffsetCommitKey.json, GroupMetadataKey.json and their neighbours)
func ParseKey(b []byte) (Key, error) {
	k, err := viewKey(b)
	if err != nil {
		return Key{Type: k.kind}, err
	}
	key := Key{Type: k.kind, Group: string(k.group), TopicPartition: TopicPartition{string(k.topic), k.partition}, Member: string(k.member)}
	if k.kind == ConsumerGroupRegexKey {
		key.Member, key.Regex = "", key.Member
	}
	return key, nil
}

// keyView is a Key whose strings are bytes of the record's. member may be an expression.
type keyView struct {
	kind                 KeyType
	group, topic, member []byte
	partition            int32
}

func viewKey(b []byte) (k keyView, err error) {
	r := reader{what: "key", b: b}
	if k.kind = KeyType(r.int16("type")); r.err == nil && !k.kind.Known() {
		return k, nil
	}
	k.group = r.view("group")
	switch {
	case k.kind.IsOffset():
		k.topic = r.view("topic")
		k.partition = r.int32("partition")
	case k.kind.hasMember():
		k.member = r.view("member id")
	case k.kind == ConsumerGroupRegexKey:
		k.member = r.view("regular expression")
	}
	return k, r.end()
}

// String tells the type and what it is about.
func (k Key) String() string {
	switch {
	case k.Type.IsOffset():
		return fmt.Sprintf("type %d: group %q, %s", k.Type, k.Group, k.TopicPartition)
	case k.Type.hasMember():
		return fmt.Sprintf("type %d: group %q, member %q", k.Type, k.Group, k.Member)
	case k.Type == ConsumerGroupRegexKey:
		return fmt.Sprintf("type %d: group %q, expression %q", k.Type, k.Group, k.Regex)
	default:
		return fmt.Sprintf("type %d: group %q", k.Type, k.Group)
	}
}

// Append appends the encoded key to dst. Its strings must not be longer than 32767
// bytes.
func (k Key) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(k.Type))
	dst = appendString(dst, k.Group)
	switch {
	case k.Type.IsOffset():
		dst = appendString(dst, k.Topic)
		dst = binary.BigEndian.AppendUint32(dst, uint32(k.Partition))
	case k.Type.hasMember():
		dst = appendString(dst, k.Member)
	case k.Type == ConsumerGroupRegexKey:
		dst = appendString(dst, k.Regex)
	}
	return dst
}

// PartitionFor is the partition of __consumer_offsets that a group's records lie in:
// the hash that Java's String has, of UTF-16 code units, without its sign, modulo the
// number of partitions, which must be above 0. (GroupCoordinatorService.partitionFor, Utils.abs)
func PartitionFor(group string, partitions int32) int32 {
	var h int32
	for _, c := range group {
		if c >= 0x10000 {
			c -= 0x10000
			h = 31*h + 0xd800 + c>>10
			c = 0xdc00 + c&0x3ff
		}
		h = 31*h + c
	}
	if h < 0 {
		h = -h // of the smallest number itself: see below
	}
	if h < 0 {
		h = 0
	}
	return h % partitions
}

// utf16Length is the length that Java's String has.
func utf16Length(s string) int {
	n := 0
	for _, c := range s {
		n++
		if c >= 0x10000 {
			n++
		}
	}
	return n
}
