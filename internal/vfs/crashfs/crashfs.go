// Package crashfs is a file system in memory that knows what a disk would hold
// if the power went out now.
//
// It is a whole vfs.FS: directories, files, mappings, locks, free space. Beside
// what the running system sees it keeps what has been made durable, and between
// the two a list of the operations that have not:
//
//	operation                          made durable by
//	write, truncate, preallocate       File.Sync or Mapping.Flush of that file
//	store through a mapping            the same; seen by comparing pages
//	create, mkdir, rename, remove      SyncDir of the directory
//
// A power loss keeps any subset of that list. States lists the disks that can
// come of it, and each can be opened as a file system of its own:
//
//	disk := crashfs.New(crashfs.Options{})
//	disk.OnOp(func(op crashfs.Op) {
//		for state := range disk.States(100, 1) {
//			requireRecovers(t, state.FS(), state.String())
//		}
//	})
//	workload(disk)
//
// # What a state is
//
// Operations of a file apply in their order, those kept. A write is kept whole,
// not at all, or torn at multiples of 512 and 4096 bytes of the file: a first
// part, a last part, all but a hole. Where it made the file longer, the length
// counts separately: it may have grown without the bytes, which are then zeros,
// or to a tear only. The length of a file is one field of its inode, so what is
// kept of it is what one of the operations set it to. A truncation not kept
// leaves the old bytes. A mapped page is a write of that page.
//
// A name operation is kept or not, whole: a rename never leaves neither name,
// nor both. Operations on different names are independent of each other. One
// that relies on another which was not kept has no effect: the rename of a file
// whose creation was lost, or to a name that was not given up before. So a file
// is never lost by moving it. A file is there if a name is; File.Sync makes no
// name durable. A rename between two directories becomes durable by syncing
// either.
//
// This is more than one disk or file system will do: ext4, for one, keeps name
// operations in order, and a page holds all that was written to it before. Code
// that survives all of it depends on nothing but the calls it makes.
//
// # Mappings
//
// Mappings of a file share memory, and stores into it are found by comparing
// pages before each operation of the file system. What is stored and stored
// over between two of them is not seen. A mapping that is longer than all
// others the file has at that time gets memory of its own, which follows the
// others at each operation; only one of them may be stored to. Mappings cost
// real memory for their full length, so keep maximum sizes small in tests.
//
// Storing to a page beyond the end of the file, to a hole for which there is no
// space, or through a read-only mapping would end the process on a real system.
// Here it panics, when it is noticed: at the next operation, at the latest when
// the file grows over the place or at Unmap.
//
// A file system and all that comes of it are safe for concurrent use.
package crashfs

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seglog/seglog/internal/vfs"
)

// DefaultCapacity is the size of a disk whose Options do not name one.
const DefaultCapacity = 1 << 40

// ErrInUse means that a file or directory is open or mapped, and that
// Options.WindowsLike is set.
var ErrInUse = errors.New("file is in use")

// Options describe a file system. The zero value is a unix one.
type Options struct {
	// WindowsLike refuses to rename and remove what is open, mapped or locked,
	// with ErrInUse, and to truncate what is mapped, with vfs.ErrMapped. A
	// writable mapping extends its file; a read-only one must lie inside.
	WindowsLike bool

	// Capacity is the size of the disk in bytes. 0 means DefaultCapacity.
	Capacity int64

	// Now is the clock behind modification times. nil means time.Now.
	Now func() time.Time
}

