package offsetslog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// partition is one partition of the topic: its log, and the state that comes of it.
type partition struct {
	store *Store
	n     int32
	log   atomic.Pointer[seglog.Log] // nil until it is opened, or made

	// loading is held by who loads; loaded is set once.
	loading sync.Mutex
	loaded  atomic.Bool

	// order is held from the moment a change is decided to that when it is appended,
	// so that changes are decided on what was decided before.
	order     sync.Mutex
	sequences map[int64]sequence // of producers with an open transaction; guarded by order

	mu struct {
		sync.RWMutex
		*state
		// queue has what was appended and is not known to be on disk, in the order of
		// the log. Its effect is not part of state yet.
		queue       []change
		undecodable int
		damaged     int
		problems    []error
		closed      bool
	}
}

// change is the effect of a batch that was appended.
type change struct {
	base, last int64
	producerID int64
	records    *encoder // nil if there is nothing to replay
	// ends: it is the end of a transaction.
	ends   bool
	result seglog.TransactionResult
}

func newPartition(s *Store, n int32, exists bool) *partition {
	p := &partition{store: s, n: n, sequences: map[int64]sequence{}}
	p.mu.state = newState()
	p.loaded.Store(!exists && !s.opts.Elsewhere) // nothing to load
	return p
}

// ready loads the partition if it was not. If somebody is about it that is ErrLoading,
// or waited for.
func (p *partition) ready(ctx context.Context, wait bool) error {
	if p.store.closed.Load() {
		return ErrNotAvailable
	}
	if p.loaded.Load() {
		return nil
	}
	if wait {
		p.loading.Lock()
	} else if !p.loading.TryLock() {
		return ErrLoading
	}
	defer p.loading.Unlock()
	if p.loaded.Load() {
		return nil
	}
	if err := p.load(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
	}
	return nil
}

// maxProblems is how many problems are kept for Stats.
const maxProblems = 20

// load replays the log. Damage and what cannot be decoded is counted and passed over.
func (p *partition) load(ctx context.Context) error {
	log, err := p.store.logs.Partition(Topic, p.n)
	if errors.Is(err, seglog.ErrNoPartition) {
		if p.store.opts.Elsewhere {
			return fmt.Errorf("%s-%d: %w", Topic, p.n, errElsewhere)
		}
		p.loaded.Store(true)
		return nil
	}
	if err != nil {
		return err
	}
	l := loader{state: newState()}
	if err := l.catchUp(ctx, log, p.store.dir == nil); err != nil {
		return err
	}
	if end := log.Offsets(); end.Durable < end.End && p.store.opts.Sync != seglog.SyncNever && p.store.dir != nil {
		if err := log.Sync(); err != nil { // what is shown must not go in a crash
			return err
		}
	}
	if err := p.checkPlace(l.state); err != nil {
		return err
	}
	if p.store.opts.MembersGone && p.store.dir == nil {
		l.state.forgetMembers()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return ErrNotAvailable
	}
	p.mu.state, p.mu.undecodable, p.mu.damaged, p.mu.problems = l.state, l.undecodable, l.damaged, l.problems
	p.log.Store(log)
	if p.store.dir != nil {
		p.beginSessionsLocked()
	}
	p.loaded.Store(true)
	return nil
}

// errElsewhere: there is no such partition in the directory, but somewhere.
var errElsewhere = errors.New("the partition is not in this directory")

// checkPlace looks whether the groups of a log belong there. If more than a quarter do not,
// the topic has another number of partitions: even of half as many, half the groups are
// elsewhere. A few are somebody's mistake, which costs no other group.
func (p *partition) checkPlace(s *state) error {
	e := MisplacedError{Partition: p.n, Partitions: int32(len(p.store.partitions)), Groups: len(s.groups)}
	for id := range s.groups {
		if PartitionFor(id, e.Partitions) != p.n {
			e.Misplaced++
			e.Group = max(e.Group, id) // any, but the same each time
		}
	}
	if 4*e.Misplaced > e.Groups {
		return &e
	}
	return nil
}

// loader gathers the state of a log.
type loader struct {
	state       *state
	it          record.Iterator
	undecodable int
	damaged     int
	problems    []error
}

