package producerstate

import (
	"fmt"

	"github.com/seglog/seglog/record"
)

// An Origin says where a batch comes from, and so how strictly it is checked
// (AppendOrigin.java).
type Origin uint8

const (
	// Client is a producer: everything is checked.
	Client Origin = iota
	// Coordinator is a transaction coordinator, which writes markers, or a group
	// coordinator, whose batches have no sequence numbers: epochs are checked.
	Coordinator
	// Replication is another log, or this one when it is read again: nothing is
	// checked, since the records are there.
	Replication
)

// A Kind is what a batch does to the state.
type Kind uint8

const (
	Data   Kind = iota // records
	Commit             // a marker that ends a transaction
	Abort              // likewise
	// Neutral is any other control batch: of another type, or a marker that the
	// cleaner has emptied. It changes nothing.
	Neutral
)

// A Batch is what a Manager needs to know about a record batch. Its offsets are
// the final ones.
type Batch struct {
	BaseOffset, LastOffset int64

	ProducerID    int64 // record.NoProducerID for a batch that changes nothing
	ProducerEpoch int16
	BaseSequence  int32 // record.NoSequence in markers and from group coordinators

	// Timestamp is the largest in a batch with data, that of the record in a
	// marker.
	Timestamp int64

	Kind             Kind
	Transactional    bool
	CoordinatorEpoch int32 // of a marker

	// TransactionVersion is the version of transactions that the writer speaks,
	// which is not in the log. From 2 on each transaction has an epoch of its own
	// (KIP-890): that is checked more strictly.
	TransactionVersion int16
}

// Describe returns what a Manager needs to know about b, and keeps nothing of it.
// it is used to decode a control record. One of a type that is not known is
// Neutral. So is one that cannot be decoded, and that is an error too: it must not
// be appended, but who finds it in a log can go on.
func Describe(b record.Batch, it *record.Iterator) (Batch, error) {
	d := Batch{
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Timestamp: b.MaxTimestamp(), Transactional: b.IsTransactional(),
	}
	if !b.IsControl() {
		return d, nil
	}
	d.Kind = Neutral
	if err := it.Reset(b); err != nil {
		return d, fmt.Errorf("control batch at offset %d: %w", d.BaseOffset, err)
	}
	if !it.Next() {
		return d, it.Err()
	}
	if err := d.control(it.Record()); err != nil {
		return d, fmt.Errorf("control batch at offset %d: %w", d.BaseOffset, err)
	}
	return d, nil
}

func (b *Batch) control(r *record.Record) error {
	t, _, err := record.ParseControl(r.Key)
	if err != nil || t != record.Abort && t != record.Commit {
		return err
	}
	marker, err := record.ParseEndTxnMarker(r.Key, r.Value)
	if err != nil {
		return err
	}
	b.Kind, b.CoordinatorEpoch, b.Timestamp = Commit, marker.CoordinatorEpoch, r.Timestamp
	if t == record.Abort {
		b.Kind = Abort
	}
	return nil
}

// concerns reports whether the batch changes what is known of a producer.
func (b *Batch) concerns() bool { return b.ProducerID >= 0 && b.Kind != Neutral }

func (b *Batch) marker() bool { return b.Kind == Commit || b.Kind == Abort }

func (b *Batch) offsetDelta() int32 { return int32(b.LastOffset - b.BaseOffset) }

// lastSequence is the sequence of the last record. Sequences wrap.
func (b *Batch) lastSequence() int32 {
	if b.BaseSequence == record.NoSequence {
		return record.NoSequence
	}
	return record.IncrementSequence(b.BaseSequence, b.offsetDelta())
}
