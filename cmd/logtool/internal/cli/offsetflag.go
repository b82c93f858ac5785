package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
)

// OffsetFlag is a place in a log as it is written on the command line:
//
//	start     the log start offset
//	end       the log end offset
//	12345     that offset
//	-100      the log end offset less 100, but not below the start
//	@TIME     the first record at or after a time, see parseTime
//
// The zero value says nothing.
type OffsetFlag struct {
	text string
	base offsetBase
	n    int64 // the offset, how far from the end, or milliseconds since 1970
}

type offsetBase uint8

const (
	unset offsetBase = iota
	absolute
	fromStart
	fromEnd
	atTime
)

const offsetSyntax = "want start, end, an offset, -N from the end, or @TIME"

// newOffsetFlag returns a pflag.Value that sets f; now is for times such as -2h.
func newOffsetFlag(f *OffsetFlag, now func() time.Time) *offsetValue { return &offsetValue{f, now} }

type offsetValue struct {
	*OffsetFlag
	now func() time.Time
}

func (v *offsetValue) Set(s string) error {
	f, err := parseOffset(s, v.now())
	if err == nil {
		*v.OffsetFlag = f
	}
	return err
}

func (v *offsetValue) String() string { return v.text }
func (v *offsetValue) Type() string   { return "OFFSET" }

func parseOffset(s string, now time.Time) (OffsetFlag, error) {
	switch {
	case s == "start":
		return OffsetFlag{text: s, base: fromStart}, nil
	case s == "end":
		return OffsetFlag{text: s, base: fromEnd}, nil
	case strings.HasPrefix(s, "@"):
		ms, err := parseTime(s[1:], now)
		return OffsetFlag{text: s, base: atTime, n: ms}, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strings.HasPrefix(s, "+") || n == math.MinInt64 {
		return OffsetFlag{}, errors.New(offsetSyntax)
	}
	if strings.HasPrefix(s, "-") {
		return OffsetFlag{text: s, base: fromEnd, n: -n}, nil
	}
	return OffsetFlag{text: s, base: absolute, n: n}, nil
}

// parseTime reads a time: RFC 3339, a date (its first moment, UTC), milliseconds
// since 1970, or how long ago, such as -2h.
func parseTime(s string, now time.Time) (int64, error) {
	if ms, err := strconv.ParseUint(s, 10, 63); err == nil {
		return int64(ms), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && strings.HasPrefix(s, "-") {
		return now.Add(d).UnixMilli(), nil
	}
	return 0, errors.New("want a time: RFC 3339, a date, milliseconds since 1970, or how long ago, such as -2h")
}

// IsSet reports whether the flag was given.
func (f OffsetFlag) IsSet() bool { return f.base != unset }

// An offsetSource is what a place can be found in; *seglog.Log is one.
type offsetSource interface {
	Offsets() seglog.Offsets
	OffsetForTime(timestamp int64) (seglog.TimestampOffset, bool, error)
}

// Resolve returns the offset that f means in a log. found is false for a time
// behind the last record; the offset is the log end then. An absolute offset is
// returned as it is, wherever the log begins and ends.
func (f OffsetFlag) Resolve(log offsetSource) (offset int64, found bool, err error) {
	bounds := log.Offsets()
	switch f.base {
	case fromStart:
		return bounds.Start, true, nil
	case fromEnd:
		// The start may be above 0 and the end below n.
		return max(bounds.Start, bounds.End-min(f.n, bounds.End)), true, nil
	case atTime:
		// Before 1970 there is no record, and negative numbers mean something else.
		at, found, err := log.OffsetForTime(max(f.n, 0))
		if err != nil {
			return 0, false, fmt.Errorf("find %s: %w", f.text, err)
		}
		if !found {
			return bounds.End, false, nil
		}
		return at.Offset, true, nil
	default:
		return f.n, true, nil
	}
}

// Range is the flags --from and --to: the offsets from the one up to but without
// the other.
type Range struct{ From, To OffsetFlag }

// AddFlags adds --from and --to to a command.
func (r *Range) AddFlags(cmd *cobra.Command, now func() time.Time) {
	cmd.Flags().Var(newOffsetFlag(&r.From, now), "from", "begin there: start, end, N, -N from the end, or @TIME")
	cmd.Flags().Var(newOffsetFlag(&r.To, now), "to", "stop before, written as for --from")
	completeFlag(cmd, "from", "start", "end")
	completeFlag(cmd, "to", "start", "end")
}

// IsSet reports whether either flag was given.
func (r *Range) IsSet() bool { return r.From.IsSet() || r.To.IsSet() }

// onlyAbsolute reports whether the flags, as far as they were given, are plain
// offsets: they mean the same wherever the log begins and ends.
func (r *Range) onlyAbsolute() bool {
	plain := func(f OffsetFlag) bool { return f.base == unset || f.base == absolute }
	return plain(r.From) && plain(r.To)
}

// absolute returns plain offsets, and what is given for a flag that is not set.
func (r *Range) absolute(from, to int64) (int64, int64) {
	if r.From.IsSet() {
		from = r.From.n
	}
	if r.To.IsSet() {
		to = r.To.n
	}
	return from, to
}

// Resolve returns [from, to): the whole log unless the flags say otherwise. An
// absolute from outside of the log is a *seglog.OffsetError; to may be anything
// and is cut to the log end.
func (r *Range) Resolve(log offsetSource) (from, to int64, err error) {
	bounds := log.Offsets()
	from, to = bounds.Start, bounds.End
	if r.From.IsSet() {
		if from, _, err = r.From.Resolve(log); err != nil {
			return 0, 0, err
		}
	}
	if r.To.IsSet() {
		if to, _, err = r.To.Resolve(log); err != nil {
			return 0, 0, err
		}
	}
	if from < bounds.Start || from > bounds.End {
		return 0, 0, &seglog.OffsetError{Offset: from, Start: bounds.Start, End: bounds.End}
	}
	return from, min(to, bounds.End), nil
}
