package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func newDemoCommand(app *App) *cobra.Command {
	demo := demo{app: app}
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "make a small log and look into it",
		Long: `Make a small log and look into it with the other commands.

The log is made in DIR, which must be empty or not exist yet, and stays there. Without
DIR it is made in a new temporary directory.`,
		Example:           "  logtool demo\n  logtool demo /tmp/demo",
		GroupID:           groupOther,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 done, 1 could not write."),
		RunE:              func(cmd *cobra.Command, args []string) error { return demo.run(cmd.Context(), args) },
	}
}

// demo is the first thing that many will see of the project: it says what it does
// and shows nothing that a reader could not do himself.
type demo struct {
	app *App
	dir string // of the log
}

// The log of the demo: the orders of a day, one every 10 seconds, a segment for
// each codec.
const (
	demoRecords = 8640
	demoEvery   = 10 * time.Second
	demoBatch   = 24
)

var (
	demoDay    = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	demoCodecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
)

func (d *demo) run(ctx context.Context, args []string) error {
	root, err := d.root(args)
	if err != nil {
		return err
	}
	d.dir = filepath.Join(root, "orders-0")
	d.sayf("A seglog log is a directory of files in Apache Kafka's own format: here, partition 0")
	d.sayf("of a topic called orders. This writes one, the orders of one day, with a segment for")
	d.sayf("each codec:")
	d.sayf("")
	d.sayf("  %s", d.dir)
	if err := d.write(ctx); err != nil {
		return err
	}
	for _, show := range []struct {
		what string
		args []string
	}{
		{"Its segments. Each is a file of record batches with an index by offset and one by time:", []string{"ls", d.dir}},
		{"Two records:", []string{"cat", d.dir, "--from", "4321", "-n", "2", "--format", `%o  %T  %k  %v\n`}},
		{"How record 4321 is found, without reading what comes before it:", []string{"lookup", d.dir, "--offset", "4321"}},
		{"How the first order after noon is found:", []string{"lookup", d.dir, "--time", demoDay.Add(12 * time.Hour).Format(time.RFC3339)}},
		{"Every checksum, every record and every index entry, checked:", []string{"verify", d.dir}},
	} {
		if err := d.show(ctx, show.what, show.args); err != nil {
			return err
		}
	}
	d.next()
	return nil
}

// root returns the directory to make the log in.
func (d *demo) root(args []string) (string, error) {
	if len(args) == 0 {
		return os.MkdirTemp("", "seglog-demo-")
	}
	entries, err := d.app.FS.ReadDir(args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return args[0], d.app.FS.MkdirAll(args[0], 0o755)
	case err != nil:
		return "", err
	case len(entries) > 0:
		return "", Hint(fmt.Errorf("%s is not empty", args[0]), "logtool demo, which takes a new directory")
	}
	return args[0], nil
}

// write makes the log.
func (d *demo) write(ctx context.Context) error {
	log, err := seglog.Open(d.dir, seglog.Options{Sync: seglog.SyncNever}) // Close syncs
	if err != nil {
		return err
	}
	var builder record.Builder
	for from := 0; from < demoRecords && err == nil; from += demoBatch {
		if err = interrupted(ctx); err != nil {
			break
		}
		part := demoRecords / len(demoCodecs)
		if from > 0 && from%part == 0 {
			if _, err = log.Roll(); err != nil {
				break
			}
		}
		builder.Reset(record.BuilderOptions{Codec: demoCodecs[from/part]})
		for n := from; n < from+demoBatch; n++ {
			if err = builder.Append(demoOrder(n)); err != nil {
				break
			}
		}
		err = appendBuilt(log, &builder)
	}
	return errors.Join(err, log.Close())
}

func appendBuilt(log *seglog.Log, builder *record.Builder) error {
	b, err := builder.Build()
	if err == nil {
		_, err = log.AppendBatch(b, nil)
	}
	return err
}

// demoOrder is record n of the log, the same every time.
func demoOrder(n int) record.Record {
	items := [...]string{"espresso", "cappuccino", "croissant", "tea", "sandwich", "orange juice"}
	return record.Record{
		Timestamp: demoDay.Add(time.Duration(n) * demoEvery).UnixMilli(),
		Key:       fmt.Appendf(nil, "table-%d", n*7%23),
		Value:     fmt.Appendf(nil, `{"order":%d,"item":%q,"cents":%d}`, n, items[n*5%len(items)], 180+n*37%520),
		Headers:   []record.Header{{Key: "till", Value: strconv.AppendInt(nil, int64(n%3), 10)}},
	}
}

// sayf writes a line of the story: among the results if people read them, and
// beside them if programs do.
func (d *demo) sayf(format string, args ...any) {
	if d.app.Out.JSON() {
		fmt.Fprintf(d.app.Stderr, format+"\n", args...)
		return
	}
	d.app.Out.Linef(format, args...)
}

// show runs a command and shows what it prints.
func (d *demo) show(ctx context.Context, what string, args []string) error {
	d.sayf("")
	d.sayf("%s", what)
	d.sayf("")
	d.sayf("%s", d.app.Out.Paint(Head, "$ logtool"+commandLine(args)))
	if d.app.Out.JSON() {
		args = append(args, "-o", "json")
		if args[0] == "cat" {
			args = []string{"cat", d.dir, "--from", "4321", "-n", "2", "-o", "json"}
		}
	}
	if err := d.app.Out.Flush(); err != nil {
		return err
	}
	env := d.app.Env
	env.Stdout, env.StdoutTerminal = d.app.Out, false
	if d.app.Out.color {
		args = append(args, "--color", "always")
	}
	if status := Run(ctx, env, args); status != statusOK {
		if err := interrupted(ctx); err != nil {
			return err
		}
		return fmt.Errorf("logtool%s: exit status %d", commandLine(args), status)
	}
	return nil
}

// commandLine is arguments as they would be typed.
func commandLine(args []string) string {
	line := ""
	for _, arg := range args {
		line += " " + shellWord(arg)
	}
	return line
}

func shellWord(s string) string {
	for _, c := range s {
		plain := c == '-' || c == '_' || c == '.' || c == ':' || c == '/' || c == '@' ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !plain {
			return "'" + s + "'"
		}
	}
	return s
}

func (d *demo) next() {
	d.sayf("")
	d.sayf("What to try next (in a clone of the project, go run ./cmd/logtool is logtool):")
	d.sayf("")
	dir := shellWord(d.dir)
	for _, line := range [][2]string{
		{"logtool dump " + dir + " -n 3 --records", "batches as they are stored"},
		{"logtool dump " + dir + " --kafka", "the same lines as Kafka's own dump tool"},
		{"logtool cat " + dir + " --from @2026-09-01T18:00:00Z -n 5 -o json", "records for programs"},
		{"echo hello | logtool append " + dir, "one more record"},
		{"logtool cat " + dir + " --from -1 --follow", "what is appended meanwhile"},
	} {
		d.sayf("  %s", line[0])
		d.sayf("      %s", line[1])
	}
	d.sayf("")
	d.sayf("Change a byte of a .log file and run verify again. Give the files to kafka-dump-log.sh,")
	d.sayf("or the whole directory to a broker. In Go, the log above is")
	d.sayf("")
	d.sayf("  log, err := seglog.Open(%q, seglog.Options{})", d.dir)
}
