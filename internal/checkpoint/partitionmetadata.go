package checkpoint

import (
	"fmt"
	"strings"

	"github.com/seglog/seglog/internal/vfs"
)

// maxSmallFile is far above anything that files of a few lines reach.
const maxSmallFile = 64 << 10

// PartitionMetadata is the content of partition.metadata, which tells which
// topic a directory belongs to, if the topic's name is used again
// (PartitionMetadataFile.java):
//
//	version: 0
//	topic_id: Ru7nPd6iQfmPnUuUWkLRRA         no newline here
//
// Like Kafka we read any later version, for the sake of going back from it, and
// skip the lines it adds.
type PartitionMetadata struct {
	Version int32
	TopicID UUID // never zero
}

// ParsePartitionMetadata reads partition.metadata. Whatever is wrong with it is
// a *CorruptError.
func ParsePartitionMetadata(data []byte) (PartitionMetadata, error) {
	first, rest := cutLine(string(data))
	version, ok := ParseCount(colonValue(first, "version"), 32)
	if !ok {
		return PartitionMetadata{}, &CorruptError{Line: 1, Expected: `"version: " and a number from 0`, Found: first}
	}
	second, _ := cutLine(rest)
	id, ok := ParseUUID(colonValue(second, "topic_id"))
	if !ok || id.IsZero() {
		return PartitionMetadata{}, &CorruptError{Line: 2, Expected: `"topic_id: " and an id that is not zero`, Found: second}
	}
	return PartitionMetadata{Version: int32(version), TopicID: id}, nil
}

// colonValue returns what follows "key:" and white space, "" if line is not of
// that form.
func colonValue(line, key string) string {
	value, found := strings.CutPrefix(line, key+":")
	if !found || value == "" || !isSpace(rune(value[0])) {
		return ""
	}
	return strings.TrimLeftFunc(value, isSpace)
}

// AppendPartitionMetadata appends partition.metadata to dst.
func AppendPartitionMetadata(dst []byte, m PartitionMetadata) []byte {
	return fmt.Appendf(dst, "version: %d\ntopic_id: %s", m.Version, m.TopicID)
}

// ReadPartitionMetadata is ParsePartitionMetadata of a file. A missing file is
// fs.ErrNotExist.
func ReadPartitionMetadata(fsys vfs.FS, path string) (PartitionMetadata, error) {
	data, err := ReadFile(fsys, path, maxSmallFile)
	if err != nil {
		return PartitionMetadata{}, err
	}
	m, err := ParsePartitionMetadata(data)
	return m, In(path, err)
}

// WritePartitionMetadata makes m the durable content of a file. A zero id is
// ErrInvalid. If writing fails the old file is intact.
func WritePartitionMetadata(fsys vfs.FS, path string, m PartitionMetadata) error {
	if m.TopicID.IsZero() || m.Version < 0 {
		return fmt.Errorf("write %s: version %d, topic id %s: %w", path, m.Version, m.TopicID, ErrInvalid)
	}
	return vfs.WriteFileAtomic(fsys, path, AppendPartitionMetadata(nil, m))
}
