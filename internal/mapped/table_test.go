package mapped

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	key   = Field{At: 0, Size: 4}
	value = Field{At: 4, Size: 8}
)

// layout is an entry of a 4-byte key and an 8-byte value.
var layout = Layout{EntrySize: 12, Key: key, Broken: func(v View, slot, before int) string {
	if before >= 0 && v.Int(slot, key) <= v.Int(before, key) {
		return fmt.Sprintf("key %d after %d", v.Int(slot, key), v.Int(before, key))
	}
	return ""
}}

// filled returns an open table with the keys 1 to count, and its path.
func filled(t *testing.T, count int, o Options) (*Table, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	table, err := Create(path, layout, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = table.Drop() })
	fill(t, table, count)
	return table, path
}

func fill(t *testing.T, table *Table, count int) {
	t.Helper()
	for table.Len() < count {
		n := uint32(table.Len() + 1)
		require.NoError(t, table.Append(n, n>>16, n<<16))
	}
}

func requireFilled(t *testing.T, table *Table, count int) {
	t.Helper()
	require.NoError(t, table.Read(func(v View) {
		require.Equal(t, count, v.Len)
		for slot := range count {
			if k, want := v.Int(slot, key), int64(slot+1); k != want || v.Int(slot, value) != want<<16 {
				require.Fail(t, "wrong entry", "slot %d: %d, %d", slot, k, v.Int(slot, value))
			}
		}
	}))
}

func TestFileGrowsInPreallocatedStepsUpToItsCapacity(t *testing.T) {
	var lengths []int64
	hooks := &hookFS{FS: vfs.OS, preallocate: func(size int64) error {
		lengths = append(lengths, size)
		return nil
	}}
	table, path := filled(t, 0, Options{FS: hooks, MaxBytes: 3_500_000})
	require.Equal(t, 3_500_000/12, table.Cap())
	require.Zero(t, fileLength(path), "nothing is written before the first entry")

	fill(t, table, table.Cap())
	const k = 1 << 10
	want := []int64{16 * k, 32 * k, 64 * k, 128 * k, 256 * k, 512 * k, 1024 * k, 2048 * k, 3072 * k, 3_500_000}
	for i := range want {
		want[i] = want[i] / 12 * 12 // a crash must not leave part of an entry
	}
	require.Equal(t, want, lengths)
	require.ErrorIs(t, table.Append(0, 0, 0), ErrFull)
	requireFilled(t, table, table.Cap())
	require.NoError(t, table.Close())

	table, err := OpenReadOnly(path, layout, Options{})
	require.NoError(t, err)
	requireFilled(t, table, 3_500_000/12)
	require.NoError(t, table.Close())
}

func TestGrowingATrimmedFileEndsOnWholeSteps(t *testing.T) {
	for _, row := range []struct{ length, size, next int64 }{
		{0, 8, 16384},
		{0, 12, 16380},
		{8, 8, 32768},
		{12, 12, 32760},
		{16384, 8, 32768},
		{16380, 12, 32760},
		{16392, 8, 49152},
		{1 << 20, 8, 2 << 20},
		{5<<20 + 8, 8, 6<<20 + 16384},
	} {
		require.Equal(t, row.next, nextLength(row.length, row.size), "after %d", row.length)
	}
}

func TestFullDiskIsAnErrorOfAppend_K104(t *testing.T) {
	full := errors.New("no space left on device")
	disk := int64(20_000)
	hooks := &hookFS{FS: vfs.OS, preallocate: func(size int64) error {
		if size > disk {
			return full
		}
		return nil
	}}
	table, _ := filled(t, 0, Options{FS: hooks})
	var err error
	for err == nil {
		n := uint32(table.Len() + 1)
		err = table.Append(n, n>>16, n<<16)
	}
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, table.Reserve(), full)
	requireFilled(t, table, 16380/12)

	disk = 1 << 30
	require.NoError(t, table.Reserve(), "there is room again")
	hooks.preallocate = func(int64) error { return full }
	n := uint32(table.Len() + 1)
	require.NoError(t, table.Append(n, n>>16, n<<16), "room was reserved")
	requireFilled(t, table, 16380/12+1)
	require.NoError(t, table.Close())
}

