package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/cmd/logtool/internal/bench"
)

func newBenchCommand(app *App) *cobra.Command {
	opts := benchOptions{app: app, time: time.Second, goroutines: 1, sample: 16384, seed: 1,
		records: 1_000_000, batch: 100, keyBytes: 16, valueBytes: 128, segmentBytes: 64 << 20}
	cmd := &cobra.Command{
		Use:   "bench DIR | bench --synthetic",
		Short: "measure look-ups, reading and appends, on your own records",
		Long: `Measure how long look-ups by offset and by time take in a log, how fast it is read, and
how fast appends of its records are, with and without waiting for the disk.

The log in DIR is only read, also beside a writer. What is appended goes to a new log in
--scratch, which is removed afterwards: name a directory on the disk that you want to
know about. With --synthetic the log that is read is made there as well.

Records to look up are drawn at random and looked up once before they are measured: the
first look is the disk's. Each answer is checked.

` + benchWork(),
		Example:     "  logtool bench orders-0\n  logtool bench --synthetic --scratch /var/tmp --html bench.html\n  logtool bench orders-0 --only 'get-*,scan' --goroutines 2",
		GroupID:     groupOther,
		Args:        cobra.MaximumNArgs(1),
		Annotations: exitStatus("0 done, 1 could not read or write, 2 usage, 3 damage met or an answer was wrong, 4 there is\nno record."),

		ValidArgsFunction: completeDirs,
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.synthetic, "synthetic", false, "measure a log that is made for it")
	flags.StringVar(&opts.only, "only", "", "run only the `NAMES` given, parted by commas, which may have a *")
	flags.DurationVar(&opts.time, "time", opts.time, "how long each of them runs")
	addCountFlag(cmd, &opts.goroutines, "goroutines", "", "how many look up or append at once")
	addCountFlag(cmd, &opts.sample, "sample", "", "how many records are drawn to be looked up")
	flags.Uint64Var(&opts.seed, "seed", opts.seed, "the same seed draws the same records")
	flags.StringVar(&opts.scratch, "scratch", "", "a `DIR` for logs that are made (default the system's for temporary files)")
	flags.StringVar(&opts.html, "html", "", "write a page with a table and pictures to `FILE`, which must not exist")
	addCountFlag(cmd, &opts.records, "records", "", "of a synthetic log, its records")
	addCountFlag(cmd, &opts.batch, "batch", "", "of a synthetic log, records in a batch")
	addCountFlag(cmd, &opts.keyBytes, "key-bytes", "", "of a synthetic log, bytes of a key")
	addCountFlag(cmd, &opts.valueBytes, "value-bytes", "", "of a synthetic log, bytes of a value")
	flags.Var((*sizeFlag)(&opts.segmentBytes), "segment-bytes", "of a synthetic log, the size of a segment")
	completeFlag(cmd, "only", bench.Names()...)
	for _, name := range []string{"time", "seed", "segment-bytes"} {
		completeFlag(cmd, name)
	}
	return cmd
}

