package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func create(t *testing.T, name string) File {
	t.Helper()
	f, err := OS.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestErrorsKeepTheirCategory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	f := create(t, filepath.Join(t.TempDir(), "closed"))
	require.NoError(t, f.Close())

	for _, row := range []struct {
		name string
		call func() error
		want error
	}{
		{"open a missing file", func() error { _, err := OS.OpenFile(missing, os.O_RDONLY, 0); return err }, fs.ErrNotExist},
		{"create an existing file", func() error { _, err := OS.OpenFile(f.Name(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); return err }, fs.ErrExist},
		{"stat a missing file", func() error { _, err := OS.Stat(missing); return err }, fs.ErrNotExist},
		{"list a missing directory", func() error { _, err := OS.ReadDir(missing); return err }, fs.ErrNotExist},
		{"rename a missing file", func() error { return OS.Rename(missing, missing+"2") }, fs.ErrNotExist},
		{"remove a missing file", func() error { return OS.Remove(missing) }, fs.ErrNotExist},
		{"free space of a missing directory", func() error { _, err := OS.FreeSpace(missing); return err }, fs.ErrNotExist},
		{"lock in a missing directory", func() error { _, err := OS.Lock(filepath.Join(missing, ".lock"), Exclusive); return err }, fs.ErrNotExist},
		{"read a missing file", func() error { _, err := ReadFile(OS, missing, 10); return err }, fs.ErrNotExist},
		{"sync a closed file", f.Sync, fs.ErrClosed},
		{"truncate a closed file", func() error { return f.Truncate(1) }, fs.ErrClosed},
		{"preallocate a closed file", func() error { return f.Preallocate(1) }, fs.ErrClosed},
		{"read a closed file", func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err }, fs.ErrClosed},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorIs(t, row.call(), row.want)
		})
	}
}

func TestDirectoriesListSortedAndSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, OS.MkdirAll(dir, 0o755))
	for _, name := range []string{"c", "a", "b"} {
		require.NoError(t, create(t, filepath.Join(dir, name)).Close())
	}
	require.NoError(t, OS.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "d")))
	require.NoError(t, OS.Remove(filepath.Join(dir, "b")))
	require.NoError(t, OS.SyncDir(dir))

	entries, err := OS.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"c", "d"}, names)

	free, err := OS.FreeSpace(dir)
	require.NoError(t, err)
	require.Positive(t, free)
}

func TestOpenFilesCanBeRenamedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	f := create(t, filepath.Join(dir, "0.log"))
	_, err := WriteFull(f, []byte("batch"), 0)
	require.NoError(t, err)

	deleted := filepath.Join(dir, "0.log.deleted")
	require.NoError(t, OS.Rename(f.Name(), deleted))
	require.NoError(t, OS.Remove(deleted))
	got := make([]byte, 5)
	_, err = ReadFull(f, got, 0)
	require.NoError(t, err)
	require.Equal(t, "batch", string(got))
}

func TestPreallocateExtendsWithZerosAndKeepsData(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	_, err := WriteFull(f, []byte("data"), 0)
	require.NoError(t, err)

	for _, row := range []struct {
		name string
		size int64
		want int64
	}{
		{"nothing", 0, 4},
		{"below the end", 2, 4},
		{"to the end", 4, 4},
		{"beyond the end", 600_000, 600_000},
		{"again", 600_000, 600_000},
		{"less than before", 10, 600_000},
	} {
		require.NoError(t, f.Preallocate(row.size), row.name)
		info, err := f.Stat()
		require.NoError(t, err, row.name)
		require.Equal(t, row.want, info.Size(), row.name)
	}
	got, err := ReadFile(OS, f.Name(), 1<<20)
	require.NoError(t, err)
	require.Equal(t, append([]byte("data"), make([]byte, 599_996)...), got)
	require.ErrorIs(t, f.Preallocate(-1), fs.ErrInvalid)
}

// writerFunc is a WriteAt and nothing else.
type writerFunc func(b []byte, off int64) (int, error)

func (w writerFunc) WriteAt(b []byte, off int64) (int, error) { return w(b, off) }

