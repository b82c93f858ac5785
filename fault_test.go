package seglog_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// clumsy is a workload that goes on whatever fails, as a program does that logs
// its errors. What it was told it remembers.
type clumsy struct {
	t      *testing.T
	what   string
	log    *seglog.Log
	model  *logtest.Model
	errors []error
	next   int
}

func newClumsy(t *testing.T, what string) *clumsy {
	return &clumsy{t: t, what: what, model: &logtest.Model{}}
}

func (c *clumsy) note(err error) {
	if err != nil {
		c.errors = append(c.errors, err)
	}
}

func (c *clumsy) run(disk *logtest.Disk) {
	opts := small
	opts.FS = disk.FS()
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
			to := max(0, l.Offsets().End-2)
			done := c.model.Truncating(to)
			err := l.TruncateTo(to)
			done(err)
			c.note(err)
		case 11:
			done := c.model.Deleting(4)
			err := l.DeleteBefore(4)
			if err == nil {
				done(4)
			}
			c.note(err)
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
		at, err := c.model.Append(c.log, records, &seglog.AppendOptions{Sync: &policy})
		if err == nil {
			require.Equal(c.t, base, at.BaseOffset, c.what)
			return
		}
		c.note(err)
	}
}

// read: whatever has failed, what is read is what was written.
func (c *clumsy) read() {
	err := c.model.Check(c.t.Context(), c.log)
	if !known(err) {
		require.NoError(c.t, err, c.what)
	}
	c.note(err)
}

// known: every failure says what it is, for a program and for a person. Background
// work makes the order of calls differ from run to run, so that now and then a
// read meets what was meant for a write.
func known(err error) bool {
	for _, category := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR, syscall.ENOMEM,
		seglog.ErrNoSpace, seglog.ErrFailed, seglog.ErrCorrupt, seglog.ErrOffsetOutOfRange} {
		if errors.Is(err, category) {
			return true
		}
	}
	return false
}

// K048, K049, K108, K109, K110: every call of a workload fails once, in every way
// it can.
func TestNoFailureLosesOrInventsARecord(t *testing.T) {
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		c := newClumsy(t, "without a fault")
		c.run(disk)
		require.Empty(t, c.errors)
	}) {
		n++
		c := newClumsy(t, disk.String())
		c.run(disk)
		for _, err := range c.errors {
			require.True(t, known(err), "%s: %v", disk, err)
		}
		require.Zero(t, disk.Open(), "%s: files left open", disk)
		require.Zero(t, disk.Mapped(), "%s: mappings left", disk)
		require.Zero(t, disk.Locked(), "%s: locks left", disk)
		// As the process left it, and after a power cut on top.
		crash := logtest.Crash{Killed: true, Disk: disk.Kill(), Claims: c.model.Claims()}
		requireSurvived(t, crash, small, fmt.Sprintf("after %s", disk))
		crash.Killed = false
		for crash.Disk = range disk.States(3, uint64(n)) {
			requireSurvived(t, crash, small, fmt.Sprintf("after %s, %s", disk, crash.Disk))
		}
	}
	t.Logf("%d faults", n)
}
