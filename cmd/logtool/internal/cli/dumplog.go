package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// logDump shows the batches of one log file.
type logDump struct {
	*dumper
	path, name string
	base       int64
	last       bool // no segment follows: the end may be incomplete
	end        int64
	cut        bool // by --max-bytes

	walker segment.Walker
	it     record.Iterator
	table  *Table
	text   []byte // of --hex
}

// log dumps the log at path. Memory follows its largest batch.
func (d *dumper) log(path string, base int64, last bool) error {
	f, size, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	l := &logDump{dumper: d, path: path, name: filepath.Base(path), base: base, last: last, end: size}
	if limit := d.opts.maxBytes; limit > 0 && limit < size {
		l.end, l.cut = limit, true
	}
	if err := l.begin(); err != nil {
		return err
	}
	progress := d.app.Progress("dumping " + l.name)
	defer progress.Clear()
	l.walker.SkipChecksums = d.opts.noVerify
	l.walker.Reset(f, base, l.seek(f), l.end)
	for d.left > 0 && l.walker.Next() {
		if err := interrupted(d.ctx); err != nil {
			return err
		}
		part := l.walker.Part()
		if !d.app.StdoutTerminal {
			progress.Update(part.Position, l.end)
		}
		if more, err := l.part(part); err != nil || !more {
			return err
		}
	}
	if err := l.walker.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// begin writes what comes before the batches.
func (l *logDump) begin() error {
	if l.out.JSON() {
		return nil
	}
	if err := l.out.Linef("%s", l.out.Paint(Head, l.name)); err != nil || l.opts.hex {
		return err
	}
	offsets := 2*len(strconv.FormatInt(l.base, 10)) + 4
	l.table = l.out.Table(Right("POSITION").Wide(10), Left("OFFSETS").Wide(offsets), Right("RECORDS"),
		Right("SIZE").Wide(7), Left("CODEC").Wide(6), Left("CRC").Wide(3), Left("MAX TIME").Wide(24), Left("NOTE")).Stream()
	return nil
}

// seek returns the position from which on to look for the first offset to show.
// The index is asked, and believed only if it leads to a batch.
func (l *logDump) seek(f vfs.File) int64 {
	if l.from <= l.base || l.cut {
		return 0
	}
	entry, err := l.floor()
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && entry.Position == 0:
		return 0
	case err == nil && l.leadsToBatch(f, entry):
		return entry.Position
	case err == nil:
		err = fmt.Errorf("position %d starts no batch that holds offset %d", entry.Position, entry.Offset)
	}
	l.app.Warnf("%s: %v; reading from the start of the log instead", layout.OffsetIndexName(l.base), err)
	return 0
}

// leadsToBatch reports whether a batch starts at an entry's position that begins
// at or below its offset: an entry may name the last offset of several batches
// that were appended together, or the first of one.
func (l *logDump) leadsToBatch(f vfs.File, e index.Entry) bool {
	left := l.end - e.Position
	if left <= 0 {
		return false
	}
	head := make([]byte, min(left, record.HeaderSize))
	if _, err := vfs.ReadFull(f, head, e.Position); err != nil {
		return false
	}
	s, err := record.Summarize(head)
	return err == nil && int64(s.Size) <= left && s.BaseOffset >= l.base && s.BaseOffset <= e.Offset
}

func (l *logDump) floor() (index.Entry, error) {
	f, _ := layout.ParseFile(l.name)
	if f.Kind != layout.Log {
		return index.Entry{}, nil // a copy of a log, or a snapshot, has no index
	}
	entries, err := l.openEntries(filepath.Join(filepath.Dir(l.path), layout.SegmentFileName(layout.OffsetIndex, l.base, f.State)), l.base, offsetEntry)
	if err != nil {
		return index.Entry{}, err
	}
	defer entries.Close()
	return entries.floor(l.from)
}

