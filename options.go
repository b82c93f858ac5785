package seglog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// Options are the settings of a log. The zero value is useful: every field
// left at zero means Kafka's default for the topic setting it is named after.
// A duration field drops the ".ms" of Kafka's name.
type Options struct {
	// SegmentBytes is segment.bytes: the size at which the active segment
	// is sealed and a new one begun. 14 to 2147483647; 0 means 1073741824.
	SegmentBytes int64
	// SegmentAge is segment.ms: the age at which the active segment is
	// sealed at the next append. It is measured in record time, from the largest
	// timestamp of the segment's first batch, or on the clock while records
	// carry no timestamp. 0 means 7 days.
	SegmentAge time.Duration
	// SegmentJitter is segment.jitter.ms: up to so much is taken off
	// SegmentAge at random for each segment, so that many logs do not roll at
	// once. 0 means none.
	SegmentJitter time.Duration
	// SegmentIndexBytes is segment.index.bytes: the size at which an index
	// counts as full, which seals the segment. Unlike Kafka's, an index file
	// is not made that large at once but grows. 0 means 10485760.
	SegmentIndexBytes int
	// IndexIntervalBytes is index.interval.bytes: an index entry is added
	// when more than so many bytes were appended since the last one. Kafka's 0
	// (an entry for every batch) is written 1 here. 0 means 4096.
	IndexIntervalBytes int
	// MaxMessageBytes is max.message.bytes: the largest batch Append and
	// AppendBatch take, as stored, with its header. 0 means 1048588.
	MaxMessageBytes int
	// Compression is compression.type for the batches Append encodes. The
	// zero value is record.None.
	Compression record.Codec
	// CompressionLevel is compression.gzip.level, .lz4.level or .zstd.level.
	// 0 means the codec's default.
	CompressionLevel int
	// TimestampType is message.timestamp.type. The zero value is
	// record.CreateTime.
	TimestampType record.TimestampType
	// TimestampBeforeMax is message.timestamp.before.max.ms, and
	// TimestampAfterMax message.timestamp.after.max.ms: Append and AppendBatch
	// refuse a record whose timestamp is further in the past, or in the future. 0
	// means Kafka's defaults: any time in the past, and an hour. A negative value
	// means no limit. They do not count with record.LogAppendTime.
	TimestampBeforeMax, TimestampAfterMax time.Duration
	// CleanupPolicy is cleanup.policy. The zero value is CleanupDelete.
	CleanupPolicy CleanupPolicy
	// LeaderEpoch is the least epoch that Append and AppendBatch stamp batches
	// with; the latest in the log, if that is higher, or SetLeaderEpoch take its
	// place. A lone log may leave it 0.
	LeaderEpoch int32
	// Replicated is for a log that is one of several replicas: the high watermark
	// is moved by SetHighWatermark and bounds what is read, removed and truncated.
	// Otherwise it follows the log end.
	Replicated bool
	// ProducerIDExpiration is producer.id.expiration.ms: how long a producer is
	// remembered that does not write, by the timestamps of its records. One that writes
	// records of long ago, or without timestamps, may be forgotten at once. 0 means a day.
	ProducerIDExpiration time.Duration
	// TransactionMaxTimeout is transaction.max.timeout.ms: a transaction that has
	// been silent for five minutes longer is told to Events.LateTransaction. 0
	// means 15 minutes.
	TransactionMaxTimeout time.Duration

	// RetentionBytes is retention.bytes: ApplyRetention removes the oldest
	// segments while the rest is still at least so large. 0 means unlimited,
	// as Kafka's -1; -1 is the same.
	RetentionBytes int64
	// RetentionTime is retention.ms: ApplyRetention removes segments whose
	// largest timestamp is older. Kafka's default is 7 days; a log removes
	// nothing unless ApplyRetention is called, and there 0 means 7 days. A
	// negative value means forever.
	RetentionTime time.Duration
	// RetentionCapsTime has ApplyRetention take a segment with a timestamp in the future
	// to be as old as its file, by RetentionTime. Otherwise, and with Kafka, it stays
	// until that time has passed, and with it all that is newer.
	RetentionCapsTime bool

	// FileDeleteDelay is file.delete.delay.ms: how long the files of removed
	// segments stay in a Dir, marked ".deleted", for readers in other processes. A
	// log that was opened alone does not keep them. 0 means a minute, a negative value
	// not at all.
	FileDeleteDelay time.Duration

	// MinCleanableDirtyRatio is min.cleanable.dirty.ratio: a compacted log is due for
	// cleaning when its dirty part has a larger share of what can be cleaned. 0 means
	// 0.5; a negative value means Kafka's 0, any at all.
	MinCleanableDirtyRatio float64
	// MinCompactionLag is min.compaction.lag.ms: how long a record stays in a
	// compacted log at least, by the largest timestamp of its segment. 0 means none. It
	// may not exceed MaxCompactionLag.
	MinCompactionLag time.Duration
	// MaxCompactionLag is max.compaction.lag.ms: when its oldest dirty record is older
	// a compacted log is due whatever the ratio. Its segments are sealed at that age, if
	// SegmentAge is higher. 0 means no limit.
	MaxCompactionLag time.Duration
	// DeleteRetention is delete.retention.ms: how long a tombstone, and the marker of a
	// transaction of which nothing else is left, stays after compaction has come upon
	// it. 0 means a day; a negative value means Kafka's 0, until the next time.
	DeleteRetention time.Duration

	// Sync says when appended batches are made durable. The zero value is
	// SyncAlways. Kafka relies on replication and would by default never sync.
	Sync SyncPolicy
	// FlushMessages is flush.messages, for appends that do not wait for
	// durability: one that leaves so many records unsynced waits for a sync.
	// A power loss then takes fewer records than that. 0 means no such limit,
	// as Kafka's default of 9223372036854775807.
	FlushMessages int64
	// FlushBytes is the same in bytes; Kafka has no such setting.
	FlushBytes int64
	// FlushInterval is flush.ms: what was appended is synced in the
	// background at least so often. 0 means not at all.
	FlushInterval time.Duration
	// MaxOpenSegments is how many segments keep their files open: one
	// descriptor and two mappings each, and a mapping more where AheadBytes is at work.
	// In a Dir that of DirOptions counts. Beyond it those that are not used are
	// closed, and opened again when they are. 0 means 1024.
	MaxOpenSegments int
	// LookupBytes is how much memory may be used to remember where records are, two to
	// six bytes for each that lies near one that Get or OffsetForTime was asked for, and at
	// most 64 GiB. When it is full what was not looked at lately is forgotten. The files of
	// segments in which records are looked up, and of those that are scanned, are mapped. A
	// negative value means none of both: all reading is done by calls. In a Dir that of
	// DirOptions counts. 0 means 12 MiB, which is enough for two million small records.
	LookupBytes int64
	// AheadBytes is how much room, at most, is made at once ahead of the end of a log:
	// the active segment's file is extended by zeros, with their blocks, and appends
	// store into it through a mapping, which costs a fraction of a system call each. A
	// log that is seldom written to has none, and it is cut off when the segment is
	// sealed and when its file is closed; after a crash the file may end in so many
	// zeros, which the next Open cuts. Where memory is not as safe as a call (see
	// docs/architecture.md) there is no such room either. 0 means 1 MiB, but at most an
	// eighth of SegmentBytes and nothing if that is less than 4096; a negative value
	// means never.
	AheadBytes int64
	// StartOffset is the offset of the first record of a log that has none
	// yet. It has no effect on an existing log.
	StartOffset int64
	// RefuseCut has Open refuse, with a *CorruptionError, a log that a crash has left
	// with good batches behind damage, and change nothing. Without it the log ends at
	// the damage, if nobody was promised what lies behind, and Recovery.SetAside says
	// where that is kept. Open then reads twice what was not known to be on disk.
	RefuseCut bool
	// ReadOnly opens an existing directory without taking its lock or
	// changing a byte, beside a live writer if need be. The end is found once,
	// at Open, and again at each Refresh.
	ReadOnly bool

	// Events are told what happens to the log.
	Events Events
	// Logger gets the same as text. nil means that nothing is logged.
	Logger *slog.Logger

	// FS is where the files live. nil means the file system of the operating
	// system. It is a seam for tests: package logtest has a file system that
	// loses power and one that fails.
	FS vfs.FS
}

