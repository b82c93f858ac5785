package seglog_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func TestSettingsOfATopicChangeAtRunTime(t *testing.T) {
	opts := manual
	opts.Topics = map[string]seglog.Options{"special": {RetentionTime: -1, SegmentBytes: 5000, Sync: seglog.SyncNever}}
	d := openDir(t, t.TempDir(), opts)
	l, other := create(t, d, "orders", 0), create(t, d, "other", 0)
	big := one(1, strings.Repeat("v", 2000))
	appendEach(t, l, big)

	require.NoError(t, d.AlterTopic("orders", map[string]string{"max.message.bytes": "1000", "segment.bytes": "3000"}))
	_, err := l.Append([]seglog.Record{big}, nil)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge)
	appendEach(t, other, big)
	require.Equal(t, 1000, d.TopicOptions("orders").MaxMessageBytes)
	require.Equal(t, "1000", d.TopicProperties("orders")["max.message.bytes"])
	require.Equal(t, "1048588", d.TopicProperties("other")["max.message.bytes"])
	appendEach(t, l, many(30, 1)...)
	require.Greater(t, stats(t, l).Segments, 1)
	appendEach(t, create(t, d, "orders", 1), many(1, 1)...)
	_, err = partition(t, d, "orders", 1).Append([]seglog.Record{big}, nil)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge, "one that is opened later has them, too")

	require.NoError(t, d.AlterTopic("orders", nil, "max.message.bytes"))
	appendEach(t, l, big)
	require.EqualValues(t, 3000, d.TopicOptions("orders").SegmentBytes, "what was not named stays")

	// What DirOptions.Topics says of a topic goes as well.
	require.NoError(t, d.AlterTopic("special", map[string]string{"min.insync.replicas": "2"}, "segment.bytes"))
	require.EqualValues(t, 1<<30, d.TopicOptions("special").SegmentBytes)
	require.Equal(t, "2", d.TopicProperties("special")["min.insync.replicas"])
}

// A level counts for its codec, also if that is set later.
func TestALevelWaitsForItsCodec(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	require.NoError(t, d.AlterTopic("orders", map[string]string{"compression.gzip.level": "9"}))
	require.NoError(t, d.AlterTopic("orders", map[string]string{"compression.type": "gzip"}))
	require.Equal(t, 9, d.TopicOptions("orders").CompressionLevel)
	require.NoError(t, d.AlterTopic("orders", map[string]string{"compression.type": "zstd"}))
	require.Equal(t, 0, d.TopicOptions("orders").CompressionLevel)
}

func TestAChangeOfSettingsThatCannotWorkChangesNothing(t *testing.T) {
	opts := manual
	opts.Log.MaxCompactionLag = time.Hour
	d := openDir(t, t.TempDir(), opts)
	create(t, d, "orders", 0)
	before := d.TopicProperties("orders")
	for name, set := range map[string]map[string]string{
		"unknown":            {"segment.bytes": "3000", "segment.byte": "1"},
		"out of range":       {"segment.bytes": "3000", "segment.ms": "0"},
		"remote":             {"segment.bytes": "3000", "remote.storage.enable": "true"},
		"above another":      {"segment.bytes": "3000", "min.compaction.lag.ms": "3600001"},
		"set and taken back": {"segment.bytes": "3000", "retention.ms": "5"},
	} {
		err := d.AlterTopic("orders", set, "retention.ms")
		require.ErrorIs(t, err, seglog.ErrOption, name)
		require.Equal(t, before, d.TopicProperties("orders"), name)
	}
	var unknown *seglog.UnknownPropertyError
	require.ErrorAs(t, d.AlterTopic("orders", nil, "retention.mss"), &unknown)
	require.Equal(t, []string{"retention.ms"}, unknown.Near)

	for field, change := range map[string]func(*seglog.Options){
		"Replicated":            func(o *seglog.Options) { o.Replicated = true },
		"LeaderEpoch":           func(o *seglog.Options) { o.LeaderEpoch = 3 },
		"ProducerIDExpiration":  func(o *seglog.Options) { o.ProducerIDExpiration = time.Second },
		"TransactionMaxTimeout": func(o *seglog.Options) { o.TransactionMaxTimeout = time.Second },
		"StartOffset":           func(o *seglog.Options) { o.StartOffset = 4 },
		"MaxOpenSegments":       func(o *seglog.Options) { o.MaxOpenSegments = 4 },
		"LookupBytes":           func(o *seglog.Options) { o.LookupBytes = 4 },
		"ReadOnly":              func(o *seglog.Options) { o.ReadOnly = true },
		"SegmentBytes":          func(o *seglog.Options) { o.SegmentBytes = 1 },
	} {
		o := d.TopicOptions("orders")
		change(&o)
		err := d.SetTopicOptions("orders", o)
		var option *seglog.OptionError
		require.ErrorAs(t, err, &option, field)
		require.Equal(t, field, option.Field)
	}
	require.Equal(t, before, d.TopicProperties("orders"))
	o := d.TopicOptions("orders")
	o.MaxMessageBytes = 100
	require.NoError(t, d.SetTopicOptions("orders", o))
	require.Equal(t, "100", d.TopicProperties("orders")["max.message.bytes"])
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.AlterTopic("orders", nil), seglog.ErrClosed)
	require.ErrorIs(t, d.SetTopicOptions("orders", o), seglog.ErrClosed)
}

