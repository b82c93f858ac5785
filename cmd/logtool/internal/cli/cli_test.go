package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

// update rewrites expectations inside of scripts: go test -run Script -update
var update = flag.Bool("update", false, "rewrite what scripts compare with cmp")

// statusFile is where the logtool of a script leaves its exit status.
const statusFile = "LOGTOOL_STATUS_FILE"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"logtool": func() {
			ctx, stop := WithSignals(context.Background())
			status := Run(ctx, System(), os.Args[1:])
			stop()
			if name := os.Getenv(statusFile); name != "" {
				if err := os.WriteFile(name, []byte(strconv.Itoa(status)), 0o666); err != nil {
					panic(err)
				}
			}
			os.Exit(status)
		},
	})
}

// TestScript runs testdata/script/*.txtar. A script runs the tool as a process
// of its own; besides testscript's commands it has those below. $KAFKA is the
// folder of the directories that a real Kafka has written.
func TestScript(t *testing.T) {
	kafka, err := filepath.Abs("../../../../testdata/kafka")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KAFKA", kafka)
			env.Setenv(statusFile, filepath.Join(env.WorkDir, ".status"))
			env.Setenv("NO_COLOR", "")
			env.Setenv("TERM", "xterm")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":    scriptStatus,
			"flipbit":   scriptFlipbit,
			"cut":       scriptCut,
			"zeros":     scriptZeros,
			"bytes":     scriptBytes,
			"copydir":   scriptCopydir,
			"makelog":   scriptMakelog,
			"hold":      scriptHold,
			"holddir":   scriptHoldDir,
			"remember":  scriptRemember,
			"unchanged": scriptUnchanged,
			"protect":   scriptProtect,
			"pick":      scriptPick,
		},
	})
}

// status N: the last logtool exited with N.
func scriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	want := arguments(ts, "status N", args, 1, 1)[0]
	got := ts.ReadFile(ts.Getenv(statusFile))
	ts.Check(os.Remove(ts.Getenv(statusFile)))
	if got != want {
		ts.Fatalf("exit status %s, want %s", got, want)
	}
}

// flipbit FILE POSITION [BIT]: inverts a bit of the byte at a position, the
// lowest if not told otherwise. A negative position counts from the end.
func scriptFlipbit(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "flipbit FILE POSITION [BIT]", args, 2, 3)
	bit := 0
	if len(args) == 3 {
		bit = number(ts, args[2])
	}
	change(ts, args[0], func(data []byte) []byte {
		data[place(data, number(ts, args[1]))] ^= 1 << bit
		return data
	})
}

// cut FILE SIZE: shortens a file to a size; a negative one is what to take off.
func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "cut FILE SIZE", args, 2, 2)
	change(ts, args[0], func(data []byte) []byte { return data[:place(data, number(ts, args[1]))] })
}

// zeros FILE N: adds zero bytes at the end.
func scriptZeros(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "zeros FILE N", args, 2, 2)
	change(ts, args[0], func(data []byte) []byte { return append(data, make([]byte, number(ts, args[1]))...) })
}

// bytes FILE POSITION HEX: overwrites bytes in the middle of a file, or adds them
// at its end if the position is end.
func scriptBytes(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "bytes FILE POSITION|end HEX", args, 3, 3)
	patch, err := hex.DecodeString(args[2])
	ts.Check(err)
	change(ts, args[0], func(data []byte) []byte {
		if args[1] == "end" {
			return append(data, patch...)
		}
		copy(data[place(data, number(ts, args[1])):], patch)
		return data
	})
}

// copydir FROM TO: copies a directory.
func scriptCopydir(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "copydir FROM TO", args, 2, 2)
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// makelog DIR [NAME=N|CODEC]...: writes a log of its own. records=100,
// batch=10 records each, segment=1073741824 bytes, codec=none; keys are k-0 and
// so on, values have value=20 bytes, and record n is n seconds after 2026-09-01.
func scriptMakelog(ts *testscript.TestScript, _ bool, args []string) {
	settings := map[string]string{"records": "100", "batch": "10", "segment": "0", "codec": "none", "value": "20"}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if _, known := settings[name]; !known {
			ts.Fatalf("makelog: no setting %s", name)
		}
		settings[name] = value
	}
	codec, err := record.ParseCodec(settings["codec"])
	ts.Check(err)
	log, err := seglog.Open(ts.MkAbs(args[0]), seglog.Options{
		SegmentBytes:       int64(number(ts, settings["segment"])),
		IndexIntervalBytes: 512,
		Compression:        codec,
		Sync:               seglog.SyncNever,
	})
	ts.Check(err)
	start := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	var batch []seglog.Record
	for n := range number(ts, settings["records"]) {
		batch = append(batch, seglog.Record{
			Timestamp: start + int64(n)*1000,
			Key:       fmt.Appendf(nil, "k-%d", n),
			Value:     bytes.Repeat([]byte{'a' + byte(n%26)}, number(ts, settings["value"])),
		})
		if len(batch) == number(ts, settings["batch"]) || n == number(ts, settings["records"])-1 {
			_, err := log.Append(batch, nil)
			ts.Check(err)
			batch = batch[:0]
		}
	}
	ts.Check(log.Close())
	awaitForks()
}

