package consumer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// Batch is what one Poll has read of one partition.
type Batch struct {
	offsetslog.TopicPartition
	// Records belong to the caller.
	Records []seglog.Record
	// Next is the position behind them: that of the next record there is, as far as that
	// is known, beyond whatever lies between. It is what to commit when all of them are
	// done.
	Next int64
	// LeaderEpoch is that of the last record, for who keeps the position elsewhere: see
	// SeekToEpoch. -1 if it is not known.
	LeaderEpoch int32

	delivery
}

// delivery is when records were delivered.
type delivery struct {
	c          *Consumer
	safe       *SafePosition
	generation Generation
}

// Complete says that the record at an offset is finished, with Options.MaxInFlight. It may
// be called from any goroutine, in any order, and again. ErrStale says that the partition
// has gone or was sought, and that the record will be delivered again, maybe to another
// consumer; an *UnknownOffsetError, that it was not delivered.
func (b *Batch) Complete(offset int64) error { return b.complete(offset) }

func (d *delivery) complete(offset int64) error {
	if d.safe == nil {
		return ErrNotTracked
	}
	before := d.safe.Position()
	if err := d.safe.Complete(d.generation, offset); err != nil {
		return err
	}
	if d.safe.Position() != before {
		d.c.wakeUp() // there may be room
	}
	return nil
}

// Poll returns the next records of the partitions that the consumer has, up to
// Options.MaxPollRecords, and waits for some if there are none. Their positions move
// behind them. Until the next Poll, or Close, the caller is at work on them: only then
// they count as done for an automatic commit.
//
// It also does what its group asks for: it joins, gives partitions up and takes others,
// and calls the Listener. A member has to call it again within Options.MaxPollInterval,
// and by the end of ctx if nothing else is to be waited for; to join takes several calls
// then.
//
// An error about one partition is a *PartitionError, and comes again, between the records
// of others, until its cause has gone, Seek leads past it or the partition is paused:
// seglog.ErrCorrupt, and with OffsetReset None ErrNoOffset, seglog.ErrOffsetOutOfRange and
// seglog.ErrTruncated. Other errors are those of the group (offsetslog.Error), ErrClosed,
// ErrConcurrent, and that of ctx, which loses nothing: call Poll again.
func (c *Consumer) Poll(ctx context.Context) ([]Batch, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.exit()
	fetched, err := c.poll(ctx)
	if err != nil {
		return nil, err
	}
	batches := make([]Batch, 0, len(fetched))
	for _, f := range fetched {
		b, ok, err := c.accept(f)
		if err != nil {
			return batches, err
		}
		if ok {
			batches = append(batches, b)
		}
	}
	return batches, nil
}

// Record is a record, and where it comes from.
type Record struct {
	offsetslog.TopicPartition
	seglog.Record

	delivery
}

// Complete is Batch.Complete for the record.
func (r *Record) Complete() error { return r.complete(r.Offset) }

// Records yields the records that Poll would return, one by one, without end: it waits
// for more until ctx ends. The loop must not call Poll or Close; CommitSync in it commits
// up to the present record, which is not among them. A record counts as done when the
// next one is asked for. Who leaves the loop at a record will get it again, unless
// Options.MaxInFlight is set: then it counts as delivered, and has to be completed.
//
// An error, of those of Poll, ends the iteration. What comes behind it is read by calling
// Records again.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := c.enter(); err != nil {
			yield(Record{}, err)
			return
		}
		defer c.exit()
		for {
			fetched, err := c.poll(ctx)
			for i := 0; i < len(fetched) && err == nil; i++ {
				var ok bool
				if ok, err = c.yieldBatch(fetched[i], yield); !ok && err == nil {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}

// yieldBatch passes on the records of a batch, for as long as the partition is there and
// at its place. It reports whether the loop goes on.
func (c *Consumer) yieldBatch(f fetched, yield func(Record, error) bool) (bool, error) {
	tracked := f.p.safe != nil
	for i, rec := range f.records {
		one := f
		one.records = f.records[i : i+1]
		if i < len(f.records)-1 {
			one.to = place{rec.Offset + 1, -1}
		}
		if !c.holds(f) {
			return true, nil
		}
		var d delivery
		if tracked { // it is in flight from now on, whatever the loop does
			b, ok, err := c.accept(one)
			if !ok {
				return true, err
			}
			d = b.delivery
		}
		goesOn := yield(Record{f.p.TopicPartition, rec, d}, nil)
		c.touch()
		switch {
		case !goesOn:
			return false, nil
		case !tracked && !c.move(one):
			return true, nil
		}
	}
	return true, nil
}

// enter begins a Poll, of which there is one at a time.
func (c *Consumer) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return ErrClosed
	}
	select {
	case c.turn <- struct{}{}:
	default:
		return ErrConcurrent
	}
	return nil
}

func (c *Consumer) exit() {
	c.closeRetired()
	c.give(c.turn)
}

// fetched are records that were read, and not delivered yet.
type fetched struct {
	p       *partition
	seeks   int
	from    place
	to      place
	records []seglog.Record
}

// poll waits until there are records, or an error. The caller holds turn.
func (c *Consumer) poll(ctx context.Context) ([]fetched, error) {
	c.lastPoll.Store(polling)
	defer c.touch()
	for {
		if err := c.mayPoll(ctx); err != nil {
			return nil, err
		}
		if err := c.updateGroup(ctx); err != nil {
			return nil, err
		}
		c.closeRetired()
		c.maybeAutoCommit()
		err := c.locateDue(ctx)
		read, failed := c.readAll()
		if err == nil {
			err = failed
		}
		switch {
		case err != nil && (c.errorDue || len(read) == 0):
			c.errorDue = false
			return nil, err // what was read will be again
		case len(read) > 0:
			c.errorDue = err != nil
			return read, nil
		}
		if err := c.await(ctx); err != nil {
			return nil, err
		}
	}
}

