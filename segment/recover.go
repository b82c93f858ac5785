package segment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// Recovery tells what Recover found and did.
type Recovery struct {
	Batches int64 // good batches
	Bytes   int64 // their length
	// Cut is how many bytes were removed behind the last good batch, and
	// Reason why the scan stopped there; nil when nothing was cut.
	Cut    int64
	Reason error
	// Zeros is true if there was nothing else among what was cut: room that was made
	// ahead (Options.AheadBytes), or that a crash kept from being written.
	Zeros bool
	// Reach is the offset up to which the log went at least, with what was cut as it is.
	Reach int64
	// Stranded is true if there are good batches among what was cut.
	Stranded bool
	// SetAside is the name of the file that the removed bytes were copied to,
	// because there were good batches among them; else empty.
	SetAside string
	// Damage is the first damage that was found and left, because it belongs to the
	// log; nil if there is none.
	Damage error
	// IndexEntries and TimeIndexEntries count what the indexes now hold.
	IndexEntries, TimeIndexEntries int
	// NoRoom is true if the disk had no room for all of them. Look-ups then scan from
	// the last entry. Before such a segment is sealed there must be room, or it is to be
	// left without: see Unindex.
	NoRoom bool
	// Unsure is where the bytes begin, up to Bytes, that the disk may not have: those of
	// batches at or above RecoverOptions.Durable. See Rewrite.
	Unsure int64
	// NotResized is true if the disk had no room for what Resize asks for. See WriteAgain.
	NotResized bool
	// Emptied is true for a log without a byte whose index had entries, which Reindex
	// finds: someone has emptied it.
	Emptied bool
}

// RecoverOptions are choices for Recover.
type RecoverOptions struct {
	// Durable is an offset below which everything was known to be on disk.
	// Damage there is not what a crash leaves behind: it is not cut away but
	// ends the recovery with a *CorruptionError, and the log stays as it is.
	// What is missing at the end is missing, and cut all the same.
	Durable int64
	// Resize has the size of the file set again, as it is, for the reason of Rewrite.
	Resize bool
	// MayOverflow is set for a segment that an old broker may have written: a
	// batch whose offset does not fit is then good, and ends the recovery with
	// ErrOffsetOverflow. Otherwise it is damage.
	MayOverflow bool
	// Visit, if not nil, sees the header of every good batch, and all of it with load,
	// valid until Visit returns. Its error ends the recovery.
	Visit func(h record.Summary, load func() (record.Batch, error)) error
}

// Recover reads the whole log of the segment, checks every batch, cuts the
// file behind the last good one and rebuilds both indexes, exactly as Kafka does
// after an unclean stop (LogSegment.recover): indexes get one entry per batch
// that starts more than the interval behind the last one, whatever sets the
// batches were appended in. The segment is writable afterwards.
//
// Records are not decoded: a batch whose checksum holds is taken as it is. An
// error that matches ErrOffsetOverflow means that the segment must be split.
//
// What was found is not made durable: that takes Rewrite and a Sync, beside which the
// segment can be read and appended to. But a cut is, unless it was of zeros only.
func (s *Segment) Recover(o RecoverOptions) (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	r, err := s.recoverLocked(o)
	if err != nil {
		return r, errors.Join(fmt.Errorf("recover segment %d: %w", s.base, err), s.closeFilesLocked())
	}
	s.startWriting()
	s.setOpen(true)
	return r, nil
}

