package seglog

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog/record"
)

// topics are the settings of the topics of a Dir. Its lock is held by the one who
// changes some.
type topics struct {
	sync.Mutex
	configs sync.Map // of topicConfig by topic, once there was need for one
}

// topicConfig is what a topic is set to. All its logs look at live, so that a change
// reaches them in one step.
type topicConfig struct {
	live atomic.Pointer[Options] // resolved; never changed once it is here

	// Guarded by topics.
	base  Options           // what SetTopicOptions was given, or DirOptions
	given map[string]string // by AlterTopic, on top of base
}

// config returns the settings of a topic, for a log of it.
func (d *Dir) config(topic string) *topicConfig {
	if c, ok := d.topics.configs.Load(topic); ok {
		return c.(*topicConfig)
	}
	now := d.opts.of(topic)
	fresh := &topicConfig{base: now}
	fresh.live.Store(&now)
	c, _ := d.topics.configs.LoadOrStore(topic, fresh)
	return c.(*topicConfig)
}

// TopicOptions returns the settings of the logs of a topic, be there any or not.
func (d *Dir) TopicOptions(topic string) Options {
	if c, ok := d.topics.configs.Load(topic); ok {
		return *c.(*topicConfig).live.Load()
	}
	return d.opts.of(topic)
}

// TopicProperties returns the settings of a topic under the names and with the values
// that Kafka has for them, as "kafka-configs --describe --all" does: those that are
// applied here, and what AlterTopic was given of the others.
func (d *Dir) TopicProperties(topic string) map[string]string {
	d.topics.Lock()
	defer d.topics.Unlock()
	options := d.TopicOptions(topic)
	props := options.properties()
	if c, ok := d.topics.configs.Load(topic); ok {
		for key, value := range c.(*topicConfig).given {
			if _, there := props[key]; !there {
				props[key] = value
			}
		}
	}
	return props
}

// AlterTopic changes settings of a topic while the Dir is open, under Kafka's names, as
// "kafka-configs --alter" does: those in set to the values there, those in unset to
// what DirOptions.Log has. All of it is done or, if the error is not nil, nothing: see
// OptionsFromProperties for what is refused.
//
// The logs of the topic, open or not, go by the change from the next append and the
// next round of maintenance on, all of them at once. What was said to a segment when it
// was begun, index.interval.bytes and segment.index.bytes, counts for the next one. It
// is remembered until Close: for longer, put it into DirOptions.Topics.
func (d *Dir) AlterTopic(topic string, set map[string]string, unset ...string) error {
	d.topics.Lock()
	defer d.topics.Unlock()
	err := d.mayAlter()
	if err == nil {
		err = d.alter(topic, set, unset)
	}
	if err != nil {
		return fmt.Errorf("alter topic %s: %w", topic, err)
	}
	return nil
}

func (d *Dir) mayAlter() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch {
	case d.mu.closed:
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	}
	return nil
}

