//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seglog/seglog/bench/peers/adapters"
	"github.com/seglog/seglog/bench/peers/report"
	"github.com/seglog/seglog/bench/peers/work"
)

type flags struct {
	reps     int
	box      time.Duration
	scale    float64
	maxBytes int64
	warm     int64
	limit    time.Duration
	stores   string
	works    string
	growth   bool
	dir, out string
	from     string
	profile  string
	list     bool
	command  string // that asks for the same
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.IntVar(&f.reps, "reps", 5, "repetitions; they are the outer loop, and the order of stores rotates")
	set.DurationVar(&f.box, "box", 500*time.Millisecond, "how long a rate is measured")
	set.Float64Var(&f.scale, "scale", 1, "part of the full number of records in logs that are read; 1 is 2,000,000")
	set.Int64Var(&f.maxBytes, "max-bytes", 1<<30, "keys and values that an append workload ends at before its time")
	set.Int64Var(&f.warm, "warm", 1<<30, "bytes of memory that are touched before each process, so that none has to wait for a host to give pages")
	set.DurationVar(&f.limit, "limit", 20*time.Minute, "a process that takes longer has failed")
	set.StringVar(&f.stores, "stores", "", "stores, separated by commas; all if empty")
	set.StringVar(&f.works, "works", "", "regular expression of the IDs of workloads; all if empty")
	set.BoolVar(&f.growth, "growth", false, "logs of 1, 4 and 16 GiB and of 10, 100 and 5,000 segments as well: takes 40 GB of disk and hours")
	set.StringVar(&f.dir, "dir", "", "where the stores live, on the disk that is to be measured; a temporary directory if empty")
	set.StringVar(&f.out, "out", "", "directory for results.md, results.json and the pictures; none are written if empty")
	set.StringVar(&f.from, "from", "", "a results.json of an earlier run to report, in place of a run")
	set.StringVar(&f.profile, "profile", "", "directory for a CPU profile of each process; the rates suffer a little")
	set.BoolVar(&f.list, "list", false, "list stores and workloads")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.command = "go run . bench"
	set.Visit(func(g *flag.Flag) {
		if g.Name == "dir" || filepath.IsAbs(g.Value.String()) { // of one machine only
			return
		}
		f.command += fmt.Sprintf(" -%s=%s", g.Name, quoted(g.Value.String()))
	})
	if set.NArg() > 0 || f.reps < 1 || f.box <= 0 || !(f.scale > 0 && f.scale <= mostScale) {
		return f, fmt.Errorf("bench takes flags only; repetitions, box and scale are above 0, and scale no more than %d", mostScale)
	}
	if f.out != "" { // not only when all is measured
		return f, os.MkdirAll(f.out, 0o755)
	}
	return f, nil
}

// mostScale is 2,000 million records.
const mostScale = 1000

// quoted is a word for a shell.
func quoted(text string) string {
	if regexp.MustCompile(`^[\w./,-]+$`).MatchString(text) {
		return text
	}
	return "'" + text + "'"
}

// bench does one job if it is a child, and otherwise runs them all.
func bench(args []string) error {
	if len(args) == 2 && args[0] == "job" {
		return work.Child([]string{"bench", args[0], args[1]}, adapters.All(), os.Stdout)
	}
	if len(args) == 2 && args[0] == "duel" {
		return duel(args[1], os.Stdout)
	}
	f, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	var r *report.Run
	switch {
	case f.list:
		list()
		return nil
	case f.from != "":
		r, err = report.Read(f.from)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		r, err = f.run(ctx)
	}
	if err != nil {
		return err
	}
	r.Text(os.Stdout)
	if f.out != "" {
		if err := r.Write(f.out); err != nil {
			return err
		}
	}
	if failed := r.Failures(); len(failed) > 0 {
		return fmt.Errorf("%d of %d failed, the first: %s, %s: %s", len(failed), len(r.Results), failed[0].Store, failed[0].Work, failed[0].Error)
	}
	return nil
}

func list() {
	for _, s := range adapters.All() {
		fmt.Printf("store     %-22s %s\n", s.Name, s.How)
	}
	for _, w := range work.Works() {
		fmt.Printf("workload  %-22s %s\n", w.ID, w.Title)
	}
	for _, d := range work.Duels() {
		fmt.Printf("with kafka %-21s %s\n", d.ID, d.Title)
	}
}

// run runs all jobs.
func (f flags) run(ctx context.Context) (*report.Run, error) {
	specs, err := f.selectStores()
	if err != nil {
		return nil, err
	}
	works, err := f.selectWorks()
	if err != nil {
		return nil, err
	}
	dir := f.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	begin := usage()
	r := &report.Run{
		Machine:  machine(dir),
		Settings: report.Settings{Command: f.command, Reps: f.reps, Box: f.box, Scale: f.scale, Warm: f.warm},
	}
	for _, s := range specs {
		r.Stores = append(r.Stores, report.Store{Name: s.Name, Of: s.Of, Module: s.Module, Version: versionOf(s), How: s.How, Notes: s.Notes})
	}
	names := []string{work.Floors}
	for _, s := range specs {
		names = append(names, s.Name)
	}
	for rep := range f.reps {
		at := rep % len(names)
		for _, store := range slices.Concat(names[at:], names[:at]) {
			results, err := f.store(ctx, filepath.Join(dir, strings.ReplaceAll(store, "/", "-")), store, works, rep)
			if err != nil {
				return nil, err
			}
			r.Results = append(r.Results, results...)
		}
	}
	results, err := f.duels(ctx, specs, dir)
	if err != nil {
		return nil, err
	}
	r.Results = append(r.Results, results...)
	r.Machine.Took = time.Since(r.Machine.Date)
	r.Machine.Stolen, r.Machine.Others = usage().since(begin)
	return r, nil
}

