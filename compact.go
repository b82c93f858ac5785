package seglog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/seglog/seglog/compaction"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// CompactOptions are choices for Compact. nil means none.
type CompactOptions struct {
	// DryRun reads and counts, and changes nothing. It does the first pass only, which
	// is all there is unless the keys do not fit the map. A read-only log can do
	// nothing else.
	DryRun bool
	// Full cleans the whole log again, not only what is dirty and what it supersedes:
	// tombstones whose time has come go then, though nothing was appended since.
	Full bool
	// MapBytes bounds the memory for keys: 24 bytes for each different key in the dirty
	// part of the log. If they do not fit it takes more passes. 0 means 128 MiB.
	MapBytes int64
	// BytesPerSecond limits what is read and written, together. 0 means no limit.
	BytesPerSecond int64
	// Progress, if not nil, is called at the beginning of each half of a pass, and now and
	// then.
	Progress func(CompactProgress)
	// Now is the time that tombstones and lags are judged by. The zero value means the
	// present.
	Now time.Time
}

// CompactProgress says how far a compaction is.
type CompactProgress struct {
	// Pass counts from 1; Rewriting is true in the second half of it.
	Pass      int
	Rewriting bool
	// Done of Total bytes of log have been read in this half.
	Done, Total int64
}

// Volume is an amount of log.
type Volume = compaction.Volume

// CompactResult says what Compact has done or, in a dry run, would do.
type CompactResult struct {
	// Passes is how often the log was gone through: once, unless the keys of its dirty
	// part did not fit the map.
	Passes int
	// FirstDirty is the offset below which the log is clean afterwards.
	FirstDirty int64
	// Read and Kept are what there was and what is left, of the segments that were
	// cleaned. In more than one pass some are counted more than once.
	Read, Kept Volume
	// Superseded counts the records that are gone since a later one has their key,
	// Expired tombstones whose time had come, Aborted records of aborted transactions,
	// Keyless records without a key, which have no place in a compacted log, and Markers
	// markers of transactions of which nothing was left.
	Superseded, Expired, Aborted, Keyless, Markers int64
	// Keys is the most keys that a pass had to know, and MapFill the share of the
	// memory for them that it used.
	Keys    int
	MapFill float64
	// Segments are the segments that were cleaned, in groups that became one.
	Segments []CompactedSegments
	// Elapsed is the time it took.
	Elapsed time.Duration
}

// CompactedSegments are neighbouring segments that were cleaned together.
type CompactedSegments struct {
	// BaseOffset is the base offset of the first, NextOffset that of the segment
	// behind the last.
	BaseOffset, NextOffset int64
	// Segments is how many there were, and Left how many there are: one, unless
	// offsets do not fit it. If the one there was stays as it is both are 1, and Before
	// is After.
	Segments, Left int
	Before, After  Volume
}

// Compact keeps the last record of each key, and of the others nothing, in the part of
// the log that may be cleaned: what is below the active segment, the last stable
// offset, and records younger than Options.MinCompactionLag. Offsets do not change;
// reading steps over those that are gone. Tombstones, records without a value, go when
// Options.DeleteRetention has passed since compaction first came upon them. The rules
// are Kafka's. Options.CleanupPolicy must say that the log is compacted.
//
// Appends and reads go on meanwhile. Truncation and DeleteBefore do not wait for it
// either, but end it with ErrCompactionAborted, and retention does so if it removes
// anything. Cancelled, it ends with ctx's error within a batch. Whatever ends it, a
// crash included, no record is lost, and what is gone does not come back: each segment
// is either the old or the new one.
//
// The cost is that of reading the dirty part once, and then the log up to its end once,
// and of writing what is left; CompactOptions has limits for memory and speed. A
// *CorruptionError leaves the segment it is about, and those behind it, as they were.
//
// What later records have superseded is gone for good: to truncate below them does not
// bring it back.
//
// Compact does not ask how dirty the log is; Dirtiness tells. Nothing calls it on its
// own. Another call waits for the one before.
func (l *Log) Compact(ctx context.Context, opts *CompactOptions) (CompactResult, error) {
	if opts == nil {
		opts = &CompactOptions{}
	}
	run := compactRun{log: l, opts: *opts}
	c := compaction.Options{MapBytes: opts.MapBytes, BytesPerSecond: opts.BytesPerSecond, DryRun: opts.DryRun}
	if opts.Progress != nil {
		c.Progress = run.tellProgress
	}
	var err error
	if run.cleaner, err = compaction.New(c); err != nil {
		return CompactResult{}, fmt.Errorf("compact: %w: %w", ErrOption, err)
	}
	return run.compact(ctx)
}

