package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// trimmable writes a log of a record a minute up to now, in segments of ten.
func trimmable(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "orders-0")
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever})
	require.NoError(t, err)
	now := time.Now()
	for n := range 45 {
		at := now.Add(time.Duration(n-45) * time.Minute).UnixMilli()
		_, err := log.Append([]seglog.Record{{Timestamp: at, Value: bytes.Repeat([]byte("x"), n)}}, nil)
		require.NoError(t, err)
		if n%10 == 9 {
			_, err := log.Roll()
			require.NoError(t, err)
		}
	}
	require.NoError(t, log.Close())
	return dir
}

func TestTrimAsksAPersonAndTakesOnlyYesForYes(t *testing.T) {
	dir := trimmable(t)
	for _, answer := range []string{"", "\n", "n\n", "yesterday\n", "no"} {
		r := runIn(t, Env{Stdin: strings.NewReader(answer), StdinTerminal: true, Now: time.Now}, "trim", dir, "--before", "25")
		require.Equal(t, 1, r.status)
		require.Empty(t, r.stdout)
		require.Equal(t, "delete 2 segments, 1.5 KiB, and every record below offset 25? [y/N] "+
			"logtool: not confirmed: nothing was deleted\n", r.stderr)
		require.FileExists(t, filepath.Join(dir, "00000000000000000000.log"))
	}
	for _, answer := range []string{"y\n", "Yes\n"} {
		dir := trimmable(t)
		r := runIn(t, Env{Stdin: strings.NewReader(answer), StdinTerminal: true, Now: time.Now}, "trim", dir, "--before", "25")
		require.Equal(t, 0, r.status, r.stderr)
		require.Contains(t, r.stdout, "start offset is now 25\n")
		require.NoFileExists(t, filepath.Join(dir, "00000000000000000000.log"))
	}
	// Nothing to do is no reason to ask.
	r := runIn(t, Env{StdinTerminal: true, Now: time.Now}, "trim", dir, "--before", "0")
	require.Equal(t, result{"no segment to delete\nstart offset is now 0\n", "", 0}, r)
}

// A dry run says what then happens.
func TestATrimDoesWhatItsDryRunSays(t *testing.T) {
	source := trimmable(t)
	random := rand.New(rand.NewPCG(1, 1))
	for range 15 {
		dir := filepath.Join(t.TempDir(), "orders-0")
		require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
		for range 2 { // the second one begins where the first has left the log
			args := [][]string{
				{"--before", fmt.Sprint(random.IntN(46))},
				{"--older-than", fmt.Sprintf("%dm30s", random.IntN(50))},
				{"--keep-size", fmt.Sprint(1 + random.IntN(6000))},
			}[random.IntN(3)]
			args = append([]string{"trim", dir}, args...)
			env := Env{Now: time.Now}
			dry := runIn(t, env, append(args, "--dry-run")...)
			done := runIn(t, env, append(args, "--yes")...)
			require.Equal(t, 0, done.status, done.stderr)
			planned := strings.NewReplacer("would delete", "deleted", "would be", "is now", " (dry run)", "").Replace(dry.stdout)
			require.Equal(t, planned, done.stdout, "%v", args)
		}
	}
}

func TestAgesAndSizesAreReadAsWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{"1ms": time.Millisecond, "90m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "1h30m": 90 * time.Minute} {
		var f ageFlag
		require.NoError(t, f.Set(text))
		require.Equal(t, want, time.Duration(f))
	}
	for text, want := range map[string]int64{"1": 1, "500B": 500, "64MiB": 64 << 20, "64M": 64 << 20, "10GiB": 10 << 30, "1TiB": 1 << 40, "2K": 2048} {
		var f sizeFlag
		require.NoError(t, f.Set(text))
		require.Equal(t, want, int64(f))
	}
	for _, text := range []string{"", "0", "-1", "1.5GiB", "1PiB", "9999999TiB", "GiB", "1iB", "1KK", "1 MiB"} {
		require.Error(t, new(sizeFlag).Set(text), text)
	}
	for _, text := range []string{"", "0s", "-1h", "7", "1w", "d", "200000d", "1.5d", "1us"} {
		require.Error(t, new(ageFlag).Set(text), text)
	}
}

// What keeps old segments is not to be seen otherwise.
func TestTrimTellsOfATimeInTheFuture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever, TimestampAfterMax: -1, SegmentAge: 100 * 365 * 24 * time.Hour})
	require.NoError(t, err)
	now := time.Now()
	for n := range 30 {
		at := now.Add(-24 * time.Hour)
		if n == 15 {
			at = time.Date(now.Year()+10, 1, 2, 3, 4, 5, 0, time.UTC)
		}
		_, err := log.Append([]seglog.Record{{Timestamp: at.UnixMilli(), Value: []byte("x")}}, nil)
		require.NoError(t, err)
		if n%10 == 9 {
			_, err := log.Roll()
			require.NoError(t, err)
		}
	}
	require.NoError(t, log.Close())
	for _, how := range []string{"--dry-run", "--yes"} {
		r := runIn(t, Env{Now: time.Now}, "trim", dir, "--older-than", "12h", how)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, "delete")
		require.Contains(t, r.stdout, "10")
		require.Equal(t, fmt.Sprintf("logtool: warning: 00000000000000000010 stays, and all behind it: held by a future time at offset 15, %d-01-02T03:04:05Z\n", now.Year()+10), r.stderr)
	}
	require.Empty(t, runIn(t, Env{Now: time.Now}, "trim", dir, "--keep-size", "1", "--dry-run").stderr)
}
