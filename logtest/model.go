package logtest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seglog/seglog"
)

// Anywhere is the base offset of records whose offsets are not known.
const Anywhere int64 = -1

// Model is what a program was told of its log. It is told before and after each
// thing the program does:
//
//	before                          after
//	a := m.Attempt(base, records)   a.Appended(base), a.Failed(err)
//	                                a.Durable(), m.Durable(offset)
//	done := m.Truncating(offset)    done(err)
//	done := m.Deleting(offset)      done(start)
//
// The zero value is the model of an empty log. It is safe for concurrent use, but a
// truncation must not be told beside appends.
type Model struct {
	mu       sync.Mutex
	attempts []*Attempt
	start    int64 // below it nothing needs to be there
	started  int64 // below it nothing is there, until a power loss
}

// Attempt is one batch that was given to the log.
type Attempt struct {
	model *Model
	claim
}

// Attempt notes that records are about to be appended as one batch, with
// consecutive offsets from base on, or Anywhere. The offset in a record is ignored,
// and so is a timestamp of 0, which stands for one that the log sets. The records
// are copied.
func (m *Model) Attempt(base int64, records ...seglog.Record) *Attempt {
	a := &Attempt{model: m, claim: claim{base: base}}
	for _, r := range records {
		a.records = append(a.records, r.Clone())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts = append(m.attempts, a)
	return a
}

// Append appends records to the log and tells the model, for tests in which nobody
// else appends meanwhile.
func (m *Model) Append(log *seglog.Log, records []seglog.Record, opts *seglog.AppendOptions) (seglog.AppendResult, error) {
	a := m.Attempt(log.Offsets().End, records...)
	at, err := log.Append(records, opts)
	if err != nil {
		a.Failed(err)
		return at, err
	}
	a.Appended(at.BaseOffset)
	m.Durable(log.Offsets().Durable)
	return at, nil
}

// Appended notes that the append returned without an error; base is its base
// offset, or Anywhere if the caller did not learn it. A killed process leaves the
// records there from now on, and a power loss that takes them takes all behind them.
func (a *Attempt) Appended(base int64) {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	a.written = true
	if base != Anywhere {
		a.base = base
	}
}

// Durable notes that the records are on disk, which is so after an append under
// seglog.SyncAlways. Appended comes first.
func (a *Attempt) Durable() {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	a.durable = true
}

// Failed notes the error of the append. If it does not match seglog.ErrFailed the
// records are not in the log, though a power loss may still bring them up until
// Sync or Close has succeeded, see Synced; if it does, they may be.
func (a *Attempt) Failed(err error) {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	a.refused = err != nil && !errors.Is(err, seglog.ErrFailed)
}

// Durable notes that everything appended below offset is on disk: that is what
// Sync, WaitDurable, Close and Log.Offsets tell. Records whose offsets are not known
// are not meant.
func (m *Model) Durable(offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.attempts {
		if a.written && a.base != Anywhere && a.last() < offset {
			a.durable = true
		}
	}
}

// Synced notes that Sync or Close has succeeded, and was called after all attempts so far
// had ended: of those that have failed without seglog.ErrFailed nothing comes back.
func (m *Model) Synced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.attempts {
		a.settled = a.settled || a.refused
	}
}

// Truncating notes that a truncation to offset is about to happen, and done its
// end. Batches that hold offset or lie above it must not be there afterwards; while
// it goes on, and when it failed, they may. Nothing is claimed any more of written
// records whose offsets are not known.
func (m *Model) Truncating(offset int64) (done func(err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.attempts {
		a.cut = a.cut || a.base == Anywhere && a.written || a.base != Anywhere && a.last() >= offset
	}
	m.started = min(m.started, offset)
	return func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil {
			return
		}
		m.start = min(m.start, offset)
		m.attempts = slices.DeleteFunc(m.attempts, func(a *Attempt) bool { return a.base != Anywhere && a.last() >= offset })
	}
}

// Deleting notes that records below offset are about to be removed, and done where
// the log starts afterwards: at offset after DeleteBefore, at RetentionResult.Start
// after ApplyRetention, for which offset is the log end.
func (m *Model) Deleting(offset int64) (done func(start int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.start
	m.start = max(before, offset)
	return func(start int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.start = max(before, start)
		m.started = max(m.started, start)
	}
}

// Claims returns what must, and what may, be there now.
func (m *Model) Claims() Claims {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := Claims{start: m.start, started: m.started, index: new(offsetIndex)}
	for _, a := range m.attempts {
		now := a.claim
		now.of = a
		if a.cut {
			now.written, now.durable = false, false
		}
		c.attempts = append(c.attempts, now)
	}
	return c
}

// Check compares the open log with the model: what was appended is there, each
// record where and as it was appended, and nothing else.
func (m *Model) Check(ctx context.Context, log *seglog.Log) error {
	return m.Claims().AfterKill(ctx, log)
}

// Restart notes that the program goes on with a log that was opened after a crash:
// what is not there is forgotten, and what is there is written, and durable if it was, or
// lies below the durable offset of the log. A record that nobody appended is an error; what
// is missing is not, since that is for Crash.Check to find.
func (m *Model) Restart(ctx context.Context, log *seglog.Log) error {
	durable := log.Offsets().Durable
	found, err := m.Claims().find(ctx, log)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start, m.started = max(m.start, found.Start), found.Start
	m.attempts = slices.DeleteFunc(m.attempts, func(a *Attempt) bool {
		base, ok := found.bases[a]
		if !ok {
			return a.base == Anywhere || a.last() >= found.Start
		}
		a.durable = a.durable && !a.cut
		a.base, a.written, a.refused, a.settled, a.cut = base, true, false, false, false
		a.durable = a.durable || a.last() < durable
		return false
	})
	return nil
}
