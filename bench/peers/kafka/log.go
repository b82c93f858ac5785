package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// LogOptions are those of RunLog.
type LogOptions struct {
	// Dir is where the logs are; it is emptied of them as it goes.
	Dir string
	// Records is how many the logs have that are read, opened and dropped.
	Records int64
	// Value is the size of a value.
	Value int
	// Seconds and Warmup are those of a Request.
	Seconds, Warmup float64
	// TailRecords are in the log that is killed and recovered.
	TailRecords int64
}

// dropSegment is segment.bytes of the log that is halved: that of the other logs is
// the default.
const dropSegment = 64 << 20

// Named is a workload's result.
type Named struct {
	Name string `json:"name"`
	Result
	// Lost is how many acknowledged records were gone behind SIGKILL.
	Lost *int64 `json:"lost,omitempty"`
}

// logWork names a request. Its log is filled with batches of so many before, if any.
type logWork struct {
	name   string
	filled int
	Request
}

func (o LogOptions) workloads() []logWork {
	return []logWork{
		{"append 1", 0, Request{Op: "append", Batch: 1}},
		{"append 100", 0, Request{Op: "append", Batch: 100}},
		{"latency of append 1", 0, Request{Op: "latency", Batch: 1}},
		{"append 1 + sync", 0, Request{Op: "append", Batch: 1, Sync: true}},
		{"append 1 + sync, 16 threads", 0, Request{Op: "append", Batch: 1, Sync: true, Threads: 16}},
		{"get, batches of 1", 1, Request{Op: "get"}},
		{"get, batches of 100", 100, Request{Op: "get"}},
		{"get, batches of 100, 2 threads", 100, Request{Op: "get", Threads: 2}},
		{"look-up by time", 100, Request{Op: "time"}},
		{"scan", 100, Request{Op: "scan"}},
		{"open after close", 100, Request{Op: "open"}},
	}
}

// RunLog runs each workload over Kafka's log in a JVM of its own and reports its
// result.
func (c *Classes) RunLog(ctx context.Context, o LogOptions, report func(Named)) error {
	for _, w := range o.workloads() {
		res, err := c.runWork(ctx, o, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		report(Named{Name: w.name, Result: res})
	}
	for _, special := range []func(context.Context, LogOptions) (Named, error){c.openKilled, c.dropHalf} {
		n, err := special(ctx, o)
		if err != nil {
			return err
		}
		report(n)
	}
	return nil
}

func (c *Classes) runWork(ctx context.Context, o LogOptions, w logWork) (res Result, err error) {
	dir, remove, err := o.logDir()
	if err != nil {
		return res, err
	}
	defer remove()
	d, err := c.Start(ctx)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if w.filled > 0 {
		if _, err := d.Do(o.fill(dir, w.filled)); err != nil {
			return res, err
		}
	}
	w.Dir, w.Value, w.Seconds, w.Warmup = dir, o.Value, o.Seconds, o.Warmup
	return d.Do(w.Request)
}

func (o LogOptions) fill(dir string, batch int) Request {
	return Request{Op: "fill", Dir: dir, Records: o.Records, Batch: batch, Value: o.Value}
}

// logDir is a directory for a partition.
func (o LogOptions) logDir() (dir string, remove func(), err error) {
	parent, err := os.MkdirTemp(o.Dir, "kafka-")
	return filepath.Join(parent, "bench-0"), func() { os.RemoveAll(parent) }, err
}

// openKilled opens a log that was open in a JVM that was killed. What is recovered is
// the active segment: a broker syncs a segment when it is done with it, and the
// recovery point is then where the next one begins.
func (c *Classes) openKilled(ctx context.Context, o LogOptions) (n Named, err error) {
	dir, remove, err := o.logDir()
	if err != nil {
		return n, err
	}
	defer remove()
	writer, err := c.Start(ctx)
	if err != nil {
		return n, err
	}
	defer writer.Close()
	fill := o.fill(dir, 100)
	fill.Records, fill.KeepOpen = o.TailRecords, true
	filled, err := writer.Do(fill)
	if err != nil {
		return n, err
	}
	if err := writer.Kill(); err != nil {
		return n, err
	}
	d, err := c.Start(ctx)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	res, err := d.Do(Request{
		Op: "open", Dir: dir, Unclean: true, RecoveryPoint: filled.ActiveBase, Seconds: o.Seconds, Warmup: o.Warmup,
	})
	lost := filled.End - res.End
	return Named{Name: "open after SIGKILL", Result: res, Lost: &lost}, err
}

// dropHalf removes half of a log, once to warm up, and then of another.
func (c *Classes) dropHalf(ctx context.Context, o LogOptions) (n Named, err error) {
	d, err := c.Start(ctx)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for range 2 {
		if n, err = dropOnce(d, o); err != nil {
			return n, err
		}
	}
	return n, nil
}

func dropOnce(d *Driver, o LogOptions) (n Named, err error) {
	dir, remove, err := o.logDir()
	if err != nil {
		return n, err
	}
	defer remove()
	fill := o.fill(dir, 100)
	fill.SegmentBytes = dropSegment
	if _, err := d.Do(fill); err != nil {
		return n, err
	}
	res, err := d.Do(Request{Op: "drop", Dir: dir, SegmentBytes: dropSegment})
	return Named{Name: "drop half", Result: res}, err
}
