package leaderepoch

import (
	"strconv"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
)

// maxFile holds a million leader changes and more.
const maxFile = 64 << 20

func format() checkpoint.Format[Entry] {
	return checkpoint.Format[Entry]{
		Entry:  "epoch and start offset, both from 0",
		Parse:  parseEntry,
		Append: appendEntry,
	}
}

func parseEntry(line string) (Entry, bool) {
	fields, ok := checkpoint.Fields(line, 2)
	if !ok {
		return Entry{}, false
	}
	epoch, ok := checkpoint.ParseCount(fields[0], 32)
	if !ok {
		return Entry{}, false
	}
	start, ok := checkpoint.ParseCount(fields[1], 64)
	return Entry{Epoch: int32(epoch), StartOffset: start}, ok
}

func appendEntry(dst []byte, e Entry) []byte {
	dst = strconv.AppendInt(dst, int64(e.Epoch), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, e.StartOffset, 10)
}

// Parse reads a leader-epoch-checkpoint. Whatever is wrong with it is a
// *checkpoint.CorruptError. The entries come in the order of the file; New
// settles those that contradict each other.
func Parse(data []byte) ([]Entry, error) { return format().Decode(data) }

// Append appends a leader-epoch-checkpoint with these entries to dst.
func Append(dst []byte, entries []Entry) []byte { return format().Encode(dst, entries) }

// ReadFile is Parse of a file. A missing file is fs.ErrNotExist: the epochs are
// then to be found in the headers of the batches.
func ReadFile(fsys vfs.FS, path string) ([]Entry, error) {
	data, err := checkpoint.ReadFile(fsys, path, maxFile)
	if err != nil {
		return nil, err
	}
	entries, err := Parse(data)
	return entries, checkpoint.In(path, err)
}
