package record

// CloneInto is Clone for a caller who brings the memory: keys and values are
// placed in buf, from its start, if it is large enough, and in a larger new
// buffer if not. It returns the buffer, which the copy aliases.
func (r *Record) CloneInto(buf []byte) (Record, []byte) {
	size := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		size += len(r.Headers[i].Value)
	}
	// An empty slice of nil would be nil, and empty is not null.
	if buf == nil || cap(buf) < size {
		buf = make([]byte, 0, size)
	}
	buf = buf[:0]
	c := Record{Offset: r.Offset, Timestamp: r.Timestamp}
	c.Key, buf = place(buf, r.Key)
	c.Value, buf = place(buf, r.Value)
	if r.Headers != nil {
		c.Headers = make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			c.Headers[i].Key = h.Key
			c.Headers[i].Value, buf = place(buf, h.Value)
		}
	}
	return c, buf
}

// place copies b behind what buf, which has room, holds. nil stays nil, and
// empty stays empty.
func place(buf, b []byte) (placed, rest []byte) {
	if b == nil {
		return nil, buf
	}
	start := len(buf)
	buf = append(buf, b...)
	return buf[start:len(buf):len(buf)], buf
}
