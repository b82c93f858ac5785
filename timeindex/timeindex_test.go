package timeindex_test

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/timeindex"
	"github.com/stretchr/testify/require"
)

func newIndex(t testing.TB, base int64, o timeindex.Options) (*timeindex.Index, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "00000000000000000000.timeindex")
	x, err := timeindex.Create(path, base, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Drop() })
	return x, path
}

func reopen(t testing.TB, x *timeindex.Index, path string, o timeindex.Options) *timeindex.Index {
	t.Helper()
	require.NoError(t, x.Close())
	y, err := timeindex.Open(path, x.Base(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = y.Drop() })
	return y
}

func appendAll(t testing.TB, x *timeindex.Index, entries ...timeindex.Entry) {
	t.Helper()
	for _, e := range entries {
		require.NoError(t, x.MaybeAppend(e.Timestamp, e.Offset, false))
	}
}

func entriesOf(x *timeindex.Index) []timeindex.Entry {
	var all []timeindex.Entry
	for i := range x.Len() {
		all = append(all, x.At(i))
	}
	return all
}

// unhex turns annotated bytes, one field a line, into bytes.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		_, field, _ := strings.Cut(line, ":")
		digits.WriteString(strings.ReplaceAll(strings.TrimSpace(field), " ", ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

func TestFileFormatIsKafkas(t *testing.T) {
	const golden = `
		00-08: 00 00 00 00 00 00 00 00   # timestamp 0, 1970
		08-12: 00 00 00 00               # relative offset 0, base offset 41000
		12-20: 00 00 01 9b 76 da a8 00   # timestamp 1767225600000, 2026-01-01
		20-24: 00 01 86 a0               # relative offset 100000
		24-32: 7f ff ff ff ff ff ff ff   # timestamp 9223372036854775807, the largest
		32-36: 7f ff ff ff               # relative offset 2147483647, the largest
	`
	x, path := newIndex(t, 41000, timeindex.Options{})
	want := []timeindex.Entry{{0, 41000}, {1767225600000, 141000}, {math.MaxInt64, 41000 + math.MaxInt32}}
	appendAll(t, x, want...)
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, unhex(t, golden), got)

	x, err = timeindex.OpenReadOnly(path, 41000, timeindex.Options{})
	require.NoError(t, err)
	require.Equal(t, want, entriesOf(x))
	require.NoError(t, x.Check())
	require.NoError(t, x.Close())
}

func TestEntryIsTimestampThenRelativeOffset(t *testing.T) { // row 87
	x, path := newIndex(t, 45, timeindex.Options{})
	appendAll(t, x, timeindex.Entry{Timestamp: 1, Offset: 46})
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "0: 0000000000000001 00000001"), got)
}

func TestEmptyIndexSendsEveryLookupToTheBase(t *testing.T) { // row 78
	x, _ := newIndex(t, 45, timeindex.Options{})
	none := timeindex.Entry{Timestamp: -1, Offset: 45}
	for _, timestamp := range []int64{math.MinInt64, -1, 0, 100, math.MaxInt64} {
		require.Equal(t, none, x.Lookup(timestamp))
		require.Equal(t, none, x.LookupOffset(timestamp))
	}
	last, ok := x.Last()
	require.False(t, ok)
	require.Equal(t, none, last)
	require.NoError(t, x.Check())
}

// newRows returns an index of capacity 30 and base 45 with the entries
// (10i, 45+10i) for i from 1 to 29.
func newRows(t testing.TB) (*timeindex.Index, string) {
	t.Helper()
	x, path := newIndex(t, 45, timeindex.Options{MaxBytes: 30 * 12})
	for i := int64(1); i < 30; i++ {
		require.NoError(t, x.MaybeAppend(10*i, 45+10*i, false))
	}
	return x, path
}

