package crashfs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/seglog/seglog/internal/vfs"
)

// region is memory that is a part of a file, most often its beginning. Mappings are
// slices of it.
type region struct {
	name    string // of the file, as the first mapping's was opened
	start   int64  // where in the file, a multiple of a page
	memory  []byte // whole pages
	maps    int
	writers int // of maps
}

// storesKept is how many contents of one mapped page, between two syncs, a power
// loss may bring back, beside the synced one: the first ones and the last.
const storesKept = 4

// Map implements vfs.File. It is an operation only where it may extend the file.
func (f *file) Map(length int, writable bool) (vfs.Mapping, error) {
	switch {
	case length < 0:
		return nil, f.fail("map", fs.ErrInvalid)
	case length == 0:
		return &mapping{}, nil
	}
	op := Op{Kind: Preallocate, Name: f.name, Size: int64(length)}
	if f.fs.options.WindowsLike && writable {
		op = f.fs.begin(op)
	} else {
		f.fs.mu.Lock()
	}
	defer f.fs.mu.Unlock()
	if err := f.openLocked("map"); err != nil {
		return nil, err
	}
	m, err := f.mapLocked(op, 0, int64(length), writable)
	if err != nil {
		return nil, f.fail("map", err)
	}
	return m, nil
}

// MapAhead is what vfs.MapAhead calls.
func (f *file) MapAhead(from, to int64) (vfs.Mapping, error) {
	if from < 0 || to <= from {
		return nil, f.fail("map", fs.ErrInvalid)
	}
	if f.fs.options.WindowsLike {
		return nil, f.fail("map", errors.ErrUnsupported)
	}
	if err := f.Preallocate(to); err != nil {
		return nil, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.openLocked("map"); err != nil {
		return nil, err
	}
	m, err := f.mapLocked(Op{}, from, to, true)
	if err != nil {
		return nil, f.fail("map", err)
	}
	return m, nil
}

// mapLocked maps the bytes [from, to).
func (f *file) mapLocked(op Op, from, to int64, writable bool) (*mapping, error) {
	read, write := access(f.flag)
	n := f.node
	switch {
	case n.mode.IsDir():
		return nil, syscall.ENODEV
	case !read || writable && !write:
		return nil, syscall.EACCES
	}
	if f.fs.options.WindowsLike && op.Size > n.content.size {
		if !writable {
			return nil, syscall.EINVAL
		}
		if err := f.fs.preallocateLocked(op, n); err != nil {
			return nil, err
		}
	}
	f.fs.absorbLocked(n)
	r := n.regionFor(f.name, from, to)
	r.maps++
	if writable {
		r.writers++
	}
	if !slices.Contains(f.fs.mu.mapped, n) {
		f.fs.mu.mapped = append(f.fs.mu.mapped, n)
	}
	n.users++
	return &mapping{file: f, region: r, bytes: r.memory[from-r.start : to-r.start : to-r.start], writable: writable}, nil
}

// regionFor returns memory that is the bytes [from, to) of n, and perhaps more.
func (n *node) regionFor(name string, from, to int64) *region {
	for _, r := range n.regions {
		if r.start <= from && to <= r.end() {
			return r
		}
	}
	r := &region{name: name, start: from / pageSize * pageSize}
	r.memory = make([]byte, pages(to)*pageSize-r.start)
	n.content.readAt(r.memory, r.start)
	n.regions = append(n.regions, r)
	return r
}

func (r *region) end() int64 { return r.start + int64(len(r.memory)) }

// absorbAllLocked finds out what was stored through mappings.
func (f *FS) absorbAllLocked() {
	for _, n := range f.mu.mapped {
		f.absorbLocked(n)
	}
}

func (f *FS) absorbLocked(n *node) {
	for _, r := range n.regions {
		end := min(n.content.size, r.end())
		for off := r.start; off < end; off += pageSize {
			stored := r.between(off, min(off+pageSize, end))
			if !equalMemory(stored, n.content.page(off / pageSize).data[:len(stored)]) {
				f.absorbPageLocked(n, r, stored, off)
			}
		}
		next := pages(n.content.size) * pageSize
		requireUntouched(r.between(next, next+pageSize))
	}
}

// absorbPageLocked makes a store an operation.
func (f *FS) absorbPageLocked(n *node, r *region, stored []byte, off int64) {
	if r.writers == 0 {
		panic("crashfs: store through a read-only mapping, where a real system raises a segmentation fault")
	}
	if n.content.hole(off/pageSize) && !f.roomLocked(pageSize) {
		panic("crashfs: store to a mapped hole on a full disk, where a real system raises a bus error")
	}
	data := make([]byte, len(stored))
	copyMemory(data, stored) // it may change again meanwhile
	f.editLocked(n, func() { n.content.writeAt(f.mu.token, data, off) })
	n.copyToRegions(data, off, r)

	kept, last := 0, 0
	for i, c := range f.mu.pending {
		if c.node == n && c.Kind == Store && c.Off == off {
			kept, last = kept+1, i
		}
	}
	if kept >= storesKept {
		f.mu.pending = slices.Delete(f.mu.pending, last, last+1)
	}
	f.recordLocked(&change{
		Op:   Op{N: f.mu.ops, Kind: Store, Name: r.name, Off: off, Size: int64(len(data))},
		node: n, data: data, before: n.content.size, after: n.content.size,
	})
}

// between returns the memory of [from, to) as far as there is some.
func (r *region) between(from, to int64) []byte {
	length := int64(len(r.memory))
	from = max(0, min(from-r.start, length))
	return r.memory[from:max(from, min(to-r.start, length))]
}

// growRegions prepares for a file that becomes size bytes long.
func (n *node) growRegions(size int64) {
	old := n.content.size
	if size <= old {
		return
	}
	for _, r := range n.regions {
		// What was stored behind the end, in its page, was never in the file.
		clearMemory(r.between(old, pages(old)*pageSize))
		requireUntouched(r.between(pages(old)*pageSize, pages(size)*pageSize))
	}
}

// clearRegions prepares for a file that becomes size bytes short.
func (n *node) clearRegions(size int64) {
	for _, r := range n.regions {
		if size < n.content.size {
			clearMemory(r.between(size, n.content.size))
		}
	}
}

// copyToRegions shows data to all mappings, except those of the region it comes
// from, where there may be something newer already.
func (n *node) copyToRegions(data []byte, off int64, except *region) {
	for _, r := range n.regions {
		if r != except {
			part := data[max(0, min(r.start-off, int64(len(data)))):]
			copyMemory(r.between(off, off+int64(len(data))), part)
		}
	}
}

func requireUntouched(memory []byte) {
	for len(memory) > 0 {
		part := memory[:min(len(memory), pageSize)]
		if !equalMemory(part, zeroPage.data[:len(part)]) {
			panic("crashfs: store to a mapped page beyond the end of the file, where a real system raises a bus error")
		}
		memory = memory[len(part):]
	}
}

// The race detector is kept away from what only a kernel would do: it looks at
// mapped memory and changes it whenever it likes. Stores and loads of the
// program under test are still checked against each other. copy, clear and
// comparing as strings are not kept away by the directive, hence the loops.

//go:norace
func equalMemory(a, b []byte) bool {
	i := 0
	for ; i+8 <= len(a); i += 8 {
		if binary.NativeEndian.Uint64(a[i:]) != binary.NativeEndian.Uint64(b[i:]) {
			return false
		}
	}
	for ; i < len(a); i++ {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

//go:norace
func copyMemory(to, from []byte) {
	i, n := 0, min(len(to), len(from))
	for ; i+8 <= n; i += 8 {
		binary.NativeEndian.PutUint64(to[i:], binary.NativeEndian.Uint64(from[i:]))
	}
	for ; i < n; i++ {
		to[i] = from[i]
	}
}

//go:norace
func clearMemory(memory []byte) {
	for i := range memory {
		memory[i] = 0
	}
}

// mapping is one call of Map. The zero value is an empty one.
type mapping struct {
	file     *file
	region   *region
	bytes    []byte
	writable bool
}

func (m *mapping) Bytes() []byte { return m.bytes }

// Flush implements vfs.Mapping. It is a sync of the whole file.
func (m *mapping) Flush() error {
	if m.bytes == nil || !m.writable {
		return nil
	}
	f := m.file.fs
	f.begin(Op{Kind: Flush, Name: m.file.name})
	defer f.mu.Unlock()
	if err := m.file.openLocked("flush mapping"); err != nil {
		return err
	}
	f.storeLocked(m.file.node)
	return nil
}

// Forget is that of the file.
func (m *mapping) Forget() {
	if m.bytes != nil {
		m.file.Forget()
	}
}

func (m *mapping) Unmap() error {
	if m.bytes == nil {
		return nil
	}
	f, n, r := m.file.fs, m.file.node, m.region
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absorbLocked(n)
	m.bytes = nil
	r.maps--
	if m.writable {
		r.writers--
	}
	if r.maps == 0 {
		n.regions = slices.DeleteFunc(n.regions, func(other *region) bool { return other == r })
		requireUntouched(r.between(pages(n.content.size)*pageSize, r.end()))
	}
	if len(n.regions) == 0 {
		f.mu.mapped = slices.DeleteFunc(f.mu.mapped, func(other *node) bool { return other == n })
	}
	f.releaseLocked(n)
	return nil
}
