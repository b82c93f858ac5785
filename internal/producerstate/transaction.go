package producerstate

import (
	"iter"

	"github.com/seglog/seglog/record"
)

// A CompletedTxn is a transaction that has ended (CompletedTxn.java). An aborted
// one belongs in the transaction index of the segment that holds its marker.
type CompletedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
	Aborted     bool
	// LastStableOffset is what it is right after the marker, the high watermark
	// left aside: where the oldest transaction that is still open begins, or behind
	// the marker.
	LastStableOffset int64
}

// Ends returns the transaction that a batch ends, and false if it ends none: if it
// is no marker, or its producer has no transaction open. It changes nothing. Call
// it before Apply, for each batch of a set in turn.
func (m *Manager) Ends(b Batch) (CompletedTxn, bool) {
	if !b.marker() {
		return CompletedTxn{}, false
	}
	p := m.producers[b.ProducerID]
	if p == nil || !p.open() {
		return CompletedTxn{}, false
	}
	stable := b.BaseOffset + 1
	if other := m.oldest; other != p {
		stable = other.txnFirst
	} else if p.behind != nil {
		stable = p.behind.txnFirst
	}
	return CompletedTxn{p.id, p.txnFirst, b.BaseOffset, b.Kind == Abort, stable}, true
}

// FirstUnstableOffset returns the first offset of the first transaction that is
// open, or whose marker is not below the high watermark, and false if there is
// none. It may lie below the log start.
func (m *Manager) FirstUnstableOffset() (int64, bool) {
	first, ok := m.unreplicated.first()
	if m.oldest != nil && (!ok || m.oldest.txnFirst < first) {
		return m.oldest.txnFirst, true
	}
	return first, ok
}

// LastStableOffset returns the offset at which readers of committed data stop: the
// high watermark, or the first unstable offset if that is lower. Where that lies
// below the log start, the log start takes its place.
func (m *Manager) LastStableOffset(highWatermark int64) int64 {
	if first, ok := m.FirstUnstableOffset(); ok {
		return min(first, highWatermark)
	}
	return highWatermark
}

// OnHighWatermark lets go of the transactions whose markers are below the high
// watermark. It never goes back.
func (m *Manager) OnHighWatermark(highWatermark int64) { m.unreplicated.below(highWatermark) }

// An OpenTxn is a transaction without a marker.
type OpenTxn struct {
	ProducerID    int64
	ProducerEpoch int16
	FirstOffset   int64
	// StartTimestamp is that of the first batch, or record.NoTimestamp if that was
	// before the snapshot that was loaded.
	StartTimestamp int64
	LastTimestamp  int64 // of the last batch
}

// OpenTransactions returns the open transactions by first offset. The Manager must
// not be changed meanwhile.
func (m *Manager) OpenTransactions() iter.Seq[OpenTxn] {
	return func(yield func(OpenTxn) bool) {
		for p := m.oldest; p != nil; p = p.behind {
			if !yield(OpenTxn{p.id, p.epoch, p.txnFirst, p.txnStart, p.lastTimestamp}) {
				return
			}
		}
	}
}

// HasLateTransaction reports whether the oldest transaction has been silent for
// five minutes more than a coordinator lets any live: nobody is going to end it.
func (m *Manager) HasLateTransaction(now int64) bool {
	p := m.oldest
	return p != nil && p.lastTimestamp > 0 && p.lastTimestamp < now-m.opts.MaxTransactionTimeout-lateBuffer
}

// complete ends the transaction of p with the marker at offset.
func (m *Manager) complete(p *producer, offset int64) {
	m.unlink(p)
	m.unreplicated.add(p.txnFirst, offset)
	p.txnFirst, p.txnStart = NoOffset, record.NoTimestamp
}

// link puts p at the end of the list of open transactions: they begin one after
// the other.
func (m *Manager) link(p *producer) {
	p.before = m.newest
	if m.newest == nil {
		m.oldest = p
	} else {
		m.newest.behind = p
	}
	m.newest = p
}

func (m *Manager) unlink(p *producer) {
	if p.before == nil {
		m.oldest = p.behind
	} else {
		p.before.behind = p.behind
	}
	if p.behind == nil {
		m.newest = p.before
	} else {
		p.behind.before = p.before
	}
	p.before, p.behind = nil, nil
}

// completed are the transactions whose markers are not below the high watermark
// yet. What counts is which of them began first. So a transaction is left out once
// there is another that began earlier and ends later: that one counts for longer.
type completed struct {
	// txns[gone:] grow in both offsets.
	txns []span
	gone int
}

type span struct{ first, last int64 }

func (c *completed) empty() bool { return c.gone == len(c.txns) }

func (c *completed) first() (int64, bool) {
	if c.empty() {
		return 0, false
	}
	return c.txns[c.gone].first, true
}

// add: markers come one after the other.
func (c *completed) add(first, last int64) {
	for !c.empty() && c.txns[len(c.txns)-1].first >= first {
		c.txns = c.txns[:len(c.txns)-1]
	}
	if len(c.txns) == cap(c.txns) && c.gone > len(c.txns)/2 {
		// Rather than grow, use what is free at the front.
		c.txns = c.txns[:copy(c.txns, c.txns[c.gone:])]
		c.gone = 0
	}
	c.txns = append(c.txns, span{first, last})
}

// before returns those with markers before offset.
func (c *completed) before(offset int64) completed {
	var kept completed
	for _, t := range c.txns[c.gone:] {
		if t.last < offset {
			kept.txns = append(kept.txns, t)
		}
	}
	return kept
}

func (c *completed) below(offset int64) {
	for !c.empty() && c.txns[c.gone].last < offset {
		c.gone++
	}
	if c.empty() {
		c.txns, c.gone = c.txns[:0], 0
	}
}
