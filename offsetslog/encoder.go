package offsetslog

import (
	"sync"

	"github.com/seglog/seglog"
)

// encoder holds the records of one append in one buffer, until their effect was
// applied.
type encoder struct {
	buf     []byte
	ends    []int // of each record's key and value in buf; -1 is null
	records []seglog.Record
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

func newEncoder() *encoder { return encoders.Get().(*encoder) }

// free gives the encoder back. Large ones are left to the garbage collector.
func (e *encoder) free() {
	const keep = 64 << 10
	if cap(e.buf) > keep || cap(e.ends) > keep/8 {
		return
	}
	clear(e.records)
	e.buf, e.ends, e.records = e.buf[:0], e.ends[:0], e.records[:0]
	encoders.Put(e)
}

func (e *encoder) len() int { return len(e.ends) / 2 }

// offset adds the record of a committed offset.
func (e *encoder) offset(group string, tp TopicPartition, c Committed) {
	e.buf = Key{Type: OffsetKey, Group: group, TopicPartition: tp}.Append(e.buf)
	e.ends = append(e.ends, len(e.buf))
	e.buf = c.AppendValue(e.buf)
	e.ends = append(e.ends, len(e.buf))
}

// group adds the record of a group's metadata.
func (e *encoder) group(id string, v GroupValue) {
	e.buf = Key{Type: GroupKey, Group: id}.Append(e.buf)
	e.ends = append(e.ends, len(e.buf))
	e.buf = v.AppendValue(e.buf)
	e.ends = append(e.ends, len(e.buf))
}

// tombstone adds the removal of what has a key.
func (e *encoder) tombstone(k Key) {
	e.buf = k.Append(e.buf)
	e.ends = append(e.ends, len(e.buf), -1)
}

// remove adds the removal of a committed offset.
func (e *encoder) remove(g *group, tp TopicPartition) {
	if _, ok := g.old[tp]; ok {
		e.tombstone(Key{Type: OffsetKeyV0, Group: g.id, TopicPartition: tp})
	}
	e.tombstone(Key{Type: OffsetKey, Group: g.id, TopicPartition: tp})
}

func (e *encoder) rawTombstone(key string) {
	e.buf = append(e.buf, key...)
	e.ends = append(e.ends, len(e.buf), -1)
}

// build returns the records, which are valid until free.
func (e *encoder) build(timestamp int64) []seglog.Record {
	e.records = e.records[:0]
	at := 0
	for i := 0; i < len(e.ends); i += 2 {
		r := seglog.Record{Timestamp: timestamp, Key: e.buf[at:e.ends[i]]}
		at = e.ends[i]
		if end := e.ends[i+1]; end >= 0 {
			r.Value = e.buf[at:end]
			at = end
		}
		e.records = append(e.records, r)
	}
	return e.records
}
