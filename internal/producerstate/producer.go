package producerstate

import "github.com/seglog/seglog/record"

// remembered is how many batches of a producer are known as duplicates when they
// come again. It is also how many a client may have in flight.
const remembered = 5

// A producer is what is known of one producer id.
type producer struct {
	id int64

	// txnFirst is the first offset of the open transaction, or NoOffset, and
	// txnStart the timestamp of its first batch, or record.NoTimestamp if that was
	// before a snapshot that was loaded.
	txnFirst, txnStart int64
	before, behind     *producer // in the list of open transactions

	lastTimestamp    int64 // of the last batch or marker
	index            int   // Invariant: m.all[index] is this one
	coordinatorEpoch int32
	epoch            int16

	// batches[:known] are the last ones with data in this epoch, oldest first.
	known   uint8
	batches [remembered]batch
}

// A batch that is remembered. The sequence of its first record follows from
// lastSequence and offsetDelta.
type batch struct {
	lastOffset, timestamp     int64
	lastSequence, offsetDelta int32
}

func (p *producer) open() bool { return p.txnFirst >= 0 }

// adopt forgets the batches of another epoch: their sequences do not count in
// this one.
func (p *producer) adopt(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.known = epoch, 0
	}
}

func (p *producer) remember(b *Batch) {
	if p.known == remembered {
		copy(p.batches[:], p.batches[1:])
		p.known--
	}
	p.batches[p.known] = batch{b.LastOffset, b.Timestamp, b.lastSequence(), b.offsetDelta()}
	p.known++
}

// duplicate looks for a batch of the same epoch and sequences.
func (p *producer) duplicate(b *Batch) Verdict {
	if b.ProducerEpoch != p.epoch {
		return Verdict{}
	}
	last := b.lastSequence()
	for _, k := range p.batches[:p.known] {
		if k.lastSequence == last && record.DecrementSequence(k.lastSequence, k.offsetDelta) == b.BaseSequence {
			return Verdict{true, k.lastOffset - int64(k.offsetDelta), k.lastOffset, k.timestamp}
		}
	}
	return Verdict{}
}

// lastSequence is that of the last batch in this epoch, or NoSequence.
func (p *producer) lastSequence() int32 {
	if p.known == 0 {
		return NoSequence
	}
	return p.batches[p.known-1].lastSequence
}

func (p *producer) entry() Entry {
	e := Entry{
		ProducerID: p.id, ProducerEpoch: p.epoch, Timestamp: p.lastTimestamp,
		LastSequence: NoSequence, LastOffset: NoOffset,
		CoordinatorEpoch: p.coordinatorEpoch, CurrentTxnFirstOffset: p.txnFirst,
	}
	if p.known > 0 {
		last := p.batches[p.known-1]
		e.LastSequence, e.LastOffset, e.OffsetDelta = last.lastSequence, last.lastOffset, last.offsetDelta
	}
	return e
}

// restore is the opposite of entry. Of the batches only the last one comes back.
func (p *producer) restore(e Entry) {
	p.epoch, p.coordinatorEpoch, p.lastTimestamp = e.ProducerEpoch, e.CoordinatorEpoch, e.Timestamp
	if e.HasBatch() {
		p.batches[0] = batch{e.LastOffset, e.Timestamp, e.LastSequence, e.OffsetDelta}
		p.known = 1
	}
	if e.HasOpenTxn() {
		p.txnFirst = e.CurrentTxnFirstOffset
	}
}
