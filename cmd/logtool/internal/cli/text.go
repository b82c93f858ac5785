package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seglog/seglog/record"
)

const (
	timeMillis  = "2006-01-02T15:04:05.000Z07:00"
	timeSeconds = "2006-01-02T15:04:05Z07:00"
)

// plainTime reports whether milliseconds since 1970 can be written as RFC 3339,
// which has four digits for the year.
func plainTime(ms int64) bool {
	const first, end = -62135596800000, 253402300800000 // years 1 and 10000
	return first <= ms && ms < end
}

// timeText is a timestamp for people, to the millisecond. None is "-".
func timeText(ms int64) string { return formatTime(ms, timeMillis) }

// timeTextSeconds is timeText to the second.
func timeTextSeconds(ms int64) string { return formatTime(ms, timeSeconds) }

func formatTime(ms int64, layout string) string {
	switch {
	case ms == record.NoTimestamp:
		return "-"
	case !plainTime(ms):
		return strconv.FormatInt(ms, 10)
	default:
		return time.UnixMilli(ms).UTC().Format(layout)
	}
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		tenths := (n>>10*10 + 1<<9) >> 10
		return commas(tenths/10) + "." + strconv.FormatInt(tenths%10, 10) + " MiB"
	}
}

// commas is a number with its thousands parted.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// plural is "1 segment", "2 segments", "1,234 batches".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return commas(n) + " " + many
}

// quoted is stored bytes for people: in quotes with everything escaped that is
// not to be seen, null without quotes, and cut after max bytes if max is not 0.
func quoted(b []byte, max int) string {
	if b == nil {
		return "null"
	}
	if max > 0 && len(b) > max {
		cut := max
		for cut > max-utf8.UTFMax && !utf8.RuneStart(b[cut]) {
			cut--
		}
		return fmt.Sprintf("%s... (%s)", strconv.Quote(string(b[:cut])), sizeText(int64(len(b))))
	}
	return strconv.Quote(string(b))
}

// visible is text for a terminal, in which something may be from a file, or the name of
// one: what would move the cursor, or is not to be seen, is escaped as in a Go string.
func visible(s string) string { return escape(s, "") }

// visibleLines is visible for text of several lines.
func visibleLines(s string) string { return escape(s, "\n\t") }

func escape(s, except string) string {
	shown := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(except, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !shown(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r != utf8.RuneError && shown(r) || r == utf8.RuneError && n > 1 {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
