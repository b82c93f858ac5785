package crashfs

import (
	"io/fs"
	"maps"
	"slices"
	"time"
)

// nodeBytes is what a file or directory costs without its content.
const nodeBytes = pageSize

// node is a file or a directory, whatever its names.
type node struct {
	mode     fs.FileMode
	modified time.Time
	linked   bool // has a name in the running system
	users    int  // open files, mappings and locks

	// Of a file. stored is what is durable.
	content, stored content

	// forgot means that changes were dropped from the list without becoming
	// durable. Then content is not what stored becomes by a sync.
	forgot bool

	// peak is the greatest length since the last sync.
	// Invariant: peak >= content.size, peak >= stored.size.
	peak int64

	regions   []*region
	exclusive bool // locked
	shared    int

	// Of a directory. storedNames is what is durable.
	names, storedNames map[string]*node
}

func dirMode(perm fs.FileMode) fs.FileMode { return fs.ModeDir | perm.Perm() }

func (n *node) bytes() int64 { return nodeBytes + n.content.blocks*pageSize }

func (n *node) info(name string) fs.FileInfo {
	return fileInfo{name: name, size: n.content.size, mode: n.mode, modified: n.modified}
}

// fileInfo is an fs.FileInfo, and its own fs.DirEntry would be a copy of
// fs.FileInfoToDirEntry.
type fileInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.modified }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

// entry is a name in a directory.
type entry struct {
	dir  *node
	name string
}

// change is an operation that a power loss may undo.
type change struct {
	Op
	node *node // the file; of a name operation, what is named

	// Of a file. before and after are its length; data are the bytes written
	// at Off, which no one changes.
	data          []byte
	before, after int64

	// overOld means that bytes may be seen even if the length of this change
	// is not kept, because the file was longer before.
	overOld bool

	// Of a name: what goes away and what comes, a dir of nil being nothing, and
	// the file that had the name which comes.
	from, to entry
	over     *node
}

func (c *change) isName() bool { return c.from.dir != nil || c.to.dir != nil }

// moves reports whether something goes from one directory to another.
func (c *change) moves() bool {
	return c.from.dir != nil && c.to.dir != nil && c.from.dir != c.to.dir
}

// view is the names on a disk: the stored ones of each directory, or what has
// been edited of them.
type view struct {
	root   *node
	edited map[*node]map[string]*node // nil: the stored ones are edited themselves
}

func sketch(root *node) view { return view{root: root, edited: map[*node]map[string]*node{}} }

func (v view) names(dir *node) map[string]*node {
	if names, ok := v.edited[dir]; ok {
		return names
	}
	return dir.storedNames
}

func (v view) edit(dir *node) map[string]*node {
	if v.edited == nil {
		return dir.storedNames
	}
	names, ok := v.edited[dir]
	if !ok {
		names = maps.Clone(dir.storedNames)
		v.edited[dir] = names
	}
	return names
}

// apply carries out a name operation if it makes sense.
func (c *change) apply(v view) bool {
	if c.from.dir != nil && v.names(c.from.dir)[c.from.name] != c.node {
		return false
	}
	if c.to.dir == nil {
		if c.node.mode.IsDir() && len(v.names(c.node)) > 0 {
			return false
		}
		delete(v.edit(c.from.dir), c.from.name)
		return true
	}
	if there := v.names(c.to.dir)[c.to.name]; there != nil && there != c.over {
		return false // it would replace what was moved away before
	}
	if c.node.mode.IsDir() && v.inside(c.node, c.to.dir) {
		return false
	}
	if c.moves() && !v.inside(v.root, c.to.dir) {
		return false // it would take the file out of the tree
	}
	if c.from.dir != nil {
		delete(v.edit(c.from.dir), c.from.name)
	}
	v.edit(c.to.dir)[c.to.name] = c.node
	return true
}

// inside reports whether dir is top or lies below it.
func (v view) inside(top, dir *node) bool {
	if top == dir {
		return true
	}
	for _, n := range v.names(top) {
		if n.mode.IsDir() && v.inside(n, dir) {
			return true
		}
	}
	return false
}

// recordLocked adds to what a power loss may undo.
func (f *FS) recordLocked(c *change) { f.mu.pending = append(f.mu.pending, c) }

// storeLocked makes a file durable.
func (f *FS) storeLocked(n *node) {
	if n.forgot {
		for _, c := range f.mu.pending {
			if c.node == n && !c.isName() {
				c.keep(&n.stored, f.mu.token, whole)
			}
		}
	} else {
		n.stored = n.content
		f.mu.token = new(token) // the pages are shared now
	}
	f.dropLocked(n)
}

// dropLocked removes the changes of a file from the list.
func (f *FS) dropLocked(n *node) {
	f.mu.pending = slices.DeleteFunc(f.mu.pending, func(c *change) bool { return c.node == n && !c.isName() })
	n.peak = max(n.content.size, n.stored.size)
}

// forgetLocked is what a kernel does whose sync failed: the changes stay in its
// cache, count as written, and no later sync writes them.
func (f *FS) forgetLocked(n *node) {
	f.absorbAllLocked()
	n.forgot = true
	f.dropLocked(n)
}

// storeNamesLocked makes the names in dir durable, and what they depend on.
func (f *FS) storeNamesLocked(dir *node) {
	d := dependencies{dirs: map[*node]bool{dir: true}, entries: map[entry]bool{}, nodes: map[*node]bool{}}
	var durable []*change
	for _, c := range slices.Backward(f.mu.pending) {
		if c.isName() && d.include(c) {
			d.add(c)
			durable = append(durable, c)
		}
	}
	if len(durable) == 0 {
		return
	}
	for _, c := range slices.Backward(durable) {
		c.apply(view{root: f.mu.root})
	}
	f.mu.pending = slices.DeleteFunc(f.mu.pending, func(c *change) bool { return slices.Contains(durable, c) })
	f.dropUnreachableLocked()
}

// dependencies collects, from the last to the first, the name operations that
// make no sense unless others are durable before them.
type dependencies struct {
	dirs    map[*node]bool // all there is in them
	entries map[entry]bool // of other directories: where a file came from
	nodes   map[*node]bool // directories that must be there
}

func (d *dependencies) include(c *change) bool {
	return d.dirs[c.from.dir] || d.dirs[c.to.dir] || d.entries[c.from] || d.entries[c.to] || d.nodes[c.node]
}

func (d *dependencies) add(c *change) {
	if c.from.dir != nil {
		d.entries[c.from] = true
	}
	if c.to.dir != nil {
		d.entries[c.to] = true
	}
	if c.to.dir == nil && c.node.mode.IsDir() {
		d.dirs[c.node] = true // was emptied before it was removed
	}
	if c.moves() || d.nodes[c.node] {
		d.nodes[c.to.dir] = true
	}
}

// dropUnreachableLocked removes the changes of files that no name on the disk
// leads to, nor one that is yet to be durable.
func (f *FS) dropUnreachableLocked() {
	reached := map[*node]bool{}
	var reach func(n *node)
	reach = func(n *node) {
		if n == nil || reached[n] {
			return
		}
		reached[n] = true
		for _, below := range n.storedNames {
			reach(below)
		}
	}
	reach(f.mu.root)
	for _, c := range f.mu.pending {
		if c.isName() {
			reach(c.node)
			reach(c.from.dir)
			reach(c.to.dir)
		}
	}
	f.mu.pending = slices.DeleteFunc(f.mu.pending, func(c *change) bool { return !c.isName() && !reached[c.node] })
}
