//go:build unix

package timeindex_test

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/timeindex"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv marks the process that inChild starts.
const childEnv = "TIMEINDEX_TEST_CHILD"

// inChild runs the rest of the test that calls it in a process of its own, since
// a fault that nobody catches ends the process.
func inChild(t *testing.T, rest func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		rest(t)
		return
	}
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	child := exec.Command(os.Args[0], "-test.run", name, "-test.v", "-test.timeout", "1m")
	// A process under the race detector sleeps for a second before it ends.
	child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())
}

// mapFS hands out the memory of its mappings.
type mapFS struct {
	vfs.FS
	mapped func(memory []byte)
}

type mapFile struct {
	vfs.File
	fs mapFS
}

func (f mapFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return mapFile{file, f}, nil
}

func (f mapFile) Map(length int, writable bool) (vfs.Mapping, error) {
	m, err := f.File.Map(length, writable)
	if err == nil {
		f.fs.mapped(m.Bytes())
	}
	return m, err
}

// Ways to lose the memory of an index, and to get it back.
var faults = []struct {
	name       string
	lose, mend func(path string, memory []byte) error
}{
	{
		"file cut by someone else", // SIGBUS
		func(path string, _ []byte) error { return os.Truncate(path, 0) },
		func(path string, _ []byte) error { return os.Truncate(path, 1<<20) },
	},
	{
		"memory that cannot be read", // SIGSEGV
		func(_ string, memory []byte) error { return unix.Mprotect(memory, unix.PROT_NONE) },
		func(_ string, memory []byte) error { return unix.Mprotect(memory, unix.PROT_READ) },
	},
}

// requireFault wants err to be a fault of the index at path.
func requireFault(t *testing.T, path string, err error) {
	t.Helper()
	require.ErrorIs(t, err, timeindex.ErrFault)
	var fault *timeindex.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, path, fault.File)
}

// requireEmpty wants the answers of an empty index with base 45, and no more
// changes.
func requireEmpty(t *testing.T, x *timeindex.Index, path string) {
	t.Helper()
	none := timeindex.Entry{Timestamp: -1, Offset: 45}
	require.Equal(t, none, x.Lookup(50))
	require.Equal(t, none, x.LookupOffset(50))
	require.Equal(t, none, x.At(3))
	last, some := x.Last()
	require.Equal(t, none, last)
	require.False(t, some)
	for _, call := range []func() error{
		func() error { return x.MaybeAppend(10_000, 10_000, false) },
		func() error { return x.MaybeAppend(10_000, 10_000, true) },
		func() error { return x.TruncateTo(50) },
		x.Reserve, x.Reset, x.Trim, x.Grow, x.Check, x.Sync,
	} {
		requireFault(t, path, call())
	}
}

func TestFaultIsAnErrorOfTheCallOrNoAnswer(t *testing.T) {
	for _, fault := range faults {
		for _, row := range []struct {
			name string
			call func(x *timeindex.Index) error // nil for a look-up
		}{
			{"Lookup", func(x *timeindex.Index) error { x.Lookup(50); return nil }},
			{"LookupOffset", func(x *timeindex.Index) error { x.LookupOffset(50); return nil }},
			{"Last", func(x *timeindex.Index) error { x.Last(); return nil }},
			{"At", func(x *timeindex.Index) error { x.At(0); return nil }},
			{"MaybeAppend", func(x *timeindex.Index) error { return x.MaybeAppend(10_000, 10_000, false) }},
			{"Reserve", (*timeindex.Index).Reserve},
			{"TruncateTo", func(x *timeindex.Index) error { return x.TruncateTo(50) }},
			{"Reset", (*timeindex.Index).Reset},
			{"Check", (*timeindex.Index).Check},
		} {
			t.Run(row.name+", "+fault.name, func(t *testing.T) {
				inChild(t, func(t *testing.T) {
					var memory []byte
					x, path := newIndex(t, 45, timeindex.Options{FS: mapFS{vfs.OS, func(m []byte) { memory = m }}})
					for i := range int64(3000) { // more than a page of any system
						require.NoError(t, x.MaybeAppend(i, 46+i, false))
					}
					require.NoError(t, fault.lose(path, memory))
					if err := row.call(x); err != nil {
						requireFault(t, path, err)
					}
					require.True(t, x.Faulted())
					require.NoError(t, fault.mend(path, memory))
					requireEmpty(t, x, path)
					require.NoError(t, x.Close())
				})
			})
		}
	}
}

func TestFaultWhileOpening(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			inChild(t, func(t *testing.T) {
				x, path := newIndex(t, 45, timeindex.Options{})
				appendAll(t, x, timeindex.Entry{Timestamp: 1, Offset: 46}, timeindex.Entry{Timestamp: 2, Offset: 47})
				require.NoError(t, x.Close())
				o := timeindex.Options{FS: mapFS{vfs.OS, func(m []byte) { require.NoError(t, fault.lose(path, m)) }}}

				x, err := timeindex.OpenReadOnly(path, 45, o)
				require.NoError(t, err, "nothing is read yet")
				requireFault(t, path, x.Check())
				require.Equal(t, timeindex.Entry{Timestamp: -1, Offset: 45}, x.Lookup(47))
				require.NoError(t, x.Close())

				require.NoError(t, os.WriteFile(path, unhex(t, "0: 0000000000000001 00000001 0000000000000002 00000002"), 0o644))
				_, err = timeindex.Open(path, 45, o)
				requireFault(t, path, err)
			})
		})
	}
}

// The process can go on with what it has: it opens the file anew, or makes it
// anew.
func TestIndexIsSoundAgainOnceRebuilt(t *testing.T) {
	inChild(t, func(t *testing.T) {
		x, path := newIndex(t, 45, timeindex.Options{})
		appendAll(t, x, timeindex.Entry{Timestamp: 1, Offset: 46}, timeindex.Entry{Timestamp: 2, Offset: 47})
		require.NoError(t, os.Truncate(path, 0))
		requireFault(t, path, x.Reserve())
		require.NoError(t, x.Close())
		x, err := timeindex.Create(path, 45, timeindex.Options{})
		require.NoError(t, err)
		require.False(t, x.Faulted())
		appendAll(t, x, timeindex.Entry{Timestamp: 1, Offset: 46}, timeindex.Entry{Timestamp: 2, Offset: 47})
		require.Equal(t, timeindex.Entry{Timestamp: 2, Offset: 47}, x.Lookup(50))
		require.NoError(t, x.Close())
	})
}

// Inside the last page of a file nothing faults: behind its end there are zeros,
// which must not make 1970 the newest time of a segment.
func TestFileCutInsideAPageMisleadsNobody(t *testing.T) {
	x, path := newIndex(t, 45, timeindex.Options{})
	for i := range int64(100) {
		require.NoError(t, x.MaybeAppend(1_000+8*i, 46+i, false))
	}
	require.NoError(t, os.Truncate(path, 50*12+3))
	for i := range int64(100) {
		// Records up to the offset must not be later than the timestamp.
		e := x.Lookup(1_000 + 8*i)
		require.True(t, e.Offset <= 46+i && e.Timestamp <= 1_000+8*i, "%v", e)
		require.LessOrEqual(t, x.LookupOffset(46+i).Offset, 46+i)
	}
	last, some := x.Last()
	require.False(t, some)
	require.Equal(t, timeindex.Entry{Timestamp: -1, Offset: 45}, last)
	require.False(t, x.Faulted())
	requireFault(t, path, x.MaybeAppend(10_000, 200, false))
	require.True(t, x.Faulted())
	require.NoError(t, x.Close())
}
