package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/cmd/logtool/internal/kafkadump"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/offsetslog"
	"github.com/seglog/seglog/record"
)

type offsetsDumpOptions struct {
	app    *App
	format *enumFlag
	groups bool
	limit  int64
}

func newOffsetsDumpCommand(app *App) *cobra.Command {
	opts := offsetsDumpOptions{app: app, format: newEnum("text", "text", "old", "json")}
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "the records of __consumer_offsets as they are stored",
		Long: `Print the records of __consumer_offsets one by one, byte for byte as Kafka's console
consumer does with its OffsetsMessageFormatter. DIR is a log directory, or that of one
partition of __consumer_offsets. Records of transactions that were aborted, or are
open, are there as well, and so is what compaction has not removed yet.

--format text is what Kafka 2.1 to 3.8 prints, old what was printed before, and json
what Kafka 4 prints: objects, with nothing between them. --groups prints the metadata
of groups instead, as its GroupMetadataMessageFormatter does. Other kinds of records,
and what is not known to that tool, are in -o json, which has all of them.`,
		Example:           "  logtool offsets dump /var/lib/kafka | grep ^.billing\n  logtool offsets dump /var/lib/kafka/__consumer_offsets-9 -o json",
		Args:              args("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 nothing wrong was met, 1 could not read, 2 usage, 3 damage was met, or a record that\ncannot be decoded."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("format") && (app.Out.JSON() || opts.groups && opts.format.value != "json") {
				return UsageErrorf("--format is for offsets as Kafka prints them; groups it prints as json only")
			}
			return opts.run(cmd.Context(), args[0])
		},
	}
	addEnumFlag(cmd, cmd.Flags(), opts.format, "format", "", "how Kafka prints offsets")
	cmd.Flags().BoolVar(&opts.groups, "groups", false, "the metadata of groups instead of offsets, as Kafka 4 prints it")
	addLimitFlag(cmd, &opts.limit, "records")
	return cmd
}

func (o *offsetsDumpOptions) run(ctx context.Context, path string) error {
	dirs, err := o.dirs(ctx, path)
	if err != nil {
		return err
	}
	d := offsetsDumper{offsetsDumpOptions: o}
	for _, dir := range dirs {
		if err := d.partition(ctx, dir); err != nil {
			return err
		}
	}
	if d.bad > 0 {
		return Hint(Damagef("%s: %s", path, plural(d.bad, "record or place could not be read", "records or places could not be read")), "logtool verify "+path)
	}
	return nil
}

// dumpedDir is the directory of a partition.
type dumpedDir struct {
	path      string
	partition int32
}

func (o *offsetsDumpOptions) dirs(ctx context.Context, path string) (dirs []dumpedDir, err error) {
	d, isDir, err := findLogDir(o.app, path)
	if err != nil {
		return nil, err
	}
	if !isDir {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		name, err := layout.ParseDir(filepath.Base(abs))
		if err != nil {
			name.Partition = -1 // a copy may have any name
		}
		return []dumpedDir{{path, name.Partition}}, nil
	}
	for _, p := range d.partitions {
		if p.Topic == offsetslog.Topic {
			dirs = append(dirs, dumpedDir{d.dir(p), p.Partition})
		}
	}
	if dirs == nil {
		return nil, fmt.Errorf("%s has no partition of %s", path, offsetslog.Topic)
	}
	flags := offsetsFlags{app: o.app}
	place, err := flags.place(path)
	if err == nil {
		err = flags.settle(ctx, path, &place)
	}
	if err != nil {
		return nil, err
	}
	(&offsetsDir{app: o.app, path: path, offsetsPlace: place}).tellMissing()
	return dirs, nil
}

type offsetsDumper struct {
	*offsetsDumpOptions
	dir dumpedDir
	it  record.Iterator
	buf []byte
	n   int64 // printed
	bad int64
}

