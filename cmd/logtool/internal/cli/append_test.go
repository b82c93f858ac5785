package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func appendStdin(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return runIn(t, Env{Stdin: strings.NewReader(stdin)}, append([]string{"append"}, args...)...)
}

func recordsOf(t testing.TB, dir string) []seglog.Record {
	t.Helper()
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	defer log.Close()
	var all []seglog.Record
	for r, err := range log.Records(context.Background(), log.Offsets().Start, nil) {
		require.NoError(t, err)
		all = append(all, r.Clone())
	}
	return all
}

// Every record a log can hold survives cat -o json and append --input json.
func TestJSONCarriesEveryRecordOver(t *testing.T) {
	text := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.Just([]byte(nil)),
	)
	records := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Record {
		r := record.Record{
			Timestamp: rapid.OneOf(rapid.Just(record.NoTimestamp), rapid.Int64Min(0)).Draw(t, "timestamp"),
			Key:       text.Draw(t, "key"),
			Value:     text.Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, record.Header{Key: string(text.Draw(t, "header key")), Value: text.Draw(t, "header value")})
		}
		return r
	}), 1, 20)
	rapid.Check(t, func(t *rapid.T) {
		var out Output = *newOutput(io.Discard)
		parser := lineParser{now: time.Now}
		for _, want := range records.Draw(t, "records") {
			got, err := parser.json(bytes.Clone(out.Object("record").Record(&want).end()))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestAppendTakesWhatCatPrintsOfAnyKafkaLog(t *testing.T) {
	for _, dir := range kafkaPartitions(t) {
		if strings.HasPrefix(filepath.Base(dir), "__") {
			continue
		}
		json := run(t, "cat", "-o", "json", dir)
		require.Equal(t, statusOK, json.status, json.stderr)
		copied := filepath.Join(t.TempDir(), "copy-0")
		r := appendStdin(t, json.stdout, copied, "--input", "json", "--create", "--codec", "lz4", "--batch", "7")
		require.Equal(t, statusOK, r.status, r.stderr)
		want, got := recordsOf(t, dir), recordsOf(t, copied)
		for i := range want {
			want[i].Offset = int64(i) // compaction and markers leave gaps that a copy has not
		}
		require.Equal(t, want, got, dir)
	}
}

func TestAppendMakesBatchesOfTheGivenSize(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	r := appendStdin(t, strings.Repeat("x\n", 25), dir, "--create", "--batch", "10", "--codec", "snappy")
	require.Equal(t, statusOK, r.status, r.stderr)
	log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	require.NoError(t, err)
	defer log.Close()
	var counts []int32
	for b, err := range log.Batches(t.Context(), 0, nil) {
		require.NoError(t, err)
		require.Equal(t, record.Snappy, b.Codec())
		counts = append(counts, b.Count())
	}
	require.Equal(t, []int32{10, 10, 5}, counts)
}

func TestAppendTakesLinesOfAnyLength(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	lines := []string{strings.Repeat("a", 3<<20), "b", strings.Repeat("c", 1<<20), ""}
	r := appendStdin(t, strings.Join(lines, "\n")+"\n", dir, "--create")
	require.Equal(t, statusOK, r.status, r.stderr)
	for i, r := range recordsOf(t, dir) {
		require.Equal(t, lines[i], string(r.Value))
		require.NotNil(t, r.Value)
	}
	require.Equal(t, statusOK, run(t, "verify", dir).status)
}

// stalled is a reader that gives what it has and then blocks.
type stalled struct {
	data io.Reader
	stop chan struct{}
}

func (s stalled) Read(p []byte) (int, error) {
	n, err := s.data.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, nil
	}
	<-s.stop
	return 0, io.EOF
}

// Records are not held back until there are enough for a batch, and an interrupt
// does not wait for a line that may never come.
func TestAppendDoesNotWaitForMoreInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	ctx, cancel := context.WithCancelCause(t.Context())
	in := stalled{strings.NewReader("one\ntwo\n"), make(chan struct{})}
	defer close(in.stop)
	env := System()
	var stdout, stderr bytes.Buffer
	env.Stdin, env.Stdout, env.Stderr = in, &stdout, &stderr
	done := make(chan int, 1)
	go func() { done <- Run(ctx, env, []string{"append", dir, "--create"}) }()

	for { // until the two are there; the test's own deadline is the limit
		log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
		if err != nil {
			continue
		}
		end := log.Offsets().End
		require.NoError(t, log.Close())
		if end == 2 {
			break
		}
	}
	cancel(context.Canceled)
	require.NotEqual(t, statusOK, <-done)
	require.Equal(t, "appended 2 records at offsets [0, 2)\n", stdout.String())
}

func TestVerifyShowsProgressOnATerminalOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	require.Equal(t, statusOK, appendStdin(t, strings.Repeat(strings.Repeat("x", 1000)+"\n", 3000), dir, "--create").status)
	for _, terminal := range []bool{true, false} {
		var stderr bytes.Buffer
		r := runIn(t, Env{Stderr: &stderr, StderrTerminal: terminal, Now: ticking(time.Second)}, "verify", dir)
		require.Equal(t, statusOK, r.status)
		require.Equal(t, terminal, strings.Contains(stderr.String(), "checking"))
	}
}

func TestVerifySaysTheSameInBothFormats(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	require.Equal(t, statusOK, appendStdin(t, strings.Repeat("x\n", 3000), dir, "--create").status)
	log := filepath.Join(dir, "00000000000000000000.log")
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	for at := 500; at < len(data); at += 5000 {
		data[at] ^= 1
	}
	require.NoError(t, os.WriteFile(log, data, 0o644))
	text, objects := run(t, "verify", dir), run(t, "verify", "-o", "json", dir)
	require.Equal(t, statusDamage, text.status)
	require.Equal(t, statusDamage, objects.status)
	lines := strings.Split(strings.TrimSpace(text.stdout), "\n")
	var problems int
	for i, line := range strings.Split(strings.TrimSpace(objects.stdout), "\n") {
		var o struct{ Type, File, Detail string }
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		if o.Type == "problem" {
			problems++
			require.Contains(t, lines[i], o.File+":")
			require.Contains(t, lines[i], o.Detail)
		}
	}
	require.Equal(t, len(lines)-1, problems)
	require.Contains(t, lines[len(lines)-1], fmt.Sprintf("%d problems in 1 of 1 segment", problems))
}
