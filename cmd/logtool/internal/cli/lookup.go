package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
	"github.com/seglog/seglog/timeindex"
)

func newLookupCommand(app *App) *cobra.Command {
	opts := lookupOptions{app: app}
	cmd := &cobra.Command{
		Use:   "lookup DIR",
		Short: "how an offset or a time is found",
		Long: `Find an offset or a time and show each step: the segment, the index entries, the
batches read from there on, and the record.`,
		Example:           "  logtool lookup orders-0 --offset 41500\n  logtool lookup orders-0 --time 2026-09-01T12:00:00Z",
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 found, 1 could not read, 2 usage, 3 damage met, 4 no such offset or time."),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Var(newOffsetFlag(&opts.offset, app.Now), "offset", "the `OFFSET` to find: N, start, or -N from the end")
	cmd.Flags().StringVar(&opts.time, "time", "", "the first record at or after `TIME`: RFC 3339, a date, milliseconds, or -2h")
	return cmd
}

type lookupOptions struct {
	app    *App
	offset OffsetFlag
	time   string
}

func (o *lookupOptions) run(ctx context.Context, dir string) error {
	var timestamp int64
	byTime := o.time != ""
	if byTime == o.offset.IsSet() {
		return UsageErrorf("want either --offset or --time")
	}
	if byTime {
		var err error
		if timestamp, err = parseTime(o.time, o.app.Now()); err != nil {
			return UsageErrorf("--time %s: %v", o.time, err)
		}
	}
	for again := maxLooks; ; again-- {
		err := o.look(ctx, dir, byTime, timestamp)
		if !changedMeanwhile(err) || again == 0 {
			return err
		}
		o.app.Verbosef("looking again: %v", err)
	}
}

// maxLooks is how often a log is looked at again, of which a writer removes or cuts
// files meanwhile.
const maxLooks = 10

// changedMeanwhile reports whether err is of a file that is not there any more, or not
// as long as it was.
func changedMeanwhile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)
}

func (o *lookupOptions) look(ctx context.Context, dir string, byTime bool, timestamp int64) error {
	log, err := o.app.OpenLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	l := &lookup{app: o.app, ctx: ctx, log: log, places: places{dir: dir, log: log, fs: o.app.FS}}
	defer l.places.close()
	if l.infos, err = log.Segments(); err != nil {
		return err
	}
	if byTime {
		return l.time(timestamp)
	}
	offset, found, err := o.offset.Resolve(log)
	if err != nil {
		return err
	}
	if !found {
		return NotFoundf("no record at or after %s", strings.TrimPrefix(o.offset.text, "@"))
	}
	return l.offset(offset)
}

// lookup finds what the library finds, the way it does, and keeps what it sees.
type lookup struct {
	app    *App
	ctx    context.Context
	log    *seglog.Log
	places places
	infos  []seglog.SegmentInfo
	steps  []step
}

// step is one line of the answer, in words and for programs.
type step struct {
	name, text string
	fields     func(o *Object)
}

func (l *lookup) step(name string, fields func(o *Object), format string, args ...any) {
	l.steps = append(l.steps, step{name, fmt.Sprintf(format, args...), fields})
}

// show prints the steps, and then ends with err.
func (l *lookup) show(err error) error {
	if changedMeanwhile(err) {
		return err // nothing was shown yet
	}
	out := l.app.Out
	if !out.JSON() {
		for _, s := range l.steps {
			if err := out.Linef("%-9s%s", s.name, s.text); err != nil {
				return err
			}
		}
		return err
	}
	obj := out.Object("lookup")
	obj.Array("steps", func() {
		for _, s := range l.steps {
			obj.Element(func() {
				obj.String("step", s.name)
				s.fields(obj)
			})
		}
	})
	obj.Bool("found", err == nil)
	if written := out.Emit(obj); written != nil {
		return written
	}
	return err
}

