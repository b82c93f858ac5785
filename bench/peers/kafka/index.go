package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/seglog/seglog/index"
)

// targets is how many random offsets are looked up, over and over: a power of two.
const targets = 1 << 16

// IndexOptions are those of RunIndex.
type IndexOptions struct {
	// Dir is where the file is made.
	Dir string
	// Entries are in the index. A segment of 1 GiB has some 233,000.
	Entries int
	// Rounds are timed, by turns; each is a JVM of its own.
	Rounds int
	// Seconds and Warmup are those of one round.
	Seconds, Warmup float64
}

// IndexReport is what came of RunIndex, in nanoseconds for a look-up.
type IndexReport struct {
	Entries int       `json:"entries"`
	Seglog  []float64 `json:"seglog_ns_per_op"`
	Kafka   []float64 `json:"kafka_ns_per_op"`
	JMH     string    `json:"jmh"`
}

// Ratio is how much faster seglog was, by the medians.
func (r IndexReport) Ratio() float64 { return Median(r.Kafka) / Median(r.Seglog) }

// RunIndex looks the same random offsets up in one index file, which seglog has written,
// with seglog's index and, under JMH, with Kafka's, by turns. It fails if the two do not
// give the same answers.
func (c *Classes) RunIndex(ctx context.Context, o IndexOptions) (IndexReport, error) {
	report := IndexReport{Entries: o.Entries}
	dir, err := os.MkdirTemp(o.Dir, "index-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	const base = 1 << 33
	file := filepath.Join(dir, fmt.Sprintf("%020d.index", base))
	offsets, err := writeIndex(file, base, o.Entries)
	if err != nil {
		return report, err
	}
	list := filepath.Join(dir, "targets")
	if err := writeOffsets(list, offsets); err != nil {
		return report, err
	}
	x, err := index.OpenReadOnly(file, base, index.Options{})
	if err != nil {
		return report, err
	}
	defer x.Close()
	for range o.Rounds {
		report.Seglog = append(report.Seglog, lookUp(x, offsets, o))
		jmh, err := c.jmh(ctx, file, fmt.Sprint(base), list, fmt.Sprint(o.Warmup), fmt.Sprint(o.Seconds))
		if err != nil {
			return report, err
		}
		if want := answers(x, offsets); jmh.Sum != want {
			return report, fmt.Errorf("%s: the answers of Kafka's class sum up to %d, ours to %d", file, jmh.Sum, want)
		}
		report.Kafka, report.JMH = append(report.Kafka, jmh.NsPerOp), jmh.JMH
	}
	return report, nil
}

// writeIndex makes an index as an active segment's, an entry for a little more than
// each 4 KiB of log, and draws what is looked up.
func writeIndex(file string, base int64, entries int) (offsets []int64, err error) {
	x, err := index.Create(file, base, index.Options{})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(7, 7))
	offset, position := base, int64(0)
	for range entries {
		offset += 1 + random.Int64N(40)
		position += 4096 + random.Int64N(1024)
		if err := x.Append(offset, position); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	if err := errors.Join(x.Trim(), x.Close()); err != nil {
		return nil, err
	}
	offsets = make([]int64, targets)
	for i := range offsets {
		offsets[i] = base + random.Int64N(offset-base+40)
	}
	return offsets, nil
}

func writeOffsets(file string, offsets []int64) error {
	var b []byte
	for _, o := range offsets {
		b = binary.BigEndian.AppendUint64(b, uint64(o))
	}
	return os.WriteFile(file, b, 0o644)
}

// lookUp is our side of the benchmark: nanoseconds for a look-up.
func lookUp(x *index.Index, offsets []int64, o IndexOptions) float64 {
	var last index.Entry
	pass := func(seconds float64) float64 {
		began, passes := time.Now(), 0
		for time.Since(began).Seconds() < seconds || passes == 0 {
			for _, offset := range offsets {
				last = x.Lookup(offset)
			}
			passes++
		}
		return float64(time.Since(began).Nanoseconds()) / float64(passes*len(offsets))
	}
	pass(o.Warmup)
	ns := pass(o.Seconds)
	runtime.KeepAlive(last) // so that no look-up is left out
	return ns
}

// answers is what OffsetIndexLookup.java makes of all look-ups.
func answers(x *index.Index, offsets []int64) (sum int64) {
	for _, offset := range offsets {
		e := x.Lookup(offset)
		sum = 31*sum + e.Offset + e.Position
	}
	return sum
}

type jmhResult struct {
	NsPerOp float64 `json:"ns_per_op"`
	JMH     string  `json:"jmh"`
	Sum     int64   `json:"sum"`
}

// jmh runs one fork.
func (c *Classes) jmh(ctx context.Context, args ...string) (res jmhResult, err error) {
	out, err := c.java(ctx, "seglog.peer.OffsetIndexLookup", args...).Output()
	if err != nil {
		return res, fmt.Errorf("jmh: %w\n%s", err, stderr(err))
	}
	if err := json.Unmarshal(out, &res); err != nil {
		return res, fmt.Errorf("jmh: %q: %w", out, err)
	}
	return res, nil
}

// Median is the middle of some figures, or of the two in the middle.
func Median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(figures))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