// alter does the work of AlterTopic. topics is held.
func (d *Dir) alter(topic string, set map[string]string, unset []string) error {
	known := topicProperties()
	standard := d.opts.Log.properties()
	c := d.config(topic)
	given := maps.Clone(c.given)
	if given == nil {
		given = map[string]string{}
	}
	var errs []error
	for _, key := range unset {
		if _, ok := known[key]; !ok {
			errs = append(errs, unknownTopicProperty(key))
		}
		if _, both := set[key]; both {
			errs = append(errs, &OptionError{Field: key, Value: "set and unset", Want: "one of the two"})
		}
		delete(given, key)
		if value, ok := standard[key]; ok && c.base.properties()[key] != value {
			given[key] = value // SetTopicOptions or DirOptions.Topics has another
		}
	}
	maps.Copy(given, set)
	next, err := OptionsFromProperties(c.base, given)
	errs = append(errs, err)
	if err == nil {
		next.FS = nil // which is that of the directory
		next, err = d.opts.ofLog(next)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.given = given
	d.apply(topic, c, next)
	return nil
}

// SetTopicOptions replaces the settings of a topic while the Dir is open, complete ones
// as in DirOptions.Topics; what AlterTopic was given before is forgotten. The rest is
// as with AlterTopic. What a log is given once, when it is opened, cannot be changed:
// LeaderEpoch, Replicated, ProducerIDExpiration, TransactionMaxTimeout, StartOffset,
// MaxOpenSegments and LookupBytes must be what they are, which TopicOptions tells, and
// Events and Logger stay what they are whatever o says.
func (d *Dir) SetTopicOptions(topic string, o Options) error {
	d.topics.Lock()
	defer d.topics.Unlock()
	err := d.mayAlter()
	if err == nil {
		err = d.set(topic, o)
	}
	if err != nil {
		return fmt.Errorf("set options of topic %s: %w", topic, err)
	}
	return nil
}

func (d *Dir) set(topic string, o Options) error {
	now := d.TopicOptions(topic)
	o.FS, o.Events, o.Logger = nil, now.Events, now.Logger
	next, err := d.opts.ofLog(o)
	if err := errors.Join(err,
		stays("LeaderEpoch", now.LeaderEpoch, next.LeaderEpoch),
		stays("Replicated", now.Replicated, next.Replicated),
		stays("ProducerIDExpiration", now.ProducerIDExpiration, next.ProducerIDExpiration),
		stays("TransactionMaxTimeout", now.TransactionMaxTimeout, next.TransactionMaxTimeout),
		stays("StartOffset", now.StartOffset, next.StartOffset),
		stays("MaxOpenSegments", now.MaxOpenSegments, next.MaxOpenSegments),
		stays("LookupBytes", now.LookupBytes, next.LookupBytes),
	); err != nil {
		return err
	}
	c := d.config(topic)
	c.base, c.given = next, nil
	d.apply(topic, c, next)
	return nil
}

// stays refuses to change what a log is given once.
func stays[T comparable](field string, is, want T) error {
	if is == want {
		return nil
	}
	return &OptionError{Field: field, Value: fmt.Sprint(want), Want: fmt.Sprintf("%v: it does not change while the directory is open", is)}
}

// apply makes next the settings of the topic. topics is held.
func (d *Dir) apply(topic string, c *topicConfig, next Options) {
	before := c.live.Swap(&next)
	for _, p := range d.all() {
		l := p.log.Load()
		if p.topic != topic || l == nil || l.closed.Load() {
			continue
		}
		if before.CleanupPolicy.Compacts() && !next.CleanupPolicy.Compacts() {
			l.abortCompaction(errPolicyChanged) // as LogManager.updateTopicConfig
		}
		d.maintenance.flushMayBeDue(next.FlushInterval)
	}
	d.logger().Info("settings changed", "topic", topic)
}

var errPolicyChanged = fmt.Errorf("%w: the topic is not compacted any more", ErrCompactionAborted)

// properties are the settings of a topic, as OptionsFromProperties would take them:
// what that makes of them is o. o is resolved.
func (o *Options) properties() map[string]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	props := map[string]string{
		"segment.bytes":        number(o.SegmentBytes),
		"segment.ms":           millisOf(o.SegmentAge),
		"segment.jitter.ms":    millisOf(o.SegmentJitter),
		"segment.index.bytes":  number(int64(o.SegmentIndexBytes)),
		"index.interval.bytes": number(int64(o.IndexIntervalBytes)),
		"max.message.bytes":    number(int64(o.MaxMessageBytes)),

		"retention.bytes":      number(o.RetentionBytes),
		"retention.ms":         "-1",
		"cleanup.policy":       o.CleanupPolicy.String(),
		"file.delete.delay.ms": millisOf(o.FileDeleteDelay),

		"flush.messages": numberOrNever(o.FlushMessages),
		"flush.ms":       millisOrNever(o.FlushInterval),

		"compression.type":       "producer",
		"compression.gzip.level": "-1",
		"compression.lz4.level":  "9",
		"compression.zstd.level": "3",

		"message.timestamp.type":          o.TimestampType.String(),
		"message.timestamp.before.max.ms": millisOf(o.TimestampBeforeMax),
		"message.timestamp.after.max.ms":  millisOf(o.TimestampAfterMax),

		"delete.retention.ms":       millisOf(o.DeleteRetention),
		"min.compaction.lag.ms":     millisOf(o.MinCompactionLag),
		"max.compaction.lag.ms":     millisOrNever(o.MaxCompactionLag),
		"min.cleanable.dirty.ratio": strconv.FormatFloat(max(0, o.MinCleanableDirtyRatio), 'g', -1, 64),
	}
	if o.RetentionTime >= 0 {
		props["retention.ms"] = millisOf(o.RetentionTime)
	}
	if o.CleanupPolicy == CleanupNone {
		props["cleanup.policy"] = ""
	}
	if o.Compression != record.None {
		props["compression.type"] = o.Compression.String()
		if level := "compression." + o.Compression.String() + ".level"; o.CompressionLevel != 0 && props[level] != "" {
			props[level] = number(int64(o.CompressionLevel))
		}
	}
	return props
}

// millisOf is a time in milliseconds; one below 0 is Kafka's 0 where 0 means a default.
func millisOf(d time.Duration) string {
	if d == math.MaxInt64 {
		return strconv.FormatInt(math.MaxInt64, 10)
	}
	return strconv.FormatInt(max(0, d).Milliseconds(), 10)
}

func millisOrNever(d time.Duration) string {
	if d == 0 {
		d = math.MaxInt64
	}
	return millisOf(d)
}

func numberOrNever(n int64) string {
	if n == 0 {
		n = math.MaxInt64
	}
	return strconv.FormatInt(n, 10)
}
