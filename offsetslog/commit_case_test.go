package offsetslog

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCommitIsServedAndSurvivesRestart(t *testing.T) {
	h := newHouseOnDisk(t, quiet)
	require.EqualValues(t, -1, h.at("g", orders))
	before := time.Now().UnixMilli()
	require.NoError(t, h.Commit(ctx, CommitRequest{Group: "g", Offsets: []Commit{
		{TopicPartition: orders, Offset: 0, LeaderEpoch: 7, Metadata: "naïve ☃"},
		{TopicPartition: TopicPartition{"orders", 1}, Offset: 5, LeaderEpoch: -1, TopicID: [16]byte{1, 2}},
	}}))
	for range 2 {
		all, err := h.Fetch(ctx, FetchRequest{Group: "g"})
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, orders, all[0].TopicPartition)
		require.EqualValues(t, 0, all[0].Offset)
		require.EqualValues(t, 7, all[0].LeaderEpoch)
		require.Equal(t, "naïve ☃", all[0].Metadata)
		require.GreaterOrEqual(t, all[0].CommitTimestamp, before)
		require.EqualValues(t, -1, all[0].ExpireTimestamp)
		require.Equal(t, [16]byte{1, 2}, all[1].TopicID)
		require.EqualValues(t, -1, all[1].LeaderEpoch)
		h.reopen()
	}
}

// K082, row 375: no offset is not offset 0.
func TestNoOffsetIsToldFromZero(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 0)
	for name, f := range map[string]Fetched{
		"unknown group":    h.fetch("other", orders, false),
		"another topic":    h.fetch("g", TopicPartition{"other", 0}, false),
		"another one":      h.fetch("g", TopicPartition{"orders", 1}, true),
		"the empty group":  h.fetch("", orders, false),
		"a negative index": h.fetch("g", TopicPartition{"orders", -1}, false),
	} {
		require.EqualValues(t, -1, f.Offset, name)
		require.EqualValues(t, -1, f.LeaderEpoch, name)
		require.Empty(t, f.Metadata, name)
		require.NoError(t, f.Err, name)
	}
	require.EqualValues(t, 0, h.at("g", orders))
}

// Row 373
func TestRefusedOffsetsDoNotKeepOthersBack(t *testing.T) {
	h := newHouse(t, quiet)
	other := func(n int32) TopicPartition { return TopicPartition{"t", n} }
	err := h.Commit(ctx, CommitRequest{Group: "g", Offsets: []Commit{
		{TopicPartition: other(0), Offset: 1, Metadata: strings.Repeat("é", 4096)},
		{TopicPartition: other(1), Offset: 1, Metadata: strings.Repeat("é", 4097)},
		{TopicPartition: other(2), Offset: 1, Metadata: strings.Repeat("😀", 2049)},
		{TopicPartition: other(3), Offset: -1},
		{TopicPartition: TopicPartition{"", 0}, Offset: 1},
		{TopicPartition: TopicPartition{strings.Repeat("t", 250), 0}, Offset: 1},
		{TopicPartition: TopicPartition{"t", -1}, Offset: 1},
		{TopicPartition: other(4), Offset: 1},
	}})
	var refused *PartitionsError
	require.ErrorAs(t, err, &refused)
	var codes []int16
	for _, p := range refused.Partitions {
		codes = append(codes, KafkaErrorOf(p.Err).Code)
	}
	require.Equal(t, []int16{12, 12, 42, 17, 17, 42}, codes)
	require.ErrorIs(t, err, ErrMetadataTooLarge)
	require.EqualValues(t, 1, h.at("g", other(0)))
	require.EqualValues(t, 1, h.at("g", other(4)))
	require.EqualValues(t, -1, h.at("g", other(1)))
}