func (s *Segment) recoverLocked(o RecoverOptions) (Recovery, error) {
	if err := s.closeFilesLocked(); err != nil { // someone may have read it
		return Recovery{}, err
	}
	if err := s.openForRecoveryLocked(); err != nil {
		return Recovery{}, err
	}
	end := s.size.Load()
	p := replay{s: s, offsets: s.open.index, times: s.open.time, recovery: &o}
	p.walk.inPlace = s.inPlaceWalk()
	if o.MayOverflow {
		p.overflowBelow = s.base + maxOverflow
	}
	if err := p.run(end); err != nil {
		return p.out, err
	}
	s.size.Store(p.out.Bytes)
	if p.out.Cut == 0 {
		return p.out, s.resize(&p.out, o)
	}
	if p.out.Stranded {
		if err := s.setAside(&p.out, end); err != nil {
			return p.out, err
		}
	}
	err := s.unmapped(func() error { return s.open.log.Truncate(p.out.Bytes) })
	if err != nil || p.out.Zeros {
		// Zeros that come back are behind what is appended, and end the log there.
		return p.out, err
	}
	// Cut and sync before anything is appended: what comes next must not
	// end up behind bytes that a second recovery stops at.
	return p.out, s.syncLog()
}

// resize does what RecoverOptions.Resize asks for, or notes that a full disk has no room
// for it: a log must open there.
func (s *Segment) resize(r *Recovery, o RecoverOptions) error {
	if !o.Resize {
		return nil
	}
	err := s.unmapped(func() error { return resize(s.open.log, r.Bytes) })
	r.NotResized = vfs.IsNoSpace(err)
	if r.NotResized {
		return nil
	}
	return err
}

// unmapped changes the size of the log file, of which the mapping is given up that was used
// to check it, where a system asks for that.
func (s *Segment) unmapped(change func() error) error {
	err := change()
	if !errors.Is(err, vfs.ErrMapped) {
		return err
	}
	return errors.Join(s.memory.reset(), change())
}

// resize sets the size of a file that has it already, so that the next sync is about it.
func resize(f vfs.File, size int64) error {
	// The size that it has already would be no change. A crash in between leaves one
	// byte too many, which the next recovery cuts.
	return errors.Join(f.Truncate(size+1), f.Truncate(size))
}

// Rewrite writes the batches at the positions [from, end) over themselves, so that the
// next Sync is about them. A sync of the process before may have failed, and a kernel then
// shows what it could not write as long as it runs, takes it for written, and syncs it no
// more. It may also drop it from memory, and show what the disk has: so only what was
// checked is written, and anything else is a *CorruptionError.
//
// Reading and appending go on meanwhile; truncation waits. The cost is that of reading,
// checking and copying the bytes once.
func (s *Segment) Rewrite(from, end int64) error {
	if from >= end {
		return nil
	}
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDWR, 0) // a sealed one is open for reading
	if err != nil {
		return err
	}
	return errors.Join(s.rewrite(f, from, end), f.Close())
}

func (s *Segment) rewrite(f vfs.File, from, end int64) error {
	var w Walker
	w.Reset(f, s.base, from, end)
	for from < end && w.Next() {
		part := w.Part()
		if part.Kind != Whole {
			return s.corrupt(part.Position, part.Size, -1, -1, part.Err)
		}
		behind := part.Position + part.Size
		b, ok := w.held(from, behind)
		switch {
		case !ok: // a large batch, of which the walk keeps only the end
			if err := writeAgain(f, from, behind); err != nil {
				return err
			}
		case behind < end && w.holdsBatch(behind):
			continue // with the next one, in one call
		default:
			if _, err := vfs.WriteFull(f, b, from); err != nil {
				return err
			}
		}
		from = behind
	}
	return s.CutShort(w.Err())
}

// WriteAgain is Rewrite up to the end of the segment as it is now, and does what Recover
// had no room for. Nobody may append to the segment meanwhile.
func (s *Segment) WriteAgain(from int64) error {
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if err := s.trimLog(); err != nil {
		return err
	}
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDWR, 0) // a sealed one is open for reading
	if err != nil {
		return err
	}
	return errors.Join(WriteAgain(f, from, s.size.Load()), f.Close())
}

func (s *Segment) openForRecoveryLocked() error {
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.open.log = f
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > MaxBytes {
		return s.corrupt(0, fi.Size(), -1, -1, fmt.Errorf("file has %d bytes, more than the %d a segment can have", fi.Size(), int64(MaxBytes)))
	}
	s.size.Store(fi.Size())
	if err := s.createIndexes(); err != nil {
		return err
	}
	return s.beginAborted()
}

