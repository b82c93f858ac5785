package seglog

import (
	"fmt"
	"math"

	"github.com/seglog/seglog/record"
)

// CleanupPolicy is what is done with old records. Kafka: cleanup.policy.
type CleanupPolicy int8

const (
	// CleanupDelete removes old segments.
	CleanupDelete CleanupPolicy = iota
	// CleanupCompact keeps the last record of each key. Records need keys.
	CleanupCompact
	// CleanupCompactDelete does both.
	CleanupCompactDelete
	// CleanupNone does neither: only records below the log start go. Kafka has an
	// empty list for it.
	CleanupNone
)

// Compacts reports whether the policy keeps the last record of each key.
func (p CleanupPolicy) Compacts() bool { return p == CleanupCompact || p == CleanupCompactDelete }

// Deletes reports whether the policy removes old segments.
func (p CleanupPolicy) Deletes() bool { return p == CleanupDelete || p == CleanupCompactDelete }

// String returns the value of Kafka's setting.
func (p CleanupPolicy) String() string {
	switch p {
	case CleanupDelete:
		return "delete"
	case CleanupCompact:
		return "compact"
	case CleanupCompactDelete:
		return "compact,delete"
	case CleanupNone:
		return "none"
	}
	return fmt.Sprintf("CleanupPolicy(%d)", int8(p))
}

// rules are what every record of an append must keep to (LogValidator.java).
type rules struct {
	keyed            bool
	oldest, youngest int64 // timestamps, for record.CreateTime
	now              int64
	timed            bool
	broken           []RecordError
}

func (o *Options) rules(now int64) rules {
	r := rules{keyed: o.CleanupPolicy.Compacts(), timed: o.TimestampType == record.CreateTime, now: now}
	r.oldest, r.youngest = math.MinInt64, math.MaxInt64
	if limit := o.TimestampBeforeMax; limit != noTimeLimit {
		r.oldest = r.now - limit.Milliseconds()
	}
	if limit := o.TimestampAfterMax; limit != noTimeLimit {
		r.youngest = r.now + limit.Milliseconds()
	}
	return r
}

// check notes what is wrong with record i.
func (r *rules) check(i int, rec *Record) {
	switch {
	case r.keyed && rec.Key == nil:
		r.broken = append(r.broken, RecordError{i, errNoKey})
	case r.timed && rec.Timestamp < 0 && rec.Timestamp != record.NoTimestamp: // as Kafka's MemoryRecordsBuilder.java
		r.broken = append(r.broken, RecordError{i, fmt.Errorf("%w: %d, want 0 or above, or -1 for none", ErrInvalidTimestamp, rec.Timestamp)})
	case r.timed && rec.Timestamp != record.NoTimestamp && (rec.Timestamp < r.oldest || rec.Timestamp > r.youngest):
		r.broken = append(r.broken, RecordError{i, fmt.Errorf("%w: %d, want %d to %d", ErrInvalidTimestamp, rec.Timestamp, r.oldest, r.youngest)})
	}
}

// stamped notes that the batch is said to have its time from the log, which only the
// log can say. Kafka takes such a batch for a topic with record.CreateTime if it is not
// without a time, and then does not know the times of its records.
func (r *rules) stamped() {
	r.broken = append(r.broken, RecordError{0, fmt.Errorf("%w: a client's batch with log append time", ErrInvalidTimestamp)})
}

var errNoKey = fmt.Errorf("a record of a compacted log needs a key: %w", record.ErrInvalid)

func (r *rules) err() error {
	if len(r.broken) == 0 {
		return nil
	}
	return &RecordsError{r.broken}
}
