package txnindex

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/vfs"
)

// four are the entries that most tests of Kafka's TransactionIndexTest use.
var four = []Entry{{0, 0, 10, 11}, {1, 5, 15, 13}, {2, 18, 35, 25}, {3, 32, 50, 40}}

// opened returns the writable index of segment base in a new directory, holding
// entries.
func opened(t testing.TB, base int64, entries ...Entry) (x *Index, path string) {
	path = filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	return reopened(t, path, base, entries...), path
}

// reopened opens the index at path and appends entries.
func reopened(t testing.TB, path string, base int64, entries ...Entry) *Index {
	x, err := Open(path, base, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	for _, e := range entries {
		require.NoError(t, x.Append(e))
	}
	return x
}

func all(t require.TestingT, x *Index) []Entry {
	var entries []Entry
	for e, err := range x.All() {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

func TestIndexIsEmptyUntilTheFirstAbort(t *testing.T) {
	x, path := opened(t, 0)
	require.Zero(t, x.Len())
	require.Empty(t, all(t, x))
	require.NoError(t, x.Check())
	require.NoError(t, x.Sync())
	require.NoError(t, x.TruncateTo(0))
	require.NoError(t, x.Reset())
	entries, complete, err := x.Collect(nil, 0, 100)
	require.NoError(t, err)
	require.False(t, complete)
	require.Empty(t, entries)
	require.NoFileExists(t, path)

	require.NoError(t, x.Append(four[0]))
	require.FileExists(t, path)
	require.NoError(t, x.Sync())
}

func TestReopenedIndexGoesOn(t *testing.T) {
	x, path := opened(t, 0, four...)
	require.NoError(t, x.Close())
	fifth := Entry{3, 50, 60, 55}
	x = reopened(t, path, 0, fifth)
	require.Equal(t, append(four[:4:4], fifth), all(t, x))
	require.Equal(t, 5, x.Len())
	require.NoError(t, x.Check())
}

func TestAppendRefusesFallingOffsets(t *testing.T) {
	x, path := opened(t, 0, four[1])
	require.ErrorIs(t, x.Append(Entry{0, 0, 15, 11}), ErrOrder)
	require.ErrorIs(t, x.Append(Entry{0, 0, 10, 11}), ErrOrder)
	require.NoError(t, x.Close())
	x = reopened(t, path, 0) // Kafka would have forgotten
	require.ErrorIs(t, x.Append(Entry{0, 0, 15, 11}), ErrOrder)
	require.NoError(t, x.Append(Entry{0, 0, 16, 11}))
}

func TestCollectFindsWhatOverlaps(t *testing.T) {
	x, _ := opened(t, 0, four...)
	tests := []struct {
		name         string
		fetch, upper int64
		want         []Entry
		complete     bool
	}{
		{"everything", 0, 100, four, false},
		{"the last one starts at the bound", 0, 32, four[:3], true},
		{"the last one starts inside", 0, 35, four, true},
		{"the first one ends at the fetch offset", 10, 35, four, true},
		{"the first one ends before it", 11, 35, four[1:], true},
		{"bound above the last stable offset", 20, 41, four[2:], false},
		{"after everything", 51, 100, nil, false},
		{"before the second", 0, 5, four[:1], true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, complete, err := x.Collect(nil, tt.fetch, tt.upper)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.complete, complete)
		})
	}
}

func TestCollectAppendsToWhatTheCallerHas(t *testing.T) {
	x, _ := opened(t, 0, four...)
	got, _, err := x.Collect(four[:1:1], 40, 100)
	require.NoError(t, err)
	require.Equal(t, []Entry{four[0], four[3]}, got)
}

// A follower gets the abort of a transaction and the start of the producer's next
// one in a single append. The entry's last stable offset is then that of the
// oldest other transaction, 20, though the one at 11 is open.
func TestCollectIsNotMisledByAnEntryThatEndsBefore(t *testing.T) {
	x, _ := opened(t, 0, Entry{1, 0, 10, 20}, Entry{1, 11, 30, 31})
	got, complete, err := x.Collect(nil, 11, 15)
	require.NoError(t, err)
	require.True(t, complete)
	require.Equal(t, []Entry{{1, 11, 30, 31}}, got)
}

func TestTruncateToRemovesWhatEndsThere(t *testing.T) {
	x, path := opened(t, 0, four...)
	require.NoError(t, x.TruncateTo(51))
	require.Equal(t, four, all(t, x))
	require.NoError(t, x.TruncateTo(50))
	require.Equal(t, four[:3], all(t, x))
	require.ErrorIs(t, x.Append(Entry{9, 0, 35, 36}), ErrOrder)
	require.NoError(t, x.Append(Entry{9, 0, 36, 37}))
	require.NoError(t, x.Reset())
	require.Empty(t, all(t, x))
	require.NoError(t, x.Append(Entry{9, 0, 1, 2}))
	require.NoError(t, x.Close())
	require.Equal(t, []Entry{{9, 0, 1, 2}}, all(t, reopened(t, path, 0)))
}

func TestRenamedIndexGoesOnInTheRenamedFile(t *testing.T) {
	x, path := opened(t, 0, four[0])
	renamed := path + ".swap"
	require.NoError(t, x.Rename(renamed))
	require.NoError(t, x.Append(four[1]))
	require.NoError(t, x.Close())
	require.NoFileExists(t, path)
	require.Equal(t, four[:2], all(t, reopened(t, renamed, 0)))
}

func TestIndexWithoutFileIsRenamedToo(t *testing.T) {
	x, path := opened(t, 0)
	renamed := path + ".swap"
	require.NoError(t, x.Rename(renamed))
	require.NoError(t, x.Append(four[0]))
	require.NoFileExists(t, path)
	require.FileExists(t, renamed)
}

func TestOpenReadOnlyChangesNothing(t *testing.T) {
	x, path := opened(t, 0, four[:2]...)
	require.NoError(t, os.Chmod(path, 0o444))
	readOnly, err := OpenReadOnly(path, 0, Options{FS: vfs.OS})
	require.NoError(t, err)
	require.NoError(t, x.Append(four[2])) // by the writer, meanwhile
	require.Equal(t, four[:2], all(t, readOnly))
	require.NoError(t, readOnly.Check())
	for _, err := range []error{
		readOnly.Append(four[3]), readOnly.TruncateTo(0), readOnly.Reset(), readOnly.Sync(), readOnly.Rename(path + "2"),
	} {
		require.ErrorIs(t, err, ErrReadOnly)
	}
	require.NoError(t, readOnly.Close())
	require.NoError(t, readOnly.Close())
	require.Equal(t, four[:3], all(t, x))

	missing := filepath.Join(t.TempDir(), "missing.txnindex")
	readOnly, err = OpenReadOnly(missing, 0, Options{})
	require.NoError(t, err)
	require.Empty(t, all(t, readOnly))
	require.NoError(t, readOnly.Check())
	require.NoError(t, readOnly.Close())
	require.NoFileExists(t, missing)
}

func TestClosedIndexRefusesChanges(t *testing.T) {
	x, _ := opened(t, 0, four...)
	require.NoError(t, x.Close())
	require.ErrorIs(t, x.Append(Entry{9, 0, 90, 91}), ErrClosed)
	require.ErrorIs(t, x.Reset(), ErrClosed)
	require.ErrorIs(t, x.Sync(), ErrClosed)
	require.Zero(t, x.Len())
}

func file(entries ...Entry) []byte {
	var b []byte
	for _, e := range entries {
		b = AppendEntry(b, e)
	}
	return b
}

// Each damage is found, and the index can be made good again.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	otherVersion := file(four...)
	otherVersion[2*EntrySize+1] = 7
	tests := []struct {
		name  string
		base  int64
		data  []byte
		entry int
		rule  string
	}{
		{"last offset below the base offset", 100, file(four...), 0, "last offset 10 is below the base offset 100"},
		{"only the first one below", 12, file(four...), 0, "last offset 10 is below the base offset 12"},
		{"falling order", 0, file(four[0], four[2], four[1]), 2, "last offset 15 does not follow 35"},
		{"the same twice", 0, file(four[0], four[0]), 1, "last offset 10 does not follow 10"},
		{"part of an entry at the end", 0, append(file(four[:3]...), make([]byte, 20)...), 3, "20 bytes at the end, an entry has 34"},
		{"nothing but part of an entry", 0, make([]byte, 33), 0, "33 bytes at the end, an entry has 34"},
		{"another version", 0, otherVersion, 2, "version 7, want 0"},
		{"ends before it starts", 0, file(four[0], Entry{1, 16, 15, 13}), 1, "first offset 16 is outside [0, 15]"},
		{"negative first offset", 0, file(Entry{1, -1, 15, 13}), 0, "first offset -1 is outside [0, 15]"},
		{"negative producer id", 0, file(Entry{-1, 0, 15, 13}), 0, "producer id -1 is negative"},
		{"negative last stable offset", 0, file(Entry{1, 0, 15, -1}), 0, "last stable offset -1 is negative"},
		{"zeros", 0, make([]byte, 2*EntrySize), 1, "last offset 0 does not follow 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
			require.NoError(t, os.WriteFile(path, tt.data, 0o644))
			x, err := Open(path, tt.base, Options{})
			require.NoError(t, err)
			defer x.Close()
			err = x.Check()
			require.ErrorIs(t, err, ErrCorrupt)
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, CorruptError{path, tt.entry, tt.rule}, *corrupt)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, tt.data, data) // as it was

			require.NoError(t, x.Reset())
			require.NoError(t, x.Append(Entry{1, 0, 1000, 1001}))
			require.NoError(t, x.Check())
		})
	}
}

