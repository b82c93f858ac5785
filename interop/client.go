package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const clientTimeout = 60 * time.Second

// A Record is a record as a Kafka client got it. Key, Value and the values of
// headers tell null (nil) from empty.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // milliseconds since the epoch
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// A Header is one header of a Record.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// A Client drives one broker. Every method fails the test on any error.
type Client struct {
	tb    testing.TB
	addr  string
	admin *kadm.Client
}

// NewClient returns a client of b that ends with the test. It stays good
// across restarts of b.
func (b *Broker) NewClient() *Client {
	b.tb.Helper()
	c := &Client{tb: b.tb, addr: b.Addr}
	c.admin = kadm.NewClient(c.connect())
	return c
}

func (c *Client) connect(opts ...kgo.Opt) *kgo.Client {
	c.tb.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.addr)}, opts...)...)
	require.NoError(c.tb, err)
	c.tb.Cleanup(client.Close)
	return client
}

func (c *Client) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.tb.Context(), clientTimeout)
}

// CreateTopic makes a topic of one partition. config is in Kafka's words.
func (c *Client) CreateTopic(topic string, config map[string]string) {
	c.tb.Helper()
	ctx, cancel := c.context()
	defer cancel()
	values := make(map[string]*string, len(config))
	for key, value := range config {
		values[key] = &value
	}
	_, err := c.admin.CreateTopic(ctx, 1, 1, values, topic)
	require.NoError(c.tb, err, "create topic %s", topic)
}

// DeleteRecords moves the log start offset of the topic up to offset.
func (c *Client) DeleteRecords(topic string, offset int64) {
	c.tb.Helper()
	ctx, cancel := c.context()
	defer cancel()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, offset, -1)
	res, err := c.admin.DeleteRecords(ctx, offsets)
	require.NoError(c.tb, err)
	require.NoError(c.tb, res.Error(), "delete records of %s before %d", topic, offset)
}

// Offsets returns the log start offset and the log end offset of the topic.
func (c *Client) Offsets(topic string) (start, end int64) {
	c.tb.Helper()
	return c.list(topic, c.admin.ListStartOffsets).Offset, c.list(topic, c.admin.ListEndOffsets).Offset
}

// OffsetForTime returns what the broker answers to ListOffsets for a
// timestamp: the first record at or after it, or offset -1 and timestamp -1.
func (c *Client) OffsetForTime(topic string, timestamp int64) (offset, found int64) {
	c.tb.Helper()
	got := c.list(topic, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return c.admin.ListOffsetsAfterMilli(ctx, timestamp, topics...)
	})
	// kadm answers the end offset when there is none; the protocol says -1.
	if got.Timestamp == -1 {
		return -1, -1
	}
	return got.Offset, got.Timestamp
}

// OffsetOfMaxTime returns what the broker answers to ListOffsets for the
// largest timestamp (KIP-734).
func (c *Client) OffsetOfMaxTime(topic string) (offset, found int64) {
	c.tb.Helper()
	got := c.list(topic, c.admin.ListMaxTimestampOffsets)
	return got.Offset, got.Timestamp
}

func (c *Client) list(topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) kadm.ListedOffset {
	c.tb.Helper()
	ctx, cancel := c.context()
	defer cancel()
	res, err := list(ctx, topic)
	require.NoError(c.tb, err)
	got, ok := res.Lookup(topic, 0)
	require.True(c.tb, ok, "no offsets of %s", topic)
	require.NoError(c.tb, got.Err)
	return got
}

// Consume returns the data records of the topic, from offset to the log end
// offset, those of aborted and open transactions too.
func (c *Client) Consume(topic string, from int64) []Record {
	c.tb.Helper()
	end := c.list(topic, c.admin.ListEndOffsets).Offset
	return c.consume(topic, from, end)
}

