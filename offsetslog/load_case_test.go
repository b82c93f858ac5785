package offsetslog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// raw appends records to the log of a group's partition, as somebody else would, before
// the store looks at it.
func (h *house) raw(group string, records ...seglog.Record) {
	h.t.Helper()
	n := PartitionFor(group, h.Partitions())
	log, err := h.dir.Partition(Topic, n)
	if err != nil {
		log, err = h.dir.CreatePartition(Topic, n, nil)
	}
	require.NoError(h.t, err)
	for _, r := range records {
		_, err := log.Append([]seglog.Record{r}, nil)
		require.NoError(h.t, err)
	}
}

func commitRecord(group string, tp TopicPartition, offset int64) seglog.Record {
	return seglog.Record{
		Key:   Key{Type: OffsetKey, Group: group, TopicPartition: tp}.Append(nil),
		Value: Committed{Offset: offset, LeaderEpoch: -1, ExpireTimestamp: -1}.AppendValue(nil),
	}
}

func groupRecord(group string, v GroupValue) seglog.Record {
	return seglog.Record{Key: Key{Type: GroupKey, Group: group}.Append(nil), Value: v.AppendValue(nil)}
}

// K075, rows 394 and 395
func TestTombstonesRemove(t *testing.T) {
	h := newHouse(t, quiet)
	committed := commitRecord("g", orders, 5)
	gone, empty := committed, committed
	gone.Value, empty.Value = nil, []byte{}
	h.raw("g", committed, gone)
	h.raw("x", commitRecord("x", orders, 5), seglog.Record{Key: Key{Type: OffsetKey, Group: "x", TopicPartition: orders}.Append(nil), Value: []byte{}})
	h.raw("y", seglog.Record{Key: commitRecord("y", orders, 0).Key}, commitRecord("y", orders, 6))
	h.raw("z", groupRecord("z", GroupValue{ProtocolType: "consumer"}), seglog.Record{Key: Key{Type: GroupKey, Group: "z"}.Append(nil)})
	h.reopen()
	require.EqualValues(t, -1, h.at("g", orders))
	require.EqualValues(t, 5, h.at("x", orders), "an empty value is none, and no tombstone")
	require.EqualValues(t, 6, h.at("y", orders))
	_, err := h.DescribeGroup(ctx, "z")
	require.ErrorIs(t, err, ErrGroupNotFound)
	st := h.Stats()
	require.Equal(t, 1, st.Undecodable)
	require.ErrorIs(t, st.Problems[0], ErrUndecodable)
}

// A record of the older key outlives the tombstone of the newer one in compaction.
func TestOffsetOfTheOlderKeyIsRemovedByItsOwnTombstone(t *testing.T) {
	h := newHouse(t, quiet)
	old := commitRecord("g", orders, 5)
	old.Key = Key{Type: OffsetKeyV0, Group: "g", TopicPartition: orders}.Append(nil)
	h.raw("g", old)
	h.reopen()
	require.EqualValues(t, 5, h.at("g", orders))
	h.commit("g", orders, 6)
	end := h.end("g")
	require.NoError(t, h.DeleteOffsets(ctx, "g", []TopicPartition{orders}))
	require.Equal(t, end+2, h.end("g"))
}

// K077, row 393
func TestUnknownKindsOfRecordsArePassedOver(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	h := newHouse(t, opts)
	for kind := KeyType(3); kind <= 24; kind++ {
		key := binary.BigEndian.AppendUint16(nil, uint16(kind))
		if kind.Known() {
			key = Key{Type: kind, Group: "modern", Member: "m"}.Append(nil)
		}
		h.raw("g", seglog.Record{Key: key, Value: []byte{0, 0, 0, 0, 0, 1}})
	}
	for _, kind := range []int16{99, -1} {
		h.raw("g", seglog.Record{Key: binary.BigEndian.AppendUint16(nil, uint16(kind)), Value: []byte("?")})
	}
	h.raw("g", seglog.Record{Key: []byte{0}, Value: []byte("?")},
		seglog.Record{Key: Key{Type: GroupKey, Group: "g"}.Append(nil), Value: []byte("members that do not parse")},
		commitRecord("g", orders, 5),
		seglog.Record{Key: commitRecord("g", orders, 0).Key, Value: []byte{0, 9, 1, 2, 3}})
	h.reopen()
	require.NoError(t, h.Load(ctx))
	require.EqualValues(t, 5, h.at("g", orders))
	st := h.Stats()
	require.Equal(t, 3, st.Undecodable)
	for kind := KeyType(3); kind <= 24; kind++ {
		require.EqualValues(t, 1, st.Skipped[kind], kind)
	}
	require.EqualValues(t, 1, st.Skipped[99])
	require.EqualValues(t, 1, st.Skipped[-1])
}

