package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// A txnState is what a partition looks like to those who care for transactions.
type txnState struct {
	lastStable int64
	committed  []Record // what a read_committed consumer gets
	producers  []seglog.ProducerInfo
}

// TxnState asks the broker.
func (c *Client) TxnState(topic string) txnState {
	c.tb.Helper()
	s := txnState{
		lastStable: c.list(topic, c.admin.ListCommittedOffsets).Offset,
		committed:  c.ConsumeCommitted(topic, 0),
	}
	ctx, cancel := c.context()
	defer cancel()
	described, err := c.admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})
	require.NoError(c.tb, err)
	for _, p := range described[topic].Partitions[0].ActiveProducers {
		s.producers = append(s.producers, seglog.ProducerInfo{
			ID: p.ProducerID, Epoch: p.ProducerEpoch, LastSequence: p.LastSequence, LastOffset: -1,
			LastTimestamp: p.LastTimestamp, CoordinatorEpoch: p.CoordinatorEpoch, TransactionStart: p.CurrentTxnStartOffset,
		})
	}
	slices.SortFunc(s.producers, func(a, b seglog.ProducerInfo) int { return int(a.ID - b.ID) })
	return s
}

// txnStateOf asks a log. The broker does not tell last offsets, so they are left out.
func txnStateOf(tb testing.TB, log *seglog.Log) txnState {
	tb.Helper()
	var s txnState
	var err error
	s.lastStable, err = log.LastStableOffset()
	require.NoError(tb, err)
	for r, err := range log.Records(tb.Context(), 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
		require.NoError(tb, err)
		s.committed = append(s.committed, fromSeglog(r.Clone()))
	}
	s.producers, err = log.Producers()
	require.NoError(tb, err)
	for i := range s.producers {
		s.producers[i].LastOffset = -1
	}
	return s
}

func requireTxnState(tb testing.TB, want, got txnState, what string) {
	tb.Helper()
	require.Equal(tb, want.lastStable, got.lastStable, "%s: last stable offset", what)
	requireRecords(tb, want.committed, got.committed, what)
	require.Equal(tb, want.producers, got.producers, "%s: producers", what)
}

// requireFetched reads the log raw, as a fetch of read_committed, from every batch
// on and in small pieces, and drops what a client drops: the records of the aborted
// transactions in the answer.
func requireFetched(tb testing.TB, want txnState, log *seglog.Log) {
	tb.Helper()
	for _, piece := range []int{1, 700, 1 << 20} {
		var got []Record
		for from := int64(0); ; {
			res, err := log.Read(from, piece, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
			require.NoError(tb, err)
			if len(res.Batches) == 0 {
				require.Equal(tb, want.lastStable, res.NextOffset)
				break
			}
			got = append(got, committedIn(tb, res)...)
			from = res.NextOffset
		}
		requireRecords(tb, want.committed, got, fmt.Sprint("pieces of ", piece))
	}
}

// committedIn decodes the batches of a read as a client does.
func committedIn(tb testing.TB, res seglog.ReadResult) (records []Record) {
	tb.Helper()
	pending := slices.Clone(res.Aborted)
	slices.SortFunc(pending, func(a, b seglog.AbortedTransaction) int { return int(a.FirstOffset - b.FirstOffset) })
	aborted := map[int64]bool{}
	for rest := res.Batches; len(rest) > 0; {
		b, err := record.Parse(rest)
		require.NoError(tb, err)
		rest = rest[b.Size():]
		for len(pending) > 0 && pending[0].FirstOffset <= b.LastOffset() {
			aborted[pending[0].ProducerID] = true
			pending = pending[1:]
		}
		if b.IsControl() {
			delete(aborted, b.ProducerID())
			continue
		}
		if b.IsTransactional() && aborted[b.ProducerID()] {
			continue
		}
		for r, err := range b.Records(nil) {
			require.NoError(tb, err)
			records = append(records, fromSeglog(r.Clone()))
		}
	}
	return records
}

// A txnDriver has several producers write to one topic at random.
type txnDriver struct {
	*filler
	producers []*Producer
	open      []bool
	written   int
}

func (d *txnDriver) step() {
	i := d.random.IntN(len(d.producers))
	p := d.producers[i]
	switch n := d.random.IntN(10); {
	case !d.open[i] && n < 5:
		p.Begin()
		d.open[i] = true
		d.batch(p)
	case d.open[i] && n < 2:
		p.End(kgo.TryCommit)
		d.open[i] = false
	case d.open[i] && n < 4:
		p.End(kgo.TryAbort)
		d.open[i] = false
	case d.open[i]:
		d.batch(p)
	}
}

func (d *txnDriver) batch(p *Producer) {
	records := make([]Record, 1+d.random.IntN(4))
	for i := range records {
		records[i] = Record{
			Timestamp: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "k%d", d.written),
			Value: d.text(1 + d.random.IntN(150)), Headers: []Header{},
		}
		d.written++
	}
	p.Batch(records...)
}

