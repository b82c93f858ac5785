package seglog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// segmentCheck is the check of one segment: a walk over its log, with the
// entries of its indexes alongside, so that each file is read once and in order.
type segmentCheck struct {
	v      *verification
	ctx    context.Context
	base   int64
	suffix string      // of the files' names, "" or ".swap"
	name   string      // of the log
	last   bool        // the segment that is appended to
	live   bool        // it is last, and a writer is at work
	left   bool        // its writer has not closed the log, and need not have cut it to its end
	only   layout.Kind // if not Unknown, problems of other files are not told
	alone  bool        // there is no log, just the index that only says

	doubts     []Problem // damage that is to be found again before it is told
	confirming bool      // nothing is told

	// problems is closed when the rest has its final values.
	problems chan Problem

	// What was found, for those who see more than one segment.
	batches, records  int64
	bytes, unreadable int64
	next              int64 // offset behind the last batch; base if there is none
	lastPos           int64 // position of the last batch
	damagedFrom       int64 // first offset that may be unreadable, -1 if none
	thinned           bool  // offsets are missing inside: compaction has been here
	gone              bool  // removed before it could be opened
	txns              txnCheck
	err               error // the file system's, or the context's

	// The walk.
	walker  segment.Walker
	it      record.Iterator
	log     vfs.File
	end     int64 // of the log, fixed when it was opened
	before  int64 // what next was before the last batch
	span    int64 // how many offsets the last batch takes
	newest  int64 // largest timestamp so far
	torn    bool  // the log ends in what is no batch
	reach   int64 // then, unless 0: segment.Part.Reach
	epochs  epochCheck
	unsaid  int64 // bytes read since progress was told
	present decoded
	offsets indexCheck
	times   timeIndexCheck
}

// problemsAhead is how many problems a segment may find before it is its turn
// to tell them.
const problemsAhead = 256

func (v *verification) newSegmentCheck(base int64, suffix string) *segmentCheck {
	return &segmentCheck{
		v: v, base: base, suffix: suffix, name: layout.LogName(base) + suffix,
		problems: make(chan Problem, problemsAhead),
		next:     base, before: base, damagedFrom: -1, newest: record.NoTimestamp,
	}
}

// run does the check.
func (s *segmentCheck) run(ctx context.Context) {
	defer close(s.problems)
	s.ctx = ctx
	s.attempt()
	if err := s.confirm(); s.err == nil {
		s.err = err
	}
}

// confirm tells of the damage that was found beside a writer, if it is found once
// more: the writer may have been about to change what was read, a word at a time.
func (s *segmentCheck) confirm() error {
	if len(s.doubts) == 0 {
		return nil
	}
	again := s.v.newSegmentCheck(s.base, s.suffix)
	again.last, again.live, again.left, again.only, again.alone = s.last, s.live, s.left, s.only, s.alone
	again.ctx, again.confirming = s.ctx, true
	again.attempt()
	if again.err != nil {
		return again.err
	}
	for _, p := range s.doubts {
		same := func(q Problem) bool {
			return q.Kind == p.Kind && q.File == p.File && q.Position == p.Position && q.Entry == p.Entry
		}
		if !slices.ContainsFunc(again.doubts, same) {
			continue
		}
		if err := s.send(p); err != nil {
			return err
		}
	}
	return nil
}

// attempt looks at the files once.
func (s *segmentCheck) attempt() {
	// Indexes first: a writer appends to the log before it adds an entry, so
	// no entry seen now is about what is not in the log when it is opened.
	if s.err = s.openIndexes(); s.err != nil {
		return
	}
	defer s.closeIndexes()
	if s.alone {
		s.err = s.readIndexes()
		return
	}
	if s.err = s.open(); s.err != nil {
		// A writer may have removed it since the directory was listed.
		if s.gone = errors.Is(s.err, fs.ErrNotExist); s.gone && s.v.writer {
			s.err = nil
		}
		return
	}
	s.err = s.check()
	s.v.read(s.unsaid)
	if err := s.log.Close(); s.err == nil {
		s.err = err
	}
	s.it.Close()
}

