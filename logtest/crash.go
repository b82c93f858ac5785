package logtest

import (
	"context"
	"fmt"

	"github.com/seglog/seglog"
)

// Crash is what is left when the power goes out, or the process is killed, right
// before an operation.
type Crash struct {
	Before Op
	// Killed is true if only the process was killed.
	Killed bool
	// Disk is what is left.
	Disk *Disk
	// Claims are what the model says of it.
	Claims Claims
}

// String names the operation and how to get the disk again.
func (c Crash) String() string { return fmt.Sprintf("crash before %s, %s", c.Before, c.Disk) }

// Check compares a log that was opened on the disk with the model: Claims.AfterKill
// or Claims.AfterPowerLoss.
func (c Crash) Check(ctx context.Context, log *seglog.Log) error {
	if c.Killed {
		return c.Claims.AfterKill(ctx, log)
	}
	return c.Claims.AfterPowerLoss(ctx, log)
}

// OnCrash calls check, before each operation on d, with what a killed process
// leaves there, and then with at most limit of the disks that a power loss may
// leave; see States for limit and seed. The model is that of the log to be checked,
// and nil if Crash.Check is not used. The same conditions hold as for OnOp,
// which it replaces: check is called by whatever goroutine touches the disk, one
// call at a time. OnOp(nil) ends it.
func (d *Disk) OnCrash(limit int, seed uint64, model *Model, check func(Crash)) {
	if model == nil {
		model = new(Model)
	}
	d.OnOp(func(op Op) {
		// The workload may go on in other goroutines while the disk is copied: what
		// must be there was told before, and what may be there until after.
		claims := model.Claims()
		killed := d.Kill()
		states := d.States(limit, seed+uint64(op.N))
		claims = claims.until(model.Claims())
		check(Crash{Before: op, Killed: true, Disk: killed, Claims: claims})
		for state := range states {
			check(Crash{Before: op, Disk: state, Claims: claims})
		}
	})
}
