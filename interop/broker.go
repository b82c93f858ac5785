package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	startTimeout = 90 * time.Second
	stopTimeout  = 60 * time.Second
	pollInterval = 50 * time.Millisecond
)

// BrokerOptions says how a broker is started. The zero value is good.
type BrokerOptions struct {
	// Dir holds everything of the broker. Empty means a temporary folder.
	Dir string
	// Config overrides lines of server.properties.
	Config map[string]string
}

// A Broker is a Kafka node of one: broker and controller in one process on
// the loopback interface. It may be stopped, or killed, and started again over
// the same files.
type Broker struct {
	Addr   string // host:port of the client listener
	LogDir string // the log directory: one folder per partition

	tb         testing.TB
	dir        string
	properties string // path of server.properties
	output     string // path of what the process printed
	process    *exec.Cmd
	exited     chan struct{} // closed when process has been waited for
}

// StartKafka formats a log directory, starts a broker over it and waits until
// it serves clients. The process ends with the test at the latest.
func StartKafka(tb testing.TB, opts BrokerOptions) *Broker {
	tb.Helper()
	dir := opts.Dir
	if dir == "" {
		dir = tb.TempDir()
	}
	b := &Broker{
		tb:         tb,
		dir:        dir,
		LogDir:     filepath.Join(dir, "data"),
		properties: filepath.Join(dir, "server.properties"),
		output:     filepath.Join(dir, "kafka.out"),
	}
	b.writeProperties(opts.Config)
	// A fixed cluster id: 16 bytes in URL-safe base64, as Kafka's own uuids.
	res := RunJava(tb, "", "kafka.tools.StorageTool", "format", "-t", "c2VnbG9nLWludGVyb3AtMQ", "-c", b.properties)
	if res.Exit != 0 {
		tb.Fatalf("format %s: status %d\n%s%s", b.LogDir, res.Exit, res.Stdout, res.Stderr)
	}
	tb.Cleanup(b.Kill)
	b.Start()
	return b
}

func (b *Broker) writeProperties(overrides map[string]string) {
	b.tb.Helper()
	client, controller := freePorts(b.tb)
	b.Addr = client
	config := map[string]string{
		"process.roles":                     "broker,controller",
		"node.id":                           "1",
		"controller.quorum.voters":          "1@" + controller,
		"listeners":                         "PLAINTEXT://" + client + ",CONTROLLER://" + controller,
		"advertised.listeners":              "PLAINTEXT://" + client,
		"controller.listener.names":         "CONTROLLER",
		"log.dirs":                          b.LogDir,
		"auto.create.topics.enable":         "false",
		"num.network.threads":               "2",
		"num.io.threads":                    "2",
		"background.threads":                "2",
		"num.recovery.threads.per.data.dir": "1",
		"group.initial.rebalance.delay.ms":  "0",

		"offsets.topic.num.partitions":                     "1",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",

		// Records of the tests carry timestamps of long ago; nothing may expire.
		"log.retention.ms": "-1",
		// Maintenance at once instead of after half a minute.
		"log.initial.task.delay.ms":       "100",
		"log.retention.check.interval.ms": "500",
		"log.segment.delete.delay.ms":     "100",
		"log.cleaner.backoff.ms":          "100",
		"log.cleaner.threads":             "1",
		"log.cleaner.dedupe.buffer.size":  "4194304",
	}
	maps.Copy(config, overrides)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "%s=%s\n", key, config[key])
	}
	if err := os.WriteFile(b.properties, []byte(text.String()), 0o644); err != nil {
		b.tb.Fatal(err)
	}
}

// freePorts returns two loopback addresses nobody listens on. Another process
// may take one before Kafka does; the start then fails and says so.
func freePorts(tb testing.TB) (string, string) {
	tb.Helper()
	var addrs [2]string
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer l.Close() // kept until both are known, so that they differ
		addrs[i] = l.Addr().String()
	}
	return addrs[0], addrs[1]
}

// Start runs the broker over the files it has and waits until it serves.
func (b *Broker) Start() {
	b.tb.Helper()
	if b.process != nil {
		b.tb.Fatal("the broker runs already")
	}
	out, err := os.OpenFile(b.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command("java", javaArgs(Classpath(b.tb), "512m", "kafka.Kafka", b.properties)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = endWithParent()
	if err := cmd.Start(); err != nil {
		b.tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a killed broker has a status of its own; nobody asks
		close(exited)
	}()
	b.process, b.exited = cmd, exited
	b.awaitReady()
}

func (b *Broker) awaitReady() {
	b.tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		b.tb.Fatal(err)
	}
	defer client.Close()
	b.await("serve clients", startTimeout, func(ctx context.Context) bool {
		return client.Ping(ctx) == nil
	})
}

// await polls until done holds. It fails the test when the broker ends or time
// runs out first, with the end of what the broker printed.
func (b *Broker) await(what string, limit time.Duration, done func(context.Context) bool) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, time.Second)
		ok := done(attempt)
		cancelAttempt()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-b.exited:
			b.tb.Fatalf("kafka ended before it would %s:\n%s", what, b.lastOutput())
		case <-ctx.Done():
			b.tb.Fatalf("kafka did not %s within %v:\n%s", what, limit, b.lastOutput())
		}
	}
}

func (b *Broker) lastOutput() string {
	text, err := os.ReadFile(b.output)
	if err != nil {
		return err.Error()
	}
	const enough = 8 << 10
	return string(text[max(0, len(text)-enough):])
}

// Stop ends the broker as an operator would: it closes its logs, trims its
// indexes and leaves the clean-shutdown marker.
func (b *Broker) Stop() {
	b.tb.Helper()
	if b.process == nil {
		return
	}
	if err := b.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.tb.Errorf("stop kafka: %v", err)
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-b.exited:
		b.process = nil
	case <-limit.C:
		b.tb.Errorf("kafka did not stop within %v:\n%s", stopTimeout, b.lastOutput())
		b.Kill()
	}
}

// Kill ends the broker without a word of warning: nothing is closed or trimmed.
func (b *Broker) Kill() {
	if b.process == nil {
		return
	}
	if err := b.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.tb.Errorf("kill kafka: %v", err)
	}
	<-b.exited
	b.process = nil
}
