package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Open opens the log in a directory, which is created if need be. Its name
// does not matter here; Kafka wants "<topic>-<partition>". A relative path is that
// from the working directory as it is now, whatever becomes of that later.
//
// A log that was not closed is recovered first: what a crash left behind of
// swaps and removals is judged, every batch behind the recovery point is checked,
// the tail is cut behind the last good one, and indexes are rebuilt. What was
// done is in Stats. The time this takes does not depend on the size of the log,
// but on what was written since the last roll or close: to read that once.
//
// What is found behind the recovery point is read and appended to at once, but it is not
// promised yet: the process before may have been killed before it synced, or after a sync
// had failed. It is written again and synced in the background, at the latest by the first
// call that waits for durability; Offsets says how far that is, and WaitDurable waits for
// it. Who tells others on opening what the log has, as a replica that votes does, must. A
// log of a Dir is synced when it was opened. If it fails the log is in the failed state: see
// ErrFailed.
//
// Damage to what was known to be on disk is not what a crash leaves behind: it is
// refused with a *CorruptionError or a *MissingEndError, and the log stays as it is.
// Repair and Recover are the ways on. A full disk does not keep a log shut.
//
// One Log at a time may have the directory open for writing: ErrLocked says that
// another has, or that the directory belongs to a running Kafka broker.
func Open(dir string, opts Options) (*Log, error) {
	l, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", dir, named(err))
	}
	return l, nil
}

func open(dir string, opts Options) (*Log, error) {
	opts, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	if dir, err = vfs.Abs(opts.FS, dir); err != nil {
		return nil, err
	}
	return openOwned(dir, opts, nil)
}

// openOwned opens a log for a Dir, or alone if owner is nil.
func openOwned(dir string, opts Options, owner *partition) (*Log, error) {
	l := newLog(dir, opts)
	if owner != nil {
		l.owner, l.opened.all, l.places = owner, &owner.dir.open, owner.dir.places
		l.live = &owner.dir.config(owner.topic).live
	}
	if opts.ReadOnly {
		return l.openAgain(false)
	}
	if err := l.claimDirectory(); err != nil {
		l.unlock()
		return nil, named(err)
	}
	err := l.openWritable()
	if err == nil {
		err = l.markUntouched()
	}
	if err != nil {
		l.abandon()
		return nil, err
	}
	l.sealedTold.Store(l.set.Load().active.Base())
	l.tellOpened()
	if l.append.tail.segment != nil {
		l.background.Go(l.makeTailDurable)
	}
	if opts.FlushInterval > 0 && owner == nil {
		l.background.Go(func() { l.flushEvery(opts.FlushInterval) })
	}
	if owner == nil && (opts.Events.LateTransaction != nil || opts.Logger != nil) {
		l.background.Go(l.watchForLateTransactions)
	}
	return l, nil
}

// newLog is a log that is not open yet. opts are resolved.
func newLog(dir string, opts Options) *Log {
	l := &Log{dir: dir, opts: opts, opened: new(openFiles), places: segment.NewPlaces(opts.LookupBytes), stop: make(chan struct{})}
	l.state.files = checkpoint.StateFiles{FS: opts.FS, Dir: dir}
	l.unstable.Store(noTransaction)
	l.append.late = -1
	l.compacting = make(chan struct{}, 1)
	return l
}

// claimDirectory makes the directory, if need be, and takes it. Where it may not be
// taken none is made.
func (l *Log) claimDirectory() error {
	if err := l.lockParent(); err != nil {
		return err
	}
	if err := makeDirectory(l.opts.FS, l.dir); err != nil {
		return err
	}
	if err := l.wasOurs(); err != nil {
		return err
	}
	if err := l.checkDirectory(); err != nil {
		return err
	}
	if !l.known { // nor may a lock file be left in what is refused
		if err := errors.Join(l.readState(), l.foresee(false)); err != nil {
			return err
		}
	}
	return l.lockOwn()
}

