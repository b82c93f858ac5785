// Package leaderepoch remembers at which offset each leader epoch of a log
// began.
//
// A follower that comes back asks the leader where its own last epoch ended and
// cuts what it has beyond that (KIP-101, KIP-279). The entries are kept in
// memory and in the file leader-epoch-checkpoint, a line for each epoch
// (LeaderEpochCheckpointFile.java; see package checkpoint for the shape):
//
//	0                      version, always 0
//	2                      number of entries
//	0 0                    epoch, start offset
//	3 41022
//
// The rules are those of Kafka's LeaderEpochFileCache.java.
package leaderepoch

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/seglog/seglog/internal/vfs"
)

// NoEpoch and NoOffset are how Kafka says that it does not know.
const (
	NoEpoch  int32 = -1
	NoOffset int64 = -1
)

// ErrNegative means that an epoch or a start offset below 0 was to be assigned.
var ErrNegative = errors.New("negative leader epoch or start offset")

// An Entry says that the records from StartOffset on, up to the next entry, were
// written in Epoch.
type Entry struct {
	Epoch       int32
	StartOffset int64
}

// A Cache is the list of the epochs of one log. All methods may be called
// concurrently. None but Flush touches a file.
type Cache struct {
	mu struct {
		sync.Mutex
		// entries grow strictly in both fields.
		entries []Entry
		// version counts the changes of entries.
		version uint64
	}

	latest atomic.Pointer[Entry] // the last of the entries, nil for none; changed with them

	// flush is held while the file is written, so that the file never goes
	// back to older entries. It is taken before mu, which is not held while
	// writing.
	flush struct {
		sync.Mutex
		version uint64 // of what the file holds
	}
}

// New returns a cache that has seen entries assigned one after the other. If
// that settles a contradiction among them the cache is dirty: the file they came
// from does not say the same.
func New(entries []Entry) (*Cache, error) {
	c := new(Cache)
	for _, e := range entries {
		if _, err := c.Assign(e.Epoch, e.StartOffset); err != nil {
			return nil, err
		}
	}
	if slices.Equal(c.mu.entries, entries) {
		c.flush.version = c.mu.version
	}
	return c, nil
}

// Assign notes that the records from startOffset on are of epoch. It does
// nothing if that is the latest epoch already and began no later. Otherwise what
// contradicts the new entry goes: from the end, every entry that has this epoch
// or a later one, or starts at this offset or a later one.
//
// It reports whether it changed anything, and costs little when not: it may be
// called for every batch. A change has to be flushed before the records count as
// durable. A negative argument is ErrNegative.
func (c *Cache) Assign(epoch int32, startOffset int64) (changed bool, err error) {
	if epoch < 0 || startOffset < 0 {
		return false, fmt.Errorf("assign leader epoch %d from offset %d: %w", epoch, startOffset, ErrNegative)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.mu.entries)
	if n > 0 && c.mu.entries[n-1].Epoch == epoch && c.mu.entries[n-1].StartOffset <= startOffset {
		return false, nil
	}
	for n > 0 && (c.mu.entries[n-1].Epoch >= epoch || c.mu.entries[n-1].StartOffset >= startOffset) {
		n--
	}
	c.mu.entries = append(c.mu.entries[:n], Entry{epoch, startOffset})
	c.changedLocked()
	return true, nil
}

// changedLocked follows each change of the entries.
func (c *Cache) changedLocked() {
	c.mu.version++
	var latest *Entry
	if e, ok := c.atLocked(len(c.mu.entries) - 1); ok {
		latest = &e
	}
	c.latest.Store(latest)
}

// Restore makes entries, as Entries has returned them, the content again, for an owner
// that could not write what it had assigned them for.
func (c *Cache) Restore(entries []Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.entries = slices.Clone(entries)
	c.changedLocked()
}

// TruncateFromEnd removes the epochs that began at endOffset or later, after the
// log was cut there. A negative offset removes nothing. It reports whether it
// changed anything.
//
// Losing this change in a crash does no harm, as long as the owner truncates to
// the log end when it opens the log again. The same goes for TruncateFromStart.
func (c *Cache) TruncateFromEnd(endOffset int64) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.mu.entries)
	if endOffset < 0 || n == 0 || c.mu.entries[n-1].StartOffset < endOffset {
		return false
	}
	n = c.firstLocked(func(e Entry) bool { return e.StartOffset >= endOffset })
	c.mu.entries = c.mu.entries[:n]
	c.changedLocked()
	return true
}

