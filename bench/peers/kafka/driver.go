// Package kafka runs Apache Kafka's own storage classes as a yardstick: its log, its
// cleaner and its offset index, in a small driver in a JVM. It needs Java and Maven,
// and Build says so where they are missing. See README.md for what is timed.
//
// The driver reads a Request as a line of JSON and answers with a Result as a line of
// JSON, one after the other. It goes on until its input ends.
package kafka

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// Request says what the driver is to do. A topic's settings are a broker's defaults
// but for those that are here; retention is off.
type Request struct {
	// Op is "append", "latency", "fill", "get", "time", "scan", "open", "drop",
	// "clean", "survivors" or "version".
	Op string `json:"op"`
	// Dir is the partition's directory, <topic>-<partition>. It is made if it is not
	// there; append and fill begin a log.
	Dir string `json:"dir,omitempty"`
	// Records is how many fill appends.
	Records int64 `json:"records,omitempty"`
	// Batch is how many records an append is of, Value the size of their values. A key
	// has 16 bytes.
	Batch int `json:"batch,omitempty"`
	Value int `json:"value,omitempty"`
	// Threads do append, get, time and scan; 0 means 1.
	Threads int `json:"threads,omitempty"`
	// Sync is flush.messages=1: an append returns when it is on the disk.
	Sync bool `json:"sync,omitempty"`
	// Seconds is for how long the work is repeated and timed, and Warmup for how long
	// before that, with the same objects.
	Seconds float64 `json:"seconds,omitempty"`
	Warmup  float64 `json:"warmup,omitempty"`
	// MaxBytes of keys and values end append and latency before their time, and their
	// warm-up. 0 means no limit.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// SegmentBytes is segment.bytes, below 1 MiB internal.segment.bytes; 0 means 1 GiB.
	SegmentBytes int `json:"segment_bytes,omitempty"`
	// Unclean has open recover what is from RecoveryPoint on, as behind a crash.
	Unclean       bool  `json:"unclean,omitempty"`
	RecoveryPoint int64 `json:"recovery_point,omitempty"`
	// KeepOpen has fill not close the log, so that the driver can be killed over it.
	KeepOpen bool `json:"keep_open,omitempty"`
	// Seed is for the random numbers of get and time.
	Seed int64 `json:"seed,omitempty"`
}

// Result is what came of a Request. Every read has checked what it got.
type Result struct {
	Op string `json:"op"`
	// Ops is how often the work was done in Seconds: appends of a batch, records read,
	// look-ups, opens.
	Ops              int64   `json:"ops,omitempty"`
	Seconds          float64 `json:"seconds,omitempty"`
	NsPerOp          float64 `json:"ns_per_op,omitempty"`
	RecordsPerSecond float64 `json:"records_per_second,omitempty"`
	// End is the log end offset, Bytes the size of the log files and, of clean, what
	// was read of them. Records are those that are left.
	End     int64 `json:"end,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	Records int64 `json:"records,omitempty"`
	// ColdNs is the first open in the driver's life, MedianNs that of those timed.
	ColdNs   int64 `json:"cold_ns,omitempty"`
	MedianNs int64 `json:"median_ns,omitempty"`
	// VisibleNs is when what drop removes could no longer be read, and FreedPercent how
	// much of the log's files was gone just then; all that will go is after Seconds.
	VisibleNs    int64   `json:"visible_ns,omitempty"`
	FreedPercent float64 `json:"freed_percent,omitempty"`
	// P50Ns, P99Ns and P999Ns are quantiles of the time of an append.
	P50Ns  int64 `json:"p50_ns,omitempty"`
	P99Ns  int64 `json:"p99_ns,omitempty"`
	P999Ns int64 `json:"p999_ns,omitempty"`
	// Segments are those that fill made or drop removed.
	Segments   int   `json:"segments,omitempty"`
	ActiveBase int64 `json:"active_base,omitempty"`
	Scans      int64 `json:"scans,omitempty"`
	// Hash is the SHA-256 over all that survives, as Survivors makes it.
	Hash string `json:"hash,omitempty"`
	// PeakRSSBytes and AnonBytes are those of the JVM, on Linux.
	PeakRSSBytes int64 `json:"peak_rss_bytes,omitempty"`
	AnonBytes    int64 `json:"anon_bytes,omitempty"`
	// Kafka and Java are the versions.
	Kafka string `json:"kafka,omitempty"`
	Java  string `json:"java,omitempty"`
	// Error is Java's exception. Do makes an error of it.
	Error string `json:"error,omitempty"`
}

// Driver is a running JVM. It is for one goroutine at a time.
type Driver struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	ended  bool // waited for
}

// Start starts a JVM. When ctx ends it is killed.
func (c *Classes) Start(ctx context.Context) (*Driver, error) {
	d := &Driver{cmd: c.java(ctx, "seglog.peer.Driver")}
	d.cmd.Stderr = &d.stderr
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReader(out)
	return d, d.cmd.Start()
}

// Do sends a request and waits for its result.
func (d *Driver) Do(r Request) (Result, error) {
	var res Result
	line, err := json.Marshal(r)
	if err != nil {
		return res, err
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return res, d.failed(r, err)
	}
	answer, err := d.out.ReadBytes('\n')
	if err != nil {
		return res, d.failed(r, err)
	}
	if err := json.Unmarshal(answer, &res); err != nil {
		return res, fmt.Errorf("kafka %s: %q: %w", r.Op, answer, err)
	}
	if res.Error != "" {
		return res, fmt.Errorf("kafka %s: %s", r.Op, res.Error)
	}
	return res, nil
}

// failed is the error of a JVM that does not answer, with what it said last.
func (d *Driver) failed(r Request, err error) error {
	return errors.Join(fmt.Errorf("kafka %s: the driver does not answer: %w", r.Op, err), d.Close())
}

// Close ends the driver and waits for it. Once it has ended there is nothing to do.
func (d *Driver) Close() error {
	if d.ended {
		return nil
	}
	d.ended = true
	d.in.Close()
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("kafka driver: %w\n%s", err, d.stderr.String())
	}
	return nil
}

// Kill ends the driver as kill -9 does and waits until it is gone.
func (d *Driver) Kill() error {
	if err := d.cmd.Process.Kill(); err != nil {
		return err
	}
	d.ended = true
	d.cmd.Wait() // says that it was killed
	return nil
}

// stderr is what a command has said that failed.
func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}
