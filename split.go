package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// split replaces a segment some of whose offsets do not fit 32 bits above its
// base, as brokers before 1.1 wrote them (KIP-263), by segments in which they
// do: the same batches byte for byte, with fresh indexes. It is Kafka's
// LocalLog.splitOverflowedSegment, with the same steps, so that a crash at any
// point leaves what judge understands. It returns the base offsets of the new
// segments.
func (l *Log) split(s *segment.Segment) ([]int64, error) {
	bases, damage, err := l.splitInto(s, layout.CleanedSuffix)
	if err != nil {
		return nil, fmt.Errorf("split segment %d: %w", s.Base(), err)
	}
	dispose := s.Remove
	if damage != nil {
		dispose = func() error { return l.setAside(s) }
	}
	if err := l.replace(bases, dispose); err != nil {
		return nil, fmt.Errorf("split segment %d: %w", s.Base(), err)
	}
	l.recovery.Split = append(l.recovery.Split, s.Base())
	return bases, nil
}

// splitInto copies the batches of s, up to the first damage if there is any, to
// new segments whose file names end in suffix. The first has the base offset of s,
// even if nothing fits it: files are replaced by their names, and a crash may leave
// those of s beside the new ones.
func (l *Log) splitInto(s *segment.Segment, suffix string) (bases []int64, damage, err error) {
	if err := s.Acquire(); err != nil {
		return nil, nil, err
	}
	defer s.Release()
	out, err := l.createPart(s.Base(), suffix)
	if err != nil {
		return nil, nil, err
	}
	bases = []int64{s.Base()}
	aborted, err := abortedOf(s)
	if err != nil {
		return nil, nil, errors.Join(err, out.Retire())
	}
	var c segment.Scanner
	c.Reset(s, 0, s.View().Size)
	for {
		b, err := c.Checked()
		if errors.Is(err, ErrCorrupt) {
			damage = err
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && !out.Fits(b.LastOffset()) {
			if err = finish(out, aborted, b.BaseOffset()); err == nil {
				out, err = l.createPart(b.BaseOffset(), suffix)
				bases = append(bases, b.BaseOffset())
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if err := out.Append(setOf(b)); err != nil {
			return nil, nil, errors.Join(err, out.Retire())
		}
		c.Advance()
	}
	return bases, damage, finish(out, aborted, math.MaxInt64)
}

func (l *Log) createPart(base int64, suffix string) (*segment.Segment, error) {
	o := l.segmentOptions()
	o.Suffix = suffix
	return segment.Create(l.dir, base, o)
}

func setOf(b record.Batch) segment.Set {
	return segment.Set{
		Bytes: b.Bytes(), LastOffset: b.LastOffset(),
		MaxTimestamp: b.MaxTimestamp(), OffsetOfMaxTimestamp: b.LastOffset(),
	}
}

// abortedList is the aborted transactions of a segment, if it is known which.
type abortedList struct {
	txns []segment.AbortedTxn
	lost bool
}

func abortedOf(s *segment.Segment) (abortedList, error) {
	txns, _, err := s.Aborted(nil, 0, math.MaxInt64)
	if errors.Is(err, segment.ErrUnlisted) {
		return abortedList{lost: true}, nil
	}
	return abortedList{txns: txns}, err
}

// finish makes a written segment, which ends below upper, durable and closes it.
// Of the aborted transactions it has those whose markers it holds; a lost list stays
// lost, and is made from the log when it is needed.
func finish(s *segment.Segment, aborted abortedList, upper int64) error {
	if aborted.lost {
		return errors.Join(s.Sync(), s.Retire(), s.ForgetAborted())
	}
	for _, t := range aborted.txns {
		if t.LastOffset >= s.Base() && t.LastOffset < upper {
			if err := s.NoteAborted(t); err != nil {
				return errors.Join(err, s.Retire())
			}
		}
	}
	return errors.Join(s.Sync(), s.SyncAborted(), s.Retire())
}

// replace puts .cleaned segments of the given bases in the place of old ones,
// which dispose removes.
// The order of the renames is what makes it atomic. From the last segment down
// .cleaned becomes .swap: while one .cleaned is left the old files count. Once
// all are .swap the new ones do, and replace every file in their range. Kafka:
// LocalLog.replaceSegments.
func (l *Log) replace(bases []int64, dispose func() error) error {
	if err := l.commitSwap(bases); err != nil {
		return err
	}
	if err := dispose(); err != nil {
		return err
	}
	// A .swap log replaces all files in its range, those of .swap logs before and
	// behind it included. So logs get their last names one after the other, and
	// indexes theirs when all logs have.
	for _, base := range bases {
		if err := l.renameSegment(base, layout.Swap, layout.Live, layout.Log); err != nil {
			return err
		}
		if err := l.opts.FS.SyncDir(l.dir); err != nil {
			return err
		}
	}
	for _, base := range bases {
		if err := l.renameSegment(base, layout.Swap, layout.Live, segmentKinds[1:]...); err != nil {
			return err
		}
	}
	return l.opts.FS.SyncDir(l.dir)
}

// commitSwap makes .cleaned segments .swap ones, durably: from then on they count.
func (l *Log) commitSwap(bases []int64) error {
	for i, base := range slices.Backward(bases) {
		// A crash must not take the .cleaned files that tell a round under way: not
		// before the first of it is renamed, and those of the first segment not
		// before all others are.
		if i == 0 || i == len(bases)-1 {
			if err := l.opts.FS.SyncDir(l.dir); err != nil {
				return err
			}
		}
		if err := l.renameSegment(base, layout.Cleaned, layout.Swap, segmentKinds...); err != nil {
			return err
		}
	}
	return l.opts.FS.SyncDir(l.dir)
}

// segmentKinds are the files of a segment, in the order in which Kafka renames
// them.
var segmentKinds = []layout.Kind{layout.Log, layout.OffsetIndex, layout.TimeIndex, layout.TxnIndex}

func (l *Log) renameSegment(base int64, from, to layout.State, kinds ...layout.Kind) error {
	for _, kind := range kinds {
		err := l.opts.FS.Rename(
			filepath.Join(l.dir, layout.SegmentFileName(kind, base, from)),
			filepath.Join(l.dir, layout.SegmentFileName(kind, base, to)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
