package kafkadump

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/offsetslog"
)

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func offsetKey(kind offsetslog.KeyType, group, topic string, partition int32) []byte {
	return offsetslog.Key{Type: kind, Group: group, TopicPartition: offsetslog.TopicPartition{Topic: topic, Partition: partition}}.Append(nil)
}

// Rows 410 to 412. The texts are what OffsetsMessageFormatter prints: of 4.3.1 in json, of
// 3.8.1 in text, of 1.1.1 in old, which knows of versions 0 and 1 only.
func TestOffsetsAsKafkaPrintsThem(t *testing.T) {
	key := offsetKey(1, "g", "t", 1)
	const jsonKey = `{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":`
	for _, tt := range []struct {
		name, value     string
		text, old, json string
	}{
		{
			"version 0", "0000 0000000000000064 0001 6d 00000000000004d2",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional.empty, metadata=m, commitTimestamp=1234, expireTimestamp=None)",
			"[OffsetMetadata[100,m],CommitTime 1234,ExpirationTime -1]",
			`{"version":0,"data":{"offset":100,"metadata":"m","commitTimestamp":1234}}}`,
		},
		{
			"version 1 without metadata", "0001 0000000000000064 0000 00000000000004d2 000000000000162e",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional.empty, metadata=, commitTimestamp=1234, expireTimestamp=Some(5678))",
			"[OffsetMetadata[100,NO_METADATA],CommitTime 1234,ExpirationTime 5678]",
			`{"version":1,"data":{"offset":100,"metadata":"","commitTimestamp":1234,"expireTimestamp":5678}}}`,
		},
		{
			"version 1 that does not expire", "0001 0000000000000064 0000 00000000000004d2 ffffffffffffffff",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional.empty, metadata=, commitTimestamp=1234, expireTimestamp=None)",
			"[OffsetMetadata[100,NO_METADATA],CommitTime 1234,ExpirationTime -1]",
			`{"version":1,"data":{"offset":100,"metadata":"","commitTimestamp":1234,"expireTimestamp":-1}}}`,
		},
		{
			"version 2", "0002 0000000000000064 0001 6d 00000000000004d2",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional.empty, metadata=m, commitTimestamp=1234, expireTimestamp=None)",
			"[OffsetMetadata[100,m],CommitTime 1234,ExpirationTime -1]",
			`{"version":2,"data":{"offset":100,"metadata":"m","commitTimestamp":1234}}}`,
		},
		{
			"version 3", "0003 0000000000000064 0000000a 0001 6d 00000000000004d2",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional[10], metadata=m, commitTimestamp=1234, expireTimestamp=None)",
			"[OffsetMetadata[100,m],CommitTime 1234,ExpirationTime -1]",
			`{"version":3,"data":{"offset":100,"leaderEpoch":10,"metadata":"m","commitTimestamp":1234}}}`,
		},
		{
			"version 4 with a topic id", "0004 0000000000000064 ffffffff 02 6d 00000000000004d2 01 00 10 000102030405060708090a0b0c0d0eff",
			"OffsetAndMetadata(offset=100, leaderEpoch=Optional.empty, metadata=m, commitTimestamp=1234, expireTimestamp=None)",
			"[OffsetMetadata[100,m],CommitTime 1234,ExpirationTime -1]",
			`{"version":4,"data":{"offset":100,"leaderEpoch":-1,"metadata":"m","commitTimestamp":1234,"topicId":"AAECAwQFBgcICQoLDA0O_w"}}}`,
		},
		{
			"everything that JSON escapes", "0003 0000000000000000 00000000 000e 22 5c 2f 08 09 0a 0c 0d 1f 7f e29883 ff 0000000000000000",
			"OffsetAndMetadata(offset=0, leaderEpoch=Optional[0], metadata=\"\\/\b\t\n\f\r\x1f\x7f☃\ufffd, commitTimestamp=0, expireTimestamp=None)",
			"[OffsetMetadata[0,\"\\/\b\t\n\f\r\x1f\x7f☃\ufffd],CommitTime 0,ExpirationTime -1]",
			`{"version":3,"data":{"offset":0,"leaderEpoch":0,"metadata":"\"\\/\b\t\n\f\r\u001F` + "\x7f☃\ufffd" + `","commitTimestamp":0}}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			value := fromHex(t, tt.value)
			for form, want := range map[OffsetsForm]string{
				OffsetsText: "[g,t,1]::" + tt.text + "\n", OffsetsOld: "[g,t,1]::" + tt.old + "\n", OffsetsJSON: jsonKey + tt.json,
			} {
				got, err := AppendOffset(nil, form, key, value)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
			}
		})
	}
}

func TestOffsetsThatAreRemovedOrNone(t *testing.T) {
	for _, tt := range []struct {
		name       string
		key, value []byte
		text, json string
	}{
		{"tombstone", offsetKey(0, "g", "t", 1), nil, "[g,t,1]::NULL\n", `{"key":{"type":0,"data":{"group":"g","topic":"t","partition":1}},"value":null}`},
		{"no key", nil, []byte{0, 3}, "", ""},
		{"group", offsetslog.Key{Type: offsetslog.GroupKey, Group: "g"}.Append(nil), []byte("?"), "", ""},
		{"group of a newer protocol", offsetslog.Key{Type: offsetslog.ConsumerGroupKey, Group: "g"}.Append(nil), []byte{0, 0}, "", ""},
		{"a kind that nobody knows", []byte{0, 99}, []byte{0, 0}, "", ""},
	} {
		for form, want := range map[OffsetsForm]string{OffsetsText: tt.text, OffsetsOld: tt.text, OffsetsJSON: tt.json} {
			got, err := AppendOffset([]byte("x"), form, tt.key, tt.value)
			require.NoError(t, err, tt.name)
			require.Equal(t, "x"+want, string(got), tt.name)
		}
	}
	for _, value := range [][]byte{{0, 9, 1}, {}, {0, 3, 1}} {
		got, err := AppendOffset(nil, OffsetsText, offsetKey(1, "g", "t", 1), value)
		require.ErrorIs(t, err, offsetslog.ErrUndecodable)
		require.Empty(t, got)
	}
}

func TestGroupsAsKafkaPrintsThem(t *testing.T) {
	key := offsetslog.Key{Type: offsetslog.GroupKey, Group: "g"}.Append(nil)
	const jsonKey = `{"key":{"type":2,"data":{"group":"g"}},"value":`
	for _, tt := range []struct{ name, value, want string }{
		{
			"version 0", "0000 0000 00000001 ffff ffff 00000001 0001 6d 0001 63 0001 68 00000005 00000001 ff 00000000",
			`{"version":0,"data":{"protocolType":"","generation":1,"protocol":null,"leader":null,"members":[` +
				`{"memberId":"m","clientId":"c","clientHost":"h","sessionTimeout":5,"subscription":"/w==","assignment":""}]}}}`,
		},
		{
			"version 3", "0003 0001 63 00000001 0001 72 0001 6d 0000000000000007 00000001 0001 6d ffff 0001 63 0001 68 00000006 00000005 00000000 00000000",
			`{"version":3,"data":{"protocolType":"c","generation":1,"protocol":"r","leader":"m","currentStateTimestamp":7,"members":[` +
				`{"memberId":"m","groupInstanceId":null,"clientId":"c","clientHost":"h","rebalanceTimeout":6,"sessionTimeout":5,"subscription":"","assignment":""}]}}}`,
		},
	} {
		got, err := AppendGroup(nil, key, fromHex(t, tt.value))
		require.NoError(t, err, tt.name)
		require.Equal(t, jsonKey+tt.want, string(got), tt.name)
	}
	got, err := AppendGroup(nil, key, nil)
	require.NoError(t, err)
	require.Equal(t, jsonKey+"null}", string(got))
	got, err = AppendGroup(nil, offsetKey(1, "g", "t", 1), nil)
	require.NoError(t, err)
	require.Empty(t, got)
}
