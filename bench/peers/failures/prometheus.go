//go:build unix

package failures

import (
	"errors"
	"log/slog"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
)

var prometheusPeer = peer{
	name: "prometheus wlog", version: "github.com/prometheus/prometheus", data: "0*",
	open: func(dir string) (log, error) {
		w, err := wlog.New(slog.New(slog.DiscardHandler), nil, dir, compression.None)
		if err != nil {
			return nil, err
		}
		return prometheusLog{w, dir}, nil
	},
	repair: func(dir string) error {
		w, err := wlog.New(slog.New(slog.DiscardHandler), nil, dir, compression.None)
		if err != nil {
			return err
		}
		l := prometheusLog{w, dir}
		_, err = l.all()
		return errors.Join(w.Repair(err), l.Close())
	},
}

// prometheusLog is read from its first record on, there is no other way; it begins
// a new segment each time it is opened.
type prometheusLog struct {
	*wlog.WL
	dir string
}

func (l prometheusLog) append(values ...string) error {
	var batch [][]byte
	for _, v := range values {
		batch = append(batch, []byte(v))
	}
	if err := l.Log(batch...); err != nil {
		return err
	}
	return l.Sync()
}

func (l prometheusLog) all() (values []string, err error) {
	segments, err := wlog.NewSegmentsReader(l.dir)
	if err != nil {
		return nil, err
	}
	defer segments.Close()
	r := wlog.NewReader(segments)
	for r.Next() {
		values = append(values, string(r.Record()))
	}
	return values, r.Err()
}

// size counts one more if reading ends with an error: what is behind is not told.
func (l prometheusLog) size() int {
	values, err := l.all()
	if err != nil {
		return len(values) + 1
	}
	return len(values)
}

func (l prometheusLog) get(i int) (string, error) {
	values, err := l.all()
	if i < len(values) {
		return values[i], nil
	}
	return "", err
}

func (l prometheusLog) close() error { return l.Close() }
