package seglog

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DirOptionsFromProperties returns base with the settings of Kafka's broker for its log
// directories in props: those of maintenance and loading, and the defaults of topics
// under the names that they have there ("log.retention.hours"; if there are several
// names for one thing the one with the finer unit counts, as on a broker). It refuses
// what OptionsFromProperties refuses; a broker's other settings, such as its listeners,
// are unknown to it.
func DirOptionsFromProperties(base DirOptions, props map[string]string) (DirOptions, error) {
	o := base
	known := dirProperties()
	topic := map[string]string{}
	names := map[string]string{} // of a topic's setting: the broker's that is used
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(props)) {
		value := strings.TrimSpace(props[key])
		p, ok := known[key]
		if !ok {
			errs = append(errs, &UnknownPropertyError{Key: key, Near: similar(key, maps.Keys(known))})
			continue
		}
		if want, ok := p.apply(&o, value); !ok {
			errs = append(errs, &OptionError{Field: key, Value: strconv.Quote(props[key]), Want: want})
			continue
		}
		if p.topic == "" {
			continue
		}
		if before, twice := names[p.topic]; !twice || p.rank < known[before].rank {
			topic[p.topic], names[p.topic] = p.translate(value), key
		}
	}
	settings, err := OptionsFromProperties(o.Log, topic)
	o.Log = settings
	if errs = append(errs, brokerNames(err, names)...); errors.Join(errs...) != nil {
		return base, errors.Join(errs...)
	}
	return o, nil
}

// brokerNames puts the names that the caller used in place of the topic's.
func brokerNames(err error, names map[string]string) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		var option *OptionError
		if errors.As(err, &option) && names[option.Field] != "" {
			option.Field = names[option.Field]
		}
		errs = append(errs, err)
	}
	return errs
}

// dirProperty is a setting of a broker.
type dirProperty struct {
	apply func(o *DirOptions, value string) (want string, ok bool)
	topic string // the topic's setting of which it is the default, or ""
	unit  int64  // of that, in milliseconds
	rank  int    // among the names for one topic's setting; the lowest counts
	inert string
}

// translate returns the value that the topic's setting has.
func (p dirProperty) translate(value string) string {
	if p.unit == 0 {
		return value
	}
	n, _ := strconv.ParseInt(value, 10, 64) // apply has refused what is not one
	if n < 0 {
		return "-1"
	}
	if n > math.MaxInt64/p.unit {
		return strconv.FormatInt(math.MaxInt64, 10)
	}
	return strconv.FormatInt(n*p.unit, 10)
}