// WriteAgain sets the size of the file of a log, which is end, and writes the bytes from
// a position on over themselves, unchecked, so that the next sync is about them. See
// Rewrite.
func WriteAgain(f vfs.File, from, end int64) error {
	if err := resize(f, end); err != nil {
		return err
	}
	return writeAgain(f, from, end)
}

func writeAgain(f vfs.File, from, end int64) error {
	return eachChunk(f, from, end, func(b []byte, pos int64) error {
		_, err := vfs.WriteFull(f, b, pos)
		return err
	})
}

// setAside copies what is about to be cut off to a file beside the log. A crash
// that lost the middle of what was written last leaves good batches behind the
// hole; nobody was promised them, but someone may want to look. A file of that name
// has the same bytes, or a part of them that a crash left.
func (s *Segment) setAside(r *Recovery, end int64) error {
	h := sha256.New()
	hash := func(b []byte, _ int64) error {
		h.Write(b)
		return nil
	}
	if err := eachChunk(s.open.log, r.Bytes, end, hash); err != nil {
		return err
	}
	name := layout.CutName(s.Name(), r.Bytes, hex.EncodeToString(h.Sum(nil)))
	f, err := s.opts.FS.OpenFile(filepath.Join(s.dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	write := func(b []byte, pos int64) error {
		_, err := vfs.WriteFull(f, b, pos-r.Bytes)
		return err
	}
	if err = eachChunk(s.open.log, r.Bytes, end, write); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.opts.FS.Remove(f.Name())) // the log still has the bytes
	}
	r.SetAside = name
	return s.opts.FS.SyncDir(s.dir)
}

// eachChunk reads the bytes [pos, end) of a file, chunk by chunk.
func eachChunk(f vfs.File, pos, end int64, do func(b []byte, pos int64) error) error {
	buf := make([]byte, max(0, min(end-pos, scanChunk)))
	for ; pos < end; pos += int64(len(buf)) {
		buf = buf[:min(end-pos, int64(len(buf)))]
		if _, err := vfs.ReadFull(f, buf, pos); err != nil {
			return err
		}
		if err := do(buf, pos); err != nil {
			return err
		}
	}
	return nil
}

// Examine tells what Recover would find and cut, or refuse, and changes nothing. It
// reads up to the first batch that reaches the offset until, or everything if that is
// 0. The segment must not be open, and is not afterwards; NextOffset then tells how
// far the good batches go that were read.
func (s *Segment) Examine(o RecoverOptions, until int64) (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDONLY, 0)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	s.open.log = f
	p := replay{s: s, recovery: &o, until: until}
	if o.MayOverflow {
		p.overflowBelow = s.base + maxOverflow
	}
	fi, err := f.Stat()
	if err == nil {
		err = p.run(fi.Size())
	}
	if err := errors.Join(err, s.closeFilesLocked()); err != nil {
		return p.out, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	return p.out, nil
}

// ReindexOptions are choices for Reindex.
type ReindexOptions struct {
	// DryRun counts entries and writes nothing.
	DryRun bool
	// OverflowBelow is the base offset of the segment behind, if an old broker may
	// have written this one: a batch below it whose offset does not fit is then good,
	// and ends the call with ErrOffsetOverflow. Otherwise, and with 0, it is damage.
	OverflowBelow int64
	// Visit, if not nil, sees every good batch. Its error ends the call, and the
	// indexes stay as they are.
	Visit func(pos int64, b record.Batch) error
}

