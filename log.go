package seglog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Log is one partition: an ordered sequence of records, each with an offset.
// Its methods may be called from any goroutine.
type Log struct {
	dir  string
	opts Options // resolved; what cannot change. See settings
	// live is what opts are now, of all logs of one topic in a Dir; else nil.
	live *atomic.Pointer[Options]

	// What readers see. The three offsets only ever grow, but for
	// truncation, which sets them back and counts up generation.
	// Invariant: start <= end, durable <= end.
	set        atomic.Pointer[segmentSet]
	start      atomic.Int64 // log start offset: the first readable
	durable    atomic.Int64 // all below it is on disk
	end        atomic.Int64 // log end offset: the next to be given out
	watermark  atomic.Int64 // high watermark, if Options.Replicated
	unstable   atomic.Int64 // first unstable offset, or noTransaction
	generation atomic.Int64
	cuts       atomic.Pointer[truncations] // what each generation took away

	// compacting has room for the one who compacts. It comes before maintain in lock
	// order, and Close keeps it.
	compacting chan struct{}

	// cleaning guards what others may do to a compaction under way. Its lock is the
	// last in lock order.
	cleaning struct {
		sync.Mutex
		abort       context.CancelCauseFunc // nil if there is none
		paused      int                     // how often, without a resume
		uncleanable error                   // why the last one failed
	}
	swaps atomic.Int64 // how often cleaned segments have taken the place of others
	// steadied is what the files of a read-only log were when it was last refreshed for
	// a look-up by key; see beSteady.
	steadied atomic.Pointer[steady]

	// maintain is held by whoever removes segments or moves the log start,
	// so that there is one at a time. It comes before sync in lock order.
	maintain sync.Mutex
	heldBy   TimestampOffset // by which retention was told to be held; under maintain

	// sync is held by the one who syncs, for all others of the syncers, and to keep
	// syncs away. It comes before append in lock order.
	sync    sync.Mutex
	syncers syncers

	// append guards writing.
	append struct {
		sync.Mutex
		unsynced  []*segment.Segment // may hold bytes that are not on disk
		syncing   []*segment.Segment // taken by the one who syncs; memory for the next round
		unnamed   bool               // the name of a segment may not be on disk
		sealed    []*segment.Segment // whose indexes may not be trimmed and on disk
		spare     *segment.Spare     // the next segment's files, or nil
		preparing bool               // a spare is being made, or was in vain
		jitter    int64              // ms taken off segment.ms for the active segment
		lastStamp int64              // last append time given out
		producers *producerstate.Manager
		control   record.Iterator           // for control records that are appended
		one       [1]producerstate.Batch    // memory for what is appended
		snapshots []*producerstate.Snapshot // to be written by the next flush
		late      int64                     // the transaction that was warned of, or -1
		epoch     int32                     // leader epoch that batches are stamped with
		failed    error                     // first cause; once set, writing is refused
		// hasProducers: some producer with an id has written to this log.
		hasProducers bool
		// transactional: some batch of a transaction was met. Lists of aborted ones are
		// kept from now on, though there may be none.
		transactional bool
		// epochsUnsaved: the leader epochs are not all on disk. epochsLost: they
		// have to be found in the log.
		epochsUnsaved, epochsLost bool
		// undone: an append to the active segment was taken back, and its file not
		// synced since.
		undone bool
		// tail is what recovery found at the end of the log, and the disk may not have.
		// Nothing of it is promised until it was written again and synced; see writeTail.
		// Appends do not wait for that: a power cut may take of it what it will, and what
		// was appended since goes with it, as with any end that was not synced.
		tail unwritten
		// unwritten is such a tail, or an earlier one, that there was no room for; see
		// writeAgainLocked.
		unwritten []unwritten
		// flushAwaited: a flushSealed was started that has not begun. moveAwaited: a
		// movePointIntoActive.
		flushAwaited, moveAwaited bool
		closed                    bool
		// ended: Close, for which no background work is left, has come to the files.
		ended bool
	}

	// epochs are the leader epochs and where they begin. It has a lock of its own.
	epochs *leaderepoch.Cache

	// state is what the state files hold. Its lock is the last in lock order.
	state struct {
		sync.Mutex
		checkpoint.State
		files checkpoint.StateFiles
		// lenient is set while the log is opened: a disk without room for a change
		// does not keep it shut. The files are then behind what is in memory, which
		// is owed to them before anything else is written.
		lenient bool
		owed    atomic.Bool
	}

	// removing is held by the one who takes off the disk what is out of the set. It
	// comes between maintain and sync in lock order, and guards marked: files that have
	// their .deleted names and are still to be removed.
	removing sync.Mutex
	marked   []string

	// removal is what is out of the set and has not got .deleted names. Its lock is the
	// last in lock order.
	removal struct {
		sync.Mutex
		segments []*segment.Segment // from the oldest on
		awaited  bool               // a removeBehind was started that has not begun
		failed   bool               // the last attempt has
	}
	full atomic.Bool // an append found no room since DeleteBefore was last called

	lastClock    atomic.Int64 // see clock
	bytes        atomic.Int64 // appended by this Log; written under append
	durableBytes atomic.Int64 // of them, on disk; written under sync
	pointBytes   int64        // durableBytes when the recovery point was last to follow; under sync
	pointOwed    atomic.Bool  // it was to, and could not for a roll that was being flushed

	holds      holds // its lock is taken last
	arrivals   arrivals
	background sync.WaitGroup // flushing after a roll and at intervals
	stop       chan struct{}  // closed by Close

	unmarked bool       // the log directory around it was marked as cleanly shut down
	owner    *partition // in a Dir; nil for a log that was opened alone
	places   *segment.Places
	opened   *openFiles // segments whose files are open
	closing  sync.Mutex // held by the one who closes idle segments
	telling  sync.Mutex // held while Events.Damaged is called
	// sealedTold is what Events.Sealed was called with, or the base offset of the active
	// segment at the beginning.
	sealedTold atomic.Int64
	flushing   sync.Mutex // held by the one who flushes sealed segments; before sync
	// snapshotting is held by the one who writes a producer snapshot; before append. It
	// guards snapshotsUnnamed: the names of some that were written may not be on disk.
	snapshotting     sync.Mutex
	snapshotsUnnamed bool
	undescribed      bool // closed without any snapshot, though it has producers

	locks []io.Closer
	own   io.Closer   // the one of them that is for this directory alone; nil in a Dir
	home  fs.FileInfo // of the directory, in a Dir
	known bool        // a seglog had the directory open before
	// untouched: in a log directory, and no broker had it since a seglog has.
	untouched bool
	ours      bool // a state file is ours and whole
	// gapsBelow: somebody has synced what lies below it, us, or a broker in whose log
	// directory it is. There offsets that are missing between segments were compacted
	// away, and are not what a crash has taken. It is not below the recovery point,
	// for which the one who has seen less counts.
	gapsBelow int64
	unlisted  []*segment.Segment // while it is opened; see listUnlisted
	shut      bool               // of a read-only log: it was closed when it was opened
	recovery  Recovery           // guarded by append once the log is open
	closed    atomic.Bool
	// ending is of Close; err is what it has returned.
	ending struct {
		sync.Once
		err error
	}
}

