package compaction

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// KeyMap knows the last offset of keys, in an amount of memory that is fixed when it
// is made. It is Kafka's SkimpyOffsetMap: a table of 24-byte slots with open
// addressing, that keeps a 16-byte hash of each key and not the key.
//
// Two keys with the same hash would be taken for one, and one of them lost. The hash
// is made of two 64-bit ones of hash/maphash with seeds of their own, drawn anew for
// each map and by Clear, so that nobody can look for such keys, and a pair that met once does not
// meet again. Of n keys the chance that any two meet is below n*n/2^129: with the five
// million keys of a map of 128 MiB it is 4 in 10^26. Kafka compares no keys either;
// it takes MD5, for which colliding keys can be made.
//
// It is not safe for concurrent use.
type KeyMap struct {
	slots  []slot
	seeds  [2]maphash.Seed
	len    int
	latest int64
}

type slot struct {
	hash [2]uint64
	// place is the offset + 1; 0 in a slot that is empty.
	place int64
}

// SlotBytes is how much memory each key of a KeyMap takes.
const SlotBytes = int64(unsafe.Sizeof(slot{}))

// NewKeyMap returns an empty map for at most slots keys. Fill it to nine tenths or
// less: the last tenth takes long to find.
func NewKeyMap(slots int) *KeyMap {
	m := &KeyMap{slots: make([]slot, max(1, slots)), latest: -1}
	m.reseed()
	return m
}

func (m *KeyMap) reseed() { m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()} }

// Put makes offset that of key, and Latest. It reports false, and changes nothing, if
// the key is new and the map is full. Key is not kept.
func (m *KeyMap) Put(key []byte, offset int64) bool {
	h := m.hash(key)
	s := m.find(h)
	if s == nil {
		return false
	}
	if s.place == 0 {
		s.hash = h
		m.len++
	}
	s.place = offset + 1
	m.latest = offset
	return true
}

// Get returns the offset of key, -1 if there is none. It looks at each slot at most
// once, and on average at five when nine of ten are taken.
func (m *KeyMap) Get(key []byte) int64 {
	s := m.find(m.hash(key))
	if s == nil {
		return -1
	}
	return s.place - 1
}

// find returns the slot that has a hash, or the empty one where it belongs; nil if
// there is neither.
func (m *KeyMap) find(h [2]uint64) *slot {
	// The high half of the product spreads the hash evenly over any number of slots.
	first, _ := bits.Mul64(h[0], uint64(len(m.slots)))
	for _, part := range [2][]slot{m.slots[first:], m.slots[:first]} {
		for i := range part {
			if s := &part[i]; s.place == 0 || s.hash == h {
				return s
			}
		}
	}
	return nil
}

func (m *KeyMap) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

// Latest is the offset up to which the map knows of every key; -1 if of none.
func (m *KeyMap) Latest() int64 { return m.latest }

// SetLatest tells that there is no key above the last one put up to offset.
func (m *KeyMap) SetLatest(offset int64) { m.latest = offset }

// Len is the number of keys, Cap that of slots.
func (m *KeyMap) Len() int { return m.len }

// Cap is the number of keys that fit.
func (m *KeyMap) Cap() int { return len(m.slots) }

// Clear forgets every key and the latest offset.
func (m *KeyMap) Clear() {
	clear(m.slots)
	m.reseed()
	m.len, m.latest = 0, -1
}
