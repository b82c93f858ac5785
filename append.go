package seglog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

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
}

// AppendOptions are choices for one append. nil means none.
type AppendOptions struct {
	// Sync overrides Options.Sync if not nil.
	Sync *SyncPolicy
}

func (o *AppendOptions) sync(log SyncPolicy) SyncPolicy {
	if o != nil && o.Sync != nil {
		return *o.Sync
	}
	return log
}

var builders = sync.Pool{New: func() any { return new(record.Builder) }}

// Append writes records as one batch, all of them or none, and gives them
// consecutive offsets. It returns when they are as durable as the sync policy
// says. If it fails nothing was appended and it may be tried again, unless the
// error matches ErrFailed: then the records may or may not be found after the log
// was opened again.
//
// A Timestamp of 0 is replaced by the present time; record.NoTimestamp stays.
// Offset is ignored. The slices are not kept.
func (l *Log) Append(records []Record, opts *AppendOptions) (AppendResult, error) {
	b := builders.Get().(*record.Builder)
	defer builders.Put(b)
	batch, err := l.encode(b, records)
	if err != nil {
		return AppendResult{}, fmt.Errorf("append: %w", err)
	}
	return l.appendAssigned(batch, opts)
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

func (l *Log) encode(b *record.Builder, records []Record) (record.Batch, error) {
	now := time.Now().UnixMilli()
	b.Reset(record.BuilderOptions{
		Codec:         l.opts.Compression,
		Level:         l.opts.CompressionLevel,
		TimestampType: l.opts.TimestampType,
		LogAppendTime: now,
		LeaderEpoch:   l.opts.LeaderEpoch,
	})
	for i := range records {
		r := records[i]
		if r.Timestamp == 0 {
			r.Timestamp = now
		}
		if err := b.Append(r); err != nil {
			return record.Batch{}, invalid(err)
		}
	}
	bytes, err := b.Build()
	if err != nil {
		return record.Batch{}, invalid(err)
	}
	return record.Parse(bytes)
}

// AppendBatch writes one batch (magic 2) that was encoded before, compressed or
// not, and assigns its offsets. The batch is checked first: its checksum, its
// record count, and that its records decode and have the offset deltas 0, 1, 2
// and so on. As on a broker, the base offset and the leader epoch are stamped,
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
	return l.appendAssigned(batch, opts)
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
	if l.opts.TimestampType == record.LogAppendTime {
		return b.SetMaxTimestamp(record.LogAppendTime, time.Now().UnixMilli())
	}
	newest, err := newestRecord(b, it)
	if err != nil {
		return err
	}
	return b.SetMaxTimestamp(record.CreateTime, newest)
}

func newestRecord(b record.Batch, it *record.Iterator) (int64, error) {
	newest := record.NoTimestamp
	if err := it.Reset(b); err != nil {
		return newest, err
	}
	for i := int64(0); it.Next(); i++ {
		r := it.Record()
		if r.Offset != b.BaseOffset()+i {
			return newest, fmt.Errorf("record %d has offset delta %d", i, r.Offset-b.BaseOffset())
		}
		newest = max(newest, r.Timestamp)
	}
	return newest, it.Err()
}

// appendAssigned writes one batch at the end of the log.
func (l *Log) appendAssigned(b record.Batch, opts *AppendOptions) (AppendResult, error) {
	if b.Size() > l.opts.MaxMessageBytes {
		return AppendResult{}, fmt.Errorf("append: %w", &SizeError{ErrMessageTooLarge, b.Size(), l.opts.MaxMessageBytes})
	}
	l.append.Lock()
	base := l.end.Load()
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(l.opts.LeaderEpoch)
	err := l.stampLocked(b)
	if err == nil {
		err = l.writeLocked(segment.Set{
			Bytes: b.Bytes(), LastOffset: b.LastOffset(),
			MaxTimestamp: b.MaxTimestamp(), OffsetOfMaxTimestamp: b.LastOffset(),
		}, base)
	}
	l.append.Unlock()
	if err != nil {
		return AppendResult{}, fmt.Errorf("append: %w", err)
	}
	at := AppendResult{BaseOffset: base, LastOffset: b.LastOffset(), Timestamp: b.MaxTimestamp()}
	return at, l.finishAppend(at.LastOffset, opts)
}

// stampLocked keeps append times from going backwards, should two appends
// have taken the time outside the lock in one order and come here in the other.
func (l *Log) stampLocked(b record.Batch) error {
	if l.opts.TimestampType != record.LogAppendTime {
		return nil
	}
	if ts := b.MaxTimestamp(); ts > l.append.lastStamp {
		l.append.lastStamp = ts
		return nil
	}
	return b.SetMaxTimestamp(record.LogAppendTime, l.append.lastStamp)
}