// TestTransactionsAreAsTheBrokerSawThem has idempotent and transactional producers
// write to small segments at random, several transactions open at once and one of
// them open at the end. What the broker tells of them its files must tell us, after a
// clean stop and after a kill. Then we write to its log, in turn as an idempotent and
// as a transactional producer, and the broker must go on from there.
func TestTransactionsAreAsTheBrokerSawThem(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{})
	client := broker.NewClient()
	const topic = "random-txn"
	client.CreateTopic(topic, smallSegments(900))
	d := &txnDriver{filler: &filler{Client: client, broker: broker, topic: topic, scale: liveScale, random: rand.New(rand.NewPCG(4, 4))}}
	for i := range 4 {
		d.producers = append(d.producers, client.ProduceIdempotent(topic, kgo.TransactionalID(fmt.Sprint(topic, i))))
	}
	d.open = make([]bool, len(d.producers))
	idempotent := client.ProduceIdempotent(topic)
	for i := range 250 {
		d.step()
		if i%5 == 0 {
			d.batch(idempotent)
		}
	}
	for i, p := range d.producers { // but for the last one, which stays open
		if d.open[i] && i < 3 {
			p.End(kgo.TryCommit)
		}
	}
	if !d.open[3] {
		d.producers[3].Begin()
	}
	d.batch(d.producers[3])
	d.batch(idempotent)
	broker.await("write the markers", startTimeout, func(context.Context) bool { // it answers before that
		open := 0
		for _, p := range client.TxnState(topic).producers {
			if p.TransactionStart >= 0 {
				open++
			}
		}
		return open <= 1
	})
	want := client.TxnState(topic)
	all := client.Consume(topic, 0)
	require.Less(t, len(want.committed), len(all))
	t.Logf("%d records, %d of them committed below %d, %d producers", len(all), len(want.committed), want.lastStable, len(want.producers))

	dir := filepath.Join(broker.LogDir, topic+"-0")
	copied := func() string {
		to := filepath.Join(t.TempDir(), topic+"-0")
		require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
		return to
	}
	compare := func(what, dir string, opts seglog.Options) {
		log, err := seglog.Open(dir, opts)
		require.NoError(t, err, what)
		requireTxnState(t, want, txnStateOf(t, log), what)
		requireFetched(t, want, log)
		require.NoError(t, log.Close(), what)
	}
	running := copied() // as a kill would leave it
	compare("read-only beside the broker", dir, seglog.Options{ReadOnly: true})
	compare("recovered", running, seglog.Options{})
	compare("and opened again", running, seglog.Options{})
	broker.Stop()
	compare("read-only", dir, seglog.Options{ReadOnly: true})
	without := copied()
	for _, pattern := range []string{"*.snapshot", "*.txnindex"} {
		files, err := filepath.Glob(filepath.Join(without, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		if pattern == "*.snapshot" {
			for _, f := range files {
				require.NoError(t, os.WriteFile(f, []byte("damaged"), 0o644))
			}
		}
	}
	compare("without a sound snapshot", without, seglog.Options{})
	kafkas := readFiles(t, dir, "*.txnindex")
	compare("after a clean stop", dir, seglog.Options{})
	lists := readFiles(t, dir, "*.txnindex")
	for name, list := range lists { // ours says of a segment, too, that it has none
		if list == "" {
			delete(lists, name)
		}
	}
	require.Equal(t, kafkas, lists)

	// Ours, in its log.
	log, err := seglog.Open(dir, seglog.Options{SegmentBytes: 900, IndexIntervalBytes: 200})
	require.NoError(t, err)
	writeAsProducers(t, log)
	ours := txnStateOf(t, log)
	requireFetched(t, ours, log)
	at := log.Offsets()
	require.NoError(t, log.Close())
	require.Greater(t, at.End, want.lastStable)
	output, err := os.ReadFile(broker.output)
	require.NoError(t, err)

	broker.Start()
	start, end := client.Offsets(topic)
	require.Equal(t, []int64{at.Start, at.End}, []int64{start, end})
	requireTxnState(t, ours, client.TxnState(topic), "the broker on our log")
	requireNoComplaint(t, broker, len(output))

	// It ends the open transaction, whose producer is gone, and everything is stable.
	next := client.ProduceIdempotent(topic, kgo.TransactionalID(topic+"3"))
	next.Begin()
	d.batch(next)
	next.End(kgo.TryCommit)
	broker.await("write the marker", startTimeout, func(context.Context) bool {
		return client.list(topic, client.admin.ListCommittedOffsets).Offset == client.list(topic, client.admin.ListEndOffsets).Offset
	})
	want = client.TxnState(topic)
	broker.Stop()
	compare("after the broker has ended our transaction", dir, seglog.Options{})
}

// writeAsProducers appends as idempotent and as transactional producers.
func writeAsProducers(t *testing.T, log *seglog.Log) {
	records := func(n int) []seglog.Record {
		out := make([]seglog.Record, n)
		for i := range out {
			out[i] = seglog.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("ours"), Value: fmt.Appendf(nil, "%0100d", i)}
		}
		return out
	}
	for round := range int32(10) {
		p := &seglog.Producer{ID: 9_000_000, Epoch: 2, Sequence: 3 * round}
		at, err := log.Append(records(3), &seglog.AppendOptions{Producer: p})
		require.NoError(t, err)
		again, err := log.Append(records(3), &seglog.AppendOptions{Producer: p})
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		require.Equal(t, at.BaseOffset, again.BaseOffset)

		txn := &seglog.Producer{ID: 9_000_001, Epoch: 0, Sequence: 2 * round, Transactional: true}
		_, err = log.Append(records(2), &seglog.AppendOptions{Producer: txn})
		require.NoError(t, err)
		if round%2 == 1 {
			_, err = log.EndTransaction(*txn, seglog.TransactionResult(round/2%2), nil)
			require.NoError(t, err)
		}
	}
}

