package cli

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
)

// snapshot dumps a producer snapshot.
func (d *dumper) snapshot(path string) error {
	d.app.Verbosef("reading %s", path)
	entries, err := producerstate.ReadFile(d.app.FS, path)
	if err != nil {
		return err
	}
	var table *Table
	if !d.out.JSON() {
		table = d.out.Table(Right("PRODUCER"), Right("EPOCH"), Right("FIRST SEQUENCE"), Right("LAST SEQUENCE"),
			Right("LAST OFFSET"), Left("TIME"), Right("TXN START"), Right("COORDINATOR EPOCH"))
	}
	for _, e := range entries {
		if d.left--; d.left < 0 {
			break
		}
		if err := d.producer(table, e); err != nil {
			return err
		}
	}
	if table == nil {
		return nil
	}
	return table.Flush()
}

func (d *dumper) producer(table *Table, e producerstate.Entry) error {
	if table != nil {
		return table.Row(e.ProducerID, e.ProducerEpoch,
			numberText(int64(e.FirstSequence()), e.HasBatch()), numberText(int64(e.LastSequence), e.HasBatch()),
			numberText(e.LastOffset, e.HasBatch()), timeText(e.Timestamp),
			numberText(e.CurrentTxnFirstOffset, e.HasOpenTxn()), numberText(int64(e.CoordinatorEpoch), e.CoordinatorEpoch >= 0))
	}
	return d.out.Emit(d.out.Object("producer").Int("producer_id", e.ProducerID).Int("producer_epoch", int64(e.ProducerEpoch)).
		Int("first_sequence", int64(e.FirstSequence())).Int("last_sequence", int64(e.LastSequence)).
		Int("last_offset", e.LastOffset).Int("offset_delta", int64(e.OffsetDelta)).Time("time", e.Timestamp).
		Int("transaction_first_offset", e.CurrentTxnFirstOffset).Int("coordinator_epoch", int64(e.CoordinatorEpoch)))
}

func (d *dumper) leaderEpochs(path string) error {
	entries, err := leaderepoch.ReadFile(d.app.FS, path)
	if err != nil {
		return err
	}
	var table *Table
	if !d.out.JSON() {
		table = d.out.Table(Right("EPOCH"), Right("START OFFSET"))
	}
	for _, e := range entries {
		if d.left--; d.left < 0 {
			break
		}
		if table == nil {
			err = d.out.Emit(d.out.Object("leader_epoch").Int("epoch", int64(e.Epoch)).Int("start_offset", e.StartOffset))
		} else {
			err = table.Row(e.Epoch, e.StartOffset)
		}
		if err != nil {
			return err
		}
	}
	if table == nil {
		return nil
	}
	return table.Flush()
}

// offsetCheckpoint dumps one of the four files that hold an offset for each
// partition. Good lines of a damaged one are shown.
func (d *dumper) offsetCheckpoint(path string) error {
	entries, problems, err := checkpoint.ReadOffsets(d.app.FS, path)
	if err != nil {
		return err
	}
	var table *Table
	if !d.out.JSON() {
		table = d.out.Table(Left("TOPIC"), Right("PARTITION"), Right("OFFSET"))
	}
	for _, e := range entries {
		if d.left--; d.left < 0 {
			break
		}
		if table == nil {
			err = d.out.Emit(d.out.Object("offset_checkpoint").Text("topic", e.Topic).Int("partition", int64(e.Partition)).Int("offset", e.Offset))
		} else {
			err = table.Row(escaped(e.Topic), e.Partition, e.Offset)
		}
		if err != nil {
			return err
		}
	}
	if table != nil {
		if err := table.Flush(); err != nil {
			return err
		}
	}
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (d *dumper) partitionMetadata(path string) error {
	m, err := checkpoint.ReadPartitionMetadata(d.app.FS, path)
	if err != nil {
		return err
	}
	return d.pairs("partition_metadata", []pair{{"version", int64(m.Version)}, {"topic_id", m.TopicID.String()}})
}

func (d *dumper) metaProperties(path string) error {
	m, err := checkpoint.ReadMetaProperties(d.app.FS, path)
	if err != nil {
		return err
	}
	pairs := []pair{{"version", int64(m.Version)}, {"cluster_id", nil}, {"node_id", nil}, {"directory_id", nil}}
	if m.ClusterID != "" {
		pairs[1].value = m.ClusterID
	}
	if m.NodeID != checkpoint.NoNodeID {
		pairs[2].value = int64(m.NodeID)
	}
	if !m.DirectoryID.IsZero() {
		pairs[3].value = m.DirectoryID.String()
	}
	return d.pairs("meta_properties", pairs)
}

func (d *dumper) cleanShutdown(path string) error {
	epoch, known, err := checkpoint.ReadCleanShutdown(d.app.FS, path)
	if err != nil {
		return err
	}
	value := any(nil)
	if known {
		value = epoch
	}
	return d.pairs("clean_shutdown", []pair{{"broker_epoch", value}})
}

func (d *dumper) seglogState(path string) error {
	s, err := checkpoint.ReadState(d.app.FS, path)
	if err != nil {
		return err
	}
	pairs := []pair{{"log_start_offset", s.LogStartOffset}, {"recovery_point", s.RecoveryPoint}, {"durable_end_offset", s.DurableEnd}}
	if c := s.Clean; c != nil {
		pairs = append(pairs, pair{"clean_end_offset", c.EndOffset}, pair{"clean_segment", c.Segment}, pair{"clean_size", c.Size})
	} else {
		pairs = append(pairs, pair{"clean_end_offset", nil})
	}
	return d.pairs("seglog_state", pairs)
}

// text shows a file that is text for people already. Control characters in it
// would be a message to the terminal.
func (d *dumper) text(path string) error {
	b, err := vfs.ReadFile(d.app.FS, path, 1<<20)
	if err != nil {
		return err
	}
	content := strings.TrimRight(string(b), "\n")
	if d.out.JSON() {
		return d.out.Emit(d.out.Object("text").Text("file", path).Bytes("content", []byte(content)))
	}
	return d.out.Linef("%s", escaped(content))
}

// pair is a line of a small file: a name, and a string, an int64 or nil.
type pair struct {
	name  string
	value any
}

func (d *dumper) pairs(kind string, pairs []pair) error {
	if d.out.JSON() {
		obj := d.out.Object(kind)
		for _, p := range pairs {
			switch v := p.value.(type) {
			case nil:
				obj.Null(p.name)
			case int64:
				obj.Int(p.name, v)
			case string:
				obj.Text(p.name, v)
			}
		}
		return d.out.Emit(obj)
	}
	table := d.out.Table(Left(""), Left("")).Plain()
	for _, p := range pairs {
		switch v := p.value.(type) {
		case nil:
			table.Row(p.name, "-")
		case int64:
			table.Row(p.name, strconv.FormatInt(v, 10))
		case string:
			table.Row(p.name, escaped(v))
		}
	}
	return table.Flush()
}

// escaped is text from a file for people: as it is, or in quotes if there is
// something in it that is not to be seen.
func escaped(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}
