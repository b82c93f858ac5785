// Package segment is one segment of a log: a .log file of record batches and
// its two sparse indexes.
//
//	00000000000000041022.log        batches, one after another
//	00000000000000041022.index      offset -> position, one entry per 4 KiB of log
//	00000000000000041022.timeindex  timestamp -> offset, one entry per 4 KiB of log
//
// The number in the names is the base offset: no batch in the segment holds a
// smaller offset. Only the .log is truth; both indexes are derived from it and
// are rebuilt when they are missing or wrong.
//
// A segment has one writer and any number of readers. The writer is whoever
// holds the append lock of the log that owns the segment; Append, Seal,
// TruncateTo, Recover and Sync are his. A reader calls Acquire before and
// Release after each use; Acquire opens the files on first use, and fails with
// ErrRetired once the segment was closed or removed, upon which the reader looks
// the segment up again in the log's present set.
//
// This is a supporting package of seglog: its API may change between minor
// versions.
package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/timeindex"
)

// MaxBytes is the largest size of a .log file: positions are 32-bit on disk
// (Kafka: FileRecords.java).
const MaxBytes = math.MaxInt32

// Options are the settings a segment shares with its log.
type Options struct {
	// FS is where the files live.
	FS vfs.FS
	// IndexIntervalBytes is index.interval.bytes: how many bytes of log lie
	// at least between two index entries. Kafka's default is 4096.
	IndexIntervalBytes int64
	// IndexMaxBytes is segment.index.bytes, the size at which an index is
	// full. 0 means 10485760.
	IndexMaxBytes int
	// ReadOnly opens everything for reading: no file is created, grown,
	// rebuilt or touched.
	ReadOnly bool
	// AheadBytes is how much room, at most, is made ahead of the end of a log that is
	// written to, and mapped; see logWriter. 0 means none: each set is written by a call.
	AheadBytes int64
	// Places, if not nil, remembers where records are.
	Places *Places
	// Open, if not nil, counts the segments whose files are open.
	Open Counter
	// Suffix is appended to every file name: ".swap" or ".cleaned" for a
	// segment that is being put in place. Empty for a live segment.
	Suffix string
}

// Counter is what *atomic.Int64 is: safe for concurrent use.
type Counter interface {
	Add(delta int64) int64
}

// TimestampOffset is a timestamp (milliseconds since the epoch, -1 for none)
// and the offset it belongs to.
type TimestampOffset struct {
	Timestamp int64
	Offset    int64
}

// Segment is one segment. See the package comment for who may call what.
type Segment struct {
	base int64
	dir  string
	opts Options

	// What the names of the files end in. They change only when the segment is put
	// in the place of others; see RenameLog.
	logSuffix, indexSuffix atomic.Pointer[string]

	// size is the length of the whole batches in the log file. The writer
	// publishes it after the bytes are written, so that a reader never sees
	// part of a batch below it. -1 until a lazily opened segment is opened.
	size atomic.Int64
	// synced is the size at the last Sync; what goes by it is only how bytes are stored.
	synced atomic.Int64

	// open guards the open files. A reader holds it shared for the length
	// of one read, so that whoever holds it exclusively (to open, truncate,
	// close) knows that no read is under way.
	open struct {
		sync.RWMutex
		files
		isOpen  bool
		retired bool
		seen    sight // the log when its end was found
		parked  bool  // writable, but at most open for reading; changed by the writer only
		none    bool  // while parked: no transaction was aborted, and there is no list

		// list, if listed, takes the place of a lost list of aborted transactions
		// where none can be written.
		list   []AbortedTxn
		listed bool
	}

	// newest is the largest timestamp in the segment and the last offset of
	// the earliest batch that carries it.
	newest struct {
		sync.Mutex
		TimestampOffset
		known bool
	}

	absent      bool        // see OpenAbsent
	distrusted  bool        // see DistrustAborted
	keepAborted atomic.Bool // see KeepAborted

	// syncing is held while the log file is synced; see syncLog.
	syncing struct {
		sync.Mutex
		failed error // the first time that it could not be
	}

	memory logMemory // changed by readers, released with open held exclusively

	writable    atomic.Bool // Append is allowed; set by the writer
	trimming    sync.Mutex  // guards trimmed; held while files are trimmed
	trimmed     bool        // the files are as they stay, on disk too
	cutUnsynced bool        // the log was cut to its end, which may not be on disk; guarded by open, shared with trimming
	used        atomic.Bool // acquired or appended to since the last CloseIdle or Park

	listDoubted     bool  // see syncAborted; guarded by trimming
	indexesUnsynced error // see syncIndexes; guarded by trimming

	// The rest belongs to the writer.
	sinceIndex int64     // bytes since the last index entry
	nextOffset int64     // last offset + 1, when writable
	anchor     int64     // max timestamp of the first batch, -1 unknown: the start of segment.ms
	created    time.Time // when this process created or opened it
}

// sight is what a file was like when it was looked at.
type sight struct {
	size int64
	mod  time.Time
}

type files struct {
	log    vfs.File
	writer logWriter        // of log
	index  *index.Index     // nil: missing or unusable, and read-only
	time   *timeindex.Index // nil: likewise
	txn    *txnindex.Index

	unlisted bool // txn is missing, damaged or not to be trusted
}

