package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
)

func TestUUIDIsTwentyTwoCharacters(t *testing.T) {
	id := UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", id.String())
	got, ok := ParseUUID("AAECAwQFBgcICQoLDA0ODw")
	require.True(t, ok)
	require.Equal(t, id, got)
	require.False(t, id.IsZero())

	url := UUID{0xfb, 0xef, 0xff}
	require.Equal(t, "--__AAAAAAAAAAAAAAAAAA", url.String())
	got, ok = ParseUUID(url.String())
	require.True(t, ok)
	require.Equal(t, url, got)

	for _, s := range []string{
		"",
		"AAECAwQFBgcICQoLDA0OD",    // 21 characters
		"AAECAwQFBgcICQoLDA0ODwA",  // 23 characters
		"AAECAwQFBgcICQoLDA0ODw==", // padding
		"AAECAwQFBgcICQoLDA0ODx",   // stray bits
		"AAECAwQFBgcICQoLDA0OD+",
		"AAECAwQFBgcICQoLDA0\nDw",
	} {
		_, ok := ParseUUID(s)
		require.False(t, ok, "%q", s)
	}
}

func TestPartitionMetadataComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partition.metadata")
	_, err := ReadPartitionMetadata(vfs.OS, path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	want := PartitionMetadata{TopicID: UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	require.NoError(t, WritePartitionMetadata(vfs.OS, path, want))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", string(data))
	got, err := ReadPartitionMetadata(vfs.OS, path)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.ErrorIs(t, WritePartitionMetadata(vfs.OS, path, PartitionMetadata{}), ErrInvalid)
	require.ErrorIs(t, WritePartitionMetadata(vfs.OS, path, PartitionMetadata{Version: -1, TopicID: want.TopicID}), ErrInvalid)
}

func TestPartitionMetadataReadsLaterVersions(t *testing.T) {
	got, err := ParsePartitionMetadata([]byte("version:\t7\r\ntopic_id:  AAECAwQFBgcICQoLDA0ODw\nmore: things\n"))
	require.NoError(t, err)
	require.Equal(t, int32(7), got.Version)
	require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", got.TopicID.String())
}

func TestPartitionMetadataNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
	}{
		{"empty", "", 1},
		{"no version", "version\ntopic_id: AAECAwQFBgcICQoLDA0ODw", 1},
		{"no blank", "version:0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", 1},
		{"negative version", "version: -1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", 1},
		{"other key", "topic_id: AAECAwQFBgcICQoLDA0ODw\nversion: 0", 1},
		{"no id", "version: 0\n", 2},
		{"short id", "version: 0\ntopic_id: AAEC", 2},
		{"zero id", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "partition.metadata")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			got, err := ReadPartitionMetadata(vfs.OS, path)
			require.Zero(t, got)
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, path, corrupt.File)
			require.Equal(t, tt.line, corrupt.Line)
		})
	}
}

// FuzzParsePartitionMetadata: never panics; what parses comes back from what is
// written of it.
func FuzzParsePartitionMetadata(f *testing.F) {
	for _, seed := range []string{
		"", "version: 0\n", "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
		"version: 7\r\ntopic_id:\tAAECAwQFBgcICQoLDA0ODw\r\nmore: things\n",
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParsePartitionMetadata(data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		again, err := ParsePartitionMetadata(AppendPartitionMetadata(nil, m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestCleanShutdownComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".kafka_cleanshutdown")
	_, _, err := ReadCleanShutdown(vfs.OS, path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, WriteCleanShutdown(vfs.OS, path, 5))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"version":0,"brokerEpoch":5}`, string(data))
	epoch, known, err := ReadCleanShutdown(vfs.OS, path)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, int64(5), epoch)
}

// The file counts by being there; its content is a bonus.
func TestCleanShutdownCountsWhateverItHolds(t *testing.T) {
	for _, text := range []string{
		"", "0", "null", "{}", "[]", `{"version":0}`, `{"brokerEpoch":null}`, `{"brokerEpoch":"x"}`,
		`{"brokerEpoch":5`, "\x00\x00", `{"brokerEpoch":9223372036854775808}`,
	} {
		path := filepath.Join(t.TempDir(), ".kafka_cleanshutdown")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, known, err := ReadCleanShutdown(vfs.OS, path)
		require.NoError(t, err, text)
		require.False(t, known, text)
	}
}
