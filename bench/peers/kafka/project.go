package kafka

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

//go:embed pom.xml java
var project embed.FS

// ErrMissing means that Java or Maven is not installed.
var ErrMissing = errors.New("java, javac (17 or later) and mvn have to be on the PATH to run Kafka's own classes")

const (
	dependencyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
	jmhProcessor     = "org.openjdk.jmh.generators.BenchmarkProcessor"
	buildTimeout     = 5 * time.Minute
)

// heap and collector are those of Kafka's start scripts (kafka-server-start.sh,
// kafka-run-class.sh).
var heap = []string{
	"-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
	"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
}

// Classes are Kafka's jars and the driver compiled against them.
type Classes struct {
	classpath string
}

// Available is an ErrMissing where Kafka's classes cannot be run.
func Available() error {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return nil
}

// Version is the version of Kafka that is run.
func Version() string {
	pom, err := project.ReadFile("pom.xml")
	if err != nil {
		panic(err) // it is in the binary
	}
	return versionIn(pom)
}

func versionIn(pom []byte) string {
	found := regexp.MustCompile(`<kafka\.version>(.+)</kafka\.version>`).FindSubmatch(pom)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// Build has Maven fetch the jars and compiles the driver. What it makes is kept in the
// user's cache directory and used again while pom and sources are the same; then no
// network is needed. Several processes may call it at once.
func Build(ctx context.Context) (*Classes, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	sum, err := fingerprint()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "seglog-peer-kafka")
	c := &Classes{classpathIn(filepath.Join(cache, sum))}
	if _, err := os.Stat(filepath.Join(cache, sum)); err == nil {
		return c, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	// The finished folder is renamed into place: nobody sees one that is half made.
	scratch, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	if err := makeClasses(ctx, scratch); err != nil {
		return nil, err
	}
	if err := os.Rename(scratch, filepath.Join(cache, sum)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return c, nil
}

func classpathIn(dir string) string {
	return strings.Join([]string{filepath.Join(dir, "classes"), filepath.Join(dir, "jars", "*")}, string(os.PathListSeparator))
}

func makeClasses(ctx context.Context, dir string) error {
	if err := os.CopyFS(filepath.Join(dir, "src"), project); err != nil {
		return err
	}
	classes := filepath.Join(dir, "classes")
	if err := os.Mkdir(classes, 0o755); err != nil {
		return err
	}
	err := run(ctx, "mvn", "-q", "-B", "-f", filepath.Join(dir, "src", "pom.xml"),
		dependencyPlugin+":copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "jars"))
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "src", "java", "seglog", "peer", "*.java"))
	if err != nil {
		return err
	}
	args := []string{"-nowarn", "-encoding", "UTF-8", "-processor", jmhProcessor, "-cp", classpathIn(dir), "-d", classes}
	return run(ctx, "javac", append(args, sources...)...)
}

func fingerprint() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(project, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := project.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

func run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// java is a command that runs a class of the driver.
func (c *Classes) java(ctx context.Context, main string, args ...string) *exec.Cmd {
	all := append([]string{}, heap...)
	all = append(all, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", c.classpath, main)
	return exec.CommandContext(ctx, "java", append(all, args...)...)
}
