package seglog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// abortedTxns makes transaction indexes from a log, as a broker does when it
// recovers one (ProducerStateManager.java): an entry for each ABORT marker of a
// producer that has an open transaction.
//
// What an entry says of its transaction may lie in what compaction or retention
// has removed. So where an old entry agrees with the log it is kept as it is.
type abortedTxns struct {
	it    record.Iterator
	open  map[int64]int64 // producer to where its open transaction begins
	ended map[int64]int64 // producer to its last marker

	old      []txnindex.Entry         // what the segment's index says
	byMarker map[int64]txnindex.Entry // the same, by its last offset
	sound    bool                     // it says nothing else
	entries  []txnindex.Entry         // what it must say, so far
}

// newAbortedTxns begins at a segment, of which a snapshot may know what was open
// there. Without one, what began earlier begins with its first batch.
func newAbortedTxns(fsys vfs.FS, dir string, base int64) (*abortedTxns, error) {
	t := &abortedTxns{open: map[int64]int64{}, ended: map[int64]int64{}}
	producers, err := producerstate.ReadFile(fsys, filepath.Join(dir, layout.SnapshotName(base)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, producerstate.ErrCorrupt) {
		return nil, err
	}
	for _, p := range producers {
		if p.HasOpenTxn() {
			t.open[p.ProducerID] = p.CurrentTxnFirstOffset
		}
	}
	return t, nil
}

// begin reads the index of the segment whose batches come next.
func (t *abortedTxns) begin(fsys vfs.FS, path string) (err error) {
	t.old, t.entries, t.sound = nil, nil, true
	t.byMarker = map[int64]txnindex.Entry{}
	var file entryFile
	if err := file.open(fsys, path, filepath.Base(path), txnindex.EntrySize, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	t.sound = file.length%txnindex.EntrySize == 0
	for i := range file.count {
		b, err := file.at(i)
		if err != nil {
			return err
		}
		e, err := txnindex.ParseEntry(b)
		if err != nil {
			t.sound = false
			continue
		}
		t.old = append(t.old, e)
		t.byMarker[e.LastOffset] = e
	}
	return nil
}

// changed reports whether the segment's index does not say what it must.
func (t *abortedTxns) changed() bool { return !t.sound || !slices.Equal(t.old, t.entries) }

// batch takes in the next batch of the log.
func (t *abortedTxns) batch(b record.Batch) {
	if !b.HasProducerID() || !b.IsTransactional() {
		return
	}
	producer := b.ProducerID()
	first, open := t.open[producer]
	if !b.IsControl() {
		if !open {
			t.open[producer] = b.BaseOffset()
		}
		return
	}
	marker, offset, ok := endMarker(b, &t.it)
	if !ok {
		return
	}
	delete(t.open, producer)
	before, known := t.ended[producer]
	if !known {
		before = -1
	}
	t.ended[producer] = offset
	if marker.Type != record.Abort {
		return
	}
	if e, ok := t.byMarker[offset]; ok && e.ProducerID == producer && e.FirstOffset > before && e.FirstOffset <= offset &&
		(!open || e.FirstOffset <= first) && e.LastStableOffset >= 0 && e.LastStableOffset <= offset+1 {
		t.entries = append(t.entries, e)
		return
	}
	if open {
		t.entries = append(t.entries, txnindex.Entry{
			ProducerID: producer, FirstOffset: first, LastOffset: offset, LastStableOffset: t.stable(offset + 1),
		})
	}
}

// stable is where the oldest open transaction begins, or end.
func (t *abortedTxns) stable(end int64) int64 {
	for _, first := range t.open {
		end = min(end, first)
	}
	return end
}

// encodeAborted is the content of a transaction index.
func encodeAborted(entries []txnindex.Entry) []byte {
	var b []byte
	for _, e := range entries {
		b = txnindex.AppendEntry(b, e)
	}
	return b
}

// writeAborted puts a transaction index in the place of the one that is there.
// One without entries is no file.
func (l *Log) writeAborted(base int64, entries []txnindex.Entry) error {
	path := filepath.Join(l.dir, layout.TxnIndexName(base))
	if len(entries) > 0 {
		return vfs.WriteFileAtomic(l.opts.FS, path, encodeAborted(entries))
	}
	if err := l.opts.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.opts.FS.SyncDir(l.dir)
}

// writeWhole makes data the durable content of a new file, whose name the caller
// syncs.
func writeWhole(fsys vfs.FS, path string, data []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = vfs.WriteFull(f, data, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// take returns the entries since it was last called, or since begin.
func (t *abortedTxns) take() []txnindex.Entry {
	all := t.entries
	t.entries = nil
	return all
}