// Open returns the segment of the given base offset in dir. No file is touched
// before the first Acquire, so the cost of opening a log does not grow with
// the number of its segments. A relative dir is looked up anew each time.
func Open(dir string, base int64, opts Options) *Segment {
	if opts.Suffix != "" { // written once, in large pieces
		opts.AheadBytes = 0
	}
	s := &Segment{base: base, dir: dir, opts: opts, anchor: -1, created: time.Now(), trimmed: true}
	s.logSuffix.Store(&opts.Suffix)
	s.indexSuffix.Store(&opts.Suffix)
	s.size.Store(-1)
	s.newest.TimestampOffset = TimestampOffset{-1, base}
	return s
}

// OpenAbsent is Open for a read-only segment that has no files, or not yet: it is empty,
// and stays so.
func OpenAbsent(dir string, base int64, opts Options) *Segment {
	s := Open(dir, base, opts)
	s.absent = true
	s.size.Store(0)
	s.nextOffset = base
	s.newest.known = true
	s.open.listed = true // that there are no aborted transactions
	return s
}

// Create makes a new, empty, writable segment. A log of that base offset is never
// overwritten: it is an *ExistsError, since the caller knows its segments, and has
// judged what a crash left behind. Other files of a live segment that lie in the way, and
// all those of one with a suffix, are leftovers, and are replaced.
func Create(dir string, base int64, opts Options) (*Segment, error) {
	s := Open(dir, base, opts)
	flag := os.O_EXCL
	if opts.Suffix != "" {
		flag = os.O_TRUNC
	}
	f, err := opts.FS.OpenFile(s.LogPath(), os.O_RDWR|os.O_CREATE|flag, 0o644)
	if errors.Is(err, fs.ErrExist) {
		err = &ExistsError{Path: s.LogPath()}
	}
	if err != nil {
		return nil, fmt.Errorf("create segment %d: %w", base, err)
	}
	s.open.log = f
	for _, path := range []string{s.indexPath(), s.timeIndexPath(), s.txnIndexPath()} {
		err = errors.Join(err, removeIfThere(opts.FS, path))
	}
	if err == nil {
		err = s.createIndexes()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %d: %w", base, err), f.Close(), s.removeFiles())
	}
	s.startEmpty()
	return s, nil
}

// startEmpty makes a segment whose files are open and empty writable.
func (s *Segment) startEmpty() {
	s.setOpen(true)
	s.open.unlisted = false
	s.size.Store(0)
	s.newest.known = true
	s.startWriting()
	s.nextOffset = s.base
}

func (s *Segment) createIndexes() error {
	ix, err := index.Create(s.indexPath(), s.base, s.indexOptions())
	if err != nil {
		return err
	}
	tx, err := timeindex.Create(s.timeIndexPath(), s.base, s.timeIndexOptions())
	if err != nil {
		ix.Close()
		return err
	}
	if err := s.openTxnIndex(true); err != nil {
		return errors.Join(err, ix.Close(), tx.Close())
	}
	s.open.index, s.open.time = ix, tx
	return nil
}

func (s *Segment) indexOptions() index.Options {
	return index.Options{FS: s.opts.FS, MaxBytes: s.opts.IndexMaxBytes}
}

func (s *Segment) timeIndexOptions() timeindex.Options {
	return timeindex.Options{FS: s.opts.FS, MaxBytes: s.opts.IndexMaxBytes}
}

// Base is the segment's base offset.
func (s *Segment) Base() int64 { return s.base }

// Name is the file name of the log, for messages.
func (s *Segment) Name() string { return layout.LogName(s.base) + *s.logSuffix.Load() }

// LogPath is the path of the .log file.
func (s *Segment) LogPath() string { return filepath.Join(s.dir, s.Name()) }

func (s *Segment) indexPath() string {
	return filepath.Join(s.dir, layout.OffsetIndexName(s.base)+*s.indexSuffix.Load())
}

func (s *Segment) timeIndexPath() string {
	return filepath.Join(s.dir, layout.TimeIndexName(s.base)+*s.indexSuffix.Load())
}

func (s *Segment) txnIndexPath() string {
	return filepath.Join(s.dir, layout.TxnIndexName(s.base)+*s.indexSuffix.Load())
}

// Size is the length in bytes of the whole batches in the log file. For a
// segment that was not opened yet it asks the file system.
func (s *Segment) Size() (int64, error) {
	if n := s.size.Load(); n >= 0 {
		return n, nil
	}
	fi, err := s.opts.FS.Stat(s.LogPath())
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// NextOffset is the last offset of the segment + 1, or the base offset while
// it is empty. For the writer, and only while the segment is writable.
func (s *Segment) NextOffset() int64 { return s.nextOffset }

// Created is when this process created or opened the segment; segment.ms
// counts from it while no batch has a timestamp.
func (s *Segment) Created() time.Time { return s.created }

// RollAnchor is the largest timestamp of the segment's first batch, from
// which segment.ms counts; -1 while there is none.
func (s *Segment) RollAnchor() int64 { return s.anchor }

// IndexesFull reports whether one more index entry might not fit, which is a
// reason to roll (Kafka: LogSegment.shouldRoll). The segment must not be parked.
func (s *Segment) IndexesFull() bool {
	return s.open.index.Full() || s.open.time.Full()
}
