package offsetslog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seglog/seglog"
)

// Error is an error that Kafka has a number for. Those of this package match one of
// them with errors.Is; ErrorCode finds the number.
type Error int16

// The errors, with Kafka's numbers (Errors.java).
const (
	// ErrUnknownServer: the records were refused for a reason that a client knows
	// nothing about, such as their size.
	ErrUnknownServer Error = -1
	// ErrOutOfRange: the log of a partition does not hold the offset.
	ErrOutOfRange Error = 1
	// ErrUnknownPartition: the Dir has no such partition.
	ErrUnknownPartition Error = 3
	// ErrMetadataTooLarge: the metadata of a commit is longer than
	// Options.MaxMetadata.
	ErrMetadataTooLarge Error = 12
	// ErrLoading: the group's partition is being loaded. Retriable.
	ErrLoading Error = 14
	// ErrNotAvailable: the group is going away, or the store is closed. Retriable.
	ErrNotAvailable Error = 15
	// ErrNotCoordinator: the log of the group's partition cannot be written or read.
	// Retriable, after the Dir was opened again.
	ErrNotCoordinator Error = 16
	// ErrInvalidTopic: the name of a topic is empty or longer than 249 bytes.
	ErrInvalidTopic Error = 17
	// ErrIllegalGeneration: the member has missed a rebalance.
	ErrIllegalGeneration Error = 22
	// ErrInconsistentProtocol: the member supports no protocol that all others do.
	ErrInconsistentProtocol Error = 23
	// ErrInvalidGroupID: empty where it may not be, or longer than 32767 bytes.
	ErrInvalidGroupID Error = 24
	// ErrUnknownMember: no such member, or none given while the group has members.
	ErrUnknownMember Error = 25
	// ErrInvalidSessionTimeout: outside of Options.MinSessionTimeout and
	// MaxSessionTimeout.
	ErrInvalidSessionTimeout Error = 26
	// ErrRebalancing: join the group again.
	ErrRebalancing Error = 27
	// ErrGroupAuthorization: Options.Authorize has refused.
	ErrGroupAuthorization Error = 30
	// ErrInvalidRequest: an offset or partition number below 0.
	ErrInvalidRequest Error = 42
	// ErrNonEmptyGroup: the group has members.
	ErrNonEmptyGroup Error = 68
	// ErrGroupNotFound: there is no such group.
	ErrGroupNotFound Error = 69
	// ErrGroupFull: the group has Options.MaxGroupSize members.
	ErrGroupFull Error = 81
	// ErrFencedInstance: another member has taken over the instance id.
	ErrFencedInstance Error = 82
	// ErrSubscribed: a member of the group is subscribed to the topic.
	ErrSubscribed Error = 86
	// ErrUnstable: a transaction has committed an offset there, and not ended yet.
	// Retriable.
	ErrUnstable Error = 88
	// ErrStaleMemberEpoch: the member of a group of the new protocol has missed a
	// change.
	ErrStaleMemberEpoch Error = 113
)

var errorNames = map[Error]string{
	ErrUnknownServer: "unknown server error", ErrUnknownPartition: "unknown topic or partition", ErrOutOfRange: "offset out of range", ErrMetadataTooLarge: "offset metadata too large",
	ErrLoading: "coordinator load in progress", ErrNotAvailable: "coordinator not available",
	ErrNotCoordinator: "not coordinator", ErrInvalidTopic: "invalid topic",
	ErrIllegalGeneration: "illegal generation", ErrInconsistentProtocol: "inconsistent group protocol",
	ErrInvalidGroupID: "invalid group id", ErrUnknownMember: "unknown member id",
	ErrInvalidSessionTimeout: "invalid session timeout", ErrRebalancing: "rebalance in progress",
	ErrGroupAuthorization: "group authorization failed", ErrInvalidRequest: "invalid request",
	ErrNonEmptyGroup: "group is not empty", ErrGroupNotFound: "no such group",
	ErrGroupFull: "group has its maximum size", ErrFencedInstance: "group instance id is fenced",
	ErrSubscribed: "group is subscribed to the topic", ErrUnstable: "unstable offset commit",
	ErrStaleMemberEpoch: "stale member epoch",
}

func (e Error) Error() string {
	if name, ok := errorNames[e]; ok {
		return name
	}
	return fmt.Sprintf("kafka error %d", int16(e))
}

// Retriable reports whether the same request may succeed later.
func (e Error) Retriable() bool {
	switch e {
	case ErrLoading, ErrNotAvailable, ErrNotCoordinator, ErrUnstable:
		return true
	}
	return false
}

// ErrorCode returns the number that Kafka's protocol has for an error of this package:
// 0 for nil, and -1 (UNKNOWN_SERVER_ERROR) for what has no number.
func ErrorCode(err error) int16 {
	if err == nil {
		return 0
	}
	var e Error
	switch {
	case errors.As(err, &e):
		return int16(e)
	case errors.Is(err, seglog.ErrOutOfOrderSequence):
		return 45
	case errors.Is(err, seglog.ErrInvalidProducerEpoch):
		return 47
	case errors.Is(err, seglog.ErrInvalidTxnState):
		return 48
	case errors.Is(err, seglog.ErrCoordinatorFenced):
		return 52
	}
	return int16(ErrUnknownServer)
}

// PartitionError is why one partition was refused.
type PartitionError struct {
	TopicPartition
	Err error
}

// PartitionsError lists the partitions that were refused; for all others of the call
// it was done. It matches what each of them matches.
type PartitionsError struct {
	Partitions []PartitionError
}

func (e *PartitionsError) Error() string {
	var b strings.Builder
	for i, p := range e.Partitions {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Partitions)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", p.TopicPartition, p.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the partitions.
func (e *PartitionsError) Unwrap() []error {
	errs := make([]error, len(e.Partitions))
	for i, p := range e.Partitions {
		errs[i] = p.Err
	}
	return errs
}

// refusals gathers a PartitionsError.
type refusals []PartitionError

func (r *refusals) add(tp TopicPartition, err error) { *r = append(*r, PartitionError{tp, err}) }

func (r refusals) err() error {
	if len(r) == 0 {
		return nil
	}
	return &PartitionsError{r}
}
