//go:build unix

package mapped

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv marks the process that inChild starts.
const childEnv = "MAPPED_TEST_CHILD"

// inChild runs the rest of the test that calls it in a process of its own, since
// a fault that nobody catches ends the process and a limit stays with it.
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

// faultEntries fill more than one page of any system.
const faultEntries = 3000

// Ways to lose the memory of a table, and to get it back.
var faults = []struct {
	name       string
	lose, mend func(t *testing.T, table *Table)
}{
	{
		"file cut by someone else", // SIGBUS
		func(t *testing.T, table *Table) { require.NoError(t, os.Truncate(table.Path(), 0)) },
		func(t *testing.T, table *Table) { require.NoError(t, os.Truncate(table.Path(), 1<<20)) },
	},
	{
		"memory that cannot be read", // SIGSEGV
		func(t *testing.T, table *Table) { protect(t, table.bytes, unix.PROT_NONE) },
		func(t *testing.T, table *Table) { protect(t, table.bytes, unix.PROT_READ) },
	},
}

func protect(t *testing.T, memory []byte, protection int) {
	t.Helper()
	require.NoError(t, unix.Mprotect(memory, protection))
}

func readFirst(table *Table) error { return table.Read(func(v View) { v.Int(0, key) }) }

func requireFault(t *testing.T, table *Table, err error) *FaultError {
	t.Helper()
	require.ErrorIs(t, err, ErrFault)
	var fault *FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, table.Path(), fault.File)
	require.GreaterOrEqual(t, fault.Position, int64(0))
	require.Less(t, fault.Position, int64(len(table.bytes)))
	require.True(t, table.Faulted())
	return fault
}

// requireFaultStays wants every call to fail as the first did, with the memory
// whole again, so that only one that leaves it alone can.
func requireFaultStays(t *testing.T, table *Table, want *FaultError) {
	t.Helper()
	for name, call := range map[string]func() error{
		"Read":       func() error { return table.Read(func(View) { panic("called") }) },
		"Append":     func() error { return table.Append(faultEntries+1, 0, 0) },
		"Reserve":    table.Reserve,
		"TruncateTo": func() error { return table.TruncateTo(1) },
		"Reset":      table.Reset,
		"Trim":       table.Trim,
		"Grow":       table.Grow,
		"Check":      table.Check,
		"Sync":       table.Sync,
	} {
		require.Same(t, want, call(), name)
	}
}

func TestFaultIsAnErrorOfTheCall(t *testing.T) {
	for _, fault := range faults {
		for _, row := range []struct {
			name string
			call func(table *Table) error
		}{
			{"Read", readFirst},
			{"Append", func(table *Table) error { return table.Append(faultEntries+1, 0, 0) }},
			{"Reserve", (*Table).Reserve},
			{"TruncateTo", func(table *Table) error { return table.TruncateTo(1) }},
			{"Reset", (*Table).Reset},
			{"Check", (*Table).Check},
		} {
			t.Run(row.name+", "+fault.name, func(t *testing.T) {
				inChild(t, func(t *testing.T) {
					table, path := filled(t, faultEntries, Options{})
					fault.lose(t, table)
					first := requireFault(t, table, row.call(table))
					fault.mend(t, table)
					length := fileLength(path)
					requireFaultStays(t, table, first)
					require.NoError(t, table.Close())
					require.Equal(t, length, fileLength(path), "left as it is")
				})
			})
		}
	}
}

func TestFaultOfATableOpenedForReading(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			inChild(t, func(t *testing.T) {
				table, path := filled(t, faultEntries, Options{})
				require.NoError(t, table.Close())
				table, err := OpenReadOnly(path, layout, Options{})
				require.NoError(t, err)
				fault.lose(t, table)
				first := requireFault(t, table, table.Check())
				fault.mend(t, table)
				require.Same(t, first, readFirst(table))
				require.ErrorIs(t, table.Append(1, 0, 0), ErrReadOnly)
				require.NoError(t, table.Sync())
				require.NoError(t, table.Close())
			})
		})
	}
}