// SyncPolicy says what is on disk when an append returns.
type SyncPolicy int8

const (
	// SyncAlways: the batch, and all before it. Appends that wait at the
	// same time share one sync.
	SyncAlways SyncPolicy = iota
	// SyncNever: nothing is promised until Sync, WaitDurable or Close return,
	// or one of FlushMessages, FlushBytes and FlushInterval makes it so. A
	// crash of the process loses nothing, since the batch was handed to the
	// operating system; a power loss may take every batch since the last sync,
	// from one of them to the end, but never one before. So it is with what an open
	// finds behind the recovery point.
	SyncNever
)

func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncNever:
		return "never"
	}
	return fmt.Sprintf("SyncPolicy(%d)", int8(p))
}

const (
	defaultSegmentBytes       = 1 << 30
	defaultSegmentAge         = 7 * 24 * time.Hour
	defaultIndexBytes         = 10 << 20
	defaultIndexIntervalBytes = 4096
	defaultMaxMessageBytes    = 1<<20 + 12
	defaultMaxOpenSegments    = 1024
	defaultLookupBytes        = 12 << 20
	maxLookupBytes            = 64 << 30 // a sixteenth is taken at once
	defaultAheadBytes         = 1 << 20
	defaultRetentionTime      = 7 * 24 * time.Hour
	defaultTimestampAfterMax  = time.Hour
	defaultProducerExpiration = 24 * time.Hour
	defaultTransactionTimeout = 15 * time.Minute
	defaultDirtyRatio         = 0.5
	defaultDeleteRetention    = 24 * time.Hour
	noTimeLimit               = time.Duration(math.MaxInt64)
	defaultFileDeleteDelay    = time.Minute

	leastAhead      = 4096
	minSegmentBytes = 14
	minIndexBytes   = 24 // two entries of the larger kind: one is reserved for sealing
)