func TestLookupFindsTheFloor(t *testing.T) { // row 79
	x, _ := newRows(t)
	for _, row := range []struct {
		name      string
		timestamp int64
		want      timeindex.Entry
	}{
		{"below everything", math.MinInt64, timeindex.Entry{Timestamp: -1, Offset: 45}},
		{"no timestamp", -1, timeindex.Entry{Timestamp: -1, Offset: 45}},
		{"below the first", 9, timeindex.Entry{Timestamp: -1, Offset: 45}},
		{"between", 25, timeindex.Entry{Timestamp: 20, Offset: 65}},
		{"equal", 30, timeindex.Entry{Timestamp: 30, Offset: 75}},
		{"last", 290, timeindex.Entry{Timestamp: 290, Offset: 335}},
		{"above everything", math.MaxInt64, timeindex.Entry{Timestamp: 290, Offset: 335}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, x.Lookup(row.timestamp))
		})
	}
}

func TestLookupOffsetFindsTheFloor(t *testing.T) {
	x, _ := newRows(t)
	for _, row := range []struct {
		name   string
		offset int64
		want   timeindex.Entry
	}{
		{"below base", 44, timeindex.Entry{Timestamp: -1, Offset: 45}},
		{"base", 45, timeindex.Entry{Timestamp: -1, Offset: 45}},
		{"first", 55, timeindex.Entry{Timestamp: 10, Offset: 55}},
		{"between", 80, timeindex.Entry{Timestamp: 30, Offset: 75}},
		{"last", 335, timeindex.Entry{Timestamp: 290, Offset: 335}},
		{"above everything", math.MaxInt64, timeindex.Entry{Timestamp: 290, Offset: 335}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, x.LookupOffset(row.offset))
		})
	}
}

func TestLastSlotIsReservedForClosing(t *testing.T) { // row 80
	x, _ := newRows(t)
	require.Equal(t, 30, x.Cap())
	require.Equal(t, 29, x.Len())
	require.True(t, x.Full())
	require.ErrorIs(t, x.MaybeAppend(10000, 1000, false), timeindex.ErrFull)
	require.ErrorIs(t, x.MaybeAppend(290, 335, false), timeindex.ErrFull, "even with nothing to add")
	require.NoError(t, x.MaybeAppend(10000, 1000, true))
	require.Equal(t, 30, x.Len())
	require.ErrorIs(t, x.MaybeAppend(10001, 1001, true), timeindex.ErrFull)
	require.NoError(t, x.MaybeAppend(10000, 1001, true), "nothing to add")
}

func TestAppendRefusesAndChangesNothing_K114(t *testing.T) { // rows 81 and 82
	const base = 1000
	for _, row := range []struct {
		name              string
		before            []timeindex.Entry
		timestamp, offset int64
		want              error
	}{
		{"smaller offset", []timeindex.Entry{{100, 1335}}, 10000, 1280, timeindex.ErrOrder},
		{"smaller timestamp", []timeindex.Entry{{100, 1335}}, 5, 1400, timeindex.ErrOrder},
		{"smaller offset, equal timestamp", []timeindex.Entry{{100, 1335}}, 100, 1280, timeindex.ErrOrder},
		{"no timestamp after one", []timeindex.Entry{{0, 1335}}, -1, 1400, timeindex.ErrOrder},
		{"below base", nil, 5, 999, timeindex.ErrOverflow},
		{"2^31 above base", []timeindex.Entry{{100, 1335}}, 101, base + math.MaxInt32 + 1, timeindex.ErrOverflow},
		{"far above base", nil, 5, math.MaxInt64, timeindex.ErrOverflow},
	} {
		t.Run(row.name, func(t *testing.T) {
			x, path := newIndex(t, base, timeindex.Options{})
			appendAll(t, x, row.before...)
			err := x.MaybeAppend(row.timestamp, row.offset, true)
			require.ErrorIs(t, err, row.want)
			require.ErrorContains(t, err, path)
			require.Equal(t, row.before, entriesOf(x))
		})
	}
}

func TestAppendIgnoresWhatIsNotLater(t *testing.T) { // row 83
	x, _ := newIndex(t, 45, timeindex.Options{})
	require.NoError(t, x.MaybeAppend(-1, 45, false), "no timestamp")
	require.NoError(t, x.MaybeAppend(-1, 50, true))
	require.NoError(t, x.MaybeAppend(-7, 50, true))
	require.Zero(t, x.Len())
	require.NoError(t, x.MaybeAppend(0, 45, false), "1970 is a timestamp")
	require.NoError(t, x.MaybeAppend(0, 50, false), "equal")
	require.NoError(t, x.MaybeAppend(7, 50, false))
	require.NoError(t, x.MaybeAppend(7, 60, false), "equal")
	require.NoError(t, x.MaybeAppend(8, 50, false), "later, at the same offset")
	require.Equal(t, []timeindex.Entry{{0, 45}, {7, 50}, {8, 50}}, entriesOf(x))
	require.NoError(t, x.Check())
	require.NoError(t, x.TruncateTo(50))
	require.Equal(t, []timeindex.Entry{{0, 45}}, entriesOf(x), "both at 50 are gone")
}

