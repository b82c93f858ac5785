package interop

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Scale says how much each topic of the data set holds.
type Scale struct {
	Records  int // per codec topic
	Segments int // of the topic that rolls a lot, about
}

var (
	goldenScale = Scale{Records: 60, Segments: 10}
	liveScale   = Scale{Records: 600, Segments: 60}
)

// A topicSpec is one topic of the data set: how it is set up and what happens
// to it while the broker runs.
type topicSpec struct {
	name   string
	config map[string]string
	fill   func(*filler)
	// lookups makes the expectations name answers of ListOffsets, too.
	lookups bool
	// internal topics are made by the broker itself.
	internal bool
	// bulky topics keep their expectations compressed and have no deep dump.
	bulky bool
}

// A filler fills one topic.
type filler struct {
	*Client
	broker *Broker
	topic  string
	scale  Scale
	random *rand.Rand
}

// firstTime is the timestamp the data sets start at, in 2023. It is in the
// past because brokers refuse timestamps of the future.
const firstTime = 1_700_000_000_000

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// dataset returns the topics. Topics named client-* keep the bytes of the Go
// client; in all others whatever is compressed was compressed by Kafka.
func dataset() []topicSpec {
	var topics []topicSpec
	for _, codec := range codecs {
		topics = append(topics, topicSpec{
			name:    codec,
			config:  map[string]string{"compression.type": brokerCodec(codec), "index.interval.bytes": "1000"},
			fill:    func(f *filler) { f.mixedBatches(f.Produce(f.topic), f.scale.Records) },
			lookups: true,
		})
	}
	for codec, client := range clientCodecs() {
		topics = append(topics, topicSpec{
			name:   "client-" + codec,
			config: map[string]string{"compression.type": "producer"},
			fill: func(f *filler) {
				f.mixedBatches(f.Produce(f.topic, kgo.ProducerBatchCompression(client)), f.scale.Records/3)
			},
		}, topicSpec{
			name:   "blocks-" + codec,
			config: map[string]string{"compression.type": codec},
			fill:   (*filler).manyBlocks,
			bulky:  true,
		})
	}
	slices.SortFunc(topics[len(codecs):], func(a, b topicSpec) int { return strings.Compare(a.name, b.name) })
	return append(topics,
		topicSpec{name: "bytes", fill: (*filler).awkwardBytes},
		topicSpec{name: "idempotent", config: smallSegments(900), fill: (*filler).idempotent},
		topicSpec{name: "txn", config: smallSegments(1000), fill: (*filler).transactions},
		topicSpec{
			name:    "timestamps",
			config:  with(smallSegments(2048), "index.interval.bytes", "128"),
			fill:    (*filler).timesOutOfOrder,
			lookups: true,
		},
		topicSpec{
			name:    "logappend",
			config:  map[string]string{"message.timestamp.type": "LogAppendTime"},
			fill:    func(f *filler) { f.mixedBatches(f.Produce(f.topic), f.scale.Records/4) },
			lookups: true,
		},
		topicSpec{
			name:    "logappend-zstd",
			config:  map[string]string{"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
			fill:    func(f *filler) { f.mixedBatches(f.Produce(f.topic), f.scale.Records/4) },
			lookups: true,
		},
		topicSpec{
			name:    "segments",
			config:  with(smallSegments(700), "index.interval.bytes", "100"),
			fill:    (*filler).manySegments,
			lookups: true,
		},
		topicSpec{name: "deleted", config: smallSegments(700), fill: (*filler).deletedPrefix, lookups: true},
		topicSpec{name: "compacted", config: compacting(24 * time.Hour), fill: (*filler).compactedRounds, lookups: true},
		topicSpec{name: "compacted-zstd", config: with(compacting(24*time.Hour), "compression.type", "zstd"), fill: (*filler).compactedRounds},
		topicSpec{name: "compacted-purged", config: compacting(0), fill: (*filler).compactedRounds},
		topicSpec{name: "compacted-txn", config: compacting(24 * time.Hour), fill: (*filler).compactedTransactions},
		topicSpec{name: "__consumer_offsets", internal: true, fill: (*filler).groupActivity},
		// Written by the transactions above.
		topicSpec{name: "__transaction_state", internal: true, fill: func(*filler) {}},
	)
}

// brokerCodec is the topic setting that makes the broker store with codec.
func brokerCodec(codec string) string {
	if codec == "none" {
		return "uncompressed"
	}
	return codec
}

func clientCodecs() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
}

// smallSegments rolls after about that many bytes. Kafka refuses a
// segment.bytes below 1 MiB; its own tests use the internal name.
func smallSegments(bytes int) map[string]string {
	return map[string]string{
		"internal.segment.bytes": strconv.Itoa(bytes),
		"index.interval.bytes":   "200",
	}
}

