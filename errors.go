package seglog

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Categories of errors, for errors.Is. The types below carry the details.
var (
	// ErrOffsetOutOfRange: the offset is below the log start or above the log
	// end. See OffsetError. Kafka: OFFSET_OUT_OF_RANGE (1).
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrNoRecord: the offset lies inside the log, but no record has it: it
	// was compacted away, or belongs to a transaction marker. See GapError.
	ErrNoRecord = errors.New("no record at this offset")
	// ErrCorrupt: stored bytes are not what they must be. See CorruptionError.
	ErrCorrupt = segment.ErrCorrupt
	// ErrTruncated ends an iteration that has read what was truncated away. See
	// TruncationError.
	ErrTruncated = errors.New("log was truncated below the read position")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("log is closed")
	// ErrReadOnly: the log was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("log is read-only")
	// ErrFailed: an earlier write or sync failed in a way that leaves the
	// state of the files unknown. Reading goes on; writing needs a new Open.
	// The first cause is wrapped.
	ErrFailed = errors.New("log failed, open it again to write")
	// ErrNoSpace: the disk, or the user's quota of it, is full. Nothing was
	// half-written. Opening, reading, DeleteBefore and ApplyRetention work, and appends
	// do again when there is room. Only a log start within a segment, which DeleteBefore
	// writes down, takes room, unless there is some after whole segments were removed.
	ErrNoSpace = errors.New("no space")
	// ErrLocked: another process, or another Log in this one, has the
	// directory open for writing.
	ErrLocked = vfs.ErrLocked
	// ErrMoved: the directory of an open log was moved, or its lock file removed, and
	// its path leads elsewhere now, perhaps to another log. Nothing was written there.
	// Close the log, and open it where it is.
	ErrMoved = errors.New("the log is not at its path any more")
	// ErrMessageTooLarge: a batch is larger than MaxMessageBytes, or its records
	// are larger, before compression, than readers take. Kafka: MESSAGE_TOO_LARGE
	// (10).
	ErrMessageTooLarge = errors.New("batch too large")
	// ErrSetTooLarge: a set of batches does not fit one segment. Kafka:
	// RECORD_LIST_TOO_LARGE (18).
	ErrSetTooLarge = errors.New("batches larger than a segment")
	// ErrInvalidBatch: a batch or record given to an append is not one that
	// may be stored. Kafka: INVALID_RECORD (87), CORRUPT_MESSAGE (2).
	ErrInvalidBatch = errors.New("invalid batch")
	// ErrUnexpectedOffset: a replicated batch does not follow the log end, or
	// the batches of a set do not follow each other. See AppendOffsetError.
	ErrUnexpectedOffset = errors.New("unexpected offset")
	// ErrOutOfOrderSequence: a producer's batch does not follow its last one. See
	// ProducerError. Kafka: OUT_OF_ORDER_SEQUENCE_NUMBER (45).
	ErrOutOfOrderSequence = producerstate.ErrOutOfOrderSequence
	// ErrInvalidProducerEpoch: a newer instance of the producer has taken over.
	// See ProducerError. Kafka: INVALID_PRODUCER_EPOCH (47).
	ErrInvalidProducerEpoch = producerstate.ErrInvalidProducerEpoch
	// ErrInvalidTxnState: a batch outside of the transaction that its producer has
	// open. See ProducerError. Kafka: INVALID_TXN_STATE (48).
	ErrInvalidTxnState = producerstate.ErrInvalidTxnState
	// ErrCoordinatorFenced: a newer transaction coordinator has taken over. See
	// ProducerError. Kafka: TRANSACTION_COORDINATOR_FENCED (52).
	ErrCoordinatorFenced = producerstate.ErrCoordinatorFenced
	// ErrNoTransaction: the producer has no transaction open.
	ErrNoTransaction = errors.New("no transaction is open")
	// ErrFencedLeaderEpoch: a newer leader has taken over. See EpochError. Kafka:
	// FENCED_LEADER_EPOCH (74).
	ErrFencedLeaderEpoch = errors.New("leader epoch is fenced")
	// ErrUnknownLeaderEpoch: a leader epoch that this log has not heard of. See
	// EpochError. Kafka: UNKNOWN_LEADER_EPOCH (75).
	ErrUnknownLeaderEpoch = errors.New("leader epoch is not known yet")
	// ErrInvalidTimestamp: a record is too old or too far in the future for
	// TimestampBeforeMax and TimestampAfterMax. See RecordsError. Kafka:
	// INVALID_TIMESTAMP (32).
	ErrInvalidTimestamp = errors.New("timestamp out of range")
	// ErrCommitted: a truncation below the high watermark, which was not forced.
	ErrCommitted = errors.New("below the high watermark")
	// ErrCompactionAborted: while it was being compacted the log was truncated, records
	// were removed from its beginning, or its topic is no longer one that is compacted.
	// What was done so far stays; call Compact again.
	ErrCompactionAborted = errors.New("compaction was aborted")
	// ErrCompactionPaused: see Log.PauseCompaction.
	ErrCompactionPaused = errors.New("compaction is paused")
	// ErrNotALog: the directory holds no segment and none may be made.
	ErrNotALog = errors.New("not a log directory")
	// ErrNoPartition: the log directory has no such partition.
	ErrNoPartition = errors.New("no such partition")
	// ErrPartitionExists: the log directory has that partition already.
	ErrPartitionExists = errors.New("partition exists")
	// ErrIdentity: meta.properties says that the log directory is another's.
	ErrIdentity = errors.New("log directory of another")
	// ErrOverlap: two segments claim the same offsets.
	ErrOverlap = errors.New("segments overlap")
	// ErrOption: a field of an options struct is out of its range.
	ErrOption = errors.New("invalid option")
)

