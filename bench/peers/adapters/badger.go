package adapters

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/seglog/seglog/bench/peers/work"
)

var badgerSpec = work.Spec{
	Name: "badger", Module: "github.com/dgraph-io/badger/v4",
	How: "default options without the logger and, since no key is written twice by two, without conflict detection; SyncWrites where " +
		"appends wait for the disk; one transaction per append, offsets are the keys",
	Open: openBadger, OpenKeys: openBadgerKeys,
	Lacks: map[string]string{"follow": "Subscribe tells of changes from some moment on, there is no position to go on from"},
	Notes: map[string]string{"time": bisected, "get": "does not check blocks by default", "scan": "does not check blocks by default", "drop": "a tombstone for each record, and then Flatten",
		"compact": "keeps no log: Flatten, which does nothing where it finds one level"},
}

func openBadgerDB(dir string, sync bool) (*badger.DB, error) {
	return badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithDetectConflicts(false).WithSyncWrites(sync))
}

type badgerLog struct {
	*badger.DB
	next atomic.Int64
}

func openBadger(dir string, o work.Options) (work.Log, error) {
	db, err := openBadgerDB(dir, o.Sync)
	if err != nil {
		return nil, err
	}
	l := &badgerLog{DB: db}
	_, next, err := l.ends()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l.next.Store(next)
	return l, nil
}

// ends looks for the first key and the one behind the last.
func (l *badgerLog) ends() (first, next int64, err error) {
	err = l.View(func(txn *badger.Txn) error {
		at := func(o badger.IteratorOptions) (int64, bool, error) {
			o.PrefetchValues = false
			it := txn.NewIterator(o)
			defer it.Close()
			if it.Rewind(); !it.Valid() {
				return 0, false, nil
			}
			offset, err := offsetOf(it.Item().Key())
			return offset, true, err
		}
		last, found, err := at(badger.IteratorOptions{Reverse: true})
		if err != nil || !found {
			return err
		}
		next = last + 1
		first, _, err = at(badger.IteratorOptions{})
		return err
	})
	return first, next, err
}

func (l *badgerLog) Append(records []work.Record) (int64, error) {
	base := l.next.Add(int64(len(records))) - int64(len(records))
	return base, l.Update(func(txn *badger.Txn) error {
		size := 0
		for i := range records {
			size += encodedSize(&records[i])
		}
		memory := make([]byte, 0, size) // badger wants it until it has committed
		for i := range records {
			at := len(memory)
			memory = appendRecord(memory, &records[i])
			if err := txn.Set(offsetKey(base+int64(i)), memory[at:]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *badgerLog) Bounds() (first, next int64, err error) {
	first, _, err = l.ends()
	next = l.next.Load()
	return first, next, err
}

func (l *badgerLog) Reader() work.Reader { return &badgerReader{db: l.DB} }

type badgerReader struct {
	db  *badger.DB
	buf []byte
}

func (r *badgerReader) Get(offset int64, into *work.Record) error {
	err := r.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(offsetKey(offset))
		if err == nil {
			r.buf, err = item.ValueCopy(r.buf)
		}
		return err
	})
	if err != nil {
		return err
	}
	into.Offset = offset
	return decodeRecord(r.buf, into)
}

func (l *badgerLog) Scan(from int64, f func(*work.Record) error) error {
	return eachBadger(l.DB, offsetKey(from), func(key []byte, r *work.Record) error {
		var err error
		if r.Offset, err = offsetOf(key); err != nil {
			return err
		}
		return f(r)
	})
}

// eachBadger iterates as its documentation has it.
func eachBadger(db *badger.DB, from []byte, f func(key []byte, r *work.Record) error) error {
	return db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		var r work.Record
		for it.Seek(from); it.Valid(); it.Next() {
			err := it.Item().Value(func(b []byte) error {
				if err := decodeRecord(b, &r); err != nil {
					return err
				}
				return f(it.Item().Key(), &r)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *badgerLog) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

func (l *badgerLog) DropBefore(offset int64) error {
	first, _, err := l.ends()
	if err != nil {
		return err
	}
	batch := l.NewWriteBatch()
	defer batch.Cancel()
	for ; first < offset; first++ {
		if err := batch.Delete(offsetKey(first)); err != nil {
			return err
		}
	}
	return batch.Flush()
}

func (l *badgerLog) Free() error { return l.Flatten(runtime.NumCPU()) }

// badgerKeys has records under their own keys.
type badgerKeys struct{ *badger.DB }

func openBadgerKeys(dir string) (work.KeyStore, error) {
	db, err := openBadgerDB(dir, false)
	return badgerKeys{db}, err
}

func (s badgerKeys) Put(records []work.Record) error {
	return s.Update(func(txn *badger.Txn) error {
		for i := range records {
			r := records[i]
			key := append([]byte(nil), r.Key...)
			r.Key = nil
			if err := txn.Set(key, appendRecord(nil, &r)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerKeys) Settle() error { return nil } // Close writes what is in memory

func (s badgerKeys) Compact() error { return s.Flatten(runtime.NumCPU()) }

func (s badgerKeys) Rest(f func(*work.Record) error) error {
	return eachBadger(s.DB, nil, func(key []byte, r *work.Record) error {
		r.Key = key
		return f(r)
	})
}