// Reindex makes both indexes anew from the log of a segment that is not open,
// and leaves it sealed and not open. Damage in the log is stepped over, not cut;
// Reason in the result is the first.
func (s *Segment) Reindex(o ReindexOptions) (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	f, err := s.opts.FS.OpenFile(s.LogPath(), os.O_RDONLY, 0)
	if err != nil {
		return Recovery{}, fmt.Errorf("reindex segment %d: %w", s.base, err)
	}
	s.open.log = f
	fi, err := f.Stat()
	var r Recovery
	if err == nil {
		s.size.Store(fi.Size())
		emptied := fi.Size() == 0 && s.hasEntries()
		p := replay{s: s, visit: o.Visit, overflowBelow: min(o.OverflowBelow, s.base+maxOverflow)}
		if o.DryRun {
			err = p.count()
		} else {
			err = p.rebuild(true, true)
		}
		r = p.out
		r.Emptied = emptied
	}
	if err := errors.Join(err, s.closeFilesLocked()); err != nil {
		return r, fmt.Errorf("reindex segment %d: %w", s.base, err)
	}
	return r, nil
}

// hasEntries reports whether the index that is there leads into a log that has bytes.
func (s *Segment) hasEntries() bool {
	ix := usable(index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions()))
	if ix == nil {
		return false
	}
	defer ix.Close()
	return ix.Len() > 0
}

// rebuildIndexesLocked makes the named indexes anew from the log of a sealed
// segment, and leaves both open for reading.
func (s *Segment) rebuildIndexesLocked(offsets, times bool) error {
	p := replay{s: s}
	err := p.rebuild(offsets, times)
	if err != nil {
		return err
	}
	if s.open.index, err = index.OpenReadOnly(s.indexPath(), s.base, s.indexOptions()); err != nil {
		return err
	}
	s.open.time, err = timeindex.OpenReadOnly(s.timeIndexPath(), s.base, s.timeIndexOptions())
	return err
}

// rebuild writes new index files and puts them in place when they are complete
// and durable: an index of which a crash left a part would pass for a whole one.
// Damage in the log is stepped over: what lies behind it is found through the
// index all the same.
func (p *replay) rebuild(offsets, times bool) error {
	s := p.s
	var err error
	if offsets {
		s.open.index, err = index.Create(s.indexPath()+layout.TempSuffix, s.base, s.indexOptions())
		p.offsets = s.open.index
	}
	if err == nil && times {
		s.open.time, err = timeindex.Create(s.timeIndexPath()+layout.TempSuffix, s.base, s.timeIndexOptions())
		p.times = s.open.time
	}
	if err == nil {
		err = p.run(s.size.Load())
	}
	if s.open.index != nil {
		err = errors.Join(err, s.open.index.Trim(), s.open.index.Sync(), s.open.index.Close())
	}
	if s.open.time != nil {
		err = errors.Join(err, s.open.time.Trim(), s.open.time.Sync(), s.open.time.Close())
	}
	s.open.index, s.open.time = nil, nil
	if err == nil && offsets {
		err = s.opts.FS.Rename(s.indexPath()+layout.TempSuffix, s.indexPath())
	}
	if err == nil && times {
		err = s.opts.FS.Rename(s.timeIndexPath()+layout.TempSuffix, s.timeIndexPath())
	}
	if err == nil {
		return s.opts.FS.SyncDir(s.dir)
	}
	// As far as they can be removed; what stays, the next open sweeps away.
	_ = removeIfThere(s.opts.FS, s.indexPath()+layout.TempSuffix)
	_ = removeIfThere(s.opts.FS, s.timeIndexPath()+layout.TempSuffix)
	return err
}

// count is rebuild without the files.
func (p *replay) count() error {
	limit := p.s.opts.IndexMaxBytes
	if limit == 0 {
		limit = defaultIndexMaxBytes
	}
	p.offsets = &countedOffsets{max: limit / indexEntrySize}
	p.times = &countedTimes{max: limit / timeIndexEntrySize, last: -1}
	return p.run(p.s.size.Load())
}

// Of the indexes, in bytes. These values are written to disk and never change,
// but for the last.
const (
	indexEntrySize       = 8
	timeIndexEntrySize   = 12
	defaultIndexMaxBytes = 10 << 20
)