// resolve puts defaults in place of zeros and refuses what cannot work.
func (o Options) resolve() (Options, error) {
	setDefault(&o.SegmentBytes, defaultSegmentBytes)
	setDefault(&o.SegmentAge, defaultSegmentAge)
	setDefault(&o.SegmentIndexBytes, defaultIndexBytes)
	setDefault(&o.IndexIntervalBytes, defaultIndexIntervalBytes)
	setDefault(&o.MaxMessageBytes, defaultMaxMessageBytes)
	setDefault(&o.MaxOpenSegments, defaultMaxOpenSegments)
	setDefault(&o.LookupBytes, defaultLookupBytes)
	setDefault(&o.RetentionTime, defaultRetentionTime)
	setDefault(&o.RetentionBytes, -1)
	setDefault(&o.TimestampBeforeMax, noTimeLimit)
	setDefault(&o.TimestampAfterMax, defaultTimestampAfterMax)
	setDefault(&o.ProducerIDExpiration, defaultProducerExpiration)
	setDefault(&o.TransactionMaxTimeout, defaultTransactionTimeout)
	setDefault(&o.MinCleanableDirtyRatio, defaultDirtyRatio)
	setDefault(&o.DeleteRetention, defaultDeleteRetention)
	for _, limit := range []*time.Duration{&o.TimestampBeforeMax, &o.TimestampAfterMax} {
		if *limit < 0 {
			*limit = noTimeLimit
		}
	}
	setDefault(&o.FileDeleteDelay, defaultFileDeleteDelay)
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return o, errors.Join(
		inRange("SegmentBytes", o.SegmentBytes, minSegmentBytes, segment.MaxBytes),
		inRange("SegmentAge", o.SegmentAge, time.Millisecond, math.MaxInt64),
		inRange("SegmentJitter", o.SegmentJitter, 0, max(o.SegmentAge, 0)), // of an age that is refused it says nothing
		inRange("SegmentIndexBytes", o.SegmentIndexBytes, minIndexBytes, math.MaxInt32),
		inRange("IndexIntervalBytes", o.IndexIntervalBytes, 1, math.MaxInt32),
		inRange("MaxMessageBytes", o.MaxMessageBytes, record.HeaderSize, math.MaxInt32),
		inRange("Compression", o.Compression, record.None, record.Zstd),
		levelFits(o.Compression, o.CompressionLevel),
		inRange("TimestampType", o.TimestampType, record.CreateTime, record.LogAppendTime),
		inRange("CleanupPolicy", o.CleanupPolicy, CleanupDelete, CleanupNone),
		inRange("ProducerIDExpiration", o.ProducerIDExpiration, time.Millisecond, math.MaxInt64),
		inRange("TransactionMaxTimeout", o.TransactionMaxTimeout, time.Millisecond, math.MaxInt64),
		ratioFits(o.MinCleanableDirtyRatio),
		inRange("MinCompactionLag", o.MinCompactionLag, 0, math.MaxInt64),
		inRange("MaxCompactionLag", o.MaxCompactionLag, 0, math.MaxInt64),
		lagsFit(o.MinCompactionLag, o.MaxCompactionLag),
		inRange("LeaderEpoch", o.LeaderEpoch, 0, math.MaxInt32),
		inRange("RetentionBytes", o.RetentionBytes, -1, math.MaxInt64),
		inRange("Sync", o.Sync, SyncAlways, SyncNever),
		inRange("FlushMessages", o.FlushMessages, 0, math.MaxInt64),
		inRange("FlushBytes", o.FlushBytes, 0, math.MaxInt64),
		inRange("FlushInterval", o.FlushInterval, 0, math.MaxInt64),
		inRange("MaxOpenSegments", o.MaxOpenSegments, 1, math.MaxInt32),
		inRange("LookupBytes", o.LookupBytes, math.MinInt64, maxLookupBytes),
		inRange("AheadBytes", o.AheadBytes, math.MinInt64, segment.MaxBytes),
		inRange("StartOffset", o.StartOffset, 0, math.MaxInt64-1),
	)
}

