package txnindex

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/seglog/seglog/internal/vfs"
)

// chunkEntries is how many entries one read brings in: about a page.
const chunkEntries = 120

var (
	// ErrOrder means that an entry does not follow the last one.
	ErrOrder = errors.New("last offset does not increase")
	// ErrReadOnly means that the index was opened with OpenReadOnly.
	ErrReadOnly = errors.New("transaction index is read-only")
	// ErrClosed means that the index was closed.
	ErrClosed = errors.New("transaction index is closed")
)

// Options are the settings of an index. The zero value is ready to use.
type Options struct {
	// FS holds the file. nil means the operating system's.
	FS vfs.FS
}

// An Index is the transaction index of one segment.
//
// One goroutine may write (Append, Sync, Rename) while any number read (All,
// Collect, Len). Readers take no lock and see an entry whole or not at all.
// TruncateTo, Reset and Close take away what readers read, so they need them
// gone, and Check must not run beside Append.
type Index struct {
	fs       vfs.FS
	base     int64
	readOnly bool

	// name is the path of the file; the writer sets it, errors of readers
	// mention it.
	name atomic.Pointer[string]

	// These belong to the writer.
	exists  bool // there is a file
	unnamed bool // the file was created, and its directory not synced since
	closed  bool
	failed  error // what a failed Append left behind; once set, appends refuse

	// last is the last offset of the last entry, -1 if there is none. It is
	// not known before lastKnown. Both belong to the writer.
	last      int64
	lastKnown bool

	// file is set when the file exists, at the latest before count goes above
	// 0 for the first time, and not changed while there are readers.
	file vfs.File
	// count is the number of entries that readers may see. The writer stores it
	// after the bytes are in the file.
	count atomic.Int64

	// chunks holds buffers of chunkEntries for readers.
	chunks sync.Pool
}

// Open opens the index of segment base for reading and writing. If the file is
// missing the index is empty, and the first Append creates it. A rest of less
// than an entry at the end, which a crash may leave, counts for nothing; Check
// reports it, and the next change of the index removes it.
func Open(path string, base int64, o Options) (*Index, error) {
	return open(path, base, o, os.O_RDWR)
}

// OpenReadOnly opens the index of segment base without touching the file. If it
// is missing the index is empty. It shows the entries that there were when it
// was opened, whatever is appended later.
func OpenReadOnly(path string, base int64, o Options) (*Index, error) {
	return open(path, base, o, os.O_RDONLY)
}

