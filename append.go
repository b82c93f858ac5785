package seglog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// AppendResult says where appended records are.
type AppendResult struct {
	// BaseOffset is the offset of the first record, LastOffset of the last.
	BaseOffset, LastOffset int64
	// Timestamp is the largest timestamp of the batch; with
	// record.LogAppendTime the time of the append. Milliseconds since the epoch,
	// -1 if no record has one.
	Timestamp int64
	// Duplicate is true if the producer had sent the batch before: nothing was
	// written, and the rest says where it is.
	Duplicate bool
}

// AppendOptions are choices for one append. nil means none.
type AppendOptions struct {
	// Sync overrides Options.Sync if not nil.
	Sync *SyncPolicy
	// Producer says who writes, for Append: see there. AppendBatch finds it in the
	// batch.
	Producer *Producer
	// LeaderEpoch, if not nil, is the epoch that the writer takes for the present
	// one: another is refused with an *EpochError. AppendReplicated refuses an older one
	// only: a follower may hear of a newer one first by what it is sent.
	LeaderEpoch *int32
	// CoordinatorEpoch is that of the coordinator that ends a transaction: one that
	// has been replaced is refused.
	CoordinatorEpoch int32
}

func (o *AppendOptions) producer() *Producer {
	if o == nil {
		return nil
	}
	return o.Producer
}

func (o *AppendOptions) coordinatorEpoch() int32 {
	if o == nil {
		return 0
	}
	return o.CoordinatorEpoch
}

func (o *AppendOptions) leaderEpoch() *int32 {
	if o == nil {
		return nil
	}
	return o.LeaderEpoch
}

// check refuses what is out of its range.
func (o *AppendOptions) check() error {
	if o == nil || o.Sync == nil {
		return nil
	}
	return inRange("Sync", *o.Sync, SyncAlways, SyncNever)
}

func (o *AppendOptions) sync(log SyncPolicy) SyncPolicy {
	if o != nil && o.Sync != nil {
		return *o.Sync
	}
	return log
}

