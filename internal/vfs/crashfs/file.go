package crashfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seglog/seglog/internal/vfs"
)

// file is an open file.
type file struct {
	fs     *FS
	node   *node
	name   string
	flag   int
	closed bool // guarded by fs.mu
}

var _ vfs.File = (*file)(nil)

var (
	errNegative = errors.New("negative offset")
	errAppend   = errors.New("invalid use of WriteAt on file opened with O_APPEND")
)

func (f *file) Name() string { return f.name }

func (f *file) fail(op string, err error) error { return &fs.PathError{Op: op, Path: f.name, Err: err} }

// openLocked returns the error of using a closed file.
func (f *file) openLocked(op string) error {
	if f.closed {
		return f.fail(op, fs.ErrClosed)
	}
	return nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.openLocked("stat"); err != nil {
		return nil, err
	}
	return f.node.info(filepath.Base(f.name)), nil
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	read, _ := access(f.flag)
	switch {
	case off < 0:
		return 0, f.fail("readat", errNegative)
	case len(b) == 0:
		return 0, nil
	case f.closed:
		return 0, f.fail("read", fs.ErrClosed)
	case f.node.mode.IsDir():
		return 0, f.fail("read", syscall.EISDIR)
	case !read:
		return 0, f.fail("read", syscall.EBADF)
	}
	f.fs.absorbLocked(f.node)
	n := f.node.content.readAt(b, off)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. On a full disk it writes what fits.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	size := int64(len(b))
	op := f.fs.begin(Op{Kind: Write, Name: f.name, Off: off, Size: size})
	defer f.fs.mu.Unlock()
	_, write := access(f.flag)
	switch {
	case f.flag&os.O_APPEND != 0:
		return 0, errAppend
	case off < 0:
		return 0, f.fail("writeat", errNegative)
	case size == 0:
		return 0, nil
	case f.closed:
		return 0, f.fail("write", fs.ErrClosed)
	case !write:
		return 0, f.fail("write", syscall.EBADF)
	case off > maxFile-size:
		return 0, f.fail("write", syscall.EFBIG)
	}
	op.Size = f.fs.fitLocked(f.node, off, size)
	if op.Size > 0 {
		f.fs.writeLocked(op, f.node, bytes.Clone(b[:op.Size]))
	}
	if op.Size < size {
		return int(op.Size), f.fail("write", syscall.ENOSPC)
	}
	return len(b), nil
}

// fitLocked returns how much of a write there is room for.
func (f *FS) fitLocked(n *node, off, size int64) int64 {
	if f.roomLocked(n.content.holes(off, off+size) * pageSize) {
		return size
	}
	end := off
	for f.roomLocked(n.content.holes(off, end+1) * pageSize) {
		end = (end/pageSize + 1) * pageSize
	}
	return end - off
}

// writeLocked takes over data.
func (f *FS) writeLocked(op Op, n *node, data []byte) {
	c := &change{Op: op, node: n, data: data, before: n.content.size, overOld: op.Off < n.peak}
	n.growRegions(op.Off + op.Size)
	f.editLocked(n, func() { n.content.writeAt(f.mu.token, data, op.Off) })
	n.copyToRegions(data, op.Off, nil)
	c.after = n.content.size
	f.recordLocked(c)
}

// editLocked runs a change of a file's content and keeps what hangs on it.
func (f *FS) editLocked(n *node, edit func()) {
	blocks := n.content.blocks
	edit()
	f.mu.used += (n.content.blocks - blocks) * pageSize
	n.peak = max(n.peak, n.content.size)
	n.modified = f.options.Now()
}

// Truncate implements vfs.File. It needs no space.
func (f *file) Truncate(size int64) error {
	op := f.fs.begin(Op{Kind: Truncate, Name: f.name, Size: size})
	defer f.fs.mu.Unlock()
	if err := f.openLocked("truncate"); err != nil {
		return err
	}
	if _, write := access(f.flag); size < 0 || !write || f.node.mode.IsDir() {
		return f.fail("truncate", syscall.EINVAL)
	}
	if err := f.fs.truncateLocked(op, f.node, size); err != nil {
		return f.fail("truncate", err)
	}
	return nil
}

func (f *FS) truncateLocked(op Op, n *node, size int64) error {
	if f.options.WindowsLike && len(n.regions) > 0 {
		return vfs.ErrMapped
	}
	c := &change{Op: op, node: n, before: n.content.size, after: size}
	n.growRegions(size)
	n.clearRegions(size)
	f.editLocked(n, func() { n.content.truncate(f.mu.token, size) })
	if c.before != c.after {
		f.recordLocked(c)
	}
	return nil
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(size int64) error {
	op := f.fs.begin(Op{Kind: Preallocate, Name: f.name, Size: size})
	defer f.fs.mu.Unlock()
	if err := f.openLocked("preallocate"); err != nil {
		return err
	}
	if _, write := access(f.flag); size > 0 && (!write || f.node.mode.IsDir()) {
		return f.fail("preallocate", syscall.EBADF)
	}
	if err := f.fs.preallocateLocked(op, f.node); err != nil {
		return f.fail("preallocate", err)
	}
	return nil
}

func (f *FS) preallocateLocked(op Op, n *node) error {
	switch {
	case op.Size < 0:
		return fs.ErrInvalid
	case op.Size == 0:
		return nil
	case op.Size > maxFile:
		return syscall.EFBIG
	case !f.roomLocked(n.content.holes(0, op.Size) * pageSize):
		return syscall.ENOSPC
	}
	c := &change{Op: op, node: n, before: n.content.size}
	n.growRegions(op.Size)
	f.editLocked(n, func() { n.content.allocate(f.mu.token, op.Size) })
	c.after = n.content.size
	if c.before != c.after {
		f.recordLocked(c)
	}
	return nil
}

// Sync implements vfs.File. It makes stores through mappings durable too.
func (f *file) Sync() error {
	f.fs.begin(Op{Kind: Sync, Name: f.name})
	defer f.fs.mu.Unlock()
	if err := f.openLocked("sync"); err != nil {
		return err
	}
	if f.node.mode.IsDir() {
		f.fs.storeNamesLocked(f.node)
	} else {
		f.fs.storeLocked(f.node)
	}
	return nil
}

// Forget drops what has not been synced from what can become durable, as a
// kernel does after a failed sync: reads go on to see it, the next sync
// succeeds without it, and a power loss shows that it is gone. Wrappers call it
// by asserting interface{ Forget() }.
func (f *file) Forget() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.forgetLocked(f.node)
}

// Close implements io.Closer. It makes nothing durable.
func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.openLocked("close"); err != nil {
		return err
	}
	f.closed = true
	f.fs.releaseLocked(f.node)
	return nil
}
