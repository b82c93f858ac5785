package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func TestFormatsPrintWhatTheySay(t *testing.T) {
	full := record.Record{
		Offset: 7, Timestamp: 1788220810000, Key: []byte("k\x00"), Value: []byte("\xff"),
		Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
	var empty record.Record
	empty.Timestamp = record.NoTimestamp
	for _, tt := range []struct{ format, full, empty string }{
		{`%o`, "7", "0"},
		{`%T`, "2026-09-01T00:00:10.000Z", "-"},
		{`%T{unixms}`, "1788220810000", "-1"},
		{`%k`, `k\x00`, "<null>"},
		{`%k{hex}%v{base64}`, "6b00/w==", "<null><null>"},
		{`%v`, "ff", "<null>"},
		{`%v{text}`, `\xff`, "<null>"},
		{`%K/%V`, "2/1", "-1/-1"},
		{`%h`, "a=1,b=<null>", ""},
		{`%p`, "99", "99"},
		{`100%% {%o}\n\t\\`, "100% {7}\n\t\\", "100% {0}\n\t\\"},
		{``, "", ""},
	} {
		f, err := parseFormat(tt.format, "auto", "auto")
		require.NoError(t, err, tt.format)
		require.Equal(t, tt.full, string(f.append(nil, &full, 99)), tt.format)
		require.Equal(t, tt.empty, string(f.append(nil, &empty, 99)), tt.format)
	}
	for _, bad := range []string{`%`, `%z`, `%o{hex}`, `%k{`, `%k{utf8}`, `%T{hex}`, `\`, `\q`} {
		_, err := parseFormat(bad, "auto", "auto")
		require.Error(t, err, bad)
	}
}

func TestPrintingARecordDoesNotAllocate(t *testing.T) {
	f, err := parseFormat(`%o %T{unixms} %k %v %V\n`, "auto", "auto")
	require.NoError(t, err)
	r := record.Record{Key: []byte("key"), Value: []byte("value")}
	var line []byte
	require.Zero(t, testing.AllocsPerRun(100, func() { line = f.append(line[:0], &r, 0) }))
}

// FuzzFormat: any format is refused or prints any record without a panic.
func FuzzFormat(f *testing.F) {
	f.Add(`%o %T %k{hex} %v\n`, []byte("k"), []byte("v"))
	f.Add(`%%%h%p\t{`, []byte{0xff}, []byte{})
	f.Fuzz(func(t *testing.T, format string, key, value []byte) {
		parsed, err := parseFormat(format, "auto", "text")
		if err != nil {
			return
		}
		r := record.Record{Key: key, Value: value, Headers: []record.Header{{Key: string(key), Value: value}}}
		parsed.append(nil, &r, 0)
	})
}

// follower runs cat --follow and hands out its lines.
type follower struct {
	t      *testing.T
	lines  *bufio.Scanner
	cancel context.CancelCauseFunc
	status chan int
	stderr *strings.Builder
}

func follow(t *testing.T, args ...string) *follower {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, in := io.Pipe()
	f := &follower{t: t, lines: bufio.NewScanner(out), cancel: cancel, status: make(chan int, 1), stderr: &strings.Builder{}}
	env := System()
	env.Stdout, env.Stderr, env.Getenv = in, f.stderr, func(string) string { return "" }
	go func() {
		f.status <- Run(ctx, env, append([]string{"cat", "--follow"}, args...))
		in.Close()
	}()
	return f
}

// next waits for the next line.
func (f *follower) next() string {
	f.t.Helper()
	require.True(f.t, f.lines.Scan(), "%v %s", f.lines.Err(), f.stderr)
	return f.lines.Text()
}

func appendValue(t *testing.T, log *seglog.Log, value string) {
	t.Helper()
	_, err := log.Append([]seglog.Record{{Value: []byte(value)}}, nil)
	require.NoError(t, err)
}

func TestCatFollowsAnotherWriterAcrossSegments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever, SegmentBytes: 500, IndexIntervalBytes: 1})
	require.NoError(t, err)
	defer log.Close()
	appendValue(t, log, "first")
	f := follow(t, dir, "--format", `%o %p %v\n`)
	require.Equal(t, "0 0 first", f.next())
	for round := range 3 {
		for n := range 10 {
			appendValue(t, log, fmt.Sprint("value", 10*round+n+1))
		}
		for n := range 10 {
			line := f.next()
			require.True(t, strings.HasPrefix(line, fmt.Sprintf("%d ", 10*round+n+1)), line)
			require.True(t, strings.HasSuffix(line, fmt.Sprint(" value", 10*round+n+1)), line)
		}
	}
	segments, err := log.Segments()
	require.NoError(t, err)
	require.Greater(t, len(segments), 2)

	f.cancel(errors.New("enough"))
	require.Equal(t, statusFailed, <-f.status)
}

func TestCatFollowEndsAtItsBounds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever})
	require.NoError(t, err)
	defer log.Close()
	appendValue(t, log, "first")
	for _, bound := range [][]string{{"-n", "2"}, {"--to", "2"}} {
		f := follow(t, append([]string{dir, "--from", "0"}, bound...)...)
		require.Equal(t, "first", f.next())
		if log.Offsets().End == 1 {
			appendValue(t, log, "second")
		}
		require.Equal(t, "second", f.next())
		require.Equal(t, statusOK, <-f.status)
	}
}

func TestCatFollowTellsOfRecordsThatWentAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	log, err := seglog.Open(dir, seglog.Options{Sync: seglog.SyncNever})
	require.NoError(t, err)
	defer log.Close()
	for range 5 {
		appendValue(t, log, "value")
	}
	f := follow(t, dir)
	for range 5 {
		f.next()
	}
	require.NoError(t, log.TruncateTo(2))
	require.Equal(t, statusFailed, <-f.status)
	require.Contains(t, f.stderr.String(), "the log was cut back to offset 2")
}
