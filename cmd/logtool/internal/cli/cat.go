package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

// followEvery is how often a followed log is looked at again. The writer is
// another process, which nothing but its files tells of.
const followEvery = 250 * time.Millisecond

func newCatCommand(app *App) *cobra.Command {
	opts := catOptions{
		app:   app,
		key:   newEnum("auto", "auto", "text", "hex", "base64"),
		value: newEnum("auto", "auto", "text", "hex", "base64"),
	}
	cmd := &cobra.Command{
		Use:   "cat DIR",
		Short: "records, formatted",
		Long: `Print the records of a log, by default each value on a line.

A format string says what is printed of a record, with nothing added to it:

  %o  offset           %k  key      %K  its length, -1 for null
  %T  time, RFC 3339   %v  value    %V  its length, -1 for null
  %h  headers          %p  position of its batch in the .log file
  %%  a percent sign   \n \t \r \0 \\

Braces choose a form: %k{hex}, %v{base64}, %v{text}, %T{unixms}. Without them text
is printed if the bytes are UTF-8, and hex if not; control characters are escaped,
and null is <null>. -o raw prints values as they are and nothing else; -o json one
object for each record, which append --input json takes back.

Records in a damaged batch are left out and told about on stderr, and the exit
status is 3.`,
		Example: "  logtool cat orders-0 --from -10\n" +
			`  logtool cat orders-0 --from @-1h --follow --format '%o %T %k %v\n'` + "\n" +
			"  logtool cat orders-0 -o json | jq .key",
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 done, 1 could not read, 2 usage, 3 damage met, 4 no such offset."),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd, args[0]) },
	}
	opts.span.AddFlags(cmd, app.Now)
	flags := cmd.Flags()
	flags.Int64VarP(&opts.limit, "limit", "n", 0, "at most `N` records")
	flags.StringVar(&opts.format, "format", `%v\n`, "what is printed of each record, see above")
	flags.BoolVarP(&opts.follow, "follow", "f", false, "wait for more records at the end, also of another process")
	flags.BoolVar(&opts.control, "control", false, "include control records, such as transaction markers")
	addEnumFlag(cmd, flags, opts.key, "key-encoding", "", "how %k shows keys")
	addEnumFlag(cmd, flags, opts.value, "value-encoding", "", "how %v shows values")
	allowOutput(cmd, "raw")
	return cmd
}

type catOptions struct {
	app             *App
	span            Range
	limit           int64
	format          string
	follow, control bool
	key, value      *enumFlag
}

func (o *catOptions) run(cmd *cobra.Command, dir string) error {
	format, err := parseFormat(o.format, o.key.value, o.value.value)
	if err != nil {
		return UsageErrorf("--format: %v", err)
	}
	if cmd.Flags().Changed("limit") && o.limit < 1 {
		return UsageErrorf("--limit %d: want 1 or more", o.limit)
	}
	if o.app.Out.JSON() || o.app.Out.Raw() {
		for _, flag := range []string{"format", "key-encoding", "value-encoding"} {
			if cmd.Flags().Changed(flag) {
				return UsageErrorf("--%s is about text: it does not go with -o %s", flag, cmd.Flag("output").Value)
			}
		}
	}
	log, err := o.app.OpenLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	c := &catter{catOptions: o, log: log, places: places{dir: dir, log: log, fs: o.app.FS}}
	defer c.places.close()
	if !o.app.Out.JSON() && !o.app.Out.Raw() {
		c.text = &format
	}
	if c.left = o.limit; c.left == 0 {
		c.left = math.MaxInt64
	}
	return c.run(cmd.Context())
}

// catter is one run of cat.
type catter struct {
	*catOptions
	log    *seglog.Log
	text   *recordFormat // nil: JSON or raw
	places places
	next   int64 // offset to go on at
	left   int64 // how many records may still be printed
	damage error
	line   []byte

	missing []seglog.OffsetRange // lost from the middle of the log
}

func (c *catter) run(ctx context.Context) error {
	from, to, err := c.span.Resolve(c.log)
	if err != nil {
		return err
	}
	c.next = from
	if c.follow && !c.span.To.IsSet() {
		to = math.MaxInt64
	} else if c.follow {
		if to, _, err = c.span.To.Resolve(c.log); err != nil {
			return err
		}
	}
	for {
		if err := c.print(ctx, min(to, c.log.Offsets().End)); err != nil {
			return err
		}
		if !c.follow || c.left == 0 || c.next >= to {
			return Told(c.damage)
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
}

// print prints the records from next on, up to but without the offset to.
func (c *catter) print(ctx context.Context, to int64) error {
	if c.next >= to || c.left == 0 {
		return nil
	}
	stats, err := c.log.Stats()
	if err != nil {
		return err
	}
	c.missing = stats.Recovery.Missing
	opts := seglog.IterOptions{To: to, SkipDamaged: true, Control: c.control}
	for r, err := range c.log.Records(ctx, c.next, &opts) {
		var damaged *seglog.CorruptionError
		switch {
		case errors.As(err, &damaged):
			// Said at once and in its place: a reader of the results
			// should know where they have a hole.
			c.app.sayf("%v", err)
			c.damage = ErrDamage
			continue
		case err != nil:
			return err
		}
		c.pass(r.Offset)
		if err := c.record(&r); err != nil {
			return err
		}
		c.next = r.Offset + 1
		if c.left--; c.left == 0 {
			return nil
		}
	}
	c.pass(to)
	c.next = to
	return nil
}

// pass tells of what is missing between the last record and the next.
func (c *catter) pass(next int64) {
	for _, m := range c.missing {
		if m.First >= c.next && m.First < next {
			c.app.sayf("%v are missing: the segment that held them is lost", m)
			c.damage = ErrDamage
		}
	}
}

func (c *catter) record(r *seglog.Record) error {
	out := c.app.Out
	switch {
	case out.JSON():
		return out.Emit(out.Object("record").Record(r))
	case out.Raw():
		_, err := out.Write(r.Value)
		return err
	}
	position := int64(-1)
	if c.text.position {
		var err error
		if position, err = c.places.position(r.Offset); err != nil {
			return err
		}
	}
	c.line = c.text.append(c.line[:0], r, position)
	_, err := out.Write(c.line)
	return err
}

// wait returns when the log has more, having written what there was.
func (c *catter) wait(ctx context.Context) error {
	if err := c.app.Out.Flush(); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(followEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return interrupted(ctx)
		}
		if err := c.log.Refresh(); err != nil {
			return err
		}
		switch at := c.log.Offsets(); {
		case at.End < c.next:
			return fmt.Errorf("the log was cut back to offset %d, below %d where this was: %w", at.End, c.next, seglog.ErrTruncated)
		case at.Start > c.next:
			c.app.Warnf("offsets %d to %d were deleted before they could be shown", c.next, at.Start-1)
			c.next = at.Start
			return nil
		case at.End > c.next:
			return nil
		}
	}
}
