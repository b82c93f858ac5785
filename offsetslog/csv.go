package offsetslog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// GroupOffset is a line of a file of offsets.
type GroupOffset struct {
	Group string
	TopicPartition
	Offset int64
}

// WriteCSV writes offsets as "kafka-consumer-groups.sh --export" does: lines of
// topic,partition,offset, with the group in front of them if there are several.
func WriteCSV(w io.Writer, offsets []GroupOffset) error {
	groups := false
	for _, o := range offsets {
		groups = groups || o.Group != offsets[0].Group
	}
	out := csv.NewWriter(w)
	for _, o := range offsets {
		line := []string{o.Group, o.Topic, strconv.Itoa(int(o.Partition)), strconv.FormatInt(o.Offset, 10)}
		if !groups {
			line = line[1:]
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// ReadCSV reads what WriteCSV, or Kafka's tool, has written. Lines that name no group
// are about the given one.
func ReadCSV(r io.Reader, group string) ([]GroupOffset, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	var offsets []GroupOffset
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return offsets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
		line, _ := in.FieldPos(0)
		o := GroupOffset{Group: group}
		switch len(fields) {
		case 3:
		case 4:
			o.Group, fields = fields[0], fields[1:]
		default:
			return nil, fmt.Errorf("offsets: line %d: %d fields; 3 or 4 are wanted", line, len(fields))
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil || partition < 0 {
			return nil, fmt.Errorf("offsets: line %d: %q is no partition", line, fields[1])
		}
		offset, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("offsets: line %d: %q is no offset", line, fields[2])
		}
		o.TopicPartition, o.Offset = TopicPartition{fields[0], int32(partition)}, offset
		offsets = append(offsets, o)
	}
}