func (c *compactRun) compact(ctx context.Context) (CompactResult, error) {
	began := time.Now()
	if c.opts.Now.IsZero() {
		c.opts.Now = began
	}
	err := c.do(ctx)
	c.res.Elapsed = time.Since(began)
	c.log.tellCompacted(c.res, c.opts.DryRun, err)
	if err != nil {
		return c.res, fmt.Errorf("compact: %w", c.log.tellDamaged(named(err)))
	}
	return c.res, nil
}

var (
	errTruncatedMeanwhile = fmt.Errorf("%w: the log was truncated", ErrCompactionAborted)
	errRemovedMeanwhile   = fmt.Errorf("%w: records were removed", ErrCompactionAborted)
)

// compactRun is one call of Compact.
type compactRun struct {
	log     *Log
	opts    CompactOptions
	cleaner *compaction.Cleaner
	res     CompactResult

	generation int64 // of the log, when the segments of the present pass were taken
}

func (c *compactRun) tellProgress(p compaction.Progress) {
	c.opts.Progress(CompactProgress{Pass: c.res.Passes, Rewriting: p.Rewriting, Done: p.Done, Total: p.Total})
}

// do goes on pass by pass up to the offset that was the last that could be cleaned
// when it began.
func (c *compactRun) do(ctx context.Context) error {
	l := c.log
	if policy := l.settings().CleanupPolicy; !policy.Compacts() {
		return &OptionError{Field: "CleanupPolicy", Value: policy.String(), Want: "compact or compact,delete"}
	}
	ctx, end, err := l.beginCompaction(ctx)
	if err != nil {
		return err
	}
	defer end()
	if !c.opts.DryRun {
		if err := l.readyToCompact(); err != nil {
			return err
		}
	}
	for d, again := l.newDoubt(), maxRefreshes; ; again-- {
		err := c.passes(ctx)
		if err != nil && l.opts.ReadOnly && again > 0 {
			if err = c.beginAnew(&d, err); err == nil {
				continue
			}
		}
		if err == nil && c.opts.DryRun {
			return nil
		}
		return l.notClean(ctx, err)
	}
}

// beginAnew forgets what a dry run of a read-only log has done so far, if err comes of
// another process that has changed the log meanwhile, by compacting it perhaps.
func (c *compactRun) beginAnew(d *doubt, err error) error {
	more, err := c.log.again(d, err)
	if !more && !errors.Is(err, errRemovedMeanwhile) {
		err = c.log.lookAgain(gone(err), nil)
	} else {
		err = nil
	}
	if err == nil {
		c.res = CompactResult{}
	}
	return err
}

func (c *compactRun) passes(ctx context.Context) error {
	l := c.log
	target := int64(-1)
	for {
		d, err := c.round(c.res.Passes == 0 && c.opts.Full)
		if err != nil {
			return err
		}
		if d.Reset && !c.opts.DryRun {
			l.tellCleaned()
		}
		if target < 0 {
			target = d.FirstUncleanable
		}
		d.FirstUncleanable = min(d.FirstUncleanable, target)
		c.res.FirstDirty = d.FirstDirty
		if d.FirstDirty >= d.FirstUncleanable {
			return nil
		}
		c.res.Passes++
		if err := c.pass(ctx, d); err != nil || c.opts.DryRun {
			return err
		}
	}
}