// part shows one stretch of the log. It returns false when all that was asked
// for has been shown.
func (l *logDump) part(p segment.Part) (bool, error) {
	s := p.Summary
	switch p.Kind {
	case segment.Whole:
		if s.LastOffset < l.from {
			return true, nil
		}
		if s.BaseOffset >= l.to && s.LastOffset >= l.to { // a wrapper's base is its last
			return false, nil
		}
		return true, l.batch(p)
	case segment.Damaged:
		l.damage++
		return true, l.batch(p)
	case segment.Unreadable:
		l.damage++
		return true, l.gap(p, "unreadable", fmt.Sprintf("%s unreadable: %v", plural(p.Size, "byte", "bytes"), p.Err), Bad)
	}
	return true, l.tail(p)
}

// tail shows an end that is not a whole batch. At the end of a log that is
// nothing bad; opening it for writing cuts it off.
func (l *logDump) tail(p segment.Part) error {
	if l.cut && p.Kind == segment.Torn {
		return nil
	}
	kind, text := "torn", fmt.Sprintf("torn tail: %s of a batch", plural(p.Size, "byte", "bytes"))
	if p.Kind == segment.Zeros {
		kind, text = "zeros", plural(p.Size, "zero byte", "zero bytes")
	}
	held := heldByWriter(l.app.FS, l.path)
	switch {
	case !l.last && (p.Kind != segment.Zeros || !held):
		l.damage++
		return l.gap(p, kind, text+", though another segment follows", Bad)
	case held:
		kind = "in_progress"
		what := "are being written"
		if p.Kind == segment.Zeros {
			what = "are room for what is written next"
		}
		text = fmt.Sprintf("in progress: %s %s", plural(p.Size, "byte", "bytes"), what)
	default:
		l.app.Warnf("%s: %s at position %d; opening the log for writing cuts it off", l.path, text, p.Position)
	}
	return l.gap(p, kind, text, Dim)
}

// gap shows bytes that are no batch.
func (l *logDump) gap(p segment.Part, kind, text string, style Style) error {
	l.left--
	if l.out.JSON() {
		obj := l.out.Object("gap").Text("file", l.path).Int("position", p.Position).Int("size", p.Size).String("kind", kind)
		return l.out.Emit(obj.Text("error", p.Err.Error()))
	}
	if !l.opts.hex {
		return l.table.Row(p.Position, Styled(style, text))
	}
	if err := l.out.Linef("position %d: %s", p.Position, text); err != nil {
		return err
	}
	const shown = 64
	b, err := l.walker.Bytes(shown)
	if err == nil {
		_, err = l.out.Write(appendHex(l.text[:0], b))
	}
	return err
}

// appendHex appends bytes as lines in the form of record.AppendAnnotated.
func appendHex(dst, b []byte) []byte {
	for at := 0; at < len(b); at += 16 {
		line := b[at:min(at+16, len(b))]
		dst = fmt.Appendf(dst, "%02d-%02d: % x\n", at, at+len(line), line)
	}
	return dst
}

// batch shows a batch, whole or not.
func (l *logDump) batch(p segment.Part) error {
	l.left--
	b, err := l.loaded(p)
	if err != nil {
		return err
	}
	switch {
	case l.out.JSON():
		if err := l.emitBatch(p, b); err != nil {
			return err
		}
	case l.opts.hex:
		return l.annotate(p, b)
	default:
		if err := l.row(p, b); err != nil {
			return err
		}
	}
	if !l.opts.records {
		return nil
	}
	return l.recordsOf(p, b)
}

// loaded returns the bytes of a batch as far as they are needed: its header, or
// all of them for its records. Those of a damaged batch are limited, since its
// size may be wrong.
func (l *logDump) loaded(p segment.Part) (record.Batch, error) {
	const most = 64 << 20
	if p.Kind == segment.Damaged && p.Size > most {
		return record.Batch{}, nil
	}
	b, err := l.walker.Batch()
	if err != nil {
		return b, fmt.Errorf("%s: position %d: %w", l.path, p.Position, err)
	}
	return b, nil
}

