package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

const kafkaRoot = "../../../../testdata/kafka/4.3.1"

// kafkaPartitions are the logs a real broker has written.
func kafkaPartitions(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(kafkaRoot)
	require.NoError(t, err)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(kafkaRoot, e.Name()))
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}

// lookedUp is what lookup -o json prints.
type lookedUp struct {
	Steps []struct {
		Step     string
		File     string
		Offset   int64
		Position int64
	}
	Found bool
}

func (l lookedUp) last() (step string, offset int64) {
	s := l.Steps[len(l.Steps)-1]
	return s.Step, s.Offset
}

func lookUp(t *testing.T, args ...string) (lookedUp, result) {
	t.Helper()
	r := run(t, append([]string{"lookup", "-o", "json"}, args...)...)
	var l lookedUp
	if r.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &l))
	}
	return l, r
}

// What lookup shows is what the library does: for every offset of every log both
// find the same record, or the same one behind it.
func TestLookupFindsWhatTheLibraryFinds(t *testing.T) {
	for _, dir := range kafkaPartitions(t) {
		log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
		require.NoError(t, err)
		bounds := log.Offsets()
		step := max((bounds.End-bounds.Start)/40, 1) // all of the small logs
		for offset := bounds.Start; offset < bounds.End; offset += step {
			what := fmt.Sprintf("%s offset %d", filepath.Base(dir), offset)
			l, r := lookUp(t, dir, "--offset", strconv.FormatInt(offset, 10))
			rec, err := log.Get(offset)
			var gap *seglog.GapError
			switch {
			case err == nil:
				require.Equal(t, statusOK, r.status, what)
				require.True(t, l.Found)
				step, found := l.last()
				require.Equal(t, "found", step)
				require.Equal(t, rec.Offset, found, what)
			case errors.As(err, &gap):
				require.Equal(t, statusNotFound, r.status, what)
				require.False(t, l.Found)
				if strings.Contains(r.stderr, "the next one is at") {
					require.Contains(t, r.stderr, fmt.Sprintf("the next one is at %d", gap.Next), what)
				}
			default:
				require.NoError(t, err, what)
			}
		}
		require.NoError(t, log.Close())
	}
}

func TestLookupByTimeFindsWhatTheLibraryFinds(t *testing.T) {
	for _, dir := range kafkaPartitions(t) {
		log, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
		require.NoError(t, err)
		times := map[int64]bool{0: true}
		for r, err := range log.Records(t.Context(), log.Offsets().Start, nil) {
			require.NoError(t, err)
			if r.Timestamp > 0 && len(times) < 60 {
				times[r.Timestamp-1], times[r.Timestamp], times[r.Timestamp+1] = true, true, true
			}
		}
		for timestamp := range times {
			what := fmt.Sprintf("%s time %d", filepath.Base(dir), timestamp)
			l, r := lookUp(t, dir, "--time", strconv.FormatInt(timestamp, 10))
			at, found, err := log.OffsetForTime(timestamp)
			require.NoError(t, err)
			if !found {
				require.Equal(t, statusNotFound, r.status, what)
				continue
			}
			require.Equal(t, statusOK, r.status, "%s: %s", what, r.stderr)
			_, offset := l.last()
			require.Equal(t, at.Offset, offset, what)
		}
		require.NoError(t, log.Close())
	}
}