// Rows 360 to 369, K088
func TestWhoMayCommit(t *testing.T) {
	as := func(id, instance string, generation int32) *Member { return &Member{id, instance, generation} }
	group := func(state State) *classic {
		c := newClassic()
		c.state, c.generation, c.protocolType = state, 7, ConsumerProtocol
		if state != Empty {
			c.add(&member{id: "m", sessionTimeout: time.Hour})
			c.add(&member{id: "s", instanceID: "i", sessionTimeout: time.Hour})
		}
		return c
	}
	for name, tt := range map[string]struct {
		group         *classic
		who           *Member
		version       int16
		want          Error // 0 is accepted
		transactional Error
	}{
		"unknown group, no member":              {nil, nil, 0, 0, 0},
		"unknown group, instance id":            {nil, as("", "i", -1), 0, 0, 0},
		"unknown group, generation, version 9":  {nil, as("", "", 10), 9, ErrGroupNotFound, ErrIllegalGeneration},
		"unknown group, generation, version 8":  {nil, as("", "", 10), 8, ErrIllegalGeneration, ErrIllegalGeneration},
		"dead":                                  {group(Dead), nil, 0, ErrNotAvailable, ErrNotAvailable},
		"empty, no member":                      {group(Empty), nil, 0, 0, 0},
		"empty, any member, no generation":      {group(Empty), as("x", "", -1), 0, 0, 0},
		"empty, generation":                     {group(Empty), as("m", "", 7), 0, ErrUnknownMember, ErrUnknownMember},
		"stable, no member":                     {group(Stable), nil, 0, ErrUnknownMember, 0},
		"stable, member":                        {group(Stable), as("m", "", 7), 0, 0, 0},
		"stable, unknown member":                {group(Stable), as("x", "", 7), 0, ErrUnknownMember, ErrUnknownMember},
		"stable, earlier generation":            {group(Stable), as("m", "", 6), 0, ErrIllegalGeneration, ErrIllegalGeneration},
		"stable, later generation":              {group(Stable), as("m", "", 8), 0, ErrIllegalGeneration, ErrIllegalGeneration},
		"stable, member without generation":     {group(Stable), as("m", "", -1), 0, ErrIllegalGeneration, ErrIllegalGeneration},
		"stable, static member":                 {group(Stable), as("s", "i", 7), 0, 0, 0},
		"stable, unknown instance":              {group(Stable), as("s", "x", 7), 0, ErrUnknownMember, ErrUnknownMember},
		"stable, fenced instance":               {group(Stable), as("old", "i", 7), 0, ErrFencedInstance, ErrFencedInstance},
		"preparing, member":                     {group(PreparingRebalance), as("m", "", 7), 0, 0, 0},
		"completing, member":                    {group(CompletingRebalance), as("m", "", 7), 0, ErrRebalancing, 0},
		"completing, member of other times":     {group(CompletingRebalance), as("m", "", 6), 0, ErrIllegalGeneration, ErrIllegalGeneration},
		"completing, no member":                 {group(CompletingRebalance), nil, 0, ErrUnknownMember, 0},
		"preparing, no member":                  {group(PreparingRebalance), nil, 0, ErrUnknownMember, 0},
		"completing, unknown member":            {group(CompletingRebalance), as("x", "", 7), 0, ErrUnknownMember, ErrUnknownMember},
		"completing, instance of another":       {group(CompletingRebalance), as("m", "i", 7), 0, ErrFencedInstance, ErrFencedInstance},
		"preparing, member of other times":      {group(PreparingRebalance), as("m", "", 8), 0, ErrIllegalGeneration, ErrIllegalGeneration},
		"preparing, static member":              {group(PreparingRebalance), as("s", "i", 7), 0, 0, 0},
		"simple group, instance and generation": {nil, as("", "i", 0), 0, ErrGroupNotFound, ErrIllegalGeneration},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, quiet)
			p := h.partitions[PartitionFor("g", h.Partitions())]
			require.NoError(t, p.ready(ctx, true))
			if tt.group != nil {
				p.mu.group([]byte("g")).classic = tt.group
			}
			r := simple("g", orders, 5)
			r.Member, r.Version = tt.who, tt.version
			err := h.Commit(ctx, r)
			require.EqualValues(t, tt.want, KafkaErrorOf(err).Code)
			if err != nil {
				require.Zero(t, h.end("g"), "nothing is written")
			}
			err = h.CommitTransactional(ctx, TransactionalCommitRequest{Group: "g", Member: tt.who, Producer: Producer{1, 0}, Offsets: r.Offsets})
			if tt.group == nil && tt.want == 0 {
				require.NoError(t, err) // the group is there now
				return
			}
			require.EqualValues(t, tt.transactional, KafkaErrorOf(err).Code)
		})
	}
}

