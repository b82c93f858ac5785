package cli

import (
	"errors"
	"fmt"

	"github.com/seglog/seglog"
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
	stats, err := log.Stats()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	app.tellRecovery(stats)
	return log, nil
}

// tellRecovery says what was found and done when a log was opened for writing.
func (app *App) tellRecovery(s seglog.Stats) {
	r := s.Recovery
	for _, c := range r.Cut {
		app.Warnf("%s: cut %s at position %d%s", c.File, plural(c.Bytes, "byte", "bytes"), c.Position, reasonText(c.Reason))
	}
	for _, name := range r.SetAside {
		app.Warnf("%s keeps good batches that were cut off", name)
	}
	if len(r.Cut) > 0 || len(r.SetAside) > 0 {
		app.Warnf("the log goes on at offset %d", s.End)
	}
	for _, damage := range r.Damaged {
		app.Warnf("left as it is: %v", damage)
	}
	if r.StateLost {
		app.Warnf("the state file is lost: records that were deleted at the start of the log may be back")
	}
	if r.Restarted {
		app.Warnf("the segments are gone: the log goes on at offset %d", s.End)
	}
	for _, base := range r.Split {
		app.Warnf("the segment at offset %d was split: it had more than its indexes can address", base)
	}
	for _, name := range r.Swapped {
		app.Verbosef("put %s in place", name)
	}
	for _, name := range r.Removed {
		app.Verbosef("removed %s, a leftover", name)
	}
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
