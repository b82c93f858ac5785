package seglog_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// A log that lies in a log directory and was opened alone lowers its lines in the
// checkpoints there when it is truncated, before it cuts anything: for a broker, or a Dir
// that knows nothing else, what is appended then is neither clean nor durable.
func TestATruncationOfALoneLogLowersTheCheckpoints(t *testing.T) {
	names := []string{"cleaner-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}
	for _, row := range []struct {
		name     string
		truncate func(l *seglog.Log) error
		want     [3]int64
	}{
		{"below", func(l *seglog.Log) error { return l.TruncateTo(5) }, [3]int64{5, 5, 3}},
		{"below the start", func(l *seglog.Log) error { return l.TruncateTo(1) }, [3]int64{1, 1, 1}},
		{"above", func(l *seglog.Log) error { return l.TruncateTo(11) }, [3]int64{10, 10, 3}},
		{"completely", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(2) }, [3]int64{2, 2, 2}},
		{"completely, to go on above", func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(50) }, [3]int64{10, 10, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			disk := logtest.NewDisk(logtest.DiskOptions{})
			opts := compactedDir
			opts.FS = disk.FS()
			d := openDir(t, "logs", opts)
			dirty(t, create(t, d, "topic", 0), 5)
			dirty(t, create(t, d, "other", 7), 5)
			require.NoError(t, d.Clean(t.Context()))
			require.NoError(t, d.Close())
			for _, name := range names {
				at := 10
				if name == "log-start-offset-checkpoint" {
					at = 3
				}
				require.NoError(t, disk.WriteFile("logs/"+name, fmt.Appendf(nil, "0\n2\nother 7 %d\ntopic 0 %d\n", at, at)))
			}
			disk.SyncAll()
			lines := func(disk *logtest.Disk) (all []string) {
				for _, name := range names {
					data, err := disk.ReadFile("logs/" + name)
					require.NoError(t, err)
					all = append(all, string(data))
				}
				return all
			}
			want := func(at [3]int64) []string {
				return []string{
					fmt.Sprintf("0\n2\nother 7 10\ntopic 0 %d\n", at[0]), fmt.Sprintf("0\n2\nother 7 10\ntopic 0 %d\n", at[1]),
					fmt.Sprintf("0\n2\nother 7 3\ntopic 0 %d\n", at[2]),
				}
			}
			logOpts := compacted
			logOpts.FS = disk.FS()
			l, err := seglog.Open("logs/topic-0", logOpts)
			require.NoError(t, err)
			put(t, l, "k", "v")
			put(t, l, "k", "v")
			bytes := func(disk *logtest.Disk) (n int) {
				names, err := disk.ReadDir("logs/topic-0")
				require.NoError(t, err)
				for _, name := range names {
					if strings.HasSuffix(name, ".log") {
						data, err := disk.ReadFile("logs/topic-0/" + name)
						require.NoError(t, err)
						n += len(data)
					}
				}
				return n
			}
			require.NoError(t, l.Sync())
			before := bytes(disk)
			disk.OnCrash(4, 1, nil, func(c logtest.Crash) {
				if bytes(c.Disk) < before {
					require.Equal(t, want(row.want), lines(c.Disk), c.String())
				}
			})
			require.NoError(t, row.truncate(l))
			disk.OnOp(nil)
			require.Equal(t, want(row.want), lines(disk))
			require.NoError(t, l.Close())
		})
	}
}

// Logs of one log directory that are truncated at the same time, each opened alone, do
// not lose each other's lines; a checkpoint that is damaged stays as it is if there is
// nothing to lower.
func TestLoneLogsLowerTheirLinesAtOnce(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, compactedDir)
	const logs = 6
	for i := range int32(logs) {
		dirty(t, create(t, d, "topic", i), 3)
	}
	require.NoError(t, d.Clean(t.Context()))
	require.NoError(t, d.Close())
	var users sync.WaitGroup
	for i := range logs {
		l := openLog(t, filepath.Join(dir, fmt.Sprint("topic-", i)), compacted)
		users.Go(func() {
			for offset := int64(5); offset >= int64(i%3); offset-- {
				if err := l.TruncateTo(offset); err != nil {
					t.Errorf("truncate: %v", err)
				}
			}
			if err := l.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	users.Wait()
	lines := cleanedLines(t, dir)
	for i := range logs {
		require.Contains(t, lines, fmt.Sprintf("topic %d %d\n", i, i%3))
	}

	path := filepath.Join(dir, "cleaner-offset-checkpoint")
	writeFile(t, path, []byte("0\n7\ntopic 0 0\nno line\n"))
	l := openLog(t, filepath.Join(dir, "topic-0"), compacted)
	put(t, l, "k", "v")
	put(t, l, "k", "v")
	require.NoError(t, l.TruncateTo(1))
	require.Equal(t, "0\n7\ntopic 0 0\nno line\n", cleanedLines(t, dir))
}
