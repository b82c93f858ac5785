package work

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	var h Histogram
	for i := range 100_000 {
		h.Add(time.Duration(i) * 37)
	}
	for _, q := range []float64{0.001, 0.5, 0.99, 0.999} {
		want := q * 100_000 * 37
		require.InEpsilon(t, want, float64(h.Quantile(q)), 0.01, "%v", q)
	}
	require.EqualValues(t, 100_000, h.Count())
	require.InEpsilon(t, 99_999*37, float64(h.Quantile(1)), 0.01)
}

func TestEveryDurationHasItsBucket(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 127, 128, 255, 256, 257, time.Second, time.Hour, 1<<63 - 1} {
		at := bucket(uint64(d))
		require.LessOrEqual(t, lowest(at), uint64(d))
		if at+1 < len(Histogram{}.counts) {
			require.Greater(t, lowest(at+1), uint64(d))
		}
	}
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	h.Add(-5) // a clock that was set back
	require.Zero(t, h.Quantile(0.5))
}

func TestASourceKnowsItsRecordsAndNoOthers(t *testing.T) {
	made, knows := NewSource(128), NewSource(128)
	for _, n := range []int64{0, 100, 3900, 4000, 123_400} {
		for i, r := range made.Batch(n, 100) {
			r.Offset = n + int64(i)
			require.NoError(t, knows.CheckAll(&r, r.Offset))
			require.Error(t, knows.Check(&r, r.Offset+1))
			require.Error(t, knows.Check(&r, r.Offset+ring))
		}
	}
	good := made.Batch(700, 1)[0]
	good.Offset = 700
	for name, change := range map[string]func(r *Record){
		"offset": func(r *Record) { r.Offset++ }, "time": func(r *Record) { r.Time++ },
		"key": func(r *Record) { r.Key[0]++ }, "number of the key": func(r *Record) { r.Key[15]++ },
		"number of the value": func(r *Record) { r.Value[7]++ }, "end of the value": func(r *Record) { r.Value[127]++ },
		"short value": func(r *Record) { r.Value = r.Value[:127] }, "no key": func(r *Record) { r.Key = nil },
	} {
		r := Record{good.Offset, good.Time, append([]byte{}, good.Key...), append([]byte{}, good.Value...)}
		require.NoError(t, knows.Check(&r, 700))
		change(&r)
		require.Error(t, knows.Check(&r, 700), name)
	}
	middle := Record{good.Offset, good.Time, good.Key, append([]byte{}, good.Value...)}
	middle.Value[60]++
	require.Error(t, knows.CheckAll(&middle, 700))
}

func TestASiblingMakesTheSameRecordsBesideItsSource(t *testing.T) {
	made, knows := NewSource(128), NewSource(128)
	sibling := made.Sibling(100)
	for n := int64(0); n < 2*ring; n += 100 {
		var wg sync.WaitGroup
		wg.Go(func() { made.Batch(n+100, 100) })
		for i, r := range sibling.Batch(n, 100) {
			r.Offset = n + int64(i)
			require.NoError(t, knows.CheckAll(&r, r.Offset))
		}
		wg.Wait()
	}
}

func TestNoTwoRecordsNearEachOtherAreTheSame(t *testing.T) {
	s := NewSource(128)
	seen := map[string]bool{}
	for n := int64(0); n < 3*ring; n++ {
		r := s.Batch(n, 1)[0]
		require.False(t, seen[string(r.Value)])
		seen[string(r.Value)] = true
	}
	// Nor do they compress: a kilobyte of values has nothing that comes twice.
	batch := s.Batch(0, 100)
	require.NotEqual(t, batch[0].Value[8:16], batch[1].Value[8:16])
}

func TestTimesGoUpTenRecordsAtATimeAndEachWriterBeginsAnew(t *testing.T) {
	require.Equal(t, Epoch, TimeOf(9))
	require.Equal(t, Epoch+1, TimeOf(10))
	require.Equal(t, Epoch+1, TimeOf(3<<writerShift+10))
}

