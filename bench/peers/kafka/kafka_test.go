package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// classes are Kafka's own, so these tests need Java and Maven and fail without.
func classes(t *testing.T) *Classes {
	t.Helper()
	c, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T) *Driver {
	t.Helper()
	d, err := classes(t).Start(context.Background()) // the test's ends before it is closed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestEveryWorkloadOfKafkasLogHasAResult(t *testing.T) {
	o := LogOptions{Dir: t.TempDir(), Records: 2000, TailRecords: 2000, Value: 128, Seconds: 0.01}
	got := map[string]Named{}
	err := classes(t).RunLog(t.Context(), o, func(n Named) { got[n.Name] = n })
	if err != nil {
		t.Fatal(err)
	}
	if want := len(o.workloads()) + 2; len(got) != want {
		t.Errorf("%d results, want %d", len(got), want)
	}
	for name, n := range got {
		if n.Ops <= 0 || n.Seconds <= 0 || n.NsPerOp <= 0 || n.RecordsPerSecond <= 0 || n.End <= 0 {
			t.Errorf("%s: %+v", name, n)
		}
		if n.Lost != nil && (*n.Lost != 0 || n.End != o.TailRecords) {
			t.Errorf("%s: %d lost of %d, end %d", name, *n.Lost, o.TailRecords, n.End)
		}
	}
	left, err := os.ReadDir(o.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBothCleanersLeaveTheSameRecords(t *testing.T) {
	for _, keys := range []int{100, 2000} {
		o := CleanerOptions{Dir: t.TempDir(), Records: 2000, Keys: keys, Rounds: 2}
		r, err := classes(t).RunCleaner(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Survivors.Records != int64(keys) || r.Records != 2000 || len(r.Seglog) != 2 || len(r.Kafka) != 2 || r.Ratio() <= 0 {
			t.Errorf("%d keys: %+v", keys, r)
		}
	}
}

func TestADifferenceBetweenCleanersIsAnError(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a-0"), filepath.Join(dir, "b-0")
	for log, keys := range map[string]int{a: 100, b: 101} {
		if err := makeDirty(log, CleanerOptions{Records: 1000, Keys: keys}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sameSurvivors(t.Context(), start(t), a, b); err == nil {
		t.Error("no error")
	}
}

func TestBothIndexesGiveTheSameAnswers(t *testing.T) {
	r, err := classes(t).RunIndex(t.Context(), IndexOptions{Dir: t.TempDir(), Entries: 500, Rounds: 1, Seconds: 0.01, Warmup: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Seglog) != 1 || len(r.Kafka) != 1 || r.Seglog[0] <= 0 || r.Kafka[0] <= 0 || r.JMH == "" {
		t.Errorf("%+v", r)
	}
}

func TestADriverGoesOnBehindARequestThatFails(t *testing.T) {
	d := start(t)
	for _, r := range []Request{{Op: "nonsense"}, {Op: "get", Dir: filepath.Join(t.TempDir(), "noPartition")}} {
		if res, err := d.Do(r); err == nil {
			t.Errorf("%+v: %+v", r, res)
		}
	}
	res, err := d.Do(Request{Op: "version"})
	if err != nil || res.Kafka != Version() || res.Java == "" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestADriverThatIsGoneIsAnError(t *testing.T) {
	d := start(t)
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	if res, err := d.Do(Request{Op: "version"}); err == nil {
		t.Errorf("%+v", res)
	}
}

// The harness gives a job and reads a result. A later job reads the log of an earlier
// one.
func TestAJobOfTheHarnessHasItsFigures(t *testing.T) {
	root, c := t.TempDir(), classes(t)
	for _, w := range []struct {
		work, dir string
		figures   []string
	}{
		{"append-100", "append", []string{"rec/s", "records", "anon", "rss"}},
		{"sync-1", "sync", []string{"rec/s", "records"}},
		{"latency", "latency", []string{"p50", "p99", "p99.9", "count"}},
		{"fill-100", "log", []string{"rec/s", "bytes/rec"}},
		{"get-100-2", "log", []string{"ops", "ops/s", "ns/op"}},
		{"time-100", "log", []string{"ns/op"}},
		{"scan-100", "log", []string{"rec/s", "MB/s"}},
		{"open-clean", "log", []string{"ms"}},
		{"drop", "log", []string{"ms", "freed"}},
		{"open-killed", "killed", []string{"ms", "appended", "lost"}},
	} {
		text, err := json.Marshal(job{
			Store: "kafka", Work: w.work, Dir: filepath.Join(root, w.dir), BoxNs: 1e6, MaxBytes: 1 << 20, Records: 4000, Batch: 100,
			Value: 128, Goroutines: 2, Sync: w.work == "sync-1", SegmentBytes: 100 << 10, TailBytes: 1 << 18,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, w.dir), 0o755); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := c.RunJob(t.Context(), string(text), &out); err != nil {
			t.Fatal(err)
		}
		var res jobResult
		if err := json.Unmarshal(out.Bytes(), &res); err != nil {
			t.Fatal(err)
		}
		if res.Error != "" || res.Skipped != "" || res.Store != "kafka" || res.Work != w.work {
			t.Fatalf("%s: %+v", w.work, res)
		}
		for _, name := range w.figures {
			if f, ok := res.Figures[name]; !ok || f < 0 || f == 0 && name != "lost" && name != "freed" {
				t.Errorf("%s: %s is %v", w.work, name, res.Figures)
			}
		}
		if lost := res.Figures["lost"]; lost != 0 {
			t.Errorf("%v acknowledged records lost", lost)
		}
	}
}

func TestAJobThatCannotBeDoneSaysWhy(t *testing.T) {
	failing := func(context.Context, job) (map[string]float64, error) {
		return map[string]float64{"ms": 1}, errors.New("disk full")
	}
	for work, want := range map[string]string{
		"follow":      `{"store":"kafka","work":"follow","skipped":"` + cannot["follow"] + `"}`,
		"compact-2m":  `{"store":"kafka","work":"compact-2m","skipped":"` + cannot["compact"] + `"}`,
		"append-1-1k": `{"store":"kafka","work":"append-1-1k","error":"disk full"}`,
	} {
		var out bytes.Buffer
		err := printJob(t.Context(), fmt.Sprintf(`{"store":"kafka","work":%q}`, work), &out, failing)
		if got := out.String(); err != nil || got != want+"\n" {
			t.Errorf("%s: %s, %v, want %s", work, got, err, want)
		}
	}
}

func TestWithoutJavaItIsSaidSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Build(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("%v", err)
	}
}

func TestTheVersionIsThatOfTheInteropSuite(t *testing.T) {
	pom, err := os.ReadFile("../../../interop/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	if theirs := versionIn(pom); theirs == "" || Version() != theirs {
		t.Errorf("%s here, %s in interop/pom.xml", Version(), theirs)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3}} {
		if got := Median(c.figures); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.figures, got, c.want)
		}
	}
}
