package crashfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
)

// show writes a whole disk as text: "f=D500A12" is a file f of 500 bytes D and
// 12 bytes A. A dot is a zero byte.
func show(t require.TestingT, fsys vfs.FS, dir string) string {
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	var parts []string
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.IsDir() {
			parts = append(parts, name[1:]+"/")
			if below := show(t, fsys, name); below != "" {
				parts = append(parts, below)
			}
			continue
		}
		data, err := vfs.ReadFile(fsys, name, 1<<20)
		require.NoError(t, err)
		parts = append(parts, name[1:]+"="+runs(data))
	}
	return strings.Join(parts, " ")
}

func runs(data []byte) string {
	var text string
	for len(data) > 0 {
		n := len(data) - len(bytes.TrimLeft(data, string(data[:1])))
		letter := string(data[:1])
		if data[0] == 0 {
			letter = "."
		}
		text += fmt.Sprint(letter, n)
		data = data[n:]
	}
	return text
}

// shown returns that of all states, sorted, each once.
func shown(t require.TestingT, disk *FS, limit int) []string {
	var all []string
	for state := range disk.States(limit, 1) {
		all = append(all, show(t, state.FS(), "/"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// script is a test's way to write a workload without error checks.
type script struct {
	t    require.TestingT
	disk *FS
}

func newScript(t require.TestingT, o Options) *script { return &script{t, New(o)} }

func (s *script) open(name string) vfs.File {
	f, err := s.disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(s.t, err)
	return f
}

// write fills [off, off+n) with a letter.
func (s *script) write(f vfs.File, letter byte, off int64, n int) {
	_, err := vfs.WriteFull(f, bytes.Repeat([]byte{letter}, n), off)
	require.NoError(s.t, err)
}

// file returns an open file whose name and content are durable.
func (s *script) file(name string, letter byte, n int) vfs.File {
	f := s.open(name)
	s.write(f, letter, 0, n)
	s.disk.SyncAll()
	return f
}

func (s *script) truncate(f vfs.File, size int64) { require.NoError(s.t, f.Truncate(size)) }
func (s *script) sync(f vfs.File)                 { require.NoError(s.t, f.Sync()) }
func (s *script) rename(from, to string)          { require.NoError(s.t, s.disk.Rename(from, to)) }
func (s *script) remove(name string)              { require.NoError(s.t, s.disk.Remove(name)) }
func (s *script) mkdir(name string)               { require.NoError(s.t, s.disk.MkdirAll(name, 0o755)) }
func (s *script) syncDir(name string)             { require.NoError(s.t, s.disk.SyncDir(name)) }

// TestStatesAreAllThatAPowerLossMayLeave shows the model: a workload, and every
// disk that may come of it.
func TestStatesAreAllThatAPowerLossMayLeave(t *testing.T) {
	for _, row := range []struct {
		name string
		work func(s *script)
		want []string
	}{
		{"nothing done", func(s *script) { s.file("f", 'D', 3) }, []string{"f=D3"}},
		{"append inside a sector: lost, there, or only its length", func(s *script) {
			s.write(s.file("f", 'D', 100), 'A', 100, 100)
		}, []string{"f=D100", "f=D100.100", "f=D100A100"}},
		{"append over a sector boundary: also torn there", func(s *script) {
			s.write(s.file("f", 'D', 500), 'A', 500, 24)
		}, []string{"f=D500", "f=D500.12A12", "f=D500.24", "f=D500A12", "f=D500A12.12", "f=D500A24"}},
		{"append over three sectors: also with a hole", func(s *script) {
			s.write(s.file("f", 'D', 512), 'A', 512, 1536)
		}, []string{
			"f=D512", "f=D512.1024A512", "f=D512.1536", "f=D512.512A1024", "f=D512A1024", "f=D512A1024.512",
			"f=D512A1536", "f=D512A512", "f=D512A512.1024", "f=D512A512.512A512",
		}},
		{"overwriting in place: the length is not at stake", func(s *script) {
			s.write(s.file("f", 'D', 1000), 'A', 500, 100)
		}, []string{"f=D1000", "f=D500A100D400", "f=D500A12D488", "f=D512A88D400"}},
		{"two appends: in any order", func(s *script) {
			f := s.file("f", 'D', 10)
			s.write(f, 'A', 10, 10)
			s.write(f, 'B', 20, 10)
		}, []string{"f=D10", "f=D10.10", "f=D10.10B10", "f=D10.20", "f=D10A10", "f=D10A10.10", "f=D10A10B10"}},
		{"truncated: the old end may come back", func(s *script) {
			s.truncate(s.file("f", 'D', 1000), 600)
		}, []string{"f=D1000", "f=D600"}},
		{"truncated longer: a hole", func(s *script) {
			s.truncate(s.file("f", 'D', 10), 20)
		}, []string{"f=D10", "f=D10.10"}},
		{"truncated and appended: the old end may show behind the new", func(s *script) {
			f := s.file("f", 'D', 100)
			s.truncate(f, 50)
			s.write(f, 'A', 50, 20)
		}, []string{
			"f=D100",      // nothing
			"f=D50",       // the truncation
			"f=D50.20",    // and the new length
			"f=D50A20",    // all
			"f=D50A20D30", // the bytes
			"f=D70",       // the new length
		}},
		{"preallocated", func(s *script) {
			require.NoError(s.t, s.file("f", 'D', 10).Preallocate(20))
		}, []string{"f=D10", "f=D10.10"}},
		{"preallocated and written: no length, no bytes", func(s *script) {
			f := s.file("f", 'D', 10)
			require.NoError(s.t, f.Preallocate(30))
			s.write(f, 'A', 10, 10)
		}, []string{"f=D10", "f=D10.20", "f=D10A10.10"}},
		{"synced", func(s *script) {
			f := s.file("f", 'D', 10)
			s.write(f, 'A', 10, 1000)
			s.truncate(f, 30)
			s.sync(f)
		}, []string{"f=D10A20"}},
		{"synced and appended", func(s *script) {
			f := s.file("f", 'D', 10)
			s.write(f, 'A', 10, 10)
			s.sync(f)
			s.write(f, 'B', 20, 10)
		}, []string{"f=D10A10", "f=D10A10.10", "f=D10A10B10"}},
		{"created: the name may be lost", func(s *script) {
			s.open("f")
		}, []string{"", "f="}},
		{"created and written: or the bytes", func(s *script) {
			s.write(s.open("f"), 'A', 0, 10)
		}, []string{"", "f=", "f=.10", "f=A10"}},
		{"created, written, synced, but not its directory", func(s *script) {
			f := s.open("f")
			s.write(f, 'A', 0, 1000)
			s.sync(f)
		}, []string{"", "f=A1000"}},
		{"created, directory synced, but not the file", func(s *script) {
			s.write(s.open("f"), 'A', 0, 10)
			s.syncDir("/")
		}, []string{"f=", "f=.10", "f=A10"}},
		{"renamed over another: one of them, whole", func(s *script) {
			s.file("f", 'D', 10)
			s.file("tmp", 'A', 20)
			s.rename("tmp", "f")
		}, []string{"f=A20", "f=D10 tmp=A20"}},
		{"renamed over another without a sync", func(s *script) {
			s.file("f", 'D', 10)
			s.write(s.open("tmp"), 'A', 0, 20)
			s.rename("tmp", "f")
		}, []string{"f=", "f=.20", "f=A20", "f=D10", "f=D10 tmp=", "f=D10 tmp=.20", "f=D10 tmp=A20"}},
		{"moved away and replaced: not replaced unless moved away", func(s *script) {
			s.file("f", 'D', 10)
			s.file("tmp", 'A', 20)
			s.rename("f", "old")
			s.rename("tmp", "f")
		}, []string{"f=D10 tmp=A20", "old=D10 tmp=A20", "f=A20 old=D10"}},
		{"removed: may come back", func(s *script) {
			s.file("f", 'D', 10)
			s.remove("f")
		}, []string{"", "f=D10"}},
		{"removed, directory synced", func(s *script) {
			s.write(s.file("f", 'D', 10), 'A', 10, 10)
			s.remove("f")
			s.syncDir("/")
		}, []string{""}},
		{"two names: in any order", func(s *script) {
			s.open("a")
			s.open("b")
		}, []string{"", "a=", "a= b=", "b="}},
		{"removed and made again", func(s *script) {
			s.file("f", 'D', 10)
			s.remove("f")
			s.open("f")
		}, []string{"", "f=", "f=D10"}},
		{"renamed twice", func(s *script) {
			s.file("a", 'D', 10)
			s.rename("a", "b")
			s.rename("b", "c")
		}, []string{"a=D10", "b=D10", "c=D10"}},
		{"a directory and what is in it", func(s *script) {
			s.mkdir("d")
			s.sync(s.open("d/f"))
			s.syncDir("d")
		}, []string{"", "d/ d/f="}},
		{"moved to another directory: never gone", func(s *script) {
			s.file("f", 'D', 10)
			s.mkdir("d")
			s.rename("f", "d/f")
		}, []string{"d/ d/f=D10", "d/ f=D10", "f=D10"}},
		{"moved, the new directory synced", func(s *script) {
			s.file("f", 'D', 10)
			s.mkdir("d")
			s.rename("f", "d/f")
			s.syncDir("d")
		}, []string{"d/ d/f=D10"}},
		{"moved, the old directory synced", func(s *script) {
			s.mkdir("d")
			s.file("d/f", 'D', 10)
			s.rename("d/f", "f")
			s.open("other")
			s.syncDir("d")
		}, []string{"d/ f=D10", "d/ f=D10 other="}},
		{"a new file moved: the old directory goes along", func(s *script) {
			s.mkdir("d")
			s.disk.SyncAll()
			s.open("d/f")
			s.rename("d/f", "f")
			s.syncDir("/")
		}, []string{"d/ f="}},
		{"a directory removed", func(s *script) {
			s.mkdir("d")
			s.file("d/f", 'D', 10)
			s.remove("d/f")
			s.remove("d")
		}, []string{"", "d/", "d/ d/f=D10"}},
		{"a directory removed and that synced", func(s *script) {
			s.mkdir("d")
			s.file("d/f", 'D', 10)
			s.remove("d/f")
			s.remove("d")
			s.syncDir("/")
		}, []string{""}},
		{"a directory moved into what was inside of it", func(s *script) {
			s.mkdir("a/b")
			s.disk.SyncAll()
			s.rename("a/b", "b")
			s.rename("a", "b/a")
		}, []string{"a/ a/b/", "a/ b/", "b/ b/a/"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t, Options{})
			row.work(s)
			slices.Sort(row.want)
			require.Equal(t, row.want, shown(t, s.disk, 10_000))
			require.Subset(t, row.want, shown(t, s.disk, 3), "a sample")
			require.Contains(t, row.want, show(t, s.disk, "/"))
		})
	}
}

func TestTornWritesMissASectorOrAPage(t *testing.T) {
	s := newScript(t, Options{})
	s.write(s.file("f", 'D', pageSize), 'A', pageSize, 3*pageSize)
	all := shown(t, s.disk, 1000)
	require.Subset(t, all, []string{
		"f=D4096A4096.4096A4096",                 // the page in the middle is missing
		"f=D4096.4096A8192",                      // the first
		"f=D4096A8192.4096",                      // the last
		"f=D4096A8192",                           // and the length with it
		"f=D4096A5120.512A6656",                  // a sector
		"f=D4096.512A11776", "f=D4096A11776.512", // the first, the last
		"f=D4096.12288", // all bytes
	})
	// 23 cuts: before each, with two lengths, behind each, without a sector
	// between two, without the page in the middle; length, all, nothing.
	require.Len(t, all, 3*23+22+1+3)
}

func TestMappedPagesAreKeptInAnyMix(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 2*pageSize+100)
	m, err := f.Map(10*pageSize, true)
	require.NoError(t, err)
	m.Bytes()[0] = 'A'
	m.Bytes()[pageSize] = 'B'
	m.Bytes()[2*pageSize] = 'C'

	got := map[string]bool{}
	for state := range s.disk.States(100_000, 1) {
		data, err := vfs.ReadFile(state.FS(), "f", 1<<20)
		require.NoError(t, err)
		require.Len(t, data, 2*pageSize+100)
		got[string([]byte{data[0], data[pageSize], data[2*pageSize]})] = true
	}
	require.Len(t, got, 8)

	require.NoError(t, m.Flush())
	require.Equal(t, []string{"f=A1D4095B1D4095C1D99"}, shown(t, s.disk, 100))
	m.Bytes()[1] = 'E'
	require.NoError(t, f.Sync(), "a sync of the file does it too")
	require.Equal(t, []string{"f=A1E1D4094B1D4095C1D99"}, shown(t, s.disk, 100))
}

func TestOlderContentsOfAMappedPageMayBeOnTheDisk(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 100)
	m, err := f.Map(100, true)
	require.NoError(t, err)
	var want []string
	for i := range byte(6) {
		m.Bytes()[0] = 'a' + i
		require.NoError(t, s.disk.SyncDir("/"), "any operation takes notice")
	}
	for _, letter := range []string{"a1D99", "b1D99", "c1D99", "f1D99", "D100"} {
		want = append(want, "f="+letter)
	}
	slices.Sort(want)
	require.Equal(t, want, shown(t, s.disk, 100))
	require.Len(t, s.disk.Unsynced(), storesKept, "but not all of them")
	require.NoError(t, m.Flush())
	require.Equal(t, []string{"f=f1D99"}, shown(t, s.disk, 100))
}

func TestFileWithoutADurableNameIsLost_K050(t *testing.T) {
	s := newScript(t, Options{})
	s.mkdir("log")
	s.disk.SyncAll()
	s.file("log/0.log", 'D', 10)
	f := s.open("log/10.log")
	s.write(f, 'A', 0, 10)
	s.sync(f)
	require.Contains(t, shown(t, s.disk, 100), "log/ log/0.log=D10")
	s.syncDir("log")
	require.Equal(t, []string{"log/ log/0.log=D10 log/10.log=A10"}, shown(t, s.disk, 100))

	s.rename("log/10.log", "log/10.log.deleted")
	require.Contains(t, shown(t, s.disk, 100), "log/ log/0.log=D10 log/10.log=A10")
}

func TestForgottenBytesAreReadButNeverDurable_K108(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	s.write(f, 'A', 10, 10)
	f.(interface{ Forget() }).Forget()
	require.Equal(t, "f=D10A10", show(t, s.disk, "/"))
	require.Equal(t, []string{"f=D10"}, shown(t, s.disk, 100))
	s.sync(f)
	require.Equal(t, []string{"f=D10"}, shown(t, s.disk, 100), "a sync that succeeds does not help")

	s.write(f, 'B', 20, 10)
	s.sync(f)
	require.Equal(t, "f=D10A10B10", show(t, s.disk, "/"))
	require.Equal(t, []string{"f=D10.10B10"}, shown(t, s.disk, 100))

	killed := s.disk.Kill()
	require.Equal(t, "f=D10A10B10", show(t, killed, "/"), "the cache outlives the process")
	require.Equal(t, []string{"f=D10.10B10"}, shown(t, killed, 100))

	m, err := f.Map(30, true)
	require.NoError(t, err)
	m.Bytes()[0] = 'M'
	m.(interface{ Forget() }).Forget()
	require.NoError(t, m.Flush())
	require.Equal(t, []string{"f=D10.10B10"}, shown(t, s.disk, 100))
	m.Bytes()[29] = 'N'
	require.NoError(t, m.Flush())
	require.Equal(t, []string{"f=M1D9A10B9N1"}, shown(t, s.disk, 100), "a page is written whole")
}

func TestFewStatesAreAllThereAndManyAreSampled(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	for i := range 20 {
		s.write(f, 'a'+byte(i), int64(10+i), 1)
	}
	count := func(limit int) (n int) {
		for range s.disk.States(limit, 1) {
			n++
		}
		return n
	}
	require.Equal(t, 0, count(-1))
	require.Equal(t, 0, count(0))
	require.Equal(t, 1, count(1))
	require.Equal(t, 2, count(2))
	require.Equal(t, 1000, count(1000), "of three to the power of twenty")

	s = newScript(t, Options{})
	f = s.file("f", 'D', 10)
	s.write(f, 'A', 0, 1)
	s.write(f, 'B', 1, 1)
	require.Equal(t, 4, count(4))
	require.Equal(t, 4, count(1000))
	require.Equal(t, 3, count(3))
}

func TestSampleIsDeterminedByTheSeed(t *testing.T) {
	list := func(seed uint64) (texts []string) {
		s := newScript(t, Options{})
		s.mkdir("d")
		for i := range 10 {
			f := s.open(fmt.Sprint("d/", i))
			s.write(f, 'A', 0, 3000)
			m, err := f.Map(pageSize, true)
			require.NoError(t, err)
			m.Bytes()[1000] = 'M'
		}
		states := s.disk.States(200, seed)
		for state := range states {
			texts = append(texts, state.String()+show(t, state.FS(), "/"))
		}
		s.remove("d/0") // what comes later does not matter
		i := 0
		for state := range states {
			require.Equal(t, texts[i], state.String()+show(t, state.FS(), "/"))
			i++
		}
		return texts
	}
	first := list(7)
	require.Len(t, first, 200)
	require.Equal(t, first, list(7))
	require.NotEqual(t, first, list(8))
}

func TestSampleHasTheExtremes(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 512)
	for i := range 20 {
		s.write(f, 'a'+byte(i), int64(512+10*i), 10)
	}
	s.write(f, 'Z', 712, 2000)
	s.open("g")

	var got []string
	for state := range s.disk.States(400, 3) {
		got = append(got, show(t, state.FS(), "/"))
	}
	require.Len(t, got, 400)
	letters := func(from, to byte) (text string) {
		for i := from; i < to; i++ {
			text += fmt.Sprint(string([]byte{'a' + i}), 10)
		}
		return text
	}
	require.Equal(t, "f=D512", got[0], "nothing")
	require.Equal(t, "f=D512"+letters(0, 20)+"Z2000 g=", got[1], "everything")
	for i := range byte(20) {
		require.Contains(t, got, "f=D512"+letters(0, i), "up to each")
	}
	require.Contains(t, got, "f=D512"+letters(0, 20)+"Z2000", "all but the last")
	require.Contains(t, got, "f=D512"+letters(0, 20)+".2000 g=", "all but the last write")
	require.Contains(t, got, "f=D512.70"+"h10"+" g=", "one alone")
	for _, cut := range []int{312, 824, 1336, 1848} {
		require.Contains(t, got, fmt.Sprintf("f=D512%sZ%d g=", letters(0, 20), cut), "torn")
		require.Contains(t, got, fmt.Sprintf("f=D512%sZ%d.%d g=", letters(0, 20), cut, 2000-cut), "torn, but as long")
		require.Contains(t, got, fmt.Sprintf("f=D512%s.%dZ%d g=", letters(0, 20), cut, 2000-cut), "the end alone")
	}
}

