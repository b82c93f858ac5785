package segment

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// timed is a sealed segment of batches of ten records, with the timestamps that time
// gives to offsets; with a marker behind those below marker, if that is not -1.
// What the time index is told is less by lie.
func timed(t *testing.T, batches int64, time func(offset int64) int64, marker, lie int64) *Segment {
	t.Helper()
	s, err := Create(t.TempDir(), 0, Options{FS: vfs.OS, IndexIntervalBytes: 1000, Places: newPlaces(1 << 20)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Retire()) })
	newest := TimestampOffset{Timestamp: -1}
	add := func(b []byte) {
		batch, err := record.Parse(b)
		require.NoError(t, err)
		if batch.MaxTimestamp() > newest.Timestamp {
			newest = TimestampOffset{batch.MaxTimestamp(), batch.LastOffset()}
		}
		require.NoError(t, s.Append(Set{Bytes: b, LastOffset: batch.LastOffset(), MaxTimestamp: newest.Timestamp - lie, OffsetOfMaxTimestamp: newest.Offset}))
	}
	offset := int64(0)
	for range batches {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: offset})
		for range 10 {
			require.NoError(t, b.Append(record.Record{Timestamp: time(offset), Value: make([]byte, 40)}))
			offset++
		}
		built, err := b.Build()
		require.NoError(t, err)
		add(built)
		if offset == marker {
			built, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{
				Offset: offset, Timestamp: time(offset), ProducerID: 1, Marker: record.EndTxnMarker{Type: record.Commit}})
			require.NoError(t, err)
			add(built)
			offset++
		}
	}
	require.NoError(t, s.Seal())
	return s
}

// timeAt asks as a log does, and lets be remembered what can be.
func timeAt(t *testing.T, s *Segment, timestamp, start int64) (TimestampOffset, bool) {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	var it record.Iterator
	var c Scanner
	for range maxTimeIntervals + 1 {
		at, found, unknown := s.TimeAt(&it, timestamp, start)
		if unknown < 0 {
			return at, found
		}
		require.False(t, found)
		s.Remember(&c, &it, unknown, Unbounded)
	}
	t.Fatal("it is never known")
	return TimestampOffset{}, false
}

func TestATimeIsFoundAmongRememberedPlaces(t *testing.T) {
	s := timed(t, 30, func(offset int64) int64 { return 1000 + offset/3*3 }, -1, 0)
	found := 0
	for timestamp := int64(990); timestamp < 1300; timestamp++ {
		at, ok := timeAt(t, s, timestamp, 0)
		if !ok {
			continue
		}
		found++
		want := max(1000, (timestamp-1000+2)/3*3+1000)
		require.Equal(t, TimestampOffset{want, want - 1000}, at, "time %d", timestamp)
	}
	require.Greater(t, found, 290, "all but a few at the end, which is not walked over for bisection")
	_, ok := timeAt(t, s, 2000, 0)
	require.False(t, ok)
	_, ok = timeAt(t, s, 1100, 150)
	require.False(t, ok, "what was found is below the start")
	at, ok := timeAt(t, s, 1200, 150)
	require.True(t, ok)
	require.EqualValues(t, 201, at.Offset)
}

func TestNoRecordBelowTheStartIsFoundByItsTime(t *testing.T) {
	s := timed(t, 30, func(offset int64) int64 { return 1000 + offset/10 }, -1, 0)
	found := 0
	for start := range int64(290) {
		for timestamp := int64(1000); timestamp < 1030; timestamp++ {
			if at, ok := timeAt(t, s, timestamp, start); ok {
				found++
				require.Equal(t, TimestampOffset{timestamp, (timestamp - 1000) * 10}, at)
				require.GreaterOrEqual(t, at.Offset, start)
			}
		}
	}
	require.Greater(t, found, 1000)
}

func TestTimesThatDoNotRiseAreLookedForInTheFile(t *testing.T) {
	for name, s := range map[string]*Segment{
		"one is older": timed(t, 30, func(offset int64) int64 {
			if offset == 153 {
				return 1000
			}
			return 1000 + offset
		}, -1, 0),
		"a marker":            timed(t, 30, func(offset int64) int64 { return 1000 + offset }, 150, 0),
		"the index says less": timed(t, 30, func(offset int64) int64 { return 1000 + offset }, -1, 50),
	} {
		_, ok := timeAt(t, s, 1155, 0)
		require.False(t, ok, name)
		if name != "the index says less" {
			at, ok := timeAt(t, s, 1250, 0)
			require.True(t, ok, name)
			require.EqualValues(t, 250, at.Offset, name)
		}
	}
}

func TestATimeInAFileThatWasChangedIsNotAnswered(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, f *os.File, at int64){
		"cut": func(t *testing.T, f *os.File, at int64) { require.NoError(t, f.Truncate(0)) },
		"zeros": func(t *testing.T, f *os.File, at int64) {
			_, err := f.WriteAt(make([]byte, 4096), 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, 4096), 4096)
			require.NoError(t, err)
		},
		"a bit of the value of the record before": func(t *testing.T, f *os.File, at int64) {
			_, err := f.WriteAt([]byte{1}, at-5)
			require.NoError(t, err)
		},
		"a bit of the value of the record": func(t *testing.T, f *os.File, at int64) {
			_, err := f.WriteAt([]byte{1}, at+15)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := timed(t, 30, func(offset int64) int64 { return 1000 + offset }, -1, 0)
			_, ok := timeAt(t, s, 1155, 0)
			require.True(t, ok)
			slot, first := s.open.index.SlotAbove(155)
			v := s.opts.Places.find(s.memory.owner.Load(), slot, 155-first)
			place := v.at(int(155 - v.first))
			f, err := os.OpenFile(s.LogPath(), os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			change(t, f, int64(v.start+place))
			_, ok = timeAt(t, s, 1155, 0)
			require.False(t, ok)
		})
	}
}