// A crash in the middle of an append leaves part of an entry. The next one starts
// where that part did, not behind it.
func TestAppendGoesOnAfterTheLastWholeEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	require.NoError(t, os.WriteFile(path, append(file(four[:3]...), make([]byte, 20)...), 0o644))
	x := reopened(t, path, 0)
	require.Equal(t, four[:3], all(t, x))
	require.NoError(t, x.Append(four[3]))
	require.NoError(t, x.Check())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file(four...), data)
}

func TestTruncateToCutsPartOfAnEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	require.NoError(t, os.WriteFile(path, append(file(four...), 1, 2, 3), 0o644))
	x := reopened(t, path, 0)
	require.NoError(t, x.TruncateTo(1000))
	require.NoError(t, x.Check())
	require.Equal(t, four, all(t, x))
}

func TestAppendRefusesToFollowADamagedEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	data := file(four...)
	data[3*EntrySize] = 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
	x := reopened(t, path, 0)
	require.ErrorIs(t, x.Append(Entry{9, 0, 90, 91}), ErrCorrupt)
	var got []Entry
	var last error
	for e, err := range x.All() {
		if last = err; err == nil {
			got = append(got, e)
		}
	}
	require.Equal(t, four[:3], got)
	require.EqualError(t, last, path+": position 102: entry 3: version 256, want 0")
	_, _, err := x.Collect(nil, 0, 100)
	require.ErrorIs(t, err, ErrCorrupt)
}

