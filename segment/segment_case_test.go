package segment_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
	"github.com/stretchr/testify/require"
)

// Rows of Kafka's LogSegmentTest.java that apply; the numbers in comments are
// those of our list of them. Those on transactions, leader epochs and
// preallocation belong to other packages or have no counterpart.

// create makes a segment that is retired when the test ends.
func create(t *testing.T, base int64, o segment.Options) *segment.Segment {
	t.Helper()
	s, err := segment.Create(t.TempDir(), base, options(o))
	require.NoError(t, err)
	t.Cleanup(func() { s.Retire() })
	return s
}

func options(o segment.Options) segment.Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.IndexIntervalBytes == 0 {
		o.IndexIntervalBytes = 4096
	}
	return o
}

// reopen retires s and opens its files again, for writing.
func reopen(t *testing.T, s *segment.Segment, o segment.Options) *segment.Segment {
	t.Helper()
	require.NoError(t, s.Retire())
	s = segment.Open(filepath.Dir(s.LogPath()), s.Base(), options(o))
	require.NoError(t, s.Activate())
	t.Cleanup(func() { s.Retire() })
	return s
}

// set is one batch of the given offsets, each with the timestamp times its
// offset.
func set(t *testing.T, times int64, offsets ...int64) segment.Set {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: offsets[0]})
	for _, o := range offsets {
		require.NoError(t, b.AppendAt(o, record.Record{Timestamp: o * times, Value: fmt.Appendf(nil, "value %d", o)}))
	}
	bytes, err := b.Build()
	require.NoError(t, err)
	last := offsets[len(offsets)-1]
	return segment.Set{Bytes: slices.Clone(bytes), LastOffset: last, MaxTimestamp: last * times, OffsetOfMaxTimestamp: last}
}

// put appends a batch for each offset.
func put(t *testing.T, s *segment.Segment, times int64, offsets ...int64) {
	t.Helper()
	for _, o := range offsets {
		require.NoError(t, s.Append(set(t, times, o)))
	}
}

func span(first, last int64) []int64 {
	var offsets []int64
	for o := first; o <= last; o++ {
		offsets = append(offsets, o)
	}
	return offsets
}

// found are the offsets of all records from an offset on.
func found(t *testing.T, s *segment.Segment, offset int64) []int64 {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	var c segment.Scanner
	offsets := []int64{}
	for err := s.SeekOffset(&c, offset); ; {
		if err == nil {
			var b record.Batch
			if b, err = c.Checked(); err == nil {
				for r, err := range b.Records(nil) {
					require.NoError(t, err)
					offsets = append(offsets, r.Offset)
				}
				c.Advance()
				_, err = c.Header()
			}
		}
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return offsets
		}
	}
}

// firstAt is the first record at or after a timestamp, -1 if there is none.
func firstAt(t *testing.T, s *segment.Segment, timestamp int64) int64 {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	var c segment.Scanner
	err := s.SeekTime(&c, timestamp, s.Base(), segment.Unbounded)
	if errors.Is(err, io.EOF) {
		return -1
	}
	require.NoError(t, err)
	b, err := c.Checked()
	require.NoError(t, err)
	for r, err := range b.Records(nil) {
		require.NoError(t, err)
		if r.Timestamp >= timestamp {
			return r.Offset
		}
	}
	return -1
}

func largest(t *testing.T, s *segment.Segment) segment.TimestampOffset {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	var c segment.Scanner
	at, err := s.LargestTimestamp(&c)
	require.NoError(t, err)
	return at
}

func indexLengths(t *testing.T, s *segment.Segment) (offsets, times int) {
	t.Helper()
	require.NoError(t, s.Acquire())
	defer s.Release()
	return s.View().Index.Len(), s.View().Time.Len()
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// 100, and K114
func TestOffsetsThatDoNotFitAreRefused(t *testing.T) {
	tests := []struct {
		base, last int64
		fits       bool
	}{
		{0, math.MinInt32, false},
		{0, -1, false},
		{0, 0, true},
		{0, math.MaxInt32, true},
		{0, math.MaxInt32 + 1, false},
		{1, 0, false},
		{100, 10, false},
		{1000, 1000 + math.MaxInt32, true},
		{1000, 1000 + math.MaxInt32 + 1, false},
		{1 << 31, 0, false},
		{1 << 31, 1 << 32, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d at base %d", tt.last, tt.base), func(t *testing.T) {
			s := create(t, tt.base, segment.Options{})
			require.Equal(t, tt.fits, s.Fits(tt.last))
			next := s.NextOffset()
			one := set(t, 1, 5)
			one.LastOffset = tt.last
			err := s.Append(one)
			if tt.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, segment.ErrOffsetOverflow)
			require.Zero(t, fileSize(t, s.LogPath()))
			require.Equal(t, next, s.NextOffset())
		})
	}
}

