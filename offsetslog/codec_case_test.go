package offsetslog

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Row 359
func TestPartitionForIsKafkas(t *testing.T) {
	for _, tt := range []struct {
		group string
		want  int32
	}{
		{"", 0}, {"g1", 42}, {"foo", 24}, {"group", 47}, {"test-group", 12}, {"my-group", 12},
		{"console-consumer-12345", 6}, {"группа", 8}, {"😀", 49},
		// K081: a bit mask would give other ones
		{"billing", 9}, {"test-consumer-group", 31}, {"orders-etl", 19}, {"polygenelubricants", 0},
	} {
		require.Equal(t, tt.want, PartitionFor(tt.group, 50), tt.group)
	}
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestKeyBytes(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		key       Key
	}{
		{"commit", "0001 0008 6d792d67726f7570 0006 6f7264657273 00000003",
			Key{Type: OffsetKey, Group: "my-group", TopicPartition: TopicPartition{"orders", 3}}},
		{"commit of old", "0000 0001 67 0001 74 ffffffff", Key{Type: OffsetKeyV0, Group: "g", TopicPartition: TopicPartition{"t", -1}}},
		{"group", "0002 0008 6d792d67726f7570", Key{Type: GroupKey, Group: "my-group"}},
		{"empty group id", "0002 0000", Key{Type: GroupKey}},
		{"consumer group", "0003 0001 67", Key{Type: ConsumerGroupKey, Group: "g"}},
		{"consumer group member", "0005 0001 67 0001 6d", Key{Type: ConsumerGroupMemberKey, Group: "g", Member: "m"}},
		{"share group state", "000f 0001 67", Key{Type: ShareGroupStateKey, Group: "g"}},
		{"regular expression", "0010 0001 67 0002 2e2a", Key{Type: ConsumerGroupRegexKey, Group: "g", Regex: ".*"}},
		{"streams group", "0011 0001 67", Key{Type: StreamsGroupKey, Group: "g"}},
		{"streams group member", "0016 0001 67 0001 6d", Key{Type: StreamsGroupCurrentAssignmentKey, Group: "g", Member: "m"}},
		{"streams group topology", "0017 0001 67", Key{Type: StreamsGroupTopologyKey, Group: "g"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := fromHex(t, tt.hex)
			got, err := ParseKey(b)
			require.NoError(t, err)
			require.Equal(t, tt.key, got)
			require.Equal(t, b, got.Append(nil))
		})
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for name, s := range map[string]string{
		"null":                 "",
		"one byte":             "00",
		"no group":             "0001",
		"group cut short":      "0002 0008 6d79",
		"group null":           "0002 ffff",
		"group length below":   "0002 fffe",
		"no topic":             "0001 0001 67",
		"no partition":         "0001 0001 67 0001 74",
		"something left":       "0002 0001 67 00",
		"member of 5 missing":  "0005 0001 67",
		"expression missing":   "0010 0001 67",
		"left behind a commit": "0001 0001 67 0001 74 00000000 00",
	} {
		_, err := ParseKey(fromHex(t, s))
		require.ErrorIs(t, err, ErrUndecodable, name)
		var d *DecodeError
		require.ErrorAs(t, err, &d, name)
	}
	for _, unknown := range []string{"0012", "0018", "0063 ff", "ffff", "8000"} {
		k, err := ParseKey(fromHex(t, unknown))
		require.NoError(t, err)
		require.False(t, k.Type.Known())
		require.Empty(t, k.Group)
	}
}

// K076, rows 391 and 392
func TestOffsetValueBytes(t *testing.T) {
	meta := Committed{Offset: 100, LeaderEpoch: 5, Metadata: "meta", CommitTimestamp: 1700000000000, ExpireTimestamp: -1}
	plain := Committed{Offset: 100, LeaderEpoch: -1, CommitTimestamp: 1700000000000, ExpireTimestamp: -1}
	expires := plain
	expires.ExpireTimestamp = 1700604800000
	withID := meta
	copy(withID.TopicID[:], "0123456789abcdef")
	long := meta
	long.Metadata = strings.Repeat("m", 200)
	for _, tt := range []struct {
		name, hex string
		want      Committed
		writes    bool // these bytes are what we write, too
	}{
		{"0", "0000 0000000000000064 0000 0000018bcfe56800", plain, false},
		{"1", "0001 0000000000000064 0000 0000018bcfe56800 0000018bf3f1ec00", expires, true},
		{"1, never expires", "0001 0000000000000064 0000 0000018bcfe56800 ffffffffffffffff", plain, false},
		{"2", "0002 0000000000000064 0000 0000018bcfe56800", plain, false},
		{"3", "0003 0000000000000064 00000005 0004 6d657461 0000018bcfe56800", meta, true},
		{"4", "0004 0000000000000064 00000005 05 6d657461 0000018bcfe56800 00", meta, false},
		{"4, unknown tag", "0004 0000000000000064 00000005 05 6d657461 0000018bcfe56800 01 07 10 " + strings.Repeat("ab", 16), meta, false},
		{"4, topic id", "0004 0000000000000064 00000005 05 6d657461 0000018bcfe56800 01 00 10 " + hex.EncodeToString([]byte("0123456789abcdef")), withID, true},
		{"4, long metadata", "0004 0000000000000064 00000005 c901 " + strings.Repeat("6d", 200) + "0000018bcfe56800 00", long, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := fromHex(t, tt.hex)
			got, version, err := ParseOffsetValue(b)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, b[1], byte(version))
			if tt.writes {
				require.Equal(t, b, got.AppendValue(nil))
			}
			for n := range b {
				_, _, err := ParseOffsetValue(b[:n])
				require.ErrorIs(t, err, ErrUndecodable, "cut to %d bytes", n)
			}
		})
	}
	for name, s := range map[string]string{
		"empty":           "",
		"version 9":       "0009 0000000000000064 0000 0000018bcfe56800",
		"version -1":      "ffff 0000000000000064 0000 0000018bcfe56800",
		"null metadata":   "0003 0000000000000064 00000005 ffff 0000018bcfe56800",
		"bytes left over": "0000 0000000000000064 0000 0000018bcfe56800 00",
		"endless varint":  "0004 0000000000000064 00000005 ffffffffffffffffff",
		"too many tags":   "0004 0000000000000064 00000005 05 6d657461 0000018bcfe56800 ffffffff0f",
	} {
		_, _, err := ParseOffsetValue(fromHex(t, s))
		require.ErrorIs(t, err, ErrUndecodable, name)
	}
}

