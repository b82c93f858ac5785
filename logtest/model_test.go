package logtest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

var small = seglog.Options{SegmentBytes: 600, SegmentIndexBytes: 1 << 10}

func open(t *testing.T, disk *logtest.Disk) *seglog.Log {
	t.Helper()
	opts := small
	opts.FS = disk.FS()
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// batch is n records of the offsets from base on.
func batch(base int64, n int) []seglog.Record {
	var records []seglog.Record
	for o := base; o < base+int64(n); o++ {
		records = append(records, seglog.Record{Timestamp: 1 + o, Key: []byte{}, Value: fmt.Append(nil, "value ", o),
			Headers: []seglog.Header{{Key: "h", Value: fmt.Append(nil, o)}}})
	}
	return records
}

// written is a log of the batches 0-1, 2 and 3-5, in that order.
func written(t *testing.T) *seglog.Log {
	l := open(t, logtest.NewDisk(logtest.DiskOptions{}))
	for _, b := range [][]seglog.Record{batch(0, 2), batch(2, 1), batch(3, 3)} {
		_, err := l.Append(b, nil)
		require.NoError(t, err)
	}
	return l
}

// tell tells a model of batches that were appended and are durable.
func tell(m *logtest.Model, batches ...[]seglog.Record) {
	base := int64(0)
	for _, b := range batches {
		a := m.Attempt(base, b...)
		a.Appended(base)
		a.Durable()
		base += int64(len(b))
	}
}

var errLeft = errors.New("something was left behind")

func TestAModelFindsWhatIsNotAsItWasTold(t *testing.T) {
	change := func(f func(r *seglog.Record)) []seglog.Record {
		b := batch(3, 3)
		f(&b[1])
		return b
	}
	failed := fmt.Errorf("%w: %w", seglog.ErrFailed, errLeft)
	for _, row := range []struct {
		name        string
		tell        func(m *logtest.Model)
		kill, power string // what is wrong after a kill and after a power loss; "" if nothing is
	}{
		{"as it is", func(m *logtest.Model) { tell(m, batch(0, 2), batch(2, 1), batch(3, 3)) }, "", ""},
		{"timestamps that the log sets", func(m *logtest.Model) {
			b := batch(0, 2)
			b[0].Timestamp, b[1].Timestamp = 0, 0
			tell(m, b, batch(2, 1), batch(3, 3))
		}, "", ""},
		{"one more, durable", func(m *logtest.Model) { tell(m, batch(0, 2), batch(2, 1), batch(3, 3), batch(6, 2)) },
			"offsets 6 to 7 must", "offsets 6 to 7 must"},
		{"one more, written", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			m.Attempt(6, batch(6, 2)...).Appended(6)
		}, "offsets 6 to 7 must", ""},
		{"one more, on its way", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			m.Attempt(6, batch(6, 2)...)
		}, "", ""},
		{"one less", func(m *logtest.Model) { tell(m, batch(0, 2), batch(2, 1)) }, "offset 3 holds", "offset 3 holds"},
		{"the last on its way", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(3, batch(3, 3)...)
		}, "", ""},
		{"the last on its way to somewhere", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(logtest.Anywhere, batch(3, 3)...)
		}, "", ""},
		{"the last on its way to somewhere else", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(4, batch(3, 3)...)
		}, "offset 3 holds", "offset 3 holds"},
		{"the last durable somewhere", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			a := m.Attempt(logtest.Anywhere, batch(3, 3)...)
			a.Appended(logtest.Anywhere)
			a.Durable()
		}, "", ""},
		{"another durable somewhere", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			a := m.Attempt(logtest.Anywhere, batch(9, 1)...)
			a.Appended(logtest.Anywhere)
			a.Durable()
		}, `begins with "value 9" must`, `begins with "value 9" must`},
		{"the last learnt its place late", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(logtest.Anywhere, batch(3, 3)...).Appended(3)
			m.Durable(6)
		}, "", ""},
		{"the last refused", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(3, batch(3, 3)...).Failed(errLeft)
		}, "offset 3 holds", ""},
		{"the last refused, and synced", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(3, batch(3, 3)...).Failed(errLeft)
			m.Synced()
		}, "offset 3 holds", "offset 3 holds"},
		{"the last refused and tried again", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(3, batch(3, 3)...).Failed(errLeft)
			m.Attempt(3, batch(3, 3)...).Appended(3)
			m.Durable(6)
		}, "", ""},
		{"the last in doubt", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1))
			m.Attempt(3, batch(3, 3)...).Failed(failed)
		}, "", ""},
		{"a larger batch", func(m *logtest.Model) { tell(m, batch(0, 2), batch(2, 1), batch(3, 4)) },
			"the rest of its batch is missing", "the rest of its batch is missing"},
		{"one missing in the middle", func(m *logtest.Model) {
			m.Attempt(0, batch(0, 2)...).Appended(0)
			m.Attempt(1, seglog.Record{Value: []byte("gone")}).Appended(1)
			m.Attempt(2, batch(2, 1)...).Appended(2)
			m.Attempt(3, batch(3, 3)...).Appended(3)
		}, "offsets 1 to 1 must", "there is offset 5, and not the batch of offsets 1 to 1 before it"},
		{"another value", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), change(func(r *seglog.Record) { r.Value = []byte("other") }))
		}, "the rest of its batch", "the rest of its batch"},
		{"another timestamp", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), change(func(r *seglog.Record) { r.Timestamp++ }))
		}, "the rest of its batch", "the rest of its batch"},
		{"another header", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), change(func(r *seglog.Record) { r.Headers[0].Value = nil }))
		}, "the rest of its batch", "the rest of its batch"},
		{"null for empty", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), change(func(r *seglog.Record) { r.Key = nil }))
		}, "the rest of its batch", "the rest of its batch"},
		{"truncating", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3), batch(6, 1))
			m.Truncating(6)
		}, "", ""},
		{"truncated in vain", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3), batch(6, 1))
			m.Truncating(6)(failed)
		}, "", ""},
		{"truncated", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			m.Truncating(4)(nil) // all of the batch
		}, "offset 3 holds", "offset 3 holds"},
		{"removing below", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			m.Deleting(2)
		}, "", ""},
		{"removed below", func(m *logtest.Model) {
			tell(m, batch(0, 2), batch(2, 1), batch(3, 3))
			m.Deleting(2)(2)
		}, "starts at offset 0, and had started at 2", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := written(t)
			var m logtest.Model
			row.tell(&m)
			for _, check := range []struct {
				err  error
				want string
			}{
				{m.Check(t.Context(), l), row.kill},
				{m.Claims().AfterKill(t.Context(), l), row.kill},
				{m.Claims().AfterPowerLoss(t.Context(), l), row.power},
			} {
				if check.want == "" {
					require.NoError(t, check.err)
				} else {
					require.ErrorContains(t, check.err, check.want)
				}
			}
		})
	}
}

