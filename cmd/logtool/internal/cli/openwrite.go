package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
)

// OpenToWrite opens the log in dir for writing, and says on stderr what recovery has
// done to it. One from which good batches would be cut is refused, unless opts say
// otherwise.
func (app *App) OpenToWrite(dir string, opts seglog.Options) (*seglog.Log, error) {
	app.Verbosef("opening %s for writing", dir)
	log, err := seglog.Open(dir, opts)
	if errors.Is(err, seglog.ErrCorrupt) {
		return nil, Hint(err, "logtool repair "+dir+", which tells what can be done about it, or logtool verify "+dir)
	}
	if err != nil {
		return nil, err
	}
	if err := app.tellRecovery(dir, log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// tellRecovery says what was found and done when a log was opened for writing.
func (app *App) tellRecovery(dir string, log *seglog.Log) error {
	s, err := log.Stats()
	if err != nil {
		return err
	}
	r := s.Recovery
	for _, c := range r.Cut {
		app.Warnf("%s: cut %s at position %d%s", filepath.Join(dir, c.File), plural(c.Bytes, "byte", "bytes"), c.Position, reasonText(c.Reason))
	}
	ended := len(r.Cut) > 0
	for _, name := range r.SetAside {
		what := "a file that was set aside"
		f, ok := layout.CutOf(name)
		switch {
		case ok && f.Kind == layout.Log:
			what = "good batches that were cut off"
		case ok && f.Kind.Segment():
			what = fmt.Sprintf("the %s of a segment that was cut off", f.Kind)
		case ok:
			what = fmt.Sprintf("the %s as it was, which is damaged", f.Kind)
		}
		ended = ended || f.Kind.Segment()
		app.Warnf("%s keeps %s", filepath.Join(dir, name), what)
	}
	if ended {
		app.Warnf("%s: the log goes on at offset %d", dir, s.End)
	}
	for _, damage := range r.Damaged {
		app.Warnf("%s: left as it is: %v", dir, damage)
	}
	for _, m := range r.Missing {
		app.Warnf("%s: %v are missing: the segment that held them is lost", dir, m)
	}
	if r.StateLost {
		app.Warnf("%s: the state file is lost: records that were deleted at the start of the log may be back", dir)
	}
	if r.Restarted {
		app.Warnf("%s: the segments are gone: the log goes on at offset %d", dir, s.End)
	}
	for _, base := range r.Split {
		app.Warnf("%s: the segment at offset %d was split: it had more than its indexes can address", dir, base)
	}
	for _, name := range r.Swapped {
		app.Verbosef("put %s in place", filepath.Join(dir, name))
	}
	for _, name := range r.Removed {
		app.Verbosef("removed %s, a leftover", filepath.Join(dir, name))
	}
	return nil
}

// reasonText is why bytes were cut, and which offsets they claim.
func reasonText(err error) string {
	var damage *seglog.CorruptionError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &damage):
		return ": " + err.Error()
	case damage.FirstOffset < 0:
		return ": " + damage.Err.Error()
	}
	return fmt.Sprintf(", from offset %d on: %v", damage.FirstOffset, damage.Err)
}
