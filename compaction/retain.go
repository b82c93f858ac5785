package compaction

import "github.com/seglog/seglog/record"

// Fate is what becomes of a record.
type Fate uint8

// The fates.
const (
	Kept       Fate = iota
	Superseded      // a later record has its key
	Expired         // a tombstone whose time has come
	Aborted         // it belongs to an aborted transaction
	Keyless         // it has no key, so nobody can tell what supersedes it
	Done            // a marker of a transaction of which nothing is left
	fates
)

func (f Fate) String() string {
	return [...]string{"kept", "superseded", "expired", "aborted", "keyless", "done"}[f]
}

// verdict is what becomes of a batch as a whole, before its records are asked.
type verdict struct {
	discard Fate // not Kept: every record has this fate
	// keepEmpty leaves the header of the batch if no record is left.
	keepEmpty bool
	// horizon: set a delete horizon, if it has none, though no record is a tombstone.
	horizon bool
}

// LastRecord is the end of what an active producer has written to a log.
type LastRecord struct {
	// Offset is that of its last record with data, or -1.
	Offset int64
	Epoch  int16
}

// judgeBatch decides about a batch. done is what the transactions say of it: that it
// is one of an aborted transaction, or a control batch with nothing left to say. last
// is what its producer wrote last, if that is active. Kafka: checkBatchRetention.
//
//   - The last batch of an active producer tells its sequence number, and a marker, if
//     there is no such batch, its epoch: without it the producer would be refused.
//   - The last batch of the part that is being cleaned tells where that ends.
func judgeBatch(b record.Batch, done bool, last LastRecord, active bool, roundEnd, now int64) verdict {
	var v verdict
	switch horizon, ok := b.DeleteHorizon(); {
	case !done:
	case !b.IsControl():
		v.discard = Aborted
	case ok && horizon <= now:
		v.discard = Done
	default:
		v.horizon = true
	}
	v.keepEmpty = b.NextOffset() == roundEnd || active && (last.Offset == b.LastOffset() ||
		last.Offset < 0 && b.IsControl() && b.ProducerEpoch() == last.Epoch)
	return v
}

// keep decides about a record of a batch that is neither discarded nor a control
// batch: latest is the offset up to which keys are known, found the last offset of its
// key up to there, -1 if there is none. tombstones is false if those of the batch may
// go. Kafka: shouldRetainRecord.
func keep(q *question, latest, found int64, tombstones bool) Fate {
	switch {
	case q.offset > latest:
		return Kept
	case !q.keyed:
		return Keyless
	case q.offset < found:
		return Superseded
	case q.tombstone && !tombstones:
		return Expired
	}
	return Kept
}

// keepsTombstones reports whether the tombstones of a batch must stay. legacy is the
// answer for formats that have no room for a delete horizon.
func keepsTombstones(b record.Batch, legacy bool, now int64) bool {
	if b.Magic() < record.MagicV2 {
		return legacy
	}
	horizon, ok := b.DeleteHorizon()
	return !ok || now < horizon
}
