// Package work is what a store is measured by: what an adapter has to offer, the
// workloads, the checks that go with them, and the floors that the machine sets.
//
// One process runs one workload of one store once: it is given a Job and prints a
// Result, both as a line of JSON. So no store is measured with the heap, the caches or
// the goroutines that another one has left. What is not written in Go takes part as a
// process that such a process starts; see Spec.Run.
package work

import "context"

// Record is what goes into a store and comes out.
type Record struct {
	Offset     int64 // ignored by Append
	Time       int64 // milliseconds since 1970
	Key, Value []byte
}

// Options are choices for one open.
type Options struct {
	// Sync: what was appended is on disk when the append returns. Without it no append
	// waits for the disk.
	Sync bool
	// Writers is how many goroutines are going to append at once.
	Writers int
	// SegmentBytes is how large segments are, in stores that have some: exactly, or at
	// most, so that there are several. 0 means what the store does by itself.
	SegmentBytes int64
	Exactly      bool
	// Compacted: the last record of each key is kept, and Cleaner is going to be used.
	Compacted bool
}

// Log is an open store. Its offsets are those of a log: the first record appended has 0.
// Of the interfaces behind it a store has those that it can do.
type Log interface {
	// Append appends records as one batch, and returns the offset of the first. It may
	// be called from Options.Writers goroutines at once; where callers number the
	// records themselves the adapter does, under a lock if they have to come in order.
	// The slices are the caller's again when it returns.
	Append(records []Record) (int64, error)
	// Bounds are the offset of the first record and that behind the last.
	Bounds() (first, next int64, err error)
	Close() error
}

// Getter finds records by their offsets.
type Getter interface {
	// Reader returns a reader for one goroutine.
	Reader() Reader
}

// Reader is the part of a Getter that one goroutine has for itself.
type Reader interface {
	// Get reads the record at an offset into r. Its bytes may be the reader's, and are
	// then valid until the next Get.
	Get(offset int64, r *Record) error
}

// Scanner reads a log in order.
type Scanner interface {
	// Scan calls f for each record from an offset to the end. The record is valid
	// during the call.
	Scan(from int64, f func(*Record) error) error
}

// TimeFinder finds the first record whose time is not before the given one.
type TimeFinder interface {
	FirstAt(time int64) (offset, at int64, err error)
}

// Follower calls f for each record from an offset on, and waits for more until the
// context ends, which is no error.
type Follower interface {
	Follow(ctx context.Context, from int64, f func(*Record) error) error
}

// Dropper gives up what lies before an offset. When it returns that cannot be read any
// more, and will not come back after a crash.
type Dropper interface {
	DropBefore(offset int64) error
}

// Freer is a Dropper that gives the disk back later, in its own time.
type Freer interface {
	// Free returns when what was dropped is off the disk.
	Free() error
}

// Cleaner compacts a log that was opened with Options.Compacted once.
type Cleaner interface {
	Clean(ctx context.Context) error
}

// KeyStore keeps the last value of each key; what an earlier one takes up is given back
// by Compact.
type KeyStore interface {
	// Put stores records in their order, as one batch.
	Put(records []Record) error
	// Settle says that nothing more is put before Compact.
	Settle() error
	Compact() error
	// Rest calls f with all that is left, in any order: superseded records too, where
	// a store has kept them.
	Rest(f func(*Record) error) error
	Close() error
}

// OffsetStore keeps the committed offsets of groups of consumers.
type OffsetStore interface {
	// Commit returns when the offset is on disk.
	Commit(group string, offset int64) error
	Committed(group string) (int64, error)
	Close() error
}

// Spec is a store as its adapter describes it.
type Spec struct {
	Name string
	// Of is the store that this is another setting of; such a row is shown, but is
	// nobody's best peer. "" for a store in its main setting.
	Of string
	// Module is the Go module it comes from, "" for none.
	Module string
	// How says how it is set up, and why; for the report.
	How string
	// Segments: Options.SegmentBytes has a meaning.
	Segments bool
	// Open opens a log in an empty directory, or one that Open has made.
	Open func(dir string, o Options) (Log, error)
	// OpenKeys and OpenOffsets are nil where that is not what the store is for.
	OpenKeys    func(dir string) (KeyStore, error)
	OpenOffsets func(dir string, writers int) (OffsetStore, error)
	// Lacks has the reasons why a workload is not for this store, by a prefix of its ID.
	Lacks map[string]string
	// Notes has what must be known of a figure, by a prefix of the workload's ID.
	Notes map[string]string
	// Run, if not nil, does a job in place of the workloads of this package: for stores
	// that are no Go code, whose adapter starts a process and talks with it. Its figures
	// have the names that the workloads give them, "anon" and "rss" of the process that
	// it started. An error made by Lacking is a workload that it cannot do.
	Run func(Job) (map[string]float64, error)
	// Version is asked for what is run, if Module does not tell.
	Version func() string
}