// Rows 392 and 396
func TestGroupValueBytes(t *testing.T) {
	empty := GroupValue{ProtocolType: "consumer", StateTimestamp: 1700000000000}
	b := fromHex(t, "0003 0008 636f6e73756d6572 00000000 ffff ffff 0000018bcfe56800 00000000")
	got, version, err := ParseGroupValue(b)
	require.NoError(t, err)
	require.EqualValues(t, 3, version)
	require.Equal(t, empty, got)
	require.Equal(t, b, got.AppendValue(nil))

	s := func(s string) *string { return &s }
	full := GroupValue{
		ProtocolType: "consumer", Generation: 7, Protocol: s("range"), Leader: s("m"), StateTimestamp: 5,
		Members: []MemberValue{{
			ID: "m", InstanceID: s("i"), ClientID: "c", ClientHost: "/1.2.3.4",
			RebalanceTimeout: 60000, SessionTimeout: 45000, Subscription: []byte{1, 2}, Assignment: []byte{},
		}},
	}
	for version := range int16(5) {
		want := full
		want.Members = []MemberValue{full.Members[0]}
		if version < 3 {
			want.Members[0].InstanceID = nil
		}
		if version < 2 {
			want.StateTimestamp = -1
		}
		if version < 1 {
			want.Members[0].RebalanceTimeout = 45000
		}
		b := encodeGroup(full, version)
		got, v, err := ParseGroupValue(b)
		require.NoError(t, err)
		require.Equal(t, version, v)
		require.Equal(t, want, got)
		for n := range b {
			_, _, err := ParseGroupValue(b[:n])
			require.ErrorIs(t, err, ErrUndecodable, "version %d cut to %d bytes", version, n)
		}
		if version == 3 {
			require.Equal(t, b, got.AppendValue(nil))
		}
	}
}

