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
	// ConsumerGroupKey to ShareGroupStateKey are those of groups of newer protocols
	// (KIP-848, KIP-932), in the order of CoordinatorRecordType.
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
)

// IsOffset reports whether the record is a commit, or the removal of one.
func (t KeyType) IsOffset() bool { return t == OffsetKeyV0 || t == OffsetKey }

// Known reports whether ParseKey decodes such keys. Others are of newer brokers.
func (t KeyType) Known() bool { return t >= OffsetKeyV0 && t <= ShareGroupStateKey }

func (t KeyType) hasMember() bool {
	switch t {
	case ConsumerGroupMemberKey, ConsumerGroupTargetMemberKey, ConsumerGroupCurrentAssignmentKey,
		ShareGroupMemberKey, ShareGroupTargetMemberKey, ShareGroupCurrentAssignmentKey:
		return true
	}
	return false
}

// Key is the key of a record of __consumer_offsets:
//
//	offset commit (0 and 1)            type (2) group topic partition (4)
//	group metadata (2), and the rest   type (2) group
//	a member's (5, 7, 8, 10, 13, 14)   type (2) group member
//
// A string is two bytes of length and UTF-8.
type Key struct {
	Type  KeyType
	Group string
	// TopicPartition is that of a commit.
	TopicPartition
	// Member is that of records about a member.
	Member string
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
	return Key{k.kind, string(k.group), TopicPartition{string(k.topic), k.partition}, string(k.member)}, nil
}

// keyView is a Key whose strings are bytes of the record's.
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
