package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docs = "../../../../docs"

func TestRegeneratingChangesNothing(t *testing.T) {
	want := pages()
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join(docs, filepath.FromSlash(name)))
		require.NoError(t, err, "run: go run ./cmd/logtool/internal/gendocs")
		require.Equal(t, string(text), string(have), "%s is out of date; run: go run ./cmd/logtool/internal/gendocs", name)
	}
	for _, dir := range []string{"cli", "man"} {
		entries, err := os.ReadDir(filepath.Join(docs, dir))
		require.NoError(t, err)
		for _, e := range entries {
			require.Contains(t, want, dir+"/"+e.Name(), "no command has this page; remove it")
		}
	}
}

func TestManualEscapesWhatTheFormatterWouldTake(t *testing.T) {
	require.Equal(t, `\&.log files`, roff(".log files"))
	require.Equal(t, `\-\-to a\eb`, roff(`--to a\b`))
	require.Equal(t, "one\n.PP\ntwo\n", paragraphs("one\n\ntwo"))
}

func TestEveryCommandHasExamplesAndStatuses(t *testing.T) {
	for name, text := range pages() {
		if strings.HasPrefix(name, "cli/") {
			require.Contains(t, string(text), "## Examples", name)
			require.Contains(t, string(text), "## Exit status", name)
		}
	}
}
