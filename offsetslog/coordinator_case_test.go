package offsetslog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// joining is a call of JoinGroup that goes on.
type joining struct {
	done   chan struct{}
	result JoinResult
	err    error
}

func (h *house) join(r JoinRequest) *joining { return h.joinCtx(ctx, r) }

func (h *house) joinCtx(ctx context.Context, r JoinRequest) *joining {
	j := &joining{done: make(chan struct{})}
	if r.Group == "" {
		r.Group = "g"
	}
	if r.Protocols == nil {
		r.Protocols = consumer("t")
	}
	go func() {
		defer close(j.done)
		j.result, j.err = h.JoinGroup(ctx, r)
	}()
	synctest.Wait()
	return j
}

func (j *joining) waits() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// must returns where the member is.
func (j *joining) must(t *testing.T) JoinResult {
	t.Helper()
	require.False(t, j.waits(), "still joining")
	require.NoError(t, j.err)
	return j.result
}

type syncing struct {
	done       chan struct{}
	assignment string
	err        error
}

func (h *house) syncs(m Member, assignments map[string][]byte) *syncing {
	s := &syncing{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		b, err := h.SyncGroup(ctx, SyncRequest{Group: "g", Member: m, Assignments: assignments})
		s.assignment, s.err = string(b), err
	}()
	synctest.Wait()
	return s
}

func (s *syncing) waits() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

func (h *house) state() State {
	d, err := h.DescribeGroup(ctx, "g")
	if err != nil {
		return Dead
	}
	return d.State
}

// two makes a stable group of two members; the first one leads.
func (h *house) two() (a, b Member) {
	h.t.Helper()
	first := h.join(JoinRequest{ClientID: "a"})
	a = first.must(h.t).Member
	second := h.join(JoinRequest{ClientID: "b"})
	require.ErrorIs(h.t, h.Heartbeat(ctx, "g", a), ErrRebalancing)
	again := h.join(JoinRequest{MemberID: a.ID})
	a, b = again.must(h.t).Member, second.must(h.t).Member
	require.True(h.t, again.result.IsLeader())
	waiting := h.syncs(b, nil)
	require.True(h.t, waiting.waits())
	led := h.syncs(a, map[string][]byte{a.ID: []byte("1"), b.ID: []byte("2")})
	<-led.done
	<-waiting.done
	require.Equal(h.t, "1", led.assignment)
	require.Equal(h.t, "2", waiting.assignment)
	require.Equal(h.t, Stable, h.state())
	return a, b
}

func TestGroupLifeCycle(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		require.Equal(t, Dead, h.state())
		a, b := h.two()
		require.EqualValues(t, 2, a.Generation)
		require.NoError(t, h.Heartbeat(ctx, "g", a))
		r := simple("g", orders, 5)
		before := b
		r.Member = &before
		require.NoError(t, h.Commit(ctx, r))

		d, err := h.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, a.ID, d.Leader)
		require.Equal(t, RangeProtocol, d.Protocol)
		require.Len(t, d.Members, 2)
		require.Equal(t, []string{"t"}, d.Members[0].Topics)

		require.NoError(t, h.LeaveGroup(ctx, "g", a))
		require.Equal(t, PreparingRebalance, h.state())
		require.NoError(t, h.Commit(ctx, r), "the last chance before the partitions go")
		j := h.join(JoinRequest{MemberID: b.ID})
		b = j.must(t).Member
		require.True(t, j.result.IsLeader())
		require.ErrorIs(t, h.Commit(ctx, r), ErrIllegalGeneration)
		r.Member = &b
		require.ErrorIs(t, h.Commit(ctx, r), ErrRebalancing)
		<-h.syncs(b, nil).done
		require.NoError(t, h.Commit(ctx, r))
		require.NoError(t, h.LeaveGroup(ctx, "g", b))
		require.Equal(t, Empty, h.state())
		require.ErrorIs(t, h.LeaveGroup(ctx, "g", b), ErrUnknownMember)
		require.ErrorIs(t, h.Heartbeat(ctx, "g", b), ErrUnknownMember)
		h.reopen()
		require.Equal(t, Empty, h.state())
		d, err = h.DescribeGroup(ctx, "g")
		require.NoError(t, err)
		require.EqualValues(t, 4, d.Generation, "generations go on")
	})
}

