package report

import (
	"math"
	"slices"
)

// Summary is what a store's repetitions of one row come to.
type Summary struct {
	Median, Min, Max float64
	// MAD is the median of the distances from the median.
	MAD float64
	N   int
}

// Summarize returns the summary of some values, of which there is at least one.
func Summarize(values []float64) Summary {
	s := Summary{Median: median(values), Min: slices.Min(values), Max: slices.Max(values), N: len(values)}
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - s.Median)
	}
	s.MAD = median(distances)
	return s
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Factor is how many times better a is than b: above 1 if it is. ok is false where that
// means nothing, as with nothing lost.
func Factor(a, b float64, higher bool) (factor float64, ok bool) {
	if a <= 0 || b <= 0 {
		return 0, false
	}
	if higher {
		return a / b, true
	}
	return b / a, true
}
