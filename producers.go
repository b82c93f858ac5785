package seglog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Producer says who writes a batch, so that one that is sent twice is stored once
// (KIP-98). A producer counts its records: each batch begins at the sequence
// number behind that of the last record before it. It may have five batches in
// flight; who is not sure whether one arrived sends it again.
type Producer struct {
	// ID is given to a producer by whoever coordinates producers; 0 or above.
	ID int64
	// Epoch tells apart the instances of one producer: a newer one, which begins
	// at sequence 0 again, fences those before it. 0 or above.
	Epoch int16
	// Sequence is the number of the batch's first record, 0 to 2147483647, where
	// it wraps.
	Sequence int32
	// Transactional puts the batch in the producer's transaction, which begins
	// with its first such batch and ends with EndTransaction.
	Transactional bool
}

// TransactionResult is how a transaction ends.
type TransactionResult int8

const (
	// Abort has readers of committed records leave out what the transaction wrote.
	Abort TransactionResult = iota
	// Commit shows it to them.
	Commit
)

func (r TransactionResult) String() string {
	switch r {
	case Abort:
		return "abort"
	case Commit:
		return "commit"
	}
	return fmt.Sprintf("TransactionResult(%d)", int8(r))
}

// ProducerInfo is what a log knows of a producer. Offsets and sequences are -1
// where there are none; timestamps are in milliseconds since the epoch.
type ProducerInfo struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastOffset       int64 // of its last record with data in this epoch
	LastTimestamp    int64
	CoordinatorEpoch int32
	// TransactionStart is the first offset of its open transaction.
	TransactionStart int64
}

// Transaction is a transaction that has not ended.
type Transaction struct {
	ProducerID    int64
	ProducerEpoch int16
	FirstOffset   int64
	// Started is the timestamp of its first batch, LastWrite that of its last, in
	// milliseconds since the epoch; -1 where it is not known.
	Started, LastWrite int64
}

// Producers returns what is known of the producers of the log, by id. One that
// has not written for Options.ProducerIDExpiration is forgotten.
func (l *Log) Producers() ([]ProducerInfo, error) {
	if err := l.lockProducers(); err != nil {
		return nil, fmt.Errorf("producers: %w", err)
	}
	defer l.append.Unlock()
	infos := make([]ProducerInfo, 0, l.append.producers.Len())
	for e := range l.append.producers.Producers() {
		infos = append(infos, ProducerInfo{
			ID: e.ProducerID, Epoch: e.ProducerEpoch, LastSequence: e.LastSequence, LastOffset: e.LastOffset,
			LastTimestamp: e.Timestamp, CoordinatorEpoch: e.CoordinatorEpoch, TransactionStart: e.CurrentTxnFirstOffset,
		})
	}
	slices.SortFunc(infos, func(a, b ProducerInfo) int { return int(max(-1, min(1, a.ID-b.ID))) })
	return infos, nil
}

// Transactions returns the open transactions, the oldest first: it is what readers
// of committed records wait for.
func (l *Log) Transactions() ([]Transaction, error) {
	if err := l.lockProducers(); err != nil {
		return nil, fmt.Errorf("transactions: %w", err)
	}
	defer l.append.Unlock()
	var open []Transaction
	for t := range l.append.producers.OpenTransactions() {
		open = append(open, transactionOf(t))
	}
	return open, nil
}

func transactionOf(t producerstate.OpenTxn) Transaction {
	return Transaction{t.ProducerID, t.ProducerEpoch, t.FirstOffset, t.StartTimestamp, t.LastTimestamp}
}

// EndTransaction ends the open transaction of a producer, by its ID and Epoch, and
// returns where the marker is. If none is open the marker is written all the same,
// as on a broker. It is refused if the producer was fenced by a newer epoch, or if
// a coordinator of a newer epoch has written before.
func (l *Log) EndTransaction(p Producer, result TransactionResult, opts *AppendOptions) (AppendResult, error) {
	marker, err := l.endMarker(p.ID, p.Epoch, result, opts.coordinatorEpoch())
	var at AppendResult
	if err == nil {
		at, err = l.appendAssigned(marker, producerstate.Coordinator, opts)
	}
	if err != nil {
		return at, fmt.Errorf("%s transaction of producer %d: %w", result, p.ID, err)
	}
	return at, nil
}

