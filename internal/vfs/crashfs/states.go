package crashfs

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
)

// State is what a disk may hold after a power loss.
type State struct {
	// N counts the states of one call of States, from 1.
	N int

	image   *FS      // the file system at that moment; never changes
	choices []choice // one for each pending change of image
	limit   int
	seed    uint64
}

// States returns at most limit of the states a disk may be in if the power goes
// out now, none twice; what happens to f afterwards has no influence on them.
//
// If there are no more than limit they are all there, where of a torn write all
// but one part, or only one end, is kept. Otherwise they are a sample, which the
// seed and what was done to f determine. It begins with the extremes: nothing of
// what is not durable; all of it; then, to three quarters of limit, all up to
// each operation, all but each, each alone, and the last write of each file torn
// at each place. The rest is random, torn sectors in any mix.
//
// A state costs little more than its names and the bytes not yet durable,
// because states share the pages of the files. They may be used concurrently.
func (f *FS) States(limit int, seed uint64) iter.Seq[State] {
	image := f.Kill()
	return func(yield func(State) bool) {
		s := &sampler{
			State: State{image: image, limit: limit, seed: seed},
			yield: yield,
			seen:  map[string]bool{},
			rand:  rand.New(rand.NewPCG(seed, 0)),
		}
		if s.combinations() <= uint64(max(limit, 0)) {
			s.enumerate()
		} else {
			s.sample()
		}
	}
}

// FS returns a new file system on a disk in that state. Nothing is open, mapped,
// locked or unsynced. Its Options are those of the original.
func (s State) FS() *FS {
	options := s.image.options
	g := blank(options)
	v := sketch(s.image.mu.root)
	for i, c := range s.image.mu.pending {
		if c.isName() && s.choices[i] != lost {
			c.apply(v)
		}
	}
	built := map[*node]*node{}
	g.mu.root = v.build(s.image.mu.root, built)
	for i, c := range s.image.mu.pending {
		if n := built[c.node]; n != nil && !c.isName() {
			c.keep(&n.content, g.mu.token, s.choices[i])
		}
	}
	for _, n := range built {
		n.stored, n.peak = n.content, n.content.size
		g.mu.used += n.bytes()
	}
	g.mu.token = new(token) // content and stored share pages
	return g
}

// build returns the durable copy of n and all below it.
func (v view) build(n *node, built map[*node]*node) *node {
	c := &node{mode: n.mode, modified: n.modified, linked: true, content: n.stored}
	built[n] = c
	if n.mode.IsDir() {
		c.names = make(map[string]*node, len(v.names(n)))
		for name, below := range v.names(n) {
			c.names[name] = v.build(below, built)
		}
		c.storedNames = maps.Clone(c.names)
	}
	return c
}

// String says how to get the state again and what was kept, shortly.
func (s State) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "crash state %d of States(%d, %d): ", s.N, s.limit, s.seed)
	balance := 0
	for _, ch := range s.choices {
		switch ch {
		case lost:
			balance--
		case whole:
			balance++
		}
	}
	usual, word := lost, "nothing"
	if balance > 0 {
		usual, word = whole, "everything"
	}
	fmt.Fprintf(&text, "of %d unsynced operations %s kept", len(s.choices), word)
	separator := ", but "
	for i, ch := range s.choices {
		if ch != usual {
			text.WriteString(separator + s.image.mu.pending[i].describe(ch))
			separator = "; "
		}
	}
	return text.String()
}

// sampler makes states.
type sampler struct {
	State // the next one, without choices
	yield func(State) bool
	done  bool
	seen  map[string]bool
	rand  *rand.Rand
}

func (s *sampler) changes() []*change { return s.image.mu.pending }

// combinations returns the number of all choices, or a huge number.
func (s *sampler) combinations() uint64 {
	n := uint64(1)
	for _, c := range s.changes() {
		if n *= c.choices(); n > 1<<31 {
			break
		}
	}
	return n
}

// emit yields a state, unless the same disk was yielded before. It takes over
// choices.
func (s *sampler) emit(choices []choice) {
	if s.done || s.N >= s.limit {
		s.done = true
		return
	}
	s.settle(choices)
	key := make([]byte, 0, 8*len(choices))
	for _, ch := range choices {
		key = binary.LittleEndian.AppendUint64(key, uint64(ch))
	}
	if s.seen[string(key)] {
		return
	}
	s.seen[string(key)] = true
	s.N++
	state := s.State
	state.choices = choices
	s.done = !s.yield(state)
}