// aheadBytes is AheadBytes as segments take it.
func (o *Options) aheadBytes() int64 {
	if o.AheadBytes != 0 {
		return max(0, o.AheadBytes)
	}
	if ahead := min(defaultAheadBytes, o.SegmentBytes/8); ahead >= leastAhead {
		return ahead
	}
	return 0
}

func ratioFits(ratio float64) error {
	if ratio <= 1 { // and a number
		return nil
	}
	return &OptionError{Field: "MinCleanableDirtyRatio", Value: fmt.Sprint(ratio), Want: "up to 1"}
}

// lagsFit is LogConfig.validateValues.
func lagsFit(least, most time.Duration) error {
	if most <= 0 || least <= most { // there is no limit, or it has an error of its own
		return nil
	}
	return &OptionError{Field: "MinCompactionLag", Value: fmt.Sprint(least), Want: fmt.Sprintf("at most MaxCompactionLag, %v", most)}
}

func levelFits(c record.Codec, level int) error {
	if !c.Valid() || c.HasLevel(level) {
		return nil // the codec has an error of its own
	}
	return &OptionError{Field: "CompressionLevel", Value: fmt.Sprint(level), Want: "0 or a level that " + c.String() + " has"}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func inRange[T int | int8 | int32 | int64 | SyncPolicy | CleanupPolicy | record.Codec | record.TimestampType | time.Duration](name string, v, low, high T) error {
	if v < low || v > high {
		return &OptionError{Field: name, Value: fmt.Sprint(v), Want: fmt.Sprintf("%v to %v", low, high)}
	}
	return nil
}