// offsetEntries and timeEntries are what a replay needs of an index.
type (
	offsetEntries interface {
		Append(offset, position int64) error
		Len() int
	}
	timeEntries interface {
		MaybeAppend(timestamp, offset int64, closing bool) error
		Len() int
	}
)

// countedOffsets counts the entries that an index of its size would take.
type countedOffsets struct{ n, max int }

func (c *countedOffsets) Len() int { return c.n }

func (c *countedOffsets) Append(_, _ int64) error {
	if c.n == c.max {
		return index.ErrFull
	}
	c.n++
	return nil
}

// countedTimes is the same for a time index, whose last slot is for the closing
// entry.
type countedTimes struct {
	n, max int
	last   int64
}

func (c *countedTimes) Len() int { return c.n }

func (c *countedTimes) MaybeAppend(timestamp, _ int64, closing bool) error {
	if !closing && c.n >= c.max-1 {
		return timeindex.ErrFull
	}
	if timestamp > c.last {
		c.n++
		c.last = timestamp
	}
	return nil
}

// replay walks the good batches of a log from the start and feeds the indexes
// that are to be rebuilt.
type replay struct {
	s        *Segment
	offsets  offsetEntries                         // nil: this index is not rebuilt
	times    timeEntries                           // nil: likewise
	recovery *RecoverOptions                       // nil: step over damage instead of stopping there
	visit    func(pos int64, b record.Batch) error // of ReindexOptions

	overflowBelow int64 // see ReindexOptions

	until int64 // enough was read when the next offset is this one or above; 0: never

	out         Recovery
	newest      TimestampOffset
	lastIndexed int64
	walk        Walker
	load        func() (record.Batch, error) // the present batch
}

func (p *replay) run(end int64) error {
	s := p.s
	p.load = p.walk.Batch
	s.nextOffset, s.anchor, s.sinceIndex = s.base, -1, 0
	p.newest = TimestampOffset{-1, s.base}
	p.out.Bytes = end
	p.walk.Reset(s.open.log, s.base, 0, end)
	for p.walk.Next() {
		part := p.walk.Part()
		bad, err := p.fault(part)
		if err != nil {
			return err
		}
		if bad == nil {
			if err := p.take(part); err != nil {
				return err
			}
			if p.until > 0 && s.nextOffset >= p.until {
				break
			}
			continue
		}
		if p.out.Reason == nil {
			p.out.Reason = bad
			p.out.Bytes = part.Position
		}
		if p.recovery != nil {
			if err := p.stop(part, bad); err != nil {
				return err
			}
			break
		}
	}
	if err := p.s.CutShort(p.walk.Err()); err != nil {
		return err
	}
	p.out.Cut = end - p.out.Bytes
	s.setNewest(p.newest)
	return p.finish()
}

// finish adds the closing entry and counts what there is.
func (p *replay) finish() error {
	if p.offsets != nil {
		p.out.IndexEntries = p.offsets.Len()
	}
	if p.times == nil {
		return nil
	}
	if p.newest.Timestamp >= 0 && !p.out.NoRoom {
		if err := p.room(p.times.MaybeAppend(p.newest.Timestamp, p.newest.Offset, true)); err != nil {
			return err
		}
	}
	p.out.TimeIndexEntries = p.times.Len()
	return nil
}

// fault tells what is wrong with a part of the log, nil for a good batch. The
// error is one that ends the replay.
func (p *replay) fault(part Part) (bad, err error) {
	s, h := p.s, part.Summary
	switch {
	case part.Kind != Whole:
		first, last := int64(-1), int64(-1)
		if part.Kind == Damaged {
			first, last = h.BaseOffset, h.LastOffset
		}
		return s.corrupt(part.Position, part.Size, first, last, part.Err), nil
	case h.LastOffset < s.nextOffset || h.LastOffset < h.BaseOffset:
		return s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset,
			fmt.Errorf("last offset %d, want %d or more", h.LastOffset, s.nextOffset)), nil
	case s.Fits(h.LastOffset):
		return s.moved(&p.walk, part, s.nextOffset)
	}
	// Base offsets are not under the checksum. One that does not fit is
	// damage if the batches behind it go on below; else an old broker let the
	// segment grow beyond 32 bits.
	damage := s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset, errors.New(ErrOffsetOverflow.Error()))
	if h.LastOffset >= p.overflowBelow {
		return damage, nil
	}
	if next, ok, err := p.walk.batchAt(part.Position + part.Size); err != nil || ok && next.LastOffset < h.LastOffset {
		return damage, err
	}
	return nil, s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset, ErrOffsetOverflow)
}

