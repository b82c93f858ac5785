package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seglog/seglog/bench/peers/work"
)

// Row is a row of the tables: a figure of a workload.
type Row struct {
	ID, Group, Title, Unit string
	// Work and Figure say what is shown, and PerUnit how much of the figure is one of
	// the unit.
	Work, Figure string
	PerUnit      float64
	// Higher: more is better.
	Higher bool
	// Over is a workload whose figure this one is divided by, and Plus one whose figure is
	// added.
	Over, Plus string
	// NoBest: the row is there to be read, and comparing it would mislead.
	NoBest bool
	// MostOf, if it is set, takes the largest figure of all workloads it is true for.
	MostOf func(workID string) bool
}

// The groups of rows, in their order.
const (
	appending = "Appending"
	reading   = "Reading"
	opening   = "Opening and dropping"
	cleaning  = "Compaction"
	offsets   = "Offset commits"
	resources = "Memory and disk"
	growing   = "Growth"
)

const mib = 1 << 20

// Rows are all rows, in the order of the report.
func Rows() []Row {
	titles := map[string]string{}
	for _, w := range work.Works() {
		titles[w.ID] = w.Title
	}
	for _, d := range work.Duels() {
		titles[d.ID] = d.Title
	}
	var rows []Row
	add := func(group, workID, figure, unit string, perUnit float64, higher bool, suffix string) {
		id, title := workID, titles[workID]
		if suffix != "" {
			id, title = workID+"-"+strings.NewReplacer(" ", "-", ".", "-").Replace(strings.ToLower(suffix)), title+": "+suffix
		}
		rows = append(rows, Row{ID: id, Group: group, Title: title, Unit: unit, Work: workID, Figure: figure, PerUnit: perUnit, Higher: higher})
	}
	for _, id := range []string{"append-1", "append-100", "append-1-1k", "append-100-1k"} {
		add(appending, id, "rec/s", "krec/s", 1e3, true, "")
	}
	for _, id := range []string{"sync-1", "sync-16"} {
		add(appending, id, "rec/s", "rec/s", 1, true, "")
	}
	for _, id := range []string{"latency", "latency-cleaner", "follow"} {
		for _, q := range []string{"p50", "p99", "p99.9"} {
			if id != "follow" || q != "p99.9" {
				add(appending, id, q, "us", 1e3, false, q)
			}
		}
	}
	for _, log := range []string{"100", "1"} {
		add(reading, "get-"+log+"-1", "ns/op", "ns", 1, false, "")
		add(reading, "get-"+log+"-1", "allocs/op", "allocs", 1, false, "allocations")
		add(reading, "get-"+log+"-2", "ops/s", "kop/s", 1e3, true, "")
		rows = append(rows, Row{ID: "get-" + log + "-2-over-1", Group: reading, Title: "2 goroutines over 1, log of batches of " + log,
			Unit: "x", Work: "get-" + log + "-2", Figure: "ops/s", Over: "get-" + log + "-1", PerUnit: 1, Higher: true, NoBest: true})
		add(reading, "time-"+log, "ns/op", "ns", 1, false, "")
		add(reading, "scan-"+log, "rec/s", "krec/s", 1e3, true, "")
	}
	for _, d := range work.Duels() {
		if d.Entries > 0 {
			add(reading, d.ID, d.Figure(), "ns", 1, false, "")
		}
	}
	add(opening, "open-clean", "ms", "ms", 1, false, "")
	add(opening, "open-killed", "ms", "ms", 1, false, "")
	add(opening, "open-killed", "lost", "records", 1, false, "acknowledged records lost")
	add(opening, "drop", "ms", "ms", 1, false, "until it is gone")
	add(opening, "drop", "ms freed", "ms", 1, false, "until the disk is free")
	add(opening, "drop", "freed", "%", 1, true, "disk freed")
	for _, d := range work.Duels() {
		if d.Entries == 0 {
			add(cleaning, d.ID, d.Figure(), "krec/s", 1e3, true, "")
		}
	}
	for _, k := range []string{"100k", "2m"} {
		rows = append(rows, Row{ID: "put-and-compact-" + k, Group: cleaning, Title: "put and compact, 2 M records over " + k + " keys", Unit: "s",
			Work: "compact-" + k, Figure: "s", Plus: "fill-keys-" + k, PerUnit: 1})
		// A store that sorts by key compacts while records are put, so neither says much
		// without the other.
		add(cleaning, "fill-keys-"+k, "s", "s", 1, false, "")
		rows[len(rows)-1].NoBest = true
		add(cleaning, "compact-"+k, "s", "s", 1, false, "")
		rows[len(rows)-1].NoBest = true
		add(cleaning, "compact-"+k, "anon", "MiB", mib, false, "anonymous memory")
		add(cleaning, "compact-"+k, "bytes", "MB", 1e6, false, "disk afterwards")
		add(cleaning, "compact-"+k, "stale", "records", 1, false, "superseded records left")
	}
	for _, n := range []int{1, 16} {
		add(offsets, fmt.Sprintf("commit-%d", n), "ops/s", "commits/s", 1, true, "")
	}
	for _, id := range []string{"fill-100", "get-100-1", "scan-100"} {
		add(resources, id, "anon", "MiB", mib, false, "peak anonymous memory")
		add(resources, id, "rss", "MiB", mib, false, "peak RSS with mapped files")
	}
	rows = append(rows, Row{ID: "anon", Group: resources, Title: "peak anonymous memory of all workloads but compaction and growth",
		Unit: "MiB", Figure: "anon", PerUnit: mib, MostOf: notCompaction})
	for _, id := range []string{"fill-100", "fill-1"} {
		add(resources, id, "bytes/rec", "B/rec", 1, false, "disk per record")
	}
	for _, w := range work.Works() {
		if !w.Growth {
			continue
		}
		switch {
		case strings.HasPrefix(w.ID, "get-"):
			add(growing, w.ID, "ns/op", "ns", 1, false, "")
		case strings.HasPrefix(w.ID, "scan-"):
			add(growing, w.ID, "rec/s", "krec/s", 1e3, true, "")
		case strings.HasPrefix(w.ID, "open-"):
			add(growing, w.ID, "ms", "ms", 1, false, "")
		}
	}
	return rows
}

