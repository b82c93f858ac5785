package crashfs

// Sizes a disk and a kernel write in. A power loss tears a write at the first, a
// kernel writes back in units of the second.
const (
	sectorSize = 512
	pageSize   = 4096
)

// maxFile is the largest position that can hold bytes. A file can be longer, by
// a hole.
const maxFile = 1 << 34

// token is a right to change pages in place. A file system that shares its pages
// with a copy takes a new token, so that either copies a page before its next
// change.
type token struct{ _ byte }

type page struct {
	owner *token
	data  [pageSize]byte
}

// zeroPage is an allocated page no one has written to. It has no owner and
// never changes.
var zeroPage = new(page)

// content is the bytes of a file. Copying the struct copies the file, at the
// cost of a new token for whoever goes on writing.
type content struct {
	size   int64
	pages  []*page // nil is a hole, and so is what lies behind the last
	owner  *token  // who may change the slice
	blocks int64   // pages that are not nil
}

func pages(size int64) int64 { return (size + pageSize - 1) / pageSize }

// page returns page i, and zeroPage for a hole.
func (c *content) page(i int64) *page {
	if i < int64(len(c.pages)) && c.pages[i] != nil {
		return c.pages[i]
	}
	return zeroPage
}

func (c *content) hole(i int64) bool { return i >= int64(len(c.pages)) || c.pages[i] == nil }

// readAt returns how many bytes of b it filled, less than all of them at the
// end of the file.
func (c *content) readAt(b []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	b = b[:min(int64(len(b)), c.size-off)]
	for n := 0; n < len(b); {
		at := off + int64(n)
		n += copy(b[n:], c.page(at / pageSize).data[at%pageSize:])
	}
	return len(b)
}

// writeAt writes b and lets the file grow.
func (c *content) writeAt(t *token, b []byte, off int64) {
	c.size = max(c.size, off+int64(len(b)))
	for n := 0; n < len(b); {
		at := off + int64(n)
		n += copy(c.own(t, at/pageSize).data[at%pageSize:], b[n:])
	}
}

// own returns page i for writing.
func (c *content) own(t *token, i int64) *page {
	c.ownSlice(t, i+1)
	switch p := c.pages[i]; {
	case p == nil:
		c.blocks++
		c.pages[i] = &page{owner: t}
	case p.owner != t:
		c.pages[i] = &page{owner: t, data: p.data}
	}
	return c.pages[i]
}

// ownSlice makes the slice the owner's, and at least n long.
func (c *content) ownSlice(t *token, n int64) {
	if c.owner != t {
		c.owner = t
		c.pages = append(make([]*page, 0, max(n, int64(len(c.pages)))), c.pages...)
	}
	if grow := n - int64(len(c.pages)); grow > 0 {
		c.pages = append(c.pages, make([]*page, grow)...)
	}
}

// truncate sets the size. Growing leaves a hole.
func (c *content) truncate(t *token, size int64) {
	if size < c.size {
		keep := pages(size)
		if size%pageSize != 0 && !c.hole(keep-1) {
			clear(c.own(t, keep-1).data[size%pageSize:])
		}
		if keep < int64(len(c.pages)) {
			for _, p := range c.pages[keep:] {
				if p != nil {
					c.blocks--
				}
			}
			c.pages = append(make([]*page, 0, keep), c.pages[:keep]...)
			c.owner = t
		}
	}
	c.size = size
}

// allocate fills the holes of [0, size) and makes the file at least that long.
func (c *content) allocate(t *token, size int64) {
	if c.holes(0, size) > 0 {
		c.ownSlice(t, pages(size))
		for i := range pages(size) {
			if c.pages[i] == nil {
				c.pages[i] = zeroPage
				c.blocks++
			}
		}
	}
	c.size = max(c.size, size)
}

// holes returns how many pages a write to [from, to) would have to allocate.
func (c *content) holes(from, to int64) int64 {
	var n int64
	for i := from / pageSize; i < pages(to); i++ {
		if c.hole(i) {
			n++
		}
	}
	return n
}
