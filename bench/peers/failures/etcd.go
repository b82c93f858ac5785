//go:build unix

package failures

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

var etcdPeer = peer{
	name: "etcd wal", version: "go.etcd.io/etcd/server/v3", data: "wal/*.wal",
	open: openEtcd,
	repair: func(dir string) error {
		if !wal.Repair(zap.NewNop(), dir+"/wal") {
			return errors.New("refused")
		}
		return nil
	},
}

// etcdLog is read as a whole when it is opened; there is no other way to read it.
type etcdLog struct {
	wal     *wal.WAL
	entries []*raftpb.Entry
}

func openEtcd(dir string) (log, error) {
	dir += "/wal"
	if !wal.Exist(dir) {
		w, err := wal.Create(zap.NewNop(), dir, nil)
		if err != nil {
			return nil, err
		}
		return &etcdLog{wal: w}, nil
	}
	w, err := wal.Open(zap.NewNop(), dir, &walpb.Snapshot{})
	if err != nil {
		return nil, err
	}
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &etcdLog{w, entries}, nil
}

func (l *etcdLog) append(values ...string) error {
	var batch []*raftpb.Entry
	term := uint64(1)
	for i, v := range values {
		index := uint64(len(l.entries) + 1 + i)
		batch = append(batch, &raftpb.Entry{Term: &term, Index: &index, Data: []byte(v)})
	}
	if err := l.wal.Save(nil, batch); err != nil {
		return err
	}
	l.entries = append(l.entries, batch...)
	return nil
}

func (l *etcdLog) size() int { return len(l.entries) }

func (l *etcdLog) get(i int) (string, error) {
	if got := l.entries[i].GetIndex(); got != uint64(i+1) {
		return "", fmt.Errorf("entry %d has index %d", i, got)
	}
	return string(l.entries[i].GetData()), nil
}

func (l *etcdLog) close() error { return l.wal.Close() }
