package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

type statOptions struct{ scan bool }

func newStatCommand(app *App) *cobra.Command {
	var opts statOptions
	cmd := &cobra.Command{
		Use:   "stat DIR",
		Short: "the whole log in ten lines",
		Long: `Tell the figures of a log, or of a log directory. The header of every batch of a log
is read. Nothing is written, and a writer or a broker may be at work.

With --scan the records are counted one by one and checksums verified: the only
way to know how many records are in compressed batches of the formats before
Kafka 0.11.`,
		Example: `  logtool stat orders-0
  logtool stat orders-0 --scan -o json`,
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 nothing wrong was met, 1 could not read, 2 usage, 3 damage was met."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if roof, ok, err := findLogDir(app, args[0]); err == nil && ok {
				return roof.stat()
			}
			return opts.run(cmd.Context(), app, args[0])
		},
	}
	cmd.Flags().BoolVar(&opts.scan, "scan", false, "count records one by one and verify checksums")
	return cmd
}

func (o *statOptions) run(ctx context.Context, app *App, dir string) error {
	log, err := app.OpenLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	s := figures{app: app, dir: dir, scan: o.scan, first: record.NoTimestamp, last: record.NoTimestamp}
	if s.stats, err = log.Stats(); err != nil {
		return err
	}
	segments, err := log.Segments()
	if err != nil {
		return err
	}
	if err := s.count(ctx, segments); err != nil {
		return err
	}
	s.damage = max(s.damage, int64(len(s.stats.Recovery.Damaged))) // headers may not tell
	for _, m := range s.stats.Recovery.Missing {
		s.damage++
		app.sayf("%v are missing: the segment that held them is lost", m)
	}
	s.surroundings(segments[len(segments)-1])
	if d, err := log.Dirtiness(); err == nil && d.FirstDirty > s.stats.Start {
		s.dirtiness, s.cleaned = d, true
	}
	if app.Out.JSON() {
		err = s.emit()
	} else {
		err = s.print()
	}
	if err == nil && s.damage > 0 {
		err = Hint(Damagef("%s: %s damaged", dir, plural(s.damage, "place is", "places are")), "logtool verify "+dir)
	}
	return err
}

// figures is what stat tells.
type figures struct {
	app  *App
	dir  string
	scan bool
	it   record.Iterator

	stats            seglog.Stats
	records, control int64
	batches          int64
	uncounted        int64 // batches whose number of records is not in their header
	damage           int64
	codecs           [8]int64
	magics           [3]int64
	first, last      int64 // timestamps

	dirtiness       seglog.Dirtiness // if cleaned
	cleaned         bool
	close           string
	topicID         string
	leaderEpoch     int64
	hasLeaderEpochs bool
}

// count reads the headers of all batches. Segment sizes are those found at open:
// what a writer appends meanwhile does not count.
func (s *figures) count(ctx context.Context, segments []seglog.SegmentInfo) error {
	progress := s.app.Progress("reading " + s.dir)
	defer progress.Clear()
	w := segment.Walker{SkipChecksums: !s.scan}
	done := int64(0)
	for _, info := range segments {
		path := logPath(s.app.FS, s.dir, info)
		err := s.segment(ctx, &w, path, info, func(pos int64) { progress.Update(done+pos, s.stats.Size) })
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) {
			s.app.Verbosef("%s was removed or cut meanwhile", path)
			continue
		}
		if err != nil {
			return err
		}
		if info.Size == 0 && info.IndexEntries > 0 && !info.Active {
			s.damage++
			s.app.sayf("%s: the log is empty, but its index is not", path)
		}
		done += info.Size
		s.last = max(s.last, info.MaxTimestamp)
	}
	return nil
}