// finishAppend waits for durability, if it is to be waited for.
func (l *Log) finishAppend(lastOffset int64, opts *AppendOptions) error {
	if opts.sync(l.opts.Sync) == SyncNever && !l.syncDue(lastOffset) {
		return nil
	}
	if err := l.syncTo(lastOffset + 1); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// AppendReplicated writes batches that keep their offsets and leader epochs,
// for followers and restores. They must follow each other and begin at or above
// the log end; a gap is kept. All of them are written, as one set, or none. A
// partial batch at the end of b is an error, unlike on a Kafka follower.
func (l *Log) AppendReplicated(b []byte, opts *AppendOptions) (AppendResult, error) {
	set, first, err := l.analyze(b)
	if err != nil {
		return AppendResult{}, fmt.Errorf("append replicated: %w", err)
	}
	l.append.Lock()
	if end := l.end.Load(); first < end {
		err = &AppendOffsetError{FirstOffset: first, LastOffset: set.LastOffset, Want: end}
	} else {
		err = l.writeLocked(set, first)
	}
	l.append.Unlock()
	if err != nil {
		return AppendResult{}, fmt.Errorf("append replicated: %w", err)
	}
	at := AppendResult{BaseOffset: first, LastOffset: set.LastOffset, Timestamp: set.MaxTimestamp}
	return at, l.finishAppend(set.LastOffset, opts)
}

// analyze checks a set of batches as Kafka does for a follower
// (UnifiedLog.analyzeAndValidateRecords): checksums hold and offsets increase.
func (l *Log) analyze(b []byte) (set segment.Set, first int64, err error) {
	set = segment.Set{Bytes: b, MaxTimestamp: record.NoTimestamp, LastOffset: -1}
	if len(b) == 0 {
		return set, 0, invalid(record.ErrEmpty)
	}
	for pos := 0; pos < len(b); {
		batch, err := record.Parse(b[pos:])
		if err == nil {
			err = batch.Check()
		}
		if err == nil && batch.Magic() != record.MagicV2 {
			err = fmt.Errorf("magic %d, want %d: %w", batch.Magic(), record.MagicV2, record.ErrUnsupported)
		}
		if err != nil {
			return set, 0, fmt.Errorf("batch at byte %d: %w", pos, invalid(err))
		}
		if batch.BaseOffset() <= set.LastOffset || batch.LastOffset() < batch.BaseOffset() || batch.BaseOffset() < 0 {
			return set, 0, fmt.Errorf("batch at byte %d: %w", pos,
				&AppendOffsetError{batch.BaseOffset(), batch.LastOffset(), set.LastOffset + 1})
		}
		if pos == 0 {
			first = batch.BaseOffset()
		}
		set.LastOffset = batch.LastOffset()
		if ts := batch.MaxTimestamp(); ts > set.MaxTimestamp {
			set.MaxTimestamp, set.OffsetOfMaxTimestamp = ts, batch.LastOffset()
		}
		pos += batch.Size()
	}
	return set, first, nil
}

// writeLocked rolls if need be and writes the set, whose first offset is
// given. append is held.
func (l *Log) writeLocked(set segment.Set, first int64) error {
	if err := l.writableLocked(); err != nil {
		return err
	}
	if set.LastOffset < first || set.LastOffset == math.MaxInt64 {
		// The log end, which lies behind the last offset, must be one too.
		return fmt.Errorf("%w: no offsets are left behind %d", ErrUnexpectedOffset, first)
	}
	if int64(len(set.Bytes)) > l.opts.SegmentBytes {
		return &SizeError{ErrSetTooLarge, len(set.Bytes), int(l.opts.SegmentBytes)}
	}
	if span := set.LastOffset - first; span > math.MaxInt32 {
		return fmt.Errorf("%w: %w: offsets %d to %d", ErrUnexpectedOffset, segment.ErrOffsetOverflow, first, set.LastOffset)
	}
	if err := l.maybeRollLocked(set, first); err != nil {
		return err
	}
	active := l.set.Load().active
	if err := active.Append(set); err != nil {
		if active.Base() > l.end.Load() { // made for this set, behind a gap
			err = errors.Join(err, l.withdrawLocked())
		}
		if errors.Is(err, segment.ErrAppendNotUndone) {
			l.failLocked(err)
			return fmt.Errorf("%w: %w", ErrFailed, named(err))
		}
		return named(err)
	}
	l.bytes.Add(int64(len(set.Bytes)))
	l.markUnsyncedLocked(active)
	if size, err := active.Size(); err == nil {
		l.prepareSpareLocked(size)
	}
	l.end.Store(set.LastOffset + 1)
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
