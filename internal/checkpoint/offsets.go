package checkpoint

import (
	"fmt"
	"strconv"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// maxOffsetsFile holds some hundred thousand partitions with the longest names.
const maxOffsetsFile = 64 << 20

// An OffsetEntry is a line of an offset checkpoint (OffsetCheckpointFile.java):
//
//	orders.eu-west 3 41022
//	topic, partition, offset
//
// What the offset means depends on the file: the recovery point, the log start
// offset, the high watermark or the first offset that is not yet cleaned.
type OffsetEntry struct {
	Topic     string
	Partition int32
	Offset    int64
}

func offsets() Format[OffsetEntry] {
	return Format[OffsetEntry]{
		Entry:  "topic partition offset",
		Parse:  parseOffsetEntry,
		Append: appendOffsetEntry,
	}
}

func parseOffsetEntry(line string) (OffsetEntry, bool) {
	fields, ok := Fields(line, 3)
	if !ok || layout.CheckTopic(fields[0]) != nil {
		return OffsetEntry{}, false
	}
	partition, ok := ParseCount(fields[1], 32)
	if !ok {
		return OffsetEntry{}, false
	}
	offset, ok := ParseCount(fields[2], 64)
	return OffsetEntry{Topic: fields[0], Partition: int32(partition), Offset: offset}, ok
}

func appendOffsetEntry(dst []byte, e OffsetEntry) []byte {
	dst = append(dst, e.Topic...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(e.Partition), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, e.Offset, 10)
}

// ParseOffsets reads an offset checkpoint and makes the best of a damaged one:
// it returns the well-formed entries in the order of the file, and what is
// wrong with the others, so that one bad line does not cost the offsets of every
// other partition. If a partition is listed twice, Kafka uses the last entry.
//
// The error is a *CorruptError for a file without a known version or a count.
func ParseOffsets(data []byte) (entries []OffsetEntry, problems []*CorruptError, err error) {
	return offsets().Salvage(data)
}

// AppendOffsets appends an offset checkpoint with these entries to dst.
func AppendOffsets(dst []byte, entries []OffsetEntry) []byte {
	return offsets().Encode(dst, entries)
}

// ReadOffsets is ParseOffsets of a file. A missing file is fs.ErrNotExist.
func ReadOffsets(fsys vfs.FS, path string) (entries []OffsetEntry, problems []*CorruptError, err error) {
	data, err := ReadFile(fsys, path, maxOffsetsFile)
	if err != nil {
		return nil, nil, err
	}
	entries, problems, err = ParseOffsets(data)
	for _, problem := range problems {
		problem.File = path
	}
	return entries, problems, In(path, err)
}

// WriteOffsets makes entries the durable content of an offset checkpoint. An
// entry that could not be read back is ErrInvalid. If writing fails the old
// file is intact.
func WriteOffsets(fsys vfs.FS, path string, entries []OffsetEntry) error {
	for _, e := range entries {
		if layout.CheckTopic(e.Topic) != nil || e.Partition < 0 || e.Offset < 0 {
			return fmt.Errorf("write %s: entry %q %d %d: %w", path, e.Topic, e.Partition, e.Offset, ErrInvalid)
		}
	}
	return vfs.WriteFileAtomic(fsys, path, AppendOffsets(nil, entries))
}
