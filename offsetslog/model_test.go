package offsetslog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// modelStore is what a store should be, in the simplest way.
type modelStore struct {
	record int64 // counts what was written
	groups map[string]*modelGroup
}

type modelGroup struct {
	offsets map[TopicPartition]modelOffset
	pending map[int64]map[TopicPartition]modelOffset
	// member is the only one there is at a time.
	member     *Member
	generation int32
	hadMembers bool
}

type modelOffset struct{ offset, record int64 }

func (m *modelStore) group(id string) *modelGroup {
	if m.groups[id] == nil {
		m.groups[id] = &modelGroup{offsets: map[TopicPartition]modelOffset{}, pending: map[int64]map[TopicPartition]modelOffset{}}
	}
	return m.groups[id]
}

func (m *modelStore) exists(id string) bool {
	g := m.group(id)
	return len(g.offsets) > 0 || len(g.pending) > 0 || g.hadMembers
}

// mayCommit says what is answered to whom.
func (m *modelStore) mayCommit(id string, who *Member) error {
	g := m.group(id)
	switch {
	case who == nil && g.member != nil:
		return ErrUnknownMember
	case who == nil:
		return nil
	case !m.exists(id):
		return ErrGroupNotFound
	case g.member == nil || g.member.ID != who.ID:
		return ErrUnknownMember
	case g.member.Generation != who.Generation:
		return ErrIllegalGeneration
	}
	return nil
}

func (g *modelGroup) forget(tp TopicPartition) {
	delete(g.offsets, tp)
	for id := range g.pending {
		if delete(g.pending[id], tp); len(g.pending[id]) == 0 {
			delete(g.pending, id)
		}
	}
}

func (g *modelGroup) isPending(tp TopicPartition) bool {
	for _, offsets := range g.pending {
		if _, ok := offsets[tp]; ok {
			return true
		}
	}
	return false
}

// modelHouse is a store on a disk that can lose power.
type modelHouse struct {
	disk  *logtest.Disk
	dir   *seglog.Dir
	store *Store
}

func onDisk(disk *logtest.Disk) seglog.DirOptions {
	opts := seglog.DirOptions{ManualMaintenance: true, FS: disk.FS()}
	opts.Log.SegmentIndexBytes = 4096
	opts = Configure(opts)
	topic := opts.Topics[Topic]
	topic.SegmentBytes = 2000 // so that segments are sealed
	opts.Topics[Topic] = topic
	return opts
}

func (h *modelHouse) open(t require.TestingT) {
	var err error
	h.dir, err = seglog.OpenDir("data", onDisk(h.disk))
	require.NoError(t, err)
	opts := quiet
	opts.Partitions = 3
	h.store, err = Open(h.dir, opts)
	require.NoError(t, err)
}

func (h *modelHouse) close(t require.TestingT) {
	require.NoError(t, h.store.Close())
	require.NoError(t, h.dir.Close())
}