func TestTruncateRemovesFromTheOffsetOn(t *testing.T) { // row 84
	for _, row := range []struct {
		name   string
		offset int64
		want   int
	}{
		{"above everything", math.MaxInt64, 29},
		{"behind the last", 336, 29},
		{"the last", 335, 28},
		{"between", 80, 3},
		{"the first", 55, 0},
		{"base", 45, 0},
		{"below base", math.MinInt64, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			x, _ := newRows(t)
			require.NoError(t, x.TruncateTo(row.offset))
			require.Equal(t, row.want, x.Len())
			require.Equal(t, 30, x.Cap())
			require.NoError(t, x.MaybeAppend(1000, 1000, true))
			require.Equal(t, timeindex.Entry{Timestamp: 1000, Offset: 1000}, x.Lookup(1000))
		})
	}
}

// Kafka resizes to any size. Ours trims to its entries and grows to MaxBytes.
func TestTrimAndGrowChangeTheCapacity(t *testing.T) { // row 85
	x, path := newRows(t)
	require.NoError(t, x.TruncateTo(45+10*16))
	require.NoError(t, x.Trim())
	require.Equal(t, 15, x.Cap())
	require.True(t, x.Full())
	require.ErrorIs(t, x.MaybeAppend(1000, 1000, true), timeindex.ErrFull)
	require.NoError(t, x.Grow())
	require.Equal(t, 30, x.Cap())
	require.False(t, x.Full())

	x = reopen(t, x, path, timeindex.Options{MaxBytes: 60 * 12})
	require.Equal(t, 60, x.Cap())
	require.Equal(t, 15, x.Len())
	require.NoError(t, x.Reset())
	require.Zero(t, x.Len())
	require.Equal(t, 60, x.Cap())
}

func TestCapacityIsWholeEntries(t *testing.T) {
	for _, row := range []struct{ maxBytes, entries int }{
		{0, 873813}, {10485760, 873813}, {67, 5}, {12, 1},
	} {
		x, _ := newIndex(t, 0, timeindex.Options{MaxBytes: row.maxBytes})
		require.Equal(t, row.entries, x.Cap(), "%d bytes", row.maxBytes)
	}
	_, err := timeindex.Create(filepath.Join(t.TempDir(), "0.timeindex"), 0, timeindex.Options{MaxBytes: 11})
	require.Error(t, err)
}

func TestDamagedIndexIsReported_K024(t *testing.T) { // row 86
	for _, row := range []struct {
		name  string
		file  string
		entry int
		rule  string
		check bool // only Check finds it
	}{
		{"25 bytes", "0: 0000000000000001 00000001 0000000000000002 00000002 01", -1, "length 25 is not a multiple of 12", false},
		{"one byte short", "0: 0000000000000001 000000", -1, "length 11 is not a multiple of 12", false},
		{"last offset below base", "0: 0000000000000001 00000001 0000000000000002 fffffff6", 1, "relative offset -10 is negative", false},
		{"last timestamp below the first", "0: 0000000000000005 00000001 0000000000000004 00000002", 1, "timestamp 4 is not above 5 of entry 0", false},
		{"equal timestamps", "0: 0000000000000005 00000001 0000000000000005 00000002", 1, "timestamp 5 is not above 5 of entry 0", false},
		{"last offset below the first", "0: 0000000000000005 00000003 0000000000000006 00000002", 1, "relative offset 2 is below 3 of entry 0", false},
		{"negative timestamp", "0: ffffffffffffffff 00000003", 0, "timestamp -1 is negative", false},
		{"disorder in the middle", "0: 0000000000000001 00000001 0000000000000009 00000002 0000000000000003 00000003 000000000000000a 00000004 000000000000000b 00000005",
			2, "timestamp 3 is not above 9 of entry 1", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.timeindex")
			file := unhex(t, row.file)
			require.NoError(t, os.WriteFile(path, file, 0o644))
			want := &timeindex.CorruptError{File: path, Entry: row.entry, Rule: row.rule}
			var corrupt *timeindex.CorruptError

			x, err := timeindex.OpenReadOnly(path, 0, timeindex.Options{})
			require.NoError(t, err)
			require.ErrorAs(t, x.Check(), &corrupt)
			require.Equal(t, want, corrupt)
			require.NotPanics(t, func() { x.Lookup(3); x.LookupOffset(3); x.Last() })
			require.NoError(t, x.Close())

			x, err = timeindex.Open(path, 0, timeindex.Options{})
			if row.check {
				require.NoError(t, err)
				require.ErrorAs(t, x.Check(), &corrupt)
				require.Equal(t, want, corrupt)
				require.NoError(t, x.Close())
				return
			}
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, want, corrupt)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, file, got, "left as it is")
		})
	}
}

