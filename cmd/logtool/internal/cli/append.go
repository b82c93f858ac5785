package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

const (
	// appendMaxBytes ends a batch however few records it has: Kafka's default of
	// max.message.bytes is a little more.
	appendMaxBytes = 1 << 20
	// appendLinger is how long a batch waits for more records that may be on
	// their way.
	appendLinger = 200 * time.Millisecond
)

func newAppendCommand(app *App) *cobra.Command {
	opts := appendOptions{
		app:   app,
		input: newEnum("lines", "lines", "json"),
		codec: newEnum("none", "none", "gzip", "snappy", "lz4", "zstd"),
	}
	cmd := &cobra.Command{
		Use:   "append DIR",
		Short: "records from stdin",
		Long: `Append records read from standard input.

With --input lines each line is a value, or with --key-delim a key and a value; a
line without the delimiter has no key. The time is now. With --input json each line
is an object as cat -o json prints it, and keys, values, headers and times are
stored as they were.

What a crash has left incomplete at the end of the log is cut off first, and told of
on stderr. Good batches that lie behind damage are not: see repair, or --set-aside.`,
		Example: `  printf 'k1\tv1\nk2\tv2\n' | logtool append orders-0 --key-delim '\t'` + "\n" +
			"  logtool cat orders-0 -o json | logtool append copy-0 --input json --codec zstd --create",
		GroupID:           groupChange,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not write, 2 usage or bad input, 3 the log has damage that must be seen to\n" +
			"first, 5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	addEnumFlag(cmd, flags, opts.input, "input", "", "what stdin holds")
	flags.StringVar(&opts.keyDelim, "key-delim", "", "what parts key and value, a `STRING`; \\t is a tab")
	flags.IntVar(&opts.batch, "batch", 100, "at most `N` records in a batch")
	addEnumFlag(cmd, flags, opts.codec, "codec", "", "how batches are compressed")
	flags.BoolVar(&opts.create, "create", false, "begin a new log if there is none")
	flags.BoolVar(&opts.setAside, "set-aside", false, "end the log at damage that a crash has left; .cut files keep what is good behind it")
	flags.BoolVar(&opts.sync, "sync", false, "wait for the disk after each batch, not only at the end")
	return cmd
}

type appendOptions struct {
	app          *App
	input, codec *enumFlag
	keyDelim     string
	batch        int
	create, sync bool
	setAside     bool
}

func (o *appendOptions) run(cmd *cobra.Command, dir string) error {
	switch {
	case o.batch < 1:
		return UsageErrorf("--batch %d: want 1 or more", o.batch)
	case cmd.Flags().Changed("key-delim") && o.input.value == "json":
		return UsageErrorf("--key-delim is about lines: it does not go with --input json")
	}
	delim, err := unescape(o.keyDelim)
	if err != nil {
		return UsageErrorf("--key-delim: %v", err)
	}
	codec, err := record.ParseCodec(o.codec.value)
	if err != nil {
		return err
	}
	log, err := o.open(dir)
	if err != nil {
		return err
	}
	in := &lineParser{delim: delim, now: o.app.Now}
	parse := in.line
	if o.input.value == "json" {
		parse = in.json
	}
	a := &appender{
		log: log, max: o.batch,
		builder: record.NewBuilder(record.BuilderOptions{Codec: codec}), codec: codec,
	}
	failed := a.all(cmd.Context(), readLines(cmd.Context(), o.app.Stdin), parse)
	err = errors.Join(failed, log.Close())
	if told := o.tell(a); err == nil {
		err = told
	}
	return err
}

// open opens the log for writing, if it is there or may be made.
func (o *appendOptions) open(dir string) (*seglog.Log, error) {
	if !o.create {
		// Opening for writing makes what is missing, so look first.
		log, err := o.app.OpenLog(dir)
		if err != nil && !errors.Is(err, seglog.ErrCorrupt) {
			return nil, Hint(err, "logtool append "+dir+" --create, which begins a new log")
		}
		if err == nil {
			if err := log.Close(); err != nil {
				return nil, err
			}
		}
	}
	policy := seglog.SyncNever // Close syncs
	if o.sync {
		policy = seglog.SyncAlways
	}
	return o.app.OpenToWrite(dir, seglog.Options{
		Sync: policy, MaxMessageBytes: 1 << 30, TimestampAfterMax: -1, RefuseCut: !o.setAside,
	})
}

// tell says what was appended, also when the rest was not.
func (o *appendOptions) tell(a *appender) error {
	out := o.app.Out
	if out.JSON() {
		obj := out.Object("appended").Int("records", a.records)
		if a.records == 0 {
			return out.Emit(obj.Null("first_offset").Null("next_offset"))
		}
		return out.Emit(obj.Int("first_offset", a.first).Int("next_offset", a.next))
	}
	if a.records == 0 {
		return out.Linef("appended no records")
	}
	return out.Linef("appended %s at offsets [%d, %d)", plural(a.records, "record", "records"), a.first, a.next)
}

// appender makes batches of records and appends them.
type appender struct {
	log     *seglog.Log
	max     int // records in a batch
	codec   record.Codec
	builder *record.Builder
	pending int // records in the builder
	size    int // of them, about

	records     int64 // appended
	first, next int64 // their offsets
}

// all appends what lines hold until they end. A bad line ends it; those before it
// are appended.
func (a *appender) all(ctx context.Context, lines <-chan inputLine, parse func([]byte) (record.Record, error)) error {
	timer := time.NewTimer(appendLinger)
	defer timer.Stop()
	for number := 1; ; {
		select {
		case line, more := <-lines:
			switch {
			case !more:
				return a.flush()
			case line.err != nil:
				return errors.Join(a.flush(), fmt.Errorf("read stdin: %w", line.err))
			}
			r, err := parse(line.text)
			if err == nil {
				err = a.add(r)
			}
			if err != nil {
				return errors.Join(a.flush(), UsageErrorf("line %d: %v", number, err))
			}
			number++
			if a.pending >= a.max || a.size >= appendMaxBytes {
				if err := a.flush(); err != nil {
					return err
				}
			}
			timer.Reset(appendLinger)
		case <-timer.C:
			if err := a.flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.Join(a.flush(), interrupted(ctx))
		}
	}
}

func (a *appender) add(r record.Record) error {
	size := record.RecordSize(r, 0, 0)
	// A large record gets a batch of its own, not one with all before it.
	if a.pending > 0 && a.size+size > appendMaxBytes {
		if err := a.flush(); err != nil {
			return err
		}
	}
	if err := a.builder.Append(r); err != nil {
		return err
	}
	a.pending++
	a.size += size
	return nil
}

func (a *appender) flush() error {
	if a.pending == 0 {
		return nil
	}
	b, err := a.builder.Build()
	if err != nil {
		return err
	}
	// The batch is built here and not by Append, for which a timestamp of 0
	// means the present time.
	at, err := a.log.AppendBatch(b, nil)
	if err != nil {
		return err
	}
	if a.records == 0 {
		a.first = at.BaseOffset
	}
	a.records += int64(a.pending)
	a.next = at.LastOffset + 1
	a.pending, a.size = 0, 0
	a.builder.Reset(record.BuilderOptions{Codec: a.codec})
	return nil
}

// inputLine is a line of stdin, without its end, or the error in its place.
type inputLine struct {
	text []byte
	err  error
}

// readLines reads lines on its own, so that whoever waits for one can be
// interrupted. The read that is then under way is left to the end of the process.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines := make(chan inputLine, 256)
	go func() {
		defer close(lines)
		in := newLineReader(r)
		for {
			text, err := in.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- inputLine{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}
