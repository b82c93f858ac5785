package layout

import (
	"path"
	"strconv"
	"strings"
)

// Names of the files of which a directory holds at most one.
//
// They come from Kafka's LeaderEpochCheckpointFile, PartitionMetadataFile,
// LogManager, ReplicaManager, LogCleanerManager, MetaPropertiesEnsemble,
// CleanShutdownFileHandler, BootstrapDirectory and FileQuorumStateStore;
// SeglogStateName is ours, and so are its copy, UntouchedName and CheckpointLockName.
const (
	LeaderEpochCheckpointName = "leader-epoch-checkpoint"
	PartitionMetadataName     = "partition.metadata"
	RecoveryPointName         = "recovery-point-offset-checkpoint"
	LogStartName              = "log-start-offset-checkpoint"
	HighWatermarkName         = "replication-offset-checkpoint"
	CleanerOffsetName         = "cleaner-offset-checkpoint"
	MetaPropertiesName        = "meta.properties"
	LockFileName              = ".lock"
	CleanShutdownName         = ".kafka_cleanshutdown"
	KRaftBootstrapName        = "bootstrap.checkpoint"
	QuorumStateName           = "quorum-state"
	SeglogStateName           = "seglog.state"
	SeglogStateCopyName       = "seglog.state.copy"
	UntouchedName             = "seglog.untouched" + DeletedSuffix
	CheckpointLockName        = "seglog.checkpoints.lock"
)

// Names of the files of a segment that was made ahead of time and has no base
// offset yet. They are ours; found on opening, they are leftovers.
const (
	SpareLogName         = "seglog.spare.log" + TempSuffix
	SpareOffsetIndexName = "seglog.spare.index" + TempSuffix
	SpareTimeIndexName   = "seglog.spare.timeindex" + TempSuffix
)

// Suffixes that tell the state of a file; they follow the suffix of its kind.
const (
	DeletedSuffix = ".deleted" // waiting to be removed
	CleanedSuffix = ".cleaned" // output of the cleaner, not yet complete
	SwapSuffix    = ".swap"    // complete replacement, not yet in place
	TempSuffix    = ".tmp"     // being written, to be renamed over the real name
)

// CutSuffix marks a file that keeps what was taken out of a log: to be looked at by
// people, and by nobody else.
const CutSuffix = ".cut"

// CutName names the file that keeps bytes cut out of another: after that file,
// the position the bytes had in it, and the first 16 digits of their SHA-256 in hex,
// so that no content ever replaces another.
//
//	00000000000000041022.log.786432.9f2c11d051a07be3.cut
func CutName(file string, position int64, sha256 string) string {
	return file + "." + strconv.FormatInt(position, 10) + "." + sha256[:min(len(sha256), 16)] + CutSuffix
}

// AsideName names a whole file that is put aside, the nth of that name. The caller
// takes the first n, counted from 1, of which there is none yet.
func AsideName(file string, n int) string {
	if n > 1 {
		file += "." + strconv.Itoa(n)
	}
	return file + CutSuffix
}

// CutOf parses a name that CutName or AsideName gives, and returns the file of which it
// keeps a part, or all.
func CutOf(name string) (f File, ok bool) {
	whole, found := strings.CutSuffix(name, CutSuffix)
	if !found {
		return File{Name: name}, false
	}
	for parts := range 3 { // behind the name: nothing, a number or a hash, and a position before that
		if f, ok = ParseFile(whole); ok && (f.Kind.Segment() || parts < 2 && f.Kind.aside()) {
			return f, true
		}
		whole = strings.TrimSuffix(whole, path.Ext(whole))
	}
	return File{Name: name}, false
}

// aside reports whether a file of this kind, which belongs to no segment, is put aside
// when it is damaged. No part of it is kept.
func (k Kind) aside() bool {
	return k == LeaderEpochCheckpoint || k == SeglogState
}

const (
	offsetDigits = 20 // enough for any int64; the names then sort by offset
	epochDigits  = 10 // enough for any int32

	kraftSuffix     = ".checkpoint"
	kraftPartSuffix = ".checkpoint.part"
)

// Kind is what a file holds.
type Kind uint8

// The kinds of file. Log to Snapshot are numbered by an offset and belong to a
// segment; KRaftCheckpoint is numbered by an offset and an epoch; of the others
// a directory has at most one.
const (
	Unknown Kind = iota // not a name of ours: leave the file alone
	Log
	OffsetIndex
	TimeIndex
	TxnIndex
	Snapshot // producer state; its number is the first offset it does not cover
	LeaderEpochCheckpoint
	PartitionMetadata
	RecoveryPoint
	LogStart
	HighWatermark
	CleanerOffset
	MetaProperties
	LockFile
	CleanShutdown
	KRaftCheckpoint
	KRaftBootstrap
	QuorumState
	SeglogState
	Untouched // an empty file that a broker removes when it loads the log
	Spare     // a file of a segment without a base offset yet
)