func TestLookupInADamagedIndexFallsBackToTheBeginning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.timeindex")
	require.NoError(t, os.WriteFile(path, unhex(t, "0: fffffffffffffff0 00000009  0000000000000005 ffffffff"), 0o644))
	x, err := timeindex.OpenReadOnly(path, 70, timeindex.Options{})
	require.NoError(t, err)
	none := timeindex.Entry{Timestamp: -1, Offset: 70}
	require.Equal(t, none, x.Lookup(0))
	require.Equal(t, none, x.Lookup(5))
	require.NoError(t, x.Close())
}

func TestZeroTailIsNotTheNewestTime_K022(t *testing.T) {
	good := unhex(t, "0: 0000019b76daa800 00000009  0000019b76daa801 00000013  0000019b76daa802 0000001d")
	path := filepath.Join(t.TempDir(), "0.timeindex")
	require.NoError(t, os.WriteFile(path, append(slices.Clone(good), make([]byte, 10485756-36)...), 0o644))
	newest := timeindex.Entry{Timestamp: 1767225600002, Offset: 29}

	x, err := timeindex.OpenReadOnly(path, 0, timeindex.Options{})
	require.NoError(t, err)
	require.Equal(t, 3, x.Len())
	require.Equal(t, 873813-3, x.Padding())
	last, ok := x.Last()
	require.True(t, ok)
	require.Equal(t, newest, last)
	require.NoError(t, x.Check())
	require.NoError(t, x.Close())

	x, err = timeindex.Open(path, 0, timeindex.Options{})
	require.NoError(t, err)
	require.Equal(t, newest, x.Lookup(math.MaxInt64))
	require.False(t, x.Full())
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, good, got, "trimmed")
}

func TestZeroByteFileIsAnEmptyIndex_K025(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.timeindex")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	for _, open := range []func(string, int64, timeindex.Options) (*timeindex.Index, error){timeindex.OpenReadOnly, timeindex.Open, timeindex.Create} {
		x, err := open(path, 7, timeindex.Options{})
		require.NoError(t, err)
		require.NoError(t, x.Check())
		require.Equal(t, timeindex.Entry{Timestamp: -1, Offset: 7}, x.Lookup(100))
		require.NoError(t, x.Close())
	}
	for _, open := range []func(string, int64, timeindex.Options) (*timeindex.Index, error){timeindex.OpenReadOnly, timeindex.Open} {
		_, err := open(path+"missing", 7, timeindex.Options{})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoFileExists(t, path+"missing")
	}
}

func TestTruncatedIndexRegainsItsCapacity_K028(t *testing.T) {
	x, path := newRows(t)
	require.NoError(t, x.Trim())
	require.NoError(t, x.TruncateTo(0))
	require.NoError(t, x.Grow())
	require.Equal(t, 30, x.Cap())
	require.NoError(t, x.Trim())
	x = reopen(t, x, path, timeindex.Options{MaxBytes: 30 * 12}) // a zero-byte file
	require.Equal(t, 30, x.Cap())
	require.NoError(t, x.MaybeAppend(1, 45, false))
}

