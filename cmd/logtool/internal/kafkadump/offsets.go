package kafkadump

import (
	"encoding/base64"
	"strconv"

	"github.com/seglog/seglog/offsetslog"
)

// OffsetsForm is what a record of __consumer_offsets looks like when Kafka's console
// consumer prints it with the OffsetsMessageFormatter.
type OffsetsForm int8

const (
	// OffsetsText is that of Kafka 2.1 to 3.8 (kafka.common.OffsetAndMetadata).
	OffsetsText OffsetsForm = iota
	// OffsetsOld is that of Kafka 0.9 to 2.0.
	OffsetsOld
	// OffsetsJSON is that of Kafka 4: objects with nothing between them
	// (org.apache.kafka.tools.consumer.OffsetsMessageFormatter).
	OffsetsJSON
)

// AppendOffset appends what the formatter prints of a record. That is nothing unless the
// record is a committed offset, or removes one. What cannot be decoded, where the tool
// ends with an exception, is an error.
func AppendOffset(dst []byte, form OffsetsForm, key, value []byte) ([]byte, error) {
	if key == nil {
		return dst, nil
	}
	k, err := offsetslog.ParseKey(key)
	if err != nil || !k.Type.IsOffset() {
		return dst, err
	}
	var c offsetslog.Committed
	var version int16
	if value != nil {
		if c, version, err = offsetslog.ParseOffsetValue(value); err != nil {
			return dst, err
		}
	}
	if form == OffsetsJSON {
		return appendOffsetJSON(dst, k, value != nil, c, version), nil
	}
	dst = append(dst, '[')
	dst = appendJavaString(dst, []byte(k.Group))
	dst = append(dst, ',')
	dst = appendJavaString(dst, []byte(k.Topic))
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(k.Partition), 10)
	dst = append(dst, "]::"...)
	switch {
	case value == nil:
		dst = append(dst, "NULL"...)
	case form == OffsetsOld:
		dst = appendOldOffset(dst, c)
	default:
		dst = appendOffsetText(dst, c)
	}
	return append(dst, '\n'), nil
}

func appendOffsetText(dst []byte, c offsetslog.Committed) []byte {
	dst = strconv.AppendInt(append(dst, "OffsetAndMetadata(offset="...), c.Offset, 10)
	if c.LeaderEpoch == -1 {
		dst = append(dst, ", leaderEpoch=Optional.empty"...)
	} else {
		dst = strconv.AppendInt(append(dst, ", leaderEpoch=Optional["...), int64(c.LeaderEpoch), 10)
		dst = append(dst, ']')
	}
	dst = appendJavaString(append(dst, ", metadata="...), []byte(c.Metadata))
	dst = strconv.AppendInt(append(dst, ", commitTimestamp="...), c.CommitTimestamp, 10)
	if c.ExpireTimestamp == -1 {
		return append(dst, ", expireTimestamp=None)"...)
	}
	dst = strconv.AppendInt(append(dst, ", expireTimestamp=Some("...), c.ExpireTimestamp, 10)
	return append(dst, "))"...)
}

func appendOldOffset(dst []byte, c offsetslog.Committed) []byte {
	dst = strconv.AppendInt(append(dst, "[OffsetMetadata["...), c.Offset, 10)
	dst = append(dst, ',')
	if c.Metadata == "" {
		dst = append(dst, "NO_METADATA"...)
	} else {
		dst = appendJavaString(dst, []byte(c.Metadata))
	}
	dst = strconv.AppendInt(append(dst, "],CommitTime "...), c.CommitTimestamp, 10)
	dst = strconv.AppendInt(append(dst, ",ExpirationTime "...), c.ExpireTimestamp, 10)
	return append(dst, ']')
}