func TestTrimAndCloseCutTheFileToItsEntries(t *testing.T) {
	table, path := filled(t, 5, Options{MaxBytes: 1200})
	require.NoError(t, table.Sync())
	require.NoError(t, table.Trim())
	require.Equal(t, 5, table.Cap())
	require.ErrorIs(t, table.Append(6, 0, 6), ErrFull)
	requireFilled(t, table, 5)
	if runtime.GOOS != "windows" {
		require.EqualValues(t, 60, fileLength(path))
	}

	require.NoError(t, table.Grow())
	require.Equal(t, 100, table.Cap())
	fill(t, table, 8)
	require.NoError(t, table.Close())
	require.EqualValues(t, 96, fileLength(path))
	require.NoError(t, table.Close(), "closing again does nothing")
	require.Zero(t, table.Len(), "a closed table looks empty")

	table, err := Open(path, layout, Options{MaxBytes: 1200})
	require.NoError(t, err)
	require.Equal(t, 100, table.Cap())
	requireFilled(t, table, 8)
	fill(t, table, 100)
	require.NoError(t, table.Close())
	require.EqualValues(t, 1200, fileLength(path))
}

func TestUnchangedFilesAreNotTouched_K063(t *testing.T) {
	table, path := filled(t, 5, Options{})
	require.NoError(t, table.Close())
	old := time.Now().Add(-30 * 24 * time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(path, old, old))

	hooks := &hookFS{FS: vfs.OS, truncate: func(int64) error { panic("truncated to its own length") }}
	if runtime.GOOS == "windows" {
		hooks.truncate = nil // mapping extends the file, so closing has to cut it
	}
	for _, open := range []func(string, Layout, Options) (*Table, error){OpenReadOnly, Open} {
		table, err := open(path, layout, Options{FS: hooks})
		require.NoError(t, err)
		requireFilled(t, table, 5)
		if table.file != nil {
			require.NoError(t, table.Trim())
			require.NoError(t, table.Grow())
			require.NoError(t, table.TruncateTo(5))
			require.NoError(t, table.Sync())
		}
		require.NoError(t, table.Close())
		if runtime.GOOS != "windows" {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, old, info.ModTime())
		}
	}
}

func TestReadOnlyTableNeverChangesAnything_K095(t *testing.T) {
	table, path := filled(t, 5, Options{})
	require.NoError(t, table.Drop(), "leaving the zeros behind")
	dir := filepath.Dir(path)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(path, old, old))
	require.NoError(t, os.Chmod(path, 0o444))
	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })

	refuse := func(int64) error { panic("changed by a reader") }
	hooks := &hookFS{FS: vfs.OS, truncate: refuse, preallocate: refuse, open: func(flag int) {
		require.Equal(t, os.O_RDONLY, flag)
	}}
	table, err = OpenReadOnly(path, layout, Options{FS: hooks})
	require.NoError(t, err)
	requireFilled(t, table, 5)
	require.Equal(t, 5, table.Cap())
	require.Equal(t, len(before)/12-5, table.Padding())
	require.NoError(t, table.Check())
	for name, change := range map[string]func() error{
		"append":   func() error { return table.Append(6, 0, 0) },
		"reserve":  table.Reserve,
		"truncate": func() error { return table.TruncateTo(0) },
		"reset":    table.Reset,
		"trim":     table.Trim,
		"grow":     table.Grow,
	} {
		require.ErrorIs(t, change(), ErrReadOnly, name)
	}
	require.NoError(t, table.Sync(), "nothing to sync")
	require.NoError(t, table.Close())

	_, err = OpenReadOnly(filepath.Join(dir, "missing"), layout, Options{FS: hooks})
	require.ErrorIs(t, err, fs.ErrNotExist)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, old, info.ModTime())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// slot is one entry as bytes, zero for key 0.
func slot(key byte) []byte {
	b := make([]byte, 12)
	b[3] = key
	return b
}

func slots(keys ...byte) []byte {
	var b []byte
	for _, k := range keys {
		b = append(b, slot(k)...)
	}
	return b
}

