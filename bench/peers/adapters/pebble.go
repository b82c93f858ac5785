package adapters

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seglog/seglog/bench/peers/work"
)

var pebbleSpec = work.Spec{
	Name: "pebble", Module: "github.com/cockroachdb/pebble/v2",
	How: "memtables of 64 MiB, a block cache of 128 MiB, L0CompactionThreshold 2 and L0StopWritesThreshold 1000, blocks of 32 KiB, the newest " +
		"format, as CockroachDB sets it up; Sync or NoSync per append; one batch per append, offsets are the keys",
	Open: openPebble, OpenKeys: openPebbleKeys,
	Lacks: map[string]string{"follow": "cannot wait for a record"},
	Notes: map[string]string{"fill": "its write-ahead logs are allocated ahead, and kept to be used again", "time": bisected,
		"append":  "NoSync acknowledges before the data is written to a file: a kill loses it",
		"drop":    "DeleteRange, synced, and then a compaction of that range",
		"compact": "keeps no log: its manual compaction of the whole key range"},
}

func openPebbleDB(dir string) (*pebble.DB, error) {
	o := &pebble.Options{
		CacheSize: 128 << 20, MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 2, L0StopWritesThreshold: 1000, LBaseMaxBytes: 64 << 20,
		FormatMajorVersion: pebble.FormatNewest, Logger: silent{},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 32 << 10
	}
	return pebble.Open(dir, o)
}

// silent is a logger of pebble's that says nothing, but ends the process where pebble
// has to.
type silent struct{}

func (silent) Infof(string, ...any)      {}
func (silent) Errorf(string, ...any)     {}
func (silent) Fatalf(f string, a ...any) { pebble.DefaultLogger.Fatalf(f, a...) }

type pebbleLog struct {
	*pebble.DB
	next    atomic.Int64
	write   *pebble.WriteOptions
	dropped int64
}

func openPebble(dir string, o work.Options) (work.Log, error) {
	db, err := openPebbleDB(dir)
	if err != nil {
		return nil, err
	}
	l := &pebbleLog{DB: db, write: pebble.NoSync}
	if o.Sync {
		l.write = pebble.Sync
	}
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if it.Last() {
		last, err := offsetOf(it.Key())
		if err != nil {
			return nil, errors.Join(err, it.Close(), db.Close())
		}
		l.next.Store(last + 1)
	}
	return l, it.Close()
}

func (l *pebbleLog) Append(records []work.Record) (int64, error) {
	base := l.next.Add(int64(len(records))) - int64(len(records))
	batch := l.NewBatch()
	for i := range records {
		r := &records[i]
		op := batch.SetDeferred(8, encodedSize(r))
		binary.BigEndian.PutUint64(op.Key, uint64(base)+uint64(i))
		appendRecord(op.Value[:0], r)
		if err := op.Finish(); err != nil {
			return 0, err
		}
	}
	return base, errors.Join(batch.Commit(l.write), batch.Close())
}

func (l *pebbleLog) Bounds() (first, next int64, err error) {
	it, err := l.NewIter(nil)
	if err != nil {
		return 0, 0, err
	}
	next = l.next.Load()
	first = next
	if it.First() {
		first, err = offsetOf(it.Key())
	}
	return first, next, errors.Join(err, it.Close())
}

func (l *pebbleLog) Reader() work.Reader { return &pebbleReader{db: l.DB} }

type pebbleReader struct {
	db  *pebble.DB
	key [8]byte
	buf []byte
}

func (r *pebbleReader) Get(offset int64, into *work.Record) error {
	binary.BigEndian.PutUint64(r.key[:], uint64(offset))
	b, closer, err := r.db.Get(r.key[:])
	if err != nil {
		return err
	}
	r.buf = append(r.buf[:0], b...) // valid until it is closed
	if err := closer.Close(); err != nil {
		return err
	}
	into.Offset = offset
	return decodeRecord(r.buf, into)
}

func (l *pebbleLog) Scan(from int64, f func(*work.Record) error) error {
	it, err := l.NewIter(&pebble.IterOptions{LowerBound: offsetKey(from)})
	if err != nil {
		return err
	}
	var r work.Record
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if r.Offset, err = offsetOf(it.Key()); err != nil {
			break
		}
		if err = decodeRecord(it.Value(), &r); err != nil {
			break
		}
		if err = f(&r); err != nil {
			break
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

func (l *pebbleLog) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

func (l *pebbleLog) DropBefore(offset int64) error {
	l.dropped = offset
	return l.DeleteRange(offsetKey(0), offsetKey(offset), pebble.Sync)
}

func (l *pebbleLog) Free() error {
	return l.DB.Compact(context.Background(), offsetKey(0), offsetKey(l.dropped), true)
}

// pebbleKeys has records under their own keys.
type pebbleKeys struct{ *pebble.DB }

func openPebbleKeys(dir string) (work.KeyStore, error) {
	db, err := openPebbleDB(dir)
	return pebbleKeys{db}, err
}

func (s pebbleKeys) Put(records []work.Record) error {
	batch := s.NewBatch()
	for i := range records {
		r := records[i]
		key := r.Key
		r.Key = nil
		op := batch.SetDeferred(len(key), encodedSize(&r))
		copy(op.Key, key)
		appendRecord(op.Value[:0], &r)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	return errors.Join(batch.Commit(pebble.NoSync), batch.Close())
}

func (s pebbleKeys) Settle() error { return s.Flush() }

func (s pebbleKeys) Compact() error {
	return s.DB.Compact(context.Background(), []byte{0}, bytes.Repeat([]byte{0xff}, work.KeyBytes+1), true)
}

func (s pebbleKeys) Rest(f func(*work.Record) error) error {
	it, err := s.NewIter(nil)
	if err != nil {
		return err
	}
	var r work.Record
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if err = decodeRecord(it.Value(), &r); err != nil {
			break
		}
		r.Key = it.Key()
		err = f(&r)
	}
	return errors.Join(err, it.Error(), it.Close())
}