// faultFS returns files that read at most 7 bytes and write at most 13 bytes at
// a time, and fail when told to.
type faultFS struct {
	vfs.FS
	writes      int // how many writes succeed
	noTruncate  bool
	directories int // synced
}

func (f *faultFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return faultFile{file, f}, nil
}

func (f *faultFS) SyncDir(name string) error {
	f.directories++
	return f.FS.SyncDir(name)
}

type faultFile struct {
	vfs.File
	fs *faultFS
}

func (f faultFile) ReadAt(b []byte, at int64) (int, error) {
	return f.File.ReadAt(b[:min(7, len(b))], at)
}

func (f faultFile) WriteAt(b []byte, at int64) (int, error) {
	if f.fs.writes == 0 {
		return 0, syscall.ENOSPC
	}
	f.fs.writes--
	return f.File.WriteAt(b[:min(13, len(b))], at)
}

func (f faultFile) Truncate(size int64) error {
	if f.fs.noTruncate {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func TestShortReadsAndWritesAreGoneOnWith(t *testing.T) {
	faults := &faultFS{FS: vfs.OS, writes: 1000}
	path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	x, err := Open(path, 0, Options{FS: faults})
	require.NoError(t, err)
	for _, e := range four {
		require.NoError(t, x.Append(e))
	}
	require.Equal(t, four, all(t, x))
	require.NoError(t, x.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file(four...), data)
}

func TestFailedAppendLeavesTheIndexAsItWas(t *testing.T) {
	faults := &faultFS{FS: vfs.OS, writes: 3 + 1} // one append, and part of another
	path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
	x, err := Open(path, 0, Options{FS: faults})
	require.NoError(t, err)
	require.NoError(t, x.Append(four[0]))
	require.ErrorIs(t, x.Append(four[1]), syscall.ENOSPC)
	require.Equal(t, four[:1], all(t, x))
	require.NoError(t, x.Check())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file(four[0]), data)

	faults.writes = 1000 // there is room again
	require.NoError(t, x.Append(four[1]))
	require.Equal(t, four[:2], all(t, x))
	require.NoError(t, x.Close())
}

func TestAppendThatCannotBeTakenBackStopsAppends(t *testing.T) {
	faults := &faultFS{FS: vfs.OS, writes: 3 + 1, noTruncate: true}
	x, err := Open(filepath.Join(t.TempDir(), "00000000000000000000.txnindex"), 0, Options{FS: faults})
	require.NoError(t, err)
	require.NoError(t, x.Append(four[0]))
	require.ErrorIs(t, x.Append(four[1]), syscall.ENOSPC)
	faults.writes = 1000
	require.ErrorIs(t, x.Append(four[1]), syscall.ENOSPC) // the first cause
	require.Equal(t, four[:1], all(t, x))

	faults.noTruncate = false
	require.NoError(t, x.TruncateTo(11))
	require.NoError(t, x.Append(four[1]))
	require.Equal(t, four[:2], all(t, x))
	require.NoError(t, x.Close())
}

func TestSyncOfANewFileSyncsItsDirectory(t *testing.T) {
	faults := &faultFS{FS: vfs.OS, writes: 1000}
	x, err := Open(filepath.Join(t.TempDir(), "00000000000000000000.txnindex"), 0, Options{FS: faults})
	require.NoError(t, err)
	require.NoError(t, x.Sync())
	require.Zero(t, faults.directories)
	require.NoError(t, x.Append(four[0]))
	require.NoError(t, x.Sync())
	require.NoError(t, x.Sync())
	require.Equal(t, 1, faults.directories)
	require.NoError(t, x.Close())
}

func TestFileThatShrinksIsAnErrorNotZeros(t *testing.T) {
	x, path := opened(t, 0, four...)
	require.NoError(t, os.Truncate(path, EntrySize+5))
	var last error
	for _, err := range x.All() {
		last = err
	}
	require.ErrorIs(t, last, io.ErrUnexpectedEOF)
	require.ErrorContains(t, last, path)
}

// Readers beside the writer see a beginning of the list, and never part of an
// entry.
func TestReadersSeeWholeEntriesWhileTheWriterAppends(t *testing.T) {
	const entries = 2000
	x, path := opened(t, 0)
	var done atomic.Bool
	errs := make(chan error)
	for range 4 {
		go func() {
			err := error(nil)
			for !done.Load() && err == nil {
				err = readersCheck(x)
			}
			errs <- errors.Join(err, readersCheck(x))
		}()
	}
	for n := range int64(entries) {
		require.NoError(t, x.Append(Entry{n, n, n + 1, n}))
		if n == entries/2 {
			require.NoError(t, x.Rename(path+".swap"))
		}
	}
	done.Store(true)
	for range 4 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, entries, x.Len())
}

