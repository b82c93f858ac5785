package offsetslog

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// Rows 413 and 414. That a time without a zone is UTC, row 415, is a matter of logtool.
func TestReset(t *testing.T) {
	at := func(n int64) time.Time { return time.UnixMilli(1000 * n) }
	for name, tt := range map[string]struct {
		to    Target
		clamp bool
		want  int64 // -1 is refused
	}{
		"to earliest":                    {ToEarliest(), false, 2},
		"to latest":                      {ToLatest(), false, 10},
		"to current":                     {ToCurrent(), false, 5},
		"to offset":                      {ToOffset(7), false, 7},
		"to the end":                     {ToOffset(10), false, 10},
		"to offset above the end":        {ToOffset(11), false, -1},
		"to offset below the start":      {ToOffset(1), false, -1},
		"to offset above, clamped":       {ToOffset(1000), true, 10},
		"to offset below, clamped":       {ToOffset(0), true, 2},
		"shift forward":                  {ShiftBy(3), false, 8},
		"shift back":                     {ShiftBy(-3), false, 2},
		"shift too far":                  {ShiftBy(-4), false, -1},
		"shift too far, clamped":         {ShiftBy(-1 << 63), true, 2},
		"shift too far up":               {ShiftBy(100), false, -1},
		"shift too far up, clamped":      {ShiftBy(100), true, 10},
		"shift over all numbers":         {ShiftBy(1<<63 - 1), false, -1},
		"shift over all, clamped":        {ShiftBy(1<<63 - 1), true, 10},
		"to time":                        {ToTime(at(7)), false, 6},
		"to time between records":        {ToTime(at(7).Add(-time.Millisecond)), false, 6},
		"to time before the start":       {ToTime(at(1)), false, 2},
		"to time behind the end":         {ToTime(at(100)), false, 10},
		"by duration":                    {ByDuration(time.Since(at(4))), false, 3},
		"by a long duration":             {ByDuration(200 * 365 * 24 * time.Hour), false, 2},
		"to given offsets":               {ToOffsets(map[TopicPartition]int64{orders: 9}), false, 9},
		"to given offsets of some other": {ToOffsets(map[TopicPartition]int64{{"orders", 1}: 9}), false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, quiet)
			log := h.topic(orders, 10)
			require.NoError(t, log.DeleteBefore(2))
			h.commit("g", orders, 5)
			end := h.end("g")
			rows, err := h.Reset(ctx, ResetRequest{Group: "g", To: tt.to, Clamp: tt.clamp})
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.EqualValues(t, 5, rows[0].Before.Offset)
			require.EqualValues(t, 5, rows[0].Before.Lag)
			require.Equal(t, tt.want, rows[0].Offset)
			require.Equal(t, tt.want < 0, rows[0].Err != nil, rows[0].Err)
			require.Equal(t, end, h.end("g"), "only said")
			again, err := h.Reset(ctx, ResetRequest{Group: "g", To: tt.to, Clamp: tt.clamp, Execute: true})
			require.NoError(t, err)
			require.Equal(t, rows[0].Offset, again[0].Offset)
			if tt.want < 0 {
				require.EqualValues(t, 5, h.at("g", orders))
				return
			}
			require.Equal(t, 10-tt.want, rows[0].Lag)
			f := h.fetch("g", orders, false)
			require.Equal(t, tt.want, f.Offset)
			require.True(t, strings.HasPrefix(f.Metadata, "reset "), f.Metadata)
			require.EqualValues(t, -1, f.LeaderEpoch)
		})
	}
}

func TestResetOfWhatHasNoOffset(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 3)
	missing := TopicPartition{"missing", 0}
	for name, tt := range map[string]struct {
		to   Target
		want int64
	}{
		"to current is the end": {ToCurrent(), 3}, "to earliest": {ToEarliest(), 0}, "shift by": {ShiftBy(1), -1},
	} {
		rows, err := h.Reset(ctx, ResetRequest{Group: "new", Partitions: []TopicPartition{orders, missing}, To: tt.to})
		require.NoError(t, err)
		require.Equal(t, tt.want, rows[0].Offset, name)
		require.ErrorIs(t, rows[1].Err, ErrUnknownPartition)
	}
	rows, err := h.Reset(ctx, ResetRequest{Group: "new", To: ToLatest(), Execute: true})
	require.NoError(t, err)
	require.Empty(t, rows)
	_, err = h.Reset(ctx, ResetRequest{Group: "new"})
	require.ErrorIs(t, err, ErrInvalidRequest)
}

// Row 416
func TestActiveGroupIsNotReset(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 3)
	m := h.stable("g", "orders")
	r := ResetRequest{Group: "g", Partitions: []TopicPartition{orders}, To: ToLatest(), Execute: true}
	_, err := h.Reset(ctx, r)
	require.ErrorIs(t, err, ErrNonEmptyGroup)
	require.ErrorContains(t, err, "Stable")
	require.NoError(t, h.LeaveGroup(ctx, "g", m))
	_, err = h.Reset(ctx, r)
	require.NoError(t, err)
	require.EqualValues(t, 3, h.at("g", orders))
}

