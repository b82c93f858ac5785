package mapped

import (
	"io/fs"
	"os"

	"github.com/seglog/seglog/internal/vfs"
)

// hookFS is the real file system with hooks. A nil hook does nothing.
type hookFS struct {
	vfs.FS
	open        func(flag int)
	truncate    func(size int64) error
	preallocate func(size int64) error
	mapFile     func(f vfs.File, length int, writable bool) (vfs.Mapping, error)
}

func (h *hookFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if h.open != nil {
		h.open(flag)
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return hookFile{f, h}, nil
}

type hookFile struct {
	vfs.File
	fs *hookFS
}

func (f hookFile) Truncate(size int64) error {
	if f.fs.truncate != nil {
		if err := f.fs.truncate(size); err != nil {
			return err
		}
	}
	return f.File.Truncate(size)
}

func (f hookFile) Preallocate(size int64) error {
	if f.fs.preallocate != nil {
		if err := f.fs.preallocate(size); err != nil {
			return err
		}
	}
	return f.File.Preallocate(size)
}

func (f hookFile) Map(length int, writable bool) (vfs.Mapping, error) {
	if f.fs.mapFile != nil {
		return f.fs.mapFile(f.File, length, writable)
	}
	return f.File.Map(length, writable)
}

// heapMapping is not a mapping at all. The race detector watches ordinary
// memory and ignores mapped files, so this is what it needs to judge Table.
type heapMapping []byte

func (m heapMapping) Bytes() []byte { return m }
func (m heapMapping) Flush() error  { return nil }
func (m heapMapping) Unmap() error  { return nil }

func newHeapFS() *hookFS {
	return &hookFS{FS: vfs.OS, mapFile: func(_ vfs.File, length int, _ bool) (vfs.Mapping, error) {
		return heapMapping(make([]byte, length)), nil
	}}
}

// fixedFS behaves as Windows does, or worse: a writable mapping extends its file,
// a mapped file keeps its length, and one that is open or mapped can be neither
// renamed nor removed.
type fixedFS struct {
	vfs.FS
	open, mapped map[string]int // how often, by name
}

func newFixedFS() *fixedFS {
	return &fixedFS{vfs.OS, map[string]int{}, map[string]int{}}
}

func (x *fixedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_TRUNC != 0 && x.mapped[name] > 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ErrMapped}
	}
	f, err := x.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	x.open[name]++
	return fixedFile{f, x}, nil
}

func (x *fixedFS) Rename(oldname, newname string) error {
	if x.inUse(oldname) || x.inUse(newname) {
		return &fs.PathError{Op: "rename", Path: oldname, Err: vfs.ErrMapped}
	}
	return x.FS.Rename(oldname, newname)
}

func (x *fixedFS) Remove(name string) error {
	if x.inUse(name) {
		return &fs.PathError{Op: "remove", Path: name, Err: vfs.ErrMapped}
	}
	return x.FS.Remove(name)
}

func (x *fixedFS) inUse(name string) bool { return x.open[name]+x.mapped[name] > 0 }

type fixedFile struct {
	vfs.File
	fs *fixedFS
}

func (f fixedFile) Close() error {
	f.fs.open[f.Name()]--
	return f.File.Close()
}

func (f fixedFile) Truncate(size int64) error {
	if f.fs.mapped[f.Name()] > 0 {
		return &fs.PathError{Op: "truncate", Path: f.Name(), Err: vfs.ErrMapped}
	}
	return f.File.Truncate(size)
}

func (f fixedFile) Map(length int, writable bool) (vfs.Mapping, error) {
	if writable {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if err := f.Truncate(max(info.Size(), int64(length))); err != nil {
			return nil, err
		}
	}
	m, err := f.File.Map(length, writable)
	if err != nil {
		return nil, err
	}
	f.fs.mapped[f.Name()]++
	return &fixedMapping{Mapping: m, file: f}, nil
}

type fixedMapping struct {
	vfs.Mapping
	file     fixedFile
	unmapped bool
}

func (m *fixedMapping) Unmap() error {
	if !m.unmapped {
		m.unmapped = true
		m.file.fs.mapped[m.file.Name()]--
	}
	return m.Mapping.Unmap()
}

func fileLength(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}