// encodeGroup writes any version, by the description of GroupMetadataValue.json.
func encodeGroup(g GroupValue, version int16) []byte {
	var b []byte
	flexible := version >= 4
	length := func(n, size int) {
		switch {
		case flexible:
			b = binary.AppendUvarint(b, uint64(n+1))
		case size == 2:
			b = binary.BigEndian.AppendUint16(b, uint16(n))
		default:
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
	}
	str := func(s *string) {
		if s == nil {
			length(-1, 2)
			return
		}
		length(len(*s), 2)
		b = append(b, *s...)
	}
	raw := func(v []byte) { length(len(v), 4); b = append(b, v...) }
	i32 := func(v int32) { b = binary.BigEndian.AppendUint32(b, uint32(v)) }
	tags := func() {
		if flexible {
			b = append(b, 0)
		}
	}
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	str(&g.ProtocolType)
	i32(g.Generation)
	str(g.Protocol)
	str(g.Leader)
	if version >= 2 {
		b = binary.BigEndian.AppendUint64(b, uint64(g.StateTimestamp))
	}
	length(len(g.Members), 4)
	for _, m := range g.Members {
		str(&m.ID)
		if version >= 3 {
			str(m.InstanceID)
		}
		str(&m.ClientID)
		str(&m.ClientHost)
		if version >= 1 {
			i32(m.RebalanceTimeout)
		}
		i32(m.SessionTimeout)
		raw(m.Subscription)
		raw(m.Assignment)
		tags()
	}
	tags()
	return b
}

func TestConsumerProtocol(t *testing.T) {
	rack := "r1"
	full := Subscription{
		Topics: []string{"a", "b"}, UserData: []byte{9}, Generation: 4, Rack: &rack,
		Owned: []TopicPartition{{"a", 0}, {"a", 2}, {"b", 1}},
	}
	b := full.AppendTo(nil)
	got, err := ParseSubscription(b)
	require.NoError(t, err)
	require.Equal(t, full, got)

	newer := append([]byte{0, 9}, b[2:]...)
	got, err = ParseSubscription(append(newer, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, full, got, "a newer version begins as the newest that is known")

	old, err := ParseSubscription(fromHex(t, "0000 00000001 0001 61 ffffffff"))
	require.NoError(t, err)
	require.Equal(t, Subscription{Topics: []string{"a"}, Generation: -1}, old)

	a := Assignment{Partitions: full.Owned, UserData: []byte{}}
	back, err := ParseAssignment(a.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, a, back)

	for _, bad := range []string{"", "ffff", "0000 7fffffff", "0001 00000000 ffffffff 00000001", "0000 00000001 ffff"} {
		_, err := ParseSubscription(fromHex(t, bad))
		require.ErrorIs(t, err, ErrUndecodable, bad)
	}
}

// FuzzDecoders: nothing panics or takes memory for what is merely claimed; what
// decodes is the same when it is encoded and decoded again.
func FuzzDecoders(f *testing.F) {
	f.Add(Key{Type: OffsetKey, Group: "g", TopicPartition: orders}.Append(nil))
	f.Add(Key{Type: ConsumerGroupMemberKey, Group: "g", Member: "m"}.Append(nil))
	f.Add(Committed{Offset: 1, LeaderEpoch: 2, Metadata: "m", ExpireTimestamp: -1}.AppendValue(nil))
	f.Add(Committed{Offset: 1, ExpireTimestamp: 5}.AppendValue(nil))
	f.Add(Committed{Offset: 1, ExpireTimestamp: -1, TopicID: [16]byte{1}}.AppendValue(nil))
	for version := range int16(5) {
		f.Add(encodeGroup(GroupValue{ProtocolType: "consumer", Members: []MemberValue{{ID: "m"}}}, version))
	}
	f.Add(Subscription{Topics: []string{"a"}, Owned: []TopicPartition{orders}}.AppendTo(nil))
	f.Add(Assignment{Partitions: []TopicPartition{orders}}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := ParseKey(b); err == nil && k.Type.Known() {
			require.Equal(t, b, k.Append(nil))
		}
		if c, version, err := ParseOffsetValue(b); err == nil && c.ExpireTimestamp >= -1 && len(c.Metadata) <= maxString {
			again, _, err := ParseOffsetValue(c.AppendValue(nil))
			require.NoError(t, err)
			require.Equal(t, c, again, version)
		}
		if g, _, err := ParseGroupValue(b); err == nil && len(b) <= maxString {
			again, _, err := ParseGroupValue(g.AppendValue(nil))
			require.NoError(t, err)
			require.Equal(t, g.Generation, again.Generation)
			require.Len(t, again.Members, len(g.Members))
			loadedGroup(g)
		}
		if s, err := ParseSubscription(b); err == nil {
			again, err := ParseSubscription(s.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, s.Topics, again.Topics)
			require.ElementsMatch(t, s.Owned, again.Owned)
		}
		if a, err := ParseAssignment(b); err == nil {
			again, err := ParseAssignment(a.AppendTo(nil))
			require.NoError(t, err)
			require.ElementsMatch(t, a.Partitions, again.Partitions)
		}
	})
}

// FuzzReplay: whatever a log holds can be replayed, in any order.
func FuzzReplay(f *testing.F) {
	key := Key{Type: OffsetKey, Group: "g", TopicPartition: orders}.Append(nil)
	value := Committed{Offset: 1, LeaderEpoch: -1, ExpireTimestamp: -1}.AppendValue(nil)
	f.Add(key, value, int64(-1), false)
	f.Add(key, value, int64(7), true)
	f.Add(Key{Type: GroupKey, Group: "g"}.Append(nil), encodeGroup(GroupValue{ProtocolType: "consumer"}, 3), int64(-1), false)
	f.Add(Key{Type: ConsumerGroupCurrentAssignmentKey, Group: "g", Member: "m"}.Append(nil), []byte{0, 0, 0, 0, 0, 9}, int64(-1), false)
	f.Fuzz(func(t *testing.T, k, v []byte, producer int64, commit bool) {
		s := newState()
		for i := range int64(2) {
			_ = s.replay(i, producer, k, v)
			_ = s.replay(i, -1, key, value)
		}
		s.end(producer, commit)
		_ = s.replay(9, -1, k, nil)
		_ = s.replay(10, -1, Key{Type: OffsetKey, Group: "g", TopicPartition: orders}.Append(nil), nil)
		n := 0
		for _, g := range s.groups {
			n += g.offsets.len()
		}
		require.Equal(t, n, s.offsets)
	})
}
