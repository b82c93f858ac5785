package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesAreForPeople(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1024.0 KiB", 1 << 20: "1.0 MiB",
		67104402: "64.0 MiB", 18979226: "18.1 MiB", 1<<30 + 1<<29: "1,536.0 MiB", 1 << 62: "4,398,046,511,104.0 MiB",
	} {
		require.Equal(t, want, sizeText(n), "%d", n)
	}
}

func TestCommasPartThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 91404: "91,404", 1234567: "1,234,567", -1000: "-1,000",
		-1 << 63: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, commas(n))
	}
	require.Equal(t, "1 segment", plural(1, "segment", "segments"))
	require.Equal(t, "0 segments", plural(0, "segment", "segments"))
	require.Equal(t, "2,000 segments", plural(2000, "segment", "segments"))
}

func TestQuotedTellsNullFromEmptyAndShowsNothingRaw(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		max  int
		want string
	}{
		{"null", nil, 0, "null"},
		{"empty", []byte{}, 0, `""`},
		{"the word null", []byte("null"), 0, `"null"`},
		{"control characters", []byte("a\tb\x1b[31m\x00"), 0, `"a\tb\x1b[31m\x00"`},
		{"not UTF-8", []byte{0xff, 'a'}, 0, `"\xffa"`},
		{"short enough", []byte("12345"), 5, `"12345"`},
		{"too long", []byte("123456"), 5, `"12345"... (6 B)`},
		{"cut between runes", []byte("123☃☃"), 5, `"123"... (9 B)`},
		{"nothing but continuation bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 4, `""... (6 B)`},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, quoted(tt.b, tt.max)) })
	}
}

func TestTimesAreForPeople(t *testing.T) {
	require.Equal(t, "-", timeText(-1))
	require.Equal(t, "2026-09-01T07:41:56.012Z", timeText(1788248516012))
	require.Equal(t, "2026-09-01T07:41:56Z", timeTextSeconds(1788248516012))
	require.Equal(t, "9223372036854775807", timeText(1<<63-1))
	require.Equal(t, "1970-01-01T00:00:00.000Z", timeText(0))
}
