package offsetslog

import (
	"context"
	"slices"
)

// FetchRequest says which offsets are asked for.
type FetchRequest struct {
	Group string
	// Partitions are those asked for; nil means all that have one.
	Partitions []TopicPartition
	// RequireStable answers ErrUnstable where a transaction that has not ended has
	// committed an offset, since the one before would have records read again that it
	// has dealt with. Consumers that read committed records want that.
	RequireStable bool
}

// Fetched is what is known of a partition.
type Fetched struct {
	TopicPartition
	// Committed has an Offset of -1, and a LeaderEpoch of -1, if nothing is committed.
	Committed
	// Err is ErrUnstable, or nil.
	Err error
}

// Fetch returns the committed offsets of a group, in the order in which they are asked
// for, or sorted. A group that does not exist has none, which is no error.
func (s *Store) Fetch(ctx context.Context, r FetchRequest) ([]Fetched, error) {
	p, err := s.group(ctx, Describe, r.Group)
	if err != nil {
		return nil, err
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	g := p.mu.groups[r.Group]
	if g != nil && g.classic != nil && g.classic.state == Dead {
		g = nil
	}
	if r.Partitions == nil {
		return g.fetchAll(r.RequireStable), nil
	}
	fetched := make([]Fetched, len(r.Partitions))
	for i, tp := range r.Partitions {
		fetched[i] = g.fetch(tp, r.RequireStable)
	}
	return fetched, nil
}

// fetch also works on nil, a group that does not exist.
func (g *group) fetch(tp TopicPartition, stable bool) Fetched {
	f := Fetched{TopicPartition: tp, Committed: none}
	if g == nil {
		return f
	}
	if stable && g.isPending(tp) {
		f.Err = ErrUnstable
	} else if e, ok := g.offsets.get(tp); ok {
		f.Committed = e.Committed
	}
	return f
}

// fetchAll lists also those that have nothing but a pending offset, if stable ones are
// required: leaving them out would say that there is none.
func (g *group) fetchAll(stable bool) []Fetched {
	if g == nil {
		return nil
	}
	fetched := make([]Fetched, 0, g.offsets.len())
	for tp := range g.offsets.all() {
		fetched = append(fetched, g.fetch(tp, stable))
	}
	if stable {
		seen := map[TopicPartition]bool{}
		for _, offsets := range g.pending {
			for tp := range offsets.all() {
				if !g.offsets.has(tp) && !seen[tp] {
					seen[tp] = true
					fetched = append(fetched, g.fetch(tp, stable))
				}
			}
		}
	}
	slices.SortFunc(fetched, func(a, b Fetched) int { return comparePartitions(a.TopicPartition, b.TopicPartition) })
	return fetched
}
