package compaction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Options are the settings of a Cleaner. Those that a log may change are in Round.
type Options struct {
	// MapBytes is how much memory the key map takes at most, at SlotBytes a key.
	// Kafka: log.cleaner.dedupe.buffer.size. 0 means 128 MiB.
	MapBytes int64
	// LoadFactor is the share of the map that is used. Kafka:
	// log.cleaner.io.buffer.load.factor. 0 means 0.9.
	LoadFactor float64
	// BytesPerSecond limits what is read and written, together. Kafka:
	// log.cleaner.io.max.bytes.per.second. 0 means no limit.
	BytesPerSecond int64
	// DryRun reads and counts, and writes nothing.
	DryRun bool
	// Progress, if not nil, is told at the beginning of each pass, and now and then, how
	// far a round is.
	Progress func(Progress)
}

const (
	defaultMapBytes   = 128 << 20
	defaultLoadFactor = 0.9
)

// Progress says how far a round is.
type Progress struct {
	Rewriting   bool  // it is in the second pass
	Done, Total int64 // bytes of log, in the present pass
}

// Round is a part of a log that is to be cleaned.
type Round struct {
	Dir string
	// Segment are the options of new segments; Suffix is not looked at.
	Segment segment.Options
	// Sources are the sealed segments of the log from the first on. Those above
	// FirstUncleanable may be missing.
	Sources []*segment.Segment
	// Next is the base offset of the segment behind the last of them.
	Next int64
	// Start is the log start offset.
	Start int64
	// FirstDirty is where the dirty part begins, and FirstUncleanable, the base offset
	// of a segment, where it ends.
	FirstDirty, FirstUncleanable int64
	// Aborted are the aborted transactions that began below FirstUncleanable, wherever
	// they ended.
	Aborted []segment.AbortedTxn
	// Transactions says that the log has some, or had: then a segment has a list of
	// aborted ones though there is none in it. See segment.Segment.KeepAborted.
	Transactions bool
	// SegmentBytes and IndexBytes are segment.bytes and segment.index.bytes.
	SegmentBytes, IndexBytes int64
	// DeleteRetention is delete.retention.ms.
	DeleteRetention time.Duration
	// Now is the time that delete horizons are judged by.
	Now time.Time
	// Producers returns, by id, what active producers have written last. It is called
	// once for each group. nil means that there are none.
	Producers func() map[int64]LastRecord
	// Acquire takes the place of Segment.Acquire, if it is not nil.
	Acquire func(*segment.Segment) error
}

// Group is some neighbouring segments and what has become of them.
type Group struct {
	Sources []*segment.Segment
	// Next is the base offset of the segment behind the last of Sources.
	Next int64
	// Bases are the base offsets of the segments that were written, under .cleaned
	// names, durable and closed. The first is that of the first source. There is more
	// than one only if what is left does not fit. There is none if the only source stays
	// as it is, or in a dry run.
	Bases         []int64
	Before, After Volume
}

// Volume is an amount of log.
type Volume struct {
	Records, Batches, Bytes int64
}

func (v *Volume) add(o Volume) {
	v.Records += o.Records
	v.Batches += o.Batches
	v.Bytes += o.Bytes
}

// Result is what a round did, or would.
type Result struct {
	// End is the offset below which the log is clean now: the next FirstDirty. It is
	// below FirstUncleanable if the map got full.
	End int64
	// Mapped is what the first pass read, Read what the second did, and Kept what it
	// wrote or left as it was.
	Mapped, Read, Kept Volume
	// Dropped counts the records that are gone, by their fate.
	Superseded, Expired, Aborted, Keyless, Markers int64
	// Keys is how many keys the map held, and Slots how many fit.
	Keys, Slots int
}

// A Cleaner cleans one log after the other, and keeps its memory from one to the next.
// It is not safe for concurrent use.
type Cleaner struct {
	opts    Options
	keys    *KeyMap
	hashes  []keyHash // of keys that the map is about to be told of
	offsets []int64   // theirs
	pace    pace
	w       rewriter
	buf     []byte // of the writer

	legacyHorizon int64
	segmentBytes  int64 // segment.MaxBytes, but for tests

	told int64 // bytes since Progress was told last
}

// New returns a Cleaner. Options out of their range are an error.
func New(o Options) (*Cleaner, error) {
	if o.MapBytes == 0 {
		o.MapBytes = defaultMapBytes
	}
	if o.LoadFactor == 0 {
		o.LoadFactor = defaultLoadFactor
	}
	c := &Cleaner{opts: o, pace: pace{bytesPerSecond: o.BytesPerSecond}, segmentBytes: segment.MaxBytes}
	switch {
	case !(o.LoadFactor > 0 && o.LoadFactor <= 1):
		return nil, fmt.Errorf("load factor %v, want above 0, up to 1", o.LoadFactor)
	case c.limit() < 1:
		return nil, fmt.Errorf("no key fits a map of %d bytes", o.MapBytes)
	case o.BytesPerSecond < 0:
		return nil, fmt.Errorf("%d bytes a second, want 0 or more", o.BytesPerSecond)
	}
	return c, nil
}

