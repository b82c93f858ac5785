package crashfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seglog/seglog/internal/vfs"
)

// clean returns name as seen from the root, without a slash in front. The root
// is the empty string.
func clean(name string) string {
	name = filepath.ToSlash(name[len(filepath.VolumeName(name)):])
	return path.Clean("/" + name)[1:]
}

// findLocked returns what name names.
func (f *FS) findLocked(name string) (*node, error) {
	if name == "" {
		return nil, syscall.ENOENT
	}
	return f.walkLocked(clean(name))
}

func (f *FS) walkLocked(cleaned string) (*node, error) {
	n := f.mu.root
	if cleaned == "" {
		return n, nil
	}
	for part := range strings.SplitSeq(cleaned, "/") {
		if !n.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[part]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// entryLocked returns the place for name. The file itself need not exist.
func (f *FS) entryLocked(name string) (entry, error) {
	if name == "" {
		return entry{}, syscall.ENOENT
	}
	parent, base := path.Split(clean(name))
	if base == "" {
		return entry{}, syscall.EBUSY // the root
	}
	dir, err := f.walkLocked(strings.TrimSuffix(parent, "/"))
	switch {
	case err != nil:
		return entry{}, err
	case !dir.mode.IsDir():
		return entry{}, syscall.ENOTDIR
	}
	return entry{dir, base}, nil
}

func (e entry) node() *node { return e.dir.names[e.name] }

// writable returns the error of adding and removing names in e.dir.
func (e entry) writable() error {
	if e.dir.mode.Perm()&0o200 == 0 {
		return syscall.EACCES
	}
	return nil
}

// Stat implements vfs.FS. Sys is nil, so os.SameFile does not work on it.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findLocked(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return n.info(filepath.Base(name)), nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findLocked(name)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var entries []fs.DirEntry
	for base, n := range n.names {
		entries = append(entries, fs.FileInfoToDirEntry(n.info(base)))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// MkdirAll implements vfs.FS. Each directory made is an operation.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if name == "" {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOENT}
	}
	name = filepath.Clean(name)
	for end := range len(name) + 1 {
		if end < len(name) && !os.IsPathSeparator(name[end]) {
			continue
		}
		if err := f.mkdir(name[:end], perm); err != nil {
			return &fs.PathError{Op: "mkdir", Path: name[:end], Err: err}
		}
	}
	return nil
}

func (f *FS) mkdir(name string, perm fs.FileMode) error {
	f.mu.Lock()
	n, err := f.walkLocked(clean(name))
	f.mu.Unlock()
	switch {
	case err == nil && n.mode.IsDir():
		return nil
	case err == nil:
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	op := f.begin(Op{Kind: Mkdir, Name: name})
	defer f.mu.Unlock()
	at, err := f.entryLocked(name)
	if err != nil {
		return err
	}
	if n := at.node(); n != nil && n.mode.IsDir() {
		return nil // someone else was faster
	}
	_, err = f.createLocked(op, at, dirMode(perm))
	return err
}

// createLocked makes a new file or directory.
func (f *FS) createLocked(op Op, at entry, mode fs.FileMode) (*node, error) {
	if err := at.writable(); err != nil {
		return nil, err
	}
	if at.node() != nil {
		return nil, syscall.EEXIST
	}
	if !f.roomLocked(nodeBytes) {
		return nil, syscall.ENOSPC
	}
	f.mu.used += nodeBytes
	n := &node{mode: mode, modified: f.options.Now(), linked: true}
	if mode.IsDir() {
		n.names, n.storedNames = map[string]*node{}, map[string]*node{}
	}
	at.dir.names[at.name] = n
	at.dir.modified = n.modified
	f.recordLocked(&change{Op: op, node: n, to: at})
	return n, nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	op := f.begin(Op{Kind: Rename, Name: oldname, NewName: newname})
	defer f.mu.Unlock()
	if err := f.renameLocked(op); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (f *FS) renameLocked(op Op) error {
	from, err := f.entryLocked(op.Name)
	if err != nil {
		return err
	}
	to, err := f.entryLocked(op.NewName)
	if err != nil {
		return err
	}
	n, over := from.node(), to.node()
	switch {
	case n == nil:
		return syscall.ENOENT
	case over != nil && over.mode.IsDir():
		return syscall.EEXIST
	case over == n:
		return nil
	case n.mode.IsDir() && n.leadsTo(to.dir):
		return syscall.EINVAL
	case over != nil && n.mode.IsDir():
		return syscall.ENOTDIR
	case f.options.WindowsLike && (n.inUse() || over != nil && over.inUse()):
		return ErrInUse
	}
	if err := errors.Join(from.writable(), to.writable()); err != nil {
		return err
	}
	delete(from.dir.names, from.name)
	to.dir.names[to.name] = n
	from.dir.modified = f.options.Now()
	to.dir.modified = from.dir.modified
	if over != nil {
		f.unlinkLocked(over)
	}
	f.recordLocked(&change{Op: op, node: n, from: from, to: to, over: over})
	return nil
}

// leadsTo reports whether dir is n or lies below it.
func (n *node) leadsTo(dir *node) bool {
	if n == dir {
		return true
	}
	for _, below := range n.names {
		if below.mode.IsDir() && below.leadsTo(dir) {
			return true
		}
	}
	return false
}

// inUse reports whether n, or something below it, is open, mapped or locked.
func (n *node) inUse() bool {
	if n.users > 0 {
		return true
	}
	for _, below := range n.names {
		if below.inUse() {
			return true
		}
	}
	return false
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	op := f.begin(Op{Kind: Remove, Name: name})
	defer f.mu.Unlock()
	if err := f.removeLocked(op); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

func (f *FS) removeLocked(op Op) error {
	at, err := f.entryLocked(op.Name)
	if err != nil {
		return err
	}
	n := at.node()
	switch {
	case n == nil:
		return syscall.ENOENT
	case len(n.names) > 0:
		return syscall.ENOTEMPTY
	case f.options.WindowsLike && n.inUse():
		return ErrInUse
	}
	if err := at.writable(); err != nil {
		return err
	}
	delete(at.dir.names, at.name)
	at.dir.modified = f.options.Now()
	f.unlinkLocked(n)
	f.recordLocked(&change{Op: op, node: n, from: at})
	return nil
}

func (f *FS) unlinkLocked(n *node) {
	n.linked = false
	f.freeLocked(n)
}

// freeLocked gives back the space of what has neither a name nor a user.
func (f *FS) freeLocked(n *node) {
	if !n.linked && n.users == 0 {
		f.mu.used -= n.bytes()
	}
}

func (f *FS) releaseLocked(n *node) {
	n.users--
	f.freeLocked(n)
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	f.begin(Op{Kind: SyncDir, Name: name})
	defer f.mu.Unlock()
	n, err := f.findLocked(name)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	f.storeNamesLocked(n)
	return nil
}

// SetModTime implements vfs.FS. It is durable at once, and no operation: a time is
// nothing that a power loss could tear.
func (f *FS) SetModTime(name string, t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findLocked(name)
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: name, Err: err}
	}
	n.modified = t
	return nil
}

// FreeSpace implements vfs.FS.
func (f *FS) FreeSpace(dir string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.findLocked(dir); err != nil {
		return 0, &fs.PathError{Op: "free space", Path: dir, Err: err}
	}
	return max(0, f.mu.capacity-f.mu.used), nil
}

// OpenFile implements vfs.FS. Permissions are those of an ordinary user who
// owns everything, without a umask.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	n, err := f.open(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &file{fs: f, node: n, name: name, flag: flag}, nil
}

// open returns the node with one user more. It is an operation only if it
// changes the disk.
func (f *FS) open(name string, flag int, perm fs.FileMode) (*node, error) {
	f.mu.Lock()
	n, err := f.findLocked(name)
	create := flag&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist)
	cut := err == nil && flag&os.O_TRUNC != 0 && n.content.size > 0
	if !create && !cut {
		defer f.mu.Unlock()
		return n, f.useLocked(n, err, flag)
	}
	f.mu.Unlock()

	kind := Create
	if cut {
		kind = Truncate
	}
	op := f.begin(Op{Kind: kind, Name: name})
	defer f.mu.Unlock()
	n, err = f.findLocked(name)
	if flag&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist) {
		at, err := f.entryLocked(name)
		if err != nil {
			return nil, err
		}
		op.Kind = Create
		n, err := f.createLocked(op, at, perm.Perm())
		if err == nil {
			n.users++ // whatever perm says
		}
		return n, err
	}
	if err := f.useLocked(n, err, flag); err != nil {
		return nil, err
	}
	if flag&os.O_TRUNC != 0 && n.content.size > 0 {
		op.Kind = Truncate
		if err := f.truncateLocked(op, n, 0); err != nil {
			f.releaseLocked(n)
			return nil, err
		}
	}
	return n, nil
}

// useLocked counts a user of the existing n, if flag allows it.
func (f *FS) useLocked(n *node, err error, flag int) error {
	if err != nil {
		return err
	}
	read, write := access(flag)
	switch {
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return syscall.EEXIST
	case n.mode.IsDir() && (write || flag&(os.O_CREATE|os.O_TRUNC) != 0):
		return syscall.EISDIR
	case read && n.mode.Perm()&0o400 == 0, (write || flag&os.O_TRUNC != 0) && n.mode.Perm()&0o200 == 0:
		return syscall.EACCES
	}
	n.users++
	return nil
}

func access(flag int) (read, write bool) {
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_WRONLY:
		return false, true
	case os.O_RDWR:
		return true, true
	}
	return true, false
}
