package offsetslog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// groupIn is the name of a group that belongs in a partition of 50.
func groupIn(partition int32) string {
	for i := 0; ; i++ {
		if g := fmt.Sprint("g", i); PartitionFor(g, 50) == partition {
			return g
		}
	}
}

// cluster is the directory of one broker of several: it has a third of the partitions,
// and not the last one.
func cluster(t *testing.T) *house {
	h := newHouse(t, quiet)
	for p := range int32(50) {
		if p%3 == 0 {
			h.commit(groupIn(p), orders, int64(p))
		}
	}
	require.NoError(t, h.Store.Close())
	require.NoError(t, h.dir.DeletePartition(Topic, 49))
	return h
}

func TestPartitionsThatAreElsewhere(t *testing.T) {
	h := cluster(t)
	opts := quiet
	_, err := Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)
	require.ErrorContains(t, err, "the last one here is __consumer_offsets-48, and some are missing")
	opts.Partitions = 50
	_, err = Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)
	require.ErrorContains(t, err, "49, as many as there are, or Elsewhere")
	opts.Partitions, opts.Elsewhere = 48, true
	_, err = Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)
	require.ErrorContains(t, err, "there is __consumer_offsets-48")
	opts.Partitions = 0
	_, err = Open(h.dir, opts)
	require.ErrorIs(t, err, seglog.ErrOption)

	opts.Partitions = 50
	h.opts = opts
	h.Store, err = Open(h.dir, opts)
	require.NoError(t, err)
	require.NoError(t, h.Load(ctx))
	groups, err := h.Groups(ctx)
	require.NoError(t, err)
	require.Len(t, groups, 17)
	h.commit(groupIn(48), orders, 1000)
	_, err = h.Expire(ctx)
	require.NoError(t, err)
	require.NoError(t, h.PartitionsDeleted(ctx, []TopicPartition{{"other", 0}}))

	here := len(h.dir.Partitions())
	for _, p := range []int32{1, 49} {
		require.ErrorIs(t, h.Commit(ctx, simple(groupIn(p), orders, 1)), ErrNotCoordinator)
		_, err = h.Fetch(ctx, FetchRequest{Group: groupIn(p)})
		require.ErrorIs(t, err, ErrNotCoordinator, "not that there is no offset")
		require.ErrorContains(t, err, fmt.Sprintf("%s-%d: the partition is not in this directory", Topic, p))
	}
	require.Len(t, h.dir.Partitions(), here, "a broker would take what is made here for a stray")
	h.reopen()
	require.EqualValues(t, 1000, h.at(groupIn(48), orders))
}

func TestWrongNumberOfPartitionsIsNoticed(t *testing.T) {
	h := cluster(t)
	opts := quiet
	opts.Partitions = 49 // as many as it looks like
	s, err := Open(h.dir, opts)
	require.NoError(t, err)
	h.Store = s
	var misplaced *MisplacedError
	require.ErrorAs(t, s.Load(ctx), &misplaced)
	require.EqualValues(t, 49, misplaced.Partitions)
	require.Equal(t, 1, misplaced.Misplaced)
	ro, err := OpenReadOnly(h.dir, 49, quiet)
	require.NoError(t, err)
	_, err = ro.Groups(ctx)
	require.ErrorAs(t, err, &misplaced)
	require.ErrorContains(t, err, "__consumer_offsets does not have 49 partitions")
	require.NoError(t, ro.Close())

	// a group that somebody has put in the wrong place does not cost the others
	opts.Partitions, opts.Elsewhere = 50, true
	require.NoError(t, s.Close())
	h.Store, err = Open(h.dir, opts)
	require.NoError(t, err)
	log, err := h.dir.Partition(Topic, 48)
	require.NoError(t, err)
	_, err = log.Append([]seglog.Record{commitRecord(groupIn(3), orders, 1)}, nil)
	require.NoError(t, err)
	for i, n := 0, 0; n < 3; i++ {
		if g := fmt.Sprint("more", i); PartitionFor(g, 50) == 48 {
			_, err = log.Append([]seglog.Record{commitRecord(g, orders, 1)}, nil)
			require.NoError(t, err)
			n++
		}
	}
	require.NoError(t, h.Load(ctx))
	require.EqualValues(t, 48, h.at(groupIn(48), orders))
}

// Each row is a log with so many groups, some of which belong elsewhere.
func TestAQuarterOfTheGroupsMayBeMisplaced(t *testing.T) {
	for _, tt := range []struct {
		groups, misplaced int
		refused           bool
	}{{1, 0, false}, {1, 1, true}, {3, 1, true}, {4, 1, false}, {5, 2, true}, {8, 2, false}, {8, 3, true}} {
		h := newHouse(t, quiet)
		var records []seglog.Record
		right, wrong := tt.groups-tt.misplaced, tt.misplaced
		for i := 0; right+wrong > 0; i++ {
			n := &wrong
			if PartitionFor(fmt.Sprint(i), 50) == 3 {
				n = &right
			}
			if *n > 0 {
				*n--
				records = append(records, commitRecord(fmt.Sprint(i), orders, 1))
			}
		}
		log, err := h.dir.CreatePartition(Topic, 3, nil)
		require.NoError(t, err)
		_, err = log.Append(records, nil)
		require.NoError(t, err)
		h.reopen()
		var misplaced *MisplacedError
		if err := h.Load(ctx); tt.refused {
			require.ErrorAs(t, err, &misplaced)
			require.Equal(t, tt.misplaced, misplaced.Misplaced)
		} else {
			require.NoError(t, err)
		}
	}
}

func modernRecord(kind KeyType, group, member string, value []byte) seglog.Record {
	return seglog.Record{Key: Key{Type: kind, Group: group, Member: member, Regex: member}.Append(nil), Value: value}
}

