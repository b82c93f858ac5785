package producerstate

import (
	"iter"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// Options are the settings of a Manager. The zero value is ready to use.
type Options struct {
	// FS holds the snapshots. nil means the operating system's.
	FS vfs.FS
	// ReadOnly means that no file is written, renamed or removed. Snapshots that
	// would be removed are ignored instead.
	ReadOnly bool

	// ProducerIDExpiration is producer.id.expiration.ms: for how many milliseconds
	// a producer that does not write is remembered. 0 means a day.
	ProducerIDExpiration int64
	// MaxTransactionTimeout is transaction.max.timeout.ms, in milliseconds. 0 means
	// 15 minutes. It is used by HasLateTransaction only.
	MaxTransactionTimeout int64

	// LooseStart lets a producer begin at any sequence in a log that has never
	// held a record, as Kafka did before 4.5. Two batches that were sent one after
	// the other and arrive the other way round, with a new log in between, then
	// cost the first one.
	LooseStart bool
}

const (
	defaultExpiration = 24 * 60 * 60 * 1000
	defaultTimeout    = 15 * 60 * 1000
	lateBuffer        = 5 * 60 * 1000
)

// A Manager is what a log knows about its producers at one offset, the end. It is
// not safe for concurrent use: the owner of the log holds its append lock.
type Manager struct {
	dir  string
	opts Options

	// end is the offset below which every record counts.
	end       int64
	producers map[int64]*producer
	all       []*producer // in no order
	swept     int         // all[swept:] was looked at in this pass of RemoveExpired

	oldest, newest *producer // the list of open transactions, by first offset
	unreplicated   completed

	// snapshots are the offsets of the files, growing.
	snapshots []int64
	// lastSnapshot is the end that was last written down. No snapshot is taken
	// before the end has moved beyond it.
	lastSnapshot int64
	// generation counts truncations. A snapshot from before one is not published
	// after it.
	generation uint64
}

// New returns a Manager that knows nothing yet but which snapshots are in the
// directory of the log. TruncateAndReload makes use of them.
func New(dir string, o Options) (*Manager, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.ProducerIDExpiration == 0 {
		o.ProducerIDExpiration = defaultExpiration
	}
	if o.MaxTransactionTimeout == 0 {
		o.MaxTransactionTimeout = defaultTimeout
	}
	m := &Manager{dir: dir, opts: o}
	m.clear(0)
	var err error
	m.snapshots, err = List(o.FS, dir)
	return m, err
}

// clear forgets everything but the snapshots. There is room for n producers then.
func (m *Manager) clear(n int) {
	m.producers = make(map[int64]*producer, n)
	m.all, m.swept = make([]*producer, 0, n), 0
	m.oldest, m.newest = nil, nil
	m.unreplicated = completed{}
}

// Apply takes in a batch that is in the log. Batches come in the order of the log,
// each once, with none that matters left out; see Advance. It cannot fail: what is
// in the log is what happened, whatever Check would say.
//
// Before a marker that ends a transaction, call Ends.
func (m *Manager) Apply(b Batch) {
	m.end = b.LastOffset + 1
	if !b.concerns() {
		return
	}
	p := m.producers[b.ProducerID]
	if p == nil {
		p = m.add(b.ProducerID)
	}
	p.adopt(b.ProducerEpoch)
	p.lastTimestamp = b.Timestamp
	switch {
	case b.marker():
		p.coordinatorEpoch = b.CoordinatorEpoch
		if p.open() {
			m.complete(p, b.BaseOffset)
		}
	default:
		p.remember(&b)
		if b.Transactional && !p.open() {
			p.txnFirst, p.txnStart = b.BaseOffset, b.Timestamp
			m.link(p)
		}
	}
}

// Advance moves the end up to offset, over records that change nothing, or over a
// gap.
func (m *Manager) Advance(offset int64) { m.end = max(m.end, offset) }

// End returns the offset below which every record counts.
func (m *Manager) End() int64 { return m.end }

func (m *Manager) add(id int64) *producer {
	p := &producer{
		id: id, index: len(m.all), epoch: record.NoProducerEpoch, coordinatorEpoch: NoCoordinatorEpoch,
		txnFirst: NoOffset, txnStart: record.NoTimestamp, lastTimestamp: record.NoTimestamp,
	}
	m.producers[id] = p
	m.all = append(m.all, p)
	return p
}

func (m *Manager) remove(p *producer) {
	delete(m.producers, p.id)
	last := len(m.all) - 1
	m.all[p.index] = m.all[last]
	m.all[p.index].index = p.index
	m.all[last] = nil
	m.all = m.all[:last]
}

// RemoveExpired forgets producers that have not written for as long as the options
// say, by the timestamps of their records, but none that has a transaction open. A
// producer whose records have no timestamp goes at once. It returns how many went.
//
// It looks at no more than limit producers, so that whoever holds the lock for it
// can let go of it in between: to forget a million takes most of a second. Call it
// until done, which ends a pass. Kafka makes one every 10 minutes.
func (m *Manager) RemoveExpired(now int64, limit int) (removed int, done bool) {
	if m.swept == 0 || m.swept > len(m.all) {
		m.swept = len(m.all)
	}
	for ; m.swept > 0 && limit > 0; limit-- {
		m.swept--
		// What takes the place of one that goes comes from behind: it was looked
		// at, or is newer than the pass.
		if p := m.all[m.swept]; !p.open() && m.expired(p.lastTimestamp, now) {
			m.remove(p)
			removed++
		}
	}
	return removed, m.swept == 0
}

func (m *Manager) expired(last, now int64) bool { return last <= now-m.opts.ProducerIDExpiration }

// IsEmpty reports whether there is no producer, and no transaction that is still
// waiting for the high watermark.
func (m *Manager) IsEmpty() bool { return len(m.all) == 0 && m.unreplicated.empty() }

// Len returns the number of producers.
func (m *Manager) Len() int { return len(m.all) }

// Producer returns what is known of a producer, and whether anything is.
func (m *Manager) Producer(id int64) (Entry, bool) {
	p := m.producers[id]
	if p == nil {
		return Entry{}, false
	}
	return p.entry(), true
}

// Producers returns every producer, in no order. The Manager must not be changed
// meanwhile.
func (m *Manager) Producers() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, p := range m.all {
			if !yield(p.entry()) {
				return
			}
		}
	}
}