// K083: when all that was read is gone, so is nothing but that.
func TestResetWhenDataAndOffsetHaveGone(t *testing.T) {
	h := newHouse(t, quiet)
	log := h.topic(orders, 10)
	h.commit("g", orders, 10)
	require.NoError(t, log.DeleteBefore(10))
	require.NoError(t, h.DeleteOffsets(ctx, "g", []TopicPartition{orders}))
	for _, to := range []Target{ToEarliest(), ToLatest(), ToTime(time.Unix(0, 0))} {
		rows, err := h.Reset(ctx, ResetRequest{Group: "g", Partitions: []TopicPartition{orders}, To: to})
		require.NoError(t, err)
		require.NoError(t, rows[0].Err)
		require.EqualValues(t, 10, rows[0].Offset)
	}
}

// K084, without notice that the topic was made again
func TestLagIsNeverNegative(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 10)
	log := h.topic(TopicPartition{"orders", 1}, 10)
	require.NoError(t, log.DeleteBefore(5))
	h.commit("g", orders, 100)
	h.commit("g", TopicPartition{"orders", 1}, 4)
	h.commit("g", TopicPartition{"orders", 2}, 4)
	lags, err := h.Lags(ctx, "g")
	require.NoError(t, err)
	require.Len(t, lags, 3)
	require.EqualValues(t, 0, lags[0].Lag)
	require.True(t, lags[0].OutOfRange)
	require.EqualValues(t, 10, lags[0].End)
	require.EqualValues(t, 6, lags[1].Lag)
	require.True(t, lags[1].OutOfRange)
	require.EqualValues(t, -1, lags[2].Lag)
	require.ErrorIs(t, lags[2].Err, ErrUnknownPartition)
	require.EqualValues(t, 100, h.at("g", orders), "and nothing is committed for that")
}

// Row 417
func TestCSV(t *testing.T) {
	one := []GroupOffset{{"g", orders, 5}, {"g", TopicPartition{"with,comma", 2}, 1 << 40}}
	several := append(one[:2:2], GroupOffset{"h", orders, 6})
	for _, tt := range []struct {
		offsets []GroupOffset
		want    string
	}{
		{one, "orders,0,5\n\"with,comma\",2,1099511627776\n"},
		{several, "g,orders,0,5\ng,\"with,comma\",2,1099511627776\nh,orders,0,6\n"},
		{nil, ""},
	} {
		var b bytes.Buffer
		require.NoError(t, WriteCSV(&b, tt.offsets))
		require.Equal(t, tt.want, b.String())
		back, err := ReadCSV(&b, "g")
		require.NoError(t, err)
		require.Equal(t, tt.offsets, back)
	}
	for name, in := range map[string]string{
		"two fields": "t,1\n", "five fields": "a,b,c,d,e\n", "no number": "t,x,1\n", "negative offset": "t,0,-1\n",
		"negative partition": "t,-1,0\n", "too large": "t,0,9223372036854775808\n", "quotes": "\"t,0,1\n",
	} {
		_, err := ReadCSV(strings.NewReader(in), "g")
		require.Error(t, err, name)
	}
}

// A member that joins when the group was found empty keeps it from being reset.
func TestGroupThatWakesUpIsNotReset(t *testing.T) {
	opts := quiet
	var h *house
	reads := 0
	opts.Authorize = func(op Operation, _ string) error {
		if op == Read {
			if reads++; reads == 2 { // of Reset: to look, and to commit
				_, err := h.JoinGroup(ctx, JoinRequest{Group: "g", Protocols: consumer("orders")})
				require.NoError(t, err)
			}
		}
		return nil
	}
	h = newHouse(t, opts)
	h.topic(orders, 3)
	_, err := h.Reset(ctx, ResetRequest{Group: "g", Partitions: []TopicPartition{orders}, To: ToLatest(), Execute: true})
	require.ErrorIs(t, err, ErrNonEmptyGroup)
	require.EqualValues(t, -1, h.at("g", orders))
}

// The id of the topic is that of the commit before.
func TestResetKeepsTheTopicID(t *testing.T) {
	h := newHouse(t, quiet)
	h.topic(orders, 3)
	r := simple("g", orders, 2)
	r.Offsets[0].TopicID = [16]byte{1, 2}
	r.Offsets[0].LeaderEpoch = -7
	require.NoError(t, h.Commit(ctx, r))
	require.EqualValues(t, -1, h.fetch("g", orders, false).LeaderEpoch, "there is no such epoch")
	_, err := h.Reset(ctx, ResetRequest{Group: "g", To: ToEarliest(), Execute: true})
	require.NoError(t, err)
	require.Equal(t, [16]byte{1, 2}, h.fetch("g", orders, false).TopicID)
}

// What is not replicated cannot be read, and nobody is behind it.
func TestLagEndsAtTheHighWatermark(t *testing.T) {
	h := newHouse(t, quiet)
	h.close()
	replicated := h.dirs.Log
	replicated.Replicated = true
	h.dirs.Topics = map[string]seglog.Options{orders.Topic: replicated}
	h.open()
	log := h.topic(orders, 10)
	log.SetHighWatermark(6)
	h.commit("g", orders, 4)
	lags, err := h.Lags(ctx, "g")
	require.NoError(t, err)
	require.EqualValues(t, 6, lags[0].End)
	require.EqualValues(t, 2, lags[0].Lag)
	rows, err := h.Reset(ctx, ResetRequest{Group: "g", To: ToLatest()})
	require.NoError(t, err)
	require.EqualValues(t, 6, rows[0].Offset)
}
