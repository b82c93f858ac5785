package adapters

import (
	"sync"

	"github.com/tidwall/wal"

	"github.com/seglog/seglog/bench/peers/work"
)

// tidwallSpec has the default options: segments of 20 MB, two of them cached, binary
// format. NoSync where nothing waits for the disk.
var tidwallSpec = work.Spec{
	Name: "tidwall/wal", Module: "github.com/tidwall/wal", Segments: true,
	How: "default options (segments of 20 MB, of which two are cached), NoSync where nothing waits for the disk; " +
		"time and key go in front of the value",
	Open: openTidwall,
	Lacks: map[string]string{
		"follow": "cannot wait for a record",
		// Read fills a cache under a read lock (tidwall/wal issue 34), so two of them at once
		// may give wrong bytes or panic.
		"get-1-2": "concurrent reads of cold segments are a race (tidwall/wal#34)", "get-100-2": "concurrent reads of cold segments are a race (tidwall/wal#34)",
	},
	Notes: map[string]string{"time": bisected},
}

// tidwallLog counts records from 1, and its callers do the counting.
type tidwallLog struct {
	*wal.Log
	mu    sync.Mutex
	next  uint64
	batch wal.Batch
	buf   []byte
}

func openTidwall(dir string, o work.Options) (work.Log, error) {
	options := *wal.DefaultOptions
	options.NoSync = !o.Sync
	if o.Exactly || o.SegmentBytes < int64(options.SegmentSize) {
		options.SegmentSize = int(o.SegmentBytes) // 0 is the default
	}
	l, err := wal.Open(dir, &options)
	if err != nil {
		return nil, err
	}
	last, err := l.LastIndex()
	return &tidwallLog{Log: l, next: last + 1}, err
}

func (l *tidwallLog) Append(records []work.Record) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.next
	if len(records) == 1 {
		l.buf = appendRecord(l.buf[:0], &records[0])
		if err := l.Write(base, l.buf); err != nil {
			return 0, err
		}
		l.next++
		return int64(base) - 1, nil
	}
	for i := range records {
		l.buf = appendRecord(l.buf[:0], &records[i])
		l.batch.Write(base+uint64(i), l.buf)
	}
	if err := l.WriteBatch(&l.batch); err != nil { // which clears it
		return 0, err
	}
	l.next += uint64(len(records))
	return int64(base) - 1, nil
}

func (l *tidwallLog) Bounds() (first, next int64, err error) {
	f, err := l.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	last, err := l.LastIndex()
	return max(0, int64(f)-1), int64(last), err
}

func (l *tidwallLog) Reader() work.Reader { return l }

func (l *tidwallLog) Get(offset int64, r *work.Record) error {
	b, err := l.Read(uint64(offset) + 1)
	if err != nil {
		return err
	}
	r.Offset = offset
	return decodeRecord(b, r)
}

func (l *tidwallLog) Scan(from int64, f func(*work.Record) error) error { return scanByGet(l, from, f) }

func (l *tidwallLog) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

func (l *tidwallLog) DropBefore(offset int64) error { return l.TruncateFront(uint64(offset) + 1) }