// Commits, transactions, memberships, removals, expiry, compaction, restarts and power
// cuts in any order come to what they come to in the model.
func TestStoreIsItsModel(t *testing.T) {
	ids := []string{"a", "b", "c", "дед", ""}
	rapid.Check(t, func(t *rapid.T) {
		m := &modelStore{groups: map[string]*modelGroup{}}
		h := &modelHouse{disk: logtest.NewDisk(logtest.DiskOptions{})}
		h.open(t)
		defer func() { h.close(t) }()

		group := func(t *rapid.T) string { return rapid.SampledFrom(ids).Draw(t, "group") }
		partition := func(t *rapid.T) TopicPartition {
			return TopicPartition{rapid.SampledFrom([]string{"t", "u"}).Draw(t, "topic"), int32(rapid.IntRange(0, 1).Draw(t, "partition"))}
		}
		offsets := func(t *rapid.T) (cs []Commit) {
			for range rapid.IntRange(1, 3).Draw(t, "n") {
				cs = append(cs, Commit{TopicPartition: partition(t), Offset: int64(rapid.IntRange(0, 99).Draw(t, "offset")), LeaderEpoch: -1})
			}
			return cs
		}
		who := func(t *rapid.T, g *modelGroup) *Member {
			switch rapid.IntRange(0, 3).Draw(t, "who") {
			case 0:
				return &Member{ID: "stranger", Generation: 1}
			case 1:
				if g.member != nil {
					return &Member{ID: g.member.ID, Generation: g.member.Generation - 1}
				}
			case 2:
				return nil
			}
			return g.member
		}
		producer := func(t *rapid.T) Producer { return Producer{ID: int64(rapid.IntRange(1, 2).Draw(t, "producer"))} }

		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				id := group(t)
				g := m.group(id)
				r := CommitRequest{Group: id, Member: who(t, g), Offsets: offsets(t)}
				want := m.mayCommit(id, r.Member)
				err := h.store.Commit(ctx, r)
				require.ErrorIs(t, err, want)
				for _, c := range r.Offsets {
					if m.record++; want == nil {
						g.offsets[c.TopicPartition] = modelOffset{c.Offset, m.record}
					}
				}
			},
			"commit in a transaction": func(t *rapid.T) {
				id, p := group(t), producer(t)
				r := TransactionalCommitRequest{Group: id, Producer: p, Offsets: offsets(t)}
				err := h.store.CommitTransactional(ctx, r)
				if id == "" {
					require.ErrorIs(t, err, ErrInvalidGroupID)
					return
				}
				require.NoError(t, err)
				g := m.group(id)
				if g.pending[p.ID] == nil {
					g.pending[p.ID] = map[TopicPartition]modelOffset{}
				}
				for _, c := range r.Offsets {
					m.record++
					g.pending[p.ID][c.TopicPartition] = modelOffset{c.Offset, m.record}
				}
			},
			"end transaction": func(t *rapid.T) {
				id, p := group(t), producer(t)
				commit := rapid.Bool().Draw(t, "commit")
				result := seglog.Abort
				if commit {
					result = seglog.Commit
				}
				require.NoError(t, h.store.EndTransaction(ctx, id, p, result, 0))
				for other, g := range m.groups {
					if PartitionFor(other, 3) != PartitionFor(id, 3) {
						continue
					}
					for tp, o := range g.pending[p.ID] {
						if commit && o.record > g.offsets[tp].record {
							g.offsets[tp] = o
						}
					}
					delete(g.pending, p.ID)
				}
			},
			"join": func(t *rapid.T) {
				id := group(t)
				g := m.group(id)
				r := JoinRequest{Group: id, Protocols: consumer("t")}
				if g.member != nil {
					r.MemberID = g.member.ID
				}
				j, err := h.store.JoinGroup(ctx, r)
				if id == "" {
					require.ErrorIs(t, err, ErrInvalidGroupID)
					return
				}
				require.NoError(t, err)
				_, err = h.store.SyncGroup(ctx, SyncRequest{Group: id, Member: j.Member, Assignments: map[string][]byte{j.ID: []byte("x")}})
				require.NoError(t, err)
				g.generation++
				require.Equal(t, g.generation, j.Generation)
				g.member, g.hadMembers = &j.Member, true
			},
			"leave": func(t *rapid.T) {
				id := group(t)
				g := m.group(id)
				if g.member == nil {
					require.ErrorIs(t, h.store.LeaveGroup(ctx, id, Member{ID: "m"}), ErrUnknownMember)
					return
				}
				require.NoError(t, h.store.LeaveGroup(ctx, id, *g.member))
				g.member = nil
				g.generation++
			},
			"remove members": func(t *rapid.T) {
				id := group(t)
				err := h.store.RemoveMembers(ctx, id)
				switch g := m.group(id); {
				case !m.exists(id):
					require.ErrorIs(t, err, ErrGroupNotFound)
				case g.member != nil:
					g.member = nil
					g.generation++
					fallthrough
				default:
					require.NoError(t, err)
				}
			},
			"delete offsets": func(t *rapid.T) {
				id, tp := group(t), partition(t)
				err := h.store.DeleteOffsets(ctx, id, []TopicPartition{tp})
				switch g := m.group(id); {
				case !m.exists(id):
					require.ErrorIs(t, err, ErrGroupNotFound)
				case g.member != nil && tp.Topic == "t":
					require.ErrorIs(t, err, ErrSubscribed)
				default:
					require.NoError(t, err)
					g.forget(tp)
				}
			},
			"delete group": func(t *rapid.T) {
				id := group(t)
				err := h.store.DeleteGroup(ctx, id)
				switch g := m.group(id); {
				case !m.exists(id):
					require.ErrorIs(t, err, ErrGroupNotFound)
				case g.member != nil:
					require.ErrorIs(t, err, ErrNonEmptyGroup)
				default:
					require.NoError(t, err)
					delete(m.groups, id)
				}
			},
			"delete topic": func(t *rapid.T) {
				tp := partition(t)
				require.NoError(t, h.store.PartitionsDeleted(ctx, []TopicPartition{tp}))
				for _, g := range m.groups {
					g.forget(tp)
				}
			},
			"expire": func(t *rapid.T) {
				for _, p := range h.store.partitions {
					require.NoError(t, p.ready(ctx, true))
					_, err := p.expire(math.MaxInt64 / 2)
					require.NoError(t, err)
				}
				for id, g := range m.groups {
					for tp := range g.offsets {
						if !g.isPending(tp) && (g.member == nil || tp.Topic != "t") {
							delete(g.offsets, tp)
						}
					}
					if len(g.offsets) == 0 && len(g.pending) == 0 && g.member == nil {
						delete(m.groups, id)
					}
				}
			},
			"compact": func(t *rapid.T) {
				for _, p := range h.dir.Partitions() {
					log, err := h.dir.Partition(p.Topic, p.Partition)
					require.NoError(t, err)
					_, err = log.Roll()
					require.NoError(t, err)
					_, err = log.Compact(ctx, nil)
					require.NoError(t, err)
				}
			},
			"restart": func(t *rapid.T) {
				h.close(t)
				h.open(t)
			},
			"power cut": func(t *rapid.T) {
				for left := range h.disk.States(1, rapid.Uint64().Draw(t, "seed")) {
					old := *h
					h.disk = left
					_ = old.store.Close()
					_ = old.dir.Close()
				}
				h.open(t)
			},
			"": func(t *rapid.T) { m.check(t, h.store, ids) },
		})
	})
}

