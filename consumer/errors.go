package consumer

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/offsetslog"
)

// Categories of errors, for errors.Is. Those of the coordinator (offsetslog.Error) and of
// the log (seglog.ErrOffsetOutOfRange, ErrTruncated, ErrCorrupt) come as they are.
var (
	// ErrClosed: the consumer was closed.
	ErrClosed = errors.New("consumer is closed")
	// ErrConcurrent: another Poll, or the loop of Records, is under way.
	ErrConcurrent = errors.New("another poll is under way")
	// ErrNoGroup: it takes a group, and the consumer has none.
	ErrNoGroup = errors.New("consumer has no group")
	// ErrMode: Subscribe after Assign, or the other way round, without Unsubscribe
	// between them.
	ErrMode = errors.New("subscribed and assigned exclude each other")
	// ErrNotAssigned: the partition is not one of the consumer's.
	ErrNotAssigned = errors.New("partition is not assigned")
	// ErrNoOffset: nothing is committed for the partition, and OffsetReset is None.
	// Kafka: NoOffsetForPartitionException.
	ErrNoOffset = errors.New("no offset is committed")
	// ErrNotTracked: Complete without Options.MaxInFlight.
	ErrNotTracked = errors.New("records are not tracked")
)

// PartitionError is what went wrong with one partition. It matches what Err does.
type PartitionError struct {
	offsetslog.TopicPartition
	// Position is the position at which it did, -1 if there is none yet. It stays there:
	// Seek leads on.
	Position int64
	Err      error
}

func (e *PartitionError) Error() string {
	if e.Position < 0 {
		return fmt.Sprintf("%v: %v", e.TopicPartition, e.Err)
	}
	return fmt.Sprintf("%v: position %d: %v", e.TopicPartition, e.Position, e.Err)
}

// Unwrap returns Err.
func (e *PartitionError) Unwrap() error { return e.Err }