func TestOpeningTellsEntriesFromPadding_K022(t *testing.T) {
	valueOnly := slot(0)
	valueOnly[11] = 9
	for _, row := range []struct {
		name    string
		file    []byte
		entries int
		padding int
	}{
		{"empty file", nil, 0, 0},
		{"trimmed", slots(1, 2, 3), 3, 0},
		{"zeros at the end", slots(1, 2, 3, 0, 0), 3, 2},
		{"one zero at the end", slots(1, 2, 3, 0), 3, 1},
		{"one entry and a zero", slots(7, 0), 1, 1},
		{"a zero entry first", slots(0, 1, 2), 3, 0},
		{"a zero entry first, zeros at the end", slots(0, 1, 2, 0, 0, 0), 3, 3},
		{"a zero entry alone", slots(0), 1, 0},
		{"two zeros", slots(0, 0), 0, 2},
		{"Kafka's new file", make([]byte, 10<<20/12*12), 0, 10 << 20 / 12},
		{"Kafka's file after a crash", append(slots(1, 2, 3), make([]byte, 10<<20/12*12-36)...), 3, 10<<20/12 - 3},
		{"entries behind zeros", slots(1, 2, 0, 0, 0, 0, 7, 0), 2, 6},
		{"a first key of zero with a value, alone", valueOnly, 1, 0},
		{"a first key of zero with a value, then zeros", append(bytes.Clone(valueOnly), slots(0, 0)...), 1, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table")
			require.NoError(t, os.WriteFile(path, row.file, 0o644))
			table, err := OpenReadOnly(path, layout, Options{})
			require.NoError(t, err)
			require.Equal(t, row.entries, table.Len())
			require.Equal(t, row.padding, table.Padding())
			require.NoError(t, table.Check())
			require.NoError(t, table.Close())
			require.EqualValues(t, len(row.file), fileLength(path))

			table, err = Open(path, layout, Options{})
			require.NoError(t, err)
			require.Equal(t, row.entries, table.Len())
			require.Equal(t, row.padding, table.Padding())
			require.NoError(t, table.Check())
			require.NoError(t, table.Append(100, 0, 0))
			require.NoError(t, table.Close())
			want := append(bytes.Clone(row.file[:row.entries*12]), slot(100)...)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestDamageIsNamedAndLeftAlone_K024(t *testing.T) {
	for _, row := range []struct {
		name      string
		file      []byte
		want      CorruptError
		openFails bool // or only Check does
	}{
		{"odd length", slots(1, 2)[:13], CorruptError{Entry: -1, Rule: "length 13 is not a multiple of 12"}, true},
		{"last below the one before", slots(1, 5, 4), CorruptError{Entry: 2, Rule: "key 4 after 5"}, true},
		{"last below the first", slots(5, 1, 2), CorruptError{Entry: 2, Rule: "key 2 after 5"}, true},
		{"disorder in the middle", slots(1, 5, 3, 7, 8), CorruptError{Entry: 2, Rule: "key 3 after 5"}, false},
		{"zeros before the last entry", slots(1, 2, 0, 0, 0, 0, 7), CorruptError{Entry: 2, Rule: "key 0 after 2"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table")
			require.NoError(t, os.WriteFile(path, row.file, 0o644))
			row.want.File = path
			check := func(err error) {
				t.Helper()
				var corrupt *CorruptError
				require.ErrorAs(t, err, &corrupt)
				if row.openFails {
					// Check reads on from the front and may find it elsewhere.
					require.Equal(t, path, corrupt.File)
					return
				}
				require.Equal(t, &row.want, corrupt)
			}

			table, err := OpenReadOnly(path, layout, Options{})
			require.NoError(t, err)
			check(table.Check())
			require.NoError(t, table.Close())

			if row.openFails {
				_, err = Open(path, layout, Options{})
				var corrupt *CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Equal(t, &row.want, corrupt)
				require.ErrorContains(t, err, row.want.Rule)
				got, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, row.file, got)
			}
		})
	}
}

func TestHugeHoleIsRefusedWithoutMappingIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, os.Truncate(path, 1<<40))
	for _, open := range []func(string, Layout, Options) (*Table, error){OpenReadOnly, Open} {
		_, err := open(path, layout, Options{})
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt)
	}
}

func TestSizesThatHoldNoEntryAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	for _, size := range []int{-1, 1, 11} {
		_, err := Create(path, layout, Options{MaxBytes: size})
		require.ErrorContains(t, err, "max bytes")
		require.NoFileExists(t, path)
	}
	table, err := Create(path, layout, Options{MaxBytes: 67})
	require.NoError(t, err)
	require.Equal(t, 5, table.Cap(), "whole entries")
	require.NoError(t, table.Close())
}

func TestFileLargerThanNowAllowedStaysReadableAndIsFull(t *testing.T) {
	table, path := filled(t, 50, Options{MaxBytes: 1200})
	require.NoError(t, table.Close())
	table, err := Open(path, layout, Options{MaxBytes: 120})
	require.NoError(t, err)
	requireFilled(t, table, 50)
	require.Equal(t, 50, table.Cap())
	require.ErrorIs(t, table.Append(51, 0, 0), ErrFull)
	require.NoError(t, table.TruncateTo(20))
	require.Equal(t, 50, table.Cap())
	require.NoError(t, table.Close())
}

func TestTruncatedEntriesStayGoneAfterACrash(t *testing.T) {
	table, path := filled(t, 3000, Options{})
	require.NoError(t, table.TruncateTo(4000), "nothing to remove")
	requireFilled(t, table, 3000)
	require.NoError(t, table.TruncateTo(1000))
	requireFilled(t, table, 1000)
	require.NoError(t, table.Drop())

	table, err := Open(path, layout, Options{})
	require.NoError(t, err)
	requireFilled(t, table, 1000)
	require.NoError(t, table.Reset())
	require.Zero(t, table.Len())
	require.NoError(t, table.Drop())
	table, err = Open(path, layout, Options{})
	require.NoError(t, err)
	require.Zero(t, table.Len())
	require.NoError(t, table.Close())
	require.Zero(t, fileLength(path))
}

func TestTheOnlyEntryOfATrimmedTableStaysGoneAfterACrash(t *testing.T) {
	table, path := filled(t, 1, Options{})
	require.NoError(t, table.Trim())
	require.NoError(t, table.Reset())
	require.NoError(t, table.Drop())

	table, err := OpenReadOnly(path, layout, Options{})
	require.NoError(t, err)
	require.Zero(t, table.Len())
	require.NoError(t, table.Close())
}

func TestResetRestoresTheCapacityOfATrimmedTable_K028(t *testing.T) {
	table, _ := filled(t, 10, Options{MaxBytes: 1200})
	require.NoError(t, table.Trim())
	require.NoError(t, table.TruncateTo(0))
	require.Equal(t, 10, table.Cap())
	require.NoError(t, table.Trim())
	require.Zero(t, table.Cap())
	require.NoError(t, table.Reset())
	require.Equal(t, 100, table.Cap())
	fill(t, table, 100)
	requireFilled(t, table, 100)
	require.NoError(t, table.Close())
}

func TestMappedFilesThatKeepTheirLengthAreTrimmedByClose_K107(t *testing.T) {
	fixed := newFixedFS()
	table, path := filled(t, 5, Options{FS: fixed, MaxBytes: 120_000})
	require.EqualValues(t, 120_000, fileLength(path))
	require.NoError(t, table.Trim())
	require.ErrorIs(t, table.Append(6, 0, 6), ErrFull)
	requireFilled(t, table, 5)
	require.NoError(t, table.Grow())
	fill(t, table, 6)
	require.NoError(t, table.Close())
	require.EqualValues(t, 72, fileLength(path))

	table, err := Open(path, layout, Options{FS: fixed, MaxBytes: 120_000})
	require.NoError(t, err)
	requireFilled(t, table, 6)
	require.NoError(t, table.Drop())
	require.EqualValues(t, 120_000, fileLength(path))

	table, err = Open(path, layout, Options{FS: fixed, MaxBytes: 120_000})
	require.NoError(t, err)
	require.Equal(t, 120_000/12-6, table.Padding())
	requireFilled(t, table, 6)
	fill(t, table, 10_000)
	require.NoError(t, table.Close())
	require.EqualValues(t, 120_000, fileLength(path))
}

