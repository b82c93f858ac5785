// Package vfs is the only door to files, directories, mappings and locks.
//
// Everything above it takes an FS, so that a test can lose power, shorten a
// write or fill the disk without touching the code it tests. OS is the real
// one. The interfaces are small on purpose: positioned reads and writes only,
// no shared file cursor, and every durability step is a call of its own:
//
//	File.Sync      the bytes of one file and its length
//	Mapping.Flush  the same, for bytes written through a mapping
//	FS.SyncDir     the names in one directory
//
// A position is a byte in a file. Errors are *fs.PathError or *os.LinkError and
// keep errors.Is(err, fs.ErrNotExist) and its kind working.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// FS is a file system. Implementations are safe for concurrent use.
type FS interface {
	// OpenFile opens name with the flags of package os. O_APPEND is not
	// supported: a File has no cursor and File.WriteAt refuses it.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)

	// Stat describes name and follows symbolic links.
	Stat(name string) (fs.FileInfo, error)

	// ReadDir lists the directory name, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)

	// MkdirAll creates name and its missing parents. It is not durable until
	// SyncDir of each parent.
	MkdirAll(name string, perm fs.FileMode) error

	// Rename replaces newname, if it exists, in one step. It is not durable
	// until SyncDir.
	Rename(oldname, newname string) error

	// Remove removes a file or an empty directory. It is not durable until
	// SyncDir.
	Remove(name string) error

	// SyncDir makes earlier creations, renames and removals in the directory
	// name durable. Windows has no such call and journals names itself; there
	// it does nothing and succeeds.
	SyncDir(name string) error

	// Lock creates the file name if it is missing and locks all of it, without
	// waiting. It fails with a *LockError if the lock is held elsewhere, by
	// another process or by this one. Close on the result releases the lock;
	// so does the end of the process, however it comes. The file stays.
	//
	// The lock meets the one a JVM takes with FileChannel.tryLock, which is
	// how a Kafka broker guards its log directory with a file named .lock.
	Lock(name string, mode LockMode) (io.Closer, error)

	// SetModTime sets the modification time of name. It is a hint to whoever judges
	// files by their age, and durable when the system likes.
	SetModTime(name string, t time.Time) error

	// FreeSpace returns the bytes this user may still write on the file system
	// that holds dir.
	FreeSpace(dir string) (int64, error)
}

// File is an open file. Methods may be called concurrently, except that
// Truncate and Preallocate must not run beside each other, and Close beside
// nothing.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Name returns the name the file was opened with.
	Name() string

	Stat() (fs.FileInfo, error)

	// Truncate sets the file's length. Growing leaves a hole; Preallocate does
	// not. Systems that cannot change the length of a mapped file fail with
	// ErrMapped.
	Truncate(size int64) error

	// Sync makes the file's bytes and its length durable, down to the platter
	// or the flash: fdatasync on Linux, F_FULLFSYNC on macOS. After an error
	// nothing is known about earlier writes, and a second Sync that succeeds
	// does not bring them back.
	Sync() error

	// Preallocate makes the file at least size bytes long and really allocates
	// the blocks of [0, size), so that later writes there, through a mapping
	// too, do not run out of space. New bytes read as zero; existing ones stay.
	// If it fails the old length is restored.
	//
	// Where the file system has no such call, zeros are written beyond the old
	// end, and holes below it stay holes. Copy-on-write file systems may still
	// run out of space when a block is written again.
	Preallocate(size int64) error

	// Map maps the bytes [0, length), shared with the file and with every
	// other mapping of it. On unix length may exceed the file, but a page that
	// lies wholly beyond the end must not be touched until the file has grown
	// over it. On Windows a writable mapping extends the file to length, and a
	// read-only one may not exceed it. Length 0 is an empty mapping.
	//
	// Touching a page the disk cannot deliver, or cannot take, kills the
	// process. Write only where Preallocate has been.
	Map(length int, writable bool) (Mapping, error)
}

// Mapping is a part of memory that is a file. It stays valid after its File is
// closed, but Flush of a writable mapping needs the File open.
type Mapping interface {
	// Bytes returns the mapped memory. It must not be used after Unmap.
	Bytes() []byte

	// Flush makes what was written through the mapping durable, with the length
	// of the file. It may run beside readers and writers.
	Flush() error

	// Unmap releases the memory. Calling it again does nothing.
	Unmap() error
}

// LockMode says who may share a lock.
type LockMode int

const (
	// Exclusive excludes every other holder.
	Exclusive LockMode = iota
	// Shared excludes only Exclusive.
	Shared
)

var (
	// ErrLocked is the category of every *LockError.
	ErrLocked = errors.New("locked")

	// ErrTooLarge means that a file is larger than its reader accepts.
	ErrTooLarge = errors.New("file too large")

	// ErrMapped means that the system refuses to change the length of a file
	// while it is mapped. The same call works after Unmap.
	ErrMapped = errors.New("file is mapped")

	// ErrNotRegular means that a pipe, a socket or a device is where a file should be.
	// It is not opened: that could wait for ever.
	ErrNotRegular = errors.New("not a regular file")
)

// LockError reports a lock that someone else holds. errors.Is(err, ErrLocked)
// holds.
type LockError struct {
	Name string // the lock file
	PID  int    // the process that holds it, 0 if the system does not tell
}

func (e *LockError) Error() string {
	if e.PID == 0 {
		return e.Name + ": locked by another owner"
	}
	return fmt.Sprintf("%s: locked by process %d", e.Name, e.PID)
}

func (e *LockError) Unwrap() error { return ErrLocked }
