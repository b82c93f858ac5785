package seglog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// Events are functions a log calls when something happens that its operator may
// want to know. Any may be nil. They may be called from several goroutines at a
// time, block for a while without holding up appends, and use the log; but they
// must not close it.
type Events struct {
	// Opened is called at the end of Open with what was found and done.
	Opened func(Recovery)
	// Sealed is called after a segment was sealed and everything below next,
	// the base offset of the segment behind it, is on disk. Of several that are sealed
	// in quick succession it is called for the last.
	Sealed func(next int64)
	// Removed is called after segments were removed by DeleteBefore, whose files may
	// still be about to go, or ApplyRetention.
	Removed func(RetentionResult)
	// Compacted is called after Compact has replaced segments, with its result so far if
	// it failed.
	Compacted func(CompactResult)
	// LateTransaction is called once for a transaction that has been silent for
	// five minutes longer than Options.TransactionMaxTimeout, within a minute. Nobody is
	// going to end it; see Log.AbortTransaction.
	LateTransaction func(Transaction)
	// Failed is called once, when the log enters the failed state.
	Failed func(cause error)
	// Damaged is called when reading meets damage, but not while it is being
	// called already.
	Damaged func(*CorruptionError)
}

func (l *Log) logger() *slog.Logger {
	if l.opts.Logger != nil {
		return l.opts.Logger.With("log", l.dir)
	}
	return slog.New(slog.DiscardHandler)
}

func (l *Log) tellOpened() {
	r := &l.recovery
	level := slog.LevelInfo
	lost := slices.ContainsFunc(r.Cut, func(c Cut) bool { return !c.Zeros })
	if lost || len(r.SetAside)+len(r.Damaged)+len(r.Missing) > 0 || r.Restarted || r.StateLost {
		level = slog.LevelWarn
	}
	attrs := []any{"clean", r.Clean, "scanned_segments", r.Scanned, "start", l.start.Load(), "end", l.end.Load()}
	for _, c := range r.Cut {
		attrs = append(attrs, "cut", c.String())
	}
	for _, err := range r.Damaged {
		attrs = append(attrs, "damaged", err.Error())
	}
	for _, m := range r.Missing {
		attrs = append(attrs, "missing", m.String())
	}
	if r.StateLost {
		attrs = append(attrs, "state_lost", true)
	}
	if len(r.SetAside) > 0 {
		attrs = append(attrs, "set_aside", r.SetAside)
	}
	l.logger().Log(context.Background(), level, "opened", attrs...)
	if f := l.opts.Events.Opened; f != nil {
		f(*r)
	}
}

func (l *Log) tellSealed(next int64) {
	l.logger().Debug("sealed a segment", "next", next)
	if f := l.opts.Events.Sealed; f != nil {
		f(next)
	}
}

func (l *Log) tellRemoved(r RetentionResult) {
	if r.Segments == 0 {
		return
	}
	l.logger().Info("removed segments", "segments", r.Segments, "bytes", r.Bytes, "start", r.Start)
	if f := l.opts.Events.Removed; f != nil {
		f(r)
	}
}

// tellHeld tells, once, of a timestamp in the future that holds up retention. maintain
// is held.
func (l *Log) tellHeld(by *TimestampOffset) {
	if by == nil || *by == l.heldBy {
		return
	}
	l.heldBy = *by
	l.logger().Warn("old segments are held by a time in the future", "offset", by.Offset, "until", time.UnixMilli(by.Timestamp).UTC())
}

func (l *Log) tellCompacted(r CompactResult, dryRun bool, err error) {
	if dryRun || r.Passes == 0 {
		return
	}
	attrs := []any{"passes", r.Passes, "first_dirty", r.FirstDirty, "read_bytes", r.Read.Bytes, "kept_bytes", r.Kept.Bytes,
		"read_records", r.Read.Records, "kept_records", r.Kept.Records, "elapsed", r.Elapsed}
	if err != nil {
		l.logger().Warn("compaction has ended early", append(attrs, "cause", err)...)
	} else {
		l.logger().Info("compacted", attrs...)
	}
	if f := l.opts.Events.Compacted; f != nil && len(r.Segments) > 0 {
		f(r)
	}
}

func (l *Log) tellFailed(cause error) {
	l.logger().Error("log failed, it must be opened again to write", "cause", cause)
	if f := l.opts.Events.Failed; f != nil {
		f(cause)
	}
}

// warnOfLateTransactionLocked looks at the oldest transaction. append is held.
func (l *Log) warnOfLateTransactionLocked() {
	if _, unstable := l.append.producers.FirstUnstableOffset(); !unstable {
		return // as after most appends, which need not look at the clock
	}
	if l.append.closed || !l.append.producers.HasLateTransaction(time.Now().UnixMilli()) {
		return
	}
	for t := range l.append.producers.OpenTransactions() {
		if l.append.late != t.FirstOffset {
			l.append.late = t.FirstOffset
			l.background.Go(func() { l.tellLate(transactionOf(t)) })
		}
		return
	}
}

func (l *Log) tellLate(t Transaction) {
	l.logger().Warn("transaction is not being ended", "producer", t.ProducerID, "epoch", t.ProducerEpoch, "first_offset", t.FirstOffset)
	if f := l.opts.Events.LateTransaction; f != nil {
		f(t)
	}
	if l.owner == nil {
		return
	}
	if f := l.owner.dir.opts.Events.LateTransaction; f != nil {
		f(l.owner.topic, l.owner.partition, t)
	}
}

// watchForLateTransactions is for a log that has no Dir to look for them.
func (l *Log) watchForLateTransactions() {
	ticker := time.NewTicker(transactionCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.watchTransactions()
		case <-l.stop:
			return
		}
	}
}

// watchTransactions tells of a late transaction that nobody's appends bring to light.
func (l *Log) watchTransactions() {
	l.append.Lock()
	defer l.append.Unlock()
	if l.append.producers != nil {
		l.warnOfLateTransactionLocked()
	}
}

// hasLateTransaction reports whether readers of committed records wait for a
// transaction that nobody is going to end.
func (l *Log) hasLateTransaction() bool {
	l.append.Lock()
	defer l.append.Unlock()
	return l.append.producers != nil && l.append.producers.HasLateTransaction(time.Now().UnixMilli())
}

// tellDamaged passes err on, and tells of it if it is damage.
func (l *Log) tellDamaged(err error) error {
	var damage *CorruptionError
	if errors.As(err, &damage) {
		l.logger().Warn("damage in the log", "cause", damage)
		// TryLock: a function that reads may meet the same damage.
		if f := l.opts.Events.Damaged; f != nil && l.telling.TryLock() {
			defer l.telling.Unlock()
			f(damage)
		}
	}
	return err
}
