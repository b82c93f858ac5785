package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compactedRounds writes the same keys again and again, some of them removed
// for good, and lets the cleaner run between the rounds.
func (f *filler) compactedRounds() {
	p := f.Produce(f.topic)
	defer p.Close()
	at := 0
	for round := range 3 {
		for range 4 + f.scale.Segments/4 {
			batch := make([]Record, 0, 4)
			for range 1 + f.random.IntN(4) {
				key := f.random.IntN(12)
				r := Record{
					Timestamp: firstTime + int64(at)*1000,
					Key:       fmt.Appendf(nil, "key-%d", key),
					Value:     f.text(20 + f.random.IntN(80)),
					Headers:   []Header{{"round", strconv.AppendInt(nil, int64(round), 10)}},
				}
				if key%4 == 3 {
					r.Value = nil // a tombstone
				}
				batch = append(batch, r)
				at++
			}
			p.Batch(batch...)
		}
		f.rollAndClean(p, &at)
	}
}

// compactedTransactions does the same with transactions, so that the cleaner
// drops aborted records, keeps markers, and leaves batches without records.
func (f *filler) compactedTransactions() {
	a := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-a"))
	b := f.ProduceIdempotent(f.topic, kgo.TransactionalID(f.topic+"-b"))
	plain := f.Produce(f.topic)
	defer a.Close()
	defer b.Close()
	defer plain.Close()
	once := f.ProduceIdempotent(f.topic)
	defer once.Close()
	at := 0
	say := func(p *Producer, keys ...string) {
		batch := make([]Record, len(keys))
		for i, key := range keys {
			batch[i] = Record{Timestamp: firstTime + int64(at)*1000, Key: []byte(key), Value: f.text(30 + f.random.IntN(60))}
			at++
		}
		p.Batch(batch...)
	}
	// Overwritten below; the batch stays, empty, for the sequence it carries.
	say(once, "x", "y")
	for range 3 {
		for i, key := range []string{"x", "y", "z"} {
			a.Begin()
			say(a, key, "only-a")
			say(a, "only-a")
			a.End([]kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit}[i])
			b.Begin()
			say(b, "only-b", key)
			b.End([]kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort}[i])
		}
		f.rollAndClean(plain, &at)
	}
}

// rollAndClean appends keys of its own until the active segment is a new one
// and waits until the cleaner has seen everything before it.
func (f *filler) rollAndClean(p *Producer, at *int) {
	before := f.activeBase()
	for f.activeBase() == before {
		p.Batch(Record{
			Timestamp: firstTime + int64(*at)*1000,
			Key:       fmt.Appendf(nil, "roll-%d", *at%3),
			Value:     f.text(150),
		})
		*at++
	}
	f.awaitCleaned()
}

// awaitCleaned waits until all but the active segment has been cleaned.
func (f *filler) awaitCleaned() {
	active := f.activeBase()
	f.broker.await(fmt.Sprintf("clean %s up to %d", f.topic, active), clientTimeout, func(context.Context) bool {
		return f.cleanedTo() >= active
	})
}

func (f *filler) activeBase() int64 {
	bases := f.segmentBases()
	return bases[len(bases)-1]
}

// segmentBases returns the base offsets of the .log files there are, sorted.
func (f *filler) segmentBases() []int64 {
	files, err := filepath.Glob(filepath.Join(f.broker.LogDir, f.topic+"-0", "*.log"))
	require.NoError(f.tb, err)
	require.NotEmpty(f.tb, files)
	bases := make([]int64, len(files))
	for i, file := range files {
		bases[i], err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".log"), 10, 64)
		require.NoError(f.tb, err)
	}
	slices.Sort(bases)
	return bases
}

// cleanedTo returns the cleaner's checkpoint of the topic, -1 if it has none.
func (f *filler) cleanedTo() int64 {
	text, err := os.ReadFile(filepath.Join(f.broker.LogDir, "cleaner-offset-checkpoint"))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == f.topic && fields[1] == "0" {
			offset, err := strconv.ParseInt(fields[2], 10, 64)
			require.NoError(f.tb, err)
			return offset
		}
	}
	return -1
}