// FS is a file system in memory. Relative names start at its root, which is the
// only directory it has at first.
type FS struct {
	options Options
	hooks   sync.Mutex // held while hook runs; before mu

	mu struct {
		sync.Mutex
		hook     func(Op)
		ops      int
		token    *token
		root     *node
		mapped   []*node // have regions, in the order of their first
		pending  []*change
		capacity int64
		used     int64 // by what has a name or a user
	}
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system.
func New(o Options) *FS {
	f := blank(o)
	f.mu.root = &node{mode: dirMode(0o755), modified: f.options.Now(), linked: true,
		names: map[string]*node{}, storedNames: map[string]*node{}}
	f.mu.used = nodeBytes
	return f
}

func blank(o Options) *FS {
	if o.Capacity == 0 {
		o.Capacity = DefaultCapacity
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &FS{options: o}
	f.mu.token = new(token)
	f.mu.capacity = o.Capacity
	return f
}

// OnOp has hook called before each operation that changes the disk or makes a
// change durable, whether it will succeed or not. Calls do not overlap, and
// operations of other goroutines go on meanwhile. The hook may look at f, call
// States and Kill; if it changes f itself it waits for itself. nil ends it.
func (f *FS) OnOp(hook func(Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hook = hook
}

// Ops returns how many operations there have been of the kind OnOp sees.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.ops
}

// Unsynced returns the operations that a power loss may undo, in their order.
// Stores through a mapping are among them, with the number of the operation at
// which they were noticed.
func (f *FS) Unsynced() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absorbAllLocked()
	var ops []Op
	for _, c := range f.mu.pending {
		ops = append(ops, c.Op)
	}
	return ops
}

// SyncAll makes everything durable. It is for setting up, and not an operation.
func (f *FS) SyncAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absorbAllLocked()
	f.mu.root.storeAll()
	f.mu.pending = nil
	f.mu.token = new(token) // content and stored share pages
}

func (n *node) storeAll() {
	n.stored, n.forgot, n.peak = n.content, false, n.content.size
	n.storedNames = maps.Clone(n.names)
	for _, below := range n.names {
		below.storeAll()
	}
}

// SetCapacity changes the size of the disk. If it is less than what is used,
// nothing can be added until enough has been removed.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.capacity = bytes
}

// Kill returns the file system as it is after the process was killed, or just as
// a copy: all that was written is there, and no less likely to be lost to a
// power cut than before. Nothing is open, mapped or locked, and there is no
// hook. f stays as it is.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absorbAllLocked()

	options := f.options
	options.Capacity = f.mu.capacity
	g := blank(options)
	f.mu.token = new(token) // from here on the pages belong to neither

	copies := map[*node]*node{}
	g.mu.root = f.mu.root.copyInto(copies)
	for _, c := range f.mu.pending {
		p := *c
		p.node = c.node.copyInto(copies)
		p.over = c.over.copyInto(copies)
		p.from.dir = c.from.dir.copyInto(copies)
		p.to.dir = c.to.dir.copyInto(copies)
		g.mu.pending = append(g.mu.pending, &p)
	}
	for _, n := range copies {
		if n.linked {
			g.mu.used += n.bytes()
		}
	}
	return g
}

// copyInto returns the copy of n and adds it, and what it leads to, to copies.
func (n *node) copyInto(copies map[*node]*node) *node {
	if n == nil {
		return nil
	}
	if c := copies[n]; c != nil {
		return c
	}
	c := &node{mode: n.mode, modified: n.modified, linked: n.linked,
		content: n.content, stored: n.stored, forgot: n.forgot, peak: n.peak}
	copies[n] = c
	if n.mode.IsDir() {
		c.names = copyNames(n.names, copies)
		c.storedNames = copyNames(n.storedNames, copies)
	}
	return c
}

func copyNames(names map[string]*node, copies map[*node]*node) map[string]*node {
	c := maps.Clone(names)
	for name, n := range c {
		c[name] = n.copyInto(copies)
	}
	return c
}

// begin announces an operation, numbers it, and returns with f.mu held.
func (f *FS) begin(op Op) Op {
	f.mu.Lock()
	f.mu.ops++
	op.N = f.mu.ops
	hook := f.mu.hook
	f.mu.Unlock()
	if hook != nil {
		f.runHook(hook, op)
	}
	f.mu.Lock()
	f.absorbAllLocked()
	return op
}

func (f *FS) runHook(hook func(Op), op Op) {
	f.hooks.Lock()
	defer f.hooks.Unlock() // a failing test leaves by runtime.Goexit
	hook(op)
}

// roomLocked reports whether so many bytes can be had.
func (f *FS) roomLocked(bytes int64) bool { return bytes <= f.mu.capacity-f.mu.used }