// settle sets to lost what has no effect: a name operation that makes no sense
// without others, the bytes of a file that has no name.
func (s *sampler) settle(choices []choice) {
	v := sketch(s.image.mu.root)
	for i, c := range s.changes() {
		if c.isName() && choices[i] != lost && !c.apply(v) {
			choices[i] = lost
		}
	}
	reached := map[*node]bool{}
	v.reach(s.image.mu.root, reached)
	for i, c := range s.changes() {
		if !c.isName() && !reached[c.node] {
			choices[i] = lost
		}
	}
}

func (v view) reach(n *node, reached map[*node]bool) {
	reached[n] = true
	if n.mode.IsDir() {
		for _, below := range v.names(n) {
			v.reach(below, reached)
		}
	}
}

// enumerate yields all there is, by counting.
func (s *sampler) enumerate() {
	digits := make([]choice, len(s.changes()))
	for !s.done {
		s.emit(append([]choice(nil), digits...))
		i := 0
		for ; i < len(digits); i++ {
			if digits[i]++; uint64(digits[i]) < s.changes()[i].choices() {
				break
			}
			digits[i] = 0
		}
		if i == len(digits) {
			return
		}
	}
}

// sample yields the extremes and then random states. It gives up where few are
// different.
func (s *sampler) sample() {
	s.emit(s.fill(lost, lost))
	s.emit(s.fill(whole, whole))
	groups := s.extremes()
	for _, group := range groups {
		s.rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	// One of each group in turn, so that no long one crowds out the others.
	for i, left := 0, true; left && !s.done && s.N < s.limit/4*3; i++ {
		left = false
		for _, group := range groups {
			if i < len(group) {
				s.emit(s.extreme(group[i]))
				left = true
			}
		}
	}
	for range 4 * s.limit {
		if s.done {
			return
		}
		s.emit(s.random())
	}
}

// fill returns the same choice for all name operations, and for all others.
func (s *sampler) fill(names, files choice) []choice {
	choices := make([]choice, len(s.changes()))
	for i, c := range s.changes() {
		choices[i] = files
		if c.isName() {
			choices[i] = names
		}
	}
	return choices
}

// extreme is all up to a change, names and files for those from there on, and
// one exception.
type extreme struct {
	upTo         int
	names, files choice
	except       int // -1: none
	choice       choice
}

func (s *sampler) extreme(e extreme) []choice {
	choices := s.fill(e.names, e.files)
	for i := range e.upTo {
		choices[i] = whole
	}
	if e.except >= 0 {
		choices[e.except] = e.choice
	}
	return choices
}

func (s *sampler) extremes() [][]extreme {
	var upTo, without, alone, torn []extreme
	lastWrite := map[*node]int{}
	for i, c := range s.changes() {
		upTo = append(upTo, extreme{upTo: i, except: -1})
		without = append(without, extreme{names: whole, files: whole, except: i, choice: lost})
		if c.isName() {
			alone = append(alone, extreme{files: whole, except: i, choice: whole})
		} else {
			alone = append(alone, extreme{names: whole, except: i, choice: whole})
		}
		if c.hasBytes() {
			lastWrite[c.node] = i
		}
	}
	for i, c := range s.changes() {
		if c.hasBytes() && lastWrite[c.node] == i {
			for ch := whole + 1; uint64(ch) < c.choices(); ch++ {
				torn = append(torn, extreme{names: whole, files: whole, except: i, choice: ch})
			}
		}
	}
	alone = append(alone, extreme{names: whole, except: -1}, extreme{files: whole, except: -1})
	return [][]extreme{upTo, without, alone, torn}
}

// random returns a state as a busy disk leaves it: mostly what is old is there,
// and of the rest few, half or most.
func (s *sampler) random() []choice {
	choices := make([]choice, len(s.changes()))
	old := s.rand.IntN(2 * (len(choices) + 1)) // half of the time all is
	if old > len(choices) {
		old = 0
	}
	names := s.rand.IntN(4)
	kept := []int{1, 4, 7}[s.rand.IntN(3)]
	for i, c := range s.changes() {
		switch {
		case i < old && s.rand.IntN(16) > 0:
			choices[i] = whole
		case c.isName() && names < 2:
			choices[i] = choice(names)
		case s.rand.IntN(8) < kept:
			choices[i] = s.part(c)
		}
	}
	return choices
}

// part returns a choice other than lost.
func (s *sampler) part(c *change) choice {
	n := c.choices()
	if sectors, _ := c.cuts(sectorSize); c.hasBytes() && sectors > 1 && s.rand.IntN(6) == 0 {
		return scattered | choice(s.rand.Uint64()>>1)
	}
	if n > 2 && s.rand.IntN(3) == 0 {
		return 2 + choice(s.rand.Uint64N(n-2))
	}
	return whole
}
