package offsetslog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// Row 384
func TestDeleteOffsets(t *testing.T) {
	h := newHouse(t, quiet)
	other := TopicPartition{"other", 0}
	m := h.stable("g", "orders")
	r := simple("g", orders, 1)
	r.Offsets = append(r.Offsets, Commit{TopicPartition: other, Offset: 2})
	r.Member = &m
	require.NoError(t, h.Commit(ctx, r))

	require.ErrorIs(t, h.DeleteOffsets(ctx, "unknown", []TopicPartition{orders}), ErrGroupNotFound)
	err := h.DeleteOffsets(ctx, "g", []TopicPartition{orders, other, {"none", 0}})
	var refused *PartitionsError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []PartitionError{{orders, ErrSubscribed}}, refused.Partitions)
	end := h.end("g")
	require.ErrorIs(t, h.DeleteOffsets(ctx, "g", []TopicPartition{orders}), ErrSubscribed)
	require.NoError(t, h.DeleteOffsets(ctx, "g", []TopicPartition{other}))
	require.Equal(t, end, h.end("g"), "nothing is written for what is not there")
	h.both(func() {
		require.EqualValues(t, 1, h.at("g", orders))
		require.EqualValues(t, -1, h.at("g", other))
	})
}

func TestDeleteOffsetsOfAnActiveGroupOfAnotherKind(t *testing.T) {
	h := newHouse(t, quiet)
	_, err := h.JoinGroup(ctx, JoinRequest{Group: "g", ProtocolType: "connect", Protocols: []Protocol{{"p", nil}}})
	require.NoError(t, err)
	require.ErrorIs(t, h.DeleteOffsets(ctx, "g", []TopicPartition{orders}), ErrNonEmptyGroup)
}

// Row 385
func TestDeleteGroup(t *testing.T) {
	h := newHouse(t, quiet)
	for n := range int32(3) {
		h.commit("g", TopicPartition{"t", n}, 5)
	}
	h.pending("g", Producer{1, 0}, TopicPartition{"t", 3}, 5)
	h.pending("g", Producer{1, 0}, TopicPartition{"t", 0}, 5)
	end := h.end("g")
	require.NoError(t, h.DeleteGroup(ctx, "g"))
	require.Equal(t, end+5, h.end("g"), "four offsets and the group")
	h.endTxn("g", Producer{1, 0}, seglog.Commit)
	h.both(func() {
		all, err := h.Fetch(ctx, FetchRequest{Group: "g"})
		require.NoError(t, err)
		require.Empty(t, all)
		groups, err := h.Groups(ctx)
		require.NoError(t, err)
		require.Empty(t, groups)
		require.ErrorIs(t, h.DeleteGroup(ctx, "g"), ErrGroupNotFound)
	})
	h.commit("g", orders, 1)
	require.EqualValues(t, 1, h.at("g", orders))
}

func TestActiveGroupIsNotDeleted(t *testing.T) {
	h := newHouse(t, quiet)
	m := h.stable("g", "orders")
	require.ErrorIs(t, h.DeleteGroup(ctx, "g"), ErrNonEmptyGroup)
	require.NoError(t, h.LeaveGroup(ctx, "g", m))
	require.NoError(t, h.DeleteGroup(ctx, "g"))
	_, err := h.DescribeGroup(ctx, "g")
	require.ErrorIs(t, err, ErrGroupNotFound)
}

func TestManyOffsetsAreDeletedInSeveralBatches(t *testing.T) {
	h := newHouse(t, quiet)
	var r CommitRequest
	r.Group = "g"
	const n = 12000
	for i := range int32(n) {
		r.Offsets = append(r.Offsets, Commit{TopicPartition: TopicPartition{"a-topic-with-quite-a-long-name", i}, Offset: 1})
	}
	require.NoError(t, h.Commit(ctx, r))
	require.Equal(t, n, h.Stats().Offsets)
	require.NoError(t, h.DeleteGroup(ctx, "g"))
	require.Zero(t, h.Stats().Offsets)
	h.reopen()
	require.NoError(t, h.Load(ctx))
	require.Zero(t, h.Stats().Offsets)
	require.Zero(t, h.Stats().Groups)
}

// Row 397, K084: a topic that is made again does not begin where another has ended.
func TestDeletedPartitionsAreForgotten(t *testing.T) {
	h := newHouse(t, quiet)
	groups := []string{"a", "b", "c"}
	for _, g := range groups {
		h.commit(g, orders, 100)
		h.commit(g, TopicPartition{"kept", 0}, 100)
		h.pending(g, Producer{1, 0}, TopicPartition{"orders", 1}, 100)
	}
	require.NoError(t, h.PartitionsDeleted(ctx, []TopicPartition{orders, {"orders", 1}}))
	for _, g := range groups {
		h.endTxn(g, Producer{1, 0}, seglog.Commit)
	}
	h.topic(orders, 10)
	h.both(func() {
		for _, g := range groups {
			require.EqualValues(t, -1, h.at(g, orders))
			require.EqualValues(t, -1, h.at(g, TopicPartition{"orders", 1}))
			require.EqualValues(t, 100, h.at(g, TopicPartition{"kept", 0}))
		}
	})
}

