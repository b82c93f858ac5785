// Package report makes tables and pictures of what package work has measured. It knows
// no store and runs nothing: the same run gives the same bytes.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seglog/seglog/bench/peers/work"
)

// Ours is the store that the others are compared with.
const Ours = "seglog"

// Run is all there is to know of a run.
type Run struct {
	Machine  Machine       `json:"machine"`
	Settings Settings      `json:"settings"`
	Stores   []Store       `json:"stores"`
	Results  []work.Result `json:"results"`
}

// Machine is where and when it ran.
type Machine struct {
	Date    time.Time     `json:"date"`
	Took    time.Duration `json:"took_ns"`
	CPU     string        `json:"cpu"`
	Cores   int           `json:"cores"`
	Memory  int64         `json:"memory_bytes"`
	OS      string        `json:"os"`
	FS      string        `json:"file_system"`
	Go      string        `json:"go"`
	Commit  string        `json:"commit"`
	Changed bool          `json:"changed"` // files differ from the commit
	// Stolen is the share of processor time that the host took, and Others the share
	// that went to processes which had nothing to do with the run; -1 if not known.
	Stolen float64 `json:"stolen"`
	Others float64 `json:"others"`
	// Load is the load average when it began.
	Load float64 `json:"load"`
}

// Settings are what the run was asked for.
type Settings struct {
	Command string        `json:"command"`
	Reps    int           `json:"reps"`
	Box     time.Duration `json:"box_ns"`
	Scale   float64       `json:"scale"`
	Warm    int64         `json:"warm_bytes"`
}

// Store is one column.
type Store struct {
	Name    string            `json:"name"`
	Of      string            `json:"of,omitempty"`
	Module  string            `json:"module,omitempty"`
	Version string            `json:"version"`
	How     string            `json:"how"`
	Notes   map[string]string `json:"notes,omitempty"`
}

// note is what must be known of a store's figures of a workload.
func (s Store) note(workID string) string {
	return work.Spec{Notes: s.Notes}.NoteFor(workID)
}

// Cell is a store in a row: a summary, or the reason why there is none.
type Cell struct {
	Store   Store
	Summary *Summary
	Why     string
	Failed  bool // Why is an error
}

// Line is a row with its cells, the best first and those without a summary last.
type Line struct {
	Row
	Cells []Cell
	// Best is the best peer, and Safe the best of those that lost nothing on SIGKILL in
	// this run; nil if there is none. Ours is our own cell.
	Ours, Best, Safe *Cell
}

// Factor is how many times better ours is than another cell; "" if it cannot be said.
func (l Line) Factor(than *Cell) string {
	if l.Ours == nil || l.Ours.Summary == nil || than == nil {
		return ""
	}
	f, ok := Factor(l.Ours.Summary.Median, than.Summary.Median, l.Higher)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.2f", f)
}

