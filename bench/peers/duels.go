//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/seglog/seglog/bench/peers/kafka"
	"github.com/seglog/seglog/bench/peers/report"
	"github.com/seglog/seglog/bench/peers/work"
)

// theirs is the store that duels are fought with.
const theirs = "kafka"

// duelJob is what the process of a duel is given.
type duelJob struct {
	work.Duel
	Dir            string
	Reps           int
	Seconds, Scale float64
}

// duelResult has the figures of the repetitions.
type duelResult struct {
	Ours, Theirs []float64
	Skipped      string
}

// duels has another process run each, and returns its repetitions as results of the two.
func (f flags) duels(ctx context.Context, specs []work.Spec, dir string) ([]work.Result, error) {
	for _, name := range []string{report.Ours, theirs} {
		if !slices.ContainsFunc(specs, func(s work.Spec) bool { return s.Name == name }) {
			return nil, nil
		}
	}
	pattern, err := regexp.Compile(f.works)
	if err != nil {
		return nil, err
	}
	var results []work.Result
	for _, d := range work.Duels() {
		if !pattern.MatchString(d.ID) {
			continue
		}
		text, err := json.Marshal(duelJob{Duel: d, Dir: dir, Reps: f.reps, Seconds: 2 * f.box.Seconds(), Scale: f.scale})
		if err != nil {
			return nil, err
		}
		var res duelResult
		line, err := f.process(ctx, dir, "bench", "duel", string(text))
		if err == nil {
			err = json.Unmarshal(line, &res)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		results = append(results, duelResults(d, res, err)...)
	}
	return results, nil
}

// duel runs one in this process.
func duel(text string, out io.Writer) error {
	var job duelJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	var res duelResult
	err := job.run(&res)
	if errors.Is(err, kafka.ErrMissing) {
		res.Skipped, err = err.Error(), nil
	}
	return errors.Join(err, json.NewEncoder(out).Encode(res))
}

func (j duelJob) run(res *duelResult) error {
	ctx := context.Background()
	classes, err := kafka.Build(ctx)
	if err != nil {
		return err
	}
	if j.Entries > 0 {
		r, err := classes.RunIndex(ctx, kafka.IndexOptions{Dir: j.Dir, Entries: j.Entries, Rounds: j.Reps, Seconds: j.Seconds, Warmup: 2 * j.Seconds})
		res.Ours, res.Theirs = r.Seglog, r.Kafka
		return err
	}
	scaled := func(n int) int { return max(1000, int(float64(n)*j.Scale)/100*100) }
	r, err := classes.RunCleaner(ctx, kafka.CleanerOptions{Dir: j.Dir, Records: scaled(j.Records), Keys: scaled(j.Keys), Rounds: j.Reps})
	res.Ours, res.Theirs = r.Seglog, r.Kafka
	return err
}

// duelResults are the repetitions of a duel as results of both.
func duelResults(d work.Duel, res duelResult, err error) []work.Result {
	var results []work.Result
	for rep := range max(1, len(res.Ours)) {
		for i, figures := range [][]float64{res.Ours, res.Theirs} {
			r := work.Result{Store: []string{report.Ours, theirs}[i], Work: d.ID, Rep: rep, Skipped: res.Skipped}
			switch {
			case err != nil:
				r.Error = err.Error()
			case res.Skipped == "" && rep >= len(figures):
				r.Error = fmt.Sprintf("%d repetitions, want %d", len(figures), len(res.Ours))
			case res.Skipped == "":
				r.Figures = map[string]float64{d.Figure(): figures[rep]}
			}
			results = append(results, r)
			progress(r)
		}
	}
	return results
}