// Row 370
func TestSilentMemberIsRemovedAfterItsSession(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		for range 4 {
			sleep(44 * time.Second)
			require.NoError(t, h.Heartbeat(ctx, "g", a))
			r := simple("g", orders, 5)
			r.Member = &b
			require.NoError(t, h.Commit(ctx, r), "a commit is a heartbeat, too")
		}
		sleep(44 * time.Second)
		require.NoError(t, h.Heartbeat(ctx, "g", a))
		sleep(time.Second)
		require.ErrorIs(t, h.Heartbeat(ctx, "g", b), ErrUnknownMember)
		require.ErrorIs(t, h.Heartbeat(ctx, "g", a), ErrRebalancing)
		j := h.join(JoinRequest{MemberID: a.ID})
		require.Len(t, j.must(t).Members, 1)
	})
}

func TestMembersOfBeforeARestartHaveASessionLeft(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		h.reopen()
		require.Equal(t, Stable, h.state())
		require.NoError(t, h.Heartbeat(ctx, "g", a))
		require.Equal(t, "2", func() string { s := h.syncs(b, nil); <-s.done; return s.assignment }())
		r := simple("g", orders, 5)
		r.Member = &a
		require.NoError(t, h.Commit(ctx, r))
		sleep(46 * time.Second)
		require.Equal(t, Empty, h.state())
		h.commit("g", orders, 6)
	})
}

func TestWhoDoesNotRejoinIsLeftBehind(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		j := h.join(JoinRequest{ClientID: "c", SessionTimeout: 20 * time.Second})
		for range 8 {
			require.True(t, j.waits())
			sleep(5 * time.Second)
			require.ErrorIs(t, h.Heartbeat(ctx, "g", a), ErrRebalancing)
			require.ErrorIs(t, h.Heartbeat(ctx, "g", b), ErrRebalancing)
		}
		sleep(5 * time.Second) // the rebalance timeout of a and b
		c := j.must(t)
		require.True(t, c.IsLeader())
		require.Len(t, c.Members, 1)
		require.ErrorIs(t, h.Heartbeat(ctx, "g", a), ErrUnknownMember)
	})
}

func TestWhoDoesNotSyncIsRemoved(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{}).must(t)
		for range 9 {
			sleep(5 * time.Second)
			if h.Heartbeat(ctx, "g", a.Member) != nil {
				break
			}
		}
		require.Equal(t, Empty, h.state())
	})
}

func TestRebalanceCancelsSyncs(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{}).must(t)
		j := h.join(JoinRequest{})
		a = h.join(JoinRequest{MemberID: a.ID}).must(t)
		b := j.must(t)
		s := h.syncs(b.Member, nil)
		require.True(t, s.waits())
		h.join(JoinRequest{})
		<-s.done
		require.ErrorIs(t, s.err, ErrRebalancing)
		s = h.syncs(a.Member, map[string][]byte{})
		<-s.done
		require.ErrorIs(t, s.err, ErrRebalancing)
	})
}

func TestFollowerThatSaysNothingNewDoesNotRebalance(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		j := h.join(JoinRequest{MemberID: b.ID})
		require.Equal(t, b, j.must(t).Member)
		require.Empty(t, j.result.Members)
		require.Equal(t, Stable, h.state())
		j = h.join(JoinRequest{MemberID: b.ID, Protocols: consumer("other")})
		require.True(t, j.waits())
		require.Equal(t, PreparingRebalance, h.state())
		h.join(JoinRequest{MemberID: a.ID}).must(t)
		require.EqualValues(t, 3, j.must(t).Generation)
	})
}

func TestLeaderCanRebalance(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		j := h.join(JoinRequest{MemberID: a.ID})
		require.True(t, j.waits())
		h.join(JoinRequest{MemberID: b.ID}).must(t)
		require.Len(t, j.must(t).Members, 2)
	})
}

