package compaction

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hour = int64(time.Hour / time.Millisecond)

// sealed are segments of 100 bytes at the given bases, all of one time.
func sealed(timestamp int64, bases ...int64) []Extent {
	var all []Extent
	for _, b := range bases {
		all = append(all, Extent{Base: b, Size: 100, Largest: timestamp, First: timestamp})
	}
	return all
}

// Rows 343 to 346 and 349 to 352, K015, K016.
func TestChooseFindsWhatMayBeCleaned(t *testing.T) {
	twenty := Bounds{End: 20, LastStable: 20, ActiveBase: 18, Sealed: sealed(0, 0, 6, 12)}
	from := func(b Bounds, start int64) Bounds { b.Start = start; return b }
	eight := Bounds{End: 80, LastStable: 80, ActiveBase: 70, Sealed: sealed(1000, 0, 10, 20, 30, 40, 50, 60)}
	stable := func(b Bounds, offset int64) Bounds { b.LastStable = offset; return b }
	late := eight
	late.Sealed = append(sealed(1000, 0, 10, 20), sealed(1001+hour, 30, 40, 50, 60)...)
	timeless := eight
	timeless.Sealed = sealed(-1, 0, 10, 20, 30, 40, 50, 60)
	timeless.Sealed[4].First = 0
	gap := Bounds{End: 60, LastStable: 60, ActiveBase: 50, Sealed: sealed(0, 0)}
	moved := Bounds{Start: 100, End: 400, LastStable: 400, ActiveBase: 300, Sealed: sealed(0, 100, 200)}
	for _, row := range []struct {
		name       string
		bounds     Bounds
		checkpoint int64
		policy     Policy
		now        int64
		want       Choice
	}{
		{"343: a checkpoint behind the log end", twenty, 200, Policy{}, 0, Choice{0, 18, 0, 300, true, 0}},
		{"344: a checkpoint below the log start", from(twenty, 10), 0, Policy{}, 0, Choice{10, 18, 0, 200, true, 0}},
		{"345: a log start above the active base", from(twenty, 19), 19, Policy{}, 0, Choice{19, 18, 0, 0, false, 0}},
		{"346: a checkpoint above the active base", twenty, 19, Policy{}, 0, Choice{19, 18, 300, 0, false, 0}},
		{"349: the last stable offset", stable(eight, 50), 0, Policy{}, 0, Choice{0, 50, 0, 500, false, 0}},
		{"349: the active base", eight, 0, Policy{}, 0, Choice{0, 70, 0, 700, false, 0}},
		{"350: a checkpoint that holds", from(twenty, 10), 15, Policy{}, 0, Choice{15, 18, 300, 100, false, 0}},
		{"350: one below the start", from(twenty, 20), 15, Policy{}, 0, Choice{20, 18, 0, 0, true, 0}},
		{"350: one behind the end", twenty, 25, Policy{}, 0, Choice{0, 18, 0, 300, true, 0}},
		{"351: what is too young", late, 0, Policy{MinLag: time.Hour}, 1001 + hour, Choice{0, 30, 0, 300, false, 0}},
		{"351: nothing is too young", eight, 0, Policy{MinLag: time.Hour}, 1000 + hour, Choice{0, 70, 0, 700, false, 0}},
		{"351: exactly at the lag", eight, 0, Policy{MinLag: time.Hour}, 999 + hour, Choice{0, 0, 0, 0, false, 0}},
		{"352: an open transaction at the start", stable(eight, 0), 0, Policy{}, 0, Choice{0, 0, 0, 0, false, 0}},
		{"352: an open transaction inside a segment", stable(eight, 33), 0, Policy{}, 0, Choice{0, 30, 0, 300, false, 0}},
		{"K015: a checkpoint in a gap", gap, 45, Policy{}, 0, Choice{45, 50, 100, 100, false, 0}},
		{"K015: a checkpoint in the active segment", gap, 53, Policy{}, 0, Choice{53, 50, 100, 0, false, 0}},
		{"K016: far too high", moved, 1000, Policy{}, 0, Choice{100, 300, 0, 200, true, 0}},
		{"K016: too low", moved, 50, Policy{}, 0, Choice{100, 300, 0, 200, true, 0}},
		{"K016: none", moved, -1, Policy{}, 0, Choice{100, 300, 0, 200, true, 0}},
		{"K016: the log start beyond the active base", from(moved, 350), 350, Policy{}, 0, Choice{350, 300, 0, 0, false, 0}},
		{"overdue", eight, 20, Policy{MaxLag: time.Hour}, 5000 + hour, Choice{20, 70, 200, 500, false, 4 * time.Second}},
		{"nobody knows how old it is", timeless, 20, Policy{MaxLag: time.Hour}, 5000 + hour, Choice{20, 70, 200, 500, false, 0}},
		{"not overdue", eight, 20, Policy{MaxLag: time.Hour}, 1000 + hour, Choice{20, 70, 200, 500, false, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, Choose(row.bounds, row.checkpoint, row.policy, row.now))
		})
	}
}

