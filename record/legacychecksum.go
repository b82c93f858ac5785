package record

import "hash/crc32"

// LegacyChecksum returns the checksum that the current record, decoded from a
// legacy batch, has of its own, and whether it matches. Inside a wrapper that is
// not the checksum of the batch. ok is false for a record of magic 2, which has
// none, and before the first record.
func (it *Iterator) LegacyChecksum() (stored uint32, valid, ok bool) {
	if it.entry == nil {
		return 0, false, false
	}
	stored = be.Uint32(it.entry[legacyCRCPos:])
	return stored, stored == crc32.ChecksumIEEE(it.entry[magicPos:]), true
}