func TestStaticMemberComesBack(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{InstanceID: "one"}).must(t)
		<-h.syncs(a.Member, map[string][]byte{a.ID: []byte("mine")}).done
		again := h.join(JoinRequest{InstanceID: "one"}).must(t)
		require.NotEqual(t, a.ID, again.ID)
		require.True(t, strings.HasPrefix(again.ID, "one-"))
		require.Equal(t, a.Generation, again.Generation)
		require.True(t, again.SkipAssignment)
		log, err := h.dir.Partition(Topic, PartitionFor("g", h.Partitions()))
		require.NoError(t, err)
		require.Equal(t, log.Offsets().End, log.Offsets().Durable, "who it is must not go in a crash")
		s := h.syncs(again.Member, nil)
		<-s.done
		require.Equal(t, "mine", s.assignment)
		require.ErrorIs(t, h.Heartbeat(ctx, "g", a.Member), ErrFencedInstance)
		r := simple("g", orders, 1)
		r.Member = &a.Member
		require.ErrorIs(t, h.Commit(ctx, r), ErrFencedInstance)
		r.Member = &again.Member
		require.NoError(t, h.Commit(ctx, r))
		h.reopen()
		require.NoError(t, h.Heartbeat(ctx, "g", again.Member), "the new id was written down")
		require.ErrorIs(t, h.LeaveGroup(ctx, "g", Member{InstanceID: "two"}), ErrUnknownMember)
		require.NoError(t, h.LeaveGroup(ctx, "g", Member{InstanceID: "one"}))
		require.Equal(t, Empty, h.state())
	})
}

func TestStaticMemberWithSomethingNewRebalances(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		other := []Protocol{{RoundRobinProtocol, nil}}
		a := h.join(JoinRequest{InstanceID: "one"}).must(t)
		<-h.syncs(a.Member, nil).done
		j := h.join(JoinRequest{InstanceID: "one", Protocols: append(other, consumer("t")...)})
		require.EqualValues(t, 2, j.must(t).Generation)
		require.Equal(t, RoundRobinProtocol, j.result.Protocol)
	})
}

func TestSecondStaticMemberFencesTheFirstThatWaits(t *testing.T) {
	opts := quiet
	opts.InitialRebalanceDelay = 3 * time.Second
	turned(t, opts, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{InstanceID: "one"})
		b := h.join(JoinRequest{InstanceID: "one"})
		require.False(t, a.waits())
		require.ErrorIs(t, a.err, ErrFencedInstance)
		sleep(3 * time.Second)
		require.Len(t, b.must(t).Members, 1)
	})
}

func TestEmptyGroupWaitsForMoreMembers(t *testing.T) {
	opts := Options{RetentionCheckInterval: -1}
	turned(t, opts, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{SessionTimeout: 10 * time.Second})
		sleep(2 * time.Second)
		b := h.join(JoinRequest{SessionTimeout: 10 * time.Second})
		sleep(2 * time.Second)
		require.True(t, a.waits(), "one more was given time")
		sleep(2 * time.Second)
		require.EqualValues(t, 1, a.must(t).Generation)
		require.EqualValues(t, 1, b.must(t).Generation)
		require.True(t, a.result.IsLeader())
		require.Len(t, a.result.Members, 2)
	})
}

func TestInitialDelayEndsWithTheRebalanceTimeout(t *testing.T) {
	turned(t, Options{RetentionCheckInterval: -1}, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{SessionTimeout: 8 * time.Second})
		for range 8 {
			require.True(t, a.waits())
			h.join(JoinRequest{SessionTimeout: 8 * time.Second})
			sleep(time.Second)
		}
		require.Len(t, a.must(t).Members, 9)
	})
}

func TestWhoGivesUpJoiningIsForgotten(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		gone, cancel := context.WithCancel(ctx)
		j := h.joinCtx(gone, JoinRequest{})
		cancel()
		<-j.done
		require.ErrorIs(t, j.err, context.Canceled)
		first := h.join(JoinRequest{MemberID: a.ID})
		h.join(JoinRequest{MemberID: b.ID}).must(t)
		require.Len(t, first.must(t).Members, 2)
	})
}