// Rows 371 and 372
func TestGroupsOfTheNewProtocolAreLeftToTheirBroker(t *testing.T) {
	h := newHouse(t, quiet)
	epoch := func(n byte) []byte { return []byte{0, 0, 0, 0, 0, n, 0} }
	rec := func(kind KeyType, value []byte) seglog.Record {
		return seglog.Record{Key: Key{Type: kind, Group: "g", Member: "m"}.Append(nil), Value: value}
	}
	h.raw("g", rec(ConsumerGroupKey, epoch(10)), rec(ConsumerGroupMemberKey, []byte{0, 0}),
		rec(ConsumerGroupCurrentAssignmentKey, epoch(10)), commitRecord("g", orders, 5))
	h.reopen()
	r := simple("g", orders, 6)
	for _, tt := range []struct {
		who  *Member
		want error
	}{
		{nil, ErrUnknownMember}, {&Member{"x", "", 10}, ErrUnknownMember},
		{&Member{"m", "", 9}, ErrStaleMemberEpoch}, {&Member{"m", "", 10}, nil},
	} {
		r.Member = tt.who
		require.ErrorIs(t, h.Commit(ctx, r), tt.want)
	}
	err := h.CommitTransactional(ctx, TransactionalCommitRequest{Group: "g", Member: &Member{"m", "", 9}, Producer: Producer{1, 0}, Offsets: r.Offsets})
	require.ErrorIs(t, err, ErrIllegalGeneration)
	require.ErrorIs(t, h.DeleteGroup(ctx, "g"), ErrNonEmptyGroup)
	_, err = h.JoinGroup(ctx, JoinRequest{Group: "g", Protocols: consumer("t")})
	require.ErrorIs(t, err, ErrInconsistentProtocol)
	_, err = h.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest()})
	require.ErrorIs(t, err, ErrNonEmptyGroup)

	h.raw("g", rec(ConsumerGroupMemberKey, nil), rec(ConsumerGroupCurrentAssignmentKey, nil))
	h.reopen()
	h.commit("g", orders, 7)
	require.NoError(t, h.DeleteGroup(ctx, "g"))
	h.reopen()
	_, err = h.DescribeGroup(ctx, "g")
	require.ErrorIs(t, err, ErrGroupNotFound)
}

// K085: after compaction anything may be first.
func TestOrderOfLoadedRecordsDoesNotMatter(t *testing.T) {
	load := func(records ...seglog.Record) []GroupListing {
		h := newHouse(t, quiet)
		h.raw("g", records...)
		h.reopen()
		groups, err := h.Groups(ctx)
		require.NoError(t, err)
		require.Zero(t, h.Stats().Undecodable)
		return groups
	}
	nobody := seglog.Record{Key: commitRecord("other", orders, 0).Key}
	noGroup := seglog.Record{Key: Key{Type: GroupKey, Group: "other"}.Append(nil)}
	require.Empty(t, load(nobody, noGroup, nobody))
	want := []GroupListing{{Group: "g", ProtocolType: "consumer", Offsets: 1}}
	value := groupRecord("g", GroupValue{ProtocolType: "consumer", StateTimestamp: 1})
	require.Equal(t, want, load(value, commitRecord("g", orders, 1)))
	require.Equal(t, want, load(commitRecord("g", orders, 1), value))
	ended := seglog.Record{Key: value.Key}
	want[0].ProtocolType = ""
	require.Equal(t, want, load(value, ended, commitRecord("g", orders, 1)))
	require.Equal(t, want, load(commitRecord("g", orders, 1), value, ended), "the same as without the tombstone's victims")
	require.Equal(t, want, load(commitRecord("g", orders, 1)))
}

// K086: what is left at the end need not be records.
func TestLoadEndsBehindTheLastRecords(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	h := newHouse(t, opts)
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(t, err)
	r := commitRecord("g", orders, 5)
	batch := func(base, last int64, opts record.BuilderOptions, recs ...record.Record) []byte {
		b := record.NewBuilder(opts)
		for _, r := range recs {
			require.NoError(t, b.AppendAt(base, r))
		}
		require.NoError(t, b.SetLastOffset(last))
		raw, err := b.Build()
		require.NoError(t, err)
		return bytes.Clone(raw)
	}
	_, err = log.AppendReplicated(batch(3, 90, record.BuilderOptions{BaseOffset: 3}, record.Record{Key: r.Key, Value: r.Value}), nil)
	require.NoError(t, err)
	_, err = log.EndTransaction(seglog.Producer{ID: 1}, seglog.Abort, nil)
	require.NoError(t, err)
	_, err = log.AppendReplicated(batch(100, 110, record.BuilderOptions{BaseOffset: 100}, record.Record{Key: r.Key}), nil)
	require.NoError(t, err)
	_, err = log.Roll()
	require.NoError(t, err)
	h.reopen()
	require.NoError(t, h.Load(ctx))
	require.EqualValues(t, -1, h.at("g", orders))
	h.commit("g", orders, 9)
	h.reopen()
	require.EqualValues(t, 9, h.at("g", orders))
}