// notCompaction is true for the workloads whose memory must not grow with the log.
func notCompaction(workID string) bool {
	i := slices.IndexFunc(work.Works(), func(w work.Work) bool { return w.ID == workID })
	return i >= 0 && !work.Works()[i].Growth && work.Works()[i].Keys == 0
}

type state int

const (
	valueAbsent state = iota
	valueThere
	valueSkipped
	valueFailed
)

// value is the row's figure of a store in one repetition.
func (row Row) value(results []work.Result, store string, rep int) (v float64, s state, why string) {
	if row.MostOf != nil {
		for _, res := range results {
			if x, ok := res.Figures[row.Figure]; ok && res.Store == store && res.Rep == rep && row.MostOf(res.Work) {
				v, s = max(v, x/row.PerUnit), valueThere
			}
		}
		return v, s, ""
	}
	v, s, why = figure(results, store, row.Work, row.Figure, rep)
	other := row.Over + row.Plus // never both
	if s == valueThere && other != "" {
		var by float64
		if by, s, why = figure(results, store, other, row.Figure, rep); s == valueThere {
			if row.Plus != "" {
				v += by
			} else {
				v /= by
			}
		}
	}
	return v / row.PerUnit, s, why
}

func figure(results []work.Result, store, workID, name string, rep int) (float64, state, string) {
	for _, res := range results {
		if res.Store != store || res.Work != workID || res.Rep != rep {
			continue
		}
		switch v, ok := res.Figures[name]; {
		case res.Error != "":
			return 0, valueFailed, res.Error
		case res.Skipped != "":
			return 0, valueSkipped, res.Skipped
		case !ok:
			return 0, valueSkipped, "not measured"
		default:
			return v, valueThere, ""
		}
	}
	return 0, valueAbsent, ""
}