// appendOffsetJSON is CoordinatorRecordMessageFormatter with OffsetCommitKeyJsonConverter
// and OffsetCommitValueJsonConverter.
func appendOffsetJSON(dst []byte, k offsetslog.Key, hasValue bool, c offsetslog.Committed, version int16) []byte {
	dst = appendJSONKey(dst, k.Type)
	dst = appendJacksonString(append(dst, `"group":`...), k.Group)
	dst = appendJacksonString(append(dst, `,"topic":`...), k.Topic)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(k.Partition), 10)
	dst = append(dst, "}},"...)
	if !hasValue {
		return append(dst, `"value":null}`...)
	}
	dst = appendJSONValue(dst, version)
	dst = strconv.AppendInt(append(dst, `"offset":`...), c.Offset, 10)
	if version >= 3 {
		dst = strconv.AppendInt(append(dst, `,"leaderEpoch":`...), int64(c.LeaderEpoch), 10)
	}
	dst = appendJacksonString(append(dst, `,"metadata":`...), c.Metadata)
	dst = strconv.AppendInt(append(dst, `,"commitTimestamp":`...), c.CommitTimestamp, 10)
	if version == 1 {
		dst = strconv.AppendInt(append(dst, `,"expireTimestamp":`...), c.ExpireTimestamp, 10)
	}
	if version >= 4 && c.TopicID != [16]byte{} {
		dst = base64.RawURLEncoding.AppendEncode(append(dst, `,"topicId":"`...), c.TopicID[:])
		dst = append(dst, '"')
	}
	return append(dst, "}}}"...)
}

func appendJSONKey(dst []byte, t offsetslog.KeyType) []byte {
	dst = strconv.AppendInt(append(dst, `{"key":{"type":`...), int64(t), 10)
	return append(dst, `,"data":{`...)
}

func appendJSONValue(dst []byte, version int16) []byte {
	dst = strconv.AppendInt(append(dst, `"value":{"version":`...), int64(version), 10)
	return append(dst, `,"data":{`...)
}

// AppendGroup is AppendOffset for the GroupMetadataMessageFormatter of Kafka 4, which
// prints the metadata of groups of the classic protocol.
func AppendGroup(dst, key, value []byte) ([]byte, error) {
	if key == nil {
		return dst, nil
	}
	k, err := offsetslog.ParseKey(key)
	if err != nil || k.Type != offsetslog.GroupKey {
		return dst, err
	}
	if value == nil {
		dst = appendJSONKey(dst, k.Type)
		dst = appendJacksonString(append(dst, `"group":`...), k.Group)
		return append(dst, `}},"value":null}`...), nil
	}
	g, version, err := offsetslog.ParseGroupValue(value)
	if err != nil {
		return dst, err
	}
	dst = appendJSONKey(dst, k.Type)
	dst = appendJacksonString(append(dst, `"group":`...), k.Group)
	dst = append(dst, "}},"...)
	dst = appendJSONValue(dst, version)
	dst = appendJacksonString(append(dst, `"protocolType":`...), g.ProtocolType)
	dst = strconv.AppendInt(append(dst, `,"generation":`...), int64(g.Generation), 10)
	dst = appendNullable(append(dst, `,"protocol":`...), g.Protocol)
	dst = appendNullable(append(dst, `,"leader":`...), g.Leader)
	if version >= 2 {
		dst = strconv.AppendInt(append(dst, `,"currentStateTimestamp":`...), g.StateTimestamp, 10)
	}
	dst = append(dst, `,"members":[`...)
	for i, m := range g.Members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMember(dst, m, version)
	}
	return append(dst, "]}}}"...), nil
}

func appendMember(dst []byte, m offsetslog.MemberValue, version int16) []byte {
	dst = appendJacksonString(append(dst, `{"memberId":`...), m.ID)
	if version >= 3 {
		dst = appendNullable(append(dst, `,"groupInstanceId":`...), m.InstanceID)
	}
	dst = appendJacksonString(append(dst, `,"clientId":`...), m.ClientID)
	dst = appendJacksonString(append(dst, `,"clientHost":`...), m.ClientHost)
	if version >= 1 {
		dst = strconv.AppendInt(append(dst, `,"rebalanceTimeout":`...), int64(m.RebalanceTimeout), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"sessionTimeout":`...), int64(m.SessionTimeout), 10)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"subscription":"`...), m.Subscription)
	dst = base64.StdEncoding.AppendEncode(append(dst, `","assignment":"`...), m.Assignment)
	return append(dst, `"}`...)
}

func appendNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return appendJacksonString(dst, *s)
}

// appendJacksonString appends a JSON string as Jackson writes it, of bytes as Java reads
// them.
func appendJacksonString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for _, c := range appendJavaString(nil, []byte(s)) {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
