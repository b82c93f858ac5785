package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Page is what a run says of itself on a page of HTML.
type Page struct {
	Log     string // what was measured, in words
	Machine string
	Date    time.Time
	Command string
	Clock   time.Duration
	Results []Result
}

//go:embed page.html
var pageText string

// WriteHTML writes a page that needs nothing else: a table and a picture of the latencies
// of each kind of workload.
func (p *Page) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"rate":    func(r *Result) string { return Short(r.PerSecond(r.Ops)) },
		"records": func(r *Result) string { return Short(r.PerSecond(r.Records)) },
		"mb":      func(r *Result) string { return fmt.Sprintf("%.1f", r.PerSecond(r.Bytes)/1e6) },
		"mean":    func(r *Result) string { return Duration(r.Latency.Mean()) },
		"max":     func(r *Result) string { return Duration(float64(r.Latency.Max())) },
		"at":      func(q float64, r *Result) string { return Duration(float64(r.Latency.ValueAtQuantile(q))) },
		"clock":   func(d time.Duration) string { return Duration(float64(d)) },
		"plots":   plots,
	}).Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		*Page
		Rows []*Result
	}{p, pointers(p.Results)})
}

func pointers(results []Result) []*Result {
	var all []*Result
	for i := range results {
		all = append(all, &results[i])
	}
	return all
}

// Duration is a number of nanoseconds for people, with three digits.
func Duration(ns float64) string {
	for _, unit := range []struct {
		ns   float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns >= unit.ns*0.9995 {
			return digits(ns/unit.ns) + " " + unit.name
		}
	}
	return digits(ns) + " ns"
}

// Short is a number for people, with three digits.
func Short(n float64) string {
	switch {
	case n >= 0.9995e6:
		return digits(n/1e6) + " M"
	case n >= 0.9995e3:
		return digits(n/1e3) + " k"
	}
	return digits(n)
}

func digits(n float64) string {
	switch {
	case n >= 99.95:
		return fmt.Sprintf("%.0f", n)
	case n >= 9.995:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// A plot is a picture of latencies: from left to right the share of operations that were
// as fast, from below the time, both in powers of ten.
type plot struct {
	Title         string
	Width, Height float64
	Across, Up    []tick
	Lines         []line
}

type tick struct {
	At   float64
	Text string
}

type line struct {
	Name, Color, Points string
	Y                   float64 // of its name in the legend
}

// kinds are the pictures, by how the names of their workloads begin.
var kinds = []struct{ prefix, title string }{
	{"get-", "Look-up by offset"}, {"time-", "Look-up by time"}, {"append-", "Append"}, {"sync-", "Append and sync"},
}

var colors = []string{"#d9822b", "#2b6cb0", "#2f855a"}

func plots(results []Result) []plot {
	var all []plot
	for _, k := range kinds {
		var of []*Result
		for _, r := range pointers(results) {
			if strings.HasPrefix(r.Name, k.prefix) && r.Ops > 0 {
				of = append(of, r)
			}
		}
		if of != nil {
			all = append(all, drawing(k.title, of))
		}
	}
	return all
}

func drawing(title string, of []*Result) plot {
	const width, height = 560.0, 260.0
	p := plot{Title: title, Width: width, Height: height}
	low, high, nines := math.Inf(1), 0.0, 1.0
	for _, r := range of {
		low = min(low, math.Log10(float64(max(1, r.Latency.Min()))))
		high = max(high, math.Log10(float64(max(1, r.Latency.Max()))))
		nines = max(nines, math.Log10(float64(r.Ops)))
	}
	low, high, nines = math.Floor(low), max(math.Ceil(high), math.Floor(low)+1), math.Ceil(nines)
	for n := 0.0; n <= nines; n++ {
		text := "all but 1 in " + whole(Short(math.Pow(10, n)))
		if n == 0 {
			text = "fastest"
		}
		p.Across = append(p.Across, tick{width * n / nines, text})
	}
	for n := low; n <= high; n++ {
		p.Up = append(p.Up, tick{height - height*(n-low)/(high-low), whole(Duration(math.Pow(10, n)))})
	}
	for i, r := range of {
		p.Lines = append(p.Lines, line{
			Name: r.Name, Color: colors[i%len(colors)], Y: 16 + 16*float64(i),
			Points: curve(r.Latency, func(share, ns float64) (x, y float64) {
				return width * min(1, -math.Log10(1-share)/nines), height - height*(math.Log10(ns)-low)/(high-low)
			}),
		})
	}
	return p
}

// whole is a power of ten, as Short or Duration wrote it, without zeros behind the point.
func whole(s string) string {
	number, unit, _ := strings.Cut(s, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + unit)
}

// curve is the points of a line through the percentiles of h.
func curve(h *hdrhistogram.Histogram, place func(share, ns float64) (x, y float64)) string {
	var b strings.Builder
	last := 1 - 1/float64(h.TotalCount())
	for nine := 0.0; ; nine += 0.05 {
		share := min(1-math.Pow(10, -nine), last)
		x, y := place(share, float64(max(1, h.ValueAtQuantile(100*share))))
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		if share == last {
			return strings.TrimSpace(b.String())
		}
	}
}
