package logtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seglog/seglog"
)

// Claims are what a model says of its log at one moment.
type Claims struct {
	attempts []claim
	start    int64 // below it nothing needs to be there
	started  int64 // below it nothing is there, until a power loss
	index    *offsetIndex
}

// claim is what is known of a batch.
type claim struct {
	records []seglog.Record
	base    int64 // or Anywhere
	written bool  // the append has returned without an error
	durable bool  // and the records are on disk
	refused bool  // it has failed in a way that leaves nothing behind
	settled bool  // and what it had left was synced away
	cut     bool  // a truncation under way, or one that failed, may have taken it
	of      *Attempt
}

// last is the last offset of a batch whose base offset is known.
func (c *claim) last() int64 { return c.base + int64(len(c.records)) - 1 }

// until returns the claims that hold whenever between two moments a disk was
// copied: these at the first, and later ones.
func (c Claims) until(later Claims) Claims {
	then := make(map[*Attempt]*claim, len(later.attempts))
	for i := range later.attempts {
		then[later.attempts[i].of] = &later.attempts[i]
	}
	both := Claims{start: max(c.start, later.start), started: min(c.started, later.started), index: new(offsetIndex)}
	for _, a := range c.attempts {
		if l := then[a.of]; l == nil {
			a.written, a.durable, a.cut = false, false, true // truncated away meanwhile
		} else {
			a.base = l.base
			a.cut = a.cut || l.cut
			a.written = a.written && l.written
			a.durable = a.durable && l.durable
			delete(then, a.of)
		}
		both.attempts = append(both.attempts, a)
	}
	for _, a := range later.attempts {
		if then[a.of] != nil {
			a.written, a.durable, a.refused, a.settled = false, false, false, false
			both.attempts = append(both.attempts, a)
		}
	}
	return both
}

// AfterPowerLoss compares a log that was opened on a disk that lost power. Every
// record that was durable is there. Each that is there was appended, with that key,
// value, headers and timestamp and at that offset; with it are all of its batch and
// all that was written before it. Looking up by offset and by time finds it.
func (c Claims) AfterPowerLoss(ctx context.Context, log *seglog.Log) error {
	return c.without(func(a claim) bool { return a.settled }).check(ctx, log, func(a *claim) bool { return a.durable })
}

// without leaves out attempts of which nothing may be there.
func (c Claims) without(gone func(claim) bool) Claims {
	c.attempts = slices.DeleteFunc(slices.Clone(c.attempts), gone)
	c.index = new(offsetIndex)
	return c
}

// AfterKill compares a log that was opened after its process was killed. It is
// AfterPowerLoss, and beyond that every record whose append had returned is there,
// and none whose append had failed or that had been removed.
func (c Claims) AfterKill(ctx context.Context, log *seglog.Log) error {
	if start := log.Offsets().Start; start < c.started {
		return fmt.Errorf("the log starts at offset %d, and had started at %d", start, c.started)
	}
	return c.without(func(a claim) bool { return a.refused }).check(ctx, log, func(a *claim) bool { return a.written })
}

func (c Claims) check(ctx context.Context, log *seglog.Log, must func(*claim) bool) error {
	found, err := c.find(ctx, log)
	if err != nil {
		return err
	}
	for i := range c.attempts {
		if err := c.compare(&c.attempts[i], found, must(&c.attempts[i])); err != nil {
			return err
		}
	}
	return found.lookUp(log)
}

// compare looks for a batch among what was found.
func (c Claims) compare(a *claim, found survivors, must bool) error {
	_, there := found.bases[a.of]
	known := a.base != Anywhere
	must = must && !(known && a.last() < c.start)
	switch {
	case must && known && found.Start > max(a.base, c.start):
		return fmt.Errorf("the log starts at offset %d, and %s must be there", found.Start, a.what())
	case must && !there:
		return fmt.Errorf("%s must be there", a.what())
	case !there && known && a.written && a.last() >= found.Start && a.last() < found.last():
		return fmt.Errorf("there is offset %d, and not %s before it", found.last(), a.what())
	}
	return nil
}

// what names the batch in a message.
func (c *claim) what() string {
	if c.base == Anywhere {
		return fmt.Sprintf("a batch that begins with %s", short(c.records[0]))
	}
	return fmt.Sprintf("the batch of offsets %d to %d", c.base, c.last())
}

// survivors are what a log was found to hold.
type survivors struct {
	seglog.Offsets
	records []seglog.Record
	bases   map[*Attempt]int64 // base offset of each batch that is there
}

// last is the last offset there is, -1 if there is none.
func (s *survivors) last() int64 {
	if len(s.records) == 0 {
		return -1
	}
	return s.records[len(s.records)-1].Offset
}

