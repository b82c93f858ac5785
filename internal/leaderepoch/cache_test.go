package leaderepoch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/vfs"
)

// assigned returns a cache that has seen entries one after the other.
func assigned(t require.TestingT, entries ...Entry) *Cache {
	c, err := New(entries)
	require.NoError(t, err)
	return c
}

func TestAssignKeepsEpochsInOrder(t *testing.T) {
	tests := []struct {
		name     string
		assigned []Entry
		want     []Entry
	}{
		{"nothing", nil, nil},
		{"one epoch after the other", []Entry{{0, 10}, {1, 20}, {2, 30}}, []Entry{{0, 10}, {1, 20}, {2, 30}}},
		{"same epoch, later offset", []Entry{{2, 9}, {2, 10}}, []Entry{{2, 9}}},
		{"same epoch, a series", []Entry{{2, 6}, {2, 7}, {2, 8}}, []Entry{{2, 6}}},
		{"same epoch, earlier offset", []Entry{{2, 9}, {2, 8}}, []Entry{{2, 8}}},
		{"new epoch, same offset", []Entry{{2, 9}, {3, 9}}, []Entry{{3, 9}}},
		{"new epoch, earlier offset", []Entry{{2, 6}, {3, 5}}, []Entry{{3, 5}}},
		{"older epoch", []Entry{{1, 5}, {2, 6}, {1, 7}}, []Entry{{1, 7}}},
		{"latest epoch, offset of an earlier one", []Entry{{5, 11}, {6, 12}, {7, 13}, {7, 12}}, []Entry{{5, 11}, {7, 12}}},
		{"epochs with gaps", []Entry{{1, 1}, {7, 2}, {90, 3}}, []Entry{{1, 1}, {7, 2}, {90, 3}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, assigned(t, tt.assigned...).Entries())
		})
	}
}

func TestAssignTellsWhetherItChangedAnything(t *testing.T) {
	c := assigned(t)
	for _, tt := range []struct {
		epoch   int32
		start   int64
		changed bool
	}{{2, 9, true}, {2, 9, false}, {2, 10, false}, {2, 8, true}, {3, 8, true}} {
		changed, err := c.Assign(tt.epoch, tt.start)
		require.NoError(t, err)
		require.Equal(t, tt.changed, changed, "Assign(%d, %d)", tt.epoch, tt.start)
	}
}

func TestAssignRefusesNegativeNumbers(t *testing.T) {
	c := assigned(t, Entry{1, 1})
	for _, e := range []Entry{{-1, 5}, {1, -1}} {
		changed, err := c.Assign(e.Epoch, e.StartOffset)
		require.ErrorIs(t, err, ErrNegative)
		require.False(t, changed)
		_, err = New([]Entry{e})
		require.ErrorIs(t, err, ErrNegative)
	}
	require.Equal(t, []Entry{{1, 1}}, c.Entries())
}

func TestEndOffsetForIsTheStartOfTheNextEpoch(t *testing.T) {
	three := []Entry{{5, 11}, {6, 12}, {7, 13}}
	holes := []Entry{{0, 10}, {2, 13}, {4, 17}}
	tests := []struct {
		name      string
		entries   []Entry
		ask       int32
		logEnd    int64
		wantEpoch int32
		wantEnd   int64
	}{
		{"an epoch with a successor", three, 5, 17, 5, 12},
		{"the latest epoch ends at the log end", three, 7, 17, 7, 17},
		{"below the first epoch", three, 4, 17, 4, 11},
		{"above the latest epoch", three, 8, 17, NoEpoch, NoOffset},
		{"no epoch", three, NoEpoch, 17, NoEpoch, NoOffset},
		{"in a hole behind the first", holes, 1, 30, 0, 13},
		{"known, before a hole", holes, 2, 30, 2, 17},
		{"in a hole before the latest", holes, 3, 30, 2, 17},
		{"empty cache", nil, 0, 17, NoEpoch, NoOffset},
		{"empty cache, empty log", nil, 0, 0, NoEpoch, NoOffset},
		{"the epoch that took over from a later one", []Entry{{1, 5}, {2, 6}, {1, 7}}, 1, 8, 1, 8},
		{"the epoch that was taken over", []Entry{{1, 5}, {2, 6}, {1, 7}}, 2, 8, NoEpoch, NoOffset},
		{"an epoch lost to its successor", []Entry{{5, 11}, {6, 12}, {7, 13}, {7, 12}}, 6, 20, 5, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			epoch, end := assigned(t, tt.entries...).EndOffsetFor(tt.ask, tt.logEnd)
			require.Equal(t, tt.wantEpoch, epoch)
			require.Equal(t, tt.wantEnd, end)
		})
	}
}

