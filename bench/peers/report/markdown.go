package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seglog/seglog/bench/peers/work"
)

func (r *Run) markdown(w io.Writer, lines []Line) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	m := r.Machine
	p("# Benchmark results\n")
	p("Written by `bench/peers`; how to read and repeat it is in [README.md](README.md).\n")
	p("| | |")
	p("| --- | --- |")
	p("| date | %s, took %v |", m.Date.Format("2006-01-02 15:04 MST"), m.Took.Round(time.Second))
	p("| machine | %s |", m.line())
	commit := m.Commit
	if m.Changed {
		commit += " with changes"
	}
	p("| seglog | %s |", commit)
	p("| command | `%s` |", r.Settings.Command)
	p("| repetitions | %d, rates of %v, scale %g, %d MiB of memory touched before each process |", r.Settings.Reps, r.Settings.Box,
		r.Settings.Scale, r.Settings.Warm>>20)
	p("| quiet? | %s |\n", m.quiet())

	p("## Summary\n")
	p("Medians. \"seglog / best peer\" is how many times better seglog is: above 1 it wins, **below 1 it loses**.")
	p("The last two columns leave out peers that lost acknowledged records when they were killed in this run%s.\n", r.lost())
	p("| work | unit | seglog | best peer | | seglog / best peer | best that lost nothing | seglog / that |")
	p("| --- | --- | ---: | --- | ---: | ---: | --- | ---: |")
	group := ""
	for _, l := range lines {
		if l.Group != group {
			group = l.Group
			p("| **%s** | | | | | | | |", group)
		}
		p("| %s | %s | %s | %s | %s | %s | %s | %s |", l.Title, l.Unit, ours(l), name(l.Best), value(l.Best), lossMarked(l.Factor(l.Best)),
			name(l.Safe), lossMarked(l.Factor(l.Safe)))
	}

	p("\n## Floors\n")
	p("What the machine does without any store, in the same run.\n")
	p("| floor | unit | median | min | max |")
	p("| --- | --- | ---: | ---: | ---: |")
	for _, f := range r.floors() {
		p("| %s | %s | %s | %s | %s |", f.Title, f.Unit, number(f.Summary.Median), number(f.Summary.Min), number(f.Summary.Max))
	}

	p("\n## Stores\n")
	p("| store | version | set up |")
	p("| --- | --- | --- |")
	for _, s := range r.Stores {
		title := s.Name
		if s.Module != "" && s.Module != s.Name {
			title += "<br>`" + s.Module + "`"
		}
		p("| %s | %s | %s |", title, s.Version, escape(s.How))
	}

	p("\n## All rows\n")
	p("Best first; MAD is the median distance from the median. In the pictures bars are medians, and the thin lines go from the least to the most.")
	group = ""
	for _, l := range lines {
		if l.Group != group {
			group = l.Group
			p("\n### %s", group)
		}
		r.section(w, l)
	}
}

func (r *Run) section(w io.Writer, l Line) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	better := "less is better"
	if l.Higher {
		better = "more is better"
	}
	p("\n#### %s\n", l.Title)
	p("![%s](%s.svg)\n", l.Title, l.ID)
	p("| store | median, %s (%s) | min | max | MAD | x best peer | |", l.Unit, better)
	p("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
	for _, c := range l.Cells {
		if c.Summary == nil {
			why := escape(c.Why)
			if c.Failed {
				why = "**failed**: " + why
			}
			p("| %s | - | | | | | %s |", bold(c), why)
			continue
		}
		factor := ""
		if l.Best != nil {
			if f, ok := Factor(c.Summary.Median, l.Best.Summary.Median, l.Higher); ok {
				factor = fmt.Sprintf("%.2f", f)
			}
		}
		p("| %s | %s | %s | %s | %s | %s | %s |", bold(c), number(c.Summary.Median), number(c.Summary.Min), number(c.Summary.Max),
			number(c.Summary.MAD), factor, escape(c.Store.note(l.Work)))
	}
}

func bold(c Cell) string {
	if c.Store.Name == Ours {
		return "**" + c.Store.Name + "**"
	}
	return c.Store.Name
}

func name(c *Cell) string {
	if c == nil {
		return "-"
	}
	return c.Store.Name
}

func value(c *Cell) string {
	if c == nil {
		return ""
	}
	return number(c.Summary.Median)
}

// ours is our own figure; a failure is not to be overlooked.
func ours(l Line) string {
	switch {
	case l.Ours == nil:
		return ""
	case l.Ours.Summary != nil:
		return number(l.Ours.Summary.Median)
	case l.Ours.Failed:
		return "**failed**"
	}
	return "-"
}

// lossMarked makes a factor below 1 as plain as one above.
func lossMarked(factor string) string {
	if strings.HasPrefix(factor, "0.") {
		return "**" + factor + "**"
	}
	return factor
}

// lost lists the stores that lost records, with how many.
func (r *Run) lost() string {
	most := map[string]float64{}
	for _, res := range r.Results {
		if lost := res.Figures["lost"]; lost > 0 {
			most[res.Store] = max(most[res.Store], lost)
		}
	}
	var list []string
	for _, s := range r.Stores {
		if most[s.Name] > 0 {
			list = append(list, fmt.Sprintf("%s up to %s", s.Name, number(most[s.Name])))
		}
	}
	if len(list) == 0 {
		return " (none did)"
	}
	return " (" + strings.Join(list, ", ") + ")"
}

var escapeReplacer = strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;")

func escape(text string) string { return escapeReplacer.Replace(text) }

// Failures are the results that are errors, floors among them.
func (r *Run) Failures() []work.Result {
	var failed []work.Result
	for _, res := range r.Results {
		if res.Error != "" {
			failed = append(failed, res)
		}
	}
	return failed
}
