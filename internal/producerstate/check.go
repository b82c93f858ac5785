package producerstate

import (
	"math"

	"github.com/seglog/seglog/record"
)

// A Verdict is the answer to a batch that is not refused.
type Verdict struct {
	// Duplicate means that the batch is in the log already and must not be
	// written again: the answer to its producer is where it is. BaseOffset,
	// LastOffset and Timestamp say so; they are -1 for a marker.
	Duplicate                         bool
	BaseOffset, LastOffset, Timestamp int64
}

// Check judges a batch that is about to be written at the log end. It changes
// nothing. An error is an *Error and says why the batch must not be written.
//
// A client's batch must carry on where the last one of its producer ended, in an
// epoch that is not older; a newer one begins at sequence 0. If it is one of the
// last five of its producer it is a duplicate. A producer of which nothing is
// known, because it is new or was silent for long, may begin anywhere: its first
// batches may be gone. Kafka answers UNKNOWN_PRODUCER_ID no more (KIP-360). In two
// cases nothing can be gone and it must begin at 0: in a log that has never held a
// record (KAFKA-15591, see Options.LooseStart), and in transactions of version 2
// (KAFKA-18202).
//
// A marker must not come from an older producer epoch, nor from an older
// coordinator epoch, than what the log has seen. In version 2 it must raise the
// producer epoch; if it has the same, and no transaction is open, it was sent
// twice and is a duplicate (KAFKA-19446, KAFKA-19999).
//
// With Replication nothing is refused, not even what Kafka refuses there: records
// outside of the transaction that their producer has open.
func (m *Manager) Check(b Batch, origin Origin) (Verdict, error) {
	if origin == Replication {
		return Verdict{}, nil
	}
	if origin == Client && !b.writableByClient() {
		return Verdict{}, b.refused(ErrInvalidRecord, -1, -1)
	}
	if !b.concerns() {
		return Verdict{}, nil
	}
	p := m.producers[b.ProducerID]
	if p == nil {
		return Verdict{}, m.checkStart(&b, origin)
	}
	if b.marker() {
		return p.checkMarker(&b)
	}
	if origin == Client {
		if verdict := p.duplicate(&b); verdict.Duplicate {
			return verdict, nil
		}
	}
	if b.ProducerEpoch < p.epoch {
		return Verdict{}, b.refused(ErrInvalidProducerEpoch, int64(b.ProducerEpoch), int64(p.epoch))
	}
	if origin == Client {
		if err := m.checkSequence(p, &b); err != nil {
			return Verdict{}, err
		}
	}
	if p.open() && !b.Transactional {
		return Verdict{}, b.refused(ErrInvalidTxnState, -1, p.txnFirst)
	}
	return Verdict{}, nil
}

// writableByClient: markers are for coordinators, and a producer counts its
// batches (LogValidator.validateBatch). Kafka lets a negative epoch pass, and
// then forgets that it knows the producer.
func (b *Batch) writableByClient() bool {
	return b.Kind == Data && (b.ProducerID < 0 || b.BaseSequence >= 0 && b.ProducerEpoch >= 0)
}

// checkStart is for a producer of which nothing is known.
func (m *Manager) checkStart(b *Batch, origin Origin) error {
	if origin != Client || b.marker() || b.BaseSequence == 0 {
		return nil
	}
	if m.end == 0 && !m.opts.LooseStart || b.Transactional && b.TransactionVersion >= 2 {
		return b.refused(ErrOutOfOrderSequence, int64(b.BaseSequence), 0)
	}
	return nil
}

// checkSequence (ProducerAppendInfo.checkSequence). There is no epoch if all that
// is known comes from control batches that the cleaner has emptied.
func (m *Manager) checkSequence(p *producer, b *Batch) error {
	if p.epoch == record.NoProducerEpoch {
		return m.checkStart(b, Client)
	}
	due := int32(0)
	if b.ProducerEpoch == p.epoch {
		due = record.IncrementSequence(p.lastSequence(), 1)
	}
	if b.BaseSequence != due {
		return b.refused(ErrOutOfOrderSequence, int64(b.BaseSequence), int64(due))
	}
	return nil
}

func (p *producer) checkMarker(b *Batch) (Verdict, error) {
	least := int64(p.epoch)
	if b.TransactionVersion >= 2 {
		if b.ProducerEpoch == p.epoch && !p.open() {
			return Verdict{Duplicate: true, BaseOffset: NoOffset, LastOffset: NoOffset, Timestamp: record.NoTimestamp}, nil
		}
		// Above the highest epoch there is none: its transaction has to end too.
		least = min(least+1, math.MaxInt16)
	}
	if int64(b.ProducerEpoch) < least {
		return Verdict{}, b.refused(ErrInvalidProducerEpoch, int64(b.ProducerEpoch), least)
	}
	if b.CoordinatorEpoch < p.coordinatorEpoch {
		return Verdict{}, b.refused(ErrCoordinatorFenced, int64(b.CoordinatorEpoch), int64(p.coordinatorEpoch))
	}
	return Verdict{}, nil
}
