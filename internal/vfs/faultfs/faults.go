package faultfs

import (
	"fmt"
	"iter"
	"syscall"
)

// Fault is one thing that goes wrong.
type Fault struct {
	Call Call   // where
	What string // how, for a person
	arm  func(*FS)
}

func (f Fault) String() string { return f.Call.String() + ": " + f.What }

// Arm adds the rule to a file system that has seen no call yet.
func (f Fault) Arm(fsys *FS) { f.arm(fsys) }

// Faults goes through calls, and for each through the ways it can go wrong:
//
//	every kind but Unmap    EIO
//	Read, Write             half of it without an error; EINTR
//	Write                   EIO, ENOSPC and EDQUOT after half of it
//	Create, Mkdir, Rename,
//	Preallocate, Lock       ENOSPC, EDQUOT
//	Sync, Flush             ENOSPC; EIO, with what was not durable forgotten
//	Map                     ENOMEM in place of EIO
//
// A disk that fills up at a call that needs space stays full: there is one more
// fault with ENOSPC for all such calls from there on.
func Faults(calls []Call) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for _, c := range calls {
			for _, fault := range faultsOf(c) {
				if !yield(fault) {
					return
				}
			}
		}
	}
}

func faultsOf(c Call) []Fault {
	at := Op().Nth(c.N)
	var faults []Fault
	add := func(what string, arm func(*FS)) { faults = append(faults, Fault{c, what, arm}) }
	fail := func(name string, err error) { add(name, func(f *FS) { f.Fail(at, err) }) }
	half := int(c.Size / 2)
	failAfterHalf := func(name string, err error) {
		add(fmt.Sprintf("%s after %d bytes", name, half), func(f *FS) { f.FailAfter(at, half, err) })
	}

	switch c.Kind {
	case Unmap:
		return nil
	case Map:
		fail("ENOMEM", syscall.ENOMEM)
	default:
		fail("EIO", syscall.EIO)
	}
	switch c.Kind {
	case Read, Write:
		fail("EINTR", syscall.EINTR)
		if half > 0 {
			add(fmt.Sprintf("only %d bytes", half), func(f *FS) { f.Shorten(at, half) })
		}
	case Create, Mkdir, Rename, Preallocate, Lock:
		fail("ENOSPC", syscall.ENOSPC)
		fail("EDQUOT", syscall.EDQUOT)
	case Sync, Flush:
		fail("ENOSPC", syscall.ENOSPC)
		add("EIO, unsynced bytes forgotten", func(f *FS) { f.FailAndForget(at, syscall.EIO) })
	}
	if c.Kind == Write {
		failAfterHalf("EIO", syscall.EIO)
		failAfterHalf("ENOSPC", syscall.ENOSPC)
		failAfterHalf("EDQUOT", syscall.EDQUOT)
	}
	if needsSpace := Op(Create, Write, Mkdir, Preallocate); needsSpace.about(c) {
		add("ENOSPC from there on", func(f *FS) { f.Fail(needsSpace.Since(c.N), syscall.ENOSPC) })
	}
	return faults
}