// CorruptionError says where stored bytes are not what they must be. It
// matches ErrCorrupt.
type CorruptionError = segment.CorruptionError

// SegmentExistsError is a file where a new segment was to be made. It was left alone. It
// matches fs.ErrExist.
type SegmentExistsError = segment.ExistsError

// OffsetError is an offset outside of what the log holds. It matches
// ErrOffsetOutOfRange.
type OffsetError struct {
	Offset     int64 // what was asked for
	Start, End int64 // the log holds [Start, End)
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("offset %d is outside [%d, %d)", e.Offset, e.Start, e.End)
}

// Unwrap returns ErrOffsetOutOfRange.
func (e *OffsetError) Unwrap() error { return ErrOffsetOutOfRange }

// GapError is an offset inside the log that no record has. It matches
// ErrNoRecord.
type GapError struct {
	Offset int64 // what was asked for
	Next   int64 // the next offset that has a record, or the log end
}

func (e *GapError) Error() string {
	return fmt.Sprintf("no record at offset %d, the next is at %d", e.Offset, e.Next)
}

// Unwrap returns ErrNoRecord.
func (e *GapError) Unwrap() error { return ErrNoRecord }

// TruncationError ends an iteration that has read records that a truncation took
// away. It matches ErrTruncated.
type TruncationError struct {
	Offset int64 // the next one the iteration would have read
	// TruncatedTo is the lowest offset that was taken away meanwhile: what was
	// read from there on is not in the log any more, and the place to go on at.
	TruncatedTo int64
	End         int64 // the log end now, which others may have moved up again
}

func (e *TruncationError) Error() string {
	return fmt.Sprintf("%v: truncated to offset %d, the next to read was %d, the log now ends at %d", ErrTruncated, e.TruncatedTo, e.Offset, e.End)
}

// Unwrap returns ErrTruncated.
func (e *TruncationError) Unwrap() error { return ErrTruncated }

// AppendOffsetError is a batch that may not be stored at the offsets it
// claims. It matches ErrUnexpectedOffset.
type AppendOffsetError struct {
	FirstOffset, LastOffset int64 // of the refused batch
	Want                    int64 // the smallest first offset that is accepted
}

func (e *AppendOffsetError) Error() string {
	return fmt.Sprintf("batch of offsets [%d, %d] does not follow: want %d or above", e.FirstOffset, e.LastOffset, e.Want)
}

// Unwrap returns ErrUnexpectedOffset.
func (e *AppendOffsetError) Unwrap() error { return ErrUnexpectedOffset }

