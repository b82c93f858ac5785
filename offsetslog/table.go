package offsetslog

import (
	"iter"
	"slices"
)

// table is a map of offsets by partition. Most groups read few partitions, and a Go map
// has room for eight from the first one on; so the first few are a list. The zero value
// is empty. It must not be changed while all goes on.
type table struct {
	few  []row
	many map[TopicPartition]entry // instead of few, once there are more than maxFew
}

type row struct {
	tp TopicPartition
	entry
}

// maxFew is up to where looking at all of a list is as quick as a map.
const maxFew = 8

func (t *table) len() int { return len(t.few) + len(t.many) }

func (t *table) index(tp TopicPartition) int {
	return slices.IndexFunc(t.few, func(r row) bool { return r.tp == tp })
}

func (t *table) get(tp TopicPartition) (e entry, ok bool) {
	if t.many != nil {
		e, ok = t.many[tp]
		return e, ok
	}
	if i := t.index(tp); i >= 0 {
		return t.few[i].entry, true
	}
	return e, false
}

func (t *table) has(tp TopicPartition) bool {
	_, ok := t.get(tp)
	return ok
}

func (t *table) put(tp TopicPartition, e entry) {
	if t.many != nil {
		t.many[tp] = e
		return
	}
	if i := t.index(tp); i >= 0 {
		t.few[i].entry = e
		return
	}
	if len(t.few) < maxFew {
		t.few = append(t.few, row{tp, e})
		return
	}
	t.many = make(map[TopicPartition]entry, 2*maxFew)
	for _, r := range t.few {
		t.many[r.tp] = r.entry
	}
	t.many[tp] = e
	t.few = nil
}

func (t *table) delete(tp TopicPartition) (had bool) {
	if t.many != nil {
		_, had = t.many[tp]
		delete(t.many, tp)
		return had
	}
	i := t.index(tp)
	if i >= 0 {
		t.few = slices.Delete(t.few, i, i+1)
	}
	return i >= 0
}

// all yields what there is, in no order.
func (t *table) all() iter.Seq2[TopicPartition, entry] {
	return func(yield func(TopicPartition, entry) bool) {
		for _, r := range t.few {
			if !yield(r.tp, r.entry) {
				return
			}
		}
		for tp, e := range t.many {
			if !yield(tp, e) {
				return
			}
		}
	}
}
