package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func made(t *testing.T, records int64) *seglog.Log {
	dir := t.TempDir()
	require.NoError(t, Make(t.Context(), dir, Shape{Records: records, Batch: 7, KeyBytes: 16, ValueBytes: 100, SegmentBytes: 20000}, 1, func(int64, int64) {}))
	l, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func quick(t *testing.T) Options {
	return Options{Time: 2 * time.Millisecond, Goroutines: 2, Sample: 50, Seed: 1, Scratch: t.TempDir()}
}

func TestEachWorkloadIsMeasured(t *testing.T) {
	l, o := made(t, 1000), quick(t)
	var started []string
	o.Started = func(name string) { started = append(started, name) }
	results, err := Run(t.Context(), l, o)
	require.NoError(t, err)
	require.Equal(t, Names(), started)
	require.Len(t, results, len(Names()))
	for i, r := range results {
		require.Equal(t, Names()[i], r.Name)
		require.NotEmpty(t, r.What)
		require.Positive(t, r.Ops, r.Name)
		require.Positive(t, r.Elapsed, r.Name)
		switch {
		case r.Name == "scan":
			require.Nil(t, r.Latency)
		case strings.HasPrefix(r.Name, "get-"):
			require.Equal(t, r.Ops*116, r.Bytes, r.Name)
		case strings.HasSuffix(r.Name, "-100"):
			require.Equal(t, r.Ops*100, r.Records, r.Name)
			require.Equal(t, r.Records*116, r.Bytes, r.Name)
		}
		if r.Latency != nil {
			require.Equal(t, r.Ops, r.Latency.TotalCount(), r.Name)
			require.LessOrEqual(t, r.Latency.ValueAtQuantile(50), r.Latency.Max(), r.Name)
		}
	}
}

func TestAWrongAnswerIsNotMeasured(t *testing.T) {
	l, o := made(t, 100), quick(t)
	for name, spoil := range map[string]func(*target){
		"another time":   func(r *target) { r.timestamp++ },
		"another size":   func(r *target) { r.size++ },
		"another offset": func(r *target) { r.offset = (r.offset + 50) % 100 },
	} {
		b := &bench{opts: o, log: l}
		require.NoError(t, b.draw(t.Context()))
		spoil(&b.targets[len(b.targets)-1])
		require.ErrorIs(t, get(random)(t.Context(), b, new(Result)), ErrWrong, name)
	}
	for name, spoil := range map[string]func(*target){
		"a time that no record has": func(r *target) { r.timestamp += 1e6 },
		"a time of a later record":  func(r *target) { r.timestamp += 5; r.offset = 0 },
	} {
		b := &bench{opts: o, log: l}
		require.NoError(t, b.draw(t.Context()))
		spoil(&b.targets[len(b.targets)-1])
		require.ErrorIs(t, byTime(random)(t.Context(), b, new(Result)), ErrWrong, name)
	}
}

// Zipf prefers few, hot has few, and random has all.
func TestChoicesAreWhatTheyAreCalled(t *testing.T) {
	const n = 5000
	share := func(c choice) (few float64, different int) {
		seen := map[int]int{}
		b := &bench{opts: Options{Seed: 1}, targets: make([]target, n)}
		for i := range b.targets {
			b.targets[i].offset = int64(i)
		}
		next := b.chosen(0, c)
		first := 0
		for range 1 << 16 {
			at := int(next().offset)
			seen[at]++
			if at < 10 {
				first++
			}
		}
		return float64(first) / (1 << 16), len(seen)
	}
	few, different := share(hot)
	require.InDelta(t, 0.01, few, 0.005)
	require.Equal(t, hotRecords, different)
	few, different = share(random)
	require.InDelta(t, 0.002, few, 0.002)
	require.Equal(t, n, different)
	few, different = share(zipf)
	require.Greater(t, few, 0.3)
	require.Greater(t, different, hotRecords)
}

func TestTheSameSeedDrawsTheSame(t *testing.T) {
	l := made(t, 500)
	draw := func(seed uint64) []target {
		b := &bench{opts: Options{Sample: 20, Seed: seed}, log: l}
		require.NoError(t, b.draw(t.Context()))
		return b.targets
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestAnEmptyLogHasNothingToMeasure(t *testing.T) {
	dir := t.TempDir()
	l, err := seglog.Open(dir, seglog.Options{})
	require.NoError(t, err)
	defer l.Close()
	_, err = Run(t.Context(), l, quick(t))
	require.ErrorIs(t, err, ErrEmpty)
}

func TestThePageIsWellFormedAndHasAllThereIs(t *testing.T) {
	l, o := made(t, 300), quick(t)
	results, err := Run(t.Context(), l, o)
	require.NoError(t, err)
	var page bytes.Buffer
	p := Page{Log: "a <log>", Machine: "here", Date: time.Unix(0, 0).UTC(), Command: "logtool bench", Clock: 40, Results: results}
	require.NoError(t, p.WriteHTML(&page))
	text := page.String()
	require.Contains(t, text, "a &lt;log&gt;")
	require.NotContains(t, text, "http", "it needs nothing else")
	for _, name := range Names() {
		require.Contains(t, text, "<td>"+name+"<td>")
	}
	require.Equal(t, 4, strings.Count(text, "<svg "), "a picture of each kind")
	require.Equal(t, len(Names())-1, strings.Count(text, "<polyline "), "a line of each with single operations")
	for _, picture := range strings.SplitAfter(text, "</svg>")[:4] {
		_, picture, _ = strings.Cut(picture, "<svg ")
		d := xml.NewDecoder(strings.NewReader("<svg " + picture))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
	}
}

func TestFiguresForPeople(t *testing.T) {
	for ns, want := range map[float64]string{0: "0.00 ns", 41: "41.0 ns", 999.4: "999 ns", 999.6: "1.00 us", 12345: "12.3 us", 99.96e6: "100 ms", 2.5e9: "2.50 s"} {
		require.Equal(t, want, Duration(ns))
	}
	for n, want := range map[float64]string{1: "1.00", 999: "999", 1000: "1.00 k", 1234567: "1.23 M", 25e6: "25.0 M"} {
		require.Equal(t, want, Short(n))
	}
	for n, want := range map[float64]string{1: "1", 10: "10", 100: "100", 1e4: "10 k", 1e6: "1 M"} {
		require.Equal(t, want, whole(Short(n)))
	}
}
