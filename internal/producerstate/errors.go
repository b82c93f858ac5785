package producerstate

import (
	"errors"
	"fmt"
)

// Why a batch is refused; see Error.
var (
	// ErrOutOfOrderSequence: the batch does not follow the last one of its
	// producer. It was sent before its turn, or twice, and too long ago to be
	// known as a duplicate.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidProducerEpoch: a newer instance of the producer has taken over.
	ErrInvalidProducerEpoch = errors.New("producer epoch is no longer valid")
	// ErrInvalidTxnState: a batch that belongs to no transaction, from a producer
	// that has one open.
	ErrInvalidTxnState = errors.New("a transaction is open")
	// ErrCoordinatorFenced: another transaction coordinator has taken over.
	ErrCoordinatorFenced = errors.New("transaction coordinator is fenced")
	// ErrInvalidRecord: the batch is none that a client may write.
	ErrInvalidRecord = errors.New("clients may not write such a batch")
)

// An Error says why a batch is refused. It matches its Reason. Nothing was
// changed by it.
type Error struct {
	Reason        error // one of the errors above
	ProducerID    int64
	ProducerEpoch int16 // of the batch
	BaseOffset    int64 // that the batch would have had

	// Got and Expected are, by Reason: the base sequence and the one that is due;
	// the producer epoch and the least that is valid; -1 and the first offset of
	// the open transaction; the coordinator epoch and the least that is valid; -1
	// and -1.
	Got, Expected int64
}

func (e *Error) Error() string {
	what := fmt.Sprintf("producer %d, epoch %d: %v", e.ProducerID, e.ProducerEpoch, e.Reason)
	switch e.Reason {
	case ErrOutOfOrderSequence:
		return fmt.Sprintf("%s: %d, want %d", what, e.Got, e.Expected)
	case ErrInvalidProducerEpoch:
		return fmt.Sprintf("%s: want %d or above", what, e.Expected)
	case ErrInvalidTxnState:
		return fmt.Sprintf("%s, from offset %d on, and the batch is not part of it", what, e.Expected)
	case ErrCoordinatorFenced:
		return fmt.Sprintf("%s: coordinator epoch %d, want %d or above", what, e.Got, e.Expected)
	}
	return what
}

// Unwrap returns the Reason.
func (e *Error) Unwrap() error { return e.Reason }

// KafkaError returns the code that a broker would answer with (Errors.java):
// OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
// TRANSACTION_COORDINATOR_FENCED or INVALID_RECORD. None of them is retriable.
func (e *Error) KafkaError() int16 {
	switch e.Reason {
	case ErrOutOfOrderSequence:
		return 45
	case ErrInvalidProducerEpoch:
		return 47
	case ErrInvalidTxnState:
		return 48
	case ErrCoordinatorFenced:
		return 52
	case ErrInvalidRecord:
		return 87
	}
	return -1 // UNKNOWN_SERVER_ERROR
}

func (b *Batch) refused(reason error, got, expected int64) *Error {
	return &Error{
		Reason: reason, ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseOffset: b.BaseOffset,
		Got: got, Expected: expected,
	}
}
