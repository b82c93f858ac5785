//go:build unix

package failures

import (
	"context"

	"github.com/seglog/seglog"
)

// An index entry for every batch, so that there is something to lose.
var seglogPeer = peer{
	name: "seglog", version: "github.com/seglog/seglog",
	data: "*.log", index: map[string]int{"*.index": 8, "*.timeindex": 12},
	open: func(dir string) (log, error) {
		l, err := seglog.Open(dir, seglog.Options{IndexIntervalBytes: 1})
		if err != nil {
			return nil, err
		}
		return seglogLog{l}, nil
	},
}

type seglogLog struct{ *seglog.Log }

func (l seglogLog) append(values ...string) error {
	batch := make([]seglog.Record, len(values))
	for i, v := range values {
		batch[i].Value = []byte(v)
	}
	_, err := l.Append(batch, nil)
	return err
}

func (l seglogLog) size() int { return int(l.Offsets().End) }

func (l seglogLog) get(i int) (string, error) {
	r, err := l.Get(int64(i))
	if err != nil {
		return "", err
	}
	for again, err := range l.Records(context.Background(), int64(i), &seglog.IterOptions{To: int64(i) + 1}) {
		if err != nil {
			return "", err
		}
		if string(again.Value) != string(r.Value) {
			return "found two ways, and two values", nil
		}
	}
	return string(r.Value), nil
}

func (l seglogLog) close() error { return l.Close() }
