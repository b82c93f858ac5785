//go:build unix

package failures

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

var peers = []peer{seglogPeer, tidwallPeer, raftWALPeer, etcdPeer, prometheusPeer}

var checks = []struct {
	name  string
	what  string
	run   func(p peer, dir string) (string, error)
	child bool // limits the process it runs in
}{
	{"A", "the last 5 bytes are cut off", cutTail, false},
	{"B", "one byte is flipped in the middle", flipByte, false},
	{"C", "an index file is two entries short", shortIndex, false},
	{"D", "an append fails half-written and is tried again", shortWrite, true},
	{"E", "a batch of three fails part-way", partialBatch, true},
}

// Main runs the checks and prints the table. With the three arguments of a child it runs
// one check in this process.
func Main(args []string) error {
	if len(args) == 3 {
		fmt.Println(inChild(args[0], args[1], args[2]))
		return nil
	}
	results, err := runAll("failures")
	if err != nil {
		return err
	}
	for _, c := range checks {
		fmt.Printf("\n**%s. %s**\n\n| log | result |\n| --- | --- |\n", c.name, c.what)
		for _, p := range peers {
			fmt.Printf("| %s %s | %s |\n", p.name, version(p.version), results[p.name+c.name])
		}
	}
	return nil
}

// runAll returns the result of each check by the names of peer and check. Children are
// this program with the arguments given before those of a child.
func runAll(before ...string) (map[string]string, error) {
	root, err := os.MkdirTemp("", "peers")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	results := map[string]string{}
	for _, p := range peers {
		for _, c := range checks {
			dir := filepath.Join(root, strings.ReplaceAll(p.name, "/", "-")+c.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, err
			}
			if c.child {
				results[p.name+c.name] = spawn(append(slices.Clone(before), p.name, c.name, dir)...)
			} else {
				results[p.name+c.name] = attempt(func() (string, error) { return c.run(p, dir) })
			}
		}
	}
	return results, nil
}

func spawn(args ...string) string {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	child := exec.Command(self, args...)
	child.Env = append(os.Environ(), "PEERS_CHILD=1")
	out, err := child.Output()
	text := strings.TrimSpace(string(out))
	if err != nil {
		text += fmt.Sprintf("**the process died**: %v", err)
	}
	return text
}

// inChild runs one check in this process.
func inChild(peerName, checkName, dir string) string {
	signal.Ignore(syscall.SIGXFSZ)
	for _, p := range peers {
		for _, c := range checks {
			if p.name == peerName && c.name == checkName {
				return attempt(func() (string, error) { return c.run(p, dir) })
			}
		}
	}
	return "no such check"
}

func limit(bytes int64) error {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	old.Cur = uint64(bytes)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
}

func unlimit() error {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	old.Cur = old.Max
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
}

// version is that of a module this was built with.
func version(module string) string {
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