func (c *Consumer) mayPoll(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// touch notes that the caller is alive.
func (c *Consumer) touch() { c.lastPoll.Store(int64(time.Since(c.began))) }

// readAll reads from the partitions in turn.
func (c *Consumer) readAll() (all []fetched, err error) {
	c.mu.Lock()
	order := slices.Clone(c.mu.order)
	if len(order) > 1 {
		c.mu.order = append(c.mu.order[1:], c.mu.order[0])
	}
	c.mu.Unlock()
	most := c.opts.MaxPollRecords
	for _, p := range order {
		f, ok := c.readable(p)
		if !ok || most == 0 {
			continue
		}
		one := c.read(&f, most)
		if err == nil {
			err = one
		}
		switch {
		case len(f.records) > 0:
			all = append(all, f)
			most -= len(f.records)
		case one == nil && f.to != f.from:
			c.skip(f)
		}
	}
	return all, err
}

// readable tells where to read a partition, if it is to be read now.
func (c *Consumer) readable(p *partition) (f fetched, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f = fetched{p: p, seeks: p.seeks, from: p.place}
	return f, !p.paused && p.position >= 0 && (p.safe == nil || p.safe.InFlight() < c.opts.MaxInFlight)
}

// read reads up to most records.
func (c *Consumer) read(f *fetched, most int) error {
	p := f.p
	log, err := c.dir.Partition(p.Topic, p.Partition)
	if err != nil {
		return &PartitionError{p.TopicPartition, f.from.position, err}
	}
	r := &p.reader
	if r.log != log {
		r.close()
		r.log, r.isolation = log, c.opts.Isolation
	}
	r.seek(f.from)
	if p.safe != nil {
		most = min(most, c.opts.MaxInFlight-p.safe.InFlight())
	}
	f.records, err = r.read(most, c.opts.MaxPartitionBytes)
	f.to = r.place
	var cut *seglog.TruncationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &cut):
		f.records = nil
		return c.rewind(p, f.seeks, f.from.position, cut.TruncatedTo)
	case errors.Is(err, seglog.ErrOffsetOutOfRange) && len(f.records) == 0:
		return c.reset(p, f.seeks, log, f.to.position, err)
	default:
		return &PartitionError{p.TopicPartition, f.to.position, err}
	}
}

// accept moves a partition behind what was read, which is delivered then.
func (c *Consumer) accept(f fetched) (b Batch, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := f.p
	if p.seeks != f.seeks {
		return b, false, nil // it went elsewhere meanwhile
	}
	if err := f.registerLocked(); err != nil {
		return b, false, &PartitionError{p.TopicPartition, f.from.position, err}
	}
	p.place = f.to
	return Batch{p.TopicPartition, f.records, f.to.position, f.to.epoch, delivery{c, p.safe, p.generation}}, true, nil
}

func (f *fetched) registerLocked() error {
	if f.p.safe == nil {
		return nil
	}
	offsets := make([]int64, len(f.records))
	for i := range f.records {
		offsets[i] = f.records[i].Offset
	}
	_, err := f.p.safe.register(f.p.generation, offsets, f.to.position) // there is room
	return err
}

// skip moves a partition behind what delivers nothing.
func (c *Consumer) skip(f fetched) {
	_, _, _ = c.accept(f)
}

// holds reports whether what was read may be delivered still.
func (c *Consumer) holds(f fetched) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.p.seeks == f.seeks && !c.mu.group.lost && !c.mu.closed
}

// move moves a partition behind a record that was delivered, unless it was sought.
func (c *Consumer) move(f fetched) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.p.seeks != f.seeks {
		return false
	}
	f.p.place = f.to
	return true
}

// await waits until something may have changed: there are records, somebody has called a
// method, or something is due.
func (c *Consumer) await(ctx context.Context) error {
	watch, cancel := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	arrived := make(chan struct{}, 1)
	c.mu.Lock()
	due := c.dueLocked()
	order := slices.Clone(c.mu.order)
	c.mu.Unlock()
	for _, p := range order {
		f, ok := c.readable(p)
		if !ok || p.reader.log == nil {
			continue
		}
		watchers.Go(func() {
			for range p.reader.log.Batches(watch, f.from.position, &seglog.IterOptions{Follow: true, Isolation: c.opts.Isolation}) {
				break // also at an error, which reading will meet
			}
			select {
			case arrived <- struct{}{}:
			default:
			}
		})
	}
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-arrived:
	case <-c.wake:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// dueLocked is the time until something has to be done.
func (c *Consumer) dueLocked() time.Duration {
	now := time.Now()
	due := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if !c.opts.ManualCommit && len(c.mu.assigned) > 0 {
		sooner(c.mu.autoCommit)
	}
	if c.mu.group.counts != nil {
		sooner(c.mu.group.refreshAt)
	}
	for _, p := range c.mu.order {
		if p.position < 0 {
			sooner(c.mu.locateAt)
		}
	}
	return max(0, due.Sub(now))
}

// locateDue finds missing positions, unless it is too early to try again.
func (c *Consumer) locateDue(ctx context.Context) error {
	c.mu.Lock()
	early := time.Now().Before(c.mu.locateAt)
	c.mu.Unlock()
	if early {
		return nil
	}
	return c.locate(ctx)
}
