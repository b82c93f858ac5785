package adapters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/seglog/seglog/bench/peers/work"
)

var etcdSpec = work.Spec{
	Name: "etcd wal", Module: "go.etcd.io/etcd/server/v3",
	How: "as etcd has it: preallocated segments of 64 MB, one Save per append, under its lock; SetUnsafeNoFsync (etcd --unsafe-no-fsync) " +
		"where nothing waits for the disk; time and key go in front of the value",
	Open: openEtcd,
	Lacks: map[string]string{
		"get":    "is read as a whole only, by ReadAll",
		"time":   "is read as a whole only, by ReadAll",
		"follow": "cannot wait for a record",
	},
	Notes: map[string]string{"scan": "with the opening, there is no other way to read it", "open": "reads all there is",
		"sync-16": "one writer at a time: no group commit",
		"drop":    "SaveSnapshot, ReleaseLockTo, and the removal of the files below, which etcd's server does by itself"},
}

// etcdLog counts records from 1, and its callers do the counting.
type etcdLog struct {
	wal         *wal.WAL
	dir         string
	first, next uint64

	mu      sync.Mutex
	entries []raftpb.Entry
	list    []*raftpb.Entry
	bufs    [][]byte
}

var etcdTerm = uint64(1)

func openEtcd(dir string, o work.Options) (work.Log, error) {
	l := &etcdLog{dir: filepath.Join(dir, "wal")}
	var err error
	if !wal.Exist(l.dir) {
		l.first, l.next = 1, 1
		l.wal, err = wal.Create(zap.NewNop(), l.dir, nil)
	} else {
		err = l.open()
	}
	if err != nil {
		return nil, err
	}
	if !o.Sync {
		l.wal.SetUnsafeNoFsync()
	}
	return l, nil
}

// open reads all there is, which has to be done before an append. A log that does not
// open for a torn end is repaired, as etcd's server does.
func (l *etcdLog) open() error {
	for repaired := false; ; repaired = true {
		w, entries, err := l.read(wal.Open)
		if err == nil {
			l.wal = w
			l.first = l.snapshot().GetIndex() + 1
			l.next = l.first + uint64(len(entries))
			return nil
		}
		if repaired || !wal.Repair(zap.NewNop(), l.dir) {
			return err
		}
	}
}

func (l *etcdLog) read(open func(*zap.Logger, string, *walpb.Snapshot) (*wal.WAL, error)) (*wal.WAL, []*raftpb.Entry, error) {
	w, err := open(zap.NewNop(), l.dir, l.snapshot())
	if err != nil {
		return nil, nil, err
	}
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, entries, nil
}

// snapshot is where the log begins, which etcd knows from the name of a snapshot file.
func (l *etcdLog) snapshot() *walpb.Snapshot {
	b, err := os.ReadFile(l.dir + ".snapshot")
	if err != nil || len(b) != 8 {
		return &walpb.Snapshot{}
	}
	index := binary.BigEndian.Uint64(b)
	return &walpb.Snapshot{Index: &index, Term: &etcdTerm}
}

func (l *etcdLog) Append(records []work.Record) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if more := len(records) - len(l.bufs); more > 0 {
		l.entries = make([]raftpb.Entry, len(records))
		l.bufs = append(l.bufs, make([][]byte, more)...)
	}
	l.list = l.list[:0]
	for i := range records {
		l.bufs[i] = appendRecord(l.bufs[i][:0], &records[i])
		index := l.next + uint64(i)
		e := &l.entries[i]
		e.Term, e.Index, e.Data = &etcdTerm, &index, l.bufs[i]
		l.list = append(l.list, e)
	}
	if err := l.wal.Save(nil, l.list); err != nil {
		return 0, err
	}
	base := int64(l.next) - 1
	l.next += uint64(len(records))
	return base, nil
}

func (l *etcdLog) Bounds() (first, next int64, err error) {
	return int64(l.first) - 1, int64(l.next) - 1, nil
}

func (l *etcdLog) Scan(from int64, f func(*work.Record) error) error {
	// What was opened for reading is closed when it has been read.
	_, entries, err := l.read(wal.OpenForRead)
	if err != nil {
		return err
	}
	var r work.Record
	for _, e := range entries {
		if r.Offset = int64(e.GetIndex()) - 1; r.Offset < from {
			continue
		}
		if err := decodeRecord(e.GetData(), &r); err != nil {
			return err
		}
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

func (l *etcdLog) DropBefore(offset int64) error {
	index := uint64(offset)
	if err := os.WriteFile(l.dir+".snapshot", offsetKey(offset), 0o644); err != nil {
		return err
	}
	if err := l.wal.SaveSnapshot(&walpb.Snapshot{Index: &index, Term: &etcdTerm, ConfState: &raftpb.ConfState{}}); err != nil {
		return err
	}
	if err := l.wal.ReleaseLockTo(index); err != nil {
		return err
	}
	l.first = index + 1
	names, err := filepath.Glob(filepath.Join(l.dir, "*.wal"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for i := 0; i+1 < len(names); i++ {
		var sequence, begins uint64
		if _, err := fmt.Sscanf(filepath.Base(names[i+1]), "%016x-%016x.wal", &sequence, &begins); err != nil {
			return err
		}
		if begins >= index {
			break
		}
		if err := os.Remove(names[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *etcdLog) Close() error { return l.wal.Close() }
