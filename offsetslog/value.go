package offsetslog

import (
	"encoding/binary"
	"fmt"
)

// Committed is a committed offset with all that is kept of it.
type Committed struct {
	// Offset is the next one to be read.
	Offset int64
	// LeaderEpoch is that of the record before, by which a consumer notices that
	// the log was truncated; -1 if it is not known.
	LeaderEpoch int32
	// Metadata is whatever the committer wants to remember.
	Metadata string
	// CommitTimestamp is when it was committed, in milliseconds since the epoch.
	CommitTimestamp int64
	// ExpireTimestamp is when it expires whatever the settings say, or -1. Only old
	// clients ask for that.
	ExpireTimestamp int64
	// TopicID is that of the topic, if it is known; brokers since 4.2 write it.
	TopicID [16]byte
}

// none is what is told of a partition that has no committed offset.
var none = Committed{Offset: -1, LeaderEpoch: -1, CommitTimestamp: -1, ExpireTimestamp: -1}

// topicIDTag is the tagged field of the topic id in an offset commit value.
const topicIDTag = 0

// ParseOffsetValue decodes the value of a commit, of version 0 to 4
// (OffsetCommitValue.json):
//
//	0, 2  version (2) offset (8) metadata commit timestamp (8)
//	1     version (2) offset (8) metadata commit timestamp (8) expire timestamp (8)
//	3     version (2) offset (8) leader epoch (4) metadata commit timestamp (8)
//	4     as 3, flexible, with the topic id as tagged field 0
//
// It returns the version, too. Unknown tagged fields are passed over; any other
// version is a *DecodeError.
func ParseOffsetValue(b []byte) (c Committed, version int16, err error) {
	c, metadata, version, err := viewOffsetValue(b)
	c.Metadata = string(metadata)
	return c, version, err
}

func viewOffsetValue(b []byte) (c Committed, metadata []byte, version int16, err error) {
	r := reader{what: "offset commit value", b: b}
	version = r.int16("version")
	if r.err == nil && (version < 0 || version > 4) {
		r.fail("version", fmt.Sprintf("%d is not known", version))
	}
	r.flexible = version >= 4
	c = none
	c.Offset = r.int64("offset")
	if version >= 3 {
		c.LeaderEpoch = r.int32("leader epoch")
	}
	metadata = r.view("metadata")
	c.CommitTimestamp = r.int64("commit timestamp")
	if version == 1 {
		c.ExpireTimestamp = r.int64("expire timestamp")
	}
	r.tags(func(tag uint32, b []byte) {
		if tag == topicIDTag && len(b) == len(c.TopicID) {
			copy(c.TopicID[:], b)
		}
	})
	if err = r.end(); err != nil {
		return none, nil, version, err
	}
	return c, metadata, version, nil
}

// AppendValue appends the encoded value to dst: in version 1 if it has an expire
// timestamp, which has no room for a leader epoch, in version 4 if it has a topic id,
// and else in version 3, as Kafka does
// (GroupCoordinatorRecordHelpers.newOffsetCommitRecord). Metadata must not be longer
// than 32767 bytes.
func (c Committed) AppendValue(dst []byte) []byte {
	version := c.version()
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
	if version >= 3 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(c.LeaderEpoch))
	}
	if version >= 4 {
		dst = binary.AppendUvarint(dst, uint64(len(c.Metadata))+1)
		dst = append(dst, c.Metadata...)
	} else {
		dst = appendString(dst, c.Metadata)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.CommitTimestamp))
	switch version {
	case 1:
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.ExpireTimestamp))
	case 4:
		dst = append(dst, 1, topicIDTag, byte(len(c.TopicID)))
		dst = append(dst, c.TopicID[:]...)
	}
	return dst
}

func (c Committed) version() int16 {
	switch {
	case c.ExpireTimestamp >= 0:
		return 1
	case c.TopicID != [16]byte{}:
		return 4
	default:
		return 3
	}
}

