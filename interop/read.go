package interop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// compareLog opens a partition directory read-only and asks it everything a
// Kafka client had asked the broker. It returns the number of records compared.
func compareLog(tb testing.TB, dir string, want *Capture) int {
	tb.Helper()
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(tb, err, "%s", dir)
	defer func() { log.Close() }()
	stats, err := log.Stats()
	require.NoError(tb, err, "%s", dir)
	if len(stats.Recovery.Damaged) > 0 {
		// The broker answered after it had cut off what lies behind the damage, which a
		// look leaves where it is.
		require.NoError(tb, log.Close())
		cut := filepath.Join(tb.TempDir(), filepath.Base(dir))
		require.NoError(tb, os.CopyFS(cut, os.DirFS(dir)))
		log, err = seglog.Open(cut, seglog.Options{})
		require.NoError(tb, err, "%s", dir)
	}
	compareAnswers(tb, log, want)
	return len(want.Records)
}

// compareAnswers compares what log answers with the capture: its bounds, all
// records in order and one by one, and what is found by timestamp.
func compareAnswers(tb testing.TB, log *seglog.Log, want *Capture) {
	tb.Helper()
	require.Equal(tb, want.Offsets.Start, log.Offsets().Start, "%s: log start offset", want.Topic)
	require.Equal(tb, want.Offsets.End, log.Offsets().End, "%s: log end offset", want.Topic)

	var got []Record
	for r, err := range log.Records(tb.Context(), want.Offsets.Start, nil) {
		require.NoError(tb, err, "%s", want.Topic)
		got = append(got, fromSeglog(r.Clone()))
	}
	requireRecords(tb, want.Records, got, want.Topic)

	for _, w := range want.Records {
		r, err := log.Get(w.Offset)
		require.NoError(tb, err, "%s: get %d", want.Topic, w.Offset)
		requireRecords(tb, []Record{w}, []Record{fromSeglog(r)}, want.Topic)
	}

	for _, w := range want.Lookups {
		at, found, err := log.OffsetForTime(w.Timestamp)
		require.NoError(tb, err)
		if !found {
			at = seglog.TimestampOffset{Timestamp: -1, Offset: -1}
		}
		if w.Offset == -1 {
			// Kafka asks only the first segment that may hold the answer, and
			// thinks so of one that compaction has emptied. The records decide.
			w = firstSince(want.Records, w.Timestamp)
		}
		require.Equal(tb, w, Lookup{w.Timestamp, at.Offset, at.Timestamp}, "%s: offset for time", want.Topic)
	}
	at, found, err := log.OffsetForTime(seglog.MaxTimestamp)
	require.NoError(tb, err)
	// Without any timestamp Kafka answers -1, and with it now an offset, now -1.
	require.Equal(tb, want.Offsets.MaxTime != -1, found, "%s: largest timestamp", want.Topic)
	if found {
		require.Equal(tb, want.Offsets.MaxTime, at.Timestamp, "%s: largest timestamp", want.Topic)
		require.Equal(tb, want.Offsets.MaxTimeOffset, at.Offset, "%s: offset of the largest timestamp", want.Topic)
	}
}

// firstSince answers a lookup from the records themselves.
func firstSince(records []Record, timestamp int64) Lookup {
	for _, r := range records {
		if r.Timestamp >= timestamp {
			return Lookup{timestamp, r.Offset, r.Timestamp}
		}
	}
	return Lookup{timestamp, -1, -1}
}

// requireRecords compares one by one, for a message that can be read.
func requireRecords(tb testing.TB, want, got []Record, topic string) {
	tb.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(tb, want[i], got[i], "%s: record %d of %d", topic, i, len(want))
	}
	require.Len(tb, got, len(want), "%s", topic)
}

func fromSeglog(r record.Record) Record {
	out := Record{
		Offset:    r.Offset,
		Timestamp: r.Timestamp,
		Key:       r.Key,
		Value:     r.Value,
		Headers:   make([]Header, 0, len(r.Headers)),
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header(h))
	}
	return out
}

// readBatches decodes the .log files of a partition directory with the record
// package alone and verifies every batch. It returns the data records from
// offset on.
func readBatches(tb testing.TB, dir string, from int64) []Record {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(tb, err)
	slices.Sort(files)
	it := record.NewIterator(record.DecodeOptions{})
	defer it.Close()
	var records []Record
	for _, file := range files {
		bytes, err := os.ReadFile(file)
		require.NoError(tb, err)
		for position := 0; position < len(bytes); {
			batch, err := record.Parse(bytes[position:])
			if errors.Is(err, record.ErrShort) || errors.Is(err, record.ErrCorrupt) {
				break // the tail that a crash left
			}
			at := fmt.Sprintf("%s: position %d", file, position)
			require.NoError(tb, err, at)
			position += batch.Size()
			if !batch.IsValid() {
				break
			}
			require.NoError(tb, batch.Verify(it), at)
			if batch.IsControl() {
				continue
			}
			for r, err := range batch.Records(it) {
				require.NoError(tb, err, at)
				if r.Offset >= from {
					records = append(records, fromSeglog(r.Clone()))
				}
			}
		}
	}
	return records
}