func TestFillZerosNeverWritesBelowTheOldEnd(t *testing.T) {
	const old, size = 1000, 900_000
	end := int64(old)
	w := writerFunc(func(b []byte, off int64) (int, error) {
		require.Equal(t, end, off)
		b = b[:min(len(b), 5000)] // a short write
		require.Equal(t, make([]byte, len(b)), b)
		end += int64(len(b))
		return len(b), nil
	})
	require.NoError(t, fillZeros(w, old, size))
	require.EqualValues(t, size, end)
	require.NoError(t, fillZeros(w, size, size))
	require.NoError(t, fillZeros(w, size, 0))

	full := errors.New("no space")
	require.ErrorIs(t, fillZeros(writerFunc(func([]byte, int64) (int, error) { return 0, full }), 0, 1), full)
}

func TestMappingSharesBytesWithTheFile(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	require.NoError(t, f.Preallocate(8192))
	m, err := f.Map(8192, true)
	require.NoError(t, err)
	require.Len(t, m.Bytes(), 8192)

	copy(m.Bytes()[5000:], "through the mapping")
	require.NoError(t, m.Flush())
	got := make([]byte, 19)
	_, err = ReadFull(f, got, 5000)
	require.NoError(t, err)
	require.Equal(t, "through the mapping", string(got))

	readOnly, err := OS.OpenFile(f.Name(), os.O_RDONLY, 0)
	require.NoError(t, err)
	view, err := readOnly.Map(8192, false)
	require.NoError(t, err)
	require.NoError(t, readOnly.Close(), "a mapping outlives its file")
	copy(m.Bytes(), "seen by both")
	require.Equal(t, "seen by both", string(view.Bytes()[:12]))
	require.NoError(t, view.Flush(), "nothing to flush")

	for range 2 {
		require.NoError(t, view.Unmap())
		require.NoError(t, m.Unmap())
	}
	require.NoError(t, m.Flush())
	require.Empty(t, m.Bytes())
}

func TestMapRefusesWhatCannotBe(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	_, err := f.Map(-1, true)
	require.ErrorIs(t, err, fs.ErrInvalid)

	empty, err := f.Map(0, true)
	require.NoError(t, err)
	require.Empty(t, empty.Bytes())
	require.NoError(t, empty.Flush())
	require.NoError(t, empty.Unmap())

	require.NoError(t, f.Preallocate(4096))
	readOnly, err := OS.OpenFile(f.Name(), os.O_RDONLY, 0)
	require.NoError(t, err)
	_, err = readOnly.Map(4096, true)
	var pathError *fs.PathError
	require.ErrorAs(t, err, &pathError)
	require.Equal(t, f.Name(), pathError.Path)
	require.NoError(t, readOnly.Close())
}

func TestSyncRunsBesideWrites(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for n := range 20 {
				_, err := f.WriteAt([]byte{byte(n)}, int64(i))
				require.NoError(t, err)
				require.NoError(t, f.Sync())
			}
		})
	}
	writers.Wait()
}

// shortFile reads at most 7 bytes at once and writes at most 13, without an
// error.
type shortFile struct{ File }

func (f shortFile) ReadAt(b []byte, off int64) (int, error) {
	return f.File.ReadAt(b[:min(len(b), 7)], off)
}

func (f shortFile) WriteAt(b []byte, off int64) (int, error) {
	return f.File.WriteAt(b[:min(len(b), 13)], off)
}

// stepFS wraps the real file system and fails at the step with this name.
type stepFS struct {
	FS
	fail  string
	err   error
	short bool
}

func (s stepFS) step(name string) error {
	if s.fail == name {
		return s.err
	}
	return nil
}

func (s stepFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := s.step("open"); err != nil {
		return nil, err
	}
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if s.short {
		f = shortFile{f}
	}
	return stepFile{f, s}, nil
}

func (s stepFS) Rename(oldname, newname string) error {
	if err := s.step("rename"); err != nil {
		return err
	}
	return s.FS.Rename(oldname, newname)
}

func (s stepFS) SyncDir(name string) error {
	if err := s.step("sync dir"); err != nil {
		return err
	}
	return s.FS.SyncDir(name)
}

type stepFile struct {
	File
	fs stepFS
}

func (f stepFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.step("write"); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], off) // what a full disk leaves
		return n, err
	}
	return f.File.WriteAt(b, off)
}

