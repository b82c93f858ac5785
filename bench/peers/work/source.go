package work

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Ring is how many different records there are. Each has its number in key and value on
// top, so no two are the same; and they repeat at a distance that no block compressor
// sees. It is a multiple of every batch size.
const ring = 4000

// KeyBytes is the size of a key: 8 random bytes and the record's number.
const KeyBytes = 16

// Epoch is the time of record 0. There are ten records in a millisecond.
const (
	Epoch        = int64(1_700_000_000_000)
	recordsPerMs = 10
)

// Source makes records by their numbers, and knows them again. It belongs to one
// goroutine.
type Source struct {
	records  *[ring]Record // all but the first bytes of a value, and the last of a key, stay as they are
	size     int
	numbered []Record // of a sibling: its own memory for a batch
}

// NewSource returns a source of records with values of that size, at least 16.
func NewSource(size int) *Source {
	s := &Source{records: new([ring]Record), size: size}
	random := rand.NewChaCha8([32]byte{1})
	memory := make([]byte, ring*(KeyBytes+size))
	take := func(n int) []byte {
		b := memory[:n:n]
		memory = memory[n:]
		return b
	}
	for i := range s.records {
		s.records[i] = Record{Key: take(KeyBytes), Value: take(size)}
		_, _ = random.Read(s.records[i].Key)
		_, _ = random.Read(s.records[i].Value)
	}
	return s
}

// Sibling returns a source of the same records for another goroutine. What stays as it
// is they have in common; the others are copied, up to n at a time.
func (s *Source) Sibling(n int) *Source {
	o := &Source{records: s.records, size: s.size, numbered: make([]Record, n)}
	for i := range o.numbered {
		o.numbered[i] = Record{Key: make([]byte, KeyBytes), Value: make([]byte, s.size)}
	}
	return o
}

// TimeOf is the time of a record. Each writer begins at Epoch.
func TimeOf(number int64) int64 { return Epoch + number&(1<<writerShift-1)/recordsPerMs }

// Batch returns n records from a number on, valid until the next call. number is a
// multiple of n, and n divides ring.
func (s *Source) Batch(number int64, n int) []Record {
	at := int(number % ring)
	batch := s.records[at : at+n]
	if s.numbered != nil {
		for i := range batch {
			copy(s.numbered[i].Key[:8], batch[i].Key)
			copy(s.numbered[i].Value[8:], batch[i].Value[8:])
		}
		batch = s.numbered[:n]
	}
	for i := range batch {
		r := &batch[i]
		r.Time = TimeOf(number)
		binary.BigEndian.PutUint64(r.Key[8:], uint64(number))
		binary.BigEndian.PutUint64(r.Value, uint64(number))
		number++
	}
	return batch
}

// NumberOf is the number that a record carries, if it has the size of one.
func (s *Source) NumberOf(r *Record) (int64, error) {
	if len(r.Key) != KeyBytes || len(r.Value) != s.size {
		return 0, fmt.Errorf("key of %d and value of %d bytes, want %d and %d", len(r.Key), len(r.Value), KeyBytes, s.size)
	}
	return int64(binary.BigEndian.Uint64(r.Value)), nil
}

// Check compares what a reader should: offset, time, size, key, and the number and last
// bytes of the value. It is part of what is timed, so it looks at no byte more.
func (s *Source) Check(r *Record, offset int64) error {
	if r.Offset != offset {
		return fmt.Errorf("offset %d, want %d", r.Offset, offset)
	}
	return s.CheckNumber(r, offset)
}

// CheckNumber is Check without the offset.
func (s *Source) CheckNumber(r *Record, number int64) error {
	if r.Time != TimeOf(number) || len(r.Key) != KeyBytes || len(r.Value) != s.size {
		return fmt.Errorf("record %d: time %d, key of %d and value of %d bytes, want %d, %d and %d",
			number, r.Time, len(r.Key), len(r.Value), TimeOf(number), KeyBytes, s.size)
	}
	if number < 0 {
		return fmt.Errorf("record %d", number)
	}
	want := &s.records[number%ring]
	if binary.BigEndian.Uint64(r.Key[8:]) != uint64(number) || binary.BigEndian.Uint64(r.Value) != uint64(number) ||
		binary.NativeEndian.Uint64(r.Key) != binary.NativeEndian.Uint64(want.Key) ||
		binary.NativeEndian.Uint64(r.Value[s.size-8:]) != binary.NativeEndian.Uint64(want.Value[s.size-8:]) {
		return fmt.Errorf("record %d: bytes of another: key %x, value %x", number, r.Key, r.Value[:8])
	}
	return nil
}

// CheckAll is Check of every byte.
func (s *Source) CheckAll(r *Record, offset int64) error {
	if err := s.Check(r, offset); err != nil {
		return err
	}
	if !bytes.Equal(r.Value[8:], s.records[offset%ring].Value[8:]) {
		return fmt.Errorf("record %d: value %x", offset, r.Value)
	}
	return nil
}