// What is read as properties makes the same options again.
func TestPropertiesOfATopicAreItsOptions(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	base := d.TopicOptions("any")
	ms := func(low int64) *rapid.Generator[time.Duration] {
		return rapid.OneOf(rapid.Just(time.Duration(math.MaxInt64)), rapid.Map(rapid.Int64Range(low, 1e12), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }))
	}
	rapid.Check(t, func(rt *rapid.T) {
		o := base
		draw := func(g *rapid.Generator[time.Duration], name string) time.Duration { return g.Draw(rt, name) }
		o.SegmentBytes = rapid.Int64Range(14, math.MaxInt32).Draw(rt, "segment")
		o.SegmentAge = draw(ms(1), "age")
		o.SegmentJitter = min(o.SegmentAge, draw(ms(0), "jitter"))
		o.SegmentIndexBytes = rapid.IntRange(24, math.MaxInt32).Draw(rt, "index")
		o.IndexIntervalBytes = rapid.IntRange(1, math.MaxInt32).Draw(rt, "interval")
		o.MaxMessageBytes = rapid.IntRange(61, math.MaxInt32).Draw(rt, "message")
		o.Compression = rapid.SampledFrom([]record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}).Draw(rt, "codec")
		o.CompressionLevel = 0
		if o.Compression == record.Gzip {
			o.CompressionLevel = rapid.IntRange(0, 9).Draw(rt, "level")
		}
		o.TimestampType = rapid.SampledFrom([]record.TimestampType{record.CreateTime, record.LogAppendTime}).Draw(rt, "type")
		o.TimestampBeforeMax, o.TimestampAfterMax = draw(ms(1), "before"), draw(ms(1), "after")
		o.CleanupPolicy = rapid.SampledFrom([]seglog.CleanupPolicy{seglog.CleanupDelete, seglog.CleanupCompact, seglog.CleanupCompactDelete, seglog.CleanupNone}).Draw(rt, "policy")
		o.RetentionBytes = rapid.SampledFrom([]int64{-1, 1, math.MaxInt64}).Draw(rt, "bytes")
		o.RetentionTime = rapid.OneOf(rapid.Just(-time.Millisecond), ms(1)).Draw(rt, "retention")
		o.FileDeleteDelay = draw(ms(1), "delay")
		o.MinCleanableDirtyRatio = rapid.SampledFrom([]float64{-1, 0.25, 1.0 / 3, 1}).Draw(rt, "ratio")
		o.MinCompactionLag = min(draw(ms(0), "min lag"), 1e15)
		o.MaxCompactionLag = o.MinCompactionLag + draw(rapid.Map(rapid.Int64Range(1, 1e6), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }), "max lag")
		o.DeleteRetention = draw(ms(1), "tombstones")
		o.FlushMessages = rapid.Int64Range(0, 1e6).Draw(rt, "messages")
		o.FlushInterval = rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(5*time.Millisecond)).Draw(rt, "flush")
		topic := fmt.Sprint("t", rapid.Int().Draw(rt, "topic"))
		require.NoError(t, d.SetTopicOptions(topic, o))
		require.Equal(t, o, d.TopicOptions(topic))
		again, err := seglog.OptionsFromProperties(base, d.TopicProperties(topic))
		require.NoError(t, err)
		require.Equal(t, o, again)
	})
	for _, key := range []string{"segment.bytes", "min.compaction.lag.ms"} {
		require.Contains(t, d.TopicProperties("any"), key)
	}
}

// flush.ms and retention.ms count from the change on.
func TestChangedSettingsRuleMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := seglog.DirOptions{Log: seglog.Options{Sync: seglog.SyncNever, RetentionTime: -1}}
		d := openDir(t, t.TempDir(), opts)
		l := create(t, d, "orders", 0)
		appendEach(t, l, aged(3, time.Hour)...)
		pass(10 * time.Minute)
		require.Zero(t, l.Offsets().Durable)
		require.NoError(t, d.AlterTopic("orders", map[string]string{"flush.ms": "1000"}))
		pass(time.Second)
		require.Equal(t, int64(3), l.Offsets().Durable)
		require.NoError(t, d.AlterTopic("orders", map[string]string{"retention.ms": "60000"}))
		pass(6 * time.Minute)
		require.Equal(t, int64(3), l.Offsets().Start)
		require.NoError(t, d.Close())
	})
}