// find reads a log and tells for each record which batch it is of.
func (c Claims) find(ctx context.Context, log *seglog.Log) (survivors, error) {
	s := survivors{Offsets: log.Offsets(), bases: map[*Attempt]int64{}}
	for r, err := range log.Records(ctx, s.Start, nil) {
		if err != nil {
			return s, err
		}
		if r.Offset <= s.last() {
			return s, fmt.Errorf("offset %d comes after %d", r.Offset, s.last())
		}
		s.records = append(s.records, r.Clone())
	}
	for i := range s.records {
		if err := c.identify(&s, i); err != nil {
			return s, err
		}
	}
	return s, nil
}

// identify finds the batches that record i may be of: one that was refused and
// tried again is there twice.
func (c Claims) identify(s *survivors, i int) error {
	r := s.records[i]
	known, unknown := c.index.of(c.attempts, r.Offset)
	whole, part := false, false
	try := func(a *claim, base int64) {
		switch {
		case base < 0 || !same(a.records[r.Offset-base], r):
		case s.whole(a, base):
			s.bases[a.of] = base
			whole = true
		default:
			part = true
		}
	}
	for _, a := range known {
		try(a, a.base)
	}
	for _, a := range unknown {
		for at := range a.records {
			try(a, r.Offset-int64(at))
		}
	}
	switch {
	case whole:
		return nil
	case part:
		return fmt.Errorf("offset %d holds %s, and the rest of its batch is missing", r.Offset, short(r))
	}
	return fmt.Errorf("offset %d holds %s, which was never appended there", r.Offset, short(r))
}

// whole reports whether all records of a batch are there, but for those below the
// log start, and, if a truncation has failed, above the log end.
func (s *survivors) whole(a *claim, base int64) bool {
	for i, want := range a.records {
		offset := base + int64(i)
		if offset < s.Start || a.cut && offset >= s.End {
			continue
		}
		at, ok := slices.BinarySearchFunc(s.records, offset, func(r seglog.Record, o int64) int { return cmp.Compare(r.Offset, o) })
		if !ok || !same(want, s.records[at]) {
			return false
		}
	}
	return true
}

// lookUp finds the records by their offsets and times, as far as those are the
// newest so far.
func (s *survivors) lookUp(log *seglog.Log) error {
	newest := int64(-1)
	for _, r := range s.records {
		if r.Timestamp <= newest {
			continue
		}
		newest = r.Timestamp
		got, err := log.Get(r.Offset)
		if err != nil {
			return err
		}
		if got.Timestamp != r.Timestamp || !same(r, got) {
			return fmt.Errorf("offset %d holds %s when it is looked up, and %s when all are read", r.Offset, short(got), short(r))
		}
		at, ok, err := log.OffsetForTime(r.Timestamp)
		if err != nil {
			return err
		}
		if want := (seglog.TimestampOffset{Timestamp: r.Timestamp, Offset: r.Offset}); !ok || at != want {
			return fmt.Errorf("time %d leads to %+v, %v, and the first record at or after it is at offset %d", r.Timestamp, at, ok, r.Offset)
		}
	}
	return nil
}

// same compares what was appended with what was found.
func same(appended, found seglog.Record) bool {
	return sameBytes(appended.Key, found.Key) && sameBytes(appended.Value, found.Value) &&
		(appended.Timestamp == 0 || appended.Timestamp == found.Timestamp) &&
		slices.EqualFunc(appended.Headers, found.Headers, func(a, b seglog.Header) bool {
			return a.Key == b.Key && sameBytes(a.Value, b.Value)
		})
}

// sameBytes tells null from empty, as the format does.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// short is a record in a message.
func short(r seglog.Record) string {
	const most = 40
	if len(r.Value) > most {
		return fmt.Sprintf("%q... (%d bytes)", r.Value[:most], len(r.Value))
	}
	return fmt.Sprintf("%q", r.Value)
}

// offsetIndex finds claims by offset. It is made when first used, since many disks
// are compared with the same claims.
type offsetIndex struct {
	once     sync.Once
	byOffset map[int64][]*claim
	anywhere []*claim
}

func (x *offsetIndex) of(attempts []claim, offset int64) (known, unknown []*claim) {
	x.once.Do(func() {
		x.byOffset = map[int64][]*claim{}
		for i := range attempts {
			a := &attempts[i]
			if a.base == Anywhere {
				x.anywhere = append(x.anywhere, a)
				continue
			}
			for o := a.base; o <= a.last(); o++ {
				x.byOffset[o] = append(x.byOffset[o], a)
			}
		}
	})
	return x.byOffset[offset], x.anywhere
}