func open(path string, base int64, o Options, flag int) (*Index, error) {
	x := &Index{fs: o.FS, base: base, readOnly: flag == os.O_RDONLY, last: -1}
	x.name.Store(&path)
	if x.fs == nil {
		x.fs = vfs.OS
	}
	file, err := x.fs.OpenFile(path, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		x.lastKnown = true
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	x.count.Store(info.Size() / EntrySize)
	x.lastKnown = info.Size() < EntrySize
	x.exists = true
	if info.Size() == 0 && x.readOnly { // as good as none, and takes no descriptor
		return x, file.Close()
	}
	x.file = file
	return x, nil
}

func (x *Index) path() string { return *x.name.Load() }

// Base returns the base offset of the segment.
func (x *Index) Base() int64 { return x.base }

// Len returns the number of entries.
func (x *Index) Len() int { return int(x.count.Load()) }

// Exists reports whether there was a file, or is one by now.
func (x *Index) Exists() bool { return x.exists }

// Create makes the file if there is none yet.
func (x *Index) Create() error {
	if x.readOnly && x.exists {
		return nil
	}
	if err := x.writable(); err != nil {
		return err
	}
	return x.create()
}

// Append adds an entry and creates the file if this is the first one. Its last
// offset must be above that of the last entry, else ErrOrder; Kafka checks that
// within one run only. After an error the index is as it was; if it could not be
// put back, every later Append returns the first error until Reset or
// TruncateTo succeed.
func (x *Index) Append(e Entry) error {
	if err := x.writable(); err != nil {
		return err
	}
	if x.failed != nil {
		return x.failed
	}
	last, err := x.lastOffset()
	if err != nil {
		return err
	}
	if e.LastOffset <= last {
		return fmt.Errorf("append to %s: last offset %d after %d: %w", x.path(), e.LastOffset, last, ErrOrder)
	}
	if err := x.create(); err != nil {
		return err
	}
	n := x.count.Load()
	if _, err := vfs.WriteFull(x.file, AppendEntry(nil, e), n*EntrySize); err != nil {
		// Take back what did get written: a whole entry of it would count
		// when the file is opened again.
		if undo := x.file.Truncate(n * EntrySize); undo != nil {
			x.failed = errors.Join(err, undo)
			return x.failed
		}
		return err
	}
	x.last = e.LastOffset
	x.count.Store(n + 1)
	return nil
}

func (x *Index) create() error {
	if x.file != nil {
		return nil
	}
	// There was none when the index was opened: one that appeared since is not
	// ours to write over.
	file, err := x.fs.OpenFile(x.path(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	x.file = file
	x.exists, x.unnamed = true, true
	return nil
}

// lastOffset returns the last offset of the last entry, -1 if there is none.
func (x *Index) lastOffset() (int64, error) {
	if !x.lastKnown {
		n := x.count.Load()
		chunk := x.chunk()
		defer x.chunks.Put(chunk)
		e, err := x.entry(chunk, n-1)
		if err != nil {
			return 0, err
		}
		x.last, x.lastKnown = e.LastOffset, true
	}
	return x.last, nil
}

// All returns every entry in order. It ends after an error, which comes with a
// zero entry and is a *CorruptError if the entry is of another version.
func (x *Index) All() iter.Seq2[Entry, error] { return x.from(0) }

// Collect appends to dst, which the caller owns, the transactions that
// read_committed readers of [fetchOffset, upperBound) have to leave out: those
// that end at fetchOffset or later and start before upperBound. If complete is
// false, following segments may list more.
//
// It reads what it needs of the file, and nothing of what ends before
// fetchOffset but a few entries of a binary search. Kafka reads them all, and may
// take the answer of one of them for complete. That is wrong if a follower got an
// abort and the next transaction of the same producer in one append, because that
// transaction is left out of the last stable offset of the entry.
func (x *Index) Collect(dst []Entry, fetchOffset, upperBound int64) (entries []Entry, complete bool, err error) {
	first, err := x.search(fetchOffset)
	if err != nil {
		return dst, false, err
	}
	for e, err := range x.from(first) {
		if err != nil {
			return dst, false, err
		}
		if e.overlaps(fetchOffset, upperBound) {
			dst = append(dst, e)
		}
		if e.LastStableOffset >= upperBound {
			// Whatever was open after this abort starts no earlier.
			return dst, true, nil
		}
	}
	return dst, false, nil
}

// TruncateTo removes the entries whose marker is at offset or later.
func (x *Index) TruncateTo(offset int64) error {
	if err := x.writable(); err != nil {
		return err
	}
	n, err := x.search(offset)
	if err != nil {
		return err
	}
	return x.truncate(n)
}

// Reset removes every entry. The file, if there is one, stays.
func (x *Index) Reset() error {
	if err := x.writable(); err != nil {
		return err
	}
	return x.truncate(0)
}

func (x *Index) truncate(n int64) error {
	if x.file == nil {
		return nil
	}
	if err := x.file.Truncate(n * EntrySize); err != nil {
		return err
	}
	x.count.Store(n)
	x.last, x.lastKnown = -1, n == 0
	x.failed = nil
	return nil
}

// Check reads the whole index and returns a *CorruptError for the first thing
// that cannot be right: a length that is no whole number of entries, another
// version, a last offset below the base offset or not above the one before, a
// first offset above the last. What it cannot tell without the log is whether an
// entry is missing or wrong in another way.
//
// Kafka's sanityCheck, which decides whether a segment is recovered when a log
// is opened, compares with the base offset only.
func (x *Index) Check() error {
	previous := int64(-1)
	n := 0
	for e, err := range x.All() {
		if err != nil {
			return err
		}
		if rule := e.brokenRule(x.base, previous); rule != "" {
			return &CorruptError{File: x.path(), Entry: n, Rule: rule}
		}
		previous = e.LastOffset
		n++
	}
	if x.file == nil {
		return nil
	}
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	if rest := info.Size() - int64(n)*EntrySize; rest%EntrySize != 0 {
		return &CorruptError{File: x.path(), Entry: n, Rule: fmt.Sprintf("%d bytes at the end, an entry has %d", rest, EntrySize)}
	}
	return nil
}

// Sync makes the entries durable, and the name of the file if it is new. Without
// a file it does nothing.
func (x *Index) Sync() error {
	if err := x.writable(); err != nil {
		return err
	}
	if x.file == nil {
		return nil
	}
	if err := x.file.Sync(); err != nil {
		return err
	}
	if x.unnamed {
		if err := x.fs.SyncDir(filepath.Dir(x.path())); err != nil {
			return err
		}
		x.unnamed = false
	}
	return nil
}

// Rename gives the file another name, and the index too if there is no file yet.
// The new name is durable when the owner has synced the directory.
func (x *Index) Rename(path string) error {
	if err := x.writable(); err != nil {
		return err
	}
	if x.file != nil {
		if err := x.fs.Rename(x.path(), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	x.name.Store(&path)
	return nil
}

// Close closes the file without syncing it. Calling it again does nothing.
func (x *Index) Close() error {
	if x.closed {
		return nil
	}
	x.closed = true
	x.count.Store(0)
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}

func (x *Index) writable() error {
	switch {
	case x.closed:
		return ErrClosed
	case x.readOnly:
		return ErrReadOnly
	}
	return nil
}

// search returns the number of the first entry that ends at offset or later, or
// the number of entries.
func (x *Index) search(offset int64) (int64, error) {
	chunk := x.chunk()
	defer x.chunks.Put(chunk)
	low, high := int64(0), x.count.Load()
	for low < high {
		middle := (low + high) / 2
		e, err := x.entry(chunk, middle)
		if err != nil {
			return 0, err
		}
		if e.LastOffset < offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// from returns the entries from number first on.
func (x *Index) from(first int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		count := x.count.Load()
		chunk := x.chunk()
		defer x.chunks.Put(chunk)
		for n := first; n < count; {
			buf := chunk[:min(chunkEntries, count-n)*EntrySize]
			if err := x.read(buf, n); err != nil {
				yield(Entry{}, err)
				return
			}
			for ; len(buf) > 0; buf = buf[EntrySize:] {
				e, err := ParseEntry(buf)
				if !yield(e, x.in(n, err)) || err != nil {
					return
				}
				n++
			}
		}
	}
}

// entry reads one entry by way of the beginning of chunk.
func (x *Index) entry(chunk *[chunkEntries * EntrySize]byte, n int64) (Entry, error) {
	if err := x.read(chunk[:EntrySize], n); err != nil {
		return Entry{}, err
	}
	e, err := ParseEntry(chunk[:])
	return e, x.in(n, err)
}

func (x *Index) read(buf []byte, n int64) error {
	_, err := vfs.ReadFull(x.file, buf, n*EntrySize)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("read %s: entry %d: %w", x.path(), n, io.ErrUnexpectedEOF)
	}
	return err
}

// in adds the place to a *CorruptError.
func (x *Index) in(n int64, err error) error {
	if err == nil {
		return nil
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		corrupt.File, corrupt.Entry = x.path(), int(n)
	}
	return err
}

func (x *Index) chunk() *[chunkEntries * EntrySize]byte {
	if chunk, ok := x.chunks.Get().(*[chunkEntries * EntrySize]byte); ok {
		return chunk
	}
	return new([chunkEntries * EntrySize]byte)
}