// Appends go on while settings change, each by the old ones or the new ones, and a time
// that a producer has given is never taken for the log's.
func TestSettingsChangeBesideAppends(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	var logs []*seglog.Log
	for i := range 3 {
		logs = append(logs, create(t, d, "orders", int32(i)))
	}
	future := time.Now().Add(30 * time.Minute).UnixMilli()
	done := make(chan struct{})
	var writers sync.WaitGroup
	for _, l := range logs {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				_, err := l.Append([]seglog.Record{{Value: []byte(strings.Repeat("v", i%300)), Timestamp: future}}, nil)
				if err != nil && !errors.Is(err, seglog.ErrMessageTooLarge) {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 50 {
		set := map[string]string{"message.timestamp.type": "LogAppendTime", "segment.bytes": "2000", "compression.type": "gzip"}
		if i%2 == 0 {
			set = map[string]string{"message.timestamp.type": "CreateTime", "segment.bytes": "100000", "compression.type": "none", "max.message.bytes": "200"}
			set["compression.type"] = "uncompressed"
		}
		require.NoError(t, d.AlterTopic("orders", set))
		_ = d.TopicProperties("orders")
	}
	require.NoError(t, d.AlterTopic("orders", map[string]string{"message.timestamp.type": "LogAppendTime"}))
	close(done)
	writers.Wait()
	for _, l := range logs {
		at, err := l.Append([]seglog.Record{{Value: []byte("last"), Timestamp: future}}, nil)
		require.NoError(t, err)
		require.Less(t, at.Timestamp, future, "the time of the append, not one of the future")
		require.NoError(t, l.Close())
		requireSound(t, l.Dir())
	}
}

// DirEvents.LateTransaction: nobody appends, and it is told all the same, once.
func TestADirFindsTransactionsThatNobodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		opts := seglog.DirOptions{Log: seglog.Options{Sync: seglog.SyncNever, RetentionTime: -1}}
		opts.Events.LateTransaction = func(topic string, n int32, tx seglog.Transaction) {
			told = append(told, fmt.Sprintf("%s-%d producer %d at %d", topic, n, tx.ProducerID, tx.FirstOffset))
		}
		d := openDir(t, t.TempDir(), opts)
		l := create(t, d, "orders", 0)
		create(t, d, "quiet", 0)
		appendEach(t, l, one(time.Now().UnixMilli(), "plain"))
		_, err := l.Append([]seglog.Record{{Value: []byte("v")}}, &seglog.AppendOptions{Producer: &seglog.Producer{ID: 7, Transactional: true}})
		require.NoError(t, err)
		pass(19 * time.Minute)
		require.Empty(t, told)
		require.Zero(t, d.Stats().LateTransactions)
		pass(2 * time.Minute)
		require.Equal(t, []string{"orders-0 producer 7 at 1"}, told)
		require.Equal(t, 1, d.Stats().LateTransactions)
		pass(time.Hour)
		require.Len(t, told, 1)
		_, err = l.AbortTransaction(7, nil)
		require.NoError(t, err)
		require.Zero(t, d.Stats().LateTransactions)
		require.NoError(t, d.Close())
	})
}

// cleanup.policy decides at each round whether a log is compacted, also for one that is
// not open and was looked at before.
func TestChangedSettingsRuleCompaction(t *testing.T) {
	d := openDir(t, t.TempDir(), manual)
	l := create(t, d, "orders", 0)
	fill := func() {
		for range 5 {
			appendEach(t, l, keyed(many(10, time.Now().UnixMilli()))...)
			roll(t, l)
		}
		require.NoError(t, l.Sync())
	}
	fill()
	require.NoError(t, d.Clean(t.Context()))
	require.Len(t, readAll(t, l, 0), 50)
	require.NoError(t, d.AlterTopic("orders", map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}))
	_, err := l.Append(recent(1), nil)
	require.ErrorIs(t, err, seglog.ErrInvalidBatch, "it wants keys from now on")
	require.NoError(t, d.Clean(t.Context()))
	require.Len(t, readAll(t, l, 0), 50, "they are too young")
	closeLog(t, l)
	require.NoError(t, d.Clean(t.Context()))
	require.NoError(t, d.AlterTopic("orders", nil, "min.compaction.lag.ms"))
	require.NoError(t, d.Clean(t.Context()))
	l = partition(t, d, "orders", 0)
	require.Len(t, readAll(t, l, 0), 1)
	require.NoError(t, d.AlterTopic("orders", nil, "cleanup.policy"))
	fill()
	require.NoError(t, d.Clean(t.Context()))
	require.Len(t, readAll(t, l, 0), 51)
}