func TestTruncateFromEndRemovesWhatBeganThere(t *testing.T) {
	tests := []struct {
		end  int64
		want []Entry
	}{
		{12, []Entry{{2, 6}, {3, 8}, {4, 11}}},
		{11, []Entry{{2, 6}, {3, 8}}},
		{9, []Entry{{2, 6}, {3, 8}}},
		{8, []Entry{{2, 6}}},
		{6, []Entry{}},
		{0, []Entry{}},
		{-1, []Entry{{2, 6}, {3, 8}, {4, 11}}},
	}
	for _, tt := range tests {
		c := assigned(t, Entry{2, 6}, Entry{3, 8}, Entry{4, 11})
		require.Equal(t, len(tt.want) < 3, c.TruncateFromEnd(tt.end), "TruncateFromEnd(%d)", tt.end)
		require.Equal(t, tt.want, c.Entries(), "TruncateFromEnd(%d)", tt.end)
	}
	require.False(t, assigned(t).TruncateFromEnd(7))
}

// K052: the epoch that covers the new start stays, from there on.
func TestTruncateFromStartKeepsTheEpochThatCoversIt(t *testing.T) {
	unchanged := []Entry{{2, 6}, {3, 8}, {4, 11}}
	tests := []struct {
		start int64
		want  []Entry
	}{
		{7, []Entry{{2, 7}, {3, 8}, {4, 11}}},
		{8, []Entry{{3, 8}, {4, 11}}},
		{9, []Entry{{3, 9}, {4, 11}}},
		{10, []Entry{{3, 10}, {4, 11}}},
		{11, []Entry{{4, 11}}},
		{12, []Entry{{4, 12}}},
		{15, []Entry{{4, 15}}},
		{6, unchanged},
		{1, unchanged},
		{-1, unchanged},
	}
	for _, tt := range tests {
		c := assigned(t, unchanged...)
		changed := c.TruncateFromStart(tt.start)
		require.Equal(t, tt.want, c.Entries(), "TruncateFromStart(%d)", tt.start)
		require.Equal(t, !slices.Equal(tt.want, unchanged), changed, "TruncateFromStart(%d)", tt.start)
	}
	require.False(t, assigned(t).TruncateFromStart(7))
}

func TestNeighboursOfAnEpoch(t *testing.T) {
	c := assigned(t, Entry{2, 10}, Entry{4, 15}, Entry{10, 20})
	previous := func(epoch int32) Entry { e, _ := c.Previous(epoch); return e }
	next := func(epoch int32) Entry { e, _ := c.Next(epoch); return e }
	none := Entry{NoEpoch, NoOffset}

	require.Equal(t, Entry{4, 15}, previous(10))
	require.Equal(t, Entry{10, 20}, previous(11))
	require.Equal(t, Entry{2, 10}, previous(3))
	require.Equal(t, none, previous(2))
	require.Equal(t, none, previous(-1<<31))
	require.Equal(t, Entry{2, 10}, next(-1))
	require.Equal(t, Entry{4, 15}, next(2))
	require.Equal(t, Entry{10, 20}, next(5))
	require.Equal(t, none, next(10))
	require.Equal(t, none, next(1<<31-1))

	require.True(t, c.TruncateFromEnd(18))
	latest, ok := c.Latest()
	require.True(t, ok)
	require.Equal(t, Entry{4, 15}, latest)
	require.Equal(t, Entry{2, 10}, previous(latest.Epoch))

	c = assigned(t, Entry{0, 0}, Entry{1, 100}, Entry{2, 200})
	require.Equal(t, Entry{0, 0}, next(-1))
	earliest, ok := c.Earliest()
	require.True(t, ok)
	require.Equal(t, Entry{0, 0}, earliest)
}

func TestEpochForOffset(t *testing.T) {
	c := assigned(t, Entry{2, 6}, Entry{3, 8}, Entry{5, 11})
	for offset, want := range map[int64]int32{6: 2, 7: 2, 8: 3, 10: 3, 11: 5, 1 << 40: 5} {
		got, ok := c.EpochForOffset(offset)
		require.True(t, ok)
		require.Equal(t, want, got, "offset %d", offset)
	}
	for _, offset := range []int64{5, 0, -1} {
		got, ok := c.EpochForOffset(offset)
		require.False(t, ok)
		require.Equal(t, NoEpoch, got)
	}
}

func TestClearForgetsEverything(t *testing.T) {
	c := assigned(t, Entry{2, 6})
	require.True(t, c.Clear())
	require.False(t, c.Clear())
	require.Empty(t, c.Entries())
	_, ok := c.Latest()
	require.False(t, ok)
	_, ok = c.Earliest()
	require.False(t, ok)
}