// offset finds an offset.
func (l *lookup) offset(offset int64) error {
	bounds := l.log.Offsets()
	if offset < bounds.Start || offset >= bounds.End {
		return &seglog.OffsetError{Offset: offset, Start: bounds.Start, End: bounds.End}
	}
	i := sort.Search(len(l.infos), func(i int) bool { return l.infos[i].BaseOffset > offset }) - 1
	base := l.infos[i].BaseOffset
	s, err := l.places.open(base)
	if err != nil {
		return err
	}
	l.step("segment", func(o *Object) {
		o.String("file", s.Name()).Int("base_offset", base).Int("segments", int64(len(l.infos))).Int("relative_offset", offset-base)
	}, "%s: of %s the last that begins at or below %d (skip list)", s.Name(), plural(int64(len(l.infos)), "segment", "segments"), offset)
	from := l.floorEntry(s, offset)
	return l.scan(s, i, from, offset)
}

// floorEntry looks into the offset index and returns where to read on from.
func (l *lookup) floorEntry(s *segment.Segment, offset int64) int64 {
	x := s.View().Index
	name := layout.OffsetIndexName(s.Base())
	switch {
	case x == nil:
		l.app.Warnf("%s is missing or damaged: reading %s from its start", name, s.Name())
		l.step("index", func(o *Object) { o.String("file", name).Null("entry").Int("position", 0) }, "none to use: from position 0")
		return 0
	case x.Len() == 0:
		l.step("index", func(o *Object) { o.String("file", name).Int("entries", 0).Null("entry").Int("position", 0) }, "no entries: from position 0")
		return 0
	}
	e := x.Lookup(offset)
	relative := offset - s.Base()
	n := sort.Search(x.Len(), func(i int) bool { return x.At(i).Offset > e.Offset }) - 1
	if n < 0 || x.At(n) != e {
		l.step("index", func(o *Object) {
			o.String("file", name).Int("entries", int64(x.Len())).Int("relative_offset", relative).Null("entry").Int("position", 0)
		}, "relative offset %d is below the first of %s: from position 0", relative, plural(int64(x.Len()), "entry", "entries"))
		return 0
	}
	l.step("index", func(o *Object) {
		o.String("file", name).Int("entries", int64(x.Len())).Int("relative_offset", relative).
			Int("entry", int64(n)).Int("entry_offset", e.Offset).Int("position", e.Position)
	}, "relative offset %d: entry %d of %d: offset %d at position %d", relative, n, x.Len(), e.Offset, e.Position)
	if why := leadsNowhere(s, e); why != "" {
		l.app.Warnf("%s: entry %d %s: reading %s from its start", name, n, why, s.Name())
		return 0
	}
	return e.Position
}

// leadsNowhere says what is wrong with where an index entry points, if anything.
func leadsNowhere(s *segment.Segment, e index.Entry) string {
	if e.Position >= s.View().Size {
		return "is behind the end of the log"
	}
	var c segment.Scanner
	c.Reset(s, e.Position, s.View().Size)
	h, err := c.Header()
	if err != nil || h.BaseOffset > e.Offset || h.BaseOffset < s.Base() {
		return "does not lead to a batch of that offset"
	}
	return ""
}

// spans is the batches that a scan has passed, in the order of the file.
type spans struct {
	count int64
	some  []record.Summary // the first ones
	last  record.Summary
}

// maxSpans is how many batches of a scan are told one by one. A good index keeps
// scans far shorter.
const maxSpans = 1000

func (s *spans) add(h record.Summary) {
	s.count++
	s.last = h
	if len(s.some) < maxSpans {
		s.some = append(s.some, h)
	}
}

func (s *spans) String() string {
	var parts []string
	for i, h := range s.some[:min(3, len(s.some))] {
		switch {
		case i == 2 && s.count > 3:
			parts = append(parts, "...", spanText(s.last))
		default:
			parts = append(parts, spanText(h))
		}
	}
	return strings.Join(parts, ", ")
}

func spanText(h record.Summary) string { return fmt.Sprintf("[%d, %d)", h.BaseOffset, h.LastOffset+1) }

// scanned is the step of having read batches from a position on.
func (l *lookup) scanned(s *segment.Segment, from int64, sp *spans) {
	text := "no batches from there"
	if sp.count > 0 {
		text = fmt.Sprintf("%s from there: %s", plural(sp.count, "batch", "batches"), sp)
	}
	l.step("scan", func(o *Object) {
		o.String("file", s.Name()).Int("position", from).Int("batches", sp.count)
		o.Array("offsets", func() {
			for _, h := range sp.some {
				o.Element(func() { o.Int("base_offset", h.BaseOffset).Int("last_offset", h.LastOffset) })
			}
		})
	}, "%s", text)
}