// The log starts higher than it should: in the middle of a batch that was to stay,
// and above all of it.
func TestAModelFindsWhatWasRemovedTooEarly(t *testing.T) {
	for start, want := range map[int64]string{
		1: "the log starts at offset 1, and the batch of offsets 0 to 1 must be there",
		4: "the log starts at offset 4, and the batch of offsets 0 to 1 must be there",
	} {
		l := written(t)
		var m logtest.Model
		tell(&m, batch(0, 2), batch(2, 1), batch(3, 3))
		require.NoError(t, l.DeleteBefore(start))
		require.EqualError(t, m.Check(t.Context(), l), want)

		done := m.Deleting(6)
		require.NoError(t, m.Check(t.Context(), l), "it is under way")
		done(start)
		require.NoError(t, m.Check(t.Context(), l))
	}
}

func TestAModelFollowsATruncationBelowTheStart(t *testing.T) {
	l := written(t)
	var m logtest.Model
	tell(&m, batch(0, 2), batch(2, 1), batch(3, 3))
	done := m.Deleting(4)
	require.NoError(t, l.DeleteBefore(4))
	done(4)
	truncated := m.Truncating(2)
	require.NoError(t, l.TruncateTo(2))
	truncated(nil)
	_, err := m.Append(l, batch(2, 2), nil)
	require.NoError(t, err)
	require.NoError(t, m.Check(t.Context(), l))
	require.NoError(t, l.TruncateTo(2))
	require.ErrorContains(t, m.Check(t.Context(), l), "offsets 2 to 3 must")
}

