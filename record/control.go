package record

import (
	"fmt"
	"strconv"
)

// ControlType says what a control record is for.
type ControlType int16

// The control types. These values are written to disk and never change, save
// the last, which stands for any other. Only the first two, the end markers of
// transactions, appear in the logs of topics; the rest belong to the metadata
// log of a KRaft cluster.
const (
	Abort          ControlType = 0
	Commit         ControlType = 1
	LeaderChange   ControlType = 2
	SnapshotHeader ControlType = 3
	SnapshotFooter ControlType = 4
	KRaftVersion   ControlType = 5
	KRaftVoters    ControlType = 6
	UnknownControl ControlType = -1
)

var controlNames = [...]string{
	Abort:          "ABORT",
	Commit:         "COMMIT",
	LeaderChange:   "LEADER_CHANGE",
	SnapshotHeader: "SNAPSHOT_HEADER",
	SnapshotFooter: "SNAPSHOT_FOOTER",
	KRaftVersion:   "KRAFT_VERSION",
	KRaftVoters:    "KRAFT_VOTERS",
}

// String returns the name Kafka prints, such as "COMMIT".
func (t ControlType) String() string {
	switch {
	case t >= 0 && int(t) < len(controlNames):
		return controlNames[t]
	case t == UnknownControl:
		return "UNKNOWN"
	}
	return "ControlType(" + strconv.Itoa(int(t)) + ")"
}

// The key of a control record is its version, 0, and its type, two bytes each.
// The value of an end marker is its version, 0, in two bytes and the epoch of
// the coordinator in four. Higher versions begin the same way, so that they can
// be read without being known (ControlRecordType.java, EndTransactionMarker.java).
const (
	controlKeySize  = 4
	markerValueSize = 6
)

// ParseControl returns the type of the control record with the given key, and
// as it is stored. For a type that is not known the first is UnknownControl,
// which is no error: readers skip such records. A key that is too short or has
// a negative version is ErrInvalid.
func ParseControl(key []byte) (t ControlType, stored int16, err error) {
	if len(key) < controlKeySize {
		return UnknownControl, 0, fmt.Errorf("control record key of %d bytes: %w", len(key), ErrInvalid)
	}
	if version := int16(be.Uint16(key)); version < 0 {
		return UnknownControl, 0, fmt.Errorf("control record key of version %d: %w", version, ErrInvalid)
	}
	stored = int16(be.Uint16(key[2:]))
	if stored < 0 || int(stored) >= len(controlNames) {
		return UnknownControl, stored, nil
	}
	return ControlType(stored), stored, nil
}

// EndTxnMarker is what a control record says about the transaction it ends.
type EndTxnMarker struct {
	Type             ControlType // Abort or Commit
	CoordinatorEpoch int32       // of the coordinator that wrote it
}

// ParseEndTxnMarker returns the marker with the given key and value. Any other
// control record, and a value that is too short or has a negative version, is
// ErrInvalid.
func ParseEndTxnMarker(key, value []byte) (EndTxnMarker, error) {
	t, stored, err := ParseControl(key)
	if err != nil {
		return EndTxnMarker{}, err
	}
	if t != Abort && t != Commit {
		return EndTxnMarker{}, fmt.Errorf("control record of type %d is no end marker: %w", stored, ErrInvalid)
	}
	if len(value) < markerValueSize {
		return EndTxnMarker{}, fmt.Errorf("end marker of %d bytes: %w", len(value), ErrInvalid)
	}
	if version := int16(be.Uint16(value)); version < 0 {
		return EndTxnMarker{}, fmt.Errorf("end marker of version %d: %w", version, ErrInvalid)
	}
	return EndTxnMarker{Type: t, CoordinatorEpoch: int32(be.Uint32(value[2:]))}, nil
}

// EndTxnBatch is a batch that ends a transaction.
type EndTxnBatch struct {
	Offset        int64
	LeaderEpoch   int32
	Timestamp     int64
	ProducerID    int64
	ProducerEpoch int16
	Marker        EndTxnMarker
}

// AppendEndTxnMarker appends the batch that e describes to dst: 78 bytes, with
// a single record. A type other than Abort and Commit, a producer id or epoch
// below 0 and a timestamp below NoTimestamp are ErrInvalid, and dst is returned
// as it was.
func AppendEndTxnMarker(dst []byte, e EndTxnBatch) ([]byte, error) {
	switch {
	case e.Marker.Type != Abort && e.Marker.Type != Commit:
		return dst, fmt.Errorf("end marker of type %s: %w", e.Marker.Type, ErrInvalid)
	case e.ProducerID < 0 || e.ProducerEpoch < 0:
		return dst, fmt.Errorf("end marker of producer %d, epoch %d: %w", e.ProducerID, e.ProducerEpoch, ErrInvalid)
	case e.Timestamp < NoTimestamp:
		return dst, fmt.Errorf("end marker at time %d: %w", e.Timestamp, ErrInvalid)
	}
	var key [controlKeySize]byte
	be.PutUint16(key[2:], uint16(e.Marker.Type))
	var value [markerValueSize]byte
	be.PutUint32(value[2:], uint32(e.Marker.CoordinatorEpoch))
	r := Record{Key: key[:], Value: value[:]}

	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = appendRecord(dst, int32(sizeBody(0, 0, &r)), 0, 0, &r)
	putHeader(dst[start:], BatchHeader{
		BaseOffset:    e.Offset,
		LeaderEpoch:   e.LeaderEpoch,
		Attributes:    transactionalBit | controlBit,
		BaseTimestamp: e.Timestamp,
		MaxTimestamp:  e.Timestamp,
		ProducerID:    e.ProducerID,
		ProducerEpoch: e.ProducerEpoch,
		BaseSequence:  NoSequence,
		Count:         1,
	})
	return dst, nil
}
