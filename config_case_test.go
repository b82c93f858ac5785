package seglog_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func TestTopicPropertiesAreAppliedWithKafkasMeanings(t *testing.T) {
	tests := []struct {
		key, value string
		want       seglog.Options
	}{
		{"segment.bytes", "14", seglog.Options{SegmentBytes: 14}},
		{"segment.bytes", " 2147483647 ", seglog.Options{SegmentBytes: math.MaxInt32}},
		{"segment.ms", "1", seglog.Options{SegmentAge: time.Millisecond}},
		{"segment.ms", "9223372036854775807", seglog.Options{SegmentAge: math.MaxInt64}},
		{"segment.jitter.ms", "5", seglog.Options{SegmentJitter: 5 * time.Millisecond}},
		{"segment.jitter.ms", "9223372036854775807", seglog.Options{SegmentJitter: 7 * 24 * time.Hour}},
		{"segment.index.bytes", "4", seglog.Options{SegmentIndexBytes: 24}},
		{"index.interval.bytes", "0", seglog.Options{IndexIntervalBytes: 1}},
		{"max.message.bytes", "0", seglog.Options{MaxMessageBytes: record.HeaderSize}},
		{"retention.bytes", "-1", seglog.Options{RetentionBytes: -1}},
		{"retention.bytes", "-17", seglog.Options{RetentionBytes: -1}},
		{"retention.bytes", "0", seglog.Options{RetentionBytes: 1}},
		{"retention.ms", "-1", seglog.Options{RetentionTime: -time.Millisecond}},
		{"retention.ms", "0", seglog.Options{RetentionTime: time.Millisecond}},
		{"retention.ms", "9223372036854775807", seglog.Options{RetentionTime: math.MaxInt64}},
		{"cleanup.policy", "delete", seglog.Options{}},
		{"cleanup.policy", "compact", seglog.Options{CleanupPolicy: seglog.CleanupCompact}},
		{"cleanup.policy", "delete, compact", seglog.Options{CleanupPolicy: seglog.CleanupCompactDelete}},
		{"cleanup.policy", "", seglog.Options{CleanupPolicy: seglog.CleanupNone}},
		{"message.timestamp.before.max.ms", "5", seglog.Options{TimestampBeforeMax: 5 * time.Millisecond}},
		{"message.timestamp.after.max.ms", "0", seglog.Options{TimestampAfterMax: 1}},
		{"message.timestamp.after.max.ms", "9223372036854775807", seglog.Options{TimestampAfterMax: math.MaxInt64}},
		{"message.timestamp.difference.max.ms", "7", seglog.Options{TimestampBeforeMax: 7 * time.Millisecond, TimestampAfterMax: 7 * time.Millisecond}},
		{"file.delete.delay.ms", "0", seglog.Options{FileDeleteDelay: -1}},
		{"file.delete.delay.ms", "7", seglog.Options{FileDeleteDelay: 7 * time.Millisecond}},
		{"flush.messages", "1", seglog.Options{FlushMessages: 1}},
		{"flush.messages", "9223372036854775807", seglog.Options{}},
		{"flush.ms", "0", seglog.Options{FlushInterval: time.Millisecond}},
		{"flush.ms", "9223372036854775807", seglog.Options{}},
		{"compression.type", "producer", seglog.Options{}},
		{"compression.type", "uncompressed", seglog.Options{}},
		{"compression.type", "zstd", seglog.Options{Compression: record.Zstd}},
		{"compression.gzip.level", "9", seglog.Options{}},
		{"message.timestamp.type", "LogAppendTime", seglog.Options{TimestampType: record.LogAppendTime}},
		{"preallocate", "TRUE", seglog.Options{}},
		{"delete.retention.ms", "0", seglog.Options{DeleteRetention: -1}},
		{"delete.retention.ms", "1000", seglog.Options{DeleteRetention: time.Second}},
		{"min.compaction.lag.ms", "1000", seglog.Options{MinCompactionLag: time.Second}},
		{"max.compaction.lag.ms", "1000", seglog.Options{MaxCompactionLag: time.Second}},
		{"max.compaction.lag.ms", "9223372036854775807", seglog.Options{}},
		{"min.cleanable.dirty.ratio", "0", seglog.Options{MinCleanableDirtyRatio: -1}},
		{"min.cleanable.dirty.ratio", "0.5", seglog.Options{MinCleanableDirtyRatio: 0.5}},
		{"remote.storage.enable", "false", seglog.Options{}},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			got, err := seglog.OptionsFromProperties(seglog.Options{}, map[string]string{tt.key: tt.value})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			openLog(t, t.TempDir(), got)
		})
	}
}