func TestAssignOfTheLatestEpochDoesNotAllocate(t *testing.T) {
	c := assigned(t, Entry{2, 6})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = c.Assign(2, 7)
		c.EndOffsetFor(1, 9)
		c.EpochForOffset(7)
	}))
}

func TestFlushWritesWhatReadFileReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leader-epoch-checkpoint")
	_, err := ReadFile(vfs.OS, path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	c := assigned(t)
	require.NoError(t, c.Flush(vfs.OS, path))
	require.NoFileExists(t, path) // nothing to say

	for _, e := range []Entry{{0, 0}, {3, 41022}} {
		_, err := c.Assign(e.Epoch, e.StartOffset)
		require.NoError(t, err)
	}
	require.True(t, c.Dirty())
	require.NoError(t, c.Flush(vfs.OS, path))
	require.False(t, c.Dirty())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "0\n2\n0 0\n3 41022\n", string(data))

	entries, err := ReadFile(vfs.OS, path)
	require.NoError(t, err)
	require.Equal(t, c.Entries(), entries)
	require.False(t, assigned(t, entries...).Dirty())

	require.True(t, c.Clear())
	require.NoError(t, c.Flush(vfs.OS, path))
	entries, err = ReadFile(vfs.OS, path)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestNewIsDirtyWhenTheFileContradictsItself(t *testing.T) {
	c := assigned(t, Entry{1, 5}, Entry{2, 6}, Entry{1, 7})
	require.True(t, c.Dirty())
	require.Equal(t, []Entry{{1, 7}}, c.Entries())
}

func TestReadFileNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Entry
		wrong      bool
	}{
		{name: "empty"},
		{name: "header only", text: "0\n"},
		{name: "no entries", text: "0\n0\n"},
		{name: "two entries", text: "0\n2\n0 0\n1 1\n", want: []Entry{{0, 0}, {1, 1}}},
		{name: "out of order is for New to settle", text: "0\n2\n1 1\n0 0\n", want: []Entry{{1, 1}, {0, 0}}},
		{name: "fewer lines than announced", text: "0\n3\n0 0\n1 1\n", wrong: true},
		{name: "later version", text: "1\n0\n", wrong: true},
		{name: "binary zeros", text: "\x00\x00\x00\x00\x00\x00", wrong: true},
		{name: "no entry", text: "0\n1\nfoo\n", wrong: true},
		{name: "three fields", text: "0\n1\n0 0 0\n", wrong: true},
		{name: "negative epoch", text: "0\n1\n-1 0\n", wrong: true},
		{name: "negative offset", text: "0\n1\n0 -1\n", wrong: true},
		{name: "epoch beyond 31 bits", text: "0\n1\n2147483648 0\n", wrong: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "leader-epoch-checkpoint")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			got, err := ReadFile(vfs.OS, path)
			require.Equal(t, tt.want, got)
			if tt.wrong {
				require.ErrorIs(t, err, checkpoint.ErrCorrupt)
				require.ErrorContains(t, err, path)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// fullDisk refuses to write.
type fullDisk struct{ vfs.FS }

func (d fullDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := d.FS.OpenFile(name, flag, perm)
	return fullFile{file}, err
}

type fullFile struct{ vfs.File }

func (f fullFile) WriteAt(b []byte, at int64) (int, error) { return 0, syscall.ENOSPC }

func TestFlushKeepsTheOldFileOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leader-epoch-checkpoint")
	c := assigned(t)
	_, err := c.Assign(1, 5)
	require.NoError(t, err)
	require.NoError(t, c.Flush(vfs.OS, path))
	_, err = c.Assign(2, 6)
	require.NoError(t, err)

	require.ErrorIs(t, c.Flush(fullDisk{vfs.OS}, path), syscall.ENOSPC)
	require.True(t, c.Dirty())
	entries, err := ReadFile(vfs.OS, path)
	require.NoError(t, err)
	require.Equal(t, []Entry{{1, 5}}, entries)
	require.NoFileExists(t, path+".tmp")

	require.NoError(t, c.Flush(vfs.OS, path))
	entries, err = ReadFile(vfs.OS, path)
	require.NoError(t, err)
	require.Equal(t, []Entry{{1, 5}, {2, 6}}, entries)
}

// Whoever flushes last, what was assigned before its Flush is in the file after.
func TestFlushNeverGoesBackToOlderEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leader-epoch-checkpoint")
	c := assigned(t)
	const epochs = 8
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for epoch := range int32(epochs) {
				latest, _ := c.Latest()
				_, err := c.Assign(max(epoch, latest.Epoch), int64(max(epoch, latest.Epoch)))
				if err == nil {
					err = c.Flush(vfs.OS, path)
				}
				if err != nil {
					t.Error(err)
				}
				c.EndOffsetFor(epoch, epochs)
				c.TruncateFromStart(int64(epoch) / 2)
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Flush(vfs.OS, path))
	entries, err := ReadFile(vfs.OS, path)
	require.NoError(t, err)
	require.Equal(t, c.Entries(), entries)
}