// A static one is waited for, as if it had been silent from then on.
func TestStaticMemberThatGivesUpJoiningIsWaitedFor(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		h.two()
		gone, cancel := context.WithCancel(ctx)
		j := h.joinCtx(gone, JoinRequest{InstanceID: "i", SessionTimeout: 20 * time.Second})
		cancel()
		<-j.done
		members := func() int {
			d, err := h.DescribeGroup(ctx, "g")
			require.NoError(t, err)
			return d.MemberCount
		}
		sleep(19 * time.Second)
		require.Equal(t, 3, members())
		sleep(time.Second)
		require.Equal(t, 2, members())
	})
}

// Row 370: also while the group waits for others to join.
func TestCommitInARebalanceKeepsTheSession(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{RebalanceTimeout: 5 * time.Minute}).must(t).Member
		<-h.syncs(a, nil).done
		j := h.join(JoinRequest{})
		r := simple("g", orders, 5)
		r.Member = &a
		for range 4 {
			sleep(40 * time.Second)
			require.True(t, j.waits())
			require.NoError(t, h.Commit(ctx, r))
		}
	})
}

// The assignments of a generation are on disk when the next one has begun.
func TestAssignmentsThatComeLateAreNotGivenOut(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a := h.join(JoinRequest{ClientID: "a"}).must(t).Member
		p := h.partitions[PartitionFor("g", h.Partitions())]
		wait, finish, err := p.sync(&SyncRequest{Group: "g", Member: a, Assignments: map[string][]byte{a.ID: []byte("late")}})
		require.NoError(t, err)
		b := h.join(JoinRequest{ClientID: "b"})
		require.ErrorIs(t, (<-wait).err, ErrRebalancing)
		finish(ctx)
		require.Equal(t, PreparingRebalance, h.state())
		a = h.join(JoinRequest{MemberID: a.ID}).must(t).Member
		require.Equal(t, CompletingRebalance, h.state())
		finish(ctx)
		require.Equal(t, CompletingRebalance, h.state(), "of a later generation")
		waiting := h.syncs(b.must(t).Member, nil)
		<-h.syncs(a, map[string][]byte{b.result.ID: []byte("new")}).done
		<-waiting.done
		require.Equal(t, "new", waiting.assignment)
	})
}

func TestRefusedJoins(t *testing.T) {
	opts := quiet
	opts.MaxGroupSize = 2
	turned(t, opts, func(t *testing.T, h *house) {
		for name, tt := range map[string]struct {
			r    JoinRequest
			want error
		}{
			"session too short":     {JoinRequest{SessionTimeout: time.Second}, ErrInvalidSessionTimeout},
			"session too long":      {JoinRequest{SessionTimeout: time.Hour}, ErrInvalidSessionTimeout},
			"no protocols":          {JoinRequest{Protocols: []Protocol{}}, ErrInconsistentProtocol},
			"member of nowhere":     {JoinRequest{MemberID: "m"}, ErrUnknownMember},
			"client id of 32768":    {JoinRequest{ClientID: strings.Repeat("c", 32768)}, ErrInvalidRequest},
			"protocol name of 2^15": {JoinRequest{Protocols: []Protocol{{Name: strings.Repeat("c", 32768)}}}, ErrInvalidRequest},
		} {
			j := h.join(tt.r)
			require.False(t, j.waits(), name)
			require.ErrorIs(t, j.err, tt.want, name)
			require.Equal(t, Dead, h.state(), "no group is made of that")
		}
		h.two()
		for name, tt := range map[string]struct {
			r    JoinRequest
			want error
		}{
			"full, unknown member": {JoinRequest{MemberID: "m"}, ErrGroupFull},
			"full":                 {JoinRequest{}, ErrGroupFull},
			"other protocol":       {JoinRequest{Protocols: []Protocol{{"sticky", nil}}}, ErrInconsistentProtocol},
			"other protocol type":  {JoinRequest{ProtocolType: "connect"}, ErrInconsistentProtocol},
		} {
			j := h.join(tt.r)
			require.False(t, j.waits(), name)
			require.ErrorIs(t, j.err, tt.want, name)
			require.Equal(t, Stable, h.state(), name)
		}
	})
}

func TestProtocolThatMostLike(t *testing.T) {
	c := newClassic()
	p := func(names ...string) (ps []Protocol) {
		for _, n := range names {
			ps = append(ps, Protocol{Name: n})
		}
		return ps
	}
	for i, ps := range [][]Protocol{p("x", "a", "b"), p("b", "a"), p("b", "a", "y")} {
		c.add(&member{id: fmt.Sprint(i), protocols: ps})
	}
	require.Equal(t, "b", c.choose())
}