// 101 to 104
func TestReadingFindsTheFirstBatchThatReachesTheOffset(t *testing.T) {
	tests := []struct {
		name    string
		offsets []int64
		from    int64
		want    []int64
	}{
		{"an empty segment", nil, 40, []int64{}},
		{"below the first", []int64{50, 51, 52, 53}, 41, []int64{50, 51, 52, 53}},
		{"the first", []int64{50, 51}, 50, []int64{50, 51}},
		{"the last", []int64{50, 51}, 51, []int64{51}},
		{"beyond the last", []int64{50, 51}, 52, []int64{}},
		{"in a gap", []int64{50, 51, 60, 61}, 55, []int64{60, 61}},
		{"far away", []int64{50, 51}, math.MaxInt64, []int64{}},
	}
	for _, interval := range []int64{1, 4096} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, interval %d", tt.name, interval), func(t *testing.T) {
				s := create(t, 40, segment.Options{IndexIntervalBytes: interval})
				put(t, s, 1, tt.offsets...)
				require.Equal(t, tt.want, found(t, s, tt.from))
				require.NoError(t, s.Seal())
				require.NoError(t, s.Trim())
				require.Equal(t, tt.want, found(t, s, tt.from))
			})
		}
	}
}

// 106
func TestTruncatingAndAppendingAgainLeavesOneRecord(t *testing.T) {
	s := create(t, 40, segment.Options{IndexIntervalBytes: 1})
	offset := int64(40)
	put(t, s, 1, offset)
	for range 30 {
		put(t, s, 1, offset+1)
		require.Equal(t, []int64{offset, offset + 1}, found(t, s, offset))
		require.NoError(t, s.TruncateTo(offset+1))
		require.Equal(t, []int64{offset}, found(t, s, offset))
		require.Equal(t, offset+1, s.NextOffset())
		require.NoError(t, s.TruncateTo(offset))
		offset++
		put(t, s, 1, offset)
	}
}

// 107, and K028
// A scanner has seen a batch that is cut off before it is read.
func TestAScanEndsWhereTheSegmentWasTruncated(t *testing.T) {
	s := create(t, 0, segment.Options{})
	put(t, s, 1, 0, 1)
	put(t, s, 1, 2, 3)
	require.NoError(t, s.Acquire())
	var c segment.Scanner
	require.NoError(t, s.SeekBelow(&c, 2, segment.Unbounded))
	h, err := c.Header()
	require.NoError(t, err)
	require.Equal(t, int64(2), h.BaseOffset)
	s.Release()
	require.NoError(t, s.TruncateTo(2))
	require.NoError(t, s.Acquire())
	defer s.Release()
	c.Extend(s.View().Size)
	_, err = c.Checked()
	require.ErrorIs(t, err, io.EOF)
}

func TestTruncatingAnEmptySegmentLeavesRoomInItsIndexes(t *testing.T) {
	o := segment.Options{IndexIntervalBytes: 1, IndexMaxBytes: 1000}
	s := reopen(t, create(t, 40, o), o)
	require.Zero(t, fileSize(t, filepath.Join(filepath.Dir(s.LogPath()), "00000000000000000040.index")))
	require.NoError(t, s.TruncateTo(57))
	require.False(t, s.IndexesFull())
	require.Negative(t, s.RollAnchor(), "an empty segment has no age")
	put(t, s, 1, span(57, 77)...)
	offsets, times := indexLengths(t, s)
	require.Equal(t, 20, offsets)
	require.Equal(t, 20, times)
}

