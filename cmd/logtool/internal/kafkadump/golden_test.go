package kafkadump

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

const goldens = "../../../../testdata/kafka"

// dump runs the dumper over one file and returns what it printed, as the goldens
// have it: without the directory, and with an exception as it ends the tool.
func dump(t *testing.T, path string, opts Options) (stdout, stderr string) {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	var out, complaints bytes.Buffer
	d := New(vfs.OS, &out, &complaints, opts)
	_, err = d.File(path)
	if err == nil {
		require.NoError(t, d.Findings())
	} else {
		var e *Exception
		require.True(t, errors.As(err, &e), "%v", err)
		fmt.Fprintf(&complaints, "Exception in thread \"main\" %v\n", e)
	}
	dir := filepath.Dir(path) + string(filepath.Separator)
	return strings.ReplaceAll(out.String(), dir, ""), strings.ReplaceAll(complaints.String(), dir, "")
}

// TestOutputIsThatOfKafkasOwnTool compares with what the tool of the Kafka
// release printed for each file in testdata/kafka.
func TestOutputIsThatOfKafkasOwnTool(t *testing.T) {
	compared := 0
	err := filepath.WalkDir(goldens, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(filepath.Dir(path)) != "dump" {
			return err
		}
		name, isStdout := strings.CutSuffix(e.Name(), ".txt")
		if !isStdout || strings.HasSuffix(name, ".err") || strings.HasSuffix(name, ".decoded") {
			return nil // the decoders of internal topics are not ours
		}
		var opts Options
		name, opts.Print = strings.CutSuffix(name, ".deep")
		dir := strings.Replace(filepath.Dir(filepath.Dir(path)), ".expect", "", 1)
		compared++
		t.Run(strings.TrimPrefix(path, goldens), func(t *testing.T) {
			stdout, stderr := dump(t, filepath.Join(dir, name), opts)
			require.Equal(t, content(t, path), stdout)
			require.Equal(t, content(t, strings.TrimSuffix(path, ".txt")+".err.txt"), stderr)
		})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, compared, 500)
}

// content is the content of a golden; one that is missing is empty.
func content(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return string(b)
}