func TestTinyIndexFillsWithoutPanic_K031(t *testing.T) {
	x, path := newIndex(t, 0, timeindex.Options{MaxBytes: 24})
	accepted := 0
	for i := range int64(10_000) {
		err := x.MaybeAppend(i, i, false)
		if err == nil {
			accepted++
			continue
		}
		require.ErrorIs(t, err, timeindex.ErrFull)
	}
	require.Equal(t, 1, accepted, "one slot is reserved")
	x = reopen(t, x, path, timeindex.Options{})
	for i := int64(1); i < 10_000; i++ {
		require.NoError(t, x.MaybeAppend(i, i, false))
	}
	x = reopen(t, x, path, timeindex.Options{})
	require.NoError(t, x.Check())
	for i := range 10_000 {
		require.Equal(t, timeindex.Entry{Timestamp: int64(i), Offset: int64(i)}, x.At(i))
	}
	require.Panics(t, func() { x.At(10_000) })
	require.Panics(t, func() { x.At(-1) })
}

func TestReadOnlyIndexRefusesChanges(t *testing.T) {
	x, path := newRows(t)
	require.NoError(t, x.Close())
	x, err := timeindex.OpenReadOnly(path, 45, timeindex.Options{})
	require.NoError(t, err)
	require.Equal(t, 29, x.Cap())
	require.ErrorIs(t, x.MaybeAppend(1000, 1000, true), timeindex.ErrReadOnly)
	require.ErrorIs(t, x.TruncateTo(0), timeindex.ErrReadOnly)
	require.ErrorIs(t, x.Grow(), timeindex.ErrReadOnly)
	require.NoError(t, x.Sync())
	require.NoError(t, x.Close())
	_, err = timeindex.OpenReadOnly(path, -1, timeindex.Options{})
	require.ErrorContains(t, err, "negative base offset")
}

// fullFS is a disk without space left.
type fullFS struct{ vfs.FS }

var errNoSpace = errors.New("no space left on device")

func (f fullFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return fullFile{file}, nil
}

type fullFile struct{ vfs.File }

func (fullFile) Preallocate(int64) error            { return errNoSpace }
func (fullFile) WriteAt([]byte, int64) (int, error) { return 0, errNoSpace }

func TestFullDiskIsAnOrdinaryError_K104(t *testing.T) {
	x, _ := newIndex(t, 0, timeindex.Options{FS: fullFS{vfs.OS}})
	require.ErrorIs(t, x.Reserve(), errNoSpace)
	require.ErrorIs(t, x.MaybeAppend(1, 0, false), errNoSpace)
	require.Zero(t, x.Len())
	require.NoError(t, x.Close())
}

