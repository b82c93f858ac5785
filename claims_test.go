package seglog_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the README and docs/failures.md promise has a test: every one they name exists.
func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	defined := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			defined[string(m[1])] = true
		}
		defined[filepath.Base(path)] = true
		return err
	}))
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`(?:[a-z]+/)*(Test\\w+|\\w+_test.go)`").FindAllSubmatch(text, -1) {
			require.True(t, defined[string(m[1])], "%s names %s", document, m[1])
			named++
		}
	}
	require.Greater(t, named, 30)
}