func TestStateSaysWhatWasKept(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 512)
	s.write(f, 'A', 512, 1024)
	s.open("g")
	s.rename("g", "h")
	var texts []string
	for state := range s.disk.States(1000, 9) {
		texts = append(texts, strings.TrimPrefix(state.String(), fmt.Sprintf("crash state %d of States(1000, 9): ", state.N)))
	}
	require.Contains(t, texts, "of 3 unsynced operations nothing kept")
	require.Contains(t, texts, "of 3 unsynced operations everything kept")
	require.Contains(t, texts, "of 3 unsynced operations nothing kept, but #3 write f [512,1536): kept")
	require.Contains(t, texts, "of 3 unsynced operations everything kept, but #3 write f [512,1536): kept [512,1024) length 1024")
	require.Contains(t, texts, "of 3 unsynced operations everything kept, but #3 write f [512,1536): kept length 1536")
	require.Contains(t, texts, "of 3 unsynced operations nothing kept, but #3 write f [512,1536): kept [1024,1536) length 1536; #4 create g: kept")

	for _, kind := range []Kind{Create, Mkdir, Rename, Remove, SyncDir, Write, Store, Truncate, Preallocate, Sync, Flush} {
		require.NotContains(t, Op{Kind: kind}.String(), "kind")
	}
	require.Equal(t, "kind 99", Kind(99).String())
	require.Equal(t, "#1 truncate f to 7", Op{N: 1, Kind: Truncate, Name: "f", Size: 7}.String())
	require.Equal(t, "#2 rename f to g", Op{N: 2, Kind: Rename, Name: "f", NewName: "g"}.String())
}