func TestRepeatEndsAtItsTimeItsLimitOrAnError(t *testing.T) {
	ops, elapsed, err := repeat(time.Millisecond, 1<<62, func(int64) error { return nil })
	require.NoError(t, err)
	require.Positive(t, ops)
	require.GreaterOrEqual(t, elapsed, time.Millisecond)

	next := int64(0)
	ops, _, err = repeat(time.Hour, 1000, func(i int64) error {
		require.Equal(t, next, i)
		next++
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1000, ops)

	wrong := errors.New("wrong")
	_, _, err = repeat(time.Hour, 1000, func(i int64) error {
		if i == 10 {
			return wrong
		}
		return nil
	})
	require.ErrorIs(t, err, wrong)
}

func TestWorkloadsHaveNamesOfTheirOwnAndTheirLogsAreMadeFirst(t *testing.T) {
	seen, made := map[string]bool{}, map[string]bool{}
	for _, w := range Works() {
		require.False(t, seen[w.ID], w.ID)
		seen[w.ID] = true
		require.NotEmpty(t, w.Title)
		require.NotNil(t, w.run, w.ID)
		made[w.Log] = made[w.Log] || w.Makes || w.Log == ""
		require.True(t, made[w.Log], "%s reads a log that nothing has made", w.ID)
		if w.Batch > 0 {
			require.Zero(t, ring%w.Batch, w.ID)
		}
		p := w.Params.Scaled(0.001)
		require.Equal(t, w.Records > 0, p.Records > 0)
		if p.Records > 0 && p.Batch > 0 {
			require.Zero(t, p.Records%int64(p.Batch), w.ID)
		}
	}
}

func TestTheReasonForTheLongestPrefixCounts(t *testing.T) {
	s := Spec{Notes: map[string]string{"get": "all", "get-100": "some"}}
	require.Equal(t, "some", s.NoteFor("get-100-1"))
	require.Equal(t, "all", s.NoteFor("get-1-1"))
	require.Empty(t, s.NoteFor("scan"))
}

func TestAJobOfAnUnknownStoreOrWorkloadIsAnError(t *testing.T) {
	specs := []Spec{{Name: "empty", Lacks: map[string]string{"scan": "cannot see"}}}
	require.NotEmpty(t, Run(Job{Store: "nobody", Work: "scan-100"}, specs).Error)
	require.NotEmpty(t, Run(Job{Store: "empty", Work: "no such"}, specs).Error)
	require.Equal(t, "cannot see", Run(Job{Store: "empty", Work: "scan-100"}, specs).Skipped)
	require.Equal(t, "keeps no keys", Run(Job{Store: "empty", Work: "compact-2m"}, specs).Skipped)
	require.Equal(t, "has no segments", Run(Job{Store: "empty", Work: "get-10segments"}, specs).Skipped)
}

func TestAStoreThatIsNoCodeOfOursDoesItsJobsItself(t *testing.T) {
	specs := []Spec{{Name: "other", Run: func(j Job) (map[string]float64, error) {
		if j.Work == "follow" {
			return nil, Lacking("does not follow")
		}
		return map[string]float64{"rec/s": 7}, nil
	}}}
	require.Equal(t, map[string]float64{"rec/s": 7}, Run(Job{Store: "other", Work: "append-1"}, specs).Figures)
	require.Equal(t, "does not follow", Run(Job{Store: "other", Work: "follow"}, specs).Skipped)
	var out strings.Builder
	require.NoError(t, Child(ChildArgs(`{"store":"other","work":"append-1"}`), specs, &out))
	require.JSONEq(t, `{"store":"other","work":"append-1","rep":0,"figures":{"rec/s":7}}`, out.String())
	require.Error(t, Child([]string{"bench"}, specs, &out))
}

func TestFloorsAreMeasured(t *testing.T) {
	res := Run(Job{Store: Floors, Work: Floors, Dir: t.TempDir(), BoxNs: 1e6}, nil)
	require.Empty(t, res.Error)
	if res.Skipped != "" {
		t.Log(res.Skipped)
		return
	}
	for _, f := range FloorRows {
		require.Positive(t, res.Figures[f.ID], f.ID)
	}
}

func TestUsageOfADirectoryIsThatOfItsFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), make([]byte, 100_000), 0o644))
	size, err := Usage(dir)
	require.NoError(t, err)
	require.InDelta(t, 100_000, size, 8192)
}