func TestTablesLetGoOfFilesThatCannotMoveWhileInUse_K107(t *testing.T) {
	refused := errors.New("refused")
	noMapping := func(vfs.File, int, bool) (vfs.Mapping, error) { return nil, refused }
	for _, row := range []struct {
		name string
		file []byte
		use  func(path string, o Options) error
	}{
		{"closed", slots(1, 2), func(path string, o Options) error {
			table, err := Open(path, layout, o)
			return errors.Join(err, table.Append(3, 0, 0), table.Trim(), table.Grow(), table.Close())
		}},
		{"dropped", slots(1, 2), func(path string, o Options) error {
			table, err := Open(path, layout, o)
			return errors.Join(err, table.Reset(), table.Append(3, 0, 0), table.Drop())
		}},
		{"read", slots(1, 2), func(path string, o Options) error {
			table, err := OpenReadOnly(path, layout, o)
			return errors.Join(err, table.Check(), table.Close())
		}},
		{"the only slot emptied", slots(1), func(path string, o Options) error {
			table, err := Open(path, layout, Options{FS: o.FS, MaxBytes: layout.EntrySize})
			return errors.Join(err, table.Reset(), table.Append(3, 0, 0), table.Close())
		}},
		{"refused for its length", slots(1, 2)[:13], func(path string, o Options) error {
			_, err := Open(path, layout, o)
			return mustFail(err)
		}},
		{"refused for its last entry", slots(5, 1, 2), func(path string, o Options) error {
			_, err := Open(path, layout, o)
			return mustFail(err)
		}},
		{"not mapped", slots(1, 2), func(path string, o Options) error {
			_, err := Open(path, layout, Options{FS: &hookFS{FS: o.FS, mapFile: noMapping}})
			return mustFail(err)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			fixed := newFixedFS()
			path := filepath.Join(t.TempDir(), "table")
			require.NoError(t, os.WriteFile(path, row.file, 0o644))
			require.NoError(t, row.use(path, Options{FS: fixed, MaxBytes: 1200}))
			require.NoError(t, fixed.Rename(path, path+".deleted"))
			require.NoError(t, fixed.Remove(path+".deleted"))

			table, err := Create(path, layout, Options{FS: fixed})
			require.NoError(t, err)
			require.ErrorIs(t, fixed.Rename(path, path+".deleted"), vfs.ErrMapped, "the file system is strict")
			require.NoError(t, table.Close())
		})
	}
}

func mustFail(err error) error {
	if err == nil {
		return errors.New("did not fail")
	}
	return nil
}

func TestClosedTableRefusesChanges(t *testing.T) {
	table, _ := filled(t, 3, Options{})
	require.NoError(t, table.Close())
	for name, change := range map[string]func() error{
		"append":   func() error { return table.Append(6, 0, 0) },
		"truncate": func() error { return table.TruncateTo(0) },
		"trim":     table.Trim,
		"grow":     table.Grow,
		"sync":     table.Sync,
	} {
		require.ErrorIs(t, change(), fs.ErrClosed, name)
	}
	require.NoError(t, table.Check())
	require.NoError(t, table.Drop())
}

func TestOpeningFailsWithoutLeavingAnythingOpen(t *testing.T) {
	broken := errors.New("cannot map")
	hooks := &hookFS{FS: vfs.OS, mapFile: func(vfs.File, int, bool) (vfs.Mapping, error) { return nil, broken }}
	table, path := filled(t, 1, Options{})
	require.NoError(t, table.Close())
	for _, open := range []func(string, Layout, Options) (*Table, error){OpenReadOnly, Open, Create} {
		_, err := open(path, layout, Options{FS: hooks})
		require.ErrorIs(t, err, broken)
	}
	hooks.mapFile = func(_ vfs.File, length int, _ bool) (vfs.Mapping, error) {
		return heapMapping(make([]byte, length+1)[1:]), nil
	}
	_, err := Create(path, layout, Options{FS: hooks})
	require.ErrorContains(t, err, "not aligned")
}