// String returns the kind in words, for messages.
func (k Kind) String() string {
	switch k {
	case Log:
		return "log"
	case OffsetIndex:
		return "offset index"
	case TimeIndex:
		return "time index"
	case TxnIndex:
		return "transaction index"
	case Snapshot:
		return "producer snapshot"
	case LeaderEpochCheckpoint:
		return "leader epoch checkpoint"
	case PartitionMetadata:
		return "partition metadata"
	case RecoveryPoint:
		return "recovery point checkpoint"
	case LogStart:
		return "log start offset checkpoint"
	case HighWatermark:
		return "high watermark checkpoint"
	case CleanerOffset:
		return "cleaner offset checkpoint"
	case MetaProperties:
		return "meta properties"
	case LockFile:
		return "lock file"
	case CleanShutdown:
		return "clean shutdown marker"
	case KRaftCheckpoint:
		return "kraft checkpoint"
	case KRaftBootstrap:
		return "kraft bootstrap checkpoint"
	case QuorumState:
		return "kraft quorum state"
	case SeglogState:
		return "seglog state"
	case Untouched:
		return "mark that no broker was here"
	case Spare:
		return "spare segment"
	}
	return "unknown"
}

// Suffix returns the suffix of a kind that is numbered by an offset, such as
// ".log", and "" for every other kind.
func (k Kind) Suffix() string {
	switch k {
	case Log:
		return ".log"
	case OffsetIndex:
		return ".index"
	case TimeIndex:
		return ".timeindex"
	case TxnIndex:
		return ".txnindex"
	case Snapshot:
		return ".snapshot"
	}
	return ""
}

// Segment reports whether files of this kind come and go with a segment and
// carry its base offset (for a Snapshot: an offset) in their name.
func (k Kind) Segment() bool { return k.Suffix() != "" }

// State is the place of a file or directory in its life, as its name tells it.
type State uint8

const (
	Live    State = iota // in use
	Deleted              // files and directories: waiting to be removed
	Cleaned              // files: cleaner output, not yet complete
	Swap                 // files: complete replacement, not yet in place
	Temp                 // files: being written
	Future               // directories: target of a move between log directories
	Stray                // directories: found at start, belongs to no known replica
)

// String returns the state in one word, for messages.
func (s State) String() string {
	switch s {
	case Live:
		return "live"
	case Deleted:
		return "deleted"
	case Cleaned:
		return "cleaned"
	case Swap:
		return "swap"
	case Temp:
		return "temp"
	case Future:
		return "future"
	case Stray:
		return "stray"
	}
	return "unknown"
}

// Suffix returns what the state adds to the name of a file, "" when that is
// nothing. Directories are named by [Dir.Name].
func (s State) Suffix() string {
	switch s {
	case Deleted:
		return DeletedSuffix
	case Cleaned:
		return CleanedSuffix
	case Swap:
		return SwapSuffix
	case Temp:
		return TempSuffix
	}
	return ""
}

// LogName returns the name of the log of the segment that starts at base.
// No name takes a negative offset, and ParseFile knows none that has one.
func LogName(base int64) string { return SegmentFileName(Log, base, Live) }

// OffsetIndexName returns the name of the offset index of segment base.
func OffsetIndexName(base int64) string { return SegmentFileName(OffsetIndex, base, Live) }

// TimeIndexName returns the name of the time index of segment base.
func TimeIndexName(base int64) string { return SegmentFileName(TimeIndex, base, Live) }

// TxnIndexName returns the name of the transaction index of segment base.
func TxnIndexName(base int64) string { return SegmentFileName(TxnIndex, base, Live) }

// SnapshotName returns the name of the producer snapshot that covers every
// offset below end.
func SnapshotName(end int64) string { return SegmentFileName(Snapshot, end, Live) }

// SegmentFileName returns the name of a file for which kind.Segment is true.
func SegmentFileName(kind Kind, offset int64, state State) string {
	return padded(offset, offsetDigits) + kind.Suffix() + state.Suffix()
}

// KRaftCheckpointName returns the name of the snapshot of a KRaft metadata log
// that covers every offset below end, the last of them written in epoch.
func KRaftCheckpointName(end int64, epoch int32) string {
	return padded(end, offsetDigits) + "-" + padded(int64(epoch), epochDigits) + kraftSuffix
}

// File is a parsed file name.
type File struct {
	Kind  Kind
	State State
	// Base is the number in the name: the base offset of the segment, or the
	// end offset (exclusive) of a Snapshot or KRaftCheckpoint; else 0.
	Base int64
	// Epoch is the second number in the name of a KRaftCheckpoint; else 0.
	Epoch int32
	// Name is the whole name as it was given.
	Name string
}

