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