func (s *segmentCheck) open() error {
	f, err := s.v.opts.FS.OpenFile(s.path(s.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.log, s.bytes, s.end = f, info.Size(), info.Size()
	return nil
}

func (s *segmentCheck) check() error {
	if s.end > segment.MaxBytes {
		err := s.told(Damage, "log_size", -1, -1, 0, "%d bytes, more than the %d a position can tell", s.end, int64(segment.MaxBytes))
		if err != nil {
			return err
		}
	}
	if err := s.walk(); err != nil {
		return err
	}
	if err := s.finishIndexes(); err != nil {
		return err
	}
	return s.txns.finish()
}

// walk goes through the log from its beginning to its end.
func (s *segmentCheck) walk() error {
	s.walker.SkipChecksums = s.v.opts.Quick
	s.walker.Reset(s.log, s.base, 0, s.end)
	pos := int64(0)
	for s.walker.Next() {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		part := s.walker.Part()
		if err := s.part(part); err != nil {
			return err
		}
		pos += part.Size
		s.advanced(part.Size)
	}
	err := s.walker.Err()
	var refused *fs.PathError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.shortened(pos, err)
	case errors.As(err, &refused):
		return s.unreadableFrom(pos, refused)
	}
	return err
}

func (s *segmentCheck) part(part segment.Part) error {
	if part.Kind == segment.Whole {
		b, err := s.walker.Batch()
		if err != nil {
			return err
		}
		return s.batch(b, part.Position)
	}
	unfinished, err := s.unfinished(part)
	if err != nil {
		return err
	}
	if unfinished {
		s.torn = true
		part.Size = s.end - part.Position
		s.walker.Reset(s.log, s.base, s.end, s.end)
		what := "are being written"
		if part.Kind == segment.Zeros {
			what = "are room for what is written next"
			if !s.last {
				what = "are room that is about to be cut off"
			}
		}
		err = s.told(Note, "in_progress", part.Position, s.next, part.Size, "the last %d bytes %s", part.Size, what)
	} else {
		err = s.tell(layout.Log, s.damage(part))
	}
	if err != nil {
		return err
	}
	return s.passOver(part)
}

// unfinished reports whether a writer may be about to write the part: it is the
// last thing in the log, or only room that was made lies behind it.
func (s *segmentCheck) unfinished(part segment.Part) (bool, error) {
	if part.Kind == segment.Zeros && s.v.writer {
		return true, nil // of a sealed one it is cut off in a moment
	}
	if !s.live {
		return false, nil
	}
	buf := make([]byte, entryChunk)
	for pos := part.Position + part.Size; pos < s.end; pos += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), s.end-pos)]
		if _, err := vfs.ReadFull(s.log, buf, pos); err != nil {
			return false, err
		}
		for _, b := range buf {
			if b != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// damage describes bytes that are no good batch.
func (s *segmentCheck) damage(part segment.Part) Problem {
	p := Problem{
		Severity: Damage, Kind: damageKind(part.Err), File: s.name,
		Position: part.Position, Offset: s.next, Entry: -1, Length: part.Size, Detail: reason(part.Err),
	}
	end := part.Position + part.Size
	switch {
	case part.Kind == segment.Damaged:
		if h := part.Summary; h.BaseOffset >= s.before && h.LastOffset >= h.BaseOffset && h.LastOffset-s.base <= math.MaxInt32 {
			p.Offset = h.BaseOffset
		}
	case part.Kind == segment.Zeros:
		s.torn, s.reach = true, part.Reach(s.next)
		p.Kind, p.Detail = "zero_tail", fmt.Sprintf("%d zero bytes at position %d", part.Size, part.Position)
		if s.left {
			p.Severity = Warning
			p.Detail += ", room that was made ahead, unless a crash has left them"
		}
	case part.Kind == segment.Torn:
		s.torn, s.reach = true, part.Reach(s.next)
		p.Kind = "torn_tail"
		p.Detail = fmt.Sprintf("torn tail of %d bytes: %s", part.Size, strings.TrimSuffix(p.Detail, ": "+record.ErrShort.Error()))
		if s.last {
			p.Severity = Warning
		}
	case end == s.end:
		s.torn = true
		p.Detail += fmt.Sprintf("; %d bytes up to the end unread", part.Size)
	default:
		p.Detail += fmt.Sprintf("; %d bytes unread, the next good batch is at position %d", part.Size, end)
	}
	return p
}

// shortened ends the walk when the file became shorter since it was opened.
// Only a writer may do that.
func (s *segmentCheck) shortened(pos int64, err error) error {
	if !s.v.writer {
		return err
	}
	s.torn = true
	return s.told(Note, "in_progress", pos, s.next, 0, "the log was cut while it was read")
}

// advanced counts bytes for whoever watches.
func (s *segmentCheck) advanced(n int64) {
	const tellEvery = 1 << 20
	if s.confirming {
		return
	}
	if s.unsaid += n; s.unsaid >= tellEvery {
		s.v.read(s.unsaid)
		s.unsaid = 0
	}
}

// told passes a problem of the log on. It fails when nobody listens any more.
func (s *segmentCheck) told(sev Severity, kind string, pos, offset, length int64, detail string, args ...any) error {
	return s.tell(layout.Log, Problem{
		Severity: sev, Kind: kind, File: s.name, Position: pos, Offset: offset, Entry: -1, Length: length,
		Detail: fmt.Sprintf(detail, args...),
	})
}

func (s *segmentCheck) tell(of layout.Kind, p Problem) error {
	if s.only != layout.Unknown && s.only != of {
		return nil
	}
	switch {
	case p.Severity == Damage && s.v.writer:
		s.doubts = append(s.doubts, p)
		return nil
	case s.confirming:
		return nil
	}
	return s.send(p)
}

func (s *segmentCheck) send(p Problem) error {
	select {
	case s.problems <- p:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// batch checks a batch whose checksum holds.
func (s *segmentCheck) batch(b record.Batch, pos int64) error {
	fault, err := s.judge(b, pos)
	if err != nil {
		return err
	}
	if fault != nil {
		if err := s.tell(layout.Log, *fault); err != nil {
			return err
		}
		if fault.Kind == "bad_codec" || fault.Kind == "too_large" {
			// It is a batch all the same: an index may lead to it.
			if err := s.offsets.batch(pos, b.BaseOffset(), b); err != nil {
				return err
			}
		}
		return s.passOver(s.walker.Part())
	}
	if err := s.order(b, pos); err != nil {
		return err
	}
	if err := s.epochs.batch(s, b, pos); err != nil {
		return err
	}
	s.batches++
	s.lastPos = pos
	return nil
}

// judge checks a batch whose checksum holds, apart from where it stands. It
// returns what makes the batch unusable, if anything does.
func (s *segmentCheck) judge(b record.Batch, pos int64) (*Problem, error) {
	first, last := b.BaseOffset(), b.LastOffset()
	fault := Problem{
		Severity: Damage, File: s.name, Position: pos, Offset: first, Entry: -1, Length: int64(b.Size()),
	}
	switch {
	case last < first:
		fault.Kind, fault.Detail = "bad_header", fmt.Sprintf("the last offset %d is below the first", last)
		return &fault, nil
	case first < s.base || last-s.base > math.MaxInt32:
		fault.Kind = "offset_range"
		fault.Detail = fmt.Sprintf("offsets %d to %d do not fit a segment that begins at %d", first, last, s.base)
		return &fault, nil
	case int64(b.Count()) > last-first+1:
		fault.Kind, fault.Detail = "bad_header", fmt.Sprintf("%d records do not fit offsets %d to %d", b.Count(), first, last)
		return &fault, nil
	}
	s.present = decoded{first: first}
	if s.v.opts.Quick {
		s.records += max(int64(b.Count()), 0)
		return nil, nil
	}
	d, err := decodeAll(b, &s.it)
	if err != nil {
		fault.Kind, fault.Detail = "bad_record", reason(err)
		switch {
		case errors.Is(err, record.ErrTooLarge):
			fault.Kind = "too_large"
		case errors.Is(err, record.ErrUnsupported):
			fault.Kind = "bad_codec"
		}
		return &fault, nil
	}
	s.present = d
	s.records += d.count
	if d.newest > b.MaxTimestamp() {
		return nil, s.told(Warning, "max_timestamp", pos, first, 0,
			"a record has timestamp %d, the batch says %d is the largest: look-ups by time may miss it", d.newest, b.MaxTimestamp())
	}
	return nil, nil
}

// order checks that the batch at pos begins above the one before, and enters it
// into what is known of the segment.
func (s *segmentCheck) order(b record.Batch, pos int64) error {
	first, last := s.present.first, b.LastOffset()
	begins := first // for the index: where the batch begins if all is well
	if s.v.opts.Quick && b.Magic() < record.MagicV2 {
		begins = min(first, s.next) // a wrapper's header tells where it ends
	}
	if first >= s.next {
		s.thinned = s.thinned || first > s.next || b.Count() >= 0 && int64(b.Count()) <= last-first
		s.before, s.next, s.span = s.next, last+1, last+1-first
		return s.enter(b, pos, begins)
	}
	blameLast, err := s.blameLast(b, pos)
	switch {
	case err != nil:
		return err
	case blameLast:
		err := s.told(Damage, "offset_order", s.lastPos, s.next-1, 0,
			"the batch ends at offset %d, and the one behind it begins at %d", s.next-1, first)
		if err != nil {
			return err
		}
		s.suspect(s.before)
		s.next, s.span = last+1, last+1-first
	default:
		err := s.told(Damage, "offset_order", pos, first, 0,
			"the batch begins at offset %d, and the one before it ends at %d", first, s.next-1)
		if err != nil {
			return err
		}
		s.suspect(s.next)
		begins = s.next
	}
	return s.enter(b, pos, begins)
}

// blameLast decides, of two batches that contradict each other, whether the
// first is to blame: it is if it would fit between its neighbours, or if the third
// one contradicts it too.
func (s *segmentCheck) blameLast(b record.Batch, pos int64) (bool, error) {
	var third [8]byte
	pos += int64(b.Size())
	switch {
	case s.batches == 0 || s.present.first < s.before:
		return false, nil
	case s.before+s.span == s.present.first:
		return true, nil
	case s.end-pos < record.MinFrame:
		return false, nil
	}
	if _, err := vfs.ReadFull(s.log, third[:], pos); err != nil {
		return false, err
	}
	offset := int64(binary.BigEndian.Uint64(third[:]))
	return offset < s.next && offset > b.LastOffset(), nil
}

// epochCheck compares the leader epochs of batches, which no checksum covers: they
// never fall.
type epochCheck struct {
	first, last, before epochAt // of the segment, and the one before the last
}

type epochAt struct {
	epoch  int32
	known  bool
	pos    int64
	offset int64
}

func (e *epochCheck) batch(s *segmentCheck, b record.Batch, pos int64) error {
	at := epochAt{b.LeaderEpoch(), true, pos, b.BaseOffset()}
	switch {
	case b.Magic() < record.MagicV2 || at.epoch == record.NoLeaderEpoch:
		return nil
	case at.epoch < 0:
		return s.told(Warning, "epoch_order", pos, at.offset, 0, "leader epoch %d makes no sense", at.epoch)
	case !e.first.known:
		e.first = at
	case at.epoch < e.last.epoch && e.before.known && at.epoch < e.before.epoch:
		return s.told(Warning, "epoch_order", pos, at.offset, 0, "leader epoch %d follows %d", at.epoch, e.last.epoch)
	case at.epoch < e.last.epoch:
		err := s.told(Warning, "epoch_order", e.last.pos, e.last.offset, 0, "leader epoch %d, and the batch behind it has %d", e.last.epoch, at.epoch)
		if err != nil {
			return err
		}
		if e.last == e.first {
			e.first = at
		}
		e.last = at
		return nil
	}
	e.before, e.last = e.last, at
	return nil
}

// enter compares a good batch with the indexes.
func (s *segmentCheck) enter(b record.Batch, pos, begins int64) error {
	if err := s.offsets.batch(pos, begins, b); err != nil {
		return err
	}
	if err := s.times.batch(b, s.newest); err != nil {
		return err
	}
	s.newest = max(s.newest, b.MaxTimestamp())
	return s.txns.batch(b)
}

// suspect notes that records from offset on may not be where they belong.
func (s *segmentCheck) suspect(offset int64) {
	if s.damagedFrom < 0 || offset < s.damagedFrom {
		s.damagedFrom = offset
	}
	s.txns.unsure = true
}

// passOver enters bytes without a good batch into what is known.
func (s *segmentCheck) passOver(part segment.Part) error {
	s.unreadable += part.Size
	if !s.torn || !s.last {
		s.suspect(s.next)
	}
	return s.offsets.hole(part.Position, part.Position+part.Size)
}

// unreadableFrom ends the walk where the file system could not read on.
func (s *segmentCheck) unreadableFrom(pos int64, cause error) error {
	rest := s.end - pos
	s.unreadable += rest
	s.suspect(s.next)
	if err := s.told(Damage, "read_error", pos, s.next, rest, "%v; %d bytes up to the end unread", cause, rest); err != nil {
		return err
	}
	s.torn = true
	return s.offsets.hole(pos, s.end)
}

// damageKind names what is wrong with a frame or a checksum.
func damageKind(err error) string {
	var r *record.Error
	if !errors.As(err, &r) {
		return "bad_size"
	}
	switch r.Field {
	case "crc":
		return "crc_mismatch"
	case "magic":
		return "bad_magic"
	}
	return "bad_size"
}

// reason is an error without the place it is about, which the problem has.
func reason(err error) string {
	var r *record.Error
	if !errors.As(err, &r) {
		return err.Error()
	}
	text := r.Field
	if r.Record >= 0 {
		text = fmt.Sprintf("record %d: %s", r.Record, text)
	}
	if r.Detail != "" {
		text += " " + r.Detail
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// decoded is what the records of a batch are, seen together.
type decoded struct {
	first  int64 // offset of the first record of a legacy batch, else the base offset
	count  int64
	newest int64 // largest timestamp
}

// decodeAll decodes every record. Besides what the iterator finds, offsets must
// rise within those of the batch.
func decodeAll(b record.Batch, it *record.Iterator) (decoded, error) {
	d := decoded{first: b.BaseOffset(), newest: record.NoTimestamp}
	if b.Magic() < record.MagicV2 {
		// The messages in a wrapper have checksums of their own.
		if err := b.Verify(it); err != nil {
			return d, err
		}
	}
	if err := it.Reset(b); err != nil {
		return d, err
	}
	last := b.BaseOffset() - 1
	for it.Next() {
		r := it.Record()
		if b.Magic() >= record.MagicV2 && (r.Offset <= last || r.Offset > b.LastOffset()) {
			return d, &record.Error{
				Kind: record.ErrInvalid, BaseOffset: b.BaseOffset(), Record: int(d.count), Field: "offset",
				Detail: fmt.Sprintf("%d is not in [%d, %d]", r.Offset, last+1, b.LastOffset()),
			}
		}
		if last = r.Offset; d.count == 0 && b.Magic() < record.MagicV2 {
			d.first = r.Offset
		}
		d.count++
		d.newest = max(d.newest, r.Timestamp)
	}
	return d, it.Err()
}

func (s *segmentCheck) path(name string) string { return filepath.Join(s.v.dir, name) }
