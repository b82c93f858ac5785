package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/seglog/seglog/internal/vfs"
)

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	kind := Open
	if flag&os.O_CREATE != 0 {
		kind = Create
	}
	if o := f.call(Call{Kind: kind, Name: name}); o.err != nil {
		return nil, pathError("open", name, o.err)
	}
	inner, err := f.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	f.count(&f.mu.open, 1)
	return &file{File: inner, fs: f}, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if o := f.call(Call{Kind: Stat, Name: name}); o.err != nil {
		return nil, pathError("stat", name, o.err)
	}
	return f.inner.Stat(name)
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if o := f.call(Call{Kind: ReadDir, Name: name}); o.err != nil {
		return nil, pathError("readdirent", name, o.err)
	}
	return f.inner.ReadDir(name)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if o := f.call(Call{Kind: Mkdir, Name: name}); o.err != nil {
		return pathError("mkdir", name, o.err)
	}
	return f.inner.MkdirAll(name, perm)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	if o := f.call(Call{Kind: Rename, Name: oldname, NewName: newname}); o.err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: o.err}
	}
	return f.inner.Rename(oldname, newname)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if o := f.call(Call{Kind: Remove, Name: name}); o.err != nil {
		return pathError("remove", name, o.err)
	}
	return f.inner.Remove(name)
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	if o := f.call(Call{Kind: SyncDir, Name: name}); o.err != nil {
		return pathError("sync", name, o.err)
	}
	return f.inner.SyncDir(name)
}

// SetModTime implements vfs.FS.
func (f *FS) SetModTime(name string, t time.Time) error {
	if o := f.call(Call{Kind: SetModTime, Name: name}); o.err != nil {
		return pathError("chtimes", name, o.err)
	}
	return f.inner.SetModTime(name, t)
}

// FreeSpace implements vfs.FS.
func (f *FS) FreeSpace(dir string) (int64, error) {
	if o := f.call(Call{Kind: FreeSpace, Name: dir}); o.err != nil {
		return 0, pathError("free space", dir, o.err)
	}
	return f.inner.FreeSpace(dir)
}

// Lock implements vfs.FS. A failure with vfs.ErrLocked is a *vfs.LockError.
func (f *FS) Lock(name string, mode vfs.LockMode) (io.Closer, error) {
	if o := f.call(Call{Kind: Lock, Name: name}); o.err == vfs.ErrLocked {
		return nil, &vfs.LockError{Name: name}
	} else if o.err != nil {
		return nil, pathError("lock", name, o.err)
	}
	inner, err := f.inner.Lock(name, mode)
	if err != nil {
		return nil, err
	}
	f.count(&f.mu.locked, 1)
	return &lock{Closer: inner, fs: f, name: name}, nil
}

// LockHeld is what vfs.LockHeld calls. It is no call by itself.
func (f *FS) LockHeld(name string) (bool, error) { return vfs.LockHeld(f.inner, name) }

// Abs is what vfs.Abs calls. It is no call by itself.
func (f *FS) Abs(name string) (string, error) { return vfs.Abs(f.inner, name) }

type lock struct {
	io.Closer
	fs   *FS
	name string
}

// Named is what vfs.LockNamed calls. It is no call by itself.
func (l *lock) Named() (bool, error) { return vfs.LockNamed(l.Closer) }

func (l *lock) Close() error {
	o := l.fs.call(Call{Kind: Unlock, Name: l.name})
	return finish("close", l.name, o.err, l.Closer.Close(), func() { l.fs.count(&l.fs.mu.locked, -1) })
}

// finish ends something. An error of the rule does not keep it from ending.
func finish(op, name string, injected, err error, ended func()) error {
	if err == nil {
		ended()
	}
	if injected != nil {
		return errors.Join(pathError(op, name, injected), err)
	}
	return err
}

// file is an open file. The method it does not wrap is Name.
type file struct {
	vfs.File
	fs *FS
}

func (f *file) call(c Call) outcome {
	c.Name = f.Name()
	return f.fs.call(c)
}