// Rows 386 to 390, K078
func TestWhatExpires(t *testing.T) {
	const now, minute = 1_000_000_000, 60_000
	commit := func(ago, expire int64) Committed {
		return Committed{CommitTimestamp: now - ago, ExpireTimestamp: expire}
	}
	members := func(state State, protocolType string, stateAgo int64, subscribed ...string) *classic {
		c := newClassic()
		c.state, c.protocolType, c.stateTimestamp = state, protocolType, now-stateAgo
		if stateAgo < 0 {
			c.stateTimestamp = -1
		}
		if state != Empty {
			c.add(&member{id: "m"})
		}
		if subscribed != nil || state == Empty && protocolType == ConsumerProtocol {
			c.subscribed = map[string]struct{}{}
			for _, t := range subscribed {
				c.subscribed[t] = struct{}{}
			}
		}
		return c
	}
	for name, tt := range map[string]struct {
		group   *classic
		offset  Committed
		pending bool
		expires bool
		removed bool // the group, too
	}{
		"simple, young":                      {nil, commit(minute-1, -1), false, false, false},
		"simple, old":                        {nil, commit(minute, -1), false, true, true},
		"simple, old, pending":               {nil, commit(minute, -1), true, false, false},
		"simple, expires now":                {nil, commit(0, now), false, true, true},
		"simple, old, expires later":         {nil, commit(minute, now+1), false, false, false},
		"simple, expires at -1, young":       {nil, commit(0, -1), false, false, false},
		"empty, state young":                 {members(Empty, "consumer", minute-1), commit(2*minute, -1), false, false, false},
		"empty, state old, commit young":     {members(Empty, "consumer", minute), commit(0, -1), false, true, true},
		"empty, state unknown, commit young": {members(Empty, "consumer", -1), commit(minute-1, -1), false, false, false},
		"empty, state unknown, commit old":   {members(Empty, "consumer", -1), commit(minute, -1), false, true, true},
		"empty without protocol, old":        {members(Empty, "", minute), commit(minute, -1), false, true, true},
		"empty without protocol, young":      {members(Empty, "", minute), commit(minute-1, -1), false, false, false},
		"stable, subscribed":                 {members(Stable, "consumer", 0, "t"), commit(minute, -1), false, false, false},
		"stable, subscribed, expire time":    {members(Stable, "consumer", 0, "t"), commit(minute, now), false, false, false},
		"stable, not subscribed, old":        {members(Stable, "consumer", 0, "other"), commit(minute, -1), false, true, false},
		"stable, not subscribed, young":      {members(Stable, "consumer", 0, "other"), commit(minute-1, -1), false, false, false},
		"stable, subscriptions unknown":      {members(Stable, "consumer", 0), commit(minute, -1), false, false, false},
		"stable, other protocol":             {members(Stable, "connect", 0), commit(minute, -1), false, false, false},
		"preparing":                          {members(PreparingRebalance, "consumer", 0, "other"), commit(minute, -1), false, false, false},
		"completing":                         {members(CompletingRebalance, "consumer", 0, "other"), commit(minute, now), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			tp := TopicPartition{"t", 0}
			g := &group{id: "g", classic: tt.group}
			g.offsets.put(tp, entry{tt.offset, 1})
			if tt.pending {
				g.pending = map[int64]*table{7: {few: []row{{tp: tp}}}}
			}
			n := g.expire(newEncoder(), now, time.Minute)
			require.Equal(t, tt.expires, n.Offsets == 1)
			require.Equal(t, tt.removed, n.Groups == 1)
		})
	}
}

