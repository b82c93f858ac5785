package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seglog/seglog/record"
)

// ErrUnknownProperty: Kafka has no setting of that name.
var ErrUnknownProperty = errors.New("unknown property")

// UnknownPropertyError is a key that is no setting, and those it may be meant for. It
// matches ErrUnknownProperty and ErrOption.
type UnknownPropertyError struct {
	Key  string
	Near []string // the most similar first; may be empty
}

func unknownTopicProperty(key string) error {
	return &UnknownPropertyError{Key: key, Near: similar(key, maps.Keys(topicProperties()))}
}

func (e *UnknownPropertyError) Error() string {
	if len(e.Near) == 0 {
		return fmt.Sprintf("%v %q", ErrUnknownProperty, e.Key)
	}
	return fmt.Sprintf("%v %q, did you mean %s?", ErrUnknownProperty, e.Key, strings.Join(e.Near, " or "))
}

// Unwrap returns ErrUnknownProperty and ErrOption.
func (e *UnknownPropertyError) Unwrap() []error { return []error{ErrUnknownProperty, ErrOption} }

// OptionsFromProperties returns base with the topic settings of Kafka in props, under
// the names and with the values Kafka has for them (LogConfig.java). Every setting of
// Kafka 4 is known: docs/config.md says of each what it does here, or why it does
// nothing. A key that is not one is an *UnknownPropertyError; a value that Kafka would
// refuse, or that asks for what is not there, an *OptionError with the key as its field.
// All that is wrong is in the one error.
//
// Values that mean "never" or "no limit" in Kafka, -1 and 9223372036854775807, are
// translated. Nothing weakens base.Sync: flush.messages and flush.ms only add to it.
func OptionsFromProperties(base Options, props map[string]string) (Options, error) {
	s := topicSettings{Options: base, minLag: base.MinCompactionLag.Milliseconds(), maxLag: math.MaxInt64}
	if base.MaxCompactionLag > 0 {
		s.maxLag = base.MaxCompactionLag.Milliseconds()
	}
	known := topicProperties()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(props)) {
		p, ok := known[key]
		if !ok {
			errs = append(errs, &UnknownPropertyError{Key: key, Near: similar(key, maps.Keys(known))})
			continue
		}
		if want, ok := p.apply(&s, strings.TrimSpace(props[key])); !ok {
			errs = append(errs, &OptionError{Field: key, Value: strconv.Quote(props[key]), Want: want})
		}
	}
	if s.minLag > s.maxLag {
		errs = append(errs, &OptionError{Field: "min.compaction.lag.ms", Value: fmt.Sprint(s.minLag), Want: fmt.Sprintf("at most max.compaction.lag.ms, %d", s.maxLag)})
	}
	if err := errors.Join(errs...); err != nil {
		return base, err
	}
	return s.options(base), nil
}

// topicSettings are options in the making.
type topicSettings struct {
	Options
	levels         map[record.Codec]int
	minLag, maxLag int64
	// difference is message.timestamp.difference.max.ms, which counts for those of the
	// other two that are not given, as it did before it was replaced by them.
	difference, before, after *time.Duration
}

func (s *topicSettings) options(base Options) Options {
	o := s.Options
	if level, given := s.levels[o.Compression]; given {
		o.CompressionLevel = level
	} else if o.Compression != base.Compression {
		o.CompressionLevel = 0
	}
	if d := cmp.Or(s.before, s.difference); d != nil {
		o.TimestampBeforeMax = *d
	}
	if d := cmp.Or(s.after, s.difference); d != nil {
		o.TimestampAfterMax = *d
	}
	age := o.SegmentAge
	setDefault(&age, defaultSegmentAge)
	o.SegmentJitter = min(o.SegmentJitter, age) // as LogConfig.randomSegmentJitter
	return o
}

// property is a setting of a topic. apply returns what it wants when it refuses a value.
type property struct {
	apply func(s *topicSettings, value string) (want string, ok bool)
	// inert says why it has no effect; "" if it has one.
	inert string
}