// K087
func TestRecordOfAnySizeIsLoaded(t *testing.T) {
	h := newHouse(t, quiet)
	h.close()
	h.dirs.Log.MaxMessageBytes = 16 << 20
	h.open()
	h.raw("g", groupRecord("g", GroupValue{ProtocolType: "consumer", Members: []MemberValue{{
		ID: "m", SessionTimeout: 45000, Subscription: make([]byte, 6<<20),
	}}}), commitRecord("g", orders, 5))
	h.reopen()
	require.EqualValues(t, 5, h.at("g", orders))
	require.Zero(t, h.Stats().Undecodable)
}

func TestDamageIsPassedOverAndCounted(t *testing.T) {
	opts := quiet
	opts.Partitions = 1
	h := newHouseOnDisk(t, opts)
	for i := range int64(5) {
		h.commit("g", TopicPartition{"t", int32(i)}, i)
	}
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(t, err)
	_, err = log.Roll()
	require.NoError(t, err)
	h.close()
	path := filepath.Join(h.path, Topic+"-0", "00000000000000000000.log")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[2*len(b)/5+80] ^= 1 // in the third batch
	require.NoError(t, os.WriteFile(path, b, 0o644))
	h.open()
	require.NoError(t, h.Load(ctx))
	require.Equal(t, 1, h.Stats().Damaged)
	require.ErrorIs(t, h.Stats().Problems[0], seglog.ErrCorrupt)
	for i, want := range []int64{0, 1, -1, 3, 4} {
		require.Equal(t, want, h.at("g", TopicPartition{"t", int32(i)}))
	}
}

func TestLoadingIsToldToOthers(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 1)
	h.reopen()
	p := h.partitions[PartitionFor("g", h.Partitions())]
	p.loading.Lock()
	err := h.Commit(ctx, simple("g", orders, 1))
	require.ErrorIs(t, err, ErrLoading)
	require.EqualValues(t, 14, KafkaErrorOf(err).Code)
	require.True(t, ErrLoading.Retriable())
	_, err = h.Fetch(ctx, FetchRequest{Group: "g"})
	require.ErrorIs(t, err, ErrLoading)
	p.loading.Unlock()
	h.commit("g", orders, 1)
}

func TestTopicIsNotOpenedWithRetention(t *testing.T) {
	for name, opts := range map[string]seglog.DirOptions{
		"defaults":           {},
		"compact and delete": {Log: seglog.Options{CleanupPolicy: seglog.CleanupCompactDelete}},
	} {
		dir, err := seglog.OpenDir(t.TempDir(), opts)
		require.NoError(t, err)
		_, err = Open(dir, quiet)
		require.ErrorIs(t, err, seglog.ErrOption, name)
		require.NoError(t, dir.Close())
	}
	own := seglog.DirOptions{Topics: map[string]seglog.Options{Topic: {CleanupPolicy: seglog.CleanupCompact, SegmentBytes: 1 << 20}, "t": {}}}
	require.Equal(t, own, Configure(own), "settings that are there are kept")
}

func TestDirThatIsReadOnlyIsLookedAt(t *testing.T) {
	h := newHouseOnDisk(t, quiet)
	h.commit("g", orders, 5)
	h.close()
	dir, err := seglog.OpenDir(h.path, Configure(seglog.DirOptions{ReadOnly: true}))
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	_, err = Open(dir, quiet)
	require.ErrorIs(t, err, seglog.ErrReadOnly)
	s, err := OpenReadOnly(dir, 50, quiet)
	require.NoError(t, err)
	f, err := s.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	require.EqualValues(t, 5, f[0].Offset)
	require.NoError(t, s.Close())
}

func TestNumberOfPartitionsStays(t *testing.T) {
	h := newHouse(t, quiet)
	require.EqualValues(t, 50, h.Partitions())
	h.commit("g", orders, 1)
	require.NoError(t, h.Store.Close())
	opts := quiet
	opts.Partitions = 10
	_, err := Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)
	require.True(t, strings.Contains(err.Error(), "50"), err)
	opts.Partitions = -1
	_, err = Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)
	h.Store, err = Open(h.dir, quiet)
	require.NoError(t, err)
	require.EqualValues(t, 50, h.Partitions())
	require.EqualValues(t, 1, h.at("g", orders))
}