// ConsumeCommitted returns the data records of the topic that a read_committed
// consumer gets, from offset to the last stable offset.
func (c *Client) ConsumeCommitted(topic string, from int64) []Record {
	c.tb.Helper()
	end := c.list(topic, c.admin.ListCommittedOffsets).Offset
	return c.consume(topic, from, end, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

// consume reads up to the record below end, which Kafka never removes:
// compaction leaves the active segment alone. Control records are read and
// dropped.
func (c *Client) consume(topic string, from, end int64, opts ...kgo.Opt) []Record {
	c.tb.Helper()
	if from >= end {
		return nil
	}
	client := c.connect(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}),
		kgo.KeepControlRecords(),
	}, opts...)...)
	defer client.Close()
	ctx, cancel := c.context()
	defer cancel()
	var records []Record
	for next := from; next < end; {
		fetches := client.PollFetches(ctx)
		for _, err := range fetches.Errors() {
			require.NoError(c.tb, err.Err, "consume %s from %d, next %d, end %d", topic, from, next, end)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, fromClient(r))
			}
		})
	}
	return records
}

// ConsumeWithJava returns all records of the topics as Kafka's own consumer got
// them, by topic.
func (c *Client) ConsumeWithJava(topics ...string) map[string][]Record {
	c.tb.Helper()
	res := RunJava(c.tb, "", "ConsumeAll", append([]string{c.addr}, topics...)...)
	require.Zero(c.tb, res.Exit, "%s", res.Stderr)
	records := make(map[string][]Record)
	for dec := json.NewDecoder(strings.NewReader(res.Stdout)); dec.More(); {
		var row struct {
			Topic string `json:"topic"`
			Record
		}
		require.NoError(c.tb, dec.Decode(&row))
		records[row.Topic] = append(records[row.Topic], row.Record)
	}
	return records
}

func fromClient(r *kgo.Record) Record {
	out := Record{
		Offset:    r.Offset,
		Timestamp: r.Timestamp.UnixMilli(),
		Key:       r.Key,
		Value:     r.Value,
		Headers:   make([]Header, 0, len(r.Headers)),
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header(h))
	}
	return out
}

func (r Record) toClient(topic string) *kgo.Record {
	out := &kgo.Record{
		Topic:     topic,
		Timestamp: time.UnixMilli(r.Timestamp),
		Key:       r.Key,
		Value:     r.Value,
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader(h))
	}
	return out
}

// A Producer appends to one topic. Each Batch is one record batch on the wire.
type Producer struct {
	tb     testing.TB
	topic  string
	client *kgo.Client
}

// Produce returns a producer to the topic, neither idempotent nor compressing.
func (c *Client) Produce(topic string, opts ...kgo.Opt) *Producer {
	c.tb.Helper()
	return c.ProduceIdempotent(topic, append([]kgo.Opt{kgo.DisableIdempotentWrite()}, opts...)...)
}

// ProduceIdempotent returns a producer to the topic that has a producer id.
// With kgo.TransactionalID it is transactional: see Begin and End.
func (c *Client) ProduceIdempotent(topic string, opts ...kgo.Opt) *Producer {
	c.tb.Helper()
	return &Producer{tb: c.tb, topic: topic, client: c.connect(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(1 << 20),
		// Records gather until Batch flushes, so that a call is a batch.
		kgo.ManualFlushing(),
		kgo.TransactionTimeout(clientTimeout),
	}, opts...)...)}
}

// Batch appends the records as one batch and waits for the broker's word.
func (p *Producer) Batch(records ...Record) {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), clientTimeout)
	defer cancel()
	var failed error
	for _, r := range records {
		p.client.Produce(ctx, r.toClient(p.topic), func(_ *kgo.Record, err error) {
			if err != nil {
				failed = fmt.Errorf("produce to %s: %w", p.topic, err)
			}
		})
	}
	require.NoError(p.tb, p.client.Flush(ctx))
	require.NoError(p.tb, failed) // promises have all run when Flush returns
}

// Begin opens a transaction.
func (p *Producer) Begin() {
	p.tb.Helper()
	require.NoError(p.tb, p.client.BeginTransaction())
}

// End writes the marker that ends the transaction.
func (p *Producer) End(commit kgo.TransactionEndTry) {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), clientTimeout)
	defer cancel()
	require.NoError(p.tb, p.client.EndTransaction(ctx, commit))
}

// Close lets go of the producer's connections.
func (p *Producer) Close() { p.client.Close() }
