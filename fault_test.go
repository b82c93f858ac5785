package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// clumsy is a workload that goes on whatever fails, as a program does that logs
// its errors. What it was told is durable it remembers.
type clumsy struct {
	t       *testing.T
	what    string
	log     *seglog.Log
	durable map[int64]string
	ever    map[int64]map[string]bool
	errors  []error
	next    int
}

func (c *clumsy) note(err error) {
	if err != nil {
		c.errors = append(c.errors, err)
	}
}

func (c *clumsy) run(disk *faultfs.FS) {
	opts := small
	opts.FS = disk
	l, err := seglog.Open("log", opts)
	if err != nil {
		c.note(err)
		return
	}
	c.log = l
	for i := range 14 {
		c.append(1+i%3, seglog.SyncPolicy(i%3/2))
		switch i {
		case 4, 9:
			_, err := l.Roll()
			c.note(err)
		case 6:
			at := l.Offsets()
			if err := l.TruncateTo(max(0, at.End-2)); err == nil {
				for o := range c.ever {
					if o >= at.End-3 { // its batch went completely
						delete(c.durable, o)
					}
				}
			} else {
				c.note(err)
				clear(c.durable) // nothing is promised of a truncation that failed
			}
		case 11:
			if err := l.DeleteBefore(4); err != nil {
				c.note(err)
			}
			for o := range c.durable {
				if o < 4 {
					delete(c.durable, o)
				}
			}
		}
		c.read()
	}
	c.note(l.Sync())
	c.read()
	c.note(l.Close())
}

func (c *clumsy) append(n int, policy seglog.SyncPolicy) {
	records := make([]seglog.Record, n)
	for i := range records {
		c.next++
		records[i].Value = fmt.Appendf(nil, "value %d %0*d", c.next, c.next*7%150, 0)
	}
	for range 2 { // an append that failed is tried again
		base := c.log.Offsets().End
		for i, r := range records {
			o := base + int64(i)
			if c.ever[o] == nil {
				c.ever[o] = map[string]bool{}
			}
			c.ever[o][string(r.Value)] = true
		}
		at, err := c.log.Append(records, &seglog.AppendOptions{Sync: &policy})
		if err == nil {
			require.Equal(c.t, base, at.BaseOffset, c.what)
			for i, r := range records {
				if policy == seglog.SyncAlways {
					c.durable[base+int64(i)] = string(r.Value)
				}
			}
			return
		}
		c.note(err)
	}
}

// read: whatever has failed, what is read is what was written.
func (c *clumsy) read() {
	found := map[int64]string{}
	for r, err := range c.log.Records(context.Background(), c.log.Offsets().Start, nil) {
		if err != nil {
			c.note(err)
			return
		}
		require.True(c.t, c.ever[r.Offset][string(r.Value)], "%s: read %q at offset %d", c.what, r.Value, r.Offset)
		found[r.Offset] = string(r.Value)
	}
	for o, v := range c.durable {
		require.Equal(c.t, v, found[o], "%s: offset %d", c.what, o)
	}
}

// checkErrors: every failure says what it is, for a program and for a person.
func (c *clumsy) checkErrors() {
	for _, err := range c.errors {
		// Background work makes the order of calls differ from run to run, so
		// that now and then a read meets what was meant for a write.
		known := errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
			errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOMEM) ||
			errors.Is(err, seglog.ErrNoSpace) || errors.Is(err, seglog.ErrFailed) ||
			errors.Is(err, seglog.ErrCorrupt) || errors.Is(err, seglog.ErrOffsetOutOfRange)
		require.True(c.t, known, "%s: %v", c.what, err)
	}
}

// K048, K049, K108, K109, K110: every call of a workload fails once, in every way
// it can.
func TestNoFailureLosesOrInventsARecord(t *testing.T) {
	calls := faultfs.Record(crashfs.New(crashfs.Options{}), func(disk *faultfs.FS) {
		c := clumsy{t: t, durable: map[int64]string{}, ever: map[int64]map[string]bool{}}
		c.run(disk)
		require.Empty(t, c.errors)
	})
	n := 0
	for fault := range faultfs.Faults(calls) {
		n++
		inner := crashfs.New(crashfs.Options{})
		disk := faultfs.New(inner)
		fault.Arm(disk)
		c := clumsy{t: t, what: fault.String(), durable: map[int64]string{}, ever: map[int64]map[string]bool{}}
		c.run(disk)
		c.checkErrors()
		require.Zero(t, disk.Open(), "%s: files left open", fault)
		require.Zero(t, disk.Mapped(), "%s: mappings left", fault)
		require.Zero(t, disk.Locked(), "%s: locks left", fault)
		disk.Clear()
		// As the process left it, and after a power cut on top.
		cl := claims{must: c.durable, may: c.ever}
		requireSurvived(t, inner.Kill(), cl, small, "after "+fault.String())
		for state := range inner.States(3, uint64(n)) {
			requireSurvived(t, state.FS(), cl, small, fmt.Sprintf("after %s, %s", fault, state))
		}
	}
	t.Logf("%d calls, %d faults", len(calls), n)
}
