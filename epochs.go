package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// EpochEnd is where the records of a leader epoch end.
type EpochEnd struct {
	// Epoch is the largest epoch of the log that is not above the one asked for;
	// -1 when the epoch asked for is not known: it lies above all of them.
	Epoch int32
	// EndOffset is where the next epoch begins, or the log end; -1 with Epoch.
	EndOffset int64
}

// LeaderEpoch returns the epoch that appended batches are stamped with, or, in a
// log that is only replicated to, the latest there is.
func (l *Log) LeaderEpoch() int32 {
	l.append.Lock()
	defer l.append.Unlock()
	return l.append.epoch
}

// SetLeaderEpoch begins a leader epoch at the log end: batches are stamped with it
// from now on. A lower one than the present gives a *EpochError that matches
// ErrFencedLeaderEpoch. When it returns the epoch is on disk. (KIP-101)
func (l *Log) SetLeaderEpoch(epoch int32) error {
	l.append.Lock()
	defer l.append.Unlock()
	err := l.writableLocked()
	if err == nil {
		err = l.fenceLocked(&epoch, true)
	}
	if err == nil {
		err = l.assignEpochLocked(epoch, l.end.Load())
	}
	if err != nil {
		return fmt.Errorf("leader epoch %d: %w", epoch, named(err))
	}
	return nil
}

// EndOffsetForEpoch answers a follower that asks where an epoch ended, so that it
// can cut off what it has beyond that (KIP-101, KIP-279; OffsetsForLeaderEpoch).
func (l *Log) EndOffsetForEpoch(epoch int32) EpochEnd {
	l.append.Lock()
	epochs := l.epochs
	l.append.Unlock()
	e, offset := epochs.EndOffsetFor(epoch, l.end.Load())
	return EpochEnd{e, offset}
}

// fenceLocked compares the epoch that someone believes to be the present one.
func (l *Log) fenceLocked(epoch *int32, newer bool) error {
	switch {
	case epoch == nil || *epoch == l.append.epoch:
		return nil
	case *epoch < l.append.epoch:
		return &EpochError{Err: ErrFencedLeaderEpoch, Epoch: *epoch, Current: l.append.epoch}
	case !newer:
		return &EpochError{Err: ErrUnknownLeaderEpoch, Epoch: *epoch, Current: l.append.epoch}
	}
	return nil
}

// assignEpochLocked notes that the records from offset on are of epoch, on disk
// before any of them is written: a follower's truncation rests on it. It costs
// nothing if that is known, as it is for all but the first batch of an epoch.
func (l *Log) assignEpochLocked(epoch int32, offset int64) error {
	if latest, ok := l.epochs.Latest(); ok && latest.Epoch == epoch && latest.StartOffset <= offset && !l.append.epochsUnsaved {
		return nil
	}
	before := l.epochs.Entries()
	if _, err := l.epochs.Assign(epoch, offset); err != nil {
		return err
	}
	l.append.epochsUnsaved = true
	if err := l.epochs.Flush(l.opts.FS, l.epochPath()); err != nil {
		l.epochs.Restore(before) // the present epoch is the one before still
		return err
	}
	l.append.epochsUnsaved = false
	l.append.epoch = max(epoch, l.append.epoch)
	return nil
}

// knowsEpochsLocked reports whether a replicated set begins no epoch, as is the rule.
func (l *Log) knowsEpochsLocked(epochs epochsOf) bool {
	if len(epochs) == 0 {
		return true
	}
	latest, ok := l.epochs.Latest()
	return ok && len(epochs) == 1 && latest.Epoch == epochs[0].Epoch && latest.StartOffset < l.end.Load() && !l.append.epochsUnsaved
}

// takeBackEpochsLocked is for a set that could not be written.
func (l *Log) takeBackEpochsLocked(before []leaderepoch.Entry, epoch int32) {
	l.epochs.Restore(before)
	l.append.epoch = epoch
	l.append.epochsUnsaved = l.epochs.Flush(l.opts.FS, l.epochPath()) != nil
}

