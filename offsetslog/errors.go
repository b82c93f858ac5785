package offsetslog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seglog/seglog"
)

// Error is an error that Kafka has a number for. Those of this package match one of
// them with errors.Is; KafkaErrorOf finds it.
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

// name is Kafka's.
func (e Error) name() string {
	switch e {
	case ErrUnknownServer:
		return "UNKNOWN_SERVER_ERROR"
	case ErrOutOfRange:
		return "OFFSET_OUT_OF_RANGE"
	case ErrUnknownPartition:
		return "UNKNOWN_TOPIC_OR_PARTITION"
	case ErrMetadataTooLarge:
		return "OFFSET_METADATA_TOO_LARGE"
	case ErrLoading:
		return "COORDINATOR_LOAD_IN_PROGRESS"
	case ErrNotAvailable:
		return "COORDINATOR_NOT_AVAILABLE"
	case ErrNotCoordinator:
		return "NOT_COORDINATOR"
	case ErrInvalidTopic:
		return "INVALID_TOPIC_EXCEPTION"
	case ErrIllegalGeneration:
		return "ILLEGAL_GENERATION"
	case ErrInconsistentProtocol:
		return "INCONSISTENT_GROUP_PROTOCOL"
	case ErrInvalidGroupID:
		return "INVALID_GROUP_ID"
	case ErrUnknownMember:
		return "UNKNOWN_MEMBER_ID"
	case ErrInvalidSessionTimeout:
		return "INVALID_SESSION_TIMEOUT"
	case ErrRebalancing:
		return "REBALANCE_IN_PROGRESS"
	case ErrGroupAuthorization:
		return "GROUP_AUTHORIZATION_FAILED"
	case ErrInvalidRequest:
		return "INVALID_REQUEST"
	case ErrNonEmptyGroup:
		return "NON_EMPTY_GROUP"
	case ErrGroupNotFound:
		return "GROUP_ID_NOT_FOUND"
	case ErrGroupFull:
		return "GROUP_MAX_SIZE_REACHED"
	case ErrFencedInstance:
		return "FENCED_INSTANCE_ID"
	case ErrSubscribed:
		return "GROUP_SUBSCRIBED_TO_TOPIC"
	case ErrUnstable:
		return "UNSTABLE_OFFSET_COMMIT"
	case ErrStaleMemberEpoch:
		return "STALE_MEMBER_EPOCH"
	default:
		return fmt.Sprintf("KAFKA_ERROR_%d", int16(e))
	}
}

// Error is Kafka's name in small letters.
func (e Error) Error() string {
	return strings.ToLower(strings.ReplaceAll(e.name(), "_", " "))
}

// Retriable reports whether the same request may succeed later.
func (e Error) Retriable() bool {
	switch e {
	case ErrUnknownPartition, ErrLoading, ErrNotAvailable, ErrNotCoordinator, ErrUnstable:
		return true
	}
	return false
}

// KafkaErrorOf returns what a Kafka broker would answer for an error of this package, or
// of a log below it: see seglog.KafkaErrorOf.
func KafkaErrorOf(err error) seglog.KafkaError {
	var e Error
	if errors.As(err, &e) {
		return seglog.KafkaError{Code: int16(e), Name: e.name(), Retriable: e.Retriable()}
	}
	return seglog.KafkaErrorOf(err)
}

// MisplacedError says that the groups in a partition of the topic do not belong there, if
// it has as many partitions as was thought: it has another number, which
// Options.Partitions must say. Nothing is read or written then, since groups would be
// looked for in the wrong place.
type MisplacedError struct {
	// Group is one that belongs elsewhere, and Misplaced counts them among Groups.
	Group             string
	Groups, Misplaced int
	// Partition is where they are, Partitions how many were thought to be.
	Partition, Partitions int32
}

func (e *MisplacedError) Error() string {
	return fmt.Sprintf("%s does not have %d partitions: group %q would be in %d, and is in %d (%d of %d groups there are misplaced)",
		Topic, e.Partitions, e.Group, PartitionFor(e.Group, e.Partitions), e.Partition, e.Misplaced, e.Groups)
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
