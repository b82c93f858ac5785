package seglog

import (
	"errors"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/record"
)

// KafkaError is an error of Kafka's protocol, as a broker answers with it.
type KafkaError struct {
	Code int16
	Name string
	// Retriable: the same request may succeed later.
	Retriable bool
}

// These values are part of Kafka's protocol and never change (Errors.java).
var (
	kafkaUnknown                 = KafkaError{-1, "UNKNOWN_SERVER_ERROR", false}
	kafkaNone                    = KafkaError{0, "NONE", false}
	kafkaOffsetOutOfRange        = KafkaError{1, "OFFSET_OUT_OF_RANGE", false}
	kafkaCorruptMessage          = KafkaError{2, "CORRUPT_MESSAGE", true}
	kafkaMessageTooLarge         = KafkaError{10, "MESSAGE_TOO_LARGE", false}
	kafkaRecordListTooLarge      = KafkaError{18, "RECORD_LIST_TOO_LARGE", false}
	kafkaUnknownTopicOrPartition = KafkaError{3, "UNKNOWN_TOPIC_OR_PARTITION", true}
	kafkaTopicAlreadyExists      = KafkaError{36, "TOPIC_ALREADY_EXISTS", false}
	kafkaInvalidConfig           = KafkaError{40, "INVALID_CONFIG", false}
	kafkaInvalidTimestamp        = KafkaError{32, "INVALID_TIMESTAMP", false}
	kafkaOutOfOrderSequence      = KafkaError{45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false}
	kafkaInvalidProducerEpoch    = KafkaError{47, "INVALID_PRODUCER_EPOCH", false}
	kafkaInvalidTxnState         = KafkaError{48, "INVALID_TXN_STATE", false}
	kafkaCoordinatorFenced       = KafkaError{52, "TRANSACTION_COORDINATOR_FENCED", false}
	kafkaStorageError            = KafkaError{56, "KAFKA_STORAGE_ERROR", true}
	kafkaFencedLeaderEpoch       = KafkaError{74, "FENCED_LEADER_EPOCH", true}
	kafkaUnknownLeaderEpoch      = KafkaError{75, "UNKNOWN_LEADER_EPOCH", true}
	kafkaInvalidRecord           = KafkaError{87, "INVALID_RECORD", false}
)

// kafkaErrors are looked through from the top: what is more particular comes first,
// and so does what failed of what was refused.
var kafkaErrors = []struct {
	err   error
	kafka KafkaError
}{
	{ErrFailed, kafkaStorageError},
	{ErrClosed, kafkaStorageError},
	{ErrReadOnly, kafkaStorageError},
	{ErrLocked, kafkaStorageError},
	{ErrNoSpace, kafkaStorageError},
	{ErrOutOfOrderSequence, kafkaOutOfOrderSequence},
	{ErrInvalidProducerEpoch, kafkaInvalidProducerEpoch},
	{ErrInvalidTxnState, kafkaInvalidTxnState},
	{ErrNoTransaction, kafkaInvalidTxnState},
	{ErrCoordinatorFenced, kafkaCoordinatorFenced},
	{ErrFencedLeaderEpoch, kafkaFencedLeaderEpoch},
	{ErrUnknownLeaderEpoch, kafkaUnknownLeaderEpoch},
	{ErrMessageTooLarge, kafkaMessageTooLarge},
	{ErrSetTooLarge, kafkaRecordListTooLarge},
	{ErrInvalidTimestamp, kafkaInvalidTimestamp},
	{ErrOffsetOutOfRange, kafkaOffsetOutOfRange},
	{ErrNoRecord, kafkaOffsetOutOfRange},
	{ErrNoPartition, kafkaUnknownTopicOrPartition},
	{ErrPartitionExists, kafkaTopicAlreadyExists},
	{ErrUnknownProperty, kafkaInvalidConfig},
	{producerstate.ErrInvalidRecord, kafkaInvalidRecord},
	{record.ErrCorrupt, kafkaCorruptMessage},
	{ErrInvalidBatch, kafkaInvalidRecord},
	// A broker answers a reader that meets damage so, and the reader asks again.
	{ErrCorrupt, kafkaCorruptMessage},
}

// KafkaErrorOf returns what a Kafka broker would answer for an error of this package:
// NONE for nil, and UNKNOWN_SERVER_ERROR for one that no request leads to, or that is
// not ours.
func KafkaErrorOf(err error) KafkaError {
	if err == nil {
		return kafkaNone
	}
	for _, e := range kafkaErrors {
		if errors.Is(err, e.err) {
			return e.kafka
		}
	}
	return kafkaUnknown
}
