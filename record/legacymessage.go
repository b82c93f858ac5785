package record

// LegacyMessage returns the message of magic 0 or 1 that the current record was
// decoded from, offset and size included: what Batch.Bytes is for a batch that is
// not a wrapper. It is nil for a record of magic 2 and before the first record.
// The bytes are valid for as long as the record's key and value.
func (it *Iterator) LegacyMessage() []byte { return it.entry }
