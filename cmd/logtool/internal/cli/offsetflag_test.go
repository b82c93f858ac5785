package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// bounds is a log that holds [10, 110); the record at offset n has timestamp n.
type bounds struct{}

func (bounds) Offsets() seglog.Offsets { return seglog.Offsets{Start: 10, Durable: 110, End: 110} }

func (bounds) OffsetForTime(ts int64) (seglog.TimestampOffset, bool, error) {
	switch {
	case ts == 13:
		return seglog.TimestampOffset{}, false, errors.New("disk")
	case ts >= 110:
		return seglog.TimestampOffset{}, false, nil
	}
	return seglog.TimestampOffset{Timestamp: max(ts, 10), Offset: max(ts, 10)}, true, nil
}

func TestOffsetsAreWrittenInManyWays(t *testing.T) {
	now := time.UnixMilli(2*3600*1000 + 50)
	for _, tt := range []struct {
		text  string
		want  int64
		found bool
	}{
		{"start", 10, true},
		{"end", 110, true},
		{"0", 0, true},
		{"12", 12, true},
		{"9223372036854775807", 1<<63 - 1, true},
		{"-1", 109, true},
		{"-100", 10, true},
		{"-1000", 10, true},
		{"-9223372036854775807", 10, true},
		{"-0", 110, true},
		{"@50", 50, true},
		{"@0", 10, true},
		{"@1970-01-01", 10, true},
		{"@1970-01-01T00:00:00.042Z", 42, true},
		{"@1970-01-01T01:00:00.042+01:00", 42, true},
		{"@-2h", 50, true},
		{"@1970-01-02", 110, false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			f, err := parseOffset(tt.text, now)
			require.NoError(t, err)
			require.True(t, f.IsSet())
			at, found, err := f.Resolve(bounds{})
			require.NoError(t, err)
			require.Equal(t, tt.want, at)
			require.Equal(t, tt.found, found)
		})
	}
}

func TestOffsetsThatAreNoneAreRefused(t *testing.T) {
	for _, text := range []string{"", "x", "begin", "1.5", "+1", "--1", "0x10", "1e3", " 1", "9223372036854775808",
		"-9223372036854775808", "@", "@yesterday", "@2h", "@2026-13-01", "@-2", "@+5"} {
		_, err := parseOffset(text, time.Now())
		require.Error(t, err, "%q", text)
	}
}

func TestErrorsOfLookingUpATimeAreReturned(t *testing.T) {
	f, err := parseOffset("@13", time.Time{})
	require.NoError(t, err)
	_, _, err = f.Resolve(bounds{})
	require.ErrorContains(t, err, "find @13: disk")
}

func TestRangesAreCutToTheLog(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		wantFrom, want int64
		outside        bool
	}{
		{name: "nothing given", wantFrom: 10, want: 110},
		{name: "from only", from: "20", wantFrom: 20, want: 110},
		{name: "to beyond the end", to: "9999", wantFrom: 10, want: 110},
		{name: "from at the end", from: "110", wantFrom: 110, want: 110},
		{name: "to below from", from: "50", to: "20", wantFrom: 50, want: 20},
		{name: "from beyond the end", from: "111", outside: true},
		{name: "from below the start", from: "9", outside: true},
		{name: "from the end on", from: "-5", to: "end", wantFrom: 105, want: 110},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Range
			for text, f := range map[string]*OffsetFlag{tt.from: &r.From, tt.to: &r.To} {
				if text != "" {
					require.NoError(t, newOffsetFlag(f, time.Now).Set(text))
				}
			}
			from, to, err := r.Resolve(bounds{})
			if tt.outside {
				require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
				return
			}
			require.NoError(t, err)
			require.Equal(t, [2]int64{tt.wantFrom, tt.want}, [2]int64{from, to})
		})
	}
}

// Properties: never panics; what parses resolves to an offset of the log, or is
// the number that was written.
func FuzzOffset(f *testing.F) {
	for _, text := range []string{"start", "end", "0", "-1", "@0", "@2026-09-01", "@-2h", "@2026-09-01T00:00:00Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseOffset(text, time.UnixMilli(0))
		if err != nil {
			return
		}
		at, _, err := o.Resolve(bounds{})
		if err == nil && o.base != absolute {
			require.GreaterOrEqual(t, at, int64(10))
			require.LessOrEqual(t, at, int64(110))
		}
	})
}