// Row 368: a commit of an old client says when it expires.
func TestRetentionTimeOfOldClients(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		r := simple("g", orders, 5)
		r.Retention = 1234 * time.Millisecond
		require.NoError(t, h.Commit(ctx, r))
		f := h.fetch("g", orders, false)
		require.Equal(t, time.Now().UnixMilli()+1234, f.ExpireTimestamp)
		sleep(1233 * time.Millisecond)
		n, err := h.Expire(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		sleep(time.Millisecond)
		n, err = h.Expire(ctx)
		require.NoError(t, err)
		require.Equal(t, Expired{1, 1}, n)
		require.EqualValues(t, -1, h.at("g", orders))
	})
}

func TestGroupIDs(t *testing.T) {
	h := newHouse(t, quiet)
	long := strings.Repeat("g", 32768)
	require.ErrorIs(t, h.Commit(ctx, simple(long, orders, 1)), ErrInvalidGroupID)
	h.commit(long[1:], orders, 1)
	h.commit("", orders, 2)
	h.reopen()
	require.EqualValues(t, 1, h.at(long[1:], orders))
	require.EqualValues(t, 2, h.at("", orders))
	require.ErrorIs(t, h.CommitTransactional(ctx, TransactionalCommitRequest{Producer: Producer{1, 1}}), ErrInvalidGroupID)
	_, err := h.JoinGroup(ctx, JoinRequest{Protocols: consumer("t")})
	require.ErrorIs(t, err, ErrInvalidGroupID)
}

func TestAuthorizeIsAskedFirst(t *testing.T) {
	opts := quiet
	opts.Authorize = func(op Operation, group string) error {
		if group == "secret" && op != Describe {
			return notAllowed("not yours")
		}
		return nil
	}
	h := newHouse(t, opts)
	require.Equal(t, int16(30), KafkaErrorOf(h.Commit(ctx, simple("secret", orders, -1))).Code)
	require.ErrorIs(t, h.DeleteGroup(ctx, "secret"), ErrGroupAuthorization)
	require.EqualValues(t, -1, h.at("secret", orders))
	h.commit("open", orders, 1)
}

type notAllowed string

func (e notAllowed) Error() string { return string(e) }

// Row 375: a group that is going away has committed nothing.
func TestDeadGroupHasNoOffsets(t *testing.T) {
	h := newHouse(t, quiet)
	h.commit("g", orders, 5)
	p := h.partitions[PartitionFor("g", h.Partitions())]
	p.mu.groups["g"].classic = newClassic()
	p.mu.groups["g"].classic.state = Dead
	require.Equal(t, Fetched{TopicPartition: orders, Committed: none}, h.fetch("g", orders, true))
	all, err := h.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	require.Empty(t, all)
}

// K088: to go back is legal for who is a member.
func TestMemberMayCommitALowerOffset(t *testing.T) {
	h := newHouse(t, quiet)
	m := h.stable("g", "orders")
	for _, offset := range []int64{5, 3} {
		r := simple("g", orders, offset)
		r.Member = &m
		require.NoError(t, h.Commit(ctx, r))
	}
	h.both(func() { require.EqualValues(t, 3, h.at("g", orders)) })
}