// model is the cache as Kafka's LeaderEpochFileCache describes it, in the plainest
// way: a list that is searched from end to end.
type model []Entry

func (m model) endOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	if epoch == NoEpoch || len(m) == 0 {
		return NoEpoch, NoOffset
	}
	if m[len(m)-1].Epoch == epoch {
		return epoch, logEnd
	}
	floor := epoch
	for _, e := range m {
		if e.Epoch > epoch {
			return floor, e.StartOffset
		}
		floor = e.Epoch
	}
	return NoEpoch, NoOffset
}

func (m model) epochForOffset(offset int64) int32 {
	epoch := NoEpoch
	for _, e := range m {
		if e.StartOffset <= offset {
			epoch = e.Epoch
		}
	}
	return epoch
}

func (m model) assign(epoch int32, start int64) model {
	if n := len(m); n > 0 && m[n-1].Epoch == epoch && start >= m[n-1].StartOffset {
		return m
	}
	var kept model
	for _, e := range m {
		if e.Epoch < epoch && e.StartOffset < start {
			kept = append(kept, e)
		}
	}
	return append(kept, Entry{epoch, start})
}

func (m model) truncateFromEnd(end int64) model {
	if end < 0 {
		return m
	}
	return slices.DeleteFunc(slices.Clone(m), func(e Entry) bool { return e.StartOffset >= end })
}

func (m model) truncateFromStart(start int64) model {
	var kept model
	covering := m.epochForOffset(start)
	for _, e := range m {
		if e.Epoch == covering {
			e.StartOffset = start
		}
		if e.StartOffset >= start {
			kept = append(kept, e)
		}
	}
	return kept
}

func TestCacheAnswersAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := assigned(t)
		var m model
		epochs := rapid.Int32Range(0, 12)
		offsets := rapid.Int64Range(0, 40)
		t.Repeat(map[string]func(*rapid.T){
			"assign": func(t *rapid.T) {
				epoch, start := epochs.Draw(t, "epoch"), offsets.Draw(t, "start")
				_, err := c.Assign(epoch, start)
				require.NoError(t, err)
				m = m.assign(epoch, start)
			},
			"truncate from end": func(t *rapid.T) {
				end := offsets.Draw(t, "end")
				c.TruncateFromEnd(end)
				m = m.truncateFromEnd(end)
			},
			"truncate from start": func(t *rapid.T) {
				start := offsets.Draw(t, "start")
				c.TruncateFromStart(start)
				m = m.truncateFromStart(start)
			},
			"write and read": func(t *rapid.T) {
				entries, err := Parse(Append(nil, c.Entries()))
				require.NoError(t, err)
				c = assigned(t, entries...)
			},
			"": func(t *rapid.T) {
				require.Equal(t, []Entry(append(model{}, m...)), append([]Entry{}, c.Entries()...))
				for epoch := int32(-1); epoch < 14; epoch++ {
					wantEpoch, wantEnd := m.endOffsetFor(epoch, 99)
					gotEpoch, gotEnd := c.EndOffsetFor(epoch, 99)
					require.Equal(t, Entry{wantEpoch, wantEnd}, Entry{gotEpoch, gotEnd}, "epoch %d", epoch)
				}
				for offset := int64(-1); offset < 42; offset++ {
					got, _ := c.EpochForOffset(offset)
					require.Equal(t, m.epochForOffset(offset), got, "offset %d", offset)
				}
			},
		})
	})
}

// FuzzParse: never panics; what parses comes back from what is written of it; a
// cache takes whatever parses.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "0\n", "0\n3\n0 0\n1 1\n", "1\n0\n", "0\n2\n0 0\n3 41022\n", "0\n2\n3 5\n1 7\n",
		"0\r\n1\r\n2147483647\t9223372036854775807\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Parse(data)
		if err != nil {
			require.ErrorIs(t, err, checkpoint.ErrCorrupt)
			return
		}
		again, err := Parse(Append(nil, entries))
		require.NoError(t, err)
		require.Equal(t, entries, again)
		got := assigned(t, entries...).Entries()
		for i := 1; i < len(got); i++ {
			require.Less(t, got[i-1].Epoch, got[i].Epoch)
			require.Less(t, got[i-1].StartOffset, got[i].StartOffset)
		}
	})
}
