package checkpoint

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/seglog/seglog/internal/vfs"
)

// These words are written to disk and never change.
const (
	keyLogStartOffset = "log-start-offset"
	keyRecoveryPoint  = "recovery-point"
	keyDurableEnd     = "durable-end-offset"
	keyCleanEndOffset = "clean-end-offset"
	keyCleanSegment   = "clean-segment"
	keyCleanSize      = "clean-size"
	keyProducers      = "producers"
	keyFirstDirty     = "first-dirty-offset"
	keyKnownGaps      = "known-gaps-offset"
	keySequence       = "sequence"
	keyPadding        = "padding"

	crcWord    = "crc "
	crcLineLen = len("crc 00000000\n")
)

const (
	// stateFileSize is one sector, with room for the largest numbers in all lines.
	stateFileSize = 512
	// maxStateFile leaves room for keys that later versions may add.
	maxStateFile = 64 << 10
)

// A State is what a log remembers of itself between two openings, in the file
// seglog.state of its directory and a copy of it; see StateFiles. It has the shape of a
// checkpoint, and a last line that guards all lines before it, so that half a file is
// never trusted:
//
//	0
//	11
//	log-start-offset 0
//	recovery-point 41022
//	producers 1                     only if there ever were any
//	first-dirty-offset 0            only if the log was compacted
//	known-gaps-offset 0             only if there may be gaps between segments
//	durable-end-offset 41022
//	clean-end-offset 41022
//	clean-segment 0
//	clean-size 1048576
//	sequence 7                      how many changes there were
//	padding ........                up to 512 bytes in all
//	crc 43d7bb79                    CRC-32C of everything above, 8 hex digits
//
// The three clean lines are all there or all missing. The durable end, the sequence (0)
// and the padding may be missing. A key that we do not know is skipped: a later version
// wrote it.
//
// Kafka keeps the same facts in one checkpoint for a whole log directory. Ours
// is beside the log, because a log may be opened alone. A broker ignores it.
type State struct {
	// LogStartOffset is the first offset that readers may see.
	LogStartOffset int64
	// RecoveryPoint is the offset below which the log was known to be on disk.
	RecoveryPoint int64
	// Producers is true once a producer with an id has written below the recovery
	// point: then there are producer snapshots, or were. A log that never had one
	// need not be searched for them.
	Producers bool
	// DurableEnd is an offset that the log was known to reach on disk: if it ends
	// below, records that were durable are missing. It is at or below the recovery
	// point, which may lie in a gap. 0 says nothing.
	DurableEnd int64
	// FirstDirty is the offset below which the log was compacted; 0 if it never was.
	FirstDirty int64
	// KnownGaps is the offset below which offsets may be missing between two segments
	// without being lost: the log was another's before, was repaired, or compaction or
	// replicated batches have left them out. 0 if there is no such gap: then one that is
	// found is a lost segment.
	KnownGaps int64
	// Clean is set by a clean close, nil otherwise.
	Clean *CleanMark

	// Sequence is for StateFiles, which sets it: the number of the change.
	Sequence int64
}

// A CleanMark says where the log ended when it was closed. It only holds as
// long as nobody has written since, which the size of the segment tells.
type CleanMark struct {
	EndOffset int64 // log end offset
	Segment   int64 // base offset of the active segment
	Size      int64 // of its log, in bytes
}

type stateLine struct {
	key   string
	value string
}

func stateLines() Format[stateLine] {
	return Format[stateLine]{
		Entry: "key value",
		Parse: func(line string) (stateLine, bool) {
			key, value, found := strings.Cut(line, " ")
			return stateLine{key, value}, found && key != ""
		},
		Append: func(dst []byte, l stateLine) []byte {
			return append(append(append(dst, l.key...), ' '), l.value...)
		},
	}
}

// ParseState reads a state file. Whatever is wrong with it is a *CorruptError.
func ParseState(data []byte) (State, error) {
	body, err := cutChecksum(data)
	if err != nil {
		return State{}, err
	}
	lines, err := stateLines().Decode(body)
	if err != nil {
		return State{}, err
	}
	values := make(map[string]int64)
	for i, line := range lines {
		if !knownStateKey(line.key) {
			continue
		}
		if _, seen := values[line.key]; seen {
			return State{}, &CorruptError{Line: 3 + i, Expected: "each key once", Found: line.key}
		}
		n, ok := ParseCount(line.value, 64)
		if !ok {
			return State{}, &CorruptError{Line: 3 + i, Expected: line.key + " and a number from 0", Found: line.value}
		}
		values[line.key] = n
	}
	return stateOf(values)
}