func TestPropertiesChangeOnlyWhatTheyName(t *testing.T) {
	base := seglog.Options{Compression: record.Gzip, CompressionLevel: 3, SegmentBytes: 100, Sync: seglog.SyncNever}
	got, err := seglog.OptionsFromProperties(base, map[string]string{"compression.type": "lz4", "compression.lz4.level": "12", "compression.gzip.level": "1"})
	require.NoError(t, err)
	require.Equal(t, seglog.Options{Compression: record.LZ4, CompressionLevel: 12, SegmentBytes: 100, Sync: seglog.SyncNever}, got)
	got, err = seglog.OptionsFromProperties(base, map[string]string{"compression.type": "snappy"})
	require.NoError(t, err)
	require.Zero(t, got.CompressionLevel)
	got, err = seglog.OptionsFromProperties(base, nil)
	require.NoError(t, err)
	require.Equal(t, base, got)
}

func TestValuesThatKafkaRefusesAreRefused(t *testing.T) {
	for key, values := range map[string][]string{
		"segment.bytes": {"13", "2147483648", "x", "", "1e3"}, "segment.ms": {"0", "9223372036854775808"},
		"segment.jitter.ms": {"-1"}, "segment.index.bytes": {"3"}, "index.interval.bytes": {"-1"},
		"flush.messages": {"0"}, "flush.ms": {"-1"}, "retention.ms": {"-2"}, "retention.bytes": {"lots"},
		"max.message.bytes": {"-1"}, "delete.retention.ms": {"-1"}, "min.compaction.lag.ms": {"-1"},
		"max.compaction.lag.ms": {"0"}, "file.delete.delay.ms": {"-1"}, "min.cleanable.dirty.ratio": {"1.1", "-0.1", "NaN", "x"},
		"cleanup.policy": {"Compact", ",", "delete,truncate"}, "min.insync.replicas": {"0"},
		"compression.type": {"none", "brotli"}, "compression.gzip.level": {"0", "10"}, "compression.lz4.level": {"0", "18"},
		"compression.zstd.level": {"23", "-131073"}, "preallocate": {"yes"}, "message.timestamp.type": {"createtime"},
		"message.timestamp.before.max.ms": {"-1"}, "local.retention.ms": {"-3"}, "remote.storage.enable": {"true"},
	} {
		for _, value := range values {
			base := seglog.Options{SegmentBytes: 77}
			got, err := seglog.OptionsFromProperties(base, map[string]string{key: value})
			var bad *seglog.OptionError
			require.ErrorAs(t, err, &bad, "%s=%s", key, value)
			require.ErrorIs(t, err, seglog.ErrOption)
			require.Equal(t, key, bad.Field)
			require.Equal(t, base, got)
		}
	}
	_, err := seglog.OptionsFromProperties(seglog.Options{}, map[string]string{"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})
	require.ErrorIs(t, err, seglog.ErrOption)
	_, err = seglog.OptionsFromProperties(seglog.Options{}, map[string]string{"segment.bytes": "1", "segment.ms": "0", "x": "y"})
	require.ErrorContains(t, err, "segment.bytes")
	require.ErrorContains(t, err, "segment.ms")
	require.ErrorIs(t, err, seglog.ErrUnknownProperty)
}

func TestUnknownPropertiesNameTheirLikes(t *testing.T) {
	tests := []struct {
		key  string
		near []string
	}{
		{"retention.msec", []string{"retention.ms"}},
		{"retention_ms", []string{"retention.ms"}},
		{"ms.retention", []string{"retention.ms"}},
		{"segment.byte", []string{"segment.bytes"}},
		{"Segment.Bytes", []string{"segment.bytes"}},
		{"cleanup.polcy", []string{"cleanup.policy"}},
		{"bootstrap.servers", nil},
		{"", nil},
		{strings.Repeat("x", 1<<20), nil},
	}
	for _, tt := range tests {
		_, err := seglog.OptionsFromProperties(seglog.Options{}, map[string]string{tt.key: "1"})
		var unknown *seglog.UnknownPropertyError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, tt.key, unknown.Key)
		if tt.near == nil {
			require.Empty(t, unknown.Near, "%.80q", tt.key)
			continue
		}
		require.Equal(t, tt.near[0], unknown.Near[0], tt.key)
		require.ErrorContains(t, err, "did you mean "+tt.near[0])
	}
}

func TestBrokerPropertiesAreThoseOfADir(t *testing.T) {
	got, err := seglog.DirOptionsFromProperties(seglog.DirOptions{MaxOpenSegments: 7}, map[string]string{
		"log.retention.check.interval.ms":               "1000",
		"log.initial.task.delay.ms":                     "0",
		"log.flush.offset.checkpoint.interval.ms":       "2000",
		"log.flush.start.offset.checkpoint.interval.ms": "0",
		"replica.high.watermark.checkpoint.interval.ms": "4000",
		"num.recovery.threads.per.data.dir":             "3",
		"log.segment.bytes":                             "1000",
		"log.roll.hours":                                "2",
		"log.retention.hours":                           "1",
		"log.retention.minutes":                         "3",
		"log.flush.scheduler.interval.ms":               "50",
		"log.flush.interval.ms":                         "20",
		"message.max.bytes":                             "2000",
		"log.segment.delete.delay.ms":                   "9",
		"log.cleanup.policy":                            "compact",
		"log.cleaner.threads":                           "1",
		"log.cleaner.enable":                            "false",
		"log.cleaner.backoff.ms":                        "20",
		"log.cleaner.dedupe.buffer.size":                "4294967296",
		"log.cleaner.io.buffer.load.factor":             "0.5",
		"log.cleaner.io.max.bytes.per.second":           "1.5E6",
		"log.dirs":                                      "/var/lib/kafka",
	})
	require.NoError(t, err)
	require.Equal(t, seglog.DirOptions{
		MaxOpenSegments: 7, RecoveryThreads: 3,
		RetentionCheckInterval: time.Second, InitialTaskDelay: time.Millisecond,
		RecoveryCheckpointInterval: 2 * time.Second, StartCheckpointInterval: time.Millisecond,
		HighWatermarkCheckpointInterval: 4 * time.Second,
		ManualCleaning:                  true, CleanerBackoff: 20 * time.Millisecond,
		Cleaner: seglog.CleanerOptions{MapBytes: math.MaxInt32, LoadFactor: 0.5, BytesPerSecond: 1_500_000},
		Log: seglog.Options{SegmentBytes: 1000, SegmentAge: 2 * time.Hour, RetentionTime: 3 * time.Minute,
			FlushInterval: 20 * time.Millisecond, MaxMessageBytes: 2000, FileDeleteDelay: 9 * time.Millisecond,
			CleanupPolicy: seglog.CleanupCompact},
	}, got)

	for key, value := range map[string]string{
		"log.retention.ms": "0", "log.roll.hours": "0", "log.segment.bytes": "13", "log.cleanup.policy": "none",
		"num.recovery.threads.per.data.dir": "0", "log.retention.check.interval.ms": "0",
		"log.cleaner.enable": "no", "log.cleaner.backoff.ms": "-1", "log.cleaner.dedupe.buffer.size": "0",
		"log.cleaner.io.buffer.load.factor": "NaN", "log.cleaner.io.max.bytes.per.second": "0",
	} {
		_, err := seglog.DirOptionsFromProperties(seglog.DirOptions{}, map[string]string{key: value})
		var bad *seglog.OptionError
		require.ErrorAs(t, err, &bad, key)
		require.Equal(t, key, bad.Field)
	}
	_, err = seglog.DirOptionsFromProperties(seglog.DirOptions{}, map[string]string{"log.retention.hour": "1"})
	require.ErrorContains(t, err, "did you mean log.retention.hours")
	got, err = seglog.DirOptionsFromProperties(seglog.DirOptions{}, map[string]string{"log.retention.ms": "-5", "log.retention.hours": "1"})
	require.NoError(t, err)
	require.Negative(t, got.Log.RetentionTime)
	// Kafka's default, the largest number there is.
	got, err = seglog.DirOptionsFromProperties(seglog.DirOptions{}, map[string]string{"log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308", "log.cleaner.enable": "true"})
	require.NoError(t, err)
	require.Equal(t, seglog.DirOptions{}, got)
	// No key fits such a map.
	_, err = seglog.OpenDir(t.TempDir(), seglog.DirOptions{Cleaner: seglog.CleanerOptions{MapBytes: 1}})
	require.ErrorIs(t, err, seglog.ErrOption)
}
