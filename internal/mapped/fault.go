package mapped

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// ErrFault means that the memory of a mapped file could not be read or written.
var ErrFault = errors.New("mapped memory fault")

// FaultError reports mapped memory that is not, or no longer, backed by its
// file. It matches ErrFault.
type FaultError struct {
	File     string
	Position int64 // byte in the file, -1 if the system does not tell
	Reason   string
}

func (e *FaultError) Error() string {
	if e.Position < 0 {
		return fmt.Sprintf("%s: %v: %s", e.File, ErrFault, e.Reason)
	}
	return fmt.Sprintf("%s: position %d: %v: %s", e.File, e.Position, ErrFault, e.Reason)
}

func (e *FaultError) Unwrap() error { return ErrFault }

// The system signals both alike.
const faultReason = "the file was cut short or its disk failed"

// memoryFault is what the runtime panics with, where debug.SetPanicOnFault is
// set, upon access to an address that is not nil. Otherwise it ends the process.
type memoryFault interface {
	runtime.Error
	Addr() uintptr
}

// IsFault reports whether a recovered panic is that of memory which failed.
func IsFault(p any) bool {
	_, is := p.(memoryFault)
	return is
}

// Faulted reports whether mapped memory has failed. From then on the table does
// not touch it again, and only opening the file anew helps.
func (t *Table) Faulted() bool { return t.fault.Load() != nil }

// firstFault returns the fault there was, or nil.
func (t *Table) firstFault() error {
	if fault := t.fault.Load(); fault != nil {
		return fault
	}
	return nil
}

// guarded calls access, which may touch mapped memory, and returns the fault if
// there is one or was one. All access goes through here or through Read. A panic
// that is not a fault passes.
func (t *Table) guarded(access func()) (err error) {
	if err := t.firstFault(); err != nil {
		return err
	}
	defer t.catch(debug.SetPanicOnFault(true), &err)
	access()
	return nil
}

// catch is the deferred part of guarded, given what SetPanicOnFault was before.
func (t *Table) catch(panicOnFault bool, err *error) {
	debug.SetPanicOnFault(panicOnFault)
	switch p := recover().(type) {
	case nil:
	case memoryFault:
		*err = t.fail(t.position(p.Addr()), faultReason)
	default:
		panic(p)
	}
}

// fail marks the table as faulted, unless it is, and returns the first fault.
func (t *Table) fail(position int64, reason string) error {
	t.fault.CompareAndSwap(nil, &FaultError{File: t.path, Position: position, Reason: reason})
	return t.firstFault()
}

// position converts an address to a byte in the file.
func (t *Table) position(address uintptr) int64 {
	at := address - uintptr(unsafe.Pointer(unsafe.SliceData(t.bytes)))
	if at >= uintptr(len(t.bytes)) {
		return -1
	}
	return int64(at)
}