// encoder is what one Append needs; pooled.
type encoder struct {
	record.Builder
	producer record.Producer
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Append writes records as one batch, all of them or none, and gives them
// consecutive offsets. It returns when they are as durable as the sync policy
// says. If it fails nothing was appended and it may be tried again, unless the
// error matches ErrFailed: then the records may or may not be found after the log
// was opened again.
//
// A batch larger than MaxMessageBytes, or with Compression one whose records take more
// than record.DefaultMaxDecompressed before it, is refused with a *SizeError.
//
// A Timestamp of 0 is replaced by the present time; record.NoTimestamp stays.
// Offset is ignored. The slices are not kept.
//
// With AppendOptions.Producer the batch is stored once, however often it is sent,
// and only in its turn: otherwise the error is a *ProducerError. Records that the
// log's options do not allow give a *RecordsError.
func (l *Log) Append(records []Record, opts *AppendOptions) (AppendResult, error) {
	b := encoders.Get().(*encoder)
	defer encoders.Put(b)
	batch, err := l.encode(b, records, opts.producer())
	if err != nil {
		return AppendResult{}, fmt.Errorf("append: %w", err)
	}
	at, err := l.appendAssigned(batch, producerstate.Client, opts)
	if err != nil {
		return at, fmt.Errorf("append: %w", err)
	}
	return at, nil
}

// Ticket is an append that was ordered and written but may not be durable yet.
type Ticket struct {
	AppendResult
	log *Log
}

// Durable returns once the records are on disk, or with the reason why it is
// not known that they are; see Log.WaitDurable.
func (t Ticket) Durable(ctx context.Context) error {
	return t.log.WaitDurable(ctx, t.LastOffset+1)
}

// AppendAsync is Append without the wait: whatever the sync policy, it returns
// when the batch has its offsets and was handed to the operating system. The
// ticket's Durable waits for the disk; many appends can be in flight, and share
// syncs.
func (l *Log) AppendAsync(records []Record) (Ticket, error) {
	never := SyncNever
	at, err := l.Append(records, &AppendOptions{Sync: &never})
	return Ticket{at, l}, err
}

// clock is the present time in milliseconds. Reading it takes as long as the checksum of a
// small batch: so it is the time of the last reading if no record is younger than that,
// and none wants to be told.
func (l *Log) clock(o *Options, records []Record) int64 {
	last := l.lastClock.Load()
	known := o.TimestampType == record.CreateTime && o.TimestampBeforeMax == noTimeLimit
	for i := 0; known && i < len(records); i++ {
		at := records[i].Timestamp
		known = at != 0 && at <= last
	}
	if known {
		return last
	}
	now := time.Now().UnixMilli()
	l.lastClock.Store(now)
	return now
}

func (l *Log) encode(b *encoder, records []Record, p *Producer) (record.Batch, error) {
	settings := l.settings()
	rules := settings.rules(l.clock(settings, records))
	o := record.BuilderOptions{
		Codec:         settings.Compression,
		Level:         settings.CompressionLevel,
		TimestampType: settings.TimestampType,
		LogAppendTime: rules.now,
		LeaderEpoch:   l.opts.LeaderEpoch, // the present one is stamped later
	}
	if p != nil {
		b.producer = record.Producer{ID: p.ID, Epoch: p.Epoch, BaseSequence: p.Sequence}
		o.Producer = &b.producer
		o.Transactional = p.Transactional
	}
	b.Reset(o)
	for i := range records {
		r := records[i]
		if r.Timestamp == 0 {
			r.Timestamp = rules.now
		}
		rules.check(i, &r)
		if err := b.Append(r); err != nil {
			return record.Batch{}, invalid(err)
		}
		// However small it is when compressed, it must not be refused by readers.
		if n := b.RecordsSize(); n > record.DefaultMaxDecompressed && settings.Compression != record.None {
			return record.Batch{}, &SizeError{ErrMessageTooLarge, n, record.DefaultMaxDecompressed}
		}
	}
	if err := rules.err(); err != nil {
		return record.Batch{}, err
	}
	bytes, err := b.Build()
	if err != nil {
		return record.Batch{}, invalid(err)
	}
	return record.Parse(bytes)
}

// AppendBatch writes one batch (magic 2) that was encoded before, compressed or
// not, and assigns its offsets. The batch is checked first: its checksum, its
// record count, and that its records decode, to no more than
// record.DefaultMaxDecompressed, and have the offset deltas 0, 1, 2 and so on. As on a broker, the base offset and the leader epoch are stamped,
// and the header's timestamp type and largest timestamp are set to what this log
// wants: b is changed in place, and not kept.
func (l *Log) AppendBatch(b []byte, opts *AppendOptions) (AppendResult, error) {
	batch, err := record.Parse(b)
	if err == nil && len(b) != batch.Size() {
		err = fmt.Errorf("%d bytes follow the batch", len(b)-batch.Size())
	}
	if err == nil {
		err = l.validate(batch)
	}
	if err != nil {
		return AppendResult{}, fmt.Errorf("append batch: %w", invalid(err))
	}
	at, err := l.appendAssigned(batch, producerstate.Client, opts)
	if err != nil {
		return at, fmt.Errorf("append batch: %w", err)
	}
	return at, nil
}

// validate checks a pre-built batch as Kafka's LogValidator.java does, and
// puts the timestamp type and the largest timestamp right.
func (l *Log) validate(b record.Batch) error {
	switch {
	case b.Magic() != record.MagicV2:
		return fmt.Errorf("magic %d, want %d: %w", b.Magic(), record.MagicV2, record.ErrUnsupported)
	case b.Count() <= 0 || int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return fmt.Errorf("%d records, last offset delta %d", b.Count(), b.LastOffsetDelta())
	case b.IsControl():
		return errors.New("control batches are not appended this way")
	case b.HasProducerID() && b.BaseSequence() < 0:
		return fmt.Errorf("producer %d with base sequence %d", b.ProducerID(), b.BaseSequence())
	}
	it := iterators.Get().(*record.Iterator)
	defer iterators.Put(it)
	if err := b.Verify(it); err != nil {
		return err
	}
	settings := l.settings()
	newest, err := settings.validateRecords(b, it)
	if err != nil {
		return err
	}
	if settings.TimestampType == record.LogAppendTime {
		return b.SetMaxTimestamp(record.LogAppendTime, time.Now().UnixMilli())
	}
	return b.SetMaxTimestamp(record.CreateTime, newest)
}

// validateRecords returns the newest timestamp.
func (o *Options) validateRecords(b record.Batch, it *record.Iterator) (int64, error) {
	newest := record.NoTimestamp
	if err := it.Reset(b); err != nil {
		return newest, err
	}
	rules := o.rules(time.Now().UnixMilli())
	if b.TimestampType() == record.LogAppendTime {
		rules.stamped()
	}
	for i := 0; it.Next(); i++ {
		r := it.Record()
		if r.Offset != b.BaseOffset()+int64(i) {
			return newest, fmt.Errorf("record %d has offset delta %d", i, r.Offset-b.BaseOffset())
		}
		rules.check(i, r)
		newest = max(newest, r.Timestamp)
	}
	if err := it.Err(); err != nil {
		return newest, err
	}
	return newest, rules.err()
}

// appendAssigned writes one batch at the end of the log, or finds that it is there.
func (l *Log) appendAssigned(b record.Batch, origin producerstate.Origin, opts *AppendOptions) (AppendResult, error) {
	if limit := l.settings().MaxMessageBytes; b.Size() > limit {
		return AppendResult{}, &SizeError{ErrMessageTooLarge, b.Size(), limit}
	}
	l.append.Lock()
	at, err := l.appendAssignedLocked(b, origin, opts)
	l.append.Unlock()
	if err != nil {
		return AppendResult{}, err
	}
	return at, l.finishAppend(at.LastOffset, opts)
}

func (l *Log) appendAssignedLocked(b record.Batch, origin producerstate.Origin, opts *AppendOptions) (AppendResult, error) {
	if err := opts.check(); err != nil {
		return AppendResult{}, err
	}
	if err := l.writableLocked(); err != nil {
		return AppendResult{}, err
	}
	if err := l.fenceLocked(opts.leaderEpoch(), false); err != nil {
		return AppendResult{}, err
	}
	base := l.end.Load()
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(l.append.epoch)
	if err := l.stampLocked(b); err != nil {
		return AppendResult{}, err
	}
	w := write{first: base, waits: l.waits(opts), Set: segment.Set{
		Bytes: b.Bytes(), LastOffset: b.LastOffset(),
		MaxTimestamp: b.MaxTimestamp(), OffsetOfMaxTimestamp: b.LastOffset(),
	}}
	if b.HasProducerID() {
		d, verdict, err := l.checkProducerLocked(b, origin)
		if err != nil {
			return AppendResult{}, err
		}
		if verdict.Duplicate {
			return AppendResult{verdict.BaseOffset, verdict.LastOffset, verdict.Timestamp, true}, nil
		}
		l.append.one[0] = d
		w.producers = l.append.one[:]
	}
	if err := l.assignEpochLocked(l.append.epoch, base); err != nil {
		return AppendResult{}, named(err)
	}
	if err := l.noteFull(l.writeLocked(w)); err != nil {
		return AppendResult{}, err
	}
	return AppendResult{BaseOffset: base, LastOffset: b.LastOffset(), Timestamp: b.MaxTimestamp()}, nil
}

// stampLocked keeps append times from going backwards, should two appends
// have taken the time outside the lock in one order and come here in the other. The
// batch tells whether it has one: the setting may have changed since.
func (l *Log) stampLocked(b record.Batch) error {
	if b.TimestampType() != record.LogAppendTime {
		return nil
	}
	if ts := b.MaxTimestamp(); ts > l.append.lastStamp {
		l.append.lastStamp = ts
		return nil
	}
	return b.SetMaxTimestamp(record.LogAppendTime, l.append.lastStamp)
}

// waits reports whether an append may wait for durability.
func (l *Log) waits(opts *AppendOptions) bool {
	o := l.settings()
	return opts.sync(o.Sync) != SyncNever || o.FlushMessages > 0 || o.FlushBytes > 0
}

// finishAppend waits for durability, if it is to be waited for.
func (l *Log) finishAppend(lastOffset int64, opts *AppendOptions) error {
	l.boundOpen() // the append may have opened the active segment, or a new one
	if opts.sync(l.settings().Sync) == SyncNever && !l.syncDue(lastOffset) {
		return nil
	}
	return l.syncTo(lastOffset + 1)
}

// AppendReplicated writes batches that keep their offsets and leader epochs,
// for followers and restores. They must follow each other and begin at or above
// the log end; a gap is kept. All of them are written, as one set, or none. A
// partial batch at the end of b is an error, unlike on a Kafka follower, and so is
// one whose records decompress to more than record.DefaultMaxDecompressed, which
// nothing here would read (record.ErrTooLarge). Records are not looked at otherwise,
// and what batches say of producers and transactions is taken as it is.
func (l *Log) AppendReplicated(b []byte, opts *AppendOptions) (AppendResult, error) {
	at, err := l.appendReplicated(b, opts)
	if err != nil {
		return AppendResult{}, fmt.Errorf("append replicated: %w", err)
	}
	return at, nil
}

func (l *Log) appendReplicated(b []byte, opts *AppendOptions) (AppendResult, error) {
	if err := opts.check(); err != nil {
		return AppendResult{}, err
	}
	w, err := l.analyze(b)
	if err != nil {
		return AppendResult{}, err
	}
	w.waits = l.waits(opts)
	l.append.Lock()
	if err = l.fenceLocked(opts.leaderEpoch(), true); err == nil {
		err = l.writeReplicatedLocked(w)
	}
	l.append.Unlock()
	if err != nil {
		return AppendResult{}, err
	}
	at := AppendResult{BaseOffset: w.first, LastOffset: w.LastOffset, Timestamp: w.MaxTimestamp}
	return at, l.finishAppend(w.LastOffset, opts)
}

func (l *Log) writeReplicatedLocked(w write) error {
	if end := l.end.Load(); w.first < end {
		return &AppendOffsetError{FirstOffset: w.first, LastOffset: w.LastOffset, Want: end}
	}
	if err := l.writableLocked(); err != nil {
		return err
	}
	if !l.knowsEpochsLocked(w.epochs) {
		before, epoch := l.epochs.Entries(), l.append.epoch
		// One that was begun, and nothing written in it, does not count against what the
		// leader has.
		l.epochs.TruncateFromEnd(l.end.Load())
		for _, e := range w.epochs {
			if err := l.assignEpochLocked(e.Epoch, e.StartOffset); err != nil {
				l.takeBackEpochsLocked(before, epoch)
				return named(err)
			}
		}
		if err := l.noteFull(l.writeLocked(w)); err != nil {
			l.takeBackEpochsLocked(before, epoch)
			return err
		}
		return nil
	}
	return l.noteFull(l.writeLocked(w))
}

// write is a set of batches to be written, and what it says.
type write struct {
	segment.Set
	first     int64                 // offset
	waits     bool                  // somebody does until it is durable, or may
	producers []producerstate.Batch // those of its batches that have a producer id
	epochs    epochsOf              // of a replicated set
}

// analyze checks a set of batches as Kafka does for a follower
// (UnifiedLog.analyzeAndValidateRecords): checksums hold and offsets increase.
func (l *Log) analyze(b []byte) (write, error) {
	w := write{Set: segment.Set{Bytes: b, MaxTimestamp: record.NoTimestamp, LastOffset: -1}}
	if len(b) == 0 {
		return w, invalid(record.ErrEmpty)
	}
	it := iterators.Get().(*record.Iterator)
	defer iterators.Put(it)
	for pos := 0; pos < len(b); {
		batch, err := record.Parse(b[pos:])
		if err == nil {
			err = batch.Check()
		}
		if err == nil && batch.Magic() != record.MagicV2 {
			err = fmt.Errorf("magic %d, want %d: %w", batch.Magic(), record.MagicV2, record.ErrUnsupported)
		}
		if err == nil {
			err = readable(batch, it)
		}
		if err != nil {
			return w, fmt.Errorf("batch at byte %d: %w", pos, invalid(err))
		}
		if batch.BaseOffset() <= w.LastOffset || batch.LastOffset() < batch.BaseOffset() || batch.BaseOffset() < 0 {
			return w, fmt.Errorf("batch at byte %d: %w", pos,
				&AppendOffsetError{batch.BaseOffset(), batch.LastOffset(), w.LastOffset + 1})
		}
		if pos == 0 {
			w.first = batch.BaseOffset()
		}
		w.take(batch, it)
		pos += batch.Size()
	}
	return w, nil
}

// readable refuses a batch whose records could not be read, as far as that costs no
// decompression: those that are not compressed must rise in offset.
func readable(b record.Batch, it *record.Iterator) error {
	if b.Codec() != record.None {
		return it.CheckSize(b)
	}
	if err := it.Reset(b); err != nil {
		return err
	}
	for last := b.BaseOffset() - 1; it.Next(); last = it.Record().Offset {
		if offset := it.Record().Offset; offset <= last || offset > b.LastOffset() {
			return fmt.Errorf("%w: record of offset %d, want %d to %d", ErrUnexpectedOffset, offset, last+1, b.LastOffset())
		}
	}
	return it.Err()
}

func (w *write) take(b record.Batch, it *record.Iterator) {
	w.LastOffset = b.LastOffset()
	if ts := b.MaxTimestamp(); ts > w.MaxTimestamp {
		w.MaxTimestamp, w.OffsetOfMaxTimestamp = ts, b.LastOffset()
	}
	if b.HasProducerID() {
		w.producers = append(w.producers, described(b, it))
	}
	w.epochs = w.epochs.with(b)
}

// noteFull passes on why an append failed. If that is for want of room, who is asked to
// make some makes it at once.
func (l *Log) noteFull(err error) error {
	if err != nil && vfs.IsNoSpace(err) {
		l.full.Store(true)
	}
	return err
}

// writeLocked rolls if need be and writes the set. append is held, and the log is
// writable.
func (l *Log) writeLocked(w write) error {
	if w.LastOffset < w.first || w.LastOffset == math.MaxInt64 {
		// The log end, which lies behind the last offset, must be one too.
		return fmt.Errorf("%w: no offsets are left behind %d", ErrUnexpectedOffset, w.first)
	}
	if limit := l.settings().SegmentBytes; int64(len(w.Bytes)) > limit {
		return &SizeError{ErrSetTooLarge, len(w.Bytes), int(limit)}
	}
	if w.LastOffset-w.first > math.MaxInt32 {
		return fmt.Errorf("%w: %w: offsets %d to %d", ErrUnexpectedOffset, segment.ErrOffsetOverflow, w.first, w.LastOffset)
	}
	if w.waits { // a full disk is to be known of before the records are there
		if err := l.writeTailLocked(); err != nil {
			return err
		}
	}
	if err := l.settleStateLocked(); err != nil {
		return err
	}
	if err := l.wakeLocked(); err != nil {
		return err
	}
	if err := l.maybeRollLocked(w.Set, w.first); err != nil {
		return err
	}
	if len(w.producers) > 0 {
		w.Aborted = abortedIn(l.append.producers, w.producers)
	}
	active := l.set.Load().active
	if err := active.Append(w.Set); err != nil {
		if active.Base() > l.end.Load() { // made for this set, behind a gap
			err = errors.Join(err, l.withdrawLocked())
		}
		if errors.Is(err, segment.ErrAppendNotUndone) {
			l.failLocked(err)
			return fmt.Errorf("%w: %w", ErrFailed, named(err))
		}
		l.append.undone = true
		return named(err)
	}
	if active.Base() > l.end.Load() { // it stays, and what was known of producers is what lies below
		if l.captureProducersLocked(active.Base()) {
			l.startFlushingLocked()
		}
	}
	l.bytes.Add(int64(len(w.Bytes)))
	l.markUnsyncedLocked(active)
	if size, err := active.Size(); err == nil {
		l.prepareSpareLocked(size)
	}
	l.applyLocked(w.producers, w.LastOffset+1)
	l.end.Store(w.LastOffset + 1)
	l.arrivals.announce()
	return nil
}

func (l *Log) markUnsyncedLocked(s *segment.Segment) {
	n := len(l.append.unsynced)
	if n > 0 && l.append.unsynced[n-1] == s {
		return
	}
	l.append.unsynced = append(l.append.unsynced, s)
}