func TestCloseEndsWaiting(t *testing.T) {
	turned(t, Options{RetentionCheckInterval: -1}, func(t *testing.T, h *house) {
		j := h.join(JoinRequest{})
		require.NoError(t, h.Store.Close())
		<-j.done
		require.ErrorIs(t, j.err, ErrNotAvailable)
	})
}

func TestAssignors(t *testing.T) {
	m := func(id string, topics ...string) Subscriber { return Subscriber{ID: id, Topics: topics} }
	s := func(id, instance string, topics ...string) Subscriber { return Subscriber{id, instance, topics} }
	for _, tt := range []struct {
		name       string
		assign     Assignor
		members    []Subscriber
		partitions map[string]int32
		want       string
	}{
		{"range, one topic", AssignRange, []Subscriber{m("b", "t"), m("a", "t")}, map[string]int32{"t": 3}, "a:[t-0 t-1] b:[t-2]"},
		{"range, two topics", AssignRange, []Subscriber{m("a", "t", "u"), m("b", "t", "u")}, map[string]int32{"t": 3, "u": 3}, "a:[t-0 t-1 u-0 u-1] b:[t-2 u-2]"},
		{"range, more members", AssignRange, []Subscriber{m("a", "t"), m("b", "t"), m("c", "t")}, map[string]int32{"t": 2}, "a:[t-0] b:[t-1] c:[]"},
		{"range, static first", AssignRange, []Subscriber{m("a", "t"), s("z", "i", "t")}, map[string]int32{"t": 3}, "a:[t-2] z:[t-0 t-1]"},
		{"range, nobody", AssignRange, nil, map[string]int32{"t": 3}, ""},
		{"range, not subscribed", AssignRange, []Subscriber{m("a", "u")}, map[string]int32{"t": 3}, "a:[]"},
		{"round robin, two topics", AssignRoundRobin, []Subscriber{m("a", "t", "u"), m("b", "t", "u")}, map[string]int32{"t": 3, "u": 3}, "a:[t-0 t-2 u-1] b:[t-1 u-0 u-2]"},
		{"round robin, mixed", AssignRoundRobin, []Subscriber{m("a", "t"), m("b", "t", "u"), m("c", "t", "u", "v")},
			map[string]int32{"t": 1, "u": 2, "v": 3}, "a:[t-0] b:[u-0] c:[u-1 v-0 v-1 v-2]"},
		{"round robin, static first", AssignRoundRobin, []Subscriber{m("a", "t"), s("z", "i", "t")}, map[string]int32{"t": 3}, "a:[t-1] z:[t-0 t-2]"},
		{"round robin, nobody", AssignRoundRobin, nil, map[string]int32{"t": 3}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, member := range sortedByID(tt.members) {
				got = append(got, fmt.Sprintf("%s:%v", member, tt.assign(tt.members, tt.partitions)[member]))
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
			require.Len(t, tt.assign(tt.members, tt.partitions), len(tt.members))
		})
	}
}

func sortedByID(members []Subscriber) (ids []string) {
	c := newClassic()
	for _, m := range members {
		c.add(&member{id: m.ID})
	}
	for _, m := range c.sorted() {
		ids = append(ids, m.id)
	}
	return ids
}

// Static members are in the order of their instance ids, which stay when their ids change.
func TestAssignorsKnowStaticMembersByTheirInstance(t *testing.T) {
	members := []Subscriber{{"a", "2", []string{"t"}}, {"b", "1", []string{"t"}}, {"0", "", []string{"t"}}}
	for _, assign := range []Assignor{AssignRange, AssignRoundRobin} {
		require.Equal(t, map[string][]TopicPartition{"b": {{"t", 0}}, "a": {{"t", 1}}, "0": {{"t", 2}}}, assign(members, map[string]int32{"t": 3}))
	}
}

