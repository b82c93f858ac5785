package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/bench/peers/work"
)

func TestSummaries(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"one", []float64{3}, Summary{3, 3, 3, 0, 1}},
		{"odd", []float64{5, 1, 3}, Summary{3, 1, 5, 2, 3}},
		{"even", []float64{4, 1, 3, 2}, Summary{2.5, 1, 4, 1, 4}},
		{"an outlier moves neither", []float64{10, 11, 9, 10, 1000}, Summary{10, 9, 1000, 1, 5}},
	} {
		require.Equal(t, tt.want, Summarize(tt.values), tt.name)
	}
	values := []float64{3, 1, 2}
	Summarize(values)
	require.Equal(t, []float64{3, 1, 2}, values, "they stay in their order")
}

func TestAFactorAboveOneIsBetter(t *testing.T) {
	f, ok := Factor(200, 100, true)
	require.True(t, ok)
	require.InDelta(t, 2, f, 0)
	f, _ = Factor(200, 100, false)
	require.InDelta(t, 0.5, f, 0)
	_, ok = Factor(0, 100, false)
	require.False(t, ok, "none lost is not infinitely better")
	_, ok = Factor(-7, 40, true)
	require.False(t, ok)
}

func TestNumbersShowTheDigitsThatCount(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "0.373": 0.3731, "2.5": 2.5, "37.3": 37.31, "373": 373.1, "3,492,000": 3492000, "-7.06": -7.06,
		"-1,234": -1234} {
		require.Equal(t, want, number(v))
	}
}

// example is a run of three peers, of which one loses records, one cannot scan and one
// fails once, and of a variant of ours that is better than all.
func example() *Run {
	r := &Run{
		Machine: Machine{Date: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Took: 90 * time.Second, CPU: "Example CPU", Cores: 2,
			Memory: 24 << 30, OS: "Linux 6.18", FS: "ext4", Go: "go1.26", Commit: "0123456789ab", Stolen: 0.001, Others: 0.02, Load: 0.1},
		Settings: Settings{Command: "go run . bench", Reps: 3, Box: 500 * time.Millisecond, Scale: 1, Warm: 1 << 30},
		Stores: []Store{
			{Name: "seglog", Version: "this commit", How: "default"},
			{Name: "seglog, other", Of: "seglog", Version: "this commit", How: "a | in the text"},
			{Name: "quick", Module: "example.org/quick", Version: "v1.2.3", How: "default", Notes: map[string]string{"append": "not <safe>"}},
			{Name: "safe", Module: "example.org/safe", Version: "v0.1.0", How: "default"},
			{Name: "broken", Version: "v0", How: "default"},
		},
	}
	add := func(store, id, figure string, values ...float64) {
		for rep, v := range values {
			r.Results = append(r.Results, work.Result{Store: store, Work: id, Rep: rep, Figures: map[string]float64{figure: v, "anon": 5 << 20}})
		}
	}
	add(work.Floors, work.Floors, "write", 1000, 1100, 900)
	add("seglog", "append-1", "rec/s", 300e3, 330e3, 310e3)
	add("seglog, other", "append-1", "rec/s", 900e3, 900e3, 900e3)
	add("quick", "append-1", "rec/s", 400e3, 420e3, 390e3)
	add("safe", "append-1", "rec/s", 100e3, 90e3, 110e3)
	add("broken", "append-1", "rec/s", 999e3, 999e3)
	r.Results = append(r.Results, work.Result{Store: "broken", Work: "append-1", Rep: 2, Error: "record 7: bytes of another"})
	add("seglog", "open-killed", "lost", 0, 0, 0)
	add("quick", "open-killed", "lost", 0, 12300, 0)
	add("safe", "open-killed", "lost", 0, 0, 0)
	add("seglog", "get-100-1", "ns/op", 400, 380, 390)
	add("quick", "get-100-1", "ns/op", 5e6, 4e6, 6e6)
	add("seglog", "get-100-1", "ops/s", 1) // of no row
	for rep := range 3 {
		r.Results = append(r.Results, work.Result{Store: "safe", Work: "get-100-1", Rep: rep, Skipped: "is read as a whole only"})
	}
	add("seglog", "get-1-1", "ops/s", 100, 100, 100)
	add("seglog", "get-1-2", "ops/s", 190, 180, 200)
	return r
}

func lineOf(t *testing.T, r *Run, id string) Line {
	for _, l := range r.Lines() {
		if l.ID == id {
			return l
		}
	}
	t.Fatalf("no row %s", id)
	return Line{}
}

func TestOursIsComparedWithTheBestPeerAndTheBestThatLosesNothing(t *testing.T) {
	l := lineOf(t, example(), "append-1")
	require.Equal(t, "quick", l.Best.Store.Name)
	require.Equal(t, "safe", l.Safe.Store.Name)
	require.Equal(t, "0.78", l.Factor(l.Best))
	require.Equal(t, "3.10", l.Factor(l.Safe))
}

func TestAStoreThatFailedOnceHasNoFigure(t *testing.T) {
	l := lineOf(t, example(), "append-1")
	last := l.Cells[len(l.Cells)-1]
	require.Equal(t, "broken", last.Store.Name)
	require.Nil(t, last.Summary)
	require.True(t, last.Failed)
	require.Len(t, example().Failures(), 1)
}

func TestWhatAStoreCannotDoIsADashWithTheReason(t *testing.T) {
	l := lineOf(t, example(), "get-100-1")
	require.Equal(t, []string{"seglog", "quick", "safe"}, []string{l.Cells[0].Store.Name, l.Cells[1].Store.Name, l.Cells[2].Store.Name})
	require.Equal(t, "is read as a whole only", l.Cells[2].Why)
}