func TestOffsetsExpireOnTheClock(t *testing.T) {
	opts := Options{Retention: time.Hour, RetentionCheckInterval: 10 * time.Minute, InitialRebalanceDelay: -1}
	turned(t, opts, func(t *testing.T, h *house) {
		h.commit("simple", orders, 1)
		m := h.stable("g", "orders")
		heart := func(d time.Duration) {
			for ; d > 0; d -= 20 * time.Second {
				sleep(20 * time.Second)
				require.NoError(t, h.Heartbeat(ctx, "g", m))
			}
		}
		for _, tp := range []TopicPartition{orders, {"left", 0}} {
			r := simple("g", tp, 1)
			r.Member = &m
			require.NoError(t, h.Commit(ctx, r))
		}
		heart(59 * time.Minute)
		require.EqualValues(t, 1, h.at("simple", orders))
		require.EqualValues(t, 1, h.at("g", TopicPartition{"left", 0}))
		heart(11 * time.Minute)
		require.EqualValues(t, -1, h.at("simple", orders))
		require.EqualValues(t, -1, h.at("g", TopicPartition{"left", 0}))
		require.EqualValues(t, 1, h.at("g", orders), "the group reads that")
		require.NoError(t, h.LeaveGroup(ctx, "g", m))
		sleep(59 * time.Minute)
		require.EqualValues(t, 1, h.at("g", orders))
		sleep(11 * time.Minute)
		require.EqualValues(t, -1, h.at("g", orders))
		h.reopen()
		groups, err := h.Groups(ctx)
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}

func TestNothingExpiresWithRetentionForEver(t *testing.T) {
	opts := quiet
	opts.Retention = -1
	turned(t, opts, func(t *testing.T, h *house) {
		h.commit("g", orders, 1)
		sleep(10 * 365 * 24 * time.Hour)
		n, err := h.Expire(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		require.EqualValues(t, 1, h.at("g", orders))
	})
}

// Removals and commits at the same time: what was acknowledged last counts.
func TestCommitRacesWithRemoval(t *testing.T) {
	h := newHouse(t, quiet)
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := h.DeleteGroup(ctx, "g"); err != nil && err != ErrGroupNotFound {
				done <- err
				return
			}
		}
	}()
	for i := range int64(200) {
		h.commit("g", TopicPartition{"t", int32(i % 5)}, i)
	}
	close(stop)
	require.NoError(t, <-done)
	h.commit("g", orders, 1)
	live, err := h.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	h.reopen()
	loaded, err := h.Fetch(ctx, FetchRequest{Group: "g"})
	require.NoError(t, err)
	require.Equal(t, live, loaded)
	require.NotEmpty(t, fmt.Sprint(loaded))
}

// Row 386: of a group that reads on, what it is not subscribed to, each in its time.
func TestOffsetsOfAStableGroupExpireOneByOne(t *testing.T) {
	opts := quiet
	opts.Retention = time.Minute
	turned(t, opts, func(t *testing.T, h *house) {
		m := h.stable("g", "first")
		commit := func(tp TopicPartition) {
			r := simple("g", tp, 1)
			r.Member = &m
			require.NoError(t, h.Commit(ctx, r))
		}
		expires := func(want Expired) {
			t.Helper()
			require.NoError(t, h.Heartbeat(ctx, "g", m))
			n, err := h.Expire(ctx)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		first, old, young := TopicPartition{"first", 0}, TopicPartition{"second", 0}, TopicPartition{"second", 1}
		commit(first)
		commit(old)
		sleep(500 * time.Millisecond)
		commit(young)
		sleep(30 * time.Second)
		expires(Expired{})
		sleep(29*time.Second + 500*time.Millisecond)
		expires(Expired{Offsets: 1})
		require.EqualValues(t, -1, h.at("g", old))
		sleep(500 * time.Millisecond)
		expires(Expired{Offsets: 1})
		require.EqualValues(t, -1, h.at("g", young))
		require.EqualValues(t, 1, h.at("g", first))

		m = h.join(JoinRequest{MemberID: m.ID, Protocols: consumer("third")}).must(t).Member
		<-h.syncs(m, nil).done
		expires(Expired{Offsets: 1})
		h.reopen()
		all, err := h.Fetch(ctx, FetchRequest{Group: "g"})
		require.NoError(t, err)
		require.Empty(t, all)
		require.Equal(t, Stable, h.state(), "it has members")
	})
}

// A member whose subscription cannot be decoded may be subscribed to any topic, whatever
// the others are.
func TestOneUnknownSubscriptionMayBeToAnything(t *testing.T) {
	protocol := RangeProtocol
	known := MemberValue{ID: "a", Subscription: Subscription{Topics: []string{"other"}, Generation: -1}.AppendTo(nil)}
	unknown := MemberValue{ID: "b", Subscription: []byte{1}}
	v := GroupValue{ProtocolType: ConsumerProtocol, Protocol: &protocol, Members: []MemberValue{known}}
	g := &group{classic: loadedGroup(v)}
	require.False(t, g.isSubscribed("t"))
	require.True(t, g.isSubscribed("other"))
	v.Members = append(v.Members, unknown)
	g.classic = loadedGroup(v)
	require.True(t, g.isSubscribed("t"))
	require.Nil(t, g.expiryBase(), "and so nothing expires")
}
