package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seglog/seglog"
)

// scan reads the log from its start, and again while there is time. A log that is too
// long for that is read as far as time allows.
func scan(ctx context.Context, b *bench, r *Result) error {
	began := time.Now()
	defer func() { r.Elapsed = time.Since(began) }()
	for {
		r.Ops++
		last := int64(-1)
		for rec, err := range b.log.Records(ctx, b.log.Offsets().Start, nil) {
			if err != nil {
				return err
			}
			if rec.Offset <= last {
				return fmt.Errorf("%w: offset %d behind %d", ErrWrong, rec.Offset, last)
			}
			last = rec.Offset
			r.Records++
			r.Bytes += int64(size(&rec))
			if r.Records%1024 == 0 && time.Since(began) > b.opts.Time {
				return nil
			}
		}
		if time.Since(began) > b.opts.Time {
			return nil
		}
	}
}

var appends = []workload{
	{Workload{"append-1", "append 1 record, nothing waits for the disk"}, appendTo(seglog.SyncNever, 1)},
	{Workload{"append-100", "append 100 records, nothing waits for the disk"}, appendTo(seglog.SyncNever, 100)},
	{Workload{"sync-1", "append 1 record and sync"}, appendTo(seglog.SyncAlways, 1)},
	{Workload{"sync-100", "append 100 records and sync"}, appendTo(seglog.SyncAlways, 100)},
}

// maxAppended is how many bytes of records an append workload may put on the disk.
const maxAppended = 1 << 30

// maxAppendBytes is how much memory the records to append may take, once there are enough
// for an append.
const maxAppendBytes = 16 << 20

// appendTo appends records of the log to a new one, so many at a time.
func appendTo(sync seglog.SyncPolicy, batch int) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) (err error) {
		if err := b.take(); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(b.opts.Scratch, "logtool-bench-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		l, err := seglog.Open(dir, seglog.Options{Sync: sync})
		if err != nil {
			return err
		}
		err = b.measure(ctx, r, maxAppended, func(worker int) op {
			at := worker * batch
			return func() (int64, int64, error) {
				at = (at + batch) % (len(b.records) - batch + 1)
				records, bytes := b.records[at:at+batch], 0
				for i := range records {
					bytes += size(&records[i])
				}
				_, err := l.Append(records, nil)
				return int64(batch), int64(bytes), err
			}
		})
		if got := l.Offsets().End; err == nil && got != r.Records {
			err = fmt.Errorf("%w: the log ends at offset %d after %d records", ErrWrong, got, r.Records)
		}
		return errors.Join(err, l.Close())
	}
}

// take copies records out of the log, with the time of now.
func (b *bench) take() error {
	if b.records != nil {
		return nil
	}
	now, bytes := time.Now().UnixMilli(), 0
	for i := 0; len(b.records) < 100 || i < len(b.targets) && i < 4096 && bytes < maxAppendBytes; i++ {
		r, err := b.log.Get(b.targets[i%len(b.targets)].offset)
		if err != nil {
			return err
		}
		r.Timestamp = now
		bytes += size(&r)
		b.records = append(b.records, r)
	}
	return nil
}

// Shape is what the records of a made log are like.
type Shape struct {
	Records              int64
	Batch                int
	KeyBytes, ValueBytes int
	SegmentBytes         int64
}

// Make makes a log of random records in dir, ten of them a millisecond, in segments of
// the given size.
func Make(ctx context.Context, dir string, s Shape, seed uint64, progress func(done, total int64)) error {
	l, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever, SegmentBytes: s.SegmentBytes})
	if err != nil {
		return err
	}
	random := (&bench{opts: Options{Seed: seed}}).rand(-2)
	bytes := make([]byte, 1<<20+s.KeyBytes+s.ValueBytes)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	const first = 1_700_000_000_000
	records := make([]seglog.Record, 0, s.Batch)
	for n := int64(0); n < s.Records && err == nil; {
		records = records[:0]
		for ; len(records) < s.Batch && n < s.Records; n++ {
			at := bytes[random.IntN(1<<20):]
			records = append(records, seglog.Record{Timestamp: first + n/10, Key: at[:s.KeyBytes], Value: at[s.KeyBytes:][:s.ValueBytes]})
		}
		if _, err = l.Append(records, nil); err == nil {
			err = context.Cause(ctx)
		}
		progress(n, s.Records)
	}
	return errors.Join(err, l.Close())
}