func knownStateKey(key string) bool {
	switch key {
	case keyLogStartOffset, keyRecoveryPoint, keyProducers, keyFirstDirty, keyKnownGaps, keyDurableEnd, keyCleanEndOffset, keyCleanSegment, keyCleanSize, keySequence:
		return true
	}
	return false
}

// stateOf checks that the keys that belong together are there.
func stateOf(values map[string]int64) (State, error) {
	for _, key := range []string{keyLogStartOffset, keyRecoveryPoint} {
		if _, found := values[key]; !found {
			return State{}, &CorruptError{Expected: "a line for " + key}
		}
	}
	producers, known := values[keyProducers]
	if known && producers != 1 {
		return State{}, &CorruptError{Expected: "producers 1, or no such line", Found: strconv.FormatInt(producers, 10)}
	}
	s := State{
		LogStartOffset: values[keyLogStartOffset],
		RecoveryPoint:  values[keyRecoveryPoint],
		Producers:      known,
		DurableEnd:     values[keyDurableEnd],
		FirstDirty:     values[keyFirstDirty],
		KnownGaps:      values[keyKnownGaps],
		Sequence:       values[keySequence],
	}
	end, hasEnd := values[keyCleanEndOffset]
	segment, hasSegment := values[keyCleanSegment]
	size, hasSize := values[keyCleanSize]
	if hasEnd != hasSegment || hasEnd != hasSize {
		return State{}, &CorruptError{Expected: "all of clean-end-offset, clean-segment and clean-size, or none"}
	}
	if hasEnd {
		s.Clean = &CleanMark{EndOffset: end, Segment: segment, Size: size}
	}
	return s, nil
}

// cutChecksum verifies the last line and returns what stands before it.
func cutChecksum(data []byte) ([]byte, error) {
	at := len(data) - crcLineLen
	if at < 0 {
		return nil, &CorruptError{Expected: "checksum in the last line", Found: string(data)}
	}
	body, line := data[:at], string(data[at:])
	if want := string(appendChecksum(nil, body)); line != want {
		return nil, &CorruptError{Expected: fmt.Sprintf("last line %q", want), Found: line}
	}
	return body, nil
}

// appendChecksum appends the line that guards body to dst.
func appendChecksum(dst, body []byte) []byte {
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(dst, "%s%08x\n", crcWord, crc)
}

// AppendState appends the state file of s to dst, stateFileSize bytes.
func AppendState(dst []byte, s State) []byte {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	lines := []stateLine{
		{keyLogStartOffset, number(s.LogStartOffset)},
		{keyRecoveryPoint, number(s.RecoveryPoint)},
	}
	if s.Producers {
		lines = append(lines, stateLine{keyProducers, "1"})
	}
	if s.FirstDirty != 0 {
		lines = append(lines, stateLine{keyFirstDirty, number(s.FirstDirty)})
	}
	if s.KnownGaps != 0 {
		lines = append(lines, stateLine{keyKnownGaps, number(s.KnownGaps)})
	}
	if s.DurableEnd != 0 {
		lines = append(lines, stateLine{keyDurableEnd, number(s.DurableEnd)})
	}
	if s.Clean != nil {
		lines = append(lines,
			stateLine{keyCleanEndOffset, number(s.Clean.EndOffset)},
			stateLine{keyCleanSegment, number(s.Clean.Segment)},
			stateLine{keyCleanSize, number(s.Clean.Size)})
	}
	lines = append(lines, stateLine{keySequence, number(s.Sequence)}, stateLine{key: keyPadding})
	padding := stateFileSize - len(stateLines().Encode(nil, lines)) - crcLineLen
	lines[len(lines)-1].value = strings.Repeat(".", padding)
	start := len(dst)
	dst = stateLines().Encode(dst, lines)
	return appendChecksum(dst, dst[start:])
}

// ReadState is ParseState of a file. A missing file is fs.ErrNotExist. Beside a writer the
// file may be read in the middle of a change, which does not take long: one that is damaged
// is read again.
func ReadState(fsys vfs.FS, path string) (State, error) {
	const tries = 3
	for i := 1; ; i++ {
		data, err := ReadFile(fsys, path, maxStateFile)
		if err != nil {
			return State{}, err
		}
		s, err := ParseState(data)
		if err == nil || i == tries {
			return s, In(path, err)
		}
	}
}