// check compares all that can be asked of a store.
func (m *modelStore) check(t require.TestingT, s *Store, ids []string) {
	var want []string
	for _, id := range ids {
		g := m.group(id)
		if m.exists(id) {
			want = append(want, id)
		}
		for _, stable := range []bool{false, true} {
			got, err := s.Fetch(ctx, FetchRequest{Group: id, RequireStable: stable})
			require.NoError(t, err)
			has := map[TopicPartition]string{}
			for _, f := range got {
				has[f.TopicPartition] = fmt.Sprint(f.Offset, f.Err)
			}
			should := map[TopicPartition]string{}
			for tp, o := range g.offsets {
				should[tp] = fmt.Sprint(o.offset, nil)
			}
			if stable {
				for _, offsets := range g.pending {
					for tp := range offsets {
						should[tp] = fmt.Sprint(-1, ErrUnstable)
					}
				}
			}
			require.Equal(t, should, has, "group %q", id)
		}
		d, err := s.DescribeGroup(ctx, id)
		if !m.exists(id) {
			require.True(t, errors.Is(err, ErrGroupNotFound))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, g.member != nil, d.State == Stable, "group %q", id)
		if g.member != nil {
			require.Equal(t, g.member.ID, d.Members[0].ID)
			require.Equal(t, g.member.Generation, d.Generation)
		}
	}
	groups, err := s.Groups(ctx)
	require.NoError(t, err)
	var has []string
	for _, g := range groups {
		has = append(has, g.Group)
	}
	slices.Sort(want)
	require.Equal(t, want, has)
}
