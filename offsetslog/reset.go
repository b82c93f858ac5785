package offsetslog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seglog/seglog"
)

// Target is a place that offsets can be reset to. The functions that return one are
// named after the options of kafka-consumer-groups.sh.
type Target struct {
	name string
	// find returns the offset for a log, before it is compared with the log's bounds.
	find func(l *seglog.Log, at Lag) (int64, error)
}

// ToEarliest is the start of the log.
func ToEarliest() Target {
	return Target{"to earliest", func(_ *seglog.Log, at Lag) (int64, error) { return at.Start, nil }}
}

// ToLatest is the end of the log.
func ToLatest() Target {
	return Target{"to latest", func(_ *seglog.Log, at Lag) (int64, error) { return at.End, nil }}
}

// ToCurrent is what is committed, or the end of the log if nothing is.
func ToCurrent() Target {
	return Target{"to current", func(_ *seglog.Log, at Lag) (int64, error) {
		if at.Offset < 0 {
			return at.End, nil
		}
		return at.Offset, nil
	}}
}

// ToOffset is a given offset.
func ToOffset(offset int64) Target {
	return Target{fmt.Sprintf("to offset %d", offset), func(*seglog.Log, Lag) (int64, error) { return offset, nil }}
}

// ShiftBy is so much above what is committed, or below; something must be.
func ShiftBy(n int64) Target {
	return Target{fmt.Sprintf("shift by %d", n), func(_ *seglog.Log, at Lag) (int64, error) {
		if at.Offset < 0 {
			return 0, errors.New("nothing is committed that could be shifted")
		}
		if n > math.MaxInt64-at.Offset {
			return math.MaxInt64, nil
		}
		return at.Offset + n, nil
	}}
}

// ToTime is the first record at t or later, or the end of the log if there is none.
func ToTime(t time.Time) Target {
	return Target{"to " + t.UTC().Format("2006-01-02T15:04:05.000Z"), func(l *seglog.Log, at Lag) (int64, error) {
		found, ok, err := l.OffsetForTime(max(t.UnixMilli(), 0)) // below are others' meanings
		if err != nil || !ok {
			return at.End, err
		}
		return found.Offset, nil
	}}
}

// ByDuration is ToTime of so long ago.
func ByDuration(d time.Duration) Target {
	t := ToTime(time.Now().Add(-d))
	t.name = "by duration " + d.String()
	return t
}

// ToOffsets is a given offset for each partition, as ReadCSV returns them.
func ToOffsets(offsets map[TopicPartition]int64) Target {
	return Target{"to given offsets", func(_ *seglog.Log, at Lag) (int64, error) {
		if offset, ok := offsets[at.TopicPartition]; ok {
			return offset, nil
		}
		return 0, errors.New("no offset is given for the partition")
	}}
}

// ResetRequest says which offsets of a group are moved where.
type ResetRequest struct {
	Group string
	// Partitions are those meant; nil means all that have a committed offset.
	Partitions []TopicPartition
	To         Target
	// Clamp takes the nearest offset of the log for one that it does not hold, as
	// Kafka's tool does. Otherwise that is ErrOutOfRange.
	Clamp bool
	// Execute commits the offsets. Otherwise Reset only says what they would be.
	Execute bool
}

// ResetRow is what becomes of one partition.
type ResetRow struct {
	// Lag is how it is before. Its Err, and Err below, are why the partition is left as
	// it is.
	Before Lag
	// Offset is the new one, and Lag what will be left then; -1 with Err.
	Offset, Lag int64
	// Clamped: the log does not hold the offset that was asked for, but this is the
	// nearest one.
	Clamped bool
	Err     error
}

// Reset moves the committed offsets of a group that has no members: ErrNonEmptyGroup. It
// returns a row for each partition; those with an Err are left as they are, and all
// others are one commit, of which the metadata says that it is a reset.
func (s *Store) Reset(ctx context.Context, r ResetRequest) ([]ResetRow, error) {
	if r.To.find == nil {
		return nil, fmt.Errorf("%w: no target", ErrInvalidRequest)
	}
	if err := s.mayReset(ctx, &r); err != nil {
		return nil, err
	}
	fetched, err := s.Fetch(ctx, FetchRequest{Group: r.Group, Partitions: r.Partitions})
	if err != nil {
		return nil, err
	}
	rows := make([]ResetRow, len(fetched))
	commit := CommitRequest{Group: r.Group}
	for i, f := range fetched {
		rows[i] = s.resetRow(f, &r)
		if rows[i].Err == nil {
			commit.Offsets = append(commit.Offsets, Commit{
				TopicPartition: f.TopicPartition, Offset: rows[i].Offset, LeaderEpoch: -1,
				Metadata: "reset " + r.To.name, TopicID: f.TopicID,
			})
		}
	}
	if !r.Execute || len(commit.Offsets) == 0 {
		return rows, nil
	}
	if err = s.Commit(ctx, commit); errors.Is(err, ErrUnknownMember) {
		err = ErrNonEmptyGroup // since it was looked at
	}
	return rows, err
}

func (s *Store) mayReset(ctx context.Context, r *ResetRequest) error {
	op := Describe
	if r.Execute {
		op = Read
	}
	p, err := s.group(ctx, op, r.Group)
	if err != nil {
		return err
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if g := p.mu.groups[r.Group]; g != nil && g.state() != Empty {
		return fmt.Errorf("%w: its state is %s", ErrNonEmptyGroup, g.state())
	}
	return nil
}

func (s *Store) resetRow(f Fetched, r *ResetRequest) ResetRow {
	at := Lag{TopicPartition: f.TopicPartition, Committed: f.Committed, Start: -1, End: -1, Lag: -1}
	row := ResetRow{Before: at, Offset: -1, Lag: -1}
	log, err := s.data(f.TopicPartition)
	if err != nil {
		row.Err = err
		return row
	}
	at.measure(log)
	row.Before = at
	offset, err := r.To.find(log, at)
	if err != nil {
		row.Err = err
		return row
	}
	if held := min(max(offset, at.Start), at.End); held != offset {
		if !r.Clamp {
			row.Err = fmt.Errorf("%w: %d is not in %d to %d", ErrOutOfRange, offset, at.Start, at.End)
			return row
		}
		offset, row.Clamped = held, true
	}
	row.Offset, row.Lag = offset, at.End-offset
	return row
}