func TestDamageIsAnErrorOfTheCheck(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := open(t, disk)
	var m logtest.Model
	for _, b := range [][]seglog.Record{batch(0, 2), batch(2, 1), batch(3, 3)} {
		_, err := m.Append(l, b, nil)
		require.NoError(t, err)
		_, err = l.Roll()
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	name := "log/00000000000000000000.log"
	content, err := disk.ReadFile(name)
	require.NoError(t, err)
	content[70] ^= 1
	require.NoError(t, disk.WriteFile(name, content))
	opts := small
	opts.FS, opts.ReadOnly = disk.FS(), true
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.ErrorIs(t, m.Check(t.Context(), l), seglog.ErrCorrupt)
	require.NoError(t, l.Close())
}

// A program crashes again and again and goes on each time with what is left.
func TestAModelGoesOnAfterACrash(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	var m logtest.Model
	end := int64(0)
	for round := range uint64(30) {
		l := open(t, disk)
		if round > 0 {
			require.NoError(t, m.Claims().AfterPowerLoss(t.Context(), l), "%s", disk)
			require.NoError(t, m.Restart(t.Context(), l))
		}
		require.NoError(t, m.Check(t.Context(), l), "%s", disk)
		end = l.Offsets().End
		for i := range 5 {
			_, err := m.Append(l, batch(100*int64(round)+10*int64(i), 1+i%3), &seglog.AppendOptions{Sync: ptr(seglog.SyncPolicy(i % 2))})
			require.NoError(t, err)
		}
		m.Attempt(logtest.Anywhere, batch(77, 1)...) // never comes
		var states []*logtest.Disk
		for state := range disk.States(10, round) {
			states = append(states, state)
		}
		disk = states[int(round)%len(states)]
	}
	require.Greater(t, end, int64(50))
}

func ptr[T any](v T) *T { return &v }

func TestARestartRefusesWhatNobodyAppended(t *testing.T) {
	l := written(t)
	var m logtest.Model
	tell(&m, batch(0, 2))
	require.ErrorContains(t, m.Restart(t.Context(), l), "offset 2 holds")
}

func TestAnAppendThatFailsIsToldToTheModel(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l := open(t, disk)
	var m logtest.Model
	_, err := m.Append(l, batch(0, 2), nil)
	require.NoError(t, err)
	disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log"}, 40, errLeft)
	_, err = m.Append(l, batch(2, 2), nil)
	require.ErrorIs(t, err, errLeft)
	disk.Heal()
	_, err = m.Append(l, batch(2, 1), nil)
	require.NoError(t, err)
	require.NoError(t, m.Check(t.Context(), l))
	require.Equal(t, int64(3), l.Offsets().End)
}

func TestCompressedBatchesAndAppendTimes(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := small
	opts.FS, opts.Compression, opts.TimestampType = disk.FS(), record.Zstd, record.LogAppendTime
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	var m logtest.Model
	for i := range int64(4) {
		b := batch(3*i, 3)
		for j := range b {
			b[j].Timestamp = 0
		}
		_, err := m.Append(l, b, nil)
		require.NoError(t, err)
	}
	require.NoError(t, m.Check(t.Context(), l))
	require.NoError(t, l.Close())
}
