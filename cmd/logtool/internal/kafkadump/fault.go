package kafkadump

import (
	"encoding/binary"
	"errors"

	"github.com/seglog/seglog/record"
)

// asException is what the tool says of a batch or record that does not decode.
// Of records that are not compressed it is told in the tool's words; those about
// compressed ones come from libraries of its own.
func (s *source) asException(b batch, h header, err error) error {
	if err == nil {
		return nil
	}
	var fault *record.Error
	if !b.legacy() && h.flags().Codec() == record.None && errors.As(err, &fault) && fault.Record >= 0 {
		raw, err := s.read(b.pos, b.size)
		if err != nil {
			return err
		}
		if e := recordFault(raw[record.HeaderSize:], fault.Record, int(h.count)); e != nil {
			return e
		}
	}
	class := invalidRecord
	switch {
	case errors.As(err, &fault) && fault.Field == "records":
		class = kafkaException // they do not decompress
	case h.count < 0:
		return exceptionf(class, "Found invalid record count %d in magic v%d batch", h.count, b.magic)
	}
	return exceptionf(class, "%v", err)
}

// recordFault returns what is wrong with the record of a number, counted from 0,
// among count of them in b. It reads as DefaultRecord.readFrom does, which notices
// only at the end of a record that it read beyond it.
func recordFault(b []byte, number, count int) *Exception {
	for range number {
		size, n := binary.Varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return nil
		}
		b = b[n+int(size):]
	}
	r := recordReader{b: b}
	size, ok := r.varint(5)
	switch {
	case !ok && len(r.b) == 0:
		return &Exception{invalidRecord, "Incorrect declared batch size, premature EOF reached"}
	case !ok:
		return nil // a varint that is too long has no further text of interest
	case int64(len(r.b)) < size:
		return exceptionf(invalidRecord, "Invalid record size: expected %d bytes in record payload, but instead"+
			" the buffer has only %d remaining bytes.", size, len(r.b))
	}
	body := len(r.b)
	if e := r.fields(); e != nil {
		return e
	}
	if read := int64(body - len(r.b)); read != size {
		return exceptionf(invalidRecord, "Invalid record size: expected to read %d bytes in record payload, but instead read %d", size, read)
	}
	if number == count-1 && len(r.b) > 0 {
		return &Exception{invalidRecord, "Incorrect declared batch size, records still remaining in file"}
	}
	return nil
}

// recordReader reads the fields of a record from b, which goes on behind it.
type recordReader struct{ b []byte }

var errStructure = &Exception{invalidRecord, "Found invalid record structure"}

func (r *recordReader) fields() *Exception {
	if len(r.b) == 0 {
		return errStructure
	}
	r.b = r.b[1:] // attributes
	_, ok := r.varint(10)
	if ok {
		_, ok = r.varint(5)
	}
	if !ok || !r.bytes() || !r.bytes() {
		return errStructure
	}
	headers, ok := r.varint(5)
	switch {
	case !ok:
		return errStructure
	case headers < 0:
		return exceptionf(invalidRecord, "Found invalid number of record headers %d", headers)
	case headers > int64(len(r.b)):
		return exceptionf(invalidRecord, "Found invalid number of record headers. %d is larger than the remaining size of the buffer", headers)
	}
	for range headers {
		if e := r.header(); e != nil {
			return e
		}
	}
	return nil
}

func (r *recordReader) header() *Exception {
	size, ok := r.varint(5)
	switch {
	case !ok:
		return errStructure
	case size < 0:
		return exceptionf(invalidRecord, "Invalid negative header key size %d", size)
	case size > int64(len(r.b)):
		return errStructure
	}
	r.b = r.b[size:]
	if !r.bytes() {
		return errStructure
	}
	return nil
}

// bytes skips a length and that many bytes. A negative length is null.
func (r *recordReader) bytes() bool {
	size, ok := r.varint(5)
	if !ok || size > int64(len(r.b)) {
		return false
	}
	r.b = r.b[max(size, 0):]
	return true
}

// varint reads a number of at most so many bytes. Numbers of five bytes lose what
// is above their 32 bits, as they do in Java.
func (r *recordReader) varint(most int) (int64, bool) {
	v, n := binary.Uvarint(r.b[:min(len(r.b), most)])
	if n <= 0 {
		if n == 0 && len(r.b) < most {
			r.b = nil
		}
		return 0, false
	}
	r.b = r.b[n:]
	if most == 5 {
		v := uint32(v)
		return int64(int32(v>>1) ^ -int32(v&1)), true
	}
	return int64(v>>1) ^ -int64(v&1), true
}
