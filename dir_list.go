package seglog

import (
	"slices"
	"strings"
)

// PartitionState says what is known of a directory inside a log directory.
type PartitionState int8

const (
	// PartitionLive can be had from Dir.Partition.
	PartitionLive PartitionState = iota
	// PartitionSetAside was live, and could not be opened.
	PartitionSetAside
	// PartitionDeleted is what DeletePartition, or a broker, has left to be removed.
	PartitionDeleted
	// PartitionFuture is what a broker was moving here from another log directory,
	// to become the live one.
	PartitionFuture
	// PartitionStray is what a broker has found to belong to no topic, and kept.
	PartitionStray
	// PartitionUnknown has a name that is not that of a partition.
	PartitionUnknown
)

func (s PartitionState) String() string {
	switch s {
	case PartitionLive:
		return "live"
	case PartitionSetAside:
		return "set aside"
	case PartitionDeleted:
		return "deleted"
	case PartitionFuture:
		return "future"
	case PartitionStray:
		return "stray"
	case PartitionUnknown:
		return "unknown"
	}
	return "PartitionState(?)"
}

// PartitionInfo describes a directory inside a log directory.
type PartitionInfo struct {
	// Topic and Partition, as far as the name tells: the topic of one that is
	// deleted or stray may be cut short.
	Topic     string
	Partition int32
	// Name is that of the directory.
	Name  string
	State PartitionState
	// Open: its log was opened by this Dir.
	Open bool
	// Err is why it was set aside, or what is wrong with the name.
	Err error
}

// Partitions lists the live partitions and those that were set aside, by topic and
// number.
func (d *Dir) Partitions() []PartitionInfo {
	all := d.all()
	infos := make([]PartitionInfo, len(all))
	for i, p := range all {
		info := PartitionInfo{Topic: p.topic, Partition: p.partition, Name: p.topicPartition.String()}
		l := p.log.Load()
		info.Open = l != nil && !l.closed.Load()
		if aside := p.setAside.Load(); aside != nil {
			info.State, info.Err = PartitionSetAside, aside.err
		}
		infos[i] = info
	}
	return infos
}

// Leftovers lists the other directories that OpenDir has found, and those of partitions
// deleted since, by name. Deleted ones go in time; the rest is left alone.
func (d *Dir) Leftovers() []PartitionInfo {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.SortedFunc(slices.Values(d.mu.others), func(a, b PartitionInfo) int { return strings.Compare(a.Name, b.Name) })
}

// Topics lists the topics of the partitions that Partitions lists.
func (d *Dir) Topics() []string {
	var topics []string
	for _, p := range d.all() {
		if n := len(topics); n == 0 || topics[n-1] != p.topic {
			topics = append(topics, p.topic)
		}
	}
	return topics
}

// DirStats are figures of a Dir at one moment.
type DirStats struct {
	// Partitions counts those that Partitions lists; Open those of them whose logs
	// were opened, SetAside those that could not be.
	Partitions, Open, SetAside int
	// LateTransactions counts the open logs whose oldest transaction is late; see
	// DirEvents.LateTransaction. Kafka: PartitionsWithLateTransactionsCount.
	LateTransactions int
	// OpenSegments counts the segments of all logs whose files are open.
	OpenSegments int
	// Clean: the directory was shut down properly before it was opened.
	Clean bool
	// Findings are what was wrong with the files of the directory itself: checkpoints
	// and meta.properties. What a damaged line said is taken as unknown.
	Findings []error
	// ToRemove is how many files of removed segments wait for their time, and how
	// many directories of deleted partitions.
	ToRemove int
}

// Stats returns figures of the directory.
func (d *Dir) Stats() DirStats {
	all := d.all()
	st := DirStats{
		Partitions: len(all), OpenSegments: int(d.open.Load()), Clean: d.wasClean,
		Findings: slices.Clone(d.findings), ToRemove: d.maintenance.toRemove(),
	}
	for _, p := range all {
		if l := p.log.Load(); l != nil && !l.closed.Load() {
			st.Open++
			if l.hasLateTransaction() {
				st.LateTransactions++
			}
		}
		if p.setAside.Load() != nil {
			st.SetAside++
		}
	}
	return st
}
