package record

// short is nextV2 for a record as most are: of less than 8 KiB, with numbers that take at
// most two bytes each. It decodes all but headers without a call, which halves the time.
// It reports false for any other record, also a damaged one, and has not moved then:
// nextV2 says what is wrong.
func (it *Iterator) short() bool {
	data, p := it.data, it.pos
	if len(data)-p < shortHead {
		return false
	}
	head := (*[shortHead]byte)(data[p:])
	length, i := pair(head, 0)
	timestamp, i := pair(head, i+1) // behind the attributes
	offset, i := pair(head, i)
	key, i := pair(head, i)
	// A number that goes on behind two bytes is beyond 14 bits.
	if length|timestamp|offset|key >= 1<<14 || length&1 != 0 {
		return false
	}
	end := p + 2 + int(length>>1)
	if length < 1<<7 {
		end--
	}
	rec := &it.slot().rec
	rec.Key = nil
	p += int(i)
	if key&1 == 0 { // else the length is below zero
		from := p
		p += int(key >> 1)
		if p >= len(data) {
			return false
		}
		rec.Key = data[from:p:p]
	}
	if p+2 > end || end > len(data) {
		return false
	}
	value := uint32(data[p])
	if p++; value >= 1<<7 {
		value = value&0x7f | uint32(data[p])<<7
		p++
	}
	if value >= 1<<14 {
		return false
	}
	rec.Value = nil
	if value&1 == 0 {
		from := p
		if p += int(value >> 1); p >= end {
			return false
		}
		rec.Value = data[from:p:p]
	}
	rec.Headers = nil
	if headers := data[p]; headers == 0 {
		p++
	} else if headers < 1<<7 {
		p = it.decodeHeaders(data[:end:end], p+1, zigzag(uint32(headers)))
	}
	if p != end {
		return false
	}
	rec.Offset = it.baseOffset + int64(zigzag(offset))
	rec.Timestamp = it.baseTimestamp + int64(zigzag(timestamp))
	if it.hasAppendTime {
		rec.Timestamp = it.appendTime
	}
	it.pos = end
	it.index++
	return true
}

// shortHead is more than what comes before the key of a short record.
const shortHead = 16

// pair reads a number of one or two bytes at b[i], still zigzag encoded, and returns it
// with the position behind. What is 1<<14 or more does not end there.
func pair(b *[shortHead]byte, i uint) (uint32, uint) {
	u := uint32(b[i%shortHead])
	if u < 1<<7 {
		return u, i + 1
	}
	return u&0x7f | uint32(b[(i+1)%shortHead])<<7, i + 2
}
