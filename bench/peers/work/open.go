package work

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// ready opens a log and reads its last record, if it can read one: what a store puts
// off at opening it does then.
func (t *task) ready() (l Log, next int64, took time.Duration, err error) {
	start := time.Now()
	if l, err = t.open(false, 1); err != nil {
		return nil, 0, 0, err
	}
	if _, next, err = l.Bounds(); err == nil && next > 0 {
		if g, ok := l.(Getter); ok {
			var r Record
			if err = g.Reader().Get(next-1, &r); err == nil {
				err = t.source.Check(&r, next-1)
			}
		}
	}
	took = time.Since(start)
	if err != nil {
		return nil, 0, 0, errors.Join(err, l.Close())
	}
	return l, next, took, nil
}

// openClean measures how long it takes to open a log that was closed, the median of as
// many as there is time for.
func openClean(t *task) error {
	var took []time.Duration
	for begin := time.Now(); len(took) == 0 || time.Since(begin) < t.box(); {
		l, next, d, err := t.ready()
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
		if next != t.Records {
			return fmt.Errorf("the end is at %d, want %d", next, t.Records)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	t.figures["ms"] = ms(took[len(took)/2])
	return nil
}

// openKilled has another process append, kills it in the middle of that, and measures
// how long it takes to open what it left. Records are lost that it had been told are
// appended and that are not there.
func openKilled(t *task) error {
	if _, err := t.openable(); err != nil {
		return err
	}
	acked, err := t.kill()
	if err != nil {
		return err
	}
	l, next, took, err := t.ready()
	if err != nil {
		return fmt.Errorf("open after SIGKILL: %w", err)
	}
	t.figures["ms"] = ms(took)
	t.figures["appended"] = float64(acked)
	t.figures["lost"] = float64(max(0, acked-next))
	t.measured()
	return errors.Join(t.verifyLog(l, []int64{next}), l.Close())
}

// openable makes sure that the store has a log at all, before a process is started for
// it.
func (t *task) openable() (Spec, error) {
	if t.spec.Open == nil {
		return Spec{}, lacking("keeps no log")
	}
	return t.spec, nil
}

// KilledWriter is the workload of the process that is killed.
const KilledWriter = "killed-writer"

// kill starts the writer and kills it when it has appended the tail and is appending
// more. It returns how many records had been acknowledged.
func (t *task) kill() (acked int64, err error) {
	job := t.Job
	job.Work, job.Profile = KilledWriter, ""
	text, err := json.Marshal(job)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return 0, err
	}
	counter, err := openCounter(t.Dir)
	if err != nil {
		return 0, err
	}
	defer counter.close()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	writer := exec.Command(self, ChildArgs(string(text))...)
	writer.Env = append(os.Environ(), ChildEnv+"=1")
	var said bytes.Buffer // its result, should it end
	writer.Stdout, writer.Stderr = &said, &said
	if err := writer.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- writer.Wait() }()
	// Some more than the tail, and not at the same place each time.
	target := t.tailRecords() + int64(t.random.IntN(5000))
	for counter.load() < target {
		select {
		case err := <-ended:
			return 0, fmt.Errorf("the writer ended by itself (%v): %s", err, said.String())
		case <-time.After(200 * time.Microsecond):
		}
	}
	if err := writer.Process.Kill(); err != nil {
		return 0, err
	}
	<-ended
	return counter.load(), nil
}

func (t *task) tailRecords() int64 {
	return t.TailBytes / int64(KeyBytes+t.Value) / int64(t.Batch) * int64(t.Batch)
}

// killedWriter appends batches until the tail is written, and then single records, for
// as long as it lives. It counts what was acknowledged in a shared mapping, which
// outlives it.
func killedWriter(t *task) error {
	l, err := t.open(false, 1)
	if err != nil {
		return err
	}
	counter, err := openCounter(t.Dir)
	if err != nil {
		return err
	}
	tail := t.tailRecords()
	for n := int64(0); ; {
		batch := 1
		if n < tail {
			batch = t.Batch
		}
		if _, err := l.Append(t.source.Batch(n, batch)); err != nil {
			return err
		}
		n += int64(batch)
		counter.store(n)
	}
}

// counter is a number that two processes share.
type counter struct {
	memory []byte
	n      *atomic.Int64
}

func openCounter(dir string) (*counter, error) {
	f, err := os.OpenFile(filepath.Clean(dir)+".acknowledged", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(binary.Size(int64(0)))); err != nil {
		return nil, err
	}
	return mapCounter(f)
}

func (c *counter) load() int64   { return c.n.Load() }
func (c *counter) store(n int64) { c.n.Store(n) }