// 108
func TestTheLargestTimestampIsFoundAgainAfterReopeningAndTruncating(t *testing.T) {
	size := int64(len(set(t, 10, 40).Bytes))
	o := segment.Options{IndexIntervalBytes: 2*size - 1}
	s := create(t, 40, o)
	put(t, s, 10, span(40, 69)...)
	_, times := indexLengths(t, s)
	require.Equal(t, 14, times)
	want := segment.TimestampOffset{Timestamp: 690, Offset: 69}
	require.Equal(t, want, largest(t, s))
	require.Equal(t, want, s.Newest())
	s = reopen(t, s, o)
	require.Equal(t, want, largest(t, s))
	require.NoError(t, s.TruncateTo(41))
	_, times = indexLengths(t, s)
	require.Zero(t, times)
	require.Equal(t, segment.TimestampOffset{Timestamp: 400, Offset: 40}, largest(t, s))
	require.Equal(t, int64(41), s.NextOffset())
}

// 109, 121
func TestTheAgeOfASegmentCountsFromItsFirstBatch(t *testing.T) {
	s := create(t, 40, segment.Options{})
	require.Equal(t, int64(-1), s.RollAnchor())
	put(t, s, 25, 40, 41)
	require.Equal(t, int64(1000), s.RollAnchor())
	s = reopen(t, s, segment.Options{})
	require.Equal(t, int64(1000), s.RollAnchor())
	require.NoError(t, s.TruncateTo(0))
	require.Equal(t, int64(-1), s.RollAnchor())
	require.Empty(t, found(t, s, 40))
	require.Equal(t, int64(40), s.NextOffset())
	require.Zero(t, fileSize(t, s.LogPath()))
	put(t, s, 30, 40)
	require.Equal(t, int64(1200), s.RollAnchor())
	require.Equal(t, []int64{40}, found(t, s, 40))
}

// 110
func TestFindingByTimestamp(t *testing.T) {
	size := int64(len(set(t, 10, 40).Bytes))
	o := segment.Options{IndexIntervalBytes: 2*size - 1}
	s := create(t, 40, o)
	put(t, s, 10, span(40, 49)...)
	for range 2 {
		for timestamp, want := range map[int64]int64{420: 42, 421: 43, 430: 43, 431: 44, 490: 49, 491: -1, 401: 41, 400: 40, 399: 40, 0: 40} {
			require.Equal(t, want, firstAt(t, s, timestamp), "timestamp %d", timestamp)
		}
		s = reopen(t, s, o)
	}
}

// 111
func TestTheNextOffsetFollowsTheLastBatch(t *testing.T) {
	s := create(t, 40, segment.Options{})
	require.Equal(t, int64(40), s.NextOffset())
	require.NoError(t, s.Append(set(t, 1, 50, 51, 52)))
	require.Equal(t, int64(53), s.NextOffset())
	s = reopen(t, s, segment.Options{})
	require.Equal(t, int64(53), s.NextOffset())
}

// 113, 114
func TestRecoveryMakesIndexesThatWereOverwrittenAnew(t *testing.T) {
	o := segment.Options{IndexIntervalBytes: 100}
	for _, suffix := range []string{".index", ".timeindex"} {
		t.Run(suffix, func(t *testing.T) {
			s := create(t, 0, o)
			put(t, s, 10, span(0, 99)...)
			require.NoError(t, s.Retire())
			path := filepath.Join(filepath.Dir(s.LogPath()), "00000000000000000000"+suffix)
			was, err := os.ReadFile(path)
			require.NoError(t, err)
			bad := slices.Clone(was)
			for i := 5; i < len(bad); i++ {
				bad[i] = byte(i * 37)
			}
			require.NoError(t, os.WriteFile(path, bad, 0o644))

			s = segment.Open(filepath.Dir(s.LogPath()), 0, options(o))
			t.Cleanup(func() { s.Retire() })
			r, err := s.Recover(segment.RecoverOptions{})
			require.NoError(t, err)
			require.Equal(t, int64(100), r.Batches)
			require.Zero(t, r.Cut)
			for i := range int64(100) {
				require.Equal(t, i, found(t, s, i)[0])
				require.Equal(t, i, firstAt(t, s, i*10))
				if i < 99 {
					require.Equal(t, i+1, firstAt(t, s, i*10+1))
				}
			}
			require.NoError(t, s.Retire())
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, was, now)
		})
	}
}