// ParseFile tells what a file is by its name, a name without its directory.
// A name that this package would not have built has Kind Unknown and ok false;
// such a file is not ours to read, move or remove. That goes for a number
// shorter or longer than 20 digits, or above int64.
//
// The name alone decides: that the file is a regular one is for the caller to
// see to.
func ParseFile(name string) (f File, ok bool) {
	if f, ok = parseSegmentFile(name); ok {
		return f, true
	}
	if f, ok = parseSingleFile(name); ok {
		return f, true
	}
	if f, ok = parseKRaftCheckpoint(name); ok {
		return f, true
	}
	return File{Name: name}, false
}

func parseSegmentFile(name string) (File, bool) {
	if len(name) <= offsetDigits {
		return File{}, false
	}
	base, ok := parseInt63(name[:offsetDigits])
	if !ok {
		return File{}, false
	}
	rest := name[offsetDigits:]
	for kind := Log; kind <= Snapshot; kind++ {
		if after, found := strings.CutPrefix(rest, kind.Suffix()); found {
			state, ok := segmentState(kind, after)
			return File{Kind: kind, State: state, Base: base, Name: name}, ok
		}
	}
	return File{}, false
}

// segmentState tells the state that a suffix stands for. Only pairs that some
// writer leaves behind are known: nobody writes a log through a temporary file,
// and the cleaner writes no producer snapshots.
func segmentState(kind Kind, suffix string) (State, bool) {
	switch suffix {
	case "":
		return Live, true
	case DeletedSuffix:
		return Deleted, true
	case CleanedSuffix:
		return Cleaned, kind != Snapshot
	case SwapSuffix:
		return Swap, kind != Snapshot
	case TempSuffix:
		return Temp, kind != Log
	}
	return Live, false
}

func parseSingleFile(name string) (File, bool) {
	switch name {
	case SpareLogName, SpareOffsetIndexName, SpareTimeIndexName:
		return File{Kind: Spare, State: Temp, Name: name}, true
	}
	if kind := singleKind(name); kind != Unknown {
		return File{Kind: kind, Name: name}, true
	}
	if whole, found := strings.CutSuffix(name, TempSuffix); found {
		kind := singleKind(whole)
		if kind != Unknown && kind != LockFile && kind != Untouched {
			return File{Kind: kind, State: Temp, Name: name}, true
		}
	}
	return File{}, false
}

func singleKind(name string) Kind {
	switch name {
	case LeaderEpochCheckpointName:
		return LeaderEpochCheckpoint
	case PartitionMetadataName:
		return PartitionMetadata
	case RecoveryPointName:
		return RecoveryPoint
	case LogStartName:
		return LogStart
	case HighWatermarkName:
		return HighWatermark
	case CleanerOffsetName:
		return CleanerOffset
	case MetaPropertiesName:
		return MetaProperties
	case LockFileName, CheckpointLockName:
		return LockFile
	case CleanShutdownName:
		return CleanShutdown
	case KRaftBootstrapName:
		return KRaftBootstrap
	case QuorumStateName:
		return QuorumState
	case SeglogStateName, SeglogStateCopyName:
		return SeglogState
	case UntouchedName:
		return Untouched
	}
	return Unknown
}

// parseKRaftCheckpoint knows three forms (Kafka's Snapshots.java):
//
//	<end>-<epoch>.checkpoint
//	<end>-<epoch>.checkpoint.deleted
//	<end>-<epoch>-<random number>.checkpoint.part
func parseKRaftCheckpoint(name string) (File, bool) {
	const numbers = offsetDigits + 1 + epochDigits
	if len(name) <= numbers || name[offsetDigits] != '-' {
		return File{}, false
	}
	end, ok := parseInt63(name[:offsetDigits])
	if !ok {
		return File{}, false
	}
	epoch, ok := parseInt31(name[offsetDigits+1 : numbers])
	if !ok {
		return File{}, false
	}
	f := File{Kind: KRaftCheckpoint, Base: end, Epoch: epoch, Name: name}
	rest := name[numbers:]
	switch {
	case rest == kraftSuffix:
		f.State = Live
	case rest == kraftSuffix+DeletedSuffix:
		f.State = Deleted
	case rest[0] == '-' && strings.HasSuffix(rest, kraftPartSuffix) &&
		allDigits(strings.TrimSuffix(rest[1:], kraftPartSuffix)):
		f.State = Temp
	default:
		return File{}, false
	}
	return f, true
}

func parseInt63(digits string) (int64, bool) {
	if !allDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

func parseInt31(digits string) (int32, bool) {
	if !allDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil
}

// allDigits keeps out the signs that strconv would take.
func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func padded(n int64, digits int) string {
	s := strconv.FormatInt(n, 10)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}
