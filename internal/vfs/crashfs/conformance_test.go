package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// category is what callers may tell apart.
func category(err error) string {
	var categories []string
	for name, target := range map[string]error{
		"not exist": fs.ErrNotExist, "exist": fs.ErrExist, "closed": fs.ErrClosed, "permission": fs.ErrPermission,
		"EOF": io.EOF, "locked": vfs.ErrLocked, "not a directory": syscall.ENOTDIR, "is a directory": syscall.EISDIR,
		"invalid": syscall.EINVAL, "bad descriptor": syscall.EBADF, "not empty": syscall.ENOTEMPTY,
	} {
		if errors.Is(err, target) {
			categories = append(categories, name)
		}
	}
	slices.Sort(categories)
	var where string
	var pathError *fs.PathError
	var linkError *os.LinkError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &linkError):
		where = " in *os.LinkError " + linkError.Op + " " + filepath.Base(linkError.Old) + " " + filepath.Base(linkError.New)
	case errors.As(err, &pathError):
		where = " in *fs.PathError " + filepath.Base(pathError.Path)
	}
	return fmt.Sprint(categories, where)
}

// machine runs the same calls on one file system and tells what came of them.
type machine struct {
	fs       vfs.FS
	root     string
	files    []vfs.File
	mappings []vfs.Mapping
	locks    []io.Closer
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// open keeps at most four files, so that numbers mean the same everywhere.
func (m *machine) open(name string, flag int) string {
	f, err := m.fs.OpenFile(m.path(name), flag, 0o644)
	if err == nil {
		m.files = append(m.files, f)
	}
	return category(err)
}

func (m *machine) file(i int, call func(f vfs.File) string) string {
	if len(m.files) == 0 {
		return "no file"
	}
	return call(m.files[i%len(m.files)])
}

func (m *machine) read(i int, off int64, size int) string {
	return m.file(i, func(f vfs.File) string {
		b := make([]byte, size)
		n, err := f.ReadAt(b, off)
		return fmt.Sprint(b[:n], category(err))
	})
}

func (m *machine) write(i int, off int64, b []byte) string {
	return m.file(i, func(f vfs.File) string {
		n, err := f.WriteAt(b, off)
		return fmt.Sprint(n, category(err))
	})
}

func (m *machine) truncate(i int, size int64) string {
	return m.file(i, func(f vfs.File) string { return category(f.Truncate(size)) })
}

func (m *machine) preallocate(i int, size int64) string {
	return m.file(i, func(f vfs.File) string {
		err := f.Preallocate(size)
		if errors.Is(err, syscall.EBADF) {
			return "bad descriptor" // whatever else it could not do with it
		}
		return category(err)
	})
}

func (m *machine) sync(i int) string {
	return m.file(i, func(f vfs.File) string { return category(f.Sync()) })
}

func (m *machine) statFile(i int) string {
	return m.file(i, func(f vfs.File) string {
		info, err := f.Stat()
		return infoText(info, err)
	})
}

func (m *machine) close(i int) string {
	return m.file(i, func(f vfs.File) string { return category(f.Close()) })
}

func (m *machine) mapFile(i, length int, writable bool) string {
	return m.file(i, func(f vfs.File) string {
		mapping, err := f.Map(length, writable)
		if err != nil {
			// Which of the two it is depends on the system.
			return fmt.Sprint("refused ", length < 0)
		}
		m.mappings = append(m.mappings, mapping)
		return fmt.Sprint(len(mapping.Bytes()))
	})
}

// store writes through a mapping where the file has bytes.
func (m *machine) store(i int, off int64, b byte) string {
	if len(m.mappings) == 0 {
		return "no mapping"
	}
	mapping := m.mappings[i%len(m.mappings)]
	if off >= int64(len(mapping.Bytes())) {
		return "beyond"
	}
	mapping.Bytes()[off] = b
	return "stored"
}

func (m *machine) unmap(i int) string {
	if len(m.mappings) == 0 {
		return "no mapping"
	}
	i %= len(m.mappings)
	err := errors.Join(m.mappings[i].Flush(), m.mappings[i].Unmap(), m.mappings[i].Unmap())
	m.mappings = slices.Delete(m.mappings, i, i+1)
	return category(err)
}

func (m *machine) lock(name string, mode vfs.LockMode) string {
	l, err := m.fs.Lock(m.path(name), mode)
	if err != nil {
		var lockError *vfs.LockError
		return fmt.Sprint(category(err), errors.As(err, &lockError))
	}
	m.locks = append(m.locks, l)
	return "locked"
}

func (m *machine) unlock(i int) string {
	if len(m.locks) == 0 {
		return "no lock"
	}
	i %= len(m.locks)
	err := m.locks[i].Close()
	m.locks = slices.Delete(m.locks, i, i+1)
	return category(err)
}

func infoText(info fs.FileInfo, err error) string {
	if err != nil {
		return category(err)
	}
	if info.IsDir() {
		return info.Name() + " " + info.Mode().Type().String()
	}
	return fmt.Sprint(info.Name(), " ", info.Mode(), " ", info.Size())
}

// tree lists everything below the root with its content.
func (m *machine) tree(dir string) string {
	entries, err := m.fs.ReadDir(m.path(dir))
	if err != nil {
		return category(err)
	}
	var text string
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		info, err := m.fs.Stat(m.path(name))
		text += infoText(info, err) + " "
		if entry.IsDir() {
			text += "(" + m.tree(name) + ") "
			continue
		}
		data, err := vfs.ReadFile(m.fs, m.path(name), 1<<20)
		text += fmt.Sprintf("%x %s ", data, category(err))
	}
	return text
}

