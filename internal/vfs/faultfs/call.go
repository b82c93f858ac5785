package faultfs

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is a kind of call: a method of vfs.FS, vfs.File, vfs.Mapping or a lock.
type Kind int

const (
	Open   Kind = iota + 1 // OpenFile without os.O_CREATE
	Create                 // OpenFile with os.O_CREATE, whether the file exists or not
	Read
	Write
	Truncate
	Preallocate
	Sync
	Close
	Map
	Flush
	Unmap
	Stat // of a name or a file
	ReadDir
	Mkdir
	Rename
	Remove
	SyncDir
	Lock
	Unlock
	FreeSpace
	SetModTime
)

var kindNames = [...]string{Open: "open", Create: "create", Read: "read", Write: "write", Truncate: "truncate",
	Preallocate: "preallocate", Sync: "sync", Close: "close", Map: "map", Flush: "flush", Unmap: "unmap", Stat: "stat",
	ReadDir: "read dir", Mkdir: "mkdir", Rename: "rename", Remove: "remove", SyncDir: "sync dir", Lock: "lock",
	Unlock: "unlock", FreeSpace: "free space", SetModTime: "set mod time"}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", int(k))
}

// transfers reports whether calls of this kind move bytes.
func (k Kind) transfers() bool { return k == Read || k == Write }

// Call is one call.
type Call struct {
	N       int // counts calls of all kinds, from 1
	Kind    Kind
	Name    string // of a file, the name it was opened with
	NewName string // of a Rename
	Off     int64  // of a Read or a Write: where
	Size    int64  // of a Read or a Write: how many bytes; Truncate, Preallocate, Map: what length
}

func (c Call) String() string {
	switch c.Kind {
	case Rename:
		return fmt.Sprintf("#%d rename %s to %s", c.N, c.Name, c.NewName)
	case Read, Write:
		return fmt.Sprintf("#%d %s %s [%d,%d)", c.N, c.Kind, c.Name, c.Off, c.Off+c.Size)
	case Truncate, Preallocate, Map:
		return fmt.Sprintf("#%d %s %s to %d", c.N, c.Kind, c.Name, c.Size)
	}
	return fmt.Sprintf("#%d %s %s", c.N, c.Kind, c.Name)
}

// Match says which calls a rule is about.
type Match struct {
	kinds    []Kind
	pattern  string
	since    int
	from, to int // counting the calls it is about from 1; to of 0 is no end
}

// Op matches calls of any of these kinds, or of all if there are none.
func Op(kinds ...Kind) Match { return Match{kinds: kinds} }

// Name narrows m to files whose name matches the pattern of path.Match. Without
// a slash it is compared with the last element of the name, else with all of it.
// Of a rename either name will do. It panics if the pattern is malformed.
func (m Match) Name(pattern string) Match {
	if _, err := path.Match(pattern, ""); err != nil {
		panic(fmt.Sprintf("faultfs: pattern %q: %v", pattern, err))
	}
	m.pattern = pattern
	return m
}

// Nth narrows m to its nth call, counting from 1.
func (m Match) Nth(n int) Match {
	m.from, m.to = n, n
	return m
}

// From narrows m to its nth call and all later ones.
func (m Match) From(n int) Match {
	m.from, m.to = n, 0
	return m
}

// Since narrows m to calls whose number, as in Call.N, is n or more. Nth and
// From count from there.
func (m Match) Since(n int) Match {
	m.since = n
	return m
}

// about reports whether m counts c.
func (m Match) about(c Call) bool {
	if c.N < m.since || len(m.kinds) > 0 && !slices.Contains(m.kinds, c.Kind) {
		return false
	}
	return m.pattern == "" || m.names(c.Name) || c.Kind == Rename && m.names(c.NewName)
}

func (m Match) names(name string) bool {
	name = filepath.ToSlash(filepath.Clean(name))
	if !strings.Contains(m.pattern, "/") {
		name = path.Base(name)
	}
	matched, _ := path.Match(m.pattern, name) // the pattern is well formed
	return matched
}

// selects reports whether the nth call m is about is one it wants.
func (m Match) selects(n int) bool { return n >= m.from && (m.to == 0 || n <= m.to) }
