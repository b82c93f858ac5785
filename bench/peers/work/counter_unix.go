//go:build unix

package work

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

func mapCounter(f *os.File) (*counter, error) {
	memory, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &counter{memory, (*atomic.Int64)(unsafe.Pointer(&memory[0]))}, nil
}

func (c *counter) close() { _ = syscall.Munmap(c.memory) }