// topicProperties are all settings of a topic that LogConfig.java defines.
func topicProperties() map[string]property {
	return map[string]property{
		"segment.bytes":        whole(14, math.MaxInt32, func(s *topicSettings, n int64) { s.SegmentBytes = n }),
		"segment.ms":           millis(1, func(s *topicSettings, d time.Duration) { s.SegmentAge = d }),
		"segment.jitter.ms":    millis(0, func(s *topicSettings, d time.Duration) { s.SegmentJitter = d }),
		"segment.index.bytes":  whole(4, math.MaxInt32, func(s *topicSettings, n int64) { s.SegmentIndexBytes = int(max(n, minIndexBytes)) }),
		"index.interval.bytes": whole(0, math.MaxInt32, func(s *topicSettings, n int64) { s.IndexIntervalBytes = int(max(n, 1)) }),
		"max.message.bytes":    whole(0, math.MaxInt32, func(s *topicSettings, n int64) { s.MaxMessageBytes = int(max(n, record.HeaderSize)) }),

		"retention.bytes": whole(math.MinInt64, math.MaxInt64, func(s *topicSettings, n int64) {
			// 0 is the default of Options. The least there is keeps the newest segment.
			s.RetentionBytes = max(n, -1)
			setDefault(&s.RetentionBytes, 1)
		}),
		"retention.ms": millis(-1, func(s *topicSettings, d time.Duration) {
			s.RetentionTime = d
			setDefault(&s.RetentionTime, time.Millisecond)
		}),
		"cleanup.policy":       {apply: cleanupPolicy},
		"file.delete.delay.ms": millis(0, func(s *topicSettings, d time.Duration) { s.FileDeleteDelay = d; setDefault(&s.FileDeleteDelay, -1) }),

		"flush.messages": whole(1, math.MaxInt64, func(s *topicSettings, n int64) {
			s.FlushMessages = n
			if n == math.MaxInt64 {
				s.FlushMessages = 0
			}
		}),
		"flush.ms": millis(0, func(s *topicSettings, d time.Duration) {
			s.FlushInterval = max(d, time.Millisecond)
			if d == math.MaxInt64 {
				s.FlushInterval = 0
			}
		}),

		"compression.type":       {apply: compressionType},
		"compression.gzip.level": level(record.Gzip, -1, func(n int64) bool { return n == -1 || n >= 1 && n <= 9 }, "-1 or 1 to 9"),
		"compression.lz4.level":  level(record.LZ4, 9, func(n int64) bool { return n >= 1 && n <= 17 }, "1 to 17"),
		"compression.zstd.level": level(record.Zstd, 3, func(n int64) bool { return n >= -131072 && n <= 22 }, "-131072 to 22"),
		"message.timestamp.type": {apply: timestampType},

		"delete.retention.ms": millis(0, func(s *topicSettings, d time.Duration) { s.DeleteRetention = d; setDefault(&s.DeleteRetention, -1) }),
		"min.compaction.lag.ms": whole(0, math.MaxInt64, func(s *topicSettings, n int64) {
			s.minLag, s.MinCompactionLag = n, durationOf(n)
		}),
		"max.compaction.lag.ms": whole(1, math.MaxInt64, func(s *topicSettings, n int64) {
			s.maxLag, s.MaxCompactionLag = n, durationOf(n)
			if n == math.MaxInt64 {
				s.MaxCompactionLag = 0
			}
		}),
		"min.cleanable.dirty.ratio": {apply: ratio},

		"message.timestamp.before.max.ms":     timestampLimit(func(s *topicSettings, d *time.Duration) { s.before = d }),
		"message.timestamp.after.max.ms":      timestampLimit(func(s *topicSettings, d *time.Duration) { s.after = d }),
		"message.timestamp.difference.max.ms": timestampLimit(func(s *topicSettings, d *time.Duration) { s.difference = d }),
		"message.format.version":              inert(property{apply: anything}, "batches are stored in the format of version 2, as since Kafka 3.0"),
		"message.downconversion.enable":       inert(property{apply: boolean}, "no old consumers are served"),
		"preallocate":                         inert(property{apply: boolean}, "Options.AheadBytes makes room for a log that is being written to, in steps"),

		"unclean.leader.election.enable":          inert(property{apply: boolean}, inertReplication),
		"min.insync.replicas":                     inert(whole(1, math.MaxInt32, nil), inertReplication),
		"leader.replication.throttled.replicas":   inert(property{apply: anything}, inertReplication),
		"follower.replication.throttled.replicas": inert(property{apply: anything}, inertReplication),

		"remote.storage.enable":        inert(property{apply: noRemoteStorage}, inertRemote),
		"remote.log.copy.disable":      inert(property{apply: boolean}, inertRemote),
		"remote.log.delete.on.disable": inert(property{apply: boolean}, inertRemote),
		"local.retention.ms":           inert(whole(-2, math.MaxInt64, nil), inertRemote),
		"local.retention.bytes":        inert(whole(-2, math.MaxInt64, nil), inertRemote),
	}
}