func (d *offsetsDumper) partition(ctx context.Context, dir dumpedDir) error {
	log, err := d.app.OpenLog(dir.path)
	if err != nil {
		return err
	}
	defer log.Close()
	d.dir = dir
	opts := &seglog.IterOptions{Isolation: seglog.ReadLogEnd, SkipDamaged: true}
	for b, err := range log.Batches(ctx, log.Offsets().Start, opts) {
		switch {
		case errors.Is(err, seglog.ErrCorrupt):
			d.complain(err)
		case err != nil:
			return err
		case b.IsControl():
		default:
			if err := d.batch(b); err != nil {
				return err
			}
		}
		if d.n >= d.limit {
			break
		}
	}
	return interrupted(ctx)
}

func (d *offsetsDumper) complain(err error) {
	d.bad++
	d.app.sayf("%s: %v", d.dir.path, err)
}

func (d *offsetsDumper) batch(b record.Batch) error {
	for r, err := range b.Records(&d.it) {
		if err != nil {
			d.complain(fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err))
			continue
		}
		if d.n >= d.limit {
			return nil
		}
		if d.app.Out.JSON() {
			err = d.object(b, r)
		} else {
			err = d.text(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *offsetsDumper) text(r *record.Record) (err error) {
	d.buf = d.buf[:0]
	if d.groups {
		d.buf, err = kafkadump.AppendGroup(d.buf, r.Key, r.Value)
	} else {
		form := map[string]kafkadump.OffsetsForm{"text": kafkadump.OffsetsText, "old": kafkadump.OffsetsOld, "json": kafkadump.OffsetsJSON}[d.format.value]
		d.buf, err = kafkadump.AppendOffset(d.buf, form, r.Key, r.Value)
	}
	if err != nil {
		d.complain(fmt.Errorf("offset %d: %w", r.Offset, err))
		return nil
	}
	if len(d.buf) > 0 {
		d.n++
	}
	d.app.Out.Write(d.buf)
	return d.app.Out.lineDone()
}

// object is a record of any kind, decoded as far as it can be.
func (d *offsetsDumper) object(b record.Batch, r *record.Record) error {
	k, err := offsetslog.ParseKey(r.Key)
	kind := k.Type
	if d.groups && kind != offsetslog.GroupKey {
		return nil
	}
	d.n++
	obj := d.app.Out.Object("offsets_record").Int("log_partition", int64(d.dir.partition)).Int("log_offset", r.Offset).Time("time", r.Timestamp)
	optionalInt(obj, "producer_id", b.ProducerID())
	if err == nil && kind.Known() {
		obj.Int("key_type", int64(kind)).Text("group", k.Group)
		err = d.value(obj, k, r.Value)
	} else {
		if len(r.Key) >= 2 {
			obj.Int("key_type", int64(kind))
		}
		obj.Base64("key", r.Key).Base64("value", r.Value)
	}
	if err != nil {
		obj.Text("error", err.Error())
		d.bad++
	}
	return d.app.Out.Emit(obj)
}

func (d *offsetsDumper) value(obj *Object, k offsetslog.Key, value []byte) error {
	switch {
	case k.Type.IsOffset():
		obj.Text("topic", k.Topic).Int("partition", int64(k.Partition))
	case k.Regex != "":
		obj.Text("regex", k.Regex)
	case k.Member != "":
		obj.Text("member", k.Member)
	}
	if obj.Bool("tombstone", value == nil); value == nil {
		return nil
	}
	switch {
	case k.Type.IsOffset():
		c, version, err := offsetslog.ParseOffsetValue(value)
		if err != nil {
			obj.Base64("value", value)
			return err
		}
		obj.Int("value_version", int64(version)).Int("offset", c.Offset)
		optionalInt(obj, "leader_epoch", int64(c.LeaderEpoch))
		obj.Bytes("metadata", []byte(c.Metadata)).Time("committed", c.CommitTimestamp).Time("expires", c.ExpireTimestamp)
	case k.Type == offsetslog.GroupKey:
		g, version, err := offsetslog.ParseGroupValue(value)
		if err != nil {
			obj.Base64("value", value)
			return err
		}
		obj.Int("value_version", int64(version)).Text("protocol_type", g.ProtocolType).Int("generation", int64(g.Generation))
		obj.Array("members", func() {
			for _, m := range g.Members {
				obj.Element(func() { obj.Text("member", m.ID).Text("client_id", m.ClientID).Text("client_host", m.ClientHost) })
			}
		})
	default:
		obj.Base64("value", value)
	}
	return nil
}
