package kafkadump

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
)

// log prints the batches of a log or of a KRaft snapshot.
func (d *Dumper) log(path, name string) error {
	if err := d.logTitle(name); err != nil {
		return err
	}
	s, err := d.open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	fileEnd := s.end
	if d.opts.MaxBytes > 0 {
		s.end = min(s.end, d.opts.MaxBytes)
	}
	r := recordPrinter{d: d, s: s, last: -1}
	end := int64(0)
	for {
		b, some, err := s.next(end)
		if err == nil && some {
			err = r.batch(b)
		}
		if err != nil {
			d.damaged = true
			return err
		}
		if !some {
			break
		}
		end += b.size
	}
	d.addGaps(path, r.gaps)
	if end < s.end && d.opts.MaxBytes == 0 {
		d.damaged = d.damaged || !d.mayEndTorn(path)
		fmt.Fprintf(d.out, "Found %d invalid bytes at the end of %s\n", fileEnd-end, name)
	}
	return nil
}

// mayEndTorn reports whether no segment follows this one: then a batch may be
// on its way, or a crash has cut it off, which opening the log repairs.
func (d *Dumper) mayEndTorn(path string) bool {
	this, ok := layout.ParseFile(filepath.Base(path))
	entries, err := d.fs.ReadDir(filepath.Dir(path))
	if !ok || err != nil {
		return true
	}
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		f, ok := layout.ParseFile(e.Name())
		return ok && f.Kind == layout.Log && f.State == layout.Live && f.Base > this.Base
	})
}

func (d *Dumper) logTitle(name string) error {
	if filepath.Ext(name) == layout.Log.Suffix() {
		base, err := baseOffset(name)
		if err == nil {
			fmt.Fprintf(d.out, "Log starting offset: %d\n", base)
		}
		return err
	}
	f, ok := layout.ParseFile(name)
	switch {
	case ok && f.Kind == layout.KRaftBootstrap:
		fmt.Fprintln(d.out, "KRaft bootstrap snapshot")
	case ok && f.Kind == layout.KRaftCheckpoint:
		fmt.Fprintf(d.out, "Snapshot end offset: %d, epoch: %d\n", f.Base, f.Epoch)
	default:
		return &Exception{noSuchElement, "No value present"}
	}
	return nil
}

// addGaps keeps the places where offsets do not rise by one, which the tool
// sorts by the offset in front of the gap, keeping the last of those with the
// same one.
func (d *Dumper) addGaps(path string, gaps map[int64]int64) {
	if len(gaps) == 0 {
		return
	}
	f := findings{heading: "Non-consecutive offsets in " + d.absolute(path)}
	for _, before := range slices.Sorted(maps.Keys(gaps)) {
		f.lines = append(f.lines, fmt.Sprintf("  %d is followed by %d", before, gaps[before]))
	}
	d.gaps = append(d.gaps, f)
}

// recordPrinter prints batches and, if wanted, their records.
type recordPrinter struct {
	d    *Dumper
	s    *source
	it   record.Iterator
	last int64           // offset of the last record
	gaps map[int64]int64 // see addGaps
	line []byte
}

func (r *recordPrinter) batch(b batch) error {
	h, err := r.header(b)
	if err != nil || !r.d.opts.Deep || !b.legacy() && h.count == 0 {
		return err
	}
	if b.legacy() && h.flags().Codec() == record.None {
		return r.message(b, h)
	}
	if err := r.s.records(&r.it, b, h); err != nil {
		return err
	}
	return r.records(b, h)
}