// catchUp replays the log up to its end. If somebody else may write to it meanwhile, the
// end must not have moved on behind it: a commit that was not read yet may be gone by
// then, cleaned for the sake of a later one. (CoordinatorLoaderImpl.load)
func (l *loader) catchUp(ctx context.Context, log *seglog.Log, others bool) error {
	from := log.Offsets().Start
	for {
		to := log.Offsets().End
		if err := l.replay(ctx, log, from, to); err != nil || !others {
			return err
		}
		if err := log.Refresh(); err != nil && !errors.Is(err, seglog.ErrOption) { // of our own process
			return err
		}
		if log.Offsets().End <= to {
			return nil
		}
		from = to
	}
}

func (l *loader) replay(ctx context.Context, log *seglog.Log, from, to int64) error {
	if from == to {
		return nil
	}
	opts := &seglog.IterOptions{To: to, Isolation: seglog.ReadLogEnd, SkipDamaged: true}
	for b, err := range log.Batches(ctx, from, opts) {
		switch {
		case errors.Is(err, seglog.ErrCorrupt):
			l.damage(err)
		case err != nil:
			return err
		default:
			l.batch(b)
		}
	}
	return nil
}

func (l *loader) problem(err error) {
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, err)
	}
}

func (l *loader) damage(err error) {
	l.damaged++
	l.problem(err)
}

func (l *loader) undecoded(offset int64, err error) {
	l.undecodable++
	l.problem(fmt.Errorf("offset %d: %w", offset, err))
}

func (l *loader) batch(b record.Batch) {
	for r, err := range b.Records(&l.it) {
		switch {
		case err != nil:
			l.damage(fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err))
		case b.IsControl():
			l.control(b, r)
		default:
			if err := l.state.replay(r.Offset, b.ProducerID(), r.Key, r.Value); err != nil {
				l.undecoded(r.Offset, err)
			}
		}
	}
}

// control looks for markers. Others are those of a newer broker, and mean nothing here.
func (l *loader) control(b record.Batch, r *record.Record) {
	t, _, err := record.ParseControl(r.Key)
	if err != nil {
		l.undecoded(r.Offset, err)
		return
	}
	if t == record.Commit || t == record.Abort {
		l.state.end(b.ProducerID(), t == record.Commit)
	}
}

// writable returns the log, which is made if there is none. order must be held.
func (p *partition) writable() (*seglog.Log, error) {
	if log := p.log.Load(); log != nil && p.store.dir != nil {
		return log, nil
	}
	dir := p.store.dir
	if dir == nil {
		return nil, errReadOnly
	}
	log, err := dir.CreatePartition(Topic, p.n, &seglog.CreateOptions{TopicID: p.store.opts.TopicID})
	if errors.Is(err, seglog.ErrPartitionExists) {
		log, err = dir.Partition(Topic, p.n) // the try before has failed behind it
	}
	if err != nil {
		return nil, coordinatorError(err)
	}
	p.log.Store(log)
	return log, nil
}

var never = seglog.SyncNever

// append writes records as one batch and takes their effect, and e, over. It returns
// the last offset, for settle. order must be held.
func (p *partition) append(e *encoder, producer *seglog.Producer) (last int64, err error) {
	log, err := p.writable()
	if err != nil {
		return 0, err
	}
	opts := seglog.AppendOptions{Sync: &never, Producer: producer}
	at, err := log.Append(e.build(time.Now().UnixMilli()), &opts)
	if err != nil {
		return 0, coordinatorError(err)
	}
	c := change{base: at.BaseOffset, last: at.LastOffset, producerID: record.NoProducerID, records: e}
	if producer != nil {
		c.producerID = producer.ID
	}
	p.enqueue(c)
	return at.LastOffset, nil
}

func (p *partition) enqueue(c change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.queue = append(p.mu.queue, c)
	if p.store.opts.Sync == seglog.SyncNever {
		p.applyLocked(c.last)
	}
}

// settle waits until everything up to last is on disk, and applies it.
func (p *partition) settle(ctx context.Context, last int64) error {
	if p.store.opts.Sync == seglog.SyncNever {
		return nil // applied when it was appended
	}
	if err := p.log.Load().WaitDurable(ctx, last+1); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return coordinatorError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applyLocked(last)
	return nil
}

// applyLocked applies what was queued, up to last. It is on disk, as all below last is.
func (p *partition) applyLocked(last int64) {
	n := 0
	for n < len(p.mu.queue) && p.mu.queue[n].last <= last {
		p.applyOneLocked(p.mu.queue[n])
		n++
	}
	rest := copy(p.mu.queue, p.mu.queue[n:])
	clear(p.mu.queue[rest:])
	p.mu.queue = p.mu.queue[:rest]
}