// scan reads headers from a position until a batch reaches offset, and looks into
// it. Offsets that compaction has removed are found by the record behind them,
// which may be segments away.
func (l *lookup) scan(s *segment.Segment, i int, from, offset int64) error {
	for {
		var c segment.Scanner
		var passed spans
		c.Reset(s, from, s.View().Size)
		answer, err := l.inSegment(s, &c, &passed, offset)
		l.scanned(s, from, &passed)
		if answer != nil {
			l.steps = append(l.steps, *answer)
		}
		if answer != nil || err != nil {
			return l.show(err)
		}
		if i++; i == len(l.infos) {
			return l.show(NotFoundf("no record at offset %d, nor behind it", offset))
		}
		if s, err = l.places.open(l.infos[i].BaseOffset); err != nil {
			return err
		}
		from = 0
		l.step("segment", func(o *Object) { o.String("file", s.Name()).Int("base_offset", s.Base()) }, "%s, the next one", s.Name())
	}
}

// inSegment looks for offset from where c is. Without an answer and an error there
// is no record at or above it in the segment.
func (l *lookup) inSegment(s *segment.Segment, c *segment.Scanner, passed *spans, offset int64) (*step, error) {
	for {
		found, err := l.until(c, passed, func(h record.Summary) bool { return h.LastOffset >= offset })
		if !found || err != nil {
			return nil, err
		}
		if answer, err := l.inBatch(s, c, offset); answer != nil || err != nil {
			return answer, err
		}
		c.Advance()
	}
}

