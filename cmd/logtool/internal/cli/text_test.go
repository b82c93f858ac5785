package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
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

func TestVisibleEscapesWhatATerminalWouldObey(t *testing.T) {
	for _, tt := range []struct{ name, text, line, lines string }{
		{"plain", `a "b" \c ☃`, `a "b" \c ☃`, `a "b" \c ☃`},
		{"colour", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"start of line and bell", "a\rb\a\b", `a\rb\a\b`, `a\rb\a\b`},
		{"eight-bit controls", "\u009b31m\x9b31m", `\u009b31m\x9b31m`, `\u009b31m\x9b31m`},
		{"direction", "\u202egol", `\u202egol`, `\u202egol`},
		{"replacement character", "\ufffd", "\ufffd", "\ufffd"},
		{"lines", "a\n\tb", `a\n\tb`, "a\n\tb"},
	} {
		require.Equal(t, tt.line, visible(tt.text), tt.name)
		require.Equal(t, tt.lines, visibleLines(tt.text), tt.name)
	}
}

// What is said of files has in it what they hold and what they are called.
func TestNoCommandPassesControlCharactersOfFilesOn(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "orders-0")
	l, err := seglog.Open(dir, seglog.Options{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Zero(t, appendStdin(t, "a line\n", dir).status)
	evil := "\x1b[31mred\a\r"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "partition.metadata"), []byte("version: "+evil+"\n0\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leader-epoch-checkpoint"), []byte(evil+"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "recovery-point-offset-checkpoint"), []byte("0\n1\n"+evil+" 0 1\n"), 0o644))
	foreign := filepath.Join(root, "foreign")
	require.NoError(t, os.Mkdir(foreign, 0o755))
	for _, in := range []string{root, dir, foreign} {
		_ = os.WriteFile(filepath.Join(in, evil+".log"), nil, 0o644) // not a name everywhere
		_ = os.Mkdir(filepath.Join(in, evil+"-0"), 0o755)
	}
	for _, args := range [][]string{
		{"verify", dir}, {"verify", root}, {"ls", dir}, {"ls", root}, {"stat", dir}, {"stat", root}, {"stat", dir, "-o", "json"},
		{"verify", dir, "-o", "json"}, {"repair", dir}, {"append", foreign}, {"verify", foreign}, {"cat", dir + evil},
		{"dump", filepath.Join(dir, "partition.metadata")}, {"dump", filepath.Join(dir, "leader-epoch-checkpoint")}, {"dump", filepath.Join(dir, evil+".log")},
		{"dump", filepath.Join(root, "recovery-point-offset-checkpoint")}, {"recover", dir, filepath.Join(root, "copy")}, {evil}, {"ls", "--" + evil}, {"append", dir, "-v"},
	} {
		got := runIn(t, Env{Stdin: strings.NewReader("")}, args...)
		for _, text := range []string{got.stdout, got.stderr} {
			require.NotContains(t, text, "\x1b", "%q", args)
			require.NotContains(t, text, "\a", "%q", args)
			require.NotContains(t, text, "\r", "%q", args)
		}
	}
}
