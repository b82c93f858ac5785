//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seglog/seglog/bench/peers/report"
)

// moduleVersion is that of a module this was built with.
func moduleVersion(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Replace == nil {
			return m.Version
		}
	}
	return ""
}

// machine describes where it runs, for a directory whose disk is measured.
func machine(dir string) report.Machine {
	m := report.Machine{
		Date: time.Now().UTC(), Cores: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Stolen: -1, Others: -1,
	}
	m.CPU = "unknown processor"
	describe(&m, dir)
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if m.Commit = git("rev-parse", "--short=12", "HEAD"); m.Commit == "" {
		m.Commit = "unknown"
	}
	// A run that is repeated into docs/benchmarks changes nothing that is measured.
	if root := git("rev-parse", "--show-toplevel"); root != "" {
		m.Changed = git("status", "--porcelain", "--", root, ":!"+filepath.Join(root, "docs")) != ""
	}
	return m
}

// firstField is the value of "name : value" in a file of /proc.
func firstField(file, name string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
