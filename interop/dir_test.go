package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// roundTrip is a broker's topics and what is in them.
type roundTrip struct {
	t      *testing.T
	broker *Broker
	client *Client
	values map[string][]string // by topic, from offset 0 on
	start  map[string]int64
	clock  int64
}

func (r *roundTrip) next(topic, who string) string {
	r.clock++
	value := fmt.Sprintf("%s wrote %d", who, r.clock)
	r.values[topic] = append(r.values[topic], value)
	return value
}

// kafka appends through a client, and checks what it gets.
func (r *roundTrip) kafka() {
	r.t.Helper()
	for topic := range r.values {
		// By this a Dir knows that its logs' states are not the last word on them.
		require.NoFileExists(r.t, filepath.Join(r.broker.LogDir, topic+"-0", "seglog.untouched.deleted"))
		p := r.client.Produce(topic)
		for range 5 {
			p.Batch(Record{Timestamp: firstTime + r.clock, Value: []byte(r.next(topic, "kafka"))})
		}
		p.Close()
		start, end := r.client.Offsets(topic)
		require.Equal(r.t, r.start[topic], start, topic)
		require.EqualValues(r.t, len(r.values[topic]), end, topic)
		var got []string
		for _, record := range r.client.Consume(topic, start) {
			got = append(got, string(record.Value))
		}
		require.Equal(r.t, r.values[topic][start:], got, topic)
	}
}

// seglog opens the directory in place, checks what it finds, appends, rolls and removes.
func (r *roundTrip) seglog(clean bool) {
	r.t.Helper()
	d, err := seglog.OpenDir(r.broker.LogDir, seglog.DirOptions{ManualMaintenance: true, MaxOpenSegments: 3,
		Log: seglog.Options{RetentionTime: -1, SegmentBytes: 2000, IndexIntervalBytes: 100}})
	require.NoError(r.t, err)
	require.Equal(r.t, clean, d.Stats().Clean)
	require.Empty(r.t, d.Stats().Findings)
	require.NoError(r.t, d.Load(r.t.Context(), nil))
	require.Zero(r.t, d.Stats().SetAside)
	for topic := range r.values {
		l, err := d.Partition(topic, 0)
		require.NoError(r.t, err)
		require.Equal(r.t, r.start[topic], l.Offsets().Start, topic)
		require.EqualValues(r.t, len(r.values[topic]), l.Offsets().End, topic)
		st, err := l.Stats()
		require.NoError(r.t, err)
		require.Equal(r.t, clean, st.Recovery.Clean, topic)
		var got []string
		for record, err := range l.Records(r.t.Context(), r.start[topic], nil) {
			require.NoError(r.t, err)
			got = append(got, string(record.Value))
		}
		require.Equal(r.t, r.values[topic][r.start[topic]:], got, topic)
		if topic == "idle" {
			continue
		}
		for range 20 {
			_, err := l.Append([]seglog.Record{{Timestamp: firstTime + r.clock, Value: []byte(r.next(topic, "seglog"))}}, nil)
			require.NoError(r.t, err)
		}
		if topic == "trimmed" {
			r.start[topic] = l.Offsets().End - 7
			require.NoError(r.t, l.DeleteBefore(r.start[topic]))
		}
	}
	require.NoError(r.t, d.Maintain(r.t.Context()))
	require.NoError(r.t, d.Close())
	require.FileExists(r.t, filepath.Join(r.broker.LogDir, ".kafka_cleanshutdown"))
	for topic := range r.values {
		require.FileExists(r.t, filepath.Join(r.broker.LogDir, topic+"-0", "seglog.untouched.deleted"))
	}
}

// TestADirectoryGoesToSeglogAndBack stops a broker, properly and by a kill, opens its
// log directory in place, appends to its logs and removes records, and lets the broker
// go on with what is there.
func TestADirectoryGoesToSeglogAndBack(t *testing.T) {
	broker := StartKafka(t, BrokerOptions{})
	r := &roundTrip{t: t, broker: broker, client: broker.NewClient(), start: map[string]int64{},
		values: map[string][]string{"plain": nil, "trimmed": nil, "idle": nil}}
	for topic := range r.values {
		r.client.CreateTopic(topic, map[string]string{"segment.bytes": "1048576"})
	}
	r.kafka()
	r.start["trimmed"] = 3
	r.client.DeleteRecords("trimmed", 3)
	r.kafka()
	for round := range 2 {
		broker.Stop()
		r.seglog(true)
		r.seglog(true) // and once more: what it left is as clean for itself
		broker.Start()
		r.kafka()
		if round == 0 {
			broker.Kill()
			r.seglog(false)
			broker.Start()
			r.kafka()
		}
	}
	requireNoComplaint(t, broker, 0)
}
