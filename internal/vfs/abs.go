package vfs

import "path/filepath"

// Abs returns the name under which fsys finds the same file whatever the working
// directory of the process becomes. Whoever keeps a name for longer than one call asks
// for it first: a relative one would lead to another file after os.Chdir. nil is the
// operating system's file system.
//
// A file system without a method of that name has no working directory: its relative
// names always mean the same, and stay as they are.
func Abs(fsys FS, name string) (string, error) {
	if fsys == nil {
		fsys = OS
	}
	if f, ok := fsys.(interface {
		Abs(name string) (string, error)
	}); ok {
		return f.Abs(name)
	}
	return name, nil
}

// Abs leaves the empty name alone, which names nothing, and not the working directory.
func (osFS) Abs(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return filepath.Abs(name)
}
