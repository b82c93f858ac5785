package logtest

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// Disk is a disk in memory with one file system. Relative names start at its
// root, which is the only directory it has at first. It is safe for concurrent use.
type Disk struct {
	crash  *crashfs.FS
	fault  *faultfs.FS
	origin string
}

// DiskOptions describe a disk. The zero value is a large one of a unix system.
type DiskOptions struct {
	// Capacity is how many bytes fit. 0 means 1 TiB; memory is only needed for
	// what is written.
	Capacity int64
	// WindowsLike refuses to rename and remove files that are open, and to
	// truncate those that are mapped.
	WindowsLike bool
}

// NewDisk returns an empty disk.
func NewDisk(o DiskOptions) *Disk {
	return newDisk(crashfs.New(crashfs.Options{Capacity: o.Capacity, WindowsLike: o.WindowsLike}), "disk")
}

func newDisk(crash *crashfs.FS, origin string) *Disk {
	return &Disk{crash: crash, fault: faultfs.New(crash), origin: origin}
}

// FS is the file system on the disk, for seglog.Options.FS.
func (d *Disk) FS() vfs.FS { return d.fault }

// String says how the disk came to be: of which of a number of states after a
// power loss it is, or what is going to fail on it.
func (d *Disk) String() string { return d.origin }

// States returns at most limit of the disks that a power loss now may leave, no
// two alike; what happens to d afterwards has no influence on them. If there are
// not more than limit they are all there. Otherwise they are a sample that begins
// with the extremes, and that seed and what was done to d determine.
//
// What was synced is on each of them. Of what was not, there is any part: writes
// whole, torn at multiples of 512 bytes or not at all, a file's length without its
// bytes, creations, renames and removals whose directory was not synced.
func (d *Disk) States(limit int, seed uint64) iter.Seq[*Disk] {
	states := d.crash.States(limit, seed)
	return func(yield func(*Disk) bool) {
		for s := range states {
			if !yield(newDisk(s.FS(), s.String())) {
				return
			}
		}
	}
}

// Kill returns a copy of the disk as it is when the process that uses it is killed
// now: all that was written is there, nothing is open or locked, and nothing fails.
// d itself stays as it is. A power loss on the copy can still take what was not
// synced.
func (d *Disk) Kill() *Disk { return newDisk(d.crash.Kill(), "disk of a killed process") }

// SyncAll makes everything on the disk durable, for setting up.
func (d *Disk) SyncAll() { d.crash.SyncAll() }

// SetCapacity changes how many bytes fit. If that is less than what is there,
// nothing can be added until enough was removed.
func (d *Disk) SetCapacity(bytes int64) { d.crash.SetCapacity(bytes) }

// Open is how many files are open. Once everything was closed it is 0.
func (d *Disk) Open() int { return d.fault.Open() }

// Mapped is how many mappings of files to memory there are; see Open.
func (d *Disk) Mapped() int { return d.fault.Mapped() }

// Locked is how many locks are held; see Open.
func (d *Disk) Locked() int { return d.fault.Locked() }

// Op is an operation that changes the disk, or makes a change durable.
type Op struct {
	N    int    // counts the operations of a disk, from 1
	Kind Kind   // one of those that say so
	Name string // of the file
	text string
}

// String describes the operation: "#12 write orders-0/00000000000000000000.log [0,73)".
func (o Op) String() string { return o.text }

// OnOp has hook called before each operation, whether it will succeed or not.
// Calls do not overlap; operations of other goroutines go on meanwhile. The hook
// may call States and Kill and read files; if it changes d itself it waits for
// itself. nil ends it.
func (d *Disk) OnOp(hook func(Op)) {
	if hook == nil {
		d.crash.OnOp(nil)
		return
	}
	d.crash.OnOp(func(op crashfs.Op) {
		hook(Op{N: op.N, Kind: Kind(op.Kind.String()), Name: op.Name, text: op.String()})
	})
}

// Ops is how many operations there have been.
func (d *Disk) Ops() int { return d.crash.Ops() }

// ReadFile returns the content of a file, whatever Fail says. The caller owns it.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	return vfs.ReadFile(d.crash, name, 1<<40)
}

// WriteFile puts content into a file, which is made with the directories above if
// need be. Nothing of it is durable before SyncAll. It is for making and damaging
// files by hand: rules of Fail do not apply.
func (d *Disk) WriteFile(name string, content []byte) error {
	if err := d.crash.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := d.crash.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("%w, and %v", err, f.Close())
	}
	return f.Close()
}

// ReadDir returns the names in a directory, sorted.
func (d *Disk) ReadDir(name string) ([]string, error) {
	entries, err := d.crash.ReadDir(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