// benchWork is the list of workloads for people.
func benchWork() string {
	var b strings.Builder
	b.WriteString("The workloads:\n")
	for _, w := range bench.Workloads() {
		fmt.Fprintf(&b, "  %-12s %s\n", w.Name, w.What)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

type benchOptions struct {
	app                                  *App
	synthetic                            bool
	only, scratch, html                  string
	time                                 time.Duration
	goroutines, sample                   int64
	seed                                 uint64
	records, batch, keyBytes, valueBytes int64
	segmentBytes                         int64
}

func (o *benchOptions) run(ctx context.Context, args []string) (err error) {
	if err := o.check(args); err != nil {
		return err
	}
	var page *os.File
	if o.html != "" { // before minutes are spent
		if page, err = os.OpenFile(o.html, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
			return err
		}
		defer func() {
			if err = errors.Join(err, page.Close()); err != nil {
				err = errors.Join(err, os.Remove(o.html))
			}
		}()
	}
	dir, what := "", "a synthetic log"
	if o.synthetic {
		if dir, err = o.make(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else {
		dir, what = args[0], args[0]
	}
	log, err := o.app.OpenLog(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	size, err := log.Size()
	if err != nil {
		return err
	}
	bounds := log.Offsets()
	p := bench.Page{
		Log:     fmt.Sprintf("%s: offsets [%d, %d), %s", what, bounds.Start, bounds.End, sizeText(size)),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version()),
		Date:    o.app.Now(), Command: o.command(what), Clock: bench.Clock(),
	}
	if err := o.measure(ctx, log, &p); err != nil {
		return err
	}
	if err := o.show(&p); err != nil || page == nil {
		return err
	}
	return p.WriteHTML(page)
}

func (o *benchOptions) check(args []string) error {
	if o.synthetic == (len(args) == 1) {
		return UsageErrorf("want either DIR or --synthetic")
	}
	const most = 1 << 30
	for _, f := range []struct {
		name     string
		n, limit int64
	}{{"goroutines", o.goroutines, 4096}, {"sample", o.sample, 1 << 24}, {"batch", o.batch, 1 << 20},
		{"key-bytes", o.keyBytes, 1 << 20}, {"value-bytes", o.valueBytes, 1 << 20}, {"batch times key and value", o.batch * (o.keyBytes + o.valueBytes), most}} {
		if f.n > f.limit {
			return UsageErrorf("%s: %d, want %d or less", f.name, f.n, f.limit)
		}
	}
	if o.time < time.Millisecond {
		return UsageErrorf("--time %v: want a millisecond or more", o.time)
	}
	for _, pattern := range o.patterns() {
		if _, err := path.Match(pattern, ""); err != nil || !matchesAny(pattern) {
			return UsageErrorf("--only %s: no workload has that name; there are %s", pattern, strings.Join(bench.Names(), ", "))
		}
	}
	return nil
}

func (o *benchOptions) patterns() []string {
	if o.only == "" {
		return nil
	}
	return strings.Split(o.only, ",")
}

func matchesAny(pattern string) bool {
	for _, name := range bench.Names() {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// chosen reports whether --only has name.
func (o *benchOptions) chosen(name string) bool {
	for _, pattern := range o.patterns() {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return o.only == ""
}

// make makes the synthetic log.
func (o *benchOptions) make(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp(o.scratch, "logtool-bench-")
	if err != nil {
		return "", err
	}
	each := o.keyBytes + o.valueBytes
	progress := o.app.Progress("making a log")
	err = bench.Make(ctx, dir, bench.Shape{Records: o.records, Batch: int(o.batch), KeyBytes: int(o.keyBytes),
		ValueBytes: int(o.valueBytes), SegmentBytes: o.segmentBytes}, o.seed,
		func(done, total int64) { progress.Update(done*each, total*each) })
	progress.Clear()
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
		var option *seglog.OptionError
		if errors.As(err, &option) && option.Field == "SegmentBytes" {
			return "", UsageErrorf("--segment-bytes is %s, want %s", option.Value, option.Want)
		}
		return "", err
	}
	return dir, nil
}

func (o *benchOptions) measure(ctx context.Context, log *seglog.Log, p *bench.Page) error {
	note := ""
	say := func(s string) {
		if o.app.StderrTerminal && !o.app.quiet {
			fmt.Fprintf(o.app.Stderr, "\r\x1b[K%s", s)
			note = s
		}
	}
	var err error
	p.Results, err = bench.Run(ctx, log, bench.Options{
		Time: o.time, Goroutines: int(o.goroutines), Sample: int(o.sample), Seed: o.seed, Scratch: o.scratch,
		Only: o.chosen, Started: func(name string) { say("measuring " + name) },
	})
	if note != "" {
		say("")
	}
	switch {
	case errors.Is(err, bench.ErrEmpty):
		return NotFoundf("%s: %v", log.Dir(), err)
	case errors.Is(err, bench.ErrWrong):
		return Hint(Damagef("%v", err), "logtool verify "+log.Dir())
	}
	return err
}

// command is what makes the same run again.
func (o *benchOptions) command(what string) string {
	c := "logtool bench"
	if o.synthetic {
		c += fmt.Sprintf(" --synthetic --records %d --batch %d --key-bytes %d --value-bytes %d --segment-bytes %d",
			o.records, o.batch, o.keyBytes, o.valueBytes, o.segmentBytes)
	} else {
		c += " " + filepath.ToSlash(what)
	}
	c += fmt.Sprintf(" --time %v --goroutines %d --sample %d --seed %d", o.time, o.goroutines, o.sample, o.seed)
	if o.only != "" {
		c += " --only '" + o.only + "'"
	}
	return c
}

func (o *benchOptions) show(p *bench.Page) error {
	out := o.app.Out
	if out.JSON() {
		return o.showJSON(p)
	}
	if err := errors.Join(out.Linef("%s", p.Log), out.Linef("%s", p.Machine), out.Linef("")); err != nil {
		return err
	}
	t := out.Table(Left("work"), Right("per second"), Right("records/s"), Right("MB/s"), Right("mean"), Right("p50"), Right("p90"),
		Right("p99"), Right("p99.9"), Right("max"))
	for i := range p.Results {
		r := &p.Results[i]
		row := []any{r.Name, bench.Short(r.PerSecond(r.Ops)), bench.Short(r.PerSecond(r.Records)), fmt.Sprintf("%.1f", r.PerSecond(r.Bytes)/1e6)}
		if h := r.Latency; h != nil {
			row = append(row, bench.Duration(h.Mean()))
			for _, q := range []float64{50, 90, 99, 99.9} {
				row = append(row, bench.Duration(float64(h.ValueAtQuantile(q))))
			}
			row = append(row, bench.Duration(float64(h.Max())))
		}
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	return errors.Join(t.Flush(), out.Linef(""),
		out.Linef("each answer was checked; a look at the clock, %s, is part of each latency", bench.Duration(float64(p.Clock))))
}

func (o *benchOptions) showJSON(p *bench.Page) error {
	out := o.app.Out
	obj := out.Object("bench").Text("log", p.Log).String("machine", p.Machine).Time("time", p.Date.UnixMilli()).
		Text("command", p.Command).Int("clock_ns", p.Clock.Nanoseconds())
	obj.Array("results", func() {
		for i := range p.Results {
			r := &p.Results[i]
			obj.Element(func() {
				obj.String("work", r.Name).Int("operations", r.Ops).Int("records", r.Records).Int("bytes", r.Bytes).Int("elapsed_ns", r.Elapsed.Nanoseconds())
				if h := r.Latency; h != nil {
					obj.Int("min_ns", h.Min()).Int("mean_ns", int64(h.Mean())).Int("p50_ns", h.ValueAtQuantile(50)).Int("p90_ns", h.ValueAtQuantile(90)).
						Int("p99_ns", h.ValueAtQuantile(99)).Int("p999_ns", h.ValueAtQuantile(99.9)).Int("max_ns", h.Max())
				}
			})
		}
	})
	return out.Emit(obj)
}