func TestFloorAgreesWithPlainBinarySearch(t *testing.T) {
	const warm = warmBytes / 12
	for _, count := range []int{0, 1, 2, 3, warm - 1, warm, warm + 1, warm + 2, warm + 3, 3 * warm} {
		table, _ := filled(t, count, Options{})
		v := table.view()
		for target := int64(-1); target <= int64(count)+2; target++ {
			want := sort.Search(count, func(i int) bool { return v.Int(i, key) > target }) - 1
			require.Equal(t, want, v.Floor(key, target), "%d entries, target %d", count, target)
			require.Equal(t, max(0, min(count, int(target)-1)), v.Below(key, target))
		}
		require.Equal(t, count-1, v.Floor(key, 1<<62))
		require.Equal(t, count-1, v.Floor(value, 1<<62))
		require.Equal(t, -1, v.Floor(value, -1<<63))
		require.Zero(t, v.Below(value, -1<<63))
		require.NoError(t, table.Close())
	}
}

// TestFloorOfFieldsThatRiseUnevenly has long stretches at one pace, jumps, and fields that
// stand still, up to the ends of what they can be: Floor guesses by how fast they rise.
func TestFloorOfFieldsThatRiseUnevenly(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table, err := Create(filepath.Join(t.TempDir(), "table"), layout, Options{FS: newHeapFS()})
		require.NoError(t, err)
		defer func() { require.NoError(t, table.Drop()) }()
		now := rapid.Int64().Draw(r, "first")
		var values []int64
		for range rapid.IntRange(1, 8).Draw(r, "stretches") {
			pace := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1000), rapid.Int64Range(0, 1<<52)).Draw(r, "pace")
			for range rapid.IntRange(1, 400).Draw(r, "length") {
				require.NoError(t, table.Append(uint32(len(values)), uint32(uint64(now)>>32), uint32(now)))
				values = append(values, now)
				now += min(pace, math.MaxInt64-max(now, 0))
			}
		}
		v := table.view()
		check := func(target int64) {
			want := sort.Search(len(values), func(i int) bool { return values[i] > target }) - 1
			if got := v.Floor(value, target); got != want {
				r.Fatalf("Floor(%d) is %d of %d, want %d", target, got, len(values), want)
			}
		}
		for range 50 {
			at := values[rapid.IntRange(0, len(values)-1).Draw(r, "slot")]
			check(at)
			check(max(at, math.MinInt64+1) - 1)
			check(rapid.Int64().Draw(r, "target"))
		}
	})
}

// TestReadersNeverSeeHalfAnEntry has one writer that appends and cuts, and eight
// readers. What they read belongs together at all times: a value is its key's
// square, and keys differ from round to round. The heap file system is there for
// the race detector, which does not look at mapped files.
func TestReadersNeverSeeHalfAnEntry(t *testing.T) {
	for _, row := range []struct {
		name string
		fs   vfs.FS
	}{{"mapped", vfs.OS}, {"heap", newHeapFS()}} {
		t.Run(row.name, func(t *testing.T) {
			table, _ := filled(t, 0, Options{FS: row.fs})
			var done atomic.Bool
			var readers sync.WaitGroup
			for range 8 {
				readers.Go(func() {
					for !done.Load() {
						for target := int64(0); target < 40_000; target += 997 {
							readSquare(t, table, target)
						}
					}
				})
			}
			for round := range uint32(20) {
				for k := round + 1; table.Len() < 2000; k += 7 + round {
					square := uint64(k) * uint64(k)
					require.NoError(t, table.Append(k, uint32(square>>32), uint32(square)))
				}
				require.NoError(t, table.TruncateTo(0))
			}
			done.Store(true)
			readers.Wait()
		})
	}
}

func readSquare(t *testing.T, table *Table, target int64) {
	var slot int
	var k, square int64
	err := table.Read(func(v View) {
		if slot = v.Floor(key, target); slot >= 0 {
			k, square = v.Int(slot, key), v.Int(slot, value)
		}
	})
	if err != nil || slot >= 0 && (k > target || k*k != square) {
		t.Errorf("Floor(%d): key %d, value %d, %v", target, k, square, err)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	table, _ := filled(t, 5000, Options{})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n := uint32(table.Len() + 1)
		if table.Append(n, 0, n) != nil {
			panic("append")
		}
	}), "Append")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		slot := -1
		if table.Read(func(v View) { slot = v.Floor(key, 2500) }) != nil || slot != 2499 {
			panic("floor")
		}
	}), "Floor")
}
