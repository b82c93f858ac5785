package interop

import "syscall"

// endWithParent makes the kernel end the broker when the test process dies
// without running its clean-ups, as on a test timeout.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