func (s *figures) segment(ctx context.Context, w *segment.Walker, path string, info seglog.SegmentInfo, progress func(int64)) error {
	d := dumper{app: s.app}
	f, _, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Reset(f, info.BaseOffset, 0, info.Size)
	for w.Next() {
		if err := interrupted(ctx); err != nil {
			return err
		}
		if err := s.part(w); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		progress(w.Part().Position)
	}
	if err := w.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *figures) part(w *segment.Walker) error {
	p := w.Part()
	if p.Kind != segment.Whole {
		s.damage++
		return nil
	}
	// Its header is all that is needed of most batches, and is in memory.
	head, err := w.Bytes(record.HeaderSize)
	if err != nil {
		return err
	}
	s.batches++
	s.magics[p.Summary.Magic]++
	attributes := attributesOf(head, p.Summary.Magic)
	s.codecs[attributes.Codec()&7]++
	if s.first == record.NoTimestamp || s.scan {
		return s.decode(w)
	}
	s.countHeader(head, p.Summary.Magic, attributes)
	return nil
}

// attributesOf returns the flags of a batch from its header.
func attributesOf(head []byte, magic int8) record.Attributes {
	if magic < record.MagicV2 {
		return record.Attributes(head[17])
	}
	return record.Attributes(binary.BigEndian.Uint16(head[21:]))
}

// countHeader counts the records of a batch by what its header says.
func (s *figures) countHeader(head []byte, magic int8, attributes record.Attributes) {
	switch {
	case magic < record.MagicV2 && attributes.Codec() != record.None:
		s.uncounted++
	case magic < record.MagicV2:
		s.records++
	default:
		count := int64(int32(binary.BigEndian.Uint32(head[57:])))
		if attributes.Control() {
			s.control += count
		} else {
			s.records += count
		}
	}
}

// decode counts the records of a batch one by one.
func (s *figures) decode(w *segment.Walker) error {
	b, err := w.Batch()
	if err != nil {
		return err
	}
	err = s.it.Reset(b)
	for err == nil && s.it.Next() {
		if s.first == record.NoTimestamp {
			s.first = s.it.Record().Timestamp
		}
		if b.IsControl() {
			s.control++
		} else {
			s.records++
		}
	}
	if err != nil || s.it.Err() != nil {
		s.damage++
	}
	return nil
}

// surroundings looks at what lies beside the segments.
func (s *figures) surroundings(active seglog.SegmentInfo) {
	if m, err := checkpoint.ReadPartitionMetadata(s.app.FS, filepath.Join(s.dir, layout.PartitionMetadataName)); err == nil {
		s.topicID = m.TopicID.String()
	}
	if epochs, err := leaderepoch.ReadFile(s.app.FS, filepath.Join(s.dir, layout.LeaderEpochCheckpointName)); err == nil && len(epochs) > 0 {
		s.leaderEpoch, s.hasLeaderEpochs = int64(epochs[len(epochs)-1].Epoch), true
	}
	s.dirtiness.FirstDirty, s.cleaned = s.brokerOffset(layout.CleanerOffsetName)
	s.close = s.lastClose(active)
}

// brokerOffset is what a checkpoint of the log directory says of this partition.
func (s *figures) brokerOffset(name string) (int64, bool) {
	absolute, err := filepath.Abs(s.dir)
	if err != nil {
		return 0, false
	}
	dir, err := layout.ParseDir(filepath.Base(absolute))
	if err != nil {
		return 0, false
	}
	// Good lines of a damaged file count.
	entries, _, _ := checkpoint.ReadOffsets(s.app.FS, filepath.Join(filepath.Dir(absolute), name))
	offset, found := int64(0), false
	for _, e := range entries {
		if e.Topic == dir.Topic && e.Partition == dir.Partition {
			offset, found = e.Offset, true
		}
	}
	return offset, found
}

// lastClose tells how the log was left.
func (s *figures) lastClose(active seglog.SegmentInfo) string {
	if dirHeldByWriter(s.app.FS, s.dir) {
		return "open: a writer is at work"
	}
	state, err := (&checkpoint.StateFiles{FS: s.app.FS, Dir: s.dir}).Read()
	switch {
	case err == nil && state.Clean != nil && state.Clean.Segment == active.BaseOffset && state.Clean.Size == active.Size:
		return "clean"
	case err == nil && state.Clean != nil:
		return "clean, but changed since"
	case err == nil:
		return "not clean: the end is checked when it is opened for writing"
	case !errors.Is(err, fs.ErrNotExist):
		return "unknown: " + err.Error()
	}
	parent := filepath.Join(s.dir, "..")
	if _, err := s.app.FS.Stat(filepath.Join(parent, layout.MetaPropertiesName)); err != nil {
		return "unknown: no broker's directory around it"
	}
	if _, err := s.app.FS.Stat(filepath.Join(parent, layout.CleanShutdownName)); err == nil {
		return "clean, by a broker"
	}
	return "not clean: the broker did not shut down"
}