func TestRebuildWritesWhatAppendWrites_K030(t *testing.T) {
	entries := []timeindex.Entry{{-1, 1000}, {5, 1009}, {5, 1019}, {80, 1500}, {80, 1600}}
	x, appended := newIndex(t, 1000, timeindex.Options{})
	appendAll(t, x, entries...)
	require.NoError(t, x.Close())

	rebuilt := filepath.Join(t.TempDir(), "0.timeindex")
	require.NoError(t, os.WriteFile(rebuilt, []byte("damaged"), 0o644))
	require.NoError(t, timeindex.Rebuild(rebuilt, 1000, slices.Values(entries), timeindex.Options{}))
	want, err := os.ReadFile(appended)
	require.NoError(t, err)
	require.Len(t, want, 24)
	got, err := os.ReadFile(rebuilt)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestRebuildLeavesTheOldFileWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.timeindex")
	old := unhex(t, "0: 0000000000000001 00000001")
	require.NoError(t, os.WriteFile(path, old, 0o644))
	for _, row := range []struct {
		name    string
		entries []timeindex.Entry
		fs      vfs.FS
		want    error
	}{
		{"out of order", []timeindex.Entry{{5, 5}, {4, 6}}, nil, timeindex.ErrOrder},
		{"overflow", []timeindex.Entry{{5, math.MaxInt32 + 1}}, nil, timeindex.ErrOverflow},
		{"full disk", []timeindex.Entry{{5, 0}}, fullFS{vfs.OS}, errNoSpace},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := timeindex.Rebuild(path, 0, slices.Values(row.entries), timeindex.Options{FS: row.fs})
			require.ErrorIs(t, err, row.want)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, old, got)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

func TestWarmSectionAgreesWithPlainBinarySearch(t *testing.T) {
	x, _ := newIndex(t, 100, timeindex.Options{})
	var entries []timeindex.Entry
	for _, count := range []int{1, 2, 682, 683, 684, 685, 3000} {
		for len(entries) < count {
			n := int64(len(entries))
			e := timeindex.Entry{Timestamp: 1_000_000_000_000 + 5*n, Offset: 103 + 3*n}
			entries = append(entries, e)
			appendAll(t, x, e)
		}
		for i := int64(-2); i < 5*int64(count)+2; i++ {
			want := func(below func(timeindex.Entry) bool) timeindex.Entry {
				slot := sort.Search(count, func(i int) bool { return !below(entries[i]) }) - 1
				if slot < 0 {
					return timeindex.Entry{Timestamp: -1, Offset: 100}
				}
				return entries[slot]
			}
			timestamp, offset := 1_000_000_000_000+i, 100+i
			require.Equal(t, want(func(e timeindex.Entry) bool { return e.Timestamp <= timestamp }), x.Lookup(timestamp))
			require.Equal(t, want(func(e timeindex.Entry) bool { return e.Offset <= offset }), x.LookupOffset(offset))
		}
	}
}

// Every answer of a reader is an entry that was there, while one writer appends
// and truncates. An entry's timestamp is 2^33 times its offset, so that half a
// timestamp would show, and offsets differ from round to round.
func TestReadersRunBesideOneWriter_K029(t *testing.T) {
	x, path := newIndex(t, 0, timeindex.Options{})
	var done atomic.Bool
	var readers sync.WaitGroup
	check := func(what string, e timeindex.Entry) {
		if e.Timestamp != -1 && e.Timestamp != e.Offset<<33+e.Offset {
			t.Errorf("%s: timestamp %d, offset %d", what, e.Timestamp, e.Offset)
		}
	}
	for range 8 {
		readers.Go(func() {
			for !done.Load() {
				for target := int64(0); target < 50_000; target += 613 {
					e := x.Lookup(target << 33)
					check("Lookup", e)
					if e.Timestamp > target<<33 {
						t.Errorf("Lookup(%d) = %v", target<<33, e)
					}
					check("LookupOffset", x.LookupOffset(target))
					last, _ := x.Last()
					check("Last", last)
				}
			}
		})
	}
	for round := range int64(8) {
		for offset := round + 1; offset < 40_000; offset += 7 + round {
			require.NoError(t, x.MaybeAppend(offset<<33+offset, offset, false))
		}
		require.NoError(t, x.TruncateTo(20_000))
		require.NoError(t, x.Sync())
		require.NoError(t, x.Reset())
	}
	appendAll(t, x, timeindex.Entry{Timestamp: 1<<33 + 1, Offset: 1})
	done.Store(true)
	readers.Wait()
	require.NoError(t, x.Close())

	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "0: 00000002 00000001 00000001"), got)
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	x, _ := newIndex(t, 0, timeindex.Options{})
	for i := range int64(5000) {
		require.NoError(t, x.MaybeAppend(i, i, false))
	}
	var sink int64
	require.Zero(t, testing.AllocsPerRun(100, func() {
		last, _ := x.Last()
		sink += x.Lookup(2500).Offset + x.LookupOffset(2500).Offset + last.Offset
	}), "reading")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		last, _ := x.Last()
		if x.MaybeAppend(last.Timestamp+1, last.Offset+1, false) != nil {
			panic("append")
		}
	}), "appending")
	_ = sink
}

func BenchmarkLookup(b *testing.B) {
	x, _ := newIndex(b, 0, timeindex.Options{})
	for i := range int64(800_000) {
		if err := x.MaybeAppend(1000*i, 40*i, false); err != nil {
			b.Fatal(err)
		}
	}
	for _, row := range []struct {
		name string
		from int64
	}{{"near the end", 799_500_000}, {"anywhere", 0}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			timestamp, sum := row.from, int64(0)
			for b.Loop() {
				sum += x.Lookup(timestamp).Offset
				if timestamp += 7919 * 257; timestamp >= 800_000_000 {
					timestamp = row.from + timestamp%7919
				}
			}
			if sum < 0 {
				b.Fatal("negative offset")
			}
		})
	}
}