// Lines are the rows of a run that have a figure at all.
func (r *Run) Lines() []Line {
	var lines []Line
	lossy := r.lossy()
	for _, row := range Rows() {
		line := Line{Row: row}
		measured := false
		for _, s := range r.Stores {
			cell, ok := r.cell(row, s)
			if ok {
				line.Cells = append(line.Cells, cell)
				measured = measured || cell.Summary != nil || cell.Failed
			}
		}
		if !measured {
			continue
		}
		slices.SortStableFunc(line.Cells, func(a, b Cell) int { return row.order(a, b) })
		for i := range line.Cells {
			c := &line.Cells[i]
			switch {
			case c.Store.Name == Ours:
				line.Ours = c
			case c.Summary == nil || c.Store.Of != "" || row.NoBest:
			default:
				if line.Best == nil {
					line.Best = c
				}
				if line.Safe == nil && !lossy[c.Store.Name] {
					line.Safe = c
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (row Row) order(a, b Cell) int {
	switch {
	case a.Summary == nil && b.Summary == nil:
		return 0
	case a.Summary == nil:
		return 1
	case b.Summary == nil:
		return -1
	case a.Summary.Median == b.Summary.Median:
		return 0
	case (a.Summary.Median > b.Summary.Median) == row.Higher:
		return -1
	}
	return 1
}

// lossy are the stores that lost acknowledged records in this run.
func (r *Run) lossy() map[string]bool {
	lossy := map[string]bool{}
	for _, res := range r.Results {
		if res.Figures["lost"] > 0 {
			lossy[res.Store] = true
		}
	}
	return lossy
}

// cell collects the repetitions of a row. ok is false if it was not run at all.
func (r *Run) cell(row Row, s Store) (Cell, bool) {
	var values []float64
	cell := Cell{Store: s}
	found := false
	for rep := range r.Settings.Reps {
		v, state, why := row.value(r.Results, s.Name, rep)
		switch state {
		case valueThere:
			values = append(values, v)
		case valueFailed:
			cell.Failed, cell.Why = true, why
		case valueSkipped:
			if !cell.Failed {
				cell.Why = why
			}
		}
		found = found || state != valueAbsent
	}
	// A figure of a store that failed once is no figure.
	if len(values) > 0 && !cell.Failed {
		summary := Summarize(values)
		cell.Summary, cell.Why = &summary, ""
	}
	return cell, found
}

// Write writes the report into a directory: results.json, results.md and a picture for
// each row.
func (r *Run) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, name := range old { // of rows that are no more
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	lines := r.Lines()
	for _, l := range lines {
		if err := os.WriteFile(filepath.Join(dir, l.ID+".svg"), picture(l), 0o644); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(content, '\n'), 0o644); err != nil {
		return err
	}
	var text strings.Builder
	r.markdown(&text, lines)
	return os.WriteFile(filepath.Join(dir, "results.md"), []byte(text.String()), 0o644)
}

// Read reads the results.json of an earlier run.
func Read(name string) (*Run, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	return r, json.Unmarshal(content, r)
}

// Text writes a table for a terminal.
func (r *Run) Text(w io.Writer) {
	fmt.Fprintf(w, "%s, %d repetitions of %v, took %v\n%s\n\n", r.Machine.line(), r.Settings.Reps, r.Settings.Box,
		r.Machine.Took.Round(time.Second), r.Machine.quiet())
	const head = "%-64s %-14s %12s %12s %12s  %-9s %s\n"
	fmt.Fprintf(w, head, "", "store", "median", "min", "max", "unit", "x best peer")
	for _, f := range r.floors() {
		fmt.Fprintf(w, head, "floor: "+f.Title, "", number(f.Summary.Median), number(f.Summary.Min), number(f.Summary.Max), f.Unit, "")
	}
	for _, l := range r.Lines() {
		title := l.Title
		for _, c := range l.Cells {
			if c.Summary == nil {
				continue
			}
			factor := ""
			if l.Best != nil {
				if f, ok := Factor(c.Summary.Median, l.Best.Summary.Median, l.Higher); ok {
					factor = fmt.Sprintf("%.2f", f)
				}
			}
			fmt.Fprintf(w, head, title, c.Store.Name, number(c.Summary.Median), number(c.Summary.Min), number(c.Summary.Max), l.Unit, factor)
			title = ""
		}
		for _, d := range without(l.Cells) {
			fmt.Fprintf(w, "%-64s %s: %s\n", title, strings.Join(d.stores, ", "), d.why)
			title = ""
		}
	}
}

// dash are stores that have no figure for the same reason.
type dash struct {
	why    string
	stores []string
}

func without(cells []Cell) []dash {
	var list []dash
	for _, c := range cells {
		if c.Summary != nil {
			continue
		}
		why := "- " + c.Why
		if c.Failed {
			why = "FAILED " + c.Why
		}
		i := slices.IndexFunc(list, func(d dash) bool { return d.why == why })
		if i < 0 {
			i = len(list)
			list = append(list, dash{why: why})
		}
		list[i].stores = append(list[i].stores, c.Store.Name)
	}
	return list
}

// floorLine is a floor with what it came to.
type floorLine struct {
	work.Floor
	Summary Summary
}

func (r *Run) floors() []floorLine {
	var lines []floorLine
	for _, f := range work.FloorRows {
		var values []float64
		for _, res := range r.Results {
			if v, ok := res.Figures[f.ID]; ok && res.Store == work.Floors {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			lines = append(lines, floorLine{f, Summarize(values)})
		}
	}
	return lines
}

func (m Machine) line() string {
	text := fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)
	if m.Memory > 0 {
		text += fmt.Sprintf(", %d GiB", (m.Memory+1<<29)>>30)
	}
	return text + fmt.Sprintf(", %s, %s, %s", m.FS, m.OS, m.Go)
}

// quiet says whether anything else ran.
func (m Machine) quiet() string {
	if m.Stolen < 0 {
		return "what else ran at the same time is not known"
	}
	return fmt.Sprintf("of processor time %.1f %% was stolen by the host, %.1f %% went to other processes; load at the beginning %.2f",
		100*m.Stolen, 100*m.Others, m.Load)
}

// number prints three or four digits that count, and separates thousands.
func number(v float64) string {
	switch a := max(v, -v); {
	case a < 0.0005:
		return "0"
	case a < 10:
		return fmt.Sprintf("%.3g", v)
	case a < 100:
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