// requireNoComplaint looks at what the broker has printed since.
func requireNoComplaint(t *testing.T, broker *Broker, from int) {
	t.Helper()
	text, err := os.ReadFile(broker.output)
	require.NoError(t, err)
	for line := range strings.Lines(string(text[from:])) {
		for _, word := range []string{" ERROR ", "corrupt", "Corrupt", "snapshot file", "sanity", "out of order", "InvalidTxnState"} {
			require.NotContains(t, line, word)
		}
	}
}

// TestATruncatedLogForgetsTheTransactionsThatWereCutOff: what a broker has beside the
// log, snapshots, lists of aborted transactions and leader epochs, is cut with it. Else
// it would take a transaction for open that is gone, and no reader would get beyond.
func TestATruncatedLogForgetsTheTransactionsThatWereCutOff(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{})
	client := broker.NewClient()
	const topic = "cut"
	client.CreateTopic(topic, smallSegments(600))
	f := &filler{Client: client, topic: topic, random: rand.New(rand.NewPCG(5, 5))}
	plain := client.Produce(topic)
	for i := range 10 {
		plain.Batch(f.mixedRecord(i))
	}
	txn := client.ProduceIdempotent(topic, kgo.TransactionalID(topic))
	txn.Begin()
	txn.Batch(f.mixedRecord(10), f.mixedRecord(11))
	for i := range 30 {
		plain.Batch(f.mixedRecord(12 + i))
	}
	broker.Stop()

	log, err := seglog.Open(filepath.Join(broker.LogDir, topic+"-0"), seglog.Options{SegmentBytes: 600, IndexIntervalBytes: 200})
	require.NoError(t, err)
	require.NoError(t, log.TruncateTo(8))
	appendMixed(t, log, &filler{scale: liveScale, random: f.random}, 72)
	end := log.Offsets().End
	require.NoError(t, log.Close())
	want := captureLog(t, mustReadOnly(t, log.Dir()), topic)

	broker.Start()
	require.Equal(t, end, client.list(topic, client.admin.ListCommittedOffsets).Offset, "nothing holds up readers of committed records")
	requireRecords(t, want.Records, client.ConsumeCommitted(topic, 0), topic)
	require.Empty(t, client.TxnState(topic).producers)
}

func mustReadOnly(t *testing.T, dir string) *seglog.Log {
	t.Helper()
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}
