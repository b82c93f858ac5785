package seglog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// compacted are options of a compacted log.
var compacted = seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, CleanupPolicy: seglog.CleanupCompact}

// kv is a record of a compacted log. An empty value is a tombstone.
func kv(key, value string) seglog.Record {
	r := seglog.Record{Timestamp: 1000, Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

func put(t tb, l *seglog.Log, key, value string) {
	t.Helper()
	_, err := l.Append([]seglog.Record{kv(key, value)}, nil)
	require.NoError(t, err)
}

func rollLog(t tb, l *seglog.Log) {
	t.Helper()
	_, err := l.Roll()
	require.NoError(t, err)
}

func compact(t tb, l *seglog.Log, opts *seglog.CompactOptions) seglog.CompactResult {
	t.Helper()
	res, err := l.Compact(t.Context(), opts)
	require.NoError(t, err)
	return res
}

// contents are the records as "offset key=value".
func contents(t tb, l *seglog.Log) []string {
	t.Helper()
	all := []string{}
	for _, r := range readAll(t, l, l.Offsets().Start) {
		value := string(r.Value)
		if r.Value == nil {
			value = "null"
		}
		all = append(all, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, value))
	}
	return all
}

func TestTheLastRecordOfEachKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, compacted)
	for i := range 10 {
		put(t, l, fmt.Sprint("k", i%3), fmt.Sprint("v", i))
		if i%4 == 3 {
			rollLog(t, l)
		}
	}
	rollLog(t, l)
	put(t, l, "k1", "active")
	res := compact(t, l, nil)
	require.Equal(t, []string{"7 k1=v7", "8 k2=v8", "9 k0=v9", "10 k1=active"}, contents(t, l))
	require.EqualValues(t, 7, res.Superseded)
	require.EqualValues(t, 10, res.FirstDirty)
	require.Equal(t, []int64{0, 10}, bases(t, l))
	for i := range int64(10) {
		_, err := l.Get(i)
		if i < 7 {
			require.ErrorIs(t, err, seglog.ErrNoRecord)
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, 0, compact(t, l, nil).Passes, "nothing is dirty")
	l = reopen(t, l, compacted)
	require.Equal(t, []string{"7 k1=v7", "8 k2=v8", "9 k0=v9", "10 k1=active"}, contents(t, l))
	require.Equal(t, 0, compact(t, l, nil).Passes, "nothing is dirty")
	closeLog(t, l)
	requireSound(t, dir)
}

// K003
func TestATombstoneGoesWhenItsHorizonHasPassed(t *testing.T) {
	dir := t.TempDir()
	opts := compacted
	opts.DeleteRetention = 10 * time.Second
	l := openLog(t, dir, opts)
	put(t, l, "k", "v")
	put(t, l, "k", "")
	rollLog(t, l)
	at := func(ms int64) *seglog.CompactOptions {
		return &seglog.CompactOptions{Full: true, Now: time.UnixMilli(ms)}
	}
	for _, now := range []int64{50_000, 59_999} {
		compact(t, l, at(now))
		require.Equal(t, []string{"1 k=null"}, contents(t, l))
		closeLog(t, l)
		b := batchesOf(t, dir, 0)
		require.Len(t, b, 1)
		horizon, ok := b[0].DeleteHorizon()
		require.True(t, ok)
		require.EqualValues(t, 60_000, horizon)
		require.EqualValues(t, 60_000, b[0].BaseTimestamp())
		l = openLog(t, dir, opts)
	}
	res := compact(t, l, at(60_000))
	require.EqualValues(t, 1, res.Expired)
	require.Empty(t, contents(t, l))
	require.EqualValues(t, 2, l.Offsets().End)
}