// GroupValue is the metadata of a group of the classic protocol as it is stored.
type GroupValue struct {
	// ProtocolType is "consumer" for groups of consumers; "" is none.
	ProtocolType string
	Generation   int32
	// Protocol is the assignor that was chosen, Leader the member that assigns. nil
	// is none.
	Protocol, Leader *string
	// StateTimestamp is when the group came into its state, in milliseconds since
	// the epoch; -1 before version 2.
	StateTimestamp int64
	Members        []MemberValue
}

// MemberValue is a member of a group as it is stored.
type MemberValue struct {
	ID         string
	InstanceID *string // of a static member, from version 3 on
	ClientID   string
	ClientHost string
	// RebalanceTimeout and SessionTimeout are in milliseconds. Before version 1 the
	// former is the latter.
	RebalanceTimeout, SessionTimeout int32
	// Subscription and Assignment are the group protocol's own: see
	// ParseSubscription and ParseAssignment.
	Subscription, Assignment []byte
}

// ParseGroupValue decodes the metadata of a group, of version 0 to 4
// (GroupMetadataValue.json), and returns the version, too. Byte slices are those of b.
func ParseGroupValue(b []byte) (g GroupValue, version int16, err error) {
	r := reader{what: "group metadata value", b: b}
	version = r.int16("version")
	if r.err == nil && (version < 0 || version > 4) {
		r.fail("version", fmt.Sprintf("%d is not known", version))
	}
	r.flexible = version >= 4
	g.ProtocolType = r.string("protocol type")
	g.Generation = r.int32("generation")
	g.Protocol = r.nullable("protocol")
	g.Leader = r.nullable("leader")
	g.StateTimestamp = -1
	if version >= 2 {
		g.StateTimestamp = r.int64("state timestamp")
	}
	// the smallest member has six empty fields with a length, and a timeout
	for n := r.count("members", 9); n > 0 && r.err == nil; n-- {
		g.Members = append(g.Members, r.member(version))
	}
	r.tags(nil)
	if err = r.end(); err != nil {
		return GroupValue{}, version, err
	}
	return g, version, nil
}

func (r *reader) member(version int16) (m MemberValue) {
	m.ID = r.string("member id")
	if version >= 3 {
		m.InstanceID = r.nullable("group instance id")
	}
	m.ClientID = r.string("client id")
	m.ClientHost = r.string("client host")
	m.RebalanceTimeout = -1
	if version >= 1 {
		m.RebalanceTimeout = r.int32("rebalance timeout")
	}
	m.SessionTimeout = r.int32("session timeout")
	if m.RebalanceTimeout == -1 {
		m.RebalanceTimeout = m.SessionTimeout
	}
	m.Subscription = r.bytes("subscription", 4)
	m.Assignment = r.bytes("assignment", 4)
	r.tags(nil)
	return m
}

// AppendValue appends the encoded value to dst, in version 3, which is the one Kafka
// writes. Strings must not be longer than 32767 bytes.
func (g GroupValue) AppendValue(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 3)
	dst = appendString(dst, g.ProtocolType)
	dst = binary.BigEndian.AppendUint32(dst, uint32(g.Generation))
	dst = appendNullable(dst, g.Protocol)
	dst = appendNullable(dst, g.Leader)
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.StateTimestamp))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(g.Members)))
	for _, m := range g.Members {
		dst = appendString(dst, m.ID)
		dst = appendNullable(dst, m.InstanceID)
		dst = appendString(dst, m.ClientID)
		dst = appendString(dst, m.ClientHost)
		dst = binary.BigEndian.AppendUint32(dst, uint32(m.RebalanceTimeout))
		dst = binary.BigEndian.AppendUint32(dst, uint32(m.SessionTimeout))
		dst = appendBytes(dst, m.Subscription)
		dst = appendBytes(dst, m.Assignment)
	}
	return dst
}