// moved doubts a batch that leaves a gap before it, where want was due: the base
// offset is not under the checksum, and if the next one goes on below, it was moved up.
// Gaps are rare.
func (s *Segment) moved(w *Walker, part Part, want int64) (bad, err error) {
	h := part.Summary
	if h.BaseOffset <= want {
		return nil, nil
	}
	next, ok, err := w.batchAt(part.Position + part.Size)
	if err != nil || !ok || next.BaseOffset < want || next.BaseOffset > h.LastOffset {
		return nil, err
	}
	return s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset,
		fmt.Errorf("base offset %d, and the next batch begins at %d", h.BaseOffset, next.BaseOffset)), nil
}

// stop looks whether good batches are among what is to be cut, and refuses to
// cut bytes that were durable.
func (p *replay) stop(part Part, bad error) error {
	kind := part.Kind
	p.out.Zeros = kind == Zeros
	p.out.Reach = part.Reach(p.s.nextOffset)
	p.out.Stranded = kind == Whole // with an offset that cannot be
	for !p.out.Stranded && p.walk.Next() {
		p.out.Stranded = p.walk.Part().Kind == Whole
	}
	missing := (kind == Torn || kind == Zeros) && !p.out.Stranded
	if p.s.nextOffset < p.recovery.Durable && !missing {
		return bad
	}
	return nil
}

func (p *replay) take(part Part) error {
	s, h := p.s, part.Summary
	if part.Position == 0 {
		s.anchor = h.MaxTimestamp
	}
	p.newest.raise(h.MaxTimestamp, h.LastOffset)
	if part.Position-p.lastIndexed > s.opts.IndexIntervalBytes {
		if err := p.index(h.LastOffset, part.Position); err != nil {
			return err
		}
		p.lastIndexed = part.Position
	}
	s.nextOffset = h.LastOffset + 1
	if p.recovery != nil && s.nextOffset <= p.recovery.Durable {
		p.out.Unsure = part.Position + part.Size
	}
	p.out.Batches++
	if p.recovery != nil && p.recovery.Visit != nil {
		return p.recovery.Visit(h, p.load)
	}
	if p.visit == nil {
		return nil
	}
	b, err := p.walk.Batch()
	if err != nil {
		return err
	}
	return p.visit(part.Position, b)
}

// index adds an entry to each index. There may be more of them than when the log
// was written: sets were indexed once then, and the settings may have changed. A
// full index takes no more, and look-ups scan from its last entry.
func (p *replay) index(lastOffset, pos int64) error {
	if p.out.NoRoom {
		return nil
	}
	if p.offsets != nil {
		if err := p.room(p.offsets.Append(lastOffset, pos)); err != nil && !errors.Is(err, index.ErrFull) {
			return err
		}
	}
	if p.times != nil && p.newest.Timestamp >= 0 {
		err := p.room(p.times.MaybeAppend(p.newest.Timestamp, p.newest.Offset, false))
		if !errors.Is(err, timeindex.ErrFull) {
			return err
		}
	}
	return nil
}

// room takes note of a full disk, on which a log is recovered all the same: without
// being opened nothing can be removed from it.
func (p *replay) room(err error) error {
	if p.recovery == nil || !vfs.IsNoSpace(err) {
		return err
	}
	p.out.NoRoom = true
	return nil
}

