package kafkadump

import (
	"hash/crc32"
	"strconv"

	"github.com/seglog/seglog/record"
)

// message prints the record of a legacy batch that is not compressed: the batch
// itself. Its sizes are not checked before they are used (LegacyRecord.java).
func (r *recordPrinter) message(b batch, h header) error {
	raw, err := r.s.read(b.pos, b.size)
	if err != nil {
		return err
	}
	r.countGap(b.offset)
	r.line = r.line[:0]
	err = r.legacyRecord(h, b.offset, h.maxTimestamp, raw)
	if flushed := r.flush(); err == nil {
		err = flushed
	}
	return err
}

// legacyRecord appends the line of a record that was decoded from a message of
// magic 0 or 1.
func (r *recordPrinter) legacyRecord(h header, offset, timestamp int64, raw []byte) error {
	m := legacyMessage(raw)
	keyAt := m.keyAt()
	keySize, ok := m.size(keyAt)
	valueAt := keyAt + 4 + max(0, int(keySize))
	valueSize, ok2 := m.size(valueAt)
	if !ok || !ok2 {
		return &Exception{Class: indexOutOfRange}
	}
	line := r.appendPlace(h, offset, timestamp)
	line = append(line, " keySize: "...)
	line = strconv.AppendInt(line, int64(keySize), 10)
	line = append(line, " valueSize: "...)
	line = strconv.AppendInt(line, int64(valueSize), 10)
	crc := be.Uint32(m[12:])
	line = append(line, " isValid: "...)
	line = strconv.AppendBool(line, crc == crc32.ChecksumIEEE(m[16:]))
	line = append(line, " crc: "...)
	r.line = strconv.AppendUint(line, uint64(crc), 10)
	if r.d.opts.Print {
		// Both are read before either is printed.
		key, err := m.field(keyAt, keySize)
		if err != nil {
			return err
		}
		value, err := m.field(valueAt, valueSize)
		if err != nil {
			return err
		}
		r.line = appendContents(r.line, key, value)
	}
	r.line = append(r.line, '\n')
	return nil
}

// legacyMessage is a message of magic 0 or 1 with its offset and size.
type legacyMessage []byte

func (m legacyMessage) keyAt() int {
	if int8(m[16]) > record.MagicV0 {
		return 26
	}
	return 18
}

// size reads the length of a key or value, and fails beyond the message.
func (m legacyMessage) size(at int) (int32, bool) {
	if at > len(m)-4 {
		return 0, false
	}
	return int32(be.Uint32(m[at:])), true
}

// field returns a key or a value, nil for null.
func (m legacyMessage) field(at int, size int32) ([]byte, error) {
	b := m[at+4:]
	if int(size) > len(b) {
		return nil, exceptionf(illegalArgument, "newLimit > capacity: (%d > %d)", size, len(b))
	}
	if size < 0 {
		return nil, nil
	}
	return b[:size], nil
}