func readersCheck(x *Index) error {
	atLeast := x.Len()
	n := int64(0)
	for e, err := range x.All() {
		if err != nil {
			return err
		}
		if want := (Entry{n, n, n + 1, n}); e != want {
			return errors.New("an entry that nobody wrote")
		}
		n++
	}
	if n < int64(atLeast) {
		return errors.New("an entry went missing")
	}
	_, _, err := x.Collect(nil, n/2, n)
	return err
}

func TestCollectDoesNotAllocate(t *testing.T) {
	x, _ := opened(t, 0)
	for n := range int64(300) {
		require.NoError(t, x.Append(Entry{n, n, n + 1, n}))
	}
	dst := make([]Entry, 0, 300)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		got, _, err := x.Collect(dst, 100, 200)
		if err != nil || len(got) != 100+1 {
			t.Fatal(len(got), err)
		}
	}))
}

// collectAll is Kafka's search: it reads every entry.
func collectAll(entries []Entry, fetchOffset, upperBound int64) (found []Entry, complete bool) {
	for _, e := range entries {
		if e.overlaps(fetchOffset, upperBound) {
			found = append(found, e)
		}
		if e.LastStableOffset >= upperBound {
			return found, true
		}
	}
	return found, false
}

func TestIndexAnswersAsAList(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "00000000000000000000.txnindex")
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		x, err := Open(path, 0, Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, x.Close()) }()
		var list []Entry
		next := int64(0) // log end offset
		reopen := func(tail []byte) {
			require.NoError(t, x.Close())
			if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_, err := f.WriteAt(tail, int64(len(list)*EntrySize))
				require.NoError(t, errors.Join(err, f.Close()))
			}
			x, err = Open(path, 0, Options{})
			require.NoError(t, err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				// A log in which every other transaction ends before the next
				// starts has no entry with a last stable offset behind its end.
				last := next + rapid.Int64Range(1, 300).Draw(t, "length")
				stable := last + 1
				if n := len(list); n > 0 {
					stable = rapid.Int64Range(list[n-1].LastStableOffset, last+1).Draw(t, "stable")
				}
				e := Entry{rapid.Int64Range(0, 5).Draw(t, "producer"), rapid.Int64Range(0, last).Draw(t, "first"), last, stable}
				require.NoError(t, x.Append(e))
				list = append(list, e)
				next = last + 1
			},
			"truncate": func(t *rapid.T) {
				offset := rapid.Int64Range(0, next+1).Draw(t, "offset")
				require.NoError(t, x.TruncateTo(offset))
				for len(list) > 0 && list[len(list)-1].LastOffset >= offset {
					list = list[:len(list)-1]
				}
				next = min(next, offset)
			},
			"reopen":       func(t *rapid.T) { reopen(nil) },
			"reopen, torn": func(t *rapid.T) { reopen(make([]byte, rapid.IntRange(1, EntrySize-1).Draw(t, "tail"))) },
			"": func(t *rapid.T) {
				require.Equal(t, append([]Entry{}, list...), append([]Entry{}, all(t, x)...))
				fetch := rapid.Int64Range(0, next+1).Draw(t, "fetch")
				upper := rapid.Int64Range(fetch+1, next+2).Draw(t, "upper")
				want, wantComplete := collectAll(list, fetch, upper)
				got, complete, err := x.Collect(nil, fetch, upper)
				require.NoError(t, err)
				require.Equal(t, want, got, "Collect(%d, %d)", fetch, upper)
				require.Equal(t, wantComplete, complete, "Collect(%d, %d)", fetch, upper)
			},
		})
	})
}

