package seglog_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

var killRounds = flag.Int("kill.rounds", 25, "how often to kill a writing process")

// The child of the test below: it appends until it is killed, and says so of each
// record whose append has returned.
func TestChildThatAppendsUntilKilled(t *testing.T) {
	dir := os.Getenv("SEGLOG_TEST_KILL")
	if dir == "" {
		return // not a child
	}
	opts := seglog.Options{SegmentBytes: 8000, IndexIntervalBytes: 500, AheadBytes: -1}
	if os.Getenv("SEGLOG_TEST_AHEAD") != "" { // and what is not durable survives as well
		opts.AheadBytes, opts.Sync = 4096, seglog.SyncNever
	}
	l, err := seglog.Open(dir, opts)
	if err != nil {
		fmt.Println("open", err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	for next := l.Offsets().End; ; next++ {
		_, err := l.Append([]seglog.Record{{Value: valueOf(next)}}, nil)
		if err != nil {
			fmt.Println("append", err)
			os.Exit(1)
		}
		fmt.Fprintln(out, next)
		out.Flush()
	}
}

func valueOf(offset int64) []byte {
	return fmt.Appendf(nil, "value of %d %0*d", offset, offset*13%400, 0)
}

// A real process, really killed: what it said was appended is there.
func TestKillingTheWriterLosesNothingAcknowledged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	acknowledged := int64(-1)
	for round := range *killRounds {
		child := exec.Command(os.Args[0], "-test.run=^TestChildThatAppendsUntilKilled$", "-test.count=1")
		child.Env = append(os.Environ(), "SEGLOG_TEST_KILL="+dir)
		if round%2 > 0 {
			child.Env = append(child.Env, "SEGLOG_TEST_AHEAD=yes")
		}
		pipe, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		kill := time.AfterFunc(time.Duration(5+rand.IntN(60))*time.Millisecond, func() { child.Process.Kill() })
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			offset, err := strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(t, err, "the child says %q", lines.Text())
			acknowledged = offset
		}
		child.Wait() // killed
		kill.Stop()

		l, err := seglog.Open(dir, seglog.Options{SegmentBytes: 8000})
		require.NoError(t, err, "round %d", round)
		next := int64(0)
		for r, err := range l.Records(t.Context(), 0, nil) {
			require.NoError(t, err, "round %d", round)
			require.Equal(t, next, r.Offset)
			require.Equal(t, valueOf(next), r.Value)
			next++
		}
		require.Greater(t, next, acknowledged, "round %d", round)
		require.NoError(t, l.Close())
	}
	t.Logf("%d rounds, %d records acknowledged", *killRounds, acknowledged+1)
}