// row shows the header of a batch as a line of the table.
func (l *logDump) row(p segment.Part, b record.Batch) error {
	crc := any("ok")
	switch {
	case p.Kind == segment.Damaged:
		crc = Styled(Bad, "BAD")
	case l.opts.noVerify:
		crc = "-"
	}
	codec, count := "?", int64(-1)
	note := []string{}
	if b.Bytes() != nil {
		codec, count = codecText(b), int64(b.Count())
		note = notes(b)
	}
	if p.Summary.LastOffset-l.base > 1<<31-1 {
		note = append(note, "offset beyond the 31 bits of a segment")
	}
	if p.Kind == segment.Damaged {
		note = append(note, p.Err.Error())
	}
	first := p.Summary.BaseOffset
	if p.Summary.Magic < record.MagicV2 && b.Bytes() != nil {
		if at, err := b.FirstOffset(&l.it); err == nil {
			first = at
		}
	}
	return l.table.Row(p.Position, fmt.Sprintf("[%d, %d)", first, p.Summary.LastOffset+1),
		numberText(count, count >= 0), p.Size, codec, crc, timeText(p.Summary.MaxTimestamp), strings.Join(note, ", "))
}

// codecText names a codec that need not exist.
func codecText(b record.Batch) string {
	if c := b.Codec(); c.Valid() {
		return c.String()
	}
	return fmt.Sprintf("unknown codec %d", b.Codec())
}

