// Package logtest tests code that keeps its data in a log of package seglog
// against power loss, kills, failing calls and full disks.
//
// A [Disk] is a disk in memory. A log on it, and the code around that log, run as
// they would on a real one:
//
//	disk := logtest.NewDisk(logtest.DiskOptions{})
//	log, err := seglog.Open("orders-0", seglog.Options{FS: disk.FS()})
//
// The disk knows what has been synced and what has not. [Disk.States] yields disks
// that a power loss at this moment may leave, [Disk.OnCrash] does so before every
// operation of a workload, and a log can be opened on each of them:
//
//	disk.OnCrash(50, 1, &model, func(c logtest.Crash) {
//		log, err := seglog.Open("orders-0", seglog.Options{FS: c.Disk.FS()})
//		if err == nil {
//			err = c.Check(ctx, log)
//		}
//		if err != nil {
//			t.Errorf("%s: %v", c, err)
//		}
//	})
//
// A [Model] is what the program was told of its log: what it appended, what of it
// is durable, what it removed. From that it follows what a disk must hold after a
// crash and what else it may hold; Crash.Check compares.
//
// [Disk.Fail] and its like make the nth call of a kind fail, and [Faults] goes
// through every call of a workload and every way it can fail. Disk.Open, Mapped and
// Locked tell what a failure has left behind.
//
// Nothing here needs package testing. What is checked comes back as an error, and
// String of what was checked says how to get the same disk again.
//
// A log maps its indexes to memory, which here costs real memory for all of their
// largest size. Tests that open many logs are fast with Options.SegmentIndexBytes of
// some kilobytes.
package logtest