// A broker takes a log for unreadable in which a member goes before what it has been
// assigned, or a group before its members.
func TestGroupsGoInTheOrderThatABrokerWants(t *testing.T) {
	v := []byte{0, 0, 0, 0, 0, 9, 0}
	for _, tt := range []struct {
		kind  GroupType
		keys  []KeyType // as they are written when a group comes up
		order []KeyType
		gone  []KeyType // with the members
	}{
		{
			ConsumerGroup, []KeyType{3, 5, 16, 4, 6, 7, 8},
			[]KeyType{16, 8, 7, 6, 5, 4, 3}, []KeyType{16, 8, 7, 5},
		},
		{ShareGroup, []KeyType{11, 10, 15, 12, 13, 14}, []KeyType{15, 14, 13, 12, 10, 11}, []KeyType{14, 13, 10}},
		{StreamsGroup, []KeyType{17, 19, 23, 20, 21, 22}, []KeyType{23, 22, 21, 20, 19, 17}, []KeyType{22, 21, 19}},
	} {
		t.Run(tt.kind.String(), func(t *testing.T) {
			opts := quiet
			opts.Partitions = 1
			h := newHouse(t, opts)
			for _, k := range tt.keys {
				h.raw("g", modernRecord(k, "g", "m", v))
			}
			h.raw("g", commitRecord("g", orders, 5))
			h.reopen()
			d, err := h.DescribeGroup(ctx, "g")
			require.NoError(t, err)
			require.Equal(t, tt.kind, d.Type)
			require.Equal(t, Stable, d.State)
			require.Equal(t, []MemberDescription{{ID: "m"}}, d.Members)
			_, err = h.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest()})
			require.ErrorIs(t, err, ErrNonEmptyGroup)

			from := h.end("g")
			require.NoError(t, h.RemoveMembers(ctx, "g"))
			require.Equal(t, tt.gone, h.removedSince(from))
			h.reopen()
			d, err = h.DescribeGroup(ctx, "g")
			require.NoError(t, err)
			require.Equal(t, Empty, d.State)
			require.Equal(t, tt.kind, d.Type)
			h.commit("g", orders, 6)
			from = h.end("g")
			require.NoError(t, h.DeleteGroup(ctx, "g"))
			left := slices.DeleteFunc(slices.Clone(tt.order), func(k KeyType) bool { return slices.Contains(tt.gone, k) })
			require.Equal(t, append([]KeyType{OffsetKey}, left...), h.removedSince(from))
			h.reopen()
			require.ErrorIs(t, h.RemoveMembers(ctx, "g"), ErrGroupNotFound)
		})
	}
}

// removedSince lists the kinds of the records in partition 0 from an offset on, which
// are all tombstones.
func (h *house) removedSince(offset int64) (kinds []KeyType) {
	h.t.Helper()
	log, err := h.dir.Partition(Topic, 0)
	require.NoError(h.t, err)
	for r, err := range log.Records(ctx, offset, nil) {
		require.NoError(h.t, err)
		require.Nil(h.t, r.Value)
		k, err := ParseKey(r.Key)
		require.NoError(h.t, err)
		kinds = append(kinds, k.Type)
	}
	return kinds
}

func TestMembersThatAreGoneAreRemoved(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 10)
	m := h.stable("g", "orders")
	r := simple("g", orders, 4)
	r.Member = &m
	require.NoError(t, h.Commit(ctx, r))
	h.reopen() // the broker of the member has stopped, and we have its log
	_, err := h.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest(), Execute: true})
	require.ErrorIs(t, err, ErrNonEmptyGroup)
	require.ErrorIs(t, h.DeleteOffsets(ctx, "g", nil), nil)
	require.ErrorIs(t, h.RemoveMembers(ctx, "nobody"), ErrGroupNotFound)

	require.NoError(t, h.RemoveMembers(ctx, "g"))
	end := h.end("g")
	require.NoError(t, h.RemoveMembers(ctx, "g"))
	require.Equal(t, end, h.end("g"), "once is enough")
	for range 2 {
		d, err := h.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, Empty, d.State)
		require.Equal(t, ConsumerProtocol, d.ProtocolType)
		require.Equal(t, m.Generation+1, d.Generation)
		h.reopen()
	}
	require.ErrorIs(t, h.Commit(ctx, r), ErrUnknownMember, "who is there after all learns of it")
	rows, err := h.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest(), Execute: true})
	require.NoError(t, err)
	require.EqualValues(t, 0, rows[0].Offset)
	require.EqualValues(t, 0, h.at("g", orders))
	again := h.stable("g", "orders")
	require.Equal(t, m.Generation+2, again.Generation)
}

func TestMembersOfABrokerThatHasStoppedAreNotShown(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 10)
	h.stable("classic", "orders")
	h.raw("modern", modernRecord(ConsumerGroupKey, "modern", "", []byte{0, 0, 0, 0, 0, 1, 0}), modernRecord(ConsumerGroupMemberKey, "modern", "m", []byte{0, 0}),
		commitRecord("modern", orders, 4))
	for gone, want := range map[bool]State{false: Stable, true: Empty} {
		opts := quiet
		opts.MembersGone = gone
		s, err := OpenReadOnly(h.dir, 50, opts)
		require.NoError(t, err)
		groups, err := s.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, groups, 2)
		for _, g := range groups {
			require.Equal(t, want, g.State, g.Group)
			require.Equal(t, gone, g.MemberCount == 0, g.Group)
		}
		_, err = s.Reset(ctx, ResetRequest{Group: "modern", To: ToLatest()})
		require.Equal(t, gone, err == nil)
		require.ErrorIs(t, s.RemoveMembers(ctx, "modern"), seglog.ErrReadOnly)
		require.NoError(t, s.Close())
	}
}