func TestAGigabyteMoreOrLessDoesNotOverflow_K020(t *testing.T) {
	const size = 3 << 30
	b := Bounds{End: 300, LastStable: 300, ActiveBase: 200, Sealed: []Extent{{Base: 0, Size: size}, {Base: 100, Size: size}}}
	c := Choose(b, 100, Policy{}, 0)
	require.Equal(t, Choice{FirstDirty: 100, FirstUncleanable: 200, CleanBytes: size, CleanableBytes: size}, c)
	require.Equal(t, 0.5, c.Ratio())
	require.False(t, c.Due(Policy{MinDirtyRatio: 0.5}), "the ratio must be above")
	require.True(t, c.Due(Policy{MinDirtyRatio: 0.49}))
	b.Start = 50
	require.Equal(t, 1.0, Choose(b, 50, Policy{}, 0).Ratio(), "the segment with the log start has nothing clean")
}

func TestTheDirtiestIsChosen_342(t *testing.T) {
	choice := func(clean, dirty int64) Choice {
		return Choice{FirstUncleanable: 1, CleanBytes: clean, CleanableBytes: dirty}
	}
	policy := func(int) Policy { return Policy{MinDirtyRatio: 0.5} }
	require.Equal(t, 1, Dirtiest([]Choice{choice(4, 6), choice(1, 9), choice(2, 8)}, policy))
	require.Equal(t, -1, Dirtiest([]Choice{choice(6, 4), choice(1, 0), {}}, policy))
	overdue := choice(9, 1)
	overdue.Overdue = time.Second
	require.Equal(t, 0, Dirtiest([]Choice{overdue, choice(6, 4)}, policy))
	require.Equal(t, 1, Dirtiest([]Choice{overdue, choice(4, 6)}, policy), "being overdue gives no precedence")
	overdue.CleanableBytes = 0
	require.Equal(t, -1, Dirtiest([]Choice{overdue}, policy), "nothing to clean")
}

// Rows 328 to 331, K012.
func TestSegmentsAreGrouped(t *testing.T) {
	const far = 1<<31 - 1
	chain := func(sizes ...int64) []source {
		var all []source
		for i, n := range sizes {
			all = append(all, source{base: int64(i) * 10, next: int64(i)*10 + 10, size: n, index: 8, timeIndex: 12})
		}
		return all
	}
	ten := chain(5, 5, 5, 5, 5, 5, 5, 5, 5, 5)
	at := func(size int64, offsets ...int64) []source {
		var all []source
		for i := range len(offsets) - 1 {
			all = append(all, source{base: offsets[i], next: offsets[i+1], size: size})
		}
		return all
	}
	empty := at(0, 0, far, 2*far, 3*far)
	empty[0].size, empty[2].size = 1, 1
	for _, row := range []struct {
		name     string
		sources  []source
		log, idx int64
		want     []int
	}{
		{"328: everything fits", ten, 1 << 30, 1 << 30, []int{10}},
		{"328: no two logs fit", ten, 1, 1 << 30, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"328: no two indexes fit", ten, 1 << 30, 1, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"328: three logs fit", ten, 15, 1 << 30, []int{3, 3, 3, 1}},
		{"328: three time indexes fit", ten, 1 << 30, 36, []int{3, 3, 3, 1}},
		{"329: the last offset is as far as may be", at(1, 0, 1, far+1), 100, 100, []int{2}},
		{"329: one more", at(1, 0, 1, far+2), 100, 100, []int{1, 1}},
		{"K012: two billion apart", at(1, 0, 1<<31, 1<<31+1), 100, 100, []int{1, 1}},
		{"330: no two of three", at(1, 0, far, 2*far, 3*far), 100, 100, []int{1, 1, 1}},
		{"331: an index says nothing of the last offset", []source{{base: 0, next: 1, size: 1}, {base: 1, next: far + 2, size: 1}}, 100, 100, []int{1, 1}},
		{"330: an empty one may be far", empty, 100, 100, []int{2, 1}},
		{"none", nil, 1, 1, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []int
			next := 0
			for _, g := range group(row.sources, row.log, row.idx) {
				got = append(got, len(g))
				require.Equal(t, row.sources[next:next+len(g)], g)
				next += len(g)
			}
			require.Equal(t, row.want, got)
		})
	}
}
