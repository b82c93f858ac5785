package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

const (
	groupTool    = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	consoleTool  = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	offsetsTopic = "__consumer_offsets"
	// offsetsPartitions is not what every broker has, so that nobody counts on that.
	offsetsPartitions = 3
)

// A groupsDriver makes groups of all kinds on a broker.
type groupsDriver struct {
	*filler
	kill    func() // the member that is left
	pending struct {
		id    int64
		epoch int16
	}
}

// partition is one that a group is about, as all in these tests.
func partition(topic string) offsetslog.TopicPartition {
	return offsetslog.TopicPartition{Topic: topic}
}

// all makes all groups. Those that have members keep them until the test ends.
func (d *groupsDriver) all() {
	d.groupActivity()
	for _, group := range []string{"reset by kafka", "deleted by kafka", "trimmed by kafka", "pending", "expired"} {
		d.commit(group, "none", kadm.Offset{At: 12, LeaderEpoch: 0, Metadata: group})
		d.commit(group, "gzip", kadm.Offset{At: 7, LeaderEpoch: -1})
	}
	d.newProtocol(d.tb.Context(), "modern").Close()
	var member context.Context
	member, d.kill = context.WithCancel(d.tb.Context())
	d.newProtocol(member, "modern with a member")
	d.pendingCommit()
	d.expiringCommit("expired", "none", 1)
	d.expiringCommit("expires tomorrow", "none", 24*60*60*1000)
	d.broker.await("expire an offset", clientTimeout, func(context.Context) bool {
		return d.fetchOffset("expired", "none").At == -1
	})
}

// newProtocol reads and commits as a member of a group of KIP-848, which is gone without
// a word when life ends.
func (d *groupsDriver) newProtocol(life context.Context, group string) *kgo.Client {
	d.tb.Helper()
	ctx, cancel := d.context()
	defer cancel()
	member := d.connect(kgo.WithContext(life), kgo.ConsumerGroup(group), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeTopics("none"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	fetches := member.PollRecords(ctx, 15)
	require.NoError(d.tb, fetches.Err())
	require.NoError(d.tb, member.CommitRecords(ctx, fetches.Records()...))
	return member
}

// pendingCommit commits within a transaction that stays open.
func (d *groupsDriver) pendingCommit() {
	d.tb.Helper()
	ctx, cancel := d.context()
	defer cancel()
	client := d.connect()
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID = kmsg.StringPtr("pending")
	begin.TransactionTimeoutMillis = 15 * 60 * 1000
	begun, err := begin.RequestWith(ctx, client)
	require.NoError(d.tb, err)
	require.NoError(d.tb, kerr.ErrorForCode(begun.ErrorCode))
	d.pending.id, d.pending.epoch = begun.ProducerID, begun.ProducerEpoch

	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group = "pending", "pending"
	commit.ProducerID, commit.ProducerEpoch = begun.ProducerID, begun.ProducerEpoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = "none"
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = 33
	topic.Partitions = append(topic.Partitions, p)
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(ctx, client)
	require.NoError(d.tb, err)
	require.NoError(d.tb, kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode))
}

// endPending commits the transaction of pendingCommit.
func (d *groupsDriver) endPending() {
	d.tb.Helper()
	ctx, cancel := d.context()
	defer cancel()
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = "pending", d.pending.id, d.pending.epoch, true
	ended, err := end.RequestWith(ctx, d.connect())
	require.NoError(d.tb, err)
	require.NoError(d.tb, kerr.ErrorForCode(ended.ErrorCode))
}

// expiringCommit commits as an old client, which says how long the offset is kept.
func (d *groupsDriver) expiringCommit(group, topic string, retentionMs int64) {
	d.tb.Helper()
	ctx, cancel := d.context()
	defer cancel()
	versions := kversion.Stable()
	commit := kmsg.NewPtrOffsetCommitRequest()
	versions.SetMaxKeyVersion(commit.Key(), 2)
	commit.Group, commit.Generation, commit.RetentionTimeMillis = group, -1, retentionMs
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = 3
	t.Partitions = append(t.Partitions, p)
	commit.Topics = append(commit.Topics, t)
	res, err := commit.RequestWith(ctx, d.connect(kgo.MaxVersions(versions)))
	require.NoError(d.tb, err)
	require.NoError(d.tb, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
}

// fetchOffset is what a client gets for a group; At is -1 if there is none.
func (c *Client) fetchOffset(group, topic string) kadm.Offset {
	c.tb.Helper()
	ctx, cancel := c.context()
	defer cancel()
	all, err := c.admin.FetchOffsets(ctx, group)
	require.NoError(c.tb, err)
	if got, ok := all.Lookup(topic, 0); ok {
		require.NoError(c.tb, got.Err)
		return got.Offset
	}
	return kadm.Offset{At: -1}
}

// requireReadsFrom has a real consumer join a group, and looks where it begins.
func (c *Client) requireReadsFrom(offset int64, group, topic string, opts ...kgo.Opt) {
	c.tb.Helper()
	ctx, cancel := c.context()
	defer cancel()
	member := c.connect(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset())}, opts...)...)
	defer member.Close()
	fetches := member.PollRecords(ctx, 1)
	require.NoError(c.tb, fetches.Err())
	require.Equal(c.tb, offset, fetches.Records()[0].Offset, "%s reads %s", group, topic)
}