// notes says what is not usual about a batch.
func notes(b record.Batch) (words []string) {
	if b.Magic() < record.MagicV2 {
		words = append(words, fmt.Sprintf("magic %d", b.Magic()))
	}
	if b.TimestampType() == record.LogAppendTime {
		words = append(words, "append time")
	}
	if b.IsControl() {
		words = append(words, "control")
	}
	if b.IsTransactional() {
		words = append(words, "transactional")
	}
	if b.HasProducerID() {
		words = append(words, fmt.Sprintf("producer %d epoch %d sequence %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()))
	}
	if at, some := b.DeleteHorizon(); some {
		words = append(words, "delete horizon "+timeText(at))
	}
	if epoch := b.LeaderEpoch(); epoch > 0 {
		words = append(words, fmt.Sprintf("leader epoch %d", epoch))
	}
	return words
}

// emitBatch shows the header of a batch as a JSON object.
func (l *logDump) emitBatch(p segment.Part, b record.Batch) error {
	s := p.Summary
	obj := l.out.Object("batch").Text("file", l.path).Int("position", p.Position).Int("size", p.Size).
		Int("magic", int64(s.Magic)).Int("base_offset", s.BaseOffset).Int("last_offset", s.LastOffset)
	switch {
	case l.opts.noVerify:
		obj.Null("valid")
	default:
		obj.Bool("valid", p.Kind == segment.Whole)
	}
	if p.Err != nil {
		obj.Text("error", p.Err.Error())
	}
	obj.Time("max_time", s.MaxTimestamp)
	if b.Bytes() == nil {
		return l.out.Emit(obj)
	}
	obj.Int("crc", int64(b.CRC())).String("codec", codecText(b)).String("timestamp_type", b.TimestampType().String())
	if count := b.Count(); count >= 0 {
		obj.Int("records", int64(count))
	} else {
		obj.Null("records")
	}
	if s.Magic >= record.MagicV2 {
		obj.Time("base_time", b.BaseTimestamp()).Int("leader_epoch", int64(b.LeaderEpoch())).
			Int("producer_id", b.ProducerID()).Int("producer_epoch", int64(b.ProducerEpoch())).
			Int("base_sequence", int64(b.BaseSequence())).
			Bool("transactional", b.IsTransactional()).Bool("control", b.IsControl())
		if at, some := b.DeleteHorizon(); some {
			obj.Time("delete_horizon", at)
		} else {
			obj.Null("delete_horizon")
		}
	}
	return l.out.Emit(obj)
}

// annotate shows a batch as bytes with what they mean.
func (l *logDump) annotate(p segment.Part, b record.Batch) error {
	state := ""
	if p.Kind == segment.Damaged {
		state = ": " + p.Err.Error()
	}
	if err := l.out.Linef("position %d%s", p.Position, state); err != nil || b.Bytes() == nil {
		return err
	}
	if l.opts.records {
		l.text = record.AppendAnnotated(l.text[:0], b)
	} else {
		l.text = record.AppendAnnotatedHeader(l.text[:0], b)
	}
	_, err := l.out.Write(l.text)
	return err
}

// recordsOf shows the records of a batch. Those before a damaged one are good.
func (l *logDump) recordsOf(p segment.Part, b record.Batch) error {
	if b.Bytes() == nil {
		return nil
	}
	err := l.it.Reset(b)
	for err == nil && l.it.Next() {
		r := l.it.Record()
		if r.Offset < l.from || r.Offset >= l.to {
			continue
		}
		if err := l.record(p, b, r); err != nil {
			return err
		}
	}
	if err == nil {
		err = l.it.Err()
	}
	if err == nil {
		return nil
	}
	if p.Kind == segment.Whole { // else it has been counted
		l.damage++
	}
	if l.out.JSON() {
		return l.out.Emit(l.out.Object("bad_records").Text("file", l.path).Int("position", p.Position).Text("error", err.Error()))
	}
	return l.out.Linef("%12s%s", "", l.out.Paint(Bad, err.Error()))
}

// record shows one record.
func (l *logDump) record(p segment.Part, b record.Batch, r *record.Record) error {
	if l.out.JSON() {
		obj := l.out.Object("record").Text("file", l.path).Int("position", p.Position).Record(r)
		if b.IsControl() {
			obj.Text("control", controlText(r))
		}
		return l.out.Emit(obj)
	}
	text := fmt.Appendf(l.text[:0], "%12s%d  key %s  value %s", "", r.Offset, quoted(r.Key, 64), valueSize(l.out, r.Value))
	if b.IsControl() {
		text = fmt.Appendf(l.text[:0], "%12s%d  control %s", "", r.Offset, controlText(r))
	}
	text = fmt.Appendf(text, "  headers %d", len(r.Headers))
	for i := range r.Headers {
		h := &r.Headers[i]
		text = fmt.Appendf(text, " %s=%s", strconv.Quote(h.Key), quoted(h.Value, 64))
	}
	l.text = fmt.Appendf(text, "  %s\n", timeText(r.Timestamp))
	if _, err := l.out.Write(l.text); err != nil {
		return err
	}
	return l.out.lineDone()
}

// valueSize tells null from empty.
func valueSize(out *Output, value []byte) string {
	if value == nil {
		return "null"
	}
	return out.Size(int64(len(value)))
}

// controlText says what a control record is for.
func controlText(r *record.Record) string {
	t, stored, err := record.ParseControl(r.Key)
	switch {
	case err != nil:
		return err.Error()
	case t == record.UnknownControl:
		return fmt.Sprintf("%s(%d)", t, stored)
	}
	if m, err := record.ParseEndTxnMarker(r.Key, r.Value); err == nil {
		return fmt.Sprintf("%s coordinator epoch %d", t, m.CoordinatorEpoch)
	}
	return t.String()
}

// resolveInFile finds what --from and --to mean in a file on its own.
func (d *dumper) resolveInFile(path string, base int64) error {
	f, size, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.opts.span.onlyAbsolute() {
		d.from, d.to = d.opts.span.absolute(d.from, d.to)
		return nil
	}
	d.from, d.to, err = d.opts.span.Resolve(&fileBounds{file: f, base: base, size: size})
	return err
}

// fileBounds finds places in one log file by reading the headers in it.
type fileBounds struct {
	file       vfs.File
	base, size int64
}

func (b *fileBounds) each(visit func(record.Summary) bool) error {
	w := segment.Walker{SkipChecksums: true}
	w.Reset(b.file, b.base, 0, b.size)
	for w.Next() {
		if w.Part().Kind == segment.Whole && !visit(w.Part().Summary) {
			break
		}
	}
	return w.Err()
}

// Offsets makes of a file that cannot be read an empty one: reading it once more
// tells.
func (b *fileBounds) Offsets() seglog.Offsets {
	o := seglog.Offsets{Start: b.base, End: b.base}
	_ = b.each(func(s record.Summary) bool {
		o.End = s.LastOffset + 1
		return true
	})
	o.Durable = o.End
	return o
}

// OffsetForTime is as exact as headers are: it finds the batch.
func (b *fileBounds) OffsetForTime(timestamp int64) (at seglog.TimestampOffset, found bool, err error) {
	err = b.each(func(s record.Summary) bool {
		if s.MaxTimestamp >= timestamp {
			at, found = seglog.TimestampOffset{Timestamp: s.MaxTimestamp, Offset: s.BaseOffset}, true
		}
		return !found
	})
	return at, found, err
}
