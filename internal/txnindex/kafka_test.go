package txnindex

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/layout"
)

// The indexes of a real broker pass the check, come back byte for byte, and hold
// what Kafka's dump tool says they hold.
func TestIndexesOfABrokerAreReadAsKafkaReadsThem(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/kafka/[0-9]*/*/*.txnindex")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		name, ok := layout.ParseFile(filepath.Base(path))
		require.True(t, ok)
		x, err := OpenReadOnly(path, name.Base, Options{})
		require.NoError(t, err)
		require.NoError(t, x.Check())
		var encoded []byte
		text := "Dumping " + name.Name + "\n"
		for _, e := range all(t, x) {
			encoded = AppendEntry(encoded, e)
			text += fmt.Sprintf("version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
				e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
		}
		require.NoError(t, x.Close())
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, data, encoded, path)
		require.Equal(t, dumped(t, path), text, path)
	}
}

// dumped returns what Kafka's dump tool printed for a file.
func dumped(t *testing.T, path string) string {
	partition := filepath.Dir(path)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(partition)+".expect", filepath.Base(partition), "dump", filepath.Base(path)+".txt"))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