// compacting makes the cleaner take every sealed segment at once and keep
// tombstones and transaction markers for deleteRetention.
func compacting(deleteRetention time.Duration) map[string]string {
	return with(smallSegments(1500),
		"cleanup.policy", "compact",
		"min.cleanable.dirty.ratio", "0.001",
		"delete.retention.ms", strconv.FormatInt(deleteRetention.Milliseconds(), 10),
	)
}

func with(config map[string]string, pairs ...string) map[string]string {
	config = maps.Clone(config)
	for i := 0; i < len(pairs); i += 2 {
		config[pairs[i]] = pairs[i+1]
	}
	return config
}

// mixedBatches appends n records in batches of 1 to 9.
func (f *filler) mixedBatches(p *Producer, n int) {
	defer p.Close()
	for i := 0; i < n; {
		batch := make([]Record, 0, 9)
		for range min(1+f.random.IntN(9), n-i) {
			batch = append(batch, f.mixedRecord(i))
			i++
		}
		p.Batch(batch...)
	}
}

// mixedRecord returns record i of a row that has every combination of null,
// empty and present keys and values, and every kind of header.
func (f *filler) mixedRecord(i int) Record {
	r := Record{
		// Mostly rising, now and then 5 seconds back.
		Timestamp: firstTime + int64(i)*1000 - int64(i%7/6)*5000,
		Key:       [][]byte{nil, {}, fmt.Appendf(nil, "key-%d", i), fmt.Appendf(nil, "k%d", i%10)}[i%4],
	}
	switch i % 5 {
	case 0:
		r.Value = nil
	case 1:
		r.Value = []byte{}
	default:
		r.Value = f.text(1 + f.random.IntN(120))
	}
	switch i % 6 {
	case 0:
		r.Headers = []Header{{"trace", fmt.Appendf(nil, "%04x", i)}}
	case 1: // the same name twice
		r.Headers = []Header{{"h", []byte("1")}, {"h", []byte("2")}, {"other", []byte("3")}}
	case 2: // null and empty values, an empty name
		r.Headers = []Header{{"null", nil}, {"empty", []byte{}}, {"", []byte("no name")}, {"", nil}}
	}
	return r
}

var words = strings.Fields("log offset position segment batch record index epoch leader marker codec frame " +
	"tombstone horizon snapshot checkpoint partition broker")

// text returns n bytes of words.
func (f *filler) text(n int) []byte {
	out := make([]byte, 0, n+16)
	for len(out) < n {
		out = append(out, words[f.random.IntN(len(words))]...)
		out = append(out, ' ')
	}
	return out[:n]
}

// manyBlocks appends batches larger than the blocks of the codecs' framings
// (snappy 32 KiB, lz4 64 KiB), the last one with data that does not shrink.
func (f *filler) manyBlocks() {
	p := f.Produce(f.topic)
	defer p.Close()
	line := f.text(200)
	p.Batch(
		Record{Timestamp: firstTime, Key: []byte("repeated"), Value: bytes.Repeat(line, 500)},
		Record{Timestamp: firstTime + 1, Key: []byte("words"), Value: f.text(40_000)},
	)
	if f.topic != "blocks-lz4" && f.scale == goldenScale {
		return // lz4 alone marks a block that did not shrink; small goldens suffice for the rest
	}
	noise := make([]byte, 70_000)
	for i := range noise {
		noise[i] = byte(f.random.Uint32())
	}
	p.Batch(Record{Timestamp: firstTime + 2, Key: []byte("noise"), Value: noise}, Record{Timestamp: firstTime + 3, Value: line})
}

// awkwardBytes appends what a text tool may stumble over.
func (f *filler) awkwardBytes() {
	p := f.Produce(f.topic)
	defer p.Close()
	for i, value := range []string{
		"plain", "naïve ☃ 😀", "tab\there", "two\nlines", "cr\rlf\r\n", "nul\x00inside", "\x1b[31mred\x1b[0m",
		"\xff\xfe", "cut \xe2\x98", "cut \xf0\x9f\x98 and on", "surrogate \xed\xa0\x80", "overlong \xc0\xaf", "beyond \xf4\x90\x80\x80",
		"lone \x80\x80 continuation", "\xe2\x28\xa1", "\xf0\x28\x8c\xbc", "\ufeffbom", "{\"json\":true}", "| offset: 0", " spaces ",
	} {
		p.Batch(Record{
			Timestamp: firstTime + int64(i),
			Key:       []byte(value),
			Value:     []byte(value),
			Headers:   []Header{{"ключ", []byte(value)}, {"a,b]", nil}},
		})
	}
}