// dirProperties are those of ServerLogConfigs.java and CleanerConfig.java, and of others
// those that are about a log directory.
func dirProperties() map[string]dirProperty {
	const minute, hour = 60_000, 3_600_000
	m := map[string]dirProperty{
		"log.retention.check.interval.ms":               interval(1, func(o *DirOptions) *time.Duration { return &o.RetentionCheckInterval }),
		"log.initial.task.delay.ms":                     interval(0, func(o *DirOptions) *time.Duration { return &o.InitialTaskDelay }),
		"log.flush.offset.checkpoint.interval.ms":       interval(0, func(o *DirOptions) *time.Duration { return &o.RecoveryCheckpointInterval }),
		"log.flush.start.offset.checkpoint.interval.ms": interval(0, func(o *DirOptions) *time.Duration { return &o.StartCheckpointInterval }),
		"replica.high.watermark.checkpoint.interval.ms": interval(1, func(o *DirOptions) *time.Duration { return &o.HighWatermarkCheckpointInterval }),
		"producer.id.expiration.check.interval.ms":      interval(1, func(o *DirOptions) *time.Duration { return &o.ProducerExpirationCheckInterval }),
		"producer.id.expiration.ms":                     number(1, math.MaxInt32, func(o *DirOptions, n int64) { o.Log.ProducerIDExpiration = durationOf(n) }),
		"transaction.max.timeout.ms":                    number(1, math.MaxInt32, func(o *DirOptions, n int64) { o.Log.TransactionMaxTimeout = durationOf(n) }),
		"log.cleaner.enable":                            {apply: cleanerEnable},
		"log.cleaner.backoff.ms":                        interval(0, func(o *DirOptions) *time.Duration { return &o.CleanerBackoff }),
		"log.cleaner.dedupe.buffer.size":                number(1, math.MaxInt64, func(o *DirOptions, n int64) { o.Cleaner.MapBytes = min(n, math.MaxInt32) }),
		"log.cleaner.io.buffer.load.factor":             fraction(1, func(o *DirOptions, f float64) { o.Cleaner.LoadFactor = f }),
		"log.cleaner.io.max.bytes.per.second":           fraction(math.MaxFloat64, cleanerSpeed),
		"num.recovery.threads.per.data.dir":             number(1, math.MaxInt32, func(o *DirOptions, n int64) { o.RecoveryThreads = int(min(n, maxRecoveryThreads)) }),

		"log.roll.ms":                     defaultOf("segment.ms", 0, 1, 1, math.MaxInt64),
		"log.roll.hours":                  defaultOf("segment.ms", 1, hour, 1, math.MaxInt32),
		"log.roll.jitter.ms":              defaultOf("segment.jitter.ms", 0, 1, 0, math.MaxInt64),
		"log.roll.jitter.hours":           defaultOf("segment.jitter.ms", 1, hour, 0, math.MaxInt32),
		"log.retention.ms":                retentionTime(0, 1, math.MaxInt64),
		"log.retention.minutes":           retentionTime(1, minute, math.MaxInt32),
		"log.retention.hours":             retentionTime(2, hour, math.MaxInt32),
		"log.flush.interval.ms":           defaultOf("flush.ms", 0, 1, 0, math.MaxInt64),
		"log.flush.scheduler.interval.ms": defaultOf("flush.ms", 1, 1, 0, math.MaxInt64),
	}
	for broker, topic := range map[string]string{
		"log.segment.bytes":                       "segment.bytes",
		"log.index.size.max.bytes":                "segment.index.bytes",
		"log.index.interval.bytes":                "index.interval.bytes",
		"log.flush.interval.messages":             "flush.messages",
		"log.retention.bytes":                     "retention.bytes",
		"log.local.retention.ms":                  "local.retention.ms",
		"log.local.retention.bytes":               "local.retention.bytes",
		"message.max.bytes":                       "max.message.bytes",
		"log.segment.delete.delay.ms":             "file.delete.delay.ms",
		"log.cleanup.policy":                      "cleanup.policy",
		"log.cleaner.delete.retention.ms":         "delete.retention.ms",
		"log.cleaner.min.compaction.lag.ms":       "min.compaction.lag.ms",
		"log.cleaner.max.compaction.lag.ms":       "max.compaction.lag.ms",
		"log.cleaner.min.cleanable.ratio":         "min.cleanable.dirty.ratio",
		"unclean.leader.election.enable":          "unclean.leader.election.enable",
		"min.insync.replicas":                     "min.insync.replicas",
		"compression.type":                        "compression.type",
		"compression.gzip.level":                  "compression.gzip.level",
		"compression.lz4.level":                   "compression.lz4.level",
		"compression.zstd.level":                  "compression.zstd.level",
		"log.preallocate":                         "preallocate",
		"log.message.format.version":              "message.format.version",
		"log.message.timestamp.type":              "message.timestamp.type",
		"log.message.timestamp.difference.max.ms": "message.timestamp.difference.max.ms",
		"log.message.timestamp.before.max.ms":     "message.timestamp.before.max.ms",
		"log.message.timestamp.after.max.ms":      "message.timestamp.after.max.ms",
		"log.message.downconversion.enable":       "message.downconversion.enable",
	} {
		m[broker] = dirProperty{topic: topic, apply: func(*DirOptions, string) (string, bool) { return "", true }}
	}
	const (
		elsewhere = "OpenDir is given the directory, and the caller decides what is created in it"
		oneLog    = "one log is compacted at a time, as with Kafka's default"
		asNeeded  = "buffers are as large as the batches that are compacted"
	)
	for key, why := range map[string]string{
		"log.dir": elsewhere, "log.dirs": elsewhere, "num.partitions": elsewhere, "auto.create.topics.enable": elsewhere,
		"create.topic.policy.class.name": elsewhere, "alter.config.policy.class.name": elsewhere,
		"log.dir.failure.timeout.ms": "a Dir is one directory: what fails in it is an error of the call",
		"log.cleaner.threads":        oneLog, "log.cleaner.io.buffer.size": asNeeded,
	} {
		m[key] = dirProperty{inert: why, apply: func(*DirOptions, string) (string, bool) { return "", true }}
	}
	return m
}

func number(low, high int64, set func(*DirOptions, int64)) dirProperty {
	return dirProperty{apply: func(o *DirOptions, value string) (string, bool) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Sprintf("%d to %d", low, high), false
		}
		if set != nil {
			set(o, n)
		}
		return "", true
	}}
}

func cleanerEnable(o *DirOptions, value string) (string, bool) {
	want, ok := boolean(nil, value)
	if ok {
		o.ManualCleaning = strings.EqualFold(value, "false")
	}
	return want, ok
}

// fraction is a number above 0.
func fraction(high float64, set func(*DirOptions, float64)) dirProperty {
	return dirProperty{apply: func(o *DirOptions, value string) (string, bool) {
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f > 0 && f <= high) {
			return fmt.Sprintf("above 0, up to %v", high), false
		}
		set(o, f)
		return "", true
	}}
}

// cleanerSpeed: more than a count of bytes can be is Kafka's way to say no limit.
func cleanerSpeed(o *DirOptions, bytesPerSecond float64) {
	o.Cleaner.BytesPerSecond = 0
	if bytesPerSecond < math.MaxInt64 {
		o.Cleaner.BytesPerSecond = max(1, int64(bytesPerSecond))
	}
}

// interval is a time between two turns. 0 is Kafka's way to say as often as it can.
func interval(low int64, field func(*DirOptions) *time.Duration) dirProperty {
	return number(low, math.MaxInt64, func(o *DirOptions, n int64) { *field(o) = max(durationOf(n), time.Millisecond) })
}

// defaultOf is a number that is the default of a topic's setting.
func defaultOf(topic string, rank int, unit, low, high int64) dirProperty {
	p := number(low, high, nil)
	p.topic, p.rank, p.unit = topic, rank, unit
	return p
}

// retentionTime: a broker refuses 0, and takes any negative number for "never"
// (KafkaConfig.logRetentionTimeMillis).
func retentionTime(rank int, unit, high int64) dirProperty {
	p := defaultOf("retention.ms", rank, unit, math.MinInt64, high)
	number := p.apply
	p.apply = func(o *DirOptions, value string) (string, bool) {
		if _, ok := number(o, value); !ok || value == "0" {
			return fmt.Sprintf("-1, or 1 to %d", high), false
		}
		return "", true
	}
	return p
}
