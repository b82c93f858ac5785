package layout

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every name in the log directories of a real broker is known.
func TestParseKnowsWhatABrokerWrote(t *testing.T) {
	logDirs, err := filepath.Glob("../../testdata/kafka/[0-9]*/meta.properties")
	require.NoError(t, err)
	require.NotEmpty(t, logDirs)
	for _, meta := range logDirs {
		entries, err := os.ReadDir(filepath.Dir(meta))
		require.NoError(t, err)
		for _, entry := range entries {
			if !entry.IsDir() {
				requireKnown(t, entry.Name())
				continue
			}
			dir, err := ParseDir(entry.Name())
			require.NoError(t, err)
			name, err := dir.Name()
			require.NoError(t, err)
			require.Equal(t, entry.Name(), name)
			files, err := os.ReadDir(filepath.Join(filepath.Dir(meta), entry.Name()))
			require.NoError(t, err)
			for _, file := range files {
				requireKnown(t, file.Name())
			}
		}
	}
}

func requireKnown(t *testing.T, name string) {
	f, ok := ParseFile(name)
	require.True(t, ok, "%q", name)
	if f.Kind.Segment() {
		require.Equal(t, name, SegmentFileName(f.Kind, f.Base, f.State))
	}
}
