package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// picture is a row as bars, an SVG that needs nothing else. Bars are linear unless some
// are more than thirty times others, and then logarithmic, which it says.
func picture(l Line) []byte {
	const (
		left, bars, right = 170.0, 420.0, 130.0
		top, line, bar    = 44.0, 22.0, 14.0
	)
	var cells []Cell
	for _, c := range l.Cells {
		if c.Summary != nil {
			cells = append(cells, c)
		}
	}
	scale, logarithmic := axis(cells)
	better := "less is better"
	if l.Higher {
		better = "more is better"
	}
	if logarithmic {
		better += ", logarithmic"
	}
	width, height := left+bars+right, top+line*float64(max(1, len(cells)))+8
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`,
		width, height, width, height)
	p(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p(`<text x="8" y="18" font-size="14" font-weight="bold" fill="#222222">%s</text>`, html.EscapeString(l.Title))
	p(`<text x="8" y="34" fill="#666666">%s (%s)</text>`, html.EscapeString(l.Unit), better)
	for i, c := range cells {
		y := top + line*float64(i)
		color, weight := "#9db4c8", "normal"
		if c.Store.Name == Ours {
			color, weight = "#d9822b", "bold"
		} else if c.Store.Of == Ours {
			color = "#ecc08f"
		}
		middle := y + bar/2
		p(`<text x="%.1f" y="%.1f" text-anchor="end" font-weight="%s" fill="#222222">%s</text>`, left-8, middle+4, weight,
			html.EscapeString(c.Store.Name))
		p(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y, bars*scale(c.Summary.Median), bar, color)
		p(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#444444"/>`, left+bars*scale(c.Summary.Min), middle,
			left+bars*scale(c.Summary.Max), middle)
		p(`<text x="%.1f" y="%.1f" fill="#222222">%s</text>`, left+6+bars*scale(max(c.Summary.Median, c.Summary.Max)), middle+4,
			number(c.Summary.Median))
	}
	p(`</svg>`)
	return []byte(b.String())
}

// axis returns the part of the width that a value takes.
func axis(cells []Cell) (scale func(float64) float64, logarithmic bool) {
	least, most := math.Inf(1), 0.0
	for _, c := range cells {
		most = max(most, c.Summary.Max)
		if c.Summary.Min > 0 {
			least = min(least, c.Summary.Min)
		}
	}
	switch {
	case most == 0:
		return func(float64) float64 { return 0 }, false
	case most <= 30*least:
		return func(v float64) float64 { return max(0, v) / most }, false
	}
	low := math.Log(least / 2)
	return func(v float64) float64 {
		if v <= 0 {
			return 0
		}
		return (math.Log(v) - low) / (math.Log(most) - low)
	}, true
}
