package consumer

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// reader goes through the batches of a log and keeps its place between polls. One
// goroutine at a time may use it.
type reader struct {
	log       *seglog.Log
	isolation seglog.Isolation

	// next and stop belong to the iteration under way, if there is one.
	next func() (record.Batch, error, bool)
	stop func()

	it    record.Iterator
	batch record.Batch // it goes through its records, if have
	have  bool
	ready bool // the present record of it has not been returned yet
	place

	lately int // how many records the last read has returned: the next is like it
}

// place is a position, and the leader epoch of what was read before it; -1 if it is not
// known.
type place struct {
	position int64
	epoch    int32
}

// seek goes to another place. It costs nothing if the reader is there.
func (r *reader) seek(to place) {
	if r.position != to.position {
		r.close()
	}
	r.place = to
}

func (r *reader) close() {
	if r.stop != nil {
		r.stop()
	}
	r.next, r.stop, r.have, r.ready = nil, nil, false, false
}

// read returns up to most records, and no further one once they take so many bytes. It
// moves behind what delivers nothing, such as transaction markers, batches of aborted
// transactions and those that compaction has emptied: as far as the next record to be
// read, or the end.
//
// The records belong to the caller. With an error come those before it.
func (r *reader) read(most, bytes int) (records []seglog.Record, err error) {
	var room []byte
	defer func() { r.lately = len(records) }()
	for {
		switch ok, err := r.advance(); {
		case err != nil:
			r.close() // the next read begins again
			return records, err
		case !ok, len(records) >= most, bytes <= 0:
			return records, nil
		}
		rec := r.it.Record()
		if len(records) == cap(records) {
			records = slices.Grow(records, min(most-len(records), max(1, len(records), r.lately)))
		}
		var c seglog.Record
		c, room = keep(rec, room)
		records = append(records, c)
		bytes -= len(c.Key) + len(c.Value)
		r.place = place{rec.Offset + 1, r.batch.LeaderEpoch()}
		r.ready = false
	}
}

// advance makes the next record ready. It reports false at the end of the log.
func (r *reader) advance() (bool, error) {
	for !r.ready {
		if !r.have {
			if ok, err := r.load(); !ok || err != nil {
				return false, err
			}
			r.ready = r.it.SkipTo(r.position)
		} else {
			r.ready = r.it.Next()
		}
		if err := r.it.Err(); err != nil {
			return false, err
		}
		if !r.ready {
			r.position, r.have = max(r.position, r.batch.NextOffset()), false
			continue
		}
		// A checksum says nothing about the offsets in it.
		at := r.it.Record().Offset
		if at < r.position || at >= r.batch.NextOffset() && r.batch.Magic() == record.MagicV2 {
			return false, fmt.Errorf("record at offset %d, want %d to %d: %w", at, r.position, r.batch.LastOffset(), record.ErrInvalid)
		}
	}
	return true, nil
}

// load moves to the next batch with records. It reports false at the end of the log.
func (r *reader) load() (bool, error) {
	if r.next == nil {
		if r.position == r.end() {
			return false, nil
		}
		if divergent, cut := truncated(r.log, r.place); cut {
			return false, &seglog.TruncationError{Offset: r.position, TruncatedTo: divergent, End: r.log.Offsets().End}
		}
		r.next, r.stop = iter.Pull2(r.log.Batches(context.Background(), r.position, &seglog.IterOptions{Isolation: r.isolation}))
	}
	for {
		b, err, ok := r.next()
		switch {
		case !ok:
			r.close()
			return false, nil
		case err != nil:
			return false, err
		case b.IsControl():
			r.position = max(r.position, b.NextOffset())
			continue
		}
		r.batch, r.have = b, true
		return true, r.it.Reset(b)
	}
}

// end is where reading ends for now.
func (r *reader) end() int64 { return end(r.log, r.isolation) }

func end(log *seglog.Log, isolation seglog.Isolation) int64 {
	if isolation == seglog.ReadCommitted {
		if stable, err := log.LastStableOffset(); err == nil {
			return stable
		}
	}
	return log.HighWatermark()
}

// keep copies a record into room, or a new one if that is full.
func keep(rec *seglog.Record, room []byte) (c seglog.Record, rest []byte) {
	size := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += len(rec.Headers[i].Value)
	}
	if size > cap(room)-len(room) || room == nil {
		room = make([]byte, 0, max(size, 16<<10))
	}
	c, used := rec.CloneInto(room[len(room):len(room):cap(room)])
	return c, room[:len(room)+len(used)]
}
