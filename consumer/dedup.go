package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// DedupOptions are the settings of a Dedup. The zero value is useful.
type DedupOptions struct {
	// ID returns the id of a record, by which it is known again wherever and however often
	// it is delivered. nil means KeyID. A record for which it returns nil has none, and is
	// new each time. The slice is not kept.
	ID func(*seglog.Record) []byte
	// MaxIDs is how many ids are remembered: the latest ones. They are in memory, all of
	// them. 0 means 100,000.
	MaxIDs int
	// Window is for how long an id is remembered. 0 means until MaxIDs others came.
	Window time.Duration
}

// KeyID takes the key of a record as its id.
func KeyID(r *seglog.Record) []byte { return r.Key }

// HeaderID takes the value of the last header of a name as the id of a record.
func HeaderID(name string) func(*seglog.Record) []byte {
	return func(r *seglog.Record) []byte {
		for i := len(r.Headers) - 1; i >= 0; i-- {
			if r.Headers[i].Key == name {
				return r.Headers[i].Value
			}
		}
		return nil
	}
}

// The keys and values of a Dedup's log, written to disk and never changed:
//
//	key    'i' id          value  version (2) = 0, offset of the record (8)
//	key    'p'             value  version (2) = 0, position (8)
const (
	idKey        = 'i'
	positionKey  = 'p'
	dedupVersion = 0
	dedupValue   = 10
)

// maxDedupBatch keeps the batches of ids below the size that logs accept by default.
const maxDedupBatch = 256 << 10

// ErrNotDedup: the log holds other records than those of a Dedup.
var ErrNotDedup = errors.New("not the log of a Dedup")

// Dedup remembers which records of a partition were dealt with, so that each is dealt with
// once: also when it is delivered again, because its producer has sent it twice or a
// consumer has stopped between the work and the commit.
//
// What it remembers lies in a log of its own, one for each partition, which should be
// compacted (seglog.CleanupCompact): retention by time or size would make it forget. The
// ids of a batch and the position behind it are written together, and are on disk before
// the offset is committed:
//
//	work, then Done, then commit
//
// A crash behind Done repeats nothing: what is delivered again is recognized. A crash
// before it repeats the work, which nothing but the work itself can tell to have been
// done; where that must not be, the result and the id belong into one transaction, as
// the example in examples/sqlconsumer shows.
//
// The window bounds memory and disk: it must reach further back than deliveries do.
// Opening a Dedup fences the one before. Its methods may be called from any goroutine.
type Dedup struct {
	log   *seglog.Log
	opts  DedupOptions
	epoch int32

	writing sync.Mutex // held by Done; before mu

	mu struct {
		sync.Mutex
		known map[string]struct{}
		// ids are those known, and some forgotten ones before head, the oldest first.
		ids      []remembered
		head     int
		position int64
		written  int64 // offset of the position record
		start    int64 // of the log
	}
}

type remembered struct {
	id string
	at int64 // milliseconds since the epoch
	// offset is that of the id's record in the log of the Dedup.
	offset int64
}

// OpenDedup begins, or goes on, to remember in a log. It is the log's only writer from
// then on: a Dedup that was opened before, by an owner of the partition that has lost it,
// can remember nothing more. The group decides who owns the partition; two who open at
// the same moment are not told apart. The log stays the caller's.
//
// It reads the log from its start.
func OpenDedup(log *seglog.Log, opts DedupOptions) (*Dedup, error) {
	if opts.MaxIDs < 0 || opts.Window < 0 {
		return nil, &seglog.OptionError{Field: "MaxIDs, Window", Value: fmt.Sprint(opts.MaxIDs, ", ", opts.Window), Want: "0 or above"}
	}
	if opts.ID == nil {
		opts.ID = KeyID
	}
	if opts.MaxIDs == 0 {
		opts.MaxIDs = 100_000
	}
	d := &Dedup{log: log, opts: opts, epoch: log.LeaderEpoch() + 1}
	d.mu.known = map[string]struct{}{}
	d.mu.position, d.mu.written, d.mu.start = -1, -1, log.Offsets().Start
	// First fence, then read: nobody appends behind what is read.
	if err := log.SetLeaderEpoch(d.epoch); err != nil {
		return nil, fmt.Errorf("dedup: %w", err)
	}
	if err := log.Sync(); err != nil { // what the one before was about to have on disk
		return nil, fmt.Errorf("dedup: %w", err)
	}
	if err := d.load(); err != nil {
		return nil, fmt.Errorf("dedup: %w", err)
	}
	return d, nil
}

func (d *Dedup) load() error {
	for rec, err := range d.log.Records(context.Background(), d.mu.start, nil) {
		if err != nil {
			return err
		}
		if len(rec.Key) == 0 || len(rec.Value) != dedupValue || binary.BigEndian.Uint16(rec.Value) != dedupVersion {
			return fmt.Errorf("record at offset %d: %w", rec.Offset, ErrNotDedup)
		}
		switch value := int64(binary.BigEndian.Uint64(rec.Value[2:])); {
		case rec.Key[0] == idKey:
			d.rememberLocked(remembered{string(rec.Key[1:]), rec.Timestamp, rec.Offset})
		case rec.Key[0] == positionKey && len(rec.Key) == 1:
			d.mu.position, d.mu.written = value, rec.Offset
		default:
			return fmt.Errorf("record at offset %d: %w", rec.Offset, ErrNotDedup)
		}
	}
	d.forgetLocked(time.Now().UnixMilli())
	return nil
}

// Position is what Done was told last, -1 if nothing: where to go on for who commits no
// offsets, or has lost them. Everything below it was dealt with.
func (d *Dedup) Position() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.position
}