// Close writes what is needed to open the log quickly the next time, syncs
// it, and gives the directory free. Appends and reads under way end first, and files
// that DeleteBefore has left are removed; iterations and waits end with ErrClosed. Without
// an error every record is on disk. A log that has failed is closed with ErrFailed. Close
// again waits for the first one and returns what that has returned.
func (l *Log) Close() error {
	if l.owner != nil {
		return l.owner.closeLog(l)
	}
	return l.close()
}

func (l *Log) close() error {
	l.ending.Do(func() { l.ending.err = l.closeOnce() })
	return l.ending.err
}

func (l *Log) closeOnce() error {
	l.append.Lock()
	l.append.closed = true
	l.append.Unlock()
	l.closed.Store(true)
	close(l.stop)
	l.arrivals.announce()
	l.abortCompaction(ErrClosed) // one that background work has begun, too
	l.background.Wait()          // nothing new starts now
	l.compacting <- struct{}{}

	l.maintain.Lock()
	defer l.maintain.Unlock()
	left := l.finishRemoval()
	l.sync.Lock()
	defer l.sync.Unlock()
	l.append.Lock()
	defer l.append.Unlock()
	if err := errors.Join(left, l.closeLocked()); err != nil {
		return fmt.Errorf("close log %s: %w", l.dir, named(err))
	}
	return nil
}

func (l *Log) closeLocked() error {
	var errs []error
	failed := l.append.failed != nil
	l.append.ended = true
	if !l.opts.ReadOnly {
		errs = append(errs, l.syncLocked())
	}
	if !l.opts.ReadOnly && l.append.failed == nil {
		errs = append(errs, l.syncUndoneLocked(l.set.Load().active))
	}
	if !l.opts.ReadOnly && !failed {
		err := l.inPlace() // what follows goes by names
		errs = append(errs, err)
		failed = err != nil
	}
	if l.append.spare != nil {
		errs = append(errs, l.append.spare.Discard())
		l.append.spare = nil
	}
	active := l.set.Load().active
	size, err := active.Size()
	errs = append(errs, err)
	if !l.opts.ReadOnly && !failed { // recovery looks at what a failed log has not trimmed
		if l.append.transactional {
			active.KeepAborted()
		}
		errs = append(errs, active.Seal())
		for _, s := range append(l.append.sealed, active) {
			errs = append(errs, trimmed(s))
		}
	}
	for s := range l.set.Load().ascending() {
		errs = append(errs, s.Retire())
	}
	if !l.opts.ReadOnly && !failed && l.append.hasProducers {
		// On a full disk there is none: the next open reads more of the log. A broker
		// does not look for producers if there is none at all.
		_, err := l.append.producers.Take(l.end.Load(), true)
		_, found := l.append.producers.LatestSnapshot()
		l.undescribed = !found
		if !vfs.IsNoSpace(err) {
			errs = append(errs, err)
		}
	}
	if !l.opts.ReadOnly && !failed {
		errs = append(errs, l.saveEpochsLocked())
	}
	err = errors.Join(errs...)
	if !l.opts.ReadOnly && !failed && err == nil {
		end := l.end.Load()
		err = l.changeState(func(st *checkpoint.State) {
			st.RecoveryPoint, st.DurableEnd = end, end
			st.Producers = st.Producers || l.append.hasProducers
			st.Clean = &checkpoint.CleanMark{EndOffset: end, Segment: active.Base(), Size: size}
		})
		if err == nil {
			err = l.syncState()
		}
	}
	for i := len(l.locks) - 1; i >= 0; i-- {
		err = errors.Join(err, l.locks[i].Close())
	}
	return err
}

