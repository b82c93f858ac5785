package adapters

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/seglog/seglog/bench/peers/work"
)

// bboltSpec is set up as etcd and Consul do: no free list on disk, kept as a map. Records
// lie under their offsets in one bucket; the pages are filled to the end, as the
// documentation advises for keys in order.
var bboltSpec = work.Spec{
	Name: "bbolt", Module: "go.etcd.io/bbolt",
	How: "NoFreelistSync and the map free list, as etcd uses it; FillPercent 1 since keys come in order. One transaction " +
		"per append: Update, and Batch where several append at once, with MaxBatchSize set to their number, so that " +
		"none waits for the 10 ms of MaxBatchDelay. NoSync where nothing waits for the disk",
	Open: openBbolt, OpenOffsets: openBboltOffsets,
	Lacks: map[string]string{
		"follow": "cannot wait for a record",
	},
	Notes: map[string]string{"time": bisected, "scan": "hands out bytes of its mapping, and checks none",
		"get": "checks no bytes", "drop": "the file keeps its size; pages are used again"},
}

var bboltBucket = []byte("log")

type bboltLog struct {
	*bbolt.DB
	change func(func(*bbolt.Tx) error) error
}

func openBboltFile(dir string, sync bool, writers int) (*bbolt.DB, func(func(*bbolt.Tx) error) error, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bbolt.Options{
		NoSync: !sync, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, nil, err
	}
	change := db.Update
	if writers > 1 {
		change = db.Batch
		db.MaxBatchSize = writers
	}
	return db, change, nil
}

func openBbolt(dir string, o work.Options) (work.Log, error) {
	db, change, err := openBboltFile(dir, o.Sync, o.Writers)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bboltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bboltLog{DB: db, change: change}, nil
}

func (l *bboltLog) Append(records []work.Record) (int64, error) {
	base := int64(0)
	err := l.change(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bboltBucket)
		b.FillPercent = 1
		size := 0
		for i := range records {
			size += 8 + encodedSize(&records[i])
		}
		memory := make([]byte, 0, size) // bbolt wants it until the transaction ends
		base = int64(b.Sequence())
		for i := range records {
			n, err := b.NextSequence()
			if err != nil {
				return err
			}
			at := len(memory)
			memory = binary.BigEndian.AppendUint64(memory, n-1)
			memory = appendRecord(memory, &records[i])
			if err := b.Put(memory[at:at+8], memory[at+8:]); err != nil {
				return err
			}
		}
		return nil
	})
	return base, err
}

func (l *bboltLog) Bounds() (first, next int64, err error) {
	err = l.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bboltBucket)
		next = int64(b.Sequence())
		first = next
		if key, _ := b.Cursor().First(); key != nil {
			first, err = offsetOf(key)
		}
		return err
	})
	return first, next, err
}

func (l *bboltLog) Reader() work.Reader { return &bboltReader{db: l.DB} }

type bboltReader struct {
	db  *bbolt.DB
	buf []byte
}

func (r *bboltReader) Get(offset int64, into *work.Record) error {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], uint64(offset))
	err := r.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bboltBucket).Get(key[:])
		if b == nil {
			return errNotThere
		}
		r.buf = append(r.buf[:0], b...) // valid in the transaction only
		return nil
	})
	if err != nil {
		return err
	}
	into.Offset = offset
	return decodeRecord(r.buf, into)
}

func (l *bboltLog) Scan(from int64, f func(*work.Record) error) error {
	return l.View(func(tx *bbolt.Tx) error {
		var r work.Record
		c := tx.Bucket(bboltBucket).Cursor()
		for key, value := c.Seek(offsetKey(from)); key != nil; key, value = c.Next() {
			var err error
			if r.Offset, err = offsetOf(key); err != nil {
				return err
			}
			if err := decodeRecord(value, &r); err != nil {
				return err
			}
			if err := f(&r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *bboltLog) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

// DropBefore deletes in transactions of 10,000 records, lest one of them holds all pages
// in memory.
func (l *bboltLog) DropBefore(offset int64) error {
	for done := false; !done; {
		err := l.Update(func(tx *bbolt.Tx) error {
			c := tx.Bucket(bboltBucket).Cursor()
			key, _ := c.First()
			for range 10_000 {
				if key == nil {
					done = true
					return nil
				}
				at, err := offsetOf(key)
				if err != nil {
					return err
				}
				if done = at >= offset; done {
					return nil
				}
				if err := c.Delete(); err != nil {
					return err
				}
				key, _ = c.Seek(offsetKey(at + 1))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bboltOffsets keeps an offset under the name of its group and partition.
type bboltOffsets struct {
	*bbolt.DB
	change func(func(*bbolt.Tx) error) error
}

func openBboltOffsets(dir string, writers int) (work.OffsetStore, error) {
	db, change, err := openBboltFile(dir, true, writers)
	if err != nil {
		return nil, err
	}
	return bboltOffsets{db, change}, nil
}

func (s bboltOffsets) Commit(group string, offset int64) error {
	return s.change(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("offsets"))
		if err != nil {
			return err
		}
		return b.Put([]byte(group+"/orders/0"), offsetKey(offset))
	})
}

func (s bboltOffsets) Committed(group string) (offset int64, err error) {
	err = s.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("offsets")); b != nil {
			if v := b.Get([]byte(group + "/orders/0")); v != nil {
				offset, err = offsetOf(v)
				return err
			}
		}
		return errNotThere
	})
	return offset, err
}