func (m *machine) end() {
	for _, l := range m.locks {
		_ = l.Close()
	}
	for _, mapping := range m.mappings {
		_ = mapping.Unmap()
	}
	for _, f := range m.files {
		_ = f.Close()
	}
}

// TestBehavesLikeTheOperatingSystem runs random calls on the real file system
// and on this one. Everything callers see must be the same: results, kinds of
// error, sizes, bytes, names.
func TestBehavesLikeTheOperatingSystem(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("this file system is a unix one")
		return
	}
	names := rapid.SampledFrom([]string{"a", "b", "d/a", "d/e/b", "d", "d/e", "a/x", "none/x"})
	sizes := rapid.SampledFrom([]int64{0, 1, 5, 511, 4095, 4096, 4097, 9000})
	flags := rapid.SampledFrom([]int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE,
		os.O_RDWR | os.O_CREATE | os.O_EXCL, os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_TRUNC, os.O_WRONLY,
		os.O_RDWR | os.O_APPEND, os.O_RDONLY | os.O_CREATE})
	number := rapid.IntRange(0, 7)
	temp := t.TempDir()
	run := 0

	rapid.Check(t, func(t *rapid.T) {
		run++
		root := filepath.Join(temp, fmt.Sprint(run))
		require.NoError(t, os.Mkdir(root, 0o755))
		disk := New(Options{})
		require.NoError(t, disk.MkdirAll("root", 0o755))
		machines := []*machine{{fs: vfs.OS, root: root}, {fs: disk, root: "root"}}
		defer machines[0].end()
		both := func(call func(m *machine) string) {
			want := call(machines[0])
			require.Equal(t, want, call(machines[1]))
		}
		// mappedEnd is how far every mapping may be touched. The files of all
		// of them are open.
		mappedEnd := func(i int) int64 {
			m := machines[0]
			end := int64(len(m.mappings[i%len(m.mappings)].Bytes()))
			for _, f := range m.files {
				if info, err := f.Stat(); err == nil {
					end = min(end, info.Size())
				}
			}
			return end
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				if len(machines[0].files) > 6 {
					t.Skip()
				}
				name, flag := names.Draw(t, "name"), flags.Draw(t, "flag")
				both(func(m *machine) string { return m.open(name, flag) })
			},
			"read": func(t *rapid.T) {
				i, off, size := number.Draw(t, "file"), sizes.Draw(t, "off"), int(sizes.Draw(t, "size"))
				both(func(m *machine) string { return m.read(i, off, size) })
			},
			"write": func(t *rapid.T) {
				i, off := number.Draw(t, "file"), sizes.Draw(t, "off")
				b := slices.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, int(sizes.Draw(t, "size")))
				both(func(m *machine) string { return m.write(i, off, b) })
			},
			"negative": func(t *rapid.T) {
				i := number.Draw(t, "file")
				both(func(m *machine) string {
					return m.read(i, -1, 1) + m.write(i, -1, []byte{1}) + m.truncate(i, -1) + m.preallocate(i, -1) + m.mapFile(i, -1, true)
				})
			},
			"truncate": func(t *rapid.T) {
				if len(machines[0].mappings) > 0 {
					t.Skip() // or a later store touches what is gone
				}
				i, size := number.Draw(t, "file"), sizes.Draw(t, "size")
				both(func(m *machine) string { return m.truncate(i, size) })
			},
			"preallocate": func(t *rapid.T) {
				i, size := number.Draw(t, "file"), sizes.Draw(t, "size")
				both(func(m *machine) string { return m.preallocate(i, size) })
			},
			"sync": func(t *rapid.T) {
				i := number.Draw(t, "file")
				both(func(m *machine) string { return m.sync(i) })
			},
			"stat": func(t *rapid.T) {
				i, name := number.Draw(t, "file"), names.Draw(t, "name")
				both(func(m *machine) string {
					info, err := m.fs.Stat(m.path(name))
					return m.statFile(i) + infoText(info, err)
				})
			},
			"close": func(t *rapid.T) {
				if len(machines[0].mappings) > 0 {
					t.Skip()
				}
				i := number.Draw(t, "file")
				both(func(m *machine) string { return m.close(i) })
			},
			"forget closed": func(*rapid.T) {
				for _, m := range machines {
					m.files = slices.DeleteFunc(m.files, func(f vfs.File) bool { _, err := f.Stat(); return err != nil })
				}
				require.Len(t, machines[1].files, len(machines[0].files))
			},
			"map": func(t *rapid.T) {
				i, length, writable := number.Draw(t, "file"), int(sizes.Draw(t, "length")), rapid.Bool().Draw(t, "writable")
				both(func(m *machine) string { return m.mapFile(i, length, writable) })
				// Of those for reading it is only known that they can be had.
				for _, m := range machines {
					if last := len(m.mappings) - 1; last >= 0 && (!writable || last > 1) {
						require.NoError(t, m.mappings[last].Unmap())
						m.mappings = m.mappings[:last]
					}
				}
			},
			"store": func(t *rapid.T) {
				if len(machines[0].mappings) == 0 {
					t.Skip()
				}
				i := number.Draw(t, "mapping")
				end := mappedEnd(i)
				if end == 0 {
					t.Skip()
				}
				off, b := rapid.Int64Range(0, end-1).Draw(t, "off"), rapid.Byte().Draw(t, "byte")
				both(func(m *machine) string { return m.store(i, off, b) })
			},
			"unmap": func(t *rapid.T) {
				i := number.Draw(t, "mapping")
				if n := len(machines[0].mappings); n > 0 {
					// Whether a flush needs the file open is left open.
					for _, m := range machines {
						require.NoError(t, m.mappings[i%n].Unmap())
					}
				}
				both(func(m *machine) string { return m.unmap(i) })
			},
			"mkdir": func(t *rapid.T) {
				name := names.Draw(t, "name")
				both(func(m *machine) string { return category(m.fs.MkdirAll(m.path(name), 0o755)) })
			},
			"rename": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				both(func(m *machine) string { return category(m.fs.Rename(m.path(from), m.path(to))) })
			},
			"remove": func(t *rapid.T) {
				name := names.Draw(t, "name")
				both(func(m *machine) string { return category(m.fs.Remove(m.path(name))) })
			},
			"sync dir": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"", "none", "d/none"}).Draw(t, "name")
				both(func(m *machine) string { return category(m.fs.SyncDir(m.path(name))) })
			},
			"lock": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b", "none/x"}).Draw(t, "name")
				mode := rapid.SampledFrom([]vfs.LockMode{vfs.Exclusive, vfs.Shared}).Draw(t, "mode")
				both(func(m *machine) string { return m.lock(name, mode) })
				both(func(m *machine) string {
					held, err := vfs.LockHeld(m.fs, m.path(name))
					return fmt.Sprint(held, category(err))
				})
			},
			"unlock": func(t *rapid.T) {
				i := number.Draw(t, "lock")
				both(func(m *machine) string { return m.unlock(i) })
			},
			"": func(*rapid.T) {
				both(func(m *machine) string { return m.tree("") })
			},
		})
		// And a killed process leaves just that.
		killed := &machine{fs: disk.Kill(), root: "root"}
		require.Equal(t, machines[0].tree(""), killed.tree(""))
	})
}
