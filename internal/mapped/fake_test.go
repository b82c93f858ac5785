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

// newFixedFS behaves like Windows: a writable mapping extends its file, and a
// mapped file keeps its length.
func newFixedFS() *hookFS {
	mapped := false
	h := &hookFS{FS: vfs.OS}
	h.mapFile = func(f vfs.File, length int, writable bool) (vfs.Mapping, error) {
		if writable {
			info, err := f.Stat()
			if err != nil {
				return nil, err
			}
			if err := f.Truncate(max(info.Size(), int64(length))); err != nil {
				return nil, err
			}
		}
		m, err := f.Map(length, writable)
		mapped = err == nil
		return fixedMapping{m, &mapped}, err
	}
	h.truncate = func(int64) error {
		if mapped {
			return &fs.PathError{Op: "truncate", Path: "mapped", Err: vfs.ErrMapped}
		}
		return nil
	}
	return h
}

type fixedMapping struct {
	vfs.Mapping
	mapped *bool
}

func (m fixedMapping) Unmap() error {
	*m.mapped = false
	return m.Mapping.Unmap()
}

func fileLength(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}