// makeDirectory makes the directory and, durably, its name and those of the
// directories above that had to be made for it.
func makeDirectory(fsys vfs.FS, path string) error {
	var made []string // whose parents must be synced
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		_, err := fsys.Stat(dir)
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made = append(made, dir)
	}
	if err := fsys.MkdirAll(path, 0o755); err != nil {
		return err
	}
	for _, dir := range made {
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// wasOurs notes whether a seglog has had the directory open for writing before: it
// leaves its lock file there, and then there is a state file, too. A broker leaves
// neither. In a Dir, where one lock is for all logs, the other mark tells; see
// markUntouched.
func (l *Log) wasOurs() (err error) {
	l.known, err = l.has(layout.LockFileName)
	return err
}

// has reports whether the directory has a file.
func (l *Log) has(name string) (bool, error) {
	_, err := l.opts.FS.Stat(filepath.Join(l.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// inLogDirectory reports whether a broker may have the log, too.
func (l *Log) inLogDirectory() bool {
	return l.owner != nil || isLogDirectory(l.opts.FS, filepath.Dir(l.dir))
}

// markUntouched leaves the mark by which the next open knows that the state files are
// the last word on this log. The checkpoints of a log directory are up to a minute
// behind them; but where a broker has had the log meanwhile, which may have truncated
// it and written to it again, they are what counts, and nothing else tells that it has.
// So the mark is a file that a broker removes, whatever else it finds: when it loads a
// log all files go whose names end with ".deleted"
// (LogLoader.removeTempFilesAndCollectSwapFiles).
//
// It comes after the state files, which have taken in what a broker has left. On a full
// disk there is none, and the next open is as careful as this one was.
func (l *Log) markUntouched() error {
	if l.untouched || l.state.owed.Load() || !l.inLogDirectory() {
		return nil
	}
	err := makeEmpty(l.opts.FS, filepath.Join(l.dir, layout.UntouchedName))
	if err == nil {
		err = l.opts.FS.SyncDir(l.dir)
	}
	if vfs.IsNoSpace(err) {
		return nil
	}
	l.untouched = err == nil
	return err
}

// checkDirectory refuses to make a log of a directory that is something else:
// one that holds files, and none of them ours.
func (l *Log) checkDirectory() error {
	entries, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return err
	}
	var foreign string
	for _, e := range entries {
		switch _, ours := layout.ParseFile(e.Name()); {
		case ours:
			return nil
		case !strings.HasPrefix(e.Name(), ".") && e.Name() != "lost+found":
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("%w: it holds %q and no segment", ErrNotALog, foreign)
	}
	return nil
}

// lock takes the directory for this Log, which is about to change it.
func (l *Log) lock() error {
	if err := l.lockParent(); err != nil {
		return err
	}
	if err := l.unmark(); err != nil {
		return err
	}
	return l.lockOwn()
}

// lockParent is for a directory that lies in a log directory, that of a Kafka broker or
// of a Dir. It takes the lock of that, shared with other logs that were opened alone:
// broker, Dir and Log keep each other out.
func (l *Log) lockParent() error {
	parent := filepath.Dir(l.dir)
	if l.owner != nil || !isLogDirectory(l.opts.FS, parent) {
		return nil
	}
	shared, err := l.opts.FS.Lock(filepath.Join(parent, layout.LockFileName), vfs.Shared)
	if err != nil {
		return err
	}
	l.locks = append(l.locks, shared)
	return nil
}

// unmark comes before the first change to a directory that lies in a log directory. The
// marker of a clean shutdown goes: a broker that found it after a crash of ours would
// not look for what the crash has left.
func (l *Log) unmark() error {
	parent := filepath.Dir(l.dir)
	if l.owner != nil || !isLogDirectory(l.opts.FS, parent) {
		return nil
	}
	l.unmarked = l.brokerClosed()
	return removeCleanMarker(l.opts.FS, parent)
}

func (l *Log) lockOwn() error {
	if l.owner != nil {
		if err := l.owner.checkAlone(); err != nil {
			return err
		}
		home, err := l.opts.FS.Stat(l.dir)
		l.home = home
		return err
	}
	own, err := l.opts.FS.Lock(filepath.Join(l.dir, layout.LockFileName), vfs.Exclusive)
	if err == nil {
		l.locks, l.own = append(l.locks, own), own
	}
	return err
}

// isLogDirectory reports whether a directory is one of many partitions. Kafka makes
// these files when it starts, and OpenDir does.
func isLogDirectory(fsys vfs.FS, path string) bool {
	for _, name := range []string{layout.MetaPropertiesName, layout.RecoveryPointName} {
		if _, err := fsys.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

// removeCleanMarker removes the marker of a clean shutdown from a log directory,
// durably.
func removeCleanMarker(fsys vfs.FS, path string) error {
	err := fsys.Remove(filepath.Join(path, layout.CleanShutdownName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(path)
}

func (l *Log) unlock() {
	for _, c := range l.locks {
		c.Close()
	}
}

// abandon gives up an open that failed half-way.
func (l *Log) abandon() {
	if set := l.set.Load(); set != nil {
		for s := range set.ascending() {
			s.Retire()
		}
	}
	l.unlock()
}

func (l *Log) openWritable() error {
	if err := l.readState(); err != nil {
		return err
	}
	if l.known {
		if err := l.foresee(false); err != nil {
			return err
		}
	}
	if err := l.unmark(); err != nil {
		return err
	}
	l.state.lenient = true
	defer func() { l.state.lenient = false }()
	// The mark goes off the disk before anything is touched: a crash from
	// here on must not find the directory marked as clean. On a full disk it stays,
	// and with it the log as it is: see settleStateLocked.
	clean := l.state.Clean
	if l.ours {
		if err := l.changeState(func(st *checkpoint.State) { st.Clean = nil }); err != nil {
			return err
		}
	}
	dir, err := l.judge()
	if err != nil {
		return err
	}
	if len(dir.bases) == 0 {
		return l.begin()
	}
	segments := make([]*segment.Segment, len(dir.bases))
	for i, base := range dir.bases {
		segments[i] = segment.Open(l.dir, base, l.segmentOptions())
	}
	if segments, err = l.dropLeftovers(segments); err != nil {
		return err
	}
	l.set.Store(newSegmentSet(segments))
	if err := l.newProducers(); err != nil {
		return err
	}
	if err := l.append.producers.RemoveStraySnapshots(dir.bases); err != nil {
		return err
	}
	if err := l.readEpochs(); err != nil {
		return err
	}
	foreign := l.foreign()
	if err := l.openTail(segments, clean); err != nil {
		return err
	}
	if err := l.settle(foreign); err != nil {
		return err
	}
	return l.listUnlisted()
}

// listUnlisted makes the lists of aborted transactions that were not to be trusted. A
// lost one is else made when a reader asks; but a broker that gets the log takes it for
// an empty one.
func (l *Log) listUnlisted() error {
	for _, s := range l.unlisted {
		if err := l.listAborted(s); err != nil {
			return err
		}
	}
	l.unlisted = nil
	return nil
}

// dropLeftovers leaves out empty segments at the end that begin below the end of
// the one before: a roll made their files and then failed, and the log went on
// where it was.
func (l *Log) dropLeftovers(segments []*segment.Segment) ([]*segment.Segment, error) {
	for len(segments) > 1 {
		last := segments[len(segments)-1]
		if size, err := last.Size(); err != nil || size > 0 {
			return segments, err
		}
		before := segments[len(segments)-2]
		o := l.segmentOptions()
		o.ReadOnly, o.Open, o.Suffix = true, nil, strings.TrimPrefix(before.Name(), layout.LogName(before.Base()))
		before = segment.Open(l.dir, before.Base(), o)
		_, err := before.BoundTail(0)
		if err := errors.Join(err, before.Retire()); err != nil {
			return nil, err
		}
		if before.NextOffset() <= last.Base() {
			return segments, nil
		}
		segments = segments[:len(segments)-1]
		if l.opts.ReadOnly {
			continue
		}
		if err := last.Remove(); err != nil {
			return nil, err
		}
		l.recovery.Removed = append(l.recovery.Removed, last.Name())
	}
	return segments, nil
}

// readState reads the state files. A log without any, or with damaged ones only,
// is new or was written by Kafka, or they are lost: then the broker's checkpoints
// tell, if they are there, and else nobody knows. Where no broker was since, a Dir has
// written them, a while ago perhaps: its logs' own state files say more.
func (l *Log) readState() (err error) {
	if l.untouched, err = l.has(layout.UntouchedName); err != nil {
		return err
	}
	state, err := l.state.files.Read()
	broker := checkpoint.State{RecoveryPoint: unknownOffset}
	if err != nil || !l.untouched {
		broker = l.brokerState()
	}
	switch {
	case err == nil:
		l.ours = true
	case errors.Is(err, checkpoint.ErrCorrupt):
		l.recovery.StateLost = true
	case errors.Is(err, fs.ErrNotExist):
		l.recovery.StateLost = l.untouched || l.known && broker == (checkpoint.State{RecoveryPoint: unknownOffset})
	default:
		return err
	}
	if !l.ours {
		state = checkpoint.State{RecoveryPoint: unknownOffset}
	}
	l.gapsBelow = broker.FirstDirty
	for _, point := range []int64{state.RecoveryPoint, broker.RecoveryPoint} {
		if point < unknownOffset {
			l.gapsBelow = max(l.gapsBelow, point)
		}
	}
	l.state.State = checkpoint.State{
		LogStartOffset: max(state.LogStartOffset, broker.LogStartOffset),
		RecoveryPoint:  min(state.RecoveryPoint, broker.RecoveryPoint),
		DurableEnd:     min(state.DurableEnd, broker.RecoveryPoint),
		Producers:      state.Producers,
		Clean:          state.Clean,
		FirstDirty:     l.firstDirty(state, broker),
		KnownGaps:      state.KnownGaps,
	}
	return nil
}

// firstDirty is the offset below which the log is clean for sure. A log directory that
// was shut down properly, by a broker or a Dir, has it in its checkpoint. Else one of
// the two may be out of date, ours if a broker has truncated the log meanwhile and
// appended again: what was never cleaned must not pass for clean, or its tombstones
// would go before what they delete. To clean twice costs time only.
func (l *Log) firstDirty(ours, broker checkpoint.State) int64 {
	switch {
	case broker == checkpoint.State{RecoveryPoint: unknownOffset}:
		return ours.FirstDirty
	case !l.ours, l.brokerClosed():
		return broker.FirstDirty
	}
	return min(ours.FirstDirty, broker.FirstDirty)
}

// brokerState is what the checkpoints of a Kafka log directory say of this
// partition, if it lies in one.
func (l *Log) brokerState() checkpoint.State {
	if l.owner != nil {
		return l.owner.checkpointState()
	}
	state := checkpoint.State{RecoveryPoint: unknownOffset}
	dir, err := layout.ParseDir(filepath.Base(l.dir))
	if err != nil {
		return state
	}
	lookup := func(name string) (int64, bool) {
		data, err := vfs.ReadFile(l.opts.FS, filepath.Join(filepath.Dir(l.dir), name), maxCheckpoint)
		if err != nil {
			return 0, false
		}
		entries, _, _ := checkpoint.ParseOffsets(data) // good lines of a bad file count
		for _, e := range slices.Backward(entries) {
			if e.Topic == dir.Topic && e.Partition == dir.Partition {
				return e.Offset, true // of several, a broker takes the last
			}
		}
		return 0, false
	}
	if offset, ok := lookup(layout.RecoveryPointName); ok {
		state.RecoveryPoint = offset
	}
	state.LogStartOffset, _ = lookup(layout.LogStartName)
	if state != (checkpoint.State{RecoveryPoint: unknownOffset}) {
		state.FirstDirty, _ = lookup(layout.CleanerOffsetName)
	}
	return state
}

// maxCheckpoint bounds a checkpoint file: one line for each of a few hundred
// thousand partitions.
const maxCheckpoint = 64 << 20

// begin makes the first segment, of a log that is new or has lost all of them; see
// nextBase.
func (l *Log) begin() error {
	base, err := l.nextBase()
	if err != nil {
		return err
	}
	l.recovery.Restarted = base > 0
	if base == 0 {
		base = l.opts.StartOffset
	}
	s, err := l.createSegment(base)
	if err != nil {
		return err
	}
	// The name of the directory too: who made it may have been killed before it was on
	// disk. A parent that may not be read was not made by us.
	if err := l.opts.FS.SyncDir(filepath.Dir(l.dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return errors.Join(err, s.Retire())
	}
	l.set.Store(newSegmentSet([]*segment.Segment{s}))
	if err := l.forgetProducers(base); err != nil {
		return err
	}
	l.recovery.StateLost = false // there was nothing to forget
	err = l.changeState(func(st *checkpoint.State) {
		st.LogStartOffset, st.RecoveryPoint, st.DurableEnd, st.Producers = base, base, base, false
		st.FirstDirty, st.KnownGaps = 0, 0
	})
	if err != nil {
		return err
	}
	if err := l.readEpochs(); err != nil {
		return err
	}
	l.epochs.Clear()
	if err := l.settleEpochs(base, base); err != nil {
		return err
	}
	l.start.Store(base)
	l.watermark.Store(base)
	l.durable.Store(base)
	l.end.Store(base)
	l.drawJitterLocked()
	return nil
}

// nextBase is where a log without segments begins. If the state file, or a snapshot of
// producers, knows of offsets that were in use, the segments are lost; their offsets are
// not given out again.
func (l *Log) nextBase() (int64, error) {
	base, err := l.lastSnapshot()
	base = max(base, l.state.LogStartOffset)
	if l.state.RecoveryPoint < unknownOffset {
		base = max(base, l.state.RecoveryPoint)
	}
	return base, err
}

// lastSnapshot is the offset of the latest snapshot of producers that is good, or 0.
// Everything below it was written once.
func (l *Log) lastSnapshot() (int64, error) {
	offsets, err := producerstate.List(l.opts.FS, l.dir)
	if err != nil {
		return 0, err
	}
	for _, offset := range slices.Backward(offsets) {
		var damaged *producerstate.CorruptError
		switch _, err := producerstate.ReadFile(l.opts.FS, filepath.Join(l.dir, layout.SnapshotName(offset))); {
		case err == nil:
			return offset, nil
		case !errors.As(err, &damaged):
			return 0, err
		}
	}
	return 0, nil
}

// openTail makes the last segment the active one, recovering what needs it.
func (l *Log) openTail(segments []*segment.Segment, clean *checkpoint.CleanMark) error {
	active := segments[len(segments)-1]
	if l.owner != nil && !l.closedCleanly(active, clean) && l.owner.brokerClosed {
		if done, err := l.openAsBrokerLeft(segments); done || err != nil {
			return err
		}
		if err := l.foresee(true); err != nil {
			return err
		}
		segments[len(segments)-1] = segment.Open(l.dir, active.Base(), l.segmentOptions())
		l.set.Store(newSegmentSet(segments))
		return l.recover(segments)
	}
	if l.closedCleanly(active, clean) {
		err := active.Activate()
		switch {
		case err == nil && active.NextOffset() == clean.EndOffset:
			l.recovery.Clean = true
			if err := l.collectEpochs(segments); err != nil {
				return err
			}
			if err := l.reloadProducers(segments, clean.EndOffset, l.noProducers()); err != nil {
				return err
			}
			if !l.append.hasProducers {
				active.NoneAborted()
			}
			return nil
		case err == nil:
			return l.refuseEnd(active, clean)
		case !errors.Is(err, ErrCorrupt) && !vfs.IsNoSpace(err): // an index, for which there is no room
			return err
		}
		if err := l.foresee(true); err != nil {
			return errors.Join(err, l.changeState(func(st *checkpoint.State) { st.Clean = clean }))
		}
	}
	return l.recover(segments)
}

// openAsBrokerLeft is for a log that a broker has written last, which was then shut
// down: its checkpoint says where the log ends. It reports false, and gives the
// segment up, for one that ends elsewhere.
func (l *Log) openAsBrokerLeft(segments []*segment.Segment) (bool, error) {
	active, end := segments[len(segments)-1], l.owner.given.RecoveryPoint
	err := active.Activate()
	if err == nil && active.NextOffset() == end {
		l.recovery.Clean = true
		if err := l.collectEpochs(segments); err != nil {
			return false, err
		}
		return true, l.reloadProducers(segments, end, true)
	}
	if errors.Is(err, ErrCorrupt) || vfs.IsNoSpace(err) {
		err = nil
	}
	return false, errors.Join(err, active.Retire())
}

// refuseEnd is for a log that ends, in as many bytes, at another offset than when it
// was closed: base offsets are not under a checksum, and one has changed. The mark
// stays, since it alone tells.
func (l *Log) refuseEnd(active *segment.Segment, clean *checkpoint.CleanMark) error {
	err := &CorruptionError{
		File: active.Name(), BaseOffset: active.Base(), Position: clean.Size, FirstOffset: -1, LastOffset: -1,
		Err: fmt.Errorf("the log ends at offset %d, and was closed at %d: the base offset of a batch is wrong", active.NextOffset(), clean.EndOffset),
	}
	return errors.Join(err, l.changeState(func(st *checkpoint.State) { st.Clean = clean }))
}

// closedCleanly reports whether the mark of a clean close is about the files
// that are here: a broker may have written to them since.
func (l *Log) closedCleanly(active *segment.Segment, clean *checkpoint.CleanMark) bool {
	if clean == nil || clean.Segment != active.Base() {
		return false
	}
	size, err := active.Size()
	return err == nil && size == clean.Size
}

// recover scans the segments from the one that holds the recovery point on.
// The first damage ends the log: what lies behind was never promised. If nobody
// knows the recovery point everything is scanned, but only the last segment cut,
// since sealed segments are synced behind each roll.
func (l *Log) recover(segments []*segment.Segment) error {
	first, known := l.firstToRecover(segments)
	if !known {
		var err error
		if segments, err = l.reindex(segments); err != nil {
			return err
		}
		if err := l.overlapped(segments); err != nil {
			return err
		}
		first = len(segments) - 1 // of what they are now
	}
	if err := l.collectEpochs(segments[:first]); err != nil {
		return err
	}
	var it record.Iterator
	for i := first; i < len(segments); i++ {
		s := segments[i]
		if err := l.reloadForRecovery(segments, i, first); err != nil {
			return err
		}
		o := segment.RecoverOptions{MayOverflow: !l.ours, Resize: l.ours && known, Visit: func(h record.Summary, load func() (record.Batch, error)) error {
			return l.recovered(s, h, load, &it)
		}}
		if known {
			o.Durable = l.onDiskBelow()
		}
		r, err := s.Recover(o)
		if errors.Is(err, segment.ErrOffsetOverflow) {
			if segments, err = l.splitOne(segments, i); err != nil {
				return err
			}
			i--
			continue
		}
		if err != nil {
			return err
		}
		l.recovery.Scanned++
		if r.Cut > 0 {
			l.recovery.Cut = append(l.recovery.Cut, Cut{File: s.Name(), Position: r.Bytes, Bytes: r.Cut, Zeros: r.Zeros, Reason: r.Reason})
		}
		if r.SetAside != "" {
			l.recovery.SetAside = append(l.recovery.SetAside, r.SetAside)
		}
		if l.ours && known {
			if err := l.writeRecovered(unwritten{s, r.Unsure, r.Bytes}, r.NotResized, i+1 == len(segments)); err != nil {
				return err
			}
		}
		var ends bool
		if segments, ends, err = l.endsWith(segments, i, r); err != nil {
			return err
		}
		if i+1 == len(segments) {
			return nil
		}
		if ends {
			return l.endAt(segments, i)
		}
		if err := l.sealRecovered(s, r.NoRoom); err != nil {
			return err
		}
	}
	return nil
}

// writeRecovered has what a recovered segment holds, and the disk perhaps does not, written
// again. Of the last segment of a log that was opened alone that is left to makeTailDurable:
// it may be much, and nobody has to wait for it. A Dir opens its logs in the background, and
// few at a time.
func (l *Log) writeRecovered(u unwritten, full, last bool) error {
	if last && !full && l.owner == nil && u.from < u.end {
		l.append.tail = u
		return nil
	}
	if !full {
		err := u.segment.Rewrite(u.from, u.end)
		if !vfs.IsNoSpace(err) {
			return err
		}
	}
	l.append.unwritten = append(l.append.unwritten, u)
	return nil
}

// foreign reports whether someone else may have written to the log last.
func (l *Log) foreign() bool { return !l.ours || !l.untouched && l.inLogDirectory() }

// onDiskBelow is the recovery point, or the log start if that is higher, which is moved
// when all below it has been synced.
func (l *Log) onDiskBelow() int64 {
	if l.foreign() {
		return l.state.RecoveryPoint
	}
	return max(l.state.RecoveryPoint, l.state.LogStartOffset)
}

// firstToRecover is the index of the segment that holds the recovery point, and
// whether anybody knows that.
func (l *Log) firstToRecover(segments []*segment.Segment) (first int, known bool) {
	if l.state.RecoveryPoint >= unknownOffset {
		return len(segments) - 1, false
	}
	for i, s := range segments {
		if s.Base() <= l.state.RecoveryPoint {
			first = i
		}
	}
	return first, true
}

// foresee refuses what recovery would refuse, before anything is changed. Unless it
// is distrusted, what was closed properly is taken to be as it was.
func (l *Log) foresee(distrusted bool) error {
	view := newLog(l.dir, l.opts)
	view.opts.ReadOnly = true
	view.owner, view.ours, view.untouched, view.gapsBelow, view.state.State = l.owner, l.ours, l.untouched, l.gapsBelow, l.state.State
	segments, err := view.surveyed()
	if err != nil || len(segments) == 0 {
		return err
	}
	active := segments[len(segments)-1]
	trusted := l.closedCleanly(active, l.state.Clean) || l.owner != nil && l.owner.brokerClosed
	if !trusted || distrusted {
		err = view.examine(segments)
	}
	for _, s := range segments {
		err = errors.Join(err, s.Retire())
	}
	return err
}

// examine is recover without its changes, as far as something may be refused: up to
// what was on disk, or all of it with Options.RefuseCut.
func (l *Log) examine(segments []*segment.Segment) error {
	first, known := l.firstToRecover(segments)
	o := segment.RecoverOptions{MayOverflow: !l.ours}
	if known {
		o.Durable = l.onDiskBelow()
	}
	until := max(o.Durable, l.state.DurableEnd)
	enough := until
	if l.opts.RefuseCut {
		enough = 0 // reads everything
	}
	for i := first; i < len(segments); i++ {
		s := segments[i]
		if s.Base() >= until && !l.opts.RefuseCut {
			return nil
		}
		r, err := s.Examine(o, enough)
		if errors.Is(err, segment.ErrOffsetOverflow) {
			return nil // it is split then, and looked at again
		}
		if err != nil {
			return err
		}
		var ends bool
		if segments, ends, err = l.endsWith(segments, i, r); err != nil {
			return err
		}
		if ends {
			return l.refuseCut(s, r, segments[i+1:])
		}
	}
	return nil
}

// endsWith looks at what lies behind segment i, which was read with the result r, and
// reports whether the log ends there, whatever is behind. The segments are returned
// without those that are not of the log.
func (l *Log) endsWith(segments []*segment.Segment, i int, r segment.Recovery) ([]*segment.Segment, bool, error) {
	segments, err := l.dropHidden(segments, i)
	if err != nil {
		return nil, false, err
	}
	lost, err := l.lostBehind(segments, i)
	if err == nil && (lost || i+1 == len(segments)) {
		err = l.reaches(segments[i], r)
	}
	return segments, lost || r.Cut > 0 && !joined(segments, i), err
}

// dropHidden leaves out empty segments behind segment i, which was read, that begin below
// its end: a roll made their files and then failed, the log went on where it was, and a
// crash has brought them back.
func (l *Log) dropHidden(segments []*segment.Segment, i int) ([]*segment.Segment, error) {
	for i+1 < len(segments) && segments[i+1].Base() < segments[i].NextOffset() {
		hidden := segments[i+1]
		if size, err := hidden.Size(); err != nil || size > 0 {
			return segments, err
		}
		segments = slices.Delete(slices.Clone(segments), i+1, i+2)
		if l.opts.ReadOnly {
			continue
		}
		if err := hidden.Remove(); err != nil {
			return nil, err
		}
		l.recovery.Removed = append(l.recovery.Removed, hidden.Name())
		l.set.Store(newSegmentSet(segments))
	}
	return segments, nil
}

// lostBehind reports whether offsets are missing between segment i, which was read, and
// the next one. We leave no gap behind the recovery point; see secureLocked. Segments
// that overlap are an error.
func (l *Log) lostBehind(segments []*segment.Segment, i int) (bool, error) {
	if i+1 == len(segments) {
		return false, nil
	}
	end, next := segments[i].NextOffset(), segments[i+1].Base()
	if end > next {
		return false, &OverlapError{Segment: segments[i].Base(), LastOffset: end - 1, Next: next}
	}
	return l.ours && next > l.gapsBelow && end < next, nil
}

// joined reports whether the good batches of segment i end where the next segment
// begins. What is cut off behind them was no part of the log then: it rolled there, and
// a crash has kept the file from being cut.
func joined(segments []*segment.Segment, i int) bool {
	return i+1 < len(segments) && segments[i].NextOffset() == segments[i+1].Base()
}

// refuseCut refuses to end the log with s, for what r says or because offsets are
// missing behind it, if that would cut off good batches and is asked for.
func (l *Log) refuseCut(s *segment.Segment, r segment.Recovery, behind []*segment.Segment) error {
	if !l.opts.RefuseCut {
		return nil
	}
	for _, b := range behind {
		size, err := b.Size()
		if err != nil {
			return err
		}
		r.Stranded = r.Stranded || size > 0
	}
	if !r.Stranded {
		return nil
	}
	if r.Reason == nil {
		r.Reason = &CorruptionError{
			File: s.Name(), BaseOffset: s.Base(), Position: r.Bytes, FirstOffset: s.NextOffset(), LastOffset: behind[0].Base() - 1,
			Err: fmt.Errorf("offsets up to %d are missing", behind[0].Base()-1),
		}
	}
	return fmt.Errorf("good batches behind damage would be cut off: %w", r.Reason)
}

// sealRecovered makes a segment that is not the last one a sealed one, durably. If the
// disk has no room for all of its indexes it goes without: part of an index would pass
// for a whole one.
func (l *Log) sealRecovered(s *segment.Segment, noRoom bool) error {
	if err := s.Sync(); err != nil {
		return err
	}
	if l.append.transactional {
		s.KeepAborted()
	}
	if !noRoom {
		err := errors.Join(s.Seal(), s.Trim())
		if !vfs.IsNoSpace(err) || errors.Is(err, segment.ErrSyncFailed) {
			return err
		}
	}
	if err := s.SyncAborted(); !vfs.IsNoSpace(err) {
		return errors.Join(err, s.Unindex())
	}
	return s.Unindex()
}

// reaches refuses a log that ends with s below what was durable: a segment is gone, or
// the file was cut short. Nothing that a crash leaves behind looks so, since truncation
// lowers what is expected before it cuts; going on would give offsets out twice. What
// lies below the log start is no loss. A single batch of which a part is left was told of
// as a cut.
func (l *Log) reaches(s *segment.Segment, r segment.Recovery) error {
	want := l.state.DurableEnd
	if end := max(s.NextOffset(), r.Reach); end < want && l.state.LogStartOffset < want {
		return &MissingEndError{File: s.Name(), End: s.NextOffset(), Want: want}
	}
	return nil
}

// splitOne splits segment i, whose offsets do not fit, and returns what the segments
// are then.
func (l *Log) splitOne(segments []*segment.Segment, i int) ([]*segment.Segment, error) {
	bases, err := l.split(segment.Open(l.dir, segments[i].Base(), l.segmentOptions()))
	if err != nil {
		return nil, err
	}
	if err := segments[i].Retire(); err != nil {
		return nil, err
	}
	parts := make([]*segment.Segment, len(bases))
	for j, base := range bases {
		parts[j] = segment.Open(l.dir, base, l.segmentOptions())
	}
	segments = slices.Replace(slices.Clone(segments), i, i+1, parts...)
	l.set.Store(newSegmentSet(segments))
	// A part begins with its first batch, wherever the one before ends. The state is
	// written when all is well: see settle.
	l.state.Lock()
	defer l.state.Unlock()
	l.state.KnownGaps = max(l.state.KnownGaps, bases[len(bases)-1])
	return segments, nil
}

// reindex scans sealed segments of which nobody says that they were synced, and
// makes their indexes anew. Damage in them is left where it is, and what does not
// fit one segment is split. It returns what the segments are then.
func (l *Log) reindex(segments []*segment.Segment) ([]*segment.Segment, error) {
	for i := 0; i < len(segments)-1; i++ {
		markers := false
		visit := func(_ int64, b record.Batch) error {
			markers = markers || b.IsControl() && b.IsTransactional()
			return nil
		}
		r, err := segments[i].Reindex(segment.ReindexOptions{OverflowBelow: segments[i+1].Base(), Visit: visit})
		if errors.Is(err, segment.ErrOffsetOverflow) {
			if segments, err = l.splitOne(segments, i); err != nil {
				return nil, err
			}
			i-- // the first part is still to be scanned
			continue
		}
		if vfs.IsNoSpace(err) { // for new ones, and nobody vouches for the old
			if err = segments[i].Unindex(); err == nil {
				r, err = segments[i].Reindex(segment.ReindexOptions{DryRun: true, Visit: visit})
			}
		}
		if err != nil {
			return nil, err
		}
		if err := segments[i].ForgetAborted(); err != nil {
			return nil, err
		}
		if markers {
			l.unlisted = append(l.unlisted, segments[i])
		}
		l.recovery.Scanned++
		if r.Emptied {
			l.missing(OffsetRange{segments[i].Base(), segments[i+1].Base()})
		}
		if r.Reason != nil {
			l.recovery.Damaged = append(l.recovery.Damaged, r.Reason)
		}
	}
	return segments, nil
}

// overlapped looks whether sealed segments, which were just read, have offsets of those
// behind them. What is found is told, and left as it is. But if they have offsets that
// an append would give out again the log stays shut.
func (l *Log) overlapped(segments []*segment.Segment) error {
	active := segments[len(segments)-1]
	for i, s := range segments[:len(segments)-1] {
		next := segments[i+1]
		if s.NextOffset() <= next.Base() {
			continue
		}
		last, damage, err := lastOf(s, next.Base())
		switch {
		case err != nil:
			return err
		case last >= active.Base():
			return &OverlapError{Segment: s.Base(), LastOffset: last, Next: next.Base()}
		case last >= next.Base():
			damage = &OverlapError{Segment: s.Base(), LastOffset: last, Next: next.Base()}
		}
		if damage != nil {
			l.recovery.Damaged = append(l.recovery.Damaged, damage)
		}
	}
	return nil
}

// lastOf is the last offset of a segment, which should lie below upper. A single batch
// above, for which there was room below, is one whose base offset is wrong: it does not
// count, and is returned as damage.
func lastOf(s *segment.Segment, upper int64) (last int64, moved, err error) {
	if err := s.Acquire(); err != nil {
		return 0, nil, err
	}
	defer s.Release()
	below, above := s.Base()-1, 0
	last = below
	err = s.Headers(func(h record.Summary) {
		if last = h.LastOffset; last < upper {
			below = last
			return
		}
		if above++; above == 1 && upper-below > h.LastOffset-h.BaseOffset+1 {
			moved = &CorruptionError{
				File: s.Name(), BaseOffset: s.Base(), Position: s.View().Size - int64(h.Size), Length: int64(h.Size), // it is the last one
				FirstOffset: h.BaseOffset, LastOffset: h.LastOffset,
				Err: fmt.Errorf("offsets up to %d, want them below %d", h.LastOffset, upper),
			}
		}
	})
	if moved != nil && above == 1 {
		return below, moved, err
	}
	return last, nil, err
}

// endAt makes segment i the last one. Those behind it are set aside, not
// deleted: someone may want to look at them.
func (l *Log) endAt(segments []*segment.Segment, i int) error {
	for _, s := range slices.Backward(segments[i+1:]) {
		if err := l.setAside(s); err != nil {
			return err
		}
	}
	l.set.Store(newSegmentSet(segments[:i+1]))
	return l.opts.FS.SyncDir(l.dir)
}

// setAside takes a segment out of the log and keeps its files under names that
// nobody looks at.
func (l *Log) setAside(s *segment.Segment) error {
	if err := s.Retire(); err != nil {
		return err
	}
	for _, path := range s.Paths() {
		if err := l.putAside(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// putAside keeps a file under a name that nobody looks at.
func (l *Log) putAside(path string) error {
	name, err := l.freeName(filepath.Base(path))
	if err != nil {
		return err
	}
	if err := l.opts.FS.Rename(path, filepath.Join(l.dir, name)); err != nil {
		return err
	}
	l.recovery.SetAside = append(l.recovery.SetAside, name)
	return nil
}

// freeName is the name under which a file is put aside.
func (l *Log) freeName(name string) (string, error) {
	for n := 1; ; n++ {
		free := layout.AsideName(name, n)
		_, err := l.opts.FS.Stat(filepath.Join(l.dir, free))
		if errors.Is(err, fs.ErrNotExist) {
			return free, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// settle makes what was found durable, unless that is left to makeTailDurable, and sets the
// offsets. foreign says that someone else may have written to the log last.
func (l *Log) settle(foreign bool) error {
	set := l.set.Load()
	end := set.active.NextOffset()
	point, durable := l.onDiskOf(set.active)
	if err := l.syncRecovered(set.active); err != nil {
		return err
	}
	start := max(l.state.LogStartOffset, set.first().Base())
	l.nothingLost(end)
	if start > end {
		// Everything up to the log start is gone. Its offsets are not given
		// out again.
		l.recovery.Restarted = true
		return l.restartLocked(start)
	}
	l.append.producers.Advance(end)
	l.append.producers.OnLogStart(start)
	l.start.Store(start)
	l.watermark.Store(start)
	l.end.Store(end)
	l.durable.Store(max(start, durable))
	l.notWritten()
	l.publishStableLocked(l.HighWatermark())
	l.drawJitterLocked()
	if err := l.settleEpochs(start, end); err != nil {
		return err
	}
	return l.changeState(func(st *checkpoint.State) {
		st.LogStartOffset = start
		st.Producers = st.Producers || l.append.hasProducers
		if len(l.append.unwritten) == 0 {
			st.RecoveryPoint, st.DurableEnd = point, point
		}
		if foreign {
			st.KnownGaps = l.unexplained(end)
		}
	})
}

// syncRecovered syncs the last segment, unless that is left to makeTailDurable, and names,
// which a process that was killed may not have synced.
func (l *Log) syncRecovered(active *segment.Segment) error {
	later := l.append.tail.segment != nil
	if l.recovery.Clean || later && active.Base() <= l.state.RecoveryPoint {
		return nil
	}
	if !later {
		if err := active.Sync(); err != nil {
			return err
		}
	}
	return l.opts.FS.SyncDir(l.dir)
}

// onDiskOf is what the recovery point and the durable offset are when syncRecovered is
// done. All but the last segment are synced then. Where a full disk kept something from
// being written again the point stays as it is.
func (l *Log) onDiskOf(active *segment.Segment) (point, durable int64) {
	base, end := active.Base(), active.NextOffset()
	known := min(l.state.RecoveryPoint, end)
	switch {
	case len(l.append.unwritten) > 0:
		return l.state.RecoveryPoint, known
	case l.append.tail.segment != nil:
		return max(known, base), max(known, base)
	}
	// The point stays short of the end, for the reason of movePointIntoActive.
	return max(known, base, end-1), end
}

// unexplained is up to where gaps between segments are taken for the work of whoever
// had the log before: the log end, or the first that is known to be a loss.
func (l *Log) unexplained(end int64) int64 {
	if missing := l.recovery.Missing; len(missing) > 0 {
		return min(missing[0].First, end)
	}
	return end
}

// nothingLost: an empty log has no start to forget, and one whose first opening a
// crash has ended looks so.
func (l *Log) nothingLost(end int64) {
	if end == l.set.Load().first().Base() {
		l.recovery.StateLost = false
	}
}

// openReadOnly opens what is there without changing it.
func (l *Log) openReadOnly() error {
	fi, err := l.opts.FS.Stat(l.dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return &fs.PathError{Op: "open", Path: l.dir, Err: errors.New("not a directory")}
	}
	if err := l.wasOurs(); err != nil {
		return err
	}
	if err := l.readState(); err != nil {
		return err
	}
	segments, err := l.surveyed()
	if err != nil {
		return gone(err)
	}
	if len(segments) == 0 {
		return l.openEmpty()
	}
	l.set.Store(newSegmentSet(segments))
	if err := l.readEpochs(); err != nil {
		return err
	}
	return gone(l.bound())
}

// openEmpty is for a read-only log of which there are no segments. A writer that
// truncates all of a log has removed them before it makes a new one (see restartLocked),
// or was ended there: its state file, if not the one from before, says where the log
// starts, and it is empty. Without one nobody says that there is a log.
func (l *Log) openEmpty() error {
	if err := l.readState(); err != nil {
		return err
	}
	if !l.ours {
		return ErrNotALog
	}
	base, err := l.nextBase()
	if err != nil {
		return gone(err)
	}
	s := segment.OpenAbsent(l.dir, base, l.segmentOptions())
	l.set.Store(newSegmentSet([]*segment.Segment{s}))
	if err := l.readEpochs(); err != nil {
		return err
	}
	l.shut = l.brokerClosed()
	l.recovery.Restarted = base > l.state.LogStartOffset // what lay between is lost
	l.start.Store(base)
	l.watermark.Store(base)
	l.end.Store(base)
	l.durable.Store(base)
	return l.settleEpochs(base, base)
}

// surveyed is the segments there are, of a read-only log.
func (l *Log) surveyed() ([]*segment.Segment, error) {
	dir, err := l.survey()
	if err != nil {
		return nil, err
	}
	segments := make([]*segment.Segment, len(dir.bases))
	for i, base := range dir.bases {
		o := l.segmentOptions()
		o.Suffix = dir.suffix[base]
		segments[i] = segment.Open(l.dir, base, o)
	}
	return l.dropLeftovers(segments)
}

// bound finds the end of a read-only log.
func (l *Log) bound() error {
	set := l.set.Load()
	l.shut = l.closedCleanly(set.active, l.state.Clean) || l.brokerClosed()
	if !l.shut {
		l.distrustAborted(set)
	}
	r, err := set.active.BoundTail(l.onDisk(set.active))
	if err != nil {
		return err
	}
	room := r.Zeros && r.Damage == nil // for what a writer appends next
	l.recovery.Clean = r.Damage == nil && (r.Cut == 0 || room)
	l.recovery.Cut, l.recovery.Damaged = nil, nil
	if r.Damage != nil {
		l.recovery.Damaged = []error{r.Damage}
	}
	if r.Cut > 0 && !room {
		l.recovery.Cut = []Cut{{File: set.active.Name(), Position: r.Bytes, Bytes: r.Cut, Reason: r.Reason}}
	}
	start := max(l.state.LogStartOffset, set.first().Base())
	end := max(set.active.NextOffset(), start)
	l.start.Store(start)
	l.watermark.Store(end)
	l.nothingLost(end)
	l.end.Store(end)
	l.durable.Store(end)
	return l.settleEpochs(start, end)
}

// onDisk is an offset below which everything was on disk.
func (l *Log) onDisk(active *segment.Segment) int64 {
	switch {
	case l.closedCleanly(active, l.state.Clean):
		return l.state.Clean.EndOffset
	case l.state.RecoveryPoint < unknownOffset:
		return l.state.RecoveryPoint
	}
	return 0
}

// distrustAborted is for a read-only log that is still being written to, or was not
// closed: what recovery would make anew is not to be trusted.
func (l *Log) distrustAborted(set *segmentSet) {
	for s := range set.from(l.untrusted(set, l.end.Load())) {
		s.DistrustAborted()
	}
}

// brokerClosed reports whether this is a partition of a broker that was shut
// down properly.
func (l *Log) brokerClosed() bool {
	if l.owner != nil && !l.opts.ReadOnly {
		return l.owner.brokerClosed
	}
	if l.unmarked {
		return true
	}
	_, err := l.opts.FS.Stat(filepath.Join(filepath.Dir(l.dir), layout.CleanShutdownName))
	return err == nil
}

// Refresh looks again for what another process has appended, rolled, removed
// or truncated, in a log that was opened with Options.ReadOnly. Iterations that
// follow go on.
func (l *Log) Refresh() error {
	if !l.opts.ReadOnly {
		return fmt.Errorf("refresh: %w", &OptionError{Field: "ReadOnly", Value: "false", Want: "true"})
	}
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if l.closed.Load() {
		return fmt.Errorf("refresh: %w", ErrClosed)
	}
	if err := l.refresh(); err != nil {
		return fmt.Errorf("refresh %s: %w", l.dir, err)
	}
	return nil
}

// openAnew opens a read-only log as it is now.
func (l *Log) openAnew() (*Log, error) {
	l.append.Lock()
	producers := l.append.producers != nil
	l.append.Unlock()
	return l.openAgain(producers)
}

// openAgain opens a read-only log of the same directory, and knows its producers if
// asked to. A writer in another process may remove and truncate files meanwhile: then
// it looks anew.
func (l *Log) openAgain(producers bool) (*Log, error) {
	for again := maxRefreshes; ; again-- {
		fresh := newLog(l.dir, l.opts)
		fresh.opened, fresh.places = l.opened, l.places
		fresh.owner, fresh.live = l.owner, l.live
		err := fresh.openReadOnly()
		if err == nil && producers {
			err = fresh.knowProducersLocked()
		}
		if err == nil {
			return fresh, nil
		}
		err = errors.Join(err, fresh.retireAll())
		if !errors.Is(err, errGone) || again == 0 {
			return nil, err
		}
	}
}

// retireAll closes the segments of a log that is given up.
func (l *Log) retireAll() error {
	var errs []error
	if set := l.set.Load(); set != nil {
		for s := range set.ascending() {
			errs = append(errs, s.Retire())
		}
	}
	return errors.Join(errs...)
}

func (l *Log) refresh() error {
	before := l.end.Load()
	old := l.set.Load()
	fresh, err := l.openAnew()
	if err != nil {
		return err
	}
	l.append.Lock()
	defer l.append.Unlock()
	if l.append.producers != nil && fresh.append.producers == nil { // someone has just asked
		if err := fresh.knowProducersLocked(); err != nil {
			return errors.Join(err, fresh.retireAll())
		}
	}
	l.append.producers, l.append.epoch, l.epochs = fresh.append.producers, fresh.append.epoch, fresh.epochs
	l.recovery, l.shut = fresh.recovery, fresh.shut
	l.ours = fresh.ours
	l.state.Lock()
	l.state.State = fresh.state.State
	l.state.Unlock()
	l.set.Store(fresh.set.Load())
	l.start.Store(fresh.start.Load())
	l.unstable.Store(fresh.unstable.Load()) // before the end, as with an append
	l.watermark.Store(fresh.watermark.Load())
	l.end.Store(fresh.end.Load())
	l.durable.Store(fresh.durable.Load())
	if end := l.end.Load(); end < before {
		l.nextGeneration(end)
	}
	l.arrivals.announce()
	var errs []error
	for s := range old.ascending() {
		errs = append(errs, s.Retire())
	}
	return errors.Join(errs...)
}