// 117
func TestRecoveryCutsFromTheFirstBadBatchOn(t *testing.T) {
	for bad := range int64(20) {
		s := create(t, 0, segment.Options{IndexIntervalBytes: 100})
		put(t, s, 1, span(0, 19)...)
		require.NoError(t, s.Retire())
		data, err := os.ReadFile(s.LogPath())
		require.NoError(t, err)
		size := len(data)
		position := 0
		for range bad {
			position += 12 + int(binary.BigEndian.Uint32(data[position+8:]))
		}
		copy(data[position+20:], "garbage from inside this batch on, whatever its header says")
		require.NoError(t, os.WriteFile(s.LogPath(), data, 0o644))

		s = segment.Open(filepath.Dir(s.LogPath()), 0, options(segment.Options{}))
		r, err := s.Recover(segment.RecoverOptions{})
		require.NoError(t, err)
		require.Equal(t, bad, r.Batches)
		require.Equal(t, int64(position), r.Bytes)
		require.Equal(t, int64(size-position), r.Cut)
		var damage *segment.CorruptionError
		require.ErrorAs(t, r.Reason, &damage)
		require.Equal(t, int64(position), damage.Position)
		require.Equal(t, int64(position), fileSize(t, s.LogPath()))
		require.Len(t, found(t, s, 0), int(bad))
		put(t, s, 1, 20)
		require.NoError(t, s.Retire())
	}
}

// 119
func TestTruncatingInAGapKeepsWhatIsBelow(t *testing.T) {
	s := create(t, 40, segment.Options{IndexIntervalBytes: 1})
	put(t, s, 1, 40, 43)
	require.NoError(t, s.TruncateTo(41))
	require.Equal(t, []int64{40}, found(t, s, 40))
	require.Equal(t, int64(41), s.NextOffset())
}

// A segment under another name, as a swap is read before it is in place.
func TestASegmentWithASuffixReadsUnderThatName(t *testing.T) {
	s := create(t, 40, segment.Options{})
	put(t, s, 1, 40, 41)
	require.NoError(t, s.Retire())
	dir := filepath.Dir(s.LogPath())
	for _, path := range s.Paths()[:3] {
		require.NoError(t, os.Rename(path, path+".swap"))
	}
	swap := segment.Open(dir, 40, options(segment.Options{ReadOnly: true, Suffix: ".swap"}))
	require.Equal(t, []int64{40, 41}, found(t, swap, 40))
	require.Equal(t, "00000000000000000040.log.swap", swap.Name())
	require.NoError(t, swap.Retire())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing was made under the plain names")
}

// A retired segment refuses, and whoever held it has finished.
func TestARetiredSegmentCannotBeAcquired(t *testing.T) {
	s := create(t, 40, segment.Options{})
	put(t, s, 1, 40)
	require.NoError(t, s.Remove())
	require.ErrorIs(t, s.Acquire(), segment.ErrRetired)
	entries, err := os.ReadDir(filepath.Dir(s.LogPath()))
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, s.Retire(), "again does nothing")
}

// hooks is the real file system with one hook: what a WriteAt of a log does.
type hooks struct {
	vfs.FS
	write    func(f vfs.File, b []byte, at int64) (int, error)
	read     func(f vfs.File, b []byte, at int64) (int, error)
	truncate func(f vfs.File, size int64) error
}

func (h *hooks) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return hooked{f, h}, nil
}

type hooked struct {
	vfs.File
	h *hooks
}

func (f hooked) WriteAt(b []byte, at int64) (int, error) {
	if f.h.write != nil {
		return f.h.write(f.File, b, at)
	}
	return f.File.WriteAt(b, at)
}

func (f hooked) ReadAt(b []byte, at int64) (int, error) {
	if f.h.read != nil {
		return f.h.read(f.File, b, at)
	}
	return f.File.ReadAt(b, at)
}

func (f hooked) Truncate(size int64) error {
	if f.h.truncate != nil {
		return f.h.truncate(f.File, size)
	}
	return f.File.Truncate(size)
}

var errFull = errors.New("no space left on device")

