package vfs

import (
	"errors"
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
		return nil, f.cannotMap(err)
	}
	return &osMapping{file: f.File, memory: memory, writable: writable}, nil
}

// MapAhead makes f at least to bytes long, over blocks that are really allocated, and
// maps [from, to) for writing. If it fails f may be longer than it was, by zeros.
//
// It is for appending to a file through memory, and does what that needs to be as safe
// as File.WriteAt: a store into the mapping does not run out of space, File.Sync covers
// it, and the file can be cut while it is mapped. Where one of these is not known to hold
// (Linux with ext4, xfs or tmpfs are) it fails with errors.ErrUnsupported, and leaves f
// as it is; so it does for a File that has no method of that name.
func MapAhead(f File, from, to int64) (Mapping, error) {
	if f, ok := f.(interface {
		MapAhead(from, to int64) (Mapping, error)
	}); ok {
		return f.MapAhead(from, to)
	}
	return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: errors.ErrUnsupported}
}

// MapAhead is what the function of that name calls.
func (f *osFile) MapAhead(from, to int64) (Mapping, error) {
	if from < 0 || to <= from {
		return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: fs.ErrInvalid}
	}
	if err := allocateMapped(f.File, from, to); err != nil {
		return nil, &fs.PathError{Op: "preallocate", Path: f.Name(), Err: err}
	}
	skip := from % int64(os.Getpagesize())
	memory, err := mmap.MapRegion(f.File, int(to-from+skip), mmap.RDWR, 0, from-skip)
	if err != nil {
		return nil, f.cannotMap(err)
	}
	smallPages(memory)
	return &osMapping{file: f.File, memory: memory, skip: int(skip), writable: true}, nil
}

func (f *osFile) cannotMap(err error) error {
	if outOfMappings(err) {
		err = fmt.Errorf("%w (too many mappings? see vm.max_map_count)", err)
	}
	return &fs.PathError{Op: "map", Path: f.Name(), Err: err}
}

type osMapping struct {
	file     *os.File
	memory   mmap.MMap // whole pages
	skip     int       // of them, before what was asked for
	writable bool
}

func (m *osMapping) Bytes() []byte {
	if m.memory == nil {
		return nil
	}
	return m.memory[m.skip:]
}

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
