package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// KnowsResident says whether Resident ever says true on this system.
const KnowsResident = true

// mostResident is how many pages Resident looks at in one call.
const mostResident = 320

// Resident reports whether all of b, which is mapped memory, lies in main memory, so that
// to read it waits for no disk. It costs one system call, and allocates nothing. It says
// false where it does not know: beyond the end of a file, on other systems than Linux, and
// of more than 319 pages. True is no promise: pages may go at any time, and of a file that
// this process may not write to the kernel does not tell (mincore(2)).
func Resident(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	page := uintptr(os.Getpagesize())
	skip := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	length := skip + uintptr(len(b))
	pages := (length + page - 1) / page
	if pages > mostResident {
		return false
	}
	var in [mostResident]byte
	start := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -int(skip))
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(start), length, uintptr(unsafe.Pointer(&in)))
	if errno != 0 {
		return false
	}
	for _, flags := range in[:pages] {
		if flags&1 == 0 {
			return false
		}
	}
	return true
}
