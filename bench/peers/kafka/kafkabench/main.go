// Command kafkabench runs Apache Kafka's own storage classes, and seglog beside them:
//
//	go run ./kafka/kafkabench log      # Kafka's log: append, get, look-up, scan, open, drop
//	go run ./kafka/kafkabench cleaner  # seglog's compaction against Kafka's cleaner
//	go run ./kafka/kafkabench index    # seglog's index against Kafka's, under JMH
//
// Each has flags: -h lists them. With -json each result is a line of JSON. The harness
// runs "kafkabench job" with a job of its own, as JSON, and reads the result.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/seglog/seglog/bench/peers/kafka"
)

var commands = map[string]func(context.Context, []string, io.Writer) error{
	"log": runLog, "cleaner": runCleaner, "index": runIndex, "job": runJob,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := dispatch(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kafkabench:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: kafkabench log|cleaner|index [flags], or kafkabench job JSON")
	}
	err := commands[args[0]](ctx, args[1:], out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

func runJob(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: kafkabench job JSON")
	}
	classes, err := kafka.Build(ctx)
	if err != nil {
		return err
	}
	return classes.RunJob(ctx, args[0], out)
}

// common are the flags of all commands.
type common struct {
	*flag.FlagSet
	dir  string
	json bool
}

func newCommon(name string) *common {
	c := &common{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.StringVar(&c.dir, "dir", "", "where the logs are made: on the disk that is measured (default the system's temporary directory)")
	c.BoolVar(&c.json, "json", false, "print results as lines of JSON")
	return c
}

// build prints what is about to run.
func (c *common) build(ctx context.Context, out io.Writer) (*kafka.Classes, error) {
	classes, err := kafka.Build(ctx)
	if err != nil {
		return nil, err
	}
	d, err := classes.Start(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.Do(kafka.Request{Op: "version"})
	if err != nil {
		return nil, err
	}
	if c.json {
		err = json.NewEncoder(out).Encode(v)
	} else {
		fmt.Fprintf(out, "Apache Kafka %s on Java %s, %s\n\n", v.Kafka, v.Java, time.Now().Format(time.DateOnly))
	}
	return classes, errors.Join(err, d.Close())
}

func runLog(ctx context.Context, args []string, out io.Writer) error {
	c := newCommon("log")
	var o kafka.LogOptions
	c.Int64Var(&o.Records, "records", 2_000_000, "records in the logs that are read, opened and dropped")
	c.Int64Var(&o.TailRecords, "tail", 435_000, "records in the log that is recovered, all in its active segment: 64 MiB")
	c.IntVar(&o.Value, "value", 128, "bytes of a value")
	c.Float64Var(&o.Seconds, "seconds", 0.5, "time box of a workload")
	c.Float64Var(&o.Warmup, "warmup", 3, "seconds of warm-up before it")
	if err := c.Parse(args); err != nil {
		return err
	}
	classes, err := c.build(ctx, out)
	if err != nil {
		return err
	}
	o.Dir = c.dir
	var printing error
	if !c.json {
		fmt.Fprintf(out, "%-32s %12s %14s %14s\n", "workload", "ops", "ns/op", "records/s")
	}
	err = classes.RunLog(ctx, o, func(n kafka.Named) {
		if c.json {
			printing = errors.Join(printing, json.NewEncoder(out).Encode(n))
			return
		}
		fmt.Fprintf(out, "%-32s %12d %14.0f %14.0f%s\n", n.Name, n.Ops, n.NsPerOp, n.RecordsPerSecond, remark(n))
	})
	return errors.Join(err, printing)
}

// remark is what a line has to say beside its figures.
func remark(n kafka.Named) string {
	switch {
	case n.Lost != nil:
		return fmt.Sprintf("  cold %.1f ms, %d acknowledged records lost", float64(n.ColdNs)/1e6, *n.Lost)
	case n.ColdNs != 0:
		return fmt.Sprintf("  cold %.1f ms", float64(n.ColdNs)/1e6)
	case n.P50Ns != 0:
		return fmt.Sprintf("  p50 %.1f us, p99 %.1f us, p99.9 %.1f us", float64(n.P50Ns)/1e3, float64(n.P99Ns)/1e3, float64(n.P999Ns)/1e3)
	case n.VisibleNs != 0:
		return fmt.Sprintf("  visible after %.2f ms", float64(n.VisibleNs)/1e6)
	}
	return ""
}

func runCleaner(ctx context.Context, args []string, out io.Writer) error {
	c := newCommon("cleaner")
	records := c.Int("records", 2_000_000, "records of 100 bytes: once over as many keys and once over a twentieth")
	rounds := c.Int("rounds", 5, "timed rounds")
	if err := c.Parse(args); err != nil {
		return err
	}
	classes, err := c.build(ctx, out)
	if err != nil {
		return err
	}
	for _, keys := range []int{*records / 20, *records} {
		r, err := classes.RunCleaner(ctx, kafka.CleanerOptions{Dir: c.dir, Records: *records, Keys: keys, Rounds: *rounds})
		if err != nil {
			return err
		}
		if err := c.printCleaner(out, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *common) printCleaner(out io.Writer, r kafka.CleanerReport) error {
	if c.json {
		return json.NewEncoder(out).Encode(struct {
			kafka.CleanerReport
			Ratio float64 `json:"ratio"`
		}{r, r.Ratio()})
	}
	size := float64(r.Bytes) / float64(r.Records)
	line := func(who string, rates ...float64) {
		m := kafka.Median(rates)
		fmt.Fprintf(out, "  %-22s %10.0f records/s %7.1f MB/s", who, m, m*size/1e6)
		if len(rates) > 1 {
			fmt.Fprintf(out, "  (%.0f to %.0f)", slices.Min(rates), slices.Max(rates))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%d records over %d keys, %.1f MB\n", r.Records, r.Keys, float64(r.Bytes)/1e6)
	line("seglog", r.Seglog...)
	line("Kafka's cleaner", r.Kafka...)
	line("seglog, first round", r.SeglogCold)
	line("Kafka, first of a JVM", r.KafkaCold)
	fmt.Fprintf(out, "  seglog / Kafka: %.2fx; the JVM had up to %d MiB\n", r.Ratio(), r.KafkaPeakRSS>>20)
	_, err := fmt.Fprintf(out, "  both leave the same %d records, by seglog's reader and by Kafka's: sha256 %s\n\n", r.Survivors.Records, r.Survivors.Hash)
	return err
}

func runIndex(ctx context.Context, args []string, out io.Writer) error {
	c := newCommon("index")
	var o kafka.IndexOptions
	c.IntVar(&o.Rounds, "rounds", 5, "timed rounds")
	c.Float64Var(&o.Seconds, "seconds", 1, "time box of a round")
	c.Float64Var(&o.Warmup, "warmup", 2, "seconds of warm-up before it")
	c.IntVar(&o.Entries, "entries", 0, "entries of the index (default 14,600 and then 233,000: segments of 64 MiB and 1 GiB)")
	if err := c.Parse(args); err != nil {
		return err
	}
	classes, err := c.build(ctx, out)
	if err != nil {
		return err
	}
	o.Dir = c.dir
	sizes := []int{14_600, 233_000}
	if o.Entries > 0 {
		sizes = []int{o.Entries}
	}
	for _, o.Entries = range sizes {
		r, err := classes.RunIndex(ctx, o)
		if err != nil {
			return err
		}
		if err := c.printIndex(out, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *common) printIndex(out io.Writer, r kafka.IndexReport) error {
	if c.json {
		return json.NewEncoder(out).Encode(struct {
			kafka.IndexReport
			Ratio float64 `json:"ratio"`
		}{r, r.Ratio()})
	}
	fmt.Fprintf(out, "index of %d entries, %d KiB\n", r.Entries, r.Entries*8>>10)
	line := func(who string, ns []float64) {
		fmt.Fprintf(out, "  %-22s %8.1f ns/look-up  (%.1f to %.1f)\n", who, kafka.Median(ns), slices.Min(ns), slices.Max(ns))
	}
	line("seglog", r.Seglog)
	line("Kafka, JMH "+r.JMH, r.Kafka)
	_, err := fmt.Fprintf(out, "  Kafka / seglog: %.2fx, the same answers\n\n", r.Ratio())
	return err
}