// CutShort makes a *CorruptionError of the error of a read that came upon the end of
// the file too early: someone has cut it. The segment must be acquired.
func (s *Segment) CutShort(err error) error {
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	fi, serr := s.open.log.Stat()
	if serr != nil {
		return err
	}
	return s.corrupt(fi.Size(), max(0, s.size.Load()-fi.Size()), -1, -1, err)
}

// findEndLocked finds the end of a log whose tail can be trusted: from the
// last index entry on, headers are read. One that is out of order is for readers to
// find: only the last one matters here.
func (s *Segment) findEndLocked() error {
	var c Scanner
	size := s.size.Load()
	newest, timed := s.lastTimeEntry()
	if !timed {
		newest = TimestampOffset{-1, s.base}
	}
	s.nextOffset, s.anchor, s.sinceIndex = s.base, -1, 0
	c.Reset(s, 0, size)
	if h, err := c.header(); err == nil {
		s.anchor = h.MaxTimestamp
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	var from int64
	if e, ok := s.open.index.Last(); ok {
		from = e.Position
		if from >= size {
			return s.corrupt(size, 0, -1, -1, fmt.Errorf("the index has an entry at position %d, behind the end", from))
		}
	}
	// The time index may know less than the offset index: its last entry says
	// nothing of what lies behind it.
	if timed {
		from = min(from, s.floor(newest.Offset).Position)
	} else {
		from = 0
	}
	c.Reset(s, from, size)
	for {
		h, err := c.header()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.nextOffset = h.LastOffset + 1
		newest.raise(h.MaxTimestamp, h.LastOffset)
		c.Advance()
	}
	s.setNewest(newest)
	return nil
}

// positionLocked is where the first batch with a last offset at or above
// offset starts, or the size of the log.
func (s *Segment) positionLocked(offset int64) (int64, error) {
	var c Scanner
	err := s.SeekOffset(&c, offset)
	if errors.Is(err, io.EOF) {
		return s.size.Load(), nil
	}
	return c.pos, err
}

// BoundTail limits a read-only segment, the last of its log, to the whole and
// valid batches that are there now: a writer may be in the middle of the next
// one, and behind an unclean stop there may be anything. Called again it takes
// in what was appended since. It reports what lies behind the end.
//
// Damage that sound batches follow belongs to the log, which goes on to the last of
// them: nobody may say that it ends before. So does damage at the end of what lies
// below durable, the offset up to which everything was on disk.
func (s *Segment) BoundTail(durable int64) (Recovery, error) {
	s.open.Lock()
	defer s.open.Unlock()
	first := !s.open.isOpen
	if first {
		if err := s.openFilesLocked(false); err != nil {
			return Recovery{}, err
		}
	}
	fi, err := s.open.log.Stat()
	if err != nil {
		return Recovery{}, err
	}
	s.open.seen = sight{fi.Size(), fi.ModTime()}
	from := s.size.Load()
	if first {
		s.size.Store(fi.Size()) // for the bounds check of the index
		s.nextOffset = s.base
		from = s.trustedPosition()
	}
	t := tail{s: s, durable: durable, nextOffset: s.nextOffset, newest: s.Newest()}
	found := t
	if err := found.walk(from, fi.Size()); err != nil {
		return found.out, err
	}
	if found.out.Damage != nil {
		// It may be the seam between what a truncation has taken away meanwhile and
		// what was appended then.
		found = t
		if err := found.walk(from, fi.Size()); err != nil {
			return found.out, err
		}
	}
	found.out.Cut = fi.Size() - found.out.Bytes
	s.nextOffset = found.nextOffset
	s.size.Store(found.out.Bytes)
	if first {
		if err := s.newestBelow(from, &found.newest); err != nil {
			return found.out, err
		}
	}
	s.setNewest(found.newest)
	return found.out, nil
}

// tail finds the end of a log that may be being written to.
type tail struct {
	s          *Segment
	durable    int64
	nextOffset int64
	newest     TimestampOffset
	out        Recovery

	bad Part  // where the sound batches stopped, if out.Reason is not nil
	end int64 // of the damage from there on
}

func (t *tail) walk(pos, end int64) error {
	var w Walker
	w.Reset(t.s.open.log, t.s.base, pos, end)
	t.out.Bytes = pos
	for w.Next() {
		part := w.Part()
		if bad, err := t.fault(&w, part); err != nil {
			return err
		} else if bad != nil {
			t.stop(part, bad)
			continue
		}
		if t.out.Reason != nil && !t.resume(part) {
			break
		}
		t.newest.raise(part.Summary.MaxTimestamp, part.Summary.LastOffset)
		t.nextOffset = part.Summary.LastOffset + 1
		t.out.Batches++
		t.out.Bytes = part.Position + part.Size
	}
	if t.out.Reason != nil && t.nextOffset < t.durable && t.end > 0 {
		t.out.Damage = cmp.Or(t.out.Damage, t.out.Reason)
		t.out.Reason, t.out.Bytes, t.nextOffset = nil, t.end, t.durable
	}
	return t.s.CutShort(w.Err())
}

// fault tells what is wrong with a part; nil for a sound batch.
func (t *tail) fault(w *Walker, part Part) (bad, err error) {
	s, h := t.s, part.Summary
	switch {
	case part.Kind == Damaged:
		return s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset, part.Err), nil
	case part.Kind != Whole:
		return s.corrupt(part.Position, part.Size, -1, -1, part.Err), nil
	case h.LastOffset < t.nextOffset:
		return s.corrupt(part.Position, part.Size, h.BaseOffset, h.LastOffset,
			fmt.Errorf("last offset %d, want %d or more", h.LastOffset, t.nextOffset)), nil
	}
	return s.moved(w, part, t.nextOffset)
}