// Release gives back the memory for keys. The next round takes what it needs.
func (c *Cleaner) Release() { c.keys = nil }

// limit is how many keys the map takes.
func (c *Cleaner) limit() int {
	return int(float64(c.opts.MapBytes/SlotBytes) * c.opts.LoadFactor)
}

// Clean cleans a part of a log. For each group of segments it calls swap, which puts
// what was written in the place of the sources; an error of it ends the round. When
// Clean returns an error no .cleaned file is left that swap was not told of, and what
// was swapped before stays: a round may end behind any group, as long as the next one
// begins at the same FirstDirty.
//
// Damage is a *segment.CorruptionError. ctx is looked at for each batch.
func (c *Cleaner) Clean(ctx context.Context, r Round, swap func(Group) error) (Result, error) {
	if r.Acquire == nil {
		r.Acquire = (*segment.Segment).Acquire
	}
	res := Result{End: r.FirstDirty}
	if r.FirstDirty >= r.FirstUncleanable {
		return res, nil
	}
	all, err := r.sources()
	if err != nil {
		return res, err
	}
	if err := c.mapKeys(ctx, &r, all, &res); err != nil {
		return res, err
	}
	end := c.keys.Latest() + 1
	n := 0
	for n < len(all) && all[n].base < end {
		n++
	}
	if err := c.prepare(&r, all[:n]); err != nil {
		return res, err
	}
	total := int64(0)
	for _, s := range all[:n] {
		total += s.size
	}
	c.tell(Progress{Rewriting: true, Total: total})
	for _, g := range group(all[:n], r.SegmentBytes, r.IndexBytes) {
		if err := c.cleanGroup(ctx, &r, g, total, &res, swap); err != nil {
			return res, err
		}
	}
	res.End = end
	return res, nil
}

// sources describes the segments below the first uncleanable offset.
func (r *Round) sources() ([]source, error) {
	var all []source
	for i, s := range r.Sources {
		if s.Base() >= r.FirstUncleanable {
			break
		}
		next := r.Next
		if i+1 < len(r.Sources) {
			next = r.Sources[i+1].Base()
		}
		if err := r.Acquire(s); err != nil {
			return nil, err
		}
		v := s.View()
		d := source{seg: s, base: s.Base(), next: next, size: v.Size}
		if v.Index != nil {
			d.index = int64(v.Index.Len()) * indexEntrySize
		}
		if v.Time != nil {
			d.timeIndex = int64(v.Time.Len()) * timeIndexEntrySize
		}
		s.Release()
		all = append(all, d)
	}
	return all, nil
}

// Sizes of index entries on disk.
const (
	indexEntrySize     = 8
	timeIndexEntrySize = 12
)

// mapKeys is the first pass.
func (c *Cleaner) mapKeys(ctx context.Context, r *Round, all []source, res *Result) error {
	c.makeMap(r.FirstUncleanable - r.FirstDirty)
	limit := c.limit()
	txns := newTransactions(r.Aborted, r.FirstDirty, r.Start)
	var dirty []source
	total := int64(0)
	for _, s := range all {
		if s.next > r.FirstDirty {
			dirty = append(dirty, s)
			total += s.size
		}
	}
	c.tell(Progress{Total: total})
	for _, s := range dirty {
		full, err := c.mapSegment(ctx, r, s, txns, limit, total, res)
		if err != nil {
			return err
		}
		if full {
			break
		}
		// Offsets that nobody has are clean, too.
		c.keys.SetLatest(s.next - 1)
	}
	res.Keys, res.Slots = c.keys.Len(), int(c.opts.MapBytes/SlotBytes)
	return nil
}

// makeMap makes room for the keys of so many offsets, or as many as are allowed.
func (c *Cleaner) makeMap(offsets int64) {
	slots := c.opts.MapBytes / SlotBytes
	if offsets < slots/2 {
		slots = min(slots, offsets+offsets/2+1)
	}
	if c.keys != nil && int64(c.keys.Cap()) >= slots {
		c.keys.Clear()
		return
	}
	c.keys = nil // before the larger one comes
	c.keys = NewKeyMap(int(min(slots, math.MaxInt32)))
}