// ProducerError says why a batch of a producer is refused: who it was, what it
// said and what was expected. It matches its Reason, one of ErrOutOfOrderSequence,
// ErrInvalidProducerEpoch, ErrInvalidTxnState and ErrCoordinatorFenced.
type ProducerError = producerstate.Error

// EpochError is a leader epoch other than the present one. It matches Err.
type EpochError struct {
	Err            error // ErrFencedLeaderEpoch or ErrUnknownLeaderEpoch
	Epoch, Current int32
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("%v: epoch %d, the present one is %d", e.Err, e.Epoch, e.Current)
}

// Unwrap returns Err.
func (e *EpochError) Unwrap() error { return e.Err }

// RecordsError lists the records for which a batch was refused; none of it was
// written. It matches ErrInvalidBatch, and what each record's error matches.
type RecordsError struct {
	Records []RecordError
}

// RecordError is why one record is refused.
type RecordError struct {
	Index int // of the record in its batch, from 0
	Err   error
}

func (e *RecordsError) Error() string {
	msg := fmt.Sprintf("%v: ", ErrInvalidBatch)
	for i, r := range e.Records {
		if i == 3 { // as Kafka does
			return msg + fmt.Sprintf(" and %d more", len(e.Records)-i)
		}
		if i > 0 {
			msg += ", "
		}
		msg += fmt.Sprintf("record %d: %v", r.Index, r.Err)
	}
	return msg
}

// Unwrap returns ErrInvalidBatch and the errors of the records.
func (e *RecordsError) Unwrap() []error {
	errs := []error{ErrInvalidBatch}
	for _, r := range e.Records {
		errs = append(errs, r.Err)
	}
	return errs
}

// SizeError is a batch or set of batches over a limit. It matches Err.
type SizeError struct {
	Err         error // ErrMessageTooLarge or ErrSetTooLarge
	Size, Limit int   // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, the limit is %d", e.Err, e.Size, e.Limit)
}

// Unwrap returns Err.
func (e *SizeError) Unwrap() error { return e.Err }

// OverlapError is two segments that claim the same offsets. It matches
// ErrOverlap and ErrCorrupt.
type OverlapError struct {
	Segment    int64 // base offset of the earlier segment
	LastOffset int64 // of its last batch
	Next       int64 // base offset of the segment behind it
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("segment %d ends at offset %d, beyond the start of segment %d", e.Segment, e.LastOffset, e.Next)
}

// Unwrap returns ErrOverlap and ErrCorrupt.
func (e *OverlapError) Unwrap() []error { return []error{ErrOverlap, ErrCorrupt} }

// MissingEndError is a log that ends below an offset up to which it was on disk: its
// last segment is gone, or the end of it. Open refuses to give the offsets out again.
// Repair accepts the loss and has the log go on at Want; Recover copies what is there;
// opening with Options.ReadOnly reads it. It matches ErrCorrupt.
type MissingEndError struct {
	File string // the last segment there is
	End  int64  // where it ends: the first offset that is missing
	Want int64  // the log was durable up to here, and without this offset
}

func (e *MissingEndError) Error() string {
	return fmt.Sprintf("%s: the log ends at offset %d, but was on disk up to %d: offsets %d to %d are missing", e.File, e.End, e.Want, e.End, e.Want-1)
}

// Unwrap returns ErrCorrupt.
func (e *MissingEndError) Unwrap() error { return ErrCorrupt }

// OptionError is an option out of its range. It matches ErrOption.
type OptionError struct {
	Field, Value, Want string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s is %s, want %s", e.Field, e.Value, e.Want)
}

// Unwrap returns ErrOption.
func (e *OptionError) Unwrap() error { return ErrOption }

// named puts the name of its category to an error of the file system.
func named(err error) error {
	if err != nil && vfs.IsNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// invalid marks a refused batch, keeping the codec's own account of it.
func invalid(err error) error {
	if errors.Is(err, ErrInvalidBatch) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalidBatch, err)
}

// Record and Header are what a log stores; see package record.
type (
	Record = record.Record
	Header = record.Header
)