// idempotent interleaves two producers with ids, so that segments begin with
// producer snapshots of one and of two producers.
func (f *filler) idempotent() {
	a, b := f.ProduceIdempotent(f.topic), f.ProduceIdempotent(f.topic)
	defer a.Close()
	defer b.Close()
	at := 0
	next := func(p *Producer, n int) {
		batch := make([]Record, n)
		for i := range batch {
			batch[i] = f.mixedRecord(at)
			at++
		}
		p.Batch(batch...)
	}
	for round := range 3 * f.scale.Segments / 4 {
		next(a, 1+round%4)
		if round >= 2 {
			next(b, 2)
		}
		next(a, 1)
	}
}

// transactions interleaves two transactional producers and a plain one. Some
// transactions commit, some abort, some span segments.
func (f *filler) transactions() {
	a := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-a"))
	b := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-b"))
	plain := f.Produce(f.topic)
	defer a.Close()
	defer b.Close()
	defer plain.Close()
	at := 0
	say := func(who string, p *Producer, n int) {
		batch := make([]Record, n)
		for i := range batch {
			batch[i] = Record{
				Timestamp: firstTime + int64(at)*1000,
				Key:       fmt.Appendf(nil, "%s%d", who, at),
				Value:     f.text(20 + f.random.IntN(60)),
				Headers:   []Header{{"from", []byte(who)}},
			}
			at++
		}
		p.Batch(batch...)
	}
	for round := range max(2, f.scale.Segments/5) {
		a.Begin() // committed, alone
		say("a", a, 3)
		a.End(kgo.TryCommit)

		b.Begin() // aborted, alone
		say("b", b, 2)
		b.End(kgo.TryAbort)

		a.Begin() // a aborts inside b, which commits; a plain record between
		b.Begin()
		say("b", b, 1)
		say("a", a, 2)
		say("plain", plain, 1)
		say("b", b, 2)
		a.End(kgo.TryAbort)
		say("b", b, 1)
		b.End(kgo.TryCommit)

		a.Begin() // aborted, over several segments
		for range 2 + round {
			say("a", a, 8)
		}
		a.End(kgo.TryAbort)
	}
	a.Begin()
	say("a", a, 1)
	a.End(kgo.TryCommit)
}

// timesOutOfOrder appends timestamps that fall, repeat and jump, with the
// largest of a batch at its front, middle and end.
func (f *filler) timesOutOfOrder() {
	p := f.Produce(f.topic)
	defer p.Close()
	rows := [][]int64{
		{0}, {10, 20, 30}, {30, 20, 10}, {10, 40, 20}, {40, 40}, {5}, {39, 40, 41}, {100}, {60, 70},
		{99, 101, 50}, {101}, {102, 102, 102}, {90}, {500, 1, 300}, {499}, {501},
	}
	for round := range 1 + f.scale.Segments/8 {
		for _, row := range rows {
			batch := make([]Record, len(row))
			for i, at := range row {
				batch[i] = Record{
					Timestamp: firstTime + at + int64(round)*400,
					Key:       fmt.Appendf(nil, "t%d", at),
					Value:     f.text(30 + f.random.IntN(90)),
				}
			}
			p.Batch(batch...)
		}
	}
}

// manySegments appends until the topic has rolled scale.Segments times or so.
func (f *filler) manySegments() {
	p := f.Produce(f.topic)
	defer p.Close()
	for i := 0; i < 7*f.scale.Segments; {
		batch := make([]Record, 1+f.random.IntN(4))
		for j := range batch {
			batch[j] = Record{
				Timestamp: firstTime + int64(i)*100,
				Key:       fmt.Appendf(nil, "key-%d", i),
				Value:     f.text(f.random.IntN(100)),
			}
			i++
		}
		p.Batch(batch...)
	}
}

// deletedPrefix moves the log start offset into the middle of a segment, and
// of a batch.
func (f *filler) deletedPrefix() {
	p := f.Produce(f.topic)
	defer p.Close()
	at := 0
	for range 3 * f.scale.Segments {
		batch := make([]Record, 4)
		for i := range batch {
			batch[i] = Record{Timestamp: firstTime + int64(at), Key: fmt.Appendf(nil, "%d", at), Value: f.text(40)}
			at++
		}
		p.Batch(batch...)
	}
	start := int64(at/2) | 1 // odd: inside a batch
	f.DeleteRecords(f.topic, start)
	f.broker.await("delete segments before the log start offset", clientTimeout, func(context.Context) bool {
		bases := f.segmentBases()
		return len(bases) < 2 || bases[1] > start
	})
}