// stop notes bytes that are no sound batch.
func (t *tail) stop(part Part, bad error) {
	if t.out.Reason == nil {
		t.out.Reason, t.bad, t.end = bad, part, 0
		t.out.Zeros = part.Kind == Zeros
	}
	if part.Kind != Torn && part.Kind != Zeros && !errors.Is(part.Err, record.ErrShort) {
		t.end = part.Position + part.Size
	}
}

// resume goes on at a sound batch behind what was bad, and reports false if that is a
// batch that is being written: in what is there of its records may lie batches, too,
// but they are not the log's.
func (t *tail) resume(next Part) bool {
	begun := t.bad.Kind == Unreadable && errors.Is(t.bad.Err, record.ErrShort)
	if begun && t.nextOffset >= t.durable && next.Summary.BaseOffset != t.bad.Summary.LastOffset+1 {
		return false
	}
	t.out.Damage = cmp.Or(t.out.Damage, t.out.Reason)
	t.out.Reason = nil
	return true
}

// newestBelow raises newest by the batches before position from: the last entry of
// the time index stands for what lies before it, the rest is scanned.
func (s *Segment) newestBelow(from int64, newest *TimestampOffset) error {
	var unknown int64 // the time index says nothing of what lies here and behind
	if last, ok := s.lastTimeEntry(); ok && last.Offset < s.nextOffset {
		newest.raise(last.Timestamp, last.Offset)
		unknown = s.floor(last.Offset).Position
	} else if ok { // it speaks of batches that are not there
		s.open.time.Close()
		s.open.time = nil
	}
	if unknown >= from {
		return nil
	}
	var c Scanner
	if err := s.scanNewest(&c, unknown, newest); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return nil
}

// trustedPosition is the position of the last index entry if a sound batch
// starts there, else 0.
func (s *Segment) trustedPosition() int64 {
	if s.open.index == nil {
		return 0
	}
	for i := s.open.index.Len() - 1; i >= 0; i-- {
		e := s.open.index.At(i)
		var c Scanner
		c.Reset(s, e.Position, s.size.Load())
		if b, err := c.Checked(); err == nil && b.BaseOffset() <= e.Offset && b.BaseOffset() >= s.base {
			return e.Position
		}
	}
	return 0
}
