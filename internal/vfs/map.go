package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/edsrzf/mmap-go"
)

// Map implements File.
func (f *osFile) Map(length int, writable bool) (Mapping, error) {
	switch {
	case length < 0:
		return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: fs.ErrInvalid}
	case length == 0:
		return &osMapping{}, nil // the system calls refuse it
	}
	prot := mmap.RDONLY
	if writable {
		prot = mmap.RDWR
	}
	memory, err := mmap.MapRegion(f.File, length, prot, 0, 0)
	if err != nil {
		if outOfMappings(err) {
			err = fmt.Errorf("%w (too many mappings? see vm.max_map_count)", err)
		}
		return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: err}
	}
	return &osMapping{file: f.File, memory: memory, writable: writable}, nil
}

type osMapping struct {
	file     *os.File
	memory   mmap.MMap
	writable bool
}

func (m *osMapping) Bytes() []byte { return m.memory }

func (m *osMapping) Flush() error {
	if !m.writable || m.memory == nil {
		return nil
	}
	// msync is an fdatasync of the file on Linux, and FlushFileBuffers is part
	// of it on Windows. On macOS it stops at the drive's cache.
	if err := m.memory.Flush(); err != nil {
		return &fs.PathError{Op: "flush mapping", Path: m.file.Name(), Err: err}
	}
	if runtime.GOOS == "darwin" {
		return syncFile(m.file)
	}
	return nil
}

func (m *osMapping) Unmap() error {
	if m.memory == nil {
		return nil
	}
	if err := m.memory.Unmap(); err != nil {
		return &fs.PathError{Op: "unmap", Path: m.file.Name(), Err: err}
	}
	return nil
}