func TestFaultWhileOpeningForWriting(t *testing.T) {
	for _, row := range []struct {
		name string
		lose func(t *testing.T, path string, memory []byte)
	}{
		{"file cut by someone else", func(t *testing.T, path string, _ []byte) { require.NoError(t, os.Truncate(path, 0)) }},
		{"memory that cannot be read", func(t *testing.T, _ string, memory []byte) { protect(t, memory, unix.PROT_NONE) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			inChild(t, func(t *testing.T) {
				table, path := filled(t, faultEntries, Options{})
				require.NoError(t, table.Close())
				hooks := &hookFS{FS: vfs.OS, mapFile: func(f vfs.File, length int, writable bool) (vfs.Mapping, error) {
					m, err := f.Map(length, writable)
					row.lose(t, path, m.Bytes())
					return m, err
				}}
				_, err := Open(path, layout, Options{FS: hooks})
				var fault *FaultError
				require.ErrorAs(t, err, &fault)
				require.Equal(t, path, fault.File)
				require.GreaterOrEqual(t, fault.Position, int64(0))
			})
		})
	}
}

// What is left of a file that was cut can be read until someone asks for more.
func TestFaultNamesThePageThatIsGone(t *testing.T) {
	inChild(t, func(t *testing.T) {
		table, path := filled(t, faultEntries, Options{})
		page := os.Getpagesize()
		require.NoError(t, os.Truncate(path, int64(page)))
		require.NoError(t, readFirst(table))
		require.False(t, table.Faulted())
		fault := requireFault(t, table, table.Check())
		require.GreaterOrEqual(t, fault.Position, int64(page))
		require.Less(t, fault.Position, int64(page+layout.EntrySize))
		require.ErrorIs(t, readFirst(table), ErrFault)
	})
}

func TestFaultInTheMiddleOfAnEntryAddsNone(t *testing.T) {
	inChild(t, func(t *testing.T) {
		page := os.Getpagesize()
		count := page / layout.EntrySize
		require.NotZero(t, page%layout.EntrySize, "the next entry lies in two pages")
		table, path := filled(t, count, Options{})
		require.NoError(t, os.Truncate(path, int64(page)))
		err := table.guarded(func() {
			for at := range layout.EntrySize / wordSize {
				storeWord(table.bytes[count*layout.EntrySize+at*wordSize:], 7)
			}
		})
		require.EqualValues(t, page, requireFault(t, table, err).Position)
		require.Equal(t, count, table.Len())
		require.NoError(t, table.Close())

		// Half an entry is left. The next opening does not take it for one.
		table, err = OpenReadOnly(path, layout, Options{})
		require.NoError(t, err)
		require.Equal(t, count, table.Len())
		require.NoError(t, table.Close())
	})
}

// Nothing faults inside the last page of a file: there are zeros, and what is
// written there is lost.
func TestFileCutInsideAPageRefusesEntries(t *testing.T) {
	table, path := filled(t, 100, Options{})
	require.NoError(t, os.Truncate(path, 50*12))
	fault := requireFault(t, table, table.Append(101, 0, 0))
	require.EqualValues(t, 99*12, fault.Position)
	require.ErrorContains(t, fault, "the last entry is gone")
	requireFaultStays(t, table, fault)
	require.NoError(t, table.Close())

	table, err := OpenReadOnly(path, layout, Options{})
	require.NoError(t, err)
	requireFilled(t, table, 50)
	require.NoError(t, table.Close())
}

func TestFirstEntryMayBeZeroForReserve(t *testing.T) {
	table, _ := filled(t, 0, Options{})
	require.NoError(t, table.Append(0, 0, 0))
	require.NoError(t, table.Reserve())
	require.NoError(t, table.Append(1, 0, 0))
	require.NoError(t, table.Check())
}

// One of many finds the fault first; each gets the same.
func TestFaultMeetsReadersAndTheWriterAtOnce(t *testing.T) {
	inChild(t, func(t *testing.T) {
		table, path := filled(t, faultEntries, Options{})
		require.NoError(t, os.Truncate(path, 0))
		errs := make([]error, 9)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				if errs[i] = readFirst(table); i == 0 {
					errs[i] = table.Append(faultEntries+1, 0, 0)
				}
			})
		}
		all.Wait()
		for _, err := range errs {
			require.Same(t, requireFault(t, table, errs[0]), err)
		}
		require.NoError(t, table.Close())
	})
}

// A fault inside a call that was made while another panic is on its way, by a
// deferred function, is the call's all the same.
func TestFaultDuringAPanic(t *testing.T) {
	inChild(t, func(t *testing.T) {
		table, path := filled(t, faultEntries, Options{})
		require.NoError(t, os.Truncate(path, 0))
		var err error
		require.PanicsWithValue(t, "another", func() {
			defer func() { err = readFirst(table) }()
			panic("another")
		})
		requireFault(t, table, err)
	})
}
