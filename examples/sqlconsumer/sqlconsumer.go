// Package sqlconsumer shows how a consumer has each record take effect exactly once in a
// database: the result and the position are written in one transaction, so that there is
// nothing between the two for a crash to fall into. The offsets of the group are not
// needed for that; what the group does is to say who owns which partition.
//
//	progress   topic  partition | next offset  leader epoch  owner
//
// The owner is the generation of the group in which a member got the partition. One that
// has lost it, and does not know yet, finds a higher one there, and is refused.
//
// A group that was deleted begins again at generation 1: the rows of progress must be
// given owner 0 then.
package sqlconsumer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/consumer"
	"github.com/seglog/seglog/offsetslog"
)

// ErrStaleOwner: another member owns the partition.
var ErrStaleOwner = errors.New("partition is owned by a later generation")

// Schema is the table that Sink needs. What else there is, is its user's.
const Schema = `CREATE TABLE IF NOT EXISTS progress (
	topic        TEXT    NOT NULL,
	partition    INTEGER NOT NULL,
	next_offset  INTEGER NOT NULL, -- -1: nothing yet
	leader_epoch INTEGER NOT NULL,
	owner        INTEGER NOT NULL,
	PRIMARY KEY (topic, partition)
)`

// Sink puts batches into a database.
type Sink struct {
	DB *sql.DB
	// Apply does the work of a record, within the transaction.
	Apply func(ctx context.Context, tx *sql.Tx, r seglog.Record) error
}

// Claim makes a generation the owner of a partition, and returns where it goes on;
// a next offset of -1 says that it begins.
func (s *Sink) Claim(ctx context.Context, p offsetslog.TopicPartition, generation int32) (next int64, epoch int32, err error) {
	err = s.DB.QueryRowContext(ctx, `INSERT INTO progress VALUES (?, ?, -1, -1, ?)
		ON CONFLICT (topic, partition) DO UPDATE SET owner = excluded.owner WHERE owner <= excluded.owner
		RETURNING next_offset, leader_epoch`, p.Topic, p.Partition, generation).Scan(&next, &epoch)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrStaleOwner
	}
	return next, epoch, err
}

// Put does the work of a batch, and moves the progress behind it: both, or neither. The
// condition on next_offset refuses a batch that was put before, should it come again.
func (s *Sink) Put(ctx context.Context, b *consumer.Batch, generation int32) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	// The update comes first: it locks the row, so that a Claim has to wait for what is
	// done under the old owner, and not the other way round.
	moved, err := tx.ExecContext(ctx, `UPDATE progress SET next_offset = ?, leader_epoch = ?
		WHERE topic = ? AND partition = ? AND owner = ? AND next_offset <= ?`,
		b.Next, b.LeaderEpoch, b.Topic, b.Partition, generation, b.Records[0].Offset)
	if err != nil {
		return err
	}
	if n, err := moved.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%v, generation %d: %w", b.TopicPartition, generation, ErrStaleOwner), err)
	}
	for _, r := range b.Records {
		if err := s.Apply(ctx, tx, r); err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return tx.Commit()
}

// Run consumes topics as a member of a group until ctx ends. Each error ends it, too: to
// run it again is always right.
func (s *Sink) Run(ctx context.Context, dir *seglog.Dir, opts consumer.Options, topics ...string) (err error) {
	var c *consumer.Consumer
	var claimed error
	opts.ManualCommit = true // the truth is in the database
	opts.Listener.Assigned = func(partitions []offsetslog.TopicPartition) {
		claimed = s.resume(ctx, c, partitions)
	}
	if c, err = consumer.New(dir, opts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Subscribe(topics...); err != nil {
		return err
	}
	for {
		batches, err := c.Poll(ctx)
		if err := errors.Join(err, claimed); err != nil {
			return err
		}
		m, _ := c.Member()
		for i := range batches {
			if err := s.Put(ctx, &batches[i], m.Generation); err != nil {
				return err
			}
		}
	}
}

// resume claims partitions and goes to where the database says.
func (s *Sink) resume(ctx context.Context, c *consumer.Consumer, partitions []offsetslog.TopicPartition) error {
	m, _ := c.Member()
	for _, p := range partitions {
		next, epoch, err := s.Claim(ctx, p, m.Generation)
		switch {
		case err != nil:
			return fmt.Errorf("claim %v: %w", p, err)
		case next < 0:
			err = c.SeekToBeginning(p)
		default:
			err = c.SeekToEpoch(p, next, epoch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
