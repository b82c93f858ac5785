package mapped

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"unsafe"

	"github.com/seglog/seglog/internal/vfs"
)

// Create makes an empty table at path, or empties the one that is there, which
// no one may have open. It writes nothing yet.
func Create(path string, layout Layout, o Options) (*Table, error) {
	return open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, layout, o)
}

// Open opens an existing table for appending. Zeros at its end are cut off. It
// returns a *CorruptError, and leaves the file alone, if the length is not a
// whole number of entries or the first or last entry cannot be right; what lies
// between is left to Check, so that opening does not read the file.
func Open(path string, layout Layout, o Options) (*Table, error) {
	return open(path, os.O_RDWR, layout, o)
}

// OpenReadOnly opens an existing table for reading. It never changes the file,
// needs no permission to, and accepts whatever is in it.
func OpenReadOnly(path string, layout Layout, o Options) (*Table, error) {
	return open(path, os.O_RDONLY, layout, o)
}

func open(path string, flag int, layout Layout, o Options) (*Table, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	var maxSlots int
	if flag != os.O_RDONLY {
		slots, err := o.slots(layout)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		maxSlots = slots
	}
	file, err := o.FS.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	t := &Table{path: path, layout: layout, file: file}
	if flag == os.O_RDONLY {
		err = t.openForReading()
	} else {
		err = t.openForWriting(maxSlots)
	}
	if err != nil {
		return nil, errors.Join(err, t.Drop())
	}
	return t, nil
}

func (o Options) slots(layout Layout) (int, error) {
	size := o.MaxBytes
	if size == 0 {
		size = DefaultMaxBytes
	}
	if size < layout.EntrySize || size > math.MaxInt32 {
		return 0, fmt.Errorf("max bytes %d: want %d to %d", size, layout.EntrySize, math.MaxInt32)
	}
	return size / layout.EntrySize, nil
}

func (t *Table) openForReading() error {
	if err := t.findEnd(); err != nil {
		return err
	}
	// The file may be another process's, which cuts its zeros off at any time.
	// So they are not mapped, only entries are.
	if err := t.mapFile(t.Len(), false); err != nil {
		return err
	}
	t.limit.Store(t.count.Load())
	file := t.file
	t.file = nil
	return file.Close()
}

func (t *Table) openForWriting(maxSlots int) error {
	if err := t.findEnd(); err != nil {
		return err
	}
	if t.partial != 0 {
		return t.partialError()
	}
	if err := t.checkFile(); err != nil {
		return err
	}
	// Cut the zeros also because in Kafka's files there are no blocks behind
	// them.
	if err := t.cutFile(); err != nil {
		return err
	}
	// A file may hold more entries than now allowed; it just takes no more.
	t.capacity = max(t.Len(), maxSlots)
	t.limit.Store(int64(t.capacity))
	if err := t.mapFile(t.capacity, true); err != nil {
		return err
	}
	info, err := t.file.Stat() // mapping may have extended it
	if err != nil {
		return err
	}
	t.length = info.Size()
	return nil
}

// checkFile is checkEnds before there is a writable mapping, which on Windows
// would change the file.
func (t *Table) checkFile() error {
	if err := t.mapFile(t.Len(), false); err != nil {
		return err
	}
	return errors.Join(t.checkEnds(), t.mapping.Unmap())
}

func (t *Table) mapFile(slots int, writable bool) error {
	mapping, err := t.file.Map(slots*t.layout.EntrySize, writable)
	if err != nil {
		return err
	}
	t.mapping = mapping
	t.bytes = mapping.Bytes()
	if uintptr(unsafe.Pointer(unsafe.SliceData(t.bytes)))%wordSize != 0 {
		return fmt.Errorf("map %s: memory is not aligned", t.path)
	}
	return nil
}

// findEnd sets count and padding, as the package comment says. It reads the file
// and does not map it, so that a file that shrinks meanwhile is harmless.
func (t *Table) findEnd() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	t.length = info.Size()
	if t.length > math.MaxInt32 {
		return t.corrupt(-1, fmt.Sprintf("length %d is more than an index can have", t.length))
	}
	t.partial = int(t.length) % t.layout.EntrySize
	slots := int(t.length) / t.layout.EntrySize
	count, err := t.countEntries(slots)
	t.padding = slots - count
	t.count.Store(int64(count))
	return err
}

func (t *Table) countEntries(slots int) (int, error) {
	var failed error
	entry := make([]byte, t.layout.EntrySize)
	padding := func(slot int) bool {
		_, err := vfs.ReadFull(t.file, entry, int64(slot*len(entry)))
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return true // cut off meanwhile
		}
		failed = errors.Join(failed, err)
		return t.layout.Key.decode(entry) == 0
	}
	if slots < 2 || !padding(slots-1) {
		return slots, failed // trimmed
	}
	count := 1 + sort.Search(slots-2, func(i int) bool { return padding(i + 1) })
	if count == 1 && padding(0) && allZero(entry) {
		count = 0
	}
	return count, failed
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