// A groupsView is what is told of all groups: a line for each, and one for each
// committed offset, with the lag.
type groupsView struct{ groups, offsets []string }

// kafkasView asks Kafka's own tool.
func (d *groupsDriver) kafkasView() (v groupsView) {
	d.tb.Helper()
	to := func(args ...string) toolRun {
		return toolRun{groupTool, append([]string{"--bootstrap-server", d.addr}, args...)}
	}
	res := runEach(d.tb, []toolRun{to("--list", "--state", "--type"), to("--describe", "--all-groups", "--offsets", "--verbose")})
	for line := range strings.Lines(res[0].Stdout) {
		if f := columns(line, res[0].Stdout); f != nil {
			v.groups = append(v.groups, strings.Join(f, "|"))
		}
	}
	header := ""
	for line := range strings.Lines(res[1].Stdout) {
		switch {
		case strings.HasPrefix(line, "GROUP "):
			header = line
		case strings.TrimSpace(line) != "":
			// A member's partition without a committed offset is listed as well.
			if f := columns(line, header); f[4] != "-" {
				v.offsets = append(v.offsets, strings.Join(f[:7], "|"))
			}
		}
	}
	require.NotEmpty(d.tb, v.groups, "%s", res[0].Stderr)
	require.NotEmpty(d.tb, v.offsets, "%s", res[1].Stderr)
	slices.Sort(v.groups)
	slices.Sort(v.offsets)
	return v
}

// columns cuts a line where the names of the header begin, since there may be spaces in
// a group's. It returns nil for the header itself.
func columns(line, header string) (fields []string) {
	header, _, _ = strings.Cut(header, "\n")
	if strings.TrimSpace(line) == strings.TrimSpace(header) {
		return nil
	}
	var starts []int
	for i := range header {
		if header[i] != ' ' && (i == 0 || header[i-1] == ' ') {
			starts = append(starts, i)
		}
	}
	line = strings.TrimRight(line, "\n")
	for i, from := range starts {
		to := len(line)
		if i+1 < len(starts) {
			to = min(to, starts[i+1])
		}
		fields = append(fields, strings.TrimSpace(line[min(from, to):to]))
	}
	return fields
}