// header prints the line of a batch. Its two halves are printed one after the
// other, and the second may fail.
func (r *recordPrinter) header(b batch) (header, error) {
	out := r.d.out
	if b.legacy() {
		fmt.Fprintf(out, "offset: %d", b.offset)
	}
	h, err := r.s.header(b)
	if err != nil {
		return h, err
	}
	if !b.legacy() {
		fmt.Fprintf(out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d"+
			" producerId: %d producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s",
			b.offset, b.lastOffset(h), h.count, h.baseSequence, h.lastSequence(),
			h.producerID, h.producerEpoch, h.leaderEpoch, h.flags().Transactional(), h.flags().Control(),
			optional(h.baseTimestamp, h.flags().DeleteHorizon()))
	}
	codec, err := h.codec()
	if err != nil {
		return h, err
	}
	valid, err := r.s.valid(b, h)
	if err != nil {
		return h, err
	}
	r.d.damaged = r.d.damaged || !valid
	_, err = fmt.Fprintf(out, " position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
		b.pos, h.timestampType, h.maxTimestamp, b.size, b.magic, codec, h.crc, valid)
	return h, err
}

// records prints the records that the iterator was started on. Those of a batch
// that is compressed are all decoded before the first is printed.
func (r *recordPrinter) records(b batch, h header) error {
	r.line = r.line[:0]
	compressed := h.flags().Codec() != record.None
	for r.it.Next() {
		rec := r.it.Record()
		r.countGap(rec.Offset)
		if err := r.record(b, h, rec); err != nil {
			r.flush()
			return err
		}
		if !compressed || b.legacy() {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	if err := r.it.Err(); err != nil {
		return r.s.asException(b, h, err)
	}
	return r.flush()
}

func (r *recordPrinter) flush() error {
	_, err := r.d.out.Write(r.line)
	r.line = r.line[:0]
	return err
}

func (r *recordPrinter) countGap(offset int64) {
	if offset != r.last+1 {
		if r.gaps == nil {
			r.gaps = map[int64]int64{}
		}
		r.gaps[r.last] = offset
	}
	r.last = offset
}

// record appends the line of a record.
func (r *recordPrinter) record(b batch, h header, rec *record.Record) error {
	if b.legacy() {
		return r.legacyRecord(h, rec.Offset, rec.Timestamp, r.it.LegacyMessage())
	}
	line := r.appendPlace(h, rec.Offset, rec.Timestamp)
	line = append(line, " keySize: "...)
	line = appendSize(line, rec.Key)
	line = append(line, " valueSize: "...)
	line = appendSize(line, rec.Value)
	line = append(line, " sequence: "...)
	line = strconv.AppendInt(line, int64(recordSequence(b, h, rec)), 10)
	line = appendHeaderKeys(append(line, " headerKeys: "...), rec.Headers)
	var err error
	switch {
	case h.flags().Control():
		line, err = appendControl(line, rec)
	case r.d.opts.Print:
		line = appendContents(line, rec.Key, rec.Value)
	}
	if err == nil {
		line = append(line, '\n')
	}
	r.line = line
	return err
}

// appendPlace begins the line of a record.
func (r *recordPrinter) appendPlace(h header, offset, timestamp int64) []byte {
	line := append(r.line, "| offset: "...)
	line = strconv.AppendInt(line, offset, 10)
	line = append(line, ' ')
	line = append(line, h.timestampType.String()...)
	line = append(line, ": "...)
	return strconv.AppendInt(line, timestamp, 10)
}

func recordSequence(b batch, h header, rec *record.Record) int32 {
	if h.baseSequence < 0 {
		return record.NoSequence
	}
	return sequence(h.baseSequence, int32(rec.Offset-b.offset))
}

// appendSize appends the length of bytes, -1 for null.
func appendSize(line, b []byte) []byte {
	if b == nil {
		return append(line, "-1"...)
	}
	return strconv.AppendInt(line, int64(len(b)), 10)
}

func appendHeaderKeys(line []byte, headers []record.Header) []byte {
	line = append(line, '[')
	for i := range headers {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendJavaString(line, []byte(headers[i].Key))
	}
	return append(line, ']')
}

func appendContents(line, key, value []byte) []byte {
	line = slices.Grow(line, len(key)+len(value)+32) // as long as that, if it is text
	if key != nil {
		line = appendJavaString(append(line, " key: "...), key)
	}
	if value != nil {
		line = appendJavaString(append(line, " payload: "...), value)
	}
	return line
}