// endMarker is a batch that ends a transaction. It has the time of the append like any
// other batch (LogValidator.assignOffsetsNonCompressed).
func (l *Log) endMarker(id int64, epoch int16, result TransactionResult, coordinatorEpoch int32) (record.Batch, error) {
	m := record.EndTxnMarker{CoordinatorEpoch: coordinatorEpoch}
	switch result {
	case Abort:
		m.Type = record.Abort
	case Commit:
		m.Type = record.Commit
	default:
		return record.Batch{}, invalid(fmt.Errorf("a transaction ends with %d or %d", Abort, Commit))
	}
	if id < 0 || epoch < 0 || coordinatorEpoch < 0 {
		return record.Batch{}, invalid(fmt.Errorf("producer %d, epoch %d, coordinator epoch %d: want 0 or above", id, epoch, coordinatorEpoch))
	}
	bytes, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{
		Timestamp: time.Now().UnixMilli(), ProducerID: id, ProducerEpoch: epoch, Marker: m,
	})
	if err != nil {
		return record.Batch{}, invalid(err)
	}
	b, err := record.Parse(bytes)
	if err == nil && l.settings().TimestampType == record.LogAppendTime {
		err = b.SetMaxTimestamp(record.LogAppendTime, b.MaxTimestamp())
	}
	return b, err
}

// AbortTransaction aborts the open transaction of a producer that is not coming
// back, which holds up every reader of committed records: "hanging" in Kafka's
// words. Be sure that nobody will end it. Without an open transaction it is
// ErrNoTransaction.
func (l *Log) AbortTransaction(producerID int64, opts *AppendOptions) (AppendResult, error) {
	l.append.Lock()
	at, err := l.abortTransactionLocked(producerID, opts)
	l.append.Unlock()
	if err == nil {
		err = l.finishAppend(at.LastOffset, opts)
	}
	if err != nil {
		return AppendResult{}, fmt.Errorf("abort transaction of producer %d: %w", producerID, err)
	}
	return at, nil
}

// abortTransactionLocked speaks for the coordinator that wrote last, if opts name no
// newer one.
func (l *Log) abortTransactionLocked(producerID int64, opts *AppendOptions) (AppendResult, error) {
	if err := l.writableLocked(); err != nil {
		return AppendResult{}, err
	}
	known, found := l.append.producers.Producer(producerID)
	if !found || !known.HasOpenTxn() {
		return AppendResult{}, ErrNoTransaction
	}
	marker, err := l.endMarker(producerID, known.ProducerEpoch, Abort, max(opts.coordinatorEpoch(), known.CoordinatorEpoch))
	if err != nil {
		return AppendResult{}, err
	}
	return l.appendAssignedLocked(marker, producerstate.Coordinator, opts)
}

// ExpireProducers forgets the producers that have not written for
// Options.ProducerIDExpiration and have no transaction open, and returns how many
// there were. A log does so by itself behind each roll. It looks at the clock, and
// holds up appends for no more than a moment at a time.
func (l *Log) ExpireProducers() (int, error) {
	for expired := 0; ; {
		l.append.Lock()
		if err := l.writableLocked(); err != nil {
			l.append.Unlock()
			return expired, fmt.Errorf("expire producers: %w", err)
		}
		n, done := l.append.producers.RemoveExpired(time.Now().UnixMilli(), 1000)
		l.append.Unlock()
		expired += n
		if done {
			return expired, nil
		}
	}
}

// applyLocked takes in what a written set of batches does to producers and
// transactions, and publishes what readers of committed records may see. append is
// held. It comes before the log end is moved behind the set, to end.
func (l *Log) applyLocked(set []producerstate.Batch, end int64) {
	m := l.append.producers
	for _, b := range set {
		m.Apply(b)
		l.append.hasProducers = l.append.hasProducers || b.ProducerID >= 0
		l.append.transactional = l.append.transactional || b.Transactional
	}
	m.Advance(end)
	if !l.append.hasProducers {
		return
	}
	watermark := end
	if l.opts.Replicated {
		watermark = l.HighWatermark()
	}
	l.publishStableLocked(watermark)
}