// mapSegment reads the dirty part of s. It reports whether the map got full.
func (c *Cleaner) mapSegment(ctx context.Context, r *Round, s source, txns *transactions, limit int, total int64, res *Result) (full bool, err error) {
	var scan segment.Scanner
	from := max(r.FirstDirty, s.base)
	b, err := r.seek(&scan, s, from)
	for ; err == nil; b, err = r.next(&scan, s) {
		res.Mapped.Batches++
		res.Mapped.Bytes += int64(b.Size())
		if err := c.step(ctx, b.Size(), Progress{Done: res.Mapped.Bytes, Total: total}); err != nil {
			return false, err
		}
		if full, err = c.mapBatch(b, r.FirstDirty, limit, txns, res); full || err != nil {
			return full, damaged(s.seg, &scan, b, err)
		}
		if b.LastOffset() >= r.FirstDirty {
			c.keys.SetLatest(b.LastOffset())
		}
		scan.Advance()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return false, err
}

func (c *Cleaner) mapBatch(b record.Batch, firstDirty int64, limit int, txns *transactions, res *Result) (full bool, err error) {
	it := &c.w.it
	if b.IsControl() {
		res.Mapped.Records++
		if err := it.Reset(b); err != nil {
			return false, err
		}
		kind, none := record.UnknownControl, true
		if it.Next() {
			if kind, _, err = record.ParseControl(it.Record().Key); err != nil {
				return false, err
			}
			none = false
		}
		// What lies below the place where the reading began was not seen.
		if _, _, err = txns.control(b, kind, none); errors.Is(err, errUnlisted) {
			err = nil
		}
		return false, errors.Join(err, it.Err())
	}
	if txns.data(b) {
		res.Mapped.Records += int64(b.Count())
		return false, nil
	}
	if err := it.Reset(b); err != nil {
		return false, err
	}
	return c.mapRecords(firstDirty, limit, res)
}

// mapRecords takes those of the iterator, some at a time: see KeyMap.touch.
func (c *Cleaner) mapRecords(firstDirty int64, limit int, res *Result) (full bool, err error) {
	it := &c.w.it
	for more := true; more && !full; {
		c.hashes, c.offsets = c.hashes[:0], c.offsets[:0]
		for len(c.hashes) < atOnce {
			if more = it.Next(); !more {
				break
			}
			res.Mapped.Records++
			if rec := it.Record(); rec.Key != nil && rec.Offset >= firstDirty {
				c.hashes = append(c.hashes, c.keys.hash(rec.Key))
				c.offsets = append(c.offsets, rec.Offset)
			}
		}
		c.keys.touch(c.hashes)
		for i, h := range c.hashes {
			if full = c.keys.Len() >= limit || !c.keys.put(h, c.offsets[i]); full {
				break
			}
		}
	}
	return full, it.Err()
}

// atOnce is how many keys are looked up together.
const atOnce = 256

// seek aims at the batch of s that holds offset, or the next one, and returns it.
func (r *Round) seek(scan *segment.Scanner, s source, offset int64) (record.Batch, error) {
	if err := r.Acquire(s.seg); err != nil {
		return record.Batch{}, err
	}
	defer s.seg.Release()
	bound := segment.Bound{Upper: s.next, Sealed: true}
	if offset > s.base {
		if err := s.seg.SeekBelow(scan, offset, bound); err != nil {
			return record.Batch{}, err
		}
	} else {
		scan.Reset(s.seg, 0, s.seg.View().Size)
		scan.Bound(bound)
	}
	return scan.Checked()
}

// next returns the present batch. It is the scanner's and stays valid until the next
// call, though the segment is released meanwhile: truncation and removal do not wait.
func (r *Round) next(scan *segment.Scanner, s source) (record.Batch, error) {
	if err := r.Acquire(s.seg); err != nil {
		return record.Batch{}, err
	}
	defer s.seg.Release()
	return scan.Checked()
}

// step accounts for n bytes, waits if they came too early, and returns the cause when
// ctx has ended.
func (c *Cleaner) step(ctx context.Context, n int, p Progress) error {
	c.told += int64(n)
	if c.told >= progressBytes {
		c.tell(p)
	}
	return c.pace.take(ctx, n)
}

func (c *Cleaner) tell(p Progress) {
	c.told = 0
	if c.opts.Progress != nil {
		c.opts.Progress(p)
	}
}

// progressBytes is how often Progress is told.
const progressBytes = 4 << 20

// damaged puts the place of b to what is wrong with it.
func damaged(s *segment.Segment, scan *segment.Scanner, b record.Batch, err error) error {
	if err == nil {
		return nil
	}
	return &segment.CorruptionError{
		File: s.Name(), BaseOffset: s.Base(), Position: scan.Position(), Length: int64(b.Size()),
		FirstOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Err: err,
	}
}

// prepare is between the passes.
func (c *Cleaner) prepare(r *Round, all []source) error {
	w := &c.w
	w.keys, w.roundEnd = c.keys, r.FirstUncleanable
	w.now, w.retention = r.Now.UnixMilli(), r.DeleteRetention.Milliseconds()
	w.counts = [fates]int64{}
	w.txns = newTransactions(r.Aborted, 0, r.Start)
	var err error
	c.legacyHorizon, err = r.legacyHorizon(all)
	return err
}

// legacyHorizon is the modification time that a segment must be younger than for its
// tombstones of magic 0 and 1 to stay: such batches have no room for a horizon.
func (r *Round) legacyHorizon(all []source) (int64, error) {
	horizon := int64(0)
	for _, s := range all {
		if s.base >= r.FirstDirty {
			break
		}
		modified, err := s.seg.ModTime()
		if err != nil {
			return 0, err
		}
		horizon = modified - r.DeleteRetention.Milliseconds()
	}
	return horizon, nil
}
