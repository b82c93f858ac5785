package record

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// AppendAnnotatedHeader appends the header of b to dst as lines of text, one
// for each field, with its positions, its bytes and what they mean:
//
//	00-08: 00 00 00 00 00 00 a0 3e  # base offset 41022
//	08-12: 00 00 3f f8              # length 16376 (16388 in all)
//
// It is for people: nothing promises that the words stay as they are.
func AppendAnnotatedHeader(dst []byte, b Batch) []byte {
	a := annotator{dst: dst, b: b.b}
	if b.legacy() {
		a.legacyHeader(b)
	} else {
		a.header(b)
	}
	return a.dst
}

// AppendAnnotated is AppendAnnotatedHeader for all bytes of b. Records that are
// compressed, and what comes after a damaged one, are left as bytes.
func AppendAnnotated(dst []byte, b Batch) []byte {
	a := annotator{dst: dst, b: b.b}
	if b.legacy() {
		a.legacyHeader(b)
		a.legacyBody(b)
		return a.dst
	}
	a.header(b)
	if codec := b.Codec(); codec != None {
		a.field(len(a.b)-a.pos, "records in %s", codec)
		return a.dst
	}
	for i := 0; i < int(b.Count()) && a.record(i); i++ {
	}
	a.field(len(a.b)-a.pos, "not decoded")
	return a.dst
}

// annotator writes b to dst, field by field.
type annotator struct {
	dst []byte
	b   []byte
	pos int
}

// field writes the next n bytes, eight to the line, with the meaning on the
// first.
func (a *annotator) field(n int, meaning string, args ...any) {
	comment := "  # " + fmt.Sprintf(meaning, args...)
	for end := a.pos + n; a.pos < end; comment = "" {
		piece := a.b[a.pos:min(a.pos+8, end)]
		a.dst = fmt.Appendf(a.dst, "%02d-%02d:", a.pos, a.pos+len(piece))
		for _, c := range piece {
			a.dst = append(a.dst, ' ')
			a.dst = hex.AppendEncode(a.dst, []byte{c})
		}
		if comment != "" {
			a.dst = append(a.dst, strings.Repeat("   ", 8-len(piece))...)
		}
		a.dst = append(append(a.dst, comment...), '\n')
		a.pos += len(piece)
	}
}

func (a *annotator) header(b Batch) {
	a.field(8, "base offset %d", b.BaseOffset())
	a.field(4, "length %d (%d in all)", b.Size()-LogOverhead, b.Size())
	a.field(4, "leader epoch %d", b.LeaderEpoch())
	a.field(1, "magic %d", b.Magic())
	a.field(4, "crc32c of bytes 21 onward%s", annotateCRC(b))
	a.field(2, "attributes: %s", annotateAttributes(b))
	a.field(4, "last offset delta %d, last offset %d", b.LastOffsetDelta(), b.LastOffset())
	if horizon, ok := b.DeleteHorizon(); ok {
		a.field(8, "base timestamp and delete horizon %d", horizon)
	} else {
		a.field(8, "base timestamp %d", b.BaseTimestamp())
	}
	a.field(8, "max timestamp %d", b.MaxTimestamp())
	a.field(8, "producer id %d", b.ProducerID())
	a.field(2, "producer epoch %d", b.ProducerEpoch())
	a.field(4, "base sequence %d", b.BaseSequence())
	a.field(4, "record count %d", b.Count())
}

func annotateCRC(b Batch) string {
	if computed := b.ComputeCRC(); computed != b.CRC() {
		return fmt.Sprintf(", which is %08x", computed)
	}
	return ""
}

func annotateAttributes(b Batch) string {
	words := []string{b.Codec().String()}
	if b.Magic() > 0 {
		words = append(words, b.TimestampType().String())
	}
	if b.IsTransactional() {
		words = append(words, "transactional")
	}
	if b.IsControl() {
		words = append(words, "control")
	}
	return strings.Join(words, ", ")
}

// varint writes a varint field and returns its value and whether there is one.
func (a *annotator) varint(meaning string) (int32, bool) {
	v, end := varint(a.b, a.pos)
	if end < 0 {
		return 0, false
	}
	a.field(end-a.pos, meaning, v)
	return v, true
}

// record writes the record at pos. If it is damaged, that is as much of it as
// can be told.
func (a *annotator) record(i int) bool {
	length, ok := a.varint(fmt.Sprintf("record %d: length %%d", i))
	if !ok || length < 1 || int(length) > len(a.b)-a.pos {
		return false
	}
	end := a.pos + int(length)
	a.field(1, "  attributes %d", a.b[a.pos])
	delta, p := varlong(a.b, a.pos)
	if p < 0 {
		return false
	}
	a.field(p-a.pos, "  timestamp delta %d", delta)
	if _, ok = a.varint("  offset delta %d"); !ok || !a.bytes("key") || !a.bytes("value") {
		return false
	}
	headers, ok := a.varint("  header count %d")
	for ; ok && headers > 0; headers-- {
		ok = a.bytes("header key") && a.bytes("header value")
	}
	return ok && a.pos == end
}

func (a *annotator) bytes(name string) bool {
	length, ok := a.varint("  " + name + " length %d")
	if !ok || int(length) > len(a.b)-a.pos {
		return false
	}
	a.text("  "+name, max(0, int(length)))
	return true
}

// text writes n bytes, quoted in the comment if they are few.
func (a *annotator) text(name string, n int) {
	const few = 32
	if n <= few {
		a.field(n, "%s %q", name, a.b[a.pos:a.pos+n])
	} else {
		a.field(n, "%s %q...", name, a.b[a.pos:a.pos+few])
	}
}

func (a *annotator) legacyHeader(b Batch) {
	a.field(8, "offset %d", b.LastOffset())
	a.field(4, "size %d (%d in all)", b.Size()-LogOverhead, b.Size())
	a.field(4, "crc32 of bytes 16 onward%s", annotateCRC(b))
	a.field(1, "magic %d", b.Magic())
	a.field(1, "attributes: %s", annotateAttributes(b))
	if b.Magic() == 1 {
		a.field(8, "timestamp %d", b.MaxTimestamp())
	}
}

func (a *annotator) legacyBody(b Batch) {
	for _, name := range []string{"key", "value"} {
		start := a.pos
		p, next := legacyBytes(a.b, start)
		if next < 0 {
			break
		}
		a.field(4, "%s length %d", name, int32(be.Uint32(a.b[start:])))
		if name == "value" && b.Codec() != None {
			a.field(len(p), "messages in %s", b.Codec())
		} else {
			a.text(name, len(p))
		}
	}
	a.field(len(a.b)-a.pos, "not decoded")
}