const (
	inertReplication = "nothing is replicated here"
	inertRemote      = "there is no remote storage: all that is kept is local, and retention.ms and retention.bytes rule it"
)

func inert(p property, why string) property {
	p.inert = why
	return p
}

// whole is a number.
func whole(low, high int64, set func(*topicSettings, int64)) property {
	return property{apply: func(s *topicSettings, value string) (string, bool) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Sprintf("%d to %d", low, high), false
		}
		if set != nil {
			set(s, n)
		}
		return "", true
	}}
}

// millis is a time in milliseconds; what a Duration cannot hold is its largest value.
func millis(low int64, set func(*topicSettings, time.Duration)) property {
	return whole(low, math.MaxInt64, func(s *topicSettings, n int64) { set(s, durationOf(n)) })
}

func durationOf(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// timestampLimit is a largest difference; 0, which is the default of Options, is the
// least there is.
func timestampLimit(set func(*topicSettings, *time.Duration)) property {
	return millis(0, func(s *topicSettings, d time.Duration) {
		setDefault(&d, 1)
		set(s, &d)
	})
}

func level(c record.Codec, standard int64, valid func(int64) bool, want string) property {
	return property{apply: func(s *topicSettings, value string) (string, bool) {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || !valid(n) {
			return want, false
		}
		if n == standard {
			n = 0
		}
		if s.levels == nil {
			s.levels = map[record.Codec]int{}
		}
		s.levels[c] = int(n)
		return "", true
	}}
}

// compressionType: "producer" keeps what a producer sent, which AppendBatch does
// whatever the setting; Append has no producer to ask.
func compressionType(s *topicSettings, value string) (string, bool) {
	codecs := map[string]record.Codec{"producer": record.None, "uncompressed": record.None,
		"gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd}
	c, ok := codecs[value]
	if ok {
		s.Compression = c
	}
	return "uncompressed, zstd, lz4, snappy, gzip or producer", ok
}

func timestampType(s *topicSettings, value string) (string, bool) {
	switch value {
	case "CreateTime":
		s.TimestampType = record.CreateTime
	case "LogAppendTime":
		s.TimestampType = record.LogAppendTime
	default:
		return "CreateTime or LogAppendTime", false
	}
	return "", true
}

func cleanupPolicy(s *topicSettings, value string) (string, bool) {
	if value == "" { // an empty list
		s.CleanupPolicy = CleanupNone
		return "", true
	}
	compact, remove := false, false
	for policy := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(policy) {
		case "compact":
			compact = true
		case "delete":
			remove = true
		default:
			return "delete, compact, or both with a comma", false
		}
	}
	switch {
	case compact && remove:
		s.CleanupPolicy = CleanupCompactDelete
	case compact:
		s.CleanupPolicy = CleanupCompact
	default:
		s.CleanupPolicy = CleanupDelete
	}
	return "", true
}

func ratio(s *topicSettings, value string) (string, bool) {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return "0 to 1", false
	}
	s.MinCleanableDirtyRatio = f
	setDefault(&s.MinCleanableDirtyRatio, -1) // 0 is the default of Options
	return "", true
}

func boolean(_ *topicSettings, value string) (string, bool) {
	return "true or false", strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
}

// noRemoteStorage refuses true: a log of which a part lies elsewhere begins before its
// first segment, and that is not kept.
func noRemoteStorage(_ *topicSettings, value string) (string, bool) {
	return "false: there is no remote storage", strings.EqualFold(value, "false")
}

func anything(*topicSettings, string) (string, bool) { return "", true }

// similar are up to three of the keys that a mistyped one may be meant for: few edits
// away, or with the same words in another order.
func similar(key string, keys func(yield func(string) bool)) []string {
	type candidate struct {
		key      string
		distance int
	}
	var near []candidate
	for k := range keys {
		d := edits(strings.ToLower(key), k)
		if words(key) == words(k) {
			d = 0
		}
		if d <= max(2, len(k)/4) {
			near = append(near, candidate{k, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.key, b.key))
	})
	var names []string
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.key)
	}
	return names
}

// words are the words of a key in one order, whatever stands between them.
func words(key string) string {
	parts := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r == '.' || r == '_' || r == '-' })
	slices.Sort(parts)
	return strings.Join(parts, ".")
}

// maxKey bounds the work for a key that is not one.
const maxKey = 100

// edits counts the characters to insert, remove or replace to make b of a
// (Levenshtein).
func edits(a, b string) int {
	if len(a) > maxKey {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