// settings are the options as they are now. Those of a topic in a Dir may be changed
// while it is open: what belongs together is to be taken from one call.
func (l *Log) settings() *Options {
	if l.live != nil {
		return l.live.Load()
	}
	return &l.opts
}

// inPlace looks whether the path of the log still leads to the directory that is locked,
// or in a Dir, where one lock is for all, to the one that was opened. It comes before
// files are made, replaced or removed by their names, which in another log would be those
// of its files. It asks the file system two or three times.
func (l *Log) inPlace() error {
	lock := l.own
	if l.owner != nil {
		lock = l.owner.dir.lock
	}
	named, err := vfs.LockNamed(lock)
	if err == nil && named && l.home != nil {
		var found fs.FileInfo
		found, err = l.opts.FS.Stat(l.dir)
		named = err == nil && vfs.SameFile(l.home, found)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && !named {
		err = fmt.Errorf("%w: %s", ErrMoved, l.dir)
	}
	return err
}

// changeState changes the state and, in one step, its files.
func (l *Log) changeState(change func(*checkpoint.State)) error {
	if err := l.inPlace(); err != nil {
		return err
	}
	l.state.Lock()
	defer l.state.Unlock()
	next := l.state.State
	change(&next)
	err := l.state.files.Write(next)
	owed := l.state.lenient && vfs.IsNoSpace(err)
	if err != nil && !owed {
		return named(err)
	}
	l.state.State = next
	l.state.owed.Store(owed)
	return nil
}

// syncState makes both copies of the state durable.
func (l *Log) syncState() error {
	l.state.Lock()
	defer l.state.Unlock()
	return named(l.state.files.Sync())
}

// stateNow is the state as it is at this moment.
func (l *Log) stateNow() checkpoint.State {
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.State
}

// settleStateLocked writes what an open on a full disk had no room to write. It
// comes before every write to the log: until then the files on disk may say that the
// log was closed as it is. append is held.
func (l *Log) settleStateLocked() error {
	if err := l.writeAgainLocked(); err != nil {
		return err
	}
	if !l.state.owed.Load() {
		return nil
	}
	return l.changeState(func(*checkpoint.State) {})
}

// Dir is the path of the log's directory, an absolute one.
func (l *Log) Dir() string { return l.dir }

// Offsets are the bounds of a log at one moment.
type Offsets struct {
	// Start is the log start offset, the first that can be read. It may lie
	// inside a segment, even inside a batch.
	Start int64
	// Durable: every record below it is on disk.
	Durable int64
	// End is the log end offset, the one the next record gets.
	End int64
}

// Offsets returns the bounds of the log. Taken one after the other, they are
// consistent in that Start <= Durable <= End.
func (l *Log) Offsets() Offsets {
	// End is read last and start first: both grow in between, if anything.
	start := l.start.Load()
	durable := l.durable.Load()
	end := l.end.Load()
	start = min(start, end)
	// What lies below the start is gone, on disk or not.
	return Offsets{Start: start, Durable: max(start, min(durable, end)), End: end}
}

// writableLocked says why nothing may be written, if so. append is held.
func (l *Log) writableLocked() error {
	switch {
	case l.append.closed:
		return ErrClosed
	case l.opts.ReadOnly:
		return ErrReadOnly
	case l.append.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, named(l.append.failed))
	}
	return nil
}

// fail puts the log in the failed state: see ErrFailed.
func (l *Log) fail(cause error) {
	l.append.Lock()
	defer l.append.Unlock()
	l.failLocked(cause)
	l.arrivals.announce()
}

// failLocked is fail for one who holds append, and tells those who wait himself.
func (l *Log) failLocked(cause error) {
	if l.append.failed != nil {
		return
	}
	l.append.failed = cause
	if !l.append.closed {
		l.background.Go(func() { l.tellFailed(cause) })
	}
}
