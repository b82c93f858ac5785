package interop

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seglog/seglog/record"
)

// A crashSpec is a topic that is being written while its broker is killed, and
// what happens to its active segment before the broker starts again.
type crashSpec struct {
	topicSpec
	damage func(log []byte) []byte // nil leaves the file as it is
}

// crashset returns the topics of the killed broker. Their index files are
// small, so that the zeros Kafka preallocates fit into a golden.
func crashset() []crashSpec {
	appending := func(name string, damage func([]byte) []byte) crashSpec {
		return crashSpec{
			topicSpec: topicSpec{name: name, config: with(smallSegments(1500), "segment.index.bytes", "512"), fill: (*filler).beforeCrash, lookups: true},
			damage:    damage,
		}
	}
	return []crashSpec{
		appending("killed", nil),
		appending("torn", func(log []byte) []byte { return log[:len(log)-9] }),
		appending("torn-header", func(log []byte) []byte { return append(log, log[:40]...) }),
		appending("zeros", func(log []byte) []byte { return append(log, make([]byte, 300)...) }),
		appending("garbage", func(log []byte) []byte {
			for i := range 200 {
				log = append(log, byte(i*7+1))
			}
			return log
		}),
		appending("flipped", flipInLastButOne),
		{topicSpec: topicSpec{
			name:   "open-txn",
			config: with(smallSegments(1500), "segment.index.bytes", "512"),
			fill:   (*filler).openTransaction,
		}},
	}
}

// flipInLastButOne changes a bit among the records of the last batch but one.
// The base offset would not do: no checksum covers it, and Kafka's recovery
// takes whatever it reads there.
func flipInLastButOne(log []byte) []byte {
	var starts []int
	for at := 0; at < len(log); {
		frame, err := record.ParseFrame(log[at:])
		if err != nil {
			panic(err) // a broker wrote this
		}
		starts = append(starts, at)
		at += frame.Size
	}
	log[starts[len(starts)-2]+record.HeaderSize+5] ^= 0x10
	return log
}

// beforeCrash appends batches to a segment and some to the next.
func (f *filler) beforeCrash() {
	p := f.ProduceIdempotent(f.topic)
	defer p.Close()
	at := 0
	batch := func() {
		records := make([]Record, 1+at%3)
		for i := range records {
			records[i] = Record{
				Timestamp: firstTime + int64(at)*1000,
				Key:       fmt.Appendf(nil, "key-%d", at),
				Value:     f.text(20 + f.random.IntN(100)),
			}
			at++
		}
		p.Batch(records...)
	}
	batch() // the folder is there once this has succeeded
	for len(f.segmentBases()) < 2 {
		batch()
	}
	for range 4 {
		batch()
	}
}

// openTransaction leaves a transaction without its marker.
func (f *filler) openTransaction() {
	p := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic))
	// Closing the client would abort nothing, but it must outlive the kill.
	for i, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		p.Begin()
		p.Batch(f.mixedRecord(3*i+2), f.mixedRecord(3*i+3))
		p.End(end)
	}
	p.Begin()
	p.Batch(f.mixedRecord(8), f.mixedRecord(9))
}

// activeLog returns the path of the active segment's .log.
func (f *filler) activeLog() string {
	return filepath.Join(f.broker.LogDir, f.topic+"-0", fmt.Sprintf("%020d.log", f.activeBase()))
}

// apply changes the active segment of the stopped broker.
func (s crashSpec) apply(f *filler) {
	if s.damage == nil {
		return
	}
	log, err := os.ReadFile(f.activeLog())
	require.NoError(f.tb, err)
	require.NoError(f.tb, os.WriteFile(f.activeLog(), s.damage(log), 0o644))
}
