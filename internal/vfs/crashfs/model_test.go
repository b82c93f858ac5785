package crashfs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelFile is what a file has been since it was last synced.
type modelFile struct {
	live    []byte
	durable []byte
	history [][]byte // durable first, live last
}

func (f *modelFile) change(live []byte) {
	f.live = live
	f.history = append(f.history, live)
}

func (f *modelFile) sync() {
	f.durable = f.live
	f.history = [][]byte{f.live}
}

// mayBe reports whether a disk may hold data as the content of f: each byte as it
// once was, zero only where the file once had none, and a length it once had, or
// one between two of them at the end of a sector.
func (f *modelFile) mayBe(data []byte) bool {
	shortest, longest, knownLength := len(f.live), 0, false
	for _, h := range f.history {
		shortest, longest = min(shortest, len(h)), max(longest, len(h))
		knownLength = knownLength || len(h) == len(data)
	}
	if !knownLength && (len(data) < shortest || len(data) > longest || len(data)%sectorSize != 0) {
		return false
	}
	for i, b := range data {
		once := slices.ContainsFunc(f.history, func(h []byte) bool { return i < len(h) && h[i] == b })
		if !once && (b != 0 || i < shortest) {
			return false
		}
	}
	return true
}

// model is one directory.
type model struct {
	names, durable map[string]*modelFile
	history        []map[string]*modelFile // durable first, names last
}

func (m *model) change(edit func()) {
	m.names = maps.Clone(m.names)
	edit()
	m.history = append(m.history, m.names)
}

func (m *model) syncDir() {
	m.durable = m.names
	m.history = []map[string]*modelFile{m.names}
}

func text(names map[string]*modelFile, content func(*modelFile) []byte) string {
	var parts []string
	for name, f := range names {
		parts = append(parts, name+"="+runs(content(f)))
	}
	slices.Sort(parts)
	return fmt.Sprint(parts)
}

// requireMayBe checks a disk against the model.
func (m *model) requireMayBe(t require.TestingT, disk *FS, why string) {
	for _, name := range []string{"a", "b", "c"} {
		data, err := vfs.ReadFile(disk, name, 1<<20)
		missing := os.IsNotExist(err)
		possible := slices.ContainsFunc(m.history, func(names map[string]*modelFile) bool {
			f := names[name]
			return missing == (f == nil) && (missing || f.mayBe(data))
		})
		require.True(t, possible, "%s=%s cannot be: %s", name, runs(data), why)
	}
}

// TestStatesAgreeWithAModel runs random operations, and compares the states with
// a model that knows every content each file and each name has had since they
// were durable. At times the power goes out, and it goes on from there.
func TestStatesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := New(Options{})
		m := &model{names: map[string]*modelFile{}}
		m.syncDir()
		letter := byte(0)
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		sizes := rapid.SampledFrom([]int{1, 100, 511, 512, 513, 1500, 4096, 5000})
		// with opens one that exists and hands it over together with its model.
		with := func(t *rapid.T, use func(f vfs.File, model *modelFile)) {
			name := names.Draw(t, "name")
			known := m.names[name]
			f, err := disk.OpenFile(name, os.O_RDWR, 0)
			if known == nil {
				require.ErrorIs(t, err, os.ErrNotExist)
				t.Skip()
			}
			require.NoError(t, err)
			use(f, known)
			require.NoError(t, f.Close())
			letter = letter%250 + 1
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				name := names.Draw(t, "name")
				f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				if m.names[name] == nil {
					created := &modelFile{}
					created.sync()
					m.change(func() { m.names[name] = created })
				}
			},
			"write": func(t *rapid.T) {
				off, data := sizes.Draw(t, "off"), bytes.Repeat([]byte{letter + 1}, sizes.Draw(t, "size"))
				with(t, func(f vfs.File, known *modelFile) {
					_, err := f.WriteAt(data, int64(off))
					require.NoError(t, err)
					live := append(slices.Clone(known.live), make([]byte, max(0, off+len(data)-len(known.live)))...)
					copy(live[off:], data)
					known.change(live)
				})
			},
			"store": func(t *rapid.T) {
				at := rapid.IntRange(0, 20000).Draw(t, "at")
				with(t, func(f vfs.File, known *modelFile) {
					length := len(known.live)
					mapping, err := f.Map(length+100, true)
					require.NoError(t, err)
					if length > 0 {
						live := slices.Clone(known.live)
						live[at%length] = letter + 1
						mapping.Bytes()[at%length] = letter + 1
						known.change(live)
					}
					require.NoError(t, mapping.Unmap())
				})
			},
			"truncate": func(t *rapid.T) {
				size := sizes.Draw(t, "size")
				with(t, func(f vfs.File, known *modelFile) {
					require.NoError(t, f.Truncate(int64(size)))
					live := append(slices.Clone(known.live), make([]byte, max(0, size-len(known.live)))...)
					known.change(live[:size])
				})
			},
			"preallocate": func(t *rapid.T) {
				size := sizes.Draw(t, "size")
				with(t, func(f vfs.File, known *modelFile) {
					require.NoError(t, f.Preallocate(int64(size)))
					known.change(append(slices.Clone(known.live), make([]byte, max(0, size-len(known.live)))...))
				})
			},
			"sync": func(t *rapid.T) {
				with(t, func(f vfs.File, known *modelFile) {
					require.NoError(t, f.Sync())
					known.sync()
				})
			},
			"rename": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				err := disk.Rename(from, to)
				if m.names[from] == nil {
					require.ErrorIs(t, err, os.ErrNotExist)
					return
				}
				require.NoError(t, err)
				if from != to {
					m.change(func() { m.names[to] = m.names[from]; delete(m.names, from) })
				}
			},
			"remove": func(t *rapid.T) {
				name := names.Draw(t, "name")
				err := disk.Remove(name)
				if m.names[name] == nil {
					require.ErrorIs(t, err, os.ErrNotExist)
					return
				}
				require.NoError(t, err)
				m.change(func() { delete(m.names, name) })
			},
			"sync dir": func(t *rapid.T) {
				require.NoError(t, disk.SyncDir("/"))
				m.syncDir()
			},
			"kill": func(*rapid.T) { disk = disk.Kill() },
			"power loss": func(t *rapid.T) {
				limit := rapid.IntRange(1, 30).Draw(t, "state")
				var last State
				for state := range disk.States(limit, 1) {
					last = state
				}
				disk = last.FS()
				for _, name := range []string{"a", "b", "c"} {
					data, err := vfs.ReadFile(disk, name, 1<<20)
					if err != nil {
						delete(m.names, name)
						continue
					}
					m.names[name] = &modelFile{live: data}
					m.names[name].sync()
				}
				m.syncDir()
				require.Empty(t, disk.Unsynced())
			},
			"look": func(t *rapid.T) {
				for state := range disk.States(60, 1) {
					crashed := state.FS()
					m.requireMayBe(t, crashed, state.String())
					require.Empty(t, crashed.Unsynced())
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, text(m.names, func(f *modelFile) []byte { return f.live }), "["+show(t, disk, "/")+"]")
				for state := range disk.States(1, 1) {
					require.Equal(t, text(m.durable, func(f *modelFile) []byte { return f.durable }), "["+show(t, state.FS(), "/")+"]")
				}
			},
		})
		disk.SyncAll()
		want := show(t, disk, "/")
		require.Equal(t, []string{want}, shown(t, disk, 10))
	})
}

