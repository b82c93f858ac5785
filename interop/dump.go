package interop

import (
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
	tools := make([]toolRun, len(runs))
	for i, run := range runs {
		file, err := filepath.Abs(run.file)
		require.NoError(tb, err)
		tools[i] = toolRun{dumpTool, append([]string{"--files", file}, run.flags...)}
	}
	for i, res := range runEach(tb, tools) {
		run := runs[i]
		require.NoError(tb, os.MkdirAll(filepath.Dir(run.out), 0o755))
		folder, err := filepath.Abs(filepath.Dir(run.file))
		require.NoError(tb, err)
		for to, text := range map[string]string{".txt": res.Stdout, ".err.txt": res.Stderr} {
			if to == ".err.txt" && text == "" {
				continue
			}
			text = strings.ReplaceAll(text, folder+string(filepath.Separator), "")
			require.NoError(tb, os.WriteFile(run.out+to, []byte(text), 0o644))
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
