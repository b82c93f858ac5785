package crashfs

import "fmt"

// choice says what a disk kept of one change: nothing, all, or a certain part of
// it.
type choice uint64

const (
	lost  choice = 0
	whole choice = 1

	// scattered, with a seed in its lower bits, keeps sectors at random.
	scattered choice = 1 << 63
)

// span is the bytes [from, to) of a file.
type span struct{ from, to int64 }

// picture is a choice in full: of a change to bytes, the bytes and the length
// that were kept.
type picture struct {
	length int64 // -1: as it was
	bytes  [2]span
}

// grows reports whether the change made the file longer.
func (c *change) grows() bool { return c.after > c.before }

func (c *change) end() int64 { return c.Off + c.Size }

// cuts returns how many multiples of unit lie inside the change, not at its
// ends, and the first of them.
func (c *change) cuts(unit int64) (n, first int64) {
	return (c.end()-1)/unit - c.Off/unit, (c.Off/unit + 1) * unit
}

func (c *change) hasBytes() bool { return c.Kind == Write || c.Kind == Store }

// The parts a change to bytes may be kept in.
const (
	partLength         = iota // the length, no bytes
	partBytes                 // the bytes, as far as the old length goes
	partFirst                 // the bytes before a cut
	partFirstAndLength        // the same, with a length that ends there
	partLast                  // the bytes behind a cut
	partWithoutSector
	partWithoutPage
	parts
)

// parts returns how many parts there are of each kind. Choices from 2 on number
// them in this order.
func (c *change) parts() (counts [parts]int64) {
	sectors, _ := c.cuts(sectorSize)
	pages, _ := c.cuts(pageSize)
	if c.grows() {
		counts[partLength] = 1
		counts[partFirstAndLength] = sectors
		if c.overOld {
			counts[partBytes] = 1
		}
	}
	counts[partFirst] = sectors
	counts[partLast] = sectors
	counts[partWithoutSector] = max(0, sectors-1)
	counts[partWithoutPage] = max(0, pages-1)
	return counts
}

// choices returns how many there are, without scattered ones.
func (c *change) choices() uint64 {
	n := uint64(2)
	if c.hasBytes() {
		for _, count := range c.parts() {
			n += uint64(count)
		}
	}
	return n
}

// picture resolves a choice that is not scattered.
func (c *change) picture(ch choice) picture {
	p := picture{length: -1}
	if c.grows() {
		p.length = c.after
	}
	all := span{c.Off, c.end()}
	switch ch {
	case lost:
		return picture{length: -1}
	case whole:
		p.bytes[0] = all
		return p
	}
	i, kind := int64(ch-2), 0
	for counts := c.parts(); i >= counts[kind]; kind++ {
		i -= counts[kind]
	}
	_, sector := c.cuts(sectorSize)
	cut := sector + i*sectorSize
	switch kind {
	case partBytes:
		p.length = -1
		p.bytes[0] = all
	case partFirst:
		p.bytes[0] = span{c.Off, cut}
	case partFirstAndLength:
		p.bytes[0] = span{c.Off, cut}
		p.length = cut
		if cut <= c.before {
			p.length = -1
		}
	case partLast:
		p.bytes[0] = span{cut, c.end()}
	case partWithoutSector:
		p.bytes = [2]span{{c.Off, cut}, {cut + sectorSize, c.end()}}
	case partWithoutPage:
		_, page := c.cuts(pageSize)
		cut = page + i*pageSize
		p.bytes = [2]span{{c.Off, cut}, {cut + pageSize, c.end()}}
	}
	return p
}

// keep applies what was kept of a change to the content of its file.
func (c *change) keep(to *content, t *token, ch choice) {
	switch {
	case ch == lost:
	case c.Kind == Truncate:
		to.truncate(t, c.after)
	case c.Kind == Preallocate:
		to.truncate(t, c.after)
		to.allocate(t, c.after)
	case ch&scattered != 0:
		if c.grows() {
			to.truncate(t, c.after)
		}
		c.eachSector(ch, func(s span) { c.write(to, t, s) })
	default:
		p := c.picture(ch)
		if p.length >= 0 {
			to.truncate(t, p.length)
		}
		for _, s := range p.bytes {
			c.write(to, t, s)
		}
	}
}

// write copies the bytes of s as far as the file goes: what lies behind its end
// is not in it.
func (c *change) write(to *content, t *token, s span) {
	if s.to = min(s.to, to.size); s.from < s.to {
		to.writeAt(t, c.data[s.from-c.Off:s.to-c.Off], s.from)
	}
}

// eachSector calls yield for the sectors a scattered choice keeps.
func (c *change) eachSector(ch choice, yield func(span)) {
	for from := c.Off; from < c.end(); {
		to := min((from/sectorSize+1)*sectorSize, c.end())
		if mix(uint64(ch)^uint64(from))&1 != 0 {
			yield(span{from, to})
		}
		from = to
	}
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// describe says what was kept, for a person.
func (c *change) describe(ch choice) string {
	switch {
	case ch == lost:
		return c.Op.String() + ": lost"
	case ch == whole:
		return c.Op.String() + ": kept"
	case ch&scattered != 0:
		text := "kept"
		c.eachSector(ch, func(s span) { text += fmt.Sprintf(" [%d,%d)", s.from, s.to) })
		return fmt.Sprintf("%s: %s%s", c.Op, text, lengthText(c.after, c.grows()))
	}
	p := c.picture(ch)
	text := "kept"
	for _, s := range p.bytes {
		if s.from < s.to {
			text += fmt.Sprintf(" [%d,%d)", s.from, s.to)
		}
	}
	return fmt.Sprintf("%s: %s%s", c.Op, text, lengthText(p.length, p.length >= 0))
}

func lengthText(length int64, changed bool) string {
	if !changed {
		return ""
	}
	return fmt.Sprintf(" length %d", length)
}
