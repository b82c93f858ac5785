package adapters

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/seglog/seglog/bench/peers/work"
)

var raftWALSpec = work.Spec{
	Name: "raft-wal", Module: "github.com/hashicorp/raft-wal", Segments: true,
	How: "default options (preallocated segments of 64 MiB, its bbolt meta store); the time is AppendedAt, the key in Extensions. " +
		"It cannot be told not to sync: where nothing waits for the disk it has a file layer whose Sync does nothing",
	Open:  openRaftWAL,
	Lacks: map[string]string{"follow": "cannot wait for a record"},
	Notes: map[string]string{"time": bisected, "sync-16": "one writer at a time, as raft has it: no group commit",
		"get": "checks no bytes", "scan": "by a get for each record: there is nothing else"},
}

// raftWAL counts records from 1, and its callers do the counting.
type raftWAL struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
	mu   sync.Mutex
	next uint64
	logs []raft.Log
	list []*raft.Log
}

func openRaftWAL(dir string, o work.Options) (work.Log, error) {
	// Its Close leaves the meta store open and locked, so it is given one that is closed
	// here.
	meta := &metadb.BoltMetaDB{}
	logger := wal.WithLogger(hclog.New(&hclog.LoggerOptions{Output: io.Discard}))
	size := wal.DefaultSegmentSize
	if o.SegmentBytes > 0 && (o.Exactly || o.SegmentBytes < int64(size)) {
		size = int(o.SegmentBytes)
	}
	var files types.VFS = fs.New()
	if !o.Sync {
		files = unsynced{files}
	}
	l, err := wal.Open(dir, wal.WithMetaStore(meta), logger, wal.WithSegmentSize(size), wal.WithSegmentFiler(segment.NewFiler(dir, files)))
	if err != nil {
		return nil, errors.Join(err, meta.Close())
	}
	last, err := l.LastIndex()
	return &raftWAL{WAL: l, meta: meta, next: last + 1}, err
}

// unsynced is a file layer that does not wait for the disk.
type unsynced struct{ types.VFS }

func (u unsynced) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := u.VFS.Create(dir, name, size)
	return unsyncedFile{f}, err
}

func (u unsynced) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := u.VFS.OpenWriter(dir, name)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ types.WritableFile }

func (unsyncedFile) Sync() error { return nil }

func (l *raftWAL) Append(records []work.Record) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.logs) < len(records) {
		l.logs = append(l.logs, make([]raft.Log, len(records)-len(l.logs))...)
	}
	l.list = l.list[:0]
	for i := range records {
		r, into := &records[i], &l.logs[i]
		into.Index, into.Term, into.Data, into.Extensions, into.AppendedAt = l.next+uint64(i), 1, r.Value, r.Key, time.UnixMilli(r.Time)
		l.list = append(l.list, into)
	}
	if err := l.StoreLogs(l.list); err != nil {
		return 0, err
	}
	base := int64(l.next) - 1
	l.next += uint64(len(records))
	return base, nil
}

func (l *raftWAL) Bounds() (first, next int64, err error) {
	f, err := l.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	last, err := l.LastIndex()
	return max(0, int64(f)-1), int64(last), err
}

func (l *raftWAL) Reader() work.Reader { return &raftReader{wal: l.WAL} }

type raftReader struct {
	wal   *wal.WAL
	entry raft.Log
}

func (r *raftReader) Get(offset int64, into *work.Record) error {
	if err := r.wal.GetLog(uint64(offset)+1, &r.entry); err != nil {
		return err
	}
	e := &r.entry
	into.Offset, into.Time, into.Key, into.Value = int64(e.Index)-1, e.AppendedAt.UnixMilli(), e.Extensions, e.Data
	return nil
}

func (l *raftWAL) Scan(from int64, f func(*work.Record) error) error { return scanByGet(l, from, f) }

func (l *raftWAL) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

func (l *raftWAL) DropBefore(offset int64) error {
	first, err := l.FirstIndex()
	if err != nil {
		return err
	}
	return l.DeleteRange(first, uint64(offset))
}

func (l *raftWAL) Close() error { return errors.Join(l.WAL.Close(), l.meta.Close()) }
