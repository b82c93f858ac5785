package offsetslog

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

const golden = "../testdata/kafka/4.3.1"

// brokerHouse is a copy of the offsets of a real broker.
func brokerHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, path: t.TempDir(), opts: quiet, dirs: seglog.DirOptions{ManualMaintenance: true}}
	require.NoError(t, os.CopyFS(filepath.Join(h.path, Topic+"-0"), os.DirFS(filepath.Join(golden, Topic+"-0"))))
	h.open()
	return h
}

// What Kafka's own decoder prints of every record is what we decode.
func TestRecordsOfABroker(t *testing.T) {
	h := brokerHouse(t)
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(t, err)
	lines := decodedLines(t)
	n := 0
	for r, err := range log.Records(ctx, 0, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(t, err)
		line := lines[n]
		n++
		k, err := ParseKey(r.Key)
		require.NoError(t, err)
		require.Equal(t, line.key.Data.Group, k.Group)
		require.Equal(t, line.key.Data.Topic, k.Topic)
		require.Equal(t, line.key.Data.Partition, k.Partition)
		switch {
		case r.Value == nil:
			require.Equal(t, "<DELETE>", line.value)
		case k.Type.IsOffset():
			c, version, err := ParseOffsetValue(r.Value)
			require.NoError(t, err)
			var want offsetPayload
			require.NoError(t, json.Unmarshal([]byte(line.value), &want))
			require.EqualValues(t, 4, version)
			require.Equal(t, want.Data.Offset, c.Offset)
			require.Equal(t, want.Data.LeaderEpoch, c.LeaderEpoch)
			require.Equal(t, want.Data.Metadata, c.Metadata)
			require.Equal(t, want.Data.CommitTimestamp, c.CommitTimestamp)
			require.Equal(t, want.Data.TopicID == "", c.TopicID == [16]byte{})
			if c.TopicID != [16]byte{} {
				require.Equal(t, r.Value, c.AppendValue(nil), "what a broker writes is what we do")
			}
		default:
			g, _, err := ParseGroupValue(r.Value)
			require.NoError(t, err)
			var want groupPayload
			require.NoError(t, json.Unmarshal([]byte(line.value), &want))
			require.Equal(t, want.Data.Generation, g.Generation)
			require.Equal(t, want.Data.ProtocolType, g.ProtocolType)
			require.Len(t, g.Members, len(want.Data.Members))
			for i, m := range want.Data.Members {
				require.Equal(t, m.MemberID, g.Members[i].ID)
				s, err := ParseSubscription(g.Members[i].Subscription)
				require.NoError(t, err)
				require.Equal(t, m.Subscription.Topics, s.Topics)
			}
			require.Equal(t, r.Value, g.AppendValue(nil), "what a broker writes is what we do")
		}
	}
	require.Equal(t, len(lines), n)
}

func TestGroupsOfABroker(t *testing.T) {
	h := brokerHouse(t)
	require.EqualValues(t, 1, h.Partitions())
	none := TopicPartition{"none", 0}
	simple := h.fetch("simple", none, true)
	require.EqualValues(t, 17, simple.Offset)
	require.Equal(t, "halfway, naïve ☃", simple.Metadata)
	require.EqualValues(t, 3, h.at("simple", TopicPartition{"gzip", 0}))
	require.EqualValues(t, 1, h.at("shrinking", none))
	require.EqualValues(t, -1, h.at("shrinking", TopicPartition{"gzip", 0}), "deleted")
	require.EqualValues(t, -1, h.at("gone", none))
	require.EqualValues(t, 20, h.at("members", none))
	require.EqualValues(t, 10, h.at("movers", none), "committed in a transaction")

	groups, err := h.Groups(ctx)
	require.NoError(t, err)
	require.Equal(t, []GroupListing{
		{Group: "members", State: Stable, ProtocolType: "consumer", MemberCount: 1, Offsets: 1},
		{Group: "movers", State: Empty, ProtocolType: "consumer", Offsets: 1},
		{Group: "shrinking", State: Empty, Offsets: 1},
		{Group: "simple", State: Empty, Offsets: 2},
	}, groups)
	d, err := h.DescribeGroup(ctx, "members")
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Generation)
	require.Equal(t, "cooperative-sticky", d.Protocol)
	require.Len(t, d.Members, 1)
	require.Equal(t, "static-1", d.Members[0].InstanceID)
	require.Equal(t, []string{"gzip", "none"}, d.Members[0].Topics)
	require.NotEmpty(t, d.Members[0].Partitions)
	st := h.Stats()
	require.Zero(t, st.Undecodable+st.Damaged+st.Pending)

	// and the group goes on from there
	require.ErrorIs(t, h.Commit(ctx, CommitRequest{Group: "members", Offsets: []Commit{{TopicPartition: none, Offset: 1}}}), ErrUnknownMember)
	h.commit("movers", none, 11)
	require.NoError(t, h.CommitTransactional(ctx, TransactionalCommitRequest{Group: "movers", Producer: Producer{7, 1}, Offsets: []Commit{{TopicPartition: none, Offset: 12}}}))
	require.NoError(t, h.EndTransaction(ctx, "movers", Producer{7, 1}, seglog.Commit, 0))
	require.EqualValues(t, 12, h.at("movers", none))
}

type offsetPayload struct {
	Data struct {
		Offset          int64
		LeaderEpoch     int32
		Metadata        string
		CommitTimestamp int64
		TopicID         string
	}
}

type groupPayload struct {
	Data struct {
		ProtocolType string
		Generation   int32
		Members      []struct {
			MemberID     string
			Subscription struct{ Topics []string }
		}
	}
}

type decodedLine struct {
	key struct {
		Data struct {
			Group, Topic string
			Partition    int32
		}
	}
	value string
}

// decodedLines are the records in the output of Kafka's dump tool.
func decodedLines(t *testing.T) (lines []decodedLine) {
	t.Helper()
	f, err := os.Open(filepath.Join(golden+".expect", Topic+"-0", "dump", "00000000000000000000.log.decoded.txt"))
	require.NoError(t, err)
	defer f.Close()
	record := regexp.MustCompile(` key: (\{.*\}) payload: (.*)$`)
	in := bufio.NewScanner(f)
	for in.Scan() {
		if m := record.FindStringSubmatch(in.Text()); m != nil {
			var l decodedLine
			require.NoError(t, json.NewDecoder(strings.NewReader(m[1])).Decode(&l.key))
			l.value = m[2]
			lines = append(lines, l)
		}
	}
	require.NoError(t, in.Err())
	require.NotEmpty(t, lines)
	return lines
}