func (s *figures) print() error {
	table := s.app.Out.Table(Left(""), Left("")).Plain()
	out := s.app.Out
	table.Row("directory", escaped(s.dir))
	table.Row("offsets", fmt.Sprintf("[%d, %d)", s.stats.Start, s.stats.End))
	table.Row("records", s.recordsText())
	table.Row("segments", s.segmentsText())
	table.Row("log size", out.Size(s.stats.Size))
	table.Row("times", s.timesText())
	table.Row("codecs", s.codecsText())
	table.Row("cleaned to", s.cleanedText())
	table.Row("last close", s.close)
	if s.topicID != "" {
		table.Row("topic id", s.topicID)
	}
	if s.hasLeaderEpochs {
		table.Row("epoch", s.leaderEpoch)
	}
	return table.Flush()
}

func (s *figures) recordsText() string {
	text := fmt.Sprintf("%s in %s", commas(s.records), plural(s.batches, "batch", "batches"))
	if s.control > 0 {
		text += fmt.Sprintf(", and %s", plural(s.control, "control record", "control records"))
	}
	if s.uncounted > 0 {
		text += fmt.Sprintf(", without those in %s that only --scan counts", plural(s.uncounted, "old batch", "old batches"))
	}
	return text
}

func (s *figures) segmentsText() string {
	return fmt.Sprintf("%s (%s sealed, 1 active)", commas(int64(s.stats.Segments)), commas(int64(s.stats.Segments-1)))
}

func (s *figures) timesText() string {
	if s.first == record.NoTimestamp && s.last == record.NoTimestamp {
		return "-"
	}
	return timeText(s.first) + " to " + timeText(s.last)
}

func (s *figures) codecsText() string {
	var words []string
	for codec, n := range s.codecs {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s %s", record.Codec(codec), commas(n)))
		}
	}
	for magic, n := range s.magics[:record.MagicV2] {
		if n > 0 {
			words = append(words, fmt.Sprintf("(%s of magic %d)", commas(n), magic))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func (s *figures) cleanedText() string {
	if !s.cleaned {
		return "0 (never compacted)"
	}
	out := s.app.Out
	return fmt.Sprintf("%d (%s clean, %s dirty)", s.dirtiness.FirstDirty, out.Size(s.dirtiness.CleanBytes), out.Size(s.dirtiness.DirtyBytes))
}

func (s *figures) emit() error {
	out := s.app.Out
	obj := out.Object("log").Text("directory", s.dir).Int("start_offset", s.stats.Start).Int("end_offset", s.stats.End)
	obj.Int("records", s.records).Int("control_records", s.control).Int("batches", s.batches).Int("uncounted_batches", s.uncounted)
	obj.Int("segments", int64(s.stats.Segments)).Int("size", s.stats.Size).Int("damaged_places", s.damage)
	obj.Time("first_time", s.first).Time("last_time", s.last)
	obj.Array("codecs", func() {
		for codec, n := range s.codecs {
			if n > 0 {
				obj.Element(func() { obj.String("codec", record.Codec(codec).String()).Int("batches", n) })
			}
		}
	})
	if s.cleaned {
		obj.Int("cleaned_to", s.dirtiness.FirstDirty).Int("clean_size", s.dirtiness.CleanBytes).Int("dirty_size", s.dirtiness.DirtyBytes)
	} else {
		obj.Null("cleaned_to")
	}
	obj.Text("last_close", s.close)
	if s.topicID != "" {
		obj.String("topic_id", s.topicID)
	} else {
		obj.Null("topic_id")
	}
	if s.hasLeaderEpochs {
		obj.Int("leader_epoch", s.leaderEpoch)
	} else {
		obj.Null("leader_epoch")
	}
	return out.Emit(obj)
}
