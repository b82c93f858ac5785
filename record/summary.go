package record

// Summary is what a scan over a log needs to know of a batch: it takes the
// batch's header only, not its records.
type Summary struct {
	Magic        int8
	Size         int   // of the whole batch
	BaseOffset   int64 // legacy wrappers: the last offset, see Batch.BaseOffset
	LastOffset   int64
	MaxTimestamp int64 // NoTimestamp if none
	LeaderEpoch  int32 // NoLeaderEpoch if none
	ProducerID   int64 // NoProducerID if none
	// Transactional is true for a batch of a transaction, and for its marker.
	Transactional bool
}

// Summarize reads the header at the start of b, which need not hold more than
// the first HeaderSize bytes of the batch, or less where the batch is smaller.
// Errors are those of Parse; ErrShort when b does not hold the header.
func Summarize(b []byte) (Summary, error) {
	f, err := ParseFrame(b)
	if err != nil {
		return Summary{}, err
	}
	header, err := f.headerSize()
	if err != nil {
		return Summary{}, err
	}
	if len(b) < header {
		return Summary{}, ErrShort
	}
	s := Batch{b[:header:header]}.Summary()
	s.Size = f.Size
	return s, nil
}

// Summary returns what Summarize does.
func (b Batch) Summary() Summary {
	return Summary{
		Magic: b.Magic(), Size: b.Size(),
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), MaxTimestamp: b.MaxTimestamp(),
		LeaderEpoch: b.LeaderEpoch(), ProducerID: b.ProducerID(), Transactional: b.IsTransactional(),
	}
}
