package offsetslog

import (
	"context"
	"fmt"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// Producer is a transactional producer, as its transaction coordinator knows it.
type Producer struct {
	ID    int64
	Epoch int16
}

// TransactionalCommitRequest says which offsets are committed within the transaction of
// a producer.
type TransactionalCommitRequest struct {
	Group string
	// Member is nil for producers that do not know it: then nothing keeps one from
	// committing that has lost its partitions to another (KIP-447).
	Member   *Member
	Producer Producer
	Offsets  []Commit
}

// sequence is what a producer with an open transaction sends next.
type sequence struct {
	epoch int16
	next  int32
}

// CommitTransactional commits offsets within a transaction, and returns when they are on
// disk. They count once EndTransaction has ended it with seglog.Commit; until then
// Fetch shows those before, or ErrUnstable. Errors are those of Commit, and those that
// fence a producer: seglog.ErrInvalidProducerEpoch.
func (s *Store) CommitTransactional(ctx context.Context, r TransactionalCommitRequest) error {
	if r.Group == "" {
		return ErrInvalidGroupID
	}
	if r.Producer.ID < 0 || r.Producer.Epoch < 0 {
		return fmt.Errorf("%w: producer %d, epoch %d", ErrInvalidRequest, r.Producer.ID, r.Producer.Epoch)
	}
	p, err := s.group(ctx, Read, r.Group)
	if err != nil {
		return err
	}
	e := newEncoder()
	refused := s.encode(e, r.Group, r.Offsets, time.Now().UnixMilli(), -1)
	last, err := p.commitTransactional(&r, e)
	if err != nil || last < 0 {
		e.free()
		if err == nil {
			err = refused.err()
		}
		return err
	}
	if err := p.settle(ctx, last); err != nil {
		return err
	}
	return refused.err()
}

func (p *partition) commitTransactional(r *TransactionalCommitRequest, e *encoder) (last int64, err error) {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.RLock()
	err = p.mayCommitTransactionalLocked(r)
	p.mu.RUnlock()
	if err != nil || e.len() == 0 {
		return -1, err
	}
	log, err := p.writable()
	if err != nil {
		return -1, err
	}
	seq, err := p.sequence(log, r.Producer)
	if err != nil {
		return -1, err
	}
	n := int32(e.len())
	last, err = p.append(e, &seglog.Producer{ID: r.Producer.ID, Epoch: r.Producer.Epoch, Sequence: seq, Transactional: true})
	if err != nil {
		return -1, err
	}
	p.sequences[r.Producer.ID] = sequence{r.Producer.Epoch, record.IncrementSequence(seq, n)}
	return last, nil
}

// sequence is the number of the producer's next record. A broker writes 0 always, and
// does not look; our log does. The log forgets no producer whose transaction is open.
func (p *partition) sequence(log *seglog.Log, producer Producer) (int32, error) {
	if s, ok := p.sequences[producer.ID]; ok {
		if s.epoch == producer.Epoch {
			return s.next, nil
		}
		return 0, nil
	}
	known, err := log.Producers()
	if err != nil {
		return 0, coordinatorError(err)
	}
	for _, k := range known {
		if k.ID == producer.ID && k.Epoch == producer.Epoch {
			return record.IncrementSequence(k.LastSequence, 1), nil
		}
	}
	return 0, nil
}

// mayCommitTransactionalLocked is OffsetMetadataManager.validateTransactionalOffsetCommit.
func (p *partition) mayCommitTransactionalLocked(r *TransactionalCommitRequest) error {
	if p.mu.closed {
		return ErrNotAvailable
	}
	m := r.Member
	if m == nil {
		m = &nobody
	}
	g := p.mu.groups[r.Group]
	switch {
	case g == nil && m.Generation < 0:
		return nil
	case g == nil:
		return ErrIllegalGeneration
	case g.modern != nil:
		err := g.modern.mayCommit(m)
		if err == ErrStaleMemberEpoch {
			return ErrIllegalGeneration
		}
		return err
	case g.classic == nil:
		return (&classic{state: Empty}).mayCommit(m, true)
	default:
		return g.classic.mayCommit(m, true)
	}
}

// EndTransaction ends the transaction of a producer in the partition of a group, and
// returns when that is on disk: the offsets that it has committed count now, each unless
// a later one was committed meanwhile, or are dropped. Other groups of the partition are
// part of the transaction, too. That is the only way to end one: of a marker that somebody
// appends to the log itself, as Log.AbortTransaction does, a Store learns when it is opened
// again. The coordinator's epoch is that of who coordinates transactions; 0 for a lone one.
// Errors are those of seglog.Log.EndTransaction.
func (s *Store) EndTransaction(ctx context.Context, group string, producer Producer, result seglog.TransactionResult, coordinatorEpoch int32) error {
	p, err := s.group(ctx, Read, group)
	if err != nil {
		return err
	}
	last, err := p.endTransaction(producer, result, coordinatorEpoch)
	if err != nil {
		return err
	}
	return p.settle(ctx, last)
}

func (p *partition) endTransaction(producer Producer, result seglog.TransactionResult, coordinatorEpoch int32) (last int64, err error) {
	p.order.Lock()
	defer p.order.Unlock()
	log, err := p.writable()
	if err != nil {
		return 0, err
	}
	opts := seglog.AppendOptions{Sync: &never, CoordinatorEpoch: coordinatorEpoch}
	at, err := log.EndTransaction(seglog.Producer{ID: producer.ID, Epoch: producer.Epoch}, result, &opts)
	if err != nil {
		return 0, coordinatorError(err)
	}
	delete(p.sequences, producer.ID)
	p.enqueue(change{base: at.BaseOffset, last: at.LastOffset, producerID: producer.ID, ends: true, result: result})
	return at.LastOffset, nil
}
