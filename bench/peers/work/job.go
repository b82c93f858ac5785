package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"
)

// Job is what one process does: a workload of a store, once.
type Job struct {
	Store string `json:"store"`
	Work  string `json:"work"`
	// Dir is the directory of the store: empty for a workload that makes its log, and
	// otherwise the one that a fill made.
	Dir string `json:"dir"`
	// Seed makes what is random the same for all stores of a repetition.
	Seed uint64 `json:"seed"`
	// BoxNs is how long a rate is measured.
	BoxNs int64 `json:"box_ns"`
	// MaxBytes ends an append workload before its time, so that a fast store does not
	// fill the disk.
	MaxBytes int64 `json:"max_bytes"`
	// Profile, if it is not "", is the file that a CPU profile of the process is written to.
	Profile string `json:"profile,omitempty"`
	Params
}

// Params are what the workloads of one kind differ in. What a workload has no use for
// is zero.
type Params struct {
	// Records is how many there are: in the log that is read, or to be put.
	Records int64 `json:"records,omitempty"`
	// Batch is the number of records of an append.
	Batch int `json:"batch,omitempty"`
	// Value is the size of a value in bytes.
	Value int `json:"value,omitempty"`
	// Goroutines is how many do it at once.
	Goroutines int `json:"goroutines,omitempty"`
	// Sync: each append waits for the disk.
	Sync bool `json:"sync,omitempty"`
	// SegmentBytes and Exactly are those of Options.
	SegmentBytes int64 `json:"segment_bytes,omitempty"`
	Exactly      bool  `json:"exactly,omitempty"`
	// Keys is the number of different keys.
	Keys int64 `json:"keys,omitempty"`
	// TailBytes is the size of keys and values that a writer that is to be killed
	// appends.
	TailBytes int64 `json:"tail_bytes,omitempty"`
}

// Result is what came of a job.
type Result struct {
	Store string `json:"store"`
	Work  string `json:"work"`
	Rep   int    `json:"rep"`
	// Figures are what was measured, by name. "anon" and "rss" are the most memory of
	// the process, in bytes: without and with mapped files.
	Figures map[string]float64 `json:"figures,omitempty"`
	// Skipped is why the store cannot do it, Error why it did not.
	Skipped string `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
}

// lacking is the reason why a store cannot do a workload.
type lacking string

func (l lacking) Error() string { return string(l) }

// Lacking is the error of a workload that a store cannot do, with the reason.
func Lacking(reason string) error { return lacking(reason) }

// Run does a job in this process.
func Run(job Job, specs []Spec) Result {
	result := Result{Store: job.Store, Work: job.Work}
	figures, err := profiled(job.Profile, func() (map[string]float64, error) { return run(job, specs) })
	var reason lacking
	switch {
	case errors.As(err, &reason):
		result.Skipped = reason.Error()
	case err != nil:
		result.Error = err.Error()
	default:
		result.Figures = figures
	}
	return result
}

// profiled does something under a CPU profile, if one is asked for.
func profiled(name string, does func() (map[string]float64, error)) (map[string]float64, error) {
	if name == "" {
		return does()
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	figures, err := does()
	pprof.StopCPUProfile()
	return figures, errors.Join(err, f.Close())
}

func run(job Job, specs []Spec) (map[string]float64, error) {
	if job.Store == Floors {
		return runFloors(job)
	}
	spec, err := find(job.Store, specs)
	if err != nil {
		return nil, err
	}
	if reason := longest(spec.Lacks, job.Work); reason != "" {
		return nil, lacking(reason)
	}
	w, err := workOf(job.Work)
	if err != nil {
		return nil, err
	}
	if w.run == nil {
		return nil, fmt.Errorf("workload %q is not run", job.Work)
	}
	if w.Segments && !spec.Segments {
		return nil, lacking("has no segments")
	}
	if spec.Run != nil {
		return spec.Run(job)
	}
	t := &task{Job: job, spec: spec, figures: map[string]float64{}, random: rand.New(rand.NewPCG(job.Seed, 1)),
		source: NewSource(max(16, job.Value))}
	t.memory = watchMemory()
	if err := w.run(t); err != nil {
		return nil, err
	}
	t.measured()
	return t.figures, nil
}

func find(name string, specs []Spec) (Spec, error) {
	for _, s := range specs {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("no store %q", name)
}

// longest is the text under the longest key that is a prefix of an ID.
func longest(texts map[string]string, id string) string {
	best, text := -1, ""
	for prefix, t := range texts {
		if len(prefix) > best && strings.HasPrefix(id, prefix) {
			best, text = len(prefix), t
		}
	}
	return text
}

// NoteFor is what must be known of a store's figures of a workload.
func (s Spec) NoteFor(work string) string { return longest(s.Notes, work) }

// task is a job that is being done.
type task struct {
	Job
	spec    Spec
	source  *Source
	random  *rand.Rand
	figures map[string]float64
	memory  func() (anon, all float64)
}

// measured ends the watch over memory: what comes behind are checks.
func (t *task) measured() {
	if t.memory == nil {
		return
	}
	t.figures["anon"], t.figures["rss"] = t.memory()
	t.memory = nil
}

func (t *task) box() time.Duration { return time.Duration(t.BoxNs) }

func (t *task) open(sync bool, writers int) (Log, error) {
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return nil, err
	}
	return t.spec.Open(t.Dir, Options{Sync: sync, Writers: writers, SegmentBytes: t.SegmentBytes, Exactly: t.Exactly})
}

// lacks is the error of a log that is no T.
func lacks[T any](l Log) (T, error) {
	able, ok := l.(T)
	if !ok {
		return able, lacking("has no call for it")
	}
	return able, nil
}

// repeat calls op with 0, 1, ... until the time is over or the limit reached; the clock
// is read about twice in a millisecond.
func repeat(box time.Duration, limit int64, op func(i int64) error) (ops int64, elapsed time.Duration, err error) {
	start := time.Now()
	for chunk := int64(1); ; {
		before := elapsed
		for end := min(limit, ops+chunk); ops < end; ops++ {
			if err := op(ops); err != nil {
				return ops, 0, err
			}
		}
		elapsed = time.Since(start)
		if elapsed >= box || ops >= limit {
			return ops, elapsed, nil
		}
		if elapsed-before < 500*time.Microsecond {
			chunk *= 2
		}
	}
}

// Usage is what the files under a directory take up on disk.
func Usage(dir string) (int64, error) {
	sum := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed behind us
			return nil
		}
		if err == nil {
			sum += onDisk(info)
		}
		return err
	})
	return sum, err
}

// ParseJob reads a job.
func ParseJob(text string) (Job, error) {
	var job Job
	err := json.Unmarshal([]byte(text), &job)
	return job, err
}