// viewOf asks our store the same.
func viewOf(t *testing.T, s *offsetslog.Store) (v groupsView) {
	t.Helper()
	groups, err := s.Groups(t.Context())
	require.NoError(t, err)
	orDash := func(n int64) string {
		if n < 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	for _, g := range groups {
		v.groups = append(v.groups, fmt.Sprintf("%s|%s|%s", g.Group, g.Type, g.State))
		lags, err := s.Lags(t.Context(), g.Group)
		require.NoError(t, err)
		for _, l := range lags {
			v.offsets = append(v.offsets, fmt.Sprintf("%s|%s|%d|%s|%d|%d|%d", g.Group, l.Topic, l.Partition, orDash(int64(l.LeaderEpoch)), l.Offset, l.End, l.Lag))
		}
	}
	slices.Sort(v.groups)
	slices.Sort(v.offsets)
	return v
}

// withoutMembers is how the groups are once nobody is a member.
func (v groupsView) withoutMembers() groupsView {
	v.groups = slices.Clone(v.groups)
	for i := range v.groups {
		v.groups[i] = strings.ReplaceAll(v.groups[i], "|Stable", "|Empty")
	}
	return v
}

// besides opens the logs of a broker that is at work.
type besides struct {
	t   *testing.T
	dir string
}

func (b besides) Partition(topic string, n int32) (*seglog.Log, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", topic, n))
	if _, err := os.Stat(dir); err != nil {
		return nil, seglog.ErrNoPartition
	}
	return mustReadOnly(b.t, dir), nil
}

func viewBeside(t *testing.T, broker *Broker) groupsView {
	t.Helper()
	s, err := offsetslog.OpenReadOnly(besides{t, broker.LogDir}, offsetsPartitions, offsetslog.Options{})
	require.NoError(t, err)
	requirePending(t, s, true)
	v := viewOf(t, s)
	require.NoError(t, s.Close())
	return v
}

// requireDumps compares what Kafka's console consumer and logtool print of the records.
func (d *groupsDriver) requireDumps(tool *Logtool) {
	d.tb.Helper()
	var runs []toolRun
	var ours [][]string
	for p := range offsetsPartitions {
		dir := filepath.Join(d.broker.LogDir, fmt.Sprintf("%s-%d", offsetsTopic, p))
		n := tool.Run(".", "offsets", "dump", dir, "-o", "json")
		require.Zero(d.tb, n.Exit, "%s", n.Stderr)
		if n.Stdout == "" {
			continue
		}
		for formatter, flags := range map[string][]string{"OffsetsMessageFormatter": {"--format", "json"}, "GroupMetadataMessageFormatter": {"--groups"}} {
			runs = append(runs, toolRun{consoleTool, []string{"--bootstrap-server", d.addr, "--topic", offsetsTopic, "--partition", strconv.Itoa(p), "--offset", "earliest",
				"--max-messages", strconv.Itoa(strings.Count(n.Stdout, "\n")), "--formatter", "org.apache.kafka.tools.consumer." + formatter}})
			ours = append(ours, append([]string{"offsets", "dump", dir}, flags...))
		}
	}
	require.NotEmpty(d.tb, runs)
	bytes := 0
	for i, res := range runEach(d.tb, runs) {
		got := tool.Run(".", ours[i]...)
		require.Zero(d.tb, got.Exit, "%s", got.Stderr)
		require.Equal(d.tb, res.Stdout, got.Stdout, "%v\n%s", runs[i].args, res.Stderr)
		bytes += len(got.Stdout)
	}
	d.tb.Logf("Kafka's console consumer and logtool print the same %d bytes", bytes)
}

// TestGroupsGoToSeglogAndBack has groups of all kinds commit to a broker: classic and new
// ones, with members and without, in transactions that commit, abort and stay open,
// reset, deleted and expired by Kafka's own tools. Our store must list what Kafka's tool
// does, beside the broker and after it has stopped. Then we commit, reset and delete, and
// the broker must serve that to its tool and to real consumers.
func TestGroupsGoToSeglogAndBack(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{Config: map[string]string{
		"offsets.topic.num.partitions": strconv.Itoa(offsetsPartitions), "offsets.retention.check.interval.ms": "300",
	}})
	client := broker.NewClient()
	d := &groupsDriver{filler: &filler{Client: client, broker: broker}}
	for topic, n := range map[string]int{"none": 40, "gzip": 20} {
		client.CreateTopic(topic, nil)
		p := client.Produce(topic)
		for i := range n {
			p.Batch(Record{Timestamp: firstTime + int64(i), Value: []byte("v")})
		}
		p.Close()
	}
	d.all()
	to := func(args ...string) toolRun {
		return toolRun{groupTool, append([]string{"--bootstrap-server", d.addr}, args...)}
	}
	for _, res := range runEach(t, []toolRun{
		to("--reset-offsets", "--group", "reset by kafka", "--topic", "none", "--shift-by", "-5", "--execute"),
		to("--delete", "--group", "deleted by kafka"),
		to("--delete-offsets", "--group", "trimmed by kafka", "--topic", "gzip"),
	}) {
		require.NotContains(t, res.Stdout, "Error", "%s", res.Stderr)
	}
	kafkas := d.kafkasView()
	t.Logf("%d groups, %d offsets", len(kafkas.groups), len(kafkas.offsets))
	require.Contains(t, kafkas.offsets, "reset by kafka|none|0|-|7|40|33")
	require.Contains(t, kafkas.groups, "members|Classic|Stable")
	require.Contains(t, kafkas.groups, "modern|Consumer|Empty")
	require.Contains(t, kafkas.groups, "modern with a member|Consumer|Stable")

	require.Equal(t, kafkas, viewBeside(t, broker), "beside the broker")
	tool := BuildLogtool(t)
	d.requireDumps(tool)

	broker.Stop()
	d.kill()
	h := openStore(t, broker.LogDir)
	gone, err := offsetslog.OpenReadOnly(h.dir, offsetsPartitions, offsetslog.Options{MembersGone: true})
	require.NoError(t, err)
	require.Equal(t, kafkas.withoutMembers(), viewOf(t, gone), "after a stop")
	require.NoError(t, gone.Close())
	require.Equal(t, kafkas, viewOf(t, h.Store))
	requirePending(t, h.Store, true)
	h.change(t)
	h.close(t)
	res := tool.Run(".", "offsets", "reset", broker.LogDir, "--group", "reset by kafka", "--to-latest", "--execute")
	require.Zero(t, res.Exit, "%s", res.Stderr)
	ours := viewBeside(t, broker)
	require.Contains(t, ours.offsets, "reset by kafka|none|0|-|40|40|0")
	output, err := os.ReadFile(broker.output)
	require.NoError(t, err)

	broker.Start()
	client = broker.NewClient() // requests to coordinators are not tried again on a connection that is gone
	d.Client = client
	require.Equal(t, ours, d.kafkasView(), "the broker on our log")
	served := client.fetchOffset("ours", "none")
	require.EqualValues(t, 11, served.At)
	require.EqualValues(t, 0, served.LeaderEpoch)
	require.Equal(t, "from seglog, naïve ☃", served.Metadata)
	require.EqualValues(t, 21, client.fetchOffset("ours in a transaction", "none").At)
	require.EqualValues(t, -1, client.fetchOffset("simple", "gzip").At)
	client.requireReadsFrom(3, "movers", "none")
	client.requireReadsFrom(35, "members", "none")
	client.requireReadsFrom(9, "modern with a member", "none", kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	d.endPending()
	broker.await("end the transaction", clientTimeout, func(context.Context) bool {
		return client.fetchOffset("pending", "none").At == 33
	})
	requireNoComplaint(t, broker, len(output))
	broker.Stop()

	h = openStore(t, broker.LogDir)
	requirePending(t, h.Store, false)
	h.close(t)
}

// requirePending looks at what was committed in the open transaction.
func requirePending(t *testing.T, s *offsetslog.Store, open bool) {
	t.Helper()
	for stable, want := range map[bool]int64{true: 33, false: 33} {
		var wantErr error
		if open {
			if want = 12; stable {
				want, wantErr = -1, offsetslog.ErrUnstable
			}
		}
		f, err := s.Fetch(t.Context(), offsetslog.FetchRequest{Group: "pending", Partitions: []offsetslog.TopicPartition{partition("none")}, RequireStable: stable})
		require.NoError(t, err)
		require.Equal(t, wantErr, f[0].Err)
		require.Equal(t, want, f[0].Offset)
	}
	require.Zero(t, s.Stats().Undecodable+s.Stats().Damaged)
}

// ourStore is our store in a broker's directory.
type ourStore struct {
	*offsetslog.Store
	dir *seglog.Dir
}

func openStore(t *testing.T, path string) *ourStore {
	t.Helper()
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{ManualMaintenance: true}))
	require.NoError(t, err)
	s, err := offsetslog.Open(dir, offsetslog.Options{RetentionCheckInterval: -1})
	require.NoError(t, err)
	require.EqualValues(t, offsetsPartitions, s.Partitions())
	require.NoError(t, s.Load(t.Context()))
	return &ourStore{s, dir}
}