// noTransaction is the first unstable offset when every transaction has ended.
const noTransaction = math.MaxInt64

// publishStableLocked tells readers where the first transaction begins that has not
// ended below the high watermark. append is held.
func (l *Log) publishStableLocked(watermark int64) {
	l.append.producers.OnHighWatermark(watermark)
	l.unstable.Store(l.firstUnstableLocked())
	l.warnOfLateTransactionLocked()
}

func (l *Log) firstUnstableLocked() int64 {
	if first, ok := l.append.producers.FirstUnstableOffset(); ok {
		return first
	}
	return noTransaction
}

// abortedIn returns the transactions that are aborted by markers in a set.
func abortedIn(m *producerstate.Manager, set []producerstate.Batch) []segment.AbortedTxn {
	var aborted []segment.AbortedTxn
	for _, t := range m.Completes(set) {
		if t.Aborted {
			aborted = append(aborted, segment.AbortedTxn{
				ProducerID: t.ProducerID, FirstOffset: t.FirstOffset, LastOffset: t.LastOffset, LastStableOffset: t.LastStableOffset,
			})
		}
	}
	return aborted
}

func (l *Log) newProducers() error {
	m, err := producerstate.New(l.dir, producerstate.Options{
		FS: l.opts.FS, ReadOnly: l.opts.ReadOnly,
		ProducerIDExpiration:  l.opts.ProducerIDExpiration.Milliseconds(),
		MaxTransactionTimeout: l.opts.TransactionMaxTimeout.Milliseconds(),
	})
	l.append.producers = m
	return err
}

// noProducers reports whether it is known that nobody with a producer id ever wrote
// to this log, unless there are snapshots. Kafka assumes as much of any log without
// snapshots after a clean stop (UnifiedLog.rebuildProducerState).
func (l *Log) noProducers() bool {
	if l.ours {
		return !l.stateNow().Producers
	}
	return l.brokerClosed()
}

