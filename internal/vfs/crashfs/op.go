package crashfs

import "fmt"

// Kind is a kind of operation.
type Kind int

const (
	Create Kind = iota + 1
	Mkdir
	Rename
	Remove
	SyncDir
	Write
	Store // to a page of a mapping
	Truncate
	Preallocate
	Sync
	Flush
)

var kindNames = [...]string{Create: "create", Mkdir: "mkdir", Rename: "rename", Remove: "remove", SyncDir: "sync dir",
	Write: "write", Store: "store", Truncate: "truncate", Preallocate: "preallocate", Sync: "sync", Flush: "flush"}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Op is one operation.
type Op struct {
	N       int // counts operations of a file system, from 1
	Kind    Kind
	Name    string // as the caller gave it; of a Store or a Sync, as the file was opened
	NewName string // of a Rename
	Off     int64  // of a Write or a Store: where
	Size    int64  // of a Write or a Store: how many bytes; Truncate, Preallocate: to what length
}

func (o Op) String() string {
	switch o.Kind {
	case Rename:
		return fmt.Sprintf("#%d rename %s to %s", o.N, o.Name, o.NewName)
	case Write, Store:
		return fmt.Sprintf("#%d %s %s [%d,%d)", o.N, o.Kind, o.Name, o.Off, o.Off+o.Size)
	case Truncate, Preallocate:
		return fmt.Sprintf("#%d %s %s to %d", o.N, o.Kind, o.Name, o.Size)
	}
	return fmt.Sprintf("#%d %s %s", o.N, o.Kind, o.Name)
}
