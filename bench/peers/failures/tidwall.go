//go:build unix

package failures

import "github.com/tidwall/wal"

var tidwallPeer = peer{
	name: "tidwall/wal", version: "github.com/tidwall/wal", data: "*[0-9]",
	open: func(dir string) (log, error) {
		options := *wal.DefaultOptions
		l, err := wal.Open(dir, &options)
		if err != nil {
			return nil, err
		}
		return tidwallLog{l}, nil
	},
}

// tidwallLog counts records from 1.
type tidwallLog struct{ *wal.Log }

func (l tidwallLog) append(values ...string) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	var batch wal.Batch
	for i, v := range values {
		batch.Write(last+1+uint64(i), []byte(v))
	}
	return l.WriteBatch(&batch)
}

func (l tidwallLog) size() int {
	last, err := l.LastIndex()
	if err != nil {
		return 0
	}
	return int(last)
}

func (l tidwallLog) get(i int) (string, error) {
	b, err := l.Read(uint64(i) + 1)
	return string(b), err
}

func (l tidwallLog) close() error { return l.Close() }
