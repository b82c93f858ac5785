package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	dependencyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

	// javaTimeout bounds every run of a Java tool. Brokers are not bound by it.
	javaTimeout = 3 * time.Minute
)

// A javaProject is a folder with a pom.xml that names jars, and the Java
// sources, if any, that are compiled against them.
type javaProject struct {
	pom     string   // path of the pom, relative to this package
	sources []string // relative to this package

	once      sync.Once
	classpath string
	err       error
}

var kafka = &javaProject{
	pom:     "pom.xml",
	sources: []string{"java/RunEach.java", "java/ConsumeAll.java"},
}

// legacy has the record classes of a Kafka that wrote message formats 0 and 1.
var legacy = &javaProject{
	pom:     "legacy/pom.xml",
	sources: []string{"legacy/LegacyLogs.java"},
}

// Classpath returns the class path of the Kafka under test: its jars, the
// logging configuration and the drivers of this package.
func Classpath(tb testing.TB) string {
	tb.Helper()
	return kafka.build(tb)
}

// build resolves the jars and compiles the sources, once per process, and
// reuses what an earlier process left under target/, which version control
// ignores, if neither pom nor sources have changed.
func (p *javaProject) build(tb testing.TB) string {
	tb.Helper()
	p.once.Do(func() { p.classpath, p.err = p.prepare() })
	if p.err != nil {
		tb.Fatalf("prepare %s: %v", p.pom, p.err)
	}
	return p.classpath
}

func (p *javaProject) prepare() (string, error) {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("the interop suite needs %s: %w", tool, err)
		}
	}
	sum, err := p.fingerprint()
	if err != nil {
		return "", err
	}
	target, err := filepath.Abs(filepath.Join("target", sum))
	if err != nil {
		return "", err
	}
	jars, classes := filepath.Join(target, "jars"), filepath.Join(target, "classes")
	classpath := strings.Join([]string{classes, filepath.Join(jars, "*")}, string(os.PathListSeparator))

	// The marker is written last: without it the folder is half made.
	marker := filepath.Join(target, "complete")
	if _, err := os.Stat(marker); err == nil {
		return classpath, nil
	}
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return "", err
	}
	if err := run("mvn", "-q", "-B", "-f", p.pom, dependencyPlugin+":copy-dependencies", "-DoutputDirectory="+jars); err != nil {
		return "", err
	}
	if len(p.sources) > 0 {
		args := append([]string{"-encoding", "UTF-8", "-cp", classpath, "-d", classes}, p.sources...)
		if err := run("javac", args...); err != nil {
			return "", err
		}
	}
	return classpath, os.WriteFile(marker, nil, 0o644)
}

func (p *javaProject) fingerprint() (string, error) {
	h := sha256.New()
	for _, name := range append([]string{p.pom}, p.sources...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// A RunResult is what a program left behind.
type RunResult struct {
	Stdout, Stderr string
	Exit           int
}

// RunJava runs mainClass of the Kafka under test in dir (empty: this folder)
// and returns its output and exit status. Text is UTF-8 whatever the locale.
// Only a program that could not be started, or does not end, fails the test.
func RunJava(tb testing.TB, dir, mainClass string, args ...string) RunResult {
	tb.Helper()
	return runJava(tb, Classpath(tb), dir, "", mainClass, args...)
}

func runJava(tb testing.TB, classpath, dir, stdin, mainClass string, args ...string) RunResult {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), javaTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", javaArgs(classpath, "256m", mainClass, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		tb.Fatalf("java %s %s: %v\n%s%s", mainClass, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return RunResult{Stdout: stdout.String(), Stderr: stderr.String(), Exit: cmd.ProcessState.ExitCode()}
}

// A toolRun is one run of a tool of Kafka's.
type toolRun struct {
	main string // class
	args []string
}

// runEach does all runs in one process, one after the other, and returns what each has
// printed. None of them has a status.
func runEach(tb testing.TB, runs []toolRun) []RunResult {
	tb.Helper()
	scratch := tb.TempDir()
	place := func(i int, kind string) string { return filepath.Join(scratch, fmt.Sprintf("%d.%s", i, kind)) }
	var script strings.Builder
	for i, run := range runs {
		fields := append([]string{place(i, "out"), place(i, "err"), run.main}, run.args...)
		script.WriteString(strings.Join(fields, "\t") + "\n")
	}
	res := runJava(tb, Classpath(tb), "", script.String(), "RunEach")
	if res.Exit != 0 {
		tb.Fatalf("RunEach: status %d\n%s%s", res.Exit, res.Stdout, res.Stderr)
	}
	results := make([]RunResult, len(runs))
	for i := range runs {
		for kind, text := range map[string]*string{"out": &results[i].Stdout, "err": &results[i].Stderr} {
			b, err := os.ReadFile(place(i, kind))
			if err != nil {
				tb.Fatal(err)
			}
			*text = string(b)
		}
	}
	return results
}

func javaArgs(classpath, heap, mainClass string, args ...string) []string {
	log4j, err := filepath.Abs("java/log4j2.properties")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return append([]string{
		"-Xmx" + heap,
		// Short runs: the cheap compiler and collector start fastest.
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
		"-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8", "-Duser.timezone=UTC",
		"-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + log4j,
		"-cp", classpath, mainClass,
	}, args...)
}