func TestScatteredWritesKeepWholeSectors(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 100)
	s.write(f, 'A', 100, 5000)
	c := s.disk.mu.pending[0]
	seen := map[string]bool{}
	for seed := range choice(64) {
		got := content{}
		got.writeAt(new(token), bytes.Repeat([]byte{'D'}, 100), 0)
		c.keep(&got, new(token), scattered|seed<<1)
		require.EqualValues(t, 5100, got.size)
		b := make([]byte, got.size)
		got.readAt(b, 0)
		for i := 100; i < len(b); i++ {
			if i%sectorSize != 0 && i > 100 && b[i-1] != b[i] {
				t.Fatalf("torn at %d", i)
			}
		}
		seen[string(b)] = true
		require.Contains(t, c.describe(scattered|seed<<1), "length 5100")
	}
	require.Greater(t, len(seen), 50)
}

func TestStatesAreUsedConcurrentlyBesideTheWorkload(t *testing.T) {
	s := newScript(t, Options{})
	f := s.file("f", 'D', 10)
	m, err := f.Map(10, true)
	require.NoError(t, err)
	s.write(f, 'A', 10, 600)
	var all sync.WaitGroup
	for state := range s.disk.States(100, 1) {
		all.Go(func() {
			disk := state.FS()
			before := show(t, disk, "/")
			g, err := disk.OpenFile("f", os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = g.WriteAt([]byte("changed"), 3)
			require.NoError(t, err)
			require.NoError(t, g.Sync())
			require.NotEqual(t, before, show(t, disk, "/"))
			require.Equal(t, before, show(t, state.FS(), "/"), "each is fresh")
			for range disk.States(10, 1) {
			}
		})
		s.write(f, 'B', 20, 10)
		m.Bytes()[0]++
	}
	all.Wait()
}

// TestBrokenReplacementsAreFound is the test of the whole: the steps of
// replacing a file, in the right order and in wrong ones. Only the right one
// keeps the old or the new content in every state at every moment.
func TestBrokenReplacementsAreFound(t *testing.T) {
	create := func(d *FS) error {
		f, err := d.OpenFile("f.tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 700), 0)
		return errors.Join(err, f.Close())
	}
	syncFile := func(d *FS) error {
		f, err := d.OpenFile("f.tmp", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	rename := func(d *FS) error { return d.Rename("f.tmp", "f") }
	syncDir := func(d *FS) error { return d.SyncDir("/") }
	remove := func(d *FS) error { return d.Remove("f") }
	overwrite := func(d *FS) error {
		f, err := d.OpenFile("f", os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 700), 0)
		return errors.Join(err, f.Sync(), f.Close())
	}
	for _, row := range []struct {
		name  string
		steps []func(d *FS) error
		found string // what must be found wrong, "" if it is right
	}{
		{"right", []func(*FS) error{create, syncFile, rename, syncDir}, ""},
		{"vfs.WriteFileAtomic", []func(*FS) error{func(d *FS) error {
			return vfs.WriteFileAtomic(d, "f", bytes.Repeat([]byte("n"), 700))
		}}, ""},
		{"without syncing the file", []func(*FS) error{create, rename, syncDir}, "neither"},
		{"synced too late", []func(*FS) error{create, rename, syncDir, func(d *FS) error {
			f, err := d.OpenFile("f", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Sync()
		}}, "neither"},
		{"without syncing the directory", []func(*FS) error{create, syncFile, rename}, "old at the end"},
		{"removing the old one first", []func(*FS) error{create, syncFile, remove, rename, syncDir}, "missing"},
		{"overwriting in place", []func(*FS) error{overwrite}, "neither"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t, Options{})
			s.file("f", 'o', 600)
			found := map[string]bool{}
			look := func(done bool) {
				for state := range s.disk.States(1000, 1) {
					data, err := vfs.ReadFile(state.FS(), "f", 1<<20)
					switch {
					case err != nil:
						found["missing"] = true
					case string(data) == strings.Repeat("o", 600):
						if done {
							found["old at the end"] = true
						}
					case string(data) != strings.Repeat("n", 700):
						found["neither"] = true
					}
				}
			}
			s.disk.OnOp(func(Op) { look(false) })
			for _, step := range row.steps {
				require.NoError(t, step(s.disk))
			}
			look(true)
			if row.found == "" {
				require.Empty(t, found)
				return
			}
			require.True(t, found[row.found], "found only %v", found)
		})
	}
}

// BenchmarkStates makes states of a log of 100 KiB, with 40 appends and some
// names not yet durable, and reads each once.
func BenchmarkStates(b *testing.B) {
	s := newScript(b, Options{})
	s.mkdir("log")
	f := s.file("log/0.log", 'D', 100<<10)
	s.file("log/0.index", 'D', 4096)
	s.file("log/0.timeindex", 'D', 4096)
	for i := range 40 {
		s.write(f, 'A', int64(100<<10+i*300), 300)
	}
	s.open("log/102400.log")
	s.open("log/102400.index")
	buffer := make([]byte, 200<<10)
	b.ReportAllocs()
	for n := 0; n < b.N; {
		for state := range s.disk.States(min(b.N-n, 1000), uint64(n)) {
			f, err := state.FS().OpenFile("log/0.log", os.O_RDWR, 0)
			require.NoError(b, err)
			_, _ = f.ReadAt(buffer, 0)
			n++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "states/s")
}
