package producerstate

// Completes returns the transactions that a set of batches ends, in the order of
// their markers, were the batches applied one after the other. It changes nothing:
// what it returns goes to the transaction index with the set, before Apply.
func (m *Manager) Completes(set []Batch) []CompletedTxn {
	if len(set) == 1 {
		if txn, ok := m.Ends(set[0]); ok {
			return []CompletedTxn{txn}
		}
		return nil
	}
	var ended []CompletedTxn
	o := overlay{m: m, first: map[int64]int64{}}
	for i := range set {
		b := &set[i]
		switch {
		case !b.concerns():
		case b.marker():
			if first := o.of(b.ProducerID); first >= 0 {
				o.first[b.ProducerID] = NoOffset
				ended = append(ended, CompletedTxn{
					b.ProducerID, first, b.BaseOffset, b.Kind == Abort, o.stable(b.BaseOffset + 1),
				})
			}
		case b.Transactional && o.of(b.ProducerID) < 0:
			o.first[b.ProducerID] = b.BaseOffset
		}
	}
	return ended
}

// An overlay is what a set of batches makes of the open transactions of m.
type overlay struct {
	m     *Manager
	first map[int64]int64 // by producer id: the first offset, or NoOffset
}

func (o *overlay) of(id int64) int64 {
	if first, ok := o.first[id]; ok {
		return first
	}
	if p := o.m.producers[id]; p != nil {
		return p.txnFirst
	}
	return NoOffset
}

// stable is the first offset of the oldest open transaction, or none.
func (o *overlay) stable(none int64) int64 {
	for p := o.m.oldest; p != nil; p = p.behind {
		if first, ok := o.first[p.id]; !ok || first == p.txnFirst {
			none = min(none, p.txnFirst)
			break
		}
	}
	for _, first := range o.first {
		if first >= 0 {
			none = min(none, first)
		}
	}
	return none
}