// reloadProducers makes the producer state that of the log below offset: from the
// newest snapshot that holds, and from the log behind it. segments are those of the
// log. With none, and without a snapshot, it is not searched.
func (l *Log) reloadProducers(segments []*segment.Segment, offset int64, none bool) error {
	m := l.append.producers
	r, err := m.TruncateAndReload(below(segments, offset), offset, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	for _, damaged := range r.Damaged {
		l.recovery.Damaged = append(l.recovery.Damaged, damaged)
	}
	_, snapshot := m.LatestSnapshot()
	if r.From < offset && (snapshot || len(r.Damaged) > 0 || !none) {
		err = l.replay(segments, r.From, offset, func(b producerstate.Batch) {
			m.Apply(b)
			l.append.transactional = l.append.transactional || b.Transactional
		})
	}
	m.Advance(offset)
	_, open := m.FirstUnstableOffset()
	l.append.transactional = l.append.transactional || open
	l.append.hasProducers = l.append.hasProducers || l.ours && l.stateNow().Producers || !m.IsEmpty() || snapshot
	return err
}

// below is an offset that the snapshots lie above that a log of these segments may use
// for its state at offset. What lies below the log start in the first segment is still
// there, and counts; and the snapshot at its base is all that is left of producers
// whose records are gone. Kafka does without that one.
func below(segments []*segment.Segment, offset int64) int64 {
	return max(0, min(segments[0].Base(), offset)-1)
}

// reloadForRecovery makes the producer state that of the base of segment i, which is
// about to be recovered; first was the first to be.
func (l *Log) reloadForRecovery(segments []*segment.Segment, i, first int) error {
	m, base := l.append.producers, segments[i].Base()
	if i > first {
		m.Advance(max(m.End(), base)) // over a gap; what lies before is in it
	}
	if err := l.reloadProducers(segments, base, i == first && l.noProducers()); err != nil {
		return err
	}
	if !l.append.hasProducers {
		return nil
	}
	_, err := m.Take(base, false) // it need not be made again the next time
	if vfs.IsNoSpace(err) {
		return nil
	}
	return err
}

// recovered takes in a batch of a segment that is being recovered.
func (l *Log) recovered(s *segment.Segment, h record.Summary, load func() (record.Batch, error), it *record.Iterator) error {
	l.noteEpoch(h.LeaderEpoch, h.BaseOffset, h.LastOffset)
	m := l.append.producers
	if h.ProducerID <= record.NoProducerID {
		m.Advance(h.LastOffset + 1)
		return nil
	}
	b, err := load()
	if err != nil {
		return err
	}
	d := described(b, it)
	for _, t := range abortedIn(m, []producerstate.Batch{d}) {
		if err := s.NoteAborted(t); err != nil {
			return err
		}
	}
	m.Apply(d)
	l.append.hasProducers = true
	l.append.transactional = l.append.transactional || d.Transactional
	return nil
}

// forgetProducers is for a log that is emptied and goes on at offset.
func (l *Log) forgetProducers(offset int64) error {
	if err := l.inPlace(); err != nil {
		return err
	}
	if l.append.producers == nil {
		if err := l.newProducers(); err != nil {
			return err
		}
	}
	l.append.snapshots, l.append.hasProducers, l.append.transactional = nil, false, false
	return l.append.producers.TruncateFullyAndStartAt(offset)
}

// replay passes on the batches of producers that end between two offsets. Damage is
// stepped over: reading it says so.
func (l *Log) replay(segments []*segment.Segment, from, to int64, apply func(producerstate.Batch)) error {
	for i, s := range segments {
		if s.Base() >= to {
			return nil
		}
		if i+1 < len(segments) && segments[i+1].Base() <= from {
			continue
		}
		if err := l.replaySegment(s, from, to, apply); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(s *segment.Segment, from, to int64, apply func(producerstate.Batch)) error {
	if err := l.acquireHere(s); err != nil {
		return err
	}
	defer s.Release()
	var c segment.Scanner
	var it record.Iterator
	err := s.SeekOffset(&c, from)
	for {
		var h record.Summary
		if err == nil {
			h, err = c.Header()
		}
		var b record.Batch
		if err == nil && h.ProducerID >= 0 && h.LastOffset >= from && h.LastOffset < to {
			b, err = c.Checked()
		}
		switch {
		case errors.Is(err, io.EOF), err == nil && h.LastOffset >= to:
			return nil
		case errors.Is(err, ErrCorrupt):
			err = c.SkipDamage()
			continue
		case err != nil:
			return err
		case b.Size() > 0:
			apply(described(b, &it))
		}
		c.Advance()
	}
}

// described is what the producer state needs to know of a batch that is in the
// log. A control record that nobody can read changes nothing.
func described(b record.Batch, it *record.Iterator) producerstate.Batch {
	d, err := producerstate.Describe(b, it)
	if err != nil {
		d.Kind = producerstate.Neutral
	}
	return d
}

// lockProducers takes the append lock once it is known who the producers are.
func (l *Log) lockProducers() error {
	for again := maxRefreshes; ; again-- {
		l.append.Lock()
		err := l.knowProducersLocked()
		if err == nil {
			return nil
		}
		l.append.Unlock()
		if !errors.Is(err, errGone) || again == 0 {
			return err
		}
		if err := l.Refresh(); err != nil {
			return err
		}
	}
}

// knowProducersLocked has a read-only log find out about producers, which it does
// not before someone asks. append is held.
func (l *Log) knowProducersLocked() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if !l.opts.ReadOnly || l.append.producers != nil {
		return nil
	}
	if err := l.newProducers(); err != nil {
		return err
	}
	set, end := l.set.Load(), l.end.Load()
	// That nobody ever wrote is known of what lies below the recovery point.
	from := l.untrusted(set, end)
	err := l.reloadProducers(set.slice(), from, l.noProducers())
	if err == nil && from < end {
		err = l.replay(set.slice(), from, end, l.append.producers.Apply)
	}
	if err != nil {
		l.append.producers = nil
		return err
	}
	l.append.producers.Advance(end)
	l.publishStableLocked(end)
	return nil
}

// untrusted is where the segments of a read-only log begin that recovery would look
// at, or the log end if it was closed.
func (l *Log) untrusted(set *segmentSet, end int64) int64 {
	if l.shut {
		return end
	}
	if l.state.RecoveryPoint < unknownOffset {
		if s := set.floor(l.state.RecoveryPoint); s != nil {
			return s.Base()
		}
	}
	return set.first().Base()
}