// awaitForks returns when no process is being started. Scripts run at the same
// time, and a process that one of them starts has, for a moment, all the files of
// this one open, with their locks.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

// hold DIR: opens a log for writing until the script ends.
func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	log, err := seglog.Open(ts.MkAbs(arguments(ts, "hold DIR", args, 1, 1)[0]), seglog.Options{})
	ts.Check(err)
	ts.Defer(func() { ts.Check(log.Close()) })
}

// holddir DIR: opens a log directory for writing until the script ends.
func scriptHoldDir(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := seglog.OpenDir(ts.MkAbs(arguments(ts, "holddir DIR", args, 1, 1)[0]), seglog.DirOptions{ManualMaintenance: true})
	ts.Check(err)
	ts.Defer(func() { ts.Check(dir.Close()) })
}

// remember DIR notes all there is to know of a directory's files; unchanged DIR
// fails if any of it is different now.
func scriptRemember(ts *testscript.TestScript, _ bool, args []string) {
	dir := arguments(ts, "remember DIR", args, 1, 1)[0]
	ts.Setenv("remember "+dir, fingerprint(ts, dir))
}

func scriptUnchanged(ts *testscript.TestScript, _ bool, args []string) {
	dir := arguments(ts, "unchanged DIR", args, 1, 1)[0]
	if was, is := ts.Getenv("remember "+dir), fingerprint(ts, dir); was != is {
		ts.Fatalf("%s was\n%s\nand is\n%s", dir, was, is)
	}
}

// fingerprint lists the files of a directory with mode, size, time and hash.
func fingerprint(ts *testscript.TestScript, dir string) string {
	var b strings.Builder
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var sum [sha256.Size]byte
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(data)
		}
		fmt.Fprintf(&b, "%s %v %d %v %x\n", strings.TrimPrefix(path, root), info.Mode(), info.Size(), info.ModTime(), sum[:8])
		return nil
	}))
	return b.String()
}

// arguments checks how many arguments a command of a script has.
func arguments(ts *testscript.TestScript, usage string, args []string, least, most int) []string {
	if len(args) < least || len(args) > most {
		ts.Fatalf("usage: %s", usage)
	}
	return args
}

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

// pick VAR PATTERN N: sets a variable to the path of a file that matches, the
// number N from 0; -1 is the last. Names in the goldens differ between editions.
func scriptPick(ts *testscript.TestScript, _ bool, args []string) {
	args = arguments(ts, "pick VAR PATTERN N", args, 3, 3)
	found, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	n := number(ts, args[2])
	if n < 0 {
		n += len(found)
	}
	if n < 0 || n >= len(found) {
		ts.Fatalf("%s matches %d files", args[1], len(found))
	}
	ts.Setenv(args[0], found[n])
}

// protect DIR: nobody may write to the directory and its files, until the script
// ends.
func scriptProtect(ts *testscript.TestScript, _ bool, args []string) {
	root := ts.MkAbs(arguments(ts, "protect DIR", args, 1, 1)[0])
	chmod := func(dir, file fs.FileMode) {
		entries, err := os.ReadDir(root)
		ts.Check(err)
		for _, e := range entries {
			ts.Check(os.Chmod(filepath.Join(root, e.Name()), file))
		}
		ts.Check(os.Chmod(root, dir))
	}
	chmod(0o555, 0o444)
	ts.Defer(func() { chmod(0o755, 0o644) })
}

// place is a position in data; a negative one counts from the end.
func place(data []byte, n int) int {
	if n < 0 {
		return len(data) + n
	}
	return n
}

func change(ts *testscript.TestScript, name string, f func([]byte) []byte) {
	name = ts.MkAbs(name)
	data, err := os.ReadFile(name)
	ts.Check(err)
	ts.Check(os.WriteFile(name, f(data), 0o666))
}

// result is what a run in this process left.
type result struct {
	stdout, stderr string
	status         int
}

// run runs the tool in this process, for tests that a script is too slow for.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runIn(t, Env{}, args...)
}

// runIn is run in an environment; what is missing in env is filled in.
func runIn(t *testing.T, env Env, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	sys := System()
	if env.Stdin == nil {
		env.Stdin = strings.NewReader("")
	}
	if env.Stdout == nil {
		env.Stdout = &stdout
	}
	if env.Stderr == nil {
		env.Stderr = &stderr
	}
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	if env.Now == nil {
		env.Now = func() time.Time { return time.Date(2026, 9, 2, 0, 0, 0, 0, time.UTC) }
	}
	if env.FS == nil {
		env.FS = sys.FS
	}
	status := Run(t.Context(), env, args)
	return result{stdout.String(), stderr.String(), status}
}