func (h *ourStore) close(t *testing.T) {
	t.Helper()
	require.NoError(t, h.Store.Close())
	require.NoError(t, h.dir.Close())
}

// change does all that can be done to groups.
func (h *ourStore) change(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	commit := func(group, topic string, offset int64, metadata string) {
		t.Helper()
		require.NoError(t, h.Commit(ctx, offsetslog.CommitRequest{Group: group, Offsets: []offsetslog.Commit{
			{TopicPartition: partition(topic), Offset: offset, Metadata: metadata},
		}}))
	}
	reset := func(group string, to offsetslog.Target) {
		t.Helper()
		rows, err := h.Reset(ctx, offsetslog.ResetRequest{Group: group, Partitions: []offsetslog.TopicPartition{partition("none")}, To: to, Execute: true})
		require.NoError(t, err)
		require.NoError(t, rows[0].Err)
	}
	commit("ours", "none", 11, "from seglog, naïve ☃")
	commit("ours", "gzip", 2, "")
	reset("movers", offsetslog.ToOffset(3))
	require.NoError(t, h.DeleteGroup(ctx, "shrinking"))
	require.NoError(t, h.DeleteGroup(ctx, "modern"))
	require.NoError(t, h.DeleteOffsets(ctx, "simple", []offsetslog.TopicPartition{partition("gzip")}))
	for _, group := range []string{"members", "modern with a member"} {
		_, err := h.Reset(ctx, offsetslog.ResetRequest{Group: group, To: offsetslog.ToEarliest()})
		require.ErrorIs(t, err, offsetslog.ErrNonEmptyGroup)
		require.NoError(t, h.RemoveMembers(ctx, group))
	}
	reset("members", offsetslog.ToOffset(35))
	commit("modern with a member", "none", 9, "")
	producer := offsetslog.Producer{ID: 9_000_000}
	for i, end := range []seglog.TransactionResult{seglog.Commit, seglog.Abort} {
		require.NoError(t, h.CommitTransactional(ctx, offsetslog.TransactionalCommitRequest{
			Group: "ours in a transaction", Producer: producer,
			Offsets: []offsetslog.Commit{{TopicPartition: partition("none"), Offset: 21 + int64(i)}},
		}))
		require.NoError(t, h.EndTransaction(ctx, "ours in a transaction", producer, end, 0))
	}
}
