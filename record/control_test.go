package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControlKeysNameTheType(t *testing.T) {
	for _, tt := range []struct {
		name   string
		key    []byte
		want   ControlType
		stored int16
		text   string
		bad    bool
	}{
		{name: "abort", key: []byte{0, 0, 0, 0}, want: Abort, text: "ABORT"},
		{name: "commit", key: []byte{0, 0, 0, 1}, want: Commit, stored: 1, text: "COMMIT"},
		{name: "leader change", key: []byte{0, 0, 0, 2}, want: LeaderChange, stored: 2, text: "LEADER_CHANGE"},
		{name: "snapshot header", key: []byte{0, 0, 0, 3}, want: SnapshotHeader, stored: 3, text: "SNAPSHOT_HEADER"},
		{name: "snapshot footer", key: []byte{0, 0, 0, 4}, want: SnapshotFooter, stored: 4, text: "SNAPSHOT_FOOTER"},
		{name: "raft version", key: []byte{0, 0, 0, 5}, want: KRaftVersion, stored: 5, text: "KRAFT_VERSION"},
		{name: "raft voters", key: []byte{0, 0, 0, 6}, want: KRaftVoters, stored: 6, text: "KRAFT_VOTERS"},
		{name: "unknown", key: []byte{0, 0, 0, 99}, want: UnknownControl, stored: 99, text: "UNKNOWN"},
		{name: "negative type", key: []byte{0, 0, 0xff, 0xff}, want: UnknownControl, stored: -1, text: "UNKNOWN"},
		{name: "version 5 is read like 0", key: []byte{0, 5, 0, 1, 9, 9}, want: Commit, stored: 1, text: "COMMIT"},
		{name: "version -1", key: []byte{0xff, 0xff, 0, 1}, bad: true},
		{name: "3 bytes", key: []byte{0, 0, 0}, bad: true},
		{name: "null", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, stored, err := ParseControl(tt.key)
			if tt.bad {
				require.ErrorIs(t, err, ErrInvalid)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.stored, stored)
			require.Equal(t, tt.text, got.String())
		})
	}
	require.Equal(t, "ControlType(99)", ControlType(99).String())
}

func TestEndMarkersAreReadInAnyVersion(t *testing.T) {
	commit, abort := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0}
	for _, tt := range []struct {
		name       string
		key, value []byte
		want       EndTxnMarker
		bad        bool
	}{
		{name: "abort", key: abort, value: []byte{0, 0, 0, 0, 0, 15}, want: EndTxnMarker{Abort, 15}},
		{name: "commit", key: commit, value: []byte{0, 0, 0, 0, 1, 0}, want: EndTxnMarker{Commit, 256}},
		{name: "version 5 and two more bytes", key: commit, value: []byte{0, 5, 0, 0, 0, 79, 1, 2}, want: EndTxnMarker{Commit, 79}},
		{name: "version -1", key: commit, value: []byte{0xff, 0xff, 0, 0, 0, 79}, bad: true},
		{name: "empty value", key: commit, value: []byte{}, bad: true},
		{name: "null value", key: commit, bad: true},
		{name: "5 bytes", key: commit, value: make([]byte, 5), bad: true},
		{name: "short key", key: commit[:3], value: make([]byte, 6), bad: true},
		{name: "leader change", key: []byte{0, 0, 0, 2}, value: make([]byte, 6), bad: true},
		{name: "unknown type", key: []byte{0, 0, 0, 7}, value: make([]byte, 6), bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseEndTxnMarker(tt.key, tt.value)
			if tt.bad {
				require.ErrorIs(t, err, ErrInvalid)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestEndMarkersNeedATransactionToEnd(t *testing.T) {
	good := EndTxnBatch{Offset: 5, ProducerID: 1, Marker: EndTxnMarker{Type: Commit}}
	for name, change := range map[string]func(*EndTxnBatch){
		"unknown type":  func(e *EndTxnBatch) { e.Marker.Type = UnknownControl },
		"leader change": func(e *EndTxnBatch) { e.Marker.Type = LeaderChange },
		"no producer":   func(e *EndTxnBatch) { e.ProducerID = NoProducerID },
		"no epoch":      func(e *EndTxnBatch) { e.ProducerEpoch = NoProducerEpoch },
		"bad timestamp": func(e *EndTxnBatch) { e.Timestamp = -2 },
	} {
		e := good
		change(&e)
		dst, err := AppendEndTxnMarker([]byte("x"), e)
		require.ErrorIs(t, err, ErrInvalid, name)
		require.Equal(t, "x", string(dst), name)
	}
	b, err := AppendEndTxnMarker(nil, good)
	require.NoError(t, err)
	require.Len(t, b, 78)
	batch := parse(t, b)
	require.True(t, batch.IsControl() && batch.IsTransactional())
	require.Equal(t, NoSequence, batch.LastSequence())
	r := collect(t, batch)[0]
	m, err := ParseEndTxnMarker(r.Key, r.Value)
	require.NoError(t, err)
	require.Equal(t, good.Marker, m)
}

// The batches of KRaft's own log are control batches outside any transaction.
func TestLeaderChangeIsAControlBatchWithoutProducer(t *testing.T) {
	// LeaderChangeMessage.json, version 0: leader 5, voters [6], granting [6].
	value := []byte{0, 0, 0, 0, 0, 5, 2, 0, 0, 0, 6, 0, 2, 0, 0, 0, 6, 0, 0}
	b := parse(t, build(t, BuilderOptions{BaseOffset: 983, LeaderEpoch: 20, Control: true},
		Record{Timestamp: 1000, Key: []byte{0, 0, 0, 2}, Value: value}))
	require.True(t, b.IsControl())
	require.False(t, b.IsTransactional())
	require.False(t, b.HasProducerID())
	require.Equal(t, int32(20), b.LeaderEpoch())
	r := collect(t, b)[0]
	require.Equal(t, int64(983), r.Offset)
	typ, _, err := ParseControl(r.Key)
	require.NoError(t, err)
	require.Equal(t, LeaderChange, typ)
	_, err = ParseEndTxnMarker(r.Key, r.Value)
	require.ErrorIs(t, err, ErrInvalid)
}
