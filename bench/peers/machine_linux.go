package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seglog/seglog/bench/peers/report"
)

func describe(m *report.Machine, dir string) {
	if name := firstField("/proc/cpuinfo", "model name"); name != "" {
		m.CPU = name
	}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(firstField("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kb << 10
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.OS = "Linux " + unix.ByteSliceToString(name.Release[:])
	}
	m.FS = fileSystem(dir)
	if content, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _ = strconv.ParseFloat(strings.Fields(string(content))[0], 64)
	}
}

func fileSystem(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "unknown file system"
	}
	switch int64(fs.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	}
	return fmt.Sprintf("file system %#x", fs.Type)
}

// cpu is processor time at a moment, in ticks but for ours.
type cpu struct {
	all, idle, stolen float64
	ours              time.Duration // of this process and its children
}

func usage() (c cpu) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpu{}
	}
	fields := strings.Fields(strings.SplitN(string(content), "\n", 2)[0])
	for i, field := range fields[1:min(9, len(fields))] { // user nice system idle iowait irq softirq steal
		v, _ := strconv.ParseFloat(field, 64)
		c.all += v
		switch i {
		case 3, 4:
			c.idle += v
		case 7:
			c.stolen = v
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			c.ours += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return c
}

// since returns the shares of processor time that were stolen and that others had. The
// kernel's own threads, which write to the disk for us, count as others.
func (c cpu) since(begin cpu) (stolen, others float64) {
	const ticks = 100 // a second; USER_HZ of every Linux that Go runs on
	all := c.all - begin.all
	if all <= 0 {
		return -1, -1
	}
	stolen = (c.stolen - begin.stolen) / all
	busy := all - (c.idle - begin.idle) - (c.stolen - begin.stolen)
	return stolen, max(0, busy-(c.ours-begin.ours).Seconds()*ticks) / all
}

// settle writes to the disk what is waiting for that, so that the next process does not
// share the disk with it, and touches memory, so that it does not wait for the host of a
// virtual machine to give pages back.
func settle(dir string, warm int64) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
	if err != nil || warm <= 0 {
		return err
	}
	memory, err := unix.Mmap(-1, 0, int(warm), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	return unix.Munmap(memory)
}
