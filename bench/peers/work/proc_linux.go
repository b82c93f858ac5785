package work

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// status returns a field of /proc/self/status that is in kB, in bytes.
func status(field string) float64 {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		if rest, ok := strings.CutPrefix(scanner.Text(), field+":"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024
		}
	}
	return 0
}

// watchMemory samples the memory of this process until stop, which returns the most of
// anonymous memory (heap and stacks) and of all, mapped files included.
func watchMemory() (stop func() (anon, all float64)) {
	end, done := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		most := 0.0
		for {
			most = max(most, status("RssAnon"))
			select {
			case <-tick.C:
			case <-end:
				done <- max(most, status("RssAnon"))
				return
			}
		}
	}()
	return func() (float64, float64) {
		close(end)
		return <-done, status("VmHWM")
	}
}

// onDisk is what a file takes up, which is less than its size where it has holes.
func onDisk(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
