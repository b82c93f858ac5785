package seglog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
)

// DirOptions are the settings of a Dir. The zero value is useful: every field left
// at zero means Kafka's default for the broker setting it is named after, if there
// is one.
type DirOptions struct {
	// Log are the settings of every topic that Topics does not name.
	Log Options
	// Topics are the settings of single topics, complete ones: what is zero there
	// means its default, not what Log says. See OptionsFromProperties for settings
	// that change a few of Log.
	Topics map[string]Options

	// MaxOpenSegments is how many segments of all logs together keep their files
	// open. One that is sealed costs a descriptor and two mappings; the active one
	// of a log that is in use, three descriptors. Those that were not used for
	// longest, active ones too, are closed, and opened again when they are used.
	// 0 means 1024.
	MaxOpenSegments int
	// LookupBytes is that of Options, for all logs together.
	LookupBytes int64
	// RecoveryThreads is num.recovery.threads.per.data.dir: how many logs are
	// opened or closed at a time. 0 means 2.
	RecoveryThreads int

	// RetentionCheckInterval is log.retention.check.interval.ms: the time between
	// two rounds of ApplyRetention over all logs. 0 means 5 minutes.
	RetentionCheckInterval time.Duration
	// InitialTaskDelay is log.initial.task.delay.ms: the time from OpenDir to the
	// first of these rounds, and to the first look for logs to compact. 0 means 30
	// seconds.
	InitialTaskDelay time.Duration
	// RecoveryCheckpointInterval is log.flush.offset.checkpoint.interval.ms. 0 means
	// a minute.
	RecoveryCheckpointInterval time.Duration
	// StartCheckpointInterval is log.flush.start.offset.checkpoint.interval.ms. 0
	// means a minute.
	StartCheckpointInterval time.Duration
	// HighWatermarkCheckpointInterval is
	// replica.high.watermark.checkpoint.interval.ms. 0 means 5 seconds.
	HighWatermarkCheckpointInterval time.Duration
	// ProducerExpirationCheckInterval is producer.id.expiration.check.interval.ms: the
	// time between two rounds of ExpireProducers over the logs that are open. 0 means
	// 10 minutes.
	ProducerExpirationCheckInterval time.Duration
	// Cleaner is how much memory and disk the compaction of all logs may take. A Dir
	// compacts those whose Options.CleanupPolicy says so, one at a time, when
	// MinCleanableDirtyRatio or MaxCompactionLag says that it is time.
	Cleaner CleanerOptions
	// CleanerBackoff is log.cleaner.backoff.ms: when none was due, the time until they
	// are looked through again. 0 means 15 seconds.
	CleanerBackoff time.Duration
	// ManualCleaning is log.cleaner.enable=false: a log is compacted only when Clean, or
	// Log.Compact, is called.
	ManualCleaning bool
	// RemovalBytesPerSecond bounds how fast files of removed segments and
	// partitions go off the disk, which is not free of work for a disk. 0 means as
	// fast as it can.
	RemovalBytesPerSecond int64
	// ManualMaintenance: nothing of the above happens but when Maintain, or Clean, is
	// called.
	ManualMaintenance bool

	// ReadOnly opens an existing directory without taking its lock or changing a byte,
	// beside a broker or another Dir if need be. What it lists is what was there at
	// OpenDir, or at the last Refresh; its logs are read-only, and found as they are
	// when they are first asked for.
	ReadOnly bool

	// Identity, if not nil, is what meta.properties must say, and is written to a
	// directory that has none, as "kafka-storage format" does. A broker opens no
	// directory without one.
	Identity *Identity

	// Events are told what happens to the directory. Those of a log are in its
	// Options.
	Events DirEvents
	// Logger gets the same as text, and is that of each log that has none. nil
	// means that nothing is logged.
	Logger *slog.Logger

	// FS is where the files live, those of the logs too. nil means the file system
	// of the operating system.
	FS vfs.FS
}

// DirEvents are functions a Dir calls when something happens that its operator may
// want to know. Any may be nil. They may be called from several goroutines at a time,
// and while the Dir is in the middle of something: they must neither close nor maintain
// it, nor ask for the partition they are told of or delete it.
type DirEvents struct {
	// SetAside is called when a partition cannot be opened.
	SetAside func(topic string, partition int32, cause error)
	// Cleaned is called when a log was compacted, Log.Compact called by others apart.
	Cleaned func(topic string, partition int32, result CompactResult)
	// Uncleanable is called when a log cannot be compacted. It is tried again after a few
	// minutes, or if it is damaged when it has been opened again.
	Uncleanable func(topic string, partition int32, cause error)
	// LateTransaction is Events.LateTransaction of any log that is open.
	LateTransaction func(topic string, partition int32, t Transaction)
	// MaintenanceFailed is called when a part of maintenance fails. It is tried
	// again at its next turn.
	MaintenanceFailed func(cause error)
}

// Identity says whose a log directory is (meta.properties, MetaProperties.java).
type Identity struct {
	ClusterID string
	NodeID    int32
	// DirectoryID is the id of the directory itself, 22 characters as Kafka prints
	// it; "" if it has none.
	DirectoryID string
}

