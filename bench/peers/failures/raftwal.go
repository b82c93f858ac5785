//go:build unix

package failures

import (
	"errors"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

var raftWALPeer = peer{
	name: "hashicorp/raft-wal", version: "github.com/hashicorp/raft-wal", data: "*.wal",
	open: func(dir string) (log, error) {
		meta := &metadb.BoltMetaDB{}
		l, err := wal.Open(dir, wal.WithMetaStore(meta))
		if err != nil {
			return nil, errors.Join(err, meta.Close())
		}
		return raftWAL{l, meta}, nil
	},
}

// raftWAL counts records from 1. Its Close leaves the store of its metadata open and
// locked, so that this process could not open it again.
type raftWAL struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

func (l raftWAL) append(values ...string) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	var batch []*raft.Log
	for i, v := range values {
		batch = append(batch, &raft.Log{Index: last + 1 + uint64(i), Term: 1, Data: []byte(v)})
	}
	return l.StoreLogs(batch)
}

func (l raftWAL) size() int {
	last, err := l.LastIndex()
	if err != nil {
		return 0
	}
	return int(last)
}

func (l raftWAL) get(i int) (string, error) {
	var entry raft.Log
	err := l.GetLog(uint64(i)+1, &entry)
	return string(entry.Data), err
}

func (l raftWAL) close() error { return errors.Join(l.Close(), l.meta.Close()) }
