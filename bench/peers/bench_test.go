//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/bench/peers/adapters"
	"github.com/seglog/seglog/bench/peers/report"
	"github.com/seglog/seglog/bench/peers/work"
)

// The processes of a run are this binary again.
func TestMain(m *testing.M) {
	if os.Getenv(work.ChildEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestARunHasAResultOfEveryStoreWorkloadAndRepetition(t *testing.T) {
	dir := t.TempDir()
	f := flags{reps: 2, box: time.Millisecond, scale: 0.001, maxBytes: 1 << 20, limit: time.Minute, stores: "seglog,bbolt",
		works: "^(append-100|get-100-1|open-killed|compact-100k)$", dir: dir, profile: t.TempDir()}
	r, err := f.run(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Failures())
	count := map[string]int{}
	for _, res := range r.Results {
		count[res.Store+" "+res.Work]++
		require.NotEqual(t, res.Figures == nil, res.Skipped == "", "%+v", res)
	}
	want := map[string]int{"floors floors": 2}
	for _, id := range []string{"append-100", "fill-100", "get-100-1", "open-killed", "fill-keys-100k", "compact-100k"} {
		want["seglog "+id], want["bbolt "+id] = 2, 2
	}
	require.Equal(t, want, count)
	require.NotEmpty(t, r.Stores[1].Version)
	require.Equal(t, 2, r.Settings.Reps)

	require.FileExists(t, filepath.Join(f.profile, "bbolt-get-100-1-2.pprof"))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays on the disk")
	require.NoError(t, r.Write(filepath.Join(dir, "out")))
}

func TestAProcessThatDiesIsAFailure(t *testing.T) {
	f := flags{box: time.Millisecond, limit: time.Minute}
	res := f.child(t.Context(), work.Job{Store: "no such", Work: "append-1", Dir: filepath.Join(t.TempDir(), "log")})
	require.Contains(t, res.Error, "no store")
	_, err := f.process(t.Context(), t.TempDir(), "no such command")
	require.ErrorContains(t, err, "usage")
	f.limit = time.Nanosecond
	res = f.child(t.Context(), work.Job{Store: "seglog", Work: "append-1", Dir: filepath.Join(t.TempDir(), "log")})
	require.NotEmpty(t, res.Error)
}

func TestWhatIsWrongWithTheFlagsIsSaid(t *testing.T) {
	for _, args := range [][]string{{"-reps", "0"}, {"-box", "0"}, {"-scale", "-1"}, {"extra"}, {"-no-such"}} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	_, err := flags{stores: "seglog,nobody"}.selectStores()
	require.Error(t, err)
	_, err = flags{works: "no such"}.selectWorks()
	require.Error(t, err)
	_, err = flags{works: "("}.selectWorks()
	require.Error(t, err)
	require.Error(t, run(nil))
	require.Error(t, run([]string{"nothing"}))
}

func TestTheCommandOfAReportAsksForTheSame(t *testing.T) {
	f, err := parse([]string{"-works", "^(get|scan)", "-dir", t.TempDir(), "-growth", "-out", "../../docs/benchmarks", "-reps", "7"})
	require.NoError(t, err)
	require.Equal(t, "go run . bench -growth=true -out=../../docs/benchmarks -reps=7 -works='^(get|scan)'", f.command)
}

func TestALogIsMadeForWhatReadsItAlone(t *testing.T) {
	works, err := flags{works: "^scan-1$"}.selectWorks()
	require.NoError(t, err)
	require.Equal(t, []string{"fill-1", "scan-1"}, []string{works[0].ID, works[1].ID})
	works, err = flags{works: "^get-4gib"}.selectWorks()
	require.Error(t, err, "growth is asked for by a flag: %v", works)
	works, err = flags{works: "^open-4gib", growth: true}.selectWorks()
	require.NoError(t, err)
	require.Len(t, works, 2)
}

func TestADuelHasResultsOfBoth(t *testing.T) {
	d := work.Duels()[0]
	results := duelResults(d, duelResult{Ours: []float64{1, 2}, Theirs: []float64{3, 4}}, nil)
	require.Equal(t, []work.Result{
		{Store: report.Ours, Work: d.ID, Figures: map[string]float64{"rec/s": 1}},
		{Store: theirs, Work: d.ID, Figures: map[string]float64{"rec/s": 3}},
		{Store: report.Ours, Work: d.ID, Rep: 1, Figures: map[string]float64{"rec/s": 2}},
		{Store: theirs, Work: d.ID, Rep: 1, Figures: map[string]float64{"rec/s": 4}},
	}, results)
	for _, r := range duelResults(d, duelResult{Skipped: "no Java"}, nil) {
		require.Equal(t, "no Java", r.Skipped)
	}
	for _, r := range duelResults(d, duelResult{}, os.ErrClosed) {
		require.NotEmpty(t, r.Error)
	}
}

// A store in the tables has an adapter that says how it is set up.
func TestEveryStoreSaysHowItIsSetUp(t *testing.T) {
	names := map[string]bool{}
	for _, s := range adapters.All() {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		require.NotEmpty(t, s.How, s.Name)
		require.NotEmpty(t, versionOf(s), s.Name)
	}
	require.True(t, names[report.Ours] && names[theirs])
}