// Len is how many ids are remembered.
func (d *Dedup) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.known)
}

// Filter returns the records that are to be dealt with: of those that have the same id the
// first, and none that is remembered. It remembers nothing itself.
func (d *Dedup) Filter(records []seglog.Record) []seglog.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(time.Now().UnixMilli())
	var fresh []seglog.Record
	here := make(map[string]struct{}, len(records))
	for i := range records {
		if id := d.opts.ID(&records[i]); id != nil {
			if _, known := d.mu.known[string(id)]; known {
				continue
			}
			if _, twice := here[string(id)]; twice {
				continue
			}
			here[string(id)] = struct{}{}
		}
		fresh = append(fresh, records[i])
	}
	return fresh
}

// Done remembers records as dealt with, and the position behind them, and returns when
// that is on disk. Then the offset may be committed. ErrStale says that another Dedup was
// opened on the log, which will deal with them. After any error nothing is to be
// committed: what was remembered of it, if anything, has been dealt with.
func (d *Dedup) Done(records []seglog.Record, position int64) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	now := time.Now()
	var batch []seglog.Record
	var ids []remembered
	size := 0
	for i := range records {
		id := d.opts.ID(&records[i])
		if id == nil {
			continue
		}
		batch = append(batch, dedupRecord(append([]byte{idKey}, id...), records[i].Offset, now))
		ids = append(ids, remembered{id: string(id), at: now.UnixMilli()})
		// The position comes with the last of the ids, so that it is never ahead of them.
		if size += len(id) + 64; size > maxDedupBatch {
			if _, err := d.write(batch, ids); err != nil {
				return err
			}
			batch, ids, size = nil, nil, 0
		}
	}
	at, err := d.write(append(batch, dedupRecord([]byte{positionKey}, position, now)), ids)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.mu.position, d.mu.written = position, at
	trim := d.trimLocked()
	d.mu.Unlock()
	if trim >= 0 {
		_ = d.log.DeleteBefore(trim) // it is only about room, and tried again
	}
	return nil
}

func dedupRecord(key []byte, n int64, at time.Time) seglog.Record {
	value := binary.BigEndian.AppendUint16(make([]byte, 0, dedupValue), dedupVersion)
	return seglog.Record{Key: key, Value: binary.BigEndian.AppendUint64(value, uint64(n)), Timestamp: at.UnixMilli()}
}

// write appends a batch, and remembers ids, which are its first records. It returns the
// offset of the last.
func (d *Dedup) write(batch []seglog.Record, ids []remembered) (int64, error) {
	always := seglog.SyncAlways
	at, err := d.log.Append(batch, &seglog.AppendOptions{LeaderEpoch: &d.epoch, Sync: &always})
	switch {
	case errors.Is(err, seglog.ErrFencedLeaderEpoch):
		return 0, fmt.Errorf("dedup: %w: %w", ErrStale, err)
	case err != nil:
		return 0, fmt.Errorf("dedup: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range ids {
		r.offset = at.BaseOffset + int64(i)
		d.rememberLocked(r)
	}
	return at.LastOffset, nil
}

// rememberLocked keeps the place of an id that is known: it is as old as its first record.
// What leaves the window goes at once, so that loading ends with what was known before.
func (d *Dedup) rememberLocked(r remembered) {
	d.forgetLocked(r.at)
	if _, known := d.mu.known[r.id]; known {
		return
	}
	d.mu.known[r.id] = struct{}{}
	d.mu.ids = append(d.mu.ids, r)
	if len(d.mu.known) > d.opts.MaxIDs {
		d.forgetOldestLocked()
	}
}

// forgetLocked drops what is too old at a time.
func (d *Dedup) forgetLocked(now int64) {
	for d.opts.Window > 0 && d.mu.head < len(d.mu.ids) && d.mu.ids[d.mu.head].at < now-d.opts.Window.Milliseconds() {
		d.forgetOldestLocked()
	}
}

func (d *Dedup) forgetOldestLocked() {
	delete(d.mu.known, d.mu.ids[d.mu.head].id)
	d.mu.ids[d.mu.head].id = ""
	if d.mu.head++; d.mu.head > len(d.mu.ids)/2 {
		d.mu.ids = d.mu.ids[:copy(d.mu.ids, d.mu.ids[d.mu.head:])]
		d.mu.head = 0
	}
}

// trimLocked is the offset that the log may begin at, or -1 if it is not worth the while.
// Ids are forgotten in the order of the log, so that needs no tombstones, nor does it wait
// for compaction.
func (d *Dedup) trimLocked() int64 {
	keep := d.mu.written
	if d.mu.head < len(d.mu.ids) {
		keep = min(keep, d.mu.ids[d.mu.head].offset)
	}
	if keep-d.mu.start < int64(d.opts.MaxIDs)/2+1 {
		return -1
	}
	d.mu.start = keep
	return keep
}

// Process deals with a batch of a consumer: it calls work for the records that are new, if
// there are any, remembers them, and commits. An error of work ends it before that, and
// the batch has to be delivered again: Seek to its first record, or give the partition up.
func (d *Dedup) Process(ctx context.Context, c *Consumer, b *Batch, work func([]seglog.Record) error) error {
	fresh := d.Filter(b.Records)
	if len(fresh) > 0 {
		if err := work(fresh); err != nil {
			return err
		}
	}
	if err := d.Done(fresh, b.Next); err != nil {
		return err
	}
	return c.CommitSync(ctx, map[offsetslog.TopicPartition]OffsetAndMetadata{b.TopicPartition: {Offset: b.Next}})
}