// FuzzOpen: never panics; All ends after an error and yields no more entries than
// fit; what All yields re-encodes to the same bytes; an index that passes Check
// grows on; after Reset any index does.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(file(four...), int64(0))
	f.Add(file(four...), int64(100))
	f.Add(append(file(four[:3]...), make([]byte, 20)...), int64(0))
	f.Add(make([]byte, 10*EntrySize), int64(0))
	f.Add([]byte("\x00\x07"+string(make([]byte, 32))), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, base int64) {
		path := filepath.Join(t.TempDir(), "00000000000000000000.txnindex")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		x, err := Open(path, base, Options{})
		require.NoError(t, err)
		var whole []byte
		for e, err := range x.All() {
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				break
			}
			whole = AppendEntry(whole, e)
		}
		require.Equal(t, data[:len(whole)], append([]byte{}, whole...))
		_, _, _ = x.Collect(nil, 0, 100)
		if x.Check() == nil {
			require.Len(t, data, len(whole))
			last := int64(-1)
			for e := range x.All() {
				last = e.LastOffset
			}
			if last < 1<<62 {
				require.NoError(t, x.Append(Entry{0, 0, last + 1, 0}))
			}
		}
		require.NoError(t, x.Reset())
		require.NoError(t, x.Append(Entry{0, 0, 1, 2}))
		require.Equal(t, []Entry{{0, 0, 1, 2}}, all(t, x))
		require.NoError(t, x.Close())
	})
}