// TruncateFromStart moves the start of the list to startOffset, after the log
// start moved there: the epoch of that offset begins there and earlier ones are
// removed. It reports whether it changed anything.
func (c *Cache) TruncateFromStart(startOffset int64) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.firstLocked(func(e Entry) bool { return e.StartOffset > startOffset })
	if n == 0 || n == 1 && c.mu.entries[0].StartOffset == startOffset {
		return false
	}
	c.mu.entries = slices.Delete(c.mu.entries, 0, n-1)
	c.mu.entries[0].StartOffset = startOffset
	c.changedLocked()
	return true
}

// Clear removes every entry.
func (c *Cache) Clear() (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.entries) == 0 {
		return false
	}
	c.mu.entries = nil
	c.changedLocked()
	return true
}

// EndOffsetFor answers OffsetsForLeaderEpoch: the largest known epoch that is
// not above epoch, and the offset where it ended. For the latest epoch that is
// logEndOffset. For an epoch below the first one it is epoch itself and the
// start of the first one: what it wrote is no longer here. For an epoch above
// the latest it is NoEpoch and NoOffset.
func (c *Cache) EndOffsetFor(epoch int32, logEndOffset int64) (int32, int64) {
	if epoch == NoEpoch {
		return NoEpoch, NoOffset
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.mu.entries)
	if n > 0 && c.mu.entries[n-1].Epoch == epoch {
		return epoch, logEndOffset
	}
	higher := c.firstLocked(func(e Entry) bool { return e.Epoch > epoch })
	if higher == n {
		return NoEpoch, NoOffset
	}
	end := c.mu.entries[higher].StartOffset
	if higher == 0 {
		return epoch, end
	}
	return c.mu.entries[higher-1].Epoch, end
}

// EpochForOffset returns the epoch of the record at offset. It is false for an
// offset before the first entry.
func (c *Cache) EpochForOffset(offset int64) (int32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.firstLocked(func(e Entry) bool { return e.StartOffset > offset })
	if n == 0 {
		return NoEpoch, false
	}
	return c.mu.entries[n-1].Epoch, true
}

// Previous returns the entry of the largest epoch below epoch, if there is one.
func (c *Cache) Previous(epoch int32) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atLocked(c.firstLocked(func(e Entry) bool { return e.Epoch >= epoch }) - 1)
}

// Next returns the entry of the smallest epoch above epoch, if there is one.
func (c *Cache) Next(epoch int32) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atLocked(c.firstLocked(func(e Entry) bool { return e.Epoch > epoch }))
}

// Earliest returns the first entry, if there is one.
func (c *Cache) Earliest() (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atLocked(0)
}

// Latest returns the last entry, if there is one.
func (c *Cache) Latest() (Entry, bool) {
	if e := c.latest.Load(); e != nil {
		return *e, true
	}
	return Entry{NoEpoch, NoOffset}, false
}

// Entries returns a copy of all entries, which the caller owns.
func (c *Cache) Entries() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.entries)
}

// Dirty reports whether entries changed since they were last read or flushed.
// It waits for a Flush that is under way.
func (c *Cache) Dirty() bool {
	c.flush.Lock()
	defer c.flush.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush.version != c.mu.version
}

// Flush makes the entries the durable content of the file path, unless they are
// that already. What was assigned before the call is in the file when it
// returns, be it by this call or by another that ran at the same time. If it
// fails the old file is intact and the cache stays dirty.
//
// It waits for the disk, so it should be called without the locks of a log.
func (c *Cache) Flush(fsys vfs.FS, path string) error {
	c.flush.Lock()
	defer c.flush.Unlock()
	c.mu.Lock()
	version := c.mu.version
	if version == c.flush.version {
		c.mu.Unlock()
		return nil
	}
	data := Append(nil, c.mu.entries)
	c.mu.Unlock()
	if err := vfs.WriteFileAtomic(fsys, path, data); err != nil {
		return err
	}
	c.flush.version = version
	return nil
}

// firstLocked returns the index of the first entry for which reached is true,
// or the number of entries. As they grow, reached stays true from there on.
func (c *Cache) firstLocked(reached func(Entry) bool) int {
	return sort.Search(len(c.mu.entries), func(i int) bool { return reached(c.mu.entries[i]) })
}

// atLocked returns entry i, if there is one.
func (c *Cache) atLocked(i int) (Entry, bool) {
	if i < 0 || i >= len(c.mu.entries) {
		return Entry{NoEpoch, NoOffset}, false
	}
	return c.mu.entries[i], true
}
