package record

import "strconv"

// The bits of a batch's attributes. These values are written to disk and never
// change.
const (
	codecMask        = 0x07
	appendTimeBit    = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40

	knownAttributes  = codecMask | appendTimeBit | transactionalBit | controlBit | deleteHorizonBit
	legacyAttributes = codecMask | appendTimeBit
)

// Attributes are the flags of a batch. Bits 7 and up mean nothing today; they
// are ignored and, as long as the batch is copied as it is, kept.
type Attributes uint16

// Codec returns how the records are compressed. It may be one that is not Valid.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// TimestampType returns what the timestamps of the records are.
func (a Attributes) TimestampType() TimestampType { return TimestampType(a >> 3 & 1) }

// Transactional reports whether the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&transactionalBit != 0 }

// Control reports whether the batch holds control records, which are not for
// consumers.
func (a Attributes) Control() bool { return a&controlBit != 0 }

// DeleteHorizon reports whether the base timestamp is the time from which on
// tombstones in the batch may be removed.
func (a Attributes) DeleteHorizon() bool { return a&deleteHorizonBit != 0 }

// TimestampType says what the timestamp of a record is the time of.
type TimestampType int8

// The timestamp types. These values are written to disk and never change, save
// the first, which is what messages of magic 0 have.
const (
	NoTimestampType TimestampType = -1 // there are no timestamps
	CreateTime      TimestampType = 0  // when the record came to be, says its producer
	LogAppendTime   TimestampType = 1  // when its batch was appended to the log
)

// String returns the name Kafka uses.
func (t TimestampType) String() string {
	switch t {
	case NoTimestampType:
		return "NoTimestampType"
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	}
	return "TimestampType(" + strconv.Itoa(int(t)) + ")"
}
