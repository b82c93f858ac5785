package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// StateFiles is a state on disk, kept twice in one directory. What a log start within a
// segment hides is hidden by nothing else, and a file of one sector is lost as easily as
// any: a worn cell, one careless command. Nothing else in the log's own format has room
// for it.
//
// A state changes when a log rolls, is opened, closed, or removes records, and whoever
// waits for that waits for one sync. For that the copies are written in place, by turns:
//
//	change 7    copy 1 written, copy 1 synced, copy 0 written
//	change 8    copy 0 written, copy 0 synced, copy 1 written
//
// When a change is begun, the copy that is not written is the one that was synced last,
// and has the state before. A crash leaves one of the two whole, then, whatever it makes
// of the other, and the higher sequence is the newer. The copy that was not synced goes to
// the disk when the system likes, with the next change, or with Sync.
//
// That holds as long as both copies are known to be the same, the one that was written
// first to be on disk, and so are their names. It is not known of files that an open finds
// different, or of which one is missing or damaged, nor after an error: then both are made
// anew, synced and renamed. The names of files that are found, and of those beside them, may
// not be on disk: who made or copied them may have been killed. So the directory is synced
// at the first change.
//
// It is not safe for concurrent use.
type StateFiles struct {
	FS  vfs.FS
	Dir string

	sequence int64 // no copy has a higher one
	now      State // what both copies hold
	known    bool  // now is, and may be changed in place
	unnamed  bool  // the names of the files may not be on disk
	owed     bool  // the copy that was written last is not synced
}

func (f *StateFiles) paths() []string {
	return []string{filepath.Join(f.Dir, layout.SeglogStateName), filepath.Join(f.Dir, layout.SeglogStateCopyName)}
}

// Read reads the newer copy that is whole. If none is, the error is the *CorruptError of
// the first that is damaged, or fs.ErrNotExist when none is there.
func (f *StateFiles) Read() (State, error) {
	var states [2]State
	var errs [2]error
	for i, path := range f.paths() {
		states[i], errs[i] = ReadState(f.FS, path)
		if errs[i] != nil && !errors.Is(errs[i], ErrCorrupt) && !errors.Is(errs[i], fs.ErrNotExist) {
			return State{}, errs[i]
		}
	}
	f.sequence = max(states[0].Sequence, states[1].Sequence)
	f.known, f.owed = false, true
	switch {
	case errs[0] == nil && errs[1] == nil:
		if states[1].Sequence > states[0].Sequence {
			return states[1], nil
		}
		// An earlier version has not counted.
		counted := f.sequence > 0 && f.sequence < math.MaxInt64 && states[1].Sequence == f.sequence
		f.now, f.known, f.unnamed = states[0], counted && states[0].same(states[1]), true
		return states[0], nil
	case errs[0] == nil:
		return states[0], nil
	case errs[1] == nil:
		return states[1], nil
	case errors.Is(errs[0], fs.ErrNotExist):
		return State{}, errs[1] // damaged, or missing too
	}
	return State{}, errs[0]
}

// same compares what two states say of the log.
func (s State) same(t State) bool {
	if (s.Clean == nil) != (t.Clean == nil) || s.Clean != nil && *s.Clean != *t.Clean {
		return false
	}
	s.Clean, t.Clean = nil, nil
	s.Sequence, t.Sequence = 0, 0
	return s == t
}

// Write makes s the durable content of one copy, and the content of the other. It does
// nothing if that is so already. A negative number is ErrInvalid. If writing fails one
// copy may be damaged, and the other is the old one or the new.
func (f *StateFiles) Write(s State) error {
	if f.known && s.same(f.now) {
		return f.syncNames()
	}
	s.Sequence = f.sequence + 1
	if s.Sequence < 0 { // of a file that someone has made up
		s.Sequence = 1
	}
	data := AppendState(nil, s)
	if _, err := ParseState(data); err != nil {
		return fmt.Errorf("write %s: %w: %w", f.paths()[0], ErrInvalid, err)
	}
	inPlace := f.known
	if inPlace {
		if err := f.syncNames(); err != nil {
			return err
		}
	}
	f.sequence, f.known = s.Sequence, false // until all has gone well
	if inPlace {
		var err error
		if inPlace, err = f.overwrite(data, s.Sequence); err != nil {
			return err
		}
	}
	if !inPlace {
		if err := vfs.WriteCopiesAtomic(f.FS, data, f.paths()...); err != nil {
			return err
		}
	}
	f.now, f.known, f.unnamed, f.owed = s, true, false, inPlace
	return nil
}

// syncNames makes the names of files durable that were found.
func (f *StateFiles) syncNames() error {
	if !f.unnamed {
		return nil
	}
	f.known = false
	if err := f.FS.SyncDir(f.Dir); err != nil {
		return err
	}
	f.known, f.unnamed = true, false
	return nil
}

// overwrite reports false, and has changed nothing, if a copy cannot be written in place:
// someone has removed or replaced it, it may not be written to, or it has another name as
// well, as in a copy of the directory that is made of links.
func (f *StateFiles) overwrite(data []byte, sequence int64) (done bool, err error) {
	var files [2]vfs.File
	for i, path := range f.paths() {
		file, cannot := f.FS.OpenFile(path, os.O_WRONLY, 0)
		if cannot != nil {
			return false, nil
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		info, cannot := file.Stat()
		if cannot != nil || info.Size() != int64(len(data)) || vfs.Links(info) > 1 {
			return false, nil
		}
		files[i] = file
	}
	first, second := files[sequence%2], files[1-sequence%2]
	if _, err := vfs.WriteFull(first, data, 0); err != nil {
		return true, err
	}
	if err := first.Sync(); err != nil {
		return true, err
	}
	_, err = vfs.WriteFull(second, data, 0)
	return true, err
}

// Sync makes the copy durable that the last Write has not waited for.
func (f *StateFiles) Sync() (err error) {
	if !f.known || !f.owed {
		return nil
	}
	file, err := f.FS.OpenFile(f.paths()[1-f.now.Sequence%2], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	f.known = false
	if err := file.Sync(); err != nil {
		return err
	}
	f.known, f.owed = true, false
	return nil
}