func (p *partition) applyOneLocked(c change) {
	if c.ends {
		p.mu.end(c.producerID, c.result == seglog.Commit)
	}
	if c.records == nil {
		return
	}
	for i, r := range c.records.records {
		if err := p.mu.replay(c.base+int64(i), c.producerID, r.Key, r.Value); err != nil {
			p.mu.undecodable++ // our own: a bug, to be seen in Stats
			p.mu.problems = append(p.mu.problems, err)
		}
	}
	c.records.free()
}

// drain has everything that was appended on disk, and applied. order must be held, so
// that nothing follows.
func (p *partition) drain() error { return p.settleAll(context.Background()) }

// settleAll is settle for everything that was appended so far.
func (p *partition) settleAll(ctx context.Context) error {
	p.mu.RLock()
	n := len(p.mu.queue)
	var last int64
	if n > 0 {
		last = p.mu.queue[n-1].last
	}
	p.mu.RUnlock()
	if n == 0 {
		return nil
	}
	return p.settle(ctx, last)
}

// maxRemoval bounds the batches of tombstones, which come in any number.
const maxRemoval = 256 << 10

// write appends records in as many batches as needed, waits for the disk, applies them
// and frees e, unless it fails. order must be held, and the queue drained. If a batch
// fails those before it stay.
func (p *partition) write(e *encoder) error {
	if e.len() == 0 {
		e.free()
		return nil
	}
	log, err := p.writable()
	if err != nil {
		return err
	}
	records := e.build(time.Now().UnixMilli())
	for len(records) > 0 && err == nil {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size < maxRemoval) {
			size += len(records[n].Key) + len(records[n].Value) + 20
			n++
		}
		var at seglog.AppendResult
		if at, err = log.Append(records[:n], &seglog.AppendOptions{Sync: &never}); err != nil {
			break
		}
		part := newEncoder()
		part.records = append(part.records[:0], records[:n]...)
		p.enqueue(change{base: at.BaseOffset, last: at.LastOffset, producerID: record.NoProducerID, records: part})
		records = records[n:]
	}
	if err != nil {
		return errors.Join(coordinatorError(err), p.drain())
	}
	if err = p.drain(); err == nil {
		e.free()
	}
	return err
}

// coordinatorError says in Kafka's words why a log has refused records.
// (CoordinatorOperationExceptionHelper, OffsetMetadataManager)
func coordinatorError(err error) error {
	switch {
	case errors.Is(err, seglog.ErrMessageTooLarge), errors.Is(err, seglog.ErrSetTooLarge):
		return fmt.Errorf("%w: %w", ErrUnknownServer, err)
	case errors.Is(err, seglog.ErrClosed):
		return fmt.Errorf("%w: %w", ErrNotAvailable, err)
	case errors.Is(err, seglog.ErrOutOfOrderSequence), errors.Is(err, seglog.ErrInvalidProducerEpoch),
		errors.Is(err, seglog.ErrInvalidTxnState), errors.Is(err, seglog.ErrCoordinatorFenced):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
	}
}

func (p *partition) close() error {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.Lock()
	p.mu.closed = true
	p.endSessionsLocked()
	p.mu.Unlock()
	if log := p.log.Load(); log != nil && p.store.opts.Sync == seglog.SyncNever {
		if err := log.Sync(); err != nil && !errors.Is(err, seglog.ErrClosed) {
			return err
		}
	}
	return nil
}

func (p *partition) addTo(st *Stats) {
	if !p.loaded.Load() {
		return
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	st.Loaded++
	st.Groups += len(p.mu.groups)
	st.Offsets += p.mu.offsets
	for id, groups := range p.mu.open {
		for g := range groups {
			if g := p.mu.groups[g]; g != nil && g.pending[id] != nil {
				st.Pending += g.pending[id].len()
			}
		}
	}
	for kind, n := range p.mu.skipped {
		st.Skipped[kind] += n
	}
	st.Undecodable += p.mu.undecodable
	st.Damaged += p.mu.damaged
	for _, err := range p.mu.problems {
		if len(st.Problems) < maxProblems {
			st.Problems = append(st.Problems, fmt.Errorf("%s-%d: %w", Topic, p.n, err))
		}
	}
}