func (f stepFile) Sync() error {
	if err := f.fs.step("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f stepFile) Close() error {
	return errors.Join(f.File.Close(), f.fs.step("close"))
}

func TestFilesSurviveShortReadsAndWrites_K049(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	data := bytes.Repeat([]byte("0123456789"), 100)
	short := stepFS{FS: OS, short: true}
	require.NoError(t, WriteFileAtomic(short, name, data))
	for _, fsys := range []FS{OS, short} {
		got, err := ReadFile(fsys, name, 1000)
		require.NoError(t, err)
		require.Equal(t, data, got)
	}
}

func TestReadFullTellsTheEndFromTheMiddle_K049(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "f"))
	_, err := WriteFull(shortFile{f}, []byte("twenty bytes of data"), 0)
	require.NoError(t, err)

	for _, row := range []struct {
		name string
		off  int64
		size int
		n    int
		err  error
	}{
		{"all of it", 0, 20, 20, nil},
		{"nothing at the end", 20, 0, 0, nil},
		{"up to the end", 12, 8, 8, nil},
		{"across the end", 12, 9, 8, io.ErrUnexpectedEOF},
		{"behind the end", 20, 1, 0, io.EOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, f := range []io.ReaderAt{f, shortFile{f}} {
				n, err := ReadFull(f, make([]byte, row.size), row.off)
				require.Equal(t, row.n, n)
				require.Equal(t, row.err, err)
			}
		})
	}
}

type stuckFile struct{}

func (stuckFile) ReadAt([]byte, int64) (int, error)  { return 0, nil }
func (stuckFile) WriteAt([]byte, int64) (int, error) { return 0, nil }

func TestFullReadsAndWritesDoNotSpinWithoutProgress(t *testing.T) {
	_, err := ReadFull(stuckFile{}, make([]byte, 1), 0)
	require.Equal(t, io.ErrNoProgress, err)
	_, err = WriteFull(stuckFile{}, make([]byte, 1), 0)
	require.Equal(t, io.ErrShortWrite, err)
}

func TestReadFileRefusesMoreThanItsLimit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := create(t, name)
	_, err := WriteFull(f, []byte("12345"), 0)
	require.NoError(t, err)

	for _, row := range []struct {
		name  string
		limit int64
		ok    bool
	}{
		{"less", 4, false},
		{"equal", 5, true},
		{"more", 1 << 60, true},
		{"none", 0, false},
		{"negative", -1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := ReadFile(OS, name, row.limit)
			if row.ok {
				require.NoError(t, err)
				require.Equal(t, "12345", string(got))
				return
			}
			require.ErrorIs(t, err, ErrTooLarge)
			require.ErrorContains(t, err, name)
		})
	}

	require.NoError(t, f.Truncate(1<<40))
	_, err = ReadFile(OS, name, 1<<20)
	require.ErrorIs(t, err, ErrTooLarge, "a hole counts")
}

// shrunkFile claims more bytes than it has.
type shrunkFile struct {
	File
	info fs.FileInfo
}

func (f shrunkFile) Stat() (fs.FileInfo, error) { return f.info, nil }

type shrinkingFS struct{ FS }

func (s shrinkingFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return shrunkFile{f, info}, os.Truncate(name, info.Size()/2)
}

func TestReadFileReturnsWhatIsLeftOfAShrinkingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, WriteFileAtomic(OS, name, []byte("12345678")))
	got, err := ReadFile(shrinkingFS{OS}, name, 8)
	require.NoError(t, err)
	require.Equal(t, "1234", string(got))
}

func TestWriteFileAtomicReplacesOrLeavesTheOldFile_K110(t *testing.T) {
	for _, row := range []struct {
		fail string
		want string
	}{
		{"", "new"},
		{"open", "old"},
		{"write", "old"},
		{"sync", "old"},
		{"close", "old"},
		{"rename", "old"},
		{"sync dir", "new"},
	} {
		t.Run("failing "+row.fail, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "checkpoint")
			require.NoError(t, WriteFileAtomic(OS, name, []byte("old")))
			// A leftover of an earlier crash is no obstacle.
			require.NoError(t, os.WriteFile(name+".tmp", []byte("leftover, and longer"), 0o644))

			full := errors.New("no space left on device")
			err := WriteFileAtomic(stepFS{FS: OS, fail: row.fail, err: full}, name, []byte("new"))
			if row.fail == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, full)
			}
			got, err := ReadFile(OS, name, 100)
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
			entries, err := OS.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "no .tmp left")
		})
	}
}
