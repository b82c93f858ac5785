package adapters

import (
	"context"
	"errors"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"

	"github.com/seglog/seglog/bench/peers/work"
)

// The default options, but for the size of segments in logs that are cut in half, which
// takes more than one, and for Sync.
var seglogSpec = work.Spec{
	Name: "seglog", Segments: true,
	How: "default options: segments of 1 GiB (64 MiB in the logs that are made to be read and cut, of which half is dropped), " +
		"checksums on; SyncNever where nothing waits for the disk, SyncAlways where it does",
	Open:     func(dir string, o work.Options) (work.Log, error) { return openSeglog(dir, o, seglog.Options{}) },
	OpenKeys: openSeglogKeys, OpenOffsets: openSeglogOffsets,
}

// The mode that reads and writes log files by system calls alone: less memory is shared
// with the files, and all is slower.
var seglogCallsSpec = work.Spec{
	Name: "seglog, calls", Of: "seglog", Segments: true,
	How: "as seglog, with AheadBytes and LookupBytes below 0: no log file is mapped, appends are written and records read by system calls",
	Open: func(dir string, o work.Options) (work.Log, error) {
		return openSeglog(dir, o, seglog.Options{AheadBytes: -1, LookupBytes: -1})
	},
}

func openSeglog(dir string, o work.Options, opts seglog.Options) (*seglogLog, error) {
	opts.Sync = seglog.SyncNever
	if o.Sync {
		opts.Sync = seglog.SyncAlways
	}
	opts.SegmentBytes = o.SegmentBytes
	if o.Compacted {
		opts.CleanupPolicy = seglog.CleanupCompact
	}
	l, err := seglog.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	return &seglogLog{Log: l, shared: o.Writers > 1}, nil
}

type seglogLog struct {
	*seglog.Log
	shared bool            // by several writers
	list   []seglog.Record // of the only one
}

func (l *seglogLog) Append(records []work.Record) (int64, error) {
	list := l.list[:0]
	if l.shared {
		list = make([]seglog.Record, 0, len(records))
	}
	for i := range records {
		r := &records[i]
		list = append(list, seglog.Record{Timestamp: r.Time, Key: r.Key, Value: r.Value})
	}
	if !l.shared {
		l.list = list
	}
	res, err := l.Log.Append(list, nil)
	return res.BaseOffset, err
}

func (l *seglogLog) Bounds() (first, next int64, err error) {
	o := l.Offsets()
	return o.Start, o.End, nil
}

func (l *seglogLog) Reader() work.Reader {
	return &seglogReader{log: l.Log, buf: make([]byte, 0, 4096)}
}

type seglogReader struct {
	log *seglog.Log
	buf []byte
}

func (r *seglogReader) Get(offset int64, into *work.Record) error {
	got, buf, err := r.log.GetBuffer(offset, r.buf)
	r.buf = buf
	fromSeglog(&got, into)
	return err
}

func fromSeglog(r *seglog.Record, into *work.Record) {
	into.Offset, into.Time, into.Key, into.Value = r.Offset, r.Timestamp, r.Key, r.Value
}

func (l *seglogLog) Scan(from int64, f func(*work.Record) error) error {
	return eachSeglog(context.Background(), l.Log, from, nil, f)
}

func eachSeglog(ctx context.Context, l *seglog.Log, from int64, o *seglog.IterOptions, f func(*work.Record) error) error {
	var r work.Record
	for got, err := range l.Records(ctx, from, o) {
		if err != nil {
			return err
		}
		fromSeglog(&got, &r)
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

func (l *seglogLog) FirstAt(time int64) (offset, at int64, err error) {
	found, ok, err := l.OffsetForTime(time)
	if err == nil && !ok {
		err = errors.New("all records are older")
	}
	return found.Offset, found.Timestamp, err
}

func (l *seglogLog) Follow(ctx context.Context, from int64, f func(*work.Record) error) error {
	err := eachSeglog(ctx, l.Log, from, &seglog.IterOptions{Follow: true}, f)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (l *seglogLog) DropBefore(offset int64) error { return l.DeleteBefore(offset) }

// Free waits until the files are gone, which DeleteBefore leaves to a goroutine.
func (l *seglogLog) Free() error { return l.DeleteBefore(l.Offsets().Start) }

// Clean cleans the whole log again, so that there is work for as long as one asks.
func (l *seglogLog) Clean(ctx context.Context) error {
	_, err := l.Compact(ctx, &seglog.CompactOptions{Full: true})
	return err
}

// seglogKeys is a compacted log of 64 MiB segments, the default memory for keys (128 MiB)
// and no limit of speed.
type seglogKeys struct{ *seglogLog }

func openSeglogKeys(dir string) (work.KeyStore, error) {
	l, err := openSeglog(dir, work.Options{Compacted: true, SegmentBytes: 64 << 20}, seglog.Options{})
	if err != nil {
		return nil, err
	}
	return seglogKeys{l}, nil
}

func (s seglogKeys) Put(records []work.Record) error {
	_, err := s.Append(records)
	return err
}

// Settle seals the last segment: the active one is never cleaned.
func (s seglogKeys) Settle() error {
	_, err := s.Roll()
	return err
}

func (s seglogKeys) Compact() error {
	_, err := s.Log.Compact(context.Background(), nil)
	return err
}

func (s seglogKeys) Rest(f func(*work.Record) error) error { return s.Scan(0, f) }

// seglogOffsets is an offsets store as a broker sets one up: 50 partitions, which share
// nothing but their Dir.
type seglogOffsets struct {
	dir   *seglog.Dir
	store *offsetslog.Store
}

func openSeglogOffsets(path string, _ int) (work.OffsetStore, error) {
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{}))
	if err != nil {
		return nil, err
	}
	store, err := offsetslog.Open(dir, offsetslog.Options{})
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return seglogOffsets{dir, store}, nil
}

func (s seglogOffsets) Commit(group string, offset int64) error {
	return s.store.Commit(context.Background(), offsetslog.CommitRequest{Group: group, Offsets: []offsetslog.Commit{
		{TopicPartition: offsetslog.TopicPartition{Topic: "orders"}, Offset: offset, LeaderEpoch: -1},
	}})
}

func (s seglogOffsets) Committed(group string) (int64, error) {
	list, err := s.store.Fetch(context.Background(), offsetslog.FetchRequest{Group: group})
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, errors.New("not one offset")
	}
	return list[0].Offset, nil
}

func (s seglogOffsets) Close() error { return errors.Join(s.store.Close(), s.dir.Close()) }
