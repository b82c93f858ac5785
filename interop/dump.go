package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dumpTool is the main class of Kafka's own dump tool.
const dumpTool = "org.apache.kafka.tools.DumpLogSegments"

// DumpLogSegments runs Kafka's dump tool in dir over files of that folder and
// returns its output. The tool ends with status 0 even after complaints: look
// at Stderr.
func DumpLogSegments(tb testing.TB, dir string, files []string, flags ...string) RunResult {
	tb.Helper()
	args := append([]string{"--files", strings.Join(files, ",")}, flags...)
	return RunJava(tb, dir, dumpTool, args...)
}

// A dumpRun is one run of the dump tool over one file.
type dumpRun struct {
	file  string   // what is dumped
	out   string   // path of the text wanted, without ending
	flags []string // beside --files
}

// dumpEach does all runs in one process and writes the text of each run to
// <out>.txt, and its complaints, if any, to <out>.err.txt.
//
// The folder of the file is taken off wherever the tool names the file, so
// that the text reads as if the tool had run in that folder.
func dumpEach(tb testing.TB, runs []dumpRun) {
	tb.Helper()
	scratch := tb.TempDir()
	place := func(i int, kind string) string { return filepath.Join(scratch, fmt.Sprintf("%d.%s", i, kind)) }
	var script strings.Builder
	for i, run := range runs {
		file, err := filepath.Abs(run.file)
		require.NoError(tb, err)
		fields := append([]string{place(i, "out"), place(i, "err"), "--files", file}, run.flags...)
		script.WriteString(strings.Join(fields, "\t") + "\n")
	}
	res := runJava(tb, Classpath(tb), "", script.String(), "DumpEach")
	require.Zero(tb, res.Exit, "%s%s", res.Stdout, res.Stderr)
	for i, run := range runs {
		require.NoError(tb, os.MkdirAll(filepath.Dir(run.out), 0o755))
		folder, err := filepath.Abs(filepath.Dir(run.file))
		require.NoError(tb, err)
		for kind, to := range map[string]string{"out": ".txt", "err": ".err.txt"} {
			text, err := os.ReadFile(place(i, kind))
			require.NoError(tb, err)
			if kind == "err" && len(text) == 0 {
				continue
			}
			text = bytes.ReplaceAll(text, []byte(folder+string(filepath.Separator)), nil)
			require.NoError(tb, os.WriteFile(run.out+to, text, 0o644))
		}
	}
}

// dumpRuns lists how the files of a partition directory are dumped: each file
// plainly, logs deeply with their records, and the logs of Kafka's own topics
// with the decoder made for them.
func dumpRuns(tb testing.TB, dir, out string, deep bool) []dumpRun {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	var runs []dumpRun
	for _, e := range entries {
		file, to := filepath.Join(dir, e.Name()), filepath.Join(out, e.Name())
		switch filepath.Ext(e.Name()) {
		case ".log", ".checkpoint":
			runs = append(runs, dumpRun{file: file, out: to})
			if deep {
				runs = append(runs, dumpRun{file: file, out: to + ".deep", flags: []string{"--deep-iteration", "--print-data-log"}})
			}
			if decoder, ok := decoders[filepath.Base(dir)]; ok {
				runs = append(runs, dumpRun{file: file, out: to + ".decoded", flags: []string{decoder}})
			}
		case ".index", ".timeindex", ".txnindex", ".snapshot":
			runs = append(runs, dumpRun{file: file, out: to})
		}
	}
	return runs
}

var decoders = map[string]string{
	"__consumer_offsets-0":  "--offsets-decoder",
	"__transaction_state-0": "--transaction-log-decoder",
	"__cluster_metadata-0":  "--cluster-metadata-decoder",
}