// TestFilesNeverGetLostByMoving moves files and directories about, to names no
// one has, and syncs directories at random. Whatever a power loss keeps of it,
// each file is somewhere, once.
func TestFilesNeverGetLostByMoving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScript(t, Options{})
		s.mkdir("a/b")
		s.mkdir("c")
		for i, dir := range []string{"a", "a/b", "c", "/"} {
			s.file(path.Join(dir, "f"), 'A'+byte(i), 1)
		}
		fresh := 0
		// pick draws one of all directories, or all files and directories.
		pick := func(t *rapid.T, label string, files bool) string {
			all := []string{"/"}
			for i := 0; i < len(all); i++ {
				entries, err := s.disk.ReadDir(all[i])
				if err != nil {
					continue // a file
				}
				for _, entry := range entries {
					if files || entry.IsDir() {
						all = append(all, path.Join(all[i], entry.Name()))
					}
				}
			}
			return rapid.SampledFrom(all).Draw(t, label)
		}
		t.Repeat(map[string]func(*rapid.T){
			"move": func(t *rapid.T) {
				from, to := pick(t, "from", true), pick(t, "to", false)
				fresh++
				_ = s.disk.Rename(from, path.Join(to, fmt.Sprint(fresh))) // not into itself, and not the root
			},
			"move again": func(t *rapid.T) {
				from, to := pick(t, "from", true), pick(t, "to", false)
				_, err := s.disk.Stat(path.Join(to, "f"))
				if err != nil {
					_ = s.disk.Rename(from, path.Join(to, "f"))
				}
			},
			"mkdir": func(t *rapid.T) {
				fresh++
				s.mkdir(path.Join(pick(t, "dir", false), fmt.Sprint(fresh)))
			},
			"rmdir":    func(t *rapid.T) { _ = s.disk.Remove(pick(t, "dir", false)) },
			"sync dir": func(t *rapid.T) { s.syncDir(pick(t, "dir", false)) },
			"kill":     func(*rapid.T) { s.disk = s.disk.Kill() },
			"look": func(t *rapid.T) {
				synced := len(s.disk.Unsynced()) == 0
				for state := range s.disk.States(20, 1) {
					crashed := show(t, state.FS(), "/")
					for letter := range byte(4) {
						require.Equal(t, 1, strings.Count(crashed, string([]byte{'=', 'A' + letter, '1'})), "%s: %s", crashed, state)
					}
					if synced {
						require.Equal(t, show(t, s.disk, "/"), crashed)
					}
				}
			},
		})
	})
}
