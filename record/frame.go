package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes of the format. These values are written to disk and never change.
const (
	// LogOverhead is what precedes the part of a batch that its size counts: the
	// offset and the size itself.
	LogOverhead = 12

	// MinFrame is how many bytes it takes to know where a batch ends and which
	// format it has.
	MinFrame = 17

	// HeaderSize is the size of the header of a batch of magic 2, and so of the
	// smallest such batch.
	HeaderSize = 61

	// minSizeField is the smallest legal value of the size field: a message of
	// magic 0 without key and value.
	minSizeField = 14
)

var be = binary.BigEndian

// Frame is what the first 17 bytes of a batch say, whichever its magic:
//
//	position  size
//	       0     8  offset
//	       8     4  size: the bytes after this field
//	      12     4  leader epoch (magic 2) or CRC-32 (magic 0 and 1)
//	      16     1  magic
type Frame struct {
	// Offset is the base offset of a batch of magic 2, and the offset of the
	// last message of a legacy one.
	Offset int64

	// Size is the size of the whole batch, with the 12 bytes its size field
	// does not count.
	Size int

	// Magic is the format. It may be one that nobody has defined.
	Magic int8
}

// ParseFrame reads the frame at the start of b. It costs two loads and looks at
// nothing beyond the first 17 bytes, so b need not hold the whole batch.
//
// With fewer than 17 bytes it returns ErrShort. A size that no batch can have,
// as in a stretch of zeros, is ErrCorrupt. An unknown magic is no error here,
// nor is it to Kafka when it walks over a file (FileLogInputStream.java).
func ParseFrame(b []byte) (Frame, error) {
	if len(b) < MinFrame {
		return Frame{}, ErrShort
	}
	offset, size := int64(be.Uint64(b)), int32(be.Uint32(b[8:]))
	// A position in a log is an int32 to Kafka. A batch that ends beyond that
	// cannot have been written.
	if size < minSizeField || size > math.MaxInt32-LogOverhead {
		return Frame{}, &Error{
			Kind: ErrCorrupt, BaseOffset: offset, Record: -1, Field: "size",
			Detail: fmt.Sprintf("%d is outside [%d, %d]", size, minSizeField, math.MaxInt32-LogOverhead),
		}
	}
	return Frame{Offset: offset, Size: int(size) + LogOverhead, Magic: int8(b[16])}, nil
}

// The formats a batch can have. These values are written to disk and never
// change.
const (
	MagicV0 int8 = 0 // before Kafka 0.10: no timestamps
	MagicV1 int8 = 1 // Kafka 0.10
	MagicV2 int8 = 2 // Kafka 0.11 and later
)

// headerSize returns the size of the smallest batch of this magic, which is that
// of its header. A magic nobody has defined, and a batch smaller than that, is
// ErrCorrupt.
func (f Frame) headerSize() (int, error) {
	var least int
	switch f.Magic {
	case 0:
		least = legacySizeV0
	case 1:
		least = legacySizeV1
	case magicV2:
		least = HeaderSize
	default:
		return 0, &Error{
			Kind: ErrCorrupt, BaseOffset: f.Offset, Record: -1, Field: "magic",
			Detail: fmt.Sprint(f.Magic), Err: ErrUnsupported,
		}
	}
	if f.Size < least {
		return 0, &Error{
			Kind: ErrCorrupt, BaseOffset: f.Offset, Record: -1, Field: "size",
			Detail: fmt.Sprintf("%d is less than the %d a batch of magic %d needs",
				f.Size-LogOverhead, least-LogOverhead, f.Magic),
		}
	}
	return least, nil
}
