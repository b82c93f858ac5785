// Package adapters has the stores that are measured, a file for each.
//
// To add one: describe it in a Spec, in a file of its own, and add it to All. Every
// adapter goes through the tests of this package, which read back what they append.
package adapters

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seglog/seglog/bench/peers/work"
)

// All are the stores, seglog first.
func All() []work.Spec {
	return []work.Spec{
		seglogSpec, seglogCallsSpec, tidwallSpec, raftWALSpec, bboltSpec, pebbleSpec, badgerSpec, etcdSpec, natsSpec,
		kafkaSpec,
	}
}

// Stores without times and keys of their own have them in front of the value:
//
//	time (8)  size of the key (2)  key  value

func encodedSize(r *work.Record) int { return 10 + len(r.Key) + len(r.Value) }

func appendRecord(dst []byte, r *work.Record) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Time))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Key)))
	dst = append(dst, r.Key...)
	return append(dst, r.Value...)
}

// decodeRecord sets all of r but the offset, to parts of b.
func decodeRecord(b []byte, r *work.Record) error {
	if len(b) < 10 || len(b) < 10+int(binary.BigEndian.Uint16(b[8:])) {
		return fmt.Errorf("%d bytes are no record", len(b))
	}
	key := b[10 : 10+binary.BigEndian.Uint16(b[8:])]
	r.Time, r.Key, r.Value = int64(binary.BigEndian.Uint64(b)), key, b[10+len(key):]
	return nil
}

// offsetKey is an offset as the key of a store that sorts by bytes.
func offsetKey(offset int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(offset)) }

func offsetOf(key []byte) (int64, error) {
	if len(key) != 8 {
		return 0, fmt.Errorf("key of %d bytes", len(key))
	}
	return int64(binary.BigEndian.Uint64(key)), nil
}

// scanByGet is a Scan where single records can be read only.
func scanByGet(l work.Log, from int64, f func(*work.Record) error) error {
	first, next, err := l.Bounds()
	if err != nil {
		return err
	}
	reader := l.(work.Getter).Reader()
	var r work.Record
	for offset := max(first, from); offset < next; offset++ {
		if err := reader.Get(offset, &r); err != nil {
			return err
		}
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

// bisect finds the first record at or after a time in a store that has no index of
// times, as its user would: the times of this benchmark never go back.
func bisect(l work.Log, time int64) (offset, at int64, err error) {
	low, high, err := l.Bounds()
	if err != nil {
		return 0, 0, err
	}
	next := high
	reader := l.(work.Getter).Reader()
	var r work.Record
	for low < high {
		middle := (low + high) / 2
		if err := reader.Get(middle, &r); err != nil {
			return 0, 0, err
		}
		if r.Time < time {
			low = middle + 1
		} else {
			high, at = middle, r.Time
		}
	}
	if low == next {
		return 0, 0, errors.New("all records are older")
	}
	return low, at, nil
}

const bisected = "bisection over look-ups by offset: it keeps no index of times"

var errNotThere = errors.New("not there")
