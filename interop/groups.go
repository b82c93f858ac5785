package interop

import (
	"context"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupActivity fills __consumer_offsets with what brokers write there: plain
// and repeated commits, commits of a group with members, transactional ones
// that commit and abort, and the tombstones of deleted offsets and groups.
func (f *filler) groupActivity() {
	f.commit("simple", "none", kadm.Offset{At: 5, LeaderEpoch: -1})
	f.commit("simple", "none", kadm.Offset{At: 17, LeaderEpoch: 0, Metadata: "halfway, naïve ☃"})
	f.commit("simple", "gzip", kadm.Offset{At: 3, LeaderEpoch: 0})
	f.commit("shrinking", "none", kadm.Offset{At: 1, LeaderEpoch: 0})
	f.commit("shrinking", "gzip", kadm.Offset{At: 2, LeaderEpoch: 0})
	f.commit("gone", "none", kadm.Offset{At: 9, LeaderEpoch: 0})

	ctx, cancel := f.context()
	defer cancel()
	var shrink kadm.TopicsSet
	shrink.Add("gzip", 0)
	deleted, err := f.admin.DeleteOffsets(ctx, "shrinking", shrink)
	require.NoError(f.tb, err)
	require.NoError(f.tb, deleted.Error())
	_, err = f.admin.DeleteGroup(ctx, "gone")
	require.NoError(f.tb, err)

	f.groupWithMembers(ctx)
	f.transactionalCommits(ctx)
}

func (f *filler) commit(group, topic string, offset kadm.Offset) {
	f.tb.Helper()
	ctx, cancel := f.context()
	defer cancel()
	offset.Topic = topic
	var offsets kadm.Offsets
	offsets.Add(offset)
	require.NoError(f.tb, f.admin.CommitAllOffsets(ctx, group, offsets))
}

// groupWithMembers joins, reads, commits and leaves, in the classic protocol.
func (f *filler) groupWithMembers(ctx context.Context) {
	member := f.connect(
		kgo.ConsumerGroup("members"), kgo.ClientID("interop"), kgo.InstanceID("static-1"),
		kgo.ConsumeTopics("none", "gzip"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	defer member.Close()
	fetches := member.PollRecords(ctx, 20)
	require.NoError(f.tb, fetches.Err())
	require.NoError(f.tb, member.CommitRecords(ctx, fetches.Records()...))
	require.NoError(f.tb, member.LeaveGroupContext(ctx))
}

// transactionalCommits consumes and produces exactly once, and then throws the
// second round away.
func (f *filler) transactionalCommits(ctx context.Context) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.addr),
		kgo.TransactionalID("mover"), kgo.ConsumerGroup("movers"),
		kgo.ConsumeTopics("none"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	require.NoError(f.tb, err)
	defer session.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		fetches := session.PollRecords(ctx, 10)
		require.NoError(f.tb, fetches.Err())
		require.NoError(f.tb, session.Begin())
		_, err := session.End(ctx, end)
		require.NoError(f.tb, err)
	}
}
