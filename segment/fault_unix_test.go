//go:build unix

package segment_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/segment"
	"github.com/stretchr/testify/require"
)

// childEnv marks the process that inChild starts.
const childEnv = "SEGMENT_TEST_CHILD"

// inChild runs the rest of the test that calls it in a process of its own, since
// a fault that nobody catches ends the process.
func inChild(t *testing.T, rest func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		rest(t)
		return
	}
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	child := exec.Command(os.Args[0], "-test.run", name, "-test.v", "-test.timeout", "1m")
	// A process under the race detector sleeps for a second before it ends.
	child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())
}

// indexFiles are the mapped files of a segment.
var indexFiles = []struct {
	name string
	path func(s *segment.Segment) string
}{
	{"offset index", func(s *segment.Segment) string {
		return filepath.Join(filepath.Dir(s.LogPath()), layout.OffsetIndexName(s.Base()))
	}},
	{"time index", func(s *segment.Segment) string {
		return filepath.Join(filepath.Dir(s.LogPath()), layout.TimeIndexName(s.Base()))
	}},
}

// Someone cuts an index of the active segment short. Memory faults; no append is
// half done, everything is found, and reopening makes the index anew.
func TestFaultOfAnIndexLeavesTheLogInItsState(t *testing.T) {
	for _, cut := range indexFiles {
		t.Run(cut.name, func(t *testing.T) {
			inChild(t, func(t *testing.T) {
				s := create(t, 100, segment.Options{IndexIntervalBytes: 1})
				put(t, s, 10, span(100, 149)...)
				require.NoError(t, os.Truncate(cut.path(s), 0))

				// The first append that needs an index entry finds the fault and
				// makes the indexes anew.
				put(t, s, 10, 150, 151)
				require.Equal(t, span(120, 151), found(t, s, 120))
				require.EqualValues(t, 130, firstAt(t, s, 1300))
				require.Equal(t, segment.TimestampOffset{Timestamp: 1510, Offset: 151}, largest(t, s))
				require.NoError(t, s.Seal())
				require.NoError(t, s.Trim())
				require.NoError(t, s.Retire())
				s = segment.Open(filepath.Dir(s.LogPath()), 100, options(segment.Options{IndexIntervalBytes: 1}))
				t.Cleanup(func() { s.Retire() })
				_, err := s.Recover(segment.RecoverOptions{})
				require.NoError(t, err)
				put(t, s, 10, 152)
				require.Equal(t, span(120, 152), found(t, s, 120))
				require.EqualValues(t, 150, firstAt(t, s, 1500))
			})
		})
	}
}

// Of a sealed segment only speed is lost.
func TestFaultOfASealedIndexIsReadAround(t *testing.T) {
	for _, cut := range indexFiles {
		t.Run(cut.name, func(t *testing.T) {
			inChild(t, func(t *testing.T) {
				s := create(t, 100, segment.Options{IndexIntervalBytes: 1})
				put(t, s, 10, span(100, 149)...)
				require.NoError(t, s.Seal())
				require.NoError(t, s.Trim())
				require.NoError(t, os.Truncate(cut.path(s), 0))
				require.Equal(t, span(120, 149), found(t, s, 120))
				require.EqualValues(t, 130, firstAt(t, s, 1300))
				require.Equal(t, segment.TimestampOffset{Timestamp: 1490, Offset: 149}, largest(t, s))
				require.ErrorIs(t, s.TruncateTo(130), index.ErrFault)
				require.NoError(t, s.Remove())
			})
		})
	}
}