// beginCompaction waits for its turn. The context that it returns ends when the
// compaction is to be aborted.
func (l *Log) beginCompaction(ctx context.Context) (context.Context, func(), error) {
	select {
	case l.compacting <- struct{}{}:
	case <-l.stop:
		return nil, nil, ErrClosed
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	end := func() {
		l.cleaning.Lock()
		l.cleaning.abort = nil
		l.cleaning.Unlock()
		cancel(nil)
		<-l.compacting
	}
	l.cleaning.Lock()
	paused := l.cleaning.paused > 0
	l.cleaning.abort = cancel
	l.cleaning.Unlock()
	switch {
	case l.closed.Load(): // and Close may not have seen us
		end()
		return nil, nil, ErrClosed
	case paused:
		end()
		return nil, nil, ErrCompactionPaused
	}
	return ctx, end, nil
}

// abortCompaction has a compaction end that is under way, within a batch, without
// waiting for it. Who holds maintain knows that it changes nothing any more.
func (l *Log) abortCompaction(cause error) {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	if l.cleaning.abort != nil {
		l.cleaning.abort(cause)
	}
}

// PauseCompaction ends a compaction under way with ErrCompactionPaused, waits until it
// has, and has later ones fail with it, until ResumeCompaction was called as often.
func (l *Log) PauseCompaction() {
	l.cleaning.Lock()
	l.cleaning.paused++
	l.cleaning.Unlock()
	l.abortCompaction(ErrCompactionPaused)
	select {
	case l.compacting <- struct{}{}:
		<-l.compacting
	case <-l.stop:
	}
}

// ResumeCompaction takes back one call of PauseCompaction.
func (l *Log) ResumeCompaction() {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	l.cleaning.paused = max(0, l.cleaning.paused-1)
}

// notClean remembers what went wrong, for those who choose what to clean next. That it
// was called off says nothing about the log.
func (l *Log) notClean(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause // what else went wrong comes of it
	}
	if errors.Is(err, ErrCompactionAborted) {
		return err
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	l.cleaning.uncleanable = named(err)
	return err
}

// readyToCompact makes sure of two things that a swap needs. There may be no .cleaned
// files left of an earlier one: recovery would take them for part of the next. And
// what is cleaned must lie below the recovery point, for which the sealed segments are
// flushed: above it recovery takes a gap at the end of a segment for a lost tail.
func (l *Log) readyToCompact() error {
	if err := l.mayMaintain(); err != nil {
		return err
	}
	found, err := l.list()
	if err != nil {
		return err
	}
	if err := l.dropUnswapped(found); err != nil {
		return err
	}
	base, err := l.flushAllSealed() // what could not be is not cleaned
	if err == nil && base != l.sealedTold.Load() {
		l.append.Lock()
		if !l.append.closed { // to tell of it: not here, where who is told cannot compact
			l.startFlushingLocked()
		}
		l.append.Unlock()
	}
	return l.mayMaintain()
}

// round is the part of the log that may be cleaned now.
func (c *compactRun) round(full bool) (compaction.Choice, error) {
	l := c.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	c.generation = l.generation.Load()
	d, err := l.chooseLocked(c.opts.Now, !c.opts.DryRun)
	if err != nil {
		return d, err
	}
	if d.Reset && !c.opts.DryRun {
		if err := l.resetFirstDirtyLocked(d.FirstDirty); err != nil {
			return d, err
		}
	}
	if full {
		d.FirstDirty = l.start.Load()
	}
	if !c.opts.DryRun && d.FirstDirty < d.FirstUncleanable {
		// Before the first segment is replaced: a crash may come before FirstDirty moves.
		err = l.changeState(func(st *checkpoint.State) { st.KnownGaps = max(st.KnownGaps, d.FirstUncleanable) })
	}
	return d, err
}

// resetFirstDirtyLocked puts the log start in the place of a first dirty offset that
// lies outside of the log: truncation by others or damage has cut it short, or its start
// has risen, which is nothing to warn of if retention is to raise it
// (LogCleanerManager.cleanableOffsets). maintain is held.
func (l *Log) resetFirstDirtyLocked(start int64) error {
	if err := l.mayMaintain(); err != nil {
		return err
	}
	if !l.settings().CleanupPolicy.Deletes() {
		l.logger().Warn("first dirty offset is outside of the log, it is reset", "was", l.stateNow().FirstDirty, "start", start)
	}
	return l.changeState(func(st *checkpoint.State) { st.FirstDirty = start })
}

// chooseLocked finds out what may be cleaned, or what may right now: below the recovery
// point, see readyToCompact. maintain is held: a read-only log that is to be looked at
// anew before is errGone.
func (l *Log) chooseLocked(now time.Time, ready bool) (compaction.Choice, error) {
	stable, err := l.stableLocked()
	if err != nil {
		return compaction.Choice{}, err
	}
	l.state.Lock()
	firstDirty, point := l.state.FirstDirty, l.state.RecoveryPoint
	l.state.Unlock()
	set := l.set.Load()
	b := compaction.Bounds{
		Start: l.start.Load(), End: l.end.Load(), ActiveBase: set.active.Base(),
		LastStable: stable,
	}
	if ready {
		b.LastStable = min(stable, point)
	}
	if firstDirty == 0 {
		firstDirty = b.Start // it was never compacted
	}
	for s := range set.ascending() {
		if s == set.active {
			break
		}
		e, err := l.extentOf(s, l.upperOf(set.after(s.Base())) > firstDirty)
		if err != nil {
			return compaction.Choice{}, err
		}
		b.Sealed = append(b.Sealed, e)
	}
	return compaction.Choose(b, firstDirty, l.settings().compactionPolicy(), now.UnixMilli()), nil
}

func (o *Options) compactionPolicy() compaction.Policy {
	return compaction.Policy{MinDirtyRatio: max(0, o.MinCleanableDirtyRatio), MinLag: o.MinCompactionLag, MaxLag: o.MaxCompactionLag}
}

// extentOf is what choosing wants to know of a segment; of a dirty one it may be when
// its records were written.
func (l *Log) extentOf(s *segment.Segment, dirty bool) (compaction.Extent, error) {
	size, err := s.Size()
	e := compaction.Extent{Base: s.Base(), Size: size, Largest: record.NoTimestamp, First: record.NoTimestamp}
	if err != nil || !dirty || !l.settings().hasCompactionLag() {
		return e, err
	}
	if err := l.acquireHere(s); err != nil {
		return e, err
	}
	defer s.Release()
	return withTimes(e, s)
}

func (o *Options) hasCompactionLag() bool { return o.MinCompactionLag > 0 || o.MaxCompactionLag > 0 }

// withTimes adds when the records of a segment, which is acquired, were written.
func withTimes(e compaction.Extent, s *segment.Segment) (compaction.Extent, error) {
	var c segment.Scanner
	newest, err := s.LargestTimestamp(&c)
	if err != nil {
		return e, err
	}
	e.Largest = newest.Timestamp
	c.Reset(s, 0, e.Size)
	if h, err := c.Header(); err == nil {
		e.First = h.MaxTimestamp
	}
	return e, nil
}

// pass cleans once, and notes how far.
func (c *compactRun) pass(ctx context.Context, d compaction.Choice) error {
	l, o := c.log, c.log.settings()
	set := l.set.Load()
	r := compaction.Round{
		Start: l.start.Load(), Dir: l.dir, Segment: l.segmentOptions(), Next: set.active.Base(),
		FirstDirty: d.FirstDirty, FirstUncleanable: d.FirstUncleanable,
		SegmentBytes: o.SegmentBytes, IndexBytes: int64(o.SegmentIndexBytes),
		DeleteRetention: max(0, o.DeleteRetention), Now: c.opts.Now,
		Acquire: l.acquireHere,
	}
	for s := range set.ascending() {
		if s != set.active {
			r.Sources = append(r.Sources, s)
		}
	}
	var err error
	if r.Producers, err = l.lastRecords(); err != nil {
		return err
	}
	if r.Transactions = r.Producers != nil; r.Transactions {
		if r.Aborted, err = l.allAborted(set, d.FirstUncleanable); err != nil {
			return err
		}
	}
	res, err := c.cleaner.Clean(ctx, r, func(g compaction.Group) error { return c.swap(ctx, g) })
	c.add(res)
	if err != nil || c.opts.DryRun {
		return err
	}
	if err := c.advance(ctx, res.End); err != nil {
		return err
	}
	l.tellCleaned()
	return nil
}

func (c *compactRun) add(res compaction.Result) {
	t := &c.res
	t.FirstDirty = res.End
	t.Read, t.Kept = sum(t.Read, res.Read), sum(t.Kept, res.Kept)
	t.Superseded += res.Superseded
	t.Expired += res.Expired
	t.Aborted += res.Aborted
	t.Keyless += res.Keyless
	t.Markers += res.Markers
	t.Keys = max(t.Keys, res.Keys)
	if res.Slots > 0 {
		t.MapFill = max(t.MapFill, float64(res.Keys)/float64(res.Slots))
	}
}

// advance notes that the log is clean below offset.
func (c *compactRun) advance(ctx context.Context, offset int64) error {
	l := c.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := c.mayChange(ctx); err != nil {
		return err
	}
	return l.changeState(func(st *checkpoint.State) { st.FirstDirty = offset })
}

// mayChange: nothing has been truncated or removed since the segments of this pass
// were taken. maintain is held.
func (c *compactRun) mayChange(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if c.generation != c.log.generation.Load() {
		return errTruncatedMeanwhile
	}
	return c.log.mayMaintain()
}

// lastRecords returns what tells the last records of active producers; nil if there
// are no producers.
func (l *Log) lastRecords() (func() map[int64]compaction.LastRecord, error) {
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.knowProducersLocked(); err != nil {
		return nil, err
	}
	if !l.append.hasProducers && l.append.producers.IsEmpty() {
		return nil, nil
	}
	return func() map[int64]compaction.LastRecord {
		l.append.Lock()
		defer l.append.Unlock()
		last := make(map[int64]compaction.LastRecord, l.append.producers.Len())
		for e := range l.append.producers.Producers() {
			last[e.ProducerID] = compaction.LastRecord{Offset: e.LastOffset, Epoch: e.ProducerEpoch}
		}
		return last
	}, nil
}

// allAborted are the aborted transactions that began below upper. Their markers may lie
// above, up to the active segment. A list that is lost is made anew.
func (l *Log) allAborted(set *segmentSet, upper int64) ([]segment.AbortedTxn, error) {
	for {
		all, err := l.listedAborted(set, upper)
		var lost *unlistedError
		if !errors.As(err, &lost) {
			return all, err
		}
		if err := l.listAborted(lost.s); err != nil {
			return nil, err
		}
		if l.set.Load().floor(lost.s.Base()) != lost.s {
			return nil, errRemovedMeanwhile
		}
	}
}

func (l *Log) listedAborted(set *segmentSet, upper int64) ([]segment.AbortedTxn, error) {
	first := set.first()
	if err := l.acquire(first); err != nil {
		return nil, err
	}
	defer first.Release()
	return l.abortedBetween(nil, set, first, 0, upper)
}

// swap puts what was cleaned in the place of what it was cleaned from.
func (c *compactRun) swap(ctx context.Context, g compaction.Group) error {
	l := c.log
	if len(g.Bases) > 0 {
		if err := c.swapLocked(ctx, g); err != nil {
			return err
		}
	}
	left := max(1, len(g.Bases))
	c.res.Segments = append(c.res.Segments, CompactedSegments{
		BaseOffset: g.Sources[0].Base(), NextOffset: g.Next, Segments: len(g.Sources), Left: left, Before: g.Before, After: g.After,
	})
	l.logger().Debug("compacted segments", "base", g.Sources[0].Base(), "next", g.Next, "segments", len(g.Sources), "bytes", g.Before.Bytes, "left", g.After.Bytes)
	return nil
}

// swapLocked takes maintain, so that nobody truncates or removes meanwhile. Up to the
// commit it can be undone. After it the files are those of the new segments, whatever
// happens, and if the rest fails the next open does it: until then nothing more may be
// written.
func (c *compactRun) swapLocked(ctx context.Context, g compaction.Group) error {
	l := c.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	err := c.mayChange(ctx)
	if err == nil && !l.hasSealed(g.Sources) {
		err = errRemovedMeanwhile
	}
	if err == nil {
		err = l.commitSwap(g.Bases)
	}
	if errors.Is(err, ErrMoved) {
		return err // what there is to undo is elsewhere
	}
	if err != nil {
		return errors.Join(err, l.undoSwap())
	}
	if err := l.finishSwap(g); err != nil {
		l.append.Lock()
		defer l.append.Unlock()
		l.failLocked(err)
		return fmt.Errorf("%w: %w", ErrFailed, named(err))
	}
	return nil
}

// hasSealed reports whether the log still has these very segments.
func (l *Log) hasSealed(segments []*segment.Segment) bool {
	set := l.set.Load()
	for _, s := range segments {
		if s == set.active || set.floor(s.Base()) != s {
			return false
		}
	}
	return true
}

// undoSwap removes what commitSwap has left when it failed.
func (l *Log) undoSwap() error {
	found, err := l.list()
	if err == nil {
		err = l.dropUnswapped(found)
	}
	if err == nil {
		return nil
	}
	// The next open may find that the swap counts.
	l.append.Lock()
	defer l.append.Unlock()
	l.failLocked(err)
	return fmt.Errorf("%w: %w", ErrFailed, named(err))
}

// dropUnswapped removes .cleaned and .swap files that do not count, in an order that
// leaves no part of them that would: as long as the first log is a .cleaned one none
// does.
func (l *Log) dropUnswapped(found listing) error {
	remove := func(files []layout.File) error {
		for _, f := range files {
			if err := l.opts.FS.Remove(filepath.Join(l.dir, f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return l.opts.FS.SyncDir(l.dir)
	}
	if len(found.swap) > 0 {
		first := slices.MinFunc(found.swap, func(a, b layout.File) int { return cmp.Compare(a.Base, b.Base) }).Base
		if err := errors.Join(l.renameSegment(first, layout.Swap, layout.Cleaned, layout.Log), l.opts.FS.SyncDir(l.dir)); err != nil {
			return err
		}
		again, err := l.list()
		if err != nil {
			return err
		}
		if err := remove(again.swap); err != nil {
			return err
		}
		found.cleaned = again.cleaned
	}
	if len(found.cleaned) == 0 {
		return nil
	}
	return remove(found.cleaned)
}

// finishSwap has readers go on in the new segments before the old ones are taken away.
// The new ones get their last names while they are read.
func (l *Log) finishSwap(g compaction.Group) error {
	fresh, err := l.openSwapped(g.Bases)
	if err != nil {
		return err
	}
	l.publishSwap(g.Sources, fresh)
	for _, s := range g.Sources {
		err = errors.Join(err, s.Retire())
	}
	var marked []string
	for _, s := range g.Sources {
		if err == nil {
			var paths []string
			paths, err = s.RenameDeleted()
			marked = append(marked, paths...)
		}
	}
	if err != nil {
		return err
	}
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return err
	}
	// In the order of replace, for its reasons.
	for _, s := range fresh {
		if err := errors.Join(s.RenameLog(""), l.opts.FS.SyncDir(l.dir)); err != nil {
			return err
		}
	}
	for _, s := range fresh {
		if err := s.RenameIndexes(""); err != nil {
			return err
		}
	}
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return err
	}
	return errors.Join(l.removeMarked(marked), l.dropSnapshots(g))
}

// openSwapped opens the segments that are about to be published, so that whatever they
// say of themselves does not depend on what their files are called.
func (l *Log) openSwapped(bases []int64) (fresh []*segment.Segment, err error) {
	for _, base := range bases {
		o := l.segmentOptions()
		o.Suffix = layout.SwapSuffix
		s := segment.Open(l.dir, base, o)
		fresh = append(fresh, s)
		if err = s.Acquire(); err != nil {
			break
		}
		s.Release()
	}
	if err != nil {
		for _, s := range fresh {
			err = errors.Join(err, s.Retire())
		}
	}
	return fresh, err
}

// publishSwap publishes the set with the new segments in the place of the old.
func (l *Log) publishSwap(old, fresh []*segment.Segment) {
	l.append.Lock()
	defer l.append.Unlock()
	all := l.set.Load().slice()
	at := slices.Index(all, old[0])
	l.set.Store(newSegmentSet(slices.Replace(all, at, at+len(old), fresh...)))
	l.swaps.Add(1)
}

// dropSnapshots removes the producer snapshots of segments that are no more.
func (l *Log) dropSnapshots(g compaction.Group) error {
	var gone []int64
	for _, s := range g.Sources {
		if !slices.Contains(g.Bases, s.Base()) {
			gone = append(gone, s.Base())
		}
	}
	if len(gone) == 0 {
		return nil
	}
	l.append.Lock()
	defer l.append.Unlock()
	return l.append.producers.DeleteSnapshots(gone...)
}

// Dirtiness is what there is to compact in a log.
type Dirtiness struct {
	// Below FirstDirty the log is clean; from FirstUncleanable on, a segment's base
	// offset, it cannot be cleaned yet. If FirstDirty is not below there is nothing to
	// do.
	FirstDirty, FirstUncleanable int64
	// CleanBytes and DirtyBytes are the sizes of the segments before and between the
	// two. The one that FirstDirty lies in counts on both.
	CleanBytes, DirtyBytes int64
	// Ratio is the share of the dirty part, 0 to 1, and Overdue by how much its oldest
	// record is older than Options.MaxCompactionLag.
	Ratio   float64
	Overdue time.Duration
	// Due: by Options.MinCleanableDirtyRatio and MaxCompactionLag it is time.
	Due bool
	// Uncleanable is why the last Compact failed, or nil.
	Uncleanable error
	// Paused: see PauseCompaction.
	Paused bool
}

// Dirtiness tells what there is to compact. It reads no records: the cost is that of
// looking at each segment's size, and with a lag at the ends of the dirty ones.
func (l *Log) Dirtiness() (Dirtiness, error) { return l.dirtiness(time.Now(), false) }

// choose finds out what may be cleaned. It is errGone if another process has changed a
// read-only log.
func (l *Log) choose(now time.Time, reset bool) (compaction.Choice, error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	choice, err := l.chooseLocked(now, false)
	if err == nil && reset && choice.Reset {
		err = l.resetFirstDirtyLocked(choice.FirstDirty)
	}
	if l.opts.ReadOnly {
		err = gone(err)
	}
	return choice, err
}

// dirtiness is Dirtiness at a given time. With reset set a first dirty offset outside of
// the log is put right on disk.
func (l *Log) dirtiness(now time.Time, reset bool) (Dirtiness, error) {
	choice, err := l.choose(now, reset)
	for again := maxRefreshes; errors.Is(err, errGone) && again > 0; again-- {
		if err = l.Refresh(); err == nil {
			choice, err = l.choose(now, reset)
		}
	}
	if err != nil {
		return Dirtiness{}, fmt.Errorf("dirtiness: %w", err)
	}
	if reset && choice.Reset {
		l.tellCleaned()
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	return Dirtiness{
		FirstDirty: choice.FirstDirty, FirstUncleanable: choice.FirstUncleanable,
		CleanBytes: choice.CleanBytes, DirtyBytes: choice.CleanableBytes,
		Ratio: choice.Ratio(), Overdue: choice.Overdue, Due: choice.Due(l.settings().compactionPolicy()),
		Uncleanable: l.cleaning.uncleanable, Paused: l.cleaning.paused > 0,
	}, nil
}