func TestClosedStore(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 1)
	require.NoError(t, h.Store.Close())
	require.NoError(t, h.Store.Close())
	require.ErrorIs(t, h.Commit(ctx, simple("g", orders, 1)), ErrNotAvailable)
	_, err := h.Fetch(ctx, FetchRequest{Group: "g"})
	require.ErrorIs(t, err, ErrNotAvailable)
}

// readOnlyLogs finds the logs of a directory that somebody else writes to.
type readOnlyLogs struct {
	t    *testing.T
	path string
}

func (l readOnlyLogs) Partition(topic string, n int32) (*seglog.Log, error) {
	log, err := seglog.Open(filepath.Join(l.path, TopicPartition{topic, n}.String()), seglog.Options{ReadOnly: true})
	if errors.Is(err, seglog.ErrNotALog) || errors.Is(err, os.ErrNotExist) {
		return nil, seglog.ErrNoPartition
	}
	if err == nil {
		l.t.Cleanup(func() { require.NoError(l.t, log.Close()) })
	}
	return log, err
}

// K095 and K096 for offsets: a look beside the one who writes, which leaves no trace.
func TestLookBesideTheWriter(t *testing.T) {
	h := newHouseOnDisk(t, quiet)
	h.topic(orders, 10)
	h.commit("g", orders, 4)
	h.stable("members", "t")
	h.pending("g", Producer{1, 0}, TopicPartition{"t", 0}, 4)
	before := filesOf(t, h.path)
	s, err := OpenReadOnly(readOnlyLogs{t, h.path}, 50, quiet)
	require.NoError(t, err)
	lags, err := s.Lags(ctx, "g")
	require.NoError(t, err)
	require.Len(t, lags, 1)
	require.EqualValues(t, 6, lags[0].Lag)
	groups, err := s.Groups(ctx)
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, Stable, groups[1].State)
	rows, err := s.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest()})
	require.NoError(t, err)
	require.EqualValues(t, 0, rows[0].Offset)

	_, reset := s.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest(), Execute: true})
	_, join := s.JoinGroup(ctx, JoinRequest{Group: "g", Protocols: consumer("t")})
	for name, err := range map[string]error{
		"commit": s.Commit(ctx, simple("g", orders, 5)), "reset": reset, "join": join,
		"delete offsets": s.DeleteOffsets(ctx, "g", []TopicPartition{orders}), "delete group": s.DeleteGroup(ctx, "g"),
		"end transaction":    s.EndTransaction(ctx, "g", Producer{1, 0}, seglog.Commit, 0),
		"leave":              s.LeaveGroup(ctx, "members", Member{ID: groups[1].Group}),
		"partitions deleted": s.PartitionsDeleted(ctx, []TopicPartition{orders}),
	} {
		require.ErrorIs(t, err, seglog.ErrReadOnly, name)
		require.ErrorIs(t, err, ErrNotCoordinator, name)
	}
	require.NoError(t, s.Close())
	require.Equal(t, before, filesOf(t, h.path))
	h.commit("g", orders, 5)
	_, err = OpenReadOnly(h.dir, 0, quiet)
	require.ErrorIs(t, err, seglog.ErrOption)
}

// filesOf is what is in the files of a directory.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(p) == ".lock" {
			return err
		}
		b, err := os.ReadFile(p)
		files[p] = string(b)
		return err
	}))
	return files
}

// What somebody else has appended and not synced is on disk before it is shown.
func TestLoadSyncsWhatItShows(t *testing.T) {
	for policy, synced := range map[seglog.SyncPolicy]bool{seglog.SyncAlways: true, seglog.SyncNever: false} {
		h := newHouse(t, quiet)
		log, err := h.dir.CreatePartition(Topic, PartitionFor("g", 50), nil)
		require.NoError(t, err)
		never := seglog.SyncNever
		_, err = log.Append([]seglog.Record{commitRecord("g", orders, 5)}, &seglog.AppendOptions{Sync: &never})
		require.NoError(t, err)
		require.NoError(t, h.Store.Close())
		opts := quiet
		opts.Sync = policy
		h.Store, err = Open(h.dir, opts)
		require.NoError(t, err)
		require.EqualValues(t, 5, h.at("g", orders))
		require.Equal(t, synced, log.Offsets().Durable == log.Offsets().End)
	}
}