// until moves to the first batch for which enough is true.
func (l *lookup) until(c *segment.Scanner, passed *spans, enough func(record.Summary) bool) (bool, error) {
	for {
		if err := interrupted(l.ctx); err != nil {
			return false, err
		}
		h, err := c.Header()
		if errors.Is(err, io.EOF) || err == nil && h.BaseOffset >= l.log.Offsets().End {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		passed.add(h)
		if enough(h) {
			return true, nil
		}
		c.Advance()
	}
}

// inBatch looks for offset in the batch c is at. It has no answer if the batch has
// no record at or above it.
func (l *lookup) inBatch(s *segment.Segment, c *segment.Scanner, offset int64) (*step, error) {
	b, err := c.Checked()
	if err != nil {
		return nil, err
	}
	for r, err := range b.Records(nil) {
		if err != nil {
			return nil, fmt.Errorf("%s: position %d: %w", s.Name(), c.Position(), err)
		}
		switch {
		case r.Offset < offset:
		case b.IsControl() && r.Offset == offset:
			kind, _, _ := record.ParseControl(r.Key)
			return foundStep(r, c.Position(), fmt.Sprintf("a control record, %v: ", kind)),
				NotFoundf("offset %d is that of a control record: readers skip it", offset)
		case b.IsControl():
		case r.Offset == offset:
			return foundStep(r, c.Position(), ""), nil
		default:
			return foundStep(r, c.Position(), "the next one: "), NotFoundf("no record at offset %d: the next one is at %d", offset, r.Offset)
		}
	}
	return nil, nil
}

func foundStep(r *record.Record, position int64, what string) *step {
	offset, timestamp := r.Offset, r.Timestamp
	return &step{
		name: "found",
		text: fmt.Sprintf("%soffset %d in the batch at position %d, time %s", what, offset, position, timeText(timestamp)),
		fields: func(o *Object) {
			o.Int("offset", offset).Int("position", position).Time("time", timestamp)
		},
	}
}

// time finds the first record at or after a time.
func (l *lookup) time(timestamp int64) error {
	bounds := l.log.Offsets()
	i := slices.IndexFunc(l.infos, func(info seglog.SegmentInfo) bool {
		return info.MaxTimestamp >= timestamp && info.NextOffset > bounds.Start
	})
	if i < 0 {
		newest := int64(record.NoTimestamp)
		for _, info := range l.infos {
			newest = max(newest, info.MaxTimestamp)
		}
		return NotFoundf("no record at or after %s: the latest is of %s", timeText(timestamp), timeText(newest))
	}
	for ; i < len(l.infos); i++ {
		if l.infos[i].MaxTimestamp < timestamp {
			continue
		}
		found, err := l.timeIn(i, timestamp, bounds.Start)
		if found || err != nil {
			return err
		}
	}
	return l.show(NotFoundf("no record at or after %s", timeText(timestamp)))
}

// timeIn looks for a time in a segment whose largest timestamp reaches it.
func (l *lookup) timeIn(i int, timestamp, start int64) (bool, error) {
	info := l.infos[i]
	s, err := l.places.open(info.BaseOffset)
	if err != nil {
		return false, err
	}
	l.step("segment", func(o *Object) {
		o.String("file", s.Name()).Int("base_offset", info.BaseOffset).Int("segments", int64(len(l.infos))).Time("largest_time", info.MaxTimestamp)
	}, "%s: of %s the first with a time so late, up to %s", s.Name(), plural(int64(len(l.infos)), "segment", "segments"), timeText(info.MaxTimestamp))
	offset := max(l.timeEntry(s, timestamp), start)
	from := l.floorEntry(s, offset)

	var c segment.Scanner
	var passed spans
	c.Reset(s, from, s.View().Size)
	answer, err := l.timeFrom(s, &c, &passed, timestamp, offset, start)
	l.scanned(s, from, &passed)
	if answer != nil {
		l.steps = append(l.steps, *answer)
	}
	if answer != nil || err != nil {
		return true, l.show(err)
	}
	return false, nil
}

// timeFrom looks for a time from where c is.
func (l *lookup) timeFrom(s *segment.Segment, c *segment.Scanner, passed *spans, timestamp, offset, start int64) (*step, error) {
	for {
		late, err := l.until(c, passed, func(h record.Summary) bool {
			return h.LastOffset >= offset && h.MaxTimestamp >= timestamp
		})
		if !late || err != nil {
			return nil, err
		}
		r, err := firstAt(c, timestamp, start)
		if err != nil {
			return nil, fmt.Errorf("%s: position %d: %w", s.Name(), c.Position(), err)
		}
		if r != nil {
			return foundStep(r, c.Position(), ""), nil
		}
		c.Advance()
	}
}

// firstAt returns the first record in the batch c is at with a timestamp of at
// least timestamp and an offset of at least start, nil if there is none.
func firstAt(c *segment.Scanner, timestamp, start int64) (*record.Record, error) {
	b, err := c.Checked()
	if err != nil {
		return nil, err
	}
	for r, err := range b.Records(nil) {
		if err != nil {
			return nil, err
		}
		if r.Timestamp >= timestamp && r.Offset >= start {
			own := r.Clone()
			return &own, nil
		}
	}
	return nil, nil
}

// timeEntry looks into the time index and returns the offset to start at.
func (l *lookup) timeEntry(s *segment.Segment, timestamp int64) int64 {
	x := s.View().Time
	name := layout.TimeIndexName(s.Base())
	if x == nil {
		l.app.Warnf("%s is missing or damaged: reading %s from its start", name, s.Name())
		l.step("times", func(o *Object) { o.String("file", name).Null("entry") }, "no time index to use: from offset %d", s.Base())
		return s.Base()
	}
	e := x.Lookup(timestamp)
	n := sort.Search(x.Len(), func(i int) bool { return x.At(i).Timestamp > e.Timestamp }) - 1
	if n < 0 || x.At(n) != (timeindex.Entry{Timestamp: e.Timestamp, Offset: e.Offset}) {
		l.step("times", func(o *Object) { o.String("file", name).Int("entries", int64(x.Len())).Null("entry") },
			"no entry at or before that of %d: from offset %d", x.Len(), s.Base())
		return s.Base()
	}
	l.step("times", func(o *Object) {
		o.String("file", name).Int("entries", int64(x.Len())).Int("entry", int64(n)).Time("time", e.Timestamp).Int("entry_offset", e.Offset)
	}, "entry %d of %d: no record up to offset %d is later than %s", n, x.Len(), e.Offset, timeText(e.Timestamp))
	return e.Offset
}
