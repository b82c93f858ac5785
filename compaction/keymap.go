package compaction

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// KeyMap knows the last offset of keys, in an amount of memory that is bounded when it
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
// What a look-up costs is the time until memory answers, so the table is no larger than
// its keys need: it begins small and doubles inside of the memory it has, of which the
// system gives only what was touched.
//
// It is not safe for concurrent use.
type KeyMap struct {
	slots []slot // as many as there may be keys
	// homes is how many of them hashes belong to. A hash that finds its home taken goes
	// into the next slot that is free, beyond the homes as well.
	homes  int
	used   int // slots from here on are empty
	seeds  [2]maphash.Seed
	len    int
	latest int64
	warm   int64 // see touch
}

type slot struct {
	hash keyHash
	// place is the offset + 1; 0 in a slot that is empty.
	place int64
}

// keyHash stands for a key.
type keyHash [2]uint64

// SlotBytes is how much memory each key of a KeyMap takes.
const SlotBytes = int64(unsafe.Sizeof(slot{}))

// fewHomes is about how many there are in the beginning, if so many fit: a table that
// any processor has room for in its nearest caches.
const fewHomes = 1024

// NewKeyMap returns an empty map for at most slots keys. Fill it to nine tenths or
// less: the last tenth takes long to find.
func NewKeyMap(slots int) *KeyMap {
	m := &KeyMap{slots: make([]slot, max(1, slots))}
	m.Clear()
	return m
}

// Clear forgets every key and the latest offset.
func (m *KeyMap) Clear() {
	clear(m.slots[:m.used])
	m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	m.len, m.used, m.latest = 0, 0, -1
	m.homes = len(m.slots)
	for m.homes > fewHomes {
		m.homes = (m.homes + 1) / 2
	}
}

// Put makes offset that of key, and Latest. It reports false, and changes nothing, if
// the key is new and the map is full. Key is not kept.
func (m *KeyMap) Put(key []byte, offset int64) bool { return m.put(m.hash(key), offset) }

func (m *KeyMap) put(h keyHash, offset int64) bool {
	i := m.find(h)
	if i < 0 {
		return false
	}
	if m.slots[i].place == 0 {
		if m.len >= m.homes-m.homes*3/8 && m.homes < len(m.slots) {
			m.grow()
			i = m.find(h)
		}
		m.slots[i].hash = h
		m.used = max(m.used, i+1)
		m.len++
	}
	m.slots[i].place = offset + 1
	m.latest = offset
	return true
}

// Get returns the offset of key, -1 if there is none. It looks at each slot at most
// once, and on average at five when nine of ten are taken.
func (m *KeyMap) Get(key []byte) int64 { return m.get(m.hash(key)) }

func (m *KeyMap) get(h keyHash) int64 {
	i := m.find(h)
	if i < 0 {
		return -1
	}
	return m.slots[i].place - 1
}

// find returns the place of the slot that has a hash, or of the empty one where it
// belongs; -1 if there is neither.
func (m *KeyMap) find(h keyHash) int {
	first := home(h, m.homes)
	for i := first; i < len(m.slots); i++ {
		if s := &m.slots[i]; s.place == 0 || s.hash == h {
			return i
		}
	}
	for i := range m.slots[:first] {
		if s := &m.slots[i]; s.place == 0 || s.hash == h {
			return i
		}
	}
	return -1
}

// home spreads hashes evenly over any number of slots, the lower below the higher.
func home(h keyHash, homes int) int {
	high, _ := bits.Mul64(h[0], uint64(homes))
	return int(high)
}

// grow doubles the homes. Hashes keep their order, so that nearly all of them move
// upwards: from the last to the first, each finds the slots from its new home on free
// of those that have not moved yet. The few of which that is not so come last.
func (m *KeyMap) grow() {
	m.homes = min(2*m.homes, len(m.slots))
	var late []slot
	for i := m.used - 1; i >= 0; i-- {
		s := m.slots[i]
		if s.place == 0 {
			continue
		}
		m.slots[i] = slot{}
		to := home(s.hash, m.homes)
		for to >= i && to < len(m.slots) && m.slots[to].place != 0 {
			to++
		}
		if to < i || to == len(m.slots) {
			late = append(late, s)
			continue
		}
		m.slots[to] = s
		m.used = max(m.used, to+1)
	}
	for _, s := range late {
		to := m.find(s.hash)
		m.slots[to] = s
		m.used = max(m.used, to+1)
	}
}

// touch begins to look for hashes that get or put is about to be asked for: as none of
// the loads depends on another one, memory answers many at once.
func (m *KeyMap) touch(hashes []keyHash) {
	sum := int64(0)
	for _, h := range hashes {
		sum += m.slots[home(h, m.homes)].place
	}
	m.warm = sum // or the loop would be nothing to the compiler
}

func (m *KeyMap) hash(key []byte) keyHash {
	return keyHash{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

// Latest is the offset up to which the map knows of every key; -1 if of none.
func (m *KeyMap) Latest() int64 { return m.latest }

// SetLatest tells that there is no key above the last one put up to offset.
func (m *KeyMap) SetLatest(offset int64) { m.latest = offset }

// Len is the number of keys, Cap that of slots.
func (m *KeyMap) Len() int { return m.len }

// Cap is the number of keys that fit.
func (m *KeyMap) Cap() int { return len(m.slots) }