func (f *file) Stat() (fs.FileInfo, error) {
	if o := f.call(Call{Kind: Stat}); o.err != nil {
		return nil, pathError("stat", f.Name(), o.err)
	}
	return f.File.Stat()
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	o := f.call(Call{Kind: Read, Off: off, Size: int64(len(b))})
	return o.transfer("read", f.Name(), b, func(b []byte) (int, error) { return f.File.ReadAt(b, off) })
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	o := f.call(Call{Kind: Write, Off: off, Size: int64(len(b))})
	return o.transfer("write", f.Name(), b, func(b []byte) (int, error) { return f.File.WriteAt(b, off) })
}

// transfer moves as many bytes as o allows.
func (o outcome) transfer(op, name string, b []byte, move func([]byte) (int, error)) (int, error) {
	n, err := 0, error(nil)
	switch {
	case o.limited:
		n, err = move(b[:min(len(b), max(0, o.limit))])
	case o.err == nil:
		return move(b)
	}
	if err == nil && o.err != nil {
		err = pathError(op, name, o.err)
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	if o := f.call(Call{Kind: Truncate, Size: size}); o.err != nil {
		return pathError("truncate", f.Name(), o.err)
	}
	return f.File.Truncate(size)
}

func (f *file) Preallocate(size int64) error {
	if o := f.call(Call{Kind: Preallocate, Size: size}); o.err != nil {
		return pathError("preallocate", f.Name(), o.err)
	}
	return f.File.Preallocate(size)
}

func (f *file) Sync() error {
	if o := f.call(Call{Kind: Sync}); o.err != nil {
		o.drop(f.File)
		return pathError("sync", f.Name(), o.err)
	}
	return f.File.Sync()
}

// drop has a file or a mapping forget what is not durable.
func (o outcome) drop(inner any) {
	if forgetful, ok := inner.(interface{ Forget() }); ok && o.forget {
		forgetful.Forget()
	}
}

func (f *file) Close() error {
	o := f.call(Call{Kind: Close})
	return finish("close", f.Name(), o.err, f.File.Close(), func() { f.fs.count(&f.fs.mu.open, -1) })
}

func (f *file) Map(length int, writable bool) (vfs.Mapping, error) {
	if o := f.call(Call{Kind: Map, Size: int64(length)}); o.err != nil {
		return nil, pathError("map", f.Name(), o.err)
	}
	inner, err := f.File.Map(length, writable)
	if err != nil {
		return nil, err
	}
	m := &mapping{Mapping: inner, fs: f.fs, name: f.Name()}
	f.fs.count(&f.fs.mu.mapped, m.weight())
	return m, nil
}

// MapAhead is what vfs.MapAhead calls, and two calls here: if the second fails the first
// was carried out.
func (f *file) MapAhead(from, to int64) (vfs.Mapping, error) {
	if o := f.call(Call{Kind: Preallocate, Size: to}); o.err != nil {
		return nil, pathError("preallocate", f.Name(), o.err)
	}
	failed := f.call(Call{Kind: Map, Size: to - from})
	inner, err := vfs.MapAhead(f.File, from, to)
	if err != nil {
		return nil, err
	}
	if failed.err != nil {
		return nil, errors.Join(pathError("map", f.Name(), failed.err), inner.Unmap())
	}
	m := &mapping{Mapping: inner, fs: f.fs, name: f.Name()}
	f.fs.count(&f.fs.mu.mapped, m.weight())
	return m, nil
}

// mapping is one mapping. The method it does not wrap is Bytes.
type mapping struct {
	vfs.Mapping
	fs   *FS
	name string
}

// weight is what m adds to the count: an empty mapping, and one that was
// unmapped, is none.
func (m *mapping) weight() int { return min(1, len(m.Bytes())) }

func (m *mapping) Flush() error {
	if o := m.fs.call(Call{Kind: Flush, Name: m.name}); o.err != nil {
		o.drop(m.Mapping)
		return pathError("flush mapping", m.name, o.err)
	}
	return m.Mapping.Flush()
}

func (m *mapping) Unmap() error {
	o := m.fs.call(Call{Kind: Unmap, Name: m.name})
	weight := m.weight()
	return finish("unmap", m.name, o.err, m.Mapping.Unmap(), func() { m.fs.count(&m.fs.mu.mapped, -weight) })
}