func (f flags) selectStores() ([]work.Spec, error) {
	all := adapters.All()
	if f.stores == "" {
		return all, nil
	}
	var specs []work.Spec
	for _, name := range strings.Split(f.stores, ",") {
		i := slices.IndexFunc(all, func(s work.Spec) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no store %q; -list has all", name)
		}
		specs = append(specs, all[i])
	}
	return specs, nil
}

// selectWorks returns the workloads that are asked for, and those that make the logs
// they read.
func (f flags) selectWorks() ([]work.Work, error) {
	pattern, err := regexp.Compile(f.works)
	if err != nil {
		return nil, err
	}
	wanted := func(w work.Work) bool { return pattern.MatchString(w.ID) && (f.growth || !w.Growth) }
	var works []work.Work
	all := work.Works()
	for _, w := range all {
		needed := func(other work.Work) bool { return w.Makes && other.Log == w.Log && wanted(other) }
		if wanted(w) || slices.ContainsFunc(all, needed) {
			works = append(works, w)
		}
	}
	if len(works) == 0 && !slices.ContainsFunc(work.Duels(), func(d work.Duel) bool { return pattern.MatchString(d.ID) }) {
		return nil, fmt.Errorf("no workload matches %q; -list has all", f.works)
	}
	return works, nil
}

// store runs all workloads of one store once. Its directory is gone afterwards.
func (f flags) store(ctx context.Context, dir, store string, works []work.Work, rep int) ([]work.Result, error) {
	if store == work.Floors {
		works = []work.Work{{ID: work.Floors}}
	}
	var results []work.Result
	without := map[string]work.Result{} // logs that could not be made
	for i, w := range works {
		root := filepath.Join(dir, "own")
		if w.Log != "" {
			root = filepath.Join(dir, w.Log)
		}
		job := work.Job{
			Store: store, Work: w.ID, Dir: filepath.Join(root, "log-0"), Seed: uint64(rep) + 1, BoxNs: f.box.Nanoseconds(),
			MaxBytes: f.maxBytes, Params: w.Params.Scaled(f.scale),
		}
		res, bad := without[w.Log]
		if bad && w.Log != "" {
			res.Work = w.ID
		} else {
			res = f.child(ctx, job)
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		res.Rep = rep
		results = append(results, res)
		progress(res)
		if w.Makes && res.Figures == nil {
			without[w.Log] = res
		}
		last := w.Log == "" || !slices.ContainsFunc(works[i+1:], func(later work.Work) bool { return later.Log == w.Log })
		if last {
			if err := os.RemoveAll(root); err != nil {
				return nil, err
			}
		}
	}
	return results, os.RemoveAll(dir)
}

// child has another process do a job.
func (f flags) child(ctx context.Context, job work.Job) work.Result {
	failed := func(err error) work.Result {
		return work.Result{Store: job.Store, Work: job.Work, Error: err.Error()}
	}
	if f.profile != "" {
		if err := os.MkdirAll(f.profile, 0o755); err != nil {
			return failed(err)
		}
		job.Profile = filepath.Join(f.profile, fmt.Sprintf("%s-%s-%d.pprof", strings.ReplaceAll(job.Store, "/", "-"), job.Work, job.Seed))
	}
	text, err := json.Marshal(job)
	if err != nil {
		return failed(err)
	}
	line, err := f.process(ctx, filepath.Dir(job.Dir), work.ChildArgs(string(text))...)
	if err != nil {
		return failed(err)
	}
	var res work.Result
	if err := json.Unmarshal(line, &res); err != nil {
		return failed(fmt.Errorf("%q is no result: %w", tail(string(line)), err))
	}
	return res
}

// process runs this program again, for something in a directory, and returns the last
// line that it prints.
func (f flags) process(ctx context.Context, dir string, args ...string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := settle(dir, f.warm); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	var out, stderr bytes.Buffer
	child := exec.CommandContext(ctx, self, args...)
	child.Env = append(os.Environ(), work.ChildEnv+"=1")
	child.Stdout, child.Stderr = &out, &stderr
	// Processes that it has started hold on to its output.
	child.WaitDelay = 5 * time.Second
	if err := child.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(stderr.String()))
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	return lines[len(lines)-1], nil
}

// tail is the end of what a process has said.
func tail(text string) string {
	text = strings.TrimSpace(text)
	const most = 1000
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return text
}

func progress(res work.Result) {
	var words []string
	for name, v := range res.Figures {
		words = append(words, fmt.Sprintf("%s=%.6g", name, v))
	}
	slices.Sort(words)
	text := strings.Join(words, " ")
	switch {
	case res.Error != "":
		text = "FAILED: " + res.Error
	case res.Skipped != "":
		text = "-: " + res.Skipped
	}
	fmt.Fprintf(os.Stderr, "%d %-20s %-20s %s\n", res.Rep+1, res.Store, res.Work, text)
}

func versionOf(s work.Spec) string {
	switch {
	case s.Version != nil:
		return s.Version()
	case s.Module != "":
		return moduleVersion(s.Module)
	}
	return "this commit"
}
