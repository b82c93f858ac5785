package seglog

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateConfig = flag.Bool("update.config", false, "write the tables of docs/config.md anew")

// The page lists every setting that is known, and why those that do nothing do nothing.
// go test -run ThePageOfSettings -update.config
func TestThePageOfSettingsIsComplete(t *testing.T) {
	const path = "docs/config.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	want := string(page)
	var topics, dirs strings.Builder
	known := topicProperties()
	fmt.Fprint(&topics, "| setting | effect |\n| --- | --- |\n")
	for _, key := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(&topics, "| `%s` | %s |\n", key, effect(known[key].inert, ""))
	}
	fmt.Fprint(&dirs, "| setting | effect |\n| --- | --- |\n")
	brokers := dirProperties()
	for _, key := range slices.Sorted(maps.Keys(brokers)) {
		fmt.Fprintf(&dirs, "| `%s` | %s |\n", key, effect(brokers[key].inert, brokers[key].topic))
	}
	want = between(t, want, "topics", topics.String())
	want = between(t, want, "directory", dirs.String())
	if *updateConfig {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	require.Equal(t, want, string(page))
}

func effect(inert, topic string) string {
	switch {
	case inert != "":
		return "none: " + inert
	case topic != "":
		return "the default of `" + topic + "`"
	}
	return "applied"
}

func between(t *testing.T, page, name, table string) string {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	require.True(t, ok, name)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, name)
	return before + begin + table + end + after
}

// FuzzOptionsFromProperties: never panics; what is refused leaves the options as they
// were and says why; what is accepted is accepted by Open too.
func FuzzOptionsFromProperties(f *testing.F) {
	for _, seed := range [][2]string{{"segment.bytes", "14"}, {"segment.jitter.ms", "9223372036854775807"},
		{"compression.zstd.level", "-131072"}, {"compression.lz4.level", "17"}, {"compression.gzip.level", "9"},
		{"retention.ms", "-1"}, {"cleanup.policy", "compact,delete"}, {"message.timestamp.after.max.ms", "0"}, {"x", ""}} {
		f.Add(seed[0], seed[1], "zstd")
		f.Add(seed[0], seed[1], "lz4")
		f.Add(seed[0], seed[1], "gzip")
	}
	f.Fuzz(func(t *testing.T, key, value, codec string) {
		base := Options{SegmentBytes: 1000}
		o, err := OptionsFromProperties(base, map[string]string{key: value, "compression.type": codec})
		if err != nil {
			require.ErrorIs(t, err, ErrOption)
			require.Equal(t, base, o)
			return
		}
		_, err = o.resolve()
		require.NoError(t, err)
	})
}