// K048
func TestAFailedAppendLeavesNothingBehind(t *testing.T) {
	h := &hooks{FS: vfs.OS}
	s := create(t, 0, segment.Options{FS: h, IndexIntervalBytes: 1})
	put(t, s, 1, span(0, 4)...)
	size, newest := fileSize(t, s.LogPath()), s.Newest()
	offsets, times := indexLengths(t, s)
	for _, part := range []int{0, 1, 30, 61, 70} {
		h.write = func(f vfs.File, b []byte, at int64) (int, error) {
			n, err := f.WriteAt(b[:min(part, len(b))], at)
			return n, errors.Join(err, errFull)
		}
		for range 3 {
			require.ErrorIs(t, s.Append(set(t, 1, 5)), errFull)
			require.Equal(t, size, fileSize(t, s.LogPath()), "%d bytes were written", part)
			require.Equal(t, int64(5), s.NextOffset())
			require.Equal(t, newest, s.Newest())
			o, n := indexLengths(t, s)
			require.Equal(t, [2]int{offsets, times}, [2]int{o, n})
			require.Equal(t, span(0, 4), found(t, s, 0))
		}
	}
	h.write = nil
	put(t, s, 1, 5)
	require.Equal(t, span(0, 5), found(t, s, 0))
}

// K048, where the cut fails too.
func TestAnAppendThatCannotBeUndoneSaysSo(t *testing.T) {
	h := &hooks{FS: vfs.OS}
	s := create(t, 0, segment.Options{FS: h})
	put(t, s, 1, span(0, 4)...)
	size := fileSize(t, s.LogPath())
	h.write = func(f vfs.File, b []byte, at int64) (int, error) {
		n, err := f.WriteAt(b[:30], at)
		return n, errors.Join(err, errFull)
	}
	h.truncate = func(vfs.File, int64) error { return errFull }
	err := s.Append(set(t, 1, 5))
	require.ErrorIs(t, err, segment.ErrAppendNotUndone)
	require.ErrorIs(t, err, errFull)
	require.Equal(t, int64(5), s.NextOffset())
	require.Equal(t, span(0, 4), found(t, s, 0), "what was there can be read")

	// The next one to open it cuts.
	h.write, h.truncate = nil, nil
	require.NoError(t, s.Retire())
	s = segment.Open(filepath.Dir(s.LogPath()), 0, options(segment.Options{}))
	t.Cleanup(func() { s.Retire() })
	r, err := s.Recover(segment.RecoverOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(30), r.Cut)
	require.Equal(t, size, fileSize(t, s.LogPath()))
	require.Equal(t, span(0, 4), found(t, s, 0))
}

// K049
func TestShortReadsAndWritesAreGoneOnWith(t *testing.T) {
	short := &hooks{FS: vfs.OS,
		read: func(f vfs.File, b []byte, at int64) (int, error) {
			n, err := f.ReadAt(b[:min(7, len(b))], at)
			if n > 0 {
				err = nil
			}
			return n, err
		},
		write: func(f vfs.File, b []byte, at int64) (int, error) { return f.WriteAt(b[:min(13, len(b))], at) },
	}
	o := segment.Options{IndexIntervalBytes: 100}
	whole := create(t, 0, o)
	put(t, whole, 1, span(0, 40)...)
	o.FS = short
	s := create(t, 0, o)
	put(t, s, 1, span(0, 40)...)
	for range 2 {
		require.Equal(t, span(0, 40), found(t, s, 0))
		require.Equal(t, int64(17), firstAt(t, s, 17))
		s = reopen(t, s, o)
	}
	require.NoError(t, s.Retire())
	recovered := segment.Open(filepath.Dir(s.LogPath()), 0, options(o))
	r, err := recovered.Recover(segment.RecoverOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(41), r.Batches)
	require.Zero(t, r.Cut)
	require.NoError(t, recovered.Retire())
	require.NoError(t, whole.Retire())
	for i, path := range whole.Paths()[:3] {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := os.ReadFile(s.Paths()[i])
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
}

// K049: a file that ends early is an error, never zeros.
func TestAFileThatBecameShorterIsAnErrorAndNotZeros(t *testing.T) {
	s := create(t, 0, segment.Options{})
	put(t, s, 1, span(0, 9)...)
	require.NoError(t, os.Truncate(s.LogPath(), fileSize(t, s.LogPath())-20))
	require.NoError(t, s.Acquire())
	defer s.Release()
	var c segment.Scanner
	require.NoError(t, s.SeekOffset(&c, 0))
	n := 0
	for ; ; n++ {
		_, err := c.Checked()
		if err != nil {
			require.ErrorIs(t, err, segment.ErrCorrupt)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			break
		}
		c.Advance()
		if _, err := c.Header(); err != nil {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			break
		}
	}
	require.GreaterOrEqual(t, n, 8)
}