func TestAssignEncodesForEveryMember(t *testing.T) {
	r := JoinResult{Members: []JoinedMember{{ID: "a", Metadata: consumer("t")[0].Metadata}, {ID: "b", Metadata: consumer("t")[0].Metadata}}}
	encoded, err := r.Assign(AssignRange, map[string]int32{"t": 2})
	require.NoError(t, err)
	a, err := ParseAssignment(encoded["b"])
	require.NoError(t, err)
	require.Equal(t, []TopicPartition{{"t", 1}}, a.Partitions)
	r.Members[0].Metadata = []byte{1}
	_, err = r.Assign(AssignRange, nil)
	require.ErrorIs(t, err, ErrUndecodable)
}

func TestLeaderThatDoesNotRejoinIsReplaced(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, b := h.two()
		j := h.join(JoinRequest{MemberID: b.ID, Protocols: consumer("other")})
		for j.waits() {
			sleep(5 * time.Second)
			if err := h.Heartbeat(ctx, "g", a); err != nil {
				require.ErrorIs(t, err, map[bool]error{true: ErrRebalancing, false: ErrUnknownMember}[j.waits()])
			}
		}
		require.True(t, j.must(t).IsLeader())
		require.Len(t, j.result.Members, 1)
	})
}

// Static members stay for as long as their sessions, also if nobody joins again.
func TestStaticMembersOutliveARebalanceThatNobodyJoins(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		r := JoinRequest{InstanceID: "one", SessionTimeout: 5 * time.Minute, RebalanceTimeout: 10 * time.Second}
		a := h.join(r).must(t)
		<-h.syncs(a.Member, nil).done
		gone, cancel := context.WithCancel(ctx)
		j := h.joinCtx(gone, JoinRequest{RebalanceTimeout: 10 * time.Second})
		cancel()
		<-j.done
		sleep(time.Minute)
		require.Equal(t, PreparingRebalance, h.state())
		require.ErrorIs(t, h.Heartbeat(ctx, "g", a.Member), ErrRebalancing)
		r.MemberID = a.ID
		again := h.join(r)
		require.EqualValues(t, 2, again.must(t).Generation)
		require.Equal(t, a.ID, again.result.ID)
		<-h.syncs(again.result.Member, nil).done
		sleep(6 * time.Minute)
		require.Equal(t, Empty, h.state())
	})
}

func TestAssignmentsThatCannotBeWrittenAreNotGivenOut(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	dir, err := seglog.OpenDir("data", onDisk(disk))
	require.NoError(t, err)
	s, err := Open(dir, quiet)
	require.NoError(t, err)
	j, err := s.JoinGroup(ctx, JoinRequest{Group: "g", Protocols: consumer("t")})
	require.NoError(t, err)
	disk.Fail(logtest.Calls{Kind: logtest.Sync}, fmt.Errorf("no"))
	_, err = s.SyncGroup(ctx, SyncRequest{Group: "g", Member: j.Member})
	require.ErrorIs(t, err, ErrNotCoordinator)
	disk.Heal()
	require.ErrorIs(t, s.Heartbeat(ctx, "g", j.Member), ErrRebalancing)
	require.ErrorIs(t, s.LeaveGroup(ctx, "g", Member{ID: "x"}), ErrUnknownMember)
	require.NoError(t, s.Close())
	require.NoError(t, dir.Close())
}

func TestWhoIsNoMemberMayDoNothing(t *testing.T) {
	turned(t, quiet, func(t *testing.T, h *house) {
		a, _ := h.two()
		for want, m := range map[error]Member{
			ErrUnknownMember: {ID: "x", Generation: 2}, ErrIllegalGeneration: {ID: a.ID, Generation: 1},
		} {
			require.ErrorIs(t, h.Heartbeat(ctx, "g", m), want)
			_, err := h.SyncGroup(ctx, SyncRequest{Group: "g", Member: m})
			require.ErrorIs(t, err, want)
		}
		_, err := h.SyncGroup(ctx, SyncRequest{Group: "other", Member: a})
		require.ErrorIs(t, err, ErrUnknownMember)
		require.NoError(t, h.Store.Close())
		require.ErrorIs(t, h.Heartbeat(ctx, "g", a), ErrNotAvailable)
		require.ErrorIs(t, h.LeaveGroup(ctx, "g", a), ErrNotAvailable)
	})
}
