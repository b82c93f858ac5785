package index_test

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

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
)

func newIndex(t testing.TB, base int64, o index.Options) (*index.Index, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "00000000000000000000.index")
	x, err := index.Create(path, base, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Drop() })
	return x, path
}

func reopen(t testing.TB, x *index.Index, path string, o index.Options) *index.Index {
	t.Helper()
	require.NoError(t, x.Close())
	y, err := index.Open(path, x.Base(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = y.Drop() })
	return y
}

func appendAll(t testing.TB, x *index.Index, entries ...index.Entry) {
	t.Helper()
	for _, e := range entries {
		require.NoError(t, x.Append(e.Offset, e.Position))
	}
}

func entriesOf(x *index.Index) []index.Entry {
	var all []index.Entry
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
		00-04: 00 00 00 09   # relative offset 9, base offset 41000
		04-08: 00 00 10 7d   # position 4221
		08-12: 00 01 86 a0   # relative offset 100000
		12-16: 00 10 00 01   # position 1048577
		16-20: 7f ff ff ff   # relative offset 2147483647, the largest
		20-24: 7f ff ff ff   # position 2147483647, the largest
	`
	x, path := newIndex(t, 41000, index.Options{})
	want := []index.Entry{{41009, 4221}, {141000, 1048577}, {41000 + math.MaxInt32, math.MaxInt32}}
	appendAll(t, x, want...)
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, unhex(t, golden), got)

	x, err = index.OpenReadOnly(path, 41000, index.Options{})
	require.NoError(t, err)
	require.Equal(t, want, entriesOf(x))
	require.NoError(t, x.Check())
	require.NoError(t, x.Close())
}

func TestEmptyIndexSendsEveryLookupToTheBase(t *testing.T) { // row 63
	x, _ := newIndex(t, 45, index.Options{})
	for _, offset := range []int64{math.MinInt64, 0, 45, 92, math.MaxInt64} {
		require.Equal(t, index.Entry{Offset: 45}, x.Lookup(offset))
	}
	require.EqualValues(t, 45, x.LastOffset())
	last, ok := x.Last()
	require.False(t, ok)
	require.Equal(t, index.Entry{Offset: 45}, last)
	require.NoError(t, x.Check())
	require.Zero(t, x.Len())
	require.False(t, x.Full())
}

func TestLookupFindsExtremes(t *testing.T) { // row 64
	x, _ := newIndex(t, 45, index.Options{MaxBytes: 30 * 8})
	for i := range int64(30) {
		require.NoError(t, x.Append(45+i+1, i))
	}
	for _, row := range []struct {
		name   string
		offset int64
		want   index.Entry
	}{
		{"below everything", math.MinInt64, index.Entry{Offset: 45}},
		{"below base", 44, index.Entry{Offset: 45}},
		{"base", 45, index.Entry{Offset: 45}},
		{"first entry", 46, index.Entry{Offset: 46}},
		{"last entry", 75, index.Entry{Offset: 75, Position: 29}},
		{"above", 76, index.Entry{Offset: 75, Position: 29}},
		{"above everything", math.MaxInt64, index.Entry{Offset: 75, Position: 29}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, x.Lookup(row.offset))
		})
	}
}

func TestAtReturnsEntriesAndPanicsOutside(t *testing.T) { // row 66
	x, _ := newIndex(t, 45, index.Options{})
	require.Panics(t, func() { x.At(0) })
	for i := range int64(20) {
		require.NoError(t, x.Append(45+i, i))
	}
	for i := range 20 {
		require.Equal(t, index.Entry{Offset: 45 + int64(i), Position: int64(i)}, x.At(i))
	}
	require.Panics(t, func() { x.At(20) })
	require.Panics(t, func() { x.At(-1) })
}

func TestAppendRefusesAndChangesNothing(t *testing.T) { // rows 67 to 69
	const base = 1000
	for _, row := range []struct {
		name             string
		before           []index.Entry
		offset, position int64
		want             error
	}{
		{"full", []index.Entry{{1001, 0}, {1002, 10}, {1003, 20}}, 1004, 30, index.ErrFull},
		{"smaller offset", []index.Entry{{1051, 0}}, 1050, 10, index.ErrOrder},
		{"equal offset_K114", []index.Entry{{1051, 0}}, 1051, 10, index.ErrOrder},
		{"base again", []index.Entry{{1000, 0}}, 1000, 10, index.ErrOrder},
		{"smaller position", []index.Entry{{1051, 11}}, 1052, 10, index.ErrOrder},
		{"below base", nil, 999, 0, index.ErrOverflow},
		{"2^31 above base_K114", nil, base + math.MaxInt32 + 1, 0, index.ErrOverflow},
		{"far above base", nil, math.MaxInt64, 0, index.ErrOverflow},
		{"negative position", nil, 1000, -1, index.ErrOverflow},
		{"position 2^31", nil, 1000, math.MaxInt32 + 1, index.ErrOverflow},
	} {
		t.Run(row.name, func(t *testing.T) {
			x, path := newIndex(t, base, index.Options{MaxBytes: 24})
			appendAll(t, x, row.before...)
			err := x.Append(row.offset, row.position)
			require.ErrorIs(t, err, row.want)
			require.ErrorContains(t, err, path)
			require.Equal(t, row.before, entriesOf(x))
			require.NoError(t, x.Check())
		})
	}
}

func TestRelativeOffsetsReach32Bits_K114(t *testing.T) {
	x, path := newIndex(t, 1000, index.Options{})
	appendAll(t, x, index.Entry{Offset: 1000 + math.MaxInt32, Position: 5})
	require.Equal(t, index.Entry{Offset: 1000 + math.MaxInt32, Position: 5}, x.Lookup(math.MaxInt64))
	require.Equal(t, index.Entry{Offset: 1000}, x.Lookup(999))
	require.ErrorIs(t, x.Append(1000+math.MaxInt32+1, 6), index.ErrOverflow)
	x = reopen(t, x, path, index.Options{})
	require.Equal(t, int64(1000+math.MaxInt32), x.LastOffset())
}

func TestUpperBoundIsBehindTheFetchedRange(t *testing.T) { // rows 70 and 71
	entries := []index.Entry{{45, 0}, {46, 10}, {47, 23}, {48, 37}}
	for _, row := range []struct {
		name     string
		count    int
		position int64
		want     int // entry, -1 for none
	}{
		{"empty index", 0, 5, -1},
		{"between", 4, 0 + 5, 1},
		{"equal", 4, 0 + 10, 1},
		{"below an entry", 4, 0 + 22, 2},
		{"equal to a middle one", 4, 0 + 23, 2},
		{"from the second", 4, 10 + 24, 3},
		{"behind the last", 4, 37 + 1, -1},
		{"far behind", 4, 0 + 200, -1},
		{"equal to the last", 4, 37, 3},
		{"equal to the first, the quirk", 4, 0, 1},
		{"equal to the only one, the quirk", 1, 0, -1},
		{"below the first", 4, -1, 0},
		{"sum above 32 bits", 4, math.MaxInt32 + 37, -1},
		{"smallest", 4, math.MinInt64, 0},
		{"largest", 4, math.MaxInt64, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			x, _ := newIndex(t, 45, index.Options{})
			appendAll(t, x, entries[:row.count]...)
			got, ok := x.UpperBound(row.position)
			require.Equal(t, row.want >= 0, ok)
			if ok {
				require.Equal(t, entries[row.want], got)
			}
		})
	}
}

// Kafka's index is full when reopened, until it is resized. Ours has room: it
// is Trim, on sealing, that makes an index full.
func TestReopenedIndexKeepsItsEntries(t *testing.T) { // row 72
	o := index.Options{MaxBytes: 30 * 8}
	x, path := newIndex(t, 45, o)
	appendAll(t, x, index.Entry{Offset: 51}, index.Entry{Offset: 52, Position: 1})
	x = reopen(t, x, path, o)
	require.Equal(t, 2, x.Len())
	require.Equal(t, index.Entry{Offset: 51}, x.Lookup(51))
	require.Equal(t, index.Entry{Offset: 52, Position: 1}, x.Lookup(52))
	require.EqualValues(t, 52, x.LastOffset())

	require.NoError(t, x.Trim())
	require.True(t, x.Full())
	require.ErrorIs(t, x.Append(53, 2), index.ErrFull)
	require.NoError(t, x.Grow())
	require.NoError(t, x.Append(53, 2))

	require.NoError(t, x.Close())
	x, err := index.OpenReadOnly(path, 45, o)
	require.NoError(t, err)
	require.Equal(t, 3, x.Cap())
	require.ErrorIs(t, x.Append(54, 3), index.ErrReadOnly)
	require.NoError(t, x.Close())
}

func TestTruncateRemovesFromTheOffsetOn(t *testing.T) { // row 73
	x, _ := newIndex(t, 0, index.Options{MaxBytes: 10 * 8})
	for i := int64(1); i < 10; i++ {
		require.NoError(t, x.Append(i, i))
	}
	for _, row := range []struct {
		truncate, last int64
	}{{12, 9}, {10, 9}, {9, 8}, {5, 4}, {1, 0}} {
		require.NoError(t, x.TruncateTo(row.truncate))
		require.Equal(t, row.last, x.LastOffset(), "TruncateTo(%d)", row.truncate)
		require.EqualValues(t, row.last, x.Len())
		require.Equal(t, index.Entry{Offset: row.last, Position: row.last}, x.Lookup(row.last))

		// Appending goes on where it was cut.
		require.NoError(t, x.Append(row.last+1, row.last+1))
		require.NoError(t, x.TruncateTo(row.last+1))
	}
	appendAll(t, x, index.Entry{Offset: 3, Position: 3}, index.Entry{Offset: 7, Position: 7})
	require.NoError(t, x.TruncateTo(5))
	require.EqualValues(t, 3, x.LastOffset(), "between entries")
	require.NoError(t, x.TruncateTo(-5))
	require.Zero(t, x.Len(), "below base")
	require.Equal(t, 10, x.Cap())
}

func TestLastOffsetEqualToBaseIsSound_K023(t *testing.T) { // row 74
	x, path := newIndex(t, 2076, index.Options{})
	appendAll(t, x, index.Entry{Offset: 2076})
	for range 3 { // restarts
		x = reopen(t, x, path, index.Options{})
		require.NoError(t, x.Check())
		require.Equal(t, 1, x.Len())
		require.Zero(t, x.Padding())
		require.EqualValues(t, 2076, x.LastOffset())
	}
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 8), got)
}

func TestDamagedIndexIsReported_K024(t *testing.T) { // row 75
	for _, row := range []struct {
		name  string
		file  string
		entry int
		rule  string
		check bool // only Check finds it
	}{
		{"13 bytes", "0: 00000001 00000000  00000002 01", -1, "length 13 is not a multiple of 8", false},
		{"7 bytes", "0: 00000001 000000", -1, "length 7 is not a multiple of 8", false},
		{"last relative offset -1", "0: 00000001 00000000  ffffffff 00000009", 1, "relative offset -1 is negative", false},
		{"only relative offset -1", "0: ffffffff 00000000", 0, "relative offset -1 is negative", false},
		{"negative position", "0: 00000001 80000000", 0, "position -2147483648 is negative", false},
		{"last offset below the first", "0: 00000005 00000000  00000004 00000009", 1, "relative offset 4 is not above 5 of entry 0", false},
		{"equal offsets", "0: 00000005 00000000  00000005 00000009", 1, "relative offset 5 is not above 5 of entry 0", false},
		{"position below the first", "0: 00000005 00000007  00000006 00000006", 1, "position 6 is below 7 of entry 0", false},
		{"disorder in the middle", "0: 00000001 00000000  00000009 00000001  00000003 00000002  00000009 00000003  0000000a 00000004",
			2, "relative offset 3 is not above 9 of entry 1", true},
		{"positions fall in the middle", "0: 00000001 00000005  00000002 00000004  00000003 00000006  00000004 00000007",
			1, "position 4 is below 5 of entry 0", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.index")
			file := unhex(t, row.file)
			require.NoError(t, os.WriteFile(path, file, 0o644))
			want := &index.CorruptError{File: path, Entry: row.entry, Rule: row.rule}
			var corrupt *index.CorruptError

			x, err := index.OpenReadOnly(path, 0, index.Options{})
			require.NoError(t, err)
			require.ErrorAs(t, x.Check(), &corrupt)
			require.Equal(t, want, corrupt)
			require.NotPanics(t, func() { x.Lookup(3); x.UpperBound(3); x.Last() })
			require.NoError(t, x.Close())

			x, err = index.Open(path, 0, index.Options{})
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
	path := filepath.Join(t.TempDir(), "0.index")
	require.NoError(t, os.WriteFile(path, unhex(t, "0: ffffff00 00000009  00000005 ffffffff"), 0o644))
	x, err := index.OpenReadOnly(path, 70, index.Options{})
	require.NoError(t, err)
	require.Equal(t, index.Entry{Offset: 70}, x.Lookup(71))
	require.Equal(t, index.Entry{Offset: 70}, x.Lookup(79))
	require.NoError(t, x.Close())
}

// Kafka preallocates the whole file. Ours has the same capacity and grows.
func TestCapacityIsWholeEntries(t *testing.T) { // row 76
	for _, row := range []struct{ maxBytes, entries int }{
		{0, 1310720}, {10485760, 1310720}, {67, 8}, {8, 1},
	} {
		x, _ := newIndex(t, 0, index.Options{MaxBytes: row.maxBytes})
		require.Equal(t, row.entries, x.Cap(), "%d bytes", row.maxBytes)
	}
	_, err := index.Create(filepath.Join(t.TempDir(), "0.index"), 0, index.Options{MaxBytes: 7})
	require.Error(t, err)
}

func TestWarmSectionAgreesWithPlainBinarySearch(t *testing.T) { // rows 65 and 77
	x, _ := newIndex(t, 100, index.Options{})
	var entries []index.Entry
	for _, count := range []int{1, 2, 1024, 1025, 1026, 1027, 5000} {
		for len(entries) < count {
			n := int64(len(entries))
			entries = append(entries, index.Entry{Offset: 103 + 5*n, Position: 17 * n})
			require.NoError(t, x.Append(103+5*n, 17*n))
		}
		for offset := int64(95); offset < 110+5*int64(count); offset++ {
			slot := sort.Search(count, func(i int) bool { return entries[i].Offset > offset }) - 1
			want := index.Entry{Offset: 100}
			if slot >= 0 {
				want = entries[slot]
			}
			require.Equal(t, want, x.Lookup(offset), "%d entries, Lookup(%d)", count, offset)
		}
	}
}

func TestZeroTailIsNotEntries_K022(t *testing.T) {
	good := unhex(t, "0: 00000009 00001000  00000013 00002000  0000001d 00003000")
	path := filepath.Join(t.TempDir(), "0.index")
	require.NoError(t, os.WriteFile(path, append(slices.Clone(good), make([]byte, 10485760-24)...), 0o644))

	x, err := index.OpenReadOnly(path, 0, index.Options{})
	require.NoError(t, err)
	require.Equal(t, 3, x.Len())
	require.Equal(t, 1310720-3, x.Padding())
	require.EqualValues(t, 29, x.LastOffset())
	require.NoError(t, x.Check())
	require.NoError(t, x.Close())

	x, err = index.Open(path, 0, index.Options{})
	require.NoError(t, err)
	require.Equal(t, 1310720-3, x.Padding())
	require.Equal(t, index.Entry{Offset: 29, Position: 0x3000}, x.Lookup(1000))
	require.NoError(t, x.Append(39, 0x4000), "not full")
	require.NoError(t, x.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, append(good, unhex(t, "0: 00000027 00004000")...), got)
}

func TestZeroByteFileIsAnEmptyIndex_K025(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.index")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	for _, open := range []func(string, int64, index.Options) (*index.Index, error){index.OpenReadOnly, index.Open, index.Create} {
		x, err := open(path, 7, index.Options{})
		require.NoError(t, err)
		require.NoError(t, x.Check())
		require.Equal(t, index.Entry{Offset: 7}, x.Lookup(100))
		require.NoError(t, x.Close())
	}
	for _, open := range []func(string, int64, index.Options) (*index.Index, error){index.OpenReadOnly, index.Open} {
		_, err := open(path+"missing", 7, index.Options{})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoFileExists(t, path+"missing")
	}
}

func TestTruncatedIndexRegainsItsCapacity_K028(t *testing.T) {
	x, path := newIndex(t, 0, index.Options{MaxBytes: 80})
	for i := range int64(10) {
		require.NoError(t, x.Append(i+1, i))
	}
	require.True(t, x.Full())
	require.NoError(t, x.Trim())
	require.NoError(t, x.TruncateTo(0))
	require.NoError(t, x.Grow())
	require.Equal(t, 10, x.Cap())
	require.NoError(t, x.Append(1, 0))
	require.NoError(t, x.Trim())
	require.NoError(t, x.Reset())
	require.Zero(t, x.Len())
	require.Equal(t, 10, x.Cap())

	x = reopen(t, x, path, index.Options{MaxBytes: 80}) // a zero-byte file
	require.Equal(t, 10, x.Cap())
	require.NoError(t, x.Append(1, 0))
}

func TestTinyIndexFillsWithoutPanic_K031(t *testing.T) {
	x, path := newIndex(t, 0, index.Options{MaxBytes: 16})
	accepted := 0
	for i := range int64(10_000) {
		err := x.Append(i+1, i)
		if err == nil {
			accepted++
			continue
		}
		require.ErrorIs(t, err, index.ErrFull)
	}
	require.Equal(t, 2, accepted)
	x = reopen(t, x, path, index.Options{MaxBytes: 80_000})
	for i := int64(2); i < 10_000; i++ {
		require.NoError(t, x.Append(i+1, i))
	}
	x = reopen(t, x, path, index.Options{})
	require.NoError(t, x.Check())
	for i := range 10_000 {
		require.Equal(t, index.Entry{Offset: int64(i) + 1, Position: int64(i)}, x.At(i))
	}
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
	x, _ := newIndex(t, 0, index.Options{FS: fullFS{vfs.OS}})
	require.ErrorIs(t, x.Reserve(), errNoSpace)
	require.ErrorIs(t, x.Append(1, 0), errNoSpace)
	require.Zero(t, x.Len())
	require.Equal(t, index.Entry{}, x.Lookup(5))
	require.NoError(t, x.Close())
}

func TestRebuildWritesWhatAppendWrites_K030(t *testing.T) {
	entries := []index.Entry{{1009, 4100}, {1019, 8300}, {1500, 12_500}}
	x, appended := newIndex(t, 1000, index.Options{})
	appendAll(t, x, entries...)
	require.NoError(t, x.Close())

	rebuilt := filepath.Join(t.TempDir(), "0.index")
	require.NoError(t, os.WriteFile(rebuilt, []byte("damaged"), 0o644))
	require.NoError(t, index.Rebuild(rebuilt, 1000, slices.Values(entries), index.Options{MaxBytes: 8}))
	want, err := os.ReadFile(appended)
	require.NoError(t, err)
	got, err := os.ReadFile(rebuilt)
	require.NoError(t, err)
	require.Equal(t, want, got)

	x, err = index.Open(rebuilt, 1000, index.Options{MaxBytes: 8})
	require.NoError(t, err)
	require.Equal(t, entries, entriesOf(x))
	require.True(t, x.Full(), "larger than now allowed")
	require.NoError(t, x.Close())
}

func TestRebuildLeavesTheOldFileWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.index")
	old := unhex(t, "0: 00000009 00001000")
	require.NoError(t, os.WriteFile(path, old, 0o644))
	for _, row := range []struct {
		name    string
		entries []index.Entry
		fs      vfs.FS
		want    error
	}{
		{"out of order", []index.Entry{{5, 0}, {5, 1}}, nil, index.ErrOrder},
		{"overflow", []index.Entry{{math.MaxInt32 + 1, 0}}, nil, index.ErrOverflow},
		{"full disk", []index.Entry{{5, 0}}, fullFS{vfs.OS}, errNoSpace},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := index.Rebuild(path, 0, slices.Values(row.entries), index.Options{FS: row.fs})
			require.ErrorIs(t, err, row.want)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, old, got)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
	require.NoError(t, index.Rebuild(path, 0, slices.Values([]index.Entry(nil)), index.Options{}))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, got, "no entries is an index too")
}

func TestNegativeBaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.index")
	_, err := index.Create(path, -1, index.Options{})
	require.ErrorContains(t, err, "negative base offset")
	require.NoFileExists(t, path)
}

// Every answer of a reader is an entry that was there, while one writer appends
// and truncates. An entry's position is eight times its offset, and offsets
// differ from round to round.
func TestReadersRunBesideOneWriter_K029(t *testing.T) {
	x, path := newIndex(t, 0, index.Options{})
	var done atomic.Bool
	var readers sync.WaitGroup
	check := func(what string, e index.Entry) {
		if e.Position != e.Offset*8 {
			t.Errorf("%s: offset %d, position %d", what, e.Offset, e.Position)
		}
	}
	for range 8 {
		readers.Go(func() {
			for !done.Load() {
				for target := int64(0); target < 50_000; target += 613 {
					e := x.Lookup(target)
					check("Lookup", e)
					if e.Offset > target {
						t.Errorf("Lookup(%d) = %v", target, e)
					}
					if e, ok := x.UpperBound(target * 8); ok {
						check("UpperBound", e)
					}
					last, _ := x.Last()
					check("Last", last)
				}
			}
		})
	}
	for round := range int64(8) {
		for offset := round + 1; offset < 40_000; offset += 7 + round {
			require.NoError(t, x.Append(offset, offset*8))
		}
		require.NoError(t, x.TruncateTo(20_000))
		require.NoError(t, x.Sync())
		require.NoError(t, x.TruncateTo(round*100))
		require.NoError(t, x.Reset())
	}
	appendAll(t, x, index.Entry{Offset: 1, Position: 8}, index.Entry{Offset: 2, Position: 16})
	done.Store(true)
	readers.Wait()
	require.NoError(t, x.Close())

	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "0: 00000001 00000008 00000002 00000010"), got)
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	x, _ := newIndex(t, 0, index.Options{})
	for i := range int64(5000) {
		require.NoError(t, x.Append(i+1, i))
	}
	var sink int64
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e, _ := x.UpperBound(2500)
		sink += x.Lookup(2500).Position + x.LastOffset() + e.Offset
	}), "reading")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if x.Append(x.LastOffset()+1, 5000) != nil {
			panic("append")
		}
	}), "appending")
	_ = sink
}

func BenchmarkLookup(b *testing.B) {
	x, _ := newIndex(b, 0, index.Options{})
	for i := range int64(1_000_000) {
		if err := x.Append(40*i, 1024*i); err != nil {
			b.Fatal(err)
		}
	}
	for _, row := range []struct {
		name string
		from int64
	}{{"near the end", 40 * 999_500}, {"anywhere", 0}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			offset, sum := row.from, int64(0)
			for b.Loop() {
				sum += x.Lookup(offset).Position
				if offset += 7919 * 13; offset >= 40_000_000 {
					offset = row.from + offset%7919
				}
			}
			if sum < 0 {
				b.Fatal("negative position")
			}
		})
	}
}