// saveEpochsLocked puts changed epochs on disk, on a full one later: the next append
// tries again. append is held.
func (l *Log) saveEpochsLocked() error {
	l.append.epochsUnsaved = l.append.epochsUnsaved || l.epochs.Dirty()
	if !l.append.epochsUnsaved {
		return nil
	}
	err := l.epochs.Flush(l.opts.FS, l.epochPath())
	l.append.epochsUnsaved = err != nil
	if vfs.IsNoSpace(err) {
		return nil
	}
	return err
}

func (l *Log) epochPath() string { return filepath.Join(l.dir, layout.LeaderEpochCheckpointName) }

// epochsOf are the epochs of a set of batches, and where each begins.
type epochsOf []leaderepoch.Entry

func (e epochsOf) with(b record.Batch) epochsOf {
	if epoch := b.LeaderEpoch(); epoch >= 0 && (len(e) == 0 || epoch != e[len(e)-1].Epoch) {
		return append(e, leaderepoch.Entry{Epoch: epoch, StartOffset: b.BaseOffset()})
	}
	return e
}

// readEpochs reads what is known of leader epochs. If the file is lost or damaged
// collectEpochs makes it anew, unless the log is read-only; a damaged one is kept under
// another name.
func (l *Log) readEpochs() error {
	entries, err := leaderepoch.ReadFile(l.opts.FS, l.epochPath())
	// A crash may leave an empty file of a broker.
	lost := err != nil || len(entries) == 0
	damaged := errors.Is(err, checkpoint.ErrCorrupt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !damaged {
		return err
	}
	if l.epochs, err = leaderepoch.New(entries); err != nil {
		lost, damaged = true, true
		if l.epochs, err = leaderepoch.New(nil); err != nil {
			return err
		}
	}
	if l.opts.ReadOnly {
		return nil
	}
	l.append.epochsLost = lost
	if damaged {
		return l.putAside(l.epochPath())
	}
	return nil
}

// collectEpochs finds lost epochs in the headers of the batches.
func (l *Log) collectEpochs(segments []*segment.Segment) error {
	if !l.append.epochsLost {
		return nil
	}
	for _, s := range segments {
		if err := l.acquire(s); err != nil {
			return err
		}
		err := s.Headers(func(h record.Summary) { l.noteEpoch(h.LeaderEpoch, h.BaseOffset, h.LastOffset) })
		s.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// noteEpoch takes in a batch that is in the log (LogSegment.recover). One below the log
// start, whose file is still there, is not: a log of which all was deleted forgets its
// epochs, and what was written then may be of a lower one.
func (l *Log) noteEpoch(epoch int32, first, last int64) {
	if latest, ok := l.epochs.Latest(); epoch >= 0 && last >= l.state.LogStartOffset && (!ok || epoch > latest.Epoch) {
		l.epochs.Assign(epoch, first) // neither is negative
	}
}

// settleEpochs fits the epochs to the log once its bounds are known, and begins the
// one that Options ask for. On a full disk that is done by the first append.
func (l *Log) settleEpochs(start, end int64) error {
	l.append.epoch = max(l.append.epoch, l.opts.LeaderEpoch)
	if !l.opts.Replicated {
		l.raiseEpoch()
	}
	// In this order an empty log has no epochs, whether they were read or collected.
	l.epochs.TruncateFromStart(start)
	l.epochs.TruncateFromEnd(end)
	l.raiseEpoch()
	if l.opts.ReadOnly {
		return nil
	}
	if err := l.beginEpoch(end); err != nil {
		return err
	}
	return l.saveEpochsLocked()
}

// raiseEpoch makes the present epoch the latest that is listed.
func (l *Log) raiseEpoch() {
	if latest, ok := l.epochs.Latest(); ok {
		l.append.epoch = max(l.append.epoch, latest.Epoch)
	}
}

// beginEpoch has the present epoch go on at the log end, when the log was opened or
// truncated. In a lone log one that was begun counts, even if nothing was written in
// it. With replicas it does not: a follower that asks its leader about an epoch of
// which it has no record does not learn what it must cut off (KIP-101).
func (l *Log) beginEpoch(end int64) error {
	if l.opts.Replicated {
		return nil
	}
	_, err := l.epochs.Assign(l.append.epoch, end)
	return err
}
