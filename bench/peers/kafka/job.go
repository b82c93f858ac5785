package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// jobWarmup is for how long a job is warmed up before it is timed: a JVM compiles what
// it does often, in two steps.
const jobWarmup = 3 // seconds

// job is a job of the harness: one workload, once, on a directory. Its fields are
// those of Job in the harness.
type job struct {
	Store        string `json:"store"`
	Work         string `json:"work"`
	Dir          string `json:"dir"`
	Seed         int64  `json:"seed"`
	BoxNs        int64  `json:"box_ns"`
	MaxBytes     int64  `json:"max_bytes"`
	Records      int64  `json:"records"`
	Batch        int    `json:"batch"`
	Value        int    `json:"value"`
	Goroutines   int    `json:"goroutines"`
	Sync         bool   `json:"sync"`
	SegmentBytes int    `json:"segment_bytes"`
	TailBytes    int64  `json:"tail_bytes"`
}

// jobResult is what the harness reads: figures by their names there.
type jobResult struct {
	Store   string             `json:"store"`
	Work    string             `json:"work"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Skipped string             `json:"skipped,omitempty"`
	Error   string             `json:"error,omitempty"`
}

// cannot is why there is no such workload for Kafka's classes, by the beginning of its
// name.
var cannot = map[string]string{
	"latency-cleaner": "the cleaner is measured by itself, against ours",
	"follow":          "a log tells nobody of an append: fetches that wait are the broker's",
	"fill-keys":       "the cleaner is measured by itself, on files of ours",
	"compact":         "the cleaner is measured by itself, on files of ours",
	"commit":          "committed offsets are the broker's group coordinator's",
}

// RunJob does a job of the harness in a JVM of its own, and prints the result: both
// are JSON. Only a job that cannot be read, and a result that cannot be printed, are
// errors.
func (c *Classes) RunJob(ctx context.Context, text string, out io.Writer) error {
	return printJob(ctx, text, out, c.figures)
}

func printJob(ctx context.Context, text string, out io.Writer, run func(context.Context, job) (map[string]float64, error)) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	res := jobResult{Store: j.Store, Work: j.Work}
	for prefix, reason := range cannot {
		if strings.HasPrefix(j.Work, prefix) {
			res.Skipped = reason
		}
	}
	if res.Skipped == "" {
		figures, err := run(ctx, j)
		if res.Figures = figures; err != nil {
			res.Figures, res.Error = nil, err.Error()
		}
	}
	return json.NewEncoder(out).Encode(res)
}

// figures does the job.
func (c *Classes) figures(ctx context.Context, j job) (figures map[string]float64, err error) {
	d, err := c.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var res Result
	kind, _, _ := strings.Cut(j.Work, "-")
	switch {
	case j.Work == "open-killed":
		return c.killed(ctx, d, j)
	case j.Work == "drop":
		return dropped(d, j)
	case kind == "append" || kind == "sync":
		res, err = d.Do(j.request("append"))
	case kind == "fill" || kind == "latency" || kind == "get" || kind == "time" || kind == "scan" || kind == "open":
		res, err = d.Do(j.request(kind))
	default:
		return nil, fmt.Errorf("no workload %q", j.Work)
	}
	if err != nil {
		return nil, err
	}
	return j.named(kind, res)
}

// log is the partition's directory. Its name has to be a topic's.
func (j job) log() string { return filepath.Join(j.Dir, "log-0") }

func (j job) request(op string) Request {
	return Request{
		Op: op, Dir: j.log(), Records: j.Records, Batch: j.Batch, Value: j.Value, Threads: j.Goroutines, Sync: j.Sync,
		Seconds: float64(j.BoxNs) / 1e9, Warmup: min(jobWarmup, 6*float64(j.BoxNs)/1e9), MaxBytes: j.MaxBytes,
		SegmentBytes: j.SegmentBytes, Seed: j.Seed,
	}
}

// named are the figures of a result by the names that the harness has for them.
func (j job) named(kind string, res Result) (map[string]float64, error) {
	f := map[string]float64{"anon": float64(res.AnonBytes), "rss": float64(res.PeakRSSBytes)}
	switch kind {
	case "append", "sync":
		f["rec/s"], f["records"] = res.RecordsPerSecond, float64(res.Ops)*float64(j.Batch)
	case "fill":
		size, err := sizeOf(j.Dir)
		if err != nil {
			return nil, err
		}
		f["rec/s"], f["bytes/rec"] = res.RecordsPerSecond, float64(size)/float64(j.Records)
	case "latency":
		f["p50"], f["p99"], f["p99.9"], f["count"] = float64(res.P50Ns), float64(res.P99Ns), float64(res.P999Ns), float64(res.Ops)
	case "get":
		f["ops"], f["ops/s"], f["ns/op"] = float64(res.Ops), res.RecordsPerSecond, res.NsPerOp*float64(max(1, j.Goroutines))
	case "time":
		f["ns/op"] = res.NsPerOp
	case "scan":
		f["rec/s"], f["MB/s"] = res.RecordsPerSecond, res.RecordsPerSecond*float64(16+j.Value)/1e6
	case "open":
		f["ms"] = float64(res.MedianNs) / 1e6
	}
	if kind != "append" && kind != "sync" && kind != "latency" && res.End != j.Records {
		return nil, fmt.Errorf("%s: the log ends at %d, want %d", j.Work, res.End, j.Records)
	}
	return f, nil
}

// sizeOf is the size of the files under a directory.
func sizeOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// killed has another JVM append, kills it, and opens what it left.
func (c *Classes) killed(ctx context.Context, d *Driver, j job) (map[string]float64, error) {
	writer, err := c.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	fill := j.request("fill")
	fill.Records, fill.KeepOpen = max(1, j.TailBytes/int64(16+j.Value)), true
	filled, err := writer.Do(fill)
	if err != nil {
		return nil, err
	}
	if err := writer.Kill(); err != nil {
		return nil, err
	}
	open := j.request("open")
	open.Unclean, open.RecoveryPoint = true, filled.ActiveBase
	res, err := d.Do(open)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"ms": float64(res.MedianNs) / 1e6, "appended": float64(filled.End), "lost": float64(max(0, filled.End-res.End)),
		"anon": float64(res.AnonBytes), "rss": float64(res.PeakRSSBytes),
	}, nil
}

// dropped drops the first half of a copy of the log to warm up, and then that of the
// log.
func dropped(d *Driver, j job) (map[string]float64, error) {
	warm, err := os.MkdirTemp(filepath.Dir(j.Dir), "warm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(warm)
	other := j
	other.Dir = warm
	if err := copyLog(j.log(), other.log()); err != nil {
		return nil, err
	}
	if _, err := d.Do(other.request("drop")); err != nil {
		return nil, err
	}
	res, err := d.Do(j.request("drop"))
	return map[string]float64{
		"ms": float64(res.VisibleNs) / 1e6, "freed": res.FreedPercent,
		"anon": float64(res.AnonBytes), "rss": float64(res.PeakRSSBytes),
	}, err
}
