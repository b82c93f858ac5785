package compaction

import (
	"slices"

	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// rewriter makes of a batch what is left of it. Kafka: MemoryRecords.filterTo.
type rewriter struct {
	keys      *KeyMap
	txns      *transactions
	roundEnd  int64 // the first uncleanable offset of the round
	now       int64
	retention int64 // delete.retention.ms

	producers        map[int64]LastRecord
	legacyTombstones bool // those of the present segment stay

	it      record.Iterator
	builder record.Builder
	legacy  record.LegacyBuilder
	fates   []Fate     // of the records of the present batch
	asked   []question // about some of them
	hashes  []keyHash  // of their keys
	first   int64      // offset of the first of them
	header  []byte
	counts  [fates]int64 // records, over all batches
}

// outcome is what is left of a batch.
type outcome struct {
	bytes []byte // nil if nothing is; the batch's or the rewriter's
	same  bool   // bytes are those of the batch

	first, last  int64 // offsets
	maxTimestamp int64
	records      int64
	aborts       *segment.AbortedTxn // the entry that its marker needs in the index
}

// rewrite decides about b, which was checked, and encodes what is left. The outcome is
// valid until the next call.
func (r *rewriter) rewrite(b record.Batch) (outcome, error) {
	if err := r.it.Reset(b); err != nil {
		return outcome{}, err
	}
	done, aborts, err := r.transaction(b)
	if err != nil {
		return outcome{}, err
	}
	last, active := r.producers[b.ProducerID()]
	v := judgeBatch(b, done, last, active && b.HasProducerID(), r.roundEnd, r.now)
	kept, stamp, same, err := r.judgeRecords(b, v)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{first: b.BaseOffset(), last: b.LastOffset(), maxTimestamp: b.MaxTimestamp(), records: int64(kept), aborts: aborts}
	_, stamped := b.DeleteHorizon()
	stamp = stamp && !stamped && b.Magic() >= record.MagicV2
	switch {
	case kept == 0 && v.keepEmpty:
		r.header = record.AppendEmptyBatch(r.header[:0], emptied(b))
		o.bytes = r.header
		o.same = slices.Equal(o.bytes, b.Bytes())
		return o, nil
	case kept == 0:
		return o, nil
	case same && !stamp:
		o.bytes, o.same = b.Bytes(), true
		if b.Magic() < record.MagicV2 {
			o.first = r.first
		}
		return o, nil
	case b.Magic() < record.MagicV2:
		err = r.rewrap(b, &o)
	default:
		err = r.rebuild(b, stamp, &o)
	}
	return o, err
}

// transaction asks the transactions about b, on whose records the iterator is.
func (r *rewriter) transaction(b record.Batch) (done bool, aborts *segment.AbortedTxn, err error) {
	if !b.IsControl() {
		return r.txns.data(b), nil, nil
	}
	if !r.it.Next() {
		if err := r.it.Err(); err != nil {
			return false, nil, err
		}
		return r.txns.control(b, record.UnknownControl, true)
	}
	kind, _, err := record.ParseControl(r.it.Record().Key)
	if err != nil {
		return false, nil, err
	}
	r.it.Rewind()
	return r.txns.control(b, kind, false)
}

// judgeRecords notes the fate of each record of b. It returns how many are kept,
// whether the batch needs a delete horizon, and whether it may stay as it is.
func (r *rewriter) judgeRecords(b record.Batch, v verdict) (kept int, stamp, same bool, err error) {
	r.fates = r.fates[:0]
	tombstones := keepsTombstones(b, r.legacyTombstones, r.now)
	latest := r.keys.Latest()
	stamp, same = v.horizon, true
	for r.ask(b) {
		for i := range r.asked {
			q := &r.asked[i]
			fate := v.discard
			if fate == Kept && !b.IsControl() {
				found := int64(-1)
				if q.keyed && q.offset <= latest {
					found = r.keys.get(r.hashes[i])
				}
				fate = keep(q, latest, found, tombstones)
			}
			if len(r.fates) == 0 {
				r.first = q.offset
			}
			r.fates = append(r.fates, fate)
			r.counts[fate]++
			if fate != Kept {
				same = false
				continue
			}
			kept++
			stamp = stamp || q.tombstone
			same = same && !q.foreign
		}
	}
	return kept, stamp, same, r.it.Err()
}

// question is what has to be known of a record to decide about it.
type question struct {
	offset           int64
	keyed, tombstone bool
	foreign          bool // its format is not that of its batch
}

// ask puts questions about the next records of b, some at a time: see KeyMap.touch. It
// reports false if there are none.
func (r *rewriter) ask(b record.Batch) bool {
	r.asked, r.hashes = r.asked[:0], r.hashes[:0]
	for len(r.asked) < atOnce && r.it.Next() {
		rec := r.it.Record()
		q := question{offset: rec.Offset, keyed: rec.Key != nil, tombstone: rec.Value == nil}
		// KAFKA-4298: some versions have wrapped messages of another magic.
		if m := r.it.LegacyMessage(); m != nil && m[magicPosition] != byte(b.Magic()) {
			q.foreign = true
		}
		r.asked, r.hashes = append(r.asked, q), append(r.hashes, r.keys.hash(rec.Key))
	}
	r.keys.touch(r.hashes)
	return len(r.asked) > 0
}

// magicPosition is where the magic is in a batch or message of any format.
const magicPosition = 16

// emptied is the header of what is left of b when it has no records. In a legacy batch
// there is nothing to keep but where it ends; Kafka has no such thing, and fails.
func emptied(b record.Batch) record.BatchHeader {
	h := b.Header()
	if b.Magic() >= record.MagicV2 {
		return h
	}
	return record.BatchHeader{
		BaseOffset: b.LastOffset(), LeaderEpoch: record.NoLeaderEpoch, BaseTimestamp: record.NoTimestamp,
		MaxTimestamp: b.MaxTimestamp(), ProducerID: record.NoProducerID, ProducerEpoch: record.NoProducerEpoch,
		BaseSequence: record.NoSequence,
	}
}

// rebuild encodes the records of b that are kept, in a batch that is otherwise what it
// was. With stamp it gets a delete horizon.
func (r *rewriter) rebuild(b record.Batch, stamp bool, o *outcome) error {
	opts := record.BuilderOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec(),
		TimestampType: b.TimestampType(), LogAppendTime: b.MaxTimestamp(),
		Transactional: b.IsTransactional(), Control: b.IsControl(),
		// Also of a batch without a producer: some clients number it all the same.
		Producer: &record.Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence()},
	}
	opts.DeleteHorizon, opts.HasDeleteHorizon = b.DeleteHorizon()
	if stamp {
		opts.DeleteHorizon, opts.HasDeleteHorizon = r.now+r.retention, true
	}
	r.builder.Reset(opts)
	if err := r.copyKept(r.builder.AppendAt, o); err != nil {
		return err
	}
	// What the producer has written up to is told by the last offset.
	if err := r.builder.SetLastOffset(b.LastOffset()); err != nil {
		return err
	}
	o.first, o.last = b.BaseOffset(), b.LastOffset()
	var err error
	if o.bytes, err = r.builder.Build(); err != nil {
		return err
	}
	return o.setTimestamp()
}

// rewrap is rebuild for a wrapper of magic 0 or 1, which ends with its last message.
func (r *rewriter) rewrap(b record.Batch, o *outcome) error {
	if err := r.legacy.Reset(b); err != nil {
		return err
	}
	if err := r.copyKept(r.legacy.AppendAt, o); err != nil {
		return err
	}
	var err error
	if o.bytes, err = r.legacy.Build(); err != nil {
		return err
	}
	return o.setTimestamp()
}

func (r *rewriter) copyKept(add func(int64, record.Record) error, o *outcome) error {
	r.it.Rewind()
	first := true
	for i := 0; r.it.Next(); i++ {
		if r.fates[i] != Kept {
			continue
		}
		rec := r.it.Record()
		if err := add(rec.Offset, *rec); err != nil {
			return err
		}
		if first {
			o.first, first = rec.Offset, false
		}
		o.last = rec.Offset
	}
	return r.it.Err()
}

func (o *outcome) setTimestamp() error {
	b, err := record.Parse(o.bytes)
	if err == nil {
		o.maxTimestamp = b.MaxTimestamp()
	}
	return err
}
