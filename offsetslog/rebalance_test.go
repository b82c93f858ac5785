package offsetslog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is a group of members that come and go, fall silent and come back.
type crowd struct {
	*house
	partitions int32
	until      time.Time

	mu sync.Mutex
	// owners says who had a partition in a generation.
	owners map[ownership]string
	// work counts the commits of each partition that succeeded. Each is one more than
	// what its member has found, so it is what must be committed.
	work        map[TopicPartition]int64
	generations map[int32]bool
	fenced      int
}

type ownership struct {
	generation int32
	tp         TopicPartition
}

// live is the life of one member, until time is up.
func (c *crowd) live(rnd *rand.Rand, name string) {
	var m Member
	static := ""
	if rnd.IntN(3) == 0 {
		static = name
	}
	for time.Now().Before(c.until) {
		time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond) // in a bubble
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(200))*time.Second)
		j, err := c.JoinGroup(ctx, JoinRequest{
			Group: "g", MemberID: m.ID, InstanceID: static, ClientID: name, Protocols: consumer("t"),
			SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second,
		})
		if err == nil {
			m = j.Member
			err = c.generation(ctx, rnd, j)
		}
		cancel()
		switch {
		case errors.Is(err, ErrUnknownMember), errors.Is(err, ErrFencedInstance):
			m = Member{}
		case err == nil && rnd.IntN(2) == 0:
			if err := c.LeaveGroup(context.Background(), "g", m); err != nil && !errors.Is(err, ErrUnknownMember) {
				c.t.Errorf("leave: %v", err)
			}
			m = Member{}
		case err == nil && rnd.IntN(2) == 0:
			m = Member{}                                          // is not heard of again, and forgets who it was
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Second) // in a bubble
		}
	}
}

// generation works in one, until it ends or the member has had enough, which is nil.
func (c *crowd) generation(ctx context.Context, rnd *rand.Rand, j JoinResult) error {
	r := SyncRequest{Group: "g", Member: j.Member}
	if j.IsLeader() {
		var err error
		if r.Assignments, err = j.Assign(AssignRoundRobin, map[string]int32{"t": c.partitions}); err != nil {
			c.t.Error(err)
		}
	}
	b, err := c.SyncGroup(ctx, r)
	if err != nil || len(b) == 0 {
		return err
	}
	a, err := ParseAssignment(b)
	if err != nil {
		c.t.Error(err)
	}
	c.own(j, a.Partitions)
	for range rnd.IntN(30) {
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond) // in a bubble
		if err := c.Heartbeat(ctx, "g", j.Member); err != nil && !errors.Is(err, ErrRebalancing) {
			return err
		} else if err != nil && rnd.IntN(2) == 0 {
			return err
		}
		for _, tp := range a.Partitions {
			if err := c.step(ctx, rnd, j.Member, tp); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *crowd) own(j JoinResult, tps []TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generations[j.Generation] = true
	for _, tp := range tps {
		o := ownership{j.Generation, tp}
		// A static member that has come back has another id, and the same place.
		if who := c.owners[o]; who != "" && who != j.ID && j.InstanceID == "" {
			c.t.Errorf("%s has %v in generation %d, and so has %s", who, tp, j.Generation, j.ID)
		}
		c.owners[o] = j.ID
	}
}

// step does one piece of work: what was committed, and one more.
func (c *crowd) step(ctx context.Context, rnd *rand.Rand, m Member, tp TopicPartition) error {
	f, err := c.Fetch(ctx, FetchRequest{Group: "g", Partitions: []TopicPartition{tp}})
	if err != nil {
		return err
	}
	if rnd.IntN(4) == 0 {
		time.Sleep(time.Duration(rnd.IntN(30_000)) * time.Millisecond) // the group may go on without us
	}
	r := simple("g", tp, max(f[0].Offset, 0)+1)
	r.Member = &m
	err = c.Commit(context.WithoutCancel(ctx), r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.work[tp]++
	} else {
		c.fenced++
	}
	return err
}

// However members come, go, sleep and come back: no two have a partition in the same
// generation, nobody's work is done twice or overwritten, and in the end all have gone.
func TestNoTwoMembersDoTheSameWork(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := Options{RetentionCheckInterval: -1}
				c := &crowd{
					house: newHouse(t, opts), partitions: 7, until: time.Now().Add(20 * time.Minute),
					owners: map[ownership]string{}, work: map[TopicPartition]int64{}, generations: map[int32]bool{},
				}
				var all sync.WaitGroup
				for i := range 6 {
					all.Go(func() { c.live(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("m%d", i)) })
				}
				all.Wait()
				require.Greater(t, len(c.generations), 5)
				require.Positive(t, c.fenced)
				for _, tp := range slices.SortedFunc(maps.Keys(c.work), comparePartitions) {
					require.Equal(t, c.work[tp], c.at("g", tp), tp)
				}
				require.Len(t, c.work, 7)
				sleep(time.Minute)
				require.Equal(t, Empty, c.state())
				c.reopen()
				require.Equal(t, Empty, c.state())
			})
		})
	}
}