const (
	defaultRecoveryThreads         = 2
	maxRecoveryThreads             = 1 << 16
	defaultRetentionCheckInterval  = 5 * time.Minute
	defaultInitialTaskDelay        = 30 * time.Second
	defaultCheckpointInterval      = time.Minute
	defaultHighWatermarkCheckpoint = 5 * time.Second
	defaultProducerExpirationCheck = 10 * time.Minute
	defaultCleanerBackoff          = 15 * time.Second
)

func (o DirOptions) resolve() (DirOptions, error) {
	setDefault(&o.MaxOpenSegments, defaultMaxOpenSegments)
	setDefault(&o.LookupBytes, defaultLookupBytes)
	setDefault(&o.RecoveryThreads, defaultRecoveryThreads)
	setDefault(&o.RetentionCheckInterval, defaultRetentionCheckInterval)
	setDefault(&o.InitialTaskDelay, defaultInitialTaskDelay)
	setDefault(&o.RecoveryCheckpointInterval, defaultCheckpointInterval)
	setDefault(&o.StartCheckpointInterval, defaultCheckpointInterval)
	setDefault(&o.HighWatermarkCheckpointInterval, defaultHighWatermarkCheckpoint)
	setDefault(&o.ProducerExpirationCheckInterval, defaultProducerExpirationCheck)
	setDefault(&o.CleanerBackoff, defaultCleanerBackoff)
	if o.FS == nil {
		o.FS = vfs.OS
	}
	errs := []error{
		inRange("MaxOpenSegments", o.MaxOpenSegments, 1, math.MaxInt32),
		inRange("LookupBytes", o.LookupBytes, math.MinInt64, maxLookupBytes),
		inRange("RecoveryThreads", o.RecoveryThreads, 1, maxRecoveryThreads),
		inRange("RetentionCheckInterval", o.RetentionCheckInterval, time.Millisecond, math.MaxInt64),
		inRange("InitialTaskDelay", o.InitialTaskDelay, 0, math.MaxInt64),
		inRange("RecoveryCheckpointInterval", o.RecoveryCheckpointInterval, time.Millisecond, math.MaxInt64),
		inRange("StartCheckpointInterval", o.StartCheckpointInterval, time.Millisecond, math.MaxInt64),
		inRange("HighWatermarkCheckpointInterval", o.HighWatermarkCheckpointInterval, time.Millisecond, math.MaxInt64),
		inRange("ProducerExpirationCheckInterval", o.ProducerExpirationCheckInterval, time.Millisecond, math.MaxInt64),
		inRange("CleanerBackoff", o.CleanerBackoff, time.Millisecond, math.MaxInt64),
		inRange("RemovalBytesPerSecond", o.RemovalBytesPerSecond, 0, math.MaxInt64),
		identityFits(o.Identity),
	}
	logs, err := o.ofLog(o.Log)
	errs = append(errs, err)
	o.Log = logs
	topics := make(map[string]Options, len(o.Topics))
	for topic, settings := range o.Topics {
		settings, err := o.ofLog(settings)
		if err != nil {
			errs = append(errs, fmt.Errorf("topic %q: %w", topic, err))
		}
		topics[topic] = settings
	}
	o.Topics = topics
	return o, errors.Join(errs...)
}

// ofLog are the settings of a log in this directory.
func (o DirOptions) ofLog(l Options) (Options, error) {
	var err error
	if l.ReadOnly && !o.ReadOnly {
		err = &OptionError{Field: "ReadOnly", Value: "true", Want: "false for a log in a Dir"}
	}
	if l.FS != nil {
		err = errors.Join(err, &OptionError{Field: "FS", Value: "set", Want: "nil for a log in a Dir, which has that of DirOptions"})
	}
	l.FS, l.ReadOnly = o.FS, o.ReadOnly
	if l.Logger == nil {
		l.Logger = o.Logger
	}
	l, rerr := l.resolve()
	return l, errors.Join(err, rerr)
}

// of are the settings of a topic.
func (o *DirOptions) of(topic string) Options {
	if settings, ok := o.Topics[topic]; ok {
		return settings
	}
	return o.Log
}

func (i Identity) properties() checkpoint.MetaProperties {
	id, _ := checkpoint.ParseUUID(i.DirectoryID)
	return checkpoint.MetaProperties{Version: 1, ClusterID: i.ClusterID, NodeID: i.NodeID, DirectoryID: id}
}

func identityFits(i *Identity) error {
	if i == nil {
		return nil
	}
	if _, ok := checkpoint.ParseUUID(i.DirectoryID); !ok && i.DirectoryID != "" {
		return &OptionError{Field: "Identity.DirectoryID", Value: i.DirectoryID, Want: "22 characters, an id as Kafka prints it"}
	}
	if _, err := checkpoint.AppendMetaProperties(nil, i.properties(), time.Time{}); err != nil {
		return &OptionError{Field: "Identity", Value: fmt.Sprintf("%+v", *i), Want: "a node id from 0 and a cluster id of letters, digits, dots, dashes and underscores"}
	}
	return nil
}
