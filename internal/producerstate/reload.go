package producerstate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
)

// A Reload says what the state is after TruncateAndReload, and what it cost.
type Reload struct {
	// From is where the batches begin that are to be applied now, up to the end of
	// the log. A batch that ends below it counts already, or not any more.
	From int64
	// Damaged are the snapshots that were removed since they cannot be used.
	Damaged []*CorruptError
}

// TruncateAndReload makes the state that of a log from start to end. Snapshots
// outside, beyond end or not above start, are removed, durably. Unless the state
// is that at end already, it is then what the newest snapshot says, without
// producers that have expired by now, or nothing if there is none; from there on
// the caller applies what is in the log.
//
// Kafka keeps producers that wrote below the log start, and so do we: as long as
// the process runs, or a snapshot above the log start knows them.
//
// Transactions that were completed, and are waiting for the high watermark, go on
// waiting if their markers are still there. Of those before a snapshot that a log is
// opened with nobody knows, as with Kafka. Call OnHighWatermark when the caller has
// applied what is in the log.
//
// An error is one of reading or removing a snapshot. The state is empty then, and
// not that of the log.
func (m *Manager) TruncateAndReload(start, end, now int64) (Reload, error) {
	m.generation++
	err := m.removeDurably(func(offset int64) bool { return offset > end || offset <= start })
	if err == nil && end == m.end {
		m.OnLogStart(start)
		return Reload{From: end}, nil
	}
	waiting := m.unreplicated
	m.clear(0)
	m.end, m.lastSnapshot = start, start
	if err != nil {
		return Reload{}, err
	}
	var r Reload
	for n := len(m.snapshots); n > 0; n = len(m.snapshots) {
		offset := m.snapshots[n-1]
		err := m.load(offset, now)
		if err == nil {
			break
		}
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			r.Damaged = append(r.Damaged, corrupt)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		if err := m.removeSnapshots(func(o int64) bool { return o == offset }); err != nil {
			return r, err
		}
	}
	r.From = m.end
	// Those whose markers come behind are completed once more.
	m.unreplicated = waiting.before(r.From)
	return r, nil
}

// load makes the state that of a snapshot, or leaves it as it is.
func (m *Manager) load(offset, now int64) error {
	path := filepath.Join(m.dir, layout.SnapshotName(offset))
	entries, err := ReadFile(m.opts.FS, path)
	if err != nil {
		return err
	}
	if err := plausible(entries, offset); err != nil {
		err.File = path
		return err
	}
	m.clear(len(entries))
	for _, e := range entries {
		if !e.HasOpenTxn() && m.expired(e.Timestamp, now) {
			continue
		}
		m.add(e.ProducerID).restore(e)
	}
	m.linkAll()
	m.end, m.lastSnapshot = offset, offset
	return nil
}

// linkAll makes the list of open transactions.
func (m *Manager) linkAll() {
	var open []*producer
	for _, p := range m.all {
		if p.open() {
			open = append(open, p)
		}
	}
	slices.SortFunc(open, func(a, b *producer) int { return cmp.Compare(a.txnFirst, b.txnFirst) })
	for _, p := range open {
		m.link(p)
	}
}

// plausible finds what a snapshot at offset cannot say: it is under a checksum, but
// may be of another log, or have another name than it was written under.
func plausible(entries []Entry, offset int64) *CorruptError {
	seen := make(map[int64]struct{}, len(entries))
	for i, e := range entries {
		at := entriesAt + i*entrySize
		_, twice := seen[e.ProducerID]
		seen[e.ProducerID] = struct{}{}
		switch {
		case e.ProducerID < 0:
			return &CorruptError{Position: at, Rule: fmt.Sprintf("producer id %d is negative", e.ProducerID)}
		case twice:
			return &CorruptError{Position: at, Rule: fmt.Sprintf("producer %d has two entries", e.ProducerID)}
		case e.LastOffset >= offset:
			return &CorruptError{Position: at + 14, Rule: fmt.Sprintf("last offset %d in a snapshot at %d", e.LastOffset, offset)}
		case e.HasBatch() && (e.OffsetDelta < 0 || int64(e.OffsetDelta) > e.LastOffset):
			return &CorruptError{Position: at + 22, Rule: fmt.Sprintf("offset delta %d, last offset %d", e.OffsetDelta, e.LastOffset)}
		case e.CurrentTxnFirstOffset >= offset:
			return &CorruptError{Position: at + 38, Rule: fmt.Sprintf("a transaction from offset %d on in a snapshot at %d", e.CurrentTxnFirstOffset, offset)}
		}
	}
	return nil
}

// TruncateFullyAndStartAt makes the state that of an empty log at offset. All
// snapshots are removed, durably.
func (m *Manager) TruncateFullyAndStartAt(offset int64) error {
	m.generation++
	m.clear(0)
	m.end, m.lastSnapshot = offset, 0
	return m.removeDurably(func(int64) bool { return true })
}

// OnLogStart is called when the log start has moved up to offset. Producers and
// open transactions stay, even if all that they wrote is gone: a producer must
// carry on where it was.
//
// Kafka takes no snapshot at the log start then, if there is none: what it knows of
// producers is gone when it is started again.
func (m *Manager) OnLogStart(offset int64) {
	m.unreplicated.below(offset)
	m.end = max(m.end, offset)
	if latest, ok := m.LatestSnapshot(); ok {
		m.lastSnapshot = latest
	}
}
