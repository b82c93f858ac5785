package logtest

import (
	"fmt"
	"iter"

	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// Kind is a kind of call to the file system. Those marked with * change the disk or
// make a change durable, and are the operations that OnOp and OnCrash see.
type Kind string

// The kinds.
const (
	OpenFile    Kind = "open"        // a file that is there
	Create      Kind = "create"      // * open a file, and make it if it is not there
	Read        Kind = "read"        //
	Write       Kind = "write"       // *
	Truncate    Kind = "truncate"    // *
	Preallocate Kind = "preallocate" // * make a file longer, with space for all of it
	Sync        Kind = "sync"        // *
	Close       Kind = "close"       //
	Map         Kind = "map"         //
	Flush       Kind = "flush"       // * make stores to mapped memory durable
	Stat        Kind = "stat"        //
	ReadDir     Kind = "read dir"    //
	Mkdir       Kind = "mkdir"       // *
	Rename      Kind = "rename"      // *
	Remove      Kind = "remove"      // *
	SyncDir     Kind = "sync dir"    // * make creations, renames and removals durable
	Lock        Kind = "lock"        //
)

var faultKinds = map[Kind]faultfs.Kind{
	OpenFile: faultfs.Open, Create: faultfs.Create, Read: faultfs.Read, Write: faultfs.Write,
	Truncate: faultfs.Truncate, Preallocate: faultfs.Preallocate, Sync: faultfs.Sync, Close: faultfs.Close,
	Map: faultfs.Map, Flush: faultfs.Flush, Stat: faultfs.Stat, ReadDir: faultfs.ReadDir, Mkdir: faultfs.Mkdir,
	Rename: faultfs.Rename, Remove: faultfs.Remove, SyncDir: faultfs.SyncDir, Lock: faultfs.Lock,
}

// Calls says which calls are to fail. The zero value is all of them.
type Calls struct {
	// Kind is a kind of call. Empty means any.
	Kind Kind
	// Name is a pattern as of path.Match, for the last element of the file's name,
	// or for all of it if the pattern has a slash. Of a rename either name will do.
	// Empty means any.
	Name string
	// Nth is the one of those calls that fails, counted from 1 and from the moment
	// the rule was made. 0 means all of them.
	Nth int
	// Onwards has the calls after the nth fail as well.
	Onwards bool
}

// match panics if the kind is none or the pattern is malformed.
func (c Calls) match() faultfs.Match {
	m := faultfs.Op()
	if c.Kind != "" {
		kind, ok := faultKinds[c.Kind]
		if !ok {
			panic(fmt.Sprintf("logtest: %q is no kind of call that can fail", c.Kind))
		}
		m = faultfs.Op(kind)
	}
	if c.Name != "" {
		m = m.Name(c.Name)
	}
	switch {
	case c.Nth > 0 && c.Onwards:
		m = m.From(c.Nth)
	case c.Nth > 0:
		m = m.Nth(c.Nth)
	}
	return m
}

// Fail has calls fail with err, without being carried out. Close and the release
// of a lock are carried out all the same. errors.Is finds err in what the log
// returns. Of several rules for one call the first decides.
func (d *Disk) Fail(c Calls, err error) { d.fault.Fail(c.match(), err) }

// FailAfter has reads and writes fail with err after they moved so many bytes.
// With all of them moved, a call has done its work and fails all the same.
func (d *Disk) FailAfter(c Calls, bytes int, err error) { d.fault.FailAfter(c.match(), bytes, err) }

// FailAndForget has syncs and flushes fail with err, and what they would have made
// durable be lost for good: it can still be read, later syncs succeed, and a power
// loss shows that it is gone. That is what kernels do with pages they could not
// write.
func (d *Disk) FailAndForget(c Calls, err error) { d.fault.FailAndForget(c.match(), err) }

// Shorten has reads and writes move no more than so many bytes, without an error.
func (d *Disk) Shorten(c Calls, bytes int) { d.fault.Shorten(c.match(), bytes) }

// Heal ends all rules of Fail and its like.
func (d *Disk) Heal() { d.fault.Clear() }

// Failed is how many calls a rule has had an effect on.
func (d *Disk) Failed() int { return d.fault.Fired() }

// Faults runs a workload once on a copy of the disk, to see the calls it makes, and
// then yields, for each call and each way in which it can fail, another copy on
// which it will; String says what. Writes and reads fail, are short, or fail after
// half of the bytes; what needs space finds none, once or from there on; syncs fail,
// and forget what they should have made durable.
//
//	for disk := range logtest.Faults(empty, workload) {
//		workload(disk)
//		disk.Heal()
//		...
//	}
//
// The workload must go on to its end whatever fails, and make the same calls in the
// same order each time until something does. Where work in the background changes
// the order, now and then another call than the one named will fail.
func Faults(disk *Disk, workload func(*Disk)) iter.Seq[*Disk] {
	crash := disk.crash.Kill()
	return func(yield func(*Disk) bool) {
		copied := crash.Kill()
		calls := faultfs.Record(copied, func(f *faultfs.FS) {
			workload(&Disk{crash: copied, fault: f, origin: "disk without a fault"})
		})
		for fault := range faultfs.Faults(calls) {
			d := newDisk(crash.Kill(), "disk with the fault "+fault.String())
			fault.Arm(d.fault)
			if !yield(d) {
				return
			}
		}
	}
}