func TestARowMayBeTheRatioOfTwo(t *testing.T) {
	require.InDelta(t, 1.9, lineOf(t, example(), "get-1-2-over-1").Ours.Summary.Median, 1e-9)
}

func TestARowMayBeTheSumOfTwo(t *testing.T) {
	r := example()
	for rep := range 3 {
		r.Results = append(r.Results,
			work.Result{Store: "seglog", Work: "fill-keys-2m", Rep: rep, Figures: map[string]float64{"s": 2}},
			work.Result{Store: "seglog", Work: "compact-2m", Rep: rep, Figures: map[string]float64{"s": 3}})
	}
	require.InDelta(t, 5, lineOf(t, r, "put-and-compact-2m").Ours.Summary.Median, 1e-9)
}

func TestARowThatIsThereToBeReadHasNoBest(t *testing.T) {
	r := example()
	for rep := range 3 {
		for _, id := range []string{"get-1-1", "get-1-2"} {
			r.Results = append(r.Results, work.Result{Store: "quick", Work: id, Rep: rep, Figures: map[string]float64{"ops/s": 1}})
		}
	}
	require.Nil(t, lineOf(t, r, "get-1-2-over-1").Best)
	require.NotNil(t, lineOf(t, r, "get-1-2").Best)
}

func TestTheMostMemoryOfAllWorkloadsIsARow(t *testing.T) {
	r := example()
	r.Results = append(r.Results,
		work.Result{Store: "seglog", Work: "scan-100", Rep: 1, Figures: map[string]float64{"anon": 9 << 20}},
		work.Result{Store: "seglog", Work: "compact-2m", Rep: 1, Figures: map[string]float64{"anon": 128 << 20}})
	require.Equal(t, Summary{5, 5, 9, 0, 3}, *lineOf(t, r, "anon").Ours.Summary)
}

func TestAReportIsTheSameForTheSameRun(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(first, "old-row.svg"), []byte("<svg/>"), 0o644))
	require.NoError(t, example().Write(first))
	read, err := Read(filepath.Join(first, "results.json"))
	require.NoError(t, err)
	require.NoError(t, read.Write(second))
	names, err := filepath.Glob(filepath.Join(first, "*"))
	require.NoError(t, err)
	require.NotContains(t, names, filepath.Join(first, "old-row.svg"))
	require.Len(t, names, 2+len(example().Lines()))
	for _, name := range names {
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(second, filepath.Base(name)))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

func TestTheReportShowsWhatIsLostAsPlainlyAsWhatIsWon(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, example().Write(dir))
	content, err := os.ReadFile(filepath.Join(dir, "results.md"))
	require.NoError(t, err)
	text := string(content)
	for _, want := range []string{
		"| append 1, no sync | krec/s | 310 | quick | 400 | **0.78** | safe | 3.10 |",
		"killed in this run (quick up to 12,300)",
		"| write(2) of 215 B, a batch of one record | ns | 1,000 | 900 | 1,100 |",
		"| quick<br>`example.org/quick` | v1.2.3 | default |",
		"a \\| in the text",
		"| quick | 400 | 390 | 420 | 10.0 | 1.00 | not &lt;safe> |",
		"| broken | - | | | | | **failed**: record 7: bytes of another |",
		"| safe | - | | | | | is read as a whole only |",
		"![append 1, no sync](append-1.svg)",
		"`go run . bench`",
		"0.1 % was stolen by the host, 2.0 % went to other processes",
	} {
		require.Contains(t, text, want)
	}
}

func TestTheTextHasEveryStoreOfARow(t *testing.T) {
	var out bytes.Buffer
	example().Text(&out)
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"append 1, no sync seglog, other 900 900 900 krec/s 2.25",
		"quick 400 390 420 krec/s 1.00",
		"seglog 310 300 330 krec/s 0.78",
		"broken: FAILED record 7: bytes of another",
	} {
		require.Contains(t, rows, want)
	}
}

func TestPicturesAreWellFormedAndStayWithinTheirFrame(t *testing.T) {
	for _, l := range example().Lines() {
		decoder := xml.NewDecoder(bytes.NewReader(picture(l)))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, l.ID)
		}
	}
	far := string(picture(lineOf(t, example(), "get-100-1")))
	require.Contains(t, far, "less is better, logarithmic")
	scale, logarithmic := axis(lineOf(t, example(), "get-100-1").Cells[:2])
	require.True(t, logarithmic)
	require.InDelta(t, 1, scale(6e6), 1e-9)
	require.Zero(t, scale(0))
	require.NotContains(t, string(picture(lineOf(t, example(), "append-1"))), "logarithmic")
	_, logarithmic = axis(nil)
	require.False(t, logarithmic)
}

func TestRowsHaveNamesOfTheirOwnAndWorkloadsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, w := range work.Works() {
		known[w.ID] = true
	}
	for _, d := range work.Duels() {
		known[d.ID] = true
	}
	seen := map[string]bool{}
	for _, row := range Rows() {
		require.False(t, seen[row.ID], row.ID)
		seen[row.ID] = true
		require.NotEmpty(t, row.Title, row.ID)
		require.Regexp(t, `^[a-z0-9-]+$`, row.ID)
		require.Positive(t, row.PerUnit)
		if row.MostOf == nil {
			require.True(t, known[row.Work], row.ID)
		}
	}
}
